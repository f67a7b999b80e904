//! Common part of the program's tests: they run the built binary, each in its own directory.
//!
//! Databases lie in shared memory where the machine has it, because that is what the program is
//! for; every directory is removed when its test ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// The data set that is shipped; tests run in the directory of their package.
pub(crate) const AIRPORTS: &str = "data/airports.csv";

/// Whether tests take their long settings, as `.ci/run` wants it.
pub(crate) fn is_long() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}

/// A directory that is removed on drop.
pub(crate) struct TestDirectory(PathBuf);

impl TestDirectory {
    /// A new empty directory.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let shared = Path::new("/dev/shm");
        let parent = if shared.is_dir() {
            shared.to_owned()
        } else {
            std::env::temp_dir()
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!(
            "indelible-cli-test-{}-{number}",
            std::process::id()
        ));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A path in the directory.
    pub(crate) fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        std::fs::write(self.0.join(name), content).unwrap();
        self.at(name)
    }

    /// Reads a file.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the program.
pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs the program, which must succeed, and returns what it printed.
pub(crate) fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the program, which must fail with this exit code, and returns its error.
pub(crate) fn fail(code: i32, arguments: &[&str]) -> String {
    let output = run(arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
    assert!(!errors.contains("panicked"), "{arguments:?}: {errors}");
    errors
}
