//! Consistency conditions, and the violations that a look at the whole content finds.
//!
//! A condition has the number under which its workload lists it, and requires that two numbers are
//! equal. Each partition is read by a thread of its own into findings of its own, which are added
//! up at the end.

use std::fmt;

/// Violations that are listed; more of the same say nothing new.
const LISTED_MAX: usize = 20;

/// A condition that does not hold somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number in the workload's list of conditions.
    pub condition: u8,
    /// Where: the row or group of rows.
    pub place: String,
    /// The value of its one side.
    pub expected: i64,
    /// The value of its other side.
    pub found: i64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            condition,
            place,
            expected,
            found,
        } = self;
        write!(
            f,
            "condition {condition} at {place}: {expected} against {found}"
        )
    }
}

/// Violations in one line.
pub(crate) fn listed(violations: &[Violation]) -> String {
    let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// Result of a look at the content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Rows read.
    pub rows: u64,
    /// How many violations there are.
    pub violated: u64,
    /// Some of them.
    pub violations: Vec<Violation>,
}

impl Findings {
    /// Notes a violation unless both sides of a condition are equal.
    #[inline]
    pub(crate) fn expect(
        &mut self,
        condition: u8,
        place: impl FnOnce() -> String,
        expected: i64,
        found: i64,
    ) {
        if expected == found {
            return;
        }
        self.violated += 1;
        if self.violations.len() < LISTED_MAX {
            self.violations.push(Violation {
                condition,
                place: place(),
                expected,
                found,
            });
        }
    }

    /// Adds the findings of another partition.
    pub(crate) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.violated += other.violated;
        let room = LISTED_MAX.saturating_sub(self.violations.len());
        self.violations
            .extend(other.violations.into_iter().take(room));
    }
}
