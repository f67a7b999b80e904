//! Goal: every engine finds what the generator knows, an engine that cannot run is answered with
//! the remedy, and nothing is left behind.
//!
//! Method: small joins through the command's own functions. Where the Python packages are absent,
//! the tests say so and check only what needs none; `INDELIBLE_PYTHON` names a Python that has
//! them.

use super::*;
use crate::args::{BenchCommand, Command, CommandLine};
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::process::Command as Process;

fn args(line: &str) -> JoinArgs {
    let words = ["rivals", "bench", "join"]
        .into_iter()
        .chain(line.split_whitespace());
    match CommandLine::parse_from(words).command {
        Command::Bench(BenchCommand::Join(args)) => *args,
        Command::Bench(BenchCommand::Ycsb(_)) => panic!("the line says join"),
    }
}

/// Whether the packages are there; prints why a test does nothing if not.
fn has_packages() -> bool {
    let python = args("").python;
    let imports = format!("import {}", engine::PACKAGES.replace(' ', ", "));
    let found = Process::new(&python).args(["-c", &imports]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!(
            "skipped: {} lacks one of {}; set INDELIBLE_PYTHON to a Python that has them",
            python.display(),
            engine::PACKAGES
        );
    }
    found
}

/// Engines that run here.
fn engines() -> String {
    if !has_packages() {
        return Engine::Indelible.name().to_owned();
    }
    let all = Engine::value_variants().iter();
    all.map(|engine| engine.name())
        .collect::<Vec<_>>()
        .join(",")
}

#[test]
fn all_engines_find_what_the_generator_knows() {
    let engines = engines();
    let count = engines.split(',').count();
    for line in [
        "--r 20000 --s 50000",
        "--r 9000 --s 30000 --sparse --zipf 1.25 --match 0.3 --repeats 3",
        "--r 5000 --s 9000 --sparse --tuple 16 --threads 1",
        "--r 100 --s 1000 --match 0",
    ] {
        let args = args(&format!("--engine {engines} --rounds 2 {line}"));
        let mut seen = 0;
        let rows = rows(&args, |_| {
            seen += 1;
            Ok(())
        });
        let rows = rows.unwrap();
        assert_eq!((rows.len(), seen), (2 * count, 2 * count), "{line}");
        assert!(
            rows.iter()
                .all(|row| row.seconds > 0.0 && row.threads == args.threads)
        );
        let order: Vec<_> = rows.iter().map(|row| row.engine).collect();
        assert_eq!(order[..count], order[count..], "rounds are in turns");
        let best = best(&args, &rows);
        assert!(best.len() == count && best.iter().all(|row| row.round == 2));
    }
}

#[test]
fn rows_have_the_keys_of_our_program() {
    let rows = rows(
        &args("--engine indelible --r 100 --s 200 --rounds 1"),
        |_| Ok(()),
    )
    .unwrap();
    let json = serde_json::to_value(&rows[0]).unwrap();
    for key in [
        "algorithm",
        "kernel",
        "r",
        "s",
        "tuple_bytes",
        "threads",
        "zipf",
        "dense",
        "match",
        "seconds",
        "tuples_per_s",
        "phases",
        "scratch_bytes",
        "count",
        "version",
    ] {
        assert!(json.get(key).is_some(), "{key}");
    }
}

#[test]
fn a_wrong_answer_or_a_dying_engine_ends_the_command() {
    // A Python that is none: it answers whatever a shell script answers.
    for (answers, word) in [
        (
            r#"echo '{"ready":true,"version":"9","setting":"x"}'; read l; echo '{"seconds":1.0,"count":7,"r_payload_sum":0,"s_payload_sum":0}'; read l"#,
            "duckdb is wrong",
        ),
        (
            r#"echo '{"ready":true,"version":"9","setting":"x"}'; read l; exit 3"#,
            "ended with exit status: 3",
        ),
        (
            r#"echo '{"missing":"duckdb"}'"#,
            "-m pip install duckdb datafusion",
        ),
        (
            r#"echo '{"error":"AttributeError: gone"}'"#,
            "was written for duckdb 2",
        ),
        ("echo hello", "answered hello"),
    ] {
        let scratch = Scratch::new().unwrap();
        let python = script(scratch.path(), answers);
        let mut args = args("--engine indelible,duckdb --r 10 --s 10");
        args.python = python;
        let error = crate::failure::sentence(&rows(&args, |_| Ok(())).unwrap_err());
        assert!(error.contains(word), "{error}");
    }
}

/// An executable that acts as Python.
fn script(directory: &Path, answers: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join("python");
    std::fs::write(&path, format!("#!/bin/sh\n{answers}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn what_cannot_be_run_gets_one_sentence() {
    for (line, word) in [
        (
            "--engine duckdb --python /no/such/python --r 10 --s 10",
            "pip install duckdb",
        ),
        ("--engine indelible,indelible", "twice"),
        (
            "--engine duckdb --r 1000000000 --s 1000000000 --tuple 16",
            "GiB",
        ),
    ] {
        let error = rows(&args(line), |_| Ok(())).unwrap_err();
        assert!(
            error.is::<Usage>() && error.to_string().contains(word),
            "{error}"
        );
    }
    let line = ["rivals", "bench", "join", "--engine", "oracle"];
    let error = CommandLine::try_parse_from(line).unwrap_err().to_string();
    assert!(
        error.contains("oracle") && error.contains("polars-streaming"),
        "{error}"
    );
}

#[test]
fn a_python_without_the_packages_is_told_what_to_install() {
    // Isolated, so that no package of this machine is found: the script's own imports fail.
    let scratch = Scratch::new().unwrap();
    let mut args = args("--engine polars --r 10 --s 10");
    let isolated = format!("exec {} -I -S \"$@\"", args.python.display());
    if !Process::new(&args.python)
        .arg("--version")
        .output()
        .is_ok_and(|it| it.status.success())
    {
        println!("skipped: there is no {}", args.python.display());
        return;
    }
    args.python = script(scratch.path(), &isolated);
    let error = rows(&args, |_| Ok(())).unwrap_err();
    assert!(
        error.is::<Usage>() && error.to_string().contains("has no package numpy"),
        "{error}"
    );
}
