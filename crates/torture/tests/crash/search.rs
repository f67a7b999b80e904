//! Short crash searches of every durable method, and proof that they can fail.
//!
//! Goal: no wrong image; every planted mistake found. Method: the library's own search, scenarios
//! and flips with small budgets; the long ones are the program's `torture` command.

use pmem::PowerFailAtomicity;
use std::time::{Duration, Instant};
use storage::engine::{FenceOrder, Method};
use torture::corpus;
use torture::mutation::{MutationConfig, Verdict, mutate};
use torture::scenarios;
use torture::search::{Config, FailureReport, Subject, search};

/// Without `LONG_TESTS` every method runs one in this many scenarios, each method other ones.
const SHARE: usize = 12;

fn is_long() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}

/// Searches end with their images, however slow the machine is.
const NO_END: Duration = Duration::from_hours(10);

fn config(method: Method, seed: u64) -> Config {
    // A recovery of pages has many crash points, and CI searches these methods by command as well.
    let images = if method.is_paged() { 150 } else { 1_000 };
    Config {
        minimise_max: Duration::ZERO,
        ..Config::new(method, seed, images, NO_END)
    }
}

/// For searches that must find nothing; without `LONG_TESTS` they take a quarter of the images, but
/// as many as it takes to meet some of recoveries.
fn judging(method: Method, seed: u64) -> Config {
    let whole = config(method, seed);
    Config {
        images_max: if is_long() {
            whole.images_max
        } else {
            (whole.images_max / 4).max(75)
        },
        ..whole
    }
}

/// The failure that a search finds where a step is left out. Whether one of a thousand images shows
/// it is a matter of the seed, so several are tried.
fn found_without(site: &str, config: &Config) -> FailureReport {
    (config.seed..config.seed + 8)
        .find_map(|seed| {
            let disabled = vec![site.into()];
            search(
                &Config {
                    seed,
                    disabled,
                    ..config.clone()
                },
                &mut |_| {},
            )
            .failure
        })
        .unwrap_or_else(|| panic!("the search did not notice that {site} was off"))
}

fn durable() -> impl Iterator<Item = Method> {
    Method::distinct().filter(|method| method.is_durable())
}

#[test]
fn no_image_is_wrong() {
    for method in durable() {
        for seed in 1..=if is_long() { 2 } else { 1 } {
            let report = search(&judging(method, seed), &mut |_| {});
            assert!(
                report.failure.is_none(),
                "{}: {:#?}",
                method.name(),
                report.failure
            );
            assert!(report.images > 0, "{report:?}");
            assert!(report.nested > 0, "{report:?}");
            assert!(report.process_deaths > 0, "{report:?}");
        }
    }
}

/// The other way of `fast`, on a platform that keeps lines whole; the loss of each of its steps is
/// noticed.
#[test]
fn no_image_is_wrong_where_lines_are_whole() {
    let fast = |seed| Config {
        atomicity: PowerFailAtomicity::Line,
        ..config(Method::Fast, seed)
    };
    for seed in 1..=2 {
        let report = search(&fast(seed), &mut |_| {});
        assert!(report.failure.is_none(), "{:#?}", report.failure);
        assert!(report.images > 0 && report.nested > 0, "{report:?}");
    }
    for site in ["fast.whole-line", "fast.line-fence"] {
        let line = found_without(site, &fast(1)).replay(Method::Fast);
        assert!(line.contains("--power-fail-atomicity 64"), "{line}");
    }
}

/// The linked list of the paper, in every round; the loss of each of its steps is noticed.
#[test]
fn no_image_is_wrong_with_the_papers_log() {
    let steps = [
        "undo.list-entry",
        "undo.list-entry-fence",
        "undo.list-link",
        "undo.list-empty",
    ];
    let paper = |whole: Config| Config {
        fences: Some(FenceOrder::Paper),
        ..whole
    };
    for method in [Method::NvmInp, Method::NvmLog] {
        let report = search(&paper(judging(method, 1)), &mut |_| {});
        assert!(report.failure.is_none(), "{method}: {:#?}", report.failure);
        assert!(report.images > 0 && report.nested > 0, "{report:?}");
        assert!(steps.iter().all(|step| report.sites.contains(step)));
    }
    for site in steps {
        let config = paper(config(Method::NvmInp, 1));
        let line = found_without(site, &config).replay(Method::NvmInp);
        assert!(line.contains("--fences paper"), "{line}");
    }
}

/// Parts of the page engine that no published method has together; one in three without
/// `LONG_TESTS`.
#[test]
fn no_image_is_wrong_in_a_combination() {
    for method in Method::combinations().step_by(if is_long() { 1 } else { 3 }) {
        let report = search(&judging(method, 3), &mut |_| {});
        assert!(report.failure.is_none(), "{method}: {:#?}", report.failure);
        assert!(report.images > 0 && report.nested > 0, "{report:?}");
    }
}

#[test]
fn every_image_of_every_scenario_is_right() {
    assert!(scenarios::ALL.len() >= 40);
    let word = durable().map(|method| (method, PowerFailAtomicity::Word));
    let all = word.chain([(Method::Fast, PowerFailAtomicity::Line)]);
    for (first, (method, atomicity)) in (0..).zip(all) {
        for (number, scenario) in (first..).zip(scenarios::enumerable(method)) {
            if number % SHARE != 0 && !is_long() {
                continue;
            }
            // The longest ones are left to the command.
            if matches!(
                scenario.name,
                "log-overflows" | "abort-log-overflow" | "pool-grows" | "extent-becomes-run"
            ) {
                continue;
            }
            let subject = Subject {
                atomicity,
                ..Subject::new(method)
            };
            let report = scenarios::run(scenario, subject, 1);
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

/// These cut the power while a pool grows, after an empty run has become one of shorter blocks and
/// before the transaction that needs it has committed.
#[test]
fn no_record_is_replayed_over_a_run_that_was_cut_anew() {
    for seed in [1, 241, 289] {
        let mut all = scenarios::enumerable(Method::NvmInp);
        let scenario = all.find(|scenario| scenario.name == "insert-into-empty");
        let scenario = scenario.expect("it is in the list");
        let report = scenarios::run(scenario, Subject::new(Method::NvmInp), seed);
        assert!(report.failure.is_none(), "{seed}: {:#?}", report.failure);
        assert!(report.nested > 0, "{seed}: no image of a later life");
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
        found_without(site, &config(Method::NvmInp, 1));
    }
}

#[test]
fn a_missing_sync_is_noticed() {
    for site in ["wal.flush", "checkpoint.content"] {
        found_without(site, &config(Method::Inp, 1));
    }
}

/// After the death of a process a recovery reads bytes that no fence or sync has made certain.
#[test]
fn a_recovery_that_trusts_what_it_reads_is_noticed() {
    for (method, site) in [
        (Method::NvmInp, "undo.found"),
        (Method::NvmInp, "undo.found-fence"),
        (Method::NvmLog, "undo.found-fence"),
        (Method::NvmCow, "nvm-cow.found-word"),
        (Method::NvmCow, "nvm-cow.found-word-fence"),
        (Method::Inp, "wal.replayed"),
        (Method::Log, "wal.replayed"),
    ] {
        let config = Config {
            images_max: 20_000,
            ..config(method, 1)
        };
        let what = found_without(site, &config).what;
        assert!(
            what.starts_with("after the death of the process"),
            "{} without {site}: {what:?}",
            method.name()
        );
    }
}

#[test]
fn the_same_seed_makes_the_same_images() {
    // Rounds of this seed commit in groups.
    let seed = 4;
    let (images, step) = if is_long() { (200, 1) } else { (30, 2) };
    for method in durable().step_by(step) {
        let config = Config::new(method, seed, images, NO_END);
        let counts: Vec<_> = (0..2)
            .map(|_| search(&config, &mut |_| {}))
            .map(|report| {
                let images = (report.images, report.nested);
                (report.crash_points, images, report.process_deaths)
            })
            .collect();
        assert_eq!(counts[0], counts[1], "{}", method.name());
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
        "indelible torture --method nvm-inp --seed 5 --operations all --without undo.record-fence"
    );
}

/// Seeds of which one at least has to find a planted bug.
const SEEDS: u64 = 6;

/// A planted bug for each of a few sites: the minimised list is short, is found in time, and fails
/// every time.
#[test]
fn a_failure_is_minimised_to_a_few_operations_that_fail_every_time() {
    let sites = [
        (Method::NvmInp, "undo.record-fence", 100),
        (Method::Inp, "wal.flush", 100),
        (Method::NvmInp, "undo.recover-fence", 3),
        (Method::NvmInp, "undo.found-fence", 3),
    ];
    // Without `LONG_TESTS` the first two have to do.
    let count = if is_long() { sites.len() } else { 2 };
    for (method, site, repeats) in sites.into_iter().take(count) {
        // Which images one seed takes moves with every new step of a method.
        let (config, failure) = (1..=SEEDS)
            .find_map(|seed| {
                let config = Config {
                    disabled: vec![site.into()],
                    minimise_max: NO_END,
                    ..config(method, seed)
                };
                let failure = search(&config, &mut |_| {}).failure?;
                Some((config, failure))
            })
            .expect("the site is needed");
        let minimised = failure
            .minimised
            .expect("it fails without what came before");
        let (operations, focus) = (&minimised.operations, minimised.failure.focus.clone());
        println!(
            "{site}: {} lists in {:.1} s, {}\n  {}",
            minimised.tries,
            minimised.seconds,
            minimised.failure.replay(method),
            operations.join("\n  ")
        );
        assert!(operations.len() <= 12, "{site}: {operations:#?}");
        let config = Config {
            seed: minimised.failure.seed,
            focus,
            minimise_max: Duration::ZERO,
            ..config
        };
        for _ in 0..repeats {
            let again = search(&config, &mut |_| {})
                .failure
                .expect("it fails every time");
            let seen = |failure: &FailureReport| {
                (
                    failure.what.clone(),
                    failure.event,
                    failure.survivors.clone(),
                )
            };
            assert_eq!(seen(&again), seen(&minimised.failure), "{site}");
        }
    }
}

#[test]
fn the_corpus_stays_right() {
    let start = Instant::now();
    let images = if is_long() { 30 } else { 10 };
    for method in durable() {
        let all_images = scenarios::enumerable(method).any(|scenario| !scenario.is_bare());
        for case in corpus::cases() {
            let config = Config {
                seed: case.seed,
                focus: Some(case.focus),
                images_max: if all_images { u64::MAX } else { images },
                ..config(method, 1)
            };
            let report = search(&config, &mut |_| {});
            let name = method.name();
            assert!(
                report.failure.is_none(),
                "{name}: {}: {:#?}",
                case.what,
                report.failure
            );
            assert!(report.images > 0, "{name}: {} takes no image", case.seed);
        }
    }
    println!("{:.1} s", start.elapsed().as_secs_f64());
}

/// A mutation run that had no more time left its last sites out of the result, and ended well: on a
/// slow machine nobody learned that they were not tried.
#[test]
fn sites_that_the_time_leaves_out_are_reported() {
    let config = MutationConfig {
        method: Method::Inp,
        atomicity: PowerFailAtomicity::Word,
        fences: None,
        seed: 1,
        site_images_max: 10_000,
        duration_max: Duration::ZERO,
    };
    let verdicts = mutate(&config, &mut |_| {}).unwrap();
    let untried = verdicts
        .iter()
        .filter(|found| found.verdict == Verdict::Untried);
    let names: Vec<_> = untried.map(|found| found.site.name).collect();
    assert_eq!(names.len(), verdicts.len());
    assert!(
        names.contains(&"wal.flush") && names.contains(&"wal.replayed"),
        "{names:?}"
    );
}

#[test]
#[ignore = "some minutes in release mode"]
fn every_site_is_caught() {
    for method in durable() {
        let config = MutationConfig {
            method,
            atomicity: PowerFailAtomicity::Word,
            fences: None,
            seed: 1,
            site_images_max: 10_000,
            duration_max: Duration::MAX,
        };
        let verdicts = mutate(&config, &mut |_| {}).unwrap();
        let open: Vec<_> = verdicts
            .iter()
            .filter(|found| matches!(found.verdict, Verdict::Unexplained | Verdict::Untried))
            .collect();
        assert!(open.is_empty(), "{open:#?}");
    }
}
