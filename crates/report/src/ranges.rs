//! Ranges as SVG text: for each statement a band, which is the range that a paper states, and the
//! intervals that were measured, over one axis.
//!
//! A statement is a sentence, so it stands above its band in as many lines as it needs; each
//! interval has a line of its own, with its name before it and its value after it.

use crate::plot::{
    Axis, CHARACTER, COLOURS, Scale, WIDTH, frame, interval, line, short_number, text, text_width,
};
use std::fmt::Write as _;

/// Statements over one axis.
pub struct RangeChart {
    /// The quantity shown.
    pub title: String,
    /// The scale of the axis.
    pub scale: Scale,
    /// The statements, from top to bottom.
    pub rows: Vec<RangeRow>,
}

/// A statement.
pub struct RangeRow {
    /// The name.
    pub name: String,
    /// May be open to one side.
    pub range: (f64, f64),
    /// Names of intervals, with the lower end, the value and the upper end of each.
    pub measured: Vec<(String, (f64, f64, f64))>,
}

/// Units from a line of a sentence to the next, and from an interval to the next.
const SENTENCE: f64 = 15.0;
const PITCH: f64 = 15.0;
/// Units before a sentence, since ink of a letter may reach over the place where it begins.
const MARGIN: f64 = 1.0;

impl RangeChart {
    /// The chart as an SVG element.
    pub fn svg(&self) -> String {
        const GAP: f64 = 9.0;
        let measured = || self.rows.iter().flat_map(|row| &row.measured);
        let left = text_width(measured().map(|(name, _)| name)) + 12.0;
        let values: Vec<String> = measured().map(|(_, own)| short_number(own.1)).collect();
        let right = WIDTH - text_width(values.iter()) - 10.0;
        let axis = self.axis();
        let place = |value: f64| left + axis.part(value) * (right - left);
        let mut body = String::new();
        let mut y = 0.0;
        for row in &self.rows {
            for words in lines(&row.name) {
                text(&mut body, (MARGIN, y + 11.0), "start", "name", &words);
                y += SENTENCE;
            }
            let (from, to) = (place(row.range.0), place(row.range.1));
            let height = PITCH * row.measured.len() as f64;
            let _ = write!(
                body,
                "<rect class=\"band\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
                (to - from).max(2.0)
            );
            for (index, (name, (low, value, high))) in row.measured.iter().enumerate() {
                let middle = y + PITCH / 2.0;
                text(&mut body, (left - 8.0, middle + 4.0), "end", "tick", name);
                interval(&mut body, (place(*low), middle), (place(*high), middle));
                let _ = write!(
                    body,
                    "<circle class=\"f{}\" cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"3.6\"/>",
                    index % COLOURS,
                    place(*value)
                );
                let at = (right + 6.0, middle + 4.0);
                text(&mut body, at, "start", "value", &short_number(*value));
                y += PITCH;
            }
            y += GAP;
        }
        line(&mut body, (left, y), (right, y));
        let ticks = axis.ticks();
        for (index, tick) in ticks.iter().enumerate() {
            let x = place(tick.at);
            line(&mut body, (x, y), (x, y + 4.0));
            // The outer names lean inwards; those between have room on short axes only.
            let anchor = match index {
                0 => "start",
                _ if index + 1 == ticks.len() => "end",
                _ if ticks.len() <= 4 => "middle",
                _ => continue,
            };
            text(&mut body, (x, y + 15.0), anchor, "tick", &tick.text);
        }
        frame(&self.title, y + 20.0, &body)
    }

    /// The axis of all intervals, of the ends of all ranges, and of 1 where ratios are shown.
    fn axis(&self) -> Axis {
        let ends = self.rows.iter().flat_map(|row| {
            let of_interval = |(_, (low, _, high)): &(String, (f64, f64, f64))| [*low, *high];
            let measured = row.measured.iter().flat_map(of_interval);
            measured.chain([row.range.0, row.range.1])
        });
        let is_ratio = self.scale == Scale::Logarithmic;
        let usable = |value: &f64| value.is_finite() && (!is_ratio || *value > 0.0);
        Axis::over(
            ends.filter(usable).chain(is_ratio.then_some(1.0)),
            self.scale,
        )
    }
}

/// A sentence in lines that fit the width.
fn lines(sentence: &str) -> Vec<String> {
    let fits = |characters: usize| MARGIN + characters as f64 * CHARACTER <= WIDTH;
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split_whitespace() {
        match lines.last_mut() {
            Some(line) if fits(line.chars().count() + 1 + word.chars().count()) => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sentences_are_broken_between_words() {
        let sentence = "one ".repeat(40);
        let lines = lines(&sentence);
        assert!(lines.len() > 2);
        assert!(
            lines
                .iter()
                .all(|line| line.len() as f64 * CHARACTER <= WIDTH)
        );
        assert_eq!(lines.join(" "), sentence.trim());
    }

    #[test]
    fn an_open_range_and_an_interval_lie_inside_the_box() {
        let chart = RangeChart {
            title: "ratio".into(),
            scale: Scale::Logarithmic,
            rows: vec![RangeRow {
                name: "ahead".into(),
                range: (1.0, f64::INFINITY),
                measured: vec![("paper".into(), (0.0, 2.0, 30.0))],
            }],
        };
        let svg = chart.svg();
        assert!(svg.contains("class=\"band\"") && !svg.contains("inf") && !svg.contains("NaN"));
        for part in svg.split(" x=\"").skip(1) {
            let x: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((0.0..=WIDTH).contains(&x), "{x}");
        }
    }
}
