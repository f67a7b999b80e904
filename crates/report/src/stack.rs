//! Stacked bars as SVG text: each bar is made of pieces, whose colours a legend above explains.
//!
//! Bars are horizontal, as in `plot`, whose box, colours and letters they share. The axis is linear
//! and starts at zero, so that pieces and bars can be compared.

use crate::plot::{
    Axis, BAR, BAR_PITCH, BarArea, CHARACTER, COLOURS, Scale, WIDTH, escape, frame, short_number,
    text, text_width,
};
use std::fmt::Write as _;

/// Bars of pieces.
pub struct StackChart {
    /// The heading, or the quantity shown.
    pub title: String,
    /// Names of the pieces of every bar.
    pub pieces: Vec<String>,
    /// The bars, from top to bottom.
    pub bars: Vec<StackBar>,
}

/// One bar.
pub struct StackBar {
    /// The name.
    pub name: String,
    /// The text after it.
    pub label: String,
    /// One value a piece, not negative.
    pub values: Vec<f64>,
}

impl StackChart {
    /// The chart as an SVG element.
    pub fn svg(&self) -> String {
        let mut body = String::new();
        let mut y = self.legend(&mut body) + 10.0;
        let left = text_width(self.bars.iter().map(|bar| &bar.name)) + 14.0;
        let labels = text_width(self.bars.iter().map(|bar| &bar.label));
        let place = BarArea {
            left,
            room: (WIDTH - labels - 10.0 - left).max(40.0),
            axis: Axis::over(self.bars.iter().map(StackBar::total), Scale::Linear),
        };
        for bar in &self.bars {
            text(&mut body, (left - 8.0, y + 12.0), "end", "name", &bar.name);
            let mut x = left;
            for (index, value) in bar.values.iter().enumerate() {
                let width = place.axis.part(*value) * place.room;
                let name = self.pieces.get(index).map_or("", String::as_str);
                let _ = write!(
                    body,
                    "<rect class=\"f{}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR:.0}\">\
                     <title>{}: {} {}</title></rect>",
                    index % COLOURS,
                    escape(&bar.name),
                    escape(name),
                    short_number(*value)
                );
                x += width;
            }
            text(&mut body, (x + 6.0, y + 12.0), "start", "value", &bar.label);
            y += BAR_PITCH;
        }
        y = place.marks(&mut body, y + 2.0);
        frame(&self.title, y, &body)
    }

    /// Draws the names of the pieces in as many lines as they need; returns where the last one
    /// ends.
    fn legend(&self, body: &mut String) -> f64 {
        const LINE: f64 = 17.0;
        // A little below the edge, where no font is cut off at any scale.
        let (mut x, mut y) = (0.0, 2.0);
        for (index, name) in self.pieces.iter().enumerate() {
            let width = name.chars().count() as f64 * CHARACTER + 26.0;
            if x > 0.0 && x + width > WIDTH {
                (x, y) = (0.0, y + LINE);
            }
            let colour = index % COLOURS;
            let _ = write!(
                body,
                "<rect class=\"f{colour}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\"/>",
                y + 1.0
            );
            text(body, (x + 15.0, y + 10.0), "start", "name", name);
            x += width;
        }
        y + LINE
    }
}

impl StackBar {
    fn total(&self) -> f64 {
        self.values.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_lie_behind_each_other_inside_the_box() {
        let chart = StackChart {
            title: "t".into(),
            pieces: vec!["a".into(), "b".into()],
            bars: vec![StackBar {
                name: "m".into(),
                label: "4".into(),
                values: vec![1.0, 3.0],
            }],
        };
        let svg = chart.svg();
        let number = |rect: &str, name: &str| -> f64 {
            let rest = rect.split(&format!(" {name}=\"")).nth(1).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let pieces: Vec<(f64, f64)> = svg
            .split("<rect")
            .skip(3)
            .map(|rect| (number(rect, "x"), number(rect, "width")))
            .collect();
        assert_eq!(pieces.len(), 2);
        assert!((pieces[0].0 + pieces[0].1 - pieces[1].0).abs() < 0.2);
        assert!((pieces[1].1 / pieces[0].1 - 3.0).abs() < 0.01);
        assert!(pieces[1].0 + pieces[1].1 <= WIDTH);
    }
}
