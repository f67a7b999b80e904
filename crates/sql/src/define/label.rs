//! Labels of enums that get other names.
//!
//! Rows keep the places of labels, so only texts follow: those with literals of the type, as texts
//! follow other names, and bounds of partitions, whose values are texts.

use crate::catalog::{Body, Object, Oid, PartitionBound, RangeEnd};
use crate::error::Result;
use crate::session::Session;
use crate::types::Kind;

impl Session {
    /// Writes an enum with another name of a label.
    pub(super) fn rename_label(&mut self, object: Object, (old, new): (&str, &str)) -> Result<()> {
        let bounds = self.bounds_with(object.oid)?;
        self.put(object, None)?;
        let replace = |text: &mut String| {
            if text == old {
                new.clone_into(text);
            }
        };
        for (table, is_label) in bounds {
            let mut object = self.altered(table)?;
            let Body::Table(body) = &mut object.body else {
                continue;
            };
            match &mut body.lineage.bound {
                Some(PartitionBound::In(values)) => values.iter_mut().flatten().for_each(replace),
                Some(PartitionBound::Range(from, to)) => {
                    for ends in [from, to] {
                        for (end, is_label) in ends.iter_mut().zip(&is_label) {
                            if let (RangeEnd::At(text), true) = (end, is_label) {
                                replace(text);
                            }
                        }
                    }
                }
                Some(PartitionBound::Default | PartitionBound::Remainder(..)) | None => continue,
            }
            self.write_object(object, None)?;
        }
        Ok(())
    }

    /// The partitions of tables with keys of an enum, and which of the keys are of it.
    fn bounds_with(&self, wanted: Oid) -> Result<Vec<(Oid, Vec<bool>)>> {
        let catalog = self.catalog();
        let mut found = Vec::new();
        for object in catalog.objects() {
            let Body::Table(body) = &object.body else {
                continue;
            };
            if body.lineage.scheme.is_none() {
                continue;
            }
            let level = self.binding(|binder| binder.level(object, &body.columns))?;
            let keys = level.keys.iter();
            let is_label = keys.map(|(key, _)| key.kind() == Kind::Enum(wanted));
            let is_label: Vec<bool> = is_label.collect();
            if is_label.contains(&true) {
                let arms = level.arms.iter();
                found.extend(arms.map(|arm| (arm.table, is_label.clone())));
            }
        }
        Ok(found)
    }
}
