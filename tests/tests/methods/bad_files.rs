//! Goal: opening gives a clear error, and never a panic, whatever files take the place of a
//! partition.
//!
//! Method: the files of a small database are removed, emptied, cut at every 4 KiB and at random
//! lengths, replaced by foreign bytes, and have single bits flipped in their headers. Each case
//! opens a fresh copy. Where the format keeps a second copy, the database must open with its
//! content instead.

use std::panic::{AssertUnwindSafe, catch_unwind};
use storage::engine::{EngineOptions, Method};
use tests::place::{Device, Files, Place, small_engine};
use tests::random::Random;
use tests::session::Session;

const ROWS: usize = 60;
const POOL: &str = "p0.pool";
const POOL_HEADER_BYTES: usize = 176;
const POOL_COPY_AT: usize = 4096;
const PAGE_BYTES: usize = 4096;
/// Files up to this length are cut at regular short distances, longer ones at random lengths.
const LONG_FILE_BYTES: usize = 128 << 10;

/// Every method that keeps something.
fn durable() -> impl Iterator<Item = Method> {
    Method::distinct().filter(|method| method.is_durable())
}

fn options() -> EngineOptions {
    EngineOptions {
        database_id: 0xbad_f11e,
        pool_bytes: 256 << 10,
        checkpoint_log_bytes: 64 << 10,
        // The log of `log` has segments of a share of this; each case writes all files anew.
        memtable_bytes: 64 << 10,
        ring_bytes: 0,
        area_bytes: 0,
        // The log's block has its place in the pool as it is made, so all of the file is needed.
        rotation_bytes: 32 << 10,
        rings: 2,
        ..small_engine()
    }
}

/// A small database that was closed.
fn database(method: Method, options: EngineOptions) -> Files {
    let mut session = Session::new(Place::new(Device::Native), method, options).unwrap();
    for line in [
        "create-table t id=int64 name=varchar(20) note=text? key=id index:by_name=name".to_owned(),
        format!("fill t 1..{ROWS}"),
        "checkpoint".to_owned(),
        "change t 1..9 note=\"changed\"".to_owned(),
        "reopen".to_owned(),
    ] {
        session.run(&line).unwrap();
    }
    session.place().files().unwrap()
}

/// Opens the files; an error's message, or the content.
fn open(files: &Files, method: Method, case: &str) -> Result<Vec<String>, String> {
    let place = Place::with_files(files).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut session = Session::open(place, method, options(), &[])?;
        let lines = ["count t", "count t by=by_name", "scan t", "verify"];
        Ok(session.run_block(lines.into_iter()))
    }));
    result.unwrap_or_else(|_| panic!("{method}, {case}: opening panicked"))
}

/// The content of the untouched database.
fn content(files: &Files, method: Method) -> Vec<String> {
    let content = open(files, method, "untouched").unwrap();
    let sound = format!("sound: {ROWS} rows, {} index entries", 2 * ROWS);
    assert_eq!(content.last(), Some(&sound), "{method}");
    content
}

/// The files must be refused with a message that names the file or the fault in some words.
fn refused(files: &Files, method: Method, case: &str) -> String {
    let message = open(files, method, case).err();
    let message = message.unwrap_or_else(|| panic!("{method}, {case}: it was opened"));
    assert!(
        message.split(' ').count() >= 4,
        "{method}, {case}: `{message}`"
    );
    message
}

/// All files but spare segments of logs, which nobody reads.
fn needed(files: &Files) -> impl Iterator<Item = (&String, &Vec<u8>)> {
    files.iter().filter(|(name, _)| !name.contains("-spare"))
}

fn changed(files: &Files, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Files {
    let mut files = files.clone();
    change(files.get_mut(name).unwrap());
    files
}

#[test]
fn the_untouched_database_opens() {
    for method in durable() {
        let content = content(&database(method, options()), method);
        assert_eq!(content.len(), ROWS + 3, "{method}");
    }
}

#[test]
fn missing_and_empty_files() {
    for method in durable() {
        let files = database(method, options());
        refused(&Files::new(), method, "an empty directory");
        for (name, _) in needed(&files) {
            let empty = changed(&files, name, Vec::clear);
            refused(&empty, method, &format!("empty {name}"));
        }
    }
    let message = refused(&Files::new(), Method::NvmInp, "no pool");
    assert!(message.contains(POOL), "{message}");
}

#[test]
fn truncated_files() {
    for method in durable() {
        let files = database(method, options());
        for (name, bytes) in needed(&files) {
            let mut random = Random::new(bytes.len() as u64);
            let pages = (0..bytes.len()).step_by(PAGE_BYTES);
            let lengths: Vec<usize> = if !tests::is_long() {
                let random = (0..50).map(|_| random.below(bytes.len() as u64) as usize);
                pages
                    .step_by(bytes.len().div_ceil(LONG_FILE_BYTES).max(1))
                    .chain(random)
                    .collect()
            } else if bytes.len() > LONG_FILE_BYTES {
                let random = (0..250).map(|_| random.below(bytes.len() as u64) as usize);
                pages.chain(random).collect()
            } else {
                (0..bytes.len()).step_by(251).chain(pages).collect()
            };
            for length in lengths {
                let cut = changed(&files, name, |content| content.truncate(length));
                refused(&cut, method, &format!("{name} cut at {length}"));
            }
        }
    }
}

#[test]
fn foreign_files() {
    let mut random = Random::new(4);
    for method in durable() {
        let files = database(method, options());
        for (name, _) in needed(&files) {
            let text = b"id,name\n1,ada\n2,grace\n".repeat(20_000);
            let noise: Vec<u8> = (0..300_000).map(|_| random.word() as u8).collect();
            let cases = [
                ("text", text),
                ("zeros", vec![0; 300_000]),
                ("noise", noise),
            ];
            for (what, bytes) in cases {
                let foreign = changed(&files, name, |content| *content = bytes);
                refused(&foreign, method, &format!("{what} as {name}"));
            }
        }
        let other = database(
            method,
            EngineOptions {
                database_id: 5,
                ..options()
            },
        );
        let message = refused(&other, method, "another database");
        assert!(message.contains("another database"), "{message}");
    }
}

#[test]
fn a_flipped_bit_in_one_header_of_a_pool_is_repaired() {
    let files = database(Method::NvmInp, options());
    let content = content(&files, Method::NvmInp);
    for copy in [0, POOL_COPY_AT] {
        for bit in (0..POOL_HEADER_BYTES * 8).step_by(3) {
            let flipped = changed(&files, POOL, |content| {
                content[copy + bit / 8] ^= 1 << (bit % 8);
            });
            let found = open(&flipped, Method::NvmInp, &format!("bit {bit} at {copy}"));
            assert_eq!(found.as_ref(), Ok(&content), "bit {bit} at {copy}");
        }
    }
}

#[test]
fn a_flipped_bit_in_both_headers_of_a_pool_is_refused() {
    let files = database(Method::NvmInp, options());
    for bit in 0..POOL_HEADER_BYTES * 8 {
        let flipped = changed(&files, POOL, |content| {
            for copy in [0, POOL_COPY_AT] {
                content[copy + bit / 8] ^= 1 << (bit % 8);
            }
        });
        refused(
            &flipped,
            Method::NvmInp,
            &format!("bit {bit} in both headers"),
        );
    }
}

#[test]
fn a_flipped_bit_in_the_header_of_a_log_or_checkpoint_is_refused() {
    let files = database(Method::Inp, options());
    for (name, _) in needed(&files) {
        let header_bytes = if name.contains("checkpoint") { 84 } else { 60 };
        for bit in 0..header_bytes * 8 {
            let flipped = changed(&files, name, |content| content[bit / 8] ^= 1 << (bit % 8));
            refused(&flipped, Method::Inp, &format!("bit {bit} of {name}"));
        }
    }
}

/// A flip in free space changes nothing; anywhere else the opening, a read or the deep check
/// notices it.
#[test]
fn flipped_bits_are_noticed_and_never_panic() {
    let mut silent = Vec::new();
    for method in durable() {
        let files = database(method, options());
        let content = content(&files, method);
        let mut random = Random::new(9);
        for name in files.keys() {
            // Every other one in the front, which has the pointers to everything else.
            for number in 0..if tests::is_long() { 200 } else { 50 } {
                let front = if number % 2 == 0 {
                    8192
                } else {
                    files[name].len() as u64
                };
                let at = random.below(front.min(files[name].len() as u64)) as usize;
                let mask = 1 << random.below(8);
                let flipped = changed(&files, name, |content| content[at] ^= mask);
                let case = format!("bit {mask:#x} of byte {at} of {name}");
                let found = open(&flipped, method, &case);
                let is_sound = |lines: &Vec<String>| {
                    *lines != content && lines.last().is_some_and(|line| line.starts_with("sound"))
                };
                if found.is_ok_and(|lines| is_sound(&lines)) {
                    silent.push(format!("{method}, {case}"));
                }
            }
        }
    }
    assert!(
        silent.is_empty(),
        "wrong content that is called sound:\n{}",
        silent.join("\n")
    );
}

#[test]
fn bytes_behind_the_end_of_a_pool_do_no_harm() {
    let files = database(Method::NvmInp, options());
    let longer = changed(&files, POOL, |content| {
        content.extend([0xaa; 3 * PAGE_BYTES]);
    });
    let expected = content(&files, Method::NvmInp);
    assert_eq!(open(&longer, Method::NvmInp, "a longer file"), Ok(expected));
}

#[test]
fn a_second_opener_is_refused() {
    let place = Place::with_files(&database(Method::NvmInp, options())).unwrap();
    let first = place.open(Method::NvmInp, &options(), &|_| false).unwrap();
    let error = place
        .open(Method::NvmInp, &options(), &|_| false)
        .err()
        .unwrap();
    assert!(error.to_string().contains("in use"), "{error}");
    drop(first);
    place.open(Method::NvmInp, &options(), &|_| false).unwrap();
}
