//! The heap and the pool's header under power cuts, on the simulated device.
//!
//! Random transactions reserve, activate and free blocks under a small undo log of the test's own.
//! At every fence and around every commit, images of a power cut are recovered: the allocated
//! blocks must be those of the last commit, or of the one in flight. Then the recovered pool goes
//! on working, so a half-whole chunk table cannot hide. Each durable step of the heap is switched
//! off in turn, and the same test must fail.

use pmem::device::simulated::{
    CrashPoint, ImageChoices, Points, SimulatedMemory, SimulatedWorld, WorldOptions, mix,
};
use pmem::{
    Access, Arena, Block, MemorySource, Outcome, Owner, Part, PoolId, PoolIdentity, PoolKind,
    RootIndex, WordChange, site,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

type Failure = String;
type Pool = Arena<SimulatedMemory>;

const POOL: &str = "p.pool";
const LOG_ROOT: RootIndex = RootIndex::new(0);
const LOG_BYTES: usize = 64 << 10;
const COUNT_ROOT: RootIndex = RootIndex::new(7);
const LOG_OWNER: Owner = Owner {
    part: Part::Log,
    tag: 9,
};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % bound
    }
}

fn text(error: impl std::fmt::Display) -> Failure {
    error.to_string()
}

/// An undo log of one record a changed word: transaction, offset, word before, sum of the three.
struct Log {
    place: u64,
    transaction: u64,
    records: u64,
}

impl Log {
    fn committed(pool: &Pool, place: u64) -> Result<u64, Failure> {
        pool.word(place).map_err(text)
    }

    /// Makes the words before durable, then makes the changes.
    fn apply(&mut self, pool: &mut Pool, changes: &[WordChange]) -> Result<(), Failure> {
        for change in changes {
            let before = pool.word(change.offset).map_err(text)?;
            let record = self.place + 64 + self.records * 32;
            assert!(
                self.records * 32 + 96 < LOG_BYTES as u64,
                "the test's log is long enough"
            );
            let sum = mix(self.transaction ^ mix(change.offset ^ mix(before ^ self.records)));
            for (index, word) in [self.transaction, change.offset, before, sum]
                .iter()
                .enumerate()
            {
                pool.store_word(record + index as u64 * 8, *word)
                    .map_err(text)?;
            }
            pool.flush(record, 32, site!("test.log-record"))
                .map_err(text)?;
            self.records += 1;
            // A change may find an earlier record's change of the same word, so each is applied at
            // once.
            pool.fence(site!("test.log-fence")).map_err(text)?;
            pool.store_word(change.offset, change.apply(before))
                .map_err(text)?;
            pool.flush(change.offset, 8, site!("test.change"))
                .map_err(text)?;
        }
        Ok(())
    }

    /// Takes back the changes of the records from `first` on; flushed, not fenced.
    fn undo(&mut self, pool: &mut Pool, first: u64) -> Result<(), Failure> {
        for record in (first..self.records).rev() {
            let place = self.place + 64 + record * 32;
            let offset = pool.word(place + 8).map_err(text)?;
            let before = pool.word(place + 16).map_err(text)?;
            pool.store_word(offset, before).map_err(text)?;
            pool.flush(offset, 8, site!("test.undo")).map_err(text)?;
        }
        Ok(())
    }

    /// Ends the transaction: its applied or undone changes are made durable, then its records are
    /// invalidated.
    fn end(&mut self, pool: &mut Pool) -> Result<(), Failure> {
        pool.fence(site!("test.end-fence")).map_err(text)?;
        pool.store_word(self.place, self.transaction)
            .map_err(text)?;
        pool.flush(self.place, 8, site!("test.end")).map_err(text)?;
        pool.fence(site!("test.end-durable")).map_err(text)?;
        self.transaction += 1;
        self.records = 0;
        Ok(())
    }

    /// Undoes the open transaction that a power cut left. Stores nothing if there is none.
    fn recover(pool: &mut Pool) -> Result<Self, Failure> {
        let place = pool.root(LOG_ROOT);
        let transaction = Self::committed(pool, place)? + 1;
        let mut log = Self {
            place,
            transaction,
            records: 0,
        };
        loop {
            let words = pool
                .slice::<u64>(place + 64 + log.records * 32, 4)
                .map_err(text)?;
            let sum = mix(words[0] ^ mix(words[1] ^ mix(words[2] ^ log.records)));
            if words[0] != transaction || words[3] != sum {
                break;
            }
            log.records += 1;
        }
        if log.records > 0 {
            log.undo(pool, 0)?;
            log.end(pool)?;
        }
        Ok(log)
    }
}

type Blocks = BTreeMap<u64, Block>;

/// The states that a cut may leave: one of these sets of blocks, and one of these values of the
/// root.
#[derive(Default)]
struct Allowed {
    blocks: Vec<Blocks>,
    roots: Vec<u64>,
    failure: Option<Failure>,
    images: u64,
}

/// One run of random transactions over one pool.
struct Driver {
    pool: Pool,
    log: Log,
    random: Random,
    blocks: Blocks,
    allowed: Arc<Mutex<Allowed>>,
    world: SimulatedWorld,
}

const OWNERS: [Owner; 2] = [
    Owner {
        part: Part::Table,
        tag: 1,
    },
    Owner {
        part: Part::Index,
        tag: 2,
    },
];
const SIZES: [usize; 8] = [48, 48, 1000, 2700, 8000, 8000, 20_000, 70_000];

impl Driver {
    fn reserve(&mut self, live: &mut Blocks, changes: &mut Vec<WordChange>) -> Result<(), Failure> {
        let bytes = SIZES[self.random.below(SIZES.len() as u64) as usize];
        let owner = OWNERS[self.random.below(2) as usize];
        let offset = self.pool.reserve(bytes, owner).map_err(text)?;
        let bytes = self.pool.block(offset).map_err(text)?.bytes;
        let below = live.range(..offset + bytes).next_back();
        if let Some((_, other)) = below.filter(|(start, block)| *start + block.bytes > offset) {
            return Err(format!("{bytes} bytes at {offset} overlap {other:?}"));
        }
        // The content of a block must never be taken for the heap's own words.
        for place in [offset, offset + bytes - 8] {
            self.pool.store_word(place, u64::MAX).map_err(text)?;
            self.pool
                .flush(place, 8, site!("test.body"))
                .map_err(text)?;
        }
        live.insert(
            offset,
            Block {
                offset,
                bytes,
                owner,
            },
        );
        if self.random.below(8) == 0 {
            live.remove(&offset);
        } else {
            changes.push(self.pool.activate(offset).map_err(text)?);
        }
        Ok(())
    }

    /// One statement: some reservations and frees, applied at its end, or rolled back.
    fn statement(&mut self, live: &mut Blocks, shrinks: bool) -> Result<(), Failure> {
        let (mark, records, before) = (self.pool.heap_savepoint(), self.log.records, live.clone());
        let mut changes = Vec::new();
        for _ in 0..=self.random.below(4) {
            let freed = self.random.below(10) < if shrinks { 7 } else { 3 };
            if freed && !live.is_empty() {
                let nth = self.random.below(live.len() as u64) as usize;
                let offset = *live.keys().nth(nth).expect("nth is below the length");
                live.remove(&offset);
                changes.push(self.pool.free(offset).map_err(text)?);
            } else {
                self.reserve(live, &mut changes)?;
            }
        }
        self.log.apply(&mut self.pool, &changes)?;
        if self.random.below(5) == 0 {
            self.log.undo(&mut self.pool, records)?;
            self.pool.heap_rollback(mark);
            *live = before;
        }
        Ok(())
    }

    fn transaction(&mut self, shrinks: bool) -> Result<(), Failure> {
        let mut live = self.blocks.clone();
        for _ in 0..=self.random.below(3) {
            self.statement(&mut live, shrinks)?;
        }
        if self.random.below(4) == 0 {
            self.log.undo(&mut self.pool, 0)?;
            self.log.end(&mut self.pool)?;
            self.pool.settle(Outcome::Aborted);
        } else {
            self.allow(|allowed| allowed.blocks.push(live.clone()));
            self.world
                .mark(CrashPoint::CommitCall(self.log.transaction));
            self.log.end(&mut self.pool)?;
            self.allow(|allowed| {
                allowed.blocks.remove(0);
            });
            self.pool.settle(Outcome::Committed);
            self.world
                .mark(CrashPoint::Acknowledged(self.log.transaction));
            self.blocks = live;
        }
        if self.random.below(12) == 0 {
            let root = self.random.below(1 << 40);
            self.allow(|allowed| allowed.roots.push(root));
            self.pool.set_root(COUNT_ROOT, root).map_err(text)?;
            self.allow(|allowed| {
                allowed.roots.remove(0);
            });
            self.world.mark(CrashPoint::Mark("root"));
        }
        let failure = self
            .allowed
            .lock()
            .expect("no thread panics with it")
            .failure
            .take();
        failure.map_or(Ok(()), Err)
    }

    fn allow(&self, change: impl FnOnce(&mut Allowed)) {
        change(&mut self.allowed.lock().expect("no thread panics with it"));
    }
}

fn found_blocks(pool: &Pool) -> Result<Blocks, Failure> {
    let blocks = pool.allocated().map_err(text)?;
    let used = blocks.into_iter().filter(|block| block.owner != LOG_OWNER);
    Ok(used.map(|block| (block.offset, block)).collect())
}

fn open(world: &SimulatedWorld) -> Result<Pool, Failure> {
    let memory = world.source().open(POOL, Access::Write).map_err(text)?;
    Arena::open(memory, Path::new(POOL)).map_err(text)
}

/// Recovers an image, compares it with the allowed states, recovers it again, and works on in some.
fn check(image: &SimulatedWorld, allowed: &Allowed, seed: u64) -> Result<(), Failure> {
    let mut pool = open(image)?;
    Log::recover(&mut pool)?;
    let blocks = found_blocks(&pool)?;
    if !allowed.blocks.contains(&blocks) {
        let expected = &allowed.blocks[0];
        let lost: Vec<_> = expected
            .keys()
            .filter(|key| !blocks.contains_key(key))
            .collect();
        let leaked: Vec<_> = blocks
            .keys()
            .filter(|key| !expected.contains_key(key))
            .collect();
        return Err(format!("lost {lost:?}, leaked {leaked:?}"));
    }
    if !allowed.roots.contains(&pool.root(COUNT_ROOT)) {
        return Err("the root is neither the old nor the new one".to_owned());
    }
    drop(pool);
    let stores = image.stores();
    let mut pool = open(image)?;
    let log = Log::recover(&mut pool)?;
    if image.stores() != stores {
        return Err("the second recovery stores something".to_owned());
    }
    if mix(seed).is_multiple_of(4) {
        let (random, allowed) = (Random(seed), Arc::default());
        let world = image.clone();
        let mut driver = Driver {
            pool,
            log,
            random,
            blocks,
            allowed,
            world,
        };
        driver.allow(|allowed| {
            allowed.blocks.push(driver.blocks.clone());
            allowed.roots.push(0);
        });
        for _ in 0..6 {
            driver.transaction(seed.is_multiple_of(3))?;
        }
        if found_blocks(&driver.pool)? != driver.blocks {
            return Err("life after recovery goes wrong".to_owned());
        }
    }
    Ok(())
}

fn identity() -> PoolIdentity {
    PoolIdentity {
        kind: PoolKind(1),
        pool_id: PoolId(77),
        format_version: pmem::POOL_FORMAT,
        created_seconds: 0,
        user: [0; 4],
    }
}

/// Makes a pool with an empty log. Durable when it returns.
fn create(world: &SimulatedWorld) -> Result<(Pool, Log), Failure> {
    let memory = world.source().create(POOL, 128 << 10).map_err(text)?;
    let mut pool = Arena::create(memory, &identity()).map_err(text)?;
    let place = pool.reserve(LOG_BYTES, LOG_OWNER).map_err(text)?;
    let change = pool.activate(place).map_err(text)?;
    pool.store_word(place, 0).map_err(text)?;
    pool.store_word(change.offset, change.set).map_err(text)?;
    pool.flush(change.offset, 8, site!("test.create-change"))
        .map_err(text)?;
    pool.flush(place, 8, site!("test.create-log"))
        .map_err(text)?;
    pool.fence(site!("test.create-fence")).map_err(text)?;
    pool.settle(Outcome::Committed);
    pool.set_root(LOG_ROOT, place).map_err(text)?;
    Ok((
        pool,
        Log {
            place,
            transaction: 1,
            records: 0,
        },
    ))
}

/// Runs `transactions` with `picks` sampled images at each crash point. Gives the number of images.
fn run(seed: u64, transactions: u64, picks: usize, off: Option<&str>) -> Result<u64, Failure> {
    let world = SimulatedWorld::new(WorldOptions {
        seed,
        ..WorldOptions::default()
    });
    if let Some(site) = off {
        world.disable(site);
    }
    let (pool, log) = create(&world)?;
    let allowed = Arc::new(Mutex::new(Allowed {
        blocks: vec![Blocks::new()],
        roots: vec![0],
        ..Allowed::default()
    }));
    let shared = Arc::clone(&allowed);
    let mut target: Option<SimulatedWorld> = None;
    let mut known = std::collections::HashSet::new();
    world.observe(move |world, point| {
        let mut allowed = shared.lock().expect("no thread panics with it");
        if allowed.failure.is_some() {
            return;
        }
        let point_seed = mix(seed ^ mix(world.events()));
        for choice in ImageChoices::sampled(world, point_seed, picks).take(picks * 8) {
            let hash = world.image_hash(&choice);
            if !known.insert(hash) {
                continue;
            }
            let result = match &mut target {
                Some(target) => world.image_into(&choice, target),
                None => world.image(&choice).map(|image| target = Some(image)),
            };
            let image = target.as_ref().expect("an image was made");
            allowed.images += 1;
            let checked = result
                .map_err(text)
                .and_then(|()| check(image, &allowed, hash));
            if let Err(failure) = checked {
                let place = format!("seed {seed}, event {}, {point:?}", world.events());
                allowed.failure = Some(format!("{place}: {failure}; {choice}"));
                return;
            }
        }
    });
    let blocks = Blocks::new();
    let (random, shared) = (Random(seed), Arc::clone(&allowed));
    let mut driver = Driver {
        pool,
        log,
        random,
        blocks,
        allowed: shared,
        world: world.clone(),
    };
    for number in 0..transactions {
        driver.transaction(number / 10 % 2 == 1)?;
    }
    let failure = found_blocks(&driver.pool)? != driver.blocks;
    let images = allowed.lock().expect("no thread panics with it").images;
    if failure {
        Err(format!("seed {seed}: the end is wrong"))
    } else {
        Ok(images)
    }
}

/// A row of chunks that were runs becomes one extent, without growth. Its content, where a run's
/// bitmap was, must never be read as one.
fn runs_become_an_extent(off: Option<&str>) -> Result<(), Failure> {
    let world = SimulatedWorld::new(WorldOptions::default());
    if let Some(site) = off {
        world.disable(site);
    }
    world.limit_space(Some(512 << 10));
    let (mut pool, mut log) = create(&world)?;
    let mut offsets = Vec::new();
    while let Ok(offset) = pool.reserve(8000, OWNERS[0]) {
        offsets.push(offset);
        let change = pool.activate(offset).map_err(text)?;
        log.apply(&mut pool, &[change])?;
    }
    log.end(&mut pool)?;
    pool.settle(Outcome::Committed);
    for offset in offsets {
        let change = pool.free(offset).map_err(text)?;
        log.apply(&mut pool, &[change])?;
    }
    log.end(&mut pool)?;
    pool.settle(Outcome::Committed);
    let longest = (1..32).rev().find_map(|chunks| {
        let bytes = chunks * (16 << 10);
        pool.reserve(bytes, OWNERS[1])
            .ok()
            .map(|offset| (offset, bytes as u64))
    });
    let (offset, bytes) = longest.ok_or("no run became free")?;
    for word in (offset..offset + bytes).step_by(4096) {
        pool.store_word(word, 1).map_err(text)?;
        pool.flush(word, 8, site!("test.long-body")).map_err(text)?;
    }
    world.limit_space(None);
    let allowed = Allowed {
        blocks: vec![Blocks::new()],
        roots: vec![0],
        ..Allowed::default()
    };
    for (choice, seed) in ImageChoices::sampled(&world, 1, 50).zip(1..) {
        check(&world.image(&choice).map_err(text)?, &allowed, seed)?;
    }
    Ok(())
}

/// The process dies at each step of a transaction that cuts an extent from a longer range; the next
/// one finds the words of the cut, cuts the same extent, commits, and then the power is cut.
fn a_cut_after_a_death(off: Option<&str>) -> Result<(), Failure> {
    let world = SimulatedWorld::new(WorldOptions {
        points: Points::Stores,
        ..WorldOptions::default()
    });
    if let Some(site) = off {
        world.disable(site);
    }
    let (mut pool, mut log) = create(&world)?;
    let extent = |pool: &mut Pool, log: &mut Log| {
        // So long that the word of the rest lies in another line than its own.
        let offset = pool.reserve(8 * (16 << 10), OWNERS[1]).map_err(text)?;
        let change = pool.activate(offset).map_err(text)?;
        log.apply(pool, &[change])?;
        log.end(pool)?;
        pool.settle(Outcome::Committed);
        found_blocks(pool)
    };
    let next = move |world: &SimulatedWorld| {
        let next = world.death().map_err(text)?;
        let mut pool = open(&next)?;
        let mut log = Log::recover(&mut pool)?;
        let allowed = Allowed {
            blocks: vec![extent(&mut pool, &mut log)?],
            roots: vec![0],
            ..Allowed::default()
        };
        for (choice, seed) in ImageChoices::sampled(&next, 1, 20).zip(1..) {
            check(&next.image(&choice).map_err(text)?, &allowed, seed)?;
        }
        Ok(())
    };
    let first = Arc::new(Mutex::new(Ok(())));
    let seen = Arc::clone(&first);
    world.observe(move |world, _| {
        let mut seen = seen.lock().expect("no thread panics with it");
        if seen.is_ok() {
            *seen = next(world);
        }
    });
    extent(&mut pool, &mut log)?;
    world.unobserve();
    first.lock().expect("no thread panics with it").clone()
}

/// Calls `visit` with the images of every crash point while `work` runs on the pool of `world`.
fn at_each_point(
    world: &SimulatedWorld,
    mut visit: impl FnMut(SimulatedWorld) -> Result<(), Failure> + Send + 'static,
    work: impl FnOnce(&mut Pool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let first = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&first);
    world.observe(move |world, _| {
        for choice in ImageChoices::sampled(world, world.events(), 60) {
            let image = world.image(&choice).map_err(text);
            if let Err(failure) = image.and_then(&mut visit) {
                seen.lock()
                    .expect("no thread panics with it")
                    .get_or_insert(failure);
            }
        }
    });
    let mut pool = open(world)?;
    work(&mut pool)?;
    world.unobserve();
    let failure = first.lock().expect("no thread panics with it").take();
    failure.map_or(Ok(()), Err)
}

/// A root is changed, cut off, and after recovery changed and cut off again: it never goes back.
fn roots_under_two_cuts(off: Option<&str>) -> Result<(), Failure> {
    let world = SimulatedWorld::new(WorldOptions::default());
    if let Some(site) = off {
        world.disable(site);
    }
    let (mut pool, _) = create(&world)?;
    pool.set_root(COUNT_ROOT, 1).map_err(text)?;
    drop(pool);
    let set = |pool: &mut Pool, root| pool.set_root(COUNT_ROOT, root).map_err(text);
    let second_cut = move |image: SimulatedWorld| {
        // An opening for writing would make durable the bytes that the one below has to.
        let memory = image.source().open(POOL, Access::Read).map_err(text)?;
        let pool = Arena::open_read_only(memory, Path::new(POOL)).map_err(text)?;
        let root = pool.root(COUNT_ROOT);
        drop(pool);
        let allowed = move |image: SimulatedWorld| {
            let found = open(&image)?.root(COUNT_ROOT);
            let right = found == root || found == 3;
            if right {
                Ok(())
            } else {
                Err(format!("root {found} after {root}"))
            }
        };
        at_each_point(&image, allowed, |pool| set(pool, 3))
    };
    at_each_point(&world, second_cut, |pool| set(pool, 2))
}

#[test]
fn a_root_never_goes_back() {
    roots_under_two_cuts(None).unwrap();
    for site in ["pool.repair", "pool.repair-fence"] {
        assert!(roots_under_two_cuts(Some(site)).is_err(), "{site}");
    }
}

#[test]
fn a_format_is_raised_at_once() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let (mut pool, _) = create(&world).unwrap();
    pool.set_root(COUNT_ROOT, 1).unwrap();
    drop(pool);
    let formats = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&formats);
    let visit = move |image: SimulatedWorld| {
        let pool = open(&image)?;
        let format = pool.identity().format_version;
        seen.lock()
            .expect("no thread panics with it")
            .insert(format);
        let is_right = pool.root(COUNT_ROOT) == 1;
        is_right.then_some(()).ok_or("the root is lost".to_owned())
    };
    let raise = |pool: &mut Pool| pool.raise_format(2).map_err(text);
    at_each_point(&world, visit, raise).unwrap();
    assert_eq!(*formats.lock().unwrap(), BTreeSet::from([1, 2]));
    let pool = open(&world).unwrap();
    assert_eq!(pool.identity().format_version, 2);
}

/// The process dies while a root is changed; the next one opens the pool, and later changes the
/// root again. The power is cut in both.
fn roots_after_a_death(off: Option<&str>) -> Result<(), Failure> {
    let world = SimulatedWorld::new(WorldOptions::default());
    if let Some(site) = off {
        world.disable(site);
    }
    let (mut pool, _) = create(&world)?;
    let set = |pool: &mut Pool, root| pool.set_root(COUNT_ROOT, root).map_err(text);
    set(&mut pool, 1)?;
    drop(pool);
    let is_one_of = |roots: Vec<u64>| {
        move |image: SimulatedWorld| {
            let found = open(&image)?.root(COUNT_ROOT);
            let is_right = roots.contains(&found);
            is_right
                .then_some(())
                .ok_or(format!("{found}: not in {roots:?}"))
        }
    };
    let next = move |world: &SimulatedWorld| {
        let next = world.death().map_err(text)?;
        at_each_point(&next, is_one_of(vec![1, 2]), |_| Ok(()))?;
        let shown = open(&next)?.root(COUNT_ROOT);
        for choice in ImageChoices::sampled(&next, 1, 60) {
            is_one_of(vec![shown])(next.image(&choice).map_err(text)?)?;
        }
        at_each_point(&next, is_one_of(vec![shown, 3]), |pool| set(pool, 3))
    };
    let mut pool = open(&world)?;
    let first = Arc::new(Mutex::new(Ok(())));
    let seen = Arc::clone(&first);
    world.observe(move |world, _| {
        let mut seen = seen.lock().expect("no thread panics with it");
        if seen.is_ok() {
            *seen = next(world);
        }
    });
    set(&mut pool, 2)?;
    world.unobserve();
    first.lock().expect("no thread panics with it").clone()
}

#[test]
fn a_root_that_the_next_process_shows_never_goes_back() {
    roots_after_a_death(None).unwrap();
    for site in ["pool.found", "pool.found-fence"] {
        assert!(roots_after_a_death(Some(site)).is_err(), "{site}");
    }
}

#[test]
fn words_of_a_cut_that_the_next_process_finds_become_durable() {
    a_cut_after_a_death(None).unwrap();
    a_cut_after_a_death(Some("heap.rest-word")).unwrap_err();
}

#[test]
fn an_extent_that_is_only_reserved_wears_no_line() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let (mut pool, _) = create(&world).unwrap();
    let mut reserve = || {
        let offset = pool.reserve(2 * (16 << 10), OWNERS[1]).unwrap();
        pool.settle(Outcome::Committed);
        offset
    };
    let (offset, stores) = (reserve(), world.stores());
    for _ in 0..10 {
        assert_eq!(reserve(), offset);
    }
    assert_eq!(world.stores(), stores);
}

#[test]
fn an_extent_over_old_runs_is_never_read_as_runs() {
    runs_become_an_extent(None).unwrap();
}

#[test]
fn no_cut_loses_or_leaks_a_block() {
    let mut images = 0;
    for seed in 1..=12 {
        images += run(seed, 60, 6, None).unwrap();
    }
    assert!(
        images > 10_000,
        "{images} distinct images are too few to prove anything"
    );
}

#[test]
fn every_durable_step_is_needed() {
    let sites = [
        "heap.extent-rest-fence",
        "heap.extent-word",
        "heap.grow-table",
        "heap.grow-table-fence",
        "heap.rest-word",
        "heap.run-bitmap",
        "heap.run-bitmap-fence",
        "heap.run-release",
        "heap.run-word",
        "pool.header",
        "pool.header-fence",
    ];
    let survivors: Vec<&str> = sites
        .into_iter()
        .filter(|site| {
            (1..=12).all(|seed| run(seed, 60, 4, Some(site)).is_ok())
                && runs_become_an_extent(Some(site)).is_ok()
        })
        .collect();
    assert!(
        survivors.is_empty(),
        "no test notices the loss of {survivors:?}"
    );
}
