//! Messages of PostgreSQL's protocol, versions 3.0 and 3.2.
//!
//! | module | job |
//! |---|---|
//! | `fields` | numbers, texts and values of a body |
//! | `request` | bodies become the requests of a client |
//! | `answers` | answers are written straight into the buffer that is sent |
//!
//! A body is read in place: a request borrows its names and values. A body that ends too early or
//! too late is [`Malformed`], and ends its connection.

pub(crate) mod answers;
pub(crate) mod fields;
pub(crate) mod request;

pub(crate) use answers::{Answers, Status};
pub(crate) use fields::Malformed;
pub(crate) use request::{Request, StartUp, Target};

/// The form of a value on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Binary,
}

/// Formats of a list of values: none for text, one for all, or one for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Formats(Vec<Format>);

impl Formats {
    pub(crate) fn new(formats: Vec<Format>) -> Self {
        Self(formats)
    }

    /// Whether a list of so many values can have them.
    pub(crate) fn fit(&self, values: usize) -> bool {
        self.0.len() <= 1 || self.0.len() == values
    }

    /// The number of formats that were given.
    pub(crate) fn given(&self) -> usize {
        self.0.len()
    }

    /// The format of the value at a place.
    pub(crate) fn of(&self, at: usize) -> Format {
        match self.0.as_slice() {
            [] => Format::Text,
            [all] => *all,
            each => each.get(at).copied().unwrap_or(Format::Text),
        }
    }
}
