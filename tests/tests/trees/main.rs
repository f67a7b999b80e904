//! The methods that keep rows in pages of trees, copied on write or changed in place, on the
//! simulated devices, against a map.
//!
//! Random transactions, some of them aborted, run in groups of different lengths. The content is
//! compared after each transaction, the whole structure now and then. The power is cut at the end
//! of groups, and the next opening must find the acknowledged content. The torture room tests crash
//! points inside the end of a group.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod cached;
mod slotted;

use disk::Directory as _;
use disk::simulated::SimulatedDirectory;
use indelible::SimulatedPlatform;
use pmem::device::simulated::{ImageChoice, ImageChoices, SimulatedWorld, WorldOptions, mix};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use storage::engine::{
    Direction, Durability, Engine, EngineOptions, GlobalTxnId, Method, ScanRange,
};
use storage::record::{
    Changes, Column, DataType, IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId, Value,
};
use storage::{EngineSource as _, StorageError};

const TABLE: TableId = TableId(3);
const INDEX: IndexId = IndexId(7);
const METHODS: [Method; 8] = [
    Method::Cow,
    Method::NvmCow,
    Method::Fash,
    Method::Fast,
    Method::Nvwal,
    Method::SlotHeaderJournal,
    Method::FullPageWrites,
    Method::Dwb,
];

/// Those of them with slotted pages in a file.
const BEHIND_FRAMES: [Method; 2] = [Method::Nvwal, Method::SlotHeaderJournal];

type Content = BTreeMap<i64, (i64, usize)>;

fn create(
    world: &SimulatedWorld,
    method: Method,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>, StorageError> {
    SimulatedPlatform::new(world).create_engine(method, options)
}

fn open(
    world: &SimulatedWorld,
    method: Method,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>, StorageError> {
    SimulatedPlatform::new(world).open_engine(method, options, &|_| false)
}

/// Commits what is prepared.
fn open_committed(world: &SimulatedWorld) -> Result<Box<dyn Engine>, StorageError> {
    SimulatedPlatform::new(world).open_engine(Method::NvmCow, &options(1), &|_| true)
}

fn options(group: u32) -> EngineOptions {
    EngineOptions {
        database_id: 0x55,
        page_bytes: 512,
        buffer_bytes: 0,
        // Methods with frames make more of it: their log is full every few groups.
        ring_bytes: 0,
        layout: LayoutKind::Separate,
        group_transactions_max: group,
        group_wait_us_max: u64::MAX,
        ..EngineOptions::default()
    }
}

fn table() -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("value", DataType::Int64),
        Column::new("note", DataType::Text).nullable(),
    ];
    let mut def = TableDef::new(TABLE, "t", columns, vec![0]);
    def.indexes.push(IndexDef {
        id: INDEX,
        name: "by_value".into(),
        columns: vec![1],
        unique: false,
    });
    def
}

/// An engine and its expected content.
struct Subject {
    method: Method,
    world: SimulatedWorld,
    engine: Box<dyn Engine>,
    content: Content,
    random: u64,
}

impl Subject {
    fn new(method: Method, seed: u64, group: u32) -> Self {
        Self::with(method, seed, &options(group))
    }

    fn with(method: Method, seed: u64, options: &EngineOptions) -> Self {
        let world = WorldOptions {
            seed,
            ..WorldOptions::default()
        };
        Self::in_world(method, world, options)
    }

    fn in_world(method: Method, world: WorldOptions, options: &EngineOptions) -> Self {
        let seed = world.seed;
        let world = SimulatedWorld::new(world);
        let mut engine = create(&world, method, options).unwrap();
        engine.idle().unwrap().create_table(&table()).unwrap();
        Self {
            method,
            world,
            engine,
            content: Content::new(),
            random: seed,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random = mix(self.random.wrapping_add(1));
        self.random % limit
    }

    fn key(&self, id: i64) -> KeyBuf {
        let mut key = KeyBuf::default();
        let tables = self.engine.tables();
        let encoder = &tables[0].primary;
        encoder.encode_values(&[Value::from(id)], &mut key).unwrap();
        key
    }

    /// A transaction that takes the rows out that are there, and puts in those that are not.
    fn change(&mut self, ids: impl IntoIterator<Item = i64>, note_bytes: usize) {
        self.engine.begin().unwrap();
        for id in ids {
            let key = self.key(id);
            if self.content.remove(&id).is_some() {
                assert!(self.engine.delete(TABLE, &key).unwrap());
                continue;
            }
            let mut row = Row::new(Arc::clone(&self.engine.tables()[0].layout));
            row.set(0, id).unwrap();
            row.set(1, id % 7).unwrap();
            row.set(2, "n".repeat(note_bytes).as_str()).unwrap();
            self.engine.insert(TABLE, &row).unwrap();
            self.content.insert(id, (id % 7, note_bytes));
        }
        self.engine.commit(Durability::Immediate).unwrap();
    }

    /// One random change, in the engine and in `content`.
    fn step(&mut self, content: &mut Content) {
        let id = self.below(300).cast_signed();
        let value = self.below(50).cast_signed();
        // Some notes are longer than a page.
        let note = [0, 5, 90, 700][self.below(4) as usize];
        let layout = Arc::clone(&self.engine.tables()[0].layout);
        match self.below(4) {
            0 | 1 => {
                let mut row = Row::new(layout);
                row.set(0, id).unwrap();
                row.set(1, value).unwrap();
                row.set(2, "n".repeat(note).as_str()).unwrap();
                let result = self.engine.insert(TABLE, &row);
                assert_eq!(result.is_ok(), !content.contains_key(&id), "{result:?}");
                content.entry(id).or_insert((value, note));
            }
            2 => {
                let mut changes = Changes::new(layout);
                changes.set(1, value).unwrap();
                changes.set(2, "n".repeat(note).as_str()).unwrap();
                let key = self.key(id);
                let found = self.engine.update(TABLE, &key, &changes).unwrap();
                assert_eq!(found, content.contains_key(&id));
                if found {
                    content.insert(id, (value, note));
                }
            }
            _ => {
                let key = self.key(id);
                let found = self.engine.delete(TABLE, &key).unwrap();
                assert_eq!(found, content.remove(&id).is_some());
            }
        }
    }

    /// A transaction of a few changes, which one in four times is aborted.
    fn transaction(&mut self) {
        self.engine.begin().unwrap();
        let mut content = self.content.clone();
        for _ in 0..=self.below(6) {
            self.step(&mut content);
        }
        match self.below(8) {
            0 | 1 => self.engine.abort().unwrap(),
            2 => {
                self.engine.prepare(GlobalTxnId(9)).unwrap();
                self.engine.abort().unwrap();
            }
            3 => {
                self.engine.prepare(GlobalTxnId(9)).unwrap();
                self.engine.commit(Durability::Immediate).unwrap();
                self.content = content;
            }
            _ => {
                self.engine.commit(Durability::Group).unwrap();
                self.content = content;
            }
        }
    }

    fn check(&mut self) {
        assert_eq!(read(&mut *self.engine, None), self.content);
        let by_value = read(&mut *self.engine, Some(INDEX));
        assert_eq!(by_value, self.content, "through the index");
    }

    /// Opens the content that is durable for certain.
    fn reopened(&self) -> Box<dyn Engine> {
        let image = self.world.image(&ImageChoice::default()).unwrap();
        open(&image, self.method, &options(64)).unwrap()
    }
}

fn read(engine: &mut dyn Engine, index: Option<IndexId>) -> Content {
    let mut content = Content::new();
    let tables = engine.tables();
    let words = tables[0].encoder(index.map(|_| 0)).shape().words;
    let filled = |word: u64| {
        let mut key = KeyBuf::default();
        key.resized(words).fill(word);
        key
    };
    let range = ScanRange {
        table: TABLE,
        index,
        low: filled(0),
        high: filled(u64::MAX),
        direction: Direction::Backward,
    };
    engine.begin().unwrap();
    let mut visit = |row: &Row| {
        let values = row.to_values();
        let [Value::Int64(id), Value::Int64(value), Value::Text(note)] = &values[..] else {
            panic!("an unexpected row {values:?}");
        };
        content.insert(*id, (*value, note.len()));
        ControlFlow::Continue(())
    };
    engine.scan(&range, &mut visit).unwrap();
    engine.abort().unwrap();
    content
}

/// Cuts the power at each point of an opening that commits a prepared transaction; the next opening
/// commits it as well.
fn cut_while_deciding(disabled: &str) -> Result<(), String> {
    let mut subject = Subject::new(Method::NvmCow, 8, 1);
    for _ in 0..20 {
        subject.transaction();
    }
    let mut content = subject.content.clone();
    subject.engine.begin().unwrap();
    subject.step(&mut content);
    subject.engine.prepare(GlobalTxnId(9)).unwrap();

    let world = subject.world.image(&ImageChoice::default()).unwrap();
    world.disable(disabled);
    let outcome = Arc::new(Mutex::new(Ok(())));
    let seen = Arc::clone(&outcome);
    world.observe(move |world, _| {
        let mut seen = seen.lock().unwrap();
        for choice in ImageChoices::sampled(world, 1, 40) {
            if seen.is_ok() {
                let image = world.image(&choice).unwrap();
                *seen = open_committed(&image)
                    .map_err(|error| error.to_string())
                    .map(|mut engine| assert_eq!(read(&mut *engine, None), content));
            }
        }
    });
    open_committed(&world).unwrap();
    world.unobserve();
    outcome.lock().unwrap().clone()
}

#[test]
fn a_prepared_transaction_is_decided_at_once() {
    assert_eq!(cut_while_deciding("none"), Ok(()));
    for site in ["nvm-cow.decided-fence", "master.record"] {
        assert!(cut_while_deciding(site).is_err(), "{site}");
    }
}

/// A prepared transaction commits, and the database forgets its number: the content that later
/// openings find.
fn forgotten_after_the_commit(method: Method, disabled: &str) -> Result<(), Content> {
    let mut subject = Subject::new(method, 8, 1);
    for _ in 0..20 {
        subject.transaction();
    }
    let mut content = subject.content.clone();
    subject.engine.begin().unwrap();
    subject.step(&mut content);
    subject.engine.prepare(GlobalTxnId(9)).unwrap();
    subject.world.disable(disabled);
    subject.engine.commit(Durability::Immediate).unwrap();
    let mut scratch = None;
    for choice in ImageChoices::sampled(&subject.world, 1, 60) {
        let image = subject.world.image_in(&choice, &mut scratch).unwrap();
        let mut engine = open(image, method, &options(1)).unwrap();
        let found = read(&mut *engine, None);
        if found != content {
            return Err(found);
        }
    }
    Ok(())
}

#[test]
fn a_committed_transaction_needs_its_number_no_more() {
    let decided = METHODS.into_iter().filter(|method| method.is_slotted());
    for method in decided.chain([Method::NvmCow]) {
        assert_eq!(forgotten_after_the_commit(method, "none"), Ok(()));
    }
    for site in ["fash.decided", "fash.decided-fence"] {
        for method in [Method::Fash, Method::Fast] {
            assert!(
                forgotten_after_the_commit(method, site).is_err(),
                "{method} without {site}"
            );
        }
    }
    for site in ["nvwal.decided", "nvwal.decided-fence"] {
        for method in BEHIND_FRAMES {
            let found = forgotten_after_the_commit(method, site);
            assert!(found.is_err(), "{method} without {site}");
        }
    }
}

/// If any bit of the master records flips after a power cut, the newest group stays in force, and
/// the next opening repairs the record.
#[test]
fn a_flip_in_a_master_record_brings_nothing_older_back() {
    let mut subject = Subject::new(Method::Cow, 7, 1);
    for _ in 0..30 {
        subject.transaction();
    }
    for byte in (0..1024_u64).chain(4096..5120) {
        let image = subject.world.image(&ImageChoice::default()).unwrap();
        let mut file = SimulatedDirectory::new(&image).open("p0.cow").unwrap();
        let mut old = [0];
        disk::File::read_at(&mut file, byte, &mut old).unwrap();
        let flipped = [old[0] ^ 1 << (byte % 8)];
        disk::File::write_at(&mut file, byte, &flipped).unwrap();
        drop(file);
        for _ in 0..2 {
            let mut engine = open(&image, Method::Cow, &options(64)).unwrap();
            assert_eq!(read(&mut *engine, None), subject.content, "byte {byte}");
            engine.idle().unwrap().close().unwrap();
        }
        let counted = || SimulatedDirectory::new(&image).counters().writes;
        let writes = counted();
        drop(open(&image, Method::Cow, &options(64)).unwrap());
        assert_eq!(counted(), writes, "byte {byte} is repaired");
    }
}

fn verified(engine: &mut dyn Engine) {
    let report = engine.verify().unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
}

#[test]
fn random_transactions_in_groups_leave_what_a_map_has() {
    for method in METHODS {
        for (seed, group) in [(1, 1), (2, 5), (3, 64)] {
            let mut subject = Subject::new(method, seed, group);
            for number in 0..400 {
                subject.transaction();
                if number % 20 == 0 {
                    subject.check();
                }
                if number % 100 == 0 {
                    verified(&mut *subject.engine);
                }
            }
            subject.engine.force().unwrap();
            subject.check();
            verified(&mut *subject.engine);
            let mut reopened = subject.reopened();
            assert_eq!(read(&mut *reopened, None), subject.content);
            verified(&mut *reopened);
        }
    }
}

#[test]
fn a_group_is_durable_as_a_whole_and_not_before_it_ends() {
    for method in METHODS {
        let mut subject = Subject::new(method, 4, 3);
        let mut tickets = Vec::new();
        for id in 0_i64..3 {
            let before = read(&mut *subject.reopened(), None);
            assert_eq!(before, Content::new());
            subject.engine.begin().unwrap();
            let layout = Arc::clone(&subject.engine.tables()[0].layout);
            let mut row = Row::new(layout);
            row.set(0, id).unwrap();
            row.set(1, id).unwrap();
            row.set(2, "").unwrap();
            subject.engine.insert(TABLE, &row).unwrap();
            tickets.push(subject.engine.commit(Durability::Group).unwrap());
            let durable = subject.engine.durable();
            let is_durable = tickets.last().is_some_and(|&newest| durable >= newest);
            assert_eq!(is_durable, id == 2, "{method} {id}");
        }
        assert_eq!(read(&mut *subject.reopened(), None).len(), 3);
    }
}

#[test]
fn an_emptied_table_keeps_its_space_for_the_next_rows() {
    for method in METHODS {
        let mut subject = Subject::new(method, 5, 8);
        let mut used = Vec::new();
        for _ in 0..4 {
            for _ in 0..120 {
                subject.transaction();
            }
            for id in 0..300 {
                let key = subject.key(id);
                subject.engine.begin().unwrap();
                subject.engine.delete(TABLE, &key).unwrap();
                subject.engine.commit(Durability::Group).unwrap();
            }
            subject.content.clear();
            subject.engine.force().unwrap();
            subject.check();
            verified(&mut *subject.engine);
            used.push(subject.engine.footprint().unwrap().total());
        }
        assert!(used[3] <= used[0] * 2, "{method}: {used:?}");
    }
}

/// More pages than one map has bits for.
#[test]
fn pages_of_several_maps_are_found_again() {
    for method in BEHIND_FRAMES {
        find_pages_of_several_maps(method);
    }
}

fn find_pages_of_several_maps(method: Method) {
    let mut subject = Subject::new(method, 5, 1);
    let note = "m".repeat(20_000);
    for id in 0..140 {
        let mut row = Row::new(Arc::clone(&subject.engine.tables()[0].layout));
        row.set(0, id).unwrap();
        row.set(1, id).unwrap();
        row.set(2, &*note).unwrap();
        subject.engine.begin().unwrap();
        subject.engine.insert(TABLE, &row).unwrap();
        // Pages after the first of a map are given up and taken again.
        if id % 9 == 0 {
            subject.engine.abort().unwrap();
            continue;
        }
        subject.engine.commit(Durability::Immediate).unwrap();
        subject.content.insert(id, (id, note.len()));
    }
    subject.check();
    let mut reopened = subject.reopened();
    verified(&mut *reopened);
    assert_eq!(read(&mut *reopened, None), subject.content);
}

#[test]
fn changes_of_definitions_keep_the_rows() {
    for method in METHODS {
        let mut subject = Subject::new(method, 6, 64);
        for _ in 0..100 {
            subject.transaction();
        }
        let index = table().indexes.remove(0);
        let unique = IndexDef {
            id: IndexId(8),
            name: "unique".into(),
            unique: true,
            ..index.clone()
        };
        let refused = subject
            .engine
            .idle()
            .and_then(|idle| idle.create_index(TABLE, &unique));
        assert!(matches!(refused, Err(StorageError::DuplicateKey { .. })));
        subject
            .engine
            .idle()
            .unwrap()
            .drop_index(TABLE, INDEX)
            .unwrap();
        assert_eq!(read(&mut *subject.engine, None), subject.content);
        verified(&mut *subject.engine);
        subject
            .engine
            .idle()
            .unwrap()
            .create_index(TABLE, &index)
            .unwrap();
        subject.check();
        assert_eq!(read(&mut *subject.reopened(), Some(INDEX)), subject.content);
        subject.engine.idle().unwrap().drop_table(TABLE).unwrap();
        assert!(subject.reopened().tables().is_empty());
        verified(&mut *subject.engine);
    }
}

/// Changes so many pages in one transaction that its record is longer than the log, and cuts the
/// power as soon as it is acknowledged.
fn cut_behind_a_long_record(method: Method, disabled: &str) -> Result<(), String> {
    let mut subject = Subject::new(method, 9, 1);
    for first in (0..1500).step_by(50) {
        subject.change(first..first + 50, 90);
    }
    subject.world.disable(disabled);
    // A page has three rows or so, and its header alone changes.
    subject.change((0..1500).step_by(3), 90);
    let mut scratch = None;
    for choice in ImageChoices::sampled(&subject.world, 1, 24) {
        let image = subject.world.image_in(&choice, &mut scratch).unwrap();
        let opened = open(image, method, &options(1));
        let mut engine = opened.map_err(|error| error.to_string())?;
        if read(&mut *engine, None) != subject.content {
            return Err("what was acknowledged is not there".to_owned());
        }
    }
    Ok(())
}

#[test]
fn a_record_longer_than_its_log_is_durable_as_a_whole() {
    for method in [Method::Fash, Method::Fast] {
        assert_eq!(cut_behind_a_long_record(method, "none"), Ok(()), "{method}");
        let without = cut_behind_a_long_record(method, "fash.record-extension");
        assert!(without.is_err(), "{method}");
    }
}
