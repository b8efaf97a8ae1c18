"""A belief as a product of dense components, which are joined when a query involves several; and means of beliefs.

Very large universes work as long as no component becomes large.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidArgument
from dodona.knowledge import cells
from dodona.knowledge.cells import Places, Support, TooManyCells
from dodona.knowledge.dense import MOST_DENSE_CELLS, DenseBelief
from dodona.query.predicate import as_box, conjunction, evaluate_predicate, predicate_attributes
from dodona.query.query import Query
from dodona.schema.schema import Domain

USUAL_LIMIT = 1 << 24


class ComponentBelief:
    """Independent dense beliefs, one for each group of attributes that updates have joined.

    It stores no weights itself: its components are updated as dense beliefs are, and an update passes all of them on.
    """

    __slots__ = ("_limit", "_owner", "_parts", "_support")

    def __init__(self, support: Support, parts: Sequence[DenseBelief], *, limit: int = USUAL_LIMIT) -> None:
        """Take over, without a copy, beliefs that together cover each attribute of the support exactly once."""
        if not 1 <= limit <= MOST_DENSE_CELLS:
            raise InvalidArgument("limit", limit, "write a number of cells from 1 to 2^27")
        names = [name for part in parts for name in part.support.domain.names]
        if sorted(names) != sorted(support.domain.names):
            raise InvalidArgument("parts", names, f"write each of {', '.join(support.domain.names)} once")
        if any(part.support != support.project(part.support.domain.names) for part in parts):
            raise InvalidArgument("parts", names, "their supports must be projections of the whole one")
        self._support = support
        self._limit = limit
        self._parts: tuple[DenseBelief, ...] | None = tuple(parts)
        self._owner = {name: number for number, part in enumerate(parts) for name in part.support.domain.names}

    @classmethod
    def uniform(cls, over: Domain | Support, *, limit: int = USUAL_LIMIT) -> Self:
        """Return the uninformed belief: the same weight on every cell."""
        support = Support.of(over) if isinstance(over, Domain) else over
        parts = [DenseBelief.uniform(support.project([name])) for name in support.domain.names]
        return cls(support, parts, limit=limit)

    @property
    def support(self) -> Support:
        """The cells that may have weight."""
        return self._support

    @property
    def parts(self) -> tuple[DenseBelief, ...]:
        """The dense beliefs whose product this is. They are not copies: copy one before updating it."""
        if self._parts is None:
            raise cells.SpentBelief
        return self._parts

    @property
    def limit(self) -> int:
        """The maximum number of cells of a component."""
        return self._limit

    def expect(self, query: Query) -> NDArray[np.float64]:
        """Return the expected weight of a row for every answer of a query. No components are joined."""
        questions = cells.blocks_on_support(query, self._support)
        laws = self.laws([one.places for one in questions if one.count is None])
        found: list[NDArray[np.float64]] = []
        for one in questions:
            count = one.count
            if count is None:
                found.append(one.values(laws[one.places]))
            else:
                found.append(np.array([count * self._share(one)]))
        return np.concatenate(found)

    def tilted(self, query: Query, *, exponents: cells.Numbers) -> Self:
        """Return the distribution with each cell multiplied by e^(exponent·weight); this belief is spent."""
        number, parts, within = self._tied_for(query)
        parts[number] = parts[number].tilted(within, exponents=exponents)
        return self._moved(parts)

    def sample(self, rows: int, rng: cells.RandomSource) -> dict[str, NDArray[np.int64]]:
        """Return synthetic rows: the codes of each attribute, drawn independently from the distribution."""
        drawn = {name: codes for part in self.parts for name, codes in part.sample(rows, rng).items()}
        return {name: drawn[name] for name in self._support.domain.names}

    def copied(self) -> Self:
        """Return a belief with its own copy of the weights."""
        return type(self)(self._support, [part.copied() for part in self.parts], limit=self._limit)

    def tied(self, names: Iterable[str]) -> Self:
        """Return the same distribution with some attributes joined into one component; this belief is spent."""
        return self._moved(self._joined(frozenset(names))[1])

    def _share(self, one: cells.BlockOnSupport) -> float:
        """Return the probability of a predicate, as a product if it is a conjunction."""
        where, parts = one.block.where, self.parts
        sets = as_box(where)
        if sets is not None:
            by_part: dict[int, list[int]] = {}
            for place, own in enumerate(sets):
                by_part.setdefault(self._owner[own.attribute], []).append(place)
            asked = ((parts[number], [sets[place] for place in places]) for number, places in by_part.items())
            return math.prod(part.share(conjunction(*own)) for part, own in asked)
        owners = {self._owner[name] for name in predicate_attributes(where)}
        if len(owners) == 1:
            return parts[owners.pop()].share(where)
        law = self.laws([one.places])[one.places]
        return float(law[np.broadcast_to(evaluate_predicate(where, one.axes), law.shape)].sum())

    def laws(self, wanted: Iterable[Places]) -> dict[Places, NDArray[np.float64]]:
        """Return the marginals of sets of attributes, as products of the components' marginals."""
        names = self._support.domain.names
        pieces: dict[Places, dict[int, Places]] = {}
        needed: dict[int, set[Places]] = {}
        for places in wanted:
            self._refuse_beyond(frozenset(names[place] for place in places), "The law that this question is about")
            own: dict[int, list[str]] = {}
            for place in places:
                own.setdefault(self._owner[names[place]], []).append(names[place])
            pieces[places] = {number: self.parts[number].support.places(some) for number, some in own.items()}
            for number, some in pieces[places].items():
                needed.setdefault(number, set()).add(some)
        tables = {number: self.parts[number].laws(sets) for number, sets in needed.items()}
        found = {}
        for places, own_pieces in pieces.items():
            law = np.ones([1] * len(places))
            for number, some in own_pieces.items():
                held = {self.parts[number].support.domain.names[place] for place in some}
                shape = [self._support.shape[place] if names[place] in held else 1 for place in places]
                law = law * tables[number][some].reshape(shape)
            found[places] = law
        return found

    def _tied_for(self, query: Query) -> tuple[int, list[DenseBelief], Query]:
        """Return the index of the component that a query concerns, all components, and the query restricted to it."""
        one = cells.single_block(query, self._support)
        names = one.block.attributes or frozenset(self._support.domain.names[:1])  # without attributes: any will refuse
        number, parts = self._joined(names)
        return number, parts, Query(parts[number].support.domain, query.blocks)

    def _joined(self, names: frozenset[str]) -> tuple[int, list[DenseBelief]]:
        """Return all components after those of some attributes are multiplied out, and the index of the product."""
        parts = self.parts
        owners = sorted({self._owner[self._support.domain[name].name] for name in names})
        if len(owners) <= 1:
            return (owners or [0])[0], list(parts)
        together = frozenset(name for number in owners for name in parts[number].support.domain.names)
        self._refuse_beyond(together, "The component that this question ties together")
        places = self._support.places(together)
        law = self.laws([places])[places]
        rest = [part for number, part in enumerate(parts) if number not in owners]
        return len(rest), [*rest, DenseBelief(self._support.project(together), law)]

    def _moved(self, parts: Sequence[DenseBelief]) -> Self:
        moved = type(self)(self._support, parts, limit=self._limit)
        self._parts = None
        return moved

    def _refuse_beyond(self, names: frozenset[str], what: str) -> None:
        places = self._support.places(names)
        cells = math.prod(self._support.shape[place] for place in places)
        if cells > self._limit:
            shown = ", ".join(self._support.domain.names[place] for place in places)
            instead = (
                f"Ask about fewer of {shown} together, declare coarser columns, or open the belief with a higher limit "
                f"(at most 2^27). This one stays as it was."
            )
            raise TooManyCells(what, cells=cells, limit=self._limit, instead=instead)


Belief = DenseBelief | ComponentBelief


# --- The mean of several distributions over cells, to which the theorem of MWEM applies. ---


@dataclass(frozen=True, slots=True)
class Mixture:
    """Equally weighted beliefs over one support. It can be queried and sampled, but not updated."""

    parts: tuple[Belief, ...]

    @property
    def support(self) -> Support:
        """The cells that may have weight."""
        return self.parts[0].support

    def expect(self, query: Query) -> NDArray[np.float64]:
        """Return the mean expectation of every answer of a query, per row."""
        found: NDArray[np.float64] = sum(part.expect(query) for part in self.parts) / len(self.parts)  # type: ignore[assignment]
        return found

    def sample(self, rows: int, rng: cells.RandomSource) -> dict[str, NDArray[np.int64]]:
        """Return synthetic rows, drawn from the beliefs in equal numbers, up to one."""
        shares = [rows // len(self.parts) + (place < rows % len(self.parts)) for place in range(len(self.parts))]
        drawn = [part.sample(share, rng) for part, share in zip(self.parts, shares, strict=True)]
        return {name: np.concatenate([one[name] for one in drawn]) for name in self.support.domain.names}


class MixtureBuilder:
    """Accumulates beliefs: dense ones in a single vector, others as copies."""

    def __init__(self) -> None:
        """Start empty."""
        self._sum: NDArray[np.float64] | None = None
        self._support: Support | None = None
        self._parts: list[Belief] = []

    def add(self, belief: Belief, *, weight: float = 1.0) -> None:
        """Add a belief, which stays usable. Only dense beliefs are weighted."""
        if not isinstance(belief, DenseBelief):
            self._parts.append(belief.copied())
        elif self._sum is None:
            self._sum, self._support = weight * belief.probabilities(), belief.support
        else:
            self._sum += weight * belief.probabilities()

    def mixture(self) -> Mixture:
        """Return the mean of all beliefs that were added."""
        if self._sum is not None and self._support is not None:
            return Mixture((DenseBelief(self._support, self._sum),))
        return Mixture(tuple(self._parts))


CellDistribution = Belief | Mixture
