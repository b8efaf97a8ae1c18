"""The desk: what one call may take of the budget, and the charge itself. Nothing is spent by surprise.

Whatever spends comes here with its event and with the most that the call may cost. What costs more is refused before
the ledger is asked, so nothing is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from dodona.accounting.event import Event
from dodona.accounting.filter import Accountant
from dodona.answer.price import Price
from dodona.errors import InvalidRequest, Refused
from dodona.exact import percent, percent_above
from dodona.ledger.faults import BudgetExhausted
from dodona.ledger.flight import Reservation
from dodona.ledger.receipt import Receipt
from dodona.online.dataset import Dataset
from dodona.online.planning import epsilon_alone
from dodona.policy import Budget

ALL = Fraction(1)
"""Of the budget: no bound but what is left."""
_STEPS = 30


@dataclass(frozen=True, slots=True)
class Best:
    """What would fit, as people write it, and its price."""

    words: str
    argument: str
    share: Fraction

    def __str__(self) -> str:
        return f"{self.argument} would cost {percent(self.share)}"


class PriceAboveMaximum(Refused):
    """One call would take more of the budget than it may."""

    code = "price-above-maximum"

    def __init__(self, *, price: Fraction, most: Fraction, best: Best | None = None, why: str = "") -> None:
        """Say the price, why it is so, the most that one call may take, what would fit, and how to allow it."""
        self.price, self.most = price, most
        told = f"This would take {percent(price)} of the budget."
        super().__init__(" ".join(filter(None, (told, why, too_dear(price, most, best)))))


@dataclass(frozen=True, slots=True)
class Desk:
    """Charges the calls of one analyst."""

    dataset: Dataset
    analyst: str | None

    def charge(
        self,
        event: Event,
        *,
        purpose: str,
        most: Fraction,
        key: str | None = None,
        best: Callable[[Fraction], Best | None] = lambda _: None,
    ) -> Receipt:
        """Charge an event, unless it takes more than one call may; what was paid for under the key is not asked again.

        `best` returns what would fit a share of the budget.
        """
        ledger, version = self.dataset.ledger, self.dataset.source.version
        if key is None or ledger.receipt(key, analyst=self.analyst) is None:
            self.agree(ledger.share(event), most=most, best=best, why=partial(self._why, event))
        with self._explaining(event):
            return ledger.reserve(event, analyst=self.analyst, key=key, purpose=purpose, version=version)

    def charge_once(  # noqa: PLR0913  each is a word of the charge
        self,
        event: Event,
        *,
        purpose: str,
        most: Fraction,
        seen: int | None,
        key: str | None = None,
        best: Callable[[Fraction], Best | None] = lambda _: None,
    ) -> Reservation | None:
        """Charge an event as `charge` does, unless others are asking the same; None where they were answered.

        `seen` says how many releases were read before; None where a new measurement is wanted whatever others ask.
        """
        ledger, version = self.dataset.ledger, self.dataset.source.version
        if key is None or ledger.receipt(key, analyst=self.analyst) is None:
            self.agree(ledger.share(event), most=most, best=best, why=partial(self._why, event))
        with self._explaining(event):
            return ledger.reserve_once(
                event, analyst=self.analyst, key=key, purpose=purpose, version=version, seen=seen
            )

    def agree(
        self,
        price: Fraction,
        *,
        most: Fraction,
        best: Callable[[Fraction], Best | None],
        why: Callable[[], str] = lambda: "",
    ) -> None:
        """Refuse a price above the most that the call may take; `why` returns words about how it comes about.

        Theorem: release
        """
        if price <= most:
            return
        left = self.dataset.ledger.left(analyst=self.analyst)
        if price > left:  # no max_price would help
            of = "the dataset" if self.analyst is None else self.analyst
            found = best(min(left, most))
            words = None if found is None else found.words
            raise BudgetExhausted(asked=price, left=left, of=of, best=words, why=why())
        raise PriceAboveMaximum(price=price, most=most, best=best(most), why=why())

    @contextmanager
    def _explaining(self, event: Event) -> Iterator[None]:
        """Add to the ledger's refusal why the event takes so much."""
        try:
            yield
        except BudgetExhausted as refused:
            raise BudgetExhausted(
                asked=refused.asked, left=refused.left, of=refused.of, best=refused.best, why=self._why(event)
            ) from None

    def _why(self, event: Event) -> str:
        ledger = self.dataset.ledger
        budget = ledger.state().total
        return dear_for_its_epsilon(Price(ledger.share(event), epsilon_alone(event, budget.delta)), budget)


def dear_for_its_epsilon(price: Price, budget: Budget) -> str:
    """Return why a question takes more of the budget than its ε alone suggests; nothing where it does not."""
    suggested = Fraction(price.epsilon) / (budget.epsilon - budget.plans[0])
    if budget.accountant is Accountant.PURE or price.share <= suggested:
        return ""
    counted = "by its zCDP price" if budget.accountant is Accountant.ZCDP else "at one Rényi order"
    advice = "Ask smaller questions"
    if budget.accountant is not Accountant.EITHER:
        advice += ', or let the owner create the ledger with accountant "either" or "pure"'
    return (
        f"Its epsilon alone, {price.epsilon:.3g}, would be {percent(suggested)} of the budget; but this budget counts "
        f"every question {counted}, which suits many small ones and makes a single large one cost more. {advice}."
    )


def too_dear(price: Fraction, most: Fraction, best: Best | None) -> str:
    """Return why a price is refused, what would fit instead, and how to allow it, in words."""
    instead = "" if best is None else f"{best}. "
    return (
        f"One call may take {percent(most)} here (max_price), so it is refused. {instead}"
        f'To allow it, write max_price="{percent_above(price)}".'
    )


def fitting_epsilon(share: Callable[[Fraction], Fraction], epsilon: Fraction, most: Fraction) -> Best | None:
    """Return nearly the largest ε below one that is too dear, at which a call takes no more than it may."""
    low, high = Fraction(0), epsilon
    for _ in range(_STEPS):
        middle = _rounded((low + high) / 2)
        if not low < middle < high:
            break
        try:
            fits = share(middle) <= most
        except (Refused, InvalidRequest):  # so small that nothing is drawn or promised at it
            fits = False
        low, high = (middle, high) if fits else (low, middle)
        if low > 0 and high - low <= low / 50:
            break
    return None if low == 0 else Best(f"epsilon {float(low):g}", f'epsilon="{float(low):g}"', share(low))


def _rounded(number: Fraction) -> Fraction:
    """Return a number of three digits."""
    return Fraction(f"{float(number):.3g}")
