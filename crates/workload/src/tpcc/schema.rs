//! The nine tables of clause 1.3 with their columns and indexes.
//!
//! Key columns come first, the warehouse foremost, because it decides the partition. Warehouse,
//! district and line numbers have two bytes, so that most keys fit one word. `history` has no key
//! in the specification; here it is a number that counts up in each warehouse. Two secondary
//! indexes serve the transactions: customers by last name, and orders by customer.

use indelible::{
    DataType, Database, Decimal, Index, Partitioning, Result, Row, Table, TableBuilder,
};

/// Columns of `warehouse`.
pub(super) mod warehouse {
    pub(in crate::tpcc) const ID: usize = 0;
    pub(in crate::tpcc) const NAME: usize = 1;
    /// The first of five columns of an address.
    pub(in crate::tpcc) const ADDRESS: usize = 2;
    pub(in crate::tpcc) const TAX: usize = 7;
    pub(in crate::tpcc) const YTD: usize = 8;
}

/// Columns of `district`.
pub(super) mod district {
    pub(in crate::tpcc) const WAREHOUSE: usize = 0;
    pub(in crate::tpcc) const ID: usize = 1;
    pub(in crate::tpcc) const NAME: usize = 2;
    /// The first of five columns of an address.
    pub(in crate::tpcc) const ADDRESS: usize = 3;
    pub(in crate::tpcc) const TAX: usize = 8;
    pub(in crate::tpcc) const YTD: usize = 9;
    pub(in crate::tpcc) const NEXT_ORDER: usize = 10;
}

/// Columns of `customer`.
pub(super) mod customer {
    pub(in crate::tpcc) const WAREHOUSE: usize = 0;
    pub(in crate::tpcc) const DISTRICT: usize = 1;
    pub(in crate::tpcc) const ID: usize = 2;
    pub(in crate::tpcc) const FIRST: usize = 3;
    pub(in crate::tpcc) const MIDDLE: usize = 4;
    pub(in crate::tpcc) const LAST: usize = 5;
    /// The first of five columns of an address.
    pub(in crate::tpcc) const ADDRESS: usize = 6;
    pub(in crate::tpcc) const PHONE: usize = 11;
    pub(in crate::tpcc) const SINCE: usize = 12;
    pub(in crate::tpcc) const CREDIT: usize = 13;
    pub(in crate::tpcc) const CREDIT_LIMIT: usize = 14;
    pub(in crate::tpcc) const DISCOUNT: usize = 15;
    pub(in crate::tpcc) const BALANCE: usize = 16;
    pub(in crate::tpcc) const YTD_PAYMENT: usize = 17;
    pub(in crate::tpcc) const PAYMENTS: usize = 18;
    pub(in crate::tpcc) const DELIVERIES: usize = 19;
    pub(in crate::tpcc) const DATA: usize = 20;
}

/// Columns of `history`.
pub(super) mod history {
    pub(in crate::tpcc) const WAREHOUSE: usize = 0;
    pub(in crate::tpcc) const NUMBER: usize = 1;
    pub(in crate::tpcc) const DISTRICT: usize = 2;
    pub(in crate::tpcc) const CUSTOMER_WAREHOUSE: usize = 3;
    pub(in crate::tpcc) const CUSTOMER_DISTRICT: usize = 4;
    pub(in crate::tpcc) const CUSTOMER: usize = 5;
    pub(in crate::tpcc) const DATE: usize = 6;
    pub(in crate::tpcc) const AMOUNT: usize = 7;
    pub(in crate::tpcc) const DATA: usize = 8;
}

/// Columns of `new_order`.
pub(super) mod new_order {
    pub(in crate::tpcc) const WAREHOUSE: usize = 0;
    pub(in crate::tpcc) const DISTRICT: usize = 1;
    pub(in crate::tpcc) const ORDER: usize = 2;
}

/// Columns of `orders`.
pub(super) mod orders {
    pub(in crate::tpcc) const WAREHOUSE: usize = 0;
    pub(in crate::tpcc) const DISTRICT: usize = 1;
    pub(in crate::tpcc) const ID: usize = 2;
    pub(in crate::tpcc) const CUSTOMER: usize = 3;
    pub(in crate::tpcc) const ENTRY_DATE: usize = 4;
    pub(in crate::tpcc) const CARRIER: usize = 5;
    pub(in crate::tpcc) const LINES: usize = 6;
    pub(in crate::tpcc) const ALL_LOCAL: usize = 7;
}

/// Columns of `order_line`.
pub(super) mod order_line {
    pub(in crate::tpcc) const WAREHOUSE: usize = 0;
    pub(in crate::tpcc) const DISTRICT: usize = 1;
    pub(in crate::tpcc) const ORDER: usize = 2;
    pub(in crate::tpcc) const NUMBER: usize = 3;
    pub(in crate::tpcc) const ITEM: usize = 4;
    pub(in crate::tpcc) const SUPPLY_WAREHOUSE: usize = 5;
    pub(in crate::tpcc) const DELIVERY_DATE: usize = 6;
    pub(in crate::tpcc) const QUANTITY: usize = 7;
    pub(in crate::tpcc) const AMOUNT: usize = 8;
    pub(in crate::tpcc) const DISTRICT_INFO: usize = 9;
}

/// Columns of `item`.
pub(super) mod item {
    pub(in crate::tpcc) const ID: usize = 0;
    pub(in crate::tpcc) const IMAGE: usize = 1;
    pub(in crate::tpcc) const NAME: usize = 2;
    pub(in crate::tpcc) const PRICE: usize = 3;
    pub(in crate::tpcc) const DATA: usize = 4;
}

/// Columns of `stock`.
pub(super) mod stock {
    pub(in crate::tpcc) const WAREHOUSE: usize = 0;
    pub(in crate::tpcc) const ITEM: usize = 1;
    pub(in crate::tpcc) const QUANTITY: usize = 2;
    /// The first of ten columns, one for each district.
    pub(in crate::tpcc) const DISTRICTS: usize = 3;
    pub(in crate::tpcc) const YTD: usize = 13;
    pub(in crate::tpcc) const ORDERS: usize = 14;
    pub(in crate::tpcc) const REMOTE_ORDERS: usize = 15;
    pub(in crate::tpcc) const DATA: usize = 16;
}

/// The tables and indexes of an open database.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub struct Tables {
    pub warehouse: Table,
    pub district: Table,
    pub customer: Table,
    /// Customers by warehouse, district, last name and first name.
    pub customer_by_name: Index,
    pub history: Table,
    pub new_order: Table,
    pub orders: Table,
    /// Orders by warehouse, district, customer and number.
    pub orders_by_customer: Index,
    pub order_line: Table,
    pub item: Table,
    pub stock: Table,
}

const BY_NAME: &str = "by_name";
const BY_CUSTOMER: &str = "by_customer";
const MONEY: DataType = decimal(12, 2);
const RATE: DataType = decimal(4, 4);

const fn decimal(precision: u8, scale: u8) -> DataType {
    DataType::Decimal { precision, scale }
}

const fn char(length: u32) -> DataType {
    DataType::Char { length }
}

const fn varchar(max: u32) -> DataType {
    DataType::Varchar { max }
}

impl Tables {
    /// Creates the tables, which must not exist.
    pub fn create(database: &Database) -> Result<Self> {
        create_places(database)?;
        create_customer(database)?;
        create_orders(database)?;
        create_goods(database)?;
        Self::open(database)
    }

    /// The tables of a database that has them.
    pub fn open(database: &Database) -> Result<Self> {
        let customer = database.table("customer")?;
        let orders = database.table("orders")?;
        Ok(Self {
            warehouse: database.table("warehouse")?,
            district: database.table("district")?,
            customer_by_name: customer.index(BY_NAME)?,
            customer,
            history: database.table("history")?,
            new_order: database.table("new_order")?,
            orders_by_customer: orders.index(BY_CUSTOMER)?,
            orders,
            order_line: database.table("order_line")?,
            item: database.table("item")?,
            stock: database.table("stock")?,
        })
    }
}

fn address<'db>(table: TableBuilder<'db>, prefix: &str) -> TableBuilder<'db> {
    table
        .column(&format!("{prefix}_street_1"), varchar(20))
        .column(&format!("{prefix}_street_2"), varchar(20))
        .column(&format!("{prefix}_city"), varchar(20))
        .column(&format!("{prefix}_state"), char(2))
        .column(&format!("{prefix}_zip"), char(9))
}

fn create_places(database: &Database) -> Result<()> {
    let warehouse = database
        .create_table("warehouse")
        .column("w_id", DataType::Int16)
        .column("w_name", varchar(10));
    address(warehouse, "w")
        .column("w_tax", RATE)
        .column("w_ytd", MONEY)
        .primary_key(["w_id"])
        .partitioning(Partitioning::Modulo)
        .create()?;
    let district = database
        .create_table("district")
        .column("d_w_id", DataType::Int16)
        .column("d_id", DataType::Int16)
        .column("d_name", varchar(10));
    address(district, "d")
        .column("d_tax", RATE)
        .column("d_ytd", MONEY)
        .column("d_next_o_id", DataType::Int32)
        .primary_key(["d_w_id", "d_id"])
        .partitioning(Partitioning::Modulo)
        .create()?;
    Ok(())
}

fn create_customer(database: &Database) -> Result<()> {
    let customer = database
        .create_table("customer")
        .column("c_w_id", DataType::Int16)
        .column("c_d_id", DataType::Int16)
        .column("c_id", DataType::Int32)
        .column("c_first", varchar(16))
        .column("c_middle", char(2))
        .column("c_last", varchar(16));
    address(customer, "c")
        .column("c_phone", char(16))
        .column("c_since", DataType::Timestamp)
        .column("c_credit", char(2))
        .column("c_credit_lim", MONEY)
        .column("c_discount", RATE)
        .column("c_balance", MONEY)
        .column("c_ytd_payment", MONEY)
        .column("c_payment_cnt", DataType::Int32)
        .column("c_delivery_cnt", DataType::Int32)
        .column("c_data", varchar(500))
        .primary_key(["c_w_id", "c_d_id", "c_id"])
        .index(BY_NAME, ["c_w_id", "c_d_id", "c_last", "c_first"])
        .partitioning(Partitioning::Modulo)
        .create()?;
    database
        .create_table("history")
        .column("h_w_id", DataType::Int16)
        .column("h_number", DataType::Int64)
        .column("h_d_id", DataType::Int16)
        .column("h_c_w_id", DataType::Int16)
        .column("h_c_d_id", DataType::Int16)
        .column("h_c_id", DataType::Int32)
        .column("h_date", DataType::Timestamp)
        .column("h_amount", decimal(6, 2))
        .column("h_data", varchar(24))
        .primary_key(["h_w_id", "h_number"])
        .partitioning(Partitioning::Modulo)
        .create()?;
    Ok(())
}

fn create_orders(database: &Database) -> Result<()> {
    database
        .create_table("new_order")
        .column("no_w_id", DataType::Int16)
        .column("no_d_id", DataType::Int16)
        .column("no_o_id", DataType::Int32)
        .primary_key(["no_w_id", "no_d_id", "no_o_id"])
        .partitioning(Partitioning::Modulo)
        .create()?;
    database
        .create_table("orders")
        .column("o_w_id", DataType::Int16)
        .column("o_d_id", DataType::Int16)
        .column("o_id", DataType::Int32)
        .column("o_c_id", DataType::Int32)
        .column("o_entry_d", DataType::Timestamp)
        .nullable_column("o_carrier_id", DataType::Int16)
        .column("o_ol_cnt", DataType::Int16)
        .column("o_all_local", DataType::Bool)
        .primary_key(["o_w_id", "o_d_id", "o_id"])
        .unique_index(BY_CUSTOMER, ["o_w_id", "o_d_id", "o_c_id", "o_id"])
        .partitioning(Partitioning::Modulo)
        .create()?;
    database
        .create_table("order_line")
        .column("ol_w_id", DataType::Int16)
        .column("ol_d_id", DataType::Int16)
        .column("ol_o_id", DataType::Int32)
        .column("ol_number", DataType::Int16)
        .column("ol_i_id", DataType::Int32)
        .column("ol_supply_w_id", DataType::Int16)
        .nullable_column("ol_delivery_d", DataType::Timestamp)
        .column("ol_quantity", DataType::Int16)
        .column("ol_amount", decimal(6, 2))
        .column("ol_dist_info", char(24))
        .primary_key(["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"])
        .partitioning(Partitioning::Modulo)
        .create()?;
    Ok(())
}

fn create_goods(database: &Database) -> Result<()> {
    database
        .create_table("item")
        .column("i_id", DataType::Int32)
        .column("i_im_id", DataType::Int32)
        .column("i_name", varchar(24))
        .column("i_price", decimal(5, 2))
        .column("i_data", varchar(50))
        .primary_key(["i_id"])
        .partitioning(Partitioning::Replicated)
        .create()?;
    let mut stock = database
        .create_table("stock")
        .column("s_w_id", DataType::Int16)
        .column("s_i_id", DataType::Int32)
        .column("s_quantity", DataType::Int16);
    for district in 1..=super::DISTRICTS {
        stock = stock.column(&format!("s_dist_{district:02}"), char(24));
    }
    stock
        .column("s_ytd", decimal(8, 0))
        .column("s_order_cnt", DataType::Int32)
        .column("s_remote_cnt", DataType::Int32)
        .column("s_data", varchar(50))
        .primary_key(["s_w_id", "s_i_id"])
        .partitioning(Partitioning::Modulo)
        .create()?;
    Ok(())
}

/// The units of a decimal column: cents of money, ten-thousandths of a rate. 0 where a damaged row
/// has none.
#[inline]
pub(super) fn units(row: &Row, column: usize) -> i64 {
    match row.get(column) {
        indelible::ValueRef::Decimal(value) => value.units() as i64,
        _ => 0,
    }
}

/// Money.
#[inline]
pub(super) fn money(cents: i64) -> Decimal {
    Decimal::new(i128::from(cents), 2)
}
