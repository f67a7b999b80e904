//! The inputs (clause 5.3): a teller, an account and an amount, made before the clock starts and
//! the same for every method.
//!
//! Each thread of a partition has a list for the partition's branches. A teller is drawn evenly
//! from all of the partition; the account from those of its branch in 85 of a hundred cases,
//! otherwise from those of all other branches.

use super::{TELLERS, TpcbOptions};
use crate::random::{Random, between, chance};

/// Accounts of the teller's own branch, in a hundred.
const LOCAL_PERCENT: u64 = 85;
/// Largest amount, paid in or out.
const DELTA_MAX: u32 = 999_999;

/// The input of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// The teller's branch.
    pub branch: i32,
    /// The teller.
    pub teller: i32,
    /// The account's branch.
    pub account_branch: i32,
    /// The account.
    pub account: i32,
    /// The amount paid in; paid out if it is negative.
    pub delta: i32,
}

/// Makes the list of this number.
pub(super) fn generate(options: &TpcbOptions, list: u32, count: u64) -> Vec<Input> {
    let own: Vec<i32> = options.branches_of(list % options.partitions).collect();
    let reachable: Vec<i32> = if options.single_partition {
        own.clone()
    } else {
        (1..=options.branches.cast_signed()).collect()
    };
    let mut random = Random::new(options.seed ^ 0x7CCB ^ u64::from(list) << 48);
    (0..count)
        .map(|_| {
            let branch = own[random.below(own.len() as u64) as usize];
            let teller = TpcbOptions::tellers_of(branch).start()
                + random.below(u64::from(TELLERS.unsigned_abs())) as i32;
            let account_branch = if chance(&mut random, LOCAL_PERCENT) {
                branch
            } else {
                other_than(&mut random, &reachable, branch)
            };
            let first = *options.accounts_of(account_branch).start();
            Input {
                branch,
                teller,
                account_branch,
                account: first + random.below(u64::from(options.accounts)) as i32,
                delta: between(&mut random, 0, 2 * DELTA_MAX).cast_signed()
                    - DELTA_MAX.cast_signed(),
            }
        })
        .collect()
}

/// Another branch; the same one if there is no other.
fn other_than(random: &mut Random, reachable: &[i32], branch: i32) -> i32 {
    let Some((last, others)) = reachable
        .split_last()
        .filter(|(_, others)| !others.is_empty())
    else {
        return branch;
    };
    let chosen = others[random.below(others.len() as u64) as usize];
    // The last one takes the place of the one that is left out.
    if chosen == branch { *last } else { chosen }
}
