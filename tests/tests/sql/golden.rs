//! Goal: a database of SQL that an earlier version wrote means the same to later ones: objects of
//! its catalogue, keys of its indexes, rights, counters.
//!
//! Method: `golden/sql` holds databases that earlier versions made with the statements of
//! `define.sql`; `<build>` in their names is the day of that version. A copy of each is opened
//! beside a database that this version makes with the same statements. Both must show the same
//! state, give the same answers and errors to each line of `probes.sql`, and be in the same state
//! after that.
//!
//! Archives stay as they are. A new one, for a catalogue or keys in a new form, is made by that
//! version's program: `indelible create DIR --method M --size 1MiB`, `indelible sql DIR -f
//! define.sql`, and the files of DIR packed as `methods/compat.rs` says.

use crate::state::{ask, state_of};
use indelible::{Database, Options};
use lz4_flex::frame::FrameDecoder;
use sql::Sql;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tests::source::package;

/// A directory that is removed with everything in it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let name = format!("sql-golden-{name}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn folder() -> PathBuf {
    package().join("golden/sql")
}

/// The files of an archive.
fn unpacked(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let packed = fs::read(path).expect("the archive is read");
    let mut bytes = Vec::new();
    let unpacked = FrameDecoder::new(packed.as_slice()).read_to_end(&mut bytes);
    unpacked.expect("the archive is a frame of LZ4");
    let mut rest = bytes.as_slice();
    let mut files = BTreeMap::new();
    while !rest.is_empty() {
        let mut take = |count: u64| rest.split_off(..count as usize).expect("a whole file");
        let name_bytes = u32::from_le_bytes(take(4).try_into().expect("4 bytes"));
        let name = String::from_utf8(take(name_bytes.into()).to_vec()).expect("a name");
        let content_bytes = u64::from_le_bytes(take(8).try_into().expect("8 bytes"));
        files.insert(name, take(content_bytes).to_vec());
    }
    files
}

/// A database with the content of an archive.
fn old(path: &Path, here: &Directory) -> Arc<Sql> {
    fs::create_dir(&here.0).expect("a new directory");
    for (name, content) in unpacked(path) {
        fs::write(here.0.join(name), content).expect("the file is written");
    }
    let database = Database::open(&here.0).expect("an old database is opened");
    Sql::open(database).expect("its catalogue is read")
}

/// A database that this version makes.
fn new(options: &Options, here: &Directory) -> Arc<Sql> {
    let database = Database::create(&here.0, options).expect("a database is made");
    let sql = Sql::open(database).expect("it gets a catalogue");
    let mut session = sql.connect().expect("connected");
    let define = fs::read_to_string(folder().join("define.sql")).expect("the statements");
    for statement in define.lines() {
        ask(&mut session, statement).expect("it runs");
    }
    drop(session);
    sql
}

#[test]
fn databases_of_earlier_versions_mean_the_same() {
    let probes = fs::read_to_string(folder().join("probes.sql")).expect("the probes");
    let mut archives: Vec<PathBuf> = fs::read_dir(folder())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|one| one == "lz4"))
        .collect();
    archives.sort();
    assert!(archives.len() >= 2, "{archives:?}");
    for path in archives {
        let name = path.file_stem().expect("a name").to_string_lossy();
        let (here, beside) = (
            Directory::new(&name),
            Directory::new(&format!("{name}-new")),
        );
        let old = old(&path, &here);
        let options = Options::new()
            .method(old.database().method())
            .pool_bytes(1 << 20);
        let new = new(&options, &beside);
        assert_eq!(state_of(&old), state_of(&new), "{name}");
        let [mut of_old, mut of_new] = [&old, &new].map(|sql| sql.connect().expect("connected"));
        for probe in probes.lines() {
            let [found, expected] = [&mut of_old, &mut of_new].map(|session| ask(session, probe));
            assert_eq!(found, expected, "{name}: {probe}");
        }
        drop((of_old, of_new));
        assert_eq!(state_of(&old), state_of(&new), "{name}, after the probes");
        let report = old.database().verify().expect("it is read");
        assert!(report.damage.is_empty(), "{name}: {report:?}");
    }
}
