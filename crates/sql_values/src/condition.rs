//! Conditions: names of errors, as handlers of exceptions tell which ones they catch.
//!
//! A code that ends in three zeros stands for its class. `others` is any error but those that say
//! that the statement is to end.

use crate::error::{SqlError, SqlState};

/// The errors that a handler catches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Any error, but one that ends the statement.
    Others,
    /// Errors of a code, or of its class.
    Code([u8; 5]),
}

impl Condition {
    /// Whether an error meets it.
    pub fn catches(self, error: &SqlError) -> bool {
        let state = error.state.0.as_bytes();
        match self {
            Self::Others => error.state != SqlState::QUERY_CANCELED,
            Self::Code([first, second, b'0', b'0', b'0']) => state.starts_with(&[first, second]),
            Self::Code(code) => state == code,
        }
    }

    /// The condition of a code; none for a text that is no code.
    pub fn of_code(text: &str) -> Option<Self> {
        let code: [u8; 5] = text.as_bytes().try_into().ok()?;
        let is_code = |one: &u8| one.is_ascii_digit() || one.is_ascii_uppercase();
        code.iter().all(is_code).then_some(Self::Code(code))
    }
}

/// The conditions of a name: a few names are those of several codes.
pub fn conditions(name: &str) -> Vec<Condition> {
    if name == "others" {
        return vec![Condition::Others];
    }
    let lines = include_str!("conditions.txt").lines();
    let named = lines.filter_map(|line| line.split_once(' '));
    let codes = named.filter(|(_, known)| *known == name);
    codes
        .filter_map(|(code, _)| Condition::of_code(code))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_catch_their_errors() {
        let error = SqlError::new(SqlState::DUPLICATE_OBJECT, "");
        let catches = |name| conditions(name).iter().any(|one| one.catches(&error));
        assert!(catches("duplicate_object") && catches("others"));
        assert!(
            catches("syntax_error_or_access_rule_violation"),
            "the class"
        );
        assert!(!catches("duplicate_table") && !catches("nosuch"));
        let ended = SqlError::new(SqlState::QUERY_CANCELED, "");
        assert!(!Condition::Others.catches(&ended));
        assert!(conditions("query_canceled")[0].catches(&ended));
    }

    #[test]
    fn every_line_is_a_condition() {
        let lines = include_str!("conditions.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (code, _) = line.split_once(' ').unwrap();
            assert!(Condition::of_code(code).is_some(), "{line}");
        }
    }
}
