"""The desk: every charge passes here, with the most that one call may cost.

A call above its maximum price is refused before the ledger is asked. An error after a charge says that the charge
stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from dodona.curator.planner import standalone_epsilon
from dodona.curator.request import Dataset
from dodona.errors import DodonaError, InvalidRequest, Refused
from dodona.ledger.entries import Receipt
from dodona.ledger.errors import BudgetExhausted
from dodona.ledger.holds import Reservation
from dodona.numbers import format_percent, format_percent_rounded_up
from dodona.privacy.accountants import Accountant
from dodona.privacy.budget import Budget, Price
from dodona.privacy.events import Event

# --- Errors after a charge: whoever raises them does not know that it was paid for. ---


@contextmanager
def mark_errors_charged() -> Iterator[None]:
    """Say of every error that the charge stands."""
    try:
        yield
    except DodonaError as fault:
        if fault.charged:
            raise
        fault.__traceback__ = None  # it stays the context, and its frames may hold exact values
        raise fault.after_charge() from None


@contextmanager
def mark_errors_prepaid() -> Iterator[None]:
    """Say the same of a question that was paid for when something was opened; a refusal of it takes nothing."""
    refusal: DodonaError | None = None
    with mark_errors_charged():
        try:
            yield
        except (InvalidRequest, Refused) as fault:
            refusal = fault
    if refusal is not None:
        raise refusal


# --- The desk: what one call may take of the budget, and the charge itself. Nothing is spent by surprise. ---


WHOLE_BUDGET = Fraction(1)
"""Of the budget: no bound but what is left."""
_STEPS = 30


@dataclass(frozen=True, slots=True)
class AffordableRequest:
    """What would fit, as people write it, and its price."""

    words: str
    argument: str
    share: Fraction

    def __str__(self) -> str:
        return f"{self.argument} would cost {format_percent(self.share)}"


class PriceAboveMaximum(Refused):
    """One call would take more of the budget than it may."""

    code = "price-above-maximum"

    def __init__(
        self, *, price: Fraction, most: Fraction, best: AffordableRequest | None = None, why: str = ""
    ) -> None:
        """Say the price, why it is so, the most that one call may take, what would fit, and how to allow it."""
        self.price, self.most = price, most
        told = f"This would take {format_percent(price)} of the budget."
        super().__init__(" ".join(filter(None, (told, why, explain_price_refusal(price, most, best)))))


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
        best: Callable[[Fraction], AffordableRequest | None] = lambda _: None,
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
        best: Callable[[Fraction], AffordableRequest | None] = lambda _: None,
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
        best: Callable[[Fraction], AffordableRequest | None],
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
        return explain_price_above_epsilon(Price(ledger.share(event), standalone_epsilon(event, budget.delta)), budget)


def explain_price_above_epsilon(price: Price, budget: Budget) -> str:
    """Return why a question takes more of the budget than its ε alone suggests; nothing where it does not."""
    suggested = Fraction(price.epsilon) / (budget.epsilon - budget.plans[0])
    if budget.accountant is Accountant.PURE or price.share <= suggested:
        return ""
    counted = "by its zCDP price" if budget.accountant is Accountant.ZCDP else "at one Rényi order"
    advice = "Ask smaller questions"
    if budget.accountant is not Accountant.EITHER:
        advice += ', or let the owner create the ledger with accountant "either" or "pure"'
    return (
        f"Its epsilon alone, {price.epsilon:.3g}, would be {format_percent(suggested)} of the budget; but this budget "
        f"counts every question {counted}, which suits many small ones and makes one large one cost more. {advice}."
    )


def explain_price_refusal(price: Fraction, most: Fraction, best: AffordableRequest | None) -> str:
    """Return why a price is refused, what would fit instead, and how to allow it, in words."""
    instead = "" if best is None else f"{best}. "
    return (
        f"One call may take {format_percent(most)} here (max_price), so it is refused. {instead}"
        f'To allow it, write max_price="{format_percent_rounded_up(price)}".'
    )


def affordable_epsilon(
    share: Callable[[Fraction], Fraction], epsilon: Fraction, most: Fraction
) -> AffordableRequest | None:
    """Return nearly the largest ε below one that is too dear, at which a call takes no more than it may."""
    low, high = Fraction(0), epsilon
    for _ in range(_STEPS):
        middle = _round_to_three_digits((low + high) / 2)
        if not low < middle < high:
            break
        try:
            fits = share(middle) <= most
        except (Refused, InvalidRequest):  # so small that nothing is drawn or promised at it
            fits = False
        low, high = (middle, high) if fits else (low, middle)
        if low > 0 and high - low <= low / 50:
            break
    return None if low == 0 else AffordableRequest(f"epsilon {float(low):g}", f'epsilon="{float(low):g}"', share(low))


def _round_to_three_digits(number: Fraction) -> Fraction:
    """Return a number of three digits."""
    return Fraction(f"{float(number):.3g}")
