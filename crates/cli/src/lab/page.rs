//! The report: each figure next to the paper's numbers, with a verdict.
//!
//! Plots, tables and verdicts are made from rows alone. A figure that lacks rows says so. A
//! statement that does not hold is printed with the reason that the experiment gives for it. The
//! page is one file that loads nothing and runs no script.

use super::experiment::{Axes, Check, Experiment, Paper, Plot, Shape, Unit};
use super::judge::{Judged, Verdict, judge};
use super::n_store;
use super::point::passes;
use super::rows::LabRow;
use super::size::Size;
use crate::report::{
    BarChart, BarGroup, Details, LineChart, LineSeries, Page, Scale, Section, StackBar, StackChart,
    Tick, Tone, WordTable, short_number,
};

/// An experiment with its rows and the outcomes of its checks.
pub(super) struct Figure<'r> {
    pub(super) experiment: &'static Experiment,
    pub(super) rows: Vec<&'r LabRow>,
    pub(super) judged: Vec<(&'static Check, Judged)>,
    /// Rows that a whole run has.
    wanted: usize,
}

impl<'r> Figure<'r> {
    /// Judges the rows.
    pub(super) fn new(
        experiment: &'static Experiment,
        rows: Vec<&'r LabRow>,
        wanted: usize,
    ) -> Self {
        let judged = experiment.checks.iter();
        let judged = judged.map(|check| (check, judge(check, &rows))).collect();
        Self {
            experiment,
            rows,
            judged,
            wanted,
        }
    }

    /// Checks with a verdict.
    pub(super) fn count(&self, verdict: Verdict) -> u64 {
        let with = self
            .judged
            .iter()
            .filter(|(_, judged)| judged.verdict == verdict);
        with.count() as u64
    }

    /// The verdict in words.
    pub(super) fn verdict(&self) -> String {
        let (holds, differs) = (self.count(Verdict::Holds), self.count(Verdict::Differs));
        match (holds, differs) {
            (0, 0) => "not measured".into(),
            (_, 0) => "shape holds".into(),
            (0, _) => "shape differs".into(),
            _ => format!("shape differs in {differs} of {}", holds + differs),
        }
    }

    fn tone(&self) -> Tone {
        match (self.count(Verdict::Holds), self.count(Verdict::Differs)) {
            (0, 0) => Tone::Plain,
            (_, 0) => Tone::Good,
            _ => Tone::Bad,
        }
    }

    fn section(&self) -> Section {
        let mut paragraphs: Vec<String> = self
            .experiment
            .shows
            .iter()
            .map(|text| (*text).into())
            .collect();
        if self.rows.len() < self.wanted {
            paragraphs.push(format!(
                "Only {} of {} runs were made.",
                self.rows.len(),
                self.wanted
            ));
        }
        let plots = self.experiment.plots.iter();
        let plots = plots.filter(|plot| !rows_of(plot, &self.rows).is_empty());
        let plots = plots.map(|plot| (plot.caption.to_owned(), draw(plot, &self.rows)));
        let mut words = vec![self.checks()];
        if self.experiment.name == "n-store/table3" {
            words.push(model(&self.rows));
        }
        Section {
            heading: self.experiment.title.into(),
            badge: Some((self.tone(), self.verdict())),
            paragraphs,
            plots: plots.collect(),
            words,
            details: Some(Details {
                summary: "All rows: medians, least and most".into(),
                plots: Vec::new(),
                table: raw(&self.rows, self.experiment),
            }),
            ..Section::default()
        }
    }

    fn checks(&self) -> WordTable {
        let rows = self.judged.iter().map(|(check, judged)| {
            let (tone, verdict) = match judged.verdict {
                Verdict::Holds => (Tone::Good, "holds".to_owned()),
                Verdict::Differs => (Tone::Bad, format!("differs. {}", check.why)),
                Verdict::Unknown => (Tone::Plain, "not measured".to_owned()),
            };
            let is_section = check
                .source
                .starts_with(|first: char| first.is_ascii_digit());
            let section = if is_section { "section " } else { "" };
            let paper = format!("{} ({section}{})", check.paper, check.source);
            let cells = vec![capital(check.what), paper, judged.measured.clone(), verdict];
            (tone, cells)
        });
        WordTable {
            header: ["Expected", "The paper", "Measured", "Verdict"]
                .map(str::to_owned)
                .to_vec(),
            rows: rows.collect(),
        }
    }
}

/// A paper with its requested figures.
pub(super) struct Part<'r> {
    pub(super) paper: &'static Paper,
    pub(super) figures: Vec<Figure<'r>>,
}

/// The whole page. With several papers, each has its own part, and headings name the paper.
pub(super) fn page(parts: &[Part<'_>], size: &Size) -> Page {
    let titles: Vec<&str> = parts.iter().map(|part| part.paper.title).collect();
    let leads: Vec<&str> = parts.iter().map(|part| part.paper.lead).collect();
    let mut sections = Vec::new();
    for part in parts {
        let mut own = vec![overview(&part.figures), compared(part.paper)];
        own.extend(part.figures.iter().map(Figure::section));
        if parts.len() > 1 {
            for section in &mut own {
                section.heading = format!("{}: {}", part.paper.name, section.heading);
            }
        }
        sections.extend(own);
    }
    Page {
        title: titles.join("; "),
        lead: leads.join(" "),
        sections,
        facts: facts(parts, size),
    }
}

fn overview(figures: &[Figure<'_>]) -> Section {
    let rows = figures.iter().map(|figure| {
        let checks = figure.judged.len() as u64 - figure.count(Verdict::Unknown);
        let cells = vec![
            figure.experiment.title.to_owned(),
            format!("{} of {checks}", figure.count(Verdict::Holds)),
            figure.verdict(),
        ];
        (figure.tone(), cells)
    });
    Section {
        heading: "Verdicts".into(),
        paragraphs: vec![
            "A shape is a set of statements about ratios: who wins, and by roughly how much. A statement holds if the measured ratio \
             (where there are several, their geometric mean or each of them) lies on the same side as the paper's and is not far from it; the \
             range is part of the experiment's source."
                .into(),
            "Where a statement differs, the sentence beside it is what we hold to be the reason; the rows do not prove it."
                .into(),
        ],
        words: vec![WordTable {
            header: ["Figure", "Statements that hold", "Verdict"].map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }],
        ..Section::default()
    }
}

/// The table of the compared systems.
fn compared(paper: &Paper) -> Section {
    let owned = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
    let table = &paper.compared;
    let rows = table.rows.iter().map(|cells| (Tone::Plain, owned(cells)));
    Section {
        heading: table.heading.into(),
        words: vec![WordTable {
            header: owned(table.header),
            rows: rows.collect(),
        }],
        ..Section::default()
    }
}

fn facts(parts: &[Part<'_>], size: &Size) -> Vec<(String, String)> {
    let figures = || parts.iter().flat_map(|part| &part.figures);
    let rows = || figures().flat_map(|figure| &figure.rows);
    let distinct = |text: &dyn Fn(&LabRow) -> String| {
        let mut texts: Vec<String> = rows().map(|row| text(row)).collect();
        texts.sort();
        texts.dedup();
        texts.join("; ")
    };
    let sizes: Vec<String> = parts
        .iter()
        .map(|part| (part.paper.describe)(size))
        .collect();
    vec![
        ("machine".into(), distinct(&|row| row.machine.summary())),
        ("commit".into(), distinct(&|row| row.commit.clone())),
        ("seed".into(), distinct(&|row| row.seed.to_string())),
        (
            "size".into(),
            format!("{}: {}", size.name, sizes.join("; ")),
        ),
    ]
}

fn rows_of<'r>(plot: &Plot, rows: &[&'r LabRow]) -> Vec<&'r LabRow> {
    let rows = rows.iter().copied();
    rows.filter(|row| passes(&row.parameters, plot.rows))
        .collect()
}

fn draw(plot: &Plot, rows: &[&LabRow]) -> String {
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

fn has(row: &LabRow, name: &str, value: &str) -> bool {
    row.parameters.get(name).is_some_and(|own| own == value)
}

fn bars(
    caption: &str,
    rows: &[&LabRow],
    metric: &str,
    (group, bar): (&str, &str),
    scale: Scale,
) -> String {
    let series = values(rows, bar);
    let value = |of_group: &str, of_bar: &str| {
        let row = rows
            .iter()
            .find(|row| has(row, group, of_group) && has(row, bar, of_bar))?;
        let median = row.median(metric)?;
        Some((median, short_number(median)))
    };
    let groups = values(rows, group).into_iter().map(|of_group| BarGroup {
        bars: series
            .iter()
            .map(|of_bar| value(&of_group, of_bar))
            .collect(),
        name: of_group,
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
            name: row.parameters.get(bar).cloned().unwrap_or_default(),
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
    let series = values(rows, line).into_iter().map(|name| {
        let own = rows.iter().filter(|row| has(row, line, &name));
        let mut points: Vec<(f64, f64)> = own
            .filter_map(|row| Some((number(row)?, row.median(metric)?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        LineSeries { name, points }
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

/// The model of table 3 next to the measurements.
fn model(rows: &[&LabRow]) -> WordTable {
    let sum = |terms: &[(n_store::Symbol, f64)]| {
        terms
            .iter()
            .map(|(symbol, count)| symbol.bytes() * count)
            .sum::<f64>()
    };
    let lines = n_store::MODEL
        .iter()
        .map(|(method, operation, formulas, least, most)| {
            let row = rows
                .iter()
                .find(|row| has(row, "method", method) && has(row, "operation", operation));
            let measured = |metric: &str| {
                let median = row.and_then(|row| row.median(metric));
                median.map_or_else(|| "not measured".into(), |value| format!("{value:.0}"))
            };
            let (least, most) = (sum(least), sum(most));
            let model = if (least - most).abs() < 0.5 {
                format!("{least:.0}")
            } else {
                format!("{least:.0} to {most:.0}")
            };
            let [memory, log, table] = formulas;
            let cells = vec![
                format!("{method}, {operation}"),
                format!("memory {memory}, log {log}, table {table}"),
                model,
                measured("stored_bytes"),
                measured("device_bytes"),
            ];
            (Tone::Plain, cells)
        });
    WordTable {
        header: [
            "Operation",
            "The paper's model",
            "Bytes by the model",
            "Bytes stored",
            "Bytes that reached the device",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: lines.collect(),
    }
}

/// All rows with the metrics that the figure uses.
fn raw(rows: &[&LabRow], experiment: &Experiment) -> (Vec<String>, Vec<Vec<String>>) {
    let mut metrics: Vec<&str> = Vec::new();
    for plot in experiment.plots {
        let used: Vec<&str> = match plot.shape {
            Shape::Bars { metric, .. } | Shape::Lines { metric, .. } => vec![metric],
            Shape::Stack { pieces, .. } => pieces.iter().map(|(metric, _)| *metric).collect(),
        };
        for metric in used {
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
    }
    let mut header = vec!["run".to_owned()];
    header.extend(metrics.iter().map(|metric| (*metric).to_owned()));
    let lines = rows.iter().map(|row| {
        let words: Vec<&str> = row.parameters.values().map(String::as_str).collect();
        let mut cells = vec![words.join(" ")];
        cells.extend(metrics.iter().map(|metric| {
            row.metrics.get(*metric).map_or_else(String::new, |spread| {
                format!(
                    "{} ({}–{})",
                    short_number(spread.median),
                    short_number(spread.min),
                    short_number(spread.max)
                )
            })
        }));
        cells
    });
    (header, lines.collect())
}

/// Beginnings of names, which do not get a capital letter.
const NAMES: [&str; 11] = [
    "nvm-",
    "inp",
    "log ",
    "cow ",
    "radix ",
    "n-part ",
    "m-way ",
    "m-pass ",
    "mpsm ",
    "nv-",
    "flush-on-",
];

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        // Names of methods and algorithms stay as they are written.
        Some(_) if NAMES.iter().any(|name| text.starts_with(name)) => text.to_owned(),
        Some(first) => first.to_uppercase().collect::<String>() + letters.as_str(),
        None => String::new(),
    }
}
