//! `a ISNULL`, the short form of `a IS NULL`.
//!
//! PostgreSQL keeps the word, so after an operand it is no alias of a column.

use super::Words;
use sqlparser::tokenizer::Token;

impl Words<'_> {
    /// Writes `IS NULL` where `ISNULL` follows an operand.
    pub(super) fn null_test(&mut self, at: usize) {
        if self.is_after_operand(at) {
            let words = ["IS", "NULL"].map(Token::make_keyword);
            self.replace(at..at + 1, &words);
        }
    }

    /// Whether a word follows an operand, and is neither a name nor a function.
    fn is_after_operand(&self, at: usize) -> bool {
        const BEFORE_OPERANDS: [&str; 17] = [
            "ALL",
            "AND",
            "AS",
            "BY",
            "CASE",
            "DISTINCT",
            "ELSE",
            "FUNCTION",
            "HAVING",
            "NOT",
            "ON",
            "OR",
            "RETURNING",
            "SELECT",
            "THEN",
            "WHEN",
            "WHERE",
        ];
        let is_name =
            self.is_token(at + 1, &Token::LParen) || self.is_token(at + 1, &Token::Period);
        let Some(before) = at.checked_sub(1).and_then(|before| self.token(before)) else {
            return false;
        };
        match before {
            _ if is_name => false,
            Token::Word(word) if word.quote_style.is_none() => {
                !self.is_any(at - 1, &BEFORE_OPERANDS)
            }
            Token::Word(_) | Token::RParen | Token::RBracket | Token::Number(..) => true,
            Token::SingleQuotedString(_) | Token::Placeholder(_) => true,
            _ => false,
        }
    }
}
