//! Values as scripts write them, and the values that scripts generate.
//!
//! A line is a list of arguments between blanks; an argument is literals between commas, with
//! `name=` before them if it is named. Text in double quotes may hold anything (`\"`, `\\`, `\n`,
//! `\0`), and `"ab"*300` repeats it. A literal is read for the type of its column, but loosely, so
//! that a script can offer a value of a wrong type or length.

use storage::record::{DataType, Date, Decimal, Timestamp, Uuid, Value, ValueRef};

/// Texts longer than this are shown shortened.
const SHOWN_BYTES_MAX: usize = 48;

/// Part of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Argument {
    /// The name before the `=`.
    pub name: Option<String>,
    /// The literals between the commas.
    pub values: Vec<Literal>,
}

/// One value in a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Literal {
    /// Without quotes.
    pub text: String,
    /// Whether it had quotes.
    pub is_quoted: bool,
}

impl Argument {
    /// The whole argument as one word.
    pub fn word(&self) -> String {
        let words: Vec<&str> = self
            .values
            .iter()
            .map(|value| value.text.as_str())
            .collect();
        words.join(",")
    }
}

/// The arguments of a line.
pub fn arguments(line: &str) -> Result<Vec<Argument>, String> {
    let mut all = Vec::new();
    let mut letters = line.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        if letters.peek().is_none() {
            return Ok(all);
        }
        let mut argument = Argument::default();
        let mut literal = Literal::default();
        let mut depth = 0;
        while let Some(letter) = letters.next_if(|letter| !letter.is_whitespace()) {
            match letter {
                '"' => quoted(&mut letters, &mut literal)?,
                '=' if argument.name.is_none() && argument.values.is_empty() => {
                    argument.name = Some(std::mem::take(&mut literal).text);
                }
                ',' if depth == 0 => argument.values.push(std::mem::take(&mut literal)),
                _ => {
                    depth += i32::from(letter == '(') - i32::from(letter == ')');
                    literal.text.push(letter);
                }
            }
        }
        argument.values.push(literal);
        all.push(argument);
    }
}

/// Reads the rest of a text in quotes and how often it is repeated.
fn quoted(
    letters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    literal: &mut Literal,
) -> Result<(), String> {
    let mut text = String::new();
    loop {
        match letters.next().ok_or("a text has no closing quote")? {
            '"' => break,
            '\\' => text.push(match letters.next() {
                Some('n') => '\n',
                Some('0') => '\0',
                Some(other) => other,
                None => return Err("a text ends in a backslash".to_owned()),
            }),
            other => text.push(other),
        }
    }
    let mut times = 1;
    if letters.next_if_eq(&'*').is_some() {
        let mut digits = String::new();
        while let Some(digit) = letters.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        times = digits
            .parse()
            .map_err(|_| format!("`{digits}` is no number"))?;
    }
    literal.text.push_str(&text.repeat(times));
    literal.is_quoted = true;
    Ok(())
}

/// Reads a literal for a column of this type.
pub fn value(data_type: DataType, literal: &Literal) -> Result<Value, String> {
    let text = literal.text.as_str();
    if !literal.is_quoted && text == "NULL" {
        return Ok(Value::Null);
    }
    let parsed = match data_type {
        DataType::Char { .. } | DataType::Varchar { .. } | DataType::Text => {
            return Ok(Value::Text(text.to_owned()));
        }
        _ if literal.is_quoted => return Ok(Value::Text(text.to_owned())),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => Value::parse(DataType::Int64, text),
        DataType::Bytes { .. } | DataType::Sortable { .. } => {
            Value::parse(DataType::Bytes { max: None }, text)
        }
        other => Value::parse(other, text),
    };
    parsed.map_err(|error| error.to_string())
}

/// The value that row number `number` has in a column; `text_bytes` is the length of texts, if
/// given. Every fifth row has NULL where it may.
pub fn generated(
    data_type: DataType,
    nullable: bool,
    number: i64,
    text_bytes: Option<usize>,
) -> Value {
    if nullable && number % 5 == 0 {
        return Value::Null;
    }
    match data_type {
        DataType::Bool => Value::Bool(number % 2 == 1),
        DataType::Int16 => Value::Int16(number as i16),
        DataType::Int32 => Value::Int32(number as i32),
        DataType::Int64 => Value::Int64(number),
        DataType::Float64 => Value::Float64(number as f64 / 2.0),
        DataType::Decimal { scale, .. } => Value::Decimal(Decimal::new(number.into(), scale)),
        DataType::Date => Value::Date(Date(number as i32)),
        DataType::Timestamp => Value::Timestamp(Timestamp(number)),
        DataType::Uuid => Value::Uuid(Uuid(u128::from(number.cast_unsigned()).to_be_bytes())),
        DataType::Char { .. } | DataType::Varchar { .. } | DataType::Text => {
            let mut text = format!("row-{number:05}");
            let bytes = text_bytes.unwrap_or(text.len());
            while text.len() < bytes {
                text.extend(["-", &number.to_string()]);
            }
            text.truncate(bytes.min(data_type.bytes_max() as usize));
            Value::Text(text)
        }
        DataType::Bytes { .. } | DataType::Sortable { .. } => {
            let mut bytes = vec![number.cast_unsigned() as u8; text_bytes.unwrap_or(5)];
            bytes.truncate(data_type.bytes_max() as usize);
            Value::Bytes(bytes)
        }
    }
}

/// A value as scripts show it: texts in quotes, long ones by their first bytes, length and
/// checksum.
pub fn shown(value: ValueRef<'_>) -> String {
    let (bytes, text) = match value {
        ValueRef::Text(text) => (text.as_bytes(), format!("{text:?}")),
        ValueRef::Bytes(bytes) => (bytes, value.to_string()),
        _ => return value.to_string(),
    };
    if bytes.len() <= SHOWN_BYTES_MAX {
        return text;
    }
    let start: String = text.chars().take(9).collect();
    let quote = if text.starts_with('"') { "\"" } else { "" };
    format!(
        "{start}{quote}... ({} bytes, checksum {:08x})",
        bytes.len(),
        crc32c::crc32c(bytes)
    )
}

/// A row as scripts show it.
pub fn shown_row<'v>(values: impl Iterator<Item = ValueRef<'v>>) -> String {
    values.map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_into_arguments() {
        let all = arguments(r#"scan t by=i from=1,"a, b" "x"*3 price=decimal(12,2)"#).unwrap();
        let words: Vec<_> = all.iter().map(Argument::word).collect();
        assert_eq!(words, ["scan", "t", "i", "1,a, b", "xxx", "decimal(12,2)"]);
        assert_eq!(all[3].values.len(), 2);
        assert_eq!(all[3].name.as_deref(), Some("from"));
        assert!(arguments("get t \"open").is_err());
    }
}
