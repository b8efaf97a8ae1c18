-- Statements as analysts and their tools write them, over the orders of a shop. Statements are separated by blank lines.
-- `-- refused:` marks one that no private answer exists for, or that shows rows: it must be refused.

-- # Plain questions

SELECT count(*) FROM orders

SELECT region, count(*) FROM orders GROUP BY region

SELECT region, count(*) AS n, avg(age) AS age FROM orders GROUP BY region ORDER BY n DESC LIMIT 3

SELECT sum(quantity) FROM orders WHERE returned

SELECT channel, median(age) FROM orders GROUP BY channel

SELECT product, stddev(unit_price) FROM orders GROUP BY product

SELECT count(*) FILTER (WHERE returned) AS returned, count(*) AS all_orders FROM orders

SELECT date_trunc('month', order_date) AS month, count(*) FROM orders GROUP BY 1 ORDER BY 1

SELECT CASE WHEN age < 30 THEN 'young' WHEN age < 60 THEN 'middle' ELSE 'old' END AS ages, count(*) FROM orders GROUP BY 1

SELECT count(DISTINCT customer_id) FROM orders

SELECT extract(year FROM order_date) AS year, sum(quantity) FROM orders GROUP BY year

SELECT region, sum(CASE WHEN returned THEN 1 ELSE 0 END) * 1.0 / count(*) AS rate FROM orders GROUP BY region

SELECT quantile(unit_price, 0.9) FROM orders WHERE channel = 'web'

SELECT count(*) FROM orders WHERE order_date BETWEEN '2024-01-01' AND '2024-03-31' AND region IN ('north', 'south')

-- # TPC-H shapes, cut to one table

SELECT returned, channel, sum(quantity) AS sum_qty, sum(unit_price) AS sum_base_price, avg(quantity) AS avg_qty, avg(unit_price) AS avg_price, avg(discount) AS avg_disc, count(*) AS count_order FROM orders WHERE order_date <= DATE '2024-09-02' GROUP BY returned, channel ORDER BY returned, channel

SELECT sum(unit_price * discount) AS revenue FROM orders WHERE order_date >= DATE '2024-01-01' AND order_date < DATE '2024-01-01' + INTERVAL '1' YEAR AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24

SELECT channel, sum(CASE WHEN region = 'north' OR region = 'south' THEN 1 ELSE 0 END) AS high_line_count, sum(CASE WHEN region <> 'north' AND region <> 'south' THEN 1 ELSE 0 END) AS low_line_count FROM orders WHERE channel IN ('web', 'shop') AND order_date >= DATE '2024-01-01' GROUP BY channel ORDER BY channel

SELECT 100.00 * sum(CASE WHEN product LIKE 'p1%' THEN quantity ELSE 0 END) / sum(quantity) AS promo_revenue FROM orders WHERE order_date >= DATE '2024-01-01'

SELECT product, sum(quantity) AS total FROM orders GROUP BY product HAVING sum(quantity) > 300 ORDER BY total DESC

WITH revenue AS (SELECT product, sum(quantity) AS total_revenue FROM orders WHERE order_date >= DATE '2024-01-01' GROUP BY product) SELECT product, total_revenue FROM revenue WHERE total_revenue = (SELECT max(total_revenue) FROM revenue) ORDER BY product

SELECT product, sum(quantity) AS value FROM orders GROUP BY product HAVING sum(quantity) > (SELECT sum(quantity) * 0.1 FROM orders) ORDER BY value DESC

SELECT o_year, sum(CASE WHEN region = 'north' THEN volume ELSE 0 END) / sum(volume) AS mkt_share FROM (SELECT extract(year FROM order_date) AS o_year, quantity AS volume, region FROM orders WHERE channel = 'web') AS all_nations GROUP BY o_year ORDER BY o_year

SELECT region, o_year, sum(amount) AS sum_profit FROM (SELECT region, extract(year FROM order_date) AS o_year, unit_price AS amount FROM orders) AS profit GROUP BY region, o_year ORDER BY region, o_year DESC

SELECT sum(unit_price * (1 - discount)) AS revenue FROM orders WHERE (product = 'p01' AND quantity BETWEEN 1 AND 11) OR (product = 'p02' AND quantity BETWEEN 10 AND 20)

SELECT c_count, count(*) AS custdist FROM (SELECT customer_id, count(*) AS c_count FROM orders GROUP BY customer_id) AS c_orders GROUP BY c_count ORDER BY custdist DESC, c_count DESC

SELECT sum(unit_price) / 7.0 AS avg_yearly FROM orders WHERE product = 'p03' AND quantity < 5

-- # TPC-DS shapes, cut to one table

SELECT product, sum(quantity) AS itemrevenue, sum(quantity) * 100.0 / sum(sum(quantity)) OVER (PARTITION BY channel) AS revenueratio FROM orders GROUP BY product, channel ORDER BY product

SELECT region, channel, sum(quantity), grouping(region) + grouping(channel) AS lochierarchy, rank() OVER (PARTITION BY grouping(region) + grouping(channel) ORDER BY sum(quantity) DESC) AS rank_within_parent FROM orders GROUP BY ROLLUP (region, channel)

WITH wss AS (SELECT region, extract(year FROM order_date) AS d_year, sum(CASE WHEN channel = 'web' THEN quantity ELSE NULL END) AS web, sum(CASE WHEN channel = 'shop' THEN quantity ELSE NULL END) AS shop FROM orders GROUP BY 1, 2) SELECT y.region, y.web / x.web AS web_ratio, y.shop / x.shop AS shop_ratio FROM (SELECT * FROM wss WHERE d_year = 2023) AS y JOIN (SELECT * FROM wss WHERE d_year = 2024) AS x ON y.region = x.region

WITH v1 AS (SELECT product, extract(month FROM order_date) AS d_moy, sum(quantity) AS sum_sales, avg(sum(quantity)) OVER (PARTITION BY product) AS avg_monthly_sales, rank() OVER (PARTITION BY product ORDER BY extract(month FROM order_date)) AS rn FROM orders GROUP BY product, extract(month FROM order_date)) SELECT v1.product, v1.d_moy, v1.sum_sales, v1_lag.sum_sales AS psum FROM v1 JOIN v1 AS v1_lag ON v1.product = v1_lag.product AND v1.rn = v1_lag.rn + 1 WHERE v1.avg_monthly_sales > 0

SELECT channel, 'web' AS col_name, count(*) AS sales_cnt, sum(quantity) AS sales_amt FROM orders WHERE channel = 'web' GROUP BY channel UNION ALL SELECT channel, 'shop' AS col_name, count(*), sum(quantity) FROM orders WHERE channel = 'shop' GROUP BY channel

SELECT amc / pmc AS am_pm_ratio FROM (SELECT count(*) AS amc FROM orders WHERE channel = 'web') AS at, (SELECT count(*) AS pmc FROM orders WHERE channel = 'shop') AS pt

SELECT region, sum(quantity) AS s, avg(sum(quantity)) OVER () AS average, CASE WHEN avg(sum(quantity)) OVER () <> 0 THEN abs(sum(quantity) - avg(sum(quantity)) OVER ()) / avg(sum(quantity)) OVER () ELSE NULL END AS away FROM orders GROUP BY region

SELECT (SELECT count(*) FROM orders WHERE quantity BETWEEN 1 AND 5) AS bucket1, (SELECT count(*) FROM orders WHERE quantity BETWEEN 6 AND 10) AS bucket2, (SELECT avg(discount) FROM orders WHERE quantity BETWEEN 11 AND 20) AS bucket3

WITH ssr AS (SELECT 'store' AS channel, region AS id, sum(quantity) AS sales FROM orders WHERE channel = 'shop' GROUP BY region), wsr AS (SELECT 'web' AS channel, region AS id, sum(quantity) AS sales FROM orders WHERE channel = 'web' GROUP BY region) SELECT channel, id, sum(sales) AS sales FROM (SELECT * FROM ssr UNION ALL SELECT * FROM wsr) AS x GROUP BY ROLLUP (channel, id) ORDER BY channel, id LIMIT 100

SELECT * FROM (SELECT avg(unit_price) AS b1_lp, count(unit_price) AS b1_cnt FROM orders WHERE quantity BETWEEN 0 AND 5) AS b1, (SELECT avg(unit_price) AS b2_lp, count(unit_price) AS b2_cnt FROM orders WHERE quantity BETWEEN 6 AND 10) AS b2 LIMIT 100

SELECT region, rank() OVER (ORDER BY avg(unit_price) DESC) AS rnk FROM orders GROUP BY region HAVING avg(unit_price) > 0.9 * (SELECT avg(unit_price) FROM orders)

SELECT product, max(quarter_sales) AS best FROM (SELECT product, date_trunc('quarter', order_date) AS q, sum(quantity) AS quarter_sales FROM orders GROUP BY 1, 2) AS t GROUP BY product

-- # Superset

SELECT region AS region, COUNT(*) AS "count" FROM public.orders WHERE order_date >= TO_DATE('2024-01-01', 'YYYY-MM-DD') AND order_date < TO_DATE('2025-01-01', 'YYYY-MM-DD') GROUP BY region ORDER BY "count" DESC LIMIT 100

SELECT DATE_TRUNC('month', order_date) AS order_date, region AS region, COUNT(*) AS count FROM public.orders JOIN (SELECT region AS region__, COUNT(*) AS mme_inner__ FROM public.orders GROUP BY region ORDER BY mme_inner__ DESC LIMIT 3) AS anon_1 ON region = region__ GROUP BY DATE_TRUNC('month', order_date), region ORDER BY count DESC LIMIT 50000

SELECT "region" AS "region", SUM("quantity") AS "SUM(quantity)" FROM "public"."orders" GROUP BY "region" ORDER BY "SUM(quantity)" DESC LIMIT 10

SELECT DISTINCT region AS region FROM public.orders ORDER BY region ASC LIMIT 1000

SELECT DATE_TRUNC('day', order_date) AS __timestamp, sum(quantity) AS "sum__quantity" FROM (SELECT * FROM orders WHERE region = 'north') AS virtual_table GROUP BY DATE_TRUNC('day', order_date) ORDER BY "sum__quantity" DESC LIMIT 50000

SELECT COUNT(*) AS rowcount FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) AS virtual_table

SELECT region, channel, sum(quantity) AS total FROM orders GROUP BY GROUPING SETS ((region, channel), (region), ()) ORDER BY total DESC LIMIT 1000

SELECT AVG(quantity) AS "AVG(quantity)", COUNT(*) AS "COUNT(*)" FROM orders WHERE ((region IN ('north', 'west')))

SELECT * FROM orders LIMIT 1001
-- refused: rows

-- # Metabase

SELECT "source"."region" AS "region", COUNT(*) AS "count" FROM (SELECT "public"."orders"."region" AS "region", "public"."orders"."quantity" AS "quantity" FROM "public"."orders") AS "source" GROUP BY "source"."region" ORDER BY "source"."region" ASC

SELECT CAST(DATE_TRUNC('month', "public"."orders"."order_date") AS date) AS "order_date", COUNT(*) AS "count" FROM "public"."orders" GROUP BY CAST(DATE_TRUNC('month', "public"."orders"."order_date") AS date) ORDER BY CAST(DATE_TRUNC('month', "public"."orders"."order_date") AS date) ASC

SELECT SUM("public"."orders"."quantity") AS "sum" FROM "public"."orders" WHERE ("public"."orders"."order_date" >= DATE '2024-01-01') AND ("public"."orders"."order_date" < DATE '2024-02-01')

SELECT FLOOR((("public"."orders"."age" - 0.0) / 10.0)) * 10.0 + 0.0 AS "age", COUNT(*) AS "count" FROM "public"."orders" GROUP BY FLOOR((("public"."orders"."age" - 0.0) / 10.0)) * 10.0 + 0.0 ORDER BY 1

SELECT "source"."month" AS "month", "source"."sum" AS "sum", "source"."sum" - LAG("source"."sum", 1) OVER (ORDER BY "source"."month" ASC) AS "offset" FROM (SELECT DATE_TRUNC('month', "public"."orders"."order_date") AS "month", SUM("public"."orders"."quantity") AS "sum" FROM "public"."orders" GROUP BY DATE_TRUNC('month', "public"."orders"."order_date")) AS "source" LIMIT 2000

SELECT "public"."orders"."region" AS "region", SUM(COUNT(*)) OVER (ORDER BY "public"."orders"."region" ASC ROWS UNBOUNDED PRECEDING) AS "count" FROM "public"."orders" GROUP BY "public"."orders"."region" ORDER BY "public"."orders"."region" ASC

SELECT "public"."orders"."region" AS "region" FROM "public"."orders" GROUP BY "public"."orders"."region" ORDER BY "public"."orders"."region" ASC LIMIT 1000

SELECT AVG("source"."count") AS "avg" FROM (SELECT "public"."orders"."region" AS "region", COUNT(*) AS "count" FROM "public"."orders" GROUP BY "public"."orders"."region") AS "source"

SELECT COUNT(*) AS "count" FROM "public"."orders" WHERE "public"."orders"."age" >= '65'

SELECT COUNT(*) AS "count" FROM "public"."orders" WHERE LOWER("public"."orders"."region") LIKE '%nor%'

-- # Grafana

SELECT date_trunc('day', order_date) AS "time", count(*) AS "orders" FROM orders WHERE order_date BETWEEN '2024-01-01T00:00:00Z' AND '2024-12-31T23:59:59Z' GROUP BY 1 ORDER BY 1

SELECT date_trunc('week', order_date) AS time, channel AS metric, sum(quantity) AS value FROM orders GROUP BY 1, 2 ORDER BY 1

SELECT time, value - lag(value) OVER (ORDER BY time) AS delta FROM (SELECT date_trunc('month', order_date) AS time, count(*) AS value FROM orders GROUP BY 1) AS q ORDER BY time

SELECT date_trunc('month', order_date) AS time, avg(count(*)) OVER (ORDER BY date_trunc('month', order_date) ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS "3-month average" FROM orders GROUP BY 1

SELECT extract(dow FROM order_date) AS day, count(*) FROM orders GROUP BY 1 ORDER BY 1

SELECT count(*) FILTER (WHERE returned)::float / nullif(count(*), 0) * 100 AS "return rate" FROM orders WHERE order_date >= '2024-06-01'

-- # Tableau

SELECT "orders"."region" AS "region", SUM(1) AS "sum:Number of Records:ok" FROM "public"."orders" "orders" GROUP BY 1

SELECT "Custom SQL Query"."region" AS "region", SUM("Custom SQL Query"."quantity") AS "sum:quantity:ok" FROM (SELECT * FROM orders) "Custom SQL Query" GROUP BY 1

SELECT "t0"."region" AS "region", "t0"."x" / NULLIF("t1"."y", 0) AS "share" FROM (SELECT "region" AS "region", SUM("quantity") AS "x" FROM "orders" GROUP BY 1) "t0" CROSS JOIN (SELECT SUM("quantity") AS "y" FROM "orders") "t1"

SELECT CAST(EXTRACT(YEAR FROM "orders"."order_date") AS INTEGER) AS "yr:order_date:ok", COUNT(*) AS "cnt" FROM "orders" GROUP BY 1

SELECT DATE_TRUNC('MONTH', CAST("orders"."order_date" AS DATE)) AS "tmn", AVG("orders"."unit_price") AS "avg" FROM "orders" GROUP BY 1

SELECT (CASE WHEN ("orders"."quantity" > 10) THEN 'big' ELSE 'small' END) AS "Size", SUM("orders"."quantity") AS "q" FROM "orders" GROUP BY 1

SELECT "orders"."channel" AS "channel", COUNT(DISTINCT "orders"."customer_id") AS "ctd:customer_id:ok" FROM "orders" GROUP BY 1

SELECT MIN("orders"."order_date") AS "a", MAX("orders"."order_date") AS "b" FROM "orders" HAVING (COUNT(1) > 0)

SELECT 1 AS "one" FROM "orders" LIMIT 0

-- # Power BI

SELECT "_"."region", "_"."a0" FROM (SELECT "_"."region", sum("_"."quantity") AS "a0" FROM (SELECT "_"."region", "_"."quantity" FROM "public"."orders" AS "_") AS "_" GROUP BY "_"."region") AS "_" WHERE NOT "_"."a0" IS NULL

SELECT "t"."region", count(*) AS "c" FROM (SELECT * FROM "public"."orders" "$Table" WHERE "$Table"."channel" = 'web') AS "t" GROUP BY "t"."region" LIMIT 1001

SELECT sum(cast("rows"."quantity" as decimal)) as "a0", "rows"."channel" as "channel" from (select "region", "channel", "quantity" from "orders" "$Table") "rows" group by "channel"

SELECT "basetable0"."c1" AS "c1", sum("basetable0"."q") AS "a0" FROM (SELECT "t1"."region" AS "c1", "t1"."quantity" AS "q" FROM "orders" AS "t1" WHERE "t1"."returned" = TRUE) AS "basetable0" GROUP BY "basetable0"."c1" ORDER BY "basetable0"."c1" LIMIT 501

-- # dbt, Looker and hand-written models

WITH source AS (SELECT * FROM orders), renamed AS (SELECT region AS area, quantity AS pieces, order_date AS day FROM source) SELECT area, sum(pieces) FROM renamed GROUP BY area

WITH monthly AS (SELECT date_trunc('month', order_date) AS month, count(*) AS n FROM orders GROUP BY 1), changes AS (SELECT month, n, lag(n) OVER (ORDER BY month) AS before FROM monthly) SELECT month, n, round(100.0 * (n - before) / before, 1) AS growth FROM changes ORDER BY month

WITH totals AS (SELECT region, sum(quantity) AS q FROM orders GROUP BY region), grand AS (SELECT sum(q) AS all_q FROM totals) SELECT t.region, round(100 * t.q / g.all_q, 2) AS percent FROM totals t, grand g ORDER BY percent DESC

SELECT orders.region AS "orders.region", COUNT(*) AS "orders.count", COALESCE(SUM(orders.quantity), 0) AS "orders.total" FROM public.orders AS orders GROUP BY 1 ORDER BY 2 DESC LIMIT 500

WITH this_year AS (SELECT region, count(*) AS n FROM orders WHERE order_date >= '2024-01-01' GROUP BY region), last_year AS (SELECT region, count(*) AS n FROM orders WHERE order_date < '2024-01-01' GROUP BY region) SELECT region, this_year.n - last_year.n AS change FROM this_year JOIN last_year USING (region)

WITH a AS (SELECT region, count(*) AS n FROM orders GROUP BY region) SELECT * FROM a UNION ALL SELECT 'total', sum(n) FROM a

SELECT month, sum(n) OVER (ORDER BY month) AS running_total FROM (SELECT date_trunc('month', order_date) AS month, count(*) AS n FROM orders GROUP BY 1) AS t

SELECT region, n, n - first_value(n) OVER (ORDER BY n DESC) AS behind_leader FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) AS t

SELECT quartile, count(*) AS products, sum(n) AS orders FROM (SELECT product, count(*) AS n, ntile(4) OVER (ORDER BY count(*)) AS quartile FROM orders GROUP BY product) AS t GROUP BY quartile ORDER BY quartile

SELECT CASE WHEN share > 0.2 THEN 'large' ELSE 'small' END AS size, count(*) AS regions FROM (SELECT region, count(*) / sum(count(*)) OVER () AS share FROM orders GROUP BY region) AS t GROUP BY 1

-- # Percent of total, change, ranks

SELECT region, count(*) AS n, 100.0 * count(*) / sum(count(*)) OVER () AS percent FROM orders GROUP BY region

SELECT region, channel, round(100.0 * sum(quantity) / sum(sum(quantity)) OVER (PARTITION BY region), 1) AS percent FROM orders GROUP BY region, channel

SELECT date_trunc('month', order_date) AS month, count(*) AS n, count(*) - lag(count(*), 12) OVER (ORDER BY date_trunc('month', order_date)) AS versus_last_year FROM orders GROUP BY 1

SELECT product, sum(quantity) AS q, rank() OVER (ORDER BY sum(quantity) DESC) AS place FROM orders GROUP BY product QUALIFY rank() OVER (ORDER BY sum(quantity) DESC) <= 5

SELECT region, product, n FROM (SELECT region, product, count(*) AS n, row_number() OVER (PARTITION BY region ORDER BY count(*) DESC) AS rn FROM orders GROUP BY region, product) AS t WHERE rn <= 3

SELECT region, count(*) FROM orders WHERE region IN (SELECT region FROM orders GROUP BY region ORDER BY count(*) DESC LIMIT 3) GROUP BY region

SELECT sum(n) FILTER (WHERE place <= 3) / sum(n) AS concentration FROM (SELECT product, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS place FROM orders GROUP BY product) AS t

SELECT region, count(*) AS n, dense_rank() OVER (ORDER BY count(*) DESC) AS place, cume_dist() OVER (ORDER BY count(*)) AS part FROM orders GROUP BY region

SELECT sqrt(avg(n * n) - avg(n) * avg(n)) AS spread FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) AS t

SELECT greatest(n, 0) AS n, region FROM (SELECT region, count(*) AS n FROM orders WHERE returned GROUP BY region) AS t

-- # Subselects and set operations

SELECT count(*) * 1.0 / (SELECT count(*) FROM orders) AS share FROM orders WHERE returned

SELECT region FROM (SELECT region, avg(age) AS a FROM orders GROUP BY region) AS t WHERE a > (SELECT avg(age) FROM orders)

SELECT max(n) - min(n) AS range FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) AS t

SELECT a.region, a.n AS web, b.n AS shop FROM (SELECT region, count(*) AS n FROM orders WHERE channel = 'web' GROUP BY region) AS a FULL JOIN (SELECT region, count(*) AS n FROM orders WHERE channel = 'shop' GROUP BY region) AS b ON a.region = b.region

SELECT region, count(*) FROM orders GROUP BY region UNION ALL SELECT 'all', count(*) FROM orders ORDER BY 2 DESC

SELECT region, count(*) FROM orders GROUP BY region HAVING count(*) > (SELECT avg(n) FROM (SELECT count(*) AS n FROM orders GROUP BY region) AS t)

SELECT count(*) FROM (SELECT region FROM orders GROUP BY region HAVING count(*) > 100) AS t

SELECT coalesce(region, 'all regions') AS region, count(*) FROM orders GROUP BY ROLLUP (region)

SELECT region, channel, returned, count(*) FROM orders GROUP BY CUBE (region, channel, returned)

SELECT region, avg(age) FROM (SELECT * FROM orders WHERE quantity > 3) AS t WHERE channel = 'web' GROUP BY region

SELECT count(*) FROM orders WHERE age > (SELECT avg(age) FROM orders)
-- refused: which rows depends on an answer

SELECT a.region, b.region FROM orders a JOIN orders b ON a.customer_id = b.customer_id
-- refused: a self-join

-- # Functions of results

SELECT region, round(avg(unit_price), 2) AS price FROM orders GROUP BY region

SELECT region, CAST(avg(age) AS INTEGER) AS age, avg(unit_price)::numeric(10, 2) AS price FROM orders GROUP BY region

SELECT upper(region) AS region, count(*) FROM orders GROUP BY region

SELECT region || ' (' || channel || ')' AS label, count(*) FROM orders GROUP BY region, channel

SELECT concat(region, '-', channel) AS label, sum(quantity) FROM orders GROUP BY region, channel

SELECT coalesce(sum(quantity), 0) AS q, nullif(count(*), 0) AS n FROM orders WHERE product = 'p05'

SELECT ln(count(*)) AS log_orders, power(count(*), 2) AS square, abs(count(*) - 1000) AS away FROM orders

SELECT CASE WHEN count(*) > 1000 THEN 'busy' ELSE 'quiet' END AS state, region FROM orders GROUP BY region

SELECT to_char(date_trunc('month', order_date), 'YYYY-MM') AS month, count(*) FROM orders GROUP BY 1

SELECT region, count(*) FROM orders GROUP BY region HAVING lower(region) LIKE 'n%'

SELECT sum(unit_price) AS s, DP_INTERVAL_LOW(s) AS low, DP_INTERVAL_HIGH(s) AS high FROM orders

EXPLAIN SELECT region, count(*) FROM orders GROUP BY region

-- # Row-wise expressions

SELECT sum(quantity * unit_price) AS revenue FROM orders

SELECT region, sum(quantity * unit_price * (1 - discount)) AS revenue FROM orders GROUP BY region

SELECT avg(unit_price - discount) FROM orders

SELECT floor(age / 10) * 10 AS decade, count(*) FROM orders GROUP BY 1 ORDER BY 1

SELECT width_bucket(age, 0, 100, 10) AS bucket, count(*) FROM orders GROUP BY 1

SELECT count(*) FROM orders WHERE shipped - order_date > 7

SELECT count(*) FROM orders WHERE quantity < age

SELECT mod(quantity, 2) AS odd, count(*) FROM orders GROUP BY 1

SELECT strftime(order_date, '%Y-%m') AS month, count(*) FROM orders GROUP BY 1

SELECT count(*) FROM orders WHERE order_date >= current_date - INTERVAL '30 days'

SELECT substr(product, 1, 2) AS family, count(*) FROM orders GROUP BY 1

SELECT coalesce(region, 'unknown') AS region, count(*) FROM orders GROUP BY coalesce(region, 'unknown')

SELECT corr(age, unit_price) FROM orders

SELECT regr_slope(unit_price, age), regr_intercept(unit_price, age) FROM orders

SELECT sum(greatest(quantity - 5, 0)) FROM orders

SELECT count(*) FROM orders WHERE round(unit_price) = 20

SELECT count(DISTINCT region) FROM orders

SELECT count(*) FROM orders WHERE region = ANY(ARRAY['north', 'south'])

SELECT avg(abs(age - 40)) FROM orders

SELECT date_part('quarter', order_date) AS q, count(*) FROM orders GROUP BY 1

SELECT TOP 5 region, count(*) FROM orders GROUP BY region
-- refused: another dialect's word, pointed to LIMIT

-- # People and several tables

SELECT avg(n) FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id) AS t

SELECT count(*) FROM (SELECT customer_id FROM orders GROUP BY customer_id HAVING sum(quantity) > 20) AS t

SELECT n, count(*) AS people FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id) AS t GROUP BY n ORDER BY n

SELECT avg(CASE WHEN bad > 0 THEN 1.0 ELSE 0 END) AS share FROM (SELECT customer_id, count(*) FILTER (WHERE returned) AS bad FROM orders GROUP BY customer_id) AS t

SELECT r.country, count(*) FROM orders o JOIN regions r ON o.region = r.region GROUP BY r.country

SELECT r.manager, sum(o.quantity) AS q FROM orders AS o LEFT JOIN regions AS r USING (region) GROUP BY r.manager ORDER BY q DESC

SELECT c.segment, avg(o.unit_price) FROM orders o JOIN customers c ON o.customer_id = c.customer_id GROUP BY c.segment

-- # Refused

SELECT customer_id, age FROM orders WHERE age > 90
-- refused: rows

SELECT customer_id, sum(quantity) FROM orders GROUP BY customer_id
-- refused: people

SELECT region, age, row_number() OVER (PARTITION BY region ORDER BY age) FROM orders
-- refused: rows

SELECT count(*) FROM orders TABLESAMPLE BERNOULLI (10)
-- refused: samples

SELECT * FROM read_parquet('orders.parquet')
-- refused: files

WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT sum(n) FROM t
-- refused: recursion

DELETE FROM orders
-- refused: another statement

SELECT string_agg(region, ',') FROM orders
-- refused: rows as a text

-- # As a newcomer writes
SELECT region, returned, COUNT(*) AS visits, ROUND(AVG(unit_price), 2) AS avg_stay FROM orders WHERE order_date BETWEEN '2023-12-01' AND '2024-01-31' GROUP BY region, returned ORDER BY visits DESC

SELECT COUNT(*) AS n, COUNT(*) FILTER (WHERE age >= 10) AS older, COUNT(*) FILTER (WHERE age >= 10) * 100.0 / COUNT(*) AS pct FROM orders

SELECT date_trunc('week', order_date) AS wk, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY date_trunc('week', order_date)) AS cumulative FROM orders GROUP BY 1 ORDER BY 1

SELECT EXTRACT(YEAR FROM order_date)::int AS y, EXTRACT(MONTH FROM order_date)::int AS m, COUNT(*) FROM orders GROUP BY y, m ORDER BY y, m

SELECT CASE WHEN unit_price = 0 THEN 'none' WHEN unit_price < 1 THEN 'short' WHEN unit_price BETWEEN 1 AND 3 THEN 'mid' ELSE 'long' END AS bucket, COUNT(*) AS n, AVG(age) AS a FROM orders GROUP BY 1 HAVING COUNT(*) > 50 ORDER BY n

SELECT region, SUM(unit_price) AS days, SUM(unit_price) / SUM(SUM(unit_price)) OVER () AS share FROM orders GROUP BY region

WITH m AS (SELECT date_trunc('month', order_date) AS month, region, COUNT(*) AS n FROM orders GROUP BY 1, 2) SELECT month, SUM(CASE WHEN region = 'north' THEN n ELSE 0 END) AS f, SUM(CASE WHEN region = 'south' THEN n ELSE 0 END) AS m, SUM(n) AS total FROM m GROUP BY month ORDER BY month

SELECT a.region, a.n, b.n AS emergencies, b.n * 1.0 / NULLIF(a.n, 0) AS rate FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) a LEFT JOIN (SELECT region, COUNT(*) AS n FROM orders WHERE returned GROUP BY region) b ON a.region = b.region

SELECT COUNT(*) FROM orders WHERE region IN ('north', 'south') AND NOT (age < 3 OR age > 15) AND order_date >= DATE '2024-01-01' - INTERVAL '2 weeks'

SELECT region, COUNT(CASE WHEN returned THEN 1 END) AS e, COUNT(CASE WHEN NOT returned THEN 1 END) AS p FROM orders GROUP BY region

SELECT region, AVG(CASE WHEN returned THEN unit_price END) AS e_stay, AVG(CASE WHEN NOT returned THEN unit_price END) AS p_stay FROM orders GROUP BY region

SELECT age / 5 AS g, COUNT(*) FROM orders WHERE age % 5 = 0 GROUP BY 1

SELECT age // 5 * 5 AS g, COUNT(*), AVG(unit_price) FROM orders GROUP BY 1 ORDER BY 1

SELECT region, MAX(n) FROM (SELECT region, date_trunc('month', order_date) AS m, COUNT(*) AS n FROM orders GROUP BY 1, 2) t GROUP BY region

SELECT m, n, LAG(n) OVER (ORDER BY m) AS prev, (n - LAG(n) OVER (ORDER BY m)) * 100.0 / LAG(n) OVER (ORDER BY m) AS growth FROM (SELECT date_trunc('month', order_date) AS m, COUNT(*) AS n FROM orders GROUP BY 1) t ORDER BY m

SELECT strftime(order_date, '%Y-%m') AS ym, COUNT(*) FROM orders WHERE strftime(order_date, '%Y') = '2024' GROUP BY ym

SELECT dayname(order_date) AS d, COUNT(*) AS n FROM orders GROUP BY 1 ORDER BY n DESC

SELECT EXTRACT(isodow FROM order_date) IN (6, 7) AS weekend, COUNT(*), AVG(unit_price) FROM orders GROUP BY 1

SELECT region, VAR_SAMP(unit_price) AS v, STDDEV(unit_price) / AVG(unit_price) AS cv FROM orders GROUP BY region

SELECT SUM(unit_price * age) / SUM(age) AS weighted FROM orders

SELECT COUNT(*) - COUNT(unit_price) AS missing FROM orders

SELECT COALESCE(region, 'n/a') AS s, COUNT(*) AS c FROM orders GROUP BY COALESCE(region, 'n/a') ORDER BY c DESC LIMIT 2

SELECT * FROM (SELECT region, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS rn FROM orders GROUP BY region) t WHERE rn = 1

SELECT region, n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t ORDER BY n DESC LIMIT 1 OFFSET 1

SELECT 'total' AS label, COUNT(*) AS n FROM orders UNION ALL SELECT 'returned', COUNT(*) FROM orders WHERE returned UNION ALL SELECT 'planned', COUNT(*) FROM orders WHERE NOT returned

SELECT region, COUNT(*) AS n FROM orders WHERE age BETWEEN 5 AND 10 GROUP BY region HAVING AVG(unit_price) > 0.5

SELECT region, COUNT(*) FROM orders WHERE order_date >= '2024-01-01'::date AND order_date < '2024-02-01'::date GROUP BY region

SELECT COUNT(*) FROM orders WHERE order_date >= '2024-01-01 00:00:00'::timestamp AND order_date <= '2024-01-31 23:59:59'::timestamp

SELECT COUNT(*) FROM orders WHERE (region = 'north' AND age > 10) OR (region = 'south' AND unit_price > 2)

SELECT COUNT(DISTINCT region) AS regions, COUNT(*) AS rows FROM orders

SELECT region, age, COUNT(*) FROM orders WHERE age IN (1, 2, 3) GROUP BY GROUPING SETS ((region, age), (age), ())

SELECT IF(returned, 'E', 'P') AS kind, COUNT(*) FROM orders GROUP BY 1

SELECT IIF(returned, 'E', 'P') AS kind, COUNT(*) FROM orders GROUP BY 1

SELECT region, QUANTILE_CONT(unit_price, 0.5) AS med FROM orders GROUP BY region

SELECT PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY age) AS p25, PERCENTILE_DISC(0.75) WITHIN GROUP (ORDER BY age) AS p75 FROM orders

SELECT width_bucket(unit_price, 0, 5, 5) AS b, COUNT(*) FROM orders WHERE unit_price >= 0 GROUP BY b ORDER BY b

SELECT ROUND(unit_price) AS days, COUNT(*) AS n, ROUND(100.0 * COUNT(*) / SUM(COUNT(*)) OVER (), 1) AS pct FROM orders GROUP BY ROUND(unit_price) ORDER BY days

SELECT CONCAT(region, '/', CASE WHEN returned THEN 'E' ELSE 'P' END) AS k, COUNT(*) FROM orders GROUP BY 1

SELECT region, SUM(n) AS n FROM (SELECT region, COUNT(*) AS n FROM orders WHERE returned GROUP BY region UNION ALL SELECT region, COUNT(*) AS n FROM orders WHERE NOT returned GROUP BY region) u GROUP BY region

WITH t AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region), r AS (SELECT region, n, PERCENT_RANK() OVER (ORDER BY n) AS pr FROM t) SELECT * FROM r

SELECT region, AVG(n) AS per_month FROM (SELECT region, date_trunc('month', order_date) AS m, COUNT(*) AS n FROM orders GROUP BY region, m) q GROUP BY region

SELECT EXISTS (SELECT 1 FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t WHERE n > 100) AS any_large

SELECT region, COUNT(*) FROM orders GROUP BY region HAVING COUNT(*) = (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM orders GROUP BY region) x)

SELECT (SELECT AVG(unit_price) FROM orders WHERE returned) - (SELECT AVG(unit_price) FROM orders WHERE NOT returned) AS difference

SELECT COUNT(*) FROM orders WHERE abs(age - 10) <= 2

SELECT COUNT(*) FROM orders WHERE unit_price * 2 > age

SELECT COUNT(*) FROM orders WHERE order_date + INTERVAL '1 month' > DATE '2024-03-15'

SELECT AVG(date_diff('day', DATE '2023-11-01', order_date)) AS d FROM orders

SELECT SUM(returned::int) AS e, AVG(returned::int) AS share FROM orders

SELECT SUM(CAST(returned AS INTEGER)) FROM orders WHERE region LIKE 'n%'

SELECT MEDIAN(age) FILTER (WHERE returned) AS e, MEDIAN(age) FILTER (WHERE NOT returned) AS p FROM orders

SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY AVG(unit_price) DESC) AS r FROM orders GROUP BY region ORDER BY r

SELECT region, first_value(n) OVER (ORDER BY n DESC) - n AS behind FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t

SELECT date_trunc('month', order_date) AS m, AVG(COUNT(*)) OVER (ORDER BY date_trunc('month', order_date) ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS smooth FROM orders GROUP BY m

SELECT region, CASE WHEN SUM(unit_price) > 1000 THEN ROUND(SUM(unit_price) / 1000, 1) || 'k' ELSE CAST(SUM(unit_price) AS VARCHAR) END AS label FROM orders GROUP BY region

SELECT region, SUM(CASE WHEN date_part('year', order_date) = 2023 THEN 1 ELSE 0 END) AS y2023, SUM(CASE WHEN date_part('year', order_date) = 2024 THEN 1 ELSE 0 END) AS y2024 FROM orders GROUP BY region

SELECT LOG(COUNT(*)) AS l10, LN(COUNT(*)) AS ln, LOG10(COUNT(*)) AS l FROM orders

SELECT region, COUNT(*) FROM orders WHERE region NOT IN ('east') GROUP BY ALL ORDER BY ALL

SELECT region s, COUNT(*) c FROM orders t WHERE t.age > 3 GROUP BY t.region ORDER BY c

SELECT COUNT(*) AS n FROM orders WHERE TRUE AND 1 = 1 AND (region = 'north' OR FALSE)

SELECT MOD(age, 2) = 0 AS even, COUNT(*) FROM orders GROUP BY 1

SELECT UPPER(LEFT(region, 1)) AS initial, COUNT(*) FROM orders GROUP BY 1

SELECT region, SUM(unit_price) FILTER (WHERE returned) - SUM(unit_price) FILTER (WHERE NOT returned) AS diff FROM orders GROUP BY region

SELECT AVG(age) AS mean, SQRT(VAR_SAMP(age)) AS sd, SQRT(VAR_SAMP(age) / COUNT(*)) AS se FROM orders

SELECT CORR(age, unit_price) AS r, REGR_SLOPE(unit_price, age) AS b FROM orders WHERE returned

SELECT t.region, t.returned, t.n * 1.0 / s.n AS share FROM (SELECT region, returned, COUNT(*) AS n FROM orders GROUP BY 1, 2) t JOIN (SELECT region, COUNT(*) AS n FROM orders GROUP BY 1) s USING (region)

SELECT date_trunc('quarter', order_date)::date AS q, COUNT(*) FROM orders GROUP BY 1 ORDER BY q NULLS FIRST

SELECT to_char(order_date, 'Mon YYYY') AS label, COUNT(*) FROM orders GROUP BY 1

SELECT CEIL(age / 10.0) AS d, COUNT(*) FROM orders GROUP BY 1 ORDER BY 1

SELECT ARG_MAX(region, n) AS biggest FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t

SELECT region, LISTAGG(m, ', ') AS months FROM (SELECT region, monthname(order_date) AS m, COUNT(*) AS n FROM orders GROUP BY 1, 2) t WHERE n > 10 GROUP BY region

SELECT region, n, SUM(n) OVER w AS running FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t WINDOW w AS (ORDER BY region)

SELECT COUNT(*) FROM orders WHERE NULLIF(age, 0) IS NULL

SELECT COUNT(*) FILTER (WHERE region = 'north' AND returned) AS a, SUM(unit_price) FILTER (WHERE age > 5 AND age <= 10) AS b FROM orders WHERE order_date > '2023-12-31'

SELECT region, MIN(n), MAX(n), AVG(n), STDDEV(n) FROM (SELECT region, order_date, COUNT(*) AS n FROM orders GROUP BY region, order_date) t GROUP BY region

SELECT BOOL_OR(n > 2000) AS some, BOOL_AND(n > 10) AS every FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) t

SELECT date_add(date_trunc('month', order_date), INTERVAL 1 MONTH) AS next, COUNT(*) FROM orders GROUP BY 1

SELECT age, COUNT(*) AS n, SUM(COUNT(*)) OVER (ORDER BY age) * 100.0 / SUM(COUNT(*)) OVER () AS cum_pct FROM orders GROUP BY age ORDER BY age

SELECT SIGN(age - 10) AS side, COUNT(*), SUM(unit_price) FROM orders GROUP BY 1

SELECT region, GREATEST(COUNT(*) - 100, 0) AS above FROM orders GROUP BY region

SELECT NTILE(2) OVER (ORDER BY n) AS half, SUM(n) FROM (SELECT age, COUNT(*) AS n FROM orders GROUP BY age) t GROUP BY 1

SELECT half, SUM(n) FROM (SELECT age, COUNT(*) AS n, NTILE(2) OVER (ORDER BY age) AS half FROM orders GROUP BY age) t GROUP BY half

SELECT region, COUNT(*) AS n FROM orders GROUP BY region EXCEPT SELECT region, COUNT(*) FROM orders WHERE FALSE GROUP BY region

SELECT region, COUNT(*) FROM (SELECT region, age FROM orders WHERE returned UNION ALL SELECT region, age FROM orders WHERE NOT returned) t GROUP BY region

SELECT COUNT(*) FROM orders s WHERE s.age > (SELECT AVG(t.age) FROM orders t WHERE t.region = s.region)
-- refused: which rows depends on an answer

SELECT SUM(unit_price) OVER (PARTITION BY region) FROM orders
-- refused: rows

SELECT region, MODE(age) FROM orders GROUP BY region

SELECT region, COUNT(*) FROM orders GROUP BY region ORDER BY RANDOM()
-- refused: a random order

SELECT APPROX_COUNT_DISTINCT(customer_id) FROM orders

SELECT COUNT(DISTINCT region || returned) FROM orders

SELECT COUNT(DISTINCT (region, returned)) FROM orders

SELECT region, FIRST(age) FROM orders GROUP BY region
-- refused: rows

SELECT HISTOGRAM(age) FROM orders

SELECT PRODUCT(age) FROM orders
-- refused: one row decides it

SELECT COUNT(*) FROM orders WHERE region ~ '^f'

SELECT COUNT(*) FROM orders WHERE region SIMILAR TO 'n%'

SELECT region, COUNT(*) FROM orders GROUP BY region FETCH FIRST 2 ROWS ONLY

PIVOT orders ON region USING COUNT(*)

SELECT region, AVG(age)::numeric(10,1) FROM orders GROUP BY region

SELECT SUM(unit_price) / NULLIF(COUNT(DISTINCT customer_id), 0) AS per_person FROM orders

-- # Tables in WHERE, and the times of dashboards
SELECT r.country, sum(o.quantity) AS q FROM orders o, regions r WHERE o.region = r.region AND o.order_date >= DATE '2024-01-01' GROUP BY r.country ORDER BY q DESC

SELECT r.manager, count(*) FROM regions r JOIN orders o ON r.region = o.region AND o.channel = 'web' GROUP BY r.manager

SELECT channel AS channel, sum(unit_price) AS "SUM(unit_price)" FROM (SELECT * FROM orders WHERE returned = false) AS virtual_table WHERE order_date >= TO_TIMESTAMP('2024-01-08 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') AND order_date < TO_TIMESTAMP('2024-02-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US') GROUP BY channel ORDER BY "SUM(unit_price)" DESC LIMIT 1000

SELECT time_bucket(INTERVAL '2 weeks', order_date) AS "time", count(*) FROM orders GROUP BY 1 ORDER BY 1

SELECT date_bin('7 days', order_date, DATE '2024-01-01') AS "time", sum(quantity) FROM orders WHERE order_date >= '2024-01-01' GROUP BY 1

SELECT floor(extract(epoch FROM order_date) / 604800) * 604800 AS "time", count(*) AS n FROM orders WHERE order_date BETWEEN '2024-01-01T00:00:00Z' AND '2024-03-31T23:59:59Z' GROUP BY 1 ORDER BY 1

SELECT DATE_TRUNC(order_date, MONTH) AS month, COUNT(*) FROM orders GROUP BY 1

SELECT DATEPART(quarter, order_date) AS q, avg(unit_price) FROM orders GROUP BY 1

SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-7, privacy_unit_column=customer_id) region, count(*) / sum(count(*)) OVER () AS share FROM orders GROUP BY region

SELECT (region, channel), count(*) FROM orders GROUP BY (region, channel)
-- refused: several values in one column

-- # As other tools spell it, and as dashboards about people ask
-- id: tools-01
SELECT `region`, COUNT(*) AS `n` FROM `orders` GROUP BY `region` ORDER BY `n` DESC

-- id: tools-02
SELECT DATE_TRUNC(order_date, MONTH) AS month, COUNTIF(returned) AS returns, SAFE_DIVIDE(COUNTIF(returned), COUNT(*)) AS rate FROM `orders` GROUP BY month ORDER BY month

-- id: tools-03
SELECT FORMAT_DATE('%Y-%m', order_date) AS ym, COUNT(*) AS n FROM `orders` GROUP BY ym

-- id: tools-04
SELECT IF(quantity > 10, 'big', 'small') AS size, COUNT(*) AS n, IFNULL(SUM(unit_price), 0) AS p FROM orders GROUP BY size

-- id: tools-05
SELECT APPROX_QUANTILES(quantity, 4) FROM orders
-- refused: a list of quantiles

-- id: tools-06
SELECT region, DIV0(SUM(unit_price), SUM(quantity)) AS per_piece, ZEROIFNULL(SUM(quantity)) AS q FROM orders GROUP BY region

-- id: tools-07
SELECT region, IFF(COUNT(*) > 1000, 'many', 'few') AS size FROM orders GROUP BY region

-- id: tools-08
SELECT DECODE(channel, 'web', 'online', 'phone', 'remote', 'store') AS kind, COUNT(*) FROM orders GROUP BY 1

-- id: tools-09
SELECT NVL2(region, 'known', 'unknown') AS k, COUNT(*) FROM orders GROUP BY 1

-- id: tools-10
SELECT region, SUMIF(unit_price, returned) AS lost FROM orders GROUP BY region

-- id: tools-11
SELECT DATEADD(month, 1, order_date) AS next_month, COUNT(*) FROM orders WHERE order_date BETWEEN '2023-01-01' AND '2023-01-10' GROUP BY 1

-- id: tools-12
SELECT [region], COUNT(*) AS [n] FROM [orders] GROUP BY [region]
-- refused: square brackets

-- id: tools-13
SELECT region, channel, SUM(quantity) AS q FROM orders GROUP BY region, channel WITH ROLLUP

-- id: tools-14
SELECT region, COUNT(*) FROM orders FOR SYSTEM_TIME AS OF '2024-01-01' GROUP BY ROLLUP (region)
-- refused: the table at another time

-- id: tools-15
SELECT region, SQRT(COUNT(*)) AS n FROM orders GROUP BY region LIMIT 50 PERCENT
-- refused: a part of the rows

-- id: tools-16
SELECT 'All' AS region, COUNT(*) AS n FROM orders GROUP BY 1

-- id: tools-17
SELECT SUM(1) AS "sum:Number of Records:ok" FROM "public"."orders" "orders" GROUP BY 1.1000000000000001 HAVING (COUNT(1) > 0)

-- id: tools-18
SELECT "orders"."product" AS "product", SUM("orders"."unit_price") AS "p" FROM "public"."orders" "orders" INNER JOIN (SELECT "orders"."product" AS "product", SUM("orders"."unit_price") AS "$__alias__0" FROM "public"."orders" "orders" GROUP BY 1 ORDER BY 2 DESC, 1 ASC LIMIT 5) "t0" ON ("orders"."product" = "t0"."product") GROUP BY 1

-- id: tools-19
select "_"."region" as "c1", "_"."a0" as "a0" from (select "rows"."region" as "region", count(distinct "rows"."customer_id") + max(case when "rows"."customer_id" is null then 1 else 0 end) as "a0" from (select "_"."region", "_"."customer_id" from "public"."orders" "_") "rows" group by "region") "_" where not "_"."a0" is null limit 1000001

-- id: tools-20
SELECT COUNT(*) AS "count" FROM "public"."orders" WHERE ("public"."orders"."order_date" >= CAST((CAST(now() AS timestamp) + (INTERVAL '-30 day')) AS date)) AND ("public"."orders"."order_date" < CAST(now() AS date))

-- id: tools-21
SELECT COUNT(*) AS n, current_date AS loaded_at FROM orders

-- id: tools-22
SELECT count(*) FROM (SELECT DISTINCT customer_id FROM orders WHERE returned) AS t

-- id: tools-23
WITH active AS (SELECT DISTINCT date_trunc('month', order_date) AS month, customer_id FROM orders) SELECT month, count(*) AS mau FROM active GROUP BY month ORDER BY month

-- id: tools-24
SELECT month, mau, mau - lag(mau) OVER (ORDER BY month) AS change FROM (SELECT date_trunc('month', order_date) AS month, count(DISTINCT customer_id) AS mau FROM orders GROUP BY 1) AS t

-- id: tools-25
SELECT region, count(*) AS visitors FROM (SELECT customer_id, region FROM orders GROUP BY customer_id, region) AS t GROUP BY region

-- id: tools-26
SELECT count(customer_id) AS n FROM orders WHERE customer_id IS NOT NULL

-- id: tools-27
WITH first AS (SELECT customer_id, min(date_trunc('month', order_date)) AS cohort FROM orders GROUP BY customer_id) SELECT cohort, count(*) AS people FROM first GROUP BY cohort ORDER BY cohort

-- id: tools-28
SELECT CASE WHEN spent < 100 THEN 'low' WHEN spent < 500 THEN 'mid' ELSE 'high' END AS tier, count(*) AS people FROM (SELECT customer_id, sum(unit_price) AS spent FROM orders GROUP BY customer_id) AS t GROUP BY 1

-- id: tools-29
SELECT sum(n) FILTER (WHERE n >= 5) * 100.0 / sum(n) AS heavy_share FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id) AS t

-- id: tools-30
SELECT date_trunc('month', last) AS month, count(*) AS people FROM (SELECT customer_id, max(order_date) AS last FROM orders GROUP BY customer_id) AS t GROUP BY 1

-- id: tools-31
SELECT year, m, r, r / lag(r) OVER (PARTITION BY m ORDER BY year) - 1 AS yoy FROM (SELECT year(order_date) AS year, month(order_date) AS m, sum(unit_price) AS r FROM orders GROUP BY 1, 2) AS t ORDER BY m, year

-- id: tools-32
SELECT region, s, CASE WHEN running <= 0.8 THEN 'A' WHEN running <= 0.95 THEN 'B' ELSE 'C' END AS abc FROM (SELECT region, sum(unit_price) AS s, sum(sum(unit_price)) OVER (ORDER BY sum(unit_price) DESC) / sum(sum(unit_price)) OVER () AS running FROM orders GROUP BY region) AS t ORDER BY s DESC

-- id: tools-33
SELECT m, n, sum(n) OVER (ORDER BY m RANGE BETWEEN INTERVAL '2 months' PRECEDING AND CURRENT ROW) AS three_months FROM (SELECT date_trunc('month', order_date) AS m, count(*) AS n FROM orders GROUP BY 1) AS t

-- id: tools-34
SELECT sum(o * o / e) AS chi FROM (SELECT a.n AS o, r.n * c.n / t.n AS e FROM (SELECT region, channel, count(*) AS n FROM orders WHERE region IN ('north', 'south') GROUP BY 1, 2) AS a JOIN (SELECT region, count(*) AS n FROM orders GROUP BY 1) AS r USING (region) JOIN (SELECT channel, count(*) AS n FROM orders GROUP BY 1) AS c USING (channel), (SELECT count(*) AS n FROM orders) AS t) AS q

-- id: tools-35
SELECT avg(unit_price) - 1.96 * stddev(unit_price) / sqrt(count(*)) AS low, avg(unit_price) + 1.96 * stddev(unit_price) / sqrt(count(*)) AS high FROM orders

-- id: tools-36
SELECT region, sum(quantity) // 12 AS dozens, sum(quantity)::bigint % 12 AS rest FROM orders GROUP BY region

-- id: tools-37
SELECT bool_and(n > 10) AS every_region, arg_max(region, n) AS best FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) AS t

-- id: tools-38
WITH goals(region, goal) AS (VALUES ('north', 300), ('south', 400)) SELECT g.region, g.goal, x.n >= g.goal AS reached FROM goals AS g JOIN (SELECT region, count(*) AS n FROM orders GROUP BY region) AS x USING (region)

-- id: tools-39
WITH rows (area, pieces) AS (SELECT region, quantity FROM orders) SELECT area, sum(pieces) FROM rows GROUP BY area

-- id: tools-40
SELECT r.country, x.q / sum(x.q) OVER (PARTITION BY r.country) AS within_country FROM regions AS r JOIN (SELECT region, sum(quantity) AS q FROM orders GROUP BY region) AS x USING (region)

-- id: tools-41
SELECT region FROM orders GROUP BY region INTERSECT SELECT region FROM regions WHERE country = 'home'

-- id: tools-42
SELECT count(*) FROM orders WHERE unit_price / quantity > 20

-- id: tools-43
SELECT CASE WHEN unit_price / age >= 2 THEN 'dear' ELSE 'cheap' END AS k, count(*) FROM orders WHERE age > 0 GROUP BY 1

-- id: tools-44
SELECT avg(unit_price / quantity) FROM orders

-- id: tools-45
SELECT datediff('month', order_date, shipped) AS months, count(*) FROM orders GROUP BY 1

-- id: tools-46
SELECT year(shipped) - year(order_date) AS years, count(*) FROM orders GROUP BY 1

-- id: tools-47
SELECT count(*) FROM orders WHERE month(order_date) = month(shipped)

-- id: tools-48
SELECT sum(abs(unit_price - 50)) AS away, sum(greatest(unit_price - 100, 0)) AS above, sum(power(unit_price - 50, 2)) AS squares FROM orders

-- id: tools-49
SELECT count(*) FROM orders WHERE coalesce(region, '') <> ''

-- id: tools-50
SELECT shipped - order_date AS days, count(*) FROM orders WHERE shipped - order_date BETWEEN 0 AND 14 GROUP BY 1

-- id: tools-51
SELECT median(shipped - order_date) AS days FROM orders

-- id: tools-52
SELECT channel, count(*) AS n, sum(p) AS p FROM (SELECT 'near' AS channel, unit_price AS p FROM orders WHERE region IN ('north', 'south') UNION ALL SELECT 'far' AS channel, unit_price AS p FROM orders WHERE region = 'abroad') AS t GROUP BY channel

-- id: tools-53
SELECT max(order_date) AS latest, min(shipped) AS first FROM orders

-- id: tools-54
SELECT region, string_agg(channel, ', ' ORDER BY n DESC) AS ranking FROM (SELECT region, channel, count(*) AS n FROM orders GROUP BY 1, 2) AS t GROUP BY region

-- id: tools-55
SELECT LISTAGG(DISTINCT region, ',') WITHIN GROUP (ORDER BY region) FROM orders
-- refused: rows as a text

-- id: tools-56
SELECT EVERY(returned) FROM orders
-- refused: one row decides it

-- id: tools-57
SELECT region, n FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) AS t WHERE n >= ALL (SELECT count(*) FROM orders GROUP BY region)
-- refused: ALL

-- id: tools-58
SELECT a.product, b.product, count(*) FROM orders AS a JOIN orders AS b ON a.customer_id = b.customer_id AND a.product < b.product GROUP BY 1, 2
-- refused: a self-join

-- id: tools-59
SELECT * FROM orders ORDER BY unit_price DESC LIMIT 1
-- refused: rows
