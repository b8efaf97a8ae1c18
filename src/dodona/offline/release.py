"""`release`: from a workload and a part of the budget to a public model. Charge, then touch, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, assert_never

from dodona.accounting.event import UnevenGaussianEvent
from dodona.accounting.filter import Accountant
from dodona.accounting.order import zcdp_limit
from dodona.errors import InvalidRequest
from dodona.exact import Exact, decimal_below, exact, percent, share_of
from dodona.ledger.contract import Ledger
from dodona.ledger.faults import BudgetExhausted
from dodona.mechanisms.scale import epsilon_of
from dodona.offline.annealed import annealed
from dodona.offline.blr import blr
from dodona.offline.blr import planned as blr_planned
from dodona.offline.currency import Currency, Pure, Rho, RhoByLaplace
from dodona.offline.faults import ReleaseStopped, ReleaseTooDear, WorkloadUnfit
from dodona.offline.fitting import Fitted
from dodona.offline.method import Annealed, Blr, Guaranteed, Method, Mwem, named
from dodona.offline.model import Law, Model
from dodona.offline.mwem import Promise, guaranteed, mwem
from dodona.offline.mwem import planned as mwem_planned
from dodona.offline.run import Run, Told, run_digest
from dodona.offline.till import Till
from dodona.offline.workload import USUAL_CELLS, Workload
from dodona.online.curator import Curator
from dodona.online.dataset import Dataset
from dodona.online.desk import ALL, Best
from dodona.online.request import agreed

if TYPE_CHECKING:
    from dodona.domain.unit import Unit

_CLOSE = Fraction(1, 1000)
"""The whole budget's own ε is taken for all of it: two ways to convert it differ by less than this."""
_ROUNDING = Fraction(1, 10**9)
"""What every run leaves over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A release before its first charge: what it takes, and what is promised where something is."""

    method: str
    share: Fraction
    """Which part of the whole budget it may take."""
    price: float
    unit: str
    left: Fraction
    promise: Promise | None
    run: str
    """The digest of all that is declared; charges stand under it."""

    def __str__(self) -> str:
        fits = "" if self.share * (1 - _ROUNDING) <= self.left else ": it would be refused"
        told = f"Method {self.method}: takes {percent(self.share)} of the budget ({self.unit} {self.price:.4g}). "
        told += f"{percent(self.left)} of the budget is left{fits}."
        if self.promise is None:
            return told
        within, sure = self.promise.within, self.promise.confidence
        return f"{told} Promised: all answers within {within:.4g} of all rows, at {sure:.0%}."


def release(  # noqa: PLR0913  the surface
    curator: Curator,
    workload: Workload,
    *,
    epsilon: Exact | None = None,
    share: Exact | None = None,
    method: Method | None = None,
    cells: int = USUAL_CELLS,
    name: str = "",
    max_price: Exact | None = None,
    told: Told = lambda _part, _about: None,
) -> Model:
    """Return a public model of the table that answers the workload, charged step by step.

    The price is an ε at the budget's own δ, or a share of the whole budget. As an ε it is refused where it takes more
    than `max_price`, or than the dataset lets one call take; a share says itself what is taken.

    The same release under the same name is never charged twice: after an interruption it goes on where it was, and
    afterwards it is told again.
    """
    run, way = _run(curator, workload, epsilon, share, method or Annealed(), cells, name, told)
    default = run.till.desk.dataset.default
    _affordable(run, ALL if max_price is None and share is not None else agreed(max_price, default))
    ledger = run.till.dataset.ledger
    try:
        law, fitted, part, promise = _made(run, way)
    except BudgetExhausted:
        if not run.steps:
            raise
        left = float(ledger.left(analyst=run.till.analyst))
        raise ReleaseStopped(steps=len(run.steps), left=left) from None
    return Model(
        schema=run.till.dataset.schema,
        workload=workload,
        law=law,
        part=part,
        seen=() if fitted is None else fitted.seen,
        steps=tuple(run.steps),
        method=named(way),
        share=_share(run, run.spent),
        unit=run.currency.unit,
        promise=promise,
        run=run.till.run,
        head=ledger.head,
        version=run.till.dataset.source.version,
    )


def _made(run: Run, method: Method) -> tuple[Law, Fitted | None, float, Promise | None]:
    """Return the law that a method leads to, what it was fitted to, its part of the rows, and what is promised."""
    match method:
        case Annealed():
            fitted = annealed(run, method)
            return fitted.belief, fitted, 1.0, None
        case Mwem():
            fitted, mean = mwem(run, method)
            return fitted.belief if mean is None else mean, fitted, 1.0, None
        case Guaranteed():
            mixture, part, promise = guaranteed(run, method)
            return mixture, None, part, promise
        case Blr():
            database, promise = blr(run, method)
            return database, None, 1.0, promise
        case _:
            assert_never(method)


def declare(  # noqa: PLR0913  the surface
    curator: Curator,
    workload: Workload,
    *,
    epsilon: Exact | None = None,
    share: Exact | None = None,
    method: Method | None = None,
    cells: int = USUAL_CELLS,
    name: str = "",
) -> Declared:
    """Return what a release would take; nothing is charged. It refuses what `release` would refuse."""
    run, way = _run(curator, workload, epsilon, share, method or Annealed(), cells, name, lambda _part, _about: None)
    promise: Promise | None = None
    match way:
        case Annealed() | Mwem():
            pass
        case Guaranteed():
            promise = mwem_planned(run, way)[1]
        case Blr():
            promise = blr_planned(run, way)[1]
        case _:
            assert_never(way)
    return Declared(
        method=named(way),
        share=_share(run, run.total),
        price=run.total,
        unit=run.currency.unit,
        left=run.till.dataset.ledger.left(analyst=run.till.analyst),
        promise=promise,
        run=run.till.run,
    )


def _run(  # noqa: PLR0913, PLR0917  all that is declared
    curator: Curator,
    workload: Workload,
    epsilon: Exact | None,
    share: Exact | None,
    method: Method,
    cells: int,
    name: str,
    told: Told,
) -> tuple[Run, Method]:
    desk = curator.desk  # a release spends what the curator's questions spend
    dataset, analyst = desk.dataset, desk.analyst
    if workload.query.domain != dataset.schema.domain:
        raise WorkloadUnfit("This workload is over another table. Build it from this dataset's schema.")
    currency = _currency(dataset, method)
    total = _total(dataset, analyst, epsilon, share, currency)
    size = workload.support.size
    if isinstance(method, Guaranteed) and size > cells:
        raise WorkloadUnfit(f"method 'guaranteed' keeps all of {size:.4g} cells; {cells} are held. Use 'annealed'.")
    version, unit = dataset.source.version, dataset.schema.unit
    declared = (dataset.name, version, unit, method, currency.unit, total.hex(), cells, name, workload.values_only)
    run = run_digest(*declared, query=workload.query)
    found = Run(workload, Till(desk, run), currency, total, cells, told)
    if isinstance(method, Annealed | Mwem):
        found.refuse_wide()
    return found, method


def _currency(dataset: Dataset, method: Method) -> Currency:
    if dataset.ledger.state().total.accountant is Accountant.PURE:
        return Pure()
    laplace = isinstance(method, Annealed | Mwem) and method.law == "laplace"
    return RhoByLaplace() if laplace else Rho()


def _total(
    dataset: Dataset, analyst: str | None, epsilon: Exact | None, share: Exact | None, currency: Currency
) -> float:
    """Return what all steps may cost, in the currency."""
    if (epsilon is None) == (share is None):
        raise InvalidRequest("Write one of epsilon=, a price, and share=, a part of the whole budget.")
    ledger = dataset.ledger
    whole = _whole(ledger, dataset.schema.unit, currency)
    if epsilon is not None:
        price = epsilon_of(epsilon)
        asked = price if currency.unit == "ε" else Fraction(zcdp_limit(price, ledger.state().total.delta))
        part = asked / whole
    else:
        part = share_of(share if share is not None else 1, argument="share")
        part = exact(part, argument="share", lower=Fraction(1, 10**9), upper=Fraction(1))
    # What was promised before any charge is what is declared: a run that is taken up again has spent a part of it.
    return float(min(part, Fraction(1)) * whole) if part <= 1 + _CLOSE else _refused(part, ledger.left(analyst=analyst))


def _refused(asked: Fraction, left: Fraction) -> float:
    raise ReleaseTooDear(asked=asked, left=left)


def _whole(ledger: Ledger, unit: Unit, currency: Currency) -> Fraction:
    """Return the whole budget in the currency."""
    if currency.unit == "ε":
        total = ledger.state().total
        return total.epsilon - total.plans[0]
    return 1 / ledger.share(UnevenGaussianEvent(Fraction(2), unit.neighbours))  # an event of ρ = 1


def _share(run: Run, price: float) -> Fraction:
    whole = _whole(run.till.dataset.ledger, run.unit, run.currency)
    return Fraction(price) / whole


def _share_that_fits(most: Fraction) -> Best:
    share = decimal_below(most)
    return Best(f"a share of {share}", f'share="{share}"', Fraction(share))


def _affordable(run: Run, most: Fraction) -> None:
    """Refuse a run that takes more than it may; one that was begun goes on, and each step is decided by itself."""
    if any(run.till.charge(step) is not None for step in ("singles", "database", "1 choose")):
        return
    left = run.till.dataset.ledger.left(analyst=run.till.analyst)
    asked = _share(run, run.total)
    if asked * (1 - _ROUNDING) > left:
        raise ReleaseTooDear(asked=asked, left=left)
    run.till.desk.agree(asked * (1 - _ROUNDING), most=most, best=_share_that_fits)
