//! The kind of a difference, so that statements which differ alike are counted together.
//!
//! A cause is an error without the names and numbers in it, or the words of a statement whose rows
//! differ. It says nothing about whose fault it is.

use super::verdict::{has_equal_columns, sorted};
use crate::client::{Answers, Report};
use crate::script::{Kind, tokens};

/// The cause of a difference.
pub(super) fn cause_of(statement: &str, ours: &Answers, theirs: &Answers) -> String {
    let first = first_words(statement);
    match (&ours.failure, &theirs.failure) {
        (Some(ours), None) => format!("fails here: {}", general(ours)),
        (None, Some(theirs)) => format!("succeeds here: {}", general(theirs)),
        (Some(ours), Some(theirs)) => format!(
            "another error: {} instead of {}",
            general(ours),
            theirs.state
        ),
        (None, None) if first.starts_with("EXPLAIN") => "plans".to_owned(),
        (None, None) => format!("{} of {first}", part(ours, theirs)),
    }
}

/// The part of an answer that differs first.
fn part(ours: &Answers, theirs: &Answers) -> &'static str {
    let mut pairs = ours.answers.iter().zip(&theirs.answers);
    let differs = pairs.find_map(|(ours, theirs)| {
        if ours.columns.len() != theirs.columns.len() {
            Some("number of columns")
        } else if !has_equal_columns(ours, theirs) {
            Some("names or types of columns")
        } else if sorted(ours) != sorted(theirs) {
            Some(if ours.rows.len() == theirs.rows.len() {
                "values"
            } else {
                "number of rows"
            })
        } else if ours.rows != theirs.rows {
            Some("order of rows")
        } else if ours.copied != theirs.copied {
            Some("copied data")
        } else {
            (ours.tag != theirs.tag).then_some("tag")
        }
    });
    differs.unwrap_or("number of answers")
}

/// An error without its names and numbers.
fn general(report: &Report) -> String {
    let mut message = String::new();
    let mut is_quoted = false;
    for letter in report.message.chars() {
        match letter {
            '"' => {
                is_quoted = !is_quoted;
                message.push(letter);
            }
            _ if is_quoted => {}
            '0'..='9' if message.ends_with('N') => {}
            '0'..='9' => message.push('N'),
            _ => message.push(letter),
        }
    }
    // Functions and operators are distinguished: each of them is a thing to build.
    if matches!(report.state.as_str(), "42883" | "0A000" | "42601") {
        message.clone_from(&report.message);
    }
    format!("{} {message}", report.state)
}

/// The first two words of a statement, in capitals.
fn first_words(statement: &str) -> String {
    let words = tokens(statement).filter(|token| token.kind == Kind::Word);
    let words = words.take(2).map(|token| token.text.to_ascii_uppercase());
    let words: Vec<String> = words.collect();
    match words.as_slice() {
        [first, second] if matches!(first.as_str(), "CREATE" | "ALTER" | "DROP" | "EXPLAIN") => {
            format!("{first} {second}")
        }
        [first, ..] => first.clone(),
        [] => "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Answer;

    fn failed(state: &str, message: &str) -> Answers {
        Answers {
            failure: Some(Report::error(state, message)),
            ..Answers::default()
        }
    }

    #[test]
    fn alike_differences_have_one_cause() {
        let none = Answers::default();
        let cause = |message: &str| cause_of("select 1", &failed("42703", message), &none);
        assert_eq!(cause("column \"a\" 12 x"), cause("column \"b\" 3 x"));
        assert_eq!(
            cause("column \"a\" 12 x"),
            "fails here: 42703 column \"\" N x"
        );
        let theirs = failed("22003", "out of range");
        assert_eq!(
            cause_of("select 1", &none, &theirs),
            "succeeds here: 22003 out of range"
        );
    }

    #[test]
    fn rows_differ_in_values_number_or_order() {
        let answers = |rows: &[&str]| {
            let rows = rows.iter().map(|value| vec![Some((*value).to_owned())]);
            let mut answers = Answers::default();
            answers.answers.push(Answer {
                rows: rows.collect(),
                ..Answer::default()
            });
            answers
        };
        let cause = |ours: &[&str], theirs: &[&str]| {
            cause_of("SELECT a FROM t", &answers(ours), &answers(theirs))
        };
        assert_eq!(cause(&["1", "2"], &["1", "3"]), "values of SELECT");
        assert_eq!(cause(&["1"], &["1", "3"]), "number of rows of SELECT");
        assert_eq!(cause(&["2", "1"], &["1", "2"]), "order of rows of SELECT");
    }
}
