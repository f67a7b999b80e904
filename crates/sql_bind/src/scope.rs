//! The columns that a part of a query sees.
//!
//! A column that a join with `USING` has merged hides those that it was made of.

use crate::error::{Result, SqlError, SqlState};
use crate::plan::{AggregateCall, Expr, Source, TableRows, WindowCall};
use crate::types::{Kind, RecordShape, Type};
use sqlparser::ast::WindowSpec;
use std::sync::Arc;

/// Columns of one query, and what its expressions have asked for.
#[derive(Default)]
pub struct Scope {
    /// The columns.
    pub(crate) columns: Vec<ScopeColumn>,
    /// Names of the tables, in their order; for `t.*` and rows of tables.
    pub(crate) tables: Vec<ScopeTable>,
    /// Width of the row.
    pub(crate) width: usize,
    pub(super) clause: Clause,
    pub(super) aggregates: Vec<AggregateCall>,
    pub(super) windows: Vec<PendingWindow>,
    /// Keys of calls of `GROUPING`.
    pub(super) groupings: Vec<Vec<Expr>>,
    pub(super) named_windows: Vec<(String, WindowSpec)>,
    /// Whether a function that gives a set was met.
    pub(super) has_sets: bool,
}

/// A table of `FROM`.
#[derive(Clone, Debug)]
pub(crate) struct ScopeTable {
    /// Its name in the statement. One that has the name of a table of another schema has the name
    /// of its schema too.
    pub alias: String,
    /// The name that it has in common with a table of another schema before it.
    pub common_name: Option<String>,
    /// The schema that may stand before its name: empty where an alias hides it, none if it does
    /// not matter.
    pub schema: Option<String>,
    /// Positions in the row of its columns.
    pub columns: Vec<usize>,
    /// Its rows, if it is a table.
    pub rows: Option<crate::plan::TableRows>,
    /// The number of the table that a row is from, over the row; none if it has none.
    pub table_oid: Option<Expr>,
    /// The place of a row in its table, over the row; none if it has none.
    pub row_place: Option<Expr>,
    /// For the rows that a statement inserts: 0, or another number for a row that it has changed
    /// because its key was there.
    pub changed_by: Option<Expr>,
    /// An expression over the row that is NULL where the table has no row, because it is on the
    /// side of an outer join that may have none.
    pub presence: Option<Expr>,
    /// Whether it is a table or a view itself, and no query.
    pub is_stored: bool,
    /// Whether its row is the value of its only column: that of a function.
    pub is_value: bool,
    /// The place of its name in a text that the catalogue keeps.
    pub place: Option<usize>,
    /// The reason why a clause that locks rows cannot name it.
    pub unlockable: Option<&'static str>,
}

impl ScopeTable {
    /// The name that it has without its schema.
    fn name(&self) -> &str {
        self.common_name.as_deref().unwrap_or(&self.alias)
    }

    /// The table that its rows are of, and the place of its first column.
    fn own_rows(&self) -> Option<(&Source, usize)> {
        match (&self.rows, self.columns.first()) {
            (Some(TableRows::Own(source)), Some(first)) => Some((source, *first)),
            _ => None,
        }
    }

    /// A column of its rows that is never NULL.
    fn never_null(&self) -> Option<Expr> {
        if let Some(TableRows::OfFamily(_)) = &self.rows {
            return self.table_oid.clone();
        }
        let (source, first) = self.own_rows()?;
        let key = source.key.first()?;
        Some(Expr::Column(first + key, source.column_type(*key)))
    }
}

/// A column that can be named.
#[derive(Clone, Debug)]
pub(crate) struct ScopeColumn {
    /// The table's alias; none for a column that a join with `USING` has merged.
    pub table: Option<Arc<str>>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub expression: Expr,
    /// Whether it can be named without its table, and is part of `*`.
    pub is_visible: bool,
    /// Number of the table, and position in it from 1.
    pub origin: (u32, i16),
    /// Names and types of its fields, if it is a row of no type of the catalogue.
    pub fields: Option<Arc<RecordShape>>,
}

/// A window function that waits for its window.
#[derive(Clone, Debug)]
pub(super) struct PendingWindow {
    pub(super) call: WindowCall,
    pub(super) partition: Vec<Expr>,
    pub(super) order: Vec<crate::plan::SortKey>,
}

/// The part of a statement that an expression is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Clause {
    #[default]
    Select,
    From,
    Where,
    JoinOn,
    GroupBy,
    Having,
    OrderBy,
    Limit,
    Values,
    /// The single row of an INSERT.
    ValuesRow,
    Set,
    Returning,
    /// Inside the arguments of an aggregate.
    Aggregate,
    /// Inside a window function or its window.
    Window,
    /// In the catalogue: a check, a default or a generated column.
    Stored,
}

impl Clause {
    /// Its name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::From => "functions in FROM",
            Self::Where => "WHERE",
            Self::JoinOn => "JOIN conditions",
            Self::GroupBy => "GROUP BY",
            Self::Having => "HAVING",
            Self::OrderBy => "ORDER BY",
            Self::Limit => "LIMIT",
            Self::Values | Self::ValuesRow => "VALUES",
            Self::Set => "UPDATE",
            Self::Returning => "RETURNING",
            Self::Aggregate => "aggregate arguments",
            Self::Window => "window definitions",
            Self::Stored => "check constraints",
        }
    }
}

impl Scope {
    /// Adds a table whose columns follow those that are there.
    pub(crate) fn add_table(
        &mut self,
        alias: &str,
        columns: impl IntoIterator<Item = (String, Type, (u32, i16))>,
    ) -> Result<()> {
        if self.tables.iter().any(|table| table.alias == alias) {
            let message = format!("table name \"{alias}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
        }
        let table: Arc<str> = alias.into();
        let mut positions = Vec::new();
        for (name, data_type, origin) in columns {
            positions.push(self.width);
            self.columns.push(ScopeColumn {
                table: Some(Arc::clone(&table)),
                name,
                expression: Expr::Column(self.width, data_type),
                is_visible: true,
                origin,
                fields: None,
            });
            self.width += 1;
        }
        self.push_table(alias, positions, None);
        Ok(())
    }

    fn push_table(&mut self, alias: &str, columns: Vec<usize>, unlockable: Option<&'static str>) {
        self.tables.push(ScopeTable {
            alias: alias.to_owned(),
            common_name: None,
            schema: None,
            columns,
            rows: None,
            table_oid: None,
            row_place: None,
            changed_by: None,
            presence: None,
            is_stored: false,
            is_value: false,
            place: None,
            unlockable,
        });
    }

    /// Makes all columns those of a table with this name.
    pub(super) fn name_table(&mut self, alias: &str) {
        let columns = self.columns.iter().enumerate().map(|(at, _)| at);
        self.push_table(alias, columns.collect(), Some("a join"));
    }

    /// Gives the first columns, which two tables have in common, the name of a table as well.
    pub(super) fn name_merged(&mut self, alias: &str, count: usize) -> Result<()> {
        if self.tables.iter().any(|table| table.alias == alias) {
            let message = format!("table name \"{alias}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
        }
        for at in 0..count {
            let column = ScopeColumn {
                table: Some(alias.into()),
                is_visible: false,
                ..self.columns[at].clone()
            };
            self.columns.push(column);
        }
        let columns = (self.columns.len() - count)..self.columns.len();
        self.push_table(alias, columns.collect(), Some("a join"));
        Ok(())
    }

    /// Adds the columns of another scope, whose row follows this one's.
    pub(super) fn append(&mut self, mut other: Self) -> Result<()> {
        self.part_names(&mut other)?;
        let by = self.width as isize;
        for mut table in other.tables {
            let own = [
                &mut table.table_oid,
                &mut table.row_place,
                &mut table.presence,
            ];
            let own = own.into_iter().flatten();
            own.for_each(|one| one.shift(0, by));
            let columns = table.columns.iter().map(|at| at + self.width);
            self.tables.push(ScopeTable {
                columns: columns.collect(),
                ..table
            });
        }
        for mut column in other.columns {
            column.expression.shift(0, by);
            self.columns.push(column);
        }
        self.width += other.width;
        Ok(())
    }

    /// Gives the tables of another scope their schemas as parts of their names, where tables of
    /// other schemas have these names here. Fails if a name is not that of a table itself.
    fn part_names(&self, other: &mut Self) -> Result<()> {
        for table in &mut other.tables {
            let name = table.name();
            let same = self.tables.iter().filter(|own| own.name() == name);
            let mut same = same.peekable();
            if name.is_empty() || same.peek().is_none() {
                continue;
            }
            let schema = table.schema.as_deref().filter(|schema| !schema.is_empty());
            let is_other = |own: &ScopeTable| match (&own.schema, schema) {
                (Some(own), Some(schema)) => !own.is_empty() && own != schema,
                _ => false,
            };
            if !same.all(is_other) {
                let message = format!("table name \"{name}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
            }
            let whole = format!("{}.{name}", schema.unwrap_or_default());
            let before: Arc<str> = table.alias.as_str().into();
            let after: Arc<str> = whole.as_str().into();
            for column in &mut other.columns {
                if column.table.as_ref() == Some(&before) {
                    column.table = Some(Arc::clone(&after));
                }
            }
            table.common_name = Some(name.to_owned());
            table.alias = whole;
        }
        Ok(())
    }

    /// The name by which a table of a schema is known here, if there is one.
    pub(super) fn alias_of(&self, schema: &str, name: &str) -> Option<&str> {
        let mut tables = self.tables.iter().filter(|table| table.name() == name);
        let is_it = |table: &&ScopeTable| table.schema.as_deref().is_none_or(|own| own == schema);
        tables.find(is_it).map(|table| table.alias.as_str())
    }

    /// Whether two tables have this name, which their schemas tell apart.
    pub(super) fn is_common(&self, name: &str) -> bool {
        let mut tables = self.tables.iter();
        tables.any(|table| table.common_name.as_deref() == Some(name))
    }

    /// The columns of the rows, in their order.
    pub(super) fn visible(&self) -> impl Iterator<Item = &ScopeColumn> {
        self.columns.iter().filter(|column| column.is_visible)
    }

    /// A column that tables have beside their own: the number of the table that a row is from, the
    /// place of the row, the transaction that has changed it; the row itself for `xmin`.
    pub(super) fn system_column(
        &self,
        alias: Option<&str>,
        name: &str,
    ) -> Result<Option<ScopeColumn>> {
        let of_table = |table: &ScopeTable| match name {
            "tableoid" => table.table_oid.clone(),
            "ctid" => table.row_place.clone(),
            "xmax" => table.changed_by.clone(),
            "xmin" => self.versioned_row(table),
            _ => None,
        };
        let mut found = self.tables.iter().filter_map(|table| {
            let is_meant = alias.is_none_or(|alias| alias == table.alias);
            Some((table, of_table(table).filter(|_| is_meant)?))
        });
        let first = found.next();
        if found.next().is_some() {
            let message = format!("column reference \"{name}\" is ambiguous");
            return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
        }
        Ok(first.map(|(table, expression)| ScopeColumn {
            table: Some(table.alias.as_str().into()),
            name: name.to_owned(),
            expression,
            is_visible: false,
            origin: (0, 0),
            fields: None,
        }))
    }

    /// The row of a table that has versions: NULL where the table has none.
    fn versioned_row(&self, table: &ScopeTable) -> Option<Expr> {
        if table.table_oid.is_none() && table.row_place.is_none() {
            return None;
        }
        let columns = self.columns.iter();
        let columns = columns.filter(|column| column.table.as_deref() == Some(&*table.alias));
        let fields: Vec<&ScopeColumn> = columns.collect();
        let names = fields.iter().map(|field| field.name.as_str().into());
        let types = fields.iter().map(|field| field.expression.data_type());
        let shape = Arc::new(RecordShape {
            names: names.collect(),
            types: types.collect(),
        });
        let values = fields.iter().map(|field| field.expression.clone());
        let row = Expr::Row(values.collect(), shape);
        let Some(presence) = table.presence.clone() else {
            return Some(row);
        };
        let is_missing = Expr::IsNull(Box::new(presence), false);
        let null = Expr::null(Kind::Record.plain());
        Some(Expr::Case(vec![(is_missing, null)], Box::new(row)))
    }

    /// The tables may have no row: a number that is the same for all rows is none then. Their
    /// presence is told by a column that is never NULL; true if they need one more column for it,
    /// at the end of the row. Tables that always have a row with each other share such a column.
    pub(super) fn make_optional(&mut self) -> bool {
        for table in &mut self.tables {
            let is_fixed = matches!(table.table_oid, Some(Expr::Constant(..)));
            table.table_oid.take_if(|_| is_fixed);
        }
        let is_new = |table: &ScopeTable| table.presence.is_none() && !table.is_value;
        let new = self.tables.iter().filter(|table| is_new(table));
        let shared = new.clone().find_map(ScopeTable::never_null);
        let needs_column = shared.is_none() && new.count() > 0;
        let last = Expr::Column(self.width, Kind::Bool.plain());
        let shared = shared.unwrap_or(last);
        for table in self.tables.iter_mut().filter(|table| is_new(table)) {
            let own = table.never_null();
            table.presence = Some(own.unwrap_or_else(|| shared.clone()));
        }
        needs_column
    }

    /// The presence of tables is not known that a further column would tell.
    pub(super) fn forget_presence(&mut self) {
        for table in &mut self.tables {
            let is_last = |one: &mut Expr| matches!(one, Expr::Column(at, _) if *at == self.width);
            table.presence.take_if(is_last);
        }
    }

    /// The column at a place of the row, if it can be named or is one of a table's rows.
    pub(super) fn column_at(&self, place: usize) -> Option<Expr> {
        let is_it = |one: &&Expr| matches!(one, Expr::Column(at, _) if *at == place);
        let columns = self.columns.iter().map(|column| &column.expression);
        let named = columns.into_iter().find(is_it).cloned();
        named.or_else(|| {
            self.tables.iter().find_map(|table| {
                let (source, first) = table.own_rows()?;
                let at = place.checked_sub(first)?;
                let is_own = at < source.width();
                is_own.then(|| Expr::Column(place, source.column_type(at)))
            })
        })
    }

    /// The column with this name; none if there is none.
    pub(super) fn find(&self, table: Option<&str>, name: &str) -> Result<Option<&ScopeColumn>> {
        let mut matches = self.columns.iter().filter(|column| {
            column.name == name
                && match table {
                    Some(table) => column.table.as_deref() == Some(table),
                    None => column.is_visible,
                }
        });
        let first = matches.next();
        if matches.next().is_some() {
            let message = format!("column reference \"{name}\" is ambiguous");
            return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
        }
        Ok(first)
    }

    /// Whether a name without a table means one of the columns, or several of them.
    pub(super) fn has_column(&self, name: &str) -> bool {
        let is_missing = |found: Result<bool>| matches!(found, Ok(false));
        let own = self.find(None, name).map(|found| found.is_some());
        let of_system = self.system_column(None, name).map(|found| found.is_some());
        !(is_missing(own) && is_missing(of_system))
    }
}
