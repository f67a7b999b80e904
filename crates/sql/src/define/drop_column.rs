//! `DROP COLUMN`.
//!
//! Everything that is about the column goes with it: constraints, indexes, its sequences, and with
//! `CASCADE` what needs it elsewhere. The columns after it move to the place before theirs, and so
//! do references, constraints and sequences of them.

use super::alter::{no_column, table_body};
use crate::catalog::{Body, Constraint, Object, Oid, Rule, TableBody};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::session::Session;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Session {
    pub(super) fn drop_column(
        &mut self,
        oid: Oid,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        let mut object = self.altered(oid)?;
        let table = object.name.clone();
        let old = table_body(&mut object)?.clone();
        let Some(at) = old.column(name) else {
            if if_exists {
                let message =
                    format!("column \"{name}\" of relation \"{table}\" does not exist, skipping");
                self.environment.host.notice(message);
                return Ok(());
            }
            return Err(no_column(name, &table));
        };
        self.refuse_partition_key(&old, at, (name, &table), "drop")?;
        self.refuse_kept_rows(oid, &table)?;
        let readers = self.generated_readers(&old, at, &table)?;
        if !readers.is_empty() {
            self.drop_generated((oid, &table), name, &readers, cascade)?;
            return self.drop_column(oid, name, if_exists, cascade);
        }
        self.drop_readers_of_column((&object, at), name, cascade)?;
        for (constraint, name) in self.constraints_with(&old, at, &table)? {
            // A reference of the table to itself goes with the key.
            if self.catalog().constraint(constraint).is_some() {
                self.drop_constraint_named(oid, &name, true, cascade)?;
            }
        }
        let needed = format!("column {name} of table {table}");
        self.drop_users(oid, (&needed, &needed), cascade, |_, columns| {
            columns.contains(&at)
        })?;
        self.drop_forms_of(oid, at)?;
        let mut object = self.altered(oid)?;
        let old = table_body(&mut object)?.clone();
        take_column(table_body(&mut object)?, at, oid);
        let kept = (0..old.columns.len()).filter(|place| *place != at);
        let values = kept.map(|place| Expr::Column(place, old.columns[place].data_type));
        self.rewrite(&old, object, values.collect())?;
        self.move_references(oid, at)?;
        let moved = self.move_sequences(oid, at, cascade);
        moved.map_err(|error| match error.state {
            SqlState::DEPENDENT_OBJECTS_STILL_EXIST => SqlError {
                message: format!("cannot drop {needed} because other objects depend on it"),
                ..error
            },
            _ => error,
        })
    }

    /// Drops the generated columns that read a column; fails without CASCADE.
    fn drop_generated(
        &mut self,
        (oid, table): (Oid, &str),
        name: &str,
        readers: &[String],
        cascade: bool,
    ) -> Result<()> {
        let label = |column: &str| format!("column {column} of table {table}");
        let needed = label(name);
        if !cascade {
            let message = format!("cannot drop {needed} because other objects depend on it");
            let detail = readers.iter().map(|reader| {
                let reader = label(reader);
                format!("{reader} depends on {needed}")
            });
            let detail = detail.collect::<Vec<_>>().join("\n");
            let state = SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
            let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
            return Err(SqlError::new(state, message).detail(detail).hint(hint));
        }
        for reader in readers {
            self.environment.host.cascades.push(label(reader));
            self.drop_column(oid, reader, true, true)?;
        }
        Ok(())
    }

    /// The constraints of a table that are about a column, and their names.
    fn constraints_with(
        &self,
        body: &TableBody,
        at: usize,
        table: &str,
    ) -> Result<Vec<(Oid, String)>> {
        let mut found = Vec::new();
        let mut constraints: Vec<&Constraint> = body.constraints.iter().collect();
        // A reference of the table to itself goes before the key that it needs.
        constraints.sort_by_key(|one| !matches!(one.rule, Rule::Foreign(_)));
        for constraint in constraints {
            let uses = match &constraint.rule {
                Rule::Primary { columns, .. } | Rule::Unique { columns, .. } => {
                    columns.contains(&at) || body.included_with(&constraint.name).contains(&at)
                }
                Rule::Foreign(foreign) => foreign.columns.contains(&at),
                Rule::Check { condition } => {
                    let bound = self.bound_check(condition, table, &body.columns)?;
                    let mut uses = false;
                    bound.columns(&mut |column| uses |= column == at);
                    uses
                }
            };
            if uses {
                found.push((constraint.oid, constraint.name.clone()));
            }
        }
        Ok(found)
    }

    /// References of other tables to columns after one that has gone.
    fn move_references(&mut self, parent: Oid, at: usize) -> Result<()> {
        let children: BTreeSet<Oid> = self
            .catalog()
            .references_to(parent)
            .map(|(child, ..)| child.oid)
            .collect();
        for child in children {
            if child == parent {
                continue;
            }
            let mut object = self.altered(child)?;
            for constraint in &mut table_body(&mut object)?.constraints {
                if let Rule::Foreign(foreign) = &mut constraint.rule
                    && foreign.parent == parent
                {
                    for place in foreign
                        .parent_columns
                        .iter_mut()
                        .filter(|place| **place > at)
                    {
                        *place -= 1;
                    }
                }
            }
            self.put(object, None)?;
        }
        Ok(())
    }

    /// Sequences of a column that has gone, which go too, and those of columns after it.
    fn move_sequences(&mut self, table: Oid, at: usize, cascade: bool) -> Result<()> {
        let owned = self.catalog().objects().filter_map(|object| {
            let Body::Sequence(sequence) = &object.body else {
                return None;
            };
            let (owner, place) = sequence.owner?;
            (owner == table).then(|| (Arc::clone(object), place))
        });
        for (sequence, place) in owned.collect::<Vec<_>>() {
            match place.cmp(&at) {
                Ordering::Less => {}
                Ordering::Equal => self.drop_with_dependents(&sequence, cascade)?,
                Ordering::Greater => {
                    let mut moved = Object::clone(&sequence);
                    if let Body::Sequence(body) = &mut moved.body {
                        body.owner = Some((table, place - 1));
                    }
                    self.put(moved, None)?;
                }
            }
        }
        Ok(())
    }
}

/// Takes a column from a table; what names columns after it names them by their new places.
fn take_column(body: &mut TableBody, at: usize, oid: Oid) {
    body.columns.remove(at);
    body.forget_column(at);
    let moved = |place: &mut usize| {
        if *place > at {
            *place -= 1;
        }
    };
    body.key.iter_mut().for_each(moved);
    for constraint in &mut body.constraints {
        match &mut constraint.rule {
            Rule::Primary { columns, .. } | Rule::Unique { columns, .. } => {
                columns.iter_mut().for_each(moved);
            }
            Rule::Foreign(foreign) => {
                foreign.columns.iter_mut().for_each(moved);
                foreign.set_on_delete.iter_mut().for_each(moved);
                if foreign.parent == oid {
                    foreign.parent_columns.iter_mut().for_each(moved);
                }
            }
            Rule::Check { .. } => {}
        }
    }
}
