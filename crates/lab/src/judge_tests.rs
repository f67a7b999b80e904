//! Verdicts of made-up rows.
//!
//! Speeds of a few rounds are given, so that ratios and their intervals are known; each verdict is
//! asked for on both sides of its boundary.

use super::*;
use crate::control::Control;
use crate::experiment::{ANY, Claim, Kind};
use crate::point::Point;
use crate::rows::{Metrics, Sample};
use crate::size::Size;
use measure::conditions::Conditions;
use measure::machine::Machine;
use std::path::Path;

fn row(method: &str, mix: &str, speeds: &[f64]) -> LabRow {
    let parameters = [("method", method), ("mix", mix)];
    let parameters = parameters.map(|(name, value)| (name.into(), value.into()));
    let point = Point::new(Kind::Ycsb, parameters.into(), 1);
    let sample = |(round, speed): (u32, &f64)| Sample {
        round,
        order: round,
        conditions: Conditions::default(),
        counters: Metrics::new(),
        metrics: Metrics::from([("speed".into(), *speed)]),
    };
    let samples = (0..).zip(speeds).map(sample).collect();
    let made = ("abc", Machine::here(Path::new("."), "none"));
    LabRow::new(&point, &Size::smoke(), samples, made)
}

fn check(claim: Claim, test: Test) -> Check {
    Check {
        what: "",
        paper: "",
        source: "",
        claim,
        test,
        why: "",
    }
}

fn faster(within: Within) -> Test {
    Test::Ratio {
        metric: "speed",
        over: &[("method", "new")],
        under: &[("method", "old")],
        rows: &[],
        within,
    }
}

/// The verdict on a paper's range of the ratio of these speeds to 10.
fn on_numbers(speeds: &[f64], (from, to): (f64, f64)) -> Verdict {
    let rows = [row("new", "x", speeds), row("old", "x", &[10.0; 5])];
    let rows: Vec<&LabRow> = rows.iter().collect();
    let check = check(Claim::NUMBERS, faster(Within::Mean(from, to)));
    judge(&check, &rows, &[]).verdict
}

#[test]
fn an_interval_is_compared_with_the_papers_range() {
    use Verdict::{Differs, Inside, NotMeasured, SameDirection, Undecided};
    let steady = |speed: f64| [speed * 0.99, speed, speed * 1.01, speed, speed];
    for (ratio, range, verdict) in [
        (2.0, (1.9, 2.1), Inside),
        (3.0, (1.9, 2.1), SameDirection),  // beyond it
        (1.35, (1.9, 2.1), SameDirection), // a third of 0.9 is 0.3
        (1.2, (1.9, 2.1), Differs),
        (0.8, (1.9, 2.1), Differs),
        (0.7, (0.52, 0.83), Inside),
        (0.3, (0.52, 0.83), SameDirection),
        (0.9, (0.52, 0.83), SameDirection), // a third of 0.17 is 0.06
        (0.97, (0.52, 0.83), Differs),
        (1.2, (0.52, 0.83), Differs),
        (0.7, (0.9, 1.1), Differs), // the paper sees no difference
    ] {
        assert_eq!(on_numbers(&steady(10.0 * ratio), range), verdict, "{ratio}");
    }
    let wide = [8.0, 9.0, 14.0, 15.0, 16.0];
    assert_eq!(on_numbers(&wide, (1.9, 2.1)), Undecided, "it crosses 1");
    let about = [12.0, 12.5, 12.9, 13.5, 14.0];
    assert_eq!(on_numbers(&about, (1.9, 2.1)), Undecided, "or a third");
    assert_eq!(
        on_numbers(&[20.0, 20.0], (1.9, 2.1)),
        NotMeasured,
        "2 rounds"
    );
}

#[test]
fn words_are_true_in_a_range() {
    let on_words = |speeds: &[f64]| {
        let rows = [row("new", "x", speeds), row("old", "x", &[10.0; 5])];
        let rows: Vec<&LabRow> = rows.iter().collect();
        judge(
            &check(Claim::WORDS, faster(Within::Mean(1.0, ANY))),
            &rows,
            &[],
        )
        .verdict
    };
    assert_eq!(
        on_words(&[10.1, 10.2, 10.3, 10.4, 10.5]),
        Verdict::SameDirection
    );
    assert_eq!(on_words(&[9.0, 10.2, 10.3, 10.4, 10.5]), Verdict::Undecided);
    assert_eq!(on_words(&[9.0, 9.1, 9.2, 9.3, 9.4]), Verdict::Differs);
}

#[test]
fn drift_that_meets_both_sides_of_a_ratio_is_not_in_it() {
    let (new, old) = ([20.0, 10.0, 40.0], [10.0, 5.0, 20.0]);
    let rows = [row("new", "x", &new), row("old", "x", &old)];
    let rows: Vec<&LabRow> = rows.iter().collect();
    let judged = judge(
        &check(Claim::NUMBERS, faster(Within::Mean(1.9, 2.1))),
        &rows,
        &[],
    );
    assert_eq!(judged.measured, "2.00x [2.00, 2.00]");
}

/// A sample without a number shifted all later rounds against those of the other row.
#[test]
fn a_missing_sample_leaves_out_its_round_only() {
    let mut rows = [
        row("new", "x", &[20.0, 10.0, 40.0, 60.0]),
        row("old", "x", &[10.0, 5.0, 20.0, 30.0]),
    ];
    rows[1].samples[1].metrics.clear();
    let rows: Vec<&LabRow> = rows.iter().collect();
    for within in [Within::Mean(1.9, 2.1), Within::Each(1.9, 2.1)] {
        let judged = judge(&check(Claim::NUMBERS, faster(within)), &rows, &[]);
        assert_eq!(judged.measured, "2.00x [2.00, 2.00]");
    }
}

#[test]
fn ratios_pair_rows_that_differ_in_nothing_else() {
    let rows = [
        row("new", "reads", &[10.0; 3]),
        row("old", "reads", &[10.0; 3]),
        row("new", "writes", &[8.0; 3]),
        row("old", "writes", &[2.0; 3]),
        row("new", "alone", &[1.0; 3]),
    ];
    let rows: Vec<&LabRow> = rows.iter().collect();
    let of = |within| judge(&check(Claim::NUMBERS, faster(within)), &rows, &[]);
    let mean = of(Within::Mean(1.9, 2.1));
    assert_eq!(mean.verdict, Verdict::Inside);
    assert_eq!(
        mean.measured,
        "2.00x [2.00, 2.00]; 2 numbers of 1.00 to 4.00"
    );
    let worst = of(Within::Each(1.1, 9.0));
    assert_eq!(worst.verdict, Verdict::Differs, "one of them is 1");
    assert!((worst.interval.unwrap().value - 1.0).abs() < 1e-9);
    let none = judge(
        &check(Claim::NUMBERS, faster(Within::Each(0.9, 9.0))),
        &[],
        &[],
    );
    assert_eq!(none.verdict, Verdict::NotMeasured);
    let growth = Test::Growth {
        metric: "speed",
        over: &[("method", "new")],
        under: &[("method", "old")],
        low: &[("mix", "reads")],
        high: &[("mix", "writes")],
        rows: &[],
        within: Within::Each(3.9, 4.1),
    };
    assert_eq!(
        judge(&check(Claim::NUMBERS, growth), &rows, &[]).verdict,
        Verdict::Inside
    );
}

#[test]
fn the_best_is_sought_along_one_axis() {
    let rows = [
        row("a", "x", &[9.0; 3]),
        row("a", "y", &[10.0; 3]),
        row("b", "x", &[50.0; 3]),
    ];
    let rows: Vec<&LabRow> = rows.iter().collect();
    let best = Test::Best {
        metric: "speed",
        along: "mix",
        at: "x",
        rows: &[("method", "a")],
        within: Within::Each(0.85, 1.0),
    };
    let judged = judge(&check(Claim::WORDS, best), &rows, &[]);
    let expected = (Verdict::SameDirection, "0.90x of the best [0.90, 0.90]");
    assert_eq!((judged.verdict, judged.measured.as_str()), expected);
}

#[test]
fn a_verdict_tells_the_noise_of_its_rounds() {
    let mut rows = [
        row("new", "x", &[20.0; 5]),
        row("old", "x", &[10.0; 5]),
        row("other", "x", &[10.0; 5]),
    ];
    let control = |ratio: f64| {
        Some(Control {
            config: String::new(),
            metric: "speed".into(),
            ratios: vec![ratio; 5],
        })
    };
    let check = check(Claim::NUMBERS, faster(Within::Mean(1.9, 2.1)));
    let of = |rows: &[LabRow]| {
        let rows: Vec<&LabRow> = rows.iter().collect();
        judge(&check, &rows, &[])
    };
    assert_eq!(of(&rows).control, None);
    rows[0].control = control(1.05);
    rows[2].control = control(3.0);
    let quiet = of(&rows);
    assert!(!quiet.is_noisy() && quiet.control.is_some_and(|own| own < 0.06));
    assert_eq!(quiet.words(), "inside");
    rows[1].control = control(0.8);
    let noisy = of(&rows);
    assert!(noisy.is_noisy() && noisy.control.is_some_and(|own| own > 0.2));
    assert_eq!(noisy.words(), "inside (noisy)");
}

/// The fastest of all was found among the rows that were there, which made it true where its own
/// row was the only one; means were those of the numbers that were there.
#[test]
fn a_part_of_the_runs_judges_nothing() {
    let all = [
        row("a", "x", &[9.0; 3]),
        row("a", "y", &[10.0; 3]),
        row("b", "x", &[3.0; 3]),
        row("b", "y", &[5.0; 3]),
    ];
    let best = Test::Best {
        metric: "speed",
        along: "mix",
        at: "x",
        rows: &[("method", "a")],
        within: Within::Each(0.85, 1.0),
    };
    let faster = Test::Ratio {
        metric: "speed",
        over: &[("method", "a")],
        under: &[("method", "b")],
        rows: &[],
        within: Within::Mean(2.0, 3.0),
    };
    let grows = Test::Growth {
        metric: "speed",
        over: &[("method", "a")],
        under: &[("method", "b")],
        low: &[("mix", "x")],
        high: &[("mix", "y")],
        rows: &[],
        within: Within::Each(0.5, 0.8),
    };
    let value = Test::Value {
        metric: "speed",
        rows: &[("method", "b")],
        within: Within::Each(2.0, 6.0),
    };
    // The runs that each of them needs.
    for (test, needed) in [
        (best, [true, true, false, false]),
        (faster, [true; 4]),
        (grows, [true; 4]),
        (value, [false, false, true, true]),
    ] {
        let check = check(Claim::WORDS, test);
        let whole: Vec<&LabRow> = all.iter().collect();
        let judged = judge(&check, &whole, &[]);
        assert_eq!(judged.verdict, Verdict::SameDirection);
        for (at, is_needed) in needed.into_iter().enumerate() {
            let mut rows = whole.clone();
            let missing = rows.remove(at).parameters.clone();
            let judged = judge(&check, &rows, &[missing]);
            let expected = if is_needed {
                Verdict::NotMeasured
            } else {
                Verdict::SameDirection
            };
            assert_eq!(judged.verdict, expected, "without {at}");
            let count = needed.iter().filter(|is_needed| **is_needed).count();
            let text = format!("not measured: 1 of {count} runs are missing");
            assert_eq!(judged.measured == text, is_needed);
        }
    }
}
