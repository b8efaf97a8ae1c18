-- Statements of two halves that are answered, separated by blank lines. Each is asked of the splitter with exact values in
-- the place of released ones, and of DuckDB, and the two results must agree. A line `-- duckdb:` gives the text for DuckDB
-- where it needs another one.

-- # Windows over groups

SELECT sex, 100.0 * count(*) / sum(count(*)) OVER () AS share FROM stays GROUP BY sex

SELECT sex, emergency, count(*) * 1.0 / sum(count(*)) OVER (PARTITION BY sex) FROM stays GROUP BY sex, emergency

SELECT date_trunc('month', admitted) AS month, count(*) - lag(count(*)) OVER (ORDER BY date_trunc('month', admitted)) AS change FROM stays GROUP BY 1

SELECT date_trunc('month', admitted) AS month, sum(count(*)) OVER (ORDER BY date_trunc('month', admitted)) AS running FROM stays GROUP BY 1

SELECT age, avg(count(*)) OVER (ORDER BY age ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving FROM stays WHERE age < 15 GROUP BY age

SELECT sex, rank() OVER (ORDER BY count(*) DESC) AS place FROM stays GROUP BY sex

SELECT age, count(*) AS n FROM stays GROUP BY age QUALIFY row_number() OVER (ORDER BY count(*) DESC) <= 3

SELECT sex, emergency, count(*) AS n, first_value(count(*)) OVER w AS most FROM stays GROUP BY sex, emergency WINDOW w AS (PARTITION BY sex ORDER BY count(*) DESC)

SELECT sex, count(*) / max(count(*)) OVER () AS of_largest FROM stays GROUP BY sex

SELECT age, ntile(4) OVER (ORDER BY count(*)) FROM stays WHERE age < 8 GROUP BY age

SELECT sex, lead(count(*), 1, 0) OVER (ORDER BY sex) AS following FROM stays GROUP BY sex

-- # CTEs and sub-selects over answers

WITH a AS (SELECT sex, count(*) AS n FROM stays GROUP BY sex) SELECT sex, n FROM a WHERE n > 100

WITH a AS (SELECT sex, count(*) AS n FROM stays GROUP BY sex), t AS (SELECT sum(n) AS total FROM a) SELECT a.sex, a.n / t.total AS share FROM a CROSS JOIN t

WITH a AS (SELECT sex, count(*) AS n FROM stays WHERE age > 3 GROUP BY sex), b AS (SELECT sex, count(*) AS n FROM stays GROUP BY sex) SELECT a.sex, a.n / b.n AS share FROM a JOIN b ON a.sex = b.sex

WITH a AS (SELECT sex, count(*) AS n FROM stays WHERE age > 3 GROUP BY sex), b AS (SELECT sex, count(*) AS m FROM stays GROUP BY sex) SELECT sex, n, m FROM a JOIN b USING (sex) ORDER BY n

WITH a AS (SELECT sex, count(*) AS n FROM stays WHERE sex = 'male' GROUP BY sex), b AS (SELECT sex, count(*) AS m FROM stays GROUP BY sex) SELECT b.sex, coalesce(a.n, 0) AS n FROM b LEFT JOIN a ON a.sex = b.sex
-- duckdb: SELECT sex, CASE WHEN sex = 'male' THEN count(*) ELSE 0 END FROM stays GROUP BY sex

WITH monthly(month, n) AS (SELECT date_trunc('month', admitted), count(*) FROM stays GROUP BY 1) SELECT avg(n), max(n), min(n) FROM monthly

SELECT max(n) - min(n) FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS x

SELECT avg(mean) FROM (SELECT sex, avg(age) AS mean FROM stays GROUP BY sex) AS x

SELECT sex, n FROM (SELECT sex, emergency, count(*) AS n FROM stays GROUP BY sex, emergency) AS x WHERE emergency

SELECT sex, sum(n) FROM (SELECT sex, emergency, count(*) AS n FROM stays GROUP BY sex, emergency) AS x GROUP BY sex HAVING sum(n) > 10

SELECT * FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS x ORDER BY n DESC LIMIT 2

SELECT x.* FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS x

SELECT n FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS x WHERE n = (SELECT max(n) FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS y)

SELECT count(*) / (SELECT count(*) FROM stays) AS share FROM stays WHERE emergency

SELECT (SELECT count(*) FROM stays WHERE sex = 'male') - (SELECT count(*) FROM stays WHERE sex = 'female') AS difference

SELECT sex, count(*) FROM stays WHERE sex IN (SELECT sex FROM stays GROUP BY sex ORDER BY count(*) DESC LIMIT 2) GROUP BY sex

SELECT a.sex, (SELECT sum(b.n) FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS b WHERE b.sex <= a.sex) AS running FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS a

SELECT sex FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS x WHERE EXISTS (SELECT 1 FROM (SELECT count(*) AS m FROM stays) AS y WHERE m > 3 * n)

SELECT quantile_cont(n, 0.5), stddev_pop(n), count(*) FROM (SELECT age, count(*) AS n FROM stays WHERE age < 9 GROUP BY age) AS x

-- # Rows in sub-selects and CTEs

SELECT sex, round(avg(years), 3) FROM (SELECT sex, age + 1 AS years FROM stays WHERE emergency) AS x GROUP BY sex

WITH adults AS (SELECT * FROM stays WHERE age > 3), males AS (SELECT age, stay FROM adults WHERE sex = 'male') SELECT count(*), sum(stay) FROM males

SELECT q.s AS sex, count(*) * 2 - count(q.a) AS n FROM (SELECT sex AS s, age AS a FROM stays) AS q GROUP BY q.s ORDER BY 2

SELECT "custom_sql"."sex", count(*) AS "n" FROM (SELECT * FROM stays) AS "custom_sql" GROUP BY 1 HAVING count(*) > 0

SELECT sum(n) FROM (SELECT count(*) AS n FROM (SELECT * FROM (SELECT sex, age FROM stays) AS a WHERE age > 2) AS b WHERE sex = 'male') AS c

-- # Several groupings

SELECT sex, emergency, count(*) FROM stays GROUP BY ROLLUP (sex, emergency)

SELECT sex, emergency, count(*), grouping(sex) FROM stays GROUP BY CUBE (sex, emergency)

SELECT sex, emergency, sum(stay) FROM stays GROUP BY GROUPING SETS ((sex), (emergency), ())

SELECT sex, emergency, count(*) AS n FROM stays GROUP BY sex, ROLLUP (emergency) HAVING count(*) > 10 ORDER BY n DESC

SELECT coalesce(sex, 'all') AS sex, count(*) FROM stays GROUP BY ROLLUP (sex)

-- # Set operations

SELECT 'all' AS what, count(*) AS n FROM stays UNION ALL SELECT sex, count(*) FROM stays GROUP BY sex

SELECT count(*) FROM stays WHERE age < 3 UNION ALL SELECT count(*) FROM stays WHERE age >= 3

SELECT sex FROM stays GROUP BY sex INTERSECT SELECT 'male'
-- duckdb: SELECT 'male'

(SELECT sex, count(*) AS n FROM stays GROUP BY sex) UNION ALL (SELECT 'x', 0) ORDER BY n LIMIT 1

-- # Functions of results

SELECT sex, round(avg(age), 2) AS age, floor(sum(stay)) FROM stays GROUP BY sex

SELECT sex, CAST(avg(age) AS DECIMAL(10, 2)) FROM stays GROUP BY sex

SELECT sex, count(*)::integer AS n, avg(age)::numeric AS age FROM stays GROUP BY sex
-- duckdb: SELECT sex, count(*), avg(age) FROM stays GROUP BY sex

SELECT sex, CASE WHEN count(*) > 5000 THEN 'many' ELSE 'few' END AS size FROM stays GROUP BY sex

SELECT sex, coalesce(sum(stay) / nullif(count(*) - count(*), 0), 0) FROM stays GROUP BY sex

SELECT upper(sex) || '!' AS label, length(sex), substr(sex, 1, 2), count(*) FROM stays GROUP BY sex

SELECT concat(sex, '-', 'x') AS label, replace(sex, 'male', 'man'), count(*) FROM stays GROUP BY sex

SELECT greatest(count(*), 10), least(count(*), 10), abs(-count(*)), sign(count(*)) FROM stays

SELECT sqrt(count(*)), ln(count(*)), power(count(*), 0.5), exp(avg(emergency_rate)) FROM (SELECT age, count(*) / 20000.0 AS emergency_rate FROM stays GROUP BY age) AS x
-- duckdb: SELECT sqrt(21), ln(21), power(21, 0.5), exp(1.0 / 21)

SELECT date_trunc('month', admitted) AS month, extract(month FROM date_trunc('month', admitted)) AS number, count(*) FROM stays GROUP BY date_trunc('month', admitted)

SELECT sex, count(*) FROM stays GROUP BY sex HAVING sex = 'male' OR count(*) > 1000000

SELECT sex, count(*) AS n FROM stays GROUP BY sex HAVING round(avg(age), 1) > 1 ORDER BY round(count(*) / 10) DESC, sex

SELECT sex, count(*) FILTER (WHERE emergency) * 1.0 / nullif(count(*), 0) AS share FROM stays GROUP BY sex

SELECT DISTINCT sex, count(*) > 0 AS present FROM stays GROUP BY sex

SELECT sex, emergency, max(stay_sum) FROM (SELECT sex, emergency, sum(stay) AS stay_sum FROM stays GROUP BY sex, emergency) AS x GROUP BY ALL
