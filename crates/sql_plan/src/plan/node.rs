//! Plans: trees of operators, as the binder makes them and the planner improves them.
//!
//! A node's output is a row of columns; an expression in a node reads the row of its input, and of
//! both inputs one after the other in a join. Nodes share their content, so running one costs no
//! copy; before a plan is run nobody else has it, so changing one costs none either.

use super::expression::Expr;
use crate::catalog::Oid;
use crate::types::window::WindowFunction;
use crate::types::{Kind, Type};
use std::sync::Arc;

/// An operator with its inputs.
#[derive(Clone, Debug)]
pub enum Node {
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
pub struct Values {
    pub rows: Vec<Vec<Expr>>,
    pub width: usize,
}

/// Columns of a table's row: those of SQL, then the hidden number where rows have one.
#[derive(Clone, Debug)]
pub struct Scan {
    pub source: Source,
    pub access: Access,
    /// A condition over the row that the access does not ensure.
    pub condition: Option<Expr>,
    /// The columns that are read; the others come as NULL.
    pub needed: Vec<bool>,
}

/// A table as plans use it.
#[derive(Clone, Debug)]
pub struct Source {
    pub oid: u32,
    pub name: String,
    pub table: indelible::Table,
    /// Types of the columns of SQL.
    pub types: Arc<[Type]>,
    /// Positions of the columns of the key of the table below; the hidden number's is the width.
    pub key: Arc<[usize]>,
}

impl Source {
    /// The type of a column, the hidden number included.
    pub fn column_type(&self, column: usize) -> Type {
        let of_sql = self.types.get(column).copied();
        of_sql.unwrap_or(Kind::Int8.plain())
    }

    /// Columns of a row, the hidden number included.
    pub fn width(&self) -> usize {
        self.types.len() + usize::from(self.has_row_number())
    }

    /// Whether rows have hidden numbers for a key.
    pub fn has_row_number(&self) -> bool {
        self.key.iter().any(|&column| column == self.types.len())
    }
}

/// The way to a table's rows.
#[derive(Clone, Debug)]
pub enum Access {
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
pub struct KeyRange {
    /// The secondary index; none for the primary key.
    pub index: Option<String>,
    /// Values of the first columns. They do not read the table's row.
    pub prefix: Vec<Expr>,
    pub low: Option<Bound>,
    pub high: Option<Bound>,
    pub backward: bool,
}

/// An end of a range.
#[derive(Clone, Debug)]
pub struct Bound {
    pub value: Expr,
    pub is_included: bool,
}

/// A relation of the system, whose rows are made once in a statement.
#[derive(Clone, Debug)]
pub struct System {
    /// Its number.
    pub relation: Oid,
    pub name: &'static str,
    /// Names and types of its columns.
    pub columns: Box<[(&'static str, Kind)]>,
    /// A column that equals a value, which does not read the row: its rows are looked up.
    pub key: Option<(usize, Expr)>,
    /// A condition over the row that the key does not ensure.
    pub condition: Option<Expr>,
}

#[derive(Clone, Debug)]
pub struct Functions {
    /// Functions that give sets; shorter ones are filled up with NULL.
    pub calls: Vec<Expr>,
    /// Columns of each.
    pub widths: Vec<usize>,
    pub has_ordinality: bool,
}

#[derive(Clone, Debug)]
pub struct Filter {
    pub input: Node,
    pub condition: Expr,
}

#[derive(Clone, Debug)]
pub struct Project {
    pub input: Node,
    pub expressions: Vec<Expr>,
    /// Whether some of them give sets of rows.
    pub has_sets: bool,
}

#[derive(Clone, Debug)]
pub struct Join {
    pub kind: JoinKind,
    pub left: Node,
    pub right: Node,
    /// Over the columns of the left row, then the right one.
    pub condition: Option<Expr>,
    pub method: JoinMethod,
}

/// The rows of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    /// Left rows with a match; no columns of the right one.
    Semi,
    /// Left rows without one.
    Anti,
}

impl JoinKind {
    /// Whether right rows without a partner are in the result.
    pub fn keeps_right(self) -> bool {
        matches!(self, Self::Right | Self::Full)
    }

    /// Whether left rows without a partner are in the result.
    pub fn keeps_left(self) -> bool {
        matches!(self, Self::Left | Self::Full | Self::Anti)
    }

    /// Whether one partner of a left row says all.
    pub fn ends_at_first(self) -> bool {
        matches!(self, Self::Semi | Self::Anti)
    }
}

/// The way to find pairs.
#[derive(Clone, Debug)]
pub enum JoinMethod {
    /// The right input is kept, and read again for each left row.
    Loop,
    /// The right input is run again for each left row, which it reads as the next outer row.
    Lateral,
    /// The right input is kept in a table by the values of its keys.
    Hash { left: Vec<Expr>, right: Vec<Expr> },
}

#[derive(Clone, Debug)]
pub struct Aggregate {
    pub input: Node,
    pub keys: Vec<Expr>,
    pub calls: Vec<AggregateCall>,
}

/// An aggregate over the rows of a group.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    pub function: super::call::AggregateFunction,
    pub arguments: Vec<Expr>,
    pub is_distinct: bool,
    pub order: Vec<SortKey>,
    pub filter: Option<Expr>,
    pub data_type: Type,
}

impl AggregateCall {
    /// Whether its state grows with the rows of a group.
    pub fn keeps_rows(&self) -> bool {
        self.is_distinct || !self.order.is_empty() || self.function.aggregate.keeps_rows
    }
}

#[derive(Clone, Debug)]
pub struct Window {
    pub input: Node,
    pub partition: Vec<Expr>,
    pub order: Vec<SortKey>,
    pub calls: Vec<WindowCall>,
}

/// A window function with its frame.
#[derive(Clone, Debug)]
pub struct WindowCall {
    pub function: OverWindow,
    pub arguments: Vec<Expr>,
    pub filter: Option<Expr>,
    pub frame: Frame,
    pub data_type: Type,
}

/// A function over the rows around one.
#[derive(Clone, Debug)]
pub enum OverWindow {
    Aggregate(super::call::AggregateFunction),
    Function(WindowFunction),
}

/// The rows of a window that an aggregate sees.
#[derive(Clone, Debug)]
pub struct Frame {
    pub unit: FrameUnit,
    pub start: FrameEnd,
    pub end: FrameEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    Rows,
    Range,
    Groups,
}

/// An end of a frame; offsets do not read rows.
#[derive(Clone, Debug)]
pub enum FrameEnd {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

/// A key of an order.
#[derive(Clone, Debug)]
pub struct SortKey {
    pub expression: Expr,
    pub descends: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug)]
pub struct Sort {
    pub input: Node,
    pub keys: Vec<SortKey>,
    /// The number of rows that are wanted, if a limit follows.
    pub wanted: Option<Expr>,
}

#[derive(Clone, Debug)]
pub struct Limit {
    pub input: Node,
    pub count: Option<Expr>,
    pub offset: Option<Expr>,
    /// Keys of the order, if rows that equal the last one come too.
    pub ties: Option<Vec<SortKey>>,
}

#[derive(Clone, Debug)]
pub struct Distinct {
    pub input: Node,
    /// Rows are the same if these are; all columns if there are none.
    pub on: Option<Vec<Expr>>,
}

/// Kind of a set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    Union,
    Intersect,
    Except,
}

#[derive(Clone, Debug)]
pub struct SetOperation {
    pub kind: SetKind,
    pub all: bool,
    pub left: Node,
    pub right: Node,
}

#[derive(Clone, Debug)]
pub struct Shared {
    /// Its number in the statement.
    pub number: usize,
    pub node: Node,
    pub width: usize,
}

#[derive(Clone, Debug)]
pub struct Recursive {
    /// Its number in the statement.
    pub number: usize,
    pub start: Node,
    pub step: Node,
    pub all: bool,
    pub width: usize,
}

#[derive(Clone, Debug)]
pub struct Working {
    /// The number of the recursive query.
    pub number: usize,
    pub width: usize,
}

#[derive(Clone, Debug)]
pub struct Lock {
    pub input: Node,
    pub tables: Vec<LockTarget>,
    /// The condition of the query, tested again on rows that have changed.
    pub recheck: Option<Expr>,
}

/// A table whose rows are locked.
#[derive(Clone, Debug)]
pub struct LockTarget {
    pub source: Source,
    /// The position of its first column in the row.
    pub start: usize,
    pub strength: indelible::RowLock,
    pub busy: Busy,
}

/// The remedy for a row that others have locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    Wait,
    Fail,
    Skip,
}

impl Node {
    /// Columns of its rows.
    pub fn width(&self) -> usize {
        match self {
            Self::Values(values) => values.width,
            Self::Scan(scan) => scan.source.width(),
            Self::System(system) => system.columns.len(),
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
