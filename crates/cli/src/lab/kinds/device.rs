//! Durable writes of chunks through the two interfaces of the device.
//!
//! The program chooses the interface, the device and the order of the chunks; `measure` writes them
//! and takes the time. A repeat continues with the area of the one before.

use super::super::point::Point;
use super::super::rows::Metrics;
use super::super::size::Size;
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use measure::chunks::{self, Chunks, Device, Interface, Pattern, Written};
use std::path::Path;
use std::time::Duration;

/// Measures one interface.
pub(super) fn run(point: &Point, size: &Size, parent: &Path) -> Result<Vec<Metrics>> {
    let bytes: usize = point.get("chunk").parse().context("a chunk is a number")?;
    let what = Chunks {
        interface: match point.get("interface") {
            "allocator" | "memory" => Interface::Allocator,
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
    let written = chunks::measure(&what, scratch.path(), size.repeats, duration)?;
    Ok(written.iter().map(|one| metrics(one, bytes)).collect())
}

fn metrics(written: &Written, chunk_bytes: usize) -> Metrics {
    let Written { chunks, seconds } = *written;
    let bytes = chunks as f64 * chunk_bytes as f64;
    Metrics::from([
        ("mb_per_s".into(), bytes / seconds / 1e6),
        ("chunk_ns".into(), seconds * 1e9 / chunks as f64),
    ])
}
