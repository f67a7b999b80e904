//! Options of a generated workload, and the syntax in which a user writes them.
//!
//! Shares are written `read=50,update=45,insert=5` or by the name of a YCSB mix; skew as
//! `ACCESSES/ROWS` in percent or by name. Values are checked where the list is made, and an error
//! names the option.

use super::CustomError;
use std::fmt;
use std::str::FromStr;

/// Least rows: below them a hot part is less than a row.
pub(super) const ROWS_MIN: u64 = 100;
/// Most bytes of a column.
const COLUMN_BYTES_MAX: u32 = 1 << 16;
/// Most columns beside the key.
const COLUMNS_MAX: u32 = 512;
/// Most operations of a transaction.
const OPERATIONS_MAX: u32 = 1000;

/// Options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomOptions {
    /// Rows that are loaded, at least 100.
    pub rows: u64,
    /// Columns beside the key.
    pub columns: u32,
    /// Bytes of each of them.
    pub column_bytes: u32,
    /// Columns that an update rewrites.
    pub update_columns: u32,
    /// Shares of the operations.
    pub mix: CustomMix,
    /// How unevenly rows are accessed.
    pub skew: CustomSkew,
    /// Rows that a scan visits.
    pub scan_rows: u32,
    /// Operations of a transaction.
    pub operations: u32,
    /// Length of the list.
    pub transactions: u64,
    /// Seed of the list and of the contents.
    pub seed: u64,
}

impl Default for CustomOptions {
    fn default() -> Self {
        Self {
            rows: 2_000_000,
            columns: 10,
            column_bytes: 100,
            update_columns: 1,
            mix: CustomMix::default(),
            skew: CustomSkew::LOW,
            scan_rows: 50,
            operations: 1,
            transactions: 100_000,
            seed: 1,
        }
    }
}

impl CustomOptions {
    /// Fails if a value cannot be used.
    pub fn check(&self) -> Result<(), CustomError> {
        let wrong = |option, problem: String| Err(CustomError::Option { option, problem });
        if self.rows < ROWS_MIN {
            return wrong("rows", format!("use at least {ROWS_MIN}"));
        }
        if !(1..=COLUMNS_MAX).contains(&self.columns) {
            return wrong("columns", format!("use 1 to {COLUMNS_MAX}"));
        }
        if !(1..=COLUMN_BYTES_MAX).contains(&self.column_bytes) {
            return wrong("column-bytes", format!("use 1 to {COLUMN_BYTES_MAX}"));
        }
        if !(1..=self.columns).contains(&self.update_columns) {
            let columns = self.columns;
            return wrong(
                "update-columns",
                format!("use 1 to {columns}, the number of columns"),
            );
        }
        if self.scan_rows == 0 {
            return wrong("scan-rows", "use at least 1".into());
        }
        if !(1..=OPERATIONS_MAX).contains(&self.operations) {
            return wrong("operations", format!("use 1 to {OPERATIONS_MAX}"));
        }
        let operations = u128::from(self.transactions) * u128::from(self.operations);
        if operations == 0 || operations > super::OPERATIONS_MAX as u128 {
            return wrong(
                "transactions",
                format!("use 1 to {} operations together", super::OPERATIONS_MAX),
            );
        }
        Ok(())
    }
}

/// Shares of the operations, relative to their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomMix {
    /// Look-ups of a whole row.
    pub read: u32,
    /// New values for some columns of a row.
    pub update: u32,
    /// New rows after all others.
    pub insert: u32,
    /// Visits of some rows in the order of their keys.
    pub scan: u32,
}

impl CustomMix {
    const fn of(read: u32, update: u32) -> Self {
        Self {
            read,
            update,
            insert: 0,
            scan: 0,
        }
    }

    const NAMED: [(&'static str, Self); 4] = [
        ("read-only", Self::of(100, 0)),
        ("read-heavy", Self::of(90, 10)),
        ("balanced", Self::of(50, 50)),
        ("write-heavy", Self::of(10, 90)),
    ];

    /// The sum of the shares, at least 1.
    pub fn total(&self) -> u64 {
        [self.read, self.update, self.insert, self.scan]
            .into_iter()
            .map(u64::from)
            .sum()
    }

    fn named(&self) -> Option<&'static str> {
        Self::NAMED
            .into_iter()
            .find_map(|(name, mix)| (mix == *self).then_some(name))
    }
}

impl Default for CustomMix {
    fn default() -> Self {
        Self::of(50, 50)
    }
}

impl FromStr for CustomMix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, mix)) = Self::NAMED.into_iter().find(|(name, _)| *name == text) {
            return Ok(mix);
        }
        let mut mix = Self::of(0, 0);
        for piece in text.split(',') {
            let share = piece
                .split_once('=')
                .and_then(|(name, share)| Some((name.trim(), share.trim().parse().ok()?)));
            match share {
                Some(("read", share)) => mix.read = share,
                Some(("update", share)) => mix.update = share,
                Some(("insert", share)) => mix.insert = share,
                Some(("scan", share)) => mix.scan = share,
                _ => {
                    return Err(format!(
                        "`{piece}` is no share; use read-only, read-heavy, balanced, write-heavy, or \
                         shares of read, update, insert and scan, as `read=60,update=30,insert=5,scan=5`"
                    ));
                }
            }
        }
        if mix.total() == 0 {
            return Err("all shares are 0; use at least one that is not".into());
        }
        Ok(mix)
    }
}

impl fmt::Display for CustomMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.named() {
            return f.write_str(name);
        }
        let shares = [
            ("read", self.read),
            ("update", self.update),
            ("insert", self.insert),
            ("scan", self.scan),
        ];
        let texts: Vec<String> = shares
            .into_iter()
            .filter(|(_, share)| *share > 0)
            .map(|(name, share)| format!("{name}={share}"))
            .collect();
        f.write_str(&texts.join(","))
    }
}

/// Skew of the accesses: a percentage of them goes to a percentage of the rows, the others to the
/// other rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomSkew {
    /// Percent of the accesses, 1 to 100.
    pub accesses_percent: u64,
    /// Percent of the rows, 1 to 100.
    pub rows_percent: u64,
}

impl CustomSkew {
    /// Half of the accesses go to a fifth of the rows.
    pub const LOW: Self = Self::of(50, 20);
    /// Nine tenths of the accesses go to a tenth of the rows.
    pub const HIGH: Self = Self::of(90, 10);
    /// All rows alike.
    pub const UNIFORM: Self = Self::of(100, 100);

    const fn of(accesses_percent: u64, rows_percent: u64) -> Self {
        Self {
            accesses_percent,
            rows_percent,
        }
    }

    const NAMED: [(&'static str, Self); 3] = [
        ("low", Self::LOW),
        ("high", Self::HIGH),
        ("uniform", Self::UNIFORM),
    ];
}

impl FromStr for CustomSkew {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, skew)) = Self::NAMED.into_iter().find(|(name, _)| *name == text) {
            return Ok(skew);
        }
        let percent = |text: &str| text.trim().parse().ok().filter(|p| (1..=100).contains(p));
        text.split_once('/')
            .and_then(|(accesses, rows)| Some(Self::of(percent(accesses)?, percent(rows)?)))
            .ok_or_else(|| {
                format!(
                    "unknown skew `{text}`; use low, high, uniform, or percent of accesses / percent of rows, as `80/20`"
                )
            })
    }
}

impl fmt::Display for CustomSkew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::NAMED.into_iter().find(|(_, skew)| skew == self);
        match named {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}/{}", self.accesses_percent, self.rows_percent),
        }
    }
}
