//! The next transaction of a list.
//!
//! A runner keeps a row and a set of changes for each table, so that running allocates next to
//! nothing. Every transaction reads all that it needs before it writes anything: a method that
//! collects writes until commit then writes them out once. The position moves on with
//! [`Script::next`], also after a rollback, so a transaction that met a conflict can be run again.

use super::draw::{NAMES, last_name};
use super::list::{CustomerBy, Input, Line, List};
use super::new_order::OrderLines;
use super::population::LOADED_AT;
use super::schema::{customer, history};
use super::{Kind, Tables, Tpcc};
use crate::columns::integer;
use crate::script::{RoutedScript, Script};
use crate::standard::missing;
use indelible::{
    Changes, Database, Direction, Error, Prefix, Result, Row, Table, Timestamp, Transaction,
};
use std::ops::ControlFlow;

/// The output of a transaction for the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum Outcome {
    /// No transaction was run yet.
    Nothing,
    NewOrder {
        order: i32,
        total_cents: i64,
        /// Lines whose item and stock are both marked as original.
        brand_lines: u32,
    },
    Payment {
        customer: i32,
        balance_cents: i64,
    },
    OrderStatus {
        customer: i32,
        /// The newest order; `None` if the customer has none.
        order: Option<i32>,
        lines: u32,
        balance_cents: i64,
    },
    Delivery {
        /// Orders delivered, at most one a district.
        orders: u32,
    },
    StockLevel {
        low_items: u32,
    },
}

/// Why a New-Order is rolled back: an item that there is not.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("item number is not valid")]
pub(super) struct UnusedItem;

/// Whether an error is a rollback that the input asked for.
pub fn is_rollback(error: &Error) -> bool {
    matches!(error, Error::Rejected(reason) if reason.is::<UnusedItem>())
}

/// Runs the transactions of one list, one after the other.
pub struct Runner<'w> {
    pub(super) tables: &'w Tables,
    list: &'w List,
    partitions: u32,
    position: u64,
    names: &'w [String],
    outcome: Outcome,
    /// The last number in `history` of each home warehouse.
    payments: Vec<(i16, i64)>,
    pub(super) room: Room,
}

/// Buffers that each transaction uses again.
pub(super) struct Room {
    pub(super) warehouse: Buffer,
    pub(super) district: Buffer,
    pub(super) customer: Buffer,
    pub(super) orders: Buffer,
    pub(super) order_line: Buffer,
    pub(super) stock: Buffer,
    pub(super) new_order: Row,
    pub(super) history: Row,
    pub(super) numbers: Vec<i32>,
    pub(super) text: String,
    pub(super) order_lines: OrderLines,
}

/// A row and changes of one table.
pub(super) struct Buffer {
    pub(super) row: Row,
    pub(super) changes: Changes,
}

impl Buffer {
    fn new(table: &Table) -> Self {
        Self {
            row: table.row(),
            changes: table.changes(),
        }
    }
}

impl<'w> Runner<'w> {
    /// Reads where `history` of the home warehouses ends; the calling thread must not hold a
    /// worker.
    pub(super) fn new(
        workload: &'w Tpcc,
        database: &Database,
        tables: &'w Tables,
        list: u32,
        position: u64,
    ) -> Result<Self> {
        let mut payments = Vec::new();
        for warehouse in workload.warehouses(list) {
            let mut newest = 0;
            database.read(|reader| {
                let range = Prefix(warehouse);
                reader.scan(&tables.history, range, Direction::Backward, |row| {
                    newest = integer(row, history::NUMBER);
                    ControlFlow::Break(())
                })
            })?;
            payments.push((warehouse, newest));
        }
        Ok(Self {
            tables,
            list: workload.list(list),
            partitions: workload.options().partitions,
            position,
            names: workload.names(),
            outcome: Outcome::Nothing,
            payments,
            room: Room {
                warehouse: Buffer::new(&tables.warehouse),
                district: Buffer::new(&tables.district),
                customer: Buffer::new(&tables.customer),
                orders: Buffer::new(&tables.orders),
                order_line: Buffer::new(&tables.order_line),
                stock: Buffer::new(&tables.stock),
                new_order: tables.new_order.row(),
                history: tables.history.row(),
                numbers: Vec::new(),
                text: String::new(),
                order_lines: OrderLines::default(),
            },
        })
    }

    /// Moves to another position of the list.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
    }

    /// The input of the next transaction.
    #[inline]
    pub fn input(&self) -> Input {
        self.input_at(self.position)
    }

    /// The input at a place of the list.
    #[inline]
    pub fn input_at(&self, position: u64) -> Input {
        let inputs = self.list.inputs();
        inputs[(position % inputs.len() as u64) as usize]
    }

    /// The kind of the next transaction.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.input().kind()
    }

    /// The last transaction's output for the terminal.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The time of the next transaction: a millisecond after the one before it in the list.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp(LOADED_AT.0 + (self.position.cast_signed() + 1) * 1000)
    }

    /// The number of the next payment in a home warehouse. Numbers of payments that are undone are
    /// left out.
    pub(super) fn next_payment(&mut self, warehouse: i16) -> i64 {
        let of_warehouse = self.payments.iter_mut().find(|last| last.0 == warehouse);
        let last = of_warehouse.expect("inputs name home warehouses");
        last.1 += 1;
        last.1
    }

    /// Reads a customer into its row, and returns its number. Of those with the same last name it
    /// is the one in the middle, ordered by first name and rounded up.
    pub(super) fn read_customer(
        &mut self,
        transaction: &mut Transaction<'_>,
        (warehouse, district): (i16, i16),
        by: CustomerBy,
    ) -> Result<i32> {
        let room = &mut self.room;
        let id = match by {
            CustomerBy::Id(id) => id,
            CustomerBy::Name(name) => {
                let name = self.names[usize::from(name)].as_str();
                let found = &mut room.numbers;
                found.clear();
                let range = Prefix((warehouse, district, name));
                let index = &self.tables.customer_by_name;
                transaction.scan_index(index, range, Direction::Forward, |row| {
                    found.push(integer(row, customer::ID) as i32);
                    ControlFlow::Continue(())
                })?;
                let middle = found.len().div_ceil(2).checked_sub(1);
                let Some(at) = middle else {
                    return Err(missing(
                        "customer",
                        format!("({warehouse}, {district}, {name})"),
                    ));
                };
                found[at]
            }
        };
        let key = (warehouse, district, id);
        if transaction.get_into(&self.tables.customer, key, &mut room.customer.row)? {
            Ok(id)
        } else {
            Err(missing("customer", format!("{key:?}")))
        }
    }
}

impl Script for Runner<'_> {
    const KINDS: usize = Kind::ALL.len();

    #[inline]
    fn position(&self) -> u64 {
        self.position
    }

    #[inline]
    fn kind(&self) -> usize {
        self.kind() as usize
    }

    fn step(&mut self, transaction: &mut Transaction<'_>) -> Result<()> {
        let list = self.list;
        self.outcome = match self.input() {
            Input::NewOrder {
                warehouse,
                district,
                customer,
                first_line,
                lines,
            } => {
                let lines: &[Line] = list.lines(first_line, lines);
                self.new_order(transaction, (warehouse, district, customer), lines)?
            }
            payment @ Input::Payment { .. } => self.payment(transaction, payment)?,
            Input::OrderStatus {
                warehouse,
                district,
                customer,
            } => self.order_status(transaction, (warehouse, district), customer)?,
            Input::Delivery { warehouse, carrier } => {
                self.delivery(transaction, warehouse, carrier)?
            }
            Input::StockLevel {
                warehouse,
                district,
                threshold,
            } => self.stock_level(transaction, (warehouse, district), threshold)?,
        };
        Ok(())
    }

    #[inline]
    fn next(&mut self) {
        self.position += 1;
    }

    fn is_rollback(error: &Error) -> bool {
        is_rollback(error)
    }
}

impl RoutedScript for Runner<'_> {
    #[inline]
    fn partitions(&self, partitions: &mut Vec<u32>) {
        partitions.clear();
        self.list.warehouses(self.input(), |warehouse| {
            let partition = u32::from(warehouse.cast_unsigned()) % self.partitions;
            if !partitions.contains(&partition) {
                partitions.push(partition);
            }
        });
        partitions.sort_unstable();
    }
}

/// All last names, by number.
pub(super) fn names() -> Vec<String> {
    (0..NAMES).map(last_name).collect()
}
