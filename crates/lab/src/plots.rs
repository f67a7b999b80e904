//! The plots of a figure, drawn from its rows: medians over the rounds with their intervals, and
//! the paper's ranges of its statements beside what was measured.
//!
//! A plot without rows is not drawn. Values that no row has are left out, never guessed.

use super::experiment::passes;
use super::experiment::{Axes, Basis, Experiment, Plot, Shape, Test, Unit};
use super::judge::Judged;
use super::rows::LabRow;
use super::statistics::Interval;
use super::variant::{Scope, Variant};
use report::{
    BarChart, BarGroup, LineChart, LineSeries, RangeChart, RangeRow, Scale, StackBar, StackChart,
    Tick, short_number,
};

/// The rows that a plot shows.
pub(crate) fn rows_of<'r>(plot: &Plot, rows: &[&'r LabRow]) -> Vec<&'r LabRow> {
    let rows = rows.iter().copied();
    rows.filter(|row| passes(&row.parameters, plot.rows))
        .collect()
}

/// A plot as an SVG element.
pub(crate) fn draw(plot: &Plot, rows: &[&LabRow]) -> String {
    let rows = rows_of(plot, rows);
    match plot.shape {
        Shape::Bars {
            metric,
            group,
            bar,
            scale,
        } => bars(plot.caption, &rows, metric, (group, bar), scale_of(scale)),
        Shape::Stack { bar, pieces, unit } => stack(plot.caption, &rows, bar, pieces, unit),
        Shape::Lines {
            metric,
            x,
            x_label,
            y_label,
            line,
            x_scale,
            scale,
        } => {
            let (series, x_ticks) = lines(&rows, metric, x, line);
            let chart = LineChart {
                title: plot.caption.into(),
                x_label: x_label.into(),
                y_label: y_label.into(),
                x_scale: scale_of(x_scale),
                y_scale: scale_of(scale),
                x_ticks,
                series,
            };
            chart.svg()
        }
    }
}

fn scale_of(axes: Axes) -> Scale {
    match axes {
        Axes::Linear => Scale::Linear,
        Axes::Logarithmic => Scale::Logarithmic,
    }
}

/// Values of a parameter in the order in which rows have them.
fn values(rows: &[&LabRow], name: &str) -> Vec<String> {
    let mut values: Vec<String> = Vec::new();
    for value in rows.iter().filter_map(|row| row.parameters.get(name)) {
        if !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

/// Whether a row's parameter has a value.
pub(crate) fn has(row: &LabRow, name: &str, value: &str) -> bool {
    row.parameters.get(name).is_some_and(|own| own == value)
}

/// The name of a row's bar or line: the value of a parameter, or of several with `+` between their
/// names, marked where the run is the paper's
/// variant and ours is another one.
fn label(row: &LabRow, name: &str) -> Option<String> {
    let values: Vec<&str> = name
        .split('+')
        .filter_map(|name| row.parameters.get(name).map(String::as_str))
        .collect();
    if values.is_empty() {
        return None;
    }
    let value = values.join(", ");
    Some(if row.variant == Scope::Paper.name() {
        format!("{value} (paper)")
    } else {
        value
    })
}

/// Names of bars or lines in the order in which rows have them.
fn labels(rows: &[&LabRow], name: &str) -> Vec<String> {
    let mut labels: Vec<String> = Vec::new();
    for own in rows.iter().filter_map(|row| label(row, name)) {
        if !labels.contains(&own) {
            labels.push(own);
        }
    }
    labels
}

fn bars(
    caption: &str,
    rows: &[&LabRow],
    metric: &str,
    (group, bar): (&str, &str),
    scale: Scale,
) -> String {
    let series = labels(rows, bar);
    let value = |of_group: &str, of_bar: &str| {
        let is_own = |row: &&&LabRow| label(row, bar).is_some_and(|own| own == of_bar);
        let mut own = rows.iter().filter(is_own);
        let row = own.find(|row| has(row, group, of_group))?;
        Interval::of_median(&row.rounds(metric))
    };
    let groups = values(rows, group).into_iter().map(|of_group| {
        let bars = series.iter().map(|of_bar| value(&of_group, of_bar));
        let bars: Vec<Option<Interval>> = bars.collect();
        let number = |own: &Interval| (own.value, short_number(own.value));
        BarGroup {
            bars: bars.iter().map(|own| own.as_ref().map(number)).collect(),
            ranges: bars
                .iter()
                .map(|own| own.map(|own| (own.low, own.high)))
                .collect(),
            name: format!("{group}: {of_group}"),
        }
    });
    let groups = groups.collect();
    let chart = BarChart {
        title: caption.into(),
        series,
        groups,
        scale,
    };
    chart.svg()
}

fn stack(
    caption: &str,
    rows: &[&LabRow],
    bar: &str,
    pieces: &[(&str, &str)],
    unit: Unit,
) -> String {
    let has_pieces = |row: &&&LabRow| {
        pieces
            .iter()
            .any(|(metric, _)| row.metrics.contains_key(*metric))
    };
    let bars = rows.iter().filter(has_pieces).map(|row| {
        let values: Vec<f64> = pieces
            .iter()
            .map(|(metric, _)| row.median(metric).unwrap_or(0.0))
            .collect();
        let total: f64 = values.iter().sum();
        StackBar {
            name: label(row, bar).unwrap_or_default(),
            label: match unit {
                Unit::Bytes => short_number(total) + "B",
                Unit::Plain => short_number(total),
                Unit::Percent => String::new(),
            },
            values,
        }
    });
    let chart = StackChart {
        title: caption.into(),
        pieces: pieces.iter().map(|(_, name)| (*name).into()).collect(),
        bars: bars.collect(),
    };
    chart.svg()
}

fn lines(rows: &[&LabRow], metric: &str, x: &str, line: &str) -> (Vec<LineSeries>, Vec<Tick>) {
    let number = |row: &LabRow| match row.parameters.get(x) {
        Some(text) => text.parse::<f64>().ok(),
        None => row.median(x),
    };
    let series = labels(rows, line).into_iter().map(|name| {
        let is_own = |row: &&&LabRow| label(row, line).is_some_and(|own| own == name);
        let own = rows.iter().filter(is_own);
        let mut points: Vec<(f64, Interval)> = own
            .filter_map(|row| Some((number(row)?, Interval::of_median(&row.rounds(metric))?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        LineSeries {
            name,
            points: points.iter().map(|(x, own)| (*x, own.value)).collect(),
            ranges: points.iter().map(|(_, own)| (own.low, own.high)).collect(),
        }
    });
    let mut places: Vec<f64> = rows.iter().filter_map(|row| number(row)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let ticks = places.into_iter().map(|at| Tick {
        at,
        text: short_number(at),
    });
    (series.collect(), ticks.collect())
}

/// The paper's ranges of an experiment's statements as bands, with the measured intervals in them
/// or beside them: one plot for all ratios, one for each metric whose values are stated.
pub(crate) fn ranges(
    experiment: &Experiment,
    judged: &[(Variant, Vec<Judged>)],
) -> Vec<(String, String)> {
    let mut charts: Vec<(&str, RangeChart)> = Vec::new();
    for (at, check) in experiment.checks.iter().enumerate() {
        let of_variant = |(variant, judged): &(Variant, Vec<Judged>)| {
            let interval = judged.get(at)?.interval?;
            Some((variant.name().to_owned(), interval))
        };
        let measured: Vec<(String, Interval)> = judged.iter().filter_map(of_variant).collect();
        if measured.is_empty() || check.claim.basis == Basis::OwnGoal {
            continue;
        }
        let (quantity, scale) = match check.test {
            Test::Ratio { .. } | Test::Growth { .. } => ("ratio", Scale::Logarithmic),
            Test::Best { .. } => ("part of the best", Scale::Linear),
            Test::Value { metric, .. } => (metric, Scale::Linear),
        };
        let row = RangeRow {
            name: check.what.to_owned(),
            range: check.test.within().range(),
            measured: measured
                .into_iter()
                .map(|(name, own)| (name, (own.low, own.value, own.high)))
                .collect(),
        };
        match charts.iter_mut().find(|(name, _)| *name == quantity) {
            Some((_, chart)) => chart.rows.push(row),
            None => charts.push((
                quantity,
                RangeChart {
                    title: quantity.to_owned(),
                    scale,
                    rows: vec![row],
                },
            )),
        }
    }
    let charts = charts.into_iter().map(|(quantity, chart)| {
        let caption = format!("The paper's ranges and what was measured, {quantity}");
        (caption, chart.svg())
    });
    charts.collect()
}
