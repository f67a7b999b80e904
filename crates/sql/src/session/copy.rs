//! `COPY`: rows between a table and the client.
//!
//! Rows go out as those of a query. Rows come in through a prepared INSERT, so defaults, checks and
//! references hold for them as for any other; all of them are one statement.

use super::Session;
use crate::catalog::{Body, Column, Origin, Privilege, TableBody};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, Node};
use crate::run::{Feed, evaluate};
use crate::sink::{Batch, Completion, CopyShape, Flow, OutputColumn, RowSink};
use crate::state::{check_deadline, quoted};
use crate::types::{Context, Datum, Kind, Type, binary_io, text_io};
use sql_bind::row_scope;
use sql_parse::copy::{
    BinaryReader, DataEncoding, Format, Header, Reader, shown, write_end, write_fields,
    write_header, write_record,
};
use sql_parse::{
    COPIED_ROWS, Copied as _, Parsed, has_subquery, ident_text, mark_of, object_name, parse,
};
use sqlparser::ast::{CopySource, CopyTarget, Ident, ObjectName, Statement};
use std::sync::Arc;

/// Rows that are read before they are inserted.
const TOGETHER: usize = 64;

impl Session {
    pub(super) fn copy(
        &mut self,
        parsed: &Parsed,
        statement: &Statement,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let Statement::Copy {
            source,
            to,
            target,
            options,
            legacy_options,
            ..
        } = statement
        else {
            return Err(SqlError::internal("a COPY"));
        };
        let format = Format::new(options, legacy_options, *to)?;
        match (target, *to) {
            (CopyTarget::Stdin | CopyTarget::Stdout, _) => {}
            (CopyTarget::File { .. } | CopyTarget::Program { .. }, _) => {
                let instead = "Use STDIN or STDOUT; the shell's \\copy reads and writes files.";
                return Err(SqlError::unsupported(
                    "COPY with a file of the server",
                    instead,
                ));
            }
        }
        match source {
            CopySource::Query(query) => {
                // Forms that only the parser makes have no text that could be read again.
                let query = Parsed {
                    statement: Arc::new(Statement::Query(query.copied())),
                    ..parsed.clone()
                };
                self.copy_out(&query, &format, sink)
            }
            CopySource::Table {
                table_name,
                columns,
            } => {
                let is_condition = |column: &&Ident| condition_of(column).is_some();
                let condition = columns.iter().find_map(condition_of);
                let given: Vec<Ident> = columns
                    .iter()
                    .filter(|one| !is_condition(one))
                    .cloned()
                    .collect();
                if condition.is_some() && *to {
                    let message = "WHERE clause not allowed with COPY TO";
                    let hint = "Try the COPY (SELECT ... WHERE ...) TO variant.";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).hint(hint));
                }
                let columns = self.copied_columns((table_name, *to), &given)?;
                self.check_forced((table_name, *to), &columns, &format)?;
                let names = columns.iter().map(|(name, _)| quoted(name));
                let names = names.collect::<Vec<_>>().join(", ");
                if *to {
                    let query = format!("SELECT {names} FROM ONLY {table_name}");
                    let query = parse(&query).map_err(without_place)?.pop();
                    let query = query.ok_or_else(|| SqlError::internal("a query"))?;
                    self.copy_out(&query, &format, sink).map_err(without_place)
                } else {
                    let target = format!("{table_name} ({names})");
                    let condition =
                        condition.map(|text| self.copy_condition(table_name, &columns, text));
                    let condition = condition.transpose()?;
                    self.copy_in(&target, (&columns, condition.as_ref()), &format, sink)
                }
            }
        }
    }

    /// Names and types of the columns that are copied: those that are given, or all that are not
    /// computed.
    fn copied_columns(
        &self,
        (name, is_read): (&ObjectName, bool),
        given: &[Ident],
    ) -> Result<Vec<(String, Type)>> {
        let (schema, name) = object_name(name)?;
        let object = self.relation_or_typed(schema.as_deref(), &name);
        let Some(object) = object else {
            let columns = sql_bind::system::copied((schema.as_deref(), &name), is_read)?;
            return match given {
                [] => Ok(columns),
                given => given_places(&columns, &name, given)
                    .map(|places| places.into_iter().map(|at| columns[at].clone()).collect()),
            };
        };
        let Body::Table(table) = &object.body else {
            let message = format!("cannot copy {} \"{name}\"", object.kind_name());
            let hint = "Try the COPY (SELECT ...) TO variant.";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
        };
        if is_read && table.lineage.scheme.is_some() {
            let message = format!("cannot copy from partitioned table \"{name}\"");
            let hint = "Try the COPY (SELECT ...) TO variant.";
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
        }
        let is_computed = |at: usize| matches!(table.columns[at].origin, Origin::Generated(_));
        let places: Vec<usize> = if given.is_empty() {
            (0..table.columns.len())
                .filter(|at| !is_computed(*at))
                .collect()
        } else {
            let columns = table.columns.iter();
            let columns = columns.map(|column| (column.name.clone(), column.data_type));
            given_places(&columns.collect::<Vec<_>>(), &name, given)?
        };
        if let Some(at) = places.iter().find(|at| is_computed(**at)) {
            let message = format!(
                "column \"{}\" is a generated column",
                table.columns[*at].name
            );
            let detail = "Generated columns cannot be used in COPY.";
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message).detail(detail));
        }
        let column = |at: usize| (table.columns[at].name.clone(), table.columns[at].data_type);
        Ok(places.into_iter().map(column).collect())
    }

    /// Fails if an option names a column that is not copied, or that cannot be.
    fn check_forced(
        &self,
        table: (&ObjectName, bool),
        columns: &[(String, Type)],
        format: &Format,
    ) -> Result<()> {
        for (_, forced) in format.forced() {
            let forced = forced.iter().map(|name| Ident::with_quote('"', *name));
            let forced: Vec<Ident> = forced.collect();
            if !forced.is_empty() {
                self.copied_columns(table, &forced)?;
            }
        }
        let copied: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        format.check_forced(&copied, true)
    }

    fn copy_out(
        &mut self,
        query: &Parsed,
        format: &Format,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let planned = |session: &mut Self| {
            let plan = session.plan(query, &[])?;
            plan.ok_or_else(|| SqlError::internal("a plan"))
        };
        let mut plan = planned(self)?;
        while self.lock_used(&plan)? {
            plan = planned(self)?;
        }
        let columns = plan.columns.clone().ok_or_else(|| {
            let message = "COPY query must have a RETURNING clause";
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        })?;
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        format.check_forced(&names, false)?;
        let mut copied = Copied {
            columns: &columns,
            forced: columns
                .iter()
                .map(|column| format.forces_quote(&column.name))
                .collect(),
            format,
            data: Vec::new(),
            sink,
        };
        if format.header == Header::Match {
            let message = "cannot use \"match\" with HEADER in COPY TO";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        copied.sink.copy_begins(&CopyShape {
            is_from_client: false,
            is_binary: format.is_binary,
            has_encoding: format.encoding.is_some(),
            columns: columns.len(),
        })?;
        if format.header == Header::Names {
            let names = columns
                .iter()
                .map(|column| (Some(column.name.as_str()), false));
            write_record(&mut copied.data, names, format);
            copied.send()?;
        }
        if format.is_binary {
            write_header(&mut copied.data);
        }
        let mut running = self.begin_plan(&plan, Vec::new())?;
        let completion = self.run_on(&mut running, 0, &mut copied)?;
        if format.is_binary {
            write_end(&mut copied.data);
            copied.send()?;
        }
        Ok(Completion {
            command: "COPY",
            ..completion
        })
    }

    fn copy_in(
        &mut self,
        target: &str,
        (columns, condition): (&[(String, Type)], Option<&Condition>),
        format: &Format,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let values = (1..=columns.len()).map(|number| format!("${number}"));
        let values = values.collect::<Vec<_>>().join(", ");
        let text = format!("INSERT INTO {target} OVERRIDING SYSTEM VALUE VALUES ({values})");
        let parsed = parse(&text)?
            .pop()
            .ok_or_else(|| SqlError::internal("an INSERT"))?;
        let declared: Vec<_> = columns
            .iter()
            .map(|(_, found)| Some(found.kind.plain()))
            .collect();
        let planned = |session: &mut Self| {
            let plan = session.plan(&parsed, &declared).map_err(without_place)?;
            plan.ok_or_else(|| SqlError::internal("a plan"))
        };
        let mut plan = planned(self)?;
        while self.lock_used(&plan)? {
            plan = planned(self)?;
        }
        sink.copy_begins(&CopyShape {
            is_from_client: true,
            is_binary: format.is_binary,
            has_encoding: format.encoding.is_some(),
            columns: columns.len(),
        })?;
        let environment = &self.environment;
        let (interrupt, deadline) = (environment.interrupt.clone(), environment.host.deadline);
        let peer = Arc::clone(&environment.host.peer);
        // Data may come for ever, and leave no row.
        let mut more = |data: &mut Vec<u8>| {
            if interrupt.is_raised() {
                return Err(peer.stopped());
            }
            check_deadline(deadline)?;
            let known = data.len();
            let has_more = sink.copy_in(data)?;
            decode(data, known, format).map(|()| has_more)
        };
        let mut records = Records::new(format);
        records.skip_header(columns, format, &mut more)?;
        let Node::Modify(modify) = &plan.root else {
            return Err(SqlError::internal("an INSERT"));
        };
        let mut state = self.begin_run(&plan)?;
        let mut feed = Feed::begin(modify, &mut self.run(&mut state));
        let (mut rows, mut values, width) = (0, Vec::new(), columns.len());
        let read = loop {
            let record = records.next(&mut more).and_then(|record| match record {
                Some(Record::Texts(texts)) => self.values_of(texts, columns, format).map(Some),
                Some(Record::Bytes(fields)) => self.binary_values(&fields, columns).map(Some),
                None => Ok(None),
            });
            match record.map_err(|error| records.located(error, &modify.table.source.name)) {
                Ok(Some(record)) => match self.if_copied(record, condition, &mut state) {
                    Ok(Some(record)) => values.extend(record),
                    Ok(None) => continue,
                    Err(error) => break Err(error),
                },
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
            rows += 1;
            if width == 0 {
                feed.row([], &mut self.run(&mut state))?;
            } else if values.len() >= TOGETHER * width {
                feed.rows(&mut values, width, &mut self.run(&mut state))?;
            }
        };
        // An error of an earlier row comes first.
        feed.rows(&mut values, width.max(1), &mut self.run(&mut state))?;
        feed.end(&mut self.run(&mut state))?;
        read?;
        Ok(Completion::with_rows("COPY", rows))
    }

    /// The values of a record in the binary format.
    fn binary_values(
        &self,
        fields: &[Option<Vec<u8>>],
        columns: &[(String, Type)],
    ) -> Result<Vec<Datum>> {
        if fields.len() != columns.len() {
            let message = format!(
                "row field count is {}, expected {}",
                fields.len(),
                columns.len()
            );
            return Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message));
        }
        let context = self.environment.context();
        let values = fields.iter().zip(columns).map(|(field, (_, data_type))| {
            field.as_ref().map_or(Ok(Datum::Null), |bytes| {
                binary_io::parse(data_type.kind, bytes, &context)
            })
        });
        values.collect()
    }

    fn values_of(
        &self,
        record: Vec<(Option<String>, bool)>,
        columns: &[(String, Type)],
        format: &Format,
    ) -> Result<Vec<Datum>> {
        let bad = |message: String| SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message);
        if record.len() > columns.len() {
            return Err(bad("extra data after last expected column".to_owned()));
        }
        let missing = columns.get(record.len());
        let context = self.environment.context();
        let value = |((field, was_quoted), (name, data_type)): (
            (Option<String>, bool),
            &(String, Type),
        )| {
            let field = match field {
                None if format.force_not_null.contains(name) => Some(format.null.clone()),
                Some(text)
                    if was_quoted && text == format.null && format.force_null.contains(name) =>
                {
                    None
                }
                field => field,
            };
            match field {
                None => Ok(Datum::Null),
                Some(text) => {
                    let value = text_io::parse_for(*data_type, &text, &context);
                    value.map_err(|error| {
                        let place = format!(", column {name}: \"{}\"", shown(text.as_bytes()));
                        error.named(|names| names.context = Some(place))
                    })
                }
            }
        };
        let values: Vec<Datum> = record
            .into_iter()
            .zip(columns)
            .map(value)
            .collect::<Result<_>>()?;
        match missing {
            Some((name, _)) => Err(bad(format!("missing data for column \"{name}\""))),
            None => Ok(values),
        }
    }
}

/// The condition of `COPY`, over its columns and others, which are NULL.
struct Condition {
    expression: Expr,
    /// The values of columns whose types or domains have more rules than their kind, by places.
    inputs: Vec<(usize, Expr)>,
    others: usize,
}

/// The text of the condition that a marked column has.
fn condition_of(column: &Ident) -> Option<&str> {
    mark_of(column)?.strip_prefix(COPIED_ROWS)
}

impl Session {
    /// Binds the condition of the rows that are copied.
    fn copy_condition(
        &self,
        table: &ObjectName,
        copied: &[(String, Type)],
        text: &str,
    ) -> Result<Condition> {
        let refused = |message: &str| SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
        parse(&format!("SELECT WHERE {text}")).map_err(without_place)?;
        if has_subquery(text) {
            return Err(refused("cannot use subquery in COPY FROM WHERE condition"));
        }
        let (schema, name) = object_name(table)?;
        let object = self.relation_or_typed(schema.as_deref(), &name);
        let Some(Body::Table(body)) = object.as_deref().map(|object| &object.body) else {
            return Err(SqlError::internal("a table is copied"));
        };
        let is_copied = |column: &&Column| copied.iter().any(|(name, _)| *name == column.name);
        let others = body.columns.iter().filter(|column| !is_copied(column));
        let others: Vec<&Column> = others.collect();
        let columns = copied.iter().cloned();
        let columns = columns.chain(others.iter().map(|one| (one.name.clone(), one.data_type)));
        let scope = row_scope(&name, columns)?;
        let bound = self.binding(|binder| {
            binder.read_new();
            binder.stored(text, scope)
        });
        let expression = bound.map_err(|error| {
            let message = error
                .message
                .replace("check constraints", "COPY FROM WHERE conditions");
            SqlError {
                message,
                ..without_place(error)
            }
        })?;
        if expression.kind() != Kind::Bool {
            let kind = expression.kind();
            let message = format!("argument of WHERE must be type boolean, not type {kind}");
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
        }
        if let Some(table) = object.as_deref().filter(|_| expression.reads_row()) {
            let names = &self.environment.names;
            names.check(names.role, table, Privilege::Select.bit())?;
        }
        let mut read = Vec::new();
        expression.columns(&mut |at| read.extend(at.checked_sub(copied.len())));
        for column in read.into_iter().filter_map(|at| others.get(at)) {
            if matches!(column.origin, Origin::Generated(_)) {
                let message = "generated columns are not supported in COPY FROM WHERE conditions";
                let detail = format!("Column \"{}\" is a generated column.", column.name);
                let state = SqlState::INVALID_COLUMN_REFERENCE;
                return Err(SqlError::new(state, message).detail(detail));
            }
            if column.default.is_some() || column.origin != Origin::Given {
                let instead = "Copy the column, or delete the rows afterwards.";
                let what = format!("a condition on the default of column \"{}\"", column.name);
                return Err(SqlError::unsupported(what, instead));
            }
        }
        Ok(Condition {
            expression,
            inputs: self.inputs_of(body, copied)?,
            others: others.len(),
        })
    }

    /// The values of copied columns as their types and domains have them, where these have rules.
    fn inputs_of(&self, body: &TableBody, copied: &[(String, Type)]) -> Result<Vec<(usize, Expr)>> {
        let mut inputs = Vec::new();
        for (at, (name, _)) in copied.iter().enumerate() {
            let column = body.columns.iter().find(|column| column.name == *name);
            let column = column.ok_or_else(|| SqlError::internal("a copied column"))?;
            let input = self.binding(|binder| binder.input_of(at, column))?;
            inputs.extend(input.map(|input| (at, input)));
        }
        Ok(inputs)
    }

    /// The record, if the condition of `COPY` is true of it.
    fn if_copied(
        &mut self,
        record: Vec<Datum>,
        condition: Option<&Condition>,
        state: &mut crate::run::State,
    ) -> Result<Option<Vec<Datum>>> {
        let Some(condition) = condition else {
            return Ok(Some(record));
        };
        let (width, mut row) = (record.len(), record);
        row.resize(width + condition.others, Datum::Null);
        for (at, input) in &condition.inputs {
            row[*at] = evaluate(input, &row, &mut self.run(state))?;
        }
        let value = evaluate(&condition.expression, &row, &mut self.run(state))?;
        row.truncate(width);
        Ok(matches!(value, Datum::Bool(true)).then_some(row))
    }
}

/// Records in the format of the statement.
enum Records<'f> {
    Texts(Reader<'f>),
    Bytes(BinaryReader),
}

enum Record {
    Texts(Vec<(Option<String>, bool)>),
    Bytes(Vec<Option<Vec<u8>>>),
}

type More<'m> = dyn FnMut(&mut Vec<u8>) -> Result<bool> + 'm;

impl<'f> Records<'f> {
    fn new(format: &'f Format) -> Self {
        if format.is_binary {
            Self::Bytes(BinaryReader::default())
        } else {
            Self::Texts(Reader::new(format))
        }
    }

    fn next(&mut self, more: &mut More<'_>) -> Result<Option<Record>> {
        Ok(match self {
            Self::Texts(reader) => reader.next(more)?.map(Record::Texts),
            Self::Bytes(reader) => reader.next(more)?.map(Record::Bytes),
        })
    }

    /// An error of the data with its line, and its column if it has told one.
    fn located(&self, error: SqlError, table: &str) -> SqlError {
        let Self::Texts(reader) = self else {
            return error;
        };
        let (number, line) = reader.last_line();
        error.named(|names| {
            let place = names.context.take();
            let place = place.unwrap_or_else(|| format!(": \"{line}\""));
            names.context = Some(format!("COPY {table}, line {number}{place}"));
        })
    }

    /// Reads the line with the names of the columns, which must be these if the format says so.
    fn skip_header(
        &mut self,
        columns: &[(String, Type)],
        format: &Format,
        more: &mut More<'_>,
    ) -> Result<()> {
        if format.header == Header::None {
            return Ok(());
        }
        let Some(Record::Texts(names)) = self.next(more)? else {
            return Ok(());
        };
        if format.header != Header::Match {
            return Ok(());
        }
        let bad = |message: String| SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, message);
        if names.len() != columns.len() {
            return Err(bad(format!(
                "wrong number of fields in header line: got {}, expected {}",
                names.len(),
                columns.len()
            )));
        }
        for (number, ((name, _), (wanted, _))) in (1..).zip(names.iter().zip(columns)) {
            if name.as_ref() != Some(wanted) {
                let found = match name {
                    Some(name) => format!("\"{name}\""),
                    None => format!("null value (\"{}\")", format.null),
                };
                return Err(bad(format!(
                    "column name mismatch in header line field {number}: got {found}, expected \"{wanted}\""
                )));
            }
        }
        Ok(())
    }
}

fn given_places(columns: &[(String, Type)], name: &str, given: &[Ident]) -> Result<Vec<usize>> {
    let mut places = Vec::with_capacity(given.len());
    for column in given.iter().map(ident_text) {
        let at = columns.iter().position(|(own, _)| *own == column);
        let at = at.ok_or_else(|| {
            let message = format!("column \"{column}\" of relation \"{name}\" does not exist");
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        if places.contains(&at) {
            let message = format!("column \"{column}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        places.push(at);
    }
    Ok(places)
}

/// Makes data behind known ones UTF-8, if the statement names another encoding.
fn decode(data: &mut Vec<u8>, known: usize, format: &Format) -> Result<()> {
    if let Some(DataEncoding(Some(encoding))) = format.encoding {
        let text = encoding.decode(&data[known..])?;
        data.truncate(known);
        data.extend_from_slice(text.as_bytes());
    }
    Ok(())
}

/// The statement that was planned is not that of the client, so places in it mean nothing there.
fn without_place(error: SqlError) -> SqlError {
    SqlError {
        position: None,
        ..error
    }
}

/// Makes records of rows and sends each of them by itself, as drivers expect.
struct Copied<'a> {
    columns: &'a [OutputColumn],
    /// Columns whose texts stand in quotes.
    forced: Vec<bool>,
    format: &'a Format,
    data: Vec<u8>,
    sink: &'a mut dyn RowSink,
}

impl Copied<'_> {
    fn send(&mut self) -> Result<()> {
        if let Some(DataEncoding(Some(encoding))) = self.format.encoding {
            let mut encoded = Vec::with_capacity(self.data.len());
            encoding.encode(&String::from_utf8_lossy(&self.data), &mut encoded)?;
            self.sink.copy_out(&encoded)?;
        } else {
            self.sink.copy_out(&self.data)?;
        }
        self.data.clear();
        Ok(())
    }
}

impl RowSink for Copied<'_> {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<()> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow> {
        for row in batch.rows() {
            if self.format.is_binary {
                let fields = row.iter().zip(self.columns).map(|(value, column)| {
                    if value.is_null() {
                        return Ok(None);
                    }
                    let mut bytes = Vec::new();
                    binary_io::print(&mut bytes, value, column.data_type.kind, context)?;
                    Ok(Some(bytes))
                });
                write_fields(&mut self.data, &fields.collect::<Result<Vec<_>>>()?);
                self.send()?;
                continue;
            }
            let mut texts = Vec::with_capacity(row.len());
            for (value, column) in row.iter().zip(self.columns) {
                texts.push(match value {
                    Datum::Null => None,
                    value => Some(text_io::print(value, column.data_type.kind, context)?),
                });
            }
            let fields = texts
                .iter()
                .map(Option::as_deref)
                .zip(self.forced.iter().copied());
            write_record(&mut self.data, fields, self.format);
            self.send()?;
        }
        Ok(Flow::More)
    }
}
