//! tokio-postgres, and `postgres` above it: values as binary and text, statements prepared once,
//! pipelines, transactions, COPY both ways, portals, notices and notifications, cancel, errors,
//! TLS.
//!
//! PGPORT is the server of the run; TLS_PORT and TLS_CERTIFICATE are one that asks for a password.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use futures_util::{SinkExt, StreamExt, TryStreamExt, future, pin_mut, stream};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSqlOwned, Json, ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, IsolationLevel, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;
use uuid::Uuid;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn address() -> String {
    let port = std::env::var("PGPORT").expect("PGPORT");
    format!("host=127.0.0.1 port={port} user=tester dbname=db sslmode=disable")
}

async fn connect() -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(&address(), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A value goes to the server and comes back, alone, as NULL and in an array, and its text form is
/// as expected.
async fn both_ways<T>(client: &Client, name: &str, value: T, text: &str) -> Result<()>
where
    T: ToSql + FromSqlOwned + PartialEq + std::fmt::Debug + Clone + Sync,
{
    let sql = format!("SELECT $1::{name}, $1::{name}::text, NULL::{name}, $2::{name}[]");
    let array = vec![Some(value.clone()), None, Some(value.clone())];
    let row = client.query_one(&sql, &[&value, &array]).await?;
    assert_eq!(row.get::<_, T>(0), value, "{name}");
    assert_eq!(row.get::<_, String>(1), text, "{name}");
    assert_eq!(row.get::<_, Option<T>>(2), None, "{name}");
    assert_eq!(row.get::<_, Vec<Option<T>>>(3), array, "{name}");
    // The simple protocol has the same as text.
    let quoted = text.replace('\'', "''");
    let found = client
        .simple_query(&format!("SELECT '{quoted}'::{name}"))
        .await?;
    let SimpleQueryMessage::Row(row) = &found[1] else {
        panic!("{name}: {found:?}")
    };
    assert_eq!(row.get(0), Some(text), "{name}");
    Ok(())
}

async fn values(client: &Client) -> Result<()> {
    let row = client
        .query_one(
            "SELECT $1::bool, $2::bool[]",
            &[&true, &vec![Some(false), None]],
        )
        .await?;
    assert_eq!(
        (row.get::<_, bool>(0), row.get::<_, Vec<Option<bool>>>(1)),
        (true, vec![Some(false), None])
    );
    both_ways(client, "int2", -32768i16, "-32768").await?;
    both_ways(client, "int4", i32::MAX, "2147483647").await?;
    both_ways(client, "int8", i64::MIN, "-9223372036854775808").await?;
    both_ways(client, "oid", 4_000_000_000u32, "4000000000").await?;
    both_ways(client, "float4", 1.5f32, "1.5").await?;
    both_ways(client, "float8", 0.1f64, "0.1").await?;
    both_ways(client, "float8", f64::INFINITY, "Infinity").await?;
    both_ways(client, "text", "tëxt ☃ 'q'".to_owned(), "tëxt ☃ 'q'").await?;
    both_ways(client, "varchar", String::new(), "").await?;
    both_ways(client, "bytea", vec![0u8, 255, 92], "\\x00ff5c").await?;
    both_ways(
        client,
        "numeric",
        "-12345678901234567.8900".parse::<Decimal>()?,
        "-12345678901234567.8900",
    )
    .await?;
    both_ways(
        client,
        "numeric",
        "0.0000001".parse::<Decimal>()?,
        "0.0000001",
    )
    .await?;
    let date = NaiveDate::from_ymd_opt(2024, 2, 29).expect("a day");
    let time = NaiveTime::from_hms_micro_opt(23, 59, 59, 123_456).expect("a time");
    both_ways(client, "date", date, "2024-02-29").await?;
    both_ways(client, "time", time, "23:59:59.123456").await?;
    both_ways(
        client,
        "timestamp",
        date.and_time(time),
        "2024-02-29 23:59:59.123456",
    )
    .await?;
    both_ways(
        client,
        "timestamptz",
        date.and_time(time).and_utc(),
        "2024-02-29 23:59:59.123456+00",
    )
    .await?;
    both_ways(
        client,
        "json",
        json!({"a": [1, null, "x"]}),
        "{\"a\":[1,null,\"x\"]}",
    )
    .await?;
    both_ways(
        client,
        "jsonb",
        json!({"a": [1, null, "x"]}),
        "{\"a\": [1, null, \"x\"]}",
    )
    .await?;
    both_ways(
        client,
        "uuid",
        Uuid::from_u128(0x1234),
        "00000000-0000-0000-0000-000000001234",
    )
    .await?;
    both_ways(client, "\"char\"", b'x' as i8, "x").await?;
    let old = NaiveDate::from_ymd_opt(1582, 10, 15).expect("a day");
    both_ways(client, "date", old, "1582-10-15").await?;
    let row = client
        .query_one(
            "SELECT $1::timestamptz",
            &[&DateTime::parse_from_rfc3339("2024-02-29T12:00:00+02:00")?],
        )
        .await?;
    assert_eq!(
        row.get::<_, DateTime<Utc>>(0).naive_utc().to_string(),
        "2024-02-29 10:00:00"
    );
    assert_eq!(
        row.get::<_, DateTime<FixedOffset>>(0).timestamp(),
        1_709_200_800
    );
    // Types that the server infers, and the names and types of what comes back.
    let statement = client
        .prepare("SELECT $1 + 1 AS one, $2 || 'x' AS two, $3 = ANY($4) AS three, length($5)")
        .await?;
    let names: Vec<&str> = statement
        .columns()
        .iter()
        .map(|column| column.name())
        .collect();
    assert_eq!(names, ["one", "two", "three", "length"]);
    assert_eq!(statement.params()[0], Type::INT4);
    assert_eq!(statement.params()[1], Type::TEXT);
    Ok(())
}

/// Enums, domains and composites are looked up in the catalogue by the driver.
async fn own_types(client: &Client) -> Result<()> {
    client
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('sad', 'ok');
             CREATE DOMAIN small AS int4 CHECK (VALUE < 10);
             CREATE TYPE pair AS (a int4, b text);
             CREATE TABLE own (m mood, s small, p pair, ms mood[])",
        )
        .await?;
    let statement = client
        .prepare("INSERT INTO own (m, s, ms) VALUES ($1, $2, $3)")
        .await?;
    let kinds: Vec<String> = statement
        .params()
        .iter()
        .map(|one| format!("{:?}", one.kind()))
        .collect();
    assert_eq!(kinds[0], "Enum([\"sad\", \"ok\"])");
    assert!(
        kinds[2].starts_with("Array(Other(Other { name: \"mood\""),
        "{kinds:?}"
    );
    let columns = client.prepare("SELECT m, s, p, ms FROM own").await?;
    assert!(format!("{:?}", columns.columns()[2].type_().kind()).starts_with("Composite("));
    assert_eq!(columns.columns()[2].type_().name(), "pair");
    let row = client
        .query_one("SELECT 'ok'::mood::text = $1, 9::small", &[&"ok"])
        .await?;
    assert_eq!((row.get::<_, bool>(0), row.get::<_, i32>(1)), (true, 9));
    let error = client
        .execute("INSERT INTO own (s) VALUES ($1::int4)", &[&10])
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::CHECK_VIOLATION));
    client
        .batch_execute("INSERT INTO own VALUES ('sad', 1, ROW(1, 'x'), '{ok,sad}'); DROP TABLE own")
        .await?;
    client
        .batch_execute("DROP TYPE mood; DROP TYPE pair")
        .await?;
    Ok(())
}

async fn statements(client: &mut Client) -> Result<()> {
    client
        .batch_execute(
            "CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, price numeric(8,2))",
        )
        .await?;
    let insert = client
        .prepare("INSERT INTO item VALUES ($1, $2, $3)")
        .await?;
    let price: Decimal = "1.5".parse()?;
    for id in 0..20 {
        assert_eq!(
            client
                .execute(
                    &insert,
                    &[&id, &format!("n{id}"), &(id % 2 == 0).then_some(price)]
                )
                .await?,
            1
        );
    }
    assert_eq!(
        client
            .execute("UPDATE item SET price = 3 WHERE id < $1", &[&10])
            .await?,
        10
    );
    let row = client
        .query_one("SELECT id, name, price FROM item WHERE id = $1", &[&11])
        .await?;
    assert_eq!(
        (
            row.get::<_, i32>("id"),
            row.get::<_, &str>("name"),
            row.get::<_, Option<Decimal>>("price")
        ),
        (11, "n11", None)
    );
    assert!(
        client
            .query_opt("SELECT 1 FROM item WHERE id = $1", &[&99])
            .await?
            .is_none()
    );
    let row = client
        .query_typed_one(
            "SELECT $1 + $2",
            &[(&1i64, Type::INT8), (&2i64, Type::INT8)],
        )
        .await?;
    assert_eq!(row.get::<_, i64>(0), 3);
    // Sent without waiting for one another.
    let double = client.prepare("SELECT $1::int4 * 2").await?;
    let numbers: Vec<i32> = (0..200).collect();
    let results = future::try_join_all(
        numbers
            .iter()
            .map(|one| async { client.query_one(&double, &[one]).await }),
    )
    .await?;
    for (one, row) in numbers.iter().zip(results) {
        assert_eq!(row.get::<_, i32>(0), 2 * one);
    }
    // One that fails between others.
    let (good, bad, after) = future::join3(
        client.query_one("SELECT 1", &[]),
        client.query_one("SELECT 1 / $1::int4", &[&0]),
        client.query_one("SELECT 2", &[]),
    )
    .await;
    assert_eq!((good?.get::<_, i32>(0), after?.get::<_, i32>(0)), (1, 2));
    assert_eq!(bad.unwrap_err().code(), Some(&SqlState::DIVISION_BY_ZERO));
    // A portal is read in pieces.
    let transaction = client.transaction().await?;
    let portal = transaction
        .bind("SELECT id FROM item ORDER BY id", &[])
        .await?;
    let mut sizes = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 8).await?;
        sizes.push(rows.len());
        if rows.len() < 8 {
            break;
        }
    }
    assert_eq!(sizes, [8, 8, 4]);
    transaction.rollback().await?;
    let rows = client
        .query_raw("SELECT * FROM generate_series(1, $1)", [5000])
        .await?;
    assert_eq!(rows.try_collect::<Vec<_>>().await?.len(), 5000);
    Ok(())
}

async fn transactions(client: &mut Client) -> Result<()> {
    let mut transaction = client.transaction().await?;
    transaction
        .execute("INSERT INTO item VALUES (100, 'kept', NULL)", &[])
        .await?;
    let inner = transaction.savepoint("inner").await?;
    let error = inner
        .execute("INSERT INTO item VALUES (100, 'again', NULL)", &[])
        .await
        .unwrap_err();
    let found = error.as_db_error().expect("of the server");
    assert_eq!(
        (found.code(), found.constraint(), found.table()),
        (&SqlState::UNIQUE_VIOLATION, Some("item_pkey"), Some("item"))
    );
    assert_eq!(found.detail(), Some("Key (id)=(100) already exists."));
    let aborted = inner.execute("SELECT 1", &[]).await.unwrap_err();
    assert_eq!(aborted.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    inner.rollback().await?;
    transaction.commit().await?;
    // Dropped without an end, it is rolled back.
    client
        .transaction()
        .await?
        .execute("DELETE FROM item", &[])
        .await?;
    assert_eq!(
        client
            .query_one("SELECT count(*) FROM item", &[])
            .await?
            .get::<_, i64>(0),
        21
    );
    let reader = client
        .build_transaction()
        .isolation_level(IsolationLevel::Serializable)
        .read_only(true)
        .deferrable(true)
        .start()
        .await?;
    assert_eq!(
        reader
            .query_one("SHOW transaction_isolation", &[])
            .await?
            .get::<_, &str>(0),
        "serializable"
    );
    let error = reader.execute("DELETE FROM item", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
    reader.rollback().await?;
    for (sql, code) in [
        ("SELECT nmae FROM item", SqlState::UNDEFINED_COLUMN),
        ("SELECT * FROM missing", SqlState::UNDEFINED_TABLE),
        ("SELEC 1", SqlState::SYNTAX_ERROR),
        (
            "INSERT INTO item VALUES (1000, NULL, 1)",
            SqlState::NOT_NULL_VIOLATION,
        ),
        ("SELECT 'x'::int4", SqlState::INVALID_TEXT_REPRESENTATION),
        ("SELECT 1e400::float8", SqlState::NUMERIC_VALUE_OUT_OF_RANGE),
    ] {
        assert_eq!(
            client.execute(sql, &[]).await.unwrap_err().code(),
            Some(&code),
            "{sql}"
        );
    }
    Ok(())
}

async fn copies(client: &Client) -> Result<()> {
    client
        .batch_execute("CREATE TABLE copied (id int4, name text, at timestamptz, big numeric)")
        .await?;
    let sink = client.copy_in("COPY copied (id, name) FROM STDIN").await?;
    let lines = ["1\tone\n2\t\\N\n", "3\tth", "ree\n"]
        .map(|one| Ok::<_, tokio_postgres::Error>(Bytes::from(one)));
    pin_mut!(sink);
    sink.send_all(&mut stream::iter(lines)).await?;
    assert_eq!(sink.finish().await?, 3);
    let sink = client
        .copy_in("COPY copied (id, name, at) FROM STDIN BINARY")
        .await?;
    let writer = BinaryCopyInWriter::new(sink, &[Type::INT4, Type::TEXT, Type::TIMESTAMPTZ]);
    pin_mut!(writer);
    let at = NaiveDate::from_ymd_opt(2024, 2, 29)
        .and_then(|day| day.and_hms_opt(1, 2, 3))
        .expect("a time")
        .and_utc();
    for id in 4..1004i32 {
        writer.as_mut().write(&[&id, &Some("bïnary"), &at]).await?;
    }
    assert_eq!(writer.finish().await?, 1000);
    let rows = client
        .copy_out("COPY (SELECT id, name, at FROM copied ORDER BY id) TO STDOUT BINARY")
        .await?;
    let rows: Vec<_> = BinaryCopyOutStream::new(rows, &[Type::INT4, Type::TEXT, Type::TIMESTAMPTZ])
        .try_collect()
        .await?;
    assert_eq!(rows.len(), 1003);
    assert_eq!(
        (rows[1].get::<i32>(0), rows[1].get::<Option<&str>>(1)),
        (2, None)
    );
    assert_eq!(
        (rows[1002].get::<i32>(0), rows[1002].get::<DateTime<Utc>>(2)),
        (1003, at)
    );
    let text: Vec<Bytes> = client
        .copy_out("COPY (SELECT id, name FROM copied ORDER BY id LIMIT 3) TO STDOUT CSV")
        .await?
        .try_collect()
        .await?;
    assert_eq!(text.concat(), b"1,one\n2,\n3,three\n");
    // One that is left before its end changes nothing, and the connection goes on.
    let abandoned = client
        .copy_in::<_, Bytes>("COPY copied (id) FROM STDIN")
        .await?;
    drop(abandoned);
    let sink = client.copy_in("COPY copied (id) FROM STDIN").await?;
    pin_mut!(sink);
    sink.send(Bytes::from("x\n")).await?;
    assert_eq!(
        sink.finish().await.unwrap_err().code(),
        Some(&SqlState::INVALID_TEXT_REPRESENTATION)
    );
    assert_eq!(
        client
            .query_one("SELECT count(*) FROM copied", &[])
            .await?
            .get::<_, i64>(0),
        1003
    );
    Ok(())
}

async fn messages(client: &Client) -> Result<()> {
    let (listener, mut connection) = tokio_postgres::connect(&address(), NoTls).await?;
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    listener
        .batch_execute("LISTEN news; DROP TABLE IF EXISTS missing")
        .await?;
    client
        .execute("SELECT pg_notify('news', $1)", &[&"hëllo"])
        .await?;
    let mut found = Vec::new();
    while found.len() < 2 {
        match tokio::time::timeout(Duration::from_secs(20), received.recv())
            .await?
            .expect("a message")
        {
            AsyncMessage::Notice(notice) => found.push(notice.message().to_owned()),
            AsyncMessage::Notification(one) => {
                found.push(format!("{} {}", one.channel(), one.payload()))
            }
            _ => {}
        }
    }
    assert_eq!(
        found,
        ["table \"missing\" does not exist, skipping", "news hëllo"]
    );
    let token = listener.cancel_token();
    let sleeping = listener.query("SELECT pg_sleep(60)", &[]);
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel_query(NoTls).await
    };
    let (slept, cancelled) = future::join(sleeping, cancelling).await;
    cancelled?;
    assert_eq!(slept.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
    assert_eq!(
        listener.query_one("SELECT 7", &[]).await?.get::<_, i32>(0),
        7
    );
    Ok(())
}

/// A server with a certificate and passwords: the proof of the password is bound to the
/// certificate.
async fn encrypted() -> Result<()> {
    let certificate = std::env::var("TLS_CERTIFICATE")?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(pem(&std::fs::read_to_string(certificate)?).into())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut address: Config = format!(
        "host=localhost port={} user=tester dbname=db",
        std::env::var("TLS_PORT")?
    )
    .parse()?;
    address
        .password("päss word")
        .ssl_mode(tokio_postgres::config::SslMode::Require);
    address.channel_binding(tokio_postgres::config::ChannelBinding::Require);
    let tls = MakeRustlsConnect::new(config);
    let (client, connection) = address.connect(tls.clone()).await?;
    tokio::spawn(connection);
    let row = client
        .query_one(
            "SELECT ssl, current_user::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
            &[],
        )
        .await?;
    assert_eq!(
        (row.get::<_, bool>(0), row.get::<_, &str>(1)),
        (true, "tester")
    );
    let refused = address
        .password("wrong")
        .connect(tls)
        .await
        .err()
        .expect("refused");
    assert_eq!(refused.code(), Some(&SqlState::INVALID_PASSWORD));
    Ok(())
}

/// The certificate of a PEM file.
fn pem(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .lines()
        .skip_while(|line| !line.contains("BEGIN CERTIFICATE"))
        .skip(1)
        .take_while(|line| !line.starts_with('-'))
        .flat_map(str::chars)
        .filter_map(|one| {
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".find(one)
        })
        .map(|at| at as u32)
        .collect();
    let whole = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, one| bits << 6 | one) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    whole.collect()
}

/// The same protocol through the blocking crate.
fn blocking() -> Result<()> {
    let mut client = postgres::Client::connect(&address(), postgres::NoTls)?;
    let mut transaction = client.transaction()?;
    transaction
        .batch_execute("CREATE TABLE blocking (id serial PRIMARY KEY, at timestamp, doc jsonb)")?;
    let at = NaiveDate::from_ymd_opt(2024, 2, 29)
        .and_then(|day| day.and_hms_opt(1, 2, 3))
        .expect("a time");
    let row = transaction.query_one(
        "INSERT INTO blocking (at, doc) VALUES ($1, $2) RETURNING id",
        &[&at, &Json(vec![1, 2])],
    )?;
    assert_eq!(row.get::<_, i32>(0), 1);
    transaction.commit()?;
    let row = client.query_one("SELECT at, doc FROM blocking", &[])?;
    assert_eq!(
        (row.get::<_, NaiveDateTime>(0), row.get::<_, Value>(1)),
        (at, json!([1, 2]))
    );
    let mut writer = client.copy_in("COPY blocking (id) FROM STDIN")?;
    std::io::Write::write_all(&mut writer, b"7\n8\n")?;
    assert_eq!(writer.finish()?, 2);
    let mut text = String::new();
    std::io::Read::read_to_string(
        &mut client.copy_out("COPY (SELECT id FROM blocking ORDER BY id) TO STDOUT")?,
        &mut text,
    )?;
    assert_eq!(text, "1\n7\n8\n");
    client.batch_execute("LISTEN b; NOTIFY b, 'x'")?;
    use postgres::fallible_iterator::FallibleIterator;
    let found = client
        .notifications()
        .timeout_iter(Duration::from_secs(20))
        .next()?
        .expect("a notification");
    assert_eq!((found.channel(), found.payload()), ("b", "x"));
    assert!(client.is_valid(Duration::from_secs(20)).is_ok());
    client.close()?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn asynchronous() -> Result<()> {
    let mut client = connect().await?;
    values(&client).await?;
    own_types(&client).await?;
    statements(&mut client).await?;
    transactions(&mut client).await?;
    copies(&client).await?;
    messages(&client).await?;
    encrypted().await
}

fn main() -> Result<()> {
    asynchronous()?;
    blocking()
}
