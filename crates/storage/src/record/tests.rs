//! Keys, rows and updates of every type, against the values that they were made from.
//!
//! Method: random tables with random values of all types. The order of keys must be the order of
//! values, and rows and updates must read back what was set, in both layouts. Damaged tuples and
//! keys must not panic.

use super::*;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::sync::Arc;

fn any_type() -> impl Strategy<Value = DataType> {
    prop_oneof![
        Just(DataType::Bool),
        Just(DataType::Int16),
        Just(DataType::Int32),
        Just(DataType::Int64),
        Just(DataType::Float64),
        Just(DataType::Decimal {
            precision: 9,
            scale: 3
        }),
        Just(DataType::Decimal {
            precision: 38,
            scale: 4
        }),
        (1_u32..12).prop_map(|length| DataType::Char { length }),
        (1_u32..20).prop_map(|max| DataType::Varchar { max }),
        Just(DataType::Text),
        (1_u32..20).prop_map(|max| DataType::Bytes { max: Some(max) }),
        Just(DataType::Bytes { max: None }),
        (1_u32..20).prop_map(|max| DataType::Sortable { max }),
        Just(DataType::Date),
        Just(DataType::Timestamp),
        Just(DataType::Uuid),
    ]
}

/// A value of the type; few different ones, so that equal prefixes are common.
fn value_of(data_type: DataType) -> BoxedStrategy<Value> {
    let text = |bytes: usize| {
        prop::collection::vec(prop::sample::select(vec!['a', 'b', '!', ' ']), 0..=bytes)
            .prop_map(|letters| Value::Text(letters.into_iter().collect()))
    };
    let bytes = |bytes: usize| {
        prop::collection::vec(prop::sample::select(vec![0_u8, 1, 2, 255]), 0..=bytes)
            .prop_map(Value::Bytes)
    };
    let decimal = |limit: i128, scale: u8| {
        prop_oneof![-3..3_i128, -limit + 1..limit]
            .prop_map(move |units| Value::Decimal(Decimal::new(units, scale)))
    };
    match data_type {
        DataType::Bool => any::<bool>().prop_map(Value::from).boxed(),
        DataType::Int16 => prop_oneof![-2..2_i16, any::<i16>()]
            .prop_map(Value::from)
            .boxed(),
        DataType::Int32 => prop_oneof![-2..2_i32, any::<i32>()]
            .prop_map(Value::from)
            .boxed(),
        DataType::Int64 => prop_oneof![-2..2_i64, any::<i64>()]
            .prop_map(Value::from)
            .boxed(),
        DataType::Float64 => prop_oneof![Just(0.0), Just(-0.0), Just(f64::NAN), any::<f64>()]
            .prop_map(Value::from)
            .boxed(),
        DataType::Decimal { precision, scale } => {
            decimal(10_i128.pow(precision.into()), scale).boxed()
        }
        DataType::Char { length } => text(length as usize).boxed(),
        DataType::Varchar { max } => text(max as usize).boxed(),
        DataType::Text => text(60).boxed(),
        DataType::Bytes { max } => bytes(max.unwrap_or(40) as usize).boxed(),
        DataType::Sortable { max } => bytes(max as usize).boxed(),
        DataType::Date => any::<i32>()
            .prop_map(|days| Value::Date(Date(days)))
            .boxed(),
        DataType::Timestamp => any::<i64>()
            .prop_map(|micros| Value::Timestamp(Timestamp(micros)))
            .boxed(),
        DataType::Uuid => any::<[u8; 16]>()
            .prop_map(|bytes| Value::Uuid(Uuid(bytes)))
            .boxed(),
    }
}

/// Columns with rows of values for them.
fn columns_and_rows(
    columns: usize,
    rows: usize,
) -> impl Strategy<Value = (TableDef, Vec<Vec<Value>>)> {
    prop::collection::vec((any_type(), any::<bool>()), 1..=columns).prop_flat_map(move |types| {
        let named = |(position, (data_type, nullable)): (usize, &(DataType, bool))| Column {
            name: format!("c{position}"),
            data_type: *data_type,
            nullable: *nullable,
        };
        let mut columns = vec![Column::new("id", DataType::Int64)];
        columns.extend(types.iter().enumerate().map(named));
        let table = TableDef::new(TableId(1), "t", columns, vec![0]);
        let cells: Vec<BoxedStrategy<Value>> = table
            .columns
            .iter()
            .map(|column| {
                let nulls = u32::from(column.nullable);
                prop_oneof![3 => value_of(column.data_type), nulls => Just(Value::Null)].boxed()
            })
            .collect();
        (Just(table), prop::collection::vec(cells, rows))
    })
}

/// The value as a column of the type shows it.
fn shown(value: &Value, data_type: DataType) -> Value {
    match (value, data_type) {
        (Value::Text(text), DataType::Char { .. }) => {
            Value::Text(text.trim_end_matches(' ').to_owned())
        }
        (Value::Bytes(bytes), DataType::Sortable { .. }) => {
            let end = bytes.iter().rposition(|byte| *byte != 0);
            Value::Bytes(bytes[..end.map_or(0, |end| end + 1)].to_owned())
        }
        _ => value.clone(),
    }
}

/// The order of two values of a type.
fn order(left: &Value, right: &Value, data_type: DataType) -> Ordering {
    match (left, right, data_type) {
        (Value::Text(left), Value::Text(right), DataType::Char { length }) => {
            let padded = |text: &str| format!("{text:length$}", length = length as usize);
            padded(left).cmp(&padded(right))
        }
        (_, _, DataType::Sortable { .. }) => shown(left, data_type).cmp(&shown(right, data_type)),
        _ => left.cmp(right),
    }
}

fn filled(layout: &Arc<TupleLayout>, values: &[Value]) -> Row {
    let mut row = Row::new(Arc::clone(layout));
    for (column, value) in values.iter().enumerate() {
        row.set(column, value).unwrap();
    }
    row.check_complete().unwrap();
    row
}

fn ycsb() -> TableDef {
    let mut columns = vec![Column::new("key", DataType::Int64)];
    columns.extend(
        (0..10).map(|field| Column::new(format!("field{field}"), DataType::Char { length: 100 })),
    );
    TableDef::new(TableId(1), "usertable", columns, vec![0])
}

/// A column whose contents may be too long for its room in a truncated key.
fn any_long_type() -> impl Strategy<Value = DataType> {
    prop_oneof![
        Just(DataType::Text),
        Just(DataType::Varchar { max: 150 }),
        Just(DataType::Bytes { max: None }),
        Just(DataType::Bytes { max: Some(100) }),
        Just(DataType::Sortable { max: 90 }),
    ]
}

/// A content of about the length of a room, which begins like most others.
fn long_value_of(data_type: DataType) -> BoxedStrategy<Value> {
    let ends = prop::collection::vec(prop::sample::select(vec![0_u8, 1, 97, 98]), 0..=2);
    let content = (10_usize..85, ends, any::<bool>()).prop_map(|(same, ends, tail)| {
        let tail = if tail {
            "a".repeat(20).into_bytes()
        } else {
            vec![]
        };
        [vec![b'a'; same], ends, tail].concat()
    });
    let content = content.prop_filter("too long", |content| content.len() <= 90);
    if matches!(data_type, DataType::Text | DataType::Varchar { .. }) {
        content
            .prop_map(|content| Value::Text(String::from_utf8(content).unwrap()))
            .boxed()
    } else {
        content.prop_map(Value::Bytes).boxed()
    }
}

/// A table with a primary key of long columns and truncated keys, rows, and two ends of a range.
fn long_keys() -> impl Strategy<Value = (TableDef, Vec<Vec<Value>>, [Vec<Value>; 2])> {
    let column = |(at, data_type): (usize, &DataType)| Column::new(format!("c{at}"), *data_type);
    prop::collection::vec(any_long_type(), 1..=8).prop_flat_map(move |types| {
        let columns: Vec<Column> = types.iter().enumerate().map(column).collect();
        let key = (0..columns.len()).collect();
        let table = TableDef {
            keys: KeyRule::Truncated { hash_key: 7 },
            ..TableDef::new(TableId(1), "t", columns, key)
        };
        let row: Vec<_> = types.iter().map(|of| long_value_of(*of)).collect();
        let rows = prop::collection::vec(row.clone(), 5);
        let ends = (row.clone(), row, 0..=types.len(), 0..=types.len());
        let ends = ends.prop_map(|(mut low, mut high, few, many)| {
            low.truncate(few);
            high.truncate(many);
            // The same first value is common only if it is made so.
            if few % 2 == 0 && few.min(many) > 0 {
                high[0] = low[0].clone();
            }
            [low, high]
        });
        (Just(table), rows, ends)
    })
}

/// Whether keys may order two rows in another way than their values do.
fn may_tie(encoder: &KeyEncoder, one: &[Value], other: &[Value]) -> bool {
    for (at, (one, other)) in one.iter().zip(other).enumerate() {
        let contents = (one.as_ref().as_bytes(), other.as_ref().as_bytes());
        if let (Some(kept), (Some(one), Some(other))) = (encoder.ordered_bytes(at), contents)
            && one.len().min(other.len()) > kept
            && one[..kept] == other[..kept]
        {
            return true;
        }
        if one != other {
            break;
        }
    }
    false
}

fn one_column(data_type: DataType) -> TableDef {
    TableDef::new(TableId(1), "t", vec![Column::new("c", data_type)], vec![0])
}

proptest! {
    #[test]
    fn key_order_is_value_order((mut table, rows) in columns_and_rows(3, 2), unique: bool, truncated: bool) {
        if truncated {
            table.keys = KeyRule::Truncated { hash_key: 7 };
        }
        let columns: Vec<usize> = (1..table.columns.len()).collect();
        table.indexes.push(IndexDef { id: IndexId(1), name: "i".into(), columns, unique });
        // Three unlimited columns exceed what a key may have.
        prop_assume!(table.validate().is_ok());
        let encoder = KeyEncoder::secondary(&table, &table.indexes[0]);
        let layout = Arc::new(TupleLayout::new(&table, LayoutKind::Together));
        prop_assume!(rows.iter().all(|values| encoder.cut_contents(&filled(&layout, values)) == 0));
        let keys: Vec<KeyBuf> = rows.iter().map(|values| {
            let mut key = KeyBuf::new();
            encoder.encode_row(&filled(&layout, values), &mut key).unwrap();
            key
        }).collect();
        let compare = |position: &usize| {
            order(&rows[0][*position], &rows[1][*position], table.columns[*position].data_type)
        };
        let own = encoder.columns()[..encoder.own_columns()].iter().map(compare).find(|order| order.is_ne());
        let has_null = encoder.columns().iter().any(|position| rows[0][*position].is_null());
        let expected = own.unwrap_or(if unique && !has_null { Ordering::Equal } else { compare(&0) });
        prop_assert_eq!(keys[0].cmp(&keys[1]), expected);

        for (key, values) in keys.iter().zip(&rows) {
            prop_assert_eq!(key.len(), encoder.shape().words);
            let decoded = encoder.decode(key).unwrap();
            let given: Vec<Value> = encoder.columns().iter().take(decoded.len())
                .map(|position| shown(&values[*position], table.columns[*position].data_type)).collect();
            prop_assert_eq!(&decoded, &given);
            let mut again = KeyBuf::new();
            encoder.encode_values(&decoded, &mut again).unwrap();
            prop_assert_eq!(&again, key);
            for length in 0..=encoder.own_columns() {
                let (mut lower, mut upper) = (KeyBuf::new(), KeyBuf::new());
                encoder.lower_bound(&decoded[..length], &mut lower).unwrap();
                encoder.upper_bound(&decoded[..length], &mut upper).unwrap();
                prop_assert!(lower <= *key && *key <= upper);
                for (other, other_values) in keys.iter().zip(&rows) {
                    let same = encoder.columns()[..length].iter().all(|position| {
                        let data_type = table.columns[*position].data_type;
                        order(&values[*position], &other_values[*position], data_type).is_eq()
                    });
                    prop_assert_eq!(same, lower <= *other && *other <= upper);
                }
            }
        }
    }

    #[test]
    fn ranges_of_truncated_keys_have_the_right_rows(
        (table, mut rows, ends) in long_keys(), ties in prop::collection::vec(0_usize..=8, 5)
    ) {
        prop_assert_eq!(table.validate(), Ok(()));
        let encoder = KeyEncoder::primary(&table);
        // Rows begin with values of an end, so that a later one decides.
        for (at, (row, tied)) in rows.iter_mut().zip(ties).enumerate() {
            for (value, end) in row.iter_mut().zip(&ends[at % 2]).take(tied) {
                *value = end.clone();
            }
        }
        let layout = Arc::new(TupleLayout::new(&table, LayoutKind::Together));
        let key_of = |row: &Row| {
            let mut key = KeyBuf::new();
            encoder.encode_row(row, &mut key).unwrap();
            key
        };
        let shown_as = |values: &[Value]| -> Vec<Value> {
            values.iter().zip(&table.columns).map(|(value, column)| shown(value, column.data_type)).collect()
        };
        let [low, high] = &ends;
        let equal = low.iter().zip(high).take_while(|(low, high)| low == high).count();
        let (mut low_key, mut high_key) = (KeyBuf::new(), KeyBuf::new());
        let wide_low = encoder.range_bound(low, equal, 0, &mut low_key).unwrap();
        let wide_high = encoder.range_bound(high, equal, 255, &mut high_key).unwrap();
        for values in &rows {
            let row = filled(&layout, values);
            let key = key_of(&row);
            let values = shown_as(values);
            let within = values[..low.len()] >= *shown_as(low) && values[..high.len()] <= *shown_as(high);
            let in_keys = low_key <= key && key <= high_key;
            prop_assert!(in_keys || !within, "a row of the range is not between its keys");
            let compared = (!wide_low || encoder.compare_row(&row, low).is_ge())
                && (!wide_high || encoder.compare_row(&row, high).is_le());
            prop_assert_eq!(in_keys && compared, within);
            for other in &rows {
                let other_key = key_of(&filled(&layout, other));
                let other = shown_as(other);
                prop_assert_eq!(key == other_key, values == other);
                if !may_tie(&encoder, &values, &other) {
                    prop_assert_eq!(key.cmp(&other_key), values.cmp(&other));
                }
            }
        }
    }

    #[test]
    fn rows_read_back((table, rows) in columns_and_rows(70, 2), together: bool) {
        let kind = if together { LayoutKind::Together } else { LayoutKind::Separate };
        let layout = Arc::new(TupleLayout::new(&table, kind));
        prop_assert_eq!(layout.tuple_bytes() % 8, 0);
        let mut row = filled(&layout, &rows[0]);
        row.clear();
        for (column, value) in rows[1].iter().enumerate() {
            row.set(column, value).unwrap();
        }
        let expected: Vec<Value> = rows[1].iter().zip(&table.columns)
            .map(|(value, column)| shown(value, column.data_type)).collect();
        prop_assert_eq!(row.to_values(), expected.clone());
        row.check_values().unwrap();

        // The way of an engine: tuple first, then each content.
        let mut copy = Row::new(Arc::clone(&layout));
        copy.begin_fill().copy_from_slice(row.tuple_bytes());
        for column in layout.out_of_line().iter().filter(|column| row.outline_word(**column) != Some(0)) {
            copy.set_outline(*column, row.outline(*column).unwrap()).unwrap();
        }
        prop_assert_eq!(copy.to_values(), expected);
        copy.check_complete().unwrap();
    }

    #[test]
    fn updates_do_what_setting_does((table, rows) in columns_and_rows(70, 2), together: bool, chosen: u128) {
        let kind = if together { LayoutKind::Together } else { LayoutKind::Separate };
        let layout = Arc::new(TupleLayout::new(&table, kind));
        let old = filled(&layout, &rows[0]);
        let mut expected = old.clone();
        let mut changes = Changes::new(Arc::clone(&layout));
        for column in (0..table.columns.len()).filter(|column| chosen >> column & 1 == 1) {
            changes.set(column, &rows[0][column]).unwrap();
            changes.set(column, &rows[1][column]).unwrap();
            expected.set(column, &rows[1][column]).unwrap();
            prop_assert_eq!(changes.value(column).unwrap(), expected.get(column));
        }
        // The way of an engine: new bytes of the spans, contents appended, words patched, checksum
        // followed.
        let mut new = old.clone();
        let mut pointers = vec![0; table.columns.len()];
        for patch in changes.patches() {
            if let Patch::OutOfLine { column, content, .. } = patch {
                new.set_outline(column, content).unwrap();
                pointers[column] = new.outline_word(column).unwrap();
            }
        }
        new.tuple_bytes_mut().copy_from_slice(old.tuple_bytes());
        let mut sum = checksum::tuple_checksum(old.tuple_bytes());
        let mut spans = Vec::new();
        changes.spans(&mut spans);
        for span in spans {
            let before = old.tuple_bytes()[span.clone()].to_vec();
            let mut after = before.clone();
            changes.overlay(span.start, &mut after, |column| pointers[column]);
            sum = sum.wrapping_add(checksum::delta(&before, &after, span.start));
            new.tuple_bytes_mut()[span].copy_from_slice(&after);
        }
        prop_assert_eq!(new.to_values(), expected.to_values());
        prop_assert_eq!(sum, checksum::tuple_checksum(new.tuple_bytes()));
        prop_assert!(changes.is_noop(&new));
        let mut same = Changes::new(Arc::clone(&layout));
        for column in 0..table.columns.len() {
            same.set(column, old.get(column)).unwrap();
        }
        let mut news = Changes::new(Arc::clone(&layout));
        same.add_news_for(&old, &mut news);
        prop_assert!(news.is_empty());
        // What is new to the row is enough, and is not new to the row after it.
        for news_only in [false, true] {
            let mut news = Changes::new(Arc::clone(&layout));
            changes.add_news_for(&old, &mut news);
            let mut applied = old.clone();
            if news_only { &news } else { &changes }.apply(&mut applied).unwrap();
            prop_assert_eq!(applied.to_values(), expected.to_values());
            applied.check_complete().unwrap();
            news.clear();
            changes.add_news_for(&applied, &mut news);
            prop_assert!(news.is_empty());
        }
    }

    #[test]
    fn damaged_tuples_and_keys_do_not_panic((mut table, rows) in columns_and_rows(20, 1), noise in prop::collection::vec(any::<u8>(), 1..64), words in any::<[u64; 32]>()) {
        for kind in [LayoutKind::Together, LayoutKind::Separate] {
            let mut row = filled(&Arc::new(TupleLayout::new(&table, kind)), &rows[0]);
            for (byte, noise) in row.tuple_bytes_mut().iter_mut().zip(noise.iter().cycle()) {
                *byte = *noise;
            }
            let _ = (row.to_values(), row.check_values());
        }
        table.columns.truncate(4);
        let columns = (1..table.columns.len()).collect();
        table.indexes.push(IndexDef { id: IndexId(1), name: "i".into(), columns, unique: true });
        if table.validate().is_ok() {
            let encoder = KeyEncoder::secondary(&table, &table.indexes[0]);
            let _ = encoder.decode(&words[..encoder.shape().words]);
            prop_assert!(encoder.decode(&[]).is_err());
        }
    }

    #[test]
    fn values_print_and_read_back((data_type, value) in any_type().prop_flat_map(|data_type| (Just(data_type), value_of(data_type)))) {
        prop_assert_eq!(Value::parse(data_type, &value.to_string()), Ok(shown(&value, data_type)));
    }
}

#[test]
fn a_ycsb_tuple_has_no_waste() {
    assert_eq!(
        TupleLayout::new(&ycsb(), LayoutKind::Together).tuple_bytes(),
        8 + 8 + 1000
    );
    assert_eq!(
        TupleLayout::new(&ycsb(), LayoutKind::Separate).tuple_bytes(),
        8 + 8 + 80
    );
    let mut nullable = ycsb();
    nullable.columns[1].nullable = true;
    assert_eq!(
        TupleLayout::new(&nullable, LayoutKind::Together).tuple_bytes(),
        1024
    );
}

#[test]
fn the_widest_table_fits_a_block() {
    let columns: Vec<Column> = (0..1024)
        .map(|column| Column::new(format!("c{column}"), DataType::Uuid).nullable())
        .collect();
    let table = TableDef::new(TableId(1), "t", columns, vec![0]);
    assert!(TupleLayout::new(&table, LayoutKind::Together).tuple_bytes() <= 8 + 128 + 8192);
}

#[test]
fn an_int64_key_is_one_word() {
    let encoder = KeyEncoder::primary(&ycsb());
    assert_eq!(encoder.shape(), KeyShape { words: 1 });
    let mut key = KeyBuf::new();
    encoder
        .encode_values(&[Value::Int64(-1)], &mut key)
        .unwrap();
    assert_eq!(*key, [(1 << 63) - 1]);
    encoder.encode_values(&[Value::Int16(7)], &mut key).unwrap();
    assert_eq!(*key, [1 << 63 | 7]);
}

#[test]
fn keys_of_all_lengths_are_kept() {
    let mut key = KeyBuf::new();
    for words in [1, 6, 7, 32, 2, 32] {
        let expected: Vec<u64> = (0..words).collect();
        key.assign(&expected);
        assert_eq!(*key, *expected);
        assert_eq!(key.clone(), KeyBuf::from_words(&expected));
    }
}

#[test]
fn texts_with_control_characters_keep_their_order() {
    let truncated = TableDef {
        keys: KeyRule::Truncated { hash_key: 0 },
        ..one_column(DataType::Text)
    };
    for table in [one_column(DataType::Text), truncated] {
        control_characters_in(&KeyEncoder::primary(&table));
    }
}

fn control_characters_in(encoder: &KeyEncoder) {
    let mut texts = vec![
        "",
        "\0",
        "\0\0",
        "\0\u{1}",
        "\u{1}",
        "\u{1}\0",
        "\u{2}",
        "a",
        "a\0",
        "a\0b",
        "a\u{1}",
        "a\u{2}",
        "aaaaaaaa",
        "aaaaaaaa\0",
        "ä",
    ];
    let key_of = |text: &str| {
        let mut key = KeyBuf::new();
        encoder
            .encode_values(&[Value::from(text)], &mut key)
            .unwrap();
        assert_eq!(encoder.decode(&key).unwrap(), [Value::from(text)]);
        key
    };
    texts.sort_unstable();
    for pair in texts.windows(2) {
        assert!(key_of(pair[0]) < key_of(pair[1]), "{pair:?}");
    }
}

#[test]
fn keys_have_limits() {
    let attempt = |data_type, value: Value| {
        KeyEncoder::primary(&one_column(data_type)).encode_values(&[value], &mut KeyBuf::new())
    };
    assert_eq!(attempt(DataType::Text, "x".repeat(119).into()), Ok(()));
    assert_eq!(
        attempt(DataType::Text, "x".repeat(120).into())
            .unwrap_err()
            .to_string(),
        "the value of column `t.c` takes 121 bytes in a key, whose limit is 120 bytes"
    );
    assert_eq!(
        attempt(DataType::Bytes { max: None }, vec![0; 104].into()),
        Ok(())
    );
    assert!(matches!(
        attempt(DataType::Bytes { max: None }, vec![0; 105].into()),
        Err(RecordError::KeyTooLong { .. })
    ));
    assert_eq!(
        attempt(DataType::Varchar { max: 255 }, "x".repeat(255).into()),
        Ok(())
    );
    assert!(matches!(
        attempt(DataType::Int32, Value::Null),
        Err(RecordError::NotNull { .. })
    ));
    let encoder = KeyEncoder::primary(&ycsb());
    let none: [Value; 0] = [];
    assert!(matches!(
        encoder.encode_values(&none, &mut KeyBuf::new()),
        Err(RecordError::KeyColumns {
            expected: 1,
            found: 0,
            ..
        })
    ));
}

#[test]
fn long_columns_share_the_room_of_truncated_keys() {
    const CHAR: DataType = DataType::Char { length: 200 };
    let words = |types: &[DataType]| {
        let columns = types.iter().enumerate();
        let columns = columns.map(|(at, of)| Column::new(format!("c{at}"), *of));
        let table = TableDef {
            keys: KeyRule::Truncated { hash_key: 0 },
            ..TableDef::new(
                TableId(1),
                "t",
                columns.collect(),
                (0..types.len()).collect(),
            )
        };
        let encoder = KeyEncoder::primary(&table);
        assert_eq!(
            encoder.ordered_bytes(0).is_none(),
            encoder.is_all_exact() || types[0] == CHAR
        );
        table
            .validate()
            .map(|()| (encoder.shape().words, encoder.is_all_exact()))
    };
    let user_name = DataType::Varchar { max: 600 };
    assert_eq!(words(&[user_name]), Ok((8, false)));
    assert_eq!(words(&[user_name; 2]), Ok((16, false)));
    assert_eq!(words(&[user_name; 5]), Ok((30, false)));
    assert_eq!(
        words(&[DataType::Text; 6]),
        Ok((252_usize.div_ceil(8), false))
    );
    assert_eq!(words(&[DataType::Text; 8]), Ok((32, false)));
    assert!(words(&[DataType::Text; 9]).is_err());
    assert_eq!(words(&[DataType::Varchar { max: 63 }]), Ok((8, true)));
    assert_eq!(words(&[DataType::Varchar { max: 31 }; 3]), Ok((12, true)));
    assert_eq!(words(&[DataType::Char { length: 250 }]), Ok((32, true)));
    assert_eq!(words(&[CHAR, DataType::Text]), Ok((32, false)));
    assert_eq!(words(&[DataType::Sortable { max: 20 }]), Ok((3, true)));
}

/// The bytes of these keys are on media, so they must never change.
#[test]
fn cut_contents_have_the_keys_that_they_always_had() {
    let key_of = |data_type, value: Value| {
        let table = TableDef {
            keys: KeyRule::Truncated {
                hash_key: 1 << 127 | 3,
            },
            ..one_column(data_type)
        };
        let mut key = KeyBuf::new();
        let encoder = KeyEncoder::primary(&table);
        encoder.encode_values(&[value], &mut key).unwrap();
        assert!(encoder.decode(&key).is_err());
        key.iter()
            .map(|word| format!("{word:016x}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let text = "b".repeat(100);
    let hash = "eb69ea8f180e3c95 9c3a0403b8e2b492";
    assert_eq!(
        key_of(DataType::Text, text.clone().into()),
        format!("{}63636363636363ff {hash}", "6363636363636363 ".repeat(5))
    );
    assert_eq!(
        key_of(
            DataType::Bytes { max: None },
            text.clone().into_bytes().into()
        ),
        "6262626262626262 0962626262626262 6209626262626262 6262096262626262 6262620962626262 \
         62626262ffeb69ea 8f180e3c959c3a04 03b8e2b492000000"
    );
    assert_eq!(
        key_of(DataType::Sortable { max: 100 }, text.into_bytes().into()),
        format!("{}62626262626262ff {hash}", "6262626262626262 ".repeat(5))
    );
}

#[test]
fn row_mistakes_are_named() {
    let columns = vec![
        Column::new("id", DataType::Int32),
        Column::new("name", DataType::Varchar { max: 3 }).nullable(),
    ];
    let table = TableDef::new(TableId(1), "t", columns, vec![0]);
    let mut row = Row::new(Arc::new(TupleLayout::new(&table, LayoutKind::Together)));
    assert!(row.get(1).is_null());
    assert_eq!(
        row.check_complete().unwrap_err().to_string(),
        "column `t.id` must not be NULL"
    );
    assert_eq!(
        row.set(0, ValueRef::Null).unwrap_err().to_string(),
        "column `t.id` must not be NULL"
    );
    assert_eq!(
        row.set(0, "x").unwrap_err().to_string(),
        "column `t.id` is int32 and cannot hold a value of type text"
    );
    assert_eq!(
        row.set(0, 1_i64 << 40).unwrap_err().to_string(),
        "1099511627776 cannot be stored exactly in column `t.id` of type int32"
    );
    assert_eq!(
        row.set(1, "abcd").unwrap_err().to_string(),
        "a value of 4 bytes is too long for column `t.name`, whose limit is 3 bytes"
    );
    assert_eq!(
        row.set(2, 1_i64).unwrap_err().to_string(),
        "table `t` has no column at position 2"
    );
    row.set(0, 5_i64).unwrap();
    row.set(1, "ab").unwrap();
    row.check_complete().unwrap();
    assert_eq!(row.to_values(), [Value::Int32(5), Value::from("ab")]);
}
