//! Files of another device: each call takes its latency, its transfer and, for a sync, its cost.
//!
//! A directory imitates one device of one channel, which all its files share; in a hard disk that
//! is the arm. The storage hierarchy of the engines paper has no other device than the persistent
//! memory. There a [`ChargeSink`] also charges the copies that a file makes, and the lines that a
//! sync flushes, to the memory's emulator ([`EmulatorCharges`]), where they compete with everything
//! else for its cache. Counts of calls and bytes are those of the wrapped directory; charges follow
//! a call that succeeded.

use crate::arm::{Access, Position, Stretch};
use crate::profile::{FileProfile, Waits};
use crate::{Directory, DiskCounters, DiskError, File, Result};
use pmem::device::emulated::{Clock, Emulator, Region};
use pmem::{Part, Site};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Another device that is charged for the operations of files.
pub trait ChargeSink: Send + 'static {
    /// The account of a file that is being opened or created.
    fn open(&self, name: &str) -> Result<Box<dyn FileCharges>>;
}

/// The account of one open file. The thread that calls waits.
pub trait FileCharges: Send + Sync {
    /// Bytes were copied out of the file.
    fn read(&self, range: Range<u64>);

    /// Bytes were copied into the file.
    fn copied(&self, range: Range<u64>);

    /// The file was synced: the ranges that were written since the last sync, none twice, are
    /// flushed.
    fn synced(&self, ranges: &[Range<u64>]);
}

/// Charges files to the emulator of a memory: the hierarchy that has no other device.
#[derive(Clone, Debug)]
pub struct EmulatorCharges {
    emulator: Emulator,
    part_of: fn(&str) -> Part,
}

impl EmulatorCharges {
    /// Charges to `emulator`; `part_of` says from a file's name which part of the database it is.
    pub fn new(emulator: Emulator, part_of: fn(&str) -> Part) -> Self {
        Self { emulator, part_of }
    }
}

impl ChargeSink for EmulatorCharges {
    fn open(&self, name: &str) -> Result<Box<dyn FileCharges>> {
        let region = self.emulator.region().map_err(|error| DiskError::Io {
            action: "emulate",
            path: name.into(),
            source: std::io::Error::other(error),
        })?;
        Ok(Box::new(RegionCharges {
            region,
            part: (self.part_of)(name),
        }))
    }
}

/// A file as a region of an emulator: a copy out is a load, a copy in a store, a sync a flush and a
/// fence.
struct RegionCharges {
    region: Region,
    part: Part,
}

impl FileCharges for RegionCharges {
    fn read(&self, range: Range<u64>) {
        self.region
            .load(self.part, range.start, range.end - range.start);
    }

    fn copied(&self, range: Range<u64>) {
        self.region
            .store(self.part, range.start, range.end - range.start);
    }

    fn synced(&self, ranges: &[Range<u64>]) {
        for range in ranges {
            self.region
                .flush(self.part, range.start, range.end - range.start);
        }
        self.region.fence(self.part);
    }
}

/// Whether imitated devices add delays, for all that were made with it or a clone of it. They do by
/// default: a database need not be loaded at the speed at which it is measured.
#[derive(Clone, Debug)]
pub struct Delays(Arc<AtomicBool>);

impl Default for Delays {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Delays {
    /// Lets calls that begin from now on be delayed, or not.
    pub fn set(&self, are_on: bool) {
        self.0.store(are_on, Ordering::Relaxed);
    }
}

/// The imitated device.
struct Device {
    profile: FileProfile,
    delays: Delays,
    clock: Clock,
    /// When the channel has transferred everything, and where the arm is in a device that has one.
    channel: Mutex<Position>,
    injected_ns: AtomicU64,
    /// The count of opened files, which is also the number of the next one.
    files: AtomicU64,
}

impl Device {
    /// Reads part of a file.
    fn read(&self, stretch: Stretch) {
        let bytes = stretch.bytes.end - stretch.bytes.start;
        match self.profile.arm {
            None => self.transfer(self.profile.read_ns, bytes),
            Some(arm) => self.occupy(self.profile.read_ns, |channel, now_ns| {
                let transfer_ns = self.profile.transfer_ns(bytes);
                channel.access(arm, Access::Read, stretch, now_ns, transfer_ns);
            }),
        }
    }

    /// Takes bytes over. Where there is an arm, they go no further than the system's cache.
    fn write(&self, bytes: u64) {
        let bytes = if self.profile.arm.is_none() { bytes } else { 0 };
        self.transfer(self.profile.write_ns, bytes);
    }

    /// Makes the ranges of a file durable that were written since the last time.
    fn sync(&self, file: u64, ranges: &[Range<u64>]) {
        let (Some(arm), false) = (self.profile.arm, ranges.is_empty()) else {
            return self.transfer(self.profile.sync_ns, 0);
        };
        self.occupy(self.profile.sync_ns, |channel, now_ns| {
            for bytes in ranges.iter().cloned() {
                let transfer_ns = self.profile.transfer_ns(bytes.end - bytes.start);
                let stretch = Stretch { file, bytes };
                channel.access(arm, Access::Write, stretch, now_ns, transfer_ns);
            }
        });
    }

    /// Makes names of files durable.
    fn sync_names(&self) {
        match self.profile.arm {
            None => self.transfer(self.profile.sync_ns, 0),
            Some(arm) => self.occupy(self.profile.sync_ns, |channel, now_ns| {
                channel.leave(arm, now_ns);
            }),
        }
    }

    /// Waits for the transfer of `bytes` after those under way, and then for `latency_ns`.
    fn transfer(&self, latency_ns: u64, bytes: u64) {
        let transfer_ns = self.profile.transfer_ns(bytes);
        if latency_ns > 0 || transfer_ns > 0 {
            self.occupy(latency_ns, |channel, now_ns| {
                channel.pass(now_ns, transfer_ns);
            });
        }
    }

    /// Waits for the `work` of the channel, and then for `latency_ns`.
    fn occupy(&self, latency_ns: u64, work: impl FnOnce(&mut Position, u64)) {
        if !self.delays.0.load(Ordering::Relaxed) {
            return;
        }
        let now_ns = self.clock.now_ns();
        let free_ns = {
            let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
            work(&mut channel, now_ns);
            channel.free_ns()
        };
        let wait_ns = free_ns + latency_ns - now_ns;
        self.injected_ns.fetch_add(wait_ns, Ordering::Relaxed);
        match self.profile.waits {
            Waits::Spinning => self.clock.wait_ns(wait_ns),
            Waits::Sleeping => self.clock.sleep_ns(wait_ns),
        }
    }
}

/// A directory whose files belong to an imitated device.
pub struct EmulatedDirectory<D: Directory> {
    inner: D,
    device: Arc<Device>,
    sink: Option<Box<dyn ChargeSink>>,
}

impl<D: Directory> EmulatedDirectory<D> {
    /// The files of `inner` on a device of their own. `clock` is [`Clock::real`], or an emulator's.
    pub fn new(inner: D, profile: FileProfile, clock: Clock, delays: Delays) -> Self {
        let device = Device {
            profile,
            delays,
            clock,
            channel: Mutex::default(),
            injected_ns: AtomicU64::new(0),
            files: AtomicU64::new(0),
        };
        Self {
            inner,
            device: Arc::new(device),
            sink: None,
        }
    }

    /// Charges the files opened from now on to another device as well.
    #[must_use]
    pub fn charging(mut self, sink: impl ChargeSink) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    /// Time that the profile added so far, in ns. A sink counts the time that it adds.
    pub fn injected_ns(&self) -> u64 {
        self.device.injected_ns.load(Ordering::Relaxed)
    }

    fn wrap(&self, name: &str, inner: D::File) -> Result<EmulatedFile<D::File>> {
        let charges = self.sink.as_ref().map(|sink| sink.open(name)).transpose()?;
        let keeps_ranges = charges.is_some() || self.device.profile.arm.is_some();
        Ok(EmulatedFile {
            inner,
            number: self.device.files.fetch_add(1, Ordering::Relaxed),
            device: Arc::clone(&self.device),
            charges: charges.map(Arc::from),
            unsynced: keeps_ranges.then(Arc::default),
        })
    }
}

impl<D: Directory> Directory for EmulatedDirectory<D> {
    type File = EmulatedFile<D::File>;

    fn create(&self, name: &str) -> Result<Self::File> {
        self.wrap(name, self.inner.create(name)?)
    }

    fn open(&self, name: &str) -> Result<Self::File> {
        self.wrap(name, self.inner.open(name)?)
    }

    fn list(&self) -> Result<Vec<String>> {
        self.inner.list()
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename_new(from, to)
    }

    fn sync(&self, site: &'static Site) -> Result<()> {
        self.inner.sync(site)?;
        self.device.sync_names();
        Ok(())
    }

    fn counters(&self) -> DiskCounters {
        self.inner.counters()
    }
}

/// An open file of an imitated device.
pub struct EmulatedFile<F: File> {
    inner: F,
    /// The device's number of the file.
    number: u64,
    device: Arc<Device>,
    /// The file's account with a sink, if there is one. Nothing is locked while it makes its caller
    /// wait.
    charges: Option<Arc<dyn FileCharges>>,
    /// Common to all handles that were made of one, where a sync asks for it.
    unsynced: Option<Arc<Mutex<Unsynced>>>,
}

impl<F: File> EmulatedFile<F> {
    fn unsynced(&self) -> Option<MutexGuard<'_, Unsynced>> {
        let unsynced = self.unsynced.as_ref()?;
        Some(unsynced.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The ranges that the next sync of a file has to make durable.
#[derive(Default)]
struct Unsynced(Vec<Range<u64>>);

impl Unsynced {
    fn copied(&mut self, range: Range<u64>) {
        match self.0.last_mut() {
            // Appends, the usual case, stay one range.
            Some(last) if last.start <= range.start && range.start <= last.end => {
                last.end = last.end.max(range.end);
            }
            _ => self.0.push(range),
        }
    }

    fn cut(&mut self, bytes: u64) {
        self.0.retain_mut(|range| {
            range.end = range.end.min(bytes);
            range.start < range.end
        });
    }

    /// The ranges written since the last sync, in order, none twice. From now on there are none.
    fn take(&mut self) -> Vec<Range<u64>> {
        let mut ranges = std::mem::take(&mut self.0);
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, kept| {
            let joined = next.start <= kept.end;
            if joined {
                kept.end = kept.end.max(next.end);
            }
            joined
        });
        ranges
    }
}

impl<F: File> File for EmulatedFile<F> {
    fn reader(&self) -> Result<Self> {
        Ok(Self {
            inner: self.inner.reader()?,
            number: self.number,
            device: Arc::clone(&self.device),
            charges: self.charges.clone(),
            unsynced: self.unsynced.clone(),
        })
    }

    fn bytes(&self) -> Result<u64> {
        self.inner.bytes()
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, out)?;
        let bytes = offset..offset + out.len() as u64;
        self.device.read(Stretch {
            file: self.number,
            bytes: bytes.clone(),
        });
        if let Some(charges) = &self.charges {
            charges.read(bytes);
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.inner.write_at(offset, data)?;
        let bytes = data.len() as u64;
        self.device.write(bytes);
        if let Some(charges) = &self.charges {
            charges.copied(offset..offset + bytes);
        }
        if let Some(mut unsynced) = self.unsynced() {
            unsynced.copied(offset..offset + bytes);
        }
        Ok(())
    }

    fn set_bytes(&mut self, bytes: u64) -> Result<()> {
        self.inner.set_bytes(bytes)?;
        if let Some(mut unsynced) = self.unsynced() {
            unsynced.cut(bytes);
        }
        Ok(())
    }

    fn sync(&mut self, site: &'static Site) -> Result<()> {
        self.inner.sync(site)?;
        let unsynced = self.unsynced().map(|mut unsynced| unsynced.take());
        let unsynced = unsynced.unwrap_or_default();
        self.device.sync(self.number, &unsynced);
        if let Some(charges) = &self.charges {
            charges.synced(&unsynced);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoMode, NativeDirectory};
    use pmem::device::emulated::{ClockChoice, EmulationOptions, Profile};
    use pmem::site;
    use std::path::PathBuf;

    /// A directory that goes away with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("emulated-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn native(&self) -> NativeDirectory {
            NativeDirectory::open(&self.0, IoMode::Buffered).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn calls_take_latency_transfer_and_sync() {
        let scratch = Scratch::new("calls");
        let (clock, delays) = (Clock::manual(), Delays::default());
        let directory = EmulatedDirectory::new(
            scratch.native(),
            FileProfile::SSD,
            clock.clone(),
            delays.clone(),
        );
        let mut file = directory.create("log").unwrap();
        file.write_at(0, &[7; 5000]).unwrap(); // 10 us at 500 MB/s
        assert_eq!(clock.now_ns(), 10_000);
        file.sync(site!("emulated-disk-test.sync")).unwrap();
        assert_eq!(clock.now_ns(), 310_000);
        let mut content = [0; 5000];
        file.read_at(0, &mut content).unwrap();
        assert_eq!((content, clock.now_ns()), ([7; 5000], 345_000));
        directory
            .sync(site!("emulated-disk-test.directory"))
            .unwrap();
        assert_eq!(directory.injected_ns(), 645_000);
        assert!(file.read_at(4000, &mut content).is_err());
        assert_eq!(
            directory.injected_ns(),
            645_000,
            "a refused call is not charged"
        );
        let counters = directory.counters();
        assert_eq!(
            (counters.writes, counters.bytes_written, counters.syncs),
            (1, 5000, 2)
        );
        delays.set(false);
        file.sync(site!("emulated-disk-test.free")).unwrap();
        assert_eq!(directory.injected_ns(), 645_000, "delays are off");
    }

    /// A hard disk whose transfers take a nanosecond a byte.
    fn hard_disk(name: &str) -> (Scratch, Clock, EmulatedDirectory<NativeDirectory>) {
        let profile = FileProfile {
            bandwidth: Some(1_000_000_000),
            ..FileProfile::HDD
        };
        let (scratch, clock) = (Scratch::new(name), Clock::manual());
        let native = scratch.native();
        let directory = EmulatedDirectory::new(native, profile, clock.clone(), Delays::default());
        (scratch, clock, directory)
    }

    const SEEK_NS: u64 = 10_000_000;
    const TURN_NS: u64 = 8_333_333;

    #[test]
    fn scattered_reads_of_a_hard_disk_cost_a_seek_each() {
        let (_scratch, clock, directory) = hard_disk("arm-reads");
        let mut pages = directory.create("pages").unwrap();
        let mut others = directory.create("others").unwrap();
        pages.write_at(0, &[1; 8000]).unwrap();
        others.write_at(0, &[2; 8000]).unwrap();
        assert_eq!(
            clock.now_ns(),
            0,
            "what is written lies in the system's cache"
        );
        let read = |file: &mut EmulatedFile<_>, offset| {
            let before_ns = clock.now_ns();
            file.read_at(offset, &mut [0; 1000]).unwrap();
            clock.now_ns() - before_ns
        };
        let mut reader = pages.reader().unwrap();
        assert_eq!(read(&mut pages, 0), SEEK_NS + 1000);
        assert_eq!(read(&mut pages, 1000), 1000);
        assert_eq!(
            read(&mut reader, 2000),
            1000,
            "the same file by another handle"
        );
        assert_eq!(read(&mut pages, 7000), SEEK_NS + 1000);
        // All files have one arm.
        assert_eq!(read(&mut others, 0), SEEK_NS + 1000);
        assert_eq!(read(&mut others, 1000), 1000);
        assert_eq!(read(&mut pages, 3000), SEEK_NS + 1000);
        let counters = directory.counters();
        assert_eq!((counters.reads, counters.bytes_read), (7, 7000));
        assert_eq!(directory.injected_ns(), clock.now_ns());
    }

    #[test]
    fn a_sync_of_a_hard_disk_costs_a_seek_for_each_place() {
        let (_scratch, clock, directory) = hard_disk("arm-syncs");
        let mut log = directory.create("log").unwrap();
        let sync = |file: &mut EmulatedFile<_>| {
            let before_ns = clock.now_ns();
            file.sync(site!("emulated-disk-test.arm")).unwrap();
            clock.now_ns() - before_ns
        };
        log.write_at(0, &[1; 1000]).unwrap();
        log.write_at(1000, &[1; 1000]).unwrap();
        assert_eq!(sync(&mut log), SEEK_NS + 2000);
        assert_eq!(sync(&mut log), 0, "nothing is left");
        clock.wait_ns(333_333);
        log.write_at(2000, &[1; 1000]).unwrap();
        // The place has passed by and comes again.
        assert_eq!(sync(&mut log), TURN_NS - 333_333 + 1000);
        let mut pages = directory.create("pages").unwrap();
        for offset in [9000, 0, 5000, 1000] {
            pages.write_at(offset, &[2; 1000]).unwrap();
        }
        assert_eq!(sync(&mut pages), 3 * SEEK_NS + 4000);
        log.write_at(3000, &[1; 1000]).unwrap();
        assert_eq!(sync(&mut log), SEEK_NS + 1000, "the arm has been away");
        let before_ns = clock.now_ns();
        directory.sync(site!("emulated-disk-test.names")).unwrap();
        assert_eq!(clock.now_ns() - before_ns, SEEK_NS);
        let counters = directory.counters();
        assert_eq!((counters.writes, counters.syncs), (8, 6));
    }

    #[test]
    fn who_comes_second_waits_for_the_arm() {
        let (_scratch, clock, directory) = hard_disk("arm-queue");
        let mut file = directory.create("pages").unwrap();
        file.write_at(0, &[1; 1000]).unwrap();
        // Another thread has just asked for something.
        directory
            .device
            .channel
            .lock()
            .unwrap()
            .leave(FileProfile::HDD.arm.unwrap(), clock.now_ns());
        file.read_at(0, &mut [0; 1000]).unwrap();
        assert_eq!(clock.now_ns(), 2 * SEEK_NS + 1000);
    }

    #[test]
    fn copies_and_flushed_lines_are_charged_to_the_memory() {
        let scratch = Scratch::new("charges");
        let options = EmulationOptions {
            clock: ClockChoice::Virtual,
            ..EmulationOptions::new(Profile {
                write_ns: 100,
                ..Profile::HIGH
            })
        };
        let emulator = Emulator::new(options).unwrap();
        let charges = EmulatorCharges::new(emulator.clone(), |name| {
            if name.starts_with("wal") {
                Part::Log
            } else {
                Part::Checkpoint
            }
        });
        let clock = emulator.clock().clone();
        let directory = EmulatedDirectory::new(
            scratch.native(),
            FileProfile::NONE,
            clock,
            Delays::default(),
        )
        .charging(charges);
        let mut log = directory.create("wal.0").unwrap();
        log.write_at(0, &[1; 100]).unwrap(); // lines 0 and 1
        log.write_at(100, &[1; 100]).unwrap(); // lines 1 to 3
        log.write_at(640, &[1; 64]).unwrap(); // line 10
        log.write_at(150, &[1; 10]).unwrap();
        log.sync(site!("emulated-disk-test.charged")).unwrap();
        let counters = emulator.counters();
        let counts = counters.parts[Part::Log as usize];
        assert_eq!(
            (counts.loads, counts.stores, counts.lines_flushed),
            (5, 5, 5)
        );
        assert_eq!((counts.bytes_stored, counters.fences), (274, 1));
        let fence_ns = emulator.injected().fence_ns;
        assert!(
            (500..600).contains(&fence_ns),
            "five write latencies: {fence_ns} ns"
        );
        log.read_at(0, &mut [0; 200]).unwrap();
        assert_eq!(
            emulator.counters().serial_misses,
            0,
            "what was just written is in the cache"
        );
        let mut checkpoint = directory.create("checkpoint").unwrap();
        checkpoint.write_at(0, &[2; 4096]).unwrap();
        checkpoint.set_bytes(64).unwrap();
        checkpoint.sync(site!("emulated-disk-test.cut")).unwrap();
        let counts = emulator.counters().parts[Part::Checkpoint as usize];
        assert_eq!(
            (counts.loads, counts.lines_flushed),
            (64, 1),
            "what was cut off is not flushed"
        );
        let mut reopened = directory.open("wal.0").unwrap();
        reopened.read_at(0, &mut [0; 200]).unwrap();
        assert_eq!(
            emulator.counters().serial_misses,
            1,
            "an opened file is not in the cache"
        );
    }
}
