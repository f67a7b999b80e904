//! Counts and times of an emulated memory, on exact small access patterns.
//!
//! Time is virtual, so sums of delays are compared for equality. The wrapped memory is a native
//! one, which holds the bytes.

use super::*;
use crate::device::{Counters, Memory, NativeMemory, NativeSource, PageSize, Part, PartCounters};
use crate::site;

const POOL_BYTES: u64 = 1 << 20;
const LINE: u64 = 64;
/// Time of one line at 9.5 GB/s, in ps.
const LINE_PS: u64 = 6736;

type TestMemory = EmulatedMemory<NativeMemory>;

fn options(profile: Profile) -> EmulationOptions {
    EmulationOptions {
        cache_bytes: 64 * LINE,
        cache_ways: 4,
        clock: ClockChoice::Virtual,
        ..EmulationOptions::new(profile)
    }
}

fn emulator(profile: Profile) -> Emulator {
    Emulator::new(options(profile)).unwrap()
}

fn native() -> NativeMemory {
    NativeMemory::volatile(POOL_BYTES, PageSize::default()).unwrap()
}

fn durable(emulator: &Emulator) -> TestMemory {
    EmulatedMemory::durable(native(), emulator).unwrap()
}

fn part(counters: &Counters, part: Part) -> PartCounters {
    counters.parts[part as usize]
}

fn serial_misses_and_loads(memory: &TestMemory) -> (u64, u64) {
    let counters = memory.counters();
    (counters.serial_misses, counters.total().loads)
}

#[test]
fn a_range_costs_one_latency_and_its_bandwidth() {
    let emulator = emulator(Profile::LOW);
    let memory = durable(&emulator);
    memory.load(32, 1024); // 17 lines
    assert_eq!(serial_misses_and_loads(&memory), (1, 17));
    assert_eq!(emulator.clock().now_ns(), (160_000 + 17 * LINE_PS) / 1000);
    memory.load(0, 1088);
    assert_eq!(
        serial_misses_and_loads(&memory),
        (1, 17),
        "all of it is in the cache"
    );
    memory.load(1080, 16);
    assert_eq!(
        serial_misses_and_loads(&memory),
        (2, 18),
        "the second line was missing"
    );
    let injected = emulator.injected();
    assert_eq!(injected.latency_ns, 2 * 160);
    assert_eq!(injected.bandwidth_ns, 18 * LINE_PS / 1000);
    assert_eq!(injected.total_ns(), emulator.clock().now_ns());
    memory.load(0, 0);
    assert_eq!(
        serial_misses_and_loads(&memory),
        (2, 18),
        "no bytes, no line"
    );
}

#[test]
fn free_loads_are_not_counted_and_take_no_time() {
    let emulator = Emulator::new(EmulationOptions {
        loads: Loads::Free,
        ..options(Profile::LOW)
    });
    let emulator = emulator.unwrap();
    let mut memory = durable(&emulator);
    assert!(!memory.counts_loads() && durable(&self::emulator(Profile::LOW)).counts_loads());
    memory.load(0, 1024);
    memory.prefetch(2048, 64);
    memory.load_each(&mut [(4096, 64)].into_iter());
    assert_eq!(serial_misses_and_loads(&memory), (0, 0));
    assert_eq!(emulator.clock().now_ns(), 0);
    // A line that is stored to is brought in all the same.
    memory.store(64, &[1; 8]);
    assert_eq!(serial_misses_and_loads(&memory), (0, 1));
}

#[test]
fn ranges_together_cost_what_they_cost_one_after_the_other() {
    let ranges = [
        (32, 1024),
        (0, 64),
        (4096, 8),
        (4100, 4),
        (9000, 200),
        (40, 8),
    ];
    let charged = |together: bool| {
        let emulator = emulator(Profile::LOW);
        let memory = durable(&emulator);
        if together {
            memory.load_each(&mut ranges.into_iter());
        } else {
            for (offset, bytes) in ranges {
                memory.load(offset, bytes);
            }
        }
        (memory.counters(), emulator.clock().now_ns())
    };
    let (counters, ns) = charged(true);
    assert_eq!(
        (counters.serial_misses, counters.total().loads),
        (3, 17 + 1 + 4)
    );
    assert_eq!((counters, ns), charged(false));
}

#[test]
fn added_time_is_serial_misses_times_added_latency() {
    for (profile, added_ns) in [
        (Profile::DRAM, 0),
        (Profile::LOW, 160),
        (Profile::HIGH, 1120),
    ] {
        let emulator = emulator(profile);
        let memory = durable(&emulator);
        for line in 0..1000 {
            memory.load(line * 7919 % (POOL_BYTES / LINE) * LINE, 8);
        }
        let misses = memory.counters().serial_misses;
        assert!(misses > 900);
        assert_eq!(
            emulator.injected().latency_ns,
            misses * added_ns,
            "{profile}"
        );
    }
}

#[test]
fn prefetched_ranges_share_one_latency() {
    let emulator = emulator(Profile {
        bandwidth: None,
        ..Profile::HIGH
    });
    let memory = durable(&emulator);
    for range in 0..4 {
        memory.prefetch(range * 1024, 128);
    }
    assert_eq!(
        (serial_misses_and_loads(&memory), emulator.clock().now_ns()),
        ((0, 8), 0)
    );
    for range in 0..4 {
        memory.load(range * 1024, 128);
    }
    assert_eq!(
        (serial_misses_and_loads(&memory), emulator.clock().now_ns()),
        ((1, 8), 1120)
    );
    // A latency that something else takes covers the prefetch too.
    memory.prefetch(8192, 8);
    memory.load(9216, 8);
    memory.load(8192, 8);
    assert_eq!(serial_misses_and_loads(&memory), (2, 10));
    // Bytes in the cache already have nothing to wait for.
    memory.prefetch(8192, 8);
    memory.load(8192, 8);
    assert_eq!(serial_misses_and_loads(&memory), (2, 10));
}

#[test]
fn only_so_many_prefetches_overlap() {
    let emulator = emulator(Profile::COUNT);
    let memory = durable(&emulator);
    for line in 0..17 {
        memory.prefetch(line * LINE, 8);
    }
    assert_eq!(
        serial_misses_and_loads(&memory),
        (1, 17),
        "the seventeenth was waited for"
    );
    memory.load(0, 17 * 64);
    assert_eq!(serial_misses_and_loads(&memory), (1, 17));
}

#[test]
fn stores_read_their_line_and_write_it_once() {
    let emulator = emulator(Profile::COUNT);
    let mut memory = durable(&emulator);
    memory.enter(Part::Table);
    memory.store(100, b"persistent"); // lines 1
    memory.store_word(120, 7); // line 1 again
    memory.store(190, &[1; 4]); // lines 2 and 3
    let expected = PartCounters {
        loads: 3,
        bytes_stored: 22,
        ..PartCounters::default()
    };
    assert_eq!(part(&memory.counters(), Part::Table), expected);
    memory.enter(Part::Log);
    // Lines 1 to 4, of which 4 was never touched.
    memory.flush(64, 256, site!("emulated-test.flush"));
    memory.fence(site!("emulated-test.fence")).unwrap();
    let counters = memory.counters();
    assert_eq!(
        part(&counters, Part::Table).stores,
        3,
        "who made a line dirty wrote it"
    );
    assert_eq!(
        part(&counters, Part::Log),
        PartCounters {
            lines_flushed: 4,
            ..PartCounters::default()
        }
    );
    assert_eq!((counters.fences, counters.serial_misses), (1, 0));
    memory.flush(64, 192, site!("emulated-test.flush-again"));
    assert_eq!(
        memory.counters().total().stores,
        3,
        "clean lines are not written"
    );
    memory.load(64, 192);
    assert_eq!(memory.counters().serial_misses, 0, "a flushed line stays");
}

#[test]
fn an_evicting_flush_makes_the_next_load_miss() {
    let options = EmulationOptions {
        flush_effect: FlushEffect::EvictsLine,
        ..options(Profile::COUNT)
    };
    let mut memory = durable(&Emulator::new(options).unwrap());
    memory.store_word(0, 1);
    memory.flush(0, 8, site!("emulated-test.evict"));
    memory.load(0, 8);
    assert_eq!(serial_misses_and_loads(&memory), (1, 2));
    assert_eq!(memory.counters().total().stores, 1);
}

#[test]
fn evictions_write_dirty_lines_for_who_stored_them() {
    let emulator = emulator(Profile::COUNT);
    let mut first = durable(&emulator);
    let second = durable(&emulator);
    first.enter(Part::Index);
    first.store_word(0, 1);
    for line in 0..64 {
        second.load(line * LINE, 8);
    }
    assert_eq!(part(&first.counters(), Part::Index).stores, 1);
    assert_eq!(second.counters().total().stores, 0);
    assert_eq!(emulator.counters().total().stores, 1);
    assert_eq!(emulator.counters().total().loads, 65);
}

#[test]
fn streaming_bypasses_the_cache() {
    let emulator = emulator(Profile::COUNT);
    let mut memory = durable(&emulator);
    memory.enter(Part::Log);
    memory.stream(0, &[1; 128], site!("emulated-test.stream"));
    let counts = part(&memory.counters(), Part::Log);
    assert_eq!(
        (counts.loads, counts.stores, counts.bytes_streamed),
        (0, 2, 128)
    );
    assert_eq!(
        counts.bytes_stored, 128,
        "streaming is storing, on every device"
    );
    // Words of one line join on their way.
    for word in 0..8 {
        memory.stream(128 + word * 8, &[2; 8], site!("emulated-test.stream-words"));
    }
    assert_eq!(part(&memory.counters(), Part::Log).stores, 3);
    memory.stream(192, &[3; 8], site!("emulated-test.stream-part"));
    memory.fence(site!("emulated-test.stream-fence")).unwrap();
    memory.stream(200, &[3; 8], site!("emulated-test.stream-rest"));
    assert_eq!(
        part(&memory.counters(), Part::Log).stores,
        5,
        "a fence sends the line on"
    );
    // A dirty line is written first, unless all of it is replaced.
    memory.store_word(256, 1);
    memory.store_word(320, 1);
    memory.stream(264, &[4; 8], site!("emulated-test.stream-dirty"));
    memory.stream(320, &[4; 64], site!("emulated-test.stream-whole"));
    assert_eq!(part(&memory.counters(), Part::Log).stores, 8);
    memory.store_line(384, &[5; 64], site!("emulated-test.line"));
    assert_eq!(part(&memory.counters(), Part::Log).stores, 9);
}

#[test]
fn a_fence_waits_for_queued_writes() {
    let profile = Profile {
        write_ns: 500,
        fence_ns: 40,
        ..Profile::DRAM
    };
    let emulator = emulator(profile);
    let mut memory = durable(&emulator);
    memory.store(0, &[1; 192]);
    memory.flush(0, 192, site!("emulated-test.queue"));
    assert_eq!(emulator.clock().now_ns(), 0, "write-backs are asynchronous");
    emulator.clock().wait_ns(100); // work in between overlaps with them
    memory.fence(site!("emulated-test.drain")).unwrap();
    assert_eq!(emulator.clock().now_ns(), 3 * 500 + 40);
    assert_eq!(emulator.injected().fence_ns, 3 * 500 + 40 - 100);
    memory.fence(site!("emulated-test.idle")).unwrap();
    assert_eq!(emulator.clock().now_ns(), 3 * 500 + 2 * 40);
    memory.stream(4096, &[1; 640], site!("emulated-test.bulk"));
    memory.fence(site!("emulated-test.bulk-drain")).unwrap();
    assert_eq!(
        emulator.clock().now_ns(),
        4 * 500 + 3 * 40,
        "streamed lines overlap"
    );
}

/// Runs `work` in a thread of its own.
fn apart<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|threads| threads.spawn(work).join().unwrap())
}

/// Flushes lines of a new memory, and lets `between` happen before the fence; returns the time of
/// the fence.
fn flush_and_fence(emulator: &Emulator, lines: u64, between: impl FnOnce()) -> u64 {
    let mut memory = durable(emulator);
    let bytes = vec![1; (lines * LINE) as usize];
    memory.store(0, &bytes);
    memory.flush(0, bytes.len(), site!("emulated-test.thread-flush"));
    between();
    let before_ns = emulator.clock().now_ns();
    memory.fence(site!("emulated-test.thread-fence")).unwrap();
    emulator.clock().now_ns() - before_ns
}

#[test]
fn a_fence_waits_for_the_flushes_of_its_own_thread() {
    let profile = Profile {
        write_ns: 1000,
        ..Profile::DRAM
    };
    let emulator = emulator(profile);
    let mut other_ns = 0;
    let own_ns = flush_and_fence(&emulator, 10, || {
        other_ns = apart(|| flush_and_fence(&emulator, 1, || ()));
    });
    // The other thread's fence has let a microsecond pass.
    assert_eq!((other_ns, own_ns), (1000, 9000));
    let both = emulator.counters();
    assert_eq!((both.fences, both.total().lines_flushed), (2, 11));
}

#[test]
fn a_barrier_is_paid_once_by_the_thread_that_issues_it() {
    let options = EmulationOptions {
        sync_latency_ns: Some(10_000),
        ..options(Profile::DRAM)
    };
    let emulator = Emulator::new(options).unwrap();
    let mut other_ns = 0;
    let own_ns = flush_and_fence(&emulator, 1, || {
        other_ns = apart(|| flush_and_fence(&emulator, 1, || ()));
        // A thread that has flushed nothing pays nothing.
        let idle_ns = apart(|| flush_and_fence(&emulator, 0, || ()));
        assert_eq!(idle_ns, 0);
    });
    assert_eq!((other_ns, own_ns), (10_000, 10_000));
    assert_eq!(emulator.injected().fence_ns, 20_000);
}

#[test]
fn prefetches_and_open_lines_belong_to_a_thread() {
    let emulator = emulator(Profile {
        bandwidth: None,
        ..Profile::LOW
    });
    let mut memory = durable(&emulator);
    memory.prefetch(0, 8);
    memory.stream(4096, &[1; 8], site!("emulated-test.thread-stream"));
    apart(|| {
        let mut other = durable(&emulator);
        other.load(8192, 8);
        other.stream(4096, &[1; 8], site!("emulated-test.other-stream"));
    });
    assert_eq!(emulator.counters().serial_misses, 1);
    memory.load(0, 8);
    assert_eq!(
        emulator.counters().serial_misses,
        2,
        "the other thread's wait did not cover the prefetch"
    );
    memory.stream(4104, &[1; 8], site!("emulated-test.thread-joins"));
    assert_eq!(emulator.counters().total().stores, 2);
}

#[test]
fn a_line_that_another_thread_has_brought_in_is_there() {
    let emulator = emulator(Profile::LOW);
    let memory = durable(&emulator);
    let memory = apart(move || {
        memory.load(0, 4096);
        memory
    });
    memory.load(0, 4096);
    assert_eq!(serial_misses_and_loads(&memory), (1, 64));
}

#[test]
fn blocks_are_transferred_whole_and_near_reads_are_shorter() {
    let emulator = emulator(Profile {
        read_ns: 360,
        near_read_ns: Some(200),
        bandwidth: Some(6_400_000_000),
        write_bandwidth: Some(1_280_000_000),
        block_bytes: 256,
        ..Profile::DRAM
    });
    let mut memory = durable(&emulator);
    let mut before_ns = 0;
    let mut took_ns = || {
        let now_ns = emulator.clock().now_ns();
        now_ns - std::mem::replace(&mut before_ns, now_ns)
    };
    memory.load(0, 8);
    assert_eq!(took_ns(), 200 + 40, "256 bytes at 6.4 GB/s");
    memory.load(64, 8);
    assert_eq!(took_ns(), 40, "the block is near, and has been transferred");
    memory.load(1024, 8);
    memory.load(0, 256);
    assert_eq!(took_ns(), 2 * (200 + 40));
    // Four lines of one block, and one of another: five times as long to write as to read.
    memory.store(0, &[1; 256]);
    memory.store(1024, &[1; 8]);
    memory.flush(0, 256, site!("emulated-test.block-flush"));
    memory.flush(1024, 8, site!("emulated-test.other-block-flush"));
    memory.fence(site!("emulated-test.block-fence")).unwrap();
    assert_eq!(took_ns(), 2 * 200);
    let total = memory.counters().total();
    assert_eq!((total.loads, total.stores), (5, 5), "lines are counted");
}

#[test]
fn the_models_own_time_is_measured_where_time_is_real() {
    let calls = |clock| {
        let emulator = Emulator::new(EmulationOptions {
            clock,
            ..options(Profile::HIGH)
        });
        let emulator = emulator.unwrap();
        let memory = durable(&emulator);
        let before = emulator.model_time();
        let start = std::time::Instant::now();
        for line in 0..2000 {
            memory.load(line * 7919 % (POOL_BYTES / LINE) * LINE, 8);
        }
        let took_ns = start.elapsed().as_nanos() as f64;
        (emulator.model_time().since(&before), took_ns)
    };
    let (model, took_ns) = calls(ClockChoice::Real);
    assert_eq!(model.calls(), 2000);
    // Each load waits for more than a microsecond, which is not the model's own time.
    assert!(model.ns() > 0.0 && model.error_ns() > 0.0, "{model:?}");
    assert!(
        model.ns() < took_ns - 1900.0 * 1120.0,
        "{model:?} {took_ns}"
    );
    assert!(calls(ClockChoice::Virtual).0.ns() <= 0.0);
}

#[test]
fn a_sync_costs_what_was_asked_for() {
    let options = EmulationOptions {
        sync_latency_ns: Some(10_000),
        ..options(Profile {
            write_ns: 500,
            fence_ns: 40,
            ..Profile::DRAM
        })
    };
    let emulator = Emulator::new(options).unwrap();
    let mut memory = durable(&emulator);
    memory.store(0, &[1; 128]);
    memory.flush(0, 128, site!("emulated-test.sync-flush"));
    memory.fence(site!("emulated-test.sync")).unwrap();
    memory.fence(site!("emulated-test.sync-nothing")).unwrap();
    assert_eq!(emulator.clock().now_ns(), 10_000);
    assert_eq!(memory.counters().fences, 2);
}

#[test]
fn posted_stores_are_throttled() {
    let emulator = emulator(Profile {
        read_ns: DRAM_READ_NS,
        ..Profile::LOW
    });
    let mut memory = durable(&emulator);
    let lines = POOL_BYTES / LINE;
    for line in 0..lines {
        memory.store_word(line * LINE, line);
    }
    // Each line is read once, and all but the 64 that fit the cache are written back; 64 lines may
    // be outstanding.
    let transferred = lines + lines - 64;
    assert_eq!(
        emulator.clock().now_ns(),
        (transferred - 64) * LINE_PS / 1000
    );
    memory.flush(0, POOL_BYTES as usize, site!("emulated-test.flush-all"));
    memory.fence(site!("emulated-test.fence-all")).unwrap();
    assert_eq!(emulator.clock().now_ns(), 2 * lines * LINE_PS / 1000);
    assert_eq!(memory.counters().total().stores, lines);
}

#[test]
fn volatile_memories_are_counted_but_not_fenced() {
    let emulator = emulator(Profile {
        write_ns: 500,
        fence_ns: 40,
        ..Profile::LOW
    });
    let mut memory = EmulatedMemory::volatile(native(), &emulator).unwrap();
    memory.store_word(0, 1);
    memory.flush(0, 8, site!("emulated-test.volatile-flush"));
    memory.fence(site!("emulated-test.volatile-fence")).unwrap();
    memory.load(4096, 8);
    let counters = memory.counters();
    assert_eq!((counters.fences, counters.total().lines_flushed), (0, 0));
    assert_eq!(
        (
            counters.serial_misses,
            counters.total().loads,
            counters.total().stores
        ),
        (1, 2, 0)
    );
    assert_eq!(emulator.injected().fence_ns, 0);
}

#[test]
fn the_same_accesses_give_the_same_counts_wherever_and_whenever() {
    let run = |profile: &str, clock: ClockChoice| {
        let options = EmulationOptions {
            clock,
            ..options(profile.parse().unwrap())
        };
        let emulator = Emulator::new(options).unwrap();
        let padding = native(); // another mapping, so that addresses differ
        let mut memory = durable(&emulator);
        let mut seed = 42_u64;
        for _ in 0..20_000 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let offset = ((seed >> 33) % (POOL_BYTES / 16 - 256)) & !7;
            memory.enter(Part::ALL[(seed >> 20) as usize % 5]);
            match seed >> 60 {
                0..=7 => memory.load(offset, 200),
                8..=9 => memory.prefetch(offset, 100),
                10..=12 => memory.store(offset, &[3; 90]),
                13 => memory.stream(offset, &[4; 64], site!("emulated-test.random-stream")),
                14 => memory.flush(offset, 200, site!("emulated-test.random-flush")),
                _ => memory.fence(site!("emulated-test.random-fence")).unwrap(),
            }
        }
        drop(padding);
        emulator.counters()
    };
    let expected = run("count", ClockChoice::Virtual);
    assert!(expected.serial_misses > 1000 && expected.total().stores > 1000);
    assert_eq!(run("count", ClockChoice::Real), expected);
    assert_eq!(run("high,write=100", ClockChoice::Virtual), expected);
    assert_eq!(run("low,fence=10", ClockChoice::Real), expected);
}

#[test]
fn wear_names_the_hottest_line() {
    let options = EmulationOptions {
        wear_map: WearMap::On,
        ..options(Profile::COUNT)
    };
    let emulator = Emulator::new(options).unwrap();
    let mut memory = durable(&emulator);
    for (offset, times) in [(0, 1), (70_016, 3), (70_080, 2)] {
        for round in 0..times {
            memory.store_word(offset, round);
            memory.flush(offset, 8, site!("emulated-test.wear"));
        }
    }
    let wear = emulator.wear().unwrap();
    assert_eq!(wear.regions.len(), 2);
    let hottest = wear.hottest_line().unwrap();
    let expected = RegionWear {
        memory: memory.region().number(),
        offset: WEAR_REGION_BYTES,
        writes: 5,
        hottest_offset: 70_016,
        hottest_writes: 3,
    };
    assert_eq!(hottest, expected);
    assert!(super::tests::emulator(Profile::COUNT).wear().is_none());
}

#[test]
fn wide_lines_are_counted_as_one() {
    let options = EmulationOptions {
        cache_bytes: 64 * 256,
        cache_line_bytes: 256,
        ..options(Profile::COUNT)
    };
    let mut memory = durable(&Emulator::new(options).unwrap());
    memory.load(0, 512);
    memory.store(0, &[1; 512]);
    memory.flush(0, 512, site!("emulated-test.wide"));
    let total = memory.counters().total();
    assert_eq!((total.loads, total.stores, total.lines_flushed), (2, 2, 2));
}

#[test]
fn bytes_are_really_stored() {
    let mut memory = durable(&emulator(Profile::COUNT));
    memory.store(10, b"abc");
    memory.stream(64, &[9; 8], site!("emulated-test.bytes"));
    memory.fence(site!("emulated-test.bytes-fence")).unwrap();
    // SAFETY: the memory maps at least 128 readable bytes, and nothing stores while the slice
    // lives.
    let bytes = unsafe { std::slice::from_raw_parts(memory.base().as_ptr(), 128) };
    assert_eq!((&bytes[10..13], &bytes[64..72]), (&b"abc"[..], &[9; 8][..]));
    memory.grow(2 * POOL_BYTES).unwrap();
    assert!(memory.bytes() >= 2 * POOL_BYTES);
}

#[test]
#[should_panic(expected = "leave a memory")]
fn a_load_outside_the_memory_panics() {
    durable(&emulator(Profile::COUNT)).load(POOL_BYTES - 4, 8);
}

#[test]
fn handles_may_go_to_other_threads() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<EmulatedSource<NativeSource>>();
    shared::<Emulator>();
    sent::<TestMemory>();
}
