//! Tests of the native files: round trips in both modes, full devices, failing syncs.
//!
//! Direct I/O is tested on the build directory, whose filesystem is an ordinary one; where that one
//! refuses direct I/O, the test asserts the refusal instead.

use super::*;
use pmem::site;
use std::fs::OpenOptions;

/// A directory that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("disk-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 31 + seed * 7 + index / 251) as u8)
        .collect()
}

/// Writes of awkward offsets and lengths, against a plain vector.
fn round_trip(directory: &NativeDirectory) {
    let mut file = directory.create("log").unwrap();
    assert!(directory.create("log").is_err(), "a name exists once");
    let mut model: Vec<u8> = Vec::new();
    let writes = [
        (0, 10),
        (10, 4096),
        (4096, 4096),
        (3, 1),
        (9000, 5000),
        (8191, 2),
        (100, 20_000),
    ];
    for (seed, (offset, length)) in writes.into_iter().enumerate() {
        let data = pattern(length, seed);
        file.write_at(offset as u64, &data).unwrap();
        model.resize(model.len().max(offset + length), 0);
        model[offset..offset + length].copy_from_slice(&data);
        assert_eq!(file.bytes().unwrap(), model.len() as u64);
        let mut found = vec![0; model.len()];
        file.read_at(0, &mut found).unwrap();
        assert_eq!(found, model, "after write {seed}");
    }
    let mut part = [0; 777];
    file.read_at(4001, &mut part).unwrap();
    assert_eq!(part[..], model[4001..4778]);
    assert!(
        file.read_at(model.len() as u64 - 1, &mut part).is_err(),
        "the file ends before"
    );
    file.set_bytes(5001).unwrap();
    file.set_bytes(6000).unwrap();
    let mut tail = [1; 999];
    file.read_at(5001, &mut tail).unwrap();
    assert_eq!(tail, [0; 999], "extended with zeros");
    file.sync(site!("disk-test.file")).unwrap();
    directory.sync(site!("disk-test.directory")).unwrap();
    drop(file);
    assert_eq!(directory.open("log").unwrap().bytes().unwrap(), 6000);
}

#[test]
fn buffered_files_round_trip_and_count() {
    let scratch = Scratch::new("buffered");
    let directory = NativeDirectory::open(&scratch.0, IoMode::Buffered).unwrap();
    round_trip(&directory);
    let counters = directory.counters();
    assert_eq!((counters.writes, counters.syncs), (7, 2));
    assert_eq!(
        counters.bytes_written,
        10 + 4096 + 4096 + 1 + 5000 + 2 + 20_000
    );
    assert_eq!(counters.reads, 7 + 3);
}

#[test]
fn direct_files_round_trip_or_are_refused_in_words() {
    let scratch = Scratch::new("direct");
    let directory = NativeDirectory::open(&scratch.0, IoMode::Direct).unwrap();
    match directory.create("probe") {
        Ok(_) => round_trip(&directory),
        Err(error) => assert!(error.to_string().contains("buffered"), "{error}"),
    }
}

#[test]
fn lists_of_writes_arrive_whole_whether_they_are_blocks_or_not() {
    let scratch = Scratch::new("lists");
    let directory = NativeDirectory::open(&scratch.0, IoMode::Buffered).unwrap();
    let directory = directory.with_direct(|name| name == "a.pages");
    for name in ["a.pages", "a.log"] {
        let mut file = match directory.create(name) {
            Ok(file) => file,
            Err(error) => {
                assert!(error.to_string().contains("buffered"), "{error}");
                continue;
            }
        };
        assert_eq!(file.is_direct(), name == "a.pages");
        file.set_bytes(40 * 4096).unwrap();
        let blocks = [(0, 4096), (7, 3 * 4096), (2, 4096), (30, 10 * 4096)];
        let parts = [(5, 100), (12, 4096)];
        let mut model = vec![0; 40 * 4096];
        for (seed, list) in [&blocks[..], &parts[..], &blocks[..1], &[]]
            .iter()
            .enumerate()
        {
            let data: Vec<_> = list
                .iter()
                .map(|&(block, length)| (block * 4096 + length % 4096, pattern(length, seed)))
                .collect();
            for (at, bytes) in &data {
                model[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            let writes = data.iter().map(|(at, bytes)| (*at as u64, &bytes[..]));
            file.write_each(&writes.collect::<Vec<_>>()).unwrap();
            let mut found = vec![0; model.len()];
            file.read_at(0, &mut found).unwrap();
            assert!(found == model, "{name}, list {seed}");
        }
        file.sync(site!("disk-test.lists")).unwrap();
        let mut reader = file.reader().unwrap();
        let block = [1; 4096];
        let refused = reader.write_each(&[(0, &block), (8192, &block)]);
        assert!(matches!(refused, Err(DiskError::ReadOnly { .. })));
    }
    assert!(directory.counters().writes >= 7);
}

#[test]
fn names_are_listed_renamed_and_removed() {
    let scratch = Scratch::new("names");
    let directory = NativeDirectory::open(&scratch.0, IoMode::Buffered).unwrap();
    for name in ["b", "a", "c"] {
        directory
            .create(name)
            .unwrap()
            .write_at(0, name.as_bytes())
            .unwrap();
    }
    fs::create_dir(scratch.0.join("folder")).unwrap();
    assert_eq!(directory.list().unwrap(), ["a", "b", "c"]);
    directory.rename("a", "c").unwrap();
    directory.remove("b").unwrap();
    assert_eq!(directory.list().unwrap(), ["c"]);
    let mut byte = [0];
    directory.open("c").unwrap().read_at(0, &mut byte).unwrap();
    assert_eq!(&byte, b"a");
    assert!(directory.exists("c").unwrap() && !directory.exists("a").unwrap());
    for bad in ["", "..", "x/y", "/etc"] {
        assert!(
            directory.create(bad).is_err(),
            "{bad:?} leads out of the directory"
        );
    }
    assert!(NativeDirectory::open(scratch.0.join("c"), IoMode::Buffered).is_err());
    assert!(NativeDirectory::open(scratch.0.join("none"), IoMode::Buffered).is_err());
}

/// The null device refuses `fdatasync`, as a broken disk does.
#[test]
fn a_failed_sync_poisons_the_handle() {
    let scratch = Scratch::new("poison");
    let directory = NativeDirectory::open(&scratch.0, IoMode::Buffered).unwrap();
    let mut file = directory.create("log").unwrap();
    file.write_at(0, b"before").unwrap();
    file.file = Arc::new(
        OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")
            .unwrap(),
    );
    assert!(matches!(
        file.sync(site!("disk-test.broken")),
        Err(DiskError::Io { .. })
    ));
    let again = site!("disk-test.again");
    assert!(matches!(file.sync(again), Err(DiskError::Poisoned { .. })));
    assert!(matches!(
        file.write_at(0, b"x"),
        Err(DiskError::Poisoned { .. })
    ));
    assert!(matches!(file.set_bytes(0), Err(DiskError::Poisoned { .. })));
}

/// `/dev/full` answers every write with "no space".
#[test]
fn a_full_device_is_told_apart() {
    let scratch = Scratch::new("full");
    let directory = NativeDirectory::open(&scratch.0, IoMode::Buffered).unwrap();
    let mut file = directory.create("log").unwrap();
    file.file = Arc::new(
        OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/full")
            .unwrap(),
    );
    assert!(matches!(
        file.write_at(0, b"x"),
        Err(DiskError::OutOfSpace { bytes: 1, .. })
    ));
}

/// Without the right to write anywhere, so that the operating system would notice a change too.
#[test]
fn a_directory_for_reading_changes_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("read-only");
    fs::write(scratch.0.join("log"), b"content").unwrap();
    let allow = |path: &Path, bits| {
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
    };
    allow(&scratch.0.join("log"), 0o444);
    allow(&scratch.0, 0o555);
    let before = fs::metadata(&scratch.0).unwrap().modified().unwrap();
    let directory = NativeDirectory::open_for(Access::Read, &scratch.0, IoMode::Buffered).unwrap();
    let refused = |answer: Result<()>| matches!(answer, Err(DiskError::ReadOnly { .. }));
    assert!(refused(directory.create("new").map(drop)));
    assert!(refused(directory.rename("log", "other")));
    assert!(refused(directory.remove("log")));
    directory.sync(site!("disk-test.reader-directory")).unwrap();
    let mut file = directory.open("log").unwrap();
    let mut content = [0; 7];
    file.read_at(0, &mut content).unwrap();
    assert_eq!(&content, b"content");
    assert!(refused(file.write_at(0, b"x")));
    assert!(refused(file.set_bytes(0)));
    file.sync(site!("disk-test.reader-file")).unwrap();
    assert_eq!(directory.list().unwrap(), ["log"]);
    assert_eq!(directory.counters().syncs, 0);
    let after = fs::metadata(&scratch.0).unwrap().modified().unwrap();
    assert_eq!(before, after);
    allow(&scratch.0, 0o755);
}

/// Another directory got the path, as a copy or a restored backup does, while the old one was in
/// use: both would have been damaged.
#[test]
fn a_directory_that_gets_the_path_is_another_one() {
    let scratch = Scratch::new("moved");
    let (path, moved) = (scratch.0.join("shop"), scratch.0.join("moved"));
    fs::create_dir(&path).unwrap();
    let directory = NativeDirectory::open(&path, IoMode::Buffered).unwrap();
    directory.create("a").unwrap();
    directory.create("b").unwrap();
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    for name in ["a", "b", "other"] {
        fs::write(path.join(name), name).unwrap();
    }
    directory.create("c").unwrap();
    directory.rename("a", "d").unwrap();
    directory.rename_new("c", "e").unwrap();
    directory.remove("b").unwrap();
    directory.sync(site!("test.moved")).unwrap();
    assert!(!directory.exists("other").unwrap() && directory.open("other").is_err());
    assert_eq!(directory.list().unwrap(), ["d", "e"]);
    for name in ["a", "b", "other"] {
        assert_eq!(fs::read_to_string(path.join(name)).unwrap(), name);
    }
    assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
    assert_eq!(fs::read_dir(&moved).unwrap().count(), 2);
}
