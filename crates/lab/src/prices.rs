//! Prices of a configuration's media, and rows of transactions a second and dollar.
//!
//! No such row needs a run of its own. The report makes it from a measured row, so other prices
//! need no new run. A configuration pays for its buffer pool as DRAM, and for pages and log by
//! their medium. The price of NVM is a multiple of that of the disk; this ratio is the axis of the
//! figure.

use super::experiment::Kind;
use super::point::{Point, hash};
use super::rows::{LabRow, Sample, Spread};
use super::size::Size;
use clap::Args;

/// The axis.
const RATIO: &str = "price-ratio";
const GB: f64 = 1e9;

/// Dollars a gigabyte; the defaults are the paper's.
#[derive(Clone, Copy, Debug, Args)]
pub struct Prices {
    /// Dollars for a gigabyte of DRAM, in figures of transactions a dollar
    #[arg(long, default_value_t = 5.5, value_parser = parse_price)]
    dram_price: f64,
    /// Dollars for a gigabyte of the disk; NVM costs a multiple of it (0.05 is a hard disk's in the
    /// paper, 0.7 a flash drive's)
    #[arg(long, default_value_t = 0.05, value_parser = parse_price)]
    disk_price: f64,
}

fn parse_price(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(price) if (1e-6..=1e6).contains(&price) => Ok(price),
        _ => Err("use dollars a gigabyte from 0.000001 to 1000000, for example 0.05".into()),
    }
}

/// The run from which a priced point is computed; none for a point that is run itself.
pub fn measured(point: &Point) -> Option<Point> {
    if point.kind != Kind::Priced {
        return None;
    }
    let mut measured = point.clone();
    measured.kind = Kind::Paged;
    measured.parameters.remove(RATIO);
    Some(measured)
}

impl Prices {
    /// The row of a priced point from that of its run.
    pub fn apply(&self, point: &Point, size: &Size, row: &LabRow) -> Option<LabRow> {
        let ratio: f64 = point.get(RATIO).parse().ok()?;
        let nvm_price = ratio * self.disk_price;
        let (pages_price, log_price) = match point.get("placement") {
            "all-in-nvm" => (nvm_price, nvm_price),
            "db-nvm-log-ssd" => (nvm_price, self.disk_price),
            "db-ssd-log-nvm" => (self.disk_price, nvm_price),
            _ => (self.disk_price, self.disk_price),
        };
        let log_bytes = row.median("log_bytes")?;
        let pages_bytes = row.median("footprint_bytes")? - log_bytes;
        let dollars = (row.median("pool_bytes")? * self.dram_price
            + pages_bytes * pages_price
            + log_bytes * log_price)
            / GB;
        let samples = row.samples.iter().map(|sample| {
            let speed = sample.metrics.get("txn_per_s").copied();
            let numbers = [
                ("dollars", dollars),
                ("txn_per_s_per_dollar", speed? / dollars),
            ];
            Some(Sample {
                metrics: numbers.map(|(name, value)| (name.to_owned(), value)).into(),
                ..sample.clone()
            })
        });
        let samples: Vec<Sample> = samples.collect::<Option<_>>()?;
        let configuration = format!(
            "{}, {} $/GB of DRAM, {} of disk",
            point.configuration(size),
            self.dram_price,
            self.disk_price
        );
        Some(LabRow {
            kind: point.kind.name().into(),
            parameters: point.parameters.clone(),
            metrics: Spread::of_each(&samples),
            samples,
            config: hash(&configuration),
            configuration,
            ..row.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Metrics;
    use measure::conditions::Conditions;
    use measure::machine::Machine;
    use std::path::Path;

    #[test]
    fn media_cost_by_where_things_lie() {
        let of_test = Prices {
            dram_price: 5.0,
            disk_price: 0.1,
        };
        let size = Size::smoke();
        let dollars_of = |placement: &str| {
            let parameters = [("placement", placement), (RATIO, "20")];
            let parameters = parameters.map(|(name, value)| (name.into(), value.into()));
            let point = Point::new(Kind::Priced, parameters.into(), 1);
            let metrics = [
                ("txn_per_s", 700.0),
                ("pool_bytes", 1e9),
                ("footprint_bytes", 10e9),
                ("log_bytes", 2e9),
            ];
            let metrics = Metrics::from(metrics.map(|(name, value)| (name.to_owned(), value)));
            let run = measured(&point).unwrap();
            assert_eq!((run.kind, run.get(RATIO)), (Kind::Paged, ""));
            let sample = Sample {
                round: 0,
                order: 0,
                conditions: Conditions::default(),
                counters: Metrics::new(),
                metrics,
            };
            let made = ("abc", Machine::here(Path::new("."), "none"));
            let row = LabRow::new(&run, &size, vec![sample], made);
            let row = of_test.apply(&point, &size, &row).unwrap();
            let dollars = row.median("dollars").unwrap();
            let per_dollar = row.median("txn_per_s_per_dollar").unwrap();
            assert!((per_dollar * dollars - 700.0).abs() < 1e-6);
            dollars
        };
        for (placement, dollars) in [
            ("all-in-nvm", 5.0 + 20.0),
            ("db-ssd-log-nvm", 5.0 + 0.8 + 4.0),
            ("db-nvm-log-ssd", 5.0 + 16.0 + 0.2),
            ("all-on-ssd", 5.0 + 1.0),
        ] {
            assert!(
                (dollars_of(placement) - dollars).abs() < 1e-9,
                "{placement}"
            );
        }
    }
}
