//! Goal: a full device is an error of the statement that met it, and the database stays usable.
//!
//! Method: a small database is kept from growing, and one kind of statement runs until it fails. The failed statement must
//! have left nothing, everything else must be readable and sound, and what frees space must work where it needs no
//! log. Once there is space again, so do writes, and a power cut loses nothing.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use storage::engine::{EngineOptions, Method};
use tests::place::{Device, Place};
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
        ..EngineOptions::default()
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
        let number = (1000 + done).to_string();
        if let Err(error) = session.run(&statement.replace('#', &number)) {
            assert!(error.contains("no space"), "{case}: {error}");
            return done;
        }
    }
    panic!("{case}: the device was never full");
}

/// What must work on a full device, and once it is no longer full.
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
    ] {
        for statement in GROWERS {
            // The volatile memory of `inp` does not matter here; its log does. Whoever logs a deletion needs space for that.
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

/// Makes one value longer and longer until the device is full; it keeps the last length that fitted.
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

/// Statements that give room back, or end something, each on a device of its own that is full. None may fail.
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
    // Where only a checkpoint gives room back, the one of what is left has to fit.
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

/// With little left of a device that was full, `inp` and `log` could delete nothing, for want of a segment of their log; and one row more of the
/// copied pages took what was kept back for deletions.
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
        // Its checkpoint begins a file in each session's series before it gives the older ones back.
        if method == Method::NvDiskDecentralized {
            continue;
        }
        for filler in fillers {
            for statements in RELEASES {
                // A MemTable that was full when the device was needs its run, and has more bytes than the reserve.
                if method == Method::Log && statements.contains(&"checkpoint") {
                    continue;
                }
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
                    if let Err(error) = session.run(statement) {
                        failures.push(format!("{case}: {statement}: {error}"));
                        break;
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
