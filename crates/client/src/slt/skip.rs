//! Lists of records that are left out: `file:line`, one a line.
//!
//! Empty lines and lines that begin with `#` do not count, and neither does anything after the
//! first blank. A file may be named by the end of its path only, so a list holds wherever the
//! collection lies.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use thiserror::Error;

/// Records that are left out.
#[derive(Clone, Debug, Default)]
pub struct SkipList {
    /// Lines by the last component of the file, with the components before it.
    by_name: HashMap<String, Vec<(Vec<String>, usize)>>,
}

/// A line that names no record.
#[derive(Debug, Error)]
#[error("line {line}: `{text}` names no record; write file:line")]
pub struct BadList {
    /// The line, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

impl SkipList {
    /// Reads a list.
    pub fn parse(text: &str) -> Result<Self, BadList> {
        let mut list = Self::default();
        for (at, line) in text.lines().enumerate() {
            let Some(record) = line.split_whitespace().next() else {
                continue;
            };
            if record.starts_with('#') {
                continue;
            }
            let parts = record.rsplit_once(':');
            let parts = parts.and_then(|(file, line)| Some((file, line.parse().ok()?)));
            let (file, number) = parts.ok_or_else(|| BadList {
                line: at + 1,
                text: record.to_owned(),
            })?;
            let mut path = components(Path::new(file));
            if let Some(name) = path.pop() {
                list.by_name.entry(name).or_default().push((path, number));
            }
        }
        Ok(list)
    }

    /// The lines of a file that are left out.
    pub(super) fn lines(&self, file: &Path) -> HashSet<usize> {
        let mut folders = components(file);
        let listed = folders.pop().and_then(|name| self.by_name.get(&name));
        let listed = listed.into_iter().flatten();
        let is_same = |path: &[String]| folders.ends_with(path) || path.ends_with(&folders);
        listed
            .filter(|(path, _)| is_same(path))
            .map(|(_, line)| *line)
            .collect()
    }
}

fn components(path: &Path) -> Vec<String> {
    let parts = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    parts.filter(|part| part != ".").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_the_end_of_its_path() {
        let list =
            SkipList::parse("# list\n\nindex/in/a.test:7  error\na.test:9\n./b.test:1\n").unwrap();
        let lines = |file: &str| {
            let mut lines: Vec<usize> = list.lines(Path::new(file)).into_iter().collect();
            lines.sort_unstable();
            lines
        };
        assert_eq!(lines("/data/index/in/a.test"), [7, 9]);
        assert_eq!(lines("in/a.test"), [7, 9]);
        assert_eq!(lines("/data/index/out/a.test"), [9]);
        assert_eq!(lines("b.test"), [1]);
        assert_eq!(lines("xa.test"), []);
    }

    #[test]
    fn a_line_without_a_number_is_refused() {
        let fault = SkipList::parse("a.test:1\na.test\n").unwrap_err();
        assert_eq!(fault.line, 2);
    }
}
