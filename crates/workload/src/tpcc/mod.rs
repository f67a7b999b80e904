//! TPC-C: nine tables, five transactions, the data of clause 4.3 and the consistency conditions of
//! clause 3.3.2.
//!
//! | file | job |
//! |---|---|
//! | `draw` | random choices: `NURand` with its constants, last names, text |
//! | `schema` | tables, columns, indexes |
//! | `population` | the initial rows |
//! | `list` | the inputs of the transactions, made before the clock starts, shared by all methods |
//! | `transactions`, `delivery`, `new_order` | the transactions |
//! | `runner` | the next transaction of a partition |
//! | `conditions` | the twelve conditions, and how many transactions the content shows |
//! | `drive` | options to workload: making, loading, checking |
//!
//! A warehouse with everything in it is in the partition `warehouse modulo partitions`; `item` is
//! in every partition. A New-Order line supplied by another warehouse and a Payment of another
//! warehouse's customer make a transaction of several partitions, unless
//! [`TpccOptions::single_partition`] keeps them within one, as N-Store does. Dates are made from
//! the position in the list, so that the same list leaves the same content in every method.

mod conditions;
mod delivery;
mod draw;
mod drive;
mod list;
mod new_order;
mod population;
mod runner;
mod schema;
mod transactions;

pub use conditions::{Checked, WarehouseProgress, check_consistency};
pub use draw::{Constants, last_name};
pub use drive::Tpcc;
pub use list::{CustomerBy, Input, Line, List};
pub use runner::{Outcome, Runner, is_rollback};
pub use schema::Tables;

use crate::mix::KINDS_MAX;
use std::fmt;

/// Districts of a warehouse.
pub const DISTRICTS: i16 = 10;
/// Most warehouses: warehouse numbers have two bytes, and twice as many must fit.
pub const WAREHOUSES_MAX: u32 = 16_383;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct TpccOptions {
    /// Warehouses, at least one a thread.
    pub warehouses: u32,
    /// Partitions of the database.
    pub partitions: u32,
    /// Threads of a partition; each has a list of its own, and home warehouses of its own (clause
    /// 2.4.1.1).
    pub threads: u32,
    /// Rows of a warehouse.
    pub scale: Scale,
    /// Whether every transaction stays within its partition, as in N-Store.
    pub single_partition: bool,
    /// Shares of the five transactions.
    pub mix: Mix,
    /// Length of the list, over all partitions. A run that goes on beyond it begins again.
    pub transactions: u64,
    /// Seed of the rows and of the list.
    pub seed: u64,
}

impl Default for TpccOptions {
    fn default() -> Self {
        Self {
            warehouses: 8,
            partitions: 1,
            threads: 1,
            scale: Scale::FULL,
            single_partition: false,
            mix: Mix::STANDARD,
            transactions: 1_000_000,
            seed: 1,
        }
    }
}

impl TpccOptions {
    /// Lists of all partitions.
    pub(crate) fn lists(&self) -> u32 {
        self.partitions * self.threads
    }
}

/// Rows of a warehouse. Only the full size is TPC-C; smaller ones are for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Items, and rows of stock of each warehouse.
    pub items: u32,
    /// Customers, and initial orders, of each district.
    pub customers: u32,
}

impl Scale {
    /// The size of clause 4.3: 100,000 items and ten times 3,000 customers.
    pub const FULL: Self = Self {
        items: 100_000,
        customers: 3_000,
    };

    /// A share of the full size, with at least 20 items and 10 customers.
    pub fn share(share: f64) -> Self {
        #[allow(clippy::cast_sign_loss, reason = "a negative share is the least size")]
        let of = |full: u32, least: u32| ((f64::from(full) * share).round() as u32).max(least);
        Self {
            items: of(Self::FULL.items, 20),
            customers: of(Self::FULL.customers, 10),
        }
    }

    /// Initial orders of a district that are not delivered yet: the newest three tenths.
    pub fn new_orders(self) -> u32 {
        undelivered(self.customers)
    }

    /// Different last names in a district.
    pub fn names(self) -> u32 {
        self.customers.min(draw::NAMES)
    }

    /// Initial rows of all tables; the number of order lines is the expected one.
    pub fn rows(self, warehouses: u32) -> u64 {
        let district = u64::from(self.customers) * (3 + 10) + u64::from(self.new_orders()) + 1;
        let warehouse = u64::from(self.items) + district * u64::from(DISTRICTS.cast_unsigned()) + 1;
        u64::from(warehouses) * warehouse + u64::from(self.items)
    }
}

/// Initial orders without delivery among those of a district.
fn undelivered(orders: u32) -> u32 {
    orders * 3 / 10
}

/// One of the five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A customer orders 5 to 15 items.
    NewOrder,
    /// A customer pays.
    Payment,
    /// The state of a customer's last order.
    OrderStatus,
    /// The oldest order of each district is delivered.
    Delivery,
    /// How many of the items sold last are low in stock.
    StockLevel,
}

impl Kind {
    /// All of them, in the order of the specification and of [`Mix`].
    pub const ALL: [Self; 5] = [
        Self::NewOrder,
        Self::Payment,
        Self::OrderStatus,
        Self::Delivery,
        Self::StockLevel,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new-order",
            Self::Payment => "payment",
            Self::OrderStatus => "order-status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock-level",
        }
    }

    /// Seconds that a terminal's user takes to key the input in (clause 5.2.5.2).
    pub fn keying_s(self) -> f64 {
        match self {
            Self::NewOrder => 18.0,
            Self::Payment => 3.0,
            Self::OrderStatus | Self::Delivery | Self::StockLevel => 2.0,
        }
    }

    /// Mean seconds that the user thinks about the answer (clause 5.2.5.4).
    pub fn think_mean_s(self) -> f64 {
        match self {
            Self::NewOrder | Self::Payment => 12.0,
            Self::OrderStatus => 10.0,
            Self::Delivery | Self::StockLevel => 5.0,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl crate::mix::Kind for Kind {
    const ALL: &'static [Self] = &Self::ALL;
    /// The shares that clause 5.2.4.2 asks for at least, and New-Order for the rest.
    const STANDARD: [u32; KINDS_MAX] = [45, 43, 4, 4, 4, 0, 0, 0];

    fn name(self) -> &'static str {
        self.name()
    }
}

/// Cards of each transaction in a deck (clause 5.2.4.2).
pub type Mix = crate::mix::Mix<Kind>;

#[cfg(test)]
mod tests;
