//! A database for one test.
//!
//! It is removed at the end of the test, also where the test fails.

use indelible::{Database, Method, Options};
use sql::Sql;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A new database with a name that no other test of this program uses.
    pub(crate) fn open(name: &str) -> (Self, Arc<Sql>) {
        let name = format!("indelible-local-{name}-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&directory);
        let options = Options::new().method(Method::NvmInp);
        let database = Database::create(&directory, &options).unwrap();
        (Self(directory), Sql::open(database).unwrap())
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
