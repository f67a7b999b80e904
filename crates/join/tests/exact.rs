//! Goal: every algorithm finds exactly the pairs of equal keys, on every kernel, thread count and
//! output.
//!
//! Method: relations that are hard for some part (empty, one tuple, all keys equal, extreme keys,
//! duplicates on both sides, sizes around lines, blocks and partitions) are joined in every way and
//! compared with a map. Kernels that the processor lacks are named and left out.

use join::{
    Algorithm, BloomUse, JoinError, Kernel, Monitor, Options, Output, Pair, Relation, RunSort,
    Scratch, TableKind, Totals, Tuning, Tuple, Tuple8, Tuple16, Word, join, join_in,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// The totals of a join, by a map from keys to payloads of R.
fn expected<T: Tuple>(r: &[T], s: &[T]) -> Totals {
    let mut partners: HashMap<u64, (u64, u64)> = HashMap::new();
    for tuple in r {
        let entry = partners.entry(tuple.key().into()).or_default();
        entry.0 += 1;
        entry.1 = entry.1.wrapping_add(tuple.payload().into());
    }
    let mut totals = Totals::default();
    for tuple in s {
        let Some((count, sum)) = partners.get(&tuple.key().into()) else {
            continue;
        };
        let payload: u64 = tuple.payload().into();
        totals.add(Totals {
            count: *count,
            r_payload_sum: *sum,
            s_payload_sum: payload.wrapping_mul(*count),
        });
    }
    totals
}

/// The kernels of this processor; the others are named once.
fn kernels() -> &'static [Kernel] {
    static FOUND: OnceLock<Vec<Kernel>> = OnceLock::new();
    let is_there = |kernel: &Kernel| {
        let options = Options {
            kernel: *kernel,
            ..Options::<Tuple8>::default()
        };
        match join(Relation::new(&[]), Relation::new(&[]), &options) {
            Err(error) => eprintln!("not tested: {error}"),
            Ok(_) => return true,
        }
        false
    };
    FOUND.get_or_init(|| Kernel::ALL.into_iter().filter(is_there).collect())
}

/// The settings that change the code that runs.
fn tunings(algorithm: Algorithm) -> Vec<Tuning> {
    let plain = Tuning::default();
    match algorithm {
        Algorithm::Radix => vec![
            plain,
            Tuning {
                partition_bits: Some(5),
                bloom: BloomUse::Always,
                ..plain
            },
            Tuning {
                partition_bits: Some(1),
                second_pass_bits: Some(3),
                table: TableKind::LinearProbe,
                ..plain
            },
            Tuning {
                partition_bits: Some(3),
                second_pass_bits: Some(2),
                ..plain
            },
            Tuning {
                table: TableKind::BucketChain,
                ..plain
            },
        ],
        Algorithm::Auto => vec![plain],
        Algorithm::NPart => vec![
            plain,
            Tuning {
                table: TableKind::BucketChain,
                ..plain
            },
        ],
        Algorithm::MWay | Algorithm::MPass | Algorithm::Mpsm => vec![
            plain,
            Tuning {
                partition_bits: Some(2),
                run_sort: RunSort::Network,
                ..plain
            },
        ],
    }
}

/// Joins in every way and compares.
fn check<T: Tuple>(name: &str, r: &[T], s: &[T], threads: &[usize]) {
    let expected = expected(r, s);
    let before = (r.to_vec(), s.to_vec());
    let mut scratch = Scratch::new();
    for algorithm in Algorithm::ALL.into_iter().chain([Algorithm::Auto]) {
        for tuning in tunings(algorithm) {
            for &kernel in kernels() {
                for threads in threads {
                    let options = Options {
                        algorithm,
                        kernel,
                        tuning,
                        threads: Some(*threads),
                        ..Options::default()
                    };
                    let joined =
                        join_in(&mut scratch, Relation::new(r), Relation::new(s), &options);
                    let joined = joined.unwrap_or_else(|error| panic!("{name}: {error}"));
                    let way = format!("{name}, {algorithm} {kernel} {threads} {tuning:?}");
                    assert_eq!(joined.totals, expected, "{way}");
                    assert_eq!(joined.stats.threads, *threads, "{way}");
                }
            }
        }
    }
    assert_eq!(before, (r.to_vec(), s.to_vec()), "{name}: an input changed");
}

/// Tuples with the given keys and the row as payload.
fn relation<T: Tuple>(keys: impl IntoIterator<Item = u64>) -> Vec<T> {
    let rows = keys.into_iter().enumerate();
    rows.map(|(row, key)| T::new(T::Word::truncate(key), T::Word::truncate(row as u64 + 1)))
        .collect()
}

/// A number that looks random.
fn spread(number: u64) -> u64 {
    let number = (number ^ number >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number ^ number >> 29
}

fn hard_inputs<T: Tuple>(threads: &[usize]) {
    let max: u64 = if T::BYTES == 8 {
        u32::MAX.into()
    } else {
        u64::MAX
    };
    let check_keys = |name: &str, r: Vec<u64>, s: Vec<u64>| {
        check::<T>(name, &relation(r), &relation(s), threads);
    };
    check_keys("both empty", vec![], vec![]);
    check_keys("r empty", vec![], vec![1, 2]);
    check_keys("s empty", vec![1, 2], vec![]);
    check_keys("one match", vec![7], vec![7]);
    check_keys("one stranger", vec![7], vec![8]);
    check_keys(
        "extremes",
        vec![0, max, 0, max, 1],
        vec![max, 0, max - 1, 0],
    );
    check_keys("all equal", vec![5; 300], vec![5; 500]);
    check_keys("all equal to zero", vec![0; 3000], vec![0, 1, max]);
    check_keys("all equal to the largest", vec![max; 70], vec![max; 3000]);
    check_keys("no match", (0..999).collect(), (1000..3000).collect());
    check_keys(
        "dense",
        (0..5000).rev().collect(),
        (0..9000).map(|at| at % 6000).collect(),
    );
    check_keys(
        "dense with gaps and the ends",
        (0..3000).map(|at| at * 2).chain([max, max - 1]).collect(),
        (0..6000).chain([max]).collect(),
    );
    check_keys(
        "duplicates on both sides",
        (0..4000).map(|at| spread(at) % 600).collect(),
        (0..3000).map(|at| spread(at + 9999) % 900).collect(),
    );
    check_keys(
        "sparse",
        (0..3000).map(|at| spread(at) & max).collect(),
        (0..4000).map(|at| spread(at / 2 + 1000) & max).collect(),
    );
    check_keys(
        "a heavy key among others",
        (0..4000)
            .map(|at| if at % 3 == 0 { 77 } else { spread(at) & max })
            .collect(),
        (0..5000)
            .map(|at| if at % 50 == 0 { 77 } else { spread(at) & max })
            .collect(),
    );
    check_keys(
        "one key has nearly all of r",
        (0..20_000)
            .map(|at| if at % 9 > 0 { 77 } else { spread(at) & max })
            .collect(),
        (0..900)
            .map(|at| if at % 50 == 0 { 77 } else { spread(at) & max })
            .collect(),
    );
    check_keys(
        "multiples of a large power of two",
        (0..2000).map(|at| at << (T::BYTES * 4 - 11)).collect(),
        (0..2000).map(|at| at << (T::BYTES * 4 - 12)).collect(),
    );
}

#[test]
fn hard_inputs_of_8_byte_tuples() {
    hard_inputs::<Tuple8>(&[1, 2, 5]);
}

#[test]
fn hard_inputs_of_16_byte_tuples() {
    hard_inputs::<Tuple16>(&[1, 3]);
}

#[test]
fn every_number_of_threads() {
    let r = relation::<Tuple8>((0..9000).map(|at| spread(at) % 20_000));
    let s = relation::<Tuple8>((0..12_000).map(|at| spread(at + 5) % 20_000));
    check("1 to 8 threads", &r, &s, &[1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn sizes_around_every_boundary() {
    for edge in [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096] {
        for len in [edge - 1, edge, edge + 1] {
            let r = relation::<Tuple8>((0..len).map(|at| spread(at) % (len * 2)));
            let s = relation::<Tuple8>((0..len * 3 / 2).map(|at| at * 3 % (len * 2)));
            check(&format!("{len} tuples"), &r, &s, &[2]);
        }
    }
}

#[test]
fn large_enough_for_streaming_stores_and_cut_partitions() {
    // Above half of any last-level cache that the library counts on, so full lines go past the
    // cache.
    let len = 1_300_000;
    let r = relation::<Tuple8>((0..len).map(spread));
    let s = relation::<Tuple8>((0..len).map(|at| if at % 4 == 0 { spread(1) } else { spread(at) }));
    let expected = expected(&r, &s);
    let mut scratch = Scratch::new();
    for algorithm in Algorithm::ALL {
        for tuning in tunings(algorithm) {
            let options = Options {
                algorithm,
                tuning,
                threads: Some(2),
                ..Options::default()
            };
            let joined = join_in(&mut scratch, Relation::new(&r), Relation::new(&s), &options);
            assert_eq!(joined.unwrap().totals, expected, "{algorithm} {tuning:?}");
        }
        for &kernel in kernels() {
            let options = Options {
                algorithm,
                kernel,
                threads: Some(3),
                ..Options::default()
            };
            let joined = join_in(&mut scratch, Relation::new(&r), Relation::new(&s), &options);
            assert_eq!(joined.unwrap().totals, expected, "{algorithm} {kernel}");
        }
    }
}

/// Relations of which `hot` has a large part; each other key is in R once, and S has each of them
/// and as many keys without partners.
fn hot_relations<T: Tuple>(hot: u64, len: u64) -> (Vec<T>, Vec<T>) {
    let max: u64 = T::Word::truncate(u64::MAX).into();
    let key = |row: u64| {
        if row.is_multiple_of(2) {
            hot
        } else {
            spread(row) & max
        }
    };
    let s = |row: u64| {
        if row.is_multiple_of(5) {
            hot
        } else {
            spread(row) & max
        }
    };
    (relation((0..len).map(key)), relation((0..2 * len).map(s)))
}

#[test]
fn a_partition_that_a_key_makes_large_gets_one_table_for_all_threads() {
    fn shared<T: Tuple>(hot: u64, threads: usize, bits: u32) {
        let (r, s) = hot_relations::<T>(hot, 150_000);
        let options = Options {
            algorithm: Algorithm::Radix,
            threads: Some(threads),
            tuning: Tuning {
                // By default they follow the caches, and with few of them no partition is large
                // compared with the others.
                partition_bits: Some(bits),
                bloom: BloomUse::Never,
                ..Tuning::default()
            },
            ..Options::default()
        };
        let joined = join(Relation::new(&r), Relation::new(&s), &options).unwrap();
        let way = format!("{threads} threads, {bits} bits, {:?}", joined.stats.tables);
        assert_eq!(joined.totals, expected(&r, &s), "{way}");
        let work = joined.stats.tables;
        assert!(work.shared_tuples >= 75_000, "{way}");
        // Every tuple of R is in one table, but for small tables that two threads build; every one
        // of S meets one.
        let again = work.built_tuples - work.shared_tuples;
        assert!(again <= 75_000 * 2, "{way}");
        assert!(work.lookups <= 300_000, "{way}");
    }
    for threads in 1..=8 {
        shared::<Tuple8>(77, threads, 5);
    }
    for bits in [4, 7, 10] {
        shared::<Tuple8>(0, 2, bits);
        shared::<Tuple16>(u64::MAX, 3, bits);
    }
}

#[test]
fn multiples_that_stand_there_often_are_spread_over_all_partitions() {
    // As dense as an array may be, but the lower bits of all keys are equal.
    let r = relation::<Tuple8>((0..160_000).map(|at| spread(at) % 10_000 * 32));
    let s = relation::<Tuple8>((0..300_000).map(|at| spread(at + 3) % 10_000 * 32));
    for bits in [5, 8] {
        let options = Options {
            algorithm: Algorithm::Radix,
            threads: Some(2),
            tuning: Tuning {
                partition_bits: Some(bits),
                ..Tuning::default()
            },
            ..Options::default()
        };
        let joined = join(Relation::new(&r), Relation::new(&s), &options).unwrap();
        assert_eq!(joined.totals, expected(&r, &s));
        let work = joined.stats.tables;
        assert_eq!(
            (work.shared_tuples, work.lookups),
            (0, 300_000),
            "{bits} bits"
        );
    }
}

#[test]
fn totals_of_many_equal_keys_do_not_take_all_pairs() {
    // Nearly a million millions of pairs: many minutes, one by one.
    let (r, s) = hot_relations::<Tuple8>(5, 2_000_000);
    let expected = expected(&r, &s);
    assert!(expected.count > 800_000_000_000);
    for algorithm in Algorithm::ALL {
        let options = Options {
            algorithm,
            threads: Some(2),
            ..Options::default()
        };
        let joined = join(Relation::new(&r), Relation::new(&s), &options).unwrap();
        assert_eq!(joined.totals, expected, "{algorithm}");
    }
}

/// All pairs, sorted.
fn pairs<T: Tuple>(r: &[T], s: &[T]) -> Vec<Pair<T::Word>> {
    let mut found = Vec::new();
    for left in r {
        let partners = s.iter().filter(|right| right.key() == left.key());
        found.extend(partners.map(|right| Pair {
            r: left.payload(),
            s: right.payload(),
        }));
    }
    found.sort_unstable_by_key(|pair| (pair.r, pair.s));
    found
}

#[test]
fn pairs_and_batches_are_those_of_a_nested_loop() {
    let r = relation::<Tuple8>((0..700).map(|at| spread(at) % 300));
    let s = relation::<Tuple8>((0..4000).map(|at| spread(at + 1) % 400));
    let expected = pairs(&r, &s);
    for algorithm in Algorithm::ALL {
        let options = Options {
            algorithm,
            threads: Some(3),
            output: Output::Pairs,
            ..Options::default()
        };
        let joined = join(Relation::new(&r), Relation::new(&s), &options).unwrap();
        let mut found: Vec<_> = joined.pairs.concat();
        found.sort_unstable();
        assert_eq!(found, expected, "{algorithm}");
        assert_eq!(joined.totals.count, found.len() as u64);

        let batches = Mutex::new(Vec::new());
        let keep = |batch: &[Pair<u32>]| {
            assert!((1..=join::BATCH_PAIRS).contains(&batch.len()));
            batches.lock().unwrap().extend_from_slice(batch);
        };
        let options = Options {
            output: Output::Batches(&keep),
            ..options
        };
        let joined = join(Relation::new(&r), Relation::new(&s), &options).unwrap();
        assert!(joined.pairs.is_empty());
        let mut found = batches.into_inner().unwrap();
        found.sort_unstable();
        assert_eq!(found, expected, "{algorithm}");
    }
}

#[test]
fn pairs_of_a_shared_table_are_those_of_a_nested_loop() {
    let (r, s) = hot_relations::<Tuple8>(9, 20_000);
    let s = &s[..60];
    let expected = pairs(&r, s);
    for threads in [1, 4] {
        let options = Options {
            algorithm: Algorithm::Radix,
            threads: Some(threads),
            output: Output::Pairs,
            tuning: Tuning {
                partition_bits: Some(5),
                ..Tuning::default()
            },
            ..Options::default()
        };
        let joined = join(Relation::new(&r), Relation::new(s), &options).unwrap();
        assert!(joined.stats.tables.shared_tuples >= 10_000);
        let mut found: Vec<_> = joined.pairs.concat();
        found.sort_unstable_by_key(|pair| (pair.r, pair.s));
        assert_eq!(found, expected);
    }
}

#[test]
fn bad_input_is_refused_before_any_work() {
    let tuples = relation::<Tuple8>(0..100_000);
    let both = (Relation::new(&tuples), Relation::new(&tuples));
    for algorithm in Algorithm::ALL {
        let options = Options {
            algorithm,
            scratch_bytes_max: Some(100_000),
            ..Options::default()
        };
        let mut scratch = Scratch::new();
        let error = join_in(&mut scratch, both.0, both.1, &options).unwrap_err();
        let JoinError::NotEnoughMemory {
            needed_bytes,
            limit_bytes: 100_000,
        } = error
        else {
            panic!("{algorithm}: {error}");
        };
        assert_eq!(scratch.bytes(), 0);
        let options = Options {
            scratch_bytes_max: Some(needed_bytes),
            ..options
        };
        let joined = join_in(&mut scratch, both.0, both.1, &options).unwrap();
        assert_eq!(joined.stats.scratch_bytes, needed_bytes, "{algorithm}");
    }
    for threads in [0, 100_000] {
        let options = Options {
            threads: Some(threads),
            ..Options::default()
        };
        let error = join(both.0, both.1, &options).unwrap_err();
        assert!(matches!(error, JoinError::BadThreads { .. }), "{error}");
    }
    let mut options = Options::default();
    options.tuning.partition_bits = Some(15);
    let error = join(both.0, both.1, &options).unwrap_err();
    assert!(matches!(error, JoinError::BadSetting { .. }), "{error}");
}

#[test]
fn a_monitor_sees_progress_and_stops_a_join() {
    let tuples = relation::<Tuple8>((0..200_000).map(spread));
    let both = (Relation::new(&tuples), Relation::new(&tuples));
    for algorithm in Algorithm::ALL {
        let monitor = Monitor::new();
        let stop = |_: &[Pair<u32>]| monitor.cancel();
        let options = Options {
            algorithm,
            threads: Some(2),
            monitor: Some(&monitor),
            ..Options::default()
        };
        join(both.0, both.1, &options).unwrap();
        let (done, total) = monitor.progress();
        assert_eq!((done, total), (600_000, 600_000), "{algorithm}");
        let options = Options {
            output: Output::Batches(&stop),
            ..options
        };
        let error = join(both.0, both.1, &options).unwrap_err();
        assert!(
            matches!(error, JoinError::Cancelled),
            "{algorithm}: {error}"
        );
        let error = join(both.0, both.1, &options).unwrap_err();
        assert!(
            matches!(error, JoinError::Cancelled),
            "{algorithm}: {error}"
        );
    }
}

#[test]
fn a_join_with_many_matches_a_tuple_stops_soon() {
    let tuples = relation::<Tuple8>((0..20_000).map(|_| 7));
    let both = (Relation::new(&tuples), Relation::new(&tuples));
    for algorithm in Algorithm::ALL {
        let (monitor, delivered) = (Monitor::new(), AtomicUsize::new(0));
        let stop = |pairs: &[Pair<u32>]| {
            delivered.fetch_add(pairs.len(), Ordering::Relaxed);
            monitor.cancel();
        };
        let options = Options {
            algorithm,
            threads: Some(2),
            monitor: Some(&monitor),
            output: Output::Batches(&stop),
            ..Options::default()
        };
        let error = join(both.0, both.1, &options).unwrap_err();
        assert!(
            matches!(error, JoinError::Cancelled),
            "{algorithm}: {error}"
        );
        // Of 400 million pairs.
        let delivered = delivered.into_inner();
        assert!(delivered < 10_000_000, "{algorithm}: {delivered} pairs");
    }
}

#[test]
fn a_panic_of_the_caller_goes_through() {
    let tuples = relation::<Tuple8>(0..50_000);
    let fail = |_: &[Pair<u32>]| panic!("the caller's own");
    let options = Options {
        threads: Some(3),
        output: Output::Batches(&fail),
        ..Options::default()
    };
    let both = (Relation::new(&tuples), Relation::new(&tuples));
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        join(both.0, both.1, &options).map(|joined| joined.totals)
    }));
    assert!(caught.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn random_relations(
        r in proptest::collection::vec(any::<u64>(), 0..700),
        s in proptest::collection::vec(any::<u64>(), 0..900),
        range in prop_oneof![1_u64..50, 300_u64..2000, Just(u64::MAX)],
        threads in 1_usize..5,
    ) {
        let keys = |keys: &[u64]| keys.iter().map(|key| key % range).collect::<Vec<_>>();
        let (r, s) = (keys(&r), keys(&s));
        check::<Tuple8>("random", &relation(r.clone()), &relation(s.clone()), &[threads]);
        check::<Tuple16>("random", &relation(r), &relation(s), &[threads]);
    }
}
