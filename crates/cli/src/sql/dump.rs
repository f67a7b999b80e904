//! `dump --sql`, `.dump` and `.schema`: a database as a script of SQL, which PostgreSQL's shell
//! loads too.
//!
//! One transaction at REPEATABLE READ reads everything, so a dump shows one moment; where a
//! transaction is open, it is that one. Objects come in an order in which each finds what it needs
//! (`order`): schemas, types, sequences, tables, functions, rows, constraints and indexes, foreign
//! keys, views, values of sequences. Rows are COPY data. Roles and privileges are not in it; a dump
//! of a database that has some says so, and fails.

use super::order::{self, Content, Dependencies, Object};
use super::parts::Parts;
use super::shell::{Outcome, Shell};
use ::sql::types::function::string::quote_ident as quoted;
use anyhow::{Context, Result, anyhow};
use client::{Answers, Client, Error, Report, Sink, Status};
use std::io::{self, Write};
use std::sync::Arc;

/// Schemas that nobody made.
pub(super) const OURS: &str =
    "n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'indelible')";

/// The way in which values and names are written, whatever the user has set.
const SETTINGS: &str = "SET LOCAL datestyle = 'ISO, MDY'; SET LOCAL intervalstyle = 'postgres'; \
    SET LOCAL extra_float_digits = 1; SET LOCAL bytea_output = 'hex'; SET LOCAL search_path = public";

/// `.schema`: definitions of all tables and views, or of one.
pub(super) fn schema(shell: &mut Shell, name: &str) -> Result<Outcome> {
    run(shell, name, Extent::Definitions)
}

/// `.dump`: definitions and rows.
pub(super) fn all(shell: &mut Shell, name: &str) -> Result<Outcome> {
    run(shell, name, Extent::Everything)
}

fn run(shell: &mut Shell, name: &str, extent: Extent) -> Result<Outcome> {
    let chosen = match name {
        "" => String::new(),
        name => match chosen_relation(shell, name)? {
            Ok(oid) => oid,
            Err(outcome) => return Ok(outcome),
        },
    };
    let mut out = shell.out.clone();
    let outcome = write(&mut *shell.client, &mut out, &chosen, extent);
    out.flush()?;
    match outcome {
        Ok(dumped) => match dumped.check() {
            Ok(()) => Ok(Outcome::Done),
            Err(error) => {
                crate::streams::tell(&format!("indelible: {error}"));
                Ok(Outcome::Failed)
            }
        },
        Err(error) => match error.downcast::<Failed>() {
            Ok(Failed(report)) => {
                super::report::tell(&report, "", None);
                Ok(Outcome::Failed)
            }
            Err(error) => Err(error),
        },
    }
}

/// The number of the table or view with a name, which may have a schema in front of it; the outcome
/// of the command if there is none.
fn chosen_relation(shell: &mut Shell, name: &str) -> Result<std::result::Result<String, Outcome>> {
    let found = shell.ask(&format!(
        "SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.oid = pg_catalog.to_regclass({}) AND c.relkind IN ('r', 'p', 'v', 'm') AND {OURS}",
        literal(&quoted_path(name))
    ))?;
    let Some(answers) = found else {
        return Ok(Err(Outcome::Failed));
    };
    let mut values = answers
        .last()
        .into_iter()
        .flat_map(|one| &one.rows)
        .flatten();
    Ok(match values.next().cloned().flatten() {
        Some(oid) => Ok(oid),
        None => Err(shell.refuse("", &format!("Did not find any relation named \"{name}\"."))),
    })
}

/// The extent of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Definitions,
    Everything,
}

/// A statement of the dump that failed.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message)]
struct Failed(Report);

/// A dump that was written.
pub(crate) struct Dumped {
    pub(crate) tables: u64,
    /// Objects of the database that are not in it.
    left_out: Vec<String>,
}

impl Dumped {
    /// Fails if something was left out.
    pub(crate) fn check(&self) -> Result<()> {
        if self.left_out.is_empty() {
            return Ok(());
        }
        Err(anyhow!(
            "the dump is written without {}, which a dump as SQL does not have; `backup` copies everything",
            self.left_out.join(", ")
        ))
    }
}

/// Writes a dump of all objects, or of the table or view with this number.
pub(super) fn write(
    client: &mut dyn Client,
    out: &mut dyn Write,
    oid: &str,
    extent: Extent,
) -> Result<Dumped> {
    let mut dump = Dump {
        client,
        out,
        oid,
        tables: 0,
        late: Vec::new(),
        parts: None,
    };
    if extent == Extent::Definitions {
        dump.definitions_before()?;
        dump.definitions_after()?;
        return Ok(Dumped {
            tables: dump.tables,
            left_out: Vec::new(),
        });
    }
    // In a transaction of the user a dump is a part of that.
    let is_alone = dump.client.status() == Status::Idle;
    if is_alone {
        dump.ask("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        dump.ask(SETTINGS)?;
    }
    let written = dump.everything();
    let left_out = match oid {
        "" if written.is_ok() => dump.left_out(),
        _ => Ok(Vec::new()),
    };
    if is_alone {
        dump.ask("ROLLBACK")?;
    }
    written?;
    Ok(Dumped {
        tables: dump.tables,
        left_out: left_out?,
    })
}

struct Dump<'a> {
    client: &'a mut dyn Client,
    out: &'a mut dyn Write,
    /// The number of the only table or view to write; empty for all.
    oid: &'a str,
    tables: u64,
    /// Views and what needs them, which come after the rows.
    late: Vec<Object>,
    /// Parts of tables, once they are read.
    parts: Option<Arc<Parts>>,
}

impl Dump<'_> {
    fn everything(&mut self) -> Result<()> {
        writeln!(self.out, "-- A database of Indelible as SQL\n")?;
        writeln!(self.out, "SET client_encoding = 'UTF8';")?;
        writeln!(self.out, "SET standard_conforming_strings = on;")?;
        writeln!(self.out, "SET check_function_bodies = false;\n")?;
        self.definitions_before()?;
        for row in self.ask(&self.tables_query("'r'"))? {
            self.rows_of(&row)?;
        }
        self.definitions_after()?;
        self.sequence_values()
    }

    fn ask(&mut self, text: &str) -> Result<Vec<Vec<String>>> {
        let mut answers = Answers::default();
        match self.client.run(text, &mut answers) {
            Ok(()) => {}
            Err(Error::Statement(report)) => return Err(anyhow!(Failed(*report))),
            Err(error) => return Err(error.into()),
        }
        let rows = answers
            .last()
            .map(|answer| answer.rows.clone())
            .unwrap_or_default();
        let texts =
            |row: Vec<Option<String>>| row.into_iter().map(Option::unwrap_or_default).collect();
        Ok(rows.into_iter().map(texts).collect())
    }

    /// Writes the single text of each row as a statement.
    fn statements(&mut self, query: &str) -> Result<()> {
        for row in self.ask(query)? {
            for statement in row {
                writeln!(self.out, "{};", statement.trim_end_matches(';'))?;
            }
        }
        Ok(())
    }

    /// The condition that keeps the chosen relation.
    fn chosen(&self) -> String {
        match self.oid {
            "" => String::new(),
            oid => format!(" AND c.oid = {oid}"),
        }
    }

    /// Number, schema and name of tables or views.
    fn tables_query(&self, kinds: &str) -> String {
        format!(
            "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ({kinds}) AND {OURS}{} ORDER BY c.oid",
            self.chosen()
        )
    }

    /// Schemas, types, sequences, tables and functions. The views, and what needs them, come after
    /// the rows.
    fn definitions_before(&mut self) -> Result<()> {
        if !self.oid.is_empty() {
            for row in self.ask(&self.tables_query("'r', 'p'"))? {
                if let [oid, schema, name] = row.as_slice() {
                    self.table(oid, schema, name)?;
                }
            }
            return self.partitions();
        }
        self.statements(
            "SELECT 'CREATE EXTENSION IF NOT EXISTS ' || quote_ident(extname) \
             FROM pg_catalog.pg_extension WHERE extname <> 'plpgsql' ORDER BY 1",
        )?;
        self.statements(&format!(
            "SELECT 'CREATE SCHEMA ' || quote_ident(n.nspname) FROM pg_catalog.pg_namespace n \
             WHERE {OURS} AND n.nspname <> 'public' ORDER BY 1"
        ))?;
        let objects = self.objects()?;
        let dependencies = self.dependencies()?;
        let (early, late) = order::in_order(objects, &dependencies);
        for object in early {
            match object.content {
                Content::Statement(text) | Content::View(text) => {
                    writeln!(self.out, "{};", text.trim_end().trim_end_matches(';'))?;
                }
                Content::Table { schema, name } => self.table(&object.oid, &schema, &name)?,
            }
        }
        self.late = late;
        self.statements(&format!(
            "SELECT 'ALTER SEQUENCE ' || quote_ident(n.nspname) || '.' || quote_ident(c.relname) || ' OWNED BY ' || \
             d.refobjid::regclass || '.' || quote_ident(a.attname) FROM pg_catalog.pg_depend d \
             JOIN pg_catalog.pg_class c ON c.oid = d.objid AND c.relkind = 'S' \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
             WHERE d.deptype = 'a' AND d.classid = 1259 AND d.refclassid = 1259 AND {OURS} ORDER BY c.oid"
        ))?;
        self.partitions()
    }

    /// Everything that has an order by what it needs, each kind in the order of its making.
    fn objects(&mut self) -> Result<Vec<Object>> {
        let mut objects = Vec::new();
        for (class, query) in [
            (order::TYPE, order::types_query()),
            (order::CLASS, order::sequences_query()),
            (order::CLASS, self.tables_query("'r', 'p'")),
            (order::FUNCTION, order::functions_query()),
            (order::CLASS, self.views_query()),
        ] {
            let is_view = query.contains("pg_get_viewdef");
            let made = self.ask(&query)?.into_iter().filter_map(|row| {
                let content = match row.as_slice() {
                    [_, text] if is_view => Content::View(text.clone()),
                    [_, text] => Content::Statement(text.clone()),
                    [_, schema, name] => Content::Table {
                        schema: schema.clone(),
                        name: name.clone(),
                    },
                    _ => return None,
                };
                let oid = row.into_iter().next()?;
                Some(Object {
                    class,
                    oid,
                    content,
                })
            });
            objects.extend(made);
        }
        Ok(objects)
    }

    fn dependencies(&mut self) -> Result<Dependencies> {
        let mut dependencies = Dependencies::default();
        for row in self.ask(order::OWNERS)? {
            if let [class, oid, of_class, of] = row.as_slice() {
                dependencies.owner(class, oid, of_class, of);
            }
        }
        for row in self.ask(order::DEPENDENCIES)? {
            if let [class, oid, of_class, of] = row.as_slice() {
                dependencies.add(class, oid, of_class, of);
            }
        }
        Ok(dependencies)
    }

    fn views_query(&self) -> String {
        let chosen = self.chosen();
        format!(
            "SELECT c.oid, CASE c.relkind WHEN 'm' THEN 'CREATE MATERIALIZED VIEW ' ELSE 'CREATE VIEW ' END || \
             quote_ident(n.nspname) || '.' || quote_ident(c.relname) || \
             coalesce(' WITH (' || array_to_string(c.reloptions, ', ') || ')', '') || ' AS ' || \
             rtrim(pg_catalog.pg_get_viewdef(c.oid), ';') || \
             CASE WHEN c.relkind = 'm' AND NOT c.relispopulated THEN ' WITH NO DATA' ELSE '' END \
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('v', 'm') AND {OURS}{chosen} ORDER BY c.oid"
        )
    }

    fn partitions(&mut self) -> Result<()> {
        self.statements(&format!(
            "SELECT 'ALTER TABLE ONLY ' || i.inhparent::regclass || ' ATTACH PARTITION ' || quote_ident(n.nspname) || '.' || \
             quote_ident(c.relname) || ' ' || pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid \
             WHERE c.relispartition AND c.relkind IN ('r', 'p') AND {OURS}{} ORDER BY c.oid",
            self.chosen()
        ))
    }

    fn table(&mut self, oid: &str, schema: &str, name: &str) -> Result<()> {
        self.tables += 1;
        let target = format!("{}.{}", quoted(schema), quoted(name));
        let parts = self.parts()?;
        let (parents, key) = (parts.parents(oid), parts.key(oid));
        let (lines, renames) = (parts.lines(oid), parts.renames(oid));
        let mut end = String::new();
        for (words, close, text) in [("INHERITS (", ")", &parents), ("PARTITION BY ", "", &key)] {
            if !text.is_empty() {
                end = format!("{end} {words}{text}{close}");
            }
        }
        writeln!(
            self.out,
            "CREATE TABLE {target} (\n    {}\n){end};",
            lines.join(",\n    ")
        )?;
        if !parents.is_empty() {
            self.statements(&order::inherited_query(oid, &target))?;
        }
        for statement in renames {
            writeln!(self.out, "{statement};")?;
        }
        Ok(())
    }

    fn parts(&mut self) -> Result<Arc<Parts>> {
        if let Some(parts) = &self.parts {
            return Ok(Arc::clone(parts));
        }
        let chosen = self.chosen();
        let parts = Arc::new(Parts::read(&chosen, &mut |query| self.ask(query))?);
        self.parts = Some(Arc::clone(&parts));
        Ok(parts)
    }

    fn rows_of(&mut self, row: &[String]) -> Result<()> {
        let [oid, schema, name] = row else {
            return Ok(());
        };
        let columns = self.parts()?.filled(oid);
        let list = format!(
            "{}.{} ({})",
            quoted(schema),
            quoted(name),
            columns.join(", ")
        );
        if columns.is_empty() {
            return self.rows_without_columns(list.trim_end_matches(" ()"));
        }
        writeln!(self.out, "\nCOPY {list} FROM stdin;")?;
        let mut sink = CopyOut(self.out);
        match self
            .client
            .run(&format!("COPY {list} TO STDOUT"), &mut sink)
        {
            Ok(()) => {}
            Err(Error::Statement(report)) => return Err(anyhow!(Failed(*report))),
            Err(error) => return Err(error).with_context(|| format!("cannot read table `{name}`")),
        }
        writeln!(self.out, "\\.\n")?;
        Ok(())
    }

    /// Rows that have no columns which statements give values for.
    fn rows_without_columns(&mut self, table: &str) -> Result<()> {
        let rows = self.ask(&format!("SELECT count(*) FROM ONLY {table}"))?;
        let count = rows.concat().concat().parse().unwrap_or(0);
        for _ in 0..count {
            writeln!(self.out, "INSERT INTO {table} DEFAULT VALUES;")?;
        }
        Ok(())
    }

    /// Keys, indexes, foreign keys and views.
    fn definitions_after(&mut self) -> Result<()> {
        // Keys of the partitions are attached below. Checks and foreign keys reach the tables
        // below.
        let constraints = |kinds: &str, chosen: &str| {
            format!(
                "SELECT 'ALTER TABLE ' || CASE WHEN r.contype = 'c' OR r.contype = 'f' AND c.relkind = 'p' THEN '' \
                 ELSE 'ONLY ' END || quote_ident(n.nspname) || '.' || quote_ident(c.relname) || ' ADD CONSTRAINT ' || \
                 quote_ident(r.conname) || ' ' || pg_catalog.pg_get_constraintdef(r.oid) \
                 FROM pg_catalog.pg_constraint r JOIN pg_catalog.pg_class c ON c.oid = r.conrelid \
                 JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE r.contype IN ({kinds}) AND (r.contype <> 'f' OR r.conparentid = 0) \
                 AND (r.contype <> 'c' OR r.conislocal) AND {OURS}{chosen} ORDER BY r.contype, c.oid, r.conname"
            )
        };
        let indexes = |kinds: &str, chosen: &str| {
            format!(
                "SELECT pg_catalog.pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i \
                 JOIN pg_catalog.pg_class c ON c.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                 WHERE c.relkind IN ({kinds}) AND {OURS}{chosen} AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint r \
                 WHERE r.conindid = i.indexrelid AND r.contype IN ('p', 'u', 'x')) ORDER BY i.indexrelid"
            )
        };
        let chosen = self.chosen();
        self.statements(&constraints("'p', 'u'", &chosen))?;
        let unproven = format!("{chosen} AND NOT r.convalidated");
        self.statements(&constraints("'c'", &unproven))?;
        if self.oid.is_empty() {
            self.statements(&format!(
                "SELECT 'ALTER DOMAIN ' || quote_ident(n.nspname) || '.' || quote_ident(t.typname) || \
                 ' ADD CONSTRAINT ' || quote_ident(r.conname) || ' ' || pg_catalog.pg_get_constraintdef(r.oid) \
                 FROM pg_catalog.pg_constraint r JOIN pg_catalog.pg_type t ON t.oid = r.contypid \
                 JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
                 WHERE NOT r.convalidated AND {OURS} ORDER BY n.nspname, t.typname, r.conname"
            ))?;
        }
        self.statements(&indexes("'r', 'p'", &chosen))?;
        self.statements(&format!(
            "SELECT 'ALTER INDEX ' || quote_ident(m.nspname) || '.' || quote_ident(p.relname) || ' ATTACH PARTITION ' || \
             quote_ident(n.nspname) || '.' || quote_ident(o.relname) FROM pg_catalog.pg_inherits i \
             JOIN pg_catalog.pg_class p ON p.oid = i.inhparent AND p.relkind = 'I' \
             JOIN pg_catalog.pg_namespace m ON m.oid = p.relnamespace \
             JOIN pg_catalog.pg_class o ON o.oid = i.inhrelid JOIN pg_catalog.pg_namespace n ON n.oid = o.relnamespace \
             JOIN pg_catalog.pg_index x ON x.indexrelid = o.oid JOIN pg_catalog.pg_class c ON c.oid = x.indrelid \
             WHERE {OURS}{chosen} ORDER BY i.inhparent, i.inhrelid"
        ))?;
        self.statements(&constraints("'f'", &chosen))?;
        if !self.oid.is_empty() {
            for row in self.ask(&self.views_query())? {
                writeln!(self.out, "{};", row[1])?;
            }
        }
        for object in std::mem::take(&mut self.late) {
            if let Content::Statement(text) | Content::View(text) = object.content {
                writeln!(self.out, "{};", text.trim_end().trim_end_matches(';'))?;
            }
        }
        self.statements(&indexes("'m'", &chosen))?;
        self.comments()
    }

    fn comments(&mut self) -> Result<()> {
        let chosen = self.chosen();
        self.statements(&format!(
            "SELECT 'COMMENT ON ' || CASE WHEN d.objsubid > 0 THEN 'COLUMN' WHEN c.relkind = 'v' THEN 'VIEW' \
             WHEN c.relkind = 'm' THEN 'MATERIALIZED VIEW' WHEN c.relkind = 'c' THEN 'TYPE' \
             WHEN c.relkind = 'S' THEN 'SEQUENCE' WHEN c.relkind IN ('i', 'I') THEN 'INDEX' ELSE 'TABLE' END || ' ' || \
             quote_ident(n.nspname) || '.' || quote_ident(c.relname) || coalesce('.' || quote_ident(a.attname), '') || \
             ' IS ' || quote_literal(d.description) FROM pg_catalog.pg_description d \
             JOIN pg_catalog.pg_class c ON c.oid = d.objoid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.objsubid AND d.objsubid > 0 \
             WHERE d.classoid = 1259 AND {OURS}{chosen} ORDER BY n.nspname, c.relname, d.objsubid"
        ))?;
        self.statements(&format!(
            "SELECT 'COMMENT ON CONSTRAINT ' || quote_ident(r.conname) || ' ON ' || quote_ident(n.nspname) || '.' || \
             quote_ident(c.relname) || ' IS ' || quote_literal(d.description) FROM pg_catalog.pg_description d \
             JOIN pg_catalog.pg_constraint r ON r.oid = d.objoid JOIN pg_catalog.pg_class c ON c.oid = r.conrelid \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE d.classoid = 2606 AND {OURS}{chosen} ORDER BY n.nspname, c.relname, r.conname"
        ))?;
        if !self.oid.is_empty() {
            return Ok(());
        }
        self.statements(&format!(
            "SELECT 'COMMENT ON SCHEMA ' || quote_ident(n.nspname) || ' IS ' || quote_literal(d.description) \
             FROM pg_catalog.pg_description d JOIN pg_catalog.pg_namespace n ON n.oid = d.objoid \
             WHERE d.classoid = 2615 AND {OURS} AND d.description <> 'standard public schema' ORDER BY n.nspname"
        ))?;
        self.statements(&format!(
            "SELECT 'COMMENT ON ' || CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END || ' ' || \
             quote_ident(n.nspname) || '.' || quote_ident(t.typname) || ' IS ' || quote_literal(d.description) \
             FROM pg_catalog.pg_description d JOIN pg_catalog.pg_type t ON t.oid = d.objoid \
             JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
             WHERE d.classoid = 1247 AND {OURS} ORDER BY n.nspname, t.typname"
        ))?;
        self.statements(&format!(
            "SELECT 'COMMENT ON CONSTRAINT ' || quote_ident(r.conname) || ' ON DOMAIN ' || \
             quote_ident(n.nspname) || '.' || quote_ident(t.typname) || ' IS ' || quote_literal(d.description) \
             FROM pg_catalog.pg_description d JOIN pg_catalog.pg_constraint r ON r.oid = d.objoid \
             JOIN pg_catalog.pg_type t ON t.oid = r.contypid JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
             WHERE d.classoid = 2606 AND {OURS} ORDER BY n.nspname, t.typname, r.conname"
        ))?;
        self.statements(&format!(
            "SELECT 'COMMENT ON FUNCTION ' || quote_ident(n.nspname) || '.' || quote_ident(p.proname) || '(' || \
             pg_catalog.pg_get_function_identity_arguments(p.oid) || ') IS ' || quote_literal(d.description) \
             FROM pg_catalog.pg_description d JOIN pg_catalog.pg_proc p ON p.oid = d.objoid \
             JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
             WHERE d.classoid = 1255 AND {OURS} ORDER BY n.nspname, p.proname"
        ))
    }

    /// Names and numbers of the kinds of objects that are in the database and not in the dump.
    fn left_out(&mut self) -> Result<Vec<String>> {
        let counted = |name: &str, from: &str| format!("SELECT '{name}', count(*) FROM {from}");
        let of_schema = |name: &str, from: &str, schema: &str, condition: &str| {
            let join = format!("JOIN pg_catalog.pg_namespace n ON n.oid = {schema}");
            counted(
                name,
                &format!("pg_catalog.{from} {join} WHERE {OURS} AND {condition}"),
            )
        };
        let kinds = [
            counted("roles", "pg_catalog.pg_roles WHERE oid >= 16384"),
            counted("settings of roles", "pg_catalog.pg_db_role_setting"),
            counted("default privileges", "pg_catalog.pg_default_acl"),
            of_schema(
                "relations with privileges",
                "pg_class c",
                "c.relnamespace",
                "c.relacl IS NOT NULL",
            ),
            of_schema(
                "functions with privileges",
                "pg_proc p",
                "p.pronamespace",
                "p.proacl IS NOT NULL",
            ),
            of_schema(
                "functions in other languages",
                "pg_proc p",
                "p.pronamespace",
                "p.prolang <> 14",
            ),
            of_schema(
                "relations of other kinds",
                "pg_class c",
                "c.relnamespace",
                "c.relkind NOT IN ('r', 'p', 'v', 'm', 'S', 'i', 'I', 'c')",
            ),
            of_schema(
                "types of other kinds",
                "pg_type t",
                "t.typnamespace",
                "t.typtype NOT IN ('b', 'c', 'd', 'e')",
            ),
        ];
        let rows = self.ask(&kinds.join(" UNION ALL "))?;
        let is_there = |row: &&Vec<String>| row.get(1).is_some_and(|count| count != "0");
        let found = rows.iter().filter(is_there);
        Ok(found.map(|row| format!("{} {}", row[1], row[0])).collect())
    }

    fn sequence_values(&mut self) -> Result<()> {
        if !self.oid.is_empty() {
            return Ok(());
        }
        let sequences = self.ask(&format!(
            "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'S' AND {OURS} ORDER BY c.oid"
        ))?;
        for name in sequences.concat() {
            for row in self.ask(&format!("SELECT last_value, is_called FROM {name}"))? {
                let is_called = row[1] == "t";
                writeln!(
                    self.out,
                    "SELECT pg_catalog.setval({}, {}, {is_called});",
                    literal(&name),
                    row[0]
                )?;
            }
        }
        Ok(())
    }
}

/// Passes the data of COPY on.
struct CopyOut<'a>(&'a mut dyn Write);

impl Sink for CopyOut<'_> {
    fn copy_out(&mut self, data: &[u8]) -> io::Result<()> {
        // The interface for Rust takes such texts.
        if data.contains(&0) {
            let problem = "a text has a zero byte, which texts of SQL cannot have";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        self.0.write_all(data)
    }
}

/// A text as a literal.
pub(crate) fn literal(text: &str) -> String {
    let quotes = text.replace('\'', "''");
    if text.contains('\\') {
        return format!("E'{}'", quotes.replace('\\', "\\\\"));
    }
    format!("'{quotes}'")
}

/// A name that may have a schema in front of it.
pub(super) fn quoted_path(path: &str) -> String {
    path.split('.').map(quoted).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(quoted_path("public.orders_2"), "public.orders_2");
        assert_eq!(quoted_path("Order"), "\"Order\"");
        assert_eq!(quoted("select"), "\"select\"");
        assert_eq!(
            quoted_path("localtime.variadic"),
            "\"localtime\".\"variadic\""
        );
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("^(a\\.b)$"), "E'^(a\\\\.b)$'");
    }
}
