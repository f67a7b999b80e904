//! `table.*` as a value: the row of a table, where it is neither an item of a list nor an argument.
//!
//! PostgreSQL's own texts of views have it, as in `t.*::t`. It becomes the one argument of
//! `COALESCE`, whose value is that argument.

use super::{MARK, Words};
use crate::LineIndex;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};
use std::ops::Range;

/// Words before a bracket that are no names of functions.
const BEFORE: [&str; 13] = [
    "SELECT",
    "DISTINCT",
    "WHERE",
    "ON",
    "AND",
    "OR",
    "NOT",
    "WHEN",
    "THEN",
    "ELSE",
    "CASE",
    "HAVING",
    "RETURNING",
];

impl Words<'_> {
    /// The row of a table whose `*` is at a place.
    pub(super) fn whole_row(&mut self, star: usize) {
        let Some(mut start) = star.checked_sub(2) else {
            return;
        };
        while let Some(before) = start.checked_sub(2)
            && self.is_token(start - 1, &Token::Period)
            && matches!(self.token(before), Some(Token::Word(_)))
        {
            start = before;
        }
        let is_name = matches!(self.token(star - 2), Some(Token::Word(_)));
        if !(is_name && self.is_token(star - 1, &Token::Period) && self.is_value(start, star)) {
            return;
        }
        let mut tokens = vec![Token::make_keyword("COALESCE"), Token::LParen];
        let row = (start..=star).filter_map(|at| self.token(at).cloned());
        tokens.extend(row);
        tokens.push(Token::RParen);
        self.replace(start..star + 1, &tokens);
    }

    /// Whether the tokens around say that a row is a value.
    fn is_value(&self, start: usize, star: usize) -> bool {
        let is_tested = match self.token(star + 1) {
            Some(Token::DoubleColon) => true,
            next => is_comparison(next) || self.is_any(star + 1, &["IS", "IN", "OPERATOR"]),
        };
        let Some(before) = start.checked_sub(1) else {
            return is_tested;
        };
        let is_bracketed = self.is_token(before, &Token::LParen)
            && self.is_token(star + 1, &Token::RParen)
            && before.checked_sub(1).is_some_and(|word| {
                self.is_any(word, &BEFORE) || !matches!(self.token(word), Some(Token::Word(_)))
            });
        is_tested || is_bracketed || is_comparison(self.token(before))
    }
}

fn is_comparison(token: Option<&Token>) -> bool {
    matches!(
        token,
        Some(Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq)
    )
}

/// The text of a query for people: rows of tables as PostgreSQL writes them, and a blank before the
/// columns of `USING`.
pub fn shown_text(text: &str) -> String {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location();
    let Ok(tokens) = tokens else {
        return text.to_owned();
    };
    let (words, places) = (Words::new(&tokens), LineIndex::new(text));
    let byte = |at: usize| places.byte(tokens[words.places[at]].span.start);
    let mut shown = text.to_owned();
    for at in (0..words.len().saturating_sub(1)).rev() {
        if !words.is_token(at + 1, &Token::LParen) {
            continue;
        }
        if words.is(at, "USING") && byte(at + 1) == byte(at) + "USING".len() {
            shown.insert(byte(at + 1), ' ');
        }
        let end = words.after_bracket(at + 1) - 1;
        if let Some((mark, clause)) = words.exclusion(at + 1) {
            shown.insert_str(byte(end), &clause);
            shown.replace_range(byte(mark.start)..byte(mark.end), "");
        }
        let is_row = words.is(at, "COALESCE")
            && words.is_token(end - 1, &Token::Mul)
            && (at + 2..end - 1)
                .all(|at| matches!(words.token(at), Some(Token::Word(_) | Token::Period)));
        if is_row {
            shown.replace_range(byte(end)..=byte(end), "");
            shown.replace_range(byte(at)..byte(at + 2), "");
        }
    }
    with_clauses(shown)
}

/// The text with the clauses that marks stand for.
fn with_clauses(mut text: String) -> String {
    if !text.contains(MARK) {
        return text;
    }
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, &text).tokenize_with_location();
    let Ok(tokens) = tokens else {
        return text;
    };
    let (words, places) = (Words::new(&tokens), LineIndex::new(text.as_str()));
    let ends = |range: Range<usize>| {
        let (first, last) = (words.places[range.start], words.places[range.end - 1]);
        places.byte(tokens[first].span.start)..places.byte(tokens[last].span.end)
    };
    let shown = words.shown_clauses().into_iter();
    let shown: Vec<_> = shown.map(|(range, clause)| (ends(range), clause)).collect();
    for (range, clause) in shown.into_iter().rev() {
        let is_left_out = clause.is_empty() && text[range.end..].starts_with(' ');
        let end = range.end + usize::from(is_left_out);
        text.replace_range(range.start..end, clause);
    }
    text
}
