//! `torture --without`: whether the steps to switch off have run.
//!
//! Durable steps are known only when they run, and some run in a recovery only, or seldom. So a
//! name is checked after the search: a step that was never reached was not switched off, and the
//! findings of the search say nothing about it.

use crate::failure::Usage;
use anyhow::Result;
use std::collections::BTreeSet;

/// Most names that a message has.
const NAMES_MAX: usize = 3;

/// Refuses names of steps of which none has run, and says which ones are nearest.
pub(super) fn check(without: &[String], ran: &BTreeSet<&'static str>) -> Result<()> {
    let Some(unknown) = without.iter().find(|name| !ran.contains(name.as_str())) else {
        return Ok(());
    };
    let mut near: Vec<_> = ran.iter().copied().collect();
    near.sort_by_key(|name| distance(name, unknown));
    near.truncate(NAMES_MAX);
    Err(Usage::error(format!(
        "no step `{unknown}` has run, so --without {unknown} has switched nothing off; the nearest names are {}",
        near.join(", ")
    )))
}

/// Letters to insert, delete or replace to make one name of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (number, letter) in left.chars().enumerate() {
        let mut diagonal = number;
        row[0] = number + 1;
        for (place, other) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_letters() {
        assert_eq!(distance("wal.flush", "wal.flush"), 0);
        assert_eq!(distance("wal.flsh", "wal.flush"), 1);
        assert_eq!(distance("", "wal"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn the_nearest_names_are_told() {
        let ran = [
            "wal.flush",
            "wal.directory",
            "page-file.master",
            "nv-ring.life",
        ];
        let ran = ran.into_iter().collect();
        check(&["wal.flush".to_owned()], &ran).unwrap();
        let unknown = ["wal.flush".to_owned(), "page-file.mastr".to_owned()];
        let error = check(&unknown, &ran).unwrap_err().to_string();
        assert!(error.contains("`page-file.mastr`"), "{error}");
        assert!(error.contains("names are page-file.master,"), "{error}");
    }
}
