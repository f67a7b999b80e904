//! Sequences: `CREATE SEQUENCE`, `ALTER SEQUENCE`, and those that belong to a column.
//!
//! Options are checked together, as the limits depend on the type and the direction. The next
//! number is stored when the first one is taken.

use crate::catalog::{Beginning, Body, Object, Oid, SequenceBody};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use crate::state::Loose;
use crate::types::{Kind, Type};
use sql_bind::{no_relation, type_named};
use sql_parse::{Choice, Path, SequenceChange, SequenceOptions, ident_text, object_name};
use sqlparser::ast::{
    Expr, ObjectName, ObjectNamePart, SequenceOptions as Written, UnaryOperator, Value,
};

/// Options of a sequence that have been read.
pub(super) type Options = ();

/// Creates a sequence.
pub(super) fn create(
    session: &mut Session,
    (name, is_temporary): (&ObjectName, bool),
    if_not_exists: bool,
    written: &[Written],
) -> Result<Completion> {
    session.begin_definition()?;
    let completion = Completion::new("CREATE SEQUENCE");
    let target = is_temporary
        .then(|| session.temporary_schema())
        .transpose()?;
    let Some((namespace, name)) = session.new_name_in(target, name, if_not_exists)? else {
        return Ok(completion);
    };
    let data_type = session
        .sequence_type(written)?
        .unwrap_or(Kind::Int8.plain());
    let options = options_of(written)?;
    let mut body = changed(new_body(data_type)?, &options, true)?;
    body.owner = session.owner_of(
        (namespace, session.environment.names.role),
        &options.owner,
        None,
    )?;
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

/// Changes a sequence.
pub(super) fn alter(
    session: &mut Session,
    (path, if_exists): (&Path, bool),
    change: &SequenceChange,
) -> Result<Completion> {
    session.begin_definition()?;
    let completion = Completion::new("ALTER SEQUENCE");
    let object = match session.relation_at(path) {
        Ok(object) => object,
        Err(error) if if_exists => {
            session
                .environment
                .host
                .notice(format!("{}, skipping", error.message));
            return Ok(completion);
        }
        Err(error) => return Err(error),
    };
    let Body::Sequence(body) = &object.body else {
        let message = format!("\"{}\" is not a sequence", path.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    };
    let mut new = Object::clone(&object);
    match change {
        SequenceChange::Nothing => return Ok(completion),
        SequenceChange::Owner(owner) => {
            session.change_owner(object.oid, owner)?;
            return Ok(completion);
        }
        SequenceChange::Rename(name) => {
            if session.is_taken(object.namespace, name) {
                let message = format!("relation \"{name}\" already exists");
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            new.name.clone_from(name);
        }
        SequenceChange::SetSchema(schema) => {
            new.namespace = session.environment.names.schema(schema)?;
            session.may_move(&object, new.namespace)?;
            session.refuse_taken_in(&object, (new.namespace, schema))?;
        }
        SequenceChange::Options(options) => {
            session.refuse_other_owner(&object, &options.owner)?;
            let (oid, body) = (object.oid, body.clone());
            let kept = body.owner;
            let mut changed = session.change_sequence(oid, body, options)?;
            changed.owner = {
                let own = (object.namespace, session.catalog().owner(object.oid));
                session.owner_of(own, &options.owner, kept)?
            };
            new.body = Body::Sequence(changed);
        }
    }
    session.put(new, None)?;
    Ok(completion)
}

impl Session {
    /// A sequence with other options, and another state if it restarts. Without a restart it goes
    /// on from the last number, whoever has got it, so no transaction can repeat one.
    pub(super) fn change_sequence(
        &mut self,
        oid: Oid,
        mut body: SequenceBody,
        options: &SequenceOptions,
    ) -> Result<SequenceBody> {
        let state = self.sql.sequences.state(self.sql.database(), oid, &body)?;
        let first = body.first();
        if let Some(name) = &options.data_type {
            let kind = Kind::from_name(name).unwrap_or(Kind::Text);
            let (old_low, old_high) = limits(body.data_type)?;
            let (low, high) = limits(kind.plain())?;
            // Limits that were those of the type stay so.
            if body.max == old_high {
                body.max = high;
            }
            if body.min == old_low {
                body.min = low;
            }
            body.data_type = kind.plain();
        }
        let mut new = changed(body, options, false)?;
        let first = match options.restart {
            Choice::Given(number) => number,
            Choice::Reset => new.start,
            Choice::Kept => {
                check_bound("RESTART", state.last, &new)?;
                // Another START changes what comes first after a restart only.
                let (number, first) = (new.number(oid), first);
                new.beginning = Some(Beginning { number, first });
                return Ok(new);
            }
        };
        check_bound("RESTART", first, &new)?;
        self.restart(&mut new, first);
        Ok(new)
    }

    /// Lets a sequence begin again, for others when the transaction commits.
    pub(super) fn restart(&mut self, sequence: &mut SequenceBody, first: i64) {
        let number = self.sql.next_oid(1);
        self.transaction.loose.push(Loose::Sequence(number));
        sequence.beginning = Some(Beginning { number, first });
    }

    fn sequence_type(&self, options: &[Written]) -> Result<Option<Type>> {
        let named = options.iter().find_map(|option| match option {
            Written::DataType(name) => Some(name),
            _ => None,
        });
        let named = named.map(|name| type_named(&self.environment.names, name));
        Ok(named.transpose()?.map(|named| named.data_type))
    }

    /// The table and the column of `OWNED BY`.
    fn owner_of(
        &self,
        (namespace, role): (Oid, Oid),
        owner: &Choice<(Path, String)>,
        kept: Option<(Oid, usize)>,
    ) -> Result<Option<(Oid, usize)>> {
        let (table, column) = match owner {
            Choice::Kept => return Ok(kept),
            Choice::Reset => return Ok(None),
            Choice::Given((table, column)) => (table, column),
        };
        let object = self.relation_at(table)?;
        let Body::Table(body) = &object.body else {
            let message = format!("sequence cannot be owned by relation \"{}\"", table.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        };
        let catalog = self.catalog();
        if role != catalog.owner(object.oid) {
            let message = "sequence must have same owner as table it is linked to";
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            return Err(SqlError::new(state, message));
        }
        if object.namespace != namespace {
            let message = "sequence must be in same schema as table it is linked to";
            let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
            return Err(SqlError::new(state, message));
        }
        let at = body.column(column).ok_or_else(|| {
            let message = format!(
                "column \"{column}\" of relation \"{}\" does not exist",
                object.name
            );
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        Ok(Some((object.oid, at)))
    }

    /// The detail of an error about a sequence that belongs to a table.
    pub(super) fn link_of(&self, sequence: &Object, table: Oid) -> String {
        let table = self.catalog().object(table);
        let table = table.map_or("?", |table| table.name.as_str());
        format!(
            "Sequence \"{}\" is linked to table \"{table}\".",
            sequence.name
        )
    }

    /// Fails if a sequence of an identity column is to get an owner, or to lose it.
    fn refuse_other_owner(&self, object: &Object, owner: &Choice<(Path, String)>) -> Result<()> {
        let identity = self.identity_of(object);
        let Some((table, _)) = identity.filter(|_| !matches!(owner, Choice::Kept)) else {
            return Ok(());
        };
        let message = "cannot change ownership of identity sequence";
        let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        Err(error.detail(self.link_of(object, table.oid)))
    }

    /// A sequence for a column, under a name that is free.
    pub(super) fn owned_sequence(
        &mut self,
        (namespace, table): (Oid, &str),
        column: &str,
        data_type: Type,
        written: &[Written],
    ) -> Result<(Object, Options)> {
        check_identity_type(data_type)?;
        let name = self.free_name(namespace, &[table, column, "seq"], &[]);
        let body = changed(new_body(data_type)?, &options_of(written)?, true)?;
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

    /// The sequence of a number, to be changed.
    pub(super) fn sequence_body(&self, oid: Oid) -> Result<(Object, SequenceBody)> {
        let object = self
            .catalog()
            .object(oid)
            .map(|object| Object::clone(object));
        match object {
            Some(object) => match object.body.clone() {
                Body::Sequence(body) => Ok((object, body)),
                _ => Err(no_relation(None, &object.name)),
            },
            None => Err(SqlError::internal("an identity column has a sequence")),
        }
    }
}

/// Fails if a column of a type cannot be an identity column.
pub(super) fn check_identity_type(data_type: Type) -> Result<()> {
    if matches!(data_type.kind, Kind::Int2 | Kind::Int4 | Kind::Int8) {
        return Ok(());
    }
    let message = "identity column type must be smallint, integer, or bigint";
    Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

/// The least and the greatest number of a type.
fn limits(data_type: Type) -> Result<(i64, i64)> {
    match data_type.kind {
        Kind::Int2 => Ok((i64::from(i16::MIN), i64::from(i16::MAX))),
        Kind::Int4 => Ok((i64::from(i32::MIN), i64::from(i32::MAX))),
        Kind::Int8 => Ok((i64::MIN, i64::MAX)),
        _ => {
            let message = "sequence type must be smallint, integer, or bigint";
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// A sequence before its options.
fn new_body(data_type: Type) -> Result<SequenceBody> {
    let (min, max) = limits(data_type)?;
    Ok(SequenceBody {
        data_type,
        start: 1,
        increment: 1,
        min,
        max,
        cycles: false,
        cache: 1,
        owner: None,
        beginning: None,
    })
}

fn bad(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A sequence with options, which are checked together; a new one gets defaults for the others.
fn changed(
    mut body: SequenceBody,
    options: &SequenceOptions,
    is_new: bool,
) -> Result<SequenceBody> {
    let (least, greatest) = limits(body.data_type)?;
    body.increment = options.increment.unwrap_or(body.increment);
    if body.increment == 0 {
        return Err(bad("INCREMENT must not be zero".to_owned()));
    }
    body.cycles = options.cycles.unwrap_or(body.cycles);
    let ascends = body.increment > 0;
    let (low, high) = if ascends { (1, greatest) } else { (least, -1) };
    let limit = |choice: &Choice<i64>, default, kept| match choice {
        Choice::Given(limit) => *limit,
        Choice::Kept if !is_new => kept,
        Choice::Kept | Choice::Reset => default,
    };
    body.max = limit(&options.max, high, body.max);
    body.min = limit(&options.min, low, body.min);
    for (name, limit) in [("MAXVALUE", body.max), ("MINVALUE", body.min)] {
        if !(least..=greatest).contains(&limit) {
            let kind = body.data_type.kind;
            return Err(bad(format!(
                "{name} ({limit}) is out of range for sequence data type {kind}"
            )));
        }
    }
    let (min, max) = (body.min, body.max);
    if min >= max {
        return Err(bad(format!(
            "MINVALUE ({min}) must be less than MAXVALUE ({max})"
        )));
    }
    body.start = match options.start {
        Some(start) => start,
        None if is_new && ascends => min,
        None if is_new => max,
        None => body.start,
    };
    check_bound("START", body.start, &body)?;
    body.cache = options.cache.unwrap_or(body.cache);
    if body.cache <= 0 {
        return Err(bad(format!(
            "CACHE ({}) must be greater than zero",
            body.cache
        )));
    }
    Ok(body)
}

/// Fails if a number is outside the limits of a sequence.
fn check_bound(name: &str, number: i64, body: &SequenceBody) -> Result<()> {
    if number < body.min {
        return Err(bad(format!(
            "{name} value ({number}) cannot be less than MINVALUE ({})",
            body.min
        )));
    }
    if number > body.max {
        return Err(bad(format!(
            "{name} value ({number}) cannot be greater than MAXVALUE ({})",
            body.max
        )));
    }
    Ok(())
}

/// Options as the parser reads them.
fn options_of(written: &[Written]) -> Result<SequenceOptions> {
    let mut options = SequenceOptions::default();
    for option in written {
        match option {
            Written::IncrementBy(value, _) => options.increment = Some(number(value)?),
            Written::MinValue(value) => {
                options.min = value.as_ref().map(number).transpose()?.into();
            }
            Written::MaxValue(value) => {
                options.max = value.as_ref().map(number).transpose()?.into();
            }
            Written::StartWith(value, _) => options.start = Some(number(value)?),
            Written::Cache(value) => options.cache = Some(number(value)?),
            Written::Cycle(no) => options.cycles = Some(!no),
            Written::DataType(_) => {}
            Written::OwnedBy(owner) => options.owner = owner_named(owner.as_ref())?.into(),
        }
    }
    Ok(options)
}

/// The table and the column of `OWNED BY table.column`.
fn owner_named(owner: Option<&ObjectName>) -> Result<Option<(Path, String)>> {
    let Some(owner) = owner else { return Ok(None) };
    let mut parts = owner.0.clone();
    let column = match parts.pop() {
        Some(ObjectNamePart::Identifier(column)) => ident_text(&column),
        _ => String::new(),
    };
    if parts.is_empty() {
        let message = "invalid OWNED BY option";
        let hint = "Specify OWNED BY table.column or OWNED BY NONE.";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).hint(hint));
    }
    let (schema, name) = object_name(&ObjectName(parts))?;
    Ok(Some((Path { schema, name }, column)))
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
