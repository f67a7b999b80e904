//! Checkpoints that are written while transactions go on.
//!
//! At each step of a checkpoint the files must bring back exactly the committed content, whatever
//! happened between its beginning and its end: insertions, changes and deletions before and after
//! the cursor, aborts, prepared transactions, changes of the schema, a full disk.

use super::*;

/// Options with which a checkpoint takes many transactions.
fn slow() -> EngineOptions {
    EngineOptions {
        checkpoint_log_bytes: 24 << 10,
        ..options()
    }
}

fn create_slow(world: &SimulatedWorld) -> TestEngine {
    let mut engine = super::super::create(&TestPlatform(world.clone()), &slow()).unwrap();
    engine.create_table(&table()).unwrap();
    engine.create_index(TABLE, &unique_index()).unwrap();
    engine
}

/// A unique index: loading must never meet two states of a row at once.
fn unique_index() -> IndexDef {
    IndexDef {
        id: INDEX,
        name: "by_value".into(),
        columns: vec![1],
        unique: true,
    }
}

fn is_writing(engine: &TestEngine) -> bool {
    engine.policy.journal.is_writing()
}

/// Commits changes until a checkpoint is being written.
fn fill_until_writing(engine: &mut TestEngine, model: &mut Content) {
    for id in 0.. {
        assert!(id < 3000, "no checkpoint begins");
        engine.begin().unwrap();
        insert(engine, id * 10, id * 10).unwrap();
        engine.commit(Durability::None).unwrap();
        model.insert(id * 10, id * 10);
        if is_writing(engine) {
            return;
        }
    }
}

/// Opens the image of a power cut now, and compares.
fn judge(engine: &mut TestEngine, world: &SimulatedWorld, model: &Content) {
    engine.force().unwrap();
    let mut opened = open(&cut(world)).unwrap();
    assert_eq!(content(&mut opened), *model);
    check(&mut opened);
}

/// One step on a row, where it succeeds in the model.
fn change_one(engine: &mut TestEngine, model: &mut Content, random: &mut Random) {
    let id = random.below(4000).cast_signed();
    let near = model.range(id..).next().map(|(&id, _)| id);
    match (random.below(4), near) {
        (0, Some(id)) => {
            assert!(delete(engine, id).unwrap());
            model.remove(&id);
        }
        (1, Some(id)) => {
            // Values move between rows, so that a mixture of states breaks the unique index.
            let value = 100_000 + random.below(200).cast_signed();
            match update(engine, id, value) {
                Ok(found) => {
                    assert!(found);
                    model.insert(id, value);
                }
                Err(error) => assert!(error.is_statement_error(), "{error}"),
            }
        }
        _ => match insert(engine, id, id) {
            Ok(()) => assert_eq!(model.insert(id, id), None),
            Err(error) => assert!(matches!(error, StorageError::DuplicateKey { .. })),
        },
    }
}

#[test]
fn what_changes_during_a_checkpoint_is_recovered() {
    let (mut written, mut published) = (0, 0);
    for seed in 1..=4 {
        let world = new_world(seed);
        let mut engine = create_slow(&world);
        let mut model = Content::new();
        fill_until_writing(&mut engine, &mut model);
        let mut random = Random(seed);
        for number in 0..400 {
            let mut next = model.clone();
            engine.begin().unwrap();
            for _ in 0..=random.below(3) {
                change_one(&mut engine, &mut next, &mut random);
            }
            let was_writing = is_writing(&engine);
            match random.below(6) {
                0 => engine.abort().unwrap(),
                1 => {
                    engine.prepare(GlobalTxnId(number + 1)).unwrap();
                    engine.abort().unwrap();
                }
                2 => {
                    engine.prepare(GlobalTxnId(number + 1)).unwrap();
                    engine.commit(Durability::Immediate).unwrap();
                    model = next;
                }
                _ => {
                    engine.commit(Durability::Group).unwrap();
                    model = next;
                }
            }
            if was_writing {
                written += 1;
                judge(&mut engine, &world, &model);
            }
            published += u32::from(was_writing && !is_writing(&engine));
        }
        check(&mut engine);
    }
    assert!(written > 100, "{written} transactions during checkpoints");
    assert!(published >= 4, "{published} checkpoints");
}

#[test]
fn tables_and_indexes_come_and_go_during_a_checkpoint() {
    let world = new_world(21);
    let mut engine = create_slow(&world);
    let mut second = table();
    second.id = TableId(1);
    second.name = "second".into();
    engine.create_table(&second).unwrap();
    let mut model = Content::new();
    fill_until_writing(&mut engine, &mut model);
    engine.drop_index(TABLE, INDEX).unwrap();
    judge(&mut engine, &world, &model);
    engine.create_index(TABLE, &index()).unwrap();
    let mut third = second.clone();
    third.id = TableId(2);
    third.name = "third".into();
    engine.create_table(&third).unwrap();
    assert!(is_writing(&engine));
    judge(&mut engine, &world, &model);
    // The checkpoint needs this table, and not the other.
    engine.drop_table(TableId(2)).unwrap();
    assert!(is_writing(&engine));
    engine.drop_table(TableId(1)).unwrap();
    assert!(!is_writing(&engine));
    judge(&mut engine, &world, &model);
    assert_eq!(open(&cut(&world)).unwrap().tables().len(), 1);
}

#[test]
fn an_explicit_checkpoint_takes_the_place_of_one_under_way() {
    let world = new_world(22);
    let mut engine = create_slow(&world);
    let mut model = Content::new();
    fill_until_writing(&mut engine, &mut model);
    engine.checkpoint().unwrap();
    assert!(!is_writing(&engine));
    // Only the log reserve for a full disk is left.
    assert_eq!(engine.footprint().unwrap().log, 2 * (8 << 10));
    let names = disk::Directory::list(&SimulatedDirectory::new(&world)).unwrap();
    assert_eq!(names.len(), 3, "{names:?}");
    judge(&mut engine, &world, &model);
}

#[test]
fn a_full_disk_puts_a_checkpoint_off() {
    let world = new_world(23);
    let mut engine = create_slow(&world);
    let mut model = Content::new();
    fill_until_writing(&mut engine, &mut model);
    let files = SimulatedDirectory::new(&world);
    let log_bytes = engine.footprint().unwrap().log;
    // Room for the present log, and a segment more.
    files.limit_space(Some(log_bytes + (9 << 10)));
    for id in 0..60 {
        engine.begin().unwrap();
        if update(&mut engine, id * 10, 200_000 + id).is_ok_and(|found| found)
            && engine.commit(Durability::Immediate).is_ok()
        {
            model.insert(id * 10, 200_000 + id);
        } else {
            engine.abort().unwrap();
        }
    }
    files.limit_space(None);
    judge(&mut engine, &world, &model);
    let mut random = Random(3);
    let mut published = false;
    for _ in 0..600 {
        let was_writing = is_writing(&engine);
        engine.begin().unwrap();
        change_one(&mut engine, &mut model, &mut random);
        engine.commit(Durability::Group).unwrap();
        published |= was_writing && !is_writing(&engine);
    }
    assert!(published);
    judge(&mut engine, &world, &model);
}

/// A transaction waits for a bounded part of a checkpoint, however large the tables are.
#[test]
fn no_transaction_writes_much_of_a_checkpoint() {
    let world = new_world(24);
    let options = EngineOptions {
        checkpoint_log_bytes: 4 << 20,
        ..slow()
    };
    let mut engine = super::super::create(&TestPlatform(world.clone()), &options).unwrap();
    engine.create_table(&table()).unwrap();
    let mut random = Random(24);
    let layout = engine.tables()[0].layout.clone();
    let mut noise = |length: usize| -> String {
        (0..length)
            .map(|_| char::from(b' ' + random.below(64) as u8))
            .collect()
    };
    let mut most = 0;
    let mut is_done = false;
    for id in 0..8000 {
        let before = engine.status().disk.bytes_written;
        let was_writing = is_writing(&engine);
        let mut row = Row::new(layout.clone());
        row.set(0, id).unwrap();
        row.set(1, id).unwrap();
        row.set(2, noise(1000).as_str()).unwrap();
        engine.begin().unwrap();
        engine.insert(TABLE, &row).unwrap();
        engine.commit(Durability::Immediate).unwrap();
        most = most.max(engine.status().disk.bytes_written - before);
        is_done |= was_writing && !is_writing(&engine);
    }
    assert!(is_done);
    assert!(most < 3 << 19, "a transaction wrote {most} bytes");
}

/// Found by the crash search with seed 16134716492871190884: recovery noted how a prepared
/// transaction had ended, and closed the log with a mark; so the log was long enough for a
/// checkpoint the next time, and the first reader wrote one.
#[test]
fn reading_after_a_recovery_writes_nothing_however_long_the_log_is() {
    let mut lengths = 0;
    for rest in 0..16 {
        let world = new_world(25);
        let mut engine = create(&world);
        for id in 0..60 {
            engine.begin().unwrap();
            insert(&mut engine, id, id).unwrap();
            engine.commit(Durability::Immediate).unwrap();
        }
        engine.begin().unwrap();
        insert(&mut engine, 100, 100).unwrap();
        engine.prepare(GlobalTxnId(7)).unwrap();
        let journal = &engine.policy.journal;
        let options = EngineOptions {
            checkpoint_log_bytes: journal.live_bytes() + rest * 8,
            ..options()
        };
        let mut image = cut(&world);
        for round in 0..3 {
            let stores = image.stores();
            let platform = TestPlatform(image.clone());
            let mut engine = super::super::open(&platform, &options, &|_| false).unwrap();
            assert_eq!(content(&mut engine).len(), 60);
            check(&mut engine);
            lengths +=
                u32::from(engine.policy.journal.live_bytes() >= options.checkpoint_log_bytes);
            drop(engine);
            assert!(
                round == 0 || image.stores() == stores,
                "{rest}: round {round}"
            );
            image = cut(&image);
        }
    }
    assert!(lengths > 10, "the log was never too long");
}

#[test]
fn a_failed_checkpoint_is_told_to_the_next_transaction() {
    let mut told = 0;
    for skipped in (0..160).step_by(8) {
        let world = new_world(26);
        let mut engine = create_slow(&world);
        fill_until_writing(&mut engine, &mut Content::new());
        let files = SimulatedDirectory::new(&world);
        for id in 0..400 {
            if id == skipped {
                files.inject(Fault {
                    call: Call::Sync,
                    nth: 0,
                    repeat: Repeat::Once,
                    effect: Effect::Error(ErrorKind::Other),
                });
            }
            engine.begin().unwrap();
            insert(&mut engine, 50_000 + id, 50_000 + id).unwrap();
            if engine.commit(Durability::None).is_err() {
                // A new segment of the log met the fault, not the checkpoint.
                break;
            }
            if engine.idle().is_err() {
                // Every call returns the reason, however often it is repeated.
                for _ in 0..2 {
                    let error = engine.begin().unwrap_err();
                    let StorageError::Stopped { cause } = &error else {
                        panic!("{error}");
                    };
                    assert!(cause.contains("sync"), "{error}");
                }
                told += 1;
                break;
            }
        }
    }
    assert!(told > 0, "no checkpoint met the fault");
}
