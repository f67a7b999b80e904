//! Escalation: a lock of a table in the place of many locks below it.
//!
//! It is tried when their number has reached a limit, and takes no waiting: where others hold locks
//! in the table, the session goes on with its own and tries again later.

use super::LockSession;
use crate::lock::head::{Answer, Request};
use crate::lock::manager::KeyIntent;
use crate::lock::mode::Strength;
use crate::lock::name::Name;
use crate::lock::queues::Queues;

impl LockSession {
    /// A lock below a table was granted: many of them are better one of the table.
    #[inline]
    pub(super) fn count_below(&mut self, number: u32, weight: usize) {
        let whole = self.owned.wholes.get_mut(number);
        whole.weight += weight;
        if whole.weight >= whole.escalate_at && self.escalates {
            self.escalate(number);
        }
    }

    /// Locks the table whole if that is possible at once, and releases the locks below it.
    #[cold]
    fn escalate(&mut self, number: u32) {
        let escalate_at = self.manager.options().escalate_at;
        let name = Name::whole(self.owned.wholes.name(number).space);
        let whole = self.owned.wholes.get(number);
        // Rows may be locked exclusively under the intention of readers.
        let wanted = match (self.key_intent, whole.strength) {
            (KeyIntent::OfStrength, Strength::IntentShared) => Strength::Shared,
            _ => Strength::Exclusive,
        };
        let request = Request {
            session: self.id,
            strength: whole.strength.join(wanted),
            passes: false,
            inheritance: None,
            parker: None,
        };
        let shard = self.manager.queues.shard(Queues::shard_of(name.hash));
        let (answer, _) = shard.request(&name, &request);
        let whole = self.owned.wholes.get_mut(number);
        if answer != Answer::Granted {
            whole.escalate_at = whole.weight + escalate_at.div_ceil(2).max(1);
            return;
        }
        self.raise_whole(number, request.strength);
        self.counters.acquired += 1;
        self.counters.escalations += 1;
        let keys = self.owned.take_keys(0, |key| key.whole == number);
        let ranges = self.owned.take_ranges(|range| range.whole == number);
        let numbers = keys.iter().map(|&key| self.owned.keys.get(key).number);
        let numbers = numbers.chain(ranges.iter().map(|range| range.number));
        let covers_from = numbers.min().unwrap_or(u64::MAX);
        if let Some(raise) = self.owned.raises.last_mut() {
            raise.covers_from = covers_from;
        }
        for key in keys {
            self.release_key(key);
        }
        self.release_ranges(&ranges);
        self.owned.wholes.get_mut(number).escalate_at = escalate_at;
        self.wake_all();
    }
}
