//! Failing devices and torn writes under every durable method.
//!
//! Goal: whichever call fails, and however, no answer is wrong, no change is acknowledged that is
//! not durable, and nothing panics. Method: the library's own sweep over a few scenarios; all of
//! them are for the program's `torture --faults --full`.

use storage::engine::Method;
use torture::faults::{FaultConfig, sweep_faults, tear};

/// Every method that keeps something on any device; a short write tears even a page of one sector.
fn durable() -> impl Iterator<Item = Method> {
    Method::distinct().filter(|method| method.is_durable() && method.survives_torn_pages())
}

fn is_long() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}

#[test]
fn no_failing_call_does_harm() {
    for method in durable() {
        let config = FaultConfig {
            method,
            seed: 1,
            full: false,
            only: String::new(),
            // The page methods have many more calls; `torture --faults` lets all of them fail.
            runs_max: if is_long() { 600 } else { 100 },
            threads: 2,
            disabled: Vec::new(),
        };
        let report = sweep_faults(&config, &mut |_, _| {}).expect("it works without faults");
        let name = method.name();
        assert!(report.wrong.is_empty(), "{name}: {:#?}", report.wrong);
        assert!(report.panics.is_empty(), "{name}: {:#?}", report.panics);
        assert!(report.struck > 0, "{name}: {report:?}");
    }
}

#[test]
fn no_torn_write_does_harm() {
    // Without `LONG_TESTS` every fifth method has to do: all write files through few kinds of code.
    for method in durable().step_by(if is_long() { 1 } else { 5 }) {
        let report = tear(method, 1, false, &mut |_, _| {}).expect("it works without a power cut");
        assert_eq!(report.wrong, Vec::<String>::new(), "{}", method.name());
    }
}

/// Only a creation whose last sync fails shows why there is one before it.
#[test]
fn a_missing_sync_before_one_that_fails_is_noticed() {
    let config = FaultConfig {
        method: Method::Cow,
        seed: 1,
        full: false,
        only: "three-operations-in-one/creation".to_owned(),
        runs_max: usize::MAX,
        threads: 2,
        disabled: vec!["cow.create-file".to_owned()],
    };
    let report = sweep_faults(&config, &mut |_, _| {}).expect("it works without faults");
    assert!(!report.wrong.is_empty(), "{report:#?}");
}
