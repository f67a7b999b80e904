//! The seven transactions.
//!
//! A transaction whose row is not there has failed: it ends with an error for which [`is_rollback`]
//! holds, and its changes are undone. Three of them know their subscriber by its number and look it
//! up in the index first, as the specification wants it.

use super::list::Input;
use super::schema::{Tables, call_forwarding, set_digits, special_facility, subscriber};
use super::{Kind, Tatp};
use crate::columns::{flag, integer, text};
use crate::script::{RoutedScript, Script};
use crate::standard::missing;
use indelible::{Changes, Direction, Error, Prefix, Result, Row, Transaction};
use std::hint::black_box;
use std::ops::ControlFlow;

/// Why a transaction fails: a row that the specification lets be absent is absent, or one that it
/// inserts is there.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the row is not there, or is there already")]
struct Failed;

/// Whether an error is a failure that belongs to the workload.
pub fn is_rollback(error: &Error) -> bool {
    matches!(error, Error::Rejected(reason) if reason.is::<Failed>())
}

fn failed() -> Error {
    Error::rejected(Failed)
}

/// Runs the transactions of one list, one after the other.
pub struct Runner<'w> {
    tables: &'w Tables,
    inputs: &'w [Input],
    partition: u32,
    region: i16,
    position: u64,
    subscriber: Row,
    location: Changes,
    bit: Changes,
    access_info: Row,
    facility: Row,
    data_a: Changes,
    forwarding: Row,
    /// A number in digits.
    digits: String,
}

impl<'w> Runner<'w> {
    pub(super) fn new(workload: &'w Tatp, tables: &'w Tables, list: u32, position: u64) -> Self {
        let partition = list % workload.options().partitions;
        Self {
            tables,
            inputs: workload.list(list),
            partition,
            region: partition as i16,
            position,
            subscriber: tables.subscriber.row(),
            location: tables.subscriber.changes(),
            bit: tables.subscriber.changes(),
            access_info: tables.access_info.row(),
            facility: tables.special_facility.row(),
            data_a: tables.special_facility.changes(),
            forwarding: tables.call_forwarding.row(),
            digits: String::new(),
        }
    }

    /// The input of the next transaction.
    #[inline]
    pub fn input(&self) -> Input {
        self.inputs[(self.position % self.inputs.len() as u64) as usize]
    }

    /// The subscriber with a number, which is the number of its key in digits.
    fn find(&mut self, transaction: &mut Transaction<'_>, number: u32) -> Result<i32> {
        set_digits(&mut self.digits, number.into());
        let mut found = None;
        let range = Prefix((self.region, self.digits.as_str()));
        let index = &self.tables.subscriber_by_number;
        transaction.scan_index(index, range, Direction::Forward, |row| {
            found = Some(integer(row, subscriber::ID) as i32);
            ControlFlow::Break(())
        })?;
        found.ok_or_else(|| missing("subscriber", format!("with number {}", self.digits)))
    }

    fn get_subscriber_data(&mut self, transaction: &mut Transaction<'_>, id: i32) -> Result<()> {
        let (tables, row) = (self.tables, &mut self.subscriber);
        if transaction.get_into(&tables.subscriber, (self.region, id), row)? {
            black_box(&*row);
            Ok(())
        } else {
            Err(missing("subscriber", id.to_string()))
        }
    }

    fn get_new_destination(
        &mut self,
        transaction: &mut Transaction<'_>,
        (id, facility): (i32, i16),
        (start_time, end_time): (i16, i16),
    ) -> Result<()> {
        let (tables, row) = (self.tables, &mut self.facility);
        let key = (self.region, id, facility);
        let is_there = transaction.get_into(&tables.special_facility, key, row)?;
        if !is_there || !flag(row, special_facility::IS_ACTIVE) {
            return Err(failed());
        }
        let mut found = false;
        let range = (self.region, id, facility, 0)..=(self.region, id, facility, start_time);
        let table = &tables.call_forwarding;
        transaction.scan(table, range, Direction::Forward, |row| {
            if i64::from(end_time) < integer(row, call_forwarding::END_TIME) {
                black_box(text(row, call_forwarding::NUMBER));
                found = true;
            }
            ControlFlow::Continue(())
        })?;
        if found { Ok(()) } else { Err(failed()) }
    }

    fn get_access_data(
        &mut self,
        transaction: &mut Transaction<'_>,
        (id, access_info): (i32, i16),
    ) -> Result<()> {
        let (tables, row) = (self.tables, &mut self.access_info);
        let key = (self.region, id, access_info);
        if transaction.get_into(&tables.access_info, key, row)? {
            black_box(&*row);
            Ok(())
        } else {
            Err(failed())
        }
    }

    fn update_subscriber_data(
        &mut self,
        transaction: &mut Transaction<'_>,
        (id, facility): (i32, i16),
        (bit, data): (bool, u8),
    ) -> Result<()> {
        self.bit.clear();
        self.bit.set(subscriber::BITS, bit)?;
        let key = (self.region, id);
        if !transaction.update(&self.tables.subscriber, key, &self.bit)? {
            return Err(missing("subscriber", id.to_string()));
        }
        self.data_a.clear();
        self.data_a.set(special_facility::DATA_A, i16::from(data))?;
        let key = (self.region, id, facility);
        if transaction.update(&self.tables.special_facility, key, &self.data_a)? {
            Ok(())
        } else {
            Err(failed())
        }
    }

    fn update_location(
        &mut self,
        transaction: &mut Transaction<'_>,
        number: u32,
        location: u32,
    ) -> Result<()> {
        let id = self.find(transaction, number)?;
        self.location.clear();
        self.location
            .set(subscriber::VLR_LOCATION, i64::from(location))?;
        let key = (self.region, id);
        if transaction.update(&self.tables.subscriber, key, &self.location)? {
            Ok(())
        } else {
            Err(missing("subscriber", id.to_string()))
        }
    }

    fn insert_call_forwarding(
        &mut self,
        transaction: &mut Transaction<'_>,
        (number, facility): (u32, i16),
        (start_time, end_time, destination): (i16, i16, u64),
    ) -> Result<()> {
        let id = self.find(transaction, number)?;
        let tables = self.tables;
        let mut has_facility = false;
        let range = Prefix((self.region, id));
        let table = &tables.special_facility;
        transaction.scan(table, range, Direction::Forward, |row| {
            has_facility |= integer(row, special_facility::TYPE) == i64::from(facility);
            ControlFlow::Continue(())
        })?;
        if !has_facility {
            return Err(failed());
        }
        set_digits(&mut self.digits, destination);
        let row = &mut self.forwarding;
        row.set(call_forwarding::REGION, self.region)?;
        row.set(call_forwarding::ID, id)?;
        row.set(call_forwarding::TYPE, facility)?;
        row.set(call_forwarding::START_TIME, start_time)?;
        row.set(call_forwarding::END_TIME, end_time)?;
        row.set(call_forwarding::NUMBER, self.digits.as_str())?;
        match transaction.insert(&tables.call_forwarding, &*row) {
            Err(Error::DuplicateKey { .. }) => Err(failed()),
            inserted => inserted,
        }
    }

    fn delete_call_forwarding(
        &mut self,
        transaction: &mut Transaction<'_>,
        (number, facility): (u32, i16),
        start_time: i16,
    ) -> Result<()> {
        let id = self.find(transaction, number)?;
        let key = (self.region, id, facility, start_time);
        if transaction.delete(&self.tables.call_forwarding, key)? {
            Ok(())
        } else {
            Err(failed())
        }
    }
}

impl Script for Runner<'_> {
    const KINDS: usize = Kind::ALL.len();

    #[inline]
    fn position(&self) -> u64 {
        self.position
    }

    #[inline]
    fn kind(&self) -> usize {
        self.input().kind() as usize
    }

    fn step(&mut self, transaction: &mut Transaction<'_>) -> Result<()> {
        let input = self.input();
        let number = input.subscriber();
        let id = number.cast_signed();
        match input {
            Input::GetSubscriberData { .. } => self.get_subscriber_data(transaction, id),
            Input::GetNewDestination {
                facility,
                start_time,
                end_time,
                ..
            } => {
                let times = (start_time.into(), end_time.into());
                self.get_new_destination(transaction, (id, facility.into()), times)
            }
            Input::GetAccessData { access_info, .. } => {
                self.get_access_data(transaction, (id, access_info.into()))
            }
            Input::UpdateSubscriberData {
                facility,
                bit,
                data,
                ..
            } => self.update_subscriber_data(transaction, (id, facility.into()), (bit, data)),
            Input::UpdateLocation { location, .. } => {
                self.update_location(transaction, number, location)
            }
            Input::InsertCallForwarding {
                facility,
                start_time,
                end_time,
                number: destination,
                ..
            } => {
                let values = (start_time.into(), end_time.into(), destination);
                self.insert_call_forwarding(transaction, (number, facility.into()), values)
            }
            Input::DeleteCallForwarding {
                facility,
                start_time,
                ..
            } => {
                let key = (number, facility.into());
                self.delete_call_forwarding(transaction, key, start_time.into())
            }
        }
    }

    #[inline]
    fn next(&mut self) {
        self.position += 1;
    }

    fn is_rollback(error: &Error) -> bool {
        is_rollback(error)
    }
}

impl RoutedScript for Runner<'_> {
    #[inline]
    fn partitions(&self, partitions: &mut Vec<u32>) {
        partitions.clear();
        partitions.push(self.partition);
    }
}
