//! Columns and keys as a user writes them on the command line.
//!
//! A list of columns is `name:type,name:type?`: a question mark allows NULL, and commas inside
//! parentheses belong to the type. A key is a list of column names.

use crate::failure::Usage;
use anyhow::{Result, anyhow};
use indelible::{Column, DataType, TableDef, Value};

/// Reads `id:int64,price:decimal(10,2)?`.
pub(crate) fn parse(text: &str) -> Result<Vec<Column>> {
    split_outside_parentheses(text)
        .into_iter()
        .map(parse_one)
        .collect()
}

fn parse_one(text: &str) -> Result<Column> {
    let Some((name, type_name)) = text.split_once(':') else {
        return Err(Usage::error(format!(
            "`{text}` is no column; write `name:type`, or `name:type?` for one that may be NULL"
        )));
    };
    let (type_name, nullable) = match type_name.trim().strip_suffix('?') {
        Some(rest) => (rest, true),
        None => (type_name.trim(), false),
    };
    let data_type: DataType = type_name
        .parse()
        .map_err(|error| Usage::error(format!("column `{name}`: {error}")))?;
    let column = Column::new(name.trim(), data_type);
    Ok(if nullable { column.nullable() } else { column })
}

/// Writes columns so that [`parse`] reads them back, if no name holds a comma or a colon.
pub(crate) fn print(column: &Column) -> String {
    let mark = if column.nullable { "?" } else { "" };
    format!("{}:{}{mark}", column.name, column.data_type)
}

/// Splits at commas outside parentheses.
pub(crate) fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// Positions of named columns.
pub(crate) fn positions(columns: &[Column], names: &[String]) -> Result<Vec<usize>> {
    let position = |name: &String| {
        columns
            .iter()
            .position(|column| &column.name == name)
            .ok_or_else(|| {
                let known: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
                anyhow!(
                    "there is no column `{name}`; the columns are {}",
                    known.join(", ")
                )
            })
    };
    names.iter().map(position).collect()
}

/// Reads the values of a key, in the order of its columns. Fewer values than columns are allowed: a
/// prefix.
pub(crate) fn key(def: &TableDef, columns: &[usize], texts: &[String]) -> Result<Vec<Value>> {
    if texts.len() > columns.len() {
        let names: Vec<&str> = columns
            .iter()
            .map(|at| def.columns[*at].name.as_str())
            .collect();
        return Err(Usage::error(format!(
            "the key of table `{}` has {} column(s) here ({}), but {} values were given",
            def.name,
            columns.len(),
            names.join(", "),
            texts.len()
        )));
    }
    let read = |(at, text): (&usize, &String)| {
        let column = &def.columns[*at];
        Value::parse(column.data_type, text)
            .map_err(|error| anyhow!("column `{}`: {error}", column.name))
    };
    columns.iter().zip(texts).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_read_back() {
        let text = "id:int64,price:decimal(10,2)?,note:text?";
        let columns = parse(text).unwrap();
        assert_eq!(columns.len(), 3);
        assert!(columns[1].nullable && !columns[0].nullable);
        let printed: Vec<String> = columns.iter().map(print).collect();
        assert_eq!(printed.join(","), text);
    }

    #[test]
    fn mistakes_say_what_to_write() {
        assert!(parse("id").unwrap_err().to_string().contains("name:type"));
        assert!(
            parse("id:number")
                .unwrap_err()
                .to_string()
                .contains("int64")
        );
        let columns = parse("id:int64").unwrap();
        let error = positions(&columns, &["nr".into()]).unwrap_err().to_string();
        assert!(error.contains("`nr`") && error.contains("id"), "{error}");
    }
}
