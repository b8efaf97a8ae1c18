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

SELECT DISTINCT ON (sex) sex, emergency, count(*) AS n FROM stays GROUP BY sex, emergency ORDER BY sex, n DESC

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

SELECT sex, emergency, count(*) FROM stays JOIN (SELECT sex AS sex__, count(*) AS n FROM stays GROUP BY sex ORDER BY n DESC LIMIT 2) AS top ON sex = sex__ GROUP BY sex, emergency

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

SELECT sex, emergency, COUNT(*) AS visits, ROUND(AVG(stay), 2) AS avg_stay FROM stays WHERE admitted BETWEEN '2023-12-01' AND '2024-01-31' GROUP BY sex, emergency ORDER BY visits DESC

SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE age >= 10) AS older, COUNT(*) FILTER (WHERE age >= 10) * 100.0 / COUNT(*) AS pct FROM stays

SELECT EXTRACT(YEAR FROM admitted)::int AS y, EXTRACT(MONTH FROM admitted)::int AS m, COUNT(*) FROM stays GROUP BY y, m ORDER BY y, m

SELECT CASE WHEN stay = 0 THEN 'none' WHEN stay < 1 THEN 'short' WHEN stay BETWEEN 1 AND 3 THEN 'mid' ELSE 'long' END AS bucket, COUNT(*) AS n, AVG(age) AS a FROM stays GROUP BY 1 HAVING COUNT(*) > 50 ORDER BY n

SELECT sex, SUM(stay) AS days, SUM(stay) / SUM(SUM(stay)) OVER () AS share FROM stays GROUP BY sex

WITH m AS (SELECT date_trunc('month', admitted) AS month, sex, COUNT(*) AS n FROM stays GROUP BY 1, 2) SELECT month, SUM(CASE WHEN sex = 'female' THEN n ELSE 0 END) AS f, SUM(CASE WHEN sex = 'male' THEN n ELSE 0 END) AS m, SUM(n) AS total FROM m GROUP BY month ORDER BY month

SELECT a.sex, a.n, b.n AS emergencies, b.n * 1.0 / NULLIF(a.n, 0) AS rate FROM (SELECT sex, COUNT(*) AS n FROM stays GROUP BY sex) a LEFT JOIN (SELECT sex, COUNT(*) AS n FROM stays WHERE emergency GROUP BY sex) b ON a.sex = b.sex

SELECT COUNT(*) FROM stays WHERE sex IN ('female', 'male') AND NOT (age < 3 OR age > 15) AND admitted >= DATE '2024-01-01' - INTERVAL '2 weeks'

SELECT sex, COUNT(CASE WHEN emergency THEN 1 END) AS e, COUNT(CASE WHEN NOT emergency THEN 1 END) AS p FROM stays GROUP BY sex

SELECT sex, AVG(CASE WHEN emergency THEN stay END) AS e_stay, AVG(CASE WHEN NOT emergency THEN stay END) AS p_stay FROM stays GROUP BY sex

SELECT sex, MAX(n) FROM (SELECT sex, date_trunc('month', admitted) AS m, COUNT(*) AS n FROM stays GROUP BY 1, 2) t GROUP BY sex

SELECT m, n, LAG(n) OVER (ORDER BY m) AS prev, (n - LAG(n) OVER (ORDER BY m)) * 100.0 / LAG(n) OVER (ORDER BY m) AS growth FROM (SELECT date_trunc('month', admitted) AS m, COUNT(*) AS n FROM stays GROUP BY 1) t ORDER BY m

SELECT strftime(admitted, '%Y-%m') AS ym, COUNT(*) FROM stays WHERE strftime(admitted, '%Y') = '2024' GROUP BY ym

SELECT dayname(admitted) AS d, COUNT(*) AS n FROM stays GROUP BY 1 ORDER BY n DESC

SELECT EXTRACT(isodow FROM admitted) IN (6, 7) AS weekend, COUNT(*), AVG(stay) FROM stays GROUP BY 1

SELECT sex, VAR_SAMP(stay) AS v, STDDEV(stay) / AVG(stay) AS cv FROM stays GROUP BY sex

SELECT SUM(stay * age) / SUM(age) AS weighted FROM stays

SELECT COUNT(*) - COUNT(stay) AS missing FROM stays

SELECT COALESCE(sex, 'n/a') AS s, COUNT(*) AS c FROM stays GROUP BY COALESCE(sex, 'n/a') ORDER BY c DESC LIMIT 2

SELECT * FROM (SELECT sex, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS rn FROM stays GROUP BY sex) t WHERE rn = 1

SELECT sex, n FROM (SELECT sex, COUNT(*) AS n FROM stays GROUP BY sex) t ORDER BY n DESC LIMIT 1 OFFSET 1

SELECT 'total' AS label, COUNT(*) AS n FROM stays UNION ALL SELECT 'emergency', COUNT(*) FROM stays WHERE emergency UNION ALL SELECT 'planned', COUNT(*) FROM stays WHERE NOT emergency

SELECT sex, COUNT(*) AS n FROM stays WHERE age BETWEEN 5 AND 10 GROUP BY sex HAVING AVG(stay) > 0.5

SELECT sex, COUNT(*) FROM stays WHERE admitted >= '2024-01-01'::date AND admitted < '2024-02-01'::date GROUP BY sex

SELECT COUNT(*) FROM stays WHERE admitted >= '2024-01-01 00:00:00'::timestamp AND admitted <= '2024-01-31 23:59:59'::timestamp

SELECT COUNT(*) FROM stays WHERE (sex = 'female' AND age > 10) OR (sex = 'male' AND stay > 2)

SELECT COUNT(DISTINCT sex) AS sexes, COUNT(*) AS rows FROM stays

SELECT sex, age, COUNT(*) FROM stays WHERE age IN (1, 2, 3) GROUP BY GROUPING SETS ((sex, age), (age), ())

SELECT IF(emergency, 'E', 'P') AS kind, COUNT(*) FROM stays GROUP BY 1

SELECT sex, QUANTILE_CONT(stay, 0.5) AS med FROM stays GROUP BY sex

SELECT PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY age) AS p25, PERCENTILE_DISC(0.75) WITHIN GROUP (ORDER BY age) AS p75 FROM stays

SELECT ROUND(stay) AS days, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct FROM stays GROUP BY ROUND(stay) ORDER BY days

SELECT CONCAT(sex, '/', CASE WHEN emergency THEN 'E' ELSE 'P' END) AS k, COUNT(*) FROM stays GROUP BY 1

SELECT sex, SUM(n) AS n FROM (SELECT sex, COUNT(*) AS n FROM stays WHERE emergency GROUP BY sex UNION ALL SELECT sex, COUNT(*) AS n FROM stays WHERE NOT emergency GROUP BY sex) u GROUP BY sex

WITH t AS (SELECT sex, COUNT(*) AS n FROM stays GROUP BY sex), r AS (SELECT sex, n, PERCENT_RANK() OVER (ORDER BY n) AS pr FROM t) SELECT * FROM r

SELECT EXISTS (SELECT 1 FROM (SELECT sex, COUNT(*) AS n FROM stays GROUP BY sex) t WHERE n > 100) AS any_large

SELECT sex, COUNT(*) FROM stays GROUP BY sex HAVING COUNT(*) = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM stays GROUP BY sex) x)

SELECT (SELECT AVG(stay) FROM stays WHERE emergency) - (SELECT AVG(stay) FROM stays WHERE NOT emergency) AS difference

SELECT COUNT(*) FROM stays WHERE abs(age - 10) <= 2

SELECT COUNT(*) FROM stays WHERE stay * 2 > age

SELECT COUNT(*) FROM stays WHERE admitted + INTERVAL '1 month' > DATE '2024-03-15'

SELECT AVG(date_diff('day', DATE '2023-11-01', admitted)) AS d FROM stays

SELECT SUM(emergency::int) AS e, AVG(emergency::int) AS share FROM stays

SELECT SUM(CAST(emergency AS INTEGER)) FROM stays WHERE sex LIKE 'f%'

SELECT MEDIAN(age) FILTER (WHERE emergency) AS e, MEDIAN(age) FILTER (WHERE NOT emergency) AS p FROM stays

SELECT sex, COUNT(*) AS n, RANK() OVER (ORDER BY AVG(stay) DESC) AS r FROM stays GROUP BY sex ORDER BY r

SELECT sex, first_value(n) OVER (ORDER BY n DESC) - n AS behind FROM (SELECT sex, COUNT(*) AS n FROM stays GROUP BY sex) t

SELECT date_trunc('month', admitted) AS m, AVG(COUNT(*)) OVER (ORDER BY date_trunc('month', admitted) ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth FROM stays GROUP BY m

SELECT sex, CASE WHEN SUM(stay) > 1000 THEN ROUND(SUM(stay) / 1000, 1) || 'k' ELSE CAST(SUM(stay) AS VARCHAR) END AS label FROM stays GROUP BY sex

SELECT sex, SUM(CASE WHEN date_part('year', admitted) = 2023 THEN 1 ELSE 0 END) AS y2023, SUM(CASE WHEN date_part('year', admitted) = 2024 THEN 1 ELSE 0 END) AS y2024 FROM stays GROUP BY sex

SELECT LOG(COUNT(*)) AS l10, LN(COUNT(*)) AS ln, LOG10(COUNT(*)) AS l FROM stays

SELECT sex s, COUNT(*) c FROM stays t WHERE t.age > 3 GROUP BY t.sex ORDER BY c

SELECT COUNT(*) AS n FROM stays WHERE TRUE AND 1 = 1 AND (sex = 'female' OR FALSE)

SELECT MOD(age, 2) = 0 AS even, COUNT(*) FROM stays GROUP BY 1

SELECT UPPER(LEFT(sex, 1)) AS initial, COUNT(*) FROM stays GROUP BY 1

SELECT sex, SUM(stay) FILTER (WHERE emergency) - SUM(stay) FILTER (WHERE NOT emergency) AS diff FROM stays GROUP BY sex

SELECT AVG(age) AS mean, SQRT(VAR_SAMP(age)) AS sd, SQRT(VAR_SAMP(age) / COUNT(*)) AS se FROM stays

SELECT CORR(age, stay) AS r, REGR_SLOPE(stay, age) AS b FROM stays WHERE emergency

SELECT t.sex, t.emergency, t.n * 1.0 / s.n AS share FROM (SELECT sex, emergency, COUNT(*) AS n FROM stays GROUP BY 1, 2) t JOIN (SELECT sex, COUNT(*) AS n FROM stays GROUP BY 1) s USING (sex)

SELECT date_trunc('quarter', admitted)::date AS q, COUNT(*) FROM stays GROUP BY 1 ORDER BY q NULLS FIRST

SELECT CEIL(age / 10.0) AS d, COUNT(*) FROM stays GROUP BY 1 ORDER BY 1

SELECT ARG_MAX(sex, n) AS biggest FROM (SELECT sex, COUNT(*) AS n FROM stays GROUP BY sex) t

SELECT sex, n, SUM(n) OVER w AS running FROM (SELECT sex, COUNT(*) AS n FROM stays GROUP BY sex) t WINDOW w AS (ORDER BY sex)

SELECT COUNT(*) FROM stays WHERE NULLIF(age, 0) IS NULL

SELECT COUNT(*) FILTER (WHERE sex = 'female' AND emergency) AS a, SUM(stay) FILTER (WHERE age > 5 AND age <= 10) AS b FROM stays WHERE admitted > '2023-12-31'

SELECT BOOL_OR(n > 2000) AS some, BOOL_AND(n > 10) AS every FROM (SELECT sex, COUNT(*) AS n FROM stays GROUP BY sex) t

SELECT date_add(date_trunc('month', admitted), INTERVAL 1 MONTH) AS next, COUNT(*) FROM stays GROUP BY 1

SELECT dateadd(month, 1, date_trunc('month', admitted)) AS next, COUNT(*) FROM stays GROUP BY 1
-- duckdb: SELECT date_trunc('month', admitted) + INTERVAL 1 MONTH AS next, COUNT(*) FROM stays GROUP BY 1

SELECT date_sub(date_trunc('month', admitted), INTERVAL 1 DAY) AS before, COUNT(*) FROM stays GROUP BY 1
-- duckdb: SELECT date_trunc('month', admitted) - INTERVAL 1 DAY AS before, COUNT(*) FROM stays GROUP BY 1

SELECT d, datediff('day', d, DATE '2024-03-01') AS rest, dateadd('day', 7, d) AS later, n FROM (SELECT date_trunc('month', admitted) AS d, COUNT(*) AS n FROM stays GROUP BY 1) t
-- duckdb: SELECT d, datediff('day', d, DATE '2024-03-01'), d + INTERVAL 7 DAY, n FROM (SELECT date_trunc('month', admitted) AS d, COUNT(*) AS n FROM stays GROUP BY 1) t

SELECT SIGN(age - 10) AS side, COUNT(*), SUM(stay) FROM stays GROUP BY 1

SELECT sex, GREATEST(COUNT(*) - 100, 0) AS above FROM stays GROUP BY sex

SELECT sex, COUNT(*) AS n FROM stays GROUP BY sex EXCEPT SELECT sex, COUNT(*) FROM stays WHERE FALSE GROUP BY sex

SELECT TRY_CAST(COUNT(*) AS INTEGER) AS n FROM stays

SELECT sex, AVG(age)::numeric(10,1) FROM stays GROUP BY sex

WITH spine AS (SELECT * FROM generate_series(DATE '2023-10-01', DATE '2024-05-01', INTERVAL '1 month') AS g(month)), n AS (SELECT date_trunc('month', admitted) AS month, count(*) AS n FROM stays GROUP BY 1) SELECT spine.month, coalesce(n.n, 0) AS n FROM spine LEFT JOIN n ON n.month = spine.month ORDER BY 1

WITH wanted(sex) AS (VALUES ('female'), ('male'), ('nobody')) SELECT wanted.sex, t.n FROM wanted LEFT JOIN (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t ON t.sex = wanted.sex

SELECT v.label, t.n - v.goal AS above FROM (VALUES ('female', 'women', 100), ('male', 'men', 200)) AS v(sex, label, goal) JOIN (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t USING (sex)

SELECT step, coalesce(n, 0) AS n FROM generate_series(0, 30, 3) AS s(step) LEFT JOIN (SELECT age, count(*) AS n FROM stays GROUP BY age) AS t ON t.age = s.step

SELECT sex, repeat('*', CAST(n / 500 AS INTEGER)) AS bar FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t

SELECT emergency, listagg(sex, '|') WITHIN GROUP (ORDER BY sex) AS sexes FROM (SELECT sex, emergency, count(*) AS n FROM stays GROUP BY ALL) AS t WHERE sex <> '<outside>' GROUP BY emergency
-- duckdb: SELECT emergency, string_agg(DISTINCT sex, '|' ORDER BY sex) FROM stays GROUP BY emergency

SELECT sex, n FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t WHERE regexp_matches(sex, '^(m|f)') ORDER BY n DESC FETCH FIRST ROW ONLY
-- duckdb: SELECT sex, count(*) FROM stays WHERE sex IN ('male', 'female') GROUP BY sex ORDER BY 2 DESC LIMIT 1

SELECT regexp_replace(sex, 'e$', '') AS short, n FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t WHERE sex ~ 'male'
-- duckdb: SELECT regexp_replace(sex, 'e$', ''), count(*) FROM stays WHERE contains(sex, 'male') GROUP BY sex

SELECT `sex`, COUNT(*) AS `n` FROM `stays` GROUP BY `sex`
-- duckdb: SELECT sex, count(*) FROM stays GROUP BY sex

SELECT sex, SAFE_DIVIDE(sum(stay), count(*)) AS a, DIV0(sum(age), count(*) - count(*)) AS b, ZEROIFNULL(sum(age)) AS c, NULLIFZERO(count(*)) AS d FROM stays GROUP BY sex
-- duckdb: SELECT sex, sum(stay) / count(*), 0, sum(age), count(*) FROM stays GROUP BY sex

SELECT DECODE(sex, 'female', 'f', 'male', 'm', 'x') AS s, IFF(emergency, 'e', 'p') AS e, NVL2(nullif(sex, 'male'), 1, 0) AS has, count(*) FROM stays GROUP BY 1, 2, 3
-- duckdb: SELECT CASE sex WHEN 'female' THEN 'f' WHEN 'male' THEN 'm' ELSE 'x' END, if(emergency, 'e', 'p'), if(sex = 'male', 0, 1), count(*) FROM stays GROUP BY 1, 2, 3

SELECT sex, SUMIF(stay, emergency) AS e, AVG_IF(stay, NOT emergency) AS p, ISNULL(sum(age), 0) AS a FROM stays GROUP BY sex
-- duckdb: SELECT sex, sum(stay) FILTER (WHERE emergency), avg(stay) FILTER (WHERE NOT emergency), sum(age) FROM stays GROUP BY sex

SELECT EVERY(n > 10) AS every, DECODE(max(n) > 3, TRUE, 'yes', NULL, 'unknown', 'no') AS large FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t
-- duckdb: SELECT TRUE, 'yes'

SELECT count(*) AS n, current_date > DATE '2020-01-01' AS later, now() - current_date AS none FROM stays
-- duckdb: SELECT count(*) AS n, TRUE, 0 FROM stays

SELECT sum(power(stay - 2, 2)) AS a, sum(abs(stay - 2)) AS b FROM stays WHERE stay / (age + 1) >= 0.25 AND age / (stay - 2) NOT BETWEEN -3 AND 1

SELECT quarter(admitted) - month(admitted) AS d, datediff('month', admitted, DATE '2024-02-01') AS m, count(*) FROM stays GROUP BY 1, 2

SELECT count(*) FROM stays WHERE coalesce(sex, '') <> '' AND coalesce(nullif(sex, 'male'), '-') IN ('-', 'female')

SELECT 'all' AS label, sex, count(*) AS n FROM stays GROUP BY 1, 2

SELECT 1 AS one, count(*) AS n FROM stays GROUP BY 1.1

SELECT sex, emergency, count(*) FROM stays GROUP BY sex, emergency WITH ROLLUP
-- duckdb: SELECT sex, emergency, count(*) FROM stays GROUP BY ROLLUP (sex, emergency)

SELECT sex, sum(age) FROM stays GROUP BY sex WITH CUBE
-- duckdb: SELECT sex, sum(age) FROM stays GROUP BY CUBE (sex)

SELECT sum(age) // 100 AS a, count(*) // 7.5 AS b, -count(*) // 1000 AS c FROM stays
-- duckdb: SELECT trunc(sum(age) / 100), trunc(count(*) / 7.5), trunc(-count(*) / 1000) FROM stays

WITH x (s, a) AS (SELECT sex, age FROM stays) SELECT s, sum(a) FROM x GROUP BY s

SELECT t, n / 2 AS half FROM (SELECT s AS t, count(*) AS n FROM (SELECT sex, age FROM stays) AS y (s, b) WHERE b > 3 GROUP BY 1) AS z

SELECT t.sex, count(*) AS n, avg(age) FILTER (WHERE age > 3) AS a FROM (SELECT sex, age FROM stays WHERE emergency UNION ALL SELECT sex, age FROM stays WHERE NOT emergency) AS t WHERE t.age < 15 GROUP BY 1 HAVING count(*) > 5 ORDER BY n DESC

WITH u AS (SELECT 'a' AS kind, age AS x, admitted FROM stays UNION ALL SELECT 'b', stay * 2, admitted FROM stays WHERE sex = 'male') SELECT kind, month(admitted) AS m, sum(x) / count(*) AS mean, count_if(x > 3) AS c FROM u GROUP BY kind, m

SELECT count(*) AS n, sum(x) AS s FROM (SELECT age AS x FROM stays UNION ALL SELECT 1 FROM stays UNION ALL SELECT stay FROM stays WHERE emergency) AS t

SELECT CAST(sqrt(n - 1000) AS INTEGER) AS a, CAST(ln(n - n) AS DECIMAL(9, 2)) AS b, CAST(n / (n - n) AS DOUBLE) AS c, CAST(CAST('x' || sex AS INTEGER) AS DOUBLE) AS d FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t
-- duckdb: SELECT CAST(CASE WHEN n >= 1000 THEN sqrt(n - 1000) END AS INTEGER), NULL, NULL, NULL FROM (SELECT sex, count(*) AS n FROM stays GROUP BY sex) AS t

SELECT rpad(sex, n, '.') AS p, length(repeat(sex, n / 100)) AS r, length(repeat(repeat(sex, 900), 900)) AS q, length(lpad('x', 90000, 'y')) AS l, length(replace(repeat('y', 900), 'y', repeat('z', 900))) AS z FROM (SELECT sex, 9 + 0 * count(*) AS n FROM stays GROUP BY sex) AS t
-- duckdb: SELECT rpad(sex, 9, '.'), 0, 10000, NULL, 10000 FROM (SELECT DISTINCT sex FROM stays) AS t

-- # Days as texts and parts, of answers

WITH t AS (SELECT date_trunc('month', admitted) AS m, count(*) AS n FROM stays GROUP BY 1) SELECT to_char(m, 'Mon YYYY') AS month, to_char(m, 'YYYY-MM-DD HH24:MI') AS full_month, n FROM t
-- duckdb: WITH t AS (SELECT date_trunc('month', admitted) AS m, count(*) AS n FROM stays GROUP BY 1) SELECT strftime(m, '%b %Y'), strftime(m, '%Y-%m-%d %H:%M'), n FROM t

WITH t AS (SELECT date_trunc('month', admitted) AS m, count(*) AS n FROM stays GROUP BY 1) SELECT strftime(m, '%Y/%m') AS a, dayname(m) AS b, monthname(m) AS c, n FROM t

WITH t AS (SELECT date_trunc('month', admitted) AS m, count(*) AS n FROM stays GROUP BY 1) SELECT date_part('month', m) AS a, isodow(m) AS b, weekofyear(m) AS c, hour(m) AS d, epoch(m) AS e, n FROM t
