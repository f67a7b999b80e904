//! Texts of the catalogue whose tables, columns, types and functions get other names.
//!
//! The query of a view, and expressions of tables and domains, are kept as text with full names.
//! The names are looked up before one of them changes, and the text is written anew after it.

use super::drop::{Dependent, label_of};
use crate::catalog::{Body, Catalog, Kept, OWNER, Object, Oid, Origin, Rule, TableBody};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use sql_bind::{Binder, Resolved, object_scope};
use sql_parse::{LineIndex, stored_text};
use sqlparser::ast::{Query, Statement};
use std::sync::Arc;

/// An object with texts, and the names in them; none of a text that cannot be bound, which an
/// earlier build may have left.
pub(crate) type Reader = (Arc<Object>, Vec<Option<Resolved>>);

/// Parts of a table whose texts `calls` tells of.
fn users_in_table(
    object: &Object,
    table: &TableBody,
    catalog: &Catalog,
    calls: &dyn Fn(&String) -> bool,
) -> Vec<(String, Dependent)> {
    let (oid, name) = (object.oid, &object.name);
    let mut users = Vec::new();
    for form in &table.forms {
        let index = table.indexes.iter().find(|index| index.oid == form.index);
        // One of a partition goes with that of the partitioned table.
        let index = index.filter(|one| catalog.partition_parent(one.oid).is_none());
        if let Some(index) = index
            && form.keys.iter().chain(&form.predicate).any(calls)
        {
            let dependent = Dependent::Index(index.oid);
            users.push((format!("index {}", index.name), dependent));
        }
    }
    for one in &table.constraints {
        if matches!(&one.rule, Rule::Check { condition, .. } if calls(condition)) {
            let what = format!("constraint {} on table {name}", one.name);
            users.push((what, Dependent::Constraint(oid, one.oid)));
        }
    }
    for column in &table.columns {
        let what = format!("column {} of table {name}", column.name);
        if column.default.iter().any(calls) {
            let what = format!("default value for {what}");
            users.push((what, Dependent::Default(oid, column.name.clone())));
        }
        if matches!(&column.origin, Origin::Generated(value) if calls(value)) {
            users.push((what, Dependent::Column(oid, column.name.clone())));
        }
    }
    users
}

/// The query of a view, materialized or not.
fn query_of(view: &Object) -> Option<&str> {
    match &view.body {
        Body::View(view) => Some(&view.query),
        Body::Table(table) => Some(&table.materialized.as_ref()?.query),
        _ => None,
    }
}

impl Session {
    /// The text of a query with full names.
    pub(super) fn with_full_names(&self, query: &str) -> Result<String> {
        let names = &self.environment.names;
        let resolved = self.resolved(query)?;
        Ok(match resolved.without_natural() {
            Some(query) => self.resolved(&query)?.text(names),
            None => resolved.text(names),
        })
    }

    /// The text of a query, in words that are read as they stand.
    pub(super) fn plain_query(&self, query: &Query) -> Result<String> {
        let text = stored_text(query);
        let parsed = sql_parse::parse_stored(&text)?;
        Ok(match parsed.first().map(|parsed| &*parsed.statement) {
            Some(Statement::Query(query)) => stored_text(query),
            _ => text,
        })
    }

    /// Gives the expressions of an object full names. One that cannot be bound stays as it is: the
    /// columns that it reads are being renamed.
    pub(crate) fn name_in_full(&self, object: &mut Object) {
        if matches!(object.body, Body::View(_)) {
            return;
        }
        let known = object.clone();
        let names = &self.environment.names;
        object.each_text(&mut |text, wanted| {
            if let Ok(resolved) = self.resolved_in(&known, (text, wanted)) {
                *text = resolved.text(names);
            }
        });
    }

    /// The names of a query that the catalogue keeps, or will keep. Its privileges are those of the
    /// view, so none are looked at.
    fn resolved(&self, query: &str) -> Result<Resolved> {
        let parsed = sql_parse::parse_stored(query)?;
        let Some(Statement::Query(tree)) = parsed.first().map(|parsed| &*parsed.statement) else {
            return Err(SqlError::unsupported("keeping this query", "Use a SELECT."));
        };
        self.binding_text(query, |binder| binder.resolved(tree))
    }

    /// The names of a text of an object.
    fn resolved_in(&self, object: &Object, (text, kept): (&str, Kept)) -> Result<Resolved> {
        let Kept::Value(wanted) = kept else {
            return self.resolved(text);
        };
        let tree = sql_parse::parse_expression(text)?;
        let scope = object_scope(object)?;
        self.binding_text(text, |binder| {
            binder.resolved_expression((&tree, wanted), (scope, Some(object.oid)))
        })
    }

    fn binding_text<R>(&self, text: &str, body: impl FnOnce(&mut Binder<'_>) -> R) -> R {
        let mut names = self.environment.names.clone();
        (names.role, names.has_all_rights) = (OWNER, true);
        let (database, places) = (self.sql.database(), LineIndex::new(text));
        let context = self.environment.context();
        body(&mut Binder::new(&names, database, context, &places))
    }

    /// Whether a schema is that of another session's temporary objects.
    pub(super) fn is_others(&self, namespace: Oid) -> bool {
        self.environment.names.is_others(namespace)
    }

    /// Relations, functions and types that the texts of an object name.
    pub(super) fn named_in_texts(&self, object: &Object) -> Vec<Oid> {
        let mut named = Vec::new();
        object.clone().each_text(&mut |text, kept| {
            let resolved = self.resolved_in(object, (text, kept));
            named.extend(resolved.iter().flat_map(Resolved::objects));
        });
        named
    }

    /// Objects with texts, and the names in them.
    fn readers(&self, reads: impl Fn(&Object) -> bool) -> Vec<Reader> {
        let mut readers = Vec::new();
        let objects = self.catalog().objects();
        // Temporary objects of another session have names that only that one finds.
        let objects = objects.filter(|object| !self.is_others(object.namespace));
        for object in objects.filter(|object| reads(object)) {
            let mut texts = Vec::new();
            Object::clone(object).each_text(&mut |text, wanted| {
                texts.push(self.resolved_in(object, (text, wanted)).ok());
            });
            if texts.iter().any(Option::is_some) {
                readers.push((Arc::clone(object), texts));
            }
        }
        readers
    }

    /// The objects whose texts name an object, if it gets another name, schema, or other names of
    /// columns.
    pub(crate) fn readers_of_names(&self, before: &Object, after: &Object) -> Vec<Reader> {
        let is_same = before.name == after.name && before.namespace == after.namespace;
        match (&before.body, &after.body) {
            (Body::Table(old), Body::Table(new)) => {
                let pairs = || old.columns.iter().zip(&new.columns);
                let other = pairs().position(|(old, new)| old.name != new.name);
                if old.columns.len() == new.columns.len() + 1 {
                    let lost = other.unwrap_or(new.columns.len());
                    let mut readers = self.readers(|object| Catalog::reads(object, before.oid));
                    let texts = readers.iter_mut().flat_map(|(_, texts)| texts).flatten();
                    texts.for_each(|text| text.lose_column(before.oid, lost));
                    return readers;
                }
                let is_same_row = old.columns.len() != new.columns.len() || other.is_none();
                if is_same && is_same_row {
                    return Vec::new();
                }
                self.readers(|object| {
                    object.oid == before.oid && !is_same_row || Catalog::reads(object, before.oid)
                })
            }
            (Body::Enum(old), Body::Enum(new)) if is_same => {
                let labels = old.labels.iter();
                let is_renamed = old.labels.len() == new.labels.len() && !labels.eq(&new.labels);
                match is_renamed {
                    true => self.readers(|object| object.oid != before.oid),
                    false => Vec::new(),
                }
            }
            (Body::View(old), Body::View(new)) if is_same => {
                let mut pairs = old.columns.iter().zip(&new.columns);
                match pairs.any(|(old, new)| old.0 != new.0) {
                    true => self.readers(|object| Catalog::reads(object, before.oid)),
                    false => Vec::new(),
                }
            }
            _ if is_same => Vec::new(),
            (Body::View(_), _) => self.readers(|object| Catalog::reads(object, before.oid)),
            (
                Body::Schema
                | Body::Sequence(_)
                | Body::Function(_)
                | Body::Enum(_)
                | Body::Domain(_)
                | Body::Composite(_),
                _,
            ) => self.readers(|object| object.oid != before.oid),
            _ => Vec::new(),
        }
    }

    /// Writes the texts of objects with the names that others have now.
    pub(crate) fn follow_names(&mut self, readers: Vec<Reader>) -> Result<()> {
        for (object, resolved) in readers {
            let Some(object) = self.catalog().object(object.oid) else {
                continue;
            };
            let (mut object, names) = (Object::clone(object), &self.environment.names);
            let (mut resolved, mut is_other) = (resolved.iter(), false);
            object.each_text(&mut |text, _| {
                let resolved = resolved.next().and_then(Option::as_ref);
                let new = resolved.map(|resolved| resolved.text(names));
                if let Some(new) = new.filter(|new| *new != *text) {
                    *text = new;
                    is_other = true;
                }
            });
            if is_other {
                self.write_object(object, None)?;
            }
        }
        Ok(())
    }

    /// Parts of tables and domains that call a function, or name a type or a sequence, and views
    /// that name one of these.
    pub(super) fn users_of_name(&self, function: Oid) -> Vec<(String, Dependent)> {
        let catalog = self.catalog();
        let is_function = match catalog.object(function).map(|object| &object.body) {
            Some(Body::Function(_)) => true,
            Some(Body::Enum(_) | Body::Domain(_) | Body::Composite(_) | Body::Sequence(_)) => false,
            _ => return Vec::new(),
        };
        let mut users = Vec::new();
        // Many tables go with a sequence, and most texts do not name it. Others are in quotes.
        let sequence = catalog.object(function);
        let is_plain = |name: &str| name.chars().all(|one| one.is_alphanumeric() || one == '_');
        let sequence = sequence
            .filter(|object| matches!(object.body, Body::Sequence(_)) && is_plain(&object.name));
        let name = sequence.map(|sequence| sequence.name.to_lowercase());
        let may_name = |text: &str| {
            name.as_ref()
                .is_none_or(|name| text.to_lowercase().contains(name))
        };
        let objects = catalog.objects();
        for object in objects.filter(|object| !self.is_others(object.namespace)) {
            let calls = |text: &String| {
                if !may_name(text) {
                    return false;
                }
                let resolved = self.resolved_in(object, (text, Kept::Value(None)));
                resolved.is_ok_and(|resolved| resolved.names_object(function))
            };
            let (oid, name) = (object.oid, &object.name);
            // The functions of a view are among what it reads.
            if !is_function
                && query_of(object).is_some_and(may_name)
                && self.view_names(object, function)
            {
                let what = format!("{} {name}", object.kind_name());
                users.push((what, Dependent::Object(oid)));
            }
            match &object.body {
                Body::Domain(domain) => {
                    let mut checks = domain.checks.iter().map(|(_, check)| check);
                    // A type goes with the function of its default, and stays without a check.
                    if domain.default.iter().any(calls) {
                        users.push((format!("type {name}"), Dependent::Object(oid)));
                    } else if checks.any(calls) {
                        let what = format!("constraint of type {name}");
                        users.push((what, Dependent::Domain(oid)));
                    }
                }
                Body::Table(table) => users.extend(users_in_table(object, table, catalog, &calls)),
                _ => {}
            }
        }
        users
    }

    /// Functions that take or return values of a type, or whose arguments have defaults that name
    /// a function, a type or a sequence.
    pub(super) fn functions_by_default(&self, wanted: Oid) -> Vec<(String, Dependent)> {
        let catalog = self.catalog();
        let is_named = !matches!(
            catalog.object(wanted).map(|object| &object.body),
            None | Some(Body::Table(_) | Body::View(_))
        );
        let objects = catalog.objects().filter(|object| {
            let Body::Function(function) = &object.body else {
                return false;
            };
            let names_it = |text: &String| {
                let resolved = self.resolved_in(object, (text, Kept::Value(None)));
                resolved.is_ok_and(|resolved| resolved.names_object(wanted))
            };
            let is_other = object.oid != wanted && !self.is_others(object.namespace);
            let is_named = is_named && function.defaults.iter().any(names_it);
            is_other && (function.has_type(wanted) || is_named)
        });
        let names = &self.environment.names;
        let users = objects.map(|object| (label_of(names, object), Dependent::Object(object.oid)));
        users.collect()
    }

    /// Whether the query of a view names an object that is none of those that it reads.
    fn view_names(&self, view: &Object, wanted: Oid) -> bool {
        let resolved = query_of(view).map(|query| self.resolved(query));
        let names_it = |resolved: Resolved| resolved.names_object(wanted);
        !Catalog::reads(view, wanted) && resolved.is_some_and(|one| one.is_ok_and(names_it))
    }

    /// Takes the checks that call a function from a domain.
    pub(super) fn forget_function(&mut self, domain: Oid, function: Oid) -> Result<()> {
        let mut object = self.altered(domain)?;
        let known = object.clone();
        let calls = |text: &String| {
            let resolved = self.resolved_in(&known, (text, Kept::Value(None)));
            resolved.is_ok_and(|resolved| resolved.names_object(function))
        };
        if let Body::Domain(domain) = &mut object.body {
            while let Some(at) = domain.checks.iter().position(|(_, text)| calls(text)) {
                domain.forget_check(at);
            }
        }
        self.put(object, None)
    }

    /// The views whose queries name a column.
    fn readers_of_column(&self, table: Oid, at: usize) -> Vec<Arc<Object>> {
        let readers = self
            .readers(|object| Catalog::reads(object, table))
            .into_iter();
        let names_it = |resolved: &Resolved| resolved.names_column(table, at);
        let readers = readers.filter(|(_, texts)| texts.iter().flatten().any(names_it));
        readers.map(|(view, _)| view).collect()
    }

    /// The views of a table whose queries can be bound.
    pub(super) fn views_of(&self, table: Oid) -> Vec<Arc<Object>> {
        let readers = self.readers(|object| Catalog::reads(object, table));
        readers.into_iter().map(|(view, _)| view).collect()
    }

    /// Drops those of some views whose queries can no longer be bound without `needed`, which has
    /// been dropped: groups of a primary key have one value of each column. Refuses without
    /// `cascade`.
    pub(super) fn drop_broken_views(
        &mut self,
        mut views: Vec<Arc<Object>>,
        needed: &str,
        cascade: bool,
    ) -> Result<()> {
        views.retain(|view| {
            let query = query_of(view).map(|query| self.resolved(query));
            query.is_some_and(|resolved| resolved.is_err())
        });
        self.drop_views(views, needed, cascade)
    }

    /// Drops the views that name a column which is to be dropped, or refuses.
    pub(super) fn drop_readers_of_column(
        &mut self,
        (table, at): (&Object, usize),
        name: &str,
        cascade: bool,
    ) -> Result<()> {
        let readers = self.readers_of_column(table.oid, at);
        self.drop_views(
            readers,
            &format!("column {name} of table {}", table.name),
            cascade,
        )
    }

    /// Drops views that need something which goes, or refuses.
    fn drop_views(&mut self, views: Vec<Arc<Object>>, needed: &str, cascade: bool) -> Result<()> {
        let label = |view: &Object| format!("{} {}", view.kind_name(), view.name);
        if !views.is_empty() && !cascade {
            let message = format!("cannot drop {needed} because other objects depend on it");
            let views = views.iter();
            let detail = views.map(|view| format!("{} depends on {needed}", label(view)));
            let state = SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
            let error = SqlError::new(state, message);
            let error = error.detail(detail.collect::<Vec<_>>().join("\n"));
            return Err(error.hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for view in views {
            if self.catalog().object(view.oid).is_some() {
                self.environment.host.cascades.push(label(&view));
                self.drop_with_dependents(&view, true)?;
            }
        }
        Ok(())
    }

    /// Refuses another type of a column that a view names.
    pub(super) fn refuse_readers_of_column(&self, table: Oid, at: usize, name: &str) -> Result<()> {
        let readers = self.readers_of_column(table, at);
        let Some(view) = readers.first() else {
            return Ok(());
        };
        let message = "cannot alter type of a column used by a view or rule";
        let detail = format!(
            "rule _RETURN on {} {} depends on column \"{name}\"",
            view.kind_name(),
            view.name
        );
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }
}
