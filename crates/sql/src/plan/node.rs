//! Plans: trees of operators, as the binder makes them and the planner improves them.
//!
//! A node's output is a row of columns; an expression in a node reads the row of its input, and of
//! both inputs one after the other in a join. Nodes share their content, so running one costs no
//! copy; before a plan is run nobody else has it, so changing one costs none either.

use super::expression::Expr;
use crate::types::Type;
use crate::types::window::WindowFunction;
use std::sync::Arc;

/// An operator with its inputs.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Rows that are written down.
    Values(Arc<Values>),
    /// Rows of a table.
    Scan(Arc<Scan>),
    /// Rows of a relation of the system.
    System(Arc<System>),
    /// Rows of functions.
    Functions(Arc<Functions>),
    /// Rows for which a condition is true.
    Filter(Arc<Filter>),
    /// Expressions over rows.
    Project(Arc<Project>),
    /// Pairs of rows.
    Join(Arc<Join>),
    /// One row for each group of rows.
    Aggregate(Arc<Aggregate>),
    /// Rows and the results of window functions.
    Window(Arc<Window>),
    /// Rows in an order.
    Sort(Arc<Sort>),
    /// Some of the rows.
    Limit(Arc<Limit>),
    /// Rows without repetitions.
    Distinct(Arc<Distinct>),
    /// Union, intersection or difference.
    SetOperation(Arc<SetOperation>),
    /// Rows of a query of `WITH`, kept for its other uses.
    Shared(Arc<Shared>),
    /// Rows of a recursive query.
    Recursive(Arc<Recursive>),
    /// Rows that the last round of a recursive query has added.
    Working(Arc<Working>),
    /// Rows that are locked as they pass.
    Lock(Arc<Lock>),
    /// Changes of a table.
    Modify(Arc<super::modify::Modify>),
    /// Rows of another node, which are counted.
    Counted(Arc<super::counted::Counted>),
}

#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub(crate) rows: Vec<Vec<Expr>>,
    pub(crate) width: usize,
}

/// Columns of a table's row: those of SQL, then the hidden number where rows have one.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) source: Source,
    pub(crate) access: Access,
    /// A condition over the row that the access does not ensure.
    pub(crate) condition: Option<Expr>,
    /// The columns that are read; the others come as NULL.
    pub(crate) needed: Vec<bool>,
}

/// A table as plans use it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) oid: u32,
    pub(crate) name: String,
    pub(crate) table: indelible::Table,
    /// Types of the columns of SQL.
    pub(crate) types: Arc<[Type]>,
    /// Positions of the columns of the key of the table below; the hidden number's is the width.
    pub(crate) key: Arc<[usize]>,
}

impl Source {
    /// Columns of a row, the hidden number included.
    pub(crate) fn width(&self) -> usize {
        self.types.len() + usize::from(self.has_row_number())
    }

    /// Whether rows have hidden numbers for a key.
    pub(crate) fn has_row_number(&self) -> bool {
        self.key.iter().any(|&column| column == self.types.len())
    }
}

/// The way to a table's rows.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// All rows, in the order of the primary key; backward if asked for.
    All { backward: bool },
    /// Rows whose key columns begin with values, and the next column lies in a range.
    Range(KeyRange),
    /// Rows whose first key columns have one of several lists of values.
    Keys {
        index: Option<String>,
        keys: Vec<Vec<Expr>>,
    },
    /// Rows of which the first key column is an element of an array.
    Elements { index: Option<String>, array: Expr },
}

/// A range of an index.
#[derive(Clone, Debug)]
pub(crate) struct KeyRange {
    /// The secondary index; none for the primary key.
    pub(crate) index: Option<String>,
    /// Values of the first columns. They do not read the table's row.
    pub(crate) prefix: Vec<Expr>,
    pub(crate) low: Option<Bound>,
    pub(crate) high: Option<Bound>,
    pub(crate) backward: bool,
}

/// An end of a range.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) value: Expr,
    pub(crate) is_included: bool,
}

/// A relation of the system, whose rows are made once in a statement.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) relation: &'static crate::catalog::system::Relation,
    /// A column that equals a value, which does not read the row: its rows are looked up.
    pub(crate) key: Option<(usize, Expr)>,
    /// A condition over the row that the key does not ensure.
    pub(crate) condition: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Functions {
    /// Functions that give sets; shorter ones are filled up with NULL.
    pub(crate) calls: Vec<Expr>,
    /// Columns of each.
    pub(crate) widths: Vec<usize>,
    pub(crate) has_ordinality: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub(crate) input: Node,
    pub(crate) condition: Expr,
}

#[derive(Clone, Debug)]
pub(crate) struct Project {
    pub(crate) input: Node,
    pub(crate) expressions: Vec<Expr>,
    /// Whether some of them give sets of rows.
    pub(crate) has_sets: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) kind: JoinKind,
    pub(crate) left: Node,
    pub(crate) right: Node,
    /// Over the columns of the left row, then the right one.
    pub(crate) condition: Option<Expr>,
    pub(crate) method: JoinMethod,
}

/// The rows of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    /// Left rows with a match; no columns of the right one.
    Semi,
    /// Left rows without one.
    Anti,
}

/// The way to find pairs.
#[derive(Clone, Debug)]
pub(crate) enum JoinMethod {
    /// The right input is kept, and read again for each left row.
    Loop,
    /// The right input is run again for each left row, which it reads as the next outer row.
    Lateral,
    /// The right input is kept in a table by the values of its keys.
    Hash { left: Vec<Expr>, right: Vec<Expr> },
}

#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) input: Node,
    pub(crate) keys: Vec<Expr>,
    pub(crate) calls: Vec<AggregateCall>,
}

/// An aggregate over the rows of a group.
#[derive(Clone, Debug)]
pub(crate) struct AggregateCall {
    pub(crate) function: super::call::AggregateFunction,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) is_distinct: bool,
    pub(crate) order: Vec<SortKey>,
    pub(crate) filter: Option<Expr>,
    pub(crate) data_type: Type,
}

impl AggregateCall {
    /// Whether its state grows with the rows of a group.
    pub(crate) fn keeps_rows(&self) -> bool {
        self.is_distinct || !self.order.is_empty() || self.function.aggregate.keeps_rows
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) input: Node,
    pub(crate) partition: Vec<Expr>,
    pub(crate) order: Vec<SortKey>,
    pub(crate) calls: Vec<WindowCall>,
}

/// A window function with its frame.
#[derive(Clone, Debug)]
pub(crate) struct WindowCall {
    pub(crate) function: OverWindow,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) filter: Option<Expr>,
    pub(crate) frame: Frame,
    pub(crate) data_type: Type,
}

/// A function over the rows around one.
#[derive(Clone, Debug)]
pub(crate) enum OverWindow {
    Aggregate(super::call::AggregateFunction),
    Function(WindowFunction),
}

/// The rows of a window that an aggregate sees.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) unit: FrameUnit,
    pub(crate) start: FrameEnd,
    pub(crate) end: FrameEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameUnit {
    Rows,
    Range,
    Groups,
}

/// An end of a frame; offsets do not read rows.
#[derive(Clone, Debug)]
pub(crate) enum FrameEnd {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

/// A key of an order.
#[derive(Clone, Debug)]
pub(crate) struct SortKey {
    pub(crate) expression: Expr,
    pub(crate) descends: bool,
    pub(crate) nulls_first: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Sort {
    pub(crate) input: Node,
    pub(crate) keys: Vec<SortKey>,
    /// The number of rows that are wanted, if a limit follows.
    pub(crate) wanted: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) input: Node,
    pub(crate) count: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// Keys of the order, if rows that equal the last one come too.
    pub(crate) ties: Option<Vec<SortKey>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Distinct {
    pub(crate) input: Node,
    /// Rows are the same if these are; all columns if there are none.
    pub(crate) on: Option<Vec<Expr>>,
}

/// Kind of a set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug)]
pub(crate) struct SetOperation {
    pub(crate) kind: SetKind,
    pub(crate) all: bool,
    pub(crate) left: Node,
    pub(crate) right: Node,
}

#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// Its number in the statement.
    pub(crate) number: usize,
    pub(crate) node: Node,
    pub(crate) width: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Recursive {
    /// Its number in the statement.
    pub(crate) number: usize,
    pub(crate) start: Node,
    pub(crate) step: Node,
    pub(crate) all: bool,
    pub(crate) width: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Working {
    /// The number of the recursive query.
    pub(crate) number: usize,
    pub(crate) width: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Lock {
    pub(crate) input: Node,
    pub(crate) tables: Vec<LockTarget>,
    /// The condition of the query, tested again on rows that have changed.
    pub(crate) recheck: Option<Expr>,
}

/// A table whose rows are locked.
#[derive(Clone, Debug)]
pub(crate) struct LockTarget {
    pub(crate) source: Source,
    /// The position of its first column in the row.
    pub(crate) start: usize,
    pub(crate) strength: indelible::RowLock,
    pub(crate) busy: Busy,
}

/// The remedy for a row that others have locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    Wait,
    Fail,
    Skip,
}

impl Node {
    /// Columns of its rows.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Values(values) => values.width,
            Self::Scan(scan) => scan.source.width(),
            Self::System(system) => system.relation.columns.len(),
            Self::Functions(functions) => {
                functions.widths.iter().sum::<usize>() + usize::from(functions.has_ordinality)
            }
            Self::Filter(filter) => filter.input.width(),
            Self::Project(project) => project.expressions.len(),
            Self::Join(join) => match join.kind {
                JoinKind::Semi | JoinKind::Anti => join.left.width(),
                _ => join.left.width() + join.right.width(),
            },
            Self::Aggregate(aggregate) => aggregate.keys.len() + aggregate.calls.len(),
            Self::Window(window) => window.input.width() + window.calls.len(),
            Self::Sort(sort) => sort.input.width(),
            Self::Limit(limit) => limit.input.width(),
            Self::Distinct(distinct) => distinct.input.width(),
            Self::SetOperation(operation) => operation.left.width(),
            Self::Shared(shared) => shared.width,
            Self::Recursive(recursive) => recursive.width,
            Self::Working(working) => working.width,
            Self::Lock(lock) => lock.input.width(),
            Self::Counted(counted) => counted.input.width(),
            Self::Modify(modify) => modify.returning.as_ref().map_or(0, Vec::len),
        }
    }
}

macro_rules! nodes {
    ($($name:ident)*) => {$(
        impl From<$name> for Node {
            fn from(content: $name) -> Self {
                Self::$name(Arc::new(content))
            }
        }
    )*};
}

nodes! {
    Values Scan System Functions Filter Project Join Aggregate Window Sort Limit Distinct SetOperation
    Shared Recursive Working Lock
}

impl From<super::counted::Counted> for Node {
    fn from(content: super::counted::Counted) -> Self {
        Self::Counted(Arc::new(content))
    }
}

impl From<super::modify::Modify> for Node {
    fn from(content: super::modify::Modify) -> Self {
        Self::Modify(Arc::new(content))
    }
}
