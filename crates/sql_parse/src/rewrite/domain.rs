//! The clauses of `CREATE DOMAIN`, which stand in any order.
//!
//! The parser knows a default, and then checks. `NOT NULL` becomes a check of a marked name, and
//! `NULL` nothing.

use super::{NOT_NULL, Words, marked};
use sqlparser::tokenizer::Token;
use std::ops::Range;

impl Words<'_> {
    /// `CREATE DOMAIN name AS type` with its clauses, from the name on.
    pub(super) fn domain(&mut self, at: usize) {
        let starts = self.clauses(at);
        let of_type = at..starts.first().copied().unwrap_or(self.len());
        for at in of_type {
            // The parser wants a collation without its schema.
            let is_named = self.is(at, "COLLATE") && self.is(at + 1, "pg_catalog");
            if is_named && self.is_token(at + 2, &Token::Period) {
                self.replace(at + 1..at + 3, &[]);
            }
        }
        let Some(&first) = starts.first() else {
            return;
        };
        let end = self.len();
        let ends = starts.iter().skip(1).copied().chain([end]);
        let clauses: Vec<Range<usize>> = starts
            .iter()
            .zip(ends)
            .map(|(one, end)| *one..end)
            .collect();
        let (mut new, mut checks) = (Vec::new(), Vec::new());
        for clause in clauses {
            let mut words = clause.start;
            if self.is(words, "CONSTRAINT") {
                words += 2;
            }
            match () {
                () if self.is(words, "DEFAULT") => new.extend(self.tokens_of(clause)),
                () if self.is(words, "NOT") => checks.extend([
                    Token::make_keyword("CHECK"),
                    Token::LParen,
                    marked(NOT_NULL),
                    Token::RParen,
                ]),
                () if self.is(words, "NULL") => {}
                () => checks.extend(self.tokens_of(clause)),
            }
        }
        new.extend(checks);
        self.replace(first..end, &new);
    }

    /// Where the clauses begin.
    fn clauses(&self, at: usize) -> Vec<usize> {
        let mut starts = Vec::new();
        let mut next = at;
        while next < self.len() {
            if self.is_token(next, &Token::LParen) {
                next = self.after_bracket(next);
                continue;
            }
            let is_constraint = self.is(next, "CONSTRAINT");
            let words = if is_constraint { next + 2 } else { next };
            // `DEFAULT NULL` is one clause, and `NOT` belongs to expressions without `NULL`.
            let is_clause = self.is_any(words, &["DEFAULT", "CHECK"])
                || self.is(words, "NOT") && self.is(words + 1, "NULL")
                || self.is(words, "NULL") && !self.is(words.saturating_sub(1), "DEFAULT");
            if is_clause {
                starts.push(next);
                let is_pair = self.is(words, "NOT");
                next = words + if is_pair { 2 } else { 1 };
            } else {
                next += 1;
            }
        }
        starts
    }

    fn tokens_of(&self, range: Range<usize>) -> Vec<Token> {
        range.filter_map(|at| self.token(at).cloned()).collect()
    }
}
