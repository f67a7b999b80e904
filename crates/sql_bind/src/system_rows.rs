//! Relations of the system in `FROM`.
//!
//! Those that are queries are bound like views; the rows of all others are made when the statement
//! runs.

use super::Binder;
use super::source::Source;
use crate::catalog::ViewBody;
use crate::error::Result;
use crate::plan::{Expr, Node, OutputColumn, Project, System};
use crate::system::{self, Relation};
use crate::types::{Datum, Kind};
use sqlparser::ast;

impl Binder<'_> {
    /// The relation of the system with this name: one of `pg_catalog` comes before all others, and
    /// one of another schema only if nothing else has its name.
    pub(super) fn system_relation(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Option<&'static Relation> {
        let named = system::find(schema, name);
        if named.is_some() || schema.is_some() {
            return named;
        }
        let group = crate::catalog::Names::Relations;
        if self.names.find(group, None, name).is_some() {
            return None;
        }
        let mut path = self.names.search_path.iter();
        path.find_map(|schema| system::find(Some(schema), name))
    }

    /// A relation of the system.
    pub(super) fn system_rows(
        &mut self,
        relation: &'static Relation,
        shown: &str,
        names: &[ast::TableAliasColumnDef],
    ) -> Result<Source> {
        let columns = (1..).zip(&relation.columns);
        let columns = columns.map(|(position, column)| OutputColumn {
            name: column.name.to_owned(),
            data_type: column.kind.plain(),
            table: relation.oid,
            position,
        });
        let columns = super::query::renamed(columns.collect(), shown, names)?;
        let node = match relation.query {
            Some(query) => self.system_view(relation, query)?,
            None => System {
                relation: relation.oid,
                name: relation.name,
                columns: kinds_of(relation),
                key: None,
                condition: None,
            }
            .into(),
        };
        let mut source = self.source_of(node, shown, columns)?;
        if let Some(last) = source.scope.tables.last_mut() {
            let own = Expr::Constant(Datum::Oid(relation.oid), Kind::Oid.plain());
            last.table_oid = Some(match relation.columns.first() {
                // In the rows of an outer join it may be NULL, and then the table's number is too.
                Some(column) if column.name == "oid" => {
                    let is_null = Expr::IsNull(Box::new(Expr::Column(0, Kind::Oid.plain())), false);
                    let missing = Expr::null(Kind::Oid.plain());
                    Expr::Case(vec![(is_null, missing)], Box::new(own))
                }
                _ => own,
            });
        }
        Ok(source)
    }

    /// The rows of a relation that is a query: columns of the query by their names, others NULL.
    fn system_view(&mut self, relation: &Relation, query: &str) -> Result<Node> {
        let view = ViewBody {
            options: Vec::new(),
            comments: Vec::new(),
            query: query.to_owned(),
            columns: Vec::new(),
            reads: Vec::new(),
        };
        let bound = self.view(relation.oid, relation.name, &view)?;
        let mut expressions = Vec::with_capacity(relation.columns.len());
        for column in &relation.columns {
            let mut own = bound.columns.iter();
            let at = own.position(|own| own.name == column.name);
            expressions.push(match at {
                Some(at) => {
                    let value = Expr::Column(at, bound.columns[at].data_type);
                    self.cast_to(value, column.kind.plain())?
                }
                None => Expr::null(column.kind.plain()),
            });
        }
        Ok(Project {
            input: bound.node,
            expressions,
            has_sets: false,
        }
        .into())
    }
}

/// Names and types of a relation's columns.
fn kinds_of(relation: &Relation) -> Box<[(&'static str, Kind)]> {
    let columns = relation.columns.iter();
    columns.map(|column| (column.name, column.kind)).collect()
}
