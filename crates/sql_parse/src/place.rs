//! Places in a text: the parser's lines and columns as characters and as bytes.
//!
//! PostgreSQL counts the characters of the whole text from 1; the parser counts lines, and the
//! characters of each, from 1.

use sqlparser::tokenizer::{Location, Span};
use std::sync::Arc;

/// The lines of a text.
#[derive(Clone, Debug, Default)]
pub struct LineIndex {
    text: Arc<str>,
    /// For each line the byte and the character with which it begins, from 0.
    lines: Vec<(usize, usize)>,
}

impl LineIndex {
    /// The places of a text.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let mut lines = vec![(0, 0)];
        for (characters, (byte, character)) in text.char_indices().enumerate() {
            if character == '\n' {
                lines.push((byte + 1, characters + 1));
            }
        }
        Self { text, lines }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The character of a location, from 1; none for one that the parser did not note.
    pub fn position(&self, location: Location) -> Option<usize> {
        let line = usize::try_from(location.line).ok()?.checked_sub(1)?;
        let (_, characters) = *self.lines.get(line)?;
        Some(characters + usize::try_from(location.column).ok()?)
    }

    /// The character with which a part of the tree begins, from 1.
    pub fn start(&self, span: Span) -> Option<usize> {
        self.position(span.start)
    }

    /// The byte of a location, or the end of the text.
    pub fn byte(&self, location: Location) -> usize {
        let line = (location.line as usize).checked_sub(1);
        let Some((start, _)) = line.and_then(|line| self.lines.get(line)) else {
            return self.text.len();
        };
        let rest = &self.text[*start..];
        let before = (location.column as usize).saturating_sub(1);
        let within = rest.char_indices().nth(before);
        within.map_or(self.text.len(), |(byte, _)| start + byte)
    }

    /// The text of a token.
    pub fn text_of(&self, span: Span) -> &str {
        let range = self.byte(span.start)..self.byte(span.end);
        self.text.get(range).unwrap_or_default()
    }
}
