//! The options that only some methods take.
//!
//! The families of methods overlap in what they take: `nvwal` has frames like the page methods and
//! no sessions, `log` has a MemTable like `nvm-log` and a log like `inp`. So each option says which
//! methods take it, here and nowhere else, for the library and for the arguments of programs.

use crate::error::{Error, Result};
use disk::IoMode;
use pmem::PowerFailAtomicity;
use std::path::PathBuf;
use storage::engine::{
    CommitOrder, EngineOptions, FenceOrder, HeaderImages, Locking, LogImages, LogKind, Method,
    Persist,
};

/// An option that only some methods take, with its value. The setters of
/// [`Options`](crate::Options) with the same names say more.
#[derive(Clone, Debug)]
pub enum MethodOption {
    /// Order of durable steps.
    Fences(FenceOrder),
    /// Bytes that the platform promises to survive a power cut whole.
    PowerFailAtomicity(PowerFailAtomicity),
    /// Most bytes of DRAM for the keys of slotted pages.
    OutlineBytes(usize),
    /// Form of headers in the log of slotted pages.
    HeaderImages(HeaderImages),
    /// Most bytes of DRAM for hints, which say where rows lie.
    HintBytes(u64),
    /// Bytes of durable memory over which commit records rotate.
    RotationBytes(u64),
    /// Bytes of changes after which a MemTable is full.
    MemtableBytes(u64),
    /// Ratio of the sizes of adjacent levels of a log-structured tree.
    GrowthFactor(u32),
    /// Bytes of the page cache of a copy-on-write tree in a file.
    PageCacheBytes(usize),
    /// Images of a changed row in a write-ahead log of rows.
    LogImages(LogImages),
    /// Bytes of a buffer pool, or of the frames of slotted pages in a file.
    BufferBytes(u64),
    /// Transfers of pages between their file and a buffer pool.
    Io(IoMode),
    /// Bytes of a log in durable memory, or of a batch.
    RingBytes(u64),
    /// Rings of a log that sessions share.
    Rings(u32),
    /// The step at which a log record becomes durable.
    Persist(Persist),
    /// Whether a commit waits for the earlier records of other sessions.
    CommitOrder(CommitOrder),
    /// Manners of locks.
    Locking(Locking),
    /// Bytes of durable memory for copies of pages.
    AreaBytes(u64),
    /// Directory of the log.
    LogDirectory(PathBuf),
    /// Directory of log records that recovery no longer needs.
    Archive(PathBuf),
    /// Transactions that may be open at once in a partition.
    Sessions(u32),
}

impl MethodOption {
    /// The name of its setter, and the part that a method which takes it has.
    fn words(&self) -> (&'static str, &'static str) {
        match self {
            Self::Fences(_) => ("fences", "fences to order"),
            Self::PowerFailAtomicity(_) => {
                ("power_fail_atomicity", "use of more than 8 bytes at once")
            }
            Self::OutlineBytes(_) => ("outline_bytes", "slotted pages in durable memory"),
            Self::HeaderImages(_) => ("header_images", "slotted pages with headers to log"),
            Self::HintBytes(_) => ("hint_bytes", "hints where rows lie"),
            Self::RotationBytes(_) => ("rotation_bytes", "commit records that move on"),
            Self::MemtableBytes(_) => ("memtable_bytes", "MemTable"),
            Self::GrowthFactor(_) => ("growth_factor", "levels of runs"),
            Self::PageCacheBytes(_) => ("page_cache_bytes", "page cache of a copy-on-write tree"),
            Self::LogImages(_) => ("log_images", "write-ahead log of rows in files"),
            Self::BufferBytes(_) => ("buffer_bytes", "buffer pool"),
            Self::Io(_) => ("io", "pages in files to be read directly"),
            Self::RingBytes(_) => ("ring_bytes", "log in rings of durable memory"),
            Self::Rings(_) => ("rings", "rings that sessions share"),
            Self::Persist(_) => ("persist", "choice of when a log record becomes durable"),
            Self::CommitOrder(_) => ("commit_order", "log of its own for each session"),
            Self::Locking(_) => ("locking", "locks that are kept between transactions"),
            Self::AreaBytes(_) => ("area_bytes", "area for copies of pages in durable memory"),
            Self::LogDirectory(_) => ("log_directory", "log apart from its data"),
            Self::Archive(_) => ("archive", "log of which there is something to archive"),
            Self::Sessions(_) => ("sessions", "sessions in a partition"),
        }
    }

    /// Whether the method takes it.
    pub fn fits(&self, method: Method) -> bool {
        let log = method.axes().map(|axes| axes.log);
        match self {
            Self::Fences(_) => matches!(method, Method::NvmInp | Method::NvmLog),
            Self::RotationBytes(_) => matches!(
                method,
                Method::NvmInp | Method::NvmLog | Method::Fash | Method::Fast
            ),
            Self::PowerFailAtomicity(_) => method == Method::Fast,
            Self::OutlineBytes(_) => matches!(method, Method::Fash | Method::Fast),
            Self::HeaderImages(_) => matches!(method, Method::Fash | Method::Fast),
            Self::HintBytes(_) => method == Method::NvmInp,
            Self::MemtableBytes(_) | Self::GrowthFactor(_) => {
                matches!(method, Method::Log | Method::NvmLog)
            }
            Self::PageCacheBytes(_) => method == Method::Cow,
            Self::LogImages(_) => method.has_log_images(),
            Self::BufferBytes(_) => method.has_buffer_pool() || method.has_frames(),
            Self::Io(_) | Self::LogDirectory(_) | Self::Archive(_) => method.has_buffer_pool(),
            Self::RingBytes(_) => {
                method.has_rings() || method == Method::GroupCommit || method.has_frames()
            }
            Self::Rings(_) => log == Some(LogKind::Distributed),
            Self::Persist(_) | Self::CommitOrder(_) => {
                log == Some(LogKind::PerTransaction) && method.has_buffer_pool()
            }
            Self::AreaBytes(_) => method.has_area(),
            Self::Sessions(_) => method.is_paged(),
            // A batch waits for its transactions, some of which wait for locks.
            Self::Locking(_) => method.is_paged() && method != Method::GroupCommit,
        }
    }

    /// Whether it asks for the behaviour of methods without it, so that each of them accepts it.
    fn is_neutral(&self) -> bool {
        matches!(
            self,
            Self::Fences(FenceOrder::Single)
                | Self::PowerFailAtomicity(PowerFailAtomicity::Word)
                | Self::LogImages(LogImages::After)
                | Self::HeaderImages(HeaderImages::Shortest)
                | Self::Io(IoMode::Buffered)
                | Self::Persist(Persist::OnInsert)
                | Self::CommitOrder(CommitOrder::Whole)
                | Self::Locking(Locking::Optimised)
                | Self::Sessions(1)
                | Self::HintBytes(0)
        )
    }

    /// Fails if it has no effect on any of the methods. In a comparison, the methods that take it
    /// use it.
    pub fn check_for(&self, methods: &[Method]) -> Result<()> {
        if self.is_neutral() || methods.iter().any(|method| self.fits(*method)) {
            return Ok(());
        }
        let list = |methods: &mut dyn Iterator<Item = Method>| {
            let names: Vec<_> = methods.map(|method| format!("`{method}`")).collect();
            names.join(", ")
        };
        let (option, part) = self.words();
        let problem = match methods {
            [] => format!("no method with a {part} runs"),
            [method] => format!("method `{method}` has no {part}"),
            _ => format!(
                "methods {} have no {part}",
                list(&mut methods.iter().copied())
            ),
        };
        let fitting = list(&mut Method::ALL.into_iter().filter(|method| self.fits(*method)));
        let remedy = format!("leave it out, or use method {fitting}");
        Err(Error::option(option, problem, remedy))
    }

    /// Puts it into the options of an engine. Sessions and the places of files are no matter of
    /// engines, and the order of fences is the recorded one.
    pub(super) fn apply(&self, engine: &mut EngineOptions) {
        match *self {
            Self::PowerFailAtomicity(atomicity) => engine.atomicity = atomicity,
            Self::OutlineBytes(bytes) => engine.outline_bytes = bytes,
            Self::HeaderImages(images) => engine.header_images = images,
            Self::HintBytes(bytes) => engine.hint_bytes = bytes,
            Self::RotationBytes(bytes) => engine.rotation_bytes = bytes,
            Self::MemtableBytes(bytes) => engine.memtable_bytes = bytes,
            Self::GrowthFactor(factor) => engine.growth_factor = factor,
            Self::PageCacheBytes(bytes) => engine.page_cache_bytes = bytes,
            Self::LogImages(images) => engine.log_images = images,
            Self::BufferBytes(bytes) => engine.buffer_bytes = bytes,
            Self::RingBytes(bytes) => engine.ring_bytes = bytes,
            Self::Rings(rings) => engine.rings = rings,
            Self::Persist(persist) => engine.persist = persist,
            Self::CommitOrder(order) => engine.commit_order = order,
            Self::Locking(locking) => engine.locking = locking,
            Self::AreaBytes(bytes) => engine.area_bytes = bytes,
            Self::Fences(_)
            | Self::Io(_)
            | Self::LogDirectory(_)
            | Self::Archive(_)
            | Self::Sessions(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_option_the_method_and_the_methods_that_take_it() {
        let option = MethodOption::MemtableBytes(1 << 20);
        let refused = |methods: &[Method]| option.check_for(methods).unwrap_err().to_string();
        let error = refused(&[Method::Inp]);
        for word in ["`memtable_bytes`", "`inp`", "`log`", "`nvm-log`"] {
            assert!(error.contains(word), "{word}: {error}");
        }
        assert!(refused(&[Method::Inp, Method::Cow]).contains("`inp`, `cow` have no MemTable"));
        assert!(option.check_for(&[Method::Inp, Method::NvmLog]).is_ok());
    }
}
