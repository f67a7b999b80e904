//! The conditions of a database at rest, and the words of all subscribers.
//!
//! | number | condition |
//! |---|---|
//! | 1 | subscribers are numbered from 1 without gaps, and lie in the region of their number |
//! | 2 | a subscriber's number is its `s_id` in fifteen digits, and once in the index of numbers |
//! | 3 | an access info belongs to a subscriber, and each subscriber has 1 to 4, by type |
//! | 4 | a special facility belongs to a subscriber, and each subscriber has 1 to 4, by type |
//! | 5 | a call forwarding belongs to a special facility and begins at 0, 8 or 16 o'clock |
//! | 6 | values are within their ranges |
//!
//! The specification has no conditions; these are ours. The tables are read in key order, so keys
//! are unique if the index is whole, which the deep check verifies.

use super::TatpOptions;
use super::population::Forwarding;
use super::schema::{
    NUMBER_DIGITS, START_HOURS, STARTS, TYPES, Tables, VALUES, access_info, call_forwarding,
    special_facility, subscriber,
};
use super::state::{self, DigestColumn, State, letters};
use crate::columns::{flag, integer, text};
use crate::conditions::Findings;
use crate::loader::read_each;
use crate::standard::WorkloadError;
use indelible::{Database, Direction, Prefix, Result, Row, Table, Transaction};
use std::ops::ControlFlow;

/// Latest end of a forwarding, in hours.
const END_TIME_MAX: i64 = 24;

/// Result of the check.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Rows read, and the violations. One is no error of the check.
    pub findings: Findings,
    /// The subscribers of each partition, in ascending order.
    pub(super) partitions: Vec<Vec<State>>,
}

impl Checked {
    /// Itself, or the violations as an error if there are any.
    pub fn into_result(self) -> Result<Self, WorkloadError> {
        self.findings.check()?;
        Ok(self)
    }
}

/// Checks all conditions, one thread a partition.
pub(super) fn check_consistency(
    options: &TatpOptions,
    database: &Database,
) -> Result<Checked, WorkloadError> {
    let tables = Tables::open(database)?;
    let parts = read_each(database, |transaction, partition| {
        let mut reading = Reading {
            options,
            partition,
            findings: Findings::default(),
            subscribers: vec![State::default(); options.subscribers_of(partition) as usize],
        };
        reading.subscribers(transaction, &tables)?;
        reading.numbers(transaction, &tables)?;
        reading.access_infos(transaction, &tables)?;
        reading.facilities(transaction, &tables)?;
        reading.forwardings(transaction, &tables)?;
        Ok((reading.findings, reading.subscribers))
    })?;
    let mut checked = Checked::default();
    for (findings, subscribers) in parts {
        checked.findings.add(findings);
        checked.partitions.push(subscribers);
    }
    Ok(checked)
}

/// Reads one partition, table by table in key order.
struct Reading<'r> {
    options: &'r TatpOptions,
    partition: u32,
    findings: Findings,
    subscribers: Vec<State>,
}

impl Reading<'_> {
    /// Visits all rows of a table.
    fn visit(
        &mut self,
        transaction: &mut Transaction<'_>,
        table: &Table,
        mut visit: impl FnMut(&mut Self, &Row),
    ) -> Result<()> {
        let range = Prefix(self.partition as i16);
        transaction.scan(table, range, Direction::Forward, |row| {
            self.findings.rows += 1;
            visit(self, row);
            ControlFlow::Continue(())
        })
    }

    /// The position, among the partition's subscribers, of the one that a row names; notes a
    /// violation if there is none.
    fn place(&mut self, condition: u8, id: i64) -> Option<usize> {
        let first = i64::from(self.options.subscriber(self.partition, 0));
        let partitions = i64::from(self.options.partitions);
        let place = usize::try_from((id - first) / partitions).ok();
        let is_here = id >= first && (id - first) % partitions == 0;
        let found = place.filter(|at| is_here && *at < self.subscribers.len());
        let region = self.partition;
        let expected = i64::from(found.is_some());
        self.findings.expect(
            condition,
            || format!("subscriber {id} in region {region}"),
            1,
            expected,
        );
        found
    }

    /// Notes a violation unless a value is at most `most`, and not negative.
    fn within(&mut self, place: impl FnOnce() -> String, value: i64, most: i64) {
        self.findings.expect(6, place, value.clamp(0, most), value);
    }

    fn subscribers(&mut self, transaction: &mut Transaction<'_>, tables: &Tables) -> Result<()> {
        self.visit(transaction, &tables.subscriber, |reading, row| {
            let id = integer(row, subscriber::ID);
            let Some(at) = reading.place(1, id) else {
                return;
            };
            let place = || format!("subscriber {id}");
            let number = text(row, subscriber::NUMBER);
            let is_own = number.len() == NUMBER_DIGITS && number.parse::<i64>() == Ok(id);
            reading.findings.expect(2, place, 1, is_own.into());
            let location = integer(row, subscriber::VLR_LOCATION);
            reading.within(place, location, u32::MAX.into());
            let state = &mut reading.subscribers[at];
            state.is_there = true;
            state.bit_1 = flag(row, subscriber::BITS);
            state.vlr_location = location.cast_unsigned() as u32;
            for at in 0..VALUES {
                let mut add = |column: usize, value: u64| {
                    state.fixed.add(DigestColumn::Subscriber(column), value);
                };
                if at > 0 {
                    let bit = flag(row, subscriber::BITS + at);
                    add(subscriber::BITS + at, bit.into());
                }
                for column in [subscriber::HEX + at, subscriber::BYTES + at] {
                    add(column, integer(row, column).cast_unsigned());
                }
            }
            let msc = subscriber::MSC_LOCATION;
            let value = integer(row, msc).cast_unsigned();
            state.fixed.add(DigestColumn::Subscriber(msc), value);
        })?;
        for at in 0..self.subscribers.len() {
            let id = self.options.subscriber(self.partition, at as u32);
            let is_there = self.subscribers[at].is_there;
            let place = || format!("subscriber {id}");
            self.findings.expect(1, place, 1, is_there.into());
        }
        Ok(())
    }

    /// Numbers are padded, so the index has the subscribers in the order of their keys.
    fn numbers(&mut self, transaction: &mut Transaction<'_>, tables: &Tables) -> Result<()> {
        let (mut entries, mut last) = (0, 0);
        let range = Prefix(self.partition as i16);
        let index = &tables.subscriber_by_number;
        transaction.scan_index(index, range, Direction::Forward, |row| {
            let id = integer(row, subscriber::ID);
            let place = || format!("subscriber {id} in the index of numbers");
            self.findings.expect(2, place, 1, (id > last).into());
            (entries, last) = (entries + 1, id);
            ControlFlow::Continue(())
        })?;
        let there = self.subscribers.iter().filter(|state| state.is_there);
        let there = there.count().cast_signed() as i64;
        let place = || "the index of numbers".to_owned();
        self.findings.expect(2, place, there, entries);
        Ok(())
    }

    fn access_infos(&mut self, transaction: &mut Transaction<'_>, tables: &Tables) -> Result<()> {
        let mut counts = vec![0_u8; self.subscribers.len()];
        self.visit(transaction, &tables.access_info, |reading, row| {
            let id = integer(row, access_info::ID);
            let number = integer(row, access_info::TYPE);
            let Some((at, number)) = reading.owner(3, id, number) else {
                return;
            };
            counts[at] += 1;
            let fixed = &mut reading.subscribers[at].fixed;
            for column in [access_info::DATA_1, access_info::DATA_2] {
                let value = integer(row, column).cast_unsigned();
                fixed.add(DigestColumn::AccessInfo(number, column), value);
            }
            for column in [access_info::DATA_3, access_info::DATA_4] {
                let value = letters(text(row, column).as_bytes());
                fixed.add(DigestColumn::AccessInfo(number, column), value);
            }
        })?;
        self.check_counts(3, &counts);
        Ok(())
    }

    fn facilities(&mut self, transaction: &mut Transaction<'_>, tables: &Tables) -> Result<()> {
        let mut counts = vec![0_u8; self.subscribers.len()];
        self.visit(transaction, &tables.special_facility, |reading, row| {
            let id = integer(row, special_facility::ID);
            let number = integer(row, special_facility::TYPE);
            let Some((at, number)) = reading.owner(4, id, number) else {
                return;
            };
            counts[at] += 1;
            let data_a = integer(row, special_facility::DATA_A);
            let place = || format!("facility {} of subscriber {id}", number + 1);
            reading.within(place, data_a, u8::MAX.into());
            let state = &mut reading.subscribers[at];
            state.data_a[number] = Some(data_a.cast_unsigned() as u8);
            let is_active = flag(row, special_facility::IS_ACTIVE);
            let error_control = integer(row, special_facility::ERROR_CONTROL);
            let data_b = letters(text(row, special_facility::DATA_B).as_bytes());
            for (column, value) in [
                (special_facility::IS_ACTIVE, u64::from(is_active)),
                (
                    special_facility::ERROR_CONTROL,
                    error_control.cast_unsigned(),
                ),
                (special_facility::DATA_B, data_b),
            ] {
                state
                    .fixed
                    .add(DigestColumn::Facility(number, column), value);
            }
        })?;
        self.check_counts(4, &counts);
        Ok(())
    }

    fn forwardings(&mut self, transaction: &mut Transaction<'_>, tables: &Tables) -> Result<()> {
        self.visit(transaction, &tables.call_forwarding, |reading, row| {
            let id = integer(row, call_forwarding::ID);
            let number = integer(row, call_forwarding::TYPE);
            let Some((at, number)) = reading.owner(5, id, number) else {
                return;
            };
            let start_time = integer(row, call_forwarding::START_TIME);
            let place = || format!("forwarding ({id}, {}, {start_time})", number + 1);
            let hours = i64::from(START_HOURS);
            let is_whole = start_time % hours == 0;
            let slot = usize::try_from(start_time / hours).ok();
            let slot = slot.filter(|slot| is_whole && *slot < STARTS);
            let is_allowed = slot.is_some();
            reading.findings.expect(5, place, 1, is_allowed.into());
            let has_facility = reading.subscribers[at].data_a[number].is_some();
            reading.findings.expect(5, place, 1, has_facility.into());
            let end_time = integer(row, call_forwarding::END_TIME);
            reading.within(place, end_time, END_TIME_MAX);
            let digits = text(row, call_forwarding::NUMBER).parse::<u64>();
            let is_number = digits.is_ok();
            reading.findings.expect(6, place, 1, is_number.into());
            if let (Some(slot), Ok(digits)) = (slot, digits) {
                let forwarding = Forwarding {
                    end_time: end_time.cast_unsigned() as u8,
                    number: digits,
                };
                reading.subscribers[at].forwardings[number][slot] = state::forwarding(forwarding);
            }
        })
    }

    /// The subscriber and the type, from 0, that a row names.
    fn owner(&mut self, condition: u8, id: i64, number: i64) -> Option<(usize, usize)> {
        let at = self.place(condition, id)?;
        let is_there = self.subscribers[at].is_there;
        let place = || format!("type {number} of subscriber {id}");
        self.findings.expect(condition, place, 1, is_there.into());
        let found = usize::try_from(number - 1).ok().filter(|at| *at < TYPES);
        let is_type = found.is_some();
        self.findings.expect(condition, place, 1, is_type.into());
        found.map(|number| (at, number))
    }

    fn check_counts(&mut self, condition: u8, counts: &[u8]) {
        for (at, count) in (0..).zip(counts) {
            let id = self.options.subscriber(self.partition, at);
            let place = || format!("subscriber {id}");
            let allowed = (*count).clamp(1, TYPES as u8);
            self.findings
                .expect(condition, place, allowed.into(), (*count).into());
        }
    }
}
