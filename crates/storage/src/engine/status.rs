//! Counts of an engine since it was opened, for reports and measurements.
//!
//! Each engine fills in those of the parts that it has; the others stay zero. Counts of partitions
//! and of memories are added up.

use std::ops::AddAssign;

/// Counts since the engine was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineStatus {
    /// Counts of the memory devices, durable and volatile ones together.
    pub memory: pmem::Counters,
    /// Counts of the files.
    pub disk: disk::DiskCounters,
    /// Transactions that recovery undid when the engine was opened.
    pub recovery_undone: u64,
    /// Bytes of DRAM that hints take, which say where rows lie; in `nvm-inp`.
    pub hint_bytes: u64,
    /// Writes of the most written line of the log since the engine was opened, where a log in
    /// durable memory spreads them over a region, and they have come around often; 0 elsewhere.
    pub log_line_writes: f64,
    /// Transactions that recovery replayed when the engine was opened.
    pub recovery_replayed: u64,
    /// Log records that were made durable, by whom; where a log in durable memory counts them.
    pub log_persisted: Persisted,
    /// Counts of the area of page copies, where pages stay in it.
    pub area: AreaCounters,
    /// Bytes of pages that were written, by where they went; nothing where pages lie in durable
    /// memory.
    pub pages: PageWrites,
    /// Checkpoints, by who has written them; in page methods.
    pub checkpoints: CheckpointCounters,
}

/// Records that were made durable, by the daemon and by sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Persisted {
    /// By the daemon, while their transactions went on.
    pub ahead: u64,
    /// By sessions: as they were inserted, by a commit, or by a checkpoint.
    pub by_sessions: u64,
}

impl AddAssign for Persisted {
    fn add_assign(&mut self, other: Self) {
        self.ahead += other.ahead;
        self.by_sessions += other.by_sessions;
    }
}

/// Bytes of pages that were written, by where they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageWrites {
    /// To their places in the file.
    pub home_bytes: u64,
    /// To a doublewrite area in a file.
    pub copy_bytes: u64,
    /// To an area in durable memory.
    pub area_bytes: u64,
    /// Pages that sessions have written one by one, each with two syncs that the session waited
    /// for, or with one where there is no area.
    pub single_pages: u64,
}

impl AddAssign for PageWrites {
    fn add_assign(&mut self, more: Self) {
        self.home_bytes += more.home_bytes;
        self.copy_bytes += more.copy_bytes;
        self.area_bytes += more.area_bytes;
        self.single_pages += more.single_pages;
    }
}

/// Counters of an area in durable memory where pages stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaCounters {
    /// Pages that were read from the area, without a call to the file.
    pub pages_from_area: u64,
    /// Pages that were put into it.
    pub pages_put: u64,
    /// Slots that became free since a newer version was put.
    pub holes_reclaimed: u64,
    /// Pages that were written home.
    pub home_writes: u64,
    /// Syncs after them.
    pub home_syncs: u64,
    /// Batches written home by threads that were to write other pages, since no slot was free.
    pub flights_by_writers: u64,
    /// Batches that were slowed down, since few slots were free.
    pub slowed: u64,
    /// Slots, and those in use.
    pub slots: u64,
    /// Those in use.
    pub slots_used: u64,
}

impl AddAssign for AreaCounters {
    fn add_assign(&mut self, more: Self) {
        self.pages_from_area += more.pages_from_area;
        self.pages_put += more.pages_put;
        self.holes_reclaimed += more.holes_reclaimed;
        self.home_writes += more.home_writes;
        self.home_syncs += more.home_syncs;
        self.flights_by_writers += more.flights_by_writers;
        self.slowed += more.slowed;
        self.slots += more.slots;
        self.slots_used += more.slots_used;
    }
}

/// Checkpoints since the opening, by who has written them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointCounters {
    /// By the thread, while sessions went on.
    pub in_background: u64,
    /// By those who needed or wanted one, and waited for it.
    pub by_sessions: u64,
    /// Times that a session has waited for the thread, at the end of a transaction.
    pub waits: u64,
}

impl AddAssign for CheckpointCounters {
    fn add_assign(&mut self, more: Self) {
        self.in_background += more.in_background;
        self.by_sessions += more.by_sessions;
        self.waits += more.waits;
    }
}
