//! Goal: long contents in keys are unique and found, and ranges have the right rows, whatever a key
//! has of them; tables that SQL keeps, and hidden ones, are out of the way of others; a table keeps
//! its rows when its columns change; rows are counted.
//!
//! Method: a few methods of each kind of engine, in one partition and in several.

use crate::common::{Directory, small_options};
use indelible::{
    Column, DataType, Database, Direction, Durability, Error, HiddenTable, IndexDef, IndexId,
    KeyRule, Method, Options, Owner, Prefix, RecordError, RowCount, SchemaError, Table, TableDef,
    TableId, TransactionOptions, Value,
};
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

const METHODS: [Method; 4] = [
    Method::NvmInp,
    Method::Log,
    Method::Fast,
    Method::FullPageWrites,
];

fn create(
    method: Method,
    partitions: u32,
    change: impl Fn(Options) -> Options,
) -> (Directory, Database) {
    let directory = Directory::new();
    let options = change(small_options(method).partitions(partitions));
    let database = Database::create(directory.path(), &options).unwrap();
    (directory, database)
}

fn texts(
    table: &Table,
    database: &Database,
    range: (Bound<String>, Bound<String>),
) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    database
        .read(|reader| {
            found.clear();
            reader.scan(table, range.clone(), Direction::Forward, |row| {
                let is_new = found.insert(row.get(0).as_str().unwrap().to_owned());
                assert!(is_new, "a row comes once");
                ControlFlow::Continue(())
            })
        })
        .unwrap();
    found
}

#[test]
fn ranges_of_long_texts_have_the_right_rows() {
    let all: BTreeSet<String> = (40..70)
        .flat_map(|same| {
            ["", "0", "b", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbb"].map(|end| "a".repeat(same) + end)
        })
        .chain([String::new(), "Z".into(), "b".into()])
        .collect();
    let ends: Vec<&String> = all.iter().step_by(7).collect();
    for method in METHODS {
        for partitions in [1, 3] {
            let (_directory, database) = create(method, partitions, |options| options);
            let table = database
                .create_table("t")
                .column("text", DataType::Varchar { max: 150 })
                .create()
                .unwrap();
            database
                .transaction(|t| {
                    all.iter()
                        .try_for_each(|text| t.insert(&table, (text.as_str(),)))
                })
                .unwrap();
            for low in &ends {
                assert!(
                    database
                        .read(|r| r.get(&table, low.as_str()))
                        .unwrap()
                        .is_some()
                );
                for high in ends.iter().filter(|high| low <= *high) {
                    let (low, high) = ((*low).clone(), (*high).clone());
                    for range in [
                        (Bound::Included(low.clone()), Bound::Included(high.clone())),
                        (Bound::Excluded(low.clone()), Bound::Excluded(high.clone())),
                        (Bound::Unbounded, Bound::Excluded(high.clone())),
                    ] {
                        if range.0 == Bound::Excluded(high.clone()) {
                            continue;
                        }
                        let expected: BTreeSet<String> =
                            all.range(range.clone()).cloned().collect();
                        assert_eq!(texts(&table, &database, range), expected, "{method}");
                    }
                }
            }
            let report = database.verify().unwrap();
            let long = all.iter().filter(|text| text.len() > 63).count() as u64;
            assert_eq!(
                (report.damage.as_slice(), report.truncated_keys),
                (&[][..], long)
            );
        }
    }
}

#[test]
fn long_texts_are_unique_over_partitions_and_openings() {
    for method in METHODS {
        let (directory, database) = create(method, 3, |options| options);
        let users = database
            .create_table("users")
            .column("id", DataType::Int64)
            .column("name", DataType::Varchar { max: 150 })
            .unique_index("by_name", ["name"])
            .create()
            .unwrap();
        let name = |id: i64| format!("{}{id}", "n".repeat(140));
        database
            .transaction(|t| (0..20).try_for_each(|id| t.insert(&users, (id, name(id)))))
            .unwrap();
        drop((users, database));
        let database = Database::open(directory.path()).unwrap();
        let users = database.table("users").unwrap();
        let by_name = users.index("by_name").unwrap();
        for id in 0..20 {
            let taken = database.transaction(|t| t.insert(&users, (id + 100, name(id))));
            assert!(
                matches!(taken, Err(Error::DuplicateKey { .. })),
                "{method} {id}"
            );
            let found = database
                .read(|r| r.find(&by_name, name(id).as_str()))
                .unwrap();
            assert_eq!(found[0].get(0).as_i64(), Some(id));
        }
        let count = database.read(|r| r.count(&users, Prefix(7_i64))).unwrap();
        assert_eq!(count, 1);
    }
}

#[test]
fn exact_keys_refuse_long_contents() {
    let (_directory, database) = create(Method::NvmInp, 1, |options| options.exact_keys(true));
    let long = database
        .create_table("long")
        .column("text", DataType::Varchar { max: 300 })
        .create();
    let Err(Error::Schema(long)) = long else {
        panic!("{long:?}");
    };
    assert!(matches!(*long, SchemaError::KeyTooLong { .. }), "{long}");
    let table = database
        .create_table("t")
        .column("text", DataType::Text)
        .create()
        .unwrap();
    assert_eq!(table.definition().keys, KeyRule::Exact);
    let refused = database.transaction(|t| t.insert(&table, ("x".repeat(120),)));
    let Err(Error::Record(refused)) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        matches!(*refused, RecordError::KeyTooLong { .. }),
        "{refused}"
    );
}

#[test]
fn typed_writes_pass_a_table_of_sql_by() {
    let (_directory, database) = create(Method::NvmInp, 1, |options| options);
    let table = database
        .create_table("t")
        .column("id", DataType::Int64)
        .owner(Owner::Sql)
        .create()
        .unwrap();
    let managed = |result: indelible::Result<()>| matches!(result, Err(Error::Managed { .. }));
    let changes = table.changes();
    assert!(managed(
        database.transaction(|t| t.insert(&table, (1_i64,)))
    ));
    assert!(managed(
        database.transaction(|t| t.upsert(&table, (1_i64,)).map(drop))
    ));
    assert!(managed(
        database.transaction(|t| t.update(&table, 1_i64, &changes).map(drop))
    ));
    assert!(managed(
        database.transaction(|t| t.delete(&table, 1_i64).map(drop))
    ));
    let options = TransactionOptions::new().unchecked(true);
    database
        .transaction_with(&options, |t| t.insert(&table, (1_i64,)))
        .unwrap();
    let mut transaction = database.begin_with(&options).unwrap();
    assert!(transaction.delete(&table, 1_i64).unwrap());
    transaction.commit().unwrap();
    assert!(managed(
        database.transaction(|t| t.insert(&table, (1_i64,)))
    ));
}

#[test]
fn hidden_tables_are_in_backups_and_not_among_the_tables() {
    for method in METHODS {
        let (directory, database) = create(method, 2, |options| options);
        let settings = database.hidden_table(HiddenTable::Settings).unwrap();
        assert_eq!(settings.id(), TableId(5));
        let options = TransactionOptions::new().unchecked(true);
        database
            .transaction_with(&options, |t| t.insert(&settings, (0_i64, "work_mem", "64")))
            .unwrap();
        assert!(database.tables().is_empty());
        assert_eq!(database.verify().unwrap().rows, 1);
        let backup = Directory::new();
        database.backup(backup.path()).unwrap();
        drop((settings, database));
        let restored = Directory::new();
        Database::restore(backup.path(), restored.path(), &Options::new()).unwrap();
        for place in [directory.path(), restored.path()] {
            let database = Database::open(place).unwrap();
            assert!(database.tables().is_empty());
            let settings = database.hidden_table(HiddenTable::Settings).unwrap();
            let key = [Value::Int64(0), Value::from("work_mem")];
            let row = database.read(|r| r.get(&settings, &key)).unwrap().unwrap();
            assert_eq!(row.get(2).as_str(), Some("64"));
            // A table of a user has no number of a hidden one, and may have its name.
            let table = database
                .create_table("setting")
                .column("id", DataType::Int64)
                .create()
                .unwrap();
            assert!(table.id().0 >= 16);
        }
    }
}

#[test]
fn a_change_of_columns_keeps_rows_and_indexes() {
    for method in METHODS {
        let (directory, database) = create(method, 2, |options| options);
        let people = database
            .create_table("people")
            .column("id", DataType::Text)
            .column("born", DataType::Int32)
            .nullable_column("note", DataType::Text)
            .index("by_born", ["born"])
            .create()
            .unwrap();
        let note = "n".repeat(3000);
        let insert = |id: i32| (id.to_string(), id % 10, note.as_str());
        database
            .transaction(|t| (0..600).try_for_each(|id| t.insert(&people, insert(id))))
            .unwrap();
        let in_index = database.alter_table(&people).drop_column("born").apply();
        assert!(matches!(in_index, Err(Error::Definition { .. })));
        let no_number = database
            .alter_table(&people)
            .change_type("note", DataType::Int64)
            .apply();
        assert!(
            matches!(no_number, Err(Error::Definition { .. })),
            "{no_number:?}"
        );
        let unknown = database.alter_table(&people).drop_column("x").apply();
        assert!(matches!(unknown, Err(Error::NoSuchColumn { .. })));
        let people = database.table("people").unwrap();
        let changed = database
            .alter_table(&people)
            .rename("persons")
            .change_type("id", DataType::Int64)
            .rename_column("born", "year")
            .drop_column("note")
            .add_column(Column::new("city", DataType::Text).nullable(), Value::Null)
            .apply()
            .unwrap();
        let gone = database.read(|r| r.count(&people, ..));
        assert!(matches!(gone, Err(Error::TableDropped { .. })));
        assert!(matches!(
            database.table("people"),
            Err(Error::NoSuchTable { .. })
        ));
        drop((people, changed, database));
        let database = Database::open(directory.path()).unwrap();
        let tables = database.tables();
        assert_eq!(tables.len(), 1);
        let persons = database.table("persons").unwrap();
        let names: Vec<String> = persons
            .definition()
            .columns
            .into_iter()
            .map(|column| column.name)
            .collect();
        assert_eq!(names, ["id", "year", "city"]);
        let by_born = persons.index("by_born").unwrap();
        assert_eq!(
            database.read(|r| r.find(&by_born, 3_i32)).unwrap().len(),
            60
        );
        let row = database
            .read(|r| r.get(&persons, 599_i64))
            .unwrap()
            .unwrap();
        assert_eq!(row.get(1).as_i64(), Some(9));
        assert!(row.get(2).is_null());
        assert!(database.verify().unwrap().damage.is_empty());
    }
}

#[test]
fn definitions_of_the_caller_keep_their_rule() {
    let (_directory, database) = create(Method::NvmInp, 1, |options| options);
    let columns = vec![Column::new("id", DataType::Text)];
    let mut def = TableDef::new(TableId(1 << 30), "t", columns, vec![0]);
    let index = IndexDef {
        id: IndexId(1),
        name: "i".into(),
        columns: vec![0],
        unique: true,
    };
    def.indexes.push(index);
    let table = database.create_table_from(def.clone()).unwrap();
    assert_eq!(table.definition().keys, KeyRule::Exact);
    "truncated".clone_into(&mut def.name);
    def.keys = KeyRule::Truncated { hash_key: 0 };
    let table = database.create_table_from(def).unwrap();
    let KeyRule::Truncated { hash_key } = table.definition().keys else {
        panic!("the rule is kept");
    };
    assert_ne!(hash_key, 0, "the key is drawn");
}

#[test]
fn rows_are_counted_as_transactions_commit() {
    for method in METHODS {
        let (_directory, database) = create(method, 2, |options| options);
        let table = database
            .create_table("t")
            .column("id", DataType::Int64)
            .column("value", DataType::Int64)
            .create()
            .unwrap();
        let exactly = |rows| {
            Some(RowCount {
                rows,
                is_exact: true,
            })
        };
        assert_eq!(table.row_count(), exactly(0));
        database
            .transaction(|t| (0..10).try_for_each(|id| t.insert(&table, (id, id))))
            .unwrap();
        let undone: indelible::Result<()> = database.transaction(|t| {
            t.insert(&table, (10_i64, 0_i64))?;
            Err(Error::rejected("undone"))
        });
        assert!(undone.is_err());
        let twice = database.transaction(|t| t.insert(&table, (1_i64, 0_i64)));
        assert!(twice.is_err());
        assert_eq!(table.row_count(), exactly(10), "{method}");
        database
            .transaction(|t| {
                let savepoint = t.savepoint();
                t.delete(&table, 1_i64)?;
                t.insert(&table, (11_i64, 0_i64))?;
                t.insert(&table, (12_i64, 0_i64))?;
                t.rollback_to(&savepoint)?;
                assert!(!t.delete(&table, 99_i64)?);
                t.upsert(&table, (2_i64, 5_i64))?;
                t.upsert(&table, (13_i64, 5_i64))?;
                // A new primary key moves the row.
                let mut changes = table.changes();
                changes.set(0, 20_i64)?;
                t.update(&table, 3_i64, &changes)?;
                t.delete(&table, 4_i64).map(drop)
            })
            .unwrap();
        assert_eq!(table.row_count(), exactly(10), "{method}");
        let mut worker = database.worker(&[0, 1], Durability::Group).unwrap();
        worker
            .transaction(|t| t.insert(&table, (30_i64, 0_i64)))
            .unwrap();
        worker.close().unwrap();
        assert_eq!(table.row_count(), exactly(11), "{method}");
        let changed = database
            .alter_table(&table)
            .drop_column("value")
            .apply()
            .unwrap();
        assert_eq!(changed.row_count(), exactly(11), "{method}");
    }
}

/// A copy that a rewrite has begun is no table, whatever the error was and whatever comes later.
#[test]
fn a_rewrite_that_fails_leaves_nothing_behind() {
    for method in METHODS {
        for partitions in [1, 3] {
            let (directory, database) = create(method, partitions, |options| options);
            let table = database
                .create_table("t")
                .column("id", DataType::Int64)
                .column("twice", DataType::Int64)
                .create()
                .unwrap();
            database
                .transaction(|t| (0..20_i64).try_for_each(|id| t.insert(&table, (id, 2 * id))))
                .unwrap();
            let mut left = 5;
            let failed = database.rewrite_table(&table, table.definition(), |old, new| {
                left -= 1;
                (0..2).try_for_each(|at| new.set(at, old.get(at)))?;
                if left == 0 {
                    Err(Error::Doomed)
                } else {
                    Ok(())
                }
            });
            assert!(matches!(failed, Err(Error::Doomed)), "{failed:?}");
            assert_eq!(database.read(|r| r.count(&table, ..)).unwrap(), 20);
            drop(table);
            database.drop_table("t").unwrap();
            drop(database);
            let database = Database::open(directory.path()).unwrap();
            assert!(database.tables().is_empty(), "{method}");
        }
    }
}

/// A rewrite takes as little room in the log as its rows did.
#[test]
fn a_rewrite_needs_little_room_in_the_log() {
    let (directory, database) = create(Method::NvLogging, 1, |options| {
        options.node_bytes(512).ring_bytes(1)
    });
    let table = database
        .create_table("t")
        .column("id", DataType::Int64)
        .column("text", DataType::Char { length: 200 })
        .create()
        .unwrap();
    for first in 0..1000_i64 {
        let rows = 8 * first..8 * first + 8;
        database
            .transaction(|t| rows.clone().try_for_each(|id| t.insert(&table, (id, "a"))))
            .unwrap();
    }
    let column = Column::new("more", DataType::Int32).nullable();
    let change = database.alter_table(&table).add_column(column, Value::Null);
    let changed = change.apply().unwrap();
    assert_eq!(changed.definition().columns.len(), 3);
    drop((table, changed));
    database.close().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let tables = database.tables();
    assert_eq!(tables.len(), 1);
    assert_eq!(tables[0].definition().columns.len(), 3);
    assert_eq!(database.read(|r| r.count(&tables[0], ..)).unwrap(), 8000);
}

#[test]
fn counts_and_statistics_are_there_again_and_say_when_they_are_estimates() {
    for method in METHODS {
        let (directory, database) = create(method, 1, |options| options);
        let make = |database: &Database, name: &str| {
            let made = database.create_table(name).column("id", DataType::Int64);
            made.nullable_column("even", DataType::Int64)
                .create()
                .unwrap()
        };
        let insert = |database: &Database, ids: std::ops::Range<i64>| {
            let table = database.table("t").unwrap();
            let row = |id: i64| (id, (id % 2 == 0).then_some(id % 6));
            database
                .transaction(|t| ids.clone().try_for_each(|id| t.insert(&table, row(id))))
                .unwrap();
            table.row_count()
        };
        let table = make(&database, "t");
        insert(&database, 0..600);
        assert_eq!(database.table_statistics(&table).unwrap(), None);
        let statistics = database.analyze(&table).unwrap();
        assert_eq!((statistics.rows, statistics.sampled), (600, 600));
        assert!((statistics.columns[0].distinct - 600.0).abs() < 1e-9);
        let even = &statistics.columns[1];
        assert_eq!(
            (even.nulls, even.distinct, even.common.len()),
            (0.5, 3.0, 3)
        );
        insert(&database, 600..700);
        drop(table);
        database.close().unwrap();

        // Closed in order: exact.
        let database = Database::open(directory.path()).unwrap();
        let table = database.table("t").unwrap();
        let count = |rows, is_exact| Some(RowCount { rows, is_exact });
        assert_eq!(table.row_count(), count(700, true), "{method}");
        assert_eq!(database.table_statistics(&table).unwrap(), Some(statistics));
        assert_eq!(insert(&database, 700..710), count(710, true));
        database.checkpoint().unwrap();
        assert_eq!(insert(&database, 710..720), count(720, true));

        // Copied while it was open, as if killed: the count of the checkpoint, an estimate.
        let killed = Directory::new();
        database.force().unwrap();
        std::fs::create_dir(killed.path()).unwrap();
        for file in std::fs::read_dir(directory.path()).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), killed.path().join(file.file_name())).unwrap();
        }
        let copy = Database::open(killed.path()).unwrap();
        let estimated = copy.table("t").unwrap();
        assert_eq!(estimated.row_count(), count(710, false), "{method}");
        drop((estimated, copy));

        // An estimate stays one over an orderly end.
        let copy = Database::open(killed.path()).unwrap();
        assert_eq!(
            copy.table("t").unwrap().row_count(),
            count(710, false),
            "{method}"
        );
        drop(copy);

        // A later table of the same name has nothing of the earlier one.
        drop(table);
        database.drop_table("t").unwrap();
        let table = make(&database, "t");
        assert_eq!(table.row_count(), count(0, true));
        assert_eq!(database.table_statistics(&table).unwrap(), None);
    }
}

/// The statistics of a table are forgotten after it was dropped. If that failed, so did the drop,
/// though the table was gone.
#[test]
fn a_drop_that_is_durable_succeeds() {
    let (directory, database) = create(Method::NvmInp, 2, |options| options);
    let mut builder = database.create_table("t").column("id", DataType::Int64);
    for at in 0..20 {
        builder = builder.column(&format!("c{at}"), DataType::Text);
    }
    let table = builder.create().unwrap();
    for id in 0..150_i64 {
        let mut row = table.row();
        row.set(0, id).unwrap();
        for at in 1..=20 {
            row.set(at, format!("{id:0>250}").as_str()).unwrap();
        }
        database.transaction(|t| t.insert(&table, &row)).unwrap();
    }
    database.analyze(&table).unwrap();
    drop(table);
    database.close().unwrap();
    let options = Options::new().transaction_memory_max(64 << 10);
    let database = Database::open_with(directory.path(), &options).unwrap();
    let table = database.table("t").unwrap();
    let column = Column::new("more", DataType::Int32).nullable();
    let change = database.alter_table(&table).add_column(column, Value::Null);
    change.apply().unwrap();
    drop(table);
    database.drop_table("t").unwrap();
    assert!(database.tables().is_empty());
}
