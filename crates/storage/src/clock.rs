//! The clock of commits, so that an archive of the log can be repeated up to a point in time.
//!
//! A commit reads its time before its record gets a place in the log. So after a commit is
//! acknowledged, any later time includes it: each earlier commit in the log had read its time
//! before that as well. Concurrent commits may be in the log in another order than their times, and
//! a clock may be set back; therefore the time *at* a position of the log is the latest one before
//! it.

use crate::record::Timestamp;
use crate::sync::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::SystemTime;

/// In front of this nothing was committed: where a commit's record has its time now, earlier
/// versions had small numbers.
const EARLIEST: Timestamp = Timestamp(1 << 48);

/// Source of the time of commits.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// They have none: on simulated and modelled devices each run is the same.
    #[default]
    None,
    /// From the system, at a reading of its clock a commit: 20 to 130 ns.
    System,
    /// From the driver of the engine, in microseconds since 1970.
    Set(Arc<AtomicU64>),
}

impl Clock {
    /// The time, if there is one.
    pub fn now(&self) -> Option<Timestamp> {
        let micros = match self {
            Self::None => return None,
            Self::System => {
                let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                u64::try_from(since.ok()?.as_micros()).ok()?
            }
            Self::Set(micros) => micros.load(Ordering::Relaxed),
        };
        decode(micros)
    }
}

/// A time as a record has it; zeros are none.
pub fn encode(time: Option<Timestamp>) -> u64 {
    time.map_or(0, |Timestamp(micros)| micros.cast_unsigned())
}

/// The time in a record, if it has one.
pub fn decode(micros: u64) -> Option<Timestamp> {
    let time = i64::try_from(micros).ok().map(Timestamp);
    time.filter(|time| *time >= EARLIEST)
}
