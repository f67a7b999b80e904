//! `EXCLUDE` of the frame of a window, which the parser does not know, and offsets that are texts.
//!
//! `EXCLUDE` becomes a key of the partition with a marked name: `PARTITION BY "exclude TIES", a`. A
//! literal before `PRECEDING` or `FOLLOWING` gets brackets: the parser would take it for an
//! interval.

use super::{EXCLUDE, MARK, Words, marked};
use sqlparser::tokenizer::Token;
use std::ops::Range;

/// Words of a window after the name of another one that it builds on.
const AFTER_NAME: [&str; 5] = ["PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"];

/// Words before an offset.
const BEFORE_OFFSET: [&str; 5] = ["BETWEEN", "AND", "ROWS", "RANGE", "GROUPS"];

impl Words<'_> {
    /// Moves the clause that begins at a place to the keys of the partition.
    pub(super) fn excluded(&mut self, at: usize) {
        let words = match self.word(at + 1).as_str() {
            "CURRENT" if self.is(at + 2, "ROW") => 3,
            "NO" if self.is(at + 2, "OTHERS") => 3,
            "GROUP" | "TIES" => 2,
            _ => return,
        };
        let is_frame = at > 0 && self.is_any(at - 1, &["ROW", "PRECEDING", "FOLLOWING"]);
        let open = match self.token(at + words) {
            Some(Token::RParen) if is_frame => self.before_bracket(at + words),
            _ => None,
        };
        let Some(open) = open else {
            return;
        };
        let is_named = !self.is_any(open + 1, &AFTER_NAME);
        let start = open + 1 + usize::from(is_named);
        let mark = marked(&format!("{EXCLUDE}{}", self.word(at + 1)));
        if self.is(start, "PARTITION") && self.is(start + 1, "BY") {
            self.replace(start + 2..start + 2, &[mark, Token::Comma]);
        } else {
            let [partition, by] = ["PARTITION", "BY"].map(Token::make_keyword);
            self.replace(start..start, &[partition, by, mark]);
        }
        self.replace(at..at + words, &[]);
    }

    /// The clause that a window in brackets has among its keys: where the keys have it, and its
    /// text.
    pub(super) fn exclusion(&self, open: usize) -> Option<(Range<usize>, String)> {
        let at = (open + 3..self.len().min(open + 5)).find(|at| self.is(at - 1, "BY"))?;
        let Some(Token::Word(word)) = self.token(at) else {
            return None;
        };
        let clause = match word.value.strip_prefix(MARK)?.strip_prefix(EXCLUDE)? {
            "CURRENT" => " EXCLUDE CURRENT ROW",
            "GROUP" => " EXCLUDE GROUP",
            "TIES" => " EXCLUDE TIES",
            _ => " EXCLUDE NO OTHERS",
        };
        let is_alone = !self.is_token(at + 1, &Token::Comma);
        let start = if is_alone { at - 2 } else { at };
        Some((start..at + if is_alone { 1 } else { 2 }, clause.to_owned()))
    }

    /// Puts the literal with which the offset before a place begins into brackets.
    pub(super) fn frame_offset(&mut self, at: usize) {
        let begins = |at: &usize| {
            at.checked_sub(1)
                .is_some_and(|before| self.is_any(before, &BEFORE_OFFSET))
        };
        let Some(start) = (0..at).rev().find(begins) else {
            return;
        };
        if matches!(self.token(start), Some(Token::SingleQuotedString(_))) {
            self.replace(start..start, &[Token::LParen]);
            self.replace(at..at, &[Token::RParen]);
        }
    }
}
