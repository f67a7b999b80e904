//! The report: each figure next to the paper's numbers, with a verdict.
//!
//! Plots, tables and verdicts are made from rows alone. A figure that lacks rows says so. A
//! statement that differs is printed with the reason that the experiment gives for it. The page is
//! one file that loads nothing and runs no script.

use super::ablation::Ablated;
use super::control::Control;
use super::experiment::{Basis, Check, Claim, Experiment, Paper, Parameters, Shape};
use super::judge::{Judged, Verdict, judge};
use super::n_store;
use super::plots::{self, draw, has, rows_of};
use super::rows::LabRow;
use super::size::Size;
use super::stale;
use super::statistics::median;
use super::variant::{Scope, Variant};
use report::{Details, Page, Section, Tone, WordTable, short_number};

/// An experiment with its rows and the outcomes of its checks.
pub struct Figure<'r> {
    /// The experiment.
    pub experiment: &'static Experiment,
    /// The rows of all variants.
    pub rows: Vec<&'r LabRow>,
    /// The outcomes of the checks, in their order, for each variant.
    pub(crate) judged: Vec<(Variant, Vec<Judged>)>,
    /// Statements of the first variant that were measured without the cause of their difference.
    pub(crate) ablated: Vec<Ablated>,
    /// Rows that a whole run has.
    wanted: usize,
}

/// The points of an experiment in a variant.
pub struct OfVariant<'r> {
    variant: Variant,
    /// Rows of the points that were measured.
    pub rows: Vec<&'r LabRow>,
    /// Parameters of the others.
    pub missing: Vec<Parameters>,
}

impl OfVariant<'_> {
    /// A variant without points.
    pub fn new(variant: Variant) -> Self {
        Self {
            variant,
            rows: Vec::new(),
            missing: Vec::new(),
        }
    }
}

impl<'r> Figure<'r> {
    /// Judges the rows of each variant.
    pub fn new(
        experiment: &'static Experiment,
        variants: &[OfVariant<'r>],
        rows: Vec<&'r LabRow>,
        wanted: usize,
        ablated: Vec<Ablated>,
    ) -> Self {
        let judged = variants.iter().map(|own| {
            let checks = experiment.checks.iter();
            let judged = checks.map(|check| judge(check, &own.rows, &own.missing));
            (own.variant, judged.collect())
        });
        Self {
            experiment,
            rows,
            judged: judged.collect(),
            ablated,
            wanted,
        }
    }

    /// Statements of the paper with a verdict; goals of ours are not counted.
    pub fn count(&self, variant: Variant, verdict: Verdict) -> u64 {
        self.counted(variant, verdict, |_| true)
    }

    fn counted(&self, variant: Variant, verdict: Verdict, is_in: fn(&Check) -> bool) -> u64 {
        let of_variant = self.judged.iter().filter(|(own, _)| *own == variant);
        let all = of_variant.flat_map(|(_, judged)| self.experiment.checks.iter().zip(judged));
        let with = all.filter(|(check, judged)| {
            check.claim.basis != Basis::OwnGoal && is_in(check) && judged.verdict == verdict
        });
        with.count() as u64
    }

    /// Statements that are inside or have the paper's direction, and those that were measured.
    fn score(&self, variant: Variant, is_in: fn(&Check) -> bool) -> (u64, u64) {
        let of = |verdict| self.counted(variant, verdict, is_in);
        let good = of(Verdict::Inside) + of(Verdict::SameDirection);
        (good, good + of(Verdict::Undecided) + of(Verdict::Differs))
    }

    /// The variant that the verdict of the figure is about.
    fn first(&self) -> Variant {
        self.judged
            .first()
            .map_or(Variant::Paper, |(first, _)| *first)
    }

    /// The verdict in words.
    fn verdict(&self) -> String {
        match self.score(self.first(), |_| true) {
            (_, 0) => "not measured".into(),
            (good, all) if good == all => format!("all {all} agree"),
            (good, all) => format!("{good} of {all} agree"),
        }
    }

    fn tone(&self) -> Tone {
        match self.score(self.first(), |_| true) {
            (_, 0) => Tone::Plain,
            (good, all) if good == all => Tone::Good,
            _ => Tone::Bad,
        }
    }

    /// The spread of the control points, if there were any.
    fn quietness(&self) -> Option<String> {
        let mut controls: Vec<&Control> = Vec::new();
        for control in self.rows.iter().filter_map(|row| row.control.as_ref()) {
            if !controls.contains(&control) {
                controls.push(control);
            }
        }
        let worst = controls.iter().map(|control| control.difference());
        let worst = 100.0 * worst.max_by(f64::total_cmp)?;
        let noisy = controls.iter().filter(|control| !control.agrees()).count();
        let all = controls.len();
        Some(if noisy == 0 {
            format!(
                "Each round measured a control point twice: it agrees with itself within {worst:.1} % in the median of the rounds."
            )
        } else {
            format!(
                "The machine was too noisy: in {noisy} of {all} parts of this run the control point differs from itself by up to {worst:.1} % in the \
                 median of the rounds."
            )
        })
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
        paragraphs.extend(self.quietness());
        let plots = self.experiment.plots.iter();
        let plots = plots.filter(|plot| !rows_of(plot, &self.rows).is_empty());
        let plots = plots.map(|plot| (plot.caption.to_owned(), draw(plot, &self.rows)));
        let plots = plots.chain(plots::ranges(self.experiment, &self.judged));
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
                summary: "All rows: medians, least and most of the rounds".into(),
                plots: Vec::new(),
                table: raw(&self.rows, self.experiment),
            }),
            ..Section::default()
        }
    }

    fn checks(&self) -> WordTable {
        let rows = self
            .experiment
            .checks
            .iter()
            .enumerate()
            .map(|(at, check)| {
                let is_section = check
                    .source
                    .starts_with(|first: char| first.is_ascii_digit());
                let section = if is_section { "section " } else { "" };
                let mut cells = vec![
                    statement(check),
                    format!("{} ({section}{})", check.paper, check.source),
                ];
                let judged = self.judged.iter().filter_map(|(_, judged)| judged.get(at));
                let judged: Vec<&Judged> = judged.collect();
                cells.extend(judged.iter().map(|judged| judged.measured.clone()));
                let names = judged.iter().map(|judged| judged.words());
                let mut verdict = names.collect::<Vec<_>>().join("; ");
                let first = judged.first().map(|judged| judged.verdict);
                if first == Some(Verdict::Differs) {
                    verdict = format!("{verdict}. {}", check.why);
                }
                for own in self.ablated.iter().filter(|own| own.at == at) {
                    let Judged { measured, .. } = &own.judged;
                    let name = own.judged.words();
                    verdict = format!("{verdict} With {}: {measured}, {name}.", own.with);
                }
                cells.push(verdict);
                (first.map_or(Tone::Plain, tone_of), cells)
            });
        let mut header = vec!["The statement".to_owned(), "The paper".to_owned()];
        let measured = self.judged.iter().map(|(variant, _)| match variant {
            Variant::Paper => "Measured, the paper's variant".to_owned(),
            Variant::Ours => "Measured, ours".to_owned(),
        });
        header.extend(measured);
        header.push("Verdict".to_owned());
        WordTable {
            header,
            rows: rows.collect(),
        }
    }
}

fn tone_of(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Inside | Verdict::SameDirection => Tone::Good,
        Verdict::Differs => Tone::Bad,
        Verdict::Undecided | Verdict::NotMeasured => Tone::Plain,
    }
}

/// The statement with its weight.
fn statement(check: &Check) -> String {
    let weight = match check.claim {
        Claim {
            basis: Basis::OwnGoal,
            ..
        } => " (our own goal)",
        Claim {
            is_headline: true, ..
        } => " (headline)",
        _ => "",
    };
    capital(check.what) + weight
}

/// A paper with its requested figures.
pub struct PaperSection<'r> {
    /// The paper.
    pub paper: &'static Paper,
    /// Its figures, in its order.
    pub figures: Vec<Figure<'r>>,
}

/// The whole page. With several papers, each has its own part, and headings name the paper.
pub fn page(parts: &[PaperSection<'_>], size: &Size) -> Page {
    let titles: Vec<&str> = parts.iter().map(|part| part.paper.title).collect();
    let leads: Vec<&str> = parts.iter().map(|part| part.paper.lead).collect();
    let mut sections = Vec::new();
    for part in parts {
        let mut own = vec![
            overview(&part.figures),
            validity(&part.figures),
            compared(part.paper),
        ];
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
    let variants = figures.first().map(|figure| {
        let variants = figure.judged.iter().map(|(variant, _)| *variant);
        variants.collect::<Vec<_>>()
    });
    let variants = variants.unwrap_or_default();
    let share = |(good, all): (u64, u64)| format!("{good} of {all}");
    let of = |figures: &[&Figure<'_>], is_in: fn(&Check) -> bool| -> Vec<String> {
        let sum = |variant: &Variant| {
            let scores = figures.iter().map(|figure| figure.score(*variant, is_in));
            scores.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
        };
        variants.iter().map(|variant| share(sum(variant))).collect()
    };
    let line = |name: &str, tone: Tone, figures: &[&Figure<'_>], is_in: fn(&Check) -> bool| {
        let mut cells = vec![name.to_owned()];
        cells.extend(of(figures, is_in));
        (tone, cells)
    };
    let all: Vec<&Figure<'_>> = figures.iter().collect();
    let mut rows = vec![
        line("Headline statements", Tone::Plain, &all, |check| {
            check.claim.is_headline
        }),
        line("Statements with numbers", Tone::Plain, &all, |check| {
            check.claim.basis == Basis::Numbers
        }),
        line("All statements", Tone::Plain, &all, |_| true),
    ];
    let own = figures
        .iter()
        .map(|figure| line(figure.experiment.title, figure.tone(), &[figure], |_| true));
    rows.extend(own);
    let mut header = vec!["Figure".to_owned()];
    header.extend(variants.iter().map(|variant| match variant {
        Variant::Paper => "The paper's variant".to_owned(),
        Variant::Ours => "Ours".to_owned(),
    }));
    Section {
        heading: "Verdicts".into(),
        paragraphs: vec![
            "A statement agrees if the 95 % interval of what was measured is inside of the paper's range (it overlaps the range and its median lies in it), \
             or has the same direction (it lies whole on the paper's side of no difference, and its median reaches a third of the paper's effect; \
             where the paper has words, it lies whole among the numbers for which they are true). The table counts those among all that were measured; \
             the others differ, or are undecided because their interval crosses a boundary. Goals of ours are not counted."
                .into(),
            "A verdict is called noisy where a control point of its rounds differs from itself by more than a tenth: measured again it may be another one."
                .into(),
            "Where a statement differs, the sentence beside it is what we hold to be the reason. After \"with\" stands an option that takes the reason away, and the \
             same statement measured so: only where it agrees then the reason is proven."
                .into(),
        ],
        words: vec![WordTable { header, rows }],
        ..Section::default()
    }
}

/// How far the numbers can be trusted.
fn validity(figures: &[Figure<'_>]) -> Section {
    let rows = || figures.iter().flat_map(|figure| &figure.rows);
    let cores = rows().map(|row| row.machine.cores).max().unwrap_or(0);
    let rounds = rows().map(|row| row.repeats).min().unwrap_or(0);
    let shares = rows().filter_map(|row| {
        let model_us = row.median("model_us_per_txn").filter(|us| *us > 0.0)?;
        let own_us = 1e6 / row.median("txn_per_cpu_s")?;
        let error_us = row.median("model_us_per_txn_error")?;
        Some((model_us / (model_us + own_us), error_us / own_us))
    });
    let shares: Vec<(f64, f64)> = shares.collect();
    let mut paragraphs = vec![format!(
        "Measured in {rounds} interleaved rounds on {cores} processors. With more threads than that, the system's scheduler is part of every number."
    )];
    if let Some(share) = median(&mut shares.iter().map(|(share, _)| *share).collect::<Vec<_>>()) {
        let errors = shares.iter().map(|(_, error)| *error);
        let error = errors.max_by(f64::total_cmp).unwrap_or(0.0);
        paragraphs.push(format!(
            "The device is emulated in software, whose own time is {:.0} % of the processor time in the median of the runs. It is measured on a sample of the accesses \
             and subtracted from throughput; the error of that is at most {:.1} % of what is left. Latencies are not corrected.",
            100.0 * share,
            100.0 * error
        ));
    }
    paragraphs.push(
        "Both variants are this engine's: the paper's is its design as the options below say, not its authors' program. Absolute numbers are not compared."
            .into(),
    );
    Section {
        heading: "Validity".into(),
        paragraphs,
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

fn facts(parts: &[PaperSection<'_>], size: &Size) -> Vec<(String, String)> {
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
        (
            "build".into(),
            distinct(&|row| format!("{}, program {}", row.machine.compiler, row.machine.binary)),
        ),
        (
            "processor".into(),
            distinct(&|row| {
                let machine = &row.machine;
                format!("{}; huge pages: {}", machine.cpu_flags, machine.huge_pages)
            }),
        ),
        ("commit".into(), stale::commits(rows().copied())),
        ("seed".into(), distinct(&|row| row.seed.to_string())),
        (
            "size".into(),
            format!("{}: {}", size.name, sizes.join("; ")),
        ),
    ]
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
        let named = row.parameters.iter();
        let mut words: Vec<String> = named
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        words.extend((row.variant != Scope::Both.name()).then(|| row.variant.clone()));
        let mut cells = vec![words.join(", ")];
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
