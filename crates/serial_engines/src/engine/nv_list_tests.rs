//! Goal: with the paper's order of fences the undo log is a linked list, as the paper has it.
//!
//! Method: the steps of transactions are counted by their sites on the simulated device, and the
//! power is cut at each fence. Damaged lists are refused, pools of older programs get a list, and
//! deletions work where the heap has no block for an entry.

use super::*;

const PAPER: FenceOrder = FenceOrder::Paper;

/// How often each site of the list was reached.
fn steps(world: &SimulatedWorld) -> [u64; 5] {
    [
        "undo.list-entry",
        "undo.list-entry-fence",
        "undo.list-link",
        "undo.paper-fence",
        "undo.list-empty",
    ]
    .map(|name| {
        let sites = world.sites().into_iter();
        let found = sites.filter(|site| site.name == name);
        found.map(|site| site.executions).max().unwrap_or(0)
    })
}

/// Updates row 1, inserts row 9 and deletes row 2, without an end.
fn three_operations(engine: &mut TestEngine) {
    engine.begin().unwrap();
    update(engine, 1, 8);
    let mut row = Row::new(engine.tables()[0].layout.clone());
    row.set(0, 9_i64).unwrap();
    row.set(1, 9_i64).unwrap();
    engine.insert(TABLE, &row).unwrap();
    let key = key(engine, 2);
    assert!(engine.delete(TABLE, &key).unwrap());
}

fn contents(engine: &mut TestEngine) -> [Option<i64>; 3] {
    [1, 2, 9].map(|id| value(engine, id))
}

const BEFORE: [Option<i64>; 3] = [Some(7), Some(7), None];
const AFTER: [Option<i64>; 3] = [Some(8), None, Some(9)];

#[test]
fn each_operation_appends_an_entry_and_the_end_empties_the_list() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, PAPER);
    insert_all(&mut engine, &[1, 2]);
    for commits in [false, true] {
        let before = steps(&world);
        three_operations(&mut engine);
        if commits {
            engine.commit(Durability::Immediate).unwrap();
        } else {
            engine.abort().unwrap();
        }
        let after = steps(&world);
        let counts = std::array::from_fn(|step| after[step] - before[step]);
        // The update syncs the row; the insertion the row, the index entry, the state of the row's
        // slot and the leaf; the deletion the leaf and the state.
        assert_eq!(counts, [3, 3, 3, 7, 1], "commits: {commits}");
        assert_eq!(contents(&mut engine), if commits { AFTER } else { BEFORE });
    }
    // An update: the entry, the link to it, the change in place, and the end of the list.
    let fences = |engine: &TestEngine| engine.status().memory.fences;
    let before = fences(&engine);
    update_alone(&mut engine, 1, 5);
    assert_eq!(fences(&engine) - before, 4);
}

#[test]
fn a_transaction_is_there_whole_or_not_at_all_wherever_the_power_is_cut() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, PAPER);
    insert_all(&mut engine, &[1, 2]);
    let images = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&images);
    world.observe(move |world, _| {
        let choices = ImageChoices::exhaustive(world, 1000).unwrap();
        let images = choices.map(|choice| world.image(&choice).unwrap());
        seen.lock().unwrap().extend(images);
    });
    three_operations(&mut engine);
    engine.commit(Durability::Immediate).unwrap();
    world.unobserve();
    let mut found = [0, 0];
    for image in std::mem::take(&mut *images.lock().unwrap()) {
        let mut engine = open(&image, PAPER);
        let contents = contents(&mut engine);
        assert!([BEFORE, AFTER].contains(&contents), "{contents:?}");
        assert_eq!(engine.verify().unwrap().damage, [""; 0]);
        found[usize::from(contents == AFTER)] += 1;
    }
    assert!(found[0] > 20 && found[1] > 0, "{found:?}");
}

/// An image with the list of a transaction that has not ended, and where its head lies.
fn open_list() -> (SimulatedWorld, u64) {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, PAPER);
    insert_all(&mut engine, &[1, 2]);
    let old = pool_words(&cut(&world));
    three_operations(&mut engine);
    let image = cut(&world);
    let (at, _) = pool_words(&image)
        .into_iter()
        .zip(old)
        .find(|(new, old)| new != old)
        .expect("the head has changed");
    (image, at.0)
}

/// The words of the log block, with their places.
fn pool_words(image: &SimulatedWorld) -> Vec<(u64, u64)> {
    let arena = arena(image);
    let block = arena.root(LOG_ROOT);
    let bytes = arena.block(block).unwrap().bytes;
    let places = (block..block + bytes).step_by(8);
    places.map(|at| (at, arena.word(at).unwrap())).collect()
}

fn arena(image: &SimulatedWorld) -> Arena<<SimulatedSource as pmem::MemorySource>::Memory> {
    let memory = image.source().open("p0.pool", Access::Write).unwrap();
    Arena::open(memory, "p0.pool".as_ref()).unwrap()
}

fn flip(image: &SimulatedWorld, at: u64) {
    let mut arena = arena(image);
    let word = arena.word(at).unwrap();
    arena.store_word(at, word ^ 1 << 6).unwrap();
}

#[test]
fn a_damaged_list_is_refused() {
    // The low bits of the head are the offset of the first entry.
    let (image, head) = open_list();
    let entry = arena(&image).word(head).unwrap() & ((1 << 47) - 1);
    assert_eq!(contents(&mut open(&image, PAPER)), BEFORE);
    for (at, reason) in [
        (head, "link"),
        (entry, "link"),
        (entry + 8, "not whole"),
        (entry + 32, "not whole"),
    ] {
        let (image, _) = open_list();
        flip(&image, at);
        let opened = NvInPlace::open(&TestPlatform(image), &options(PAPER), &|_| false);
        let error = opened.err().expect("a list is damaged").to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// Earlier programs have the records of the paper's order in slots, as those of the shared one.
#[test]
fn a_pool_without_a_list_is_recovered_and_gets_one() {
    let world = SimulatedWorld::new(WorldOptions::default());
    let mut engine = create(&world, FenceOrder::Shared);
    insert_all(&mut engine, &[1, 2]);
    let closed = cut(&world);
    engine.begin().unwrap();
    update(&mut engine, 1, 8);
    // Reading drains the update: it is in place, and its record in a slot.
    let key = key(&engine, 1);
    let mut row = Row::new(engine.tables()[0].layout.clone());
    assert!(engine.get(TABLE, &key, &mut row).unwrap());
    for image in [closed, cut(&world)] {
        let format = |image: &SimulatedWorld| arena(image).identity().format_version;
        assert_eq!(format(&image), FORMAT);
        let mut engine = open(&image, PAPER);
        assert_eq!(format(&cut(&image)), LIST_FORMAT);
        assert_eq!(contents(&mut engine), BEFORE);
        three_operations(&mut engine);
        // The list decides, whatever order the next opening names.
        assert_eq!(
            contents(&mut open(&cut(&image), FenceOrder::Single)),
            BEFORE
        );
        engine.commit(Durability::Immediate).unwrap();
        assert_eq!(contents(&mut open(&cut(&image), FenceOrder::Single)), AFTER);
    }
}

#[test]
fn deletions_need_no_room_in_the_pool() {
    let world = SimulatedWorld::new(WorldOptions {
        capacity_bytes: 256 << 10,
        ..WorldOptions::default()
    });
    let options = EngineOptions {
        pool_bytes: 256 << 10,
        ..options(PAPER)
    };
    let mut engine = NvInPlace::create(&TestPlatform(world.clone()), &options).unwrap();
    let columns = ["id", "value"].map(|name| Column::new(name, DataType::Int64));
    engine
        .create_table(&TableDef::new(TABLE, "t", columns.to_vec(), vec![0]))
        .unwrap();
    let mut rows = 0;
    loop {
        engine.begin().unwrap();
        let mut row = Row::new(engine.tables()[0].layout.clone());
        row.set(0, rows).unwrap();
        row.set(1, 7_i64).unwrap();
        if engine.insert(TABLE, &row).is_err() {
            engine.abort().unwrap();
            break;
        }
        engine.commit(Durability::Immediate).unwrap();
        rows += 1;
    }
    assert!(rows > 100, "{rows} rows");
    (0..rows).for_each(|id| delete(&mut engine, id));
    let mut engine = open(&cut(&world), PAPER);
    assert_eq!(engine.verify().unwrap().damage, [""; 0]);
    assert!(!holds(&mut engine, rows / 2));
    insert(&mut engine, 1);
}
