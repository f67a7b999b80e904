//! Files of tests with and without the plan cache: each record must do the same.
//!
//! Under `force_generic_plan` every statement that has a fingerprint runs by a plan that serves all
//! literals, already when it comes for the first time; under `force_custom_plan` none does.

use crate::scratch::Scratch;
use client::slt::{FileReport, Runner, SkipList};
use client::{Cancel, Client, Error, LocalClient, Sink, Status};
use std::fs;
use std::path::{Path, PathBuf};

/// A client whose others begin with a mode of the cache.
struct WithMode {
    client: LocalClient,
    mode: &'static str,
}

impl Client for WithMode {
    fn run(&mut self, text: &str, sink: &mut dyn Sink) -> Result<(), Error> {
        self.client.run(text, sink)
    }

    fn status(&self) -> Status {
        self.client.status()
    }

    fn cancel(&self) -> Box<dyn Cancel> {
        self.client.cancel()
    }

    fn another(&self) -> Result<Box<dyn Client>, Error> {
        let mut other = self.client.another()?;
        other.ask(&format!("SET plan_cache_mode = {}", self.mode))?;
        Ok(other)
    }
}

/// The outcome of each file, and how many statements found a plan.
fn outcomes(files: &[PathBuf], mode: &'static str) -> (Vec<FileReport>, u64) {
    let (_scratch, sql) = Scratch::open(&format!("plan-cache-{mode}"));
    let client = LocalClient::connect(&sql).unwrap();
    let client = WithMode { client, mode };
    let none = SkipList::default();
    let mut runner = Runner::new(&client, &none);
    let reports = files.iter().map(|file| {
        let text = fs::read_to_string(file).unwrap();
        runner.run(file, &text).unwrap()
    });
    let reports = reports.collect();
    (reports, sql.plan_cache_hits())
}

#[test]
fn every_record_does_the_same_by_a_plan_of_the_cache() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sql/slt");
    let files = fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let (ordinary, hits) = outcomes(&files, "force_custom_plan");
    assert_eq!(hits, 0);
    let (cached, hits) = outcomes(&files, "force_generic_plan");
    let mut passed = 0;
    for ((file, one), other) in files.iter().zip(&ordinary).zip(&cached) {
        let reasons = |report: &FileReport| {
            let failed = report.failed.iter();
            let failed = failed.map(|failed| (failed.line, failed.reason.clone()));
            failed.collect::<Vec<_>>()
        };
        assert_eq!(reasons(one), reasons(other), "{}", file.display());
        passed += one.passed;
    }
    assert!(passed > 400, "{passed} records");
    // A statement that comes twice finds the plan of the first time.
    assert!(hits > 10, "{hits} statements");
}
