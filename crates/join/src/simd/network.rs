//! Sorting and merging networks over vectors of four tuples, as in the paper: even-odd network for
//! four inputs, bitonic merges above.
//!
//! Four vectors are sorted lane by lane, transposed into four sorted vectors, and merged to sixteen
//! tuples. Longer runs are merged four tuples a step: the larger half of a merge stays in a
//! register, the next four come from the run with the smaller head. The algorithms are written
//! once, as a macro over a handful of vector operations:
//!
//! | operations | vector | comparison |
//! |---|---|---|
//! | `plain` | an array of four tuples | by key, with branches or conditional moves |
//! | `avx2_narrow` | 4 x 64 bits | signed, so the top bit is flipped between load and store |
//! | `avx512_narrow` | 4 x 64 bits | unsigned minimum and maximum |
//! | `avx2_wide`, `avx512_wide` | keys and payloads apart | keys, payloads follow |
//!
//! Narrow tuples are ordered by key and then by payload, wide ones by key. Callers may not rely on
//! an order of payloads: for inputs sorted by key, outputs are.

use super::{Isa, Level};
use crate::tuple::{Tuple, Tuple8, Tuple16};
use std::any::TypeId;

/// Tuples of the runs that `sort_small_runs` makes.
pub(crate) const SMALL_RUN: usize = 16;

/// Tuples of a different type of the same size, if `T` is `U`.
fn same<T: 'static, U: 'static>(tuples: &[T]) -> Option<&[U]> {
    // SAFETY: the two types are one.
    (TypeId::of::<T>() == TypeId::of::<U>())
        .then(|| unsafe { std::slice::from_raw_parts(tuples.as_ptr().cast(), tuples.len()) })
}

/// As `same`, mutable.
fn same_mut<T: 'static, U: 'static>(tuples: &mut [T]) -> Option<&mut [U]> {
    let start = tuples.as_mut_ptr().cast();
    // SAFETY: the two types are one, and `tuples` is borrowed as long as the result.
    (TypeId::of::<T>() == TypeId::of::<U>())
        .then(|| unsafe { std::slice::from_raw_parts_mut(start, tuples.len()) })
}

/// Sorts each sixteen tuples, and the rest, by key.
pub(crate) fn sort_small_runs<T: Tuple>(isa: Isa, tuples: &mut [T]) {
    let whole = tuples.len() / SMALL_RUN * SMALL_RUN;
    let (blocks, rest) = tuples.split_at_mut(whole);
    insertion_sort(rest);
    #[cfg(target_arch = "x86_64")]
    if let Some(blocks) = same_mut::<T, Tuple8>(blocks) {
        match isa.0 {
            // SAFETY: an `Isa` of this level exists only where AVX2 was detected.
            Level::Avx2 => return unsafe { avx2_narrow::sort_blocks(blocks) },
            // SAFETY: an `Isa` of this level exists only where AVX-512 F and VL were detected.
            Level::Avx512 => return unsafe { avx512_narrow::sort_blocks(blocks) },
            Level::Portable => {}
        }
    } else if let Some(blocks) = same_mut::<T, Tuple16>(blocks) {
        match isa.0 {
            // SAFETY: an `Isa` of this level exists only where AVX2 was detected.
            Level::Avx2 => return unsafe { avx2_wide::sort_blocks(blocks) },
            // SAFETY: an `Isa` of this level exists only where AVX-512 F and VL were detected.
            Level::Avx512 => return unsafe { avx512_wide::sort_blocks(blocks) },
            Level::Portable => {}
        }
    }
    let _ = isa;
    plain::sort_blocks(blocks);
}

/// Merges two sorted slices into `out`, which is as long as both.
pub(crate) fn merge<T: Tuple>(isa: Isa, left: &[T], right: &[T], out: &mut [T]) {
    assert_eq!(left.len() + right.len(), out.len());
    let done = if left.len() < 4 || right.len() < 4 {
        Steps::default()
    } else {
        merge_steps(isa, left, right, out)
    };
    // The rest: four tuples of the last step, and the rests of both sides, one of which is shorter
    // than four.
    let (left, right) = (&left[done.left..], &right[done.right..]);
    let out = &mut out[done.left + done.right - done.carried_len..];
    let carried = &done.carried[..done.carried_len];
    let (short, long) = if left.len() < right.len() {
        (left, right)
    } else {
        (right, left)
    };
    if carried.is_empty() {
        return merge_scalar(short, long, out);
    }
    let mut both = [T::default(); 8];
    let both = &mut both[..carried.len() + short.len()];
    merge_scalar(carried, short, both);
    merge_scalar(both, long, out);
}

/// How far the vector loop came.
struct Steps<T> {
    left: usize,
    right: usize,
    /// The largest tuples so far, which are not in the output yet.
    carried: [T; 4],
    carried_len: usize,
}

impl<T: Tuple> Default for Steps<T> {
    fn default() -> Self {
        Self {
            left: 0,
            right: 0,
            carried: [T::default(); 4],
            carried_len: 0,
        }
    }
}

fn merge_steps<T: Tuple>(isa: Isa, left: &[T], right: &[T], out: &mut [T]) -> Steps<T> {
    #[cfg(target_arch = "x86_64")]
    match isa.0 {
        Level::Portable => {}
        level => {
            if let Some(steps) = vector_steps(level, left, right, out) {
                return steps;
            }
        }
    }
    let _ = isa;
    // Without vectors, the network is slower than comparing the heads.
    let _ = (left, right, out);
    Steps::default()
}

/// The steps with the vectors of a level; the result keeps its tuples in an array of the caller's
/// type.
#[cfg(target_arch = "x86_64")]
fn vector_steps<T: Tuple>(
    level: Level,
    left: &[T],
    right: &[T],
    out: &mut [T],
) -> Option<Steps<T>> {
    let mut steps = Steps::default();
    let carried = &mut steps.carried[..];
    let (left_used, right_used) =
        if let (Some(left), Some(right)) = (same::<T, Tuple8>(left), same::<T, Tuple8>(right)) {
            let (out, carried) = (same_mut(out)?, same_mut(carried)?);
            if level == Level::Avx2 {
                // SAFETY: an `Isa` of this level exists only where AVX2 was detected.
                unsafe { avx2_narrow::merge_steps(left, right, out, carried) }
            } else {
                // SAFETY: an `Isa` of this level exists only where AVX-512 F and VL were detected.
                unsafe { avx512_narrow::merge_steps(left, right, out, carried) }
            }
        } else {
            let (left, right) = (same(left)?, same(right)?);
            let (out, carried) = (same_mut(out)?, same_mut(carried)?);
            if level == Level::Avx2 {
                // SAFETY: an `Isa` of this level exists only where AVX2 was detected.
                unsafe { avx2_wide::merge_steps(left, right, out, carried) }
            } else {
                // SAFETY: an `Isa` of this level exists only where AVX-512 F and VL were detected.
                unsafe { avx512_wide::merge_steps(left, right, out, carried) }
            }
        };
    (steps.left, steps.right, steps.carried_len) = (left_used, right_used, 4);
    Some(steps)
}

fn insertion_sort<T: Tuple>(tuples: &mut [T]) {
    for end in 1..tuples.len() {
        let tuple = tuples[end];
        let mut at = end;
        while at > 0 && tuples[at - 1].key() > tuple.key() {
            tuples[at] = tuples[at - 1];
            at -= 1;
        }
        tuples[at] = tuple;
    }
}

/// Merges by comparing the heads, without branches that depend on them.
fn merge_scalar<T: Tuple>(left: &[T], right: &[T], out: &mut [T]) {
    let (mut at_left, mut at_right) = (0, 0);
    while at_left < left.len() && at_right < right.len() {
        let (from_left, from_right) = (left[at_left], right[at_right]);
        let takes_left = from_left.key() <= from_right.key();
        out[at_left + at_right] = if takes_left { from_left } else { from_right };
        at_left += usize::from(takes_left);
        at_right += usize::from(!takes_left);
    }
    let rest = &mut out[at_left + at_right..];
    if at_left < left.len() {
        rest.copy_from_slice(&left[at_left..]);
    } else {
        rest.copy_from_slice(&right[at_right..]);
    }
}

/// The networks over the operations in scope: `V`, `load`, `store`, `min_max`, `reverse`,
/// `front_twice`, `back_twice`, `evens_twice`, `odds_twice`, `join_halves`, `join_neighbours` and
/// `transpose`.
macro_rules! networks {
    ($tuple:ty, $(#[$attribute:meta])*) => {
        /// Sorts four tuples of which the first two and the last two, seen from the ends, form a
        /// bitonic sequence.
        #[inline]
        $(#[$attribute])*
        fn clean(vector: V) -> V {
            // Both places of a pair have to see it in the same order, or one of two equal keys
            // would be taken twice.
            let (low, high) = min_max(front_twice(vector), back_twice(vector));
            let vector = join_halves(low, high);
            let (low, high) = min_max(evens_twice(vector), odds_twice(vector));
            join_neighbours(low, high)
        }

        /// Merges two sorted vectors into eight tuples.
        #[inline]
        $(#[$attribute])*
        fn merge_four(left: V, right: V) -> (V, V) {
            let (low, high) = min_max(left, reverse(right));
            (clean(low), clean(high))
        }

        /// Merges two sorted pairs of vectors into sixteen tuples.
        #[inline]
        $(#[$attribute])*
        fn merge_eight(left: (V, V), right: (V, V)) -> [V; 4] {
            let (low_front, high_front) = min_max(left.0, reverse(right.1));
            let (low_back, high_back) = min_max(left.1, reverse(right.0));
            let low = min_max(low_front, low_back);
            let high = min_max(high_front, high_back);
            [clean(low.0), clean(low.1), clean(high.0), clean(high.1)]
        }

        /// Sorts each sixteen tuples.
        $(#[$attribute])*
        pub(super) fn sort_blocks(tuples: &mut [$tuple]) {
            let (blocks, _) = tuples.as_chunks_mut::<{ crate::simd::SMALL_RUN }>();
            for block in blocks {
                let (vectors, _) = block.as_chunks_mut::<4>();
                let [a, b, c, d] = [0, 1, 2, 3].map(|at| load(&vectors[at]));
                let ((a, b), (c, d)) = (min_max(a, b), min_max(c, d));
                let ((a, c), (b, d)) = (min_max(a, c), min_max(b, d));
                let (b, c) = min_max(b, c);
                let [a, b, c, d] = transpose([a, b, c, d]);
                let sorted = merge_eight(merge_four(a, b), merge_four(c, d));
                for (to, vector) in vectors.iter_mut().zip(sorted) {
                    store(vector, to);
                }
            }
        }
    };
}

/// The merge of long runs over the operations in scope.
#[cfg(target_arch = "x86_64")]
macro_rules! long_merge {
    ($tuple:ty, $(#[$attribute:meta])*) => {
        /// Merges as long as both sides have four tuples; returns how many were taken from each, of
        /// which the last four are in `carried`.
        $(#[$attribute])*
        pub(super) fn merge_steps(
            left: &[$tuple],
            right: &[$tuple],
            out: &mut [$tuple],
            carried: &mut [$tuple],
        ) -> (usize, usize) {
            let (mut at_left, mut at_right) = (4, 4);
            let first = left.first_chunk().zip(right.first_chunk());
            let (left_front, right_front) = first.expect("both sides have four tuples");
            let (mut low, mut high) = merge_four(load(left_front), load(right_front));
            let (steps, _) = out.as_chunks_mut::<4>();
            for step in steps {
                store(low, step);
                let next_left = left[at_left..].first_chunk::<4>();
                let next_right = right[at_right..].first_chunk::<4>();
                let Some((next_left, next_right)) = next_left.zip(next_right) else {
                    break;
                };
                let takes_left = next_left[0].key() <= next_right[0].key();
                let next = if takes_left { next_left } else { next_right };
                at_left += 4 * usize::from(takes_left);
                at_right += 4 * usize::from(!takes_left);
                (low, high) = merge_four(load(next), high);
            }
            let carried = carried.first_chunk_mut().expect("four tuples are carried");
            store(high, carried);
            (at_left, at_right)
        }
    };
}

mod plain {
    //! Four tuples in an array: the operations in plain Rust.
    //!
    //! Every operation is a fixed pattern, so the compiler may use the vectors that the target
    //! always has.

    use crate::tuple::{Tuple, Tuple8, Tuple16};

    macro_rules! operations {
        ($tuple:ty) => {
            type V = [$tuple; 4];

            #[inline]
            fn load(from: &V) -> V {
                *from
            }
            #[inline]
            fn store(vector: V, to: &mut V) {
                *to = vector;
            }
            #[inline]
            fn min_max(left: V, right: V) -> (V, V) {
                let (mut low, mut high) = (left, right);
                for at in 0..4 {
                    let swap = right[at].key() < left[at].key();
                    low[at] = if swap { right[at] } else { left[at] };
                    high[at] = if swap { left[at] } else { right[at] };
                }
                (low, high)
            }
            #[inline]
            fn reverse([a, b, c, d]: V) -> V {
                [d, c, b, a]
            }
            #[inline]
            fn front_twice([a, b, ..]: V) -> V {
                [a, b, a, b]
            }
            #[inline]
            fn back_twice([.., c, d]: V) -> V {
                [c, d, c, d]
            }
            #[inline]
            fn evens_twice([a, _, c, _]: V) -> V {
                [a, a, c, c]
            }
            #[inline]
            fn odds_twice([_, b, _, d]: V) -> V {
                [b, b, d, d]
            }
            #[inline]
            fn join_halves(low: V, high: V) -> V {
                [low[0], low[1], high[2], high[3]]
            }
            #[inline]
            fn join_neighbours(low: V, high: V) -> V {
                [low[0], high[1], low[2], high[3]]
            }
            #[inline]
            fn transpose(rows: [V; 4]) -> [V; 4] {
                [0, 1, 2, 3].map(|at| rows.map(|row| row[at]))
            }
        };
    }

    mod narrow {
        //! Plain operations on 8-byte tuples.
        //!
        //! Compared by key only.
        use crate::tuple::{Tuple, Tuple8};
        operations!(Tuple8);
        networks!(Tuple8,);
    }

    mod wide {
        //! Plain operations on 16-byte tuples.
        //!
        //! Compared by key only.
        use crate::tuple::{Tuple, Tuple16};
        operations!(Tuple16);
        networks!(Tuple16,);
    }

    /// Sorts each sixteen tuples.
    pub(super) fn sort_blocks<T: Tuple>(tuples: &mut [T]) {
        if let Some(tuples) = super::same_mut::<T, Tuple8>(tuples) {
            narrow::sort_blocks(tuples);
        } else if let Some(tuples) = super::same_mut::<T, Tuple16>(tuples) {
            wide::sort_blocks(tuples);
        }
    }
}

/// Moves of 64-bit lanes with AVX2.
#[cfg(target_arch = "x86_64")]
macro_rules! lane_moves {
    () => {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn lanes_reversed(lanes: __m256i) -> __m256i {
            _mm256_permute4x64_epi64::<0b00_01_10_11>(lanes)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn front_lanes(lanes: __m256i) -> __m256i {
            _mm256_permute4x64_epi64::<0b01_00_01_00>(lanes)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn back_lanes(lanes: __m256i) -> __m256i {
            _mm256_permute4x64_epi64::<0b11_10_11_10>(lanes)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn even_lanes(lanes: __m256i) -> __m256i {
            _mm256_unpacklo_epi64(lanes, lanes)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn odd_lanes(lanes: __m256i) -> __m256i {
            _mm256_unpackhi_epi64(lanes, lanes)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn halves_joined(low: __m256i, high: __m256i) -> __m256i {
            _mm256_blend_epi32::<0b1111_0000>(low, high)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn neighbours_joined(low: __m256i, high: __m256i) -> __m256i {
            _mm256_blend_epi32::<0b1100_1100>(low, high)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn transposed([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
            let (ab_even, ab_odd) = (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
            let (cd_even, cd_odd) = (_mm256_unpacklo_epi64(c, d), _mm256_unpackhi_epi64(c, d));
            [
                _mm256_permute2x128_si256::<0x20>(ab_even, cd_even),
                _mm256_permute2x128_si256::<0x20>(ab_odd, cd_odd),
                _mm256_permute2x128_si256::<0x31>(ab_even, cd_even),
                _mm256_permute2x128_si256::<0x31>(ab_odd, cd_odd),
            ]
        }
    };
}

/// Operations on 8-byte tuples: one lane each.
#[cfg(target_arch = "x86_64")]
macro_rules! narrow_operations {
    () => {
        type V = __m256i;
        lane_moves!();

        #[inline]
        #[target_feature(enable = "avx2")]
        fn load(from: &[Tuple8; 4]) -> V {
            // SAFETY: the array has 32 bytes; the load needs no alignment.
            flipped(unsafe { _mm256_loadu_si256(from.as_ptr().cast()) })
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn store(vector: V, to: &mut [Tuple8; 4]) {
            // SAFETY: the array has 32 bytes; the store needs no alignment, and any bits are
            // tuples.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), flipped(vector)) }
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn reverse(vector: V) -> V {
            lanes_reversed(vector)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn front_twice(vector: V) -> V {
            front_lanes(vector)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn back_twice(vector: V) -> V {
            back_lanes(vector)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn evens_twice(vector: V) -> V {
            even_lanes(vector)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn odds_twice(vector: V) -> V {
            odd_lanes(vector)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn join_halves(low: V, high: V) -> V {
            halves_joined(low, high)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn join_neighbours(low: V, high: V) -> V {
            neighbours_joined(low, high)
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn transpose(rows: [V; 4]) -> [V; 4] {
            transposed(rows)
        }
    };
}

/// Operations on 16-byte tuples: keys and payloads in a vector each.
#[cfg(target_arch = "x86_64")]
macro_rules! wide_operations {
    () => {
        type V = (__m256i, __m256i);
        lane_moves!();

        #[inline]
        #[target_feature(enable = "avx2")]
        fn load(from: &[Tuple16; 4]) -> V {
            let [a, b, c, d] = from;
            let (front, back) = ([*a, *b], [*c, *d]);
            // SAFETY: the array has 32 bytes; the load needs no alignment.
            let front = unsafe { _mm256_loadu_si256(front.as_ptr().cast()) };
            // SAFETY: the array has 32 bytes; the load needs no alignment.
            let back = unsafe { _mm256_loadu_si256(back.as_ptr().cast()) };
            // Keys 0, 2, 1, 3 come out of the two halves; the permutation puts them in order.
            let keys = _mm256_unpacklo_epi64(front, back);
            let payloads = _mm256_unpackhi_epi64(front, back);
            (
                flipped(_mm256_permute4x64_epi64::<0b11_01_10_00>(keys)),
                _mm256_permute4x64_epi64::<0b11_01_10_00>(payloads),
            )
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn store((keys, payloads): V, to: &mut [Tuple16; 4]) {
            let keys = _mm256_permute4x64_epi64::<0b11_01_10_00>(flipped(keys));
            let payloads = _mm256_permute4x64_epi64::<0b11_01_10_00>(payloads);
            let (front, back) = to.split_at_mut(2);
            let from = _mm256_unpacklo_epi64(keys, payloads);
            // SAFETY: two tuples have 32 bytes; the store needs no alignment, and any bits are
            // tuples.
            unsafe { _mm256_storeu_si256(front.as_mut_ptr().cast(), from) };
            let from = _mm256_unpackhi_epi64(keys, payloads);
            // SAFETY: two tuples have 32 bytes; the store needs no alignment, and any bits are
            // tuples.
            unsafe { _mm256_storeu_si256(back.as_mut_ptr().cast(), from) };
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn reverse(vector: V) -> V {
            (lanes_reversed(vector.0), lanes_reversed(vector.1))
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn front_twice(vector: V) -> V {
            (front_lanes(vector.0), front_lanes(vector.1))
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn back_twice(vector: V) -> V {
            (back_lanes(vector.0), back_lanes(vector.1))
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn evens_twice(vector: V) -> V {
            (even_lanes(vector.0), even_lanes(vector.1))
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn odds_twice(vector: V) -> V {
            (odd_lanes(vector.0), odd_lanes(vector.1))
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn join_halves(low: V, high: V) -> V {
            (halves_joined(low.0, high.0), halves_joined(low.1, high.1))
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn join_neighbours(low: V, high: V) -> V {
            (
                neighbours_joined(low.0, high.0),
                neighbours_joined(low.1, high.1),
            )
        }
        #[inline]
        #[target_feature(enable = "avx2")]
        fn transpose(rows: [V; 4]) -> [V; 4] {
            let [a, b, c, d] = rows;
            let keys = transposed([a.0, b.0, c.0, d.0]);
            let payloads = transposed([a.1, b.1, c.1, d.1]);
            [
                (keys[0], payloads[0]),
                (keys[1], payloads[1]),
                (keys[2], payloads[2]),
                (keys[3], payloads[3]),
            ]
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2_narrow {
    //! 8-byte tuples with AVX2.
    //!
    //! There is no unsigned comparison of 64 bits, so the top bit is flipped.

    use crate::tuple::{Tuple, Tuple8};
    use std::arch::x86_64::{
        __m256i, _mm256_blend_epi32, _mm256_blendv_epi8, _mm256_cmpgt_epi64, _mm256_loadu_si256,
        _mm256_permute2x128_si256, _mm256_permute4x64_epi64, _mm256_set1_epi64x,
        _mm256_storeu_si256, _mm256_unpackhi_epi64, _mm256_unpacklo_epi64, _mm256_xor_si256,
    };
    narrow_operations!();

    #[inline]
    #[target_feature(enable = "avx2")]
    fn flipped(lanes: __m256i) -> __m256i {
        _mm256_xor_si256(lanes, _mm256_set1_epi64x(i64::MIN))
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    fn min_max(left: V, right: V) -> (V, V) {
        let swap = _mm256_cmpgt_epi64(left, right);
        (
            _mm256_blendv_epi8(left, right, swap),
            _mm256_blendv_epi8(right, left, swap),
        )
    }
    networks!(Tuple8, #[target_feature(enable = "avx2")]);
    long_merge!(Tuple8, #[target_feature(enable = "avx2")]);
}

#[cfg(target_arch = "x86_64")]
mod avx512_narrow {
    //! 8-byte tuples with AVX-512 VL: unsigned minimum and maximum of 64-bit lanes.
    //!
    //! Vectors stay 32 bytes wide, because the networks are written for four tuples.

    use crate::tuple::{Tuple, Tuple8};
    use std::arch::x86_64::{
        __m256i, _mm256_blend_epi32, _mm256_loadu_si256, _mm256_max_epu64, _mm256_min_epu64,
        _mm256_permute2x128_si256, _mm256_permute4x64_epi64, _mm256_storeu_si256,
        _mm256_unpackhi_epi64, _mm256_unpacklo_epi64,
    };
    narrow_operations!();

    #[inline]
    #[target_feature(enable = "avx2")]
    fn flipped(lanes: __m256i) -> __m256i {
        lanes
    }
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512vl")]
    fn min_max(left: V, right: V) -> (V, V) {
        (_mm256_min_epu64(left, right), _mm256_max_epu64(left, right))
    }
    networks!(Tuple8, #[target_feature(enable = "avx2,avx512f,avx512vl")]);
    long_merge!(Tuple8, #[target_feature(enable = "avx2,avx512f,avx512vl")]);
}

#[cfg(target_arch = "x86_64")]
mod avx2_wide {
    //! 16-byte tuples with AVX2.
    //!
    //! Payloads are moved by the comparison of the keys.

    use crate::tuple::{Tuple, Tuple16};
    use std::arch::x86_64::{
        __m256i, _mm256_blend_epi32, _mm256_blendv_epi8, _mm256_cmpgt_epi64, _mm256_loadu_si256,
        _mm256_permute2x128_si256, _mm256_permute4x64_epi64, _mm256_set1_epi64x,
        _mm256_storeu_si256, _mm256_unpackhi_epi64, _mm256_unpacklo_epi64, _mm256_xor_si256,
    };
    wide_operations!();

    #[inline]
    #[target_feature(enable = "avx2")]
    fn flipped(lanes: __m256i) -> __m256i {
        _mm256_xor_si256(lanes, _mm256_set1_epi64x(i64::MIN))
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    fn min_max(left: V, right: V) -> (V, V) {
        let swap = _mm256_cmpgt_epi64(left.0, right.0);
        let low = (
            _mm256_blendv_epi8(left.0, right.0, swap),
            _mm256_blendv_epi8(left.1, right.1, swap),
        );
        let high = (
            _mm256_blendv_epi8(right.0, left.0, swap),
            _mm256_blendv_epi8(right.1, left.1, swap),
        );
        (low, high)
    }
    networks!(Tuple16, #[target_feature(enable = "avx2")]);
    long_merge!(Tuple16, #[target_feature(enable = "avx2")]);
}

#[cfg(target_arch = "x86_64")]
mod avx512_wide {
    //! 16-byte tuples with AVX-512 VL: unsigned comparison into a mask.
    //!
    //! Payloads are moved by the same mask as the keys.

    use crate::tuple::{Tuple, Tuple16};
    use std::arch::x86_64::{
        __m256i, _mm256_blend_epi32, _mm256_cmpgt_epu64_mask, _mm256_loadu_si256,
        _mm256_mask_blend_epi64, _mm256_permute2x128_si256, _mm256_permute4x64_epi64,
        _mm256_storeu_si256, _mm256_unpackhi_epi64, _mm256_unpacklo_epi64,
    };
    wide_operations!();

    #[inline]
    #[target_feature(enable = "avx2")]
    fn flipped(lanes: __m256i) -> __m256i {
        lanes
    }
    #[inline]
    #[target_feature(enable = "avx2,avx512f,avx512vl")]
    fn min_max(left: V, right: V) -> (V, V) {
        let swap = _mm256_cmpgt_epu64_mask(left.0, right.0);
        let low = (
            _mm256_mask_blend_epi64(swap, left.0, right.0),
            _mm256_mask_blend_epi64(swap, left.1, right.1),
        );
        let high = (
            _mm256_mask_blend_epi64(swap, right.0, left.0),
            _mm256_mask_blend_epi64(swap, right.1, left.1),
        );
        (low, high)
    }
    networks!(Tuple16, #[target_feature(enable = "avx2,avx512f,avx512vl")]);
    long_merge!(Tuple16, #[target_feature(enable = "avx2,avx512f,avx512vl")]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::kernels;
    use crate::tuple::Word;

    fn tuples<T: Tuple>(len: usize, range: u64) -> Vec<T> {
        let number = |at: u64| (at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
        let tuple = |at| T::new(T::Word::truncate(number(at) % range), T::Word::truncate(at));
        let mut all: Vec<T> = (0..len as u64).map(tuple).collect();
        if let Some(first) = all.first_mut() {
            *first = T::new(T::Word::truncate(u64::MAX), T::Word::truncate(0));
        }
        all
    }

    /// Keys with payloads, in an order that does not depend on the order of equal keys.
    fn contents<T: Tuple>(tuples: &[T]) -> Vec<(u64, u64)> {
        let pairs = tuples
            .iter()
            .map(|tuple| (tuple.key().into(), tuple.payload().into()));
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        pairs
    }

    fn is_sorted<T: Tuple>(tuples: &[T]) -> bool {
        tuples.is_sorted_by_key(|tuple| tuple.key())
    }

    fn small_runs_are_sorted<T: Tuple>() {
        for isa in kernels() {
            for (len, range) in [(0, 9), (15, 9), (16, 9), (64, 3), (1000, u64::MAX)] {
                let before = tuples::<T>(len, range);
                let mut after = before.clone();
                sort_small_runs(isa, &mut after);
                assert!(after.chunks(SMALL_RUN).all(is_sorted), "{isa:?} {len}");
                assert_eq!(contents(&before), contents(&after), "{isa:?} {len}");
            }
        }
    }

    fn runs_are_merged<T: Tuple>() {
        for isa in kernels() {
            for (left, right) in [
                (0, 0),
                (0, 9),
                (3, 50),
                (4, 4),
                (5, 11),
                (100, 4),
                (999, 1501),
            ] {
                for range in [2, 40, u64::MAX] {
                    let mut sides = [tuples::<T>(left, range), tuples::<T>(right, range / 2 + 1)];
                    for side in &mut sides {
                        side.sort_by_key(|tuple| tuple.key());
                    }
                    let mut out = vec![T::default(); left + right];
                    merge(isa, &sides[0], &sides[1], &mut out);
                    assert!(is_sorted(&out), "{isa:?} {left} {right} {range}");
                    assert_eq!(contents(&sides.concat()), contents(&out), "{isa:?}");
                }
            }
        }
    }

    #[test]
    fn all_kernels_sort_small_runs() {
        small_runs_are_sorted::<Tuple8>();
        small_runs_are_sorted::<Tuple16>();
    }

    #[test]
    fn all_kernels_merge() {
        runs_are_merged::<Tuple8>();
        runs_are_merged::<Tuple16>();
    }
}
