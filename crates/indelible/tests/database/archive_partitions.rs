//! Archives of several partitions: a database restored from them is one moment of the original, no
//! matter where each archive ends.
//!
//! Threads move money between partitions, and copy a counter of one partition to another, which
//! leaves a record only where it writes. The archive is copied meanwhile, file by file, as the loss
//! of the medium would leave it, and again at the end; or the process (this program once more) is
//! killed. Every restored database has all the money, and no copy is ahead of its counter.

use crate::common::{Directory, is_long, small_options};
use indelible::{
    CopyReport, DataType, Database, Existing, Method, Options, Partitioning, Replay, ReplayEnd,
    Result, Table, Timestamp,
};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// One for each kind of log.
const METHODS: [Method; 4] = [
    Method::FullPageWrites,
    Method::NvDiskDecentralized,
    Method::NvLogging,
    Method::DistributedLog,
];

/// All of them, or every other one without `LONG_TESTS`.
fn methods() -> impl Iterator<Item = Method> {
    METHODS.into_iter().step_by(if is_long() { 1 } else { 2 })
}

const PARTITIONS: i64 = 3;
const ACCOUNTS: i64 = 30;
const BALANCE: i64 = 1000;
/// In partitions 0 and 2: the copy's transaction writes only there.
const COUNTER: i64 = 300;
const SEEN: i64 = 302;
/// Names the database for the process that is killed.
const DATABASE: &str = "ARCHIVE_PARTITIONS_DATABASE";
/// The name of the test that is that process.
const VICTIM: &str = "archive_partitions::the_process_that_is_killed";
const KILLS: usize = 2;

/// Archives grow fast, and marks are frequent.
fn brisk() -> Options {
    Options::new()
        .checkpoint_log_bytes(64 << 10)
        .buffer_bytes(1 << 20)
        .mark_interval(Duration::from_millis(5))
}

fn options(method: Method, archive: &Directory) -> Options {
    brisk()
        .method(method)
        .partitions(PARTITIONS as u32)
        .archive(archive.path())
}

fn new_database(here: &Directory, options: &Options) -> (Database, Table) {
    let database = Database::create(here.path(), options).unwrap();
    let table = database
        .create_table("accounts")
        .column("id", DataType::Int64)
        .column("balance", DataType::Int64)
        .column("fill", DataType::Varchar { max: 400 })
        .primary_key(["id"])
        .partitioning(Partitioning::Modulo)
        .create()
        .unwrap();
    let rows = (0..ACCOUNTS).map(|id| (id, BALANCE));
    for (id, balance) in rows.chain([(COUNTER, 0), (SEEN, 0)]) {
        let insert = database.transaction(|t| t.insert(&table, (id, balance, "")));
        insert.unwrap();
    }
    (database, table)
}

fn now() -> Timestamp {
    Timestamp(i64::try_from(UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap())
}

fn add(t: &mut indelible::Transaction<'_>, table: &Table, id: i64, more: i64) -> Result<i64> {
    let row = t.get(table, id)?.unwrap();
    let balance = row.get(1).as_i64().unwrap() + more;
    set(t, table, id, balance)?;
    Ok(balance)
}

fn set(t: &mut indelible::Transaction<'_>, table: &Table, id: i64, balance: i64) -> Result<()> {
    let mut changes = table.changes();
    changes.set(table.column("balance")?, balance)?;
    // So that logs grow.
    let fill = format!("{balance:0>380}");
    changes.set(table.column("fill")?, fill.as_str())?;
    t.update(table, id, &changes).map(drop)
}

/// Longer than the work may take on any machine: a working thread may have failed.
const LONG: Duration = Duration::from_mins(30);

/// Moments at which the counter had certain values for sure.
type Counted = Mutex<Vec<(Timestamp, i64)>>;

/// Moves, counts and copies until it is told to end.
fn work(database: &Database, table: &Table, end: &AtomicBool, counted: &Counted) {
    let going_on = || !end.load(Ordering::Relaxed);
    let settle = |result: Result<i64>| match result {
        Err(error) if error.should_retry() => None,
        result => Some(result.unwrap()),
    };
    std::thread::scope(|threads| {
        for seed in 0..2_i64 {
            threads.spawn(move || {
                let mut number = seed;
                while going_on() {
                    number = (number * 1_103_515_245 + 12345) % (1 << 31);
                    let (from, to) = (number % ACCOUNTS, (number / 64) % ACCOUNTS);
                    settle(database.transaction(|t| {
                        add(t, table, from, -1)?;
                        add(t, table, to, 1)
                    }));
                }
            });
        }
        threads.spawn(|| {
            while going_on() {
                if let Some(value) = settle(database.transaction(|t| add(t, table, COUNTER, 1))) {
                    counted.lock().unwrap().push((now(), value));
                }
            }
        });
        threads.spawn(|| {
            while going_on() {
                settle(database.transaction(|t| {
                    let value = t.get(table, COUNTER)?.unwrap().get(1).as_i64().unwrap();
                    set(t, table, SEEN, value)?;
                    Ok(value)
                }));
            }
        });
    });
}

/// Makes a database, checks that it shows one moment, and returns the counter at that moment.
fn restored(
    base: &Directory,
    archive: &Directory,
    until: Option<Timestamp>,
) -> Result<(CopyReport, i64)> {
    let new = Directory::new();
    let replay = Replay::new(archive.path());
    let replay = until.map_or(replay.clone(), |until| replay.until_time(until));
    let options = small_options(Method::NvmInp);
    let report =
        Database::restore_replaying(base.path(), &replay, new.path(), &options, &mut |_| {})?;
    let database = Database::open(new.path())?;
    assert!(database.verify()?.damage.is_empty());
    let table = database.table("accounts")?;
    let value =
        |id: i64| database.read(|r| Ok(r.get(&table, id)?.unwrap().get(1).as_i64().unwrap()));
    let sum: i64 = (0..ACCOUNTS).map(|id| value(id).unwrap()).sum();
    assert_eq!(sum, ACCOUNTS * BALANCE, "{report:?}");
    let (counter, seen) = (value(COUNTER)?, value(SEEN)?);
    assert!(seen <= counter, "{seen} was read of {counter}: {report:?}");
    Ok((report, counter))
}

/// Copies the files that an archive has now.
fn copied(archive: &Directory) -> Directory {
    let copy = Directory::new();
    fs::create_dir(copy.path()).unwrap();
    let files = fs::read_dir(archive.path()).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    names.sort();
    for name in names {
        // A file without its final name may disappear meanwhile.
        if !name.to_str().unwrap().ends_with("tmp") {
            fs::copy(archive.path().join(&name), copy.path().join(&name)).unwrap();
        }
    }
    copy
}

fn archived_files(archive: &Directory, partition: i64) -> usize {
    let prefix = format!("p{partition}.archive.");
    let files = fs::read_dir(archive.path()).unwrap();
    let is_here = |name: &std::ffi::OsString| name.to_str().unwrap().starts_with(&prefix);
    files
        .filter(|file| is_here(&file.as_ref().unwrap().file_name()))
        .count()
}

/// Waits until the archives of all partitions have two files more.
fn wait_for_growth(archive: &Directory) {
    let begun = Instant::now();
    let files = |partition| archived_files(archive, partition);
    let before: Vec<usize> = (0..PARTITIONS).map(files).collect();
    let has_grown = |(partition, &before)| files(partition) > before + 1;
    while !(0..).zip(&before).all(has_grown) {
        assert!(begun.elapsed() < LONG, "{before:?} files stay as many");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a copy of the archives has a mark later than `after`; returns its time and the
/// counter at that moment. On a slow disk marks are rare, and for a while the archives give nothing
/// but the backup.
fn wait_for_mark(base: &Directory, archive: &Directory, after: Timestamp) -> (Timestamp, i64) {
    loop {
        wait_for_growth(archive);
        let (report, value) = restored(base, &copied(archive), None).unwrap();
        match report.replayed.unwrap().end {
            ReplayEnd::Mark(Some(time)) if time > after => return (time, value),
            _ => {}
        }
    }
}

/// Ends the work also when the test fails meanwhile.
struct EndOfWork<'a>(&'a AtomicBool);

impl Drop for EndOfWork<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_is_made_of_archives_in_flight_is_one_moment() {
    for method in methods() {
        let (here, archive, base) = (Directory::new(), Directory::new(), Directory::new());
        let (database, table) = new_database(&here, &options(method, &archive));
        let (end, counted) = (AtomicBool::new(false), Counted::default());
        let times = std::thread::scope(|threads| {
            let _end = EndOfWork(&end);
            threads.spawn(|| work(&database, &table, &end, &counted));
            std::thread::sleep(Duration::from_millis(50));
            database
                .backup_pages(base.path(), Existing::Refuse, &mut |_| {})
                .unwrap();
            let mut after = Timestamp(0);
            [(); 3].map(|()| {
                let mark = wait_for_mark(&base, &archive, after);
                after = mark.0;
                mark
            })
        });
        let all = Directory::new();
        let content = database.backup(all.path()).unwrap().content;
        drop((table, database));
        let (report, _) = restored(&base, &archive, None).unwrap();
        assert_eq!(report.content, content, "{method}");
        // Each restored moment has everything that was acknowledged by then, up to the mark, and
        // nothing later.
        let counted = counted.into_inner().unwrap();
        let (first, last) = (times[0].0.0, times[2].0.0);
        let between = (1..4).map(|part| Timestamp(first + (last - first) * part / 4));
        for until in between.chain(times.iter().map(|(time, _)| *time)) {
            let (report, value) = restored(&base, &archive, Some(until)).unwrap();
            let ReplayEnd::Mark(Some(time)) = report.replayed.unwrap().end else {
                panic!("{method}: no mark is found");
            };
            assert!(time <= until);
            let told = counted.iter().rfind(|(at, _)| *at < time);
            assert!(told.is_none_or(|(_, count)| *count <= value), "{method}");
            let same = times.iter().find(|(at, _)| *at == time);
            assert!(same.is_none_or(|(_, then)| *then == value), "{method}");
        }
        let refused = |until| {
            restored(&base, &archive, Some(until))
                .unwrap_err()
                .to_string()
        };
        let told = refused(now());
        assert!(told.contains("cannot be reached"), "{told}");
        let told = refused(Timestamp(1 << 50));
        assert!(told.contains("before the backup"), "{told}");
    }
}

#[test]
fn without_a_mark_behind_the_backup_it_is_the_backup() {
    let (here, archive, base) = (Directory::new(), Directory::new(), Directory::new());
    let options = options(Method::FullPageWrites, &archive).mark_interval(Duration::from_hours(1));
    let (database, table) = new_database(&here, &options);
    database.checkpoint().unwrap();
    let taken = database.backup_pages(base.path(), Existing::Refuse, &mut |_| {});
    assert!(taken.unwrap().pages > 0);
    let count = || {
        database
            .transaction(|t| add(t, &table, COUNTER, 1))
            .unwrap()
    };
    // One partition continues, and its archive with it.
    let files = archived_files(&archive, 0);
    while archived_files(&archive, 0) < files + 3 {
        count();
    }
    let copy = copied(&archive);
    let (report, counter) = restored(&base, &copy, None).unwrap();
    let replayed = report.replayed.unwrap();
    assert_eq!(
        (replayed.end, replayed.transactions),
        (ReplayEnd::Backup, 0)
    );
    assert_eq!(counter, 0);
    let told = restored(&base, &copy, Some(now())).unwrap_err().to_string();
    assert!(told.contains("no mark after the backup"), "{told}");
    let last = count();
    drop((table, database));
    let (report, counter) = restored(&base, &archive, None).unwrap();
    assert!(matches!(report.replayed.unwrap().end, ReplayEnd::Mark(_)));
    assert_eq!(counter, last);
    let place = Replay::new(archive.path()).until(1 << 20);
    let new = Directory::new();
    let refused = Database::restore_replaying(
        base.path(),
        &place,
        new.path(),
        &Options::new(),
        &mut |_| {},
    );
    let told = refused.unwrap_err().to_string();
    assert!(
        told.contains("3 partitions") && told.contains("give a time"),
        "{told}"
    );
}

/// Does nothing unless it is started by the test below.
#[test]
fn the_process_that_is_killed() {
    let Ok(path) = std::env::var(DATABASE) else {
        return;
    };
    let database = Database::open_with(&path, &brisk()).unwrap();
    let table = database.table("accounts").unwrap();
    work(
        &database,
        &table,
        &AtomicBool::new(false),
        &Counted::default(),
    );
}

/// Starts the process, and kills it when its archives have a newer mark.
fn kill_one(database: &Path, base: &Directory, archive: &Directory) {
    let start = now();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", VICTIM, "--nocapture"])
        .env(DATABASE, database)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_mark(base, archive, start);
    let is_running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_running, "the process ended by itself");
}

#[test]
fn what_is_made_of_the_archives_of_a_process_that_was_killed_is_one_moment() {
    for method in methods() {
        let (here, archive, base) = (Directory::new(), Directory::new(), Directory::new());
        let (database, table) = new_database(&here, &options(method, &archive));
        database
            .backup_pages(base.path(), Existing::Refuse, &mut |_| {})
            .unwrap();
        drop((table, database));
        let mut newest = 0;
        for _ in 0..KILLS {
            kill_one(here.path(), &base, &archive);
            let (report, counter) = restored(&base, &archive, None).unwrap();
            let replayed = report.replayed.unwrap();
            assert!(matches!(replayed.end, ReplayEnd::Mark(_)), "{method}");
            assert!(counter >= newest, "{method}: {counter} and {newest}");
            // The database itself has that moment and more, in its archive as well when it ends.
            let database = Database::open_with(here.path(), &brisk()).unwrap();
            let all = Directory::new();
            let content = database.backup(all.path()).unwrap().content;
            database.close().unwrap();
            let (report, last) = restored(&base, &archive, None).unwrap();
            assert_eq!(report.content, content, "{method}");
            assert!(last >= counter, "{method}: {last} and {counter}");
            newest = last;
        }
        assert!(newest > 0, "{method}");
    }
}
