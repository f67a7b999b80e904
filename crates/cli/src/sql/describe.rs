//! Commands that list objects: `\d` and its kin, and `.tables`.
//!
//! They ask the catalogue with ordinary statements, as PostgreSQL's shell does, so they show the
//! same of a database of ours and of a server. A pattern has `*` and `?`, and a dot between schema
//! and name; letters in double quotes keep their case.

use super::dump::literal;
use super::shell::{Outcome, Shell};
use crate::output::Listing;
use crate::printable::printable;
use anyhow::Result;
use client::Answer;
use std::fmt::Write as _;
use std::io::Write as _;

/// The kinds of relations by the letter of their command, with their letters in the catalogue.
const RELATIONS: &[(char, &str)] = &[
    ('t', "'r','p'"),
    ('i', "'i','I'"),
    ('v', "'v'"),
    ('s', "'S'"),
    ('m', "'m'"),
];

/// Runs `\d...` or `\l`; `None` if there is no such command.
pub(super) fn describe(shell: &mut Shell, command: &str, pattern: &str) -> Result<Option<Outcome>> {
    let letters = command.trim_end_matches(['+', 'S']);
    let is_long = command.contains('+');
    let kinds: String = letters.chars().skip(1).collect();
    let of = |letter: char| {
        RELATIONS
            .iter()
            .find(|(name, _)| *name == letter)
            .map(|(_, kinds)| *kinds)
    };
    let text = match letters {
        "d" if !pattern.is_empty() => return relations(shell, pattern, is_long).map(Some),
        "d" => relation_list("'r','p','v','m','S'", pattern, is_long),
        "l" | "dn" | "du" | "dg" | "df" | "dT" => object_list(letters, pattern),
        _ if letters.starts_with('d') && kinds.chars().all(|letter| of(letter).is_some()) => {
            let kinds: Vec<&str> = kinds.chars().filter_map(of).collect();
            relation_list(&kinds.join(","), pattern, is_long)
        }
        _ => return Ok(None),
    };
    let Some(answers) = shell.ask(&text)? else {
        return Ok(Some(Outcome::Failed));
    };
    let is_relation = letters == "d"
        || RELATIONS
            .iter()
            .any(|(letter, _)| letters[1..].starts_with(*letter));
    if is_relation && answers.last().is_none_or(|answer| answer.rows.is_empty()) {
        crate::streams::tell("Did not find any relations.");
        return Ok(Some(Outcome::Done));
    }
    shell.show(&answers)?;
    Ok(Some(Outcome::Done))
}

fn relation_list(kinds: &str, pattern: &str, is_long: bool) -> String {
    let table = if kinds.contains('i') {
        ", (SELECT x.indrelid::pg_catalog.regclass FROM pg_catalog.pg_index x WHERE x.indexrelid = c.oid) AS \"Table\""
    } else {
        ""
    };
    let description = if is_long {
        ", coalesce(pg_catalog.obj_description(c.oid, 'pg_class'), '') AS \"Description\""
    } else {
        ""
    };
    let mut text = format!(
        "SELECT n.nspname AS \"Schema\", c.relname AS \"Name\", CASE c.relkind \
         WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view' \
         WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' END AS \"Type\", \
         pg_catalog.pg_get_userbyid(c.relowner) AS \"Owner\"{table}{description} \
         FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ({kinds})"
    );
    text.push_str(&condition(
        pattern,
        "n.nspname",
        "c.relname",
        "pg_catalog.pg_table_is_visible(c.oid)",
    ));
    if pattern.is_empty() {
        text.push_str(" AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast' AND n.nspname <> 'information_schema'");
    }
    text + " ORDER BY 1, 2"
}

fn object_list(command: &str, pattern: &str) -> String {
    let (text, schema, name, visible) = match command {
        "l" => (
            "SELECT d.datname AS \"Name\", pg_catalog.pg_get_userbyid(d.datdba) AS \"Owner\", \
             pg_catalog.pg_encoding_to_char(d.encoding) AS \"Encoding\", d.datcollate AS \"Collate\" \
             FROM pg_catalog.pg_database d WHERE true",
            "",
            "d.datname",
            "true",
        ),
        "dn" => (
            "SELECT n.nspname AS \"Name\", pg_catalog.pg_get_userbyid(n.nspowner) AS \"Owner\" \
             FROM pg_catalog.pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'indelible')",
            "",
            "n.nspname",
            "true",
        ),
        "df" => (
            "SELECT n.nspname AS \"Schema\", p.proname AS \"Name\", \
             pg_catalog.pg_get_function_result(p.oid) AS \"Result\", \
             pg_catalog.pg_get_function_arguments(p.oid) AS \"Arguments\" \
             FROM pg_catalog.pg_proc p LEFT JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace WHERE true",
            "n.nspname",
            "p.proname",
            "pg_catalog.pg_function_is_visible(p.oid)",
        ),
        "dT" => (
            "SELECT n.nspname AS \"Schema\", pg_catalog.format_type(t.oid, NULL) AS \"Name\", \
             CASE t.typtype WHEN 'e' THEN 'enum' WHEN 'd' THEN 'domain' WHEN 'c' THEN 'composite' ELSE 'base' END AS \"Kind\" \
             FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
             WHERE (t.typtype IN ('e', 'd', 'b') OR t.typtype = 'c' AND \
             (SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid)) AND t.typname !~ '^_'",
            "n.nspname",
            "t.typname",
            "pg_catalog.pg_type_is_visible(t.oid)",
        ),
        _ => (
            "SELECT r.rolname AS \"Role name\", r.rolsuper AS \"Superuser\", r.rolcreaterole AS \"Create role\", \
             r.rolcanlogin AS \"Login\" FROM pg_catalog.pg_roles r WHERE r.rolname !~ '^pg_'",
            "",
            "r.rolname",
            "true",
        ),
    };
    let mut text = text.to_owned() + &condition(pattern, schema, name, visible);
    if pattern.is_empty() && !schema.is_empty() {
        let _ = write!(
            text,
            " AND {schema} <> 'pg_catalog' AND {schema} <> 'information_schema'"
        );
    }
    text + " ORDER BY 1, 2"
}

/// The condition of a pattern, which begins with `AND`.
fn condition(pattern: &str, schema: &str, name: &str, visible: &str) -> String {
    if pattern.is_empty() {
        return format!(" AND {visible}");
    }
    let (of_schema, of_name) = split_pattern(pattern);
    let like =
        |column: &str, part: &str| format!(" AND {column} ~ {}", literal(&format!("^({part})$")));
    match of_schema {
        Some(part) if !schema.is_empty() => like(schema, &part) + &like(name, &of_name),
        _ => format!("{} AND {visible}", like(name, &of_name)),
    }
}

/// The first word of the arguments of a command, with the quotes of its names.
pub(super) fn first_pattern(arguments: &str) -> &str {
    let mut is_quoted = false;
    let end = arguments.find(|letter: char| {
        is_quoted ^= letter == '"';
        !is_quoted && (letter.is_whitespace() || letter == ';')
    });
    &arguments[..end.unwrap_or(arguments.len())]
}

/// The regular expressions of schema and name.
fn split_pattern(pattern: &str) -> (Option<String>, String) {
    let (mut schema, mut part, mut is_quoted) = (None, String::new(), false);
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.next_if_eq(&'"').is_some() => part.push('"'),
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => schema = Some(std::mem::take(&mut part)),
            '*' if !is_quoted => part.push_str(".*"),
            '?' if !is_quoted => part.push('.'),
            _ if letter.is_alphanumeric() || letter == '_' => {
                let lower = letter.to_lowercase();
                if is_quoted {
                    part.push(letter);
                } else {
                    part.extend(lower);
                }
            }
            _ => part.extend(['\\', letter]),
        }
    }
    (schema, part)
}

/// `\d NAME`: each relation that the pattern names.
fn relations(shell: &mut Shell, pattern: &str, is_long: bool) -> Result<Outcome> {
    let matching = condition(
        pattern,
        "n.nspname",
        "c.relname",
        "pg_catalog.pg_table_is_visible(c.oid)",
    );
    let found = shell.ask(&format!(
        "SELECT c.oid, n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c \
         LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE true{matching} ORDER BY 2, 3"
    ))?;
    let Some(found) = found else {
        return Ok(Outcome::Failed);
    };
    let rows = found
        .last()
        .map(|answer| answer.rows.clone())
        .unwrap_or_default();
    if rows.is_empty() {
        return Ok(shell.refuse(
            "",
            &format!("Did not find any relation named \"{pattern}\"."),
        ));
    }
    let mut outcome = Outcome::Done;
    for row in rows {
        let part = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
        outcome = outcome.and(relation(
            shell,
            &part(0),
            &part(1),
            &part(2),
            &part(3),
            is_long,
        )?);
    }
    Ok(outcome)
}

fn relation(
    shell: &mut Shell,
    oid: &str,
    schema: &str,
    name: &str,
    kind: &str,
    is_long: bool,
) -> Result<Outcome> {
    let Some(columns) = shell.ask(&columns_of(oid, is_long))? else {
        return Ok(Outcome::Failed);
    };
    let kind_name = match kind {
        "v" => "View",
        "i" | "I" => "Index",
        "S" => "Sequence",
        "m" => "Materialized view",
        _ => "Table",
    };
    let mut text = format!("{kind_name} \"{schema}.{name}\"\n");
    let titles = ["Column", "Type", "Nullable", "Default", "Description"];
    let shown = if is_long { 5 } else { 4 };
    let mut listing = Listing::new(titles.into_iter().take(shown));
    for row in columns
        .last()
        .map(|answer| answer.rows.as_slice())
        .unwrap_or_default()
    {
        listing.push(
            row.iter()
                .map(|cell| cell.clone().unwrap_or_default().into())
                .collect(),
        );
    }
    let _ = writeln!(text, "{}", listing.text());
    let parts = match kind {
        "r" | "p" => parts_of(oid),
        "m" => parts_of(oid).into_iter().take(1).collect(),
        "i" | "I" => vec![(
            "Definition:",
            format!("SELECT pg_catalog.pg_get_indexdef({oid})"),
        )],
        "S" => sequence_of(oid),
        _ => Vec::new(),
    };
    for (title, query) in parts {
        let Some(lines) = shell.ask(&query)? else {
            return Ok(Outcome::Failed);
        };
        push_lines(&mut text, title, lines.last());
    }
    if kind == "v" && is_long {
        let query = format!("SELECT pg_catalog.pg_get_viewdef({oid}, true)");
        let Some(lines) = shell.ask(&query)? else {
            return Ok(Outcome::Failed);
        };
        push_lines(&mut text, "View definition:", lines.last());
    }
    writeln!(shell.out, "{text}")?;
    shell.out.flush()?;
    Ok(Outcome::Done)
}

fn push_lines(text: &mut String, title: &str, answer: Option<&Answer>) {
    let rows = answer
        .map(|answer| answer.rows.as_slice())
        .unwrap_or_default();
    if !rows.is_empty() {
        let _ = writeln!(text, "{title}");
    }
    for row in rows {
        for line in row.iter().flatten().flat_map(|line| line.lines()) {
            let _ = writeln!(text, "    {}", printable(line));
        }
    }
}

fn columns_of(oid: &str, is_long: bool) -> String {
    let description = if is_long {
        ", pg_catalog.col_description(a.attrelid, a.attnum)"
    } else {
        ""
    };
    format!(
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), \
         CASE WHEN a.attnotnull THEN 'not null' ELSE '' END, \
         CASE WHEN a.attidentity = 'a' THEN 'generated always as identity' \
         WHEN a.attidentity = 'd' THEN 'generated by default as identity' \
         WHEN a.attgenerated = 's' THEN 'generated always as (' || pg_catalog.pg_get_expr(d.adbin, d.adrelid) || ') stored' \
         ELSE pg_catalog.pg_get_expr(d.adbin, d.adrelid) END{description} \
         FROM pg_catalog.pg_attribute a \
         LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = {oid} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    )
}

/// A list below the columns of a relation: its title, and a query of one column.
type Part = (&'static str, String);

/// The options of a sequence, and its column.
fn sequence_of(oid: &str) -> Vec<Part> {
    let options = format!(
        "SELECT pg_catalog.format_type(s.seqtypid, NULL) || ', start ' || s.seqstart || ', increment ' || s.seqincrement || \
         ', minimum ' || s.seqmin || ', maximum ' || s.seqmax || CASE WHEN s.seqcycle THEN ', cycles' ELSE '' END || \
         ', cache ' || s.seqcache FROM pg_catalog.pg_sequence s WHERE s.seqrelid = {oid}"
    );
    let owner = format!(
        "SELECT d.refobjid::pg_catalog.regclass || '.' || a.attname FROM pg_catalog.pg_depend d \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
         WHERE d.classid = 1259 AND d.objid = {oid} AND d.refclassid = 1259 AND d.deptype IN ('a', 'i')"
    );
    vec![("Options:", options), ("Owned by:", owner)]
}

/// The families of a table: its key of partitions, and the tables above and below it.
fn family_of(oid: &str) -> [Part; 5] {
    let related = |shown: &str, own: &str, condition: &str| {
        format!(
            "SELECT i.{shown}::pg_catalog.regclass || coalesce(' ' || pg_catalog.pg_get_expr(c.relpartbound, c.oid), '') \
             FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid \
             WHERE i.{own} = {oid} AND {condition} ORDER BY i.inhseqno, 1"
        )
    };
    let key = format!(
        "SELECT pg_catalog.pg_get_partkeydef(c.oid) FROM pg_catalog.pg_class c WHERE c.oid = {oid} AND c.relkind = 'p'"
    );
    [
        ("Partition key:", key),
        (
            "Partition of:",
            related("inhparent", "inhrelid", "c.relispartition"),
        ),
        (
            "Inherits:",
            related("inhparent", "inhrelid", "NOT c.relispartition"),
        ),
        (
            "Partitions:",
            related("inhrelid", "inhparent", "c.relispartition"),
        ),
        (
            "Child tables:",
            related("inhrelid", "inhparent", "NOT c.relispartition"),
        ),
    ]
}

/// The lists below the columns of a table.
fn parts_of(oid: &str) -> Vec<Part> {
    let constraints = |column: &str, kind: char, before: &str| {
        format!(
            "SELECT {before} '\"' || r.conname || '\" ' || pg_catalog.pg_get_constraintdef(r.oid, true) \
             FROM pg_catalog.pg_constraint r WHERE r.{column} = {oid} AND r.contype = '{kind}' ORDER BY r.conname"
        )
    };
    let indexes = format!(
        "SELECT '\"' || c.relname || '\" ' || CASE WHEN i.indisprimary THEN 'PRIMARY KEY, ' \
         WHEN r.contype = 'u' THEN 'UNIQUE CONSTRAINT, ' WHEN i.indisunique THEN 'UNIQUE, ' ELSE '' END \
         || substring(pg_catalog.pg_get_indexdef(i.indexrelid) FROM ' USING (.*)$') \
         || CASE WHEN r.condeferrable THEN ' DEFERRABLE' ELSE '' END \
         || CASE WHEN r.condeferred THEN ' INITIALLY DEFERRED' ELSE '' END \
         FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
         LEFT JOIN pg_catalog.pg_constraint r ON r.conindid = i.indexrelid AND r.contype IN ('p', 'u') \
         WHERE i.indrelid = {oid} ORDER BY i.indisprimary DESC, c.relname"
    );
    let own = [
        ("Indexes:", indexes),
        ("Check constraints:", constraints("conrelid", 'c', "")),
        ("Foreign-key constraints:", constraints("conrelid", 'f', "")),
        (
            "Referenced by:",
            constraints(
                "confrelid",
                'f',
                "'TABLE ' || r.conrelid::pg_catalog.regclass || ' CONSTRAINT ' ||",
            ),
        ),
    ];
    own.into_iter().chain(family_of(oid)).collect()
}

/// `.tables`: names only.
pub(super) fn names(shell: &mut Shell, pattern: &str) -> Result<Outcome> {
    let Some(answers) = shell.ask(&relation_list("'r','p','v'", pattern, false))? else {
        return Ok(Outcome::Failed);
    };
    for row in answers
        .last()
        .map(|answer| answer.rows.as_slice())
        .unwrap_or_default()
    {
        let name = row.get(1).cloned().flatten().unwrap_or_default();
        writeln!(shell.out, "{}", printable(&name))?;
    }
    shell.out.flush()?;
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_regular_expression_of_names() {
        for (pattern, schema, name) in [
            ("Or*", None, "or.*"),
            ("s.t?", Some("s"), "t."),
            ("\"My.Table\"", None, "My\\.Table"),
            ("a+b", None, "a\\+b"),
            (first_pattern("\"A \"\"b\";"), None, "A\\ \"b"),
            (first_pattern("t; more"), None, "t"),
        ] {
            assert_eq!(
                split_pattern(pattern),
                (schema.map(str::to_owned), name.to_owned())
            );
        }
    }
}
