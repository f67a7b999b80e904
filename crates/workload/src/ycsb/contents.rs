//! Values of the columns: text that costs the workload nothing to make and that can be predicted.
//!
//! A value is a window of a hundred letters into a pool of random ones. Which window an update
//! writes follows from its place in the transaction list and its column, so the final content of
//! every row can be derived from the list alone.

use super::{COLUMN_BYTES, COLUMNS};
use crate::random::{Random, mix};
use std::collections::HashMap;

/// Windows into the pool; a power of two.
const WINDOWS: u64 = 1 << 14;

/// The pool of letters.
#[derive(Clone, Debug)]
pub struct Contents {
    letters: String,
    seed: u64,
}

/// Names one of the windows.
pub(super) type Window = u16;

impl Contents {
    /// The contents of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xC0_17E7);
        let length = WINDOWS as usize + COLUMN_BYTES;
        let letters = (0..length)
            .map(|_| char::from(b'a' + random.below(26) as u8))
            .collect();
        Self { letters, seed }
    }

    /// The value of a column after loading.
    pub fn initial(&self, key: u32, column: usize) -> &str {
        self.window(self.initial_window(key, column))
    }

    /// The value that the transaction number `position` of a list writes to a column.
    #[inline]
    pub fn update(&self, list: u32, position: u64, column: usize) -> &str {
        self.window(self.update_window(list, position, column))
    }

    pub(super) fn initial_window(&self, key: u32, column: usize) -> Window {
        self.choose(u64::from(key) * COLUMNS as u64 + column as u64)
    }

    #[inline]
    pub(super) fn update_window(&self, list: u32, position: u64, column: usize) -> Window {
        let number = position * COLUMNS as u64 + column as u64;
        self.choose(number ^ (u64::from(list) + 1) << 52)
    }

    #[inline]
    pub(super) fn window(&self, window: Window) -> &str {
        // All letters are one byte long, so any window is text.
        &self.letters[usize::from(window)..usize::from(window) + COLUMN_BYTES]
    }

    /// Every text that is ever written, with its window.
    pub(super) fn by_text(&self) -> HashMap<&str, Window> {
        (0..WINDOWS as Window)
            .map(|window| (self.window(window), window))
            .collect()
    }

    #[inline]
    fn choose(&self, number: u64) -> Window {
        (mix(number ^ self.seed) % WINDOWS) as Window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_a_hundred_letters_and_differ() {
        let contents = Contents::new(1);
        assert_eq!(contents.initial(0, 0).len(), COLUMN_BYTES);
        assert_ne!(contents.initial(0, 0), contents.initial(0, 1));
        assert_ne!(contents.update(0, 5, 2), contents.update(1, 5, 2));
        assert_eq!(contents.update(0, 5, 2), Contents::new(1).update(0, 5, 2));
        assert_eq!(
            contents
                .window(Window::try_from(WINDOWS - 1).unwrap())
                .len(),
            COLUMN_BYTES
        );
    }
}
