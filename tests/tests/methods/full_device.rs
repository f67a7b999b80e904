//! Goal: a full device is an error of the statement that met it, and the database stays usable.
//!
//! Method: a small database is kept from growing, and one kind of statement runs until it fails.
//! The failed statement must have left nothing, everything else must be readable and sound, and
//! statements that free space must work where they need no log. Once there is space again, writes
//! work too, and a power cut loses nothing.

use storage::engine::{EngineOptions, Method};
use tests::place::{Device, Place, small_engine};
use tests::session::Session;

/// Statements with `#` for a number that grows.
const GROWERS: &[&str] = &[
    "insert t # \"short\" NULL",
    "insert t # \"long\" \"n\"*3000",
    "insert t # \"longer\" \"n\"*90000",
    "update t 7 note=\"u\"*#00",
    "create-table u# id=int64 name=varchar(90) key=id index:by_name=name",
    "create-index t by_name#=name",
];
/// More statements than a few hundred kilobytes can take.
const STATEMENTS_MAX: usize = 20_000;
const ROWS: usize = 100;

fn options() -> EngineOptions {
    EngineOptions {
        pool_bytes: 128 << 10,
        checkpoint_log_bytes: 64 << 10,
        rings: 2,
        ..small_engine()
    }
}

fn started(place: Place, method: Method) -> Session {
    let mut session = Session::new(place, method, options()).unwrap();
    for line in [
        "create-table t id=int64 name=varchar(90)? note=text? key=id",
        "fill t 1..100 bytes=40",
    ] {
        session.run(line).unwrap();
    }
    session
}

fn count(session: &mut Session, table: &str) -> usize {
    let lines = session.run(&format!("count {table}")).unwrap();
    lines[0].split(' ').next().unwrap().parse().unwrap()
}

/// Runs a statement until the device is full; how often it succeeded.
fn run_until_full(session: &mut Session, statement: &str, case: &str) -> usize {
    for done in 0..STATEMENTS_MAX {
        let number = (100_000 + done).to_string();
        if let Err(error) = session.run(&statement.replace('#', &number)) {
            assert!(error.contains("no space"), "{case}: {error}");
            return done;
        }
    }
    panic!("{case}: the device was never full");
}

/// The operations that must work on a full device, and once it is no longer full.
fn check_usable(session: &mut Session, rows: usize, case: &str) {
    assert_eq!(count(session, "t"), rows, "{case}");
    assert_eq!(session.run("get t 1").unwrap().len(), 1, "{case}");
    let report = session.run("verify").unwrap();
    assert!(report[0].starts_with("sound"), "{case}: {report:?}");
}

#[test]
fn a_full_device_stops_growth_and_nothing_else() {
    for method in [
        Method::Inp,
        Method::Cow,
        Method::NvmInp,
        Method::NvmCow,
        Method::FullPageWrites,
        Method::Dwb,
        Method::NvDiskDecentralized,
        Method::NvLogging,
        Method::DistributedLog,
        Method::InPlace,
        Method::GroupCommit,
        Method::NvmDwb,
        Method::NvmDwbLogOpt,
        Method::Fash,
        Method::Fast,
        Method::Nvwal,
        Method::SlotHeaderJournal,
    ] {
        for statement in GROWERS {
            // The volatile memory of `inp` does not matter here; its log does. Methods that log
            // deletions need space for them.
            let logs_deletions = method == Method::Inp || method.is_paged();
            let case = format!("{method}, {statement}");
            let mut session = started(Place::new(Device::Simulated), method);
            session.place().limit_space(Some(1));
            let inserted = if statement.starts_with("update") {
                grow_one_row(&mut session, &case);
                0
            } else {
                run_until_full(&mut session, statement, &case)
            };
            let rows = ROWS
                + if statement.starts_with("insert") {
                    inserted
                } else {
                    0
                };
            check_usable(&mut session, rows, &case);
            if !logs_deletions {
                // A transaction each: a large one needs space for its undo log.
                for row in 50..=60 {
                    let deleted = session.run(&format!("delete t {row}"));
                    assert_eq!(deleted, Ok(Vec::new()), "{case}");
                }
                session.run("insert t 55 \"in freed space\" NULL").unwrap();
                session.run("erase t 55..55").unwrap();
            }
            session.place().limit_space(None);
            if logs_deletions {
                session.run("erase t 50..60").unwrap();
            }
            session
                .run("insert t 999999 \"more\" \"m\"*200000")
                .unwrap();
            session.run("crash").unwrap();
            check_usable(&mut session, rows - 10, &case);
        }
    }
}

/// Makes one value longer and longer until the device is full; it keeps the last length that
/// fitted.
fn grow_one_row(session: &mut Session, case: &str) {
    let mut kept = session.run("get t 7").unwrap();
    for bytes in (1..400).map(|step| step * 5000) {
        match session.run(&format!("update t 7 note=\"u\"*{bytes}")) {
            Ok(_) => kept = session.run("get t 7").unwrap(),
            Err(error) => {
                assert!(error.contains("no space"), "{case}: {error}");
                assert_eq!(session.run("get t 7").unwrap(), kept, "{case}");
                return;
            }
        }
    }
    panic!("{case}: the device was never full");
}

#[test]
fn full_volatile_memory_stops_growth_and_nothing_else() {
    const VOLATILE_BYTES: u64 = 1 << 20;
    for method in [Method::Volatile, Method::Inp] {
        for statement in &GROWERS[..3] {
            let case = format!("{method}, {statement}");
            let mut session = started(Place::simulated(1, VOLATILE_BYTES), method);
            let inserted = run_until_full(&mut session, statement, &case);
            check_usable(&mut session, ROWS + inserted, &case);
            session.run("erase t 40..60").unwrap();
            session.run("insert t 50 \"in freed space\" NULL").unwrap();
            check_usable(&mut session, ROWS + inserted - 20, &case);
        }
    }
}

#[test]
fn a_transaction_that_meets_a_full_device_can_be_aborted_or_go_on() {
    for end in ["abort", "commit"] {
        let mut session = started(Place::new(Device::Simulated), Method::NvmInp);
        session.place().limit_space(Some(1));
        session.run("begin").unwrap();
        let inserted = run_until_full(&mut session, "insert t # \"row\" \"n\"*3000", end);
        session.run("update t 1 name=\"still possible\"").unwrap();
        session.run(end).unwrap();
        let rows = if end == "commit" {
            ROWS + inserted
        } else {
            ROWS
        };
        check_usable(&mut session, rows, end);
        session.run("crash").unwrap();
        check_usable(&mut session, rows, end);
    }
}

/// Statements that give room back, or end something, each on a device of its own that is full. None
/// may fail.
const RELEASES: &[&[&str]] = &[
    &[
        "delete t 50",
        "delete u 50",
        "delete t 51",
        "delete t 52",
        "delete u 51",
    ],
    &["begin", "delete t 50", "delete t 51", "abort"],
    &["begin", "delete t 50", "delete u 51", "commit"],
    &["drop-index u by_third", "drop-index t by_name"],
    &["drop-table t", "drop-table u"],
    // Where only a checkpoint frees space, the checkpoint of the rest has to fit.
    &[
        "drop-table u",
        "drop-table t",
        "checkpoint",
        "create-table v id=int64 key=id",
        "insert v 1",
    ],
    &["reopen", "delete t 50", "drop-table t"],
];
/// As many rows as a table of several levels has.
const FIRST_ROWS: usize = 400;

/// With little left of a device that was full, `inp` and `log` could delete nothing, for want of a
/// segment of their log; and one row more of the copied pages took the reserve for deletions.
#[test]
fn what_frees_space_works_on_a_full_device() {
    let options = EngineOptions {
        memtable_bytes: 16 << 10,
        growth_factor: 2,
        ..options()
    };
    let fillers = &[
        "insert t # \"short\" NULL",
        "insert t # \"longer\" \"n\"*90000",
    ];
    let mut failures = Vec::new();
    for method in Method::distinct().filter(|method| method.is_durable()) {
        for filler in fillers {
            for statements in RELEASES {
                let place = Place::new(Device::Simulated);
                let mut session = Session::new(place, method, options.clone()).unwrap();
                for line in [
                    "create-table t id=int64 name=varchar(90)? note=text? key=id index:by_name=name",
                    "create-table u id=int64 name=varchar(90) key=id index:by_first=name index:by_second=name,id index:by_third=id,name",
                ] {
                    session.run(line).unwrap();
                }
                for (table, rest) in [("t", " bytes=40"), ("u", "")] {
                    session
                        .run(&format!("fill {table} 1..{FIRST_ROWS}{rest}"))
                        .unwrap();
                }
                session.place().fill_space().unwrap();
                let case = format!("{method}, {filler}, {statements:?}");
                run_until_full(&mut session, filler, &case);
                for statement in *statements {
                    let mut ended = session.run(statement);
                    // A MemTable that was full when the device was needs its run, and has more
                    // bytes than the reserve.
                    if method == Method::Log && *statement == "checkpoint" && ended.is_err() {
                        session.place().limit_space(None);
                        ended = session.run(statement);
                    }
                    if let Err(error) = ended {
                        failures.push(format!("{case}: {statement}: {error}"));
                        break;
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Rows of a table that is too large for the reserve.
const LARGE_ROWS: usize = 4000;
/// Rows of one large transaction, and of the transactions that an error advises instead.
const LARGE_DELETION: usize = 1000;
const SMALL_DELETION: usize = 10;

/// Runs statements up to the first that fails, which must be for want of space.
fn run_or_full(session: &mut Session, statements: &[String], case: &str) -> Result<(), String> {
    for statement in statements {
        if let Err(error) = session.run(statement) {
            assert!(error.contains("no space"), "{case}: {statement}: {error}");
            return Err(format!("{statement}: {error}"));
        }
    }
    Ok(())
}

/// Deletes rows in transactions of `each`; returns the error where there was no space, and leaves
/// no transaction open.
fn delete_in_transactions(
    session: &mut Session,
    (table, rows): (&str, &[usize]),
    each: usize,
    case: &str,
) -> Result<(), String> {
    for rows in rows.chunks(each) {
        let deletions = rows.iter().map(|row| format!("delete {table} {row}"));
        let mut statements = vec!["begin".to_owned()];
        statements.extend(deletions);
        statements.push("commit".to_owned());
        if let Err(error) = run_or_full(session, &statements, case) {
            session.run("abort").unwrap();
            return Err(error);
        }
    }
    Ok(())
}

/// Whether only a checkpoint frees what was deleted.
fn drops_by_log(method: Method) -> bool {
    matches!(method, Method::Inp | Method::Log)
}

/// Whether deleting the rows of a table helps to drop it.
fn drops_what_is_empty(method: Method) -> bool {
    !method.is_paged() && !drops_by_log(method)
}

/// Whether the log may have no room for small deletions either: it is as long as the reserve, or
/// has no reserve that pages could not take.
fn has_short_reserve(method: Method) -> bool {
    matches!(
        method,
        Method::Inp | Method::Log | Method::NvDiskDecentralized
    )
}

/// Two tables on a device that is full, and how many rows the first one has.
fn large_tables(method: Method, case: &str) -> (Session, usize) {
    let options = EngineOptions {
        memtable_bytes: 16 << 10,
        growth_factor: 2,
        ..options()
    };
    let place = Place::new(Device::Simulated);
    let mut session = Session::new(place, method, options).unwrap();
    for table in ["t", "u"] {
        let columns = "id=int64 name=varchar(90)? note=text? key=id index:by_name=name";
        let create = format!("create-table {table} {columns}");
        session.run(&create).unwrap();
        let fill = format!("fill {table} 1..{LARGE_ROWS} bytes=400");
        session.run(&fill).unwrap();
    }
    session.place().fill_space().unwrap();
    let filler = "insert t # \"longer\" \"n\"*90000";
    let inserted = run_until_full(&mut session, filler, case);
    (session, LARGE_ROWS + inserted)
}

/// Deletes every fourth row, in one transaction or as the error advises.
fn delete_many(session: &mut Session, method: Method, left: usize, case: &str) {
    let rows: Vec<_> = (1..=LARGE_DELETION)
        .map(|row| row * LARGE_ROWS / LARGE_DELETION)
        .collect();
    if delete_in_transactions(session, ("t", &rows), LARGE_DELETION, case).is_ok() {
        return;
    }
    check_usable(session, left, case);
    if let Err(error) = delete_in_transactions(session, ("t", &rows), SMALL_DELETION, case) {
        assert!(has_short_reserve(method), "{case}: {error}");
        session.place().limit_space(None);
        let mut is_there = |row: &usize| session.run(&format!("get t {row}")).unwrap().len() == 1;
        let rows: Vec<_> = rows.into_iter().filter(|row| is_there(row)).collect();
        delete_in_transactions(session, ("t", &rows), SMALL_DELETION, case).unwrap();
    }
}

/// Drops a table, in one step or as the error advises.
fn drop_large(session: &mut Session, method: Method, (table, rows): (&str, usize), case: &str) {
    let drop = format!("drop-table {table}");
    let Err(error) = session.run(&drop) else {
        return;
    };
    assert!(error.contains("no space"), "{case}: {error}");
    assert_eq!(count(session, table), rows, "{case}");
    if drops_what_is_empty(method) {
        let rows: Vec<_> = (1..=LARGE_ROWS).collect();
        delete_in_transactions(session, (table, &rows), SMALL_DELETION, case).unwrap();
    } else {
        session.place().limit_space(None);
    }
    session.run(&drop).unwrap();
}

/// If a large release has no space, the steps that the errors and the documentation advise have.
#[test]
fn what_is_advised_for_large_releases_works_on_a_full_device() {
    for method in Method::distinct().filter(|method| method.is_durable()) {
        let case = method.to_string();
        let (mut session, rows) = large_tables(method, &case);
        delete_many(&mut session, method, rows, &case);
        let left = rows - LARGE_DELETION;
        check_usable(&mut session, left, &case);
        drop_large(&mut session, method, ("t", left), &case);
        drop_large(&mut session, method, ("u", LARGE_ROWS), &case);
        if session.run("checkpoint").is_err() {
            assert!(matches!(method, Method::Inp | Method::Log), "{case}");
            session.place().limit_space(None);
            session.run("checkpoint").unwrap();
        }
        session.run("crash").unwrap();
        assert_eq!(session.run("tables").unwrap(), ["no tables"], "{case}");
        let report = session.run("verify").unwrap();
        assert!(report[0].starts_with("sound"), "{case}: {report:?}");
    }
}

/// A table that needs more room in the records of a group than they have at first can be dropped
/// where nothing is free.
#[test]
fn a_table_of_many_blocks_is_dropped_on_a_full_device() {
    let place = Place::new(Device::Simulated);
    let mut session = Session::new(place, Method::NvmCow, options()).unwrap();
    session
        .run("create-table t id=int64 name=varchar(90)? note=text? key=id index:by_name=name")
        .unwrap();
    session
        .run(&format!("fill t 1..{} bytes=400", 3 * LARGE_ROWS))
        .unwrap();
    session.place().fill_space().unwrap();
    run_until_full(&mut session, "insert t # \"longer\" \"n\"*90000", "nvm-cow");
    session.run("drop-table t").unwrap();
    session.run("create-table v id=int64 key=id").unwrap();
    session.run("crash").unwrap();
    let report = session.run("verify").unwrap();
    assert!(report[0].starts_with("sound"), "{report:?}");
}

/// Bytes of a device that a table fills.
const DEVICE_BYTES: u64 = 6 << 20;
/// Lengths of the rows that fill it, in turns; the last ones find the smallest gaps.
const FILLING: &[usize] = &[90_000, 5000, 20_000, 100];

/// Inserts rows until not even a short one fits; their numbers.
fn fill_device(session: &mut Session, first: usize, case: &str) -> Vec<usize> {
    let (mut rows, mut next) = (Vec::new(), first);
    let mut lengths = FILLING.to_vec();
    while let Some(&bytes) = lengths.get(next % lengths.len().max(1)) {
        match session.run(&format!("insert t {next} \"row\" \"n\"*{bytes}")) {
            Ok(_) => rows.push(next),
            Err(error) => {
                assert!(error.contains("no space"), "{case}: {error}");
                lengths.retain(|length| *length != bytes);
            }
        }
        next += 1;
        assert!(
            next - first < STATEMENTS_MAX,
            "{case}: the device was never full"
        );
    }
    rows
}

/// Pages took the last file of the log for good, and free pages that were known to the medium only
/// were not found. The logs of `inp` and `log` grow until a checkpoint, for which rows need room.
#[test]
fn a_device_that_was_full_takes_as_much_again_once_its_rows_are_deleted() {
    let mut failures = Vec::new();
    let with_room = |method: &Method| method.is_durable() && !drops_by_log(*method);
    for method in Method::distinct().filter(with_room) {
        let case = method.to_string();
        let mut session = Session::new(Place::new(Device::Simulated), method, options()).unwrap();
        session
            .run("create-table t id=int64 name=varchar(90)? note=text? key=id")
            .unwrap();
        session.place().limit_space(Some(DEVICE_BYTES));
        let mut counts = Vec::new();
        for round in 1..=3 {
            let rows = fill_device(&mut session, round * 100_000, &case);
            counts.push(rows.len());
            let deleted = delete_in_transactions(&mut session, ("t", &rows), 1, &case);
            if let Err(error) = deleted {
                failures.push(format!("{case}, round {round}: {error}"));
                break;
            }
            if round == 2 {
                session.run("reopen").unwrap();
            }
        }
        if counts.iter().any(|count| *count < counts[0] / 2) {
            failures.push(format!("{case}: {counts:?} rows"));
        }
        let report = session.run("verify").unwrap();
        assert!(report[0].starts_with("sound"), "{case}: {report:?}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
