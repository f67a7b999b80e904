//! The checker on trial: goal and method.
//!
//! The check finds each kind of anomaly in histories made for it, finds none in those of
//! serializable sessions, and some in those of sessions at weaker levels.

use super::*;
use indelible::{Method, MethodOption, Options};
use std::path::PathBuf;

/// Rows of both kinds, by their numbers.
const REGISTER: u64 = 3;
const LIST: u64 = 4;

fn saw(row: u64, elements: &[u64]) -> Observation {
    Observation::new(row, elements)
}

/// A transaction's first write.
fn element(transaction: u64) -> u64 {
    transaction * ELEMENTS
}

type Made = (u64, Vec<Observation>, Vec<(u64, u64)>);

fn anomalies(transactions: Vec<Made>, lists: Vec<(u64, Vec<u64>)>) -> Vec<Anomaly> {
    let mut session = SessionHistory::default();
    for (number, observed, written) in transactions {
        session.push(number, observed, written);
    }
    let history = History {
        sessions: vec![session],
        lists,
    };
    check(&history, Level::Serializable).anomalies
}

#[test]
fn what_an_order_explains_is_no_anomaly() {
    let (one, two) = (element(1), element(2));
    let found = anomalies(
        vec![
            (1, vec![saw(LIST, &[])], vec![(LIST, one)]),
            (
                2,
                vec![saw(LIST, &[one]), saw(REGISTER, &[])],
                vec![(LIST, two), (REGISTER, two + 1)],
            ),
            (
                3,
                vec![saw(LIST, &[one, two]), saw(REGISTER, &[two + 1])],
                vec![],
            ),
        ],
        vec![(LIST, vec![one, two]), (REGISTER, vec![two + 1])],
    );
    assert_eq!(found, []);
}

#[test]
fn a_write_that_overtakes_another_is_lost() {
    let (one, two) = (element(1), element(2));
    let seen = || vec![saw(LIST, &[])];
    let transactions = vec![
        (1, seen(), vec![(LIST, one)]),
        (2, seen(), vec![(LIST, two)]),
    ];
    let found = anomalies(transactions, vec![(LIST, vec![two])]);
    let lost = Anomaly::Lost {
        row: LIST,
        transaction: 1,
    };
    assert!(found.contains(&lost), "{found:?}");
    let seen = || vec![saw(REGISTER, &[])];
    let transactions = vec![
        (1, seen(), vec![(REGISTER, one)]),
        (2, seen(), vec![(REGISTER, two)]),
    ];
    let found = anomalies(transactions, vec![(REGISTER, vec![two])]);
    assert!(
        matches!(found[0], Anomaly::Lost { row: REGISTER, .. }),
        "{found:?}"
    );
}

#[test]
fn two_that_do_not_see_each_other_are_a_circle() {
    // Write skew: each reads the row that the other one writes.
    let (one, two) = (element(1), element(2));
    let found = anomalies(
        vec![
            (
                1,
                vec![saw(LIST, &[]), saw(LIST + 1, &[])],
                vec![(LIST, one)],
            ),
            (
                2,
                vec![saw(LIST, &[]), saw(LIST + 1, &[])],
                vec![(LIST + 1, two)],
            ),
        ],
        vec![(LIST, vec![one]), (LIST + 1, vec![two])],
    );
    assert!(
        matches!(&found[..], [Anomaly::Circle(who)] if who.len() == 2),
        "{found:?}"
    );
}

#[test]
fn what_was_undone_must_not_be_seen() {
    let (one, undone) = (element(1), element(2));
    let transactions = vec![
        (1, vec![saw(LIST, &[])], vec![(LIST, one)]),
        (3, vec![saw(LIST, &[one, undone])], vec![]),
    ];
    let found = anomalies(transactions, vec![(LIST, vec![one])]);
    assert!(
        matches!(
            found[0],
            Anomaly::Undone {
                row: LIST,
                transaction: 3
            }
        ),
        "{found:?}"
    );
    let found = anomalies(vec![], vec![(LIST, vec![undone])]);
    assert!(
        matches!(found[0], Anomaly::Foreign { row: LIST, .. }),
        "{found:?}"
    );
}

/// In shared memory where there is some: on a busy disk a sync of `nvm-inp` can take so long that
/// others wait for its partition up to their limit.
fn directory(name: &str) -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    let folder = Some(shared).filter(|shared| shared.is_dir());
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    let path = folder.join(format!("history-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn report(name: &str, isolation: Isolation, partitions: u32) -> HistoryReport {
    let options = HistoryOptions {
        transactions: 4000,
        isolation,
        seed: 7,
        ..HistoryOptions::default()
    };
    report_of(name, &options, |database| database.partitions(partitions))
}

fn report_of(
    name: &str,
    options: &HistoryOptions,
    change: impl FnOnce(Options) -> Options,
) -> HistoryReport {
    let path = directory(name);
    let database = Options::new()
        .method(Method::FullPageWrites)
        .node_bytes(1 << 14)
        .buffer_bytes(1 << 20)
        .checkpoint_log_bytes(1 << 20)
        .sessions(8);
    let database = Database::create(&path, &change(database)).unwrap();
    let report = run(&database, options).unwrap();
    assert!(database.verify().unwrap().damage.is_empty());
    database.close().unwrap();
    std::fs::remove_dir_all(path).unwrap();
    report
}

#[test]
fn serializable_sessions_leave_no_anomaly() {
    let report = report("serializable", Isolation::Serializable, 1);
    assert_eq!(report.anomalies, []);
    assert!(report.committed > 3000 && report.dependencies > report.committed);
    assert_eq!(report.allowed, 0);
}

#[test]
fn sessions_in_two_partitions_leave_no_anomaly() {
    let report = report("partitions", Isolation::Serializable, 2);
    // Deadlocks over both of them are detected, and not waited out.
    assert_eq!(report.anomalies, []);
    assert!(report.committed > 3000);
}

#[test]
fn sessions_that_read_repeatably_lose_no_write() {
    let report = report("repeatable", Isolation::RepeatableRead, 2);
    assert_eq!(report.anomalies, []);
    assert!(report.committed > 2000);
}

#[test]
fn sessions_that_ask_for_less_get_less() {
    let report = report("committed", Isolation::ReadCommitted, 1);
    assert!(report.allowed > 0, "{report:?}");
    // Not even they see undone writes.
    assert_eq!(report.anomalies, []);
}

#[test]
fn a_transaction_that_is_given_up_is_an_anomaly() {
    // So many that some of them meet, however quickly each ends.
    let options = HistoryOptions {
        transactions: 10_000,
        ..HistoryOptions::default()
    };
    let report = report_of("given-up", &options, |database| database.retries_max(0));
    let is_given_up = |anomaly: &Anomaly| matches!(anomaly, Anomaly::GivenUp { .. });
    assert!(report.anomalies.iter().any(is_given_up), "{report:?}");
}

#[test]
fn a_wait_as_long_as_the_limit_is_an_anomaly() {
    let options = HistoryOptions {
        wait_limit: Duration::ZERO,
        ..HistoryOptions::default()
    };
    let report = report_of("waits", &options, |database| database);
    let is_long = |anomaly: &Anomaly| matches!(anomaly, Anomaly::Waited { .. });
    assert!(report.anomalies.iter().any(is_long), "{report:?}");
}

#[test]
fn a_level_allows_its_own_anomalies_only() {
    let (row, transaction, error) = (LIST, 1, String::new());
    let circle = Anomaly::Circle(vec![1, 2]);
    let lost = Anomaly::Lost { row, transaction };
    let undone = Anomaly::Undone { row, transaction };
    let duplicate = Anomaly::Duplicate { transaction, error };
    let allowed = |isolation: Isolation| {
        [&circle, &lost, &undone, &duplicate].map(|anomaly| anomaly.is_allowed_at(isolation))
    };
    assert_eq!(allowed(Isolation::Serializable), [false; 4]);
    let expected = [true, false, false, false];
    assert_eq!(allowed(Isolation::RepeatableRead), expected);
    let expected = [true, true, false, false];
    assert_eq!(allowed(Isolation::ReadCommitted), expected);
}

#[test]
fn a_row_at_two_places_is_an_anomaly() {
    let (one, two) = (element(1), element(2));
    for row in [LIST, REGISTER] {
        // A move of which the deletion was lost: the old row is there as well as the new one.
        let both = match Order::of(row) {
            Order::List => vec![one, one, two],
            Order::Register => vec![one, two],
        };
        let transactions = vec![
            (1, vec![saw(row, &[])], vec![(row, one)]),
            (2, vec![saw(row, &[one])], vec![(row, two)]),
            (3, vec![saw(row, &both)], vec![]),
        ];
        let found = anomalies(transactions, vec![(row, both)]);
        assert!(found.contains(&Anomaly::Twice { row }), "{found:?}");
        // Two values of a register cannot be distinguished by its history, and two copies of a list
        // can.
        let is_more =
            |anomaly: &Anomaly| matches!(anomaly, Anomaly::Torn { .. } | Anomaly::Circle(_));
        assert!(found.iter().any(is_more), "{found:?}");
    }
}

#[test]
fn an_element_behind_a_savepoint_must_not_be_seen() {
    let (kept, undone) = (element(1), element(1) + 1);
    let transactions = vec![
        (1, vec![saw(LIST, &[])], vec![(LIST, kept)]),
        (2, vec![saw(LIST, &[kept, undone])], vec![]),
    ];
    let found = anomalies(transactions, vec![(LIST, vec![kept, undone])]);
    let (row, transaction) = (LIST, 2);
    assert!(found.contains(&Anomaly::Undone { row, transaction }));
    let element = undone;
    assert!(found.contains(&Anomaly::Foreign { row, element }));
}

/// A history with power cuts and deaths, on a method with a log in files, some steps of which do
/// nothing.
fn cut_report(partitions: u32, seed: u64, disabled: &[&str]) -> Result<HistoryReport> {
    let database = Options::new()
        .method(Method::FullPageWrites)
        .partitions(partitions)
        .buffer_bytes(1 << 20)
        .checkpoint_log_bytes(64 << 10)
        .sessions(4);
    let options = HistoryOptions {
        sessions: 4,
        seed,
        ..HistoryOptions::default()
    };
    cut(&database, &options, disabled)
}

fn cut(database: &Options, options: &HistoryOptions, disabled: &[&str]) -> Result<HistoryReport> {
    let cuts = CutOptions {
        cuts: 20,
        disabled: disabled.iter().map(|&site| site.to_owned()).collect(),
    };
    run_with_cuts(database, options, &cuts)
}

#[test]
fn cuts_leave_no_anomaly() {
    for partitions in [1, 2] {
        let report = cut_report(partitions, 5, &[]).unwrap();
        assert_eq!(report.anomalies, []);
        // Recoveries were cut off as well.
        assert!(report.cuts > 20, "{report:?}");
        assert!(report.committed > 600 && report.doubtful > 0, "{report:?}");
        // Checkpoints came in between, and transactions over both partitions.
        let ran = |site| report.sites.contains(site);
        assert!(ran("page-file.master"), "{:?}", report.sites);
        assert_eq!(ran("commit-table.commit"), partitions == 2);
    }
}

#[test]
fn cuts_under_connections_leave_no_anomaly() {
    for method in [Method::NvmInp, Method::FullPageWrites] {
        for isolation in [Isolation::Serializable, Isolation::ReadCommitted] {
            let (sessions, connections) = (2, 4);
            let database = Options::new()
                .partitions(2)
                .checkpoint_log_bytes(64 << 10)
                .fitting(method, [MethodOption::Sessions(sessions + connections)]);
            let options = HistoryOptions {
                sessions,
                connections,
                isolation,
                ..HistoryOptions::default()
            };
            let report = cut(&database, &options, &[]).unwrap();
            assert_eq!(report.anomalies, [], "{method} {isolation:?}");
            assert!(report.cuts > 20 && report.doubtful > 0, "{report:?}");
            assert!(report.committed > 300, "{report:?}");
            assert!(report.sites.contains("commit-table.commit"), "{report:?}");
        }
    }
}

/// Runs histories without these steps until one of them is wrong. The order of threads differs from
/// run to run, so there are several tries.
fn is_noticed(partitions: u32, disabled: &[&str]) -> bool {
    (1..=20).any(|seed| match cut_report(partitions, seed, disabled) {
        Ok(report) => !report.anomalies.is_empty(),
        Err(_) => true,
    })
}

#[test]
fn cuts_find_a_log_that_is_not_synced() {
    assert!(is_noticed(1, &["wal.flush"]));
}

#[test]
fn cuts_find_a_checkpoint_that_takes_the_log_away_too_early() {
    assert!(is_noticed(1, &["page-file.master"]));
}

#[test]
fn cuts_find_a_decision_that_is_not_durable() {
    assert!(is_noticed(2, &["commit-table.commit"]));
}

type MadeAtCut = (u64, bool, Vec<Observation>, Vec<(u64, u64)>);

/// The anomalies of transactions, some of which were inside of commit at a cut, and how many of
/// those there were.
fn anomalies_behind_a_cut(
    transactions: Vec<MadeAtCut>,
    lists: Vec<(u64, Vec<u64>)>,
) -> (Vec<Anomaly>, u64) {
    let mut session = SessionHistory::default();
    for (number, is_doubtful, observed, written) in transactions {
        if is_doubtful {
            session.push_doubtful(number, observed, written);
        } else {
            session.push(number, observed, written);
        }
    }
    let mut sessions = vec![session];
    let doubtful = settle(&mut sessions, &lists);
    let history = History { sessions, lists };
    (check(&history, Level::Serializable).anomalies, doubtful)
}

#[test]
fn what_was_inside_of_commit_may_be_there_or_not() {
    let (one, two) = (element(1), element(2));
    let made = || {
        vec![
            (1, false, vec![saw(LIST, &[])], vec![(LIST, one)]),
            (2, true, vec![saw(LIST, &[one])], vec![(LIST, two)]),
        ]
    };
    let without = anomalies_behind_a_cut(made(), vec![(LIST, vec![one])]);
    assert_eq!(without, (vec![], 1));
    let with = anomalies_behind_a_cut(made(), vec![(LIST, vec![one, two])]);
    assert_eq!(with, (vec![], 1));
}

#[test]
fn what_was_inside_of_commit_must_be_whole() {
    let one = element(1);
    let written = vec![(LIST, one), (LIST + 1, one + 1)];
    let seen = vec![saw(LIST, &[]), saw(LIST + 1, &[])];
    let (found, _) =
        anomalies_behind_a_cut(vec![(1, true, seen, written)], vec![(LIST, vec![one])]);
    let lost = Anomaly::Lost {
        row: LIST + 1,
        transaction: 1,
    };
    assert_eq!(found, [lost]);
}

#[test]
fn what_an_acknowledged_transaction_saw_must_be_there() {
    let one = element(1);
    let transactions = vec![
        (1, true, vec![saw(LIST, &[])], vec![(LIST, one)]),
        (2, false, vec![saw(LIST, &[one])], vec![]),
    ];
    let (found, _) = anomalies_behind_a_cut(transactions, vec![]);
    let lost = Anomaly::Lost {
        row: LIST,
        transaction: 1,
    };
    assert!(found.contains(&lost), "{found:?}");
}

#[test]
fn a_register_that_went_back_lost_a_write() {
    let (one, two) = (element(1), element(2));
    let transactions = vec![
        (1, false, vec![saw(REGISTER, &[])], vec![(REGISTER, one)]),
        (2, false, vec![saw(REGISTER, &[one])], vec![(REGISTER, two)]),
    ];
    let (found, _) = anomalies_behind_a_cut(transactions, vec![(REGISTER, vec![one])]);
    let lost = Anomaly::Lost {
        row: REGISTER,
        transaction: 2,
    };
    assert_eq!(found, [lost]);
}

/// Connections beside closures, on a method with one session slot a partition and on one with many.
fn report_of_connections(isolation: Isolation) -> Vec<HistoryReport> {
    let options = HistoryOptions {
        sessions: 2,
        connections: 6,
        isolation,
        seed: 3,
        transactions: 3000,
        ..HistoryOptions::default()
    };
    let methods = [Method::NvmInp, Method::FullPageWrites];
    let report = |method: Method| {
        let path = directory(&format!("connections-{method}-{isolation:?}"));
        let database = Options::new()
            .method(method)
            .partitions(2)
            .durability(indelible::Durability::Group);
        let database = database.fitting(method, [indelible::MethodOption::Sessions(8)]);
        let database = Database::create(&path, &database).unwrap();
        let report = run(&database, &options).unwrap();
        assert!(database.verify().unwrap().damage.is_empty());
        database.close().unwrap();
        std::fs::remove_dir_all(path).unwrap();
        assert_eq!(report.anomalies, [], "{method}");
        assert!(report.committed > 2000, "{report:?}");
        report
    };
    methods.map(report).into()
}

#[test]
fn serializable_connections_leave_no_anomaly() {
    report_of_connections(Isolation::Serializable);
}

#[test]
fn connections_at_weaker_levels_leave_the_anomalies_of_their_level() {
    for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
        let reports = report_of_connections(isolation);
        let allowed: u64 = reports.iter().map(|report| report.allowed).sum();
        assert!(allowed > 0, "{reports:?}");
    }
}

/// The cycles of transactions, each in a session of its own, at a level.
fn cycles(transactions: Vec<Made>, lists: &[(u64, Vec<u64>)], level: Level) -> usize {
    let sessions = transactions.into_iter().map(|(number, observed, written)| {
        let mut session = SessionHistory::default();
        session.reads_by_statement = true;
        session.push(number, observed, written);
        session
    });
    let history = History {
        sessions: sessions.collect(),
        lists: lists.to_vec(),
    };
    let found = check(&history, level).anomalies;
    let is_circle = |anomaly: &&Anomaly| matches!(anomaly, Anomaly::Circle(_));
    assert_eq!(found.iter().filter(is_circle).count(), found.len());
    found.len()
}

/// Cycles at SERIALIZABLE, REPEATABLE READ and READ COMMITTED.
fn at_all_levels(transactions: impl Fn() -> Vec<Made>, lists: &[(u64, Vec<u64>)]) -> [bool; 3] {
    let levels = [Level::Serializable, Level::Snapshot, Level::Statement];
    levels.map(|level| cycles(transactions(), lists, level) > 0)
}

#[test]
fn levels_forbid_their_anomalies_and_no_others() {
    let (one, two) = (element(1), element(2));
    let (row, other) = (LIST, LIST + 1);
    let at = |statement, seen: Observation| seen.in_statement(statement);
    let write_skew = || {
        vec![
            (
                1,
                vec![at(1, saw(row, &[])), at(1, saw(other, &[]))],
                vec![(row, one)],
            ),
            (
                2,
                vec![at(1, saw(row, &[])), at(1, saw(other, &[]))],
                vec![(other, two)],
            ),
        ]
    };
    let lists = [(row, vec![one]), (other, vec![two])];
    assert_eq!(at_all_levels(write_skew, &lists), [true, false, false]);
}

#[test]
fn only_statements_may_see_different_moments() {
    let one = element(1);
    let (row, other) = (LIST, LIST + 1);
    let at = |statement, seen: Observation| seen.in_statement(statement);
    let written = || {
        let both = vec![(row, one), (other, one + 1)];
        (1, vec![saw(row, &[]), saw(other, &[])], both)
    };
    let lists = [(row, vec![one]), (other, vec![one + 1])];
    let read = |seen: [Observation; 2]| {
        let transactions = || vec![written(), (2, seen.to_vec(), vec![])];
        at_all_levels(transactions, &lists)
    };
    // A commit between two statements.
    let forwards = [at(1, saw(row, &[])), at(2, saw(other, &[one + 1]))];
    assert_eq!(read(forwards), [true, true, false]);
    // The second one goes back in time.
    let backwards = [at(1, saw(row, &[one])), at(2, saw(other, &[]))];
    assert_eq!(read(backwards), [true, true, true]);
    // One statement that sees half of a transaction.
    let half = [at(1, saw(row, &[one])), at(1, saw(other, &[]))];
    assert_eq!(read(half), [true, true, true]);
}

#[test]
fn no_level_shows_unfinished_writes() {
    let (one, two) = (element(1), element(2));
    let (row, other) = (LIST, LIST + 1);
    // A value that its writer has overwritten itself.
    let intermediate = || {
        vec![
            (1, vec![saw(row, &[])], vec![(row, one), (row, one + 1)]),
            (2, vec![saw(row, &[one]).in_statement(1)], vec![]),
        ]
    };
    let lists = [(row, vec![one, one + 1])];
    assert_eq!(at_all_levels(intermediate, &lists), [true, true, true]);
    // Each has seen the other one's write.
    let circular = || {
        vec![
            (1, vec![saw(other, &[two])], vec![(row, one)]),
            (2, vec![saw(row, &[one])], vec![(other, two)]),
        ]
    };
    let lists = [(row, vec![one]), (other, vec![two])];
    assert_eq!(at_all_levels(circular, &lists), [true, true, true]);
}

#[test]
fn a_session_sees_its_own_past() {
    let one = element(1);
    let mut session = SessionHistory::default();
    session.push(1, vec![saw(LIST, &[])], vec![(LIST, one)]);
    session.push(2, vec![saw(LIST, &[])], vec![]);
    let history = History {
        sessions: vec![session],
        lists: vec![(LIST, vec![one])],
    };
    for level in [Level::Serializable, Level::Snapshot, Level::Statement] {
        let found = check(&history, level).anomalies;
        assert!(matches!(found[..], [Anomaly::Circle(_)]), "{found:?}");
    }
}
