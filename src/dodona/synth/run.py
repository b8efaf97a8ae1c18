"""A synthesis run: the declared total, the steps paid so far, and their results.

Each step is charged under its own key, so an interrupted run resumes without paying twice. A step that was charged and
lost in a crash stays charged.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from dodona.curator.desk import WHOLE_BUDGET, Desk, Purchase
from dodona.curator.request import Dataset
from dodona.knowledge.components import Belief, ComponentBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.ledger.entries import Release
from dodona.ledger.errors import AnswerInterrupted, KeyReused
from dodona.privacy.additive_noise import SMALLEST_SCALE, Gaussian, Laplace, round_scale_up
from dodona.privacy.bounds import smallest_number
from dodona.privacy.events import Event
from dodona.privacy.measurement import Measurement, Noise, noises_from_text
from dodona.privacy.selection import ChoiceMechanism, Exponential, PermuteAndFlip, ScoredCandidates
from dodona.query.canonical import to_json
from dodona.query.query import Block, Query
from dodona.query.sensitivity import Sensitivity, unit_sensitivity
from dodona.schema.schema import Unit
from dodona.synth.workload import InvalidWorkload, Workload, marginal_columns
from dodona.trusted.gate import release_choice, release_measurement

# --- The currency of a release: how a share of the budget buys noise and choices, in ρ or in pure ε. ---


@dataclass(frozen=True, slots=True)
class Currency:
    """Converts a share of the budget into mechanisms.

    In pure ε: Laplace noise, and permute-and-flip, which is never worse than the exponential mechanism there. In ρ:
    Gaussian or Laplace noise, and the exponential mechanism at its bounded-range price, at most ε²/8.
    """

    unit: Literal["ε", "ρ"]
    """The letter in which prices are shown."""
    laplace: bool = False
    """Whether noise bought in ρ is Laplace noise: for its tails, or to match the mechanism of the literature."""

    def noise(self, part: float, sensitivity: Sensitivity) -> Noise:
        """Return the least noise that costs at most `part`: Lap(Δ₁/ε), σ = Δ₂/√(2ρ), or the Laplace noise at ρ."""
        if self.unit == "ε":
            return Laplace(scale=_scale_above(sensitivity.l1 / part))
        if not self.laplace:
            return Gaussian(scale=_scale_above(math.sqrt(sensitivity.l2_squared / (2 * part))))

        def affordable(scale: float) -> bool:  # the price decreases in the scale
            return self.cost(Laplace(scale=round_scale_up(scale)).event(sensitivity)) <= part

        return Laplace(scale=round_scale_up(smallest_number(affordable, 1e-3, 1e12, near=1e-7, geometric=True)))

    def choice(self, part: float, sensitivity: Sensitivity) -> ChoiceMechanism:
        """Return the most accurate choice mechanism that costs at most `part`: at ε, or at ε = √(8ρ)."""
        moved = (1 if sensitivity.monotone else 2) * sensitivity.linf
        if self.unit == "ε":
            return PermuteAndFlip(scale=_scale_above(moved / part))
        return Exponential(scale=_scale_above(moved / math.sqrt(8 * part)))

    def cost(self, event: Event) -> float:
        """Return the cost of an event, rounded up."""
        pure = Fraction(10**9) if event.epsilon is None else event.epsilon
        return math.nextafter(float(pure if self.unit == "ε" else event.rho()), math.inf)


def _scale_above(wanted: float) -> Fraction:
    """Return a scale, rounded up; the smallest valid one if the budget allows less noise than that."""
    return round_scale_up(max(wanted, float(SMALLEST_SCALE)))


# --- A run: what is declared before the first charge, what has been spent, and the results. Each step is paid for under
# its own key, so that a run can be resumed. ---


ProgressCallback = Callable[[float, str], None]
"""Called with the completed fraction of the run, from 0 to 1, and a description of the current step."""


@dataclass(frozen=True, slots=True)
class RunStep:
    """One charge of a run, for display."""

    name: str
    about: str
    mechanism: str
    price: float
    how: str


@dataclass(slots=True)
class SynthesisRun:
    """The state of a run. It changes in whole steps."""

    workload: Workload
    desk: Desk
    digest: str
    """The digest of the whole declaration: other runs have other keys."""
    currency: Currency
    total: float
    """The total cost of all steps, in the currency."""
    cells: int
    """The largest number of cells of a belief, or of one of its components."""
    progress: ProgressCallback
    spent: float = 0.0
    steps: list[RunStep] = field(default_factory=list)

    @property
    def dataset(self) -> Dataset:
        """The dataset that is released."""
        return self.desk.dataset

    @property
    def size(self) -> int:
        """The declared, public number of rows of the table."""
        return max(1, self.dataset.schema.unit.size)

    @property
    def unit(self) -> Unit:
        """The protected unit, for which prices hold."""
        return self.dataset.schema.unit

    def sensitivity(self, blocks: Sequence[Block]) -> Sensitivity:
        """Return the sensitivity of the counts of some blocks to one unit."""
        return unit_sensitivity(self.asked(blocks), self.unit)

    def asked(self, blocks: Sequence[Block]) -> Query:
        """Return blocks as a query of the table."""
        return Query(self.workload.query.domain, tuple(blocks))

    def believed(self, belief: Belief, blocks: Sequence[Block], *, share: float = 1.0) -> tuple[int, ...]:
        """Return the expected counts of blocks, in whole rows, under a belief about a share of the declared rows."""
        found = np.rint(belief.expect(self.workload.over(blocks)) * share * self.size)
        return tuple(found.astype(np.int64).tolist())

    def holds(self, belief: Belief, block: Block) -> bool:
        """Return whether updating a belief by a block keeps its components within the cell limit."""
        if not isinstance(belief, ComponentBelief):
            return True
        touched = [part for part in belief.parts if block.attributes & set(part.support.domain.names)]
        return math.prod(part.support.size for part in touched) <= self.cells

    def refuse_wide(self) -> None:
        """Refuse a workload with a block that no belief here can be updated by."""
        support = self.workload.support
        for block in self.workload.query.blocks:
            if math.prod(support.shape[place] for place in support.places(block.attributes)) > self.cells:
                raise InvalidWorkload(
                    f"{describe_block(block)} looks at more than {self.cells} cells, and no model here holds them. Ask "
                    "for fewer columns together, or coarser ones."
                )

    def measure(self, step: str, blocks: Sequence[Block], part: float) -> tuple[ObservedBlock, ...]:
        """Measure blocks for a share of the budget and return the results; nothing if the answer was lost."""
        noise = self.currency.noise(part, self.sensitivity(blocks))
        measurement = Measurement(self.asked(blocks), (noise,) * len(blocks))
        about = ", ".join(map(describe_block, blocks))
        text = f"release {self.digest[:12]}, {step}: {about}"[:5000]
        release = self._buy(step, measurement, partial(release_measurement, text=text), f"measure {about}")
        if release is None:
            return ()
        noises, start, found = noises_from_text(release.mechanism), 0, []
        for block, own in zip(blocks, noises, strict=True):
            counts = [int(value) for value in release.values[start : start + block.values]]
            start += block.values
            found.append(ObservedBlock.of(block, counts, own, size=self.size))
        return tuple(found)

    def choose(self, step: str, selection: ScoredCandidates) -> int | None:
        """Return the index of the chosen candidate; None if it was lost."""
        text = f"release {self.digest[:12]}, {step}: choose"
        release = self._buy(step, selection, partial(release_choice, text=text), "choose what to measure")
        return None if release is None else int(release.values[0])

    def charge(self, step: str) -> Event | None:
        """Return the event that an earlier attempt charged for a step; None if there was none."""
        receipt = self.dataset.ledger.receipt(self._key(step), analyst=self.desk.analyst)
        return None if receipt is None else receipt.event

    def _key(self, step: str) -> str:
        return f"release {self.digest} {step}"

    def _buy(
        self, step: str, asked: Measurement | ScoredCandidates, deliver: Callable[..., Release], about: str
    ) -> Release | None:
        """Return the recorded result of a step, or pay for it; None if its answer was lost after the charge."""
        event, how, release = self._bought(step, asked, deliver)
        price = self.currency.cost(event)
        self.spent += price
        self.steps.append(RunStep(step, about, "" if release is None else release.mechanism, price, how))
        self.progress(min(1.0, self.spent / self.total), about)
        return release

    def _bought(
        self, step: str, asked: Measurement | ScoredCandidates, deliver: Callable[..., Release]
    ) -> tuple[Event, str, Release | None]:
        """Return what was charged, how the step was settled, and its result."""
        key = self._key(step)
        try:
            recalled = self.desk.recall(key, wait=False)  # a step that broke off in this process goes on
        except AnswerInterrupted:
            return self._lost(step), "lost", None
        if recalled is not None:
            receipt, release = recalled
            if release.question != to_json(asked.query):
                raise KeyReused(key)
            return receipt.event, "recalled", release
        # The whole run was agreed to.
        event, delivery = asked.event(self.unit), partial(deliver, asked)
        purchase = Purchase(event=event, purpose=asked.purpose, deliver=delivery, max_price=WHOLE_BUDGET)
        try:
            bought = self.desk.buy(purchase, key=key)
        except KeyReused:  # an earlier attempt paid here for a choice that was rounded differently
            return self._lost(step), "lost", None
        return bought.receipt.event, "paid", bought.item

    def _lost(self, step: str) -> Event:
        """Return what was charged for a step whose answer was lost."""
        event = self.charge(step)
        if event is None:
            raise KeyReused(self._key(step))
        return event


def describe_block(block: Block) -> str:
    """Describe a block: the columns of a marginal, or those that a count uses."""
    names = marginal_columns(block)
    return " × ".join(names) if names is not None else f"count by {', '.join(sorted(block.attributes))}"


def run_digest(*declared: object, query: Query) -> str:
    """Return the digest of everything that a run declares."""
    return hashlib.sha256(repr((*map(str, declared), to_json(query))).encode()).hexdigest()
