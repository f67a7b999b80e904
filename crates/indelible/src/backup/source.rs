//! An open database as a source: every table and row except statistics, as one moment.
//!
//! All partitions are held from the first row to the last, so the copy reads as if nothing else
//! ran. Where reads do not look at checksums of rows, the partitions are verified first: a copy
//! never has damaged values, under new checksums, for those of its source. Commits that did not
//! wait for durability are made durable first: a copy never has data that a crash could take from
//! its source.

use super::content::{Content, Totals};
use super::copy::{CopyStage, CopyWatch, Place, Sink};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::hidden;
use crate::scan::whole_table;
use crate::session::Session;
use crate::table::TableEntry;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use storage::log::redo::write_row;

/// Rows between two reports of progress.
const WATCH_ROWS: u64 = 512;

/// Hands everything to `sink`; returns its totals, and how long the partitions were held.
pub(super) fn read(
    database: &Database,
    stage: CopyStage,
    sink: &mut dyn Sink,
    watch: CopyWatch<'_>,
) -> Result<(Totals, Duration)> {
    let mut session = database.hold_all_to_look()?;
    let start = Instant::now();
    session.force()?;
    if stage == CopyStage::Rows {
        check_rows(&mut session)?;
    }
    let mut totals = Totals::default();
    for table in database.all_tables() {
        let entry = &table.entry;
        if !hidden::is_copied(entry.id) {
            continue;
        }
        let def = &entry.current().def;
        sink.table(def)?;
        let content = read_rows(&mut session, entry, stage, &mut totals, sink, watch)?;
        totals.add(def, content);
        sink.end_table(watch)?;
    }
    drop(session);
    Ok((totals, start.elapsed()))
}

/// Fails if rows are damaged and the method would read them without noticing.
fn check_rows(session: &mut Session<'_>) -> Result<()> {
    let descriptor = &session.core.descriptor;
    if !descriptor.method.reads_unchecked() {
        return Ok(());
    }
    for partition in 0..descriptor.partitions {
        let damage = session.idle_engine(partition)?.verify()?.damage;
        if let Some(first) = damage.first() {
            return Err(Error::Damaged {
                detail: format!("partition {partition}: {first}"),
                more: damage.len() - 1,
            });
        }
    }
    Ok(())
}

impl Database {
    /// Fails with [`Error::Damaged`] if rows are damaged and a copy that reads them would not
    /// notice: some methods read rows without a look at their checksums. Backups and conversions
    /// ask for it themselves.
    pub fn check_rows(&self) -> Result<()> {
        check_rows(&mut self.hold_all_to_look()?)
    }
}

fn read_rows(
    session: &mut Session<'_>,
    entry: &TableEntry,
    stage: CopyStage,
    totals: &mut Totals,
    sink: &mut dyn Sink,
    watch: CopyWatch<'_>,
) -> Result<Content> {
    let range = whole_table(entry)?;
    // Every partition has all rows of a replicated table.
    let partitions = if entry.replicated {
        1
    } else {
        session.core.descriptor.partitions
    };
    let mut content = Content::default();
    let mut image = Vec::new();
    for partition in 0..partitions {
        let mut taken = Ok(());
        session.engine(partition)?.scan(&range, &mut |row| {
            image.clear();
            write_row(row, &mut image);
            content.add(&image);
            totals.plain_bytes += image.len() as u64;
            taken = sink.row(&image);
            if content.rows.is_multiple_of(WATCH_ROWS) && taken.is_ok() {
                let place = Place {
                    stage,
                    table: &entry.shape.def.name,
                    rows: totals.rows + content.rows,
                    file_bytes: sink.file_bytes(),
                };
                taken = place.tell(watch);
            }
            if taken.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        taken?;
    }
    Ok(content)
}
