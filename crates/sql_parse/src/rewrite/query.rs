//! Clauses of queries that the parser does not know, or takes for something else.
//!
//! | form | becomes |
//! |---|---|
//! | `FETCH FIRST (count) ROWS ONLY` | `LIMIT (count)` |
//! | `FETCH FIRST (count) ROWS WITH TIES` | the same, and `FETCH FIRST` of a marked text |
//! | `GROUP BY DISTINCT`, `GROUP BY ALL` | a marked key, nothing |
//! | `SELECT 1 FOR UPDATE` | `SELECT 1 LIMIT ALL FOR UPDATE` |
//! | the form of `normalize(a, NFC)` | a text |
//! | `ALL (VALUES ...)` | `ALL (SELECT * FROM (VALUES ...) "values")` |
//! | `WHERE CURRENT OF cursor` | a marked name |
//!
//! Texts for people have the clauses again that marks stand for.

use super::{CURRENT_OF, DISTINCT_SETS, FETCHED, MARK, Words, marked};
use sqlparser::tokenizer::Token;

impl Words<'_> {
    /// `FETCH FIRST (count) ROWS` of a query, whose count is no number: the count is that of
    /// `LIMIT`, and a marked text stands for it where ties follow.
    pub(super) fn fetched(&mut self, at: usize) {
        if at == 0 || !self.is_token(at + 2, &Token::LParen) {
            return;
        }
        let end = self.after_bracket(at + 2);
        if !self.is_any(end, &["ROW", "ROWS"]) {
            return;
        }
        let limit = Token::make_keyword("LIMIT");
        if self.is(end + 1, "ONLY") {
            self.replace(at..at + 2, &[limit]);
            self.replace(end..end + 2, &[]);
        } else if self.is(end + 1, "WITH") && self.is(end + 2, "TIES") {
            let first = ["FETCH", "FIRST"].map(Token::make_keyword);
            let count = Token::SingleQuotedString(format!("{MARK}{FETCHED}"));
            self.replace(at..at + 2, &[limit]);
            self.replace(end..end, &[first.as_slice(), &[count]].concat());
        }
    }

    /// `GROUP BY DISTINCT` is a marked key, and `GROUP BY ALL` says nothing.
    pub(super) fn grouped(&mut self, by: usize) {
        if !self.is(by, "BY") {
            return;
        }
        if self.is(by + 1, "DISTINCT") {
            self.replace(by + 1..by + 2, &[marked(DISTINCT_SETS), Token::Comma]);
        } else if self.is(by + 1, "ALL") {
            self.replace(by + 1..by + 2, &[]);
        }
    }

    /// The form of `normalize(text, form)` is a text.
    pub(super) fn normal_form(&mut self, open: usize) {
        let end = self.after_bracket(open) - 1;
        let form = end.saturating_sub(1);
        let forms = ["NFC", "NFD", "NFKC", "NFKD"];
        if form > open && self.is_any(form, &forms) && self.is_token(form - 1, &Token::Comma) {
            let text = Token::SingleQuotedString(self.word(form));
            self.replace(form..end, &[text]);
        }
    }

    /// Ends a list of items before `FOR UPDATE`, which the parser would take for the name of the
    /// last item, where no other clause does.
    pub(super) fn end_items(&mut self, lock: usize) {
        const CLAUSES: [&str; 10] = [
            "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR",
            "VALUES",
        ];
        let mut depth = 0_usize;
        for at in (0..lock).rev() {
            match self.token(at) {
                Some(Token::RParen | Token::RBracket) => depth += 1,
                Some(Token::LParen | Token::LBracket) if depth == 0 => return,
                Some(Token::LParen | Token::LBracket) => depth -= 1,
                _ if depth > 0 => {}
                _ if self.is_any(at, &CLAUSES) => return,
                _ if self.is(at, "SELECT") => {
                    let all = ["LIMIT", "ALL"].map(Token::make_keyword);
                    self.replace(lock..lock, &all);
                    return;
                }
                _ => {}
            }
        }
    }

    /// `ALL (VALUES ...)`: the rows are those of a query.
    pub(super) fn quantified_values(&mut self, open: usize) {
        let end = self.after_bracket(open) - 1;
        let words = ["SELECT", "FROM"].map(Token::make_keyword);
        let [select, from] = words;
        self.replace(
            open + 1..open + 1,
            &[select, Token::Mul, from, Token::LParen],
        );
        let name = Token::make_word("values", Some('"'));
        self.replace(end..end, &[Token::RParen, name]);
    }

    /// `CURRENT OF cursor` is a marked name.
    pub(super) fn current_of(&mut self, at: usize) {
        if let Some(Token::Word(cursor)) = self.token(at + 2) {
            let name = match cursor.quote_style {
                Some(_) => cursor.value.clone(),
                None => cursor.value.to_lowercase(),
            };
            let mark = marked(&format!("{CURRENT_OF}{name}"));
            self.replace(at..at + 3, &[mark]);
        }
    }

    /// Writes the changes of [`Words::fetched`] and [`Words::grouped`] back: ranges of tokens, and
    /// the texts for them.
    pub(super) fn shown_clauses(&self) -> Vec<(std::ops::Range<usize>, &'static str)> {
        let mut shown = Vec::new();
        for at in 0..self.len() {
            match self.token(at) {
                Some(Token::Word(word)) if is_marked(&word.value, DISTINCT_SETS) => {
                    shown.push((at..at + 2, "DISTINCT"));
                }
                Some(Token::SingleQuotedString(text)) if is_marked(text, FETCHED) => {
                    let limit = at
                        .checked_sub(3)
                        .and_then(|close| self.before_bracket(close));
                    if let Some(limit) = limit.and_then(|open| open.checked_sub(1)) {
                        shown.push((limit..limit + 1, "FETCH FIRST"));
                        shown.push((at - 2..at + 1, ""));
                    }
                }
                _ => {}
            }
        }
        shown
    }
}

fn is_marked(text: &str, mark: &str) -> bool {
    text.strip_prefix(MARK) == Some(mark)
}
