//! A file of settings, in TOML: `name = value`, and a table `[session]`.
//!
//! Values are kept as texts, so that they are read in one way wherever they come from.

use toml::de::{DeTable, DeValue};

/// A line of the file: a name, a value, and where it stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) line: usize,
    /// Whether it is a setting of sessions.
    pub(super) is_session: bool,
}

/// A file that cannot be read: the line, and the problem.
pub(super) type Fault = (usize, String);

/// The table of settings that sessions begin with.
const SESSION: &str = "session";

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Vec<Entry>, Fault> {
    let line_of = |place: usize| text[..place.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        (line_of(place), error.message().to_owned())
    })?;
    let mut entries = Vec::new();
    let mut add = |table: &DeTable<'_>, is_session: bool| {
        for (name, value) in table {
            let line = line_of(name.span().start);
            let value = match value.get_ref() {
                DeValue::String(text) => text.to_string(),
                DeValue::Integer(number) => number.to_string(),
                DeValue::Float(number) => number.to_string(),
                DeValue::Boolean(true) => "on".to_owned(),
                DeValue::Boolean(false) => "off".to_owned(),
                DeValue::Table(_) if name.get_ref() == SESSION && !is_session => continue,
                _ => {
                    let name = name.get_ref();
                    let problem = format!("`{name}` is a number, a text in quotes, true or false");
                    return Err((line, problem));
                }
            };
            entries.push(Entry {
                name: name.get_ref().to_string(),
                value,
                line,
                is_session,
            });
        }
        Ok(())
    };
    add(table.get_ref(), false)?;
    let session = table.get_ref().get(SESSION);
    if let Some(DeValue::Table(session)) = session.map(toml::Spanned::get_ref) {
        add(session, true)?;
    }
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_their_lines() {
        let text =
            "# a server\nmax_connections = 20\n\ntrust = false\n[session]\nwork_mem = '1MB'\n";
        let read: Vec<_> = read(text)
            .unwrap()
            .into_iter()
            .map(|entry| (entry.name, entry.value, entry.line, entry.is_session))
            .collect();
        let expected = [
            ("max_connections", "20", 2, false),
            ("trust", "off", 4, false),
            ("work_mem", "1MB", 6, true),
        ];
        let expected = expected.map(|(name, value, line, is_session)| {
            (name.to_owned(), value.to_owned(), line, is_session)
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn faults_have_their_lines() {
        for (text, line) in [
            ("a = 1\nb = \n", 2),
            ("a = 1\nlisten = localhost\n", 2),
            ("a = 1\n\na = 2\n", 3),
            ("\n\na = [1]\n", 3),
            ("[other]\na = 1\n", 1),
            ("[session]\n[session.more]\n", 2),
        ] {
            assert_eq!(read(text).unwrap_err().0, line, "{text}");
        }
    }
}
