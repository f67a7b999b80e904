//! Lock modes: their strength, their conflicts, and the combination of two locks of one owner.
//!
//! Partition and tables have Gray's five modes, and three that PostgreSQL adds for tables: *access
//! share* of those who only use a definition, *access exclusive* of those who change it, and *share
//! update exclusive*, which lets changes of rows in. Keys have five. Inside they are one lattice of
//! nine, because a head does not care what it locks: intentions never meet *update*, as they lie on
//! different levels. PostgreSQL's four locks of rows are among the nine: IS is *key share*, SIX *no
//! key update*.
//!
//! |     | AS | IS | IX | SUE | S | SIX | U | X | AX |
//! |-----|----|----|----|-----|---|-----|---|---|----|
//! | AS  |    |    |    |     |   |     |   |   | x  |
//! | IS  |    |    |    |     |   |     |   | x | x  |
//! | IX  |    |    |    |     | x | x   | x | x | x  |
//! | SUE |    |    |    | x   | x | x   | x | x | x  |
//! | S   |    |    | x  | x   |   | x   |   | x | x  |
//! | SIX |    |    | x  | x   | x | x   | x | x | x  |
//! | U   |    |    | x  | x   |   | x   | x | x | x  |
//! | X   |    | x  | x  | x   | x | x   | x | x | x  |
//! | AX  | x  | x  | x  | x   | x | x   | x | x | x  |
//!
//! *Update* lets readers in, also later ones: its conversion to *exclusive* goes before them in the
//! queue, so it does not starve.

/// A lock of the partition or of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It is used as it is defined; nothing in it is locked.
    AccessShare,
    /// Something below is going to be read under its own lock.
    IntentShared,
    /// Something below is going to be changed under its own lock.
    IntentExclusive,
    /// Something below is going to be changed under its own lock, by one owner of this mode at a
    /// time.
    ShareUpdateExclusive,
    /// All of it is read; nobody changes anything in it.
    Shared,
    /// All of it is read, and some of it changed under locks of its own.
    SharedIntentExclusive,
    /// All of it is changed; nobody else locks anything in it.
    Exclusive,
    /// It is changed as a whole; nobody else uses it.
    AccessExclusive,
}

/// A lock of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyMode {
    /// It must stay where it is, and others may change what it leads to. For trees without ranges.
    KeyShare,
    /// It is read.
    Shared,
    /// It stays where it is, and one owner at a time changes what it leads to. For trees without
    /// ranges: these do not see it.
    NoKeyUpdate,
    /// Read by a transaction that may change it. One at a time, together with readers, so that two
    /// transactions that read first and change later do not wait for each other.
    Update,
    /// It is changed, inserted or deleted.
    Exclusive,
}

/// Whether a transaction may be undone to end a deadlock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precedence {
    /// It may.
    #[default]
    Usual,
    /// Another transaction of the cycle is undone instead. For one transaction of a database at a
    /// time: a cycle of such transactions alone lasts until the limit of their waits.
    First,
}

/// A mode of either kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Strength {
    #[default]
    AccessShare,
    IntentShared,
    IntentExclusive,
    ShareUpdateExclusive,
    Shared,
    SharedIntentExclusive,
    Update,
    Exclusive,
    AccessExclusive,
}

impl From<Mode> for Strength {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::AccessShare => Self::AccessShare,
            Mode::IntentShared => Self::IntentShared,
            Mode::IntentExclusive => Self::IntentExclusive,
            Mode::ShareUpdateExclusive => Self::ShareUpdateExclusive,
            Mode::Shared => Self::Shared,
            Mode::SharedIntentExclusive => Self::SharedIntentExclusive,
            Mode::Exclusive => Self::Exclusive,
            Mode::AccessExclusive => Self::AccessExclusive,
        }
    }
}

impl From<KeyMode> for Strength {
    fn from(mode: KeyMode) -> Self {
        match mode {
            KeyMode::KeyShare => Self::IntentShared,
            KeyMode::Shared => Self::Shared,
            KeyMode::NoKeyUpdate => Self::SharedIntentExclusive,
            KeyMode::Update => Self::Update,
            KeyMode::Exclusive => Self::Exclusive,
        }
    }
}

impl Strength {
    /// All of them, weakest first as far as they can be compared.
    #[cfg(test)]
    pub(super) const ALL: [Self; 9] = [
        Self::AccessShare,
        Self::IntentShared,
        Self::IntentExclusive,
        Self::ShareUpdateExclusive,
        Self::Shared,
        Self::SharedIntentExclusive,
        Self::Update,
        Self::Exclusive,
        Self::AccessExclusive,
    ];

    /// This mode in a set of modes.
    #[inline]
    pub(super) const fn bit(self) -> u16 {
        1 << self as u16
    }

    /// The modes that conflict with this one, if another owner has them.
    #[inline]
    pub(super) const fn excluded(self) -> u16 {
        let access = Self::AccessExclusive.bit();
        let exclusive = Self::Exclusive.bit() | access;
        let reading = Self::Shared.bit() | Self::Update.bit();
        let changing = Self::IntentExclusive.bit()
            | Self::ShareUpdateExclusive.bit()
            | Self::SharedIntentExclusive.bit()
            | exclusive;
        match self {
            Self::AccessShare => access,
            Self::IntentShared => exclusive,
            Self::IntentExclusive => reading | Self::SharedIntentExclusive.bit() | exclusive,
            Self::ShareUpdateExclusive => reading | changing & !Self::IntentExclusive.bit(),
            Self::Shared => changing,
            Self::SharedIntentExclusive => changing | reading,
            Self::Update => changing | Self::Update.bit(),
            Self::Exclusive => changing | reading | Self::IntentShared.bit(),
            Self::AccessExclusive => 0b1_1111_1111,
        }
    }

    /// As the mode of a whole. None has *update*.
    pub(super) const fn of_whole(self) -> Mode {
        match self {
            Self::AccessShare => Mode::AccessShare,
            Self::IntentShared => Mode::IntentShared,
            Self::IntentExclusive => Mode::IntentExclusive,
            Self::ShareUpdateExclusive => Mode::ShareUpdateExclusive,
            Self::Shared => Mode::Shared,
            Self::SharedIntentExclusive => Mode::SharedIntentExclusive,
            Self::Update | Self::Exclusive => Mode::Exclusive,
            Self::AccessExclusive => Mode::AccessExclusive,
        }
    }

    /// As the mode of a key. None has a mode that only wholes have.
    pub(super) const fn of_key(self) -> KeyMode {
        match self {
            Self::IntentShared => KeyMode::KeyShare,
            Self::AccessShare | Self::Shared => KeyMode::Shared,
            Self::SharedIntentExclusive => KeyMode::NoKeyUpdate,
            Self::Update => KeyMode::Update,
            _ => KeyMode::Exclusive,
        }
    }

    /// Whether two owners cannot have these modes at once.
    #[inline]
    pub(super) const fn conflicts(self, other: Self) -> bool {
        self.excluded() & other.bit() != 0
    }

    /// The weakest mode that allows what both allow.
    #[inline]
    pub(super) fn join(self, other: Self) -> Self {
        use Strength::{
            AccessExclusive, AccessShare, Exclusive, IntentExclusive, IntentShared,
            ShareUpdateExclusive, Shared, SharedIntentExclusive, Update,
        };
        match (self, other) {
            (one, same) if one == same => one,
            (AccessExclusive, _) | (_, AccessExclusive) => AccessExclusive,
            (AccessShare, other) | (other, AccessShare) => other,
            (IntentShared, other) | (other, IntentShared) if other != Update => other,
            (IntentExclusive, ShareUpdateExclusive) | (ShareUpdateExclusive, IntentExclusive) => {
                ShareUpdateExclusive
            }
            (
                IntentExclusive | ShareUpdateExclusive | Shared | SharedIntentExclusive,
                IntentExclusive | ShareUpdateExclusive | Shared | SharedIntentExclusive,
            ) => SharedIntentExclusive,
            (Shared, Update) | (Update, Shared) => Update,
            _ => Exclusive,
        }
    }

    /// Whether a holder of this has `other` already.
    #[inline]
    pub(super) fn covers(self, other: Self) -> bool {
        self.join(other) == self
    }

    /// Whether a holder of this on a whole needs no `wanted` lock on its parts.
    #[inline]
    pub(super) const fn covers_parts(self, wanted: Self) -> bool {
        match self {
            Self::Exclusive | Self::AccessExclusive => true,
            Self::Shared | Self::SharedIntentExclusive => {
                matches!(
                    wanted,
                    Self::AccessShare | Self::IntentShared | Self::Shared
                )
            }
            _ => false,
        }
    }

    /// The intention mode that a lock of this mode on a part needs on the whole.
    #[inline]
    pub(super) const fn intention(self) -> Self {
        match self {
            Self::AccessShare | Self::IntentShared | Self::Shared => Self::IntentShared,
            _ => Self::IntentExclusive,
        }
    }

    /// Whether the lock may outlive its transaction as an idle one: it excludes few, and most
    /// transactions ask for it.
    #[inline]
    pub(super) const fn is_intention(self) -> bool {
        matches!(
            self,
            Self::AccessShare | Self::IntentShared | Self::IntentExclusive
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Strength::{
        self, AccessExclusive, AccessShare, Exclusive, IntentExclusive, IntentShared,
        ShareUpdateExclusive, Shared, SharedIntentExclusive, Update,
    };

    /// Gray's table with PostgreSQL's modes, and the three modes of keys.
    const TOGETHER: &[(Strength, Strength)] = &[
        (AccessShare, AccessShare),
        (AccessShare, IntentShared),
        (AccessShare, IntentExclusive),
        (AccessShare, ShareUpdateExclusive),
        (AccessShare, Shared),
        (AccessShare, SharedIntentExclusive),
        (AccessShare, Update),
        (AccessShare, Exclusive),
        (IntentShared, ShareUpdateExclusive),
        (IntentExclusive, ShareUpdateExclusive),
        (IntentShared, IntentShared),
        (IntentShared, IntentExclusive),
        (IntentShared, Shared),
        (IntentShared, SharedIntentExclusive),
        (IntentShared, Update),
        (IntentExclusive, IntentExclusive),
        (Shared, Shared),
        (Shared, Update),
    ];

    #[test]
    fn exactly_the_pairs_of_the_table_go_together() {
        for one in Strength::ALL {
            for other in Strength::ALL {
                let together = TOGETHER.contains(&(one, other)) || TOGETHER.contains(&(other, one));
                assert_eq!(one.conflicts(other), !together, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_join_is_the_weakest_mode_above_both() {
        for one in Strength::ALL {
            for other in Strength::ALL {
                let join = one.join(other);
                assert_eq!(join, other.join(one));
                assert!(join.covers(one) && join.covers(other), "{one:?} {other:?}");
                assert_eq!(join.excluded() & one.excluded(), one.excluded());
                for above in Strength::ALL {
                    if above.covers(one) && above.covers(other) {
                        assert!(above.covers(join), "{one:?} {other:?} {above:?}");
                    }
                }
            }
        }
        assert_eq!(Shared.join(IntentExclusive), SharedIntentExclusive);
        assert_eq!(Shared.join(Update), Update);
        assert_eq!(Update.join(Exclusive), Exclusive);
        assert_eq!(
            IntentExclusive.join(ShareUpdateExclusive),
            ShareUpdateExclusive
        );
        assert_eq!(Exclusive.join(AccessExclusive), AccessExclusive);
    }

    #[test]
    fn a_whole_covers_its_parts() {
        for wanted in Strength::ALL {
            assert!(Exclusive.covers_parts(wanted) && AccessExclusive.covers_parts(wanted));
            let reads = matches!(wanted, AccessShare | IntentShared | Shared);
            assert_eq!(Shared.covers_parts(wanted), reads);
            assert_eq!(SharedIntentExclusive.covers_parts(wanted), reads);
            assert!(!IntentShared.covers_parts(wanted) && !IntentExclusive.covers_parts(wanted));
        }
    }
}
