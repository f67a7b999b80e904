//! Goal: in no order of threads a record of a ring is reported durable, or is below the horizon,
//! while an earlier one is missing.
//!
//! Method: that of `horizon_schedules`, with rings of the threads' own, or two that they share.
//!
//! `cargo test -p page_engine --features schedules --lib schedule_tests`

use super::*;
use crate::buffer::horizon_schedules::{Kind, explore};
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::{SimulatedSource, SimulatedWorld};

type Log = NvLog<SimulatedSource, SimulatedDirectory>;

#[derive(Clone, Copy)]
struct RingKind(Rings, Persist);

impl Kind for RingKind {
    type StreamSource = RingStreams<SimulatedSource, SimulatedDirectory>;

    fn create(self, world: &SimulatedWorld) {
        Log::create(&world.source(), &options(self)).expect("there is space");
    }

    fn open(self, world: &SimulatedWorld) -> Log {
        let files = SimulatedDirectory::new(world);
        let opened = NvLog::open_rings(world.source(), files, options(self), Lsn::FIRST, None);
        opened.expect("what is durable can be opened")
    }
}

fn options(RingKind(rings, persist): RingKind) -> NvLogOptions {
    NvLogOptions {
        identity: LogIdentity {
            database: 7,
            partition: 1,
        },
        access: Access::Write,
        rings,
        ring_bytes: nv_ring::RING_BYTES_MIN,
        page_bytes: 0,
        persist,
        content: Content::Redo,
        order: CommitOrder::Whole,
    }
}

#[test]
fn the_horizon_has_no_gap_in_front_if_records_are_durable_at_once() {
    explore(RingKind(Rings::PerSession, Persist::OnInsert), 3);
}

#[test]
fn the_horizon_has_no_gap_in_front_if_records_wait_for_a_commit() {
    explore(RingKind(Rings::PerSession, Persist::OnCommit), 3);
}

#[test]
fn the_horizon_has_no_gap_in_front_if_sessions_share_rings() {
    explore(RingKind(Rings::Shared(2), Persist::OnCommit), 3);
}
