//! Errors of syntax, in the words of PostgreSQL.
//!
//! `sqlparser` says what it expected and where; PostgreSQL names the token that it cannot read. The
//! place in the former's message leads to the latter.

use super::depth::too_deep;
use super::place::LineIndex;
use sql_values::error::{SqlError, SqlState};
use sqlparser::parser::ParserError;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, TokenizerError};

/// The error of a text that cannot be cut into tokens.
pub(crate) fn of_tokenizer(failure: &TokenizerError, places: &LineIndex) -> SqlError {
    let message = if failure.message.contains("Unterminated") || failure.message.contains("EOF") {
        "unterminated quoted string".to_owned()
    } else {
        failure.message.clone()
    };
    syntax(message).at(places.position(failure.location))
}

/// The error of a statement that cannot be parsed.
pub(crate) fn of_parser(
    failure: &ParserError,
    tokens: &[TokenWithSpan],
    places: &LineIndex,
) -> SqlError {
    let message = match failure {
        ParserError::RecursionLimitExceeded => return too_deep(),
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    if message.contains("found: EOF") {
        return syntax("syntax error at end of input");
    }
    let located = location_in(message).and_then(|location| {
        let mut tokens = tokens.iter();
        tokens.find(|token| token.span.start == location)
    });
    match located {
        Some(token) => near(token, places),
        None => syntax(message.clone()),
    }
}

/// Fails if a name in quotes is empty.
pub(crate) fn check_names(tokens: &[TokenWithSpan], places: &LineIndex) -> Result<(), SqlError> {
    let mut tokens = tokens.iter();
    let empty = tokens.find(|token| {
        matches!(&token.token, Token::Word(word)
            if word.quote_style.is_some() && word.value.is_empty())
    });
    empty.map_or(Ok(()), |token| {
        let text = places.text_of(token.span);
        let message = format!("zero-length delimited identifier at or near \"{text}\"");
        Err(syntax(message).at(places.start(token.span)))
    })
}

/// The error of a token that cannot stand where it stands.
pub(crate) fn near(token: &TokenWithSpan, places: &LineIndex) -> SqlError {
    if token.token == Token::EOF {
        return syntax("syntax error at end of input");
    }
    let text = places.text_of(token.span);
    syntax(format!("syntax error at or near \"{text}\"")).at(places.start(token.span))
}

fn syntax(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// The place at the end of a message of the parser's.
fn location_in(message: &str) -> Option<Location> {
    let (_, place) = message.rsplit_once("at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    Some(Location {
        line: line.parse().ok()?,
        column: column.trim().parse().ok()?,
    })
}
