//! Measures the time that emulation adds to a dependent read, and compares it with the time that it
//! should add.
//!
//! A pointer chase visits the lines of a memory four times the size of the modelled cache in random
//! order: each offset is the content of the one before, so no two reads overlap. The profile `dram`
//! gives the time without delays, model included. The excess of another profile must be its serial
//! misses times its added latency, within 15 %. The transfer time of the lines, which the throttle
//! adds, is shown apart. Exits with 1 if a profile is outside.
//!
//! The profiles take turns in rounds shorter than a time slice, and the first quartile of a
//! profile's rounds counts: on a busy machine the rounds that lost the processor are left out, and
//! drift meets all profiles alike.

#![allow(clippy::print_stdout, reason = "a bench reports on standard output")]
#![allow(
    unsafe_code,
    reason = "reads the mapping of a memory, as the room's arena does"
)]

use pmem::device::emulated::{EmulatedMemory, EmulationOptions, Emulator, Profile};
use pmem::device::{NativeMemory, PageSize};
use pmem::{Memory, PmemError};
use std::process::ExitCode;
use std::time::Instant;

const MEMORY_BYTES: u64 = 128 << 20;
const LINE_BYTES: u64 = 64;
const READS_A_ROUND: u64 = 400;
const ROUNDS: usize = 1500;
const PROFILES: [&str; 5] = ["dram", "low", "high", "read=640", "read=2560"];
const TOLERANCE: f64 = 0.15;

/// A chase through one memory, and the times of its rounds.
struct Chase {
    emulator: Emulator,
    memory: EmulatedMemory<NativeMemory>,
    offset: u64,
    rounds_ns: Vec<u64>,
}

fn main() -> Result<ExitCode, PmemError> {
    let mut chases = PROFILES
        .iter()
        .map(|profile| Chase::new(profile.parse()?))
        .collect::<Result<Vec<Chase>, PmemError>>()?;
    for _ in 0..ROUNDS {
        chases.iter_mut().for_each(Chase::round);
    }
    println!(
        "dependent reads of one line, {} MiB, {ROUNDS} rounds of {READS_A_ROUND} reads; ns a read",
        MEMORY_BYTES >> 20
    );
    println!(
        "{:<10} {:>8} {:>7} {:>9} {:>9} {:>9} {:>9} {:>7}",
        "profile", "time", "misses", "expected", "transfer", "injected", "measured", "off"
    );
    let base_ns = chases[0].ns_per_read();
    let mut outside = false;
    for (name, chase) in PROFILES.iter().zip(&mut chases) {
        outside |= chase.report(name, base_ns).abs() > TOLERANCE;
    }
    Ok(if outside {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

impl Chase {
    fn new(profile: Profile) -> Result<Self, PmemError> {
        let emulator = Emulator::new(EmulationOptions::new(profile))?;
        let native = NativeMemory::volatile(MEMORY_BYTES, PageSize::Huge)?;
        let mut memory = EmulatedMemory::volatile(native, &emulator)?;
        link_lines(&mut memory);
        Ok(Self {
            emulator,
            memory,
            offset: 0,
            rounds_ns: Vec::with_capacity(ROUNDS),
        })
    }

    fn round(&mut self) {
        let begin = Instant::now();
        for _ in 0..READS_A_ROUND {
            self.offset = read_word(&self.memory, self.offset);
        }
        self.rounds_ns.push(begin.elapsed().as_nanos() as u64);
    }

    fn ns_per_read(&mut self) -> f64 {
        let quartile = self.rounds_ns.len() / 4;
        let (_, round_ns, _) = self.rounds_ns.select_nth_unstable(quartile);
        *round_ns as f64 / READS_A_ROUND as f64
    }

    /// Prints a row, and says how far the measured time is off the expected, as a fraction of it.
    fn report(&mut self, name: &str, base_ns: f64) -> f64 {
        let reads = (self.rounds_ns.len() as u64 * READS_A_ROUND) as f64;
        let added_ns = self.emulator.options().profile.added_read_ns();
        let misses = self.memory.counters().serial_misses as f64 / reads;
        let injected = self.emulator.injected();
        let time_ns = self.ns_per_read();
        let expected_ns = misses * added_ns as f64;
        let measured_ns = time_ns - base_ns;
        let off = if expected_ns > 0.0 {
            measured_ns / expected_ns - 1.0
        } else {
            0.0
        };
        println!(
            "{name:<10} {time_ns:>8.1} {misses:>7.3} {expected_ns:>9.1} {:>9.1} {:>9.1} \
             {measured_ns:>9.1} {:>6.1}%",
            injected.bandwidth_ns as f64 / reads,
            injected.total_ns() as f64 / reads,
            off * 100.0
        );
        off
    }
}

/// Writes into each line the offset of the next one, along one cycle through all lines in random
/// order. The emulator does not see these stores.
fn link_lines(memory: &mut EmulatedMemory<NativeMemory>) {
    let lines = (MEMORY_BYTES / LINE_BYTES) as usize;
    let mut order: Vec<u64> = (0..lines as u64).collect();
    let mut seed = 1_u64;
    // Sattolo's shuffle leaves a single cycle.
    for last in (1..lines).rev() {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (seed >> 33) as usize % last);
    }
    for (line, next) in order.iter().enumerate() {
        let address = word_address(memory, line as u64 * LINE_BYTES);
        // SAFETY: `word_address` gives an aligned word of the mapping, and no reference into it
        // exists.
        unsafe { address.write(next * LINE_BYTES) };
    }
}

fn read_word(memory: &EmulatedMemory<NativeMemory>, offset: u64) -> u64 {
    memory.load(offset, size_of::<u64>());
    let address = word_address(memory, offset);
    // SAFETY: `word_address` gives an aligned word of the mapping, and nobody stores to it.
    unsafe { address.read_volatile() }
}

fn word_address(memory: &EmulatedMemory<NativeMemory>, offset: u64) -> *mut u64 {
    assert!(
        offset < MEMORY_BYTES && offset.is_multiple_of(8),
        "links lie inside the memory"
    );
    // SAFETY: the offset is below the mapping's length.
    unsafe { memory.base().as_ptr().add(offset as usize) }.cast()
}
