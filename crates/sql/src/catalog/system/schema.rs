//! Schemas, relations, their columns and sequences, and comments.
//!
//! Relations of the system are rows of `pg_class` and `pg_attribute` like all others, and so are
//! the tables of the typed interface.

use super::constraint::key_numbers;
use super::depend::EXTENSION;
use super::rows::{
    AUTHID, CLASS, CONSTRAINT, DATABASES, Maker, NAMESPACE, PROC, Rows, Sources, TYPE, array,
    default_oid, domain_check_oid, flag, small, text, vector,
};
use crate::catalog::{
    Body, Column, DATABASE, DATABASE_OWNER_NAME, Index, Object, Oid, Origin, PUBLIC,
    PartitionBound, Rule, TableBody, Typed, ViewBody, typed_table,
};
use crate::error::Result;
use crate::state::{Definitions, distinct_names};
use crate::types::{Datum, Kind, Type};
use sql_bind::parts_of;
use sql_bind::system::{Relation, storage_of};
use std::collections::HashSet;
use std::sync::Arc;

pub(super) const MAKERS: &[Maker] = &[
    ("pg_namespace", namespaces),
    ("pg_class", classes),
    ("pg_attribute", attributes),
    ("pg_attrdef", defaults),
    ("pg_init_privs", first_privileges),
    ("pg_sequence", sequences),
    ("pg_description", descriptions),
    ("pg_shdescription", shared_descriptions),
    ("pg_rewrite", rules),
    ("pg_inherits", heirs),
    ("pg_partitioned_table", partitioned),
];

/// The access method of tables, `heap`.
const HEAP: Oid = 2;
/// The access method of indexes, `btree`.
const BTREE: Oid = 403;

impl Sources<'_> {
    /// The tables that foreign keys refer to.
    fn parents(&self) -> HashSet<Oid> {
        let objects = self.names.catalog.objects();
        let constraints = objects.flat_map(|object| match &object.body {
            Body::Table(table) => table.constraints.as_slice(),
            _ => &[],
        });
        let parents = constraints.filter_map(|constraint| match &constraint.rule {
            Rule::Foreign(foreign) => Some(foreign.parent),
            _ => None,
        });
        parents.collect()
    }

    /// The owner of an object.
    pub(super) fn owner(&self, object: &Object) -> Datum {
        Datum::Oid(self.names.catalog.owner(object.oid))
    }

    /// The list of access of an object; NULL if nothing was granted.
    pub(super) fn access_list(&self, object: Oid) -> Datum {
        let entries = self.names.catalog.access_list(object);
        entries.map_or(Datum::Null, |entries| {
            array(Kind::Text, entries.into_iter().map(Datum::text))
        })
    }

    /// Texts of definitions, with all brackets.
    pub(super) fn definitions(&self) -> Definitions<'_> {
        Definitions {
            names: self.names,
            database: self.session.sql.database(),
            context: self.context,
            pretty: false,
        }
    }

    /// The objects of the catalogue, then the tables of the typed interface; or the one that rows
    /// are wanted about.
    pub(super) fn objects(&self) -> impl Iterator<Item = Arc<Object>> {
        if let Some(only) = self.only {
            let only: Vec<_> = self
                .names
                .catalog
                .object(only)
                .cloned()
                .into_iter()
                .collect();
            return only.into_iter();
        }
        let typed = self.session.sql.database().tables();
        let typed: Vec<Arc<Object>> = typed.iter().filter_map(typed_table).map(Arc::new).collect();
        let objects = self.names.catalog.objects().cloned();
        objects.chain(typed).collect::<Vec<_>>().into_iter()
    }

    /// The tables among them, with their bodies.
    pub(super) fn each_table(
        &self,
        mut each: impl FnMut(&Object, &TableBody) -> Result<()>,
    ) -> Result<()> {
        self.objects().try_for_each(|object| match &object.body {
            Body::Table(table) => each(&object, table),
            _ => Ok(()),
        })
    }
}

/// The privileges of the schema `public`, if nothing was changed there.
fn public_access() -> Datum {
    let owner = DATABASE_OWNER_NAME;
    let entries = [format!("{owner}=UC/{owner}"), format!("=U/{owner}")];
    array(Kind::Text, entries.into_iter().map(Datum::text))
}

/// Privileges that an empty database has.
fn first_privileges(_: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    rows.push([
        ("objoid", Datum::Oid(PUBLIC)),
        ("classoid", Datum::Oid(NAMESPACE)),
        ("objsubid", Datum::Int4(0)),
        ("privtype", text("i")),
        ("initprivs", public_access()),
    ]);
    Ok(())
}

fn namespaces(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in from.names.catalog.objects() {
        if matches!(object.body, Body::Schema) {
            rows.push([
                ("oid", Datum::Oid(object.oid)),
                ("nspname", text(&object.name)),
                ("nspowner", from.owner(object)),
                ("nspacl", from.access_list(object.oid)),
            ]);
        }
    }
    Ok(())
}

fn heirs(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    from.each_table(|object, table| {
        for (number, parent) in (1..).zip(&table.lineage.parents) {
            rows.push([
                ("inhrelid", Datum::Oid(object.oid)),
                ("inhparent", Datum::Oid(*parent)),
                ("inhseqno", Datum::Int4(number)),
                ("inhdetachpending", flag(false)),
            ]);
        }
        for index in &table.indexes {
            if let Some(parent) = from.names.catalog.partition_parent(index.oid) {
                rows.push([
                    ("inhrelid", Datum::Oid(index.oid)),
                    ("inhparent", Datum::Oid(parent)),
                    ("inhseqno", Datum::Int4(1)),
                    ("inhdetachpending", flag(false)),
                ]);
            }
        }
        Ok(())
    })
}

fn partitioned(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    from.each_table(|object, table| {
        let Some(scheme) = &table.lineage.scheme else {
            return Ok(());
        };
        let places = scheme.keys.iter().map(|key| {
            let at = table.column(key.trim_matches('"'));
            Datum::Int2(at.map_or(0, |at| at as i16 + 1))
        });
        let rest = from
            .names
            .catalog
            .heirs(object.oid)
            .into_iter()
            .find(|heir| {
                let heir = from.names.catalog.object(*heir);
                heir.is_some_and(|heir| {
                    matches!(&heir.body, Body::Table(heir)
                if heir.lineage.bound == Some(PartitionBound::Default))
                })
            });
        rows.push([
            ("partrelid", Datum::Oid(object.oid)),
            ("partstrat", text(&scheme.strategy.name()[..1])),
            ("partnatts", small(scheme.keys.len())),
            ("partdefid", Datum::Oid(rest.unwrap_or(0))),
            ("partattrs", vector(Kind::Int2, places)),
        ]);
        Ok(())
    })
}

fn classes(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for relation in from.relations {
        rows.push([
            ("oid", Datum::Oid(relation.oid)),
            ("relname", text(relation.name)),
            ("relnamespace", namespace_of(from, relation)),
            ("relkind", text(relation.kind)),
            ("relnatts", small(relation.columns.len())),
            (
                "relam",
                Datum::Oid(if relation.kind == "r" { HEAP } else { 0 }),
            ),
            ("relhasrules", flag(relation.kind == "v")),
            (
                "relfrozenxid",
                Datum::Oid(match relation.kind {
                    "r" => from.session.xid(),
                    _ => 0,
                }),
            ),
        ]);
    }
    let parents = from.parents();
    for object in from.objects() {
        let is_temporary = from.names.temporary == Some(object.namespace);
        let persistence = text(if is_temporary { "t" } else { "p" });
        match &object.body {
            Body::Table(table) => {
                table_class(from, (&object, table), (&parents, &persistence), rows);
            }
            Body::View(view) => rows.push([
                ("oid", Datum::Oid(object.oid)),
                ("relname", text(&object.name)),
                ("relnamespace", Datum::Oid(object.namespace)),
                ("reltype", Datum::Oid(object.oid)),
                ("relowner", from.owner(&object)),
                ("relacl", from.access_list(object.oid)),
                ("relpersistence", persistence),
                ("relkind", text("v")),
                ("relnatts", small(view.columns.len())),
                ("relhasrules", flag(true)),
                ("reloptions", view_options(view)),
            ]),
            Body::Sequence(_) => rows.push([
                ("oid", Datum::Oid(object.oid)),
                ("relname", text(&object.name)),
                ("relnamespace", Datum::Oid(object.namespace)),
                ("relowner", from.owner(&object)),
                ("relacl", from.access_list(object.oid)),
                ("relfilenode", Datum::Oid(object.oid)),
                ("reltuples", Datum::Float4(1.0)),
                ("relpersistence", persistence),
                ("relkind", text("S")),
                ("relnatts", small(SEQUENCE_COLUMNS.len())),
            ]),
            Body::Composite(body) => rows.push([
                ("oid", Datum::Oid(object.oid)),
                ("relname", text(&object.name)),
                ("relnamespace", Datum::Oid(object.namespace)),
                ("reltype", Datum::Oid(object.oid)),
                ("relowner", from.owner(&object)),
                ("relpersistence", persistence),
                ("relkind", text("c")),
                ("relnatts", small(body.fields.len())),
            ]),
            _ => {}
        }
    }
    Ok(())
}

/// `name=value` for each option of a view; NULL without options.
fn view_options(view: &ViewBody) -> Datum {
    if view.options.is_empty() {
        return Datum::Null;
    }
    let options = view.options.iter();
    let texts = options.map(|(name, value)| text(format!("{name}={value}")));
    array(Kind::Text, texts)
}

/// The bound of a partition.
fn bound_of(from: &Sources<'_>, table: &TableBody) -> Option<String> {
    let bound = table.lineage.bound.as_ref()?;
    let parent = parents_of(from, table).next()?;
    let keys = parent.lineage.scheme.iter().flat_map(|scheme| &scheme.keys);
    let kinds = keys.map(|key| {
        let column = parent.column(&parts_of(key).concat());
        column.map_or(Kind::Text, |at| parent.columns[at].data_type.kind)
    });
    Some(bound.printed(&kinds.collect::<Vec<_>>()))
}

fn table_class(
    from: &Sources<'_>,
    (object, table): (&Object, &TableBody),
    (parents, persistence): (&HashSet<Oid>, &Datum),
    rows: &mut Rows<'_>,
) {
    let references = |rule: &Rule| matches!(rule, Rule::Foreign(_));
    let catalog = &from.names.catalog;
    let mut levels = std::iter::successors(Some(object.oid), |at| catalog.partition_parent(*at));
    let has_triggers = table.constraints.iter().any(|one| references(&one.rule))
        || levels.any(|level| parents.contains(&level));
    let checks = table.constraints.iter();
    let checks = checks.filter(|one| matches!(one.rule, Rule::Check { .. }));
    let handle = catalog.handle(object.oid);
    let count = handle.and_then(indelible::Table::row_count);
    // A partitioned table has no rows of its own.
    let is_partitioned = table.lineage.scheme.is_some();
    let own = |oid: Oid| Datum::Oid(if is_partitioned { 0 } else { oid });
    rows.push([
        ("oid", Datum::Oid(object.oid)),
        ("relname", text(&object.name)),
        ("relnamespace", Datum::Oid(object.namespace)),
        ("reltype", Datum::Oid(object.oid)),
        ("relowner", from.owner(object)),
        ("relacl", from.access_list(object.oid)),
        ("relam", own(HEAP)),
        ("relfilenode", own(object.oid)),
        (
            "reltuples",
            Datum::Float4(count.map_or(-1.0, |count| count.rows as f32)),
        ),
        ("relhasindex", flag(!table.indexes.is_empty())),
        ("relpersistence", persistence.clone()),
        (
            "relkind",
            text(match (&table.materialized, is_partitioned) {
                (Some(_), _) => "m",
                (None, true) => "p",
                (None, false) => "r",
            }),
        ),
        ("relhasrules", flag(table.materialized.is_some())),
        (
            "relispopulated",
            flag(
                table
                    .materialized
                    .as_ref()
                    .is_none_or(|view| view.is_populated),
            ),
        ),
        ("relispartition", flag(table.lineage.bound.is_some())),
        (
            "relhassubclass",
            flag(!catalog.heirs(object.oid).is_empty()),
        ),
        (
            "relpartbound",
            bound_of(from, table).map_or(Datum::Null, text),
        ),
        ("relnatts", small(table.columns.len())),
        ("relchecks", small(checks.count())),
        ("relhastriggers", flag(has_triggers)),
        ("relreplident", text("d")),
        // Nothing has to be frozen: a table is as new as the transaction that looks.
        ("relfrozenxid", own(from.session.xid())),
    ]);
    let entries = count.map_or(0.0, |count| count.rows as f32);
    for index in &table.indexes {
        let width = index.columns.len() + table.included_of(index.oid).len();
        index_class(from, (object, table), (index, width, entries), rows);
    }
}

fn namespace_of(from: &Sources<'_>, relation: &Relation) -> Datum {
    Datum::Oid(from.names.catalog.schema(relation.schema).unwrap_or(0))
}

fn index_class(
    from: &Sources<'_>,
    (object, table): (&Object, &TableBody),
    (index, width, entries): (&Index, usize, f32),
    rows: &mut Rows<'_>,
) {
    let is_partitioned = table.lineage.scheme.is_some();
    let is_temporary = from.names.temporary == Some(object.namespace);
    rows.push([
        ("oid", Datum::Oid(index.oid)),
        ("relname", text(&index.name)),
        ("relnamespace", Datum::Oid(object.namespace)),
        ("relam", Datum::Oid(BTREE)),
        (
            "relfilenode",
            Datum::Oid(if is_partitioned { 0 } else { index.oid }),
        ),
        ("relowner", from.owner(object)),
        ("relpersistence", text(if is_temporary { "t" } else { "p" })),
        ("relkind", text(if is_partitioned { "I" } else { "i" })),
        (
            "relispartition",
            flag(from.names.catalog.partition_parent(index.oid).is_some()),
        ),
        ("relnatts", small(width)),
        ("reltuples", Datum::Float4(entries)),
        ("relpages", Datum::Int4(i32::from(!is_partitioned))),
    ]);
}

/// Columns of a sequence.
const SEQUENCE_COLUMNS: &[(&str, Kind)] = &[
    ("last_value", Kind::Int8),
    ("log_cnt", Kind::Int8),
    ("is_called", Kind::Bool),
];

fn attributes(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for relation in from.relations {
        for (at, column) in relation.columns.iter().enumerate() {
            attribute((relation.oid, at), column.name, column.kind.plain(), rows);
        }
    }
    for object in from.objects() {
        match &object.body {
            Body::Table(table) => {
                let parents: Vec<&TableBody> = parents_of(from, table).collect();
                for (at, column) in table.columns.iter().enumerate() {
                    let is_above = |parent: &&&TableBody| parent.column(&column.name).is_some();
                    let above = parents.iter().filter(is_above).count();
                    let is_local = above == 0 || table.local.contains(&at);
                    table_attribute((object.oid, at), (column, above, is_local), rows);
                }
                for index in &table.indexes {
                    index_attributes(table, index, rows);
                }
            }
            Body::View(view) => {
                for (at, (name, data_type)) in view.columns.iter().enumerate() {
                    attribute((object.oid, at), name, *data_type, rows);
                }
            }
            Body::Composite(body) => {
                for (at, (name, data_type)) in body.fields.iter().enumerate() {
                    let typed = (*data_type, body.field_domain(at));
                    typed_attribute((object.oid, at), name, typed, rows);
                }
            }
            Body::Sequence(_) => {
                for (at, (name, kind)) in SEQUENCE_COLUMNS.iter().enumerate() {
                    attribute((object.oid, at), name, kind.plain(), rows);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The columns of an index: an expression has the name of its function, or `expr`.
fn index_attributes(table: &TableBody, index: &Index, rows: &mut Rows<'_>) {
    let keys = index.columns.iter().zip(key_numbers(table, index));
    let keys = keys.enumerate().filter_map(|(place, (at, number))| {
        if let Some(column) = number.checked_sub(1).and_then(|at| table.columns.get(at)) {
            return Some((column.name.clone(), column.data_type));
        }
        let hidden = table.hidden.get(at.checked_sub(table.columns.len())?)?;
        let form = table.form(index.oid);
        let key = form.and_then(|form| form.keys.get(place));
        let function = key.and_then(|key| Some(key.split_once('(')?.0));
        let function = function.and_then(|function| parts_of(function).pop());
        let function = function.filter(|function| !function.is_empty());
        let name = function.unwrap_or_else(|| "expr".to_owned());
        Some((name, hidden.data_type))
    });
    let included = table.included_of(index.oid).iter();
    let included = included.filter_map(|at| table.columns.get(*at));
    let included = included.map(|column| (column.name.clone(), column.data_type));
    let (names, types): (Vec<String>, Vec<Type>) = keys.chain(included).unzip();
    let names = distinct_names(names);
    for (at, (name, data_type)) in names.iter().zip(types).enumerate() {
        attribute((index.oid, at), name, data_type, rows);
    }
}

/// A column without anything of its own.
fn attribute(place: (Oid, usize), name: &str, data_type: Type, rows: &mut Rows<'_>) {
    typed_attribute(place, name, (data_type, None), rows);
}

/// The same, where the column may be of a domain.
fn typed_attribute(
    (relation, at): (Oid, usize),
    name: &str,
    (data_type, domain): Typed,
    rows: &mut Rows<'_>,
) {
    let storage = storage_of(data_type.kind);
    let (typed, modifier) = shown_type((data_type, domain));
    rows.push([
        ("attrelid", Datum::Oid(relation)),
        ("attname", text(name)),
        ("atttypid", typed),
        ("attlen", Datum::Int2(data_type.kind.length())),
        ("attnum", small(at + 1)),
        ("atttypmod", modifier),
        ("attndims", Datum::Int4(data_type.kind.is_array().into())),
        ("attbyval", flag(storage.by_value)),
        ("attalign", text(storage.align)),
        ("attstorage", text(storage.place)),
        ("attcollation", Datum::Oid(storage.collation)),
    ]);
}

/// The number and the modifier of a type: a domain has its own.
fn shown_type((data_type, domain): Typed) -> (Datum, Datum) {
    match domain {
        Some(domain) => (Datum::Oid(domain), Datum::Int4(-1)),
        None => (
            Datum::Oid(data_type.kind.oid()),
            Datum::Int4(data_type.modifier),
        ),
    }
}

/// The tables that a table inherits from.
fn parents_of<'a>(
    from: &'a Sources<'_>,
    table: &'a TableBody,
) -> impl Iterator<Item = &'a TableBody> {
    let parents = table.lineage.parents.iter();
    let parents = parents.filter_map(|parent| from.names.catalog.object(*parent));
    parents.filter_map(|parent| match &parent.body {
        Body::Table(parent) => Some(parent),
        _ => None,
    })
}

/// A column of a table, which `above` of its parents have too, and whether it is its own.
fn table_attribute(
    (relation, at): (Oid, usize),
    (column, above, is_local): (&Column, usize, bool),
    rows: &mut Rows<'_>,
) {
    let (identity, generated) = match &column.origin {
        Origin::Given => ("", ""),
        Origin::Generated(_) => ("", "s"),
        Origin::Identity { always: true, .. } => ("a", ""),
        Origin::Identity { .. } => ("d", ""),
    };
    let data_type = column.data_type;
    let storage = storage_of(data_type.kind);
    let (typed, modifier) = shown_type((data_type, column.domain));
    rows.push([
        ("attrelid", Datum::Oid(relation)),
        ("attname", text(&column.name)),
        ("atttypid", typed),
        ("attlen", Datum::Int2(data_type.kind.length())),
        ("attnum", small(at + 1)),
        ("atttypmod", modifier),
        ("attndims", Datum::Int4(data_type.kind.is_array().into())),
        ("attbyval", flag(storage.by_value)),
        ("attalign", text(storage.align)),
        ("attstorage", text(storage.place)),
        ("attcollation", Datum::Oid(storage.collation)),
        ("attnotnull", flag(column.not_null)),
        (
            "atthasdef",
            flag(column.default.is_some() || generated == "s"),
        ),
        ("attidentity", text(identity)),
        ("attgenerated", text(generated)),
        ("attislocal", flag(is_local)),
        ("attinhcount", Datum::Int4(above as i32)),
    ]);
}

fn defaults(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let definitions = from.definitions();
    from.each_table(|object, table| {
        for (at, column) in table.columns.iter().enumerate() {
            if let Some(expression) = column.expression() {
                rows.push([
                    ("oid", Datum::Oid(default_oid(object.oid, at))),
                    ("adrelid", Datum::Oid(object.oid)),
                    ("adnum", small(at + 1)),
                    (
                        "adbin",
                        text(definitions.default(object, column, expression)),
                    ),
                ]);
            }
        }
        Ok(())
    })
}

fn sequences(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in from.names.catalog.objects() {
        if let Body::Sequence(body) = &object.body {
            rows.push([
                ("seqrelid", Datum::Oid(object.oid)),
                ("seqtypid", Datum::Oid(body.data_type.kind.oid())),
                ("seqstart", Datum::Int8(body.start)),
                ("seqincrement", Datum::Int8(body.increment)),
                ("seqmax", Datum::Int8(body.max)),
                ("seqmin", Datum::Int8(body.min)),
                ("seqcache", Datum::Int8(body.cache)),
                ("seqcycle", flag(body.cycles)),
            ]);
        }
    }
    Ok(())
}

/// The catalogue that an object is a row of.
pub(crate) fn catalogue_of(object: &Object) -> Oid {
    match object.body {
        Body::Schema => NAMESPACE,
        Body::Table(_) | Body::View(_) | Body::Sequence(_) => CLASS,
        Body::Enum(_) | Body::Domain(_) | Body::Composite(_) => TYPE,
        Body::Role(_) | Body::Access(_) | Body::Defaults(_) => AUTHID,
        Body::Function(_) => PROC,
        Body::Extension => EXTENSION,
    }
}

fn descriptions(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    let mut describe = |oid: Oid, class: Oid, part: usize, comment: &str| {
        rows.push([
            ("objoid", Datum::Oid(oid)),
            ("classoid", Datum::Oid(class)),
            ("objsubid", Datum::Int4(part as i32)),
            ("description", text(comment)),
        ]);
    };
    for object in from.names.catalog.objects() {
        if let Some(comment) = &object.comment
            && !matches!(object.body, Body::Role(_) | Body::Access(_))
        {
            describe(object.oid, catalogue_of(object), 0, comment);
        }
        for (at, comment) in object.body.part_comments() {
            match &object.body {
                Body::Domain(_) => {
                    describe(domain_check_oid(object.oid, *at), CONSTRAINT, 0, comment);
                }
                _ => describe(object.oid, CLASS, at + 1, comment),
            }
        }
        if let Body::Table(table) = &object.body {
            for (at, column) in table.columns.iter().enumerate() {
                if let Some(comment) = &column.comment {
                    describe(object.oid, CLASS, at + 1, comment);
                }
            }
            for (part, comment) in &table.comments {
                let is_index = table.indexes.iter().any(|index| index.oid == *part);
                let class = if is_index { CLASS } else { CONSTRAINT };
                describe(*part, class, 0, comment);
            }
        }
    }
    Ok(())
}

/// Comments on roles, which all databases share in PostgreSQL.
fn shared_descriptions(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in from.names.catalog.objects() {
        if let (Body::Role(_), Some(comment)) = (&object.body, &object.comment) {
            rows.push([
                ("objoid", Datum::Oid(object.oid)),
                ("classoid", Datum::Oid(AUTHID)),
                ("description", text(comment)),
            ]);
        }
    }
    if let Some(comment) = from.names.catalog.database_comment() {
        rows.push([
            ("objoid", Datum::Oid(DATABASE)),
            ("classoid", Datum::Oid(DATABASES)),
            ("description", text(comment)),
        ]);
    }
    Ok(())
}

/// The rule that makes a view of its query.
fn rules(from: &Sources<'_>, rows: &mut Rows<'_>) -> Result<()> {
    for object in from.names.catalog.objects() {
        let is_materialized =
            matches!(&object.body, Body::Table(table) if table.materialized.is_some());
        if is_materialized || matches!(object.body, Body::View(_)) {
            rows.push([
                ("oid", Datum::Oid(object.oid)),
                ("ev_class", Datum::Oid(object.oid)),
            ]);
        }
    }
    Ok(())
}
