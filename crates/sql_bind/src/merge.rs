//! `MERGE`: for each row of a source, a change of the row of a table that it meets, or a new one.
//!
//! The source is kept, and read by several changes. Of each table of the family the rows that meet
//! one of its rows are changed; then come the new rows, for rows of the source that meet none. All
//! of them see the rows as they were before the statement.

use super::family::places_in;
use super::insert::refuse_generated;
use super::scope::{Clause, Scope};
use super::source::Source;
use super::table::BoundTable;
use super::target::{AssignTarget, is_default};
use super::view::Verb;
use super::{Binder, Changed};
use crate::catalog::{Body, Names, Origin, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{
    Change, Expr, Insert, Join, JoinKind, JoinMethod, Merge, MergeAction, MergeClause, Modify,
    Moves, Node, Project, Shared, Target,
};
use crate::types::Type;
use sql_parse::{Copied, OVERRIDING, mark_of};
use sqlparser::ast::{
    self, InsertOverriding, MergeClauseKind, MergeInsertExpr, MergeInsertKind, MergeUpdateKind,
    Spanned, TableFactor, TableWithJoins,
};
use std::cmp::Ordering;
use std::sync::Arc;

/// The parts of a statement that all of its changes need.
struct Parts<'m> {
    merge: &'m ast::Merge,
    table: BoundTable,
    alias: String,
    /// The rules of the table itself, into which rows are inserted.
    root: Arc<Target>,
    source: [TableWithJoins; 1],
    /// The rows of the source, for all changes.
    rows: Arc<Shared>,
}

impl Binder<'_> {
    pub(super) fn merge(&mut self, merge: &ast::Merge) -> Result<Changed> {
        self.refuse_view(&merge.table)?;
        check_reachable(merge)?;
        if merge.output.is_some() {
            let message = "syntax error at or near \"RETURNING\"";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let named = |factor: &TableFactor| TableWithJoins {
            relation: factor.copied(),
            joins: Vec::new(),
        };
        let target = named(&merge.table);
        let select = (Verb::Update, Privilege::Select.bit());
        let (mut table, alias, family) = self.changed_table(&target, select)?;
        for clause in &merge.clauses {
            let privilege = match clause.action {
                ast::MergeAction::Insert(_) => Privilege::Insert,
                ast::MergeAction::Update(_) => Privilege::Update,
                ast::MergeAction::Delete { .. } => Privilege::Delete,
                ast::MergeAction::DoNothing { .. } => continue,
            };
            self.check_access(table.named(), privilege.bit())?;
        }
        table.given = self.merge_given(&table, merge);
        let source = [named(&merge.source)];
        let Source { node, scope } = self.from(&source)?;
        let number = self.shared_count;
        self.shared_count += 1;
        let rows = Arc::new(Shared {
            number,
            node,
            width: scope.width,
            is_kept: false,
            rows: None,
        });
        let parts = Parts {
            merge,
            root: self.target_below((&table, &table))?,
            table,
            alias,
            source,
            rows,
        };
        let (mut nodes, mut has_matched) = (Vec::new(), false);
        for clause in &merge.clauses {
            has_matched |= clause.clause_kind == MergeClauseKind::Matched;
        }
        let unmatched = self.unmatched_clauses(&parts)?;
        if has_matched {
            for member in &family {
                nodes.push(self.matched(&parts, member, &unmatched)?);
            }
        }
        if !unmatched.is_empty() {
            nodes.push(self.unmatched(&parts, unmatched)?);
        }
        let node = super::family::united(nodes);
        let node = node.ok_or_else(|| SqlError::internal("a MERGE with clauses"))?;
        Ok((node, None))
    }

    /// The columns that clauses give values for.
    fn merge_given(&self, table: &BoundTable, merge: &ast::Merge) -> Vec<usize> {
        let mut given = Vec::new();
        for clause in &merge.clauses {
            match &clause.action {
                ast::MergeAction::Update(update) => {
                    if let MergeUpdateKind::Set(assignments) = &update.kind {
                        given.extend(self.assigned_places(table, assignments));
                    }
                }
                ast::MergeAction::Insert(insert) => {
                    if let MergeInsertKind::Values(values) = &insert.kind {
                        let count = values.rows.first().map_or(0, |row| row.content.len());
                        let places = self.merge_places(table, insert, count);
                        let places = places.into_iter().flatten().take(count);
                        given.extend(places.map(|target| target.at));
                    }
                }
                _ => {}
            }
        }
        given
    }

    /// Fails if the target is none that `MERGE` takes.
    fn refuse_view(&self, table: &TableFactor) -> Result<()> {
        let TableFactor::Table { name, .. } = table else {
            return Err(SqlError::unsupported("MERGE INTO this", "Name a table."));
        };
        let (schema, name) = super::object_name(name)?;
        let found = self.names.find(Names::Relations, schema.as_deref(), &name);
        if !found.is_some_and(|object| matches!(object.body, Body::View(_))) {
            return Ok(());
        }
        let message = format!("cannot execute MERGE on relation \"{name}\"");
        let detail = "This operation is not supported for views.";
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }

    /// The change of the rows of a table that rows of the source meet.
    fn matched(
        &mut self,
        parts: &Parts<'_>,
        member: &BoundTable,
        unmatched: &[MergeClause],
    ) -> Result<Node> {
        let mut scope = Scope::default();
        self.add_member(&mut scope, (&parts.table, member), &parts.alias)?;
        let source = self.from(&parts.source)?;
        scope.append(source.scope)?;
        let (bound, _) = self.within(scope, |binder| {
            binder.scope().clause = Clause::JoinOn;
            let on = binder.condition(&parts.merge.on, "JOIN/ON")?;
            let mut clauses = Vec::new();
            for clause in &parts.merge.clauses {
                if clause.clause_kind != MergeClauseKind::Matched {
                    continue;
                }
                let condition = binder.clause_condition(clause)?;
                binder.scope().clause = Clause::Set;
                let action = match &clause.action {
                    ast::MergeAction::Update(update) => {
                        MergeAction::Update(binder.merge_update(member, &update.kind)?)
                    }
                    ast::MergeAction::Delete { .. } => MergeAction::Delete,
                    _ => MergeAction::Nothing,
                };
                clauses.push(MergeClause { condition, action });
            }
            Ok((on, clauses))
        });
        let (on, matched) = bound?;
        let join = Join {
            kind: JoinKind::Inner,
            left: self.all_of(member, None),
            right: Node::Shared(Arc::clone(&parts.rows)),
            condition: Some(on.clone()),
            method: JoinMethod::Loop,
        };
        let moves = match self.router(&parts.table, None)? {
            Some(router) => Some(Moves {
                router,
                table: Arc::clone(&parts.root),
                columns: places_in(parts.table.body(), member.body())?,
            }),
            None => None,
        };
        let merge = Merge {
            on: Some(on),
            matched,
            unmatched: unmatched.to_vec(),
            moves,
            root: Arc::clone(&parts.root),
        };
        let modify = Modify {
            table: self.target_below((&parts.table, member))?,
            input: join.into(),
            change: Change::Merge(Box::new(merge)),
            returning: None,
        };
        Ok(modify.into())
    }

    fn clause_condition(&mut self, clause: &ast::MergeClause) -> Result<Option<Expr>> {
        self.scope().clause = Clause::Where;
        let condition = clause.predicate.as_ref();
        let condition = condition.map(|tree| self.condition(tree, "WHEN"));
        condition.transpose()
    }

    fn merge_update(
        &mut self,
        member: &BoundTable,
        kind: &MergeUpdateKind,
    ) -> Result<Vec<(usize, Expr)>> {
        match kind {
            MergeUpdateKind::Set(assignments) => self.assignments(member, assignments),
            MergeUpdateKind::Wildcard => {
                let message = "syntax error at or near \"*\"";
                Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
            }
        }
    }

    /// The clauses of rows of the source that meet no row, over a row without values followed by
    /// one of the source.
    fn unmatched_clauses(&mut self, parts: &Parts<'_>) -> Result<Vec<MergeClause>> {
        let mut scope = Scope {
            width: parts.root.source.width(),
            ..Scope::default()
        };
        let source = self.from(&parts.source)?;
        scope.append(source.scope)?;
        let router = self.router(&parts.table, None)?;
        let (clauses, _) = self.within(scope, |binder| {
            let mut clauses = Vec::new();
            for clause in &parts.merge.clauses {
                match clause.clause_kind {
                    MergeClauseKind::Matched => continue,
                    MergeClauseKind::NotMatched => {}
                    _ => {
                        let message = "syntax error at or near \"BY\"";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                }
                let condition = binder.clause_condition(clause)?;
                let action = match &clause.action {
                    ast::MergeAction::Insert(insert) => MergeAction::Insert(Insert {
                        values: binder.merge_insert(&parts.table, insert)?,
                        conflict: None,
                        router: router.clone(),
                    }),
                    _ => MergeAction::Nothing,
                };
                clauses.push(MergeClause { condition, action });
            }
            Ok(clauses)
        });
        clauses
    }

    /// The value of each column of a new row.
    fn merge_insert(&mut self, table: &BoundTable, insert: &MergeInsertExpr) -> Result<Vec<Expr>> {
        self.scope().clause = Clause::Values;
        let columns = table.body().columns.clone();
        let trees = match &insert.kind {
            MergeInsertKind::Values(values) => match values.rows.as_slice() {
                [row] => row.content.as_slice(),
                _ => {
                    let message = "INSERT of MERGE takes one row of VALUES";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            },
            MergeInsertKind::Row | MergeInsertKind::Wildcard => {
                let message = "syntax error at or near \"*\"";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        let places = self.merge_places(table, insert, trees.len())?;
        let overriding = overriding_of(insert)?;
        let mut values: Vec<Option<Expr>> = vec![None; columns.len()];
        for (tree, target) in trees.iter().zip(&places) {
            if is_default(tree) {
                target.check_default()?;
                continue;
            }
            let column = &columns[target.at];
            refuse_generated(column, overriding.as_ref())?;
            let is_identity = matches!(column.origin, Origin::Identity { .. });
            if is_identity && matches!(overriding, Some(InsertOverriding::User)) {
                continue;
            }
            let value = self.expression(tree)?;
            let value = self.assign_to(target, column, value);
            let value = value.map_err(|error| self.at(tree.span(), error))?;
            let before = Expr::null(column.data_type);
            values[target.at] = Some(self.with_target(before, target, value)?);
        }
        let mut all = Vec::with_capacity(values.len());
        for (value, column) in values.into_iter().zip(&columns) {
            all.push(match value {
                Some(value) => value,
                None => self.default_of(column)?,
            });
        }
        let hidden = table.body().hidden.iter();
        all.extend(hidden.map(|hidden| Expr::null(hidden.data_type)));
        Ok(all)
    }

    /// The columns of a new row that the clause gives values for.
    fn merge_places(
        &self,
        table: &BoundTable,
        insert: &MergeInsertExpr,
        given: usize,
    ) -> Result<Vec<AssignTarget>> {
        let columns = &table.body().columns;
        let mut places: Vec<AssignTarget> = Vec::new();
        for name in &insert.columns {
            let target = self.assign_target(table, name)?;
            if places.iter().any(|known| known.at == target.at) {
                let column = &columns[target.at].name;
                let message = format!("column \"{column}\" specified more than once");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            places.push(target);
        }
        let is_listed = !places.is_empty();
        if !is_listed {
            places.extend((0..columns.len()).map(AssignTarget::whole));
        }
        let message = match given.cmp(&places.len()) {
            Ordering::Less if is_listed => "INSERT has more target columns than expressions",
            Ordering::Greater => "INSERT has more expressions than target columns",
            _ => return Ok(places),
        };
        Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
    }

    /// The new rows for rows of the source that meet none.
    fn unmatched(&mut self, parts: &Parts<'_>, clauses: Vec<MergeClause>) -> Result<Node> {
        let TableFactor::Table {
            alias, inheritance, ..
        } = &parts.merge.table
        else {
            return Err(SqlError::internal("a table"));
        };
        let source = self.from(&parts.source)?;
        let width = source.scope.width;
        let types: Vec<Type> = (0..width).map(|at| type_at(&source.scope, at)).collect();
        let rows = self.family_rows(parts.table.clone(), alias.as_ref(), inheritance.as_ref())?;
        let mut scope = source.scope;
        scope.append(rows.scope)?;
        let (on, _) = self.within(scope, |binder| {
            binder.scope().clause = Clause::JoinOn;
            binder.condition(&parts.merge.on, "JOIN/ON")
        });
        let join = Join {
            kind: JoinKind::Anti,
            left: Node::Shared(Arc::clone(&parts.rows)),
            right: rows.node,
            condition: Some(on?),
            method: JoinMethod::Loop,
        };
        let root = &parts.root.source;
        let nothing = (0..root.width()).map(|at| Expr::null(root.column_type(at)));
        let found = types.into_iter().enumerate();
        let found = found.map(|(at, one)| Expr::Column(at, one));
        let expressions = nothing.chain(found).collect();
        let project = Project {
            input: join.into(),
            expressions,
            has_sets: false,
        };
        let merge = Merge {
            on: None,
            matched: Vec::new(),
            unmatched: clauses,
            moves: None,
            root: Arc::clone(&parts.root),
        };
        let modify = Modify {
            table: Arc::clone(&parts.root),
            input: project.into(),
            change: Change::Merge(Box::new(merge)),
            returning: None,
        };
        Ok(modify.into())
    }
}

/// The clause `OVERRIDING` of a new row.
fn overriding_of(insert: &MergeInsertExpr) -> Result<Option<InsertOverriding>> {
    match &insert.insert_predicate {
        None => Ok(None),
        Some(ast::Expr::Identifier(name)) => {
            let of = mark_of(name).and_then(|mark| mark.strip_prefix(OVERRIDING));
            Ok(of.map(|of| match of {
                "USER" => InsertOverriding::User,
                _ => InsertOverriding::System,
            }))
        }
        Some(_) => {
            let message = "syntax error at or near \"WHERE\"";
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

/// The type of a column of a row; one that no name means has any.
fn type_at(scope: &Scope, at: usize) -> Type {
    let mut columns = scope.columns.iter();
    let found = columns.find_map(|column| match &column.expression {
        Expr::Column(own, data_type) if *own == at => Some(*data_type),
        _ => None,
    });
    found.unwrap_or_else(|| crate::types::Kind::Text.plain())
}

/// Fails if a clause stands after one of its kind that takes all rows.
fn check_reachable(merge: &ast::Merge) -> Result<()> {
    let mut taken: Vec<MergeClauseKind> = Vec::new();
    for clause in &merge.clauses {
        if taken.contains(&clause.clause_kind) {
            let message = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        if clause.predicate.is_none() {
            taken.push(clause.clause_kind);
        }
    }
    Ok(())
}
