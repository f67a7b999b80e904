//! A partition with the thread that cleans its pages.
//!
//! All sessions have it together. When the last one goes, the thread ends first and then what they share, so the files are closed and the log is
//! ended in order by the time that the engine is dropped.

use super::shared::Shared;
use crate::buffer::Cleaning;
use crate::engine::EngineOptions;
use crate::platform::Platform;
use pmem::Access;
use std::ops::Deref;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A partition that is open.
pub(super) struct Running<P: Platform> {
    shared: Arc<Shared<P>>,
    cleaner: Option<JoinHandle<()>>,
}

impl<P: Platform> Running<P> {
    pub(super) fn start(shared: Shared<P>, options: &EngineOptions) -> Self {
        let shared = Arc::new(shared);
        let is_cleaned = options.cleaning == Cleaning::InBackground;
        let cleaner = (is_cleaned && options.access == Access::Write).then(|| {
            let shared = Arc::clone(&shared);
            let thread = Builder::new().name(format!("cleaner-{}", options.partition));
            // Where no thread can be had, sessions write their pages themselves.
            thread.spawn(move || shared.pages.pool.clean()).ok()
        });
        Self {
            shared,
            cleaner: cleaner.flatten(),
        }
    }
}

impl<P: Platform> Deref for Running<P> {
    type Target = Shared<P>;

    #[inline]
    fn deref(&self) -> &Shared<P> {
        &self.shared
    }
}

impl<P: Platform> Drop for Running<P> {
    fn drop(&mut self) {
        if let Some(cleaner) = self.cleaner.take() {
            self.shared.pages.pool.end_cleaning();
            // If it has panicked, sessions have done its work.
            let _ = cleaner.join();
        }
    }
}
