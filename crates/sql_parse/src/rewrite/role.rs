//! Roles under the names that they have had before: users, groups and their members.
//!
//! A role of each name is one and the same thing, so a statement about a user or a group is one
//! about a role. Options without a meaning are left out.

use super::Words;
use sqlparser::tokenizer::Token;

impl Words<'_> {
    /// A user is a role; a new one may log in if the statement says nothing else.
    pub(super) fn user(&mut self) {
        self.replace(1..2, &[Token::make_keyword("ROLE")]);
        let says_it = (2..self.len()).any(|at| self.is_any(at, &["LOGIN", "NOLOGIN"]));
        if self.is(0, "CREATE") && !says_it {
            let end = self.len();
            self.replace(end..end, &[Token::make_keyword("LOGIN")]);
        }
    }

    /// A group is a role, and its members are those to whom it is granted.
    pub(super) fn group(&mut self) {
        let change = match self.word(3).as_str() {
            "ADD" => Some(("GRANT", "TO")),
            "DROP" => Some(("REVOKE", "FROM")),
            _ => None,
        };
        match change.filter(|_| self.is(0, "ALTER") && self.is(4, "USER")) {
            Some((command, preposition)) => {
                self.replace(0..2, &[Token::make_keyword(command)]);
                self.replace(3..5, &[Token::make_keyword(preposition)]);
            }
            None => self.replace(1..2, &[Token::make_keyword("ROLE")]),
        }
    }

    /// Options of a role without `ENCRYPTED`, as all passwords are, and without `SYSID`, which
    /// PostgreSQL ignores.
    pub(super) fn role_options(&mut self) {
        for at in 3..self.len() {
            if self.is(at, "ENCRYPTED") && self.is(at + 1, "PASSWORD") {
                self.replace(at..at + 1, &[]);
            } else if self.is(at, "SYSID") && matches!(self.token(at + 1), Some(Token::Number(..)))
            {
                self.replace(at..at + 2, &[]);
            }
        }
    }
}
