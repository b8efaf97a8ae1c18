-- Statements that would read a mirror, or more than an analyst may: one a line. Each must end in an error.
TABLE stays
TABLE ONLY stays
SELECT EXISTS (SELECT FROM stays)
SELECT NOT EXISTS (SELECT 1 FROM stays)
SELECT EXISTS (SELECT FROM stays WHERE age IS NULL)
SELECT ARRAY(SELECT age FROM stays)
SELECT ARRAY(SELECT 1 FROM stays)
SELECT (SELECT 1 FROM stays)
SELECT (SELECT age FROM stays) IS NULL
SELECT 1 IN (SELECT coalesce(age, 1) FROM stays)
SELECT 1 = ANY (SELECT coalesce(age, 1) FROM stays)
SELECT 1 = ALL (SELECT coalesce(age, 1) FROM stays)
SELECT 1 WHERE EXISTS (SELECT FROM stays)
SELECT 1 FROM generate_series(1, 3) WHERE 1 = (SELECT 1 FROM stays)
VALUES ((SELECT 1 FROM stays))
VALUES (EXISTS (SELECT FROM stays))
SELECT 1 FROM stays UNION SELECT 2
SELECT 2 UNION ALL SELECT 1 FROM stays
SELECT 1 INTERSECT SELECT 1 FROM stays
SELECT 2 EXCEPT SELECT 1 FROM stays
(SELECT 1 FROM stays)
((TABLE stays))
WITH w AS (TABLE stays) SELECT * FROM w
WITH w AS (SELECT 1 FROM stays) SELECT count(*) OVER () FROM w
WITH RECURSIVE r AS (SELECT 1 AS n FROM stays UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r
SELECT * FROM stays FOR UPDATE
SELECT * FROM stays FOR SHARE
SELECT * FROM stays ORDER BY age LIMIT 1
SELECT * FROM stays FETCH FIRST ROW ONLY
SELECT * FROM stays WHERE sex = 'female'
SELECT * FROM stays WHERE age IS NULL
SELECT g FROM generate_series(1, 3) AS g ORDER BY (SELECT age FROM stays), g
SELECT g FROM generate_series(1, 3) AS g LIMIT (SELECT 1 FROM stays)
SELECT g FROM generate_series(1, 3) AS g OFFSET (SELECT 1 FROM stays)
SELECT sum(g) FROM generate_series(1, 3) AS g, stays WHERE g > (SELECT 0 FROM stays)
SELECT sum(g) FILTER (WHERE EXISTS (SELECT FROM stays)) FROM generate_series(1, 3) AS g
SELECT CASE WHEN EXISTS (SELECT FROM stays) THEN 1 ELSE 2 END
SELECT coalesce((SELECT age FROM stays), 3)
SELECT * FROM ROWS FROM (generate_series(1, (SELECT 2 FROM stays))) AS r
SELECT * FROM generate_series(1, (SELECT 2 FROM stays))
SELECT * FROM unnest(ARRAY(SELECT 1 FROM stays))
SELECT * FROM json_to_recordset((SELECT json_agg(t) FROM (TABLE stays) AS t)) AS r (age int)
SELECT array_agg(t) FROM (TABLE stays) AS t
SELECT json_agg(stays) FROM stays
SELECT string_agg(sex, ',') FROM stays
SELECT xmlagg(xmlelement(name a, age)) FROM stays
SELECT bool_and(age IS NULL) FROM stays
SELECT jsonb_object_agg(coalesce(age, 1), 1) FROM stays
SELECT count(*) FROM stays TABLESAMPLE BERNOULLI (0)
SELECT count(*) FROM stays AS a, stays AS b
SELECT count(*) FROM stays JOIN generate_series(1, 5) ON true
SELECT grouping(sex), count(*) FROM (TABLE stays) AS t GROUP BY CUBE (sex), age IS NULL, ctid
SELECT a.n FROM (SELECT count(*) AS n FROM stays, LATERAL (SELECT 1) AS o) AS a
SELECT (SELECT count(*) FROM stays WHERE age > g) FROM generate_series(1, 2) AS g
SELECT count(*) FROM stays WHERE ctid IS NOT NULL
SELECT min(ctid) FROM stays
SELECT count(xmin) FROM stays
SELECT mode() WITHIN GROUP (ORDER BY sex) FROM stays
SELECT every(age IS NULL) FROM stays
COPY stays TO STDOUT
COPY stays (age) TO STDOUT
COPY (SELECT * FROM stays) TO STDOUT
COPY (TABLE stays) TO STDOUT (FORMAT binary)
COPY (SELECT 1 FROM stays) TO STDOUT
COPY stays TO '/tmp/x'
COPY stays TO PROGRAM 'cat'
COPY stays FROM '/etc/passwd'
BEGIN; DECLARE c CURSOR FOR SELECT * FROM stays; FETCH 1 FROM c
BEGIN; DECLARE c SCROLL CURSOR FOR TABLE stays; MOVE 1 FROM c
BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1 FROM stays; COMMIT
BEGIN;declare c cursor for select age from stays;fetch all from c
PREPARE p AS SELECT * FROM stays; EXECUTE p
PREPARE p AS SELECT count(*) FROM stays; EXECUTE p
PREPARE p (int) AS SELECT count(*) FROM stays WHERE age > $1; EXECUTE p (3)
DO $$ BEGIN PERFORM 1 FROM stays; END $$
DO LANGUAGE sql 'SELECT 1 FROM stays'
EXPLAIN ANALYZE SELECT * FROM stays
EXPLAIN (ANALYZE, TIMING off) SELECT 1 FROM stays
EXPLAIN ANALYZE TABLE stays
EXPLAIN ANALYZE SELECT EXISTS (SELECT FROM stays)
EXPLAIN ANALYZE CREATE TABLE x AS TABLE stays
CREATE VIEW v AS SELECT count(*) FROM stays
CREATE TABLE x AS SELECT * FROM stays
CREATE TABLE x AS TABLE stays
CREATE TEMP TABLE x AS SELECT count(*) FROM stays
CREATE MATERIALIZED VIEW v AS SELECT count(*) FROM stays
SELECT * INTO x FROM stays
SELECT count(*) INTO x FROM stays
SELECT count(*) INTO TEMP x FROM stays
CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM stays'
CREATE RULE r AS ON SELECT TO stays DO INSTEAD SELECT 1
INSERT INTO stays SELECT * FROM stays
INSERT INTO stays (age) VALUES (1) RETURNING *
INSERT INTO stays DEFAULT VALUES
UPDATE stays SET age = 3 RETURNING *
DELETE FROM stays RETURNING *
DELETE FROM stays USING stays AS s
TRUNCATE stays
MERGE INTO stays AS a USING stays AS b ON a.age = b.age WHEN MATCHED THEN DELETE
WITH d AS (DELETE FROM stays RETURNING *) SELECT count(*) FROM d
WITH c AS (SELECT count(*) AS n FROM stays) INSERT INTO stays (age) SELECT n FROM c
LOCK TABLE stays IN ACCESS EXCLUSIVE MODE
ANALYZE stays; SELECT 1 FROM stays
ALTER TABLE stays DISABLE ROW LEVEL SECURITY
DROP POLICY never ON stays
ALTER TABLE stays OWNER TO CURRENT_USER
SET row_security = off; SELECT * FROM stays
SET ROLE dodona; SELECT * FROM stays
SET SESSION AUTHORIZATION dodona; SELECT * FROM stays
SELECT query_to_xml('SELECT * FROM stays', true, true, '')
SELECT table_to_xml('stays', true, true, '')
SELECT schema_to_xml('public', true, true, '')
SELECT database_to_xml(true, true, '')
SELECT * FROM ts_stat('SELECT sex::tsvector FROM stays')
SELECT query_to_xml('SELECT count(*) FROM stays TABLESAMPLE SYSTEM (0)', true, true, '')
SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery FROM stays')
CREATE OR REPLACE FUNCTION dodona.refuse() RETURNS boolean LANGUAGE sql AS 'SELECT true'
SELECT lo_import('/etc/passwd')
SELECT pg_read_file('/etc/passwd')
SELECT pg_ls_dir('.')
SELECT pg_advisory_lock(1)
SELECT pg_notify('a', 'b')
SELECT set_config('role', 'dodona', false); SELECT 1 FROM stays
CALL dodona.fail('1', '2', '3')
SELECT 1 FROM stays -- count(*)
SELECT /* count(*) */ age FROM stays
SELECT 'count(*)' FROM stays GROUP BY 1, age, ctid
SELECT $a$ FROM stays $a$ FROM stays
SELECT U&'\0041' FROM stays
SELECT 1 FROM U&"st\0061ys"
SELECT E'\'' FROM stays --'
SELECT * FROM "dodona"."budget" AS b, stays
SELECT 1 FROM dodona.budget, stays
SET search_path = dodona; SELECT * FROM budget
TABLE dodona.history
SELECT * FROM stays.public.stays
