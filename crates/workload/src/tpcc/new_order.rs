//! New-Order (clause 2.4): a customer orders 5 to 15 items.
//!
//! A New-Order whose last item does not exist runs to its end like any other, but for that line,
//! and is then undone. Two lines of the same item and supplier see each other's effect on the
//! stock, which is written once.

use super::list::Line;
use super::population::ORIGINAL;
use super::runner::{Outcome, Runner, UnusedItem};
use super::schema::{
    customer, district, item, money, new_order, order_line, orders, stock, units, warehouse,
};
use crate::columns::{integer, text};
use crate::standard::missing;
use indelible::{Decimal, Error, Result, Row, Transaction};

/// Bytes of the text that a stock row has for each district.
const DISTRICT_INFO_BYTES: usize = 24;
/// Units of a whole in the products of three rates.
const WHOLE: i128 = 100_000_000;

/// Rows read for the lines of an order.
#[derive(Default)]
pub(super) struct OrderLines {
    items: Vec<i32>,
    pub(super) stocks: Vec<(i16, i32)>,
    lines: Vec<OrderLine>,
}

/// Values read for one line.
#[derive(Clone, Copy, Default)]
struct OrderLine {
    /// `None` if there is no such item.
    price_cents: Option<i64>,
    is_original: bool,
    has_stock: bool,
    is_original_stock: bool,
    quantity: i64,
    ytd: i64,
    orders: i64,
    remote_orders: i64,
    district_info: [u8; DISTRICT_INFO_BYTES],
    district_info_bytes: usize,
    /// The first line with the same item and supplier: it has the quantities.
    first: usize,
}

impl OrderLine {
    fn read_stock(&mut self, row: &Row, district: i16) {
        self.has_stock = true;
        self.quantity = integer(row, stock::QUANTITY);
        self.ytd = units(row, stock::YTD);
        self.orders = integer(row, stock::ORDERS);
        self.remote_orders = integer(row, stock::REMOTE_ORDERS);
        self.is_original_stock = self.is_original && is_original(row, stock::DATA);
        let column = stock::DISTRICTS + usize::from(district.cast_unsigned()) - 1;
        let info = text(row, column).as_bytes();
        self.district_info_bytes = info.len().min(DISTRICT_INFO_BYTES);
        self.district_info[..self.district_info_bytes]
            .copy_from_slice(&info[..self.district_info_bytes]);
    }

    fn district_info(&self) -> &str {
        std::str::from_utf8(&self.district_info[..self.district_info_bytes]).unwrap_or("")
    }

    /// Takes a quantity from the stock, which is filled up when it falls below ten.
    fn take(&mut self, quantity: i16, is_remote: bool) {
        let quantity = i64::from(quantity);
        self.quantity -= quantity;
        if self.quantity < 10 {
            self.quantity += 91;
        }
        self.ytd += quantity;
        self.orders += 1;
        self.remote_orders += i64::from(is_remote);
    }
}

/// Whether order lines are marked in this column.
fn is_original(row: &Row, column: usize) -> bool {
    let data = row.get(column).as_bytes().unwrap_or(&[]);
    data.windows(ORIGINAL.len())
        .any(|window| window == ORIGINAL.as_bytes())
}

/// The number of a line; there are at most 15.
fn line_number(number: usize) -> i16 {
    i16::try_from(number).unwrap_or(i16::MAX)
}

impl Runner<'_> {
    pub(super) fn new_order(
        &mut self,
        transaction: &mut Transaction<'_>,
        (warehouse, district, customer): (i16, i16, i32),
        lines: &[Line],
    ) -> Result<Outcome> {
        let room = &mut self.room;
        if !transaction.get_into(&self.tables.warehouse, warehouse, &mut room.warehouse.row)? {
            return Err(missing("warehouse", warehouse.to_string()));
        }
        let key = (warehouse, district);
        if !transaction.get_into(&self.tables.district, key, &mut room.district.row)? {
            return Err(missing("district", format!("{key:?}")));
        }
        let key = (warehouse, district, customer);
        if !transaction.get_into(&self.tables.customer, key, &mut room.customer.row)? {
            return Err(missing("customer", format!("{key:?}")));
        }
        self.read_goods(transaction, district, lines)?;
        self.take_goods(warehouse, lines);
        let order = self.write_order(transaction, (warehouse, district, customer), lines)?;
        self.write_stock(transaction, warehouse, lines)?;
        let (subtotal_cents, brand_lines) =
            self.write_lines(transaction, (warehouse, district, order), lines)?;
        if self
            .room
            .order_lines
            .lines
            .iter()
            .any(|good| good.price_cents.is_none())
        {
            return Err(Error::rejected(UnusedItem));
        }
        Ok(Outcome::NewOrder {
            order,
            total_cents: self.total_cents(subtotal_cents),
            brand_lines,
        })
    }

    fn read_goods(
        &mut self,
        transaction: &mut Transaction<'_>,
        district: i16,
        lines: &[Line],
    ) -> Result<()> {
        let OrderLines {
            items,
            stocks,
            lines: order_lines,
        } = &mut self.room.order_lines;
        items.clear();
        stocks.clear();
        items.extend(lines.iter().map(|line| line.item));
        stocks.extend(lines.iter().map(|line| (line.supply_warehouse, line.item)));
        order_lines.clear();
        order_lines.resize(lines.len(), OrderLine::default());
        transaction.get_many(&self.tables.item, items, |at, row| {
            order_lines[at].price_cents = row.map(|row| units(row, item::PRICE));
            order_lines[at].is_original = row.is_some_and(|row| is_original(row, item::DATA));
        })?;
        transaction.get_many(&self.tables.stock, stocks, |at, row| {
            if let Some(row) = row {
                order_lines[at].read_stock(row, district);
            }
        })?;
        let lost = (0..lines.len())
            .find(|at| order_lines[*at].price_cents.is_some() && !order_lines[*at].has_stock);
        match lost {
            Some(at) => Err(missing("stock", format!("{:?}", stocks[at]))),
            None => Ok(()),
        }
    }

    /// Computes the new stock of each line.
    fn take_goods(&mut self, warehouse: i16, lines: &[Line]) {
        let order_lines = &mut self.room.order_lines;
        for (at, line) in lines.iter().enumerate() {
            let first = order_lines
                .stocks
                .iter()
                .position(|stock| *stock == order_lines.stocks[at]);
            let first = first.unwrap_or(at);
            order_lines.lines[at].first = first;
            order_lines.lines[first].take(line.quantity, line.supply_warehouse != warehouse);
        }
    }

    /// Writes the district's next number, the order, and its new-order row; returns its number.
    fn write_order(
        &mut self,
        transaction: &mut Transaction<'_>,
        (warehouse, district, customer): (i16, i16, i32),
        lines: &[Line],
    ) -> Result<i32> {
        let now = self.now();
        let room = &mut self.room;
        let order = integer(&room.district.row, district::NEXT_ORDER) as i32;
        let changes = &mut room.district.changes;
        changes.clear();
        changes.set(district::NEXT_ORDER, order + 1)?;
        transaction.update(&self.tables.district, (warehouse, district), changes)?;

        let row = &mut room.orders.row;
        row.clear();
        row.set(orders::WAREHOUSE, warehouse)?;
        row.set(orders::DISTRICT, district)?;
        row.set(orders::ID, order)?;
        row.set(orders::CUSTOMER, customer)?;
        row.set(orders::ENTRY_DATE, now)?;
        row.set(orders::LINES, line_number(lines.len()))?;
        let is_local = lines.iter().all(|line| line.supply_warehouse == warehouse);
        row.set(orders::ALL_LOCAL, is_local)?;
        transaction.insert(&self.tables.orders, &*row)?;

        let row = &mut room.new_order;
        row.clear();
        row.set(new_order::WAREHOUSE, warehouse)?;
        row.set(new_order::DISTRICT, district)?;
        row.set(new_order::ORDER, order)?;
        transaction.insert(&self.tables.new_order, &*row)?;
        Ok(order)
    }

    /// Writes the new stock. A row that several lines take from is written once.
    fn write_stock(
        &mut self,
        transaction: &mut Transaction<'_>,
        warehouse: i16,
        lines: &[Line],
    ) -> Result<()> {
        let (order_lines, changes) = (&self.room.order_lines, &mut self.room.stock.changes);
        for (at, line) in lines.iter().enumerate() {
            let good = &order_lines.lines[at];
            if good.price_cents.is_none() || good.first != at {
                continue;
            }
            changes.clear();
            changes.set(stock::QUANTITY, good.quantity)?;
            changes.set(stock::YTD, Decimal::new(good.ytd.into(), 0))?;
            changes.set(stock::ORDERS, good.orders)?;
            if line.supply_warehouse != warehouse {
                changes.set(stock::REMOTE_ORDERS, good.remote_orders)?;
            }
            transaction.update(&self.tables.stock, order_lines.stocks[at], changes)?;
        }
        Ok(())
    }

    /// Writes the order lines; returns the sum of the amounts and the number of brand lines.
    fn write_lines(
        &mut self,
        transaction: &mut Transaction<'_>,
        (warehouse, district, order): (i16, i16, i32),
        lines: &[Line],
    ) -> Result<(i64, u32)> {
        let (order_lines, row) = (&self.room.order_lines, &mut self.room.order_line.row);
        let (mut subtotal_cents, mut brand_lines) = (0, 0);
        row.clear();
        row.set(order_line::WAREHOUSE, warehouse)?;
        row.set(order_line::DISTRICT, district)?;
        row.set(order_line::ORDER, order)?;
        for (at, line) in lines.iter().enumerate() {
            let good = &order_lines.lines[at];
            let Some(price_cents) = good.price_cents else {
                continue;
            };
            let amount_cents = price_cents * i64::from(line.quantity);
            subtotal_cents += amount_cents;
            brand_lines += u32::from(good.is_original && good.is_original_stock);
            row.set(order_line::NUMBER, line_number(at + 1))?;
            row.set(order_line::ITEM, line.item)?;
            row.set(order_line::SUPPLY_WAREHOUSE, line.supply_warehouse)?;
            row.set(order_line::QUANTITY, line.quantity)?;
            row.set(order_line::AMOUNT, money(amount_cents))?;
            row.set(order_line::DISTRICT_INFO, good.district_info())?;
            transaction.insert(&self.tables.order_line, &*row)?;
        }
        Ok((subtotal_cents, brand_lines))
    }

    /// The sum less the customer's discount and with the taxes, in cents, rounded down.
    fn total_cents(&self, subtotal_cents: i64) -> i64 {
        const RATE: i128 = 10_000;
        let discount = i128::from(units(&self.room.customer.row, customer::DISCOUNT));
        let taxes = i128::from(units(&self.room.warehouse.row, warehouse::TAX))
            + i128::from(units(&self.room.district.row, district::TAX));
        (i128::from(subtotal_cents) * (RATE - discount) * (RATE + taxes) / WHOLE) as i64
    }
}
