//! Pages: the unit in which the page engine reads, latches, writes and recovers.
//!
//! A page is an array of bytes with a header ([`header`]). Its content changes only by the
//! operations of [`op`], which the log has as well: a change is encoded first, then applied from
//! its encoding, so recovery repeats exactly the operations that were applied. [`slotted`] reads
//! trees' pages; [`draft`] makes a change in a copy of a page that must not change yet.

pub mod draft;
pub mod header;
pub mod op;
pub mod record;
pub mod slotted;

pub use draft::Draft;
pub use header::{Header, PAGE_BYTES, PageKind};
pub use op::{Misfit, PageOp, Section};
pub use record::{Head, KeyOf, TxnId, Undo, UndoEntries};
pub use slotted::{Cell, Slotted};
pub use storage::engine::PageId;
