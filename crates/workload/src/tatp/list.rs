//! The inputs of the seven transactions, made before the clock starts: the same for every method.
//!
//! Each thread of a partition has a list for the partition's subscribers. Kinds come from shuffled
//! decks, so their shares are exact over each deck. A subscriber is drawn by the specification's
//! `NURand` among all of the network, and the nearest one of the partition is taken, so that the
//! partitions together have the same skew.

use super::population::NUMBERS;
use super::schema::{START_HOURS, STARTS, TYPES};
use super::{Choice, Kind, TatpOptions};
use crate::mix::Deck;
use crate::random::{Random, between, chance, nurand};

/// The constants A of `NURand`, each with the number of subscribers up to which it holds.
const NURAND_A: [(u32, u32); 3] = [
    (1_000_000, 65_535),
    (10_000_000, 1_048_575),
    (u32::MAX, 2_097_151),
];
/// Latest end of a forwarding, in hours.
const END_TIME_MAX: u32 = 24;

/// The input of one transaction. Facilities and access infos are named by their types, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub enum Input {
    GetSubscriberData {
        subscriber: u32,
    },
    GetNewDestination {
        subscriber: u32,
        facility: u8,
        start_time: u8,
        end_time: u8,
    },
    GetAccessData {
        subscriber: u32,
        access_info: u8,
    },
    UpdateSubscriberData {
        subscriber: u32,
        facility: u8,
        bit: bool,
        data: u8,
    },
    UpdateLocation {
        subscriber: u32,
        location: u32,
    },
    InsertCallForwarding {
        subscriber: u32,
        facility: u8,
        start_time: u8,
        end_time: u8,
        /// Where calls go.
        number: u64,
    },
    DeleteCallForwarding {
        subscriber: u32,
        facility: u8,
        start_time: u8,
    },
}

impl Input {
    /// Which of the seven it is.
    #[inline]
    pub fn kind(self) -> Kind {
        match self {
            Self::GetSubscriberData { .. } => Kind::GetSubscriberData,
            Self::GetNewDestination { .. } => Kind::GetNewDestination,
            Self::GetAccessData { .. } => Kind::GetAccessData,
            Self::UpdateSubscriberData { .. } => Kind::UpdateSubscriberData,
            Self::UpdateLocation { .. } => Kind::UpdateLocation,
            Self::InsertCallForwarding { .. } => Kind::InsertCallForwarding,
            Self::DeleteCallForwarding { .. } => Kind::DeleteCallForwarding,
        }
    }

    /// The subscriber whose rows it reads and changes.
    #[inline]
    pub fn subscriber(self) -> u32 {
        match self {
            Self::GetSubscriberData { subscriber }
            | Self::GetNewDestination { subscriber, .. }
            | Self::GetAccessData { subscriber, .. }
            | Self::UpdateSubscriberData { subscriber, .. }
            | Self::UpdateLocation { subscriber, .. }
            | Self::InsertCallForwarding { subscriber, .. }
            | Self::DeleteCallForwarding { subscriber, .. } => subscriber,
        }
    }
}

/// Makes the list of this number.
pub(super) fn generate(options: &TatpOptions, list: u32, count: u64) -> Vec<Input> {
    let partition = list % options.partitions;
    let mut random = Random::new(options.seed ^ 0x7A70 ^ u64::from(list) << 48);
    let mut deck = Deck::new(options.mix);
    (0..count)
        .map(|_| {
            let kind = deck.draw(&mut random);
            let subscriber = draw_subscriber(&mut random, options, partition);
            input(&mut random, kind, subscriber)
        })
        .collect()
}

fn draw_subscriber(random: &mut Random, options: &TatpOptions, partition: u32) -> u32 {
    let last = options.subscribers_of(partition) - 1;
    let place = match options.choice {
        Choice::Even => between(random, 0, last),
        Choice::Uneven => {
            let (_, a) = NURAND_A
                .into_iter()
                .find(|(most, _)| options.subscribers <= *most)
                .unwrap_or(NURAND_A[0]);
            let drawn = nurand(random, a, 0, 1, options.subscribers);
            ((drawn - 1) / options.partitions).min(last)
        }
    };
    options.subscriber(partition, place)
}

fn input(random: &mut Random, kind: Kind, subscriber: u32) -> Input {
    let a_type = between(random, 1, TYPES as u32) as u8;
    match kind {
        Kind::GetSubscriberData => Input::GetSubscriberData { subscriber },
        Kind::GetNewDestination => Input::GetNewDestination {
            subscriber,
            facility: a_type,
            start_time: start_time(random),
            end_time: end_time(random),
        },
        Kind::GetAccessData => Input::GetAccessData {
            subscriber,
            access_info: a_type,
        },
        Kind::UpdateSubscriberData => Input::UpdateSubscriberData {
            subscriber,
            facility: a_type,
            bit: chance(random, 50),
            data: random.below(256) as u8,
        },
        Kind::UpdateLocation => Input::UpdateLocation {
            subscriber,
            location: random.next_u64() as u32,
        },
        Kind::InsertCallForwarding => Input::InsertCallForwarding {
            subscriber,
            facility: a_type,
            start_time: start_time(random),
            end_time: end_time(random),
            number: random.below(NUMBERS),
        },
        Kind::DeleteCallForwarding => Input::DeleteCallForwarding {
            subscriber,
            facility: a_type,
            start_time: start_time(random),
        },
    }
}

fn start_time(random: &mut Random) -> u8 {
    random.below(STARTS as u64) as u8 * START_HOURS
}

fn end_time(random: &mut Random) -> u8 {
    between(random, 1, END_TIME_MAX) as u8
}
