//! The initial rows of clause 4.3.3.
//!
//! Each warehouse has a stream of random numbers of its own, so that the rows do not depend on the
//! number of partitions. Rows are inserted in the order of their keys, some hundred to a
//! transaction; one thread loads the warehouses of one partition. Items come first and by one
//! thread, because they go to all partitions.

use super::draw::{Constants, TextPool, last_name};
use super::list::warehouses;
use super::schema::{
    customer, district, history, item, money, new_order, order_line, orders, stock, warehouse,
};
use super::{DISTRICTS, Scale, Tables, TpccOptions};
use crate::loader::{BATCH_ROWS, Loaded, in_batches};
use crate::random::{Random, between, chance, shuffle};
use indelible::{Database, Decimal, Durability, Result, Row, Timestamp, Transaction, Worker};

/// The time of loading: 2026-01-01.
pub(super) const LOADED_AT: Timestamp = Timestamp(1_767_225_600_000_000);
/// Text that marks a tenth of the items and stocks.
pub(super) const ORIGINAL: &str = "ORIGINAL";
/// Orders of one loading transaction.
const BATCH_ORDERS: usize = 15;
/// The payments of each customer at first.
const FIRST_PAYMENT_CENTS: i64 = 1000;

/// Makes the rows.
pub(super) struct Population<'w> {
    pub(super) options: &'w TpccOptions,
    pub(super) constants: Constants,
    pub(super) pool: &'w TextPool,
    pub(super) tables: &'w Tables,
}

impl Population<'_> {
    /// Loads `item` into all partitions.
    pub(super) fn load_items(&self, database: &Database, loaded: Loaded<'_>) -> Result<()> {
        let mut random = Random::new(self.options.seed ^ 0x17E3);
        let mut row = self.tables.item.row();
        let mut next = 1;
        while next <= self.options.scale.items {
            let end = (next + BATCH_ROWS as u32).min(self.options.scale.items + 1);
            let before = random.clone();
            database.transaction(|transaction| {
                // After a conflict the closure runs again, and must make the same rows.
                random = before.clone();
                for id in next..end {
                    row.clear();
                    row.set(item::ID, id.cast_signed())?;
                    row.set(item::IMAGE, between(&mut random, 1, 10_000).cast_signed())?;
                    row.set(item::NAME, self.pool.text(&mut random, 14, 24))?;
                    row.set(item::PRICE, money(between(&mut random, 100, 10_000).into()))?;
                    self.set_data(&mut random, &mut row, item::DATA)?;
                    transaction.insert(&self.tables.item, &row)?;
                }
                Ok(())
            })?;
            loaded(u64::from(end - next));
            next = end;
        }
        Ok(())
    }

    /// Loads the warehouses of a partition.
    pub(super) fn load_partition(
        &self,
        database: &Database,
        partition: u32,
        loaded: Loaded<'_>,
    ) -> Result<()> {
        let mut worker = database.worker(&[partition], Durability::Group)?;
        let own = TpccOptions {
            threads: 1,
            ..self.options.clone()
        };
        for warehouse in warehouses(&own, partition) {
            let seed = self.options.seed ^ (u64::from(warehouse.cast_unsigned()) << 32) ^ 0x3A7E;
            let mut warehouse_loader = Loader {
                population: self,
                warehouse,
                random: Random::new(seed),
                loaded,
            };
            warehouse_loader.load(&mut worker)?;
        }
        worker.close()
    }

    /// 26 to 50 letters, in a tenth of the cases with `ORIGINAL` somewhere among them.
    fn set_data(&self, random: &mut Random, row: &mut Row, column: usize) -> Result<()> {
        let text = self.pool.text(random, 26, 50);
        if chance(random, 10) {
            let at = random.below((text.len() - ORIGINAL.len()) as u64 + 1) as usize;
            let mut marked = text.to_owned();
            marked.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
            row.set(column, marked.as_str())?;
        } else {
            row.set(column, text)?;
        }
        Ok(())
    }

    /// Two streets, a city, a state and a postal code.
    fn set_address(&self, random: &mut Random, row: &mut Row, first_column: usize) -> Result<()> {
        for column in 0..3 {
            row.set(first_column + column, self.pool.text(random, 10, 20))?;
        }
        row.set(first_column + 3, self.pool.text(random, 2, 2))?;
        let zip = format!("{:04}11111", random.below(10_000));
        row.set(first_column + 4, zip.as_str())?;
        Ok(())
    }
}

/// Loads one warehouse.
struct Loader<'p> {
    population: &'p Population<'p>,
    warehouse: i16,
    random: Random,
    loaded: Loaded<'p>,
}

impl Loader<'_> {
    fn load(&mut self, worker: &mut Worker<'_>) -> Result<()> {
        let scale = self.population.options.scale;
        self.in_batches(worker, 1..=1, 1, |loader, transaction, _| {
            loader.warehouse(transaction)
        })?;
        let mut row = self.population.tables.stock.row();
        self.in_batches(
            worker,
            1..=scale.items,
            BATCH_ROWS,
            |loader, transaction, id| loader.stock(transaction, id.cast_signed(), &mut row),
        )?;
        for district in 1..=DISTRICTS {
            self.district(worker, district, scale)?;
        }
        Ok(())
    }

    /// Calls `insert` for each number; it returns how many rows it has inserted.
    fn in_batches(
        &mut self,
        worker: &mut Worker<'_>,
        numbers: std::ops::RangeInclusive<u32>,
        batch: usize,
        mut insert: impl FnMut(&mut Self, &mut Transaction<'_>, u32) -> Result<u64>,
    ) -> Result<()> {
        let loaded = self.loaded;
        in_batches(worker, numbers, batch, loaded, |transaction, number| {
            insert(self, transaction, number)
        })
    }

    fn warehouse(&mut self, transaction: &mut Transaction<'_>) -> Result<u64> {
        let population = self.population;
        let customers = i64::from(population.options.scale.customers) * i64::from(DISTRICTS);
        let mut row = population.tables.warehouse.row();
        row.set(warehouse::ID, self.warehouse)?;
        row.set(
            warehouse::NAME,
            population.pool.text(&mut self.random, 6, 10),
        )?;
        population.set_address(&mut self.random, &mut row, warehouse::ADDRESS)?;
        row.set(warehouse::TAX, rate(between(&mut self.random, 0, 2000)))?;
        row.set(warehouse::YTD, money(customers * FIRST_PAYMENT_CENTS))?;
        transaction.insert(&population.tables.warehouse, &row)?;
        Ok(1)
    }

    fn stock(&mut self, transaction: &mut Transaction<'_>, id: i32, row: &mut Row) -> Result<u64> {
        let population = self.population;
        row.clear();
        row.set(stock::WAREHOUSE, self.warehouse)?;
        row.set(stock::ITEM, id)?;
        row.set(stock::QUANTITY, between(&mut self.random, 10, 100) as i16)?;
        for district in 0..DISTRICTS.cast_unsigned().into() {
            row.set(
                stock::DISTRICTS + district,
                population.pool.text(&mut self.random, 24, 24),
            )?;
        }
        row.set(stock::YTD, Decimal::new(0, 0))?;
        row.set(stock::ORDERS, 0_i32)?;
        row.set(stock::REMOTE_ORDERS, 0_i32)?;
        population.set_data(&mut self.random, row, stock::DATA)?;
        transaction.insert(&population.tables.stock, &*row)?;
        Ok(1)
    }

    fn district(&mut self, worker: &mut Worker<'_>, district: i16, scale: Scale) -> Result<()> {
        self.in_batches(worker, 1..=1, 1, |loader, transaction, _| {
            loader.district_row(transaction, district)
        })?;
        let tables = self.population.tables;
        let (mut row, mut payment) = (tables.customer.row(), tables.history.row());
        self.in_batches(
            worker,
            1..=scale.customers,
            BATCH_ROWS / 4,
            |loader, transaction, id| {
                loader.customer(transaction, district, id, &mut row)?;
                loader.history(transaction, district, id, &mut payment)?;
                Ok(2)
            },
        )?;
        let mut customers: Vec<i32> = (1..=scale.customers.cast_signed()).collect();
        shuffle(&mut self.random, &mut customers);
        let first_new = scale.customers - scale.new_orders() + 1;
        let mut rows = (
            tables.orders.row(),
            tables.order_line.row(),
            tables.new_order.row(),
        );
        self.in_batches(
            worker,
            1..=scale.customers,
            BATCH_ORDERS,
            |loader, transaction, id| {
                let order = Order {
                    district,
                    id: id.cast_signed(),
                    customer: customers[id as usize - 1],
                    is_delivered: id < first_new,
                };
                loader.order(transaction, order, &mut rows)
            },
        )
    }

    fn district_row(&mut self, transaction: &mut Transaction<'_>, id: i16) -> Result<u64> {
        let population = self.population;
        let customers = population.options.scale.customers;
        let mut row = population.tables.district.row();
        row.set(district::WAREHOUSE, self.warehouse)?;
        row.set(district::ID, id)?;
        row.set(
            district::NAME,
            population.pool.text(&mut self.random, 6, 10),
        )?;
        population.set_address(&mut self.random, &mut row, district::ADDRESS)?;
        row.set(district::TAX, rate(between(&mut self.random, 0, 2000)))?;
        row.set(
            district::YTD,
            money(i64::from(customers) * FIRST_PAYMENT_CENTS),
        )?;
        row.set(district::NEXT_ORDER, customers.cast_signed() + 1)?;
        transaction.insert(&population.tables.district, &row)?;
        Ok(1)
    }

    fn customer(
        &mut self,
        transaction: &mut Transaction<'_>,
        district: i16,
        id: u32,
        row: &mut Row,
    ) -> Result<()> {
        let population = self.population;
        let (pool, random) = (population.pool, &mut self.random);
        let names = population.options.scale.names();
        let name = if id <= names {
            id - 1
        } else {
            population.constants.name_to_load(random, names)
        };
        row.clear();
        row.set(customer::WAREHOUSE, self.warehouse)?;
        row.set(customer::DISTRICT, district)?;
        row.set(customer::ID, id.cast_signed())?;
        row.set(customer::FIRST, pool.text(random, 8, 16))?;
        row.set(customer::MIDDLE, "OE")?;
        row.set(customer::LAST, last_name(name).as_str())?;
        population.set_address(random, row, customer::ADDRESS)?;
        let phone = format!("{:016}", random.below(10_000_000_000_000_000));
        row.set(customer::PHONE, phone.as_str())?;
        row.set(customer::SINCE, LOADED_AT)?;
        row.set(
            customer::CREDIT,
            if chance(random, 10) { "BC" } else { "GC" },
        )?;
        row.set(customer::CREDIT_LIMIT, money(5_000_000))?;
        row.set(customer::DISCOUNT, rate(between(random, 0, 5000)))?;
        row.set(customer::BALANCE, money(-FIRST_PAYMENT_CENTS))?;
        row.set(customer::YTD_PAYMENT, money(FIRST_PAYMENT_CENTS))?;
        row.set(customer::PAYMENTS, 1_i32)?;
        row.set(customer::DELIVERIES, 0_i32)?;
        row.set(customer::DATA, pool.text(random, 300, 500))?;
        transaction.insert(&population.tables.customer, &*row)
    }

    /// The first payment of a customer.
    fn history(
        &mut self,
        transaction: &mut Transaction<'_>,
        district: i16,
        id: u32,
        row: &mut Row,
    ) -> Result<()> {
        let population = self.population;
        let customers = i64::from(population.options.scale.customers);
        row.clear();
        row.set(history::WAREHOUSE, self.warehouse)?;
        row.set(
            history::NUMBER,
            i64::from(district - 1) * customers + i64::from(id),
        )?;
        row.set(history::DISTRICT, district)?;
        row.set(history::CUSTOMER_WAREHOUSE, self.warehouse)?;
        row.set(history::CUSTOMER_DISTRICT, district)?;
        row.set(history::CUSTOMER, id.cast_signed())?;
        row.set(history::DATE, LOADED_AT)?;
        row.set(history::AMOUNT, money(FIRST_PAYMENT_CENTS))?;
        row.set(
            history::DATA,
            population.pool.text(&mut self.random, 12, 24),
        )?;
        transaction.insert(&population.tables.history, &*row)
    }

    /// An order with its lines, and its new-order row unless it is delivered.
    fn order(
        &mut self,
        transaction: &mut Transaction<'_>,
        order: Order,
        (row, line, open): &mut (Row, Row, Row),
    ) -> Result<u64> {
        let population = self.population;
        let random = &mut self.random;
        let lines = between(random, 5, 15) as i16;
        let carrier = between(random, 1, 10) as i16;
        row.clear();
        row.set(orders::WAREHOUSE, self.warehouse)?;
        row.set(orders::DISTRICT, order.district)?;
        row.set(orders::ID, order.id)?;
        row.set(orders::CUSTOMER, order.customer)?;
        row.set(orders::ENTRY_DATE, LOADED_AT)?;
        row.set(orders::CARRIER, order.is_delivered.then_some(carrier))?;
        row.set(orders::LINES, lines)?;
        row.set(orders::ALL_LOCAL, true)?;
        transaction.insert(&population.tables.orders, &*row)?;
        for number in 1..=lines {
            line.clear();
            line.set(order_line::WAREHOUSE, self.warehouse)?;
            line.set(order_line::DISTRICT, order.district)?;
            line.set(order_line::ORDER, order.id)?;
            line.set(order_line::NUMBER, number)?;
            line.set(
                order_line::ITEM,
                between(random, 1, population.options.scale.items).cast_signed(),
            )?;
            line.set(order_line::SUPPLY_WAREHOUSE, self.warehouse)?;
            line.set(
                order_line::DELIVERY_DATE,
                order.is_delivered.then_some(LOADED_AT),
            )?;
            line.set(order_line::QUANTITY, 5_i16)?;
            let amount = if order.is_delivered {
                0
            } else {
                between(random, 1, 999_999)
            };
            line.set(order_line::AMOUNT, money(amount.into()))?;
            line.set(
                order_line::DISTRICT_INFO,
                population.pool.text(random, 24, 24),
            )?;
            transaction.insert(&population.tables.order_line, &*line)?;
        }
        if !order.is_delivered {
            open.clear();
            open.set(new_order::WAREHOUSE, self.warehouse)?;
            open.set(new_order::DISTRICT, order.district)?;
            open.set(new_order::ORDER, order.id)?;
            transaction.insert(&population.tables.new_order, &*open)?;
        }
        Ok(1 + u64::from(lines.cast_unsigned()) + u64::from(!order.is_delivered))
    }
}

/// One initial order.
#[derive(Clone, Copy)]
struct Order {
    district: i16,
    id: i32,
    customer: i32,
    is_delivered: bool,
}

fn rate(ten_thousandths: u32) -> Decimal {
    Decimal::new(ten_thousandths.into(), 4)
}
