"""Texts that nobody would write: soups of tokens, mutations of accepted statements, bytes, and deep nests."""

from __future__ import annotations

import random

from tests.sql.pairs import blocks

_TEXT = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT OFFSET AS AND OR NOT IN IS NULL TRUE FALSE BETWEEN LIKE ILIKE CASE WHEN
THEN ELSE END FILTER WITHIN DISTINCT ALL ANY EXISTS UNION JOIN ON USING OVER PARTITION WITH CAST DATE TIMESTAMP INTERVAL
count sum avg min max var_pop stddev median quantile percentile_cont coalesce if bin date_trunc extract year month
count_if stays sex age stay admitted emergency patient_id s x n 'female' 'male' '<missing>' '<outside>' '2024-01-01'
'x' '' "age" 0 1 2 3.5 1e9 1e-9 1e999 99999999999999999999 -1 ( ) , . * + - / % = <> != < <= > >= <=> :: ; || | & ^ ~ !
? @ $1 # : [ ] { } -> ->> => -- /* */ \\ ` ' " \x00 é ≥ ARRAY STRUCT MAP DECIMAL(5,2) INTEGER VARCHAR BOOLEAN ROWS
ESCAPE SIMILAR COLLATE AT TIME ZONE DESC ASC NULLS FIRST LAST FETCH TOP INTO VALUES PIVOT UNNEST LATERAL TABLESAMPLE
QUALIFY WINDOW DEFAULT SET INSERT DROP CREATE PRAGMA SHOW USE GRANT DESCRIBE ISNULL NOTNULL DIV MOD XOR GLOB RLIKE
REGEXP OVERLAPS
"""
_WORDS = _TEXT.split()
_BEGINNING = "SELECT count(*) FROM stays WHERE"
_NESTS = (
    ("(", "age", ")"),
    ("NOT ", "emergency", ""),
    ("- ", "age", ""),
    ("+ ", "age", ""),
    ("~", "age", ""),
    ("CASE WHEN ", "emergency", " THEN TRUE END"),
    ("CASE WHEN TRUE THEN ", "age", " END"),
    ("CASE WHEN (", "emergency", ") THEN age > 3 ELSE stay > 1 END"),
    ("coalesce(", "age", ", 1)"),
    ("CAST(", "age", " AS INTEGER)"),
    ("date(", "age", ")"),
    ("decimal(", "1", ")"),
    ("f(", "age", ")"),
    ("age IN (", "1", ")"),
    ("if(", "emergency", ", 1, 2)"),
    ("age BETWEEN ", "1", " AND 2"),
    ("age > 3 AND (", "emergency", ")"),
    ("age > 3 OR NOT (", "emergency", ")"),
    ("(emergency OR stay > 1) AND (", "age > 3", " OR sex = 'male')"),
    ("", "age", " + 1"),
    ("", "age", " IS NULL"),
    ("", "age", "::int"),
    ("", "emergency", " IS NOT TRUE"),
    ("", "age > 3", " AND stay > 1"),
    ("", "age > 3", " OR stay > 1 AND emergency"),
    ("", "age", " <=> 3"),
    ("[", "1", "]"),
    ("{", "1", "}"),
    ("SELECT (", "1", ")"),
    ("STRUCT<", "a INT", ">"),
    ("ARRAY<", "INT", ">"),
    ("date < ", "1", ""),
    ("interval ", "1", ""),
    ("x.", "age", ""),
    ("'a' ", "'b'", ""),
    ("/*", "", "*/"),
)
_STATEMENTS = [text for text, _ in blocks("accepted.sql")] + [text for text, _ in blocks("refused.sql")]


def text(generator: random.Random) -> str:
    """Return a text that a compiler should refuse, or, now and then, accept."""
    kind = generator.randrange(5)
    if kind == 0:
        return " ".join(generator.choices(_WORDS, k=generator.randrange(1, 40)))
    if kind == 1:
        return " ".join([_BEGINNING, *generator.choices(_WORDS, k=generator.randrange(1, 20))])
    if kind == 2:
        return _mutated(generator)
    if kind == 3:
        return generator.randbytes(generator.randrange(1, 200)).decode("latin-1")
    return _nested(generator)


def _mutated(generator: random.Random) -> str:
    tokens = generator.choice(_STATEMENTS).split(" ")
    for _ in range(generator.choice([0, 1, 1, 2, 4])):
        place = generator.randrange(len(tokens))
        match generator.randrange(5):
            case 0:
                tokens[place] = generator.choice(_WORDS)
            case 1:
                tokens.insert(place, generator.choice(_WORDS))
            case 2 if len(tokens) > 1:
                del tokens[place]
            case 3:
                tokens += generator.choice(_STATEMENTS).split(" ")[place:]
            case _:
                word = tokens[place]
                cut = generator.randrange(len(word) + 1)
                tokens[place] = word[:cut] + chr(generator.randrange(1, 300)) + word[cut:]
    return " ".join(tokens)


def _nested(generator: random.Random) -> str:
    depth = generator.choice([2, 5, 10, 15, 17, 40, 100, 300])
    inner = generator.choice(_NESTS)[1]
    layers = generator.choices(_NESTS, k=generator.randrange(1, 4))
    for number in range(depth):
        before, _, after = layers[number % len(layers)]
        inner = f"{before}{inner}{after}"
    place = generator.choice(
        ["SELECT count(*) FROM stays WHERE {}", "SELECT sum({}) FROM stays", "SELECT {} FROM stays"]
    )
    place = generator.choice([place, "SELECT count(*) FROM stays GROUP BY {}", "SELECT count(*) FROM stays HAVING {}"])
    return place.format(inner)


_PARTS = """
OVER () , OVER (ORDER BY 1) | PARTITION BY sex | UNION ALL SELECT sex, count(*) FROM stays GROUP BY sex | WITH x AS (
SELECT count(*) AS n FROM stays) | ROLLUP (sex) | CUBE (sex, emergency) | GROUPING SETS ((sex), ()) | AS x | x.n | n
(SELECT count(*) FROM stays) | (SELECT max(n) FROM x) | LIMIT 3 | ORDER BY 2 DESC | HAVING count(*) > 10 | QUALIFY
rank() OVER (ORDER BY n) < 3 | CASE WHEN n > 3 THEN 'a' END | round(n, 1) | n / 0 | n / nullif(n, 0) | lag(n) | *
read_csv('x') | CROSS JOIN | JOIN y ON x.n = y.n | USING (sex) | DISTINCT | sum(n) | sum(count(*)) | EXPLAIN
DP_INTERVAL_LOW(n) | INTERVAL '1' MONTH | CAST(n AS INTEGER) | n::text | coalesce(n, 0) | EXISTS (SELECT 1) | FROM stays
FROM x | FROM (SELECT * FROM stays) AS y | WHERE n IN (SELECT n FROM x) | GROUP BY ALL | grouping(sex) | first_value(n)
""".replace("\n", " | ").split(" | ")


def statement(generator: random.Random) -> str:
    """Return a statement of two halves that was answered or refused once, with parts left out, doubled or exchanged."""
    pages = [*blocks("statements.sql"), *blocks("statements_refused.sql")]
    words = generator.choice(pages)[0].split(" ")
    other = generator.choice(pages)[0].split(" ")
    for _ in range(generator.choice((0, 1, 1, 2, 3, 6))):
        place = generator.randrange(len(words) + 1)
        match generator.randrange(5):
            case 0:
                del words[place : place + generator.choice((1, 1, 2, 4))]
            case 1:
                words[place:place] = words[place - 3 : place]
            case 2:
                words.insert(place, generator.choice(_PARTS))
            case 3:
                start = generator.randrange(len(other))
                words[place:place] = other[start : start + generator.choice((1, 3, 8))]
            case _:
                words.insert(place, generator.choice(_WORDS))
        words = words or ["SELECT"]
    return " ".join(words)
