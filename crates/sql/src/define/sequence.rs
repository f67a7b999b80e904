//! Sequences: `CREATE SEQUENCE`, and those that belong to a column.
//!
//! Options are checked together, as the limits depend on the type and the direction. The next
//! number is stored when the first one is taken.

use crate::bind::type_named;
use crate::catalog::{Body, Object, Oid, SequenceBody};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use crate::types::{Kind, Type};
use sqlparser::ast::{Expr, ObjectName, SequenceOptions, UnaryOperator, Value};

/// Options of a sequence that have been read.
pub(super) type Options = ();

/// Creates a sequence.
pub(super) fn create(
    session: &mut Session,
    name: &ObjectName,
    if_not_exists: bool,
    options: &[SequenceOptions],
) -> Result<Completion> {
    session.begin_definition()?;
    let completion = Completion::new("CREATE SEQUENCE");
    let Some((namespace, name)) = session.new_name(name, if_not_exists)? else {
        return Ok(completion);
    };
    let data_type = session
        .sequence_type(options)?
        .unwrap_or(Kind::Int8.plain());
    let body = sequence_body(data_type, options)?;
    let oid = session.sql.next_oid(1);
    let object = Object {
        oid,
        namespace,
        name,
        comment: None,
        body: Body::Sequence(body),
    };
    session.put(object, None)?;
    Ok(completion)
}

impl Session {
    fn sequence_type(&self, options: &[SequenceOptions]) -> Result<Option<Type>> {
        let named = options.iter().find_map(|option| match option {
            SequenceOptions::DataType(name) => Some(name),
            _ => None,
        });
        let named = named.map(|name| type_named(&self.environment.names, name));
        Ok(named.transpose()?.map(|named| named.data_type))
    }

    /// A sequence for a column, under a name that is free.
    pub(super) fn owned_sequence(
        &mut self,
        (namespace, table): (Oid, &str),
        column: &str,
        data_type: Type,
        options: &[SequenceOptions],
    ) -> Result<(Object, Options)> {
        if !matches!(data_type.kind, Kind::Int2 | Kind::Int4 | Kind::Int8) {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let name = self.free_name(namespace, &[table, column, "seq"], &[]);
        let body = sequence_body(data_type, options)?;
        let oid = self.sql.next_oid(1);
        let object = Object {
            oid,
            namespace,
            name,
            comment: None,
            body: Body::Sequence(body),
        };
        Ok((object, ()))
    }
}

/// A sequence with these options.
fn sequence_body(data_type: Type, options: &[SequenceOptions]) -> Result<SequenceBody> {
    let (least, greatest) = match data_type.kind {
        Kind::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Kind::Int4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Kind::Int8 => (i64::MIN, i64::MAX),
        _ => {
            let message = "sequence type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    };
    let (mut increment, mut min, mut max, mut start, mut cache, mut cycles) =
        (1, None, None, None, 1, false);
    for option in options {
        match option {
            SequenceOptions::IncrementBy(value, _) => increment = number(value)?,
            SequenceOptions::MinValue(value) => min = value.as_ref().map(number).transpose()?,
            SequenceOptions::MaxValue(value) => max = value.as_ref().map(number).transpose()?,
            SequenceOptions::StartWith(value, _) => start = Some(number(value)?),
            SequenceOptions::Cache(value) => cache = number(value)?,
            SequenceOptions::Cycle(no) => cycles = !no,
            SequenceOptions::DataType(_) | SequenceOptions::OwnedBy(_) => {}
        }
    }
    let bad = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    if increment == 0 {
        return bad("INCREMENT must not be zero".to_owned());
    }
    let (low, high) = if increment > 0 {
        (1, greatest)
    } else {
        (least, -1)
    };
    let (min, max) = (min.unwrap_or(low), max.unwrap_or(high));
    if min >= max {
        return bad(format!(
            "MINVALUE ({min}) must be less than MAXVALUE ({max})"
        ));
    }
    let start = start.unwrap_or(if increment > 0 { min } else { max });
    if start < min {
        return bad(format!(
            "START value ({start}) cannot be less than MINVALUE ({min})"
        ));
    }
    if start > max {
        return bad(format!(
            "START value ({start}) cannot be greater than MAXVALUE ({max})"
        ));
    }
    Ok(SequenceBody {
        data_type,
        start,
        increment,
        min,
        max,
        cycles,
        cache,
        owner: None,
    })
}

fn number(value: &Expr) -> Result<i64> {
    let (sign, value) = match value {
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => ("-", &**expr),
        other => ("", other),
    };
    let text = match value {
        Expr::Value(value) => match &value.value {
            Value::Number(text, _) => Some(format!("{sign}{text}")),
            _ => None,
        },
        _ => None,
    };
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let message = format!("syntax error at or near \"{value}\"");
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    })
}
