//! Parts that tests of whole databases under power cuts share: small options, and images.
//!
//! A test makes its changes on a world of simulated devices, and looks at each image that a power
//! cut could have left.

use indelible::{Method, MethodOption, Options};
use pmem::device::simulated::{ImageChoices, SimulatedWorld, mix};

/// Options of a database that is opened thousands of times: nothing in it is large.
pub(crate) fn options(method: Method, partitions: u32) -> Options {
    let ring_bytes = match method {
        Method::GroupCommit => 32 << 10,
        _ if method.has_frames() => 16 << 10,
        Method::DistributedLog => 1 << 20,
        _ => 2 << 20,
    };
    let of_method = [
        // Segments of the log are as long as a MemTable, and each opening reads one.
        MethodOption::MemtableBytes(16 << 10),
        // The fewest possible frames: each opening makes them, and pages are written while
        // transactions are open.
        MethodOption::BufferBytes(0),
        MethodOption::RingBytes(ring_bytes),
        MethodOption::Rings(2),
        MethodOption::AreaBytes(128 << 10),
        MethodOption::RotationBytes(1),
    ];
    // Pages that are guarded have two sectors, so that they can tear.
    let is_guarded = method.is_paged() && method.survives_torn_pages();
    Options::new()
        .fitting(method, of_method)
        .partitions(partitions)
        // Else the smallest page of the copy-on-write methods.
        .node_bytes(if is_guarded { 1024 } else { 512 })
        .pool_bytes(1 << 20)
        .checkpoint_log_bytes(16 << 10)
        .identity(7)
}

/// Looks at so many of the images that a power cut may leave here at most; how many there were.
/// Images are made in `scratch`, whose space serves again.
pub(crate) fn look_at_images(
    world: &SimulatedWorld,
    most: usize,
    scratch: &mut Option<SimulatedWorld>,
    mut look: impl FnMut(&SimulatedWorld) -> Result<(), String>,
) -> Result<u64, String> {
    let mut images = 0;
    for choice in ImageChoices::bounded(world, mix(world.events()), most) {
        let image = world.image_in(&choice, scratch);
        look(image.map_err(|error| error.to_string())?)
            .map_err(|error| format!("{error}; {}", world.describe(&choice)))?;
        images += 1;
    }
    Ok(images)
}
