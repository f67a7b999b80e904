//! Words that the parser takes for parts of its grammar, and PostgreSQL for names.
//!
//! They get quotes. Most are words of other systems and mean nothing to PostgreSQL. `interval`
//! begins a literal only before a string; the parser takes any expression after it for the literal.
//! Where an expression may begin it is a name, after other words a type.

use super::{Token, Words};

/// Words after which an expression may begin.
const BEFORE_VALUES: [&str; 32] = [
    "ALL",
    "AND",
    "ASYMMETRIC",
    "BETWEEN",
    "BY",
    "CASE",
    "DISTINCT",
    "ELSE",
    "ESCAPE",
    "FOR",
    "FROM",
    "HAVING",
    "ILIKE",
    "LIKE",
    "LIMIT",
    "NOT",
    "OFFSET",
    "ON",
    "OR",
    "RETURN",
    "RETURNING",
    "SELECT",
    "SET",
    "SYMMETRIC",
    "THEN",
    "TO",
    "USING",
    "VALUES",
    "VARIADIC",
    "WHEN",
    "WHERE",
    "ZONE",
];

/// Words after a type of an argument: its fields, and what follows it.
const AFTER_TYPES: [&str; 8] = [
    "ARRAY", "DAY", "DEFAULT", "HOUR", "MINUTE", "MONTH", "SECOND", "YEAR",
];

/// Words of other systems, which are names wherever they stand.
const OF_OTHERS: [&str; 21] = [
    "ANTI",
    "ASOF",
    "CONNECT",
    "DIRECTORY",
    "DISTRIBUTE",
    "DIV",
    "FORMAT",
    "GLOB",
    "MATCH_CONDITION",
    "MATCH_RECOGNIZE",
    "OPEN",
    "OUTPUT",
    "PIVOT",
    "PREWHERE",
    "PROJECTION",
    "QUALIFY",
    "SEMI",
    "SETTINGS",
    "SORT",
    "TOP",
    "UNPIVOT",
];

impl Words<'_> {
    /// A word of other systems, where the parser would take it for one. Names of functions, labels,
    /// options and privileges stay as they are.
    pub(super) fn unreserved(&mut self, at: usize) {
        let is_target = at > 0 && self.is(at - 1, "INTO");
        let is_call = self.is_token(at + 1, &Token::LParen) && !is_target;
        let is_label = at > 0 && self.is(at - 1, "AS");
        let is_word = self.is_any(at, &OF_OTHERS) || (is_target && self.is(at, "LOCAL"));
        if is_call || is_label || !is_word {
            return;
        }
        let has_options = match self.word(0).as_str() {
            "COPY" | "GRANT" | "REVOKE" => true,
            "EXPLAIN" if self.is_token(1, &Token::LParen) => at < self.after_bracket(1),
            _ => false,
        };
        if !has_options {
            let name = self.word(at).to_ascii_lowercase();
            self.replace(at..at + 1, &[Token::make_word(&name, Some('"'))]);
        }
    }

    /// The word as the begin of a literal, as a name or as a type.
    pub(super) fn interval(&mut self, at: usize) {
        if self.is_interval_name(at) {
            let name = Token::make_word("interval", Some('"'));
            self.replace(at..at + 1, &[name]);
        } else {
            self.interval_digits(at);
        }
    }

    /// Whether the word is a name that the parser would take for the begin of a literal.
    fn is_interval_name(&self, at: usize) -> bool {
        let begins_value = match at.checked_sub(1).and_then(|before| self.token(before)) {
            None | Some(Token::DoubleColon | Token::Period) => false,
            Some(Token::Word(_)) => self.is_any(at - 1, &BEFORE_VALUES),
            Some(_) => true,
        };
        let goes_on = match self.token(at + 1) {
            Some(Token::Word(_)) => !self.is_any(at + 1, &AFTER_TYPES),
            Some(Token::LBracket) => !self.is_token(at + 2, &Token::RBracket),
            Some(Token::LParen | Token::RParen | Token::Comma | Token::Period) => false,
            Some(Token::Placeholder(_) | Token::Eq | Token::DoubleColon) => false,
            Some(next) => !is_string(next),
            None => false,
        };
        begins_value && goes_on
    }

    /// Digits of seconds before the literal of an interval.
    pub(super) fn interval_digits(&mut self, at: usize) {
        let is_literal = self.is_token(at + 1, &Token::LParen)
            && self.is_token(at + 3, &Token::RParen)
            && matches!(self.token(at + 4), Some(Token::SingleQuotedString(_)));
        let Some(digits @ Token::Number(..)) = self.token(at + 2).filter(|_| is_literal) else {
            return;
        };
        self.replace(at + 1..at + 4, &[]);
        let second = [
            Token::make_keyword("SECOND"),
            Token::LParen,
            digits.clone(),
            Token::RParen,
        ];
        self.replace(at + 5..at + 5, &second);
    }
}

fn is_string(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::DollarQuotedString(_)
    )
}
