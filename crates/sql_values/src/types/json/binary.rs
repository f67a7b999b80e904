//! The tree of a `jsonb` value as bytes, for columns.
//!
//! A node is a byte that says its type, then its content. Counts and lengths are little-endian and
//! of four bytes; numbers are their text, as their scale counts; members stand in their order.

use super::super::numeric::Numeric;
use super::value::Json;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const STRING: u8 = 4;
const ARRAY: u8 = 5;
const OBJECT: u8 = 6;

impl Json {
    /// The bytes of the tree.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(NULL),
            Self::Bool(value) => out.push(if *value { TRUE } else { FALSE }),
            Self::Number(number) => {
                out.push(NUMBER);
                write_text(out, &number.to_string());
            }
            Self::String(content) => {
                out.push(STRING);
                write_text(out, content);
            }
            Self::Array(elements) => {
                out.push(ARRAY);
                write_count(out, elements.len());
                for element in elements {
                    element.write(out);
                }
            }
            Self::Object(pairs) => {
                out.push(OBJECT);
                write_count(out, pairs.len());
                for (key, value) in pairs {
                    write_text(out, key);
                    value.write(out);
                }
            }
        }
    }

    /// The tree of its bytes, unless they are damaged.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let json = read(&mut bytes)?;
        bytes.is_empty().then_some(json)
    }
}

fn write_count(out: &mut Vec<u8>, count: usize) {
    out.extend((count as u32).to_le_bytes());
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_count(out, text.len());
    out.extend(text.as_bytes());
}

fn read(bytes: &mut &[u8]) -> Option<Json> {
    let (tag, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(match *tag {
        NULL => Json::Null,
        FALSE => Json::Bool(false),
        TRUE => Json::Bool(true),
        NUMBER => Json::Number(Numeric::parse(&read_text(bytes)?).ok()?),
        STRING => Json::String(read_text(bytes)?),
        ARRAY => {
            let count = read_count(bytes)?;
            Json::Array((0..count).map(|_| read(bytes)).collect::<Option<_>>()?)
        }
        OBJECT => {
            let count = read_count(bytes)?;
            let pairs = (0..count).map(|_| Some((read_text(bytes)?, read(bytes)?)));
            Json::Object(pairs.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

fn read_count(bytes: &mut &[u8]) -> Option<usize> {
    let (count, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*count) as usize)
}

fn read_text(bytes: &mut &[u8]) -> Option<String> {
    let length = read_count(bytes)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}
