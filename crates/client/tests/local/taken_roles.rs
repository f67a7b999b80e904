//! Roles that a session has taken, while another session renames or drops them.
//!
//! The role is kept by its number. One that went away leaves no privileges, and never gives those
//! of the session's own role back.

use crate::between::{Last, run};
use crate::scratch::Scratch;
use sql::Session;

fn refused(session: &mut Session, statement: &str) -> (&'static str, String) {
    let error = session.simple(statement, &mut Last::default()).unwrap_err();
    (error.state.0, error.message)
}

/// The session was a superuser again after the first statement that followed.
#[test]
fn a_role_that_was_set_stays_when_its_name_goes() {
    let (_scratch, sql) = Scratch::open("taken-renamed");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut other,
        "CREATE TABLE t (a integer); CREATE ROLE ann; CREATE ROLE bob",
    );
    run(&mut one, "SET ROLE ann");
    run(&mut other, "ALTER ROLE ann RENAME TO eve");
    // A role that has the name now is another one.
    run(
        &mut other,
        "ALTER ROLE bob RENAME TO ann; GRANT SELECT ON t TO ann",
    );
    for _ in 0..2 {
        assert_eq!(run(&mut one, "SELECT current_user"), Some("eve".to_owned()));
        assert_eq!(refused(&mut one, "SELECT a FROM t").0, "42501");
        assert_eq!(run(&mut one, "SHOW is_superuser"), Some("off".to_owned()));
    }
    run(&mut other, "DROP ROLE eve");
    for _ in 0..2 {
        assert_eq!(refused(&mut one, "SELECT a FROM t").0, "42501");
        let (state, message) = refused(&mut one, "SELECT current_user");
        assert_eq!(state, "42704");
        assert!(message.starts_with("invalid role OID: "), "{message}");
        let (state, message) = refused(&mut one, "CREATE TEMP TABLE own (a integer)");
        assert_eq!(state, "42704", "{message}");
        assert!(message.ends_with(" was concurrently dropped"), "{message}");
    }
    run(
        &mut one,
        "BEGIN; SET LOCAL ROLE ann; SELECT a FROM t; COMMIT",
    );
    assert_eq!(refused(&mut one, "SELECT a FROM t").0, "42501");
    run(&mut one, "RESET ROLE");
    run(&mut one, "SELECT a FROM t");
}

#[test]
fn a_session_whose_own_role_is_gone_makes_nothing() {
    let (_scratch, sql) = Scratch::open("taken-login");
    let mut owner = sql.connect().unwrap();
    run(&mut owner, "CREATE ROLE maria LOGIN");
    let mut maria = sql.connect_as("maria").unwrap();
    run(&mut owner, "DROP ROLE maria");
    let (state, message) = refused(&mut maria, "CREATE TEMP TABLE t (a integer)");
    assert_eq!(state, "42704", "{message}");
    assert_eq!(refused(&mut maria, "SELECT session_user").0, "42704");
}

/// The hash itself was the password, and who had read it could log in.
#[test]
fn a_hash_by_md5_leaves_a_role_without_a_password() {
    let (_scratch, sql) = Scratch::open("taken-md5");
    let mut owner = sql.connect().unwrap();
    run(
        &mut owner,
        "CREATE ROLE maria LOGIN PASSWORD 'md5d1e0f5a2b3c4968778695a4b3c2d1e0f'",
    );
    assert_eq!(sql.password_verifier("maria"), None);
    run(&mut owner, "ALTER ROLE maria PASSWORD 'SCRAM-SHA-256$bad'");
    let verifier = sql.password_verifier("maria").unwrap();
    assert!(verifier.starts_with("SCRAM-SHA-256$4096:"));
}

#[test]
fn the_error_of_a_drop_names_what_a_role_has() {
    let (_scratch, sql) = Scratch::open("taken-owner");
    let mut owner = sql.connect().unwrap();
    run(
        &mut owner,
        "CREATE ROLE ann; CREATE ROLE bob; CREATE SCHEMA s AUTHORIZATION ann; CREATE TABLE t (a int); \
         GRANT SELECT ON t TO bob; CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; \
         GRANT EXECUTE ON FUNCTION f() TO bob; \
         ALTER DEFAULT PRIVILEGES FOR ROLE ann IN SCHEMA s GRANT SELECT ON TABLES TO bob",
    );
    let mut detail = |statement: &str| {
        let error = owner.simple(statement, &mut Last::default()).unwrap_err();
        let detail = error.detail.unwrap();
        let mut lines: Vec<String> = detail.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let defaults = "default privileges on new relations belonging to role ann in schema s";
    assert_eq!(
        detail("DROP ROLE ann"),
        [
            format!("owner of {defaults}"),
            "owner of schema s".to_owned()
        ]
    );
    assert_eq!(
        detail("DROP ROLE bob"),
        [
            format!("privileges for {defaults}"),
            "privileges for function f()".to_owned(),
            "privileges for table t".to_owned()
        ]
    );
}
