-- What every database of the sidecar has. It is run once, in the template that they are copied from.

SET allow_system_table_mods = on;

-- Errors: those of the door, and those of statements that would read a mirror.
CREATE SCHEMA dodona;
GRANT USAGE ON SCHEMA dodona TO PUBLIC;
CREATE FUNCTION dodona.fail(state text, message text, detail text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN IF detail = '' THEN RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message;
ELSE RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = detail; END IF; END $$;
CREATE FUNCTION dodona.refuse() RETURNS boolean LANGUAGE plpgsql STABLE COST 0.0001 AS $$
BEGIN RAISE EXCEPTION USING ERRCODE = '42501', MESSAGE =
'Rows are never shown, and this statement would read them. Nothing was charged.',
HINT = 'Ask for counts, sums, averages or quantiles: SELECT column, count(*) FROM table GROUP BY column.'; END $$;
CREATE FUNCTION dodona.unfilled() RETURNS boolean LANGUAGE plpgsql STABLE COST 0.0001 AS $$
BEGIN RAISE EXCEPTION USING ERRCODE = '0A000', MESSAGE =
'Read this relation in the FROM of a SELECT, as dodona.budget or dodona.history.'; END $$;

-- A relation that the door need not fill.
CREATE TABLE dodona.columns (place integer, table_name text, column_name text, kind text, lower text, upper text,
labels text[], bins text[]);
GRANT SELECT ON dodona.columns TO PUBLIC;
COMMENT ON TABLE dodona.columns IS 'What the dataset file declares about each column. All of it is public.';

-- Aggregates and functions that a question may use and PostgreSQL lacks. Over answers they compute what they say.
CREATE FUNCTION dodona.count_true(bigint, boolean) RETURNS bigint LANGUAGE sql IMMUTABLE AS
'SELECT $1 + CASE WHEN $2 THEN 1 ELSE 0 END';
CREATE AGGREGATE pg_catalog.count_if(boolean) (
    sfunc = dodona.count_true, stype = bigint, initcond = '0');
CREATE AGGREGATE pg_catalog.sum(boolean) (
    sfunc = dodona.count_true, stype = bigint, initcond = '0');
CREATE FUNCTION dodona.add_true(float8[], boolean) RETURNS float8[] LANGUAGE sql IMMUTABLE AS
'SELECT CASE WHEN $2 IS NULL THEN $1 ELSE pg_catalog.float8_accum($1, $2::int::float8) END';
CREATE AGGREGATE pg_catalog.avg(boolean) (
    sfunc = dodona.add_true, stype = float8[], finalfunc = float8_avg, initcond = '{0,0,0}');
CREATE AGGREGATE pg_catalog.mean(boolean) (
    sfunc = dodona.add_true, stype = float8[], finalfunc = float8_avg, initcond = '{0,0,0}');
CREATE AGGREGATE pg_catalog.mean(float8) (
    sfunc = float8_accum, stype = float8[], finalfunc = float8_avg, initcond = '{0,0,0}');
CREATE AGGREGATE pg_catalog.var(float8) (
    sfunc = float8_accum, stype = float8[], finalfunc = float8_var_samp, initcond = '{0,0,0}');
CREATE AGGREGATE pg_catalog.std(float8) (
    sfunc = float8_accum, stype = float8[], finalfunc = float8_stddev_samp, initcond = '{0,0,0}');
CREATE FUNCTION dodona.add_value(float8[], float8) RETURNS float8[] LANGUAGE sql IMMUTABLE AS
'SELECT CASE WHEN $2 IS NULL THEN $1 ELSE array_append($1, $2) END';
CREATE FUNCTION dodona.middle(float8[]) RETURNS float8 LANGUAGE sql IMMUTABLE AS
'SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FROM unnest($1) x';
CREATE AGGREGATE pg_catalog.median(float8) (
    sfunc = dodona.add_value, stype = float8[], finalfunc = dodona.middle, initcond = '{}');
CREATE FUNCTION dodona.add_day(date[], date) RETURNS date[] LANGUAGE sql IMMUTABLE AS
'SELECT CASE WHEN $2 IS NULL THEN $1 ELSE array_append($1, $2) END';
CREATE FUNCTION dodona.middle(date[]) RETURNS date LANGUAGE sql IMMUTABLE AS
'SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FROM unnest($1) x';
CREATE AGGREGATE pg_catalog.median(date) (
    sfunc = dodona.add_day, stype = date[], finalfunc = dodona.middle, initcond = '{}');
CREATE FUNCTION dodona.add_value(float8[], float8, float8) RETURNS float8[] LANGUAGE sql IMMUTABLE AS
'SELECT CASE WHEN $2 IS NULL THEN $1 WHEN $1 = ''{}'' THEN ARRAY[$3, $2] ELSE array_append($1, $2) END';
CREATE FUNCTION dodona.part(float8[]) RETURNS float8 LANGUAGE sql IMMUTABLE AS
'SELECT percentile_disc($1[1]) WITHIN GROUP (ORDER BY x) FROM unnest($1[2:]) x';
CREATE AGGREGATE pg_catalog.quantile(float8, float8) (
    sfunc = dodona.add_value, stype = float8[], finalfunc = dodona.part, initcond = '{}');
CREATE AGGREGATE pg_catalog.approx_quantile(float8, float8) (
    sfunc = dodona.add_value, stype = float8[], finalfunc = dodona.part, initcond = '{}');
CREATE FUNCTION pg_catalog.bin(integer, integer) RETURNS integer LANGUAGE sql IMMUTABLE AS
'SELECT (floor($1::numeric / $2) * $2)::integer';
CREATE FUNCTION pg_catalog.bin(float8, float8) RETURNS float8 LANGUAGE sql IMMUTABLE AS 'SELECT floor($1 / $2) * $2';
CREATE FUNCTION pg_catalog.year(timestamp) RETURNS integer LANGUAGE sql IMMUTABLE AS
'SELECT extract(year FROM $1)::integer';
CREATE FUNCTION pg_catalog.quarter(timestamp) RETURNS integer LANGUAGE sql IMMUTABLE AS
'SELECT extract(quarter FROM $1)::integer';
CREATE FUNCTION pg_catalog.month(timestamp) RETURNS integer LANGUAGE sql IMMUTABLE AS
'SELECT extract(month FROM $1)::integer';
CREATE FUNCTION pg_catalog.week(timestamp) RETURNS integer LANGUAGE sql IMMUTABLE AS
'SELECT extract(week FROM $1)::integer';
CREATE FUNCTION pg_catalog.day(timestamp) RETURNS integer LANGUAGE sql IMMUTABLE AS
'SELECT extract(day FROM $1)::integer';

-- ALTER ROLE may set them.
GRANT SET ON PARAMETER dodona.within, dodona.epsilon, dodona.confidence, dodona.max_price, dodona.fresh,
dodona.intervals TO PUBLIC;

-- Rights that PostgreSQL gives to everyone: to write, to hold what others wait for, to run text as SQL, to see others.
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO PUBLIC;
REVOKE USAGE ON LANGUAGE plpgsql, sql FROM PUBLIC;
DO $$
DECLARE found text;
BEGIN
FOR found IN SELECT oid::regprocedure FROM pg_proc
WHERE (proname = 'ts_rewrite' AND pronargs = 2) OR proname ~ ('^(lo_.*|loread|lowrite|pg_(try_)?advisory_(xact_)?lock.*|pg_notify|' ||
'(query|table|schema|database|cursor)_to_xml.*|ts_stat|pg_stat_get_(activity|backend.*|wal_.*|progress_.*)|' ||
'pg_export_snapshot|pg_logical_.*|pg_log_backend_memory_contexts)$') LOOP
EXECUTE 'REVOKE EXECUTE ON FUNCTION ' || found || ' FROM PUBLIC';
END LOOP;
FOR found IN SELECT unnest(ARRAY['pg_roles', 'pg_user', 'pg_group']) LOOP
EXECUTE format(
'CREATE OR REPLACE VIEW pg_catalog.%1$I AS SELECT * FROM (%2$s) AS one WHERE %3$I = session_user OR %3$I ~ ''^pg_''',
found, rtrim(pg_get_viewdef(('pg_catalog.' || found)::regclass), ';'),
CASE found WHEN 'pg_roles' THEN 'rolname' WHEN 'pg_user' THEN 'usename' ELSE 'groname' END);
END LOOP;
END $$;
