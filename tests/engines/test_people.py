"""Of each person, the same rows count in every source, and no others."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dodona.engines.cells import SourceUnfit
from dodona.engines.duckdb import DuckDBSource
from dodona.engines.memory import MemorySource
from dodona.errors import InvalidArgument
from dodona.query.person_table import PersonTable, copied_column, person_column, total_bounds
from dodona.query.predicate import EVERYTHING, among
from dodona.query.query import Block, PeopleWeight, Query, ValueWeight
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.encoding import encode
from dodona.schema.partition import Partition
from dodona.schema.schema import Schema
from tests.engines.scene import BACKENDS, KEY, Made, values

BACKEND = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())


def people(seed: int, cap: int, *, rows: int = 300) -> Made:
    generator = np.random.default_rng(seed)
    schema = Schema.of("t", Integer("i", 0, 3), Category("s", ["b", "a"]), size=rows, id="who", rows=cap)
    columns = {
        "i": [None if v == 9 else int(v) for v in generator.integers(-1, 10, rows)],
        "s": [[None, "a", "b", "c"][v] for v in generator.integers(0, 4, rows)],
        "who": [None if v == 0 else f"p{v}" for v in generator.integers(0, 60, rows)],
    }
    return Made(schema, columns, {"i": pa.int64(), "s": pa.string(), "who": pa.string()})


def kept_by_hand(made: Made, key: bytes = KEY) -> dict[str, list[tuple[int, ...]]]:
    """The rows of each person that count, as their page says: those with the smallest hashes."""
    codes = [encode(attribute, made.columns[attribute.name]).tolist() for attribute in made.schema.domain]
    rows = defaultdict[Any, list[tuple[int, ...]]](list)
    for row, who in zip(zip(*codes, strict=True), made.columns["who"], strict=True):
        if who is not None:
            rows[who].append(row)
    kept = {}
    for who, listed in rows.items():
        numbered = [(row, listed[:place].count(row) + 1) for place, row in enumerate(listed)]
        text = {(row, n): " ".join([key.hex(), *map(str, row), str(n), written(who)]) for row, n in numbered}
        order = sorted(numbered, key=lambda one: hashlib.md5(text[one].encode(), usedforsecurity=False).hexdigest())
        kept[who] = [row for row, _ in order[: made.schema.unit.rows]]
    return kept


def written(who: object) -> str:  # noqa: PLR0911  one for each type
    """An id as text, for those that the tests draw."""
    match who:
        case bool():
            return str(who).lower()
        case float() if who != int(who):
            return f"{math.floor(who)}.{math.floor((who - math.floor(who)) * 2**32)}"
        case float():
            return str(int(who))
        case Decimal() if who.as_tuple().exponent != 0:
            return written(float(who))
        case bytes():
            return who.hex()
        case datetime():
            return str(who.date())
        case _:
            return str(who)


def by_hand(made: Made) -> list[int]:
    """The histogram of the rows that count."""
    counts = [0] * 24
    for kept in kept_by_hand(made).values():
        for i, s in kept:
            counts[i * 4 + s] += 1
    return counts


@BACKEND
@pytest.mark.parametrize("cap", [1, 2, 4, 1000])
def test_the_rows_with_the_smallest_hashes_count(backend, cap: int, tmp_path: Path) -> None:
    source, held = backend(people(cap, cap), tmp_path)
    assert values(source, Query.histogram(held.schema.domain, ["i", "s"])) == by_hand(held)


IDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "whole": (pa.int64(), lambda n: (n - 5) * 10**14 + n),
    "small": (pa.int16(), lambda n: n - 5),
    "double": (pa.float64(), lambda n: (n - 5) * 1.5),
    "single": (pa.float32(), lambda n: float(np.float32((n - 5) * 0.1))),
    "decimal": (pa.decimal128(12, 2), lambda n: Decimal(n * 25 - 100) / 100),
    "whole decimal": (pa.decimal128(30, 0), lambda n: Decimal(10) ** 20 + n),
    "text": (pa.string(), lambda n: ["é", "it's", "a b", "{0}", "\\n", " x", "ZZ", "z", "0", "-"][n]),
    "truth": (pa.bool_(), lambda n: n % 2 == 0),
    "day": (pa.date32(), lambda n: date(2024, 1, 1 + n)),
    "time": (pa.timestamp("us"), lambda n: datetime(2024, 1, 1 + n, 23, 59, 59, 999_999)),  # noqa: DTZ001
}


@BACKEND
@pytest.mark.parametrize("kind", IDS)
def test_an_id_of_any_type_keeps_the_same_rows_on_every_engine(backend, kind: str, tmp_path: Path) -> None:
    storage, who = IDS[kind]
    generator = np.random.default_rng(11)
    schema = Schema.of("t", Integer("i", 0, 3), Category("s", ["b", "a"]), size=200, id="who", rows=5)
    columns = {
        "i": generator.integers(-1, 5, 200).tolist(),
        "s": [[None, "a", "b", "c"][v] for v in generator.integers(0, 4, 200)],
        "who": [None if v == 10 else who(int(v)) for v in generator.integers(0, 11, 200)],
    }
    made = Made(schema, columns, {"i": pa.int64(), "s": pa.string(), "who": storage})
    source, held = backend(made, tmp_path)
    assert values(source, Query.histogram(schema.domain, ["i", "s"])) == by_hand(held)


def test_ids_that_are_objects_keep_the_rows_that_their_texts_do() -> None:
    made = people(3, 2)
    mixed = [None if who is None else int(who[1:]) if n % 2 else float(who[1:]) for n, who in numbered(made)]
    frame = pd.DataFrame({**made.columns, "who": pd.Series(mixed, dtype=object)})
    query = Query.histogram(made.schema.domain, ["i", "s"]).stacked(Query.people(made.schema.domain))
    whole = [None if who is None else int(who) for who in mixed]
    expected = values(MemorySource(made.schema, made.columns | {"who": whole}, key=KEY), query)
    assert values(DuckDBSource.frame(made.schema, frame, key=KEY), query) == expected
    shuffled = frame.sample(frac=1, random_state=1)
    assert values(DuckDBSource.frame(made.schema, shuffled, key=KEY), query) == expected
    assert DuckDBSource.frame(made.schema, shuffled, key=KEY).fingerprint() == (
        DuckDBSource.frame(made.schema, frame, key=KEY).fingerprint()
    )


def numbered(made: Made) -> list[tuple[int, Any]]:
    return list(enumerate(made.columns["who"]))


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_an_id_that_is_missing_in_a_frame_of_objects_is_nobodys(missing: object) -> None:
    schema = Schema.of("t", Integer("i", 0, 3), size=9, id="who", rows=1)
    frame = pd.DataFrame({"i": [0, 1, 2], "who": pd.Series(["ada", missing, missing], dtype=object)})
    source = DuckDBSource.frame(schema, frame, key=KEY)
    assert values(source, Query.histogram(schema.domain, ["i"])) == [1, 0, 0, 0, 0, 0]


def test_ids_that_cannot_be_told_apart_are_refused() -> None:
    schema = Schema.of("t", Integer("i", 0, 3), size=9, id="who", rows=1)
    frame = pd.DataFrame({"i": [0, 1], "who": pd.Series([[1], [2]], dtype=object)})
    with pytest.raises(SourceUnfit, match="cannot be compared"):
        DuckDBSource.frame(schema, frame, key=KEY)


@BACKEND
def test_another_key_keeps_other_rows(backend, tmp_path: Path) -> None:
    source, held = backend(people(2, 2), tmp_path)
    assert values(source, Query.histogram(held.schema.domain, ["i", "s"])) == by_hand(held)
    other = kept_by_hand(held, bytes(32))
    assert sum(other[who] != kept for who, kept in kept_by_hand(held).items()) > 20


@pytest.mark.parametrize("key", [None, b"", b"short"])
def test_people_need_a_key(key: bytes | None) -> None:
    schema = Schema.of("t", Integer("i", 0, 3), size=9, id="who", rows=1)
    with pytest.raises(InvalidArgument, match="give 32 bytes"):
        MemorySource(schema, {"i": [0], "who": ["ada"]}, key=key)
    with pytest.raises(InvalidArgument, match="give 32 bytes") as caught:
        DuckDBSource.frame(schema, pa.table({"i": [0], "who": ["ada"]}), key=key)
    assert "short" not in str(caught.value)


def orders(people: int, seed: int) -> tuple[Schema, dict[str, Any]]:
    """Orders over three years, as many in each, the day declared first; 8 to 14 of each person."""
    generator = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), generator.integers(8, 15, people))
    columns = {"day": generator.integers(0, 1095, len(who)), "dear": generator.random(len(who)) < 0.3, "who": who}
    schema = Schema.of("t", Integer("day", 0, 1094), Boolean("dear"), size=len(who), id="who", rows=5)
    return schema, columns


def test_the_rows_that_count_are_a_fair_sample_of_each_persons_rows() -> None:
    """False alarm: below 1e-6. Sample: 20,000 people, 5 rows of each; the rule of the smallest codes fails by far.

    Given the rows of all, the kept ones in a year sum up draws without replacement, whose variance is below that of
    100,000 independent ones: a deviation of 5.1 standard errors of these has a normal probability of 3.4e-7.
    """
    people = 20_000
    schema, columns = orders(people, seed=1)
    source = DuckDBSource.frame(schema, pa.table(columns), key=KEY)
    kept = np.array(values(source, Query.histogram(schema.domain, ["day"])))[:1095]
    who, day = columns["who"], columns["day"]
    rows, room = np.bincount(who), 5.1 * math.sqrt(5 * people * 2 / 9)
    order = np.lexsort((day, who))
    place = np.arange(len(who)) - np.repeat(np.cumsum(rows) - rows, rows)
    earliest = np.bincount(day[order][place < 5], minlength=1095)
    for year in range(3):
        expected = (5 * np.bincount(who, weights=day // 365 == year) / rows).sum()
        assert abs(kept[365 * year : 365 * (year + 1)].sum() - expected) < room
        assert abs(earliest[365 * year : 365 * (year + 1)].sum() - expected) > 3 * room


def test_equal_rows_of_a_person_count_as_often_as_others() -> None:
    """False alarm: below 1e-6. Sample: 20,000 people with nine equal rows and three others, 4 rows kept of each.

    The variance of draws without replacement is below that of independent ones: 4 * 3/16 for each person.
    """
    people = 20_000
    schema = Schema.of("t", Integer("i", 0, 3), size=12 * people, id="who", rows=4)
    columns = {"i": np.tile([0] * 9 + [1, 2, 3], people), "who": np.repeat(np.arange(people), 12)}
    source = DuckDBSource.frame(schema, pa.table(columns), key=KEY)
    kept = values(source, Query.histogram(schema.domain, ["i"]))
    assert sum(kept) == 4 * people
    assert abs(kept[0] - 3 * people) < 5.1 * math.sqrt(people * 4 * 3 / 16)


@BACKEND
def test_taking_a_person_away_takes_no_more_than_their_rows(backend, tmp_path: Path) -> None:
    made = people(5, 2)
    query = Query.histogram(made.schema.domain, ["i", "s"])
    (tmp_path / "all").mkdir()
    whole = np.array(values(backend(made, tmp_path / "all")[0], query))
    for who in ("p1", "p2", "p3"):
        kept = [place for place, person in enumerate(made.columns["who"]) if person != who]
        fewer = Made(made.schema, {n: [column[i] for i in kept] for n, column in made.columns.items()}, made.types)
        (tmp_path / who).mkdir()
        rest = np.array(values(backend(fewer, tmp_path / who)[0], query))
        assert np.all(rest <= whole)
        assert 0 < np.sum(whole - rest) <= 2


@BACKEND
def test_rows_of_nobody_do_not_count(backend, tmp_path: Path) -> None:
    schema = Schema.of("t", Integer("i", 0, 3), size=9, id="who", rows=1)
    made = Made(schema, {"i": [0, 1, 2], "who": [None, None, "ada"]}, {"i": pa.int64(), "who": pa.string()})
    source, _ = backend(made, tmp_path)
    assert values(source, Query.histogram(schema.domain, ["i"])) == [0, 0, 1, 0, 0, 0]


def counted_by_hand(made: Made, meant: set[int]) -> tuple[int, list[int]]:
    """How many people have a row that counts, and is meant, in all and by their second column."""
    groups = [{s for i, s in kept if i in meant} for kept in kept_by_hand(made).values()]
    return sum(map(bool, groups)), [sum(code in group for group in groups) for code in range(4)]


@BACKEND
@pytest.mark.parametrize("cap", [1, 3, 1000])
def test_people_are_counted_once_however_many_rows_they_have(backend, cap: int, tmp_path: Path) -> None:
    source, held = backend(people(cap, cap), tmp_path)
    domain = held.schema.domain
    for meant in ({0, 1, 2, 3, 4, 5}, {1, 4}, {3}):
        where = among(domain["i"], meant)
        alone, groups = counted_by_hand(held, meant)
        both = Query.people(domain, (), where).stacked(Query.people(domain, "s", where), Query.count(domain, where))
        counts = values(source, both)
        assert counts[:5] == [alone, *groups]
        assert values(source, Query.people(domain, "s", where)) == groups


@BACKEND
@pytest.mark.parametrize("cap", [1, 4])
def test_a_person_with_ten_thousand_rows_moves_no_more_than_the_cap(backend, cap: int, tmp_path: Path) -> None:
    without = people(9, cap)
    generator = np.random.default_rng(1)
    many = 10_000
    added = {
        "i": generator.integers(0, 4, many).tolist(),
        "s": generator.choice(["a", "b"], many).tolist(),
        "who": ["busy"] * many,
    }
    whole = Made(
        without.schema, {name: [*column, *added[name]] for name, column in without.columns.items()}, without.types
    )
    domain = without.schema.domain
    query = Query.histogram(domain, ["i", "s"]).stacked(Query.sum(domain, "i"), Query.people(domain, "s"))
    (tmp_path / "without").mkdir()
    (tmp_path / "with").mkdir()
    before = np.array(values(backend(without, tmp_path / "without")[0], query))
    after = np.array(values(backend(whole, tmp_path / "with")[0], query))
    rows, total, counted = np.split(after - before, [24, 25])
    assert rows.sum() == cap
    assert (rows >= 0).all()
    assert 0 <= total[0] <= 3 * cap
    assert counted.sum() <= cap
    assert set(counted.tolist()) <= {0, 1}


@pytest.mark.parametrize("backend", [BACKENDS[name] for name in ("arrow frame", "postgres", "spark")])
def test_changed_ids_change_the_fingerprint(backend, tmp_path: Path) -> None:
    made = people(4, 3)
    swap = {"p1": "p2", "p2": "p1"}
    ids = {
        "same": made.columns["who"],
        "merged": ["p1" if person == "p2" else person for person in made.columns["who"]],
        "swapped": [swap.get(person, person) for person in made.columns["who"]],
    }
    prints = set()
    for name, who in ids.items():
        (tmp_path / name).mkdir()
        source, _ = backend(Made(made.schema, made.columns | {"who": who}, made.types), tmp_path / name)
        prints.add(source.fingerprint())
    assert len(prints) == 3


def person_queries(made: Made) -> list[Query]:
    """Questions about people: by their number of rows, sums, extremes, filters, and all of it at once."""
    domain = made.schema.domain
    value, cap = ValueWeight("i", 4, -1, 1), made.schema.unit.rows
    few, some = among(domain["i"], [0, 1]), among(domain["s"], [0, 1, 2])
    count = person_column("count", some, bounds=(0, cap))
    total = person_column("sum", among(domain["i"], range(4)), value, bounds=total_bounds(value, cap))
    coarse = person_column("sum", few, value, unit=Fraction(1, 4), bounds=(0, cap), width=2)
    least, greatest = copied_column(domain["s"], "least"), copied_column(domain["i"], "greatest", some)
    queries = []
    for where in (EVERYTHING, few):
        table = PersonTable(where, (count, total, coarse, least, greatest))
        keys = [Partition.of(attribute) for attribute in table.domain]
        queries += [Query(domain, (Block(keys=(key,), table=table),)) for key in keys]
        wide = among(coarse.attribute, range(1, coarse.attribute.cells))
        sums = ValueWeight(total.attribute.name, total.attribute.size, 3, 2, 2)
        queries.append(
            Query(
                domain,
                (
                    Block(wide, (keys[3],), sums, table=table),
                    Block(few),
                    Block(table=PersonTable(where)),
                    Block(weight=PeopleWeight()),
                    Block(keys=(keys[4],), table=table.part(frozenset((greatest.attribute.name,)))),
                ),
            )
        )
    return queries


@BACKEND
def test_tables_of_people_are_the_same_on_every_engine(backend, tmp_path: Path) -> None:
    made = people(3, 4)
    source, held = backend(made, tmp_path)
    exact = MemorySource(held.schema, held.columns, key=KEY)
    for query in person_queries(held):
        assert values(source, query) == values(exact, query)


def test_a_table_that_is_read_in_parts_keeps_the_rows_that_smaller_tables_keep() -> None:
    """Above a million rows DuckDB chooses people by people; here half of the people have fewer rows than that."""
    rows, drawn = 1_300_000, np.random.default_rng(5)
    frame = pa.table({"i": drawn.integers(0, 50, rows), "who": drawn.integers(0, rows // 5, rows)})
    schema = Schema.of("t", Integer("i", 0, 49), size=rows, id="who", rows=3)
    query = Query(schema.domain, (Block(keys=(Partition.every(schema.domain["i"], 1),)),))
    whole = values(DuckDBSource.frame(schema, frame, key=KEY), query)
    odd = np.asarray(frame["who"]) % 2 == 1
    halves = [values(DuckDBSource.frame(schema, frame.filter(pa.array(half)), key=KEY), query) for half in (odd, ~odd)]
    assert list(whole) == [sum(pair) for pair in zip(*halves, strict=True)]
    assert sum(whole) < rows  # the cap left some out
