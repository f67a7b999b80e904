//! Files on one of two devices, as [`pmem::Either`] has memories on one of them.
//!
//! A directory and all its files are on the same device. The choice is made when the directory is
//! opened.

use crate::{Directory, DiskCounters, File, Result};
use pmem::{Either, Site};

/// Calls the same method on the variant at hand.
macro_rules! of_either {
    ($either:expr, $device:ident => $call:expr) => {
        match $either {
            Either::First($device) => $call,
            Either::Second($device) => $call,
        }
    };
}

impl<A: Directory, B: Directory> Directory for Either<A, B> {
    type File = Either<A::File, B::File>;

    fn create(&self, name: &str) -> Result<Self::File> {
        self.each(|a| a.create(name), |b| b.create(name))
    }

    fn open(&self, name: &str) -> Result<Self::File> {
        self.each(|a| a.open(name), |b| b.open(name))
    }

    fn list(&self) -> Result<Vec<String>> {
        of_either!(self, directory => directory.list())
    }

    fn exists(&self, name: &str) -> Result<bool> {
        of_either!(self, directory => directory.exists(name))
    }

    fn remove(&self, name: &str) -> Result<()> {
        of_either!(self, directory => directory.remove(name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        of_either!(self, directory => directory.rename(from, to))
    }

    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        of_either!(self, directory => directory.rename_new(from, to))
    }

    fn sync(&self, site: &'static Site) -> Result<()> {
        of_either!(self, directory => directory.sync(site))
    }

    fn counters(&self) -> DiskCounters {
        of_either!(self, directory => directory.counters())
    }
}

impl<A: File, B: File> File for Either<A, B> {
    fn reader(&self) -> Result<Self> {
        self.each(A::reader, B::reader)
    }

    fn bytes(&self) -> Result<u64> {
        of_either!(self, file => file.bytes())
    }

    #[inline(never)]
    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> Result<()> {
        of_either!(self, file => file.read_at(offset, out))
    }

    #[inline(never)]
    fn will_read(&self, offset: u64, bytes: u64) {
        of_either!(self, file => file.will_read(offset, bytes));
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        of_either!(self, file => file.write_at(offset, data))
    }

    fn write_each(&mut self, writes: &[(u64, &[u8])]) -> Result<()> {
        of_either!(self, file => file.write_each(writes))
    }

    fn is_direct(&self) -> bool {
        of_either!(self, file => file.is_direct())
    }

    fn set_bytes(&mut self, bytes: u64) -> Result<()> {
        of_either!(self, file => file.set_bytes(bytes))
    }

    fn sync(&mut self, site: &'static Site) -> Result<()> {
        of_either!(self, file => file.sync(site))
    }
}
