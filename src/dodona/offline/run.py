"""A run: what is declared before the first charge, what has been spent of it, and what it has bought."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dodona.belief.components import Components
from dodona.domain.unit import Unit
from dodona.mechanisms.measurement import Measurement, noises_from
from dodona.mechanisms.selection import Scored
from dodona.offline.currency import Currency
from dodona.offline.faults import WorkloadUnfit
from dodona.offline.fitting import Seen
from dodona.offline.till import Bought, Till
from dodona.offline.workload import Workload, plain
from dodona.query.people import effect_of
from dodona.query.query import Block, Query
from dodona.query.sensitivity import Sensitivity
from dodona.query.spelling import to_json

if TYPE_CHECKING:
    from dodona.belief.refit import Belief

Told = Callable[[float, str], None]
"""Is told which part of the run is done, from 0 to 1, and what is being done."""


@dataclass(frozen=True, slots=True)
class Step:
    """One charge of a run, for people."""

    name: str
    about: str
    mechanism: str
    price: float
    how: str


@dataclass(slots=True)
class Run:
    """The state of a run. It changes by whole steps."""

    workload: Workload
    till: Till
    currency: Currency
    total: float
    """What all steps may cost, in the currency."""
    cells: int
    """How many cells a belief, or a component of one, may have."""
    told: Told
    spent: float = 0.0
    steps: list[Step] = field(default_factory=list)

    @property
    def left(self) -> float:
        """What is left."""
        return self.total - self.spent

    @property
    def size(self) -> int:
        """How many rows the table is said to have, publicly."""
        return max(1, self.till.dataset.schema.unit.size)

    @property
    def unit(self) -> Unit:
        """Who is protected: what prices hold for."""
        return self.till.dataset.schema.unit

    def sensitivity(self, blocks: Sequence[Block]) -> Sensitivity:
        """Return how far a unit moves the counts of some blocks."""
        return effect_of(self.asked(blocks), self.unit)

    def asked(self, blocks: Sequence[Block]) -> Query:
        """Return blocks as a question to the table."""
        return Query(self.workload.query.domain, tuple(blocks))

    def believed(self, belief: Belief, blocks: Sequence[Block], *, share: float = 1.0) -> tuple[int, ...]:
        """Return what a belief about a share of the declared rows expects of blocks, in whole rows."""
        found = np.rint(belief.expect(self.workload.over(blocks)) * share * self.size)
        return tuple(found.astype(np.int64).tolist())

    def holds(self, belief: Belief, block: Block) -> bool:
        """Return whether moving a belief by a block would tie no more cells together than are held."""
        if not isinstance(belief, Components):
            return True
        touched = [part for part in belief.parts if block.attributes & set(part.support.domain.names)]
        return math.prod(part.support.size for part in touched) <= self.cells

    def refuse_wide(self) -> None:
        """Refuse a workload with a block that no belief here can be moved by."""
        support = self.workload.support
        for block in self.workload.query.blocks:
            if math.prod(support.shape[place] for place in support.places(block.attributes)) > self.cells:
                raise WorkloadUnfit(
                    f"{spoken(block)} looks at more than {self.cells} cells, and no belief here holds them. Ask for "
                    "fewer columns together, or coarser ones."
                )

    def measure(self, step: str, blocks: Sequence[Block], part: float) -> tuple[Seen, ...]:
        """Return blocks as they were measured for a part of the budget; nothing where the answer was lost."""
        noise = self.currency.noise(part, self.sensitivity(blocks))
        measurement = Measurement(self.asked(blocks), (noise,) * len(blocks))
        about = ", ".join(map(spoken, blocks))
        bought = self.till.measured(step, measurement, text=f"release {self.till.run[:12]}, {step}: {about}"[:5000])
        self._note(bought, f"measure {about}")
        if bought.release is None:
            return ()
        noises, values, start, found = noises_from(bought.release.mechanism), bought.release.values, 0, []
        for block, own in zip(blocks, noises, strict=True):
            counts = [int(value) for value in values[start : start + block.values]]
            start += block.values
            found.append(Seen.of(block, counts, own, size=self.size))
        return tuple(found)

    def choose(self, step: str, selection: Scored) -> int | None:
        """Return the number of the chosen candidate; None where it was lost."""
        bought = self.till.chosen(step, selection, text=f"release {self.till.run[:12]}, {step}: choose")
        self._note(bought, "choose what to measure")
        return None if bought.release is None else int(bought.release.values[0])

    def _note(self, bought: Bought, about: str) -> None:
        price = self.currency.cost(bought.event)
        self.spent += price
        mechanism = "" if bought.release is None else bought.release.mechanism
        self.steps.append(Step(bought.step, about, mechanism, price, bought.how))
        self.told(min(1.0, self.spent / self.total), about)


def spoken(block: Block) -> str:
    """Return a block in words: the columns of a marginal, or those that a count looks at."""
    names = plain(block)
    return " × ".join(names) if names is not None else f"count by {', '.join(sorted(block.attributes))}"


def run_digest(*declared: object, query: Query) -> str:
    """Return the digest of all that a run is about."""
    return hashlib.sha256(repr((*map(str, declared), to_json(query))).encode()).hexdigest()
