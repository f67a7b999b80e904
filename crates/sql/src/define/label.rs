//! Labels of enums that get other names.
//!
//! A column of an enum keeps the places of labels, so its rows stay. Texts follow: those with
//! literals of the type, as texts follow other names, and bounds of partitions, whose values are
//! texts. Arrays of an enum, and rows with a field of it, are kept with the labels themselves, so
//! the tables of such columns are written anew. The earlier label is read as the new one meanwhile.

use crate::catalog::{Body, Catalog, Object, Oid, PartitionBound, RangeEnd, Rule};
use crate::error::Result;
use crate::session::Session;
use crate::types::{Kind, text_io};
use sql_bind::RenamedLabel;

/// The kinds of the keys of a partition's bound; none for a key that has no labels of the enum.
type BoundKinds = Vec<Option<Kind>>;

impl Session {
    /// Writes an enum with another name of a label.
    pub(super) fn rename_label(&mut self, object: Object, (old, new): (&str, &str)) -> Result<()> {
        let oid = object.oid;
        let bounds = self.bounds_with(oid)?;
        self.put(object, None)?;
        self.environment.names.renamed = Some(RenamedLabel {
            of: oid,
            old: old.to_owned(),
            new: new.to_owned(),
        });
        let written = self.write_labels(oid, bounds);
        self.environment.names.renamed = None;
        written
    }

    /// Writes the values that are kept with the earlier label.
    fn write_labels(&mut self, of: Oid, bounds: Vec<(Oid, BoundKinds)>) -> Result<()> {
        for (table, kinds) in bounds {
            self.write_bound(table, &kinds)?;
        }
        for table in self.tables_with_labels(of) {
            // The type may have another owner than its tables.
            let owner = self.catalog().owner(table);
            let own = std::mem::replace(&mut self.environment.names.role, owner);
            let written = self.write_anew(table);
            self.environment.names.role = own;
            written?;
        }
        Ok(())
    }

    /// Writes the values of a partition's bound as they are read.
    fn write_bound(&mut self, table: Oid, kinds: &[Option<Kind>]) -> Result<()> {
        let mut object = self.altered(table)?;
        let Body::Table(body) = &mut object.body else {
            return Ok(());
        };
        let context = self.environment.context();
        let write = |text: &mut String, kind: Option<Kind>| -> Result<()> {
            if let Some(kind) = kind {
                let value = text_io::parse(kind, text, &context)?;
                *text = text_io::print(&value, kind, &context)?;
            }
            Ok(())
        };
        match &mut body.lineage.bound {
            Some(PartitionBound::In(values)) => {
                let mut texts = values.iter_mut().flatten();
                texts.try_for_each(|text| write(text, kinds[0]))?;
            }
            Some(PartitionBound::Range(from, to)) => {
                for ends in [from, to] {
                    for (end, kind) in ends.iter_mut().zip(kinds) {
                        if let RangeEnd::At(text) = end {
                            write(text, *kind)?;
                        }
                    }
                }
            }
            Some(PartitionBound::Default | PartitionBound::Remainder(..)) | None => return Ok(()),
        }
        self.write_object(object, None)
    }

    /// The partitions of tables with keys that have labels of an enum, and the kinds of these keys.
    fn bounds_with(&self, wanted: Oid) -> Result<Vec<(Oid, BoundKinds)>> {
        let catalog = self.catalog();
        let has_labels = |kind: Kind| kind == Kind::Enum(wanted) || keeps(catalog, kind, wanted);
        let mut found = Vec::new();
        for object in catalog.objects() {
            let Body::Table(body) = &object.body else {
                continue;
            };
            if body.lineage.scheme.is_none() {
                continue;
            }
            let level = self.binding(|binder| binder.level(object, &body.columns))?;
            let keys = level.keys.iter().map(|(key, _)| key.kind());
            let kinds = keys.map(|kind| has_labels(kind).then_some(kind));
            let kinds: BoundKinds = kinds.collect();
            if kinds.iter().any(Option::is_some) {
                let arms = level.arms.iter();
                found.extend(arms.map(|arm| (arm.table, kinds.clone())));
            }
        }
        Ok(found)
    }

    /// The tables whose rows keep labels of an enum. One that refers to another of them comes after
    /// it, as its references are looked up when its rows are written.
    fn tables_with_labels(&self, of: Oid) -> Vec<Oid> {
        let catalog = self.catalog();
        let tables = catalog.objects().filter(|object| {
            let Body::Table(body) = &object.body else {
                return false;
            };
            let columns = body.columns.iter().map(|column| column.data_type.kind);
            let hidden = body.hidden.iter().map(|hidden| hidden.data_type.kind);
            let mut kinds = columns.chain(hidden);
            body.lineage.scheme.is_none() && kinds.any(|kind| keeps(catalog, kind, of))
        });
        let mut left: Vec<Oid> = tables.map(|table| table.oid).collect();
        let mut sorted = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let is_next = |table: &Oid| !self.refers_to(*table, &left);
            let next = left.iter().position(is_next).unwrap_or(0);
            sorted.push(left.remove(next));
        }
        sorted
    }

    /// Whether a table refers to another one of some tables, or to a parent of one.
    fn refers_to(&self, table: Oid, others: &[Oid]) -> bool {
        let body = self.catalog().object(table).map(|object| &object.body);
        let Some(Body::Table(body)) = body else {
            return false;
        };
        body.constraints.iter().any(|constraint| {
            let Rule::Foreign(foreign) = &constraint.rule else {
                return false;
            };
            let parents = self.family_of(foreign.parent, false);
            let mut parents = parents.iter().filter(|parent| **parent != table);
            parents.any(|parent| others.contains(parent))
        })
    }
}

/// Whether values of a kind are kept with labels of an enum.
fn keeps(catalog: &Catalog, kind: Kind, of: Oid) -> bool {
    let typed = (kind.plain(), None);
    catalog.has_inside(typed, &|(one, _)| one.kind == Kind::Enum(of))
}
