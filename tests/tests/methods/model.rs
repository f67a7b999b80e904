//! Goal: whatever operations run in whatever order, every method has the content of a map.
//!
//! Method: seeded transactions run on all methods in step and on a `BTreeMap`. Each answer is
//! compared, and from time to time everything is: both directions, both indexes, the deep check.
//! Transactions end by commit, abort, or a restart with the power cut. The runs cover both layouts,
//! node sizes from 128 to 4096 bytes, and keys of one to four words, on both devices.
//!
//! A failure prints its run; `MODEL_RUN=<run>` repeats that one alone, `MODEL_TRANSACTIONS=<n>`
//! makes runs longer.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::StorageError;
use storage::engine::{Direction, Durability, Engine, EngineOptions, Method, ScanRange};
use storage::record::{
    Changes, Column, DataType, IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId, Value,
};
use storage::table::Table;
use tests::literal::generated;
use tests::place::{Device, Place, small_engine};
use tests::random::Random;

const TABLE: TableId = TableId(1);
const BY_GROUP: IndexId = IndexId(1);
const BY_CODE: IndexId = IndexId(2);
/// Rows are numbered below this; small, so that operations meet.
const NUMBERS: u64 = 300;
const NODE_BYTES: [u32; 4] = [128, 256, 512, 4096];

/// The columns of a row after its key.
#[derive(Clone, Debug, PartialEq)]
struct Fields {
    group: Option<i32>,
    code: Option<i32>,
    note: Option<String>,
}

type Model = BTreeMap<i64, Fields>;

/// The settings that vary between runs.
#[derive(Clone, Debug)]
struct Run {
    number: u64,
    device: Device,
    layout: LayoutKind,
    node_bytes: u32,
    key_words: usize,
}

impl Run {
    fn new(number: u64) -> Self {
        let pick = |position: u64, count: u64| (number / position % count) as usize;
        Self {
            number,
            device: Device::ALL[pick(1, 2)],
            layout: [LayoutKind::Together, LayoutKind::Separate][pick(2, 2)],
            node_bytes: NODE_BYTES[pick(4, 4)],
            key_words: 1 + pick(16, 4),
        }
    }

    const COUNT: u64 = 64;

    fn options(&self) -> EngineOptions {
        EngineOptions {
            layout: self.layout,
            node_bytes: self.node_bytes,
            pool_bytes: 256 << 10,
            checkpoint_log_bytes: 64 << 10,
            memtable_bytes: 2 << 10,
            growth_factor: 2,
            ..small_engine()
        }
    }

    fn key_types(&self) -> &'static [DataType] {
        match self.key_words {
            1 => &[DataType::Int64],
            2 => &[DataType::Int64, DataType::Int64],
            3 => &[DataType::Uuid, DataType::Timestamp],
            _ => &[DataType::Uuid, DataType::Uuid],
        }
    }

    fn table(&self) -> TableDef {
        let key = self.key_types();
        let mut columns: Vec<Column> = Vec::new();
        for (position, data_type) in key.iter().enumerate() {
            columns.push(Column::new(format!("key{position}"), *data_type));
        }
        columns.push(Column::new("group", DataType::Int32).nullable());
        columns.push(Column::new("code", DataType::Int32).nullable());
        columns.push(Column::new("note", DataType::Text).nullable());
        let mut def = TableDef::new(TABLE, "model", columns, (0..key.len()).collect());
        for (id, name, unique) in [(BY_GROUP, "by_group", false), (BY_CODE, "by_code", true)] {
            let columns = vec![key.len() + usize::from(unique)];
            def.indexes.push(IndexDef {
                id,
                name: name.into(),
                columns,
                unique,
            });
        }
        def
    }

    fn key_values(&self, number: i64) -> Vec<Value> {
        self.key_types()
            .iter()
            .map(|one| generated(*one, false, number, None))
            .collect()
    }
}

/// One method under test.
struct Subject {
    method: Method,
    place: Place,
    options: EngineOptions,
    engine: Option<Box<dyn Engine>>,
    table: Arc<Table>,
}

impl Subject {
    fn new(run: &Run, method: Method) -> Self {
        let place = Place::with_seed(run.device, run.number);
        let options = run.options();
        let mut engine = place.create(method, &options).unwrap();
        engine.idle().unwrap().create_table(&run.table()).unwrap();
        let table = Arc::clone(&engine.tables()[0]);
        Self {
            method,
            place,
            options,
            engine: Some(engine),
            table,
        }
    }

    fn engine(&mut self) -> &mut (dyn Engine + 'static) {
        self.engine.as_deref_mut().unwrap()
    }

    /// Cuts the power; a method that is not durable only loses its open transaction.
    fn restart(&mut self, is_open: bool) {
        if self.method.is_durable() {
            self.engine = None;
            self.place.cut_power().unwrap();
            let opened = self
                .place
                .open(self.method, &self.options, &|_| false)
                .unwrap();
            self.table = Arc::clone(&opened.tables()[0]);
            self.engine = Some(opened);
        } else if is_open {
            self.engine().abort().unwrap();
        }
    }

    fn key(&self, run: &Run, number: i64) -> KeyBuf {
        let mut key = KeyBuf::new();
        self.table
            .primary
            .encode_values(&run.key_values(number), &mut key)
            .unwrap();
        key
    }

    fn row(&self, run: &Run, number: i64, fields: &Fields) -> Row {
        let mut row = Row::new(Arc::clone(&self.table.layout));
        let key = run.key_values(number);
        for (column, value) in key.iter().enumerate() {
            row.set(column, value).unwrap();
        }
        row.set(key.len(), fields.group).unwrap();
        row.set(key.len() + 1, fields.code).unwrap();
        row.set(key.len() + 2, fields.note.as_deref()).unwrap();
        row
    }

    fn perform(&mut self, run: &Run, step: &Step) -> bool {
        let keys = run.key_types().len();
        let result = match step {
            Step::Insert(number, fields) => {
                let row = self.row(run, *number, fields);
                self.engine().insert(TABLE, &row).map(|()| true)
            }
            Step::Update(number, new) => {
                let mut changes = Changes::new(Arc::clone(&self.table.layout));
                if let Some(group) = new.group {
                    changes.set(keys, group).unwrap();
                }
                if let Some(code) = new.code {
                    changes.set(keys + 1, code).unwrap();
                }
                if let Some(note) = &new.note {
                    changes.set(keys + 2, note.as_str()).unwrap();
                }
                let key = self.key(run, *number);
                self.engine().update(TABLE, &key, &changes)
            }
            Step::Delete(number) => {
                let key = self.key(run, *number);
                self.engine().delete(TABLE, &key)
            }
            Step::Get(number) => {
                let key = self.key(run, *number);
                let mut row = Row::new(Arc::clone(&self.table.layout));
                self.engine().get(TABLE, &key, &mut row)
            }
        };
        match result {
            Err(StorageError::DuplicateKey { .. }) => false,
            other => other.unwrap(),
        }
    }

    fn scan(&mut self, index: Option<IndexId>, direction: Direction) -> Vec<Vec<Value>> {
        let number = index.map(|id| id.0 as usize - 1);
        let mut range = ScanRange {
            table: TABLE,
            index,
            low: KeyBuf::new(),
            high: KeyBuf::new(),
            direction,
        };
        let all: &[Value] = &[];
        self.table
            .encoder(number)
            .lower_bound(all, &mut range.low)
            .unwrap();
        self.table
            .encoder(number)
            .upper_bound(all, &mut range.high)
            .unwrap();
        let mut rows = Vec::new();
        let engine = self.engine();
        engine
            .scan(&range, &mut |row| {
                rows.push(row.to_values());
                ControlFlow::Continue(())
            })
            .unwrap();
        rows
    }

    /// Compares everything; outside of a transaction.
    fn compare(&mut self, run: &Run, model: &Model) {
        let row = |(number, fields): (&i64, &Fields)| self.row(run, *number, fields).to_values();
        let expected: Vec<Vec<Value>> = model.iter().map(row).collect();
        self.engine().begin().unwrap();
        let forward = self.scan(None, Direction::Forward);
        let mut backward = self.scan(None, Direction::Backward);
        backward.reverse();
        assert_eq!(forward, expected, "{} by primary key", self.method);
        assert_eq!(backward, expected, "{} backward", self.method);
        for (index, column) in [(BY_GROUP, 0), (BY_CODE, 1)] {
            let column = run.key_types().len() + column;
            let mut sorted = expected.clone();
            sorted.sort_by(|left, right| left[column].cmp(&right[column]));
            assert_eq!(
                self.scan(Some(index), Direction::Forward),
                sorted,
                "{index}"
            );
        }
        self.engine().commit(Durability::Immediate).unwrap();
        let report = self.engine().verify().unwrap();
        assert!(
            report.damage.is_empty(),
            "{}: {:?}",
            self.method,
            report.damage
        );
        assert_eq!(report.rows, model.len() as u64);
    }
}

/// One operation.
#[derive(Clone, Debug)]
enum Step {
    Insert(i64, Fields),
    /// Fields that are `None` stay.
    Update(i64, Fields),
    Delete(i64),
    Get(i64),
}

impl Step {
    fn random(random: &mut Random) -> Self {
        let number = random.below(NUMBERS).cast_signed();
        match random.below(10) {
            0..=3 => Self::Insert(number, fields(random)),
            4..=6 => Self::Update(number, fields(random)),
            7..=8 => Self::Delete(number),
            _ => Self::Get(number),
        }
    }

    /// Applies the operation to the map; false if there is no such row or a key is taken.
    fn apply(&self, model: &mut Model) -> bool {
        let is_taken = |number: i64, code: Option<i32>, model: &Model| {
            let mut rows = model.iter();
            code.is_some() && rows.any(|(other, fields)| *other != number && fields.code == code)
        };
        match self {
            Self::Insert(number, fields) => {
                if model.contains_key(number) || is_taken(*number, fields.code, model) {
                    return false;
                }
                model.insert(*number, fields.clone());
                true
            }
            Self::Update(number, new) => {
                if !model.contains_key(number) || is_taken(*number, new.code, model) {
                    return false;
                }
                let old = model.get_mut(number).unwrap();
                old.group = new.group.or(old.group);
                old.code = new.code.or(old.code);
                old.note = new.note.clone().or(old.note.take());
                true
            }
            Self::Delete(number) => model.remove(number).is_some(),
            Self::Get(number) => model.contains_key(number),
        }
    }
}

fn fields(random: &mut Random) -> Fields {
    let some = |random: &mut Random, end| random.chance(70).then(|| random.below(end) as i32 - 9);
    let note = random.chance(60).then(|| {
        let long = if random.chance(10) { 6000 } else { 60 };
        let bytes = random.below(long) as usize;
        "abcdefgh".repeat(bytes / 8 + 1)[..bytes].to_owned()
    });
    Fields {
        group: some(random, 20),
        code: some(random, 4 * NUMBERS),
        note,
    }
}

fn run_model(run: &Run, transactions: u64) {
    let mut random = Random::new(run.number);
    let mut subjects: Vec<_> = Method::distinct()
        .map(|method| Subject::new(run, method))
        .collect();
    let mut model = Model::new();
    for _ in 0..transactions {
        let mut next = model.clone();
        for subject in &mut subjects {
            subject.engine().begin().unwrap();
        }
        for _ in 0..=random.below(10) {
            let step = Step::random(&mut random);
            let expected = step.apply(&mut next);
            for subject in &mut subjects {
                let found = subject.perform(run, &step);
                assert_eq!(found, expected, "{}: {step:?}", subject.method);
            }
        }
        let end = random.below(100);
        for subject in &mut subjects {
            match end {
                0..=69 => {
                    subject.engine().commit(Durability::Immediate).unwrap();
                }
                70..=94 => subject.engine().abort().unwrap(),
                _ => subject.restart(true),
            }
        }
        if end < 70 {
            model = next;
        }
        let what = random.below(100);
        for subject in &mut subjects {
            match what {
                0..=3 => subject.restart(false),
                4..=5 => subject.engine().idle().unwrap().checkpoint().unwrap(),
                6..=13 => subject.compare(run, &model),
                _ => {}
            }
        }
    }
    for subject in &mut subjects {
        subject.compare(run, &model);
        subject.restart(false);
        subject.compare(run, &model);
    }
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn run_all(device: Device) {
    let transactions =
        number_from("MODEL_TRANSACTIONS").unwrap_or(if tests::is_long() { 150 } else { 60 });
    let numbers = number_from("MODEL_RUN").map_or(0..Run::COUNT, |run| run..run + 1);
    for run in numbers.map(Run::new).filter(|run| run.device == device) {
        let result = std::panic::catch_unwind(|| run_model(&run, transactions));
        assert!(
            result.is_ok(),
            "failed; repeat it with MODEL_RUN={}: {run:?}",
            run.number
        );
    }
}

#[test]
fn random_transactions_agree_with_a_map_on_the_simulated_device() {
    run_all(Device::Simulated);
}

#[test]
fn random_transactions_agree_with_a_map_on_the_native_device() {
    run_all(Device::Native);
}
