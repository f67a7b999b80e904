//! Group commit: commits gather into groups that share one sync.
//!
//! The transactions of a partition commit one after the other, so a group is a run of tickets:
//! those up to [`GroupCommit::durable`] are durable, later ones wait. A group is due when enough
//! transactions wait in it, or when the oldest of them has waited long enough. There is no timer:
//! the owner asks at each commit, and forces the group when it has no further transaction.

use crate::vocabulary::{CommitTicket, Durability};
use std::time::{Duration, Instant};

/// When a group is due.
#[derive(Clone, Copy, Debug)]
pub struct GroupCommitOptions {
    /// Most transactions in a group.
    pub transactions_max: u32,
    /// Longest wait of the oldest transaction, in microseconds. `u64::MAX` means no limit, and no
    /// look at the clock.
    pub wait_us_max: u64,
}

impl Default for GroupCommitOptions {
    fn default() -> Self {
        Self {
            transactions_max: 64,
            wait_us_max: 100,
        }
    }
}

/// Whether the log must be made durable now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Sync before the commit returns.
    Now,
    /// The transaction waits for its group, or nobody waits for it.
    Later,
}

/// The tickets of one partition.
#[derive(Debug)]
pub struct GroupCommit {
    options: GroupCommitOptions,
    newest: CommitTicket,
    durable: CommitTicket,
    waiting: u32,
    oldest: Option<Instant>,
}

impl GroupCommit {
    /// Starts after `recovered`, up to which everything is durable.
    pub fn new(options: GroupCommitOptions, recovered: CommitTicket) -> Self {
        Self {
            options,
            newest: recovered,
            durable: recovered,
            waiting: 0,
            oldest: None,
        }
    }

    /// The ticket that the next transaction with effects will get.
    pub fn next(&self) -> CommitTicket {
        CommitTicket(self.newest.0 + 1)
    }

    /// The newest ticket that was given.
    pub fn newest(&self) -> CommitTicket {
        self.newest
    }

    /// The newest ticket whose effects are durable.
    pub fn durable(&self) -> CommitTicket {
        self.durable
    }

    /// Gives [`GroupCommit::next`] to a transaction whose record is in the log, and returns whether
    /// to sync.
    pub fn join(&mut self, durability: Durability) -> Due {
        self.newest = self.next();
        self.wait(durability)
    }

    /// Lets a transaction without effects wait for the ones that it may have read.
    pub fn wait(&mut self, durability: Durability) -> Due {
        debug_assert!(
            self.durable <= self.newest,
            "a ticket is durable that no transaction has"
        );
        if self.newest == self.durable {
            return Due::Later;
        }
        match durability {
            Durability::Immediate => Due::Now,
            Durability::None => Due::Later,
            Durability::Group => {
                self.waiting += 1;
                if self.waiting >= self.options.transactions_max || self.has_waited_enough() {
                    Due::Now
                } else {
                    Due::Later
                }
            }
        }
    }

    /// Notes that the log was synced: everything up to the newest ticket is durable.
    pub fn synced(&mut self) {
        self.synced_to(self.newest);
    }

    /// Notes that the log was synced up to a ticket, while others may have got newer ones.
    pub fn synced_to(&mut self, ticket: CommitTicket) {
        assert!(
            ticket <= self.newest,
            "a ticket is durable that no transaction has"
        );
        self.durable = self.durable.max(ticket);
        let behind = self.newest.0 - self.durable.0;
        self.waiting = self.waiting.min(u32::try_from(behind).unwrap_or(u32::MAX));
        self.oldest = None;
    }

    fn has_waited_enough(&mut self) -> bool {
        if self.options.wait_us_max == u64::MAX {
            return false;
        }
        let now = Instant::now();
        let oldest = *self.oldest.get_or_insert(now);
        now.duration_since(oldest) >= Duration::from_micros(self.options.wait_us_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(transactions_max: u32, wait_us_max: u64) -> GroupCommit {
        GroupCommit::new(
            GroupCommitOptions {
                transactions_max,
                wait_us_max,
            },
            CommitTicket(10),
        )
    }

    #[test]
    fn a_group_is_due_when_it_is_full() {
        let mut group = group(3, u64::MAX);
        assert_eq!(group.join(Durability::Group), Due::Later);
        assert_eq!(group.join(Durability::Group), Due::Later);
        assert_eq!(group.durable(), CommitTicket(10));
        assert_eq!(group.join(Durability::Group), Due::Now);
        group.synced();
        assert_eq!(group.durable(), CommitTicket(13));
        assert_eq!(group.join(Durability::Group), Due::Later);
    }

    #[test]
    fn a_group_is_due_when_its_oldest_member_has_waited() {
        let mut group = group(u32::MAX, 1);
        while group.join(Durability::Group) == Due::Later {
            std::thread::sleep(Duration::from_micros(2));
        }
        assert!(group.newest() > CommitTicket(11));
    }

    #[test]
    fn immediate_is_due_at_once_and_none_never() {
        let mut group = group(1, 0);
        assert_eq!(group.join(Durability::None), Due::Later);
        assert_eq!(group.join(Durability::Immediate), Due::Now);
    }

    #[test]
    fn a_reader_waits_only_for_what_is_not_durable() {
        let mut group = group(1, u64::MAX);
        assert_eq!(group.wait(Durability::Immediate), Due::Later);
        group.join(Durability::None);
        assert_eq!(group.wait(Durability::Immediate), Due::Now);
        group.synced();
        assert_eq!(group.wait(Durability::Group), Due::Later);
    }
}
