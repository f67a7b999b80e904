//! Points, segments, paths, boxes, polygons and circles.
//!
//! A value is the text that its output function prints: `(x,y)`, `[(x,y),(x,y)]`, `((x,y),...)`,
//! `(x,y),(x,y)`, `<(x,y),r>`.

use super::float_io::{bad_text, parse_f64, print_f64};
use super::kind::Kind::{self, Box as Rectangle, Circle, Path, Point, Polygon};
use crate::error::{Result, SqlError, SqlState};

/// Digits beyond 15: as many as the number needs.
const SHORTEST: i32 = 1;

/// A place in the plane.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Coordinates {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The places of a value, with what belongs to them.
pub(super) struct Shape {
    pub(super) places: Vec<Coordinates>,
    pub(super) radius: Option<f64>,
    is_open: bool,
}

/// The value of a text, in the form that prints.
pub(super) fn parse(kind: Kind, text: &str) -> Result<String> {
    let shape = read(kind, text).ok_or_else(|| bad_text(&kind.name(), text))??;
    Ok(print(kind, &shape))
}

/// A text that is read from its front.
struct Reader<'t>(&'t str);

impl Reader<'_> {
    fn skips(&mut self, wanted: char) -> bool {
        match self.0.strip_prefix(wanted) {
            Some(rest) => {
                self.0 = rest.trim_start();
                true
            }
            None => false,
        }
    }

    fn number(&mut self) -> Option<Result<f64>> {
        let end = self
            .0
            .find(|c: char| ",()[]<>".contains(c) || c.is_whitespace());
        let (body, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        if body.is_empty() {
            return None;
        }
        self.0 = rest.trim_start();
        match parse_f64(body) {
            Err(error) if error.state == SqlState::INVALID_TEXT_REPRESENTATION => None,
            number => Some(number),
        }
    }

    fn place(&mut self) -> Option<Result<Coordinates>> {
        let has_bracket = self.skips('(');
        let x = self.number()?;
        if !self.skips(',') {
            return None;
        }
        let y = self.number()?;
        if has_bracket && !self.skips(')') {
            return None;
        }
        Some(x.and_then(|x| Ok(Coordinates { x, y: y? })))
    }
}

/// The shape of a text; none where it is not one of the kind.
fn read(kind: Kind, text: &str) -> Option<Result<Shape>> {
    let mut rest = Reader(text.trim_start());
    let takes_open = matches!(kind, Path | Kind::Lseg);
    let is_circle = kind == Circle;
    let is_open = takes_open && rest.skips('[');
    let has_angle = is_circle && rest.skips('<');
    let mut brackets = 0;
    let outer = rest.0.strip_prefix('(').map(str::trim_start);
    let is_only = rest.0.rfind('(') == Some(0);
    // A bracket around all of it is followed by another, or has none after it.
    let is_around = outer.is_some_and(|inner| inner.starts_with('('))
        || (kind != Point && !is_circle && is_only);
    if !is_open && !has_angle && is_around {
        rest.skips('(');
        brackets = 1;
    }
    let (mut places, mut radius, mut failed) = (Vec::new(), None, None);
    loop {
        match rest.place()? {
            Ok(place) => places.push(place),
            Err(error) => failed = Some(error),
        }
        if is_circle {
            rest.skips(',');
            match rest.number()? {
                Ok(number) if number < 0.0 => return None,
                Ok(number) => radius = Some(number),
                Err(error) => failed = Some(error),
            }
            break;
        }
        if !rest.skips(',') {
            break;
        }
    }
    let is_closed = (!is_open || rest.skips(']'))
        && (!has_angle || rest.skips('>'))
        && (brackets == 0 || rest.skips(')'));
    let is_complete = match kind {
        Point | Circle => places.len() == 1,
        Rectangle | Kind::Lseg => places.len() == 2,
        _ => true,
    };
    if let Some(error) = failed {
        return Some(Err(error));
    }
    (is_closed && is_complete && rest.0.is_empty()).then_some(Ok(Shape {
        places,
        radius,
        is_open: is_open || kind == Kind::Lseg,
    }))
}

fn print(kind: Kind, shape: &Shape) -> String {
    let mut out = String::new();
    let corners = (kind == Rectangle).then(|| corners(shape));
    let places = corners.as_ref().map_or(&shape.places[..], |both| both);
    let (open, close) = match kind {
        Circle => ("<", ">"),
        Path | Kind::Lseg if shape.is_open => ("[", "]"),
        Path | Polygon => ("(", ")"),
        _ => ("", ""),
    };
    out.push_str(open);
    for (at, place) in places.iter().enumerate() {
        out.push_str(if at > 0 { ",(" } else { "(" });
        print_f64(&mut out, place.x, SHORTEST);
        out.push(',');
        print_f64(&mut out, place.y, SHORTEST);
        out.push(')');
    }
    if let Some(radius) = shape.radius {
        out.push(',');
        print_f64(&mut out, radius, SHORTEST);
    }
    out.push_str(close);
    out
}

/// The upper right corner of a box, and the lower left one.
pub(super) fn corners(shape: &Shape) -> [Coordinates; 2] {
    let (a, b) = (shape.places[0], shape.places[1]);
    let high = |a: f64, b: f64| if above(b, a) { b } else { a };
    let low = |a: f64, b: f64| if above(b, a) { a } else { b };
    let place = |pick: fn(f64, f64) -> f64| Coordinates {
        x: pick(a.x, b.x),
        y: pick(a.y, b.y),
    };
    [place(high), place(low)]
}

/// The order of numbers, in which `NaN` comes last.
fn above(a: f64, b: f64) -> bool {
    (a.is_nan() && !b.is_nan()) || a > b
}

/// Appends the bytes of a value on the wire.
pub(super) fn print_binary(out: &mut Vec<u8>, kind: Kind, text: &str) -> Result<()> {
    let shape = shape(kind, text)?;
    if kind == Path {
        out.push(u8::from(!shape.is_open));
    }
    if matches!(kind, Path | Polygon) {
        out.extend((shape.places.len() as i32).to_be_bytes());
    }
    for place in &shape.places {
        out.extend(place.x.to_be_bytes());
        out.extend(place.y.to_be_bytes());
    }
    if let Some(radius) = shape.radius {
        out.extend(radius.to_be_bytes());
    }
    Ok(())
}

/// The value of its bytes; none where they are too many or too few.
pub(super) fn parse_binary(kind: Kind, bytes: &[u8]) -> Option<String> {
    let (is_open, bytes) = match kind {
        Path => (bytes.first()? == &0, bytes.get(1..)?),
        _ => (kind == Kind::Lseg, bytes),
    };
    let bytes = match kind {
        Path | Polygon => {
            let count = i32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
            let rest = bytes.get(4..)?;
            let is_right = count > 0 && rest.len() == count as usize * 16;
            is_right.then_some(rest)?
        }
        _ => bytes,
    };
    let numbers: Vec<f64> = bytes
        .chunks(8)
        .map(|chunk| Some(f64::from_be_bytes(chunk.try_into().ok()?)))
        .collect::<Option<_>>()?;
    let wanted = match kind {
        Point => 2,
        Circle => 3,
        Rectangle | Kind::Lseg => 4,
        _ => numbers.len(),
    };
    let radius = (kind == Circle).then(|| numbers.last().copied()).flatten();
    let is_right = numbers.len() == wanted && radius.is_none_or(|radius| radius >= 0.0);
    let places = numbers.chunks_exact(2);
    let places = places.map(|pair| Coordinates {
        x: pair[0],
        y: pair[1],
    });
    is_right.then(|| {
        let shape = Shape {
            places: places.collect(),
            radius,
            is_open,
        };
        print(kind, &shape)
    })
}

/// The shape that a text stands for.
pub(super) fn shape(kind: Kind, text: &str) -> Result<Shape> {
    read(kind, text).ok_or_else(|| bad_text(&kind.name(), text))?
}

/// The text of a value of these places.
pub(super) fn made(kind: Kind, places: Vec<Coordinates>, radius: Option<f64>) -> String {
    let shape = Shape {
        places,
        radius,
        is_open: false,
    };
    print(kind, &shape)
}

/// The error of a kind without an order.
pub fn no_order(kind: Kind) -> SqlError {
    let message = format!("could not identify an ordering operator for type {kind}");
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
        .hint("Use an explicit ordering operator or modify the query.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected texts are those of PostgreSQL 15.
    #[test]
    fn texts_are_read_and_printed() {
        let cases = [
            (Point, "10.0,10.0", Some("(10,10)")),
            (Point, " ( 1e-300 , Inf ) ", Some("(1e-300,Infinity)")),
            (Point, "(10.0 10.0)", None),
            (Point, "(10.0,10.0", None),
            (Point, "(1,2),", None),
            (Point, "asdf", None),
            (Rectangle, "(1,2),(3,0)", Some("(3,2),(1,0)")),
            (Rectangle, "0,0,100,100", Some("(100,100),(0,0)")),
            (Rectangle, "(0,0,100,100)", Some("(100,100),(0,0)")),
            (Rectangle, "((1,2),(3,0))", Some("(3,2),(1,0)")),
            (Rectangle, "(1,2)", None),
            (Path, "[(1,2),(3,4)]", Some("[(1,2),(3,4)]")),
            (Path, "(1,2),(3,4)", Some("((1,2),(3,4))")),
            (Path, "1,2,3", None),
            (Polygon, "(1000,0,0,1000)", Some("((1000,0),(0,1000))")),
            (Polygon, "((0,0),(0,1),(1,1))", Some("((0,0),(0,1),(1,1))")),
            (Kind::Lseg, "(1,2),(3,4)", Some("[(1,2),(3,4)]")),
            (Circle, "<(500,500),500>", Some("<(500,500),500>")),
            (Circle, "((5,1),3)", Some("<(5,1),3>")),
            (Circle, "<(5,1),-3>", None),
        ];
        for (kind, text, wanted) in cases {
            let value = parse(kind, text).ok();
            let printed = value.as_deref();
            assert_eq!(printed, wanted, "{kind} {text}");
            if let Some(printed) = printed {
                let mut bytes = Vec::new();
                print_binary(&mut bytes, kind, printed).unwrap();
                assert_eq!(parse_binary(kind, &bytes), value, "{kind} {text}");
                assert_eq!(parse_binary(kind, &bytes[1..]), None, "{kind} {text}");
            }
        }
    }
}
