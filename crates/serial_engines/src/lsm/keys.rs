//! Neighbours of keys: a key is a number of many words, so the next one is one more.
//!
//! Readers that stop and go on later, and merges that go on where they were cut off, begin after
//! the last key that they have done. Keys of a tree have the same number of words, so there is
//! nothing between a key and its neighbour.

/// The next greater key; false, and no use, if there is none.
pub(crate) fn increment(key: &mut [u64]) -> bool {
    for word in key.iter_mut().rev() {
        let (sum, carries) = word.overflowing_add(1);
        *word = sum;
        if !carries {
            return true;
        }
    }
    false
}

/// The next smaller key; false, and no use, if there is none.
pub(crate) fn decrement(key: &mut [u64]) -> bool {
    for word in key.iter_mut().rev() {
        let (difference, borrows) = word.overflowing_sub(1);
        *word = difference;
        if !borrows {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_keys_carry_over_words() {
        let mut key = [1, u64::MAX];
        assert!(increment(&mut key));
        assert_eq!(key, [2, 0]);
        assert!(decrement(&mut key));
        assert_eq!(key, [1, u64::MAX]);
        assert!(!increment(&mut [u64::MAX, u64::MAX]));
        assert!(!decrement(&mut [0, 0]));
    }
}
