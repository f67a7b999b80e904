//! New rows of `MERGE`, which the parser knows as rows of `VALUES` only.
//!
//! A row of defaults has one default, as the other columns take theirs; `OVERRIDING` becomes a
//! condition after the values, of a marked name.

use super::{OVERRIDING, Words, marked};
use sqlparser::tokenizer::Token;

impl Words<'_> {
    /// The clauses of a `MERGE` that insert.
    pub(super) fn merge(&mut self) {
        for at in 0..self.len() {
            if self.is(at, "INSERT") && self.is(at + 1, "DEFAULT") && self.is(at + 2, "VALUES") {
                let [values, default] = ["VALUES", "DEFAULT"].map(Token::make_keyword);
                let row = [values, Token::LParen, default, Token::RParen];
                self.replace(at + 1..at + 3, &row);
            }
            let is_overriding = self.is(at, "OVERRIDING")
                && self.is_any(at + 1, &["SYSTEM", "USER"])
                && self.is(at + 2, "VALUE")
                && self.is(at + 3, "VALUES");
            if is_overriding {
                let mark = marked(&format!("{OVERRIDING}{}", self.word(at + 1)));
                let end = self.after_bracket(at + 4);
                self.replace(at..at + 3, &[]);
                self.replace(end..end, &[Token::make_keyword("WHERE"), mark]);
            }
        }
    }
}
