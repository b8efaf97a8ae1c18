-- Statements that are refused, separated by blank lines. Below each: the line and column of the error, and what it says.

SELECT count(*) FROM stays WHERE age > (SELECT avg(age) FROM stays)
-- 1:34 Which rows this covers depends on an answer.

SELECT row_number() OVER (ORDER BY age) FROM stays
-- 1:8 A window function over rows shows them one by one, and rows are never shown.

SELECT sum(n) FROM (SELECT count(*) AS n FROM stays) AS x, stays
-- 1:60 A join could bring a person's rows many times, so one table alone is asked.

SELECT a.sex FROM stays AS a JOIN stays AS b ON a.age = b.age
-- 1:35 A table joined with itself would pair the rows of a person.

SELECT * FROM read_csv('/etc/passwd')
-- 1:15 This is no table.

SELECT * FROM '/etc/passwd'
-- 1:15 There is no table `/etc/passwd`.

SELECT * FROM pg_catalog.pg_tables
-- 1:15 There is no table `pg_catalog.pg_tables`.

WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT x FROM r
-- 1:16 WITH RECURSIVE is not known.

SELECT n FROM (SELECT count(*) AS n FROM stays) AS a, (SELECT count(*) AS n FROM stays WHERE age > 3) AS b
-- 1:8 `n` could be a column of several relations.

SELECT nn FROM (SELECT count(*) AS n FROM stays) AS a
-- 1:8 There is no column `nn` here.

SELECT b.n FROM (SELECT count(*) AS n FROM stays) AS a
-- 1:8 No relation here is called `b`.

SELECT sexx, count(*) FROM (SELECT * FROM stays) AS q GROUP BY sexx
-- 1:8 There is no column `sexx`.

SELECT getenv('HOME'), n FROM (SELECT count(*) AS n FROM stays) AS x
-- 1:8 `getenv` is not computed on answers.

SELECT n, pg_read_file('x') FROM (SELECT count(*) AS n FROM stays) AS x
-- 1:11 `pg_read_file` is not computed on answers.

SELECT random() FROM (SELECT count(*) AS n FROM stays) AS x
-- 1:8 A random number is not computed from answers.

SELECT n / 0 FROM (SELECT count(*) AS n FROM stays) AS x
-- 1:12 This divides by zero.

SELECT sum(sex) FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS x
-- 1:8 This cannot be computed on the answers: No function matches the given name and argument types 'sum(VARCHAR)'. You might need to add explicit type casts.

SELECT count(*) FROM stays UNION ALL SELECT sex, count(*) FROM stays GROUP BY sex
-- 1:45 These SELECTs have 1 and 2 columns.

SELECT count(*) FROM (SELECT * FROM stays LIMIT 10) AS x
-- 1:49 LIMIT would choose rows of the table, and rows are never chosen one by one.

SELECT age, count(*) OVER () FROM stays GROUP BY sex
-- 1:8 This is not what the statement groups by.

SELECT sex, (SELECT count(*) FROM stays WHERE stays.sex = x.sex) FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS x
-- 1:59 No table here is called `x`.

SELECT count(*) OVER (), x FROM (SELECT sex AS x FROM stays) AS q
-- 1:8 A window function over rows shows them one by one, and rows are never shown.

WITH a AS (SELECT count(*) AS n FROM stays) SELECT m.n FROM a AS m JOIN a AS m ON m.n = m.n
-- 1:73 Two relations here are called `m`.

SELECT 1
-- 1:9 No table is asked.

SELECT n FROM (SELECT count(*) AS n FROM stays) AS x LIMIT 1 + 1
-- 1:60 This is no number of rows.

EXPLAIN SELECT count(*) FROM stay
-- 1:30 There is no table `stay`.

SELECT n CROSS JOIN FROM (SELECT count(*) AS n FROM stays) AS x
-- 1:1 This is no table.

WITH x AS (EXPLAIN SELECT count(*) FROM stays) SELECT * FROM x
-- 1:12 Only SELECT is answered.

SELECT sex, median(age) FROM (SELECT sex, age FROM stays WHERE emergency UNION ALL SELECT sex, age FROM stays WHERE NOT emergency) AS t GROUP BY sex
-- 1:38 Rows of several SELECTs are put together before they are aggregated.

SELECT sex, count(*) FROM (SELECT sex, age FROM stays WHERE emergency UNION SELECT sex, age FROM stays WHERE NOT emergency) AS t GROUP BY sex
-- 1:35 Rows of several SELECTs are put together before they are aggregated.

SELECT sex, mode(age) FROM stays GROUP BY sex
-- 1:13 The most frequent value is not an aggregate here.

SELECT sex, first(age) FROM stays GROUP BY sex
-- 1:13 This shows the value of single rows, and rows are never shown.

SELECT sex, count(*) FROM stays GROUP BY sex FETCH FIRST 2 ROWS WITH TIES
-- 1:58 FETCH is of a number of rows.

SELECT sex, n FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t WHERE sex SIMILAR TO 'm%'
-- 1:83 SIMILAR TO is not computed on answers.

SELECT ntile(2) OVER (ORDER BY n) AS half, sum(n) FROM (SELECT age, count(*) AS n FROM stays GROUP BY age) AS t GROUP BY 1
-- 1:1 This cannot be computed on the answers: GROUP BY clause cannot contain window functions.

SELECT * FROM (VALUES (1), (2)) AS v(a)
-- 1:40 No table is asked.

SELECT x.n FROM (SELECT count(*) AS n FROM stays) AS x, (VALUES ((SELECT 1))) AS v(a)
-- 1:74 A list in FROM has constants alone.

SELECT x.n, g.* FROM (SELECT count(*) AS n FROM stays) AS x, generate_series(1, 1000000000000) AS g
-- 1:1 The result has more than 100,000 rows.

SELECT x.n FROM (SELECT count(*) AS n FROM stays) AS x, generate_series(1, x.n) AS g
-- 1:76 A list in FROM has constants alone.

SELECT a.sex, b.part FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS a, LATERAL (SELECT a.n / 2 AS part) AS b
-- 1:85 LATERAL is not known.

SELECT x.n, u.a FROM (SELECT count(*) AS n FROM stays) AS x, unnest([1, 2]) AS u(a)
-- 1:70 Lists are not unnested.

SELECT array_agg(sex) FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t
-- 1:8 Lists and structures are not computed on answers.

SELECT sex, DATE '2024-01-01' + INTERVAL '1 year' * n FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t
-- 1:1 This cannot be computed on the answers: Overflow in multiplication of INTERVAL.

SELECT sex, DATE '2024-01-01' + INTERVAL '1 second' * n * 500 FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t
-- 1:1 A day is outside the calendar.

SELECT ntile(CAST(9 - n AS INTEGER)) OVER (ORDER BY n) FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t
-- 1:1 This cannot be computed on the answers: Argument for ntile must be greater than zero.

SELECT count(*) FROM stays GROUP BY
-- 1:36 GROUP BY names nothing.

SELECT count(*) AS n, dp_interval_high(n) + 1 AS above FROM stays
-- 1:23 The end of an interval is a column by itself.

SELECT high - 1 FROM (SELECT dp_interval_high(n) AS high FROM (SELECT count(*) AS n FROM stays) AS x) AS y
-- 1:30 The end of an interval is a column by itself.

SELECT date_part() FROM stays
-- 1:8 Rows are never shown, so this column has no single value.

SELECT [sex], count(*) FROM [stays] GROUP BY [sex]
-- 1:29 Square brackets are not known here.

SELECT approx_quantiles(age, 4) FROM stays
-- 1:8 A list of quantiles is not one value.

SELECT listagg(sex, ',') WITHIN GROUP (ORDER BY sex) FROM stays
-- 1:16 This shows the values of rows in a text, and rows are never shown.

SELECT every(emergency) FROM stays
-- 1:8 One row would decide this.

SELECT sex FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t WHERE n >= ALL (SELECT count(*) FROM stays)
-- 1:97 ALL compares with a list.

SELECT sex, sum(n) FROM (SELECT DISTINCT patient_id, sex, 1 AS n FROM stays) AS t GROUP BY sex
-- 1:54 One person may be in several of these groups.

SELECT `sexx`, count(*) FROM `stays` GROUP BY `sexx`
-- 1:47 There is no column `sexx`.

SELECT sex, sqrt(count(*)) FROM stays GROUP BY sex WITH TOTALS
-- 1:48 `group` is written with something that is not known here (totals).

SELECT sqrt(count(*)) FROM stays FOR SYSTEM_TIME AS OF '2024-01-01'
-- 1:56 `table` is written with something that is not known here (version).

SELECT sqrt(count(*)) FROM other.public.stays
-- 1:28 `table` is written with something that is not known here (catalog).

SELECT sex, sqrt(count(*)) AS n FROM stays GROUP BY sex LIMIT 2 BY sex
-- 1:68 `limit` is written with something that is not known here (expressions).

SELECT sex, sqrt(count(*)) AS n FROM stays GROUP BY sex LIMIT 50 PERCENT
-- 1:63 `limit` is written with something that is not known here (limit_options).

(SELECT sex, sqrt(count(*)) AS n FROM stays GROUP BY sex) LIMIT 1
-- 1:65 `subquery` is written with something that is not known here (limit).

SELECT sqrt(count(*)) FROM stays PARTITION (p1)
-- 1:45 The columns of a table have names already, and their order is not told.

SELECT sex, unnest([1, 2]) AS part, count(*) - lag(count(*)) OVER (ORDER BY sex) AS change FROM stays GROUP BY 1
-- 1:13 Lists are not unnested.

SELECT age, unnest(age) FROM stays GROUP BY age
-- 1:13 Lists are not unnested.

SELECT unnest([sum(age), sum(age) / 2]) FROM stays
-- 1:8 Lists are not unnested.

SELECT DISTINCT ON (sex) sex, age FROM stays ORDER BY sex, age DESC
-- 1:8 DISTINCT ON chooses single rows, and rows are never shown.

WITH x AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) sex, count(*) AS n FROM stays GROUP BY sex) SELECT sum(n) FROM x
-- 1:19 WITH DIFFERENTIAL_PRIVACY stands behind the first SELECT of a statement.

WITH t AS (SELECT admitted AS d, count(*) AS n FROM stays GROUP BY 1) SELECT to_char(n, '999.9') FROM t
-- 1:78 This pattern is not written on answers.

WITH t AS (SELECT admitted AS d, count(*) AS n FROM stays GROUP BY 1) SELECT strftime(d, strftime(d, '%B%B%B')) FROM t
-- 1:78 `strftime` is written with a constant.

WITH t AS (SELECT admitted AS d, count(*) AS n FROM stays GROUP BY 1) SELECT date_part(CASE WHEN n > 1 THEN 'x' ELSE 'day' END, d) FROM t
-- 1:78 `date_part` is written with a constant.

WITH t AS (SELECT admitted AS d, count(*) AS n FROM stays GROUP BY 1) SELECT to_char(d) FROM t
-- 1:78 This pattern is not written on answers.

WITH t AS (SELECT admitted AS d, count(*) AS n FROM stays GROUP BY 1) SELECT date_format(d, '%Y') FROM t
-- 1:78 Days are written as text by another name here.
