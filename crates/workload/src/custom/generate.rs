//! The list of chosen shares.
//!
//! Rows are drawn in two steps, hot or cold, then evenly within; hot rows are spread over the whole
//! key range. Reads, updates and scans go to the rows that were loaded; insertions append, as keys
//! that count up do.

use super::{CustomOptions, Kind, Operation, key_of};
use crate::random::{Random, Spread};

pub(super) fn generate(options: &CustomOptions) -> Vec<Operation> {
    let mut random = Random::new(options.seed);
    let spread = Spread::new(options.rows);
    let skew = options.skew;
    let hot_rows = (options.rows * skew.rows_percent / 100).clamp(1, options.rows);
    let cold_rows = options.rows - hot_rows;
    let mut inserted = 0;
    let mut list =
        Vec::with_capacity((options.transactions * u64::from(options.operations)) as usize);
    for _ in 0..options.transactions {
        for at in 1..=options.operations {
            let rank = if cold_rows == 0 || random.below(100) < skew.accesses_percent {
                random.below(hot_rows)
            } else {
                hot_rows + random.below(cold_rows)
            };
            let (kind, count) = kind(options, &mut random);
            let row = if kind == Kind::Insert {
                inserted += 1;
                options.rows + inserted - 1
            } else {
                spread.place(rank)
            };
            list.push(Operation {
                key: key_of(row),
                table: 0,
                kind,
                count,
                ends_transaction: at == options.operations,
            });
        }
    }
    list
}

fn kind(options: &CustomOptions, random: &mut Random) -> (Kind, u32) {
    let mix = options.mix;
    let mut share = random.below(mix.total());
    for (part, kind) in [
        (mix.read, (Kind::Get, 0)),
        (mix.update, (Kind::Update, options.update_columns)),
        (mix.insert, (Kind::Insert, 0)),
    ] {
        if share < u64::from(part) {
            return kind;
        }
        share -= u64::from(part);
    }
    (Kind::Scan, options.scan_rows)
}
