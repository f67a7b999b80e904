//! Runs the commands of scripts on one engine.
//!
//! A statement outside of `begin` … `commit` is a transaction of its own, aborted if it fails; with
//! `raw` before it, it goes to the engine as it is, to show the engine's answer to misuse. A
//! command that prints nothing succeeded.
//!
//! | command | effect |
//! |---|---|
//! | `create-table t a=int64 b=varchar(20)? key=a [index:i=b] [unique:u=b]` | `?` may be NULL |
//! | `create-table t … [truncated] [highest]` | truncated keys; the highest number of all |
//! | `drop-table t`, `create-index t i=b [unique]`, `drop-index t i` | changes of the schema |
//! | `begin`, `commit [group] [none]`, `abort`, `force`, `checkpoint` | transactions |
//! | `prepare 7`, `decide 7` | first phase; the commit table has transaction 7 from now on |
//! | `insert t 1 "a"`, `update t 1 b="c"`, `delete t 1` | one row; key of two columns: `1,"a"` |
//! | `get t 1`, `get-many t 1 2 3` | one row, several rows |
//! | `scan t [by=i] [from=1] [to=2] [reverse] [limit=3]` | in key order; bounds may be prefixes |
//! | `fill t 1..50 [step=7] [bytes=3000]`, `change t 1..50 b="x"` | many rows |
//! | `erase t 1..50`, `count t` | many rows |
//! | `tables`, `verify`, `mark-space`, `check-space [slack=4096]` | reports |
//! | `reopen`, `crash` | closes the engine and opens it again; `crash` cuts the power between |
//! | `measure [fences<=3]` | prints the cost of the block at its end |
//!
//! On a method that is not durable a restart only ends the open transaction, so that scripts say
//! the same for all methods.

use crate::literal::{Argument, arguments, generated, shown_row, value};
use crate::place::Place;
use std::collections::HashSet;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{
    Direction, Durability, Engine, EngineOptions, EngineStatus, GlobalTxnId, Idle, Method,
    ScanRange,
};
use storage::record::{
    Changes, Column, IndexDef, IndexId, KeyBuf, KeyRule, Row, TableDef, TableId, Value,
};
use storage::table::Table;

/// Rows of a `fill` in one transaction.
const FILL_ROWS: usize = 32;
/// Error of every command for a partition that is closed.
const NOT_OPEN: &str = "the partition could not be opened";

/// The answer of a command: nothing, lines, or an error.
type Answer = Result<Vec<String>, String>;

/// One engine and the transaction that a script has open.
pub struct Session {
    place: Place,
    method: Method,
    options: EngineOptions,
    engine: Option<Box<dyn Engine>>,
    is_open: bool,
    prepared: Option<u64>,
    decided: HashSet<u64>,
    tables_made: u32,
    indexes_made: u32,
    space_mark: u64,
    measured: Option<Measure>,
    restarts: Restarts,
}

/// Whether a session restarts on its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restarts {
    /// Only where the script says so.
    Scripted,
    /// After each command outside of a transaction, the power cut in between. The output must stay
    /// the same.
    Everywhere,
}

struct Measure {
    start: EngineStatus,
    fences_max: Option<u64>,
}

/// Cost of a measured block.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Fences.
    pub fences: u64,
    /// The limit that the script gives.
    pub fences_max: Option<u64>,
    lines_flushed: u64,
    bytes_streamed: u64,
    bytes_stored: u64,
    syncs: u64,
    file_bytes: u64,
}

impl Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "fences {}, lines flushed {}, bytes stored {} (streamed {}), syncs {}, file bytes {}",
            self.fences,
            self.lines_flushed,
            self.bytes_stored,
            self.bytes_streamed,
            self.syncs,
            self.file_bytes
        )
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn unknown(table: &str) -> String {
    format!("the script has no table `{table}`")
}

impl Session {
    /// Creates a partition in `place`.
    pub fn new(place: Place, method: Method, options: EngineOptions) -> Result<Self, String> {
        let engine = place.create(method, &options).map_err(text)?;
        Ok(Self::over(place, method, options, engine))
    }

    /// Opens the partition in `place`; the commit table has the transactions in `decided`.
    pub fn open(
        place: Place,
        method: Method,
        options: EngineOptions,
        decided: &[u64],
    ) -> Result<Self, String> {
        let decide = |global: GlobalTxnId| decided.contains(&global.0);
        let engine = place.open(method, &options, &decide).map_err(text)?;
        let mut session = Self::over(place, method, options, engine);
        session.decided.extend(decided);
        Ok(session)
    }

    /// The partition of an engine that was made in `place`.
    pub fn over(
        place: Place,
        method: Method,
        options: EngineOptions,
        engine: Box<dyn Engine>,
    ) -> Self {
        Self {
            place,
            method,
            options,
            engine: Some(engine),
            is_open: false,
            prepared: None,
            decided: HashSet::new(),
            tables_made: 0,
            indexes_made: 0,
            space_mark: 0,
            measured: None,
            restarts: Restarts::Scripted,
        }
    }

    /// Where the engine runs.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The same session with this habit.
    #[must_use]
    pub fn with_restarts(mut self, restarts: Restarts) -> Self {
        self.restarts = restarts;
        self
    }

    /// Runs the commands of a block and collects their output.
    pub fn run_block<'s>(&mut self, statements: impl Iterator<Item = &'s str>) -> Vec<String> {
        let mut output = Vec::new();
        for line in statements {
            match self.run(line) {
                Ok(lines) => output.extend(lines),
                Err(error) => output.push(format!("error: {error}")),
            }
        }
        output
    }

    /// Runs one command.
    pub fn run(&mut self, line: &str) -> Answer {
        let all = arguments(line)?;
        let (command, rest) = all.split_first().ok_or("an empty command")?;
        let mut command = command.word();
        let mut rest = rest;
        let is_raw = command == "raw";
        if is_raw {
            let (next, more) = rest.split_first().ok_or("`raw` needs a command")?;
            (command, rest) = (next.word(), more);
        }
        let is_statement = !matches!(
            command.as_str(),
            "create-table" | "drop-table" | "create-index" | "drop-index" | "begin" | "commit"
        ) && !NO_TRANSACTION.contains(&command.as_str());
        let answer = if is_statement && !is_raw && !self.is_open {
            self.alone(&command, rest)
        } else {
            self.dispatch(&command, rest)
        };
        if self.restarts == Restarts::Everywhere && !self.is_open && self.measured.is_none() {
            self.restart(true)?;
        }
        answer
    }

    /// Cost of the current block, if it measures.
    pub fn take_cost(&mut self) -> Option<Cost> {
        let measure = self.measured.take()?;
        let now = self.engine().ok()?.status();
        let (before, after) = (measure.start.memory.total(), now.memory.total());
        Some(Cost {
            fences: now.memory.fences - measure.start.memory.fences,
            fences_max: measure.fences_max,
            lines_flushed: after.lines_flushed - before.lines_flushed,
            bytes_streamed: after.bytes_streamed - before.bytes_streamed,
            bytes_stored: after.bytes_stored - before.bytes_stored,
            syncs: now.disk.syncs - measure.start.disk.syncs,
            file_bytes: now.disk.bytes_written - measure.start.disk.bytes_written,
        })
    }

    /// A statement as a transaction of its own.
    fn alone(&mut self, command: &str, rest: &[Argument]) -> Answer {
        self.engine()?.begin().map_err(text)?;
        let answer = self.dispatch(command, rest).and_then(|lines| {
            let committed = self.engine()?.commit(Durability::Immediate);
            committed.map(|_| lines).map_err(text)
        });
        if answer.is_err() {
            self.engine()?.abort().map_err(text)?;
        }
        answer
    }

    fn dispatch(&mut self, command: &str, rest: &[Argument]) -> Answer {
        match command {
            "create-table" => self.create_table(rest),
            "drop-table" | "create-index" | "drop-index" => self.change_schema(command, rest),
            "begin" | "commit" | "abort" | "prepare" | "decide" => self.transact(command, rest),
            "insert" | "update" | "delete" | "get" => self.one_row(command, rest),
            "get-many" => self.get_many(rest),
            "scan" | "count" => self.scan(command, rest),
            "fill" | "change" | "erase" => self.many_rows(command, rest),
            "reopen" | "crash" => self.restart(command == "crash"),
            "force" => self.engine()?.force().map(|()| Vec::new()).map_err(text),
            "checkpoint" => self
                .engine()?
                .idle()
                .and_then(Idle::checkpoint)
                .map(|()| Vec::new())
                .map_err(text),
            "tables" => self.tables(),
            "verify" => self.verify(),
            "mark-space" | "check-space" => self.space(command == "mark-space", rest),
            "measure" => self.measure(rest),
            other => Err(format!("the script language has no command `{other}`")),
        }
    }

    fn engine(&mut self) -> Result<&mut (dyn Engine + 'static), String> {
        let engine = self.engine.as_deref_mut();
        engine.ok_or_else(|| NOT_OPEN.to_owned())
    }

    fn table(&mut self, rest: &[Argument]) -> Result<Arc<Table>, String> {
        let name = rest.first().ok_or("a table's name is missing")?.word();
        let tables = self.engine()?.tables();
        let found = tables.into_iter().find(|table| table.def.name == name);
        found.ok_or_else(|| unknown(&name))
    }

    /// The number of a table; one that does not exist gets a number that no table has.
    fn table_id(&mut self, rest: &[Argument]) -> TableId {
        self.table(rest).map_or(TableId(999), |table| table.def.id)
    }

    fn create_table(&mut self, rest: &[Argument]) -> Answer {
        let name = rest.first().ok_or("a table's name is missing")?.word();
        self.tables_made += 1;
        let mut def = TableDef::new(TableId(self.tables_made), name, Vec::new(), Vec::new());
        for argument in &rest[1..] {
            let word = argument.word();
            let name = argument.name.clone().unwrap_or_default();
            let columns = |def: &TableDef| -> Result<Vec<usize>, String> {
                let names = word.split(',');
                names
                    .map(|name| def.column(name).ok_or_else(|| unknown(name)))
                    .collect()
            };
            match name.split_once(':') {
                _ if argument.name.is_none() && word == "highest" => def.id = TableId(u32::MAX),
                _ if argument.name.is_none() && word == "truncated" => {
                    def.keys = KeyRule::Truncated { hash_key: 0 };
                }
                _ if name == "key" => def.primary_key = columns(&def)?,
                None => {
                    let (data_type, nullable) = word
                        .strip_suffix('?')
                        .map_or((word.as_str(), false), |word| (word, true));
                    let mut column = Column::new(name, data_type.parse().map_err(text)?);
                    column.nullable = nullable;
                    def.columns.push(column);
                }
                Some((kind, index)) => {
                    self.indexes_made += 1;
                    let id = IndexId(self.indexes_made);
                    let (name, columns) = (index.to_owned(), columns(&def)?);
                    let unique = kind == "unique";
                    def.indexes.push(IndexDef {
                        id,
                        name,
                        columns,
                        unique,
                    });
                }
            }
        }
        self.engine()?
            .idle()
            .map_err(text)?
            .create_table(&def)
            .map_err(text)?;
        Ok(Vec::new())
    }

    fn change_schema(&mut self, command: &str, rest: &[Argument]) -> Answer {
        let id = self.table_id(rest);
        let table = self.table(rest).ok();
        let index = |name: &str| {
            let def = table.as_ref().and_then(|table| table.def.index(name));
            def.map_or(IndexId(999), |def| def.id)
        };
        let second = rest.get(1).cloned().unwrap_or_default();
        let engine = self.engine.as_deref_mut().ok_or(NOT_OPEN)?;
        let idle = engine.idle().map_err(text)?;
        match command {
            "drop-table" => idle.drop_table(id),
            "drop-index" => idle.drop_index(id, index(&second.word())),
            _ => {
                self.indexes_made += 1;
                let names = second.values.iter();
                let position = |name: &str| {
                    let column = table.as_ref().and_then(|table| table.def.column(name));
                    column.unwrap_or(99)
                };
                let def = IndexDef {
                    id: IndexId(self.indexes_made),
                    name: second.name.clone().unwrap_or_default(),
                    columns: names.map(|name| position(&name.text)).collect(),
                    unique: has_word(rest, "unique"),
                };
                idle.create_index(id, &def)
            }
        }
        .map(|()| Vec::new())
        .map_err(text)
    }

    fn transact(&mut self, command: &str, rest: &[Argument]) -> Answer {
        let number = rest
            .first()
            .and_then(|argument| argument.word().parse().ok())
            .unwrap_or(0);
        match command {
            "begin" => self.engine()?.begin().map_err(text)?,
            "prepare" => {
                self.engine()?.prepare(GlobalTxnId(number)).map_err(text)?;
                self.prepared = Some(number);
            }
            "decide" => {
                self.decided.insert(number);
            }
            "abort" => self.engine()?.abort().map_err(text)?,
            _ => {
                let durability = match rest.first().map(Argument::word).as_deref() {
                    Some("group") => Durability::Group,
                    Some("none") => Durability::None,
                    _ => Durability::Immediate,
                };
                self.engine()?.commit(durability).map_err(text)?;
            }
        }
        match command {
            "begin" => self.is_open = true,
            "abort" | "commit" => (self.is_open, self.prepared) = (false, None),
            _ => {}
        }
        Ok(Vec::new())
    }

    fn restart(&mut self, power_cut: bool) -> Answer {
        let prepared = self.prepared.take();
        if self.method.is_durable() {
            self.engine = None;
            if power_cut {
                self.place.cut_power().map_err(text)?;
            }
            let decided = &self.decided;
            let decide = |global: GlobalTxnId| decided.contains(&global.0);
            let engine = self
                .place
                .open(self.method, &self.options, &decide)
                .map_err(text)?;
            self.engine = Some(engine);
        } else if self.is_open {
            let is_decided = prepared.is_some_and(|number| self.decided.contains(&number));
            let engine = self.engine()?;
            if is_decided {
                engine
                    .commit(Durability::Immediate)
                    .map(|_| ())
                    .map_err(text)?;
            } else {
                engine.abort().map_err(text)?;
            }
        }
        self.is_open = false;
        Ok(Vec::new())
    }

    fn one_row(&mut self, command: &str, rest: &[Argument]) -> Answer {
        let Ok(table) = self.table(rest) else {
            return self.without_table(command);
        };
        let id = table.def.id;
        let rest = &rest[1..];
        if command == "insert" {
            let mut row = Row::new(Arc::clone(&table.layout));
            for (position, argument) in rest.iter().enumerate() {
                let column = table
                    .def
                    .columns
                    .get(position)
                    .ok_or("more values than columns")?;
                let literal = argument.values.first().ok_or("a value is missing")?;
                row.set(position, &value(column.data_type, literal)?)
                    .map_err(text)?;
            }
            // The room above checks this, because an engine takes rows as they are.
            row.check_complete().map_err(text)?;
            return self
                .engine()?
                .insert(id, &row)
                .map(|()| Vec::new())
                .map_err(text);
        }
        let key = key_of(&table, rest.first().ok_or("a key is missing")?)?;
        let found = match command {
            "update" => {
                let changes = changes_of(&table, &rest[1..])?;
                self.engine()?.update(id, &key, &changes).map_err(text)?
            }
            "delete" => self.engine()?.delete(id, &key).map_err(text)?,
            _ => {
                let mut row = Row::new(Arc::clone(&table.layout));
                if self.engine()?.get(id, &key, &mut row).map_err(text)? {
                    return Ok(vec![shown_row(row.values())]);
                }
                false
            }
        };
        Ok(if found {
            Vec::new()
        } else {
            vec!["no row".to_owned()]
        })
    }

    /// The engine's answer to the number of a table that it does not have.
    fn without_table(&mut self, command: &str) -> Answer {
        let def = TableDef::new(
            TableId(999),
            "missing",
            vec![Column::new("id", storage::record::DataType::Int64)],
            vec![0],
        );
        let table = Table::new(def, self.options.layout).map_err(text)?;
        let mut row = Row::new(Arc::clone(&table.layout));
        row.set(0, 1_i64).map_err(text)?;
        let changes = Changes::new(Arc::clone(&table.layout));
        let (id, engine) = (table.def.id, self.engine()?);
        match command {
            "insert" => engine.insert(id, &row),
            "update" => engine.update(id, &[1], &changes).map(|_| ()),
            "delete" => engine.delete(id, &[1]).map(|_| ()),
            _ => engine.get(id, &[1], &mut row).map(|_| ()),
        }
        .map(|()| vec!["done".to_owned()])
        .map_err(text)
    }

    fn get_many(&mut self, rest: &[Argument]) -> Answer {
        let table = self.table(rest)?;
        let keys: Result<Vec<KeyBuf>, String> = rest[1..]
            .iter()
            .map(|argument| key_of(&table, argument))
            .collect();
        let mut lines = Vec::new();
        self.engine()?
            .get_many(table.def.id, &keys?, &mut |position, row| {
                let row = row.map_or("no row".to_owned(), |row| shown_row(row.values()));
                lines.push(format!("{position}: {row}"));
            })
            .map_err(text)?;
        Ok(lines)
    }

    fn scan(&mut self, command: &str, rest: &[Argument]) -> Answer {
        let table = self.table(rest)?;
        let index = named(rest, "by").map(Argument::word);
        let number = index
            .as_ref()
            .and_then(|name| table.def.indexes.iter().position(|def| def.name == *name));
        let encoder = table.encoder(number);
        let prefix = |name| -> Result<Vec<Value>, String> {
            let given = named(rest, name).map_or(&[][..], |argument| &argument.values[..]);
            let columns = encoder.columns().iter();
            let pairs = columns.zip(given);
            pairs
                .map(|(at, literal)| value(table.def.columns[*at].data_type, literal))
                .collect()
        };
        let mut range = ScanRange {
            table: table.def.id,
            index: index
                .map(|_| number.map_or(IndexId(999), |number| table.def.indexes[number].id)),
            low: KeyBuf::new(),
            high: KeyBuf::new(),
            direction: Direction::Forward,
        };
        if has_word(rest, "reverse") {
            range.direction = Direction::Backward;
        }
        encoder
            .lower_bound(&prefix("from")?, &mut range.low)
            .map_err(text)?;
        encoder
            .upper_bound(&prefix("to")?, &mut range.high)
            .map_err(text)?;
        let limit = named(rest, "limit").and_then(|limit| limit.word().parse().ok());
        let mut lines = Vec::new();
        self.engine()?
            .scan(&range, &mut |row| {
                lines.push(shown_row(row.values()));
                if Some(lines.len()) == limit {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .map_err(text)?;
        if command == "count" {
            return Ok(vec![format!("{} rows", lines.len())]);
        }
        if lines.is_empty() {
            lines.push("no rows".to_owned());
        }
        Ok(lines)
    }

    fn many_rows(&mut self, command: &str, rest: &[Argument]) -> Answer {
        let table = self.table(rest)?;
        let id = table.def.id;
        let bytes = named(rest, "bytes").and_then(|bytes| bytes.word().parse().ok());
        let changes: Vec<Argument> = rest
            .iter()
            .filter(|argument| {
                argument
                    .name
                    .as_deref()
                    .is_some_and(|name| table.def.column(name).is_some())
            })
            .cloned()
            .collect();
        let changes = changes_of(&table, &changes)?;
        let numbers = numbers_of(rest)?;
        for (position, number) in numbers.iter().enumerate() {
            if command == "fill" && position % FILL_ROWS == 0 && position > 0 && !self.is_open {
                self.engine()?.commit(Durability::Immediate).map_err(text)?;
                self.engine()?.begin().map_err(text)?;
            }
            let mut row = Row::new(Arc::clone(&table.layout));
            for (at, column) in table.def.columns.iter().enumerate() {
                let value = generated(column.data_type, column.nullable, *number, bytes);
                row.set(at, &value).map_err(text)?;
            }
            let mut key = KeyBuf::new();
            table.primary.encode_row(&row, &mut key).map_err(text)?;
            let engine = self.engine()?;
            let found = match command {
                "fill" => engine.insert(id, &row).map(|()| true),
                "change" => engine.update(id, &key, &changes),
                _ => engine.delete(id, &key),
            };
            if !found.map_err(|error| format!("row {number}: {error}"))? {
                return Err(format!("there is no row {number}"));
            }
        }
        Ok(Vec::new())
    }

    fn tables(&mut self) -> Answer {
        let tables = self.engine()?.tables();
        let lines = tables.iter().map(|table| {
            let indexes: Vec<_> = table
                .def
                .indexes
                .iter()
                .map(|index| index.name.as_str())
                .collect();
            format!("{} [{}]", table.def.name, indexes.join(", "))
        });
        let lines: Vec<String> = lines.collect();
        Ok(if lines.is_empty() {
            vec!["no tables".to_owned()]
        } else {
            lines
        })
    }

    fn verify(&mut self) -> Answer {
        let report = self.engine()?.verify().map_err(text)?;
        if report.damage.is_empty() {
            let (rows, entries) = (report.rows, report.index_entries);
            return Ok(vec![format!("sound: {rows} rows, {entries} index entries")]);
        }
        Ok(report.damage)
    }

    fn space(&mut self, mark: bool, rest: &[Argument]) -> Answer {
        let is_merged = matches!(self.method, Method::Log | Method::NvmLog);
        if is_merged {
            // Space that a merge has not reached yet is still taken; a checkpoint does the merges
            // that are due.
            self.engine()?
                .idle()
                .map_err(text)?
                .checkpoint()
                .map_err(text)?;
        }
        let footprint = self.engine()?.footprint().map_err(text)?;
        let bytes = footprint.table + footprint.index;
        if mark {
            // Runs of two levels may hold a row each before they are merged.
            self.space_mark = if is_merged { 2 * bytes } else { bytes };
            return Ok(Vec::new());
        }
        let slack = named(rest, "slack")
            .and_then(|slack| slack.word().parse().ok())
            .unwrap_or(0);
        let mark = self.space_mark + slack;
        let within = bytes <= mark;
        Ok(vec![if within {
            "within the mark".to_owned()
        } else {
            format!("{bytes} bytes, above the mark of {mark}")
        }])
    }

    fn measure(&mut self, rest: &[Argument]) -> Answer {
        let limit = named(rest, "fences<").and_then(|limit| limit.word().parse().ok());
        let start = self.engine()?.status();
        self.measured = Some(Measure {
            start,
            fences_max: limit,
        });
        Ok(Vec::new())
    }
}

/// Commands that are not statements of a transaction, besides those that begin, end or change
/// schemas.
const NO_TRANSACTION: &[&str] = &[
    "abort",
    "prepare",
    "decide",
    "reopen",
    "crash",
    "force",
    "checkpoint",
    "tables",
    "verify",
    "mark-space",
    "check-space",
    "measure",
];

fn named<'a>(rest: &'a [Argument], name: &str) -> Option<&'a Argument> {
    rest.iter()
        .find(|argument| argument.name.as_deref() == Some(name))
}

fn has_word(rest: &[Argument], word: &str) -> bool {
    rest.iter()
        .any(|argument| argument.name.is_none() && argument.word() == word)
}

fn key_of(table: &Table, argument: &Argument) -> Result<KeyBuf, String> {
    let columns = table.primary.columns().iter();
    let values: Result<Vec<Value>, String> = columns
        .zip(&argument.values)
        .map(|(at, literal)| value(table.def.columns[*at].data_type, literal))
        .collect();
    let mut key = KeyBuf::new();
    table
        .primary
        .encode_values(&values?, &mut key)
        .map_err(text)?;
    Ok(key)
}

fn changes_of(table: &Table, arguments: &[Argument]) -> Result<Changes, String> {
    let mut changes = Changes::new(Arc::clone(&table.layout));
    for argument in arguments {
        let name = argument
            .name
            .as_deref()
            .ok_or("a change is `column=value`")?;
        let at = table.def.column(name).ok_or_else(|| unknown(name))?;
        let literal = argument.values.first().ok_or("a value is missing")?;
        let value = value(table.def.columns[at].data_type, literal)?;
        changes.set(at, &value).map_err(text)?;
    }
    Ok(changes)
}

/// The numbers of `1..50`, both ends included, in steps around the range if `step=` is given.
fn numbers_of(rest: &[Argument]) -> Result<Vec<i64>, String> {
    let range = rest.get(1).ok_or("a range is missing")?.word();
    let parsed = range
        .split_once("..")
        .and_then(|(first, last)| Some((first.parse::<i64>().ok()?, last.parse::<i64>().ok()?)));
    let (first, last) = parsed.ok_or_else(|| format!("`{range}` is no range"))?;
    if first > last {
        return Ok((last..=first).rev().collect());
    }
    let step = named(rest, "step")
        .and_then(|step| step.word().parse().ok())
        .unwrap_or(1);
    let count = last - first + 1;
    Ok((0..count).map(|at| first + at * step % count).collect())
}
