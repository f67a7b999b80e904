//! The function that makes the rows of each relation of the system.
//!
//! The room `sql_bind` declares the relations; each is there by its name, so that a function
//! belongs to one of them.

use super::rows::{Maker, Rows, Sources};
use super::{
    activity, constant, constraint, depend, monitor, role, routine, schema, settings, types,
};
use crate::error::Result;
use crate::types::Datum;
use sql_bind::system::Relation;

/// The rows of a relation; none if it is a query.
pub(crate) fn rows(relation: &Relation, sources: &Sources<'_>) -> Result<Vec<Vec<Datum>>> {
    let mut rows = Rows::new(relation);
    if let Some(make) = made(relation.schema, relation.name) {
        make(sources, &mut rows)?;
    }
    Ok(rows.into_made())
}

/// The functions that make rows, by the schemas of their relations.
const MAKERS: &[(&str, &[Maker])] = &[
    ("pg_catalog", schema::MAKERS),
    ("pg_catalog", constraint::MAKERS),
    ("pg_catalog", depend::MAKERS),
    ("pg_catalog", types::MAKERS),
    ("pg_catalog", routine::MAKERS),
    ("pg_catalog", role::MAKERS),
    ("pg_catalog", constant::MAKERS),
    ("pg_catalog", activity::MAKERS),
    ("pg_catalog", monitor::MAKERS),
    ("pg_catalog", settings::MAKERS),
    ("indelible", activity::OWN_MAKERS),
];

/// The function that makes the rows of a relation.
fn made(schema: &str, name: &str) -> Option<fn(&Sources<'_>, &mut Rows<'_>) -> Result<()>> {
    let tables = MAKERS.iter().filter(|(own, _)| *own == schema);
    let mut makers = tables.flat_map(|(_, makers)| makers.iter());
    makers.find(|maker| maker.0 == name).map(|maker| maker.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql_bind::system::find;

    #[test]
    fn every_function_belongs_to_a_relation() {
        for (schema, makers) in MAKERS {
            for (name, _) in *makers {
                let relation = find(Some(schema), name).unwrap_or_else(|| panic!("{name}"));
                assert!(relation.query.is_none(), "{name}");
            }
        }
    }
}
