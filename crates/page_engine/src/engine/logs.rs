//! The logs of partitions: a type for each kind, which makes and opens its log.
//!
//! | type | records are | of methods such as |
//! |---|---|---|
//! | [`Central`] | in files that all sessions append to | `full-page-writes`, `dwb` |
//! | [`Series`] | in files, a series a session | `nv-disk-decentralized` |
//! | [`Rings`] | in durable memory, in rings | `nv-logging`, `distributed-log`, `in-place` |
//! | [`Batches`] | in ordinary memory, while their transactions are open | `group-commit` |

mod batches;
mod central;
mod kind;
mod rings;
mod series;

pub(super) use self::kind::{Found, LogOf, Looker, NewResident, Site, file_options};

use self::batches::Batches;
use self::central::Central;
use self::rings::Rings;
use self::series::Series;
use storage::Platform;
use storage::engine::LogKind;

/// The type of a kind.
pub(super) fn log_of<P: Platform>(kind: LogKind) -> &'static dyn LogOf<P> {
    match kind {
        LogKind::Central => &Central,
        LogKind::Decentralized => &Series,
        LogKind::PerTransaction | LogKind::Distributed => &Rings,
        LogKind::Volatile => &Batches,
    }
}
