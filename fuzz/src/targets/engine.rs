//! Recovery of one partition from what a process has left that died in the middle of a transaction.
//!
//! The seeds are partitions whose log has something to do: a long open transaction that was
//! drained, a prepared one, a freshly committed one. The files are read while the engine still has
//! them open, which is what a killed process leaves. Each durable method is a target of its own:
//! `recovery-nvm-inp`, `recovery-inp`.

use super::{Target, told};
use crate::files::{Scratch, ScratchPlatform};
use crate::find::seals_of;
use crate::input::Input;
use crate::mutate::Seed;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{
    Direction, Durability, Engine, EngineOptions, GlobalTxnId, Idle, Method, ScanRange,
};
use storage::record::{
    Changes, Column, DataType, IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId, Value,
};

pub(super) const TABLE: TableId = TableId(16);
const DATABASE: u128 = 0xf0_22ed;
const ROWS: i64 = 40;

/// Work under way when the process dies.
#[derive(Clone, Copy)]
enum Death {
    Idle,
    Committed,
    Open,
    Prepared,
}

/// The targets of this file.
pub(super) fn targets() -> Vec<Target> {
    let durable = Method::ALL.into_iter().filter(|method| method.is_durable());
    let target = |method: Method| {
        let name = format!("recovery-{}", method.name());
        Target::new(name, move || seeds(method), move |input| run(method, input))
    };
    durable.map(target).collect()
}

fn options(layout: LayoutKind) -> EngineOptions {
    EngineOptions {
        database_id: DATABASE,
        layout,
        pool_bytes: 256 << 10,
        checkpoint_log_bytes: 64 << 10,
        ..EngineOptions::default()
    }
}

pub(super) fn table() -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("name", DataType::Varchar { max: 20 }),
        Column::new("note", DataType::Text).nullable(),
    ];
    let mut def = TableDef::new(TABLE, "t", columns, vec![0]);
    def.indexes.push(IndexDef {
        id: IndexId(17),
        name: "by_name".into(),
        columns: vec![1],
        unique: false,
    });
    def
}

fn seeds(method: Method) -> Result<Vec<Seed>, String> {
    // The undo log's salt: the identity's checksum, seeded with the partition's number.
    let salt = crc32c::crc32c_append(0, &DATABASE.to_le_bytes());
    let mut seeds = Vec::new();
    for layout in [LayoutKind::Together, LayoutKind::Separate] {
        for death in [Death::Idle, Death::Committed, Death::Open, Death::Prepared] {
            let input = left_by(method, layout, death)?;
            let seals = seals_of(&input, salt);
            seeds.push(Seed::new(input, seals));
        }
    }
    Ok(seeds)
}

/// The files of a partition whose process died.
fn left_by(method: Method, layout: LayoutKind, death: Death) -> Result<Input, String> {
    let scratch = Scratch::new("seed").map_err(told)?;
    let platform = ScratchPlatform(scratch.path().to_owned());
    let mut engine = engines::create(&platform, method, &options(layout)).map_err(told)?;
    engine
        .idle()
        .and_then(|idle| idle.create_table(&table()))
        .map_err(told)?;
    let shape = engine.tables().remove(0);
    for chunk in 0..4 {
        engine.begin().map_err(told)?;
        for id in chunk * ROWS / 4..(chunk + 1) * ROWS / 4 {
            let mut row = Row::new(Arc::clone(&shape.layout));
            fill(&mut row, id)?;
            engine.insert(TABLE, &row).map_err(told)?;
        }
        engine.commit(Durability::Immediate).map_err(told)?;
        if chunk == 1 {
            engine.idle().and_then(Idle::checkpoint).map_err(told)?;
        }
    }
    if matches!(death, Death::Idle) {
        drop(engine);
        return scratch.input().map_err(told);
    }
    change(&mut *engine)?;
    match death {
        Death::Committed => engine
            .commit(Durability::Immediate)
            .map(drop)
            .map_err(told)?,
        Death::Prepared => engine.prepare(GlobalTxnId(1 << 32 | 6)).map_err(told)?,
        _ => {}
    }
    scratch.input().map_err(told)
}

pub(super) fn fill(row: &mut Row, id: i64) -> Result<(), String> {
    let note = (id % 3 != 0).then(|| Value::Text("a note ".repeat((id % 30) as usize)));
    row.set(0, id).map_err(told)?;
    row.set(1, Value::Text(format!("name {}", id % 9)).as_ref())
        .map_err(told)?;
    row.set(2, note.as_ref()).map_err(told)
}

/// A transaction that updates, deletes, inserts, and reads what it wrote.
pub(super) fn change(engine: &mut dyn Engine) -> Result<(), String> {
    let tables = engine.tables();
    let shape = tables.first().ok_or("there is no table")?;
    let mut row = Row::new(Arc::clone(&shape.layout));
    let mut key = KeyBuf::new();
    engine.begin().map_err(told)?;
    for id in 0..12_i64 {
        shape
            .primary
            .encode_values(&[Value::Int64(id * 3)], &mut key)
            .map_err(told)?;
        if id % 4 == 0 {
            engine.delete(TABLE, &key).map_err(told)?;
        } else {
            let mut changes = Changes::new(Arc::clone(&shape.layout));
            changes.set(1, "changed").map_err(told)?;
            changes
                .set(2, Value::Text("another note ".repeat(9)).as_ref())
                .map_err(told)?;
            engine.update(TABLE, &key, &changes).map_err(told)?;
        }
        engine.get(TABLE, &key, &mut row).map_err(told)?;
        fill(&mut row, 1000 + id)?;
        engine.insert(TABLE, &row).map_err(told)?;
    }
    Ok(())
}

fn run(method: Method, input: &Input) -> bool {
    let Ok(scratch) = Scratch::of(input) else {
        return false;
    };
    let platform = ScratchPlatform(scratch.path().to_owned());
    let decide = |global: GlobalTxnId| global.0.is_multiple_of(2);
    let options = options(LayoutKind::Together);
    let Ok(mut engine) = engines::open(&platform, method, &options, &decide) else {
        return false;
    };
    ask(&mut *engine)
}

/// Checks a partition, reads all of it, and changes it; says whether it was sound.
pub(super) fn ask(engine: &mut dyn Engine) -> bool {
    let sound = engine.verify().is_ok_and(|report| report.damage.is_empty());
    for shape in engine.tables() {
        let words = shape.primary.shape().words;
        for direction in [Direction::Forward, Direction::Backward] {
            let range = ScanRange {
                table: shape.def.id,
                index: None,
                low: KeyBuf::from_words(&vec![0; words]),
                high: KeyBuf::from_words(&vec![u64::MAX; words]),
                direction,
            };
            let mut rows = 0;
            let _ = engine.scan(&range, &mut |_| {
                rows += 1;
                if rows < 200 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        }
    }
    if change(engine).is_ok() {
        let _ = engine.commit(Durability::Immediate);
    } else {
        let _ = engine.abort();
    }
    let _ = (
        engine.idle().and_then(Idle::checkpoint),
        engine.footprint(),
        engine.verify(),
    );
    sound
}
