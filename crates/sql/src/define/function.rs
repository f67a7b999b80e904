//! `CREATE FUNCTION` and `DROP FUNCTION`, of functions in SQL.
//!
//! The query of a function is bound when it is made, so what cannot be called is refused then. With
//! `check_function_bodies = off`, as dumps set it, what it names may be missing until it is called.

use super::column::DEFAULT;
use crate::catalog::{Body, FunctionBody, Names, Object, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::sink::Completion;
use crate::types::function::Volatility;
use crate::types::{Kind, Type};
use sql_bind::functions;
use sql_bind::type_named;
use sql_parse::{ident_text, object_name};
use sqlparser::ast::{
    ArgMode, CreateFunction, CreateFunctionBody, DataType, DropBehavior, DropFunction, Expr,
    FunctionBehavior, FunctionCalledOnNull, FunctionDesc, FunctionReturnType, FunctionSecurity,
    OperateFunctionArg, Value,
};
use std::sync::Arc;

/// Names, where they have one, and types of arguments.
type Arguments = Vec<(Option<String>, Type)>;

/// Errors about names that are not there yet.
const MISSING: [SqlState; 5] = [
    SqlState::INVALID_SCHEMA_NAME,
    SqlState::UNDEFINED_COLUMN,
    SqlState::UNDEFINED_FUNCTION,
    SqlState::UNDEFINED_OBJECT,
    SqlState::UNDEFINED_TABLE,
];

/// Creates a function.
pub(super) fn create(session: &mut Session, create: &CreateFunction) -> Result<Completion> {
    let language = create.language.as_ref().map(ident_text);
    if language.as_deref() != Some("sql") {
        let language = language.unwrap_or_else(|| "none".to_owned());
        let instead = "Use LANGUAGE sql, or compute in the client.";
        return Err(SqlError::unsupported(
            format!("a function in the language {language}"),
            instead,
        ));
    }
    if matches!(create.security, Some(FunctionSecurity::Definer)) {
        let instead =
            "It runs with the rights of its caller; a view reads with those of its owner.";
        return Err(SqlError::unsupported("SECURITY DEFINER", instead));
    }
    session.begin_definition()?;
    let (schema, name) = object_name(&create.name)?;
    if !functions().named(&name).is_empty() {
        let instead = "Give the function another name.";
        return Err(SqlError::unsupported(
            format!("a function with the name of a built-in one, {name}"),
            instead,
        ));
    }
    let namespace = match &schema {
        Some(schema) => session.schema_for_new(schema)?,
        None => session.environment.names.target_schema()?,
    };
    let body = session.function_body(create)?;
    let key = body.key(&name);
    let known = session
        .catalog()
        .find(Names::Functions, namespace, &key)
        .cloned();
    let oid = match (&known, create.or_replace) {
        (None, _) => session.sql.next_oid(1),
        (Some(known), true) => {
            check_replaced(known, &body)?;
            known.oid
        }
        (Some(_), false) => {
            let message = format!("function \"{name}\" already exists with same argument types");
            return Err(SqlError::new(SqlState::DUPLICATE_FUNCTION, message));
        }
    };
    let object = Object {
        oid,
        namespace,
        name,
        comment: None,
        body: Body::Function(body),
    };
    if let Body::Function(body) = &object.body {
        let checked = session.binding(|binder| binder.check_function(&object, body));
        // Dumps make functions before the tables that these read.
        let is_asked = session.setting("check_function_bodies") != Some("off");
        checked.or_else(|error| match error.state {
            state if MISSING.contains(&state) && !is_asked => Ok(()),
            _ => Err(error),
        })?;
    }
    session.put(object, None)?;
    Ok(Completion::new("CREATE FUNCTION"))
}

/// Drops functions.
pub(super) fn drop(session: &mut Session, drop: &DropFunction) -> Result<Completion> {
    session.begin_definition()?;
    let cascade = drop.drop_behavior == Some(DropBehavior::Cascade);
    for described in &drop.func_desc {
        match session.described(described)? {
            Ok(object) => {
                session.may_drop(&object)?;
                session.drop_with_dependents(&object, cascade)?;
            }
            Err(missing) if drop.if_exists => {
                session
                    .environment
                    .host
                    .notice(format!("{missing}, skipping"));
            }
            Err(missing) => {
                return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, missing));
            }
        }
    }
    Ok(Completion::new("DROP FUNCTION"))
}

impl Session {
    /// The type of a value that a function takes or returns.
    fn value_type(&self, data_type: &DataType, domains: &mut Vec<Oid>) -> Result<Type> {
        let named = type_named(&self.environment.names, data_type)?;
        domains.push(named.domain.unwrap_or_default());
        let found = named.data_type;
        let is_value =
            !found.kind.is_polymorphic() && !matches!(found.kind, Kind::Record | Kind::Void);
        if is_value {
            return Ok(found);
        }
        let instead = "Take and return values of one type each.";
        Err(SqlError::unsupported(
            format!("a function of the type {data_type}"),
            instead,
        ))
    }

    /// Names and types of the arguments of a function, and the defaults of the last of them.
    fn function_arguments(
        &self,
        create: &CreateFunction,
        domains: &mut Vec<Oid>,
    ) -> Result<(Arguments, Vec<String>)> {
        let (mut arguments, mut defaults) = (Vec::new(), Vec::new());
        for argument in create.args.iter().flatten() {
            let OperateFunctionArg {
                mode: None | Some(ArgMode::In),
                name,
                data_type,
                default_expr,
            } = argument
            else {
                let instead = "Give each argument a name and a type.";
                return Err(SqlError::unsupported(
                    format!("the argument {argument}"),
                    instead,
                ));
            };
            let name = name.as_ref().map(ident_text);
            let data_type = self.value_type(data_type, domains)?;
            match default_expr {
                Some(default) => {
                    let text = self.kept_text(default, DEFAULT)?;
                    self.check_text(&text, ("", &[]), Some((data_type, "DEFAULT")), false)?;
                    defaults.push(text);
                }
                None if defaults.is_empty() => {}
                None => {
                    let message =
                        "input parameters after one with a default value must also have defaults";
                    return Err(invalid(message));
                }
            }
            let is_known = |one: &(Option<String>, Type)| name.is_some() && one.0 == name;
            if let (Some(word), true) = (&name, arguments.iter().any(is_known)) {
                return Err(invalid(format!(
                    "parameter name \"{word}\" used more than once"
                )));
            }
            arguments.push((name, data_type));
        }
        Ok((arguments, defaults))
    }

    fn function_body(&self, create: &CreateFunction) -> Result<FunctionBody> {
        let mut domains = Vec::new();
        let (arguments, defaults) = self.function_arguments(create, &mut domains)?;
        let mut value = |data_type: &DataType| self.value_type(data_type, &mut domains);
        let mut columns = Vec::new();
        let (result, returns_set) = match &create.return_type {
            Some(FunctionReturnType::DataType(DataType::Table(Some(fields)))) => {
                for field in fields {
                    columns.push((ident_text(&field.name), value(&field.data_type)?));
                }
                check_columns(&columns)?;
                match columns.as_slice() {
                    // The only column is the value.
                    [(_, data_type)] => (*data_type, true),
                    _ => (Kind::Record.plain(), true),
                }
            }
            Some(FunctionReturnType::DataType(data_type)) => (value(data_type)?, false),
            Some(FunctionReturnType::SetOf(data_type)) => (value(data_type)?, true),
            None => return Err(invalid("function result type must be specified")),
        };
        if !create.set_params.is_empty() {
            let instead = "Set it in the session.";
            return Err(SqlError::unsupported("SET at a function", instead));
        }
        Ok(FunctionBody {
            arguments,
            defaults,
            result,
            columns,
            returns_set,
            is_strict: matches!(
                create.called_on_null,
                Some(FunctionCalledOnNull::Strict | FunctionCalledOnNull::ReturnsNullOnNullInput)
            ),
            volatility: match create.behavior {
                Some(FunctionBehavior::Immutable) => Volatility::Immutable,
                Some(FunctionBehavior::Stable) => Volatility::Stable,
                Some(FunctionBehavior::Volatile) | None => Volatility::Volatile,
            },
            query: query_of(create.function_body.as_ref())?,
            domains: match domains.iter().any(|domain| *domain != 0) {
                true => domains,
                false => Vec::new(),
            },
        })
    }

    /// The function that is described; the message of its absence if there is none.
    pub(super) fn described(
        &self,
        described: &FunctionDesc,
    ) -> Result<std::result::Result<Arc<Object>, String>> {
        let names = &self.environment.names;
        let (schema, name) = object_name(&described.name)?;
        let mut shown = format!("function {name}");
        if let Some(arguments) = &described.args {
            let mut kinds = Vec::new();
            for argument in arguments {
                kinds.push(type_named(names, &argument.data_type)?.data_type);
            }
            let texts: Vec<String> = kinds.iter().map(ToString::to_string).collect();
            shown = format!("{shown}({})", texts.join(", "));
            let oids: Vec<String> = kinds.iter().map(|one| one.kind.oid().to_string()).collect();
            let key = format!("{name}({})", oids.join(","));
            let found = names.find(Names::Functions, schema.as_deref(), &key);
            return Ok(found
                .cloned()
                .ok_or_else(|| format!("{shown} does not exist")));
        }
        let objects = self
            .catalog()
            .objects()
            .filter(|object| object.name == name);
        let mut found = objects.filter(|object| match &object.body {
            Body::Function(body) => names
                .find(Names::Functions, schema.as_deref(), &body.key(&name))
                .is_some_and(|found| found.oid == object.oid),
            _ => false,
        });
        match (found.next(), found.next()) {
            (Some(object), None) => Ok(Ok(Arc::clone(object))),
            (Some(_), Some(_)) => {
                let message = format!("function name \"{name}\" is not unique");
                let hint = "Specify the argument list to select the function unambiguously.";
                Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message).hint(hint))
            }
            (None, _) => Ok(Err(format!("could not find a function named \"{name}\""))),
        }
    }
}

/// Fails if a function cannot take the place of one that others may call.
fn check_replaced(known: &Object, new: &FunctionBody) -> Result<()> {
    let Body::Function(old) = &known.body else {
        return Err(SqlError::internal("a function has the body of one"));
    };
    let hint = |name: &str| {
        let types = old.arguments.iter().map(|(_, one)| one.to_string());
        let types = types.collect::<Vec<_>>().join(",");
        format!("Use DROP FUNCTION {name}({types}) first.")
    };
    let results = |body: &FunctionBody| -> Vec<Option<Oid>> {
        let count = body.columns.len().max(1);
        (0..count).map(|at| body.result_domain(at)).collect()
    };
    if old.result != new.result
        || old.returns_set != new.returns_set
        || old.columns != new.columns
        || results(old) != results(new)
    {
        let error = invalid("cannot change return type of existing function");
        return Err(error.hint(hint(&known.name)));
    }
    for ((old, _), (new, _)) in old.arguments.iter().zip(&new.arguments) {
        if let Some(old) = old
            && new.as_ref() != Some(old)
        {
            let error = invalid(format!("cannot change name of input parameter \"{old}\""));
            return Err(error.hint(hint(&known.name)));
        }
    }
    if new.defaults.len() < old.defaults.len() {
        let error = invalid("cannot remove parameter defaults from existing function");
        return Err(error.hint(hint(&known.name)));
    }
    Ok(())
}

/// Fails if two columns of `RETURNS TABLE` have one name.
fn check_columns(columns: &[(String, Type)]) -> Result<()> {
    for (at, (name, _)) in columns.iter().enumerate() {
        if columns[..at].iter().any(|(known, _)| known == name) {
            let message = format!("parameter name \"{name}\" used more than once");
            return Err(invalid(message));
        }
    }
    Ok(())
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message)
}

/// The text of a function's query.
fn query_of(body: Option<&CreateFunctionBody>) -> Result<String> {
    let text = match body {
        Some(
            CreateFunctionBody::AsBeforeOptions { body, .. }
            | CreateFunctionBody::AsAfterOptions(body),
        ) => body,
        Some(CreateFunctionBody::Return(value)) => return Ok(format!("SELECT {value}")),
        _ => {
            let instead = "Write AS and the query as a text.";
            return Err(SqlError::unsupported(
                "this form of a function's body",
                instead,
            ));
        }
    };
    match text {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Ok(text.clone()),
            Value::DollarQuotedString(text) => Ok(text.value.clone()),
            _ => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                "a function needs a text as its body",
            )),
        },
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            "a function needs a text as its body",
        )),
    }
}
