//! A bank with accounts in several partitions, and a look at the images of each crash point.
//!
//! A test takes it from state to state. While it takes a step, an image may have the state before
//! the step or the one after it; then only the latter.

use crate::common::look_at_images;
use indelible::{DataType, Database, Options, Partitioning, Table};
use pmem::device::simulated::{CrashPoint, SimulatedWorld, WorldOptions};
use std::sync::{Arc, Mutex, MutexGuard};
use torture::SimulatedPlatform;

pub(crate) const PARTITIONS: u32 = 3;
pub(crate) const ACCOUNTS: i64 = 9;
const OPENING_BALANCE: i64 = 100;

/// The long setting, or the short one.
pub(crate) fn setting<T: Copy>(of: [T; 2]) -> T {
    of[usize::from(std::env::var_os("LONG_TESTS").is_none())]
}

/// The balances of a new bank.
pub(crate) fn opening_balances() -> Vec<i64> {
    vec![OPENING_BALANCE; ACCOUNTS.cast_unsigned() as usize]
}

/// The balances of all accounts, in their order.
pub(crate) fn balances(db: &Database, accounts: &Table) -> Result<Vec<i64>, String> {
    let rows = db.read(|reader| reader.collect(accounts, ..));
    let rows = rows.map_err(|error| format!("reading: {error}"))?;
    let balance = |row: &indelible::Row| row.get(1).as_i64().unwrap_or(-1);
    Ok(rows.iter().map(balance).collect())
}

/// Balances after moves, each an account and the amount that it gets.
pub(crate) fn after(balances: &[i64], moves: &[(i64, i64)]) -> Vec<i64> {
    let mut after = balances.to_vec();
    for &(account, amount) in moves {
        after[account.cast_unsigned() as usize] += amount;
    }
    after
}

/// Opens an image of a bank.
pub(crate) fn open(image: &SimulatedWorld, options: &Options) -> Result<(Database, Table), String> {
    let db = Database::open_on(SimulatedPlatform::new(image), options);
    let db = db.map_err(|error| format!("opening: {error}"))?;
    let accounts = db.table("accounts").map_err(|error| error.to_string())?;
    Ok((db, accounts))
}

/// Fails if the database is damaged.
pub(crate) fn verify(db: &Database) -> Result<(), String> {
    let damage = db.verify().map_err(|error| error.to_string())?.damage;
    match damage.first() {
        Some(first) => Err(format!("verify: {first:?}")),
        None => Ok(()),
    }
}

/// The states that a crash may leave now, and the looks so far.
pub(crate) struct Watch<S> {
    pub(crate) allowed: Vec<S>,
    pub(crate) points: u64,
    pub(crate) images: u64,
    /// Images of which the test has said so.
    pub(crate) special: u64,
    pub(crate) failure: Option<String>,
}

impl<S> Watch<S> {
    fn new(allowed: Vec<S>) -> Self {
        Self {
            allowed,
            points: 0,
            images: 0,
            special: 0,
            failure: None,
        }
    }
}

pub(crate) struct Bank<S> {
    world: SimulatedWorld,
    pub(crate) db: Database,
    pub(crate) accounts: Table,
    pub(crate) state: S,
    watch: Arc<Mutex<Watch<S>>>,
}

impl<S: Clone + Send + 'static> Bank<S> {
    /// A bank in its first state, without one site. At each crash point, so many images at most
    /// are compared with the states that are allowed; the comparison says which ones are special.
    pub(crate) fn new(
        options: &Options,
        (seed, disabled): (u64, Option<&str>),
        state: S,
        (images_max, mut check): (
            usize,
            impl FnMut(&SimulatedWorld, &[S]) -> Result<bool, String> + Send + 'static,
        ),
    ) -> Self {
        let world = SimulatedWorld::new(WorldOptions {
            seed,
            ..WorldOptions::default()
        });
        let platform = SimulatedPlatform::new(&world);
        let db = Database::create_on(platform, options).expect("created");
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
        let watch = Arc::new(Mutex::new(Watch::new(vec![state.clone()])));
        let watched = Arc::clone(&watch);
        let mut scratch = None;
        world.observe(move |world, point| {
            let watch = &mut *watched.lock().expect("one thread");
            if watch.failure.is_some() {
                return;
            }
            watch.points += 1;
            let (allowed, special) = (&watch.allowed, &mut watch.special);
            let look = |image: &_| {
                *special += u64::from(check(image, allowed)?);
                Ok(())
            };
            match look_at_images(world, images_max, &mut scratch, look) {
                Ok(images) => watch.images += images,
                Err(error) => watch.failure = Some(format!("{point:?}: {error}")),
            }
        });
        Self {
            world,
            db,
            accounts,
            state,
            watch,
        }
    }

    /// Takes a step to another state, which is the only one afterwards.
    pub(crate) fn step(&mut self, next: S, step: impl FnOnce(&Self)) {
        self.watch().allowed.push(next.clone());
        step(self);
        self.watch().allowed = vec![next.clone()];
        self.world.mark(CrashPoint::Mark("acknowledged"));
        self.state = next;
    }

    /// Whether an image has had a state that is not allowed.
    pub(crate) fn has_failed(&self) -> bool {
        self.watch().failure.is_some()
    }

    fn watch(&self) -> MutexGuard<'_, Watch<S>> {
        self.watch.lock().expect("one thread")
    }

    /// Looks no more.
    pub(crate) fn end(self) -> Watch<S> {
        self.world.unobserve();
        std::mem::replace(&mut *self.watch(), Watch::new(Vec::new()))
    }
}
