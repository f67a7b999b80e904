//! Variables of a shell in a text: `:name`, `:'name'` as a literal, `:"name"` as a name.
//!
//! Only variables that are set are replaced, so slices of arrays and casts stay as they are.

use super::token::{Kind, tokens};
use std::borrow::Cow;

/// The text with the values of its variables.
pub fn substitute(text: &str, value_of: impl Fn(&str) -> Option<String>) -> Cow<'_, str> {
    if !text.contains(':') {
        return Cow::Borrowed(text);
    }
    let mut replaced = String::with_capacity(text.len());
    let mut after_colon = false;
    let mut all = tokens(text).peekable();
    while let Some(token) = all.next() {
        let is_colon = token.text == ":";
        if is_colon
            && !after_colon
            && let Some(next) = all.peek()
        {
            let value = match next.kind {
                Kind::Word => value_of(next.text),
                Kind::Text | Kind::Name if next.is_closed && next.text.len() > 2 => {
                    let quote = &next.text[..1];
                    let value = value_of(&next.text[1..next.text.len() - 1]);
                    value.map(|value| {
                        format!("{quote}{}{quote}", value.replace(quote, &quote.repeat(2)))
                    })
                }
                _ => None,
            };
            if let Some(value) = value {
                replaced.push_str(&value);
                all.next();
                continue;
            }
        }
        after_colon = is_colon;
        replaced.push_str(token.text);
    }
    Cow::Owned(replaced)
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
        ] {
            assert_eq!(substitute(text, value_of), shown);
        }
    }
}
