-- Statements that are refused, separated by blank lines. The line after each says where the error points (line:column)
-- and a part of what it says.

-- # What is not one SELECT

INSERT INTO stays VALUES (1)
-- 1:1 Only SELECT is answered.

UPDATE stays SET age = 3
-- 1:1 Only SELECT is answered.

DELETE FROM stays
-- 1:1 Only SELECT is answered.

DROP TABLE stays
-- 1:1 Only SELECT is answered.

CREATE TABLE x AS SELECT count(*) FROM stays
-- 1:1 Only SELECT is answered.

EXPLAIN SELECT count(*) FROM stays
-- 1:1 Only SELECT is answered.

ANALYZE stays
-- 1:1 Only SELECT is answered.

PRAGMA version
-- 1:1 Only SELECT is answered.

SHOW TABLES
-- 1:1 Only SELECT is answered.

DESCRIBE stays
-- 1:1 Only SELECT is answered.

SET threads = 1
-- 1:1 Only SELECT is answered.

COPY stays TO 'x.csv'
-- 1:1 Only SELECT is answered.

ATTACH 'x.db'
-- 1:1 Only SELECT is answered.

VACUUM
-- 1:1 Only SELECT is answered.

BEGIN
-- 1:1 Only SELECT is answered.

CALL f()
-- 1:1 Only SELECT is answered.

VALUES (1)
-- 1:1 Only SELECT is answered.

TABLE stays
-- 1:1 Only SELECT is answered.

FROM stays
-- 1:1 Only SELECT is answered.

FROM stays SELECT count(*)
-- 1:1 Only SELECT is answered.

(SELECT count(*) FROM stays)
-- 1:1 Only SELECT is answered.

WITH x AS (SELECT 1) SELECT count(*) FROM stays
-- 1:1 A question inside a question is not answered.

count(*)
-- 1:1 Only SELECT is answered.

hello
-- 1:1 Only SELECT is answered.

;
-- 1:1 Only SELECT is answered.

SELECT
-- 1:7 No table is asked.

SELECT FROM stays
-- 1:1 Nothing is selected.

SELECT 1
-- 1:9 No table is asked.

SELECT count(*)
-- 1:16 No table is asked.

SELECT count(*) FROM stays; DROP TABLE stays
-- 1:29 A second statement begins here.

SELECT count(*) FROM stays; SELECT count(*) FROM stays
-- 1:29 A second statement begins here.

; SELECT count(*) FROM stays
-- 1:1 Only SELECT is answered.

SELECT count(*) FROM stays; hello
-- 1:29 A second statement begins here.

SELECT count(*) FROM stays UNION SELECT count(*) FROM stays
-- 1:28 Answers of several SELECTs are not put together.

SELECT count(*) FROM stays UNION ALL SELECT count(*) FROM stays
-- 1:28 Answers of several SELECTs are not put together.

SELECT count(*) FROM stays INTERSECT SELECT count(*) FROM stays
-- 1:28 Answers of several SELECTs are not put together.

SELECT count(*) FROM stays EXCEPT SELECT count(*) FROM stays
-- 1:28 Answers of several SELECTs are not put together.

SELECT count(*) INTO x FROM stays
-- 1:17 An answer is not written into a table.

SELECT count(*) FROM stays FOR UPDATE
-- 1:22 `select` is written with something that is not known here (locks).

-- # Rows are never shown

SELECT * FROM stays
-- 1:8 `*` would show rows, and rows are never shown.

SELECT stays.* FROM stays
-- 1:8 `*` would show rows, and rows are never shown.

SELECT s.* FROM stays s
-- 1:8 `*` would show rows, and rows are never shown.

SELECT *, count(*) FROM stays
-- 1:8 `*` would show rows, and rows are never shown.

SELECT sex FROM stays
-- 1:8 Rows are never shown, so this column has no single value.

SELECT sex, count(*) FROM stays
-- 1:8 Rows are never shown, so this column has no single value.

SELECT age, count(*) FROM stays GROUP BY sex
-- 1:8 This is not what the statement groups by.

SELECT 1 FROM stays
-- 1:8 Nothing is counted or added up.

SELECT 'x' FROM stays
-- 1:8 Nothing is counted or added up.

SELECT NULL, count(*) FROM stays
-- 1:8 This cannot be computed from the answers.

SELECT TRUE, count(*) FROM stays
-- 1:8 This cannot be computed from the answers.

SELECT age > 3 FROM stays
-- 1:8 Rows are never shown, so this column has no single value.

SELECT sex FROM stays LIMIT 10
-- 1:8 Rows are never shown, so this column has no single value.

SELECT CASE WHEN age > 3 THEN 'a' END FROM stays
-- 1:8 Rows are never shown, so this column has no single value.

SELECT DISTINCT count(*) FROM stays
-- 1:8 DISTINCT stands beside an aggregate or GROUP BY.

SELECT DISTINCT sex FROM stays GROUP BY sex, age
-- 1:8 DISTINCT stands beside an aggregate or GROUP BY.

SELECT DISTINCT * FROM stays
-- 1:17 `*` would show rows, and rows are never shown.

SELECT DISTINCT ON (sex) count(*) FROM stays
-- 1:8 DISTINCT tells whether a value occurs at all, which one person can decide.

SELECT sum(DISTINCT age) FROM stays
-- 1:12 DISTINCT tells whether a value occurs at all, which one person can decide.

SELECT avg(DISTINCT age) FROM stays
-- 1:12 DISTINCT tells whether a value occurs at all, which one person can decide.

SELECT count(DISTINCT age, sex) FROM stays
-- 1:14 DISTINCT tells whether a value occurs at all, which one person can decide.

SELECT list(age) FROM stays
-- 1:8 Lists and structures are not part of a question.

SELECT array_agg(age) FROM stays
-- 1:8 This shows the value of single rows, and rows are never shown.

SELECT string_agg(sex, ',') FROM stays
-- 1:19 This shows the values of rows in a text, and rows are never shown.

SELECT first(age) FROM stays
-- 1:8 This shows the value of single rows, and rows are never shown.

SELECT any_value(age) FROM stays
-- 1:8 This shows the value of single rows, and rows are never shown.

SELECT arg_max(sex, age) FROM stays
-- 1:16 This shows the value of single rows, and rows are never shown.

SELECT mode(age) FROM stays
-- 1:8 The most frequent value is a choice among groups.

SELECT histogram(age) FROM stays
-- 1:8 A histogram is a count by groups.

SELECT approx_quantiles(age, 4) FROM stays
-- 1:8 A list of quantiles is not one value.

SELECT bool_or(emergency) FROM stays
-- 1:8 One row would decide this.

SELECT product(age) FROM stays
-- 1:8 Rows are not multiplied.

SELECT kurtosis(age) FROM stays
-- 1:8 `kurtosis` is not part of a question.

SELECT bit_and(age) FROM stays
-- 1:8 `bit_and` is no function that is known here.

-- # Other tables, joins, questions inside questions

SELECT count(*) FROM patients
-- 1:22 There is no table `patients`.

SELECT count(*) FROM other.stays
-- 1:22 There is no table `other.stays`.

SELECT count(*) FROM a.b.stays
-- 1:22 `table` is written with something that is not known here (catalog).

SELECT count(*) FROM 'stays.parquet'
-- 1:22 There is no table `stays.parquet`.

SELECT count(*) FROM read_csv('x.csv')
-- 1:22 `read_csv` is not part of a question.

SELECT count(*) FROM range(10)
-- 1:22 `range(...)` is not known.

SELECT count(*) FROM information_schema.tables
-- 1:22 There is no table `information_schema.tables`.

SELECT count(*) FROM pg_class
-- 1:22 There is no table `pg_class`.

SELECT count(*) FROM stays, stays
-- 1:29 A join could bring a person's rows many times, so one table alone is asked.

SELECT count(*) FROM stays, patients
-- 1:29 A join could bring a person's rows many times, so one table alone is asked.

SELECT count(*) FROM stays JOIN patients ON TRUE
-- 1:28 A join could bring a person's rows many times, so one table alone is asked.

SELECT count(*) FROM stays LEFT JOIN patients USING (id)
-- 1:33 A join could bring a person's rows many times, so one table alone is asked.

SELECT count(*) FROM stays CROSS JOIN patients
-- 1:28 A join could bring a person's rows many times, so one table alone is asked.

SELECT count(*) FROM stays NATURAL JOIN patients
-- 1:28 NATURAL leaves open what a join is by.

SELECT count(*) FROM stays a JOIN stays b ON a.age = b.age
-- 1:30 A join could bring a person's rows many times, so one table alone is asked.

SELECT count(*) FROM (SELECT * FROM stays)
-- 1:23 A question inside a question is not answered.

SELECT count(*) FROM (stays)
-- 1:23 A question inside a question is not answered.

SELECT count(*) FROM stays WHERE age > (SELECT avg(age) FROM stays)
-- 1:41 A question inside a question is not answered.

SELECT count(*) FROM stays WHERE age IN (SELECT age FROM stays)
-- 1:42 A question inside a question is not answered.

SELECT count(*) FROM stays WHERE EXISTS (SELECT 1 FROM stays)
-- 1:34 A question inside a question is not answered.

SELECT (SELECT count(*) FROM stays)
-- 1:9 A question inside a question is not answered.

SELECT count(*) FROM stays TABLESAMPLE 10 PERCENT
-- 1:28 Samples are not drawn.

SELECT count(*) FROM stays USING SAMPLE 10
-- 1:28 USING belongs to joins and samples, which are not answered.

SELECT count(*) FROM stays s(a, b)
-- 1:30 `tablealias` is written with something that is not known here (columns).

SELECT count(*) FROM stays PIVOT (count(*) FOR sex IN ('male'))
-- 1:28 PIVOT is not known.

SELECT count(*) FROM LATERAL stays
-- 1:22 LATERAL is not known.

SELECT count(*) FROM VALUES (1)
-- 1:30 `Values` is not part of a question.

SELECT /*+ BROADCAST(a) */ count(*) FROM stays
-- 1:8 Hints are not followed.

-- # Windows and groupings

SELECT count(*) OVER () FROM stays
-- 1:17 A window function shows rows one by one, and rows are never shown.

SELECT sum(age) OVER (PARTITION BY sex) FROM stays
-- 1:17 A window function shows rows one by one, and rows are never shown.

SELECT row_number() OVER (ORDER BY age) FROM stays
-- 1:21 A window function shows rows one by one, and rows are never shown.

SELECT rank() OVER w FROM stays WINDOW w AS (ORDER BY age)
-- 1:15 A window function shows rows one by one, and rows are never shown.

SELECT count(*) FROM stays QUALIFY row_number() OVER () = 1
-- 1:28 A window function shows rows one by one, and rows are never shown.

SELECT count(*) FROM stays GROUP BY CUBE (sex, age)
-- 1:37 Totals over several groupings are several questions.

SELECT count(*) FROM stays GROUP BY ROLLUP (sex, age)
-- 1:37 Totals over several groupings are several questions.

SELECT count(*) FROM stays GROUP BY GROUPING SETS ((sex), (age))
-- 1:37 Totals over several groupings are several questions.

SELECT count(*) FROM stays GROUP BY 2
-- 1:37 There is no column number 2.

SELECT count(*) FROM stays GROUP BY 0
-- 1:37 There is no column number 0.

SELECT count(*) FROM stays GROUP BY 1
-- 1:37 An aggregate is no key.

SELECT sex, count(*) FROM stays GROUP BY 1.5
-- 1:42 There is no column number 1.5.

SELECT sex, count(*) FROM stays GROUP BY 99999999999999999999
-- 1:42 There is no column number 99999999999999999999.

SELECT count(*) AS n FROM stays GROUP BY n
-- 1:42 An aggregate is no key.

SELECT count(*) FROM stays GROUP BY count(*)
-- 1:37 An aggregate is no key.

SELECT count(*) FROM stays GROUP BY 'sex'
-- 1:37 This makes no groups.

SELECT count(*) FROM stays GROUP BY TRUE
-- 1:37 This makes no groups.

SELECT count(*) FROM stays GROUP BY bin(sex)
-- 1:37 `sex` has no widths.

SELECT count(*) FROM stays GROUP BY bin(sex, 2)
-- 1:37 `sex` has no widths.

SELECT count(*) FROM stays GROUP BY bin(age)
-- 1:37 `age` has no declared bins.

SELECT count(*) FROM stays GROUP BY bin()
-- 1:37 bin() takes a column and a width.

SELECT count(*) FROM stays GROUP BY bin(3, 4)
-- 1:37 bin() takes a column and a width.

SELECT count(*) FROM stays GROUP BY bin(age, 0)
-- 1:46 This is no width of bins here.

SELECT count(*) FROM stays GROUP BY bin(age, -5)
-- 1:46 This is no width of bins here.

SELECT count(*) FROM stays GROUP BY bin(age, 2.5)
-- 1:46 This is no width of bins here.

SELECT count(*) FROM stays GROUP BY bin(age, 'ten')
-- 1:46 This is no width of bins here.

SELECT count(*) FROM stays GROUP BY bin(age, 5, 5)
-- 1:37 bin() takes a column and a width.

SELECT count(*) FROM stays GROUP BY bin(age + 1, 5)
-- 1:37 bin() takes a column and a width.

SELECT count(*) FROM stays GROUP BY bin(age, stay)
-- 1:46 This is no width of bins here.

SELECT count(*) FROM stays WHERE bin(age, 5) = 1
-- 1:34 bin() makes groups, not values.

SELECT count(*) FROM stays GROUP BY date_trunc('month', age)
-- 1:37 This takes a date.

SELECT count(*) FROM stays GROUP BY year(age)
-- 1:37 This takes a date.

SELECT count(*) FROM stays GROUP BY year('2024-01-01')
-- 1:37 This takes a date.

SELECT sex, emergency, age, stay, admitted, bin(age, 2), bin(age, 3), bin(stay, 0.5), bin(stay, 0.25), count(*) FROM stays GROUP BY ALL
-- 1:45 These are 4604600 groups; 4194304 are answered.

-- # Names

SELECT count(*) FROM stays WHERE aeg > 3
-- 1:34 There is no column `aeg`.

SELECT count(*) FROM stays WHERE height > 3
-- 1:34 There is no column `height`.

SELECT count(*) FROM stays WHERE patient_id = 7
-- 1:34 `patient_id` tells people apart, so nothing about it is answered.

SELECT patient_id, count(*) FROM stays GROUP BY patient_id
-- 1:49 `patient_id` tells people apart, so nothing about it is answered.

SELECT count(patient_id) FROM stays
-- 1:14 `patient_id` tells people apart, so nothing about it is answered.

SELECT max(patient_id) FROM stays
-- 1:12 `patient_id` tells people apart, so nothing about it is answered.

SELECT count(*) FROM stays WHERE patients.age > 3
-- 1:34 No table here is called `patients`.

SELECT count(*) FROM stays s WHERE stays.age > 3
-- 1:36 No table here is called `stays`.

SELECT count(*) FROM stays WHERE a.b.age > 3
-- 1:34 No table here is called `a.b`.

SELECT count(*) AS n FROM stays WHERE n > 3
-- 1:39 There is no column `n`.

SELECT count(*) FROM stays WHERE rowid = 3
-- 1:34 There is no column `rowid`.

SELECT count(*) FROM stays WHERE ctid = 3
-- 1:34 There is no column `ctid`.

SELECT count(*) FROM stays ORDER BY height
-- 1:37 There is no column `height`.

SELECT sex, count(*) FROM stays GROUP BY sex ORDER BY age
-- 1:55 This is not what the statement groups by.

SELECT count(*) FROM stays ORDER BY 2
-- 1:37 There is no column number 2.

SELECT count(*) FROM stays WHERE `agee` > 3
-- 1:34 There is no column `agee`.

SELECT count(*) FROM stays WHERE @age > 3
-- 1:34 A place for a value was left open.

-- # Comparisons that do not fit

SELECT count(*) FROM stays WHERE sex = 'femal'
-- 1:40 `sex` is not compared with this:

SELECT count(*) FROM stays WHERE sex = 'Female'
-- 1:40 `sex` is not compared with this:

SELECT count(*) FROM stays WHERE sex = 3
-- 1:40 `sex` is not compared with this:

SELECT count(*) FROM stays WHERE sex = female
-- 1:40 `female` is a label, and texts stand in single quotes.

SELECT count(*) FROM stays WHERE sex = "female"
-- 1:40 `female` is a label, and texts stand in single quotes.

SELECT count(*) FROM stays WHERE sex < 'male'
-- 1:40 `sex` is not compared with this:

SELECT count(*) FROM stays WHERE sex BETWEEN 'a' AND 'm'
-- 1:46 `sex` is not compared with this:

SELECT count(*) FROM stays WHERE sex IN ('male', 'nobody')
-- 1:50 `sex` is not compared with this:

SELECT count(*) FROM stays WHERE sex = TRUE
-- 1:40 `sex` is not compared with this:

SELECT count(*) FROM stays WHERE sex
-- 1:34 This is no condition.

SELECT count(*) FROM stays WHERE NOT sex
-- 1:38 This is no condition.

SELECT count(*) FROM stays WHERE age
-- 1:34 This is no condition.

SELECT count(*) FROM stays WHERE age = 'three'
-- 1:40 'three' is no number.

SELECT count(*) FROM stays WHERE age = 200
-- 1:40 `age` is not compared with this:

SELECT count(*) FROM stays WHERE age <> 200
-- 1:41 `age` is not compared with this:

SELECT count(*) FROM stays WHERE age = 3.5
-- 1:40 `age` is not compared with this:

SELECT count(*) FROM stays WHERE age IN (1, 2, 300)
-- 1:48 `age` is not compared with this:

SELECT count(*) FROM stays WHERE age = TRUE
-- 1:40 `age` is not compared with this:

SELECT count(*) FROM stays WHERE age < '<missing>'
-- 1:40 <missing> has no order.

SELECT count(*) FROM stays WHERE age > DATE '2024-01-01'
-- 1:45 `age` is not compared with this:

SELECT count(*) FROM stays WHERE stay = 0.3
-- 1:41 `stay` is not compared with this:

SELECT count(*) FROM stays WHERE admitted = '2024-02-30'
-- 1:45 '2024-02-30' is no day.

SELECT count(*) FROM stays WHERE admitted > '01/02/2024'
-- 1:45 '01/02/2024' is no day.

SELECT count(*) FROM stays WHERE admitted > 'yesterday'
-- 1:45 'yesterday' is no day.

SELECT count(*) FROM stays WHERE admitted > 2024
-- 1:45 `admitted` is not compared with this:

SELECT count(*) FROM stays WHERE admitted = '1999-01-01'
-- 1:45 `admitted` is not compared with this:

SELECT count(*) FROM stays WHERE admitted > DATE '2024-13-01'
-- 1:50 '2024-13-01' is no day.

SELECT count(*) FROM stays WHERE text(admitted) > '2024-01-01'
-- 1:34 `text(...)` is not known.

SELECT count(*) FROM stays WHERE date_trunc('month', admitted) = 3
-- 1:66 `admitted` is a date.

SELECT count(*) FROM stays WHERE emergency = 'maybe'
-- 1:46 `emergency` is not compared with this:

SELECT count(*) FROM stays WHERE age / 0 > 1
-- 1:34 This divides by zero.

SELECT count(*) FROM stays WHERE age > 1 / 0
-- 1:40 This divides by zero.

SELECT count(*) FROM stays WHERE age ^ 2 > 3
-- 1:34 `^` is read in different ways.

SELECT count(*) FROM stays WHERE age & 1 = 1
-- 1:34 Numbers are not read bit by bit.

SELECT count(*) FROM stays WHERE sqrt(age) > 3
-- 1:34 This function gives numbers that are not exact.

SELECT count(*) FROM stays WHERE age SIMILAR TO '1%'
-- 1:34 A regular expression is matched with a text.

SELECT count(*) FROM stays WHERE regexp_matches(sex, '(m')
-- 1:34 This is no regular expression that can be matched.

SELECT count(*) FROM stays WHERE regexp_matches(sex, '(m)\1')
-- 1:34 This is no regular expression that can be matched.

SELECT count(*) FROM stays WHERE regexp_extract(sex, '(m)', 2) = 'm'
-- 1:34 The pattern has no such group.

SELECT count(*) FROM stays WHERE regexp_like(sex, 'm', 'q')
-- 1:34 These flags are not known.

SELECT count(*) FROM stays WHERE sex LIKE 'm!%' ESCAPE 'ab'
-- 1:34 ESCAPE is followed by one character.

SELECT count(*) FROM stays WHERE sex LIKE 'm%!' ESCAPE '!'
-- 1:34 The pattern ends with the character of its ESCAPE.

SELECT count(*) FROM stays WHERE age LIKE '3%'
-- 1:34 LIKE compares texts, and this is none.

SELECT count(*) FROM stays WHERE sex LIKE age
-- 1:34 LIKE compares a column with a text.

SELECT count(*) FROM stays WHERE 'male' LIKE sex
-- 1:34 LIKE compares a column with a text.

SELECT count(*) FROM stays WHERE 1 = 'a'
-- 1:34 Two different kinds of values are compared.

SELECT count(*) FROM stays WHERE 3
-- 1:34 This is no condition.

SELECT count(*) FROM stays WHERE 'true'
-- 1:34 This is no condition.

SELECT count(*) FROM stays WHERE age IS 3
-- 1:41 IS is followed by something else than NULL, TRUE or FALSE.

SELECT count(*) FROM stays WHERE age IS TRUE
-- 1:34 This is no condition.

SELECT count(*) FROM stays WHERE age IN ()
-- 1:34 IN has no list here.

SELECT count(*) FROM stays WHERE age IN (stay)
-- 1:42 This is no constant.

SELECT count(*) FROM stays WHERE (age, stay) IN ((1, 2), 3)
-- 1:58 2 columns are compared with something else than 2 constants.

SELECT count(*) FROM stays WHERE (age, stay) IN ((1, 2, 3))
-- 1:51 2 columns are compared with something else than 2 constants.

SELECT count(*) FROM stays WHERE (age, stay) IN ((1, 0.3))
-- 1:54 `stay` is not compared with this:

SELECT count(*) FROM stays WHERE (age, 1) IN ((1, 1), (2, 1))
-- 1:40 This is no column.

SELECT count(*) FROM stays WHERE (age, sex) IN ((1, emergency))
-- 1:53 This is no constant.

SELECT count(*) FROM stays WHERE (age, stay) < (1, 2)
-- 1:35 Several values stand here together.

SELECT count(*) FROM stays WHERE (age, stay) IS NULL
-- 1:35 Several values stand here together.

SELECT count(*) FROM stays WHERE ((age, stay)) IN ((1, 2))
-- 1:36 Several values stand here together.

SELECT count(*) FROM stays WHERE age IN ((1, 2))
-- 1:43 This is no value of a row.

SELECT (age, stay), count(*) FROM stays GROUP BY (age, stay)
-- 1:9 Several values stand here together.

SELECT count(*) FROM stays WHERE ROW(age, stay) IN (ROW(1, 2))
-- 1:34 `ROW` is no function that is known here.

SELECT sex FROM stays GROUP BY sex HAVING (count(*), sum(age)) = (1, 2)
-- 1:44 This cannot be computed from the answers.

SELECT count(*) FROM stays WHERE age = ANY (1, 2)
-- 1:45 Several values stand here together.

SELECT count(*) FROM stays WHERE age BETWEEN SYMMETRIC 7 AND 3
-- 1:34 BETWEEN SYMMETRIC is not known.

SELECT count(*) FROM stays WHERE age > 1e999
-- 1:40 `1e999` is no number that is read.

SELECT count(*) FROM stays WHERE age > 0x10
-- 1:41 `x10` cannot be read here.

SELECT count(*) FROM stays WHERE age > 1_000
-- 1:41 `_000` cannot be read here.

SELECT count(*) FROM stays WHERE random() < 0.5
-- 1:34 A random choice of rows is no fact about the data.

SELECT count(*) FROM stays WHERE rand() < 0.5
-- 1:34 A random choice of rows is no fact about the data.

SELECT count(*) FROM stays WHERE uuid() = 'x'
-- 1:34 `uuid(...)` is not known.

SELECT count(*) FROM stays WHERE my_function(age) > 3
-- 1:34 `my_function` is no function that is known here.

SELECT count(*) FROM stays WHERE count(*) > 3
-- 1:34 An aggregate stands where single rows are meant.

SELECT count(*) FROM stays WHERE sum(age) > 3
-- 1:34 An aggregate stands where single rows are meant.

SELECT count(*) FROM stays WHERE age = ?
-- 1:40 A place for a value was left open.

SELECT count(*) FROM stays WHERE age = $1
-- 1:40 A place for a value was left open.

SELECT count(*) FROM stays WHERE age = :age
-- 1:40 A place for a value was left open.

SELECT count(*) FROM stays WHERE age[1] = 2
-- 1:34 Lists and structures are not part of a question.

SELECT count(*) FROM stays WHERE {'a': 1} = 1
-- 1:34 Lists and structures are not part of a question.

SELECT count(*) FROM stays WHERE array(1) = 1
-- 1:34 `array(...)` is not known.

SELECT count(*) FROM stays WHERE CAST(stay AS INTEGER) = 1
-- 1:39 Engines round a cast to whole numbers in different ways.

SELECT count(*) FROM stays WHERE TRY_CAST(age AS INTEGER) = 1
-- 1:43 A cast that may fail would tell about rows.

SELECT count(*) FROM stays WHERE CAST(sex AS INTEGER) = 3
-- 1:39 'female' is no number.

SELECT count(*) FROM stays WHERE stay > CAST(1.239 AS DECIMAL(5, 2))
-- 1:46 This cast is not known.

SELECT count(*) FROM stays WHERE age > CAST('x' AS INTEGER)
-- 1:45 'x' is no number.

SELECT count(*) FROM stays WHERE age > CAST(1.5 AS INTEGER)
-- 1:45 Engines round a cast to whole numbers in different ways.

SELECT count(*) FROM stays WHERE CASE WHEN age THEN TRUE END
-- 1:44 This is no condition.

SELECT count(*) FROM stays WHERE CASE WHEN emergency THEN 1 ELSE 0 END
-- 1:34 This is no condition.

SELECT count(*) FROM stays WHERE CASE WHEN emergency THEN 'a' ELSE 0 END = 0
-- 1:44 Two different kinds of values are compared.

-- # Aggregates

SELECT count() FROM stays
-- 1:8 `count` is written with other arguments here.

SELECT count(age, stay) FROM stays
-- 1:19 `count` is written with something that is not known here (expressions).

SELECT sum(*) FROM stays
-- 1:8 `sum` is written with other arguments here.

SELECT sum() FROM stays
-- 1:12 Something is missing around here.

SELECT sum(sex) FROM stays
-- 1:8 `sex` is a category, and is not added up.

SELECT avg(sex) FROM stays
-- 1:8 `sex` is a category, and is not added up.

SELECT sum(admitted) FROM stays
-- 1:8 `admitted` is a date, and is not added up.

SELECT sum('x') FROM stays
-- 1:8 This is a text, and is not added up.

SELECT sum(CASE WHEN age > 3 THEN sex ELSE 0 END) FROM stays
-- 1:8 `sex` is a category, and is not added up.

SELECT sum(CASE WHEN age > 3 THEN 1e300 ELSE 1e-300 END) FROM stays
-- 1:8 The numbers have too many digits to be added up exactly.

SELECT sum(age * 1e30 + 1e-30) FROM stays
-- 1:8 The numbers have too many digits to be added up exactly.

SELECT sum(sum(age)) FROM stays
-- 1:12 An aggregate stands where single rows are meant.

SELECT avg(count(*)) FROM stays
-- 1:12 An aggregate stands where single rows are meant.

SELECT sum(age) FILTER (WHERE height > 3) FROM stays
-- 1:31 There is no column `height`.

SELECT sum(age) FILTER (WHERE sex) FROM stays
-- 1:31 This is no condition.

SELECT sum(age ORDER BY stay) FROM stays
-- 1:12 `order` is written with something that is not known here (this).

SELECT median(sex) FROM stays
-- 1:8 The values of `sex` have no order.

SELECT median(emergency) FROM stays
-- 1:8 The values of `emergency` have no order.

SELECT median(age + 1) FROM stays
-- 1:8 A quantile is of a column alone.

SELECT median() FROM stays
-- 1:15 Something is missing around here.

SELECT quantile(age) FROM stays
-- 1:20 Something is missing around here.

SELECT quantile(age, 0) FROM stays
-- 1:22 This is no part of the rows.

SELECT quantile(age, 1) FROM stays
-- 1:22 This is no part of the rows.

SELECT quantile(age, 1.5) FROM stays
-- 1:22 This is no part of the rows.

SELECT quantile(age, stay) FROM stays
-- 1:22 This is no part of the rows.

SELECT quantile(age, 'half') FROM stays
-- 1:22 This is no part of the rows.

SELECT quantile(age, [0.1, 0.9]) FROM stays
-- 1:23 Lists and structures are not part of a question.

SELECT min(sex) FROM stays
-- 1:8 The values of `sex` have no order.

SELECT max(emergency) FROM stays
-- 1:8 The values of `emergency` have no order.

SELECT min(age, 3) FROM stays
-- 1:17 `min` is written with something that is not known here (expressions).

SELECT max(age + 1) FROM stays
-- 1:8 A quantile is of a column alone.

SELECT greatest(age, 3) FROM stays
-- 1:8 Rows are never shown, so this column has no single value.

SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age DESC) FROM stays
-- 1:52 The order is downward.

SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY age, stay) FROM stays
-- 1:8 WITHIN GROUP is not known here.

SELECT percentile_cont(0.5) FROM stays
-- 1:8 `percentile_cont` is written with other arguments here.

SELECT mode() WITHIN GROUP (ORDER BY age) FROM stays
-- 1:8 The most frequent value is a choice among groups.

SELECT var(sex) FROM stays
-- 1:8 `sex` is a category, and is not added up.

SELECT my_aggregate(age) FROM stays
-- 1:8 `my_aggregate` is no function that is known here.

SELECT count_if(age) FROM stays
-- 1:17 This is no condition.

-- # What is shown

SELECT round(avg(age), 2) FROM stays
-- 1:8 This cannot be computed from the answers.

SELECT abs(count(*)) FROM stays
-- 1:8 This cannot be computed from the answers.

SELECT count(*) / 0 FROM stays
-- 1:19 This divides by zero.

SELECT count(*) % 2 FROM stays
-- 1:8 This cannot be computed from the answers.

SELECT count(*) > 3 FROM stays
-- 1:8 This cannot be computed from the answers.

SELECT CASE WHEN count(*) > 3 THEN 1 END FROM stays
-- 1:8 This cannot be computed from the answers.

SELECT coalesce(sum(age), 0) FROM stays
-- 1:8 This cannot be computed from the answers.

SELECT count(*) + age FROM stays
-- 1:19 Rows are never shown, so this column has no single value.

SELECT sex, count(*) + age FROM stays GROUP BY sex
-- 1:24 This is not what the statement groups by.

SELECT sex || count(*) FROM stays GROUP BY sex
-- 1:8 This cannot be computed from the answers.

SELECT count(*) + 'x' FROM stays
-- 1:19 This cannot be computed from the answers.

SELECT CAST(count(*) AS VARCHAR) FROM stays
-- 1:13 Answers are numbers with parts of a whole.

SELECT CAST(count(*) AS INTEGER) FROM stays
-- 1:13 Answers are numbers with parts of a whole.

SELECT sum(age) / nullif(count(*), 0) FROM stays
-- 1:19 This cannot be computed from the answers.

SELECT count(*) AS n, n + 1 FROM stays
-- 1:23 There is no column `n`.

SELECT sex, count(*) FROM stays GROUP BY sex HAVING sex = 'male'
-- 1:53 HAVING filters groups by their noisy values.

SELECT sex, count(*) FROM stays GROUP BY sex HAVING age > 3
-- 1:53 This is not what the statement groups by.

SELECT sex, count(*) FROM stays GROUP BY sex HAVING count(*)
-- 1:53 This is no condition on answers.

SELECT sex, count(*) FROM stays GROUP BY sex HAVING count(*) IS NULL
-- 1:53 This is no condition on answers.

SELECT sex, count(*) FROM stays GROUP BY sex HAVING emergency
-- 1:53 This is no condition on answers.

SELECT sex, count(*) FROM stays GROUP BY sex HAVING count(*) > 'x'
-- 1:64 This cannot be computed from the answers.

SELECT count(*) FROM stays HAVING TRUE
-- 1:35 This is no condition on answers.

SELECT count(*) FROM stays LIMIT -1
-- 1:35 This is no number of rows.

SELECT count(*) FROM stays LIMIT 1.5
-- 1:34 This is no number of rows.

SELECT count(*) FROM stays LIMIT 'x'
-- 1:34 This is no number of rows.

SELECT count(*) FROM stays LIMIT ALL
-- 1:34 This is no number of rows.

SELECT count(*) FROM stays LIMIT 10 PERCENT
-- 1:34 `limit` is written with something that is not known here (limit_options).

SELECT count(*) FROM stays LIMIT 99999999999
-- 1:34 This is no number of rows.

SELECT count(*) FROM stays LIMIT 2 + 3
-- 1:34 This is no number of rows.

SELECT count(*) FROM stays LIMIT age
-- 1:34 This is no number of rows.

SELECT count(*) FROM stays OFFSET -3
-- 1:36 This is no number of rows.

SELECT count(*) FROM stays FETCH FIRST 5 PERCENT ROWS ONLY
-- 1:40 FETCH is of a number of rows.

SELECT TOP 5 count(*) FROM stays
-- 1:8 TOP is not known.

SELECT count(*) FROM stays ORDER BY random()
-- 1:37 A random choice of rows is no fact about the data.

SELECT count(*) FROM stays ORDER BY ALL
-- 1:37 Sorting by ALL is not known.

SELECT count(*) FROM stays ORDER BY 1 USING >
-- 1:39 USING belongs to joins and samples, which are not answered.

-- # What cannot be read

SELECT count(* FROM stays
-- 1:16 Something is missing here: expecting ).

SELECT count(*)) FROM stays
-- 1:16 `)` cannot be read here.

SELECT count(*) FROM
-- 1:17 `FROM` cannot be read here.

SELECT count(*) FROM stays WHERE
-- 1:28 Something is missing around here.

SELECT count(*) FROM stays WHERE age >
-- 1:38 Something is missing around here.

SELECT count(*) FROM stays WHERE age > > 3
-- 1:34 Numbers are not read bit by bit.

SELECT count(*) FROM stays WHERE age 3
-- 1:38 `3` cannot be read here.

SELECT count(*) FROM stays WHERE AND age > 3
-- 1:44 Something is missing around here.

SELECT count(*) FROM stays WHERE age > 3 AND
-- 1:42 Something is missing around here.

SELECT count(*) FROM stays WHERE (age > 3
-- 1:41 Something is missing here: expecting ).

SELECT count(*) FROM stays WHERE age > 3)
-- 1:41 `)` cannot be read here.

SELECT count(*) FROM stays WHERE sex = 'male
-- 1:44 The text ends inside quotes or a comment.

SELECT count(*) FROM stays WHERE "age > 3
-- 1:41 The text ends inside quotes or a comment.

SELECT count(*) FROM stays /* never closed
-- 1:42 The text ends inside quotes or a comment.

SELECT count(*) FROM stays GROUP BY
-- 1:36 GROUP BY names nothing.

SELECT count(*) FROM stays ORDER BY
-- 1:28 Something is missing around here.

SELECT count(*) FROM stays LIMIT
-- 1:28 Something is missing around here.

SELECT count(*) count(*) FROM stays
-- 1:22 `(` cannot be read here.

SELECT ,count(*) FROM stays
-- 1:8 A comma has nothing before or after it.

SELECT count(*), FROM stays
-- 1:16 A comma has nothing before or after it.

SELECT count(*) FROM stays WHERE CASE WHEN age > 3
-- 1:50 Something is missing around here.

SELECT count(*) FROM stays WHERE CASE END
-- 1:39 `END` cannot be read here.

SELECT count(*) FROM stays WHERE age BETWEEN 3
-- 1:46 Something is missing around here.

SELECT count(*) FROM stays WHERE age IN 3
-- 1:41 `in` is written with something that is not known here (field).

SELECT count(*) FROM stays WHERE age => 3
-- 1:38 `=>` is not known.

SELECT count(*) FROM stays WHERE age == = 3
-- 1:41 Something is missing around here.

SELECT count(*) FROM stays nonsense nonsense
-- 1:37 `nonsense` cannot be read here.

SELEKT count(*) FROM stays
-- 1:1 Only SELECT is answered.

SELECT count(*) FRM stays
-- 1:17 `FRM` cannot be read here.

SELECT count(*) FROM stays WERE age > 3
-- 1:28 `WERE` cannot be read here.

SELECT count(*) FROM stays WHERE age ≥ 3
-- 1:38 `≥` cannot be read here.

SELECT
  count(*)
FROM stays
WHERE age > 3
  AND hieght > 3
-- 5:7 There is no column `hieght`.

SELECT count(*)
FROM stays
WHERE sex = 'male'
	AND sex = 'x'
-- 4:12 `sex` is not compared with this:

SELECT count(*),, count(*) FROM stays
-- 1:17 A comma has nothing before or after it.

SELECT count(age,) FROM stays
-- 1:17 A comma has nothing before or after it.

SELECT count(*) FROM stays WHERE age IN (,1)
-- 1:42 A comma has nothing before or after it.

SELECT sex, count(*) FROM stays GROUP BY sex,
-- 1:45 A comma has nothing before or after it.

SELECT count(*) FROM stays GROUP BY date_trunc()
-- 1:48 Something is missing around here.

SELECT count(*) FROM stays WHERE admitted - DATE '2024-01-01' > INTERVAL '36 hours'
-- 1:50 This compares a number with an interval.

-- # Words that are misspelled, and signs that are read in different ways

SELECT count(*) FORM stays
-- 1:17 `FORM` cannot be read here.

SELECT count(*) FROM stays WEHRE age > 3
-- 1:28 `WEHRE` cannot be read here.

SELECT sex, count(*) FROM stays GRUOP BY sex
-- 1:33 `GRUOP` cannot be read here.

SELECT sex, count(*) FROM stays GROUP BY sex ODER BY sex
-- 1:46 `ODER` cannot be read here.

SELECT count(*) FROM stays WHERE age > $1
-- 1:40 A place for a value was left open.

SELECT count(*) FROM stays WHERE isnan(stay)
-- 1:34 NaN counts as missing.

SELECT count(*) FROM stays WHERE age & 1 = 1
-- 1:34 Numbers are not read bit by bit.

SELECT sum(age ^ 2) FROM stays
-- 1:12 `^` is read in different ways.

SELECT count(*) FROM stays WHERE datediff('day', admitted, '2024-02-30') > 5
-- 1:60 '2024-02-30' is no day.

SELECT count(*) FROM stays WHERE sex = 'male' && age > 3
-- 1:47 `&&` is not known.

SELECT count(*) FROM stays WHERE age > ANY(ARRAY[3, 4])
-- 1:50 ANY stands behind = alone.
