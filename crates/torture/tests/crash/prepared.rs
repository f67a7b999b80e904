//! Prepared transactions under power cuts.
//!
//! Goal: at every crash point a transaction is prepared with all of its changes and locks, or not
//! at all; and ending it has happened whole or not at all. Method: transfers over several
//! partitions are prepared, committed and undone on the simulated device, while another connection
//! commits; at each crash point a few images are opened. One that finds a prepared transaction
//! asks for its rows, which must be locked, and then ends it.

use crate::bank::{
    ACCOUNTS, Bank, PARTITIONS, Watch, after, balances, open, opening_balances, setting, verify,
};
use indelible::{
    Connection, Database, Durability, Isolation, Method, MethodOption, Options,
    PreparedTransaction, Table, Wait,
};
use pmem::device::simulated::{SimulatedWorld, mix};

/// Accounts that prepared transactions use; the rest are the other connection's.
const PREPARED: i64 = 6;
/// Transfers of a run, and images of a crash point at most: fewer without `LONG_TESTS`.
const TRANSFERS: [u64; 2] = [12, 5];
const POINT_IMAGES: [usize; 2] = [8, 4];
const NAME: &str = "transfer";

/// A state that a crash may leave.
#[derive(Clone, Debug, PartialEq)]
struct State {
    balances: Vec<i64>,
    /// Amounts that a prepared transaction adds to accounts.
    prepared: Option<Vec<(i64, i64)>>,
}

fn options(method: Method) -> Options {
    let sessions = [MethodOption::Sessions(2)];
    // A name takes more of a node than the numbers of other tests.
    crate::common::options(method, PARTITIONS)
        .node_bytes(2048)
        .fitting(method, sessions)
}

/// Opens an image and compares it; a prepared transaction is there after a second opening, has its
/// locks, and can be ended. Returns whether there was one.
fn check(image: &SimulatedWorld, method: Method, allowed: &[State]) -> Result<bool, String> {
    let (db, accounts) = open(image, &options(method))?;
    let found = balances(&db, &accounts)?;
    let prepared = db.prepared_transactions();
    let fits =
        |state: &&State| state.balances == found && state.prepared.is_some() != prepared.is_empty();
    let Some(state) = allowed.iter().find(fits) else {
        return Err(format!(
            "found {found:?}, {prepared:?}, allowed {allowed:?}"
        ));
    };
    drop((db, accounts));
    let (db, accounts) = open(image, &options(method))?;
    if let Some(moves) = &state.prepared {
        let [facts] = &db.prepared_transactions()[..] else {
            return Err("a second opening does not find it".to_owned());
        };
        check_locks(&db, &accounts, moves)?;
        let commits = image.stores().is_multiple_of(2);
        let (ended, expected) = if commits {
            (db.commit_prepared(facts).map(drop), after(&found, moves))
        } else {
            (db.roll_back_prepared(facts), found)
        };
        ended.map_err(|error| format!("ending it: {error}"))?;
        let left = balances(&db, &accounts)?;
        if left != expected {
            return Err(format!("ended: found {left:?}, expected {expected:?}"));
        }
    }
    verify(&db)?;
    Ok(state.prepared.is_some())
}

/// The rows of the moves are locked, and no others.
fn check_locks(db: &Database, accounts: &Table, moves: &[(i64, i64)]) -> Result<(), String> {
    let mut connection = db.connect().map_err(|error| error.to_string())?;
    connection.set_wait(Wait::Never);
    for account in 0..ACCOUNTS {
        let begun = connection.begin(Isolation::ReadCommitted);
        begun.map_err(|error| error.to_string())?;
        let is_moved = moves.iter().any(|(moved, _)| *moved == account);
        if add(&mut connection, accounts, account, 1).is_ok() == is_moved {
            return Err(format!("lock of account {account}: expected {is_moved}"));
        }
        connection.abort();
    }
    Ok(())
}

fn add(
    connection: &mut Connection,
    accounts: &Table,
    account: i64,
    amount: i64,
) -> indelible::Result<()> {
    let row = connection.get(accounts, account)?;
    let balance = row.and_then(|row| row.get(1).as_i64()).unwrap_or(0);
    let mut changes = accounts.changes();
    changes.set(1, balance + amount)?;
    connection.update(accounts, account, &changes).map(drop)
}

/// Runs transfers that are prepared, with others between the two steps.
fn run(method: Method, seed: u64, disabled: Option<&str>) -> Watch<State> {
    const LEVELS: [Isolation; 3] = [
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ];
    let state = State {
        balances: opening_balances(),
        prepared: None,
    };
    let look = move |image: &_, allowed: &[_]| check(image, method, allowed);
    let looks = (setting(POINT_IMAGES), look);
    let mut bank = Bank::new(&options(method), (seed, disabled), state, looks);
    let mut random = seed;
    for number in 0..setting(TRANSFERS) {
        random = mix(random.wrapping_add(1));
        let first = (random % PREPARED.cast_unsigned()).cast_signed();
        let moves = vec![(first, -1), ((first + 1) % PREPARED, 1)];
        // A serializable one locks its whole table, so that the others could not go on.
        let level = LEVELS[(random >> 8) as usize % 2];
        prepare(&mut bank, level, &moves, number);
        transfer(&mut bank, random);
        end(&mut bank, random, &moves);
        if bank.has_failed() {
            break;
        }
    }
    bank.end()
}

fn prepare(bank: &mut Bank<State>, level: Isolation, moves: &[(i64, i64)], number: u64) {
    let next = State {
        prepared: Some(moves.to_vec()),
        ..bank.state.clone()
    };
    bank.step(next, |bank| {
        let mut connection = bank.db.connect().expect("there is room");
        connection.begin(level).expect("none is open");
        for &(account, amount) in moves {
            add(&mut connection, &bank.accounts, account, amount).expect("nobody else uses it");
        }
        let facts = PreparedTransaction {
            name: NAME.to_owned(),
            transaction: number.cast_signed(),
            ..PreparedTransaction::default()
        };
        connection.prepare(&facts).expect("the name is free");
    });
}

/// Another connection commits meanwhile.
fn transfer(bank: &mut Bank<State>, random: u64) {
    let moves = [
        (PREPARED, -2),
        (PREPARED + 1 + (random & 1).cast_signed(), 2),
    ];
    let next = State {
        balances: after(&bank.state.balances, &moves),
        ..bank.state.clone()
    };
    bank.step(next, |bank| {
        let mut connection = bank.db.connect().expect("there is room");
        connection
            .begin(Isolation::Serializable)
            .expect("none is open");
        for (account, amount) in moves {
            add(&mut connection, &bank.accounts, account, amount).expect("nobody else uses it");
        }
        connection
            .commit(Durability::Immediate)
            .expect("it commits");
    });
}

/// Ends the prepared transaction: two of three times it is committed.
fn end(bank: &mut Bank<State>, random: u64, moves: &[(i64, i64)]) {
    let commits = !random.is_multiple_of(3);
    let balances = &bank.state.balances;
    let next = State {
        balances: if commits {
            after(balances, moves)
        } else {
            balances.clone()
        },
        prepared: None,
    };
    bank.step(next, |bank| {
        let facts = bank.db.prepared_transaction(NAME).expect("it is prepared");
        if commits {
            bank.db.commit_prepared(&facts).expect("it commits");
        } else {
            bank.db.roll_back_prepared(&facts).expect("it is undone");
        }
    });
}

#[test]
fn prepared_transactions_are_whole() {
    // Pages that nothing guards must not be torn, and these have several sectors.
    let methods =
        Method::distinct().filter(|method| method.is_durable() && method.survives_torn_pages());
    // Without `LONG_TESTS` every third method has to do.
    for (seed, method) in (1..).zip(methods.step_by(setting([1, 3]))) {
        let watch = run(method, seed, None);
        let name = method.name();
        assert!(watch.failure.is_none(), "{name}: {:?}", watch.failure);
        assert!(watch.points > 0 && watch.special > 0, "{name}");
        assert!(watch.special < watch.images, "{name}");
    }
}

#[test]
fn an_undurable_preparation_is_noticed() {
    const FENCE: &str = "undo.commit-record-fence";
    let watch = run(Method::NvmInp, 1, Some(FENCE));
    assert!(
        watch.failure.is_some(),
        "nobody noticed that {FENCE} was off"
    );
}
