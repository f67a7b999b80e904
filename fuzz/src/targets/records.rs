//! Decoders of records: table definitions, rows, keys, log records, and texts of values.
//!
//! Decoded values must be usable: one prints, encodes again, and the encoding decodes to the same.
//! The definition that a row or key belongs to is mutated as well, since both come from the medium.

use super::{Target, told};
use crate::input::Input;
use crate::mutate::Seed;
use crate::seal::{Seal, SealKind};
use std::sync::Arc;
use storage::engine::{CommitTicket, LogImages};
use storage::log::redo::{self, Fate, Operation, Record};
use storage::record::{
    Changes, Column, DataType, Date, Decimal, IndexDef, IndexId, KeyBuf, KeyEncoder, LayoutKind,
    Partitioning, RangeStart, Reader, Row, TableDef, TableId, Timestamp, TupleLayout, Uuid, Value,
    decode_value,
};

const DEFINITION: &str = "definition";

/// The targets of this file.
pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("schema", || Ok(schemas()), run_schema),
        Target::new("row", row_seeds, run_row),
        Target::new("key", key_seeds, run_key),
        Target::new("log-record", log_record_seeds, run_log_record),
        Target::new("text", || Ok(text_seeds()), run_text),
    ]
}

/// All types, and parameters at their limits.
fn types() -> Vec<DataType> {
    vec![
        DataType::Bool,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float64,
        DataType::Decimal {
            precision: 12,
            scale: 2,
        },
        DataType::Decimal {
            precision: 38,
            scale: 38,
        },
        DataType::Char { length: 7 },
        DataType::Varchar { max: 40 },
        DataType::Text,
        DataType::Bytes { max: Some(9) },
        DataType::Bytes { max: None },
        DataType::Date,
        DataType::Timestamp,
        DataType::Uuid,
    ]
}

/// A value of each of [`types`].
fn values() -> Vec<Value> {
    let decimal = |text: &str| Decimal::parse(text).map_or(Value::Null, Value::Decimal);
    vec![
        Value::Bool(true),
        Value::Int16(-3),
        Value::Int32(70_000),
        Value::Int64(i64::MIN),
        Value::Float64(-0.5),
        decimal("1234567890.12"),
        decimal("-0.00000000000000000000000000000000000001"),
        Value::Text("seven".into()),
        Value::Text("up to forty bytes, with a \u{1} in it".into()),
        Value::Text("long ".repeat(40)),
        Value::Bytes(vec![0, 1, 2, 0xff, 0]),
        Value::Bytes(vec![7; 100]),
        Value::Date(Date(20_000)),
        Value::Timestamp(Timestamp(1_700_000_000_123_456)),
        Value::Uuid(Uuid([9; 16])),
    ]
}

/// Tables that use everything a definition can say.
pub(super) fn tables() -> Vec<TableDef> {
    let columns = types().into_iter().enumerate().map(|(at, data_type)| {
        let column = Column::new(format!("c{at}"), data_type);
        if at % 3 == 1 {
            column.nullable()
        } else {
            column
        }
    });
    let mut wide = TableDef::new(TableId(20), "wide", columns.collect(), vec![3, 8]);
    // A nullable column cannot be in the primary key.
    wide.primary_key = vec![3, 12];
    for (number, columns, unique) in [
        (1, vec![8], false),
        (2, vec![10, 6], true),
        (3, vec![4], true),
    ] {
        wide.indexes.push(IndexDef {
            id: IndexId(number),
            name: format!("i{number}"),
            columns,
            unique,
        });
    }
    let mut small = TableDef::new(
        TableId(17),
        "small",
        vec![
            Column::new("id", DataType::Int64),
            Column::new("note", DataType::Text).nullable(),
        ],
        vec![0],
    );
    small.partitioning = Partitioning::Ranges(vec![
        RangeStart {
            from: Value::Int64(0),
            partition: 0,
        },
        RangeStart {
            from: Value::Int64(1000),
            partition: 1,
        },
    ]);
    let mut modulo = small.clone();
    modulo.partitioning = Partitioning::Modulo;
    vec![wide, small, modulo]
}

fn definition_seal(bytes: &[u8]) -> Seal {
    Seal {
        part: 0,
        range: 0..bytes.len(),
        kind: SealKind::Last,
    }
}

fn schemas() -> Vec<Seed> {
    let seed = |def: TableDef| {
        let bytes = def.encode();
        let seal = definition_seal(&bytes);
        Seed::new(Input::of(DEFINITION, bytes), vec![seal])
    };
    tables().into_iter().map(seed).collect()
}

fn run_schema(input: &Input) -> bool {
    let Some(def) = definition(input) else {
        return false;
    };
    let encoded = def.encode();
    assert_eq!(TableDef::decode(&encoded).as_ref(), Ok(&def), "it changed");
    for kind in [LayoutKind::Together, LayoutKind::Separate] {
        let layout = TupleLayout::new(&def, kind);
        let row = Row::new(Arc::new(layout));
        assert_eq!(row.values().count(), def.columns.len(), "columns were lost");
    }
    true
}

fn definition(input: &Input) -> Option<TableDef> {
    TableDef::decode(input.part(DEFINITION)).ok()
}

fn layouts(def: &TableDef) -> [Arc<TupleLayout>; 2] {
    [LayoutKind::Together, LayoutKind::Separate].map(|kind| Arc::new(TupleLayout::new(def, kind)))
}

/// A row of the table, as far as [`values`] fit its columns.
fn sample(def: &TableDef, layout: &Arc<TupleLayout>) -> Result<Row, String> {
    let mut row = Row::new(Arc::clone(layout));
    for (at, column) in def.columns.iter().enumerate() {
        let fitting = types().iter().position(|one| *one == column.data_type);
        let value = fitting.and_then(|found| values().into_iter().nth(found));
        if let Some(value) = value {
            row.set(at, &value).map_err(told)?;
        }
    }
    Ok(row)
}

fn row_seeds() -> Result<Vec<Seed>, String> {
    let mut seeds = Vec::new();
    for def in tables() {
        for (kind, layout) in layouts(&def).into_iter().enumerate() {
            let bytes = def.encode();
            let seal = definition_seal(&bytes);
            let tuple = sample(&def, &layout)?.tuple_bytes().to_vec();
            let input = Input::new([
                (DEFINITION.to_owned(), bytes),
                ("tuple".to_owned(), tuple),
                ("kind".to_owned(), vec![kind as u8]),
                (
                    "content".to_owned(),
                    b"the content of outline columns".to_vec(),
                ),
            ]);
            seeds.push(Seed::new(input, vec![seal]));
        }
    }
    Ok(seeds)
}

/// A tuple as it is read from a pool.
fn run_row(input: &Input) -> bool {
    let Some(def) = definition(input) else {
        return false;
    };
    let kind = usize::from(input.part("kind").first().is_some_and(|kind| kind % 2 == 1));
    let layout = Arc::clone(&layouts(&def)[kind]);
    let mut row = Row::new(Arc::clone(&layout));
    let image = row.begin_fill();
    let bytes = image.len().min(input.part("tuple").len());
    image[..bytes].copy_from_slice(&input.part("tuple")[..bytes]);
    // An engine refuses a tuple whose pointers it cannot follow, so each word that is not 0 gets a
    // content.
    for &column in layout.out_of_line() {
        if row.outline_word(column).is_some_and(|word| word != 0) {
            let _ = row.set_outline(column, input.part("content"));
        }
    }
    let printed: usize = row.values().map(|value| value.to_string().len()).sum();
    let valid = row.check_values().is_ok();
    let mut key = KeyBuf::new();
    for encoder in encoders(&def) {
        if encoder.encode_row(&row, &mut key).is_ok() && valid {
            assert!(encoder.decode(&key).is_ok(), "a key does not decode");
        }
    }
    let mut changes = Changes::new(Arc::clone(&layout));
    for (column, value) in row.to_values().iter().enumerate() {
        let set = changes.set(column, value);
        assert!(
            set.is_ok() || !valid,
            "a value cannot be set again: {set:?}"
        );
    }
    let mut spans = Vec::new();
    changes.spans(&mut spans);
    valid && printed > 0
}

fn encoders(def: &TableDef) -> Vec<KeyEncoder> {
    let secondary = def
        .indexes
        .iter()
        .map(|index| KeyEncoder::secondary(def, index));
    secondary.chain([KeyEncoder::primary(def)]).collect()
}

fn key_seeds() -> Result<Vec<Seed>, String> {
    let mut seeds = Vec::new();
    for def in tables() {
        let row = sample(&def, &layouts(&def)[0])?;
        for (number, encoder) in encoders(&def).iter().enumerate() {
            let mut key = KeyBuf::new();
            encoder.encode_row(&row, &mut key).map_err(told)?;
            let bytes = def.encode();
            let seal = definition_seal(&bytes);
            let words = key.iter().flat_map(|word| word.to_be_bytes()).collect();
            let input = Input::new([
                (DEFINITION.to_owned(), bytes),
                ("key".to_owned(), words),
                ("index".to_owned(), vec![number as u8]),
            ]);
            seeds.push(Seed::new(input, vec![seal]));
        }
    }
    Ok(seeds)
}

fn run_key(input: &Input) -> bool {
    let Some(def) = definition(input) else {
        return false;
    };
    let encoders = encoders(&def);
    let number = input.part("index").first().map_or(0, |&at| usize::from(at));
    let encoder = &encoders[number % encoders.len()];
    let groups = input.part("key").as_chunks::<8>().0;
    let mut words: Vec<u64> = groups
        .iter()
        .map(|word| u64::from_be_bytes(*word))
        .collect();
    words.resize(encoder.shape().words, 0);
    let Ok(values) = encoder.decode(&words) else {
        return false;
    };
    // A key that an attacker made up need not be the one that its values have, but those must have
    // one.
    let mut key = KeyBuf::new();
    if encoder.encode_values(&values, &mut key).is_ok() {
        assert!(encoder.decode(&key).is_ok(), "its values have no key");
    }
    let _ = encoder.lower_bound(&values[..values.len() / 2], &mut key);
    let _ = encoder.upper_bound(&values, &mut key);
    true
}

fn log_record_seeds() -> Result<Vec<Seed>, String> {
    let mut seeds = Vec::new();
    for def in tables() {
        let layout = Arc::clone(&layouts(&def)[0]);
        let row = sample(&def, &layout)?;
        let mut key = KeyBuf::new();
        KeyEncoder::primary(&def)
            .encode_row(&row, &mut key)
            .map_err(told)?;
        let mut changes = Changes::new(layout);
        let last = def.columns.len() - 1;
        changes.set(last, row.get(last)).map_err(told)?;
        let mut log = redo::RedoRecord::new(LogImages::BeforeAndAfter);
        log.create_table(&def);
        log.insert(def.id, &row);
        log.update(def.id, &key, Some(&row), &changes);
        log.delete(def.id, &key, Some(&row));
        log.drop_table(def.id);
        let bytes = log.seal(Fate::Committed, CommitTicket(7)).to_vec();
        let definition = def.encode();
        let seal = definition_seal(&definition);
        let input = Input::new([
            (DEFINITION.to_owned(), definition),
            ("record".to_owned(), bytes),
        ]);
        seeds.push(Seed::new(input, vec![seal]));
    }
    Ok(seeds)
}

fn run_log_record(input: &Input) -> bool {
    let Some(def) = definition(input) else {
        return false;
    };
    replay_record(input.part("record"), &def)
}

/// Takes a log record apart as recovery does; the rows are taken for those of one table.
pub(super) fn replay_record(bytes: &[u8], def: &TableDef) -> bool {
    let layout = Arc::clone(&layouts(def)[0]);
    let (mut row, mut changes) = (Row::new(Arc::clone(&layout)), Changes::new(layout));
    let mut key = KeyBuf::new();
    let Ok(mut record) = Record::read(bytes) else {
        return false;
    };
    loop {
        match record.next_operation() {
            Ok(None) => return true,
            Err(_) => return false,
            Ok(Some(Operation::Insert(_, image))) => {
                let _ = redo::read_row(image, &mut row);
            }
            Ok(Some(Operation::Update(_, words, image))) => {
                words.copy_to(&mut key);
                let _ = redo::read_changes(image, &mut changes);
                let _ = changes.apply(&mut row);
            }
            Ok(Some(Operation::Delete(_, words))) => words.copy_to(&mut key),
            Ok(Some(_)) => {}
        }
    }
}

fn text_seeds() -> Vec<Seed> {
    let texts = [
        "-12.340",
        "2026-11-21",
        "-0001-02-28",
        "2026-11-21 05:19:14.123456+02:30",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "\\x00ff17",
        "1e308",
        "true",
        "decimal(38,10)",
        "varchar(100)",
        "timestamp with time zone",
        "9223372036854775807",
    ];
    let mut seeds: Vec<Seed> = texts
        .iter()
        .map(|text| Seed::plain(Input::of("text", text.as_bytes().to_vec())))
        .collect();
    for value in values() {
        let mut bytes = Vec::new();
        storage::record::encode_value(value.as_ref(), &mut bytes);
        seeds.push(Seed::plain(Input::of("value", bytes)));
    }
    seeds
}

/// A text that reads as a value prints as one that reads as the same value.
fn run_text(input: &Input) -> bool {
    let mut reader = Reader::new(input.part("value"));
    while let Ok(value) = decode_value(&mut reader) {
        let printed = value.to_string();
        let _ = (value == value.to_value().as_ref(), printed.len());
        if reader.remaining() == 0 {
            break;
        }
    }
    let text = String::from_utf8_lossy(input.part("text"));
    let mut taken = false;
    for data_type in types() {
        if let Ok(value) = Value::parse(data_type, &text) {
            taken = true;
            let printed = value.to_string();
            let again = Value::parse(data_type, &printed);
            assert_eq!(
                again.as_ref(),
                Ok(&value),
                "{data_type}: `{printed}` reads as another"
            );
        }
    }
    if let Ok(data_type) = text.parse::<DataType>() {
        let printed = data_type.to_string();
        assert_eq!(
            printed.parse::<DataType>().as_ref(),
            Ok(&data_type),
            "`{printed}`"
        );
        taken = true;
    }
    taken
}
