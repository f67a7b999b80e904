//! Tests of the native device: mapping, growth, locks, foreign files, full devices, domains, every
//! instruction.
//!
//! Shared memory stands for the domain `process`, the directory for temporary files (an ordinary
//! filesystem, as a rule) for `file`. A feature that the machine lacks is asserted to be refused,
//! not skipped.

use super::*;
use crate::site;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A directory that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn under(parent: &Path, name: &str) -> Self {
        let path = parent.join(format!("pmem-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// In shared memory.
    fn shared(name: &str) -> Self {
        Self::under(Path::new("/dev/shm"), name)
    }

    /// On a filesystem that may be an ordinary one.
    fn plain(name: &str) -> Self {
        Self::under(&std::env::temp_dir(), name)
    }

    fn source(&self) -> NativeSource {
        self.source_with(NativeOptions::default())
    }

    fn source_with(&self, options: NativeOptions) -> NativeSource {
        NativeSource::new(&self.0, options)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(memory: &NativeMemory, offset: u64, bytes: usize) -> Vec<u8> {
    let start = memory.readable(offset, bytes);
    // SAFETY: the range was checked; the copy is made before anybody stores again.
    unsafe { std::slice::from_raw_parts(start, bytes) }.to_vec()
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index * 31 + seed * 7 + index / 251) as u8)
        .collect()
}

#[test]
fn bytes_survive_reopening_and_growth_does_not_move() {
    for scratch in [Scratch::shared("reopen"), Scratch::plain("reopen")] {
        let source = scratch.source();
        let mut memory = source.create("pool", 10_000).unwrap();
        assert_eq!(memory.bytes(), 12_288, "rounded up to whole pages");
        let mode = fs::metadata(scratch.0.join("pool"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(matches!(
            source.create("pool", 1),
            Err(PmemError::Io {
                action: "create",
                ..
            })
        ));
        let base = memory.base();
        memory.store(8000, b"before");
        for bytes in [12_289, 3 << 20, 5 << 20, 1] {
            memory.grow(bytes).unwrap();
            assert!(memory.bytes() >= bytes);
            assert_eq!(memory.base(), base);
        }
        let last = memory.bytes() - 8;
        memory.store_word(last, 0x0123_4567_89ab_cdef);
        memory.flush(last, 8, site!("native-test.reopen"));
        memory.flush(8000, 6, site!("native-test.reopen-before"));
        memory.fence(site!("native-test.reopen-fence")).unwrap();
        drop(memory);
        let memory = source.open("pool", Access::Write).unwrap();
        assert_eq!(memory.bytes(), last + 8);
        assert_eq!(read(&memory, 8000, 6), b"before");
        assert_eq!(
            read(&memory, last, 8),
            0x0123_4567_89ab_cdef_u64.to_le_bytes()
        );
        assert!(matches!(
            source.remove("pool"),
            Err(PmemError::InUse { .. })
        ));
        drop(memory);
        source.remove("pool").unwrap();
        assert!(matches!(
            source.open("pool", Access::Read),
            Err(PmemError::Io { .. })
        ));
    }
}

/// Stores to grown memory while the thread that touches new pages is at work.
#[test]
fn what_grew_may_be_stored_to_and_go_away_at_once() {
    let scratch = Scratch::shared("touch");
    let source = scratch.source();
    let first = |at: u64| at * 4096 + 8;
    for seed in 0..20 {
        let name = format!("pool-{seed}");
        let mut memory = source.create(&name, 4096).unwrap();
        memory.store(first(0), &pattern(100, seed));
        for pages in [300_u64, 1500, 3000] {
            memory.grow(pages * 4096).unwrap();
            for at in (1..pages).rev().step_by(7) {
                memory.store(first(at), &pattern(100, seed + at as usize));
            }
        }
        drop(memory);
        let memory = source.open(&name, Access::Write).unwrap();
        for at in std::iter::once(0).chain((1..3000).rev().step_by(7)) {
            let stored = pattern(100, seed + at as usize);
            assert_eq!(read(&memory, first(at), 100), stored, "page {at}");
        }
        drop(memory);
        source.remove(&name).unwrap();
    }
}

/// The length is rounded where the next growth would begin in the middle of a huge page, and not
/// where there is no room for that.
#[test]
fn shared_memory_grows_by_whole_pieces_of_huge_pages() {
    let scratch = Scratch::shared("pieces");
    let mut memory = scratch.source().create("pool", 4096).unwrap();
    memory.grow(8192).unwrap();
    assert_eq!(memory.bytes(), 8192);
    memory.grow(5 << 20).unwrap();
    assert_eq!(memory.bytes(), 6 << 20);
    memory.store((6 << 20) - 8, &[7; 8]);
    memory.grow((6 << 20) + 4096).unwrap();
    assert_eq!(memory.bytes(), (6 << 20) + 4096);
    drop(memory);
    let memory = scratch.source().open("pool", Access::Write).unwrap();
    assert_eq!(memory.bytes(), (6 << 20) + 4096);
    assert_eq!(read(&memory, (6 << 20) - 8, 8), [7; 8]);
}

#[test]
fn a_second_opener_is_told_at_once() {
    let scratch = Scratch::shared("lock");
    let source = scratch.source();
    let owner = source.create("pool", 4096).unwrap();
    for access in [Access::Read, Access::Write] {
        assert!(matches!(
            source.open("pool", access),
            Err(PmemError::InUse { .. })
        ));
    }
    drop(owner);
    let readers = [0, 1].map(|_| source.open("pool", Access::Read).unwrap());
    for reader in readers {
        assert!(matches!(
            source.open("pool", Access::Write),
            Err(PmemError::InUse { .. })
        ));
        drop(reader);
    }
    source.open("pool", Access::Write).unwrap();
}

#[test]
fn a_reader_cannot_store_or_grow() {
    let scratch = Scratch::plain("reader");
    let source = scratch.source();
    source.create("pool", 4096).unwrap().store(0, b"kept");
    let mut memory = source.open("pool", Access::Read).unwrap();
    assert_eq!(memory.access(), Access::Read);
    assert_eq!(read(&memory, 0, 4), b"kept");
    memory.fence(site!("native-test.reader")).unwrap();
    assert!(matches!(memory.grow(8192), Err(PmemError::ReadOnly)));
    let store = std::panic::AssertUnwindSafe(|| memory.store_word(0, 1));
    let panic = std::panic::catch_unwind(store).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("open for reading only"), "{message}");
    assert_eq!(read(&memory, 0, 4), b"kept");
}

/// Without the right to write anywhere, so that the operating system would notice a store too.
#[test]
fn a_pool_without_the_right_to_write_opens_for_reading() {
    use crate::{Arena, POOL_FORMAT, PoolId, PoolIdentity, PoolKind};
    let identity = PoolIdentity {
        kind: PoolKind(1),
        pool_id: PoolId(2),
        format_version: POOL_FORMAT,
        created_seconds: 3,
        user: [4; 4],
    };
    let allow = |path: &Path, bits| {
        fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
    };
    for scratch in [Scratch::shared("readable"), Scratch::plain("readable")] {
        let path = scratch.0.join("pool");
        let memory = scratch.source().create("pool", 256 << 10).unwrap();
        drop(Arena::create(memory, &identity).unwrap());
        // A copy that opening for writing would repair.
        let mut content = fs::read(&path).unwrap();
        content[4096] ^= 1;
        fs::write(&path, &content).unwrap();
        allow(&path, 0o444);
        allow(&scratch.0, 0o555);
        let memory = scratch.source().open("pool", Access::Read).unwrap();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let name = path.to_str().unwrap();
        let mapped: Vec<&str> = maps.lines().filter(|line| line.ends_with(name)).collect();
        assert!(
            !mapped.is_empty() && mapped.iter().all(|line| line.contains(" r--s ")),
            "{mapped:?}"
        );
        let arena = Arena::open_read_only(memory, &path).unwrap();
        assert_eq!(arena.identity(), &identity);
        assert!(arena.allocated().unwrap().is_empty());
        assert_eq!(arena.counters(), Counters::default(), "nothing is stored");
        drop(arena);
        assert!(fs::read(&path).unwrap() == content, "nothing is repaired");
        allow(&scratch.0, 0o755);
    }
}

#[test]
fn short_streams_of_the_flush_free_domain_are_stored() {
    let scratch = Scratch::shared("short-streams");
    let options = NativeOptions {
        primitive: Some(Primitive::FlushFree),
        ..NativeOptions::default()
    };
    let source = NativeSource::new(&scratch.0, options);
    let mut memory = source.create("pool", 16 << 10).unwrap();
    let data = pattern(4096, 1);
    let site = site!("native-test.flush-free");
    for bytes in [8, 64, 504, 512, 4096] {
        memory.stream(4096, &data[..bytes], site);
        memory.fence(site!("native-test.flush-free-fence")).unwrap();
        assert_eq!(read(&memory, 4096, bytes), &data[..bytes]);
    }
    memory.store_line(64, &[7; 64], site);
    assert_eq!(read(&memory, 64, 64), [7; 64]);
    let counted = memory.counters().total();
    let bytes = 8 + 64 + 504 + 512 + 4096 + 64;
    assert_eq!(
        (counted.bytes_streamed, counted.bytes_stored),
        (bytes, bytes)
    );
}

#[test]
fn foreign_files_are_refused_with_the_mend() {
    let scratch = Scratch::plain("foreign");
    let source = scratch.source();
    for (length, word) in [
        (0_usize, "empty"),
        (64, "cut short"),
        (4095, "cut short"),
        (5000, "backup"),
    ] {
        fs::write(scratch.0.join("pool"), vec![1; length]).unwrap();
        for access in [Access::Read, Access::Write] {
            let error = source.open("pool", access).unwrap_err();
            assert!(
                matches!(error, PmemError::Foreign { .. }),
                "{length}: {error}"
            );
            assert!(error.to_string().contains(word), "{length}: {error}");
        }
    }
    fs::create_dir(scratch.0.join("folder")).unwrap();
    assert!(matches!(
        source.open("folder", Access::Read),
        Err(PmemError::Foreign { .. })
    ));
    for bad in ["", "..", "x/y", "/etc"] {
        assert!(
            matches!(source.create(bad, 4096), Err(PmemError::Io { .. })),
            "{bad:?}"
        );
    }
}

#[test]
fn holes_are_allocated_before_mapping() {
    use std::os::unix::fs::MetadataExt;
    for scratch in [Scratch::shared("holes"), Scratch::plain("holes")] {
        let path = scratch.0.join("pool");
        fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        let source = scratch.source();
        let read = source.open("pool", Access::Read);
        assert_eq!(
            matches!(read, Err(PmemError::Holes { .. })),
            scratch.0.starts_with("/dev/shm"),
            "reading fills holes there"
        );
        drop(read);
        let memory = source.open("pool", Access::Write).unwrap();
        assert!(fs::metadata(&path).unwrap().blocks() * 512 >= memory.bytes());
    }
}

/// More than the whole filesystem is refused by it at once, without taking the space first.
#[test]
fn a_full_device_is_an_error_and_the_memory_stays_usable() {
    let scratch = Scratch::shared("full");
    let source = scratch.source();
    let mut memory = source.create("pool", 8192).unwrap();
    let space = rustix::fs::statfs(&scratch.0).unwrap();
    let too_much =
        (space.f_blocks * space.f_bsize.cast_unsigned() + (1 << 30)).next_multiple_of(4096);
    let error = memory.grow(too_much).unwrap_err();
    assert!(matches!(error, PmemError::OutOfSpace { .. }), "{error}");
    assert_eq!(memory.bytes(), 8192);
    memory.store(0, b"still usable");
    memory.grow(16_384).unwrap();
    assert_eq!(read(&memory, 0, 12), b"still usable");
    assert!(matches!(
        memory.grow(1 << 60),
        Err(PmemError::OutOfSpace { .. })
    ));
    assert!(matches!(
        memory.grow(u64::MAX),
        Err(PmemError::OutOfSpace { .. })
    ));
    assert!(matches!(
        source.create("other", too_much),
        Err(PmemError::OutOfSpace { .. })
    ));
    assert!(!scratch.0.join("other").exists(), "nothing is left behind");
}

const CHILD: &str = "PMEM_TEST_FILE_SIZE_CHILD";

/// Run by [`a_limit_on_the_file_length_is_out_of_space`] in a process with `ulimit -f`.
#[test]
fn child_under_a_file_size_limit() {
    let Some(directory) = std::env::var_os(CHILD) else {
        return;
    };
    let source = NativeSource::new(directory, NativeOptions::default());
    let mut memory = source.create("pool", 64 << 10).unwrap();
    memory.store(0, b"kept");
    for _ in 0..3 {
        assert!(matches!(
            memory.grow(8 << 20),
            Err(PmemError::OutOfSpace { .. })
        ));
    }
    memory.grow(128 << 10).unwrap();
    assert_eq!(read(&memory, 0, 4), b"kept");
    fs::write(source.directory.join("mark.done"), b"done").unwrap();
}

#[test]
fn a_thousand_memories_leave_addresses_to_the_process() {
    let memories: Vec<NativeMemory> = (0..1_000)
        .map(|_| NativeMemory::volatile(4096, PageSize::Base).unwrap())
        .collect();
    let thread = std::thread::Builder::new().spawn(|| ()).unwrap();
    thread.join().unwrap();
    drop(memories);
}

#[test]
fn a_limit_on_the_file_length_is_out_of_space() {
    for scratch in [Scratch::shared("limit"), Scratch::plain("limit")] {
        // With 8 GiB of addresses the range that a memory reserves has to shrink, too.
        // The unit of `ulimit -f` is 512 bytes in some shells and 1024 in others: 1 or 2 MiB.
        let script = "trap '' XFSZ; ulimit -f 2048; ulimit -v 8388608; exec \"$0\" --exact \"$1\"";
        let test = "device::native::tests::child_under_a_file_size_limit";
        let output = std::process::Command::new("sh")
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .arg(test)
            .env(CHILD, &scratch.0)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
        assert!(
            scratch.0.join("mark.done").exists(),
            "the child ran to its end"
        );
    }
}

#[test]
fn no_domain_is_promised_that_the_medium_does_not_give() {
    let shared = Scratch::shared("domain");
    let with = |domain| NativeOptions {
        domain: Some(domain),
        ..NativeOptions::default()
    };
    for domain in [Domain::File, Domain::Flush, Domain::FlushFree] {
        let error = shared
            .source_with(with(domain))
            .create("pool", 4096)
            .unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, PmemError::Unsupported(_)), "{text}");
        assert!(
            text.contains("shared memory") && text.contains("process death"),
            "{text}"
        );
        assert!(text.contains(domain.name()), "{text}");
        assert!(!shared.0.join("pool").exists(), "nothing is left behind");
    }
    let memory = shared
        .source_with(with(Domain::Process))
        .create("pool", 4096)
        .unwrap();
    assert_eq!(
        (memory.domain(), memory.medium()),
        (Domain::Process, Medium::SharedMemory)
    );

    let plain = Scratch::plain("domain");
    let memory = plain.source().create("found", 4096).unwrap();
    assert_eq!(memory.domain(), memory.medium().domain());
    if memory.medium() == Medium::OrdinaryFile {
        assert!(
            plain
                .source_with(with(Domain::Flush))
                .create("pool", 4096)
                .is_err()
        );
        let weaker = plain
            .source_with(with(Domain::Process))
            .create("pool", 4096)
            .unwrap();
        assert_eq!(
            weaker.domain(),
            Domain::Process,
            "allowed, and reported as such"
        );
    }
}

/// The whole table, for media that this machine need not have.
#[test]
fn promises_follow_medium_and_instructions() {
    use Domain::{File, Flush, FlushFree, Process};
    let promise = |medium, domain: Option<Domain>, primitive: Option<Primitive>| {
        let options = NativeOptions {
            domain,
            primitive,
            ..NativeOptions::default()
        };
        Promise::make(medium, Path::new("p"), options)
            .ok()
            .map(|promise| promise.domain)
    };
    let dax = Medium::PersistentMemory;
    assert_eq!(promise(dax, None, None), arch::WRITES_BACK.then_some(Flush));
    if arch::WRITES_BACK {
        assert_eq!(promise(dax, Some(FlushFree), None), Some(FlushFree));
        assert_eq!(
            promise(dax, Some(FlushFree), Some(Primitive::Flush)),
            Some(FlushFree)
        );
        assert_eq!(
            promise(dax, None, Some(Primitive::FlushFree)),
            Some(Process),
            "never asked for"
        );
        assert_eq!(promise(dax, None, Some(Primitive::File)), Some(File));
        assert_eq!(promise(dax, Some(File), None), Some(File));
        assert_eq!(promise(dax, None, Some(Primitive::Process)), Some(Process));
    }
    assert_eq!(promise(Medium::OrdinaryFile, None, None), Some(File));
    assert_eq!(
        promise(Medium::OrdinaryFile, None, Some(Primitive::Flush)),
        Some(Process)
    );
    assert_eq!(promise(Medium::OrdinaryFile, Some(FlushFree), None), None);
    assert_eq!(
        promise(Medium::SharedMemory, None, Some(Primitive::Flush)),
        Some(Process)
    );
    assert_eq!(
        promise(Medium::SharedMemory, None, Some(Primitive::File)),
        Some(Process)
    );
}

/// Every primitive with every instruction of the processor: stored bytes are read back, and
/// counted.
#[test]
fn every_store_stream_and_flush_path_stores_what_it_says() {
    let scratch = Scratch::shared("paths");
    let primitives = [
        Primitive::Process,
        Primitive::File,
        Primitive::Flush,
        Primitive::FlushFree,
    ];
    for (number, primitive) in primitives.into_iter().enumerate() {
        for (choice, instructions) in Instructions::all().into_iter().enumerate() {
            let options = NativeOptions {
                primitive: Some(primitive),
                ..NativeOptions::default()
            };
            let source = scratch.source_with(options);
            let mut memory = source
                .create(&format!("{number}-{choice}"), 1 << 16)
                .unwrap();
            memory.instructions = instructions;
            memory.enter(Part::Log);
            store_all_ways(&mut memory, choice);
            let counters = memory.counters();
            let log = counters.parts[Part::Log as usize];
            assert_eq!((counters.total(), counters.fences), (log, 2));
            assert_eq!(
                (log.lines_flushed, log.bytes_streamed),
                (1 + 17 + 1, STREAMED + 64)
            );
        }
    }
}

/// Bytes streamed by [`store_all_ways`], but for the direct line.
const STREAMED: u64 = 8 + 24 + 32 + 40 + 72 + 1024 + 4096 + 4104;

fn store_all_ways(memory: &mut NativeMemory, seed: usize) {
    let mut model = read(memory, 0, 1 << 16);
    let mut expect = |offset: u64, data: &[u8]| {
        model[offset as usize..offset as usize + data.len()].copy_from_slice(data);
    };
    let flush = site!("native-test.flush");
    let line: [u8; 64] = pattern(64, seed).try_into().unwrap();
    memory.store(61, &line[..7]);
    expect(61, &line[..7]);
    memory.store_word(128, 77);
    expect(128, &77_u64.to_le_bytes());
    memory.flush(128, 8, flush);
    memory.flush(61, 1024, flush);
    memory.flush(128, 0, flush);
    memory.flush((1 << 16) - 1, 1, flush);
    memory.fence(site!("native-test.flush-fence")).unwrap();
    let mut offset = 4096 + 8;
    for length in [8, 24, 32, 40, 72, 1024, 4096, 4104] {
        let data = pattern(length, seed + length);
        memory.stream(offset, &data, site!("native-test.stream"));
        expect(offset, &data);
        offset += length as u64 + 8;
    }
    memory.store_line(1 << 15, &line, site!("native-test.line"));
    expect(1 << 15, &line);
    memory.fence(site!("native-test.stream-fence")).unwrap();
    memory.prefetch(3, 1000);
    assert_eq!(read(memory, 0, 1 << 16), model);
}

#[test]
fn volatile_memories_count_no_flushes_and_grow() {
    for volatile_pages in [PageSize::Base, PageSize::Huge] {
        let options = NativeOptions {
            volatile_pages,
            ..NativeOptions::default()
        };
        let mut memory = NativeSource::new("/nowhere", options)
            .volatile(1 << 20)
            .unwrap();
        memory.store(100, b"volatile");
        let base = memory.base();
        memory.grow(64 << 20).unwrap();
        memory.store_word((64 << 20) - 8, 9);
        memory.flush(0, 1 << 20, site!("native-test.volatile"));
        memory.fence(site!("native-test.volatile-fence")).unwrap();
        assert_eq!(
            (memory.base(), read(&memory, 100, 8)),
            (base, b"volatile".to_vec())
        );
        let counters = memory.counters();
        assert_eq!((counters.fences, counters.total().lines_flushed), (0, 0));
        assert_eq!(counters.total().bytes_stored, 16);
    }
}

/// A range outside the addresses of programs makes `msync` fail, as a broken disk does.
#[test]
fn a_failed_sync_poisons_the_handle() {
    let scratch = Scratch::plain("poison");
    let options = NativeOptions {
        primitive: Some(Primitive::File),
        ..NativeOptions::default()
    };
    let mut memory = scratch
        .source_with(options)
        .create("pool", 1 << 16)
        .unwrap();
    memory.store(8192, b"x");
    memory.flush(8192, 1, site!("native-test.poison"));
    assert_eq!((memory.dirty.first, memory.dirty.end), (8192, 8193));
    memory.dirty = Span {
        first: 1 << 60,
        end: (1 << 60) + 4096,
    };
    let fence = site!("native-test.poison-fence");
    assert!(matches!(
        memory.fence(fence),
        Err(PmemError::Io { action: "sync", .. })
    ));
    assert!(
        matches!(memory.fence(fence), Err(PmemError::Poisoned)),
        "trying again means nothing"
    );
    assert!(matches!(memory.grow(1 << 20), Err(PmemError::Poisoned)));
}

#[test]
fn ranges_outside_panic_instead_of_touching_memory() {
    let attempts: [fn(&mut NativeMemory); 7] = [
        |memory| memory.store(4090, b"1234567"),
        |memory| memory.store_word(4096, 1),
        |memory| memory.store_word(12, 1),
        |memory| memory.stream(u64::MAX - 7, &[0; 8], site!("native-test.outside-stream")),
        |memory| memory.stream(8, &[0; 7], site!("native-test.outside-words")),
        |memory| memory.flush(4095, 2, site!("native-test.outside-flush")),
        |memory| memory.store_line(32, &[0; 64], site!("native-test.outside-line")),
    ];
    for (number, attempt) in attempts.into_iter().enumerate() {
        let mut memory = NativeMemory::volatile(4096, PageSize::Base).unwrap();
        // A volatile memory does not flush; a durable route is wanted here.
        memory.route = Route::Lines;
        let attempt = std::panic::AssertUnwindSafe(|| attempt(&mut memory));
        assert!(
            std::panic::catch_unwind(attempt).is_err(),
            "attempt {number}"
        );
    }
}

#[test]
fn a_directory_that_gets_the_path_is_another_one() {
    let scratch = Scratch::plain("moved");
    let (path, moved) = (scratch.0.join("shop"), scratch.0.join("moved"));
    fs::create_dir(&path).unwrap();
    let source = NativeSource::new(&path, NativeOptions::default());
    drop(source.create("a", 1).unwrap());
    fs::rename(&path, &moved).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("a"), "other").unwrap();
    drop(source.create("b", 1).unwrap());
    source.remove("a").unwrap();
    assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "other");
    assert!(!path.join("b").exists() && !moved.join("a").exists());
    drop(source.open("b", Access::Write).unwrap());
}
