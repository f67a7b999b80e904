//! Scripts of statements with the answers of PostgreSQL 15.
//!
//! A script in `scripts/` is a text of statements that end with `;` at the end of a line; the file
//! of the same name with `.out` has what each of them answers: the names and values of its columns,
//! its command tag, or its error. The answers were compared with those of PostgreSQL when they were
//! written. Each script runs in a database of its own.

use crate::scratch::Scratch;
use sql::types::{Context, Kind, text_io};
use sql::{Batch, Completion, Flow, OutputColumn, RowSink, Session, Sql, SqlError};
use std::fmt::Write;
use std::path::Path;

/// The answers of a script as text.
#[derive(Default)]
struct Answers {
    text: String,
    kinds: Vec<Kind>,
}

impl RowSink for Answers {
    fn describe(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        self.kinds = columns.iter().map(|column| column.data_type.kind).collect();
        writeln!(self.text, "{}", names.join("|")).unwrap();
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        for row in batch.rows() {
            let texts = row.iter().zip(&self.kinds).map(|(value, kind)| {
                if value.is_null() {
                    return Ok(String::new());
                }
                text_io::print(value, *kind, context)
            });
            let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
            writeln!(self.text, "{}", texts.join("|")).unwrap();
        }
        Ok(Flow::More)
    }

    fn complete(&mut self, completion: &Completion) -> Result<(), SqlError> {
        writeln!(self.text, "{completion}").unwrap();
        Ok(())
    }
}

/// The answers of a session to the statements of a text.
fn answers(session: &mut Session, text: &str) -> String {
    let mut answers = Answers::default();
    for statement in text.split_inclusive(";\n") {
        if statement.trim().is_empty() {
            continue;
        }
        answers.text += statement.trim();
        answers.text.push('\n');
        if let Err(error) = session.simple(statement, &mut answers) {
            writeln!(answers.text, "ERROR {}: {}", error.state, error.message).unwrap();
            if let Some(detail) = error.detail {
                writeln!(answers.text, "DETAIL: {detail}").unwrap();
            }
        }
        answers.text.push('\n');
    }
    answers.text
}

fn run(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/local/scripts");
    let script = std::fs::read_to_string(folder.join(format!("{name}.sql"))).unwrap();
    let (_scratch, database) = Scratch::open(&format!("scripts-{name}"));
    let found = answers(&mut database.connect().unwrap(), &script);
    let golden = folder.join(format!("{name}.out"));
    if std::env::var_os("UPDATE_SCRIPTS").is_some() {
        std::fs::write(&golden, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    for (found, expected) in found.split("\n\n").zip(expected.split("\n\n")) {
        assert_eq!(found, expected, "{name}");
    }
    assert_eq!(found.len(), expected.len(), "{name}");
}

#[test]
fn tables_and_their_rows() {
    run("tables");
}

/// The statements that psql 15 sends for `\d` and its kin.
#[test]
fn statements_of_psql() {
    run("psql");
}

/// Statements by which drivers, object-relational mappers and tools read the catalogue.
#[test]
fn statements_of_clients() {
    run("clients");
}

#[test]
fn queries() {
    run("queries");
}

#[test]
fn definitions_and_transactions() {
    run("definitions");
}

/// Definitions are part of their transactions, also of one that ends with the program.
#[test]
fn definitions_outlive_an_opening_only_if_they_committed() {
    let (_scratch, database) = Scratch::open("scripts-openings");
    let mut session = database.connect().unwrap();
    let kept = "create table kept (id serial primary key, name text unique);\n\
                insert into kept (name) values ('a'), ('b');\n";
    assert!(!answers(&mut session, kept).contains("ERROR"));
    let lost = "begin;\ncreate table lost (id int);\ninsert into lost values (1);\n";
    assert!(!answers(&mut session, lost).contains("ERROR"));
    // A crash keeps what is below.
    std::mem::forget(session);
    let below = database.database().clone();
    drop(database);
    assert!(below.table("lost").is_ok());
    let database = Sql::open(below).unwrap();
    assert!(database.database().table("lost").is_err());
    let mut session = database.connect().unwrap();
    let found = answers(
        &mut session,
        "insert into kept (name) values ('c') returning id > 2 as later;\nselect count(*) from kept;\nselect * from lost;\n",
    );
    assert!(found.contains("later\nt\n"), "{found}");
    assert!(found.contains("count\n3\n"), "{found}");
    assert!(
        found.contains("relation \"lost\" does not exist"),
        "{found}"
    );
}

/// Two sessions: a change waits for the row's lock, and finds the newest row.
#[test]
fn an_update_waits_and_tests_its_condition_again() {
    let (_scratch, database) = Scratch::open("scripts-sessions");
    let mut one = database.connect().unwrap();
    let mut other = database.connect().unwrap();
    let made = "create table stock (item int primary key, pieces int);\n\
                insert into stock values (1, 10);\nbegin;\n\
                update stock set pieces = pieces - 8 where item = 1;\n";
    assert!(!answers(&mut one, made).contains("ERROR"));
    let waits = std::thread::spawn(move || {
        answers(
            &mut other,
            "update stock set pieces = pieces - 8 where item = 1 and pieces >= 8;\n",
        )
    });
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(!waits.is_finished());
    answers(&mut one, "commit;\n");
    assert!(waits.join().unwrap().contains("UPDATE 0"));
}

/// The same by indexes of expressions and of a part of the rows, which the newest row has left.
#[test]
fn a_row_that_has_left_its_index_is_not_changed() {
    let (_scratch, database) = Scratch::open("scripts-left");
    let mut one = database.connect().unwrap();
    let made = "create table jobs (id int primary key, name text, state text);\n\
                create index on jobs (lower(name));\n\
                create index on jobs (id) where state = 'new';\n\
                insert into jobs values (1, 'One', 'new'), (2, 'Two', 'new');\nbegin;\n\
                update jobs set name = 'x', state = 'old' where id = 1;\n";
    assert!(!answers(&mut one, made).contains("ERROR"));
    let waits = [
        "update jobs set name = 'y' where lower(name) = 'one';\n",
        "delete from jobs where state = 'new' and id < 2;\n",
        "select id from jobs where state = 'new' order by id limit 1 for update;\n",
    ]
    .map(|statement| {
        let mut other = database.connect().unwrap();
        std::thread::spawn(move || answers(&mut other, statement))
    });
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(waits.iter().all(|waits| !waits.is_finished()));
    answers(&mut one, "commit;\n");
    let [updated, deleted, locked] = waits.map(|waits| waits.join().unwrap());
    assert!(updated.contains("UPDATE 0"), "{updated}");
    assert!(deleted.contains("DELETE 0"), "{deleted}");
    assert!(locked.contains("id\n2\n"), "the next one: {locked}");
}

/// Details of errors for roles that may not read what they change: values that the statement gives
/// alone. They showed all of the row, and the values of keys.
#[test]
fn values_in_errors() {
    run("shown_values");
}
