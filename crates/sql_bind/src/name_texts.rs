//! Names of objects in texts of values: labels of enums, and `regclass` and its kin.
//!
//! Objects of the system have names too, so this is above the relations of the system, which look
//! objects up themselves.

use super::names::{SessionNames, parts_of, quoted};
use crate::catalog::{Body, Names as Group};
use crate::error::{Result, SqlError, SqlState};
use crate::system::{self, Routine};
use crate::types::function::session::EXPANDED;
use crate::types::{EnumLabel, Kind, Names, RecordShape};
use sql_parse::cut;
use std::sync::Arc;

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

impl SessionNames {
    /// The function of a user that a text names, for `regprocedure` with the types of its
    /// arguments; none if there is none, or the name is that of several.
    fn user_routine(&self, kind: Kind, text: &str) -> Option<u32> {
        let (name, arguments) = match (kind, text.split_once('(')) {
            (Kind::Regprocedure, Some((name, rest))) => (name, rest.trim_end().strip_suffix(')')?),
            (Kind::Regproc, None) => (text, ""),
            _ => return None,
        };
        let arguments = arguments.split(',').filter(|one| !one.trim().is_empty());
        let types = arguments.map(|one| self.object_oid(Kind::Regtype, one.trim()).ok());
        let types: Vec<u32> = types.collect::<Option<_>>()?;
        let mut parts = parts_of(name);
        let (name, schema) = (parts.pop()?, parts.pop());
        let mut found = self.catalog.objects().filter(|object| {
            let Body::Function(body) = &object.body else {
                return false;
            };
            let own = body.arguments.iter().map(|(_, one)| one.kind.oid());
            let is_meant = || {
                let found = self.find(Group::Functions, schema.as_deref(), &body.key(&name));
                found.is_some_and(|found| found.oid == object.oid)
            };
            object.name == name
                && (kind == Kind::Regproc || own.eq(types.iter().copied()))
                && is_meant()
        });
        let first = found.next()?;
        found.next().is_none().then_some(first.oid)
    }
}

impl Names for SessionNames {
    fn enum_label(&self, enum_oid: u32, label: &str) -> Option<EnumLabel> {
        let known = |label: &str| {
            let mut labels = self.enum_labels_of(enum_oid);
            labels.find(|one| &*one.label == label)
        };
        known(label).or_else(|| {
            let renamed = self.renamed.as_ref();
            let renamed = renamed.filter(|one| one.of == enum_oid && one.old == label);
            known(&renamed?.new)
        })
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
        let mut expanded = EXPANDED.iter();
        if let Some((_, element)) = expanded.find(|(oid, _)| *oid == composite_oid) {
            let fields = [("x", *element), ("n", Kind::Int4)];
            let fields = fields.map(|(name, kind)| (Arc::from(name), kind.plain()));
            let (names, types) = fields.into_iter().unzip();
            return Some(Arc::new(RecordShape { names, types }));
        }
        let (names, types) = match &self.catalog.object(composite_oid)?.body {
            Body::Table(table) => {
                let columns = table.columns.iter();
                let columns = columns.map(|column| (column.name.as_str().into(), column.data_type));
                columns.unzip()
            }
            Body::Composite(body) => {
                let fields = body.fields.iter();
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
                None => {
                    let of_system = || system::name_of(oid).map(str::to_owned);
                    self.type_text(oid).or_else(of_system)
                }
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
                    let (table, index) = self.catalog.index(oid)?;
                    let name = quoted(&index.name);
                    let catalog = &self.catalog;
                    let has = |schema: &u32| {
                        catalog
                            .find_oid(Group::Relations, *schema, &index.name)
                            .is_some()
                    };
                    if self.schemas().find(has) == Some(table.namespace) {
                        return Some(name);
                    }
                    let schema = catalog.object(table.namespace)?;
                    Some(format!("{}.{name}", quoted(&schema.name)))
                };
                let object = self.catalog.object(oid);
                let object = object.map(|object| self.visible_name(object));
                object.or_else(index).or_else(system)
            }
            Kind::Regnamespace => self.catalog.object(oid).map(|object| quoted(&object.name)),
            Kind::Regproc => {
                let of_user = || Some(self.visible_name(self.catalog.object(oid)?));
                let routine = system::routine(oid).map(|routine| quoted(&routine.name));
                routine.or_else(of_user)
            }
            Kind::Regprocedure => {
                let of_user = || {
                    let object = self.catalog.object(oid)?;
                    let Body::Function(body) = &object.body else {
                        return None;
                    };
                    let arguments = body.arguments.iter();
                    let types: Vec<_> = arguments.map(|(_, one)| one.kind.name()).collect();
                    Some(format!(
                        "{}({})",
                        self.visible_name(object),
                        types.join(",")
                    ))
                };
                system::routine(oid)
                    .map(Routine::signature)
                    .or_else(of_user)
            }
            Kind::Regoper => system::operator(oid).map(|operator| operator.name.to_owned()),
            Kind::Regoperator => system::operator(oid).map(system::operator_signature),
            Kind::Regrole => self.catalog.role_name(oid).map(quoted),
            _ => None,
        }
    }

    fn object_oid(&self, kind: Kind, name: &str) -> Result<u32> {
        let mut parts = parts_of(name);
        // Those of other kinds have types in brackets after their names.
        if matches!(kind, Kind::Regclass | Kind::Regnamespace | Kind::Regrole) {
            parts = parts.into_iter().map(cut).collect();
        }
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
            Kind::Regtype => (
                self.type_oid(name, schema, last),
                SqlState::UNDEFINED_OBJECT,
                "type",
            ),
            Kind::Regnamespace => (
                self.catalog.schema(last),
                SqlState::INVALID_SCHEMA_NAME,
                "schema",
            ),
            Kind::Regproc | Kind::Regprocedure => {
                let found = system::routine_called(last);
                let found = found.or_else(|| self.user_routine(kind, name));
                (found, SqlState::UNDEFINED_FUNCTION, "function")
            }
            Kind::Regoper => {
                let found = system::operator_named(last);
                (found, SqlState::UNDEFINED_FUNCTION, "operator")
            }
            Kind::Regoperator => {
                let found = system::operator_called(last);
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
                    Some(schema) => self.relation_in(self.schema(schema)?, last),
                    None => self
                        .schemas()
                        .find_map(|schema| self.relation_in(schema, last)),
                };
                (found, SqlState::UNDEFINED_TABLE, "relation")
            }
            _ => (None, SqlState::UNDEFINED_OBJECT, "object"),
        };
        found.ok_or_else(|| {
            // A name of a function is shown as it is written, and others as they are read.
            let shown = match kind {
                Kind::Regproc | Kind::Regprocedure | Kind::Regoper | Kind::Regoperator => {
                    name.to_owned()
                }
                _ => parts.join("."),
            };
            SqlError::new(state, format!("{what} \"{shown}\" does not exist"))
        })
    }
}
