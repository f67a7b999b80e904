//! Requests of clients.
//!
//! The first message of a connection has no kind; [`StartUp`] is its meaning. All others are a
//! [`Request`], which borrows from the body.

use super::fields::{Fields, Malformed};
use super::{Format, Formats};

/// Numbers in the place of a version.
const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// The name of a setting, and its value.
pub(crate) type Setting<'a> = (&'a [u8], &'a [u8]);

/// The first message of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StartUp<'a> {
    /// Encryption by TLS is wished.
    Tls,
    /// Encryption by Kerberos is wished.
    Gss,
    /// The statement of another connection is to end.
    Cancel { number: u32, key: &'a [u8] },
    /// A session is to begin, in this version and with these settings.
    Session {
        major: u16,
        minor: u16,
        settings: Vec<Setting<'a>>,
    },
}

impl<'a> StartUp<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        match fields.u32()? {
            TLS => fields.end().map(|()| Self::Tls),
            GSS => fields.end().map(|()| Self::Gss),
            CANCEL => Ok(Self::Cancel {
                number: fields.u32()?,
                key: fields.rest(),
            }),
            version => {
                let (major, minor) = ((version >> 16) as u16, version as u16);
                let mut settings = Vec::new();
                // The settings of another version may have any form.
                if major == 3 {
                    settings = pairs(fields)?;
                }
                Ok(Self::Session {
                    major,
                    minor,
                    settings,
                })
            }
        }
    }
}

/// Names with their values, up to an empty name.
fn pairs(mut fields: Fields<'_>) -> Result<Vec<Setting<'_>>, Malformed> {
    let mut pairs = Vec::new();
    loop {
        let name = fields.text()?;
        if name.is_empty() {
            return fields.end().map(|()| pairs);
        }
        pairs.push((name, fields.text()?));
    }
}

/// A statement or a portal, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Statement,
    Portal,
}

/// A message of a client whose session has begun.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    Query(&'a [u8]),
    Parse {
        statement: &'a [u8],
        text: &'a [u8],
        /// Numbers of the types of parameters; 0 leaves one open.
        types: Vec<u32>,
    },
    Bind {
        portal: &'a [u8],
        statement: &'a [u8],
        formats: Formats,
        values: Vec<Option<&'a [u8]>>,
        results: Formats,
    },
    Describe(Target, &'a [u8]),
    Close(Target, &'a [u8]),
    Execute {
        portal: &'a [u8],
        rows_max: u32,
    },
    Sync,
    Flush,
    CopyData(&'a [u8]),
    CopyDone,
    CopyFail(&'a [u8]),
    FunctionCall,
    Terminate,
}

impl<'a> Request<'a> {
    pub(crate) fn read(kind: u8, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let request = match kind {
            b'Q' => Self::Query(fields.text()?),
            b'P' => {
                let (statement, text) = (fields.text()?, fields.text()?);
                let count = fields.u16()?;
                let types = fields.list(count, Fields::u32)?;
                Self::Parse {
                    statement,
                    text,
                    types,
                }
            }
            b'B' => bind(&mut fields)?,
            b'D' => Self::Describe(target(&mut fields)?, fields.text()?),
            b'C' => Self::Close(target(&mut fields)?, fields.text()?),
            b'E' => Self::Execute {
                portal: fields.text()?,
                // A number below 0 means no limit, as 0 does.
                rows_max: match fields.u32()? {
                    rows @ 0..0x8000_0000 => rows,
                    _ => 0,
                },
            },
            b'S' => Self::Sync,
            b'H' => Self::Flush,
            b'd' => Self::CopyData(fields.rest()),
            b'c' => Self::CopyDone,
            b'f' => Self::CopyFail(fields.text()?),
            b'F' => {
                fields.rest();
                Self::FunctionCall
            }
            b'X' => Self::Terminate,
            other => return Err(Malformed::UnknownKind(other)),
        };
        fields.end()?;
        Ok(request)
    }
}

fn target(fields: &mut Fields<'_>) -> Result<Target, Malformed> {
    match fields.byte()? {
        b'S' => Ok(Target::Statement),
        b'P' => Ok(Target::Portal),
        _ => Err(Malformed::BadField("kind of object")),
    }
}

fn bind<'a>(fields: &mut Fields<'a>) -> Result<Request<'a>, Malformed> {
    let (portal, statement) = (fields.text()?, fields.text()?);
    let formats = formats(fields)?;
    let count = fields.u16()?;
    let values = fields.list(count, Fields::value)?;
    Ok(Request::Bind {
        portal,
        statement,
        formats,
        values,
        results: self::formats(fields)?,
    })
}

fn formats(fields: &mut Fields<'_>) -> Result<Formats, Malformed> {
    let count = fields.u16()?;
    let formats = fields.list(count, |fields| match fields.u16()? {
        0 => Ok(Format::Text),
        1 => Ok(Format::Binary),
        _ => Err(Malformed::BadField("format code")),
    })?;
    Ok(Formats::new(formats))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind_body() -> Vec<u8> {
        let mut body = b"p\0s\0".to_vec();
        for half in [1_u16, 1, 2] {
            body.extend(half.to_be_bytes());
        }
        body.extend(4_u32.to_be_bytes());
        body.extend([0, 0, 0, 7]);
        body.extend(u32::MAX.to_be_bytes());
        body.extend(0_u16.to_be_bytes());
        body
    }

    #[test]
    fn a_bind_has_its_values() {
        let expected = Request::Bind {
            portal: b"p",
            statement: b"s",
            formats: Formats::new(vec![Format::Binary]),
            values: vec![Some(&[0, 0, 0, 7]), None],
            results: Formats::default(),
        };
        assert_eq!(Request::read(b'B', &bind_body()), Ok(expected));
    }

    #[test]
    fn bodies_of_another_length_are_malformed() {
        let body = bind_body();
        for end in 0..body.len() {
            assert_eq!(
                Request::read(b'B', &body[..end]),
                Err(Malformed::TooShort),
                "{end}"
            );
        }
        let longer = [body.as_slice(), &[0]].concat();
        assert_eq!(Request::read(b'B', &longer), Err(Malformed::TooLong));
        assert_eq!(Request::read(b'Q', b"no end"), Err(Malformed::TooShort));
        assert_eq!(Request::read(b'S', b"x"), Err(Malformed::TooLong));
        assert_eq!(Request::read(b'?', b""), Err(Malformed::UnknownKind(b'?')));
        assert_eq!(
            Request::read(b'D', b"xa\0"),
            Err(Malformed::BadField("kind of object"))
        );
        // A count of values that the body cannot have.
        let count = [b"p\0s\0".as_slice(), &[0, 0, 255, 255]].concat();
        assert_eq!(Request::read(b'B', &count), Err(Malformed::TooShort));
    }

    #[test]
    fn a_first_message_may_ask_for_other_things() {
        let start = |words: &[u32], rest: &[u8]| {
            let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            body.extend(rest);
            body
        };
        assert_eq!(StartUp::read(&start(&[TLS], b"")), Ok(StartUp::Tls));
        assert_eq!(
            StartUp::read(&start(&[CANCEL, 7], b"key")),
            Ok(StartUp::Cancel {
                number: 7,
                key: b"key"
            })
        );
        assert_eq!(
            StartUp::read(&start(&[3 << 16 | 2], b"user\0ann\0\0")),
            Ok(StartUp::Session {
                major: 3,
                minor: 2,
                settings: vec![(b"user", b"ann")]
            })
        );
        assert_eq!(
            StartUp::read(&start(&[3 << 16], b"user\0ann\0")),
            Err(Malformed::TooShort)
        );
    }
}
