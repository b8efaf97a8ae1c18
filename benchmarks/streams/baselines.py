"""The simple ways to answer a stream, run with noise that is drawn, so that their errors are seen too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.streams import prices
from benchmarks.streams.certified import Cost, cost_of
from benchmarks.streams.run import Run, Trail, judged
from benchmarks.streams.stream import Products, Stream
from dodona.lab import direct
from dodona.lab.residuals import ExactResiduals
from dodona.lab.weights import study_weights
from dodona.privacy.additive_noise import Gaussian, Laplace, Noise
from dodona.schema.schema import Neighbours, Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.privacy.measurement import ResidualVariance
    from dodona.query.residual import Residual

MOST_CELLS_RUN = 1 << 16
"""Multiplicative weights are run up to here; beyond, only their price is told."""
_POINTS = 40
Baseline = Callable[[], Run]


@dataclass(frozen=True)
class Baselines:
    """All simple ways for one stream and one kind of budget; what they cost is found once."""

    stream: Stream
    budget: str

    def named(self) -> Iterator[tuple[str, Baseline]]:
        """Yield each way by its name: calling it runs it once."""
        yield "laplace+cache", lambda: self._single(Laplace)
        if self.budget != "pure":
            yield "gaussian+cache", lambda: self._single(Gaussian)
        yield "histogram-laplace", lambda: self._histogram(Laplace)
        if self.budget != "pure":
            yield "histogram-gaussian", lambda: self._histogram(Gaussian)
            if isinstance(self.stream.questions, Products):
                yield "residuals", self._residuals
            else:  # sets of any cells need all residuals alike, and that is the whole histogram
                yield "residuals", lambda: self._histogram(Gaussian)
        yield "pmw", self._weights

    @property
    def _asked_of(self) -> dict[str, float]:
        return {"within": self.stream.within, "failing": self.stream.failing}

    def _single(self, law: prices.Law) -> Run:
        noise, trail = self._singles[law]
        count, turns = len(self.stream.questions), len(self.stream.asked)
        errors = _drawn(noise, count)
        cost = cost_of({noise.event(prices.COUNT): count}, budget=self.budget)
        rungs = {"measured": count, "replayed": turns - count}
        return Run(cost=cost, rungs=rungs, trail=trail, **judged(self.stream, errors))

    @cached_property
    def _singles(self) -> dict[prices.Law, tuple[Noise, Trail]]:
        """The noise of one question, and what questions cost until each of some turns."""
        by_law: dict[prices.Law, tuple[Noise, Trail]] = {}
        fresh = self.stream.fresh()
        for law in (Laplace, Gaussian):
            noise = prices.single(law, **self._asked_of)
            event = noise.event(prices.COUNT)
            by_law[law] = (
                noise,
                [
                    (turn, cost_of({event: int(fresh[turn - 1])}, budget=self.budget).certified)
                    for turn in turns(len(self.stream.asked))
                ],
            )
        return by_law

    def _histogram(self, law: prices.Law) -> Run:
        noise, cost = self._histograms[law]
        cells = self.stream.cells
        drawn = _drawn(noise, cells.size).reshape(cells.shape)
        # What the noisy cells add up to beyond the public number of rows is taken off, from each cell alike.
        errors = self.stream.questions.totals(drawn - drawn.sum() / cells.size)
        return self._at_once(cost, errors)

    @cached_property
    def _histograms(self) -> dict[prices.Law, tuple[Noise, Cost]]:
        by_law: dict[prices.Law, tuple[Noise, Cost]] = {}
        for law in (Laplace, Gaussian):
            noise = prices.histogram(law, cells=self.stream.cells.size, **self._asked_of)
            by_law[law] = noise, cost_of([noise.event(prices.HISTOGRAM)], budget=self.budget)
        return by_law

    def _residuals(self) -> Run:
        parts, cost = self._residual_parts
        questions = self.stream.questions
        if not isinstance(questions, Products):
            raise TypeError(self.stream.name)
        classes = prices.classes(self.stream)
        known = noise_of(parts)
        errors = np.zeros(len(questions))
        for scope, numbers in questions.scopes.items():
            marginal = known.marginal([classes[place] for place in scope])
            if marginal is None:
                raise KeyError(scope)
            errors[numbers] = questions.summed(marginal[0], scope, numbers)
        return self._at_once(cost, errors)

    @cached_property
    def _residual_parts(self) -> tuple[tuple[ResidualVariance, ...], Cost]:
        parts = prices.residuals(self.stream)
        return parts, cost_of([prices.residual_event(parts)], budget=self.budget)

    def _weights(self) -> Run:
        """Run multiplicative weights at the price that their own theorem asks for the error."""
        stream, cells = self.stream, self.stream.cells.reshape(-1)
        design = prices.weights(
            rows=stream.rows,
            universe=cells.size,
            questions=len(stream.asked),
            share=stream.share,
            failing=stream.failing,
            budget=self.budget,
        )
        if design is None:
            endless = Cost(math.inf, math.inf, math.inf)
            return Run(cost=endless, max_error=None, beyond=None, coverage=None, rungs={})
        cost = cost_of([design.event(Unit.each_row(Neighbours.REPLACE))], budget=self.budget)
        trail = _flat(cost, len(stream.asked))
        if cells.size > MOST_CELLS_RUN:
            return Run(cost=cost, max_error=None, beyond=None, coverage=None, rungs={}, trail=trail)
        mechanism = study_weights(design, cells, draw=lambda law: direct.run(law, 0))
        answers = np.array([mechanism.ask(stream.questions.mask(number)).value for number in stream.asked.tolist()])
        errors = np.abs(answers * stream.rows - stream.truths()[stream.asked])
        worst = np.zeros(len(stream.questions))
        np.maximum.at(worst, stream.asked, errors)
        rungs = {"measured": mechanism.updates, "model": len(stream.asked) - mechanism.updates}
        return Run(cost=cost, rungs=rungs, trail=trail, **judged(stream, worst))

    def _at_once(self, cost: Cost, errors: NDArray[np.float64]) -> Run:
        turns_all = len(self.stream.asked)
        return Run(cost=cost, rungs={"derived": turns_all}, trail=_flat(cost, turns_all), **judged(self.stream, errors))


def turns(number: int, *, points: int = _POINTS) -> list[int]:
    """Return turns from the first to the last, evenly far apart in proportion; powers of ten are among them."""
    tens = (10**power for power in range(1, len(str(number))))
    return sorted({*tens, *(round(turn) for turn in np.geomspace(1, number, points).tolist())})


def noise_of(parts: tuple[ResidualVariance, ...]) -> ExactResiduals:
    """Return the noise of residuals: normal numbers, which integers of such widths cannot be told from here."""
    generator = np.random.default_rng()
    rows: dict[Residual, NDArray[np.float64]] = {}
    for residual, variance in parts:
        squares = [np.array([j * (j + 1.0) for j in range(1, classing.number)]) for classing in residual.classes]
        lengths = reduce(np.multiply.outer, squares, np.array(float(variance)))
        rows[residual] = generator.standard_normal(residual.shape) * np.sqrt(lengths)
    public = ExactResiduals.counting(0)
    return ExactResiduals({**public.rows, **rows}, {**public.variances, **dict(parts)})


def _drawn(noise: Noise, count: int) -> NDArray[np.float64]:
    return direct.run(noise, np.zeros(count, dtype=np.int64)).astype(np.float64)


def _flat(cost: Cost, last: int) -> Trail:
    return [(1, cost.certified), (last, cost.certified)]
