//! Arguments of `backup`, `restore` and `convert`.
//!
//! `restore` and `convert` take only the options in which the new database differs from the copied
//! one; all others stay as recorded.

use super::{DomainName, LayoutName};
use clap::Args;
use indelible::{Choice, MethodOption, Options, Timestamp};
use std::path::PathBuf;

pub(super) const BACKUP_EXAMPLES: &str = "\
Examples:
  indelible backup ./shop shop.backup
  indelible backup ./shop shop.backup --force --format json
  indelible backup --check shop.backup
  indelible backup --pages ./shop shop.pages
  indelible backup ./shop - | ssh other indelible restore - ./shop

The file appears under its name when it is complete and synced. A running database is backed up by the process that has it
open (Database::backup); this command needs it closed.";
pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  indelible restore shop.backup ./shop
  indelible restore shop.backup /dev/shm/shop --method nvm-inp --partitions 2
  indelible restore shop.backup ./shop --method nv-logging --log-directory /dev/shm/shop.log --archive ./shop.archive

  indelible restore shop.pages ./shop --replay ./shop.archive --until 81920
  indelible restore shop.pages ./shop --replay ./shop.archive --until 2026-11-25T03:00:00Z

All or nothing: a backup that is damaged anywhere restores nothing. With --replay the new database is as the old one was where
the archive ends, or at the place in the log or the time that --until names; `info` says which of them an archive has. Of several partitions
it is as at the newest mark that the archives of all have, or the newest up to a time; there --until takes no place.";
pub(super) const CONVERT_EXAMPLES: &str = "\
Example:
  indelible convert ./shop /dev/shm/shop --method nvm-inp

The new database is read back and compared with the old one, which stays as it is.";

/// `backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// Directory of the database
    #[arg(required_unless_present = "check")]
    pub(crate) path: Option<PathBuf>,
    /// The file to write; `-` for standard output. It must not exist, unless it is a pipe, a socket
    /// or a device
    #[arg(required_unless_present = "check")]
    pub(crate) file: Option<PathBuf>,
    /// Replace the file if it exists; the new one has its mode and owner
    #[arg(long)]
    pub(crate) force: bool,
    /// Back up pages instead of rows, so that `restore --replay` can replay an archive of the log
    /// over them; only for methods with pages in files
    #[arg(long)]
    pub(crate) pages: bool,
    /// Read this backup to its end and check every byte of it instead; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["path", "file", "force", "pages"])]
    pub(crate) check: Option<PathBuf>,
}

/// `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup; `-` for standard input
    pub(crate) file: PathBuf,
    /// Directory of the new database
    pub(crate) path: PathBuf,
    /// Storage method, or auto for the best on the medium; that of the backup if it is left out
    #[arg(long)]
    pub(crate) method: Option<Choice>,
    /// Directory of the archive of the log of the database that was backed up; its records after a
    /// backup of pages are replayed
    #[arg(long, value_name = "DIR")]
    pub(crate) replay: Option<PathBuf>,
    /// End of the replay: a position in the log, from which on records are left out, or a time such
    /// as 2026-11-25T03:00:00Z (UTC if it names no offset), up to which commits are included
    #[arg(long, value_name = "PLACE|TIME", requires = "replay", value_parser = until)]
    pub(crate) until: Option<UntilArg>,
    #[command(flatten)]
    pub(crate) database: OtherDatabaseArgs,
}

/// End of the replay of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UntilArg {
    /// Before this record.
    Place(u64),
    /// After the commits up to this time.
    Time(Timestamp),
}

fn until(text: &str) -> Result<UntilArg, String> {
    if let Ok(place) = text.parse() {
        return Ok(UntilArg::Place(place));
    }
    // As `info` prints it; digits after microseconds, as clocks give them, are cut.
    let mut plain = text.strip_suffix(" UTC").unwrap_or(text).to_owned();
    if let Some(dot) = plain.find('.') {
        let digits = plain[dot + 1..].bytes().take_while(u8::is_ascii_digit);
        let end = dot + 1 + digits.count();
        plain.replace_range(end.min(dot + 7)..end, "");
    }
    let time = Timestamp::parse(&plain).map(UntilArg::Time);
    time.ok_or_else(|| {
        "neither a place in the log, a number, nor a time such as 2026-11-25T03:00:00Z".to_owned()
    })
}

/// `convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// Directory of the new database
    pub(crate) new: PathBuf,
    /// Storage method of the new database, or auto for the best on the medium
    #[arg(long)]
    pub(crate) method: Choice,
    #[command(flatten)]
    pub(crate) database: OtherDatabaseArgs,
}

/// Options in which the new database differs from the copied one.
#[derive(Clone, Debug, Args)]
pub(crate) struct OtherDatabaseArgs {
    /// Number of partitions
    #[arg(long)]
    pub(crate) partitions: Option<u32>,
    /// Layout of tuples in memory
    #[arg(long, value_enum)]
    pub(crate) layout: Option<LayoutName>,
    /// Persistence domain that the medium must give; an error if it gives less
    #[arg(long, value_enum)]
    pub(crate) domain: Option<DomainName>,
    /// Bytes of an index node, a power of two from 256 to 8192; from 128 for nvm-inp and nvm-log,
    /// up to 16384 for cow, nvm-cow and pages
    #[arg(long)]
    pub(crate) node_bytes: Option<u32>,
    #[command(flatten)]
    pub(crate) places: PlacesArgs,
}

/// Directories outside the new database's own.
#[derive(Clone, Debug, Args)]
pub(crate) struct PlacesArgs {
    /// New or empty directory for the log of a page method, on a device that suits it, such as
    /// durable memory in addition to a disk
    #[arg(long, value_name = "DIR")]
    pub(crate) log_directory: Option<PathBuf>,
    /// Directory for log records that recovery no longer needs, of a page method with pages in
    /// files, instead of discarding them
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,
}

impl PlacesArgs {
    /// As options of a new database.
    pub(crate) fn method_options(&self) -> impl Iterator<Item = MethodOption> {
        let log = self.log_directory.clone().map(MethodOption::LogDirectory);
        let archive = self.archive.clone().map(MethodOption::Archive);
        log.into_iter().chain(archive)
    }
}

impl OtherDatabaseArgs {
    /// The options of the new database.
    pub(crate) fn options(&self, method: Option<Choice>) -> Options {
        let mut options = Options::new();
        if let Some(method) = method {
            options = options.method(method);
        }
        if let Some(partitions) = self.partitions {
            options = options.partitions(partitions);
        }
        if let Some(layout) = self.layout {
            options = options.layout(layout.into());
        }
        if let Some(domain) = self.domain {
            options = options.domain(domain.into());
        }
        if let Some(bytes) = self.node_bytes {
            options = options.node_bytes(bytes);
        }
        self.places.method_options().fold(options, Options::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn until_is_a_place_or_a_time() {
        assert_eq!(until("81920"), Ok(UntilArg::Place(81920)));
        let noon = until("2026-11-25T12:00:00Z");
        assert_eq!(noon, until("2026-11-25T13:30:00+01:30"));
        assert_eq!(noon, until("2026-11-25 12:00"));
        let printed = until("2026-11-25 12:00:00.250000 UTC");
        assert_eq!(printed, until("2026-11-25T12:00:00.250000999Z"));
        assert_eq!(printed, until("2026-11-25T13:00:00.25+01:00"));
        assert!(matches!(noon, Ok(UntilArg::Time(_))));
        for wrong in ["", "-1", "noon", "2026-13-01T00:00:00Z", "12:00"] {
            assert!(until(wrong).is_err(), "{wrong}");
        }
    }
}
