//! The four tables of TATP with their columns, and the index of subscribers by number.
//!
//! The specification's keys begin with `s_id`. Here a column precedes it: `region`, which is `s_id`
//! modulo the number of partitions and decides the partition. The region follows from a number's
//! last digits, so the index of numbers, which begins with the region too, is searched in one
//! partition only.

use indelible::{DataType, Database, Index, Partitioning, Result, Table};

/// Columns of `subscriber`.
pub(super) mod subscriber {
    pub(in crate::tatp) const REGION: usize = 0;
    pub(in crate::tatp) const ID: usize = 1;
    pub(in crate::tatp) const NUMBER: usize = 2;
    /// The first of ten flags.
    pub(in crate::tatp) const BITS: usize = 3;
    /// The first of ten values from 0 to 15.
    pub(in crate::tatp) const HEX: usize = 13;
    /// The first of ten values from 0 to 255.
    pub(in crate::tatp) const BYTES: usize = 23;
    pub(in crate::tatp) const MSC_LOCATION: usize = 33;
    pub(in crate::tatp) const VLR_LOCATION: usize = 34;
}

/// Columns of `access_info`.
pub(super) mod access_info {
    pub(in crate::tatp) const REGION: usize = 0;
    pub(in crate::tatp) const ID: usize = 1;
    pub(in crate::tatp) const TYPE: usize = 2;
    pub(in crate::tatp) const DATA_1: usize = 3;
    pub(in crate::tatp) const DATA_2: usize = 4;
    pub(in crate::tatp) const DATA_3: usize = 5;
    pub(in crate::tatp) const DATA_4: usize = 6;
}

/// Columns of `special_facility`.
pub(super) mod special_facility {
    pub(in crate::tatp) const REGION: usize = 0;
    pub(in crate::tatp) const ID: usize = 1;
    pub(in crate::tatp) const TYPE: usize = 2;
    pub(in crate::tatp) const IS_ACTIVE: usize = 3;
    pub(in crate::tatp) const ERROR_CONTROL: usize = 4;
    pub(in crate::tatp) const DATA_A: usize = 5;
    pub(in crate::tatp) const DATA_B: usize = 6;
}

/// Columns of `call_forwarding`.
pub(super) mod call_forwarding {
    pub(in crate::tatp) const REGION: usize = 0;
    pub(in crate::tatp) const ID: usize = 1;
    pub(in crate::tatp) const TYPE: usize = 2;
    pub(in crate::tatp) const START_TIME: usize = 3;
    pub(in crate::tatp) const END_TIME: usize = 4;
    pub(in crate::tatp) const NUMBER: usize = 5;
}

/// Number of flags, of small values and of bytes of a subscriber.
pub(super) const VALUES: usize = 10;
/// Types of access infos and of special facilities, from 1.
pub(super) const TYPES: usize = 4;
/// Start times of forwardings: 0, 8 and 16 o'clock.
pub(super) const STARTS: usize = 3;
/// Hours between two of them.
pub(super) const START_HOURS: u8 = 8;
/// Digits of a number.
pub(super) const NUMBER_DIGITS: usize = 15;

/// The tables and the index of an open database.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are those of the specification")]
pub struct Tables {
    pub subscriber: Table,
    /// Subscribers by region and number.
    pub subscriber_by_number: Index,
    pub access_info: Table,
    pub special_facility: Table,
    pub call_forwarding: Table,
}

const BY_NUMBER: &str = "by_number";

impl Tables {
    /// Creates the tables, which must not exist.
    pub fn create(database: &Database) -> Result<Self> {
        create_subscriber(database)?;
        let char = |length| DataType::Char { length };
        database
            .create_table("access_info")
            .column("region", DataType::Int16)
            .column("s_id", DataType::Int32)
            .column("ai_type", DataType::Int16)
            .column("data1", DataType::Int16)
            .column("data2", DataType::Int16)
            .column("data3", char(3))
            .column("data4", char(5))
            .primary_key(["region", "s_id", "ai_type"])
            .partitioning(Partitioning::Modulo)
            .create()?;
        database
            .create_table("special_facility")
            .column("region", DataType::Int16)
            .column("s_id", DataType::Int32)
            .column("sf_type", DataType::Int16)
            .column("is_active", DataType::Bool)
            .column("error_cntrl", DataType::Int16)
            .column("data_a", DataType::Int16)
            .column("data_b", char(5))
            .primary_key(["region", "s_id", "sf_type"])
            .partitioning(Partitioning::Modulo)
            .create()?;
        database
            .create_table("call_forwarding")
            .column("region", DataType::Int16)
            .column("s_id", DataType::Int32)
            .column("sf_type", DataType::Int16)
            .column("start_time", DataType::Int16)
            .column("end_time", DataType::Int16)
            .column("numberx", char(NUMBER_DIGITS as u32))
            .primary_key(["region", "s_id", "sf_type", "start_time"])
            .partitioning(Partitioning::Modulo)
            .create()?;
        Self::open(database)
    }

    /// The tables of a database that has them.
    pub fn open(database: &Database) -> Result<Self> {
        let subscriber = database.table("subscriber")?;
        Ok(Self {
            subscriber_by_number: subscriber.index(BY_NUMBER)?,
            subscriber,
            access_info: database.table("access_info")?,
            special_facility: database.table("special_facility")?,
            call_forwarding: database.table("call_forwarding")?,
        })
    }
}

fn create_subscriber(database: &Database) -> Result<()> {
    let mut table = database
        .create_table("subscriber")
        .column("region", DataType::Int16)
        .column("s_id", DataType::Int32)
        .column(
            "sub_nbr",
            DataType::Char {
                length: NUMBER_DIGITS as u32,
            },
        );
    for (name, data_type) in [
        ("bit", DataType::Bool),
        ("hex", DataType::Int16),
        ("byte2", DataType::Int16),
    ] {
        for number in 1..=VALUES {
            table = table.column(&format!("{name}_{number}"), data_type);
        }
    }
    table
        .column("msc_location", DataType::Int64)
        .column("vlr_location", DataType::Int64)
        .primary_key(["region", "s_id"])
        .unique_index(BY_NUMBER, ["region", "sub_nbr"])
        .partitioning(Partitioning::Modulo)
        .create()?;
    Ok(())
}

/// Writes a number as the fifteen digits that the tables have.
pub(super) fn set_digits(digits: &mut String, number: u64) {
    use std::fmt::Write as _;
    digits.clear();
    write!(digits, "{number:0NUMBER_DIGITS$}").expect("a string takes what is written to it");
}
