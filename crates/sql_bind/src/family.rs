//! Families of tables: those that inherit from others, and partitions.
//!
//! The rows of a table are also those of all tables that inherit from it, unless `ONLY` stands
//! before its name. A change of them is a change of each table, with the names of the first.

use super::scope::Scope;
use super::select::row_scope;
use super::source::Source as Part;
use super::table::{BoundTable, body_of};
use super::{Binder, Changed, query};
use crate::catalog::{Column, Object, Oid, PartitionBound, RangeEnd, TableBody};
use crate::error::{Result, SqlError};
use crate::plan::{
    Arm, Edge, Expr, FamilyMember, Filter, HashClass, Leaf, Level, Next, Node, PartitionKeys,
    Project, Router, SetKind, SetOperation, Share, Shown, Sort, TableRows, Takes, Target, Values,
};
use crate::types::{Datum, Kind, text_io};
use sqlparser::ast::{OnConflict, TableAlias, TableAliasColumnDef, TableInheritance};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

impl Binder<'_> {
    /// A table and all that inherit from it; without those that have no rows, unless it is alone.
    pub(super) fn family(
        &mut self,
        table: &BoundTable,
        marker: Option<&TableInheritance>,
    ) -> Result<Vec<BoundTable>> {
        let mut family = vec![table.clone()];
        if matches!(marker, Some(TableInheritance::Only { .. })) {
            return Ok(family);
        }
        for oid in self.names.catalog.descendants(table.object.oid) {
            let object = self.referenced(oid)?;
            // Rows of temporary tables are those of their session alone.
            if self.names.is_others(object.namespace) {
                continue;
            }
            let source = self.source(&object)?;
            family.push(BoundTable {
                object,
                source,
                view: table.view.clone(),
                partition: None,
                given: Vec::new(),
            });
        }
        if table.body().lineage.scheme.is_some() {
            self.tell_partitions(&mut family)?;
        }
        let has_rows = |member: &BoundTable| member.body().lineage.scheme.is_none();
        if family.iter().any(has_rows) {
            family.retain(has_rows);
        }
        Ok(family)
    }

    /// Tells the members of a partitioned table, which comes first, which rows each of them has.
    fn tell_partitions(&mut self, family: &mut [BoundTable]) -> Result<()> {
        let mut levels: BTreeMap<Oid, (Arc<Object>, Level)> = BTreeMap::new();
        let Some((root, members)) = family.split_first_mut() else {
            return Ok(());
        };
        for member in members {
            let (mut oid, mut parts) = (member.object.oid, Vec::new());
            while oid != root.object.oid {
                let object = self.referenced(oid)?;
                let Some(above) = body_of(&object).lineage.parents.first().copied() else {
                    break;
                };
                let (parent, level) = match levels.entry(above) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let parent = self.referenced(above)?;
                        let level = self.level(&parent, &body_of(&parent).columns)?;
                        new.insert((parent, level))
                    }
                };
                parts.extend(part_of(member.body(), oid, (parent, level)));
                oid = above;
            }
            member.partition = Some(parts.into());
        }
        Ok(())
    }

    /// The rows of a table, and of those that inherit from it.
    pub(super) fn family_rows(
        &mut self,
        table: BoundTable,
        alias: Option<&TableAlias>,
        marker: Option<&TableInheritance>,
    ) -> Result<Part> {
        let family = self.family(&table, marker)?;
        let name = alias.map_or_else(
            || table.object.name.clone(),
            |alias| super::ident_text(&alias.name),
        );
        let names = alias.map_or(&[][..], |alias| alias.columns.as_slice());
        let columns = query::renamed(table.output(), &name, names)?;
        let oid_of =
            |table: &BoundTable| Expr::Constant(Datum::Oid(table.object.oid), Kind::Oid.plain());
        if family.len() == 1 && table.body().lineage.scheme.is_none() {
            let width = table.source.width();
            let place = self.row_place(&table.source, 0)?;
            let node = self.all_of(&table, Some(&name));
            let mut part = self.source_of(node, &name, columns)?;
            part.scope.width = width;
            if let Some(last) = part.scope.tables.last_mut() {
                last.table_oid = Some(oid_of(&table));
                last.row_place = Some(place);
                last.is_stored = true;
                last.rows = Some(TableRows::Own(table.source));
            }
            return Ok(part);
        }
        let with_rows = family.iter();
        let with_rows = with_rows.filter(|member| member.body().lineage.scheme.is_none());
        let with_rows: Vec<&BoundTable> = with_rows.collect();
        let keys = with_rows.iter().map(|member| member.source.key.len());
        let key_width = keys.max().filter(|_| !self.locking.is_empty()).unwrap_or(0);
        let has_place = self.may_name("ctid");
        let width = columns.len();
        let full_width = width + 1 + key_width + usize::from(has_place);
        let mut nodes = Vec::with_capacity(family.len());
        let mut members = Vec::with_capacity(family.len());
        for member in with_rows {
            let places = places_in(table.body(), member.body())?;
            let column = |&at: &usize| Expr::Column(at, member.source.column_type(at));
            let mut expressions: Vec<Expr> = places.iter().map(column).collect();
            expressions.push(oid_of(member));
            expressions.extend(member.source.key.iter().take(key_width).map(column));
            expressions.resize(width + 1 + key_width, Expr::null(Kind::Int8.plain()));
            if has_place {
                expressions.push(self.row_place(&member.source, 0)?);
            }
            nodes.push(Node::from(Project {
                input: self.all_of(member, None),
                expressions,
                has_sets: false,
            }));
            members.push(FamilyMember {
                source: member.source.clone(),
                columns: places,
            });
        }
        let node = united(nodes).unwrap_or_else(|| {
            Values {
                rows: Vec::new(),
                width: full_width,
            }
            .into()
        });
        let mut part = self.source_of(node, &name, columns)?;
        part.scope.width = full_width;
        if let Some(last) = part.scope.tables.last_mut() {
            last.table_oid = Some(Expr::Column(width, Kind::Oid.plain()));
            let place = Expr::Column(full_width - 1, Kind::Tid.plain());
            last.row_place = has_place.then_some(place);
            last.is_stored = true;
            last.rows = Some(TableRows::OfFamily(members.into()));
        }
        Ok(part)
    }

    /// The rows of a materialized view that has none yet: reading them fails.
    pub(super) fn unpopulated(
        &mut self,
        table: &BoundTable,
        shown: &str,
        names: &[TableAliasColumnDef],
    ) -> Result<Part> {
        let columns = query::renamed(table.output(), shown, names)?;
        let row = columns.iter().map(|column| Expr::null(column.data_type));
        let one = Values {
            rows: vec![row.collect()],
            width: columns.len(),
        };
        let view = Expr::Constant(Datum::text(&*table.object.name), Kind::Text.plain());
        let rows = Filter {
            input: one.into(),
            condition: self.call("not_populated", vec![view])?,
        };
        self.source_of(rows.into(), shown, columns)
    }

    /// Changes each table of a family; all are changed before the first row comes back.
    pub(super) fn change_each(
        &mut self,
        family: &[BoundTable],
        mut change: impl FnMut(&mut Self, &BoundTable) -> Result<Changed>,
    ) -> Result<Changed> {
        let mut nodes = Vec::with_capacity(family.len());
        let mut columns = None;
        for member in family {
            let (node, own) = change(self, member)?;
            columns = columns.or(own);
            nodes.push(node);
        }
        let is_one = nodes.len() == 1;
        let node = united(nodes).ok_or_else(|| SqlError::internal("a family has a table"))?;
        if is_one || columns.is_none() {
            return Ok((node, columns));
        }
        let sort = Sort {
            input: node,
            keys: Vec::new(),
            wanted: None,
            presorted: None,
        };
        Ok((sort.into(), columns))
    }

    /// The partitions that a table is, of its parent's level and of those above.
    pub(super) fn shares(
        &mut self,
        object: &Object,
        columns: &[Column],
    ) -> Result<Vec<(Level, usize)>> {
        let mut within = Vec::new();
        let (mut oid, mut lineage) = (object.oid, body_of(object).lineage.clone());
        while let (Some(_), Some(parent)) = (&lineage.bound, lineage.parents.first()) {
            let parent = self.referenced(*parent)?;
            let level = self.level(&parent, columns)?;
            let own = level.arms.iter().position(|arm| arm.table == oid);
            let own = own.ok_or_else(|| SqlError::internal("a partition of its parent"))?;
            within.push((level, own));
            (oid, lineage) = (parent.oid, body_of(&parent).lineage.clone());
        }
        Ok(within)
    }

    /// A partitioned table as a level of rows with these columns.
    pub fn level(&mut self, object: &Object, columns: &[Column]) -> Result<Level> {
        let mut keys = Vec::new();
        let scheme = body_of(object).lineage.scheme.as_ref();
        for text in scheme.iter().flat_map(|scheme| &scheme.keys) {
            let columns = columns.iter();
            let columns = columns.map(|column| (column.name.clone(), column.data_type));
            let key = self.stored(text, row_scope(&object.name, columns)?)?;
            keys.push((key, text.clone()));
        }
        let mut arms = Vec::new();
        for oid in self.names.catalog.heirs(object.oid) {
            let child = self.referenced(oid)?;
            if let Some(bound) = &body_of(&child).lineage.bound {
                arms.push(Arm {
                    table: oid,
                    takes: self.takes(bound, &keys)?,
                    next: Next::Unknown,
                });
            }
        }
        Ok(Level {
            oid: object.oid,
            table: object.name.clone(),
            keys,
            arms,
        })
    }

    /// The keys that a bound takes.
    pub fn takes(&self, bound: &PartitionBound, keys: &[(Expr, String)]) -> Result<Takes> {
        let value = |text: &str, at: usize| {
            let kind = keys.get(at).map_or(Kind::Text, |(key, _)| key.kind());
            text_io::parse(kind, text, &self.context)
        };
        let edges = |end: &[RangeEnd]| {
            let edges = end.iter().enumerate().map(|(at, key)| {
                Ok(match key {
                    RangeEnd::Min => Edge::Min,
                    RangeEnd::Max => Edge::Max,
                    RangeEnd::At(text) => Edge::At(value(text, at)?),
                })
            });
            edges.collect::<Result<Vec<_>>>()
        };
        Ok(match bound {
            PartitionBound::Default => Takes::Rest,
            PartitionBound::In(values) => {
                let values = values.iter().map(|text| match text {
                    Some(text) => value(text, 0),
                    None => Ok(Datum::Null),
                });
                Takes::Among(values.collect::<Result<_>>()?)
            }
            PartitionBound::Range(from, to) => Takes::Between(edges(from)?, edges(to)?),
            PartitionBound::Remainder(modulus, remainder) => {
                let classes = keys.iter().map(|(key, _)| HashClass::of(key.kind()));
                let classes: Option<Vec<HashClass>> = classes.collect();
                let classes = classes.ok_or_else(|| SqlError::internal("keys have hashes"))?;
                Takes::Remainder(Share {
                    modulus: u64::from(*modulus),
                    remainder: u64::from(*remainder),
                    classes: classes.into(),
                })
            }
        })
    }

    /// The way of rows of a table to its partitions; none if it has none.
    pub(super) fn router(
        &mut self,
        table: &BoundTable,
        conflict: Option<(&OnConflict, &str)>,
    ) -> Result<Option<Arc<Router>>> {
        if table.body().lineage.scheme.is_none() {
            return Ok(None);
        }
        let columns = &table.body().columns;
        let mut router = Router {
            levels: Vec::new(),
            leaves: Vec::new(),
            within: self.shares(&table.object, columns)?,
        };
        let mut waiting = vec![Arc::clone(&table.object)];
        // Levels get their numbers as their tables begin to wait.
        let mut count = 1;
        let mut next = 0;
        while let Some(object) = waiting.get(next).cloned() {
            next += 1;
            let mut level = self.level(&object, columns)?;
            for arm in &mut level.arms {
                let child = self.referenced(arm.table)?;
                if body_of(&child).lineage.scheme.is_some() {
                    arm.next = Next::Level(count);
                    count += 1;
                    waiting.push(child);
                } else {
                    arm.next = Next::Leaf(router.leaves.len());
                    router.leaves.push(self.leaf(table, child, conflict)?);
                }
            }
            router.levels.push(level);
        }
        Ok(Some(Arc::new(router)))
    }

    /// The rules of a table's member, whose errors show rows as those of the table.
    pub(super) fn member_target(
        &mut self,
        (table, member): (&BoundTable, &BoundTable),
    ) -> Result<Arc<Target>> {
        let mut target = self.target(member)?;
        let places = places_in(table.body(), member.body())?;
        Arc::make_mut(&mut target).shown = Shown {
            table: table.object.oid,
            given: table.given.iter().map(|at| places[*at]).collect(),
            columns: places,
        };
        Ok(target)
    }

    fn leaf(
        &mut self,
        table: &BoundTable,
        object: Arc<Object>,
        conflict: Option<(&OnConflict, &str)>,
    ) -> Result<Leaf> {
        let source = self.source(&object)?;
        let own = BoundTable {
            object,
            source,
            view: table.view.clone(),
            partition: None,
            given: Vec::new(),
        };
        let target = self.member_target((table, &own))?;
        let conflict = match conflict {
            Some((conflict, alias)) => {
                Some(self.conflict((table, &own), &target, alias, conflict)?)
            }
            None => None,
        };
        Ok(Leaf {
            columns: places_in(own.body(), table.body())?,
            target,
            conflict,
        })
    }

    /// Adds the columns of a table to a scope, at their places in a member of its family.
    pub(super) fn add_member(
        &mut self,
        scope: &mut Scope,
        (table, member): (&BoundTable, &BoundTable),
        alias: &str,
    ) -> Result<()> {
        let start = scope.width;
        let columns = table.output().into_iter();
        let columns = columns.map(|column| {
            let origin = (column.table, column.position);
            (column.name, column.data_type, origin)
        });
        scope.add_table(alias, columns)?;
        let over = match &table.view {
            Some(view) => view.over(table, member)?,
            None => {
                let places = places_in(table.body(), member.body())?.into_iter();
                let columns = places.map(|at| Expr::Column(at, member.source.column_type(at)));
                columns.collect()
            }
        };
        let added = scope.columns.len() - over.len();
        for (column, mut expression) in scope.columns[added..].iter_mut().zip(over) {
            expression.shift(0, start as isize);
            column.expression = expression;
        }
        if let Some(last) = scope.tables.last_mut() {
            let places = places_in(table.body(), member.body())?;
            last.columns = places.iter().map(|at| start + at).collect();
            last.table_oid = Some(Expr::Constant(
                Datum::Oid(member.object.oid),
                Kind::Oid.plain(),
            ));
            last.row_place = match table.view {
                Some(_) => None,
                None => Some(self.row_place(&member.source, start)?),
            };
        }
        scope.width = start + member.source.width();
        Ok(())
    }

    pub(super) fn referenced(&self, oid: Oid) -> Result<Arc<Object>> {
        let object = self.names.catalog.object(oid).cloned();
        object.ok_or_else(|| SqlError::internal("a table that another one refers to is gone"))
    }
}

/// For each column of a table the position of the one with its name in another table.
pub(super) fn places_in(table: &TableBody, other: &TableBody) -> Result<Vec<usize>> {
    let places = table.columns.iter().map(|column| {
        let place = other.column(&column.name);
        place.ok_or_else(|| SqlError::internal("a table has the columns of its family"))
    });
    places.collect()
}

/// The positions in another table of some of a table's columns.
pub(super) fn columns_in(
    table: &TableBody,
    other: &TableBody,
    columns: &[usize],
) -> Result<Vec<usize>> {
    let places = columns.iter().map(|&at| {
        let place = other.column(&table.columns[at].name);
        place.ok_or_else(|| SqlError::internal("a table has the columns of its family"))
    });
    places.collect()
}

/// The keys of a table's rows as those of a partition on a level above it.
fn part_of(
    member: &TableBody,
    oid: Oid,
    (parent, level): (&Object, &Level),
) -> Option<PartitionKeys> {
    let own = level.arms.iter().find(|arm| arm.table == oid)?;
    let keys = level.keys.iter().map(|(key, _)| match key {
        Expr::Column(at, _) => member.column(&body_of(parent).columns.get(*at)?.name),
        _ => None,
    });
    let others = level.arms.iter().filter(|arm| arm.table != oid);
    let others = others.filter(|_| matches!(own.takes, Takes::Rest));
    Some(PartitionKeys {
        columns: keys.collect(),
        takes: own.takes.clone(),
        others: others.map(|arm| arm.takes.clone()).collect(),
    })
}

/// All rows of nodes, one node after the other.
pub(super) fn united(mut nodes: Vec<Node>) -> Option<Node> {
    if nodes.len() <= 1 {
        return nodes.pop();
    }
    let rest = nodes.split_off(nodes.len() / 2);
    let union = SetOperation {
        kind: SetKind::Union,
        all: true,
        left: united(nodes)?,
        right: united(rest)?,
        order: None,
    };
    Some(union.into())
}
