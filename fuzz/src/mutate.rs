//! Mutations that know what the bytes are made of.
//!
//! Pools are mostly zeros, and most of their meaning is in aligned words: offsets, counts, bitmaps.
//! So places are chosen among the bytes that are not zero and among the ranges under a checksum,
//! and words get the values at which programs fail: 0, 1, the largest ones, another word of the
//! same piece, an offset near the old one. Whole pieces are cut, lengthened, emptied and exchanged
//! now and then. A block of a checkpoint is also mutated in its plain form, and records of an
//! archive go, come twice, change places and lengths, with counts that fit.

use crate::input::{Input, Part};
use crate::random::Random;
use crate::seal::{self, ARCHIVE_HEADER_BYTES, Seal, SealKind};
use std::ops::Range;

/// An input that the program wrote itself, and what is known about it.
pub struct Seed {
    /// The pieces.
    pub input: Input,
    /// Its checksums; those that lie in others first.
    pub seals: Vec<Seal>,
    /// For each piece the 8-byte groups that are not all zero.
    busy: Vec<Vec<u32>>,
}

/// The most mutations of one input.
const MUTATIONS_MAX: usize = 8;
/// Longest piece that a mutation makes.
const PART_BYTES_MAX: usize = 4 << 20;

impl Seed {
    /// A seed with these checksums.
    pub fn new(input: Input, seals: Vec<Seal>) -> Self {
        let busy = |part: &Part| {
            let groups = part.bytes.chunks(8).enumerate();
            let busy = groups.filter(|(_, group)| group.iter().any(|&byte| byte != 0));
            busy.map(|(group, _)| group as u32).collect()
        };
        let busy = input.parts.iter().map(busy).collect();
        Self { input, seals, busy }
    }

    /// A seed without checksums.
    pub fn plain(input: Input) -> Self {
        Self::new(input, Vec::new())
    }

    /// A hostile relative of this seed.
    pub fn mutated(&self, random: &mut Random) -> Input {
        let mut input = self.input.clone();
        let mut touched = Vec::new();
        let sealed = random.once_in(2);
        let mutations = 1 + random.below(MUTATIONS_MAX).min(random.below(MUTATIONS_MAX));
        for _ in 0..mutations {
            if input.parts.is_empty() {
                break;
            }
            if random.once_in(60) {
                resize(&mut input, random);
            } else if let Some(change) = self.change(&mut input, random) {
                touched.push(change);
            }
        }
        if sealed {
            seal::seal(&mut input, &self.seals, &touched);
        }
        input
    }

    /// Changes some bytes; gives the piece and the range.
    fn change(&self, input: &mut Input, random: &mut Random) -> Option<(usize, Range<usize>)> {
        let (part, at) = self.place(input, random);
        let piece = &mut input.parts[part];
        let fields = self.seals.iter().find_map(|seal| match seal.kind {
            SealKind::Checkpoint(fields) if seal.part == part => Some(fields),
            _ => None,
        });
        if let Some(fields) = fields
            && random.once_in(2)
        {
            let length = change_plain_block(piece, fields, random)?;
            return Some((part, 0..length));
        }
        let is_archive = |seal: &Seal| seal.part == part && seal.kind == SealKind::Archive;
        if self.seals.iter().any(is_archive) && random.once_in(2) {
            let length = change_archive(piece, random)?;
            return Some((part, 0..length));
        }
        let length = piece.bytes.len();
        if length == 0 {
            piece.bytes.push(random.word() as u8);
            return Some((part, 0..1));
        }
        let at = at.min(length - 1);
        Some((part, change_bytes(&mut piece.bytes, at, random)))
    }

    /// A piece, and a byte of it.
    fn place(&self, input: &Input, random: &mut Random) -> (usize, usize) {
        if random.once_in(2)
            && let Some(seal) = random.pick(&self.seals)
            && seal.part < input.parts.len()
        {
            // Near the start lie headers, counts and pointers.
            let bytes = seal.range.len();
            let inside = if random.once_in(2) {
                bytes.min(64)
            } else {
                bytes
            };
            return (seal.part, seal.range.start + random.below(inside));
        }
        let part = random.below(input.parts.len());
        let busy = self.busy.get(part).and_then(|busy| random.pick(busy));
        match busy {
            Some(&group) if !random.once_in(8) => (part, group as usize * 8 + random.below(8)),
            _ => (part, random.below(input.parts[part].bytes.len())),
        }
    }
}

/// Changes bytes around `at`, which lies in the piece; gives the range.
fn change_bytes(bytes: &mut [u8], at: usize, random: &mut Random) -> Range<usize> {
    let length = bytes.len();
    match random.below(10) {
        0 | 1 => {
            bytes[at] ^= 1 << random.below(8);
            at..at + 1
        }
        2 => {
            bytes[at] = *random
                .pick(&[0, 1, 0x7f, 0x80, 0xff, b'-', b'.', 12])
                .unwrap_or(&0);
            at..at + 1
        }
        3 => {
            bytes[at] = random.word() as u8;
            at..at + 1
        }
        4..=6 => {
            let at = at / 8 * 8;
            let value = interesting(bytes, at, random).to_le_bytes();
            fill(bytes, at, &value)
        }
        7 => {
            let at = at / 4 * 4;
            let value = (interesting(bytes, at / 8 * 8, random) as u32).to_le_bytes();
            fill(bytes, at, &value)
        }
        8 => {
            // Something that is valid elsewhere.
            let from = random.below(length) / 8 * 8;
            let longest = *random.pick(&[8, 16, 64, 512]).unwrap_or(&8);
            let copied = bytes[from..length.min(from + longest)].to_vec();
            fill(bytes, at / 8 * 8, &copied)
        }
        _ => {
            let end = length.min(at + 1 + random.below(64));
            let value = *random.pick(&[0, 0xff, 0x20]).unwrap_or(&0);
            bytes[at..end].fill(value);
            at..end
        }
    }
}

/// A value at which programs fail; `at` is the place of the old word.
fn interesting(bytes: &[u8], at: usize, random: &mut Random) -> u64 {
    let old = seal::word(bytes, at).unwrap_or(0);
    let length = bytes.len() as u64;
    match random.below(12) {
        0 => 0,
        1 => 1,
        2 => u64::MAX - random.below(64) as u64,
        3 => 1 << random.below(64),
        4 => (1 << random.below(64)) - 1,
        5 => length.wrapping_sub(random.below(128) as u64),
        6 => old.wrapping_add(*random.pick(&[1, 8, 64, 4096, 16 << 10]).unwrap_or(&1)),
        7 => old.wrapping_sub(*random.pick(&[1, 8, 64, 4096, 16 << 10]).unwrap_or(&1)),
        8 => old.rotate_left(32),
        9 => random.word(),
        10 => random.below(bytes.len()) as u64 / 8 * 8,
        _ => seal::word(bytes, random.below(bytes.len()) / 8 * 8).unwrap_or(old),
    }
}

fn fill(bytes: &mut [u8], at: usize, new: &[u8]) -> Range<usize> {
    let end = bytes.len().min(at + new.len());
    bytes[at..end].copy_from_slice(&new[..end - at]);
    at..end
}

/// Cuts, lengthens, empties, removes or exchanges a piece.
fn resize(input: &mut Input, random: &mut Random) {
    let count = input.parts.len();
    let (part, other) = (random.below(count), random.below(count));
    let length = input.parts[part].bytes.len();
    match random.below(8) {
        0..=2 => input.parts[part].bytes.truncate(random.below(length + 1)),
        3 => input.parts[part]
            .bytes
            .truncate(random.below(length + 1) / 4096 * 4096),
        4 | 5 => {
            let bytes = *random.pick(&[1, 8, 512, 4096, 64 << 10]).unwrap_or(&1);
            let longer = (length + bytes).min(PART_BYTES_MAX.max(length));
            input.parts[part].bytes.resize(longer, random.word() as u8);
        }
        6 if count > 1 => {
            input.parts.remove(part);
        }
        _ => {
            let bytes = input.parts[other].bytes.clone();
            input.parts[part].bytes = bytes;
        }
    }
}

/// Changes the plain form of one block of a checkpoint, whose header has so many bytes of fields,
/// and packs it again; gives the piece's length. The checksum is left to the sealing.
fn change_plain_block(piece: &mut Part, fields: usize, random: &mut Random) -> Option<usize> {
    let bytes = &piece.bytes;
    let number = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes) as usize)
    };
    let mut blocks = Vec::new();
    let mut at = fields + 4;
    while let Some(stored) = number(at + 4) {
        blocks.push(at);
        at += 12 + stored;
    }
    let &at = random.pick(&blocks)?;
    let stored = number(at + 4)?;
    let packed = bytes.get(at + 12..at + 12 + stored)?;
    let mut plain =
        lz4_flex::block::decompress(packed, number(at + 8)?.min(PART_BYTES_MAX)).ok()?;
    if plain.is_empty() {
        return None;
    }
    let place = random.below(plain.len());
    change_bytes(&mut plain, place, random);
    let packed = lz4_flex::block::compress(&plain);
    let mut block = vec![0; 4];
    for length in [packed.len(), plain.len()] {
        block.extend_from_slice(&(length as u32).to_le_bytes());
    }
    block.extend_from_slice(&packed);
    piece.bytes.splice(at..at + 12 + stored, block);
    Some(piece.bytes.len())
}

/// Changes records of a file of an archive as whole ones, with the counts in its header that fit;
/// gives the piece's length. The checksums are left to the sealing.
fn change_archive(piece: &mut Part, random: &mut Random) -> Option<usize> {
    let (header, content) = piece.bytes.split_at_checked(ARCHIVE_HEADER_BYTES)?;
    let (header, mut records, mut at) = (header.to_vec(), Vec::new(), 0);
    while let Some(number) = seal::word(content, at) {
        let length = usize::try_from(seal::word(content, at + 8)?).ok()?;
        let payload = content.get(at + 16..)?.get(..length)?;
        records.push((number, payload.to_vec()));
        at += 16 + length.next_multiple_of(8);
    }
    if records.is_empty() {
        return None;
    }
    let (one, other) = (random.below(records.len()), random.below(records.len()));
    match random.below(8) {
        0 => drop(records.remove(one)),
        1 => records.insert(other, records[one].clone()),
        2 => records.swap(one, other),
        3 => {
            let record = records[other].1.clone();
            records[one].1 = record;
        }
        4 => {
            let payload = &mut records[one].1;
            payload.resize(random.below(payload.len() * 2 + 1), random.word() as u8);
        }
        5 => {
            let number = records[one].0.to_le_bytes();
            records[one].0 = interesting(&number, 0, random);
        }
        _ => {
            let payload = &mut records[one].1;
            if !payload.is_empty() {
                let place = random.below(payload.len());
                change_bytes(payload, place, random);
            }
        }
    }
    let mut bytes = header;
    for (number, payload) in &records {
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    let counts = [records.len() as u64, bytes.len() as u64];
    for (count, at) in counts.into_iter().zip([56, 64]) {
        fill(&mut bytes, at, &count.to_le_bytes());
    }
    piece.bytes = bytes;
    Some(piece.bytes.len())
}
