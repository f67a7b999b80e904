//! Runs turns of connections on a live database, and keeps the model and the oracle in step.
//!
//! The oracle's states are a chain of commits. The first one has all that were acknowledged as
//! durable; each later one has one commit more that was called, or that asked for no durability.

use super::call::{Call, Read, Turn, Way};
use super::claims::{RowName, Wanted};
use super::client::{
    Client, Refusal, Snapshot, perform, row_in, row_of, table, table_of, wanted, wanted_by_closure,
    with_writes,
};
use crate::check::Failure;
use crate::compare::fields;
use crate::drive::{SharedOracle, change};
use crate::generate::KEYS;
use crate::model::{
    Action, CODE, CODE_INDEX, CODE_NAME, GROUP_INDEX, GROUP_NAME, MAIN, MAIN_NAME, SIDE, SIDE_NAME,
    State, Step, index, main_table, side_table,
};
use crate::script::populated;
use indelible::{
    Connection, Database, Direction, Durability, Error, Found, Isolation, RowLock, TableLock,
    TransactionOptions, Uniqueness, Wait,
};
use pmem::device::simulated::{CrashPoint, SimulatedWorld};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use storage::record::{IndexId, TableId, Value};

/// Longer than any wait.
const LONG: Wait = Wait::Limit(Duration::from_mins(1));
/// Rows of one transaction of the first ones.
const GROUP_ROWS: usize = 8;

/// A live database, its connections and its oracle.
pub(crate) struct ConnectionDriver {
    database: Database,
    world: SimulatedWorld,
    oracle: SharedOracle,
    clients: Vec<Client>,
    committed: Arc<State>,
    /// Rows that each commit has changed.
    commits: Vec<BTreeSet<RowName>>,
    calls: u64,
}

impl ConnectionDriver {
    pub(crate) fn new(database: Database, world: &SimulatedWorld, oracle: SharedOracle) -> Self {
        let committed = Arc::new(State::default());
        change(&oracle, |oracle| {
            oracle.allowed = VecDeque::from([Arc::clone(&committed)]);
            oracle.created = true;
        });
        Self {
            database,
            world: world.clone(),
            oracle,
            clients: Vec::new(),
            committed,
            commits: Vec::new(),
            calls: 0,
        }
    }

    /// Makes the main table with these rows, and opens the connections.
    pub(crate) fn populate(
        &mut self,
        rows: &[Vec<Value>],
        connections: u32,
    ) -> Result<(), Failure> {
        self.define(&populated(&[]), |database| {
            let def = main_table(&[GROUP_INDEX, CODE_INDEX]);
            database.create_table_from(def).map(drop)
        })?;
        for group in rows.chunks(GROUP_ROWS) {
            let insert = |row: &Vec<Value>| Step::Insert(MAIN, row.clone());
            let steps: Vec<Step> = group.iter().map(insert).collect();
            self.closure(&steps)?;
        }
        for _ in 0..connections {
            self.clients.push(Client::new(&self.database)?);
        }
        Ok(())
    }

    /// Runs one turn.
    pub(crate) fn turn(&mut self, turn: &Turn) -> Result<(), Failure> {
        self.calls += 1;
        self.run(turn)
            .map_err(|failure| Failure(format!("{}: {failure}", turn.describe())))
    }

    fn run(&mut self, turn: &Turn) -> Result<(), Failure> {
        let at = turn.connection;
        match &turn.call {
            Call::Closure(steps) => return self.closure(steps),
            Call::Deadlock { other, keys } => return self.deadlock(at, *other, *keys),
            Call::Reconnect => {
                self.clients[at] = Client::new(&self.database)?;
                return Ok(());
            }
            Call::Define(action) => return self.definition(at, turn.isolation, action),
            Call::Abort => {
                self.clients[at].abort();
                return Ok(());
            }
            Call::Begin => self.clients[at].abort(),
            _ => {}
        }
        self.begin(at, turn.isolation)?;
        match &turn.call {
            Call::Steps(steps) => steps.iter().try_for_each(|step| self.step(at, step)),
            Call::Read(read) => self.read(at, read),
            Call::Lock(key, strength) => self.lock(at, *key, *strength),
            Call::LockTable(mode) => self.lock_table(at, MAIN, *mode).map(drop),
            Call::Mark => {
                let mark = self.statement(at)?;
                let client = &mut self.clients[at];
                let (own, claims) = (client.own.clone(), client.claims.clone());
                client.marks.push((mark, own, claims));
                Ok(())
            }
            Call::RollBack(back) => self.roll_back(at, *back),
            Call::Commit(durability) => self.commit(at, *durability),
            Call::Interrupted(step) => self.interrupted(at, step),
            _ => Ok(()),
        }
    }

    /// Ends everything, and compares the content at rest.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.clients.clear();
        let bytes = self.database.snapshot_bytes();
        if bytes > 0 {
            return Err(Failure(format!(
                "{bytes} bytes of images without a snapshot"
            )));
        }
        for id in [MAIN, SIDE] {
            let expected = self.committed.rows(id);
            let expected = expected.map(|rows| rows.values().cloned().collect::<Vec<_>>());
            let found = table(&self.database, id).ok().map(|table| {
                let rows = self.database.read(|reader| reader.collect(&table, ..));
                rows.map(|rows| rows.iter().map(fields).collect::<Vec<_>>())
            });
            let found = found.transpose();
            let found = found.map_err(|error| Failure::new("reading at the end", error))?;
            if found != expected {
                return Err(Failure(format!(
                    "at the end table {} differs from the model",
                    id.0
                )));
            }
        }
        let report = self.database.verify();
        let report = report.map_err(|error| Failure::new("verify", error))?;
        match report.damage.first() {
            Some(damage) => Err(Failure::new("verify", damage)),
            None => Ok(()),
        }
    }

    /// Begins a transaction, if none is open. Above read committed its snapshot is that of its
    /// first read, so it reads at once.
    fn begin(&mut self, at: usize, isolation: Isolation) -> Result<(), Failure> {
        if self.clients[at].connection.is_open() {
            return Ok(());
        }
        self.clients[at].begin(isolation)?;
        if isolation == Isolation::ReadCommitted {
            return Ok(());
        }
        let missing = KEYS.cast_signed();
        self.read(
            at,
            &Read {
                table: MAIN,
                way: Way::Key,
                low: missing,
                high: missing,
                direction: Direction::Forward,
            },
        )
    }

    fn statement(&mut self, at: usize) -> Result<indelible::StatementSavepoint, Failure> {
        let client = &mut self.clients[at];
        let mark = client.connection.statement();
        if client.isolation == Isolation::ReadCommitted {
            client.snapshot = None;
        }
        mark.map_err(|error| Failure::new("statement", error))
    }

    fn newest(&self, at: usize) -> State {
        with_writes(&self.committed, &self.clients[at].own)
    }

    fn others(&self, at: usize) -> impl Iterator<Item = &Client> {
        let clients = self.clients.iter().enumerate();
        clients.filter_map(move |(other, client)| (other != at).then_some(client))
    }

    /// Judges a result of a call that locks a row, and was not refused for it.
    fn check_allowed(&self, at: usize, wanted: &Wanted) -> Result<(), Failure> {
        if self.others(at).any(|other| other.claims.forbid(wanted)) {
            return Err(Failure(format!("{wanted:?} passed by another's lock")));
        }
        let client = &self.clients[at];
        let is_own = client.own.contains_key(&wanted.row);
        if let Some(snapshot) = client.snapshot.as_ref().filter(|_| !is_own)
            && client.isolation != Isolation::ReadCommitted
            && row_in(&snapshot.state, &wanted.row) != row_in(&self.committed, &wanted.row)
        {
            return Err(Failure::text("a change since the snapshot was passed over"));
        }
        Ok(())
    }

    /// Whether the row, or one that has one of the codes, has changed since the snapshot.
    fn has_changed(&self, client: &Client, wanted: &Wanted) -> bool {
        let main = self.committed.rows(MAIN).into_iter().flatten();
        let holders = main.filter(|(_, row)| {
            let code = row.0[CODE].as_ref().as_i64();
            code.is_some_and(|code| wanted.codes.contains(&code))
        });
        let rows = holders.map(|(key, _)| (MAIN.0, *key));
        rows.chain([wanted.row])
            .any(|row| client.has_changed(&row, &self.commits))
    }

    /// Judges a refusal, and does what the client has to do then.
    fn check_refused(
        &mut self,
        at: usize,
        wanted: &Wanted,
        refusal: Refusal,
    ) -> Result<(), Failure> {
        let is_due = match refusal {
            Refusal::Busy => self.others(at).any(|other| other.claims.may_forbid(wanted)),
            Refusal::Serialization => {
                let client = &self.clients[at];
                client.isolation != Isolation::ReadCommitted
                    && !client.own.contains_key(&wanted.row)
                    && self.has_changed(client, wanted)
            }
            Refusal::Duplicate | Refusal::Deadlock | Refusal::Interrupted => false,
        };
        if !is_due {
            return Err(Failure(format!("{refusal:?} for nothing: {wanted:?}")));
        }
        let client = &mut self.clients[at];
        if refusal == Refusal::Serialization {
            client.abort();
        } else {
            client.claims.may_have(wanted);
        }
        Ok(())
    }

    fn step(&mut self, at: usize, step: &Step) -> Result<(), Failure> {
        if self.committed.rows(table_of(step)).is_none() || !self.clients[at].connection.is_open() {
            return Ok(());
        }
        self.statement(at)?;
        let newest = self.newest(at);
        let mut after = newest.clone();
        let expected = after.apply(step);
        let wanted = wanted(step, &newest);
        let done = perform(&mut self.clients[at].connection, &self.database, step);
        let done = match done {
            Ok(done) => done,
            Err(error) => match Refusal::of(&error)? {
                Refusal::Duplicate if !expected && is_change(step) => {
                    // An insertion gives back what it has locked.
                    if !matches!(step, Step::Insert(..)) {
                        self.clients[at].claims.has_row(&wanted);
                    }
                    return Ok(());
                }
                refusal => return self.check_refused(at, &wanted, refusal),
            },
        };
        self.check_allowed(at, &wanted)?;
        if done != expected {
            return Err(Failure(format!("expected {expected}, found {done}")));
        }
        let client = &mut self.clients[at];
        if done {
            client.claims.has(&wanted);
            let row = row_in(&after, &wanted.row).cloned();
            client.own.insert(wanted.row, row);
        } else {
            client.claims.has_row(&wanted);
        }
        Ok(())
    }

    fn read(&mut self, at: usize, read: &Read) -> Result<(), Failure> {
        if !read.is_possible(&self.committed) {
            return Ok(());
        }
        self.statement(at)?;
        let (committed, number) = (&self.committed, self.commits.len());
        let client = &mut self.clients[at];
        let snapshot = client.snapshot.get_or_insert_with(|| Snapshot {
            state: State::clone(committed),
            number,
        });
        let expected = read.rows_of(&with_writes(&snapshot.state, &client.own));
        let found = read.perform(&mut client.connection, &self.database);
        let found = found.map_err(|error| Failure::new("read", error))?;
        if found != expected {
            return Err(Failure(format!("found {found:?}, not {expected:?}")));
        }
        if client.isolation == Isolation::Serializable {
            client.reads.push(read.clone());
        }
        Ok(())
    }

    fn lock(&mut self, at: usize, key: i64, strength: RowLock) -> Result<(), Failure> {
        self.statement(at)?;
        let newest = self.newest(at);
        let wanted = Wanted {
            row: (MAIN.0, key),
            strength,
            changes: false,
            codes: BTreeSet::new(),
        };
        let (found, row) = match lock_row(
            &mut self.clients[at].connection,
            &self.database,
            (key, strength),
            Wait::Never,
        ) {
            Ok(found) => found,
            Err(error) => return self.check_refused(at, &wanted, Refusal::of(&error)?),
        };
        if found == Found::Busy {
            return self.check_refused(at, &wanted, Refusal::Busy);
        }
        self.check_allowed(at, &wanted)?;
        let row = (found == Found::Yes).then(|| fields(&row));
        if row.as_ref() != row_in(&newest, &wanted.row) {
            return Err(Failure(format!("found {row:?}, which is not the newest")));
        }
        self.clients[at].claims.has_row(&wanted);
        Ok(())
    }

    /// Locks a table without waiting; false if others have locked it or its rows.
    fn lock_table(&mut self, at: usize, id: TableId, mode: TableLock) -> Result<bool, Failure> {
        let of = table(&self.database, id).map_err(|error| Failure::new("table", error))?;
        let client = &mut self.clients[at];
        let locked = client.connection.lock_table(&of, mode, Wait::Never);
        let refusal = locked.err().map(|error| Refusal::of(&error)).transpose()?;
        let mut others = self.others(at);
        let is_right = match refusal {
            None => !others.any(|other| other.claims.forbid_table(id.0, mode)),
            Some(Refusal::Busy) => others.any(|other| other.claims.may_forbid_table(id.0)),
            Some(_) => false,
        };
        drop(others);
        if !is_right {
            return Err(Failure(format!("lock of table {}: {refusal:?}", id.0)));
        }
        let claims = &mut self.clients[at].claims;
        if refusal.is_none() {
            claims.has_table(id.0, mode);
        } else {
            claims.may_have_table(id.0);
        }
        Ok(refusal.is_none())
    }

    fn roll_back(&mut self, at: usize, back: usize) -> Result<(), Failure> {
        self.statement(at)?;
        let client = &mut self.clients[at];
        let Some(number) = client.marks.len().checked_sub(1 + back) else {
            return Ok(());
        };
        client.marks.truncate(number + 1);
        let (mark, own, claims) = client.marks[number].clone();
        let rolled_back = client.connection.roll_back_to(mark);
        rolled_back.map_err(|error| Failure::new("rollback", error))?;
        client.own = own;
        client.claims.roll_back_to(claims);
        Ok(())
    }

    fn interrupted(&mut self, at: usize, step: &Step) -> Result<(), Failure> {
        if self.committed.rows(table_of(step)).is_none() {
            return Ok(());
        }
        let client = &mut self.clients[at];
        client.connection.interrupt().raise();
        let done = perform(&mut client.connection, &self.database, step);
        client.connection.interrupt().clear();
        match done.map_err(|error| Refusal::of(&error)) {
            Err(Ok(Refusal::Interrupted)) => Ok(()),
            other => Err(Failure(format!("an interrupted call: {other:?}"))),
        }
    }

    fn commit(&mut self, at: usize, durability: Durability) -> Result<(), Failure> {
        let next = self.newest(at);
        let client = &self.clients[at];
        let rows: BTreeSet<RowName> = client.own.keys().copied().collect();
        let is_change = !rows.is_empty();
        let is_stale = is_change
            && client.snapshot.as_ref().is_some_and(|snapshot| {
                let changed =
                    |read: &Read| read.rows_of(&snapshot.state) != read.rows_of(&self.committed);
                client.reads.iter().any(changed)
            });
        let seen = client.snapshot.as_ref().map(|snapshot| snapshot.number);
        if is_change {
            self.allow(next);
        }
        self.world.mark(CrashPoint::CommitCall(self.calls));
        let client = &mut self.clients[at];
        let committed = client.connection.commit(durability);
        let isolation = client.isolation;
        client.forget();
        let refusal = committed
            .err()
            .map(|error| Refusal::of(&error))
            .transpose()?;
        match refusal {
            None if is_stale => Err(Failure::text("it has read what others have changed since")),
            None => {
                if is_change {
                    self.done(rows);
                    if durability != Durability::None {
                        self.acknowledge();
                    }
                }
                Ok(())
            }
            Some(Refusal::Serialization)
                if isolation == Isolation::Serializable
                    && is_change
                    && seen.is_some_and(|seen| seen < self.commits.len()) =>
            {
                self.disallow();
                Ok(())
            }
            Some(refusal) => Err(Failure(format!("the commit failed: {refusal:?}"))),
        }
    }

    /// A typed transaction.
    fn closure(&mut self, steps: &[Step]) -> Result<(), Failure> {
        let is_there = |step: &&Step| self.committed.rows(table_of(step)).is_some();
        let steps: Vec<&Step> = steps.iter().filter(is_there).collect();
        let mut next = State::clone(&self.committed);
        // A step that has no effect may take its locks.
        let (mut wanted, mut needed, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        for step in &steps {
            let locks = wanted_by_closure(step, &next);
            let done = next.apply(step);
            needed.extend(locks.clone().filter(|_| done));
            wanted.extend(locks);
            expected.push(done);
        }
        let changed = steps.iter().zip(&expected).filter(|(_, done)| **done);
        let rows: BTreeSet<RowName> = changed.map(|(step, _)| row_of(step)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        self.allow(next);
        self.world.mark(CrashPoint::CommitCall(self.calls));
        let options = TransactionOptions::new()
            .durability(Durability::Immediate)
            .wait_limit(Duration::ZERO);
        let mut found = Vec::new();
        let done = self.database.transaction_with(&options, |transaction| {
            found.clear();
            for step in &steps {
                found.push(match perform(transaction, &self.database, step) {
                    Err(Error::DuplicateKey { .. }) => false,
                    done => done?,
                });
            }
            Ok(())
        });
        let mut claims = self.clients.iter().map(|client| &client.claims);
        match done {
            Ok(()) if found != expected => {
                Err(Failure(format!("expected {expected:?}, found {found:?}")))
            }
            Ok(()) => {
                if claims.any(|claims| needed.iter().any(|needed| claims.forbid(needed))) {
                    return Err(Failure(format!("{needed:?} passed by a connection's lock")));
                }
                self.done(rows);
                self.acknowledge();
                Ok(())
            }
            Err(Error::RowLocked { .. })
                if claims.any(|claims| wanted.iter().any(|wanted| claims.may_forbid(wanted))) =>
            {
                self.disallow();
                Ok(())
            }
            Err(error) => Err(Failure::new("a typed transaction", error)),
        }
    }

    /// A change of the schema under a lock of the table, by a connection without changes.
    fn definition(
        &mut self,
        at: usize,
        isolation: Isolation,
        action: &Action,
    ) -> Result<(), Failure> {
        if let Action::Checkpoint = action {
            let done = self.database.checkpoint();
            return done.map_err(|error| Failure::new("checkpoint", error));
        }
        if !self.committed.accepts(action) || !self.clients[at].own.is_empty() {
            return Ok(());
        }
        self.begin(at, isolation)?;
        let id = match action {
            Action::CreateSide => None,
            Action::DropSide => Some(SIDE),
            _ => Some(MAIN),
        };
        if let Some(id) = id
            && !self.lock_table(at, id, TableLock::Exclusive)?
        {
            return Ok(());
        }
        let mut next = State::clone(&self.committed);
        next.run(action);
        let main = self.committed.tables.get(&MAIN.0);
        if let Action::CreateIndex(id) = action
            && main.is_some_and(|main| main.refuses(*id))
        {
            let made = create_index(&self.database, *id);
            return match made.map_err(|error| Refusal::of(&error)) {
                Err(Ok(Refusal::Duplicate)) => Ok(()),
                other => Err(Failure(format!("a unique index of duplicates: {other:?}"))),
            };
        }
        self.define(&next, |database| match action {
            Action::CreateSide => database.create_table_from(side_table()).map(drop),
            Action::DropSide => database.drop_table(SIDE_NAME),
            Action::CreateIndex(id) => create_index(database, *id),
            Action::DropIndex(id) => {
                let table = database.table(MAIN_NAME)?;
                database.drop_index(&table, name_of(*id))
            }
            _ => Ok(()),
        })?;
        for client in &mut self.clients {
            client.reads.retain(|read| next.rows(read.table).is_some());
            let Some(snapshot) = &mut client.snapshot else {
                continue;
            };
            // A table that is new has no rows in any snapshot.
            match action {
                Action::CreateSide => _ = snapshot.state.tables.insert(SIDE.0, <_>::default()),
                Action::DropSide => _ = snapshot.state.tables.remove(&SIDE.0),
                _ => {}
            }
        }
        self.clients[at].abort();
        Ok(())
    }

    /// Runs a change of the schema, which is durable when it returns.
    fn define(
        &mut self,
        next: &State,
        define: impl FnOnce(&Database) -> indelible::Result<()>,
    ) -> Result<(), Failure> {
        self.allow(next.clone());
        define(&self.database).map_err(|error| Failure::new("definition", error))?;
        self.done(BTreeSet::new());
        self.acknowledge();
        Ok(())
    }

    /// Two connections that each want the row that the other one has locked: one of them is the
    /// victim. Both abort, so it does not matter which one it is.
    fn deadlock(&mut self, at: usize, other: usize, keys: [i64; 2]) -> Result<(), Failure> {
        if at == other || keys[0] == keys[1] {
            return Ok(());
        }
        self.clients[at].abort();
        self.clients[other].abort();
        let wants = |key| Wanted {
            row: (MAIN.0, key),
            strength: RowLock::Update,
            changes: false,
            codes: BTreeSet::new(),
        };
        let others = &mut self.clients.iter().map(|client| &client.claims);
        if others.any(|claims| keys.iter().any(|key| claims.may_forbid(&wants(*key)))) {
            return Ok(());
        }
        let database = &self.database;
        let pair = self.clients.get_disjoint_mut([at, other]);
        let pair = pair.map_err(|error| Failure::new("two connections", error))?;
        for (client, key) in pair.into_iter().zip(keys) {
            client.begin(Isolation::ReadCommitted)?;
            let of = (key, RowLock::Update);
            let locked = lock_row(&mut client.connection, database, of, Wait::Never);
            locked.map_err(|error| Failure::new("the first lock", error))?;
        }
        let pair = self.clients.get_disjoint_mut([at, other]);
        let pair = pair.map_err(|error| Failure::new("two connections", error))?;
        let found: Vec<Option<Error>> = std::thread::scope(|threads| {
            let waiting: Vec<_> = pair
                .into_iter()
                .zip([keys[1], keys[0]])
                .map(|(client, key)| {
                    threads.spawn(move || {
                        let of = (key, RowLock::Update);
                        let locked = lock_row(&mut client.connection, database, of, LONG);
                        // The other one waits for the victim's locks.
                        client.abort();
                        locked.err()
                    })
                })
                .collect();
            let threads = waiting.into_iter();
            threads
                .map(|thread| thread.join().expect("a lock does not panic"))
                .collect()
        });
        let victims = found.iter().flatten().map(Refusal::of);
        match victims.collect::<Result<Vec<_>, _>>()?[..] {
            [Refusal::Deadlock] => Ok(()),
            _ => Err(Failure(format!("a deadlock ended with {found:?}"))),
        }
    }

    /// A crash may leave this state from now on.
    fn allow(&mut self, next: State) {
        let next = Arc::new(next);
        change(&self.oracle, |oracle| oracle.allowed.push_back(next));
    }

    /// The newest state that was allowed will not come.
    fn disallow(&mut self) {
        change(&self.oracle, |oracle| _ = oracle.allowed.pop_back());
    }

    /// The newest state that was allowed is there.
    fn done(&mut self, rows: BTreeSet<RowName>) {
        self.commits.push(rows);
        let mut newest = None;
        change(&self.oracle, |oracle| {
            newest = oracle.allowed.back().cloned();
        });
        self.committed = newest.expect("it was allowed before");
    }

    /// All commits are durable: one that is brings those before it along.
    fn acknowledge(&mut self) {
        change(&self.oracle, |oracle| {
            let earlier = oracle.allowed.len() - 1;
            oracle.allowed.drain(..earlier);
        });
        self.world.mark(CrashPoint::Acknowledged(self.calls));
    }
}

/// Whether a step can meet a key that is taken.
fn is_change(step: &Step) -> bool {
    match step {
        Step::Insert(..) => true,
        Step::Update(_, changes) => changes.iter().any(|(column, _)| *column == CODE),
        Step::Delete(_) => false,
    }
}

fn lock_row(
    connection: &mut Connection,
    database: &Database,
    (key, strength): (i64, RowLock),
    wait: Wait,
) -> indelible::Result<(Found, indelible::Row)> {
    let table = database.table(MAIN_NAME)?;
    let mut row = table.row();
    let found = connection.get_locked(&table, key, strength, wait, &mut row)?;
    Ok((found, row))
}

fn name_of(id: IndexId) -> &'static str {
    if id == GROUP_INDEX {
        GROUP_NAME
    } else {
        CODE_NAME
    }
}

fn create_index(database: &Database, id: IndexId) -> indelible::Result<()> {
    let table = database.table(MAIN_NAME)?;
    let def = index(id);
    let columns = table.definition().columns;
    let columns = def.columns.iter().map(|&at| columns[at].name.as_str());
    let uniqueness = if def.unique {
        Uniqueness::Unique
    } else {
        Uniqueness::Repeating
    };
    database.create_index(&table, name_of(id), columns, uniqueness)
}
