//! Statements and clauses that do not exist here and that the parser does not know.
//!
//! Their errors say so, and what to use instead; the parser's would be errors of syntax.

use super::rewrite::Words;
use sql_values::error::{SqlError, SqlState};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Kinds of objects that do not exist here, and what to use instead; those with more words come
/// before those that begin in the same way.
const KINDS: [(&str, &str); 21] = [
    ("TRIGGER", DEFINED),
    ("EVENT TRIGGER", DEFINED),
    ("RULE", DEFINED),
    ("POLICY", "Grant rights on a view with a condition."),
    ("AGGREGATE", FUNCTION),
    ("CAST", FUNCTION),
    ("OPERATOR CLASS", FUNCTION),
    ("OPERATOR FAMILY", FUNCTION),
    ("OPERATOR", FUNCTION),
    ("TRANSFORM", FUNCTION),
    ("LANGUAGE", FUNCTION),
    ("ACCESS METHOD", "Use a btree index."),
    ("PUBLICATION", COPIES),
    ("SUBSCRIPTION", COPIES),
    ("STATISTICS", "ANALYZE keeps statistics of each column."),
    ("SERVER", ROWS_ELSEWHERE),
    ("FOREIGN DATA WRAPPER", ROWS_ELSEWHERE),
    ("FOREIGN TABLE", ROWS_ELSEWHERE),
    ("USER MAPPING", ROWS_ELSEWHERE),
    ("TEXT SEARCH", "Use LIKE or a regular expression."),
    ("TABLESPACE", "A database is one directory."),
];
const DEFINED: &str =
    "Use a default, a generated column, a constraint or a view, or change both in one statement.";
const FUNCTION: &str = "Use a function in SQL.";
const COPIES: &str = "Use `indelible backup` and `indelible archive`.";
const ROWS_ELSEWHERE: &str =
    "Copy the rows, or let a PostgreSQL reach this server by postgres_fdw.";

/// The error of a statement that does not exist here; none for others.
pub(crate) fn refused(tokens: &[TokenWithSpan]) -> Option<SqlError> {
    let words = Words::new(tokens);
    if let Some(error) = of_missing_kind(&words) {
        return Some(error);
    }
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

/// The error of a statement about a kind of objects that does not exist here. `DROP IF EXISTS`
/// finds none, which is no error.
fn of_missing_kind(words: &Words<'_>) -> Option<SqlError> {
    let verbs = [
        ("CREATE", &["CREATE"][..]),
        ("ALTER", &["ALTER"]),
        ("DROP", &["DROP"]),
        ("COMMENT ON", &["COMMENT", "ON"]),
    ];
    let starts = |at: usize, of: &[&str]| (at..).zip(of).all(|(at, word)| words.is(at, word));
    let (verb, mut at) = verbs
        .into_iter()
        .find_map(|(verb, of)| starts(0, of).then_some((verb, of.len())))?;
    if verb == "CREATE" && starts(at, &["OR", "REPLACE"]) {
        at += 2;
    }
    let is_before = words.is_any(at, &["TRUSTED", "PROCEDURAL"]);
    if is_before || verb == "CREATE" && starts(at, &["CONSTRAINT", "TRIGGER"]) {
        at += 1;
    }
    let (kind, instead) = KINDS.into_iter().find(|(kind, _)| {
        let kind: Vec<&str> = kind.split(' ').collect();
        let end = at + kind.len();
        let is_asked = words.is(end, "IF") || words.is(end + 1, "IF");
        starts(at, &kind) && !(verb == "DROP" && is_asked)
    })?;
    Some(SqlError::unsupported(format!("{verb} {kind}"), instead))
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

#[cfg(test)]
mod tests {
    /// The parser has errors of syntax for most of them.
    #[test]
    fn kinds_of_objects_that_are_not_here_are_told() {
        for (text, feature) in [
            ("create publication p for all tables", "CREATE PUBLICATION"),
            (
                "create or replace trigger t before insert on t execute procedure f()",
                "CREATE TRIGGER",
            ),
            (
                "create constraint trigger t after insert on t execute function f()",
                "CREATE TRIGGER",
            ),
            (
                "create or replace procedural language plperl",
                "CREATE LANGUAGE",
            ),
            (
                "create operator === (leftarg = int, procedure = f)",
                "CREATE OPERATOR",
            ),
            (
                "alter text search dictionary d (a = b)",
                "ALTER TEXT SEARCH",
            ),
            ("comment on policy p on t is 'x'", "COMMENT ON POLICY"),
            ("drop statistics s", "DROP STATISTICS"),
            (
                "alter foreign table f add column a int",
                "ALTER FOREIGN TABLE",
            ),
        ] {
            let error = crate::parse(text).err().unwrap();
            let message = format!("{feature} is not supported");
            assert_eq!((error.state.0, error.message), ("0A000", message), "{text}");
            assert!(error.hint.is_some(), "{text}");
        }
        for text in [
            "drop statistics if exists s",
            "drop text search parser if exists s",
            "comment on constraint trigger on t is 'x'",
            "create table rule (trigger int)",
            "alter table t drop policy",
        ] {
            assert!(crate::parse(text).is_ok(), "{text}");
        }
    }
}
