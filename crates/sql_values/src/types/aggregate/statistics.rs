//! Sums, means, variances and regressions of numbers.
//!
//! Floating point numbers are summed by the method of Youngs and Cramer, as PostgreSQL does, so
//! that results agree to the last digit; exact numbers are summed exactly.

use super::super::context::CallContext;
use super::super::datum::Datum;
use super::super::function::Function;
use super::super::function::math::overflow;
use super::super::kind::Kind::{Float4, Float8, Int2, Int4, Int8, Numeric};
use super::super::numeric::{Numeric as Number, div_scale, root};
use super::{Accumulator, aggregate};
use crate::error::Result;

/// A result from one series of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    Sum,
    Average,
    VariancePopulation,
    VarianceSample,
    DeviationPopulation,
    DeviationSample,
}

impl Measure {
    /// Rows that are needed at least.
    fn rows_min(self) -> i64 {
        match self {
            Self::VarianceSample | Self::DeviationSample => 2,
            _ => 1,
        }
    }

    fn is_deviation(self) -> bool {
        matches!(self, Self::DeviationPopulation | Self::DeviationSample)
    }
}

/// Count, sum and sum of the squares of the distances from the mean.
struct Floats {
    count: f64,
    sum: f64,
    squares: f64,
    measure: Measure,
}

impl Floats {
    fn start(measure: Measure) -> Box<dyn Accumulator> {
        Box::new(Self {
            count: 0.0,
            sum: 0.0,
            squares: 0.0,
            measure,
        })
    }
}

fn float(datum: &Datum) -> Result<f64> {
    match datum {
        Datum::Float4(value) => Ok(f64::from(*value)),
        other => other.float8(),
    }
}

impl Accumulator for Floats {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        let value = float(&arguments[0])?;
        let was_infinite = self.sum.is_infinite() || value.is_infinite();
        self.count += 1.0;
        self.sum += value;
        if self.measure == Measure::Sum {
            return if self.sum.is_infinite() && !was_infinite {
                Err(overflow())
            } else {
                Ok(())
            };
        }
        if self.count > 1.0 {
            let distance = value * self.count - self.sum;
            self.squares += distance * distance / (self.count * (self.count - 1.0));
            if self.sum.is_infinite() || self.squares.is_infinite() {
                if !was_infinite {
                    return Err(overflow());
                }
                self.squares = f64::NAN;
            }
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
        Ok(())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        if self.count < self.measure.rows_min() as f64 {
            return Ok(Datum::Null);
        }
        let value = match self.measure {
            Measure::Sum => self.sum,
            Measure::Average => self.sum / self.count,
            Measure::VariancePopulation | Measure::DeviationPopulation => self.squares / self.count,
            Measure::VarianceSample | Measure::DeviationSample => self.squares / (self.count - 1.0),
        };
        Ok(Datum::Float8(if self.measure.is_deviation() {
            value.sqrt()
        } else {
            value
        }))
    }
}

/// Count, sum and sum of the squares of exact numbers.
struct Exact {
    count: i64,
    sum: Number,
    squares: Number,
    measure: Measure,
}

impl Exact {
    fn start(measure: Measure) -> Box<dyn Accumulator> {
        Box::new(Self {
            count: 0,
            sum: Number::ZERO,
            squares: Number::ZERO,
            measure,
        })
    }
}

impl Accumulator for Exact {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        let value = match &arguments[0] {
            Datum::Numeric(number) => number.clone(),
            other => Number::from(other.int()?),
        };
        self.count += 1;
        self.squares = self.squares.add(&value.multiply(&value)?)?;
        self.sum = self.sum.add(&value)?;
        Ok(())
    }

    /// Sums of numbers with digits after the point would keep those of numbers that are gone.
    fn remove(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<bool> {
        if matches!(arguments[0], Datum::Numeric(_)) {
            return Ok(false);
        }
        let value = Number::from(arguments[0].int()?);
        self.count -= 1;
        self.squares = self.squares.subtract(&value.multiply(&value)?)?;
        self.sum = self.sum.subtract(&value)?;
        Ok(true)
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        if self.count < self.measure.rows_min() {
            return Ok(Datum::Null);
        }
        if self.sum.is_nan() || self.sum.is_infinite() || self.squares.is_nan() {
            return Ok(Datum::Numeric(Number::NAN));
        }
        let count = Number::from(self.count);
        let spread = count
            .multiply(&self.squares)?
            .subtract(&self.sum.multiply(&self.sum)?)?;
        if spread.signum() <= 0 {
            return Ok(Datum::Numeric(Number::ZERO));
        }
        let divisor = match self.measure.rows_min() {
            2 => count.multiply(&Number::from(self.count - 1))?,
            _ => count.multiply(&count)?,
        };
        let scale = div_scale(&spread, &divisor);
        let variance = spread.divide_to(&divisor, scale)?;
        Ok(Datum::Numeric(if self.measure.is_deviation() {
            root(&variance, scale)
        } else {
            variance
        }))
    }
}

/// A result from pairs of numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    Count,
    SumXx,
    SumYy,
    SumXy,
    AverageX,
    AverageY,
    Covariance,
    SampleCovariance,
    Correlation,
    Slope,
    Intercept,
    Determination,
}

/// Sums of pairs, and of their distances from the means.
struct Pairs {
    count: f64,
    sum_x: f64,
    squares_x: f64,
    sum_y: f64,
    squares_y: f64,
    products: f64,
    relation: Relation,
}

impl Pairs {
    fn start(relation: Relation) -> Box<dyn Accumulator> {
        Box::new(Self {
            count: 0.0,
            sum_x: 0.0,
            squares_x: 0.0,
            sum_y: 0.0,
            squares_y: 0.0,
            products: 0.0,
            relation,
        })
    }
}

impl Accumulator for Pairs {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        // The dependent variable comes first.
        let (y, x) = (arguments[0].float8()?, arguments[1].float8()?);
        self.count += 1.0;
        if self.relation == Relation::Count {
            return Ok(());
        }
        let was_infinite_x = self.sum_x.is_infinite() || x.is_infinite();
        let was_infinite_y = self.sum_y.is_infinite() || y.is_infinite();
        self.sum_x += x;
        self.sum_y += y;
        if self.count > 1.0 {
            let distance_x = x * self.count - self.sum_x;
            let distance_y = y * self.count - self.sum_y;
            let scale = 1.0 / (self.count * (self.count - 1.0));
            self.squares_x += distance_x * distance_x * scale;
            self.squares_y += distance_y * distance_y * scale;
            self.products += distance_x * distance_y * scale;
            let overflows_x = self.sum_x.is_infinite() || self.squares_x.is_infinite();
            let overflows_y = self.sum_y.is_infinite() || self.squares_y.is_infinite();
            let overflows = (overflows_x && !was_infinite_x)
                || (overflows_y && !was_infinite_y)
                || (self.products.is_infinite() && !was_infinite_x && !was_infinite_y);
            if overflows {
                return Err(overflow());
            }
            for sum in [&mut self.squares_x, &mut self.squares_y, &mut self.products] {
                if sum.is_infinite() {
                    *sum = f64::NAN;
                }
            }
        } else {
            if !x.is_finite() {
                self.squares_x = f64::NAN;
                self.products = f64::NAN;
            }
            if !y.is_finite() {
                self.squares_y = f64::NAN;
                self.products = f64::NAN;
            }
        }
        Ok(())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        let count = self.count;
        let (xx, yy, xy) = (self.squares_x, self.squares_y, self.products);
        let rows_min = if self.relation == Relation::SampleCovariance {
            2.0
        } else {
            1.0
        };
        if self.relation == Relation::Count {
            return Ok(Datum::Int8(count as i64));
        }
        if count < rows_min {
            return Ok(Datum::Null);
        }
        let value = match self.relation {
            Relation::SumXx => xx,
            Relation::SumYy => yy,
            Relation::SumXy => xy,
            Relation::AverageX => self.sum_x / count,
            Relation::AverageY => self.sum_y / count,
            Relation::Covariance => xy / count,
            Relation::SampleCovariance => xy / (count - 1.0),
            Relation::Correlation if xx == 0.0 || yy == 0.0 => return Ok(Datum::Null),
            Relation::Correlation => xy / (xx * yy).sqrt(),
            Relation::Slope | Relation::Intercept | Relation::Determination if xx == 0.0 => {
                return Ok(Datum::Null);
            }
            Relation::Slope => xy / xx,
            Relation::Intercept => (self.sum_y - self.sum_x * xy / xx) / count,
            Relation::Determination if yy == 0.0 => 1.0,
            Relation::Determination => (xy * xy) / (xx * yy),
            Relation::Count => count,
        };
        Ok(Datum::Float8(value))
    }
}

macro_rules! measures {
    ($($name:literal $measure:ident),*) => {
        &[$(
            aggregate($name, &[Int2], Numeric, || Exact::start(Measure::$measure)),
            aggregate($name, &[Int4], Numeric, || Exact::start(Measure::$measure)),
            aggregate($name, &[Int8], Numeric, || Exact::start(Measure::$measure)),
            aggregate($name, &[Numeric], Numeric, || Exact::start(Measure::$measure)),
            aggregate($name, &[Float4], Float8, || Floats::start(Measure::$measure)),
            aggregate($name, &[Float8], Float8, || Floats::start(Measure::$measure)),
        )*]
    };
}

/// Variances and deviations.
pub(super) const MEASURES: &[Function] = measures![
    "variance" VarianceSample, "var_samp" VarianceSample, "var_pop" VariancePopulation,
    "stddev" DeviationSample, "stddev_samp" DeviationSample, "stddev_pop" DeviationPopulation
];

macro_rules! relations {
    ($($name:literal $relation:ident $result:ident),*) => {
        &[$(
            aggregate($name, &[Float8, Float8], $result, || Pairs::start(Relation::$relation)),
        )*]
    };
}

/// Regressions.
pub(super) const RELATIONS: &[Function] = relations![
    "regr_count" Count Int8, "regr_sxx" SumXx Float8, "regr_syy" SumYy Float8,
    "regr_sxy" SumXy Float8, "regr_avgx" AverageX Float8, "regr_avgy" AverageY Float8,
    "covar_pop" Covariance Float8, "covar_samp" SampleCovariance Float8,
    "corr" Correlation Float8, "regr_slope" Slope Float8, "regr_intercept" Intercept Float8,
    "regr_r2" Determination Float8
];

/// Sums and means of floating point numbers.
pub(super) const FUNCTIONS: &[Function] = &[
    aggregate("sum", &[Float8], Float8, || Floats::start(Measure::Sum)),
    aggregate("avg", &[Float4], Float8, || Floats::start(Measure::Average)),
    aggregate("avg", &[Float8], Float8, || Floats::start(Measure::Average)),
];
