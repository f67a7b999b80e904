//! The plan cache: plans of statements that come again and again with other literals.
//!
//! A plan is found by the fingerprint of its statement and everything else that it was made under:
//! the settings of the session (the search path is one), its temporary schema, its role, and the
//! version of the catalogue and of statistics. So a definition and ANALYZE make all older plans
//! unreachable, and they age out.
//!
//! A fingerprint that is met for the first time is only noted. Most texts that come once never come
//! again, and making a plan that serves all literals costs as much as one for those that are there.

use super::Plan;
use super::access::is_unique;
use super::expression::Expr;
use super::node::{ComputedIndex, Node, Scan};
use crate::catalog::{Catalog, Oid};
use crate::types::Type;
use crate::types::cast::CastContext;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The type of a lifted literal, and how it is converted to it.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// The type that the plan takes for it.
    pub data_type: Type,
    /// Whether the conversion is implicit, as in an assignment, or written.
    pub how: CastContext,
}

/// Fingerprints that are kept.
const ENTRIES_MAX: usize = 4096;

/// The plans that all sessions of a database share.
#[derive(Default)]
pub struct PlanCache {
    entries: Mutex<HashMap<u64, Entry>>,
    hasher: RandomState,
    /// Counts look-ups.
    moment: AtomicU64,
    hits: AtomicU64,
}

/// The key of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key<'k> {
    /// The statement without its literals.
    pub shape: &'k str,
    /// The settings of the session that differ from the defaults.
    pub settings: &'k str,
    /// The schema of the session's temporary tables, if it has one.
    pub temporary: Option<Oid>,
    /// The role whose rights the plan was checked against.
    pub role: Oid,
    /// The version of the catalogue.
    pub catalog: u64,
    /// The number of statistics of tables that were made.
    pub analyzed: u64,
}

/// The state of a fingerprint in the cache.
#[derive(Clone)]
pub enum Cached {
    /// It was met for the first time just now.
    New,
    /// It was met before, and has no plan yet.
    Met,
    /// It cannot have a plan.
    Refused,
    /// The plan, ready for these literals.
    Plan(Arc<Lifted>),
}

/// A plan whose parameters are the literals of a statement.
#[derive(Debug)]
pub struct Lifted {
    /// The plan.
    pub plan: Arc<Plan>,
    /// The literals that it takes, in the order of its parameters.
    pub slots: Box<[Slot]>,
}

struct Entry {
    role: Oid,
    shape: Box<str>,
    settings: Box<str>,
    temporary: Option<Oid>,
    catalog: u64,
    analyzed: u64,
    content: Cached,
    /// The look-up that met it last.
    used: u64,
}

impl Entry {
    fn is_of(&self, key: &Key<'_>) -> bool {
        *self.shape == *key.shape
            && *self.settings == *key.settings
            && (self.temporary, self.role) == (key.temporary, key.role)
            && (self.catalog, self.analyzed) == (key.catalog, key.analyzed)
    }
}

impl PlanCache {
    /// Finds a fingerprint, and notes that it was met.
    pub fn find(&self, key: &Key<'_>) -> Cached {
        let hash = self.hasher.hash_one(key);
        let moment = self.moment.fetch_add(1, Ordering::Relaxed);
        {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = entries.get_mut(&hash)
                && entry.is_of(key)
            {
                entry.used = moment;
                if let Cached::Plan(_) = entry.content {
                    self.hits.fetch_add(1, Ordering::Relaxed);
                }
                return entry.content.clone();
            }
        }
        self.put(key, Cached::Met);
        Cached::New
    }

    /// Keeps what is known of a fingerprint from now on. The one that was not met for the longest
    /// time goes if there are too many.
    pub fn put(&self, key: &Key<'_>, content: Cached) {
        let entry = Entry {
            shape: key.shape.into(),
            settings: key.settings.into(),
            temporary: key.temporary,
            role: key.role,
            catalog: key.catalog,
            analyzed: key.analyzed,
            content,
            used: self.moment.load(Ordering::Relaxed),
        };
        let hash = self.hasher.hash_one(key);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= ENTRIES_MAX && !entries.contains_key(&hash) {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(oldest) = oldest.map(|(hash, _)| *hash) {
                entries.remove(&oldest);
            }
        }
        entries.insert(hash, entry);
    }

    /// Statements that found a plan.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }
}

/// Whether a plan is right for all statements that differ in parameters only, as long as the
/// catalogue stays: it reads and changes tables of the catalogue and nothing else. Relations that
/// tell about the database are rows in their plan, and typed tables come and go unnoticed.
pub fn is_lasting(plan: &Plan, catalog: &Catalog) -> bool {
    let is_known = |oid: Oid| catalog.object(oid).is_some();
    let input = match &plan.root {
        Node::Modify(modify) if !is_known(modify.table.source.oid) => return false,
        Node::Modify(modify) if matches!(modify.input, Node::Values(_)) => None,
        Node::Modify(modify) => Some(&modify.input),
        root => Some(root),
    };
    let is_lasting = |scan: &Scan| {
        is_known(scan.source.oid) && (plan.parameters.is_empty() || !wants_constants(scan))
    };
    let reads_tables = input.is_none_or(|input| reads_tables(input, &is_lasting));
    let mut has_query = false;
    let walked = plan.root.clone().walk(0, &mut |part, _| {
        has_query |= matches!(part, Expr::Subquery(_));
        Ok(!has_query)
    });
    plan.before.is_empty() && reads_tables && !has_query && walked.is_ok()
}

/// Whether all rows come from tables.
fn reads_tables(node: &Node, is_lasting: &dyn Fn(&Scan) -> bool) -> bool {
    match node {
        Node::Scan(scan) => is_lasting(scan),
        Node::Filter(plan) => reads_tables(&plan.input, is_lasting),
        Node::Project(plan) => reads_tables(&plan.input, is_lasting),
        Node::Aggregate(plan) => reads_tables(&plan.input, is_lasting),
        Node::Window(plan) => reads_tables(&plan.input, is_lasting),
        Node::Sort(plan) => reads_tables(&plan.input, is_lasting),
        Node::Limit(plan) => reads_tables(&plan.input, is_lasting),
        Node::Distinct(plan) => reads_tables(&plan.input, is_lasting),
        Node::Lock(plan) => reads_tables(&plan.input, is_lasting),
        _ => false,
    }
}

/// Whether constants in the place of parameters may let a scan read an index whose keys are
/// computed, which is not worth it for a single row.
fn wants_constants(scan: &Scan) -> bool {
    let mut computed = scan.source.computed.iter();
    computed.any(ComputedIndex::has_constants) && !is_unique(scan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(shape: &str) -> Key<'_> {
        Key {
            shape,
            settings: "",
            temporary: None,
            role: crate::catalog::OWNER,
            catalog: 1,
            analyzed: 0,
        }
    }

    #[test]
    fn a_fingerprint_is_new_once_and_forgotten_when_others_were_met_later() {
        let cache = PlanCache::default();
        assert!(matches!(cache.find(&key("a")), Cached::New));
        assert!(matches!(cache.find(&key("a")), Cached::Met));
        cache.put(&key("a"), Cached::Refused);
        for at in 0..ENTRIES_MAX - 1 {
            cache.find(&key(&at.to_string()));
        }
        assert!(matches!(cache.find(&key("a")), Cached::Refused));
        // One more than there is room for: the oldest of the others goes.
        cache.find(&key("b"));
        assert!(matches!(cache.find(&key("a")), Cached::Refused));
        assert!(matches!(cache.find(&key("0")), Cached::New));
        let later = Key {
            catalog: 2,
            ..key("a")
        };
        assert!(matches!(cache.find(&later), Cached::New));
    }
}
