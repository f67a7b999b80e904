//! Plans: what a statement does, from the binder's first form to the one that runs.
//!
//! | module | job |
//! |---|---|
//! | `expression`, `call` | bound expressions |
//! | `node`, `modify` | operators, and changes of tables |
//! | `walk` | visiting and renumbering them |
//! | `improve`, `prune` | rewriting a plan: conditions go down, columns are left out |
//! | `factor`, `unnest`, `decorrelate` | conditions become parts, joins, joins with groups |
//! | `fold` | constants that are converted when the plan is made |
//! | `access`, `order`, `method`, `join_order`, `estimate` | indexes of scans, and joins |
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
mod node;
mod order;
mod partition;
mod point;
mod print;
mod prune;
mod unnest;
mod walk;

pub(crate) use cache::{Cached, Key, Lifted, PlanCache, is_lasting};
pub(crate) use call::{AggregateFunction, Call};
pub(crate) use counted::{Counted, Report, Work, counted};
pub(crate) use explain::{Explained, Explainer, ShownWork};
pub(crate) use expression::{Expr, Pending, Quantified, RowTest, Subquery, SubqueryTest};
pub(crate) use modify::{
    Change, Conflict, Insert, Modify, Moves, Reference, ReferenceAccess, Target, TargetColumn,
    UniqueKey,
};
pub(crate) use node::{
    Access, Aggregate, AggregateCall, Bound, Busy, Distinct, Filter, Frame, FrameEnd, FrameUnit,
    Functions, Join, JoinKind, JoinMethod, KeyRange, Limit, Lock, LockTarget, Node, OverWindow,
    Project, Recursive, Scan, SetKind, SetOperation, Shared, Sort, SortKey, Source, System, Values,
    Window, WindowCall, Working,
};

pub(crate) use partition::{Arm, Edge, Leaf, Level, Next, Router, Takes};
pub(crate) use point::{PointChange, PointInsert, PointPlan, PointRow};
pub(crate) use walk::Visitor;

use crate::sink::OutputColumn;
use crate::types::Type;

/// A statement that is ready to run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Queries of `WITH` that change rows: they run first, whoever reads them.
    pub(crate) before: Vec<Node>,
    pub(crate) root: Node,
    /// The other form of the root, if the statement is on single rows.
    pub(crate) point: Option<PointPlan>,
    /// Columns of the result; none if there is none.
    pub(crate) columns: Option<Vec<OutputColumn>>,
    pub(crate) parameters: Vec<Type>,
    /// The command of its tag.
    pub(crate) command: &'static str,
    /// Whether it changes rows.
    pub(crate) writes: bool,
    /// Operators that may keep rows, which share the memory of a run.
    pub(crate) keepers: usize,
    /// Whether it is right only as long as cursors stay where they are.
    pub(crate) is_momentary: bool,
}
