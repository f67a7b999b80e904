//! Goal: `import --from sqlite` takes over the tables of a file with types, keys and rows, and says
//! what it cannot take.
//!
//! Method: the program `sqlite3` makes files, and SQL asks for what came in. Where it is not
//! installed these tests print a line and end.

use crate::common::{TestDirectory, fail, run, succeed};
use std::process::Command;

/// Makes a file of SQLite; none without the program.
fn file_of(place: &TestDirectory, name: &str, script: &str) -> Option<String> {
    let file = place.at(name);
    let output = Command::new("sqlite3").args([&file, script]).output();
    let Ok(output) = output else {
        eprintln!("skipped: the program sqlite3 is not installed");
        return None;
    };
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    Some(file)
}

/// An empty database.
fn database(place: &TestDirectory) -> String {
    let database = place.at("db");
    succeed(&["create", &database]);
    database
}

fn ask(database: &str, query: &str) -> String {
    succeed(&["sql", database, "-c", query, "--format", "csv"])
}

const SHOP: &str = "
    CREATE TABLE customer (customerid INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,
        balance DECIMAL(10,2) DEFAULT 0, since DATE, ok BOOLEAN NOT NULL DEFAULT 1, photo BLOB,
        note VARCHAR(20) DEFAULT 'it''s', made DATETIME DEFAULT CURRENT_TIMESTAMP, weight REAL, any);
    CREATE INDEX customer_since ON customer (since DESC, ok);
    CREATE UNIQUE INDEX customer_some ON customer (weight) WHERE weight > 0;
    INSERT INTO customer VALUES (7, 'a|b' || char(10) || '\\N' || char(9), 12.50, '2024-02-29', 1, x'00ff', NULL,
        '2024-01-01 10:00:00', 0.1, 1), (9, 'ä', 1e20, NULL, 0, NULL, '', '2024-01-02', 1e300, 'x');
    CREATE TABLE pair (a TEXT, b INT, c INTEGER, PRIMARY KEY (b, a)) WITHOUT ROWID;
    INSERT INTO pair VALUES ('x', 1, 9223372036854775807), ('y', 1, NULL);
    CREATE TABLE \"Order\" (id INTEGER PRIMARY KEY, customer INT REFERENCES customer ON DELETE CASCADE,
        missing INT REFERENCES customer (customerid));
    INSERT INTO \"Order\" VALUES (1, 7, 8);
    CREATE TABLE rows (n); INSERT INTO rows VALUES (1), (1);
    CREATE VIEW v AS SELECT 1;";

#[test]
fn tables_come_with_types_keys_and_rows() {
    let place = TestDirectory::new();
    let Some(file) = file_of(&place, "shop.sqlite", SHOP) else {
        return;
    };
    let database = database(&place);
    let output = run(&[
        "import", &database, "--from", "sqlite", &file, "--format", "csv",
    ]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{notes}");
    let listed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        listed,
        "table,rows,skipped\ncustomer,2,0\npair,2,0\nOrder,1,0\nrows,2,0\n"
    );
    for left in [
        "left out: view v",
        "left out: index customer_some",
        "left out: the default CURRENT_TIMESTAMP of customer.made",
        "left out: the foreign key of Order to customer",
    ] {
        assert!(notes.contains(left), "{left}: {notes}");
    }
    let types = "SELECT string_agg(format_type(atttypid, atttypmod), ',' ORDER BY attnum) FROM pg_attribute \
                 WHERE attrelid = 'customer'::regclass AND attnum > 0";
    assert!(ask(&database, types).contains(
        "bigint,text,numeric,date,boolean,bytea,text,timestamp without time zone,double precision,text"
    ));
    assert_eq!(
        ask(
            &database,
            "SELECT *, length(name) AS length FROM customer ORDER BY 1"
        ),
        "customerid,name,balance,since,ok,photo,note,made,weight,any,length\n\
         7,\"a|b\n\\N\t\",12.5,2024-02-29,t,\\x00ff,,2024-01-01 10:00:00,0.1,1,7\n\
         9,ä,100000000000000000000,,f,,\"\",2024-01-02 00:00:00,1e+300,x,1\n"
    );
    assert_eq!(
        ask(&database, "SELECT * FROM pair ORDER BY a"),
        "a,b,c\nx,1,9223372036854775807\ny,1,\n"
    );
    let indexes = "SELECT substring(indexdef FROM 'INDEX.*') AS i FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname";
    assert_eq!(
        ask(&database, indexes),
        "i\n\"INDEX \"\"Order_pkey\"\" ON public.\"\"Order\"\" USING btree (id)\"\n\
         INDEX customer_name_key ON public.customer USING btree (name)\n\
         INDEX customer_pkey ON public.customer USING btree (customerid)\n\
         \"INDEX customer_since ON public.customer USING btree (since DESC, ok)\"\n\
         \"INDEX pair_pkey ON public.pair USING btree (b, a)\"\n"
    );
    keys_and_defaults_are_kept(&database);
    succeed(&["verify", &database]);
}

#[test]
fn all_that_is_left_out_of_a_table_is_told_with_it() {
    let place = TestDirectory::new();
    let shop = format!(
        "{SHOP} CREATE INDEX customer_name ON customer (name COLLATE NOCASE);
         CREATE INDEX customer_lower ON customer (lower(name));
         ALTER TABLE customer ADD COLUMN twice AS (weight * 2);"
    );
    let Some(file) = file_of(&place, "shop.sqlite", &shop) else {
        return;
    };
    let database = database(&place);
    let import = ["import", &database, "--from", "sqlite", &file, "--table"];
    let notes = |table: &str| {
        let output = run(&[&import[..], &[table]].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(notes("pair"), "");
    let mut notes: Vec<String> = notes("customer").lines().map(str::to_owned).collect();
    notes.sort();
    assert_eq!(
        notes,
        [
            "left out: index customer_lower, which is of expressions or of some rows",
            "left out: index customer_some, which is of expressions or of some rows",
            "left out: the collation NOCASE of name in index customer_name",
            "left out: the default CURRENT_TIMESTAMP of customer.made",
            "left out: the expression of the generated column customer.twice",
        ]
    );
}

/// The numbers of deleted rows were given again, which AUTOINCREMENT never does.
#[test]
fn numbers_of_deleted_rows_are_not_given_again() {
    let place = TestDirectory::new();
    let script = "CREATE TABLE kept (id INTEGER PRIMARY KEY AUTOINCREMENT, t TEXT);
        INSERT INTO kept (t) VALUES ('a'), ('b'), ('c');
        CREATE TABLE emptied (id INTEGER NOT NULL, t TEXT, PRIMARY KEY (id AUTOINCREMENT));
        INSERT INTO emptied (t) VALUES ('a'), ('b');
        CREATE TABLE plain (id INTEGER PRIMARY KEY, t TEXT);
        INSERT INTO plain (t) VALUES ('a'), ('b');
        CREATE TABLE unused (id INTEGER PRIMARY KEY AUTOINCREMENT, t TEXT);
        DELETE FROM kept WHERE id > 1; DELETE FROM emptied; DELETE FROM plain WHERE id > 1;";
    let Some(file) = file_of(&place, "numbers.sqlite", script) else {
        return;
    };
    let database = database(&place);
    succeed(&["import", &database, "--from", "sqlite", &file]);
    for (table, next) in [("kept", 4), ("emptied", 3), ("plain", 2), ("unused", 1)] {
        let insert = format!("INSERT INTO {table} (t) VALUES ('new') RETURNING id");
        assert_eq!(ask(&database, &insert), format!("id\n{next}\n"), "{table}");
    }
}

/// New rows count on, and keys, defaults and references are kept.
fn keys_and_defaults_are_kept(database: &str) {
    assert_eq!(
        ask(
            database,
            "INSERT INTO customer (name) VALUES ('c') RETURNING customerid, balance, ok, note"
        ),
        "customerid,balance,ok,note\n10,0,t,it's\n"
    );
    for (statement, state) in [
        (
            "INSERT INTO customer (name) VALUES ('c')",
            "customer_name_key",
        ),
        (
            "INSERT INTO customer (name, ok) VALUES ('d', NULL)",
            "not-null",
        ),
        (
            "INSERT INTO \"Order\" (customer) VALUES (70)",
            "Order_customer_fkey",
        ),
    ] {
        let error = fail(1, &["sql", database, "-c", statement]);
        assert!(error.contains(state), "{error}");
    }
}

#[test]
fn checks_and_collations_that_are_left_out_are_named() {
    let place = TestDirectory::new();
    let script = "CREATE TABLE t (id INTEGER PRIMARY KEY, -- CHECK (of a comment)
        \"my name\" TEXT COLLATE NOCASE CHECK (length(\"my name\") > 0 AND
            \"my name\" <> ')'), plain TEXT COLLATE binary DEFAULT 'COLLATE RTRIM',
        price NUMERIC(10, 2), size INT, CONSTRAINT c CHECK (price > (size + 1)), UNIQUE (plain COLLATE RTRIM));
        CREATE TABLE other (a TEXT /* COLLATE NOCASE */, b TEXT CHECK (b <> ''));
        INSERT INTO t VALUES (1, 'a', 'b', 3, 1);";
    let Some(file) = file_of(&place, "checks.sqlite", script) else {
        return;
    };
    let database = database(&place);
    let output = run(&[
        "import", &database, "--from", "sqlite", &file, "--table", "t",
    ]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{notes}");
    let left: Vec<&str> = notes
        .lines()
        .filter_map(|line| line.split_once("left out: "))
        .map(|(_, left)| left)
        .collect();
    assert_eq!(
        left,
        [
            "the collation NOCASE of t.my name",
            "the check (length(\"my name\") > 0 AND \"my name\" <> ')') of t",
            "the check (price > (size + 1)) of t",
            "the collation RTRIM of a key of t",
        ],
        "{notes}"
    );
}

/// Tables whose name begins with that of a virtual one were taken for parts of it, and left out
/// without a word.
#[test]
fn tables_beside_virtual_ones_come() {
    let place = TestDirectory::new();
    let script = "CREATE VIRTUAL TABLE note USING rtree (id, low, high);
        CREATE TABLE note_author (name TEXT); INSERT INTO note_author VALUES ('x');";
    let Some(file) = file_of(&place, "virtual.sqlite", script) else {
        return;
    };
    let database = database(&place);
    let output = run(&[
        "import", &database, "--from", "sqlite", &file, "--format", "csv",
    ]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("left out: virtual table note"), "{notes}");
    let listed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(listed, "table,rows,skipped\nnote_author,1,0\n");
}

#[test]
fn one_bad_value_refuses_all_unless_they_are_skipped() {
    let place = TestDirectory::new();
    let script = "CREATE TABLE good (id INTEGER PRIMARY KEY); INSERT INTO good VALUES (1);
        CREATE TABLE t (id INTEGER PRIMARY KEY, n INT, d DATE, k TEXT);
        INSERT INTO t VALUES (1, 5, '2024-01-01', 'a'), (2, 'word', NULL, 'b'), (3, 1, '2024-13-01', 'c'), (4, NULL, 17, 'd');
        CREATE TABLE u (k TEXT PRIMARY KEY); INSERT INTO u VALUES ('a'), (NULL);";
    let Some(file) = file_of(&place, "bad.sqlite", script) else {
        return;
    };
    let database = database(&place);
    let import = ["import", &database, "--from", "sqlite", &file];
    let errors = fail(1, &import);
    for part in [
        "table t, row 2: column n is the text `word`, which is no bigint",
        "table t, row 3: column d is the text `2024-13-01`, which is no date",
        "table t, row 4: column d is the integer 17, which is no date",
        "table u, row 2: column k is NULL",
        "nothing was imported, because 4 of 7 rows",
    ] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
    assert_eq!(
        ask(
            &database,
            "SELECT count(*) AS n FROM pg_class WHERE relname = 'good'"
        ),
        "n\n0\n"
    );
    let given = [
        &import[..],
        &[
            "--types",
            "t.d:text,T.N:numeric(12,2)",
            "--table",
            "T",
            "--format",
            "csv",
        ],
    ]
    .concat();
    let errors = fail(1, &given);
    assert!(
        errors.contains("invalid input syntax for type numeric: \"word\""),
        "{errors}"
    );
    let skipping = [&import[..], &["--skip-bad-rows", "--format", "csv"]].concat();
    assert_eq!(
        succeed(&skipping),
        "table,rows,skipped\ngood,1,0\nt,1,3\nu,1,1\n"
    );
    let again = fail(1, &import);
    assert!(
        again.contains("cannot make table good: relation \"good\" already exists"),
        "{again}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_the_reason() {
    let place = TestDirectory::new();
    let database = database(&place);
    let text = place.file("text", "a line that is long enough");
    let import = |file: &str, more: &[&str]| {
        fail(
            1,
            &[&["import", &database, "--from", "sqlite", file], more].concat(),
        )
    };
    assert!(import(&text, &[]).contains("is no database of SQLite"));
    assert!(import(&place.at("missing"), &[]).contains("cannot open"));
    let missing = Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args([
            "import",
            &database,
            "--from",
            "sqlite",
            &place.file("empty", ""),
        ])
        .env("PATH", "")
        .output()
        .unwrap();
    let errors = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        errors.contains("the program sqlite3 is not installed"),
        "{errors}"
    );
    let Some(file) = file_of(&place, "one.sqlite", "CREATE TABLE one (a)") else {
        return;
    };
    let usage = |arguments: &[&str]| fail(2, &[&["import", &database], arguments].concat());
    for (arguments, part) in [
        (
            vec!["--from", "sqlite", &file, "--table", "two"],
            "has no table `two`; it has one",
        ),
        (vec!["--from", "oracle", &file], "the only format is sqlite"),
        (
            vec!["--from", "sqlite", &file, "--types", "a:text"],
            "write table.column:type",
        ),
        (
            vec!["--from", "sqlite", &file, "--types", "one.b:text"],
            "no column of an imported table",
        ),
        (
            vec!["--from", "sqlite", &file, "--null", "NA"],
            "do not go with --from sqlite",
        ),
        (vec!["t", "--from", "sqlite", &file], "cannot be used with"),
    ] {
        let errors = usage(&arguments);
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.truncate(60);
    std::fs::write(place.at("cut"), bytes).unwrap();
    let errors = import(&place.at("cut"), &[]);
    assert!(
        errors.contains("sqlite3 cannot read") && errors.contains("cut: "),
        "{errors}"
    );
}

/// The texts of a file in UTF-16 were read as if they were in UTF-8, so no such file could be
/// imported.
#[test]
fn files_in_utf_16_are_read() {
    let place = TestDirectory::new();
    let database = database(&place);
    for (name, encoding) in [
        ("little", "UTF-16le"),
        ("big", "UTF-16be"),
        ("eight", "UTF-8"),
    ] {
        let script = format!(
            "PRAGMA encoding = '{encoding}'; CREATE TABLE {name} (id INTEGER PRIMARY KEY, text TEXT DEFAULT 'ß', any);
             INSERT INTO {name} VALUES (1, 'aä€𝄞', 'x'), (2, '', 'y'), (3, NULL, NULL);"
        );
        let Some(file) = file_of(&place, name, &script) else {
            return;
        };
        succeed(&["import", &database, "--from", "sqlite", &file]);
        let rows = ask(&database, &format!("SELECT * FROM {name} ORDER BY id"));
        assert_eq!(rows, "id,text,any\n1,aä€𝄞,x\n2,\"\",y\n3,,\n");
    }
}
