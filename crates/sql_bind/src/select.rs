//! `SELECT`: from `FROM` to the limit, in the order in which PostgreSQL evaluates the clauses.
//!
//! ```text
//! FROM, WHERE, GROUP BY, HAVING, windows, sets, projection, DISTINCT, ORDER BY, LIMIT
//! ```
//!
//! An order by expressions that are not in the list adds them to the projection; another projection
//! takes them away at the end. Rows are locked before the projection, while they are still rows of
//! tables.

use super::locking::Locking;
use super::lookup::ambiguous;
use super::order::EQUALITY;
use super::query::{Bounds, limited, sorted};
use super::scope::{Clause, Scope};
use super::{Binder, Bound, all_columns, ident_text, object_name};
use crate::catalog::{Body, Object};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Distinct, Expr, Filter, JoinedRows, Node, OutputColumn, Project, SortKey};
use crate::types::{Kind, Type};
use sql_parse::{ALL_FIELDS, mark_of};
use sqlparser::ast::{self, Select, SelectItem, SelectItemQualifiedWildcardKind, Spanned};
use sqlparser::tokenizer::Span;

/// The row of `(row).*`, if an item is that.
fn row_of_fields(tree: &ast::Expr) -> Option<ast::Expr> {
    let ast::Expr::CompoundFieldAccess { root, access_chain } = tree else {
        return None;
    };
    let (last, before) = access_chain.split_last()?;
    let ast::AccessExpr::Dot(ast::Expr::Identifier(name)) = last else {
        return None;
    };
    (mark_of(name) == Some(ALL_FIELDS)).then(|| match before {
        [] => (**root).clone(),
        before => ast::Expr::CompoundFieldAccess {
            root: root.clone(),
            access_chain: before.to_vec(),
        },
    })
}

/// An item of the list, with its column.
pub(super) struct Item {
    pub(super) expression: Expr,
    pub(super) column: OutputColumn,
}

/// `DISTINCT`: all columns, or those of `ON`.
enum Distinctness {
    All,
    On(Vec<Expr>),
}

/// The clauses after the projection.
struct Tail {
    keys: Vec<SortKey>,
    distinct: Option<Distinctness>,
    bounds: Bounds,
    /// Columns of the result; those after them are for the order only.
    visible: usize,
    has_locks: bool,
}

/// Most columns of a list, as in `PostgreSQL`: messages count them in two bytes.
const COLUMNS_MAX: usize = 1664;

/// Fails if a list has too many columns.
pub(super) fn check_width(columns: usize) -> Result<()> {
    if columns <= COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("target lists can have at most {COLUMNS_MAX} entries");
    Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
}

impl Binder<'_> {
    /// A `SELECT` with the order, limit and locks of its query, if it is the whole of one.
    pub(super) fn select(
        &mut self,
        select: &Select,
        order: &[ast::OrderByExpr],
        query: Option<&ast::Query>,
        locks: Vec<Locking>,
    ) -> Result<Bound> {
        refuse_other_dialects(select)?;
        let above = std::mem::replace(&mut self.locking, locks);
        let source = self.settled(|binder| binder.from(&select.from));
        let locks = std::mem::replace(&mut self.locking, above);
        let source = source?;
        let (bound, _) = self.within(source.scope, |binder| {
            binder.selected(select, source.node, (order, query, &locks))
        });
        bound
    }

    fn selected(
        &mut self,
        select: &Select,
        mut node: Node,
        (order, query, locks): (&[ast::OrderByExpr], Option<&ast::Query>, &[Locking]),
    ) -> Result<Bound> {
        self.scope().clause = Clause::Where;
        let condition = select.selection.as_ref();
        let condition = condition.map(|tree| self.condition(tree, "WHERE"));
        let condition = condition.transpose()?;
        let joined = (!locks.is_empty()).then(|| JoinedRows::new(&node, condition.clone()));
        if let Some(condition) = condition {
            let input = node;
            node = Filter { input, condition }.into();
        }
        self.scope().clause = Clause::Select;
        self.name_windows(&select.named_window)?;
        let mut items = self.items(&select.projection)?;
        let visible = items.len();
        self.scope().clause = Clause::GroupBy;
        let groups = self.groups(&select.group_by, &items)?;
        self.scope().clause = Clause::Having;
        let having = select
            .having
            .as_ref()
            .map(|tree| self.condition(tree, "HAVING"));
        let mut having = having.transpose()?;
        self.scope().clause = Clause::OrderBy;
        let keys = self.keys(order, &mut items)?;
        let distinct = self.distinct(select.distinct.as_ref(), &mut items, &keys, visible)?;
        let bounds = query.map(|query| self.bounds(query)).transpose()?;
        self.check_rows(locks, select)?;
        let expressions: Vec<&mut Expr> =
            items.iter_mut().map(|item| &mut item.expression).collect();
        node = self.grouped(node, groups, &mut having, expressions)?;
        if let Some(condition) = having {
            node = Filter {
                input: node,
                condition,
            }
            .into();
        }
        node = self.windowed(node, &mut items)?;
        let expressions = items.iter_mut().map(|item| &mut item.expression);
        node = self.with_sets(node, expressions.collect())?;
        if let Some(joined) = joined {
            node = self.locked(node, locks, joined)?;
        }
        let tail = Tail {
            keys,
            distinct,
            bounds: bounds.unwrap_or_default(),
            visible,
            has_locks: !locks.is_empty(),
        };
        Ok(projected(node, items, tail))
    }

    /// The items of a list, with `*` spread.
    pub(super) fn items(&mut self, list: &[SelectItem]) -> Result<Vec<Item>> {
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            match item {
                SelectItem::UnnamedExpr(tree) if let Some(row) = row_of_fields(tree) => {
                    if self.reads_new_text() {
                        let found = "all fields of a row in a text that the catalogue keeps";
                        return Err(SqlError::unsupported(found, "Name the fields."));
                    }
                    let row = self.expression(&row)?;
                    self.spread(&row, &mut items)?;
                }
                SelectItem::UnnamedExpr(tree) => {
                    let name = self.column_name(tree);
                    self.note_item(tree);
                    items.push(self.item(tree, name)?);
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    items.push(self.item(expr, ident_text(alias))?);
                }
                SelectItem::Wildcard(options) => {
                    let scope = self.scope();
                    if scope.tables.is_empty() && scope.columns.is_empty() {
                        let message = "SELECT * with no tables specified is not valid";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                    }
                    items.extend(scope.visible().map(column_item));
                    if let Some(scope) = self.scopes.last() {
                        self.note_star(options.wildcard_token.0.span, scope.visible());
                    }
                }
                SelectItem::QualifiedWildcard(kind, options) => {
                    let end = options.wildcard_token.0.span;
                    self.qualified(kind, end, &mut items)?;
                }
                SelectItem::ExprWithAliases { .. } => {
                    let instead = "Give each expression one alias.";
                    return Err(SqlError::unsupported(
                        "several aliases of an expression",
                        instead,
                    ));
                }
            }
        }
        check_width(items.len())?;
        Ok(items)
    }

    fn item(&mut self, tree: &ast::Expr, name: String) -> Result<Item> {
        let expression = self.expression(tree)?;
        if matches!(&expression, Expr::Array(elements, _) if elements.is_empty())
            && expression.kind() == Kind::Unknown
        {
            let message = "cannot determine type of empty array";
            let error = SqlError::new(SqlState::INDETERMINATE_DATATYPE, message);
            let hint = "Explicitly cast to the desired type, for example ARRAY[]::integer[].";
            return Err(self.at(tree.span(), error.hint(hint)));
        }
        let expression = match expression.kind() {
            Kind::Unknown if self.keeps_unknown => expression,
            _ => self.settle(expression)?,
        };
        let origin = self.origin(&expression);
        let column = OutputColumn {
            name,
            data_type: expression.data_type(),
            table: origin.0,
            position: origin.1,
        };
        Ok(Item { expression, column })
    }

    /// The column of a table that an expression is.
    fn origin(&mut self, expression: &Expr) -> (u32, i16) {
        let Expr::Column(at, _) = expression else {
            return (0, 0);
        };
        let mut columns = self.scope().columns.iter();
        let column =
            columns.find(|column| matches!(column.expression, Expr::Column(own, _) if own == *at));
        column.map_or((0, 0), |column| column.origin)
    }

    /// `table.*`, or all fields of a row.
    fn qualified(
        &mut self,
        kind: &SelectItemQualifiedWildcardKind,
        end: Span,
        items: &mut Vec<Item>,
    ) -> Result<()> {
        let (name, start) = match kind {
            SelectItemQualifiedWildcardKind::ObjectName(written) => {
                let (schema, name) = object_name(written)?;
                let is_common = self.scope().is_common(&name);
                let name = match schema {
                    Some(schema) => match self.scope().alias_of(&schema, &name) {
                        Some(alias) => alias.to_owned(),
                        None => return Err(self.at(written.span(), self.no_table(&name))),
                    },
                    None if is_common => return Err(self.at(written.span(), ambiguous(&name))),
                    None => name,
                };
                (name, written.span())
            }
            SelectItemQualifiedWildcardKind::Expr(tree) => {
                let row = self.expression(tree)?;
                return self.spread(&row, items);
            }
        };
        if !self.scope().tables.iter().any(|table| table.alias == name) {
            if self.find_column(None, &name)?.is_some() {
                let row = self.column(None, &name, start)?;
                return self.spread(&row, items);
            }
            let message = format!("missing FROM-clause entry for table \"{name}\"");
            return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
        }
        let columns = self.scope().columns.iter();
        let columns = columns.filter(|column| column.table.as_deref() == Some(name.as_str()));
        items.extend(columns.map(column_item));
        if let Some(scope) = self.scopes.last() {
            let columns = scope.columns.iter();
            let columns = columns.filter(|column| column.table.as_deref() == Some(name.as_str()));
            self.note_star(start.union(&end), columns);
        }
        Ok(())
    }

    fn spread(&mut self, row: &Expr, items: &mut Vec<Item>) -> Result<()> {
        let shape = match (row, row.kind()) {
            (row, Kind::Record) => row.fields(),
            (_, Kind::Composite(oid)) => self.context.names.row_shape(oid),
            _ => None,
        };
        let shape = shape.ok_or_else(|| {
            let message = "row expansion via \"*\" is not supported here";
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        })?;
        for (at, (name, data_type)) in shape.names.iter().zip(&shape.types).enumerate() {
            let expression = Expr::Field(Box::new(row.clone()), at, *data_type);
            let column = OutputColumn {
                name: name.to_string(),
                data_type: *data_type,
                table: 0,
                position: 0,
            };
            items.push(Item { expression, column });
        }
        Ok(())
    }

    /// The keys of the order as columns of the projection, to which other expressions are added.
    fn keys(&mut self, order: &[ast::OrderByExpr], items: &mut Vec<Item>) -> Result<Vec<SortKey>> {
        let columns: Vec<OutputColumn> = items.iter().map(|item| item.column.clone()).collect();
        let mut keys = Vec::with_capacity(order.len());
        for key in order {
            let at = match self.output_column(&key.expr, &columns, same_in(items))? {
                Some(at) => at,
                None => {
                    let expression = self.expression(&key.expr)?;
                    let expression = self.settle(expression)?;
                    place_of(expression, items)
                }
            };
            let column = Expr::Column(at, items[at].expression.data_type());
            let key = super::order::sort_key(column, &key.options);
            keys.push(key?);
        }
        Ok(keys)
    }

    /// `DISTINCT`: none, all columns, or those of `ON`.
    fn distinct(
        &mut self,
        distinct: Option<&ast::Distinct>,
        items: &mut Vec<Item>,
        keys: &[SortKey],
        visible: usize,
    ) -> Result<Option<Distinctness>> {
        let on = match distinct {
            None | Some(ast::Distinct::All) => return Ok(None),
            Some(ast::Distinct::Distinct) if visible == 0 => {
                let message = "syntax error: SELECT DISTINCT has no columns";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            Some(ast::Distinct::Distinct) => {
                if items.len() > visible {
                    let message =
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                    return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
                }
                let kinds = items.iter().map(|item| item.expression.kind());
                self.compared(kinds, EQUALITY)?;
                return Ok(Some(Distinctness::All));
            }
            Some(ast::Distinct::On(on)) => on,
        };
        let columns: Vec<OutputColumn> = items.iter().map(|item| item.column.clone()).collect();
        let mut places = Vec::with_capacity(on.len());
        for tree in on {
            let at = match self.output_column(tree, &columns[..visible], same_in(items))? {
                Some(at) => at,
                None => {
                    let expression = self.expression(tree)?;
                    let expression = self.settle(expression)?;
                    place_of(expression, items)
                }
            };
            self.compared([items[at].expression.kind()], EQUALITY)?;
            if !places.contains(&at) {
                places.push(at);
            }
        }
        let leading = keys.iter().take(places.len());
        let is_led = leading
            .clone()
            .all(|key| matches!(key.expression, Expr::Column(at, _) if places.contains(&at)));
        if !is_led {
            let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        let on = places
            .iter()
            .map(|at| Expr::Column(*at, items[*at].expression.data_type()));
        Ok(Some(Distinctness::On(on.collect())))
    }

    /// Functions that give sets get a projection of their own below the expressions with them.
    pub(super) fn with_sets(
        &mut self,
        mut node: Node,
        mut expressions: Vec<&mut Expr>,
    ) -> Result<Node> {
        loop {
            let mut sets: Vec<Expr> = Vec::new();
            let width = node.width();
            for expression in &mut expressions {
                expression.walk(0, &mut |part, depth| {
                    let Expr::Call(call) = part else {
                        return Ok(true);
                    };
                    if depth > 0 || !call.function.returns_set() {
                        return Ok(true);
                    }
                    // The innermost ones come first.
                    let nested = call.arguments.iter().any(|argument| {
                        argument.any(|part, depth| {
                            depth == 0
                                && matches!(part, Expr::Call(call) if call.function.returns_set())
                        })
                    });
                    if nested {
                        return Ok(true);
                    }
                    let data_type = call.data_type;
                    let known = sets.iter().position(|set| set.is_same(part));
                    let at = known.unwrap_or_else(|| {
                        sets.push(part.clone());
                        sets.len() - 1
                    });
                    *part = Expr::Column(width + at, data_type);
                    Ok(false)
                })?;
            }
            if sets.is_empty() {
                return Ok(node);
            }
            let types = self.node_types(&node);
            let mut columns = all_columns(types);
            columns.extend(sets);
            node = Project {
                input: node,
                expressions: columns,
                has_sets: true,
            }
            .into();
        }
    }

    /// Placeholder types of a node's columns: only their positions matter where rows are passed on.
    pub(super) fn node_types(&self, node: &Node) -> Vec<Type> {
        vec![Kind::Unknown.plain(); node.width()]
    }
}

/// Whether two items have the same expression.
fn same_in(items: &[Item]) -> impl Fn(usize, usize) -> bool {
    move |one, other| items[one].expression.is_same(&items[other].expression)
}

/// Adds the columns of `DISTINCT ON` that an order does not begin with.
fn lead_by(keys: &mut Vec<SortKey>, on: &[Expr]) {
    let leads = on.len().min(keys.len());
    for column in on {
        let leading = keys.iter().take(on.len());
        if !leading
            .map(|key| &key.expression)
            .any(|key| key.is_same(column))
        {
            let key = SortKey {
                expression: column.clone(),
                descends: false,
                nulls_first: false,
            };
            keys.insert(leads, key);
        }
    }
}

/// The projection, and all that comes after it.
fn projected(mut node: Node, items: Vec<Item>, tail: Tail) -> Bound {
    let keys = tail.keys;
    let types: Vec<Type> = items
        .iter()
        .map(|item| item.expression.data_type())
        .collect();
    let (expressions, mut columns): (Vec<Expr>, Vec<OutputColumn>) = items
        .into_iter()
        .map(|item| (item.expression, item.column))
        .unzip();
    if tail.has_locks {
        // Rows are locked in their order, so that waits for them come in that order too.
        node = lock_after_sort(node, &keys, &expressions);
    }
    let has_sets = false;
    node = Project {
        input: node,
        expressions,
        has_sets,
    }
    .into();
    node = match tail.distinct {
        None if tail.has_locks => node,
        None => sorted(node, keys.clone(), &tail.bounds),
        Some(Distinctness::All) => {
            let input = node;
            let distinct = Distinct { input, on: None };
            sorted(distinct.into(), keys.clone(), &tail.bounds)
        }
        Some(Distinctness::On(on)) => {
            let mut leading = keys.clone();
            lead_by(&mut leading, &on);
            let input = sorted(node, leading, &Bounds::default());
            let on = Some(on);
            Distinct { input, on }.into()
        }
    };
    node = limited(node, keys, tail.bounds);
    if columns.len() > tail.visible {
        let expressions = all_columns(types.into_iter().take(tail.visible));
        node = Project {
            input: node,
            expressions,
            has_sets,
        }
        .into();
        columns.truncate(tail.visible);
    }
    Bound { node, columns }
}

/// Puts the lock of a plan above the sort of its rows.
fn lock_after_sort(node: Node, keys: &[SortKey], expressions: &[Expr]) -> Node {
    let Node::Lock(lock) = node else {
        return node;
    };
    let mut lock = std::sync::Arc::unwrap_or_clone(lock);
    let by_row = keys.iter().map(|key| SortKey {
        expression: match key.expression {
            Expr::Column(at, _) => expressions[at].clone(),
            ref other => other.clone(),
        },
        ..key.clone()
    });
    lock.input = sorted(lock.input, by_row.collect(), &Bounds::default());
    lock.into()
}

/// The place of an expression in the list, to which it is added if it is not there.
fn place_of(expression: Expr, items: &mut Vec<Item>) -> usize {
    let known = items
        .iter()
        .position(|item| item.expression.is_same(&expression));
    known.unwrap_or_else(|| {
        let column = OutputColumn {
            name: String::new(),
            data_type: expression.data_type(),
            table: 0,
            position: 0,
        };
        items.push(Item { expression, column });
        items.len() - 1
    })
}

fn column_item(column: &super::ScopeColumn) -> Item {
    Item {
        expression: column.expression.clone(),
        column: OutputColumn {
            name: column.name.clone(),
            data_type: column.expression.data_type(),
            table: column.origin.0,
            position: column.origin.1,
        },
    }
}

/// Clauses that the parser knows from other dialects.
fn refuse_other_dialects(select: &Select) -> Result<()> {
    // A statement of its own has been told from a query before.
    if select.into.is_some() {
        let message = "SELECT ... INTO is not allowed here";
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    }
    let found = match () {
        () if select.top.is_some() => "TOP",
        () if select.qualify.is_some() => "QUALIFY",
        () if select.prewhere.is_some() => "PREWHERE",
        () if !select.lateral_views.is_empty() => "LATERAL VIEW",
        () if !select.connect_by.is_empty() => "CONNECT BY",
        () => return Ok(()),
    };
    let instead = match found {
        "TOP" => "Use LIMIT.",
        "CONNECT BY" => "Use WITH RECURSIVE.",
        _ => "Use a query in FROM.",
    };
    Err(SqlError::unsupported(found, instead))
}

/// The rows of a scope, for the expressions of the catalogue.
pub fn row_scope(table: &str, columns: impl IntoIterator<Item = (String, Type)>) -> Result<Scope> {
    let mut scope = Scope::default();
    let columns = columns
        .into_iter()
        .map(|(name, data_type)| (name, data_type, (0, 0)));
    scope.add_table(table, columns)?;
    Ok(scope)
}

/// The scope of the texts of an object: the columns of a table, the value of a domain, or nothing.
pub fn object_scope(object: &Object) -> Result<Scope> {
    let columns = match &object.body {
        Body::Domain(domain) => vec![("value".to_owned(), domain.base)],
        Body::Table(table) => {
            let columns = table.columns.iter();
            columns
                .map(|one| (one.name.clone(), one.data_type))
                .collect()
        }
        _ => Vec::new(),
    };
    row_scope(&object.name, columns)
}
