//! TATP: subscribers of a mobile network, seven short transactions, and a content that follows
//! exactly from the lists.
//!
//! | file | job |
//! |---|---|
//! | `schema` | tables, columns, the index of numbers |
//! | `population` | the initial rows of a subscriber |
//! | `list` | the inputs, made before the clock starts and shared by all methods |
//! | `runner` | execution of the transactions |
//! | `state` | a subscriber in a few words, and the effect of a transaction on it |
//! | `conditions` | the conditions, and the words of all subscribers |
//! | `drive` | options to workload: making, loading, checking |
//!
//! A subscriber with everything that belongs to it is in the partition `s_id modulo partitions`,
//! which follows from its number as well, so every transaction has one partition. A transaction
//! whose row is not there has failed; it is rolled back and counted, as the specification wants it:
//! in the standard mix about a quarter fails.

mod conditions;
mod drive;
mod list;
mod population;
mod runner;
mod schema;
mod state;

pub use conditions::Checked;
pub use drive::Tatp;
pub use list::Input;
pub use runner::{Runner, is_rollback};
pub use schema::Tables;

use crate::mix::KINDS_MAX;
use std::fmt;
use std::str::FromStr;

/// Most subscribers: their numbers have four bytes.
pub const SUBSCRIBERS_MAX: u32 = 1_000_000_000;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct TatpOptions {
    /// Subscribers, at least one a partition.
    pub subscribers: u32,
    /// Partitions of the database.
    pub partitions: u32,
    /// Threads of a partition; each has a list of its own, and they share its subscribers.
    pub threads: u32,
    /// How subscribers are drawn.
    pub choice: Choice,
    /// Shares of the seven transactions.
    pub mix: Mix,
    /// Length of the list, over all partitions. A run that goes on beyond it begins again.
    pub transactions: u64,
    /// Seed of the rows and of the list.
    pub seed: u64,
}

impl Default for TatpOptions {
    fn default() -> Self {
        Self {
            subscribers: 100_000,
            partitions: 1,
            threads: 1,
            choice: Choice::Uneven,
            mix: Mix::STANDARD,
            transactions: 4_000_000,
            seed: 1,
        }
    }
}

impl TatpOptions {
    /// Initial rows of all tables, as many as are expected.
    pub fn rows(&self) -> u64 {
        // One subscriber, 2.5 access infos, 2.5 special facilities with 1.5 call forwardings each.
        u64::from(self.subscribers) * 39 / 4
    }

    /// Lists of all partitions.
    pub(crate) fn lists(&self) -> u32 {
        self.partitions * self.threads
    }

    /// Subscribers of a partition.
    fn subscribers_of(&self, partition: u32) -> u32 {
        let up_to = |last: u32| (last + self.partitions - partition) / self.partitions;
        // Number 0 would be in partition 0, but the first one is 1.
        up_to(self.subscribers) - u32::from(partition == 0)
    }

    /// The subscriber at a place, from 0, among those of a partition.
    fn subscriber(&self, partition: u32, place: u32) -> u32 {
        let first = if partition == 0 {
            self.partitions
        } else {
            partition
        };
        first + place * self.partitions
    }
}

/// How subscribers are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Unevenly, as the specification wants it: many bits of the number are more often set than
    /// not.
    Uneven,
    /// Each as often as the others.
    Even,
}

impl Choice {
    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uneven => "nurand",
            Self::Even => "uniform",
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Uneven, Self::Even]
            .into_iter()
            .find(|choice| choice.name() == name)
            .ok_or_else(|| format!("unknown choice `{name}`; use nurand or uniform"))
    }
}

/// One of the seven transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads all columns of a subscriber.
    GetSubscriberData,
    /// Where calls go at this time.
    GetNewDestination,
    /// Reads one access info.
    GetAccessData,
    /// Changes a flag of a subscriber and a value of one of its facilities.
    UpdateSubscriberData,
    /// A subscriber, known by its number, is somewhere else.
    UpdateLocation,
    /// Adds a forwarding for a subscriber that is known by its number.
    InsertCallForwarding,
    /// Removes one.
    DeleteCallForwarding,
}

impl Kind {
    /// All of them, in the order of the specification.
    pub const ALL: [Self; 7] = [
        Self::GetSubscriberData,
        Self::GetNewDestination,
        Self::GetAccessData,
        Self::UpdateSubscriberData,
        Self::UpdateLocation,
        Self::InsertCallForwarding,
        Self::DeleteCallForwarding,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::GetSubscriberData => "get-subscriber-data",
            Self::GetNewDestination => "get-new-destination",
            Self::GetAccessData => "get-access-data",
            Self::UpdateSubscriberData => "update-subscriber-data",
            Self::UpdateLocation => "update-location",
            Self::InsertCallForwarding => "insert-call-forwarding",
            Self::DeleteCallForwarding => "delete-call-forwarding",
        }
    }

    /// The share that succeeds while the tables are as they were loaded, in percent. The
    /// specification says 23.9 for `GetNewDestination`; its rules for rows and inputs give less,
    /// which is also the measured share.
    pub fn success_percent(self) -> f64 {
        match self {
            Self::GetSubscriberData | Self::UpdateLocation => 100.0,
            Self::GetNewDestination => 14.8,
            Self::GetAccessData | Self::UpdateSubscriberData => 62.5,
            Self::InsertCallForwarding | Self::DeleteCallForwarding => 31.25,
        }
    }
}

impl crate::mix::Kind for Kind {
    const ALL: &'static [Self] = &Self::ALL;
    const STANDARD: [u32; KINDS_MAX] = [35, 10, 35, 2, 14, 2, 2, 0];

    fn name(self) -> &'static str {
        self.name()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Cards of each transaction in a deck.
pub type Mix = crate::mix::Mix<Kind>;

#[cfg(test)]
mod tests;
