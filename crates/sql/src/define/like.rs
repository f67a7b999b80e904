//! `LIKE` among the columns of a new table: the columns of another one, and what else is asked for.
//!
//! NOT NULL always comes with a column; defaults, checks, generated values, identities, indexes and
//! comments come if the options say so.

use super::column::{NewColumn, Written, WrittenCheck, WrittenKey};
use crate::catalog::{
    Body, Column, Constraint, Deferral, Oid, Origin, Privilege, Rule, SequenceBody, TableBody,
};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::state::{index_columns, parts_of, quoted};
use sql_parse::{Path, parse_expression};

/// Words of what comes with the columns.
struct Including(Vec<String>);

/// Everything that may come.
const ALL: &[&str] = &[
    "comments",
    "constraints",
    "defaults",
    "generated",
    "identity",
    "indexes",
];

impl Including {
    fn read(options: &str) -> Result<Self> {
        let mut included: Vec<String> = Vec::new();
        let mut words = options.split_whitespace();
        while let Some(word) = words.next() {
            let option = words.next().unwrap_or_default().to_lowercase();
            let options = match option.as_str() {
                "all" => ALL.to_vec(),
                // Rows are stored in one way.
                "storage" | "compression" | "statistics" => Vec::new(),
                known if ALL.contains(&known) => vec![known],
                _ => {
                    let message = format!("syntax error at or near \"{word}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            };
            included.retain(|own| !options.contains(&own.as_str()));
            if word.eq_ignore_ascii_case("including") {
                included.extend(options.into_iter().map(str::to_owned));
            }
        }
        Ok(Self(included))
    }

    fn has(&self, option: &str) -> bool {
        self.0.iter().any(|own| own == option)
    }
}

impl Session {
    /// The columns of a table like another one; its constraints go to `written`.
    pub(super) fn like(
        &mut self,
        table: (Oid, &str),
        source: &str,
        options: &str,
        written: &mut Written,
    ) -> Result<Vec<NewColumn>> {
        let including = Including::read(options)?;
        written.has_copies = true;
        let mut parts = parts_of(source);
        let name = parts.pop().unwrap_or_default();
        let schema = parts.pop();
        let object = self.relation_at(&Path {
            schema,
            name: name.clone(),
        })?;
        self.check_right(&object, Privilege::Select)?;
        let body = match &object.body {
            Body::Table(body) => body.clone(),
            Body::View(view) => TableBody {
                columns: view
                    .columns
                    .iter()
                    .map(|(name, data_type)| Column::new(name.clone(), *data_type))
                    .collect(),
                ..TableBody::default()
            },
            _ => {
                let message = format!("relation \"{name}\" is invalid in LIKE clause");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        let mut columns = Vec::with_capacity(body.columns.len());
        for column in &body.columns {
            columns.push(self.column_like(table, column, &including)?);
        }
        if including.has("constraints") {
            for constraint in &body.constraints {
                if let Rule::Check { condition } = &constraint.rule {
                    let condition = parse_expression(condition)?;
                    let name = Some(constraint.name.clone());
                    written.checks.push(WrittenCheck {
                        name,
                        condition,
                        is_alone: body.alone.contains(&constraint.oid),
                    });
                }
            }
        }
        if including.has("indexes") {
            keys_like(&body, written);
        }
        Ok(columns)
    }

    fn column_like(
        &mut self,
        table: (Oid, &str),
        column: &Column,
        including: &Including,
    ) -> Result<NewColumn> {
        let mut new = column.clone();
        let mut sequence = None;
        if !including.has("defaults") {
            new.default = None;
        }
        if !including.has("comments") {
            new.comment = None;
        }
        match &column.origin {
            Origin::Identity {
                always,
                sequence: source,
            } if including.has("identity") => {
                let mut made = self.owned_sequence(table, &column.name, column.data_type, &[])?;
                let (_, body) = self.sequence_body(*source)?;
                // The new one begins with its first value, whatever has become of the other.
                made.0.body = Body::Sequence(SequenceBody {
                    beginning: None,
                    ..body
                });
                new.origin = Origin::Identity {
                    always: *always,
                    sequence: made.0.oid,
                };
                sequence = Some(made);
            }
            Origin::Generated(_) if including.has("generated") => {}
            _ => new.origin = Origin::Given,
        }
        Ok(NewColumn {
            column: new,
            sequence,
        })
    }
}

/// Keys and indexes like those of another table, under names of their own.
pub(super) fn keys_like(body: &TableBody, written: &mut Written) {
    let names = |places: &[usize]| -> Vec<String> {
        let columns = places.iter().filter_map(|&at| body.columns.get(at));
        columns.map(|column| column.name.clone()).collect()
    };
    let key_like = |constraint: &Constraint, columns: &[usize], deferral: Deferral| {
        let mut indexes = body.indexes.iter();
        let index = indexes.find(|index| index.name == constraint.name);
        WrittenKey {
            name: None,
            columns: names(columns),
            included: names(body.included_with(&constraint.name)),
            nulls_alike: index.is_some_and(|index| body.alike.contains(&index.oid)),
            deferral,
        }
    };
    for constraint in &body.constraints {
        match &constraint.rule {
            Rule::Primary { columns, deferral } => {
                written
                    .primary
                    .push(key_like(constraint, columns, *deferral));
            }
            Rule::Unique { columns, deferral } => {
                written
                    .unique
                    .push(key_like(constraint, columns, *deferral));
            }
            _ => {}
        }
    }
    for index in &body.indexes {
        if body.constraints.iter().any(|own| own.name == index.name) {
            continue;
        }
        let form = body.form(index.oid);
        let is_ordered = index.options.iter().any(|order| *order != (false, false));
        let is_alike = body.alike.contains(&index.oid);
        let is_bare = body.included_of(index.oid).is_empty() && !is_alike;
        if form.is_none() && !is_ordered && is_bare {
            let columns = names(&index.columns);
            written.indexes.push((columns, index.is_unique));
            continue;
        }
        let keys: Vec<String> = match form {
            Some(form) => form.keys.iter().map(|key| key_text(key)).collect(),
            None => names(&index.columns)
                .iter()
                .map(|name| quoted(name))
                .collect(),
        };
        let mut rest = index_columns(body, index, &keys);
        if let Some(predicate) = form.and_then(|form| form.predicate.as_ref()) {
            rest = format!("{rest} WHERE {predicate}");
        }
        written.forms.push((index.is_unique, rest));
    }
}

/// A key of an index as it is written: a name and a call need no brackets.
fn key_text(key: &str) -> String {
    let is_word = |text: &str| text.chars().all(|one| one.is_alphanumeric() || one == '_');
    let is_call = key.ends_with(')') && key.split('(').next().is_some_and(is_word);
    if is_word(key) || key.starts_with('"') || is_call {
        key.to_owned()
    } else {
        format!("({key})")
    }
}
