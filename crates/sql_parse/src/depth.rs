//! The nesting of a statement, bounded before a recursive parser sees it.
//!
//! Brackets, prefix operators that follow each other, and `CASE` nest. The rest of the parser's
//! work is bounded by its own limit of recursion.

use super::{NESTING_MAX, NESTING_SHALLOW};
use sql_values::error::{Result, SqlError, SqlState};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// A query inside another one takes as much of the stack as so many brackets.
const QUERY_WEIGHT: usize = 8;
/// Operators of one chain, such as `1 + 2 + 3`, whose tree is as deep as the chain is long.
const CHAIN_MAX: usize = NESTING_MAX;

/// Fails if a statement is nested too deeply; true if it needs a large stack.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> Result<bool> {
    let mut is_deep = false;
    let mut open: Vec<usize> = Vec::new();
    let (mut depth, mut prefixes, mut chain) = (0_usize, 0, 0);
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen | Token::LBracket => open.push(1),
            Token::RParen | Token::RBracket => {
                depth = depth.saturating_sub(open.pop().unwrap_or(0));
            }
            Token::Minus | Token::Plus | Token::Tilde | Token::AtSign => {
                prefixes += 1;
                chain += 1;
            }
            Token::Comma => chain = 0,
            Token::Word(word) => match word.keyword {
                Keyword::NOT => prefixes += 1,
                Keyword::CASE => open.push(1),
                Keyword::END => depth = depth.saturating_sub(open.pop().unwrap_or(0)),
                Keyword::AND | Keyword::OR | Keyword::FROM | Keyword::WHERE => {
                    (prefixes, chain) = (0, 0);
                }
                Keyword::SELECT => {
                    chain = 0;
                    if let Some(weight) = open.last_mut() {
                        depth += QUERY_WEIGHT;
                        *weight += QUERY_WEIGHT;
                    }
                }
                _ => prefixes = 0,
            },
            Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_) => {
                prefixes = 0;
            }
            _ => {
                prefixes = 0;
                chain += 1;
            }
        }
        if matches!(token.token, Token::LParen | Token::LBracket) || is_case(token) {
            depth += 1;
        }
        let nesting = depth + prefixes;
        if nesting > NESTING_MAX || chain > CHAIN_MAX {
            return Err(too_deep());
        }
        is_deep |= nesting.max(chain) > NESTING_SHALLOW;
    }
    Ok(is_deep)
}

fn is_case(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word) if word.keyword == Keyword::CASE)
}

/// The error of a statement that is nested too deeply.
pub fn too_deep() -> SqlError {
    SqlError::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
    )
    .hint(format!(
        "Nest the statement at most {NESTING_MAX} deep; a list of values or a temporary table \
         may take the place of a long chain."
    ))
}
