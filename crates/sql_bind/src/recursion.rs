//! The rules for queries of `WITH RECURSIVE`: where they may name themselves.
//!
//! A round of a recursive query reads the rows of the round before it, each once. So the query
//! names itself in one place of its second part, and not where rows would be missed or repeated.
//! Queries may name later ones, unless these name them.

use super::{ident_text, object_name};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Node;
use sqlparser::ast::{
    Cte, JoinOperator, Query, SetExpr, SetOperator, SetQuantifier, TableFactor, TableWithJoins,
    With,
};

/// Queries of `WITH`, each after those that it names: of `WITH RECURSIVE` one may name a later one.
/// `mentions` says whether a query names a table in `FROM`.
pub(super) fn in_order(with: &With, mentions: impl Fn(&Query, &str) -> bool) -> Result<Vec<&Cte>> {
    let given = &with.cte_tables;
    if !with.recursive || given.len() < 2 {
        return Ok(given.iter().collect());
    }
    let names: Vec<String> = (given.iter().map(|cte| ident_text(&cte.alias.name))).collect();
    let texts: Vec<String> = given.iter().map(|cte| cte.query.to_string()).collect();
    // Queries in expressions name others too. A word of the text may be something else.
    let has_word = |at: usize, other: usize| words(&texts[at]).any(|word| word == names[other]);
    let reads = |at: usize, other: usize| mentions(&given[at].query, &names[other]);
    let order = ordered(given.len(), has_word).or_else(|| ordered(given.len(), reads));
    let order = order.ok_or_else(|| {
        let message = "mutual recursion between WITH items is not implemented";
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    })?;
    Ok(order.into_iter().map(|at| &given[at]).collect())
}

/// Numbers below `count`, each after those that it needs, else in their order; none if some need
/// each other.
fn ordered(count: usize, needs: impl Fn(usize, usize) -> bool) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = Vec::with_capacity(count);
    while order.len() < count {
        let is_next = |at: &usize| {
            let mut left = (0..count).filter(|other| other != at && !order.contains(other));
            !order.contains(at) && !left.any(|other| needs(*at, other))
        };
        let next = (0..count).find(is_next)?;
        order.push(next);
    }
    Some(order)
}

/// The words of a text that may be names of tables, by the words and signs before them.
fn words(text: &str) -> impl Iterator<Item = String> {
    let is_part = |character: char| character.is_alphanumeric() || "_$\"".contains(character);
    let mut starts_name = false;
    let parts = text.split_inclusive(move |character| !is_part(character));
    parts.filter_map(move |part| {
        let word = part.trim_end_matches(|character| !is_part(character));
        let follows = starts_name;
        let is_keyword = ["FROM", "JOIN", "ONLY", "LATERAL"].contains(&word);
        starts_name = is_keyword || part.ends_with([',', '(']) || word.is_empty() && follows;
        let name = match word.strip_prefix('"') {
            Some(quoted) => quoted.trim_end_matches('"').to_owned(),
            None => word.to_lowercase(),
        };
        (follows && !word.is_empty() && !is_keyword).then_some(name)
    })
}

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
