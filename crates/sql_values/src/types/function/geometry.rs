//! Operators and functions of points, segments, paths, boxes, polygons and circles.
//!
//! The values are texts, whose numbers are read for each call. Two numbers are the same if they
//! differ by less than `EPSILON`.

#![allow(
    clippy::float_cmp,
    clippy::unnecessary_wraps,
    reason = "infinite numbers are compared exactly, and the table of functions wants results"
)]

use super::super::datum::Datum;
use super::super::geometry::{Coordinates, corners, made, shape};
use super::super::kind::Kind::{
    self, Bool, Box as Rectangle, Circle, Float8, Int4, Path, Point, Polygon,
};
use super::Function;
use crate::error::{Result, SqlError};

/// Numbers that differ by less are the same.
const EPSILON: f64 = 1.0e-6;

fn shown(kind: Kind, places: Vec<Coordinates>, radius: Option<f64>) -> Datum {
    Datum::text(made(kind, places, radius))
}

fn place(datum: &Datum) -> Result<Coordinates> {
    Ok(shape(Point, datum.str()?)?.places[0])
}

fn polygon(datum: &Datum) -> Result<Vec<Coordinates>> {
    Ok(shape(Polygon, datum.str()?)?.places)
}

fn circle(datum: &Datum) -> Result<(Coordinates, f64)> {
    let shape = shape(Circle, datum.str()?)?;
    Ok((shape.places[0], shape.radius.unwrap_or(0.0)))
}

fn rectangle(datum: &Datum) -> Result<[Coordinates; 2]> {
    Ok(corners(&shape(Rectangle, datum.str()?)?))
}

fn is_same(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= EPSILON
}

fn is_less(a: f64, b: f64) -> bool {
    b - a > EPSILON
}

fn at_most(a: f64, b: f64) -> bool {
    a - b <= EPSILON
}

fn distance(a: Coordinates, b: Coordinates) -> f64 {
    (a.x - b.x).hypot(a.y - b.y)
}

fn is_same_place(a: Coordinates, b: Coordinates) -> bool {
    let numbers = [a.x, a.y, b.x, b.y];
    if numbers.iter().any(|number| number.is_nan()) {
        let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
        return same(a.x, b.x) && same(a.y, b.y);
    }
    is_same(a.x, b.x) && is_same(a.y, b.y)
}

/// The sides of a polygon.
fn sides(corners: &[Coordinates]) -> impl Iterator<Item = (Coordinates, Coordinates)> + '_ {
    let next = corners.iter().cycle().skip(1);
    corners.iter().copied().zip(next.copied())
}

/// How far a place is from a segment.
fn distance_to_side(place: Coordinates, (a, b): (Coordinates, Coordinates)) -> f64 {
    let (along_x, along_y) = (b.x - a.x, b.y - a.y);
    let length = along_x * along_x + along_y * along_y;
    if length == 0.0 {
        return distance(place, a);
    }
    let share = ((place.x - a.x) * along_x + (place.y - a.y) * along_y) / length;
    let share = share.clamp(0.0, 1.0);
    let nearest = Coordinates {
        x: a.x + share * along_x,
        y: a.y + share * along_y,
    };
    distance(place, nearest)
}

/// Whether a place lies in a polygon or on its sides: a ray to the right crosses an odd number.
fn contains(corners: &[Coordinates], place: Coordinates) -> bool {
    // PostgreSQL finds a place without numbers in every polygon.
    let is_nowhere = place.x.is_nan() && place.y.is_nan();
    if is_nowhere || sides(corners).any(|side| distance_to_side(place, side) <= EPSILON) {
        return true;
    }
    let crossed = sides(corners).filter(|(a, b)| {
        let is_between = (a.y > place.y) != (b.y > place.y);
        is_between && place.x < (b.x - a.x) * (place.y - a.y) / (b.y - a.y) + a.x
    });
    crossed.count() % 2 == 1
}

/// Whether two segments have a place in common.
fn cross((a, b): (Coordinates, Coordinates), (c, d): (Coordinates, Coordinates)) -> bool {
    let turn = |a: Coordinates, b: Coordinates, c: Coordinates| {
        let area = (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
        if area.abs() <= EPSILON {
            0.0
        } else {
            area.signum()
        }
    };
    let touches = |place, side| distance_to_side(place, side) <= EPSILON;
    (turn(a, b, c) * turn(a, b, d) < 0.0 && turn(c, d, a) * turn(c, d, b) < 0.0)
        || touches(a, (c, d))
        || touches(b, (c, d))
        || touches(c, (a, b))
        || touches(d, (a, b))
}

fn overlap(a: &[Coordinates], b: &[Coordinates]) -> bool {
    contains(a, b[0])
        || contains(b, a[0])
        || sides(a).any(|one| sides(b).any(|other| cross(one, other)))
}

fn boxes_overlap([high, low]: [Coordinates; 2], [other_high, other_low]: [Coordinates; 2]) -> bool {
    at_most(low.x, other_high.x)
        && at_most(other_low.x, high.x)
        && at_most(low.y, other_high.y)
        && at_most(other_low.y, high.y)
}

fn box_has_box([high, low]: [Coordinates; 2], [inner_high, inner_low]: [Coordinates; 2]) -> bool {
    at_most(inner_high.x, high.x)
        && at_most(low.x, inner_low.x)
        && at_most(inner_high.y, high.y)
        && at_most(low.y, inner_low.y)
}

fn box_has([high, low]: [Coordinates; 2], place: Coordinates) -> bool {
    (low.x..=high.x).contains(&place.x) && (low.y..=high.y).contains(&place.y)
}

fn circle_has((center, radius): (Coordinates, f64), place: Coordinates) -> bool {
    distance(center, place) <= radius
}

fn to_circle((center, radius): (Coordinates, f64), place: Coordinates) -> f64 {
    (distance(center, place) - radius).max(0.0)
}

fn to_polygon(corners: &[Coordinates], place: Coordinates) -> f64 {
    if contains(corners, place) {
        return 0.0;
    }
    let distances = sides(corners).map(|side| distance_to_side(place, side));
    distances.fold(f64::INFINITY, f64::min)
}

fn float(datum: &Datum) -> Result<f64> {
    match datum {
        Datum::Float8(value) => Ok(*value),
        _ => Err(SqlError::internal("a number of a shape")),
    }
}

fn is_true(value: bool) -> Result<Datum> {
    Ok(Datum::Bool(value))
}

fn number(value: f64) -> Result<Datum> {
    Ok(Datum::Float8(value))
}

/// The operators.
pub(crate) const OPERATORS: &[Function] = &[
    Function::scalar("<<", &[Point, Point], Bool, |_, a| {
        is_true(is_less(place(&a[0])?.x, place(&a[1])?.x))
    }),
    Function::scalar(">>", &[Point, Point], Bool, |_, a| {
        is_true(is_less(place(&a[1])?.x, place(&a[0])?.x))
    }),
    Function::scalar("<<|", &[Point, Point], Bool, |_, a| {
        is_true(is_less(place(&a[0])?.y, place(&a[1])?.y))
    }),
    Function::scalar("|>>", &[Point, Point], Bool, |_, a| {
        is_true(is_less(place(&a[1])?.y, place(&a[0])?.y))
    }),
    Function::scalar("~=", &[Point, Point], Bool, |_, a| {
        is_true(is_same_place(place(&a[0])?, place(&a[1])?))
    }),
    Function::scalar("<->", &[Point, Point], Float8, |_, a| {
        number(distance(place(&a[0])?, place(&a[1])?))
    }),
    Function::scalar("<->", &[Polygon, Point], Float8, |_, a| {
        number(to_polygon(&polygon(&a[0])?, place(&a[1])?))
    }),
    Function::scalar("<->", &[Point, Polygon], Float8, |_, a| {
        number(to_polygon(&polygon(&a[1])?, place(&a[0])?))
    }),
    Function::scalar("<->", &[Circle, Point], Float8, |_, a| {
        number(to_circle(circle(&a[0])?, place(&a[1])?))
    }),
    Function::scalar("<->", &[Point, Circle], Float8, |_, a| {
        number(to_circle(circle(&a[1])?, place(&a[0])?))
    }),
    Function::scalar("<@", &[Point, Rectangle], Bool, |_, a| {
        is_true(box_has(rectangle(&a[1])?, place(&a[0])?))
    }),
    Function::scalar("@>", &[Rectangle, Point], Bool, |_, a| {
        is_true(box_has(rectangle(&a[0])?, place(&a[1])?))
    }),
    Function::scalar("<@", &[Point, Polygon], Bool, |_, a| {
        is_true(contains(&polygon(&a[1])?, place(&a[0])?))
    }),
    Function::scalar("@>", &[Polygon, Point], Bool, |_, a| {
        is_true(contains(&polygon(&a[0])?, place(&a[1])?))
    }),
    Function::scalar("<@", &[Point, Circle], Bool, |_, a| {
        is_true(circle_has(circle(&a[1])?, place(&a[0])?))
    }),
    Function::scalar("@>", &[Circle, Point], Bool, |_, a| {
        is_true(circle_has(circle(&a[0])?, place(&a[1])?))
    }),
    Function::scalar("<@", &[Rectangle, Rectangle], Bool, |_, a| {
        is_true(box_has_box(rectangle(&a[1])?, rectangle(&a[0])?))
    }),
    Function::scalar("@>", &[Rectangle, Rectangle], Bool, |_, a| {
        is_true(box_has_box(rectangle(&a[0])?, rectangle(&a[1])?))
    }),
    Function::scalar("&&", &[Rectangle, Rectangle], Bool, |_, a| {
        is_true(boxes_overlap(rectangle(&a[0])?, rectangle(&a[1])?))
    }),
    Function::scalar("&&", &[Polygon, Polygon], Bool, |_, a| {
        is_true(overlap(&polygon(&a[0])?, &polygon(&a[1])?))
    }),
    Function::scalar("&&", &[Circle, Circle], Bool, |_, a| {
        let ((center, radius), (other, more)) = (circle(&a[0])?, circle(&a[1])?);
        is_true(at_most(distance(center, other), radius + more))
    }),
];

/// The functions.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("point", &[Float8, Float8], Point, |_, a| {
        let (x, y) = (float(&a[0])?, float(&a[1])?);
        Ok(shown(Point, vec![Coordinates { x, y }], None))
    }),
    Function::scalar("box", &[Point, Point], Rectangle, |_, a| {
        Ok(shown(Rectangle, vec![place(&a[0])?, place(&a[1])?], None))
    }),
    Function::scalar("circle", &[Point, Float8], Circle, |_, a| {
        let radius = float(&a[1])?;
        Ok(shown(Circle, vec![place(&a[0])?], Some(radius)))
    }),
    Function::scalar("circle", &[Rectangle], Circle, |_, a| {
        let [high, low] = rectangle(&a[0])?;
        let center = middle(high, low);
        let radius = distance(center, high);
        Ok(shown(Circle, vec![center], Some(radius)))
    }),
    Function::scalar("polygon", &[Rectangle], Polygon, |_, a| {
        let [high, low] = rectangle(&a[0])?;
        let corner = |x, y| Coordinates { x, y };
        let corners = vec![low, corner(low.x, high.y), high, corner(high.x, low.y)];
        Ok(shown(Polygon, corners, None))
    }),
    Function::scalar("center", &[Rectangle], Point, |_, a| {
        let [high, low] = rectangle(&a[0])?;
        Ok(shown(Point, vec![middle(high, low)], None))
    }),
    Function::scalar("center", &[Circle], Point, |_, a| {
        Ok(shown(Point, vec![circle(&a[0])?.0], None))
    }),
    Function::scalar("circle_center", &[Circle], Point, |_, a| {
        Ok(shown(Point, vec![circle(&a[0])?.0], None))
    }),
    Function::scalar("radius", &[Circle], Float8, |_, a| number(circle(&a[0])?.1)),
    Function::scalar("npoints", &[Polygon], Int4, |_, a| {
        Ok(Datum::Int4(polygon(&a[0])?.len() as i32))
    }),
    Function::scalar("npoints", &[Path], Int4, |_, a| {
        let count = shape(Path, a[0].str()?)?.places.len();
        Ok(Datum::Int4(count as i32))
    }),
    Function::scalar("array_subscript", &[Point, Int4], Float8, |_, a| {
        let place = place(&a[0])?;
        Ok(match a[1].int()? {
            0 => Datum::Float8(place.x),
            1 => Datum::Float8(place.y),
            _ => Datum::Null,
        })
    }),
    Function::scalar("array_subscript", &[Rectangle, Int4], Point, |_, a| {
        let corners = rectangle(&a[0])?;
        let corner = usize::try_from(a[1].int()?).ok();
        let corner = corner.and_then(|at| corners.get(at));
        Ok(corner.map_or(Datum::Null, |corner| shown(Point, vec![*corner], None)))
    }),
];

fn middle(a: Coordinates, b: Coordinates) -> Coordinates {
    Coordinates {
        x: f64::midpoint(a.x, b.x),
        y: f64::midpoint(a.y, b.y),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_in_polygons() {
        let corners = polygon(&Datum::text("((0,0),(0,100),(100,100),(50,50),(100,0))")).unwrap();
        let is_in = |x, y| contains(&corners, Coordinates { x, y });
        assert!(is_in(10.0, 10.0) && is_in(0.0, 50.0) && is_in(50.0, 50.0));
        assert!(!is_in(80.0, 50.0) && !is_in(-1.0, 0.0) && !is_in(f64::NAN, 0.0));
        assert_eq!(to_polygon(&corners, Coordinates { x: -3.0, y: 5.0 }), 3.0);
    }
}
