//! Creations that are cut off.
//!
//! Goal: files that a creation has left hold no data, which is known for certain, so the next
//! creation replaces them; files of a database that was complete are never taken for such ones.
//! Method: a platform that fails at one of the partitions leaves on the disk exactly what the
//! death of the process leaves there.

use crate::common::{Directory, durable_methods, small_options};
use indelible::{
    DataType, Database, EngineSource, Error, Files, Method, NativePlatform, Options, Platform,
    StorageError,
};
use pmem::Access;
use pmem::device::{NativeOptions, NativeSource};
use std::fs;
use std::path::Path;
use storage::engine::{Decide, Engine, EngineOptions};

const PARTITIONS: u32 = 2;

/// A directory in which no partition from this one on can be made.
struct CutOff(NativePlatform, u32);

impl Platform for CutOff {
    type Memories = NativeSource;
    type Files = Files;

    fn memories(&self, partition: u32) -> NativeSource {
        self.0.memories(partition)
    }

    fn files(&self, partition: u32) -> disk::Result<Files> {
        self.0.files(partition)
    }
}

impl EngineSource for CutOff {
    fn create_engine(
        &self,
        method: Method,
        options: &EngineOptions,
    ) -> storage::Result<Box<dyn Engine>> {
        if options.partition < self.1 {
            return self.0.create_engine(method, options);
        }
        Err(StorageError::Unsupported("cut off".into()))
    }

    fn open_engine(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> storage::Result<Box<dyn Engine>> {
        self.0.open_engine(method, options, decide)
    }
}

fn options(method: Method) -> Options {
    small_options(method).partitions(PARTITIONS)
}

/// Leaves what a creation leaves that dies once it has made so many partitions.
fn leave(path: &Path, method: Method, made: u32) {
    fs::create_dir_all(path).unwrap();
    let native = NativePlatform::new(path, Access::Write, NativeOptions::default()).unwrap();
    let created = Database::create_on(CutOff(native, made), &options(method));
    let error = created.map(drop).unwrap_err();
    assert!(error.to_string().contains("cut off"), "{method}: {error}");
    fs::write(path.join(".indelible-medium-1"), [0; 4096]).unwrap();
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn use_it(database: &Database) {
    let table = database.create_table("t").column("id", DataType::Int64);
    let table = table.create().unwrap();
    database
        .transaction(|t| t.insert(&table, (1_i64,)))
        .unwrap();
}

#[test]
fn a_creation_that_was_cut_off_is_begun_again() {
    for method in durable_methods() {
        for made in 0..=PARTITIONS {
            let directory = Directory::new();
            let path = directory.path();
            leave(path, method, made.min(PARTITIONS - 1));
            if made == 0 {
                // The commit table itself.
                fs::write(path.join("commits.pool"), [0; 100]).unwrap();
            }
            let error = Database::open(path).unwrap_err();
            assert!(
                matches!(error, Error::Incomplete { .. }) && error.to_string().contains("again"),
                "{method}: {error}"
            );
            let database = if made == PARTITIONS {
                Database::create(path, &options(method))
            } else {
                Database::open_or_create(path, &options(method))
            };
            use_it(&database.unwrap_or_else(|error| panic!("{method}: {error}")));
            let database = Database::open(path).unwrap();
            assert!(database.table("t").is_ok(), "{method}");
            assert!(!names(path).iter().any(|name| name.starts_with('.')));
        }
    }
}

#[test]
fn a_complete_database_is_never_taken_for_one_that_was_cut_off() {
    for method in durable_methods() {
        let directory = Directory::new();
        let path = directory.path();
        use_it(&Database::create(path, &options(method)).unwrap());
        fs::remove_file(path.join("indelible.db")).unwrap();
        let before = names(path);
        for error in [
            Database::open(path).unwrap_err(),
            Database::create(path, &options(method)).unwrap_err(),
            Database::open_or_create(path, &options(method)).unwrap_err(),
        ] {
            assert!(matches!(error, Error::NoDescriptor { .. }), "{error}");
        }
        // Even where nothing but the commit table is left.
        for name in before.iter().filter(|name| *name != "commits.pool") {
            fs::rename(path.join(name), directory.path().with_extension(name)).unwrap();
        }
        let error = Database::open_or_create(path, &options(method)).unwrap_err();
        assert!(matches!(error, Error::NoDescriptor { .. }), "{error}");
        for name in before.iter().filter(|name| *name != "commits.pool") {
            fs::rename(directory.path().with_extension(name), path.join(name)).unwrap();
        }
        assert_eq!(names(path), before, "{method}");
    }
}
