//! The nesting of a statement, bounded before a recursive parser sees it.
//!
//! Brackets, prefix operators that follow each other, and `CASE` nest. The rest of the parser's work
//! is bounded by its own limit of recursion.

use super::NESTING_MAX;
use crate::error::{Result, SqlError, SqlState};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Fails if a statement is nested too deeply.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let (mut open, mut prefixes, mut deepest) = (0_usize, 0, 0);
    for token in tokens {
        match &token.token {
            Token::Whitespace(_) => {}
            Token::LParen | Token::LBracket => open += 1,
            Token::RParen | Token::RBracket => open = open.saturating_sub(1),
            Token::Minus | Token::Plus | Token::Tilde | Token::AtSign => prefixes += 1,
            Token::Word(word) => match word.keyword {
                Keyword::NOT => prefixes += 1,
                Keyword::CASE => open += 1,
                Keyword::END => {
                    open = open.saturating_sub(1);
                    prefixes = 0;
                }
                _ => prefixes = 0,
            },
            _ => prefixes = 0,
        }
        deepest = deepest.max(open + prefixes);
    }
    if deepest <= NESTING_MAX {
        return Ok(());
    }
    Err(too_deep())
}

/// The error of a statement that is nested too deeply.
pub(crate) fn too_deep() -> SqlError {
    SqlError::new(
        SqlState::STATEMENT_TOO_COMPLEX,
        "stack depth limit exceeded",
    )
    .hint(format!(
        "Nest the statement at most {NESTING_MAX} deep; a list of values or a temporary table \
         may take the place of a long chain."
    ))
}
