//! The corpus: rounds that once led to a wrong image, replayed before every search and in CI.
//!
//! Each fixed bug adds a line to `corpus.txt`: a seed, how deeply images are checked, the
//! operations of the round that matter, and the failure. A line holds for every method, because the
//! operations and the medium's state mean something to all of them.

use crate::script::Selection;
use crate::search::{Focus, Start};

/// The lines, newest last.
const LINES: &str = include_str!("../corpus.txt");

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Seed of the round.
    pub seed: u64,
    /// The part of it that is run, and how deeply.
    pub focus: Focus,
    /// The bug that it once showed.
    pub what: &'static str,
}

/// All lines.
///
/// # Panics
/// If a line cannot be read; the file is part of the program, and a test reads it.
pub fn cases() -> Vec<Case> {
    let lines = LINES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| parse(line).unwrap_or_else(|| panic!("corpus.txt: `{line}` is not a case")))
        .collect()
}

fn parse(line: &'static str) -> Option<Case> {
    let mut parts = line.splitn(4, '|').map(str::trim);
    let seed = parts.next()?.parse().ok()?;
    let depth = Some(parts.next()?.parse().ok()?);
    let operations: Selection = parts.next()?.parse().ok()?;
    let what = parts.next().filter(|what| !what.is_empty())?;
    let focus = Focus { operations, depth };
    Some(Case { seed, focus, what })
}

/// The rounds that a search begins with.
pub(crate) fn starts() -> impl Iterator<Item = Start> {
    cases().into_iter().map(|case| Start {
        seed: case.seed,
        focus: Some(case.focus),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_case() {
        assert!(!cases().is_empty());
        for case in cases() {
            // A shorter round would leave a case without its operations.
            case.focus.operations.check(case.seed, None).unwrap();
        }
        assert_eq!(parse("12 | 1 | 0-3,9"), None);
        let case = parse("12 | 1 | 0-3,9 | it leaked").expect("it is whole");
        assert_eq!(
            (case.seed, case.focus.depth, case.what),
            (12, Some(1), "it leaked")
        );
    }
}
