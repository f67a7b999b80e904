//! Views: `WITH CHECK OPTION`, and `CREATE RECURSIVE VIEW`.
//!
//! The first becomes an option, the second a view of a recursive query.

use super::Words;
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
        let mut option = vec![
            Token::make_word("check_option", None),
            Token::Eq,
            Token::SingleQuotedString(level.to_owned()),
        ];
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
        self.replace(with..end, &[]);
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
