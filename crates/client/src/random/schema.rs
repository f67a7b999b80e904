//! Types, literals, and tables with rows.
//!
//! Every table has a key `id` and some columns of random types. Numbers are small, so that no sum
//! or product of them leaves its type.

use super::dice::Dice;
use super::tally::Tally;
use std::fmt::Write;

/// Types whose values take part in the same expressions. The letter stands for them in templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Family(pub(super) char);

/// A type of columns.
pub(super) struct DataType {
    /// As the statements have it.
    pub(super) name: &'static str,
    pub(super) family: char,
}

const fn data_type(name: &'static str, family: char) -> DataType {
    DataType { name, family }
}

/// The types of columns. `mood` and `small` are an enum and a domain of each round.
pub(super) const TYPES: &[DataType] = &[
    data_type("boolean", 'b'),
    data_type("smallint", 'i'),
    data_type("integer", 'i'),
    data_type("bigint", 'i'),
    data_type("small", 'i'),
    data_type("numeric", 'n'),
    data_type("numeric(12,3)", 'n'),
    data_type("numeric(45,5)", 'n'),
    data_type("real", 'f'),
    data_type("double precision", 'f'),
    data_type("text", 't'),
    data_type("varchar(20)", 't'),
    data_type("char(6)", 'c'),
    data_type("name", 't'),
    data_type("bytea", 'y'),
    data_type("date", 'd'),
    data_type("timestamp", 's'),
    data_type("timestamptz", 'z'),
    data_type("time", 'm'),
    data_type("timetz", 'k'),
    data_type("interval", 'v'),
    data_type("uuid", 'u'),
    data_type("json", 'o'),
    data_type("jsonb", 'j'),
    data_type("integer[]", 'a'),
    data_type("text[]", 'w'),
    data_type("mood", 'e'),
    data_type("oid", 'q'),
];

/// A table of the round.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) columns: Vec<Column>,
    /// Conditions for which its indexes of expressions and of a part of the rows are made.
    pub(super) indexed: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) family: Family,
    pub(super) type_name: &'static str,
}

/// Statements that a round begins with, without its tables.
pub(super) const BEFORE: &[&str] = &[
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE DOMAIN small AS integer CHECK (VALUE BETWEEN -1000 AND 1000)",
    "CREATE SEQUENCE numbers START WITH 10 INCREMENT BY 5",
];

/// A random table; `parent` is one that it may refer to.
pub(super) fn table(
    dice: &mut Dice,
    tally: &mut Tally,
    number: usize,
    parent: Option<&Table>,
) -> (Table, String) {
    let name = format!("t{number}");
    let mut columns = Vec::new();
    let mut text = format!("CREATE TABLE {name} (id integer PRIMARY KEY");
    for at in 0..dice.between(3, 9) {
        let data_type = dice.pick(TYPES);
        tally.count(data_type.name);
        let column = Column {
            name: format!("{}{at}", data_type.family),
            family: Family(data_type.family),
            type_name: data_type.name,
        };
        let _ = write!(text, ", {} {}", column.name, column.type_name);
        if dice.chance(10) {
            let _ = write!(text, " DEFAULT {}", literal(dice, column.family));
        }
        columns.push(column);
    }
    if let Some(parent) = parent.filter(|_| dice.chance(50)) {
        let action = dice.pick(&["CASCADE", "SET NULL", "NO ACTION"]);
        let _ = write!(
            text,
            ", parent integer REFERENCES {} ON DELETE {action}",
            parent.name
        );
    }
    text.push(')');
    let indexed = Vec::new();
    (
        Table {
            name,
            columns,
            indexed,
        },
        text,
    )
}

/// Rows for a table, as INSERT.
pub(super) fn rows(dice: &mut Dice, table: &Table) -> String {
    let names: Vec<&str> = table
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .collect();
    let mut text = format!(
        "INSERT INTO {} (id, {}) VALUES ",
        table.name,
        names.join(", ")
    );
    for id in 1..=dice.between(0, 25) + 1 {
        let _ = write!(text, "{}({id}", if id == 1 { "" } else { ", " });
        for column in &table.columns {
            let value = if dice.chance(20) {
                "NULL".to_owned()
            } else {
                literal(dice, column.family)
            };
            let _ = write!(text, ", {value}");
        }
        text.push(')');
    }
    text
}

/// Statements that add indexes to a table. Conditions for which some are made are kept with it.
pub(super) fn indexes(dice: &mut Dice, table: &mut Table) -> Vec<String> {
    let indexed = table
        .columns
        .iter()
        .filter(|column| !"ojaw".contains(column.family.0));
    let indexed: Vec<Column> = indexed.cloned().collect();
    let mut texts = Vec::new();
    for at in 0..dice.below(3) {
        if indexed.is_empty() {
            break;
        }
        let (first, second) = (dice.pick(&indexed), dice.pick(&indexed));
        let name = format!("{}_x{at}", table.name);
        let on = &table.name;
        texts.push(match dice.below(7) {
            0 => format!("CREATE INDEX {name} ON {on} ({} DESC)", first.name),
            1 | 5 | 6 => {
                let (keys, conditions) = computed(dice, first, second);
                table.indexed.extend(conditions);
                format!("CREATE INDEX {name} ON {on} {keys}")
            }
            2 => format!("CREATE UNIQUE INDEX {name} ON {on} (id, {})", first.name),
            3 if first.name != second.name => format!(
                "CREATE INDEX {name} ON {on} ({}, {})",
                first.name, second.name
            ),
            _ => format!("CREATE INDEX {name} ON {on} ({})", first.name),
        });
    }
    texts
}

/// Keys of an index of expressions or of a part of the rows, and conditions that it may serve.
fn computed(dice: &mut Dice, first: &Column, second: &Column) -> (String, Vec<String>) {
    let name = &first.name;
    let (key, family) = match first.family.0 {
        't' => (format!("lower({name})"), 't'),
        'i' => (format!("({name} + id)"), 'i'),
        'n' => (format!("({name} * 2)"), 'n'),
        'c' => (format!("({name}::text)"), 't'),
        family => (name.clone(), family),
    };
    let value = literal(dice, Family(family));
    let bound = literal(dice, second.family);
    let (part, stronger) = match dice.below(5) {
        0 => (String::new(), "true".to_owned()),
        1 => (" WHERE id > 5".to_owned(), "id > 7".to_owned()),
        2 => (
            format!(" WHERE {} IS NOT NULL", second.name),
            format!("{} >= {bound}", second.name),
        ),
        3 => (
            format!(" WHERE {} IS NULL", second.name),
            format!("{} IS NULL", second.name),
        ),
        _ => (
            format!(" WHERE {} > {bound}", second.name),
            format!("{bound} < {}", second.name),
        ),
    };
    let compared = ["=", "<", ">=", "IS DISTINCT FROM"]
        .map(|operator| format!("{key} {operator} {value} AND {stronger}"));
    let mut conditions = compared.to_vec();
    conditions.push(format!("{key} IS NOT NULL AND {stronger}"));
    conditions.push(format!("{key} = {value}"));
    conditions.push(stronger);
    (format!("({key}, id){part}"), conditions)
}

/// A literal of a family.
#[expect(clippy::too_many_lines, reason = "a list of literals by their types")]
pub(super) fn literal(dice: &mut Dice, family: Family) -> String {
    let day = |dice: &mut Dice| {
        format!(
            "20{:02}-{:02}-{:02}",
            dice.below(40),
            dice.between(1, 12),
            dice.between(1, 28)
        )
    };
    let clock = |dice: &mut Dice| {
        format!(
            "{:02}:{:02}:{:02}",
            dice.below(24),
            dice.below(60),
            dice.below(60)
        )
    };
    match family.0 {
        'b' => (*dice.pick(&["true", "false", "NULL::boolean"])).to_owned(),
        'i' => format!("({})", dice.between(-20, 20)),
        'n' => {
            let decimals = ["", ".5", ".25", ".125", ".50"];
            format!(
                "({}{}::numeric)",
                dice.between(-99, 99),
                dice.pick(&decimals)
            )
        }
        'f' => format!(
            "({}{}::double precision)",
            dice.between(-99, 99),
            dice.pick(&["", ".5", ".25"])
        ),
        't' => format!(
            "'{}'",
            dice.pick(&[
                "", "a", "b", "ab", "Abc", "a b", "x%y", "_", "äö", "zz top", "10", "it''s"
            ])
        ),
        'c' => format!(
            "'{}'::char(6)",
            dice.pick(&["a", "ab", "abc   ", "", "zzzzzz"])
        ),
        'y' => format!("'\\x{:04x}'::bytea", dice.below(0xffff)),
        'd' => format!("date '{}'", day(dice)),
        's' => format!("timestamp '{} {}'", day(dice), clock(dice)),
        'z' => format!(
            "timestamptz '{} {}{}'",
            day(dice),
            clock(dice),
            dice.pick(&["+00", "+02", "-05:30"])
        ),
        'm' => format!("time '{}'", clock(dice)),
        'k' => format!(
            "timetz '{}{}'",
            clock(dice),
            dice.pick(&["+00", "+03", "-08"])
        ),
        'v' => {
            let unit = dice.pick(&["day", "week", "month", "year"]);
            format!("interval '{} {unit} {}'", dice.between(-9, 9), clock(dice))
        }
        'u' => format!("'00000000-0000-4000-8000-{:012x}'::uuid", dice.below(9)),
        'o' => format!("'{{\"a\": {}, \"b\": [1, 2]}}'::json", dice.below(9)),
        'j' => dice
            .pick(&[
                "'{\"a\": 1, \"b\": [1, 2, {\"c\": null}]}'::jsonb",
                "'{\"b\": \"x\", \"a\": true}'::jsonb",
                "'[1, 2, 3]'::jsonb",
                "'\"text\"'::jsonb",
                "'null'::jsonb",
                "'{}'::jsonb",
            ])
            .to_string(),
        'a' => dice
            .pick(&[
                "'{1,2,3}'::integer[]",
                "'{}'::integer[]",
                "ARRAY[5, NULL, 7]",
                "ARRAY[1]",
            ])
            .to_string(),
        'w' => dice
            .pick(&["'{a,b}'::text[]", "ARRAY['x', NULL, 'y z']", "'{}'::text[]"])
            .to_string(),
        'e' => format!("'{}'::mood", dice.pick(&["sad", "ok", "happy"])),
        _ => format!("{}::oid", dice.below(100)),
    }
}
