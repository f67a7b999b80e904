//! Rows divided by the hashes of their keys, so that each part fits into memory.
//!
//! A part that does not is divided again, by other bits of the hash. Rows of one key cannot be
//! divided, so their operator has to do something else after some levels.

use crate::budget::Share;
use crate::chain::Chain;
use crate::files::Blocks;
use sql_values::error::Result;
use sql_values::types::Datum;

/// Levels of division; with the smallest fan they make 4⁸ parts.
pub const LEVELS_MAX: u32 = 8;

/// Chains of rows whose keys have the same part of their hash.
#[derive(Debug)]
pub struct Partitions {
    chains: Vec<Chain>,
    level: u32,
}

impl Partitions {
    /// Parts without rows.
    pub fn new(blocks: &Blocks, share: &Share, level: u32) -> Self {
        let chains = (0..share.fan()).map(|_| Chain::new(blocks));
        Self {
            chains: chains.collect(),
            level,
        }
    }

    /// Adds a row to the part of its key.
    pub fn push(&mut self, key: &[Datum], row: &[Datum]) -> Result<()> {
        let hash = crate::hash::hash_of(key, self.level + 1) >> 32;
        let part = (hash * self.chains.len() as u64) >> 32;
        self.chains[part as usize].push(row)
    }

    /// The parts, sealed.
    pub fn into_chains(mut self) -> Result<Vec<Chain>> {
        self.chains.iter_mut().try_for_each(Chain::seal)?;
        Ok(self.chains)
    }
}
