-- Statements that are answered, separated by blank lines. Each is asked of the compiler and of DuckDB, and the two
-- answers without noise must agree. A line `-- duckdb:` gives the text for DuckDB where it needs another one.

-- # Counting

SELECT count(*) FROM stays

select COUNT(*) from STAYS

SELECT count(*) AS n FROM stays;

SELECT count(*) FROM stays ;;

SELECT count(*) n FROM "stays"

SELECT count(*) FROM stays AS s

SELECT count(*) FROM stays s WHERE s.age > 3

SELECT count(*) FROM stays WHERE stays.age > 3

SELECT count(*) FROM stays WHERE "stays"."age" > 3

SELECT count(*) FROM stays WHERE AGE > 3 AND "Sex" = 'male'

SELECT count(*) -- how many
FROM stays /* of all */ WHERE age > 3

SELECT
  count(*)
FROM
  stays
WHERE
  age > 3

SELECT count(1) FROM stays

SELECT count('x') FROM stays

SELECT count(age) FROM stays

SELECT count(stay) FROM stays WHERE age > 3

SELECT count(emergency), count(admitted) FROM stays

SELECT count(sex) FROM stays
-- duckdb: SELECT count(*) FROM stays WHERE sex <> '<outside>'

SELECT count(*), count(*) FROM stays

SELECT count(*) AS a, count(age) AS b, count(stay) AS c FROM stays

SELECT count(*) FILTER (WHERE age > 3) FROM stays

SELECT count(*) FILTER (WHERE age > 3), count(*) FILTER (WHERE age <= 3) FROM stays WHERE emergency

SELECT count(age) FILTER (WHERE sex = 'male') FROM stays WHERE stay < 3

SELECT count_if(age > 3) FROM stays

SELECT countif(emergency) FROM stays

SELECT count(CASE WHEN age > 3 THEN 1 END) FROM stays

SELECT count(CASE WHEN age > 3 THEN 1 ELSE NULL END) FROM stays

SELECT count(CASE WHEN age > 3 THEN stay END) FROM stays

SELECT count(CASE WHEN age > 3 THEN 'old' WHEN emergency THEN 'young' END) FROM stays

SELECT count(age + 1) FROM stays

SELECT count(age > 3) FROM stays

SELECT count(coalesce(age, 0)) FROM stays

-- # Comparisons

SELECT count(*) FROM stays WHERE age = 3

SELECT count(*) FROM stays WHERE age <> 3

SELECT count(*) FROM stays WHERE age != 3

SELECT count(*) FROM stays WHERE age < 3

SELECT count(*) FROM stays WHERE age <= 3

SELECT count(*) FROM stays WHERE age > 3

SELECT count(*) FROM stays WHERE age >= 3

SELECT count(*) FROM stays WHERE 3 < age

SELECT count(*) FROM stays WHERE 3 >= age

SELECT count(*) FROM stays WHERE 3 = age

SELECT count(*) FROM stays WHERE 3 <> age

SELECT count(*) FROM stays WHERE age > 3.5

SELECT count(*) FROM stays WHERE age <= 3.999

SELECT count(*) FROM stays WHERE age > -1

SELECT count(*) FROM stays WHERE age < -5

SELECT count(*) FROM stays WHERE age < 1000

SELECT count(*) FROM stays WHERE age >= 1e3

SELECT count(*) FROM stays WHERE age > .5e1

SELECT count(*) FROM stays WHERE stay = 0.25

SELECT count(*) FROM stays WHERE stay > 0.3

SELECT count(*) FROM stays WHERE stay >= 1 AND stay < 2.5

SELECT count(*) FROM stays WHERE stay <> 1.5

SELECT count(*) FROM stays WHERE age > 2 + 3

SELECT count(*) FROM stays WHERE age > 10 / 4
-- duckdb: SELECT count(*) FROM stays WHERE age > 2.5

SELECT count(*) FROM stays WHERE age > 2 * (1 + 2)

SELECT count(*) FROM stays WHERE age + 1 > 5

SELECT count(*) FROM stays WHERE 2 * age + 1 >= 7

SELECT count(*) FROM stays WHERE 10 - age > 5

SELECT count(*) FROM stays WHERE -age < -5

SELECT count(*) FROM stays WHERE age / 2 > 2.2

SELECT count(*) FROM stays WHERE stay * 4 = 3

SELECT count(*) FROM stays WHERE -2 * stay <= -3

SELECT count(*) FROM stays WHERE age * 0 = 0

SELECT count(*) FROM stays WHERE sex = 'female'

SELECT count(*) FROM stays WHERE sex <> 'female'

SELECT count(*) FROM stays WHERE 'female' = sex

SELECT count(*) FROM stays WHERE NOT sex = 'female'

SELECT count(*) FROM stays WHERE sex = '<outside>'

SELECT count(*) FROM stays WHERE sex <> '<outside>'

SELECT count(*) FROM stays WHERE sex = '<missing>'
-- duckdb: SELECT count(*) FROM stays WHERE sex IS NULL

SELECT count(*) FROM stays WHERE sex <> '<missing>'
-- duckdb: SELECT count(*) FROM stays WHERE sex IS NOT NULL

SELECT count(*) FROM stays WHERE age = '<missing>'
-- duckdb: SELECT count(*) FROM stays WHERE age IS NULL

SELECT count(*) FROM stays WHERE sex IN ('male', '<missing>')
-- duckdb: SELECT count(*) FROM stays WHERE sex = 'male' OR sex IS NULL

SELECT count(*) FROM stays WHERE sex NOT IN ('male', '<missing>')
-- duckdb: SELECT count(*) FROM stays WHERE sex <> 'male' AND sex IS NOT NULL

SELECT count(*) FROM stays WHERE admitted = '2024-01-15'

SELECT count(*) FROM stays WHERE admitted >= DATE '2024-01-01'

SELECT count(*) FROM stays WHERE admitted < CAST('2024-01-01' AS DATE)

SELECT count(*) FROM stays WHERE admitted < '2024-01-01'::date

SELECT count(*) FROM stays WHERE admitted <> '2024-01-15'

SELECT count(*) FROM stays WHERE '2024-01-01' <= admitted

SELECT count(*) FROM stays WHERE admitted > '1999-01-01'

SELECT count(*) FROM stays WHERE admitted > '2999-01-01'

SELECT count(*) FROM stays WHERE emergency

SELECT count(*) FROM stays WHERE NOT emergency

SELECT count(*) FROM stays WHERE emergency = TRUE

SELECT count(*) FROM stays WHERE emergency = FALSE

SELECT count(*) FROM stays WHERE emergency = 'Y'

SELECT count(*) FROM stays WHERE emergency <> 'no'

SELECT count(*) FROM stays WHERE emergency IN ('f', '1')

SELECT count(*) FROM stays WHERE emergency <> TRUE

SELECT count(*) FROM stays WHERE emergency < TRUE

SELECT count(*) FROM stays WHERE (age > 3) = TRUE

SELECT count(*) FROM stays WHERE (age > 3) = FALSE

SELECT count(*) FROM stays WHERE TRUE

SELECT count(*) FROM stays WHERE FALSE

SELECT count(*) FROM stays WHERE 1 = 1

SELECT count(*) FROM stays WHERE 1 = 1 AND age > 3

SELECT count(*) FROM stays WHERE 1 > 2 OR age > 3

SELECT count(*) FROM stays WHERE 'a' = 'a'

SELECT count(*) FROM stays WHERE DATE '2024-01-01' < DATE '2024-01-02'

SELECT count(*) FROM stays WHERE NULL

SELECT count(*) FROM stays WHERE age = NULL

SELECT count(*) FROM stays WHERE NOT age = NULL

SELECT count(*) FROM stays WHERE CAST(age AS DOUBLE) > 3

SELECT count(*) FROM stays WHERE age::bigint > 3

SELECT count(*) FROM stays WHERE age > CAST('3' AS INTEGER)

SELECT count(*) FROM stays WHERE age > '-3'::int

SELECT count(*) FROM stays WHERE stay > '0.75'::double

SELECT count(*) FROM stays WHERE sex::varchar = 'male'

SELECT count(*) FROM stays WHERE emergency::boolean

SELECT count(*) FROM stays WHERE admitted::date > '2024-01-01'

SELECT count(*) FROM stays WHERE (((age))) > (3)

-- # Sets and ranges

SELECT count(*) FROM stays WHERE age IN (1, 2, 3)

SELECT count(*) FROM stays WHERE age NOT IN (1, 2, 3)

SELECT count(*) FROM stays WHERE NOT age IN (1, 2, 3)

SELECT count(*) FROM stays WHERE age IN (4)

SELECT count(*) FROM stays WHERE age IN (1, 1 + 1, 5)

SELECT count(*) FROM stays WHERE age IN (1, NULL)

SELECT count(*) FROM stays WHERE age NOT IN (1, NULL)

SELECT count(*) FROM stays WHERE sex IN ('female', 'other')

SELECT count(*) FROM stays WHERE sex NOT IN ('female', 'other')

SELECT count(*) FROM stays WHERE sex IN ('female', '<outside>')

SELECT count(*) FROM stays WHERE stay IN (0.25, 0.5, 5)

SELECT count(*) FROM stays WHERE admitted IN ('2024-01-01', DATE '2024-01-02')

SELECT count(*) FROM stays WHERE emergency IN (TRUE)

SELECT count(*) FROM stays WHERE age + 1 IN (4, 5)

SELECT count(*) FROM stays WHERE 3 IN (1, 2, 3)

SELECT count(*) FROM stays WHERE age BETWEEN 3 AND 7

SELECT count(*) FROM stays WHERE age NOT BETWEEN 3 AND 7

SELECT count(*) FROM stays WHERE age BETWEEN 7 AND 3

SELECT count(*) FROM stays WHERE NOT (age BETWEEN 3 AND 7)

SELECT count(*) FROM stays WHERE age BETWEEN 3 AND NULL

SELECT count(*) FROM stays WHERE age NOT BETWEEN 3 AND NULL

SELECT count(*) FROM stays WHERE stay BETWEEN 0.3 AND 1.1

SELECT count(*) FROM stays WHERE admitted BETWEEN '2024-01-01' AND '2024-01-31'

SELECT count(*) FROM stays WHERE 5 BETWEEN age AND 20

SELECT count(*) FROM stays WHERE sex LIKE 'f%' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE sex LIKE '%male'

SELECT count(*) FROM stays WHERE sex LIKE '_ale'

SELECT count(*) FROM stays WHERE sex NOT LIKE 'f%'
-- duckdb: SELECT count(*) FROM stays WHERE sex IN ('male', 'other')

SELECT count(*) FROM stays WHERE NOT (sex LIKE 'f%')
-- duckdb: SELECT count(*) FROM stays WHERE sex IN ('male', 'other')

SELECT count(*) FROM stays WHERE sex ILIKE 'FE%'

SELECT count(*) FROM stays WHERE sex LIKE 'male%%'

SELECT count(*) FROM stays WHERE sex LIKE '%e%' ESCAPE '!' AND sex NOT LIKE '%!%%' ESCAPE '!' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE sex LIKE '%!_' ESCAPE '!' OR sex LIKE 'm%' ESCAPE ''

SELECT sex || '_%' LIKE 'm%!_!%' ESCAPE '!' AS male, count(*) FROM stays WHERE sex <> '<outside>' GROUP BY 1

-- # Rows of values: NULL is SQL's, by AND and OR. DuckDB compares such rows as values that are never NULL.

SELECT count(*) FROM stays WHERE (age, sex) IN ((3, 'male'), (5, 'female'), (5, 'other'))

SELECT count(*) FROM stays WHERE (age, sex) IN ((3, 'male'))

SELECT count(*) FROM stays WHERE (age, sex) NOT IN ((3, 'male'), (5, 'female'))
-- duckdb: SELECT count(*) FROM stays WHERE NOT ((age = 3 AND sex = 'male') OR (age = 5 AND sex = 'female'))

SELECT count(*) FROM stays WHERE (stay, emergency, sex) NOT IN ((0.5, TRUE, 'male'), (1, FALSE, 'female'), (2, TRUE, 'other'))
-- duckdb: SELECT count(*) FROM stays WHERE NOT ((stay = 0.5 AND emergency AND sex = 'male') OR (stay = 1 AND NOT emergency AND sex = 'female') OR (stay = 2 AND emergency AND sex = 'other'))

SELECT count(*) FROM stays WHERE (sex, emergency) IN (('female', TRUE), ('male', FALSE)) OR age > 12

SELECT sex, avg(age) FROM stays WHERE (sex, age) IN (('female', 2), ('male', 3), ('male', 8), ('other', 5)) GROUP BY sex

SELECT count(*) FROM stays WHERE (age, sex) IN ((3, NULL), (5, 'male'))
-- duckdb: SELECT count(*) FROM stays WHERE age = 5 AND sex = 'male'

SELECT count(*) FROM stays WHERE (age, sex) NOT IN ((3, NULL), (5, 'male'))
-- duckdb: SELECT count(*) FROM stays WHERE NOT ((age = 3 AND sex = NULL) OR (age = 5 AND sex = 'male'))

SELECT count(*) FROM stays WHERE (year(admitted), month(admitted)) IN ((2023, 11), (2024, 1), (2024, 3))

SELECT count(*) FROM stays WHERE (month(admitted), age + 1, age) NOT IN ((1, 4, 3), (2, 5, 6))
-- duckdb: SELECT count(*) FROM stays WHERE NOT ((month(admitted) = 1 AND age + 1 = 4 AND age = 3) OR (month(admitted) = 2 AND age + 1 = 5 AND age = 6))

SELECT count(*) FROM stays WHERE (age, stay, admitted, sex, emergency) NOT IN ((3, 1, '2024-01-01', 'male', TRUE), (4, 2, '2024-01-02', 'male', FALSE))
-- duckdb: SELECT count(*) FROM stays WHERE NOT ((age = 3 AND stay = 1 AND admitted = '2024-01-01' AND sex = 'male' AND emergency) OR (age = 4 AND stay = 2 AND admitted = '2024-01-02' AND sex = 'male' AND NOT emergency))

SELECT count(*) FROM stays WHERE (age, sex) = (3, 'male')

SELECT count(*) FROM stays WHERE (age, sex) <> (3, 'male')
-- duckdb: SELECT count(*) FROM stays WHERE NOT (age = 3 AND sex = 'male')

SELECT count(*) FILTER (WHERE (sex, emergency) IN (('female', TRUE), ('other', FALSE))) FROM stays WHERE age > 3

-- # NULL

SELECT count(*) FROM stays WHERE age IS NULL

SELECT count(*) FROM stays WHERE age IS NOT NULL

SELECT count(*) FROM stays WHERE NOT age IS NULL

SELECT count(*) FROM stays WHERE sex IS NULL

SELECT count(*) FROM stays WHERE sex IS NOT NULL

SELECT count(*) FROM stays WHERE stay IS NULL OR admitted IS NULL OR emergency IS NULL

SELECT count(*) FROM stays WHERE (age > 3) IS NULL

SELECT count(*) FROM stays WHERE (age > 3 OR emergency) IS NULL

SELECT count(*) FROM stays WHERE (age > 3 AND emergency) IS NOT NULL

SELECT count(*) FROM stays WHERE emergency IS TRUE

SELECT count(*) FROM stays WHERE emergency IS NOT TRUE

SELECT count(*) FROM stays WHERE emergency IS FALSE

SELECT count(*) FROM stays WHERE emergency IS NOT FALSE

SELECT count(*) FROM stays WHERE (age > 3) IS TRUE

SELECT count(*) FROM stays WHERE (age > 3) IS NOT TRUE

SELECT count(*) FROM stays WHERE (age > 3 AND sex = 'male') IS FALSE

SELECT count(*) FROM stays WHERE age IS DISTINCT FROM 3

SELECT count(*) FROM stays WHERE age IS NOT DISTINCT FROM 3

SELECT count(*) FROM stays WHERE age IS NOT DISTINCT FROM NULL

SELECT count(*) FROM stays WHERE sex IS DISTINCT FROM 'male'

SELECT count(*) FROM stays WHERE age <=> 3
-- duckdb: SELECT count(*) FROM stays WHERE age IS NOT DISTINCT FROM 3

SELECT count(*) FROM stays WHERE coalesce(age, 0) = 0

SELECT count(*) FROM stays WHERE coalesce(age, stay, 7) > 3

SELECT count(*) FROM stays WHERE coalesce(emergency, FALSE)

-- # Logic

SELECT count(*) FROM stays WHERE age > 3 AND sex = 'male'

SELECT count(*) FROM stays WHERE age > 3 OR sex = 'male'

SELECT count(*) FROM stays WHERE NOT (age > 3 AND sex = 'male')

SELECT count(*) FROM stays WHERE NOT (age > 3 OR sex = 'male')

SELECT count(*) FROM stays WHERE NOT (NOT (age > 3))

SELECT count(*) FROM stays WHERE NOT NOT emergency

SELECT count(*) FROM stays WHERE age > 3 AND sex = 'male' OR emergency

SELECT count(*) FROM stays WHERE age > 3 AND (sex = 'male' OR emergency)

SELECT count(*) FROM stays WHERE NOT (age > 3 AND (sex = 'male' OR NOT emergency))

SELECT count(*) FROM stays WHERE NOT (age = NULL OR emergency)

SELECT count(*) FROM stays WHERE age > 3 AND age < 9 AND age <> 5

SELECT count(*) FROM stays WHERE age < 3 OR age > 9 OR age = 5

SELECT count(*) FROM stays WHERE age > 3 AND age < 2

SELECT count(*) FROM stays WHERE emergency AND NOT emergency

SELECT count(*) FROM stays WHERE emergency OR NOT emergency

SELECT count(*) FROM stays WHERE (sex = 'male' AND age > 5) OR (sex = 'female' AND age > 8) OR (stay > 2 AND emergency)

SELECT count(*) FROM stays WHERE ((sex = 'male' OR age > 5) AND (sex = 'female' OR stay > 1)) OR NOT (emergency AND age < 4)

SELECT count(*) FROM stays WHERE CASE WHEN emergency THEN age > 3 ELSE age > 8 END

SELECT count(*) FROM stays WHERE CASE WHEN emergency THEN age ELSE 5 END > 3

SELECT count(*) FROM stays WHERE CASE WHEN age > 9 THEN 'old' WHEN age > 4 THEN 'middle' ELSE 'young' END = 'middle'

SELECT count(*) FROM stays WHERE CASE WHEN age > 9 THEN 1 WHEN age > 4 THEN 2 END IS NULL

SELECT count(*) FROM stays WHERE CASE sex WHEN 'male' THEN age > 3 WHEN 'female' THEN age > 6 END

SELECT count(*) FROM stays WHERE CASE WHEN age > 3 THEN TRUE END

SELECT count(*) FROM stays WHERE NOT CASE WHEN age > 3 THEN TRUE WHEN age < 2 THEN FALSE END

SELECT count(*) FROM stays WHERE CASE WHEN emergency THEN age ELSE stay END IN (1, 2, 3)

SELECT count(*) FROM stays WHERE CASE WHEN CASE WHEN emergency THEN age > 5 ELSE stay > 1 END THEN sex = 'male' ELSE sex = 'female' END

SELECT count(*) FROM stays WHERE CASE WHEN emergency THEN age ELSE 5 END BETWEEN 4 AND 6

SELECT count(*) FROM stays WHERE if(emergency, age, 5) > 4

SELECT count(*) FROM stays WHERE CASE WHEN age > 20 AND stay < 1 THEN emergency WHEN age > 18 AND stay < 2 THEN stay > 1 WHEN age > 16 AND stay < 3 THEN sex = 'male' WHEN age > 14 AND stay < 4 THEN emergency WHEN age > 12 AND stay < 1 THEN stay > 1 WHEN age > 10 AND stay < 2 THEN sex = 'male' WHEN age > 8 AND stay < 3 THEN emergency WHEN age > 6 AND stay < 4 THEN stay > 1 WHEN age > 4 AND stay < 1 THEN sex = 'male' WHEN age > 2 AND stay < 2 THEN emergency ELSE age < 4 END

SELECT count(*) FROM stays WHERE NOT CASE WHEN age > 20 AND stay < 1 THEN emergency WHEN age > 18 AND stay < 2 THEN stay > 1 WHEN age > 16 AND stay < 3 THEN sex = 'male' WHEN age > 14 AND stay < 4 THEN emergency WHEN age > 12 AND stay < 1 THEN stay > 1 WHEN age > 10 AND stay < 2 THEN sex = 'male' WHEN age > 8 AND stay < 3 THEN emergency WHEN age > 6 AND stay < 4 THEN stay > 1 WHEN age > 4 AND stay < 1 THEN sex = 'male' WHEN age > 2 AND stay < 2 THEN emergency END

SELECT count(*) FROM stays WHERE CASE WHEN stay > 4.5 OR age > 19 THEN 0 WHEN stay > 4.0 OR age > 18 THEN age WHEN stay > 3.5 OR age > 17 THEN 2 WHEN stay > 3.0 OR age > 16 THEN age WHEN stay > 2.5 OR age > 15 THEN 4 WHEN stay > 2.0 OR age > 14 THEN age WHEN stay > 1.5 OR age > 13 THEN 6 WHEN stay > 1.0 OR age > 12 THEN age WHEN stay > 0.5 OR age > 11 THEN 8 WHEN stay > 0.0 OR age > 10 THEN age END > 7

SELECT count(CASE WHEN stay > 4.5 OR age > 19 THEN 0 WHEN stay > 4.0 OR age > 18 THEN age WHEN stay > 3.5 OR age > 17 THEN 2 WHEN stay > 3.0 OR age > 16 THEN age WHEN stay > 2.5 OR age > 15 THEN 4 WHEN stay > 2.0 OR age > 14 THEN age WHEN stay > 1.5 OR age > 13 THEN 6 WHEN stay > 1.0 OR age > 12 THEN age WHEN stay > 0.5 OR age > 11 THEN 8 WHEN stay > 0.0 OR age > 10 THEN age END), sum(CASE WHEN stay > 4.5 OR age > 19 THEN 0 WHEN stay > 4.0 OR age > 18 THEN age WHEN stay > 3.5 OR age > 17 THEN 2 WHEN stay > 3.0 OR age > 16 THEN age WHEN stay > 2.5 OR age > 15 THEN 4 WHEN stay > 2.0 OR age > 14 THEN age WHEN stay > 1.5 OR age > 13 THEN 6 WHEN stay > 1.0 OR age > 12 THEN age WHEN stay > 0.5 OR age > 11 THEN 8 WHEN stay > 0.0 OR age > 10 THEN age END), avg(CASE WHEN stay > 4.5 OR age > 19 THEN 0 WHEN stay > 4.0 OR age > 18 THEN age WHEN stay > 3.5 OR age > 17 THEN 2 WHEN stay > 3.0 OR age > 16 THEN age WHEN stay > 2.5 OR age > 15 THEN 4 WHEN stay > 2.0 OR age > 14 THEN age WHEN stay > 1.5 OR age > 13 THEN 6 WHEN stay > 1.0 OR age > 12 THEN age WHEN stay > 0.5 OR age > 11 THEN 8 WHEN stay > 0.0 OR age > 10 THEN age END) FROM stays

-- # Dates

SELECT count(*) FROM stays WHERE year(admitted) = 2024

SELECT count(*) FROM stays WHERE extract(year FROM admitted) < 2024

SELECT count(*) FROM stays WHERE extract(month FROM admitted) IN (12, 1)

SELECT count(*) FROM stays WHERE month(admitted) >= 11

SELECT count(*) FROM stays WHERE month(admitted) <> 1.5

SELECT count(*) FROM stays WHERE month(admitted) > 1.5

SELECT count(*) FROM stays WHERE month(admitted) < 2.5

SELECT count(*) FROM stays WHERE month(admitted) >= 2.5

SELECT count(*) FROM stays WHERE month(admitted) <= 2.5

SELECT count(*) FROM stays WHERE month(admitted) = 2.5

SELECT count(*) FROM stays WHERE day(admitted) = 1

SELECT count(*) FROM stays WHERE date_part('quarter', admitted) = 1

SELECT count(*) FROM stays WHERE extract(dow FROM admitted) IN (0, 6)

SELECT count(*) FROM stays WHERE extract(isodow FROM admitted) > 5

SELECT count(*) FROM stays WHERE extract(doy FROM admitted) < 40

SELECT count(*) FROM stays WHERE extract(week FROM admitted) = 52

SELECT count(*) FROM stays WHERE dayofweek(admitted) = 3

SELECT count(*) FROM stays WHERE dayofyear(admitted) BETWEEN 10 AND 20

SELECT count(*) FROM stays WHERE date_trunc('month', admitted) = DATE '2024-01-01'

SELECT count(*) FROM stays WHERE date_trunc('week', admitted) = DATE '2024-01-01'

SELECT count(*) FROM stays WHERE date_trunc('quarter', admitted) >= DATE '2024-01-01'

SELECT count(*) FROM stays WHERE date_trunc('year', admitted) < DATE '2024-01-01'

SELECT count(*) FROM stays WHERE date_trunc('day', admitted) = DATE '2024-01-09'

SELECT count(*) FROM stays WHERE year(admitted) IS NULL

-- # Sums, averages, spread

SELECT sum(age) FROM stays

SELECT sum(stay) FROM stays WHERE sex = 'male'

SELECT sum(age) FILTER (WHERE emergency) FROM stays

SELECT sum(2 * age + 1) FROM stays

SELECT sum(age / 3) FROM stays

SELECT sum(stay * 0.1 - 7) FROM stays

SELECT sum(-stay) FROM stays

SELECT sum(age * 1000) FROM stays

SELECT sum(1) FROM stays

SELECT sum(emergency::int) FROM stays

SELECT sum((age > 3)::int) FROM stays

SELECT sum(CAST(age > 3 AS INTEGER)) FROM stays WHERE emergency

SELECT sum(CASE WHEN age > 3 THEN 1 ELSE 0 END) FROM stays

SELECT sum(CASE WHEN age > 3 THEN stay END) FROM stays

SELECT sum(CASE WHEN age > 3 THEN stay ELSE -stay END) FROM stays

SELECT sum(CASE WHEN age > 3 THEN 2.5 WHEN emergency THEN 1e3 ELSE 0.01 END) FROM stays

SELECT sum(CASE WHEN sex = 'male' THEN CASE WHEN emergency THEN age ELSE stay END ELSE 1 END) FROM stays

SELECT sum(CASE sex WHEN 'male' THEN 1 WHEN 'female' THEN 2 ELSE 3 END) FROM stays

SELECT sum(2 * CASE WHEN emergency THEN age ELSE 0.5 END - 1) FROM stays

SELECT sum(coalesce(age, 3)) FROM stays

SELECT sum(coalesce(age, stay, 3)) FROM stays

SELECT avg(age) FROM stays

SELECT mean(age) FROM stays

SELECT avg(stay) FROM stays WHERE stay < 2

SELECT avg(stay) FROM stays WHERE stay < 2 AND stay > 0.5 AND emergency

SELECT avg(stay) FILTER (WHERE stay >= 4) FROM stays

SELECT avg(emergency::int) FROM stays

SELECT avg(CASE WHEN emergency THEN 1 ELSE 0 END) FROM stays

SELECT avg(CASE WHEN emergency THEN 1 WHEN NOT emergency THEN 0 END) FROM stays

SELECT avg(CASE WHEN age > 3 THEN stay END) FROM stays

SELECT avg(CASE WHEN stay > 3 THEN stay ELSE 10 * stay END) FROM stays

SELECT avg((age > 3)::int) FROM stays

SELECT avg(3 * age - 7) FROM stays WHERE age BETWEEN 4 AND 9

SELECT avg(-2 * stay) FROM stays

SELECT avg(coalesce(stay, 0)) FROM stays

SELECT avg(age), avg(age) AS again, count(age) FROM stays

SELECT var_pop(age) FROM stays

SELECT var_samp(age) FROM stays

SELECT variance(stay) FROM stays

SELECT var(stay) FROM stays
-- duckdb: SELECT var_samp(stay) FROM stays

SELECT stddev(stay) FROM stays

SELECT std(stay) FROM stays
-- duckdb: SELECT stddev_samp(stay) FROM stays

SELECT stddev_samp(age) FROM stays WHERE emergency

SELECT stddev_pop(2 * age + 1) FROM stays

SELECT var_pop(CASE WHEN emergency THEN age ELSE stay END) FROM stays

SELECT avg(age), stddev(age), var_pop(age) FILTER (WHERE age > 4) FROM stays

-- # Quantiles

SELECT median(age) FROM stays
-- duckdb: SELECT quantile_disc(age, 0.5) FROM stays

SELECT median(stay) FROM stays WHERE emergency
-- duckdb: SELECT quantile_disc(stay, 0.5) FROM stays WHERE emergency

SELECT quantile(age, 0.25) FROM stays
-- duckdb: SELECT quantile_disc(age, 0.25) FROM stays

SELECT quantile_cont(stay, 0.9) FROM stays
-- duckdb: SELECT quantile_disc(stay, 0.9) FROM stays

SELECT quantile_disc(stay, 0.9) FROM stays

SELECT approx_quantile(stay, 0.3) FROM stays
-- duckdb: SELECT quantile_disc(stay, 0.3) FROM stays

SELECT percentile_cont(0.75) WITHIN GROUP (ORDER BY age) FROM stays
-- duckdb: SELECT quantile_disc(age, 0.75) FROM stays

SELECT percentile_disc(0.75) WITHIN GROUP (ORDER BY age) FILTER (WHERE emergency) FROM stays
-- duckdb: SELECT quantile_disc(age, 0.75) FROM stays WHERE emergency

SELECT median(admitted) FROM stays
-- duckdb: SELECT quantile_disc(admitted, 0.5) FROM stays

SELECT min(age), max(age) FROM stays
-- duckdb: SELECT quantile_disc(age, 0.01), quantile_disc(age, 0.99) FROM stays

SELECT max(admitted) FROM stays WHERE sex = 'male'
-- duckdb: SELECT quantile_disc(admitted, 0.99) FROM stays WHERE sex = 'male'

SELECT sex, median(stay) FROM stays GROUP BY sex
-- duckdb: SELECT sex, quantile_disc(stay, 0.5) FROM stays GROUP BY sex

-- # Groups

SELECT sex, count(*) FROM stays GROUP BY sex

SELECT count(*), sex FROM stays GROUP BY sex

SELECT sex, count(*) FROM stays GROUP BY 1

SELECT sex AS s, count(*) FROM stays GROUP BY s

SELECT sex, count(*) FROM stays GROUP BY ALL

SELECT sex, emergency, count(*) FROM stays GROUP BY sex, emergency

SELECT sex, emergency, count(*) FROM stays GROUP BY emergency, sex

SELECT emergency, count(*), sex FROM stays GROUP BY 1, 3

SELECT count(*) FROM stays GROUP BY sex

SELECT s.sex, count(*) FROM stays s GROUP BY s.sex

SELECT age, count(*) FROM stays GROUP BY age

SELECT age, avg(stay), sum(stay) FROM stays WHERE sex = 'male' GROUP BY age

SELECT emergency, avg(age), stddev(age) FROM stays GROUP BY emergency

SELECT admitted, count(*) FROM stays WHERE age < 4 GROUP BY admitted

SELECT CASE WHEN age > 500 THEN 'old' ELSE 'young' END AS k, count(*), avg(stay) FROM stays GROUP BY 1

SELECT CASE WHEN age > 500 THEN 1 ELSE 1 END AS k, sex, sum(age) FROM stays GROUP BY 1, 2

SELECT stay, count(*) FROM stays GROUP BY stay
-- duckdb: SELECT CASE WHEN stay < 1 THEN '[0, 1)' WHEN stay < 3 THEN '[1, 3)' WHEN stay >= 3 THEN '[3, 5]' END, count(*) FROM stays GROUP BY 1

SELECT bin(stay), count(*) FROM stays GROUP BY bin(stay)
-- duckdb: SELECT CASE WHEN stay < 1 THEN '[0, 1)' WHEN stay < 3 THEN '[1, 3)' WHEN stay >= 3 THEN '[3, 5]' END, count(*) FROM stays GROUP BY 1

SELECT bin(stay, 2.5), avg(age) FROM stays GROUP BY 1
-- duckdb: SELECT CASE WHEN stay < 2.5 THEN '[0, 2.5)' WHEN stay < 5 THEN '[2.5, 5)' ELSE stay::int::varchar END, avg(age) FROM stays GROUP BY 1

SELECT bin(age, 10) AS decade, count(*) FROM stays GROUP BY decade
-- duckdb: SELECT CASE WHEN age < 10 THEN '0 to 9' WHEN age < 20 THEN '10 to 19' ELSE age::varchar END, count(*) FROM stays GROUP BY 1

SELECT bin(admitted, 100), count(*) FROM stays GROUP BY 1
-- duckdb: SELECT CASE WHEN admitted < '2024-02-09' THEN '2023-11-01 to 2024-02-08' WHEN admitted IS NOT NULL THEN '2024-02-09 to 2024-03-31' END, count(*) FROM stays GROUP BY 1

SELECT date_trunc('month', admitted), count(*) FROM stays GROUP BY 1
-- duckdb: SELECT strftime(admitted, '%Y-%m'), count(*) FROM stays GROUP BY 1

SELECT date_trunc('month', admitted) AS month, sex, count(*) FROM stays GROUP BY month, sex
-- duckdb: SELECT strftime(admitted, '%Y-%m'), sex, count(*) FROM stays GROUP BY 1, 2

SELECT year(admitted), count(*) FROM stays GROUP BY year(admitted)
-- duckdb: SELECT CASE WHEN year(admitted) = 2023 THEN '2023-11-01 to 2023-12-31' WHEN year(admitted) = 2024 THEN '2024-Q1' END, count(*) FROM stays GROUP BY 1

SELECT month(admitted), count(*) FROM stays GROUP BY 1

SELECT extract(dow FROM admitted) AS weekday, avg(age) FROM stays GROUP BY weekday

SELECT CASE WHEN age < 5 THEN 'young' WHEN age < 12 THEN 'middle' ELSE 'old' END AS band, count(*) FROM stays GROUP BY band

SELECT CASE WHEN age < 5 THEN 'young' WHEN age < 12 THEN 'middle' WHEN age >= 12 THEN 'old' END, avg(stay) FROM stays GROUP BY 1

SELECT CASE WHEN age < 5 THEN 'a' WHEN age < 8 THEN 'b' WHEN age < 12 THEN 'a' ELSE 'c' END, count(*) FROM stays GROUP BY 1

SELECT CASE WHEN age < 5 THEN 'a' WHEN emergency THEN 'b' ELSE 'a' END, count(*) FROM stays GROUP BY 1

SELECT CASE WHEN age < 5 THEN 1 ELSE 2 END, sum(stay) FROM stays GROUP BY 1

SELECT age > 5, count(*) FROM stays GROUP BY age > 5

SELECT age > 5 AND emergency AS both_, count(*) FROM stays GROUP BY both_

SELECT CASE WHEN emergency THEN 'yes' WHEN emergency IS NULL THEN 'unknown' ELSE 'no' END, count(*) FROM stays GROUP BY 1

SELECT sex, count(*) FILTER (WHERE age > 3), sum(stay) FILTER (WHERE emergency) FROM stays GROUP BY sex

SELECT sex, sum(CASE WHEN age > 3 THEN stay ELSE 0 END) FROM stays GROUP BY sex

-- # What is shown

SELECT count(*) * 2 FROM stays

SELECT count(*) + 1, -count(*), count(*) / 4.0 FROM stays

SELECT sum(stay) / count(*) FROM stays

SELECT 100.0 * count(*) FILTER (WHERE emergency) / count(*) AS percent FROM stays

SELECT sex, 100.0 * sum(emergency::int) / count(emergency) AS percent FROM stays GROUP BY sex

SELECT (sum(age) - sum(stay)) / (count(*) + 1) FROM stays

SELECT avg(age) - avg(stay) FROM stays

SELECT CAST(count(*) AS DOUBLE) / 3 FROM stays

SELECT count(*)::float / 4 FROM stays

SELECT 1, count(*), 'all' FROM stays

SELECT sex, count(*) FROM stays GROUP BY sex HAVING count(*) > 3000

SELECT sex, count(*) AS n FROM stays GROUP BY sex HAVING n > 3000 AND n < 9000

SELECT sex, count(*) AS n FROM stays GROUP BY sex HAVING NOT (n > 3000 OR avg(age) < 7)

SELECT sex FROM stays GROUP BY sex HAVING count(*) > 3000

SELECT sex, count(*) AS n FROM stays GROUP BY sex HAVING n BETWEEN 1000 AND 5000

SELECT sex, count(*) / 2 AS half FROM stays GROUP BY sex HAVING half > 1500

SELECT sex, count(*) FROM stays GROUP BY sex ORDER BY count(*) DESC LIMIT 2

SELECT sex, count(*) AS n FROM stays GROUP BY sex ORDER BY n LIMIT 2

SELECT sex, count(*) FROM stays GROUP BY sex ORDER BY 2 DESC LIMIT 1 OFFSET 1

SELECT age, count(*) FROM stays WHERE age IS NOT NULL GROUP BY age ORDER BY age LIMIT 3

SELECT age, count(*) FROM stays WHERE age > 3 GROUP BY age ORDER BY age DESC LIMIT 3 OFFSET 2

SELECT age, sex, count(*) AS n FROM stays GROUP BY age, sex ORDER BY n DESC, age LIMIT 5

SELECT age, avg(stay) FROM stays GROUP BY age ORDER BY avg(stay) DESC NULLS LAST LIMIT 4

SELECT age, count(*) FROM stays GROUP BY age ORDER BY -count(*) LIMIT 4

SELECT age FROM stays GROUP BY age ORDER BY sum(stay) / count(*) DESC LIMIT 4

SELECT count(*) FROM stays LIMIT 1

SELECT count(*) FROM stays ORDER BY 1

-- # Expressions of single rows

SELECT count(*) FROM stays WHERE age = '3'

SELECT count(*) FROM stays WHERE age IN ('3', '4')

SELECT count(*) FROM stays WHERE age BETWEEN '3' AND '12'

SELECT count(*) FROM stays WHERE stay = '0.25'

SELECT count(*) FROM stays WHERE stay > ' -1.5 '

SELECT count(*) FROM stays WHERE year(admitted) = '2024'

SELECT count(*) FROM stays WHERE year(admitted) + 1 = 2024

SELECT count(*) FROM stays WHERE emergency = 1

SELECT count(*) FROM stays WHERE emergency = 'true'

SELECT count(*) FROM stays WHERE age = stay

SELECT count(*) FROM stays WHERE age <> stay

SELECT count(*) FROM stays WHERE NOT age < stay

SELECT count(*) FROM stays WHERE age > age

SELECT count(*) FROM stays WHERE age >= age

SELECT count(*) FROM stays WHERE age + stay > 3

SELECT count(*) FROM stays WHERE age * stay BETWEEN 3 AND 10

SELECT count(*) FROM stays WHERE age - 2 * stay >= 3 OR stay IS NULL

SELECT count(*) FROM stays WHERE age * age > 3

SELECT count(*) FROM stays WHERE 3 / age > 1
-- duckdb: SELECT count(*) FROM stays WHERE 3 / nullif(age, 0) > 1

SELECT count(*) FROM stays WHERE stay / nullif(age, 0) > 0.25

SELECT count(*) FROM stays WHERE age % 2 = 0

SELECT count(*) FROM stays WHERE mod(age - 10, 4) = -1

SELECT count(*) FROM stays WHERE age // 2 = 0

SELECT count(*) FROM stays WHERE (age - 10) // 3 = -1

SELECT count(*) FROM stays WHERE abs(age - 10) > 3

SELECT count(*) FROM stays WHERE sign(age - 10) = -1

SELECT count(*) FROM stays WHERE round(stay) > 3

SELECT count(*) FROM stays WHERE round(stay - 2, 1) = -0.3

SELECT count(*) FROM stays WHERE round(age, -1) = 10

SELECT count(*) FROM stays WHERE trunc(stay - 2) = 0

SELECT count(*) FROM stays WHERE ceil(stay) = 3 AND floor(stay) = 2

SELECT count(*) FROM stays WHERE power(age, 2) > 50

SELECT count(*) FROM stays WHERE age BETWEEN stay AND 3

SELECT count(*) FROM stays WHERE greatest(age, 10) = 10

SELECT count(*) FROM stays WHERE least(age, stay) > 2

SELECT count(*) FROM stays WHERE greatest(age, stay, 4) > 5

SELECT count(*) FROM stays WHERE nullif(age, 3) = 2

SELECT count(*) FROM stays WHERE nullif(age, 3) IS NULL

SELECT count(*) FROM stays WHERE coalesce(age, stay) > 3

SELECT count(*) FROM stays WHERE coalesce(age, 0) + coalesce(stay, 0) > 3

SELECT count(*) FROM stays WHERE abs(age - stay) > 3

SELECT count(*) FROM stays WHERE sign(age - stay) = 1

SELECT sum(age * stay) FROM stays

SELECT sum(age * stay) FROM stays WHERE age > 5 AND stay < 2

SELECT sum(age + stay), sum(age - stay) FROM stays

SELECT avg(age * stay), avg(age - stay) FROM stays WHERE emergency

SELECT sex, sum(age * stay) FROM stays GROUP BY sex

SELECT avg(age * stay) FROM stays WHERE age > stay

SELECT sum((age - 3) * (stay + 1) * (1 - 0.1)) FROM stays

SELECT sum(age * age), sum(power(age, 2)), sum(age * age * stay) FROM stays

SELECT stddev_pop(age * stay), variance(age - stay) FROM stays

SELECT sum(emergency * stay) FROM stays
-- duckdb: SELECT sum(CAST(emergency AS INTEGER) * stay) FROM stays

SELECT sum(CASE WHEN emergency THEN age * stay ELSE stay END) FROM stays

SELECT sum(coalesce(age, 0) + coalesce(stay, 0)) FROM stays

SELECT sum(CASE WHEN age > 5 THEN age ELSE stay END * 2 + stay) FROM stays

SELECT sum(floor(stay)), sum(round(stay)), avg(abs(age - 10)) FROM stays

SELECT sum(greatest(least(age, 15), 5)) FROM stays

SELECT sum(greatest(age, stay)), sum(least(age, stay)) FROM stays

SELECT sum(abs(age - stay)) FROM stays

SELECT avg(year(admitted)), sum(mod(age, 5)) FROM stays

SELECT avg(admitted - DATE '2024-01-01') FROM stays

SELECT sum(length(sex)) FROM stays WHERE sex <> '<outside>'

SELECT count(floor(age / 5)), count(age + stay) FROM stays

SELECT count(*) FROM stays WHERE (age, stay) IN ((3, 1), (4, 2.5))

-- # Texts

SELECT count(*) FROM stays WHERE lower(sex) = 'male' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE upper(sex) IN ('MALE', 'OTHER') AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE sex || 'x' = 'malex' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE length(sex) > 4 AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE substr(sex, 1, 1) = 'm' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE left(sex, 2) = 'fe' AND right(sex, 2) = 'le' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE replace(sex, 'fe', '') = 'male' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE trim(sex) = 'male' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE upper(sex) LIKE '%MALE' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE starts_with(sex, 'ma') AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE contains(sex, 'al') AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE strpos(sex, 'm') = 3 AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE split_part(sex, 'a', 1) = 'm' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE reverse(sex) = 'elam' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE concat(sex, '-', age) = 'male-3' AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE CAST(age AS VARCHAR) = '3'

SELECT count(*) FROM stays WHERE CAST(emergency AS VARCHAR) = 'true'

SELECT upper(sex), count(*) FROM stays WHERE sex <> '<outside>' GROUP BY 1

SELECT coalesce(sex, 'unknown') AS s, count(*) FROM stays WHERE sex IS NULL OR sex <> '<outside>' GROUP BY s

SELECT CASE WHEN emergency THEN 'urgent' ELSE sex END AS s, count(*) FROM stays WHERE sex <> '<outside>' GROUP BY s

SELECT sex || '/' || emergency AS s, count(*) FROM stays WHERE sex <> '<outside>' GROUP BY s

-- # Dates

SELECT count(*) FROM stays WHERE admitted > TIMESTAMP '2024-01-01 00:00:00'

SELECT count(*) FROM stays WHERE admitted >= '2024-01-01T00:00:00' AND admitted < '2024-02-01 00:00:00.000'

SELECT count(*) FROM stays WHERE admitted >= '2024-01-01 12:30:00' AND admitted < '2024-02-01 00:00:01'
-- duckdb: SELECT count(*) FROM stays WHERE admitted > '2024-01-01' AND admitted <= '2024-02-01'

SELECT count(*) FROM stays WHERE admitted > CURRENT_DATE

SELECT count(*) FROM stays WHERE admitted > now()
-- duckdb: SELECT count(*) FROM stays WHERE admitted > current_date

SELECT count(*) FROM stays WHERE admitted > current_date - INTERVAL '200 years'

SELECT count(*) FROM stays WHERE admitted > DATE '2024-01-01' - INTERVAL 3 DAY

SELECT count(*) FROM stays WHERE admitted + 1 > DATE '2024-01-01'

SELECT count(*) FROM stays WHERE admitted + INTERVAL '1 month' > DATE '2024-02-29'

SELECT count(*) FROM stays WHERE admitted - INTERVAL '1' MONTH < DATE '2023-12-15'

SELECT count(*) FROM stays WHERE DATE '2024-02-01' - admitted > 10

SELECT count(*) FROM stays WHERE datediff('month', admitted, DATE '2024-02-01') = 1

SELECT lpad(sex, 9, '.') AS s, rpad(CAST(emergency AS VARCHAR), 2, '0') AS e, count(*) FROM stays GROUP BY 1, 2

SELECT count(*) FROM stays WHERE datediff('day', admitted, '2024-02-01') > 5

SELECT count(*) FROM stays WHERE datediff('month', '2023-12-15', admitted) = 1

SELECT datediff(day, DATE '2024-01-01', admitted) > 5 AS late, count(*) FROM stays GROUP BY 1
-- duckdb: SELECT datediff('day', DATE '2024-01-01', admitted) > 5 AS late, count(*) FROM stays GROUP BY 1

SELECT count(*) FROM stays WHERE date(admitted) > '2024-01-03'

SELECT count(*) FROM stays WHERE date_diff('day', DATE '2024-01-01', admitted) BETWEEN 0 AND 9

SELECT count(*) FROM stays WHERE date_diff('quarter', admitted, DATE '2024-03-31') = 1

SELECT count(*) FROM stays WHERE CAST(admitted AS TIMESTAMP) > '2024-01-01'

SELECT count(*) FROM stays WHERE admitted::date = '2024-01-05'

SELECT count(*) FROM stays WHERE last_day(admitted) = DATE '2024-02-29'

SELECT count(*) FROM stays WHERE monthname(admitted) = 'January' AND dayname(admitted) = 'Friday'

SELECT count(*) FROM stays WHERE strftime(admitted, '%Y-%m') = '2024-01'

SELECT count(*) FROM stays WHERE strftime(admitted, '%Y-%m') >= '2024-01'

SELECT strftime(admitted, '%b %Y') AS m, count(*) FROM stays GROUP BY m

SELECT strftime(admitted, '%G-W%V') AS w, count(*) FROM stays GROUP BY w

SELECT strftime(admitted, '%j %U %W %u %w %y %-d %B %A %a') AS w, count(*) FROM stays GROUP BY w

SELECT to_char(admitted, 'YYYY-MM') AS m, count(*) FROM stays GROUP BY m
-- duckdb: SELECT strftime(admitted, '%Y-%m') AS m, count(*) FROM stays GROUP BY m

SELECT extract(epoch FROM admitted) AS e, count(*) FROM stays GROUP BY e

SELECT isoyear(admitted) AS y, count(*) FROM stays GROUP BY y

SELECT extract(decade FROM admitted) AS d, extract(century FROM admitted) AS c, count(*) FROM stays GROUP BY d, c

SELECT count(*) FROM stays WHERE date_part('year', age(DATE '2025-01-15', admitted)) = 1

SELECT count(*) FROM stays WHERE extract(month FROM age(DATE '2025-01-15', admitted)) = 1

SELECT last_day(admitted) AS d, count(*) FROM stays GROUP BY d

SELECT admitted + 7 AS d, count(*) FROM stays GROUP BY d

-- # Computed groups

SELECT floor(age / 5) * 5 AS a, count(*) FROM stays GROUP BY a

SELECT floor(age / 5) * 5, avg(stay) FROM stays GROUP BY floor(age / 5) * 5

SELECT age // 5 AS a, count(*) FROM stays GROUP BY a

SELECT age % 3 AS a, sum(stay) FROM stays GROUP BY a

SELECT round(stay) AS s, count(*) FROM stays GROUP BY s

SELECT age + 1 AS a, count(*) FROM stays GROUP BY a

SELECT 2 * age - 5 AS a, count(*) FROM stays GROUP BY a

SELECT CASE WHEN age < 10 THEN 0 ELSE age END AS a, count(*) FROM stays GROUP BY a

SELECT age > stay AS a, count(*) FROM stays GROUP BY a

SELECT age - floor(stay) AS a, count(*) FROM stays GROUP BY a

SELECT width_bucket(age, 2, 17, 3) AS a, count(*) FROM stays GROUP BY a
-- duckdb: SELECT CASE WHEN age < 2 THEN 0 WHEN age >= 17 THEN 4 WHEN age IS NOT NULL THEN (age - 2) // 5 + 1 END AS a, count(*) FROM stays GROUP BY a

SELECT count(*) FROM stays WHERE sex = ANY(ARRAY['male', 'other'])
-- duckdb: SELECT count(*) FROM stays WHERE sex IN ('male', 'other')

SELECT count(*) FROM stays WHERE age = ANY('{1,2,3}')
-- duckdb: SELECT count(*) FROM stays WHERE age IN (1, 2, 3)

-- # Two columns together

SELECT covar_pop(age, stay), covar_samp(age, stay) FROM stays

SELECT corr(age, stay) FROM stays WHERE emergency

SELECT sex, regr_slope(stay, age), regr_intercept(stay, age), regr_r2(stay, age) FROM stays GROUP BY sex

SELECT regr_count(stay, age), regr_avgx(stay, age), regr_avgy(stay, age) FROM stays

SELECT count(*) FROM "public"."stays" WHERE "public"."stays"."sex" = 'male'
-- duckdb: SELECT count(*) FROM stays WHERE sex = 'male'

SELECT count(*) FROM main.stays

SELECT count(*) FROM stays WHERE admitted >= to_date('2024-01-31', 'YYYY-MM-DD') AND admitted < to_date('01.03.2024', 'DD.MM.YYYY')
-- duckdb: SELECT count(*) FROM stays WHERE admitted >= DATE '2024-01-31' AND admitted < DATE '2024-03-01'

-- # Regular expressions, and functions of columns with many values

SELECT count(*) FROM stays WHERE regexp_matches(sex, '^m|e$') AND sex <> '<outside>'

SELECT count(*) FROM stays WHERE sex ~ 'mal' AND sex <> '<outside>'
-- duckdb: SELECT count(*) FROM stays WHERE contains(sex, 'mal')

SELECT count(*) FROM stays WHERE sex !~ 'mal' AND sex <> '<outside>'
-- duckdb: SELECT count(*) FROM stays WHERE sex = 'other'

SELECT count(*) FROM stays WHERE sex ~* '^MALE$' OR sex SIMILAR TO '(o|x)%'
-- duckdb: SELECT count(*) FROM stays WHERE sex IN ('male', 'other')

SELECT count(*) FROM stays WHERE regexp_like(sex, 'MALE', 'i') AND NOT regexp_full_match(sex, 'ma.*') AND sex <> '<outside>'
-- duckdb: SELECT count(*) FROM stays WHERE sex = 'female'

SELECT regexp_replace(sex, 'e', '', 'g') AS short, count(*) FROM stays WHERE sex <> '<outside>' GROUP BY 1

SELECT regexp_extract(sex, '(f?)(m.)', 2) AS part, count(*) FROM stays WHERE sex <> '<outside>' GROUP BY 1

SELECT round(stay, 1) AS k, count(*) FROM stays WHERE stay >= 0 GROUP BY 1
-- duckdb: SELECT round(stay::decimal(10, 2), 1) AS k, count(*) FROM stays WHERE stay >= 0 GROUP BY 1

SELECT round(age, -1) AS k, count(*) FROM stays WHERE age >= 0 GROUP BY 1

SELECT width_bucket(stay, 1, 4, 6) AS b, count(*) FROM stays WHERE stay >= 0 GROUP BY 1
-- duckdb: SELECT CASE WHEN stay < 1 THEN 0 WHEN stay >= 4 THEN 7 ELSE 1 + floor((stay - 1) * 2) END AS b, count(*) FROM stays WHERE stay >= 0 GROUP BY 1

SELECT sex, count(*) FROM stays WHERE sex <> '<outside>' GROUP BY sex ORDER BY sex FETCH FIRST 2 ROWS ONLY
-- duckdb: SELECT sex, count(*) FROM stays WHERE sex IN ('female', 'male') GROUP BY sex ORDER BY sex
