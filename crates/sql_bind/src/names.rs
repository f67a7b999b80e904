//! Objects by their names, along the search path.
//!
//! Temporary objects come first, then those of the system, then the schemas of the path in their
//! order.

use crate::catalog::{
    Body, Catalog, Names as Group, OWNER, Object, Oid, PG_CATALOG, Privilege, array_of, domain_of,
};
use crate::error::{Result, SqlError, SqlState};
use crate::system;
use crate::types::kind::ARRAY_OF_ROWS;
use crate::types::{Kind, Names as _, Type};
pub use sql_plan::print::quoted;
use std::sync::Arc;

/// The catalogue as a session sees it.
#[derive(Clone)]
pub struct SessionNames {
    /// The catalogue.
    pub catalog: Arc<Catalog>,
    /// Names of the schemas that are searched, in their order.
    pub search_path: Vec<String>,
    /// The schema of the session's temporary objects, once there are any.
    pub temporary: Option<Oid>,
    /// The role whose privileges count.
    pub role: Oid,
    /// Whether no privileges are looked at: a text is read, and not the rows that it asks for.
    pub has_all_rights: bool,
    /// A label whose values are being written anew.
    pub renamed: Option<RenamedLabel>,
}

/// A label that gets another name: values that have the earlier one are read as the new one.
#[derive(Clone, Debug)]
pub struct RenamedLabel {
    /// The enum.
    pub of: Oid,
    /// The earlier name.
    pub old: String,
    /// The new name.
    pub new: String,
}

impl SessionNames {
    /// A catalogue as its owner sees it, with the search path that a session begins with.
    pub fn new(catalog: Arc<Catalog>) -> Self {
        Self {
            catalog,
            search_path: vec!["public".to_owned()],
            temporary: None,
            role: OWNER,
            has_all_rights: false,
            renamed: None,
        }
    }

    /// The schemas that are searched, those that are always searched included.
    pub fn schemas(&self) -> impl Iterator<Item = Oid> + '_ {
        let named = self.search_path.iter();
        let named = named.filter_map(|name| self.catalog.schema(name));
        self.temporary.into_iter().chain([PG_CATALOG]).chain(named)
    }

    /// The schema in which new objects are made.
    pub fn target_schema(&self) -> Result<Oid> {
        let mut named = self.search_path.iter();
        named
            .find_map(|name| self.catalog.schema(name))
            .ok_or_else(|| {
                let message = "no schema has been selected to create in";
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
            })
    }

    /// The schema with this name, which must exist.
    pub fn schema(&self, name: &str) -> Result<Oid> {
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
    pub fn find(&self, group: Group, schema: Option<&str>, name: &str) -> Option<&Arc<Object>> {
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

    /// The name by which statements know the schema of an object.
    pub(crate) fn schema_of(&self, object: &Object) -> String {
        let schema = self.catalog.object(object.namespace);
        match schema {
            Some(schema) if self.temporary != Some(schema.oid) => schema.name.clone(),
            _ => "pg_temp".to_owned(),
        }
    }

    /// Whether a schema is that of another session's temporary objects.
    pub fn is_others(&self, namespace: Oid) -> bool {
        let schema = self.catalog.object(namespace);
        let is_temporary = schema.is_some_and(|schema| schema.name.starts_with("pg_temp_"));
        is_temporary && self.temporary != Some(namespace)
    }

    /// Fails unless a role has one of some privileges on an object, and may use its schema.
    pub fn check(&self, role: Oid, object: &Object, privileges: i64) -> Result<()> {
        if self.has_all_rights || self.catalog.is_superuser(role) {
            return Ok(());
        }
        if let Some(schema) = self.catalog.object(object.namespace)
            && self.temporary != Some(schema.oid)
            && !self.catalog.may(role, schema.oid, Privilege::Usage.bit())
        {
            return Err(self.denied(schema));
        }
        if self.catalog.may(role, object.oid, privileges) {
            return Ok(());
        }
        Err(self.denied(object))
    }

    /// The error of an object that a role may not use.
    pub fn denied(&self, object: &Object) -> SqlError {
        let message = format!(
            "permission denied for {} {}",
            object.kind_name(),
            object.name
        );
        SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
    }

    /// The type of a number: one that is built in, one that a statement has defined, or the array
    /// of one.
    pub fn type_of_oid(&self, oid: Oid) -> Option<Type> {
        if let Some(kind) = Kind::from_oid(oid) {
            return Some(kind.plain());
        }
        let defined = |oid: Oid| match &self.catalog.object(oid)?.body {
            Body::Enum(_) => Some(Kind::Enum(oid).plain()),
            Body::Table(_) | Body::View(_) | Body::Composite(_) => {
                Some(Kind::Composite(oid).plain())
            }
            Body::Domain(domain) => Some(domain.base),
            _ => None,
        };
        let elements = [oid.wrapping_sub(1), oid & !ARRAY_OF_ROWS];
        defined(oid).or_else(|| {
            let mut elements = elements.into_iter().filter_map(defined);
            let array = elements.find_map(|element| {
                let array = element.kind.array()?;
                (array.oid() == oid).then(|| array.plain())
            });
            array.or_else(|| {
                let (below, _) = self.catalog.below(domain_of(oid))?;
                Some(below.kind.array()?.plain())
            })
        })
    }

    /// The number of a relation of a schema: a type of rows is one as well.
    pub(crate) fn relation_in(&self, schema: Oid, name: &str) -> Option<Oid> {
        let catalog = &self.catalog;
        catalog
            .find_oid(Group::Relations, schema, name)
            .or_else(|| {
                let found = catalog.find_oid(Group::Types, schema, name)?;
                let body = &catalog.object(found)?.body;
                matches!(body, Body::Composite(_)).then_some(found)
            })
    }

    /// The number of the type of a name, which may have a length or `[]` behind it; `schema` and
    /// `last` are the parts of the name.
    pub(crate) fn type_oid(&self, name: &str, schema: Option<&str>, last: &str) -> Option<Oid> {
        let array_of = |oid: Oid| match self.catalog.below(oid) {
            Some((below, _)) => below.kind.array().map(|_| array_of(oid)),
            None => Some(self.type_of_oid(oid)?.kind.array()?.oid()),
        };
        let other = |name: &str| {
            let mut others = OTHER_TYPES.iter();
            others.find(|(_, own)| *own == name).map(|(oid, _)| *oid)
        };
        if let Some(element) = name.trim_end().strip_suffix("[]") {
            let element = element.trim_end_matches("[]");
            let known = self.object_oid(Kind::Regtype, element).ok()?;
            return array_of(known).or_else(|| other(&format!("{element}[]")));
        }
        if let Some((before, rest)) = name.split_once('(') {
            let (_, after) = rest.split_once(')')?;
            return self
                .object_oid(Kind::Regtype, &format!("{before}{after}"))
                .ok();
        }
        let of_system = schema.is_none_or(|schema| schema == "pg_catalog");
        let quoted = || Kind::from_name(last).filter(|_| of_system);
        let words: Vec<&str> = name.split_whitespace().collect();
        if let Some(kind) = Kind::from_name(&words.join(" ")).or_else(quoted) {
            return Some(kind.oid());
        }
        if let Some(oid) = system::name_only(last).filter(|_| of_system) {
            return Some(oid);
        }
        let of_user = |name: &str| {
            let found = self.user_type(schema, name).map(|(_, object)| object.oid);
            found.or_else(|| {
                let object = self.find(Group::Relations, schema, name)?;
                matches!(object.body, Body::Table(_) | Body::View(_)).then_some(object.oid)
            })
        };
        let found = of_user(last).or_else(|| array_of(of_user(last.strip_prefix('_')?)?));
        found.or_else(|| other(last).filter(|_| of_system))
    }

    /// The text of a type that is the catalogue's own: an enum, its arrays, a domain, or the rows
    /// of a relation.
    pub fn type_text(&self, oid: Oid) -> Option<String> {
        if let Some((_, name)) = OTHER_TYPES.iter().find(|(own, _)| *own == oid) {
            return Some((*name).to_owned());
        }
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
    pub fn visible_name(&self, object: &Object) -> String {
        let group = match object.body {
            Body::Enum(_) | Body::Domain(_) | Body::Composite(_) => Group::Types,
            Body::Function(_) => Group::Functions,
            _ => Group::Relations,
        };
        let found = match &object.body {
            Body::Function(body) => self.find(group, None, &body.key(&object.name)),
            _ => self.find(group, None, &object.name),
        };
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

/// Types of PostgreSQL that no value here has, with their numbers: tools compare types of functions
/// with them.
const OTHER_TYPES: [(Oid, &str); 24] = [
    (32, "pg_ddl_command"),
    (142, "xml"),
    (143, "xml[]"),
    (269, "table_am_handler"),
    (325, "index_am_handler"),
    (1033, "aclitem"),
    (1034, "aclitem[]"),
    (1560, "bit"),
    (1561, "bit[]"),
    (1562, "bit varying"),
    (1562, "varbit"),
    (1563, "bit varying[]"),
    (2275, "cstring"),
    (1263, "cstring[]"),
    (2279, "trigger"),
    (2280, "language_handler"),
    (2281, "internal"),
    (3115, "fdw_handler"),
    (3310, "tsm_handler"),
    (3831, "anyrange"),
    (3838, "event_trigger"),
    (4537, "anymultirange"),
    (5080, "anycompatiblerange"),
    (4538, "anycompatiblemultirange"),
];

/// Cuts a name with dots into its parts; quotes keep dots, case and blanks, which are left out
/// around parts.
pub fn parts_of(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut blanks = String::new();
    let mut characters = text.trim().chars().peekable();
    while let Some(one) = characters.next() {
        match one {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                part.push('"');
                characters.next();
            }
            '"' => is_quoted = !is_quoted,
            one if is_quoted => part.push(one),
            '.' => {
                blanks.clear();
                parts.push(std::mem::take(&mut part));
            }
            one if one.is_whitespace() => blanks.push(one),
            one => {
                let before = std::mem::take(&mut blanks);
                // Words of a type have blanks between them.
                if !part.is_empty() {
                    part.push_str(&before);
                }
                part.extend(one.to_lowercase());
            }
        }
    }
    parts.push(part);
    parts
}
