//! Whole databases: the files of a directory are opened, checked deeply, and asked twenty
//! questions.
//!
//! Each durable method is a target of its own: `database-nvm-inp`, `database-inp`. The seeds are
//! small databases with a wide table, secondary indexes and rows of all kinds, closed or left by a
//! process that died. Questions are errors or answers; after them a transaction writes, because a
//! damaged database also meets writers.

use super::{Target, told};
use crate::files::Scratch;
use crate::find::seals_of;
use crate::input::Input;
use crate::mutate::Seed;
use crate::random::Random;
use indelible::{
    AREA_BYTES_MIN, DataType, Database, Direction, LayoutKind, Method, MethodOption, Options,
    Prefix, Reader, Row, Table, Value,
};
use std::ops::ControlFlow;

const IDENTITY: u128 = 0x00da_7aba_5e00;
const ROWS: i64 = 50;
const QUESTIONS: usize = 20;
const ROWS_MAX: usize = 500;
/// Two partitions have to fit into a worker's memory, with what a hostile file may ask for beside
/// them.
const BUFFER_BYTES: u64 = 4 << 20;
const RING_BYTES: u64 = 2 << 20;
const RINGS: u32 = 2;

/// The targets of this file.
pub(super) fn targets() -> Vec<Target> {
    let durable = Method::ALL.into_iter().filter(|method| method.is_durable());
    let target = |method: Method| {
        let name = format!("database-{}", method.name());
        Target::new(name, move || seeds(method), run)
    };
    durable.map(target).collect()
}

fn seeds(method: Method) -> Result<Vec<Seed>, String> {
    let mut seeds = Vec::new();
    for (layout, partitions, closed) in [
        (LayoutKind::Together, 1, true),
        (LayoutKind::Separate, 1, false),
        (LayoutKind::Together, 2, false),
    ] {
        let scratch = Scratch::new("seed").map_err(told)?;
        let options = small(method)
            .layout(layout)
            .partitions(partitions)
            .identity(IDENTITY)
            .pool_bytes(1 << 20)
            .checkpoint_log_bytes(64 << 10);
        let db = Database::create(scratch.path(), &options).map_err(told)?;
        populate(&db).map_err(told)?;
        if closed {
            drop(db);
        }
        let input = scratch.input().map_err(told)?;
        let salt = crc32c::crc32c_append(0, &IDENTITY.to_le_bytes());
        let seals = seals_of(&input, salt);
        seeds.push(Seed::new(input, seals));
    }
    Ok(seeds)
}

/// A method with as little memory as it does with.
fn small(method: Method) -> Options {
    let of_method = [
        MethodOption::BufferBytes(BUFFER_BYTES),
        MethodOption::RingBytes(RING_BYTES),
        MethodOption::Rings(RINGS),
        MethodOption::AreaBytes(AREA_BYTES_MIN),
    ];
    Options::new().fitting(method, of_method)
}

pub(super) fn populate(db: &Database) -> indelible::Result<()> {
    let things = db
        .create_table("things")
        .column("id", DataType::Int64)
        .column("name", DataType::Varchar { max: 30 })
        .nullable_column("note", DataType::Text)
        .nullable_column(
            "price",
            DataType::Decimal {
                precision: 12,
                scale: 2,
            },
        )
        .column("day", DataType::Date)
        .nullable_column("blob", DataType::Bytes { max: None })
        .primary_key(["id"])
        .index("by_name", ["name"])
        .unique_index("by_day", ["day", "id"])
        .create()?;
    for step in 0..5 {
        db.transaction(|t| {
            for id in step * ROWS / 5..(step + 1) * ROWS / 5 {
                t.insert(&things, thing(id))?;
            }
            Ok(())
        })?;
        if step == 2 {
            db.checkpoint()?;
        }
    }
    db.transaction(|t| {
        for id in [3_i64, 17, 30] {
            t.delete(&things, id)?;
        }
        Ok(())
    })
}

pub(super) fn thing(id: i64) -> Vec<Value> {
    let decimal = indelible::Decimal::new(i128::from(id) * 25, 2);
    let some = |value: Value, every: i64| if id % every == 0 { Value::Null } else { value };
    vec![
        Value::Int64(id),
        Value::Text(format!("thing {}", id % 11)),
        some(Value::Text("much to say ".repeat((id % 40) as usize)), 4),
        some(Value::Decimal(decimal), 5),
        Value::Date(indelible::Date(20_000 + id as i32)),
        some(Value::Bytes(vec![id as u8; (id % 20) as usize * 30]), 3),
    ]
}

fn run(input: &Input) -> bool {
    let Ok(scratch) = Scratch::of(input) else {
        return false;
    };
    let Ok(db) = Database::open_with(scratch.path(), &Options::new().buffer_bytes(BUFFER_BYTES))
    else {
        return false;
    };
    let sound = db.verify().is_ok_and(|report| report.damage.is_empty());
    let _ = db.statistics();
    let mut random = Random::new(input.digest());
    let tables = db.tables();
    for _ in 0..QUESTIONS {
        if let Some(table) = random.pick(&tables) {
            let _ = db.read(|reader| ask(reader, table, &mut random));
        }
    }
    if let Ok(table) = db.table("things") {
        let _ = db.transaction(|t| {
            t.insert(&table, thing(1000 + random.below(50) as i64))?;
            t.delete(&table, random.below(50) as i64)?;
            let id = random.below(50) as i64;
            let mut changes = table.changes();
            changes.set(1, "renamed")?;
            changes.set(2, Value::Text("new ".repeat(60)).as_ref())?;
            t.update(&table, id, &changes).map(drop)
        });
    }
    let _ = db.checkpoint();
    let _ = db.close();
    sound
}

/// One question of some kind. An error is an answer.
fn ask(reader: &mut Reader<'_>, table: &Table, random: &mut Random) -> indelible::Result<()> {
    let id = random.below(ROWS as usize + 5) as i64;
    let direction = if random.once_in(2) {
        Direction::Forward
    } else {
        Direction::Backward
    };
    let mut seen = Vec::new();
    let mut visit = |row: &Row| {
        seen.push(
            row.values()
                .map(|value| value.to_string().len())
                .sum::<usize>(),
        );
        if seen.len() < ROWS_MAX {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    match random.below(6) {
        0 => drop(reader.get(table, id)?),
        1 => reader.scan(table, .., direction, visit)?,
        2 => reader.scan(table, Prefix(id), direction, visit)?,
        3 => drop(reader.count(table, ..)?),
        4 => reader.get_many(table, &[id, id + 1, id + 7], |_, row| {
            if let Some(row) = row {
                let _ = visit(row);
            }
        })?,
        _ => {
            let def = table.definition();
            if let Some(index) = random.pick(&def.indexes) {
                let index = table.index(&index.name)?;
                reader.scan_index(&index, .., direction, visit)?;
                drop(reader.find(&index, "thing 3")?);
            }
        }
    }
    Ok(())
}
