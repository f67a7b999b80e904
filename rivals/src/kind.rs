//! The catalogue of rivals: names, settings in words, and how to open each.
//!
//! A setting is the best that the rival's own documentation offers under one condition: when an
//! update returns, it is as durable as the medium allows. A feature that is not compiled in is
//! answered with how to compile it in, not with "unknown".

use crate::stores::{self, lmdb::Lmdb};
use anyhow::Result;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use workload::ycsb::Store;

/// One rival in one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Lmdb,
    LmdbWritemap,
    LmdbNosync,
    #[cfg(feature = "rocksdb")]
    RocksDb,
    Redb,
    Fjall,
    #[cfg(feature = "pmemobj")]
    Pmemobj,
}

/// Purpose of an opening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Rows that it will have.
    pub(crate) rows: u64,
    /// Threads that will use it at the same time.
    pub(crate) threads: u32,
    /// Databases that the rows are divided among: this one has every so-manieth key.
    #[cfg_attr(
        not(feature = "pmemobj"),
        expect(dead_code, reason = "only an array asks")
    )]
    pub(crate) databases: u32,
}

/// A thread's view of a rival.
pub(crate) type RivalStore<'r> = Box<dyn Store<Error = anyhow::Error> + 'r>;

/// One open database of a rival.
pub(crate) trait Rival: Send + Sync {
    /// The view of one thread; not more of them at a time than planned.
    fn store(&self) -> Result<RivalStore<'_>>;

    /// Ends what the rival has put off: merges, checkpoints, writing out what is in memory.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

impl Kind {
    /// All that are compiled in, in the order of reports.
    pub(crate) const ALL: &[Self] = &[
        Self::LmdbWritemap,
        Self::Lmdb,
        Self::LmdbNosync,
        Self::Sqlite,
        #[cfg(feature = "rocksdb")]
        Self::RocksDb,
        Self::Redb,
        Self::Fjall,
        #[cfg(feature = "pmemobj")]
        Self::Pmemobj,
    ];

    /// The name by which a user selects it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Lmdb => "lmdb",
            Self::LmdbWritemap => "lmdb-writemap",
            Self::LmdbNosync => "lmdb-nosync",
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => "rocksdb",
            Self::Redb => "redb",
            Self::Fjall => "fjall",
            #[cfg(feature = "pmemobj")]
            Self::Pmemobj => "pmemobj",
        }
    }

    /// How it is set, in words.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Sqlite => stores::sqlite::SETTING,
            Self::Lmdb => stores::lmdb::SETTING,
            Self::LmdbWritemap => stores::lmdb::SETTING_WRITEMAP,
            Self::LmdbNosync => stores::lmdb::SETTING_NOSYNC,
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => stores::rocks::SETTING,
            Self::Redb => stores::redb::SETTING,
            Self::Fjall => stores::fjall::SETTING,
            #[cfg(feature = "pmemobj")]
            Self::Pmemobj => stores::pmemobj::SETTING,
        }
    }

    /// Creates a database in an empty directory.
    pub(crate) fn create(self, directory: &Path, plan: Plan) -> Result<Box<dyn Rival>> {
        Ok(match self {
            Self::Sqlite => Box::new(stores::sqlite::Sqlite::create(directory, plan)?),
            Self::Lmdb => Box::new(Lmdb::create(directory, plan, Lmdb::PWRITE)?),
            Self::LmdbWritemap => Box::new(Lmdb::create(directory, plan, Lmdb::WRITEMAP)?),
            Self::LmdbNosync => Box::new(Lmdb::create(directory, plan, Lmdb::NOSYNC)?),
            #[cfg(feature = "rocksdb")]
            Self::RocksDb => Box::new(stores::rocks::Rocks::create(directory)?),
            Self::Redb => Box::new(stores::redb::Redb::create(directory)?),
            Self::Fjall => Box::new(stores::fjall::Fjall::create(directory)?),
            #[cfg(feature = "pmemobj")]
            Self::Pmemobj => Box::new(stores::pmemobj::Pmemobj::create(directory, plan)?),
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|kind| kind.name() == name);
        found.copied().ok_or_else(|| match name {
            "rocksdb" => {
                "`rocksdb` is not compiled in; build without --no-default-features, or with \
                 --features rocksdb"
                    .into()
            }
            "pmemobj" => "`pmemobj` is not compiled in; install libpmemobj-dev and build with \
                 --features pmemobj"
                .into(),
            _ => {
                let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
                format!("unknown rival `{name}`; use {}, or all", names.join(", "))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_selects_its_rival() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse::<Kind>(), Ok(*kind));
        }
    }

    #[test]
    fn a_feature_left_out_is_no_unknown_rival() {
        for (name, is_in) in [
            ("rocksdb", cfg!(feature = "rocksdb")),
            ("pmemobj", cfg!(feature = "pmemobj")),
        ] {
            match name.parse::<Kind>() {
                Ok(_) => assert!(is_in, "{name}"),
                Err(error) => assert!(!is_in && error.contains("--features"), "{error}"),
            }
        }
    }
}
