//! Places of rows, `ctid`: numbers of 48 bits that stand for their keys.
//!
//! A key that is one integer below 2^46, such as the hidden number of a row without a primary key,
//! is its place in 47 bits. Other keys have a hash of 47 bits beside a bit that tells them apart.
//! The session knows the keys that the transaction has given such places to, so two of them never
//! share one. They take memory, so there is a limit.

use crate::catalog::Oid;
use crate::error::{Result, SqlError, SqlState};
use crate::types::Datum;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Of places that are hashes.
const HASHED: u64 = 1 << 47;
const INTEGER_BITS: u32 = 47;
/// Places that are hashes and are known at once: 200 MB.
const KNOWN_MAX: usize = 1 << 22;
/// Those that later transactions still know, if there are no more.
const KEPT_MAX: usize = 1 << 14;

/// The keys of places that are hashes, by table.
#[derive(Default)]
pub struct RowPlaces(HashMap<(Oid, u64), Key>);

/// A key that has a hash for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Integer(i64),
    /// Another hash, of all 64 bits.
    Other(u64),
}

impl RowPlaces {
    /// The place of the row of a table with this key.
    pub fn place(&mut self, table: Oid, key: &[Datum]) -> Result<u64> {
        let integer = match key {
            [Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_)] => key[0].int().ok(),
            _ => None,
        };
        if let Some(place) = integer.and_then(own_place) {
            return Ok(place);
        }
        let known = integer.map_or_else(|| Key::Other(hash(key, 1)), Key::Integer);
        let mut place = hash(key, 0) | HASHED;
        loop {
            place &= HASHED | (HASHED - 1);
            let is_full = self.0.len() >= KNOWN_MAX;
            match self.0.entry((table, place)) {
                Entry::Occupied(other) if *other.get() == known => return Ok(place),
                Entry::Occupied(_) => place = (place + 1) | HASHED,
                Entry::Vacant(_) if is_full => return Err(too_many()),
                Entry::Vacant(new) => {
                    new.insert(known);
                    return Ok(place);
                }
            }
        }
    }

    /// The key of a row of a table whose key is an integer; none if no row is known to have it.
    pub fn key(&self, table: Oid, place: u64) -> Option<i64> {
        if place < HASHED {
            let unused = u64::BITS - INTEGER_BITS;
            return Some((place << unused).cast_signed() >> unused);
        }
        match self.0.get(&(table, place)) {
            Some(Key::Integer(key)) => Some(*key),
            _ => None,
        }
    }

    /// As [`RowPlaces::key`], as values.
    pub fn key_of(&self, table: Oid, place: &Datum) -> Datum {
        match place {
            Datum::Tid(place) => self.key(table, *place).map_or(Datum::Null, Datum::Int8),
            _ => Datum::Null,
        }
    }

    /// The transaction has ended: forgets them if they are many.
    pub fn end(&mut self) {
        if self.0.len() > KEPT_MAX {
            self.0 = HashMap::new();
        }
    }
}

/// The place that an integer is, if it has so few bits.
fn own_place(key: i64) -> Option<u64> {
    let limit = 1_i64 << (INTEGER_BITS - 1);
    (-limit..limit)
        .contains(&key)
        .then_some(key.cast_unsigned() & (HASHED - 1))
}

fn hash(key: &[Datum], seed: u8) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, key).hash(&mut hasher);
    hasher.finish()
}

fn too_many() -> SqlError {
    let message = format!(
        "a transaction knows the ctid of at most {KNOWN_MAX} rows whose keys are no small integers"
    );
    SqlError::new(SqlState::OUT_OF_MEMORY, message).hint("Use the primary key.")
}

#[cfg(test)]
mod tests {
    use super::{HASHED, KEPT_MAX, Key, RowPlaces};
    use crate::types::Datum;

    #[test]
    fn a_place_leads_back_to_its_key() {
        let mut places = RowPlaces::default();
        let limit = 1_i64 << 46;
        for number in [
            0,
            7,
            -1,
            limit - 1,
            -limit,
            limit,
            -limit - 1,
            i64::MIN,
            i64::MAX,
        ] {
            let place = places.place(9, &[Datum::Int8(number)]).unwrap();
            assert!(place < 1 << 48);
            assert_eq!(place < HASHED, (-limit..limit).contains(&number));
            assert_eq!(places.key(9, place), Some(number));
            assert_eq!(places.place(9, &[Datum::Int8(number)]).unwrap(), place);
        }
        assert_eq!(places.place(9, &[Datum::Int4(5)]).unwrap(), 5);
        let hashed = places.place(9, &[Datum::Int8(i64::MAX)]).unwrap();
        assert_eq!(places.key(8, hashed), None, "of another table");
        places.end();
        assert_eq!(places.key(9, hashed), Some(i64::MAX), "they are few");
        for number in 0..KEPT_MAX as i64 {
            places.place(9, &[Datum::Int8(i64::MIN + number)]).unwrap();
        }
        assert_eq!(places.key(9, hashed), Some(i64::MAX));
        places.end();
        assert_eq!(places.key(9, hashed), None);
        let again = places.place(9, &[Datum::Int8(i64::MAX)]).unwrap();
        assert_eq!(again, hashed, "a hash stays");
    }

    #[test]
    fn two_keys_never_share_a_place() {
        let mut places = RowPlaces::default();
        let key = [Datum::text("a"), Datum::Null];
        let place = places.place(1, &key).unwrap();
        places.0.insert((1, place), Key::Other(0));
        let next = places.place(1, &key).unwrap();
        assert_ne!(next, place);
        assert!((HASHED..1 << 48).contains(&next));
        assert_eq!(places.place(1, &key).unwrap(), next);
    }
}
