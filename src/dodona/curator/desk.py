"""The desk: the only place that spends.

Everything that costs something is a `Purchase`. The desk refuses it above the maximum price of its call, reserves it
in the ledger, has the gate deliver it, and releases other callers who wait for the same purchase. It also recalls
earlier purchases by key. An error after a charge says that the charge stands.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from dodona.curator.request import Dataset
from dodona.errors import DodonaError, InvalidRequest, Refused
from dodona.ledger.entries import Receipt, Release
from dodona.ledger.errors import Alternative, BudgetExhausted, KeyReused, PriceAboveLimit, ReceiptReused
from dodona.ledger.ledger import PriceList
from dodona.ledger.limits import Allowance
from dodona.ledger.store import Overlaps, Reservation, nothing_overlaps
from dodona.numbers import format_percent, format_percent_rounded_up
from dodona.privacy.accountants import Accountant
from dodona.privacy.budget import FREE, Budget, Price
from dodona.privacy.events import Event

WHOLE_BUDGET = Fraction(1)
"""A share of the budget: no limit but what is left."""
_STEPS = 30
_ItemT = TypeVar("_ItemT")


@contextmanager
def mark_errors_charged() -> Iterator[None]:
    """Make every error state that the charge stands."""
    try:
        yield
    except DodonaError as fault:
        if fault.charged:
            raise
        fault.__traceback__ = None  # it remains the context, and its frames may hold exact values
        raise fault.after_charge() from None


@contextmanager
def mark_errors_prepaid() -> Iterator[None]:
    """Do the same for a question that was paid for in advance; its refusal costs nothing."""
    refusal: DodonaError | None = None
    with mark_errors_charged():
        try:
            yield
        except (InvalidRequest, Refused) as fault:
            refusal = fault
    if refusal is not None:
        raise refusal


@dataclass(frozen=True, slots=True)
class AffordableRequest:
    """A request that would fit, as a user would write it, and its price."""

    words: str
    argument: str
    share: Fraction

    def __str__(self) -> str:
        return f"{self.argument} would cost {format_percent(self.share)}"

    def to_alternative(self) -> Alternative:
        """Return the argument and its value, and what it would cost, as a program wants them."""
        name, _, value = self.argument.partition("=")
        return {name: value.strip('"'), "price": format_percent(self.share)}


def alternatives(best: AffordableRequest | None, *, allow: Fraction | None = None) -> tuple[Alternative, ...]:
    """Return what a call that costs too much could write instead: less, or a higher maximum price, if that helps."""
    less = () if best is None else (best.to_alternative(),)
    return less if allow is None else (*less, {"max_price": format_percent_rounded_up(allow)})


def propose(refused: BudgetExhausted, best: AffordableRequest | None) -> BudgetExhausted:
    """Return a refusal that also says what would fit."""
    return BudgetExhausted(
        asked=refused.asked,
        left=refused.left,
        of=refused.of,
        best=None if best is None else best.words,
        why=refused.why,
        alternatives=alternatives(best),
    )


class PriceAboveMaximum(Refused):
    """A call would take more of the budget than its maximum price."""

    code = "price-above-maximum"

    def __init__(
        self, *, price: Fraction, most: Fraction, best: AffordableRequest | None = None, why: str = ""
    ) -> None:
        """State the price, its reason, the maximum price of a call, what would fit, and how to allow it."""
        self.price, self.most = price, most
        self.alternatives = alternatives(best, allow=price)
        stated = f"This would take {format_percent(price)} of the budget."
        super().__init__(" ".join(filter(None, (stated, why, explain_price_refusal(price, most, best)))))


def _nothing_affordable(_: Fraction) -> AffordableRequest | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purchase(Generic[_ItemT]):
    """Something to buy: an answer, a batch, a bundle, a choice, a watch, weights, or a step of a release."""

    event: Event
    purpose: str
    """What the receipt is for; the gate holds it to that."""
    deliver: Callable[..., _ItemT]
    """An entry of the gate: takes the receipt, and the ledger, the source and the unit by name."""
    max_price: Fraction
    """The largest share of the budget that this call may take."""
    affordable: Callable[[Fraction], AffordableRequest | None] = _nothing_affordable
    """Returns what would fit a share of the budget, for the words of a refusal."""
    overlaps: Overlaps = nothing_overlaps
    """Returns whether a charge of others for a purpose may answer this too: then it is waited for."""


@dataclass(frozen=True, slots=True)
class Bought(Generic[_ItemT]):
    """A delivered item, its receipt, and the price this caller paid."""

    item: _ItemT
    receipt: Receipt
    price: Price


@dataclass(frozen=True, slots=True)
class Desk:
    """Spends the budget of one dataset for one analyst."""

    dataset: Dataset
    analyst: str | None

    def allowed(self, max_price: Fraction, key: str | None = None) -> Fraction:
        """Return the budget share a call may take: the least of its maximum price, the owner's limits and the rest."""
        return self.prices(key).allowed(max_price)

    def prices(self, key: str | None = None) -> PriceList:
        """Return what may still be spent and what events take, all as of this moment."""
        return self.dataset.ledger.prices(analyst=self.analyst, key=key)

    def buy(self, purchase: Purchase[_ItemT], *, key: str | None = None) -> Bought[_ItemT]:
        """Charge, make the charge durable, then deliver. An earlier charge under the same key is not repeated."""
        price, known = self._approve(purchase, key)
        with self._explain_refusal(price):
            receipt = self.dataset.ledger.reserve(
                purchase.event,
                analyst=self.analyst,
                key=key,
                purpose=purchase.purpose,
                version=self.dataset.source.version,
            )
        return self._deliver(purchase, Reservation(receipt, taken_over=known), price)

    def buy_once(
        self, purchase: Purchase[_ItemT], *, seen: int | None, key: str | None = None
    ) -> Bought[_ItemT] | None:
        """Buy as `buy` does, unless others are asking the same; None if they were answered meanwhile: look again.

        `seen` is the number of releases read before; None if a new measurement is wanted whatever others ask. A
        purchase taken over from a caller who died was charged to that caller.
        """
        price, _ = self._approve(purchase, key)
        with self._explain_refusal(price):
            reserved = self.dataset.ledger.reserve_once(
                purchase.event,
                analyst=self.analyst,
                key=key,
                purpose=purchase.purpose,
                version=self.dataset.source.version,
                seen=seen,
                overlaps=purchase.overlaps,
            )
        try:
            return None if reserved is None else self._deliver(purchase, reserved, price)
        except ReceiptReused:
            return None  # the hold was lost with a connection, and another caller has taken over the receipt

    def recall(self, key: str, *, wait: bool = True) -> tuple[Receipt, Release] | None:
        """Return what was bought under a key before; None where nothing was, or where it is not delivered yet.

        Waits for another caller who may be asking under the same key right now, unless `wait` is off.
        """
        ledger = self.dataset.ledger
        ledger.permit(self.analyst)
        receipt = ledger.receipt(key, analyst=self.analyst)
        if receipt is None:
            return None
        if wait:
            ledger.wait_for(receipt)
        release = ledger.fetch(key, analyst=self.analyst)
        if release is None:
            return None
        if (receipt.version, receipt.dataset) != (self.dataset.source.version, self.dataset.name):
            raise KeyReused(key)
        return receipt, release

    def require_affordable(
        self,
        price: Price | Fraction,
        max_price: Fraction,
        affordable: Callable[[Fraction], AffordableRequest | None],
        key: str | None = None,
    ) -> None:
        """Refuse a price, or a share of the budget, above the maximum price of its call or the owner's limits.

        Theorem: release
        """
        limit = self.dataset.ledger.allowance(analyst=self.analyst, key=key)
        self._require_within(price, max_price, limit, affordable)

    def _require_within(
        self,
        price: Price | Fraction,
        max_price: Fraction,
        limit: Allowance | None,
        affordable: Callable[[Fraction], AffordableRequest | None],
    ) -> None:
        share = price if isinstance(price, Fraction) else price.share
        limited = limit is not None and share > limit.share
        if share <= max_price and not limited:
            return
        why = "" if isinstance(price, Fraction) else self._why(price)
        left = self.dataset.ledger.left(analyst=self.analyst)
        if share > left:  # raising max_price would not help
            self.dataset.ledger.hold_spending(self.analyst)  # who may not spend at all is told that
            of = "the dataset" if self.analyst is None else self.analyst
            best = affordable(min(left, max_price))
            raise BudgetExhausted(
                asked=share,
                left=left,
                of=of,
                best=None if best is None else best.words,
                why=why,
                alternatives=alternatives(best),
            )
        if limit is not None and limited:
            best = affordable(min(limit.share, max_price))
            raise PriceAboveLimit(
                price=share,
                most=limit.share,
                reason=limit.reason,
                best=None if best is None else str(best),
                approvals=self.dataset.ledger.limits.approvals,
                alternatives=alternatives(best),
            )
        raise PriceAboveMaximum(price=share, most=max_price, best=affordable(max_price), why=why)

    def _approve(self, purchase: Purchase[_ItemT], key: str | None) -> tuple[Price, bool]:
        """Refuse a purchase above its maximum price; return the price, and whether the key was already charged."""
        quote = self.dataset.ledger.quote(purchase.event, analyst=self.analyst, key=key)
        known = key is not None and self.dataset.ledger.receipt(key, analyst=self.analyst) is not None
        if not known:
            self._require_within(quote.price, purchase.max_price, quote.allowance, purchase.affordable)
        return quote.price, known

    def _deliver(self, purchase: Purchase[_ItemT], reserved: Reservation, price: Price) -> Bought[_ItemT]:
        ledger, source, unit = self.dataset.ledger, self.dataset.source, self.dataset.schema.unit
        with mark_errors_charged():
            try:
                item = purchase.deliver(reserved.receipt, ledger=ledger, source=source, unit=unit)
                return Bought(item, reserved.receipt, FREE if reserved.taken_over else price)
            finally:
                ledger.let_go(reserved.receipt)

    @contextmanager
    def _explain_refusal(self, price: Price) -> Iterator[None]:
        """Extend the ledger's refusal with the reason why the event takes so much."""
        try:
            yield
        except BudgetExhausted as refused:
            raise BudgetExhausted(
                asked=refused.asked,
                left=refused.left,
                of=refused.of,
                best=refused.best,
                why=self._why(price),
                alternatives=refused.alternatives,
            ) from None

    def _why(self, price: Price) -> str:
        return explain_price_above_epsilon(price, self.dataset.ledger.budget)


_COUNTED = {Accountant.ZCDP: "by its zCDP price", Accountant.GAUSSIAN: "by its Gaussian price"}


def explain_price_above_epsilon(price: Price, budget: Budget) -> str:
    """Return why a question takes more of the budget than its ε alone suggests; empty if it does not."""
    suggested = Fraction(price.epsilon) / budget.epsilon
    if budget.accountant is Accountant.PURE or price.share <= suggested:
        return ""
    counted = _COUNTED.get(budget.accountant, "at one Rényi order")
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
    """Return nearly the largest ε, below one that is too expensive, at which a call stays within its maximum price."""
    low, high = Fraction(0), epsilon
    for _ in range(_STEPS):
        middle = _round_to_three_digits((low + high) / 2)
        if not low < middle < high:
            break
        try:
            fits = share(middle) <= most
        except (Refused, InvalidRequest):  # so small that no noise can be drawn or no accuracy stated
            fits = False
        low, high = (middle, high) if fits else (low, middle)
        if low > 0 and high - low <= low / 50:
            break
    return None if low == 0 else AffordableRequest(f"epsilon {float(low):g}", f'epsilon="{float(low):g}"', share(low))


def _round_to_three_digits(number: Fraction) -> Fraction:
    """Return a number rounded to three digits."""
    return Fraction(f"{float(number):.3g}")
