//! Where matches go: into totals, into memory, or in batches to the caller.
//!
//! Every thread has a `Sink` of its own, so that a match is a few additions and at most one store.
//! Totals are kept for every kind of output, which lets any join be checked against any other one.

use crate::monitor::Watch;
use crate::tuple::{Tuple, Word};

/// Number of matches and sums of the matched payloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Pairs of equal keys.
    pub count: u64,
    /// Sum of the payloads of R over all pairs, modulo 2^64.
    pub r_payload_sum: u64,
    /// Sum of the payloads of S over all pairs, modulo 2^64.
    pub s_payload_sum: u64,
}

impl Totals {
    /// Adds the matches of another part of the join.
    pub fn add(&mut self, other: Self) {
        self.count = self.count.wrapping_add(other.count);
        self.r_payload_sum = self.r_payload_sum.wrapping_add(other.r_payload_sum);
        self.s_payload_sum = self.s_payload_sum.wrapping_add(other.s_payload_sum);
    }
}

/// One match: the payloads of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair<W> {
    /// Payload of the tuple of R.
    pub r: W,
    /// Payload of the tuple of S.
    pub s: W,
}

/// The caller's function for batches; several threads call it concurrently.
pub type OnBatch<'a, W> = &'a (dyn Fn(&[Pair<W>]) + Sync);

/// The output of a join besides its totals.
#[derive(Clone, Copy)]
pub enum Output<'a, T: Tuple> {
    /// Totals only; nothing is stored per match.
    Aggregate,
    /// All pairs, in no particular order; their memory comes on top of the scratch memory.
    Pairs,
    /// Batches of at most [`BATCH_PAIRS`] pairs are passed to a function, in no particular order,
    /// by all threads.
    Batches(OnBatch<'a, T::Word>),
}

impl<T: Tuple> std::fmt::Debug for Output<'_, T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Aggregate => "Aggregate",
            Self::Pairs => "Pairs",
            Self::Batches(_) => "Batches",
        })
    }
}

/// The most pairs of one batch.
pub const BATCH_PAIRS: usize = 4096;

/// One thread's end of the output.
pub(crate) trait Sink<T: Tuple>: Send {
    /// Whether nothing but totals is kept, so that equal keys may be summed up before they meet
    /// their partners.
    const TOTALS_ONLY: bool;
    fn emit(&mut self, r: T::Word, s: T::Word);
    /// Adds many matches in one call; only where `TOTALS_ONLY`.
    fn add(&mut self, matches: Totals);
    /// Hands over the pairs that are still buffered.
    fn finish(&mut self);
    fn totals(&self) -> Totals;
    /// Whether the join was cancelled. Loops in which a tuple has many partners call it, return on
    /// true, and leave it to the watch to report.
    fn stops(&mut self) -> bool {
        false
    }
}

/// Partners of one tuple from which on a loop asks whether to stop.
pub(crate) const MANY_PARTNERS: usize = 1 << 10;
/// Matches between two looks at the monitor.
const LOOK_PAIRS: u64 = 1 << 20;

/// A sink that looks at the monitor now and then.
pub(crate) struct Watched<'w, K> {
    sink: K,
    watch: Watch<'w>,
    next_look: u64,
}

impl<'w, K> Watched<'w, K> {
    pub(crate) fn new(sink: K, watch: Watch<'w>) -> Self {
        Self {
            sink,
            watch,
            next_look: LOOK_PAIRS,
        }
    }
}

impl<T: Tuple, K: Sink<T>> Sink<T> for Watched<'_, K> {
    const TOTALS_ONLY: bool = K::TOTALS_ONLY;
    #[inline]
    fn add(&mut self, matches: Totals) {
        self.sink.add(matches);
    }
    #[inline(always)]
    fn emit(&mut self, r: T::Word, s: T::Word) {
        self.sink.emit(r, s);
    }
    fn finish(&mut self) {
        self.sink.finish();
    }
    fn totals(&self) -> Totals {
        self.sink.totals()
    }
    #[inline]
    fn stops(&mut self) -> bool {
        let count = self.sink.totals().count;
        if count < self.next_look {
            return false;
        }
        if self.watch.is_cancelled() {
            // `next_look` stays, so that the next call returns true as well.
            return true;
        }
        self.next_look = count.saturating_add(LOOK_PAIRS);
        false
    }
}

/// At most `PAIRS` matches, gathered without a branch and emitted together.
pub(crate) struct Pairs<T: Tuple, const PAIRS: usize> {
    pairs: [Pair<T::Word>; PAIRS],
    len: usize,
}

impl<T: Tuple, const PAIRS: usize> Pairs<T, PAIRS> {
    pub(crate) fn new() -> Self {
        Self {
            pairs: [Pair::default(); PAIRS],
            len: 0,
        }
    }

    /// Adds a pair if `found`; at most `PAIRS` are added before they are emitted.
    #[inline(always)]
    pub(crate) fn push_if(&mut self, found: bool, r: T::Word, s: T::Word) {
        self.pairs[self.len % PAIRS] = Pair { r, s };
        self.len += usize::from(found);
    }

    /// Passes the pairs to `sink`.
    #[inline(always)]
    pub(crate) fn emit(&mut self, sink: &mut impl Sink<T>) {
        for pair in &self.pairs[..self.len] {
            sink.emit(pair.r, pair.s);
        }
        self.len = 0;
    }
}

impl<T: Tuple> Sink<T> for Totals {
    const TOTALS_ONLY: bool = true;
    #[inline]
    fn add(&mut self, matches: Totals) {
        self.add(matches);
    }
    #[inline(always)]
    fn emit(&mut self, r: T::Word, s: T::Word) {
        self.count = self.count.wrapping_add(1);
        self.r_payload_sum = self.r_payload_sum.wrapping_add(r.into());
        self.s_payload_sum = self.s_payload_sum.wrapping_add(s.into());
    }
    fn finish(&mut self) {}
    fn totals(&self) -> Totals {
        *self
    }
}

/// The delivery of a sink's batch. Called through a pointer, once for thousands of pairs, so that
/// the joins are not compiled once more for each destination of batches.
pub(crate) type Deliver<'d, W> = &'d (dyn Fn(&mut Vec<Pair<W>>) + Sync);

/// A sink that stores pairs and passes them on when a batch is full.
pub(crate) struct PairSink<'d, W> {
    totals: Totals,
    batch: Vec<Pair<W>>,
    deliver: Deliver<'d, W>,
}

impl<'d, W: Word> PairSink<'d, W> {
    pub(crate) fn new(deliver: Deliver<'d, W>) -> Self {
        Self {
            totals: Totals::default(),
            batch: Vec::with_capacity(BATCH_PAIRS),
            deliver,
        }
    }

    #[cold]
    #[inline(never)]
    fn pass_on(&mut self) {
        (self.deliver)(&mut self.batch);
        self.batch.clear();
    }
}

impl<T: Tuple> Sink<T> for PairSink<'_, T::Word> {
    const TOTALS_ONLY: bool = false;
    fn add(&mut self, _: Totals) {
        unreachable!("pairs are passed on one by one");
    }
    #[inline(always)]
    fn emit(&mut self, r: T::Word, s: T::Word) {
        Sink::<T>::emit(&mut self.totals, r, s);
        self.batch.push(Pair { r, s });
        if self.batch.len() == BATCH_PAIRS {
            self.pass_on();
        }
    }
    fn finish(&mut self) {
        if !self.batch.is_empty() {
            self.pass_on();
        }
    }
    fn totals(&self) -> Totals {
        self.totals
    }
}
