//! The catalogue: all objects of the database at one moment.
//!
//! A [`Catalog`] does not change. A statement that defines something makes another one, which is
//! its transaction's own until it commits; then it becomes that of all sessions. Objects are shared
//! between catalogues. Their rows are in a hidden table ([`store`]), so a rolled back definition is
//! gone with its transaction.

mod access;
mod constraint;
mod defaults;
mod domains;
mod fields;
mod grants;
mod hidden;
mod lineage;
mod object;
mod oid;
mod owned;
mod partitions;
mod predefined;
mod rights;
mod routine;
pub mod row_places;
pub mod sequence;
pub mod store;
mod texts;
mod typed;

pub use access::{Attribute, DATABASE_OWNER_NAME, OWNER_NAME, RoleBody};
pub use constraint::{Action, Constraint, Deferral, Foreign, Rule};
pub use defaults::{Defaults, DefaultsBody};
pub use domains::{Typed, is_of_type};
pub use grants::{AccessBody, Grant, Privilege, RolesOf, initial, privileges_of_kind};
pub use lineage::{Lineage, PartitionBound, RangeEnd, Scheme, Strategy};
pub use object::{
    Beginning, Body, Column, CompositeBody, DomainBody, EnumBody, Hidden, Index, IndexForm,
    Materialized, Object, Origin, PartComments, SequenceBody, TableBody, ViewBody,
};
pub use oid::{
    DATABASE, DATABASE_OWNER, EVERYONE, FIRST_OID, INDELIBLE, INFORMATION_SCHEMA, OWNER, Oid,
    PG_CATALOG, PUBLIC, array_of, domain_of,
};
pub use predefined::{
    CHECKPOINT, PREDEFINED, READ_ALL_SETTINGS, READ_ALL_STATS, SIGNAL_BACKEND,
    memberships_from_the_beginning, predefined_name,
};
pub use routine::FunctionBody;
pub use texts::Kept;
pub use typed::{is_typed, typed_by_name, typed_by_oid, typed_table};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Objects whose names must differ: relations (tables, views, sequences, indexes) or types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Names {
    /// Tables, views, sequences and indexes.
    Relations,
    /// Enums, domains and types of rows.
    Types,
    /// Schemas, which are in none.
    Schemas,
    /// Roles, which are in no schema.
    Roles,
    /// Owners and grants, named by the number of their object, and defaults of roles.
    Access,
    /// Functions, named by their names and the types of their arguments.
    Functions,
    /// Extensions, which are in no schema.
    Extensions,
}

/// All objects at one moment.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// Counts the catalogues of the open database.
    pub version: u64,
    objects: BTreeMap<Oid, Arc<Object>>,
    names: BTreeMap<(Names, Oid, String), Oid>,
    /// The tables of indexes and constraints, by the numbers of these.
    parts: BTreeMap<Oid, Oid>,
    /// The tables below, by the number of the table above.
    handles: BTreeMap<Oid, indelible::Table>,
    /// Tables, and those that inherit from them.
    heirs: BTreeSet<(Oid, Oid)>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self::new()
    }
}

impl Catalog {
    /// The catalogue of a database in which nothing has been defined.
    pub fn new() -> Self {
        let mut new = Self {
            version: 0,
            objects: BTreeMap::new(),
            names: BTreeMap::new(),
            parts: BTreeMap::new(),
            handles: BTreeMap::new(),
            heirs: BTreeSet::new(),
        };
        for (oid, name) in [
            (PG_CATALOG, "pg_catalog"),
            (PUBLIC, "public"),
            (INFORMATION_SCHEMA, "information_schema"),
            (INDELIBLE, "indelible"),
        ] {
            new.put(Object {
                oid,
                namespace: 0,
                name: name.to_owned(),
                comment: (oid == PUBLIC).then(|| "standard public schema".to_owned()),
                body: Body::Schema,
            });
        }
        new
    }

    /// The object with this number.
    pub fn object(&self, oid: Oid) -> Option<&Arc<Object>> {
        self.objects.get(&oid)
    }

    /// All objects, by their numbers.
    pub fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// The object with this name in a schema; for the name of an index its table.
    pub fn find(&self, names: Names, namespace: Oid, name: &str) -> Option<&Arc<Object>> {
        let key = (names, namespace, name.to_owned());
        let oid = *self.names.get(&key)?;
        self.object(oid)
            .or_else(|| self.index(oid).map(|(table, _)| table))
    }

    /// The number of the object or index with this name in a schema.
    pub fn find_oid(&self, names: Names, namespace: Oid, name: &str) -> Option<Oid> {
        self.names
            .get(&(names, namespace, name.to_owned()))
            .copied()
    }

    /// The schema with this name.
    pub fn schema(&self, name: &str) -> Option<Oid> {
        self.find_oid(Names::Schemas, 0, name)
    }

    /// The table of an index, and the index, by the number of the index.
    pub fn index(&self, oid: Oid) -> Option<(&Arc<Object>, &Index)> {
        let object = self.object(*self.parts.get(&oid)?)?;
        let Body::Table(table) = &object.body else {
            return None;
        };
        let index = table.indexes.iter().find(|index| index.oid == oid)?;
        Some((object, index))
    }

    /// The table of a constraint, and the constraint, by the number of the constraint.
    pub fn constraint(&self, oid: Oid) -> Option<(&Arc<Object>, &Constraint)> {
        let object = self.object(*self.parts.get(&oid)?)?;
        let Body::Table(table) = &object.body else {
            return None;
        };
        let mut constraints = table.constraints.iter();
        let constraint = constraints.find(|constraint| constraint.oid == oid)?;
        Some((object, constraint))
    }

    /// The table below that has the rows of a table.
    pub fn handle(&self, oid: Oid) -> Option<&indelible::Table> {
        self.handles.get(&oid)
    }

    /// The tables that inherit from a table, in the order of their numbers.
    pub fn heirs(&self, oid: Oid) -> Vec<Oid> {
        let heirs = self.heirs.range((oid, 0)..=(oid, Oid::MAX));
        heirs.map(|(_, heir)| *heir).collect()
    }

    /// The tables that inherit from a table, and those that inherit from them.
    pub fn descendants(&self, oid: Oid) -> Vec<Oid> {
        let mut found = self.heirs(oid);
        let mut next = 0;
        while let Some(&heir) = found.get(next) {
            next += 1;
            for oid in self.heirs(heir) {
                if !found.contains(&oid) {
                    found.push(oid);
                }
            }
        }
        found
    }

    /// Adds an object, or replaces the one with its number.
    pub fn put(&mut self, object: Object) {
        self.forget_names(object.oid);
        let names = names_of(&object);
        let key = (names, object.namespace, key_of(&object));
        self.names.insert(key, object.oid);
        if let Body::Table(table) = &object.body {
            for index in &table.indexes {
                let key = (Names::Relations, object.namespace, index.name.clone());
                self.names.insert(key, index.oid);
            }
            for part in table.parts() {
                self.parts.insert(part, object.oid);
            }
            let parents = table.lineage.parents.iter();
            self.heirs
                .extend(parents.map(|parent| (*parent, object.oid)));
        }
        self.objects.insert(object.oid, Arc::new(object));
    }

    /// Sets the table below of a table.
    pub fn set_handle(&mut self, oid: Oid, handle: indelible::Table) {
        self.handles.insert(oid, handle);
    }

    /// Removes an object.
    pub fn remove(&mut self, oid: Oid) {
        self.forget_names(oid);
        self.objects.remove(&oid);
        self.handles.remove(&oid);
    }

    /// Takes a schema out, with all that is in it, which it returns.
    pub fn remove_schema(&mut self, schema: Oid) -> Vec<Arc<Object>> {
        let is_within = |object: &Object| object.namespace == schema;
        let objects = self.objects().filter(|object| match &object.body {
            Body::Access(access) => self.object(access.object).is_some_and(|one| is_within(one)),
            _ => is_within(object),
        });
        let objects: Vec<_> = objects.cloned().collect();
        for object in &objects {
            self.remove(object.oid);
        }
        self.remove(schema);
        objects
    }

    /// The schemas of the temporary objects of all sessions.
    pub fn temporary_schemas(&self) -> impl Iterator<Item = Oid> + '_ {
        const BEGINNING: &str = "pg_temp_";
        let first = (Names::Schemas, 0, BEGINNING.to_owned());
        let schemas = self.names.range(first..);
        let schemas = schemas.take_while(|((names, _, name), _)| {
            *names == Names::Schemas && name.starts_with(BEGINNING)
        });
        schemas.map(|(_, oid)| *oid)
    }

    fn forget_names(&mut self, oid: Oid) {
        let Some(old) = self.objects.get(&oid).cloned() else {
            return;
        };
        self.names
            .remove(&(names_of(&old), old.namespace, key_of(&old)));
        if let Body::Table(table) = &old.body {
            for index in &table.indexes {
                let key = (Names::Relations, old.namespace, index.name.clone());
                self.names.remove(&key);
            }
            for part in table.parts() {
                self.parts.remove(&part);
            }
            for parent in &table.lineage.parents {
                self.heirs.remove(&(*parent, oid));
            }
        }
    }

    /// Whether a table of the catalogue has its rows in the table below with this name.
    pub fn uses(&self, physical: &str) -> bool {
        self.objects.values().any(|object| match &object.body {
            Body::Table(table) => table.physical == physical,
            _ => false,
        })
    }

    /// Whether an index of the catalogue is this one of a table below.
    pub fn uses_index(&self, physical: &str, index: &str) -> bool {
        self.objects.values().any(|object| match &object.body {
            Body::Table(table) => {
                let mut indexes = table.indexes.iter();
                table.physical == physical
                    && indexes.any(|own| own.physical.as_deref() == Some(index))
            }
            _ => false,
        })
    }

    /// Whether the state of a sequence of the catalogue is stored under a number.
    pub fn uses_sequence(&self, number: Oid) -> bool {
        self.objects.values().any(|object| match &object.body {
            Body::Sequence(sequence) => sequence.number(object.oid) == number,
            _ => false,
        })
    }

    /// Whether an object is a view, materialized or not, that reads another one.
    pub fn reads(object: &Object, oid: Oid) -> bool {
        match &object.body {
            Body::View(view) => view.reads.contains(&oid),
            Body::Table(table) => {
                let view = table.materialized.as_ref();
                view.is_some_and(|view| view.reads.contains(&oid))
            }
            _ => false,
        }
    }

    /// The foreign keys that refer to a table, with their tables.
    pub fn references_to(
        &self,
        parent: Oid,
    ) -> impl Iterator<Item = (&Arc<Object>, &Constraint, &Foreign)> {
        self.objects.values().flat_map(move |object| {
            let constraints: &[Constraint] = match &object.body {
                Body::Table(table) => &table.constraints,
                _ => &[],
            };
            constraints
                .iter()
                .filter_map(move |constraint| match &constraint.rule {
                    Rule::Foreign(foreign) if foreign.parent == parent => {
                        Some((object, constraint, foreign))
                    }
                    _ => None,
                })
        })
    }

    /// The foreign keys that refer to a table or to one that it is a partition of, which comes
    /// last.
    pub fn references_from_above(
        &self,
        oid: Oid,
    ) -> impl Iterator<Item = (&Arc<Object>, &Constraint, &Foreign)> {
        let levels = std::iter::successors(Some(oid), |at| self.partition_parent(*at));
        levels.flat_map(|at| self.references_to(at))
    }
}

/// The name by which an object is found.
fn key_of(object: &Object) -> String {
    match &object.body {
        Body::Function(body) => body.key(&object.name),
        _ => object.name.clone(),
    }
}

fn names_of(object: &Object) -> Names {
    match object.body {
        Body::Schema => Names::Schemas,
        Body::Table(_) | Body::View(_) | Body::Sequence(_) => Names::Relations,
        Body::Enum(_) | Body::Domain(_) | Body::Composite(_) => Names::Types,
        Body::Role(_) => Names::Roles,
        Body::Access(_) | Body::Defaults(_) => Names::Access,
        Body::Function(_) => Names::Functions,
        Body::Extension => Names::Extensions,
    }
}
