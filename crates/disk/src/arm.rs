//! The arm of an imitated hard disk: one head over turning platters, so accesses queue, and the
//! cost of each depends on where the one before ended.
//!
//! | an access | waits, beside its transfer, for |
//! |---|---|
//! | read that goes on where the last access ended | nothing: the drive reads ahead |
//! | write that goes on there | its place to come by again: the platters have turned meanwhile |
//! | any other | a seek |
//!
//! A place is an offset in a file; each file is contiguous, and apart from the others. Left out are
//! the lengths of seeks, a queue in the drive that serves the nearest request first, and the
//! journal of a file system.

use std::ops::Range;

/// Times of a hard disk to reach a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Arm {
    /// From anywhere to anywhere else, the wait for the platter there included, in ns.
    pub seek_ns: u64,
    /// A turn of the platters, in ns.
    pub turn_ns: u64,
}

/// Whether an access takes bytes from the platter or leaves them there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A range of one file. Each opening of a file has a number of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) file: u64,
    pub(crate) bytes: Range<u64>,
}

/// Where an arm is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position {
    /// The stretch of the last access; none after an access outside of files.
    last: Option<Stretch>,
    /// When that access ended.
    free_ns: u64,
}

impl Position {
    /// When the last access ends.
    pub(crate) fn free_ns(&self) -> u64 {
        self.free_ns
    }

    /// Accesses a stretch at `now_ns` or as soon as the arm is free; its transfer takes
    /// `transfer_ns`.
    pub(crate) fn access(
        &mut self,
        arm: Arm,
        access: Access,
        stretch: Stretch,
        now_ns: u64,
        transfer_ns: u64,
    ) {
        let begin_ns = now_ns.max(self.free_ns);
        let goes_on = self
            .last
            .as_ref()
            .is_some_and(|last| (last.file, last.bytes.end) == (stretch.file, stretch.bytes.start));
        let reach_ns = match (goes_on, access) {
            (false, _) => arm.seek_ns,
            (true, Access::Read) => 0,
            (true, Access::Write) => left_of_turn_ns(begin_ns - self.free_ns, arm.turn_ns),
        };
        self.free_ns = begin_ns + reach_ns + transfer_ns;
        self.last = Some(stretch);
    }

    /// Transfers something where places do not matter.
    pub(crate) fn pass(&mut self, now_ns: u64, transfer_ns: u64) {
        self.free_ns = now_ns.max(self.free_ns) + transfer_ns;
    }

    /// Moves the arm outside of files, such as to the names of files.
    pub(crate) fn leave(&mut self, arm: Arm, now_ns: u64) {
        self.free_ns = now_ns.max(self.free_ns) + arm.seek_ns;
        self.last = None;
    }
}

/// Until a place that passed below the head `ago_ns` ago does so again.
fn left_of_turn_ns(ago_ns: u64, turn_ns: u64) -> u64 {
    match ago_ns.checked_rem(turn_ns) {
        None | Some(0) => 0,
        Some(since_ns) => turn_ns - since_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARM: Arm = Arm {
        seek_ns: 1000,
        turn_ns: 300,
    };

    fn stretch(file: u64, start: u64, bytes: u64) -> Stretch {
        Stretch {
            file,
            bytes: start..start + bytes,
        }
    }

    #[test]
    fn what_goes_on_is_reached_without_a_seek() {
        let mut position = Position::default();
        let mut read = |stretch, now_ns| {
            position.access(ARM, Access::Read, stretch, now_ns, 7);
            position.free_ns()
        };
        assert_eq!(
            read(stretch(1, 0, 10), 0),
            1007,
            "nobody knows where an arm begins"
        );
        assert_eq!(read(stretch(1, 10, 10), 2000), 2007);
        assert_eq!(
            read(stretch(1, 10, 10), 3000),
            4007,
            "back to the same place"
        );
        assert_eq!(read(stretch(2, 20, 10), 5000), 6007, "another file");
        assert_eq!(read(stretch(2, 30, 10), 5500), 6014, "queued behind");
    }

    #[test]
    fn a_write_waits_for_its_place_to_come_by() {
        let mut position = Position::default();
        let mut write = |start, now_ns| {
            position.access(ARM, Access::Write, stretch(1, start, 10), now_ns, 7);
            position.free_ns()
        };
        assert_eq!(write(0, 0), 1007);
        assert_eq!(write(10, 1000), 1014, "the head is still there");
        assert_eq!(write(20, 1015), 1014 + 300 + 7);
        assert_eq!(write(30, 1321 + 2 * 300 + 299), 1321 + 3 * 300 + 7);
        position.leave(ARM, 3000);
        assert_eq!(position.free_ns(), 4000);
        position.access(ARM, Access::Write, stretch(1, 40, 10), 4000, 7);
        assert_eq!(position.free_ns(), 5007, "it comes back");
    }

    #[test]
    fn an_arm_without_a_turn_waits_for_none() {
        let arm = Arm { turn_ns: 0, ..ARM };
        let mut position = Position::default();
        position.access(arm, Access::Write, stretch(1, 0, 10), 0, 7);
        position.access(arm, Access::Write, stretch(1, 10, 10), 5000, 7);
        assert_eq!(position.free_ns(), 5007);
    }
}
