//! Settings that clients are told of without asking: at the beginning, and when they change.
//!
//! Drivers depend on them: they print dates in `DateStyle`, read times in `TimeZone`, escape by
//! `standard_conforming_strings`, and choose features by `server_version`.

use crate::message::Answers;
use sql::Session;

/// The settings that PostgreSQL 15 reports.
const NAMES: [&str; 13] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// The values that the client knows.
#[derive(Default)]
pub(crate) struct Reported([String; NAMES.len()]);

impl Reported {
    /// Tells all values, of which the client knows none.
    pub(crate) fn new(session: &Session, answers: &mut Answers) -> Self {
        let mut reported = Self::default();
        for (name, known) in NAMES.iter().zip(&mut reported.0) {
            session.setting(name).unwrap_or_default().clone_into(known);
            answers.parameter(name, known);
        }
        reported
    }

    /// Tells the values that have changed.
    pub(crate) fn tell(&mut self, session: &Session, answers: &mut Answers) {
        for (name, known) in NAMES.iter().zip(&mut self.0) {
            let value = session.setting(name).unwrap_or_default();
            if value != known {
                value.clone_into(known);
                answers.parameter(name, value);
            }
        }
    }
}
