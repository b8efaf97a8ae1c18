"""Workloads: the counts that synthetic data must answer well, declared before anything is asked."""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, Self

from dodona.errors import InvalidRequest, Refused
from dodona.knowledge.cells import Support, format_cells
from dodona.knowledge.factored import FactoredBelief, Prior
from dodona.numbers import format_decimal_rounded_down, format_percent
from dodona.query.predicate import EVERYTHING
from dodona.query.query import MOST_VALUES, ONE, Block, Query
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

# --- Errors for releases that cannot be made. Nothing has been charged in these cases, except in SynthesisStopped. ---


class InvalidWorkload(InvalidRequest):
    """A workload contradicts itself, the schema, or the method."""

    code = "workload-unfit"


class TooManyDatabases(InvalidRequest):
    """The method would have to compare more databases than can be enumerated."""

    code = "release-universe-too-large"

    def __init__(self, *, cells: int, rows: int, needed: int, limit: int) -> None:
        """Report what it would need, what is possible, and what to use instead."""
        self.needed = needed
        super().__init__(
            f"There are {format_cells(needed)} databases of {rows} rows over {format_cells(cells)} cells, and at most "
            f"{format_cells(limit)} are compared. Use fewer or coarser columns or fewer rows, or method 'annealed' or "
            "'mwem', which keep one number a cell."
        )


class SynthesisTooExpensive(Refused):
    """A release does not fit the remaining budget."""

    code = "release-too-dear"

    def __init__(self, *, asked: Fraction, left: Fraction) -> None:
        """Report what was asked, what is left, and what would fit."""
        self.asked, self.left = asked, left
        less = f'write share = "{format_decimal_rounded_down(left)}" or less'
        fits = f"{format_percent(left)} is left: {less if left > 0 else 'the owner can raise the budget'}"
        super().__init__(f"This release takes {format_percent(asked)} of the budget; {fits}.")


class SynthesisStopped(Refused):
    """The budget ran out during a release, because another caller spent from it meanwhile."""

    code = "release-stopped"

    def __init__(self, *, steps: int, left: float) -> None:
        """Report the progress, and how to continue."""
        self.steps = steps
        super().__init__(
            f"The budget ran out after {steps} steps of this release, as others spent it too: {format_percent(left)} "
            "is left. They are recorded. Raise the budget and run the same release again with the same epsilon=, "
            "and it goes on; with share= it would begin anew, as that is a share of the new budget.",
            charged=True,
        )


# --- A workload: the counts that a release should answer well, all declared before anything is asked. ---


DEFAULT_CELLS = 1 << 21
"""The largest number of cells of a model: with more, fits would take minutes and hundreds of megabytes."""


Part = tuple[str, ...] | Block
"""A marginal, by its columns in the order of the table, or another block."""


@dataclass(frozen=True)
class Workload:
    """Blocks of counts over some columns of a table."""

    query: Query
    """All blocks, over the domain of the whole table."""
    values_only: bool = False
    """Whether rows are assumed to have a value in every column, with no weight for missing and other values."""
    runs: tuple[Partition, ...] = ()
    """Runs of adjacent values of the columns that have too many to be asked about value by value together with others.

    They say how many bins such a column has at most; a release in rounds measures it in bins of its own."""

    def __post_init__(self) -> None:
        """Refuse blocks that do not count rows, that count all rows, or that appear twice."""
        seen = set[Block]()
        for place, block in enumerate(self.query.blocks):
            if block.about_people:
                raise InvalidWorkload(f"workload[{place}] counts people. Count rows: synthetic rows are nobody's.")
            if block.weight != ONE:
                raise InvalidWorkload(f"workload[{place}] adds up values. Write counts, or marginals with `by`.")
            if not block.attributes:
                raise InvalidWorkload(f"workload[{place}] counts all rows, and their number is public. Leave it out.")
            if block in seen:
                raise InvalidWorkload(f"workload[{place}] stands twice. Write each count or marginal once.")
            seen.add(block)

    @classmethod
    def ways(
        cls, domain: Domain, ways: int, columns: Iterable[str] | None = None, *, values_only: bool = False
    ) -> Self:
        """Return all marginals over `ways` columns."""
        if isinstance(columns, str):
            raise InvalidWorkload(f"columns = {columns!r} is a text. Write a list of columns, such as [{columns!r}].")
        names = domain.names if columns is None else tuple(columns)
        if len(set(names)) != len(names):
            raise InvalidWorkload(f"columns = {', '.join(names)} has a name twice. Write each column once.")
        if not 1 <= ways <= len(names):
            raise InvalidWorkload(f"ways = {ways} does not fit {len(names)} columns. Write a number from 1 to that.")
        return cls.marginals(domain, combinations(names, ways), values_only=values_only)

    @classmethod
    def marginals(cls, domain: Domain, sets: Iterable[Sequence[str]], *, values_only: bool = False) -> Self:
        """Return the given marginals: each has the counts of all value combinations of its columns."""
        return cls.of_parts(domain, [order_columns(domain, names) for names in sets], values_only=values_only)

    @classmethod
    def of_parts(
        cls,
        domain: Domain,
        parts: Iterable[Part],
        *,
        values_only: bool = False,
        groups: Mapping[str, int] | None = None,
    ) -> Self:
        """Return the workload of marginals, by their columns, and of further blocks.

        Wide columns are in as many runs of values as `groups` says; by default in all values, or in so many runs that
        there are no more counts together than a query has.
        """
        listed = tuple(parts)
        if groups is None:
            groups = limit_groups(domain, listed, Room(each=MOST_VALUES)) or {}
        runs = {name: _even_runs(domain, name, number) for name, number in groups.items()}
        blocks = [
            part if isinstance(part, Block) else marginal_block(domain, part, runs if len(part) > 1 else None)
            for part in listed
        ]
        return cls(Query(domain, tuple(blocks)), values_only, tuple(runs.values()))

    def fitting(self, cells: int, kept: Collection[str] = ()) -> Self | None:
        """Return the workload with wide columns in so many runs that no marginal has more cells; None if none do.

        Those that are kept stay as they are. A workload that fits value by value is returned so.
        """
        held = dict(zip(self.names, self.support.shape, strict=True))
        groups = limit_groups(self.query.domain, self.parts, Room(cells, held), kept=kept)
        if groups is None:
            return None
        return self.of_parts(self.query.domain, self.parts, values_only=self.values_only, groups=groups)

    @classmethod
    def of(cls, queries: Iterable[Query], *, values_only: bool = False) -> Self:
        """Return the workload of some queries over one domain."""
        listed = tuple(queries)
        if not listed:
            raise InvalidWorkload("The workload is empty. Write a marginal or a count.")
        for query in listed:
            given: object = query
            if not isinstance(given, Query):
                raise InvalidWorkload(
                    f"{given!r:.60} is no Query. Write for example Query.count(schema.domain, predicate)."
                )
        return cls(listed[0].stacked(*listed[1:]), values_only)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns of the workload, in the order of the table."""
        used = frozenset[str]().union(*(block.attributes for block in self.query.blocks))
        return tuple(name for name in self.query.domain.names if name in used)

    @cached_property
    def support(self) -> Support:
        """The cells that a belief gives weight to."""
        domain = self.query.domain.project(self.names)
        return Support.values(domain) if self.values_only else Support.of(domain)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The columns of each marginal, and the other blocks."""
        return tuple(self.marginal(block) or block for block in self.query.blocks)

    def marginal(self, block: Block) -> tuple[str, ...] | None:
        """Return the columns of a marginal, whose wide columns may be in runs of values; None for any other block."""
        names = marginal_columns(block)
        if names is not None or not self.runs or block.where != EVERYTHING:
            return names
        keys = [key for key in block.keys if isinstance(key, Partition) and (key.single or key in self.runs)]
        return tuple(key.attribute for key in keys) if len(keys) == len(block.keys) else None

    def over(self, blocks: Sequence[Block]) -> Query:
        """Return blocks as a query of the belief."""
        return Query(self.support.domain, tuple(blocks))

    def uniform(self, *, cells: int = DEFAULT_CELLS, prior: Prior | None = None) -> FactoredBelief:
        """Return the belief that knows only a public prior."""
        return FactoredBelief(self.support, cells, prior or {})


# --- Wide columns: in how many runs of values they may be, so that all counts can be asked for, held and compared. ---


LEAST_GROUPS = 16
"""Of a column in runs of values: with fewer, little could be said of how it hangs together with others."""
WIDE = 64
"""Columns with more values may be put into runs of these."""


class Room(NamedTuple):
    """How many cells there is room for."""

    each: int
    """In a marginal."""
    held: Mapping[str, int] | None = None
    """The cells of columns that count towards that; by default all."""
    tree: int | None = None
    """In the largest pairs of columns that tie all columns together, if that is asked for."""


def limit_groups(
    domain: Domain, parts: Iterable[Part], room: Room, *, kept: Collection[str] = ()
) -> dict[str, int] | None:
    """Return in how many runs of values wide columns can be at most, for marginals that there is room for.

    All have the same number. There are none if there is room for all values, and it is None if there is no room for 16.

    >>> from dodona.schema.attributes import Boolean, Integer
    >>> domain = Domain((Integer("income", 0, 4_999, otherwise=0), Boolean("night", otherwise=False)))
    >>> limit_groups(domain, [("income", "night")], Room(10_000)), limit_groups(domain, [("income", "night")], Room(99))
    ({}, {'income': 49})
    """
    listed = tuple(parts)
    sets = [part for part in listed if isinstance(part, tuple)]
    most = MOST_VALUES - sum(part.values for part in listed if isinstance(part, Block))
    names = list(dict.fromkeys(name for some in sets for name in some))
    pairs = sorted({pair for some in sets for pair in combinations(some, 2)}) if room.tree is not None else []
    every = {name: domain[name].cells for name in names}
    most_tied = math.inf if room.tree is None else room.tree
    wide = [name for name in names if domain[name].size > WIDE and name not in kept]

    def fits(number: int | None) -> bool:
        asked, held = ({name: cells[name] for name in names} for cells in (every, room.held or every))
        for name in wide:
            fewer = 0 if number is None else max(0, domain[name].size - number)
            asked[name], held[name] = asked[name] - fewer, held[name] - fewer
        sizes = [math.prod([held[name] for name in some]) for some in sets if len(some) > 1]
        tied = sorted((held[first] * held[second] for first, second in pairs), reverse=True)[: len(names) - 1]
        counted = sum(math.prod([(asked if len(some) > 1 else every)[name] for name in some]) for some in sets)
        return max(sizes, default=0) <= room.each and counted <= most and sum(tied) <= most_tied

    if fits(None):
        return {}
    if not wide or not fits(LEAST_GROUPS):
        return None
    widest = max(domain[name].size for name in wide)
    tried = range(LEAST_GROUPS, widest)
    number = tried[bisect_right(tried, 0, key=lambda number: not fits(number)) - 1]
    return {name: number for name in wide if domain[name].size > number}


def _even_runs(domain: Domain, name: str, number: int) -> Partition:
    """Return the partition of a column into so many runs of values of about the same length."""
    attribute = domain[name]
    return Partition.cut(attribute, tuple(place * attribute.size // number for place in range(number)))


# --- Marginals as blocks of a query. ---


def order_columns(domain: Domain, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a marginal in the order of the table."""
    if isinstance(names, str):
        raise InvalidWorkload(f"by = {names!r} is a text. Write a list of columns, such as [{names!r}].")
    if not names or len(set(names)) != len(names):
        listed = ", ".join(names) or "nothing"
        raise InvalidWorkload(f"by = {listed} is no marginal. Write one column or more, each once.")
    unknown = ", ".join(name for name in names if name not in domain)
    if unknown:
        raise InvalidWorkload(f"by has {unknown}, and the table has no such column: {', '.join(domain.names)}.")
    return tuple(name for name in domain.names if name in set(names))


def marginal_block(domain: Domain, names: Sequence[str], bins: Mapping[str, Partition] | None = None) -> Block:
    """Return the block of a marginal, some columns perhaps in bins; its keys are in the order of the table."""
    ordered = [domain[name] for name in order_columns(domain, names)]
    cut = bins or {}
    block = Block(EVERYTHING, tuple(cut.get(attribute.name) or Partition.every(attribute, 1) for attribute in ordered))
    if math.prod(key.groups for key in block.keys) > MOST_VALUES:
        widest = max(ordered, key=lambda attribute: attribute.cells)
        raise InvalidWorkload(
            f"The marginal of {', '.join(names)} has {block.values:,} cells, more than {MOST_VALUES:,}. "
            f"Leave out {widest.name}, which has {widest.cells:,} values, or declare it in coarser steps."
        )
    return block


def marginal_columns(block: Block) -> tuple[str, ...] | None:
    """Return the columns of a marginal with one group per value; None for any other block."""
    if block.where != EVERYTHING or not block.keys:
        return None
    names = [key.attribute for key in block.keys if isinstance(key, Partition) and key.single]
    return tuple(names) if len(names) == len(block.keys) == len(set(names)) else None
