//! The description of a plan, for `EXPLAIN`: names of nodes, conditions and numbers of rows as
//! PostgreSQL shows them.
//!
//! Projections are not nodes there, and conditions belong to the node whose rows they are tested
//! on, so both are merged into the node below them. There are no costs: the planner compares
//! numbers of rows.

use super::access;
use super::counters::{Counters, Report, Work};
use super::estimate::estimate;
use super::expression::Expr;
use super::modify::{Change, Modify};
use super::node::{
    Access, Aggregate, AggregateCall, Counted, Join, JoinKind, JoinMethod, KeyRange, Node, Nulls,
    OverWindow, Scan, SetKind, SetOperation, Shared, Source, System, Way, Window,
};
use crate::catalog::{Body, Catalog, Rule};
use crate::print::quoted;
use crate::types::{Context, Datum};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of the longest name of a column of a query of `WITH`.
const NAME_BYTES_MAX: usize = 200;

/// A node as it is shown.
#[derive(Debug, Default)]
pub struct Explained {
    /// The kind of node, as in JSON.
    pub kind: String,
    /// The words after the kind in a text.
    pub about: String,
    /// Names and values of further lines.
    pub fields: Vec<(&'static str, String)>,
    /// The name of a plan inside of an expression, or of a part.
    pub label: Option<String>,
    /// The rows that the planner expects.
    pub rows: f64,
    /// Names of its columns.
    pub names: Vec<String>,
    /// The nodes below it.
    pub inputs: Vec<Explained>,
    /// The memory and files that it took, if it was run and has any.
    pub report: Option<Report>,
    pub(super) counters: Option<Arc<Counters>>,
}

impl Explained {
    /// The work of the node.
    pub fn work(&self) -> ShownWork {
        match &self.counters {
            None => ShownWork::NotCounted,
            Some(counters) => counters.work().map_or(ShownWork::None, ShownWork::Some),
        }
    }
}

/// What a node has done.
#[derive(Clone, Copy, Debug)]
pub enum ShownWork {
    /// The plan was not run.
    NotCounted,
    /// Nobody has asked the node for rows.
    None,
    /// It was run, and has done this.
    Some(Work),
}

/// Describes plans.
pub struct Explainer<'e> {
    catalog: &'e Catalog,
    pub(super) context: Context<'e>,
    /// Values of parameters, as far as they are known.
    pub(super) values: &'e [Datum],
    /// Names of the rows of the queries around, the next one last.
    pub(super) outer: Vec<Vec<String>>,
    /// Queries of the node that is being described.
    pub(super) subplans: Vec<Explained>,
    subplan_count: usize,
    /// Names of the columns of queries of `WITH` that are described already, at their first use.
    queries: BTreeMap<usize, Vec<String>>,
}

impl<'e> Explainer<'e> {
    /// A description that reads names from the catalogue and values as far as they are known.
    pub fn new(catalog: &'e Catalog, context: Context<'e>, values: &'e [Datum]) -> Self {
        Self {
            catalog,
            context,
            values,
            outer: Vec::new(),
            subplans: Vec::new(),
            subplan_count: 0,
            queries: BTreeMap::new(),
        }
    }

    /// A query of `WITH`, whose plan stands where it is met first.
    fn query(&mut self, query: &Shared) -> Explained {
        if let Some(names) = self.queries.get(&query.number) {
            return Explained {
                kind: "CTE Scan".to_owned(),
                names: names.clone(),
                ..Explained::default()
            };
        }
        let mut input = self.describe(&query.node);
        // Names are expressions over those of the inputs, and would grow with each query.
        for (at, name) in input.names.iter_mut().enumerate() {
            if name.len() > NAME_BYTES_MAX {
                *name = format!("column{}", at + 1);
            }
        }
        self.queries.insert(query.number, input.names.clone());
        input.label = Some("CTE".to_owned());
        above("CTE Scan", input.names.clone(), input)
    }

    pub(super) fn next_subplan(&mut self) -> usize {
        self.subplan_count += 1;
        self.subplan_count
    }

    /// The description of a plan.
    pub fn describe(&mut self, node: &Node) -> Explained {
        let around = std::mem::take(&mut self.subplans);
        let mut explained = self.node(node);
        explained.inputs.append(&mut self.subplans);
        self.subplans = around;
        explained.rows = estimate(node);
        explained
    }

    /// A node with the memory and the files of its last run.
    fn reported(&mut self, plan: &Counted) -> Explained {
        let mut explained = self.describe(&plan.input);
        let report = plan.counters.report();
        match report {
            // The table is a node of its own.
            Some(Report::Hash { .. }) if explained.inputs.len() > 1 => {
                explained.inputs[1].report = report;
            }
            Some(_) => explained.report = report,
            None => {}
        }
        explained
    }

    fn node(&mut self, node: &Node) -> Explained {
        match node {
            Node::Counted(plan) => Explained {
                counters: Some(Arc::clone(&plan.counters)),
                ..self.reported(plan)
            },
            Node::Scan(scan) => self.scan(scan),
            Node::System(system) => self.system(system),
            Node::Filter(plan) => {
                let mut input = self.describe(&plan.input);
                let condition = self.text(&plan.condition, &input.names);
                input.fields.push(("Filter", condition));
                input
            }
            Node::Project(plan) => {
                let input = self.describe(&plan.input);
                let names = self.list(&plan.expressions, &input.names);
                if plan.has_sets {
                    return above("ProjectSet", names, input);
                }
                Explained { names, ..input }
            }
            Node::Values(_) | Node::Functions(_) | Node::Working(_) => self.source(node),
            Node::Join(join) => self.join(join),
            Node::Aggregate(plan) => self.aggregate(plan),
            Node::Window(plan) => self.window(plan),
            Node::Sort(plan) => {
                let input = self.describe(&plan.input);
                let order = self.order(&plan.keys, &input.names);
                let way = plan.presorted.as_ref().map_or("", |_| "Incremental ");
                let kind = format!("{way}Sort");
                with("Sort Key", order, above(&kind, input.names.clone(), input))
            }
            Node::Limit(plan) => {
                let input = self.describe(&plan.input);
                above("Limit", input.names.clone(), input)
            }
            Node::Distinct(plan) => {
                let input = self.describe(&plan.input);
                if plan.on.is_some() {
                    return above("Unique", input.names.clone(), input);
                }
                let keys = input.names.join(", ");
                with(
                    "Group Key",
                    keys,
                    above("HashAggregate", input.names.clone(), input),
                )
            }
            Node::SetOperation(plan) => self.set_operation(plan),
            Node::Shared(plan) => self.query(plan),
            Node::Recursive(plan) => {
                let (start, step) = (self.describe(&plan.start), self.describe(&plan.step));
                let mut explained = above("Recursive Union", start.names.clone(), start);
                explained.inputs.push(step);
                explained
            }
            Node::Lock(plan) => {
                let input = self.describe(&plan.input);
                above("LockRows", input.names.clone(), input)
            }
            Node::Modify(plan) => self.modify(plan),
        }
    }

    /// A node that makes rows of its own.
    fn source(&mut self, node: &Node) -> Explained {
        match node {
            Node::Values(plan) => {
                let (kind, about) = match plan.rows.len() {
                    0 | 1 => ("Result", ""),
                    _ => ("Values Scan", " on \"*VALUES*\""),
                };
                let names = (1..=plan.width).map(|at| format!("column{at}"));
                Explained {
                    about: about.to_owned(),
                    ..leaf(kind, names.collect())
                }
            }
            Node::Functions(plan) => {
                let calls = self.list(&plan.calls, &[]);
                let name = plan.calls.first().map_or("", |call| match call {
                    Expr::Call(call) => call.function.name,
                    _ => "",
                });
                let names = (0..node.width()).map(|_| name.to_owned());
                Explained {
                    about: format!(" on {name}"),
                    fields: vec![("Function Call", calls.join(", "))],
                    ..leaf("Function Scan", names.collect())
                }
            }
            Node::Working(plan) => {
                let names = (1..=plan.types.len()).map(|at| format!("column{at}"));
                leaf("WorkTable Scan", names.collect())
            }
            _ => Explained::default(),
        }
    }

    fn modify(&mut self, plan: &Modify) -> Explained {
        let input = self.describe(&plan.input);
        let kind = match plan.change {
            Change::Insert(_) => "Insert",
            Change::Update { .. } => "Update",
            Change::Delete { .. } => "Delete",
            Change::Merge(_) => "Merge",
        };
        let names = match &plan.returning {
            Some(returning) => {
                let mut row = self.columns(&plan.table.source);
                row.extend(input.names.iter().skip(row.len()).cloned());
                self.list(returning, &row)
            }
            None => Vec::new(),
        };
        let mut about = format!(" on {}", quoted(&plan.table.source.name));
        if let Some(alias) = alias_below(&plan.input, &plan.table.source) {
            about = format!("{about} {}", quoted(alias));
        }
        Explained {
            about,
            ..above(kind, names, input)
        }
    }

    /// Names of a table's columns, the hidden number included. Hidden columns of indexes have the
    /// texts of their values.
    fn columns(&mut self, source: &Source) -> Vec<String> {
        let mut names: Vec<String> = match self.catalog.object(source.oid).map(|one| &one.body) {
            Some(Body::Table(table)) => {
                let columns = table.columns.iter();
                columns.map(|column| column.name.clone()).collect()
            }
            _ => {
                let columns = source.table.definition().columns.into_iter();
                columns.map(|column| column.name).collect()
            }
        };
        names.resize(source.width(), "row".to_owned());
        for key in source.computed.iter().flat_map(|index| &index.keys) {
            names[key.column] = self.text(&key.value, &names);
        }
        names
    }

    /// The name of an index of a table, or of its primary key.
    fn index_name(&self, source: &Source, physical: Option<&str>) -> String {
        let body = self.catalog.object(source.oid).map(|one| &one.body);
        let Some(Body::Table(table)) = body else {
            return physical.unwrap_or("primary").to_owned();
        };
        let found = match physical {
            None => table.constraints.iter().find_map(|constraint| {
                matches!(constraint.rule, Rule::Primary { .. }).then_some(&constraint.name)
            }),
            Some(_) => {
                let mut indexes = table.indexes.iter();
                let index = indexes.find(|index| index.physical.as_deref() == physical);
                index.map(|index| &index.name)
            }
        };
        found.cloned().unwrap_or_else(|| "primary".to_owned())
    }

    /// The index of an access, and the condition that it ensures.
    fn access<'a>(
        &mut self,
        source: &Source,
        access: &'a Access,
        names: &[String],
    ) -> (Option<&'a Option<String>>, Option<String>) {
        match access {
            Access::All { .. } | Access::AnyOf(_) => (None, None),
            Access::Range(range) => {
                let condition = self.range(source, range, names);
                (Some(&range.index), Some(condition))
            }
            Access::Keys { index, keys } => {
                let columns = key_columns(source, index.as_deref());
                let keys = keys.iter().map(|key| self.equalities(&columns, key, names));
                let keys: Vec<String> = keys.map(|key| key.join(" AND ")).collect();
                (Some(index), Some(format!("({})", keys.join(") OR ("))))
            }
            Access::Elements {
                index,
                prefix,
                array,
            } => {
                let columns = key_columns(source, index.as_deref());
                let mut parts = self.equalities(&columns, prefix, names);
                let next = columns.get(prefix.len()).and_then(|at| names.get(*at));
                let next = next.map_or("?", String::as_str);
                let array = self.text(array, names);
                parts.push(format!("({next} = ANY ({array}))"));
                (Some(index), Some(all_of(parts)))
            }
        }
    }

    /// A scan by several ways, as PostgreSQL shows it.
    fn any_of(&mut self, scan: &Scan, ways: &[Way], names: Vec<String>) -> Explained {
        let source = &scan.source;
        let each = ways.iter().map(|way| {
            let (index, condition) = self.access(source, &way.access, &names);
            let index = index.and_then(Option::as_deref);
            let about = format!(" on {}", self.index_name(source, index));
            Explained {
                about,
                fields: condition
                    .into_iter()
                    .map(|one| ("Index Cond", one))
                    .collect(),
                rows: estimate(&access::alone(scan, way).into()),
                ..leaf("Bitmap Index Scan", Vec::new())
            }
        });
        let either = Explained {
            inputs: each.collect(),
            ..leaf("BitmapOr", Vec::new())
        };
        let branches = ways.iter().map(|way| way.condition.clone());
        let mut fields = vec![(
            "Recheck Cond",
            self.text(&Expr::Or(branches.collect()), &names),
        )];
        if let Some(condition) = &scan.condition {
            fields.push(("Filter", self.text(condition, &names)));
        }
        Explained {
            about: format!(" on {}", scan_name(scan)),
            fields,
            inputs: vec![either],
            ..leaf("Bitmap Heap Scan", names)
        }
    }

    fn scan(&mut self, scan: &Scan) -> Explained {
        let source = &scan.source;
        let names = self.columns(source);
        if let Access::AnyOf(ways) = &scan.access {
            return self.any_of(scan, ways, names);
        }
        let (index, condition) = self.access(source, &scan.access, &names);
        let is_backward = match &scan.access {
            Access::All { backward } => *backward,
            Access::Range(range) => range.backward,
            _ => false,
        };
        let name = scan_name(scan);
        let mut explained = match index {
            None => Explained {
                about: format!(" on {name}"),
                ..leaf("Seq Scan", names)
            },
            Some(index) => {
                let index = self.index_name(source, index.as_deref());
                Explained {
                    about: format!(" using {index} on {name}"),
                    ..leaf("Index Scan", names)
                }
            }
        };
        if is_backward {
            explained.about.insert_str(0, " Backward");
        }
        if let Some(condition) = condition.filter(|condition| !condition.is_empty()) {
            explained.fields.push(("Index Cond", condition));
        }
        if let Some(condition) = &scan.condition {
            let condition = self.text(condition, &explained.names);
            explained.fields.push(("Filter", condition));
        }
        explained
    }

    fn system(&mut self, system: &System) -> Explained {
        let columns = system.columns.iter();
        let names: Vec<String> = columns.map(|(name, _)| (*name).to_owned()).collect();
        let mut explained = Explained {
            about: format!(" on {}", system.name),
            ..leaf("Seq Scan", names)
        };
        if let Some((at, value)) = &system.key {
            let key = self.equalities(&[*at], std::slice::from_ref(value), &explained.names);
            explained.fields.push(("Index Cond", key.join(" AND ")));
        }
        if let Some(condition) = &system.condition {
            let condition = self.text(condition, &explained.names);
            explained.fields.push(("Filter", condition));
        }
        explained
    }

    fn equalities(&mut self, columns: &[usize], key: &[Expr], names: &[String]) -> Vec<String> {
        let pairs = columns.iter().zip(key);
        pairs
            .map(|(at, value)| {
                let name = names.get(*at).map_or("?", String::as_str);
                format!("({name} = {})", self.text(value, names))
            })
            .collect()
    }

    fn range(&mut self, source: &Source, range: &KeyRange, names: &[String]) -> String {
        let columns = key_columns(source, range.index.as_deref());
        let mut parts = self.equalities(&columns, &range.prefix, names);
        let next = columns
            .get(range.prefix.len())
            .and_then(|at| names.get(*at));
        let next = next.map_or("?", String::as_str);
        for (end, sign) in [(&range.low, ">"), (&range.high, "<")] {
            if let Some(end) = end {
                let included = if end.is_included { "=" } else { "" };
                let value = self.text(&end.value, names);
                parts.push(format!("({next} {sign}{included} {value})"));
            }
        }
        if range.nulls == Nulls::Only {
            parts.push(format!("({next} IS NULL)"));
        }
        if let Some(pattern) = &range.pattern {
            parts.push(format!("({next} ~~ {})", self.text(pattern, names)));
        }
        all_of(parts)
    }

    fn join(&mut self, join: &Join) -> Explained {
        let left = self.describe(&join.left);
        let is_lateral = matches!(join.method, JoinMethod::Lateral);
        if is_lateral {
            self.outer.push(left.names.clone());
        }
        let mut right = self.describe(&join.right);
        if is_lateral {
            self.outer.pop();
        }
        let word = match join.kind {
            JoinKind::Inner => "",
            JoinKind::Left => " Left",
            JoinKind::Right => " Right",
            JoinKind::Full => " Full",
            JoinKind::Semi => " Semi",
            JoinKind::Anti => " Anti",
        };
        let mut both = left.names.clone();
        both.extend(right.names.iter().cloned());
        let mut fields = Vec::new();
        let kind = match &join.method {
            JoinMethod::Hash {
                left: ones,
                right: others,
                ..
            } => {
                let ones = self.list(ones, &left.names);
                let others = self.list(others, &right.names);
                let pairs = ones.iter().zip(&others);
                let pairs: Vec<String> = pairs
                    .map(|(one, other)| format!("({one} = {other})"))
                    .collect();
                fields.push(("Hash Cond", pairs.join(" AND ")));
                right = Explained {
                    rows: right.rows,
                    counters: right.counters.clone(),
                    ..above("Hash", right.names.clone(), right)
                };
                format!("Hash{word} Join")
            }
            _ if word.is_empty() => "Nested Loop".to_owned(),
            _ => format!("Nested Loop{word} Join"),
        };
        if let Some(condition) = &join.condition {
            fields.push(("Join Filter", self.text(condition, &both)));
        }
        let names = match join.kind {
            JoinKind::Semi | JoinKind::Anti => left.names.clone(),
            _ => both,
        };
        Explained {
            fields,
            inputs: vec![left, right],
            ..leaf(&kind, names)
        }
    }

    fn aggregate(&mut self, plan: &Aggregate) -> Explained {
        let input = self.describe(&plan.input);
        let keys = self.list(&plan.keys, &input.names);
        let calls = plan.calls.iter().map(|call| {
            let arguments = self.list(&call.arguments, &input.names).join(", ");
            let distinct = if call.is_distinct { "DISTINCT " } else { "" };
            let arguments = if call.arguments.is_empty() {
                "*"
            } else {
                &arguments
            };
            format!("{}({distinct}{arguments})", call.function.function.name)
        });
        let names = keys.iter().cloned().chain(calls).collect();
        if keys.is_empty() {
            return above("Aggregate", names, input);
        }
        let keeps_rows = plan.calls.iter().any(AggregateCall::keeps_rows);
        let kind = match plan.is_ordered || keeps_rows {
            true => "GroupAggregate",
            false => "HashAggregate",
        };
        with("Group Key", keys.join(", "), above(kind, names, input))
    }

    fn window(&mut self, plan: &Window) -> Explained {
        let input = self.describe(&plan.input);
        let mut names = input.names.clone();
        for call in &plan.calls {
            let arguments = self.list(&call.arguments, &input.names).join(", ");
            let name = match &call.function {
                OverWindow::Aggregate(aggregate) => aggregate.function.name,
                OverWindow::Function(_) => "window",
            };
            names.push(format!("{name}({arguments}) OVER (?)"));
        }
        let about = plan.stop.as_ref().map(|stop| {
            let name = &names[plan.input.width() + stop.call];
            format!("({name} <= {})", self.text(&stop.last, &names))
        });
        let mut explained = above("WindowAgg", names, input);
        let about = about.map(|about| ("Run Condition", about));
        explained.fields.extend(about);
        explained
    }

    fn set_operation(&mut self, plan: &SetOperation) -> Explained {
        let (left, right) = (self.describe(&plan.left), self.describe(&plan.right));
        let names = left.names.clone();
        let mut both = above("Append", names.clone(), left);
        both.rows += right.rows;
        both.inputs.push(right);
        let all = if plan.all { " All" } else { "" };
        if let Some(order) = &plan.order {
            let order = self.order(order, &names);
            "Merge Append".clone_into(&mut both.kind);
            return with("Sort Key", order, both);
        }
        match (plan.kind, plan.all) {
            (SetKind::Union, true) => both,
            (SetKind::Union, false) => {
                let keys = names.join(", ");
                with("Group Key", keys, above("HashAggregate", names, both))
            }
            (SetKind::Intersect, _) => Explained {
                about: format!(" Intersect{all}"),
                ..above("SetOp", names, both)
            },
            (SetKind::Except, _) => Explained {
                about: format!(" Except{all}"),
                ..above("SetOp", names, both)
            },
        }
    }
}

/// The name of a table, and the one that it has in the statement.
fn scan_name(scan: &Scan) -> String {
    let name = quoted(&scan.source.name);
    match &scan.alias {
        Some(alias) => format!("{name} {}", quoted(alias)),
        None => name,
    }
}

/// All of some conditions, as PostgreSQL writes them.
fn all_of(mut parts: Vec<String>) -> String {
    match parts.len() {
        0 => String::new(),
        1 => parts.remove(0),
        _ => format!("({})", parts.join(" AND ")),
    }
}

/// Positions of the columns of an index, or of the primary key.
fn key_columns(source: &Source, index: Option<&str>) -> Vec<usize> {
    match index {
        None => source.key.to_vec(),
        Some(name) => {
            let definition = source.table.definition();
            let index = definition.index(name);
            index.map(|index| index.columns.clone()).unwrap_or_default()
        }
    }
}

fn leaf(kind: &str, names: Vec<String>) -> Explained {
    Explained {
        kind: kind.to_owned(),
        names,
        ..Explained::default()
    }
}

/// A node over one input.
fn above(kind: &str, names: Vec<String>, input: Explained) -> Explained {
    Explained {
        rows: input.rows,
        inputs: vec![input],
        ..leaf(kind, names)
    }
}

fn with(field: &'static str, value: String, mut explained: Explained) -> Explained {
    explained.fields.push((field, value));
    explained
}

/// The name by which a statement knows the table that it changes, if that is another one.
fn alias_below<'n>(node: &'n Node, table: &Source) -> Option<&'n str> {
    match node {
        Node::Scan(scan) if scan.source.oid == table.oid => scan.alias.as_deref(),
        Node::Filter(plan) => alias_below(&plan.input, table),
        Node::Project(plan) => alias_below(&plan.input, table),
        Node::Join(plan) => alias_below(&plan.left, table),
        _ => None,
    }
}
