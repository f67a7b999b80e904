//! Objects by their names, along the search path; and names of objects for their texts.
//!
//! Temporary objects come first, then those of the system, then the schemas of the path in their
//! order.

use crate::catalog::system::{self, Routine};
use crate::catalog::{Body, Catalog, Names as Group, OWNER, Object, Oid, PG_CATALOG, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::types::kind::ARRAY_OF_ROWS;
use crate::types::{EnumLabel, Kind, Names, RecordShape, Type};
pub(crate) use sql_plan::print::quoted;
use std::sync::Arc;

/// The catalogue as a session sees it.
#[derive(Clone)]
pub(crate) struct SessionNames {
    pub(crate) catalog: Arc<Catalog>,
    /// Names of the schemas that are searched, in their order.
    pub(crate) search_path: Vec<String>,
    /// The schema of the session's temporary objects, once there are any.
    pub(crate) temporary: Option<Oid>,
    /// The role whose privileges count.
    pub(crate) role: Oid,
}

impl SessionNames {
    pub(crate) fn new(catalog: Arc<Catalog>) -> Self {
        Self {
            catalog,
            search_path: vec!["public".to_owned()],
            temporary: None,
            role: OWNER,
        }
    }

    /// The schemas that are searched, those that are always searched included.
    pub(crate) fn schemas(&self) -> impl Iterator<Item = Oid> + '_ {
        let named = self.search_path.iter();
        let named = named.filter_map(|name| self.catalog.schema(name));
        self.temporary.into_iter().chain([PG_CATALOG]).chain(named)
    }

    /// The schema in which new objects are made.
    pub(crate) fn target_schema(&self) -> Result<Oid> {
        let mut named = self.search_path.iter();
        named
            .find_map(|name| self.catalog.schema(name))
            .ok_or_else(|| {
                let message = "no schema has been selected to create in";
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
            })
    }

    /// The schema with this name, which must exist.
    pub(crate) fn schema(&self, name: &str) -> Result<Oid> {
        if name == "pg_temp"
            && let Some(temporary) = self.temporary
        {
            return Ok(temporary);
        }
        self.catalog.schema(name).ok_or_else(|| {
            let message = format!("schema \"{name}\" does not exist");
            SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
        })
    }

    /// The first object with this name along the search path, or in the schema that is given.
    pub(crate) fn find(
        &self,
        group: Group,
        schema: Option<&str>,
        name: &str,
    ) -> Option<&Arc<Object>> {
        match schema {
            Some(schema) => {
                let schema = self.schema(schema).ok()?;
                self.catalog.find(group, schema, name)
            }
            None => self
                .schemas()
                .find_map(|schema| self.catalog.find(group, schema, name)),
        }
    }

    /// The type with this name that a user has defined, with the domain it is, if it is one.
    pub(crate) fn user_type(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Option<(Type, &Arc<Object>)> {
        let object = self
            .find(Group::Types, schema, name)
            .or_else(|| self.find(Group::Relations, schema, name))?;
        let data_type = match &object.body {
            Body::Composite(_) => Kind::Composite(object.oid).plain(),
            // The rows of a table are a type of its name.
            Body::Table(_) if object.name == name => Kind::Composite(object.oid).plain(),
            Body::Enum(_) => Kind::Enum(object.oid).plain(),
            Body::Domain(domain) => domain.base,
            _ => return None,
        };
        Some((data_type, object))
    }

    /// Fails unless a role has one of some privileges on an object, and may use its schema.
    pub(crate) fn check(&self, role: Oid, object: &Object, privileges: i64) -> Result<()> {
        if self.catalog.is_superuser(role) {
            return Ok(());
        }
        if let Some(schema) = self.catalog.object(object.namespace)
            && self.temporary != Some(schema.oid)
            && !self.catalog.may(role, schema, Privilege::Usage.bit())
        {
            return Err(self.denied(schema));
        }
        if self.catalog.may(role, object, privileges) {
            return Ok(());
        }
        Err(self.denied(object))
    }

    /// The error of an object that a role may not use.
    pub(crate) fn denied(&self, object: &Object) -> SqlError {
        let message = format!(
            "permission denied for {} {}",
            object.kind_name(),
            object.name
        );
        SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
    }

    /// The text of a type that is the catalogue's own: an enum, its arrays, a domain, or the rows
    /// of a relation.
    pub(crate) fn type_text(&self, oid: Oid) -> Option<String> {
        if let Some(object) = self.catalog.object(oid) {
            return Some(self.visible_name(object));
        }
        if let Some(object) = self.catalog.object(oid & !ARRAY_OF_ROWS) {
            return Some(self.visible_name(object) + "[]");
        }
        let object = self.catalog.object(oid.wrapping_sub(1))?;
        matches!(object.body, Body::Enum(_)).then(|| self.visible_name(object) + "[]")
    }

    /// The name of an object, with its schema if the search path does not lead to it.
    pub(crate) fn visible_name(&self, object: &Object) -> String {
        let group = match object.body {
            Body::Enum(_) | Body::Domain(_) | Body::Composite(_) => Group::Types,
            _ => Group::Relations,
        };
        let found = self.find(group, None, &object.name);
        let name = quoted(&object.name);
        if found.is_some_and(|found| found.oid == object.oid) {
            return name;
        }
        match self.catalog.object(object.namespace) {
            Some(schema) => format!("{}.{name}", quoted(&schema.name)),
            None => name,
        }
    }
}

/// Cuts a name with dots into its parts; quotes keep dots and case.
pub(crate) fn parts_of(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut characters = text.trim().chars().peekable();
    while let Some(one) = characters.next() {
        match one {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                part.push('"');
                characters.next();
            }
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(std::mem::take(&mut part)),
            one if is_quoted => part.push(one),
            one => part.extend(one.to_lowercase()),
        }
    }
    parts.push(part);
    parts
}

impl SessionNames {
    /// Labels of an enum with their places.
    fn enum_labels_of(&self, oid: u32) -> impl Iterator<Item = EnumLabel> + '_ {
        let body = match self.catalog.object(oid).map(|object| &object.body) {
            Some(Body::Enum(body)) => Some(body),
            _ => None,
        };
        let labels = body
            .into_iter()
            .flat_map(|body| body.places.iter().zip(&body.labels));
        labels.map(|(place, label)| EnumLabel {
            place: *place,
            label: label.as_str().into(),
        })
    }
}

impl Names for SessionNames {
    fn enum_label(&self, enum_oid: u32, label: &str) -> Option<EnumLabel> {
        let mut labels = self.enum_labels_of(enum_oid);
        labels.find(|one| &*one.label == label)
    }

    fn enum_labels(&self, enum_oid: u32) -> Vec<EnumLabel> {
        self.enum_labels_of(enum_oid).collect()
    }

    fn type_name(&self, kind: Kind) -> Option<String> {
        let (oid, suffix) = match kind {
            Kind::Enum(oid) | Kind::Composite(oid) => (oid, ""),
            Kind::EnumArray(oid) | Kind::CompositeArray(oid) => (oid, "[]"),
            _ => return None,
        };
        let object = self.catalog.object(oid)?;
        Some(self.visible_name(object) + suffix)
    }

    fn row_shape(&self, composite_oid: u32) -> Option<Arc<RecordShape>> {
        if composite_oid == super::describe::EXPANDED {
            let (names, types) = super::describe::EXPANDED_FIELDS
                .iter()
                .map(|(name, kind)| (Arc::from(*name), kind.plain()))
                .unzip();
            return Some(Arc::new(RecordShape { names, types }));
        }
        let (names, types) = match &self.catalog.object(composite_oid)?.body {
            Body::Table(table) => {
                let columns = table.columns.iter();
                let columns = columns.map(|column| (column.name.as_str().into(), column.data_type));
                columns.unzip()
            }
            Body::Composite(fields) => {
                let fields = fields.iter();
                fields
                    .map(|(name, data_type)| (name.as_str().into(), *data_type))
                    .unzip()
            }
            _ => return None,
        };
        Some(Arc::new(RecordShape { names, types }))
    }

    fn object_name(&self, kind: Kind, oid: u32) -> Option<String> {
        match kind {
            Kind::Regtype => match Kind::from_oid(oid) {
                Some(kind) => Some(kind.name()),
                None => self.type_text(oid),
            },
            Kind::Regclass => {
                let system = || {
                    let relation = system::by_oid(oid)?;
                    Some(match relation.is_visible() {
                        true => relation.name.to_owned(),
                        false => format!("{}.{}", relation.schema, relation.name),
                    })
                };
                let index = || {
                    self.catalog
                        .index(oid)
                        .map(|(_, index)| quoted(&index.name))
                };
                let object = self.catalog.object(oid);
                let object = object.map(|object| self.visible_name(object));
                object.or_else(index).or_else(system)
            }
            Kind::Regnamespace => self.catalog.object(oid).map(|object| quoted(&object.name)),
            Kind::Regproc => system::routine(oid).map(|routine| quoted(&routine.name)),
            Kind::Regprocedure => system::routine(oid).map(Routine::signature),
            Kind::Regoper => system::operator(oid).map(|operator| operator.name.to_owned()),
            Kind::Regrole => self.catalog.role_name(oid).map(quoted),
            _ => None,
        }
    }

    fn object_oid(&self, kind: Kind, name: &str) -> Result<u32> {
        let parts = parts_of(name);
        let (schema, last) = match parts.as_slice() {
            [name] => (None, name.as_str()),
            // Every name of a database means this one.
            [schema, name] | [_, schema, name] => (Some(schema.as_str()), name.as_str()),
            _ => {
                let message = format!("invalid name syntax: {name}");
                return Err(SqlError::new(SqlState::INVALID_NAME, message));
            }
        };
        let (found, state, what) = match kind {
            Kind::Regtype => {
                let of_system = schema.is_none_or(|schema| schema == "pg_catalog");
                let quoted = || Kind::from_name(last).filter(|_| of_system);
                let built_in = Kind::from_name(name.trim()).or_else(quoted).map(Kind::oid);
                let of_rows = || {
                    let object = self.find(Group::Relations, schema, last)?;
                    matches!(object.body, Body::Table(_) | Body::View(_)).then_some(object.oid)
                };
                let of_user = || {
                    let found = self.user_type(schema, last).map(|(_, object)| object.oid);
                    found.or_else(of_rows)
                };
                (
                    built_in.or_else(of_user),
                    SqlState::UNDEFINED_OBJECT,
                    "type",
                )
            }
            Kind::Regnamespace => (
                self.catalog.schema(last),
                SqlState::INVALID_SCHEMA_NAME,
                "schema",
            ),
            Kind::Regproc | Kind::Regprocedure => {
                let found = system::routine_called(last);
                (found, SqlState::UNDEFINED_FUNCTION, "function")
            }
            Kind::Regoper => {
                let found = system::operator_named(last);
                (found, SqlState::UNDEFINED_FUNCTION, "operator")
            }
            Kind::Regrole => (
                self.catalog.role_named(last),
                SqlState::UNDEFINED_OBJECT,
                "role",
            ),
            Kind::Regclass if let Some(relation) = system::find(schema, last) => {
                return Ok(relation.oid);
            }
            Kind::Regclass => {
                let found = match schema {
                    Some(schema) => {
                        let schema = self.schema(schema)?;
                        self.catalog.find_oid(Group::Relations, schema, last)
                    }
                    None => self
                        .schemas()
                        .find_map(|schema| self.catalog.find_oid(Group::Relations, schema, last)),
                };
                (found, SqlState::UNDEFINED_TABLE, "relation")
            }
            _ => (None, SqlState::UNDEFINED_OBJECT, "object"),
        };
        found.ok_or_else(|| SqlError::new(state, format!("{what} \"{name}\" does not exist")))
    }
}
