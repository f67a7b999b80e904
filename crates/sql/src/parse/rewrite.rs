//! Forms that the parser does not know, in the words of one that it knows.
//!
//! `FOR NO KEY UPDATE` becomes `FOR UPDATE`, and `FOR KEY SHARE` becomes `FOR SHARE`: the locks are
//! stronger, so others wait where they need not, and nothing that is promised is lost. `MOVE`
//! becomes `FETCH`, and is remembered as what it is.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a statement is a `MOVE`.
pub(super) fn is_move(tokens: &[TokenWithSpan]) -> bool {
    let mut words = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)));
    words.next().is_some_and(is_word_move)
}

fn is_word_move(token: &TokenWithSpan) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("move"))
}

/// The tokens of a statement as the parser is to read them.
pub(super) fn rewrite(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut words = [Keyword::NoKeyword; 3];
    for token in tokens {
        if let Token::Whitespace(_) = token.token {
            kept.push(token.clone());
            continue;
        }
        if kept
            .iter()
            .all(|token| matches!(token.token, Token::Whitespace(_)))
            && is_word_move(token)
        {
            kept.push(TokenWithSpan {
                token: Token::make_keyword("FETCH"),
                span: token.span,
            });
            continue;
        }
        let word = match &token.token {
            Token::Word(word) => word.keyword,
            _ => Keyword::NoKeyword,
        };
        let before = match (words, word) {
            ([Keyword::FOR, Keyword::NO, Keyword::KEY], Keyword::UPDATE) => 2,
            ([_, Keyword::FOR, Keyword::KEY], Keyword::SHARE) => 1,
            _ => 0,
        };
        remove_words(&mut kept, before);
        kept.push(token.clone());
        words = [words[1], words[2], word];
    }
    kept
}

/// Takes the last words away.
fn remove_words(tokens: &mut Vec<TokenWithSpan>, mut count: usize) {
    while count > 0
        && let Some(token) = tokens.pop()
    {
        count -= usize::from(!matches!(token.token, Token::Whitespace(_)));
    }
}
