"""A workload: the counts that a release is to answer well, all of them declared before anything is asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Self

from dodona.belief.components import Components
from dodona.belief.dense import Dense
from dodona.belief.support import Support
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition
from dodona.offline.faults import WorkloadUnfit
from dodona.query.predicate import EVERYTHING
from dodona.query.query import MOST_VALUES, Block, Query
from dodona.query.weight import ONE, People

if TYPE_CHECKING:
    from dodona.belief.refit import Belief

USUAL_CELLS = 1 << 22
"""A dense belief, or a component, of more cells is not held: fits would take minutes."""


@dataclass(frozen=True)
class Workload:
    """Blocks of counts over some columns of a table."""

    query: Query
    """All blocks, over the domain of the whole table."""
    values_only: bool = False
    """Whether rows are taken to have a value in every column: no weight is kept for missing and other values."""

    def __post_init__(self) -> None:
        """Refuse what is no count, stands twice, or asks about nothing."""
        seen = set[Block]()
        for place, block in enumerate(self.query.blocks):
            if isinstance(block.weight, People):
                raise WorkloadUnfit(f"workload[{place}] counts people. Count rows: synthetic rows are nobody's.")
            if block.weight != ONE:
                raise WorkloadUnfit(f"workload[{place}] adds up values. Write counts, or marginals with `by`.")
            if not block.attributes:
                raise WorkloadUnfit(f"workload[{place}] counts all rows, and their number is public. Leave it out.")
            if block in seen:
                raise WorkloadUnfit(f"workload[{place}] stands twice. Write each count or marginal once.")
            seen.add(block)

    @classmethod
    def ways(
        cls, domain: Domain, ways: int, columns: Iterable[str] | None = None, *, values_only: bool = False
    ) -> Self:
        """Return all marginals of so many columns."""
        names = domain.names if columns is None else tuple(columns)
        if len(set(names)) != len(names):
            raise WorkloadUnfit(f"columns = {', '.join(names)} has a name twice. Write each column once.")
        if not 1 <= ways <= len(names):
            raise WorkloadUnfit(f"ways = {ways} does not fit {len(names)} columns. Write a number from 1 to that.")
        return cls.marginals(domain, combinations(names, ways), values_only=values_only)

    @classmethod
    def marginals(cls, domain: Domain, sets: Iterable[Sequence[str]], *, values_only: bool = False) -> Self:
        """Return some marginals, each the counts of all combinations of values of some columns."""
        return cls(Query(domain, tuple(marginal(domain, names) for names in sets)), values_only)

    @classmethod
    def of(cls, queries: Iterable[Query], *, values_only: bool = False) -> Self:
        """Return the workload of some queries over one domain."""
        listed = tuple(queries)
        if not listed:
            raise WorkloadUnfit("The workload is empty. Write a marginal or a count.")
        return cls(listed[0].stacked(*listed[1:]), values_only)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns that it is about, in the order of the table."""
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

    def uniform(self, *, cells: int = USUAL_CELLS) -> Belief:
        """Return the belief that knows nothing: dense where that is small enough, else in components."""
        return uniform(self.support, cells=cells)


def uniform(support: Support, *, cells: int) -> Belief:
    """Return the belief that knows nothing."""
    return Dense.uniform(support) if support.size <= cells else Components.uniform(support, limit=cells)


def marginal(domain: Domain, names: Sequence[str]) -> Block:
    """Return the block of a marginal; its keys stand in the order of the table."""
    if not names or len(set(names)) != len(names):
        raise WorkloadUnfit(
            f"by = {', '.join(names) or 'nothing'} is no marginal. Write one column or more, each once."
        )
    ordered = [attribute for attribute in domain if attribute.name in set(names)]
    if len(ordered) != len(names):
        unknown = ", ".join(name for name in names if name not in domain)
        raise WorkloadUnfit(f"by has {unknown}, and the table has no such column: {', '.join(domain.names)}.")
    block = Block(EVERYTHING, tuple(Partition.every(attribute, 1) for attribute in ordered))
    if math.prod(key.groups for key in block.keys) > MOST_VALUES:
        raise WorkloadUnfit(
            f"The marginal of {', '.join(names)} has {block.values} cells, and {MOST_VALUES} are asked."
        )
    return block


def plain(block: Block) -> tuple[str, ...] | None:
    """Return the columns of a marginal that has a group for each value; None for any other block."""
    if block.where != EVERYTHING or not block.keys:
        return None
    names = [key.attribute for key in block.keys if isinstance(key, Partition) and key.single]
    return tuple(names) if len(names) == len(block.keys) == len(set(names)) else None
