//! `EXPLAIN`: the plan of a statement, and with `ANALYZE` what running it has cost.
//!
//! The option `NVM` adds the cost of the commit on the medium, which is known once it is done: a
//! statement that is sent alone commits before its plan is shown. In a block the commit comes
//! later, and its cost is in `\nvm` of the shell.

use super::Session;
use super::execute::Nowhere;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Counting, Explained, Explainer, Plan, Report, ShownWork, Work};
use crate::sink::{Batch, Completion, OutputColumn, RowSink};
use crate::state::Block;
use crate::types::{Datum, Kind};
use indelible::CommitReport;
use sql_parse::{Copied, Parsed, ident_text, object_name};
use sqlparser::ast::{Expr, Statement, UtilityOption, Value};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The options of `EXPLAIN`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the statement"
)]
struct Options {
    analyze: bool,
    verbose: bool,
    nvm: bool,
    is_json: bool,
    hides_estimates: bool,
    hides_times: bool,
    hides_summary: bool,
}

/// The times of a statement and the cost of its commit.
struct Summary {
    planning: Duration,
    execution: Option<Duration>,
    commit: Option<String>,
}

impl Session {
    /// Runs `EXPLAIN`.
    pub(super) fn explain(
        &mut self,
        parsed: &Parsed,
        statement: &Statement,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let Statement::Explain {
            analyze,
            verbose,
            statement: inner,
            options,
            ..
        } = statement
        else {
            return Err(SqlError::internal("a statement to explain"));
        };
        let mut chosen = Options {
            analyze: *analyze,
            verbose: *verbose,
            ..Options::default()
        };
        let given = options.iter().flatten();
        given
            .into_iter()
            .try_for_each(|option| chosen.set(option))?;
        if chosen.nvm && !chosen.analyze {
            let message = "EXPLAIN option NVM requires ANALYZE";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let start = Instant::now();
        let (mut plan, mut values) = self.plan_to_explain(parsed, inner)?;
        while chosen.analyze && self.lock_used(&plan)? {
            (plan, values) = self.plan_to_explain(parsed, inner)?;
        }
        let mut summary = Summary {
            planning: start.elapsed(),
            execution: None,
            commit: None,
        };
        if chosen.analyze {
            let mut counting = Counting::default();
            let root = counting.counted(plan.root.clone());
            let before = plan.before.iter().cloned();
            plan = Arc::new(Plan {
                before: before.map(|change| counting.counted(change)).collect(),
                root,
                point: None,
                columns: None,
                parameters: plan.parameters.clone(),
                command: plan.command,
                writes: plan.writes,
                tables: plan.tables.clone(),
                keepers: plan.keepers,
                is_momentary: plan.is_momentary,
            });
            let start = Instant::now();
            let mut running = self.begin_plan(&plan, values.clone())?;
            self.run_on(&mut running, 0, &mut Nowhere)?;
            summary.execution = Some(start.elapsed());
            drop(running);
        }
        let mut explainer = Explainer::new(self.catalog(), self.context(), &values);
        let mut shown = explainer.describe(&plan.root);
        for change in &plan.before {
            shown.inputs.push(explainer.describe(change));
        }
        if chosen.nvm {
            summary.commit = Some(self.commit_cost()?);
        }
        let text = match chosen.is_json {
            true => json(&shown, chosen, &summary),
            false => plain(&shown, chosen, &summary),
        };
        self.show_plan(&text, chosen.is_json, sink)
    }

    /// The plan of a statement, and values of its parameters.
    fn plan_to_explain(
        &mut self,
        parsed: &Parsed,
        inner: &Statement,
    ) -> Result<(Arc<Plan>, Vec<Datum>)> {
        if let Statement::Execute {
            name: Some(name),
            parameters,
            ..
        } = inner
        {
            let (_, name) = object_name(name)?;
            if let Some(prepared) = self.prepared_with_values(&name, parameters)? {
                return Ok(prepared);
            }
        }
        let query = match inner {
            Statement::Declare { stmts, .. } => stmts
                .first()
                .and_then(|declared| declared.for_query.as_ref().map(Copied::copied)),
            _ => None,
        };
        let inner = Parsed {
            statement: Arc::new(query.map_or_else(|| inner.copied(), Statement::Query)),
            ..parsed.clone()
        };
        self.plan_with_values(&inner)?.ok_or_else(|| {
            let instead = "Explain SELECT, INSERT, UPDATE, DELETE or EXECUTE.";
            SqlError::unsupported("EXPLAIN of this statement", instead)
        })
    }

    /// Commits a statement that was sent alone, and says what that has cost.
    fn commit_cost(&mut self) -> Result<String> {
        if self.transaction.block != Block::Implicit || !self.is_alone {
            return Ok("at the end of the transaction".to_owned());
        }
        self.commit()?;
        let statistics = self.sql.database().statistics()?;
        let CommitReport {
            changes,
            fences,
            lines_flushed,
            bytes_stored,
            bytes_written,
        } = self.last_commit.unwrap_or_default();
        Ok(format!(
            "changed={changes} fences={fences} lines={lines_flushed} stored={bytes_stored} B \
             files={bytes_written} B method={} domain={} survives={}",
            statistics.method,
            statistics.domain.name(),
            statistics.survives
        ))
    }

    fn show_plan(&self, text: &str, is_json: bool, sink: &mut dyn RowSink) -> Result<Completion> {
        sink.describe(&plan_columns(is_json))?;
        let mut batch = Batch::new(1);
        if is_json {
            batch.push([Datum::Json(text.into())]);
        } else {
            text.lines()
                .for_each(|line| batch.push([Datum::text(line)]));
        }
        sink.rows(&batch, &self.environment.context())?;
        Ok(Completion::new("EXPLAIN"))
    }
}

/// The columns of the result of a statement, if it is an `EXPLAIN`.
pub(super) fn explain_columns(statement: &Statement) -> Option<Vec<OutputColumn>> {
    let Statement::Explain { options, .. } = statement else {
        return None;
    };
    let mut chosen = Options::default();
    let read = options
        .iter()
        .flatten()
        .try_for_each(|option| chosen.set(option));
    read.ok().map(|()| plan_columns(chosen.is_json))
}

fn plan_columns(is_json: bool) -> Vec<OutputColumn> {
    let kind = if is_json { Kind::Json } else { Kind::Text };
    vec![OutputColumn {
        name: "QUERY PLAN".to_owned(),
        data_type: kind.plain(),
        table: 0,
        position: 0,
    }]
}

impl Options {
    fn set(&mut self, option: &UtilityOption) -> Result<()> {
        let name = ident_text(&option.name);
        if name == "format" {
            let format = option.arg.as_ref().map(ToString::to_string);
            self.is_json = match format.unwrap_or_default().to_lowercase().trim_matches('\'') {
                "text" => false,
                "json" => true,
                other => {
                    let instead = "Use FORMAT TEXT or JSON.";
                    return Err(SqlError::unsupported(
                        format!("the format {other}"),
                        instead,
                    ));
                }
            };
            return Ok(());
        }
        let value = switch(&name, option.arg.as_ref())?;
        match name.as_str() {
            "analyze" => self.analyze = value,
            "verbose" => self.verbose = value,
            "nvm" => self.nvm = value,
            "costs" => self.hides_estimates = !value,
            "timing" => self.hides_times = !value,
            "summary" => self.hides_summary = !value,
            // There is nothing to tell about them.
            "buffers" | "settings" | "wal" => {}
            _ => {
                let message = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
        Ok(())
    }
}

/// The value of an option that is on or off.
fn switch(name: &str, value: Option<&Expr>) -> Result<bool> {
    let text = match value {
        None => return Ok(true),
        Some(Expr::Value(value)) => match &value.value {
            Value::Boolean(value) => return Ok(*value),
            other => other.to_string(),
        },
        Some(Expr::Identifier(word)) => ident_text(word),
        Some(other) => other.to_string(),
    };
    match text.trim_matches('\'').to_lowercase().as_str() {
        "on" | "true" | "1" => Ok(true),
        "off" | "false" | "0" => Ok(false),
        _ => {
            let message = format!("{name} requires a Boolean value");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

/// A plan as lines of text.
fn plain(explained: &Explained, options: Options, summary: &Summary) -> String {
    let mut text = String::new();
    add_node(&mut text, explained, 0, options);
    if let (Some(execution), false) = (summary.execution, options.hides_summary) {
        let (planning, execution) = (millis(summary.planning), millis(execution));
        let written = write!(
            text,
            "Planning Time: {planning:.3} ms\nExecution Time: {execution:.3} ms\n"
        );
        debug_assert!(written.is_ok(), "writing to a text does not fail");
    }
    if let Some(commit) = &summary.commit {
        text.extend(["Commit  (", commit, ")\n"]);
    }
    text
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Adds a node and its inputs. Each level is six columns further in than the one above.
fn add_node(text: &mut String, node: &Explained, indent: usize, options: Options) {
    let mut indent = indent;
    let margin = |indent: usize| " ".repeat(indent);
    if let Some(label) = &node.label {
        text.extend([&margin(indent), label, "\n"]);
        indent += 2;
    }
    let arrow = if indent == 0 { "" } else { "->  " };
    text.extend([&margin(indent), arrow, &node.kind, &node.about]);
    if !options.hides_estimates {
        text.extend(["  (rows=", &format!("{:.0}", node.rows), ")"]);
    }
    match node.work() {
        ShownWork::NotCounted => {}
        ShownWork::None => text.push_str(" (never executed)"),
        ShownWork::Some(work) => text.push_str(&actual(&work, options)),
    }
    text.push('\n');
    let inside = indent + if indent == 0 { 2 } else { 6 };
    if options.verbose && !node.names.is_empty() {
        text.extend([&margin(inside), "Output: ", &node.names.join(", "), "\n"]);
    }
    for (name, value) in &node.fields {
        text.extend([margin(inside).as_str(), name, ": ", value, "\n"]);
    }
    if let Some(report) = node.report {
        let (name, value) = report.line();
        text.extend([margin(inside).as_str(), name, ": ", &value, "\n"]);
    }
    for input in &node.inputs {
        add_node(text, input, inside, options);
    }
}

fn actual(work: &Work, options: Options) -> String {
    let Work {
        rows,
        loops,
        first_ms,
        total_ms,
    } = work;
    let time = match options.hides_times {
        true => String::new(),
        false => format!("time={first_ms:.3}..{total_ms:.3} "),
    };
    format!(" (actual {time}rows={rows:.0} loops={loops})")
}

/// A plan as a document.
fn json(explained: &Explained, options: Options, summary: &Summary) -> String {
    let mut members = vec![format!("\"Plan\": {}", json_node(explained, 4, options))];
    if let (Some(execution), false) = (summary.execution, options.hides_summary) {
        members.push(format!(
            "\"Planning Time\": {:.3}",
            millis(summary.planning)
        ));
        members.push(format!("\"Execution Time\": {:.3}", millis(execution)));
    }
    if let Some(commit) = &summary.commit {
        members.push(format!("\"Commit\": {}", quoted(commit)));
    }
    format!("[\n  {{\n    {}\n  }}\n]", members.join(",\n    "))
}

fn json_node(node: &Explained, indent: usize, options: Options) -> String {
    let mut members = vec![format!("\"Node Type\": {}", quoted(&node.kind))];
    let mut member = |name: &str, value: String| members.push(format!("\"{name}\": {value}"));
    if let Some(label) = &node.label {
        member("Subplan Name", quoted(label));
    }
    if let Some((_, relation)) = node.about.split_once(" on ") {
        member("Relation Name", quoted(relation));
    }
    if let Some((_, index)) = node.about.split_once(" using ") {
        let (index, _) = index.split_once(" on ").unwrap_or((index, ""));
        member("Index Name", quoted(index));
    }
    if !options.hides_estimates {
        member("Plan Rows", format!("{:.0}", node.rows));
    }
    let work = match node.work() {
        ShownWork::NotCounted => None,
        ShownWork::None => Some(Work::default()),
        ShownWork::Some(work) => Some(work),
    };
    if let Some(work) = work {
        if !options.hides_times {
            member("Actual Startup Time", format!("{:.3}", work.first_ms));
            member("Actual Total Time", format!("{:.3}", work.total_ms));
        }
        member("Actual Rows", format!("{:.0}", work.rows));
        member("Actual Loops", work.loops.to_string());
    }
    if options.verbose {
        let names: Vec<String> = node.names.iter().map(|name| quoted(name)).collect();
        member("Output", format!("[{}]", names.join(", ")));
    }
    for (name, value) in &node.fields {
        member(name, quoted(value));
    }
    for (name, value) in node.report.into_iter().flat_map(Report::members) {
        member(name, value);
    }
    if !node.inputs.is_empty() {
        let inputs = node.inputs.iter();
        let inputs: Vec<String> = inputs
            .map(|input| json_node(input, indent + 4, options))
            .collect();
        member("Plans", format!("[{}]", inputs.join(", ")));
    }
    let margin = " ".repeat(indent);
    format!(
        "{{\n{margin}  {}\n{margin}}}",
        members.join(&format!(",\n{margin}  "))
    )
}

/// A text of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for one in text.chars() {
        match one {
            '"' | '\\' => quoted.extend(['\\', one]),
            '\u{0}'..='\u{1f}' => quoted.extend(format!("\\u{:04x}", u32::from(one)).chars()),
            one => quoted.push(one),
        }
    }
    quoted.push('"');
    quoted
}
