//! Short crash searches of every durable method, and proof that they can fail.
//!
//! Goal: no wrong image; every planted mistake found. Method: the library's own search, scenarios and flips with small budgets;
//! the long ones are the program's `torture` command.

use std::time::Duration;
use storage::engine::Method;
use torture::flips::flip;
use torture::mutation::{MutationConfig, Verdict, mutate};
use torture::scenarios;
use torture::search::{Config, search};

fn config(method: Method, seed: u64) -> Config {
    Config {
        method,
        seed,
        images_max: 1_500,
        duration_max: Duration::from_secs(15),
        disabled: Vec::new(),
    }
}

fn durable() -> impl Iterator<Item = Method> {
    Method::ALL.into_iter().filter(|method| method.is_durable())
}

#[test]
fn no_image_is_wrong() {
    for method in durable() {
        for seed in 1..=2 {
            let report = search(&config(method, seed), &mut |_| {});
            assert!(
                report.failure.is_none(),
                "{}: {:#?}",
                method.name(),
                report.failure
            );
            assert!(report.images > 0 && report.nested > 0, "{report:?}");
        }
    }
}

#[test]
fn every_image_of_every_scenario_is_right() {
    assert!(scenarios::ALL.len() >= 40);
    for method in durable() {
        for scenario in scenarios::ALL {
            // The longest ones are left to the command.
            if matches!(
                scenario.name,
                "log-overflows" | "abort-log-overflow" | "pool-grows"
            ) {
                continue;
            }
            let report = scenarios::run(scenario, method, 1, &[]);
            let name = method.name();
            assert!(
                report.failure.is_none(),
                "{name} {}: {:#?}",
                scenario.name,
                report.failure
            );
        }
    }
}

/// Missing flushes and fences, an undo that is not durable, blocks that leak.
#[test]
fn a_missing_flush_or_fence_is_noticed() {
    for site in [
        "undo.record",
        "undo.record-fence",
        "undo.applied-fence",
        "undo.commit-fence",
        "undo.apply",
        "undo.recover-fence",
        "heap.run-word",
        "heap.run-bitmap-fence",
    ] {
        let config = Config {
            disabled: vec![site.into()],
            ..config(Method::NvmInp, 1)
        };
        let report = search(&config, &mut |_| {});
        assert!(
            report.failure.is_some(),
            "the search did not notice that {site} was off"
        );
    }
}

#[test]
fn a_missing_sync_is_noticed() {
    for site in ["wal.flush", "checkpoint.content"] {
        let config = Config {
            disabled: vec![site.into()],
            ..config(Method::Inp, 1)
        };
        let report = search(&config, &mut |_| {});
        assert!(
            report.failure.is_some(),
            "the search did not notice that {site} was off"
        );
    }
}

#[test]
fn the_same_seed_finds_the_same_image() {
    let config = Config {
        disabled: vec!["undo.record-fence".into()],
        ..config(Method::NvmInp, 5)
    };
    let found: Vec<_> = (0..2)
        .map(|_| {
            search(&config, &mut |_| {})
                .failure
                .expect("the fence is needed")
        })
        .collect();
    assert_eq!(found[0].event, found[1].event);
    assert_eq!(found[0].survivors, found[1].survivors);
    assert_eq!(
        found[0].replay(Method::NvmInp),
        "indelible torture --method nvm-inp --seed 5"
    );
}

#[test]
fn no_flip_is_believed() {
    for method in durable() {
        let report = flip(method, 1).expect("the database can be built");
        assert!(
            report.wrong.is_empty(),
            "{}: {:#?}",
            method.name(),
            report.wrong
        );
        assert!(report.detected > 0, "{report:?}");
        assert!(report.longest_s < 5.0, "{report:?}");
    }
}

#[test]
#[ignore = "about a minute in release mode"]
fn every_site_is_caught() {
    for method in durable() {
        let config = MutationConfig {
            method,
            seed: 1,
            site_duration_max: Duration::from_secs(5),
            duration_max: Duration::from_mins(2),
        };
        let verdicts = mutate(&config, &mut |_| {});
        let open: Vec<_> = verdicts
            .iter()
            .filter(|found| found.verdict == Verdict::Unexplained)
            .collect();
        assert!(open.is_empty(), "{open:#?}");
    }
}
