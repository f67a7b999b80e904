//! The handles that an engine holds: a [`Directory`] and its [`File`]s in a simulated world.
//!
//! Each call first asks whether a fault strikes, then reports the step to the world (a sync is a
//! crash point, a write is one where the world's options say so), then changes the disk. No lock is
//! held while the world's observer runs.

use super::disk::{DiskState, Outcome, SimulatedDisk};
use super::fault::{Call, Effect, Fault};
use super::operation::Change;
use crate::error::{DiskError, Result};
use crate::{Directory, DiskCounters, File};
use pmem::device::simulated::{CrashPoint, SimulatedWorld, SiteKind};
use pmem::{Access, Site};
use std::io::ErrorKind;
use std::sync::Arc;

/// A directory of a simulated world. Clones, and others made with the same name, see the same
/// files.
#[derive(Clone)]
pub struct SimulatedDirectory {
    world: SimulatedWorld,
    disk: Arc<SimulatedDisk>,
}

impl SimulatedDirectory {
    /// The unnamed directory of `world`, which is empty at first. Make it anew after the world
    /// became another image.
    pub fn new(world: &SimulatedWorld) -> Self {
        Self::named(world, "")
    }

    /// As [`SimulatedDirectory::new`], for one of several directories, such as one a partition.
    pub fn named(world: &SimulatedWorld, name: &str) -> Self {
        let mut disks = world.attachments::<SimulatedDisk>().into_iter();
        let disk = disks.find(|disk| disk.name == name).unwrap_or_else(|| {
            let disk = Arc::new(SimulatedDisk::new(name));
            world.attach(Arc::clone(&disk) as _);
            disk
        });
        Self {
            world: world.clone(),
            disk,
        }
    }

    /// Lets a later call fail. Faults stay with this world; images have none.
    pub fn inject(&self, fault: Fault) {
        self.disk.lock().faults.inject(fault);
    }

    /// Takes all faults back.
    pub fn heal(&self) {
        self.disk.lock().faults.clear();
    }

    /// Calls to the directory and its files so far: the range over which a test sweeps a fault.
    pub fn calls(&self) -> u64 {
        self.disk.lock().faults.calls()
    }

    /// Calls of one kind so far.
    pub fn calls_of(&self, call: Call) -> u64 {
        self.disk.lock().faults.calls_of(call)
    }

    /// Calls that an injected fault let fail, or that lied.
    pub fn strikes(&self) -> u64 {
        self.disk.lock().faults.strikes()
    }

    /// Limits the sum of all file lengths: a write beyond it stores the part that fits and fails.
    /// `None` lifts the limit.
    pub fn limit_space(&self, bytes: Option<u64>) {
        self.disk.lock().space_bytes = bytes;
    }

    /// Counts a call on a name; `Err` where a fault strikes.
    fn call(&self, action: &'static str, name: &str) -> Result<()> {
        match self.disk.lock().faults.strike(Call::Name) {
            Some(effect) => Err(failure(action, name, effect.kind())),
            None => Ok(()),
        }
    }

    fn handle(&self, name: &str, number: u64, state: &mut DiskState) -> SimulatedFile {
        state.file(number).handles += 1;
        let (world, disk) = (self.world.clone(), Arc::clone(&self.disk));
        SimulatedFile {
            world,
            disk,
            number,
            name: name.to_owned(),
            access: Access::Write,
            poisoned: false,
        }
    }
}

impl Directory for SimulatedDirectory {
    type File = SimulatedFile;

    fn create(&self, name: &str) -> Result<SimulatedFile> {
        self.call("create", name)?;
        if self.disk.lock().names.contains_key(name) {
            return Err(failure("create", name, ErrorKind::AlreadyExists));
        }
        self.world.before_store();
        let mut state = self.disk.lock();
        let number = state.create(name);
        Ok(self.handle(name, number, &mut state))
    }

    fn open(&self, name: &str) -> Result<SimulatedFile> {
        self.call("open", name)?;
        let mut state = self.disk.lock();
        let found = state.names.get(name).copied();
        let number = found.ok_or_else(|| failure("open", name, ErrorKind::NotFound))?;
        Ok(self.handle(name, number, &mut state))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.call("list", ".")?;
        Ok(self.disk.lock().names.keys().cloned().collect())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.call("look for", name)?;
        Ok(self.disk.lock().names.contains_key(name))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.call("remove", name)?;
        if !self.disk.lock().names.contains_key(name) {
            return Err(failure("remove", name, ErrorKind::NotFound));
        }
        self.world.before_store();
        self.disk.lock().change_names(vec![(name.to_owned(), None)]);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.call("rename", from)?;
        let found = self.disk.lock().names.get(from).copied();
        let number = found.ok_or_else(|| failure("rename", from, ErrorKind::NotFound))?;
        self.world.before_store();
        if from != to {
            let sets = vec![(from.to_owned(), None), (to.to_owned(), Some(number))];
            self.disk.lock().change_names(sets);
        }
        Ok(())
    }

    fn sync(&self, site: &'static Site) -> Result<()> {
        self.world.mark(CrashPoint::Sync(site));
        let mut state = self.disk.lock();
        state.counters.syncs += 1;
        let useful = state.has_name_changes();
        let effect = state.faults.strike(Call::Sync);
        if !self.world.execute(site, SiteKind::Sync, useful) {
            return Ok(());
        }
        let (outcome, result) = sync_outcome(effect, ".");
        if let Some(outcome) = outcome {
            state.settle_names(outcome);
        }
        result
    }

    fn counters(&self) -> DiskCounters {
        self.disk.lock().counters
    }
}

/// An open file of a simulated world.
pub struct SimulatedFile {
    world: SimulatedWorld,
    disk: Arc<SimulatedDisk>,
    number: u64,
    name: String,
    access: Access,
    poisoned: bool,
}

impl SimulatedFile {
    fn check_poison(&self) -> Result<()> {
        if self.access == Access::Read {
            return Err(DiskError::ReadOnly {
                path: self.name.as_str().into(),
            });
        }
        if self.poisoned {
            return Err(DiskError::Poisoned {
                path: self.name.as_str().into(),
            });
        }
        Ok(())
    }

    /// Writes without asking for faults, up to the limit of the disk.
    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.disk.lock();
        let bytes = state.file(self.number).live.bytes();
        let end = offset + data.len() as u64;
        let free = state
            .space_bytes
            .map(|limit| limit.saturating_sub(state.used_bytes()));
        let end_max = free.map_or(u64::MAX, |free| bytes + free);
        let fits = (end.min(end_max).saturating_sub(offset) as usize).min(data.len());
        if fits > 0 {
            let grows = offset + fits as u64 > bytes;
            let data = data[..fits].to_vec();
            state.counters.writes += 1;
            state.counters.bytes_written += fits as u64;
            state.change(
                self.number,
                Change::Write {
                    offset,
                    data,
                    grows,
                },
            );
        }
        if fits < data.len() {
            return Err(DiskError::OutOfSpace {
                path: self.name.as_str().into(),
                bytes: (data.len() - fits) as u64,
            });
        }
        Ok(())
    }
}

impl File for SimulatedFile {
    fn reader(&self) -> Result<Self> {
        self.disk.lock().file(self.number).handles += 1;
        Ok(Self {
            world: self.world.clone(),
            disk: Arc::clone(&self.disk),
            number: self.number,
            name: self.name.clone(),
            access: Access::Read,
            poisoned: false,
        })
    }

    fn bytes(&self) -> Result<u64> {
        let mut state = self.disk.lock();
        if let Some(effect) = state.faults.strike(Call::Read) {
            return Err(failure("measure", &self.name, effect.kind()));
        }
        state.note_length(self.number);
        Ok(state.file(self.number).live.bytes())
    }

    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut state = self.disk.lock();
        if let Some(effect) = state.faults.strike(Call::Read) {
            return Err(failure("read", &self.name, effect.kind()));
        }
        state.counters.reads += 1;
        state.counters.bytes_read += out.len() as u64;
        state.note_read(self.number, offset..offset.saturating_add(out.len() as u64));
        if state.file(self.number).live.read(offset, out) {
            Ok(())
        } else {
            Err(failure("read", &self.name, ErrorKind::UnexpectedEof))
        }
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.check_poison()?;
        let effect = self.disk.lock().faults.strike(Call::Write);
        self.world.before_store();
        match effect {
            None => self.write(offset, data),
            Some(effect) => {
                if matches!(effect, Effect::ShortWrite(_)) {
                    self.write(offset, &data[..data.len() / 2])?;
                }
                Err(failure("write", &self.name, effect.kind()))
            }
        }
    }

    fn set_bytes(&mut self, bytes: u64) -> Result<()> {
        self.check_poison()?;
        let effect = self.disk.lock().faults.strike(Call::Write);
        self.world.before_store();
        if let Some(effect) = effect {
            return Err(failure("set the length of", &self.name, effect.kind()));
        }
        let mut state = self.disk.lock();
        let before = state.file(self.number).live.bytes();
        let grown = bytes.saturating_sub(before);
        if state
            .space_bytes
            .is_some_and(|limit| grown > 0 && state.used_bytes() + grown > limit)
        {
            return Err(DiskError::OutOfSpace {
                path: self.name.as_str().into(),
                bytes: grown,
            });
        }
        state.counters.writes += 1;
        if bytes != before {
            state.change(self.number, Change::SetBytes(bytes));
        }
        Ok(())
    }

    fn sync(&mut self, site: &'static Site) -> Result<()> {
        self.check_poison()?;
        self.world.mark(CrashPoint::Sync(site));
        let mut state = self.disk.lock();
        state.counters.syncs += 1;
        let useful = state.is_unsynced(self.number);
        let effect = state.faults.strike(Call::Sync);
        if !self.world.execute(site, SiteKind::Sync, useful) {
            return Ok(());
        }
        let (outcome, result) = sync_outcome(effect, &self.name);
        if let Some(outcome) = outcome {
            state.settle(self.number, outcome);
        }
        self.poisoned = result.is_err();
        result
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        self.disk.lock().file(self.number).handles -= 1;
    }
}

/// The effect of a sync on the unsynced changes, and its answer to the caller.
fn sync_outcome(effect: Option<Effect>, name: &str) -> (Option<Outcome>, Result<()>) {
    let outcome = match effect {
        None => return (Some(Outcome::Durable), Ok(())),
        Some(Effect::SyncLies) => return (None, Ok(())),
        Some(Effect::SyncLost(_)) => Outcome::Lost,
        Some(Effect::SyncKept(_)) => Outcome::Durable,
        Some(Effect::Error(_) | Effect::ShortWrite(_)) => Outcome::Mixed,
    };
    let kind = effect.map_or(ErrorKind::Other, Effect::kind);
    (Some(outcome), Err(failure("sync", name, kind)))
}

/// The error of a kind; a full device has one of its own, as on the native device.
fn failure(action: &'static str, name: &str, kind: ErrorKind) -> DiskError {
    if kind == ErrorKind::StorageFull {
        return DiskError::OutOfSpace {
            path: name.into(),
            bytes: 0,
        };
    }
    DiskError::Io {
        action,
        path: name.into(),
        source: kind.into(),
    }
}
