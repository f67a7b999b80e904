//! Engine operations without a database around them: one partition a thread, in shared memory.
//!
//! Prints operations a second of processor time for reads, one-column updates and inserts, the time
//! of an opening with the records that it replays, and, from the same run, what a plain `BTreeMap`
//! of boxed rows does. Arguments:
//! `--rows N --threads N --seconds S --layout together|separate --method M --primitives P`.

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has nobody to report to"
)]

use disk::{IoMode, NativeDirectory};
use engines::{create, open};
use pmem::{NativeOptions, NativeSource, Primitive};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use storage::Platform;
use storage::engine::{Durability, Engine, EngineOptions, Method};
use storage::record::{
    Changes, Column, DataType, KeyBuf, LayoutKind, Row, TableDef, TableId, Value,
};

struct Native {
    path: PathBuf,
    options: NativeOptions,
}

impl Platform for Native {
    type Memories = NativeSource;
    type Files = NativeDirectory;
    fn memories(&self, _partition: u32) -> NativeSource {
        NativeSource::new(&self.path, self.options)
    }
    fn files(&self, _partition: u32) -> disk::Result<NativeDirectory> {
        NativeDirectory::open(&self.path, IoMode::Buffered)
    }
}

struct Arguments {
    rows: u64,
    threads: u32,
    seconds: f64,
    layout: LayoutKind,
    method: Method,
    primitive: Option<Primitive>,
}

fn arguments() -> Arguments {
    let mut arguments = Arguments {
        rows: 1_000_000,
        threads: 2,
        seconds: 2.0,
        layout: LayoutKind::Together,
        method: Method::NvmInp,
        primitive: Some(Primitive::Flush),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("the option has a value");
        match word.as_str() {
            "--rows" => arguments.rows = value().parse().unwrap(),
            "--threads" => arguments.threads = value().parse().unwrap(),
            "--seconds" => arguments.seconds = value().parse().unwrap(),
            "--layout" if value() == "separate" => arguments.layout = LayoutKind::Separate,
            "--method" => arguments.method = value().parse().unwrap(),
            "--primitives" if value() == "process" => arguments.primitive = None,
            _ => {}
        }
    }
    arguments
}

const TABLE: TableId = TableId(1);
const COLUMNS: usize = 10;
const COLUMN_BYTES: u32 = 100;

fn table() -> TableDef {
    let mut columns = vec![Column::new("key", DataType::Int64)];
    for number in 0..COLUMNS {
        columns.push(Column::new(
            format!("field{number}"),
            DataType::Char {
                length: COLUMN_BYTES,
            },
        ));
    }
    TableDef::new(TABLE, "usertable", columns, vec![0])
}

fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) ^ (*state << 20) >> 40
}

/// Half of the accesses to a fifth of the rows.
fn pick(state: &mut u64, rows: u64) -> u64 {
    let hot = rows / 5;
    if random(state).is_multiple_of(2) {
        random(state) % hot
    } else {
        hot + random(state) % (rows - hot)
    }
}

fn main() {
    let arguments = arguments();
    let path = PathBuf::from(format!("/dev/shm/indelible-bench-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    let options = NativeOptions {
        primitive: arguments.primitive,
        ..NativeOptions::default()
    };
    let platform = Arc::new(Native {
        path: path.clone(),
        options,
    });
    let barrier = Arc::new(Barrier::new(arguments.threads as usize));
    let arguments = Arc::new(arguments);
    let threads: Vec<_> = (0..arguments.threads)
        .map(|partition| {
            let (platform, barrier) = (Arc::clone(&platform), Arc::clone(&barrier));
            let arguments = Arc::clone(&arguments);
            std::thread::spawn(move || run(&platform, partition, &arguments, &barrier))
        })
        .collect();
    let results: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    for (number, (name, _)) in results[0].iter().enumerate() {
        let sum: f64 = results.iter().map(|result| result[number].1).sum();
        println!("{name:24} {sum:14.0}");
    }
    std::fs::remove_dir_all(&path).unwrap();
}

type Results = Vec<(&'static str, f64)>;

fn run(platform: &Native, partition: u32, arguments: &Arguments, barrier: &Barrier) -> Results {
    let options = EngineOptions {
        partition,
        layout: arguments.layout,
        ..EngineOptions::default()
    };
    let mut engine = create(platform, arguments.method, &options).unwrap();
    engine.idle().unwrap().create_table(&table()).unwrap();
    let layout = Arc::clone(&engine.tables()[0].layout);
    let mut results = Results::new();
    barrier.wait();
    let start = Instant::now();
    load(&mut *engine, &layout, arguments.rows);
    results.push((
        "load rows/s",
        arguments.rows as f64 / start.elapsed().as_secs_f64(),
    ));
    barrier.wait();
    let mut state = u64::from(partition) + 1;
    let mut row = Row::new(Arc::clone(&layout));
    let mut key = KeyBuf::new();
    let rows = arguments.rows;
    results.push((
        "reads/s",
        measure(arguments.seconds, || {
            key.resized(1)[0] = pick(&mut state, rows) ^ 1 << 63;
            engine.begin().unwrap();
            assert!(engine.get(TABLE, &key, &mut row).unwrap());
            engine.commit(Durability::Immediate).unwrap();
        }),
    ));
    barrier.wait();
    let mut changes = Changes::new(layout);
    let text = "u".repeat(COLUMN_BYTES as usize);
    let before = engine.status().memory;
    let mut count = 0_u64;
    results.push((
        "updates/s",
        measure(arguments.seconds, || {
            count += 1;
            key.resized(1)[0] = pick(&mut state, rows) ^ 1 << 63;
            changes.clear();
            changes
                .set(
                    1 + (random(&mut state) % COLUMNS as u64) as usize,
                    text.as_str(),
                )
                .unwrap();
            engine.begin().unwrap();
            assert!(engine.update(TABLE, &key, &changes).unwrap());
            engine.commit(Durability::Immediate).unwrap();
        }),
    ));
    if partition == 0 {
        print_costs(&mut *engine, &before, count);
    }
    barrier.wait();
    drop(engine);
    let start = Instant::now();
    let reopened = open(platform, arguments.method, &options, &|_| false).unwrap();
    results.push(("open, microseconds", start.elapsed().as_secs_f64() * 1e6));
    let replayed = reopened.status().recovery_replayed;
    results.push(("replayed by the opening", replayed as f64));
    drop(reopened);
    barrier.wait();
    baseline(arguments, &mut results, &mut state, barrier);
    results
}

/// Cost of an update on the device, and space of the rows.
fn print_costs(engine: &mut dyn Engine, before: &pmem::Counters, count: u64) {
    let after = engine.status().memory;
    let each = |after: u64, before: u64| (after - before) as f64 / count as f64;
    println!(
        "per update: {:.2} fences, {:.2} lines flushed, {:.1} bytes streamed, {:.1} bytes stored",
        each(after.fences, before.fences),
        each(after.total().lines_flushed, before.total().lines_flushed),
        each(after.total().bytes_streamed, before.total().bytes_streamed),
        each(after.total().bytes_stored, before.total().bytes_stored),
    );
    println!("footprint {:?}", engine.footprint().unwrap());
}

fn load(engine: &mut dyn Engine, layout: &Arc<storage::record::TupleLayout>, rows: u64) {
    let mut row = Row::new(Arc::clone(layout));
    let text = "x".repeat(COLUMN_BYTES as usize);
    for column in 1..=COLUMNS {
        row.set(column, text.as_str()).unwrap();
    }
    for key in 0..rows {
        row.set(0, Value::Int64(key.cast_signed()).as_ref())
            .unwrap();
        engine.begin().unwrap();
        engine.insert(TABLE, &row).unwrap();
        engine.commit(Durability::Immediate).unwrap();
    }
}

/// The same accesses to a map of boxed kilobyte rows.
fn baseline(arguments: &Arguments, results: &mut Results, state: &mut u64, barrier: &Barrier) {
    let mut map: BTreeMap<i64, Box<[u8; 1008]>> = BTreeMap::new();
    for key in 0..arguments.rows {
        map.insert(key.cast_signed(), Box::new([7; 1008]));
    }
    barrier.wait();
    let mut out = [0_u8; 1008];
    let rows = arguments.rows;
    results.push((
        "map reads/s",
        measure(arguments.seconds, || {
            out.copy_from_slice(&map[&pick(state, rows).cast_signed()][..]);
            std::hint::black_box(&out);
        }),
    ));
    barrier.wait();
    results.push((
        "map updates/s",
        measure(arguments.seconds, || {
            let row = map.get_mut(&pick(state, rows).cast_signed()).unwrap();
            let column = 8 + (random(state) % COLUMNS as u64) as usize * COLUMN_BYTES as usize;
            row[column..column + COLUMN_BYTES as usize].fill(b'u');
        }),
    ));
}

/// Operations a second of the thread's own time on a processor, which other load on the machine
/// disturbs least.
fn measure(seconds: f64, mut operation: impl FnMut()) -> f64 {
    let limit = Duration::from_secs_f64(seconds);
    let start = Instant::now();
    let start_cpu = thread_seconds();
    let mut count = 0_u64;
    while start.elapsed() < limit {
        for _ in 0..256 {
            operation();
        }
        count += 256;
    }
    count as f64 / (thread_seconds() - start_cpu)
}

/// Seconds that this thread has run, as the scheduler counts them.
fn thread_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}
