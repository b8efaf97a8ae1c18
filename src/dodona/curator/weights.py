"""Private multiplicative weights: many counts over a few columns for one charge.

Questions are answered from a public hypothesis, which is updated where a noisy check shows it far off. The whole run is
charged when it is opened, and ends with the process. Counts that are asked all at once are recorded with their answers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import numpy as np

from dodona.answer.results import WeightsAnswer, WeightsAnswers
from dodona.curator import weights_design
from dodona.curator.desk import Bought, Desk, Purchase, affordable_epsilon, mark_errors_charged, mark_errors_prepaid
from dodona.curator.request import Dataset
from dodona.curator.watch import single_count_query
from dodona.errors import Halted, InvalidArgument, InvalidRequest
from dodona.knowledge.tables import count_law
from dodona.ledger.entries import Release
from dodona.ledger.errors import KeyReused
from dodona.numbers import Exact
from dodona.privacy.additive_noise import Laplace, Noise, normal_noise, round_scale_up, validate_noise_epsilon
from dodona.privacy.budget import FREE, Budget, Price
from dodona.privacy.events import Event
from dodona.query.canonical import query_digest
from dodona.query.query import Query, block_weights, product_axes, product_shape
from dodona.query.question import Question
from dodona.query.sensitivity import unit_sensitivity
from dodona.schema.schema import ROW_OF, Domain, Schema
from dodona.trusted.gate import CHECKING, open_estimate_check

if TYPE_CHECKING:
    from numpy.typing import NDArray


# --- The hypothesis: a distribution over the cells of the columns. ---


_LEAST = 1e-300  # no cell reaches 0: below this a double would underflow, and the potential would be infinite
_LARGEST_RATE = 100.0


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Shares of all cells, and of `spare` cells that no question counts; they sum to 1."""

    values: NDArray[np.float64]
    spare: float = 0.0

    @classmethod
    def uniform(cls, shape: int | tuple[int, ...], *, spare: int = 0) -> Self:
        """Return equal shares for every cell, and for `spare` further cells that no question counts."""
        cells = math.prod((shape,) if isinstance(shape, int) else shape)
        if cells < 1:
            raise InvalidArgument("universe", shape, "write at least one cell")
        return cls(np.full(shape, 1 / (cells + spare)), spare / (cells + spare))

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> Self:
        """Return the shares of a histogram."""
        return cls(counts / counts.sum())

    def expect(self, query: NDArray[np.float64]) -> float:
        """Return the share of rows that a query counts."""
        if query.shape == self.values.shape:
            return float(np.vdot(query, self.values))
        return float((query * self.values).sum())

    def tilted(self, query: NDArray[np.float64], rate: float) -> Self:
        """Return x ∝ x·exp(rate·query): the cells of the query are raised, or lowered if the rate is negative."""
        if not abs(rate) <= _LARGEST_RATE:
            raise InvalidArgument("rate", rate, f"write a number from -{_LARGEST_RATE:.0f} to {_LARGEST_RATE:.0f}")
        raised = self.values * np.exp(rate * query)
        total = float(raised.sum()) + self.spare
        np.maximum(np.divide(raised, total, out=raised), _LEAST, out=raised)
        return type(self)(raised, self.spare / total)

    def divergence(self, other: Self) -> float:
        """Return RE(self‖other) = Σ p·ln(p/q), which is 0 only if both are equal."""
        held = self.values > 0
        total = float(np.sum(self.values[held] * np.log(self.values[held] / other.values[held])))
        return total + (self.spare * math.log(self.spare / other.spare) if self.spare else 0.0)


# --- The mechanism: answers come from the hypothesis, which is updated where a check shows it far off. ---


QueryT = TypeVar("QueryT")
CheckEstimate = Callable[[QueryT, int], int | None]
"""Returns None where the estimate, in rows, stands, and else a fresh noisy count. It raises Halted at the end."""


class PrivateMultiplicativeWeights(Generic[QueryT]):
    """Answers any number of queries, and accesses the data only through a checker of estimates.

    The hypothesis is a function of released answers, so it may be inspected and sampled from. An update moves towards
    the newly released answer: no other direction is known.

    Theorem: private-multiplicative-weights
    """

    def __init__(
        self,
        design: weights_design.WeightsDesign,
        check: CheckEstimate[QueryT],
        *,
        weigh: Callable[[QueryT], NDArray[np.float64]],
        hypothesis: Distribution,
    ) -> None:
        """Take a checker that was paid for, and a function that returns a query's weight in each cell."""
        self.design = design
        self.hypothesis = hypothesis
        self.updates = 0
        self._check, self._weigh = check, weigh
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """The number of remaining updates."""
        return self.design.updates - self.updates

    def ask(self, query: QueryT) -> WeightsAnswer:
        """Return an answer within the design's error; raise UpdatesUsed if one more update would be needed."""
        weights = self._weigh(query)
        design = self.design
        with self._lock:
            estimate = self.hypothesis.expect(weights)
            try:
                fresh = self._check(query, round(design.rows * estimate))
            except Halted:
                raise weights_design.UpdatesUsed(design.updates) from None
            if fresh is None:
                return WeightsAnswer(estimate, "confirmed", design.within, design.confidence, design.rows)
            share = fresh / design.rows
            self.hypothesis = self.hypothesis.tilted(weights, design.step if share > estimate else -design.step)
            self.updates += 1
        return WeightsAnswer(share, "measured", design.within, design.confidence, design.rows)


# --- Weights on a dataset: the whole run is charged before the first question. ---


MOST_CELLS = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsOffer:
    """The price and guarantee of weights over some columns; nothing is charged."""

    columns: tuple[str, ...]
    spare: int
    """One, where rows may be missing to the declared size, for the cell that holds them."""
    design: weights_design.WeightsDesign
    event: Event
    price: Price
    independent: float
    """What noise on each question by itself would promise at the same price; infinite where it cannot be drawn."""
    table: float
    """What one table of the counts of all cells would promise for sums of them, about."""

    @property
    def advice(self) -> str:
        """Which of the three mechanisms has the best guarantee."""
        ways = {
            f"One table of all cells promises about {self.table:.3g}: ask count(*) GROUP BY "
            f"{_list_columns(self.columns)}, and counts over these columns follow from it for nothing": self.table,
            f"Noise on each question promises {self.independent:.3g}: ask them all with ask_many": self.independent,
        }
        weights = f"Weights promise all counts within {self.design.within:.3g} of the rows."
        better = {said: within for said, within in ways.items() if within < self.design.within}
        return (
            f"{weights} {min(better, key=better.__getitem__)}." if better else f"{weights} Nothing else promises more."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Answers any number of counts over the columns, already paid for. It ends with this process."""

    columns: tuple[str, ...]
    price: Price
    advice: str
    """What it promises, and what would have promised more at its price."""
    mechanism: PrivateMultiplicativeWeights[Query]
    read: Callable[[object], Question]
    about: str = ""
    """What it is about, where people are protected: how many rows of each count. Else nothing."""

    def __str__(self) -> str:
        about = f" {self.about}" if self.about else ""
        return f"Weights over {_list_columns(self.columns)} ({self.price}). {self.design}{about}"

    @property
    def design(self) -> weights_design.WeightsDesign:
        """All parameters, and the guarantee that they give."""
        return self.mechanism.design

    @property
    def left(self) -> int:
        """The number of remaining updates."""
        return self.mechanism.left

    def ask(self, question: object) -> WeightsAnswer:
        """Return one count, from the hypothesis or newly measured; no further charge."""
        query = single_count_query(self.read(question))
        with mark_errors_prepaid():
            return self.mechanism.ask(query)


def _with_row_of(domain: Domain, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns, and the one that says of which table a row is: of several tables each count is about one."""
    return (*names, ROW_OF) if ROW_OF in domain and ROW_OF not in names else names


def _list_columns(names: tuple[str, ...]) -> str:
    return ", ".join(name for name in names if name != ROW_OF)


def plan_weights(
    dataset: Dataset, *, questions: int, epsilon: Exact, columns: Iterable[str] | None = None, confidence: float = 0.95
) -> WeightsOffer:
    """Return the price and guarantee of weights, from public facts alone.

    If the number of rows is not public, the declared size must not be smaller, or the stated guarantee is too strong:
    rows short of it are assumed to be in a cell that no question counts. The price does not depend on it.
    """
    schema, ledger = dataset.schema, dataset.ledger
    names = schema.domain.names if columns is None else tuple(columns)
    if not names or len(set(names)) != len(names):
        raise InvalidArgument("columns", names, "write one column or more, each once")
    names = _with_row_of(schema.domain, names)
    universe = math.prod(schema.domain[name].cells for name in names)
    if universe > MOST_CELLS:
        raise weights_design.UniverseTooLarge(universe, MOST_CELLS)
    spare = 0 if schema.unit.fixed else 1
    budget = ledger.budget
    delta = budget.delta
    design = weights_design.best_design(
        schema.unit.size,
        universe=universe + spare,
        questions=questions,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        together=schema.unit.rows,
        law=normal_noise(budget),
    )
    independent, table = (
        _independent_noise_error(design, epsilon, budget),
        _cell_table_error(design, schema, names, epsilon, budget),
    )
    if design.empty:
        raise weights_design.NoUsefulGuarantee(design.within, independent=independent, table=table)
    event = design.event(schema.unit)
    return WeightsOffer(
        columns=names,
        spare=spare,
        design=design,
        event=event,
        price=Price(ledger.share(event), (event,), delta),
        independent=independent,
        table=table,
    )


def open_weights(  # noqa: PLR0913  weights have this many sides
    desk: Desk,
    read: Callable[[object], Question],
    *,
    questions: int,
    epsilon: Exact,
    columns: Iterable[str] | None = None,
    confidence: float = 0.95,
    most: Fraction = Fraction(1),
) -> Weights:
    """Return private multiplicative weights over some columns of a dataset, charged here in full."""
    plan = plan_weights(desk.dataset, questions=questions, epsilon=epsilon, columns=columns, confidence=confidence)
    return _open_weights(desk, read, plan, epsilon, most, None)[0]


def _open_weights(  # noqa: PLR0913, PLR0917  the same
    desk: Desk,
    read: Callable[[object], Question],
    plan: WeightsOffer,
    epsilon: Exact,
    most: Fraction,
    key: str | None,
) -> tuple[Weights, Bought[Callable[[Query, int], int | None]]]:
    schema = desk.dataset.schema

    def share(price: Exact) -> Fraction:
        design = plan.design
        return plan_weights(
            desk.dataset,
            questions=design.questions,
            epsilon=price,
            columns=plan.columns,
            confidence=design.confidence,
        ).price.share

    purchase = Purchase(
        event=plan.event,
        purpose=CHECKING,
        deliver=partial(open_estimate_check, plan.design.checker),
        max_price=most,
        affordable=lambda fits: affordable_epsilon(share, validate_noise_epsilon(epsilon), fits),
    )
    bought = desk.buy(purchase, key=key)
    mechanism = PrivateMultiplicativeWeights(
        plan.design,
        bought.item,
        weigh=lambda query: cell_weights(query, schema.domain, plan.columns),
        hypothesis=Distribution.uniform(product_shape(schema.domain, plan.columns), spare=plan.spare),
    )
    opened = Weights(
        columns=plan.columns,
        price=plan.price,
        advice=plan.advice,
        mechanism=mechanism,
        read=read,
        about=desk.dataset.about,
    )
    return opened, bought


def answer_by_weights(  # noqa: PLR0913  weights have this many sides
    desk: Desk,
    read: Callable[[object], Question],
    questions: Sequence[object],
    *,
    epsilon: Exact,
    columns: Iterable[str] | None = None,
    confidence: float = 0.95,
    most: Fraction = Fraction(1),
    key: str | None = None,
) -> WeightsAnswers:
    """Return the answers to all of these counts by weights, charged once and recorded under the key.

    Under the same key the recorded answers are returned. If the process died before they were recorded, they are lost
    and the charge stands: AnswerInterrupted says so.
    """
    asked = [single_count_query(read(question)) for question in questions]
    if not asked:
        raise InvalidRequest("There is no question. Write a list of counts.")
    used = frozenset[str]().union(*(block.attributes for query in asked for block in query.blocks))
    named = tuple(sorted(used)) if columns is None else _with_row_of(desk.dataset.schema.domain, tuple(columns))
    for query in asked:
        cell_weights(query, desk.dataset.schema.domain, named)  # a mistake is reported before anything is charged
    plan = plan_weights(desk.dataset, questions=len(asked), epsilon=epsilon, columns=named, confidence=confidence)
    text = "\n".join([f"weights over {', '.join(named)}", *map(query_digest, asked)])
    mechanism = f"weights {sha256(text.encode()).hexdigest()}"
    recalled = None if key is None else desk.recall(key)
    if recalled is not None:
        receipt, release = recalled
        if key is not None and (receipt.event != plan.event or release.mechanism.partition(" of ")[0] != mechanism):
            raise KeyReused(key)
        return _weights_answers(plan, release, len(asked), FREE, desk.dataset.about)
    opened, bought = _open_weights(desk, read, plan, epsilon, most, key)
    answers: list[WeightsAnswer] = []
    with mark_errors_charged(), suppress(weights_design.UpdatesUsed):
        answers.extend(map(opened.mechanism.ask, asked))
    sources = "".join(answer.source[0] for answer in answers)
    release = Release(
        receipt=bought.receipt.id,
        values=tuple(Fraction(answer.value) for answer in answers),
        mechanism=f"{mechanism} of {sources}",
        text=f"{len(asked)} counts by weights over {', '.join(named)}",
    )
    with mark_errors_charged():
        desk.dataset.ledger.record(release)
        return _weights_answers(plan, release, len(asked), bought.price, desk.dataset.about)


def _weights_answers(plan: WeightsOffer, release: Release, asked: int, price: Price, about: str) -> WeightsAnswers:
    """Return recorded answers."""
    design, sources = plan.design, release.mechanism.rpartition(" of ")[2]
    answers = [
        WeightsAnswer(
            float(value), "confirmed" if source == "c" else "measured", design.within, design.confidence, design.rows
        )
        for value, source in zip(release.values, sources, strict=True)
    ]
    return WeightsAnswers(
        answers=(*answers, *[None] * (asked - len(answers))),
        columns=plan.columns,
        within=design.within * design.rows,
        confidence=design.confidence,
        price=price,
        receipt=release.receipt,
        advice=plan.advice,
        rows=design.rows,
        about=about,
    )


def _independent_noise_error(design: weights_design.WeightsDesign, epsilon: Exact, budget: Budget) -> float:
    """Return the error guarantee of independent noise for the same questions."""
    asked, sure = design.questions, design.confidence
    try:
        if budget.delta == 0:
            return weights_design.laplace_guarantee(design.rows, questions=asked, epsilon=epsilon, confidence=sure)
        return weights_design.gaussian_guarantee(
            design.rows,
            questions=asked,
            epsilon=epsilon,
            delta=budget.delta,
            confidence=sure,
            law=normal_noise(budget),
        )
    except InvalidArgument:
        return math.inf


def _cell_table_error(
    design: weights_design.WeightsDesign, schema: Schema, columns: tuple[str, ...], epsilon: Exact, budget: Budget
) -> float:
    """Return the approximate guarantee of a table of all cells for as many sums, as a share of the rows."""
    price = validate_noise_epsilon(epsilon)
    noise: Noise
    try:
        query = Query.marginal(schema.domain, columns)
        moved = unit_sensitivity(query, schema.unit)
        if budget.delta == 0:
            noise = Laplace(scale=round_scale_up(float(moved.l1 / price)))
        else:
            noise = weights_design.gaussian_noise(
                questions=moved.l2_squared, epsilon=price, delta=budget.delta, law=normal_noise(budget)
            )
    except InvalidArgument:  # more cells than one release can hold, or more noise than can be drawn
        return math.inf
    each = 1 - (1 - design.confidence) / design.questions
    return count_law(query.values, query.values, noise, None).accuracy(each).within / design.rows


def cell_weights(query: Query, domain: Domain, columns: tuple[str, ...]) -> NDArray[np.float64]:
    """Return which cells of the columns a count includes, in a shape that broadcasts to their product."""
    if query.values != 1 or len(query.blocks) != 1:
        raise InvalidRequest(f"Weights answer one count at a time; this question has {query.values} answers.")
    block = query.blocks[0]
    further = sorted(block.attributes.difference(columns))
    if further:
        raise InvalidRequest(f"These weights are over {_list_columns(columns)}, not {', '.join(further)}. Open others.")
    weights = block_weights(block, product_axes(domain, columns))
    if block.keys or weights.min() < 0 or weights.max() > 1:
        raise InvalidRequest("Weights answer counts of rows. Ask the curator for sums and groups.")
    return weights.astype(np.float64)
