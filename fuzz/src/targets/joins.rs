//! Joins of two relations that the bytes describe, in two ways that the bytes choose, against a map
//! from keys to payloads.
//!
//! | part | what its bytes are |
//! |---|---|
//! | `way` | tuple size; twice: algorithm, kernel, threads, output, tuning, memory limit, cancel |
//! | `r`, `s` | steps that append: one, extreme, equal, spread keys, sequences, repetitions |
//!
//! Both joins use the same scratch memory, so the second one finds what the first one left there. A
//! refusal is right only if the way deserves it, and one for want of memory must go away with the
//! memory that it names. An input counts as taken if both joins ran.

use super::Target;
use crate::input::Input;
use crate::mutate::Seed;
use join::{
    Algorithm, BATCH_PAIRS, BloomUse, JoinError, JoinStats, Kernel, Monitor, Options, Output, Pair,
    Relation, RunSort, Scratch, TableKind, Totals, Tuning, Tuple, Tuple8, Tuple16, Word, join_in,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The most tuples of a relation.
const TUPLES_MAX: usize = 24_000;
/// The most matches of an input that is run at all.
const MATCHES_MAX: u64 = 4 << 20;
/// The most matches that are kept and compared one by one.
const PAIRS_MAX: u64 = 1 << 17;
/// Scratch memory that an input may take; the rest of a worker's memory is for relations and pairs.
const SCRATCH_BYTES_MAX: u64 = 96 << 20;
/// Bytes of one way.
const WAY_BYTES: usize = 12;

/// The target of this file.
pub(super) fn target() -> Target {
    Target::new("join", || Ok(seeds()), |input| run(input, |totals| totals))
}

/// The same with a wrong answer planted in the map, for joins with many matches.
pub(super) fn planted() -> Target {
    let wrong = |mut totals: Totals| {
        totals.count += u64::from(totals.count > 3000);
        totals
    };
    Target::new(
        "planted-join",
        || Ok(seeds()),
        move |input| run(input, wrong),
    )
}

/// Each algorithm with each tuple size over relations of several shapes.
fn seeds() -> Vec<Seed> {
    let shapes: [(&[u8], &[u8]); 5] = [
        (
            &[3, 1, 0, 16, 0, 0, 0, 0],
            &[3, 1, 0, 32, 0, 0, 0, 0, 5, 0, 9, 0, 0, 0, 0, 0],
        ),
        (
            &[6, 9, 0, 12, 0, 0, 0, 0, 1, 3, 2, 0, 0, 0, 0, 0],
            &[4, 0, 4, 0, 0, 0, 0, 0, 6, 9, 0, 20, 0, 0, 0, 0],
        ),
        (
            &[2, 0, 40, 0, 1, 2, 3, 4, 1, 4, 3, 0, 0, 0, 0, 0],
            &[2, 0, 60, 0, 1, 2, 3, 4, 1, 4, 3, 0, 0, 0, 0, 0],
        ),
        (
            &[4, 7, 0, 8, 0, 255, 255, 255, 1, 1, 1, 0, 0, 0, 0, 0],
            &[4, 7, 0, 8, 0, 255, 255, 255, 1, 1, 1, 0, 0, 0, 0, 0],
        ),
        (
            &[0, 1, 1, 0, 7, 0, 0, 0],
            &[0, 1, 1, 0, 7, 0, 0, 0, 2, 0, 0, 60, 9, 0, 0, 0],
        ),
    ];
    let mut seeds = Vec::new();
    for (number, (r, s)) in shapes.into_iter().enumerate() {
        for algorithm in 0..6 {
            for tuple in 0..2 {
                let mut way = vec![tuple];
                way.extend([algorithm, 0, 1, number as u8, 1, 1, 0, 0, 0, 0, 0, 1]);
                way.extend([algorithm + 1, 1, 3, algorithm, 0x45, 0x41, 2, 1, 1, 0, 0, 1]);
                let parts = [("way", way), ("r", r.to_vec()), ("s", s.to_vec())];
                let input = Input::new(parts.map(|(name, bytes)| (name.to_owned(), bytes)));
                seeds.push(Seed::plain(input));
            }
        }
    }
    seeds
}

fn run(input: &Input, oracle: impl Fn(Totals) -> Totals) -> bool {
    match input.part("way").first() {
        Some(tuple) if tuple % 2 == 1 => run_wide::<Tuple16>(input, oracle),
        _ => run_wide::<Tuple8>(input, oracle),
    }
}

fn run_wide<T: Tuple>(input: &Input, oracle: impl Fn(Totals) -> Totals) -> bool {
    let (r, s) = (
        relation::<T>(input.part("r")),
        relation::<T>(input.part("s")),
    );
    let found = matches(&r, &s);
    if found.count > MATCHES_MAX {
        return false;
    }
    let expected = oracle(found);
    let (r_before, s_before) = (r.clone(), s.clone());
    let mut scratch = Scratch::new();
    let ways = input.part("way").get(1..).unwrap_or_default();
    let (first, second) = ways.split_at(ways.len().min(WAY_BYTES));
    let mut taken = true;
    for way in [first, second] {
        taken &= Way::new(way).join(&mut scratch, &r, &s, expected);
        assert!(r == r_before && s == s_before, "an input was changed");
    }
    taken
}

/// Totals of the join, by a map from keys to the number and the sum of their payloads.
fn matches<T: Tuple>(r: &[T], s: &[T]) -> Totals {
    let mut partners: HashMap<u64, (u64, u64)> = HashMap::new();
    for tuple in r {
        let (count, sum) = partners.entry(tuple.key().into()).or_default();
        *count += 1;
        *sum = sum.wrapping_add(tuple.payload().into());
    }
    let mut totals = Totals::default();
    for tuple in s {
        if let Some((count, sum)) = partners.get(&tuple.key().into()) {
            totals.add(Totals {
                count: *count,
                r_payload_sum: *sum,
                s_payload_sum: count.wrapping_mul(tuple.payload().into()),
            });
        }
    }
    totals
}

/// All pairs in order, found the same way.
fn pairs_of<T: Tuple>(r: &[T], s: &[T]) -> Vec<Pair<T::Word>> {
    let mut partners: HashMap<u64, Vec<T::Word>> = HashMap::new();
    for tuple in r {
        let key = tuple.key().into();
        partners.entry(key).or_default().push(tuple.payload());
    }
    let mut pairs = Vec::new();
    for tuple in s {
        let found = partners.get(&tuple.key().into()).into_iter().flatten();
        let s = tuple.payload();
        pairs.extend(found.map(|&r| Pair { r, s }));
    }
    pairs.sort_unstable();
    pairs
}

/// Bytes as numbers; behind the end there are zeros.
struct Bytes<'b>(std::slice::Iter<'b, u8>);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    /// One of these; the last bytes of the range are as likely as the first.
    fn pick<C: Copy>(&mut self, choices: &[C]) -> C {
        choices[usize::from(self.byte()) % choices.len()]
    }
}

/// Event in the course of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancel {
    Never,
    Before,
    /// By the function for batches, when it is called for the n-th time.
    AtBatch(usize),
}

/// Output of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Totals,
    Pairs,
    Batches,
}

/// One way to join.
#[derive(Debug)]
struct Way {
    algorithm: Algorithm,
    kernel: Kernel,
    threads: Option<usize>,
    wanted: Wanted,
    tuning: Tuning,
    scratch_bytes_max: u64,
    cancel: Cancel,
}

impl Way {
    fn new(bytes: &[u8]) -> Self {
        let mut bytes = Bytes(bytes.iter());
        let [auto, radix, n_part, m_way, m_pass, mpsm] = [
            Algorithm::Auto,
            Algorithm::Radix,
            Algorithm::NPart,
            Algorithm::MWay,
            Algorithm::MPass,
            Algorithm::Mpsm,
        ];
        Self {
            algorithm: bytes.pick(&[radix, n_part, m_way, m_pass, mpsm, auto]),
            kernel: bytes.pick(&[Kernel::Auto, Kernel::Portable, Kernel::Avx2, Kernel::Avx512]),
            threads: match bytes.byte() {
                // Refused.
                255 => Some(0),
                many if many % 10 == 9 => None,
                some => Some(1 + usize::from(some) % 8),
            },
            wanted: bytes.pick(&[Wanted::Totals, Wanted::Pairs, Wanted::Batches]),
            tuning: Tuning {
                partition_bits: bits(bytes.byte()),
                second_pass_bits: bits(bytes.byte()),
                table: bytes.pick(&[
                    TableKind::Auto,
                    TableKind::LinearProbe,
                    TableKind::BucketChain,
                ]),
                run_sort: bytes.pick(&[RunSort::Radix, RunSort::Network]),
                bloom: bytes.pick(&[BloomUse::Auto, BloomUse::Always, BloomUse::Never]),
            },
            scratch_bytes_max: match bytes.byte() {
                few if few % 16 == 15 => u64::from(few) << 8,
                _ => SCRATCH_BYTES_MAX,
            },
            cancel: match bytes.byte() {
                0xff => Cancel::Before,
                some if some % 16 == 15 => Cancel::AtBatch(usize::from(some / 16)),
                _ => Cancel::Never,
            },
        }
    }

    /// Joins and compares. Says whether the join ran.
    fn join<T: Tuple>(&self, scratch: &mut Scratch, r: &[T], s: &[T], expected: Totals) -> bool {
        let monitor = Monitor::new();
        if self.cancel == Cancel::Before {
            monitor.cancel();
        }
        let (met, batches) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        let on_batch = |batch: &[Pair<T::Word>]| {
            assert!(
                (1..=BATCH_PAIRS).contains(&batch.len()),
                "{self:?}: a batch of {}",
                batch.len()
            );
            if self.cancel == Cancel::AtBatch(batches.fetch_add(1, Ordering::Relaxed)) {
                monitor.cancel();
            }
            let mut met = met.lock().unwrap_or_else(PoisonError::into_inner);
            met.extend_from_slice(batch);
        };
        let few = expected.count <= PAIRS_MAX;
        let options = Options {
            algorithm: self.algorithm,
            kernel: self.kernel,
            threads: self.threads,
            output: match self.wanted {
                Wanted::Pairs if few => Output::Pairs,
                Wanted::Batches if few => Output::Batches(&on_batch),
                _ => Output::Aggregate,
            },
            scratch_bytes_max: Some(self.scratch_bytes_max),
            monitor: Some(&monitor),
            tuning: self.tuning,
        };
        let (left, right) = (Relation::new(r), Relation::new(s));
        let joined = match join_in(scratch, left, right, &options) {
            Ok(joined) => joined,
            Err(JoinError::NotEnoughMemory {
                needed_bytes,
                limit_bytes,
            }) => {
                assert!(
                    needed_bytes > limit_bytes,
                    "{self:?}: {needed_bytes} bytes are allowed"
                );
                return self.with_memory(needed_bytes, scratch, r, s, expected);
            }
            Err(error) => {
                assert!(self.deserves(&error, &monitor), "{self:?}: {error}");
                return false;
            }
        };
        self.check(&joined.stats, r.len(), s.len());
        assert_eq!(joined.totals, expected, "{self:?}, {:?}", joined.stats);
        if !matches!(options.output, Output::Aggregate) {
            let mut met = std::mem::take(&mut *met.lock().unwrap_or_else(PoisonError::into_inner));
            met.extend(joined.pairs.into_iter().flatten());
            met.sort_unstable();
            assert!(
                met == pairs_of(r, s),
                "{self:?}: other pairs, {:?}",
                joined.stats
            );
        }
        true
    }

    /// Checks that the report of a join fits the way.
    fn check(&self, stats: &JoinStats, r_tuples: usize, s_tuples: usize) {
        let way = format!("{self:?}: {stats:?}");
        assert!(stats.algorithm != Algorithm::Auto, "none was chosen, {way}");
        assert!(
            stats.scratch_bytes <= self.scratch_bytes_max,
            "too much memory, {way}"
        );
        assert!(
            (stats.r_tuples, stats.s_tuples) == (r_tuples as u64, s_tuples as u64),
            "other relations, {way}"
        );
        let threads_are_right = self.threads.is_none_or(|threads| threads == stats.threads);
        assert!(threads_are_right, "other threads, {way}");
    }

    /// Joins again, with the memory that the error named.
    fn with_memory<T: Tuple>(
        &self,
        needed_bytes: u64,
        scratch: &mut Scratch,
        r: &[T],
        s: &[T],
        expected: Totals,
    ) -> bool {
        if needed_bytes > SCRATCH_BYTES_MAX {
            return false;
        }
        assert!(
            self.scratch_bytes_max < needed_bytes,
            "{self:?}: still not enough memory"
        );
        let way = Self {
            scratch_bytes_max: needed_bytes,
            ..*self
        };
        way.join(scratch, r, s, expected)
    }

    /// Whether this way may be refused so.
    fn deserves(&self, error: &JoinError, monitor: &Monitor) -> bool {
        let is_wrong =
            |bits: Option<u32>, least| bits.is_some_and(|bits| !(least..=14).contains(&bits));
        match error {
            JoinError::Cancelled => monitor.is_cancelled(),
            JoinError::BadThreads { .. } => self.threads == Some(0),
            JoinError::UnsupportedKernel { .. } => {
                self.kernel != Kernel::Auto && self.kernel != Kernel::Portable
            }
            JoinError::BadSetting { .. } => {
                is_wrong(self.tuning.partition_bits, 1) || is_wrong(self.tuning.second_pass_bits, 0)
            }
            _ => false,
        }
    }
}

/// Bits of a partitioning pass: mostly few, since more than there are tuples say little; 15 is
/// refused.
fn bits(byte: u8) -> Option<u32> {
    match byte {
        0x80.. => Some(u32::from(byte & 15)),
        0x40.. => Some(u32::from(byte & 7)),
        _ => (byte & 1 == 0).then_some(3),
    }
}

/// Reads the steps of a relation, eight bytes each: what, a small number, a count, and four bytes
/// more.
fn relation<T: Tuple>(steps: &[u8]) -> Vec<T> {
    let mut keys: Vec<u64> = Vec::new();
    for step in steps.chunks(8) {
        let mut whole = [0; 8];
        whole[..step.len()].copy_from_slice(step);
        let [what, small, low, high, more @ ..] = whole;
        let more = u64::from(u32::from_le_bytes(more));
        let room = TUPLES_MAX - keys.len();
        let count = usize::from(u16::from_le_bytes([low, high])).min(room);
        let small = u64::from(small);
        let extreme = EXTREME[small as usize % EXTREME.len()];
        // The lower half of a wide key is often the same, and so is the upper one.
        let key = if what & 0x80 == 0 {
            more
        } else {
            more << 32 | small
        };
        match what & 7 {
            0 => keys.extend([key].repeat(count.min(1))),
            1 => keys.extend([extreme].repeat(count.min(1 + low as usize % 16))),
            2 => keys.extend([key].repeat(count)),
            3 => keys.extend((1..=count as u64).map(|number| key + number)),
            4 => keys
                .extend((0..count as u64).map(|number| extreme.wrapping_sub(number * (small + 1)))),
            5 => keys.extend_from_within(..count.min(keys.len())),
            6 => keys
                .extend((0..count as u64).map(|number| spread(number % (small + 1).pow(2) + more))),
            _ => keys
                .extend((0..count as u64).map(|number| key.wrapping_add(number << (small % 64)))),
        }
    }
    let rows = keys.into_iter().enumerate();
    rows.map(|(row, key)| {
        let payload = EXTREME.get(row % 37).copied().unwrap_or(row as u64);
        T::new(T::Word::truncate(key), T::Word::truncate(payload))
    })
    .collect()
}

/// Values at which programs fail, as keys and as payloads.
const EXTREME: [u64; 8] = [
    u64::MAX,
    0,
    1,
    u64::MAX - 1,
    1 << 31,
    u32::MAX as u64,
    1 << 63,
    0xffff_ffff_0000_0000,
];

/// A number that looks random.
fn spread(number: u64) -> u64 {
    let number = (number ^ number >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number ^ number >> 29
}
