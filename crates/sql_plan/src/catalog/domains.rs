//! Types of columns, fields and arguments, with their domains, and types of what is inside their
//! values.
//!
//! A value has the type below its domain; where a value is kept or given, the domain stands beside
//! that type: its number, or [`array_of`](super::array_of) it for an array of its values.

use super::{Body, Catalog, Column, Object, Oid, domain_of};
use crate::types::{Kind, Type};

/// A type, and what stands beside it.
pub type Typed = (Type, Option<Oid>);

impl Catalog {
    /// The type below a domain.
    pub fn below(&self, domain: Oid) -> Option<Typed> {
        match &self.object(domain)?.body {
            Body::Domain(domain) => Some((domain.base, domain.elements)),
            _ => None,
        }
    }

    /// The types of the parts of a value that is of no domain: fields, or elements of an array.
    pub fn parts_of_type(&self, (data_type, domain): Typed) -> Vec<Typed> {
        if let Some(domain) = domain.filter(|number| *number != domain_of(*number)) {
            let domain = domain_of(domain);
            let element = self.below(domain).map(|(below, _)| (below, Some(domain)));
            return element.into_iter().collect();
        }
        let Kind::Composite(oid) = data_type.kind else {
            let element = data_type
                .kind
                .element()
                .filter(|_| data_type.kind.is_array());
            return element
                .map(|kind| (kind.plain(), None))
                .into_iter()
                .collect();
        };
        match self.object(oid).map(|object| &object.body) {
            Some(Body::Table(table)) => {
                let columns = table.columns.iter();
                columns.map(|one| (one.data_type, one.domain)).collect()
            }
            Some(Body::Composite(body)) => {
                let fields = body.fields.iter().enumerate();
                fields
                    .map(|(at, (_, one))| (*one, body.field_domain(at)))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// The type below a domain, or the types of the parts of a value.
    fn inside(&self, typed: Typed) -> Vec<Typed> {
        match typed.1.filter(|number| *number == domain_of(*number)) {
            Some(domain) => self.below(domain).into_iter().collect(),
            None => self.parts_of_type(typed),
        }
    }

    /// Whether values of a type have some inside, at any depth, for whose type a test holds.
    pub fn has_inside(&self, typed: Typed, test: &dyn Fn(Typed) -> bool) -> bool {
        // Earlier builds let a table be a member of itself.
        let (mut open, mut seen) = (self.inside(typed), vec![typed]);
        while let Some(part) = open.pop() {
            if test(part) {
                return true;
            }
            if !seen.contains(&part) {
                seen.push(part);
                open.extend(self.inside(part));
            }
        }
        false
    }

    /// Whether values of a type are rows of a table, or have some in them.
    pub fn has_rows_of(&self, kind: Kind, table: Oid) -> bool {
        let rows = [Kind::Composite(table), Kind::CompositeArray(table)];
        let is_row = |(one, _): Typed| rows.contains(&one.kind);
        let typed = (kind.plain(), None);
        is_row(typed) || self.has_inside(typed, &is_row)
    }

    /// The columns of tables with rows for which a test of the type holds, with their places.
    pub fn columns_where(&self, test: &dyn Fn(Typed) -> bool) -> Vec<(&Object, usize, &Column)> {
        let mut found = Vec::new();
        for object in self.objects() {
            if let Body::Table(body) = &object.body
                && body.lineage.scheme.is_none()
            {
                let columns = body.columns.iter().enumerate();
                let columns = columns.filter(|(_, one)| test((one.data_type, one.domain)));
                found.extend(columns.map(|(at, column)| (&**object, at, column)));
            }
        }
        found
    }
}

/// Whether a type is one of users, an array of it, or has it beside it.
pub fn is_of_type((data_type, domain): Typed, oid: Oid) -> bool {
    user_type(data_type) == Some(oid) || domain.map(domain_of) == Some(oid)
}

/// The number of a type that users have defined, or of the one that its elements have.
fn user_type(data_type: Type) -> Option<Oid> {
    match data_type.kind {
        Kind::Enum(oid)
        | Kind::EnumArray(oid)
        | Kind::Composite(oid)
        | Kind::CompositeArray(oid) => Some(oid),
        _ => None,
    }
}

impl Object {
    /// Whether it is a type that is made of another one.
    pub fn is_made_of(&self, oid: Oid) -> bool {
        match &self.body {
            Body::Domain(domain) => is_of_type((domain.base, domain.elements), oid),
            Body::Composite(body) => {
                let mut fields = body.fields.iter().enumerate();
                fields.any(|(at, (_, one))| is_of_type((*one, body.field_domain(at)), oid))
            }
            _ => false,
        }
    }

    /// Types and relations that it names by their numbers.
    pub fn named(&self) -> Vec<Oid> {
        let (mut named, mut types) = (Vec::new(), Vec::new());
        match &self.body {
            Body::Table(table) => {
                let columns = table.columns.iter();
                types.extend(columns.clone().map(|column| column.data_type));
                named.extend(columns.filter_map(|column| column.domain));
                let view = table.materialized.iter();
                named.extend(view.flat_map(|view| &view.reads));
            }
            Body::View(view) => named.extend(&view.reads),
            Body::Domain(domain) => {
                types.push(domain.base);
                named.extend(domain.elements);
            }
            Body::Composite(body) => {
                types.extend(body.fields.iter().map(|(_, data_type)| *data_type));
                named.extend(&body.domains);
            }
            Body::Function(function) => {
                let arguments = function.arguments.iter().map(|(_, data_type)| *data_type);
                let columns = function.columns.iter().map(|(_, data_type)| *data_type);
                types.extend(arguments.chain(columns).chain([function.result]));
                named.extend(&function.domains);
            }
            _ => {}
        }
        named.extend(types.into_iter().filter_map(user_type));
        named.into_iter().map(domain_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{CompositeBody, Constraint, DomainBody, Rule, TableBody, array_of};

    fn again(body: Body) -> Body {
        let object = Object {
            oid: 16_390,
            namespace: 2200,
            name: "o".to_owned(),
            comment: None,
            body,
        };
        let bytes = object.encode();
        let read = Object::decode((16_390, object.kind(), 2200), "o", &bytes);
        read.expect("a body is read as it is written").body
    }

    fn composite(domains: Vec<Oid>) -> CompositeBody {
        CompositeBody {
            fields: vec![
                ("a".to_owned(), Kind::Int4.plain()),
                ("b".to_owned(), Kind::Array(&Kind::Int4).plain()),
            ],
            comments: Vec::new(),
            domains,
        }
    }

    #[test]
    fn fields_keep_their_domains() {
        for domains in [Vec::new(), vec![0, array_of(16_385)]] {
            let Body::Composite(read) = again(Body::Composite(composite(domains.clone()))) else {
                panic!("a composite body");
            };
            assert_eq!(read.domains, domains);
            assert_eq!(read.field_domain(0), None);
            let of_second = read.field_domain(1).map(domain_of);
            assert_eq!(of_second, (!domains.is_empty()).then_some(16_385));
        }
    }

    #[test]
    fn a_domain_keeps_that_of_its_elements() {
        for elements in [None, Some(array_of(16_385))] {
            let body = DomainBody {
                base: Kind::Array(&Kind::Int4).plain(),
                not_null: false,
                default: None,
                checks: Vec::new(),
                unproven: Vec::new(),
                comments: Vec::new(),
                elements,
            };
            assert!(
                matches!(again(Body::Domain(body)), Body::Domain(read) if read.elements == elements)
            );
        }
    }

    #[test]
    fn a_table_keeps_its_checks_that_are_alone() {
        let check = |oid| Constraint {
            oid,
            name: format!("c{oid}"),
            rule: Rule::Check {
                condition: "true".to_owned(),
            },
        };
        let body = TableBody {
            constraints: vec![check(7), check(8)],
            alone: vec![8, 9],
            ..TableBody::empty()
        };
        let Body::Table(read) = again(Body::Table(body)) else {
            panic!("a table");
        };
        assert_eq!(read.alone, [8], "no part has the other number");
        assert!(read.local.is_empty());
    }
}
