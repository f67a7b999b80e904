//! Kinds of places in a closed database: which bytes are an inner node, a leaf, a map, a log.
//!
//! Pages of trees give their own kind, at known places or by a mark in their first word. All other
//! bytes have the kind of the file or memory that they are in. Free pages keep the kind that they
//! last had. Each kind of page has a bound for the share of its bytes whose change no check
//! detects, and a kind that loses its checksum exceeds it.

use crate::damage::{DamageReport, KindCount};
use page_engine::page::{Header, PageKind};
use storage::engine::{EngineOptions, Method};

/// Where a file of pages has its name from.
const PAGE_FILE: &str = "pages";
const LINE_BYTES: usize = 64;
/// Marks of nodes in durable memory and of copy-on-write pages, in the low bits of their first
/// words.
const NODE_MAGIC: u64 = 0x4e42;
const COW_MAGIC: u64 = 0xc0b7;
/// Mark of a slotted page in durable memory, and the most levels of its tree.
const SLOTTED_MAGIC: u8 = 0x5d;
const SLOTTED_LEVELS_MAX: u8 = 24;

const LEAF: &str = "leaf";
const INNER: &str = "inner";
const LONG: &str = "long";
const MAP: &str = "map";
const LIST: &str = "list";

/// A run of bytes of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) kind: String,
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// The parts of a file or memory, in their order and without gaps.
pub(crate) fn parts(
    method: Method,
    options: &EngineOptions,
    name: &str,
    content: &[u8],
) -> Vec<ByteRange> {
    let file = kind_of_file(name);
    let mut parts: Vec<ByteRange> = Vec::new();
    let mut at = 0;
    while at < content.len() {
        let rest = &content[at..];
        let page = if method.is_paged() && file == PAGE_FILE {
            page_of_file(rest, options.page_bytes as usize)
        } else {
            node(method, rest, options)
        };
        let (kind, bytes) = page.unwrap_or((file, LINE_BYTES));
        let bytes = bytes.clamp(1, rest.len());
        let kind = kind.to_owned();
        let (start, bytes) = (at as u64, bytes as u64);
        at += bytes as usize;
        match parts.last_mut() {
            Some(last) if last.kind == file && kind == file => last.bytes += bytes,
            _ => parts.push(ByteRange { kind, start, bytes }),
        }
    }
    parts
}

/// The kind of a file: its name without the partition and a number.
fn kind_of_file(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    let mut words = name.split('.');
    match (words.next(), words.next()) {
        (_, Some(word)) => word,
        (word, None) => word.unwrap_or(name),
    }
}

fn page_of_file(rest: &[u8], page_bytes: usize) -> Option<(&'static str, usize)> {
    let page = rest.get(..page_bytes)?;
    let kind = match Header(page).kind()? {
        PageKind::Leaf => LEAF,
        PageKind::Inner => INNER,
        PageKind::Long => LONG,
        PageKind::Map => MAP,
    };
    Some((kind, page_bytes))
}

/// A node or page of a tree that begins here.
fn node(method: Method, rest: &[u8], options: &EngineOptions) -> Option<(&'static str, usize)> {
    let word = u64::from_le_bytes(rest.get(..8)?.try_into().ok()?);
    let [first, _, level, kind, ..] = word.to_le_bytes();
    let lines = (word >> 32 & 0xffff) as usize;
    let page_bytes = options.page_bytes as usize;
    match word & 0xffff {
        NODE_MAGIC if has_nodes(method) && kind == 0 && (2..=128).contains(&lines) => {
            Some((if level == 0 { LEAF } else { INNER }, lines * LINE_BYTES))
        }
        COW_MAGIC if is_copied(method) => {
            let kind = match (kind, level) {
                (0, 0) => LEAF,
                (0, _) => INNER,
                (1, _) => LONG,
                _ => LIST,
            };
            Some((kind, page_bytes))
        }
        _ if is_slotted(method) && is_slotted_page(rest) => {
            Some((if first == 0 { LEAF } else { INNER }, page_bytes))
        }
        _ => None,
    }
}

/// Whether the first lines are those of a slotted page: both places of its header have the mark, or
/// the second one is not written yet.
fn is_slotted_page(rest: &[u8]) -> bool {
    let [first, second] = [0, LINE_BYTES].map(|at| rest.get(at..at + 4).unwrap_or_default());
    let is_header =
        |line: &[u8]| matches!(line, [level, .., SLOTTED_MAGIC] if *level < SLOTTED_LEVELS_MAX);
    is_header(first) && (is_header(second) || second == [0; 4])
}

/// Whether its pages have a list of their cells.
fn is_slotted(method: Method) -> bool {
    method.is_slotted()
}

/// Whether its trees have nodes in durable memory that change there.
fn has_nodes(method: Method) -> bool {
    matches!(method, Method::NvmInp | Method::NvmLog)
}

/// Whether its pages of trees are copied to be changed.
fn is_copied(method: Method) -> bool {
    matches!(method, Method::Cow | Method::NvmCow)
}

/// Most of 100 changes in bytes of a kind that may go unnoticed: they are in free pages, or in free
/// room of a page that changes in place. Each bound is a third or so above the measured share.
fn undetected_percent(method: Method, kind: &str) -> Option<u64> {
    let percent = match (method, kind) {
        // The newest version of a page may be in durable memory, and then the one in the file is
        // not read.
        (Method::NvmDwbLogOpt, MAP) => return None,
        (Method::NvmDwbLogOpt, INNER | LEAF | LONG) => 40,
        // A checksum covers all of it, and none is free.
        (_, MAP) => 0,
        (Method::Cow | Method::NvmCow, INNER | LIST) => 70,
        (Method::Cow | Method::NvmCow, LEAF | LONG) => 45,
        (Method::NvmInp, INNER) => 30,
        (Method::NvmLog, INNER) => 60,
        (Method::NvmInp | Method::NvmLog, LEAF) => 50,
        // A page has few cells here, and between them and its header nothing counts. Other parts of
        // the file are long values, and free pages that never had a header.
        (_, LEAF) if is_slotted(method) => 80,
        (_, INNER) if is_slotted(method) => 87,
        (_, "nvwal") => 80,
        // The same, and the heap's free blocks. Where pages lie in a file it has only the log,
        // which is empty at the end.
        (Method::Fash | Method::Fast, "pool") => 92,
        (_, INNER | LEAF | LONG) if method.is_paged() => 10,
        // Pages that are changed in their place, with free ones between them.
        (_, "nvpages") => 40,
        _ => return None,
    };
    Some(percent)
}

/// Adds a fault for each kind of bytes in which more changes go unnoticed than may.
pub(crate) fn judge(method: Method, report: &mut DamageReport) {
    let is_whole = method.is_paged() || is_copied(method);
    for (kind, count) in &report.kinds {
        let KindCount {
            trials, undetected, ..
        } = *count;
        let Some(percent) = undetected_percent(method, kind) else {
            continue;
        };
        let is_page = [LEAF, INNER, LONG, MAP, LIST].contains(&kind.as_str());
        let (partly, live) = count.partly();
        if is_whole && is_page && partly > 0 {
            report.wrong.push(format!(
                "{kind}: {partly} of {live} pages in which damage is detected have bytes in which it is not, and a checksum \
                 is of all bytes of a page"
            ));
        }
        let most = trials * percent / 100;
        // A few trials may all meet free bytes.
        if undetected > most + most.isqrt() {
            report.wrong.push(format!(
                "{kind}: {undetected} of {trials} changes are detected by nothing, and {percent} % may be"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage::{Spot, Tried, Verdict};

    /// A report with flips in pages of one kind: of each page, how many are detected and how many
    /// are not.
    fn judged(method: Method, kind: &str, pages: &[(u64, u64)]) -> Vec<String> {
        let mut report = DamageReport::default();
        for (page, &(detected, undetected)) in (0..).zip(pages) {
            for number in 0..detected + undetected {
                let kind = kind.to_owned();
                let tried = Tried {
                    place: String::new(),
                    spot: Some(Spot {
                        kind,
                        page: (0, page),
                    }),
                    verdict: if number < detected {
                        Verdict::Verify
                    } else {
                        Verdict::Harmless
                    },
                };
                report.note(tried, 0.0);
            }
        }
        judge(method, &mut report);
        report.wrong
    }

    #[test]
    fn a_page_that_is_detected_in_parts_has_lost_its_checksum() {
        let found = judged(Method::Dwb, INNER, &[(16, 0), (3, 13)]);
        assert!(found[0].contains("1 of 2 pages"), "{found:?}");
        let found = judged(Method::Dwb, "map", &[(15, 1)]);
        assert!(found[0].contains("1 of 1 pages"), "{found:?}");
        // Free pages, and a method whose nodes have free room.
        assert_eq!(judged(Method::Cow, INNER, &[(16, 0), (0, 16)]), [""; 0]);
        let pages = [(12, 4), (14, 2), (16, 0)];
        assert_eq!(judged(Method::NvmInp, INNER, &pages), [""; 0]);
    }

    #[test]
    fn a_kind_that_goes_unnoticed_more_often_exceeds_its_bound() {
        let found = judged(Method::NvmInp, INNER, &[(6, 10), (0, 16), (4, 12)]);
        assert!(found[0].contains("38 of 48 changes"), "{found:?}");
        let found = judged(Method::Dwb, LEAF, &[(0, 16), (16, 0), (16, 0)]);
        assert!(found[0].contains("16 of 48 changes"), "{found:?}");
        // Cells whose checksums nobody compares; and free room as it is.
        for method in Method::ALL.into_iter().filter(|&method| is_slotted(method)) {
            assert_eq!(judged(method, LEAF, &[(8, 24), (8, 24)]), [""; 0]);
            let found = judged(method, LEAF, &[(1, 31), (1, 31)]);
            assert!(found[0].contains("62 of 64 changes"), "{found:?}");
        }
    }

    #[test]
    fn pages_say_their_kind() {
        let options = EngineOptions {
            page_bytes: 512,
            ..EngineOptions::default()
        };
        let mut content = vec![0; 512 * 3];
        content[512 + 4] = PageKind::Inner.code();
        content[1024 + 4] = PageKind::Map.code();
        let found = parts(Method::Dwb, &options, "p0.pages", &content);
        let found: Vec<_> = found
            .iter()
            .map(|part| (part.kind.as_str(), part.start, part.bytes))
            .collect();
        assert_eq!(
            found,
            [("pages", 0, 512), (INNER, 512, 512), ("map", 1024, 512)]
        );
        // A slotted page that has one header so far, one with two, and a line that has a mark only.
        let mut content = vec![0; 512 * 3];
        content[512 + 3] = SLOTTED_MAGIC;
        for at in [1024, 1024 + 64] {
            content[at..at + 4].copy_from_slice(&[1, 0, 0, SLOTTED_MAGIC]);
        }
        content[3] = SLOTTED_MAGIC;
        content[64] = 1;
        let found = parts(Method::Fash, &options, "p0.pool", &content);
        let found: Vec<_> = found
            .iter()
            .map(|part| (part.kind.as_str(), part.start, part.bytes))
            .collect();
        assert_eq!(
            found,
            [("pool", 0, 512), (LEAF, 512, 512), (INNER, 1024, 512)]
        );
        let found = parts(Method::Inp, &options, "archive/p0.wal.000007", &[0; 100]);
        assert_eq!((found[0].kind.as_str(), found[0].bytes), ("wal", 100));
    }
}
