//! The tokens of a text, with the ends of operators where PostgreSQL has them.
//!
//! The tokenizer takes all letters of operators in a row for one operator. PostgreSQL ends an
//! operator before a comment, and before a last `+` or `-` unless a letter that no operator of
//! the standard has is in it (its manual, section 4.1.3), so `a>-3` compares with a number.

use super::LineIndex;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError};

/// Letters with which an operator may end in `+` or `-`.
const OTHERS: [char; 10] = ['~', '!', '@', '#', '%', '^', '&', '|', '`', '?'];
/// The most comments that follow operators without a blank: each is read with all that follows.
const COMMENTS_MAX: usize = 100;

/// The tokens of a text.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let mut found = Vec::new();
    let mut start = Location { line: 1, column: 1 };
    let mut rest = text;
    for _ in 0..=COMMENTS_MAX {
        let mut read = Vec::new();
        let dialect = PostgreSqlDialect {};
        let end = Tokenizer::new(&dialect, rest).tokenize_with_location_into_buf(&mut read);
        let read = with_signs(read, rest);
        let comment = read.iter().enumerate().find_map(|(at, token)| {
            let length = comment_in(operator(&token.token)?)?;
            Some((at, length))
        });
        let mut read = read;
        let mut from_comment = read.split_off(comment.map_or(read.len(), |(at, _)| at));
        let shifted = |mut token: TokenWithSpan| {
            token.span.start = shift(token.span.start, start);
            token.span.end = shift(token.span.end, start);
            token
        };
        for token in read {
            push_parts(&mut found, shifted(token));
        }
        let Some((_, length)) = comment else {
            return match end {
                Ok(()) => Ok(found),
                Err(error) => Err(TokenizerError {
                    location: shift(error.location, start),
                    ..error
                }),
            };
        };
        let before = from_comment.swap_remove(0);
        let from = LineIndex::new(rest).byte(before.span.start) + length;
        let before = shifted(before);
        if length > 0 {
            let text = operator(&before.token).unwrap_or_default();
            push_parts(&mut found, part(&before, 0..length, text));
        }
        start = Location {
            column: before.span.start.column + length as u64,
            ..before.span.start
        };
        rest = &rest[from..];
    }
    Err(TokenizerError {
        message: format!("more than {COMMENTS_MAX} comments right after operators"),
        location: start,
    })
}

/// Tokens with the signs that end operators such as `^-`, for which the tokenizer has two tokens.
fn with_signs(read: Vec<TokenWithSpan>, text: &str) -> Vec<TokenWithSpan> {
    let mut places = None;
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(read.len());
    for token in read {
        let is_sign = matches!(token.token, Token::Plus | Token::Minus);
        if let Some(last) = joined.last_mut().filter(|_| is_sign)
            && last.span.end == token.span.start
            && may_end_in_sign(&last.token)
        {
            let places = places.get_or_insert_with(|| LineIndex::new(text));
            let span = Span {
                end: token.span.end,
                ..last.span
            };
            let operator = places.text_of(span);
            if operator.contains(OTHERS) {
                let token = Token::CustomBinaryOperator(operator.to_owned());
                *last = TokenWithSpan { token, span };
                continue;
            }
        }
        joined.push(token);
    }
    joined
}

/// Whether a token is an operator of letters that PostgreSQL takes a sign after it for a part of.
fn may_end_in_sign(token: &Token) -> bool {
    match token {
        Token::Neq | Token::Caret | Token::CustomBinaryOperator(_) => true,
        Token::Word(_) | Token::Number(..) | Token::Whitespace(_) | Token::Placeholder(_) => false,
        other => {
            let text = other.to_string();
            let is_letter = |letter| OTHERS.contains(&letter) || "+-*/<>=".contains(letter);
            text.contains(OTHERS) && text.chars().all(is_letter)
        }
    }
}

/// The text of a token, as it is read again.
pub(crate) fn token_text(token: &Token) -> String {
    match token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
            format!("'{}'", text.replace('\'', "''"))
        }
        Token::Word(word) if word.quote_style == Some('"') => {
            format!("\"{}\"", word.value.replace('"', "\"\""))
        }
        other => other.to_string(),
    }
}

/// The text of an operator that the parser has no token for.
fn operator(token: &Token) -> Option<&str> {
    match token {
        Token::CustomBinaryOperator(text) => Some(text),
        _ => None,
    }
}

/// The bytes of an operator before the comment in it.
fn comment_in(operator: &str) -> Option<usize> {
    let places = ["/*", "--"].map(|comment| operator.find(comment));
    places.into_iter().flatten().min()
}

/// A location in a text as one in the text of which that is a part.
fn shift(location: Location, start: Location) -> Location {
    if location.line == 1 {
        Location {
            line: start.line,
            column: start.column + location.column - 1,
        }
    } else {
        Location {
            line: start.line + location.line - 1,
            ..location
        }
    }
}

/// A part of an operator as a token of its own. Letters of operators have one byte each.
fn part(whole: &TokenWithSpan, range: std::ops::Range<usize>, text: &str) -> TokenWithSpan {
    let at = |offset: usize| Location {
        column: whole.span.start.column + offset as u64,
        ..whole.span.start
    };
    let text = &text[range.clone()];
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize();
    let token = match tokens.ok().as_deref() {
        Some([token]) => token.clone(),
        _ => Token::CustomBinaryOperator(text.to_owned()),
    };
    TokenWithSpan {
        token,
        span: Span {
            start: at(range.start),
            end: at(range.end),
        },
    }
}

/// Adds a token, and the signs at the end of an operator as others.
fn push_parts(found: &mut Vec<TokenWithSpan>, token: TokenWithSpan) {
    let Some(text) = operator(&token.token).map(str::to_owned) else {
        found.push(token);
        return;
    };
    let mut from = 0;
    while from < text.len() {
        let rest = &text[from..];
        let mut length = rest.len();
        if !rest.contains(OTHERS) {
            let kept = rest.trim_end_matches(['+', '-']).len();
            length = if kept < rest.len() { kept.max(1) } else { kept };
        }
        found.push(part(&token, from..from + length, &text));
        from += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<(String, u64)> {
        let tokens = tokens(text).unwrap();
        let tokens = tokens
            .iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_)));
        tokens
            .map(|token| (token.token.to_string(), token.span.start.column))
            .collect()
    }

    #[test]
    fn operators_end_before_signs_and_comments() {
        let cases: [(&str, &[(&str, u64)]); 10] = [
            ("a<>-3", &[("a", 1), ("<>", 2), ("-", 4), ("3", 5)]),
            ("a>-3", &[("a", 1), (">", 2), ("-", 3), ("3", 4)]),
            (
                "a>=+-3",
                &[("a", 1), (">=", 2), ("+", 4), ("-", 5), ("3", 6)],
            ),
            ("a->-1", &[("a", 1), ("->", 2), ("-", 4), ("1", 5)]),
            ("-+-3", &[("-", 1), ("+", 2), ("-", 3), ("3", 4)]),
            ("a%-3", &[("a", 1), ("%-", 2), ("3", 4)]),
            ("a<->b", &[("a", 1), ("<->", 2), ("b", 5)]),
            ("a>/*c'*/b", &[("a", 1), (">", 2), ("b", 9)]),
            ("a<=--c'", &[("a", 1), ("<=", 2)]),
            (
                "a>/*1*/b>/*2*/-c",
                &[("a", 1), (">", 2), ("b", 8), (">", 9), ("-", 15), ("c", 16)],
            ),
        ];
        for (text, wanted) in cases {
            let wanted: Vec<(String, u64)> = wanted
                .iter()
                .map(|(token, column)| ((*token).to_owned(), *column))
                .collect();
            assert_eq!(shown(text), wanted, "{text}");
        }
    }

    #[test]
    fn errors_after_comments_have_their_place() {
        let error = tokens("a>/*c'*/b,\n c>/**/'d").unwrap_err();
        assert_eq!((error.location.line, error.location.column), (2, 8));
        assert!(tokens(&"1>/**/".repeat(1000)).is_err());
    }
}
