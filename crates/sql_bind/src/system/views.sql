-- Relations that are queries over the others. A column that a query does not have is NULL.

CREATE VIEW pg_catalog.pg_roles AS
SELECT rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication,
  rolconnlimit, '********' AS rolpassword, rolvaliduntil, rolbypassrls, setconfig AS rolconfig, oid
FROM pg_authid LEFT JOIN pg_db_role_setting ON oid = setrole AND setdatabase = 0;

CREATE VIEW pg_catalog.pg_shadow AS
SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
  rolreplication AS userepl, rolbypassrls AS usebypassrls, rolpassword AS passwd,
  rolvaliduntil AS valuntil, setconfig AS useconfig
FROM pg_authid LEFT JOIN pg_db_role_setting ON oid = setrole AND setdatabase = 0
WHERE rolcanlogin;

CREATE VIEW pg_catalog.pg_user AS
SELECT usename, usesysid, usecreatedb, usesuper, userepl, usebypassrls, '********' AS passwd,
  valuntil, useconfig
FROM pg_shadow;

CREATE VIEW pg_catalog.pg_group AS
SELECT rolname AS groname, oid AS grosysid,
  ARRAY(SELECT member FROM pg_auth_members WHERE roleid = pg_authid.oid) AS grolist
FROM pg_authid WHERE NOT rolcanlogin;

CREATE VIEW pg_catalog.pg_tables AS
SELECT n.nspname AS schemaname, c.relname AS tablename, pg_get_userbyid(c.relowner) AS tableowner,
  c.relhasindex AS hasindexes, c.relhasrules AS hasrules, c.relhastriggers AS hastriggers,
  c.relrowsecurity AS rowsecurity
FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p');

CREATE VIEW pg_catalog.pg_views AS
SELECT n.nspname AS schemaname, c.relname AS viewname, pg_get_userbyid(c.relowner) AS viewowner,
  pg_get_viewdef(c.oid) AS definition
FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v';

CREATE VIEW pg_catalog.pg_matviews AS
SELECT n.nspname AS schemaname, c.relname AS matviewname, pg_get_userbyid(c.relowner) AS matviewowner,
  c.relhasindex AS hasindexes, c.relispopulated AS ispopulated, pg_get_viewdef(c.oid) AS definition
FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'm';

CREATE VIEW pg_catalog.pg_indexes AS
SELECT n.nspname AS schemaname, c.relname AS tablename, i.relname AS indexname,
  pg_get_indexdef(i.oid) AS indexdef
FROM pg_index x
  JOIN pg_class c ON c.oid = x.indrelid
  JOIN pg_class i ON i.oid = x.indexrelid
  LEFT JOIN pg_namespace n ON n.oid = c.relnamespace;

CREATE VIEW pg_catalog.pg_sequences AS
SELECT n.nspname AS schemaname, c.relname AS sequencename,
  pg_get_userbyid(c.relowner) AS sequenceowner, s.seqtypid AS data_type,
  s.seqstart AS start_value, s.seqmin AS min_value, s.seqmax AS max_value,
  s.seqincrement AS increment_by, s.seqcycle AS cycle, s.seqcache AS cache_size,
  pg_sequence_last_value(c.oid) AS last_value
FROM pg_sequence s
  JOIN pg_class c ON c.oid = s.seqrelid
  LEFT JOIN pg_namespace n ON n.oid = c.relnamespace;

CREATE VIEW pg_catalog.pg_stat_all_tables AS
SELECT c.oid AS relid, n.nspname AS schemaname, c.relname, c.reltuples::bigint AS n_live_tup
FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm', 'p');

CREATE VIEW pg_catalog.pg_stat_user_tables AS
SELECT relid, schemaname, relname, n_live_tup FROM pg_stat_all_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema', 'indelible');

CREATE VIEW pg_catalog.pg_stat_all_indexes AS
SELECT x.indrelid AS relid, x.indexrelid, n.nspname AS schemaname, c.relname,
  i.relname AS indexrelname
FROM pg_index x
  JOIN pg_class c ON c.oid = x.indrelid
  JOIN pg_class i ON i.oid = x.indexrelid
  LEFT JOIN pg_namespace n ON n.oid = c.relnamespace;

CREATE VIEW pg_catalog.pg_stat_user_indexes AS
SELECT relid, indexrelid, schemaname, relname, indexrelname FROM pg_stat_all_indexes;

CREATE VIEW pg_catalog.pg_statio_all_tables AS
SELECT relid, schemaname, relname, 0 AS heap_blks_read, 0 AS heap_blks_hit,
  CASE WHEN relid IN (SELECT indrelid FROM pg_index) THEN 0 END AS idx_blks_read,
  CASE WHEN relid IN (SELECT indrelid FROM pg_index) THEN 0 END AS idx_blks_hit
FROM pg_stat_all_tables
WHERE (SELECT relkind FROM pg_class WHERE oid = relid) <> 'p';

CREATE VIEW pg_catalog.pg_statio_user_tables AS
SELECT relid, schemaname, relname, heap_blks_read, heap_blks_hit, idx_blks_read, idx_blks_hit
FROM pg_statio_all_tables
WHERE schemaname NOT IN ('pg_catalog', 'information_schema', 'indelible');

CREATE VIEW pg_catalog.pg_statio_sys_tables AS
SELECT relid, schemaname, relname, heap_blks_read, heap_blks_hit, idx_blks_read, idx_blks_hit
FROM pg_statio_all_tables
WHERE schemaname IN ('pg_catalog', 'information_schema', 'indelible');

CREATE VIEW pg_catalog.pg_statio_all_indexes AS
SELECT relid, indexrelid, schemaname, relname, indexrelname, 0 AS idx_blks_read,
  0 AS idx_blks_hit
FROM pg_stat_all_indexes;

CREATE VIEW pg_catalog.pg_statio_user_indexes AS
SELECT relid, indexrelid, schemaname, relname, indexrelname, idx_blks_read, idx_blks_hit
FROM pg_statio_all_indexes;

CREATE VIEW pg_catalog.pg_statio_all_sequences AS
SELECT c.oid AS relid, n.nspname AS schemaname, c.relname, 0 AS blks_read, 0 AS blks_hit
FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'S';

CREATE VIEW pg_catalog.pg_statio_user_sequences AS
SELECT relid, schemaname, relname, blks_read, blks_hit FROM pg_statio_all_sequences;

CREATE VIEW information_schema.information_schema_catalog_name AS
SELECT current_database() AS catalog_name;

CREATE VIEW information_schema.schemata AS
SELECT current_database() AS catalog_name, nspname AS schema_name,
  pg_get_userbyid(nspowner) AS schema_owner
FROM pg_namespace
WHERE (pg_has_role(nspowner, 'USAGE') OR has_schema_privilege(oid, 'CREATE, USAGE'))
  AND nspname <> 'indelible';

CREATE VIEW information_schema.tables AS
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  CASE WHEN c.relpersistence = 't' THEN 'LOCAL TEMPORARY'
    WHEN c.relkind = 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
  CASE WHEN c.relkind IN ('r', 'p')
    OR c.relkind = 'v' AND pg_relation_is_updatable(c.oid, FALSE) & 8 = 8
    THEN 'YES' ELSE 'NO' END AS is_insertable_into,
  'NO' AS is_typed
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v')
  AND has_table_privilege(c.oid,
    'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER');

CREATE VIEW information_schema.views AS
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  CASE WHEN pg_has_role(c.relowner, 'USAGE') THEN pg_get_viewdef(c.oid) END AS view_definition,
  CASE WHEN 'check_option=cascaded' = ANY (c.reloptions) THEN 'CASCADED'
    WHEN 'check_option=local' = ANY (c.reloptions) THEN 'LOCAL' ELSE 'NONE' END AS check_option,
  CASE WHEN pg_relation_is_updatable(c.oid, FALSE) & 20 = 20 THEN 'YES' ELSE 'NO' END
    AS is_updatable,
  CASE WHEN pg_relation_is_updatable(c.oid, FALSE) & 8 = 8 THEN 'YES' ELSE 'NO' END
    AS is_insertable_into,
  'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable, 'NO' AS is_trigger_insertable_into
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v'
  AND has_table_privilege(c.oid,
    'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER');

CREATE VIEW information_schema.view_table_usage AS
SELECT DISTINCT current_database() AS view_catalog, n.nspname AS view_schema,
  v.relname AS view_name, current_database() AS table_catalog, tn.nspname AS table_schema,
  t.relname AS table_name
FROM pg_depend d
  JOIN pg_class v ON v.oid = d.objid AND v.relkind = 'v'
  JOIN pg_namespace n ON n.oid = v.relnamespace
  JOIN pg_class t ON t.oid = d.refobjid AND t.relkind IN ('r', 'p', 'v')
  JOIN pg_namespace tn ON tn.oid = t.relnamespace
WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
  AND d.refobjid <> d.objid;

CREATE VIEW information_schema.columns AS
SELECT current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  a.attname AS column_name, a.attnum AS ordinal_position,
  CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END AS column_default,
  CASE WHEN a.attnotnull OR t.typnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
  CASE WHEN b.typlen = -1 AND b.typelem <> 0 THEN 'ARRAY'
    WHEN bn.nspname = 'pg_catalog' THEN format_type(b.oid, NULL)
    ELSE 'USER-DEFINED' END AS data_type,
  _pg_char_max_length(b.oid, m.modifier) AS character_maximum_length,
  _pg_char_octet_length(b.oid, m.modifier) AS character_octet_length,
  _pg_numeric_precision(b.oid, m.modifier) AS numeric_precision,
  _pg_numeric_precision_radix(b.oid, m.modifier) AS numeric_precision_radix,
  _pg_numeric_scale(b.oid, m.modifier) AS numeric_scale,
  _pg_datetime_precision(b.oid, m.modifier) AS datetime_precision,
  _pg_interval_type(b.oid, m.modifier) AS interval_type,
  CASE WHEN a.attcollation = 950 THEN current_database() END AS collation_catalog,
  CASE WHEN a.attcollation = 950 THEN 'pg_catalog' END AS collation_schema,
  CASE WHEN a.attcollation = 950 THEN 'C' END AS collation_name,
  CASE WHEN t.typtype = 'd' THEN current_database() END AS domain_catalog,
  CASE WHEN t.typtype = 'd' THEN tn.nspname END AS domain_schema,
  CASE WHEN t.typtype = 'd' THEN t.typname END AS domain_name,
  current_database() AS udt_catalog, bn.nspname AS udt_schema, b.typname AS udt_name,
  a.attnum AS dtd_identifier, 'NO' AS is_self_referencing,
  CASE WHEN a.attidentity IN ('a', 'd') THEN 'YES' ELSE 'NO' END AS is_identity,
  CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT' END AS identity_generation,
  s.seqstart AS identity_start, s.seqincrement AS identity_increment,
  s.seqmax AS identity_maximum, s.seqmin AS identity_minimum,
  CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS identity_cycle,
  CASE WHEN a.attgenerated <> '' THEN 'ALWAYS' ELSE 'NEVER' END AS is_generated,
  CASE WHEN a.attgenerated <> '' THEN pg_get_expr(d.adbin, d.adrelid) END
    AS generation_expression,
  CASE WHEN c.relkind IN ('r', 'p')
    OR c.relkind = 'v' AND pg_column_is_updatable(c.oid, a.attnum, FALSE)
    THEN 'YES' ELSE 'NO' END AS is_updatable
FROM pg_attribute a
  JOIN pg_class c ON c.oid = a.attrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_type t ON t.oid = a.atttypid
  JOIN pg_namespace tn ON tn.oid = t.typnamespace
  JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
  JOIN pg_namespace bn ON bn.oid = b.typnamespace
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  LEFT JOIN (pg_depend p JOIN pg_sequence s ON s.seqrelid = p.objid AND p.deptype = 'i'
      AND p.classid = 'pg_class'::regclass)
    ON p.refobjid = a.attrelid AND p.refobjsubid = a.attnum,
  LATERAL (SELECT CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END) m(modifier)
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v')
  AND has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES');

CREATE VIEW information_schema.attributes AS
SELECT current_database() AS udt_catalog, n.nspname AS udt_schema, c.relname AS udt_name,
  a.attname AS attribute_name, a.attnum AS ordinal_position,
  CASE WHEN a.attnotnull OR t.typtype = 'd' AND t.typnotnull THEN 'NO' ELSE 'YES' END
    AS is_nullable,
  CASE WHEN t.typlen = -1 AND t.typelem <> 0 THEN 'ARRAY'
    WHEN tn.nspname = 'pg_catalog' THEN format_type(t.oid, NULL)
    ELSE 'USER-DEFINED' END AS data_type,
  _pg_char_max_length(m.type, m.modifier) AS character_maximum_length,
  _pg_char_octet_length(m.type, m.modifier) AS character_octet_length,
  CASE WHEN a.attcollation = 950 THEN current_database() END AS collation_catalog,
  CASE WHEN a.attcollation = 950 THEN 'pg_catalog' END AS collation_schema,
  CASE WHEN a.attcollation = 950 THEN 'C' END AS collation_name,
  _pg_numeric_precision(m.type, m.modifier) AS numeric_precision,
  _pg_numeric_precision_radix(m.type, m.modifier) AS numeric_precision_radix,
  _pg_numeric_scale(m.type, m.modifier) AS numeric_scale,
  _pg_datetime_precision(m.type, m.modifier) AS datetime_precision,
  _pg_interval_type(m.type, m.modifier) AS interval_type,
  current_database() AS attribute_udt_catalog, tn.nspname AS attribute_udt_schema,
  t.typname AS attribute_udt_name, a.attnum AS dtd_identifier,
  'NO' AS is_derived_reference_attribute
FROM pg_attribute a
  JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'c'
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_type t ON t.oid = a.atttypid
  JOIN pg_namespace tn ON tn.oid = t.typnamespace,
  LATERAL (SELECT _pg_truetypid(a.*, t.*), _pg_truetypmod(a.*, t.*)) m(type, modifier)
WHERE a.attnum > 0 AND NOT a.attisdropped
  AND (pg_has_role(c.relowner, 'USAGE') OR has_type_privilege(c.reltype, 'USAGE'));

CREATE VIEW information_schema.user_defined_types AS
SELECT current_database() AS user_defined_type_catalog, n.nspname AS user_defined_type_schema,
  c.relname AS user_defined_type_name, 'STRUCTURED' AS user_defined_type_category,
  'YES' AS is_instantiable
FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_type t ON t.typrelid = c.oid
WHERE c.relkind = 'c'
  AND (pg_has_role(t.typowner, 'USAGE') OR has_type_privilege(t.oid, 'USAGE'));

CREATE VIEW information_schema.element_types AS
SELECT current_database() AS object_catalog, n.nspname AS object_schema, x.name AS object_name,
  x.kind AS object_type, x.place AS collection_type_identifier,
  CASE WHEN en.nspname = 'pg_catalog' THEN format_type(e.oid, NULL)
    ELSE 'USER-DEFINED' END AS data_type,
  CASE WHEN x.collation = 950 THEN current_database() END AS collation_catalog,
  CASE WHEN x.collation = 950 THEN 'pg_catalog' END AS collation_schema,
  CASE WHEN x.collation = 950 THEN 'C' END AS collation_name,
  current_database() AS udt_catalog, en.nspname AS udt_schema, e.typname AS udt_name,
  'a' || x.place AS dtd_identifier
FROM (
    SELECT c.relnamespace, c.relname, a.attnum, a.atttypid, a.attcollation,
      CASE WHEN c.relkind = 'c' THEN 'USER-DEFINED TYPE' ELSE 'TABLE' END
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'c')
      AND (pg_has_role(c.relowner, 'USAGE')
        OR has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'))
    UNION ALL
    SELECT typnamespace, typname, 1, typbasetype, typcollation, 'DOMAIN'
    FROM pg_type WHERE typtype = 'd'
    UNION ALL
    SELECT pronamespace, nameconcatoid(proname, oid), (x).n, (x).x, 0, 'ROUTINE'
    FROM (SELECT *, _pg_expandarray(COALESCE(proallargtypes, proargtypes::oid[])) AS x
          FROM pg_proc) p
    UNION ALL
    SELECT pronamespace, nameconcatoid(proname, oid), 0, prorettype, 0, 'ROUTINE' FROM pg_proc
  ) x(namespace, name, place, type, collation, kind)
  JOIN pg_namespace n ON n.oid = x.namespace
  JOIN pg_type t ON t.oid = x.type AND t.typlen = -1 AND t.typelem <> 0
  JOIN pg_type e ON e.oid = t.typelem
  JOIN pg_namespace en ON en.oid = e.typnamespace;

CREATE VIEW information_schema.view_column_usage AS
SELECT DISTINCT current_database() AS view_catalog, n.nspname AS view_schema,
  v.relname AS view_name, current_database() AS table_catalog, tn.nspname AS table_schema,
  t.relname AS table_name, a.attname AS column_name
FROM pg_depend d
  JOIN pg_class v ON v.oid = d.objid AND v.relkind = 'v'
  JOIN pg_namespace n ON n.oid = v.relnamespace
  JOIN pg_class t ON t.oid = d.refobjid AND t.relkind IN ('r', 'p', 'v')
  JOIN pg_namespace tn ON tn.oid = t.relnamespace
  JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
  AND d.refobjid <> d.objid AND pg_has_role(t.relowner, 'USAGE');

CREATE VIEW information_schema.view_routine_usage AS
SELECT DISTINCT current_database() AS table_catalog, n.nspname AS table_schema,
  v.relname AS table_name, current_database() AS specific_catalog,
  pn.nspname AS specific_schema, nameconcatoid(p.proname, p.oid) AS specific_name
FROM pg_depend d
  JOIN pg_class v ON v.oid = d.objid AND v.relkind = 'v'
  JOIN pg_namespace n ON n.oid = v.relnamespace
  JOIN pg_proc p ON p.oid = d.refobjid
  JOIN pg_namespace pn ON pn.oid = p.pronamespace
WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_proc'::regclass
  AND pg_has_role(p.proowner, 'USAGE');

CREATE VIEW information_schema.check_constraint_routine_usage AS
SELECT DISTINCT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
  c.conname AS constraint_name, current_database() AS specific_catalog,
  pn.nspname AS specific_schema, nameconcatoid(p.proname, p.oid) AS specific_name
FROM pg_depend d
  JOIN pg_constraint c ON c.oid = d.objid AND c.contype = 'c'
  JOIN pg_namespace n ON n.oid = c.connamespace
  JOIN pg_proc p ON p.oid = d.refobjid
  JOIN pg_namespace pn ON pn.oid = p.pronamespace
WHERE d.classid = 'pg_constraint'::regclass AND d.refclassid = 'pg_proc'::regclass
  AND pg_has_role(p.proowner, 'USAGE');

CREATE VIEW information_schema.column_column_usage AS
SELECT DISTINCT current_database() AS table_catalog, n.nspname AS table_schema,
  c.relname AS table_name, r.attname AS column_name, a.attname AS dependent_column
FROM pg_attrdef d
  JOIN pg_depend p ON p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid
    AND p.refclassid = 'pg_class'::regclass AND p.refobjid = d.adrelid
  JOIN pg_class c ON c.oid = d.adrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.adnum
  JOIN pg_attribute r ON r.attrelid = c.oid AND r.attnum = p.refobjsubid
WHERE a.attgenerated <> '' AND r.attnum <> a.attnum AND pg_has_role(c.relowner, 'USAGE');

CREATE VIEW information_schema.column_udt_usage AS
SELECT udt_catalog, udt_schema, udt_name, table_catalog, table_schema, table_name, column_name
FROM information_schema.columns;

CREATE VIEW information_schema.column_domain_usage AS
SELECT domain_catalog, domain_schema, domain_name, table_catalog, table_schema, table_name,
  column_name
FROM information_schema.columns WHERE domain_name IS NOT NULL;

CREATE VIEW information_schema.domains AS
SELECT current_database() AS domain_catalog, n.nspname AS domain_schema,
  t.typname AS domain_name,
  CASE WHEN b.typlen = -1 AND b.typelem <> 0 THEN 'ARRAY'
    WHEN bn.nspname = 'pg_catalog' THEN format_type(b.oid, NULL)
    ELSE 'USER-DEFINED' END AS data_type,
  _pg_char_max_length(b.oid, t.typtypmod) AS character_maximum_length,
  _pg_char_octet_length(b.oid, t.typtypmod) AS character_octet_length,
  _pg_numeric_precision(b.oid, t.typtypmod) AS numeric_precision,
  _pg_numeric_precision_radix(b.oid, t.typtypmod) AS numeric_precision_radix,
  _pg_numeric_scale(b.oid, t.typtypmod) AS numeric_scale,
  _pg_datetime_precision(b.oid, t.typtypmod) AS datetime_precision,
  _pg_interval_type(b.oid, t.typtypmod) AS interval_type,
  t.typdefault AS domain_default, current_database() AS udt_catalog,
  bn.nspname AS udt_schema, b.typname AS udt_name, 1 AS dtd_identifier
FROM pg_type t
  JOIN pg_namespace n ON n.oid = t.typnamespace
  JOIN pg_type b ON b.oid = t.typbasetype
  JOIN pg_namespace bn ON bn.oid = b.typnamespace
WHERE t.typtype = 'd';

CREATE VIEW information_schema.domain_constraints AS
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
  c.conname AS constraint_name, current_database() AS domain_catalog,
  tn.nspname AS domain_schema, t.typname AS domain_name, 'NO' AS is_deferrable,
  'NO' AS initially_deferred
FROM pg_constraint c
  JOIN pg_namespace n ON n.oid = c.connamespace
  JOIN pg_type t ON t.oid = c.contypid
  JOIN pg_namespace tn ON tn.oid = t.typnamespace;

CREATE VIEW information_schema.domain_udt_usage AS
SELECT udt_catalog, udt_schema, udt_name, domain_catalog, domain_schema, domain_name
FROM information_schema.domains;

CREATE VIEW information_schema.table_constraints AS
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
  o.conname AS constraint_name, current_database() AS table_catalog,
  rn.nspname AS table_schema, r.relname AS table_name,
  CASE o.contype WHEN 'c' THEN 'CHECK' WHEN 'f' THEN 'FOREIGN KEY' WHEN 'p' THEN 'PRIMARY KEY'
    WHEN 'u' THEN 'UNIQUE' END AS constraint_type,
  CASE WHEN o.condeferrable THEN 'YES' ELSE 'NO' END AS is_deferrable,
  CASE WHEN o.condeferred THEN 'YES' ELSE 'NO' END AS initially_deferred, 'YES' AS enforced,
  CASE WHEN o.contype = 'u' THEN CASE WHEN i.indnullsnotdistinct THEN 'NO' ELSE 'YES' END END
    AS nulls_distinct
FROM pg_constraint o
  LEFT JOIN pg_index i ON i.indexrelid = o.conindid
  JOIN pg_namespace n ON n.oid = o.connamespace
  JOIN pg_class r ON r.oid = o.conrelid
  JOIN pg_namespace rn ON rn.oid = r.relnamespace
WHERE has_table_privilege(r.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
UNION ALL
SELECT current_database(), n.nspname,
  n.oid || '_' || r.oid || '_' || a.attnum || '_not_null', current_database(), n.nspname,
  r.relname, 'CHECK', 'NO', 'NO', 'YES', NULL
FROM pg_attribute a
  JOIN pg_class r ON r.oid = a.attrelid
  JOIN pg_namespace n ON n.oid = r.relnamespace
WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'p')
  AND has_table_privilege(r.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER');

CREATE VIEW information_schema.check_constraints AS
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
  o.conname AS constraint_name, substring(pg_get_constraintdef(o.oid) FROM 7) AS check_clause
FROM pg_constraint o JOIN pg_namespace n ON n.oid = o.connamespace
WHERE o.contype = 'c'
UNION ALL
SELECT current_database(), n.nspname,
  n.oid || '_' || r.oid || '_' || a.attnum || '_not_null', a.attname || ' IS NOT NULL'
FROM pg_attribute a
  JOIN pg_class r ON r.oid = a.attrelid
  JOIN pg_namespace n ON n.oid = r.relnamespace
WHERE a.attnotnull AND a.attnum > 0 AND NOT a.attisdropped AND r.relkind IN ('r', 'p');

CREATE VIEW information_schema.key_column_usage AS
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
  k.conname AS constraint_name, current_database() AS table_catalog,
  rn.nspname AS table_schema, r.relname AS table_name, a.attname AS column_name,
  k.place AS ordinal_position,
  CASE WHEN k.contype = 'f'
    THEN array_position(i.indkey::int2[], k.confkey[k.place]) + 1 END
    AS position_in_unique_constraint
FROM (SELECT o.*, generate_subscripts(o.conkey, 1) AS place
      FROM pg_constraint o WHERE o.contype IN ('p', 'u', 'f')) k
  JOIN pg_namespace n ON n.oid = k.connamespace
  JOIN pg_class r ON r.oid = k.conrelid
  JOIN pg_namespace rn ON rn.oid = r.relnamespace
  JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[k.place]
  LEFT JOIN pg_index i ON i.indexrelid = k.conindid
WHERE has_column_privilege(r.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES');

CREATE VIEW information_schema.constraint_column_usage AS
SELECT current_database() AS table_catalog, rn.nspname AS table_schema, r.relname AS table_name,
  a.attname AS column_name, current_database() AS constraint_catalog,
  n.nspname AS constraint_schema, k.conname AS constraint_name
FROM (SELECT o.conname, o.connamespace,
        CASE WHEN o.contype = 'f' THEN o.confrelid ELSE o.conrelid END AS relid,
        unnest(CASE WHEN o.contype = 'f' THEN o.confkey ELSE o.conkey END) AS attnum
      FROM pg_constraint o WHERE o.contype IN ('p', 'u', 'f', 'c')) k
  JOIN pg_namespace n ON n.oid = k.connamespace
  JOIN pg_class r ON r.oid = k.relid
  JOIN pg_namespace rn ON rn.oid = r.relnamespace
  JOIN pg_attribute a ON a.attrelid = k.relid AND a.attnum = k.attnum
WHERE pg_has_role(r.relowner, 'USAGE');

CREATE VIEW information_schema.constraint_table_usage AS
SELECT current_database() AS table_catalog, rn.nspname AS table_schema, r.relname AS table_name,
  current_database() AS constraint_catalog, n.nspname AS constraint_schema,
  o.conname AS constraint_name
FROM pg_constraint o
  JOIN pg_namespace n ON n.oid = o.connamespace
  JOIN pg_class r ON r.oid = CASE WHEN o.contype = 'f' THEN o.confrelid ELSE o.conrelid END
  JOIN pg_namespace rn ON rn.oid = r.relnamespace
WHERE o.contype IN ('p', 'u', 'f') AND pg_has_role(r.relowner, 'USAGE');

CREATE VIEW information_schema.referential_constraints AS
SELECT current_database() AS constraint_catalog, n.nspname AS constraint_schema,
  o.conname AS constraint_name, current_database() AS unique_constraint_catalog,
  un.nspname AS unique_constraint_schema, u.conname AS unique_constraint_name,
  CASE o.confmatchtype WHEN 'f' THEN 'FULL' ELSE 'NONE' END AS match_option,
  CASE o.confupdtype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT'
    WHEN 'r' THEN 'RESTRICT' ELSE 'NO ACTION' END AS update_rule,
  CASE o.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT'
    WHEN 'r' THEN 'RESTRICT' ELSE 'NO ACTION' END AS delete_rule
FROM pg_constraint o
  JOIN pg_namespace n ON n.oid = o.connamespace
  JOIN pg_class r ON r.oid = o.conrelid
  LEFT JOIN (pg_constraint u JOIN pg_namespace un ON un.oid = u.connamespace)
    ON u.conindid = o.conindid AND u.contype IN ('p', 'u')
WHERE o.contype = 'f'
  AND has_table_privilege(r.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER');

CREATE VIEW information_schema.sequences AS
SELECT current_database() AS sequence_catalog, n.nspname AS sequence_schema,
  c.relname AS sequence_name, format_type(s.seqtypid, NULL) AS data_type,
  _pg_numeric_precision(s.seqtypid, -1) AS numeric_precision, 2 AS numeric_precision_radix,
  0 AS numeric_scale, s.seqstart AS start_value, s.seqmin AS minimum_value,
  s.seqmax AS maximum_value, s.seqincrement AS increment,
  CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END AS cycle_option
FROM pg_sequence s
  JOIN pg_class c ON c.oid = s.seqrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = s.seqrelid AND d.deptype = 'i')
  AND has_sequence_privilege(c.oid, 'SELECT, UPDATE, USAGE');

CREATE VIEW information_schema.table_privileges AS
SELECT pg_get_userbyid(x.grantor) AS grantor,
  CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(x.grantee) END AS grantee,
  current_database() AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
  x.privilege_type,
  CASE WHEN x.is_grantable OR x.grantee = c.relowner THEN 'YES' ELSE 'NO' END AS is_grantable,
  CASE WHEN x.privilege_type = 'SELECT' THEN 'YES' ELSE 'NO' END AS with_hierarchy
FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace,
  LATERAL aclexplode(COALESCE(c.relacl, acldefault('r', c.relowner))) x
WHERE c.relkind IN ('r', 'p', 'v')
  AND (x.grantee = 0 OR pg_has_role(x.grantor, 'USAGE') OR pg_has_role(x.grantee, 'USAGE'));

CREATE VIEW information_schema.role_table_grants AS
SELECT grantor, grantee, table_catalog, table_schema, table_name, privilege_type, is_grantable,
  with_hierarchy
FROM information_schema.table_privileges
WHERE grantor IN (SELECT rolname FROM pg_authid WHERE pg_has_role(oid, 'USAGE'))
  OR grantee IN (SELECT rolname FROM pg_authid WHERE pg_has_role(oid, 'USAGE'));

CREATE VIEW information_schema.column_privileges AS
SELECT p.grantor, p.grantee, p.table_catalog, p.table_schema, p.table_name, c.column_name,
  p.privilege_type, p.is_grantable
FROM information_schema.table_privileges p
  JOIN information_schema.columns c
    ON c.table_schema = p.table_schema AND c.table_name = p.table_name
WHERE p.privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES');

CREATE VIEW information_schema.role_column_grants AS
SELECT grantor, grantee, table_catalog, table_schema, table_name, column_name, privilege_type,
  is_grantable
FROM information_schema.column_privileges
WHERE grantor IN (SELECT rolname FROM pg_authid WHERE pg_has_role(oid, 'USAGE'))
  OR grantee IN (SELECT rolname FROM pg_authid WHERE pg_has_role(oid, 'USAGE'));

CREATE VIEW information_schema.enabled_roles AS
SELECT rolname AS role_name FROM pg_authid WHERE pg_has_role(oid, 'USAGE');

CREATE VIEW information_schema.applicable_roles AS
SELECT pg_get_userbyid(m.member) AS grantee, r.rolname AS role_name,
  CASE WHEN m.admin_option THEN 'YES' ELSE 'NO' END AS is_grantable
FROM pg_auth_members m JOIN pg_authid r ON r.oid = m.roleid
WHERE pg_has_role(m.member, 'USAGE');

CREATE VIEW information_schema.routines AS
SELECT current_database() AS specific_catalog, n.nspname AS specific_schema,
  nameconcatoid(p.proname, p.oid) AS specific_name, current_database() AS routine_catalog,
  n.nspname AS routine_schema, p.proname AS routine_name,
  CASE p.prokind WHEN 'f' THEN 'FUNCTION' END AS routine_type,
  current_database() AS type_udt_catalog, tn.nspname AS type_udt_schema,
  t.typname AS type_udt_name,
  CASE WHEN t.typlen = -1 AND t.typelem <> 0 THEN 'ARRAY'
    WHEN tn.nspname = 'pg_catalog' THEN format_type(t.oid, NULL)
    ELSE 'USER-DEFINED' END AS data_type, 0 AS dtd_identifier,
  CASE WHEN p.prolang = 14 THEN 'SQL' ELSE 'EXTERNAL' END AS routine_body,
  CASE WHEN pg_has_role(p.proowner, 'USAGE') THEN p.prosrc END AS routine_definition,
  CASE WHEN p.prolang = 14 THEN 'SQL' ELSE 'INTERNAL' END AS external_language,
  'GENERAL' AS parameter_style,
  CASE WHEN p.provolatile = 'i' THEN 'YES' ELSE 'NO' END AS is_deterministic,
  'MODIFIES' AS sql_data_access, CASE WHEN p.proisstrict THEN 'YES' ELSE 'NO' END AS is_null_call,
  'YES' AS schema_level_routine, 0 AS max_dynamic_result_sets, 'INVOKER' AS security_type,
  'NO' AS as_locator, 'NO' AS is_udt_dependent
FROM pg_proc p
  JOIN pg_namespace n ON n.oid = p.pronamespace
  JOIN pg_type t ON t.oid = p.prorettype
  JOIN pg_namespace tn ON tn.oid = t.typnamespace
WHERE pg_has_role(p.proowner, 'USAGE') OR has_function_privilege(p.oid, 'EXECUTE');

CREATE VIEW information_schema.parameters AS
SELECT current_database() AS specific_catalog, n.nspname AS specific_schema,
  nameconcatoid(p.proname, p.oid) AS specific_name, (p.x).n AS ordinal_position,
  CASE COALESCE(p.proargmodes[(p.x).n], 'i') WHEN 'o' THEN 'OUT' WHEN 't' THEN 'OUT'
    WHEN 'b' THEN 'INOUT' ELSE 'IN' END AS parameter_mode,
  'NO' AS is_result, 'NO' AS as_locator,
  NULLIF(p.proargnames[(p.x).n], '') AS parameter_name,
  CASE WHEN pg_has_role(p.proowner, 'USAGE') THEN pg_get_function_arg_default(p.oid, (p.x).n) END
    AS parameter_default,
  CASE WHEN t.typlen = -1 AND t.typelem <> 0 THEN 'ARRAY'
    WHEN tn.nspname = 'pg_catalog' THEN format_type(t.oid, NULL)
    ELSE 'USER-DEFINED' END AS data_type,
  current_database() AS udt_catalog, tn.nspname AS udt_schema, t.typname AS udt_name,
  (p.x).n AS dtd_identifier
FROM (SELECT *, _pg_expandarray(COALESCE(proallargtypes, proargtypes::oid[])) AS x
      FROM pg_proc
      WHERE pg_has_role(proowner, 'USAGE') OR has_function_privilege(oid, 'EXECUTE')) p
  JOIN pg_namespace n ON n.oid = p.pronamespace
  JOIN pg_type t ON t.oid = (p.x).x
  JOIN pg_namespace tn ON tn.oid = t.typnamespace;

CREATE VIEW information_schema.routine_privileges AS
SELECT pg_get_userbyid(x.grantor) AS grantor,
  CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(x.grantee) END AS grantee,
  current_database() AS specific_catalog, n.nspname AS specific_schema,
  nameconcatoid(p.proname, p.oid) AS specific_name, current_database() AS routine_catalog,
  n.nspname AS routine_schema, p.proname AS routine_name, 'EXECUTE' AS privilege_type,
  CASE WHEN x.is_grantable OR x.grantee <> 0 AND pg_has_role(x.grantee, p.proowner, 'USAGE')
    THEN 'YES' ELSE 'NO' END AS is_grantable
FROM pg_proc p
  JOIN pg_namespace n ON n.oid = p.pronamespace,
  LATERAL aclexplode(COALESCE(p.proacl, acldefault('f', p.proowner))) x
WHERE x.privilege_type = 'EXECUTE'
  AND (x.grantee = 0 OR pg_has_role(x.grantor, 'USAGE') OR pg_has_role(x.grantee, 'USAGE'));

CREATE VIEW information_schema.role_routine_grants AS
SELECT * FROM information_schema.routine_privileges
WHERE grantor IN (SELECT rolname FROM pg_authid WHERE pg_has_role(oid, 'USAGE'))
  OR grantee IN (SELECT rolname FROM pg_authid WHERE pg_has_role(oid, 'USAGE'));

CREATE VIEW information_schema.udt_privileges AS
SELECT pg_get_userbyid(x.grantor) AS grantor,
  CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(x.grantee) END AS grantee,
  current_database() AS udt_catalog, n.nspname AS udt_schema, t.typname AS udt_name,
  'TYPE USAGE' AS privilege_type,
  CASE WHEN x.is_grantable OR x.grantee <> 0 AND pg_has_role(x.grantee, t.typowner, 'USAGE')
    THEN 'YES' ELSE 'NO' END AS is_grantable
FROM pg_type t
  JOIN pg_namespace n ON n.oid = t.typnamespace,
  LATERAL aclexplode(COALESCE(t.typacl, acldefault('T', t.typowner))) x
WHERE t.typtype = 'c' AND x.privilege_type = 'USAGE'
  AND (x.grantee = 0 OR pg_has_role(x.grantor, 'USAGE') OR pg_has_role(x.grantee, 'USAGE'));

CREATE VIEW information_schema.role_udt_grants AS
SELECT * FROM information_schema.udt_privileges
WHERE grantor IN (SELECT rolname FROM pg_authid WHERE pg_has_role(oid, 'USAGE'))
  OR grantee IN (SELECT rolname FROM pg_authid WHERE pg_has_role(oid, 'USAGE'));

CREATE VIEW information_schema.usage_privileges AS
SELECT pg_get_userbyid(c.collowner) AS grantor, 'PUBLIC' AS grantee,
  current_database() AS object_catalog, n.nspname AS object_schema, c.collname AS object_name,
  'COLLATION' AS object_type, 'USAGE' AS privilege_type, 'NO' AS is_grantable
FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace
UNION ALL
SELECT pg_get_userbyid(x.grantor),
  CASE WHEN x.grantee = 0 THEN 'PUBLIC' ELSE pg_get_userbyid(x.grantee) END,
  current_database(), n.nspname, o.name, o.kind, 'USAGE',
  CASE WHEN x.is_grantable OR x.grantee <> 0 AND pg_has_role(x.grantee, o.owner, 'USAGE')
    THEN 'YES' ELSE 'NO' END
FROM (
    SELECT typname, typnamespace, typowner, 'DOMAIN',
      COALESCE(typacl, acldefault('T', typowner))
    FROM pg_type WHERE typtype = 'd'
    UNION ALL
    SELECT relname, relnamespace, relowner, 'SEQUENCE',
      COALESCE(relacl, acldefault('r', relowner))
    FROM pg_class WHERE relkind = 'S'
  ) o(name, namespace, owner, kind, acl)
  JOIN pg_namespace n ON n.oid = o.namespace,
  LATERAL aclexplode(o.acl) x
WHERE x.privilege_type = 'USAGE'
  AND (x.grantee = 0 OR pg_has_role(x.grantor, 'USAGE') OR pg_has_role(x.grantee, 'USAGE'));

CREATE VIEW information_schema.role_usage_grants AS
SELECT * FROM information_schema.usage_privileges
WHERE grantor IN (SELECT rolname FROM pg_authid WHERE pg_has_role(oid, 'USAGE'))
  OR grantee IN (SELECT rolname FROM pg_authid WHERE pg_has_role(oid, 'USAGE'));

CREATE VIEW information_schema.data_type_privileges AS
SELECT current_database() AS object_catalog, udt_schema AS object_schema,
  udt_name AS object_name, 'USER-DEFINED TYPE' AS object_type, dtd_identifier
FROM information_schema.attributes
UNION ALL
SELECT current_database(), table_schema, table_name, 'TABLE', dtd_identifier
FROM information_schema.columns
UNION ALL
SELECT current_database(), domain_schema, domain_name, 'DOMAIN', dtd_identifier
FROM information_schema.domains
UNION ALL
SELECT current_database(), specific_schema, specific_name, 'ROUTINE', dtd_identifier
FROM information_schema.parameters
UNION ALL
SELECT current_database(), specific_schema, specific_name, 'ROUTINE', dtd_identifier
FROM information_schema.routines;

CREATE VIEW information_schema.administrable_role_authorizations AS
SELECT grantee, role_name, is_grantable FROM information_schema.applicable_roles
WHERE is_grantable = 'YES';

CREATE VIEW information_schema.character_sets AS
SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
  current_database() AS default_collate_catalog, 'pg_catalog' AS default_collate_schema,
  'C' AS default_collate_name;

CREATE VIEW information_schema.collations AS
SELECT current_database() AS collation_catalog, n.nspname AS collation_schema,
  c.collname AS collation_name, 'NO PAD' AS pad_attribute
FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace;

CREATE VIEW information_schema.collation_character_set_applicability AS
SELECT collation_catalog, collation_schema, collation_name, 'UTF8' AS character_set_name
FROM information_schema.collations;
