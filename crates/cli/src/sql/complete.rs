//! Completion, colours and ends of what a person types.
//!
//! Words of the language are completed in the case in which they were begun; names are those of the
//! catalogue, read again after a statement that may have changed it. A line ends the input when it
//! ends a statement or is a command, so the editor keeps a statement of several lines together.

use ::sql::types::function::string::quote_ident as quoted;
use client::script::{Kind, is_complete, tokens};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use std::borrow::Cow;

/// Words of the language that begin or part statements.
#[rustfmt::skip]
pub(super) const KEYWORDS: &[&str] = &[
    "ADD", "ALL", "ALTER", "ANALYZE", "AND", "ANY", "ARRAY", "AS", "ASC", "BEGIN", "BETWEEN", "BIGINT", "BOOLEAN", "BY",
    "BYTEA", "CASCADE", "CASE", "CAST", "CHECK", "CHECKPOINT", "CLOSE", "COALESCE", "COLLATE", "COLUMN", "COMMENT", "COMMIT",
    "CONFLICT", "CONSTRAINT", "COPY", "COUNT", "CREATE", "CROSS", "CURRENT_DATE", "CURRENT_TIMESTAMP", "DATE", "DEALLOCATE",
    "DECLARE", "DEFAULT", "DELETE", "DESC", "DISCARD", "DISTINCT", "DO", "DOMAIN", "DROP", "ELSE", "END", "ENUM", "EXCEPT",
    "EXECUTE", "EXISTS", "EXPLAIN", "EXTRACT", "FALSE", "FETCH", "FILTER", "FIRST", "FOR", "FOREIGN", "FROM", "FULL",
    "GENERATED", "GRANT", "GROUP", "HAVING", "IDENTITY", "IF", "ILIKE", "IN", "INDEX", "INNER", "INSERT", "INTEGER",
    "INTERSECT", "INTERVAL", "INTO", "IS", "ISOLATION", "JOIN", "JSONB", "KEY", "LAST", "LATERAL", "LEFT", "LEVEL", "LIKE",
    "LIMIT", "LOCK", "MATERIALIZED", "NATURAL", "NOT", "NOTHING", "NULL", "NULLS", "NUMERIC", "OFFSET", "ON", "ONLY", "OR",
    "ORDER", "OUTER", "OVER", "PARTITION", "PREPARE", "PRIMARY", "RECURSIVE", "REFERENCES", "RELEASE", "RENAME", "RESET",
    "RESTRICT", "RETURNING", "REVOKE", "RIGHT", "ROLLBACK", "ROW", "ROWS", "SAVEPOINT", "SCHEMA", "SELECT", "SEQUENCE",
    "SERIALIZABLE", "SET", "SHOW", "SMALLINT", "START", "TABLE", "TEMPORARY", "TEXT", "THEN", "TIMESTAMP", "TO",
    "TRANSACTION", "TRUE", "TRUNCATE", "TYPE", "UNION", "UNIQUE", "UPDATE", "USER", "USING", "UUID", "VACUUM", "VALUES",
    "VARCHAR", "VIEW", "WHEN", "WHERE", "WINDOW", "WITH",
];

const COMMANDS: &[&str] = &[
    "\\?",
    "\\!",
    "\\cd",
    "\\conninfo",
    "\\copy",
    "\\d",
    "\\df",
    "\\di",
    "\\dn",
    "\\ds",
    "\\dt",
    "\\dT",
    "\\du",
    "\\dv",
    "\\e",
    "\\echo",
    "\\elif",
    "\\else",
    "\\endif",
    "\\errverbose",
    "\\g",
    "\\getenv",
    "\\gexec",
    "\\gset",
    "\\gx",
    "\\i",
    "\\if",
    "\\ir",
    "\\l",
    "\\nvm",
    "\\o",
    "\\p",
    "\\q",
    "\\r",
    "\\set",
    "\\timing",
    "\\unset",
    "\\warn",
    "\\watch",
    "\\x",
    ".dump",
    ".exit",
    ".help",
    ".import",
    ".mode",
    ".output",
    ".quit",
    ".read",
    ".schema",
    ".tables",
    ".timer",
];

/// Commands whose words are names of files.
const FILE_COMMANDS: &[&str] = &["\\i ", "\\ir ", ".read ", ".import ", "\\o ", "\\copy "];

/// The statement that asks for the names of tables, columns, functions and schemas.
pub(super) const NAMES: &str = "\
    SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'v', 'S', 'm', 'p') AND n.nspname <> 'information_schema' \
    UNION SELECT a.attname FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE a.attnum > 0 AND n.nspname <> 'pg_catalog' AND n.nspname <> 'information_schema' \
    UNION SELECT p.proname FROM pg_catalog.pg_proc p UNION SELECT n.nspname FROM pg_catalog.pg_namespace n \
    ORDER BY 1 LIMIT 10000";

/// Helps a person who types.
pub(super) struct Typing {
    /// Names of the catalogue.
    pub(super) names: Vec<String>,
    pub(super) has_colours: bool,
    /// Whether the lines are data, and no statements.
    pub(super) are_data: bool,
    files: FilenameCompleter,
}

impl Typing {
    pub(super) fn new(has_colours: bool) -> Self {
        Self {
            names: Vec::new(),
            has_colours,
            are_data: false,
            files: FilenameCompleter::new(),
        }
    }

    /// Words that begin as the one under the cursor does.
    fn candidates(&self, line: &str) -> (usize, Vec<String>) {
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '\\' | '.');
        let start = line
            .char_indices()
            .rev()
            .take_while(|(_, letter)| is_part(*letter))
            .last();
        let start = start.map_or(line.len(), |(at, _)| at);
        if start == 0 && line.starts_with(['\\', '.']) {
            let found = COMMANDS.iter().filter(|name| name.starts_with(line));
            return (0, found.map(|name| (*name).to_owned()).collect());
        }
        // The name of a column may have its table in front of it.
        let start = line[start..]
            .rfind('.')
            .map_or(start, |dot| start + dot + 1);
        let begun = &line[start..];
        if begun.is_empty() {
            return (start, Vec::new());
        }
        let upper = begun.to_ascii_uppercase();
        let is_upper = begun.starts_with(|letter: char| letter.is_ascii_uppercase());
        let words = KEYWORDS.iter().filter(|word| word.starts_with(&upper));
        let words = words.map(|word| {
            if is_upper {
                (*word).to_owned()
            } else {
                word.to_ascii_lowercase()
            }
        });
        let names = self.names.iter();
        let names = names.filter(|name| name.starts_with(begun));
        if line[..start].ends_with('"') {
            let names = names.map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
            return (start - 1, names.collect());
        }
        let mut found: Vec<String> = names.map(|name| quoted(name)).collect();
        let words: Vec<String> = words.filter(|word| !found.contains(word)).collect();
        found.extend(words);
        (start, found)
    }
}

impl Completer for Typing {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let pair = |text: String| Pair {
            display: text.clone(),
            replacement: text,
        };
        // The key of completion is a separator there.
        if self.are_data {
            return Ok((at, vec![pair("\t".to_owned())]));
        }
        if FILE_COMMANDS
            .iter()
            .any(|command| line.starts_with(command))
        {
            return self.files.complete(line, at, context);
        }
        let (start, found) = self.candidates(&line[..at]);
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for Typing {
    type Hint = String;
}

impl Highlighter for Typing {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if !self.has_colours || self.are_data {
            return line.into();
        }
        let is_keyword = |text: &str| KEYWORDS.iter().any(|word| word.eq_ignore_ascii_case(text));
        let coloured = |token: client::script::Token<'_>| {
            let colour = match token.kind {
                Kind::Text => "32",
                Kind::Comment => "2",
                Kind::Word if is_keyword(token.text) => "1;34",
                _ => return token.text.to_owned(),
            };
            format!("\u{1b}[{colour}m{}\u{1b}[0m", token.text)
        };
        tokens(line).map(coloured).collect::<String>().into()
    }

    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        self.has_colours
    }
}

impl Validator for Typing {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let is_word = |word| context.input().trim().trim_end_matches(';') == word;
        let is_complete = self.are_data
            || is_complete(context.input())
            || ["quit", "exit", "help"].into_iter().any(is_word);
        Ok(if is_complete {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

impl Helper for Typing {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_names_are_completed() {
        let mut typing = Typing::new(false);
        typing.names = vec!["orders".to_owned(), "order_lines".to_owned()];
        let found = |line: &str| typing.candidates(line);
        assert_eq!(found("SEL"), (0, vec!["SELECT".to_owned()]));
        assert_eq!(found("select * fro"), (9, vec!["from".to_owned()]));
        assert_eq!(found("select * from orders").1, ["orders"]);
        assert_eq!(found("select o.order").0, 9);
        assert_eq!(found("\\ti"), (0, vec!["\\timing".to_owned()]));
        assert_eq!(found("select "), (7, vec![]));
        typing.names = vec!["Order".to_owned(), "order".to_owned()];
        let found = |line: &str| typing.candidates(line);
        assert_eq!(found("select * from Or").1, ["\"Order\"", "OR", "ORDER"]);
        assert_eq!(
            found("select * from \"Or"),
            (14, vec!["\"Order\"".to_owned()])
        );
        assert_eq!(found("select * from ord").1, ["\"order\"", "order"]);
    }

    #[test]
    fn colours_change_nothing_else() {
        let typing = Typing::new(true);
        let shown = typing.highlight("select 'x' -- y", 0);
        assert_eq!(
            shown,
            "\u{1b}[1;34mselect\u{1b}[0m \u{1b}[32m'x'\u{1b}[0m \u{1b}[2m-- y\u{1b}[0m"
        );
        assert_eq!(Typing::new(false).highlight("select", 0), "select");
    }
}
