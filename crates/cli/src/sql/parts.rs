//! Columns, checks and keys of tables, for a dump.
//!
//! A query about the catalogue takes time that grows with it. So each kind of part is read by one
//! query for all tables, and not by one for each table.

use super::dump::OURS;
use super::order;
use ::sql::types::function::string::quote_ident as quoted;
use anyhow::Result;
use std::collections::HashMap;

/// Values of rows, without NULL.
pub(super) type Rows = Vec<Vec<String>>;

/// Parts of tables by the numbers of these.
pub(super) struct Parts {
    parents: HashMap<String, Rows>,
    columns: HashMap<String, Rows>,
    checks: HashMap<String, Rows>,
    keys: HashMap<String, Rows>,
    renames: HashMap<String, Rows>,
}

impl Parts {
    /// Those of all tables, or of the tables for which a condition holds; `ask` runs a query.
    pub(super) fn read(chosen: &str, ask: &mut dyn FnMut(&str) -> Result<Rows>) -> Result<Self> {
        let tables = |kinds: &str| {
            format!(
                "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE c.relkind IN ({kinds}) AND {OURS}{chosen}"
            )
        };
        let all = tables("'r', 'p'");
        let mut by_table = |query: String| -> Result<HashMap<String, Rows>> {
            let mut found = HashMap::<_, Rows>::new();
            for mut row in ask(&query)? {
                let table = row.remove(0);
                found.entry(table).or_default().push(row);
            }
            Ok(found)
        };
        Ok(Self {
            parents: by_table(format!(
                "SELECT i.inhrelid, i.inhparent::regclass FROM pg_catalog.pg_inherits i \
                 JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid {all} AND NOT c.relispartition \
                 ORDER BY i.inhrelid, i.inhseqno"
            ))?,
            columns: by_table(format!(
                "SELECT a.attrelid, a.attislocal, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), \
                 a.attnotnull, a.attidentity, a.attgenerated, pg_catalog.pg_get_expr(d.adbin, d.adrelid), \
                 CASE WHEN a.attidentity <> '' THEN ({}) END FROM pg_catalog.pg_class c \
                 JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid \
                 LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
                 {all} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum",
                order::identity_query()
            ))?,
            checks: by_table(format!(
                "SELECT r.conrelid, r.conislocal, r.conname, pg_catalog.pg_get_constraintdef(r.oid) \
                 FROM pg_catalog.pg_constraint r JOIN pg_catalog.pg_class c ON c.oid = r.conrelid {all} \
                 AND r.contype = 'c' AND r.convalidated ORDER BY r.conrelid, r.conname"
            ))?,
            keys: by_table(format!(
                "SELECT c.oid, pg_catalog.pg_get_partkeydef(c.oid) FROM pg_catalog.pg_class c {}",
                tables("'p'")
            ))?,
            renames: by_table(order::renames_query(chosen))?,
        })
    }

    /// The tables above one that inherits.
    pub(super) fn parents(&self, table: &str) -> String {
        rows(&self.parents, table).concat().join(", ")
    }

    /// Lines of the definition of a table: columns and checks that do not come from tables above.
    pub(super) fn lines(&self, table: &str) -> Vec<String> {
        // Those that do would be its own if it named them.
        let inherits = self.parents.contains_key(table);
        let is_own = |row: &&Vec<String>| !inherits || row[0] == "t";
        let columns = rows(&self.columns, table).iter().filter(is_own);
        let checks = rows(&self.checks, table).iter().filter(is_own);
        let check = |check: &Vec<String>| format!("CONSTRAINT {} {}", quoted(&check[1]), check[2]);
        let columns = columns.map(|column| column_line(&column[1..]));
        columns.chain(checks.map(check)).collect()
    }

    /// Names of the columns that take values.
    pub(super) fn filled(&self, table: &str) -> Vec<String> {
        let columns = rows(&self.columns, table).iter();
        let filled = columns.filter(|column| column[5].is_empty());
        filled.map(|column| quoted(&column[1])).collect()
    }

    /// The key of a partitioned table.
    pub(super) fn key(&self, table: &str) -> String {
        rows(&self.keys, table).concat().concat()
    }

    /// Statements that give other names to the sequences of identity columns.
    pub(super) fn renames(&self, table: &str) -> Vec<String> {
        rows(&self.renames, table).concat()
    }
}

fn rows<'r>(of: &'r HashMap<String, Rows>, table: &str) -> &'r [Vec<String>] {
    of.get(table).map_or(&[], Vec::as_slice)
}

/// A column in CREATE TABLE: name, type, NOT NULL, identity, generated, default.
fn column_line(column: &[String]) -> String {
    let [
        name,
        data_type,
        not_null,
        identity,
        generated,
        default,
        sequence,
    ] = column
    else {
        return String::new();
    };
    let mut line = format!("{} {data_type}", quoted(name));
    let source = match (identity.as_str(), generated.as_str()) {
        ("a", _) => format!(" GENERATED ALWAYS AS IDENTITY ({sequence})"),
        ("d", _) => format!(" GENERATED BY DEFAULT AS IDENTITY ({sequence})"),
        (_, "s") => format!(" GENERATED ALWAYS AS ({default}) STORED"),
        _ if default.is_empty() => String::new(),
        _ => format!(" DEFAULT {default}"),
    };
    line.push_str(&source);
    if not_null == "t" {
        line.push_str(" NOT NULL");
    }
    line
}
