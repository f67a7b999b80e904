//! Report on a directory's medium: its kind, which data survives which event, and the cost of its
//! flushes and fences.
//!
//! `indelible device` prints this, and a benchmark row is judged against it. The measurement makes
//! a temporary memory in the directory, runs each step for a short fixed time, and removes it
//! again. Each cost is the median of several batches, so that one interruption does not count.
//! Rules that hold:
//!
//! 1. Lines are visited in an order in which no flush meets a write-back of the same line that is
//!    still under way.
//! 2. The read misses are dependent: each address is made from the value loaded before.

use super::arch::Instructions;
use super::{Domain, Medium, Memory, MemorySource, NativeMemory, NativeOptions, NativeSource};
use super::{PageSize, Primitive};
use crate::error::{PmemError, Result};
use crate::site;
use std::path::Path;
use std::time::{Duration, Instant};

/// The memory on which costs are measured: more than any last-level cache, so that reads miss.
const MEASURED_BYTES: u64 = 256 << 20;
/// The least memory to measure on, where that much is not free.
const MEASURED_BYTES_MIN: u64 = 4 << 20;
/// Batches of which the median counts.
const BATCHES: usize = 7;
/// Time of one batch.
const BATCH_TIME: Duration = Duration::from_millis(4);
/// Distance in bytes between two measured places: no two of them share a page that the kernel or
/// the prefetcher knows as one.
const STRIDE_BYTES: u64 = 4096 + 64;
/// Page faults are taken before the clock starts, by one touch for each of this many bytes.
const PAGE_BYTES: u64 = 4096;
/// Huge pages are worth a hint if they save at least this part of a miss.
const HUGE_PAGE_GAIN: f64 = 0.15;

/// A description of the medium under a directory, with measured costs.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceReport {
    /// The medium of the directory.
    pub medium: Medium,
    /// The filesystem's name as the kernel mounts it: `tmpfs`, `ext4`; `unknown` if /proc does not
    /// tell.
    pub filesystem: String,
    /// Whether the kernel accepted `MAP_SYNC`.
    pub map_sync: bool,
    /// The domain in force for the options given.
    pub domain: Domain,
    /// The event that data survives in that domain.
    pub survives: &'static str,
    /// The instructions or calls of flush, fence and streaming store in force.
    pub instructions: [&'static str; 3],
    /// The instructions that `--primitives flush` would issue on this processor.
    pub line_instructions: [&'static str; 3],
    /// The 64-byte direct store, where the processor has one.
    pub direct_line_store: Option<&'static str>,
    /// Whether a line that is stored past the caches goes by it, with the instructions in force.
    pub stores_lines_at_once: bool,
    /// Costs with the instructions in force.
    pub costs: Costs,
    /// Costs with cache-line write-backs, whatever the domain: what `--primitives flush` pays.
    pub line_costs: Costs,
    /// A dependent read that misses all caches, in nanoseconds.
    pub read_miss_ns: f64,
    /// The same in anonymous memory with huge pages.
    pub read_miss_huge_ns: f64,
    /// The size of the measured memory in bytes; below 256 MiB the read misses may have hit a
    /// cache.
    pub measured_bytes: u64,
    /// Says how huge pages would help, if they would and are not in use.
    pub huge_page_hint: Option<String>,
}

/// Median times of durable steps, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// One word stored, its line flushed, fence.
    pub line_ns: f64,
    /// Sixteen lines stored and flushed, fence.
    pub sixteen_lines_ns: f64,
    /// A fence with nothing to wait for.
    pub fence_ns: f64,
    /// 1024 bytes streamed, fence.
    pub stream_kib_ns: f64,
}

impl DeviceReport {
    /// Describes and measures the medium under `directory`, which must exist and be writable. Takes
    /// about two seconds; a temporary file of at most 256 MiB is made and removed.
    pub fn measure(directory: &Path, options: NativeOptions) -> Result<Self> {
        let name = format!(".indelible-device-{}", std::process::id());
        let source = NativeSource::new(directory, options);
        let mut memory = Self::largest(&source, &name)?;
        let described = Self::describe(&mut memory, directory, options);
        drop(memory);
        let lines = NativeOptions {
            primitive: Some(Primitive::Flush),
            ..options
        };
        let line_costs = described.as_ref().ok().map(|_| {
            let source = NativeSource::new(directory, lines);
            Costs::measure(&mut source.open(&name, super::Access::Write)?)
        });
        // Removed before any error is returned, so that no file remains.
        source.remove(&name)?;
        let mut report = described?;
        report.line_costs = line_costs.transpose()?.unwrap_or_default();
        Ok(report)
    }

    /// The largest temporary memory that fits.
    fn largest(source: &NativeSource, name: &str) -> Result<NativeMemory> {
        let mut bytes = MEASURED_BYTES;
        loop {
            match source.create(name, bytes) {
                Err(PmemError::OutOfSpace { .. }) if bytes > MEASURED_BYTES_MIN => bytes /= 2,
                answer => return answer,
            }
        }
    }

    fn describe(
        memory: &mut NativeMemory,
        directory: &Path,
        options: NativeOptions,
    ) -> Result<Self> {
        let (medium, domain) = (memory.medium(), memory.domain());
        let mount = Mount::of(directory);
        memory.make_ready();
        let read_miss_ns = read_miss_ns(memory);
        let read_miss_huge_ns =
            read_miss_ns_of_volatile(memory.bytes(), PageSize::Huge).unwrap_or(read_miss_ns);
        let instructions = Instructions::detect();
        let primitive = options.primitive.unwrap_or(domain.into());
        Ok(Self {
            medium,
            huge_page_hint: mount.hint(read_miss_ns, read_miss_huge_ns),
            filesystem: mount.filesystem,
            map_sync: medium == Medium::PersistentMemory,
            domain,
            survives: domain.survives(),
            instructions: names(primitive, instructions),
            line_instructions: instructions.names(),
            direct_line_store: instructions.direct_line_name(),
            stores_lines_at_once: memory.stores_lines_at_once(),
            costs: Costs::measure(memory)?,
            line_costs: Costs::default(),
            read_miss_ns,
            read_miss_huge_ns,
            measured_bytes: memory.bytes(),
        })
    }
}

impl Costs {
    /// Measures on a memory of at least 4 MiB, whose content is lost.
    pub fn measure<M: Memory>(memory: &mut M) -> Result<Self> {
        let mut places = Offsets {
            next: 0,
            end: memory.bytes() - STRIDE_BYTES,
        };
        // The first touch of a page costs a fault, which must not be measured.
        for page in 0..memory.bytes() / PAGE_BYTES {
            memory.store_word(page * PAGE_BYTES, page);
        }
        memory.flush(0, memory.bytes() as usize, site!("device-report.fill"));
        memory.fence(site!("device-report.fill-fence"))?;
        let line_ns = median_ns(|| write_lines(memory, &mut places, 1))?;
        let sixteen_lines_ns = median_ns(|| write_lines(memory, &mut places, 16))?;
        let fence_ns = median_ns(|| memory.fence(site!("device-report.fence")))?;
        let data = [0x5a; 1024];
        let stream_kib_ns = median_ns(|| {
            memory.stream(places.take(), &data, site!("device-report.stream"));
            memory.fence(site!("device-report.stream-fence"))
        })?;
        Ok(Self {
            line_ns,
            sixteen_lines_ns,
            fence_ns,
            stream_kib_ns,
        })
    }
}

/// Stores a word to each of `lines` neighbouring lines, flushes them together and waits.
fn write_lines<M: Memory>(memory: &mut M, places: &mut Offsets, lines: u64) -> Result<()> {
    let offset = places.take();
    for line in 0..lines {
        memory.store_word(offset + line * super::LINE_BYTES, offset);
    }
    let bytes = (lines * super::LINE_BYTES) as usize;
    memory.flush(offset, bytes, site!("device-report.lines"));
    memory.fence(site!("device-report.lines-fence"))
}

/// Line-aligned offsets, far from each other, round and round.
struct Offsets {
    next: u64,
    end: u64,
}

impl Offsets {
    fn take(&mut self) -> u64 {
        let place = self.next;
        self.next = if place + STRIDE_BYTES >= self.end {
            0
        } else {
            place + STRIDE_BYTES
        };
        place
    }
}

/// Median over the batches of the mean time of one `step`.
fn median_ns(mut step: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut means_ns = [0.0; BATCHES];
    for mean_ns in &mut means_ns {
        let (start, mut steps) = (Instant::now(), 0_u64);
        let elapsed = loop {
            // The clock is read seldom where a step is short, and after each one where it is a call
            // to the kernel.
            let group = if steps == 0 {
                1
            } else {
                (steps / 4).clamp(1, 256)
            };
            for _ in 0..group {
                step()?;
            }
            steps += group;
            let elapsed = start.elapsed();
            if elapsed >= BATCH_TIME {
                break elapsed;
            }
        };
        *mean_ns = elapsed.as_nanos() as f64 / steps as f64;
    }
    means_ns.sort_by(f64::total_cmp);
    Ok(means_ns[BATCHES / 2])
}

/// Time of a read whose address depends on the read before it, at random places of the whole
/// memory.
fn read_miss_ns<M: Memory>(memory: &M) -> f64 {
    let words = memory.bytes() / 8;
    let read = |index: u64| {
        debug_assert!(index < words, "the walk stays in the memory");
        // SAFETY: `index < words`, so the word lies in the mapping.
        let word = unsafe { memory.base().cast::<u64>().add(index as usize) };
        // SAFETY: mapped and aligned as above; `&memory` keeps stores out.
        unsafe { word.read_volatile() }
    };
    for page in 0..memory.bytes() / PAGE_BYTES {
        read(page * (PAGE_BYTES / 8));
    }
    let (mut state, mut value) = (0x9e37_79b9_7f4a_7c15_u64, 0);
    let walked = median_ns(|| {
        // A linear congruential step; the loaded value enters only so that the next address must
        // wait for it.
        state = state
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(value | 1);
        value = read((u128::from(state) * u128::from(words)).wrapping_shr(64) as u64);
        Ok(())
    });
    walked.unwrap_or(f64::NAN)
}

fn read_miss_ns_of_volatile(bytes: u64, pages: PageSize) -> Result<f64> {
    let mut memory = NativeMemory::volatile(bytes, pages)?;
    for page in 0..memory.bytes() / PAGE_BYTES {
        memory.store_word(page * PAGE_BYTES, 0);
    }
    Ok(read_miss_ns(&memory))
}

/// The instructions or calls of flush, fence and stream under a primitive.
fn names(primitive: Primitive, instructions: Instructions) -> [&'static str; 3] {
    let [flush, fence, stream] = instructions.names();
    match primitive {
        Primitive::Process => ["none", "compiler order", "copy"],
        Primitive::File => ["note pages", "msync", "copy"],
        Primitive::Flush => [flush, fence, stream],
        Primitive::FlushFree => ["none", fence, stream],
    }
}

/// A line of /proc/self/mountinfo.
struct Mount {
    filesystem: String,
    point: String,
    options: String,
}

impl Mount {
    /// The mount that `directory` lies on. Unknown parts stay empty: this is for people to read.
    fn of(directory: &Path) -> Self {
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let directory = directory
            .canonicalize()
            .unwrap_or_else(|_| directory.to_owned());
        // The longest mount point above the directory; of equal ones the last, which covers the
        // others.
        let nearest = table
            .lines()
            .filter_map(Self::parse)
            .filter(|mount| directory.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.len());
        let unknown = || Self {
            filesystem: "unknown".to_owned(),
            point: String::new(),
            options: String::new(),
        };
        nearest.unwrap_or_else(unknown)
    }

    /// `36 35 98:0 /root /point options optional... - type source super-options`
    fn parse(line: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        Some(Self {
            filesystem: right.next()?.to_owned(),
            point: left.split(' ').nth(4)?.to_owned(),
            options: right.nth(1).unwrap_or_default().to_owned(),
        })
    }

    fn hint(&self, miss_ns: f64, huge_miss_ns: f64) -> Option<String> {
        let in_use = self.options.split(',').any(|option| {
            option
                .strip_prefix("huge=")
                .is_some_and(|value| value != "never")
        });
        let helps = huge_miss_ns < miss_ns * (1.0 - HUGE_PAGE_GAIN);
        (self.filesystem == "tmpfs" && !in_use && helps).then(|| {
            format!(
                "a tmpfs mounted with huge pages would help: a dependent read miss takes \
                 {miss_ns:.0} ns here and {huge_miss_ns:.0} ns with them (mount -o remount,huge=always {})",
                self.point
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_memory_is_described_honestly() {
        let directory = Path::new("/dev/shm");
        let report = DeviceReport::measure(directory, NativeOptions::default()).unwrap();
        println!("{report:#?}");
        assert_eq!(report.medium, Medium::SharedMemory);
        assert_eq!(report.filesystem, "tmpfs");
        assert_eq!(
            (report.domain, report.survives),
            (Domain::Process, "process death")
        );
        assert!(!report.map_sync);
        assert_eq!(report.instructions[1], "compiler order");
        assert!(report.line_costs.line_ns > 0.0 && report.read_miss_ns > 0.0);
        let left = std::fs::read_dir(directory).unwrap().any(|entry| {
            let name = entry.unwrap().file_name();
            name == format!(".indelible-device-{}", std::process::id()).as_str()
        });
        assert!(!left, "the temporary file is removed");
    }

    #[test]
    fn mount_lines_are_parsed() {
        let line = "36 35 98:0 / /mnt/shm rw,noatime shared:1 - tmpfs shm rw,huge=always";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(
            (mount.filesystem.as_str(), mount.point.as_str()),
            ("tmpfs", "/mnt/shm")
        );
        assert_eq!(mount.hint(300.0, 200.0), None, "huge pages are in use");
        let plain = Mount {
            options: "rw,size=1k".to_owned(),
            ..mount
        };
        assert!(
            plain
                .hint(300.0, 200.0)
                .unwrap()
                .contains("huge=always /mnt/shm")
        );
        assert_eq!(plain.hint(300.0, 290.0), None, "they would not help");
    }
}
