//! Who waits for whom, and whether that is a circle.
//!
//! A session searches from itself after it has entered a queue and before it sleeps. Edges lead to owners and to waiters in front whose
//! modes exclude the one that is asked for. A new edge leads to a session that runs, or is woken by what made the edge; before that one
//! sleeps, it searches. So whoever closes a circle finds it, and no sleeper has to look again; that they do, after 5, 10, 20 ms and so on, bounds
//! the time should this reasoning have a hole. The victim is the one who finds the circle: the others in it have waited longer.
//!
//! Searches run one at a time, and the victim leaves its queue before the next one, so a circle has one victim. Queues move on meanwhile:
//! what looks like a circle is checked again, edge by edge and wait by wait. If all its sessions were in the same wait throughout, they
//! gave nothing back, and the circle is real.

use super::head::SessionId;
use super::manager::LockManager;
use super::wait::{Queue, Visible, Wait};
use crate::sync::lock;
use std::sync::Arc;

/// A session on the way of a search, in the wait in which it was seen.
struct Step {
    session: SessionId,
    wait: Wait,
    /// Those it waits for that have not been followed yet.
    blockers: Vec<SessionId>,
}

/// Whether this session waits for itself. Under the mutex of searches.
pub(super) fn is_in_circle(manager: &LockManager, session: SessionId) -> bool {
    let sessions = manager.visible_sessions();
    loop {
        let Some(circle) = find_circle(manager, &sessions, session) else {
            return false;
        };
        if is_real(manager, &sessions, &circle) {
            return true;
        }
    }
}

type Sessions = [Option<Arc<Visible>>];

fn find_circle(
    manager: &LockManager,
    sessions: &Sessions,
    start: SessionId,
) -> Option<Vec<(SessionId, Wait)>> {
    let mut seen = vec![start];
    let mut way = vec![step(manager, sessions, start)?];
    while let Some(last) = way.last_mut() {
        let Some(next) = last.blockers.pop() else {
            way.pop();
            continue;
        };
        if next == start {
            return Some(way.iter().map(|step| (step.session, step.wait)).collect());
        }
        if !seen.contains(&next) {
            seen.push(next);
            way.extend(step(manager, sessions, next));
        }
    }
    None
}

/// All edges are there, and then all waits are still those of the search.
fn is_real(manager: &LockManager, sessions: &Sessions, circle: &[(SessionId, Wait)]) -> bool {
    let followers = circle.iter().cycle().skip(1);
    let edges = circle.iter().zip(followers).all(|(from, to)| {
        let mut found = Vec::new();
        blockers(manager, from.0, from.1, &mut found);
        found.contains(&to.0)
    });
    edges
        && circle.iter().all(|(session, wait)| {
            waiting(sessions, *session).is_some_and(|now| now.number == wait.number)
        })
}

fn step(manager: &LockManager, sessions: &Sessions, session: SessionId) -> Option<Step> {
    let wait = waiting(sessions, session)?;
    let mut found = Vec::new();
    blockers(manager, session, wait, &mut found);
    Some(Step {
        session,
        wait,
        blockers: found,
    })
}

fn waiting(sessions: &Sessions, session: SessionId) -> Option<Wait> {
    let visible = sessions.get(session as usize)?.as_ref()?;
    *lock(&visible.waiting)
}

fn blockers(manager: &LockManager, session: SessionId, wait: Wait, found: &mut Vec<SessionId>) {
    match wait.queue {
        Queue::Head { shard, entry } => manager.shard(shard).blockers(entry, session, found),
        Queue::Range { tree, range } => manager.bucket(tree).range_blockers(range, found),
        Queue::Writer { tree } => manager.bucket(tree).writer_blockers(session, found),
    }
}
