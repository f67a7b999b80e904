//! Statements about the whole database, which its files would be needed for otherwise:
//!
//! ```text
//! BACKUP [PAGES] TO 'file' [FORCE]      a backup, into a file of the server's machine
//! VERIFY                                every checksum, index and block
//! ```
//!
//! `indelible backup` and `indelible verify` send them where a server has the database open. All
//! partitions are held meanwhile, so nothing is sent before the end; the report comes as rows of a
//! name and a value. A backup hears cancels and `statement_timeout`; a check goes on to its end. A
//! file is written for the owner of the directory alone, over the Unix socket: a role with a
//! password may be on another machine, and has no rights on this one's files.

use indelible::{CopyProgress, CopyReport, Database, Existing, VerifyReport};
use sql::{SqlError, SqlState};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A statement about the whole database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Backup {
        file: PathBuf,
        has_pages: bool,
        existing: Existing,
    },
    Verify,
}

impl Operation {
    /// Reads a statement; none if it is one of SQL.
    pub(crate) fn read(text: &str) -> Option<Result<Self, SqlError>> {
        let text = text.trim().trim_end_matches(';').trim_end();
        let Some(rest) = after(text, "backup") else {
            let rest = after(text, "verify")?;
            return rest.is_empty().then_some(Ok(Self::Verify));
        };
        let usage = || {
            let message = "syntax error in BACKUP";
            let hint = "Write BACKUP [PAGES] TO 'file' [FORCE].";
            SqlError::new(SqlState::SYNTAX_ERROR, message).hint(hint)
        };
        let (rest, has_pages) = match after(rest, "pages") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let quoted = after(rest, "to").and_then(|rest| rest.strip_prefix('\''));
        let Some((name, force)) = quoted.and_then(|rest| rest.rsplit_once('\'')) else {
            return Some(Err(usage()));
        };
        let existing = match force.trim() {
            "" => Existing::Refuse,
            word if word.eq_ignore_ascii_case("force") => Existing::Replace,
            _ => return Some(Err(usage())),
        };
        let name = name.replace("''", "\u{0}");
        if name.is_empty() || name.contains('\'') {
            return Some(Err(usage()));
        }
        let file = PathBuf::from(name.replace('\u{0}', "'"));
        if !file.is_absolute() {
            let message = format!(
                "the file of a backup needs an absolute path: {}",
                file.display()
            );
            return Some(Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                message,
            )));
        }
        Some(Ok(Self::Backup {
            file,
            has_pages,
            existing,
        }))
    }

    /// Does it; the result is a query for its report. A backup ends when `check` fails, and leaves
    /// nothing.
    pub(crate) fn run(
        &self,
        database: &Database,
        check: &dyn Fn() -> Result<(), SqlError>,
    ) -> Result<String, SqlError> {
        let mut stopped = None;
        let watch = &mut |progress: &CopyProgress<'_>| {
            if let Err(error) = check() {
                progress.stop();
                stopped = Some(error);
            }
        };
        let done = match self {
            Self::Backup {
                file,
                has_pages: false,
                existing,
            } => database
                .backup_with(file, *existing, watch)
                .map(|report| backup_report(file, &report)),
            Self::Backup { file, existing, .. } => database
                .backup_pages(file, *existing, watch)
                .map(|report| backup_report(file, &report)),
            Self::Verify => database.verify().map(|report| verify_report(&report)),
        };
        match stopped {
            Some(error) if done.is_err() => Err(error),
            _ => Ok(rows(&done?)),
        }
    }
}

/// The text after a word, if it begins with it.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(word.len())?;
    let ends = !rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
    (ends && first.eq_ignore_ascii_case(word)).then(|| rest.trim_start())
}

type Facts = Vec<(&'static str, String)>;

fn backup_report(file: &Path, report: &CopyReport) -> Facts {
    vec![
        ("backup", file.display().to_string()),
        ("method", report.method.name().to_owned()),
        ("tables", report.tables.to_string()),
        ("indexes", report.indexes.to_string()),
        ("rows", report.rows.to_string()),
        ("pages", report.pages.to_string()),
        ("content", format!("{:016x}", report.content)),
        ("plain bytes", report.plain_bytes.to_string()),
        ("file bytes", report.file_bytes.to_string()),
        ("held ms", format!("{:.1}", report.held.as_secs_f64() * 1e3)),
    ]
}

fn verify_report(report: &VerifyReport) -> Facts {
    let mut facts = vec![
        ("rows", report.rows.to_string()),
        ("index entries", report.index_entries.to_string()),
        ("blocks", report.blocks.to_string()),
        ("truncated in keys", report.truncated_keys.to_string()),
    ];
    let damage = report.damage.iter();
    facts.extend(damage.map(|damage| ("damage", damage.clone())));
    facts
}

/// A query whose rows are the facts.
fn rows(facts: &Facts) -> String {
    let mut query = "SELECT * FROM (VALUES ".to_owned();
    for (at, (name, value)) in facts.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        // Writing to a text cannot fail.
        let _ = write!(query, "{comma}('{name}', '{}')", value.replace('\'', "''"));
    }
    query.push_str(") AS report(name, value)");
    query
}

#[cfg(test)]
mod tests {
    use super::*;
    use indelible::{DataType, Options};

    #[test]
    fn statements_about_the_database_are_not_those_of_sql() {
        let backup = |file: &str, has_pages, existing| {
            Some(Ok(Operation::Backup {
                file: file.into(),
                has_pages,
                existing,
            }))
        };
        let read = |text| Operation::read(text).map(|read| read.map_err(|error| error.state.0));
        assert_eq!(read(" verify ; "), Some(Ok(Operation::Verify)));
        assert_eq!(
            read("BACKUP TO '/a b'"),
            backup("/a b", false, Existing::Refuse)
        );
        assert_eq!(
            read("backup pages to '/it''s' force;"),
            backup("/it's", true, Existing::Replace)
        );
        for text in [
            "SELECT 1",
            "BEGIN",
            "VERIFY t",
            "verified",
            "backups",
            "",
            "verify; select 1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        for text in [
            "BACKUP",
            "BACKUP TO x",
            "BACKUP TO ''",
            "BACKUP TO '/a' now",
            "BACKUP TO '/a'; VERIFY; '",
        ] {
            assert_eq!(read(text), Some(Err("42601")), "{text}");
        }
        assert_eq!(read("BACKUP TO 'here'"), Some(Err("22023")));
    }

    /// Neither a cancel nor `statement_timeout` ended one.
    #[test]
    fn a_backup_that_is_to_end_leaves_nothing() {
        let name = format!("indelible-operation-{}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&scratch);
        std::fs::create_dir(&scratch).unwrap();
        let database = Database::create(scratch.join("db"), &Options::new()).unwrap();
        let table = database
            .create_table("t")
            .column("id", DataType::Int64)
            .primary_key(["id"])
            .create()
            .unwrap();
        database
            .transaction(|t| (0..600_i64).try_for_each(|id| t.insert(&table, (id,))))
            .unwrap();
        let backup = Operation::Backup {
            file: scratch.join("backup"),
            has_pages: false,
            existing: Existing::Refuse,
        };
        let ended = || Err(SqlError::new(SqlState::QUERY_CANCELED, "as asked"));
        let error = backup.run(&database, &ended).unwrap_err();
        assert_eq!(error.message, "as asked");
        assert_eq!(scratch.read_dir().unwrap().count(), 1);
        backup.run(&database, &|| Ok(())).unwrap();
        drop((table, database));
        std::fs::remove_dir_all(scratch).unwrap();
    }

    #[test]
    fn facts_are_texts_of_a_query() {
        let facts = vec![("rows", "1".to_owned()), ("damage", "it's".to_owned())];
        let expected =
            "SELECT * FROM (VALUES ('rows', '1'), ('damage', 'it''s')) AS report(name, value)";
        assert_eq!(rows(&facts), expected);
    }
}
