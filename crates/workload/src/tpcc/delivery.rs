//! Delivery (clause 2.7): the oldest order of each district is delivered.
//!
//! All ten districts are one transaction, which first reads all rows that it delivers and then
//! writes them. A district without an undelivered order is left out.

use super::DISTRICTS;
use super::runner::{Outcome, Runner};
use super::schema::{customer, money, new_order, order_line, orders, units};
use crate::columns::integer;
use crate::standard::missing;
use indelible::{Direction, Prefix, Result, Transaction};
use std::ops::ControlFlow;

/// Delivery of one order in one district.
#[derive(Clone, Copy)]
struct Parcel {
    district: i16,
    order: i32,
    customer: i32,
    balance_cents: i64,
    deliveries: i64,
    lines: i16,
}

impl Runner<'_> {
    pub(super) fn delivery(
        &mut self,
        transaction: &mut Transaction<'_>,
        warehouse: i16,
        carrier: i16,
    ) -> Result<Outcome> {
        let mut parcels = [None; DISTRICTS.cast_unsigned() as usize];
        for (district, parcel) in (1..).zip(&mut parcels) {
            *parcel = self.read_parcel(transaction, warehouse, district)?;
        }
        let mut orders = 0;
        for parcel in parcels.into_iter().flatten() {
            self.deliver(transaction, warehouse, carrier, parcel)?;
            orders += 1;
        }
        Ok(Outcome::Delivery { orders })
    }

    fn read_parcel(
        &mut self,
        transaction: &mut Transaction<'_>,
        warehouse: i16,
        district: i16,
    ) -> Result<Option<Parcel>> {
        let (tables, room) = (self.tables, &mut self.room);
        let mut oldest = None;
        let range = Prefix((warehouse, district));
        transaction.scan(&tables.new_order, range, Direction::Forward, |row| {
            oldest = Some(integer(row, new_order::ORDER) as i32);
            ControlFlow::Break(())
        })?;
        let Some(order) = oldest else {
            return Ok(None);
        };
        let key = (warehouse, district, order);
        if !transaction.get_into(&tables.orders, key, &mut room.orders.row)? {
            return Err(missing("orders", format!("{key:?}")));
        }
        let (mut amount_cents, mut lines) = (0, 0);
        transaction.scan(&tables.order_line, Prefix(key), Direction::Forward, |row| {
            amount_cents += units(row, order_line::AMOUNT);
            lines = integer(row, order_line::NUMBER) as i16;
            ControlFlow::Continue(())
        })?;
        let id = integer(&room.orders.row, orders::CUSTOMER) as i32;
        let key = (warehouse, district, id);
        let row = &mut room.customer.row;
        if !transaction.get_into(&tables.customer, key, row)? {
            return Err(missing("customer", format!("{key:?}")));
        }
        Ok(Some(Parcel {
            district,
            order,
            customer: id,
            balance_cents: units(row, customer::BALANCE) + amount_cents,
            deliveries: integer(row, customer::DELIVERIES) + 1,
            lines,
        }))
    }

    fn deliver(
        &mut self,
        transaction: &mut Transaction<'_>,
        warehouse: i16,
        carrier: i16,
        parcel: Parcel,
    ) -> Result<()> {
        let now = self.now();
        let (tables, room) = (self.tables, &mut self.room);
        let key = (warehouse, parcel.district, parcel.order);
        transaction.delete(&tables.new_order, key)?;
        let changes = &mut room.orders.changes;
        changes.clear();
        changes.set(orders::CARRIER, carrier)?;
        transaction.update(&tables.orders, key, changes)?;
        let changes = &mut room.order_line.changes;
        changes.clear();
        changes.set(order_line::DELIVERY_DATE, now)?;
        for number in 1..=parcel.lines {
            let key = (warehouse, parcel.district, parcel.order, number);
            transaction.update(&tables.order_line, key, changes)?;
        }
        let changes = &mut room.customer.changes;
        changes.clear();
        changes.set(customer::BALANCE, money(parcel.balance_cents))?;
        changes.set(customer::DELIVERIES, parcel.deliveries)?;
        let key = (warehouse, parcel.district, parcel.customer);
        transaction.update(&tables.customer, key, changes)?;
        Ok(())
    }
}
