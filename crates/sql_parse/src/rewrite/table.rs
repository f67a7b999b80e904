//! Forms around tables and rows: names of columns before `AS`, `DROP EXPRESSION`, several functions
//! as one table, and locks before limits.
//!
//! Each is a rewrite of few tokens that stand together.

use super::{COPIED_ROWS, DROP_EXPRESSION, EXECUTED, MARK, ROWS_FROM, SET_COLUMNS, Words, marked};
use sqlparser::tokenizer::Token;

impl Words<'_> {
    /// Gives the columns of a table that is made of a query a type, which means nothing.
    pub(super) fn named_columns(&mut self) {
        let Some(open) = (2..self.len()).find(|at| self.is_token(*at, &Token::LParen)) else {
            return;
        };
        let is_table = (1..open).any(|at| self.is(at, "TABLE"));
        let close = self.after_bracket(open) - 1;
        let names: Vec<usize> = (open + 1..close).step_by(2).collect();
        let is_list = !names.is_empty()
            && names.iter().all(|at| {
                matches!(self.token(*at), Some(Token::Word(_)))
                    && (*at + 1 == close || self.is_token(at + 1, &Token::Comma))
            });
        let mut rest = close + 1;
        while rest < self.len() && !self.is(rest, "AS") {
            rest = match self.token(rest) {
                Some(Token::LParen) => self.after_bracket(rest),
                _ => rest + 1,
            };
        }
        if is_table && is_list && rest < self.len() {
            for at in names {
                self.replace(at + 1..at + 1, &[Token::make_keyword("INTEGER")]);
            }
        }
    }

    /// `ALTER COLUMN a DROP EXPRESSION [IF EXISTS]`.
    pub(super) fn drop_expression(&mut self) {
        for at in 3..self.len() {
            if !(self.is(at, "DROP") && self.is(at + 1, "EXPRESSION")) {
                continue;
            }
            let is_lax = self.is(at + 2, "IF") && self.is(at + 3, "EXISTS");
            let end = if is_lax { at + 4 } else { at + 2 };
            let mark = if is_lax {
                marked(&format!("{DROP_EXPRESSION} IF EXISTS"))
            } else {
                marked(DROP_EXPRESSION)
            };
            let [set, default] = ["SET", "DEFAULT"].map(Token::make_keyword);
            self.replace(at..end, &[set, default, mark]);
        }
    }

    /// The query of an `INSERT` whose table stands at a place, before `ON CONFLICT`: without
    /// brackets the parser takes `ON` for the label of the last column.
    pub(super) fn query_before_conflict(&mut self, table: usize) {
        let (mut at, mut start) = (table, None);
        while at < self.len() && !self.is_token(at, &Token::RParen) {
            if self.is(at, "ON") && self.is(at + 1, "CONFLICT") {
                break;
            }
            if start.is_none() && self.is_any(at, &["VALUES", "DEFAULT"]) {
                return;
            }
            if start.is_none() && self.is_any(at, &["SELECT", "WITH", "TABLE"]) {
                start = Some(at);
            }
            at = match self.token(at) {
                Some(Token::LParen | Token::LBracket) => self.after_bracket(at),
                _ => at + 1,
            };
        }
        let Some(start) = start.filter(|_| self.is(at, "ON")) else {
            return;
        };
        if self.is(start, "TABLE") {
            let [select, from] = ["SELECT", "FROM"].map(Token::make_keyword);
            self.replace(start..start + 1, &[Token::LParen, select, Token::Mul, from]);
        } else {
            self.replace(start..start, &[Token::LParen]);
        }
        self.replace(at..at, &[Token::RParen]);
    }

    /// `ROWS FROM (functions)`.
    pub(super) fn rows_from(&mut self, at: usize) {
        if self.is(at + 1, "FROM") && self.is_token(at + 2, &Token::LParen) {
            self.replace(at..at + 2, &[marked(ROWS_FROM)]);
        }
    }

    /// Types of national characters, which are those of all others.
    pub(super) fn national(&mut self, at: usize) {
        const BEFORE_NAMES: [&str; 3] = ["ADD", "COLUMN", "EXISTS"];
        let is_type = match at.checked_sub(1).and_then(|before| self.token(before)) {
            Some(Token::Word(_)) => !self.is_any(at - 1, &BEFORE_NAMES),
            Some(Token::DoubleColon) => true,
            _ => false,
        };
        if self.is(at, "NCHAR") && self.is(at + 1, "VARYING") {
            self.replace(at..at + 1, &[Token::make_keyword("CHAR")]);
        } else if is_type && self.is_any(at + 1, &["CHAR", "CHARACTER"]) {
            self.replace(at..at + 1, &[]);
        }
    }

    /// The end of `LIMIT`, `OFFSET` and `FETCH` after the clause of a lock, which the parser takes
    /// before it only. They stand on one side.
    pub(super) fn after_limits(&self, lock: usize, start: usize) -> usize {
        const LIMITS: [&str; 3] = ["LIMIT", "OFFSET", "FETCH"];
        let (mut at, mut before) = (start, lock);
        let mut depth = 0_usize;
        while let Some(place) = before.checked_sub(1) {
            match self.token(place) {
                Some(Token::RParen) => depth += 1,
                Some(Token::LParen) if depth == 0 => break,
                Some(Token::LParen) => depth -= 1,
                _ if depth == 0 && self.is_any(place, &LIMITS) => return start,
                _ => {}
            }
            before = place;
        }
        if !self.is_any(at, &LIMITS) {
            return at;
        }
        while at < self.len() && !self.is_token(at, &Token::RParen) && !self.is(at, "FOR") {
            at = match self.token(at) {
                Some(Token::LParen) => self.after_bracket(at),
                _ => at + 1,
            };
        }
        at
    }

    /// The columns that `SET NULL` and `SET DEFAULT` of foreign keys name.
    pub(super) fn set_columns(&mut self) {
        let mut references = None;
        for at in 1..self.len() {
            if self.is(at, "REFERENCES") {
                references = Some(at + 1);
            }
            let is_action = self.is(at, "ON")
                && self.is_any(at + 1, &["DELETE", "UPDATE"])
                && self.is(at + 2, "SET")
                && self.is_token(at + 4, &Token::LParen)
                && matches!(self.token(at + 5), Some(Token::Word(_)));
            // A second list of one key stays, and is an error.
            let Some(table) = references.take_if(|_| is_action) else {
                continue;
            };
            let end = self.after_bracket(at + 4);
            let mut parts = vec![self.word(at + 1), self.word(at + 3)];
            parts.extend((at + 5..end).filter_map(|at| match self.token(at) {
                Some(Token::Word(word)) => Some(match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_lowercase(),
                }),
                _ => None,
            }));
            let mark = format!("{SET_COLUMNS}{}", parts.join(&MARK.to_string()));
            self.replace(table..table, &[marked(&mark), Token::Period]);
            self.replace(at + 4..end, &[]);
        }
    }

    /// `AS (columns)` after a call in `FROM`: its alias is the name of the function.
    pub(super) fn unnamed_columns(&mut self, at: usize) {
        const QUERIES: &[&str] = &[
            "SELECT", "WITH", "VALUES", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE",
        ];
        let is_list = self.is_token(at + 1, &Token::LParen)
            && !self.is_any(at + 2, QUERIES)
            && [at + 2, at + 3]
                .iter()
                .all(|at| matches!(self.token(*at), Some(Token::Word(_))));
        if at == 0 || !is_list || !self.is_token(at - 1, &Token::RParen) {
            return;
        }
        let mut opens = (1..at - 1).rev();
        let open = opens
            .find(|open| self.is_token(*open, &Token::LParen) && self.after_bracket(*open) == at);
        let name = open.and_then(|open| self.token(open - 1).cloned());
        if let Some(name @ Token::Word(_)) = name {
            self.replace(at + 1..at + 1, &[name]);
        }
    }

    /// `WHERE` of `COPY`: a column after those of the table.
    pub(super) fn copied_rows(&mut self) {
        if self.is_token(1, &Token::LParen) {
            return;
        }
        let (mut at, mut columns) = (1, None);
        while at < self.len() && !self.is(at, "WHERE") {
            if self.is_any(at, &["FROM", "TO"]) && columns.is_none() {
                columns = Some(at);
            }
            at = match self.token(at) {
                Some(Token::LParen) => self.after_bracket(at),
                _ => at + 1,
            };
        }
        let (Some(columns), true) = (columns, at < self.len()) else {
            return;
        };
        let mark = marked(&format!("{COPIED_ROWS}{}", self.text(at + 1..self.len())));
        if self.is_token(columns - 1, &Token::RParen) {
            self.replace(columns - 1..columns - 1, &[Token::Comma, mark]);
        } else {
            self.replace(columns..columns, &[Token::LParen, mark, Token::RParen]);
        }
        self.replace(at..self.len(), &[]);
    }

    /// `AS EXECUTE` of a table that is made of a prepared statement.
    pub(super) fn executed(&mut self) {
        let Some(at) = (2..self.len()).find(|at| self.is(*at, "AS") && self.is(at + 1, "EXECUTE"))
        else {
            return;
        };
        let mut end = at + 3;
        if self.is_token(end, &Token::LParen) {
            end = self.after_bracket(end);
        }
        let mark = marked(&format!("{EXECUTED}{}", self.text(at + 1..end)));
        let [select, from] = ["SELECT", "FROM"].map(Token::make_keyword);
        self.replace(at + 1..end, &[select, Token::Mul, from, mark]);
    }
}
