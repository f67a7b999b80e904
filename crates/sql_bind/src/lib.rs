//! Binding of SQL: names become positions, literals and parameters get types, and statements
//! become plans.
//!
//! | module | job |
//! |---|---|
//! | `scope`, `lookup` | the columns that a part of a query sees, and how they are found by name |
//! | `expression`, `operator`, `function`, `arguments`, `ordered_set`, `subquery` | expressions |
//! | `field` | fields of rows |
//! | `literal`, `lifted`, `coerce`, `data_type` | values and types |
//! | `query`, `recursion`, `lateral`, `view`, `select`, `window`, `order` | queries |
//! | `from`, `source` | the rows that queries read |
//! | `grouping`, `grouping_sets` | groups |
//! | `routine` | functions of users |
//! | `names`, `name_texts` | objects by their names, along the search path; names in texts |
//! | `resolved` | texts that the catalogue keeps, with full names |
//! | `callable`, `standard` | all functions that statements can call |
//! | `system`, `system_rows` | relations of the system: their columns, and in `FROM` |
//! | `table`, `family`, `insert`, `infer`, `change`, `target` | tables and their changes |
//! | `current` | the row that a cursor is at |
//!
//! A binder has a stack of scopes, one for each query that it is in. At run time there is a row for
//! each of them but the innermost, so a column found `n` scopes out is `Outer(n)`.

#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of rows, columns and bytes are far below the limits of both types"
)]
#![allow(
    clippy::single_match_else,
    clippy::match_bool,
    clippy::match_same_arms,
    clippy::match_single_binding,
    clippy::ignored_unit_patterns,
    reason = "a match shows all ways side by side, in the order of the grammar or the manual"
)]
#![allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the parts of a binder are methods of one form, whether or not they can fail"
)]

mod arguments;
mod callable;
mod change;
mod coerce;
mod computed;
mod current;
mod data_type;
mod domain;
mod expression;
mod family;
mod field;
mod from;
mod from_record;
mod function;
mod grouping;
mod grouping_sets;
mod infer;
mod insert;
mod lateral;
mod lifted;
mod literal;
mod locking;
mod lookup;
mod merge;
mod name_texts;
mod names;
mod once;
mod operator;
mod order;
mod ordered_set;
mod query;
mod recursion;
mod resolved;
mod routine;
mod row_place;
mod scope;
mod search;
mod select;
mod source;
mod standard;
mod subquery;
pub mod system;
mod system_rows;
mod table;
mod target;
mod text_forms;
mod view;
mod window;

pub use callable::{domain_violation, functions};
pub use current::{CursorRows, Tracked, not_updatable};
pub use data_type::{TypeName, check_collatable, type_named};
pub use names::{RenamedLabel, SessionNames, parts_of, quoted};
pub use resolved::Resolved;
pub use scope::Scope;
use scope::ScopeColumn;
pub use search::shown;
pub use select::{object_scope, row_scope};
pub use table::no_relation;

use catalog::Object;
use error::{Result, SqlError, SqlState};
use indelible::Database;
use plan::{Expr, Node, OutputColumn, Plan};
use scope::Clause;
use sql_parse::{LineIndex, NESTING_MAX, cut, ident_text, object_name};
use sql_plan::{catalog, plan};
use sql_values::{error, types};
use sqlparser::ast::{SetExpr, Spanned, Statement};
use sqlparser::tokenizer::Span;
use types::{Context, Kind, Type};

/// Turns statements into plans.
pub struct Binder<'b> {
    /// The catalogue as the session sees it.
    pub names: &'b SessionNames,
    database: &'b Database,
    context: Context<'b>,
    places: &'b LineIndex,
    /// Types of the parameters, as far as they are known.
    parameters: Vec<Option<Type>>,
    /// Whether a statement is bound that gets values of parameters; definitions get none.
    takes_parameters: bool,
    /// Literals that are parameters, if the plan is for all statements of a fingerprint.
    lifted: Option<lifted::Lifted<'b>>,
    scopes: Vec<Scope>,
    /// Parts of `FROM` before the one that is being read, which only a lateral one sees.
    lateral: Vec<Scope>,
    /// Whether literals without a type keep none, because a set operation will give them one.
    keeps_unknown: bool,
    /// The clauses that lock rows of the parts of `FROM` that are read.
    locking: Vec<locking::Locking>,
    /// Those of the query that is bound next, from the query around it.
    pushed: Vec<locking::Locking>,
    /// Queries of `WITH` that can be named, the innermost last.
    shared: Vec<query::Named>,
    /// Numbers given to queries of `WITH`.
    shared_count: usize,
    /// Statements of `WITH` that change rows, in their order.
    changes: Vec<Node>,
    /// The rows that cursors are at, where a statement may ask for them.
    cursors: Option<CursorRows<'b>>,
    /// Whether the plan is right only as long as cursors stay where they are.
    is_momentary: bool,
    /// Arguments of the function whose query is bound: its parameters are columns of the
    /// outermost scope.
    routine: Option<usize>,
    /// Tables, views and functions that the statement itself names.
    pub reads: Vec<u32>,
    /// Tables with rows that have been bound.
    tables: std::cell::RefCell<plan::UsedTables>,
    /// Views and functions that are being read, so that one cannot read itself.
    views: Vec<u32>,
    /// The role whose privileges count: that of the session, or the owner of the view that is read.
    role: u32,
    /// The names of the text, if they are asked for.
    log: Option<std::cell::RefCell<resolved::Log>>,
    /// The text that is bound.
    origin: TextOrigin,
    /// Numbers given to values that expressions read several times.
    values: usize,
    /// Calls of functions of users, where they are kept.
    calls: Option<Vec<KeptCall>>,
    depth: usize,
    /// The deepest that the plan goes so far, in these levels: a query of `WITH` counts where it is
    /// named.
    reached: usize,
}

/// A text by the place that it comes from. Those of the catalogue may have what earlier builds have
/// taken, and no statement of today may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextOrigin {
    Statement,
    Catalogue,
    /// Texts that go to the catalogue are new ones of a statement.
    ForCatalogue,
}

/// A call of a function of a user, or a cast to a domain, that is printed, and not run: a column in
/// its place.
#[derive(Debug)]
pub struct KeptCall {
    /// The function, or the type.
    pub function: u32,
    /// Its arguments.
    pub arguments: Vec<Expr>,
}

/// The column that stands for the first call; the next ones follow.
pub const KEPT_CALLS: usize = 1 << 20;

/// A bound change: its plan, and the columns of what it returns.
type Changed = (Node, Option<Vec<OutputColumn>>);

/// The same with its command.
type BoundChange = (Node, Option<Vec<OutputColumn>>, &'static str);

/// A bound query: its plan, and the columns of its rows.
#[derive(Clone, Debug)]
pub struct Bound {
    /// Its plan.
    pub node: Node,
    /// The columns of its rows.
    pub columns: Vec<OutputColumn>,
}

impl<'b> Binder<'b> {
    /// A binder of a statement whose parts are at `places`.
    pub fn new(
        names: &'b SessionNames,
        database: &'b Database,
        context: Context<'b>,
        places: &'b LineIndex,
    ) -> Self {
        Self {
            names,
            database,
            context,
            places,
            parameters: Vec::new(),
            takes_parameters: false,
            lifted: None,
            scopes: Vec::new(),
            lateral: Vec::new(),
            keeps_unknown: false,
            locking: Vec::new(),
            pushed: Vec::new(),
            shared: Vec::new(),
            shared_count: 0,
            changes: Vec::new(),
            cursors: None,
            is_momentary: false,
            routine: None,
            reads: Vec::new(),
            tables: std::cell::RefCell::default(),
            views: Vec::new(),
            role: names.role,
            log: None,
            origin: TextOrigin::Statement,
            values: 0,
            calls: None,
            depth: 0,
            reached: 0,
        }
    }

    /// Reads texts of the catalogue, which may have what earlier builds have taken.
    pub fn read_stored(&mut self) {
        self.origin = TextOrigin::Catalogue;
    }

    /// Reads texts that are new, and held to what statements may have.
    pub fn read_new(&mut self) {
        self.origin = TextOrigin::ForCatalogue;
    }

    /// Whether the part that is bound comes from a text of the catalogue.
    fn is_of_catalogue(&self) -> bool {
        let is_new = self.origin == TextOrigin::ForCatalogue;
        // The query of a new function is the first one that is read.
        self.origin == TextOrigin::Catalogue || self.views.len() > usize::from(is_new)
    }

    /// Keeps calls of functions of users in place of their queries, for a text.
    pub fn keep_calls(&mut self) {
        self.calls = Some(Vec::new());
    }

    /// The calls that were kept.
    pub fn kept_calls(&mut self) -> Vec<KeptCall> {
        self.calls.take().unwrap_or_default()
    }

    /// Declares types of parameters; none leaves a type to the statement.
    pub fn declare(&mut self, types: &[Option<Type>]) {
        self.parameters = types.to_vec();
    }

    /// Notes an object that the statement names, and not one of its views.
    fn note_read(&mut self, oid: u32) {
        if self.views.is_empty() && !self.reads.contains(&oid) {
            self.reads.push(oid);
        }
    }

    /// Lets the statement ask for the rows that cursors are at.
    pub fn with_cursors(&mut self, cursors: CursorRows<'b>) {
        self.cursors = Some(cursors);
    }

    /// The plan of a cursor's query, and the tables whose keys are in its rows.
    pub fn cursor(&mut self, statement: &Statement) -> Result<Option<(Plan, Vec<Tracked>)>> {
        let plan = self.statement(statement)?;
        Ok(plan.map(|mut plan| {
            let tracked = current::track(&mut plan.root);
            (plan, tracked)
        }))
    }

    /// Fails unless the role whose privileges count has a privilege on an object.
    fn check_access(&self, object: &Object, privileges: i64) -> Result<()> {
        self.names.check(self.role, object, privileges)
    }

    /// The plan of a statement that reads or changes rows; none for other statements.
    pub fn statement(&mut self, statement: &Statement) -> Result<Option<Plan>> {
        self.takes_parameters = true;
        let known = self.shared.len();
        let mut statement = statement;
        if let Statement::Query(query) = statement
            && let SetExpr::Insert(inner)
            | SetExpr::Update(inner)
            | SetExpr::Delete(inner)
            | SetExpr::Merge(inner) = &*query.body
        {
            if let Some(with) = &query.with {
                if with.recursive && matches!(inner, Statement::Merge(_)) {
                    let message = "WITH RECURSIVE is not supported for MERGE statement";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                self.with(with)?;
            }
            statement = inner;
        }
        let (root, columns, command) = match statement {
            Statement::Query(query) => {
                let bound = self.query(query)?;
                (bound.node, Some(bound.columns), "SELECT")
            }
            other => match self.change(other)? {
                Some(change) => change,
                None => return Ok(None),
            },
        };
        self.shared.truncate(known);
        let before = std::mem::take(&mut self.changes);
        let writes = command != "SELECT" || !before.is_empty();
        let tables = self.tables.take().of_nodes(before.iter().chain([&root]));
        Ok(Some(Plan {
            before,
            root,
            point: None,
            columns,
            parameters: self.parameter_types()?,
            command,
            writes,
            tables,
            keepers: 0,
            is_momentary: self.is_momentary,
        }))
    }

    /// A statement that changes rows: its node, the columns that it returns, and its command.
    fn change(&mut self, statement: &Statement) -> Result<Option<BoundChange>> {
        let ((node, columns), command) = match statement {
            Statement::Insert(insert) => (self.insert(insert)?, "INSERT"),
            Statement::Update(update) => (self.update(update)?, "UPDATE"),
            Statement::Delete(delete) => (self.delete(delete)?, "DELETE"),
            Statement::Merge(merge) => (self.merge(merge)?, "MERGE"),
            _ => return Ok(None),
        };
        Ok(Some((node, columns, command)))
    }

    /// The types of all parameters.
    fn parameter_types(&self) -> Result<Vec<Type>> {
        if let Some(types) = self.lifted_types() {
            return types;
        }
        let types = (1..).zip(&self.parameters).map(|(number, data_type)| {
            data_type.ok_or_else(|| {
                let message = format!("could not determine data type of parameter ${number}");
                SqlError::new(SqlState::INDETERMINATE_DATATYPE, message)
            })
        });
        types.collect()
    }

    /// An error with the place of a part of the statement.
    fn at(&self, span: Span, error: SqlError) -> SqlError {
        error.at(self.places.start(span))
    }

    /// Goes one level deeper for a part of a statement; fails at the limit.
    fn deeper<R>(&mut self, body: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.deeper_by(1, body)
    }

    fn deeper_by<R>(
        &mut self,
        levels: usize,
        body: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        self.reach(levels)?;
        self.depth += levels;
        let result = body(self);
        self.depth -= levels;
        result
    }

    /// Notes that the plan goes so many levels deeper here.
    fn reach(&mut self, levels: usize) -> Result<()> {
        self.reached = self.reached.max(self.depth + levels);
        if self.depth + levels > 3 * NESTING_MAX {
            return Err(sql_parse::too_deep());
        }
        Ok(())
    }

    /// Calls `body` with another scope as the innermost one.
    fn within<R>(
        &mut self,
        scope: Scope,
        body: impl FnOnce(&mut Self) -> Result<R>,
    ) -> (Result<R>, Scope) {
        self.scopes.push(scope);
        let result = body(self);
        let scope = self.scopes.pop().unwrap_or_default();
        (result, scope)
    }

    /// Binds an expression that reads rows of a scope.
    fn expression_in(
        &mut self,
        scope: Scope,
        clause: Clause,
        expression: &sqlparser::ast::Expr,
    ) -> (Result<Expr>, Scope) {
        self.within(scope, |binder| {
            binder.scope().clause = clause;
            binder.expression(expression)
        })
    }

    /// The innermost scope.
    fn scope(&mut self) -> &mut Scope {
        if self.scopes.is_empty() {
            self.scopes.push(Scope::default());
        }
        let last = self.scopes.len() - 1;
        &mut self.scopes[last]
    }

    /// A condition: its type is `boolean`.
    fn condition(
        &mut self,
        expression: &sqlparser::ast::Expr,
        clause: &'static str,
    ) -> Result<Expr> {
        let bound = self.expression(expression)?;
        let kind = bound.kind();
        if kind != Kind::Bool && kind != Kind::Unknown {
            let message = format!("argument of {clause} must be type boolean, not type {kind}");
            let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
            return Err(self.at(expression.span(), error));
        }
        self.coerce(bound, Kind::Bool.plain())
    }

    /// An expression of the catalogue over the columns of a table.
    pub fn stored(&mut self, text: &str, scope: Scope) -> Result<Expr> {
        let expression = sql_parse::parse_expression(text)?;
        // Its places are not those of the statement.
        let places = LineIndex::default();
        let mut binder = Binder::new(self.names, self.database, self.context, &places);
        binder.calls = self.calls.take();
        if self.origin != TextOrigin::ForCatalogue {
            binder.origin = TextOrigin::Catalogue;
        }
        binder.views.clone_from(&self.views);
        let (bound, _) = binder.expression_in(scope, Clause::Stored, &expression);
        self.calls = binder.calls.take();
        self.tables.get_mut().append(binder.tables.take());
        bound
    }
}

impl Binder<'_> {
    /// Checks that an expression of the catalogue can be bound, as a value of a type if one is
    /// given with the name of its column. Returns the columns that it reads.
    pub fn check_stored(
        &mut self,
        text: &str,
        scope: Scope,
        wanted: Option<(Type, &str)>,
    ) -> Result<Vec<usize>> {
        let bound = self.stored_value(text, scope, wanted)?;
        let mut columns = Vec::new();
        bound.columns(&mut |at| {
            if !columns.contains(&at) {
                columns.push(at);
            }
        });
        Ok(columns)
    }

    /// An expression of the catalogue, as a value of a type if one is given.
    pub fn stored_value(
        &mut self,
        text: &str,
        scope: Scope,
        wanted: Option<(Type, &str)>,
    ) -> Result<Expr> {
        let bound = self.stored(text, scope)?;
        match wanted {
            Some((data_type, name)) => self.assign(bound, data_type, name),
            None => Ok(bound),
        }
    }

    /// Arguments of `EXECUTE`, as values of these types.
    pub fn arguments_of_types(
        &mut self,
        arguments: &[sqlparser::ast::Expr],
        types: &[Type],
    ) -> Result<Vec<Expr>> {
        let pairs = arguments.iter().zip(types);
        let bound = pairs.map(|(tree, data_type)| self.constant(tree, *data_type, "parameter"));
        bound.collect()
    }

    /// A value that reads no row, of the type of what has this name.
    pub fn constant(
        &mut self,
        tree: &sqlparser::ast::Expr,
        data_type: Type,
        name: &str,
    ) -> Result<Expr> {
        let (value, _) = self.expression_in(Scope::default(), Clause::Values, tree);
        self.assign(value?, data_type, name)
    }
}

/// The columns of a plan with these names and types.
fn output_columns<'c>(columns: impl IntoIterator<Item = (&'c str, Type)>) -> Vec<OutputColumn> {
    let columns = columns.into_iter().map(|(name, data_type)| OutputColumn {
        name: name.to_owned(),
        data_type,
        table: 0,
        position: 0,
    });
    columns.collect()
}

/// Columns that read each column of a row.
fn all_columns(types: impl IntoIterator<Item = Type>) -> Vec<Expr> {
    let columns = types.into_iter().enumerate();
    columns
        .map(|(at, data_type)| Expr::Column(at, data_type))
        .collect()
}
