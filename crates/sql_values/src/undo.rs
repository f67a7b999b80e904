//! Values from before the changes of a transaction.
//!
//! Changes have a level: 1 in a transaction, and one more in each savepoint. A change is for the
//! session, from the commit on, or for the transaction only; of each level that has changed the
//! value, what it was before is kept, and what it is to be at the commit where that is another one.
//! So a savepoint costs nothing for what it does not change. The rules are those of PostgreSQL's
//! settings.

/// The reach of the changes of a level.
#[derive(Clone, Debug)]
enum Reach<V> {
    /// The session.
    Session,
    /// The transaction.
    Transaction,
    /// First the session, which has this value from the commit on, and then the transaction.
    Both(V),
}

/// The value from before the changes of a level.
#[derive(Clone, Debug)]
struct Before<V> {
    level: usize,
    value: V,
    reach: Reach<V>,
}

/// Values to go back to, those of the outermost level first.
#[derive(Clone, Debug)]
pub struct Undo<V>(Vec<Before<V>>);

impl<V> Default for Undo<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Undo<V> {
    /// Keeps the value that is about to change, for the transaction if the change is local. Level 0
    /// is outside of transactions: nothing undoes its changes.
    pub fn keep(&mut self, level: usize, is_local: bool, value: V) {
        if level == 0 {
            return;
        }
        if let Some(own) = self.0.last_mut().filter(|last| last.level == level) {
            match (&own.reach, is_local) {
                (_, false) => own.reach = Reach::Session,
                (Reach::Session, true) => own.reach = Reach::Both(value),
                (Reach::Transaction | Reach::Both(_), true) => {}
            }
            return;
        }
        let reach = if is_local {
            Reach::Transaction
        } else {
            Reach::Session
        };
        self.0.push(Before {
            level,
            value,
            reach,
        });
    }

    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes the changes of higher levels those of this one.
    pub fn release(&mut self, level: usize) {
        while let Some(last) = self.0.pop_if(|last| last.level > level) {
            let Some(below) = self.0.last_mut().filter(|below| below.level >= level) else {
                self.0.push(Before { level, ..last });
                return;
            };
            match last.reach {
                Reach::Session => below.reach = Reach::Session,
                Reach::Both(value) => below.reach = Reach::Both(value),
                // The session has the value before this level from the commit on.
                Reach::Transaction if matches!(below.reach, Reach::Session) => {
                    below.reach = Reach::Both(last.value);
                }
                Reach::Transaction => {}
            }
        }
    }

    /// Forgets the changes from a level on; the value from before them, if there were any.
    pub fn undo(&mut self, level: usize) -> Option<V> {
        let mut value = None;
        while let Some(last) = self.0.pop_if(|last| last.level >= level) {
            value = Some(last.value);
        }
        value
    }

    /// Ends the transaction, which has committed; the value of the session from now on, if it is
    /// another one than in the transaction.
    pub fn commit(&mut self) -> Option<V> {
        self.release(1);
        let first = self.0.pop()?;
        match first.reach {
            Reach::Session => None,
            Reach::Transaction => Some(first.value),
            Reach::Both(value) => Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value with what undoes its changes.
    #[derive(Default)]
    struct Changed {
        now: &'static str,
        undo: Undo<&'static str>,
    }

    impl Changed {
        fn set(&mut self, level: usize, is_local: bool, value: &'static str) {
            self.undo.keep(level, is_local, self.now);
            self.now = value;
        }

        fn commit(mut self) -> &'static str {
            self.undo.commit().unwrap_or(self.now)
        }
    }

    #[test]
    fn the_last_change_for_the_session_is_the_one_that_stays() {
        let mut value = Changed::default();
        value.set(1, true, "local");
        value.set(1, false, "session");
        assert_eq!(value.commit(), "session");
        let mut value = Changed::default();
        value.set(1, false, "session");
        value.set(1, true, "local");
        value.set(1, true, "again");
        assert_eq!(value.commit(), "session");
        let mut value = Changed::default();
        value.set(1, true, "local");
        assert_eq!(value.commit(), "");
    }

    #[test]
    fn savepoints_are_undone_and_released() {
        let mut value = Changed::default();
        value.set(1, false, "session");
        value.set(3, true, "local");
        assert_eq!(value.undo.undo(2), Some("session"));
        value.now = "session";
        value.set(3, true, "local");
        value.undo.release(2);
        value.undo.release(1);
        assert_eq!(value.commit(), "session");
        let mut value = Changed::default();
        value.set(2, false, "session");
        value.set(2, true, "local");
        value.undo.release(1);
        assert_eq!(value.commit(), "session");
    }

    #[test]
    fn a_transaction_that_fails_has_changed_nothing() {
        let mut value = Changed::default();
        value.set(0, false, "begun");
        value.set(1, false, "session");
        value.set(2, true, "local");
        assert_eq!(value.undo.undo(1), Some("begun"));
        assert!(value.undo.is_empty());
        assert_eq!(value.undo.undo(1), None);
    }
}
