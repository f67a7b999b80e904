//! Statements and clauses that do not exist here and that the parser does not know.
//!
//! Their errors say so, and what to use instead; the parser's would be errors of syntax.

use super::rewrite::Words;
use sql_values::error::{SqlError, SqlState};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The error of a statement that does not exist here; none for others.
pub(crate) fn refused(tokens: &[TokenWithSpan]) -> Option<SqlError> {
    let words = Words::new(tokens);
    if words.is(0, "COPY") {
        return delimiter(&words);
    }
    if words.is(0, "ALTER") {
        return altered(&words);
    }
    if words.is_any(0, &["GRANT", "REVOKE"]) {
        return privileges(&words);
    }
    if !words.is(0, "CREATE") {
        return None;
    }
    if words.is(1, "DATABASE") {
        let instead = "A directory is a database: indelible create makes one.";
        return Some(SqlError::unsupported("CREATE DATABASE", instead));
    }
    let at = if words.is(1, "OR") { 3 } else { 1 };
    if words.is(at, "PROCEDURE") {
        let instead = "Use a function in SQL, or compute in the client.";
        return Some(SqlError::unsupported("CREATE PROCEDURE", instead));
    }
    if !words.is(at, "FUNCTION") {
        return None;
    }
    let open = (at..words.len()).find(|at| words.is_token(*at, &Token::LParen))?;
    let close = words.after_bracket(open);
    if (open..close).any(|at| words.is(at, "VARIADIC")) {
        let instead = "Take an array.";
        return Some(SqlError::unsupported("an argument VARIADIC", instead));
    }
    None
}

/// The error of a change of the database other than its settings, or of the server.
fn altered(words: &Words<'_>) -> Option<SqlError> {
    if words.is(1, "SYSTEM") {
        let instead = "Write the setting into the server's file, or use ALTER DATABASE ... SET.";
        return Some(SqlError::unsupported("ALTER SYSTEM", instead));
    }
    if words.is(1, "DATABASE") && !words.is_any(3, &["SET", "RESET"]) {
        let instead = "The database has the owner and the name that it was made with.";
        return Some(SqlError::unsupported("this ALTER DATABASE", instead));
    }
    None
}

/// The error of privileges on a kind of objects that have none here.
fn privileges(words: &Words<'_>) -> Option<SqlError> {
    let kinds = ["TYPE", "DOMAIN", "LANGUAGE", "TABLESPACE", "PARAMETER"];
    let on = (1..words.len()).find(|at| words.is(*at, "ON"))?;
    let kind = kinds.into_iter().find(|kind| words.is(on + 1, kind))?;
    // A table may have such a name.
    let has_name = matches!(words.token(on + 2), Some(Token::Word(_)));
    if !has_name || words.is_any(on + 2, &["TO", "FROM"]) {
        return None;
    }
    let instead = "Leave it out: all roles may use types and languages.";
    let feature = format!("GRANT and REVOKE of privileges ON {kind}");
    Some(SqlError::unsupported(feature, instead))
}

/// The error of a delimiter of several characters.
fn delimiter(words: &Words<'_>) -> Option<SqlError> {
    let mut places = (1..words.len()).filter(|at| words.is_any(*at, &["DELIMITER", "DELIMITERS"]));
    let is_long = places.any(|at| {
        let at = if words.is(at + 1, "AS") {
            at + 2
        } else {
            at + 1
        };
        matches!(words.token(at), Some(Token::SingleQuotedString(text)) if text.len() != 1)
    });
    is_long.then(|| {
        let message = "COPY delimiter must be a single one-byte character";
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    })
}
