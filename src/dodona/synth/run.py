"""A synthesis run: the declared total, the steps paid so far, and their results.

Each step is charged under its own key, so an interrupted run resumes without paying twice. A step that was charged and
lost in a crash stays charged.
"""

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dodona.curator.desk import WHOLE_BUDGET, Desk, Purchase
from dodona.curator.request import Dataset
from dodona.knowledge.cells import format_cells
from dodona.knowledge.constraints import compile_constraints, impossible_cells
from dodona.knowledge.factored import IMPOSSIBLE, FactoredBelief, Prior
from dodona.knowledge.fit import ObservedBlock
from dodona.knowledge.mixture import Belief
from dodona.ledger.entries import Release
from dodona.ledger.errors import AnswerInterrupted, KeyReused
from dodona.numbers import smallest_number
from dodona.privacy.additive_noise import (
    SMALLEST_SCALE,
    Gaussian,
    Laplace,
    Noise,
    NormalNoise,
    RoundedGaussian,
    round_scale_up,
)
from dodona.privacy.events import Event
from dodona.privacy.measurement import Measurement, ResidualMeasurement, noises_from_text, residuals_from_text
from dodona.privacy.scores import FARTHEST
from dodona.privacy.selection import ChoiceMechanism, Exponential, PermuteAndFlip, ScoredCandidates
from dodona.query.canonical import to_json
from dodona.query.predicate import EVERYTHING
from dodona.query.query import MOST_VALUES, Block, Query
from dodona.query.sensitivity import Sensitivity, unit_sensitivity
from dodona.query.spelling import from_json
from dodona.schema.partition import Partition
from dodona.schema.schema import Unit
from dodona.synth.workload import LEAST_GROUPS, WIDE, InvalidWorkload, Room, Workload, limit_groups, marginal_columns
from dodona.trusted.gate import release_choice, release_measurement

# --- The currency of a release: how a share of the budget buys noise and choices, in ρ or in pure ε. ---


@dataclass(frozen=True, slots=True)
class Currency:
    """Converts a share of the budget into mechanisms.

    In pure ε: Laplace noise, and permute-and-flip, which is never worse than the exponential mechanism there. In ρ:
    Gaussian or Laplace noise, and the exponential mechanism at its bounded-range price, at most ε²/8. In μ²: the same
    with rounded normal noise, and Gaussian prices.
    """

    unit: Literal["ε", "ρ", "μ²"]
    """The letter in which prices are shown."""
    laplace: bool = False
    """Whether noise bought in ρ or μ² is Laplace noise: for its tails, or to match the mechanism of the literature."""

    @property
    def normal(self) -> type[NormalNoise]:
        """The normal noise that is bought in this currency."""
        return RoundedGaussian if self.unit == "μ²" else Gaussian

    def noise(self, part: float, sensitivity: Sensitivity) -> Noise:
        """Return the least noise that costs at most `part`: Lap(Δ₁/ε), σ = Δ₂/√(2ρ), σ = Δ₂/μ, or Laplace noise."""
        if self.unit == "ε":
            return Laplace(scale=_scale_above(sensitivity.l1 / part))
        if not self.laplace:
            each = part if self.unit == "μ²" else 2 * part
            return self.normal(scale=_scale_above(math.sqrt(sensitivity.l2_squared / each)))

        def affordable(scale: float) -> bool:  # the price decreases in the scale
            return self.cost(Laplace(scale=round_scale_up(scale)).event(sensitivity)) <= part

        return Laplace(scale=round_scale_up(smallest_number(affordable, 1e-3, 1e12, near=1e-7, geometric=True)))

    def shares(self, values: Sequence[int]) -> list[float]:
        """Return how to divide a price over blocks of so many values, for the least sum of expected absolute noise.

        The noise of a block is as part^-½, or as part^-1 in pure ε; Σ values·noise is least for these shares.
        """
        weights = [self.weight(number) for number in values]
        return [weight / sum(weights) for weight in weights]

    def weight(self, values: int) -> float:
        """Return what a block of so many values should cost, in proportion to others."""
        return float(values ** (1 / 2 if self.unit == "ε" else 2 / 3))

    def choice(self, part: float, sensitivity: Sensitivity) -> ChoiceMechanism:
        """Return the most accurate choice mechanism that costs at most `part`."""
        moved = (1 if sensitivity.monotone else 2) * sensitivity.linf
        if self.unit == "ε":
            return PermuteAndFlip(scale=_scale_above(moved / part))
        return Exponential(scale=_scale_above(moved / self.choice_epsilon(part)))

    def choice_epsilon(self, part: float) -> float:
        """Return the ε of an exponential mechanism that costs `part`: √(8ρ), or that of page gaussian-filter."""
        match self.unit:
            case "ε":
                return part
            case "ρ":
                return math.sqrt(8 * part)
            case "μ²":
                below = NormalDist().cdf(-math.sqrt(part) / 2)
                return 2 * math.log((1 - below) / below) * (1 - 1e-12)  # less than rounding may have added

    def cost(self, event: Event) -> float:
        """Return the cost of an event, rounded up."""
        match self.unit:
            case "ε":
                price: Fraction | Decimal | None = event.epsilon
            case "ρ":
                price = event.rho()
            case "μ²":
                price = event.mu_squared()
        return math.nextafter(1e9 if price is None else float(price), math.inf)


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


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """What is known before a release: earlier measurements of the same rows, and the law that a model begins with."""

    known: tuple[ObservedBlock, ...] = ()
    base: Prior = field(default_factory=dict)
    digest: str = ""


_START_STEPS = 30
_SURE = 4.0
"""In deviations of the noise: a number of rows that is as far from the declared one is another."""
_BINNED = 4
"""Of a model with wide columns in bins: how many times fewer cells than it may have the pairs have that tie it."""


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
    """The largest number of cells of a belief."""
    progress: ProgressCallback
    start: Start = field(default_factory=Start)
    kept: frozenset[str] = frozenset()
    """The columns that are not put into bins."""
    part: float = 1.0
    """The rows that count, as a share of the declared ones: 1 unless released counts say that it is another."""
    spent: float = 0.0
    steps: list[RunStep] = field(default_factory=list)
    observed: dict[Block, ObservedBlock] = field(default_factory=dict)
    """What was measured, combined for each block."""

    @property
    def dataset(self) -> Dataset:
        """The dataset that is released."""
        return self.desk.dataset

    @property
    def size(self) -> int:
        """The declared, public number of rows of the table, or of all tables; or the one that released counts say."""
        return max(1, round(self.part * self.dataset.schema.size))

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
        """Return the expected counts of blocks, in whole rows, under a belief about a share of the declared rows.

        No more than can be compared: nobody has a table of so many rows, but it may be declared.
        """
        counts = np.rint(np.minimum(belief.expect(self.workload.over(blocks)) * share * self.size, FARTHEST))
        return tuple(counts.astype(np.int64).tolist())

    @property
    def prior(self) -> Prior:
        """What is public about the columns of the workload, as far as a belief holds it, as logarithms of weights."""
        support, prior = self.workload.support, dict[tuple[str, ...], NDArray[np.float64]]()
        held = self.workload.uniform(cells=self.cells)
        for constraint in compile_constraints(self.dataset.schema):
            names = tuple(name for name in support.domain.names if name in constraint.names)
            if len(names) < len(constraint.names) or not held.holds_columns([*prior, names]):
                continue  # rows that it forbids are drawn anew
            cells = impossible_cells([constraint], support.project(names))
            if cells is not None:
                table = np.where(cells, IMPOSSIBLE, 0.0)
                prior[names] = np.minimum(prior[names], table) if names in prior else table
        for names, table in self.start.base.items():
            if held.holds_columns([*prior, names]):
                prior[names] = prior[names] + table if names in prior else table
        return prior

    def begin(self) -> FactoredBelief:
        """Return the belief before the first step: public constraints, and what was known."""
        belief, kept = self.workload.uniform(cells=self.cells, prior=self.prior), list[ObservedBlock]()
        for observation in self.start.known:
            if belief.holds([other.block for other in (*kept, observation)]):
                kept.append(observation)
        return belief.joined(kept).fitted(_START_STEPS) if kept else belief

    def count_rows(self, total: float, variance: float) -> bool:
        """Take the rows that count for the declared ones where these are surely others, and return whether they are.

        People may have more rows than count, or the declared number may be wrong. What was observed are shares of the
        rows that count from then on. Only released counts are looked at.
        """
        far = _SURE * math.sqrt(variance)
        if self.unit.fixed or abs(total - 1) <= far:
            return False
        declared = self.size
        self.part = max(total, far)
        factor = declared / self.size
        self.observed = {block: rescaled(seen, factor) for block, seen in self.observed.items()}
        self.start = replace(self.start, known=tuple(rescaled(seen, factor) for seen in self.start.known))
        return True

    def put_into_runs(self) -> None:
        """Put wide columns of the workload into runs of values where it does not fit without; refuse what never does.

        Columns stay as they are that constraints, the start or a count compare; but what an earlier release measured of
        several columns together is left out where a column has to be in runs.
        """
        counts = [part for part in self.workload.parts if isinstance(part, Block)]
        joint = [seen for seen in self.start.known if len(seen.block.attributes) > 1 or seen.block.where != EVERYTHING]
        compared = frozenset[str]().union(*self.prior, *(block.attributes for block in counts))
        self.kept = compared.union(*(seen.block.attributes for seen in joint))
        fitting = self.workload.fitting(self.cells, self.kept)
        if fitting is None:
            self.kept = compared
            fitting = self.workload.fitting(self.cells, compared)
        if fitting is None:
            domain = self.workload.query.domain
            binned = [name for name in self.workload.names if domain[name].size > WIDE]
            if binned:
                self._refuse_columns()
            self.refuse_wide(binned)
            kept = ", ".join(name for name in sorted(self.kept) if domain[name].size > WIDE)
            raise InvalidWorkload(
                f"The {len(self.workload.parts):,} marginals of this workload have more than {MOST_VALUES:,} cells "
                f"together, as {kept or 'columns'} must keep all values: constraints, the start or counts look at them."
                " Ask for fewer columns together, or leave these out."
            )
        in_runs = {runs.attribute for runs in fitting.runs}
        left_out = {id(seen) for seen in joint if seen.block.attributes & in_runs}
        known = tuple(seen for seen in self.start.known if id(seen) not in left_out)
        self.workload, self.start = fitting, replace(self.start, known=known)
        self.refuse_wide()

    def limit_bins(self) -> dict[str, int]:
        """Return how many bins a wide column may have, so that a model can tie all columns together in pairs.

        There are only those that could have too many. Nothing but public facts is looked at.

        Theorem: synthesis
        """
        held = dict(zip(self.workload.names, self.workload.support.shape, strict=True))
        room = Room(self.cells, held, tree=self.cells // _BINNED)
        limits = limit_groups(self.workload.query.domain, self.workload.parts, room, kept=self.kept)
        return {runs.attribute: len(runs.cuts) for runs in self.workload.runs} if limits is None else limits

    def refuse_wide(self, binned: Collection[str] = ()) -> None:
        """Refuse a workload with a block that no belief here can hold, with the largest that fits.

        Some columns may be in bins, of which there are 16 at least.
        """
        lengths = dict(zip(self.workload.names, self.workload.support.shape, strict=True))
        few = {*binned, *(runs.attribute for runs in self.workload.runs)} - self.kept
        fewest = {name: min(length, LEAST_GROUPS) if name in few else length for name, length in lengths.items()}
        sizes = {block: math.prod([fewest[name] for name in block.attributes]) for block in self.workload.query.blocks}
        wide = [block for block, size in sizes.items() if size > self.cells]
        if not wide:
            self._refuse_columns()
            return
        worst = max(wide, key=lambda block: sizes[block])
        fitting = [block for block in sizes if sizes[block] <= self.cells]
        if fitting:
            largest = describe_block(max(fitting, key=sizes.__getitem__))
            most = f"The largest of this workload that fits is {largest}"
        else:
            together = _largest_together({name: fewest[name] for name in sorted(worst.attributes)}, self.cells)
            most = f"Of these columns {' × '.join(together) or 'none'} fit together"
        compared = [name for name in sorted(worst.attributes & self.kept) if name in binned]
        why = "as constraints, the start or a count look at them"
        all_values = f" Of {', '.join(compared)} all values are kept, {why}." if compared else ""
        columns = " × ".join(name for name in self.workload.names if name in worst.attributes)
        even = [name for name in sorted(worst.attributes & few) if lengths[name] > LEAST_GROUPS]
        bins = f" even with {' and '.join(even)} in {LEAST_GROUPS} bins" if even else ""
        what = columns if self.workload.marginal(worst) else describe_block(worst)
        raise InvalidWorkload(
            f"{what} looks at {format_cells(sizes[worst])} cells{bins}, and a model here holds no "
            f"more than {self.cells} cells. {most}.{all_values} Ask for fewer columns together, or coarser ones."
        )

    def _refuse_columns(self) -> None:
        """Refuse columns that have too many cells one by one: each is measured, whatever else is."""
        support, domain = self.workload.support, self.workload.query.domain
        single = {name: domain[name].cells for name in self.workload.names}
        held, asked = sum(support.shape), sum(single.values())
        if asked > MOST_VALUES or (held > self.cells and not self.workload.uniform(cells=self.cells).whole):
            widest = max(single, key=lambda name: single[name])
            raise InvalidWorkload(
                f"The columns of this workload have {format_cells(max(held, asked))} cells one by one, and a model "
                f"here holds no more than {min(self.cells, MOST_VALUES)}. Ask for fewer columns, perhaps without "
                f"{widest}, which has {single[widest]}."
            )

    def measure(
        self, step: str, blocks: Sequence[Block], part: float, *, shares: Sequence[float] | None = None
    ) -> tuple[ObservedBlock, ...]:
        """Measure blocks for a share of the budget and return the results; nothing if the answer was lost.

        All have the same noise; or each has what its share of the price buys.
        """
        noises = (self.currency.noise(part, self.sensitivity(blocks)),) * len(blocks)
        if shares is not None:
            paired = zip(blocks, shares, strict=True)
            noises = tuple(self.currency.noise(part * share, self.sensitivity([block])) for block, share in paired)
        measurement = Measurement(self.asked(blocks), noises)
        text = f"release {self.digest[:12]}, {step}: {_list_blocks(measurement.query)}"[:5000]
        deliver = partial(release_measurement, text=text)
        release, query = self._buy(step, measurement, deliver, lambda query: f"measure {_list_blocks(query)}")
        if release is None:
            return ()
        noises, start, observations = noises_from_text(release.mechanism), 0, []
        for block, noise in zip(query.blocks, noises, strict=True):
            counts = [int(value) for value in release.values[start : start + block.values]]
            start += block.values
            observations.append(ObservedBlock.of(block, counts, noise, size=self.size))
        for observation in observations:
            known = self.observed.get(observation.block)
            self.observed[observation.block] = observation if known is None else known.joined(observation)
        return tuple(observations)

    def measure_residuals(
        self, step: str, measurement: ResidualMeasurement
    ) -> tuple[ResidualMeasurement, tuple[int, ...]] | None:
        """Return residuals and their noisy Helmert rows; None if the answer was lost."""
        about = f"measure all marginals, by {len(measurement.parts)} residuals"
        text = f"release {self.digest[:12]}, {step}"
        release, query = self._buy(step, measurement, partial(release_measurement, text=text), lambda _: about)
        if release is None:
            return None
        recorded = residuals_from_text(release.mechanism, query)
        return recorded or measurement, tuple(int(value) for value in release.values)

    def choose(self, step: str, selection: ScoredCandidates) -> tuple[int, ...]:
        """Return the indices of the chosen candidates; none if they were lost."""
        return self._choose(step, selection)[0]

    def choose_blocks(self, step: str, selection: ScoredCandidates) -> tuple[Block, ...]:
        """Return the chosen blocks, where each is a candidate; none if they were lost."""
        chosen, query = self._choose(step, selection)
        return tuple(query.blocks[place] for place in chosen)

    def _choose(self, step: str, selection: ScoredCandidates) -> tuple[tuple[int, ...], Query]:
        text = f"release {self.digest[:12]}, {step}: choose"
        deliver = partial(release_choice, text=text)
        release, query = self._buy(step, selection, deliver, lambda _: "choose what to measure")
        return () if release is None else tuple(int(value) for value in release.values), query

    def charge(self, step: str) -> Event | None:
        """Return the event that an earlier attempt charged for a step; None if there was none."""
        receipt = self.dataset.ledger.receipt(self._key(step), analyst=self.desk.analyst)
        return None if receipt is None else receipt.event

    def _key(self, step: str) -> str:
        return f"release {self.digest} {step}"

    def _buy(
        self,
        step: str,
        asked: Measurement | ResidualMeasurement | ScoredCandidates,
        deliver: Callable[..., Release],
        describe: Callable[[Query], str],
    ) -> tuple[Release | None, Query]:
        """Return the recorded result of a step, or pay for it, and the query that it answers.

        That may be another than is asked now, if another version of Dodona began the run: it was paid for, and is as
        true of the table. There is no result if it was lost after the charge.
        """
        event, how, release = self._bought(step, asked, deliver)
        query = asked.query
        if release is not None and release.question not in {None, to_json(query)}:
            query = from_json(release.question or "", query.domain)
        price = self.currency.cost(event)
        self.spent += price
        about = describe(query)
        self.steps.append(RunStep(step, about, "" if release is None else release.mechanism, price, how))
        self.progress(min(1.0, self.spent / self.total), about)
        return release, query

    def _bought(
        self, step: str, asked: Measurement | ResidualMeasurement | ScoredCandidates, deliver: Callable[..., Release]
    ) -> tuple[Event, str, Release | None]:
        """Return what was charged, how the step was settled, and its result."""
        key = self._key(step)
        try:
            recalled = self.desk.recall(key, wait=False)  # a step that broke off in this process goes on
        except AnswerInterrupted:
            return self._lost_charge(step), "lost", None
        if recalled is not None:
            receipt, release = recalled
            return receipt.event, "recalled", release
        # The whole run was agreed to.
        event, delivery = asked.event(self.unit), partial(deliver, asked)
        purchase = Purchase(event=event, purpose=asked.purpose, deliver=delivery, max_price=WHOLE_BUDGET)
        try:
            bought = self.desk.buy(purchase, key=key)
        except KeyReused:  # an earlier attempt paid for something else here, and got no answer
            return self._lost_charge(step), "lost", None
        return bought.receipt.event, "paid", bought.item

    def _lost_charge(self, step: str) -> Event:
        """Return what was charged for a step whose answer was lost."""
        event = self.charge(step)
        if event is None:
            raise KeyReused(self._key(step))
        return event


def total_rows(seen: Sequence[ObservedBlock]) -> tuple[float, float]:
    """Return the number of rows that tables of all rows say, as a share of the declared ones, and its variance."""
    variances = np.array([observation.variance * observation.values.size for observation in seen])
    totals = np.array([observation.values.sum() for observation in seen])
    variance = float(1 / (1 / variances).sum())
    return float((totals / variances).sum()) * variance, variance


def rescaled(seen: ObservedBlock, factor: float) -> ObservedBlock:
    """Return what was observed as shares of another number of rows."""
    peak = None if seen.peak is None else seen.peak * factor**2
    return replace(seen, values=seen.values * factor, variance=seen.variance * factor**2, peak=peak)


def _list_blocks(query: Query) -> str:
    return ", ".join(map(describe_block, query.blocks))


def describe_block(block: Block) -> str:
    """Describe a block: the columns of a marginal, perhaps in bins, or those that a count uses."""
    names = marginal_columns(block)
    if names is None and block.where == EVERYTHING and all(isinstance(key, Partition) for key in block.keys):
        return " × ".join(key.attribute for key in block.keys if isinstance(key, Partition)) + " in bins"
    return " × ".join(names) if names is not None else f"count by {', '.join(sorted(block.attributes))}"


def _largest_together(lengths: Mapping[str, int], most: int) -> list[str]:
    """Return columns with no more cells than this together: the smallest one is left out that makes the rest fit.

    >>> _largest_together({"age": 90, "night": 2, "ward": 10, "days": 30}, 6_000), _largest_together({"age": 90}, 50)
    (['age', 'night', 'days'], [])
    """
    left = dict(lengths)
    while (cells := math.prod(left.values())) > most:
        enough = [name for name, length in left.items() if cells <= most * length]
        left.pop(min(enough, key=left.__getitem__) if enough else max(left, key=left.__getitem__))
    return list(left)


def run_digest(*declared: object, query: Query) -> str:
    """Return the digest of everything that a run declares."""
    return hashlib.sha256(repr((*map(str, declared), to_json(query))).encode()).hexdigest()
