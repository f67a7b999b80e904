//! The declaration of a relation: its columns, and where its rows come from.
//!
//! A function that makes rows names the columns that it fills. All others have the value that
//! `relations.txt` gives them, or NULL.

use super::{activity, constant, constraint, role, routine, schema, types};
use crate::catalog::Oid;
use crate::error::Result;
use crate::state::{HostState, SessionNames};
use crate::types::array::Array;
use crate::types::{Context, Datum, Kind, NoNames, Settings, text_io};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// A relation of the system.
#[derive(Debug)]
pub(crate) struct Relation {
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) oid: Oid,
    /// `r` or `v`, as in `pg_class`.
    pub(crate) kind: &'static str,
    pub(crate) columns: Vec<SystemColumn>,
    pub(crate) content: Content,
}

/// A column, with the value of the rows that say nothing of it.
#[derive(Debug)]
pub(crate) struct SystemColumn {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    value: Datum,
}

/// The source of a relation's rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    Empty,
    Rows(fn(&Sources<'_>, &mut Rows<'_>) -> Result<()>),
    /// A query whose columns are some of the relation's, by name.
    Query(&'static str),
}

/// Everything that rows are made of.
pub(crate) struct Sources<'s> {
    pub(crate) names: &'s SessionNames,
    pub(crate) session: &'s HostState,
    pub(crate) context: Context<'s>,
}

/// Rows of a relation, as they are made.
pub(crate) struct Rows<'r> {
    relation: &'r Relation,
    /// Positions of the columns that the last row has named.
    named: Vec<usize>,
    made: Vec<Vec<Datum>>,
}

impl Rows<'_> {
    /// Adds a row with values for the columns that are named.
    pub(crate) fn push<const N: usize>(&mut self, values: [(&'static str, Datum); N]) {
        let columns = &self.relation.columns;
        let mut row: Vec<Datum> = columns.iter().map(|column| column.value.clone()).collect();
        for (at, (name, value)) in values.into_iter().enumerate() {
            // Rows of one loop name the same columns in the same order.
            let known = self.named.get(at).copied();
            let place = known.filter(|place| columns[*place].name == name);
            let place = place.or_else(|| columns.iter().position(|column| column.name == name));
            let Some(place) = place else {
                debug_assert!(false, "{} has no column {name}", self.relation.name);
                continue;
            };
            self.named.truncate(at);
            if self.named.len() == at {
                self.named.push(place);
            }
            row[place] = value;
        }
        self.made.push(row);
    }
}

impl Relation {
    /// Its rows; none if it is a query.
    pub(crate) fn rows(&self, sources: &Sources<'_>) -> Result<Vec<Vec<Datum>>> {
        let mut rows = Rows {
            relation: self,
            named: Vec::new(),
            made: Vec::new(),
        };
        if let Content::Rows(make) = self.content {
            make(sources, &mut rows)?;
        }
        Ok(rows.made)
    }

    /// Whether its name needs no schema.
    pub(crate) fn is_visible(&self) -> bool {
        self.schema == "pg_catalog"
    }
}

/// The relation with this name; without a schema it is one of `pg_catalog`.
pub(crate) fn find(schema: Option<&str>, name: &str) -> Option<&'static Relation> {
    let schema = schema.unwrap_or("pg_catalog");
    ALL.by_name
        .get(&(schema, name))
        .map(|at| &ALL.relations[*at])
}

/// The relation with this number.
pub(crate) fn by_oid(oid: Oid) -> Option<&'static Relation> {
    ALL.by_oid.get(&oid).map(|at| &ALL.relations[*at])
}

/// All relations.
pub(crate) fn all() -> &'static [Relation] {
    &ALL.relations
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
        let content = match (queries.get(&(schema, name)), made(schema, name)) {
            (Some(query), _) => Content::Query(query),
            (None, Some(make)) => Content::Rows(make),
            (None, None) => Content::Empty,
        };
        relations.push(Relation {
            schema,
            name,
            oid: oid.parse().unwrap_or_default(),
            kind,
            columns: Vec::new(),
            content,
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

/// The functions that make rows, by the schemas of their relations.
const MAKERS: &[(&str, &[Maker])] = &[
    ("pg_catalog", schema::MAKERS),
    ("pg_catalog", constraint::MAKERS),
    ("pg_catalog", types::MAKERS),
    ("pg_catalog", routine::MAKERS),
    ("pg_catalog", role::MAKERS),
    ("pg_catalog", constant::MAKERS),
    ("pg_catalog", activity::MAKERS),
    ("indelible", activity::OWN_MAKERS),
];

/// The function that makes the rows of a relation.
fn made(schema: &str, name: &str) -> Option<fn(&Sources<'_>, &mut Rows<'_>) -> Result<()>> {
    let tables = MAKERS.iter().filter(|(own, _)| *own == schema);
    let mut makers = tables.flat_map(|(_, makers)| makers.iter());
    makers.find(|maker| maker.0 == name).map(|maker| maker.1)
}

/// A relation of `pg_catalog` by its name, and the function that makes its rows.
pub(super) type Maker = (&'static str, fn(&Sources<'_>, &mut Rows<'_>) -> Result<()>);

/// A text, or a name.
pub(super) fn text(text: impl AsRef<str>) -> Datum {
    Datum::text(text.as_ref())
}

/// A small integer.
pub(super) fn small(number: usize) -> Datum {
    Datum::Int2(number as i16)
}

/// A truth value.
pub(super) fn flag(flag: bool) -> Datum {
    Datum::Bool(flag)
}

/// An array.
pub(super) fn array(kind: Kind, elements: impl IntoIterator<Item = Datum>) -> Datum {
    Datum::Array(Arc::new(Array::new(kind, elements.into_iter().collect())))
}

/// An `int2vector` or an `oidvector`, whose first subscript is 0.
pub(super) fn vector(kind: Kind, elements: impl IntoIterator<Item = Datum>) -> Datum {
    let elements = elements.into_iter().collect();
    Datum::Array(Arc::new(Array::from_lower(kind, 0, elements)))
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
    fn every_function_and_query_belongs_to_a_relation() {
        for (schema, makers) in MAKERS {
            for (name, _) in *makers {
                let relation = find(Some(schema), name).unwrap_or_else(|| panic!("{name}"));
                assert!(matches!(relation.content, Content::Rows(_)), "{name}");
            }
        }
        for (schema, name) in queries(include_str!("views.sql")).keys() {
            let relation = find(Some(schema), name).unwrap_or_else(|| panic!("{schema}.{name}"));
            assert!(matches!(relation.content, Content::Query(_)), "{name}");
        }
    }
}
