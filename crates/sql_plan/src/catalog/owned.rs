//! Columns to which sequences belong, in databases of earlier builds.
//!
//! A sequence names its column by its place. Earlier builds left that as it was when a column
//! before it was dropped, so the place may be that of another column, or of none. The column itself
//! knows its sequence: it is an identity column of it, or its default takes the next number.

use super::{Body, Catalog, Object, Origin, TableBody};
use std::sync::Arc;

impl Catalog {
    /// Gives sequences the places that their columns have now.
    pub(super) fn correct_owners(&mut self) {
        let moved = self.objects().filter_map(|object| self.with_owner(object));
        for object in moved.collect::<Vec<_>>() {
            self.put(object);
        }
    }

    /// A sequence with the place of its column; none if it has that, or if no column is known.
    fn with_owner(&self, object: &Arc<Object>) -> Option<Object> {
        let Body::Sequence(sequence) = &object.body else {
            return None;
        };
        let (oid, place) = sequence.owner?;
        let table = self.object(oid)?;
        let Body::Table(body) = &table.body else {
            return None;
        };
        // Columns have only ever moved to the front.
        let now = place_of(&table.name, body, object).filter(|now| *now < place)?;
        let mut moved = Object::clone(object);
        if let Body::Sequence(sequence) = &mut moved.body {
            sequence.owner = Some((oid, now));
        }
        Some(moved)
    }
}

/// The column of a table that was made with a sequence.
fn place_of(table: &str, body: &TableBody, sequence: &Object) -> Option<usize> {
    let name = &sequence.name;
    body.columns.iter().position(|column| match &column.origin {
        Origin::Identity { sequence: own, .. } => *own == sequence.oid,
        // Other sequences may have been given to any column.
        _ => {
            let takes_number = column.default.as_ref().is_some_and(|default| {
                default.starts_with("nextval('") && default.contains(name.as_str())
            });
            takes_number && name.starts_with(&format!("{table}_{}_seq", column.name))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Column, SequenceBody};
    use super::*;
    use crate::types::Kind;

    fn object(oid: u32, name: &str, body: Body) -> Object {
        Object {
            oid,
            namespace: super::super::PUBLIC,
            name: name.to_owned(),
            comment: None,
            body,
        }
    }

    /// The place of the column of a sequence that said another one.
    fn corrected(columns: Vec<Column>, said: usize) -> Option<(u32, usize)> {
        let mut catalog = Catalog::new();
        let table = TableBody {
            columns,
            ..TableBody::default()
        };
        catalog.put(object(20_000, "t", Body::Table(table)));
        let sequence = SequenceBody {
            data_type: Kind::Int4.plain(),
            start: 1,
            increment: 1,
            min: 1,
            max: 9,
            cycles: false,
            cache: 1,
            owner: Some((20_000, said)),
            beginning: None,
        };
        catalog.put(object(20_001, "t_id_seq", Body::Sequence(sequence)));
        catalog.correct_owners();
        match &catalog.object(20_001)?.body {
            Body::Sequence(sequence) => sequence.owner,
            _ => None,
        }
    }

    fn column(name: &str, default: Option<&str>, origin: Origin) -> Column {
        Column {
            default: default.map(str::to_owned),
            origin,
            ..Column::new(name, Kind::Int4.plain())
        }
    }

    /// The place of a sequence's column was not moved when a column before it was dropped.
    #[test]
    fn sequences_find_columns_that_have_moved() {
        let serial = || {
            column(
                "id",
                Some("nextval('public.t_id_seq'::regclass)"),
                Origin::Given,
            )
        };
        let other = || column("b", None, Origin::Given);
        let identity = || {
            let origin = Origin::Identity {
                always: true,
                sequence: 20_001,
            };
            column("id", None, origin)
        };
        for own in [serial(), identity()] {
            assert_eq!(
                corrected(vec![own.clone(), other()], 1),
                Some((20_000, 0)),
                "another column is at the place"
            );
            assert_eq!(
                corrected(vec![other(), own], 2),
                Some((20_000, 1)),
                "no column is at the place"
            );
        }
        let taken = column(
            "x",
            Some("nextval('public.t_id_seq'::regclass)"),
            Origin::Given,
        );
        assert_eq!(
            corrected(vec![taken, other()], 1),
            Some((20_000, 1)),
            "a sequence that was given to a column by its name stays there"
        );
    }
}
