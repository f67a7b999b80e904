//! Goal: every method does the same, and keeps it over restarts.
//!
//! Method: each script of `crates/storage/testscripts/behaviour` runs on every method, with both
//! tuple layouts, on the simulated and the native device, as it stands and with a power cut after
//! each command outside of a transaction. The output must be the file's in all of them. Without
//! `LONG_TESTS` it is half of these settings, among which each two of a layout, a device and a kind
//! of restarts come together. `UPDATE_SCRIPTS=1` rewrites the files.

use storage::engine::{EngineOptions, Method};
use storage::record::LayoutKind;
use tests::place::{Device, Place, small_engine};
use tests::script::{Script, scripts, update_wanted};
use tests::session::{Restarts, Session};

const LAYOUTS: [LayoutKind; 2] = [LayoutKind::Together, LayoutKind::Separate];
/// Small, so that scripts make pools grow and use space again.
const POOL_BYTES: u64 = 256 << 10;
/// Small, so that scripts come to new log segments and checkpoints.
const LOG_BYTES: u64 = 256 << 10;
/// Small, so that scripts come to merges of several levels.
const MEMTABLE_BYTES: u64 = 4 << 10;
const RESTARTS: [Restarts; 2] = [Restarts::Scripted, Restarts::Everywhere];

fn run(
    script: &Script,
    device: Device,
    method: Method,
    layout: LayoutKind,
    restarts: Restarts,
) -> Vec<Vec<String>> {
    let options = EngineOptions {
        layout,
        pool_bytes: POOL_BYTES,
        checkpoint_log_bytes: LOG_BYTES,
        memtable_bytes: MEMTABLE_BYTES,
        growth_factor: 2,
        page_bytes: method.node_bytes_default(),
        rings: 2,
        area_bytes: 0,
        ..small_engine()
    };
    let session = Session::new(Place::new(device), method, options).unwrap();
    let mut session = session.with_restarts(restarts);
    let mut outputs = Vec::new();
    for block in &script.blocks {
        let mut output = session.run_block(block.statements());
        if output.is_empty() {
            output.push("ok".to_owned());
        }
        outputs.push(output);
    }
    outputs
}

fn run_everywhere(method: Method) {
    let scripts = scripts("behaviour").unwrap();
    assert!(
        scripts.len() >= 40,
        "there are only {} scripts",
        scripts.len()
    );
    let mut differences = Vec::new();
    for script in &scripts {
        for (number, device) in (0..).zip(Device::ALL) {
            for (number, layout) in (number..).zip(LAYOUTS) {
                for (number, restarts) in (number..).zip(RESTARTS) {
                    if number % 2 == 1 && !tests::is_long() {
                        continue;
                    }
                    let outputs = run(script, device, method, layout, restarts);
                    if let Some(difference) = script.difference(&outputs) {
                        differences.push(format!(
                            "{method}, {device:?}, {layout:?}, {restarts:?}: {difference}"
                        ));
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

#[test]
fn volatile_keeps_every_script() {
    run_everywhere(Method::Volatile);
}

#[test]
fn inp_keeps_every_script() {
    run_everywhere(Method::Inp);
}

#[test]
fn nvm_inp_keeps_every_script() {
    rewrite_if_wanted();
    run_everywhere(Method::NvmInp);
}

#[test]
fn log_keeps_every_script() {
    run_everywhere(Method::Log);
}

#[test]
fn cow_keeps_every_script() {
    run_everywhere(Method::Cow);
}

#[test]
fn nvm_cow_keeps_every_script() {
    run_everywhere(Method::NvmCow);
}

#[test]
fn nvm_log_keeps_every_script() {
    run_everywhere(Method::NvmLog);
}

#[test]
fn full_page_writes_keep_every_script() {
    run_everywhere(Method::FullPageWrites);
}

#[test]
fn dwb_keeps_every_script() {
    run_everywhere(Method::Dwb);
}

#[test]
fn dwb_off_keeps_every_script() {
    run_everywhere(Method::DwbOff);
}

#[test]
fn nv_logging_keeps_every_script() {
    run_everywhere(Method::NvLogging);
}

#[test]
fn nv_disk_decentralized_keeps_every_script() {
    run_everywhere(Method::NvDiskDecentralized);
}

#[test]
fn distributed_log_keeps_every_script() {
    run_everywhere(Method::DistributedLog);
}

#[test]
fn in_place_keeps_every_script() {
    run_everywhere(Method::InPlace);
}

#[test]
fn group_commit_keeps_every_script() {
    run_everywhere(Method::GroupCommit);
}

#[test]
fn dwb_batched_keeps_every_script() {
    run_everywhere(Method::DwbBatched);
}

#[test]
fn nvm_dwb_keeps_every_script() {
    run_everywhere(Method::NvmDwb);
}

#[test]
fn nvm_dwb_log_keeps_every_script() {
    run_everywhere(Method::NvmDwbLog);
}

#[test]
fn nvm_dwb_log_opt_keeps_every_script() {
    run_everywhere(Method::NvmDwbLogOpt);
}

#[test]
fn fash_keeps_every_script() {
    run_everywhere(Method::Fash);
}

#[test]
fn fast_keeps_every_script() {
    run_everywhere(Method::Fast);
}

#[test]
fn nvwal_keeps_every_script() {
    run_everywhere(Method::Nvwal);
}

#[test]
fn slot_header_journal_keeps_every_script() {
    run_everywhere(Method::SlotHeaderJournal);
}

#[test]
fn every_method_has_its_test() {
    let tested = [
        Method::Volatile,
        Method::Inp,
        Method::Cow,
        Method::Log,
        Method::NvmInp,
        Method::NvmCow,
        Method::NvmLog,
        Method::FullPageWrites,
        Method::Dwb,
        Method::DwbBatched,
        Method::DwbOff,
        Method::NvDiskDecentralized,
        Method::NvLogging,
        Method::DistributedLog,
        Method::InPlace,
        Method::GroupCommit,
        Method::NvmDwb,
        Method::NvmDwbLog,
        Method::NvmDwbLogOpt,
        Method::Fash,
        Method::Fast,
        Method::Nvwal,
        Method::SlotHeaderJournal,
    ];
    for method in Method::distinct() {
        assert!(tested.contains(&method), "{method} has no test here");
    }
}

fn rewrite_if_wanted() {
    if !update_wanted() {
        return;
    }
    for script in scripts("behaviour").unwrap() {
        let (device, layout) = (Device::Simulated, LayoutKind::Together);
        let outputs = run(&script, device, Method::NvmInp, layout, Restarts::Scripted);
        std::fs::write(&script.path, script.render(&outputs)).unwrap();
    }
}
