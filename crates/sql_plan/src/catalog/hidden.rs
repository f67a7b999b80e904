//! Parts of the indexes and constraints of a table beside their keys: hidden columns, columns of
//! INCLUDE, and comments.
//!
//! Hidden columns stand after those of clients, in the order in which they were added; they never
//! go, since rows below have them. In the body of a row of the catalogue these lists are the last
//! ones: tables that were written without them have none.

use super::fields::{read_positions, write_positions};
use super::object::{Column, Hidden, Index, IndexForm, Materialized, TableBody};
use super::oid::Oid;
use crate::error::Result;
use crate::types::storage;
use sql_values::codec::{Reader, Writer};

impl TableBody {
    /// The names of its constraints.
    pub fn constraint_names(&self) -> Vec<String> {
        let constraints = self.constraints.iter();
        constraints.map(|one| one.name.clone()).collect()
    }

    /// Adds a column after those of clients; hidden ones stay after it.
    pub fn push_column(&mut self, column: Column) {
        let count = self.columns.len();
        for place in self.indexes.iter_mut().flat_map(|index| &mut index.columns) {
            *place += usize::from(*place >= count);
        }
        self.columns.push(column);
    }

    /// Forgets the definition of an index that goes; its hidden columns hold nothing from now on.
    pub fn forget_form(&mut self, index: Oid) {
        if self.form(index).is_none() {
            return;
        }
        self.forms.retain(|form| form.index != index);
        let first = self.columns.len();
        let own = self.indexes.iter().find(|own| own.oid == index);
        for place in own.iter().flat_map(|own| &own.columns) {
            if let Some(at) = place.checked_sub(first) {
                self.hidden[at].value = None;
            }
        }
    }

    /// The definition of an index with hidden columns; none if it has none.
    pub fn form(&self, index: Oid) -> Option<&IndexForm> {
        self.forms.iter().find(|form| form.index == index)
    }

    /// Columns of keys and their values as they were written: the column, and the place in a row.
    pub fn kept(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let hidden = (self.columns.len()..).zip(&self.hidden);
        hidden.filter_map(|(place, hidden)| Some((hidden.keeps?, place)))
    }

    /// Whether values of a column lose their form when it becomes part of an index.
    pub fn loses_form(&self, column: usize) -> bool {
        let of = self.columns.get(column);
        of.is_some_and(|of| !storage::keys_keep_form(of.data_type))
            && self.kept().all(|(kept, _)| kept != column)
    }

    /// Adds hidden columns for the columns of keys and indexes whose values lose their form there.
    /// Tables that were made without them get them when their rows are written anew.
    pub fn keep_forms(&mut self) {
        let indexed = self.indexes.iter().flat_map(|index| &index.columns);
        let indexed: Vec<usize> = indexed.chain(&self.key).copied().collect();
        for at in indexed {
            if self.loses_form(at) {
                self.hidden.push(Hidden {
                    data_type: self.columns[at].data_type,
                    keeps: Some(at),
                    value: None,
                    label: String::new(),
                });
            }
        }
    }

    /// Forgets a column with the indexes that have it; those after it move.
    pub fn forget_column(&mut self, gone: usize) {
        let lists = &self.included;
        let has_it = |index: &Index| {
            let mut own = lists.iter().filter(|(oid, _)| *oid == index.oid);
            own.any(|(_, columns)| columns.contains(&gone))
        };
        self.indexes
            .retain(|index| !index.columns.contains(&gone) && !has_it(index));
        self.local.retain(|at| *at != gone);
        for place in &mut self.local {
            *place -= usize::from(*place > gone);
        }
        let of_indexes = self.indexes.iter_mut().map(|index| &mut index.columns);
        let included = self.included.iter_mut().map(|(_, columns)| columns);
        for place in of_indexes.chain(included).flatten() {
            *place -= usize::from(*place > gone);
        }
        for hidden in &mut self.hidden {
            hidden.keeps = match hidden.keeps {
                Some(at) if at > gone => Some(at - 1),
                kept => kept.filter(|at| *at != gone),
            };
        }
    }

    /// Columns of INCLUDE of an index.
    pub fn included_of(&self, index: Oid) -> &[usize] {
        let found = self.included.iter().find(|(own, _)| *own == index);
        found.map_or(&[], |(_, columns)| columns)
    }

    /// Columns of INCLUDE of the index with a name.
    pub fn included_with(&self, name: &str) -> &[usize] {
        let index = self.indexes.iter().find(|index| index.name == name);
        index.map_or(&[], |index| self.included_of(index.oid))
    }

    /// The comment on an index or a constraint.
    pub fn comment_on(&self, part: Oid) -> Option<&str> {
        let found = self.comments.iter().find(|(own, _)| *own == part);
        found.map(|(_, text)| text.as_str())
    }

    /// Gives an index or a constraint a comment, or takes it away.
    pub fn set_comment(&mut self, part: Oid, comment: Option<String>) {
        self.comments.retain(|(own, _)| *own != part);
        self.comments.extend(comment.map(|text| (part, text)));
    }

    pub(super) fn write_parts(&self, writer: &mut Writer) {
        let hidden = self.hidden.iter().enumerate();
        let kept = hidden.filter_map(|(place, hidden)| Some([place, hidden.keeps?]));
        let kept: Vec<[usize; 2]> = kept.collect();
        writer.list(&kept, |writer, pair| write_positions(writer, pair));
        // Those of parts that have gone stay behind.
        let is_there = |oid: &Oid| self.parts().any(|part| part == *oid);
        let comments = self.comments.iter().filter(|(oid, _)| is_there(oid));
        let comments: Vec<&(Oid, String)> = comments.collect();
        writer.list(&comments, |writer, (oid, text)| {
            writer.number((*oid).into());
            writer.text(text);
        });
        let included = self.included.iter().filter(|(oid, _)| is_there(oid));
        let included: Vec<&(Oid, Vec<usize>)> = included.collect();
        writer.list(&included, |writer, (oid, columns)| {
            writer.number((*oid).into());
            write_positions(writer, columns);
        });
        for list in [&self.unproven, &self.alike] {
            let list: Vec<Oid> = list.iter().copied().filter(is_there).collect();
            writer.list(&list, |writer, oid| writer.number((*oid).into()));
        }
        let materialized: Vec<&Materialized> = self.materialized.iter().collect();
        writer.list(&materialized, |writer, view| {
            writer.text(&view.query);
            writer.list(&view.reads, |writer, oid| writer.number((*oid).into()));
            writer.flag(view.is_populated);
        });
        let alone: Vec<Oid> = self.alone.iter().copied().filter(is_there).collect();
        // Tables without such columns and checks are written as by earlier builds.
        if !self.local.is_empty() || !alone.is_empty() {
            write_positions(writer, &self.local);
        }
        if !alone.is_empty() {
            writer.list(&alone, |writer, oid| writer.number((*oid).into()));
        }
    }

    pub(super) fn read_parts(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        for pair in reader.rest(read_positions)? {
            let [place, column] = pair[..] else {
                return Err(reader.damaged());
            };
            let hidden = self.hidden.get_mut(place);
            hidden.ok_or_else(|| reader.damaged())?.keeps = Some(column);
        }
        self.comments = reader.rest(|reader| Ok((reader.integer()?, reader.text()?)))?;
        self.included = reader.rest(|reader| Ok((reader.integer()?, read_positions(reader)?)))?;
        self.unproven = reader.rest(Reader::integer)?;
        self.alike = reader.rest(Reader::integer)?;
        let mut materialized = reader.rest(|reader| {
            Ok(Materialized {
                query: reader.text()?,
                reads: reader.list(Reader::integer)?,
                is_populated: reader.flag()?,
            })
        })?;
        self.materialized = materialized.pop();
        if !reader.is_at_end() {
            self.local = read_positions(reader)?;
        }
        self.alone = reader.rest(Reader::integer)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Body, Object};
    use crate::types::Kind;

    fn object(body: TableBody) -> Object {
        Object {
            oid: 16_384,
            namespace: 2200,
            name: "t".to_owned(),
            comment: None,
            body: Body::Table(body),
        }
    }

    /// Bodies that were written before hidden columns kept values end before these lists.
    #[test]
    fn a_body_without_the_last_lists_is_read() {
        let body = TableBody {
            columns: vec![Column::new("a", Kind::Numeric.plain())],
            key: vec![0],
            ..TableBody::empty()
        };
        let short = object(body.clone()).encode();
        let short = &short[..short.len() - 24];
        let mut kept = body;
        kept.keep_forms();
        kept.keep_forms();
        kept.set_comment(7, Some("gone".to_owned()));
        let long = object(kept).encode();
        let read = |bytes: &[u8]| match Object::decode((16_384, 2, 2200), "t", bytes) {
            Ok(Object {
                body: Body::Table(table),
                ..
            }) => table,
            other => panic!("{other:?}"),
        };
        let (before, mut after) = (read(short), read(&long));
        assert!(before.loses_form(0) && before.kept().next().is_none());
        assert!(!after.loses_form(0));
        assert_eq!(after.kept().collect::<Vec<_>>(), [(0, 1)]);
        assert!(after.comments.is_empty(), "no part has the number");
        after.forget_column(0);
        assert!(after.kept().next().is_none());
        assert!(read(&long[..long.len() - 4]).included.is_empty());
        assert!(Object::decode((16_384, 2, 2200), "t", &long[..long.len() - 6]).is_err());
    }
}
