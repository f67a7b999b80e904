//! Goal: a database that an earlier version wrote is opened by every later one, with the same
//! content.
//!
//! Method: `golden/<format>` holds small databases of each durable method, made once by the version
//! that introduced the format: closed, cut off in a transaction, and cut off in a prepared one.
//! Copies are opened, compared with the text beside them, checked, and written to. Files that claim
//! a newer version or another byte order must be refused. Backups of each version are there as
//! well, those of pages with archives, and are restored. Format 2 is about the database as a whole,
//! so its images have the descriptor: one was closed, one copied while it was open.
//!
//! Images that are missing are made by `CREATE_GOLDEN=1 cargo test --test methods compat`,
//! which only a new format number or method may need; those that are there stay. An archive is an
//! LZ4 frame of `name bytes u32 | name | content bytes u64 | content` for each file.

use crate::common::{Directory, people, small};
use indelible::{Column, DataType, Database, Existing, Options, Owner, Replay, TransactionOptions};
use lz4_flex::frame::{FrameDecoder, FrameEncoder};
use pmem::{POOL_FORMAT, POOL_FORMAT_MAX};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use storage::engine::{EngineOptions, Method};
use storage::record::LayoutKind;
use tests::place::{Device, Files, Place, small_engine};
use tests::session::Session;
use tests::source::package;

/// Commands that make the databases.
const MAKE: &[&str] = &[
    "create-table t id=int64 a=bool? b=int16? c=int32? d=float64? e=decimal(10,2)? f=char(5)? \
     g=varchar(12)? h=bytes(6)? i=date? j=timestamp? k=uuid? note=text? key=id index:by_g=g",
    "create-table pairs x=varchar(10) y=int32 value=decimal(30,4) key=x,y unique:by_value=value",
    "fill t 1..40",
    "update t 7 note=\"long \"*600",
    "fill pairs 1..25 step=7",
    "checkpoint",
    "erase t 11..14",
    "change t 20..22 g=\"changed\"",
    "create-index t by_c=c",
    "drop-index t by_c",
];

/// The transaction that is open in the images that were cut off. The read makes its changes
/// visible.
const CUT: &[&str] = &[
    "begin",
    "change t 1..9 note=\"cut off\"",
    "insert t 99 true 9 9 9 9 \"cut\" \"cut\" \\x09 2026-01-01 NULL NULL NULL",
    "delete t 30",
    "count t by=by_g",
];

/// Commands that show the content.
const SHOW: &[&str] = &[
    "tables",
    "scan t",
    "scan t by=by_g reverse",
    "scan pairs by=by_value",
    "verify",
];

/// Global number of the prepared transaction.
const PREPARED: u64 = 7;

/// How a golden database was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Cut,
    Prepared,
}

const STATES: [State; 3] = [State::Closed, State::Cut, State::Prepared];

fn methods() -> impl Iterator<Item = Method> {
    Method::ALL.into_iter().filter(|method| method.is_durable())
}

/// The layouts that rows of a method have; in pages they lie together.
fn layouts(method: Method) -> &'static [LayoutKind] {
    if method.axes().is_some() {
        &[LayoutKind::Together]
    } else {
        &[LayoutKind::Together, LayoutKind::Separate]
    }
}

fn options(layout: LayoutKind) -> EngineOptions {
    EngineOptions {
        layout,
        database_id: 0x1de1_1b1e,
        pool_bytes: 256 << 10,
        checkpoint_log_bytes: 64 << 10,
        // Small enough to freeze a MemTable on the way, so that runs are opened as well.
        memtable_bytes: 16 << 10,
        ..small_engine()
    }
}

fn folder(format: u32) -> PathBuf {
    package().join(format!("golden/{format}"))
}

fn archive(format: u32, method: Method, layout: LayoutKind, state: State) -> PathBuf {
    let name = format!("{method}-{layout:?}-{state:?}.lz4").to_lowercase();
    folder(format).join(name)
}

fn pack(files: &Files) -> Vec<u8> {
    let mut encoder = FrameEncoder::new(Vec::new());
    for (name, content) in files {
        encoder
            .write_all(&(name.len() as u32).to_le_bytes())
            .unwrap();
        encoder.write_all(name.as_bytes()).unwrap();
        encoder
            .write_all(&(content.len() as u64).to_le_bytes())
            .unwrap();
        encoder.write_all(content).unwrap();
    }
    encoder.finish().unwrap()
}

fn golden_of(path: &Path) -> Files {
    unpack(&fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn unpack(packed: &[u8]) -> Files {
    let mut bytes = Vec::new();
    FrameDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let mut rest = bytes.as_slice();
    let mut take = |count: usize| rest.split_off(..count).unwrap();
    let mut files = Files::new();
    let mut left = bytes.len();
    while left > 0 {
        let name_bytes = u32::from_le_bytes(take(4).try_into().unwrap()) as usize;
        let name = String::from_utf8(take(name_bytes).to_vec()).unwrap();
        let content_bytes = u64::from_le_bytes(take(8).try_into().unwrap()) as usize;
        files.insert(name, take(content_bytes).to_vec());
        left -= 12 + name_bytes + content_bytes;
    }
    files
}

fn golden(method: Method, layout: LayoutKind, state: State) -> Files {
    golden_of(&archive(POOL_FORMAT, method, layout, state))
}

fn make(method: Method, layout: LayoutKind, state: State) -> Files {
    let mut session = Session::new(Place::new(Device::Native), method, options(layout)).unwrap();
    let run = |session: &mut Session, line: &str| session.run(line).unwrap();
    for line in MAKE {
        run(&mut session, line);
    }
    if state != State::Closed {
        for line in CUT {
            run(&mut session, line);
        }
    }
    match state {
        State::Closed => run(&mut session, "reopen"),
        State::Cut => Vec::new(),
        State::Prepared => run(&mut session, &format!("prepare {PREPARED}")),
    };
    session.place().files().unwrap()
}

fn show(session: &mut Session) -> String {
    let lines = session.run_block(SHOW.iter().copied());
    format!("{}\n", lines.join("\n"))
}

fn open(files: &Files, method: Method, decided: &[u64]) -> Result<Session, String> {
    // The file says which layout it has; the options of the opener do not matter.
    let place = Place::with_files(files).unwrap();
    Session::open(place, method, options(LayoutKind::Together), decided)
}

fn create_if_wanted() {
    if std::env::var_os("CREATE_GOLDEN").is_none() {
        return;
    }
    fs::create_dir_all(folder(POOL_FORMAT)).unwrap();
    for method in methods() {
        for &layout in layouts(method) {
            for state in STATES {
                let path = archive(POOL_FORMAT, method, layout, state);
                if path.exists() {
                    continue;
                }
                let files = make(method, layout, state);
                fs::write(path, pack(&files)).unwrap();
                for (decided, name) in [(&[][..], "content.txt"), (&[PREPARED][..], "decided.txt")]
                {
                    if state == State::Prepared {
                        let content = show(&mut open(&files, method, decided).unwrap());
                        fs::write(folder(POOL_FORMAT).join(name), content).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn golden_databases_open_with_their_content() {
    create_if_wanted();
    let text = |name: &str| fs::read_to_string(folder(POOL_FORMAT).join(name)).unwrap();
    for method in methods() {
        for &layout in layouts(method) {
            for state in STATES {
                let files = golden(method, layout, state);
                let case = format!("{method}, {layout:?}, {state:?}");
                let mut session = open(&files, method, &[]).unwrap();
                assert_eq!(show(&mut session), text("content.txt"), "{case}");
                // It works on, and new writes are there.
                for line in ["insert pairs \"new\" 1 -5", "erase t 1..10", "crash"] {
                    session.run(line).unwrap();
                }
                let count = session.run_block(["count t", "count pairs", "verify"].into_iter());
                let expected = ["26 rows", "26 rows", "sound: 52 rows, 104 index entries"];
                assert_eq!(count, expected, "{case}");
            }
            let files = golden(method, layout, State::Prepared);
            let mut session = open(&files, method, &[PREPARED]).unwrap();
            assert_eq!(
                show(&mut session),
                text("decided.txt"),
                "{method}, {layout:?}"
            );
        }
    }
}

/// Opens the closed golden database with `bytes` at `offset` of every file that ends in `name`, and
/// a checksum over `covered` bytes after them, if given.
fn refused(
    method: Method,
    name: &str,
    patches: &[(usize, &[u8])],
    covered: Option<usize>,
) -> String {
    let mut files = golden(method, LayoutKind::Together, State::Closed);
    let mut files_changed = 0;
    for (_, content) in files.iter_mut().filter(|(file, _)| file.contains(name)) {
        for (offset, bytes) in patches {
            content[*offset..*offset + bytes.len()].copy_from_slice(bytes);
        }
        if let Some(covered) = covered {
            let checksum = crc32c::crc32c(&content[..covered]).to_le_bytes();
            content[covered..covered + 4].copy_from_slice(&checksum);
        }
        files_changed += 1;
    }
    assert!(files_changed > 0, "{method} has no file {name}");
    open(&files, method, &[])
        .err()
        .unwrap_or_else(|| panic!("{method}: a changed {name} was opened"))
}

#[test]
fn newer_versions_are_refused() {
    let newer = (POOL_FORMAT_MAX + 1).to_le_bytes();
    let message = refused(
        Method::NvmInp,
        ".pool",
        &[(12, &newer), (4096 + 12, &newer)],
        None,
    );
    assert!(
        message.contains(&format!("newer version (format {}", POOL_FORMAT_MAX + 1)),
        "{message}"
    );
    for (name, covered) in [(".wal.", 56), (".checkpoint.", 88)] {
        let newer = 3_u32.to_le_bytes();
        let message = refused(Method::Inp, name, &[(8, &newer)], Some(covered));
        assert!(
            message.contains("version 3") && message.contains(name),
            "{message}"
        );
    }
}

#[test]
fn files_of_machines_with_the_other_byte_order_are_refused() {
    let order = 0x0102_0304_u32.to_be_bytes();
    let version = POOL_FORMAT.to_be_bytes();
    let patches: &[(usize, &[u8])] = &[
        (8, &order),
        (12, &version),
        (4096 + 8, &order),
        (4096 + 12, &version),
    ];
    let message = refused(Method::NvmInp, ".pool", patches, None);
    assert!(
        message.contains("big-endian") && message.contains("little-endian"),
        "{message}"
    );
    // In logs and checkpoints the version number shows it, in whichever place the mark is.
    for (name, covered) in [(".wal.", 56), (".checkpoint.", 80)] {
        let message = refused(Method::Inp, name, &[(8, &version)], Some(covered));
        assert!(
            message.contains("big-endian") && message.contains("little-endian"),
            "{message}"
        );
    }
}

/// How a golden database of format 2, with its descriptor, was left. The last one has pools of
/// their format 2.
const WHOLE_STATES: [&str; 3] = ["closed", "killed", "killed-pool-2"];
/// Rows that are in it.
const WHOLE_ROWS: i64 = 60;
/// Methods whose pools have format 2.
const POOLS_OF_FORMAT_2: [Method; 2] = [Method::NvmInp, Method::NvmLog];

fn whole(method: Method, state: &str) -> PathBuf {
    package().join(format!("golden/2/{method}-{state}.lz4"))
}

fn files_in(directory: &Directory) -> Files {
    let named = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let content = fs::read(entry.path()).unwrap();
        (entry.file_name().into_string().unwrap(), content)
    };
    let entries = fs::read_dir(directory.path()).unwrap();
    entries.map(named).collect()
}

/// A database that was opened twice, with a checkpoint on the way.
fn make_whole(method: Method, state: &str) -> Files {
    let here = Directory::new();
    let options = small(method, 2);
    let database = Database::create(here.path(), &options).unwrap();
    let table = people(&database);
    let add = |database: &Database, from: i64| {
        let added = database.transaction(|t| {
            let rows = from..from + WHOLE_ROWS / 3;
            rows.into_iter()
                .try_for_each(|id| t.insert(&table_of(database), (id, "x", Some(id))))
        });
        added.unwrap();
    };
    add(&database, 0);
    database.checkpoint().unwrap();
    add(&database, WHOLE_ROWS / 3);
    drop(table);
    database.close().unwrap();
    let database = Database::open_with(here.path(), &options).unwrap();
    add(&database, 2 * WHOLE_ROWS / 3);
    if state == "closed" {
        database.close().unwrap();
    }
    files_in(&here)
}

fn table_of(database: &Database) -> indelible::Table {
    database.table("people").unwrap()
}

/// Format of new pools of `nvm-inp` and `nvm-log`; those with `--fences paper` have a later one.
const FORMAT_OF_NEW_POOLS: u32 = 3;

#[test]
fn whole_databases_of_format_2_open_with_their_content() {
    for method in methods() {
        let has_pools = POOLS_OF_FORMAT_2.contains(&method);
        for state in &WHOLE_STATES[..2 + usize::from(has_pools)] {
            let path = whole(method, state);
            if std::env::var_os("CREATE_GOLDEN").is_some() && !path.exists() {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, pack(&make_whole(method, state))).unwrap();
            }
            let here = Directory::new();
            fs::create_dir(here.path()).unwrap();
            for (name, content) in golden_of(&path) {
                fs::write(here.path().join(name), content).unwrap();
            }
            if has_pools {
                let format = if state.ends_with("pool-2") { 2 } else { 1 };
                assert_eq!(pool_format(&here), format, "{method} {state}");
            }
            for more in 0..2 {
                let database = Database::open(here.path()).unwrap();
                let report = database.verify().unwrap();
                assert!(report.damage.is_empty(), "{method} {state}: {report:?}");
                let table = table_of(&database);
                let rows = database.read(|r| r.count(&table, ..)).unwrap();
                assert_eq!(rows.cast_signed(), WHOLE_ROWS + more, "{method} {state}");
                let id = WHOLE_ROWS + more;
                database
                    .transaction(|t| t.insert(&table, (id, "new", Some(id))))
                    .unwrap();
            }
            let is_newest = has_pools && pool_format(&here) == FORMAT_OF_NEW_POOLS;
            assert!(!has_pools || is_newest, "{method} {state}");
        }
    }
}

fn pool_format(here: &Directory) -> u32 {
    let content = fs::read(here.path().join("p0.pool")).unwrap();
    u32::from_le_bytes(content[12..16].try_into().unwrap())
}

/// Methods with golden databases that have definitions of version 2.
const DEFINED: [Method; 3] = [Method::NvmInp, Method::Log, Method::FullPageWrites];

/// A long content with its end, so that keys have only a hash of that.
fn long(end: i64) -> String {
    format!("{}{end}", "long ".repeat(30))
}

/// A content that is too long for its room in a key, too.
fn amount(id: i64) -> Vec<u8> {
    [vec![7; 80], id.to_be_bytes().to_vec()].concat()
}

/// A database with all that version 2 of definitions adds: truncated keys, a sortable column, a
/// table of SQL, one that replaced another, and a hidden one.
fn make_defined(method: Method) -> Files {
    let here = Directory::new();
    let database = Database::create(here.path(), &small(method, 1)).unwrap();
    let table = database
        .create_table("names")
        .column("name", DataType::Text)
        .column("amount", DataType::Sortable { max: 100 })
        .owner(Owner::Sql)
        .unique_index("by_amount", ["amount"])
        .create()
        .unwrap();
    let unchecked = TransactionOptions::new().unchecked(true);
    database
        .transaction_with(&unchecked, |t| {
            (0..9).try_for_each(|id| t.insert(&table, (long(id), amount(id))))
        })
        .unwrap();
    let column = Column::new("more", DataType::Int32);
    let changed = database
        .alter_table(&table)
        .add_column(column, 5_i32)
        .apply();
    database.analyze(&changed.unwrap()).unwrap();
    drop(table);
    database.close().unwrap();
    files_in(&here)
}

#[test]
fn definitions_of_version_2_open_with_their_content() {
    for method in DEFINED {
        let path = package().join(format!("golden/2/{method}-definitions.lz4"));
        if std::env::var_os("CREATE_GOLDEN").is_some() && !path.exists() {
            fs::write(&path, pack(&make_defined(method))).unwrap();
        }
        let here = Directory::new();
        fs::create_dir(here.path()).unwrap();
        for (name, content) in golden_of(&path) {
            fs::write(here.path().join(name), content).unwrap();
        }
        let database = Database::open(here.path()).unwrap();
        let report = database.verify().unwrap();
        assert!(report.damage.is_empty(), "{method}: {report:?}");
        assert_eq!(
            report.truncated_keys, 18,
            "{method}: two columns of nine rows"
        );
        let table = database.table("names").unwrap();
        let def = table.definition();
        assert_eq!(def.owner, Owner::Sql);
        assert!(def.replaces.is_some_and(|replaced| replaced < def.id));
        let by_amount = table.index("by_amount").unwrap();
        let rows = database.read(|r| r.find(&by_amount, amount(7))).unwrap();
        assert_eq!(rows[0].get(0).as_str(), Some(long(7).as_str()));
        assert_eq!(rows[0].get(2).as_i64(), Some(5));
        let found = database.read(|r| r.get(&table, long(8).as_str())).unwrap();
        assert!(found.is_some(), "{method}");
        let statistics = database.table_statistics(&table).unwrap().unwrap();
        assert_eq!((statistics.rows, statistics.columns.len()), (9, 3));
        let count = table.row_count().unwrap();
        assert_eq!((count.rows, count.is_exact), (9, true), "{method}");
    }
}

/// The golden backups: the version's number, and the method and the partitions of the database.
const BACKUPS: [(u32, Method, u32); 3] = [
    (1, Method::Inp, 2),
    (2, Method::FullPageWrites, 1),
    (3, Method::NvLogging, 2),
];
const BACKUP: &str = "backup";
/// Rows that are in the backup, and those that its archives have as well.
const BACKED_UP: i64 = 20;
const ARCHIVED: i64 = 30;

fn backup(version: u32) -> PathBuf {
    folder(POOL_FORMAT).join(format!("backup-{version}.lz4"))
}

fn make_backup(version: u32, method: Method, partitions: u32) -> Files {
    let (here, kept) = (Directory::new(), Directory::new());
    let options = Options::new().method(method).partitions(partitions);
    let has_pages = version > 1;
    let options = if has_pages {
        options.archive(kept.path())
    } else {
        fs::create_dir(kept.path()).unwrap();
        options
    };
    let database = Database::create(here.path(), &options).unwrap();
    let table = people(&database);
    let add = |from, end| {
        let added = database
            .transaction(|t| (from..end).try_for_each(|id| t.insert(&table, (id, "x", Some(id)))));
        added.unwrap();
    };
    add(0, BACKED_UP);
    let file = kept.path().join(BACKUP);
    let taken = if has_pages {
        database.backup_pages(&file, Existing::Refuse, &mut |_| {})
    } else {
        database.backup(&file)
    };
    taken.unwrap();
    add(BACKED_UP, ARCHIVED);
    drop((table, database));
    files_in(&kept)
}

/// Makes a database of a backup and says how many rows it has, the first ones that were inserted.
fn restored_rows(file: &Path, replay: Option<&Replay>) -> i64 {
    let new = Directory::new();
    let options = Options::new().method(Method::NvmInp);
    let restored = match replay {
        Some(replay) => {
            Database::restore_replaying(file, replay, new.path(), &options, &mut |_| {})
        }
        None => Database::restore(file, new.path(), &options),
    };
    restored.unwrap();
    let database = Database::open(new.path()).unwrap();
    assert!(database.verify().unwrap().damage.is_empty());
    let table = database.table("people").unwrap();
    let rows = database.read(|r| r.count(&table, ..)).unwrap();
    let rows = rows.cast_signed();
    for id in 0..rows {
        let row = database.read(|r| r.get(&table, id)).unwrap().unwrap();
        assert_eq!(row.get(1).as_str(), Some("x"));
        assert_eq!(row.get(2).as_i64(), Some(id));
    }
    rows
}

#[test]
fn golden_backups_are_restored_with_their_content() {
    for (version, method, partitions) in BACKUPS {
        let path = backup(version);
        if std::env::var_os("CREATE_GOLDEN").is_some() && !path.exists() {
            fs::write(&path, pack(&make_backup(version, method, partitions))).unwrap();
        }
        let kept = Directory::new();
        fs::create_dir(kept.path()).unwrap();
        let files = golden_of(&path);
        for (name, content) in &files {
            fs::write(kept.path().join(name), content).unwrap();
        }
        let file = kept.path().join(BACKUP);
        assert_eq!(files[BACKUP][8..12], version.to_le_bytes());
        assert_eq!(restored_rows(&file, None), BACKED_UP, "version {version}");
        if version > 1 {
            let replay = Replay::new(kept.path());
            let rows = restored_rows(&file, Some(&replay));
            assert_eq!(rows, ARCHIVED, "version {version}");
        }
    }
}
