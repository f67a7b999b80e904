//! sqlx: migrations up and down, pools, values, statements prepared once, transactions with
//! savepoints, streams of rows, COPY both ways, notifications, errors, time-outs, TLS.
//!
//! PGPORT is the server of the run; TLS_PORT and TLS_CERTIFICATE are one that asks for a password.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use futures_util::TryStreamExt;
use rust_decimal::Decimal;
use serde_json::{Value, json};
use sqlx::migrate::Migrator;
use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{
    PgConnectOptions, PgConnection, PgListener, PgPool, PgPoolOptions, PgRow, PgSslMode, Postgres,
};
use sqlx::{
    AssertSqlSafe, Column, ConnectOptions, Connection, Decode, Encode, Executor, FromRow, Row,
    SqlSafeStr, Type, TypeInfo,
};
use uuid::Uuid;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn options() -> PgConnectOptions {
    let port = std::env::var("PGPORT")
        .expect("PGPORT")
        .parse()
        .expect("a port");
    PgConnectOptions::new()
        .host("127.0.0.1")
        .port(port)
        .username("tester")
        .database("db")
        .ssl_mode(PgSslMode::Disable)
}

/// A value goes to the server as binary and comes back, alone, as NULL and in an array; the simple
/// protocol gives it as text.
async fn both_ways<T>(con: &mut PgConnection, name: &str, value: T, text: &str) -> Result<()>
where
    for<'r> T: Encode<'r, Postgres>
        + Decode<'r, Postgres>
        + Type<Postgres>
        + PartialEq
        + std::fmt::Debug
        + Clone
        + Send
        + 'r,
    for<'r> Vec<Option<T>>: Encode<'r, Postgres> + Decode<'r, Postgres> + Type<Postgres>,
{
    let sql = format!("SELECT $1::{name}, NULL::{name}, $2::{name}[], $1::{name}::text");
    let array = vec![Some(value.clone()), None];
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(value.clone())
        .bind(array.clone())
        .fetch_one(&mut *con)
        .await?;
    assert_eq!(row.try_get::<T, _>(0)?, value, "{name}");
    assert_eq!(row.try_get::<Option<T>, _>(1)?, None, "{name}");
    assert_eq!(row.try_get::<Vec<Option<T>>, _>(2)?, array, "{name}");
    assert_eq!(row.try_get::<String, _>(3)?, text, "{name}");
    let sql = format!("SELECT '{}'::{name}", text.replace('\'', "''"));
    let row = sqlx::raw_sql(AssertSqlSafe(sql))
        .fetch_one(&mut *con)
        .await?;
    assert_eq!(row.try_get::<T, _>(0)?, value, "{name} as text");
    Ok(())
}

async fn values(con: &mut PgConnection) -> Result<()> {
    both_ways(con, "bool", true, "true").await?;
    both_ways(con, "int2", -32768i16, "-32768").await?;
    both_ways(con, "int4", i32::MAX, "2147483647").await?;
    both_ways(con, "int8", i64::MIN, "-9223372036854775808").await?;
    both_ways(con, "float4", 1.5f32, "1.5").await?;
    both_ways(con, "float8", 1e300f64, "1e+300").await?;
    both_ways(con, "text", "tëxt ☃ 'q'".to_owned(), "tëxt ☃ 'q'").await?;
    both_ways(con, "varchar", String::new(), "").await?;
    both_ways(con, "bytea", vec![0u8, 255, 92], "\\x00ff5c").await?;
    both_ways(
        con,
        "numeric",
        "-1234567890123.8900".parse::<Decimal>()?,
        "-1234567890123.8900",
    )
    .await?;
    let date = NaiveDate::from_ymd_opt(2024, 2, 29).expect("a day");
    let time = NaiveTime::from_hms_micro_opt(23, 59, 59, 123_456).expect("a time");
    both_ways(con, "date", date, "2024-02-29").await?;
    both_ways(con, "time", time, "23:59:59.123456").await?;
    both_ways::<NaiveDateTime>(
        con,
        "timestamp",
        date.and_time(time),
        "2024-02-29 23:59:59.123456",
    )
    .await?;
    both_ways::<DateTime<Utc>>(
        con,
        "timestamptz",
        date.and_time(time).and_utc(),
        "2024-02-29 23:59:59.123456+00",
    )
    .await?;
    both_ways::<Value>(
        con,
        "jsonb",
        json!({"a": [1, null, "x"]}),
        "{\"a\": [1, null, \"x\"]}",
    )
    .await?;
    both_ways(
        con,
        "uuid",
        Uuid::from_u128(0x1234),
        "00000000-0000-0000-0000-000000001234",
    )
    .await?;
    // Intervals as text are not read by this driver.
    let interval = PgInterval {
        months: 14,
        days: 3,
        microseconds: 1_500_000,
    };
    let row = sqlx::query("SELECT $1::interval, $1::text")
        .bind(interval.clone())
        .fetch_one(&mut *con)
        .await?;
    assert_eq!(row.try_get::<PgInterval, _>(0)?, interval);
    Ok(())
}

#[derive(Debug, PartialEq, Clone, sqlx::Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Ok,
}

#[derive(Debug, PartialEq, FromRow)]
struct Owner {
    id: i64,
    name: String,
    mood: Option<Mood>,
    tags: Vec<String>,
    marks: sqlx::types::Json<Vec<i32>>,
}

/// Migrations from files, the newest undone, and one that was changed after it had run.
async fn migrations(pool: &PgPool, folder: &Path) -> Result<()> {
    let write = |name: &str, sql: &str| std::fs::write(folder.join(name), sql);
    write(
        "1_owner.up.sql",
        "CREATE TYPE mood AS ENUM ('sad', 'ok');
         CREATE TABLE owner (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, mood mood,
             tags text[] NOT NULL DEFAULT '{}', marks jsonb NOT NULL DEFAULT '[]');",
    )?;
    write("1_owner.down.sql", "DROP TABLE owner; DROP TYPE mood;")?;
    write(
        "2_pet.up.sql",
        "CREATE TABLE pet (id serial PRIMARY KEY, owner_id bigint REFERENCES owner ON DELETE CASCADE, weight numeric(8,2) CHECK (weight > 0));
         CREATE INDEX pet_owner ON pet (owner_id);",
    )?;
    write("2_pet.down.sql", "DROP TABLE pet;")?;
    let migrator = Migrator::new(folder).await?;
    migrator.run(pool).await?;
    migrator.run(pool).await?;
    migrator.undo(pool, 1).await?;
    let pets: Option<String> = sqlx::query_scalar("SELECT to_regclass('pet')::text")
        .fetch_one(pool)
        .await?;
    assert_eq!(pets, None);
    migrator.run(pool).await?;
    let done: Vec<(i64, bool)> =
        sqlx::query_as("SELECT version, success FROM _sqlx_migrations ORDER BY version")
            .fetch_all(pool)
            .await?;
    assert_eq!(done, [(1, true), (2, true)]);
    write("3_bad.up.sql", "CREATE TABLE half (id int); SELECT 1/0;")?;
    write("3_bad.down.sql", "")?;
    let bad = Migrator::new(folder).await?;
    assert!(bad.run(pool).await.is_err());
    let half: Option<String> = sqlx::query_scalar("SELECT to_regclass('half')::text")
        .fetch_one(pool)
        .await?;
    assert_eq!(half, None);
    std::fs::remove_file(folder.join("3_bad.up.sql"))?;
    std::fs::remove_file(folder.join("3_bad.down.sql"))?;
    write("2_pet.up.sql", "CREATE TABLE pet (id int);")?;
    let changed = Migrator::new(folder).await?.run(pool).await.unwrap_err();
    assert!(
        matches!(changed, sqlx::migrate::MigrateError::VersionMismatch(2)),
        "{changed}"
    );
    Ok(())
}

async fn statements(pool: &PgPool) -> Result<()> {
    let insert = "INSERT INTO owner (name, mood, tags, marks) VALUES ($1, $2, $3, $4) RETURNING *";
    let ada: Owner = sqlx::query_as(insert)
        .bind("ada")
        .bind(Mood::Ok)
        .bind(vec!["a", "b"])
        .bind(sqlx::types::Json(vec![1, 2]))
        .fetch_one(pool)
        .await?;
    let tags = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(
        ada,
        Owner {
            id: 1,
            name: "ada".into(),
            mood: Some(Mood::Ok),
            tags,
            marks: sqlx::types::Json(vec![1, 2])
        }
    );
    let names: Vec<String> = (0..500).map(|one| format!("n{one}")).collect();
    let moods: Vec<Mood> = names.iter().map(|_| Mood::Sad).collect();
    let done =
        sqlx::query("INSERT INTO owner (name, mood) SELECT * FROM UNNEST($1::text[], $2::mood[])")
            .bind(&names)
            .bind(&moods)
            .execute(pool)
            .await?;
    assert_eq!(done.rows_affected(), 500);
    let mut rows = sqlx::query_as::<_, Owner>("SELECT * FROM owner WHERE mood = $1 ORDER BY id")
        .bind(Mood::Sad)
        .fetch(pool);
    let mut count = 0;
    while let Some(owner) = rows.try_next().await? {
        assert_eq!(owner.name, format!("n{count}"));
        count += 1;
    }
    assert_eq!(count, 500);
    drop(rows);
    let described = pool
        .acquire()
        .await?
        .describe("SELECT id, name, $1::numeric AS n FROM owner".into_sql_str())
        .await?;
    let columns: Vec<(&str, &str)> = described
        .columns()
        .iter()
        .map(|one| (one.name(), one.type_info().name()))
        .collect();
    assert_eq!(
        columns,
        [("id", "INT8"), ("name", "TEXT"), ("n", "NUMERIC")]
    );
    assert_eq!(
        (
            described.nullable(0),
            described.nullable(1),
            described.nullable(2)
        ),
        (Some(false), Some(false), None)
    );
    let several: Vec<PgRow> = sqlx::raw_sql("SELECT 1; SELECT 2").fetch_all(pool).await?;
    assert_eq!(several.len(), 2);
    for (sql, code) in [
        ("INSERT INTO owner (name) VALUES ('ada')", "23505"),
        ("INSERT INTO pet (owner_id) VALUES (-1)", "23503"),
        ("INSERT INTO pet (weight) VALUES (-1)", "23514"),
        ("INSERT INTO owner (name) VALUES (NULL)", "23502"),
        ("SELECT nmae FROM owner", "42703"),
        ("SELECT 1/0", "22012"),
    ] {
        let error = sqlx::query(sql).execute(pool).await.unwrap_err();
        assert_eq!(
            error
                .as_database_error()
                .and_then(|found| found.code())
                .as_deref(),
            Some(code),
            "{sql}"
        );
    }
    let error = sqlx::query("INSERT INTO owner (name) VALUES ('ada')")
        .execute(pool)
        .await
        .unwrap_err();
    let error = error.as_database_error().expect("of the server");
    assert!(
        error.is_unique_violation()
            && error.constraint() == Some("owner_name_key")
            && error.table() == Some("owner")
    );
    Ok(())
}

async fn transactions(pool: &PgPool) -> Result<()> {
    let mut outer = pool.begin().await?;
    sqlx::query("INSERT INTO owner (name) VALUES ('kept')")
        .execute(&mut *outer)
        .await?;
    let mut inner = outer.begin().await?;
    assert!(
        sqlx::query("INSERT INTO owner (name) VALUES ('kept')")
            .execute(&mut *inner)
            .await
            .is_err()
    );
    inner.rollback().await?;
    let inner = outer.begin().await?;
    inner.commit().await?;
    outer.commit().await?;
    let mut dropped = pool
        .begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE")
        .await?;
    sqlx::query("DELETE FROM owner")
        .execute(&mut *dropped)
        .await?;
    drop(dropped);
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM owner")
        .fetch_one(pool)
        .await?;
    assert_eq!(count, 502);
    // One that waits for the other: a lock of an advisory kind, and a row.
    let mut one = pool.begin().await?;
    let mut other = pool.begin().await?;
    sqlx::query("UPDATE owner SET mood = 'ok' WHERE id = 1")
        .execute(&mut *one)
        .await?;
    let waits = sqlx::query("SELECT 1 FROM owner WHERE id = 1 FOR UPDATE NOWAIT")
        .execute(&mut *other)
        .await
        .unwrap_err();
    assert_eq!(
        waits
            .as_database_error()
            .and_then(|found| found.code())
            .as_deref(),
        Some("55P03")
    );
    Ok(())
}

async fn copies(con: &mut PgConnection) -> Result<()> {
    con.execute("CREATE TABLE copied (id int4, name text)")
        .await?;
    let mut sink = con
        .copy_in_raw("COPY copied FROM STDIN (FORMAT csv)")
        .await?;
    sink.send(&b"1,one\n2,\n"[..]).await?;
    sink.send(&b"3,\"th,ree\"\n"[..]).await?;
    assert_eq!(sink.finish().await?, 3);
    let sink = con.copy_in_raw("COPY copied FROM STDIN").await?;
    assert!(sink.abort("not wanted").await.is_ok());
    let rows: Vec<_> = con
        .copy_out_raw("COPY (SELECT * FROM copied ORDER BY id) TO STDOUT")
        .await?
        .try_collect()
        .await?;
    assert_eq!(
        rows.iter()
            .flat_map(|one| one.to_vec())
            .collect::<Vec<u8>>(),
        b"1\tone\n2\t\\N\n3\tth,ree\n"
    );
    let mut sink = con.copy_in_raw("COPY copied FROM STDIN").await?;
    sink.send(&b"x\ty\n"[..]).await?;
    let error = sink.finish().await.unwrap_err();
    assert_eq!(
        error
            .as_database_error()
            .and_then(|found| found.code())
            .as_deref(),
        Some("22P02")
    );
    con.ping().await?;
    Ok(())
}

async fn messages(pool: &PgPool) -> Result<()> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen_all(["news", "other"]).await?;
    sqlx::query("SELECT pg_notify('news', $1)")
        .bind("hëllo")
        .execute(pool)
        .await?;
    let found = tokio::time::timeout(Duration::from_secs(20), listener.recv()).await??;
    assert_eq!((found.channel(), found.payload()), ("news", "hëllo"));
    // This driver cancels nothing; a statement's time-out is the server's.
    let mut con = pool.acquire().await?;
    con.execute("SET statement_timeout = 200").await?;
    let late = con.execute("SELECT pg_sleep(60)").await.unwrap_err();
    assert_eq!(
        late.as_database_error()
            .and_then(|found| found.code())
            .as_deref(),
        Some("57014")
    );
    con.execute("RESET statement_timeout").await?;
    Ok(())
}

async fn encrypted() -> Result<()> {
    let port = std::env::var("TLS_PORT")?.parse()?;
    let base = options().host("localhost").port(port).password("päss word");
    let full = base
        .clone()
        .ssl_mode(PgSslMode::VerifyFull)
        .ssl_root_cert(std::env::var("TLS_CERTIFICATE")?);
    let mut con = full.connect().await?;
    let row =
        sqlx::query("SELECT ssl, current_user::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
            .fetch_one(&mut con)
            .await?;
    assert_eq!(
        (row.try_get::<bool, _>(0)?, row.try_get::<&str, _>(1)?),
        (true, "tester")
    );
    con.close().await?;
    let refused = full.password("wrong").connect().await.unwrap_err();
    assert_eq!(
        refused
            .as_database_error()
            .and_then(|found| found.code())
            .as_deref(),
        Some("28P01")
    );
    // Without the certificate the server is not trusted.
    assert!(
        base.clone()
            .ssl_mode(PgSslMode::VerifyFull)
            .connect()
            .await
            .is_err()
    );
    base.ssl_mode(PgSslMode::Require)
        .connect()
        .await?
        .close()
        .await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let pool = PgPoolOptions::new()
        .max_connections(4)
        .connect_with(options())
        .await?;
    let mut con = options().connect().await?;
    values(&mut con).await?;
    let folder = Path::new("migrations");
    std::fs::create_dir_all(folder)?;
    migrations(&pool, folder).await?;
    statements(&pool).await?;
    transactions(&pool).await?;
    copies(&mut con).await?;
    messages(&pool).await?;
    encrypted().await?;
    pool.close().await;
    Ok(())
}
