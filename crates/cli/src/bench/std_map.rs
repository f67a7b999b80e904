//! The same list of transactions on the standard library's ordered map of boxed rows: for scale.
//!
//! No transactions, no indexes beside the key, no durability, no checks: what is left is the cost of finding a row and of
//! copying its columns, so the distance to it is what the rest of a database costs.

use super::measure::{Clockwork, Done, Limit, Measured, Tally, run_threads};
use anyhow::{Result, bail};
use pmem::device::emulated::Clock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use workload::ycsb::{Action, COLUMN_BYTES, COLUMNS, Ycsb};

const ROW_BYTES: usize = COLUMNS * COLUMN_BYTES;

type Map = BTreeMap<u64, Box<[u8; ROW_BYTES]>>;

/// Loads the maps and runs the list on them.
pub(super) fn measure(workload: &Ycsb, limit: Limit) -> Result<Measured> {
    let partitions = workload.options().partitions;
    let maps: Vec<Mutex<Map>> = (0..partitions)
        .map(|partition| Mutex::new(load(workload, partition)))
        .collect();
    let positions = vec![0; maps.len()];
    run_threads(1, &positions, limit, |partition, _, clockwork| {
        let mut map = maps[partition as usize]
            .lock()
            .expect("one thread a map, and it does not panic");
        run(workload, partition, &mut map, limit, clockwork)
    })
}

/// Bytes of the rows.
pub(super) fn table_bytes(workload: &Ycsb) -> u64 {
    u64::from(workload.options().rows) * ROW_BYTES as u64
}

fn load(workload: &Ycsb, partition: u32) -> Map {
    let row = |key| {
        let mut row = Box::new([0; ROW_BYTES]);
        for (column, place) in row.chunks_exact_mut(COLUMN_BYTES).enumerate() {
            place.copy_from_slice(workload.contents().initial(key, column).as_bytes());
        }
        (u64::from(key), row)
    };
    workload.keys(partition).map(row).collect()
}

fn run(
    workload: &Ycsb,
    partition: u32,
    map: &mut Map,
    limit: Limit,
    clockwork: &Clockwork,
) -> Result<Done> {
    let list = workload.list(partition);
    let update_columns = workload.options().update_columns as usize;
    let end = match limit {
        Limit::Time(_) => u64::MAX,
        Limit::Transactions(count) => count,
    };
    let mut tally = Tally::new(1);
    let mut buffer = [0_u8; ROW_BYTES];
    let (mut position, mut at) = (0_u64, 0);
    let clock = Clock::real();
    clockwork.wait_for_start();
    let mut start_ns = clock.now_ns_unordered();
    while position < end && !clockwork.is_over() {
        for _ in 0..64.min(end - position) {
            let access = list[at];
            let Some(row) = map.get_mut(&u64::from(access.key)) else {
                bail!("the row with key {} is missing", access.key);
            };
            match access.action() {
                Action::Read => {
                    buffer.copy_from_slice(&row[..]);
                    std::hint::black_box(&buffer);
                }
                Action::Update(first) => {
                    for step in 0..update_columns {
                        let column = (first + step) % COLUMNS;
                        let value = workload.contents().update(partition, position, column);
                        let place = &mut row[column * COLUMN_BYTES..(column + 1) * COLUMN_BYTES];
                        place.copy_from_slice(value.as_bytes());
                    }
                }
            }
            position += 1;
            at = if at + 1 == list.len() { 0 } else { at + 1 };
            let now_ns = clock.now_ns_unordered();
            tally.record(0, now_ns - start_ns);
            start_ns = now_ns;
        }
    }
    Ok(Done { position, tally })
}
