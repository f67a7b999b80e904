//! Merges of sorted runs: all at once through a tree of buffers that fits the cache, or two at a
//! time in passes over memory.
//!
//! A node of the tree merges the tuples of its two children into its buffer until that is full; a
//! child without tuples fills its own buffer first. So tuples cross the memory once, however many
//! runs there are (paper: multi-way merging), where passes cross it once for each doubling. Each
//! step takes prefixes of both sides that are merged completely, so the vector kernel never has to
//! stop in the middle.

use crate::simd::{Isa, merge};
use crate::tuple::Tuple;

/// The fewest tuples of a node's buffer.
const NODE_TUPLES_MIN: usize = 64;

/// Merges the runs of `from`, which end at `ends`, into `to` in one pass; `buffers` is the memory
/// of the tree.
pub(crate) fn merge_many<T: Tuple>(
    isa: Isa,
    from: &[T],
    ends: &[usize],
    to: &mut [T],
    buffers: &mut [T],
) {
    let leaves = ends.len().next_power_of_two().max(2);
    let mut runs = Vec::with_capacity(leaves);
    let mut start = 0;
    for &end in ends {
        runs.push(&from[start..end]);
        start = end;
    }
    runs.resize(leaves, &[]);
    let node_tuples = buffers.len() / leaves;
    assert!(node_tuples >= NODE_TUPLES_MIN || leaves == 2);
    let mut tree = Tree {
        isa,
        runs,
        nodes: vec![Node::default(); leaves],
        node_tuples,
    };
    let written = tree.fill(1, to, buffers, 0);
    assert_eq!(written, to.len());
}

/// The most runs that a tree over this many tuples of buffers can merge.
pub(crate) fn runs_max(buffer_tuples: usize) -> usize {
    let leaves = buffer_tuples / NODE_TUPLES_MIN;
    if leaves < 2 { 2 } else { 1 << leaves.ilog2() }
}

/// The filled part of a node's buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    start: usize,
    end: usize,
    is_done: bool,
}

/// A tree of merges: node 1 is the root, the children of `n` are `2n` and `2n + 1`, the last
/// `runs.len()` ones are the runs.
struct Tree<'a, T> {
    isa: Isa,
    runs: Vec<&'a [T]>,
    nodes: Vec<Node>,
    node_tuples: usize,
}

impl<'a, T: Tuple> Tree<'a, T> {
    /// Merges the children of a node into `out` until it is full or they have nothing left; returns
    /// how much was written.
    ///
    /// `buffers` are those of the nodes from `first` on, in which all descendants of `node` are.
    fn fill(&mut self, node: usize, out: &mut [T], buffers: &mut [T], first: usize) -> usize {
        let (left, right) = (2 * node, 2 * node + 1);
        let mut written = 0;
        while written < out.len() {
            self.supply(left, buffers, first);
            self.supply(right, buffers, first);
            let from_left = self.held(left, buffers, first);
            let from_right = self.held(right, buffers, first);
            let room = out.len() - written;
            let Some((from_left, from_right)) = mergeable(from_left, from_right, room) else {
                break;
            };
            let taken = from_left.len() + from_right.len();
            let to = &mut out[written..written + taken];
            merge(self.isa, from_left, from_right, to);
            written += taken;
            let (left_len, right_len) = (from_left.len(), from_right.len());
            self.take(left, left_len);
            self.take(right, right_len);
        }
        written
    }

    /// Fills the buffer of an inner node that holds nothing.
    fn supply(&mut self, node: usize, buffers: &mut [T], first: usize) {
        let Some(state) = self.nodes.get(node).copied() else {
            return;
        };
        if state.is_done || state.start < state.end {
            return;
        }
        // Descendants have larger numbers, so their buffers come after.
        let (front, behind) = buffers.split_at_mut((node + 1 - first) * self.node_tuples);
        let own = &mut front[(node - first) * self.node_tuples..];
        let written = self.fill(node, own, behind, node + 1);
        self.nodes[node] = Node {
            start: 0,
            end: written,
            is_done: written == 0,
        };
    }

    /// The tuples that a node or a run holds.
    fn held<'b>(&self, node: usize, buffers: &'b [T], first: usize) -> &'b [T]
    where
        'a: 'b,
    {
        let Some(state) = self.nodes.get(node) else {
            return self.runs[node - self.nodes.len()];
        };
        let start = (node - first) * self.node_tuples;
        &buffers[start + state.start..start + state.end]
    }

    /// Removes tuples from the front of a node or a run.
    fn take(&mut self, node: usize, tuples: usize) {
        let nodes = self.nodes.len();
        if let Some(state) = self.nodes.get_mut(node) {
            state.start += tuples;
        } else {
            let run = &mut self.runs[node - nodes];
            *run = &run[tuples..];
        }
    }
}

/// Prefixes of at most `room` tuples that come before everything else on both sides; none if both
/// sides are empty.
fn mergeable<'b, T: Tuple>(
    left: &'b [T],
    right: &'b [T],
    room: usize,
) -> Option<(&'b [T], &'b [T])> {
    let bounded = |side: &'b [T], bound: &T| {
        let len = side.partition_point(|tuple| tuple.key() <= bound.key());
        &side[..len]
    };
    let (left, right) = match (left.last(), right.last()) {
        (None, None) => return None,
        (_, None) | (None, _) => (left, right),
        // Up to the smaller end, nothing that is still to come can belong in between.
        (Some(end), Some(other)) if end.key() <= other.key() => (left, bounded(right, end)),
        (_, Some(end)) => (bounded(left, end), right),
    };
    if left.len() + right.len() <= room {
        return Some((left, right));
    }
    let from_left = split_for(room, left, right);
    Some((&left[..from_left], &right[..room - from_left]))
}

/// How many of the `count` smallest tuples of both sides come from `left`.
fn split_for<T: Tuple>(count: usize, left: &[T], right: &[T]) -> usize {
    let (mut low, mut high) = (count.saturating_sub(right.len()), count.min(left.len()));
    while low < high {
        let from_left = low + (high - low) / 2;
        // Too few from the left if its next tuple belongs before the last one from the right.
        if left[from_left].key() <= right[count - from_left - 1].key() {
            low = from_left + 1;
        } else {
            high = from_left;
        }
    }
    low
}

/// Merges the runs of `front`, which end at `ends`, two at a time until one is left; the result is
/// in the slice that is returned.
pub(crate) fn merge_in_passes<'b, T: Tuple>(
    isa: Isa,
    front: &'b mut [T],
    back: &'b mut [T],
    ends: &[usize],
) -> &'b [T] {
    let (mut from, mut to) = (front, back);
    let mut ends = ends.to_vec();
    while ends.len() > 1 {
        let mut next_ends = Vec::with_capacity(ends.len().div_ceil(2));
        let mut start = 0;
        for pair in ends.chunks(2) {
            let (middle, end) = (pair[0], pair[pair.len() - 1]);
            let (left, right) = from[start..end].split_at(middle - start);
            merge(isa, left, right, &mut to[start..end]);
            next_ends.push(end);
            start = end;
        }
        ends = next_ends;
        (from, to) = (to, from);
    }
    from
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::kernels;
    use crate::tuple::Tuple8;

    #[test]
    fn both_ways_give_one_sorted_run() {
        for runs in [1, 2, 3, 5, 8, 13] {
            let (mut from, mut ends) = (Vec::new(), Vec::new());
            for run in 0..runs {
                let key = |at: u32| (at * 977 + run * 31) % (500 + 400 * run);
                let len = if run == 3 { 0 } else { 700 + 90 * run };
                let mut tuples: Vec<_> = (0..len).map(|at| Tuple8::new(key(at), at)).collect();
                tuples.sort_unstable();
                from.extend(tuples);
                ends.push(from.len());
            }
            let mut sorted = from.clone();
            sorted.sort_unstable();
            let keys =
                |tuples: &[Tuple8]| tuples.iter().map(|tuple| tuple.key()).collect::<Vec<_>>();
            for isa in kernels() {
                let mut to = vec![Tuple8::default(); from.len()];
                let mut buffers = vec![Tuple8::default(); 16 * 64];
                merge_many(isa, &from, &ends, &mut to, &mut buffers);
                assert_eq!(keys(&to), keys(&sorted), "{isa:?} {runs}");
                let mut front = from.clone();
                let merged = merge_in_passes(isa, &mut front, &mut to, &ends);
                assert_eq!(keys(merged), keys(&sorted), "{isa:?} {runs}");
            }
        }
        assert_eq!(
            (runs_max(10), runs_max(16 * 64), runs_max(17 * 64)),
            (2, 16, 16)
        );
    }
}
