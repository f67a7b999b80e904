//! The search for a cycle in the wait-for graph, over all partitions of a database.
//!
//! A transaction searches from itself after it has entered a queue and before it sleeps. Edges lead
//! to owners of the lock and to waiters ahead in the queue, if their modes exclude the requested
//! one. A new edge leads to a transaction that runs, or is woken by what made the edge; before that
//! one sleeps, it searches. So the transaction that closes a cycle finds it, in whichever partition
//! it waits, and no sleeper has to look again; they still search, after 5, 10, 20 ms and so on,
//! which bounds the time if this reasoning has a hole. The victim is the one that finds the cycle:
//! the others in it have waited longer. A transaction with precedence is no victim; it rouses the
//! others of the cycle, and the first of them that searches finds the same cycle.
//!
//! Searches run one at a time in a database, and the victim leaves its queue before the next one,
//! so a cycle has one victim. Queues move on meanwhile, so an apparent cycle is checked again, edge
//! by edge and wait by wait. If all its transactions were in the same wait throughout, they
//! released nothing, and the cycle is real. A lock session changes its owner only while it holds
//! nothing, in the thread of a transaction that does not wait: during one and the same wait, the
//! waiting transaction also owns the same locks.

use super::graph::WaitGraph;
use super::head::SessionId;
use super::wait::{Queue, Visible, Wait};
use crate::sync::lock;
use std::sync::Arc;

/// A transaction on the path of a search, in the wait in which it was seen.
struct Step {
    owner: Arc<Visible>,
    wait: Wait,
    /// Owners that it waits for and that have not been followed yet.
    blockers: Vec<SessionId>,
}

pub(super) type Cycle = Vec<(Arc<Visible>, Wait)>;

/// The cycle in which this owner waits for itself, if there is one. Under the mutex of searches.
pub(super) fn cycle_of(graph: &WaitGraph, owner: &Arc<Visible>) -> Option<Cycle> {
    loop {
        let cycle = find_cycle(graph, owner)?;
        if is_real(graph, &cycle) {
            return Some(cycle);
        }
    }
}

fn find_cycle(graph: &WaitGraph, start: &Arc<Visible>) -> Option<Cycle> {
    let mut seen = vec![start.id];
    let mut path = vec![step(graph, Arc::clone(start))?];
    while let Some(last) = path.last_mut() {
        let Some(next) = last.blockers.pop() else {
            path.pop();
            continue;
        };
        if next == start.id {
            let steps = path.into_iter();
            return Some(steps.map(|step| (step.owner, step.wait)).collect());
        }
        if !seen.contains(&next) {
            seen.push(next);
            path.extend(graph.find(next).and_then(|owner| step(graph, owner)));
        }
    }
    None
}

/// All edges are there, and then all waits are still those of the search.
fn is_real(graph: &WaitGraph, cycle: &[(Arc<Visible>, Wait)]) -> bool {
    let followers = cycle.iter().cycle().skip(1);
    let edges = cycle
        .iter()
        .zip(followers)
        .all(|((_, wait), (next, _))| blockers(graph, wait).contains(&next.id));
    edges
        && cycle
            .iter()
            .all(|(owner, wait)| waiting(owner) == Some(*wait))
}

fn step(graph: &WaitGraph, owner: Arc<Visible>) -> Option<Step> {
    let wait = waiting(&owner)?;
    Some(Step {
        blockers: blockers(graph, &wait),
        owner,
        wait,
    })
}

pub(super) fn waiting(owner: &Visible) -> Option<Wait> {
    *lock(&owner.waiting)
}

/// The owners that a wait is for.
pub(super) fn blockers(graph: &WaitGraph, wait: &Wait) -> Vec<SessionId> {
    let mut found = Vec::new();
    let Some(session) = graph.find(wait.session) else {
        return found;
    };
    let queues = &session.queues;
    match wait.queue {
        Queue::Head { shard, entry } => {
            queues
                .shard(shard)
                .blockers(entry, wait.session, &mut found);
        }
        Queue::Range { tree, range } => queues.bucket(tree).range_blockers(range, &mut found),
        Queue::Writer { tree } => queues
            .bucket(tree)
            .writer_blockers(wait.session, &mut found),
    }
    graph.find_owners(&mut found);
    found
}
