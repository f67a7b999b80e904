//! The rules for queries of `WITH RECURSIVE`: where they may name themselves.
//!
//! A round of a recursive query reads the rows of the round before it, each once. So the query
//! names itself in one place of its second part, and not where rows would be missed or repeated.

use super::{ident_text, object_name};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Node;
use sqlparser::ast::{
    JoinOperator, Query, SetExpr, SetOperator, SetQuantifier, TableFactor, TableWithJoins,
};

/// Looks for the places where a query names itself.
struct Search<'n> {
    name: &'n str,
    count: usize,
}

/// Fails if a recursive query names itself where it must not.
pub(super) fn check(name: &str, query: &Query, left: &SetExpr, right: &SetExpr) -> Result<()> {
    if !query.locks.is_empty() {
        let message = "FOR UPDATE/SHARE in a recursive query is not implemented";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let mut search = Search { name, count: 0 };
    search.body(left, Some("its non-recursive term"))?;
    search.body(right, None)
}

impl Search<'_> {
    /// Looks in a query; `within` is the place where it must not name itself, if it is in one.
    fn query(&mut self, query: &Query, within: Option<&str>) -> Result<()> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            if ident_text(&cte.alias.name) == self.name {
                return Ok(());
            }
            self.query(&cte.query, within)?;
        }
        self.body(&query.body, within)
    }

    fn body(&mut self, body: &SetExpr, within: Option<&str>) -> Result<()> {
        match body {
            SetExpr::Select(select) => select
                .from
                .iter()
                .try_for_each(|part| self.joined(part, within)),
            SetExpr::Query(query) => self.query(query, within),
            SetExpr::SetOperation {
                op,
                set_quantifier,
                left,
                right,
            } => {
                let all = matches!(set_quantifier, SetQuantifier::All);
                let (one, other) = match op {
                    SetOperator::Union => (within, within),
                    SetOperator::Intersect if all => (Some("INTERSECT"), Some("INTERSECT")),
                    SetOperator::Intersect => (within, within),
                    SetOperator::Except | SetOperator::Minus if all => {
                        (Some("EXCEPT"), Some("EXCEPT"))
                    }
                    SetOperator::Except | SetOperator::Minus => (within, Some("EXCEPT")),
                };
                self.body(left, one)?;
                self.body(right, other)
            }
            _ => Ok(()),
        }
    }

    fn joined(&mut self, part: &TableWithJoins, within: Option<&str>) -> Result<()> {
        const OUTER: Option<&str> = Some("an outer join");
        let fills_left = |operator: &JoinOperator| {
            matches!(
                operator,
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_)
            )
        };
        let mut fills = part
            .joins
            .iter()
            .map(|join| fills_left(&join.join_operator));
        let first = if fills.any(|fills| fills) {
            OUTER
        } else {
            within
        };
        self.factor(&part.relation, first)?;
        for (at, join) in part.joins.iter().enumerate() {
            let later = &part.joins[at + 1..];
            let is_filled = matches!(
                join.join_operator,
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) | JoinOperator::FullOuter(_)
            ) || later.iter().any(|join| fills_left(&join.join_operator));
            self.factor(&join.relation, if is_filled { OUTER } else { within })?;
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor, within: Option<&str>) -> Result<()> {
        match factor {
            TableFactor::Table { name, .. } => match object_name(name)? {
                (None, name) if name == self.name => self.met(within),
                _ => Ok(()),
            },
            TableFactor::Derived { subquery, .. } => self.query(subquery, within),
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => self.joined(table_with_joins, within),
            _ => Ok(()),
        }
    }

    fn met(&mut self, within: Option<&str>) -> Result<()> {
        self.count += 1;
        let problem = match within {
            Some(place) => format!("within {place}"),
            None if self.count > 1 => "more than once".to_owned(),
            None => return Ok(()),
        };
        let name = self.name;
        let message = format!("recursive reference to query \"{name}\" must not appear {problem}");
        Err(SqlError::new(SqlState::INVALID_RECURSION, message))
    }
}

/// Fails if a part of a query groups the rows of the last round.
pub(super) fn check_groups(node: &mut Node, number: usize) -> Result<()> {
    let is_aggregate = matches!(node, Node::Aggregate(_));
    if is_aggregate && reads_round(node, number) {
        let message = "aggregate functions are not allowed in a recursive query's recursive term";
        return Err(SqlError::new(SqlState::INVALID_RECURSION, message));
    }
    node.inputs(&mut |input, _| check_groups(input, number))
}

/// Whether a node reads the last round of a query through joins and conditions only.
fn reads_round(node: &mut Node, number: usize) -> bool {
    match node {
        Node::Working(working) => working.number == number,
        Node::Aggregate(_) | Node::Filter(_) | Node::Join(_) => {
            let mut reads = false;
            let visited = node.inputs(&mut |input, _| {
                reads |= reads_round(input, number);
                Ok(())
            });
            reads && visited.is_ok()
        }
        _ => false,
    }
}

/// Whether a node reads the last round of a recursive query that it is a part of.
pub(super) fn is_in_round(node: &mut Node) -> bool {
    let (mut read, mut made) = (Vec::new(), Vec::new());
    rounds(node, &mut read, &mut made);
    read.iter().any(|number| !made.contains(number))
}

fn rounds(node: &mut Node, read: &mut Vec<usize>, made: &mut Vec<usize>) {
    match node {
        Node::Working(working) => read.push(working.number),
        Node::Recursive(recursive) => made.push(recursive.number),
        _ => {}
    }
    let visited = node.inputs(&mut |input, _| {
        rounds(input, read, made);
        Ok(())
    });
    debug_assert!(visited.is_ok(), "the visitor does not fail");
}
