//! Litmus programs for the simulated disk: hand-written outcomes of a power cut or a failing
//! device.
//!
//! Goal: the model is tested before engines are tested with it. Method: each program works on a few
//! files; an outcome is one letter for each 512-byte sector of each file, `-` for a missing file,
//! `.` for an empty one and `0` for zeros. The set of outcomes over all images, torn forms
//! included, must be exactly the list.
#![allow(clippy::unwrap_used, reason = "helpers of a test fail the test")]

use disk::simulated::{Call, Effect, Fault, Repeat, SimulatedDirectory, SimulatedFile};
use disk::{Directory, DiskError, File, SECTOR_BYTES};
use pmem::device::simulated::{
    CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, WorldOptions,
};
use pmem::{Memory, MemorySource, site};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

const SECTOR: usize = SECTOR_BYTES as usize;

struct Machine {
    world: SimulatedWorld,
    directory: SimulatedDirectory,
}

impl Machine {
    /// A world with one durable file `f` that holds `content`.
    fn new(content: &str) -> (Self, SimulatedFile) {
        let world = SimulatedWorld::new(WorldOptions::default());
        let directory = SimulatedDirectory::new(&world);
        let mut file = directory.create("f").unwrap();
        file.write_at(0, &sectors(content)).unwrap();
        file.sync(site!("disk-litmus.setup")).unwrap();
        directory.sync(site!("disk-litmus.setup-names")).unwrap();
        (Self { world, directory }, file)
    }

    fn sync_names(&self) {
        self.directory
            .sync(site!("disk-litmus.sync-names"))
            .unwrap();
    }

    /// The content of the files named, one word each, in every image.
    fn outcomes(&self, names: &str) -> BTreeSet<String> {
        let choices = ImageChoices::every(&self.world, 1 << 20).unwrap();
        let outcome = |choice| {
            assert_eq!(
                self.world.image_hash(&choice),
                self.world.image(&choice).unwrap().hash()
            );
            show(&self.world.image(&choice).unwrap(), names)
        };
        choices.map(outcome).collect()
    }

    fn check(&self, names: &str, legal: &[&str]) {
        let legal: BTreeSet<_> = legal.iter().map(|&outcome| outcome.to_owned()).collect();
        assert_eq!(self.outcomes(names), legal);
    }

    fn fail(&self, call: Call, nth: u64, effect: Effect) {
        self.directory.inject(Fault {
            call,
            nth,
            repeat: Repeat::Once,
            effect,
        });
    }
}

fn sync(file: &mut SimulatedFile) {
    file.sync(site!("disk-litmus.sync")).unwrap();
}

fn write(file: &mut SimulatedFile, sector: u64, content: &str) {
    file.write_at(sector * SECTOR_BYTES, &sectors(content))
        .unwrap();
}

fn sectors(content: &str) -> Vec<u8> {
    content
        .bytes()
        .flat_map(|letter| [letter; SECTOR])
        .collect()
}

fn show(world: &SimulatedWorld, names: &str) -> String {
    let directory = SimulatedDirectory::new(world);
    let show_file = |name: &str| {
        let Ok(mut file) = directory.open(name) else {
            return "-".to_owned();
        };
        let mut content = vec![0; file.bytes().unwrap() as usize];
        file.read_at(0, &mut content).unwrap();
        if content.is_empty() {
            return ".".to_owned();
        }
        let letter = |sector: &[u8]| {
            assert!(
                sector.iter().all(|byte| *byte == sector[0]),
                "torn inside of a sector"
            );
            if sector[0] == 0 {
                '0'
            } else {
                char::from(sector[0])
            }
        };
        content.chunks(SECTOR).map(letter).collect()
    };
    names
        .split(' ')
        .map(show_file)
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn synced_write_survives() {
    let (machine, mut file) = Machine::new("a");
    write(&mut file, 0, "b");
    sync(&mut file);
    machine.check("f", &["b"]);
}

#[test]
fn unsynced_write_may_survive() {
    let (machine, mut file) = Machine::new("a");
    write(&mut file, 0, "b");
    machine.check("f", &["a", "b"]);
}

#[test]
fn unsynced_write_tears_at_sectors() {
    let (machine, mut file) = Machine::new("aaa");
    write(&mut file, 0, "bbb");
    machine.check(
        "f",
        &["aaa", "aab", "aba", "abb", "baa", "bab", "bba", "bbb"],
    );
}

#[test]
fn unsynced_writes_have_no_order() {
    let (machine, mut file) = Machine::new("aa");
    write(&mut file, 0, "b");
    write(&mut file, 1, "c");
    machine.check("f", &["aa", "ba", "ac", "bc"]);
}

#[test]
fn later_write_covers_an_earlier_one() {
    let (machine, mut file) = Machine::new("a");
    write(&mut file, 0, "b");
    write(&mut file, 0, "c");
    machine.check("f", &["a", "b", "c"]);
}

#[test]
fn sync_orders_writes() {
    let (machine, mut file) = Machine::new("aa");
    write(&mut file, 0, "b");
    sync(&mut file);
    write(&mut file, 1, "c");
    machine.check("f", &["ba", "bc"]);
}

#[test]
fn growing_write_may_leave_its_length_alone() {
    let (machine, mut file) = Machine::new("a");
    write(&mut file, 1, "b");
    machine.check("f", &["a", "a0", "ab"]);
}

#[test]
fn growing_write_of_two_sectors() {
    let (machine, mut file) = Machine::new("a");
    write(&mut file, 1, "bc");
    machine.check("f", &["a", "ab", "a0c", "abc", "a00", "ab0"]);
}

#[test]
fn second_of_two_growing_writes_alone_leaves_a_gap() {
    let (machine, mut file) = Machine::new("a");
    write(&mut file, 1, "b");
    write(&mut file, 2, "c");
    machine.check("f", &["a", "a0", "ab", "a0c", "a00", "abc", "ab0"]);
}

#[test]
fn cut_is_lost_or_kept() {
    let (machine, mut file) = Machine::new("ab");
    file.set_bytes(SECTOR_BYTES).unwrap();
    machine.check("f", &["a", "ab"]);
    sync(&mut file);
    machine.check("f", &["a"]);
}

#[test]
fn extension_reads_as_zeros() {
    let (machine, mut file) = Machine::new("a");
    file.set_bytes(2 * SECTOR_BYTES).unwrap();
    machine.check("f", &["a", "a0"]);
}

#[test]
fn sync_of_one_file_does_not_cover_another() {
    let (machine, mut file) = Machine::new("a");
    let mut other = machine.directory.create("g").unwrap();
    machine.sync_names();
    write(&mut file, 0, "b");
    other.set_bytes(SECTOR_BYTES).unwrap();
    sync(&mut file);
    machine.check("f g", &["b .", "b 0"]);
}

#[test]
fn file_without_durable_name_may_vanish() {
    let (machine, _file) = Machine::new("a");
    let mut other = machine.directory.create("g").unwrap();
    write(&mut other, 0, "b");
    sync(&mut other);
    machine.check("g", &["-", "b"]);
    machine.sync_names();
    machine.check("g", &["b"]);
}

#[test]
fn durable_name_does_not_make_content_durable() {
    let (machine, _file) = Machine::new("a");
    let mut other = machine.directory.create("g").unwrap();
    other.set_bytes(SECTOR_BYTES).unwrap();
    machine.sync_names();
    machine.check("g", &[".", "0"]);
}

#[test]
fn rename_is_one_step() {
    let (machine, _file) = Machine::new("a");
    let mut other = machine.directory.create("g").unwrap();
    write(&mut other, 0, "b");
    sync(&mut other);
    machine.sync_names();
    machine.directory.rename("g", "f").unwrap();
    machine.check("f g", &["a b", "b -"]);
    machine.sync_names();
    machine.check("f g", &["b -"]);
}

#[test]
fn removal_is_lost_or_kept() {
    let (machine, file) = Machine::new("a");
    drop(file);
    machine.directory.remove("f").unwrap();
    machine.check("f", &["a", "-"]);
    machine.sync_names();
    machine.check("f", &["-"]);
}

#[test]
fn removal_and_creation_are_independent() {
    let (machine, _file) = Machine::new("a");
    machine.directory.create("g").unwrap();
    machine.directory.remove("f").unwrap();
    machine.check("f g", &["a -", "a .", "- -", "- ."]);
}

#[test]
fn failed_sync_may_lose_the_data_for_ever() {
    let (machine, mut file) = Machine::new("a");
    machine.fail(Call::Sync, 0, Effect::SyncLost(ErrorKind::Other));
    write(&mut file, 0, "b");
    assert!(file.sync(site!("disk-litmus.sync")).is_err());
    assert!(matches!(
        file.write_at(0, b"x"),
        Err(DiskError::Poisoned { .. })
    ));
    assert!(matches!(
        file.sync(site!("disk-litmus.sync")),
        Err(DiskError::Poisoned { .. })
    ));
    let mut again = machine.directory.open("f").unwrap();
    let mut read = [0; SECTOR];
    again.read_at(0, &mut read).unwrap();
    assert_eq!(read, [b'b'; SECTOR]);
    sync(&mut again);
    machine.check("f", &["a"]);
}

#[test]
fn failed_sync_may_keep_the_data() {
    let (machine, mut file) = Machine::new("a");
    machine.fail(Call::Sync, 0, Effect::SyncKept(ErrorKind::Other));
    write(&mut file, 0, "b");
    assert!(file.sync(site!("disk-litmus.sync")).is_err());
    machine.check("f", &["b"]);
}

#[test]
fn lying_sync_changes_nothing() {
    let (machine, mut file) = Machine::new("a");
    machine.fail(Call::Sync, 0, Effect::SyncLies);
    write(&mut file, 0, "b");
    sync(&mut file);
    machine.check("f", &["a", "b"]);
}

#[test]
fn disabled_sync_changes_nothing() {
    let (machine, mut file) = Machine::new("a");
    machine.world.disable("disk-litmus.sync");
    write(&mut file, 0, "b");
    sync(&mut file);
    machine.check("f", &["a", "b"]);
}

#[test]
fn full_disk_takes_what_fits() {
    let (machine, mut file) = Machine::new("a");
    machine.directory.limit_space(Some(2 * SECTOR_BYTES));
    let refused = file.write_at(SECTOR_BYTES, &sectors("bc"));
    assert!(matches!(
        refused,
        Err(DiskError::OutOfSpace {
            bytes: SECTOR_BYTES,
            ..
        })
    ));
    assert!(matches!(
        file.set_bytes(3 * SECTOR_BYTES),
        Err(DiskError::OutOfSpace { .. })
    ));
    write(&mut file, 0, "d");
    sync(&mut file);
    machine.check("f", &["db"]);
}

#[test]
fn short_write_stores_the_first_half() {
    let (machine, mut file) = Machine::new("aa");
    machine.fail(Call::Write, 1, Effect::ShortWrite(ErrorKind::Interrupted));
    write(&mut file, 0, "b");
    assert!(file.write_at(0, &sectors("cc")).is_err());
    sync(&mut file);
    machine.check("f", &["ca"]);
}

#[test]
fn each_call_can_fail_once_or_for_ever() {
    let (machine, file) = Machine::new("a");
    let (call, nth, effect) = (Call::Any, 1, Effect::Error(ErrorKind::Other));
    machine.directory.inject(Fault {
        call,
        nth,
        repeat: Repeat::Forever,
        effect,
    });
    let calls = machine.directory.calls();
    assert!(machine.directory.exists("f").is_ok());
    assert!(machine.directory.list().is_err());
    assert!(file.bytes().is_err());
    assert!(machine.directory.create("g").is_err());
    assert_eq!(machine.directory.calls(), calls + 4);
    machine.directory.heal();
    assert_eq!(machine.directory.list().unwrap(), ["f"]);
    machine.fail(Call::Any, 0, effect);
    assert!(file.bytes().is_err());
    assert_eq!(file.bytes().unwrap(), SECTOR_BYTES);
}

#[test]
fn memory_and_disk_share_images_and_observer() {
    let (machine, mut file) = Machine::new("a");
    let mut memory = machine.world.source().create("memory", 64).unwrap();
    memory.store_word(0, 1);
    write(&mut file, 0, "b");
    assert_eq!(
        ImageChoices::exhaustive(&machine.world, 4).unwrap().count(),
        4
    );
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    machine.world.observe(move |world, point| {
        let (CrashPoint::Sync(site) | CrashPoint::Fence(site)) = point else {
            return;
        };
        let images = ImageChoices::exhaustive(world, 100).unwrap().count();
        log.lock().unwrap().push((site.name, images));
    });
    sync(&mut file);
    memory.flush(0, 8, site!("disk-litmus.flush"));
    memory.fence(site!("disk-litmus.fence")).unwrap();
    machine
        .directory
        .sync(site!("disk-litmus.sync-names"))
        .unwrap();
    let expected = [
        ("disk-litmus.sync", 4),
        ("disk-litmus.fence", 2),
        ("disk-litmus.sync-names", 1),
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}

#[test]
fn directories_of_one_world_are_apart() {
    let (machine, _file) = Machine::new("a");
    let other = SimulatedDirectory::named(&machine.world, "partition-1");
    assert_eq!(other.list().unwrap(), [""; 0]);
    let mut file = other.create("f").unwrap();
    write(&mut file, 0, "b");
    file.sync(site!("disk-litmus.other-sync")).unwrap();
    other.sync(site!("disk-litmus.other-names")).unwrap();
    machine.check("f", &["a"]);
    let image = machine.world.image(&ImageChoice::default()).unwrap();
    let again = SimulatedDirectory::named(&image, "partition-1");
    assert_eq!(again.open("f").unwrap().bytes().unwrap(), SECTOR_BYTES);
}

// The process dies, the power stays on, and the next process goes on; then the power goes.

impl Machine {
    /// The machine as the next process finds it.
    fn die(&self) -> Self {
        let world = self.world.death().unwrap();
        let directory = SimulatedDirectory::new(&world);
        Self { world, directory }
    }
}

#[test]
fn everything_is_visible_after_a_death_and_nothing_more_is_certain() {
    let (machine, mut file) = Machine::new("aa");
    write(&mut file, 1, "bb");
    let mut other = machine.directory.create("g").unwrap();
    write(&mut other, 0, "c");
    machine.directory.rename("f", "h").unwrap();
    let next = machine.die();
    assert_eq!(show_live(&next, "f g h"), "- c abb");
    assert_eq!(machine.outcomes("f g h"), next.outcomes("f g h"));
    assert!(next.outcomes("f g h").len() > 8);
}

/// The files as the process that runs there reads them.
fn show_live(machine: &Machine, names: &str) -> String {
    show(&machine.world, names)
}

#[test]
fn sync_covers_a_write_of_the_dead() {
    let (machine, mut file) = Machine::new("a");
    write(&mut file, 0, "b");
    let next = machine.die();
    next.check("f", &["a", "b"]);
    sync(&mut next.directory.open("f").unwrap());
    next.check("f", &["b"]);
    // The dead one's world goes its own way.
    machine.check("f", &["a", "b"]);
}

#[test]
fn sync_of_names_covers_those_of_the_dead() {
    let (machine, _file) = Machine::new("a");
    machine.directory.rename("f", "g").unwrap();
    let next = machine.die();
    next.check("f g", &["a -", "- a"]);
    next.sync_names();
    next.check("f g", &["- a"]);
}

#[test]
fn acting_on_a_write_of_the_dead_may_outlive_it() {
    let (machine, mut file) = Machine::new("a");
    write(&mut file, 0, "b");
    let next = machine.die();
    let mut copy = next.directory.create("g").unwrap();
    next.sync_names();
    let seen = show_live(&next, "f");
    write(&mut copy, 0, &seen);
    sync(&mut copy);
    next.check("f g", &["a b", "b b"]);
}

#[test]
fn file_that_only_the_dead_had_open_is_gone() {
    let (machine, mut file) = Machine::new("a");
    machine.directory.remove("f").unwrap();
    machine.sync_names();
    write(&mut file, 0, "b");
    let next = machine.die();
    next.check("f", &["-"]);
    assert!(next.directory.create("f").is_ok());
    assert_eq!(show_live(&next, "f"), ".");
}

#[test]
fn removal_of_the_dead_may_be_lost() {
    let (machine, _file) = Machine::new("a");
    machine.directory.remove("f").unwrap();
    let next = machine.die();
    assert_eq!(show_live(&next, "f"), "-");
    next.check("f", &["-", "a"]);
}

#[test]
fn name_that_the_dead_gave_and_took_away_may_come_back() {
    let (machine, _file) = Machine::new("a");
    let mut other = machine.directory.create("g").unwrap();
    write(&mut other, 0, "b");
    sync(&mut other);
    machine.directory.rename("g", "h").unwrap();
    machine.directory.remove("h").unwrap();
    let next = machine.die();
    assert_eq!(show_live(&next, "g h"), "- -");
    next.check("g h", &["- -", "b -", "- b"]);
    assert_eq!(machine.outcomes("g h"), next.outcomes("g h"));
    next.sync_names();
    next.check("g h", &["- -"]);
}
