//! Names of a text that the catalogue keeps, as they were found when it was bound.
//!
//! A query is kept with full names, which mean the same for every search path, and with a list of
//! columns in place of `*`, to which later columns do not belong. When an object or a column gets
//! another name, the texts that name it are written anew. A table whose name a query uses without
//! an alias keeps that name there as its alias.

use super::Binder;
use super::names::{SessionNames, quoted};
use super::scope::{Clause, Scope, ScopeColumn, ScopeTable};
use crate::catalog::{Body, Catalog, Oid};
use crate::error::Result;
use crate::types::{Kind, Names as _};
use sql_parse::Places;
use sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query, Spanned,
    Value,
};
use sqlparser::tokenizer::Span;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A name in a text.
enum Found {
    /// A relation, function or type of a user.
    Object {
        oid: Oid,
        /// The name by which other parts of the query know it, unless it has an alias.
        known_as: Option<String>,
    },
    /// A sequence, by its name in a literal.
    Sequence { oid: Oid },
    /// A column, or those of `*`.
    Columns { columns: Vec<Named>, is_star: bool },
}

/// A column of a part of `FROM`.
struct Named {
    /// The name of the part; none for a column that `USING` has merged.
    part: Option<Arc<str>>,
    name: String,
    /// The table and the position there, if it is the column of a table itself.
    base: Option<(Oid, usize)>,
}

/// All names of a text.
#[derive(Default)]
pub(super) struct Log {
    /// By the first byte and the one after the last.
    found: BTreeMap<(usize, usize), Found>,
    /// First bytes of columns that are items of a list, and give them their names.
    items: BTreeSet<usize>,
    /// Columns of tables that `USING` or `NATURAL` joins: they cannot get other names.
    merged: BTreeSet<(Oid, usize)>,
}

/// A text that the catalogue keeps, with its names as they were found.
pub struct Resolved {
    text: String,
    log: Log,
}

impl Resolved {
    /// The text with the names that its objects have now; temporary ones are named without schema.
    pub fn text(&self, names: &SessionNames) -> String {
        let mut text = self.text.clone();
        for ((start, end), found) in self.log.found.iter().rev() {
            let name = match found {
                Found::Object { oid, known_as } => object_text(names, *oid, known_as.as_deref()),
                Found::Sequence { oid } => {
                    let name = object_text(names, *oid, None);
                    name.map(|name| format!("'{}'", name.replace('\'', "''")))
                }
                Found::Columns { columns, is_star } => {
                    let is_item = *is_star || self.log.items.contains(start);
                    let columns = columns.iter();
                    let columns = columns.map(|column| column.text(&names.catalog, is_item));
                    Some(columns.collect::<Vec<_>>().join(", "))
                }
            };
            if let Some(name) = name {
                text.replace_range(*start..*end, &name);
            }
        }
        text
    }

    /// Whether the text names a relation, a function or a type.
    pub fn names_object(&self, wanted: Oid) -> bool {
        let mut found = self.log.found.values();
        found.any(|found| matches!(found, Found::Object { oid, .. } if *oid == wanted))
    }

    /// Whether the text joins a column of a table by its name.
    pub fn merges_column(&self, table: Oid, at: usize) -> bool {
        self.log.merged.contains(&(table, at))
    }

    /// Whether the text names a column of a table.
    pub fn names_column(&self, table: Oid, at: usize) -> bool {
        let mut found = self.log.found.values();
        self.merges_column(table, at)
            || found.any(|found| match found {
                Found::Columns { columns, .. } => {
                    let mut columns = columns.iter();
                    columns.any(|column| column.base == Some((table, at)))
                }
                Found::Object { .. } | Found::Sequence { .. } => false,
            })
    }
}

impl Named {
    fn text(&self, catalog: &Catalog, is_item: bool) -> String {
        let mut text = match &self.part {
            Some(part) => format!("{}.", quoted(part)),
            None => String::new(),
        };
        let name = match self.base {
            Some((table, at)) => column_of(catalog, table, at),
            None => None,
        };
        let name = name.unwrap_or(&self.name);
        text += &quoted(name);
        if is_item && name != self.name {
            text = format!("{text} AS {}", quoted(&self.name));
        }
        text
    }
}

fn column_of(catalog: &Catalog, table: Oid, at: usize) -> Option<&str> {
    match &catalog.object(table)?.body {
        Body::Table(table) => Some(&table.columns.get(at)?.name),
        _ => None,
    }
}

/// The name of an object; none if it is gone, and the text stays as it is.
fn object_text(names: &SessionNames, oid: Oid, known_as: Option<&str>) -> Option<String> {
    let object = names.catalog.object(oid)?;
    let mut text = quoted(&object.name);
    if let Some(schema) = names.catalog.object(object.namespace)
        && names.temporary != Some(schema.oid)
    {
        text = format!("{}.{text}", quoted(&schema.name));
    }
    if let Some(known_as) = known_as.filter(|known_as| *known_as != object.name) {
        text = format!("{text} AS {}", quoted(known_as));
    }
    Some(text)
}

impl<'b> Binder<'b> {
    /// The names of a query whose text is that of the binder's places. A text with `SEARCH` or
    /// `CYCLE` stays as it was written.
    ///
    /// # Errors
    ///
    /// Those of the query.
    pub fn resolved(&mut self, query: &Query) -> Result<Resolved> {
        // The places of names are not known where `SEARCH` and `CYCLE` were read in other words.
        let has_places = !self.places.text().contains(sql_parse::MARK);
        self.log = has_places.then(RefCell::default);
        let bound = self.query(query);
        let log = self.log.take().unwrap_or_default().into_inner();
        let text = self.places.text().to_owned();
        bound.map(|_| Resolved { text, log })
    }

    /// As [`Binder::resolved`], of an expression over the rows of a table, or over none.
    ///
    /// # Errors
    ///
    /// Those of the expression.
    pub fn resolved_expression(
        &mut self,
        tree: &Expr,
        (scope, table): (Scope, Option<Oid>),
    ) -> Result<Resolved> {
        self.log = Some(RefCell::default());
        let (bound, _) = self.expression_in(scope, Clause::Stored, tree);
        let mut log = self.log.take().unwrap_or_default().into_inner();
        let catalog = &self.names.catalog;
        let table = table.and_then(|oid| catalog.object(oid));
        for found in log.found.values_mut() {
            if let Found::Columns { columns, .. } = found {
                for column in columns {
                    column.part = None;
                    column.base = table.and_then(|table| match &table.body {
                        Body::Table(body) => Some((table.oid, body.column(&column.name)?)),
                        _ => None,
                    });
                }
            }
        }
        let text = self.places.text().to_owned();
        bound.map(|_| Resolved { text, log })
    }

    /// Notes the sequence that a function of sequences is called with, by the text of its name.
    pub(super) fn note_sequence(&self, function: &str, arguments: &FunctionArguments) {
        let FunctionArguments::List(list) = arguments else {
            return;
        };
        if self.log.is_none() || !matches!(function, "nextval" | "currval" | "setval") {
            return;
        }
        let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(mut tree))) =
            list.args.first().cloned()
        else {
            return;
        };
        while let Expr::Cast { expr, .. } = tree {
            tree = *expr;
        }
        if let Expr::Value(value) = tree
            && let Value::SingleQuotedString(name) = &value.value
            && let Ok(oid) = self.names.object_oid(Kind::Regclass, name)
        {
            self.note(value.span, || Found::Sequence { oid });
        }
    }

    /// The log, if the names of the text itself are read, and not those of a view or a function.
    fn log(&self) -> Option<(&RefCell<Log>, &'b Places)> {
        let log = self.log.as_ref().filter(|_| self.views.is_empty())?;
        Some((log, self.places))
    }

    fn note(&self, span: Span, found: impl FnOnce() -> Found) {
        if let Some((log, places)) = self.log()
            && places.start(span).is_some()
        {
            let place = (places.byte(span.start), places.byte(span.end));
            log.borrow_mut().found.insert(place, found());
        }
    }

    /// Notes a relation, a function or a type.
    pub(super) fn note_object(&self, name: &ObjectName, oid: Oid, known_as: Option<&str>) {
        self.note(name.span(), || Found::Object {
            oid,
            known_as: known_as.map(str::to_owned),
        });
    }

    /// Notes the name of a type, unless it is the system's.
    pub(super) fn note_type(&self, name: &DataType) {
        match name {
            DataType::Array(sqlparser::ast::ArrayElemTypeDef::SquareBracket(element, _)) => {
                self.note_type(element);
            }
            DataType::Custom(name, _) if self.log.is_some() => {
                if let Ok((schema, text)) = super::object_name(name)
                    && let Some((_, object)) = self.names.user_type(schema.as_deref(), &text)
                {
                    self.note_object(name, object.oid, None);
                }
            }
            _ => {}
        }
    }

    /// Notes a column of a query that is `level` out.
    pub(super) fn note_column(&self, span: Span, column: &ScopeColumn, level: usize) {
        let Some(part) = column.table.as_deref().filter(|part| !part.is_empty()) else {
            return;
        };
        if self.log.is_none() {
            return;
        }
        let outer = self.scopes.len().saturating_sub(level);
        let (outer, inner) = self.scopes.split_at(outer);
        let mut named = Named {
            part: column.table.clone(),
            name: column.name.clone(),
            base: outer
                .last()
                .and_then(|scope| self.base(column, &scope.tables)),
        };
        // A part of a query within has the same name, so the column has none before it.
        let mut tables = inner.iter().flat_map(|scope| &scope.tables);
        if tables.any(|table| table.alias == part) {
            named.part = None;
        }
        self.note(span, || Found::Columns {
            columns: vec![named],
            is_star: false,
        });
    }

    /// Notes the columns in place of a `*`.
    pub(super) fn note_star<'c>(&self, span: Span, columns: impl Iterator<Item = &'c ScopeColumn>) {
        if self.log.is_none() {
            return;
        }
        let columns: Vec<Named> = columns.map(|column| self.named(column)).collect();
        if !columns.is_empty() {
            self.note(span, || Found::Columns {
                columns,
                is_star: true,
            });
        }
    }

    /// Notes that an expression is an item of a list which has no name of its own.
    pub(super) fn note_item(&self, tree: &Expr) {
        if let Some((log, places)) = self.log()
            && matches!(tree, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        {
            log.borrow_mut()
                .items
                .insert(places.byte(tree.span().start));
        }
    }

    /// Notes columns that `USING` or `NATURAL` joins, and so names.
    pub(super) fn note_merged(&self, scope: &Scope, columns: [usize; 2]) {
        if let Some((log, _)) = self.log() {
            let bases = columns.map(|at| self.base(&scope.columns[at], &scope.tables));
            log.borrow_mut().merged.extend(bases.into_iter().flatten());
        }
    }

    fn named(&self, column: &ScopeColumn) -> Named {
        let part = column.table.clone().filter(|part| !part.is_empty());
        let scopes = self.scopes.iter().rev();
        let named = |scope: &&Scope| {
            scope
                .tables
                .iter()
                .any(|one| Some(&*one.alias) == part.as_deref())
        };
        let tables = scopes
            .filter(named)
            .map(|scope| scope.tables.as_slice())
            .next();
        Named {
            base: self.base(column, tables.unwrap_or(&[])),
            part,
            name: column.name.clone(),
        }
    }

    /// The table and the position there of a column, if it is that of a table itself.
    fn base(&self, column: &ScopeColumn, tables: &[ScopeTable]) -> Option<(Oid, usize)> {
        let part = column.table.as_deref()?;
        let table = tables.iter().find(|table| table.alias == part)?;
        let (oid, position) = column.origin;
        let at = usize::try_from(position - 1).ok()?;
        let is_it = column_of(&self.names.catalog, oid, at) == Some(&*column.name);
        (table.is_stored && is_it).then_some((oid, at))
    }
}
