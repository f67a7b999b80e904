//! Copies of parts of a syntax tree, compiled once.
//!
//! An expression may hold a query, and a query any statement, so `clone` of one of them compiles
//! the copies of all kinds of nodes into the room that calls it: a fifth of the code of `sql_bind`
//! was that. The rooms above call [`Copied::copied`] and [`is_same`] instead.

use sqlparser::ast::{
    AlterTableOperation, ColumnDef, CreateIndex, Cte, Expr, ForeignKeyConstraint, FunctionArg,
    OrderByExpr, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    WildcardAdditionalOptions, WindowFrame, WindowSpec,
};

/// A part of a syntax tree, whose copy is compiled here.
pub trait Copied {
    /// As `clone`.
    #[must_use]
    fn copied(&self) -> Self;
}

macro_rules! copied {
    ($($part:ty),* $(,)?) => {$(
        impl Copied for $part {
            #[inline(never)]
            fn copied(&self) -> Self {
                self.clone()
            }
        }
    )*};
}

copied!(
    AlterTableOperation,
    ColumnDef,
    CreateIndex,
    Cte,
    Expr,
    ForeignKeyConstraint,
    FunctionArg,
    OrderByExpr,
    Query,
    Select,
    SelectItem,
    SetExpr,
    Statement,
    TableFactor,
    WildcardAdditionalOptions,
    WindowFrame,
    WindowSpec,
    Vec<Expr>,
    Vec<Vec<Expr>>,
    Vec<FunctionArg>,
    Vec<OrderByExpr>,
);

impl<T: Copied> Copied for Box<T> {
    fn copied(&self) -> Self {
        Self::new((**self).copied())
    }
}

/// Whether two expressions are equal, as `==`.
pub fn is_same(left: &Expr, right: &Expr) -> bool {
    left == right
}
