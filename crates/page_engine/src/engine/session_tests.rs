//! Several sessions of one partition: goal and method.
//!
//! *Interleaved*: three sessions take turns in one thread, a statement at a time, by a seed; a
//! session that meets a lock gives up. The power is cut at every sync, and each image must have
//! exactly the acknowledged content, perhaps with the first of the later transactions, and pass the
//! deep check. So checkpoints fall between the statements of open transactions, and recovery undoes
//! several. Some commits nobody waits for, so later ones of other sessions build on changes that
//! may be lost. Some recoveries are cut off in their turn, which must change nothing.
//!
//! *Beside undo*: the same after a power cut in the middle of transactions, which are undone a
//! change at a time while the sessions go on.
//!
//! *Beside redo*: the same where the opening has deferred the redo of pages, which are redone as
//! they are read, or a page at a time.
//!
//! *As published*: a commit that waits for no other session's records is lost where one of those is
//! missing, which is why it is not the default; in whole order it is there.
//!
//! *Threads*: sessions move money between accounts, move accounts to other keys, and add all of it
//! up, by the table and by an index. Nobody may see another sum, and none may be left waiting. A
//! cleaner writes their pages.

use super::tests::{TestPlatform, key_of, number_of, options};
use super::*;
use crate::engine::{create, open};
use pmem::device::simulated::{
    CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, WorldOptions,
};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::engine::{AfterCrash, Cleaning, CommitOrder, Direction, Locking, Method, Persist};
use storage::record::{Column, DataType};

const TABLE: TableId = TableId(1);
const INDEX: IndexId = IndexId(1);
const CASES: [Case; 11] = [
    Case(Method::FullPageWrites, Persist::OnInsert),
    Case(Method::Dwb, Persist::OnInsert),
    Case(Method::NvLogging, Persist::OnInsert),
    Case(Method::NvLogging, Persist::OnCommit),
    Case(Method::NvDiskDecentralized, Persist::OnCommit),
    // Three sessions share two rings.
    Case(Method::DistributedLog, Persist::OnCommit),
    Case(Method::InPlace, Persist::OnInsert),
    Case(Method::NvmDwb, Persist::OnInsert),
    Case(Method::NvmDwbLog, Persist::OnInsert),
    Case(Method::NvmDwbLogOpt, Persist::OnInsert),
    Case(Method::GroupCommit, Persist::OnInsert),
];

/// Whether all cases and more images are looked at, as `.ci/run` wants it.
fn is_long() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}

/// A method, and when its log records become durable where it has a choice.
#[derive(Clone, Copy, Debug)]
struct Case(Method, Persist);

impl Case {
    fn options(self) -> EngineOptions {
        EngineOptions {
            persist: self.1,
            // With the one method of two cases, one without inheritance and early release.
            locking: match self.1 {
                Persist::OnInsert => Locking::Optimised,
                Persist::OnCommit => Locking::Plain,
            },
            // The deep check, which needs the whole partition, ends it.
            undoing: AfterCrash::BySteps,
            redoing: AfterCrash::BySteps,
            ..options()
        }
    }

    fn create(self, world: &SimulatedWorld, cleaning: Cleaning) -> Box<dyn Engine> {
        let platform = TestPlatform(world.clone());
        let options = EngineOptions {
            cleaning,
            ..self.options()
        };
        let mut engine = create(&platform, self.0, &options).unwrap();
        engine.idle().unwrap().create_table(&table()).unwrap();
        engine
    }
}

type Content = BTreeMap<i64, i64>;

fn table() -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("note", DataType::Varchar { max: 200 }),
    ];
    let mut table = TableDef::new(TABLE, "t", columns, vec![0]);
    table.indexes.push(IndexDef {
        id: INDEX,
        name: "by_value".to_owned(),
        columns: vec![1],
        unique: false,
    });
    table
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }

    fn number(&mut self, end: u64) -> i64 {
        self.below(end).cast_signed()
    }
}

fn row_of(engine: &dyn Engine, id: i64, value: i64, note: usize) -> Row {
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    row.set(0, id).unwrap();
    row.set(1, value).unwrap();
    row.set(2, "n".repeat(note).as_str()).unwrap();
    row
}

fn change_of(engine: &dyn Engine, value: i64) -> Changes {
    let mut changes = Changes::new(Arc::clone(&engine.tables()[0].layout));
    changes.set(1, value).unwrap();
    changes
}

/// Everything in key order, or in the order of the index.
fn range(engine: &dyn Engine, is_index: bool) -> ScanRange {
    let table = &engine.tables()[0];
    let encoder = if is_index {
        &table.secondary[0]
    } else {
        &table.primary
    };
    let words = encoder.shape().words;
    ScanRange {
        table: TABLE,
        index: is_index.then_some(INDEX),
        low: KeyBuf::from_words(&vec![0; words]),
        high: KeyBuf::from_words(&vec![u64::MAX; words]),
        direction: Direction::Forward,
    }
}

fn id_of(row: &Row) -> i64 {
    match row.get(0) {
        storage::record::ValueRef::Int64(id) => id,
        other => panic!("{other:?} is no number"),
    }
}

fn read_all(engine: &mut dyn Engine, is_index: bool) -> Result<Content> {
    let mut content = Content::new();
    let range = range(engine, is_index);
    engine.scan(&range, &mut |row| {
        content.insert(id_of(row), number_of(row));
        ControlFlow::Continue(())
    })?;
    Ok(content)
}

fn recovered(world: &SimulatedWorld, case: Case) -> Result<Content, String> {
    let platform = TestPlatform(world.clone());
    let opened = open(&platform, case.0, &case.options(), &|_| false);
    let mut engine = opened.map_err(|error| error.to_string())?;
    let report = engine.verify().map_err(|error| error.to_string())?;
    if let Some(damage) = report.damage.first() {
        return Err(damage.clone());
    }
    engine.begin().unwrap();
    let content = read_all(&mut *engine, false).map_err(|error| error.to_string())?;
    engine.abort().unwrap();
    Ok(content)
}

/// One session of the interleaved test, and the changes of its open transaction.
struct Actor {
    engine: Box<dyn Engine>,
    changed: Option<Content>,
}

/// Content of an image, also if the power is cut again in its recovery.
fn recovered_twice(image: &SimulatedWorld, case: Case, seed: u64) -> Result<Content, String> {
    let inner = Arc::new(Mutex::new(Vec::new()));
    let (cuts, mut points) = (Arc::clone(&inner), 0);
    let mut scratch = None;
    image.observe(move |world, point| {
        if matches!(point, CrashPoint::Sync(_) | CrashPoint::Fence(_)) {
            points += 1;
            for choice in ImageChoices::bounded(world, seed ^ points, 2) {
                let found = recovered(world.image_in(&choice, &mut scratch).unwrap(), case);
                cuts.lock().unwrap().push(found);
            }
        }
    });
    let found = recovered(image, case)?;
    image.unobserve();
    for again in inner.lock().unwrap().drain(..) {
        let again = again.map_err(|error| format!("after a recovery that was cut off: {error}"))?;
        if again != found {
            return Err("another content after a recovery that was cut off".to_owned());
        }
    }
    Ok(found)
}

/// Contents that an image may have: the acknowledged one, or the same with some of the later
/// commits, in their order.
struct Expected(Vec<Content>);

impl Actor {
    /// Executes one statement. A commit notes the new content in `expected`.
    fn step(&mut self, random: &mut Random, expected: &Mutex<Expected>) {
        let Some(changed) = &mut self.changed else {
            self.engine.begin().unwrap();
            self.changed = Some(Content::new());
            return;
        };
        let id = random.number(40);
        let value = random.number(1000);
        let key = key_of(&*self.engine, id);
        let statement = match random.below(10) {
            0..=2 => {
                let note = 20 + random.below(120) as usize;
                let row = row_of(&*self.engine, id, value, note);
                let inserted = self.engine.insert(TABLE, &row).map(|()| true);
                inserted.map(|done| done.then_some(Some(value)))
            }
            3..=5 => {
                let update = change_of(&*self.engine, value);
                let updated = self.engine.update(TABLE, &key, &update);
                updated.map(|done| done.then_some(Some(value)))
            }
            6 => {
                let deleted = self.engine.delete(TABLE, &key);
                deleted.map(|done| done.then_some(None))
            }
            7 => return self.commit(Durability::Immediate, expected),
            8 => return self.commit(Durability::None, expected),
            _ => Err(StorageError::Deadlock { waited_ms: 0 }),
        };
        match statement {
            Ok(Some(value)) => {
                changed.insert(id, value.unwrap_or(-1));
            }
            Ok(None) | Err(StorageError::DuplicateKey { .. }) => {}
            Err(StorageError::Deadlock { .. } | StorageError::LockTimeout { .. }) => {
                self.changed = None;
                self.engine.abort().unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn commit(&mut self, durability: Durability, expected: &Mutex<Expected>) {
        let mut after = expected.lock().unwrap().0.last().unwrap().clone();
        for (id, value) in self.changed.take().unwrap() {
            if value < 0 {
                after.remove(&id);
            } else {
                after.insert(id, value);
            }
        }
        expected.lock().unwrap().0.push(after.clone());
        self.engine.commit(durability).unwrap();
        if durability == Durability::Immediate {
            expected.lock().unwrap().0 = vec![after];
        }
    }
}

/// The last action before the power is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// So recovery has something to undo, and nothing to repeat.
    Checkpoint,
    /// So it has both.
    Statements,
}

/// The state from which three sessions go on, a statement at a time.
struct Play {
    case: Case,
    seed: u64,
    world: SimulatedWorld,
    first: Box<dyn Engine>,
    content: Content,
}

impl Play {
    fn new(case: Case, seed: u64) -> Self {
        let world = SimulatedWorld::new(WorldOptions::default());
        Self {
            case,
            seed,
            first: case.create(&world, Cleaning::BySessions),
            world,
            content: Content::new(),
        }
    }

    /// Judges images of the power that is cut at some of the points.
    fn watch(&self, judge: Arc<Mutex<Expected>>) -> Arc<Mutex<u64>> {
        let (case, seed) = (self.case, self.seed);
        let images = Arc::new(Mutex::new(0_u64));
        let image_count = Arc::clone(&images);
        let (mut number, mut looked_at) = (0_u64, 0_u64);
        let mut scratch = None;
        self.world.observe(move |world, point| {
            if !matches!(point, CrashPoint::Sync(_) | CrashPoint::Fence(_)) {
                return;
            }
            // A dozen at each distance, which doubles: methods have from a hundred to ten thousand
            // points.
            number += 1;
            if !number.is_multiple_of(5 << (looked_at / 12)) {
                return;
            }
            looked_at += 1;
            let expected = &judge.lock().unwrap().0;
            for choice in ImageChoices::bounded(world, seed ^ number, if is_long() { 3 } else { 2 })
            {
                let image = world.image_in(&choice, &mut scratch).unwrap();
                let found = if looked_at.is_multiple_of(10) {
                    recovered_twice(image, case, seed ^ number)
                } else {
                    recovered(image, case)
                };
                let found = found.unwrap_or_else(|error| {
                    panic!("{case:?}, seed {seed}, crash point {number}: {error}")
                });
                assert!(
                    expected.contains(&found),
                    "{case:?}, seed {seed}: {found:?} is none of {expected:?}"
                );
                *image_count.lock().unwrap() += 1;
            }
        });
        images
    }

    /// Lets the sessions take turns, and somebody undo unfinished transactions. A transaction that
    /// is open at the end is lost to a power cut.
    fn go_on(mut self, last: Last) -> Self {
        let mut actors: Vec<Actor> = (0..3)
            .map(|_| {
                let isolation = Isolation::Serializable;
                Actor {
                    engine: session(&mut *self.first, isolation, Duration::ZERO),
                    changed: None,
                }
            })
            .collect();
        let expected = Arc::new(Mutex::new(Expected(vec![self.content.clone()])));
        let images = self.watch(Arc::clone(&expected));
        let mut random = Random(self.seed);
        for step in 0..900 {
            let who = random.below(3) as usize;
            actors[who].step(&mut random, &expected);
            if step % 60 == 59 {
                // By another session, while the three are in the middle of their transactions.
                self.first.idle().unwrap().checkpoint().unwrap();
            }
            if step % 8 == 7 {
                self.first.sessions().unwrap().assist().unwrap();
            }
        }
        while actors
            .iter()
            .all(|actor| actor.changed.as_ref().is_none_or(Content::is_empty))
        {
            actors[0].step(&mut random, &expected);
        }
        match last {
            Last::Checkpoint => self.first.idle().unwrap().checkpoint().unwrap(),
            Last::Statements => {
                for _ in 0..60 {
                    let who = random.below(3) as usize;
                    actors[who].step(&mut random, &expected);
                }
            }
        }
        self.world.unobserve();
        assert!(*images.lock().unwrap() > 20);
        let world = self.world.image(&ImageChoice::default()).unwrap();
        let platform = TestPlatform(world.clone());
        let options = self.case.options();
        Self {
            first: open(&platform, self.case.0, &options, &|_| false).unwrap(),
            world,
            content: expected.lock().unwrap().0.last().unwrap().clone(),
            ..self
        }
    }
}

fn interleave(case: Case, seed: u64) {
    let mut play = Play::new(case, seed).go_on(Last::Checkpoint);
    let report = play.first.verify().unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    play.first.begin().unwrap();
    assert_eq!(read_all(&mut *play.first, true).unwrap(), play.content);
    play.first.abort().unwrap();
}

#[test]
fn a_commit_that_waits_for_no_others_can_be_lost() {
    for persist in [Persist::OnInsert, Persist::OnCommit] {
        for order in [CommitOrder::Whole, CommitOrder::AsPublished] {
            let case = Case(Method::NvLogging, persist);
            let world = SimulatedWorld::new(WorldOptions::default());
            drop(case.create(&world, Cleaning::BySessions));
            let options = EngineOptions {
                commit_order: order,
                ..case.options()
            };
            let platform = TestPlatform(world.clone());
            let mut first = open(&platform, case.0, &options, &|_| false).unwrap();
            let mut second = session(&mut *first, Isolation::Serializable, Duration::ZERO);
            let commits = [
                (&mut first, Durability::None),
                (&mut second, Durability::Immediate),
            ];
            for (id, (engine, durability)) in (1..).zip(commits) {
                engine.begin().unwrap();
                let row = row_of(&**engine, id, 7, 20);
                engine.insert(TABLE, &row).unwrap();
                engine.commit(durability).unwrap();
            }
            let image = world.image(&ImageChoice::default()).unwrap();
            let found = recovered(&image, case).unwrap();
            let is_whole = order == CommitOrder::Whole;
            assert_eq!(found.contains_key(&2), is_whole, "{persist:?}, {order:?}");
        }
    }
}

#[test]
fn sessions_go_on_before_what_a_crash_has_left_is_undone() {
    // With undo records of pages in durable memory, and with batches, nothing is undone while
    // sessions work.
    let at_opening = [Method::InPlace, Method::GroupCommit];
    let is_later = |case: &Case| !at_opening.contains(&case.0);
    let cases = (1..).zip(CASES.into_iter().filter(is_later));
    for (seed, case) in cases.step_by(if is_long() { 1 } else { 2 }) {
        let mut play = Play::new(case, seed).go_on(Last::Checkpoint);
        // Most rows can be read, and some cannot yet.
        let locked = |engine: &mut Box<dyn Engine>| {
            let sessions = engine.sessions().unwrap();
            sessions.set_isolation(Isolation::ReadCommitted, Duration::ZERO);
            engine.begin().unwrap();
            let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
            let ids = 0..40_i64;
            let is_locked = |id: &i64| {
                engine
                    .get(TABLE, &key_of(&**engine, *id), &mut row)
                    .is_err()
            };
            let locked = ids.filter(is_locked).count();
            engine.abort().unwrap();
            locked
        };
        let at_first = locked(&mut play.first);
        assert!((1..30).contains(&at_first), "{at_first}");
        let mut play = play.go_on(Last::Checkpoint);
        for _ in 0..1000 {
            play.first.sessions().unwrap().assist().unwrap();
        }
        assert_eq!(locked(&mut play.first), 0);
        let sessions = play.first.sessions().unwrap();
        sessions.set_isolation(Isolation::Serializable, Duration::ZERO);
        play.first.begin().unwrap();
        assert_eq!(read_all(&mut *play.first, false).unwrap(), play.content);
        play.first.abort().unwrap();
    }
}

/// The log keeps all records from where an unfinished transaction begins. Where rings have no more
/// room for that, the session that needs it undoes the rest.
#[test]
fn a_ring_that_is_full_lets_the_undo_end_first() {
    for method in [Method::NvLogging, Method::DistributedLog] {
        let case = Case(method, Persist::OnInsert);
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut first = case.create(&world, Cleaning::BySessions);
        let mut other = first.sessions().unwrap().session().unwrap();
        first.begin().unwrap();
        first.insert(TABLE, &row_of(&*first, 1, 1, 20)).unwrap();
        first.commit(Durability::Immediate).unwrap();
        first.begin().unwrap();
        let update = change_of(&*first, 2);
        assert!(first.update(TABLE, &key_of(&*first, 1), &update).unwrap());
        // Records before this commit are durable with it.
        other.begin().unwrap();
        other.insert(TABLE, &row_of(&*other, 2, 2, 20)).unwrap();
        other.commit(Durability::Immediate).unwrap();
        let image = world.image(&ImageChoice::default()).unwrap();
        let platform = TestPlatform(image);
        let mut engine = open(&platform, method, &case.options(), &|_| false).unwrap();
        let sessions = engine.sessions().unwrap();
        sessions.set_isolation(Isolation::ReadCommitted, Duration::ZERO);
        let mut row = row_of(&*engine, 0, 0, 0);
        let value = |engine: &mut dyn Engine, row: &mut Row| {
            engine.begin().unwrap();
            let found = engine.get(TABLE, &key_of(engine, 1), row);
            engine.abort().unwrap();
            found.map(|_| number_of(row))
        };
        let (mut commits, mut commits_until_undone) = (0, None);
        while commits < 3000 {
            commits += 1;
            engine.begin().unwrap();
            let update = change_of(&*engine, commits);
            let key = key_of(&*engine, 2);
            assert!(engine.update(TABLE, &key, &update).unwrap(), "{commits}");
            engine.commit(Durability::Immediate).unwrap();
            match value(&mut *engine, &mut row) {
                Ok(found) => {
                    assert_eq!(found, 1);
                    commits_until_undone.get_or_insert(commits);
                }
                Err(StorageError::LockTimeout { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        let undone = commits_until_undone.unwrap();
        assert!((100..3000).contains(&undone), "{case:?}: {undone}");
    }
}

#[test]
fn sessions_go_on_before_pages_have_what_the_log_has() {
    let case = Case(Method::NvmDwbLogOpt, Persist::OnInsert);
    let play = Play::new(case, 1).go_on(Last::Statements);
    assert_eq!(
        play.first.status().area.pages_put,
        0,
        "it has written pages"
    );
    let mut play = play.go_on(Last::Statements);
    for _ in 0..100 {
        play.first.sessions().unwrap().assist().unwrap();
    }
    let put = play.first.status().area.pages_put;
    assert!(put > 0, "no checkpoint has followed");
    play.first.idle().unwrap().checkpoint().unwrap();
    assert_eq!(play.first.status().area.pages_put, put);
    play.first.begin().unwrap();
    assert_eq!(read_all(&mut *play.first, true).unwrap(), play.content);
    play.first.abort().unwrap();
}

#[test]
fn checkpoints_fall_between_the_statements_of_open_transactions() {
    for (seed, case) in (1..).zip(CASES) {
        interleave(case, seed);
    }
}

const ACCOUNTS: i64 = 30;

/// Takes from one account and gives to another one, or moves an account to another key.
fn transfer(engine: &mut dyn Engine, random: &mut Random) -> Result<()> {
    let (from, to) = (random.number(60), random.number(60));
    let mut row = Row::new(Arc::clone(&engine.tables()[0].layout));
    if !engine.get_to_change(TABLE, &key_of(engine, from), &mut row)? || from == to {
        return Ok(());
    }
    let taken = number_of(&row);
    let mut other = Row::new(Arc::clone(&engine.tables()[0].layout));
    if engine.get_to_change(TABLE, &key_of(engine, to), &mut other)? {
        let given = change_of(engine, number_of(&other) + 1);
        engine.update(TABLE, &key_of(engine, to), &given)?;
        let taken = change_of(engine, taken - 1);
        engine.update(TABLE, &key_of(engine, from), &taken)?;
    } else {
        assert!(engine.delete(TABLE, &key_of(engine, from))?);
        let note = random.below(150) as usize;
        engine.insert(TABLE, &row_of(engine, to, taken, note))?;
    }
    Ok(())
}

fn session(first: &mut dyn Engine, isolation: Isolation, limit: Duration) -> Box<dyn Engine> {
    let mut engine = first.sessions().unwrap().session().unwrap();
    let sessions = engine.sessions().unwrap();
    sessions.set_isolation(isolation, limit);
    engine
}

/// A session whose waits end by a lock or a deadlock, however little time others get.
fn patient_session(first: &mut dyn Engine) -> Box<dyn Engine> {
    session(first, Isolation::Serializable, Duration::from_hours(1))
}

fn run(engine: &mut dyn Engine, body: &mut dyn FnMut(&mut dyn Engine) -> Result<bool>) {
    loop {
        engine.begin().unwrap();
        match body(engine) {
            Ok(true) => {
                engine.commit(Durability::Group).unwrap();
                return;
            }
            Ok(false) => return engine.abort().unwrap(),
            Err(StorageError::Deadlock { .. }) => engine.abort().unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn nobody_sees_half_of_a_transfer() {
    for case in CASES {
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut first = case.create(&world, Cleaning::InBackground);
        run(&mut *first, &mut |engine| {
            for id in 0..ACCOUNTS {
                engine.insert(TABLE, &row_of(engine, 2 * id, 100, 50))?;
            }
            Ok(true)
        });
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for number in 0..4 {
                let mut engine = patient_session(&mut *first);
                let stop = &stop;
                threads.spawn(move || {
                    let mut random = Random(number);
                    for round in 0..400 {
                        let is_kept = random.below(8) > 0;
                        run(&mut *engine, &mut |engine| {
                            transfer(engine, &mut random).map(|()| is_kept)
                        });
                        if round % 100 == 99 {
                            engine.idle().unwrap().checkpoint().unwrap();
                        }
                    }
                    stop.store(number == 3 || stop.load(Ordering::SeqCst), Ordering::SeqCst);
                });
            }
            for is_index in [false, true] {
                let mut engine = patient_session(&mut *first);
                let stop = &stop;
                threads.spawn(move || {
                    while !stop.load(Ordering::SeqCst) {
                        run(&mut *engine, &mut |engine| {
                            let content = read_all(engine, is_index)?;
                            assert_eq!(content.len(), ACCOUNTS as usize);
                            assert_eq!(content.values().sum::<i64>(), ACCOUNTS * 100);
                            Ok(false)
                        });
                    }
                });
            }
        });
        let report = first.verify().unwrap();
        assert!(report.damage.is_empty(), "{:?}", report.damage);
        drop(first);
        let content = recovered(&world, case).unwrap();
        assert_eq!(content.values().sum::<i64>(), ACCOUNTS * 100);
    }
}

#[test]
fn what_nobody_waits_for_becomes_durable_all_the_same() {
    for case in CASES {
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut engine = case.create(&world, Cleaning::InBackground);
        engine.begin().unwrap();
        let row = row_of(&*engine, 1, 100, 50);
        engine.insert(TABLE, &row).unwrap();
        let ticket = engine.commit(Durability::None).unwrap();
        // Without the thread that sees to it this would go on for ever.
        while engine.durable() < ticket {
            std::thread::yield_now();
        }
    }
}

/// Changes by others that each isolation prevents while a reader goes on: to a row that it looked
/// up, or that it found in a range; an insertion into the range; an insertion of the row that it
/// did not find.
#[test]
fn a_reader_keeps_from_others_what_its_isolation_says() {
    for (isolation, kept) in [
        (Isolation::Serializable, [true, true, true, true]),
        (Isolation::RepeatableRead, [true, true, false, true]),
        (Isolation::ReadCommitted, [false, false, false, false]),
    ] {
        for is_index in [false, true] {
            let world = SimulatedWorld::new(WorldOptions::default());
            let mut first = CASES[0].create(&world, Cleaning::BySessions);
            first.begin().unwrap();
            for id in [1, 10, 20, 30, 40] {
                let row = row_of(&*first, id, id, 10);
                first.insert(TABLE, &row).unwrap();
            }
            first.commit(Durability::Immediate).unwrap();
            let mut reader = session(&mut *first, isolation, Duration::ZERO);
            let mut writer = session(&mut *first, Isolation::Serializable, Duration::ZERO);
            reader.begin().unwrap();
            let mut row = row_of(&*reader, 0, 0, 0);
            assert!(reader.get(TABLE, &key_of(&*reader, 1), &mut row).unwrap());
            assert!(!reader.get(TABLE, &key_of(&*reader, 50), &mut row).unwrap());
            let mut some = range(&*reader, is_index);
            some.low = KeyBuf::from_words(&[key_of(&*reader, 10)[0], 0][..some.low.len()]);
            some.high = KeyBuf::from_words(&[key_of(&*reader, 30)[0], 0][..some.low.len()]);
            let mut found = 0;
            reader
                .scan(&some, &mut |_| {
                    found += 1;
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert!(found >= 2, "{found} rows");
            let mut is_kept = |change: &mut dyn FnMut(&mut dyn Engine) -> Result<()>| {
                writer.begin().unwrap();
                let changed = change(&mut *writer);
                writer.abort().unwrap();
                match changed {
                    Ok(()) => false,
                    Err(StorageError::LockTimeout { .. } | StorageError::Deadlock { .. }) => true,
                    Err(error) => panic!("{error}"),
                }
            };
            let mut update = |id: i64| {
                is_kept(&mut |engine| {
                    let changes = change_of(engine, id + 100);
                    let key = key_of(engine, id);
                    assert!(engine.update(TABLE, &key, &changes)?);
                    Ok(())
                })
            };
            let updated = [update(1), update(20)];
            let mut insert = |id: i64| {
                is_kept(&mut |engine| {
                    let row = row_of(engine, id, id, 10);
                    engine.insert(TABLE, &row)
                })
            };
            let inserted = [insert(15), insert(50)];
            assert_eq!(
                [updated, inserted].concat(),
                kept,
                "{isolation:?}, index {is_index}"
            );
            reader.abort().unwrap();
        }
    }
}
