//! Files of another device: each call takes its latency, its transfer and, for a sync, its cost.
//!
//! A directory imitates one device of one channel, which all its files share. In the storage
//! hierarchy of the engines paper there is no other device than the persistent memory: there a
//! [`ChargeSink`] also charges the copies that a file makes, and the lines that a sync flushes, to
//! the memory's emulator ([`EmulatorCharges`]), where they compete with everything else for its
//! cache. Counts of calls and bytes are those of the wrapped directory; charges follow a call that
//! succeeded.

use crate::profile::{FileProfile, Waits};
use crate::{Directory, DiskCounters, DiskError, File, Result};
use pmem::device::emulated::{Clock, Emulator, Region};
use pmem::{Part, Site};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Another device that pays for what files do.
pub trait ChargeSink: Send + 'static {
    /// The account of a file that is being opened or created.
    fn open(&self, name: &str) -> Result<Box<dyn FileCharges>>;
}

/// The account of one open file.
pub trait FileCharges: Send {
    /// Bytes were copied out of the file.
    fn read(&mut self, range: Range<u64>);

    /// Bytes were copied into the file.
    fn copied(&mut self, range: Range<u64>);

    /// The file was synced: the ranges that were written since the last sync, none twice, are
    /// flushed.
    fn synced(&mut self, ranges: &[Range<u64>]);
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
    fn read(&mut self, range: Range<u64>) {
        self.region
            .load(self.part, range.start, range.end - range.start);
    }

    fn copied(&mut self, range: Range<u64>) {
        self.region
            .store(self.part, range.start, range.end - range.start);
    }

    fn synced(&mut self, ranges: &[Range<u64>]) {
        for range in ranges {
            self.region
                .flush(self.part, range.start, range.end - range.start);
        }
        self.region.fence();
    }
}

/// Whether imitated devices delay anything, for all that were made with it or a clone of it. They do unless they are told not to: a database need not be
/// loaded at the speed at which it is to be measured.
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
    /// When the channel has transferred everything.
    channel_free_ns: Mutex<u64>,
    injected_ns: AtomicU64,
}

impl Device {
    /// Waits for the transfer of `bytes` after what is under way, and then for `latency_ns`.
    fn charge(&self, latency_ns: u64, bytes: u64) {
        let transfer_ns = self.profile.bandwidth.map_or(0, |bandwidth| {
            (u128::from(bytes) * 1_000_000_000 / u128::from(bandwidth)) as u64
        });
        if latency_ns == 0 && transfer_ns == 0 || !self.delays.0.load(Ordering::Relaxed) {
            return;
        }
        let now_ns = self.clock.now_ns();
        let free_ns = {
            let mut channel = self
                .channel_free_ns
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *channel = now_ns.max(*channel) + transfer_ns;
            *channel
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
            channel_free_ns: Mutex::new(0),
            injected_ns: AtomicU64::new(0),
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

    /// Time that the profile added so far, in ns. What a sink adds is counted there.
    pub fn injected_ns(&self) -> u64 {
        self.device.injected_ns.load(Ordering::Relaxed)
    }

    fn wrap(&self, name: &str, inner: D::File) -> Result<EmulatedFile<D::File>> {
        let account = match &self.sink {
            Some(sink) => Some(Arc::new(Mutex::new(Account {
                charges: sink.open(name)?,
                unsynced: Vec::new(),
            }))),
            None => None,
        };
        Ok(EmulatedFile {
            inner,
            device: Arc::clone(&self.device),
            account,
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

    fn sync(&self, site: &'static Site) -> Result<()> {
        self.inner.sync(site)?;
        self.device.charge(self.device.profile.sync_ns, 0);
        Ok(())
    }

    fn counters(&self) -> DiskCounters {
        self.inner.counters()
    }
}

/// An open file of an imitated device.
pub struct EmulatedFile<F: File> {
    inner: F,
    device: Arc<Device>,
    account: Option<Arc<Mutex<Account>>>,
}

impl<F: File> EmulatedFile<F> {
    /// The account, which all handles that were made of one have together.
    fn account(&self) -> Option<MutexGuard<'_, Account>> {
        let account = self.account.as_ref()?;
        Some(account.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A file's account with a sink, and what the next sync has to flush.
struct Account {
    charges: Box<dyn FileCharges>,
    unsynced: Vec<Range<u64>>,
}

impl Account {
    fn copied(&mut self, range: Range<u64>) {
        self.charges.copied(range.clone());
        match self.unsynced.last_mut() {
            // Appends, the usual case, stay one range.
            Some(last) if last.start <= range.start && range.start <= last.end => {
                last.end = last.end.max(range.end);
            }
            _ => self.unsynced.push(range),
        }
    }

    fn cut(&mut self, bytes: u64) {
        self.unsynced.retain_mut(|range| {
            range.end = range.end.min(bytes);
            range.start < range.end
        });
    }

    fn synced(&mut self) {
        self.unsynced.sort_unstable_by_key(|range| range.start);
        self.unsynced.dedup_by(|next, kept| {
            let joined = next.start <= kept.end;
            if joined {
                kept.end = kept.end.max(next.end);
            }
            joined
        });
        self.charges.synced(&self.unsynced);
        self.unsynced.clear();
    }
}

impl<F: File> File for EmulatedFile<F> {
    fn reader(&self) -> Result<Self> {
        Ok(Self {
            inner: self.inner.reader()?,
            device: Arc::clone(&self.device),
            account: self.account.clone(),
        })
    }

    fn bytes(&self) -> Result<u64> {
        self.inner.bytes()
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, out)?;
        let bytes = out.len() as u64;
        self.device.charge(self.device.profile.read_ns, bytes);
        if let Some(mut account) = self.account() {
            account.charges.read(offset..offset + bytes);
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.inner.write_at(offset, data)?;
        let bytes = data.len() as u64;
        self.device.charge(self.device.profile.write_ns, bytes);
        if let Some(mut account) = self.account() {
            account.copied(offset..offset + bytes);
        }
        Ok(())
    }

    fn set_bytes(&mut self, bytes: u64) -> Result<()> {
        self.inner.set_bytes(bytes)?;
        if let Some(mut account) = self.account() {
            account.cut(bytes);
        }
        Ok(())
    }

    fn sync(&mut self, site: &'static Site) -> Result<()> {
        self.inner.sync(site)?;
        self.device.charge(self.device.profile.sync_ns, 0);
        if let Some(mut account) = self.account() {
            account.synced();
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
