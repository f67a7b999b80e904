//! Whether two answers are the same.
//!
//! Rows must be equal as texts, with the names and built-in types of their columns, and so must the
//! tags. Without ORDER BY the order of rows is not defined, so there they are compared as a bag.
//! Two errors are the same if their SQLSTATEs are; whether their messages are is counted apart.

use crate::client::{Answer, Answers, Report};
use crate::script::{Kind, tokens};

/// The first number that user-defined types have.
const OID_OF_USERS: u32 = 16384;
/// Errors of the reference that mean a missing part of the suite: a table, a schema, a function, a
/// type, a file.
const MISSING: &[&str] = &["42P01", "3F000", "42883", "42704", "58P01"];
/// Most characters of an answer that are shown.
const SHOWN_MAX: usize = 400;

/// How two answers compare.
pub(super) enum Verdict {
    Agree,
    /// Errors with one state and two messages.
    OtherMessage,
    /// Both failed, since something is missing.
    Missing,
    Differ {
        ours: String,
        theirs: String,
    },
}

/// Compares the answers of a statement.
pub(super) fn compare(statement: &str, ours: &Answers, theirs: &Answers) -> Verdict {
    let differ = || Verdict::Differ {
        ours: shown(ours),
        theirs: shown(theirs),
    };
    match (&ours.failure, &theirs.failure) {
        (Some(_), Some(wanted)) if MISSING.contains(&wanted.state.as_str()) => Verdict::Missing,
        (Some(failure), Some(wanted)) if failure.state != wanted.state => differ(),
        (Some(failure), Some(wanted)) if failure.message != wanted.message => Verdict::OtherMessage,
        (Some(_), Some(_)) => Verdict::Agree,
        (None, None) if is_equal(statement, ours, theirs) => Verdict::Agree,
        _ => differ(),
    }
}

fn is_equal(statement: &str, ours: &Answers, theirs: &Answers) -> bool {
    let is_ordered = has_order(statement);
    ours.answers.len() == theirs.answers.len()
        && ours
            .answers
            .iter()
            .zip(&theirs.answers)
            .all(|(ours, theirs)| {
                ours.tag == theirs.tag
                    && has_equal_columns(ours, theirs)
                    && (ours.rows == theirs.rows || !is_ordered && sorted(ours) == sorted(theirs))
                    && (ours.copied == theirs.copied
                        || !is_ordered && sorted_lines(ours) == sorted_lines(theirs))
            })
}

/// Whether the statement asks for an order anywhere.
pub(super) fn has_order(statement: &str) -> bool {
    tokens(statement)
        .any(|token| token.kind == Kind::Word && token.text.eq_ignore_ascii_case("order"))
}

pub(super) fn has_equal_columns(ours: &Answer, theirs: &Answer) -> bool {
    ours.columns.len() == theirs.columns.len()
        && ours
            .columns
            .iter()
            .zip(&theirs.columns)
            .all(|(ours, theirs)| {
                let is_type_equal = ours.type_oid == theirs.type_oid
                    || ours.type_oid >= OID_OF_USERS && theirs.type_oid >= OID_OF_USERS;
                ours.name == theirs.name && is_type_equal
            })
}

pub(super) fn sorted(answer: &Answer) -> Vec<&Vec<Option<String>>> {
    let mut rows: Vec<_> = answer.rows.iter().collect();
    rows.sort_unstable();
    rows
}

fn sorted_lines(answer: &Answer) -> Vec<&[u8]> {
    let mut lines: Vec<_> = answer.copied.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

/// An answer in a few words.
fn shown(answers: &Answers) -> String {
    let mut text = match &answers.failure {
        Some(Report { state, message, .. }) => format!("{state}: {message}"),
        None => answers
            .answers
            .iter()
            .map(shown_answer)
            .collect::<Vec<_>>()
            .join("; "),
    };
    if let Some((end, _)) = text.char_indices().nth(SHOWN_MAX) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}

fn shown_answer(answer: &Answer) -> String {
    let columns = answer
        .columns
        .iter()
        .map(|column| format!("{} {}", column.name, column.type_oid));
    let columns = columns.collect::<Vec<_>>().join(", ");
    let row = |row: &Vec<Option<String>>| {
        row.iter()
            .map(|value| value.as_deref().unwrap_or("NULL"))
            .collect::<Vec<_>>()
            .join(" | ")
    };
    let rows = answer.rows.iter().map(row).collect::<Vec<_>>().join(" / ");
    let copied = String::from_utf8_lossy(&answer.copied);
    format!("{} ({columns}) {rows}{copied}", answer.tag)
}
