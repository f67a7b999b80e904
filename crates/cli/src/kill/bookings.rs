//! The transactions of a killed process: bookings of flights between the imported airports.
//!
//! Booking number n inserts a row and adds one to the departures of one airport and to the arrivals
//! of another, in one transaction, usually over several partitions. After any crash two things can
//! be checked against the bookings that are there: every acknowledged one is among them (nothing is
//! lost), and the counters of all airports have exactly their sum (nothing is half there).

use super::pipe::{Acknowledged, Acknowledgements, Work};
use crate::args::VictimJob;
use crate::scratch::Scratch;
use anyhow::{Result, bail, ensure};
use indelible::{DataType, Database, Direction, Error, Row, Table, Transaction};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use workload::random::mix;

const BOOKINGS: &str = "bookings";
const TRAFFIC: &str = "traffic";
/// Columns of the traffic table.
const DEPARTURES: usize = 1;
const ARRIVALS: usize = 2;
/// Threads that book.
const THREADS: u32 = 2;
/// Numbers of bookings that one cycle may use.
const NUMBERS_OF_CYCLE: u64 = 1 << 32;

/// The bookings of all cycles, and the proof.
pub(super) struct Bookings {
    seed: u64,
    acknowledged: Vec<u64>,
    unacknowledged: u64,
}

impl Bookings {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            acknowledged: Vec::new(),
            unacknowledged: 0,
        }
    }
}

impl super::Deed for Bookings {
    fn prepare(&mut self, database: &Database, scratch: &Scratch) -> Result<()> {
        super::import_airports(database, scratch)?;
        prepare(database)
    }

    fn work(&self, cycle: u64) -> Work {
        Work {
            job: VictimJob::Bookings,
            rows: 0,
            seed: self.seed,
            first: cycle * NUMBERS_OF_CYCLE,
            checkpoint_log_bytes: Some(super::CHECKPOINT_LOG_BYTES),
        }
    }

    fn check(&mut self, database: &Database, cycle: u64, new: Acknowledged) -> Result<()> {
        let numbers = new.into_iter().map(|(_, number)| number);
        self.acknowledged.extend(numbers);
        let verdict = check(database, self.seed, &self.acknowledged, cycle + 1)?;
        self.unacknowledged = verdict.unacknowledged;
        Ok(())
    }

    fn counts(&self) -> (u64, u64) {
        (self.acknowledged.len() as u64, self.unacknowledged)
    }
}

/// Makes the tables, with a counter row for each airport.
pub(crate) fn prepare(database: &Database) -> Result<()> {
    let airports = codes(database)?;
    database
        .create_table(BOOKINGS)
        .column("number", DataType::Int64)
        .column("origin", DataType::Varchar { max: 8 })
        .column("destination", DataType::Varchar { max: 8 })
        .create()?;
    let traffic = database
        .create_table(TRAFFIC)
        .column("airport", DataType::Varchar { max: 8 })
        .column("departures", DataType::Int64)
        .column("arrivals", DataType::Int64)
        .create()?;
    database.transaction(|transaction| {
        for code in &airports {
            transaction.insert(&traffic, (code.as_str(), 0_i64, 0_i64))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Books from number `first` on until the process is killed, and acknowledges each booking when it
/// is durable.
pub(crate) fn run(database: &Database, seed: u64, first: u64) -> Result<()> {
    let airports = codes(database)?;
    let (bookings, traffic) = (database.table(BOOKINGS)?, database.table(TRAFFIC)?);
    let next = AtomicU64::new(first);
    let acknowledgements = Acknowledgements::to_parent()?;
    std::thread::scope(|threads| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                let acknowledge = acknowledgements.another();
                let (airports, bookings, traffic, next) = (&airports, &bookings, &traffic, &next);
                threads.spawn(move || {
                    let mut acknowledge = acknowledge?;
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let (origin, destination) = route(airports, seed, number);
                        database.transaction(|transaction| {
                            transaction
                                .insert(bookings, (number.cast_signed(), origin, destination))?;
                            count(transaction, traffic, origin, DEPARTURES)?;
                            count(transaction, traffic, destination, ARRIVALS)
                        })?;
                        acknowledge.send(0, number)?;
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("booking does not panic"))
    })
}

/// Adds one to a counter of an airport.
fn count(
    transaction: &mut Transaction<'_>,
    traffic: &Table,
    airport: &str,
    column: usize,
) -> Result<(), Error> {
    let Some(row) = transaction.get(traffic, airport)? else {
        return Err(Error::rejected(format!(
            "airport {airport} has no traffic row"
        )));
    };
    let mut changes = traffic.changes();
    changes.set(column, row.get(column).as_i64().unwrap_or(0) + 1)?;
    transaction.update(traffic, airport, &changes)?;
    Ok(())
}

/// The airports of a booking.
fn route(airports: &[String], seed: u64, number: u64) -> (&str, &str) {
    let random = mix(seed ^ number << 8);
    let count = airports.len() as u64;
    let origin = random % count;
    let destination = (origin + 1 + (random >> 32) % (count - 1)) % count;
    (&airports[origin as usize], &airports[destination as usize])
}

/// Counts of bookings after a kill.
pub(crate) struct Verdict {
    /// Bookings that are there.
    pub(crate) bookings: u64,
    /// Those that were not acknowledged before the kill, but are whole.
    pub(crate) unacknowledged: u64,
}

/// Checks after a number of kills that every acknowledged booking is there and that none is half
/// there.
pub(crate) fn check(
    database: &Database,
    seed: u64,
    acknowledged: &[u64],
    kills: u64,
) -> Result<Verdict> {
    let airports = codes(database)?;
    let found = bookings(database, &airports, seed)?;
    for number in acknowledged {
        if found.binary_search(number).is_err() {
            bail!("booking {number} was acknowledged and is lost");
        }
    }
    let unacknowledged = (found.len() - acknowledged.len()) as u64;
    ensure!(
        unacknowledged <= u64::from(THREADS) * kills,
        "{unacknowledged} bookings are there that were not acknowledged, but only {THREADS} can be in flight at a kill"
    );
    let mut expected: BTreeMap<&str, [i64; 2]> = BTreeMap::new();
    for number in &found {
        let (origin, destination) = route(&airports, seed, *number);
        expected.entry(origin).or_default()[0] += 1;
        expected.entry(destination).or_default()[1] += 1;
    }
    let traffic = database.table(TRAFFIC)?;
    for_each(database, &traffic, |row| {
        let airport = row.get(0).as_str().unwrap_or_default();
        let counted = [DEPARTURES, ARRIVALS].map(|column| row.get(column).as_i64().unwrap_or(-1));
        let booked = expected.get(airport).copied().unwrap_or_default();
        ensure!(
            counted == booked,
            "airport {airport} counts {counted:?} departures and arrivals, its bookings are {booked:?}: \
             a transaction is there by halves"
        );
        Ok(())
    })?;
    Ok(Verdict {
        bookings: found.len() as u64,
        unacknowledged,
    })
}

/// Numbers of the bookings that are there, ascending; each must be as it was made.
fn bookings(database: &Database, airports: &[String], seed: u64) -> Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for_each(database, &database.table(BOOKINGS)?, |row| {
        let number = row.get(0).as_i64().unwrap_or(-1).unsigned_abs();
        let (origin, destination) = route(airports, seed, number);
        let stored = (row.get(1).as_str(), row.get(2).as_str());
        ensure!(
            stored == (Some(origin), Some(destination)),
            "booking {number} goes from {stored:?} instead of {origin} to {destination}"
        );
        numbers.push(number);
        Ok(())
    })?;
    Ok(numbers)
}

/// Codes of all imported airports, in the order of their keys.
fn codes(database: &Database) -> Result<Vec<String>> {
    let mut codes = Vec::new();
    for_each(database, &database.table(super::AIRPORTS)?, |row| {
        codes.extend(row.get(0).as_str().map(str::to_owned));
        Ok(())
    })?;
    ensure!(codes.len() > 1, "the airports are missing");
    Ok(codes)
}

/// Visits all rows of a table until one is refused.
fn for_each(
    database: &Database,
    table: &Table,
    mut visit: impl FnMut(&Row) -> Result<()>,
) -> Result<()> {
    let mut outcome = Ok(());
    let mut transaction = database.begin()?;
    transaction.scan(table, .., Direction::Forward, |row| {
        outcome = visit(row);
        if outcome.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    transaction.commit()?;
    outcome
}
