//! `ALTER DOMAIN`: defaults, NOT NULL and checks.
//!
//! A new condition is tested on all values of the domain in tables, unless it is `NOT VALID`. A
//! domain that was made of this one has the conditions of that time.

use super::change::names_of;
use super::column::{CHECK, DEFAULT};
use crate::catalog::{Body, Column, DomainBody, Object, Oid, Typed};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::session::Session;
use crate::types::{Kind, Type};
use sql_parse::DomainChange;

/// Changes a domain.
pub(super) fn change(session: &mut Session, object: &Object, change: &DomainChange) -> Result<()> {
    session.must_own(object)?;
    let mut new = object.clone();
    let Body::Domain(domain) = &mut new.body else {
        return Err(SqlError::internal("a domain has the body of one"));
    };
    match change {
        DomainChange::Default(default) => {
            let default = default.as_deref();
            domain.default = default
                .map(|tree| session.kept_text(tree, DEFAULT))
                .transpose()?;
        }
        DomainChange::NotNull(is_set) => {
            if *is_set && !domain.not_null {
                session.refuse_nulls(object)?;
            }
            domain.not_null = *is_set;
        }
        DomainChange::Add {
            name,
            condition,
            is_unproven,
        } => {
            let text = session.domain_check(condition, domain.base)?;
            let name = match name {
                Some(name) => name.clone(),
                None => free_name(&object.name, domain),
            };
            if place_of(domain, &name).is_some() {
                return Err(duplicate(&name, &object.name));
            }
            if *is_unproven {
                domain.unproven.push(name.clone());
            } else {
                let value = [Column::new("value", domain.base)];
                session.refuse_broken(object, &text, &value)?;
            }
            domain.checks.push((name, text));
        }
        DomainChange::Drop { name, if_exists } => match place_of(domain, name) {
            Some(at) => domain.forget_check(at),
            None => {
                let error = missing(name, &object.name);
                if !if_exists {
                    return Err(error);
                }
                let notice = format!("{}, skipping", error.message);
                session.environment.host.notice(notice);
            }
        },
        DomainChange::Validate(name) => {
            let at = place_of(domain, name).ok_or_else(|| missing(name, &object.name))?;
            let value = [Column::new("value", domain.base)];
            session.refuse_broken(object, &domain.checks[at].1, &value)?;
            domain.unproven.retain(|own| own != name);
        }
        DomainChange::Rename(from, to) => {
            let at = place_of(domain, from).ok_or_else(|| missing(from, &object.name))?;
            if place_of(domain, to).is_some() {
                return Err(duplicate(to, &object.name));
            }
            domain.checks[at].0.clone_from(to);
            let unproven = domain.unproven.iter_mut();
            unproven
                .filter(|own| *own == from)
                .for_each(|own| own.clone_from(to));
        }
    }
    session.put(new, None)
}

fn place_of(domain: &DomainBody, name: &str) -> Option<usize> {
    domain.checks.iter().position(|(own, _)| own == name)
}

/// The usual name of a further check.
pub(super) fn free_name(domain: &str, body: &DomainBody) -> String {
    let parts = [domain, "check"];
    let free = names_of(&parts).find(|name| place_of(body, name).is_none());
    free.unwrap_or_default()
}

fn missing(name: &str, domain: &str) -> SqlError {
    let message = format!("constraint \"{name}\" of domain \"{domain}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

fn duplicate(name: &str, domain: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for domain \"{domain}\" already exists");
    SqlError::new(SqlState::DUPLICATE_OBJECT, message)
}

impl Session {
    /// The text of a new condition on the values of a domain.
    pub(super) fn domain_check(
        &self,
        condition: &sqlparser::ast::Expr,
        base: Type,
    ) -> Result<String> {
        let text = self.kept_text(condition, CHECK)?;
        let value = [Column::new("value", base)];
        let wanted = Some((Kind::Bool.plain(), "CHECK"));
        self.check_text(&text, ("", &value), wanted, false)?;
        Ok(text)
    }

    /// Fails if a table has values of a domain inside others, which nobody looks at.
    fn refuse_inside(&self, domain: &Object) -> Result<()> {
        let catalog = self.catalog();
        let is_it = |(_, own): Typed| own == Some(domain.oid);
        let users = catalog.columns_where(&|typed| catalog.has_inside(typed, &is_it));
        let Some((table, _, column)) = users.first() else {
            return Ok(());
        };
        let (name, table, column) = (&domain.name, &table.name, &column.name);
        let message =
            format!("cannot alter type \"{name}\" because column \"{table}.{column}\" uses it");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    /// Fails if a value of a domain in a table is NULL.
    fn refuse_nulls(&mut self, domain: &Object) -> Result<()> {
        self.refuse_inside(domain)?;
        let is_null = |value: Expr| Expr::IsNull(Box::new(value), false);
        let found = self.column_with(domain.oid, &is_null)?;
        found.map_or(Ok(()), |(column, table)| {
            let message = format!("column \"{column}\" of table \"{table}\" contains null values");
            Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message))
        })
    }

    /// Fails if a value of a domain in a table breaks a condition.
    fn refuse_broken(&mut self, domain: &Object, condition: &str, value: &[Column]) -> Result<()> {
        self.refuse_inside(domain)?;
        let condition = self.bound_check(condition, "", value)?;
        let is_broken = |value: Expr| {
            let mut condition = condition.clone();
            if let Expr::Column(at, _) = value {
                condition.shift(0, at as isize);
            }
            Expr::IsTruth(Box::new(condition), Some(false), false)
        };
        let found = self.column_with(domain.oid, &is_broken)?;
        found.map_or(Ok(()), |(column, table)| {
            let message = format!(
                "column \"{column}\" of table \"{table}\" contains values that violate the new constraint"
            );
            Err(SqlError::new(SqlState::CHECK_VIOLATION, message))
        })
    }

    /// A column of a domain, and its table, that has a value for which a test holds.
    fn column_with(
        &mut self,
        domain: Oid,
        test: &dyn Fn(Expr) -> Expr,
    ) -> Result<Option<(String, String)>> {
        let columns = self.catalog();
        let columns = columns.columns_where(&|(_, own)| own == Some(domain));
        let columns = columns.into_iter().map(|(table, at, column)| {
            let value = Expr::Column(at, column.data_type);
            (table.oid, value, (column.name.clone(), table.name.clone()))
        });
        for (table, value, names) in columns.collect::<Vec<_>>() {
            if self.has_row(table, test(value))? {
                return Ok(Some(names));
            }
        }
        Ok(None)
    }
}
