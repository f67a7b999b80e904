//! One of two devices, chosen when it is made.
//!
//! Code that is generic over devices is compiled once for both, and branches on the variant at each
//! call. That suits devices whose work costs far more than this branch, the emulated and the
//! simulated one; the native device is a type of its own. Calls with a real cost are not inlined,
//! or the bodies of both devices would be copied to each of thousands of places.

use super::{Access, Counters, Domain, Memory, MemorySource, Part, Site, View};
use crate::error::Result;
use std::ptr::NonNull;

/// One of two devices, or of their sources or files.
#[derive(Clone, Copy, Debug)]
pub enum Either<A, B> {
    /// The first.
    First(A),
    /// The second.
    Second(B),
}

/// Calls the same method on the variant at hand.
macro_rules! of_either {
    ($either:expr, $device:ident => $call:expr) => {
        match $either {
            Either::First($device) => $call,
            Either::Second($device) => $call,
        }
    };
}

// SAFETY: every method is that of the memory inside, which keeps the promises; it cannot be
// exchanged.
unsafe impl<A: Memory, B: Memory> Memory for Either<A, B> {
    #[inline]
    fn base(&self) -> NonNull<u8> {
        of_either!(self, memory => memory.base())
    }

    #[inline]
    fn bytes(&self) -> u64 {
        of_either!(self, memory => memory.bytes())
    }

    fn grow(&mut self, bytes: u64) -> Result<()> {
        of_either!(self, memory => memory.grow(bytes))
    }

    #[inline(never)]
    fn load(&self, offset: u64, bytes: usize) {
        of_either!(self, memory => memory.load(offset, bytes));
    }

    fn counts_loads(&self) -> bool {
        of_either!(self, memory => memory.counts_loads())
    }

    fn load_each(&self, ranges: &mut dyn Iterator<Item = (u64, usize)>) {
        of_either!(self, memory => memory.load_each(ranges));
    }

    #[inline(never)]
    fn prefetch(&self, offset: u64, bytes: usize) {
        of_either!(self, memory => memory.prefetch(offset, bytes));
    }

    #[inline(never)]
    fn store(&mut self, offset: u64, data: &[u8]) {
        of_either!(self, memory => memory.store(offset, data));
    }

    #[inline(never)]
    fn store_word(&mut self, offset: u64, value: u64) {
        of_either!(self, memory => memory.store_word(offset, value));
    }

    #[inline(never)]
    fn stream(&mut self, offset: u64, data: &[u8], site: &'static Site) {
        of_either!(self, memory => memory.stream(offset, data, site));
    }

    #[inline(never)]
    fn store_line(&mut self, offset: u64, line: &[u8; 64], site: &'static Site) {
        of_either!(self, memory => memory.store_line(offset, line, site));
    }

    fn stores_lines_at_once(&self) -> bool {
        of_either!(self, memory => memory.stores_lines_at_once())
    }

    #[inline(never)]
    fn flush(&mut self, offset: u64, bytes: usize, site: &'static Site) {
        of_either!(self, memory => memory.flush(offset, bytes, site));
    }

    #[inline(never)]
    fn fence(&mut self, site: &'static Site) -> Result<()> {
        of_either!(self, memory => memory.fence(site))
    }

    #[inline(never)]
    fn enter(&self, part: Part) {
        of_either!(self, memory => memory.enter(part));
    }

    fn counters(&self) -> Counters {
        of_either!(self, memory => memory.counters())
    }

    fn domain(&self) -> Domain {
        of_either!(self, memory => memory.domain())
    }

    unsafe fn share(&self) -> Result<Self> {
        // SAFETY: the caller promises the same of the memory inside.
        self.each(|a| unsafe { a.share() }, |b| unsafe { b.share() })
    }

    fn share_for_flushes(&self) -> Result<Self> {
        self.each(A::share_for_flushes, B::share_for_flushes)
    }

    fn view(&self) -> Result<View> {
        of_either!(self, memory => memory.view())
    }
}

impl<A: MemorySource, B: MemorySource> MemorySource for Either<A, B> {
    type Memory = Either<A::Memory, B::Memory>;

    fn create(&self, name: &str, bytes: u64) -> Result<Self::Memory> {
        self.each(|a| a.create(name, bytes), |b| b.create(name, bytes))
    }

    fn open(&self, name: &str, access: Access) -> Result<Self::Memory> {
        self.each(|a| a.open(name, access), |b| b.open(name, access))
    }

    fn remove(&self, name: &str) -> Result<()> {
        of_either!(self, source => source.remove(name))
    }

    fn volatile(&self, bytes: u64) -> Result<Self::Memory> {
        self.each(|a| a.volatile(bytes), |b| b.volatile(bytes))
    }
}

impl<A, B> Either<A, B> {
    /// The result of the one or the other call, as one of two again.
    pub fn each<X, Y, E>(
        &self,
        first: impl FnOnce(&A) -> Result<X, E>,
        second: impl FnOnce(&B) -> Result<Y, E>,
    ) -> Result<Either<X, Y>, E> {
        Ok(match self {
            Self::First(a) => Either::First(first(a)?),
            Self::Second(b) => Either::Second(second(b)?),
        })
    }
}
