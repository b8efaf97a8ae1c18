"""Of each person, the same rows count in every source, and no others."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dodona.domain.attribute import Category, Integer
from dodona.domain.encoding import encode
from dodona.domain.schema import Schema
from dodona.query.predicate import among
from dodona.query.query import Query
from tests.backends.scene import BACKENDS, Made, values

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


def by_hand(made: Made) -> list[int]:
    """The histogram of the rows that count, by sorting each person's rows."""
    first, second = (encode(attribute, made.columns[attribute.name]).tolist() for attribute in made.schema.domain)
    rows = defaultdict[str, list[tuple[int, int]]](list)
    for pair, who in zip(zip(first, second, strict=True), made.columns["who"], strict=True):
        if who is not None:
            rows[who].append(pair)
    found = [0] * 24
    for own in rows.values():
        for i, s in sorted(own)[: made.schema.unit.rows]:
            found[i * 4 + s] += 1
    return found


@BACKEND
@pytest.mark.parametrize("cap", [1, 2, 4, 1000])
def test_the_first_rows_by_their_codes_count(backend, cap: int, tmp_path: Path) -> None:
    source, held = backend(people(cap, cap), tmp_path)
    assert values(source, Query.histogram(held.schema.domain, ["i", "s"])) == by_hand(held)


@BACKEND
def test_taking_a_person_away_takes_no_more_than_their_rows(backend, tmp_path: Path) -> None:
    made = people(5, 2)
    query = Query.histogram(made.schema.domain, ["i", "s"])
    (tmp_path / "all").mkdir()
    whole = np.array(values(backend(made, tmp_path / "all")[0], query))
    for who in ("p1", "p2", "p3"):
        kept = [place for place, own in enumerate(made.columns["who"]) if own != who]
        fewer = Made(made.schema, {n: [own[i] for i in kept] for n, own in made.columns.items()}, made.types)
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
    first, second = (encode(attribute, made.columns[attribute.name]).tolist() for attribute in made.schema.domain)
    rows = defaultdict[str, list[tuple[int, int]]](list)
    for pair, who in zip(zip(first, second, strict=True), made.columns["who"], strict=True):
        if who is not None:
            rows[who].append(pair)
    kept = {who: sorted(own)[: made.schema.unit.rows] for who, own in rows.items()}
    groups = [{s for i, s in own if i in meant} for own in kept.values()]
    return sum(map(bool, groups)), [sum(code in own for own in groups) for code in range(4)]


@BACKEND
@pytest.mark.parametrize("cap", [1, 3, 1000])
def test_people_are_counted_once_however_many_rows_they_have(backend, cap: int, tmp_path: Path) -> None:
    source, held = backend(people(cap, cap), tmp_path)
    domain = held.schema.domain
    for meant in ({0, 1, 2, 3, 4, 5}, {1, 4}, {3}):
        where = among(domain["i"], meant)
        alone, groups = counted_by_hand(held, meant)
        both = Query.people(domain, (), where).stacked(Query.people(domain, "s", where), Query.count(domain, where))
        found = values(source, both)
        assert found[:5] == [alone, *groups]
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
    whole = Made(without.schema, {name: [*own, *added[name]] for name, own in without.columns.items()}, without.types)
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
