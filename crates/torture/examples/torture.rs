//! Runs the library from the command line, for measuring it:
//! `torture METHOD[/64] search|scenarios|flips|faults|mutate [SEED] [IMAGES] [SECONDS]`. With `/64`
//! the platform keeps lines of 64 bytes whole that one instruction stores, and the method relies on
//! it.
//!
//! The program's own command is `indelible torture`; this one needs this room alone, so it builds
//! in seconds. It prints the reports.
#![allow(clippy::print_stdout, reason = "an example reports on standard output")]

use pmem::PowerFailAtomicity;
use std::time::{Duration, Instant};
use storage::engine::Method;
use torture::{mutation, scenarios, search};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        arguments
            .get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let name = arguments.first().map_or("nvm-inp", String::as_str);
    let (name, atomicity) = match name.strip_suffix("/64") {
        Some(name) => (name, PowerFailAtomicity::Line),
        None => (name, PowerFailAtomicity::Word),
    };
    let method: Method = name.parse().expect("the first argument is a method");
    let (seed, images, seconds) = (number(2, 1), number(3, 200_000), number(4, 120));
    match arguments.get(1).map_or("search", String::as_str) {
        "scenarios" => run_scenarios(method, atomicity, seed, arguments.get(5)),
        "flips" => {
            let config = torture::flips::FlipConfig {
                method,
                seed,
                density: torture::flips::Density::Lines,
                threads: 1,
            };
            let report = torture::flips::flip(&config, &mut |_, _| {});
            let report = report.expect("the database can be built");
            println!("{report:#?}");
        }
        "faults" => {
            let config = torture::faults::FaultConfig {
                method,
                seed,
                full: false,
                only: String::new(),
                runs_max: usize::MAX,
                threads: 1,
                disabled: arguments.iter().skip(5).cloned().collect(),
            };
            let report = torture::faults::sweep_faults(&config, &mut |_, _| {});
            println!("{:#?}", report.expect("it works without faults"));
        }
        "mutate" => run_mutation(method, atomicity, seed, seconds),
        _ => {
            let report = search::search(
                &search::Config {
                    disabled: arguments.iter().skip(5).cloned().collect(),
                    atomicity,
                    ..search::Config::new(method, seed, images, Duration::from_secs(seconds))
                },
                &mut |_| {},
            );
            println!("{report:#?}");
            if let Some(failure) = &report.failure {
                println!("{}", failure.replay(method));
            }
        }
    }
}

fn run_scenarios(method: Method, atomicity: PowerFailAtomicity, seed: u64, only: Option<&String>) {
    let start = Instant::now();
    let chosen = scenarios::ALL
        .iter()
        .filter(|scenario| only.is_none_or(|name| name == scenario.name));
    for scenario in chosen {
        let subject = search::Subject {
            atomicity,
            ..search::Subject::new(method)
        };
        let report = scenarios::run(scenario, subject, seed);
        println!(
            "{:28} {:4} points {:7} images {:7} nested {:7.2} s {}",
            scenario.name,
            report.crash_points,
            report.images,
            report.nested,
            report.seconds,
            report
                .failure
                .map_or_else(|| "ok".to_owned(), |failure| format!("{failure:#?}")),
        );
    }
    println!("{:.1} s", start.elapsed().as_secs_f64());
}

fn run_mutation(method: Method, atomicity: PowerFailAtomicity, seed: u64, seconds: u64) {
    let config = mutation::MutationConfig {
        method,
        atomicity,
        fences: None,
        seed,
        site_images_max: 10_000,
        duration_max: Duration::from_secs(seconds),
    };
    let start = Instant::now();
    let result = mutation::mutate(&config, &mut |verdict| {
        println!(
            "{:12} {:32} {:8} {:7}/{:7} {:6.2} s {}",
            verdict.verdict.name(),
            verdict.site.name,
            mutation::kind_name(verdict.site.kind),
            verdict.site.useful,
            verdict.site.executions,
            verdict.seconds,
            verdict.what,
        );
    });
    if let Err(failure) = result {
        println!("wrong with nothing switched off: {failure}");
    }
    println!("{:.1} s", start.elapsed().as_secs_f64());
}
