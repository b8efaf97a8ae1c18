"""Workloads: the counts that synthetic data must answer well, declared before anything is asked."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Self

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


@dataclass(frozen=True)
class Workload:
    """Blocks of counts over some columns of a table."""

    query: Query
    """All blocks, over the domain of the whole table."""
    values_only: bool = False
    """Whether rows are assumed to have a value in every column, with no weight for missing and other values."""

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
        return cls(Query(domain, tuple(marginal_block(domain, names) for names in sets)), values_only)

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

    def over(self, blocks: Sequence[Block]) -> Query:
        """Return blocks as a query of the belief."""
        return Query(self.support.domain, tuple(blocks))

    def uniform(self, *, cells: int = DEFAULT_CELLS, prior: Prior | None = None) -> FactoredBelief:
        """Return the belief that knows only a public prior."""
        return FactoredBelief(self.support, cells, prior or {})


def marginal_block(domain: Domain, names: Sequence[str], bins: Mapping[str, Partition] | None = None) -> Block:
    """Return the block of a marginal, some columns perhaps in bins; its keys are in the order of the table."""
    if isinstance(names, str):
        raise InvalidWorkload(f"by = {names!r} is a text. Write a list of columns, such as [{names!r}].")
    if not names or len(set(names)) != len(names):
        listed = ", ".join(names) or "nothing"
        raise InvalidWorkload(f"by = {listed} is no marginal. Write one column or more, each once.")
    ordered = [attribute for attribute in domain if attribute.name in set(names)]
    if len(ordered) != len(names):
        unknown = ", ".join(name for name in names if name not in domain)
        raise InvalidWorkload(f"by has {unknown}, and the table has no such column: {', '.join(domain.names)}.")
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
