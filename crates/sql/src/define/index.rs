//! `CREATE INDEX`.
//!
//! The index below is built at once, over all rows that have committed; it is dropped again if the
//! transaction does not commit. Keys that are expressions, and keys of a part of the rows, are
//! columns that the table keeps for the index and shows to nobody.

use super::column::without_collation;
use crate::bind::{Binder, row_scope};
use crate::catalog::{Body, Hidden, Index, IndexForm, Names, Object, Oid, TableBody};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr as PlanExpr;
use crate::session::Session;
use crate::sink::Completion;
use crate::state::{Loose, quoted};
use crate::types::function::Volatility;
use crate::types::{Kind, Type};
use indelible::{TableLock, Uniqueness};
use sql_parse::{Places, ident_text, object_name};
use sqlparser::ast::{CreateIndex, Expr, IndexType, OrderBySort};

/// Creates an index over the rows that are there.
pub(super) fn create(session: &mut Session, create: &CreateIndex) -> Result<Completion> {
    refuse(create)?;
    session.begin_definition()?;
    let completion = Completion::new("CREATE INDEX");
    let (schema, table) = object_name(&create.table_name)?;
    let found = session
        .environment
        .names
        .find(Names::Relations, schema.as_deref(), &table);
    let object = found
        .cloned()
        .ok_or_else(|| crate::bind::no_relation(schema.as_deref(), &table))?;
    let Body::Table(body) = &object.body else {
        let message = format!("cannot create index on relation \"{table}\"");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    let keys = session.index_keys(create, &object)?;
    let labels: Vec<String> = keys.iter().map(IndexKey::label).collect();
    let Some(name) = session.index_name(create, &object, &labels)? else {
        return Ok(completion);
    };
    let options = create.columns.iter().map(|column| {
        let options = &column.column.options;
        let descends = matches!(options.sort, Some(OrderBySort::Desc));
        (descends, options.nulls_first.unwrap_or(descends))
    });
    let index = Index {
        oid: session.sql.next_oid(1),
        physical: Some(name.clone()),
        name,
        columns: Vec::new(),
        is_unique: create.unique,
        options: options.collect(),
    };
    let is_plain = keys.iter().all(|key| matches!(key, IndexKey::Column(..)));
    match &create.predicate {
        None if is_plain => session.build_index(&object, body, index, &keys)?,
        predicate => session.build_hidden(&object, index, &keys, predicate.as_ref())?,
    }
    Ok(completion)
}

/// A key of an index: a column with its name, or an expression with its text and type.
enum IndexKey {
    Column(usize, String),
    Expression(String, Type, String),
}

impl IndexKey {
    /// Its part of a name for the index.
    fn label(&self) -> String {
        match self {
            Self::Column(_, name) | Self::Expression(.., name) => name.clone(),
        }
    }

    /// Its text in a definition.
    fn text(&self) -> String {
        match self {
            Self::Column(_, name) => quoted(name),
            Self::Expression(text, ..) => text.clone(),
        }
    }
}

impl Session {
    /// The keys of a new index.
    fn index_keys(&self, create: &CreateIndex, object: &Object) -> Result<Vec<IndexKey>> {
        let Body::Table(body) = &object.body else {
            return Ok(Vec::new());
        };
        let mut keys: Vec<IndexKey> = Vec::with_capacity(create.columns.len());
        for column in &create.columns {
            let mut tree = without_collation(&column.column.expr);
            while let Expr::Nested(inner) = tree {
                tree = without_collation(inner);
            }
            if let Expr::Identifier(name) = tree {
                let name = ident_text(name);
                let at = body.column(&name).ok_or_else(|| {
                    let message = format!("column \"{name}\" does not exist");
                    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                })?;
                // A key that is there twice adds nothing.
                let is_known =
                    |key: &IndexKey| matches!(key, IndexKey::Column(own, _) if *own == at);
                if !keys.iter().any(is_known) {
                    keys.push(IndexKey::Column(at, name));
                }
                continue;
            }
            let text = self.kept_text(tree)?;
            let data_type = self.index_expression(&text, object, body)?;
            let label = match tree {
                Expr::Function(function) => object_name(&function.name)?.1,
                _ => "expr".to_owned(),
            };
            keys.push(IndexKey::Expression(text, data_type, label));
        }
        Ok(keys)
    }

    /// The type of an expression of an index, whose value may depend on the row only.
    fn index_expression(&self, text: &str, object: &Object, body: &TableBody) -> Result<Type> {
        let places = Places::default();
        let environment = &self.environment;
        let database = self.sql.database();
        let mut binder = Binder::new(&environment.names, database, environment.context(), &places);
        let columns = body.columns.iter();
        let columns = columns.map(|column| (column.name.clone(), column.data_type));
        let bound = binder.stored(text, row_scope(&object.name, columns)?)?;
        let is_changing = bound.any(|part, _| match part {
            PlanExpr::Call(call) => call.function.volatility != Volatility::Immutable,
            _ => false,
        });
        if is_changing {
            let message = "functions in index expression must be marked IMMUTABLE";
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        Ok(bound.data_type())
    }

    /// Builds an index of columns below.
    fn build_index(
        &mut self,
        object: &Object,
        body: &TableBody,
        mut index: Index,
        keys: &[IndexKey],
    ) -> Result<()> {
        index.columns = keys
            .iter()
            .filter_map(|key| match key {
                IndexKey::Column(at, _) => Some(*at),
                IndexKey::Expression(..) => None,
            })
            .collect();
        let handle = self.catalog().handle(object.oid).cloned();
        let handle = handle.ok_or_else(|| SqlError::internal("a table has rows below"))?;
        let wait = self.environment.wait();
        self.connection
            .lock_table(&handle, TableLock::SharedIntentExclusive, wait)?;
        let uniqueness = if index.is_unique {
            Uniqueness::Unique
        } else {
            Uniqueness::Repeating
        };
        let below = handle.definition();
        let names = index
            .columns
            .iter()
            .map(|&at| below.columns[at].name.clone());
        let names: Vec<String> = names.collect();
        let names = names.iter().map(String::as_str);
        self.transaction.loose.push(Loose::Index {
            table: body.physical.clone(),
            index: index.name.clone(),
        });
        let database = self.sql.database();
        let built = database.create_index(&handle, &index.name, names, uniqueness);
        built.map_err(|error| of_build(error.into(), &index.name))?;
        let mut object = object.clone();
        if let Body::Table(body) = &mut object.body {
            body.indexes.push(index);
        }
        self.put(object, None)
    }

    /// Builds an index of expressions, or of a part of the rows: its keys are hidden columns, which
    /// are NULL for rows that are not in it, so the table is written anew.
    fn build_hidden(
        &mut self,
        object: &Object,
        mut index: Index,
        keys: &[IndexKey],
        predicate: Option<&Expr>,
    ) -> Result<()> {
        let Body::Table(old) = &object.body else {
            return Ok(());
        };
        let predicate = predicate.map(|tree| self.kept_text(tree)).transpose()?;
        if let Some(text) = &predicate {
            let kind = self.index_expression(text, object, old)?.kind;
            if kind != Kind::Bool {
                let message = format!("argument of WHERE must be type boolean, not type {kind}");
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
        }
        if let Some(handle) = self.catalog().handle(object.oid).cloned() {
            let wait = self.environment.wait();
            self.connection
                .lock_table(&handle, TableLock::Exclusive, wait)?;
        }
        let mut new = object.clone();
        let Body::Table(body) = &mut new.body else {
            return Ok(());
        };
        for key in keys {
            let (data_type, is_expression) = match key {
                IndexKey::Column(at, _) => (old.columns[*at].data_type, false),
                IndexKey::Expression(_, data_type, _) => (*data_type, true),
            };
            let text = key.text();
            let value = match &predicate {
                Some(condition) => format!("CASE WHEN {condition} THEN {text} END"),
                None => text.clone(),
            };
            if let (IndexKey::Column(at, _), None) = (key, &predicate) {
                index.columns.push(*at);
                continue;
            }
            index.columns.push(body.columns.len() + body.hidden.len());
            let label = if is_expression { text } else { key.label() };
            body.hidden.push(Hidden {
                data_type,
                value: Some(value),
                label,
            });
        }
        body.forms.push(IndexForm {
            index: index.oid,
            keys: keys.iter().map(IndexKey::text).collect(),
            predicate,
        });
        let name = index.name.clone();
        body.indexes.push(index);
        let values = old.columns.iter().enumerate();
        let values = values.map(|(at, column)| PlanExpr::Column(at, column.data_type));
        self.rewrite(old, new, values.collect())
            .map_err(|error| of_build(error, &name))
    }

    /// Gives hidden columns the types that their values have now.
    pub(super) fn retype_hidden(&self, object: &mut Object) -> Result<()> {
        let before = object.clone();
        let (Body::Table(body), Body::Table(old)) = (&mut object.body, &before.body) else {
            return Ok(());
        };
        for hidden in &mut body.hidden {
            if let Some(text) = &hidden.value {
                hidden.data_type = self.index_expression(text, &before, old)?;
            }
        }
        Ok(())
    }

    /// Drops the indexes whose expressions or conditions read a column.
    pub(super) fn drop_forms_of(&mut self, oid: Oid, at: usize) -> Result<()> {
        let mut object = self.altered(oid)?;
        let table = object.name.clone();
        let Body::Table(body) = &mut object.body else {
            return Ok(());
        };
        let mut gone = Vec::new();
        for form in &body.forms {
            let mut reads = false;
            for text in form.keys.iter().chain(&form.predicate) {
                let columns = self.check_expression(text, &table, &body.columns, None)?;
                reads |= columns.contains(&at);
            }
            if reads {
                gone.push(form.index);
            }
        }
        for index in &gone {
            body.forget_form(*index);
        }
        body.indexes.retain(|index| !gone.contains(&index.oid));
        self.put(object, None)
    }

    /// The name of a new index; none if it is there already and may be.
    fn index_name(
        &mut self,
        create: &CreateIndex,
        table: &Object,
        columns: &[String],
    ) -> Result<Option<String>> {
        let Some(name) = &create.name else {
            let mut parts = vec![table.name.as_str()];
            parts.extend(columns.iter().map(String::as_str));
            parts.push("idx");
            return Ok(Some(self.free_name(table.namespace, &parts, &[])));
        };
        let (_, name) = object_name(name)?;
        if !self.is_taken(table.namespace, &name) {
            return Ok(Some(name));
        }
        let message = format!("relation \"{name}\" already exists");
        if create.if_not_exists {
            self.environment.host.notice(format!("{message}, skipping"));
            return Ok(None);
        }
        Err(SqlError::new(SqlState::DUPLICATE_TABLE, message))
    }
}

/// The error of rows that an index cannot have.
fn of_build(error: SqlError, name: &str) -> SqlError {
    if error.state != SqlState::UNIQUE_VIOLATION {
        return error;
    }
    let message = format!("could not create unique index \"{name}\"");
    SqlError { message, ..error }.named(|names| names.constraint = Some(name.to_owned()))
}

fn refuse(create: &CreateIndex) -> Result<()> {
    // Columns of INCLUDE are found in the table, which is looked at anyway.
    if let None | Some(IndexType::BTree | IndexType::Hash) = &create.using {
        return Ok(());
    }
    let instead = "Use a btree index.";
    Err(SqlError::unsupported("this kind of index", instead))
}
