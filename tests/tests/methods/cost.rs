//! Goal: the cost of each operation in flushes, fences, bytes and syncs is known, and does not
//! change unnoticed.
//!
//! Method: the scripts of `crates/storage/testscripts/cost/<method>` run on the simulated device,
//! which counts exactly. A block with `measure` prints the cost of its commands, a line for each
//! tuple layout and, where that matters, each order of fences or way of storing a header; reads are
//! not shown. `measure fences<=3` is a promise for the shared order. `UPDATE_SCRIPTS=1` rewrites
//! the files.

use pmem::PowerFailAtomicity;
use std::collections::BTreeSet;
use storage::engine::{EngineOptions, FenceOrder, Method};
use storage::record::LayoutKind;
use tests::place::{Device, Place};
use tests::script::{Script, scripts, update_wanted};
use tests::session::Session;

/// One way of running a cost script.
struct Variant {
    name: &'static str,
    layout: LayoutKind,
    fences: FenceOrder,
    atomicity: PowerFailAtomicity,
}

const fn variant(name: &'static str, layout: LayoutKind, fences: FenceOrder) -> Variant {
    Variant {
        name,
        layout,
        fences,
        atomicity: PowerFailAtomicity::Word,
    }
}

const fn with_whole_lines(name: &'static str, layout: LayoutKind) -> Variant {
    Variant {
        atomicity: PowerFailAtomicity::Line,
        ..variant(name, layout, FenceOrder::Shared)
    }
}

const IN_DURABLE_MEMORY: &[Variant] = &[
    variant("together, single", LayoutKind::Together, FenceOrder::Single),
    variant("together, shared", LayoutKind::Together, FenceOrder::Shared),
    variant("together, paper", LayoutKind::Together, FenceOrder::Paper),
    variant("separate, single", LayoutKind::Separate, FenceOrder::Single),
    variant("separate, shared", LayoutKind::Separate, FenceOrder::Shared),
    variant("separate, paper", LayoutKind::Separate, FenceOrder::Paper),
];

/// Nothing is fenced in volatile memory, so there is one order only.
const IN_VOLATILE_MEMORY: &[Variant] = &[
    variant("together", LayoutKind::Together, FenceOrder::Shared),
    variant("separate", LayoutKind::Separate, FenceOrder::Shared),
];

/// Both ways of storing the header that `fast` commits by.
const BY_LINES: &[Variant] = &[
    variant("together", LayoutKind::Together, FenceOrder::Shared),
    variant("separate", LayoutKind::Separate, FenceOrder::Shared),
    with_whole_lines("together, 64 bytes whole", LayoutKind::Together),
    with_whole_lines("separate, 64 bytes whole", LayoutKind::Separate),
];

fn variants(method: Method) -> &'static [Variant] {
    match method {
        Method::NvmInp | Method::NvmLog => IN_DURABLE_MEMORY,
        Method::Fast => BY_LINES,
        Method::Inp
        | Method::Volatile
        | Method::Cow
        | Method::NvmCow
        | Method::Log
        | Method::FullPageWrites
        | Method::Dwb
        | Method::DwbBatched
        | Method::DwbOff
        | Method::NvDisk
        | Method::DiskReplacement
        | Method::NvDiskDecentralized
        | Method::NvLogging
        | Method::DistributedLog
        | Method::InPlace
        | Method::NvWsp
        | Method::GroupCommit
        | Method::NvmDwb
        | Method::NvmDwbLog
        | Method::NvmDwbLogOpt
        | Method::Fash
        | Method::Nvwal
        | Method::SlotHeaderJournal
        | Method::Combined(_) => IN_VOLATILE_MEMORY,
    }
}

/// The output of each block in each variant; broken promises are added to `broken`.
fn run(script: &Script, method: Method, broken: &mut Vec<String>) -> Vec<Vec<String>> {
    let mut outputs = vec![Vec::new(); script.blocks.len()];
    for variant in variants(method) {
        let options = EngineOptions {
            layout: variant.layout,
            fences: variant.fences,
            atomicity: variant.atomicity,
            checkpoint_log_bytes: 16 << 20,
            page_bytes: method.node_bytes_default(),
            rings: 2,
            ..EngineOptions::default()
        };
        let mut session = Session::new(Place::new(Device::Simulated), method, options).unwrap();
        for (block, output) in script.blocks.iter().zip(&mut outputs) {
            let mut lines = session.run_block(block.statements());
            lines.retain(|line| line.starts_with("error"));
            if let Some(cost) = session.take_cost() {
                lines.push(cost.to_string());
                let limit = cost
                    .fences_max
                    .filter(|_| variant.fences == FenceOrder::Shared);
                if limit.is_some_and(|limit| cost.fences > limit) {
                    broken.push(format!(
                        "{}, {}: {cost}",
                        script.path.display(),
                        variant.name
                    ));
                }
            }
            output.extend(lines.iter().map(|line| format!("{}: {line}", variant.name)));
        }
    }
    for output in outputs.iter_mut().filter(|output| output.is_empty()) {
        output.push("ok".to_owned());
    }
    outputs
}

fn check(method: Method) {
    let scripts = scripts(&format!("cost/{method}")).unwrap();
    let mut broken = Vec::new();
    for script in &scripts {
        let outputs = run(script, method, &mut broken);
        if update_wanted() {
            std::fs::write(&script.path, script.render(&outputs)).unwrap();
        } else {
            broken.extend(script.difference(&outputs));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}

#[test]
fn volatile_costs_what_the_scripts_say() {
    check(Method::Volatile);
}

#[test]
fn inp_costs_what_the_scripts_say() {
    check(Method::Inp);
}

#[test]
fn nvm_inp_costs_what_the_scripts_say() {
    check(Method::NvmInp);
}

#[test]
fn log_costs_what_the_scripts_say() {
    check(Method::Log);
}

#[test]
fn nvm_log_costs_what_the_scripts_say() {
    check(Method::NvmLog);
}

#[test]
fn cow_costs_what_the_scripts_say() {
    check(Method::Cow);
}

#[test]
fn nvm_cow_costs_what_the_scripts_say() {
    check(Method::NvmCow);
}

#[test]
fn full_page_writes_cost_what_the_scripts_say() {
    check(Method::FullPageWrites);
}

#[test]
fn dwb_costs_what_the_scripts_say() {
    check(Method::Dwb);
}

#[test]
fn dwb_batched_costs_what_the_scripts_say() {
    check(Method::DwbBatched);
}

#[test]
fn dwb_off_costs_what_the_scripts_say() {
    check(Method::DwbOff);
}

#[test]
fn nv_logging_costs_what_the_scripts_say() {
    check(Method::NvLogging);
}

#[test]
fn nv_disk_decentralized_costs_what_the_scripts_say() {
    check(Method::NvDiskDecentralized);
}

#[test]
fn distributed_log_costs_what_the_scripts_say() {
    check(Method::DistributedLog);
}

#[test]
fn in_place_costs_what_the_scripts_say() {
    check(Method::InPlace);
}

#[test]
fn group_commit_costs_what_the_scripts_say() {
    check(Method::GroupCommit);
}

#[test]
fn nvm_dwb_costs_what_the_scripts_say() {
    check(Method::NvmDwb);
}

#[test]
fn nvm_dwb_log_costs_what_the_scripts_say() {
    check(Method::NvmDwbLog);
}

#[test]
fn nvm_dwb_log_opt_costs_what_the_scripts_say() {
    check(Method::NvmDwbLogOpt);
}

#[test]
fn fash_costs_what_the_scripts_say() {
    check(Method::Fash);
}

#[test]
fn fast_costs_what_the_scripts_say() {
    check(Method::Fast);
}

#[test]
fn nvwal_costs_what_the_scripts_say() {
    check(Method::Nvwal);
}

#[test]
fn slot_header_journal_costs_what_the_scripts_say() {
    check(Method::SlotHeaderJournal);
}

#[test]
fn every_method_is_measured_with_the_same_scripts() {
    let names = |method: Method| -> BTreeSet<_> {
        let scripts = scripts(&format!("cost/{method}")).unwrap();
        scripts
            .iter()
            .map(|script| script.path.file_name().unwrap().to_owned())
            .collect()
    };
    let expected = names(Method::NvmInp);
    assert!(!expected.is_empty());
    for method in Method::distinct() {
        assert_eq!(names(method), expected, "scripts of {method}");
    }
}
