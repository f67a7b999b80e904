//! The catalogue of methods: named recipes that a user selects, and how each is opened.
//!
//! A method is known by its name to people and by its code to files; neither changes once it is released. What a
//! partition was created with stands in its own files, so opening takes from the options only what may change.

use super::{Engine, GlobalTxnId};
use crate::error::Result;
use crate::platform::Platform;
use crate::record::LayoutKind;
use std::fmt;
use std::str::FromStr;

/// A published way of storing and recovering data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Tables and indexes in volatile memory, nothing else: the ceiling that the others are held against.
    Volatile,
    /// In-place updates in volatile memory, a log and checkpoints in files (`InP` of N-Store).
    Inp,
    /// In-place updates in durable memory with an undo log of pointers and before images (`NVM-InP` of N-Store).
    NvmInp,
}

impl Method {
    /// All methods, in the order of reports.
    pub const ALL: [Self; 3] = [Self::Volatile, Self::Inp, Self::NvmInp];

    /// The name by which a user selects it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Volatile => "volatile",
            Self::Inp => "inp",
            Self::NvmInp => "nvm-inp",
        }
    }

    /// Whether committed transactions survive a restart.
    pub fn is_durable(self) -> bool {
        self != Self::Volatile
    }

    /// Stable number for headers.
    pub fn code(self) -> u32 {
        match self {
            Self::Volatile => 1,
            Self::Inp => 2,
            Self::NvmInp => 3,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|method| method.name() == name)
            .ok_or_else(|| {
                let names: Vec<_> = Self::ALL.iter().map(|method| method.name()).collect();
                format!(
                    "unknown method `{name}`; the methods are {}",
                    names.join(", ")
                )
            })
    }
}

/// What an engine can be told when its partition is created or opened.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Number of the partition, from 0.
    pub partition: u32,
    /// Identity of the database, so that a foreign partition is refused.
    pub database_id: u128,
    /// How tuples lie in memory. Fixed when the partition is created.
    pub layout: LayoutKind,
    /// Bytes of an index node. Fixed when the partition is created.
    pub node_bytes: u32,
    /// Order of durable steps in the NVM-aware methods.
    pub fences: FenceOrder,
    /// First size of a pool in bytes; it grows by itself.
    pub pool_bytes: u64,
    /// Most transactions in a commit group.
    pub group_transactions_max: u32,
    /// Longest time that a commit waits for its group, in microseconds.
    pub group_wait_us_max: u64,
    /// Log length that triggers a checkpoint, in bytes.
    pub checkpoint_log_bytes: u64,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            partition: 0,
            database_id: 0,
            layout: LayoutKind::Together,
            node_bytes: 512,
            fences: FenceOrder::Single,
            pool_bytes: 1 << 20,
            group_transactions_max: 64,
            group_wait_us_max: 100,
            checkpoint_log_bytes: 256 << 20,
        }
    }
}

/// Order of durable steps in the NVM-aware methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FenceOrder {
    /// A transaction of one operation commits by one record and one fence; a longer one that reads what it wrote does as in
    /// [`FenceOrder::Shared`].
    #[default]
    Single,
    /// Undo only, as in the paper, with fences shared among steps: three fences a transaction of one operation.
    Shared,
    /// A sync after each step, as in the paper's Table 2.
    Paper,
}

/// Asked at recovery for the fate of a prepared transaction: whether the database's commit table has it.
pub type Decide<'a> = &'a dyn Fn(GlobalTxnId) -> bool;

/// Creates the partition's storage.
pub fn create<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    Ok(match method {
        Method::Volatile => Box::new(super::in_place::InPlace::<P>::volatile(platform, options)?),
        Method::Inp => Box::new(super::in_place::InPlace::<P>::create(platform, options)?),
        Method::NvmInp => Box::new(super::nv_in_place::NvInPlace::<P>::create(
            platform, options,
        )?),
    })
}

/// Opens the partition's storage and recovers it. Opening what recovery has left changes nothing.
pub fn open<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Box<dyn Engine>> {
    Ok(match method {
        Method::Volatile => Box::new(super::in_place::InPlace::<P>::volatile(platform, options)?),
        Method::Inp => Box::new(super::in_place::InPlace::<P>::open(
            platform, options, decide,
        )?),
        Method::NvmInp => Box::new(super::nv_in_place::NvInPlace::<P>::open(
            platform, options, decide,
        )?),
    })
}
