//! Transactions over several partitions under power cuts.
//!
//! Goal: a transfer between accounts in different partitions is there whole or not at all, at every
//! crash point. Method: transfers through the embedded database on the simulated device, typed ones
//! and ones of connections that are open at once, where the partitions' pools or logs and the
//! commit table share one world; at each crash point a few images are opened and compared with the
//! allowed states.

use crate::common;
use disk::Directory;
use disk::simulated::SimulatedDirectory;
use indelible::{
    Connection, DataType, Database, Durability, Isolation, Method, MethodOption, Options,
    Partitioning, Table, Transaction,
};
use pmem::device::simulated::{CrashPoint, SimulatedWorld, WorldOptions, mix};
use std::sync::{Arc, Mutex, MutexGuard};
use storage::stamp::place;
use torture::SimulatedPlatform;

const PARTITIONS: u32 = 3;
const ACCOUNTS: i64 = 9;
const OPENING_BALANCE: i64 = 100;
/// Transfers of a run, and images of a crash point at most: fewer without `LONG_TESTS`.
const TRANSFERS: [u64; 2] = [30, 12];
const POINT_IMAGES: [usize; 2] = [12, 8];
/// The fence that makes a decision durable.
const DECISION_FENCE: &str = "commit-table.commit-fence";

/// The long setting, or the short one.
fn setting<T: Copy>(of: [T; 2]) -> T {
    of[usize::from(std::env::var_os("LONG_TESTS").is_none())]
}

/// Balances by account: the states that a crash may leave now.
type Allowed = Vec<Vec<i64>>;

/// A method, and how many sessions each partition has.
#[derive(Clone, Copy)]
struct Subject {
    method: Method,
    sessions: u32,
}

#[derive(Default)]
struct Watch {
    allowed: Allowed,
    points: u64,
    images: u64,
    failure: Option<String>,
}

fn options(subject: Subject) -> Options {
    let sessions = [MethodOption::Sessions(subject.sessions)];
    common::options(subject.method, PARTITIONS).fitting(subject.method, sessions)
}

/// Stores of an opening that finds nothing to do: a stamp in each file that changes in place, and
/// the list of files, which is made durable as it was found and then written anew.
fn stores_of_an_opening(image: &SimulatedWorld) -> u64 {
    let memories = image.memory_lengths().into_iter().map(|(name, _)| name);
    let files = SimulatedDirectory::new(image).list().expect("names");
    let stamped = memories.chain(files).filter(|name| place(name).is_some());
    stamped.count() as u64 + 2
}

/// Opens an image and compares it; a second opening must store nothing but its generation.
fn check(image: &SimulatedWorld, subject: Subject, allowed: &Allowed) -> Result<(), String> {
    for attempt in 0..2 {
        let before = image.stores();
        let db = Database::open_on(SimulatedPlatform::new(image), &options(subject))
            .map_err(|error| format!("opening: {error}"))?;
        let stores = image.stores() - before;
        if attempt == 1 && stores != stores_of_an_opening(image) {
            return Err(format!("a second opening made {stores} stores"));
        }
        let accounts = db.table("accounts").map_err(|error| error.to_string())?;
        let rows = db
            .read(|reader| reader.collect(&accounts, ..))
            .map_err(|error| format!("reading: {error}"))?;
        let found: Vec<i64> = rows
            .iter()
            .map(|row| row.get(1).as_i64().unwrap_or(-1))
            .collect();
        if !allowed.contains(&found) {
            return Err(format!("found {found:?}, allowed {allowed:?}"));
        }
        let damage = db.verify().map_err(|error| error.to_string())?.damage;
        if let Some(first) = damage.first() {
            return Err(format!("verify: {first:?}"));
        }
    }
    Ok(())
}

fn observe(world: &SimulatedWorld, subject: Subject, watch: &Arc<Mutex<Watch>>) {
    let watch = Arc::clone(watch);
    let mut scratch = None;
    world.observe(move |world, point| {
        let mut watch = watch.lock().expect("one thread");
        if watch.failure.is_some() {
            return;
        }
        watch.points += 1;
        let look = |image: &_| check(image, subject, &watch.allowed);
        match common::look_at_images(world, setting(POINT_IMAGES), &mut scratch, look) {
            Ok(images) => watch.images += images,
            Err(error) => watch.failure = Some(format!("{point:?}: {error}")),
        }
    });
}

/// Accounts in all partitions, and a look at the images of each crash point.
struct Bank {
    world: SimulatedWorld,
    db: Database,
    accounts: Table,
    balances: Vec<i64>,
    watch: Arc<Mutex<Watch>>,
}

impl Bank {
    fn new(subject: Subject, seed: u64, disabled: Option<&str>) -> Self {
        let world = SimulatedWorld::new(WorldOptions {
            seed,
            ..WorldOptions::default()
        });
        let db = Database::create_on(SimulatedPlatform::new(&world), &options(subject))
            .expect("created");
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
        let balances = vec![OPENING_BALANCE; ACCOUNTS.cast_unsigned() as usize];
        let watch = Arc::new(Mutex::new(Watch {
            allowed: vec![balances.clone()],
            ..Watch::default()
        }));
        observe(&world, subject, &watch);
        Self {
            world,
            db,
            accounts,
            balances,
            watch,
        }
    }

    /// Commits a transfer, after which no image may lack it.
    fn commit(&mut self, moves: &[(i64, i64)], commit: impl FnOnce(&Self)) {
        let mut next = self.balances.clone();
        for &(account, amount) in moves {
            next[account.cast_unsigned() as usize] += amount;
        }
        self.watch().allowed.push(next.clone());
        commit(self);
        self.watch().allowed = vec![next.clone()];
        self.world.mark(CrashPoint::Mark("acknowledged"));
        self.balances = next;
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().expect("one thread")
    }

    fn end(self) -> Watch {
        self.world.unobserve();
        std::mem::take(&mut *self.watch())
    }
}

/// Runs transfers between two or three accounts and checks images all the time.
fn run(subject: Subject, seed: u64, disabled: Option<&str>) -> Watch {
    let mut bank = Bank::new(subject, seed, disabled);
    let mut random = seed;
    for _ in 0..setting(TRANSFERS) {
        random = mix(random.wrapping_add(1));
        let legs = 2 + random % 2;
        let moves: Vec<(i64, i64)> = (0..legs)
            .map(|leg| {
                let account = (mix(random ^ leg) % ACCOUNTS.cast_unsigned()).cast_signed();
                let amount = if leg == 0 { 1 - legs.cast_signed() } else { 1 };
                (account, amount)
            })
            .collect();
        bank.commit(&moves, |bank| {
            let accounts = &bank.accounts;
            let transfer = |t: &mut Transaction<'_>| {
                for &(account, amount) in &moves {
                    let row = t.get(accounts, account)?.expect("the account exists");
                    let mut changes = accounts.changes();
                    changes.set(1, row.get(1).as_i64().unwrap_or(0) + amount)?;
                    t.update(accounts, account, &changes)?;
                }
                Ok(())
            };
            bank.db.transaction(transfer).expect("the transfer commits");
        });
        if bank.watch().failure.is_some() {
            break;
        }
    }
    bank.end()
}

/// A transfer on a connection, between two or three of the accounts that no other connection uses.
struct OpenTransfer {
    connection: Connection,
    moves: Vec<(i64, i64)>,
    done: usize,
}

impl OpenTransfer {
    fn begin(&mut self, isolation: Isolation, owner: i64, random: u64) {
        self.connection.begin(isolation).expect("none is open");
        let legs = 2 + random % 2;
        let first = (random >> 8) % 3;
        // One account in each partition: they are those of the owner modulo three.
        self.moves = (0..legs)
            .map(|leg| {
                let account = owner * 3 + ((first + leg) % 3).cast_signed();
                let amount = if leg == 0 { 1 - legs.cast_signed() } else { 1 };
                (account, amount)
            })
            .collect();
        self.done = 0;
    }

    /// Does the next leg, sometimes after one that is taken back; whether there was one.
    fn step(&mut self, accounts: &Table, random: u64) -> bool {
        let Some(&(account, amount)) = self.moves.get(self.done) else {
            return false;
        };
        let connection = &mut self.connection;
        let row = connection.get(accounts, account).expect("it can be read");
        let balance = row.expect("the account exists").get(1).as_i64();
        let set = |connection: &mut Connection, balance| {
            let mut changes = accounts.changes();
            changes.set(1, balance).expect("a column");
            let mark = connection.statement().expect("it is open");
            let was_there = connection.update(accounts, account, &changes);
            assert!(was_there.expect("nobody else uses it"));
            mark
        };
        let balance = balance.expect("a number");
        if random.is_multiple_of(3) {
            let mark = set(connection, balance + 1000);
            connection.roll_back_to(mark).expect("a mark of it");
        }
        set(connection, balance + amount);
        self.done += 1;
        true
    }
}

/// As [`run`], with connections whose statements take turns: transactions are open while others
/// commit over the same partitions, and some are aborted.
fn run_connections(subject: Subject, seed: u64, disabled: Option<&str>) -> Watch {
    const LEVELS: [Isolation; 3] = [
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ];
    let mut bank = Bank::new(subject, seed, disabled);
    let mut open: Vec<_> = (0..PARTITIONS)
        .map(|_| OpenTransfer {
            connection: bank.db.connect().expect("there is room"),
            moves: Vec::new(),
            done: 0,
        })
        .collect();
    let mut random = seed;
    let mut ended = 0;
    while ended < setting(TRANSFERS) && bank.watch().failure.is_none() {
        random = mix(random.wrapping_add(1));
        let owner = (random >> 16) as usize % open.len();
        let transfer = &mut open[owner];
        if !transfer.connection.is_open() {
            let level = LEVELS[(random >> 24) as usize % LEVELS.len()];
            transfer.begin(level, owner.cast_signed() as i64, random);
        } else if !transfer.step(&bank.accounts, random >> 32) {
            ended += 1;
            if random.is_multiple_of(7) {
                transfer.connection.abort();
                continue;
            }
            let OpenTransfer {
                connection, moves, ..
            } = transfer;
            bank.commit(moves, |_| {
                connection
                    .commit(Durability::Immediate)
                    .expect("no other transaction uses these accounts");
            });
        }
    }
    drop(open);
    bank.end()
}

fn judge(subject: Subject, watch: &Watch) {
    let name = subject.method.name();
    assert!(watch.points > 0 && watch.images > 0, "{name}");
    assert!(watch.failure.is_none(), "{name}: {:?}", watch.failure);
}

fn is_atomic(subject: Subject, seed: u64) {
    judge(subject, &run(subject, seed, None));
}

#[test]
fn transfers_are_atomic() {
    for method in Method::distinct().filter(|method| method.is_durable()) {
        // A recovery of pages has many points.
        let seeds = if method.is_paged() {
            1
        } else {
            setting([2, 1])
        };
        for seed in 1..=seeds {
            is_atomic(
                Subject {
                    method,
                    sessions: 1,
                },
                seed,
            );
        }
    }
}

/// Where a partition has several sessions, the commit of a decided transaction is not durable when
/// its locks are released; until it is, only its slot in the commit table tells the decision. So
/// the slot must not be used again. A transaction over the same partitions would make the commit
/// durable before it takes a slot, because it syncs their logs when it is prepared; only one over
/// other partitions does not, so it takes three of them to show a slot that is free too early. One
/// thread is enough, and is more likely to come there than many, whose commits sync the logs.
#[test]
fn the_slot_of_a_decision_is_not_used_before_its_commits_are_durable() {
    for method in [Method::FullPageWrites, Method::NvDiskDecentralized] {
        is_atomic(
            Subject {
                method,
                sessions: 2,
            },
            1,
        );
    }
}

/// Statements of connections over all partitions take turns, on each method.
#[test]
fn transfers_of_connections_are_atomic() {
    let methods = Method::distinct().filter(|method| method.is_durable());
    // Without `LONG_TESTS` every third method has to do.
    for (seed, method) in (1..).zip(methods.step_by(setting([1, 3]))) {
        let subject = Subject {
            method,
            sessions: 1 + PARTITIONS,
        };
        judge(subject, &run_connections(subject, seed, None));
    }
}

#[test]
fn an_undurable_decision_is_noticed() {
    let subject = Subject {
        method: Method::NvmInp,
        sessions: 1,
    };
    for run in [run, run_connections] {
        let watch = run(subject, 1, Some(DECISION_FENCE));
        assert!(
            watch.failure.is_some(),
            "nobody noticed that {DECISION_FENCE} was off"
        );
    }
}
