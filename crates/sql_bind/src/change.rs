//! `UPDATE` and `DELETE`, and what all changes return.
//!
//! The rows of the table come first in the input, followed by those of the other tables of the
//! statement, so one condition is tested on both, and again on a row that has changed.

use super::family::places_in;
use super::once::{fields_of, let_in};
use super::scope::{Clause, Scope};
use super::source::Source as Part;
use super::table::{BoundTable, body_of};
use super::target::{AssignTarget, is_default};
use super::view::Verb;
use super::{Binder, Changed, ident_text, object_name};
use crate::catalog::{Oid, Origin, Privilege};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{
    Change, Expr, Filter, Join, JoinKind, JoinMethod, Modify, Moves, Node, OutputColumn,
};
use crate::types::Kind;
use sql_parse::{CURRENT_OF, mark_of};
use sqlparser::ast::{
    self, Assignment, AssignmentTarget, FromTable, SelectItem, TableFactor, TableWithJoins,
    UpdateTableFromKind,
};
use std::sync::Arc;

/// Expressions over a changed row, and their columns.
type Returned = (Option<Vec<Expr>>, Option<Vec<OutputColumn>>);

/// Columns and their values.
pub(super) type Assigned = Vec<(usize, Expr)>;

impl Binder<'_> {
    pub(super) fn update(&mut self, update: &ast::Update) -> Result<Changed> {
        let others = match &update.from {
            None => &[][..],
            Some(
                UpdateTableFromKind::BeforeSet(others) | UpdateTableFromKind::AfterSet(others),
            ) => others,
        };
        let change = (Verb::Update, Privilege::Update.bit());
        let (mut table, alias, family) = self.changed_table(&update.table, change)?;
        table.given = self.assigned_places(&table, &update.assignments);
        let router = self.router(&table, None)?;
        let root = self.target_below((&table, &table))?;
        self.change_each(&family, |binder, member| {
            let moves = match &router {
                Some(router) => Some(Moves {
                    router: Arc::clone(router),
                    table: Arc::clone(&root),
                    columns: places_in(table.body(), member.body())?,
                }),
                None => None,
            };
            binder.update_member(update, (&table, member, &alias), others, moves)
        })
    }

    /// The way of rows of a partition to the others of a table above it.
    pub fn moves_below(&mut self, above: Oid, partition: Oid) -> Result<Option<Moves>> {
        let (object, partition) = (self.referenced(above)?, self.referenced(partition)?);
        let source = self.source(&object)?;
        let table = BoundTable::new(object, source);
        let Some(router) = self.router(&table, None)? else {
            return Ok(None);
        };
        Ok(Some(Moves {
            router,
            columns: places_in(table.body(), body_of(&partition))?,
            table: self.target(&table)?,
        }))
    }

    fn update_member(
        &mut self,
        update: &ast::Update,
        (table, member, alias): (&BoundTable, &BoundTable, &str),
        others: &[TableWithJoins],
        moves: Option<Moves>,
    ) -> Result<Changed> {
        let part = self.rows_of((table, member), alias, others)?;
        let (bound, mut scope) = self.within(part.scope, |binder| {
            binder.scope().clause = Clause::Set;
            let set = binder.assignments(member, &update.assignments)?;
            let recheck = binder.where_of(update.selection.as_ref(), (table, member))?;
            Ok((set, recheck))
        });
        let (set, recheck) = bound?;
        let input = filtered(part.node, recheck.as_ref());
        if let (Some(_), Some(first)) = (&moves, scope.tables.first_mut()) {
            first.table_oid = Some(Expr::Column(scope.width, Kind::Oid.plain()));
        }
        let (returning, columns) = self.returning(update.returning.as_deref(), scope)?;
        let values = set.iter().filter_map(|(at, value)| read_to_set(*at, value));
        self.check_reads(table, member, values.chain(returning.iter().flatten()))?;
        let target = self.target_below((table, member))?;
        let change = Change::Update {
            set,
            recheck,
            moves,
        };
        Ok((
            Modify {
                table: target,
                input,
                change,
                returning,
            }
            .into(),
            columns,
        ))
    }

    pub(super) fn delete(&mut self, delete: &ast::Delete) -> Result<Changed> {
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
        let [table] = tables.as_slice() else {
            return Err(SqlError::unsupported(
                "DELETE from several tables",
                "Delete from one at a time.",
            ));
        };
        let others = delete.using.as_deref().unwrap_or_default();
        let change = (Verb::Delete, Privilege::Delete.bit());
        let (table, alias, family) = self.changed_table(table, change)?;
        self.change_each(&family, |binder, member| {
            binder.delete_member(delete, (&table, member, &alias), others)
        })
    }

    fn delete_member(
        &mut self,
        delete: &ast::Delete,
        (table, member, alias): (&BoundTable, &BoundTable, &str),
        others: &[TableWithJoins],
    ) -> Result<Changed> {
        let part = self.rows_of((table, member), alias, others)?;
        let (recheck, scope) = self.within(part.scope, |binder| {
            binder.where_of(delete.selection.as_ref(), (table, member))
        });
        let recheck = recheck?;
        let input = filtered(part.node, recheck.as_ref());
        let (returning, columns) = self.returning(delete.returning.as_deref(), scope)?;
        self.check_reads(table, member, returning.iter().flatten())?;
        let target = self.target(member)?;
        let change = Change::Delete { recheck };
        Ok((
            Modify {
                table: target,
                input,
                change,
                returning,
            }
            .into(),
            columns,
        ))
    }

    fn where_of(
        &mut self,
        selection: Option<&ast::Expr>,
        (table, member): (&BoundTable, &BoundTable),
    ) -> Result<Option<Expr>> {
        self.scope().clause = Clause::Where;
        if let Some(ast::Expr::Identifier(name)) = selection
            && let Some(cursor) = mark_of(name).and_then(|mark| mark.strip_prefix(CURRENT_OF))
        {
            if table.view.is_some() {
                let message = "WHERE CURRENT OF on a view is not implemented";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            return self.current_of(cursor, table, member).map(Some);
        }
        let of_view = match &table.view {
            Some(view) => view.condition(table, member)?,
            None => None,
        };
        let own = selection.map(|tree| self.condition(tree, "WHERE"));
        let own = own.transpose()?;
        self.check_reads(table, member, &own)?;
        let all: Vec<Expr> = of_view.into_iter().chain(own).collect();
        Ok((!all.is_empty()).then(|| Expr::all(all)))
    }

    /// Fails unless the table that a statement changes may be read, if expressions read its rows.
    pub(super) fn check_reads<'e>(
        &self,
        table: &BoundTable,
        member: &BoundTable,
        expressions: impl IntoIterator<Item = &'e Expr>,
    ) -> Result<()> {
        let width = member.source.types.len();
        let mut expressions = expressions.into_iter();
        if expressions.any(|expression| reads(expression, width)) {
            return self.check_access(table.named(), Privilege::Select.bit());
        }
        Ok(())
    }

    /// The table that a statement changes, its name there, and the tables with its rows.
    pub(super) fn changed_table(
        &mut self,
        table: &TableWithJoins,
        change: (Verb, i64),
    ) -> Result<(BoundTable, String, Vec<BoundTable>)> {
        let TableFactor::Table {
            name,
            alias,
            inheritance,
            ..
        } = &table.relation
        else {
            return Err(SqlError::unsupported("a change of this", "Change a table."));
        };
        let (schema, name) = object_name(name)?;
        let span = ast::Spanned::span(&table.relation);
        let bound = self
            .changed((schema.as_deref(), &name), change)
            .map_err(|error| self.at(span, error))?;
        let alias = alias.as_ref().map_or(name, |alias| ident_text(&alias.name));
        let family = self.family(&bound, inheritance.as_ref())?;
        Ok((bound, alias, family))
    }

    /// Rows of the table, followed by those of the other tables of the statement.
    fn rows_of(
        &mut self,
        (table, member): (&BoundTable, &BoundTable),
        alias: &str,
        others: &[TableWithJoins],
    ) -> Result<Part> {
        let mut scope = Scope::default();
        self.add_member(&mut scope, (table, member), alias)?;
        if let Some(target) = scope.tables.last_mut() {
            let is_own = alias == table.object.name;
            target.schema = is_own.then(|| self.names.schema_of(&table.object));
        }
        let is_alone = member.object.oid == table.object.oid;
        let node = self.all_of(member, is_alone.then_some(alias));
        if others.is_empty() {
            return Ok(Part { node, scope });
        }
        let others = self.from(others)?;
        scope.append(others.scope)?;
        let join = Join {
            kind: JoinKind::Inner,
            left: node,
            right: others.node,
            condition: None,
            method: JoinMethod::Loop,
        };
        Ok(Part {
            node: join.into(),
            scope,
        })
    }

    /// The columns that are set, and their values.
    pub(super) fn assignments(
        &mut self,
        table: &BoundTable,
        assignments: &[Assignment],
    ) -> Result<Assigned> {
        let mut set: Assigned = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            match &assignment.target {
                AssignmentTarget::ColumnName(name) => {
                    let (target, value) = self.assigned(table, name, &assignment.value)?;
                    self.add(table, &mut set, &target, value)?;
                }
                AssignmentTarget::Tuple(names) => {
                    for (target, value) in self.assigned_row(table, names, &assignment.value)? {
                        self.add(table, &mut set, &target, value)?;
                    }
                }
            }
        }
        Ok(set)
    }

    /// The columns that assignments name, without those that are not there.
    pub(super) fn assigned_places(
        &self,
        table: &BoundTable,
        assignments: &[Assignment],
    ) -> Vec<usize> {
        let names = assignments.iter().flat_map(|one| match &one.target {
            AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
            AssignmentTarget::Tuple(names) => names.as_slice(),
        });
        let places = names.filter_map(|name| self.assign_target(table, name).ok());
        places.map(|target| target.at).collect()
    }

    /// Adds an assignment to those that are there. Parts of one column may be assigned apart.
    fn add(
        &mut self,
        table: &BoundTable,
        set: &mut Assigned,
        target: &AssignTarget,
        value: Expr,
    ) -> Result<()> {
        let column = &table.body().columns[target.at];
        let known = set.iter().position(|(other, _)| *other == target.at);
        if known.is_some() && target.subscripts.is_empty() {
            let message = format!("multiple assignments to same column \"{}\"", column.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let before = match known {
            Some(known) => set[known].1.clone(),
            None => Expr::Column(target.at, column.data_type),
        };
        let value = self.with_target(before, target, value)?;
        match known {
            Some(known) => set[known].1 = value,
            None => set.push((target.at, value)),
        }
        Ok(())
    }

    fn assigned(
        &mut self,
        table: &BoundTable,
        name: &ast::ObjectName,
        tree: &ast::Expr,
    ) -> Result<(AssignTarget, Expr)> {
        let target = self.assign_target(table, name)?;
        let column = table.body().columns[target.at].clone();
        if is_default(tree) {
            target.check_default()?;
            return Ok((target, self.default_of(&column)?));
        }
        refuse_update(&column)?;
        let value = self.expression(tree)?;
        let value = self.assign_to(&target, &column, value)?;
        Ok((target, value))
    }

    /// `(a, b) = (1, 2)`, or a query of one row.
    fn assigned_row(
        &mut self,
        table: &BoundTable,
        names: &[ast::ObjectName],
        tree: &ast::Expr,
    ) -> Result<Vec<(AssignTarget, Expr)>> {
        let trees: Vec<&ast::Expr> = match tree {
            ast::Expr::Tuple(parts) => parts.iter().collect(),
            ast::Expr::Nested(inner) => vec![inner],
            ast::Expr::Function(function)
                if function.name.to_string().eq_ignore_ascii_case("row") =>
            {
                let ast::FunctionArguments::List(list) = &function.args else {
                    return Err(bad_row());
                };
                let parts = list.args.iter().map(|argument| match argument {
                    ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(tree)) => Ok(tree),
                    _ => Err(bad_row()),
                });
                parts.collect::<Result<_>>()?
            }
            ast::Expr::Subquery(query) => return self.assigned_query(table, names, query),
            _ => return Err(bad_row()),
        };
        if trees.len() != names.len() {
            let message = "number of columns does not match number of values";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let pairs = names.iter().zip(trees);
        pairs
            .map(|(name, tree)| self.assigned(table, name, tree))
            .collect()
    }

    /// The values of a query of one row. Values are assigned in their order, so the first one runs
    /// the query, and the others read the row that it has found.
    fn assigned_query(
        &mut self,
        table: &BoundTable,
        names: &[ast::ObjectName],
        query: &ast::Query,
    ) -> Result<Vec<(AssignTarget, Expr)>> {
        let (row, types) = self.record_subquery(query)?;
        if types.len() != names.len() {
            let message = "number of columns does not match number of values";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let (number, read) = self.new_value(row.data_type());
        let mut row = Some(row);
        let mut set = Vec::with_capacity(names.len());
        for (field, name) in fields_of(&read, &types).into_iter().zip(names) {
            let target = self.assign_target(table, name)?;
            let column = table.body().columns[target.at].clone();
            refuse_update(&column)?;
            let value = match row.take() {
                Some(row) => let_in(number, row, field),
                None => field,
            };
            let value = self.assign_to(&target, &column, value)?;
            set.push((target, value));
        }
        Ok(set)
    }

    /// The values that a change returns of each row.
    pub(super) fn returning(
        &mut self,
        items: Option<&[SelectItem]>,
        scope: Scope,
    ) -> Result<Returned> {
        let Some(items) = items else {
            return Ok((None, None));
        };
        let (bound, _) = self.within(scope, |binder| {
            binder.scope().clause = Clause::Returning;
            binder.items(items)
        });
        let (expressions, columns) = bound?
            .into_iter()
            .map(|item| (item.expression, item.column))
            .unzip();
        Ok((Some(expressions), Some(columns)))
    }
}

fn filtered(input: Node, condition: Option<&Expr>) -> Node {
    match condition {
        None => input,
        Some(condition) => Filter {
            input,
            condition: condition.clone(),
        }
        .into(),
    }
}

/// Whether an expression reads one of the first columns of a row.
fn reads(expression: &Expr, width: usize) -> bool {
    expression.any(|part, depth| match part {
        Expr::Column(at, _) => depth == 0 && *at < width,
        Expr::Outer(level, at, _) => depth > 0 && *level == depth && *at < width,
        _ => false,
    })
}

/// The part of a column's new value that may read the row: an assignment to parts of the column
/// has the rest of it too.
fn read_to_set(at: usize, value: &Expr) -> Option<&Expr> {
    let Expr::Call(call) = value else {
        return Some(value);
    };
    let [before, rest @ ..] = call.arguments.as_slice() else {
        return Some(value);
    };
    let parts = ["array_assign", "array_assign_slice", "jsonb_assign"];
    let is_part = parts.contains(&call.function.name);
    // Several parts of one column are assigned one after the other.
    let is_own = match before {
        Expr::Column(own, _) => *own == at,
        Expr::Call(_) => read_to_set(at, before).is_none(),
        _ => false,
    };
    let is_fixed = !rest.iter().any(Expr::reads_row);
    (!(is_part && is_own && is_fixed)).then_some(value)
}

fn refuse_update(column: &crate::catalog::Column) -> Result<()> {
    let name = &column.name;
    let detail = match column.origin {
        Origin::Generated(_) => format!("Column \"{name}\" is a generated column."),
        Origin::Identity { always: true, .. } => {
            format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.")
        }
        _ => return Ok(()),
    };
    let message = format!("column \"{name}\" can only be updated to DEFAULT");
    Err(SqlError::new(SqlState::GENERATED_ALWAYS, message).detail(detail))
}

fn bad_row() -> SqlError {
    let message =
        "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}
