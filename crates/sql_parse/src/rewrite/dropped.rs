//! Words of statements that mean nothing here, as there is one collation, one tablespace, and
//! nothing to report: `VERBOSE` of `ANALYZE`, the collation of a column's new type, and the
//! tablespace of a constraint's index.
//!
//! Other collations and tablespaces stay, and the parser refuses them.

use super::Words;
use sqlparser::tokenizer::Token;

impl Words<'_> {
    /// `ANALYZE` without its options.
    pub(super) fn analyze(&mut self) {
        let options = ["VERBOSE", "SKIP_LOCKED"];
        if self.is(1, "VERBOSE") {
            self.replace(1..2, &[]);
        } else if self.is_token(1, &Token::LParen) && self.is_any(2, &options) {
            let end = self.after_bracket(1);
            self.replace(1..end, &[]);
        }
    }

    /// `ALTER COLUMN a TYPE text COLLATE "C"` without the collation, which texts have anyway.
    pub(super) fn collated_types(&mut self) {
        let mut is_type = false;
        for at in 3..self.len() {
            if self.is(at, "TYPE") && !self.is(at - 1, "COLUMN") {
                is_type = true;
            } else if self.is(at, "USING") {
                is_type = false;
            } else if is_type && self.is(at, "COLLATE") {
                let has_schema = self.is_token(at + 2, &Token::Period);
                let name = if has_schema { at + 3 } else { at + 1 };
                let is_ours = matches!(self.token(name), Some(Token::Word(word))
                    if word.quote_style.is_some()
                        && ["C", "POSIX", "default"].contains(&word.value.as_str()));
                if is_ours && (!has_schema || self.is(at + 1, "pg_catalog")) {
                    self.replace(at..name + 1, &[]);
                }
                is_type = false;
            }
        }
    }

    /// `USING INDEX TABLESPACE pg_default` of a constraint.
    pub(super) fn index_tablespace(&mut self) {
        for at in 3..self.len() {
            let is_there = self.is(at, "USING")
                && self.is(at + 1, "INDEX")
                && self.is(at + 2, "TABLESPACE")
                && matches!(self.token(at + 3), Some(Token::Word(word))
                    if word.value == "pg_default");
            if is_there {
                self.replace(at..at + 4, &[]);
            }
        }
    }
}
