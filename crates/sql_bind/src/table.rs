//! Tables: their columns, and the rules that changes of their rows keep.
//!
//! The rules of a table are bound when a plan is made. A table of the typed interface has those of
//! its definition.

use super::family::columns_in;
use super::scope::Scope;
use super::select::row_scope;
use super::source::Source as Part;
use super::view::ViewOf;
use super::{Binder, Bound};
use crate::catalog::{
    Body, Column, Deferral, Names, Object, Oid, Origin, Rule, TableBody, typed_table,
};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{
    Expr, KeyRows, OutputColumn, PartitionKeys, Reference, ReferenceAccess, Shown, Source, Target,
    TargetColumn, UniqueKey, Values,
};
use crate::types::{Datum, Kind, Type};
use sqlparser::ast;
use std::sync::Arc;

/// Positions of columns, and the expressions that they are computed by.
type Computed = Vec<(usize, Expr)>;

/// A table that a statement names.
#[derive(Clone)]
pub(super) struct BoundTable {
    pub(super) object: Arc<Object>,
    pub(super) source: Source,
    /// The view that the statement names, if it is not the table itself.
    pub(super) view: Option<Arc<ViewOf>>,
    /// The partition that it is of the table that the statement names.
    pub(super) partition: Option<Arc<[PartitionKeys]>>,
    /// The columns that the statement gives values for.
    pub(super) given: Vec<usize>,
}

impl BoundTable {
    /// The table itself.
    pub(super) fn new(object: Arc<Object>, source: Source) -> Self {
        Self {
            object,
            source,
            view: None,
            partition: None,
            given: Vec::new(),
        }
    }

    /// The object that the statement names.
    pub(super) fn named(&self) -> &Arc<Object> {
        self.view.as_ref().map_or(&self.object, |view| &view.object)
    }

    /// The position of a column that the statement names.
    pub(super) fn place_of(&self, name: &str) -> Result<Option<usize>> {
        let base = match &self.view {
            Some(view) => view.base(name)?,
            None => Some(name),
        };
        Ok(base.and_then(|name| self.body().column(name)))
    }

    /// The table's own part of its object.
    pub(super) fn body(&self) -> &TableBody {
        body_of(&self.object)
    }

    /// Its columns, as those of a result.
    pub(super) fn output(&self) -> Vec<OutputColumn> {
        if let Some(view) = &self.view {
            return view.output();
        }
        let columns = (1..).zip(&self.body().columns);
        let columns = columns.map(|(position, column)| OutputColumn {
            name: column.name.clone(),
            data_type: column.data_type,
            table: self.object.oid,
            position,
        });
        columns.collect()
    }
}

/// The body of an object that is a table.
pub(super) fn body_of(object: &Object) -> &TableBody {
    static NONE: TableBody = TableBody::empty();
    match &object.body {
        Body::Table(table) => table,
        _ => &NONE,
    }
}

impl Binder<'_> {
    /// A table by its name: one of the catalogue, or one of the typed interface.
    pub(super) fn table(&self, schema: Option<&str>, name: &str) -> Result<BoundTable> {
        let object = match self.names.find(Names::Relations, schema, name) {
            Some(object) => match &object.body {
                Body::Table(table) if object.name == name || table.indexes.is_empty() => {
                    Arc::clone(object)
                }
                Body::Table(_) => return Err(wrong_kind(name, "an index")),
                Body::View(_) => return Err(wrong_kind(name, "a view")),
                _ => return Err(wrong_kind(name, "a sequence")),
            },
            None if schema.is_none_or(|schema| schema == "public") => {
                let typed = self.database.table(name).ok();
                let typed = typed.and_then(|table| typed_table(&table));
                let typed = typed.ok_or_else(|| no_relation(schema, name))?;
                // It has no rights that could be granted.
                if !self.names.catalog.is_superuser(self.names.role) {
                    return Err(self.names.denied(&typed));
                }
                Arc::new(typed)
            }
            None => return Err(no_relation(schema, name)),
        };
        let source = self.source(&object)?;
        Ok(BoundTable::new(object, source))
    }

    /// A table as plans read it.
    pub(super) fn source(&self, object: &Object) -> Result<Source> {
        let body = body_of(object);
        let table = match self.names.catalog.handle(object.oid) {
            Some(table) => table.clone(),
            None => self.database.table(&body.physical)?,
        };
        self.tables.borrow_mut().read(object.oid, &table);
        let visible = body.columns.iter().map(|column| column.data_type);
        let hidden = body.hidden.iter().map(|hidden| hidden.data_type);
        let types: Arc<[Type]> = visible.chain(hidden).collect();
        let key: Arc<[usize]> = if body.key.is_empty() {
            [types.len()].into()
        } else {
            body.key.as_slice().into()
        };
        Ok(Source {
            oid: object.oid,
            name: object.name.clone(),
            table,
            types,
            key,
            kept: body.kept().collect(),
            indexes: body
                .indexes
                .iter()
                .filter_map(|index| index.physical.clone())
                .collect(),
            not_null: Arc::default(),
            computed: Arc::default(),
        })
    }

    /// The rules for changes of a table.
    pub(super) fn target(&mut self, table: &BoundTable) -> Result<Arc<Target>> {
        let (object, body) = (&table.object, table.body());
        let scope = || {
            let columns = body.columns.iter();
            row_scope(
                &object.name,
                columns.map(|column| (column.name.clone(), column.data_type)),
            )
        };
        let mut checks = Vec::new();
        let mut keys = Vec::new();
        for constraint in &body.constraints {
            match &constraint.rule {
                Rule::Check { condition } => {
                    let condition = self.stored(condition, scope()?)?;
                    let condition = self.coerce(condition, Kind::Bool.plain())?;
                    checks.push((constraint.name.clone(), condition));
                }
                Rule::Primary { columns, deferral } | Rule::Unique { columns, deferral } => {
                    let index = body
                        .indexes
                        .iter()
                        .find(|index| index.name == constraint.name);
                    let key = UniqueKey {
                        index: index.and_then(|index| index.physical.clone()),
                        columns: columns.clone(),
                        constraint: constraint.oid,
                        deferral: *deferral,
                        nulls_alike: index.is_some_and(|index| body.alike.contains(&index.oid)),
                    };
                    keys.push((constraint.name.clone(), key));
                }
                Rule::Foreign(_) => {}
            }
        }
        for index in body.indexes.iter().filter(|index| index.is_unique) {
            if !keys.iter().any(|(name, _)| *name == index.name) {
                let key = UniqueKey {
                    index: index.physical.clone(),
                    columns: index.columns.clone(),
                    constraint: 0,
                    deferral: Deferral::Never,
                    nulls_alike: body.alike.contains(&index.oid),
                };
                keys.push((index.name.clone(), key));
            }
        }
        let (columns, generated) = self.target_columns(object)?;
        let (parents, children) = self.references(object)?;
        let schema = self.names.catalog.object(object.namespace);
        Ok(Arc::new(Target {
            visible: body.columns.len(),
            source: table.source.clone(),
            schema: schema.map_or_else(|| "public".to_owned(), |schema| schema.name.clone()),
            columns,
            checks,
            views: Vec::new(),
            generated,
            keys,
            indexed: body
                .indexes
                .iter()
                .flat_map(|index| index.columns.clone())
                .chain(body.kept().map(|(column, _)| column))
                .collect(),
            parents,
            children,
            within: self.shares(object, &body.columns)?,
            shown: Shown::own(object.oid, body.columns.len()),
        }))
    }

    /// The columns of a table, hidden ones included, and the values of those that are computed.
    fn target_columns(&mut self, object: &Object) -> Result<(Vec<TargetColumn>, Computed)> {
        let body = body_of(object);
        let scope = || {
            let columns = body.columns.iter();
            row_scope(
                &object.name,
                columns.map(|column| (column.name.clone(), column.data_type)),
            )
        };
        let mut columns = Vec::with_capacity(body.columns.len());
        let mut generated = Vec::new();
        for (at, column) in body.columns.iter().enumerate() {
            if let Origin::Generated(text) = &column.origin {
                let value = self.stored(text, scope()?)?;
                generated.push((at, self.assign(value, column.data_type, &column.name)?));
            }
            columns.push(TargetColumn {
                name: column.name.clone(),
                not_null: column.not_null,
                domain_checks: self.domain_checks((column.data_type, column.domain))?,
            });
        }
        for (at, hidden) in (body.columns.len()..).zip(&body.hidden) {
            let value = match (&hidden.value, hidden.keeps) {
                (Some(text), _) => {
                    let value = self.stored(text, scope()?)?;
                    self.coerce(value, hidden.data_type)?
                }
                (None, Some(column)) => Expr::Column(column, hidden.data_type),
                (None, None) => Expr::null(hidden.data_type),
            };
            generated.push((at, value));
            columns.push(TargetColumn {
                name: hidden.label.clone(),
                not_null: false,
                domain_checks: Vec::new(),
            });
        }
        Ok((columns, generated))
    }

    /// The rules of a table by its number.
    pub fn target_by_oid(&mut self, oid: Oid) -> Result<Arc<Target>> {
        let object = self.referenced(oid)?;
        let source = self.source(&object)?;
        self.target(&BoundTable::new(object, source))
    }

    /// A table as plans read it, by its number.
    pub fn source_by_oid(&self, oid: Oid) -> Result<Source> {
        self.source(&*self.referenced(oid)?)
    }

    /// A column's value as one of another type: converted, or of an expression over the row.
    pub fn converted_column(
        &mut self,
        scope: Scope,
        (at, column): (usize, &Column),
        target: Type,
        using: Option<&ast::Expr>,
    ) -> Result<Expr> {
        let value = match using {
            Some(tree) => {
                self.expression_in(scope, super::scope::Clause::Stored, tree)
                    .0?
            }
            None => Expr::Column(at, column.data_type),
        };
        let kind = value.kind();
        self.assign(value, target, &column.name).map_err(|_| {
            let message = format!(
                "column \"{}\" cannot be cast automatically to type {target}",
                column.name
            );
            let hint = format!(
                "You might need to specify \"USING {}::{target}\".",
                column.name
            );
            let _ = kind;
            SqlError::new(SqlState::DATATYPE_MISMATCH, message).hint(hint)
        })
    }

    /// The default of a column, or the expression that it is generated by, for when the column has
    /// another type. A literal is kept as a value of the type that it has been read as.
    pub fn converted_expression(
        &mut self,
        scope: Scope,
        column: &Column,
        target: Type,
    ) -> Result<Option<String>> {
        let Some(text) = column.expression() else {
            return Ok(None);
        };
        let mut value = self.stored(text, scope)?;
        let mut text = text.to_owned();
        let before = column.data_type.kind;
        if value.kind() == Kind::Unknown && before != target.kind {
            value = self.assign(value, before.plain(), &column.name)?;
            text = format!("CAST({text} AS {})", self.type_name(before));
        }
        let converted = self.assign(value, target, &column.name);
        converted.map_err(|error| match error.state {
            SqlState::DATATYPE_MISMATCH => {
                let what = match column.origin {
                    Origin::Generated(_) => "generation expression",
                    _ => "default",
                };
                let (name, target) = (&column.name, self.type_name(target.kind));
                let message = format!(
                    "{what} for column \"{name}\" cannot be cast automatically to type {target}"
                );
                SqlError::new(SqlState::DATATYPE_MISMATCH, message)
            }
            _ => error,
        })?;
        Ok(Some(text))
    }

    /// The default of a column by the number of its table.
    pub fn default_by_oid(&mut self, oid: Oid, at: usize) -> Result<Expr> {
        let object = self.referenced(oid)?;
        self.default_of(&body_of(&object).columns[at])
    }

    /// The references of a table to others, and those of others to it. Their tables do not count as
    /// used: that depends on the change.
    fn references(&mut self, object: &Object) -> Result<(Vec<Reference>, Vec<Reference>)> {
        let used = self.tables.take();
        let references = self.parents(body_of(object)).and_then(|parents| {
            let children = self.children(object.oid)?;
            Ok((parents, children))
        });
        self.tables.replace(used);
        references
    }

    /// References of a table to others.
    fn parents(&mut self, body: &TableBody) -> Result<Vec<Reference>> {
        let mut parents = Vec::new();
        for constraint in &body.constraints {
            let Rule::Foreign(foreign) = &constraint.rule else {
                continue;
            };
            let parent = self.referenced(foreign.parent)?;
            parents.push(Reference {
                oid: constraint.oid,
                constraint: constraint.name.clone(),
                other: parent.oid,
                other_name: parent.name.clone(),
                others: self.key_rows(parent.oid, &foreign.parent_columns)?,
                columns: foreign.columns.clone(),
                above: None,
                on_update: foreign.on_update,
                on_delete: foreign.on_delete,
                set_on_delete: foreign.set_on_delete.clone(),
                is_full: foreign.is_full,
                deferral: foreign.deferral,
            });
        }
        Ok(parents)
    }

    /// References of other tables to this one, and to those that it is a partition of.
    fn children(&mut self, oid: Oid) -> Result<Vec<Reference>> {
        let catalog = Arc::clone(&self.names.catalog);
        let mut children = Vec::new();
        for (child, constraint, foreign) in catalog.references_from_above(oid) {
            // Its partitions have the key as well, and the rows.
            if body_of(child).lineage.scheme.is_some() {
                continue;
            }
            let mut columns = foreign.parent_columns.clone();
            let mut above = None;
            if foreign.parent != oid {
                let (parent, own) = (self.referenced(foreign.parent)?, self.referenced(oid)?);
                let own = columns_in(body_of(&parent), body_of(&own), &columns)?;
                above = Some((foreign.parent, std::mem::replace(&mut columns, own)));
            }
            let written_for = catalog.written_for(child, constraint);
            children.push(Reference {
                oid: constraint.oid,
                constraint: constraint.name.clone(),
                other: child.oid,
                other_name: written_for.name.clone(),
                others: self.key_rows(child.oid, &foreign.columns)?,
                columns,
                above,
                on_update: foreign.on_update,
                on_delete: foreign.on_delete,
                set_on_delete: foreign.set_on_delete.clone(),
                is_full: foreign.is_full,
                deferral: foreign.deferral,
            });
        }
        Ok(children)
    }

    /// The tables that have the rows of a table, with some of its columns: itself, or its
    /// partitions.
    pub fn key_rows(&mut self, oid: Oid, columns: &[usize]) -> Result<Vec<KeyRows>> {
        let object = self.referenced(oid)?;
        let table = BoundTable::new(Arc::clone(&object), self.source(&object)?);
        let family = match table.body().lineage.scheme {
            Some(_) => self.family(&table, None)?,
            None => vec![table.clone()],
        };
        let with_rows = family.into_iter();
        let with_rows = with_rows.filter(|member| member.body().lineage.scheme.is_none());
        let key_rows = with_rows.map(|member| {
            let columns = columns_in(table.body(), member.body(), columns)?;
            Ok(KeyRows {
                access: access_to(member.body(), &columns),
                columns,
                partition: member.partition.unwrap_or_default(),
                source: member.source,
            })
        });
        key_rows.collect()
    }

    /// The default of a column; NULL if it has none.
    pub fn default_of(&mut self, column: &Column) -> Result<Expr> {
        if let Origin::Identity { sequence, .. } = column.origin {
            let oid = Expr::Constant(Datum::Oid(sequence), Kind::Regclass.plain());
            let next = self.call("\0nextval", vec![oid])?;
            return self.assign(next, column.data_type, &column.name);
        }
        let domain = column.domain.and_then(|oid| self.names.catalog.object(oid));
        let of_domain = domain.and_then(|object| match &object.body {
            Body::Domain(domain) => domain.default.clone(),
            _ => None,
        });
        match column.default.clone().or(of_domain) {
            None => Ok(Expr::null(column.data_type)),
            Some(text) => {
                let value = self.stored(&text, Scope::default())?;
                self.assign(value, column.data_type, &column.name)
            }
        }
    }

    /// `TABLE name`.
    pub(super) fn table_rows(&mut self, table: &ast::Table) -> Result<Bound> {
        let Some(name) = &table.table_name else {
            return Err(no_relation(None, ""));
        };
        let text = match &table.schema_name {
            Some(schema) => format!("select * from {schema}.{name}"),
            None => format!("select * from {name}"),
        };
        let parsed = sql_parse::parse(&text)?;
        match parsed.first().map(|parsed| &*parsed.statement) {
            Some(ast::Statement::Query(query)) => self.query(query),
            _ => Err(no_relation(None, &name.value)),
        }
    }

    /// A sequence in `FROM` is a row of its state.
    pub(super) fn sequence_rows(&mut self, oid: Oid, alias: &str) -> Result<Part> {
        let sequence = Expr::Constant(Datum::Oid(oid), Kind::Regclass.plain());
        let state = self.call("\0sequence_state", vec![sequence])?;
        let mut part = |place: i32| {
            let place = Expr::Constant(Datum::Int4(place), Kind::Int4.plain());
            self.call("array_subscript", vec![state.clone(), place])
        };
        let (last, reserved, called) = (part(1)?, part(2)?, part(3)?);
        let one = Expr::Constant(Datum::Int8(1), Kind::Int8.plain());
        let columns = [
            ("last_value", last, Kind::Int8),
            ("log_cnt", reserved, Kind::Int8),
            (
                "is_called",
                self.operator("=", vec![called, one])?,
                Kind::Bool,
            ),
        ];
        let mut scope = Scope::default();
        let names = columns
            .iter()
            .map(|(name, _, kind)| ((*name).to_owned(), kind.plain(), (oid, 0)));
        scope.add_table(alias, names)?;
        let row = columns.into_iter().map(|(_, value, _)| value).collect();
        let node = Values {
            rows: vec![row],
            width: 3,
        };
        Ok(Part {
            node: node.into(),
            scope,
        })
    }
}

/// The index of a table whose first columns are these, in any order.
fn access_to(body: &TableBody, columns: &[usize]) -> ReferenceAccess {
    if !body.key.is_empty() && body.key == columns {
        return ReferenceAccess::Primary;
    }
    let mut indexes = body.indexes.iter();
    let found =
        indexes.find(|index| index.physical.is_some() && index.columns.starts_with(columns));
    match found.and_then(|index| index.physical.clone()) {
        Some(index) => ReferenceAccess::Index(index),
        None => ReferenceAccess::All,
    }
}

/// The error of a table that does not exist.
pub fn no_relation(schema: Option<&str>, name: &str) -> SqlError {
    let message = match schema {
        Some(schema) => format!("relation \"{schema}.{name}\" does not exist"),
        None => format!("relation \"{name}\" does not exist"),
    };
    SqlError::new(SqlState::UNDEFINED_TABLE, message)
}

fn wrong_kind(name: &str, kind: &str) -> SqlError {
    let message = format!("\"{name}\" is {kind}, not a table");
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}
