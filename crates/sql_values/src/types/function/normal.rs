//! Normal forms of Unicode texts: `normalize()`, and `IS NORMALIZED`.
//!
//! The form is named by a text; without one it is NFC.

use super::super::datum::Datum;
use super::super::kind::Kind::{Bool, Text};
use super::Function;
use crate::error::{Result, SqlError, SqlState};
use unicode_normalization::UnicodeNormalization;

/// A text in a normal form.
fn normalized(text: &str, form: &str) -> Result<String> {
    Ok(match form.to_ascii_uppercase().as_str() {
        "NFC" => text.nfc().collect(),
        "NFD" => text.nfd().collect(),
        "NFKC" => text.nfkc().collect(),
        "NFKD" => text.nfkd().collect(),
        _ => {
            let message = format!("invalid normalization form: {form}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    })
}

/// Functions of normal forms.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("normalize", &[Text], Text, |_, a| {
        normalized(a[0].str()?, "NFC").map(Datum::text)
    }),
    Function::scalar("normalize", &[Text, Text], Text, |_, a| {
        normalized(a[0].str()?, a[1].str()?).map(Datum::text)
    }),
    Function::scalar("is_normalized", &[Text, Text], Bool, |_, a| {
        let text = a[0].str()?;
        Ok(Datum::Bool(normalized(text, a[1].str()?)? == text))
    }),
];
