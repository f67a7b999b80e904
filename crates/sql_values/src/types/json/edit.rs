//! Finding and changing parts of a tree: paths, containment, deletion, insertion.
//!
//! Trees are immutable: each change makes a new tree that shares nothing with the old one. Negative
//! positions of arrays count from the end.

use super::super::size;
use super::text::{DEPTH_MAX, too_deep};
use super::value::{Json, place};
use crate::error::{Result, SqlError, SqlState};

fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A step of a path, as a place in an array.
pub fn index_of(step: &str) -> Option<i64> {
    step.trim_start().parse::<i32>().ok().map(i64::from)
}

/// Most elements that an assignment adds to arrays before the places that it names.
const ADDED_MAX: usize = 1 << 22;

impl Json {
    /// The part at the end of a path.
    pub fn at_path<'j>(&'j self, path: &[&str]) -> Option<&'j Json> {
        path.iter().try_fold(self, |json, step| match json {
            Json::Array(_) => json.at(index_of(step)?),
            _ => json.get(step),
        })
    }

    /// Whether it is an array or object without members.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Array(elements) => elements.is_empty(),
            Self::Object(pairs) => pairs.is_empty(),
            _ => false,
        }
    }

    fn is_scalar(&self) -> bool {
        !matches!(self, Self::Array(_) | Self::Object(_))
    }

    /// Whether all of the other value is found in this one.
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            // An array contains a scalar, but only at the top.
            (Self::Array(elements), scalar) if scalar.is_scalar() => {
                elements.iter().any(|element| element == scalar)
            }
            _ => self.contains_within(other),
        }
    }

    fn contains_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(_), Self::Object(pairs)) => pairs.iter().all(|(key, value)| {
                self.get(key)
                    .is_some_and(|found| found.contains_within(value))
            }),
            (Self::Array(mine), Self::Array(theirs)) => theirs
                .iter()
                .all(|wanted| mine.iter().any(|element| element.contains_within(wanted))),
            _ => self == other,
        }
    }

    /// Whether a string is a key of the object, an element of the array, or the string itself.
    pub fn has_key(&self, key: &str) -> bool {
        match self {
            Self::Object(_) => self.get(key).is_some(),
            Self::Array(elements) => elements
                .iter()
                .any(|one| matches!(one, Self::String(text) if text == key)),
            Self::String(text) => text == key,
            _ => false,
        }
    }

    /// Both together: pairs of objects, elements of arrays; others count as elements.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Self {
        if let (Self::Object(mine), Self::Object(theirs)) = (self, other) {
            return Self::object(mine.iter().chain(theirs).cloned().collect());
        }
        let elements = |json: &Self| match json {
            Self::Array(elements) => elements.clone(),
            single => vec![single.clone()],
        };
        let mut all = elements(self);
        all.extend(elements(other));
        Self::Array(all)
    }

    /// Without the keys of an object, or the strings of an array.
    pub fn without_keys(&self, keys: &[&str]) -> Result<Self> {
        match self {
            Self::Object(pairs) => {
                let kept = pairs
                    .iter()
                    .filter(|(key, _)| !keys.contains(&key.as_str()));
                Ok(Self::Object(kept.cloned().collect()))
            }
            Self::Array(elements) => {
                let kept = elements.iter().filter(
                    |one| !matches!(one, Self::String(text) if keys.contains(&text.as_str())),
                );
                Ok(Self::Array(kept.cloned().collect()))
            }
            _ => Err(bad("cannot delete from scalar")),
        }
    }

    /// Without an element of an array.
    pub fn without_element(&self, index: i64) -> Result<Self> {
        match self {
            Self::Array(elements) => {
                let mut kept = elements.clone();
                if let Some(at) = place(index, kept.len()) {
                    kept.remove(at);
                }
                Ok(Self::Array(kept))
            }
            Self::Object(_) => Err(bad("cannot delete from object using integer index")),
            _ => Err(bad("cannot delete from scalar")),
        }
    }

    /// Without the part at the end of a path.
    pub fn without_path(&self, path: &[&str]) -> Result<Self> {
        let mut changed = self.clone();
        changed.change(path, 0, &Change::Delete)?;
        Ok(changed)
    }

    /// With another value at the end of a path; a missing one is made if wanted.
    pub fn with_path(&self, path: &[&str], value: &Self, creates: bool) -> Result<Self> {
        let mut changed = self.clone();
        changed.change(path, 0, &Change::Set { value, creates })?;
        Ok(changed)
    }

    /// With a new value at the end of a path, before or after the element that is there.
    pub fn with_inserted(&self, path: &[&str], value: &Self, after: bool) -> Result<Self> {
        let mut changed = self.clone();
        changed.change(path, 0, &Change::Insert { value, after })?;
        Ok(changed)
    }

    /// Gives the part at the end of a path another value. Missing objects and arrays on the way
    /// are made, and arrays get nulls before a place after their end.
    ///
    /// # Errors
    ///
    /// 22023 if a scalar is on the way, or a place is before the beginning of an array; 54001 if
    /// the path is too deep, 54000 if a place is too far behind the end of an array.
    pub fn assign(&mut self, path: &[&str], value: &Self) -> Result<()> {
        if path.len() > DEPTH_MAX {
            return Err(too_deep());
        }
        let ahead = path.iter().filter_map(|step| index_of(step));
        let added = ahead.map(|index| usize::try_from(index).unwrap_or(0));
        if added.sum::<usize>() > ADDED_MAX {
            let message =
                format!("number of jsonb array elements exceeds the maximum allowed ({ADDED_MAX})");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        self.assign_from(path, 0, value)
    }

    /// The value, unless it is too long, or nested too deeply to be walked. Its parts are not.
    ///
    /// # Errors
    ///
    /// 54000 and 54001.
    pub fn checked(self) -> Result<Self> {
        if !self.fits(DEPTH_MAX) {
            return Err(too_deep());
        }
        size::check(self.bytes())?;
        Ok(self)
    }

    /// Whether it has at most so many levels.
    fn fits(&self, levels: usize) -> bool {
        let Some(below) = levels.checked_sub(1) else {
            return self.is_scalar();
        };
        match self {
            Self::Array(elements) => elements.iter().all(|one| one.fits(below)),
            Self::Object(pairs) => pairs.iter().all(|(_, one)| one.fits(below)),
            _ => true,
        }
    }

    fn assign_from(&mut self, path: &[&str], level: usize, value: &Self) -> Result<()> {
        let Some(step) = path.get(level) else {
            *self = value.clone();
            return Ok(());
        };
        match self {
            Self::Object(pairs) => {
                if let Some((_, found)) = pairs.iter_mut().find(|(key, _)| key == step) {
                    return found.assign_from(path, level + 1, value);
                }
                let mut all = std::mem::take(pairs);
                all.push(((*step).to_owned(), Self::made(&path[level + 1..], value)));
                *self = Self::object(all);
            }
            Self::Array(elements) => {
                let index = index_or_error(step, level)?;
                if index < -(elements.len() as i64) {
                    return Err(bad(&format!(
                        "path element at position {} is out of range: {index}",
                        level + 1
                    )));
                }
                if let Some(at) = place(index, elements.len()) {
                    return elements[at].assign_from(path, level + 1, value);
                }
                elements.resize(index as usize, Self::Null);
                elements.push(Self::made(&path[level + 1..], value));
            }
            _ => {
                let detail =
                    "The path assumes key is a composite object, but it is a scalar value.";
                return Err(bad("cannot replace existing key").detail(detail));
            }
        }
        Ok(())
    }

    /// A value below objects and arrays that have it at the end of a path.
    fn made(path: &[&str], value: &Self) -> Self {
        let Some((step, rest)) = path.split_first() else {
            return value.clone();
        };
        let below = Self::made(rest, value);
        match index_of(step) {
            Some(index) => {
                let mut elements = vec![Self::Null; usize::try_from(index).unwrap_or(0)];
                elements.push(below);
                Self::Array(elements)
            }
            None => Self::Object(vec![((*step).to_owned(), below)]),
        }
    }

    fn change(&mut self, path: &[&str], level: usize, change: &Change<'_>) -> Result<()> {
        let Some(step) = path.get(level) else {
            return Ok(());
        };
        let is_last = level + 1 == path.len();
        match self {
            Self::Object(_) if is_last => self.change_pair(step, change),
            Self::Object(pairs) => match pairs.iter_mut().find(|(key, _)| key == step) {
                Some((_, value)) => value.change(path, level + 1, change),
                None => Ok(()),
            },
            Self::Array(elements) => {
                let index = index_or_error(step, level)?;
                if is_last {
                    change_element(elements, index, change);
                    return Ok(());
                }
                match place(index, elements.len()) {
                    Some(at) => elements[at].change(path, level + 1, change),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn change_pair(&mut self, key: &str, change: &Change<'_>) -> Result<()> {
        let exists = self.get(key).is_some();
        let Self::Object(pairs) = self else {
            return Ok(());
        };
        let mut all = std::mem::take(pairs);
        match change {
            Change::Delete => all.retain(|(other, _)| other != key),
            Change::Set { value, creates } if exists || *creates => {
                all.push((key.to_owned(), (*value).clone()));
            }
            Change::Set { .. } => {}
            Change::Insert { .. } if exists => {
                return Err(bad("cannot replace existing key")
                    .hint("Try using the function jsonb_set to replace key value."));
            }
            Change::Insert { value, .. } => all.push((key.to_owned(), (*value).clone())),
        }
        *self = Self::object(all);
        Ok(())
    }

    /// Without the pairs of objects whose value is null, at all levels.
    #[must_use]
    pub fn without_nulls(&self) -> Self {
        match self {
            Self::Object(pairs) => {
                let kept = pairs.iter().filter(|(_, value)| *value != Self::Null);
                Self::Object(
                    kept.map(|(key, value)| (key.clone(), value.without_nulls()))
                        .collect(),
                )
            }
            Self::Array(elements) => {
                Self::Array(elements.iter().map(Self::without_nulls).collect())
            }
            other => other.clone(),
        }
    }
}

fn index_or_error(step: &str, level: usize) -> Result<i64> {
    index_of(step).ok_or_else(|| {
        let position = level + 1;
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("path element at position {position} is not an integer: \"{step}\""),
        )
    })
}

/// A change at the end of a path.
enum Change<'j> {
    Delete,
    Set { value: &'j Json, creates: bool },
    Insert { value: &'j Json, after: bool },
}

fn change_element(elements: &mut Vec<Json>, index: i64, change: &Change<'_>) {
    let found = place(index, elements.len());
    let (value, offset) = match (change, found) {
        (Change::Delete, Some(at)) => {
            elements.remove(at);
            return;
        }
        (Change::Set { value, .. }, Some(at)) => {
            elements[at] = (*value).clone();
            return;
        }
        (Change::Insert { value, after }, Some(at)) => {
            elements.insert(at + usize::from(*after), (*value).clone());
            return;
        }
        (Change::Delete | Change::Set { creates: false, .. }, None) => return,
        (Change::Set { value, .. } | Change::Insert { value, .. }, None) => (value, index),
    };
    // Places outside the array are its ends.
    if offset < 0 {
        elements.insert(0, (*value).clone());
    } else {
        elements.push((*value).clone());
    }
}
