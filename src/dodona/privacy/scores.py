"""Score functions for selection: distances, excesses and small databases (Blum, Ligett and Roth).

Each turns exact answers into integer scores of known sensitivity; candidates and parameters are public.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, combinations_with_replacement, islice, pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.numbers import to_integer
from dodona.privacy.events import ComposedEvent, Event
from dodona.privacy.selection import ChoiceMechanism, Exponential, Whole, choice_name
from dodona.query.canonical import query_digest
from dodona.query.query import ONE, Query, block_weights, group_numbers
from dodona.query.sensitivity import Sensitivity, unit_sensitivity
from dodona.schema.schema import Unit

# --- Distances: which block of a query is farthest from its estimate, without releasing the distance. ---


MOST_FACTOR = 1 << 20
MOST_HANDICAP = 1 << 61
FARTHEST = 1 << 38  # with 2^22 answers, sums of distances stay below 2^62


@dataclass(frozen=True)
class DistanceScores:
    """Scores one block of a query by factor·Σ|answer - believed| - handicap; all three are public integers.

    Theorem: distance-choice
    """

    theorem: ClassVar[str] = "distance-choice"
    query: Query
    believed: tuple[int, ...]
    """The rounded estimate of each answer."""
    factors: tuple[int, ...]
    """The weight of each block's distance."""
    handicaps: tuple[int, ...]
    """What is subtracted from each block's score: the distance expected from noise alone."""
    choice: ChoiceMechanism
    count: int = 1
    """How many blocks are chosen, one after the other; fewer if no candidate is left."""
    overlap: int | None = None
    """A chosen block rules out all that share so many attributes with it, or all of their own."""
    rarities: ClassVar[tuple[()]] = ()

    def __post_init__(self) -> None:
        """Validate that all numbers are present and integers."""
        blocks = len(self.query.blocks)
        to_integer(self.count, argument="count", lower=1, upper=blocks)
        sizes = (("believed", self.query.values), ("factors", blocks), ("handicaps", blocks))
        limits = {
            "believed": (-FARTHEST, FARTHEST),
            "factors": (1, MOST_FACTOR),
            "handicaps": (-MOST_HANDICAP, MOST_HANDICAP),
        }
        for name, wanted in sizes:
            numbers: Sequence[int] = getattr(self, name)
            if len(numbers) != wanted:
                raise InvalidArgument(name, f"{len(numbers)} numbers", f"write {wanted}")
            for value in numbers:
                if type(value) is not int:
                    raise InvalidArgument(name, value, "write whole numbers")
            to_integer(min(numbers), argument=name, lower=limits[name][0], upper=limits[name][1])
            to_integer(max(numbers), argument=name, lower=limits[name][0], upper=limits[name][1])

    def event(self, unit: Unit) -> Event:
        """Return the event: a unit changes a distance by at most the block's l1 sensitivity, in each choice.

        Theorem: distance-choice
        """
        choice_event = self.choice.event(distance_sensitivity(self.query, self.factors, unit))
        return choice_event if self.count == 1 else ComposedEvent(((choice_event, self.count),))

    def ruled_out(self, chosen: int) -> tuple[int, ...]:
        """Return the blocks that overlap with a chosen one; they are no candidates for later choices."""
        if self.overlap is None:
            return ()
        names = self.query.blocks[chosen].attributes
        return tuple(
            number
            for number, block in enumerate(self.query.blocks)
            if len(names & block.attributes) >= min(self.overlap, len(block.attributes))
        )

    def scores(self, values: Whole) -> Whole:
        """Return the score of each block."""
        small = isinstance(values, np.ndarray) and int(abs(values // 2).max()) < FARTHEST
        kind = np.int64 if small else np.object_
        away = np.abs(np.asarray(values, dtype=kind) - np.array(self.believed, dtype=kind))
        spans = pairwise(accumulate((block.values for block in self.query.blocks), initial=0))
        sums = [int(away[first:last].sum()) for first, last in spans]
        paired = zip(sums, self.factors, self.handicaps, strict=True)
        return [factor * total - handicap for total, factor, handicap in paired]

    @cached_property
    def purpose(self) -> str:
        """The digest of the request, including the estimates."""
        several = () if self.count == 1 and self.overlap is None else (self.count, self.overlap)
        public = repr((self.believed, self.factors, self.handicaps, *several)).encode("ascii")
        return f"distance {hashlib.sha256(public).hexdigest()} {query_digest(self.query)}"

    @property
    def spelled(self) -> str:
        """The mechanism as text."""
        return f"{choice_name(self.choice)} {self.choice.scale} x {self.count} by distance"


def distance_sensitivity(query: Query, factors: Sequence[int], unit: Unit) -> Sensitivity:
    """Return the sensitivity of the scores: factor times l1 sensitivity, in the worst block.

    Theorem: distance-choice
    """
    moved = (
        factor * unit_sensitivity(Query(query.domain, (block,)), unit).l1
        for factor, block in zip(factors, query.blocks, strict=True)
    )
    return Sensitivity.scores(max(moved), unit.neighbours)


# --- Excesses: which answer is farthest above or below its estimate, and on which side, without the distance.


@dataclass(frozen=True)
class ExcessScores:
    """Scores 2k candidates: each of k answers as above its estimate, then each as below it.

    Theorem: distance-choice
    """

    theorem: ClassVar[str] = "distance-choice"
    query: Query
    believed: tuple[int, ...]
    choice: ChoiceMechanism
    count: ClassVar[int] = 1
    rarities: ClassVar[tuple[()]] = ()

    def __post_init__(self) -> None:
        """Validate that all numbers are present and integers."""
        if len(self.believed) != self.query.values or any(type(number) is not int for number in self.believed):
            raise InvalidArgument("believed", len(self.believed), f"write {self.query.values} whole numbers")

    def event(self, unit: Unit) -> Event:
        """Return the event; scores are not monotone.

        Theorem: distance-choice
        """
        return self.choice.event(excess_sensitivity(self.query, unit))

    def ruled_out(self, chosen: int) -> tuple[()]:  # noqa: ARG002  a protocol's
        """Return none: there is one choice."""
        return ()

    def scores(self, values: Whole) -> Whole:
        """Return how far each answer is above its estimate, then how far each is below."""
        above = [int(value) - believed for value, believed in zip(values, self.believed, strict=True)]
        return [*above, *(-excess for excess in above)]

    @cached_property
    def purpose(self) -> str:
        """The digest of the request, including the estimates."""
        public = hashlib.sha256(repr(self.believed).encode("ascii")).hexdigest()
        return f"excess {public} {query_digest(self.query)}"

    @property
    def spelled(self) -> str:
        """The mechanism as text."""
        return f"{choice_name(self.choice)} {self.choice.scale} x 1 by excess"


def excess_sensitivity(query: Query, unit: Unit) -> Sensitivity:
    """Return the sensitivity of the scores.

    Theorem: distance-choice
    """
    return Sensitivity.scores(unit_sensitivity(query, unit).linf, unit.neighbours)


# --- Databases: all tables of a few rows over a small universe, scored by their worst answer (Blum, Ligett and Roth).


Universe = tuple[tuple[str, int], ...]
"""Attributes with their numbers of codes, counted from 0; the last attribute varies fastest."""
MOST_DATABASES = 1 << 18
"""The largest number that is enumerated; there are C(n + |X| - 1, n) tables of n rows over |X| cells."""
_CHUNK = 1 << 22  # numbers in memory at a time: running out of memory after the charge would lose the answer
_MOST_NUMBERS = 1 << 25
"""Limit on answers times cells, which are all held in memory."""
_LARGEST = 1 << 31
MOST_BITS = 1000
"""Limit on rows·log2(cells), so that multinomial coefficients fit in doubles."""


@dataclass(frozen=True)
class DatabaseScores:
    """Scores each multiset of `rows` rows over all cells of a universe by -max |rows·answer - size·own answer|.

    The law is that of the exponential mechanism over all ordered tables: each multiset is weighted by its multinomial
    coefficient, the number of ordered tables that it represents.

    Theorem: blr-privacy
    """

    theorem: ClassVar[str] = "blr-privacy"
    query: Query
    universe: Universe
    rows: int
    size: int
    """The public number of rows of the real table."""
    choice: Exponential
    count: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Validate the counts and attributes, and that the databases are few enough to enumerate."""
        to_integer(self.rows, argument="rows", lower=1, upper=_LARGEST)
        to_integer(self.size, argument="size", lower=1, upper=_LARGEST)
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
        if self.rows * math.log2(self.size_of_universe) > MOST_BITS:  # limit of a multinomial coefficient
            raise InvalidArgument("rows", self.rows, f"write rows with rows·log2(cells) up to {MOST_BITS}")

    @property
    def size_of_universe(self) -> int:
        """The number of cells."""
        return math.prod(codes for _, codes in self.universe)

    @property
    def number(self) -> int:
        """The number of multisets."""
        return count_databases(self.size_of_universe, self.rows)

    def event(self, unit: Unit) -> Event:
        """Return the event: one row changes a score by at most `rows`, in either direction.

        Theorem: blr-privacy
        """
        return self.choice.event(database_sensitivity(self.query, self.rows, unit))

    @cached_property
    def answers(self) -> NDArray[np.int64]:
        """What each cell adds to each answer, one row per answer."""
        tables, shape = [], tuple(codes for _, codes in self.universe)
        axes = {
            name: np.arange(codes, dtype=np.int64).reshape([-1 if other == place else 1 for other in range(len(shape))])
            for place, (name, codes) in enumerate(self.universe)
        }
        for block in self.query.blocks:
            weights = np.broadcast_to(block_weights(block, axes), shape).reshape(-1)
            groups = np.broadcast_to(group_numbers(block.keys, axes), shape).reshape(-1)
            table = np.zeros((block.values, weights.size), dtype=np.int64)
            table[groups, np.arange(weights.size)] = weights
            tables.append(table)
        return np.concatenate(tables)

    def cells(self, number: int) -> tuple[int, ...]:
        """Return the cells of a database, in ascending order."""
        to_integer(number, argument="number", lower=0, upper=self.number - 1)
        return next(islice(self._all(), number, None))

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """The number of ordered tables that each multiset represents."""
        return tuple(_arrangements(cells) for cells in self._all())

    @cached_property
    def rarities(self) -> tuple[Fraction, ...]:
        """The largest number of ordered tables of any multiset, divided by that of each multiset."""
        most = max(self.copies)
        known = {number: Fraction(most, number) for number in set(self.copies)}
        return tuple(known[number] for number in self.copies)

    def ruled_out(self, chosen: int) -> tuple[()]:  # noqa: ARG002  a protocol's
        """Return none: there is one choice."""
        return ()

    def scores(self, values: Whole) -> Whole:
        """Return minus the largest difference of each database, in steps of 1/(rows·size)."""
        small = isinstance(values, np.ndarray) and int(abs(values // 2).max()) < _LARGEST
        kind = np.int64 if small else np.object_
        wanted = np.asarray(values, dtype=kind) * self.rows
        given, every = self.answers.astype(kind) * self.size, self._all()
        scores: list[int] = []
        at_a_time = max(1, _CHUNK // (self.rows * wanted.size))
        while chunk := list(islice(every, at_a_time)):
            sums = given[:, np.array(chunk)].sum(axis=2)
            scores += (-np.abs(sums - wanted[:, None]).max(axis=0)).tolist()
        return scores

    @property
    def purpose(self) -> str:
        """The digest of the request."""
        shape = " ".join(f"{codes}" for _, codes in self.universe)
        names = hashlib.sha256(repr([name for name, _ in self.universe]).encode()).hexdigest()
        return f"database of {self.rows} rows for {self.size} over {shape} {names} {query_digest(self.query)}"

    @property
    def spelled(self) -> str:
        """The mechanism as text."""
        return f"exponential {self.choice.scale} x 1 over databases of {self.rows} rows"

    def _all(self) -> Iterator[tuple[int, ...]]:
        """Iterate over all databases; the order is permanent, as releases identify a database by its index."""
        return combinations_with_replacement(range(self.size_of_universe), self.rows)


def count_databases(cells: int, rows: int) -> int:
    """Return the number of multisets of `rows` cells.

    >>> count_databases(4, 3)
    20
    """
    return math.comb(cells + rows - 1, rows)


def database_sensitivity(query: Query, rows: int, unit: Unit) -> Sensitivity:
    """Return the sensitivity of the scores.

    Theorem: blr-privacy
    """
    return Sensitivity.scores(rows * unit_sensitivity(query, unit).linf, unit.neighbours)


def _arrangements(cells: tuple[int, ...]) -> int:
    """Return m!/∏ n_i!, where n_i is the multiplicity of each cell; the cells are sorted."""
    count, run = 1, 0
    for place, cell in enumerate(cells):
        run = run + 1 if place and cells[place - 1] == cell else 1
        count = count * (place + 1) // run
    return count
