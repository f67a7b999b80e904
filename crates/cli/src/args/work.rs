//! Which commands have done their work before they print.
//!
//! If the reader of such a command's report goes away, or the disk is full, the error says that
//! only the report is lost. Every command is named, so that a new one is decided on.

use super::{Command, IndexesCommand, RoleCommand, TablesCommand};
use crate::failure::Work;
use crate::files::is_standard;
use std::path::Path;

impl Work {
    pub(crate) fn before_the_report(command: &Command) -> Self {
        let writes = |file: &Path| {
            if is_standard(file) {
                Self::Data
            } else {
                Self::Done
            }
        };
        match command {
            Command::Create(_)
            | Command::Import(_)
            | Command::Load(_)
            | Command::Restore(_)
            | Command::Convert(_)
            | Command::Shrink(_)
            | Command::Tables(TablesCommand::Create(_) | TablesCommand::Drop(_))
            | Command::Indexes(IndexesCommand::Create(_) | IndexesCommand::Drop(_))
            | Command::Role(RoleCommand::Create(_)) => Self::Done,
            Command::Repair(args) if !args.dry_run => Self::Done,
            Command::Export(args) => writes(&args.file),
            Command::Dump(args) => writes(&args.file),
            Command::Backup(args) => args.file.as_deref().map_or(Self::Printing, writes),
            Command::Quickstart(_)
            | Command::Victim(_)
            | Command::Torture(_)
            | Command::Tables(TablesCommand::List(_))
            | Command::Indexes(IndexesCommand::List(_))
            | Command::Describe(_)
            | Command::Get(_)
            | Command::Scan(_)
            | Command::Sql(_)
            | Command::Serve(_)
            | Command::Config(_)
            | Command::Info(_)
            | Command::Verify(_)
            | Command::Repair(_)
            | Command::Device(_)
            | Command::Bench(_)
            | Command::Completions(_)
            | Command::Lab(_)
            | Command::Advise(_) => Self::Printing,
        }
    }
}
