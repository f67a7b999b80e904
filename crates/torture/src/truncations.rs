//! Truncations: files of a small closed database are cut off, one at a time.
//!
//! Each file is cut at every 4 KiB and at 1,000 random lengths. The database is in a directory of
//! the real device, because opening has to cope with a mapped file of any length. A cut that leaves
//! everything readable, such as one in the free space at the end, is harmless; a shorter history
//! that passes the deep check is wrong.

use crate::check::Failure;
use crate::damage::{DamageReport, Subject, Trial, Tried, Verdict, Worker, sweep};
use crate::search::new_world;
use indelible::NativePlatform;
use pmem::Access;
use pmem::device::NativeOptions;
use pmem::device::simulated::mix;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::EngineSource;
use storage::engine::Method;

/// Each file is cut at every multiple of this.
const PAGE_BYTES: u64 = 4096;
/// Random lengths at which each file is cut by default.
pub const RANDOM_LENGTHS: u64 = 1_000;

/// Where to cut.
#[derive(Clone, Debug)]
pub struct TruncationConfig {
    /// The method under test.
    pub method: Method,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Random lengths at which each file is cut, besides the page boundaries.
    pub random_lengths: u64,
    /// Threads that work at it.
    pub threads: usize,
    /// An empty directory for the database and its copies, which the caller removes.
    pub directory: PathBuf,
}

/// Cuts files off. `progress` is called with the cuts that are done and their number.
pub fn truncate(
    config: &TruncationConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<DamageReport, Failure> {
    let origin = config.directory.join("origin");
    let subject = build(config, &origin)?;
    let files = contents(&origin)?;
    let cuts = cuts(&files, config);
    let count = cuts.len() as u64;
    let bytes = files.values().map(|content| content.len() as u64).sum();
    let shared = Arc::new((subject, files, cuts));
    let directory = config.directory.clone();
    let worker: Worker = Arc::new(move |number| {
        let path = directory.join(format!("copy-{number}"));
        let platform = platform(&path)?;
        let shared = Arc::clone(&shared);
        Ok(Box::new(move |trial: u64| {
            let (subject, files, cuts) = &*shared;
            let (name, length) = &cuts[trial as usize];
            let tried = |verdict| Tried {
                place: format!("{name} cut at {length} of {} bytes", files[name].len()),
                spot: None,
                verdict,
            };
            if let Err(error) = lay_out(&path, files, name, *length) {
                let what = format!("the cut could not be tried: {error}");
                return tried(Verdict::Wrong(what));
            }
            let oracle = &subject.oracle;
            let verdict = subject.judge(&|| {
                platform.open_engine(subject.method, &subject.options, &|global| {
                    oracle.decided.contains(&global.0)
                })
            });
            tried(verdict)
        }) as Trial)
    });
    let report = sweep(count, config.threads, &worker, &mut |done| {
        progress(done, count);
    })?;
    Ok(DamageReport { bytes, ..report })
}

/// Makes the database that is cut.
fn build(config: &TruncationConfig, origin: &Path) -> Result<Subject, Failure> {
    let platform = platform(origin)?;
    // The driver marks crash points, which are not used here.
    let world = new_world(config.seed);
    let bytes = || {
        let files = contents(origin).unwrap_or_default();
        files.values().map(|content| content.len() as u64).sum()
    };
    Subject::build(&platform, &world, config.method, config.seed, &bytes)
}

/// The devices of one directory, which is made if it is not there.
fn platform(path: &Path) -> Result<NativePlatform, Failure> {
    std::fs::create_dir_all(path).map_err(|error| Failure::new("making a directory", error))?;
    NativePlatform::new(path, Access::Write, NativeOptions::default())
        .map_err(|error| Failure::new("locking a directory", error))
}

type Files = BTreeMap<String, Vec<u8>>;

fn contents(path: &Path) -> Result<Files, Failure> {
    let read = || -> std::io::Result<Files> {
        let mut files = Files::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            files.insert(name, std::fs::read(entry.path())?);
        }
        Ok(files)
    };
    read().map_err(|error| Failure::new("reading the files", error))
}

/// File and length of each trial.
fn cuts(files: &Files, config: &TruncationConfig) -> Vec<(String, u64)> {
    let mut cuts = Vec::new();
    for (name, content) in files {
        let bytes = content.len() as u64;
        let pages = (0..bytes).step_by(PAGE_BYTES as usize);
        let random =
            (0..config.random_lengths).map(|number| mix(config.seed ^ number) % bytes.max(1));
        let lengths = pages.chain(random).filter(|length| *length < bytes);
        cuts.extend(lengths.map(|length| (name.clone(), length)));
    }
    cuts
}

/// Writes all files, one of them shorter.
fn lay_out(path: &Path, files: &Files, cut: &str, length: u64) -> std::io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        std::fs::remove_file(entry?.path())?;
    }
    for (name, content) in files {
        let end = if name == cut {
            length as usize
        } else {
            content.len()
        };
        std::fs::write(path.join(name), &content[..end])?;
    }
    Ok(())
}
