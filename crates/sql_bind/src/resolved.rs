//! Names of a text that the catalogue keeps, as they were found when it was bound.
//!
//! A query is kept with full names, which mean the same for every search path, and with a list of
//! columns in place of `*` and `NATURAL`, to which later columns do not belong. When an object or a
//! column gets another name, the texts that name it are written anew. A table whose name a query
//! uses without an alias keeps that name there as its alias, and a column by which it joins tables
//! with `USING` keeps its name in a list after the alias.

use super::names::{SessionNames, quoted};
use super::scope::{Clause, Scope, ScopeColumn, ScopeTable};
use super::{Binder, TextOrigin};
use crate::catalog::{Body, Catalog, Oid};
use crate::error::Result;
use crate::plan::Expr as Constant;
use crate::types::array::Array;
use crate::types::{Context, Datum, Kind, Names as _, Record, Settings, Type, text_io};
use sql_parse::LineIndex;
use sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query, Spanned,
    TableAlias, Value,
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
    /// A literal that was read as a value whose text may change.
    Value { value: Datum, kind: Kind },
    /// The alias of a table of `FROM`, and the names that it gives to columns.
    Alias {
        /// The place of the table's name.
        part: usize,
        oid: Oid,
        alias: String,
        listed: Vec<String>,
    },
}

/// A column of a part of `FROM`.
struct Named {
    /// The name of the part; none for a column that `USING` has merged.
    part: Option<Arc<str>>,
    name: String,
    /// The table and the position there, if it is the column of a table itself.
    base: Option<(Oid, usize)>,
    /// Whether the query gives it another name than the table does.
    is_renamed: bool,
    /// The place of the table's name.
    place: Option<usize>,
}

/// All names of a text.
#[derive(Default)]
pub(super) struct Log {
    /// By the first byte and the one after the last.
    found: BTreeMap<(usize, usize), Found>,
    /// First bytes of columns that are items of a list, and give them their names.
    items: BTreeSet<usize>,
    /// Columns of tables that `USING` joins, with the names by which it does: by the place of the
    /// table's name, and the position in the table. They keep these names in the query.
    merged: BTreeMap<usize, BTreeMap<usize, String>>,
    /// Names of the columns that `NATURAL` joins, by the first byte of the right side.
    natural: BTreeMap<usize, Vec<String>>,
    /// Texts of literals, and their places: the context says what they are later.
    literals: Vec<(Arc<str>, Span)>,
}

/// A text that the catalogue keeps, with its names as they were found.
pub struct Resolved {
    text: String,
    log: Log,
    /// A column that a table has lost since, and the table.
    dropped: Option<(Oid, usize)>,
}

impl Resolved {
    /// The text with the names that its objects have now; temporary ones are named without schema.
    pub fn text(&self, names: &SessionNames) -> String {
        let mut text = self.text.clone();
        for ((start, end), found) in self.log.found.iter().rev() {
            let name = match found {
                Found::Object { oid, known_as } => {
                    let listed = known_as.as_ref();
                    let listed = listed.and_then(|_| self.listed((*start, *oid), &[], names));
                    let known_as = known_as.as_deref();
                    object_text(names, *oid, known_as, listed.as_deref())
                }
                Found::Sequence { oid } => {
                    let name = object_text(names, *oid, None, None);
                    name.map(|name| format!("'{}'", name.replace('\'', "''")))
                }
                Found::Columns { columns, is_star } => {
                    let is_item = *is_star || self.log.items.contains(start);
                    let columns = columns.iter();
                    let columns = columns.map(|column| self.column_text(column, names, is_item));
                    Some(columns.collect::<Vec<_>>().join(", "))
                }
                Found::Value { value, kind } => {
                    let context = Context {
                        settings: &Settings::default(),
                        names,
                        transaction_start: 0,
                        statement_start: 0,
                    };
                    let value = labelled(value, *kind, names);
                    let value = text_io::print(&value, *kind, &context).ok();
                    value.map(|value| format!("'{}'", value.replace('\'', "''")))
                }
                Found::Alias {
                    part,
                    oid,
                    alias,
                    listed,
                } => {
                    let new = self.listed((*part, *oid), listed, names);
                    // The bracket after a list that was there is no part of the place.
                    let bracket = if listed.is_empty() { ")" } else { "" };
                    new.map(|new| format!("{}({}{bracket}", quoted(alias), new))
                }
            };
            if let Some(name) = name {
                text.replace_range(*start..*end, &name);
            }
        }
        text
    }

    /// The text with `USING` in place of `NATURAL`; none if it has no `NATURAL`.
    pub fn without_natural(&self) -> Option<String> {
        let natural = self.log.natural.iter().map(|(start, names)| {
            let names = names.iter().map(|name| quoted(name));
            (*start, names.collect())
        });
        sql_parse::without_natural(&self.text, &natural.collect())
    }

    /// The text is that of a table which has lost a column since.
    pub fn lose_column(&mut self, table: Oid, at: usize) {
        self.dropped = Some((table, at));
    }

    /// The names that an alias gives to columns of a table: those that were written, and those by
    /// which `USING` joins. None if the table's own names do.
    fn listed(
        &self,
        (part, oid): (usize, Oid),
        written: &[String],
        names: &SessionNames,
    ) -> Option<String> {
        let merged = self.log.merged.get(&part);
        let others = merged
            .into_iter()
            .flatten()
            .filter(|(at, name)| self.column_of(&names.catalog, oid, **at) != Some(name.as_str()));
        let count = others.map(|(at, _)| at + 1).max().unwrap_or(0);
        let count = count.max(written.len());
        let columns = (0..count).filter(|at| self.dropped != Some((oid, *at)));
        let columns = columns.filter_map(|at| {
            let own = || self.column_of(&names.catalog, oid, at).map(str::to_owned);
            let of_join = || merged.and_then(|merged| merged.get(&at).cloned());
            written.get(at).cloned().or_else(of_join).or_else(own)
        });
        let mut columns: Vec<String> = columns.collect();
        if columns.is_empty() && count > 0 {
            columns.extend(column_of(&names.catalog, oid, 0).map(str::to_owned));
        }
        let columns = columns.iter().map(|name| quoted(name));
        (count > 0).then(|| columns.collect::<Vec<_>>().join(", "))
    }

    /// The name of a column that had a position when the text was bound.
    fn column_of<'c>(&self, catalog: &'c Catalog, table: Oid, at: usize) -> Option<&'c str> {
        let lost = self.dropped.filter(|(own, _)| *own == table);
        let before = lost.is_some_and(|(_, lost)| lost < at);
        column_of(catalog, table, at - usize::from(before))
    }

    fn column_text(&self, column: &Named, names: &SessionNames, is_item: bool) -> String {
        let mut text = match &column.part {
            Some(part) => format!("{}.", quoted(part)),
            None => String::new(),
        };
        let merged = column.place.and_then(|place| self.log.merged.get(&place));
        let base = column.base.filter(|(_, at)| {
            let is_merged = merged.is_some_and(|merged| merged.contains_key(at));
            !column.is_renamed && !is_merged
        });
        let name = base.and_then(|(table, at)| self.column_of(&names.catalog, table, at));
        let name = name.unwrap_or(&column.name);
        text += &quoted(name);
        if is_item && name != column.name {
            text = format!("{text} AS {}", quoted(&column.name));
        }
        text
    }

    /// Whether the text names a relation, a function or a type.
    pub fn names_object(&self, wanted: Oid) -> bool {
        let mut found = self.log.found.values();
        found.any(|found| match found {
            Found::Object { oid, .. } | Found::Sequence { oid } => *oid == wanted,
            _ => false,
        })
    }

    /// Relations, functions and types that the text names.
    pub fn objects(&self) -> impl Iterator<Item = Oid> + '_ {
        self.log.found.values().filter_map(|found| match found {
            Found::Object { oid, .. } | Found::Sequence { oid } => Some(*oid),
            _ => None,
        })
    }

    /// The columns of tables that the text names: table and position, each once.
    pub fn columns(&self) -> BTreeSet<(Oid, usize)> {
        let mut named = BTreeSet::new();
        for ((start, _), found) in &self.log.found {
            match found {
                Found::Columns { columns, .. } => {
                    named.extend(columns.iter().filter_map(|column| column.base));
                }
                Found::Object { oid, .. } => {
                    let merged = self.log.merged.get(start);
                    named.extend(merged.into_iter().flatten().map(|(at, _)| (*oid, *at)));
                }
                _ => {}
            }
        }
        named
    }

    /// Whether the text names a column of a table.
    pub fn names_column(&self, table: Oid, at: usize) -> bool {
        let mut found = self.log.found.iter();
        found.any(|((start, _), found)| match found {
            Found::Columns { columns, .. } => {
                let mut columns = columns.iter();
                columns.any(|column| column.base == Some((table, at)))
            }
            Found::Object { oid, .. } if *oid == table => {
                let merged = self.log.merged.get(start);
                merged.is_some_and(|merged| merged.contains_key(&at))
            }
            _ => false,
        })
    }
}

/// A value with the labels that its enums have now.
fn labelled(value: &Datum, kind: Kind, names: &SessionNames) -> Datum {
    match (value, kind) {
        (Datum::Enum(old), Kind::Enum(oid)) => {
            let mut labels = names.enum_labels(oid).into_iter();
            let new = labels.find(|label| label.place == old.place);
            new.map_or_else(|| value.clone(), Datum::Enum)
        }
        (Datum::Array(array), _) => {
            let elements = array.elements.iter();
            let elements = elements.map(|one| labelled(one, array.element, names));
            Datum::Array(Arc::new(Array {
                elements: elements.collect(),
                ..Array::clone(array)
            }))
        }
        (Datum::Record(record), _) => {
            let fields = record.fields.iter().zip(&record.shape.types);
            let fields = fields.map(|(field, own)| labelled(field, own.kind, names));
            Datum::Record(Arc::new(Record {
                shape: Arc::clone(&record.shape),
                fields: fields.collect(),
            }))
        }
        _ => value.clone(),
    }
}

fn column_of(catalog: &Catalog, table: Oid, at: usize) -> Option<&str> {
    match &catalog.object(table)?.body {
        Body::Table(table) => Some(&table.columns.get(at)?.name),
        Body::View(view) => Some(&view.columns.get(at)?.0),
        _ => None,
    }
}

/// The name of an object; none if it is gone, and the text stays as it is.
fn object_text(
    names: &SessionNames,
    oid: Oid,
    known_as: Option<&str>,
    listed: Option<&str>,
) -> Option<String> {
    let object = names.catalog.object(oid)?;
    let mut text = quoted(&object.name);
    if let Some(schema) = names.catalog.object(object.namespace)
        && names.temporary != Some(schema.oid)
    {
        text = format!("{}.{text}", quoted(&schema.name));
    }
    let known_as = known_as.filter(|known_as| *known_as != object.name || listed.is_some());
    if let Some(known_as) = known_as {
        text = format!("{text} AS {}", quoted(known_as));
    }
    if let Some(listed) = listed {
        text = format!("{text}({listed})");
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
        self.origin = TextOrigin::Catalogue;
        let bound = self.query(query);
        let log = self.log.take().unwrap_or_default().into_inner();
        let text = self.places.text().to_owned();
        bound.map(|_| Resolved {
            text,
            log,
            dropped: None,
        })
    }

    /// As [`Binder::resolved`], of an expression over the rows of a table, or over none, as a value
    /// of a type if one is wanted.
    ///
    /// # Errors
    ///
    /// Those of the expression.
    pub fn resolved_expression(
        &mut self,
        (tree, wanted): (&Expr, Option<Type>),
        (scope, table): (Scope, Option<Oid>),
    ) -> Result<Resolved> {
        self.log = Some(RefCell::default());
        self.origin = TextOrigin::Catalogue;
        let (bound, _) = self.expression_in(scope, Clause::Stored, tree);
        let bound = bound.and_then(|bound| match wanted {
            Some(wanted) => self.assign(bound, wanted, ""),
            None => Ok(bound),
        });
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
        bound.map(|_| Resolved {
            text,
            log,
            dropped: None,
        })
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
        // A text of another type is looked up each time.
        while let Expr::Nested(inner)
        | Expr::Cast {
            expr: inner,
            data_type: DataType::Regclass,
            ..
        } = tree
        {
            tree = *inner;
        }
        if let Expr::Value(value) = tree
            && let Value::SingleQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::DollarQuotedString(_) = &value.value
            && let Some(name) = value.value.clone().into_string()
            && let Ok(oid) = self.names.object_oid(Kind::Regclass, &name)
        {
            self.note(value.span, || Found::Sequence { oid });
        }
    }

    /// The log, if the names of the text itself are read, and not those of a view or a function.
    fn log(&self) -> Option<(&RefCell<Log>, &'b LineIndex)> {
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

    /// Notes the place of a literal without a type.
    pub(super) fn note_literal(&self, literal: &Constant, span: Span) {
        if let Some((log, _)) = self.log()
            && let Constant::Constant(Datum::Text(text), _) = literal
        {
            let known = (Arc::clone(text), span);
            log.borrow_mut().literals.push(known);
        }
    }

    /// Notes the value of a literal whose text may change.
    pub(super) fn note_value(&self, text: &Arc<str>, value: &Datum, kind: Kind) {
        let Some((log, _)) = self.log() else {
            return;
        };
        let log = log.borrow();
        let mut known = log.literals.iter().rev();
        let known = known.find(|(known, _)| Arc::ptr_eq(known, text));
        if let Some(span) = known.map(|(_, span)| *span)
            && self.may_change(kind)
        {
            drop(log);
            let value = value.clone();
            self.note(span, || Found::Value { value, kind });
        }
    }

    /// Whether literals of a kind may mean something else later: labels get other names, and dates
    /// and times are read by settings of the session.
    fn may_change(&self, kind: Kind) -> bool {
        use Kind::{Date, Interval, Timestamp, Timestamptz, Timetz};
        match kind {
            Kind::Enum(_) | Date | Interval | Timestamp | Timestamptz | Timetz => true,
            Kind::Composite(oid) => {
                let shape = self.names.row_shape(oid);
                shape.is_some_and(|shape| shape.types.iter().any(|one| self.may_change(one.kind)))
            }
            kind => kind
                .element()
                .is_some_and(|element| self.may_change(element)),
        }
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

    /// Whether a text is read that the catalogue will keep.
    pub(super) fn reads_new_text(&self) -> bool {
        self.log.is_some() && self.views.is_empty()
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
        let tables = outer.last().map_or(&[][..], |scope| &scope.tables);
        let mut named = self.named_in(column, tables);
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

    /// Notes columns that `USING` joins.
    pub(super) fn note_merged(&self, scope: &Scope, columns: [usize; 2]) {
        let Some((log, _)) = self.log() else {
            return;
        };
        for at in columns {
            let column = &scope.columns[at];
            let mut tables = scope.tables.iter();
            let table = tables.find(|table| Some(&*table.alias) == column.table.as_deref());
            if let Some((_, at)) = self.base(column, &scope.tables)
                && let Some(place) = table.and_then(|table| table.place)
            {
                let mut log = log.borrow_mut();
                let merged = log.merged.entry(place).or_default();
                merged.insert(at, column.name.clone());
            }
        }
    }

    /// Notes the columns that `NATURAL` joins with a part of `FROM`.
    pub(super) fn note_natural(&self, right: Span, names: &[String]) {
        if let Some((log, places)) = self.log()
            && places.start(right).is_some()
        {
            let place = places.byte(right.start);
            log.borrow_mut().natural.insert(place, names.to_vec());
        }
    }

    /// Notes a table of `FROM`; the place of its name.
    pub(super) fn note_table(
        &self,
        name: &ObjectName,
        oid: Oid,
        alias: Option<&TableAlias>,
    ) -> Option<usize> {
        let (_, places) = self.log()?;
        places.start(name.span())?;
        let part = places.byte(name.span().start);
        if let Some(alias) = alias {
            let columns = alias.columns.iter();
            let listed = columns.map(|column| super::ident_text(&column.name));
            let end = alias.columns.last().map_or(&alias.name, |last| &last.name);
            self.note(alias.name.span.union(&end.span), || Found::Alias {
                part,
                oid,
                alias: super::ident_text(&alias.name),
                listed: listed.collect(),
            });
        }
        Some(part)
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
            part,
            ..self.named_in(column, tables.unwrap_or(&[]))
        }
    }

    fn named_in(&self, column: &ScopeColumn, tables: &[ScopeTable]) -> Named {
        let base = self.base(column, tables);
        let own = base.and_then(|(table, at)| column_of(&self.names.catalog, table, at));
        let is_renamed = own.is_some_and(|own| own != column.name);
        let mut tables = tables.iter();
        let table = tables.find(|table| Some(&*table.alias) == column.table.as_deref());
        Named {
            place: table.and_then(|table| table.place),
            part: column.table.clone(),
            name: column.name.clone(),
            base,
            is_renamed,
        }
    }

    /// The table and the position there of a column, if it is that of a table itself.
    fn base(&self, column: &ScopeColumn, tables: &[ScopeTable]) -> Option<(Oid, usize)> {
        let part = column.table.as_deref()?;
        let table = tables.iter().find(|table| table.alias == part)?;
        let (oid, position) = column.origin;
        let at = usize::try_from(position - 1).ok()?;
        let is_column = column_of(&self.names.catalog, oid, at).is_some();
        (table.is_stored && is_column).then_some((oid, at))
    }
}
