//! Tests of output files: the object at the path decides how it is written, and an unfinished one
//! changes nothing.
//!
//! Only root can change owners and make device nodes: elsewhere those parts are skipped with a line
//! that says so.

use super::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Barrier;

/// A directory that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("output-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(path: &Path, existing: Existing, bytes: &[u8]) -> io::Result<()> {
    let mut file = OutputFile::create(path, existing, 0o640)?;
    file.write_all(bytes)?;
    file.finish()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn is_root(directory: &Path) -> bool {
    fs::metadata(directory).unwrap().uid() == 0
}

#[test]
fn a_new_file_is_whole_or_not_there() {
    let scratch = Scratch::new("new");
    let path = scratch.at("out");
    let mut unfinished = OutputFile::create(&path, Existing::Refuse, 0o640).unwrap();
    unfinished.write_all(b"half").unwrap();
    assert!(!path.exists());
    drop(unfinished);
    assert!(scratch.names().is_empty());
    write(&path, Existing::Refuse, b"whole").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"whole");
    assert_eq!(mode(&path) & 0o700, 0o600);
    assert_eq!(scratch.names(), ["out"]);
}

#[test]
fn a_file_is_replaced_only_if_that_is_allowed_and_keeps_mode_and_owner() {
    let scratch = Scratch::new("replace");
    let path = scratch.at("out");
    fs::write(&path, "old").unwrap();
    let error = write(&path, Existing::Refuse, b"new").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let owner = is_root(&scratch.0).then_some((12, 34));
    if let Some((user, group)) = owner {
        std::os::unix::fs::chown(&path, Some(user), Some(group)).unwrap();
    }
    for kept in [0o600, 0o444, 0o664] {
        fs::set_permissions(&path, fs::Permissions::from_mode(kept)).unwrap();
        drop(OutputFile::create(&path, Existing::Replace, 0o640).unwrap());
        write(&path, Existing::Replace, kept.to_string().as_bytes()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), kept.to_string().as_bytes());
        assert_eq!(mode(&path), kept);
        if let Some(owner) = owner {
            let found = fs::metadata(&path).unwrap();
            assert_eq!((found.uid(), found.gid()), owner);
        }
    }
    assert_eq!(scratch.names(), ["out"]);
}

/// A file that comes while the new one is written must not be replaced without permission.
#[test]
fn a_file_that_comes_meanwhile_stays() {
    let scratch = Scratch::new("meanwhile");
    let path = scratch.at("out");
    let mut late = OutputFile::create(&path, Existing::Refuse, 0o640).unwrap();
    late.write_all(b"late").unwrap();
    write(&path, Existing::Refuse, b"early").unwrap();
    assert_eq!(late.finish().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), b"early");
    assert_eq!(scratch.names(), ["out"]);
}

/// Two writers of one new name found it free, both renamed their files, and both reported success.
#[test]
fn of_two_writers_at_once_one_is_refused() {
    let scratch = Scratch::new("race");
    for round in 0..50 {
        let path = scratch.at(&round.to_string());
        let both = Barrier::new(2);
        let finish = || {
            let file = OutputFile::create(&path, Existing::Refuse, 0o640).unwrap();
            both.wait();
            file.finish().is_ok()
        };
        let done = std::thread::scope(|scope| {
            let other = scope.spawn(finish);
            [finish(), other.join().unwrap()]
        });
        assert_eq!(done.iter().filter(|done| **done).count(), 1);
    }
}

#[test]
fn links_are_followed_and_stay() {
    let scratch = Scratch::new("links");
    fs::create_dir(scratch.at("far")).unwrap();
    symlink("far/file", scratch.at("near")).unwrap();
    symlink("near", scratch.at("link")).unwrap();
    // It leads to nothing yet.
    write(&scratch.at("link"), Existing::Refuse, b"first").unwrap();
    assert_eq!(fs::read(scratch.at("far/file")).unwrap(), b"first");
    assert!(write(&scratch.at("link"), Existing::Refuse, b"x").is_err());
    write(&scratch.at("link"), Existing::Replace, b"second").unwrap();
    assert_eq!(fs::read(scratch.at("far/file")).unwrap(), b"second");
    assert_eq!(scratch.names(), ["far", "link", "near"]);
    assert_eq!(fs::read_dir(scratch.at("far")).unwrap().count(), 1);
    for name in ["link", "near"] {
        assert!(fs::symlink_metadata(scratch.at(name)).unwrap().is_symlink());
    }
    symlink("no/such/file", scratch.at("astray")).unwrap();
    assert!(write(&scratch.at("astray"), Existing::Replace, b"x").is_err());
    symlink("circle", scratch.at("circle")).unwrap();
    assert!(write(&scratch.at("circle"), Existing::Replace, b"x").is_err());
}

/// The other names of a file keep the old content.
#[test]
fn only_the_name_that_is_given_is_replaced() {
    let scratch = Scratch::new("hard-links");
    fs::write(scratch.at("one"), "old").unwrap();
    fs::hard_link(scratch.at("one"), scratch.at("other")).unwrap();
    write(&scratch.at("one"), Existing::Replace, b"new").unwrap();
    assert_eq!(fs::read(scratch.at("one")).unwrap(), b"new");
    assert_eq!(fs::read(scratch.at("other")).unwrap(), b"old");
}

#[test]
fn pipes_and_sockets_are_written_in_place() {
    let scratch = Scratch::new("in-place");
    let pipe = scratch.at("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let socket = scratch.at("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    for existing in [Existing::Refuse, Existing::Replace] {
        std::thread::scope(|threads| {
            let reader = threads.spawn(|| fs::read(&pipe).unwrap());
            write(&pipe, existing, b"bytes").unwrap();
            assert_eq!(reader.join().unwrap(), b"bytes");
            let reader = threads.spawn(|| {
                let mut read = Vec::new();
                listener.accept().unwrap().0.read_to_end(&mut read).unwrap();
                read
            });
            write(&socket, existing, b"bytes").unwrap();
            assert_eq!(reader.join().unwrap(), b"bytes");
        });
        let kind = |path: &Path| fs::symlink_metadata(path).unwrap().file_type();
        assert!(kind(&pipe).is_fifo() && kind(&socket).is_socket());
    }
    write(Path::new("/dev/null"), Existing::Refuse, b"bytes").unwrap();
    assert_eq!(scratch.names(), ["pipe", "socket"]);
}

#[test]
fn device_nodes_stay_what_they_are() {
    let scratch = Scratch::new("devices");
    let node = scratch.at("node");
    // The number of /dev/null. Only root makes nodes, and not everywhere.
    let null = rustix::fs::makedev(1, 3);
    if mknodat(CWD, &node, FileType::CharacterDevice, Mode::RWXU, null).is_err() {
        return;
    }
    if OpenOptions::new().write(true).open(&node).is_err() {
        return;
    }
    for existing in [Existing::Refuse, Existing::Replace] {
        write(&node, existing, b"bytes").unwrap();
        let kind = fs::symlink_metadata(&node).unwrap().file_type();
        assert!(kind.is_char_device());
    }
    let block = scratch.at("block");
    // No device has this number, so that nothing is written to one.
    let absent = rustix::fs::makedev(259, 1_048_000);
    mknodat(CWD, &block, FileType::BlockDevice, Mode::RWXU, absent).unwrap();
    let refused = write(&block, Existing::Refuse, b"x").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert!(write(&block, Existing::Replace, b"x").is_err());
    let kind = fs::symlink_metadata(&block).unwrap().file_type();
    assert!(kind.is_block_device());
    assert_eq!(scratch.names(), ["block", "node"]);
}

#[test]
fn directories_and_places_that_are_not_there_are_refused() {
    let scratch = Scratch::new("refused");
    fs::create_dir(scratch.at("directory")).unwrap();
    for path in ["directory", "directory/", ".", "directory/..", "new/"] {
        for existing in [Existing::Refuse, Existing::Replace] {
            let error = write(&scratch.at(path), existing, b"x").unwrap_err();
            assert!(
                error.to_string().contains("is a directory"),
                "{path}: {error}"
            );
        }
    }
    fs::write(scratch.at("file"), "old").unwrap();
    for path in ["no/such", "file/below"] {
        assert!(write(&scratch.at(path), Existing::Replace, b"x").is_err());
    }
    assert_eq!(scratch.names(), ["directory", "file"]);
}
