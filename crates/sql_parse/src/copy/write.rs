//! Fields become the bytes of `COPY TO`.
//!
//! The counterpart of `read.rs`: each line that it writes is read back as the same fields. NULL and
//! the text that means NULL stay distinct.

use super::format::Format;

/// Appends a record; each field comes with whether it must stand in quotes.
pub fn write_record<'a>(
    out: &mut Vec<u8>,
    fields: impl ExactSizeIterator<Item = (Option<&'a str>, bool)>,
    format: &Format,
) {
    let is_only = fields.len() == 1;
    for (at, (field, must_quote)) in fields.enumerate() {
        if at > 0 {
            out.push(format.delimiter);
        }
        match field {
            None => out.extend(format.null.as_bytes()),
            Some(text) if format.is_csv => {
                if must_quote || needs_quotes(text, is_only, format) {
                    quote(out, text, format);
                } else {
                    out.extend(text.as_bytes());
                }
            }
            Some(text) => escape(out, text, format),
        }
    }
    out.push(b'\n');
}

fn needs_quotes(text: &str, is_only: bool, format: &Format) -> bool {
    let is_special = |byte: u8| {
        byte == format.delimiter || byte == format.quote || matches!(byte, b'\n' | b'\r')
    };
    // A line of `\.` would end the data.
    text == format.null || is_only && text == "\\." || text.bytes().any(is_special)
}

fn quote(out: &mut Vec<u8>, text: &str, format: &Format) {
    out.push(format.quote);
    for byte in text.bytes() {
        if byte == format.quote || byte == format.escape {
            out.push(format.escape);
        }
        out.push(byte);
    }
    out.push(format.quote);
}

fn escape(out: &mut Vec<u8>, text: &str, format: &Format) {
    for byte in text.bytes() {
        let letter = match byte {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'\\' => b'\\',
            _ if byte == format.delimiter => byte,
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend([b'\\', letter]);
    }
}
