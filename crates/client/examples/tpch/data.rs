//! Tables and queries of TPC-H, from the crate `tpchgen`.
//!
//! Texts of comments come from a pool of 8 MB, where the specification has 300 MB, which take
//! longer to make than the rest of the data. The queries have the parameters that the specification
//! gives for validation.

#![allow(clippy::cast_sign_loss, reason = "numbers of queries begin with 1")]

use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};
use tpchgen::q_and_a::queries::query;
use tpchgen::text::TextPool;

/// The tables, with the keys of the specification.
pub(crate) const TABLES: &[(&str, &str)] = &[
    (
        "region",
        "r_regionkey int PRIMARY KEY, r_name char(25) NOT NULL, r_comment varchar(152)",
    ),
    (
        "nation",
        "n_nationkey int PRIMARY KEY, n_name char(25) NOT NULL, n_regionkey int NOT NULL,
         n_comment varchar(152)",
    ),
    (
        "part",
        "p_partkey int PRIMARY KEY, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL,
         p_brand char(10) NOT NULL, p_type varchar(25) NOT NULL, p_size int NOT NULL,
         p_container char(10) NOT NULL, p_retailprice decimal(15,2) NOT NULL,
         p_comment varchar(23) NOT NULL",
    ),
    (
        "supplier",
        "s_suppkey int PRIMARY KEY, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL,
         s_nationkey int NOT NULL, s_phone char(15) NOT NULL, s_acctbal decimal(15,2) NOT NULL,
         s_comment varchar(101) NOT NULL",
    ),
    (
        "partsupp",
        "ps_partkey int NOT NULL, ps_suppkey int NOT NULL, ps_availqty int NOT NULL,
         ps_supplycost decimal(15,2) NOT NULL, ps_comment varchar(199) NOT NULL,
         PRIMARY KEY (ps_partkey, ps_suppkey)",
    ),
    (
        "customer",
        "c_custkey int PRIMARY KEY, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL,
         c_nationkey int NOT NULL, c_phone char(15) NOT NULL, c_acctbal decimal(15,2) NOT NULL,
         c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL",
    ),
    (
        "orders",
        "o_orderkey int PRIMARY KEY, o_custkey int NOT NULL, o_orderstatus char(1) NOT NULL,
         o_totalprice decimal(15,2) NOT NULL, o_orderdate date NOT NULL,
         o_orderpriority char(15) NOT NULL, o_clerk char(15) NOT NULL,
         o_shippriority int NOT NULL, o_comment varchar(79) NOT NULL",
    ),
    (
        "lineitem",
        "l_orderkey int NOT NULL, l_partkey int NOT NULL, l_suppkey int NOT NULL,
         l_linenumber int NOT NULL, l_quantity decimal(15,2) NOT NULL,
         l_extendedprice decimal(15,2) NOT NULL, l_discount decimal(15,2) NOT NULL,
         l_tax decimal(15,2) NOT NULL, l_returnflag char(1) NOT NULL,
         l_linestatus char(1) NOT NULL, l_shipdate date NOT NULL, l_commitdate date NOT NULL,
         l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL,
         l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL,
         PRIMARY KEY (l_orderkey, l_linenumber)",
    ),
];

/// Bytes of the texts that comments are taken from.
const TEXT_BYTES: i32 = 8 << 20;

/// Calls `take` with each row of a table at a scale: its values, with `|` between them.
pub(crate) fn rows(table: &str, scale: f64, texts: &TextPool, mut take: impl FnMut(String)) {
    let words = Distributions::static_default();
    macro_rules! each {
        ($generator:ident::$new:ident($($argument:expr),*)) => {
            $generator::$new($($argument),*)
                .iter()
                .for_each(|row| take(row.to_string()))
        };
    }
    match table {
        "region" => each!(RegionGenerator::new_with_distributions_and_text_pool(
            words, texts
        )),
        "nation" => each!(NationGenerator::new_with_distributions_and_text_pool(
            words, texts
        )),
        "part" => each!(PartGenerator::new_with_distributions_and_text_pool(
            scale, 1, 1, words, texts
        )),
        "supplier" => each!(SupplierGenerator::new_with_distributions_and_text_pool(
            scale, 1, 1, words, texts
        )),
        "partsupp" => each!(PartSuppGenerator::new_with_text_pool(scale, 1, 1, texts)),
        "customer" => each!(CustomerGenerator::new_with_distributions_and_text_pool(
            scale, 1, 1, words, texts
        )),
        "orders" => each!(OrderGenerator::new_with_distributions_and_text_pool(
            scale, 1, 1, words, texts
        )),
        _ => each!(LineItemGenerator::new_with_distributions_and_text_pool(
            scale, 1, 1, words, texts
        )),
    }
}

/// The texts that comments are taken from.
pub(crate) fn texts() -> TextPool {
    TextPool::new(TEXT_BYTES, Distributions::static_default())
}

/// The rows of a table as COPY reads them.
pub(crate) fn copied(table: &str, scale: f64, texts: &TextPool) -> String {
    let mut lines = String::new();
    rows(table, scale, texts, |row| {
        lines.push_str(row.strip_suffix('|').unwrap_or(&row));
        lines.push('\n');
    });
    lines
}

/// The parameters of each query for validation, and the rows that are wanted.
const PARAMETERS: [(&[&str], Option<u32>); 22] = [
    (&["90"], None),
    (&["15", "BRASS", "EUROPE"], Some(100)),
    (&["BUILDING", "1995-03-15"], Some(10)),
    (&["1993-07-01"], None),
    (&["ASIA", "1994-01-01"], None),
    (&["1994-01-01", "0.06", "24"], None),
    (&["FRANCE", "GERMANY"], None),
    (&["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"], None),
    (&["green"], None),
    (&["1993-10-01"], Some(20)),
    (&["GERMANY", "FRACTION"], None),
    (&["MAIL", "SHIP", "1994-01-01"], None),
    (&["special", "requests"], None),
    (&["1995-09-01"], None),
    (&["1996-01-01"], None),
    (
        &[
            "Brand#45",
            "MEDIUM POLISHED",
            "49",
            "14",
            "23",
            "45",
            "19",
            "3",
            "36",
            "9",
        ],
        None,
    ),
    (&["Brand#23", "MED BOX"], None),
    (&["300"], Some(100)),
    (&["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"], None),
    (&["forest", "1994-01-01", "CANADA"], None),
    (&["SAUDI ARABIA"], Some(100)),
    (&["13", "31", "23", "29", "30", "18", "17"], None),
];

/// The statements of a query, by its number from 1.
pub(crate) fn statements(number: i32, scale: f64) -> Vec<String> {
    let (parameters, wanted) = PARAMETERS[number as usize - 1];
    let mut text = query(number).unwrap_or_default().to_owned();
    // The longest numbers first: `:10` begins with `:1`.
    for (at, value) in parameters.iter().enumerate().rev() {
        // A part of the stock that shrinks as the stock grows.
        let fraction = format!("{:.10}", 0.0001 / scale);
        let value = if *value == "FRACTION" {
            &fraction
        } else {
            *value
        };
        text = text.replace(&format!(":{}", at + 1), value);
    }
    // The precision of a literal interval, which PostgreSQL does not take here.
    text = text.replace(" day (3)", " day").replace(":s", "0");
    let mut statements: Vec<String> = text
        .split(';')
        .map(|statement| statement.trim().to_owned())
        .filter(|statement| !statement.is_empty())
        .collect();
    if let (Some(wanted), Some(last)) = (wanted, statements.last_mut()) {
        last.extend([" LIMIT ".to_owned(), wanted.to_string()]);
    }
    statements
}
