//! The checkpoint's file alone: what is written is read again, and what is refused.
//!
//! On the simulated disk. How a checkpoint goes together with the log, and what a power cut leaves,
//! is tested with the engine.

use super::*;
use crate::log::redo::read_row;
use crate::record::{Column, DataType, LayoutKind, TupleLayout};
use disk::simulated::{Call, Effect, Fault, Repeat, SimulatedDirectory};
use pmem::device::simulated::{ImageChoice, SimulatedWorld, WorldOptions};
use std::io::ErrorKind;
use std::sync::Arc;

const IDENTITY: LogIdentity = LogIdentity {
    database: 9,
    partition: 1,
};

fn head() -> CheckpointHead {
    CheckpointHead {
        number: 1,
        start: LogStart::NEW,
        ticket: CommitTicket(7),
        settings: [0, 512],
    }
}

fn table(id: u32) -> TableDef {
    let columns = vec![
        Column::new("id", DataType::Int64),
        Column::new("text", DataType::Text),
    ];
    TableDef::new(TableId(id), format!("t{id}"), columns, vec![0])
}

fn row(id: i64, text: &str) -> Row {
    let layout = TupleLayout::new(&table(0), LayoutKind::Together);
    let mut row = Row::new(Arc::new(layout));
    row.set(0, id).unwrap();
    row.set(1, text).unwrap();
    row
}

fn directory() -> SimulatedDirectory {
    SimulatedDirectory::new(&SimulatedWorld::new(WorldOptions::default()))
}

/// A checkpoint of two tables whose rows come in turns.
fn written(directory: &SimulatedDirectory) {
    let mut writer = CheckpointWriter::create(directory, IDENTITY, head()).unwrap();
    writer.table(&table(0)).unwrap();
    writer.table(&table(1)).unwrap();
    for id in 0..6_u32 {
        let row = row(id.into(), "some text");
        writer.row(TableId(id % 2), &row).unwrap();
    }
    writer.finish().unwrap();
    writer.publish(directory).unwrap();
}

/// The tables and keys of all rows.
fn content(directory: &SimulatedDirectory) -> Result<Vec<(u32, i64)>> {
    let mut found = Vec::new();
    let mut current = None;
    let mut reader = CheckpointReader::open_newest(directory, IDENTITY)?;
    reader.read(&mut |entry| {
        match entry {
            CheckpointEntry::Table(def) => current = Some(def.id),
            CheckpointEntry::Rows(id) => current = Some(id),
            CheckpointEntry::Row(image) => {
                let mut read = row(0, "");
                read_row(image, &mut read).unwrap();
                let crate::record::ValueRef::Int64(id) = read.get(0) else {
                    panic!("not an integer")
                };
                found.push((current.unwrap().0, id));
            }
        }
        Ok(())
    })?;
    Ok(found)
}

/// Changes the file's bytes.
fn patch(directory: &SimulatedDirectory, change: impl FnOnce(&mut Vec<u8>)) {
    let name = IDENTITY.file_name(KIND, 1);
    let mut file = directory.open(&name).unwrap();
    let mut data = vec![0; file.bytes().unwrap() as usize];
    file.read_at(0, &mut data).unwrap();
    change(&mut data);
    file.set_bytes(data.len() as u64).unwrap();
    file.write_at(0, &data).unwrap();
}

fn set_header_checksum(data: &mut [u8], fields_bytes: usize) {
    let checksum = crc32c::crc32c(&data[..fields_bytes]).to_le_bytes();
    data[fields_bytes..fields_bytes + 4].copy_from_slice(&checksum);
}

#[test]
fn rows_of_several_tables_may_come_in_turns() {
    let directory = directory();
    written(&directory);
    let expected: Vec<_> = (0..6_u32).map(|id| (id % 2, i64::from(id))).collect();
    assert_eq!(content(&directory).unwrap(), expected);
}

#[test]
fn a_long_checkpoint_is_synced_in_pieces() {
    let directory = directory();
    let mut writer = CheckpointWriter::create(&directory, IDENTITY, head()).unwrap();
    writer.table(&table(0)).unwrap();
    // Bytes that LZ4 cannot make fewer.
    let mut state = 1_u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b' ' + (state >> 58) as u8)
    };
    for id in 0..80 {
        let text: String = (0..100_000).map(|_| noise()).collect();
        writer.row(TableId(0), &row(id, &text)).unwrap();
    }
    let syncs = directory.counters().syncs;
    assert!(syncs >= 5, "{syncs} syncs");
    writer.finish().unwrap();
    assert!(directory.counters().syncs == syncs + 1);
    writer.publish(&directory).unwrap();
    assert_eq!(content(&directory).unwrap().len(), 80);
}

#[test]
fn a_row_that_no_checkpoint_can_hold_is_refused_by_name() {
    let directory = directory();
    let mut writer = CheckpointWriter::create(&directory, IDENTITY, head()).unwrap();
    writer.entry_bytes_max = 1000;
    writer.table(&table(0)).unwrap();
    writer.row(TableId(0), &row(1, &"x".repeat(900))).unwrap();
    let error = writer
        .row(TableId(0), &row(2, &"x".repeat(1100)))
        .unwrap_err();
    assert!(is_harmless(&error));
    let message = error.to_string();
    assert!(
        message.contains("`t0`") && message.contains("shorten"),
        "{message}"
    );
}

#[test]
fn a_block_cannot_claim_more_than_its_bytes_expand_to() {
    let directory = directory();
    written(&directory);
    patch(&directory, |data| {
        let block = HEADER_BYTES;
        data[block + 8..block + 12].copy_from_slice(&(PLAIN_BYTES_MAX as u32).to_le_bytes());
        let seed = crc32c::crc32c(&data[..FIELDS_BYTES]);
        let checksum = block_checksum(seed, 0, &data[block + 4..]);
        data[block..block + 4].copy_from_slice(&checksum.to_le_bytes());
    });
    let message = content(&directory).unwrap_err().to_string();
    assert!(message.contains("says that it holds"), "{message}");
}

#[test]
fn version_one_opens_and_unknown_versions_and_byte_orders_do_not() {
    let old = directory();
    let mut bytes = fields(1, IDENTITY, &head());
    let seed = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&seed.to_le_bytes());
    let mut plain = vec![Tag::End as u8, 8, 0, 0, 0];
    plain.extend_from_slice(&0_u64.to_le_bytes());
    let data = lz4_flex::block::compress(&plain);
    let mut rest = (data.len() as u32).to_le_bytes().to_vec();
    rest.extend_from_slice(&(plain.len() as u32).to_le_bytes());
    rest.extend_from_slice(&data);
    bytes.extend_from_slice(&block_checksum(seed, 0, &rest).to_le_bytes());
    bytes.extend_from_slice(&rest);
    let mut file = old.create(&IDENTITY.file_name(KIND, 1)).unwrap();
    file.write_at(0, &bytes).unwrap();
    assert_eq!(content(&old).unwrap(), []);
    for (at, bytes, expected) in [
        (8, 3_u32.to_le_bytes(), "version 3"),
        (8, 2_u32.to_be_bytes(), "little-endian"),
        (80, BYTE_ORDER.to_be_bytes(), "cannot be used"),
        (60, [0xff; 4], "impossibly large"),
    ] {
        let directory = directory();
        written(&directory);
        patch(&directory, |data| {
            data[at..at + 4].copy_from_slice(&bytes);
            set_header_checksum(data, FIELDS_BYTES);
        });
        let message = content(&directory).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_replaced_checkpoint_goes_in_pieces() {
    let directory = directory();
    let name = IDENTITY.file_name(KIND, 1);
    directory
        .create(&name)
        .unwrap()
        .set_bytes(40 << 20)
        .unwrap();
    let mut pieces = 1;
    while !remove_piece(&directory, IDENTITY, 1).unwrap() {
        pieces += 1;
    }
    assert_eq!(pieces, 3);
    assert!(!directory.exists(&name).unwrap());
}

#[test]
fn a_name_that_a_failed_sync_lost_is_durable_once_it_is_secured() {
    for is_first in [true, false] {
        let world = SimulatedWorld::new(WorldOptions::default());
        let directory = SimulatedDirectory::new(&world);
        if !is_first {
            written(&directory);
        }
        let head = CheckpointHead {
            number: if is_first { 1 } else { 2 },
            ..head()
        };
        let mut writer = CheckpointWriter::create(&directory, IDENTITY, head).unwrap();
        if !is_first {
            writer.table(&table(0)).unwrap();
        }
        writer.finish().unwrap();
        directory.inject(Fault {
            call: Call::Sync,
            nth: 0,
            repeat: Repeat::Once,
            effect: Effect::SyncLost(ErrorKind::Other),
        });
        writer.publish(&directory).unwrap_err();
        // The same life of the machine: the name is still seen.
        let secure = |directory: &SimulatedDirectory| {
            let mut reader = CheckpointReader::open_newest(directory, IDENTITY).unwrap();
            reader.secure(directory, is_first).unwrap();
            remove_older(directory, IDENTITY, reader.head().number).unwrap();
            assert_eq!(reader.head().number, head.number + 1);
            assert_eq!(reader.read(&mut |_| Ok(())).unwrap() > 13, !is_first);
        };
        secure(&directory);
        let image = world.image(&ImageChoice::default()).unwrap();
        let directory = SimulatedDirectory::new(&image);
        assert_eq!(directory.list().unwrap().len(), 1);
        secure(&directory);
        assert_eq!(image.stores(), 0);
    }
}

#[test]
fn a_checkpoint_with_an_earlier_number_in_its_name_is_foreign() {
    let directory = directory();
    let later = CheckpointHead {
        number: 5,
        ..head()
    };
    let mut writer = CheckpointWriter::create(&directory, IDENTITY, later).unwrap();
    writer.finish().unwrap();
    writer.publish(&directory).unwrap();
    let name = |number| IDENTITY.file_name(KIND, number);
    directory.rename(&name(5), &name(4)).unwrap();
    let error = content(&directory).unwrap_err();
    assert!(matches!(error, StorageError::ForeignFile { .. }), "{error}");
    directory.rename(&name(4), &name(6)).unwrap();
    assert_eq!(content(&directory).unwrap(), []);
}
