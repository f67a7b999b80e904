//! Transactions over several partitions under power cuts.
//!
//! Goal: a transfer between accounts in different partitions is there whole or not at all, at every
//! crash point. Method: transfers through the embedded database on the simulated device, typed ones
//! and ones of connections that are open at once, where the partitions' pools or logs and the
//! commit table share one world; at each crash point a few images are opened and compared with the
//! allowed states.

use crate::bank::{
    ACCOUNTS, Bank, PARTITIONS, Watch, after, balances, open, opening_balances, setting, verify,
};
use crate::common;
use disk::Directory;
use disk::simulated::SimulatedDirectory;
use indelible::{
    Connection, Durability, Isolation, Method, MethodOption, Options, Table, Transaction,
};
use pmem::device::simulated::{SimulatedWorld, mix};
use storage::stamp::place;

/// Transfers of a run, and images of a crash point at most: fewer without `LONG_TESTS`.
const TRANSFERS: [u64; 2] = [30, 8];
const POINT_IMAGES: [usize; 2] = [12, 8];
/// The fence that makes a decision durable.
const DECISION_FENCE: &str = "commit-table.commit-fence";

/// A method, and how many sessions each partition has.
#[derive(Clone, Copy)]
struct Subject {
    method: Method,
    sessions: u32,
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
fn check(image: &SimulatedWorld, subject: Subject, allowed: &[Vec<i64>]) -> Result<(), String> {
    for attempt in 0..2 {
        let before = image.stores();
        let (db, accounts) = open(image, &options(subject))?;
        let stores = image.stores() - before;
        if attempt == 1 && stores != stores_of_an_opening(image) {
            return Err(format!("a second opening made {stores} stores"));
        }
        let found = balances(&db, &accounts)?;
        if !allowed.contains(&found) {
            return Err(format!("found {found:?}, allowed {allowed:?}"));
        }
        verify(&db)?;
    }
    Ok(())
}

/// A bank that is looked at all the time.
fn bank(subject: Subject, seed: u64, disabled: Option<&str>) -> Bank<Vec<i64>> {
    let look = move |image: &_, allowed: &[_]| check(image, subject, allowed).map(|()| false);
    let looks = (setting(POINT_IMAGES), look);
    Bank::new(
        &options(subject),
        (seed, disabled),
        opening_balances(),
        looks,
    )
}

/// Runs transfers between two or three accounts and checks images all the time.
fn run(subject: Subject, seed: u64, disabled: Option<&str>) -> Watch<Vec<i64>> {
    let mut bank = bank(subject, seed, disabled);
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
        bank.step(after(&bank.state, &moves), |bank| {
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
        if bank.has_failed() {
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
fn run_connections(subject: Subject, seed: u64, disabled: Option<&str>) -> Watch<Vec<i64>> {
    const LEVELS: [Isolation; 3] = [
        Isolation::ReadCommitted,
        Isolation::RepeatableRead,
        Isolation::Serializable,
    ];
    let mut bank = bank(subject, seed, disabled);
    let mut open: Vec<_> = (0..PARTITIONS)
        .map(|_| OpenTransfer {
            connection: bank.db.connect().expect("there is room"),
            moves: Vec::new(),
            done: 0,
        })
        .collect();
    let mut random = seed;
    let mut ended = 0;
    while ended < setting(TRANSFERS) && !bank.has_failed() {
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
            bank.step(after(&bank.state, moves), |_| {
                connection
                    .commit(Durability::Immediate)
                    .expect("no other transaction uses these accounts");
            });
        }
    }
    drop(open);
    bank.end()
}

fn judge(subject: Subject, watch: &Watch<Vec<i64>>) {
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
