//! Checks and collations in a definition of SQLite: they do not come along, so the user is told.
//!
//! No query of SQLite lists them, so the text of the definition is read word by word. Quoted texts
//! and comments are never taken for either.

use std::ops::Range;

/// The checks and collations of a table's definition, in words; `BINARY` is the usual order.
pub(super) fn unkept(table: &str, sql: &str) -> Vec<String> {
    let tokens = tokens(sql);
    let word = |at: usize| tokens.get(at).map_or("", |range| &sql[range.clone()]);
    let (mut found, mut column, mut depth, mut at) = (Vec::new(), "", 0_u32, 0);
    while at < tokens.len() {
        match word(at).to_ascii_lowercase().as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            "check" if word(at + 1) == "(" => {
                let start = tokens[at + 1].start;
                at = end_of_brackets(at + 1, &word);
                let end = tokens.get(at).map_or(sql.len(), |range| range.end);
                let words: Vec<&str> = sql[start..end].split_whitespace().collect();
                found.push(format!("the check {} of {table}", words.join(" ")));
            }
            "collate" => {
                at += 1;
                let owner = match depth {
                    1 => format!("{table}.{}", column.trim_matches(['"', '`', '[', ']'])),
                    _ => format!("a key of {table}"),
                };
                if !word(at).eq_ignore_ascii_case("binary") {
                    found.push(format!("the collation {} of {owner}", word(at)));
                }
            }
            _ => {}
        }
        if depth == 1 && matches!(word(at), "(" | ",") {
            column = word(at + 1);
        }
        at += 1;
    }
    found
}

/// The token that closes the brackets which the token at `at` opens.
fn end_of_brackets<'a>(mut at: usize, word: &dyn Fn(usize) -> &'a str) -> usize {
    let mut depth = 0_u32;
    loop {
        match word(at) {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 || word(at).is_empty() {
            return at;
        }
        at += 1;
    }
}

/// Words, quoted texts and single characters, without spaces and comments.
fn tokens(sql: &str) -> Vec<Range<usize>> {
    let is_of_word = |one: char| one.is_alphanumeric() || one == '_' || one == '$';
    let (mut tokens, mut start) = (Vec::new(), 0);
    while let Some(first) = sql[start..].chars().next() {
        let rest = &sql[start..];
        let is_line = rest.starts_with("--");
        let is_comment = is_line || rest.starts_with("/*");
        let length = match first {
            _ if is_line => rest.find('\n').unwrap_or(rest.len()),
            _ if is_comment => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            '\'' | '"' | '`' | '[' => {
                let close = if first == '[' { ']' } else { first };
                rest[1..].find(close).map_or(rest.len(), |end| end + 2)
            }
            one if is_of_word(one) => rest.find(|one| !is_of_word(one)).unwrap_or(rest.len()),
            other => other.len_utf8(),
        };
        if !is_comment && !first.is_whitespace() {
            tokens.push(start..start + length);
        }
        start += length;
    }
    tokens
}
