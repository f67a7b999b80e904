//! Durable writes of chunks through the interfaces of the device.
//!
//! The program chooses the interface, the device and the order of the chunks; `measure` writes them
//! and takes the time, without that of the emulator's model.

use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use lab::point::Point;
use lab::rows::Metrics;
use lab::size::Size;
use measure::chunks::{self, Chunks, Device, Interface, Pattern, Written};
use std::path::Path;
use std::time::Duration;

/// Measures one interface.
pub(super) fn run(point: &Point, size: &Size, parent: &Path) -> Result<Metrics> {
    let bytes: usize = point.get("chunk").parse().context("a chunk is a number")?;
    let what = Chunks {
        interface: match point.get("interface") {
            "allocator" | "memory" => Interface::Allocator,
            "copy" => Interface::Copy,
            "mapping" => Interface::Mapping,
            "filesystem" => Interface::Filesystem,
            other => bail!("there is no interface `{other}`"),
        },
        device: match point.get("device") {
            "emulated" => Device::Emulated,
            _ => Device::Native,
        },
        pattern: match point.get("pattern") {
            "sequential" => Pattern::Sequential,
            _ => Pattern::Random,
        },
        bytes,
        seed: point.seed,
    };
    let scratch = Scratch::in_directory(parent)?;
    let duration = Duration::from_secs_f64(size.seconds);
    let Written { chunks, seconds } = chunks::measure(&what, scratch.path(), duration)?;
    Ok(Metrics::from([
        (
            "mb_per_s".into(),
            (chunks * bytes as u64) as f64 / seconds / 1e6,
        ),
        ("chunk_ns".into(), seconds * 1e9 / chunks as f64),
    ]))
}
