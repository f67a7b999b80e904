//! A short crash search of every durable method, and proof that it can fail.
//!
//! Goal: no wrong image. Method: the library's own search with a small budget; the long ones are commands of the program.

use std::time::Duration;
use storage::engine::Method;
use torture::scenarios;
use torture::search::{Config, search};

fn config(method: Method, seed: u64) -> Config {
    Config {
        method,
        seed,
        images_max: 3_000,
        duration_max: Duration::from_secs(20),
        disabled: Vec::new(),
    }
}

#[test]
fn nvm_inp_survives() {
    for seed in 1..=3 {
        let report = search(&config(Method::NvmInp, seed), &mut |_| {});
        println!("{report:?}");
        assert!(report.failure.is_none(), "{:#?}", report.failure);
    }
}

#[test]
fn nvm_inp_scenarios() {
    for scenario in scenarios::ALL {
        let report = scenarios::run(scenario, Method::NvmInp, 1, &[]);
        println!("{}: {report:?}", scenario.name);
        assert!(
            report.failure.is_none(),
            "{}: {:#?}",
            scenario.name,
            report.failure
        );
    }
}

#[test]
fn nvm_inp_without_a_fence_fails() {
    for site in [
        "undo.record-fence",
        "undo.applied-fence",
        "undo.commit-fence",
        "undo.apply",
    ] {
        let report = search(
            &Config {
                disabled: vec![site.into()],
                ..config(Method::NvmInp, 1)
            },
            &mut |_| {},
        );
        assert!(
            report.failure.is_some(),
            "the search did not notice that {site} was off"
        );
    }
}
