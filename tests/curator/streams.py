"""Streams of questions that no code names: ranges on a grid, tables of two columns, drill-downs that follow answers.

Each is a function of a seed. `played` asks one through any function from a query to an answer, so that the same stream
runs against a curator, a neighbouring table, or one that was opened again in the middle.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from dodona.answer.answer import Answer
from dodona.query.predicate import EVERYTHING, Predicate, among, conjunction
from dodona.query.query import Query, block_weights, group_numbers
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.encoding import encode
from dodona.schema.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

Ask = Callable[[Query], Answer]
Adaptive = Callable[[Ask], Iterator[tuple[Query, Answer]]]
"""Asks questions that depend on earlier answers, and yields each with its answer."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A table, questions over it, and how accurate each answer is to be."""

    schema: Schema
    columns: Mapping[str, Sequence[Any]]
    questions: tuple[Query, ...] | Adaptive
    within: int
    """In rows."""
    confidence: float

    def truth(self, query: Query) -> "NDArray[np.int64]":
        """Return the exact answers, from a plain look at every row."""
        codes, rows = self._codes, self.schema.unit.size
        counts = []
        for block in query.blocks:
            groups = np.broadcast_to(group_numbers(block.keys, codes), rows)
            weights = np.broadcast_to(block_weights(block, codes), rows)
            counts.append(np.bincount(groups, weights=weights, minlength=block.values))
        return np.concatenate(counts).astype(np.int64)

    @cached_property
    def _codes(self) -> dict[str, "NDArray[np.int64]"]:
        return {attribute.name: encode(attribute, self.columns[attribute.name]) for attribute in self.schema.domain}

    def replaced(self, row: int, other: Mapping[str, Any]) -> "Stream":
        """Return the stream over the neighbouring table in which one row is another one."""
        columns = {name: [*values[:row], other[name], *values[row + 1 :]] for name, values in self.columns.items()}
        return Stream(
            schema=self.schema,
            columns=columns,
            questions=self.questions,
            within=self.within,
            confidence=self.confidence,
        )


def played(stream: Stream, ask: Ask) -> Iterator[tuple[Query, Answer]]:
    """Yield each question of a stream with its answer, in turn."""
    if isinstance(stream.questions, tuple):
        for query in stream.questions:
            yield query, ask(query)
    else:
        yield from stream.questions(ask)


def ranges(seed: int, *, rows: int = 20_000, turns: int = 300) -> Stream:
    """Return counts of rectangles on a grid of two numbers; a third of the turns repeats an earlier rectangle."""
    random = np.random.default_rng([seed, 1])
    schema = Schema.of("places", Integer("x", 0, 23), Integer("y", 0, 11), size=rows)
    x = np.clip(random.normal(9, 5, rows), 0, 23).astype(np.int64)
    y = np.clip(x // 3 + random.integers(0, 5, rows), 0, 11)
    asked: list[Query] = []
    for _ in range(turns):
        if asked and random.random() < 1 / 3:
            asked.append(asked[random.integers(len(asked))])
            continue
        sides = [_side(random, attribute) for attribute in schema.domain]
        asked.append(Query.count(schema.domain, conjunction(*sides)))
    columns = {"x": x.tolist(), "y": y.tolist()}
    return Stream(schema=schema, columns=columns, questions=tuple(asked), within=rows // 40, confidence=0.99)


def tables(seed: int, *, rows: int = 20_000, turns: int = 60) -> Stream:
    """Return GROUP BY over one or two columns of different sizes, some of them over a part of the rows."""
    random = np.random.default_rng([seed, 2])
    sizes = {"a": 2, "b": 3, "c": 4, "d": 7}
    declared = [Category(name, [f"{name}{code}" for code in range(size)]) for name, size in sizes.items()]
    schema = Schema.of("survey", *declared, Boolean("employed"), size=rows, neighbours="replace")
    columns: dict[str, list[Any]] = {
        attribute.name: [
            attribute.labels[code]
            for code in random.choice(attribute.size, rows, p=_skewed(random, attribute.size)).tolist()
        ]
        for attribute in declared
    }
    columns["employed"] = (random.random(rows) < 0.6).tolist()
    pairs = [*combinations(sizes, 2), *((name,) for name in sizes)]
    employed = among(schema.domain["employed"], [1])
    asked = []
    for _ in range(turns):
        keys = pairs[random.integers(len(pairs))]
        where = employed if random.random() < 1 / 4 else EVERYTHING
        asked.append(Query.histogram(schema.domain, keys, where))
    return Stream(schema=schema, columns=columns, questions=tuple(asked), within=rows // 50, confidence=0.95)


def drilled(seed: int, *, rows: int = 20_000, turns: int = 200) -> Stream:
    """Return an analyst who asks for each value of a column, goes into the one with the largest answer, and so on."""
    random = np.random.default_rng([seed, 3])
    sizes = {"channel": 3, "kind": 5, "region": 4, "month": 6}
    declared = [Category(name, [f"{name} {code}" for code in range(size)]) for name, size in sizes.items()]
    schema = Schema.of("sales", *declared, size=rows)
    columns = {
        attribute.name: [
            attribute.labels[code]
            for code in random.choice(attribute.size, rows, p=_skewed(random, attribute.size)).tolist()
        ]
        for attribute in declared
    }
    orders = [random.permutation(list(sizes)).tolist() for _ in range(turns)]

    def ask_down(ask: Ask) -> Iterator[tuple[Query, Answer]]:
        left = turns
        for order in orders:
            where: Predicate = EVERYTHING
            for name in order:
                best: tuple[float, int] | None = None
                for code in range(sizes[name]):
                    query = Query.count(schema.domain, conjunction(where, among(schema.domain[name], [code])))
                    answer = ask(query)
                    yield query, answer
                    left -= 1
                    if left == 0:
                        return
                    best = max(best or (-np.inf, 0), (float(answer.value), code))
                where = conjunction(where, among(schema.domain[name], [0 if best is None else best[1]]))

    return Stream(schema=schema, columns=columns, questions=ask_down, within=rows // 40, confidence=0.99)


ALL = {"ranges": ranges, "tables": tables, "drilled": drilled}


def _side(random: np.random.Generator, attribute: Integer) -> Predicate:
    """Return a random stretch of a number."""
    low, high = sorted(random.integers(0, attribute.size, 2).tolist())
    return among(attribute, range(low, high + 1))


def _skewed(random: np.random.Generator, size: int) -> "NDArray[np.float64]":
    return random.dirichlet(np.full(size, 2.0))
