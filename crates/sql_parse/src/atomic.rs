//! `BEGIN ATOMIC ... END`, the body of a function as statements, which becomes a text after `AS`.
//!
//! The body has semicolons of its own, so it is looked for before a text is cut into statements.

use crate::LineIndex;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::Range;

/// The tokens of a text, with the bodies of functions as texts.
pub(crate) fn bodies_as_texts(
    tokens: Vec<TokenWithSpan>,
    text: &str,
    places: &LineIndex,
) -> Vec<TokenWithSpan> {
    let bodies = bodies(&tokens);
    if bodies.is_empty() {
        return tokens;
    }
    let mut kept = Vec::with_capacity(tokens.len());
    let mut next = 0;
    for body in bodies {
        kept.extend_from_slice(&tokens[next..body.start]);
        let (first, last) = (&tokens[body.start], &tokens[body.end - 1]);
        let query = &tokens[body.start + 1..body.end - 1];
        let start = query
            .iter()
            .find(|token| !super::is_blank(token) && !is(token, "ATOMIC"));
        let start = start.map_or(last.span.start, |token| token.span.start);
        let content = &text[places.byte(start)..places.byte(last.span.start)];
        let content = content.trim_end().trim_end_matches(';').to_owned();
        for token in [
            Token::make_keyword("AS"),
            Token::SingleQuotedString(content),
        ] {
            let span = first.span;
            kept.push(TokenWithSpan { token, span });
        }
        next = body.end;
    }
    kept.extend_from_slice(&tokens[next..]);
    kept
}

/// The places of the bodies, from `BEGIN` to `END`.
fn bodies(tokens: &[TokenWithSpan]) -> Vec<Range<usize>> {
    let mut bodies = Vec::new();
    let plain = tokens.iter().enumerate();
    let plain: Vec<_> = plain.filter(|(_, token)| !super::is_blank(token)).collect();
    let mut start = 0;
    let mut at = 0;
    while let Some((place, token)) = plain.get(at) {
        if token.token == Token::SemiColon {
            start = at + 1;
        }
        let is_atomic = is(token, "BEGIN")
            && plain
                .get(at + 1)
                .is_some_and(|(_, next)| is(next, "ATOMIC"));
        if is_atomic && makes_function(&plain[start..at]) {
            let Some(end) = end_of(&plain, at) else {
                break;
            };
            bodies.push(*place..plain[end].0 + 1);
            at = end;
        }
        at += 1;
    }
    bodies
}

/// Whether a statement begins with `CREATE FUNCTION`.
fn makes_function(words: &[(usize, &TokenWithSpan)]) -> bool {
    let is_at = |at: usize, word| words.get(at).is_some_and(|(_, token)| is(token, word));
    let kind = if is_at(1, "OR") { 3 } else { 1 };
    is_at(0, "CREATE") && (is_at(kind, "FUNCTION") || is_at(kind, "PROCEDURE"))
}

/// The place of the `END` of a body; a `CASE` has one of its own.
fn end_of(plain: &[(usize, &TokenWithSpan)], begin: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, (_, token)) in plain.iter().enumerate().skip(begin) {
        depth += usize::from(is(token, "BEGIN") || is(token, "CASE"));
        if is(token, "END") {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

fn is(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}
