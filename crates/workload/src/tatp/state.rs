//! A subscriber in a few words: fields that transactions change as they are, and the fixed ones as
//! a digest.
//!
//! Where one thread changes the partition, the words after any prefix of a list follow from the
//! words before it. So a look compares the content word by word, whatever was run, and half a
//! transaction shows as a difference.

use super::list::Input;
use super::population::{Forwarding, Subscriber};
use super::schema::{START_HOURS, STARTS, TYPES};
use crate::random::mix;

/// Words that transactions change, as bits of a set.
const BIT_1: u32 = 1;
const LOCATION: u32 = 2;
const DATA_A: u32 = 1 << 2;
const FIRST_FORWARDING: u32 = DATA_A << TYPES;

/// The state of a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// Whether its row is there.
    pub(super) is_there: bool,
    pub(super) bit_1: bool,
    /// Of its special facilities, by type; `None` where there is none.
    pub(super) data_a: [Option<u8>; TYPES],
    pub(super) vlr_location: u32,
    pub(super) fixed: Digest,
    /// Digests of its forwardings by type and start; 0 where there is none.
    pub(super) forwardings: [[u32; STARTS]; TYPES],
}

/// A sum over values that never change, in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest(u32);

/// Tables and columns in a digest.
#[derive(Clone, Copy)]
pub(super) enum DigestColumn {
    /// A column of `subscriber`.
    Subscriber(usize),
    /// A column of `access_info`, of a type from 0.
    AccessInfo(usize, usize),
    /// A column of `special_facility`, of a type from 0.
    Facility(usize, usize),
}

impl Digest {
    /// Adds a value.
    pub(super) fn add(&mut self, place: DigestColumn, value: u64) {
        let place = match place {
            DigestColumn::Subscriber(column) => column,
            DigestColumn::AccessInfo(number, column) => 100 + 10 * number + column,
            DigestColumn::Facility(number, column) => 200 + 10 * number + column,
        };
        self.0 = self.0.wrapping_add(mix(value << 10 ^ place as u64) as u32);
    }
}

/// At most eight letters as a number.
pub(super) fn letters(text: &[u8]) -> u64 {
    let first = text.iter().take(8);
    first.fold(0, |number, letter| number << 8 | u64::from(*letter))
}

/// The words of a forwarding; never 0.
pub(super) fn forwarding(forwarding: Forwarding) -> u32 {
    mix(forwarding.number << 8 | u64::from(forwarding.end_time)) as u32 | 1
}

/// The place of a start time among the three.
pub(super) fn start_at(start_time: u8) -> usize {
    usize::from(start_time / START_HOURS)
}

/// A subscriber as it is loaded.
pub(super) fn loaded(subscriber: &Subscriber) -> State {
    use super::schema::{access_info, special_facility, subscriber as column};
    let mut fixed = Digest::default();
    for at in 0..subscriber.hex.len() {
        // The first flag is the one that changes.
        if at > 0 {
            let bit = u64::from(subscriber.bits[at]);
            fixed.add(DigestColumn::Subscriber(column::BITS + at), bit);
        }
        fixed.add(
            DigestColumn::Subscriber(column::HEX + at),
            subscriber.hex[at].into(),
        );
        fixed.add(
            DigestColumn::Subscriber(column::BYTES + at),
            subscriber.bytes[at].into(),
        );
    }
    let msc = DigestColumn::Subscriber(column::MSC_LOCATION);
    fixed.add(msc, subscriber.msc_location.into());
    for (number, info) in (0..).zip(&subscriber.access_infos) {
        let Some(info) = info else { continue };
        let place = |column| DigestColumn::AccessInfo(number, column);
        fixed.add(place(access_info::DATA_1), info.data_1.into());
        fixed.add(place(access_info::DATA_2), info.data_2.into());
        fixed.add(place(access_info::DATA_3), letters(&info.data_3));
        fixed.add(place(access_info::DATA_4), letters(&info.data_4));
    }
    for (number, facility) in (0..).zip(&subscriber.facilities) {
        let Some(facility) = facility else { continue };
        let place = |column| DigestColumn::Facility(number, column);
        let is_active = place(special_facility::IS_ACTIVE);
        fixed.add(is_active, facility.is_active.into());
        let error_control = place(special_facility::ERROR_CONTROL);
        fixed.add(error_control, facility.error_control.into());
        fixed.add(place(special_facility::DATA_B), letters(&facility.data_b));
    }
    let facilities = &subscriber.facilities;
    State {
        is_there: true,
        bit_1: subscriber.bits[0],
        data_a: facilities.map(|facility| facility.map(|facility| facility.data_a)),
        vlr_location: subscriber.vlr_location,
        fixed,
        forwardings: facilities.map(|facility| {
            let none = [None; STARTS];
            let forwardings = facility.map_or(none, |facility| facility.forwardings);
            forwardings.map(|one| one.map_or(0, forwarding))
        }),
    }
}

impl State {
    /// Applies a transaction to its subscriber. One that fails changes nothing.
    pub(super) fn apply(&mut self, input: Input) {
        match input {
            Input::GetSubscriberData { .. }
            | Input::GetNewDestination { .. }
            | Input::GetAccessData { .. } => {}
            Input::UpdateSubscriberData {
                facility,
                bit,
                data,
                ..
            } => {
                if let Some(data_a) = &mut self.data_a[usize::from(facility) - 1] {
                    *data_a = data;
                    self.bit_1 = bit;
                }
            }
            Input::UpdateLocation { location, .. } => self.vlr_location = location,
            Input::InsertCallForwarding {
                facility,
                start_time,
                end_time,
                number,
                ..
            } => {
                let at = usize::from(facility) - 1;
                let place = &mut self.forwardings[at][start_at(start_time)];
                if self.data_a[at].is_some() && *place == 0 {
                    *place = forwarding(Forwarding { end_time, number });
                }
            }
            Input::DeleteCallForwarding {
                facility,
                start_time,
                ..
            } => self.forwardings[usize::from(facility) - 1][start_at(start_time)] = 0,
        }
    }

    /// The words that a transaction writes, a bit each.
    pub(super) fn written_by(&self, input: Input) -> u32 {
        let forwarding = |facility: u8, start_time: u8| {
            FIRST_FORWARDING << ((usize::from(facility) - 1) * STARTS + start_at(start_time))
        };
        match input {
            Input::GetSubscriberData { .. }
            | Input::GetNewDestination { .. }
            | Input::GetAccessData { .. } => 0,
            Input::UpdateSubscriberData { facility, .. } => {
                let at = usize::from(facility) - 1;
                // Facilities come and go with their subscriber, so it is there for all threads or
                // for none.
                let is_there = self.data_a[at].is_some();
                if is_there { BIT_1 | DATA_A << at } else { 0 }
            }
            Input::UpdateLocation { .. } => LOCATION,
            Input::InsertCallForwarding {
                facility,
                start_time,
                ..
            }
            | Input::DeleteCallForwarding {
                facility,
                start_time,
                ..
            } => forwarding(facility, start_time),
        }
    }

    /// Whether threads may have left this state of `before`, where each alone would have left one
    /// of `alone`, having written these words. A word that one thread has written has this thread's
    /// value; one that several have written has the value of one of them. Of a forwarding that
    /// several have inserted and deleted, only its existence is known: an insert fails where
    /// another's is.
    pub(super) fn may_be_left(&self, before: &Self, alone: &[(Self, u32)]) -> bool {
        let any = |word: u32, fits: &dyn Fn(&Self) -> bool| {
            let mut writers = alone.iter().filter(|(_, written)| written & word != 0);
            let by_writers = writers.clone().any(|(left, _)| fits(left));
            by_writers || writers.next().is_none() && fits(before)
        };
        let is_shared = |word: u32| {
            let writers = alone.iter().filter(|(_, written)| written & word != 0);
            writers.count() > 1
        };
        let facilities = (0..TYPES).all(|at| {
            any(DATA_A << at, &|left| left.data_a[at] == self.data_a[at])
                && (0..STARTS).all(|start| {
                    let word = FIRST_FORWARDING << (at * STARTS + start);
                    let found = self.forwardings[at][start];
                    any(word, &|left| {
                        let left = left.forwardings[at][start];
                        left == found || is_shared(word) && (left == 0) == (found == 0)
                    })
                })
        });
        facilities
            && (self.is_there, self.fixed) == (before.is_there, before.fixed)
            && any(BIT_1, &|left| left.bit_1 == self.bit_1)
            && any(LOCATION, &|left| left.vlr_location == self.vlr_location)
    }
}
