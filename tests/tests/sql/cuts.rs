//! Definitions of SQL under power cuts.
//!
//! Goal: after a cut at any durable step of a statement, the database is as before the transaction
//! or as after it: schema, rows, indexes, constraints; no table below is left that nobody names,
//! and no row of the catalogue without its table. Method: a script of definitions and changes runs
//! on the simulated device; at each crash point a few images are opened, and what SQL shows of
//! them is compared with what a second database shows that no power cut meets.

use crate::state::{ask, state_of};
use indelible::{Database, Method, MethodOption, Options};
use pmem::device::simulated::{CrashPoint, ImageChoices, SimulatedWorld, WorldOptions, mix};
use sql::Sql;
use std::sync::{Arc, Mutex};
use torture::SimulatedPlatform;

/// Images of a crash point at most: fewer without `LONG_TESTS`.
const POINT_IMAGES: [usize; 2] = [8, 2];

/// Transactions, one a line.
const SCRIPT: &[&str] = &[
    "CREATE TABLE team (id integer PRIMARY KEY, name text UNIQUE)",
    "INSERT INTO team VALUES (1, 'red'), (2, 'blue')",
    "BEGIN; CREATE TABLE person (id serial PRIMARY KEY, team integer REFERENCES team ON DELETE CASCADE, n numeric(8,2) CHECK (n > 0)); INSERT INTO person (team, n) VALUES (1, 2.5), (2, 3); COMMIT",
    "CREATE INDEX by_n ON person (n)",
    "BEGIN; DROP INDEX by_n; CREATE INDEX by_n ON person (n, id); COMMIT",
    "CREATE UNIQUE INDEX by_double ON person ((n * 2)) WHERE team = 1",
    "CREATE VIEW shown AS SELECT id, n FROM person WHERE n > 1 WITH CHECK OPTION",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "ALTER TABLE person ADD COLUMN m mood DEFAULT 'ok'",
    "ALTER TABLE person ALTER COLUMN team TYPE bigint",
    "BEGIN; ALTER TABLE team RENAME name TO title; DROP INDEX by_n; UPDATE person SET n = n + 1; COMMIT",
    "BEGIN; CREATE TABLE lost (a integer); INSERT INTO lost VALUES (1); ROLLBACK",
    "CREATE TABLE copy AS SELECT id, n FROM person",
    "BEGIN; TRUNCATE copy; INSERT INTO copy VALUES (7, 7); COMMIT",
    "BEGIN; TRUNCATE person RESTART IDENTITY; INSERT INTO person (id, n) VALUES (9, 9); COMMIT",
    "CREATE SCHEMA other; CREATE TABLE other.t (a integer)",
    "ALTER TABLE team DROP CONSTRAINT team_name_key",
    "DELETE FROM team WHERE id = 2",
    "DROP TABLE team CASCADE",
    "DROP SCHEMA other CASCADE",
    "DROP VIEW shown; DROP TABLE person, copy; DROP TYPE mood",
];

fn options(method: Method) -> Options {
    let of_method = [
        MethodOption::RingBytes(2 << 20),
        MethodOption::AreaBytes(128 << 10),
        MethodOption::RotationBytes(1),
    ];
    Options::new()
        .fitting(method, of_method)
        .pool_bytes(2 << 20)
        .checkpoint_log_bytes(64 << 10)
        .identity(7)
}

#[derive(Default)]
struct Watch {
    allowed: Vec<Vec<String>>,
    images: u64,
    /// Images with a table that nobody names before SQL has looked at them.
    orphans: u64,
    failure: Option<String>,
}

/// Opens an image and compares it; true if there was a table that nobody names.
fn check(image: &SimulatedWorld, method: Method, allowed: &[Vec<String>]) -> Result<bool, String> {
    let db = Database::open_on(SimulatedPlatform::new(image), &options(method))
        .map_err(|error| format!("opening: {error}"))?;
    let before = db.tables().len();
    let sql = Sql::open(db).map_err(|error| format!("opening SQL: {error}"))?;
    let found = state_of(&sql)?;
    if !allowed.contains(&found) {
        return Err(format!("found {found:#?}, allowed {allowed:#?}"));
    }
    let tables = found.iter().filter(|line| line.ends_with(" r")).count();
    let below = sql.database().tables().len();
    if tables != below {
        return Err(format!("{tables} tables over {below} below"));
    }
    let report = sql.database().verify().map_err(|error| error.to_string())?;
    match report.damage.first() {
        Some(first) => Err(format!("verify: {first:?}")),
        None => Ok(before > below),
    }
}

fn observe(world: &SimulatedWorld, method: Method, watch: &Arc<Mutex<Watch>>) {
    let watch = Arc::clone(watch);
    let images = POINT_IMAGES[usize::from(std::env::var_os("LONG_TESTS").is_none())];
    world.observe(move |world, point| {
        let mut watch = watch.lock().expect("one thread");
        if watch.failure.is_some() {
            return;
        }
        for choice in ImageChoices::bounded(world, mix(world.events()), images) {
            let image = world.image(&choice).expect("an image is made");
            watch.images += 1;
            match check(&image, method, &watch.allowed) {
                Ok(is_left) => watch.orphans += u64::from(is_left),
                Err(error) => {
                    watch.failure = Some(format!("{point:?}: {error}"));
                    return;
                }
            }
        }
    });
}

fn opened(method: Method, seed: u64) -> (SimulatedWorld, Arc<Sql>) {
    let world = SimulatedWorld::new(WorldOptions {
        seed,
        ..WorldOptions::default()
    });
    let db = Database::create_on(SimulatedPlatform::new(&world), &options(method));
    let sql = Sql::open(db.expect("created")).expect("SQL is opened");
    (world, sql)
}

/// Runs the script and looks at images all the time, with a site that does nothing if one is given.
fn run(method: Method, disabled: Option<&str>) -> Watch {
    let (_quiet, expected) = opened(method, 1);
    let (world, sql) = opened(method, 2);
    if let Some(site) = disabled {
        world.disable(site);
    }
    let mut reference = expected.connect().expect("connected");
    let mut session = sql.connect().expect("connected");
    let first = state_of(&expected).expect("it is read");
    let watch = Arc::new(Mutex::new(Watch {
        allowed: vec![first],
        ..Watch::default()
    }));
    for transaction in SCRIPT {
        ask(&mut reference, transaction).expect("it runs");
        let next = state_of(&expected).expect("it is read");
        watch.lock().expect("one thread").allowed.push(next);
        observe(&world, method, &watch);
        ask(&mut session, transaction).expect("it runs");
        watch.lock().expect("one thread").allowed.remove(0);
        world.mark(CrashPoint::Mark("acknowledged"));
        world.unobserve();
    }
    drop(session);
    std::mem::take(&mut *watch.lock().expect("one thread"))
}

#[test]
fn definitions_are_whole_or_not_there() {
    for method in [Method::NvmInp, Method::FullPageWrites] {
        let watch = run(method, None);
        let name = method.name();
        println!(
            "{name}: {} images, {} with orphans",
            watch.images, watch.orphans
        );
        assert!(
            watch.failure.is_none(),
            "{name}: {}",
            watch.failure.unwrap_or_default()
        );
        // Else no cut was between a table and the row that names it.
        assert!(watch.images > 100 && watch.orphans > 0, "{name}");
    }
}

#[test]
fn a_catalogue_that_is_not_durable_is_noticed() {
    let watch = run(Method::NvmInp, Some("undo.commit-record-fence"));
    assert!(watch.failure.is_some(), "nobody noticed the missing fence");
}
