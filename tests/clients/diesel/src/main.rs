//! diesel over libpq: migrations up and down, values, inserts with conflicts, joins, transactions
//! with savepoints, streams of rows, COPY both ways, notifications, errors, TLS.
//!
//! PGPORT is the server of the run; TLS_PORT and TLS_CERTIFICATE are one that asks for a password.

use std::error::Error;
use std::path::Path;

use bigdecimal::BigDecimal;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use diesel::connection::SimpleConnection;
use diesel::dsl::{count_star, exists, insert_into, select, sql, sum};
use diesel::pg::{CopyFormat, PgConnection};
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error as Failure};
use diesel::sql_types::{Bool, Integer, Text};
use diesel_migrations::{FileBasedMigrations, MigrationHarness};
use serde_json::{Value, json};
use uuid::Uuid;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

diesel::table! {
    every (id) {
        id -> BigInt,
        flag -> Nullable<Bool>,
        small -> Nullable<SmallInt>,
        middle -> Nullable<Integer>,
        real -> Nullable<Float>,
        double -> Nullable<Double>,
        name -> Nullable<Text>,
        short -> Nullable<VarChar>,
        raw -> Nullable<Binary>,
        price -> Nullable<Numeric>,
        day -> Nullable<Date>,
        clock -> Nullable<Time>,
        moment -> Nullable<Timestamp>,
        instant -> Nullable<Timestamptz>,
        document -> Nullable<Json>,
        binary_document -> Nullable<Jsonb>,
        number -> Nullable<Uuid>,
        tags -> Nullable<Array<Nullable<Text>>>,
        counts -> Nullable<Array<Nullable<Integer>>>,
    }
}
diesel::table! {
    owner (id) {
        id -> Integer,
        name -> Text,
        visits -> Integer,
    }
}
diesel::table! {
    pet (id) {
        id -> Integer,
        owner_id -> Integer,
        name -> Text,
        weight -> Nullable<Numeric>,
    }
}
diesel::joinable!(pet -> owner (owner_id));
diesel::allow_tables_to_appear_in_same_query!(owner, pet);

#[derive(Debug, PartialEq, Clone, Queryable, Insertable, Selectable)]
#[diesel(table_name = every, check_for_backend(diesel::pg::Pg))]
struct Every {
    id: i64,
    flag: Option<bool>,
    small: Option<i16>,
    middle: Option<i32>,
    real: Option<f32>,
    double: Option<f64>,
    name: Option<String>,
    short: Option<String>,
    raw: Option<Vec<u8>>,
    price: Option<BigDecimal>,
    day: Option<NaiveDate>,
    clock: Option<NaiveTime>,
    moment: Option<NaiveDateTime>,
    instant: Option<DateTime<Utc>>,
    document: Option<Value>,
    binary_document: Option<Value>,
    number: Option<Uuid>,
    tags: Option<Vec<Option<String>>>,
    counts: Option<Vec<Option<i32>>>,
}

#[derive(Debug, PartialEq, Queryable, Identifiable, Selectable, AsChangeset)]
#[diesel(table_name = owner)]
struct Owner {
    id: i32,
    name: String,
    visits: i32,
}

#[derive(Debug, PartialEq, Queryable, Identifiable, Selectable, Associations)]
#[diesel(table_name = pet, belongs_to(Owner))]
struct Pet {
    id: i32,
    owner_id: i32,
    name: String,
    weight: Option<BigDecimal>,
}

#[derive(Insertable, Queryable, Debug, PartialEq, Clone)]
#[diesel(table_name = owner, treat_none_as_default_value = false)]
struct Named {
    id: i32,
    name: String,
}

fn address() -> String {
    format!(
        "postgres://tester@127.0.0.1:{}/db?sslmode=disable",
        std::env::var("PGPORT").expect("PGPORT")
    )
}

fn migrations(con: &mut PgConnection) -> Result<()> {
    let write = |folder: &str, up: &str, down: &str| -> std::io::Result<()> {
        let folder = Path::new("migrations").join(folder);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("up.sql"), up)?;
        std::fs::write(folder.join("down.sql"), down)
    };
    write(
        "2024-01-01-000000_every",
        "CREATE TABLE every (id bigint PRIMARY KEY, flag bool, small int2, middle int4, real float4, double float8, name text,
             short varchar(20), raw bytea, price numeric, day date, clock time, moment timestamp, instant timestamptz, document json,
             binary_document jsonb, number uuid, tags text[], counts int4[]);",
        "DROP TABLE every;",
    )?;
    write(
        "2024-01-02-000000_owner",
        "CREATE TABLE owner (id int PRIMARY KEY, name text NOT NULL UNIQUE, visits int NOT NULL DEFAULT 0);
         CREATE TABLE pet (id serial PRIMARY KEY, owner_id int NOT NULL REFERENCES owner, name text NOT NULL,
             weight numeric CONSTRAINT heavy CHECK (weight > 0));",
        "DROP TABLE pet; DROP TABLE owner;",
    )?;
    let found = || FileBasedMigrations::from_path("migrations");
    assert_eq!(con.run_pending_migrations(found()?)?.len(), 2);
    assert!(!con.has_pending_migration(found()?)?);
    con.revert_last_migration(found()?)?;
    assert_eq!(con.pending_migrations(found()?)?.len(), 1);
    con.revert_all_migrations(found()?)?;
    assert_eq!(con.run_pending_migrations(found()?)?.len(), 2);
    assert_eq!(con.applied_migrations()?.len(), 2);
    write(
        "2024-01-03-000000_bad",
        "CREATE TABLE half (id int); SELECT 1/0;",
        "",
    )?;
    assert!(con.run_pending_migrations(found()?).is_err());
    assert!(select(sql::<Bool>("to_regclass('half') IS NULL")).get_result::<bool>(con)?);
    Ok(())
}

fn values(con: &mut PgConnection) -> Result<()> {
    let day = NaiveDate::from_ymd_opt(2024, 2, 29).expect("a day");
    let clock = NaiveTime::from_hms_micro_opt(23, 59, 59, 123_456).expect("a time");
    let whole = Every {
        id: i64::MAX,
        flag: Some(true),
        small: Some(-5),
        middle: Some(i32::MIN),
        real: Some(1.5),
        double: Some(1e300),
        name: Some("tëxt ☃ 'q'".into()),
        short: Some(String::new()),
        raw: Some(vec![0, 255, 92]),
        price: Some("-1234567890123456789.8900".parse()?),
        day: Some(day),
        clock: Some(clock),
        moment: Some(day.and_time(clock)),
        instant: Some(day.and_time(clock).and_utc()),
        document: Some(json!({"a": [1, null, "x"]})),
        binary_document: Some(json!({"b": {"c": 1.5}})),
        number: Some(Uuid::from_u128(0x1234)),
        tags: Some(vec![Some("a,b".into()), None, Some("\"".into())]),
        counts: Some(vec![Some(1), None]),
    };
    let empty = Every {
        id: 1,
        flag: None,
        small: None,
        middle: None,
        real: None,
        double: None,
        name: None,
        short: None,
        raw: None,
        price: None,
        day: None,
        clock: None,
        moment: None,
        instant: None,
        document: None,
        binary_document: None,
        number: None,
        tags: None,
        counts: None,
    };
    let found: Vec<Every> = insert_into(every::table)
        .values(vec![whole.clone(), empty.clone()])
        .returning(Every::as_returning())
        .get_results(con)?;
    assert_eq!(found, [whole.clone(), empty.clone()]);
    let found: Vec<Every> = every::table
        .order(every::id.desc())
        .select(Every::as_select())
        .load(con)?;
    assert_eq!(found, [whole.clone(), empty]);
    let found = every::table
        .filter(every::id.eq_any([i64::MAX, 7]))
        .filter(every::tags.contains(vec![Some("a,b")]))
        .count()
        .get_result::<i64>(con)?;
    assert_eq!(found, 1);
    let name: Option<String> = every::table
        .filter(every::binary_document.contains(json!({"b": {}})))
        .select(every::name)
        .first(con)?;
    assert_eq!(name, whole.name);
    let later: Option<NaiveDateTime> = every::table
        .find(i64::MAX)
        .select((every::moment + diesel::dsl::IntervalDsl::day(1)).nullable())
        .first(con)?;
    assert_eq!(later, Some(day.succ_opt().expect("a day").and_time(clock)));
    Ok(())
}

fn statements(con: &mut PgConnection) -> Result<()> {
    let many: Vec<Named> = (1..=300)
        .map(|id| Named {
            id,
            name: format!("n{id}"),
        })
        .collect();
    assert_eq!(insert_into(owner::table).values(&many).execute(con)?, 300);
    let again = Named {
        id: 1,
        name: "other".into(),
    };
    let kept = insert_into(owner::table)
        .values(&again)
        .on_conflict_do_nothing()
        .execute(con)?;
    let changed: Owner = insert_into(owner::table)
        .values(&again)
        .on_conflict(owner::id)
        .do_update()
        .set((
            owner::name.eq(diesel::upsert::excluded(owner::name)),
            owner::visits.eq(owner::visits + 1),
        ))
        .returning(Owner::as_returning())
        .get_result(con)?;
    assert_eq!(
        (kept, changed),
        (
            0,
            Owner {
                id: 1,
                name: "other".into(),
                visits: 1
            }
        )
    );
    let pets: Vec<_> = (1..=50)
        .map(|one| {
            (
                pet::owner_id.eq(1 + one % 5),
                pet::name.eq(format!("p{one}")),
                pet::weight.eq(BigDecimal::from(one)),
            )
        })
        .collect();
    insert_into(pet::table).values(&pets).execute(con)?;
    let rows: Vec<(Owner, Pet)> = owner::table
        .inner_join(pet::table)
        .filter(pet::weight.gt(BigDecimal::from(48)))
        .order(pet::id)
        .select((Owner::as_select(), Pet::as_select()))
        .load(con)?;
    assert_eq!(
        rows.iter()
            .map(|(owner, pet)| (owner.id, &*pet.name))
            .collect::<Vec<_>>(),
        [(5, "p49"), (1, "p50")]
    );
    let owners: Vec<Owner> = owner::table
        .filter(owner::id.le(2))
        .order(owner::id)
        .load(con)?;
    let of_owners = Pet::belonging_to(&owners)
        .order(pet::id)
        .select(Pet::as_select())
        .load(con)?
        .grouped_by(&owners);
    assert_eq!(of_owners.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10]);
    let sums: Vec<(i32, Option<BigDecimal>, i64)> = pet::table
        .group_by(pet::owner_id)
        .having(count_star().gt(1))
        .order(pet::owner_id)
        .select((pet::owner_id, sum(pet::weight), count_star()))
        .limit(1)
        .load(con)?;
    assert_eq!(sums, [(1, Some(BigDecimal::from(275)), 10)]);
    assert!(select(exists(pet::table.filter(pet::name.ilike("P1%")))).get_result::<bool>(con)?);
    let cheap: Vec<String> = owner::table
        .left_join(pet::table)
        .filter(pet::id.is_null())
        .order(owner::id)
        .select(owner::name)
        .limit(2)
        .offset(1)
        .load(con)?;
    assert_eq!(cheap, ["n7", "n8"]);
    // Rows one by one, as they come.
    let rows = owner::table
        .order(owner::id)
        .load_iter::<Owner, diesel::pg::PgRowByRowLoadingMode>(con)?;
    assert_eq!(
        rows.map(|row| row.map(|row| i64::from(row.id)))
            .sum::<QueryResult<i64>>()?,
        300 * 301 / 2
    );
    let found: i32 = diesel::sql_query("SELECT $1 + length($2) AS n")
        .bind::<Integer, _>(2)
        .bind::<Text, _>("abc")
        .get_result::<Number>(con)?
        .n;
    assert_eq!(found, 5);
    assert_eq!(
        diesel::delete(pet::table.filter(pet::owner_id.eq(2))).execute(con)?,
        10
    );
    Ok(())
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = Integer)]
    n: i32,
}

fn transactions(con: &mut PgConnection) -> Result<()> {
    let failed: QueryResult<()> = con.transaction(|con| {
        insert_into(owner::table)
            .values(Named {
                id: 1000,
                name: "outer".into(),
            })
            .execute(con)?;
        let inner: QueryResult<usize> = con.transaction(|con| {
            insert_into(owner::table)
                .values(Named {
                    id: 1000,
                    name: "twice".into(),
                })
                .execute(con)
        });
        assert!(
            matches!(
                inner,
                Err(Failure::DatabaseError(
                    DatabaseErrorKind::UniqueViolation,
                    _
                ))
            ),
            "{inner:?}"
        );
        assert_eq!(
            owner::table
                .find(1000)
                .select(owner::name)
                .first::<String>(con)?,
            "outer"
        );
        Err(Failure::RollbackTransaction)
    });
    assert!(matches!(failed, Err(Failure::RollbackTransaction)));
    assert_eq!(
        owner::table.find(1000).first::<Owner>(con).optional()?,
        None
    );
    con.build_transaction()
        .read_only()
        .serializable()
        .deferrable()
        .run(|con| {
            let refused = diesel::delete(owner::table).execute(con);
            assert!(
                matches!(
                    refused,
                    Err(Failure::DatabaseError(
                        DatabaseErrorKind::ReadOnlyTransaction,
                        _
                    ))
                ),
                "{refused:?}"
            );
            Err::<(), _>(Failure::RollbackTransaction)
        })
        .unwrap_err();
    con.begin_test_transaction()?;
    insert_into(owner::table)
        .values(Named {
            id: 1000,
            name: "test".into(),
        })
        .execute(con)?;
    let mut other = PgConnection::establish(&address())?;
    let locked = other.transaction(|other| {
        owner::table.find(1).for_update().execute(other)?;
        owner::table.find(1).for_update().no_wait().execute(con)
    });
    assert!(locked.is_err());
    let mut con = PgConnection::establish(&address())?;
    for (result, kind, constraint) in [
        (
            insert_into(pet::table)
                .values((pet::owner_id.eq(-1), pet::name.eq("x")))
                .execute(&mut con),
            "ForeignKeyViolation",
            Some("pet_owner_id_fkey"),
        ),
        (
            insert_into(owner::table)
                .values((owner::id.eq(2000), owner::name.eq("n3")))
                .execute(&mut con),
            "UniqueViolation",
            Some("owner_name_key"),
        ),
        (
            insert_into(owner::table)
                .values(owner::id.eq(2001))
                .execute(&mut con),
            "NotNullViolation",
            None,
        ),
        (
            diesel::update(pet::table.filter(pet::name.eq("p4")))
                .set(pet::weight.eq(BigDecimal::from(-1)))
                .execute(&mut con),
            "CheckViolation",
            Some("heavy"),
        ),
        (
            diesel::sql_query("SELECT nmae FROM owner").execute(&mut con),
            "Unknown",
            None,
        ),
    ] {
        let Err(Failure::DatabaseError(found, information)) = result else {
            panic!("{kind}: {result:?}")
        };
        assert_eq!(
            (format!("{found:?}"), information.constraint_name()),
            (kind.to_owned(), constraint)
        );
    }
    Ok(())
}

/// Lines for COPY.
fn raw(lines: &'static [u8]) -> impl Fn(&mut dyn std::io::Write) -> QueryResult<()> {
    move |out| {
        out.write_all(lines)
            .map_err(|error| Failure::SerializationError(error.into()))
    }
}

fn copies(con: &mut PgConnection) -> Result<()> {
    con.batch_execute("DELETE FROM pet; DELETE FROM owner")?;
    let rows: Vec<Named> = (1..=100)
        .map(|id| Named {
            id,
            name: format!("b\t{id}"),
        })
        .collect();
    // As binary, by the type of the rows; then as text.
    assert_eq!(
        diesel::copy_from(owner::table)
            .from_insertable(&rows)
            .execute(con)?,
        100
    );
    // diesel leaves the end of a COPY unread, with PostgreSQL too, so a connection that has copied
    // out is not used again.
    let mut other = PgConnection::establish(&address())?;
    let found: Vec<Named> = diesel::copy_to(owner::table)
        .load::<CopiedNamed, _>(&mut other)?
        .map(|row| {
            row.map(|row| Named {
                id: row.id,
                name: row.name,
            })
        })
        .collect::<QueryResult<_>>()?;
    assert_eq!(found, rows);
    let added = diesel::copy_from(owner::table)
        .from_raw_data((owner::id, owner::name), raw(b"200,csv\n201,\"a,b\"\n"))
        .with_format(CopyFormat::Csv)
        .execute(con)?;
    assert_eq!(added, 2);
    let (mut text, mut other) = (String::new(), PgConnection::establish(&address())?);
    std::io::Read::read_to_string(
        &mut diesel::copy_to(owner::table)
            .with_format(CopyFormat::Csv)
            .load_raw(&mut other)?,
        &mut text,
    )?;
    assert!(text.ends_with("201,\"a,b\",0\n"), "{text}");
    let refused = diesel::copy_from(owner::table)
        .from_raw_data((owner::id, owner::name), raw(b"1,twice\n"))
        .with_format(CopyFormat::Csv)
        .execute(con);
    assert!(
        matches!(
            refused,
            Err(Failure::DatabaseError(
                DatabaseErrorKind::UniqueViolation,
                _
            ))
        ),
        "{refused:?}"
    );
    Ok(())
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = owner)]
struct CopiedNamed {
    id: i32,
    name: String,
}

fn messages(con: &mut PgConnection) -> Result<()> {
    con.batch_execute("LISTEN news")?;
    PgConnection::establish(&address())?.batch_execute("NOTIFY news, 'hëllo'")?;
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        diesel::sql_query("SELECT 1").execute(con)?;
        if let Some(found) = con.notifications_iter().next() {
            let found = found?;
            assert_eq!((&*found.channel, &*found.payload), ("news", "hëllo"));
            return Ok(());
        }
        assert!(std::time::Instant::now() < until, "no notification");
    }
}

fn encrypted() -> Result<()> {
    let port = std::env::var("TLS_PORT")?;
    let address = format!(
        "host=localhost port={port} user=tester dbname=db sslmode=verify-full channel_binding=require sslrootcert={}",
        std::env::var("TLS_CERTIFICATE")?
    );
    let mut con = PgConnection::establish(&format!("{address} password='päss word'"))?;
    let ssl = select(sql::<Bool>(
        "(SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid())",
    ))
    .get_result::<bool>(&mut con)?;
    assert!(ssl);
    let refused = PgConnection::establish(&format!("{address} password=wrong"))
        .err()
        .expect("refused")
        .to_string();
    assert!(
        refused.contains("password authentication failed"),
        "{refused}"
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut con = PgConnection::establish(&address())?;
    migrations(&mut con)?;
    values(&mut con)?;
    statements(&mut con)?;
    transactions(&mut con)?;
    let mut con = PgConnection::establish(&address())?;
    copies(&mut con)?;
    messages(&mut con)?;
    encrypted()
}
