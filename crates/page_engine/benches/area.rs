//! Cost of a page that is read from the area of page copies in durable memory
//! (`nvm-dwb-log-opt`), in nanoseconds.
//!
//! *area* is the read itself, with the check of the copy; *pool* is a miss of the buffer pool that
//! ends there, with the choice of a frame. *check* is the checksum alone, of a page in the
//! processor's cache. Few pages stay in that cache (*warm*); many, in random order, are not there
//! (*cold*). Pages of 4 and 8 KiB. Medians of some rounds. Arguments: `--cold-bytes N --path DIR`
//! (a directory in memory).

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has nobody to report to"
)]

use disk::{IoMode, NativeDirectory};
use page_engine::buffer::offsets::first_page;
use page_engine::buffer::{
    CentralLog, Master, NvSlots, PageFile, PageFileOptions, PageReaders, Pool,
};
use page_engine::page::{Header, PageId, PageKind, PageOp, header};
use pmem::{Access, NativeOptions, NativeSource, Primitive};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;
use storage::engine::Guard;
use storage::log::{LogIdentity, LogStart, Lsn, WalOptions};

const IDENTITY: LogIdentity = LogIdentity {
    database: 1,
    partition: 0,
};
/// Bytes of pages that stay in the processor's last cache, and are many times those of the pool.
const WARM_BYTES: usize = 4 << 20;
/// Of the pool: it has the fewest frames.
const POOL_BYTES: u64 = 0;
const ROUNDS: usize = 9;
const READS: usize = 40_000;

struct Arguments {
    cold_bytes: usize,
    path: PathBuf,
}

fn arguments() -> Arguments {
    let mut arguments = Arguments {
        cold_bytes: 512 << 20,
        path: PathBuf::from(format!("/dev/shm/indelible-area-{}", std::process::id())),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("the option has a value");
        match word.as_str() {
            "--cold-bytes" => arguments.cold_bytes = value().parse().unwrap(),
            "--path" => arguments.path = value().into(),
            _ => {}
        }
    }
    arguments
}

fn page(id: PageId, bytes: usize) -> Vec<u8> {
    let mut page = vec![0; bytes];
    let format = PageOp::Format {
        kind: PageKind::Leaf,
        level: 0,
        key_words: 1,
        link: PageId(0),
    };
    format.apply(&mut page, id).unwrap();
    header::seal(&mut page);
    page
}

/// A file of pages that has none of them at home: all are in the area.
fn file(path: &Path, page_bytes: usize, pages: usize) -> PageFile<NativeDirectory> {
    let options = PageFileOptions {
        identity: IDENTITY,
        access: Access::Write,
        guard: Guard::NvPageCache,
    };
    let memories = NativeSource::new(
        path,
        NativeOptions {
            primitive: Some(Primitive::Flush),
            ..NativeOptions::default()
        },
    );
    let area_bytes = (pages * (page_bytes + page_bytes / 16)) as u64;
    let slots = NvSlots::create(&memories, IDENTITY, page_bytes, area_bytes).unwrap();
    let master = Master {
        generation: 0,
        page_bytes: page_bytes as u32,
        guard: Guard::NvPageCache.code(),
        start: LogStart::NEW,
        redo: LogStart::NEW.lsn,
        next_txn: 1,
        catalogue: PageId(0),
        pages: 0,
    };
    let directory = NativeDirectory::open(path, IoMode::Buffered).unwrap();
    let mut file =
        PageFile::create(&directory, &options, master, &[], Some(Box::new(slots))).unwrap();
    let first = first_page(page_bytes).0;
    file.grow(first + pages as u32).unwrap();
    let all: Vec<u32> = (first..first + pages as u32).collect();
    for some in all.chunks(64) {
        let ids: Vec<PageId> = some.iter().map(|&number| PageId(number)).collect();
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| page(id, page_bytes)).collect();
        file.write(&ids, &bytes).unwrap();
    }
    file
}

fn log(path: &Path) -> CentralLog<NativeDirectory> {
    let directory = NativeDirectory::open(path, IoMode::Buffered).unwrap();
    let found = &mut |_: Lsn, _: &[u8]| Ok(());
    let (options, start) = (WalOptions::default(), LogStart::NEW);
    CentralLog::open(
        Access::Write,
        directory,
        IDENTITY,
        options,
        start,
        found,
        None,
    )
    .unwrap()
}

/// Nanoseconds of one of [`READS`] calls, each with a page drawn at random: the median of some
/// rounds.
fn median_ns(pages: usize, first: u32, mut read: impl FnMut(PageId)) -> f64 {
    let mut state = 7_u64;
    let mut rounds: Vec<f64> = (0..=ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..READS {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                read(PageId(first + ((state >> 33) % pages as u64) as u32));
            }
            start.elapsed().as_nanos() as f64 / READS as f64
        })
        .collect();
    // The first round brings things into caches.
    rounds.remove(0);
    rounds.sort_unstable_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn measure(arguments: &Arguments, page_bytes: usize, bytes: usize, memory: &str) {
    std::fs::create_dir_all(&arguments.path).unwrap();
    let pages = bytes / page_bytes;
    let file = file(&arguments.path, page_bytes, pages);
    let first = first_page(page_bytes).0;
    let readers: PageReaders<_> = file.readers().unwrap();
    let mut out = vec![0; page_bytes];
    let area = median_ns(pages, first, |id| {
        assert!(readers.read(id, &mut out).unwrap());
    });
    let id = PageId(first);
    assert!(readers.read(id, &mut out).unwrap());
    let check = median_ns(1, first, |id| {
        assert!(Header(black_box(&out)).is_intact(id));
    });
    let pool = Pool::new(file, Box::new(log(&arguments.path)), POOL_BYTES).unwrap();
    let before = pool.readers().write_back().area().pages_from_area;
    let of_pool = median_ns(pages, first, |id| {
        black_box(pool.read(id).unwrap().bytes());
    });
    let after = pool.readers().write_back().area().pages_from_area;
    // A page that is still in its frame is no read of the area.
    let reads = ((ROUNDS + 1) * READS) as f64;
    let share = (after - before) as f64 / reads;
    println!(
        "{:>4} KiB  {memory}  area {area:>6.0} ns  pool {of_pool:>6.0} ns ({:.0} % from the area)  check {check:>5.0} ns",
        page_bytes >> 10,
        share * 100.0
    );
    drop(pool);
    std::fs::remove_dir_all(&arguments.path).unwrap();
}

fn main() {
    let arguments = arguments();
    for page_bytes in [4096, 8192] {
        measure(&arguments, page_bytes, WARM_BYTES, "warm");
        measure(&arguments, page_bytes, arguments.cold_bytes, "cold");
    }
}
