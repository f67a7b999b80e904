//! Temporary objects, and those that must not depend on them.
//!
//! At the end of a session its temporary objects are taken out of the catalogue, and nothing that
//! depends on them. So permanent objects may not name them, and tables that share rows or keys are
//! all temporary or all permanent.

use super::materialized::materialized;
use crate::catalog::{Body, Object, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;

/// The way in which a table gets another one above it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Descent {
    /// By inheritance.
    Inherits,
    /// As a partition that is created.
    Created,
    /// As a partition that is attached.
    Attached,
}

impl Session {
    /// Fails if only one of two tables is temporary, and one would refer to the other.
    pub(super) fn check_reference_lasts(&self, child: &Object, parent: &Object) -> Result<()> {
        let namespaces = [child.namespace, parent.namespace];
        let message = match namespaces.map(|namespace| self.is_of_session(namespace)) {
            [false, true] => "constraints on permanent tables may reference only permanent tables",
            [true, false] => "constraints on temporary tables may reference only temporary tables",
            [true, true] if child.namespace != parent.namespace => {
                "constraints on temporary tables must involve temporary tables of this session"
            }
            _ => return Ok(()),
        };
        Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
    }

    /// Fails if a table of a schema would lose the one above it, or its rows, at the end of a
    /// session.
    pub(super) fn check_descent_lasts(
        &self,
        namespace: Oid,
        parent: &Object,
        descent: Descent,
    ) -> Result<()> {
        let kinds = [namespace, parent.namespace].map(|namespace| self.is_of_session(namespace));
        let verb = match descent {
            Descent::Created => "create",
            Descent::Attached => "attach",
            Descent::Inherits => "inherit",
        };
        let (is_partition, name) = (descent != Descent::Inherits, &parent.name);
        let message = match kinds {
            [false, true] if is_partition => format!(
                "cannot {verb} a permanent relation as partition of temporary relation \"{name}\""
            ),
            [true, false] if is_partition => format!(
                "cannot {verb} a temporary relation as partition of permanent relation \"{name}\""
            ),
            [false, true] => format!("cannot {verb} from temporary relation \"{name}\""),
            [true, true] if namespace != parent.namespace && is_partition => {
                format!("cannot {verb} as partition of temporary relation of another session")
            }
            [true, true] if namespace != parent.namespace => {
                format!("cannot {verb} from temporary relation of another session")
            }
            _ => return Ok(()),
        };
        Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
    }

    /// Fails if an object that is permanent names a temporary one.
    pub(super) fn check_lasts(&self, object: &Object) -> Result<()> {
        let catalog = self.catalog();
        let has_temporary = catalog.temporary_schemas().next().is_some();
        if !has_temporary || self.is_of_session(object.namespace) {
            return Ok(());
        }
        let named = object.named().into_iter();
        let named = named.chain(self.named_in_texts(object));
        let mut named = named.filter_map(|oid| catalog.object(oid));
        let Some(found) = named.find(|found| self.is_of_session(found.namespace)) else {
            return Ok(());
        };
        let is_relation = matches!(found.body, Body::Table(_) | Body::View(_));
        if materialized(object).is_some() && is_relation {
            let message = "materialized views must not use temporary tables or views";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let [own, other] =
            [object, &**found].map(|one| format!("{} {}", one.kind_name(), one.name));
        let message = format!("permanent {own} cannot depend on temporary {other}");
        let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        Err(error.hint("Make both of them temporary, or both permanent."))
    }

    /// Whether a schema is that of a session's temporary objects, of this one or another.
    fn is_of_session(&self, namespace: Oid) -> bool {
        self.is_temporary(namespace) || self.is_others(namespace)
    }
}
