//! Partitions of tables and of their indexes, and the conditions that the rows of one fulfil.
//!
//! An index of a partition belongs to the one of the partitioned table that has the same keys; no
//! link is kept.

use super::{
    Body, Catalog, Column, Constraint, Foreign, Index, Object, Oid, PartitionBound, RangeEnd, Rule,
    Scheme, Strategy, TableBody,
};
use crate::error::{Result, SqlError, SqlState};
use std::sync::Arc;

impl Catalog {
    /// The partitioned table or index that one is a partition of.
    pub fn partition_parent(&self, oid: Oid) -> Option<Oid> {
        let (object, index) = match self.index(oid) {
            Some((object, index)) => (object, Some(index)),
            None => (self.object(oid)?, None),
        };
        let body = table_of(object)?;
        body.lineage.bound.as_ref()?;
        let parent = *body.lineage.parents.first()?;
        match index {
            Some(index) => table_of(self.object(parent)?)?.index_above((body, index)),
            None => Some(parent),
        }
    }

    /// The partitions of a table, or the indexes of them that belong to an index of it.
    pub fn partitions(&self, oid: Oid) -> Vec<Oid> {
        let (object, index) = match self.index(oid) {
            Some((object, index)) => (object.oid, Some(index)),
            None => (oid, None),
        };
        let of_table = || table_of(self.object(object)?);
        let heirs = self.heirs(object).into_iter().filter_map(|heir| {
            let body = table_of(self.object(heir)?)?;
            body.lineage.bound.as_ref()?;
            match index {
                Some(index) => body.index_below((of_table()?, index)),
                None => Some(heir),
            }
        });
        heirs.collect()
    }

    /// The constraint that one of a table comes from: that of its partitioned table, or the check
    /// of a table that it inherits from.
    pub fn constraint_above(
        &self,
        table: Oid,
        constraint: &Constraint,
    ) -> Option<(&Arc<Object>, &Constraint)> {
        let own = table_of(self.object(table)?)?;
        match &constraint.rule {
            Rule::Primary { .. } | Rule::Unique { .. } => {
                let mut indexes = own.indexes.iter();
                let index = indexes.find(|index| index.name == constraint.name)?;
                let (above, index) = self.index(self.partition_parent(index.oid)?)?;
                let mut constraints = table_of(above)?.constraints.iter();
                let found = constraints.find(|one| one.name == index.name)?;
                Some((above, found))
            }
            Rule::Foreign(foreign) => {
                let above = self.object(self.partition_parent(table)?)?;
                let body = table_of(above)?;
                let is_same = |one: &&Constraint| match &one.rule {
                    Rule::Foreign(other) => other.is_like(body, (foreign, own)),
                    _ => false,
                };
                // Of several that are alike, that with its name.
                let alike = body.constraints.iter().filter(is_same);
                let found = alike.max_by_key(|one| one.name == constraint.name)?;
                Some((above, found))
            }
            Rule::Check { .. } if own.alone.contains(&constraint.oid) => None,
            Rule::Check { .. } => own.lineage.parents.iter().find_map(|parent| {
                let above = self.object(*parent)?;
                let body = table_of(above)?;
                let mut constraints = body.constraints.iter();
                let is_it = |one: &&Constraint| {
                    matches!(one.rule, Rule::Check { .. })
                        && one.name == constraint.name
                        && !body.alone.contains(&one.oid)
                };
                Some((above, constraints.find(is_it)?))
            }),
        }
    }

    /// The constraints that others have from one of a table, each with its table, from the top.
    pub fn constraints_below(&self, table: Oid, constraint: Oid) -> Vec<(Oid, &Constraint)> {
        let mut below = Vec::new();
        for heir in self.heirs(table) {
            let body = self.object(heir).and_then(|heir| table_of(heir));
            for own in body.iter().flat_map(|body| &body.constraints) {
                let above = self.constraint_above(heir, own);
                if above.is_some_and(|(at, one)| at.oid == table && one.oid == constraint) {
                    below.push((heir, own));
                    below.extend(self.constraints_below(heir, own.oid));
                }
            }
        }
        below
    }

    /// The table that a foreign key of another one was written for: the topmost of those whose
    /// partitions have it.
    pub fn written_for<'c>(
        &'c self,
        table: &'c Arc<Object>,
        constraint: &'c Constraint,
    ) -> &'c Arc<Object> {
        let mut topmost = (table, constraint);
        while let Some(above) = self.constraint_above(topmost.0.oid, topmost.1) {
            topmost = above;
        }
        topmost.0
    }

    /// The condition of the rows of a partition as an expression over them; none if there is none.
    pub fn partition_condition(&self, oid: Oid) -> Option<String> {
        let mut conditions = Vec::new();
        let mut at = oid;
        while let Some(parent) = self.partition_parent(at) {
            let body = table_of(self.object(at)?)?;
            let above = table_of(self.object(parent)?)?;
            let (bound, scheme) = (body.lineage.bound.as_ref()?, above.lineage.scheme.as_ref()?);
            let siblings = self.partitions(parent).into_iter();
            let siblings =
                siblings.filter_map(|one| table_of(self.object(one)?)?.lineage.bound.as_ref());
            let mut own = bound.conditions((scheme, parent), &siblings.collect::<Vec<_>>());
            own.append(&mut conditions);
            conditions = own;
            at = parent;
        }
        (!conditions.is_empty()).then(|| conditions.join(" AND "))
    }
}

impl Foreign {
    /// Whether it says of a table's rows what another foreign key says of another table's.
    pub fn is_like(&self, table: &TableBody, (other, of): (&Self, &TableBody)) -> bool {
        let names = |body: &TableBody, columns: &[usize]| -> Vec<String> {
            let columns = columns.iter().filter_map(|at| body.columns.get(*at));
            columns.map(|column| column.name.clone()).collect()
        };
        self.parent == other.parent
            && self.parent_columns == other.parent_columns
            && (self.on_update, self.on_delete) == (other.on_update, other.on_delete)
            && (self.is_full, self.deferral) == (other.is_full, other.deferral)
            && names(table, &self.columns) == names(of, &other.columns)
            && names(table, &self.set_on_delete) == names(of, &other.set_on_delete)
    }
}

fn table_of(object: &Object) -> Option<&TableBody> {
    match &object.body {
        Body::Table(body) => Some(body),
        _ => None,
    }
}

impl TableBody {
    /// The index of a partition that belongs to one of its table.
    pub fn index_below(&self, (above, index): (&Self, &Index)) -> Option<Oid> {
        let mut indexes = self.indexes.iter();
        let found = indexes.find(|own| self.is_below(own, (above, index)));
        found.map(|own| own.oid)
    }

    /// The index of a partitioned table to which one of a partition belongs.
    fn index_above(&self, (below, index): (&Self, &Index)) -> Option<Oid> {
        let mut indexes = self.indexes.iter();
        let found = indexes.find(|own| {
            below.is_below(index, (self, own)) && below.index_below((self, own)) == Some(index.oid)
        });
        found.map(|own| own.oid)
    }

    /// Whether an index has the keys of another table's, and a constraint if that has one.
    fn is_below(&self, own: &Index, (above, index): (&Self, &Index)) -> bool {
        let keys = |table: &Self, index: &Index| match table.form(index.oid) {
            Some(form) => (form.keys.clone(), form.predicate.clone()),
            None => {
                let columns = index.columns.iter();
                let names = columns.filter_map(|at| table.columns.get(*at));
                (names.map(|column| column.name.clone()).collect(), None)
            }
        };
        let has_constraint = |table: &Self, index: &Index| {
            let mut constraints = table.constraints.iter();
            constraints.any(|one| one.name == index.name)
        };
        own.is_unique == index.is_unique
            && own.options == index.options
            && keys(self, own) == keys(above, index)
            && (has_constraint(self, own) || !has_constraint(above, index))
    }
}

impl PartitionBound {
    /// Conditions of the rows within it; `siblings` are the bounds of all partitions.
    fn conditions(
        &self,
        (scheme, table): (&Scheme, Oid),
        siblings: &[&PartitionBound],
    ) -> Vec<String> {
        let not_null = scheme.keys.iter().map(|key| format!("({key} IS NOT NULL)"));
        match self {
            Self::In(values) => in_list(&scheme.keys, values.iter()),
            Self::Range(from, to) => not_null.chain(between(&scheme.keys, from, to)).collect(),
            Self::Remainder(modulus, remainder) => {
                let keys = scheme.keys.join(", ");
                vec![format!(
                    "satisfies_hash_partition('{table}'::oid, {modulus}, {remainder}, {keys})"
                )]
            }
            Self::Default if siblings.len() < 2 => Vec::new(),
            Self::Default => {
                let within = match scheme.strategy {
                    Strategy::List => {
                        let values = siblings.iter().filter_map(|one| match one {
                            Self::In(values) => Some(values),
                            _ => None,
                        });
                        in_list(&scheme.keys, values.flatten())
                    }
                    Strategy::Range | Strategy::Hash => {
                        let ranges = siblings.iter().filter_map(|one| match one {
                            Self::Range(from, to) => Some(between(&scheme.keys, from, to)),
                            _ => None,
                        });
                        let ranges = ranges.map(|range| match range.as_slice() {
                            [] => "true".to_owned(),
                            range => format!("({})", range.join(" AND ")),
                        });
                        let ranges = ranges.collect::<Vec<_>>().join(" OR ");
                        not_null.chain([format!("({ranges})")]).collect()
                    }
                };
                vec![format!("(NOT ({}))", within.join(" AND "))]
            }
        }
    }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The condition of a key that is in a list, which may have NULL in it.
fn in_list<'v>(keys: &[String], values: impl Iterator<Item = &'v Option<String>>) -> Vec<String> {
    let key = keys.first().map_or("", String::as_str);
    let values: Vec<_> = values.collect();
    let has_null = values.iter().any(|value| value.is_none());
    let known: Vec<String> = values
        .into_iter()
        .flatten()
        .map(|one| literal(one))
        .collect();
    let listed = match known.as_slice() {
        [] => return vec![format!("({key} IS NULL)")],
        [one] => format!("({key} = {one})"),
        several => format!("({key} IN ({}))", several.join(", ")),
    };
    match has_null {
        true => vec![format!("(({key} IS NULL) OR {listed})")],
        false => vec![format!("({key} IS NOT NULL)"), listed],
    }
}

/// The conditions of keys at or after an end of a range, and before the other.
fn between(keys: &[String], from: &[RangeEnd], to: &[RangeEnd]) -> Vec<String> {
    let side = |ends: &[RangeEnd], open: &RangeEnd, strict: &str, last: &str| {
        let known = ends.iter().map_while(|end| match end {
            RangeEnd::At(text) => Some(literal(text)),
            _ => None,
        });
        let known: Vec<String> = known.collect();
        // Where the rest of the end is before or after all keys, the last one known decides.
        let includes = match ends.get(known.len()) {
            None => last.len() > 1,
            Some(end) => end == open,
        };
        let ways = (0..known.len()).map(|at| {
            let equal = (0..at).map(|before| format!("({} = {})", keys[before], known[before]));
            let sign = match at + 1 == known.len() && includes {
                true => format!("{strict}="),
                false => strict.to_owned(),
            };
            let own = format!("({} {sign} {})", keys[at], known[at]);
            let all: Vec<String> = equal.chain([own]).collect();
            match all.as_slice() {
                [one] => one.clone(),
                all => format!("({})", all.join(" AND ")),
            }
        });
        let ways: Vec<String> = ways.collect();
        match ways.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            ways => Some(format!("({})", ways.join(" OR "))),
        }
    };
    let sides = [
        side(from, &RangeEnd::Min, ">", ">="),
        side(to, &RangeEnd::Max, "<", "<"),
    ];
    sides.into_iter().flatten().collect()
}

impl TableBody {
    /// Fails unless a table that is to be below has its columns and checks.
    pub fn check_heir(&self, child: &str, own: &TableBody) -> Result<()> {
        let mismatch = |message| Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        for column in &self.columns {
            let Some(at) = own.column(&column.name) else {
                return mismatch(format!("child table is missing column \"{}\"", column.name));
            };
            let typed = |column: &Column| (column.data_type, column.domain);
            if typed(&own.columns[at]) != typed(column) {
                return mismatch(format!(
                    "child table \"{child}\" has different type for column \"{}\"",
                    column.name
                ));
            }
            if column.not_null && !own.columns[at].not_null {
                return mismatch(format!(
                    "column \"{}\" in child table must be marked NOT NULL",
                    column.name
                ));
            }
        }
        for constraint in &self.constraints {
            let is_check = matches!(constraint.rule, Rule::Check { .. });
            if !is_check || self.alone.contains(&constraint.oid) {
                continue;
            }
            let name = &constraint.name;
            match own.constraints.iter().find(|other| other.name == *name) {
                None => {
                    return mismatch(format!("child table is missing constraint \"{name}\""));
                }
                Some(other) if own.alone.contains(&other.oid) => {
                    let message = format!(
                        "constraint \"{name}\" conflicts with non-inherited constraint on child table \"{child}\""
                    );
                    return Err(SqlError::new(SqlState("42P17"), message));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{PartitionBound, RangeEnd, Scheme, Strategy};

    #[test]
    fn conditions_of_ranges_of_two_keys() {
        let scheme = Scheme {
            strategy: Strategy::Range,
            keys: vec!["a".to_owned(), "b".to_owned()],
        };
        let at = |text: &str| RangeEnd::At(text.to_owned());
        let bound = PartitionBound::Range(vec![at("1"), at("2")], vec![at("3"), RangeEnd::Max]);
        assert_eq!(
            bound.conditions((&scheme, 0), &[&bound])[2..],
            ["((a > '1') OR ((a = '1') AND (b >= '2')))", "(a <= '3')"]
        );
        let open = PartitionBound::Range(
            vec![RangeEnd::Min, RangeEnd::Min],
            vec![at("1"), RangeEnd::Min],
        );
        assert_eq!(open.conditions((&scheme, 0), &[&open])[2..], ["(a < '1')"]);
    }

    #[test]
    fn conditions_of_lists() {
        let scheme = Scheme {
            strategy: Strategy::List,
            keys: vec!["k".to_owned()],
        };
        let one = PartitionBound::In(vec![Some("it's".to_owned())]);
        let null = PartitionBound::In(vec![None]);
        let rest = PartitionBound::Default;
        let all = [&one, &null, &rest];
        assert_eq!(
            one.conditions((&scheme, 0), &all),
            ["(k IS NOT NULL)", "(k = 'it''s')"]
        );
        assert_eq!(null.conditions((&scheme, 0), &all), ["(k IS NULL)"]);
        assert_eq!(
            rest.conditions((&scheme, 0), &all),
            ["(NOT (((k IS NULL) OR (k = 'it''s'))))"]
        );
        assert!(rest.conditions((&scheme, 0), &[&rest]).is_empty());
    }
}
