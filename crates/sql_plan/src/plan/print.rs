//! Expressions as texts, for `EXPLAIN`: about as PostgreSQL writes them.
//!
//! Positions become names again. A query inside is named by its number, and described beside the
//! node that has it.

use super::explain::{Explained, Explainer};
use super::expression::{Call, Expr, Quantified, Subquery, SubqueryTest};
use super::node::SortKey;
use crate::types::{Datum, Kind, text_io};

impl Explainer<'_> {
    /// Several conditions or values.
    pub(super) fn list(&mut self, parts: &[Expr], names: &[String]) -> Vec<String> {
        parts.iter().map(|part| self.text(part, names)).collect()
    }

    /// The keys of an order.
    pub(super) fn order(&mut self, keys: &[SortKey], names: &[String]) -> String {
        let keys = keys.iter().map(|key| {
            let text = self.text(&key.expression, names);
            let order = match (key.descends, key.nulls_first) {
                (false, false) => "",
                (false, true) => " NULLS FIRST",
                (true, true) => " DESC",
                (true, false) => " DESC NULLS LAST",
            };
            format!("{text}{order}")
        });
        keys.collect::<Vec<_>>().join(", ")
    }

    /// An expression over a row whose columns have names.
    pub(super) fn text(&mut self, expression: &Expr, names: &[String]) -> String {
        let all = |explainer: &mut Self, parts: &[Expr], word: &str| {
            explainer.list(parts, names).join(word)
        };
        match expression {
            Expr::Constant(value, data_type) => self.constant(value, data_type.kind),
            Expr::Column(at, _) => name_of(names, *at),
            Expr::Outer(level, at, _) => self.outer_name(*level, *at),
            Expr::Parameter(number, data_type) => match self.values.get(*number) {
                Some(value) => self.constant(value, data_type.kind),
                None => format!("${}", number + 1),
            },
            Expr::Call(call) => self.call(call, names),
            Expr::Cast(operand, target, _) => {
                let operand = self.text(operand, names);
                format!("({operand})::{target}")
            }
            Expr::And(parts) => format!("({})", all(self, parts, " AND ")),
            Expr::Or(parts) => format!("({})", all(self, parts, " OR ")),
            Expr::Not(operand) => format!("(NOT {})", self.text(operand, names)),
            Expr::IsNull(operand, negated) => {
                let not = if *negated { " NOT" } else { "" };
                format!("({} IS{not} NULL)", self.text(operand, names))
            }
            Expr::IsTruth(operand, wanted, negated) => {
                let not = if *negated { " NOT" } else { "" };
                let wanted = match wanted {
                    Some(wanted) => {
                        if *wanted {
                            "TRUE"
                        } else {
                            "FALSE"
                        }
                    }
                    None => "UNKNOWN",
                };
                format!("({} IS{not} {wanted})", self.text(operand, names))
            }
            Expr::IsDistinct(pair, negated) => {
                let not = if *negated { " NOT" } else { "" };
                let (one, other) = (self.text(&pair.0, names), self.text(&pair.1, names));
                format!("({one} IS{not} DISTINCT FROM {other})")
            }
            // The row of a table as a value.
            Expr::Case(branches, row) if branches.is_empty() => self.text(row, names),
            Expr::Case(branches, otherwise) => self.case(branches, otherwise, names),
            Expr::Coalesce(parts) => format!("COALESCE({})", all(self, parts, ", ")),
            Expr::Extreme(parts, greatest) => {
                let name = if *greatest { "GREATEST" } else { "LEAST" };
                format!("{name}({})", all(self, parts, ", "))
            }
            Expr::Quantified(test) => self.quantified(test, names),
            Expr::Array(parts, _) => format!("ARRAY[{}]", all(self, parts, ", ")),
            Expr::Row(parts, _) => format!("ROW({})", all(self, parts, ", ")),
            Expr::Field(operand, at, _) => {
                format!("({}).f{}", self.text(operand, names), at + 1)
            }
            Expr::Subquery(subquery) => self.subplan(subquery, names),
            Expr::Let(one) => self.text(&one.written_out(), names),
            Expr::LetValue(..) | Expr::Pending(..) => "?".to_owned(),
        }
    }

    fn outer_name(&self, level: usize, at: usize) -> String {
        let depth = self.outer.len().checked_sub(level);
        let row = depth.and_then(|depth| self.outer.get(depth));
        row.map_or_else(|| "?".to_owned(), |row| name_of(row, at))
    }

    fn case(&mut self, branches: &[(Expr, Expr)], otherwise: &Expr, names: &[String]) -> String {
        let mut text = "CASE".to_owned();
        for (condition, result) in branches {
            let (when, then) = (self.text(condition, names), self.text(result, names));
            text.extend([" WHEN ", &when, " THEN ", &then]);
        }
        format!("{text} ELSE {} END", self.text(otherwise, names))
    }

    fn quantified(&mut self, test: &Quantified, names: &[String]) -> String {
        let left = self.text(&test.left, names);
        let array = self.text(&test.array, names);
        let word = if test.is_all { "ALL" } else { "ANY" };
        let operator = match &test.condition {
            Expr::Call(call) => call.function.name,
            _ => "?",
        };
        format!("({left} {operator} {word} ({array}))")
    }

    /// A query inside, which is described beside the node.
    fn subplan(&mut self, subquery: &Subquery, names: &[String]) -> String {
        self.outer.push(names.to_vec());
        let node = self.describe(&subquery.node);
        self.outer.pop();
        let label = format!("SubPlan {}", self.next_subplan());
        let text = match &subquery.test {
            SubqueryTest::Exists => format!("EXISTS({label})"),
            SubqueryTest::Array(_) => format!("ARRAY({label})"),
            SubqueryTest::Scalar => format!("({label})"),
            SubqueryTest::Any(test) => {
                format!(
                    "({} = ANY ({label}))",
                    self.list(&test.left, names).join(", ")
                )
            }
            SubqueryTest::All(test) => {
                format!(
                    "({} = ALL ({label}))",
                    self.list(&test.left, names).join(", ")
                )
            }
        };
        self.subplans.push(Explained {
            label: Some(label),
            ..node
        });
        text
    }

    fn call(&mut self, call: &Call, names: &[String]) -> String {
        let name = call.function.name.trim_start_matches('\0');
        let arguments = self.list(&call.arguments, names);
        match arguments.as_slice() {
            [one, other] if call.is_operator => format!("({one} {name} {other})"),
            [one] if call.is_operator => format!("({name} {one})"),
            arguments => format!("{name}({})", arguments.join(", ")),
        }
    }

    fn constant(&self, value: &Datum, kind: Kind) -> String {
        let text = match value {
            Datum::Null => return "NULL".to_owned(),
            value => text_io::print(value, kind, &self.context).unwrap_or_default(),
        };
        let is_plain = matches!(kind, Kind::Bool | Kind::Int4 | Kind::Int8 | Kind::Numeric);
        match value {
            Datum::Bool(true) => "true".to_owned(),
            Datum::Bool(false) => "false".to_owned(),
            _ if is_plain && !text.starts_with('-') => text,
            _ => format!("'{}'::{kind}", text.replace('\'', "''")),
        }
    }
}

fn name_of(names: &[String], at: usize) -> String {
    names.get(at).cloned().unwrap_or_else(|| "?".to_owned())
}
