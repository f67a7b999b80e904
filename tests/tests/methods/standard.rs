//! The standard benchmarks under power cuts.
//!
//! Goal: at every crash point of transactions over two partitions, recovery leaves a database in
//! which all consistency conditions of TPC-C, TPC-B, TATP and sysbench hold and no acknowledged
//! transaction is missing. Method: `torture::standard`, at a small setting, and once more with a
//! fence taken away, which each benchmark must notice.

use indelible::Method;
use std::time::Duration;
use torture::search::Config;
use torture::standard::{Benchmark, search};

/// Images of each method.
const IMAGES: u64 = 100;
/// Longest search; it ends by its images.
const SECONDS_MAX: u64 = 300;

fn config(method: Method) -> Config {
    Config::new(method, 11, IMAGES, Duration::from_secs(SECONDS_MAX))
}

fn the_conditions_hold(benchmark: Benchmark) {
    for method in Method::distinct().filter(|method| method.is_durable()) {
        let report = search(benchmark, &config(method), &mut |_| ());
        let failure = report.failure.map(|failure| failure.what);
        assert_eq!(failure, None, "{method}");
        assert!(
            report.images >= IMAGES,
            "{method}: {} images",
            report.images
        );
    }
}

#[test]
fn the_conditions_of_tpcc_hold_after_every_power_cut() {
    the_conditions_hold(Benchmark::Tpcc);
}

#[test]
fn the_conditions_of_tpcb_hold_after_every_power_cut() {
    the_conditions_hold(Benchmark::Tpcb);
}

#[test]
fn the_conditions_of_tatp_hold_after_every_power_cut() {
    the_conditions_hold(Benchmark::Tatp);
}

#[test]
fn the_rows_of_sysbench_are_whole_after_every_power_cut() {
    the_conditions_hold(Benchmark::Sysbench);
}

#[test]
fn a_missing_fence_is_noticed() {
    for benchmark in Benchmark::ALL {
        for (method, site) in [
            (Method::NvmInp, "undo.commit-record-fence"),
            (Method::Inp, "wal.flush"),
        ] {
            let mut config = config(method);
            config.images_max = 100 * IMAGES;
            config.disabled = vec![site.into()];
            let report = search(benchmark, &config, &mut |_| ());
            let name = benchmark.name();
            assert!(report.wrong > 0, "{name}, {method} without {site}");
        }
    }
}
