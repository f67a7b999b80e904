//! Reading a file of tests into records.
//!
//! | line | meaning |
//! |---|---|
//! | `statement ok`, `statement error [PATTERN]`, `statement count N` | SQL up to an empty line |
//! | `query TYPES [SORT] [LABEL]` | SQL up to `----`, then the result up to an empty line |
//! | `query error [PATTERN]` | the same as `statement error` |
//! | `skipif NAME`, `onlyif NAME` | conditions of the next record |
//! | `connection NAME` | the connection of the next record |
//! | `hash-threshold N`, `control sortmode SORT` | settings from here on |
//! | `halt` | the end of the file, unless a condition says otherwise |
//! | `subtest NAME`, `sleep TIME`, `control resultmode MODE` | nothing for this runner |
//! | `# ...` | a comment |
//!
//! Conditions are decided here, since they depend on nothing but the name of the database.

use regex::Regex;
use thiserror::Error;

/// Names in conditions that mean this database.
const NAMES: &[&str] = &["postgresql", "postgres"];

/// One statement or query.
#[derive(Clone, Debug)]
pub struct Record {
    /// Line of the word `statement` or `query`, from 1.
    pub line: usize,
    /// Whether its conditions let it run.
    pub applies: bool,
    /// The connection that runs it; none is the first one.
    pub connection: Option<String>,
    /// The text.
    pub sql: String,
    /// The outcome that it must have.
    pub kind: Kind,
}

/// A statement or a query.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A statement whose rows do not matter.
    Statement(Expected),
    /// A query with its rows.
    Query {
        /// A letter for each column: T, I, R or another one.
        types: String,
        /// How rows are sorted before they are compared.
        sort: Sort,
        /// Queries with one label have one result.
        label: Option<String>,
        /// The lines of the result.
        result: Vec<String>,
    },
}

/// The outcome that a statement must have.
#[derive(Clone, Debug)]
pub enum Expected {
    /// It succeeds.
    Ok,
    /// It changes this number of rows.
    Count(u64),
    /// It fails; `SQLSTATE: message` has the pattern somewhere.
    Error(Option<Regex>),
}

/// How rows are sorted before they are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Not at all.
    #[default]
    None,
    /// As rows, by their texts.
    Rows,
    /// As single values, by their texts.
    Values,
}

/// A file that is not in the format.
#[derive(Debug, Error)]
#[error("line {line}: {problem}")]
pub struct BadFile {
    /// The line, from 1.
    pub line: usize,
    /// The fault and its remedy.
    pub problem: String,
}

/// Reads all records of a file.
pub fn parse(text: &str) -> Result<Vec<Record>, BadFile> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let mut parser = Parser {
        lines: &lines,
        at: 0,
        applies: true,
        connection: None,
        sort: Sort::None,
        records: Vec::new(),
    };
    while parser.next()? {}
    Ok(parser.records)
}

struct Parser<'a> {
    lines: &'a [&'a str],
    at: usize,
    applies: bool,
    connection: Option<String>,
    sort: Sort,
    records: Vec<Record>,
}

impl<'a> Parser<'a> {
    /// Reads one line, or one record; false at the end.
    fn next(&mut self) -> Result<bool, BadFile> {
        let Some(line) = self.lines.get(self.at) else {
            return Ok(false);
        };
        let number = self.at + 1;
        self.at += 1;
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or("");
        let problem = |problem: String| BadFile {
            line: number,
            problem,
        };
        match first {
            "" => {}
            comment if comment.starts_with('#') => {}
            "skipif" | "onlyif" => {
                let name = words.next().unwrap_or("").to_ascii_lowercase();
                let is_ours = NAMES.contains(&name.as_str());
                self.applies &= is_ours == (first == "onlyif");
            }
            "connection" => self.connection = words.next().map(str::to_owned),
            "halt" if std::mem::replace(&mut self.applies, true) => return Ok(false),
            "halt" | "hash-threshold" | "subtest" | "sleep" => {}
            "control" => match (words.next(), words.next()) {
                (Some("sortmode"), Some(word)) if sort(word).is_some() => {
                    self.sort = sort(word).unwrap_or_default();
                }
                (Some("resultmode"), Some(_)) => {}
                _ => {
                    return Err(problem(format!(
                        "`{line}` is not known; use `control sortmode nosort|rowsort|valuesort`"
                    )));
                }
            },
            "statement" | "query" => {
                let record = self.record(number, line).map_err(problem)?;
                self.records.push(record);
            }
            other => {
                return Err(problem(format!(
                    "`{other}` is not known; a record begins with `statement` or `query`"
                )));
            }
        }
        Ok(true)
    }

    fn record(&mut self, line: usize, head: &str) -> Result<Record, String> {
        let mut parts = head.splitn(3, char::is_whitespace);
        let (word, outcome) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let rest = parts.next().unwrap_or("").trim();
        let sql = self
            .block(|line| line.is_empty() || line == "----")
            .join("\n");
        let has_result = self.lines.get(self.at) == Some(&"----");
        let mut result = Vec::new();
        if has_result {
            self.at += 1;
            result = self.block(str::is_empty);
        }
        let kind = match (word, outcome) {
            (_, "error") => Kind::Statement(Expected::Error(pattern(rest, &result)?)),
            ("statement", "ok") => Kind::Statement(Expected::Ok),
            ("statement", "count") => {
                let count = rest.parse();
                let count = count.map_err(|_| format!("`{rest}` is no number of rows"))?;
                Kind::Statement(Expected::Count(count))
            }
            ("statement", _) => {
                return Err(format!(
                    "`{head}` is not known; use `statement ok`, `statement error` or `statement count N`"
                ));
            }
            (_, types) => {
                let mut words = rest.split_whitespace().peekable();
                let own = words.peek().and_then(|word| sort(word));
                if own.is_some() {
                    words.next();
                }
                Kind::Query {
                    types: types.to_owned(),
                    sort: own.unwrap_or(self.sort),
                    label: words.next().map(str::to_owned),
                    result: result.iter().map(|line| (*line).to_owned()).collect(),
                }
            }
        };
        Ok(Record {
            line,
            applies: std::mem::replace(&mut self.applies, true),
            connection: self.connection.take(),
            sql,
            kind,
        })
    }

    /// The lines up to one that ends the block, which stays unread.
    fn block(&mut self, ends: impl Fn(&str) -> bool) -> Vec<&'a str> {
        let rest = &self.lines[self.at..];
        let count = rest.iter().position(|line| ends(line));
        let block = &rest[..count.unwrap_or(rest.len())];
        self.at += block.len();
        block.to_vec()
    }
}

fn sort(word: &str) -> Option<Sort> {
    match word {
        "nosort" => Some(Sort::None),
        "rowsort" => Some(Sort::Rows),
        "valuesort" => Some(Sort::Values),
        _ => None,
    }
}

/// The pattern of an error: behind the word, or as lines of a result, which are no pattern.
fn pattern(rest: &str, lines: &[&str]) -> Result<Option<Regex>, String> {
    let literal = regex::escape(&lines.join("\n"));
    let text = if rest.is_empty() { &literal } else { rest };
    if text.is_empty() {
        return Ok(None);
    }
    match Regex::new(text) {
        Ok(pattern) => Ok(Some(pattern)),
        Err(error) => Err(format!("`{text}` is no regular expression: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(record: &Record) -> (&str, Sort, Option<&str>, &[String]) {
        match &record.kind {
            Kind::Query {
                types,
                sort,
                label,
                result,
            } => (types, *sort, label.as_deref(), result),
            Kind::Statement(_) => panic!("{record:?}"),
        }
    }

    #[test]
    fn records_have_lines_texts_and_results() {
        let text = "# a comment\n\nstatement ok\r\ncreate table t(a int)\r\n\r\n\
                    query II rowsort x-1\nselect a,\n  b from t\n----\n1\n2\n\n\
                    query T\nselect ''\n----\n";
        let records = parse(text).unwrap();
        assert_eq!(records.len(), 3);
        assert_eq!(
            (records[0].line, records[0].sql.as_str()),
            (3, "create table t(a int)")
        );
        assert!(matches!(records[0].kind, Kind::Statement(Expected::Ok)));
        assert_eq!(
            (records[1].line, records[1].sql.as_str()),
            (6, "select a,\n  b from t")
        );
        let lines = ["1".to_owned(), "2".to_owned()];
        assert_eq!(
            query(&records[1]),
            ("II", Sort::Rows, Some("x-1"), &lines[..])
        );
        assert_eq!(query(&records[2]), ("T", Sort::None, None, &[][..]));
    }

    #[test]
    fn conditions_are_those_of_postgresql() {
        let text = "onlyif mysql # why\nstatement ok\na\n\nskipif mysql\nskipif sqlite\nstatement ok\nb\n\n\
                    skipif postgresql\nstatement ok\nc\n\nonlyif PostgreSQL\nstatement ok\nd\n\n\
                    onlyif sqlite\nhalt\n\nstatement ok\ne\n\nhalt\n\nstatement ok\nf\n";
        let records = parse(text).unwrap();
        let applied = records.iter().filter(|record| record.applies);
        let applied: Vec<&str> = applied.map(|record| record.sql.as_str()).collect();
        assert_eq!(applied, ["b", "d", "e"]);
        assert_eq!(records.len(), 5);
    }

    #[test]
    fn errors_have_patterns_or_lines() {
        let text = "statement error 42P01|42703\na\n\nquery error\nb\n----\ntable (x)\n\nstatement error\nc\n\n\
                    statement count 3\nd\n\nconnection two\nstatement ok\ne\n";
        let records = parse(text).unwrap();
        let pattern = |at: usize| match &records[at].kind {
            Kind::Statement(Expected::Error(pattern)) => pattern.clone(),
            other => panic!("{other:?}"),
        };
        assert!(pattern(0).unwrap().is_match("42703: column"));
        assert!(pattern(1).unwrap().is_match("0A000: no table (x) here"));
        assert!(pattern(2).is_none());
        assert!(matches!(
            records[3].kind,
            Kind::Statement(Expected::Count(3))
        ));
        assert_eq!(records[4].connection.as_deref(), Some("two"));
        assert_eq!(records[0].connection, None);
    }

    #[test]
    fn a_sort_mode_holds_from_its_line_on() {
        let text =
            "query I\na\n----\n\ncontrol sortmode rowsort\nquery I\nb\n----\n\nquery I nosort\nc\n";
        let records = parse(text).unwrap();
        let sorts: Vec<Sort> = records.iter().map(|record| query(record).1).collect();
        assert_eq!(sorts, [Sort::None, Sort::Rows, Sort::None]);
    }

    #[test]
    fn faults_name_line_and_remedy() {
        for (text, line, part) in [
            ("\nstatment ok\nx\n", 2, "begins with `statement`"),
            ("statement maybe\nx\n", 1, "statement count N"),
            ("statement count many\nx\n", 1, "no number"),
            ("statement error (\nx\n", 1, "regular expression"),
            ("control output x\n", 1, "sortmode"),
        ] {
            let fault = parse(text).unwrap_err();
            assert!(
                fault.line == line && fault.problem.contains(part),
                "{fault}"
            );
        }
    }
}
