"""Texts in the shapes that analysts write: expressions, joins, statements. A plain database knows their truth.

DuckDB reads each text over the rows that count, in which a value is that of its cell and what is missing or beyond is
NULL. Where the product means something else (`<outside>` in functions of texts), there is no truth to hold it to.
"""

from __future__ import annotations

import datetime as dt
import random as chances
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from tests.sessions.dataset import OUTSIDE, Column, Dataset, Request, Table, floors, people_of

_TYPES = {
    "category": pa.string(), "boolean": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
}  # fmt: skip
_BY_PERSON = "(SELECT who, count(*) AS n FROM t GROUP BY who) AS v"
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """A text of a shape, and how accurately it is asked."""

    text: str
    request: Request
    columns: tuple[str, ...]
    """Those of the main table that it names."""
    quoted: bool = False
    analyst: int = 0


def draw(random: chances.Random, dataset: Dataset) -> Shape | None:
    """Return a random text about a dataset; None where it has no column for the shape that was drawn."""
    drawn = _Drawn(random, dataset)
    texts = [text for several in (drawn.plain, drawn.numbers, drawn.times, drawn.people, drawn.tables)
             for text in (several(),) if text]  # fmt: skip
    if not texts:
        return None
    (share,) = random.choices(("0.005", "0.02", "0.1"))
    request = Request(epsilon=f"{float(share) * float(dataset.epsilon):.5f}".rstrip("0"))
    analyst = random.randrange(max(1, len(dataset.analysts)))
    return Shape(random.choice(texts), request, tuple(drawn.used), random.random() < 0.4, analyst)


class _Drawn:
    def __init__(self, random: chances.Random, dataset: Dataset) -> None:
        self.random, self.dataset = random, dataset
        self.used: list[str] = []

    def column(self, *kinds: str, most: int = 130) -> Column | None:
        fitting = [column for column in self.dataset.columns if column.kind in kinds and column.size <= most]
        if not fitting:
            return None
        column = self.random.choice(fitting)
        self.used.append(column.name)
        return column

    def where(self) -> str:
        """Return a condition on one column."""
        column = self.random.choice(self.dataset.columns)
        self.used.append(column.name)
        if column.kind == "boolean":
            return column.name
        operator = self.random.choice(("=", "<>") if column.kind == "category" else ("<", ">=", "<=", ">"))
        return f"{column.name} {operator} {column.literal(self.random.randrange(column.size))}"

    def plain(self) -> str:
        """Return what can be asked of any table with a column of labels."""
        where, key = self.where(), self.column("category", "boolean")
        if key is None:
            return self.random.choice((
                f"SELECT count(*) * 100.0 / (SELECT count(*) FROM t) AS y FROM t WHERE {where}",
                f"SELECT 'all' AS k, count(*) AS y FROM t UNION ALL SELECT 'some', count(*) FROM t WHERE {where}",
                f"SELECT count(*) AS y FROM (SELECT CASE WHEN {where} THEN 1 ELSE 0 END AS z FROM t) AS s WHERE z = 1",
                f"SELECT sum(CASE WHEN {where} THEN 1 ELSE 0 END) AS y FROM t",
            ))  # fmt: skip
        k = key.name
        texts = [
            f"SELECT {k}, 100.0 * count(*) FILTER (WHERE {where}) / count(*) AS y FROM t GROUP BY 1",
            f"SELECT {k}, count(*) AS y FROM t WHERE {where} GROUP BY ROLLUP ({k})",
            f"SELECT k, n, 100 * n / sum(n) OVER () AS y FROM (SELECT {k} AS k, count(*) AS n FROM t GROUP BY 1) AS s",
            f"WITH s AS (SELECT * FROM t WHERE {where}) SELECT {k}, count(*) AS y FROM s GROUP BY {k} ORDER BY 2 DESC",
            f"SELECT count(*) AS y FROM t WHERE coalesce({k}, {key.literal(0)}) = {key.literal(0)}",
            f"SELECT {k}, sum(CASE WHEN {where} THEN 1 ELSE 0 END) AS y FROM t GROUP BY {k} HAVING count(*) > 3",
        ]
        if key.kind == "category":
            texts += [
                f"SELECT upper({k}) AS k, count(*) AS y FROM t GROUP BY 1",
                f"SELECT count(*) AS y FROM t WHERE {k} ~ '[13]$' OR {where}",
                f"SELECT left({k}, 1) AS k, count(*) AS y FROM t WHERE {where} GROUP BY k",
            ]
        return self.random.choice(texts)

    def numbers(self) -> str | None:
        x, z = self.column("integer", "number"), self.column("integer", "number")
        if x is None or z is None:
            return None
        a, b, middle = x.name, z.name, x.literal(x.size // 2)
        return self.random.choice((
            f"SELECT CASE WHEN {a} > {middle} THEN 'high' ELSE 'low' END AS k, count(*) AS y FROM t GROUP BY 1",
            f"SELECT sum({a} * {b}) AS y FROM t",
            f"SELECT avg(abs({a})) AS y FROM t",
            f"SELECT floor({a} / 10) * 10 AS k, count(*) AS y FROM t GROUP BY k",
            f"SELECT count(*) AS y FROM t WHERE {a} > {b}",
            f"SELECT corr({a}, {b}) AS y, regr_slope({a}, {b}) AS u FROM t",
            f"SELECT sum(round({a})) AS y FROM t WHERE {self.where()}",
            f"SELECT sum(greatest(least({a}, {middle}), {x.literal(0)})) AS y FROM t",
            f"SELECT count(*) AS y FROM (SELECT {a} + 1 AS y FROM t) AS s WHERE y > {middle}",
            f"SELECT avg({a}) - (SELECT avg({a}) FROM t) AS y FROM t WHERE {self.where()}",
            f"SELECT sum(CASE WHEN {self.where()} THEN {a} ELSE 0 END) / count(*) AS y FROM t",
            f"SELECT round(avg({a}), 1) AS y, count({a}) AS u FROM t WHERE {self.where()}",
        ))  # fmt: skip

    def times(self) -> str | None:
        day = self.column("date", "timestamp", most=801)
        if day is None:
            return None
        d, time = day.name, day.kind == "timestamp"
        later = f"{d} + INTERVAL '1 day'" if time else f"{d} + 7"
        return self.random.choice((
            f"SELECT date_trunc('month', {d}) AS k, count(*) AS y FROM t GROUP BY 1 ORDER BY 1",
            f"SELECT extract({'hour' if time else 'year'} FROM {d}) AS k, count(*) AS y FROM t GROUP BY k",
            f"SELECT count(*) AS y FROM t WHERE {later} < {day.literal(day.size // 2)}",
            f"SELECT sum(y) AS y FROM (SELECT month({d}) AS k, count(*) AS y FROM t GROUP BY 1) AS s WHERE k < 7",
        ))  # fmt: skip

    def people(self) -> str | None:
        if self.dataset.cap is None:
            return None
        texts = [
            f"SELECT n, count(*) AS y FROM {_BY_PERSON} GROUP BY n",
            f"SELECT avg(n) AS y FROM {_BY_PERSON}",
            f"SELECT count(DISTINCT who) AS y FROM t WHERE {self.where()}",
            f"SELECT count(*) AS y FROM (SELECT who FROM t WHERE {self.where()} GROUP BY who HAVING count(*) > 1) AS v",
        ]
        number = self.column("integer", "number", most=45)
        if number is not None:
            total = f"(SELECT who, sum({number.name}) AS total FROM t GROUP BY who) AS v"
            texts.append(f"SELECT count(*) AS y FROM {total} WHERE total > {number.literal(number.size // 2)}")
            texts.append(f"SELECT avg(total) AS y FROM {total}")
        return self.random.choice(texts)

    def tables(self) -> str | None:
        texts = []
        if self.dataset.linked:
            where = self.where()
            one = f"SELECT 1 FROM t WHERE t.who = p.who AND {where}"
            texts += [
                "SELECT ps, count(*) AS y FROM t JOIN p USING (who) GROUP BY ps",
                f"SELECT avg(pa) AS y FROM t JOIN p USING (who) WHERE {where}",
                "SELECT count(*) AS y FROM p WHERE pa >= 5",
                f"SELECT ps, count(*) AS y FROM p WHERE EXISTS ({one}) GROUP BY ps",
                f"SELECT count(*) AS y FROM p WHERE NOT EXISTS ({one})",
                f"SELECT ps, avg(coalesce(n, 0)) AS y FROM p LEFT JOIN {_BY_PERSON} USING (who) GROUP BY ps",
                f"SELECT count(*) AS y FROM t WHERE who IN (SELECT who FROM p WHERE ps = 'u') AND {where}",
            ]
        if key := self.dataset.public:
            self.used.append(key)
            by_key = f"(SELECT {key}, count(*) AS n FROM t GROUP BY {key}) AS v"
            texts += [
                f"SELECT floor, count(*) AS y FROM t JOIN w ON t.{key} = w.{key} GROUP BY floor",
                f"SELECT count(*) AS y FROM t WHERE {key} IN (SELECT {key} FROM w WHERE floor > 1)",
                f"SELECT w.{key}, n / w.beds AS y FROM w LEFT JOIN {by_key} USING ({key})",
            ]
        return self.random.choice(texts) if texts else None


def exact_rows(text: str, dataset: Dataset, rows: Table) -> list[Mapping[str, object]] | None:
    """Return what a plain database answers; None where the product may mean something else."""
    odd = any(
        column.kind in {"category", "date", "timestamp"} and bool((rows.codes[column.name] == OUTSIDE).any())
        for column in dataset.columns
        if column.name in text
    )
    if odd or dataset.crowded:
        return None
    main: dict[str, pa.Array] = {}
    for column in dataset.columns:
        values = [_plain(column, code) for code in range(column.size)] + [None, None]
        listed = [values[code] for code in rows.codes[column.name].tolist()]
        main[column.name] = pa.array(listed, _TYPES.get(column.kind, pa.float64()))
    main["who"] = pa.array([f"p{person}" for person in rows.people.tolist()], pa.string())
    with duckdb.connect() as database:
        database.execute("SET threads = 1")
        database.register("t", pa.table(main))
        if dataset.linked:
            database.register("p", pa.Table.from_pandas(people_of(dataset)))
        if dataset.public:
            database.register("w", pa.Table.from_pylist(floors(dataset.column(dataset.public))))
        found = database.execute(text).to_arrow_table()
    return found.to_pylist()  # type: ignore[no-any-return]


def comparable(value: object) -> object:
    """Return a key as both databases write it."""
    match value:
        case bool() | None | str():
            return value
        case dt.datetime():
            return value.replace(tzinfo=None)
        case dt.date():
            return dt.datetime.combine(value, dt.time())
        case _:
            return float(value)  # type: ignore[arg-type]


def _plain(column: Column, code: int) -> object:
    value = column.value(code)
    return float(value) if column.numeric else value  # type: ignore[arg-type]
