//! Literals of several tokens: strings that go on in the next line, names in `U&"..."`, and
//! `UESCAPE`.
//!
//! They become one token before a statement is read. A string goes on if nothing but blanks with
//! the end of a line among them, or comments to the end of a line, stands between its parts.

use super::rewrite::Words;
use sql_values::error::{Result, SqlError, SqlState};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Whitespace};
use std::borrow::Cow;

/// The tokens of a text with each literal as one token.
pub(crate) fn joined(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // The last string, and whether its line has ended.
    let mut last: Option<(usize, bool)> = None;
    for token in tokens {
        match (&token.token, last) {
            (Token::SingleQuotedString(more), Some((at, true))) => {
                append(&mut kept[at].token, more);
                kept[at].span.end = token.span.end;
                kept.truncate(at + 1);
                last = Some((at, false));
                continue;
            }
            (
                Token::SingleQuotedString(_)
                | Token::EscapedStringLiteral(_)
                | Token::UnicodeStringLiteral(_),
                _,
            ) => last = Some((kept.len(), false)),
            (Token::Whitespace(Whitespace::MultiLineComment(_)), _) => last = None,
            (Token::Whitespace(blank), Some((at, has_ended))) => {
                let ends = matches!(
                    blank,
                    Whitespace::Newline | Whitespace::SingleLineComment { .. }
                );
                last = Some((at, has_ended || ends));
            }
            _ => last = None,
        }
        kept.push(token);
    }
    escaped(with_names(kept))
}

/// Tokens with names after `U&`, whose characters may be numbers, as one token that is no name yet.
fn with_names(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for mut token in tokens {
        let is_name = matches!(&token.token, Token::Word(word) if word.quote_style == Some('"'));
        if is_name
            && let [.., letter, sign] = kept.as_slice()
            && sign.token == Token::Ampersand
            && matches!(&letter.token, Token::Word(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("u"))
            && letter.span.end == sign.span.start
            && sign.span.end == token.span.start
            && let Token::Word(word) = &mut token.token
        {
            word.quote_style = Some(UNICODE);
            token.span.start = letter.span.start;
            kept.truncate(kept.len() - 2);
        }
        kept.push(token);
    }
    kept
}

/// The quote of a name whose characters may be numbers, until it has been read.
const UNICODE: char = '&';

/// Statements whose strings are values of their own, and no parts of expressions that are kept.
const PLAIN: [&str; 4] = ["COMMENT", "COPY", "NOTIFY", "SET"];
/// Kinds of objects whose definitions have strings of this kind only.
const PLAIN_KINDS: [&str; 6] = ["DATABASE", "GROUP", "ROLE", "SYSTEM", "TYPE", "USER"];

/// The tokens of a statement, with strings of all forms as plain ones where the parser takes no
/// others.
pub(crate) fn plain(tokens: &[TokenWithSpan]) -> Cow<'_, [TokenWithSpan]> {
    let words = Words::new(tokens);
    let is_definition = words.is_any(0, &["ALTER", "CREATE"]) && words.is_any(1, &PLAIN_KINDS);
    let content = |token: &Token| match token {
        Token::DollarQuotedString(string) => Some(string.value.clone()),
        Token::EscapedStringLiteral(content) => Some(content.clone()),
        _ => None,
    };
    let has_other = tokens.iter().any(|one| content(&one.token).is_some());
    if !has_other || !(is_definition || words.is_any(0, &PLAIN)) {
        return Cow::Borrowed(tokens);
    }
    let mut tokens = tokens.to_vec();
    for one in &mut tokens {
        if let Some(content) = content(&one.token) {
            one.token = Token::SingleQuotedString(content);
        }
    }
    Cow::Owned(tokens)
}

/// Adds a further part to a string.
fn append(string: &mut Token, more: &str) {
    match string {
        Token::SingleQuotedString(content) | Token::UnicodeStringLiteral(content) => {
            content.push_str(more);
        }
        Token::EscapedStringLiteral(content) => {
            let text = format!("E'{}'", more.replace('\'', "''"));
            let tokens = Tokenizer::new(&PostgreSqlDialect {}, &text).tokenize();
            match tokens.as_deref() {
                Ok([Token::EscapedStringLiteral(more)]) => content.push_str(more),
                _ => content.push_str(more),
            }
        }
        _ => {}
    }
}

/// The content of a string or a name whose characters may be numbers, and whether it is a name.
fn numbered(token: &Token) -> Option<(&str, bool)> {
    match token {
        Token::UnicodeStringLiteral(content) => Some((content, false)),
        Token::Word(word) if word.quote_style == Some(UNICODE) => Some((&word.value, true)),
        _ => None,
    }
}

/// Strings before `UESCAPE` with the characters that they stand for, and all names.
fn escaped(mut tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let mut at = 0;
    while at < tokens.len() {
        let Some((content, is_name)) = numbered(&tokens[at].token) else {
            at += 1;
            continue;
        };
        let rest = tokens[at + 1..].iter().enumerate();
        let mut rest = rest.filter(|(_, one)| !matches!(one.token, Token::Whitespace(_)));
        let (word, sign) = (rest.next(), rest.next());
        let is_escape = word.is_some_and(|(_, one)| {
            matches!(&one.token, Token::Word(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("uescape"))
        });
        if is_escape && let Some((end, sign)) = sign {
            let Token::SingleQuotedString(sign) = &sign.token else {
                return Err(bad("UESCAPE must be followed by a simple string literal"));
            };
            let content = decoded(content, escape_of(sign)?)?;
            tokens[at].token = if is_name {
                Token::make_word(&content, Some('"'))
            } else {
                Token::SingleQuotedString(content)
            };
            tokens[at].span.end = tokens[at + 1 + end].span.end;
            tokens.drain(at + 1..=at + 1 + end);
        } else if is_name {
            tokens[at].token = Token::make_word(&decoded(content, '\\')?, Some('"'));
        }
        at += 1;
    }
    Ok(tokens)
}

fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

fn escape_of(sign: &str) -> Result<char> {
    let mut characters = sign.chars();
    match (characters.next(), characters.next()) {
        (Some(one), None)
            if !one.is_ascii_hexdigit()
                && !matches!(one, '+' | '\'' | '"')
                && !one.is_ascii_whitespace() =>
        {
            Ok(one)
        }
        _ => Err(bad("invalid Unicode escape character")),
    }
}

/// The content of a string whose characters may be written as numbers after a sign.
fn decoded(content: &str, sign: char) -> Result<String> {
    let mut text = String::with_capacity(content.len());
    let mut rest = content;
    while let Some((before, after)) = rest.split_once(sign) {
        text.push_str(before);
        if let Some(after) = after.strip_prefix(sign) {
            text.push(sign);
            rest = after;
            continue;
        }
        let (digits, after) = match after.strip_prefix('+') {
            Some(after) => (after.get(..6), after.get(6..)),
            None => (after.get(..4), after.get(4..)),
        };
        let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let character = number.and_then(char::from_u32);
        let (Some(character), Some(after)) = (character, after) else {
            return Err(bad("invalid Unicode escape"));
        };
        text.push(character);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}
