//! Reading several trees at once in the order of their keys.
//!
//! A cursor fetches a few entries of one tree at a time, so that many trees can be read side by
//! side; a [`Merged`] has one for each run, newest first, and gives for each key the pointers of
//! all runs that have it.
//!
//! Nothing may change while a cursor lives; it borrows the arena. Several keys of one table are
//! looked up together here too.

use super::levels::Levels;
use crate::index::{NvBptree, OrderedIndex};
use crate::lsm::filter::Filters;
use crate::lsm::keys::{decrement, increment};
use crate::lsm::pointer;
use pmem::{Arena, Memory};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::Direction;
use storage::log::{NvWriteSet, WriteSet};
use storage::record::{KeyBuf, Row};

/// Entries of the first fetch, and the most of a later one.
const FETCH_MIN: usize = 8;
const FETCH_MAX: usize = 128;

/// One tree, read in order.
pub(crate) struct Cursor<'t> {
    tree: &'t NvBptree,
    low: KeyBuf,
    high: KeyBuf,
    direction: Direction,
    /// Fetched entries: keys and values, one after the other.
    fetched: Vec<u64>,
    /// Index of the next one in `fetched`.
    at: usize,
    fetch: usize,
    ended: bool,
}

/// Copies the first entries of a range of a tree, in a direction, up to `limit`; their number.
pub(super) fn first_entries<M: Memory>(
    arena: &Arena<M>,
    tree: &NvBptree,
    (range, direction): ((&[u64], &[u64]), Direction),
    limit: usize,
    entries: &mut Vec<u64>,
) -> Result<usize> {
    entries.clear();
    let mut count = 0;
    let mut copy = |key: &[u64], value| {
        entries.extend_from_slice(key);
        entries.push(value);
        count += 1;
        Ok(if count < limit {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    };
    OrderedIndex::<M, NvWriteSet>::scan(tree, arena, range, direction, 0, &mut copy)?;
    Ok(count)
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(tree: &'t NvBptree, low: &[u64], high: &[u64], direction: Direction) -> Self {
        Self {
            tree,
            low: KeyBuf::from_words(low),
            high: KeyBuf::from_words(high),
            direction,
            fetched: Vec::new(),
            at: 0,
            fetch: FETCH_MIN,
            ended: low > high,
        }
    }

    /// The next key and its value.
    fn peek<M: Memory>(&mut self, arena: &Arena<M>) -> Result<Option<(&[u64], u64)>> {
        if self.at == self.fetched.len() && !self.ended {
            self.fill(arena)?;
        }
        let words = self.low.len();
        let entry = self.fetched.get(self.at..=self.at + words);
        Ok(entry.map(|entry| (&entry[..words], entry[words])))
    }

    fn advance(&mut self) {
        self.at += self.low.len() + 1;
    }

    fn fill<M: Memory>(&mut self, arena: &Arena<M>) -> Result<()> {
        let limit = self.fetch;
        self.at = 0;
        let range = (&*self.low, &*self.high);
        let way = (range, self.direction);
        let count = first_entries(arena, self.tree, way, limit, &mut self.fetched)?;
        self.fetch = (self.fetch * 2).min(FETCH_MAX);
        let words = self.low.len();
        if count < limit {
            self.ended = true;
            return Ok(());
        }
        let last = &self.fetched[self.fetched.len() - words - 1..][..words];
        self.ended = match self.direction {
            Direction::Forward => {
                self.low.assign(last);
                !increment(self.low.resized(words)) || self.low > self.high
            }
            Direction::Backward => {
                self.high.assign(last);
                !decrement(self.high.resized(words)) || self.low > self.high
            }
        };
        Ok(())
    }
}

/// Several trees, newest first, read as one.
pub(crate) struct Merged<'t> {
    cursors: Vec<Cursor<'t>>,
    direction: Direction,
}

impl<'t> Merged<'t> {
    pub(crate) fn new(cursors: Vec<Cursor<'t>>, direction: Direction) -> Self {
        Self { cursors, direction }
    }

    /// The next key in `key`, and its pointers in the trees, newest first, in `values`; false at
    /// the end.
    pub(crate) fn next<M: Memory>(
        &mut self,
        arena: &Arena<M>,
        key: &mut KeyBuf,
        values: &mut Vec<u64>,
    ) -> Result<bool> {
        let mut found = false;
        let before = match self.direction {
            Direction::Forward => Ordering::Less,
            Direction::Backward => Ordering::Greater,
        };
        for cursor in &mut self.cursors {
            if let Some((next, _)) = cursor.peek(arena)?
                && (!found || next.cmp(key) == before)
            {
                key.assign(next);
                found = true;
            }
        }
        values.clear();
        if !found {
            return Ok(false);
        }
        for cursor in &mut self.cursors {
            if let Some((next, value)) = cursor.peek(arena)?
                && *next == **key
            {
                values.push(value);
                cursor.advance();
            }
        }
        Ok(true)
    }
}

/// Keys that are looked up side by side.
const TOGETHER: usize = 16;

impl Levels {
    /// Looks several keys up at once, so that their misses overlap where they are in the MemTable.
    pub(super) fn read_many<M: Memory>(
        &self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        filters: &Filters<M>,
        keys: &[KeyBuf],
        row: &mut Row,
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.make_visible(arena, log)?;
        for (group, keys) in keys.chunks(TOGETHER).enumerate() {
            let (mut wanted, mut places, mut count) = ([&[][..]; TOGETHER], [0; TOGETHER], 0);
            for (place, key) in keys.iter().enumerate() {
                if self.may_be_active(filters, key)? {
                    (wanted[count], places[count]) = (&**key, place);
                    count += 1;
                }
            }
            let mut values = [None; TOGETHER];
            let wanted = &wanted[..count];
            OrderedIndex::<M, NvWriteSet>::get_many(
                &self.active,
                arena,
                wanted,
                &mut values[..count],
            )?;
            let mut found = [None; TOGETHER];
            for (&place, value) in places.iter().zip(&values[..count]) {
                if let Some(pointer) = *value {
                    arena.prefetch(pointer::block(pointer), self.hint.get());
                    log.visible(arena, pointer::block(pointer))?;
                    found[place] = Some((pointer, 1));
                }
            }
            for (place, key) in keys.iter().enumerate() {
                let newest = match found[place] {
                    None if self.depth > 0 => self.find_from(arena, filters, key, 1)?,
                    newest => newest,
                };
                let is_row = match newest {
                    Some(newest) => self.read_found(arena, filters, key, newest, row)?,
                    None => false,
                };
                visit(group * TOGETHER + place, is_row.then_some(&*row));
            }
        }
        Ok(())
    }
}
