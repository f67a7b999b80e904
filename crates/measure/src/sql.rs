//! Statements on one row: through the typed interface, prepared, and as texts with the values in
//! them.
//!
//! All three work on the same tables, which SQL owns, one transaction a statement, durable at once.
//! While the typed interface has its turn no session is open, as in a program without SQL.

use crate::run::cpu_seconds;
use anyhow::{Context as _, Result, ensure};
use indelible::{Changes, Database, Row, Table, TransactionOptions};
use sql::types::{Context, Datum};
use sql::{Batch, Flow, OutputColumn, RowSink, Session, Sql, SqlError};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The interface of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Transactions of the typed interface.
    Typed,
    /// A prepared statement with parameters.
    Prepared,
    /// The text of a statement with its values.
    Text,
}

/// The statement of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// One column of a row.
    Select,
    /// A sum added to a column of a row.
    Update,
    /// A row.
    Insert,
}

/// Cost of the statements of turns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Statements.
    pub statements: u64,
    /// Time on the wall.
    pub seconds: f64,
    /// Processor time of the process.
    pub cpu_seconds: f64,
    /// Fences.
    pub fences: u64,
    /// Allocations, as far as they are counted.
    pub allocations: u64,
}

impl Cost {
    /// Adds the cost of another turn.
    pub fn add(&mut self, other: &Self) {
        self.statements += other.statements;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
        self.fences += other.fences;
        self.allocations += other.allocations;
    }
}

/// Statements between two looks at the clock.
const STATEMENTS: u64 = 64;

/// Tables with rows, and the next of them.
pub struct PointRows {
    sql: Arc<Sql>,
    accounts: Table,
    payments: Table,
    rows: i32,
    /// The state of the choice of rows.
    random: u64,
    payment: i64,
    /// Sum of what was added to balances.
    added: i64,
    allocations: fn() -> u64,
}

impl PointRows {
    /// Makes the tables, with some rows. `allocations` counts those of the process.
    pub fn load(database: Database, rows: i32, allocations: fn() -> u64) -> Result<Self> {
        let sql = Sql::open(database)?;
        let mut session = sql.connect()?;
        let made = format!(
            "CREATE TABLE account (id integer PRIMARY KEY, branch integer NOT NULL, \
             balance bigint NOT NULL, filler char(84)); \
             INSERT INTO account SELECT g, g % 10, 0, 'filler' FROM generate_series(1, {rows}) g; \
             CREATE TABLE payment (id bigint PRIMARY KEY, account integer NOT NULL, \
             delta bigint NOT NULL, note varchar(22))"
        );
        session.simple(&made, &mut Sum::default())?;
        drop(session);
        let below = sql.database();
        let named = |start: &str| {
            let tables = below.tables();
            let mut found = tables.into_iter().filter(|table| {
                let columns = &table.definition().columns;
                columns.get(1).is_some_and(|column| column.name == start)
            });
            found.next().context("the tables are there")
        };
        Ok(Self {
            accounts: named("branch")?,
            payments: named("account")?,
            sql,
            rows,
            random: 0x9E37_79B9_7F4A_7C15,
            payment: 0,
            added: 0,
            allocations,
        })
    }

    /// Runs statements for some time.
    pub fn turn(
        &mut self,
        interface: Interface,
        statement: Statement,
        time: Duration,
    ) -> Result<Cost> {
        match interface {
            Interface::Typed => {
                let mut typed = Typed {
                    row: self.accounts.row(),
                    changes: self.accounts.changes(),
                    options: TransactionOptions::new().unchecked(true),
                };
                self.clocked(time, |rows| rows.typed(statement, &mut typed))
            }
            Interface::Prepared => {
                let mut session = self.sql.connect()?;
                session.prepare("", statement.with_parameters(), &[])?;
                let mut values = Vec::new();
                self.clocked(time, |rows| {
                    rows.prepared(statement, &mut session, &mut values)
                })
            }
            Interface::Text => {
                let mut session = self.sql.connect()?;
                let mut text = String::new();
                self.clocked(time, |rows| {
                    text.clear();
                    rows.text(statement, &mut text)?;
                    session.simple(&text, &mut Sum::default())?;
                    Ok(())
                })
            }
        }
    }

    /// Compares the tables with what the turns have done.
    pub fn check(&self) -> Result<()> {
        let mut sums = Sum::default();
        let query = "SELECT sum(balance)::bigint, (SELECT count(*) FROM payment) FROM account";
        self.sql.connect()?.simple(query, &mut sums)?;
        let wanted = self.added + self.payment;
        ensure!(sums.0 == wanted, "sums are {}, not {wanted}", sums.0);
        Ok(())
    }

    fn clocked(
        &mut self,
        time: Duration,
        mut run: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<Cost> {
        // The first statements make plans and memory.
        (0..STATEMENTS).try_for_each(|_| run(self))?;
        let fences = self.sql.database().statistics()?.memory.fences;
        let (allocations, cpu) = ((self.allocations)(), cpu_seconds());
        let start = Instant::now();
        let mut statements = 0;
        while start.elapsed() < time {
            (0..STATEMENTS).try_for_each(|_| run(self))?;
            statements += STATEMENTS;
        }
        Ok(Cost {
            statements,
            seconds: start.elapsed().as_secs_f64(),
            cpu_seconds: cpu_seconds() - cpu,
            allocations: (self.allocations)() - allocations,
            fences: self.sql.database().statistics()?.memory.fences - fences,
        })
    }

    /// The key of an account, chosen evenly.
    fn account(&mut self) -> i32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % u64::from(self.rows.unsigned_abs())) as i32 + 1
    }

    fn next_payment(&mut self) -> i64 {
        self.payment += 1;
        self.payment
    }

    fn typed(&mut self, statement: Statement, typed: &mut Typed) -> Result<()> {
        let account = self.account();
        let Typed {
            row,
            changes,
            options,
        } = typed;
        let database = self.sql.database();
        let accounts = &self.accounts;
        match statement {
            Statement::Select => {
                let found = database.read(|reader| reader.get_into(accounts, account, row))?;
                ensure!(
                    found && row.get(2).as_i64().is_some(),
                    "the account is there"
                );
            }
            Statement::Update => {
                let found = database.transaction_with(options, |transaction| {
                    if !transaction.get_into_for_update(accounts, account, row)? {
                        return Ok(false);
                    }
                    let balance = row.get(2).as_i64().unwrap_or(0);
                    changes.clear();
                    changes.set(2, balance + 1)?;
                    transaction.update(accounts, account, changes)
                })?;
                ensure!(found, "the account is there");
                self.added += 1;
            }
            Statement::Insert => {
                let number = self.next_payment();
                let (database, payments) = (self.sql.database(), &self.payments);
                database.transaction_with(options, |transaction| {
                    transaction.insert(payments, (number, account, 1_i64, "a payment"))
                })?;
            }
        }
        Ok(())
    }

    fn prepared(
        &mut self,
        statement: Statement,
        session: &mut Session,
        values: &mut Vec<Datum>,
    ) -> Result<()> {
        let account = Datum::Int4(self.account());
        let mut rows = Sum::default();
        values.clear();
        match statement {
            Statement::Select => values.push(account),
            Statement::Update => {
                self.added += 1;
                values.extend([Datum::Int8(1), account]);
            }
            Statement::Insert => {
                let number = Datum::Int8(self.next_payment());
                values.extend([number, account, Datum::Int8(1)]);
            }
        }
        if session.execute_point("", values, &mut rows)?.is_none() {
            session.bind("", "", values)?;
            session.execute_portal("", 0, &mut rows)?;
            session.sync()?;
        }
        Ok(())
    }

    fn text(&mut self, statement: Statement, text: &mut String) -> Result<()> {
        let account = self.account();
        match statement {
            Statement::Select => {
                write!(text, "SELECT balance FROM account WHERE id = {account}")?;
            }
            Statement::Update => {
                self.added += 1;
                write!(
                    text,
                    "UPDATE account SET balance = balance + 1 WHERE id = {account}"
                )?;
            }
            Statement::Insert => {
                let number = self.next_payment();
                write!(
                    text,
                    "INSERT INTO payment (id, account, delta, note) \
                     VALUES ({number}, {account}, 1, 'a payment')"
                )?;
            }
        }
        Ok(())
    }
}

impl Statement {
    fn with_parameters(self) -> &'static str {
        match self {
            Self::Select => "SELECT balance FROM account WHERE id = $1",
            Self::Update => "UPDATE account SET balance = balance + $1 WHERE id = $2",
            Self::Insert => {
                "INSERT INTO payment (id, account, delta, note) VALUES ($1, $2, $3, 'a payment')"
            }
        }
    }
}

/// Memory of the typed interface's statements.
struct Typed {
    row: Row,
    changes: Changes,
    options: TransactionOptions,
}

/// Adds up all values.
#[derive(Default)]
struct Sum(i64);

impl RowSink for Sum {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        for value in batch.rows().flatten() {
            self.0 += value.int()?;
        }
        Ok(Flow::More)
    }
}
