//! Log segments and checkpoints, read from files in DRAM.
//!
//! The seeds are logs of several segments, with a torn tail and with a marked end, and checkpoints
//! of a wide table. What the log hands out is taken apart as recovery does it.

use super::records::{replay_record, tables};
use super::{Target, told};
use crate::files::MemoryFiles;
use crate::find::seals_of;
use crate::input::Input;
use crate::mutate::Seed;
use disk::Directory;
use std::sync::Arc;
use storage::engine::{CommitTicket, LogImages};
use storage::log::checkpoint::{
    CheckpointEntry, CheckpointHead, CheckpointReader, CheckpointWriter,
};
use storage::log::redo::{self, Fate};
use storage::log::{LogIdentity, LogStart, Wal, WalOptions};
use storage::record::{LayoutKind, Row, TableDef, TupleLayout, Value};

const IDENTITY: LogIdentity = LogIdentity {
    database: 0xf022,
    partition: 0,
};
const OPTIONS: WalOptions = WalOptions {
    segment_bytes: 4096,
    long_segment_bytes: 0,
    buffer_bytes_max: 1024,
    spare_bytes_max: 0,
    reserve_bytes: 0,
};
const ROWS: i64 = 60;

/// The targets of this file.
pub(super) fn targets() -> Vec<Target> {
    vec![
        Target::new("wal", wal_seeds, run_wal),
        Target::new("checkpoint", checkpoint_seeds, run_checkpoint),
    ]
}

fn small_table() -> TableDef {
    tables().swap_remove(1)
}

/// Row number `id` of the small table.
fn row(def: &TableDef, id: i64) -> Result<Row, String> {
    let mut row = Row::new(Arc::new(TupleLayout::new(def, LayoutKind::Together)));
    row.set(0, id).map_err(told)?;
    let note = (id % 3 != 0).then(|| Value::Text("note ".repeat((id % 7) as usize)));
    row.set(1, note.as_ref()).map_err(told)?;
    Ok(row)
}

fn wal_seeds() -> Result<Vec<Seed>, String> {
    let def = small_table();
    let mut seeds = Vec::new();
    for closed in [false, true] {
        let files = MemoryFiles::default();
        let mut wal = Wal::open(&files, IDENTITY, OPTIONS, LogStart::NEW, &mut |_, _| Ok(()))
            .map_err(told)?;
        for id in 0..ROWS {
            let mut record = redo::RedoRecord::new(LogImages::After);
            record.insert(def.id, &row(&def, id)?);
            let bytes = record.seal(Fate::Committed, CommitTicket(id as u64 + 1));
            wal.append(&files, bytes).map_err(told)?;
            if id % 5 == 0 {
                wal.flush().map_err(told)?;
            }
        }
        if closed {
            wal.close(&files).map_err(told)?;
        }
        let input = files.input();
        let seals = seals_of(&input, 0);
        seeds.push(Seed::new(input, seals));
    }
    Ok(seeds)
}

fn run_wal(input: &Input) -> bool {
    let files = MemoryFiles::of(input);
    let def = small_table();
    let opened = Wal::open(
        &files,
        IDENTITY,
        OPTIONS,
        LogStart::NEW,
        &mut |_, payload| {
            replay_record(payload, &def);
            Ok(())
        },
    );
    let Ok(mut wal) = opened else { return false };
    let verified = wal.verify(&files).is_ok();
    let _ = wal.append(&files, b"life goes on");
    let _ = wal.close(&files);
    verified
}

fn checkpoint_seeds() -> Result<Vec<Seed>, String> {
    let files = MemoryFiles::default();
    let head = CheckpointHead {
        number: 1,
        start: LogStart::NEW,
        ticket: CommitTicket(9),
        settings: [1, 512],
    };
    let mut writer = CheckpointWriter::create(&files, IDENTITY, head).map_err(told)?;
    for def in tables() {
        writer.table(&def).map_err(told)?;
    }
    let def = small_table();
    writer.table(&def).map_err(told)?;
    for id in 0..ROWS {
        writer.row(def.id, &row(&def, id)?).map_err(told)?;
    }
    writer.finish().map_err(told)?;
    writer.publish(&files).map_err(told)?;
    let input = files.input();
    let seals = seals_of(&input, 0);
    Ok(vec![Seed::new(input, seals)])
}

fn run_checkpoint(input: &Input) -> bool {
    let files = MemoryFiles::of(input);
    if files.list().is_err() {
        return false;
    }
    let Ok(mut reader) = CheckpointReader::open_newest(&files, IDENTITY) else {
        return false;
    };
    let mut row: Option<Row> = None;
    let read = reader.read(&mut |entry| {
        match entry {
            CheckpointEntry::Table(def) => {
                let layout = TupleLayout::new(&def, LayoutKind::Separate);
                row = Some(Row::new(Arc::new(layout)));
            }
            CheckpointEntry::Rows(_) => {}
            CheckpointEntry::Row(image) => {
                if let Some(row) = &mut row {
                    let _ = redo::read_row(image, row);
                }
            }
        }
        Ok(())
    });
    read.is_ok()
}
