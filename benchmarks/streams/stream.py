"""A stream: a table, the questions that are asked of it in turn, and how accurate each answer must be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from string import ascii_lowercase
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dodona.query.predicate import And, Predicate, among_combinations, among_mask, conjunction
from dodona.query.query import Query
from dodona.schema.schema import Domain, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Cells = NDArray[np.int64] | NDArray[np.float64]
    """A number for each cell, an axis an attribute."""


class Questions(Protocol):
    """Distinct questions, each the sum of the cells that it means."""

    def __len__(self) -> int:
        """Return how many there are."""

    def predicate(self, number: int, domain: Domain) -> Predicate:
        """Return the cells that a question means."""

    def mask(self, number: int) -> NDArray[np.bool_]:
        """Return which cells a question means, in row-major order."""

    def totals(self, cells: Cells) -> NDArray[np.float64]:
        """Return for each question the sum of the numbers of its cells."""


@dataclass(frozen=True, slots=True)
class Product:
    """The rows whose value of each of some attributes is in a set: by the attribute's place, bits of codes."""

    sets: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Products:
    """Questions of some attributes each; attributes of which all values are meant may stand there or not."""

    shape: tuple[int, ...]
    listed: Sequence[Product]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.listed)

    @cached_property
    def scopes(self) -> Mapping[tuple[int, ...], list[int]]:
        """The numbers of the questions on each set of attributes, those left out of which all values are meant."""
        by_scope: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, product in enumerate(self.listed):
            by_scope[tuple(place for place, _ in self.narrowed(product))].append(number)
        return by_scope

    def narrowed(self, product: Product) -> tuple[tuple[int, int], ...]:
        """Return the sets of a question that leave a value out."""
        return tuple((place, codes) for place, codes in product.sets if codes != (1 << self.shape[place]) - 1)

    def predicate(self, number: int, domain: Domain) -> Predicate:
        """Return the conjunction of the sets."""
        parts = [among_mask(domain.attributes[place], codes) for place, codes in self.listed[number].sets]
        return conjunction(*parts) if parts else And(())

    def mask(self, number: int) -> NDArray[np.bool_]:
        """Return which cells a question means."""
        mask = np.ones(self.shape, dtype=np.bool_)
        for place, codes in self.listed[number].sets:
            axes = [-1 if other == place else 1 for other in range(len(self.shape))]
            mask &= _bits([codes], self.shape[place]).astype(np.bool_).reshape(axes)
        return mask.reshape(-1)

    def totals(self, cells: Cells) -> NDArray[np.float64]:
        """Return the sums, from one marginal for each set of attributes."""
        totals = np.empty(len(self.listed))
        for scope, numbers in self.scopes.items():
            totals[numbers] = self.summed(self.marginal(cells, scope), scope, numbers)
        return totals

    def marginal(self, cells: Cells, scope: tuple[int, ...]) -> Cells:
        """Return the cells of some attributes, summed over all others."""
        others = tuple(place for place in range(len(self.shape)) if place not in scope)
        summed: Cells = cells.sum(axis=others)
        return summed

    def summed(self, marginal: Cells, scope: tuple[int, ...], numbers: Sequence[int]) -> NDArray[np.float64]:
        """Return the sums of some questions on one set of attributes, from its marginal."""
        if not scope:
            return np.full(len(numbers), float(marginal))
        listed = [self.narrowed(self.listed[number]) for number in numbers]
        cells = np.asarray(marginal, dtype=np.float64)[None]
        letters = ascii_lowercase[: len(scope)]
        masks = [_bits([sets[axis][1] for sets in listed], self.shape[place]) for axis, place in enumerate(scope)]
        inputs = ",".join([letters, *(f"z{letter}" for letter in letters)])
        summed: NDArray[np.float64] = np.einsum(f"{inputs}->z", cells[0], *masks, optimize=True)
        return summed


@dataclass(frozen=True, slots=True)
class Subsets:
    """Questions of any cells: a row of truth values each, over all cells in row-major order."""

    shape: tuple[int, ...]
    masks: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.masks)

    def predicate(self, number: int, domain: Domain) -> Predicate:
        """Return the set of its cells."""
        return among_combinations(domain.attributes, self.masks[number])

    def mask(self, number: int) -> NDArray[np.bool_]:
        """Return which cells a question means."""
        mask: NDArray[np.bool_] = self.masks[number]
        return mask

    def totals(self, cells: Cells) -> NDArray[np.float64]:
        """Return the sums."""
        flat = np.asarray(cells, dtype=np.float64).reshape(-1)
        return np.array([flat[mask].sum() for mask in self.masks])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Questions in the order in which they are asked, over one table."""

    name: str
    schema: Schema
    columns: Mapping[str, NDArray[np.bool_] | NDArray[np.int64] | NDArray[np.str_]]
    cells: NDArray[np.int64]
    """How many rows each cell has."""
    questions: Questions
    asked: NDArray[np.int64]
    """For each turn the number of the question."""
    share: float
    """α: how far off an answer may be, as a part of the rows."""
    failing: float
    """β: how often it may be farther off."""
    epsilon: Mapping[str, str]
    """The whole budget, by its kind: approximate or pure."""
    _queries: dict[int, Query] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        """How many rows there are: public, as rows are replaced."""
        return self.schema.unit.size

    @property
    def within(self) -> float:
        """How far off an answer may be, in rows."""
        return self.share * self.rows

    @property
    def confidence(self) -> float:
        """How often it is not farther off."""
        return 1 - self.failing

    def query(self, number: int) -> Query:
        """Return a question; it is made once."""
        query = self._queries.get(number)
        if query is None:
            query = Query.count(self.schema.domain, self.questions.predicate(number, self.schema.domain))
            self._queries[number] = query
        return query

    def truths(self) -> NDArray[np.float64]:
        """Return the exact answer to each distinct question."""
        return self.questions.totals(self.cells)

    def fresh(self) -> NDArray[np.int64]:
        """Return how many distinct questions were asked after each turn."""
        _, firsts = np.unique(self.asked, return_index=True)
        new = np.zeros(len(self.asked), dtype=np.int64)
        new[firsts] = 1
        return np.cumsum(new)


def drawn(pool: int, *, turns: int, exponent: float, seed: int = 1) -> NDArray[np.int64]:
    """Return places in a pool: it is put in a random order, then drawn from with weights 1/rank^exponent."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(pool)
    weights = 1.0 / np.arange(1, pool + 1) ** exponent
    places: NDArray[np.int64] = order[generator.choice(pool, turns, p=weights / weights.sum())]
    return places


def distinct(places: NDArray[np.int64]) -> tuple[list[int], NDArray[np.int64]]:
    """Return the places that occur, in the order in which they first do, and for each turn the number of its place."""
    numbers: dict[int, int] = {}
    asked = np.array([numbers.setdefault(place, len(numbers)) for place in places.tolist()], dtype=np.int64)
    return list(numbers), asked


def _bits(codes: Sequence[int], number: int) -> NDArray[np.float64]:
    return np.array([[code >> place & 1 for place in range(number)] for code in codes], dtype=np.float64)
