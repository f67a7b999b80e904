//! `SEARCH` and `CYCLE` after a query of `WITH`, which the parser does not know.
//!
//! They become queries with marked names, of one row of literals each, inside of the query that
//! they are about and before the rest of it.

use super::{CYCLE, SEARCH, Words, marked};
use sqlparser::tokenizer::Token;

/// A literal as tokens.
type Value = Vec<Token>;

impl Words<'_> {
    /// Reads the clauses after a bracket that closes a query.
    pub(super) fn search_clauses(&mut self, close: usize) {
        let mut at = close + 1;
        let mut marks = Vec::new();
        for clause in [Self::search_clause, Self::cycle_clause] {
            if let Some((mark, values, end)) = clause(self, at) {
                marks.push(query_of(mark, values));
                at = end;
            }
        }
        let Some(open) = self.before_bracket(close).filter(|_| !marks.is_empty()) else {
            return;
        };
        let mut tokens = marks.join(&Token::Comma);
        let place = if self.is(open + 1, "WITH") {
            tokens.push(Token::Comma);
            open + 2 + usize::from(self.is(open + 2, "RECURSIVE"))
        } else {
            tokens.insert(0, Token::make_keyword("WITH"));
            open + 1
        };
        self.replace(place..place, &tokens);
        self.replace(close + 1..at, &[]);
    }

    /// `SEARCH DEPTH FIRST BY columns SET sequence`: the order, the sequence, the columns.
    fn search_clause(&self, at: usize) -> Option<(&'static str, Vec<Value>, usize)> {
        let is_there = self.is(at, "SEARCH")
            && self.is_any(at + 1, &["DEPTH", "BREADTH"])
            && self.is(at + 2, "FIRST")
            && self.is(at + 3, "BY");
        let (columns, set) = self.columns_until_set(is_there.then_some(at + 4)?)?;
        let order = vec![text(&self.word(at + 1).to_lowercase())];
        let mut values = vec![order, self.name_at(set + 1)?];
        values.extend(columns);
        Some((SEARCH, values, set + 2))
    }

    /// `CYCLE columns SET mark [TO value DEFAULT value] USING path`: the names, the values, the
    /// columns.
    fn cycle_clause(&self, at: usize) -> Option<(&'static str, Vec<Value>, usize)> {
        let (columns, set) = self.columns_until_set(self.is(at, "CYCLE").then_some(at + 1)?)?;
        let mark = self.name_at(set + 1)?;
        let (to, default, using) = if self.is(set + 2, "TO") {
            let default = (set + 3..self.len()).find(|at| self.is(*at, "DEFAULT"))?;
            let using = (default + 1..self.len()).find(|at| self.is(*at, "USING"))?;
            let take = |range: std::ops::Range<usize>| -> Value {
                range.filter_map(|at| self.token(at).cloned()).collect()
            };
            (take(set + 3..default), take(default + 1..using), using)
        } else {
            let word = |word| vec![Token::make_keyword(word)];
            (word("TRUE"), word("FALSE"), set + 2)
        };
        if !self.is(using, "USING") || to.is_empty() || default.is_empty() {
            return None;
        }
        let mut values = vec![mark, self.name_at(using + 1)?, to, default];
        values.extend(columns);
        Some((CYCLE, values, using + 2))
    }

    /// Names with commas between them, and the place of `SET` after them.
    fn columns_until_set(&self, first: usize) -> Option<(Vec<Value>, usize)> {
        let mut columns = Vec::new();
        let mut at = first;
        loop {
            columns.push(self.name_at(at)?);
            at += 1;
            match self.token(at) {
                Some(Token::Comma) => at += 1,
                _ if self.is(at, "SET") => return Some((columns, at)),
                _ => return None,
            }
        }
    }

    /// A name as a literal, in lower case unless it is quoted.
    fn name_at(&self, at: usize) -> Option<Value> {
        match self.token(at) {
            Some(Token::Word(word)) if word.quote_style.is_some() => Some(vec![text(&word.value)]),
            Some(Token::Word(word)) => Some(vec![text(&word.value.to_lowercase())]),
            _ => None,
        }
    }

    /// The place of the bracket that the one at a place closes.
    pub(super) fn before_bracket(&self, close: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in (0..=close).rev() {
            match self.token(at) {
                Some(Token::RParen) => depth += 1,
                Some(Token::LParen) if depth == 1 => return Some(at),
                Some(Token::LParen) => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        None
    }
}

fn text(value: &str) -> Token {
    Token::SingleQuotedString(value.replace('\'', "''"))
}

/// A query of `WITH` that returns literals.
fn query_of(mark: &str, values: Vec<Value>) -> Vec<Token> {
    let mut tokens = vec![marked(mark), Token::make_keyword("AS"), Token::LParen];
    tokens.push(Token::make_keyword("SELECT"));
    for (at, value) in values.into_iter().enumerate() {
        if at > 0 {
            tokens.push(Token::Comma);
        }
        tokens.extend(value);
    }
    tokens.push(Token::RParen);
    tokens
}
