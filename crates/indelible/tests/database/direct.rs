//! Pages that bypass the operating system's cache: a database is the same with and without, at each
//! opening.
//!
//! A file system that refuses direct transfers must lead to an error that says so.

use crate::common::{Directory, is_long, people};
use indelible::{Database, Error, IoMode, Method, Mode, Options, ValueRef};
use std::path::PathBuf;

/// Fewer than the rows need.
const BUFFER_BYTES: u64 = 64 * 8192;
const ROWS: i64 = 15_000;

/// A directory on an ordinary disk, removed in the end.
struct OnDisk(PathBuf);

impl OnDisk {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let path = path.join(format!("direct-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn options(mode: IoMode) -> Options {
    Options::new().buffer_bytes(BUFFER_BYTES).io(mode)
}

/// A new database, unless the file system refuses.
fn create(path: &OnDisk, method: Method) -> Option<Database> {
    match Database::create(&path.0, &options(IoMode::Direct).method(method)) {
        Ok(database) => Some(database),
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("refuses direct I/O"), "{text}");
            None
        }
    }
}

/// Changes every row that exists, or inserts it.
fn fill(database: &Database, amount: i64) {
    let table = database.table("people").unwrap();
    for from in (0..ROWS).step_by(1000) {
        let write = |t: &mut indelible::Transaction<'_>| {
            for id in from..from + 1000 {
                let row = (id, format!("name {id}"), Some(amount + id));
                t.upsert(&table, row)?;
            }
            Ok(())
        };
        database.transaction(write).unwrap();
    }
}

/// Reads all rows in order, and some by their keys.
fn check(database: &Database, amount: i64) {
    let table = database.table("people").unwrap();
    let rows = database.read(|r| r.collect(&table, ..)).unwrap();
    assert_eq!(rows.len(), ROWS as usize);
    for (id, row) in (0..).zip(&rows) {
        let expected = (ValueRef::Int64(id), ValueRef::Int64(amount + id));
        assert_eq!((row.get(0), row.get(2)), expected);
    }
    for id in (0..ROWS).step_by(997) {
        let row = database.read(|r| r.get(&table, id)).unwrap().unwrap();
        assert_eq!(row.get(2), ValueRef::Int64(amount + id));
    }
}

#[test]
fn a_database_is_the_same_with_direct_and_buffered_transfers() {
    let methods = [Method::FullPageWrites, Method::Dwb, Method::NvmDwbLogOpt];
    // Without `LONG_TESTS` the first one has to do.
    let count = if is_long() { methods.len() } else { 1 };
    for method in methods.into_iter().take(count) {
        let path = OnDisk::new(method.name());
        let Some(database) = create(&path, method) else {
            return;
        };
        people(&database);
        fill(&database, 7);
        check(&database, 7);
        drop(database);
        for (mode, amount) in [(IoMode::Buffered, 70), (IoMode::Direct, 700)] {
            let database = Database::open_with(&path.0, &options(mode)).unwrap();
            check(&database, amount / 10);
            fill(&database, amount);
            drop(database);
        }
        let reading = options(IoMode::Direct).mode(Mode::ReadOnly);
        check(&Database::open_with(&path.0, &reading).unwrap(), 700);
        let database = Database::open_with(&path.0, &options(IoMode::Direct)).unwrap();
        assert!(database.verify().unwrap().damage.is_empty());
    }
}

#[test]
fn what_has_no_pages_for_direct_transfers_is_refused() {
    let path = Directory::new();
    let refused = |options: Options| {
        let error = Database::create(path.path(), &options).unwrap_err();
        assert!(matches!(error, Error::Option { .. }), "{error:?}");
        error.to_string()
    };
    let text = refused(Options::new().method(Method::NvmInp).io(IoMode::Direct));
    assert!(text.contains("`io`") && text.contains("nvm-inp"), "{text}");
    let small = Options::new().method(Method::Dwb).node_bytes(2048);
    let text = refused(small.clone().io(IoMode::Direct));
    assert!(text.contains("2048 bytes"), "{text}");
    drop(Database::create(path.path(), &small).unwrap());
    let text = Database::open_with(path.path(), &Options::new().io(IoMode::Direct))
        .unwrap_err()
        .to_string();
    assert!(text.contains("2048 bytes"), "{text}");
    drop(Database::open(path.path()).unwrap());
}
