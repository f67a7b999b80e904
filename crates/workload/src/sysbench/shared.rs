//! Check of the rows that several threads share.
//!
//! A row that one thread has written is exactly the result of its list. A row that several have
//! written is checked for the properties that hold in every order of their transactions:
//!
//! - it is there, unless a list ends with its delete, or all that lists do with it is to delete it;
//! - its `c` is the last one that one of the lists wrote;
//! - its `pad` is the last one that one of the lists inserted, and its `k` is the `k` of that
//!   insert and at most all additions more;
//! - where no list inserts it, `pad` is as it was and `k` has all additions.

use super::SysbenchOptions;
use super::list::{NewIds, Statement};
use super::state::{Rows, Words, Write};
use std::collections::HashMap;

/// The effect on a row of one list alone.
#[derive(Clone, Copy, Debug, Default)]
struct Alone {
    /// The row that it would leave if there were no other list.
    left: Option<Words>,
    /// Additions to `k`.
    additions: i32,
    /// The `c` that it wrote last.
    c: Option<u32>,
    /// The row that it inserted last.
    inserted: Option<Words>,
    deletes: bool,
    ends_with_delete: bool,
}

impl Alone {
    fn note(&mut self, write: Write) {
        self.left = write.apply(self.left);
        match write {
            Write::Count => self.additions += 1,
            Write::Text(c) => self.c = Some(c),
            Write::Nothing => {
                self.deletes = true;
                self.ends_with_delete = true;
            }
            Write::Row(row) => {
                self.c = Some(row.c);
                self.inserted = Some(row);
                self.ends_with_delete = false;
            }
        }
    }
}

/// The effects of all lists of a partition on its rows.
pub(super) struct Writers<'o> {
    options: &'o SysbenchOptions,
    before: &'o [Rows],
    rows: HashMap<(u16, u32), Vec<Alone>>,
}

impl<'o> Writers<'o> {
    pub(super) fn new(options: &'o SysbenchOptions, before: &'o [Rows]) -> Self {
        Self {
            options,
            before,
            rows: HashMap::new(),
        }
    }

    /// Adds the first statements of a list.
    pub(super) fn add(&mut self, list: u32, statements: impl Iterator<Item = Statement>) {
        let mut ids = NewIds::new(self.options, list);
        let mut alone: HashMap<(u16, u32), Alone> = HashMap::new();
        let mut text = String::new();
        for statement in statements {
            if let Some(write) = Write::of(statement, self.options.seed, &mut text) {
                let (table, id) = (statement.table, ids.id(statement));
                let begun = || Alone {
                    left: self.before[usize::from(table)].get(id),
                    ..Alone::default()
                };
                alone.entry((table, id)).or_insert_with(begun).note(write);
            }
            ids.pass(statement);
        }
        for (row, alone) in alone {
            self.rows.entry(row).or_default().push(alone);
        }
    }

    /// The first row that no order of the lists leaves: its table, its id, and its content.
    pub(super) fn wrong(&self, found: &[Rows]) -> Option<(u16, u32, Option<Words>)> {
        for ((table, id), alone) in &self.rows {
            let at = usize::from(*table);
            let (before, row) = (self.before[at].get(*id), found[at].get(*id));
            if !may_be_left(before, row, alone) {
                return Some((*table, *id, row));
            }
        }
        for (table, (before, found)) in (0..).zip(self.before.iter().zip(found)) {
            let mut differing = before.differing(found);
            let unwritten = differing.find(|id| !self.rows.contains_key(&(table, *id)));
            if let Some(id) = unwritten {
                return Some((table, id, found.get(id)));
            }
        }
        None
    }
}

/// Whether lists may leave `found` of `before`.
fn may_be_left(before: Option<Words>, found: Option<Words>, alone: &[Alone]) -> bool {
    if let [only] = alone {
        return only.left == found;
    }
    let inserts = alone.iter().any(|one| one.inserted.is_some());
    let deletes = alone.iter().any(|one| one.deletes);
    let Some(found) = found else {
        let is_open = alone.iter().any(|one| one.ends_with_delete);
        return is_open || before.is_none() && !inserts;
    };
    let additions: i32 = alone.iter().map(|one| one.additions).sum();
    let of_insert = |row: &Words| {
        let most = row.k.saturating_add(additions);
        found.pad == row.pad && (row.k..=most).contains(&found.k)
    };
    if inserts {
        let mut inserted = alone.iter().filter_map(|one| one.inserted.as_ref());
        return inserted.any(of_insert) && alone.iter().any(|one| one.c == Some(found.c));
    }
    let Some(before) = before.filter(|_| !deletes) else {
        return false;
    };
    let mut texts = alone.iter().filter_map(|one| one.c).peekable();
    let is_text = if texts.peek().is_none() {
        found.c == before.c
    } else {
        texts.any(|c| c == found.c)
    };
    is_text && found.pad == before.pad && found.k == before.k.wrapping_add(additions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Words = Words { k: 5, c: 1, pad: 2 };

    fn alone(writes: &[Write]) -> Alone {
        let mut alone = Alone {
            left: Some(BEFORE),
            ..Alone::default()
        };
        for write in writes {
            alone.note(*write);
        }
        alone
    }

    fn is_left(found: impl Into<Option<Words>>, lists: &[&[Write]]) -> bool {
        let lists: Vec<_> = lists.iter().map(|writes| alone(writes)).collect();
        may_be_left(Some(BEFORE), found.into(), &lists)
    }

    const fn row(k: i32, c: u32, pad: u32) -> Words {
        Words { k, c, pad }
    }

    const NEW: Write = Write::Row(Words { k: 9, c: 3, pad: 4 });

    #[test]
    fn additions_add_up_whatever_their_order() {
        let lists: [&[Write]; 2] = [&[Write::Count, Write::Count], &[Write::Count]];
        assert!(is_left(row(8, 1, 2), &lists));
        for wrong in [row(7, 1, 2), row(9, 1, 2), row(8, 3, 2), row(8, 1, 3)] {
            assert!(!is_left(wrong, &lists), "{wrong:?}");
        }
        assert!(!is_left(None, &lists));
        assert!(!is_left(row(8, 1, 2), &lists[..1]));
    }

    #[test]
    fn the_last_text_of_one_of_the_lists_stays() {
        let lists: [&[Write]; 2] = [&[Write::Text(7), Write::Text(8)], &[Write::Text(9)]];
        assert!(is_left(row(5, 8, 2), &lists) && is_left(row(5, 9, 2), &lists));
        assert!(!is_left(row(5, 7, 2), &lists) && !is_left(row(5, 1, 2), &lists));
    }

    #[test]
    fn a_row_that_is_put_back_has_the_additions_that_came_after() {
        let back: &[Write] = &[Write::Nothing, NEW];
        let lists: [&[Write]; 2] = [back, &[Write::Count, Write::Text(6)]];
        for right in [row(9, 3, 4), row(10, 3, 4), row(9, 6, 4), row(10, 6, 4)] {
            assert!(is_left(right, &lists), "{right:?}");
        }
        for wrong in [row(8, 3, 4), row(11, 3, 4), row(9, 1, 4), row(9, 3, 2)] {
            assert!(!is_left(wrong, &lists), "{wrong:?}");
        }
        assert!(!is_left(None, &lists));
        // A list that stops between its two transactions leaves no row, or that of another.
        let lists: [&[Write]; 2] = [back, &[Write::Nothing]];
        assert!(is_left(None, &lists) && is_left(row(9, 3, 4), &lists));
        assert!(!is_left(Some(BEFORE), &lists));
    }

    #[test]
    fn deleted_is_deleted() {
        let lists: [&[Write]; 2] = [&[Write::Nothing], &[Write::Nothing]];
        assert!(is_left(None, &lists) && !is_left(Some(BEFORE), &lists));
    }
}
