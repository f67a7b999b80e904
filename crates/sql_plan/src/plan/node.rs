//! Plans: trees of operators, as the binder makes them and the planner improves them.
//!
//! A node's output is a row of columns; an expression in a node reads the row of its input, and of
//! both inputs one after the other in a join. Nodes share their content, so running one costs no
//! copy; before a plan is run nobody else has it, so changing one costs none either.

use super::counters::Counters;
use super::expression::Expr;
use super::partition::PartitionKeys;
use crate::catalog::Oid;
use crate::types::aggregate;
use crate::types::function::Function;
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
    Counted(Arc<Counted>),
}

/// Rows that are written down in the statement, or made of its parameters.
#[derive(Clone, Debug)]
pub struct Values {
    /// The expressions of each row, which read no row.
    pub rows: Vec<Vec<Expr>>,
    /// Columns of each row.
    pub width: usize,
}

/// Columns of a table's row: those of SQL, then the hidden number where rows have one.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The table.
    pub source: Source,
    /// Its name in the statement, if that is another one.
    pub alias: Option<Arc<str>>,
    /// The way to its rows.
    pub access: Access,
    /// A condition over the row that the access does not ensure.
    pub condition: Option<Expr>,
    /// The columns that are read; the others come as NULL.
    pub needed: Vec<bool>,
    /// The partition that the table is of one that the statement names, on each level.
    pub partition: Option<Arc<[PartitionKeys]>>,
    /// Conditions with parameters, which may leave the partition out when the plan runs.
    pub tests: Vec<Expr>,
}

/// A table as plans use it.
#[derive(Clone, Debug)]
pub struct Source {
    /// Number of the table in the catalogue.
    pub oid: u32,
    /// The table's name, for messages and `EXPLAIN`.
    pub name: String,
    /// The table below, which has the rows.
    pub table: indelible::Table,
    /// Types of the columns of SQL.
    pub types: Arc<[Type]>,
    /// Positions of the columns of the key of the table below; the hidden number's is the width.
    pub key: Arc<[usize]>,
    /// Columns of keys, each with the one below that has its values as they were written.
    pub kept: Arc<[(usize, usize)]>,
    /// Names below of the indexes that the catalogue has. The table has others while a transaction
    /// that makes or drops one is open.
    pub indexes: Arc<[String]>,
    /// The columns that refuse NULL, where a plan may read their indexes.
    pub not_null: Arc<[usize]>,
    /// Indexes whose keys are computed, likewise.
    pub computed: Arc<[ComputedIndex]>,
}

impl Source {
    /// The type of a column, the hidden number included.
    pub fn column_type(&self, column: usize) -> Type {
        let of_sql = self.types.get(column).copied();
        of_sql.unwrap_or(Kind::Int8.plain())
    }

    /// The column below that has a column's values as they were written.
    pub fn place_of(&self, column: usize) -> usize {
        let kept = self.kept.iter().find(|(at, _)| *at == column);
        kept.map_or(column, |(_, place)| *place)
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

/// An index whose keys are computed.
#[derive(Clone, Debug)]
pub struct ComputedIndex {
    /// The index below.
    pub name: String,
    /// Those of its keys that are hidden columns.
    pub keys: Vec<ComputedKey>,
    /// Conditions that are true for the rows that it has; none if it has all.
    pub part: Vec<Expr>,
}

/// A hidden column among the keys of an index.
#[derive(Clone, Debug)]
pub struct ComputedKey {
    /// The column.
    pub column: usize,
    /// Its value for the rows that the index has.
    pub value: Expr,
    /// Whether this is never NULL.
    pub is_never_null: bool,
}

/// The way to a table's rows.
#[derive(Clone, Debug)]
pub enum Access {
    /// All rows, in the order of the primary key; backward if asked for.
    All {
        /// Whether the greatest key comes first.
        backward: bool,
    },
    /// Rows whose key columns begin with values, and the next column lies in a range.
    Range(KeyRange),
    /// Rows whose first key columns have one of several lists of values.
    Keys {
        /// The secondary index; none for the primary key.
        index: Option<String>,
        /// Each list of values, one for each of the first key columns.
        keys: Vec<Vec<Expr>>,
    },
    /// Rows whose key columns begin with values, and the next column is an element of an array.
    Elements {
        /// The secondary index; none for the primary key.
        index: Option<String>,
        /// Values of the first columns.
        prefix: Vec<Expr>,
        /// The array, which does not read the table's row.
        array: Expr,
    },
    /// Rows for which the condition of one of several ways is true, each once.
    AnyOf(Vec<Way>),
}

/// A way to the rows for which a branch of an `OR` is true.
#[derive(Clone, Debug)]
pub struct Way {
    /// The access, which finds all of them, and perhaps others.
    pub access: Access,
    /// The branch. A row belongs to the first way for whose branch it is true.
    pub condition: Expr,
}

/// A range of an index.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// The secondary index; none for the primary key.
    pub index: Option<String>,
    /// Values of the first columns. They do not read the table's row.
    pub prefix: Vec<Expr>,
    /// The lower end of the next column; none if the range is open there.
    pub low: Option<Bound>,
    /// The upper end of the next column.
    pub high: Option<Bound>,
    /// The pattern of a `LIKE` by whose beginning the next column has both ends. It may turn out to
    /// have none; then all rows are read.
    pub pattern: Option<Expr>,
    /// The place of rows with NULL in the next column. A range with an end has none of them.
    pub nulls: Nulls,
    /// Whether the greatest key comes first.
    pub backward: bool,
}

/// The place of rows with NULL in a column of an index, for which NULL is the least of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nulls {
    /// Where the index has them: first, and last if it is read backward.
    AsKeys,
    /// Before all others, whichever way it is read.
    First,
    /// After all others.
    Last,
    /// They are left out.
    Skipped,
    /// All others are left out.
    Only,
}

/// An end of a range.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The key at the end; it does not read the table's row.
    pub value: Expr,
    /// Whether rows with this very key are in the range.
    pub is_included: bool,
}

/// A relation of the system, whose rows are made once in a statement.
#[derive(Clone, Debug)]
pub struct System {
    /// Its number.
    pub relation: Oid,
    /// Its name, for messages and `EXPLAIN`.
    pub name: &'static str,
    /// Names and types of its columns.
    pub columns: Box<[(&'static str, Kind)]>,
    /// A column that equals a value, which does not read the row: its rows are looked up.
    pub key: Option<(usize, Expr)>,
    /// A condition over the row that the key does not ensure.
    pub condition: Option<Expr>,
}

/// Functions in `FROM`, whose rows stand side by side.
#[derive(Clone, Debug)]
pub struct Functions {
    /// Functions that give sets; shorter ones are filled up with NULL.
    pub calls: Vec<Expr>,
    /// Columns of each, or none if its value is the only column.
    pub widths: Vec<Option<usize>>,
    /// Whether a last column counts the rows.
    pub has_ordinality: bool,
}

impl Functions {
    /// The number of columns.
    pub fn width(&self) -> usize {
        let widths = self.widths.iter().map(|width| width.unwrap_or(1));
        widths.sum::<usize>() + usize::from(self.has_ordinality)
    }
}

/// Rows of the input for which a condition is true.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The rows to choose from.
    pub input: Node,
    /// Over a row of the input.
    pub condition: Expr,
}

/// Expressions over each row of the input.
#[derive(Clone, Debug)]
pub struct Project {
    /// The rows that the expressions read.
    pub input: Node,
    /// The columns of the output.
    pub expressions: Vec<Expr>,
    /// Whether some of them give sets of rows.
    pub has_sets: bool,
}

/// Pairs of rows of two inputs.
#[derive(Clone, Debug)]
pub struct Join {
    /// Which rows are in the result.
    pub kind: JoinKind,
    /// The outer input.
    pub left: Node,
    /// The inner input, which is searched for each left row.
    pub right: Node,
    /// Over the columns of the left row, then the right one.
    pub condition: Option<Expr>,
    /// The way to find the partners of a left row.
    pub method: JoinMethod,
}

/// The rows of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs only.
    Inner,
    /// Pairs, and left rows without a partner.
    Left,
    /// Pairs, and right rows without a partner.
    Right,
    /// Pairs, and rows of both sides without a partner.
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
    Hash {
        /// The keys over a left row.
        left: Vec<Expr>,
        /// The keys over a right row, in the same order.
        right: Vec<Expr>,
        /// The conditions that the keys stand for, over both rows, until the method is settled.
        equalities: Vec<Expr>,
    },
}

/// Groups of rows that agree in all keys; without keys one group of all rows.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// The rows that are grouped.
    pub input: Node,
    /// Expressions over a row of the input; the first columns of the output.
    pub keys: Vec<Expr>,
    /// Aggregates over each group; the other columns.
    pub calls: Vec<AggregateCall>,
    /// Whether the rows of a group come one after the other.
    pub is_ordered: bool,
}

/// An aggregate that the binder has chosen.
#[derive(Clone, Debug)]
pub struct AggregateFunction {
    /// Its entry among all functions.
    pub function: &'static Function,
    /// The steps of its state.
    pub aggregate: aggregate::Aggregate,
    /// Types of the arguments.
    pub argument_types: Arc<[Type]>,
}

/// An aggregate over the rows of a group.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// The aggregate.
    pub function: AggregateFunction,
    /// Over a row of the input.
    pub arguments: Vec<Expr>,
    /// Whether equal arguments count once.
    pub is_distinct: bool,
    /// The order in which the aggregate sees its rows, if it matters.
    pub order: Vec<SortKey>,
    /// Only rows for which it is true are seen.
    pub filter: Option<Expr>,
    /// Type of the result.
    pub data_type: Type,
}

impl AggregateCall {
    /// Whether its state grows with the rows of a group.
    pub fn keeps_rows(&self) -> bool {
        self.is_distinct || !self.order.is_empty() || self.function.aggregate.keeps_rows
    }
}

/// Rows of the input with the results of window functions after their columns.
#[derive(Clone, Debug)]
pub struct Window {
    /// The rows.
    pub input: Node,
    /// Rows that agree in these are one partition.
    pub partition: Vec<Expr>,
    /// The order of rows inside a partition.
    pub order: Vec<SortKey>,
    /// The functions, each a further column.
    pub calls: Vec<WindowCall>,
    /// Whether the rows come partition after partition, each in the order.
    pub is_ordered: bool,
    /// The rows of a partition that are wanted, if these are the first ones.
    pub stop: Option<Stop>,
}

/// The end of what is wanted of a partition: a number that grows from row to row.
#[derive(Clone, Debug)]
pub struct Stop {
    /// The function whose values are these numbers.
    pub call: usize,
    /// The greatest number that is wanted. It reads no row.
    pub last: Expr,
}

/// A window function with its frame.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// The function, or an aggregate over the frame.
    pub function: OverWindow,
    /// Over a row of the input.
    pub arguments: Vec<Expr>,
    /// Only rows of the frame for which it is true are seen.
    pub filter: Option<Expr>,
    /// The rows around the current one that are seen.
    pub frame: Frame,
    /// Type of the result.
    pub data_type: Type,
}

/// A function over the rows around one.
#[derive(Clone, Debug)]
pub enum OverWindow {
    /// An aggregate over the rows of the frame.
    Aggregate(AggregateFunction),
    /// A function of the place in the partition, such as `rank`.
    Function(WindowFunction),
}

/// The rows of a window that an aggregate sees.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The unit in which the ends are counted.
    pub unit: FrameUnit,
    /// The first row of the frame.
    pub start: FrameEnd,
    /// The last row of the frame.
    pub end: FrameEnd,
    /// The rows between them that are left out.
    pub excluded: Excluded,
}

/// Rows that are left out of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excluded {
    /// None.
    Nothing,
    /// The row itself.
    CurrentRow,
    /// The row and its equals in the order.
    Group,
    /// Its equals in the order without itself.
    Ties,
}

/// Unit of the ends of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameUnit {
    /// Single rows.
    Rows,
    /// Distances between values of the order's key.
    Range,
    /// Groups of rows that are equal in the order.
    Groups,
}

/// An end of a frame; offsets do not read rows.
#[derive(Clone, Debug)]
pub enum FrameEnd {
    /// The first row of the partition.
    UnboundedPreceding,
    /// So far before the current row.
    Preceding(Expr),
    /// The current row, or its equals in the order.
    CurrentRow,
    /// So far after the current row.
    Following(Expr),
    /// The last row of the partition.
    UnboundedFollowing,
}

/// A key of an order.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// The key of a row.
    pub expression: Expr,
    /// Whether the greatest key comes first.
    pub descends: bool,
    /// Whether NULL comes before all other keys.
    pub nulls_first: bool,
}

/// The rows of the input in an order.
#[derive(Clone, Debug)]
pub struct Sort {
    /// The rows.
    pub input: Node,
    /// The keys, the most significant one first.
    pub keys: Vec<SortKey>,
    /// The rows that are wanted, if a limit follows.
    pub wanted: Option<Wanted>,
    /// If the rows come in the order of an index, the bytes by which it orders contents, for each
    /// key; none for a key that it orders by all of them. Only rows that share so many bytes of
    /// longer contents are in no order among them. With no bytes, rows that share all
    /// keys before are in no order.
    pub presorted: Option<Vec<Option<usize>>>,
}

/// The rows of a sort that a limit asks for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// How many it hands over; all, if it is NULL.
    pub count: Expr,
    /// How many it leaves out before them.
    pub skipped: Option<Expr>,
}

/// The first rows of the input, or those after some.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The rows.
    pub input: Node,
    /// How many rows are given; all if there is none, or if it is NULL.
    pub count: Option<Expr>,
    /// How many rows are left out before them.
    pub offset: Option<Expr>,
    /// Keys of the order, if rows that equal the last one come too.
    pub ties: Option<Vec<SortKey>>,
}

/// The rows of the input, each one once.
#[derive(Clone, Debug)]
pub struct Distinct {
    /// The rows, in an order in which the first of equal ones is wanted.
    pub input: Node,
    /// Rows are the same if these are; all columns if there are none.
    pub on: Option<Vec<Expr>>,
}

/// Kind of a set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// Rows of either side.
    Union,
    /// Rows of both sides.
    Intersect,
    /// Rows of the left side that the right one lacks.
    Except,
}

/// Rows of two inputs with the same columns, put together.
#[derive(Clone, Debug)]
pub struct SetOperation {
    /// The operation.
    pub kind: SetKind,
    /// Whether repeated rows count, instead of one of each.
    pub all: bool,
    /// The first input.
    pub left: Node,
    /// The second input.
    pub right: Node,
    /// The order of both inputs, if the rows of a `UNION ALL` are to keep it.
    pub order: Option<Vec<SortKey>>,
}

/// A query of `WITH`, which runs once for all of its uses.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Its number in the statement.
    pub number: usize,
    /// The query.
    pub node: Node,
    /// Columns of its rows.
    pub width: usize,
    /// Whether it runs for itself even where it is used once.
    pub is_kept: bool,
    /// The rows that are expected, once its plan has been improved.
    pub rows: Option<f64>,
}

/// A recursive query: its rows are those of the start and of all rounds of the step.
#[derive(Clone, Debug)]
pub struct Recursive {
    /// Its number in the statement.
    pub number: usize,
    /// The part that does not read the query itself.
    pub start: Node,
    /// The part that is run again over the rows that the last round has added.
    pub step: Node,
    /// Whether repeated rows are kept.
    pub all: bool,
    /// Columns of its rows.
    pub width: usize,
}

/// The rows that the last round of a recursive query has added, inside of its step.
#[derive(Clone, Debug)]
pub struct Working {
    /// The number of the recursive query.
    pub number: usize,
    /// Types of the columns of these rows.
    pub types: Arc<[Type]>,
}

/// Rows of the input, locked in their tables as they pass (`FOR UPDATE` and its like).
#[derive(Clone, Debug)]
pub struct Lock {
    /// The rows, with the keys of the tables.
    pub input: Node,
    /// The tables whose rows are locked.
    pub tables: Vec<LockTarget>,
    /// The condition of the query, tested again on rows that have changed.
    pub recheck: Option<Expr>,
}

/// The rows of a table.
#[derive(Clone, Debug)]
pub enum TableRows {
    /// Its own.
    Own(Source),
    /// Those of several tables that it stands for: in a row the table's columns are followed by
    /// the number of the member that the row is from, and by the member's key.
    OfFamily(Arc<[FamilyMember]>),
}

/// A table that inherits from another one, or a partition of it.
#[derive(Clone, Debug)]
pub struct FamilyMember {
    /// The table.
    pub source: Source,
    /// The places in it of the other table's columns.
    pub columns: Vec<usize>,
}

/// A table whose rows are locked.
#[derive(Clone, Debug)]
pub struct LockTarget {
    /// The rows.
    pub rows: TableRows,
    /// The position of its first column in the row.
    pub start: usize,
    /// The kind of lock.
    pub strength: indelible::RowLock,
    /// The remedy if another transaction has the row.
    pub busy: Busy,
}

/// The remedy for a row that others have locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// It is waited for.
    Wait,
    /// The statement fails (`NOWAIT`).
    Fail,
    /// The row is left out (`SKIP LOCKED`).
    Skip,
}

/// A node whose work is counted.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The node.
    pub input: Node,
    /// The counts, which all runs of the node share.
    pub counters: Arc<Counters>,
}

impl Node {
    /// A node without rows, for the place of one that moves.
    pub fn nothing() -> Self {
        Values {
            rows: Vec::new(),
            width: 0,
        }
        .into()
    }

    /// Columns of its rows.
    pub fn width(&self) -> usize {
        match self {
            Self::Values(values) => values.width,
            Self::Scan(scan) => scan.source.width(),
            Self::System(system) => system.columns.len(),
            Self::Functions(functions) => functions.width(),
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
            Self::Working(working) => working.types.len(),
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

impl From<Counted> for Node {
    fn from(content: Counted) -> Self {
        Self::Counted(Arc::new(content))
    }
}

impl From<super::modify::Modify> for Node {
    fn from(content: super::modify::Modify) -> Self {
        Self::Modify(Arc::new(content))
    }
}
