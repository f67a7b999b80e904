//! Views: `WITH CHECK OPTION`, `WITH NO DATA`, and `CREATE RECURSIVE VIEW`.
//!
//! The first two become options, the last one a view of a recursive query.

use super::{NO_DATA, Words, marked};
use sqlparser::tokenizer::Token;
use std::ops::Range;

impl Words<'_> {
    /// `WITH CHECK OPTION` after the query of a view, as an option before it.
    pub(super) fn check_option(&mut self) {
        let end = self.len();
        let is_there = end > 4 && self.is(end - 2, "CHECK") && self.is(end - 1, "OPTION");
        let is_local = is_there && self.is(end - 3, "LOCAL");
        let is_named = is_local || is_there && self.is(end - 3, "CASCADED");
        let with = end.saturating_sub(if is_named { 4 } else { 3 });
        let query = (1..end).find(|at| self.is(*at, "AS"));
        let Some(query) = query.filter(|_| is_there && self.is(with, "WITH")) else {
            return;
        };
        let level = if is_local { "local" } else { "cascaded" };
        self.view_option(
            query,
            vec![
                Token::make_word("check_option", None),
                Token::Eq,
                Token::SingleQuotedString(level.to_owned()),
            ],
        );
        self.replace(with..end, &[]);
    }

    /// `WITH [NO] DATA` after the query of a materialized view.
    pub(super) fn with_data(&mut self) {
        let end = self.len();
        let Some(query) = (1..end).find(|at| self.is(*at, "AS")) else {
            return;
        };
        if !self.is(end - 1, "DATA") {
            return;
        }
        let is_none = self.is(end - 2, "NO");
        let with = end - if is_none { 3 } else { 2 };
        if !self.is(with, "WITH") || with <= query {
            return;
        }
        if is_none {
            self.view_option(query, vec![marked(NO_DATA)]);
        }
        self.replace(with..end, &[]);
    }

    /// An option before the query of a view.
    fn view_option(&mut self, query: usize, mut option: Vec<Token>) {
        let has_options = (1..query).any(|at| self.is(at, "WITH"));
        if has_options {
            option.insert(0, Token::Comma);
            self.replace(query - 1..query - 1, &option);
        } else {
            option.insert(0, Token::LParen);
            option.insert(0, Token::make_keyword("WITH"));
            option.push(Token::RParen);
            self.replace(query..query, &option);
        }
    }

    /// `CREATE RECURSIVE VIEW name (columns) AS query`.
    pub(super) fn recursive_view(&mut self, at: usize) {
        let Some(open) = (at..self.len()).find(|at| self.is_token(*at, &Token::LParen)) else {
            return;
        };
        let close = self.after_bracket(open);
        if !self.is(close, "AS") || open == at + 2 {
            return;
        }
        let take = |range: Range<usize>| -> Vec<Token> {
            range.filter_map(|at| self.token(at).cloned()).collect()
        };
        let (name, columns) = (take(open - 1..open), take(open..close));
        let mut before = vec![
            Token::make_keyword("WITH"),
            Token::make_keyword("RECURSIVE"),
        ];
        before.extend(name.iter().cloned());
        before.extend(columns.iter().cloned());
        before.extend([Token::make_keyword("AS"), Token::LParen]);
        let mut after = vec![Token::RParen, Token::make_keyword("SELECT")];
        after.extend(columns[1..columns.len() - 1].iter().cloned());
        after.push(Token::make_keyword("FROM"));
        after.extend(name);
        let end = self.len();
        self.replace(at..at + 1, &[]);
        self.replace(close + 1..close + 1, &before);
        self.replace(end..end, &after);
    }
}
