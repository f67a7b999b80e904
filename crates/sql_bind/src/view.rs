//! Views: the rows of their queries, and changes of the tables below them.
//!
//! A view of columns and expressions of one table, without groups, limits and the like, is changed
//! as that table is: a column of the view stands for one of the table, and only rows that the view
//! has are updated and deleted.

use super::family::places_in;
use super::scope::{Clause, Scope};
use super::table::BoundTable;
use super::{Binder, Bound, object_name};
use crate::catalog::{Body, Names, Object, Oid, ViewBody};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, OutputColumn, Target};
use sql_parse::Copied;
use sqlparser::ast::{self, GroupByExpr, SetExpr, TableFactor};
use std::sync::Arc;

/// A view whose rows are rows of one table.
pub(super) struct ViewOf {
    pub(super) object: Arc<Object>,
    /// Its columns, over rows of the table.
    columns: Vec<ViewColumn>,
    /// The condition of its rows.
    condition: Option<Expr>,
    /// The conditions of its own and of the views below, with their names.
    levels: Vec<(String, Expr)>,
    /// Those of them that new rows have to meet.
    checks: Vec<(String, Expr)>,
    verb: Verb,
}

struct ViewColumn {
    output: OutputColumn,
    expression: Expr,
    /// The column of the table that it is, if it is one.
    base: Option<String>,
}

/// The verb of a change, and its noun, in messages.
#[derive(Clone, Copy)]
pub(super) enum Verb {
    Insert,
    Update,
    Delete,
}

impl Verb {
    /// The error of a view that cannot be changed.
    fn refused(self, view: &str, detail: &str) -> SqlError {
        let (verb, hint) = self.words();
        let message = format!("cannot {verb} view \"{view}\"");
        let state = SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE;
        SqlError::new(state, message).detail(detail).hint(hint)
    }

    /// Refuses a view whose rows are not rows of its table.
    fn check_scope(self, view: &str, scope: &Scope) -> Result<()> {
        let returned = match () {
            () if !scope.aggregates.is_empty() => "aggregate functions",
            () if !scope.windows.is_empty() => "window functions",
            () if scope.has_sets => "set-returning functions",
            () => return Ok(()),
        };
        let detail = format!("Views that return {returned} are not automatically updatable.");
        Err(self.refused(view, &detail))
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Insert => (
                "insert into",
                "To enable inserting into the view, provide an INSTEAD OF INSERT trigger or an unconditional ON INSERT DO INSTEAD rule.",
            ),
            Self::Update => (
                "update",
                "To enable updating the view, provide an INSTEAD OF UPDATE trigger or an unconditional ON UPDATE DO INSTEAD rule.",
            ),
            Self::Delete => (
                "delete from",
                "To enable deleting from the view, provide an INSTEAD OF DELETE trigger or an unconditional ON DELETE DO INSTEAD rule.",
            ),
        }
    }
}

impl ViewOf {
    pub(super) fn output(&self) -> Vec<OutputColumn> {
        self.columns
            .iter()
            .map(|column| column.output.clone())
            .collect()
    }

    /// Its columns over rows of a member of the table's family.
    pub(super) fn over(&self, table: &BoundTable, member: &BoundTable) -> Result<Vec<Expr>> {
        let places = places_in(table.body(), member.body())?;
        let columns = self.columns.iter();
        let moved = columns.map(|column| moved(&column.expression, &places));
        Ok(moved.collect())
    }

    /// The condition of its rows over those of a member of the table's family.
    pub(super) fn condition(
        &self,
        table: &BoundTable,
        member: &BoundTable,
    ) -> Result<Option<Expr>> {
        let places = places_in(table.body(), member.body())?;
        let condition = self.condition.as_ref();
        Ok(condition.map(|condition| moved(condition, &places)))
    }

    /// The conditions of new rows over those of a member of the table's family.
    fn checks(&self, table: &BoundTable, member: &BoundTable) -> Result<Vec<Named>> {
        all_moved(&self.checks, table, member)
    }

    /// The conditions of rows of the view and of those below, over rows of a member.
    pub(super) fn shown(&self, table: &BoundTable, member: &BoundTable) -> Result<Vec<Named>> {
        all_moved(&self.levels, table, member)
    }

    /// The column of the table that a column of the view is.
    pub(super) fn base(&self, name: &str) -> Result<Option<&str>> {
        let Some(column) = self
            .columns
            .iter()
            .find(|column| column.output.name == name)
        else {
            return Ok(None);
        };
        column.base.as_deref().map(Some).ok_or_else(|| {
            let view = &self.object.name;
            let verb = match self.verb {
                Verb::Insert => "insert into",
                _ => "update",
            };
            let message = format!("cannot {verb} column \"{name}\" of view \"{view}\"");
            let detail =
                "View columns that are not columns of their base relation are not updatable.";
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail)
        })
    }
}

/// The condition of a view, and its name.
type Named = (String, Expr);

fn all_moved(named: &[Named], table: &BoundTable, member: &BoundTable) -> Result<Vec<Named>> {
    let places = places_in(table.body(), member.body())?;
    let named = named.iter();
    let moved = named.map(|(view, condition)| (view.clone(), moved(condition, &places)));
    Ok(moved.collect())
}

/// An expression over rows of a table, over rows whose columns are at other places.
fn moved(expression: &Expr, places: &[usize]) -> Expr {
    let mut moved = expression.clone();
    moved.renumber(&mut |at| places.get(at).copied().unwrap_or(at));
    moved
}

/// Bits of `pg_relation_is_updatable`: rows are deleted; and updated and inserted too.
const DELETED: i32 = 1 << 4;
const CHANGES: i32 = DELETED | (1 << 2) | (1 << 3);

impl Binder<'_> {
    /// The table that a statement changes: itself, or below a view.
    pub(super) fn changed(
        &mut self,
        (schema, name): (Option<&str>, &str),
        (verb, privileges): (Verb, i64),
    ) -> Result<BoundTable> {
        let object = self.names.find(Names::Relations, schema, name).cloned();
        let view = object.and_then(|object| match &object.body {
            Body::View(view) => Some((Arc::clone(&object), view.clone())),
            _ => None,
        });
        let Some((object, view)) = view else {
            let table = self.table(schema, name)?;
            if table.body().materialized.is_some() {
                let message = format!("cannot change materialized view \"{name}\"");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            self.check_access(&table.object, privileges)?;
            return Ok(table);
        };
        self.check_access(&object, privileges)?;
        let select = updatable(&view).map_err(|detail| verb.refused(name, detail))?;
        let oid = object.oid;
        self.views.push(oid);
        let scopes = std::mem::take(&mut self.scopes);
        let lateral = std::mem::take(&mut self.lateral);
        let shared = std::mem::take(&mut self.shared);
        let role = self.role_below(oid, &view);
        let role = std::mem::replace(&mut self.role, role);
        let bound = self.view_of(object, &view, &select, (verb, privileges));
        self.role = role;
        (self.scopes, self.lateral, self.shared) = (scopes, lateral, shared);
        self.views.pop();
        bound
    }

    fn view_of(
        &mut self,
        object: Arc<Object>,
        view: &ViewBody,
        select: &ast::Select,
        change: (Verb, i64),
    ) -> Result<BoundTable> {
        let Some(TableFactor::Table { name, alias, .. }) =
            select.from.first().map(|from| &from.relation)
        else {
            return Err(SqlError::internal("a view of a table"));
        };
        let (schema, name) = object_name(name)?;
        let base = self.changed((schema.as_deref(), &name), change)?;
        let listed = alias.iter().flat_map(|alias| &alias.columns);
        let listed = listed.map(|column| super::ident_text(&column.name));
        let alias = alias
            .as_ref()
            .map_or(name, |alias| super::ident_text(&alias.name));
        let mut scope = Scope::default();
        self.add_member(&mut scope, (&base, &base), &alias)?;
        for (column, name) in scope.columns.iter_mut().zip(listed) {
            column.name = name;
        }
        let (bound, scope) = self.within(scope, |binder| {
            binder.scope().clause = Clause::Select;
            let items = binder.items(&select.projection)?;
            binder.scope().clause = Clause::Where;
            let condition = select.selection.as_ref();
            let condition = condition.map(|tree| binder.condition(tree, "WHERE"));
            Ok((items, condition.transpose()?))
        });
        let (items, own) = bound?;
        change.0.check_scope(&object.name, &scope)?;
        let below = base.view.as_deref();
        let mut levels = below.map_or_else(Vec::new, |view| view.levels.clone());
        let mut checks = below.map_or_else(Vec::new, |view| view.checks.clone());
        if view.option("check_option") == Some("cascaded") {
            checks.clone_from(&levels);
        }
        if let Some(own) = own {
            if view.option("check_option").is_some() {
                checks.push((object.name.clone(), own.clone()));
            }
            levels.push((object.name.clone(), own));
        }
        let conditions: Vec<Expr> = levels.iter().map(|(_, own)| own.clone()).collect();
        let mut columns = Vec::with_capacity(items.len());
        for ((at, item), (name, _)) in (1..).zip(items).zip(&view.columns) {
            let base = match &item.expression {
                Expr::Column(place, _) => base.body().columns.get(*place),
                _ => None,
            };
            columns.push(ViewColumn {
                output: OutputColumn {
                    name: name.clone(),
                    table: object.oid,
                    position: at,
                    ..item.column
                },
                base: base.map(|column| column.name.clone()),
                expression: item.expression,
            });
        }
        let view = ViewOf {
            object,
            columns,
            verb: change.0,
            levels,
            checks,
            condition: (!conditions.is_empty()).then(|| Expr::all(conditions)),
        };
        Ok(BoundTable {
            view: Some(Arc::new(view)),
            ..base
        })
    }

    /// The role whose privileges count for the tables of a view.
    fn role_below(&self, oid: u32, view: &ViewBody) -> u32 {
        let is_on = |value| matches!(value, "true" | "on" | "yes" | "1");
        match view.option("security_invoker").is_some_and(is_on) {
            true => self.names.role,
            false => self.names.catalog.owner(oid),
        }
    }

    /// Refuses the option to check rows of a view that is not changed as a table is.
    pub fn check_option(&mut self, object: &Object) -> Result<()> {
        let Body::View(view) = &object.body else {
            return Ok(());
        };
        if view.option("check_option").is_none() {
            return Ok(());
        }
        let reason = match updatable(view) {
            Err(reason) => Some(reason.to_owned()),
            Ok(select) => {
                let own = Arc::new(object.clone());
                match self.view_of(own, view, &select, (Verb::Insert, 0)) {
                    Err(error) => error.detail.or(Some(error.message)),
                    Ok(table) => table.view.and_then(|view| {
                        let has_column = view.columns.iter().any(|column| column.base.is_some());
                        let reason =
                            "Views that have no updatable columns are not automatically updatable.";
                        (!has_column).then(|| reason.to_owned())
                    }),
                }
            }
        };
        let Some(reason) = reason else {
            return Ok(());
        };
        let message = "WITH CHECK OPTION is supported only on automatically updatable views";
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).hint(reason))
    }

    /// The bits of `pg_relation_is_updatable`: what of a relation, or of its column from 1, can be
    /// changed. Rows of a view without such columns are deleted only.
    pub fn changes(&mut self, oid: Oid, column: Option<usize>) -> i32 {
        let catalog = Arc::clone(&self.names.catalog);
        let object = match (catalog.object(oid), super::system::by_oid(oid)) {
            (Some(object), _) => object,
            (None, Some(relation)) if relation.kind == "r" => return CHANGES,
            _ => return 0,
        };
        let view = match &object.body {
            Body::Table(table) if table.materialized.is_none() => return CHANGES,
            Body::View(view) => view,
            _ => return 0,
        };
        let Ok(select) = updatable(view) else {
            return 0;
        };
        let bound = self.view_of(Arc::clone(object), view, &select, (Verb::Insert, 0));
        let Some(view) = bound.ok().and_then(|table| table.view) else {
            return 0;
        };
        let columns = (1..).zip(&view.columns);
        let mut asked = columns.filter(|(at, _)| column.is_none_or(|wanted| wanted == *at));
        match asked.any(|(_, column)| column.base.is_some()) {
            true => CHANGES,
            false => DELETED,
        }
    }

    /// The rules for changes of a table's member, and those of the views above the table.
    pub(super) fn target_below(
        &mut self,
        (table, member): (&BoundTable, &BoundTable),
    ) -> Result<Arc<Target>> {
        let mut target = self.member_target((table, member))?;
        if let Some(view) = table.view.as_deref().filter(|view| !view.checks.is_empty()) {
            Arc::make_mut(&mut target).views = view.checks(table, member)?;
        }
        Ok(target)
    }

    /// The rows of a view: its query, bound as it was defined.
    pub(super) fn view(
        &mut self,
        oid: u32,
        name: &str,
        view: &crate::catalog::ViewBody,
    ) -> Result<Bound> {
        if self.views.contains(&oid) {
            let message = format!("infinite recursion detected in rules for relation \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
        }
        let parsed = sql_parse::parse_stored(&view.query)?;
        let Some(ast::Statement::Query(query)) = parsed.first().map(|parsed| &*parsed.statement)
        else {
            return Err(SqlError::internal(format!("view \"{name}\" has no query")));
        };
        self.views.push(oid);
        let scopes = std::mem::take(&mut self.scopes);
        let lateral = std::mem::take(&mut self.lateral);
        let shared = std::mem::take(&mut self.shared);
        let role = self.role_below(oid, view);
        let role = std::mem::replace(&mut self.role, role);
        let bound = self.query(query);
        self.role = role;
        (self.scopes, self.lateral, self.shared) = (scopes, lateral, shared);
        self.views.pop();
        let mut bound = bound?;
        for ((column, (name, _)), place) in bound.columns.iter_mut().zip(&view.columns).zip(1..) {
            column.name.clone_from(name);
            (column.table, column.position) = (oid, place);
        }
        Ok(bound)
    }
}

/// The query of a view that is changed as its table is; or the reason why it is not.
fn updatable(view: &ViewBody) -> std::result::Result<ast::Select, &'static str> {
    let broken = "Views with a query that cannot be read are not automatically updatable.";
    let parsed = sql_parse::parse_stored(&view.query).map_err(|_| broken)?;
    let Some(ast::Statement::Query(query)) = parsed.first().map(|parsed| &*parsed.statement) else {
        return Err(broken);
    };
    if query.with.is_some() {
        return Err("Views containing WITH are not automatically updatable.");
    }
    let select = match &*query.body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => {
            return Err(
                "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.",
            );
        }
        _ => {
            let detail = "Views that do not select from a single table or view are not automatically updatable.";
            return Err(detail);
        }
    };
    let has_groups = match &select.group_by {
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let is_table = matches!(select.from.as_slice(),
        [from] if from.joins.is_empty()
            && matches!(&from.relation, TableFactor::Table { args: None, sample: None, .. }));
    match () {
        () if select.distinct.is_some() => {
            Err("Views containing DISTINCT are not automatically updatable.")
        }
        () if has_groups => Err("Views containing GROUP BY are not automatically updatable."),
        () if select.having.is_some() => {
            Err("Views containing HAVING are not automatically updatable.")
        }
        () if query.limit_clause.is_some() || query.fetch.is_some() => {
            Err("Views containing LIMIT or OFFSET are not automatically updatable.")
        }
        () if !is_table => Err(
            "Views that do not select from a single table or view are not automatically updatable.",
        ),
        () => Ok(select.as_ref().copied()),
    }
}
