//! Random runs of several connections in one thread against a model.
//!
//! The model has every committed state; a snapshot is one of them, and a transaction's view is that
//! with its own writes over it. After each step of any connection, reads of all kinds must show
//! exactly that: one row, ranges of the primary key and of both indexes, in both directions. At the
//! end the table is the last committed state.

use super::{Directory, LEVELS, database, methods};
use indelible::{
    Changes, Connection, DataType, Database, Direction, Durability, Error, Isolation, Partitioning,
    Row, Scan, StorageError, Table, Uniqueness, ValueRef, Wait,
};
use std::collections::BTreeMap;

const CONNECTIONS: usize = 4;
const KEYS: u64 = 24;
const STEPS: usize = 600;

/// A class and a code.
type Values = (i64, Option<i64>);
type State = BTreeMap<i64, Values>;
type Writes = BTreeMap<i64, Option<Values>>;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn key(&mut self) -> i64 {
        self.below(KEYS).cast_signed()
    }
}

/// A connection, and what it must see.
struct Client {
    connection: Connection,
    isolation: Isolation,
    /// The state of its snapshot, once it has read.
    snapshot: Option<State>,
    own: Writes,
    marks: Vec<(indelible::StatementSavepoint, Writes)>,
}

impl Client {
    fn sees(&mut self, committed: &State) -> State {
        let snapshot = self.snapshot.get_or_insert_with(|| committed.clone());
        let mut state = snapshot.clone();
        for (key, row) in &self.own {
            match row {
                Some(row) => _ = state.insert(*key, *row),
                None => _ = state.remove(key),
            }
        }
        state
    }

    /// The newest row, as a change finds it.
    fn newest(&self, committed: &State, key: i64) -> Option<Values> {
        let own = self.own.get(&key).copied();
        own.unwrap_or_else(|| committed.get(&key).copied())
    }
}

fn table(db: &Database) -> Table {
    let table = db
        .create_table("things")
        .column("id", DataType::Int64)
        .column("class", DataType::Int64)
        .nullable_column("code", DataType::Int64)
        .primary_key(["id"])
        .index("by_class", ["class"])
        .partitioning(Partitioning::Modulo)
        .create()
        .unwrap();
    db.create_index(&table, "by_code", ["code"], Uniqueness::Unique)
        .unwrap();
    table
}

fn values(row: &Row) -> (i64, Values) {
    let column = |at: usize| row.get(at).as_i64();
    (column(0).unwrap(), (column(1).unwrap(), column(2)))
}

/// Rows in the order of what `key` makes of them.
fn ordered<K: Ord>(state: &State, key: impl Fn(i64, Values) -> Option<K>) -> Vec<(i64, Values)> {
    let mut rows: Vec<_> = state
        .iter()
        .filter_map(|(id, row)| Some((key(*id, *row)?, (*id, *row))))
        .collect();
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    rows.into_iter().map(|(_, row)| row).collect()
}

fn check(client: &mut Client, table: &Table, committed: &State, random: &mut Random) {
    let expected = client.sees(committed);
    let (low, high) = (random.key(), random.key());
    let (by_class, by_code) = (
        table.index("by_class").unwrap(),
        table.index("by_code").unwrap(),
    );
    let connection = &mut client.connection;
    let key = random.key();
    let found = connection.get(table, key).unwrap();
    assert_eq!(
        found.as_ref().map(|row| values(row).1),
        expected.get(&key).copied()
    );
    for direction in [Direction::Forward, Direction::Backward] {
        let scan = connection.scan(table, low..=high, direction).unwrap();
        let rows = drain(connection, scan, direction);
        assert_eq!(
            rows,
            ordered(&expected, |id, _| (low..=high).contains(&id).then_some(id))
        );
        let scan = connection
            .scan_index(&by_class, low % 4..=high % 4, direction)
            .unwrap();
        let rows = drain(connection, scan, direction);
        let classes = low % 4..=high % 4;
        assert_eq!(
            rows,
            ordered(&expected, |id, row| classes
                .contains(&row.0)
                .then_some((row.0, id)))
        );
        let scan = connection.scan_index(&by_code, low.., direction).unwrap();
        let rows = drain(connection, scan, direction);
        assert_eq!(
            rows,
            ordered(&expected, |id, row| row
                .1
                .filter(|code| *code >= low)
                .map(|code| (code, id)))
        );
    }
}

fn drain(connection: &mut Connection, mut scan: Scan, direction: Direction) -> Vec<(i64, Values)> {
    let (mut batch, mut rows) = (Vec::new(), Vec::new());
    while scan.next_batch(connection, &mut batch).unwrap() {
        rows.extend(batch.iter().map(values));
    }
    if direction == Direction::Backward {
        rows.reverse();
    }
    rows
}

/// A row that is read alone is the newest committed one.
fn check_alone(client: &mut Client, table: &Table, committed: &State, random: &mut Random) {
    let (key, mut row) = (random.key(), table.row());
    let connection = &mut client.connection;
    let is_open = connection.is_open();
    match connection.get_alone(table, key, &mut row, Durability::Group) {
        Ok(is_there) => {
            assert!(!is_open);
            let found = is_there.then(|| values(&row).1);
            assert_eq!(found, committed.get(&key).copied());
        }
        Err(error) => assert!(is_open && matches!(error, Error::TransactionBegun)),
    }
}

/// Whether a code belongs to another row, as changes find it.
fn is_taken(client: &Client, committed: &State, key: i64, code: Option<i64>) -> bool {
    let mut keys = (0..KEYS.cast_signed()).filter(|other| *other != key);
    code.is_some()
        && keys.any(|other| {
            client
                .newest(committed, other)
                .is_some_and(|row| row.1 == code)
        })
}

fn change(client: &mut Client, table: &Table, committed: &State, random: &mut Random) {
    let key = random.key();
    let class = random.below(4).cast_signed();
    let code = (random.below(3) > 0).then(|| random.key());
    let newest = client.newest(committed, key);
    // The model's snapshot is that of the first statement.
    client.sees(committed);
    let connection = &mut client.connection;
    let (done, row) = match random.below(4) {
        0 => (
            connection.insert(table, (key, class, code)).map(|()| true),
            Some((class, code)),
        ),
        1 => (connection.delete(table, key), None),
        _ => {
            let mut changes: Changes = table.changes();
            changes.set(1, class).unwrap();
            let changes_code = random.below(2) == 0;
            if changes_code {
                changes
                    .set(2, code.map_or(ValueRef::Null, ValueRef::Int64))
                    .unwrap();
            }
            let kept = newest.map_or(code, |row| row.1);
            let row = Some((class, if changes_code { code } else { kept }));
            (connection.update(table, key, &changes), row)
        }
    };
    let taken = row.is_some_and(|row| is_taken(client, committed, key, row.1));
    match done {
        Ok(true) => {
            let own = &client.own;
            assert!(
                !taken,
                "{key}: {newest:?} to {row:?}, own {own:?}, committed {committed:?}"
            );
            client.own.insert(key, row);
        }
        Ok(false) => assert_eq!(newest, None),
        Err(Error::DuplicateKey { .. }) => assert!(taken || newest.is_some()),
        Err(Error::Storage(StorageError::LockTimeout { .. })) => {}
        Err(Error::Serialization { .. }) => {
            assert_ne!(client.isolation, Isolation::ReadCommitted);
            client.connection.abort();
        }
        Err(error) => panic!("{error}"),
    }
}

fn step(client: &mut Client, table: &Table, committed: &mut State, random: &mut Random) {
    if !client.connection.is_open() {
        client.isolation = LEVELS[random.below(3) as usize];
        client.connection.begin(client.isolation).unwrap();
        client.snapshot = None;
        client.own.clear();
        client.marks.clear();
    }
    let mark = client.connection.statement().unwrap();
    if client.isolation == Isolation::ReadCommitted {
        client.snapshot = None;
    }
    match random.below(20) {
        0 => client.connection.abort(),
        1 | 2 => match client.connection.commit(Durability::Group) {
            Ok(_) => {
                for (key, row) in &client.own {
                    match row {
                        Some(row) => _ = committed.insert(*key, *row),
                        None => _ = committed.remove(key),
                    }
                }
            }
            Err(Error::Serialization { .. }) => {
                assert_eq!(client.isolation, Isolation::Serializable);
            }
            Err(error) => panic!("{error}"),
        },
        3 => client.marks.push((mark, client.own.clone())),
        4 => {
            if let Some((mark, own)) = client.marks.pop() {
                client.connection.roll_back_to(mark).unwrap();
                client.own = own;
            }
        }
        _ => change(client, table, committed, random),
    }
}

#[test]
fn every_read_shows_what_the_model_says() {
    for (number, method) in (1..).zip(methods()) {
        for partitions in [1, 3] {
            let seed = u64::from(partitions) * 1_000 + number;
            println!("{method}, {partitions} partitions, seed {seed}");
            let directory = Directory::new();
            let db = database(&directory, method, partitions, |options| options);
            let table = table(&db);
            let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut committed = State::new();
            let mut clients: Vec<Client> = (0..CONNECTIONS)
                .map(|_| {
                    let mut connection = db.connect().unwrap();
                    connection.set_wait(Wait::Never);
                    Client {
                        connection,
                        isolation: Isolation::ReadCommitted,
                        snapshot: None,
                        own: BTreeMap::new(),
                        marks: Vec::new(),
                    }
                })
                .collect();
            for _ in 0..STEPS {
                let at = random.below(CONNECTIONS as u64) as usize;
                step(&mut clients[at], &table, &mut committed, &mut random);
                let other = random.below(CONNECTIONS as u64) as usize;
                for at in [at, other] {
                    let client = &mut clients[at];
                    if client.connection.is_open() {
                        check(client, &table, &committed, &mut random);
                    }
                    check_alone(client, &table, &committed, &mut random);
                }
            }
            drop(clients);
            let rows = db.read(|r| r.collect(&table, ..)).unwrap();
            let rows: State = rows.iter().map(values).collect();
            assert_eq!(rows, committed);
            assert!(db.verify().unwrap().damage.is_empty());
        }
    }
}
