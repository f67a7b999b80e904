//! Rights that sessions of several roles see: on the database, and on temporary tables of others.
//!
//! A script has one session, which takes roles; here each role has its own.

use crate::between::{Last, run};
use crate::scratch::Scratch;
use indelible::Database;
use sql::Sql;

#[test]
fn rights_on_temporary_tables_go_with_their_session() {
    let (scratch, sql) = Scratch::open("between-reassign");
    let (mut one, mut other) = (sql.connect().unwrap(), sql.connect().unwrap());
    run(
        &mut other,
        "CREATE ROLE ann; CREATE ROLE bob; GRANT ALL ON SCHEMA public TO ann",
    );
    run(&mut one, "SET ROLE ann; CREATE TEMP TABLE t (a int)");
    run(&mut other, "REASSIGN OWNED BY ann TO bob");
    drop((one, other, sql));
    let database = Database::open(scratch.directory()).unwrap();
    let sql = Sql::open(database).unwrap();
    run(
        &mut sql.connect().unwrap(),
        "DROP OWNED BY ann; DROP ROLE ann, bob",
    );
}

#[test]
fn the_database_has_rights_of_its_own() {
    let (_scratch, sql) = Scratch::open("between-database");
    let mut owner = sql.connect().unwrap();
    run(&mut owner, "CREATE ROLE maria LOGIN");
    let mut maria = sql.connect_as("maria").unwrap();
    let schema = "CREATE SCHEMA marias";
    let mut refused = |statement: &str| {
        let error = maria.simple(statement, &mut Last::default()).unwrap_err();
        error.message
    };
    assert_eq!(refused(schema), "permission denied for database indelible");
    run(
        &mut owner,
        "GRANT CREATE ON DATABASE indelible TO maria; REVOKE TEMP ON DATABASE indelible FROM PUBLIC",
    );
    assert_eq!(
        refused("CREATE TEMP TABLE t (a int)"),
        "permission denied to create temporary tables in database \"indelible\""
    );
    run(&mut maria, schema);
    let rights = "SELECT datacl FROM pg_database WHERE datname = 'indelible'";
    let shown = "{=c/indelible,indelible=CTc/indelible,maria=C/indelible}";
    assert_eq!(run(&mut owner, rights), Some(shown.to_owned()));
    run(
        &mut owner,
        "REVOKE CONNECT ON DATABASE indelible FROM PUBLIC",
    );
    let error = sql.connect_as("maria").err().unwrap();
    assert_eq!(error.state.0, "42501");
    sql.connect_as("indelible").unwrap();
    run(&mut owner, "GRANT CONNECT ON DATABASE indelible TO maria");
    sql.connect_as("maria").unwrap();
}

/// A comment on the database was taken and forgotten.
#[test]
fn the_database_keeps_its_comment() {
    let (scratch, sql) = Scratch::open("database-comment");
    let mut owner = sql.connect().unwrap();
    run(
        &mut owner,
        "CREATE ROLE maria LOGIN; COMMENT ON DATABASE indelible IS $$kept$$",
    );
    // Privileges stand beside it.
    run(&mut owner, "GRANT CREATE ON DATABASE indelible TO maria");
    let mut maria = sql.connect_as("maria").unwrap();
    let comment = "COMMENT ON DATABASE indelible IS 'other'";
    let error = maria.simple(comment, &mut Last::default()).unwrap_err();
    assert_eq!(error.message, "must be owner of database indelible");
    drop((owner, maria, sql));
    let database = Database::open(scratch.directory()).unwrap();
    let sql = Sql::open(database).unwrap();
    let mut owner = sql.connect().unwrap();
    let shown = "SELECT shobj_description(oid, 'pg_database') FROM pg_database";
    assert_eq!(run(&mut owner, shown), Some("kept".to_owned()));
    let described = "SELECT count(*) FROM pg_description WHERE description = 'kept'";
    assert_eq!(run(&mut owner, described), Some("0".to_owned()));
    run(&mut owner, "COMMENT ON DATABASE indelible IS NULL");
    let rows = "SELECT count(*) FROM pg_shdescription";
    assert_eq!(run(&mut owner, rows), Some("0".to_owned()));
}
