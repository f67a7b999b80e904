//! Walks over expressions and plans.
//!
//! A walk knows how many rows of enclosing queries lie between an expression and the row that the
//! walk began with: at depth `d` that row is `Outer(d)`, and at depth 0 it is the expression's own
//! row. So one walk renumbers the columns of a row wherever it is used.

use super::expression::{Expr, Pending, SubqueryTest};
use super::modify::{Change, Conflict, MergeAction};
use super::node::{Access, FrameEnd, Join, JoinMethod, Node, SortKey};
use crate::error::Result;
use indelible::TableId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Visits an expression and its parts, the outermost first; the visitor says whether it wants the
/// parts too. Queries inside are visited with their depth.
pub type Visitor<'v> = dyn FnMut(&mut Expr, usize) -> Result<bool> + 'v;

impl Expr {
    /// Visits the expression and its parts.
    pub fn walk(&mut self, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
        if !visit(self, depth)? {
            return Ok(());
        }
        match self {
            Self::Constant(..)
            | Self::Column(..)
            | Self::Outer(..)
            | Self::Parameter(..)
            | Self::LetValue(..)
            | Self::Pending(..) => Ok(()),
            Self::Call(call) => walk_all(&mut call.arguments, depth, visit),
            Self::And(parts)
            | Self::Or(parts)
            | Self::Coalesce(parts)
            | Self::Extreme(parts, _) => walk_all(parts, depth, visit),
            Self::Array(parts, _) | Self::Row(parts, _) => walk_all(parts, depth, visit),
            Self::Cast(operand, ..)
            | Self::Not(operand)
            | Self::IsNull(operand, _)
            | Self::IsTruth(operand, ..)
            | Self::Field(operand, ..) => operand.walk(depth, visit),
            Self::IsDistinct(pair, _) => {
                pair.0.walk(depth, visit)?;
                pair.1.walk(depth, visit)
            }
            Self::Quantified(test) => {
                test.left.walk(depth, visit)?;
                test.array.walk(depth, visit)
            }
            Self::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    condition.walk(depth, visit)?;
                    result.walk(depth, visit)?;
                }
                otherwise.walk(depth, visit)
            }
            Self::Let(one) => {
                one.value.walk(depth, visit)?;
                one.body.walk(depth, visit)
            }
            Self::Subquery(subquery) => {
                let subquery = Arc::make_mut(subquery);
                if let SubqueryTest::Any(test) | SubqueryTest::All(test) = &mut subquery.test {
                    // The condition reads these values and not the row.
                    walk_all(&mut test.left, depth, visit)?;
                }
                subquery.node.walk(depth + 1, visit)
            }
        }
    }

    /// Whether a test holds for the expression or one of its parts.
    pub fn any(&self, mut test: impl FnMut(&Expr, usize) -> bool) -> bool {
        let mut found = false;
        // The walk changes nothing; it only has one form.
        let walked = self.clone().walk(0, &mut |part, depth| {
            found |= test(part, depth);
            Ok(!found)
        });
        debug_assert!(walked.is_ok(), "the visitor does not fail");
        found
    }

    /// Whether it may have another value each time.
    pub fn has_volatile(&self) -> bool {
        self.any(|part, _| matches!(part, Self::Call(call) if !call.is_stable()))
    }

    /// Whether there is a query in it.
    pub fn has_query(&self) -> bool {
        self.any(|part, depth| depth == 0 && matches!(part, Self::Subquery(_)))
    }

    /// Moves the columns of the row by as many places.
    pub fn shift(&mut self, from: usize, by: isize) {
        self.renumber(&mut |at| {
            if at >= from {
                at.wrapping_add_signed(by)
            } else {
                at
            }
        });
    }

    /// Gives the columns of the row other places.
    pub fn renumber(&mut self, place: &mut dyn FnMut(usize) -> usize) {
        let walked = self.walk(0, &mut |part, depth| {
            match part {
                Self::Column(at, _) if depth == 0 => *at = place(*at),
                Self::Outer(level, at, _) if *level == depth && depth > 0 => *at = place(*at),
                _ => {}
            }
            Ok(true)
        });
        debug_assert!(walked.is_ok(), "the visitor does not fail");
    }

    /// Calls `note` for each column of the row that the expression reads.
    pub fn columns(&self, note: &mut dyn FnMut(usize)) {
        self.any(|part, depth| {
            match part {
                Self::Column(at, _) if depth == 0 => note(*at),
                Self::Outer(level, at, _) if *level == depth && depth > 0 => note(*at),
                _ => {}
            }
            false
        });
    }

    /// Whether it reads only columns of the row below a place.
    pub fn columns_are_below(&self, width: usize) -> bool {
        let mut is_below = true;
        self.columns(&mut |at| is_below &= at < width);
        is_below
    }

    /// Whether it reads a column of the row.
    pub fn reads_row(&self) -> bool {
        let mut reads = false;
        self.columns(&mut |_| reads = true);
        reads
    }

    /// Turns the row that it reads into the next outer row.
    #[must_use]
    pub fn into_outer(mut self) -> Self {
        let walked = self.walk(0, &mut |part, depth| {
            match part {
                Self::Column(at, data_type) if depth == 0 => {
                    *part = Self::Outer(1, *at, *data_type);
                    return Ok(false);
                }
                Self::Pending(pending @ Pending::Aggregate, ..) if depth == 0 => {
                    *pending = Pending::Outer(1);
                }
                Self::Outer(level, ..) | Self::Pending(Pending::Outer(level), ..)
                    if *level >= depth =>
                {
                    *level += 1;
                }
                _ => {}
            }
            Ok(true)
        });
        debug_assert!(walked.is_ok(), "the visitor does not fail");
        self
    }
}

fn walk_all(parts: &mut [Expr], depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    parts
        .iter_mut()
        .try_for_each(|part| part.walk(depth, visit))
}

fn walk_keys(keys: &mut [SortKey], depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    keys.iter_mut()
        .try_for_each(|key| key.expression.walk(depth, visit))
}

fn walk_option(part: Option<&mut Expr>, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    part.map_or(Ok(()), |part| part.walk(depth, visit))
}

impl Access {
    /// Visits its expressions.
    pub fn walk(&mut self, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
        match self {
            Self::All { .. } => Ok(()),
            Self::Range(range) => {
                walk_all(&mut range.prefix, depth, visit)?;
                let ends = [&mut range.low, &mut range.high];
                ends.into_iter()
                    .flatten()
                    .try_for_each(|end| end.value.walk(depth, visit))?;
                walk_option(range.pattern.as_mut(), depth, visit)
            }
            Self::Keys { keys, .. } => keys
                .iter_mut()
                .try_for_each(|key| walk_all(key, depth, visit)),
            Self::Elements { prefix, array, .. } => {
                walk_all(prefix, depth, visit)?;
                array.walk(depth, visit)
            }
            Self::AnyOf(ways) => ways.iter_mut().try_for_each(|way| {
                way.access.walk(depth, visit)?;
                way.condition.walk(depth, visit)
            }),
        }
    }
}

impl Node {
    /// Visits the expressions of the node and its inputs, which see the same outer rows.
    pub fn walk(&mut self, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
        self.walk_own(depth, visit)?;
        self.inputs(&mut |input, is_lateral| input.walk(depth + usize::from(is_lateral), visit))
    }

    /// Whether it, or a query in one of its expressions, reads a table.
    pub fn reads(&self, table: TableId) -> bool {
        /// `shared` are numbers of queries of `WITH` that have been looked at.
        fn look(
            node: &mut Node,
            table: TableId,
            shared: &mut BTreeSet<usize>,
            found: &mut bool,
        ) -> Result<()> {
            if let Node::Scan(scan) = node {
                *found |= scan.source.table.id() == table;
            }
            if let Node::Shared(query) = node
                && shared.insert(query.number)
            {
                look(&mut query.node.clone(), table, shared, found)?;
            }
            node.walk_own(0, &mut |part, _| {
                if let Expr::Subquery(subquery) = part {
                    look(&mut Arc::make_mut(subquery).node, table, shared, found)?;
                }
                Ok(!*found)
            })?;
            node.inputs(&mut |input, _| look(input, table, shared, found))
        }
        let mut found = false;
        // The walk changes nothing; it only has one form.
        let looked = look(&mut self.clone(), table, &mut BTreeSet::new(), &mut found);
        debug_assert!(looked.is_ok(), "the visitor does not fail");
        found
    }

    /// Visits the inputs, and whether each is run with a row as the next outer row. A query of
    /// `WITH` is no input: it may have many uses, reads no row of those, and runs once.
    pub fn inputs(&mut self, visit: &mut dyn FnMut(&mut Node, bool) -> Result<()>) -> Result<()> {
        match self {
            Self::Values(_)
            | Self::Scan(_)
            | Self::System(_)
            | Self::Functions(_)
            | Self::Working(_)
            | Self::Shared(_) => Ok(()),
            Self::Filter(plan) => visit(&mut Arc::make_mut(plan).input, false),
            Self::Project(plan) => visit(&mut Arc::make_mut(plan).input, false),
            Self::Aggregate(plan) => visit(&mut Arc::make_mut(plan).input, false),
            Self::Window(plan) => visit(&mut Arc::make_mut(plan).input, false),
            Self::Sort(plan) => visit(&mut Arc::make_mut(plan).input, false),
            Self::Limit(plan) => visit(&mut Arc::make_mut(plan).input, false),
            Self::Distinct(plan) => visit(&mut Arc::make_mut(plan).input, false),
            Self::Lock(plan) => visit(&mut Arc::make_mut(plan).input, false),
            Self::Modify(plan) => visit(&mut Arc::make_mut(plan).input, false),
            Self::Counted(plan) => visit(&mut Arc::make_mut(plan).input, false),
            Self::Join(plan) => {
                let plan = Arc::make_mut(plan);
                visit(&mut plan.left, false)?;
                visit(&mut plan.right, matches!(plan.method, JoinMethod::Lateral))
            }
            Self::SetOperation(plan) => {
                let plan = Arc::make_mut(plan);
                visit(&mut plan.left, false)?;
                visit(&mut plan.right, false)
            }
            Self::Recursive(plan) => {
                let plan = Arc::make_mut(plan);
                visit(&mut plan.start, false)?;
                visit(&mut plan.step, false)
            }
        }
    }

    /// Whether it gives the same rows each time that it runs in a statement. It may say no of a
    /// node that does.
    pub fn is_fixed(&self) -> bool {
        let mut node = self.clone();
        let varying =
            |node: &Self| matches!(node, Self::Working(_) | Self::Lock(_) | Self::Modify(_));
        let mut varies = node.has(&varying);
        let walked = node.walk(1, &mut |part, depth| {
            varies |= match part {
                Expr::Outer(level, ..) => *level >= depth,
                Expr::Call(call) => !call.is_stable(),
                Expr::Subquery(_) => true,
                _ => false,
            };
            Ok(!varies)
        });
        walked.is_ok() && !varies
    }

    /// Whether an expression in it may have another value each time.
    pub(super) fn has_volatile(&self) -> bool {
        let mut has = false;
        // The walk changes nothing; it only has one form.
        let walked = self.clone().walk(0, &mut |part, _| {
            has |= part.has_volatile();
            Ok(!has)
        });
        debug_assert!(walked.is_ok(), "the visitor does not fail");
        has
    }

    /// Whether it reads rows of a round of a recursive query.
    pub(super) fn reads_round(&self) -> bool {
        self.clone().has(&|node| matches!(node, Self::Working(_)))
    }

    /// Whether a test holds for the node or one of its inputs.
    fn has(&mut self, test: &dyn Fn(&Self) -> bool) -> bool {
        let mut has = test(self);
        let visited = self.inputs(&mut |input, _| {
            has = has || input.has(test);
            Ok(())
        });
        has || visited.is_err()
    }

    /// Visits the node's own expressions.
    pub(super) fn walk_own(&mut self, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
        match self {
            Self::Working(_) | Self::Shared(_) | Self::Recursive(_) | Self::Counted(_) => Ok(()),
            Self::SetOperation(plan) => Arc::make_mut(plan)
                .order
                .as_mut()
                .map_or(Ok(()), |keys| walk_keys(keys, depth, visit)),
            Self::Values(plan) => {
                let rows = &mut Arc::make_mut(plan).rows;
                rows.iter_mut()
                    .try_for_each(|row| walk_all(row, depth, visit))
            }
            Self::Scan(plan) => {
                let plan = Arc::make_mut(plan);
                plan.access.walk(depth, visit)?;
                walk_option(plan.condition.as_mut(), depth, visit)
            }
            Self::System(plan) => {
                let plan = Arc::make_mut(plan);
                let key = plan.key.as_mut().map(|(_, value)| value);
                walk_option(key, depth, visit)?;
                walk_option(plan.condition.as_mut(), depth, visit)
            }
            Self::Functions(plan) => walk_all(&mut Arc::make_mut(plan).calls, depth, visit),
            Self::Filter(plan) => Arc::make_mut(plan).condition.walk(depth, visit),
            Self::Project(plan) => walk_all(&mut Arc::make_mut(plan).expressions, depth, visit),
            Self::Join(plan) => walk_join(Arc::make_mut(plan), depth, visit),
            Self::Aggregate(plan) => {
                let plan = Arc::make_mut(plan);
                walk_all(&mut plan.keys, depth, visit)?;
                for call in &mut plan.calls {
                    walk_all(&mut call.arguments, depth, visit)?;
                    walk_keys(&mut call.order, depth, visit)?;
                    walk_option(call.filter.as_mut(), depth, visit)?;
                }
                Ok(())
            }
            Self::Window(plan) => walk_window(Arc::make_mut(plan), depth, visit),
            Self::Sort(plan) => {
                let plan = Arc::make_mut(plan);
                walk_keys(&mut plan.keys, depth, visit)?;
                plan.wanted.as_mut().map_or(Ok(()), |wanted| {
                    wanted.count.walk(depth, visit)?;
                    walk_option(wanted.skipped.as_mut(), depth, visit)
                })
            }
            Self::Limit(plan) => {
                let plan = Arc::make_mut(plan);
                walk_option(plan.count.as_mut(), depth, visit)?;
                walk_option(plan.offset.as_mut(), depth, visit)?;
                plan.ties
                    .as_mut()
                    .map_or(Ok(()), |keys| walk_keys(keys, depth, visit))
            }
            Self::Distinct(plan) => {
                let plan = Arc::make_mut(plan);
                plan.on
                    .as_mut()
                    .map_or(Ok(()), |on| walk_all(on, depth, visit))
            }
            Self::Lock(plan) => walk_option(Arc::make_mut(plan).recheck.as_mut(), depth, visit),
            Self::Modify(plan) => walk_modify(Arc::make_mut(plan), depth, visit),
        }
    }
}

fn walk_join(plan: &mut Join, depth: usize, visit: &mut Visitor<'_>) -> Result<()> {
    walk_option(plan.condition.as_mut(), depth, visit)?;
    if let JoinMethod::Hash {
        left,
        right,
        equalities,
    } = &mut plan.method
    {
        walk_all(left, depth, visit)?;
        walk_all(right, depth, visit)?;
        walk_all(equalities, depth, visit)?;
    }
    Ok(())
}

fn walk_window(
    plan: &mut super::node::Window,
    depth: usize,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    walk_all(&mut plan.partition, depth, visit)?;
    walk_keys(&mut plan.order, depth, visit)?;
    walk_option(plan.stop.as_mut().map(|stop| &mut stop.last), depth, visit)?;
    for call in &mut plan.calls {
        walk_all(&mut call.arguments, depth, visit)?;
        walk_option(call.filter.as_mut(), depth, visit)?;
        for end in [&mut call.frame.start, &mut call.frame.end] {
            if let FrameEnd::Preceding(offset) | FrameEnd::Following(offset) = end {
                offset.walk(depth, visit)?;
            }
        }
    }
    Ok(())
}

fn walk_insert(
    insert: &mut super::modify::Insert,
    depth: usize,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    walk_all(&mut insert.values, depth, visit)?;
    let router = insert.router.as_mut().map(Arc::make_mut);
    let leaves = router.into_iter().flat_map(|router| &mut router.leaves);
    let conflicts = leaves.map(|leaf| &mut leaf.conflict);
    for conflict in conflicts.chain([&mut insert.conflict]) {
        let Some(Conflict::Update {
            shown,
            set,
            condition,
            ..
        }) = conflict
        else {
            continue;
        };
        (shown.iter_mut()).try_for_each(|(_, own)| own.walk(depth, visit))?;
        (set.iter_mut()).try_for_each(|(_, value)| value.walk(depth, visit))?;
        walk_option(condition.as_mut(), depth, visit)?;
    }
    Ok(())
}

fn walk_modify(
    plan: &mut super::modify::Modify,
    depth: usize,
    visit: &mut Visitor<'_>,
) -> Result<()> {
    match &mut plan.change {
        Change::Insert(insert) => walk_insert(insert, depth, visit)?,
        Change::Update { set, recheck, .. } => {
            set.iter_mut()
                .try_for_each(|(_, value)| value.walk(depth, visit))?;
            walk_option(recheck.as_mut(), depth, visit)?;
        }
        Change::Delete { recheck } => walk_option(recheck.as_mut(), depth, visit)?,
        Change::Merge(merge) => {
            walk_option(merge.on.as_mut(), depth, visit)?;
            for clause in merge.matched.iter_mut().chain(&mut merge.unmatched) {
                walk_option(clause.condition.as_mut(), depth, visit)?;
                match &mut clause.action {
                    MergeAction::Update(set) => set
                        .iter_mut()
                        .try_for_each(|(_, value)| value.walk(depth, visit))?,
                    MergeAction::Insert(insert) => walk_insert(insert, depth, visit)?,
                    MergeAction::Nothing | MergeAction::Delete => {}
                }
            }
        }
    }
    plan.returning
        .as_mut()
        .map_or(Ok(()), |returning| walk_all(returning, depth, visit))
}
