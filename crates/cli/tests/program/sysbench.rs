//! Goal: `bench sysbench` runs every script on tuple methods over several partitions and on page
//! methods with threads that share one, and prints complete and consistent rows.
//!
//! Method: small sizes; the program itself compares every row with the lists after each run, so
//! success means that they agree. Counts and ratios in the rows are those of the scripts.

use crate::common::{fail, succeed};
use serde_json::Value;

const SMALL: [&str; 6] = ["--tables", "2", "--rows", "500", "--range-size", "10"];

fn rows(arguments: &[&str]) -> Vec<Value> {
    let fixed = ["bench", "sysbench", "--format", "json"];
    let printed = succeed(&[&fixed, &SMALL[..], arguments].concat());
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Whether two numbers of a row are the same but for rounding.
fn agree(left: f64, right: f64) -> bool {
    (left / right - 1.0).abs() < 1e-9
}

#[test]
fn every_script_runs_on_tuples_and_on_pages() {
    for (script, statements) in [
        ("read-write", 18.0),
        ("read-only", 14.0),
        ("write-only", 4.0),
        ("point-select", 1.0),
        ("update-index", 1.0),
        ("update-non-index", 1.0),
        ("insert", 1.0),
        ("delete", 1.0),
    ] {
        let run = ["--script", script, "--txns", "400"];
        let tuples = ["--method", "nvm-inp,inp", "--partitions", "2"];
        let pages = ["--method", "full-page-writes,nv-logging", "--threads", "4"];
        let pages = [&pages[..], &["--pool", "2000000", "--ring", "1000000"]].concat();
        for (methods, threads) in [(&tuples[..], 2), (&pages, 4)] {
            let printed = rows(&[&run, methods].concat());
            assert_eq!(printed.len(), 2);
            for row in &printed {
                assert_eq!(
                    (&row["workload"], &row["mix"]),
                    (&"sysbench".into(), &script.into())
                );
                assert_eq!(
                    (&row["skew"], &row["rows"]),
                    (&"special".into(), &1000.into())
                );
                assert_eq!(
                    (&row["tables"], &row["table_rows"]),
                    (&2.into(), &500.into())
                );
                assert_eq!(
                    (&row["txns"], &row["threads"]),
                    (&400.into(), &threads.into())
                );
                assert_eq!(
                    (&row["range_size"], &row["skip_trx"]),
                    (&10.into(), &false.into())
                );
                assert_eq!(
                    (&row["by_type"][script]["txns"], &row["rollbacks"]),
                    (&400.into(), &0.into())
                );
                let a_second = |name: &str| row[name].as_f64().unwrap();
                assert!(
                    agree(a_second("events_per_s"), a_second("txn_per_s")),
                    "{row}"
                );
                let of_all = a_second("txn_per_s") * statements;
                assert!(agree(a_second("statements_per_s"), of_all), "{row}");
            }
        }
    }
}

#[test]
fn statements_alone_are_transactions_and_counted_as_such() {
    let run = ["--skip-trx", "--txns", "3600", "--distribution", "zipfian"];
    let methods = ["--method", "nv-disk", "--threads", "2"];
    let row = rows(&[&run[..], &methods].concat()).remove(0);
    assert_eq!(
        (&row["txns"], &row["skew"]),
        (&3600.into(), &"zipfian".into())
    );
    for (statement, txns) in [
        ("point-select", 2000),
        ("sum-range", 200),
        ("delete", 200),
        ("insert", 200),
    ] {
        assert_eq!(row["by_type"][statement]["txns"], txns, "{row}");
    }
    let (events, txns) = (row["events_per_s"].as_f64(), row["txn_per_s"].as_f64());
    assert!(agree(events.unwrap() * 18.0, txns.unwrap()), "{row}");
}

#[test]
fn many_threads_share_the_rows() {
    let run = ["--method", "dwb", "--threads", "128", "--txns", "2560"];
    let row = rows(&[&run[..], &["--distribution", "pareto"]].concat()).remove(0);
    assert_eq!((&row["threads"], &row["txns"]), (&128.into(), &2560.into()));
    let per_txn = |name: &str| row["per_txn"][name].as_f64().unwrap();
    assert!(
        per_txn("bytes_written") > 0.0 && per_txn("syncs") > 0.0,
        "{row}"
    );
}

#[test]
fn mistakes_are_named_with_their_mend() {
    let wrong = |arguments: &[&str]| {
        let fixed = ["bench", "sysbench", "--method", "inp"];
        fail(2, &[&fixed, arguments].concat())
    };
    assert!(wrong(&["--rows", "1", "--partitions", "2"]).contains("use more rows"));
    assert!(wrong(&["--script", "mixed"]).contains("update-non-index"));
    assert!(wrong(&["--distribution", "zipf"]).contains("zipfian"));
    assert!(wrong(&["--tables", "0"]).contains("1..=1024"));
    assert!(wrong(&["--threads", "2"]).contains("use --partitions 2"));
    let too_many = ["bench", "sysbench", "--method", "dwb", "--threads", "257"];
    assert!(fail(2, &too_many).contains("1..=256"));
}
