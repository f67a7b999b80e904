//! Places of rows, `ctid`: numbers of 48 bits that stand for their keys.
//!
//! A key that is one integer from 0 on, such as the hidden number of a row without a primary key,
//! is its place. Other keys have a hash of 47 bits beside a bit that tells them apart. The
//! transaction knows the keys that it has given places to, so two of them never share one; beyond
//! [`KEPT_MAX`] keys the hash alone decides.

use crate::catalog::Oid;
use crate::types::Datum;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Of places that are hashes.
const HASHED: u64 = 1 << 47;
/// Keys that are known at once: some megabytes.
const KEPT_MAX: usize = 1 << 16;

/// The places of keys that have no integer for a place, by table.
#[derive(Default)]
pub(crate) struct RowPlaces(HashMap<(Oid, u64), Box<[Datum]>>);

impl RowPlaces {
    /// The place of the row of a table with this key.
    pub(crate) fn place(&mut self, table: Oid, key: &[Datum]) -> u64 {
        if let [Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_)] = key
            && let Some(place) = key[0].int().ok().and_then(|key| u64::try_from(key).ok())
            && place < HASHED
        {
            return place;
        }
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let mut place = hasher.finish() | HASHED;
        loop {
            place &= HASHED | (HASHED - 1);
            let is_full = self.0.len() >= KEPT_MAX;
            match self.0.entry((table, place)) {
                Entry::Occupied(known) if **known.get() == *key => return place,
                Entry::Occupied(_) => place = (place + 1) | HASHED,
                Entry::Vacant(new) => {
                    if !is_full {
                        new.insert(key.into());
                    }
                    return place;
                }
            }
        }
    }

    /// The key of a row of a table whose key is an integer; none if it is not known.
    pub(crate) fn key(&self, table: Oid, place: u64) -> Option<i64> {
        if place < HASHED {
            return i64::try_from(place).ok();
        }
        self.0.get(&(table, place))?.first()?.int().ok()
    }

    /// As [`RowPlaces::key`], as values.
    pub(crate) fn key_of(&self, table: Oid, place: &Datum) -> Datum {
        match place {
            Datum::Tid(place) => self.key(table, *place).map_or(Datum::Null, Datum::Int8),
            _ => Datum::Null,
        }
    }

    /// Forgets them: the transaction has ended.
    pub(crate) fn clear(&mut self) {
        if !self.0.is_empty() {
            self.0 = HashMap::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HASHED, RowPlaces};
    use crate::types::Datum;

    #[test]
    fn a_place_leads_back_to_its_key() {
        let mut places = RowPlaces::default();
        let numbers = [
            0,
            7,
            HASHED as i64 - 1,
            HASHED as i64,
            -1,
            i64::MIN,
            i64::MAX,
        ];
        for number in numbers {
            let place = places.place(9, &[Datum::Int8(number)]);
            assert!(place < 1 << 48);
            assert_eq!(place < HASHED, (0..HASHED as i64).contains(&number));
            assert_eq!(places.key(9, place), Some(number));
            assert_eq!(places.place(9, &[Datum::Int8(number)]), place);
        }
        let hashed = places.place(9, &[Datum::Int8(-1)]);
        assert_eq!(places.key(8, hashed), None, "of another table");
        places.clear();
        assert_eq!(places.key(9, hashed), None);
        assert_eq!(places.place(9, &[Datum::Int8(-1)]), hashed, "a hash stays");
    }

    #[test]
    fn two_keys_never_share_a_place() {
        let mut places = RowPlaces::default();
        let key = [Datum::text("a"), Datum::Null];
        let place = places.place(1, &key);
        places
            .0
            .insert((1, place), Box::new([Datum::text("other")]));
        let next = places.place(1, &key);
        assert_ne!(next, place);
        assert!((HASHED..1 << 48).contains(&next));
        assert_eq!(places.place(1, &key), next);
    }
}
