INSERT INTO kinds (i) VALUES (-1)
INSERT INTO kinds (n) VALUES (1.5000)
INSERT INTO kinds (f) VALUES ('NaN')
INSERT INTO kinds (t) VALUES (repeat('long ', 400))
INSERT INTO kinds (v) VALUES ('zwei')
INSERT INTO kinds (c) VALUES ('a     ')
INSERT INTO kinds (y) VALUES ('\x')
INSERT INTO kinds (d) VALUES ('0044-03-15 BC')
INSERT INTO kinds (tm) VALUES ('10:30:00')
INSERT INTO kinds (ts) VALUES ('infinity')
INSERT INTO kinds (tz) VALUES ('2024-02-29 08:30Z')
INSERT INTO kinds (iv) VALUES ('32 days')
INSERT INTO kinds (u) VALUES ('11111111222233334444555555555555')
INSERT INTO kinds (m) VALUES ('happy')
INSERT INTO kinds (p) VALUES (101)
INSERT INTO kinds (a) VALUES ('{1,2}')
INSERT INTO kinds (jb) VALUES ('{"k":[1,2]}')
INSERT INTO kinds (a, jb, n) VALUES ('{2,1}', '{"k":[2,1]}', 3) RETURNING id
SELECT id FROM kinds WHERE i = -1
SELECT id FROM kinds WHERE n > 1 ORDER BY n
SELECT id FROM kinds WHERE f = 'NaN'
SELECT id FROM kinds WHERE t = repeat('long ', 400)
SELECT id FROM kinds WHERE c = 'b'
SELECT id FROM kinds WHERE d < '0001-01-01'
SELECT id FROM kinds WHERE tz BETWEEN '2024-01-01' AND '2024-12-31'
SELECT id FROM kinds WHERE iv > '1 day'
SELECT id FROM kinds WHERE m >= 'ok'
SELECT id FROM kinds WHERE a = '{1,2}'
SELECT id FROM kinds WHERE jb = '{"k": [1, 2]}'
SELECT id FROM kinds ORDER BY t
UPDATE kinds SET n = n + 1, t = t || '!' WHERE m = 'happy' RETURNING n, length(t)
INSERT INTO parent VALUES (1, 'again')
INSERT INTO parent VALUES (5, 'ONE')
INSERT INTO child (parent, n) VALUES (9, 20)
INSERT INTO child (parent, n) VALUES (1, 7)
INSERT INTO child (parent, n) VALUES (1, 0)
INSERT INTO child (parent, other, kept, n) VALUES (4, 1, NULL, 30)
INSERT INTO child (parent, other, n) VALUES (3, 8, 11)
INSERT INTO child (parent, other, n) VALUES (3, 3, 11)
INSERT INTO child (parent, other, n) VALUES (3, 4, 11) RETURNING id, twice
SELECT n FROM child WHERE n > 5 ORDER BY n DESC NULLS LAST
SELECT id FROM parent WHERE upper(code) = 'TWO'
EXPLAIN (COSTS OFF) SELECT id FROM parent WHERE upper(code) = 'TWO'
SELECT id, n FROM child WHERE n < 9 AND parent = 1
EXPLAIN (COSTS OFF) SELECT id, n FROM child WHERE n < 9 AND parent = 1
DELETE FROM parent WHERE id = 3
DELETE FROM parent WHERE id = 1
UPDATE parent SET id = 22 WHERE id = 2
SELECT * FROM child ORDER BY id
DELETE FROM keyless WHERE a = 1
INSERT INTO composite (a, b) VALUES (repeat('key ', 60), 2)
INSERT INTO composite (a, b) VALUES ('new', 2) RETURNING *
SELECT b, length(a) FROM composite WHERE b = 2 ORDER BY a
INSERT INTO measured VALUES ('2021-05-05', 'north', 9)
INSERT INTO measured VALUES ('2022-05-05', 'pole', 9), ('1999-01-01', 'pole', 8) RETURNING tableoid::regclass
UPDATE measured SET at = '2018-01-01' WHERE place = 'south' RETURNING tableoid::regclass
SELECT tableoid::regclass, * FROM measured ORDER BY at
SELECT tableoid::regclass, * FROM base ORDER BY id
INSERT INTO shown VALUES (50, 'fifty')
INSERT INTO shown VALUES (6, 'six')
SELECT * FROM joined ORDER BY id
SELECT * FROM counted
REFRESH MATERIALIZED VIEW counted
SELECT * FROM counted
INSERT INTO other.t DEFAULT VALUES RETURNING *
SELECT nextval('ticket'), nextval(pg_get_serial_sequence('child', 'id'))
SELECT has_table_privilege('reader', 'parent', 'SELECT'), has_table_privilege('writer', 'parent', 'UPDATE'), has_table_privilege('writer', 'child', 'SELECT')
SELECT obj_description('parent'::regclass), col_description('parent'::regclass, 2)
SELECT rolname, rolcanlogin FROM pg_roles WHERE rolname IN ('reader', 'writer') ORDER BY 1
SELECT setconfig FROM pg_db_role_setting ORDER BY 1
ALTER TABLE child ADD CHECK (n < 1000)
ALTER TABLE kinds ADD COLUMN late text DEFAULT 'late'
CREATE INDEX late ON kinds (late)
DROP TABLE parent
DROP TABLE parent CASCADE
SELECT conname FROM pg_constraint WHERE conrelid = 'child'::regclass ORDER BY 1
