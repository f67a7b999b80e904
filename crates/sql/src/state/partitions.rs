//! Functions about partitions, of tables and of indexes.
//!
//! A number that is neither partitioned nor a partition has no ancestors, no root and no tree.

use super::describe::{number, record, rows};
use super::host::HostCall;
use crate::catalog::{Body, Oid};
use crate::types::{Context, Datum, Kind};

impl HostCall<'_> {
    /// The result of a function of this module; none if it is another one.
    pub(super) fn partitions(
        &self,
        context: &Context<'_>,
        function: &str,
        arguments: &[Datum],
    ) -> Option<Datum> {
        let oid = arguments.first().and_then(number);
        Some(match function {
            "pg_partition_ancestors" => {
                let line = oid.map_or_else(Vec::new, |oid| self.line_of(oid));
                rows(Kind::Regclass, line.into_iter().map(Datum::Oid).collect())
            }
            "pg_partition_root" => {
                let line = oid.map_or_else(Vec::new, |oid| self.line_of(oid));
                line.last().map_or(Datum::Null, |root| Datum::Oid(*root))
            }
            "pg_partition_tree" => {
                let whole = oid.map_or_else(Vec::new, |oid| self.tree_of(oid));
                rows(Kind::Record, whole)
            }
            "pg_get_partition_constraintdef" => {
                let catalog = &self.names.catalog;
                let condition = oid.and_then(|oid| {
                    let condition = catalog.partition_condition(oid)?;
                    let texts = self.definitions(context, false);
                    Some(texts.check(catalog.object(oid)?, &condition))
                });
                condition.map_or(Datum::Null, Datum::text)
            }
            _ => return None,
        })
    }

    /// A partition and all that it is a partition of; empty if it is neither one nor partitioned.
    fn line_of(&self, oid: Oid) -> Vec<Oid> {
        let catalog = &self.names.catalog;
        let parent = |oid: &Oid| catalog.partition_parent(*oid);
        if parent(&oid).is_none() && !self.is_partitioned(oid) {
            return Vec::new();
        }
        std::iter::successors(Some(oid), parent).collect()
    }

    fn is_partitioned(&self, oid: Oid) -> bool {
        let catalog = &self.names.catalog;
        let of_index = || catalog.index(oid).map(|(object, _)| object);
        let found = catalog.object(oid).or_else(of_index);
        found.is_some_and(
            |object| matches!(&object.body, Body::Table(body) if body.lineage.scheme.is_some()),
        )
    }

    /// Rows of a table or an index and of all partitions below, level by level.
    fn tree_of(&self, oid: Oid) -> Vec<Datum> {
        let catalog = &self.names.catalog;
        let mut whole = Vec::new();
        let mut level = if self.line_of(oid).is_empty() {
            Vec::new()
        } else {
            vec![oid]
        };
        for depth in 0.. {
            if level.is_empty() {
                break;
            }
            whole.extend(level.iter().map(|one| {
                record(vec![
                    Datum::Oid(*one),
                    catalog
                        .partition_parent(*one)
                        .map_or(Datum::Null, Datum::Oid),
                    Datum::Bool(!self.is_partitioned(*one)),
                    Datum::Int4(depth),
                ])
            }));
            let below = level.iter().flat_map(|one| catalog.partitions(*one));
            level = below.collect();
        }
        whole
    }
}
