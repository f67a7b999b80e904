//! Plots as SVG text: grouped bars and lines.
//!
//! A plot is drawn in a box of [`WIDTH`] units that the page shows at about its natural size on a
//! telephone and on a desktop alike (the page puts more plots side by side instead of stretching
//! one), so text stays legible. Colours are the page's CSS variables, so one drawing serves light
//! and dark. Bars are horizontal, so their names and values are never turned, shortened or cut off.
//!
//! Always true: the drawing lies inside the box; equal input gives equal text.

use std::fmt::Write as _;

/// Units across a plot.
pub(crate) const WIDTH: f64 = 360.0;
/// Series colours that the page defines. Bars of more series share colours, and have names; lines
/// that share a colour have other dashes and marks.
pub(crate) const COLOURS: usize = 6;
/// Rough width of a character of 11 units height.
pub(crate) const CHARACTER: f64 = 6.9;

/// Bars in groups: one group a setting, one bar a series.
pub struct BarChart {
    /// The quantity shown, with its unit.
    pub title: String,
    /// Names of the bars of every group.
    pub series: Vec<String>,
    /// The groups, from top to bottom.
    pub groups: Vec<BarGroup>,
    /// How lengths show values. On a logarithmic scale lengths show orders of magnitude; the
    /// caption must say so.
    pub scale: Scale,
}

/// The bars of one setting.
pub struct BarGroup {
    /// Empty if the chart has one group only.
    pub name: String,
    /// One value a series and the text at its bar; `None` where nothing was measured.
    pub bars: Vec<Option<(f64, String)>>,
    /// The interval of each value, if they have intervals.
    pub ranges: Vec<Option<(f64, f64)>>,
}

/// Lines over two axes.
pub struct LineChart {
    /// The heading, or the quantity shown.
    pub title: String,
    /// The quantity of the x axis.
    pub x_label: String,
    /// The quantity of the y axis.
    pub y_label: String,
    /// The scale of the x axis.
    pub x_scale: Scale,
    /// The scale of the y axis.
    pub y_scale: Scale,
    /// Marks of the x axis in ascending order, from the least x to the greatest; empty for round
    /// numbers. On a logarithmic axis a first mark of zero stands at the left end, as far from the
    /// next one as that is from a tenth of it.
    pub x_ticks: Vec<Tick>,
    /// The lines.
    pub series: Vec<LineSeries>,
}

/// One line.
pub struct LineSeries {
    /// The name.
    pub name: String,
    /// In ascending order of x. On a logarithmic axis values must be positive, but for an x of zero
    /// that has a mark; others are left out.
    pub points: Vec<(f64, f64)>,
    /// The interval of each y, if they have intervals.
    pub ranges: Vec<(f64, f64)>,
}

/// Mapping of the values of an axis to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By value.
    Linear,
    /// By order of magnitude.
    Logarithmic,
}

/// A named position on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The value.
    pub at: f64,
    /// Its name.
    pub text: String,
}

impl BarChart {
    /// The chart as an SVG element.
    pub fn svg(&self) -> String {
        const HEADING: f64 = 22.0;
        const GAP: f64 = 8.0;
        let bars = || self.groups.iter().flat_map(|group| &group.bars).flatten();
        let ranges = self.groups.iter().flat_map(|group| &group.ranges);
        let ends = ranges.flatten().map(|(_, high)| *high);
        let left = text_width(self.series.iter()) + 14.0;
        let right = WIDTH - text_width(bars().map(|(_, text)| text)) - 10.0;
        let place = BarArea {
            left,
            room: (right - left).max(40.0),
            axis: Axis::over(bars().map(|(value, _)| *value).chain(ends), self.scale),
        };
        let mut body = String::new();
        let mut y = 0.0;
        for group in &self.groups {
            if !group.name.is_empty() {
                text(&mut body, (0.0, y + 14.0), "start", "group", &group.name);
                y += HEADING;
            }
            for (index, bar) in group.bars.iter().enumerate() {
                let series = self.series.get(index).map_or("", String::as_str);
                let at = (left - 8.0, y + 12.0);
                text(&mut body, at, "end", "name", series);
                let range = group.ranges.get(index).copied().flatten();
                place.draw(&mut body, y, index % COLOURS, bar.as_ref(), range);
                y += BAR_PITCH;
            }
            y += GAP;
        }
        y = place.marks(&mut body, y);
        frame(&self.title, y.max(20.0), &body)
    }
}

/// Units from one bar to the next, and of a bar.
pub(crate) const BAR_PITCH: f64 = 19.0;
pub(crate) const BAR: f64 = 15.0;

/// Start of the bars of a chart, their greatest length, and the value of a unit of length.
pub(crate) struct BarArea {
    pub(crate) left: f64,
    pub(crate) room: f64,
    pub(crate) axis: Axis,
}

impl BarArea {
    /// Draws the axis below the bars, with the names of its ends; returns its lower end.
    pub(crate) fn marks(&self, body: &mut String, y: f64) -> f64 {
        line(body, (self.left, y), (self.left + self.room, y));
        let ticks = self.axis.ticks();
        let ends = ticks.first().into_iter().chain(ticks.last());
        for (tick, anchor) in ends.zip(["start", "end"]) {
            let x = self.left + self.axis.part(tick.at) * self.room;
            line(body, (x, y), (x, y + 4.0));
            text(body, (x, y + 15.0), anchor, "tick", &tick.text);
        }
        y + 20.0
    }

    /// Draws a bar with its interval and its value, or says that there is none.
    fn draw(
        &self,
        body: &mut String,
        y: f64,
        colour: usize,
        bar: Option<&(f64, String)>,
        range: Option<(f64, f64)>,
    ) {
        let Some((value, label)) = bar else {
            text(body, (self.left, y + 12.0), "start", "none", "not measured");
            return;
        };
        let width = (self.axis.part(*value) * self.room).max(1.0);
        let path = bar_path(self.left, y, width, BAR);
        let _ = write!(body, "<path class=\"f{colour}\" d=\"{path}\"/>");
        let mut end = self.left + width;
        if let Some((low, high)) = range {
            let [from, to] = [low, high].map(|at| self.left + self.axis.part(at) * self.room);
            let middle = y + BAR / 2.0;
            interval(body, (from, middle), (to, middle));
            end = end.max(to);
        }
        text(body, (end + 6.0, y + 12.0), "start", "value", label);
    }
}

impl LineChart {
    /// The chart as an SVG element, with the legend below it.
    pub fn svg(&self) -> String {
        const TOP: f64 = 22.0;
        const PLOT: f64 = 180.0;
        let y_axis = self.y_axis();
        let x_axis = self.x_axis();
        let y_ticks = y_axis.ticks();
        let left = text_width(y_ticks.iter().map(|tick| &tick.text)) + 12.0;
        let right = WIDTH - 14.0;
        let place_x = |x: f64| left + x_axis.part(x) * (right - left);
        let place_y = |y: f64| TOP + PLOT - y_axis.part(y) * PLOT;
        let mut body = String::new();
        text(&mut body, (0.0, 11.0), "start", "axis", &self.y_label);
        for tick in &y_ticks {
            let y = place_y(tick.at);
            line(&mut body, (left, y), (right, y));
            text(&mut body, (left - 6.0, y + 4.0), "end", "tick", &tick.text);
        }
        let x_ticks = if self.x_ticks.is_empty() {
            x_axis.ticks()
        } else {
            self.x_ticks.clone()
        };
        for tick in &x_ticks {
            // The outermost names lean inwards so that they stay inside the box.
            let x = place_x(tick.at);
            let half = tick.text.chars().count() as f64 * CHARACTER / 2.0;
            let x = x.clamp(half, WIDTH - half);
            text(
                &mut body,
                (x, TOP + PLOT + 16.0),
                "middle",
                "tick",
                &tick.text,
            );
        }
        text(
            &mut body,
            (left.midpoint(right), TOP + PLOT + 33.0),
            "middle",
            "axis",
            &self.x_label,
        );
        for (index, series) in self.series.iter().enumerate() {
            let shown = series.points.iter().zip(0..);
            let shown = shown.filter(|((x, y), _)| self.has_x(*x) && usable(*y, self.y_scale));
            let (mut places, mut intervals) = (Vec::new(), Vec::new());
            for ((x, y), at) in shown {
                places.push((place_x(*x), place_y(*y), *y));
                if let Some((low, high)) = series.ranges.get::<usize>(at) {
                    let ends = [*low, *high].map(place_y);
                    intervals.push((place_x(*x), ends));
                }
            }
            Style::of(index).draw(&mut body, &series.name, &places);
            for (x, [low, high]) in intervals {
                interval(&mut body, (x, low), (x, high));
            }
        }
        let height = self.legend(&mut body, TOP + PLOT + 52.0);
        frame(&self.title, height, &body)
    }

    /// The axis from the first mark to the last, or of all points where there are no marks.
    fn x_axis(&self) -> Axis {
        let marks = || self.x_ticks.iter().map(|tick| tick.at);
        let mut positive = marks().filter(|at| usable(*at, self.x_scale));
        // An axis with marks of its own needs no round ends.
        if let (Some(first), Some(last)) = (positive.next(), marks().next_back())
            && first < last
        {
            return Axis {
                low: if self.has_zero() { first / 10.0 } else { first },
                high: last,
                scale: self.x_scale,
            };
        }
        let points = self.series.iter().flat_map(|series| &series.points);
        let xs = points.map(|point| point.0);
        Axis::over(xs.filter(|x| usable(*x, self.x_scale)), self.x_scale)
    }

    /// Whether zero has a mark on an axis that has no place for it by itself.
    fn has_zero(&self) -> bool {
        let first = self.x_ticks.first().map(|tick| tick.at);
        self.x_scale == Scale::Logarithmic && first == Some(0.0)
    }

    /// Whether points with this x are shown.
    fn has_x(&self, x: f64) -> bool {
        usable(x, self.x_scale) || x == 0.0 && self.has_zero()
    }

    /// The axis of all values and the upper ends of their intervals.
    fn y_axis(&self) -> Axis {
        let points = self.series.iter().flat_map(|series| &series.points);
        let ends = self.series.iter().flat_map(|series| &series.ranges);
        let ys = points
            .map(|point| point.1)
            .chain(ends.map(|(_, high)| *high));
        Axis::over(ys.filter(|y| usable(*y, self.y_scale)), self.y_scale)
    }

    /// Draws the legend from `y` downwards and returns its lower end.
    fn legend(&self, body: &mut String, y: f64) -> f64 {
        let mut place = (0.0, y);
        for (index, series) in self.series.iter().enumerate() {
            let width = 27.0 + series.name.chars().count() as f64 * CHARACTER + 12.0;
            if place.0 > 0.0 && place.0 + width > WIDTH {
                place = (0.0, place.1 + 18.0);
            }
            let middle = place.1 - 4.0;
            let style = Style::of(index);
            style.line(body, &[(place.0, middle), (place.0 + 20.0, middle)]);
            style.mark(body, (place.0 + 10.0, middle), "");
            text(
                body,
                (place.0 + 24.0, place.1),
                "start",
                "name",
                &series.name,
            );
            place.0 += width;
        }
        place.1 + 8.0
    }
}

/// Whether a value has a place on an axis.
fn usable(value: f64, scale: Scale) -> bool {
    value.is_finite() && (scale == Scale::Linear || value > 0.0)
}

/// The range of an axis and how it maps values to 0..=1.
pub(crate) struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Axis {
    /// The axis of these values.
    pub(crate) fn over(values: impl Iterator<Item = f64>, scale: Scale) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        match scale {
            // Bars and lines over a linear axis start at zero, so that lengths may be compared.
            Scale::Linear => Self {
                low: low.min(0.0),
                high: round_up(high.max(low + 1e-9)),
                scale,
            },
            Scale::Logarithmic => {
                let low = 10_f64.powf(low.max(f64::MIN_POSITIVE).log10().floor());
                let high = 10_f64.powf(high.log10().ceil());
                Self {
                    low,
                    high: if high > low { high } else { low * 10.0 },
                    scale,
                }
            }
        }
    }

    /// The place of a value, from 0 to 1; values outside lie at the ends.
    pub(crate) fn part(&self, value: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic if value <= 0.0 => 0.0,
            Scale::Logarithmic => {
                (value.log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
            }
        };
        part.clamp(0.0, 1.0)
    }

    /// Its marks.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        let values: Vec<f64> = match self.scale {
            Scale::Linear => (0..=4)
                .map(|i| self.low + (self.high - self.low) * f64::from(i) / 4.0)
                .collect(),
            Scale::Logarithmic => {
                let (first, last) = (
                    self.low.log10().round() as i32,
                    self.high.log10().round() as i32,
                );
                (first..=last).map(|power| 10_f64.powi(power)).collect()
            }
        };
        values
            .into_iter()
            .map(|at| Tick {
                at,
                text: short_number(at),
            })
            .collect()
    }
}

/// The next of 1, 2, 4, 5, 10 times a power of ten.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let unit = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    let step = steps
        .into_iter()
        .find(|step| step * unit >= value * (1.0 - 1e-9));
    step.unwrap_or(10.0) * unit
}

/// A number in few characters: `1.5M`, `200k`, `0.05`.
pub fn short_number(value: f64) -> String {
    let size = value.abs();
    let (scaled, suffix) = if size >= 999_500_000.0 {
        (value / 1e9, "G")
    } else if size >= 999_500.0 {
        (value / 1e6, "M")
    } else if size >= 1000.0 {
        (value / 1e3, "k")
    } else {
        (value, "")
    };
    let decimals = match scaled.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 || size == 0.0 => 2,
        _ => 4,
    };
    let mut digits = format!("{scaled:.decimals$}");
    if digits.contains('.') {
        digits.truncate(digits.trim_end_matches('0').trim_end_matches('.').len());
    }
    digits + suffix
}

/// A bar with round right corners.
fn bar_path(x: f64, y: f64, width: f64, height: f64) -> String {
    let radius = width.min(3.0);
    let straight = width - radius;
    let inner = height - 2.0 * radius;
    format!(
        "M{x:.1} {y:.1}h{straight:.1}q{radius:.1} 0 {radius:.1} {radius:.1}v{inner:.1}\
         q0 {radius:.1} -{radius:.1} {radius:.1}h-{straight:.1}z"
    )
}

/// The look of a line: its colour, and which of the lines of that colour it is.
#[derive(Clone, Copy)]
struct Style {
    colour: usize,
    dashes: usize,
}

/// Dashes and marks that the page defines; lines beyond the last look like others.
const DASHES: usize = 3;

impl Style {
    fn of(index: usize) -> Self {
        Self {
            colour: index % COLOURS,
            dashes: index / COLOURS % DASHES,
        }
    }

    /// Draws a line through places, with a mark at each that tells its value.
    fn draw(self, body: &mut String, name: &str, places: &[(f64, f64, f64)]) {
        let path: Vec<(f64, f64)> = places.iter().map(|(x, y, _)| (*x, *y)).collect();
        self.line(body, &path);
        for (x, y, value) in places {
            let told = format!("<title>{} {}</title>", escape(name), short_number(*value));
            self.mark(body, (*x, *y), &told);
        }
    }

    fn line(self, body: &mut String, path: &[(f64, f64)]) {
        let path: Vec<String> = path.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let Self { colour, dashes } = self;
        let path = path.join(" ");
        let _ = write!(
            body,
            "<polyline class=\"l{colour} d{dashes}\" points=\"{path}\"/>"
        );
    }

    /// A circle, a square, or a square on its corner.
    fn mark(self, body: &mut String, (x, y): (f64, f64), content: &str) {
        let colour = self.colour;
        let _ = match self.dashes {
            0 => write!(
                body,
                "<circle class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\">{content}</circle>"
            ),
            1 => write!(
                body,
                "<path class=\"f{colour}\" d=\"M{:.1} {:.1}h6v6h-6z\">{content}</path>",
                x - 3.0,
                y - 3.0
            ),
            _ => write!(
                body,
                "<path class=\"f{colour}\" d=\"M{x:.1} {:.1}l4 4l-4 4l-4 -4z\">{content}</path>",
                y - 4.0
            ),
        };
    }
}

/// The line of a 95 % interval.
pub(crate) fn interval(body: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = write!(
        body,
        "<line class=\"interval\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

pub(crate) fn line(body: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = write!(
        body,
        "<line class=\"grid\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

pub(crate) fn text(body: &mut String, at: (f64, f64), anchor: &str, class: &str, content: &str) {
    let _ = write!(
        body,
        "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
        at.0,
        at.1,
        escape(content)
    );
}

pub(crate) fn frame(title: &str, height: f64, body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">{body}</svg>",
        escape(title)
    )
}

pub(crate) fn text_width<'a>(texts: impl Iterator<Item = &'a String>) -> f64 {
    texts.map(|text| text.chars().count()).max().unwrap_or(0) as f64 * CHARACTER
}

/// Text that may stand in HTML and SVG, in attributes too.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_right() {
        let cases = [
            (0.0, "0"),
            (0.05, "0.05"),
            (3.0, "3"),
            (999.6, "1000"),
            (1500.0, "1.5k"),
            (999_600.0, "1M"),
            (2_150_000.0, "2.15M"),
            (4e9, "4G"),
        ];
        for (value, expected) in cases {
            assert_eq!(short_number(value), expected, "{value}");
        }
    }

    #[test]
    fn axes_hold_their_values() {
        let axis = Axis::over([3.0, 70.0].into_iter(), Scale::Logarithmic);
        assert!((axis.low - 1.0).abs() < 1e-9 && (axis.high - 100.0).abs() < 1e-9);
        assert_eq!(axis.ticks().len(), 3);
        let axis = Axis::over([3.0, 70.0].into_iter(), Scale::Linear);
        assert!((axis.part(0.0)).abs() < 1e-9 && axis.high >= 70.0);
        let empty = Axis::over(std::iter::empty(), Scale::Logarithmic);
        assert!(empty.high > empty.low);
    }

    fn chart(x_scale: Scale, x_ticks: &[f64], lines: usize) -> LineChart {
        let tick = |at: &f64| Tick {
            at: *at,
            text: short_number(*at),
        };
        let line = |number: usize| LineSeries {
            name: format!("line {number}"),
            points: x_ticks.iter().map(|x| (*x, 5.0)).collect(),
            ranges: x_ticks.iter().map(|_| (4.0, 6.0)).collect(),
        };
        LineChart {
            title: String::new(),
            x_label: String::new(),
            y_label: String::new(),
            x_scale,
            y_scale: Scale::Linear,
            x_ticks: x_ticks.iter().map(tick).collect(),
            series: (0..lines).map(line).collect(),
        }
    }

    /// The places of the first line's points.
    fn places(svg: &str) -> Vec<f64> {
        let path = svg.split("points=\"").nth(1).unwrap();
        let path = path.split('"').next().unwrap();
        let places = path
            .split(' ')
            .map(|place| place.split(',').next().unwrap());
        places.map(|x| x.parse().unwrap()).collect()
    }

    #[test]
    fn zero_has_a_place_of_its_own_on_a_logarithmic_axis() {
        let svg = chart(Scale::Logarithmic, &[0.0, 10.0, 100.0, 1000.0], 1).svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let places = places(&svg);
        assert_eq!(places.len(), 4);
        let steps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let is_even = |step: &f64| (step - steps[0]).abs() < 0.3 && *step > 50.0;
        assert!(steps.iter().all(is_even), "{places:?}");
        for ticks in [&[0.0][..], &[0.0, 7.0], &[7.0], &[]] {
            for scale in [Scale::Logarithmic, Scale::Linear] {
                let svg = chart(scale, ticks, 1).svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn lines_of_one_colour_differ_in_dashes_and_marks() {
        let svg = chart(Scale::Linear, &[1.0, 2.0], 14).svg();
        let classes = svg.split("<polyline class=\"").skip(1);
        let classes = classes.map(|rest| rest.split('"').next().unwrap());
        let looks: std::collections::BTreeSet<&str> = classes.collect();
        assert_eq!(looks.len(), 14, "each line has a look of its own");
        // Two points and the legend.
        assert_eq!(svg.matches("h6v6h-6z").count(), 6 * 3);
        assert_eq!(svg.matches("l4 4l-4 4l-4 -4z").count(), 2 * 3);
    }

    #[test]
    fn names_cannot_break_the_page() {
        let chart = BarChart {
            title: "<script>".into(),
            scale: Scale::Linear,
            series: vec!["a\"b&c".into()],
            groups: vec![BarGroup {
                name: String::new(),
                bars: vec![Some((1.0, "1".into()))],
                ranges: vec![Some((0.5, 1.5))],
            }],
        };
        let svg = chart.svg();
        assert!(!svg.contains("<script>") && svg.contains("a&quot;b&amp;c"));
        assert!(svg.contains("class=\"interval\""));
    }
}
