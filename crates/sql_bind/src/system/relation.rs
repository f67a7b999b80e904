//! All relations of the system: their columns, and where their rows come from.
//!
//! `relations.txt` declares them; `views.sql` has the queries of those that are queries. The room
//! `sql` makes the rows of all others.

use crate::catalog::Oid;
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Context, Datum, Kind, NoNames, Settings, Type, text_io};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The relation with this name; without a schema it is one of `pg_catalog`.
pub fn find(schema: Option<&str>, name: &str) -> Option<&'static Relation> {
    let schema = schema.unwrap_or("pg_catalog");
    ALL.by_name
        .get(&(schema, name))
        .map(|at| &ALL.relations[*at])
}

/// The relation with this number.
pub fn by_oid(oid: Oid) -> Option<&'static Relation> {
    ALL.by_oid.get(&oid).map(|at| &ALL.relations[*at])
}

/// All relations.
pub fn all() -> &'static [Relation] {
    &ALL.relations
}

/// A relation of the system.
#[derive(Debug)]
pub struct Relation {
    /// The name of its schema.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its number.
    pub oid: Oid,
    /// `r` or `v`, as in `pg_class`.
    pub kind: &'static str,
    /// Its columns.
    pub columns: Vec<SystemColumn>,
    /// The query that it is, whose columns are some of the relation's, by name.
    pub query: Option<&'static str>,
}

/// A column, with the value of the rows that say nothing of it.
#[derive(Debug)]
pub struct SystemColumn {
    /// Its name.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// The value of rows that say nothing of it.
    pub value: Datum,
}

impl Relation {
    /// Whether its name needs no schema.
    pub fn is_visible(&self) -> bool {
        self.schema == "pg_catalog"
    }
}

/// Names and types of the columns of a relation of the system that `COPY` reads.
///
/// # Errors
///
/// There is no such relation, it is a view, or rows were to be written.
pub fn copied((schema, name): (Option<&str>, &str), is_read: bool) -> Result<Vec<(String, Type)>> {
    let relation = find(schema, name).ok_or_else(|| {
        let message = format!("relation \"{name}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_TABLE, message)
    })?;
    if relation.kind != "r" {
        let way = if is_read { "from" } else { "to" };
        let message = format!("cannot copy {way} view \"{name}\"");
        let hint = "Try the COPY (SELECT ...) TO variant.";
        let error = SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
        return Err(if is_read { error.hint(hint) } else { error });
    }
    if !is_read {
        let message = format!("permission denied: \"{name}\" is a system catalog");
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    let columns = relation.columns.iter();
    Ok(columns
        .map(|column| (column.name.to_owned(), column.kind.plain()))
        .collect())
}

struct All {
    relations: Vec<Relation>,
    by_name: HashMap<(&'static str, &'static str), usize>,
    by_oid: HashMap<Oid, usize>,
}

static ALL: LazyLock<All> = LazyLock::new(|| {
    let relations = declared(include_str!("relations.txt"));
    let places = || relations.iter().enumerate();
    All {
        by_name: places()
            .map(|(at, relation)| ((relation.schema, relation.name), at))
            .collect(),
        by_oid: places().map(|(at, relation)| (relation.oid, at)).collect(),
        relations,
    }
});

/// The relations of a text of declarations: a line for a relation, lines with blanks before them
/// for its columns.
fn declared(text: &'static str) -> Vec<Relation> {
    let queries = queries(include_str!("views.sql"));
    let mut relations: Vec<Relation> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if line.starts_with(' ') {
            if let Some(relation) = relations.last_mut() {
                relation.columns.extend(words.filter_map(column));
            }
            continue;
        }
        let (Some(schema), Some(name), Some(oid), Some(kind)) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            continue;
        };
        relations.push(Relation {
            schema,
            name,
            oid: oid.parse().unwrap_or_default(),
            kind,
            columns: Vec::new(),
            query: queries.get(&(schema, name)).copied(),
        });
    }
    relations
}

/// A column of a declaration: `name:type`, or `name:type=value`.
fn column(text: &'static str) -> Option<SystemColumn> {
    let (name, rest) = text.split_once(':')?;
    let (kind, value) = match rest.split_once('=') {
        Some((kind, value)) => (kind, Some(value)),
        None => (rest, None),
    };
    let kind = Kind::from_name(kind)?;
    let settings = Settings::default();
    let context = Context {
        settings: &settings,
        names: &NoNames,
        transaction_start: 0,
        statement_start: 0,
    };
    let value = match value {
        Some(value) => text_io::parse(kind, value, &context).ok()?,
        None => Datum::Null,
    };
    Some(SystemColumn { name, kind, value })
}

/// The queries of a text of `CREATE VIEW schema.name AS query;`, each after an empty line.
fn queries(text: &'static str) -> HashMap<(&'static str, &'static str), &'static str> {
    let views = text.split(";\n").filter_map(|view| {
        let (_, view) = view.split_once("CREATE VIEW ")?;
        let (name, query) = view.split_once(" AS\n")?;
        Some((name.split_once('.')?, query))
    });
    views.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_that_is_declared_is_read() {
        let text = include_str!("relations.txt");
        let lines = text.lines().filter(|line| line.starts_with(' '));
        let words: usize = lines.map(|line| line.split_whitespace().count()).sum();
        let columns: usize = all().iter().map(|relation| relation.columns.len()).sum();
        assert_eq!(words, columns);
        assert_eq!(ALL.by_oid.len(), all().len(), "numbers differ");
    }

    #[test]
    fn every_query_belongs_to_a_relation() {
        for (schema, name) in queries(include_str!("views.sql")).keys() {
            let relation = find(Some(schema), name).unwrap_or_else(|| panic!("{schema}.{name}"));
            assert!(relation.query.is_some(), "{name}");
        }
    }
}
