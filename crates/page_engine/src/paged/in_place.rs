//! Changes of pages that lie in durable memory, in place (*In-Stream Updates* of NVRAM-era).
//!
//! A change is made on copies of its pages first. The log gets the before images of the lines that
//! differ, and the undo of the row for the transaction; when that is durable, the lines are stored,
//! and when these are durable, the latches are released: two fences. Nothing is ever repeated, so
//! there is no redo: a page has every change whose latches another thread has had since.
//!
//! After a power cut each session may have been in the middle of its newest change, and of no
//! other, since the record of the next one was made after it. The pages show whether that change
//! was finished: a later change of one of them has left a record or a higher LSN in the page.
//! Otherwise the lines are restored and the record counts as never made: so it is undone whole,
//! whether it was finished or not, and nobody else has seen any of its changes.
//!
//! Invariants:
//! 1. No line of a page changes before its before image is durable in the log, except in pages that
//!    were free before.
//! 2. No latch of a change is released before all of its lines are durable.
//! 3. A page whose content a change has moved elsewhere is among its pages, also if nothing is done
//!    to it.
//! 4. Records that are given up are given up durably before anything else is logged, and after the
//!    pages have their old lines.
//!
//! After Pelley, Wenisch, Gold, Bridge: Storage Management in the NVRAM Era (VLDB 2013), "In-Stream
//! Updates". Its before-images are of pages; ours are of the lines that change.

use super::change::Touched;
use crate::buffer::horizon::{PartitionedLog, StreamSource};
use crate::buffer::{
    Edit, NewLines, PageAccess, Pool, ResidentPages, ResidentStore, UndoSpace, store,
};
use crate::page::{Draft, Head, Header, Misfit, PageId, Section};
use disk::Directory;
use pmem::Page;
use std::collections::HashMap;
use std::ops::Range;
use storage::log::Lsn;
use storage::record::{DecodeError, Reader};
use storage::{Result, StorageError};

/// The new content of a page.
fn plan(touched: &Touched<'_>) -> Result<Draft, Misfit> {
    let old = touched.guard.bytes();
    let section = Section::new(touched.guard.id(), &touched.ops);
    if touched.is_new && section.is_whole() {
        // The content of a free page may be in a cache only, left by a change that was given up.
        return Draft::whole(&section, old.len());
    }
    let draft = Draft::of(&section, old)?;
    touched
        .guard
        .record_access(PageAccess::Ranges(draft.read()));
    Ok(draft)
}

/// Logs a change of pages and makes it in place.
pub(super) fn change<D: Directory>(
    at: (&Pool<D>, &ResidentPages),
    pages: &mut [Touched<'_>],
    head: (&Head<'_>, UndoSpace),
    buffer: &mut Vec<u8>,
) -> Result<Lsn> {
    let plan = |touched: &Touched<'_>| {
        plan(touched).map_err(|Misfit| {
            let text = "the page does not fit what it was to become";
            at.0.file().damage(touched.guard.id(), text)
        })
    };
    // Most changes are of one page, and need no list.
    if let [touched] = pages {
        let draft = &mut [plan(touched)?];
        return make(at, (pages, draft), head, buffer);
    }
    let drafts: Result<Vec<_>> = pages.iter().map(plan).collect();
    make(at, (pages, &mut drafts?), head, buffer)
}

/// Logs what pages were and stores what they are going to be.
fn make<D: Directory>(
    (pool, resident): (&Pool<D>, &ResidentPages),
    (pages, drafts): (&mut [Touched<'_>], &mut [Draft]),
    (head, reserve): (&Head<'_>, UndoSpace),
    buffer: &mut Vec<u8>,
) -> Result<Lsn> {
    assert_eq!(pages.len(), drafts.len(), "each page has a draft");
    let mut record = pool.log().begin_record(buffer);
    record.head(head);
    for (touched, draft) in pages.iter().zip(&*drafts) {
        record.section(touched.guard.id(), draft.before());
    }
    let lsn = pool.log().insert(reserve, record)?;
    for (touched, draft) in pages.iter().zip(&mut *drafts) {
        draft.seal(touched.guard.bytes(), lsn);
        debug_assert!(
            draft.lines().is_empty() || Header(draft.bytes()).lsn() == lsn,
            "a changed page does not name its record"
        );
    }
    let changes = pages.iter_mut().zip(&*drafts);
    let changes = changes.map(|(touched, draft)| NewLines {
        guard: &mut touched.guard,
        new: draft.bytes(),
        lines: draft.lines(),
    });
    let stored = store(resident, reserve.session(), changes);
    stored.inspect_err(|error| pool.log().refuse(error))?;
    Ok(lsn)
}

fn unreadable(lsn: Lsn, error: &DecodeError) -> StorageError {
    let text = format!("the log record at {} cannot be read: {error}", lsn.0);
    StorageError::Unsupported(text)
}

/// The sections of a record.
fn sections(lsn: Lsn, record: &[u8]) -> Result<Vec<Section<'_>>> {
    let mut reader = Reader::new(record);
    Head::decode(&mut reader).map_err(|error| unreadable(lsn, &error))?;
    let mut sections = Vec::new();
    while reader.remaining() > 0 {
        let section = Section::decode(&mut reader);
        sections.push(section.map_err(|error| unreadable(lsn, &error))?);
    }
    Ok(sections)
}

/// Undoes the changes that may be unfinished, and returns their number. The pages are those from
/// `first` on, in their order.
pub fn undo_unfinished<P: StreamSource>(
    log: &PartitionedLog<P>,
    resident: &dyn ResidentStore,
    first: PageId,
    pages: &mut [Page],
) -> Result<u64> {
    let mut changed: HashMap<PageId, Lsn> = HashMap::new();
    log.visit(&mut |lsn, _, record| {
        for section in sections(lsn, record)? {
            // In the order of their numbers.
            changed.insert(section.page, lsn);
        }
        Ok(())
    })?;
    let mut newest: Vec<(Lsn, Vec<u8>)> = Vec::new();
    log.visit_newest(&mut |lsn, _, record| {
        newest.push((lsn, record.to_vec()));
        Ok(())
    })?;
    newest.sort_unstable_by_key(|(lsn, _)| std::cmp::Reverse(*lsn));
    let mut given_up = Vec::new();
    for (lsn, record) in &newest {
        let sections = sections(*lsn, record)?;
        let place = |id: PageId| id.0.checked_sub(first.0).map(|place| place as usize);
        let is_finished = sections.iter().any(|section| {
            let page = place(section.page).and_then(|place| pages.get(place));
            let in_page = page.map(|page| Header(page.bytes()).lsn());
            in_page > Some(*lsn) || changed.get(&section.page) > Some(lsn)
        });
        if is_finished || sections.is_empty() {
            continue;
        }
        for section in &sections {
            let page = place(section.page).and_then(|place| pages.get_mut(place));
            let found = page.ok_or(Misfit).and_then(|page| {
                let (old, lines) = before(page.bytes(), section)?;
                Ok((page, old, lines))
            });
            let (page, new, lines) = found.map_err(|Misfit| {
                let text = format!("the log record at {} does not fit {}", lsn.0, section.page);
                StorageError::Unsupported(text)
            })?;
            let (new, lines) = (&new, &lines);
            resident.store(0, &mut [Edit { page, new, lines }])?;
        }
        given_up.push(*lsn);
    }
    log.give_up(&given_up);
    Ok(given_up.len() as u64)
}

/// The page before a section, and the lines to restore: all that the section names, also those that
/// look right, since their content may be in a cache only.
fn before(page: &[u8], section: &Section<'_>) -> Result<(Vec<u8>, Vec<Range<usize>>), Misfit> {
    let mut old = page.to_vec();
    section.apply_all(&mut old)?;
    Ok((old, section.changed()?))
}
