//! Opening of a partitioned log: decides which of the records in its streams count, and settles
//! that for ever.
//!
//! Records are read from all streams and put in the order of their numbers. Redo records count up
//! to the first number that is missing; undo records all count. Recovery reads them (`visit`), may
//! give some up, and settles: then the records that count are durable, and the others do not count
//! at any later opening.

use super::{Content, PartitionedLog, StreamSource, VisitRecord};
use storage::Result;
use storage::log::Lsn;
use storage::log::numbered::{Found, FoundRecords, Stream};
use storage::sync::{MutexGuard, Ordering, lock};

/// Of records in their order those from `start` on that follow each other without a gap, up to the
/// first number that two of them have; and the number after them.
pub(in crate::buffer) fn without_gaps(
    all: &[(u32, Found)],
    start: Lsn,
) -> (Vec<(u32, Found)>, Lsn) {
    let (mut kept, mut end) = (Vec::with_capacity(all.len()), start);
    for (stream, found) in all {
        if found.from == end {
            end = Lsn(found.lsn.0 + 1);
            kept.push((*stream, *found));
        } else if found.from > end || Lsn(found.lsn.0 + 1) == end {
            break;
        }
        // Else its number is unused.
    }
    (kept, end)
}

impl<P: StreamSource> PartitionedLog<P> {
    /// All records from `start` on that no later life has cut off, in their order, and what they
    /// prove.
    pub(super) fn read(&self, start: Lsn) -> Result<(Vec<(u32, Found)>, FoundRecords)> {
        let (mut all, mut proofs) = (Vec::new(), FoundRecords::default());
        let (life, cut) = self.stream(0)?.state().records.life()?;
        for (stream, number) in self.streams().zip(0_u32..) {
            let records = stream.state().records.records(start)?;
            proofs.known = proofs.known.max(records.known);
            proofs.taken = proofs.taken.max(records.taken);
            if records.end.0 > proofs.end.0 {
                proofs.end = records.end;
            }
            let counts = |found: &Found| found.lsn < cut || found.life == life;
            let found = records.found.into_iter().filter(counts);
            all.extend(found.map(|found| (number, found)));
        }
        all.sort_unstable_by_key(|(_, found)| (found.from, found.lsn));
        Ok((all, proofs))
    }

    /// Finds the records that count: redo records from `start` on without a gap, and all undo
    /// records.
    pub(super) fn find(&self, start: Lsn) -> Result<()> {
        let (all, proofs) = self.read(start)?;
        let (mut kept, mut end) = without_gaps(&all, start);
        // Records before a checkpoint were durable once.
        let known = proofs.known.max(self.start);
        if known > end {
            for (number, files) in (0_u32..).zip(&proofs.end.1) {
                if let Some(error) = self.source.gone(number, files)? {
                    return Err(error);
                }
            }
            let first = self.stream(0)?.state();
            return Err(first.records.damaged(&format!(
                "record {} of the log is gone, or cannot be read, and was durable once",
                end.0
            )));
        }
        if self.options.content == Content::Undo && kept.len() < all.len() {
            self.has_gaps.store(true, Ordering::SeqCst);
            end = all.last().map_or(end, |(_, found)| Lsn(found.lsn.0 + 1));
            kept = all;
        }
        if end.max(proofs.taken) >= Lsn::END {
            let first = self.stream(0)?.state();
            return Err(first
                .records
                .damaged("a record has a number that no log gets to"));
        }
        self.known.store(known.0, Ordering::Relaxed);
        self.taken.store(proofs.taken.0, Ordering::Relaxed);
        self.next.store(end.0, Ordering::SeqCst);
        *self.found() = kept;
        Ok(())
    }

    pub(super) fn found(&self) -> MutexGuard<'_, Vec<(u32, Found)>> {
        lock(&self.found)
    }

    /// Hands every record that was found and is not given up to `visit`, with a session of its
    /// ring, in their order; marks have nothing in them.
    pub fn visit(&self, visit: &mut VisitRecord<'_>) -> Result<()> {
        for (number, found) in &*self.found() {
            if found.is_given_up || found.lsn < self.start {
                continue;
            }
            let mut stream = self.stream(*number)?.state();
            match stream.records.payload(found)? {
                [] => {}
                record => visit(found.lsn, *number, record)?,
            }
        }
        Ok(())
    }

    /// Hands the newest record of each stream to `visit`, unless it is a mark or there was another
    /// one: of those it is not certain that they have been done.
    pub fn visit_newest(&self, visit: &mut VisitRecord<'_>) -> Result<()> {
        let mut newest: Vec<Option<Found>> = vec![None; self.streams().count()];
        for (number, found) in &*self.found() {
            newest[*number as usize] = Some(*found);
        }
        for (number, found) in (0..).zip(newest) {
            // If the newest one is given up, the earlier ones have been done.
            let Some(found) = found.filter(|found| !found.is_given_up) else {
                continue;
            };
            let mut stream = self.stream(number)?.state();
            match stream.records.payload(&found)? {
                [] => {}
                record => visit(found.lsn, number, record)?,
            }
        }
        Ok(())
    }

    /// Lets records that were found tell of nothing, from [`PartitionedLog::settle`] on for ever.
    pub fn give_up(&self, records: &[Lsn]) {
        for (_, found) in self.found().iter_mut() {
            found.is_given_up |= records.contains(&found.lsn);
        }
    }

    /// Makes what was found durable, and everything else undone.
    pub fn settle(&self) -> Result<()> {
        let end = Lsn(self.next.load(Ordering::SeqCst));
        let known = Lsn(self.known.load(Ordering::Relaxed));
        let from = match self.options.content {
            Content::Redo => end,
            Content::Undo => self.start,
        };
        let mut kept = vec![Vec::new(); self.streams().count()];
        for (number, found) in &*self.found() {
            kept[*number as usize].push(*found);
        }
        for (stream, kept) in self.streams().zip(kept) {
            let mut state = stream.state();
            let settled = state.records.settle(&kept, known, from);
            self.durable_step(settled)?;
            // They count as long as no checkpoint comes after them.
            let needed = kept.iter().filter(|found| found.lsn >= self.start);
            let bytes: u64 = needed.map(Found::bytes).sum();
            let since = bytes.min(state.records.tail());
            state.checkpoint = state.records.tail() - since;
            state.ended = state.checkpoint;
            stream.note_since(&state);
        }
        self.learned(end);
        Ok(())
    }
}
