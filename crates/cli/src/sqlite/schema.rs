//! Tables of a file of SQLite, and what they become here.
//!
//! Names stay as they are, so those with capital letters need quotes here. A column that is the
//! row's number in SQLite counts on after the last one here as well. Definitions that do not
//! come along (expressions, conditions, collations, triggers, views) are listed for the user.

use super::program::Program;
use super::unkept::unkept;
use super::value::{ColumnType, SqliteValue, printed, printed_text};
use crate::sql::{literal, quoted};
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::Path;

/// The tables of a file.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) tables: Vec<SourceTable>,
    /// The number that changes with each definition.
    pub(super) version: String,
    /// Everything that does not come along, in words.
    pub(super) left: Vec<String>,
    /// Whether a table has had `AUTOINCREMENT`.
    has_sequences: bool,
}

/// A table of SQLite.
#[derive(Debug, Default)]
pub(super) struct SourceTable {
    /// Its name in the file.
    pub(super) name: String,
    pub(super) columns: Vec<SourceColumn>,
    /// Columns of the primary key in their order.
    pub(super) key: Vec<String>,
    /// Columns of the other unique constraints.
    unique: Vec<Vec<String>>,
    indexes: Vec<SourceIndex>,
    references: Vec<Reference>,
    has_rowid: bool,
    /// Those of its parts that are left out, in words.
    unkept: Vec<String>,
}

/// A column.
#[derive(Debug)]
pub(super) struct SourceColumn {
    pub(super) name: String,
    declared: String,
    /// The type here; none until the content has told it.
    pub(super) column_type: Option<ColumnType>,
    pub(super) not_null: bool,
    default: String,
}

/// An index that `CREATE INDEX` made.
#[derive(Debug)]
struct SourceIndex {
    name: String,
    is_unique: bool,
    /// Columns, and whether they descend.
    keys: Vec<(String, bool)>,
}

/// A foreign key.
#[derive(Debug, Default)]
struct Reference {
    columns: Vec<String>,
    parent: String,
    parent_columns: Vec<String>,
    actions: String,
}

/// Queries of the schema, in the order in which [`Schema::read`] reads their rows.
fn queries() -> Vec<String> {
    let all = |columns: &[&str], rest: &str| {
        let columns: Vec<String> = columns.iter().map(|column| printed(column)).collect();
        format!("SELECT {} FROM {rest}", columns.join(", "))
    };
    // The module of a virtual table may be missing.
    let tables = "m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
                  AND m.sql NOT LIKE 'create virtual%' ORDER BY m.rowid";
    vec![
        all(&["schema_version"], "pragma_schema_version"),
        all(&["name"], "sqlite_master WHERE name = 'sqlite_sequence'"),
        all(
            &["type", "name", "sql"],
            "sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
        ),
        all(
            &[
                "m.name",
                "x.name",
                "x.type",
                "x.\"notnull\"",
                "x.dflt_value",
                "x.pk",
                "x.hidden",
            ],
            &format!("sqlite_master AS m, pragma_table_xinfo(m.name) AS x WHERE {tables}, x.cid"),
        ),
        all(
            &[
                "m.name",
                "i.name",
                "i.\"unique\"",
                "i.origin",
                "i.partial",
                "x.name",
                "x.\"desc\"",
                "x.coll",
            ],
            &format!(
                "sqlite_master AS m, pragma_index_list(m.name) AS i, pragma_index_xinfo(i.name) AS x \
                 WHERE x.\"key\" AND {tables}, i.seq DESC, x.seqno"
            ),
        ),
        all(
            &[
                "m.name",
                "f.id",
                "f.\"table\"",
                "f.\"from\"",
                "f.\"to\"",
                "f.on_update",
                "f.on_delete",
            ],
            &format!(
                "sqlite_master AS m, pragma_foreign_key_list(m.name) AS f WHERE {tables}, f.id, f.seq"
            ),
        ),
    ]
}

impl Schema {
    /// Reads the definitions of a file.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let mut program = Program::run(file, &queries())?;
        let version = program.rows()?.concat().concat();
        let mut schema = Self {
            version,
            has_sequences: !program.rows()?.is_empty(),
            ..Self::default()
        };
        let objects = program.rows()?;
        let is_virtual = |sql: &str| sql.to_lowercase().starts_with("create virtual");
        let virtual_tables = objects.iter().filter(|object| is_virtual(&object[2]));
        // A virtual table has its content in tables that only its module understands.
        let shadows = virtual_tables.flat_map(|object| {
            let ends = shadow_ends(module_of(&object[2]));
            ends.iter().map(move |end| format!("{}_{end}", object[1]))
        });
        let shadows: BTreeSet<String> = shadows.collect();
        for object in &objects {
            let (kind, name, sql) = (&object[0], &object[1], &object[2]);
            match kind.as_str() {
                "table" if is_virtual(sql) => schema.left.push(format!("virtual table {name}")),
                "table" if shadows.contains(name) => {}
                "table" => schema.tables.push(SourceTable {
                    name: name.clone(),
                    has_rowid: !is_without_rowid(sql),
                    unkept: unkept(name, sql),
                    ..SourceTable::default()
                }),
                "view" | "trigger" => schema.left.push(format!("{kind} {name}")),
                _ => {}
            }
        }
        schema.read_columns(&program.rows()?);
        schema.read_indexes(&program.rows()?);
        schema.read_references(&program.rows()?);
        program.end()?;
        Ok(schema)
    }

    /// The query of the greatest number that each table with `AUTOINCREMENT` has ever had, if there
    /// is one: rows that are gone keep theirs.
    pub(super) fn numbers_query(&self) -> Option<String> {
        let columns = [printed("name"), printed("seq")].join(", ");
        let query = format!("SELECT {columns} FROM sqlite_sequence");
        self.has_sequences.then_some(query)
    }

    fn table(&mut self, name: &str) -> Option<&mut SourceTable> {
        self.tables.iter_mut().find(|table| table.name == name)
    }

    fn read_columns(&mut self, rows: &[Vec<String>]) {
        let mut keys: Vec<(String, usize, String)> = Vec::new();
        for row in rows {
            let [table, name, declared, not_null, default, place, hidden] = &row[..] else {
                continue;
            };
            if hidden == "1" {
                continue;
            }
            let Some(found) = self.table(table) else {
                continue;
            };
            if let "2" | "3" = hidden.as_str() {
                let left = format!("the expression of the generated column {table}.{name}");
                found.unkept.push(left);
            }
            if let Ok(place @ 1..) = place.parse() {
                keys.push((table.clone(), place, name.clone()));
            }
            found.columns.push(SourceColumn {
                name: name.clone(),
                declared: declared.clone(),
                column_type: ColumnType::of_declaration(declared),
                not_null: not_null == "1",
                default: default.clone(),
            });
        }
        keys.sort_by_key(|(_, place, _)| *place);
        for (table, _, name) in keys {
            if let Some(found) = self.table(&table) {
                found.key.push(name);
            }
        }
    }

    fn read_indexes(&mut self, rows: &[Vec<String>]) {
        for rows in rows.chunk_by(|one, other| one[..2] == other[..2]) {
            let [table, name, is_unique, origin, partial, ..] = &rows[0][..] else {
                continue;
            };
            let keys = rows.iter().map(|row| (row[5].clone(), row[6] == "1"));
            let keys: Vec<(String, bool)> = keys.collect();
            let is_left = partial == "1" || keys.iter().any(|(column, _)| column.is_empty());
            let Some(found) = self.table(table) else {
                continue;
            };
            if is_left {
                let left = format!("index {name}, which is of expressions or of some rows");
                found.unkept.push(left);
                continue;
            }
            for row in rows.iter().filter(|_| origin == "c") {
                let (column, collation) = (&row[5], &row[7]);
                let of_column = format!("the collation {collation} of {table}.{column}");
                let is_told = |line: &String| line.eq_ignore_ascii_case(&of_column);
                if collation != "BINARY" && !found.unkept.iter().any(is_told) {
                    let left = format!("the collation {collation} of {column} in index {name}");
                    found.unkept.push(left);
                }
            }
            match origin.as_str() {
                "pk" => {}
                "u" => found
                    .unique
                    .push(keys.into_iter().map(|(column, _)| column).collect()),
                _ => found.indexes.push(SourceIndex {
                    name: name.clone(),
                    is_unique: is_unique == "1",
                    keys,
                }),
            }
        }
    }

    fn read_references(&mut self, rows: &[Vec<String>]) {
        for rows in rows.chunk_by(|one, other| one[..2] == other[..2]) {
            let mut reference = Reference::default();
            for row in rows {
                reference.columns.push(row[3].clone());
                // Without columns it is the primary key.
                if !row[4].is_empty() {
                    reference.parent_columns.push(row[4].clone());
                }
                reference.parent.clone_from(&row[2]);
                reference.actions = format!("ON UPDATE {} ON DELETE {}", row[5], row[6]);
            }
            if let Some(found) = self.table(&rows[0][0]) {
                found.references.push(reference);
            }
        }
    }

    /// Lets the content tell the types of columns that are declared without one.
    pub(super) fn complete(&mut self, file: &Path) -> Result<()> {
        let mut queries = Vec::new();
        for table in &self.tables {
            for column in &table.columns {
                if column.column_type.is_none() {
                    let name = sqlite_name(&column.name);
                    let kind = printed_text(&format!("typeof({name})"));
                    queries.push(format!(
                        "SELECT DISTINCT {kind} FROM {} WHERE {name} IS NOT NULL",
                        sqlite_name(&table.name)
                    ));
                }
            }
        }
        if queries.is_empty() {
            return Ok(());
        }
        let mut program = Program::run(file, &queries)?;
        for table in &mut self.tables {
            for column in &mut table.columns {
                if column.column_type.is_none() {
                    let types: BTreeSet<String> = program.rows()?.concat().into_iter().collect();
                    column.column_type = Some(ColumnType::of_content(&types));
                }
            }
        }
        program.end()
    }
}

/// The module of the definition of a virtual table; an empty text if it is none that is known.
fn module_of(sql: &str) -> &str {
    let mut words = sql.split(|one: char| !one.is_ascii_alphanumeric() && one != '_');
    words.find(|word| word.eq_ignore_ascii_case("using"));
    words.find(|word| !word.is_empty()).unwrap_or_default()
}

/// Ends of the names of the tables in which a module keeps the content of a virtual one.
fn shadow_ends(module: &str) -> &'static [&'static str] {
    match module.to_ascii_lowercase().as_str() {
        "fts3" | "fts4" => &["content", "segments", "segdir", "docsize", "stat"],
        "fts5" => &["data", "idx", "content", "docsize", "config"],
        "rtree" | "rtree_i32" | "geopoly" => &["node", "parent", "rowid"],
        _ => &[],
    }
}

/// Whether a definition ends with `WITHOUT ROWID`.
fn is_without_rowid(sql: &str) -> bool {
    let end = sql.rsplit(')').next().unwrap_or_default();
    let words: Vec<String> = end
        .split(|one: char| !one.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_uppercase)
        .collect();
    words.windows(2).any(|pair| pair == ["WITHOUT", "ROWID"])
}

/// A name in statements of SQLite.
pub(super) fn sqlite_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name in statements of ours.
pub(super) fn own_name(name: &str) -> String {
    quoted(name)
}

fn own_names(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| own_name(name)).collect();
    names.join(", ")
}

impl SourceTable {
    /// The query of its rows.
    pub(super) fn rows_query(&self) -> String {
        let columns = self.columns.iter();
        let columns: Vec<String> = columns
            .map(|column| printed(&sqlite_name(&column.name)))
            .collect();
        let name = sqlite_name(&self.name);
        format!("SELECT {} FROM {name}", columns.join(", "))
    }

    /// The column that is the row's number, if one is.
    pub(super) fn number_column(&self) -> Option<&SourceColumn> {
        let [key] = self.key.as_slice() else {
            return None;
        };
        let column = self.columns.iter().find(|column| column.name == *key)?;
        let is_it = self.has_rowid
            && column.declared.eq_ignore_ascii_case("integer")
            && column.column_type == Some(ColumnType::Integer);
        is_it.then_some(column)
    }

    /// Whether a column may not be NULL here.
    pub(super) fn refuses_null(&self, column: &SourceColumn) -> bool {
        column.not_null || self.key.contains(&column.name)
    }

    /// The statement that makes the table, and all in it that is left out.
    pub(super) fn definition(&self, left: &mut Vec<String>) -> String {
        let number = self.number_column().map(|column| column.name.as_str());
        let mut lines = Vec::new();
        left.extend_from_slice(&self.unkept);
        for column in &self.columns {
            let column_type = column.column_type.as_ref().unwrap_or(&ColumnType::Text);
            let mut line = format!("{} {}", own_name(&column.name), column_type.name());
            if number == Some(&column.name) {
                line.push_str(" GENERATED BY DEFAULT AS IDENTITY");
            } else if !column.default.is_empty() {
                match SqliteValue::of_literal(&column.default) {
                    Some(SqliteValue::Null) => {}
                    Some(value) if column_type.text_of_default(&value).is_some() => {
                        let text = column_type.text_of_default(&value).unwrap_or_default();
                        line = format!("{line} DEFAULT {}", literal(&text));
                    }
                    _ => left.push(format!(
                        "the default {} of {}.{}",
                        column.default, self.name, column.name
                    )),
                }
            }
            if column.not_null {
                line.push_str(" NOT NULL");
            }
            lines.push(line);
        }
        if !self.key.is_empty() {
            lines.push(format!("PRIMARY KEY ({})", own_names(&self.key)));
        }
        for columns in &self.unique {
            lines.push(format!("UNIQUE ({})", own_names(columns)));
        }
        format!(
            "CREATE TABLE {} ({})",
            own_name(&self.name),
            lines.join(", ")
        )
    }

    /// The statements that make its indexes.
    pub(super) fn index_definitions(&self) -> impl Iterator<Item = String> + '_ {
        self.indexes.iter().map(|index| {
            let keys = index.keys.iter().map(|(column, descends)| {
                let order = if *descends { " DESC" } else { "" };
                format!("{}{order}", own_name(column))
            });
            let keys: Vec<String> = keys.collect();
            format!(
                "CREATE {}INDEX {} ON {} ({})",
                if index.is_unique { "UNIQUE " } else { "" },
                own_name(&index.name),
                own_name(&self.name),
                keys.join(", ")
            )
        })
    }

    /// The statements that add its foreign keys, each with its words.
    pub(super) fn reference_definitions(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.references.iter().map(|reference| {
            let mut target = own_name(&reference.parent);
            if !reference.parent_columns.is_empty() {
                target = format!("{target} ({})", own_names(&reference.parent_columns));
            }
            let words = format!("the foreign key of {} to {}", self.name, reference.parent);
            let statement = format!(
                "ALTER TABLE {} ADD FOREIGN KEY ({}) REFERENCES {target} {}",
                own_name(&self.name),
                own_names(&reference.columns),
                reference.actions
            );
            (words, statement)
        })
    }
}
