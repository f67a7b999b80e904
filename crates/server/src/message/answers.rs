//! Answers of the server, collected until they are sent.
//!
//! A message is written in place: its kind, room for its length, its fields, and then the length.
//! Nothing here is sent; [`Link`](crate::link::Link) decides when.

use super::{Format, Formats};
use sql::types::Type;
use sql::{CopyShape, Encoding, Notification, OutputColumn, SqlError};

/// The state of the transaction, as `ReadyForQuery` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Idle = b'I' as isize,
    Open = b'T' as isize,
    Failed = b'E' as isize,
}

/// The weight of an error or a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The connection ends.
    Fatal,
    Error,
    Warning,
    Notice,
}

impl Severity {
    fn name(self) -> &'static str {
        match self {
            Self::Fatal => "FATAL",
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Notice => "NOTICE",
        }
    }
}

/// Messages to send.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) bytes: Vec<u8>,
    /// The encoding of the client's texts; none is UTF-8.
    pub(crate) encoding: Option<&'static Encoding>,
}

impl Answers {
    /// Writes a message whose fields `fill` appends.
    pub(crate) fn message(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(kind);
        let at = self.bytes.len();
        self.bytes.extend([0; 4]);
        fill(&mut self.bytes);
        patch_length(&mut self.bytes, at, 0);
    }

    /// Writes a message without fields.
    fn empty(&mut self, kind: u8) {
        self.message(kind, |_| {});
    }

    pub(crate) fn authentication_ok(&mut self) {
        self.message(b'R', |out| out.extend(0_u32.to_be_bytes()));
    }

    /// The mechanisms by which a client may prove who it is.
    pub(crate) fn sasl_mechanisms(&mut self, names: &[&str]) {
        self.message(b'R', |out| {
            out.extend(10_u32.to_be_bytes());
            for name in names {
                text(out, None, name.as_bytes());
            }
            out.push(0);
        });
    }

    /// A step of such a proof: 11 in its middle, 12 at its end.
    pub(crate) fn sasl(&mut self, step: u32, content: &[u8]) {
        self.message(b'R', |out| {
            out.extend(step.to_be_bytes());
            out.extend(content);
        });
    }

    /// The newest version that there is, and the options that are not known.
    pub(crate) fn negotiate(&mut self, version: u32, unknown: &[&[u8]]) {
        self.message(b'v', |out| {
            out.extend(version.to_be_bytes());
            out.extend((unknown.len() as u32).to_be_bytes());
            for name in unknown {
                text(out, None, name);
            }
        });
    }

    /// The number and the key by which the connection's statements are cancelled.
    pub(crate) fn key(&mut self, number: u32, key: &[u8]) {
        self.message(b'K', |out| {
            out.extend(number.to_be_bytes());
            out.extend(key);
        });
    }

    pub(crate) fn parameter(&mut self, name: &str, value: &str) {
        let encoding = self.encoding;
        self.message(b'S', |out| {
            text(out, encoding, name.as_bytes());
            text(out, encoding, value.as_bytes());
        });
    }

    pub(crate) fn ready(&mut self, status: Status) {
        self.message(b'Z', |out| out.push(status as u8));
    }

    pub(crate) fn notification(&mut self, notification: &Notification) {
        let encoding = self.encoding;
        self.message(b'A', |out| {
            out.extend(notification.sender.to_be_bytes());
            text(out, encoding, notification.channel.as_bytes());
            text(out, encoding, notification.payload.as_bytes());
        });
    }

    pub(crate) fn parse_complete(&mut self) {
        self.empty(b'1');
    }

    pub(crate) fn bind_complete(&mut self) {
        self.empty(b'2');
    }

    pub(crate) fn close_complete(&mut self) {
        self.empty(b'3');
    }

    pub(crate) fn empty_query(&mut self) {
        self.empty(b'I');
    }

    pub(crate) fn portal_suspended(&mut self) {
        self.empty(b's');
    }

    pub(crate) fn copy_done(&mut self) {
        self.empty(b'c');
    }

    pub(crate) fn command_complete(&mut self, tag: &str) {
        self.message(b'C', |out| text(out, None, tag.as_bytes()));
    }

    pub(crate) fn parameter_types(&mut self, types: &[Type]) {
        self.message(b't', |out| {
            out.extend((types.len() as u16).to_be_bytes());
            for one in types {
                out.extend(one.kind.oid().to_be_bytes());
            }
        });
    }

    /// The columns of a result, if there is one.
    pub(crate) fn result(&mut self, columns: Option<&[OutputColumn]>, formats: &Formats) {
        match columns {
            Some(columns) => self.columns(columns, formats),
            None => self.empty(b'n'),
        }
    }

    pub(crate) fn columns(&mut self, columns: &[OutputColumn], formats: &Formats) {
        let encoding = self.encoding;
        self.message(b'T', |out| {
            out.extend((columns.len() as u16).to_be_bytes());
            for (at, column) in columns.iter().enumerate() {
                text(out, encoding, column.name.as_bytes());
                out.extend(column.table.to_be_bytes());
                out.extend(column.position.to_be_bytes());
                let Type { kind, modifier } = column.data_type;
                out.extend(kind.oid().to_be_bytes());
                out.extend(kind.length().to_be_bytes());
                out.extend(modifier.to_be_bytes());
                out.extend((formats.of(at) as u16).to_be_bytes());
            }
        });
    }

    pub(crate) fn copy_begins(&mut self, copy: &CopyShape) {
        let kind = if copy.is_from_client { b'G' } else { b'H' };
        let format = if copy.is_binary {
            Format::Binary
        } else {
            Format::Text
        };
        self.message(kind, |out| {
            out.push(format as u8);
            out.extend((copy.columns as u16).to_be_bytes());
            for _ in 0..copy.columns {
                out.extend((format as u16).to_be_bytes());
            }
        });
    }

    pub(crate) fn copy_data(&mut self, data: &[u8]) {
        self.message(b'd', |out| out.extend(data));
    }

    /// An error or a notice.
    pub(crate) fn report(&mut self, severity: Severity, error: &SqlError) {
        let kind = match severity {
            Severity::Fatal | Severity::Error => b'E',
            Severity::Warning | Severity::Notice => b'N',
        };
        let names = error.names.as_deref();
        let name = |part: fn(&sql::error::ErrorNames) -> &Option<String>| {
            names.and_then(|names| part(names).as_deref())
        };
        let position = error.position.map(|place| place.to_string());
        let fields = [
            (b'S', Some(severity.name())),
            (b'V', Some(severity.name())),
            (b'C', Some(error.state.0)),
            (b'M', Some(error.message.as_str())),
            (b'D', error.detail.as_deref()),
            (b'H', error.hint.as_deref()),
            (b'P', position.as_deref()),
            (b'W', name(|names| &names.context)),
            (b's', name(|names| &names.schema)),
            (b't', name(|names| &names.table)),
            (b'c', name(|names| &names.column)),
            (b'd', name(|names| &names.data_type)),
            (b'n', name(|names| &names.constraint)),
            (b'R', names.and_then(|names| names.routine)),
        ];
        let encoding = self.encoding;
        self.message(kind, |out| {
            for (field, value) in fields {
                if let Some(value) = value {
                    out.push(field);
                    text(out, encoding, value.as_bytes());
                }
            }
            out.push(0);
        });
    }
}

/// Writes the length of everything after `at`, where it has four bytes; `less` of them are not in
/// the length.
pub(crate) fn patch_length(out: &mut [u8], at: usize, less: usize) {
    let length = (out.len() - at - less) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// A text ends at its first zero byte: texts of clients may have some, messages cannot.
fn text(out: &mut Vec<u8>, encoding: Option<&Encoding>, text: &[u8]) {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    match encoding {
        None => out.extend(text),
        Some(encoding) => encoding.encode_message(text, out),
    }
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::SqlState;

    #[test]
    fn a_report_has_the_fields_that_there_are() {
        let mut answers = Answers::default();
        let error = SqlError::new(SqlState::UNIQUE_VIOLATION, "no\0pe")
            .named(|names| names.constraint = Some("t_key".into()))
            .named(|names| names.routine = Some("_bt_check_unique"));
        answers.report(Severity::Error, &error);
        let body = b"SERROR\0VERROR\0C23505\0Mno\0nt_key\0R_bt_check_unique\0\0";
        let length = (body.len() as u32 + 4).to_be_bytes();
        assert_eq!(answers.bytes, [b"E", &length[..], body].concat());
    }
}
