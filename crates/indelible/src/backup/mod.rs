//! Copies of a whole database: backup into one file, restore from it, and conversion to another
//! method.
//!
//! All three are one path with two ends. A *source* hands out tables and rows as one moment of the
//! database: an open database ([`source`]) or a backup file ([`read`]). A *sink* receives them: a
//! backup file ([`write`]) or a new database ([`load`]). Rows travel in the stable form of the redo
//! log, one at a time, so memory is bounded by one block and one batch of rows.
//!
//! Invariants:
//! 1. A backup is one transaction over all partitions, made durable before the first row is read.
//! 2. A file has its name only when all of it is durable. A database has its name only when all of
//!    it is durable, and it was closed, opened again, and read back with the rows and the content
//!    checksum of its source.
//! 3. A backup that is damaged anywhere is refused as a whole: each block has a checksum, the
//!    trailer has counts and a checksum of the whole file, and nothing may follow.
//!
//! | module | job |
//! |---|---|
//! | `copy` | the common part of source and sink: the sink's interface, progress and report |
//! | `content` | row counts and content checksums that do not depend on the order of rows |
//! | `format` | header, blocks and trailer of a file |
//! | `source` | reading an open database |
//! | `write`, `read` | a backup file as a sink and as a source |
//! | `load` | a new database as a sink |
//! | `pages` | pages instead of rows, and the replay of an archive of the log |
//! | `build` | a new database under its name only when it is complete |

mod build;
mod content;
mod copy;
mod format;
mod load;
mod pages;
mod read;
mod source;
mod write;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::options::Options;
use copy::Nowhere;
pub use copy::{CopyProgress, CopyReport, CopyStage, CopyWatch, ReplayEnd, ReplayReport};
pub use disk::Existing;
use disk::{Directory, File as _, OutputFile};
use format::{Header, Holds};
use load::Loader;
pub use pages::Replay;
use pmem::site;
use read::BackupReader;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};
use write::BackupWriter;

/// Bytes that are read from a backup at once.
const READ_BYTES: usize = 256 << 10;
/// A backup has all that is in a database, whose files belong to their user alone.
const FILE_MODE: u32 = 0o600;

impl Database {
    /// Writes the whole database into one new file: a consistent copy while this process goes on
    /// running transactions.
    ///
    /// The copy shows one moment. All partitions are held while rows are read and compressed.
    /// Writers *and* readers wait for that time ([`CopyReport::held`]), and get [`Error::Conflict`]
    /// if their wait limit is shorter. The file is synced after the partitions are free again. A
    /// failure, such as a full disk, leaves no file.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<CopyReport> {
        self.backup_with(path, Existing::Refuse, &mut |_| {})
    }

    /// As [`Database::backup`], over a file that exists or with a view of the progress. A replaced
    /// file keeps its mode and its owner, a symbolic link is followed, and anything but a regular
    /// file, such as a pipe, is written in place.
    pub fn backup_with(
        &self,
        path: impl AsRef<Path>,
        existing: Existing,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        self.backup_file(path.as_ref(), existing, Holds::Rows, watch)
    }

    /// As [`Database::backup_with`], of pages: the records of an archive of the log can be replayed
    /// over such a backup ([`Database::restore_replaying`]). A checkpoint is written first.
    ///
    /// # Errors
    /// A method without pages in files.
    pub fn backup_pages(
        &self,
        path: impl AsRef<Path>,
        existing: Existing,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        let holds = Holds::pages_of(self.partitions());
        self.backup_file(path.as_ref(), existing, holds, watch)
    }

    fn backup_file(
        &self,
        path: &Path,
        existing: Existing,
        holds: Holds,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        let refused = |source| Error::Io {
            action: "write",
            path: path.to_owned(),
            source,
        };
        let mut out = OutputFile::create(path, existing, FILE_MODE).map_err(refused)?;
        let report = self.backup_named(&mut out, path, holds, watch)?;
        out.finish().map_err(refused)?;
        Ok(report)
    }

    /// As [`Database::backup_with`], into a directory of any device, which has regular files only.
    pub fn backup_on(
        &self,
        files: &impl Directory,
        name: &str,
        existing: Existing,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        let check = || -> Result<()> {
            if existing == Existing::Refuse && files.exists(name)? {
                return Err(build::exists(name));
            }
            Ok(())
        };
        check()?;
        let temporary = format!("{name}.partial-{}", std::process::id());
        if files.exists(&temporary)? {
            files.remove(&temporary)?;
        }
        let written = (|| {
            let file = files.create(&temporary)?;
            let mut out = FileOut { file, offset: 0 };
            let report = self.backup_named(&mut out, Path::new(name), Holds::Rows, watch)?;
            out.file.sync(site!("backup.bytes"))?;
            drop(out);
            match existing {
                Existing::Refuse => {
                    check()?;
                    files.rename_new(&temporary, name)?;
                }
                Existing::Replace => files.rename(&temporary, name)?,
            }
            // commit point: a file of this name is a whole backup.
            files.sync(site!("backup.name"))?;
            Ok(report)
        })();
        if written.is_err() && files.exists(&temporary).is_ok_and(|is_there| is_there) {
            // The first error is the one to report.
            let _ = files.remove(&temporary);
        }
        written
    }

    /// As [`Database::backup`], into a stream, which is neither synced nor taken back after a
    /// failure. The written bytes are a backup only if this returns `Ok`.
    pub fn backup_to(&self, out: &mut impl Write, watch: CopyWatch<'_>) -> Result<CopyReport> {
        self.backup_named(out, Path::new("the backup"), Holds::Rows, watch)
    }

    /// As [`Database::backup_to`], of pages ([`Database::backup_pages`]).
    pub fn backup_pages_to(
        &self,
        out: &mut impl Write,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        let holds = Holds::pages_of(self.partitions());
        self.backup_named(out, Path::new("the backup"), holds, watch)
    }

    fn backup_named(
        &self,
        out: &mut impl Write,
        name: &Path,
        holds: Holds,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let header = Header {
            holds,
            descriptor: self.core.descriptor,
            taken_s: since.map_or(0, |since| since.as_secs()),
        };
        let mut writer = BackupWriter::new(out, name, &header)?;
        let (totals, held) = match holds {
            Holds::Rows => source::read(self, CopyStage::Rows, &mut writer, watch)?,
            Holds::Pages | Holds::PartitionPages => pages::read(self, &mut writer, watch)?,
        };
        let file_bytes = writer.finish(&totals)?;
        Ok(CopyReport::new(self.method(), &totals, file_bytes, held))
    }

    /// Makes a new database at `path` from a backup file. `options` are those in which it differs
    /// from the database that was backed up: method, partitions, layout, node size, domain. All
    /// others stay as they were.
    ///
    /// All or nothing: the database appears at `path`, which must not exist or be an empty
    /// directory, after all checksums were found right and it was read back. A failure leaves
    /// nothing.
    pub fn restore(
        file: impl AsRef<Path>,
        path: impl AsRef<Path>,
        options: &Options,
    ) -> Result<CopyReport> {
        Self::restore_with(file, path, options, &mut |_| {})
    }

    /// As [`Database::restore`], with a view of the progress.
    pub fn restore_with(
        file: impl AsRef<Path>,
        path: impl AsRef<Path>,
        options: &Options,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        let file = file.as_ref();
        let mut input = open_backup(file)?;
        Self::restore_named(&mut input, file, path.as_ref(), options, None, watch)
    }

    /// As [`Database::restore_with`], from a backup of pages ([`Database::backup_pages`]) and an
    /// archive of the same database's log ([`Options::archive`]). The new database is as the old
    /// one was at the end of the archive, or at an earlier point. Transactions that had not
    /// committed by then are not in it. Each of several partitions has an archive with its own end:
    /// the new database is as of the newest mark that all of them have
    /// ([`Options::mark_interval`]), or the newest up to a time.
    ///
    /// # Errors
    /// A backup of rows. A missing, cut off, foreign or damaged file of the archive, with its name
    /// and the last point that can be reached. A point that the archive does not have.
    pub fn restore_replaying(
        file: impl AsRef<Path>,
        replay: &Replay,
        path: impl AsRef<Path>,
        options: &Options,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        let file = file.as_ref();
        let mut input = open_backup(file)?;
        Self::restore_named(
            &mut input,
            file,
            path.as_ref(),
            options,
            Some(replay),
            watch,
        )
    }

    /// As [`Database::restore_with`], or with a `replay` as [`Database::restore_replaying`], from a
    /// stream that is read once, such as a pipe. This is all or nothing too: all checksums are
    /// compared before the database has its name.
    pub fn restore_from(
        input: &mut dyn Read,
        replay: Option<&Replay>,
        path: impl AsRef<Path>,
        options: &Options,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        let (mut input, name) = (buffered(input), Path::new("the backup"));
        Self::restore_named(&mut input, name, path.as_ref(), options, replay, watch)
    }

    fn restore_named(
        input: &mut dyn Read,
        name: &Path,
        path: &Path,
        options: &Options,
        replay: Option<&Replay>,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        let mut reader = BackupReader::new(input, name)?;
        let recorded = reader.header().descriptor;
        if reader.header().holds != Holds::Rows {
            let restored = pages::restore(&mut reader, path, options, replay, watch);
            let (method, totals, replayed) = restored?;
            let mut report = CopyReport::new(method, &totals, reader.file_bytes(), Duration::ZERO);
            report.replayed = Some(replayed);
            return Ok(report);
        }
        if replay.is_some() {
            return Err(Error::option(
                "replay",
                "the backup has rows, and records of a log say what becomes of pages",
                "use a backup of pages (`backup --pages`), or leave the option out",
            ));
        }
        let load = |loader: &mut Loader<'_>, watch: CopyWatch<'_>| reader.read(loader, watch);
        let (method, totals) = build::build(path, &recorded, options, watch, load)?;
        Ok(CopyReport::new(
            method,
            &totals,
            reader.file_bytes(),
            Duration::ZERO,
        ))
    }

    /// Fills this database, which must have no tables, from a backup. A failure drops the tables
    /// that were made, at the latest when the end of the backup is found damaged; other users of
    /// the database see them until then.
    pub fn restore_into(&self, input: &mut impl Read, watch: CopyWatch<'_>) -> Result<CopyReport> {
        if let Some(table) = self.all_tables().first() {
            let table = table.name().to_owned();
            return Err(Error::TableExists { table });
        }
        let mut reader = BackupReader::new(input, Path::new("the backup"))?;
        let mut loader = Loader::new(self);
        let filled = reader.read(&mut loader, watch);
        if filled.is_err() {
            loader.take_back();
        }
        let (totals, bytes) = (filled?, reader.file_bytes());
        self.find_prepared()?;
        Ok(CopyReport::new(
            self.method(),
            &totals,
            bytes,
            Duration::ZERO,
        ))
    }

    /// Reads a backup file to its end and checks everything in it, without restoring it.
    pub fn check_backup(file: impl AsRef<Path>, watch: CopyWatch<'_>) -> Result<CopyReport> {
        let file = file.as_ref();
        Self::check_named(&mut open_backup(file)?, file, watch)
    }

    /// As [`Database::check_backup`], of a stream.
    pub fn check_backup_from(input: &mut dyn Read, watch: CopyWatch<'_>) -> Result<CopyReport> {
        Self::check_named(&mut buffered(input), Path::new("the backup"), watch)
    }

    fn check_named(input: &mut dyn Read, name: &Path, watch: CopyWatch<'_>) -> Result<CopyReport> {
        let mut reader = BackupReader::new(input, name)?;
        let method = reader.header().descriptor.method;
        let totals = reader.read(&mut Nowhere, watch)?;
        Ok(CopyReport::new(
            method,
            &totals,
            reader.file_bytes(),
            Duration::ZERO,
        ))
    }

    /// Copies this database into a new one at `path`, with another method or other options. It is a
    /// backup into a restore without the file between them, and all or nothing as well. The
    /// partitions of this database are held until all rows are copied.
    pub fn convert(
        &self,
        path: impl AsRef<Path>,
        options: &Options,
        watch: CopyWatch<'_>,
    ) -> Result<CopyReport> {
        let mut held = Duration::ZERO;
        let recorded = &self.core.descriptor;
        let fill = |loader: &mut Loader<'_>, watch: CopyWatch<'_>| {
            let (totals, time) = source::read(self, CopyStage::Rows, loader, watch)?;
            held = time;
            Ok(totals)
        };
        let (method, totals) = build::build(path.as_ref(), recorded, options, watch, fill)?;
        Ok(CopyReport::new(method, &totals, 0, held))
    }
}

fn open_backup(path: &Path) -> Result<BufReader<File>> {
    let opened = File::open(path).map_err(|source| Error::Io {
        action: "open the backup",
        path: path.to_owned(),
        source,
    })?;
    Ok(buffered(opened))
}

fn buffered<R: Read>(input: R) -> BufReader<R> {
    BufReader::with_capacity(READ_BYTES, input)
}

/// A file of a device as a stream.
struct FileOut<F: disk::File> {
    file: F,
    offset: u64,
}

impl<F: disk::File> Write for FileOut<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write_at(self.offset, bytes);
        written.map_err(io::Error::other)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
