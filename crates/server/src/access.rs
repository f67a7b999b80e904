//! Who may connect.
//!
//! | by | who | proof |
//! |---|---|---|
//! | the Unix socket | the owner of the database's directory | the operating system says so (`peer`) |
//! | TCP, with `--trust` | anybody of this machine | none |
//! | TCP | nobody | – |

use crate::link::Link;
use crate::server::Shared;
use sql::{SqlError, SqlState};

/// Fails unless the client at the other end may connect in this role.
pub(crate) fn authenticate(link: &Link, shared: &Shared, role: &str) -> Result<(), SqlError> {
    let refused = |message: String, hint: &str| {
        let state = SqlState::INVALID_AUTHORIZATION_SPECIFICATION;
        Err(SqlError::new(state, message).hint(hint))
    };
    if shared.options.trusts {
        return Ok(());
    }
    match link.socket().peer_user() {
        Some(user) if user == shared.owner => Ok(()),
        Some(_) => refused(
            format!("peer authentication failed for user \"{role}\""),
            "Connect as the operating system's user who owns the database's directory.",
        ),
        None => refused(
            format!("user \"{role}\" cannot connect over TCP"),
            "Use the Unix socket, or start the server with --trust to let in everybody on this \
             machine.",
        ),
    }
}
