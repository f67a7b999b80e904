//! Transactions over several partitions under power cuts.
//!
//! Goal: a transfer between accounts in different partitions is there whole or not at all, at every
//! crash point. Method: transfers through the embedded database on the simulated device, where the
//! partitions' pools or logs and the commit table share one world; at each crash point a few images
//! are opened and compared with the allowed states.

use disk::Directory;
use disk::simulated::SimulatedDirectory;
use indelible::{DataType, Database, Method, MethodOption, Options, Partitioning};
use pmem::device::simulated::{
    CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, WorldOptions, mix,
};
use std::sync::{Arc, Mutex};
use storage::stamp::place;
use torture::SimulatedPlatform;

const PARTITIONS: u32 = 3;
const ACCOUNTS: i64 = 9;
const OPENING_BALANCE: i64 = 100;
const TRANSFERS: u64 = 30;
const POINT_IMAGES: usize = 12;
/// The fence that makes a decision durable.
const DECISION_FENCE: &str = "commit-table.commit-fence";

/// Balances by account: the states that a crash may leave now.
type Allowed = Vec<Vec<i64>>;

#[derive(Default)]
struct Watch {
    allowed: Allowed,
    points: u64,
    images: u64,
    failure: Option<String>,
}

fn options(method: Method) -> Options {
    let ring_bytes = match method {
        Method::GroupCommit => 32 << 10,
        Method::Nvwal => 16 << 10,
        Method::DistributedLog => 1 << 20,
        _ => 2 << 20,
    };
    let of_method = [
        // Segments of the log are as long as a MemTable, and each opening reads one.
        MethodOption::MemtableBytes(16 << 10),
        // The fewest possible frames: each opening makes them, and pages are written while
        // transactions are open.
        MethodOption::BufferBytes(0),
        MethodOption::RingBytes(ring_bytes),
        MethodOption::Rings(2),
        MethodOption::AreaBytes(128 << 10),
    ];
    // Pages that are guarded have two sectors, so that they can tear.
    let is_guarded = method.is_paged() && method.survives_torn_pages();
    Options::new()
        .fitting(method, of_method)
        .partitions(PARTITIONS)
        // Else the smallest page of the copy-on-write methods.
        .node_bytes(if is_guarded { 1024 } else { 512 })
        .pool_bytes(1 << 20)
        .checkpoint_log_bytes(16 << 10)
        .identity(7)
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
fn check(image: &SimulatedWorld, method: Method, allowed: &Allowed) -> Result<(), String> {
    for attempt in 0..2 {
        let before = image.stores();
        let db = Database::open_on(SimulatedPlatform::new(image), &options(method))
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

fn observe(world: &SimulatedWorld, method: Method, watch: &Arc<Mutex<Watch>>) {
    let watch = Arc::clone(watch);
    let mut scratch: Option<SimulatedWorld> = None;
    world.observe(move |world, point| {
        let mut watch = watch.lock().expect("one thread");
        watch.points += 1;
        let seed = mix(world.events());
        for choice in ImageChoices::bounded(world, seed, POINT_IMAGES) {
            if watch.failure.is_some() {
                return;
            }
            let mut image = scratch.take().unwrap_or_else(|| {
                world
                    .image(&ImageChoice::default())
                    .expect("address space suffices")
            });
            world
                .image_into(&choice, &mut image)
                .expect("address space suffices");
            watch.images += 1;
            if let Err(what) = check(&image, method, &watch.allowed) {
                watch.failure = Some(format!("{point:?}: {what}; {}", world.describe(&choice)));
                return;
            }
            scratch = Some(image);
        }
    });
}

/// Runs transfers between two or three accounts and checks images all the time.
fn run(method: Method, seed: u64, disabled: Option<&str>) -> Watch {
    let world = SimulatedWorld::new(WorldOptions {
        seed,
        ..WorldOptions::default()
    });
    let db =
        Database::create_on(SimulatedPlatform::new(&world), &options(method)).expect("created");
    let accounts = db
        .create_table("accounts")
        .column("id", DataType::Int64)
        .column("balance", DataType::Int64)
        .partitioning(Partitioning::Modulo)
        .create()
        .expect("the table is made");
    db.transaction(|t| (0..ACCOUNTS).try_for_each(|id| t.insert(&accounts, (id, OPENING_BALANCE))))
        .expect("the accounts are made");
    if let Some(site) = disabled {
        world.disable(site);
    }
    let mut balances = vec![OPENING_BALANCE; ACCOUNTS.cast_unsigned() as usize];
    let watch = Arc::new(Mutex::new(Watch {
        allowed: vec![balances.clone()],
        ..Watch::default()
    }));
    observe(&world, method, &watch);
    let mut random = seed;
    for _ in 0..TRANSFERS {
        random = mix(random.wrapping_add(1));
        let legs = 2 + random % 2;
        let mut next = balances.clone();
        let moves: Vec<(i64, i64)> = (0..legs)
            .map(|leg| {
                let account = (mix(random ^ leg) % ACCOUNTS.cast_unsigned()).cast_signed();
                let amount = if leg == 0 { 1 - legs.cast_signed() } else { 1 };
                (account, amount)
            })
            .collect();
        for &(account, amount) in &moves {
            next[account.cast_unsigned() as usize] += amount;
        }
        watch.lock().expect("one thread").allowed.push(next.clone());
        db.transaction(|t| {
            for &(account, amount) in &moves {
                let row = t.get(&accounts, account)?.expect("the account exists");
                let mut changes = accounts.changes();
                changes.set(1, row.get(1).as_i64().unwrap_or(0) + amount)?;
                t.update(&accounts, account, &changes)?;
            }
            Ok(())
        })
        .expect("the transfer commits");
        watch.lock().expect("one thread").allowed = vec![next.clone()];
        world.mark(CrashPoint::Mark("acknowledged"));
        balances = next;
        if watch.lock().expect("one thread").failure.is_some() {
            break;
        }
    }
    world.unobserve();
    std::mem::take(&mut *watch.lock().expect("one thread"))
}

#[test]
fn transfers_are_atomic() {
    for method in Method::distinct().filter(|method| method.is_durable()) {
        // A recovery of pages has many points.
        let seeds = if method.is_paged() { 1 } else { 2 };
        for seed in 1..=seeds {
            let watch = run(method, seed, None);
            println!(
                "{}: {} points, {} images",
                method.name(),
                watch.points,
                watch.images
            );
            assert!(
                watch.failure.is_none(),
                "{}: {:?}",
                method.name(),
                watch.failure
            );
        }
    }
}

#[test]
fn an_undurable_decision_is_noticed() {
    let watch = run(Method::NvmInp, 1, Some(DECISION_FENCE));
    assert!(
        watch.failure.is_some(),
        "nobody noticed that {DECISION_FENCE} was off"
    );
}
