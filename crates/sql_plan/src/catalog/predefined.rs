//! Roles that every database of PostgreSQL has, for rights that belong to no single object.
//!
//! Each is there from the beginning, cannot log in, and becomes an object of the catalogue with its
//! first member. It has the number that PostgreSQL gives it.

use super::grants::Privilege;
use super::oid::Oid;
use std::collections::BTreeSet;

/// Has the rights of those who see all settings and all statistics.
const MONITOR: Oid = 3373;
/// Sees all settings.
pub const READ_ALL_SETTINGS: Oid = 3374;
/// Sees the statements of all sessions.
pub const READ_ALL_STATS: Oid = 3375;
/// For functions that read whole tables for statistics, of which there are none here.
const STAT_SCAN_TABLES: Oid = 3377;
/// Ends the statements and sessions of all roles but superusers.
pub const SIGNAL_BACKEND: Oid = 4200;
/// May run `CHECKPOINT`.
pub const CHECKPOINT: Oid = 4544;
/// Reads all tables, views and sequences, and uses all schemas.
const READ_ALL_DATA: Oid = 6181;
/// Changes the rows of all tables, and uses all schemas.
const WRITE_ALL_DATA: Oid = 6182;

/// The roles, by their names.
pub const PREDEFINED: [(&str, Oid); 8] = [
    ("pg_checkpoint", CHECKPOINT),
    ("pg_monitor", MONITOR),
    ("pg_read_all_data", READ_ALL_DATA),
    ("pg_read_all_settings", READ_ALL_SETTINGS),
    ("pg_read_all_stats", READ_ALL_STATS),
    ("pg_signal_backend", SIGNAL_BACKEND),
    ("pg_stat_scan_tables", STAT_SCAN_TABLES),
    ("pg_write_all_data", WRITE_ALL_DATA),
];

/// The name of a role, if it is one of these.
pub fn predefined_name(role: Oid) -> Option<&'static str> {
    let found = PREDEFINED.into_iter().find(|(_, oid)| *oid == role);
    found.map(|(name, _)| name)
}

/// The number of a role, if it is one of these.
pub(super) fn predefined_named(name: &str) -> Option<Oid> {
    let found = PREDEFINED.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, oid)| oid)
}

/// The roles that a role is a member of from the beginning.
pub fn memberships_from_the_beginning(member: Oid) -> &'static [Oid] {
    match member {
        MONITOR => &[READ_ALL_SETTINGS, READ_ALL_STATS, STAT_SCAN_TABLES],
        _ => &[],
    }
}

/// The privileges that members of some roles have on all objects of a kind.
pub(super) fn held_on_all(roles: &BTreeSet<Oid>, kind: char) -> i64 {
    let (reads, writes) = (
        roles.contains(&READ_ALL_DATA),
        roles.contains(&WRITE_ALL_DATA),
    );
    let mut held = 0;
    match kind {
        'n' if reads || writes => held |= Privilege::Usage.bit(),
        'r' | 'S' => {
            if reads {
                held |= Privilege::Select.bit();
            }
            if writes {
                for privilege in [Privilege::Insert, Privilege::Update, Privilege::Delete] {
                    held |= privilege.bit();
                }
            }
        }
        _ => {}
    }
    held
}
