//! The most bytes of a value.
//!
//! A longer one is an error before it is made, or soon after its writer has passed the limit, so
//! that no statement takes the memory of all others.

use super::datum::Datum;
use crate::error::{Result, SqlError, SqlState};

/// Bytes that a text, or the text of another value, may have: PostgreSQL's limit.
pub const BYTES_MAX: usize = 1 << 30;

/// A value that is too long.
pub fn too_large() -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        "requested length too large",
    )
}

/// Fails if a value of so many bytes is too long.
pub fn check(bytes: usize) -> Result<()> {
    match bytes {
        0..=BYTES_MAX => Ok(()),
        _ => Err(too_large()),
    }
}

/// Adds the bytes of a part to those of a value, unless both together are too many.
pub fn add(bytes: &mut usize, part: usize) -> Result<()> {
    *bytes += part;
    check(*bytes)
}

/// A text that may be too long.
pub fn text(content: String) -> Result<Datum> {
    check(content.len())?;
    Ok(Datum::text(content))
}

/// A value of `json` that may be too long.
pub fn json(content: String) -> Result<Datum> {
    check(content.len())?;
    Ok(Datum::Json(content.into()))
}

/// Appends a part of a value, unless both together are too long.
pub fn push(out: &mut String, part: &str) -> Result<()> {
    check(out.len() + part.len())?;
    out.push_str(part);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_value_is_one_of_a_gibibyte() {
        assert!(check(BYTES_MAX).is_ok());
        let error = check(BYTES_MAX + 1).expect_err("it is too long");
        assert_eq!(error.state, SqlState::PROGRAM_LIMIT_EXCEEDED);
    }
}
