//! The present moment, as values of times have it.
//!
//! It is the clock of the system, which may be set back.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds from 1970-01-01 to 2000-01-01.
const EPOCH_SECONDS: i64 = 946_684_800;

/// The present moment in microseconds since 2000-01-01 UTC.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros() as i64);
    micros - EPOCH_SECONDS * 1_000_000
}
