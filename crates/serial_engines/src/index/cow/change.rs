//! Changes of a tree: where an entry goes in and comes out, splits and merges.
//!
//! A change first finds its place by reading, then makes the path there dirty from the root down,
//! so that a refused insertion copies nothing. A node that is full is split in two by bytes; at the
//! right edge of the tree the new entry goes into a new node alone, so that rows which come in key
//! order fill their nodes. A node that is less than a third full is merged with a neighbour where
//! both fit into three quarters of a page.

use super::node::{HEADER_BYTES, Image, count_word, inline_range, inline_word};
use super::tree::{Path, open_node};
use super::{CowTree, INLINE, PageStore, Pages, Value, long};
use crate::index::nv_node::{append_words, bytes_of};
use storage::{Result, StorageError};

/// An entry on its way into a node.
struct NewEntry<'e> {
    entry: &'e [u8],
    content: Option<&'e [u8]>,
}

impl NewEntry<'_> {
    fn content_bytes(&self) -> usize {
        self.content
            .map_or(0, |content| content.len().next_multiple_of(8))
    }
}

impl CowTree {
    /// Adds a key; false, and no effect, if it is there.
    pub fn insert<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        key: &[u64],
        value: Value<'_>,
    ) -> Result<bool> {
        let mut path = Path::default();
        let found = self.find_path(pages, key, &mut path)?;
        if found == Some(true) {
            return Ok(false);
        }
        let mut entry = bytes_of(key);
        let content = self.value_bytes(pages, value, &mut entry)?;
        let new = NewEntry {
            entry: &entry,
            content,
        };
        if found.is_some() {
            self.own(pages, &mut path)?;
            self.put(pages, &path, path.length - 1, &new)?;
        } else {
            let mut image = Image::new(self.shape, 0);
            image.push(new.entry, new.content);
            let root = pages.create(&image.finish())?;
            pages.set_root(self.tree, root);
        }
        Ok(true)
    }

    /// Gives a key another value; false if it is not there.
    pub fn replace<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        key: &[u64],
        value: Value<'_>,
    ) -> Result<bool> {
        let mut path = Path::default();
        if self.find_path(pages, key, &mut path)? != Some(true) {
            return Ok(false);
        }
        self.replace_at(pages, key, &mut path, value)?;
        Ok(true)
    }

    /// Gives a key another value, of one word, which `change` makes from the one that it has; false
    /// if it is not there. `change` leaves the trees alone.
    pub fn replace_word<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        key: &[u64],
        change: impl FnOnce(&mut Pages<S>, u64) -> Result<u64>,
    ) -> Result<bool> {
        let mut path = Path::default();
        if self.find_path(pages, key, &mut path)? != Some(true) {
            return Ok(false);
        }
        let leaf = path.leaf();
        let old = open_node(pages, self.shape, leaf.reference)?.value_word(leaf.index())?;
        let new = change(pages, old)?;
        self.replace_at(pages, key, &mut path, Value::Words(&[new]))?;
        Ok(true)
    }

    /// Gives a key another content, which `change` makes in `image` from the one that it has; false
    /// if it is not there. `buffer` is for contents that the leaf has no room for.
    pub fn replace_content<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        key: &[u64],
        buffer: &mut Vec<u8>,
        image: &mut Vec<u8>,
        change: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        let mut path = Path::default();
        if self.find_path(pages, key, &mut path)? != Some(true) {
            return Ok(false);
        }
        let found = path.found();
        self.get_found(pages, found, buffer, |old| change(old.bytes(), image))?;
        self.replace_at(pages, key, &mut path, Value::Bytes(image))?;
        Ok(true)
    }

    /// Gives the key at the end of a way another value.
    fn replace_at<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        key: &[u64],
        path: &mut Path,
        value: Value<'_>,
    ) -> Result<()> {
        self.own(pages, path)?;
        let leaf = path.leaf();
        let value_at =
            HEADER_BYTES + leaf.index() * self.shape.entry_bytes(0) + 8 * self.shape.key_words;
        if let Value::Words(words) = value {
            for (number, word) in words.iter().enumerate() {
                pages.edit(leaf.reference, value_at + 8 * number, &word.to_le_bytes())?;
            }
            return Ok(());
        }
        let word = open_node(pages, self.shape, leaf.reference)?.value_word(leaf.index())?;
        let bytes = value.bytes();
        if word & INLINE != 0 && inline_range(word).1 == bytes.len() {
            open_node(pages, self.shape, leaf.reference)?.content(word)?;
            return pages.edit(leaf.reference, inline_range(word).0, bytes);
        }
        // An entry of another length: out with the old one, in with the new one, in the same place.
        let mut entry = bytes_of(key);
        let content = self.value_bytes(pages, value, &mut entry)?;
        drop_value(pages, word)?;
        self.take(pages, leaf.reference, leaf.index())?;
        let new = NewEntry {
            entry: &entry,
            content,
        };
        self.put(pages, path, path.length - 1, &new)
    }

    /// Makes the way to a key dirty, so that its value can be changed without any space. False if
    /// it is not there.
    pub fn touch<S: PageStore>(&self, pages: &mut Pages<S>, key: &[u64]) -> Result<bool> {
        let mut path = Path::default();
        if self.find_path(pages, key, &mut path)? != Some(true) {
            return Ok(false);
        }
        self.own(pages, &mut path)?;
        Ok(true)
    }

    /// Takes a key out; false if it is not there.
    pub fn remove<S: PageStore>(&self, pages: &mut Pages<S>, key: &[u64]) -> Result<bool> {
        let mut path = Path::default();
        if self.find_path(pages, key, &mut path)? != Some(true) {
            return Ok(false);
        }
        self.own(pages, &mut path)?;
        let leaf = path.leaf();
        if self.shape.has_contents(0) {
            let word = open_node(pages, self.shape, leaf.reference)?.value_word(leaf.index())?;
            drop_value(pages, word)?;
        }
        self.take(pages, leaf.reference, leaf.index())?;
        self.shrink(pages, &path)?;
        Ok(true)
    }

    /// Appends the value's words to `entry`; a content that the leaf will hold is returned.
    fn value_bytes<'v, S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        value: Value<'v>,
        entry: &mut Vec<u8>,
    ) -> Result<Option<&'v [u8]>> {
        match value {
            Value::Words(words) if words.len() == self.shape.value_words => {
                append_words(entry, words);
                Ok(None)
            }
            Value::Bytes(bytes) if self.shape.has_contents(0) => {
                let is_inline = bytes.len() <= self.shape.inline_bytes_max();
                let word = if is_inline {
                    0
                } else {
                    long::write(pages, bytes)?
                };
                entry.extend_from_slice(&word.to_le_bytes());
                Ok(is_inline.then_some(bytes))
            }
            _ => Err(StorageError::Unsupported(
                "a value of another kind than its tree's".to_owned(),
            )),
        }
    }

    /// Makes every page of a way dirty.
    fn own<S: PageStore>(&self, pages: &mut Pages<S>, path: &mut Path) -> Result<()> {
        for depth in 0..path.length {
            let old = path.steps[depth].reference;
            let new = pages.own(old)?;
            if new == old {
                continue;
            }
            path.steps[depth].reference = new;
            match depth.checked_sub(1) {
                None => pages.set_root(self.tree, new),
                Some(above) => {
                    let parent = path.steps[above];
                    pages.edit(
                        parent.reference,
                        self.child_at(parent.index()),
                        &new.to_le_bytes(),
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Offset in an inner node of the reference of entry `index`.
    fn child_at(&self, index: usize) -> usize {
        HEADER_BYTES + index * self.shape.entry_bytes(1) + 8 * self.shape.key_words
    }

    /// Puts an entry into the dirty node of a step, at its index.
    fn put<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        path: &Path,
        depth: usize,
        new: &NewEntry<'_>,
    ) -> Result<()> {
        let step = path.steps[depth];
        let at = if depth + 1 == path.length {
            step.index()
        } else {
            step.index() + 1
        };
        let node = open_node(pages, self.shape, step.reference)?;
        let entries_end = HEADER_BYTES + node.count * self.shape.entry_bytes(node.level);
        let wanted = new.entry.len() + new.content_bytes();
        if entries_end + wanted <= node.contents_at {
            return self.put_in_gap(pages, step.reference, at, new);
        }
        let level = node.level;
        if self.shape.has_contents(level) && node.used_bytes()? + wanted <= self.shape.capacity() {
            let mut image = Image::new(self.shape, level);
            node.copy_to(&mut image, 0..at)?;
            image.push(new.entry, new.content);
            node.copy_to(&mut image, at..node.count)?;
            return pages.edit(step.reference, 0, &image.finish());
        }
        let is_right_edge =
            path.steps[..=depth].iter().all(|step| step.is_last) && at == node.count;
        self.split(pages, path, depth, at, new, is_right_edge)
    }

    /// Puts an entry where the node has room between entries and contents.
    fn put_in_gap<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        reference: u64,
        at: usize,
        new: &NewEntry<'_>,
    ) -> Result<()> {
        let node = open_node(pages, self.shape, reference)?;
        let (count, mut contents_at) = (node.count, node.contents_at);
        let moved = node.entries_from(at)?;
        let mut bytes = Vec::with_capacity(new.entry.len() + moved.len());
        bytes.extend_from_slice(new.entry);
        let mut content_place = None;
        if let Some(content) = new.content {
            contents_at -= new.content_bytes();
            let word = inline_word(contents_at, content.len()).to_le_bytes();
            let word_at = bytes.len() - 8;
            bytes[word_at..].copy_from_slice(&word);
            content_place = Some((contents_at, content));
        }
        let first = HEADER_BYTES + at * self.shape.entry_bytes(node.level);
        bytes.extend_from_slice(moved);
        pages.edit(reference, first, &bytes)?;
        if let Some((place, content)) = content_place {
            pages.edit(reference, place, content)?;
        }
        pages.edit(
            reference,
            16,
            &count_word(count + 1, contents_at).to_le_bytes(),
        )
    }

    /// Splits a full node, with the new entry at `at`, and tells the node above.
    fn split<S: PageStore>(
        &self,
        pages: &mut Pages<S>,
        path: &Path,
        depth: usize,
        at: usize,
        new: &NewEntry<'_>,
        is_right_edge: bool,
    ) -> Result<()> {
        let reference = path.steps[depth].reference;
        let node = open_node(pages, self.shape, reference)?;
        let level = node.level;
        // All entries in one image that is larger than a page, then cut.
        let sizes = entry_sizes(&node, at, new)?;
        let cut = if is_right_edge {
            node.count
        } else {
            cut_of(&sizes)
        };
        let (mut left, mut right) = (Image::new(self.shape, level), Image::new(self.shape, level));
        for number in 0..=node.count {
            let image = if number < cut { &mut left } else { &mut right };
            match number.cmp(&at) {
                std::cmp::Ordering::Less => node.copy_to(image, number..number + 1)?,
                std::cmp::Ordering::Equal => image.push(new.entry, new.content),
                std::cmp::Ordering::Greater => node.copy_to(image, number - 1..number)?,
            }
        }
        let key_bytes = 8 * self.shape.key_words;
        let separator = right.bytes[HEADER_BYTES..HEADER_BYTES + key_bytes].to_vec();
        pages.edit(reference, 0, &left.finish())?;
        let right = pages.create(&right.finish())?;
        let mut entry = separator;
        entry.extend_from_slice(&right.to_le_bytes());
        if depth > 0 {
            let new = NewEntry {
                entry: &entry,
                content: None,
            };
            return self.put(pages, path, depth - 1, &new);
        }
        let mut root = Image::new(self.shape, level + 1);
        let mut first = vec![0; key_bytes];
        first.extend_from_slice(&reference.to_le_bytes());
        root.push(&first, None);
        root.push(&entry, None);
        let root = pages.create(&root.finish())?;
        pages.set_root(self.tree, root);
        Ok(())
    }

    /// Takes an entry out of a dirty node; its content stays as a hole.
    fn take<S: PageStore>(&self, pages: &mut Pages<S>, reference: u64, index: usize) -> Result<()> {
        let node = open_node(pages, self.shape, reference)?;
        let (count, contents_at) = (node.count, node.contents_at);
        let at = HEADER_BYTES + index * self.shape.entry_bytes(node.level);
        let behind = node.entries_from(index + 1)?.to_vec();
        pages.edit(reference, at, &behind)?;
        pages.edit(
            reference,
            16,
            &count_word(count - 1, contents_at).to_le_bytes(),
        )
    }

    /// After entries left the leaf of a way: removes empty nodes, merges small ones, and lowers the
    /// root.
    fn shrink<S: PageStore>(&self, pages: &mut Pages<S>, path: &Path) -> Result<()> {
        for depth in (1..path.length).rev() {
            let step = path.steps[depth];
            let node = open_node(pages, self.shape, step.reference)?;
            if node.count == 0 {
                pages.discard(step.reference)?;
                let above = path.steps[depth - 1];
                self.take(pages, above.reference, above.index())?;
            } else if node.used_bytes()? * 3 < self.shape.capacity() {
                let above = path.steps[depth - 1];
                if !self.merge(pages, above.reference, above.index())? {
                    break;
                }
            } else {
                break;
            }
        }
        self.lower_root(pages)
    }

    fn lower_root<S: PageStore>(&self, pages: &mut Pages<S>) -> Result<()> {
        loop {
            let root = pages.root(self.tree);
            if root == 0 {
                return Ok(());
            }
            let node = open_node(pages, self.shape, root)?;
            let new = match (node.level, node.count) {
                (_, 0) => 0,
                (1.., 1) => node.value_word(0)?,
                _ => return Ok(()),
            };
            pages.discard(root)?;
            pages.set_root(self.tree, new);
        }
    }

    /// Merges child `index` of a dirty node with a neighbour, if both fit one page well. Says
    /// whether it did.
    fn merge<S: PageStore>(&self, pages: &mut Pages<S>, above: u64, index: usize) -> Result<bool> {
        let parent = open_node(pages, self.shape, above)?;
        let left_index = if index + 1 < parent.count {
            index
        } else if index > 0 {
            index - 1
        } else {
            return Ok(false);
        };
        let left = parent.value_word(left_index)?;
        let right = parent.value_word(left_index + 1)?;
        let separator = parent.key(left_index + 1)?.to_vec();
        let left_node = open_node(pages, self.shape, left)?;
        let (level, left_count) = (left_node.level, left_node.count);
        let left_bytes = left_node.used_bytes()?;
        let right_node = open_node(pages, self.shape, right)?;
        if (left_bytes + right_node.used_bytes()?) * 4 > self.shape.capacity() * 3 {
            return Ok(false);
        }
        let mut image = Image::new(self.shape, level);
        let left_node = open_node(pages, self.shape, left)?;
        left_node.copy_to(&mut image, 0..left_count)?;
        let right_node = open_node(pages, self.shape, right)?;
        right_node.copy_to(&mut image, 0..right_node.count)?;
        if level > 0 {
            image.set_key(left_count, &bytes_of(&separator));
        }
        let owned = pages.own(left)?;
        if owned != left {
            pages.edit(above, self.child_at(left_index), &owned.to_le_bytes())?;
        }
        pages.edit(owned, 0, &image.finish())?;
        pages.discard(right)?;
        self.take(pages, above, left_index + 1)?;
        Ok(true)
    }
}

/// Bytes of each entry with its content, the new one included.
fn entry_sizes<M: pmem::Memory>(
    node: &super::node::Node<'_, M>,
    at: usize,
    new: &NewEntry<'_>,
) -> Result<Vec<usize>> {
    let mut sizes = Vec::with_capacity(node.count + 1);
    for index in 0..node.count {
        sizes.push(node.entry_size(index)?);
    }
    sizes.insert(at, new.entry.len() + new.content_bytes());
    Ok(sizes)
}

/// Number of entries for the left side so that both sides have about the same bytes.
fn cut_of(sizes: &[usize]) -> usize {
    let total: usize = sizes.iter().sum();
    let (mut left, mut best, mut best_distance) = (0, 1, usize::MAX);
    for (index, size) in sizes.iter().enumerate().take(sizes.len() - 1) {
        left += size;
        let distance = left.abs_diff(total - left);
        if distance < best_distance {
            (best, best_distance) = (index + 1, distance);
        }
    }
    best
}

/// Takes the pages of a long value out.
fn drop_value<S: PageStore>(pages: &mut Pages<S>, word: u64) -> Result<()> {
    if word & INLINE == 0 {
        long::discard(pages, word)
    } else {
        Ok(())
    }
}
