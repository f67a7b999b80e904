//! The axes of the page engine as options: any combination that makes sense, published or not.
//!
//! They replace `--method`; an axis that is left out has the choice that works on every disk.

use crate::failure::Usage;
use anyhow::Result;
use clap::Args;
use indelible::{Guard, LogKind, Method, PageAxes, PagesKind};

/// The names of its options, which take the place of a method.
pub(crate) const AXES: [&str; 3] = ["pages", "log", "guard"];

/// One choice an axis.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AxesArgs {
    /// Instead of a method: where pages are, ssd (a file behind a buffer pool, the default) or nvm
    /// (durable memory)
    #[arg(long, value_name = "PLACE")]
    pub(crate) pages: Option<PagesKind>,
    /// Instead of a method: where the log is, central, decentralized (files), per-transaction,
    /// distributed (durable memory) or volatile (batches); by default central, with pages in nvm
    /// per-transaction
    #[arg(long, value_name = "DESIGN")]
    pub(crate) log: Option<LogKind>,
    /// Instead of a method: what guards the writing of pages, dwb-off, dwb-off-batched, dwb,
    /// dwb-batched, full-page-writes (the default), nvm-dwb or nvm-dwb-log-opt; with pages in nvm
    /// before-images
    #[arg(long, value_name = "GUARD")]
    pub(crate) guard: Option<Guard>,
}

impl AxesArgs {
    /// The method that was asked for in this way, if one was.
    pub(crate) fn method(&self) -> Result<Option<Method>> {
        if let (None, None, None) = (self.pages, self.log, self.guard) {
            return Ok(None);
        }
        let pages = self.pages.unwrap_or(PagesKind::Ssd);
        let (log, guard) = match pages {
            PagesKind::Ssd => (LogKind::Central, Guard::FullPageWrites),
            PagesKind::Nvm => (LogKind::PerTransaction, Guard::BeforeImages),
        };
        let axes = PageAxes {
            pages,
            log: self.log.unwrap_or(log),
            guard: self.guard.unwrap_or(guard),
        };
        axes.method().map(Some).map_err(Usage::error)
    }
}
