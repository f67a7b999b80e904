//! Plans: what a statement does, from the binder's first form to the one that runs.
//!
//! | module | job |
//! |---|---|
//! | `expression` | bound expressions |
//! | `node`, `modify`, `partition` | operators, changes of tables, the keys of partitions |
//! | `walk` | visiting and renumbering them |
//! | `improve`, `prune`, `narrow` | rewriting a plan: conditions go down, columns are left out |
//! | `factor`, `equal` | conditions become parts; what follows from them |
//! | `unnest`, `decorrelate` | conditions become joins, joins with groups |
//! | `fold` | constants that are converted when the plan is made |
//! | `access`, `order`, `method`, `rerun`, `side`, `join_order` | indexes of scans, and joins |
//! | `stop` | windows of which the first rows are wanted |
//! | `outer` | outer joins that are inner ones |
//! | `postpone` | expressions that are computed after the limit |
//! | `computed`, `implies`, `nulls`, `mutable` | indexes of expressions, or of a part of the rows |
//! | `arithmetic` | expressions over whole columns |
//! | `estimate`, `selectivity` | numbers of rows, from counts and from the statistics of columns |
//! | `explain`, `print` | descriptions of plans |
//! | `counted`, `counters` | the work of operators |
//! | `point` | statements on single rows |
//! | `cache` | plans of statements that differ in their literals |

mod access;
mod arithmetic;
mod cache;
mod collation;
mod computed;
mod counted;
mod counters;
mod decorrelate;
mod equal;
mod estimate;
mod exclude;
mod explain;
mod expression;
mod factor;
mod fields;
mod fold;
mod implies;
mod improve;
mod join_order;
mod method;
mod modify;
mod mutable;
mod narrow;
mod node;
mod nulls;
mod order;
mod outer;
mod partition;
mod partition_hash;
mod point;
mod postpone;
mod print;
mod prune;
mod rerun;
mod selectivity;
mod side;
mod stop;
mod unnest;
mod used;
mod walk;

pub use arithmetic::column_of_rows;
pub use cache::{Cached, Key, Lifted, PlanCache, Slot, is_lasting};
pub use counted::Counting;
pub use counters::{Report, Work};
pub use exclude::is_left_out;
pub use explain::{Explained, Explainer, ShownWork};
pub use expression::{Call, Expr, Let, Pending, Quantified, RowTest, Subquery, SubqueryTest};
pub use implies::implies;
pub use modify::{
    Arm, Change, Conflict, Insert, KeyRows, Leaf, Level, Merge, MergeAction, MergeClause, Modify,
    Moves, Next, Reference, ReferenceAccess, Router, Shown, Target, TargetColumn, UniqueKey,
};
pub use node::{
    Access, Aggregate, AggregateCall, AggregateFunction, Bound, Busy, ComputedIndex, ComputedKey,
    Counted, Distinct, Excluded, FamilyMember, Filter, Frame, FrameEnd, FrameUnit, Functions, Join,
    JoinKind, JoinMethod, KeyRange, Limit, Lock, LockTarget, Node, Nulls, OverWindow, Project,
    Recursive, Scan, SetKind, SetOperation, Shared, Sort, SortKey, Source, Stop, System, TableRows,
    Values, Wanted, Way, Window, WindowCall, Working,
};

pub use outer::JoinedRows;
pub use partition::{Edge, PartitionKeys, Share, Takes};
pub use partition_hash::HashClass;
pub use point::{PointChange, PointInsert, PointPlan, PointRow, PointSelect};
pub use used::{Used, UsedTables};
pub use walk::Visitor;

use crate::types::Type;

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputColumn {
    /// Its name.
    pub name: String,
    /// The type of its values.
    pub data_type: Type,
    /// Number of the table that it is a column of, or 0.
    pub table: u32,
    /// Position in that table, from 1, or 0.
    pub position: i16,
}

/// A statement that is ready to run.
#[derive(Debug)]
pub struct Plan {
    /// Queries of `WITH` that change rows: they run first, whoever reads them.
    pub before: Vec<Node>,
    /// The statement itself.
    pub root: Node,
    /// The other form of the root, if the statement is on single rows.
    pub point: Option<PointPlan>,
    /// Columns of the result; none if there is none.
    pub columns: Option<Vec<OutputColumn>>,
    /// Types of the parameters, from the first one.
    pub parameters: Vec<Type>,
    /// The command of its tag.
    pub command: &'static str,
    /// Whether it changes rows.
    pub writes: bool,
    /// The tables that it reads or changes, each once.
    pub tables: Vec<Used>,
    /// Operators that may keep rows, which share the memory of a run.
    pub keepers: usize,
    /// Whether it is right only as long as cursors stay where they are.
    pub is_momentary: bool,
}
