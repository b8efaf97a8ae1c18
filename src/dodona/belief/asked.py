"""What is asked of a belief: blocks, told apart into simple counts and all others, and read on small tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dodona.belief.hypothesis import Numbers
from dodona.belief.marginals import Places
from dodona.belief.support import Support
from dodona.errors import InvalidArgument
from dodona.query.predicate import Axes
from dodona.query.query import Block, Query, block_weights, group_of
from dodona.query.weight import Constant

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Asked:
    """A block that is asked of a belief over a support."""

    block: Block
    support: Support

    @property
    def count(self) -> int | None:
        """What each row that is meant counts for, where that is all the block asks; None else."""
        weight = self.block.weight
        return weight.number if type(weight) is Constant and weight.number and not self.block.keys else None

    @property
    def places(self) -> Places:
        """The numbers of the attributes that the block looks at."""
        return self.support.places(self.block.attributes)

    @property
    def axes(self) -> Axes:
        """The codes of those attributes, in shapes that broadcast to their product."""
        places, names, codes = self.places, self.support.domain.names, self.support.codes
        return {
            names[place]: codes[names[place]].reshape([-1 if other == place else 1 for other in places])
            for place in places
        }

    @property
    def shape(self) -> tuple[int, ...]:
        """How many codes each of those attributes has."""
        return tuple(self.support.shape[place] for place in self.places)

    def weights(self) -> NDArray[np.float64]:
        """Return what each cell of the product counts for; 0 where it is not meant."""
        return np.broadcast_to(block_weights(self.block, self.axes), self.shape).astype(np.float64)

    def groups(self) -> NDArray[np.int64]:
        """Return the number of the answer that each cell of the product counts in."""
        return np.broadcast_to(group_of(self.block.keys, self.axes), self.shape)

    def values(self, law: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the answers, from the law of the attributes that the block looks at."""
        weights = (self.weights() * law).reshape(-1)
        if not self.block.keys:
            return np.array([weights.sum()])
        found: NDArray[np.float64] = np.bincount(
            self.groups().reshape(-1), weights=weights, minlength=self.block.values
        ).astype(np.float64)
        return found


def asked(query: Query, support: Support) -> tuple[Asked, ...]:
    """Return the blocks of a query over the support's domain."""
    if query.domain is not support.domain and query.domain != support.domain:
        raise InvalidArgument("query", query.domain.names, f"ask about {', '.join(support.domain.names)}")
    return tuple([Asked(block, support) for block in query.blocks])


def only(query: Query, support: Support) -> Asked:
    """Return the one block of a query that moves a belief."""
    found = asked(query, support)
    if len(found) != 1:
        raise InvalidArgument("query", f"{len(found)} blocks", "move a belief by one block at a time")
    return found[0]


def numbers(given: Numbers, count: int, *, argument: str) -> NDArray[np.float64]:
    """Return finite numbers, one for each answer."""
    found = np.asarray(given, dtype=np.float64).reshape(-1)
    if found.size != count:
        raise InvalidArgument(argument, f"{found.size} numbers", f"write {count}, one for each answer")
    if not np.isfinite(found).all():
        raise InvalidArgument(argument, given, "write finite numbers")
    return found
