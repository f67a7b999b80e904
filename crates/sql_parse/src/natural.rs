//! `NATURAL` joins in texts that the catalogue keeps: written as joins with `USING`.
//!
//! Both tables may get columns of one name later, by which a `NATURAL` join would join them too.
//! The text is one that was printed of a tree, so each join has its words in a fixed order.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::BTreeMap;

use crate::LineIndex;

/// Words that may follow a part of `FROM`, and are no names.
const AFTER: [Keyword; 21] = [
    Keyword::NATURAL,
    Keyword::JOIN,
    Keyword::INNER,
    Keyword::LEFT,
    Keyword::RIGHT,
    Keyword::FULL,
    Keyword::CROSS,
    Keyword::ON,
    Keyword::USING,
    Keyword::WHERE,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::WINDOW,
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::FETCH,
    Keyword::FOR,
];

/// A text whose `NATURAL` joins have `USING`, with the quoted names of the columns, by a byte of
/// the right side before all joins in it. None if there are none, or not as many as there are
/// names.
pub fn without_natural(text: &str, names: &BTreeMap<usize, Vec<String>>) -> Option<String> {
    let tokens = super::tokens::tokens(text).ok()?;
    let tokens: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !is_space(token)).collect();
    let places = LineIndex::new(text);
    let natural = tokens.iter().enumerate();
    let natural: Vec<usize> = natural
        .filter(|(_, token)| keyword(token) == Some(Keyword::NATURAL))
        .map(|(at, _)| at)
        .collect();
    if natural.is_empty() || natural.len() != names.len() {
        return None;
    }
    // Bytes that go, and texts that come in their place.
    let mut changes: Vec<(usize, usize, String)> = Vec::new();
    for at in natural {
        let start = places.byte(tokens[at].span.start);
        let next = tokens.get(at + 1)?;
        changes.push((start, places.byte(next.span.start), String::new()));
        let join = (at..tokens.len()).find(|at| keyword(tokens[*at]) == Some(Keyword::JOIN))?;
        let last = last_of_part(&tokens, join + 1);
        let end = places.byte(tokens.get(last)?.span.end);
        let (_, names) = names.range(start..).next()?;
        let condition = match names.as_slice() {
            [] => " ON true".to_owned(),
            names => format!(" USING ({})", names.join(", ")),
        };
        changes.push((end, end, condition));
    }
    let mut new = text.to_owned();
    changes.sort_by_key(|(start, ..)| *start);
    for (start, end, by) in changes.iter().rev() {
        new.replace_range(*start..*end, by);
    }
    Some(new)
}

/// The last token of the part of `FROM` that begins with a token.
fn last_of_part(tokens: &[&TokenWithSpan], first: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(first) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth > 0 => depth -= 1,
            Token::RParen | Token::Comma | Token::SemiColon if depth == 0 => return at - 1,
            _ if depth == 0 && keyword(token).is_some_and(|word| AFTER.contains(&word)) => {
                return at - 1;
            }
            _ => {}
        }
    }
    tokens.len() - 1
}

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_) | Token::EOF)
}
