//! Payment, Order-Status and Stock-Level (clauses 2.5, 2.6 and 2.8).
//!
//! Two of them only read, so they leave nothing to make durable.

use super::list::{CustomerBy, Input};
use super::runner::{Outcome, Runner};
use super::schema::{
    customer, district, history, money, order_line, orders, stock, units, warehouse,
};
use crate::columns::{integer, text};
use crate::standard::missing;
use indelible::{Direction, Prefix, Result, Transaction};
use std::fmt::Write as _;
use std::ops::ControlFlow;

/// Most bytes of a customer's data.
const DATA_BYTES_MAX: usize = 500;
/// Orders that Stock-Level looks at.
const NEWEST_ORDERS: i32 = 20;

impl Runner<'_> {
    pub(super) fn payment(
        &mut self,
        transaction: &mut Transaction<'_>,
        input: Input,
    ) -> Result<Outcome> {
        let Input::Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: by,
            amount_cents,
        } = input
        else {
            return Ok(Outcome::Nothing);
        };
        let amount_cents = i64::from(amount_cents);
        let id = self.read_customer(transaction, (customer_warehouse, customer_district), by)?;
        self.pay_to(transaction, (warehouse, district), amount_cents)?;
        let balance_cents = self.pay_from(
            transaction,
            (customer_warehouse, customer_district, id),
            (warehouse, district, amount_cents),
        )?;
        let (number, now) = (self.next_payment(warehouse), self.now());
        let room = &mut self.room;
        room.text.clear();
        room.text
            .push_str(text(&room.warehouse.row, warehouse::NAME));
        room.text.push_str("    ");
        room.text.push_str(text(&room.district.row, district::NAME));
        let row = &mut room.history;
        row.clear();
        row.set(history::WAREHOUSE, warehouse)?;
        row.set(history::NUMBER, number)?;
        row.set(history::DISTRICT, district)?;
        row.set(history::CUSTOMER_WAREHOUSE, customer_warehouse)?;
        row.set(history::CUSTOMER_DISTRICT, customer_district)?;
        row.set(history::CUSTOMER, id)?;
        row.set(history::DATE, now)?;
        row.set(history::AMOUNT, money(amount_cents))?;
        row.set(history::DATA, room.text.as_str())?;
        transaction.insert(&self.tables.history, &*row)?;
        Ok(Outcome::Payment {
            customer: id,
            balance_cents,
        })
    }

    /// Reads warehouse and district and adds an amount to the payments of both.
    fn pay_to(
        &mut self,
        transaction: &mut Transaction<'_>,
        key: (i16, i16),
        amount_cents: i64,
    ) -> Result<()> {
        let room = &mut self.room;
        if !transaction.get_into(&self.tables.warehouse, key.0, &mut room.warehouse.row)? {
            return Err(missing("warehouse", key.0.to_string()));
        }
        if !transaction.get_into(&self.tables.district, key, &mut room.district.row)? {
            return Err(missing("district", format!("{key:?}")));
        }
        let changes = &mut room.warehouse.changes;
        changes.clear();
        let ytd_cents = units(&room.warehouse.row, warehouse::YTD) + amount_cents;
        changes.set(warehouse::YTD, money(ytd_cents))?;
        transaction.update(&self.tables.warehouse, key.0, changes)?;
        let changes = &mut room.district.changes;
        changes.clear();
        let ytd_cents = units(&room.district.row, district::YTD) + amount_cents;
        changes.set(district::YTD, money(ytd_cents))?;
        transaction.update(&self.tables.district, key, changes)?;
        Ok(())
    }

    /// Books an amount from the customer that was read; returns the new balance. With bad credit,
    /// the payment is noted in the customer's data.
    fn pay_from(
        &mut self,
        transaction: &mut Transaction<'_>,
        key: (i16, i16, i32),
        (warehouse, district, amount_cents): (i16, i16, i64),
    ) -> Result<i64> {
        let room = &mut self.room;
        let (row, changes) = (&room.customer.row, &mut room.customer.changes);
        let balance_cents = units(row, customer::BALANCE) - amount_cents;
        changes.clear();
        changes.set(customer::BALANCE, money(balance_cents))?;
        let ytd_cents = units(row, customer::YTD_PAYMENT) + amount_cents;
        changes.set(customer::YTD_PAYMENT, money(ytd_cents))?;
        changes.set(customer::PAYMENTS, integer(row, customer::PAYMENTS) + 1)?;
        if text(row, customer::CREDIT) == "BC" {
            let note = &mut room.text;
            note.clear();
            let (of_warehouse, of_district, id) = key;
            let (whole, cents) = (amount_cents / 100, amount_cents % 100);
            write!(
                note,
                "{id} {of_district} {of_warehouse} {district} {warehouse} {whole}.{cents:02} | "
            )
            .expect("a string takes what is written to it");
            let old = text(row, customer::DATA);
            let kept = DATA_BYTES_MAX.saturating_sub(note.len()).min(old.len());
            // Damaged text may have no boundary there; bytes that are no text any more are dropped.
            note.push_str(old.get(..kept).unwrap_or(""));
            changes.set(customer::DATA, note.as_str())?;
        }
        transaction.update(&self.tables.customer, key, changes)?;
        Ok(balance_cents)
    }

    pub(super) fn order_status(
        &mut self,
        transaction: &mut Transaction<'_>,
        (warehouse, district): (i16, i16),
        by: CustomerBy,
    ) -> Result<Outcome> {
        let customer = self.read_customer(transaction, (warehouse, district), by)?;
        let balance_cents = units(&self.room.customer.row, customer::BALANCE);
        let mut order = None;
        let range = Prefix((warehouse, district, customer));
        let index = &self.tables.orders_by_customer;
        transaction.scan_index(index, range, Direction::Backward, |row| {
            order = Some(integer(row, orders::ID) as i32);
            ControlFlow::Break(())
        })?;
        let mut lines = 0;
        if let Some(order) = order {
            let range = Prefix((warehouse, district, order));
            let mut amount_cents = 0;
            transaction.scan(&self.tables.order_line, range, Direction::Forward, |row| {
                lines += 1;
                amount_cents += units(row, order_line::AMOUNT);
                ControlFlow::Continue(())
            })?;
            std::hint::black_box(amount_cents);
        }
        Ok(Outcome::OrderStatus {
            customer,
            order,
            lines,
            balance_cents,
        })
    }

    pub(super) fn stock_level(
        &mut self,
        transaction: &mut Transaction<'_>,
        key: (i16, i16),
        threshold: i16,
    ) -> Result<Outcome> {
        let room = &mut self.room;
        if !transaction.get_into(&self.tables.district, key, &mut room.district.row)? {
            return Err(missing("district", format!("{key:?}")));
        }
        let next = integer(&room.district.row, district::NEXT_ORDER) as i32;
        let range = (key.0, key.1, next - NEWEST_ORDERS)..(key.0, key.1, next);
        let items = &mut room.numbers;
        items.clear();
        transaction.scan(&self.tables.order_line, range, Direction::Forward, |row| {
            items.push(integer(row, order_line::ITEM) as i32);
            ControlFlow::Continue(())
        })?;
        items.sort_unstable();
        items.dedup();
        let stocks = &mut room.order_lines.stocks;
        stocks.clear();
        stocks.extend(items.iter().map(|item| (key.0, *item)));
        let mut low_items = 0;
        transaction.get_many(&self.tables.stock, stocks, |_, row| {
            let is_low = |row| integer(row, stock::QUANTITY) < i64::from(threshold);
            low_items += u32::from(row.is_some_and(is_low));
        })?;
        Ok(Outcome::StockLevel { low_items })
    }
}
