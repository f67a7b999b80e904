//! Variables of a shell in a text: `:name`, `:'name'` as a literal, `:"name"` as a name, and
//! `:{?name}`, whether there is one.
//!
//! Only variables that are set are replaced, so slices of arrays and casts stay as they are.

use super::token::{Kind, first};
use std::borrow::Cow;

/// The text with the values of its variables.
pub fn substitute(text: &str, value_of: impl Fn(&str) -> Option<String>) -> Cow<'_, str> {
    if !text.contains(':') {
        return Cow::Borrowed(text);
    }
    let mut replaced = String::with_capacity(text.len());
    let mut after_colon = false;
    let mut rest = text;
    while let Some(token) = first(rest) {
        if !after_colon && let Some((value, length)) = reference(rest, &value_of) {
            replaced.push_str(&value);
            rest = &rest[length..];
            continue;
        }
        after_colon = token.text == ":";
        replaced.push_str(token.text);
        rest = &rest[token.text.len()..];
    }
    Cow::Owned(replaced)
}

/// The value of the variable that a text begins with, and the length of its name there.
pub fn reference(text: &str, value_of: impl Fn(&str) -> Option<String>) -> Option<(String, usize)> {
    let name = text.strip_prefix(':')?;
    if let Some(name) = name.strip_prefix("{?") {
        let name = &name[..name.find('}')?];
        let is_name =
            first(name).is_some_and(|token| token.kind == Kind::Word && token.text == name);
        let is_set = if value_of(name).is_some() {
            "TRUE"
        } else {
            "FALSE"
        };
        return is_name.then(|| (is_set.to_owned(), name.len() + ":{?}".len()));
    }
    let next = first(name)?;
    let value = match next.kind {
        Kind::Word => value_of(next.text)?,
        Kind::Text | Kind::Name if next.is_closed && next.text.len() > 2 => {
            let quote = &next.text[..1];
            let value = value_of(&next.text[1..next.text.len() - 1])?;
            format!("{quote}{}{quote}", value.replace(quote, &quote.repeat(2)))
        }
        _ => return None,
    };
    Some((value, next.text.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_are_set_are_replaced() {
        let value_of = |name: &str| (name == "x").then(|| "it's".to_owned());
        for (text, shown) in [
            ("select :x, :'x', :\"x\"", "select it's, 'it''s', \"it's\""),
            (
                "select a::x, b[1:y], ':x', :y",
                "select a::x, b[1:y], ':x', :y",
            ),
            ("a :'y' :", "a :'y' :"),
            (":{?x} :{?y} :{?} :{x}", "TRUE FALSE :{?} :{x}"),
        ] {
            assert_eq!(substitute(text, value_of), shown);
        }
    }
}
