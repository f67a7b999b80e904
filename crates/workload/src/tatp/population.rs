//! The initial rows of a subscriber.
//!
//! Each subscriber has a stream of random numbers of its own, so that its rows do not depend on the
//! number of partitions, and so that a check can make the loaded rows again.

use super::TatpOptions;
use super::schema::{
    NUMBER_DIGITS, START_HOURS, STARTS, TYPES, Tables, VALUES, access_info, call_forwarding,
    set_digits, special_facility, subscriber,
};
use super::state::{self, State};
use crate::loader::{BATCH_ROWS, Loaded, in_batches};
use crate::random::{Random, between, chance, shuffle};
use indelible::{Database, Durability, Result, Row, Transaction};

/// Numbers that calls may be forwarded to: all of fifteen digits.
pub(super) const NUMBERS: u64 = 10_u64.pow(NUMBER_DIGITS as u32);
/// Facilities that are active, in a hundred.
const ACTIVE_PERCENT: u64 = 85;
/// Subscribers of one loading transaction; each has about ten rows.
const BATCH_SUBSCRIBERS: usize = BATCH_ROWS / 10;

/// A subscriber with all that belongs to it.
#[derive(Clone, Debug)]
pub(super) struct Subscriber {
    pub(super) id: u32,
    pub(super) bits: [bool; VALUES],
    pub(super) hex: [u8; VALUES],
    pub(super) bytes: [u8; VALUES],
    pub(super) msc_location: u32,
    pub(super) vlr_location: u32,
    /// By type; 1 to 4 of them.
    pub(super) access_infos: [Option<AccessInfo>; TYPES],
    /// By type; 1 to 4 of them.
    pub(super) facilities: [Option<Facility>; TYPES],
}

#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_field_names,
    reason = "the names are those of the specification"
)]
pub(super) struct AccessInfo {
    pub(super) data_1: u8,
    pub(super) data_2: u8,
    pub(super) data_3: [u8; 3],
    pub(super) data_4: [u8; 5],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Facility {
    pub(super) is_active: bool,
    pub(super) error_control: u8,
    pub(super) data_a: u8,
    pub(super) data_b: [u8; 5],
    /// By start time; 0 to 3 of them.
    pub(super) forwardings: [Option<Forwarding>; STARTS],
}

/// Where calls go from a start time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forwarding {
    pub(super) end_time: u8,
    pub(super) number: u64,
}

impl Subscriber {
    /// The subscriber as it is loaded.
    pub(super) fn new(seed: u64, id: u32) -> Self {
        let mut random = Random::new(seed ^ 0x7A7B ^ u64::from(id) << 24);
        let random = &mut random;
        Self {
            id,
            bits: std::array::from_fn(|_| chance(random, 50)),
            hex: std::array::from_fn(|_| random.below(16) as u8),
            bytes: std::array::from_fn(|_| byte(random)),
            msc_location: random.next_u64() as u32,
            vlr_location: random.next_u64() as u32,
            access_infos: some_of(random, 1, |random, _| AccessInfo {
                data_1: byte(random),
                data_2: byte(random),
                data_3: letters(random),
                data_4: letters(random),
            }),
            facilities: some_of(random, 1, |random, _| Facility {
                is_active: chance(random, ACTIVE_PERCENT),
                error_control: byte(random),
                data_a: byte(random),
                data_b: letters(random),
                forwardings: some_of(random, 0, |random, at| Forwarding {
                    end_time: at as u8 * START_HOURS + between(random, 1, 8) as u8,
                    number: random.below(NUMBERS),
                }),
            }),
        }
    }
}

/// Fills `least` to all of `N` places, each number of them with the same probability, with results
/// of `make`.
fn some_of<T, const N: usize>(
    random: &mut Random,
    least: u32,
    mut make: impl FnMut(&mut Random, usize) -> T,
) -> [Option<T>; N] {
    let mut places: [usize; N] = std::array::from_fn(|at| at);
    shuffle(random, &mut places);
    let count = between(random, least, N as u32) as usize;
    let mut filled = [const { None }; N];
    for at in &places[..count] {
        filled[*at] = Some(make(random, *at));
    }
    filled
}

fn byte(random: &mut Random) -> u8 {
    random.below(256) as u8
}

/// Upper-case letters.
fn letters<const N: usize>(random: &mut Random) -> [u8; N] {
    std::array::from_fn(|_| b'A' + random.below(26) as u8)
}

/// Letters as text.
fn as_text(letters: &[u8]) -> &str {
    std::str::from_utf8(letters).expect("upper-case letters are text")
}

/// Loads the subscribers of a partition.
pub(super) fn load_partition(
    options: &TatpOptions,
    tables: &Tables,
    database: &Database,
    partition: u32,
    loaded: Loaded<'_>,
) -> Result<()> {
    let mut worker = database.worker(&[partition], Durability::Group)?;
    let mut rows = Loader {
        tables,
        region: partition as i16,
        subscriber: tables.subscriber.row(),
        access_info: tables.access_info.row(),
        special_facility: tables.special_facility.row(),
        call_forwarding: tables.call_forwarding.row(),
        digits: String::new(),
    };
    let places = 0..options.subscribers_of(partition);
    in_batches(
        &mut worker,
        places,
        BATCH_SUBSCRIBERS,
        loaded,
        |transaction, place| {
            let id = options.subscriber(partition, place);
            rows.insert(transaction, &Subscriber::new(options.seed, id))
        },
    )?;
    worker.close()
}

/// The content of a partition after loading.
pub(super) fn loaded_states(options: &TatpOptions, partition: u32) -> Vec<State> {
    (0..options.subscribers_of(partition))
        .map(|place| {
            let id = options.subscriber(partition, place);
            state::loaded(&Subscriber::new(options.seed, id))
        })
        .collect()
}

/// Rows that are used again.
struct Loader<'l> {
    tables: &'l Tables,
    region: i16,
    subscriber: Row,
    access_info: Row,
    special_facility: Row,
    call_forwarding: Row,
    digits: String,
}

impl Loader<'_> {
    /// Inserts all rows of a subscriber; returns how many there were.
    fn insert(
        &mut self,
        transaction: &mut Transaction<'_>,
        subscriber: &Subscriber,
    ) -> Result<u64> {
        let id = subscriber.id.cast_signed();
        self.insert_subscriber(transaction, subscriber)?;
        let mut rows = 1;
        for (number, info) in (1_i16..).zip(&subscriber.access_infos) {
            let Some(info) = info else { continue };
            let row = &mut self.access_info;
            row.set(access_info::REGION, self.region)?;
            row.set(access_info::ID, id)?;
            row.set(access_info::TYPE, number)?;
            row.set(access_info::DATA_1, i16::from(info.data_1))?;
            row.set(access_info::DATA_2, i16::from(info.data_2))?;
            row.set(access_info::DATA_3, as_text(&info.data_3))?;
            row.set(access_info::DATA_4, as_text(&info.data_4))?;
            transaction.insert(&self.tables.access_info, &*row)?;
            rows += 1;
        }
        for (number, facility) in (1_i16..).zip(&subscriber.facilities) {
            let Some(facility) = facility else { continue };
            let row = &mut self.special_facility;
            row.set(special_facility::REGION, self.region)?;
            row.set(special_facility::ID, id)?;
            row.set(special_facility::TYPE, number)?;
            row.set(special_facility::IS_ACTIVE, facility.is_active)?;
            row.set(
                special_facility::ERROR_CONTROL,
                i16::from(facility.error_control),
            )?;
            row.set(special_facility::DATA_A, i16::from(facility.data_a))?;
            row.set(special_facility::DATA_B, as_text(&facility.data_b))?;
            transaction.insert(&self.tables.special_facility, &*row)?;
            rows += 1 + self.insert_forwardings(transaction, (id, number), facility)?;
        }
        Ok(rows)
    }

    fn insert_subscriber(
        &mut self,
        transaction: &mut Transaction<'_>,
        loaded: &Subscriber,
    ) -> Result<()> {
        let row = &mut self.subscriber;
        set_digits(&mut self.digits, loaded.id.into());
        row.set(subscriber::REGION, self.region)?;
        row.set(subscriber::ID, loaded.id.cast_signed())?;
        row.set(subscriber::NUMBER, self.digits.as_str())?;
        for at in 0..VALUES {
            row.set(subscriber::BITS + at, loaded.bits[at])?;
            row.set(subscriber::HEX + at, i16::from(loaded.hex[at]))?;
            row.set(subscriber::BYTES + at, i16::from(loaded.bytes[at]))?;
        }
        row.set(subscriber::MSC_LOCATION, i64::from(loaded.msc_location))?;
        row.set(subscriber::VLR_LOCATION, i64::from(loaded.vlr_location))?;
        transaction.insert(&self.tables.subscriber, &*row)
    }

    fn insert_forwardings(
        &mut self,
        transaction: &mut Transaction<'_>,
        (id, number): (i32, i16),
        facility: &Facility,
    ) -> Result<u64> {
        let mut rows = 0;
        for (at, forwarding) in (0_i16..).zip(&facility.forwardings) {
            let Some(forwarding) = forwarding else {
                continue;
            };
            set_digits(&mut self.digits, forwarding.number);
            let row = &mut self.call_forwarding;
            row.set(call_forwarding::REGION, self.region)?;
            row.set(call_forwarding::ID, id)?;
            row.set(call_forwarding::TYPE, number)?;
            row.set(call_forwarding::START_TIME, at * i16::from(START_HOURS))?;
            row.set(call_forwarding::END_TIME, i16::from(forwarding.end_time))?;
            row.set(call_forwarding::NUMBER, self.digits.as_str())?;
            transaction.insert(&self.tables.call_forwarding, &*row)?;
            rows += 1;
        }
        Ok(rows)
    }
}
