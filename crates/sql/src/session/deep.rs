//! Statements that nest deeply: they run on a thread of their own, whose stack is large.
//!
//! Reading, planning and evaluating a nested statement are recursive, so its depth is bounded by
//! the stack. The caller's thread serves the sink meanwhile, which need not leave it.

use super::Session;
use crate::error::{Result, SqlError, SqlState};
use crate::sink::{Batch, CopyShape, Flow, OutputColumn, RowSink};
use crate::state::{Notice, SessionNames};
use crate::types::{Context, Settings};
use sql_parse::STACK_BYTES;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// A call of the sink.
enum Request {
    Describe(Vec<OutputColumn>),
    /// Rows, the settings in which they print, and the moments of the transaction and statement.
    Rows(Batch, Settings, (i64, i64)),
    Notice(Notice),
    CopyBegins(CopyShape),
    CopyOut(Vec<u8>),
    CopyIn,
}

/// Its answer.
enum Reply {
    Flow(Result<Flow>),
    /// Bytes for `COPY`; none at their end.
    Data(Result<Option<Vec<u8>>>),
}

/// The sink on the thread with the large stack.
struct Proxy {
    requests: Sender<Request>,
    replies: Receiver<Reply>,
}

impl Proxy {
    fn ask(&self, request: Request) -> Result<Reply> {
        let gone = || SqlError::internal("the thread of the sink is there");
        self.requests.send(request).map_err(|_| gone())?;
        self.replies.recv().map_err(|_| gone())
    }

    fn flow(&self, request: Request) -> Result<Flow> {
        match self.ask(request)? {
            Reply::Flow(flow) => flow,
            Reply::Data(_) => Err(SqlError::internal("the sink answers what it was asked")),
        }
    }
}

impl RowSink for Proxy {
    fn describe(&mut self, columns: &[OutputColumn]) -> Result<()> {
        self.flow(Request::Describe(columns.to_vec())).map(drop)
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow> {
        let mut copy = Batch::new(batch.width());
        for row in batch.rows() {
            copy.push(row.iter().cloned());
        }
        let moments = (context.transaction_start, context.statement_start);
        self.flow(Request::Rows(copy, context.settings.clone(), moments))
    }

    fn notice(&mut self, notice: &Notice) -> Result<()> {
        self.flow(Request::Notice(notice.clone())).map(drop)
    }

    fn copy_begins(&mut self, copy: &CopyShape) -> Result<()> {
        self.flow(Request::CopyBegins(*copy)).map(drop)
    }

    fn copy_out(&mut self, data: &[u8]) -> Result<()> {
        self.flow(Request::CopyOut(data.to_vec())).map(drop)
    }

    fn copy_in(&mut self, data: &mut Vec<u8>) -> Result<bool> {
        let Reply::Data(more) = self.ask(Request::CopyIn)? else {
            return Err(SqlError::internal("the sink answers what it was asked"));
        };
        let more = more?;
        data.extend(more.iter().flatten());
        Ok(more.is_some())
    }
}

/// Calls the sink as it was asked.
fn serve(sink: &mut dyn RowSink, names: &SessionNames, request: Request) -> Reply {
    match request {
        Request::Describe(columns) => Reply::Flow(sink.describe(&columns).map(|()| Flow::More)),
        Request::Rows(batch, settings, (transaction_start, statement_start)) => {
            let context = Context {
                settings: &settings,
                names,
                transaction_start,
                statement_start,
            };
            Reply::Flow(sink.rows(&batch, &context))
        }
        Request::Notice(notice) => Reply::Flow(sink.notice(&notice).map(|()| Flow::More)),
        Request::CopyBegins(copy) => Reply::Flow(sink.copy_begins(&copy).map(|()| Flow::More)),
        Request::CopyOut(data) => Reply::Flow(sink.copy_out(&data).map(|()| Flow::More)),
        Request::CopyIn => {
            let mut data = Vec::new();
            let more = sink.copy_in(&mut data);
            Reply::Data(more.map(|is_more| is_more.then_some(data)))
        }
    }
}

impl Session {
    /// Calls `body` on a thread with a large stack if a statement nests deeply, else here.
    pub(super) fn with_stack<R: Send>(
        &mut self,
        is_deep: bool,
        sink: &mut dyn RowSink,
        body: impl FnOnce(&mut Self, &mut dyn RowSink) -> Result<R> + Send,
    ) -> Result<R> {
        if !is_deep {
            return body(self, sink);
        }
        let names = self.environment.names.clone();
        let (requests, asked) = channel();
        let (answers, replies) = channel();
        let mut proxy = Proxy { requests, replies };
        thread::scope(|scope| {
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            let worker = builder
                .spawn_scoped(scope, move || body(self, &mut proxy))
                .map_err(|error| {
                    let message = format!("cannot start a thread for a deep statement: {error}");
                    SqlError::new(SqlState::OUT_OF_MEMORY, message)
                })?;
            for request in asked {
                // The worker has ended if nobody takes the answer; its result says how.
                let _ = answers.send(serve(sink, &names, request));
            }
            worker.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }
}
