//! Sorting for the sort-merge joins: runs inside the cache, merges of runs, and the join of sorted
//! relations.
//!
//! | file | job |
//! |---|---|
//! | `run` | sorts one run: radix sort, or networks |
//! | `merge` | many runs at once through a tree of buffers, or two at a time in passes |
//! | `join` | the driver of `m-way` and `m-pass`, and the merge join |

pub(crate) mod join;
pub(crate) mod merge;
pub(crate) mod run;
