//! Giving the space of free pages back to the filesystem.
//!
//! Roots move first, as a change of definitions. Then, with the partition alone, all other pages
//! move that lie after the least end before which the pages in use fit (`paged/compact.rs`). A
//! checkpoint follows, so that no record is needed that names a page after the new end. Then both
//! master records promise no more pages than there will be, durably; and only then the file is cut.
//! A crash leaves the pages where they have moved, and the file as long as it was, or shorter: it
//! is good at each step.

use super::shared::Shared;
use super::{Paged, StorageError};
use crate::paged::compact::Compaction;
use storage::engine::Shrunk;
use storage::lock::Mode;
use storage::{Platform, Result};

impl<P: Platform> Paged<P> {
    /// Moves pages and cuts the file.
    pub(super) fn shrink_file(&mut self) -> Result<Shrunk> {
        let before_bytes = self.shared.pages.pool.file().bytes()?;
        self.free_dropped()?;
        let limit = self.shared.pages.least_end()?;
        if self.tables.trees().iter().any(|tree| tree.root >= limit) {
            self.define(|tables, pages, txn| tables.move_roots(pages, limit, txn))?;
            self.tables.reload(&self.shared.pages)?;
        }
        self.alone(Mode::Exclusive, |session| {
            let shared = &**session.shared;
            let mut compaction = Compaction {
                limit: shared.pages.least_end()?,
                session: session.session,
                make_room: &mut |error| shared.make_room(error),
            };
            for tree in session.tables.trees() {
                compaction.tree(&shared.pages, tree)?;
            }
            let end = shared.pages.drop_maps(session.session)?;
            shared.write_checkpoint()?;
            shared.move_cold()?;
            shared.durable_step(shared.pages.pool.log().give_up_spares())?;
            let mut file = shared.pages.pool.file();
            let cut = file.clear_area().and_then(|()| file.cut(end.0));
            let after_bytes = cut.and_then(|()| file.bytes());
            drop(file);
            Ok(Shrunk {
                before_bytes,
                after_bytes: shared.durable_step(after_bytes)?,
            })
        })
    }
}

impl<P: Platform> Shared<P> {
    /// Makes room in the log if that is due, or was found to be missing.
    fn make_room(&self, missing: Option<&StorageError>) -> Result<()> {
        if missing.is_none() {
            return self.checkpoint_if_due();
        }
        self.move_cold()?;
        self.write_checkpoint()?;
        self.move_cold()
    }
}
