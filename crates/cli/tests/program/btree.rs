//! Goal: `bench btree-insert` runs every order and mix on the methods with slotted pages and on
//! others, and prints complete and consistent rows.
//!
//! Method: small sizes; the program itself compares every row at the end, so success means that
//! they agree; counts in the rows are those of the options.

use crate::common::{fail, succeed};
use serde_json::Value;

fn row(arguments: &[&str]) -> Value {
    let fixed = [
        "bench",
        "btree-insert",
        "--format",
        "json",
        "--rows",
        "500",
        "--txns",
        "100",
    ];
    let printed = succeed(&[&fixed, arguments].concat());
    serde_json::from_str(printed.trim()).unwrap()
}

#[test]
fn every_order_and_mix_runs() {
    for method in ["fash", "fast", "nvm-inp", "full-page-writes"] {
        for (mix, order, before) in [
            ("insert", "random", 0),
            ("insert", "ascending", 0),
            ("update", "random", 500),
            ("delete", "ascending", 500),
            ("mixed", "random", 500),
        ] {
            let run = ["--method", method, "--mix", mix, "--order", order];
            let row = row(&[&run[..], &["--record", "16", "--txn-size", "3"]].concat());
            let mix = format!("{mix}, record 16, txn-size 3");
            assert_eq!(
                (&row["workload"], &row["mix"], &row["skew"]),
                (&"btree-insert".into(), &mix.into(), &order.into())
            );
            assert_eq!(
                (&row["txns"], &row["rows"]),
                (&100.into(), &before.into()),
                "{row}"
            );
        }
    }
}

/// Single insertions that commit at once, as in the paper: cell, header, and a fence after each.
#[test]
fn an_insertion_of_fast_takes_two_fences() {
    let run = ["--method", "fast", "--group", "1", "--device", "emulated"];
    let row = row(&run);
    assert!(row["per_txn"]["fences"].as_f64().unwrap() < 2.5, "{row}");
}

#[test]
fn mistakes_are_named_with_their_mend() {
    let wrong = |arguments: &[&str]| {
        let fixed = ["bench", "btree-insert", "--method", "fast,fash"];
        fail(2, &[&fixed, arguments].concat())
    };
    assert!(wrong(&["--record", "7"]).contains("8..=4096"));
    assert!(wrong(&["--threads", "2"]).contains("leave --partitions and --threads out"));
    assert!(wrong(&["--record-trace", "trace"]).contains("give one method"));
    let used_up = [
        "bench",
        "btree-insert",
        "--method",
        "fast",
        "--mix",
        "delete",
    ];
    let used_up = [&used_up[..], &["--rows", "100", "--seconds", "1"]].concat();
    assert!(fail(1, &used_up).contains("use more --rows or fewer --txns"));
}
