//! A session in this process with typed values, for bindings of other languages.
//!
//! A statement is prepared at its first use and kept by its text. One on single rows runs by its
//! point plan, without a portal.
//!
//! The first rows of a query come with its execution. The rest is a result, which is read a batch
//! at a time, and only one of a session streams: before another statement runs, the rest of it is
//! read into memory, so results stay readable whatever comes after them, the end of their
//! transaction included.
//!
//! Outside of a transaction block a statement commits when its last row has been read; statements
//! that change rows read all of theirs at once.

use crate::parameter::Value;
use sql::types::{Context, Datum, Kind};
use sql::{
    BATCH_ROWS, Batch, Completion, Description, Flow, Notice, OutputColumn, RowSink, Session, Sql,
    SqlError, SqlState,
};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Texts of statements that are kept prepared, at most.
const STATEMENTS_MAX: usize = 256;
/// Notices that are kept, at most.
const NOTICES_MAX: usize = 50;

/// Errors of a statement in which the types of parameters are not certain.
const UNCERTAIN: [SqlState; 5] = [
    SqlState::AMBIGUOUS_FUNCTION,
    SqlState::UNDEFINED_FUNCTION,
    SqlState::INDETERMINATE_DATATYPE,
    SqlState::DATATYPE_MISMATCH,
    SqlState::AMBIGUOUS_PARAMETER,
];

/// A client in this process whose parameters and rows are typed.
pub struct TypedClient {
    session: Session,
    statements: HashMap<Box<str>, Vec<Arc<Statement>>>,
    prepared: u64,
    /// The statement that ran last, with no types declared: loops run one again and again.
    latest: Option<Arc<Statement>>,
    /// Memory for the values of a statement.
    fitted: Vec<Datum>,
    /// Memory for the values of a statement's rows.
    together: Vec<Datum>,
    results: HashMap<ResultId, Rows>,
    last_result: u64,
    /// The result whose statement has not ended.
    live: Option<ResultId>,
    /// [`Session::deallocations`], when the statements were looked at last.
    deallocations: u64,
    /// The newest notices that nobody has taken.
    notices: VecDeque<Notice>,
}

/// A prepared statement, with types declared for some parameters.
struct Statement {
    text: Box<str>,
    name: String,
    declared: Vec<Option<Kind>>,
    description: Description,
    columns: Option<Arc<[OutputColumn]>>,
    versions: (u64, u64),
}

/// Names a result within its client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ResultId(u64);

impl ResultId {
    /// The result of a number that [`ResultId::number`] has returned.
    pub fn of(number: u64) -> Self {
        Self(number)
    }

    /// Its number, for languages that keep numbers only.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// Rows that are ready, and the error that ended them.
struct Rows {
    ready: VecDeque<Batch>,
    failure: Option<SqlError>,
}

/// A statement that has begun.
#[derive(Debug)]
pub struct Executed {
    /// The columns of its rows; none if it returns none.
    pub columns: Option<Arc<[OutputColumn]>>,
    /// The first rows.
    pub rows: Batch,
    /// The rows that follow, if it has not ended.
    pub result: Option<ResultId>,
    /// The command and its count, as far as it has come.
    pub completion: Completion,
}

impl TypedClient {
    /// A session of a database that is open.
    ///
    /// # Errors
    ///
    /// As [`Sql::connect`].
    pub fn connect(sql: &Arc<Sql>) -> Result<Self, SqlError> {
        Ok(Self {
            session: sql.connect()?,
            statements: HashMap::new(),
            prepared: 0,
            latest: None,
            fitted: Vec::new(),
            together: Vec::new(),
            results: HashMap::new(),
            last_result: 0,
            live: None,
            deallocations: 0,
            notices: VecDeque::new(),
        })
    }

    /// Takes the notices so far, the newest 50 of them.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.keep_notices();
        std::mem::take(&mut self.notices).into()
    }

    /// Takes the session's notices, of which only the newest are kept: few programs ask for them.
    fn keep_notices(&mut self) {
        self.notices.extend(self.session.take_notices());
        let more = self.notices.len().saturating_sub(NOTICES_MAX);
        self.notices.drain(..more);
    }

    /// The session, for what is no statement.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Runs all statements of a text, as [`Session::simple`] does.
    ///
    /// # Errors
    ///
    /// The error of the first statement that fails.
    pub fn run(&mut self, text: &str, sink: &mut dyn RowSink) -> Result<(), SqlError> {
        self.settle();
        self.session.simple(text, sink)
    }

    /// Types of the parameters and columns of a statement, as far as they are certain without its
    /// values.
    ///
    /// # Errors
    ///
    /// Those of its syntax and names. The transaction stays as it was.
    pub fn describe(&mut self, text: &str) -> Result<Description, SqlError> {
        match self.session.describe(text, &[]) {
            Err(error) if UNCERTAIN.contains(&error.state) => Ok(Description::default()),
            described => described,
        }
    }

    /// Runs a statement as far as its first rows.
    ///
    /// # Errors
    ///
    /// Those of the statement; a wrong number of values, or values of wrong types.
    pub fn execute(&mut self, text: &str, mut values: Vec<Value>) -> Result<Executed, SqlError> {
        self.settle();
        let statement = self.fitted(text, &mut values)?;
        let mut sink = Collect {
            is_query: statement.description.is_query,
            known: statement.columns.clone(),
            ..Collect::default()
        };
        let completion = self.run_fitted(&statement, &mut sink)?;
        let result = completion.is_suspended.then(|| {
            self.last_result += 1;
            ResultId(self.last_result)
        });
        if let Some(id) = result {
            let rows = Rows {
                ready: VecDeque::new(),
                failure: None,
            };
            self.results.insert(id, rows);
        }
        self.live = result;
        Ok(Executed {
            columns: sink.columns,
            rows: sink.batch,
            result,
            completion,
        })
    }

    /// Runs a statement once for each row of values, and forgets the rows that it returns; the sum
    /// of its counts. The values of one row come after those of another; they are taken. Without a
    /// block each run is a transaction.
    ///
    /// # Errors
    ///
    /// That of the first run that fails.
    pub fn execute_all(
        &mut self,
        text: &str,
        rows: usize,
        values: &mut Vec<Value>,
    ) -> Result<u64, SqlError> {
        self.settle();
        let width = values.len().checked_div(rows).unwrap_or(0);
        let (mut values, mut row) = (values.drain(..), Vec::with_capacity(width));
        let mut together = std::mem::take(&mut self.together);
        let (mut count, mut known) = (0, self.latest_of(text));
        for _ in 0..rows {
            row.clear();
            row.extend(values.by_ref().take(width));
            if let Some(known) = &known
                && self.fits(known, &mut row, &mut together)
            {
                continue;
            }
            count += self.run_together(&mut together)?;
            let statement = self.fitted(text, &mut row)?;
            known = self.latest_of(text);
            let is_latest = |latest: &Arc<Statement>| Arc::ptr_eq(latest, &statement);
            if width > 0 && self.latest.as_ref().is_some_and(is_latest) {
                together.append(&mut self.fitted);
                continue;
            }
            let completion = self.run_fitted(&statement, &mut Nowhere)?;
            count += completion.rows.unwrap_or(0);
        }
        count += self.run_together(&mut together)?;
        self.together = together;
        Ok(count)
    }

    /// The latest statement, if it is of this text and of this moment.
    fn latest_of(&mut self, text: &str) -> Option<Arc<Statement>> {
        self.forget_deallocated();
        let versions = self.session.description_versions();
        let is_known =
            |latest: &&Arc<Statement>| *latest.text == *text && latest.versions == versions;
        self.latest.as_ref().filter(is_known).cloned()
    }

    /// Adds the values of a row to those that a statement is to take together, if it takes them;
    /// otherwise the row stays as it is.
    fn fits(&self, statement: &Statement, row: &mut [Value], together: &mut Vec<Datum>) -> bool {
        let types = &statement.description.parameters;
        if row.is_empty() || types.len() != row.len() {
            return false;
        }
        let (start, context) = (together.len(), self.session.context());
        for (value, to) in row.iter_mut().zip(types) {
            match value.take_fitted(to.kind, &context) {
                Ok(Some(datum)) => together.push(datum),
                _ => break,
            }
        }
        if together.len() - start == row.len() {
            return true;
        }
        for (value, taken) in row.iter_mut().zip(together.drain(start..)) {
            *value = taken.into();
        }
        false
    }

    /// Runs the latest statement for rows of values that fit it.
    fn run_together(&mut self, rows: &mut Vec<Datum>) -> Result<u64, SqlError> {
        let Some(statement) = self.latest.clone().filter(|_| !rows.is_empty()) else {
            return Ok(0);
        };
        if let Some(count) = self.session.execute_points(&statement.name, rows)? {
            return Ok(count);
        }
        let width = statement.description.parameters.len();
        let (mut count, mut rows) = (0, rows.drain(..));
        while rows.len() > 0 {
            self.fitted.clear();
            self.fitted.extend(rows.by_ref().take(width));
            let completion = self.run_fitted(&statement, &mut Nowhere)?;
            count += completion.rows.unwrap_or(0);
        }
        Ok(count)
    }

    /// Runs a statement with the values in `fitted`, to its end or until the sink is full.
    fn run_fitted(
        &mut self,
        statement: &Statement,
        sink: &mut dyn RowSink,
    ) -> Result<Completion, SqlError> {
        let (session, values) = (&mut self.session, &mut self.fitted);
        if let Some(completion) = session.execute_point(&statement.name, values, sink)? {
            return Ok(completion);
        }
        session.bind("", &statement.name, values)?;
        let completion = session.execute_portal("", 0, sink)?;
        if !completion.is_suspended {
            session.sync()?;
        }
        Ok(completion)
    }

    /// Whether a result has rows that were not read, or may have; one that was read to its end is
    /// closed.
    pub fn is_open(&self, id: ResultId) -> bool {
        self.results.contains_key(&id)
    }

    /// The next rows of a result; none at its end.
    ///
    /// # Errors
    ///
    /// Those of the statement.
    pub fn next_batch(&mut self, id: ResultId) -> Result<Option<Batch>, SqlError> {
        let Some(rows) = self.results.get_mut(&id) else {
            return Ok(None);
        };
        let mut next = Ok(rows.ready.pop_front());
        if let Ok(None) = next {
            next = rows.failure.take().map_or(Ok(None), Err);
            if self.live == Some(id) {
                let mut sink = Collect {
                    is_query: true,
                    ..Collect::default()
                };
                let done = self.go_on(&mut sink);
                next = done.map(|()| Some(sink.batch).filter(|batch| !batch.is_empty()));
            }
        }
        let is_complete = self.live != Some(id)
            && self
                .results
                .get(&id)
                .is_none_or(|rows| rows.ready.is_empty() && rows.failure.is_none());
        if is_complete {
            self.results.remove(&id);
        }
        next
    }

    /// Hands the next rows of a result to a sink, until that has enough or the statement stops;
    /// whether there may be more.
    ///
    /// # Errors
    ///
    /// Those of the statement and of the sink.
    pub fn pull(&mut self, id: ResultId, sink: &mut dyn RowSink) -> Result<bool, SqlError> {
        let pulled = self.pull_some(id, sink);
        if !matches!(pulled, Ok(true)) && self.live != Some(id) {
            self.results.remove(&id);
        }
        pulled
    }

    fn pull_some(&mut self, id: ResultId, sink: &mut dyn RowSink) -> Result<bool, SqlError> {
        let Some(rows) = self.results.get_mut(&id) else {
            return Ok(false);
        };
        while let Some(batch) = rows.ready.pop_front() {
            if sink.rows(&batch, &self.session.context())? == Flow::Full {
                return Ok(true);
            }
        }
        if let Some(failure) = rows.failure.take() {
            return Err(failure);
        }
        let is_live = self.live == Some(id);
        if is_live {
            self.go_on(sink)?;
        }
        Ok(is_live)
    }

    /// Forgets a result, and ends its statement if it has not ended.
    ///
    /// # Errors
    ///
    /// Those of the end of its transaction.
    pub fn close(&mut self, id: ResultId) -> Result<(), SqlError> {
        self.results.remove(&id);
        if self.live == Some(id) {
            self.live = None;
            self.session.close_portal("");
            self.session.sync()?;
        }
        Ok(())
    }

    /// Runs the statement of the live result on.
    fn go_on(&mut self, sink: &mut dyn RowSink) -> Result<(), SqlError> {
        let completion = self.session.execute_portal("", 0, sink);
        self.keep_notices();
        if !completion.as_ref().is_ok_and(|done| done.is_suspended) {
            self.live = None;
        }
        completion?;
        if self.live.is_none() {
            self.session.sync()?;
        }
        Ok(())
    }

    /// Reads the rest of the live result into memory. If its statement fails, that is the result's
    /// error, and not the next statement's.
    fn settle(&mut self) {
        self.keep_notices();
        while let Some(id) = self.live {
            let mut sink = Collect::default();
            let done = self.go_on(&mut sink);
            if let Some(rows) = self.results.get_mut(&id) {
                rows.ready
                    .extend(Some(sink.batch).filter(|batch| !batch.is_empty()));
                rows.failure = done.err();
            }
        }
    }

    /// A statement whose parameters are of the values' types; the values, as it takes them, go to
    /// `fitted`.
    fn fitted(&mut self, text: &str, values: &mut [Value]) -> Result<Arc<Statement>, SqlError> {
        self.forget_deallocated();
        let versions = self.session.description_versions();
        let own = |value: &Value| value.own_kind();
        let statement = match &self.latest {
            Some(latest) if *latest.text == *text && latest.versions == versions => {
                Arc::clone(latest)
            }
            _ => match self.statement(text, &[], versions) {
                Err(error) if UNCERTAIN.contains(&error.state) && !values.is_empty() => {
                    let declared: Vec<_> = values.iter().map(own).collect();
                    // The error of the statement as it stands says more than that of the attempt.
                    self.statement(text, &declared, versions)
                        .map_err(|_| error)?
                }
                found => {
                    let found = found?;
                    self.latest = Some(Arc::clone(&found));
                    found
                }
            },
        };
        let types = &statement.description.parameters;
        if types.len() != values.len() {
            let message = format!(
                "the statement has {} parameters, but {} values were given",
                types.len(),
                values.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        self.fitted.clear();
        let context = self.session.context();
        for (at, (value, to)) in values.iter_mut().zip(types).enumerate() {
            match value.take_fitted(to.kind, &context) {
                Ok(Some(datum)) => self.fitted.push(datum),
                Ok(None) => break,
                Err(error) => return Err(of_parameter(at, error)),
            }
        }
        if self.fitted.len() == values.len() {
            return Ok(statement);
        }
        self.converted(text, values, &statement, versions)
    }

    /// As [`TypedClient::fitted`], where a value is not exactly one of the type that the statement
    /// gives its parameter: that has the type of the value then. The values before it are taken.
    fn converted(
        &mut self,
        text: &str,
        values: &mut [Value],
        statement: &Statement,
        versions: (u64, u64),
    ) -> Result<Arc<Statement>, SqlError> {
        for (value, taken) in values.iter_mut().zip(self.fitted.drain(..)) {
            *value = taken.into();
        }
        let context = self.session.context();
        let mut declared = Vec::with_capacity(values.len());
        let types = &statement.description.parameters;
        for (at, (value, to)) in values.iter().zip(types).enumerate() {
            let fitted = value.fitted(to.kind, &context);
            let fitted = fitted.map_err(|error| of_parameter(at, error))?;
            declared.push(fitted.map_or_else(|| value.own_kind(), |_| None));
        }
        let statement = self.statement(text, &declared, versions)?;
        let context = self.session.context();
        let types = &statement.description.parameters;
        for (at, (value, to)) in values.iter().zip(types).enumerate() {
            let converted = value.converted(to.kind, &context);
            self.fitted
                .push(converted.map_err(|error| of_parameter(at, error))?);
        }
        Ok(statement)
    }

    /// Forgets statements that `DEALLOCATE` or `DISCARD` of SQL has taken away: their texts are
    /// prepared again.
    fn forget_deallocated(&mut self) {
        let deallocations = self.session.deallocations();
        if self.deallocations == deallocations {
            return;
        }
        self.deallocations = deallocations;
        self.latest = None;
        let session = &self.session;
        self.statements.retain(|_, variants| {
            variants.retain(|one| session.is_prepared(&one.name));
            !variants.is_empty()
        });
    }

    /// A name that `PREPARE` of SQL has not taken.
    fn new_name(&mut self) -> String {
        loop {
            self.prepared += 1;
            let name = format!("indelible_{}", self.prepared);
            if !self.session.is_prepared(&name) {
                return name;
            }
        }
    }

    /// The statement of a text, with types declared for some of its parameters.
    fn statement(
        &mut self,
        text: &str,
        declared: &[Option<Kind>],
        versions: (u64, u64),
    ) -> Result<Arc<Statement>, SqlError> {
        let known = self.statements.get_mut(text);
        if let Some(variants) = known {
            let same = |one: &Arc<Statement>| one.declared == declared;
            if let Some(at) = variants.iter().position(same) {
                if variants[at].versions == versions {
                    return Ok(Arc::clone(&variants[at]));
                }
                let old = variants.swap_remove(at);
                self.session.close_statement(&old.name);
                self.latest = None;
            }
        }
        let types: Vec<_> = declared.iter().map(|kind| kind.map(Kind::plain)).collect();
        let description = self.session.describe(text, &types)?;
        if self.statements.len() >= STATEMENTS_MAX {
            for old in self.statements.drain().flat_map(|(_, variants)| variants) {
                self.session.close_statement(&old.name);
            }
            self.latest = None;
        }
        let name = self.new_name();
        // Declared as they are now, so that the values stay of the right types whatever another
        // session defines before the statement runs.
        let parameters = description.parameters.iter().copied().map(Some);
        let parameters: Vec<_> = parameters.collect();
        self.session.prepare(&name, text, &parameters)?;
        let statement = Arc::new(Statement {
            text: text.into(),
            name,
            declared: declared.to_vec(),
            columns: description.columns.clone().map(Arc::from),
            description,
            versions,
        });
        let variants = self.statements.entry(text.into()).or_default();
        variants.push(Arc::clone(&statement));
        Ok(statement)
    }
}

fn of_parameter(at: usize, mut error: SqlError) -> SqlError {
    error.message = format!("parameter ${}: {}", at + 1, error.message);
    error
}

/// Keeps rows, and has enough when a batch is full, if the statement can stop.
#[derive(Default)]
struct Collect {
    is_query: bool,
    /// The columns that the statement has had so far.
    known: Option<Arc<[OutputColumn]>>,
    columns: Option<Arc<[OutputColumn]>>,
    batch: Batch,
}

impl RowSink for Collect {
    fn describe(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        let known = self.known.take().filter(|known| **known == *columns);
        self.columns = known.or_else(|| Some(columns.into()));
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        if self.batch.is_empty() {
            self.batch = batch.clone();
        } else {
            for row in batch.rows() {
                self.batch.push(row.iter().cloned());
            }
        }
        let is_full = self.is_query && self.batch.len() >= BATCH_ROWS;
        Ok(if is_full { Flow::Full } else { Flow::More })
    }
}

/// A sink for rows that nobody wants.
struct Nowhere;

impl RowSink for Nowhere {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, _: &Batch, _: &Context<'_>) -> Result<Flow, SqlError> {
        Ok(Flow::More)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indelible::{Database, Method, Options};
    use std::path::PathBuf;

    /// A database that is removed at the end.
    struct Scratch(PathBuf);

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn client(name: &str) -> (Scratch, TypedClient) {
        let name = format!("indelible-typed-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        let options = Options::new().method(Method::NvmInp).pool_bytes(64 << 20);
        let database = Database::create(&directory, &options).unwrap();
        let sql = Sql::open(database).unwrap();
        (Scratch(directory), TypedClient::connect(&sql).unwrap())
    }

    fn all(client: &mut TypedClient, id: ResultId) -> Result<Vec<Vec<Datum>>, SqlError> {
        let mut rows = Vec::new();
        while let Some(batch) = client.next_batch(id)? {
            rows.extend(batch.rows().map(<[Datum]>::to_vec));
        }
        Ok(rows)
    }

    fn query(client: &mut TypedClient, text: &str, values: &[Datum]) -> Vec<Vec<Datum>> {
        let values: Vec<Value> = values.iter().cloned().map(Value::One).collect();
        let done = client.execute(text, values).unwrap();
        let mut rows: Vec<_> = done.rows.rows().map(<[Datum]>::to_vec).collect();
        if let Some(id) = done.result {
            rows.extend(all(client, id).unwrap());
        }
        rows
    }

    #[test]
    fn a_value_keeps_its_type_where_the_statement_gives_none() {
        let (_scratch, mut client) = client("types");
        client
            .execute("CREATE TABLE t (a integer, b text)", vec![])
            .unwrap();
        let insert = "INSERT INTO t VALUES ($1, $2)";
        let row = [Datum::Int8(1), Datum::Int8(5)].map(Value::One).to_vec();
        assert_eq!(
            client.execute(insert, row).unwrap().completion.rows,
            Some(1)
        );
        let rows = query(&mut client, "SELECT $1, b FROM t", &[Datum::Int8(7)]);
        assert_eq!(rows, [[Datum::Int8(7), Datum::text("5")]]);
        let by_key = "SELECT a FROM t WHERE a = $1";
        assert_eq!(
            query(&mut client, by_key, &[Datum::Int8(1)]),
            [[Datum::Int4(1)]]
        );
        assert!(query(&mut client, by_key, &[Datum::Float8(1.5)]).is_empty());
        assert!(query(&mut client, by_key, &[Datum::Int8(1 << 40)]).is_empty());
        assert_eq!(
            query(&mut client, by_key, &[Datum::text("1")]),
            [[Datum::Int4(1)]]
        );
        let sum = "SELECT $1 + $2";
        assert_eq!(
            query(&mut client, sum, &[Datum::Int8(2), Datum::Int8(3)]),
            [[Datum::Int8(5)]]
        );
        let bad = client
            .execute(by_key, vec![Datum::text("x").into()])
            .unwrap_err();
        assert!(bad.message.starts_with("parameter $1: "), "{bad}");
        let few = client.execute(by_key, vec![]).unwrap_err();
        assert!(few.message.contains("1 parameters, but 0 values"), "{few}");
    }

    #[test]
    fn a_result_stays_readable_after_other_statements() {
        let (_scratch, mut client) = client("results");
        let series = "SELECT g FROM generate_series(1, 5000) g";
        let first = client.execute(series, vec![]).unwrap();
        assert_eq!(first.rows.len(), BATCH_ROWS);
        let first = first.result.unwrap();
        assert!(client.live.is_some());
        client
            .execute("CREATE TABLE t (a integer PRIMARY KEY)", vec![])
            .unwrap();
        assert!(client.live.is_none());
        client.execute("BEGIN", vec![]).unwrap();
        let second = client.execute(series, vec![]).unwrap().result.unwrap();
        client.execute("ROLLBACK", vec![]).unwrap();
        assert_eq!(all(&mut client, first).unwrap().len(), 5000 - BATCH_ROWS);
        let rest = all(&mut client, second).unwrap();
        assert_eq!(rest.len(), 5000 - BATCH_ROWS);
        let closed = client.execute(series, vec![]).unwrap().result.unwrap();
        client.close(closed).unwrap();
        assert!(client.next_batch(closed).unwrap().is_none());
        assert!(client.live.is_none());
        assert!(client.results.is_empty());
    }

    #[test]
    fn the_failure_of_a_result_is_its_own() {
        let (_scratch, mut client) = client("failure");
        let divides = "SELECT 1 / (3000 - g) FROM generate_series(1, 5000) g";
        let result = client.execute(divides, vec![]).unwrap().result.unwrap();
        client
            .execute("CREATE TABLE t (a integer)", vec![])
            .unwrap();
        let error = all(&mut client, result).unwrap_err();
        assert_eq!(error.state, SqlState::DIVISION_BY_ZERO);
    }

    #[test]
    fn changes_with_rows_are_complete_however_few_are_read() {
        let (_scratch, mut client) = client("returning");
        client
            .execute("CREATE TABLE t (a integer)", vec![])
            .unwrap();
        let insert = "INSERT INTO t SELECT * FROM generate_series(1, 3000) RETURNING a";
        let done = client.execute(insert, vec![]).unwrap();
        assert_eq!(done.completion.rows, Some(3000));
        assert_eq!(done.rows.len(), 3000);
        assert_eq!(done.result, None);
        let count = query(&mut client, "SELECT count(*) FROM t", &[]);
        assert_eq!(count, [[Datum::Int8(3000)]]);
    }

    #[test]
    fn rows_of_one_call_are_all_there_or_none() {
        let (_scratch, mut client) = client("together");
        let text = |client: &mut TypedClient, text: &str| {
            client.execute(text, vec![]).unwrap();
        };
        let insert = "INSERT INTO t VALUES ($1, $2)";
        let rows = |numbers: &[i64]| -> Vec<Value> {
            let row = |number: &i64| [Datum::Int8(*number).into(), Datum::text("x").into()];
            numbers.iter().flat_map(row).collect()
        };
        let all: Vec<i64> = (1..=2500).collect();
        // A table that others may know, and one that only the transaction knows.
        for makes_table in [false, true] {
            let create = "CREATE TABLE t (a bigint PRIMARY KEY, b text CHECK (b <> ''))";
            if !makes_table {
                text(&mut client, create);
            }
            text(&mut client, "BEGIN");
            if makes_table {
                text(&mut client, create);
            }
            let mut values = rows(&all);
            assert_eq!(client.execute_all(insert, 2500, &mut values).unwrap(), 2500);
            // One that does not fit as it is, between others.
            let mut values = rows(&[2501, 2502, 2503]);
            values[2] = Datum::text("2502").into();
            assert_eq!(client.execute_all(insert, 3, &mut values).unwrap(), 3);
            text(&mut client, "COMMIT");
            let found = query(&mut client, "SELECT count(*), sum(a)::bigint FROM t", &[]);
            assert_eq!(found, [[Datum::Int8(2503), Datum::Int8(2503 * 2504 / 2)]]);

            text(&mut client, "BEGIN");
            let mut values = rows(&[3001, 3002, 7]);
            let error = client.execute_all(insert, 3, &mut values).unwrap_err();
            assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
            assert!(client.execute("SELECT 1", vec![]).is_err());
            text(&mut client, "ROLLBACK");
            let found = query(&mut client, "SELECT count(*) FROM t WHERE a > 3000", &[]);
            assert_eq!(found, [[Datum::Int8(0)]]);
            text(&mut client, "DROP TABLE t");
        }
        text(&mut client, "BEGIN");
        text(&mut client, "CREATE TABLE t (a bigint PRIMARY KEY, b text)");
        let mut values = rows(&[&all[..], &[9]].concat());
        let error = client.execute_all(insert, 2501, &mut values).unwrap_err();
        assert_eq!(error.state, SqlState::UNIQUE_VIOLATION);
        text(&mut client, "ROLLBACK");
        assert!(client.execute("SELECT 1 FROM t", vec![]).is_err());
    }

    #[test]
    fn statements_follow_a_changed_table() {
        let (_scratch, mut client) = client("changed");
        client
            .execute("CREATE TABLE t (a integer)", vec![])
            .unwrap();
        let insert = "INSERT INTO t VALUES ($1)";
        let mut values = vec![Datum::Int8(1).into(), Datum::Int8(2).into()];
        assert_eq!(client.execute_all(insert, 2, &mut values).unwrap(), 2);
        client
            .execute("ALTER TABLE t ALTER a TYPE text", vec![])
            .unwrap();
        let mut values = vec![Datum::Int8(1).into()];
        assert_eq!(client.execute_all(insert, 1, &mut values).unwrap(), 1);
        let found = query(&mut client, "SELECT a FROM t ORDER BY a", &[]);
        assert_eq!(found, [["1"], ["1"], ["2"]].map(|row| row.map(Datum::text)));
        assert_eq!(client.statements[insert].len(), 2);
    }

    #[test]
    fn a_failed_guess_of_types_leaves_a_transaction_open() {
        let (_scratch, mut client) = client("guess");
        client.execute("BEGIN", vec![]).unwrap();
        assert!(
            client
                .execute("SELECT nothing($1)", vec![Datum::Int8(1).into()])
                .is_err()
        );
        assert_eq!(
            query(&mut client, "SELECT $1 + $2", &[1, 2].map(Datum::Int8)).len(),
            1
        );
        client.execute("COMMIT", vec![]).unwrap();
    }
}
