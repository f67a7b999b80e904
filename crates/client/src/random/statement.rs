//! Random statements, from templates.
//!
//! `{A}` and `{B}` are tables with aliases `{A.}` and `{B.}`; `{T}` is a table without one. Other
//! words in braces are made anew each time: `{b}`, `{i}`, `{t}` and so on are expressions of a
//! family, `{x}` is one that can be grouped, `{list}` several of any type. `{set}` are assignments
//! to the table of `{T}`, `{values}` a row for it, `{found}` a condition for its indexes.

use super::expression::Maker;
use super::schema::{Family, TYPES, Table, literal};

/// A statement with the constructs that it shows.
pub(super) struct Template {
    pub(super) constructs: &'static [&'static str],
    text: &'static str,
    /// How often it is chosen, beside others.
    weight: usize,
}

const fn template(
    constructs: &'static [&'static str],
    weight: usize,
    text: &'static str,
) -> Template {
    Template {
        constructs,
        text,
        weight,
    }
}

/// All statements. Those that are several run one after the other.
#[rustfmt::skip]
pub(super) const TEMPLATES: &[Template] = &[
    template(&["SELECT", "WHERE", "ORDER BY"], 30, "SELECT {A.}.id, {list} FROM {A} WHERE {b} ORDER BY 1"),
    template(&["SELECT", "LIMIT"], 6, "SELECT {A.}.id, {list} FROM {A} WHERE {b} ORDER BY {A.}.id DESC LIMIT 5"),
    template(&["OFFSET"], 3, "SELECT {A.}.id, {x} FROM {A} ORDER BY 1 OFFSET 3 LIMIT 4"),
    template(&["FETCH FIRST"], 3, "SELECT {A.}.id FROM {A} WHERE {b} ORDER BY 1 FETCH FIRST 3 ROWS ONLY"),
    template(&["NULLS FIRST"], 4, "SELECT {x}, {A.}.id FROM {A} ORDER BY 1 DESC NULLS LAST, 2"),
    template(&["inner join"], 10, "SELECT {A.}.id, {B.}.id, {list} FROM {A} JOIN {B} ON {A.}.id = {B.}.id AND {b} WHERE {b} ORDER BY 1, 2"),
    template(&["inner join"], 4, "SELECT {A.}.id, {B.}.id, {x} FROM {A} JOIN {B} ON {b} ORDER BY 1, 2"),
    template(&["left join"], 8, "SELECT {A.}.id, {B.}.id, {list} FROM {A} LEFT JOIN {B} ON {A.}.id = {B.}.id AND {b} WHERE {b} ORDER BY 1, 2"),
    template(&["right join"], 5, "SELECT {A.}.id, {B.}.id, {list} FROM {A} RIGHT JOIN {B} ON {A.}.id = {B.}.id AND {b} ORDER BY 1, 2"),
    template(&["full join"], 5, "SELECT {A.}.id, {B.}.id FROM {A} FULL JOIN {B} ON {A.}.id = {B.}.id WHERE {b} ORDER BY 1, 2"),
    template(&["cross join"], 4, "SELECT {A.}.id, {B.}.id, {list} FROM {A} CROSS JOIN {B} WHERE {b} ORDER BY 1, 2"),
    template(&["natural join"], 2, "SELECT count(*) FROM (SELECT id FROM {T}) AS x NATURAL JOIN (SELECT id FROM {T}) AS y"),
    template(&["USING"], 3, "SELECT id, {x} FROM {A} JOIN {B} USING (id) ORDER BY 1"),
    template(&["LATERAL"], 4, "SELECT {A.}.id, l.n FROM {A}, LATERAL (SELECT count(*) AS n FROM {B} WHERE {B.}.id <= {A.}.id) AS l ORDER BY 1"),
    template(&["derived table"], 5, "SELECT d.id, d.x FROM (SELECT {A.}.id, {x} AS x FROM {A} WHERE {b}) AS d WHERE d.id > 2 ORDER BY 1"),
    template(&["VALUES"], 3, "SELECT v.k, {A.}.id FROM (VALUES (1, 'a'), (2, 'b')) AS v(k, n) JOIN {A} ON {A.}.id = v.k ORDER BY 1"),
    template(&["GROUP BY number"], 8, "SELECT {x}, count(*), sum({i}), min({t}), max({d}) FROM {A} WHERE {b} GROUP BY 1 ORDER BY 1, 2"),
    template(&["GROUP BY expression", "HAVING"], 5, "SELECT {A.}.id % 3, count(*), bool_or({b}) FROM {A} GROUP BY {A.}.id % 3 HAVING count(*) > 1 ORDER BY 1"),
    template(&["aggregate"], 6, "SELECT count(*), count({t}), sum({n}), avg({i}), min({s}), max({v}), bool_and({b}) FROM {A} WHERE {b}"),
    template(&["aggregate with ORDER BY", "FILTER"], 5, "SELECT string_agg({t}, ',' ORDER BY {A.}.id), array_agg({i}::integer ORDER BY {A.}.id DESC), count(*) FILTER (WHERE {b}) FROM {A}"),
    template(&["aggregate"], 2, "SELECT count(DISTINCT {x}), stddev({n}), variance({i}), bit_or({A.}.id), every({b}) FROM {A}"),
    template(&["aggregate"], 2, "SELECT jsonb_agg({i} ORDER BY {A.}.id), jsonb_object_agg({A.}.id, {t}) FROM {A}"),
    template(&["DISTINCT"], 5, "SELECT DISTINCT {x} FROM {A} WHERE {b} ORDER BY 1"),
    template(&["DISTINCT ON"], 3, "SELECT DISTINCT ON ({A.}.id % 4) {A.}.id % 4, {A.}.id, {x} FROM {A} ORDER BY {A.}.id % 4, {A.}.id DESC"),
    template(&["UNION"], 4, "SELECT {i} FROM {A} UNION SELECT id FROM {T} ORDER BY 1"),
    template(&["UNION ALL"], 3, "SELECT id, 1 AS n FROM {T} UNION ALL SELECT {A.}.id, 2 FROM {A} WHERE {b} ORDER BY 1, 2"),
    template(&["INTERSECT"], 3, "SELECT id FROM {T} INTERSECT SELECT {A.}.id FROM {A} WHERE {b} ORDER BY 1"),
    template(&["INTERSECT ALL"], 2, "SELECT id % 2 FROM {T} INTERSECT ALL SELECT {A.}.id % 2 FROM {A} ORDER BY 1"),
    template(&["EXCEPT"], 3, "SELECT id FROM {T} EXCEPT SELECT {A.}.id FROM {A} WHERE {b} ORDER BY 1"),
    template(&["EXCEPT ALL"], 2, "SELECT id % 3 FROM {T} EXCEPT ALL SELECT {A.}.id % 2 FROM {A} ORDER BY 1"),
    template(&["WITH"], 5, "WITH w AS (SELECT {A.}.id, {x} AS x FROM {A} WHERE {b}) SELECT a.id, b.x FROM w AS a JOIN w AS b ON a.id = b.id ORDER BY 1"),
    template(&["WITH MATERIALIZED"], 2, "WITH w AS MATERIALIZED (SELECT {A.}.id FROM {A}), v AS NOT MATERIALIZED (SELECT id FROM w WHERE id > 3) SELECT * FROM v ORDER BY 1"),
    template(&["WITH RECURSIVE"], 3, "WITH RECURSIVE r(n, t) AS (SELECT 1, 'a' UNION ALL SELECT n + 1, t || n FROM r WHERE n < 8) SELECT n, t, (SELECT count(*) FROM {T} WHERE id <= n) FROM r ORDER BY 1"),
    template(&["WITH RECURSIVE"], 2, "WITH RECURSIVE r AS (SELECT min(id) AS id FROM {T} UNION SELECT x.id FROM {T} AS x JOIN r ON x.id = r.id + 2) SELECT * FROM r ORDER BY 1"),
    template(&["window function"], 5, "SELECT {A.}.id, row_number() OVER w, rank() OVER (ORDER BY {A.}.id % 3), lag({i}) OVER w, first_value({t}) OVER w FROM {A} WINDOW w AS (PARTITION BY {A.}.id % 2 ORDER BY {A.}.id) ORDER BY 1"),
    template(&["window function"], 3, "SELECT {A.}.id, ntile(3) OVER w, dense_rank() OVER (ORDER BY {A.}.id / 4), percent_rank() OVER w, cume_dist() OVER w, nth_value({A.}.id, 2) OVER w, lead({A.}.id, 2, 0) OVER w FROM {A} WINDOW w AS (ORDER BY {A.}.id) ORDER BY 1"),
    template(&["ROWS frame"], 4, "SELECT {A.}.id, sum({i}) OVER (ORDER BY {A.}.id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING), count(*) OVER (ORDER BY {A.}.id ROWS UNBOUNDED PRECEDING) FROM {A} ORDER BY 1"),
    template(&["RANGE frame"], 3, "SELECT {A.}.id, sum({A.}.id) OVER (ORDER BY {A.}.id RANGE BETWEEN 3 PRECEDING AND CURRENT ROW), avg({n}) OVER (PARTITION BY {A.}.id % 2) FROM {A} ORDER BY 1"),
    template(&["function in FROM", "WITH ORDINALITY"], 3, "SELECT g.n, g.o, {A.}.id FROM generate_series(1, 5) WITH ORDINALITY AS g(n, o) LEFT JOIN {A} ON {A.}.id = g.n ORDER BY 1, 2"),
    template(&["function in FROM"], 2, "SELECT {A.}.id, u FROM {A}, unnest({a}) AS u ORDER BY 1, 2"),
    template(&["function in FROM"], 2, "SELECT k, v FROM jsonb_each_text('{\"a\": 1, \"b\": null}') AS e(k, v) ORDER BY 1"),
    template(&["function in the list"], 2, "SELECT {A.}.id, generate_series(1, 2) FROM {A} ORDER BY 1, 2"),
    template(&["FOR UPDATE"], 2, "SELECT {A.}.id FROM {A} WHERE {A.}.id < 5 ORDER BY 1 FOR UPDATE"),
    template(&["FOR SHARE"], 2, "SELECT {A.}.id FROM {A} WHERE {b} ORDER BY 1 FOR NO KEY UPDATE OF {A.} SKIP LOCKED; SELECT {A.}.id FROM {A} ORDER BY 1 FOR KEY SHARE NOWAIT; SELECT {A.}.id FROM {A} ORDER BY 1 FOR SHARE"),
    template(&["computed index"], 8, "SELECT id FROM {T} WHERE {found} ORDER BY id; SELECT count(*) FROM {T} WHERE {found} AND id < {l}; SELECT id FROM {T} WHERE {found} ORDER BY id DESC LIMIT 2"),
    template(&["computed index"], 2, "UPDATE {T} SET {set} WHERE {found} RETURNING id; BEGIN; DELETE FROM {T} WHERE {found} RETURNING id; ROLLBACK"),
    template(&["whole row"], 3, "SELECT * FROM {A} WHERE {b} ORDER BY {A.}.id"),
    template(&["hints"], 1, "SELECT /*+ SeqScan(x) */ count(*) FROM {A} WHERE {b}"),
    template(&["INSERT VALUES"], 6, "INSERT INTO {T} {values} ON CONFLICT DO NOTHING"),
    template(&["INSERT VALUES", "RETURNING"], 4, "INSERT INTO {T} {values} ON CONFLICT (id) DO NOTHING RETURNING *"),
    template(&["ON CONFLICT DO UPDATE"], 4, "INSERT INTO {T} AS c {values} ON CONFLICT (id) DO UPDATE SET id = excluded.id WHERE c.id > 1 RETURNING c.id"),
    template(&["INSERT SELECT"], 3, "INSERT INTO {T} (id) SELECT {A.}.id + 100 FROM {A} WHERE {b} ON CONFLICT DO NOTHING"),
    template(&["INSERT DEFAULT VALUES"], 1, "CREATE TEMP TABLE d (a integer GENERATED ALWAYS AS IDENTITY, b text DEFAULT 'x', c timestamp DEFAULT '2020-01-01'); INSERT INTO d DEFAULT VALUES; INSERT INTO d (a) OVERRIDING SYSTEM VALUE VALUES (7); SELECT * FROM d ORDER BY 1; DROP TABLE d"),
    template(&["OVERRIDING"], 1, "CREATE TEMP TABLE o (a integer GENERATED BY DEFAULT AS IDENTITY (START 5), b integer GENERATED ALWAYS AS (a * 2) STORED); INSERT INTO o OVERRIDING USER VALUE VALUES (1); INSERT INTO o VALUES (2); SELECT * FROM o ORDER BY 1; DROP TABLE o"),
    template(&["UPDATE"], 5, "UPDATE {T} SET {set} WHERE id % 3 = 1 RETURNING id"),
    template(&["UPDATE FROM"], 3, "UPDATE {T} AS u SET {set} FROM {A} WHERE u.id = {A.}.id AND {b} RETURNING u.id"),
    template(&["DELETE"], 2, "DELETE FROM {T} WHERE id = {l} RETURNING id"),
    template(&["DELETE USING"], 2, "DELETE FROM {T} AS d USING {A} WHERE d.id = {A.}.id AND d.id > 15 AND {b}"),
    template(&["COPY TO"], 2, "COPY (SELECT {A.}.id, {list} FROM {A} ORDER BY 1) TO STDOUT; COPY (SELECT {A.}.id, {list} FROM {A} ORDER BY 1) TO STDOUT (FORMAT csv, HEADER, NULL 'none', FORCE_QUOTE *)"),
    template(&["BEGIN, ROLLBACK", "SAVEPOINT"], 3, "BEGIN ISOLATION LEVEL REPEATABLE READ; UPDATE {T} SET {set}; SAVEPOINT s; DELETE FROM {T} WHERE id < 4; ROLLBACK TO s; RELEASE s; SELECT count(*) FROM {A} WHERE {b}; ROLLBACK"),
    template(&["BEGIN, COMMIT"], 2, "START TRANSACTION; UPDATE {T} SET {set} WHERE id = {l}; COMMIT AND CHAIN; SELECT 1; END"),
    template(&["failed transaction"], 1, "BEGIN; SELECT 1 / 0; SELECT 1; COMMIT"),
    template(&["LOCK TABLE"], 1, "BEGIN; LOCK TABLE {T} IN SHARE MODE; ABORT"),
    template(&["PREPARE", "EXECUTE", "DEALLOCATE"], 2, "PREPARE p (integer, text) AS SELECT {A.}.id, $2 || {A.}.id FROM {A} WHERE {A.}.id > $1 ORDER BY 1; EXECUTE p (3, 'x'); EXECUTE p (NULL, 'y'); DEALLOCATE p"),
    template(&["DECLARE", "FETCH", "MOVE", "CLOSE"], 2, "BEGIN; DECLARE c SCROLL CURSOR FOR SELECT {A.}.id, {x} FROM {A} ORDER BY 1; FETCH 2 FROM c; MOVE c; FETCH BACKWARD 1 FROM c; FETCH ALL FROM c; CLOSE c; COMMIT"),
    template(&["CREATE VIEW"], 2, "CREATE VIEW v AS SELECT {A.}.id, {A.}.id + {i}::integer AS x FROM {A} WHERE {b}; SELECT * FROM v ORDER BY 1; CREATE OR REPLACE VIEW v AS SELECT {A.}.id, NULL::integer AS x FROM {A}; DROP VIEW v"),
    template(&["CREATE TABLE AS"], 1, "CREATE TABLE k AS SELECT {A.}.id, {x} AS x FROM {A}; SELECT count(*) FROM k; ALTER TABLE k ADD PRIMARY KEY (id); DROP TABLE k"),
    template(&["CREATE TABLE LIKE"], 1, "CREATE TABLE k (LIKE {T} INCLUDING ALL); INSERT INTO k (id) VALUES (1); SELECT count(*) FROM k; DROP TABLE k"),
    template(&["ALTER TABLE"], 2, "CREATE TABLE k (a integer, b text); INSERT INTO k VALUES (1, 'x'), (2, NULL); ALTER TABLE k ADD COLUMN c integer DEFAULT 7; ALTER TABLE k ALTER a TYPE bigint, ALTER b SET DEFAULT 'y'; ALTER TABLE k RENAME b TO d; ALTER TABLE k ALTER d SET NOT NULL; UPDATE k SET d = 'z' WHERE d IS NULL; ALTER TABLE k ALTER d SET NOT NULL; ALTER TABLE k DROP COLUMN c; ALTER TABLE k ADD CONSTRAINT q CHECK (a > 0) NOT VALID; ALTER TABLE k VALIDATE CONSTRAINT q; ALTER TABLE k RENAME CONSTRAINT q TO q2; ALTER TABLE k DROP CONSTRAINT q2; INSERT INTO k VALUES (3); SELECT * FROM k ORDER BY 1; ALTER TABLE k RENAME TO k2; DROP TABLE k2"),
    template(&["CHECK", "UNIQUE", "REFERENCES"], 2, "CREATE TABLE p (a integer PRIMARY KEY, b integer UNIQUE, CHECK (a <> b)); CREATE TABLE c (x integer REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, y integer REFERENCES p (b) ON DELETE SET NULL); INSERT INTO p VALUES (1, 2), (3, 4); INSERT INTO c VALUES (1, 2), (3, 4); INSERT INTO c VALUES (9, 9); INSERT INTO p VALUES (5, 5); INSERT INTO p VALUES (6, 2); DELETE FROM p WHERE a = 1; UPDATE p SET a = 30, b = 40; SELECT * FROM c ORDER BY 1; DROP TABLE p; DROP TABLE p CASCADE; DROP TABLE c"),
    template(&["CREATE SCHEMA", "COMMENT"], 1, "CREATE SCHEMA s1; CREATE TABLE s1.a (i serial, t text NOT NULL); COMMENT ON TABLE s1.a IS 'rows'; SELECT obj_description('s1.a'::regclass, 'pg_class'); ALTER TABLE s1.a SET SCHEMA public; SELECT count(*) FROM a; DROP TABLE a; DROP SCHEMA s1 CASCADE"),
    template(&["sequence"], 2, "SELECT nextval('numbers'), currval('numbers'), lastval(); SELECT setval('numbers', 100, false); ALTER SEQUENCE numbers INCREMENT BY 3; SELECT nextval('numbers')"),
    template(&["CREATE INDEX expression"], 1, "CREATE INDEX e1 ON {T} ((id % 5)); SELECT count(*) FROM {A} WHERE {A.}.id % 5 = 2; REINDEX INDEX e1; DROP INDEX e1"),
    template(&["enum and domain"], 2, "ALTER TYPE mood ADD VALUE IF NOT EXISTS 'great' AFTER 'ok'; SELECT enum_range(NULL::mood), 'great'::mood > 'ok'; SELECT 2000::small; SELECT 'angry'::mood"),
    template(&["PARTITION BY", "ONLY"], 2, "CREATE TABLE pt (id integer, k integer, t text) PARTITION BY RANGE (k); CREATE TABLE pt1 PARTITION OF pt FOR VALUES FROM (MINVALUE) TO (3); CREATE TABLE pt2 PARTITION OF pt FOR VALUES FROM (3) TO (7) PARTITION BY LIST (id); CREATE TABLE pt2a PARTITION OF pt2 FOR VALUES IN (1, 2, 3); CREATE TABLE pt2b PARTITION OF pt2 DEFAULT; CREATE TABLE pt3 PARTITION OF pt DEFAULT; INSERT INTO pt SELECT {A.}.id, {i}, {t} FROM {A} WHERE {b}; SELECT tableoid::regclass::text, id, k, t FROM pt ORDER BY 1, 2, 3, 4; UPDATE pt SET k = k + 2 WHERE id % 2 = 0; SELECT tableoid::regclass::text, count(*), sum(k) FROM pt GROUP BY 1 ORDER BY 1; DELETE FROM pt WHERE k > 5; SELECT count(*) FROM pt; SELECT count(*) FROM ONLY pt; DROP TABLE pt"),
    template(&["INHERITS"], 2, "CREATE TABLE up (id integer, n integer DEFAULT 4); CREATE TABLE down (t text) INHERITS (up); INSERT INTO up SELECT {A.}.id FROM {A}; INSERT INTO down SELECT {A.}.id, {i}, {t} FROM {A} WHERE {b}; UPDATE up SET n = n + 1 WHERE id % 3 = 1; SELECT tableoid::regclass::text, id, n FROM up ORDER BY 1, 2, 3; DELETE FROM up WHERE n = 5; SELECT count(*) FROM ONLY up; SELECT count(*) FROM down; DROP TABLE up CASCADE"),
    template(&["change of a view"], 2, "CREATE VIEW vw AS SELECT id AS key, id % 3 AS rest FROM {T} WHERE id > 2; BEGIN; DELETE FROM vw WHERE rest = 1 RETURNING key; UPDATE vw SET key = key + 100 WHERE rest = 2; SELECT key, rest FROM vw ORDER BY 1; ROLLBACK; DROP VIEW vw"),
    template(&["CREATE FUNCTION"], 2, "CREATE FUNCTION fn(a integer, b text) RETURNS text LANGUAGE sql AS 'SELECT b || a || (SELECT count(*) FROM {T} WHERE id < a)'; SELECT {A.}.id, fn({A.}.id, {t}) FROM {A} WHERE {b} ORDER BY 1; DROP FUNCTION fn"),
    template(&["CREATE TYPE of fields"], 2, "CREATE TYPE ct AS (a integer, b text); CREATE TABLE ctt (id integer PRIMARY KEY, c ct); INSERT INTO ctt SELECT {A.}.id, ROW({A.}.id % 4, {t})::ct FROM {A}; SELECT id, (c).a, (c).b, c FROM ctt WHERE (c).a > 1 ORDER BY c, id; SELECT c, count(*) FROM ctt GROUP BY c ORDER BY c; DROP TABLE ctt; DROP TYPE ct"),
    template(&["TRUNCATE"], 1, "BEGIN; TRUNCATE {T} RESTART IDENTITY CASCADE; SELECT count(*) FROM {A}; ROLLBACK"),
    template(&["temporary table"], 1, "CREATE TEMP TABLE m (a integer) ON COMMIT PRESERVE ROWS; INSERT INTO m SELECT {A.}.id FROM {A}; SELECT sum(a) FROM m; DROP TABLE m"),
    template(&["SET, SHOW, RESET"], 1, "SET timezone = 'Asia/Tokyo'; SHOW timezone; SELECT {z}, {s}::timestamptz; RESET timezone; SET datestyle = 'German'; SELECT {d}, {s}; RESET datestyle; SET LOCAL work_mem = '8MB'; DISCARD PLANS"),
    template(&["VACUUM, ANALYZE"], 1, "ANALYZE {T}; VACUUM {T}; CHECKPOINT"),
    template(&["EXPLAIN"], 1, "EXPLAIN (FORMAT JSON) EXECUTE none; EXPLAIN SELECT nothing FROM {T}"),
    template(&["GRANT"], 1, "GRANT SELECT ON {T} TO PUBLIC; REVOKE SELECT ON {T} FROM PUBLIC"),
    template(&["error"], 2, "SELECT {list} FROM {A} WHERE {A.}.missing = 1; SELECT {t}, sum({i}) FROM {A}; SELECT nothing(1); SELECT 1 + 'x'; INSERT INTO {T} (id) VALUES ('y'); SELECT * FROM missing; SELECT id FROM {T}, {A}"),
];

/// A random statement, or a few that belong together.
pub(super) fn statements(maker: &mut Maker<'_>) -> Vec<String> {
    let total: usize = TEMPLATES.iter().map(|template| template.weight).sum();
    let mut at = maker.dice.below(total);
    let chosen = TEMPLATES.iter().find(|template| {
        let is_chosen = at < template.weight;
        at = at.saturating_sub(template.weight);
        is_chosen
    });
    let Some(chosen) = chosen else {
        return Vec::new();
    };
    for construct in chosen.constructs {
        maker.tally.count(construct);
    }
    chosen
        .text
        .split("; ")
        .map(|text| filled(maker, text))
        .collect()
}

/// A statement with its braces filled.
fn filled(maker: &mut Maker<'_>, template: &str) -> String {
    maker.forget();
    let mut text = template.to_owned();
    for letter in ["A", "B"] {
        if text.contains(&format!("{{{letter}}}")) {
            let (source, alias) = maker.source();
            text = text
                .replace(&format!("{{{letter}}}"), &source)
                .replace(&format!("{{{letter}.}}"), &alias);
        }
    }
    let target = maker.dice.pick(maker.tables).clone();
    let mut filled = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let word = after
            .split_once('}')
            .map(|(word, _)| word)
            .filter(|word| is_word(word));
        if let Some(word) = word {
            filled.push_str(&part(maker, word, &target));
            rest = &after[word.len() + 1..];
        } else {
            filled.push('{');
            rest = after;
        }
    }
    filled + rest
}

fn is_word(word: &str) -> bool {
    matches!(word, "T" | "set" | "values" | "list" | "found" | "x")
        || word.len() == 1 && word.as_bytes()[0].is_ascii_lowercase()
}

fn part(maker: &mut Maker<'_>, word: &str, target: &Table) -> String {
    const DEPTH: u32 = 3;
    match word {
        "T" => target.name.clone(),
        "x" => {
            // No order and no equality: json; no order: arrays of it.
            let groupable: Vec<char> = TYPES
                .iter()
                .map(|found| found.family)
                .filter(|family| *family != 'o')
                .collect();
            let family = Family(*maker.dice.pick(&groupable));
            maker.expression(family, DEPTH)
        }
        "list" => {
            let list = (0..maker.dice.between(1, 4)).map(|_| {
                let family = Family(maker.dice.pick(TYPES).family);
                maker.expression(family, DEPTH)
            });
            list.collect::<Vec<_>>().join(", ")
        }
        "found" if target.indexed.is_empty() => "id > 3".to_owned(),
        "found" => maker.dice.pick(&target.indexed).clone(),
        "set" => {
            let column = maker.dice.pick(&target.columns).clone();
            format!("{} = {}", column.name, literal(maker.dice, column.family))
        }
        "values" => {
            let names = target
                .columns
                .iter()
                .map(|column| column.name.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            let values = target.columns.iter().map(|column| {
                if maker.dice.chance(15) {
                    "DEFAULT".to_owned()
                } else {
                    literal(maker.dice, column.family)
                }
            });
            let values = values.collect::<Vec<_>>().join(", ");
            format!(
                "(id, {names}) VALUES ({}, {values})",
                maker.dice.between(1, 60)
            )
        }
        "l" => maker.dice.between(1, 30).to_string(),
        letter => {
            let family = letter.chars().next().unwrap_or('i');
            maker.expression(Family(family), DEPTH)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dice::Dice;
    use super::super::round::begin;
    use super::super::tally::Tally;
    use super::*;

    #[test]
    fn every_construct_and_type_occurs() {
        let (mut tally, mut texts) = (Tally::default(), Vec::new());
        for seed in 0..60 {
            let mut dice = Dice::new(seed);
            let (tables, _) = begin(&mut dice, &mut tally);
            for _ in 0..100 {
                texts.extend(statements(&mut Maker::new(&mut dice, &mut tally, &tables)));
            }
        }
        let missing: Vec<_> = tally.counts().filter(|(_, count)| *count == 0).collect();
        assert_eq!(missing, []);
        let unfilled = texts.iter().find(|text| {
            ["{A", "{B", "{S", "{T", "{list", "{set"]
                .iter()
                .any(|hole| text.contains(hole))
        });
        assert_eq!(unfilled, None);
    }
}
