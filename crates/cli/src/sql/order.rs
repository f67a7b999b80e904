//! The order of objects in a dump: each after those that it needs.
//!
//! The catalogue says what depends on what (`pg_depend`). Parts of an object, such as defaults and
//! checks, count as the object itself, and arrays and rows as their elements and tables. Objects
//! that need each other stay in the order of their making.

use super::dump::OURS;
use std::collections::{HashMap, HashSet};

/// Numbers of the catalogue's relations of types, relations and functions.
pub(super) const TYPE: &str = "1247";
pub(super) const CLASS: &str = "1259";
pub(super) const FUNCTION: &str = "1255";

/// Parts of objects, with the objects: defaults, checks, queries of views, types of rows, arrays.
pub(super) const OWNERS: &str = "\
    SELECT 2604, d.oid, 1259, d.adrelid FROM pg_catalog.pg_attrdef d \
    UNION ALL SELECT 2606, r.oid, CASE WHEN r.contypid <> 0 THEN 1247 ELSE 1259 END, \
    CASE WHEN r.contypid <> 0 THEN r.contypid ELSE r.conrelid END \
    FROM pg_catalog.pg_constraint r WHERE r.contype = 'c' AND r.convalidated \
    UNION ALL SELECT 2618, w.oid, 1259, w.ev_class FROM pg_catalog.pg_rewrite w \
    UNION ALL SELECT 1247, t.oid, 1259, t.typrelid FROM pg_catalog.pg_type t \
    JOIN pg_catalog.pg_class c ON c.oid = t.typrelid WHERE c.relkind <> 'c' AND t.oid >= 16384 \
    UNION ALL SELECT 1259, c.oid, 1247, c.reltype FROM pg_catalog.pg_class c WHERE c.relkind = 'c' \
    UNION ALL SELECT 1247, t.oid, 1247, t.typelem FROM pg_catalog.pg_type t WHERE t.typelem <> 0 AND t.oid >= 16384";

/// Objects, or parts of them, and those that they need. A sequence that goes with a column does not
/// need it before.
pub(super) const DEPENDENCIES: &str = "\
    SELECT d.classid, d.objid, d.refclassid, d.refobjid FROM pg_catalog.pg_depend d \
    WHERE d.refclassid IN (1247, 1255, 1259) AND d.refobjid >= 16384 AND d.deptype IN ('n', 'a') \
    AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE d.classid = 1259 AND c.oid = d.objid AND c.relkind = 'S') \
    UNION ALL SELECT 1259, i.inhrelid, 1259, i.inhparent FROM pg_catalog.pg_inherits i";

/// An object to write.
pub(super) struct Object {
    /// The catalogue's relation that it is in, and its number there.
    pub(super) class: &'static str,
    pub(super) oid: String,
    pub(super) content: Content,
}

/// The text of an object, or the name of a table, whose text needs more questions.
pub(super) enum Content {
    Statement(String),
    View(String),
    Table { schema: String, name: String },
}

type Key = (String, String);

/// Dependencies between objects.
#[derive(Default)]
pub(super) struct Dependencies {
    owners: HashMap<Key, Key>,
    needs: HashMap<Key, Vec<Key>>,
}

impl Dependencies {
    /// Notes a part of an object.
    pub(super) fn owner(&mut self, class: &str, oid: &str, of_class: &str, of: &str) {
        self.owners.insert(key(class, oid), key(of_class, of));
    }

    /// Notes that an object, or a part, needs another one. All parts are known.
    pub(super) fn add(&mut self, class: &str, oid: &str, of_class: &str, of: &str) {
        let (from, to) = (self.whole(class, oid), self.whole(of_class, of));
        if from != to {
            self.needs.entry(from).or_default().push(to);
        }
    }

    fn whole(&self, class: &str, oid: &str) -> Key {
        let mut found = key(class, oid);
        // An array of rows is two steps away from its table.
        for _ in 0..3 {
            match self.owners.get(&found) {
                Some(owner) => found.clone_from(owner),
                None => break,
            }
        }
        found
    }
}

fn key(class: &str, oid: &str) -> Key {
    (class.to_owned(), oid.to_owned())
}

/// The objects that come before the rows of tables, and those that come after them: views, and
/// whatever needs one and is needed by no table.
pub(super) fn in_order(
    objects: Vec<Object>,
    dependencies: &Dependencies,
) -> (Vec<Object>, Vec<Object>) {
    let places = objects.iter().enumerate();
    let places: HashMap<Key, usize> = places
        .map(|(at, object)| (key(object.class, &object.oid), at))
        .collect();
    let names: HashMap<String, usize> = objects
        .iter()
        .enumerate()
        .filter(|(_, object)| object.class != TYPE)
        .filter_map(|(at, object)| Some((name_of(&object.content)?, at)))
        .collect();
    let needs: Vec<Vec<usize>> = objects
        .iter()
        .map(|object| {
            let needs = dependencies.needs.get(&key(object.class, &object.oid));
            let needs = needs.into_iter().flatten();
            let mut needs: Vec<usize> = needs.filter_map(|key| places.get(key).copied()).collect();
            needs.extend(named_by(object, &names));
            needs.sort_unstable();
            needs
        })
        .collect();
    let is = |at: usize, wanted: fn(&Content) -> bool| wanted(&objects[at].content);
    let (mut order, mut seen) = (Vec::new(), HashSet::new());
    // Those of the tables first, then the others without views.
    let mut early = HashSet::new();
    for at in 0..objects.len() {
        let mut needed = Vec::new();
        visit(at, &needs, &mut HashSet::new(), &mut needed);
        let has_view = needed
            .iter()
            .any(|at| is(*at, |content| matches!(content, Content::View(_))));
        if !has_view || is(at, |content| matches!(content, Content::Table { .. })) {
            early.extend(needed);
        }
    }
    for at in 0..objects.len() {
        visit(at, &needs, &mut seen, &mut order);
    }
    let mut objects: Vec<Option<Object>> = objects.into_iter().map(Some).collect();
    let (before, after): (Vec<usize>, Vec<usize>) =
        order.into_iter().partition(|at| early.contains(at));
    let mut take = |places: Vec<usize>| {
        let taken = places.into_iter().filter_map(|at| objects[at].take());
        taken.collect::<Vec<_>>()
    };
    (take(before), take(after))
}

/// Objects that the body of a function may name. The catalogue does not keep what bodies need.
fn named_by(object: &Object, names: &HashMap<String, usize>) -> Vec<usize> {
    let (FUNCTION, Content::Statement(text)) = (object.class, &object.content) else {
        return Vec::new();
    };
    let own = name_of(&object.content);
    let body = text.split_once("AS $").map_or("", |(_, body)| body);
    let words = body.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let words = words.filter(|word| own.as_deref() != Some(*word));
    words.filter_map(|word| names.get(word).copied()).collect()
}

/// The name of an object in the statement that makes it.
fn name_of(content: &Content) -> Option<String> {
    let text = match content {
        Content::Table { name, .. } => return Some(name.clone()),
        Content::Statement(text) | Content::View(text) => text,
    };
    let end = text.find(['(', '\n']).unwrap_or(text.len());
    let path = text[..end]
        .split_whitespace()
        .find(|word| word.contains('.'))?;
    let name = path.rsplit_once('.')?.1;
    Some(name.trim_matches('"').to_owned())
}

/// Visits an object after those that it needs.
fn visit(first: usize, needs: &[Vec<usize>], seen: &mut HashSet<usize>, order: &mut Vec<usize>) {
    // Chains of views may be long, so what is under way is on a stack of its own.
    let mut open = vec![(first, 0)];
    if !seen.insert(first) {
        return;
    }
    while let Some((at, next)) = open.last_mut() {
        if let Some(needed) = needs[*at].get(*next) {
            *next += 1;
            if seen.insert(*needed) {
                open.push((*needed, 0));
            }
        } else {
            order.push(*at);
            open.pop();
        }
    }
}

/// Sequences but for those of identity columns, which come with their tables.
pub(super) fn sequences_query() -> String {
    format!(
        "SELECT c.oid, 'CREATE SEQUENCE ' || quote_ident(n.nspname) || '.' || quote_ident(c.relname) || \
         ' AS ' || pg_catalog.format_type(s.seqtypid, NULL) || {SEQUENCE} \
         FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE {OURS} AND NOT EXISTS \
         (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i') ORDER BY c.oid"
    )
}

/// The options of a sequence.
const SEQUENCE: &str = "' INCREMENT BY ' || s.seqincrement || \
    ' MINVALUE ' || s.seqmin || ' MAXVALUE ' || s.seqmax || ' START WITH ' || s.seqstart || \
    ' CACHE ' || s.seqcache || CASE WHEN s.seqcycle THEN ' CYCLE' ELSE '' END";

/// The options of the sequence of an identity column `a`.
pub(super) fn identity_query() -> String {
    format!(
        "SELECT ltrim({SEQUENCE}) \
         FROM {IDENTITY} AND e.refobjid = a.attrelid AND e.refobjsubid = a.attnum"
    )
}

/// Dependencies `e` of sequences `c` on identity columns `a`, with options `s` and schemas `n`.
const IDENTITY: &str = "pg_catalog.pg_depend e JOIN pg_catalog.pg_sequence s ON s.seqrelid = e.objid \
    JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE e.deptype = 'i' AND e.classid = 1259";

/// Tables, and statements that give other names to the sequences of their identity columns. A new
/// one has the names of its table and column.
pub(super) fn renames_query(chosen: &str) -> String {
    let chosen = chosen.replace("c.oid", "e.refobjid");
    let sequences = IDENTITY.replace(
        " WHERE ",
        " JOIN pg_catalog.pg_attribute a ON a.attrelid = e.refobjid AND a.attnum = e.refobjsubid \
         JOIN pg_catalog.pg_class t ON t.oid = e.refobjid WHERE ",
    );
    format!(
        "SELECT q.oid, 'ALTER SEQUENCE ' || quote_ident(q.nspname) || '.' || quote_ident(q.usual) || ' RENAME TO ' || \
         quote_ident(q.relname) FROM (SELECT t.oid, n.nspname, c.relname, t.relname || '_' || a.attname || '_seq' AS usual \
         FROM {sequences}{chosen}) q WHERE q.relname <> q.usual AND octet_length(q.usual) < 64"
    )
}

/// Defaults and NOT NULL of the columns that a table inherits, if its own differ from those above.
pub(super) fn inherited_query(table: &str, target: &str) -> String {
    let target = super::dump::literal(target);
    let value = |of: &str| format!("pg_catalog.pg_get_expr({of}.adbin, {of}.adrelid)");
    let (own, above) = (value("d"), value("e"));
    format!(
        "WITH columns AS (SELECT a.attname, a.attnum, a.attnotnull, a.attgenerated, {own} AS own, \
         (SELECT max({above}) FROM {ABOVE}) AS above, (SELECT bool_or(b.attnotnull) FROM {ABOVE}) AS is_full \
         FROM pg_catalog.pg_attribute a \
         LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE a.attrelid = {table} AND a.attnum > 0 AND NOT a.attisdropped AND NOT a.attislocal) \
         SELECT 'ALTER TABLE ONLY ' || {target} || ' ALTER COLUMN ' || quote_ident(attname) || change \
         FROM (SELECT attnum, attname, coalesce(' SET DEFAULT ' || own, ' DROP DEFAULT') AS change FROM columns \
         WHERE attgenerated = '' AND own IS DISTINCT FROM above UNION ALL SELECT attnum, attname, ' SET NOT NULL' \
         FROM columns WHERE attnotnull AND NOT is_full) changes ORDER BY attnum, change"
    )
}

/// Columns `b`, with defaults `e`, of the tables that a column `a` comes from.
const ABOVE: &str = "pg_catalog.pg_inherits i JOIN pg_catalog.pg_attribute b ON b.attrelid = i.inhparent \
    LEFT JOIN pg_catalog.pg_attrdef e ON e.adrelid = b.attrelid AND e.adnum = b.attnum \
    WHERE i.inhrelid = a.attrelid AND b.attname = a.attname";

pub(super) fn functions_query() -> String {
    format!(
        "SELECT p.oid, pg_catalog.pg_get_functiondef(p.oid) \
         FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
         WHERE p.prolang = 14 AND {OURS} ORDER BY p.oid"
    )
}

/// Enums, domains and types of fields, in the order of their making.
pub(super) fn types_query() -> String {
    let types = "pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace";
    let name = "quote_ident(n.nspname) || '.' || quote_ident(t.typname)";
    format!(
        "SELECT q.number, q.definition FROM (\
         SELECT t.oid AS number, 'CREATE TYPE ' || {name} || ' AS ENUM (' || \
         (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder) \
         FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid) || ')' AS definition \
         FROM {types} WHERE t.typtype = 'e' AND {OURS} \
         UNION ALL SELECT t.oid, 'CREATE DOMAIN ' || {name} || ' AS ' || \
         pg_catalog.format_type(t.typbasetype, t.typtypmod) || \
         coalesce(' DEFAULT ' || t.typdefault, '') || CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END || \
         coalesce((SELECT string_agg(' CONSTRAINT ' || quote_ident(r.conname) || ' ' || pg_catalog.pg_get_constraintdef(r.oid), '') \
         FROM pg_catalog.pg_constraint r WHERE r.contypid = t.oid AND r.convalidated), '') \
         FROM {types} WHERE t.typtype = 'd' AND {OURS} \
         UNION ALL SELECT t.oid, 'CREATE TYPE ' || {name} || ' AS (' || \
         coalesce((SELECT string_agg(quote_ident(a.attname) || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum) \
         FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped), '') || ')' \
         FROM {types} JOIN pg_catalog.pg_class k ON k.oid = t.typrelid WHERE k.relkind = 'c' AND t.typtype = 'c' AND {OURS}\
         ) q ORDER BY q.number"
    )
}
