//! Damaged databases of every durable method: flipped bits and cut files.
//!
//! Goal: damage is detected or harmless, never believed, and never a panic or a hang. Method: the
//! library's own sweeps at their short setting, with fewer flips in long files; every line is for
//! `torture --flips`, every bit for `torture --flips --every-bit`.

use std::path::{Path, PathBuf};
use storage::engine::Method;
use torture::damage::DamageReport;
use torture::flips::{Density, FlipConfig, flip};
use torture::truncations::{TruncationConfig, truncate};

/// Flips in bytes of one kind in one file or memory, and lengths that one is cut to: fewer without
/// `LONG_TESTS`.
fn places(long: u64) -> u64 {
    if std::env::var_os("LONG_TESTS").is_some() {
        long
    } else {
        long / 8
    }
}

fn durable() -> impl Iterator<Item = Method> {
    Method::distinct().filter(|method| method.is_durable())
}

fn judge(method: Method, report: &DamageReport) {
    let faults = (&report.wrong, &report.panics);
    assert_eq!(faults, (&Vec::new(), &Vec::new()), "{}", method.name());
    assert!(report.detected() > 0, "{report:?}");
    assert!(
        !report.is_cut_short,
        "{}: {:?}",
        method.name(),
        report.hangs
    );
}

#[test]
fn no_flip_is_believed() {
    for method in durable() {
        let config = FlipConfig {
            method,
            seed: 1,
            density: Density::Most(places(240)),
            threads: 2,
        };
        let report = flip(&config, &mut |_, _| {}).expect("the database can be built");
        judge(method, &report);
    }
}

/// A directory that is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() {
            shared.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = parent.join(format!("indelible-torture-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the directory for temporary files is writable");
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn no_cut_is_believed() {
    for method in durable() {
        let scratch = Scratch::new(method.name());
        let config = TruncationConfig {
            method,
            seed: 1,
            random_lengths: places(100),
            threads: 2,
            directory: scratch.0.clone(),
        };
        let report = truncate(&config, &mut |_, _| {}).expect("the database can be built");
        judge(method, &report);
    }
}
