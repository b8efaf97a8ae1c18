"""Opening weights on a dataset: the whole run is charged before the first question."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.accounting.event import Event
from dodona.accounting.order import zcdp_limit
from dodona.answer.price import Price
from dodona.belief.counts import law_of_count
from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.domain.schema import Schema
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.exact import Exact
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.mechanisms.scale import epsilon_of, rounded_scale_up
from dodona.online.chance import paid, prepaid
from dodona.online.count import counted
from dodona.online.dataset import Dataset
from dodona.online.desk import Desk, fitting_epsilon
from dodona.online.planning import epsilon_alone
from dodona.online.weights.baselines import gaussian_guarantee, laplace_guarantee
from dodona.online.weights.best import best
from dodona.online.weights.design import Design
from dodona.online.weights.distribution import Distribution
from dodona.online.weights.faults import Hopeless, UniverseTooLarge
from dodona.online.weights.private import PrivateMultiplicativeWeights, Told
from dodona.query.people import effect_of
from dodona.query.query import Query, block_weights, product_axes, product_shape
from dodona.query.question import Question
from dodona.trusted.alerts import CHECKING, checks

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_CELLS = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What weights over some columns would cost and promise; nothing is charged."""

    columns: tuple[str, ...]
    spare: int
    """One, where rows may be missing to the declared size, for the cell that holds them."""
    design: Design
    event: Event
    price: Price
    independent: float
    """What noise on each question by itself would promise at the same price; infinite where it cannot be drawn."""
    table: float
    """What one table of the counts of all cells would promise for sums of them, about."""

    @property
    def advice(self) -> str:
        """Which of the three promises most."""
        ways = {
            f"One table of all cells promises about {self.table:.3g}: ask count(*) GROUP BY {', '.join(self.columns)}, "
            "and counts over these columns follow from it for nothing": self.table,
            f"Noise on each question promises {self.independent:.3g}: ask them all with ask_many": self.independent,
        }
        weights = f"Weights promise all counts within {self.design.within:.3g} of the rows."
        better = {said: within for said, within in ways.items() if within < self.design.within}
        return (
            f"{weights} {min(better, key=better.__getitem__)}." if better else f"{weights} Nothing else promises more."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Ask as many counts as you like over the columns; it was paid for. It ends with this process."""

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
        return f"Weights over {', '.join(self.columns)} ({self.price}). {self.design}{about}"

    @property
    def design(self) -> Design:
        """All numbers, and what is promised of them."""
        return self.mechanism.design

    @property
    def left(self) -> int:
        """How many updates it may still make."""
        return self.mechanism.left

    def ask(self, question: object) -> Told:
        """Return one count, from the hypothesis or measured anew; no further charge."""
        query = counted(self.read(question))
        with prepaid():
            return self.mechanism.ask(query)


def plan_weights(
    dataset: Dataset, *, questions: int, epsilon: Exact, columns: Iterable[str] | None = None, confidence: float = 0.95
) -> Planned:
    """Return what weights would cost and promise, from public facts alone.

    Where the number of rows is not public the declared size must be no smaller, or less is promised than told: rows
    that are missing to it are believed to be in a cell that no question counts. The price does not depend on it.
    """
    schema, ledger = dataset.schema, dataset.ledger
    names = schema.domain.names if columns is None else tuple(columns)
    if not names or len(set(names)) != len(names):
        raise InvalidArgument("columns", names, "write one column or more, each once")
    universe = math.prod(cells(schema.domain[name]) for name in names)
    if universe > MOST_CELLS:
        raise UniverseTooLarge(universe, MOST_CELLS)
    spare = 0 if schema.unit.fixed else 1
    delta = ledger.state().total.delta
    design = best(
        schema.unit.size,
        universe=universe + spare,
        questions=questions,
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        together=schema.unit.rows,
    )
    independent, table = _independent(design, epsilon, delta), _table(design, schema, names, epsilon, delta)
    if design.empty:
        raise Hopeless(design.within, independent=independent, table=table)
    event = design.event(schema.unit)
    return Planned(
        columns=names,
        spare=spare,
        design=design,
        event=event,
        price=Price(ledger.share(event), epsilon_alone(event, delta)),
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
    schema, ledger, source = desk.dataset.schema, desk.dataset.ledger, desk.dataset.source
    named = None if columns is None else tuple(columns)

    def planned(price: Exact) -> Planned:
        return plan_weights(desk.dataset, questions=questions, epsilon=price, columns=named, confidence=confidence)

    plan = planned(epsilon)
    receipt = desk.charge(
        plan.event,
        purpose=CHECKING,
        most=most,
        best=lambda fits: fitting_epsilon(lambda price: planned(price).price.share, epsilon_of(epsilon), fits),
    )
    try:
        with paid():
            check = checks(plan.design.checker, receipt, ledger=ledger, source=source, unit=schema.unit)
    finally:
        ledger.let_go(receipt)
    mechanism = PrivateMultiplicativeWeights(
        plan.design,
        check,
        weigh=lambda query: cell_weights(query, schema.domain, plan.columns),
        hypothesis=Distribution.uniform(product_shape(schema.domain, plan.columns), spare=plan.spare),
    )
    return Weights(
        columns=plan.columns,
        price=plan.price,
        advice=plan.advice,
        mechanism=mechanism,
        read=read,
        about=desk.dataset.about,
    )


def _independent(design: Design, epsilon: Exact, delta: Fraction) -> float:
    """Return what independent noise promises for the same questions."""
    asked, sure = design.questions, design.confidence
    try:
        if delta == 0:
            return laplace_guarantee(design.rows, questions=asked, epsilon=epsilon, confidence=sure)
        return gaussian_guarantee(design.rows, questions=asked, epsilon=epsilon, delta=delta, confidence=sure)
    except InvalidArgument:
        return math.inf


def _table(design: Design, schema: Schema, columns: tuple[str, ...], epsilon: Exact, delta: Fraction) -> float:
    """Return about what a table of all cells promises for as many sums of its counts, as a share of the rows."""
    price = epsilon_of(epsilon)
    noise: Laplace | Gaussian
    try:
        query = Query.marginal(schema.domain, columns)
        moved = effect_of(query, schema.unit)
        if delta == 0:
            noise = Laplace(scale=rounded_scale_up(float(moved.l1 / price)))
        else:
            noise = Gaussian(scale=rounded_scale_up(math.sqrt(moved.l2_squared / (2 * zcdp_limit(price, delta)))))
    except InvalidArgument:  # more cells than are told at once, or more noise than is drawn
        return math.inf
    each = 1 - (1 - design.confidence) / design.questions
    return law_of_count(query.values, query.values, noise, None).accuracy(each).within / design.rows


def cell_weights(query: Query, domain: Domain, columns: tuple[str, ...]) -> NDArray[np.float64]:
    """Return which cells of the columns a count counts, in a shape that broadcasts to their product."""
    if query.values != 1 or len(query.blocks) != 1:
        raise InvalidRequest(f"Weights answer one count at a time; this question has {query.values} answers.")
    block = query.blocks[0]
    further = sorted(block.attributes.difference(columns))
    if further:
        raise InvalidRequest(f"These weights are over {', '.join(columns)}, not {', '.join(further)}. Open others.")
    found = block_weights(block, product_axes(domain, columns))
    if block.keys or found.min() < 0 or found.max() > 1:
        raise InvalidRequest("Weights answer counts of rows. Ask the curator for sums and groups.")
    return found.astype(np.float64)
