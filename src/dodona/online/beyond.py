"""Beyond the budget: what could still be bought, and what the model guesses where the owner lets it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.claim import Guessed
from dodona.answer.derived import derived
from dodona.answer.tolerance import PerColumn, Tolerance
from dodona.belief.measurements import variance_of
from dodona.errors import Refused
from dodona.exact import percent
from dodona.online.after import After
from dodona.online.desk import Best
from dodona.online.finding import Held
from dodona.online.follower import Follower
from dodona.online.knowledge import counts_alike
from dodona.online.learned import Learned
from dodona.online.planning import shaped_columns
from dodona.online.possible import about, possible
from dodona.online.request import Request
from dodona.query.expression import KeyOf, Total
from dodona.query.query import Query
from dodona.query.question import Question
from dodona.query.weight import People, extremes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.online.model import Model

_TRIES = 24
_NEAR, _FULL, _ABOVE = 1.005, 0.97, 1.004
_HUNDRED = 100.0


@dataclass(frozen=True, slots=True)
class Beyond:
    """What is left for questions that the budget cannot buy."""

    follower: Follower

    def guesses(self, questions: Sequence[Question], failing: float) -> list[Held] | None:
        """Return the model's guesses, marked as such; None where it has none for one of them. Nothing is charged."""
        with self.follower.lock:
            found = [self._guess(question, failing) for question in questions]
        known = [held for held in found if held is not None]
        return known if len(known) == len(found) else None

    def _guess(self, question: Question, failing: float) -> Held | None:
        """Return the model's guess of counts and sums, with how far off it may be.

        That is how far off it has been with questions like this one, or what earlier answers leave possible.

        Theorem: public-bounds
        """
        expressions = [column.expression for column in question.columns]
        if not all(isinstance(own, Total | KeyOf) for own in expressions) or question.having or question.order:
            return None
        if any(not isinstance(column.expression, Total) for column, _ in shaped_columns(question)):
            return None
        if any(isinstance(block.weight, People) for block in question.query.blocks):
            return None
        model, rows = self.follower.follow(), self.follower.rows
        if model.predict(question.query, rows) is None:  # parts all classes that are needed, once
            model = self._narrow(question.query)
            if model.predict(question.query, rows) is None:
                return None
        values: list[NDArray[np.float64]] = []
        laws: list[Guessed | tuple[Guessed, ...]] = []
        for block in question.query.blocks:
            own = Query(question.query.domain, (block,))
            predicted = model.predict(own, rows)
            if predicted is None or (counts_alike(block) and self.follower.counted is None):
                return None  # how many rows there are is declared, not known, until it was released
            low, high = extremes(block.weight)
            weight = max(abs(low), abs(high), high - low)
            if counts_alike(block) and self.follower.counted is not None:
                values.append(predicted)
                laws.append(Guessed(math.sqrt(self.follower.counted.variance) * weight))
                continue
            deviation = self.follower.hindsight.deviation(self.follower.kind(own)) * weight
            known = possible(own, self.follower.memory.knowledge, failing)
            ends = [(-math.inf, math.inf)] * block.values if known is None else known
            value = np.array(
                [min(max(float(one), least), most) for one, (least, most) in zip(predicted, ends, strict=True)]
            )
            away = [max(most - one, one - least) for one, (least, most) in zip(value.tolist(), ends, strict=True)]
            values.append(value)
            laws.append(tuple(Guessed(deviation, one, failing, rows * weight / 2) for one in away))
        return Held(derived(question, values, laws), "model", None)

    def _narrow(self, query: Query) -> Model:
        """Return a model of the columns of a query alone: that of all columns may have too many cells."""
        from dodona.online.model import Model

        knowledge, rows = self.follower.memory.knowledge, self.follower.rows
        found = Model(knowledge.domain)
        for one in about(query, knowledge.learned):
            if isinstance(one, Learned) and one.single:
                if one.block.attributes:
                    found.take(one.block, one.values[0] / rows, math.sqrt(variance_of(one.noise)) / rows)
            else:
                found.take_table(one, knowledge.lattice, rows)
        return found


def best(price: Callable[[Request], Fraction], request: Request, most: Fraction, *, pure: bool) -> Best | None:
    """Return nearly the best accuracy, or for a price nearly the largest one, that takes no more than a share.

    None where nothing does. Prices fall with the tolerance or with its square, so a few steps of proportion come near;
    each may have to plan thousands of questions.
    """
    if most <= 0:
        return None
    found: Best | None = None
    fails, fits, factor = 1.0, math.inf, 1.0
    for _ in range(_TRIES):
        wish, share = _less(request, factor), None
        try:
            share = None if wish is None else price(wish)
            met = share is None or share <= most  # beyond all rows nothing is left to be told
        except Refused:  # no noise is that small
            met = False
        if met:
            fits = min(fits, factor)
            found = _written(wish, share) or found
        else:
            fails = max(fails, factor)
        if fits < fails * _NEAR or (found is not None and share is not None and most * _FULL <= share <= most):
            break
        guess = math.nan
        if share is not None and share > 0:
            guess = factor * float(share / most) ** (1.0 if pure else 0.5) * _ABOVE
        if not fails < guess < fits:
            guess = math.sqrt(fails * fits) if math.isfinite(fits) else 2 * fails
        factor = guess
    return found


def _less(request: Request, factor: float) -> Request | None:
    """Return a request for less; None beyond all rows."""
    if request.epsilon is not None:
        return replace(request, epsilon=Fraction(f"{float(request.epsilon) / factor:.2e}"))
    wider = None if request.within is None else _wider(request.within, factor)
    return None if wider is None else replace(request, within=wider)


def _written(wish: Request | None, share: Fraction | None) -> Best | None:
    if wish is None or share is None:
        return None
    if wish.epsilon is not None:
        return Best(f"epsilon {float(wish.epsilon):g}", f'epsilon="{float(wish.epsilon):g}"', share)
    if wish.within is None:
        return None
    spelled = _spelled(wish.within)
    plain = spelled if isinstance(wish.within, PerColumn) else spelled.replace(",", "")
    return Best(f"within {spelled}", f'within="{plain}"' if isinstance(wish.within, str) else f"within={plain}", share)


def explained(left: Fraction, questions: int, *, dear: bool, best: str | None, after: After) -> str:
    """Return what is left, and what becomes of questions that cost more."""
    several = "" if questions == 1 else f" for {questions} questions together"
    said = f"You have {percent(left)} of the budget left{several}"
    if not dear:
        return f"{said}."
    cheaper = "Ask for less accuracy." if best is None else f"The best that is left is {best}."
    if after == "model":
        return f"{said}: the model would guess it, without a guarantee. {cheaper}"
    return f"{said}: it would be refused. {cheaper}"


def _wider(within: Tolerance | PerColumn, factor: float) -> Tolerance | PerColumn | None:
    """Return a tolerance times a factor; None beyond all rows."""
    if isinstance(within, PerColumn):
        parts = [(key, _times(own, factor)) for key, own in within.parts]
        if all(own is None for _, own in parts):
            return None
        return PerColumn(tuple((key, "100%" if own is None else own) for key, own in parts))
    return _times(within, factor)


def _times(within: Tolerance, factor: float) -> Tolerance | None:
    if not isinstance(within, str):
        unit = 10.0 ** (math.floor(math.log10(within * factor)) - 2)  # three digits, rounded up
        return math.ceil(within * factor / unit) * unit
    part = float(within.strip().removesuffix("%")) * factor
    return None if part > _HUNDRED else f"{Decimal(f'{part:.4g}'):f}%"


def _spelled(within: Tolerance | PerColumn) -> str:
    if isinstance(within, PerColumn):
        return str(within.written)
    return within if isinstance(within, str) else f"{within:,.6g}"
