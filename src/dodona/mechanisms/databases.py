"""Databases: all tables of a few rows over a small universe, scored by their worst answer (Blum, Ligett and Roth)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, islice
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dodona.accounting.event import Event
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.exact import whole
from dodona.mechanisms.exponential import Exponential
from dodona.query.canonical import digest
from dodona.query.people import effect_of
from dodona.query.query import Query, block_weights, group_of
from dodona.query.sensitivity import Sensitivity
from dodona.query.weight import ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.mechanisms.selection import Whole

Universe = tuple[tuple[str, int], ...]
"""Attributes, and how many codes of each there are, from 0; the last attribute runs fastest."""
MOST_DATABASES = 1 << 18
"""So many are walked through; a table of n rows over |X| cells is one of C(n + |X| - 1, n)."""
_CHUNK = 1 << 22  # numbers in memory at a time: what runs short after the charge is lost
_MOST_NUMBERS = 1 << 25
"""Of answers times cells, which are all in memory."""
_LARGEST = 1 << 31
MOST_BITS = 1000
"""Of rows·log2(cells): multinomial coefficients stay within the doubles."""


@dataclass(frozen=True)
class Databases:
    """One multiset of `rows` rows over all cells of a universe, by -max |rows·answer - size·own answer|.

    The law is that of the exponential mechanism over all ordered tables: a multiset stands for as many of these as its
    multinomial coefficient says.

    Theorem: blr-privacy
    """

    theorem: ClassVar[str] = "blr-privacy"
    query: Query
    universe: Universe
    rows: int
    size: int
    """How many rows the real table is said to have, publicly."""
    choice: Exponential
    count: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse what is no count, and more databases than are walked through."""
        whole(self.rows, argument="rows", lower=1, upper=_LARGEST)
        whole(self.size, argument="size", lower=1, upper=_LARGEST)
        if any(block.weight != ONE for block in self.query.blocks):
            raise InvalidArgument("query", "weights", "write counts: a database is compared by shares of its rows")
        names = {name for name, _ in self.universe}
        for block in self.query.blocks:
            if not block.attributes <= names:
                raise InvalidArgument("universe", sorted(names), f"write all of {', '.join(sorted(block.attributes))}")
        if self.number > MOST_DATABASES:
            accepted = f"{self.number:.3g} databases would be compared, and {MOST_DATABASES} are: fewer rows or cells"
            raise InvalidArgument("rows", self.rows, accepted)
        if self.query.values * self.size_of_universe > _MOST_NUMBERS:
            accepted = f"write a query with answers·cells up to {_MOST_NUMBERS}: fewer counts at a time, or fewer cells"
            raise InvalidArgument("query", f"{self.query.values} answers over {self.size_of_universe} cells", accepted)
        if self.rows * math.log2(self.size_of_universe) > MOST_BITS:  # of a multinomial coefficient
            raise InvalidArgument("rows", self.rows, f"write rows with rows·log2(cells) up to {MOST_BITS}")

    @property
    def size_of_universe(self) -> int:
        """How many cells there are."""
        return math.prod(codes for _, codes in self.universe)

    @property
    def number(self) -> int:
        """How many multisets there are."""
        return databases(self.size_of_universe, self.rows)

    def event(self, unit: Unit) -> Event:
        """Return what it costs: one row moves a score by `rows` at most, whichever way.

        Theorem: blr-privacy
        """
        return self.choice.event(database_scores(self.query, self.rows, unit))

    @cached_property
    def answers(self) -> NDArray[np.int64]:
        """What each cell adds to each answer: one row an answer."""
        found, shape = [], tuple(codes for _, codes in self.universe)
        axes = {
            name: np.arange(codes, dtype=np.int64).reshape([-1 if other == place else 1 for other in range(len(shape))])
            for place, (name, codes) in enumerate(self.universe)
        }
        for block in self.query.blocks:
            weights = np.broadcast_to(block_weights(block, axes), shape).reshape(-1)
            groups = np.broadcast_to(group_of(block.keys, axes), shape).reshape(-1)
            table = np.zeros((block.values, weights.size), dtype=np.int64)
            table[groups, np.arange(weights.size)] = weights
            found.append(table)
        return np.concatenate(found)

    def cells(self, number: int) -> tuple[int, ...]:
        """Return the cells of a database; they rise."""
        whole(number, argument="number", lower=0, upper=self.number - 1)
        return next(islice(self._all(), number, None))

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """How many ordered tables each multiset stands for."""
        return tuple(_arrangements(cells) for cells in self._all())

    @cached_property
    def rarities(self) -> tuple[Fraction, ...]:
        """How many times as many ordered tables the commonest multiset stands for."""
        most = max(self.copies)
        known = {number: Fraction(most, number) for number in set(self.copies)}
        return tuple(known[number] for number in self.copies)

    def scores(self, values: Whole) -> Whole:
        """Return minus the worst difference of each database, in steps of 1/(rows·size)."""
        small = isinstance(values, np.ndarray) and int(abs(values // 2).max()) < _LARGEST
        kind = np.int64 if small else np.object_
        wanted = np.asarray(values, dtype=kind) * self.rows
        given, every = self.answers.astype(kind) * self.size, self._all()
        found: list[int] = []
        at_a_time = max(1, _CHUNK // (self.rows * wanted.size))
        while chunk := list(islice(every, at_a_time)):
            own = given[:, np.array(chunk)].sum(axis=2)
            found += (-np.abs(own - wanted[:, None]).max(axis=0)).tolist()
        return found

    @property
    def purpose(self) -> str:
        """The digest of what is asked."""
        shape = " ".join(f"{codes}" for _, codes in self.universe)
        names = hashlib.sha256(repr([name for name, _ in self.universe]).encode()).hexdigest()
        return f"database of {self.rows} rows for {self.size} over {shape} {names} {digest(self.query)}"

    @property
    def spelled(self) -> str:
        """The mechanism as a text."""
        return f"exponential {self.choice.scale} x 1 over databases of {self.rows} rows"

    def _all(self) -> Iterator[tuple[int, ...]]:
        """Return all databases; the order is permanent, as releases tell a database by its number."""
        return combinations_with_replacement(range(self.size_of_universe), self.rows)


def databases(cells: int, rows: int) -> int:
    """Return how many multisets of so many rows there are.

    >>> databases(4, 3)
    20
    """
    return math.comb(cells + rows - 1, rows)


def database_scores(query: Query, rows: int, unit: Unit) -> Sensitivity:
    """Return how far a unit moves the scores at most.

    Theorem: blr-privacy
    """
    return Sensitivity.scores(rows * effect_of(query, unit).linf, unit.neighbours)


def _arrangements(cells: tuple[int, ...]) -> int:
    """Return m!/∏ n_i!, n_i how often each cell is there; cells rise."""
    found, run = 1, 0
    for place, cell in enumerate(cells):
        run = run + 1 if place and cells[place - 1] == cell else 1
        found = found * (place + 1) // run
    return found
