//! `ctid`, the place of a row: a number of 48 bits that is made of its key; and `xmin`, the number
//! of its version, which is made of all of its columns.
//!
//! A place is a call over the columns of the key, so a plan treats it as any other expression. A
//! key that is one integer gives its own number, and a comparison of such a place becomes one of
//! the key: it finds its row by the key.

use super::Binder;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, Source};
use crate::types::{Datum, Kind};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Its arguments are the table's number and the values of the key.
const PLACE: &str = "\0ctid";
/// The key of a row that has one integer for a key, by its place; or the keys of several.
const KEY: &str = "\0ctid_key";

/// The number of a row's version, by its columns.
pub(super) const ROW_VERSION: &str = "\0xmin";

/// The number that a row has as long as its columns keep their values. Transactions, of which it
/// is one in PostgreSQL, have no numbers below 3.
pub(super) fn version_of(row: &Datum) -> u32 {
    let mut hasher = DefaultHasher::new();
    row.hash(&mut hasher);
    (hasher.finish() % u64::from(u32::MAX - 2)) as u32 + 3
}

impl Binder<'_> {
    /// The places of rows of a table, whose columns begin at `first`.
    pub(super) fn row_place(&mut self, source: &Source, first: usize) -> Result<Expr> {
        let table = Expr::Constant(Datum::Oid(source.oid), Kind::Oid.plain());
        let key = source.key.iter();
        let key = key.map(|&at| Expr::Column(first + at, source.column_type(at)));
        let arguments = std::iter::once(table).chain(key).collect();
        self.call(PLACE, arguments)
    }

    /// Whether the text may name something: it does not if the word is nowhere in it.
    pub(super) fn may_name(&self, word: &str) -> bool {
        let text = self.places.text().as_bytes();
        let mut places = text.windows(word.len());
        self.origin != super::TextOrigin::Statement
            || places.any(|place| place.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Two operands of `=` or `IN`: where the left one is the place of a row with an integer for a
    /// key, its key and the key that the right one means.
    pub(super) fn by_key(&mut self, left: Expr, right: Expr) -> Result<(Expr, Expr)> {
        let Some(key) = integer_key(&left).cloned() else {
            return Ok((left, right));
        };
        let right = match integer_key(&right) {
            Some(other) => other.clone(),
            None if right.kind() == Kind::Tid || right.kind() == Kind::Unknown => {
                let place = self.coerce(right, Kind::Tid.plain())?;
                self.key_of_place(&left, place)?
            }
            None => return Ok((left, right)),
        };
        Ok((key, right))
    }

    /// The operands of `=`, either of which may be such a place.
    pub(super) fn by_keys(&mut self, operands: Vec<Expr>) -> Result<Vec<Expr>> {
        let [left, right] = <[Expr; 2]>::try_from(operands)
            .map_err(|_| SqlError::internal("two operands of an equality"))?;
        let (left, right) = if integer_key(&left).is_some() {
            self.by_key(left, right)?
        } else {
            let (right, left) = self.by_key(right, left)?;
            (left, right)
        };
        Ok(vec![left, right])
    }

    /// The key that a place means in the table of another one, or the keys of an array of places.
    pub(super) fn key_of_place(&mut self, like: &Expr, place: Expr) -> Result<Expr> {
        let Expr::Call(call) = like else {
            return Ok(place);
        };
        self.call(KEY, vec![call.arguments[0].clone(), place])
    }
}

/// The only column of the key that an expression gives the place of, if it has integers.
pub(super) fn integer_key(expression: &Expr) -> Option<&Expr> {
    let Expr::Call(call) = expression else {
        return None;
    };
    match call.arguments.as_slice() {
        [
            _,
            key @ (Expr::Column(_, data_type) | Expr::Outer(_, _, data_type)),
        ] if call.function.name == PLACE => {
            let is_integer = matches!(data_type.kind, Kind::Int2 | Kind::Int4 | Kind::Int8);
            is_integer.then_some(key)
        }
        _ => None,
    }
}
