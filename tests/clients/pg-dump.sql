-- Objects of all kinds that both servers have, and rows with what is hard in their texts.
CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'it''s a shop';
CREATE TYPE shop.state AS ENUM ('new', 'paid', 'it''s sent');
CREATE TYPE shop.place AS (street text, number integer);
CREATE DOMAIN shop.email AS text DEFAULT 'nobody@' NOT NULL CONSTRAINT has_at CHECK (VALUE ~ '@');
CREATE SEQUENCE shop.ticket START 100 INCREMENT 5 CACHE 3;
CREATE SEQUENCE shop.down AS integer INCREMENT -1 MAXVALUE 10 MINVALUE -10 CYCLE;
CREATE FUNCTION shop.twice(x integer) RETURNS integer LANGUAGE sql IMMUTABLE STRICT AS $$ SELECT x * 2 $$;
COMMENT ON FUNCTION shop.twice(integer) IS 'two of them';
CREATE FUNCTION shop.numbers(integer) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT generate_series(1, $1)::bigint';
CREATE TABLE shop.customer (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name varchar(80) NOT NULL,
  mail shop.email UNIQUE,
  born date,
  score numeric(8,2) DEFAULT 0.00,
  tags text[] DEFAULT '{}',
  data jsonb,
  made timestamp with time zone DEFAULT '2026-01-02 03:04:05+00',
  CONSTRAINT score_ok CHECK (score >= 0)
);
COMMENT ON TABLE shop.customer IS 'people who buy';
COMMENT ON COLUMN shop.customer.name IS E'full\nname';
CREATE TABLE shop."Order" (
  id serial PRIMARY KEY,
  customer bigint NOT NULL REFERENCES shop.customer ON UPDATE CASCADE ON DELETE SET NULL,
  state shop.state DEFAULT 'new' NOT NULL,
  "Total" numeric(10,2),
  tax numeric GENERATED ALWAYS AS ("Total" * 0.19) STORED,
  blob bytea, u uuid, t time, iv interval, f double precision, r real, b boolean, s smallint, c character(3),
  note text DEFAULT 'a ''quoted'' word',
  CONSTRAINT later FOREIGN KEY (customer) REFERENCES shop.customer DEFERRABLE INITIALLY DEFERRED
);
CREATE INDEX order_state ON shop."Order" (state) WHERE state <> 'paid';
CREATE INDEX order_note ON shop."Order" (lower(note), "Total" DESC NULLS LAST);
CREATE UNIQUE INDEX order_two ON shop."Order" (customer DESC, id) INCLUDE (s);
COMMENT ON INDEX shop.order_two IS 'both';
CREATE VIEW shop.zeroth AS SELECT o.id, c.name, o."Total" AS "Sum" FROM shop."Order" o JOIN shop.customer c ON c.id = o.customer WHERE o.state = 'new';
CREATE VIEW shop.above AS SELECT z.id, z.name, shop.twice(z.id) AS double FROM shop.zeroth z WHERE z."Sum" > 10;
COMMENT ON VIEW shop.above IS 'a view of a view';
CREATE TABLE shop.part (id integer NOT NULL, at date NOT NULL, v text) PARTITION BY RANGE (at);
CREATE TABLE shop.part_2025 PARTITION OF shop.part FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE TABLE shop.part_rest PARTITION OF shop.part DEFAULT;
ALTER TABLE shop.part ADD CONSTRAINT part_key PRIMARY KEY (id, at);
CREATE TABLE shop.base (a integer, b text);
CREATE TABLE shop.heir (c integer) INHERITS (shop.base);
CREATE TABLE plain (a integer);
INSERT INTO shop.customer (name, mail, born, score, tags, data)
  SELECT 'n' || g, 'a' || g || '@b', date '2000-01-01' + g, g / 7.0, ARRAY['x', 'y"' || g, NULL], jsonb_build_object('a', g)
  FROM generate_series(1, 50) g;
INSERT INTO shop."Order" (customer, state, "Total", blob, u, t, iv, f, r, b, s, c, note)
  SELECT 1 + g % 50, CASE g % 3 WHEN 0 THEN 'it''s sent' ELSE 'new' END::shop.state, g * 1.5, decode('00ff5c', 'hex'),
    '00000000-0000-0000-0000-000000000001', '12:30:00.5', '1 mon 2 days 03:04:05.6', g / 3.0, g / 3.0, g % 2 = 0, g, 'x',
    E'tab\there\nnl \\ back \\N'
  FROM generate_series(1, 200) g;
INSERT INTO shop."Order" (customer, f) VALUES (1, 'NaN'), (2, '-Infinity');
INSERT INTO shop.part SELECT g, date '2025-06-01' + g * 10, NULL FROM generate_series(1, 40) g;
INSERT INTO shop.base VALUES (1, 'one');
INSERT INTO shop.heir VALUES (2, 'two', 3);
SELECT nextval('shop.ticket'), nextval('shop.down');
GRANT SELECT ON shop.customer TO PUBLIC;
GRANT USAGE ON SCHEMA shop TO PUBLIC;
CREATE TABLE shop.note (id integer, word text, UNIQUE (word) INCLUDE (id));
CREATE VIEW shop.noted AS SELECT customer.*::shop.customer AS whole, note.word FROM shop.customer NATURAL JOIN shop.note WHERE note.* IS NOT NULL;
ALTER TABLE shop.note RENAME COLUMN id TO number;
ALTER TABLE shop.note ADD CONSTRAINT twice CHECK (shop.twice(number) > 0);
CREATE INDEX note_twice ON shop.note (shop.twice(number), lower(word)) INCLUDE (word);
ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT SELECT ON TABLES TO PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE ALL ON FUNCTIONS FROM PUBLIC;
CREATE MATERIALIZED VIEW shop.counted AS SELECT name, count(*) AS n FROM shop.customer GROUP BY name;
CREATE UNIQUE INDEX counted_name ON shop.counted (name);
CREATE VIEW shop.over_counted AS SELECT c.n FROM shop.counted c;
CREATE MATERIALIZED VIEW shop.later AS SELECT o.n FROM shop.over_counted o WITH NO DATA;
GRANT SELECT ON shop.counted TO PUBLIC;
