//! The consistency conditions of clause 3.3.2, on a database at rest.
//!
//! | number | condition |
//! |---|---|
//! | 1 | the payments of a warehouse are the sum of its districts' |
//! | 2 | a district's next order is one above its newest order and newest undelivered order |
//! | 3 | undelivered orders of a district are numbered without gaps |
//! | 4 | a district has as many order lines as its orders say |
//! | 5 | an order has no carrier exactly if it is undelivered |
//! | 6 | each order has as many lines as it says |
//! | 7 | a line has no delivery date exactly if its order has no carrier |
//! | 8, 9 | a warehouse, a district was paid what `history` says |
//! | 10 | a customer's balance is the amount delivered less the amount paid |
//! | 11 | delivered orders of a district: 2100 of 3000 at first, one more with each delivery |
//! | 12 | balance and payments of a customer are together the amount delivered |
//!
//! Condition 11 of the specification covers the initial rows only; with the deliveries that
//! customers have counted, it holds for ever. The check needs nothing but the database, so a crash
//! test can call it after each recovery. It also counts the transactions that the content shows.

use super::schema::{customer, district, history, new_order, order_line, orders, units, warehouse};
use super::{DISTRICTS, Tables, undelivered};
use crate::columns::integer;
use crate::conditions::Findings;
use crate::loader::read_each;
use crate::standard::WorkloadError;
use indelible::{Database, Direction, Prefix, Result, Row, Table, Transaction};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Result of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Rows read, and the violations. One is no error of the check.
    pub findings: Findings,
    /// The warehouses, in ascending order.
    pub warehouses: Vec<WarehouseProgress>,
}

/// Transactions on a warehouse since loading, as its content shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarehouseProgress {
    /// Number of the warehouse.
    pub warehouse: i16,
    /// New-Orders.
    pub new_orders: u64,
    /// Payments to this warehouse.
    pub payments: u64,
    /// Orders delivered; at most ten a Delivery.
    pub delivered_orders: u64,
}

impl Checked {
    /// Itself, or the violations as an error if there are any.
    pub fn into_result(self) -> Result<Self, WorkloadError> {
        self.findings.check()?;
        Ok(self)
    }

    fn expect(&mut self, condition: u8, place: impl FnOnce() -> String, expected: i64, found: i64) {
        self.findings.expect(condition, place, expected, found);
    }

    fn add(&mut self, other: Self) {
        self.findings.add(other.findings);
        self.warehouses.extend(other.warehouses);
    }
}

/// Checks all conditions on all warehouses, one thread a partition. Nobody may write meanwhile. The
/// calling thread must not hold a transaction or a worker. A violation is no error of the check:
/// see [`Checked::into_result`].
pub fn check_consistency(database: &Database) -> Result<Checked, WorkloadError> {
    let tables = Tables::open(database)?;
    let partitions = database.partitions();
    let parts = read_each(database, |transaction, partition| {
        check_partition(transaction, &tables, partition, partitions)
    })?;
    let (mut checked, mut accounts) = (Checked::default(), Accounts::default());
    for (part, of_part) in parts {
        checked.add(part);
        accounts.add(of_part);
    }
    accounts.check(&mut checked);
    checked
        .warehouses
        .sort_unstable_by_key(|progress| progress.warehouse);
    Ok(checked)
}

/// A customer: warehouse, district and number.
type CustomerKey = (i16, i16, i32);

/// The deliveries, payments and debts of customers. Customers pay in other warehouses than their
/// own, perhaps in another partition, so their accounts are balanced at the end.
#[derive(Default)]
struct Accounts(HashMap<CustomerKey, Account>);

#[derive(Clone, Copy, Default)]
struct Account {
    is_customer: bool,
    balance_cents: i64,
    ytd_payment_cents: i64,
    delivered_cents: i64,
    paid_cents: i64,
}

impl Accounts {
    fn of(&mut self, customer: CustomerKey) -> &mut Account {
        self.0.entry(customer).or_default()
    }

    fn add(&mut self, other: Self) {
        for (key, part) in other.0 {
            let account = self.of(key);
            account.is_customer |= part.is_customer;
            account.balance_cents += part.balance_cents;
            account.ytd_payment_cents += part.ytd_payment_cents;
            account.delivered_cents += part.delivered_cents;
            account.paid_cents += part.paid_cents;
        }
    }

    /// Conditions 10 and 12.
    fn check(&self, checked: &mut Checked) {
        for (key, account) in &self.0 {
            let place = || {
                let (warehouse, district, id) = key;
                let kind = if account.is_customer {
                    "customer"
                } else {
                    "unknown customer"
                };
                format!("{kind} ({warehouse}, {district}, {id})")
            };
            let Account {
                balance_cents,
                ytd_payment_cents,
                delivered_cents,
                paid_cents,
                ..
            } = *account;
            checked.expect(10, place, delivered_cents - paid_cents, balance_cents);
            checked.expect(
                12,
                place,
                delivered_cents,
                balance_cents + ytd_payment_cents,
            );
        }
    }
}

fn check_partition(
    transaction: &mut Transaction<'_>,
    tables: &Tables,
    partition: u32,
    partitions: u32,
) -> Result<(Checked, Accounts)> {
    let mut reading = Reading {
        tables,
        transaction,
        checked: Checked::default(),
        accounts: Accounts::default(),
    };
    for (warehouse, ytd_cents) in reading.warehouses(partition, partitions)? {
        reading.warehouse(warehouse, ytd_cents)?;
    }
    Ok((reading.checked, reading.accounts))
}

/// Reads one partition, table by table in key order.
struct Reading<'r, 'db> {
    tables: &'r Tables,
    transaction: &'r mut Transaction<'db>,
    checked: Checked,
    accounts: Accounts,
}

/// State of a district.
#[derive(Default)]
struct District {
    ytd_cents: i64,
    next_order: i64,
    paid_cents: i64,
    customers: u32,
    deliveries: i64,
    undelivered: Vec<i32>,
    orders: Vec<Order>,
    lines: i64,
}

#[derive(Clone, Copy)]
struct Order {
    id: i32,
    customer: i32,
    has_carrier: bool,
    lines: i64,
    lines_found: i64,
    lines_delivered: i64,
    delivered_cents: i64,
}

impl Reading<'_, '_> {
    /// The warehouses of the partition and the payments that they got.
    fn warehouses(&mut self, partition: u32, partitions: u32) -> Result<Vec<(i16, i64)>> {
        let mut found = Vec::new();
        // Warehouses are numbered from 1 without gaps.
        let first = if partition == 0 {
            partitions
        } else {
            partition
        };
        let mut row = self.tables.warehouse.row();
        for warehouse in (first..=super::WAREHOUSES_MAX).step_by(partitions as usize) {
            let warehouse = warehouse as i16;
            if !self
                .transaction
                .get_into(&self.tables.warehouse, warehouse, &mut row)?
            {
                break;
            }
            found.push((warehouse, units(&row, warehouse::YTD)));
        }
        self.checked.findings.rows += found.len() as u64;
        Ok(found)
    }

    fn warehouse(&mut self, warehouse: i16, ytd_cents: i64) -> Result<()> {
        let mut districts: Vec<District> = (0..DISTRICTS).map(|_| District::default()).collect();
        self.read_districts(warehouse, &mut districts)?;
        self.read_customers(warehouse, &mut districts)?;
        self.read_history(warehouse, &mut districts)?;
        self.read_orders(warehouse, &mut districts)?;
        self.read_lines(warehouse, &mut districts)?;
        let place = || format!("warehouse {warehouse}");
        let districts_cents = districts.iter().map(|district| district.ytd_cents).sum();
        self.checked.expect(1, place, ytd_cents, districts_cents);
        let paid_cents = districts.iter().map(|district| district.paid_cents).sum();
        self.checked.expect(8, place, ytd_cents, paid_cents);
        for (number, district) in (1..).zip(&districts) {
            self.check_district(warehouse, number, district);
        }
        for (number, district) in (1..).zip(&districts) {
            for order in &district.orders {
                let account = self.accounts.of((warehouse, number, order.customer));
                account.delivered_cents += order.delivered_cents;
            }
        }
        self.note_progress(warehouse, &districts);
        Ok(())
    }

    /// Visits all rows of a warehouse with the district that a column names.
    fn visit(
        &mut self,
        table: &Table,
        warehouse: i16,
        column: usize,
        districts: &mut [District],
        mut visit: impl FnMut(&Row, i16, &mut District),
    ) -> Result<()> {
        let mut rows = 0;
        let range = Prefix(warehouse);
        self.transaction
            .scan(table, range, Direction::Forward, |row| {
                rows += 1;
                let number = integer(row, column) as i16;
                let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
                if let Some(district) = districts.get_mut(at) {
                    visit(row, number, district);
                }
                ControlFlow::Continue(())
            })?;
        self.checked.findings.rows += rows;
        Ok(())
    }

    fn read_districts(&mut self, warehouse: i16, districts: &mut [District]) -> Result<()> {
        let table = &self.tables.district;
        self.visit(
            table,
            warehouse,
            district::ID,
            districts,
            |row, _, district| {
                district.ytd_cents = units(row, district::YTD);
                district.next_order = integer(row, district::NEXT_ORDER);
            },
        )
    }

    fn read_customers(&mut self, warehouse: i16, districts: &mut [District]) -> Result<()> {
        let table = &self.tables.customer;
        let mut accounts = std::mem::take(&mut self.accounts);
        self.visit(
            table,
            warehouse,
            customer::DISTRICT,
            districts,
            |row, number, district| {
                district.customers += 1;
                district.deliveries += integer(row, customer::DELIVERIES);
                let account = accounts.of((warehouse, number, integer(row, customer::ID) as i32));
                account.is_customer = true;
                account.balance_cents = units(row, customer::BALANCE);
                account.ytd_payment_cents = units(row, customer::YTD_PAYMENT);
            },
        )?;
        self.accounts = accounts;
        Ok(())
    }

    fn read_history(&mut self, warehouse: i16, districts: &mut [District]) -> Result<()> {
        let table = &self.tables.history;
        let mut accounts = std::mem::take(&mut self.accounts);
        let mut payments = 0;
        self.visit(
            table,
            warehouse,
            history::DISTRICT,
            districts,
            |row, _, district| {
                let cents = units(row, history::AMOUNT);
                payments += 1;
                district.paid_cents += cents;
                let customer = (
                    integer(row, history::CUSTOMER_WAREHOUSE) as i16,
                    integer(row, history::CUSTOMER_DISTRICT) as i16,
                    integer(row, history::CUSTOMER) as i32,
                );
                accounts.of(customer).paid_cents += cents;
            },
        )?;
        self.accounts = accounts;
        let first: u64 = districts
            .iter()
            .map(|district| u64::from(district.customers))
            .sum();
        self.checked.warehouses.push(WarehouseProgress {
            warehouse,
            payments: u64::saturating_sub(payments, first),
            ..WarehouseProgress::default()
        });
        Ok(())
    }

    fn read_orders(&mut self, warehouse: i16, districts: &mut [District]) -> Result<()> {
        let table = &self.tables.new_order;
        self.visit(
            table,
            warehouse,
            new_order::DISTRICT,
            districts,
            |row, _, district| {
                district
                    .undelivered
                    .push(integer(row, new_order::ORDER) as i32);
            },
        )?;
        let table = &self.tables.orders;
        self.visit(
            table,
            warehouse,
            orders::DISTRICT,
            districts,
            |row, _, district| {
                district.orders.push(Order {
                    id: integer(row, orders::ID) as i32,
                    customer: integer(row, orders::CUSTOMER) as i32,
                    has_carrier: !row.get(orders::CARRIER).is_null(),
                    lines: integer(row, orders::LINES),
                    lines_found: 0,
                    lines_delivered: 0,
                    delivered_cents: 0,
                });
            },
        )
    }

    fn read_lines(&mut self, warehouse: i16, districts: &mut [District]) -> Result<()> {
        let table = &self.tables.order_line;
        self.visit(
            table,
            warehouse,
            order_line::DISTRICT,
            districts,
            |row, _, district| {
                district.lines += 1;
                let id = integer(row, order_line::ORDER) as i32;
                let Ok(at) = district.orders.binary_search_by_key(&id, |order| order.id) else {
                    return;
                };
                let order = &mut district.orders[at];
                order.lines_found += 1;
                if !row.get(order_line::DELIVERY_DATE).is_null() {
                    order.lines_delivered += 1;
                    order.delivered_cents += units(row, order_line::AMOUNT);
                }
            },
        )
    }

    /// Conditions 2 to 7, 9 and 11.
    fn check_district(&mut self, warehouse: i16, number: i16, district: &District) {
        let checked = &mut self.checked;
        let place = || format!("district ({warehouse}, {number})");
        let newest = district
            .orders
            .last()
            .map_or(0, |order| i64::from(order.id));
        checked.expect(2, place, district.next_order - 1, newest);
        if let (Some(&first), Some(&last)) =
            (district.undelivered.first(), district.undelivered.last())
        {
            checked.expect(2, place, district.next_order - 1, last.into());
            let count = district.undelivered.len().cast_signed() as i64;
            checked.expect(3, place, i64::from(last) - i64::from(first) + 1, count);
        }
        let lines = district.orders.iter().map(|order| order.lines).sum();
        checked.expect(4, place, lines, district.lines);
        for order in &district.orders {
            let place = || format!("order ({warehouse}, {number}, {})", order.id);
            let is_undelivered = district.undelivered.binary_search(&order.id).is_ok();
            checked.expect(5, place, is_undelivered.into(), (!order.has_carrier).into());
            checked.expect(6, place, order.lines, order.lines_found);
            let delivered = if order.has_carrier {
                order.lines_found
            } else {
                0
            };
            checked.expect(7, place, delivered, order.lines_delivered);
        }
        for id in &district.undelivered {
            let order = district.orders.binary_search_by_key(id, |order| order.id);
            let place = || format!("undelivered order ({warehouse}, {number}, {id})");
            checked.expect(5, place, 1, order.is_ok().into());
        }
        checked.expect(9, place, district.ytd_cents, district.paid_cents);
        let delivered = district.orders.len().cast_signed() as i64
            - district.undelivered.len().cast_signed() as i64;
        let first = i64::from(district.customers - undelivered(district.customers));
        checked.expect(11, place, first + district.deliveries, delivered);
    }

    fn note_progress(&mut self, warehouse: i16, districts: &[District]) {
        let progress = self.checked.warehouses.last_mut();
        let Some(progress) = progress.filter(|last| last.warehouse == warehouse) else {
            return;
        };
        for district in districts {
            let orders = (district.orders.len() as u64).saturating_sub(district.customers.into());
            progress.new_orders += orders;
            progress.delivered_orders += district.deliveries.max(0).cast_unsigned();
        }
    }
}
