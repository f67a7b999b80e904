//! Goal: `bench tpcc` runs every method, within partitions and over several, and prints complete
//! and consistent rows.
//!
//! Method: a small scale; the program itself checks the consistency conditions after loading and
//! after each run, so success means that they hold. The numbers themselves are not judged here,
//! only that they fit together.

use crate::common::{TestDirectory, fail, succeed};
use serde_json::Value;

const KINDS: [&str; 5] = [
    "new-order",
    "payment",
    "order-status",
    "delivery",
    "stock-level",
];

fn rows(arguments: &[&str]) -> Vec<Value> {
    let fixed = ["bench", "tpcc", "--format", "json", "--scale", "0.01"];
    let printed = succeed(&[&fixed, arguments].concat());
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_method_runs_over_several_partitions() {
    let place = TestDirectory::new();
    let rows = rows(&[
        "--method",
        "volatile,inp,nvm-inp",
        "--warehouses",
        "3",
        "--partitions",
        "2",
        "--txns",
        "3000",
        "--path",
        &place.at("here"),
    ]);
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(
            (&row["workload"], &row["mix"]),
            (&"tpcc".into(), &"standard".into())
        );
        assert_eq!(row["txns"], 3000, "{row}");
        assert_eq!(
            (&row["warehouses"], &row["scale"]),
            (&3.into(), &0.01.into())
        );
        let of_type = |kind: &str| row["by_type"][kind]["txns"].as_u64().unwrap();
        assert_eq!(KINDS.map(of_type), [1350, 1290, 120, 120, 120]);
        assert!(
            row["by_type"]["payment"]["latency_us"]["p99"]
                .as_f64()
                .unwrap()
                > 0.0
        );
        let share = row["distributed_share"].as_f64().unwrap();
        assert!((0.05..0.15).contains(&share), "{share}");
        let rollbacks = row["rollbacks"].as_f64().unwrap();
        assert!((2.0..40.0).contains(&rollbacks), "{rollbacks}");
        let committed = row["tpm_c"].as_f64().unwrap() * row["seconds"].as_f64().unwrap() / 60.0;
        assert!(
            (committed - (1350.0 - rollbacks)).abs() < 0.5,
            "{committed}"
        );
    }
    // The list is the same for all methods.
    assert!(
        rows.iter()
            .all(|row| row["rollbacks"] == rows[0]["rollbacks"])
    );
    let left = std::fs::read_dir(place.at("here")).unwrap().count();
    assert_eq!(left, 0, "the databases are removed");
}

#[test]
fn the_papers_variant_takes_no_second_partition() {
    let arguments = ["--single-partition", "--partitions", "2", "--txns", "1000"];
    let shared = [
        "--method",
        "nvm-inp",
        "--primitives",
        "flush",
        "--layout",
        "separate",
    ];
    let rows = rows(&[&arguments[..], &shared[..]].concat());
    assert_eq!(rows[0]["distributed_share"], 0.0);
    assert_eq!(rows[0]["single_partition"], true);
    assert_eq!(rows[0]["warehouses"], 2);
    assert!(
        rows[0]["per_txn"]["fences"].as_f64().unwrap() > 0.5,
        "{}",
        rows[0]
    );
}

#[test]
fn mixes_devices_and_thinking_users_are_options() {
    let one = ["--method", "nvm-inp", "--mix", "new-order", "--txns", "200"];
    let of_type = |row: &Value, kind: &str| row["by_type"][kind]["txns"].as_u64().unwrap();
    let row = &rows(&one)[0];
    assert_eq!(
        (of_type(row, "new-order"), of_type(row, "payment")),
        (200, 0)
    );
    let emulated = [
        "--method",
        "inp",
        "--device",
        "emulated",
        "--profile",
        "count",
        "--txns",
        "200",
    ];
    assert!(rows(&emulated)[0]["per_txn"]["loads"].as_f64().unwrap() > 0.0);
    let thinking = [
        "--method",
        "inp",
        "--think-times",
        "0.01",
        "--seconds",
        "0.5",
    ];
    let row = &rows(&thinking)[0];
    let txns = row["txns"].as_u64().unwrap();
    // Ten users, each of whom takes 0.2 s for a transaction.
    assert!((5..60).contains(&txns), "{txns}");
}

#[test]
fn every_queued_delivery_runs() {
    let arguments = ["--method", "nvm-inp", "--think-times", "0.0005"];
    for mix in ["delivery", "standard"] {
        let row = &rows(&[&arguments[..], &["--mix", mix, "--txns", "120"]].concat())[0];
        let of_type = |kind: &str| row["by_type"][kind]["txns"].as_u64().unwrap();
        assert_eq!(row["txns"], 120, "{row}");
        assert_eq!(KINDS.map(of_type).iter().sum::<u64>(), 120, "{row}");
        assert!(of_type("delivery") >= if mix == "delivery" { 120 } else { 1 });
    }
}

#[test]
fn people_get_a_table_by_type() {
    let common = [
        "bench", "tpcc", "--method", "volatile", "--scale", "0.01", "--txns", "500",
    ];
    let printed = succeed(&common);
    for word in KINDS.iter().chain(&["tpmC", "txn/s", "footprint"]) {
        assert!(printed.contains(word), "{word} is missing in {printed}");
    }
    let csv = succeed(&[&common[..], &["--format", "csv"]].concat());
    let header = csv.lines().next().unwrap();
    assert!(
        header.contains("tpm_c") && header.contains("by_type.delivery.latency_us.p99"),
        "{header}"
    );
}

#[test]
fn mistakes_are_named_with_their_mend() {
    let wrong = |arguments: &[&str]| {
        fail(
            2,
            &[&["bench", "tpcc", "--method", "inp"], arguments].concat(),
        )
    };
    assert!(wrong(&["--warehouses", "1", "--partitions", "2"]).contains("use more warehouses"));
    assert!(wrong(&["--warehouses", "20000"]).contains("16383"));
    assert!(wrong(&["--mix", "payments"]).contains("45,43,4,4,4"));
    assert!(wrong(&["--scale", "2"]).contains("at most 1"));
    assert!(wrong(&["--think-times", "1000"]).contains("0 to 100"));
    assert!(wrong(&["--profile", "high"]).contains("--device emulated"));
    assert!(wrong(&["--fences", "paper"]).contains("nvm-inp"));
    assert!(fail(2, &["bench", "tpcc", "--method", "std-map"]).contains("std-map"));
    assert!(succeed(&["bench", "tpcc", "--help"]).contains("--single-partition"));
}
