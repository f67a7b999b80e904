//! Expressions whose values may depend on the row only: keys and conditions of indexes, generated
//! columns, and keys of partitions.
//!
//! Their values are stored. One that depends on a setting or on the moment would not be the value
//! of its row any longer, and a unique index could have the same key twice. Functions say that of
//! themselves; a conversion depends on settings if it reads or prints a date, a moment or the name
//! of an object, or if it goes between times with a zone and times without. Texts that the
//! catalogue has already are not looked at, because earlier builds have taken more.

use crate::catalog::{Body, Column, Object, Origin};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::session::Session;
use crate::types::Kind;
use crate::types::function::Volatility;
use sql_bind::row_scope;

/// The place of an expression that is not immutable, for the message.
pub(super) enum Mutable {
    /// One of indexes or partitions, by its name in PostgreSQL's message.
    Functions(&'static str),
    /// A generated column.
    Generated,
}

impl Session {
    /// Fails unless the value of a new expression depends on the row only.
    pub(super) fn refuse_mutable(
        &self,
        text: &str,
        (table, columns): (&str, &[Column]),
        place: &Mutable,
    ) -> Result<()> {
        let pairs = columns.iter();
        let pairs = pairs.map(|column| (column.name.clone(), column.data_type));
        let scope = row_scope(table, pairs)?;
        let value = self.binding(|binder| binder.stored(text, scope))?;
        if matches!(place, Mutable::Generated) {
            refuse_generated(&value, columns)?;
        }
        if !value.any(|part, _| is_mutable(part)) {
            return Ok(());
        }
        let message = match place {
            Mutable::Functions(place) => format!("functions in {place} must be marked IMMUTABLE"),
            Mutable::Generated => "generation expression is not immutable".to_owned(),
        };
        Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message))
    }

    /// The same for the indexes of a table that read a column, which has another type now.
    pub(super) fn refuse_mutable_readers(&self, object: &Object, at: usize) -> Result<()> {
        let Body::Table(body) = &object.body else {
            return Ok(());
        };
        let table = (object.name.as_str(), body.columns.as_slice());
        let forms = body.forms.iter().flat_map(|form| {
            let key = |text| (text, Mutable::Functions("index expression"));
            let condition = |text| (text, Mutable::Functions("index predicate"));
            let predicate = form.predicate.iter().map(condition);
            form.keys.iter().map(key).chain(predicate)
        });
        for (text, place) in forms {
            if self
                .check_expression(text, table.0, table.1, None)?
                .contains(&at)
            {
                self.refuse_mutable(text, table, &place)?;
            }
        }
        Ok(())
    }
}

/// Refuses a generated column that reads another one: their values are made in one step.
fn refuse_generated(value: &Expr, columns: &[Column]) -> Result<()> {
    let mut read = None;
    value.columns(&mut |at| {
        let column = columns.get(at);
        read = read.or(column.filter(|one| matches!(one.origin, Origin::Generated(_))));
    });
    let Some(column) = read else {
        return Ok(());
    };
    let message = format!(
        "cannot use generated column \"{}\" in column generation expression",
        column.name
    );
    let error = SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message);
    Err(error.detail("A generated column cannot reference another generated column."))
}

/// Whether a part of an expression may have another value for the same row.
fn is_mutable(part: &Expr) -> bool {
    match part {
        // A text joined with a value is joined with the text of the value.
        Expr::Call(call) if call.is_operator && call.function.name == "||" => {
            let mut values = call.arguments.iter();
            call.function.volatility != Volatility::Immutable
                && values.any(|value| is_mutable_cast(value.kind(), Kind::Text))
        }
        Expr::Call(call) => call.function.volatility != Volatility::Immutable,
        Expr::Cast(value, to, _) => is_mutable_cast(value.kind(), to.kind),
        _ => false,
    }
}

/// Whether a conversion depends on settings, or on objects of the catalogue.
fn is_mutable_cast(from: Kind, to: Kind) -> bool {
    use Kind::{Date, Text, Time, Timestamp, Timestamptz, Timetz, Unknown, Varchar};
    if let (true, Some(from), Some(to)) = (to.is_array(), from.element(), to.element()) {
        return is_mutable_cast(from, to);
    }
    match (from, to) {
        // A literal is read when the expression is defined.
        _ if from == to || from == Unknown => false,
        (Date | Timestamp, Timestamptz) | (Time, Timetz) => true,
        (Timestamptz, Date | Time | Timestamp | Timetz) => true,
        (Text | Varchar, Kind::Regclass) => true,
        _ if crate::types::cast::table_context(from, to).is_some() => false,
        // A row becomes one of another type field by field, without texts.
        (Kind::Record | Kind::Composite(_), Kind::Record | Kind::Composite(_)) => false,
        _ => prints_by_settings(from) || reads_by_settings(to),
    }
}

/// Whether the text of a value depends on settings or on the catalogue.
fn prints_by_settings(kind: Kind) -> bool {
    let is_name = kind.is_object_number() && !matches!(kind, Kind::Oid | Kind::Xid | Kind::Cid);
    let is_moment = matches!(
        kind,
        Kind::Date | Kind::Timestamp | Kind::Timestamptz | Kind::Interval
    );
    let is_made = matches!(kind, Kind::Record | Kind::Composite(_) | Kind::Enum(_));
    is_name || is_moment || is_made || kind.is_array()
}

/// Whether the value of a text depends on settings or on the catalogue.
fn reads_by_settings(kind: Kind) -> bool {
    prints_by_settings(kind) || matches!(kind, Kind::Time | Kind::Timetz)
}
