//! Straight lines through measurements.
//!
//! By least squares. Nothing that `advise` carries to more rows becomes less with them, so a line
//! never falls.

/// A straight line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) start: f64,
    pub(super) slope: f64,
}

impl Line {
    /// The line of least squares through points; flat at their mean if it would fall.
    pub(super) fn rising(points: impl Iterator<Item = (f64, f64)>) -> Self {
        let points: Vec<(f64, f64)> = points.collect();
        let count = points.len().max(1) as f64;
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let products = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y));
        let squares = points
            .iter()
            .map(|(x, _)| (x - mean_x).powi(2))
            .sum::<f64>();
        let slope = if squares > 0.0 {
            (products.sum::<f64>() / squares).max(0.0)
        } else {
            0.0
        };
        Self {
            start: mean_y - slope * mean_x,
            slope,
        }
    }

    pub(super) fn at(self, x: f64) -> f64 {
        self.start + self.slope * x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points_and_never_falls() {
        let line = Line::rising([(1.0, 3.0), (2.0, 5.0), (3.0, 7.0)].into_iter());
        assert!((line.at(10.0) - 21.0).abs() < 1e-9);
        let flat = Line::rising([(1.0, 7.0), (2.0, 5.0), (3.0, 3.0)].into_iter());
        assert!((flat.at(10.0) - 5.0).abs() < 1e-9 && flat.slope == 0.0);
        let single = Line::rising([(4.0, 2.0)].into_iter());
        assert!((single.at(100.0) - 2.0).abs() < 1e-9);
    }
}
