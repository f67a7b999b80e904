//! The beginning of a session.
//!
//! A holder of the database may open a session of its owner; another role must be one that may log
//! in, within its limit.

use super::Session;
use crate::catalog::{Attribute, DATABASE, OWNER, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::sql::Sql;
use std::sync::Arc;

impl Sql {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// As [`Database::connect`](indelible::Database::connect).
    pub fn connect(self: &Arc<Self>) -> Result<Session> {
        let number = self.next_session();
        Session::new(self, number, OWNER).map(begun)
    }

    /// Opens a session of a role.
    ///
    /// # Errors
    ///
    /// 28000 if there is no such role, or it may not log in; 42501 if it has no right to connect;
    /// 53300 if it has as many sessions as it may have; as
    /// [`Database::connect`](indelible::Database::connect).
    pub fn connect_as(self: &Arc<Self>, role: &str) -> Result<Session> {
        let refused = |message: String| SqlError::new(SqlState("28000"), message);
        let catalog = self.catalog();
        let oid = catalog.role_named(role);
        let oid = oid.ok_or_else(|| refused(format!("role \"{role}\" does not exist")))?;
        if !catalog.has_attribute(oid, Attribute::Login) {
            return Err(refused(format!(
                "role \"{role}\" is not permitted to log in"
            )));
        }
        if !catalog.may(oid, DATABASE, Privilege::Connect.bit()) {
            let message = "permission denied for the database";
            let error = SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message);
            return Err(error.detail("User does not have CONNECT privilege."));
        }
        let limit = catalog.role(oid).map_or(-1, |body| body.connection_limit);
        if limit >= 0 && !catalog.is_superuser(oid) {
            let peers = self.registry.peers();
            let own = peers.iter().filter(|peer| peer.shown().role == oid);
            if own.count() as i64 >= limit {
                let message = format!("too many connections for role \"{role}\"");
                return Err(SqlError::new(SqlState::TOO_MANY_CONNECTIONS, message));
            }
        }
        let number = self.next_session();
        Session::new(self, number, oid).map(begun)
    }
}

/// A new session with the settings of its role.
fn begun(mut session: Session) -> Session {
    session.begin_as_role();
    session
}
