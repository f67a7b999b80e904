//! The pages of new shared memory, before anybody stores to them.
//!
//! The first touch of a page of shared memory fills it with zeros, which takes as long as a short
//! transaction. Pages of 4 KiB also cost a dependent read a third of its time, because the
//! translation of an address that was not used lately misses as its bytes do. So new memory is
//! prepared ahead of its use, in pieces of a huge page. The kernel is asked to put a huge page
//! under a piece that nobody has touched (`MADV_COLLAPSE`, Linux 6.1), for which a tmpfs needs no
//! mount option and a process no right. That costs no more than to touch the piece's small pages,
//! which is the fallback without huge pages. A piece that was touched first by its user keeps small
//! pages: to copy them would take milliseconds, in which its user may have to wait.

use rustix::mm::Advice;
use std::ffi::{c_int, c_void};

/// Bytes of a piece: a huge page.
pub(super) const PIECE_BYTES: u64 = 2 << 20;
/// Bytes of a small page, at least.
const PAGE_BYTES: usize = 4096;

/// `MADV_COLLAPSE` and `mincore`, which rustix lacks.
mod system {
    use super::{c_int, c_void};

    pub(super) fn collapse(address: *mut c_void, length: usize) -> c_int {
        // SAFETY: no byte changes; the kernel refuses what is not mapped or not aligned.
        unsafe { libc::madvise(address, length, libc::MADV_COLLAPSE) }
    }

    pub(super) fn residence(address: *mut c_void, length: usize, pages: &mut [u8]) -> c_int {
        assert!(pages.len() >= length.div_ceil(super::PAGE_BYTES));
        // SAFETY: the answer takes a byte a page, which `pages` has; the memory itself is not
        // accessed.
        unsafe { libc::mincore(address, length, pages.as_mut_ptr()) }
    }
}

/// The ends of the pieces of `first..end`, cut where a huge page can begin.
pub(super) fn pieces(first: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = first;
    std::iter::from_fn(move || {
        let from = at;
        at = (from + 1).next_multiple_of(PIECE_BYTES).min(end);
        (from < end).then_some((from, at))
    })
}

/// Prepares a piece at `address`. Returns whether the kernel can; if it cannot (before Linux 5.14),
/// the first store does it.
///
/// # Safety
/// The piece must be mapped, for reading and writing, and stay so meanwhile.
pub(super) unsafe fn make_ready(address: *mut c_void, length: usize) -> bool {
    let is_whole = length as u64 == PIECE_BYTES;
    if is_whole && is_untouched(address, length) && system::collapse(address, length) == 0 {
        return true;
    }
    // SAFETY: the caller keeps the range mapped; no byte of it changes.
    unsafe { rustix::mm::madvise(address, length, Advice::LinuxPopulateWrite) }.is_ok()
}

/// Whether no page of the range has been touched since its space was allocated.
fn is_untouched(address: *mut c_void, length: usize) -> bool {
    let mut pages = [0; PIECE_BYTES as usize / PAGE_BYTES];
    let answer = system::residence(address, length, &mut pages);
    answer == 0 && pages.iter().all(|page| page & 1 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Memory, NativeMemory, PageSize};

    #[test]
    fn pieces_are_cut_where_huge_pages_begin() {
        let piece = PIECE_BYTES;
        let cut = |first, end| pieces(first, end).collect::<Vec<_>>();
        assert_eq!(cut(0, 2 * piece), [(0, piece), (piece, 2 * piece)]);
        assert_eq!(
            cut(4096, 2 * piece + 4096),
            [
                (4096, piece),
                (piece, 2 * piece),
                (2 * piece, 2 * piece + 4096)
            ]
        );
        assert_eq!(cut(piece, piece), []);
    }

    #[test]
    fn a_piece_is_there_in_whole_and_what_was_stored_in_it_stays() {
        let piece = PIECE_BYTES as usize;
        let mut memory = NativeMemory::volatile(2 * PIECE_BYTES, PageSize::Base).unwrap();
        memory.store(PIECE_BYTES + 5000, &[7; 100]);
        let start: *mut u8 = memory.base().as_ptr();
        let untouched = [0, piece].map(|at| is_untouched(start.wrapping_add(at).cast(), piece));
        assert_eq!(untouched, [true, false]);
        for at in [0, piece] {
            let address = start.wrapping_add(at).cast();
            // SAFETY: the memory is mapped, for writing, and lives to the end of the test.
            assert!(unsafe { make_ready(address, piece) });
            let mut pages = [0; PIECE_BYTES as usize / PAGE_BYTES];
            assert_eq!(system::residence(address, piece, &mut pages), 0);
            assert!(pages.iter().all(|page| page & 1 == 1), "the piece at {at}");
        }
        // SAFETY: as above; nobody stores meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(start, 2 * piece) };
        let stored = piece + 5000..piece + 5100;
        for (at, &byte) in bytes.iter().enumerate() {
            assert_eq!(byte, if stored.contains(&at) { 7 } else { 0 }, "byte {at}");
        }
    }
}
