//! Plans: what a statement does, from the binder's first form to the one that runs.
//!
//! | module | job |
//! |---|---|
//! | `expression`, `call` | bound expressions |
//! | `node`, `modify` | operators, and changes of tables |
//! | `walk` | visiting and renumbering them |
//! | `improve`, `prune`, `narrow` | rewriting a plan: conditions go down, columns are left out |
//! | `factor`, `unnest`, `decorrelate` | conditions become parts, joins, joins with groups |
//! | `fold` | constants that are converted when the plan is made |
//! | `access`, `order`, `method`, `join_order` | indexes of scans, and joins |
//! | `estimate`, `selectivity` | numbers of rows, from counts and from the statistics of columns |
//! | `explain`, `print`, `counted` | descriptions of plans, and of what their operators did |
//! | `point` | statements on single rows |
//! | `cache` | plans of statements that differ in their literals |

mod access;
mod cache;
mod call;
mod counted;
mod decorrelate;
mod estimate;
mod explain;
mod expression;
mod factor;
mod fold;
mod improve;
mod join_order;
mod method;
mod modify;
mod narrow;
mod node;
mod order;
mod partition;
mod point;
mod print;
mod prune;
mod selectivity;
mod unnest;
mod walk;

pub use cache::{Cached, Key, Lifted, PlanCache, Slot, is_lasting};
pub use call::{AggregateFunction, Call};
pub use counted::{Counted, Report, Work, counted};
pub use explain::{Explained, Explainer, ShownWork};
pub use expression::{Expr, Pending, Quantified, RowTest, Subquery, SubqueryTest};
pub use modify::{
    Change, Conflict, Insert, Modify, Moves, Reference, ReferenceAccess, Target, TargetColumn,
    UniqueKey,
};
pub use node::{
    Access, Aggregate, AggregateCall, Bound, Busy, Distinct, Filter, Frame, FrameEnd, FrameUnit,
    Functions, Join, JoinKind, JoinMethod, KeyRange, Limit, Lock, LockTarget, Node, OverWindow,
    Project, Recursive, Scan, SetKind, SetOperation, Shared, Sort, SortKey, Source, System, Values,
    Window, WindowCall, Working,
};

pub use partition::{Arm, Edge, Leaf, Level, Next, Router, Takes};
pub use point::{PointChange, PointInsert, PointPlan, PointRow};
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
    /// Operators that may keep rows, which share the memory of a run.
    pub keepers: usize,
    /// Whether it is right only as long as cursors stay where they are.
    pub is_momentary: bool,
}
