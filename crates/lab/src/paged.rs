//! Common parts of experiments on the page engine: their settings, and the options of
//! `indelible bench` for their parameters.
//!
//! A name of the paper may stand for several options at once: a scheme is a method with its way of
//! committing, a placement is the media of two kinds of files. Sizes that depend on the data are
//! shares of it.

use super::experiment::{Axes, Axis, Filter, Plot, Shape, Test, Within};
use super::point::Point;
use super::size::Size;
use pmem::device::emulated::DRAM_READ_NS;
use std::time::Duration;

pub(crate) const SPEED: &str = "txn_per_s";
/// The buffer pool has room for all data, and for the rows that a run adds.
pub(crate) const POOL_ALL: Axis = ("pool-share", &["2"]);

/// Throughput over a parameter, a line for each scheme.
pub(crate) const fn over(
    caption: &'static str,
    x: &'static str,
    x_label: &'static str,
    rows: Filter,
) -> Plot {
    Plot {
        caption,
        rows,
        shape: Shape::Lines {
            metric: SPEED,
            x,
            x_label,
            y_label: "txn/s",
            line: "scheme",
            x_scale: Axes::Logarithmic,
            scale: Axes::Linear,
        },
    }
}

/// Throughput of some rows against others.
pub(crate) const fn faster(over: Filter, under: Filter, rows: Filter, within: Within) -> Test {
    Test::ratio(SPEED, (over, under), rows, within)
}

/// The modelled cache in front of log and files: that of the paper's processor.
const CACHE_BYTES: u64 = 8 << 20;
/// A buffer pool has room for some pages of each of sixteen threads.
const POOL_BYTES_MIN: u64 = 4 << 20;
/// The pool is small in runs with a drive: room for some pages of each of 128 threads, in TPC-C of
/// each of 32.
const DRIVE_POOL_BYTES_MIN: u64 = 2 << 20;
/// The smallest area that a database may have.
const AREA_BYTES_MIN: u64 = indelible::AREA_BYTES_MIN;
/// Least log between two checkpoints: some dozen transactions.
const LOG_BYTES_MIN: u64 = 64 << 10;
/// Transactions before the measured ones, at most: several change each page of the smallest pool.
const WARM_UP_MAX: u128 = 2000;
/// In runs with a drive each of 128 sessions has a ring.
const DRIVE_RING_BYTES: u64 = 1 << 20;
/// A ring has room for some hundred transactions between two checkpoints.
const RING_BYTES_MIN: u64 = 4 << 20;
/// A log that sessions share has sixteen rings, for any number of threads.
const RING_BYTES_MAX: u64 = 160 << 20;

/// The options of a point, in addition to those that all runs have.
pub(crate) fn options(point: &Point, size: &Size) -> Vec<(String, String)> {
    let workload = point.get("workload");
    let mut options: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: &str| options.push((name.to_owned(), value.to_owned()));
    for (name, value) in &point.parameters {
        match name.as_str() {
            "workload" | "ring-share" | "io-us" => {}
            "scheme" => scheme(value).iter().for_each(|(name, of)| add(name, of)),
            "placement" => placement(value).iter().for_each(|(name, of)| add(name, of)),
            "slowdown" => {
                let times: u64 = value.parse().unwrap_or(1);
                let added_ns = times.saturating_sub(1) * DRAM_READ_NS;
                add("profile", &format!("dram,write={added_ns}"));
            }
            "latency-ns" => {
                let latency_ns: u64 = value.parse().unwrap_or(DRAM_READ_NS);
                let added_ns = latency_ns.saturating_sub(DRAM_READ_NS);
                add(
                    "profile",
                    &format!("dram,read={latency_ns},write={added_ns}"),
                );
            }
            "pool-share" => {
                let bytes = share_of(size.paged_bytes(workload), value);
                add("pool", &bytes.max(pool_bytes_min(point)).to_string());
            }
            // The schemes to compare with have no area, but the axis is theirs too.
            "area-share" if !point.get("scheme").starts_with("nvm-dwb") => {}
            "area-share" => {
                let bytes = share_of(size.paged_bytes(workload), value);
                add("area", &bytes.max(AREA_BYTES_MIN).to_string());
            }
            "log-share" => {
                let bytes = share_of(size.paged_bytes(workload), value);
                add("log-bytes", &bytes.max(LOG_BYTES_MIN).to_string());
            }
            "drive" | "flush-us" => {
                let drive = match name.as_str() {
                    "drive" => value.clone(),
                    _ => format!("sata,sync={value}000"),
                };
                add("files", &drive);
                add("log-files", &drive);
            }
            _ => add(name, value),
        }
    }
    if !point.get("io-us").is_empty() {
        slow_down(&mut options, point.get("io-us"));
    }
    let mut add = |name: &str, value: &str| options.push((name.to_owned(), value.to_owned()));
    if let Some(bytes) = ring_bytes(point, size) {
        add("ring", &bytes.to_string());
    }
    for (name, value) in rows(workload, point, size) {
        add(name, &value);
    }
    let seconds = if has_drive(point) || point.get("placement").contains("hdd") {
        size.drive_seconds
    } else {
        size.seconds
    };
    add("seconds", &seconds.to_string());
    add("primitives", "flush");
    if point.get("device").is_empty() {
        add("device", "emulated");
    }
    if point.get("device") != "native" {
        add("cache-bytes", &CACHE_BYTES.to_string());
    }
    options
}

/// The smallest buffer pool of a run.
fn pool_bytes_min(point: &Point) -> u64 {
    match has_drive(point) {
        true if point.get("workload") == "tpcc" => DRIVE_POOL_BYTES_MIN / 4,
        true => DRIVE_POOL_BYTES_MIN,
        false => POOL_BYTES_MIN,
    }
}

/// Lets each read, write and sync of a file in the imitated memory take some microseconds.
fn slow_down(options: &mut [(String, String)], us: &str) {
    let files = options
        .iter_mut()
        .filter(|(name, value)| name.ends_with("files") && value == "none");
    for (_, value) in files {
        *value = format!("none,read={us}000,write={us}000,sync={us}000");
    }
}

/// The number of rows, and the transactions before the measured ones. Each thread has a warehouse;
/// more of them than the size has are as much smaller, so the data stay as large.
fn rows(workload: &str, point: &Point, size: &Size) -> Vec<(&'static str, String)> {
    let threads: u32 = point.get("threads").parse().unwrap_or(1);
    let times = threads.div_ceil(size.paged_warehouses).max(1);
    match workload {
        "tpcb" => vec![
            ("branches", size.branches.to_string()),
            ("accounts", size.accounts.to_string()),
        ],
        "tatp" => vec![("subscribers", size.subscribers.to_string())],
        "sysbench" => {
            // A pool without a dirty page would not write for a while.
            let warm_up = Duration::from_secs_f64(size.drive_seconds).as_millis();
            vec![
                ("rows", size.sysbench_rows.to_string()),
                ("warm-up", warm_up.min(WARM_UP_MAX).to_string()),
            ]
        }
        _ => vec![
            ("warehouses", (size.paged_warehouses * times).to_string()),
            ("scale", (size.paged_scale() / f64::from(times)).to_string()),
        ],
    }
}

/// Whether its data is on an imitated drive whose flushes take milliseconds, or on a drive of this
/// machine, with the same sizes.
fn has_drive(point: &Point) -> bool {
    point.get("workload") == "sysbench" || !point.get("drive").is_empty()
}

/// Bytes of a ring of the log, in schemes that have some.
fn ring_bytes(point: &Point, size: &Size) -> Option<u64> {
    let scheme = point.get("scheme");
    if scheme.starts_with("nvm-dwb-log") {
        return Some(DRIVE_RING_BYTES);
    }
    let is_log = scheme.starts_with("flush-on") || scheme == "distributed-log";
    if !is_log && !matches!(scheme, "in-place" | "group-commit") {
        return None;
    }
    let threads: u64 = point.get("threads").parse().unwrap_or(1);
    let bytes = match point.get("ring-share") {
        "" if is_log => (size.log_ring_bytes / threads).min(RING_BYTES_MAX),
        "" => size.ring_bytes,
        share => share_of(size.paged_bytes(point.get("workload")), share),
    };
    Some(bytes.max(RING_BYTES_MIN))
}

/// A share of bytes, which is a decimal number of up to three digits after the point.
fn share_of(bytes: u64, share: &str) -> u64 {
    let (whole, places) = share.split_once('.').unwrap_or((share, ""));
    let thousandths: u64 = format!("{whole}{places:0<3}").parse().unwrap_or(1000);
    bytes * thousandths / 1000
}

/// The schemes of NV-Logging's table 3, and the two logs that it compares them with; the designs of
/// NVRAM-era; the schemes of NVM-DWB and those that it compares them with.
fn scheme(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "nv-disk" => &[("method", "nv-disk"), ("commit", "asynchronous")],
        "nv-disk-sync" => &[("method", "nv-disk"), ("commit", "synchronous")],
        "nv-disk-decentralized" => &[
            ("method", "nv-disk-decentralized"),
            ("commit", "asynchronous"),
        ],
        "distributed-log" => &[("method", "distributed-log")],
        "disk-replacement" => &[("method", "disk-replacement"), ("commit", "synchronous")],
        "in-place" => &[("method", "in-place")],
        "group-commit" => &[("method", "group-commit")],
        "dwb-off" => &[("method", "dwb-off")],
        "dwb" => &[("method", "dwb")],
        "dwb-batched" => &[("method", "dwb-batched")],
        "full-page-writes" => &[("method", "full-page-writes")],
        "nvm-dwb" => &[("method", "nvm-dwb")],
        "nvm-dwb-log" => &[("method", "nvm-dwb-log")],
        "nvm-dwb-log-opt" => &[("method", "nvm-dwb-log-opt")],
        "flush-on-commit" => &[("method", "nv-logging"), ("persist", "flush-on-commit")],
        _ => &[("method", "nv-logging"), ("persist", "flush-on-insert")],
    }
}

/// Media of the files of pages and of the log: the imitated memory, or an imitated flash drive or
/// hard disk.
fn placement(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "all-in-nvm" => &[("files", "none"), ("log-files", "none")],
        "db-nvm-log-ssd" => &[("files", "none"), ("log-files", "ssd")],
        "db-ssd-log-nvm" => &[("files", "ssd"), ("log-files", "none")],
        "db-nvm-log-hdd" => &[("files", "none"), ("log-files", "hdd")],
        "db-hdd-log-nvm" => &[("files", "hdd"), ("log-files", "none")],
        "all-on-hdd" => &[("files", "hdd"), ("log-files", "hdd")],
        _ => &[("files", "ssd"), ("log-files", "ssd")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Kind;
    use crate::variant::Variant;

    fn options_of(parameters: &[(&str, &str)]) -> Vec<String> {
        let named = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let point = Point::new(Kind::Paged, parameters.iter().map(named).collect(), 1);
        let options = options(&point, &Size::smoke());
        let words = options
            .iter()
            .map(|(name, value)| format!("--{name} {value}"));
        words.collect()
    }

    #[test]
    fn names_of_the_paper_become_options() {
        let options = options_of(&[
            ("latency-ns", "500"),
            ("pool-share", "1000"),
            ("scheme", "flush-on-commit"),
            ("threads", "4"),
            ("workload", "tpcb"),
        ]);
        for wanted in [
            "--method nv-logging",
            "--persist flush-on-commit",
            "--profile dram,read=500,write=340",
            "--threads 4",
            "--branches 16",
            "--pool 204800000",
            "--device emulated",
        ] {
            assert!(options.iter().any(|option| option == wanted), "{wanted}");
        }
        let options = options_of(&[
            ("slowdown", "8"),
            ("scheme", "nv-disk-sync"),
            ("device", "native"),
            ("placement", "db-ssd-log-nvm"),
        ]);
        let has = |wanted: &str| options.iter().any(|option| option == wanted);
        assert!(has("--profile dram,write=1120") && has("--method nv-disk"));
        assert!(has("--commit synchronous") && has("--files ssd") && has("--log-files none"));
        assert!(!has("--device emulated") && has("--warehouses 16") && has("--seconds 0.01"));
        let options = options_of(&[("placement", "db-hdd-log-nvm"), ("pool-share", "0.33")]);
        let has = |wanted: &str| options.iter().any(|option| option == wanted);
        assert!(has("--files hdd") && has("--log-files none") && has("--seconds 0.02"));
        // As much as with all data in memory, the case that it is compared with.
        assert!(has("--pool 4194304"));
    }

    #[test]
    fn each_thread_has_a_warehouse() {
        for size in [Size::smoke(), Size::default(), Size::full()] {
            for experiment in crate::experiments() {
                for point in Point::of(experiment, &size, 1, Variant::Paper) {
                    let options = point.arguments(&size);
                    let number = |name: &str| {
                        let at = options.iter().position(|option| option == name)?;
                        options[at + 1].parse::<u32>().ok()
                    };
                    let both = number("--warehouses").zip(number("--threads"));
                    assert!(
                        both.is_none_or(|(warehouses, threads)| warehouses >= threads),
                        "{}: {options:?}",
                        experiment.name
                    );
                }
            }
        }
    }

    #[test]
    fn shares_are_decimal_numbers() {
        let shares = ["2", "0.67", "0.009", "1.5"].map(|share| share_of(2000, share));
        assert_eq!(shares, [4000, 1340, 18, 3000]);
    }

    #[test]
    fn only_methods_with_rings_are_told_their_size() {
        let ring = |scheme| {
            let options = options_of(&[("scheme", scheme), ("ring-share", "0.01")]);
            options.iter().any(|option| option == "--ring 4194304")
        };
        assert!(ring("flush-on-insert") && ring("distributed-log"));
        assert!(!ring("nv-disk") && !ring("nv-disk-decentralized"));
    }
}
