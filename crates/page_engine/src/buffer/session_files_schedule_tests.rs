//! Goal: in no order of threads a record in a file is reported durable, or is below the horizon,
//! while an earlier one is missing; and a record appended while its file is synced takes no part in
//! that sync.
//!
//! Method: that of `horizon_schedules`, with a series a thread, and one of two threads.
//!
//! `cargo test -p page_engine --features schedules --lib schedule_tests`

use super::*;
use crate::buffer::horizon_schedules::{Kind, explore};
use disk::simulated::SimulatedDirectory;
use pmem::device::simulated::SimulatedWorld;

#[derive(Clone, Copy)]
struct Files;

impl Kind for Files {
    type StreamSource = SessionFiles<SimulatedDirectory>;

    fn create(self, _world: &SimulatedWorld) {}

    fn open(self, world: &SimulatedWorld) -> FilesLog<SimulatedDirectory> {
        let options = SessionFilesOptions {
            identity: LogIdentity {
                database: 7,
                partition: 1,
            },
            access: Access::Write,
            series: WalOptions {
                segment_bytes: 1 << 10,
                long_segment_bytes: 0,
                buffer_bytes_max: 512,
                spare_bytes_max: 0,
                reserve_bytes: 0,
            },
        };
        let files = SimulatedDirectory::new(world);
        let opened = FilesLog::open_files(files, options, Lsn::FIRST, None);
        opened.expect("what is durable can be opened")
    }
}

#[test]
fn the_horizon_has_no_gap_in_front_if_each_session_has_files() {
    explore(Files, 3);
}

#[test]
fn a_sync_makes_nothing_durable_that_was_appended_beside_it() {
    explore(Files, 2);
}
