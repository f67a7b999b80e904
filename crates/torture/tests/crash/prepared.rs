//! Prepared transactions under power cuts.
//!
//! Goal: at every crash point a transaction is prepared with all of its changes and locks, or not
//! at all; and ending it has happened whole or not at all. Method: transfers over several
//! partitions are prepared, committed and undone on the simulated device, while another connection
//! commits; at each crash point a few images are opened. One that finds a prepared transaction
//! asks for its rows, which must be locked, and then ends it.

use indelible::{
    Connection, DataType, Database, Durability, Isolation, Method, MethodOption, Options,
    Partitioning, PreparedTransaction, Table, Wait,
};
use pmem::device::simulated::{CrashPoint, SimulatedWorld, WorldOptions, mix};
use std::sync::{Arc, Mutex, MutexGuard};
use torture::SimulatedPlatform;

const PARTITIONS: u32 = 3;
const ACCOUNTS: i64 = 9;
/// Accounts that prepared transactions use; the rest are the other connection's.
const PREPARED: i64 = 6;
const OPENING_BALANCE: i64 = 100;
/// Transfers of a run, and images of a crash point at most: fewer without `LONG_TESTS`.
const TRANSFERS: [u64; 2] = [12, 5];
const POINT_IMAGES: [usize; 2] = [8, 4];
const NAME: &str = "transfer";

/// The long setting, or the short one.
fn setting<T: Copy>(of: [T; 2]) -> T {
    of[usize::from(std::env::var_os("LONG_TESTS").is_none())]
}

/// A state that a crash may leave.
#[derive(Clone, Debug, PartialEq)]
struct State {
    balances: Vec<i64>,
    /// Amounts that a prepared transaction adds to accounts.
    prepared: Option<Vec<(i64, i64)>>,
}

#[derive(Default)]
struct Watch {
    allowed: Vec<State>,
    points: u64,
    images: u64,
    /// Images with a prepared transaction.
    prepared: u64,
    failure: Option<String>,
}

fn options(method: Method) -> Options {
    let sessions = [MethodOption::Sessions(2)];
    // A name takes more of a node than the numbers of other tests.
    crate::common::options(method, PARTITIONS)
        .node_bytes(2048)
        .fitting(method, sessions)
}

fn balances(db: &Database, accounts: &Table) -> Result<Vec<i64>, String> {
    let rows = db.read(|reader| reader.collect(accounts, ..));
    let rows = rows.map_err(|error| format!("reading: {error}"))?;
    let balance = |row: &indelible::Row| row.get(1).as_i64().unwrap_or(-1);
    Ok(rows.iter().map(balance).collect())
}

fn after(balances: &[i64], moves: &[(i64, i64)]) -> Vec<i64> {
    let mut after = balances.to_vec();
    for &(account, amount) in moves {
        after[account.cast_unsigned() as usize] += amount;
    }
    after
}

fn open(image: &SimulatedWorld, method: Method) -> Result<(Database, Table), String> {
    let db = Database::open_on(SimulatedPlatform::new(image), &options(method));
    let db = db.map_err(|error| format!("opening: {error}"))?;
    let accounts = db.table("accounts").map_err(|error| error.to_string())?;
    Ok((db, accounts))
}

/// Opens an image and compares it; a prepared transaction is there after a second opening, has its
/// locks, and can be ended. Returns whether there was one.
fn check(image: &SimulatedWorld, method: Method, allowed: &[State]) -> Result<bool, String> {
    let (db, accounts) = open(image, method)?;
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
    let (db, accounts) = open(image, method)?;
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
    let damage = db.verify().map_err(|error| error.to_string())?.damage;
    match damage.first() {
        Some(first) => Err(format!("verify: {first:?}")),
        None => Ok(state.prepared.is_some()),
    }
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

fn observe(world: &SimulatedWorld, method: Method, watch: &Arc<Mutex<Watch>>) {
    let watch = Arc::clone(watch);
    let mut scratch = None;
    world.observe(move |world, point| {
        let watch = &mut *watch.lock().expect("one thread");
        if watch.failure.is_some() {
            return;
        }
        watch.points += 1;
        let (allowed, prepared) = (&watch.allowed, &mut watch.prepared);
        let look = |image: &_| {
            *prepared += u64::from(check(image, method, allowed)?);
            Ok(())
        };
        match crate::common::look_at_images(world, setting(POINT_IMAGES), &mut scratch, look) {
            Ok(images) => watch.images += images,
            Err(error) => watch.failure = Some(format!("{point:?}: {error}")),
        }
    });
}

struct Bank {
    world: SimulatedWorld,
    db: Database,
    accounts: Table,
    state: State,
    watch: Arc<Mutex<Watch>>,
}

impl Bank {
    fn new(method: Method, seed: u64, disabled: Option<&str>) -> Self {
        let world = SimulatedWorld::new(WorldOptions {
            seed,
            ..WorldOptions::default()
        });
        let platform = SimulatedPlatform::new(&world);
        let db = Database::create_on(platform, &options(method)).expect("created");
        let accounts = db
            .create_table("accounts")
            .column("id", DataType::Int64)
            .column("balance", DataType::Int64)
            .partitioning(Partitioning::Modulo)
            .create()
            .expect("the table is made");
        db.transaction(|t| {
            (0..ACCOUNTS).try_for_each(|id| t.insert(&accounts, (id, OPENING_BALANCE)))
        })
        .expect("the accounts are made");
        if let Some(site) = disabled {
            world.disable(site);
        }
        let state = State {
            balances: vec![OPENING_BALANCE; ACCOUNTS.cast_unsigned() as usize],
            prepared: None,
        };
        let watch = Arc::new(Mutex::new(Watch {
            allowed: vec![state.clone()],
            ..Watch::default()
        }));
        observe(&world, method, &watch);
        Self {
            world,
            db,
            accounts,
            state,
            watch,
        }
    }

    /// Takes a step to another state, which is the only one afterwards.
    fn step(&mut self, next: State, step: impl FnOnce(&Self)) {
        self.watch().allowed.push(next.clone());
        step(self);
        self.watch().allowed = vec![next.clone()];
        self.world.mark(CrashPoint::Mark("acknowledged"));
        self.state = next;
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().expect("one thread")
    }
}

/// Runs transfers that are prepared, with others between the two steps.
fn run(method: Method, seed: u64, disabled: Option<&str>) -> Watch {
    const LEVELS: [Isolation; 3] = [
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ];
    let mut bank = Bank::new(method, seed, disabled);
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
        if bank.watch().failure.is_some() {
            break;
        }
    }
    bank.world.unobserve();
    std::mem::take(&mut *bank.watch())
}

fn prepare(bank: &mut Bank, level: Isolation, moves: &[(i64, i64)], number: u64) {
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
fn transfer(bank: &mut Bank, random: u64) {
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
fn end(bank: &mut Bank, random: u64, moves: &[(i64, i64)]) {
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
        assert!(watch.points > 0 && watch.prepared > 0, "{name}");
        assert!(watch.prepared < watch.images, "{name}");
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
