//! Options of `COPY` that the parser does not know, or not at their place.
//!
//! | form | becomes |
//! |---|---|
//! | `FREEZE ON` | `FREEZE TRUE` |
//! | `CSV DELIMITER ';' QUOTE '"'` | `CSV DELIMITER ';' CSV QUOTE '"'` |
//! | `HEADER MATCH`, `FORCE_QUOTE *` | a marked encoding, a marked column |

use super::{FORCE_ALL, HEADER_MATCH, MARK, Words, marked};
use sqlparser::tokenizer::Token;

impl Words<'_> {
    /// All of them.
    pub(super) fn stream_options(&mut self) {
        self.copy_options();
        self.csv_options();
        self.switches();
    }

    /// `HEADER MATCH` and `FORCE_QUOTE *` among the options of `COPY`.
    fn copy_options(&mut self) {
        for at in 1..self.len() {
            if self.is(at, "FORCE_QUOTE") && self.is_token(at + 1, &Token::Mul) {
                let all = [Token::LParen, marked(FORCE_ALL), Token::RParen];
                self.replace(at + 1..at + 2, &all);
            }
            if self.is(at, "HEADER") && self.is(at + 1, "MATCH") {
                let encoding = Token::make_keyword("ENCODING");
                let mark = Token::SingleQuotedString(format!("{MARK}{HEADER_MATCH}"));
                self.replace(at..at + 2, &[encoding, mark]);
            }
        }
    }

    /// Gives options of `CSV` that stand after others of the old syntax a `CSV` of their own, after
    /// which alone the parser looks for them.
    fn csv_options(&mut self) {
        let is_stream = |at: &usize| self.is_any(*at, &["STDIN", "STDOUT"]);
        let Some(start) = (1..self.len()).find(is_stream) else {
            return;
        };
        let end = (start..self.len()).find(|at| self.is(*at, "WHERE"));
        let options = start + 1..end.unwrap_or(self.len());
        if !options.clone().any(|at| self.is(at, "CSV")) {
            return;
        }
        for at in options {
            let before = self.token(at - 1);
            let is_text = matches!(
                before,
                Some(Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_))
            );
            let follows = is_text || self.is(at - 1, "HEADER");
            if follows && self.is_any(at, &["QUOTE", "ESCAPE", "FORCE"]) {
                self.replace(at..at, &[Token::make_keyword("CSV")]);
            }
        }
    }

    /// `ON` and `OFF` after the options of `COPY` for which the parser wants a truth value.
    fn switches(&mut self) {
        for at in 1..self.len() {
            let value = match () {
                () if !self.is_any(at - 1, &["FREEZE", "HEADER"]) => continue,
                () if self.is(at, "ON") => "TRUE",
                () if self.is(at, "OFF") => "FALSE",
                () => continue,
            };
            self.replace(at..at + 1, &[Token::make_keyword(value)]);
        }
    }
}
