"""`synthesize`: from a workload and a share of the budget to a public model, charged step by step."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from dodona.curator.curator import Curator
from dodona.curator.desk import WHOLE_BUDGET, AffordableRequest
from dodona.curator.request import Dataset, effective_max_price
from dodona.errors import InvalidRequest
from dodona.knowledge.constraints import compile_constraints
from dodona.knowledge.fit import ObservedBlock
from dodona.knowledge.mixture import CellDistribution
from dodona.ledger.errors import BudgetExhausted
from dodona.ledger.ledger import Ledger
from dodona.numbers import Exact, format_decimal_rounded_down, format_percent, to_fraction, to_share
from dodona.privacy.accountants import Accountant
from dodona.privacy.additive_noise import validate_noise_epsilon
from dodona.privacy.conversion import zcdp_limit
from dodona.privacy.events import RoundedGaussianEvent, UnevenGaussianEvent
from dodona.privacy.gaussian_privacy import gaussian_limit
from dodona.query.query import MOST_VALUES
from dodona.schema.schema import Unit
from dodona.synth import methods
from dodona.synth.annealed import run_annealed
from dodona.synth.blr import plan_database_rows, run_blr
from dodona.synth.effort import Effort, estimate_effort
from dodona.synth.methods import Blr, ErrorGuarantee, Guaranteed, SynthesisMethod
from dodona.synth.model import SyntheticModel
from dodona.synth.naming import name_workload
from dodona.synth.run import Currency, ProgressCallback, SynthesisRun, run_digest
from dodona.synth.start import PublicMarginals, know_start
from dodona.synth.workload import DEFAULT_CELLS, InvalidWorkload, SynthesisStopped, SynthesisTooExpensive, Workload

_CLOSE = Fraction(1, 1000)
"""The whole budget's own ε counts as all of it: two conversions of it differ by less than this."""
_ROUNDING = Fraction(1, 10**9)
"""The margin that every run leaves unspent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisOffer:
    """A release before its first charge: its price, and its guarantee, if any."""

    method: str
    share: Fraction
    """The share of the whole budget that it may take."""
    price: float
    unit: str
    left: Fraction
    promise: ErrorGuarantee | None
    run: str
    """The digest of the declaration, under which charges are recorded."""
    effort: Effort
    """The time and the memory that it takes, with as many rows as the table has."""

    @property
    def affordable(self) -> bool:
        """Whether it fits what is left of the budget."""
        return self.share * (1 - _ROUNDING) <= self.left

    def __str__(self) -> str:
        fits = "" if self.affordable else ": it would be refused"
        price = f"{format_percent(self.share)} of the budget ({self.unit} {self.price:.4g})"
        left = f"{format_percent(self.left)} of the budget is left{fits}."
        text = f"Method {self.method}: takes {price}. {left} It needs {self.effort}."
        if self.promise is None:
            return text
        within, sure = self.promise.within, self.promise.confidence
        return f"{text} Promised: all answers within {within:.4g} of all rows, at {sure:.0%}."


def synthesize(  # noqa: PLR0913  the public interface
    curator: Curator,
    workload: Workload | str | None = None,
    *,
    target: str | None = None,
    columns: Iterable[str] | None = None,
    epsilon: Exact | None = None,
    share: Exact | None = None,
    method: SynthesisMethod | None = None,
    cells: int = DEFAULT_CELLS,
    name: str = "",
    start: SyntheticModel | PublicMarginals | None = None,
    max_price: Exact | None = None,
    progress: ProgressCallback = lambda _part, _about: None,
) -> SyntheticModel:
    """Return a public model of the table that answers the workload, charged step by step.

    The workload is a word, `"2-way"` or `"3-way"` for all marginals of so many `columns`, or a `Workload`; or give a
    `target`, for what predicts one column: all marginals of two columns, and the smaller ones of three, with it.

    The price is an ε at the budget's δ, or a share of the whole budget. An ε is refused if it takes more than
    `max_price`, or than the dataset allows for one call; a share already states what it takes.

    It may `start` from what is known: an earlier model of the same table, or public marginals, arrays of counts by
    columns. They cost nothing, and no price depends on them.

    The same release under the same name is never charged twice: after an interruption it resumes, and once complete it
    is replayed.
    """
    declared = name_workload(curator.desk.dataset.schema.domain, workload, target=target, columns=columns)
    way = method or methods.Annealed()
    run, way = _make_run(curator, declared, epsilon, share, way, cells, name, progress, start)
    _require_affordable(run, _most(run, share, max_price))
    ledger = run.dataset.ledger
    try:
        law, seen, part, promise = _run_method(run, way)
    except BudgetExhausted:
        if not run.steps:
            raise
        left = float(ledger.left(analyst=run.desk.analyst))
        raise SynthesisStopped(steps=len(run.steps), left=left) from None
    return SyntheticModel(
        schema=run.dataset.schema,
        workload=run.workload,
        law=law,
        part=part,
        seen=seen,
        steps=tuple(run.steps),
        method=methods.method_name(way),
        share=_share(run, run.spent),
        unit=run.currency.unit,
        promise=promise,
        run=run.digest,
        head=ledger.head,
        version=run.dataset.source.version,
    )


def _run_method(
    run: SynthesisRun, method: SynthesisMethod
) -> tuple[CellDistribution, tuple[ObservedBlock, ...], float, ErrorGuarantee | None]:
    """Return the law that a method produces, its measurements, its share of the rows, and its guarantee."""
    match method:
        case methods.Annealed():
            law, seen = run_annealed(run, rounds=method.rounds)
            return law, seen, run.part, None
        case methods.Mwem():
            last, mean = methods.run_mwem(run, method)
            return last if mean is None else mean, last.seen, 1.0, None
        case Guaranteed():
            mixture, part, promise = methods.run_guaranteed(run, method)
            return mixture, (), part, promise
        case Blr():
            database, promise = run_blr(run, method)
            return database, (), 1.0, promise
        case _:
            assert_never(method)


def require_affordable_synthesis(  # noqa: PLR0913  the public interface
    curator: Curator,
    workload: Workload | str | None = None,
    *,
    target: str | None = None,
    columns: Iterable[str] | None = None,
    epsilon: Exact | None = None,
    share: Exact | None = None,
    method: SynthesisMethod | None = None,
    cells: int = DEFAULT_CELLS,
    name: str = "",
    max_price: Exact | None = None,
) -> None:
    """Refuse what `synthesize` would refuse before its first charge; nothing is charged here."""
    declared = name_workload(curator.desk.dataset.schema.domain, workload, target=target, columns=columns)
    run, _ = _make_run(
        curator, declared, epsilon, share, method or methods.Annealed(), cells, name, lambda _part, _about: None
    )
    _require_affordable(run, _most(run, share, max_price))


def quote_synthesis(  # noqa: PLR0913  the public interface
    curator: Curator,
    workload: Workload | str | None = None,
    *,
    target: str | None = None,
    columns: Iterable[str] | None = None,
    epsilon: Exact | None = None,
    share: Exact | None = None,
    method: SynthesisMethod | None = None,
    cells: int = DEFAULT_CELLS,
    name: str = "",
    start: SyntheticModel | PublicMarginals | None = None,
) -> SynthesisOffer:
    """Return the price of a release without charging it. It refuses what `synthesize` would refuse."""
    declared = name_workload(curator.desk.dataset.schema.domain, workload, target=target, columns=columns)
    run, way = _make_run(
        curator, declared, epsilon, share, method or methods.Annealed(), cells, name, lambda _part, _about: None, start
    )
    promise: ErrorGuarantee | None = None
    if isinstance(way, Guaranteed):
        promise = methods.plan_rounds(run, way)[1]
    elif isinstance(way, Blr):
        promise = plan_database_rows(run, way)[1]
    return SynthesisOffer(
        method=methods.method_name(way),
        share=_share(run, run.total),
        price=run.total,
        unit=run.currency.unit,
        left=run.dataset.ledger.left(analyst=run.desk.analyst),
        promise=promise,
        run=run.digest,
        effort=estimate_effort(run.workload, way, cells=cells, rows=run.size),
    )


def _make_run(  # noqa: PLR0913, PLR0917  the whole declaration
    curator: Curator,
    workload: Workload,
    epsilon: Exact | None,
    share: Exact | None,
    method: SynthesisMethod,
    cells: int,
    name: str,
    progress: ProgressCallback,
    start: SyntheticModel | PublicMarginals | None = None,
) -> tuple[SynthesisRun, SynthesisMethod]:
    desk = curator.desk  # a release spends from the same budget as the curator's questions
    dataset, analyst = desk.dataset, desk.analyst
    if workload.query.domain != dataset.schema.domain:
        raise InvalidWorkload("This workload is over another table. Build it from this dataset's schema.")
    compile_constraints(dataset.schema)  # contradictory ones are refused before any charge
    currency = _currency(dataset, method)
    total = _total(dataset, analyst, epsilon, share, currency)
    size = workload.support.size
    if isinstance(method, Guaranteed) and size > cells:
        raise InvalidWorkload(f"method 'guaranteed' keeps all of {size:.4g} cells; {cells} are held. Use 'annealed'.")
    version, unit = dataset.source.version, dataset.schema.unit
    declared = (dataset.name, version, unit, method, currency.unit, total.hex(), cells, name, workload.values_only)
    fitted = isinstance(method, methods.Annealed | methods.Mwem)
    if start is not None and not fitted:
        raise InvalidWorkload(f"method '{methods.method_name(method)}' starts from nothing. Use 'annealed' or 'mwem'.")
    run = SynthesisRun(workload, desk, "", currency, total, cells, progress)
    if workload.runs and not isinstance(method, methods.Annealed):
        raise InvalidWorkload(
            f"method '{methods.method_name(method)}' has no bins, and this workload has more than {MOST_VALUES:,} "
            "counts value by value. Use 'annealed', or ask for fewer columns."
        )
    if fitted:
        run.start = know_start(workload, start, version=version, cells=cells)
    begun = [] if start is None else [run.start.digest]
    if isinstance(method, methods.Annealed):
        run.put_into_runs()
    elif fitted:
        run.refuse_wide()
    begun += ["runs"] if run.workload.runs else []
    run.digest = run_digest(*declared, *begun, query=run.workload.query)
    return run, method


def _currency(dataset: Dataset, method: SynthesisMethod) -> Currency:
    laplace = isinstance(method, methods.Annealed | methods.Mwem) and method.law == "laplace"
    match dataset.ledger.budget.accountant:
        case Accountant.PURE:
            return Currency("ε", laplace)
        case Accountant.GAUSSIAN:
            return Currency("μ²", laplace)
        case _:
            return Currency("ρ", laplace)


def _total(
    dataset: Dataset, analyst: str | None, epsilon: Exact | None, share: Exact | None, currency: Currency
) -> float:
    """Return the total cost of all steps, in the currency."""
    if (epsilon is None) == (share is None):
        raise InvalidRequest("Write one of epsilon=, a price, and share=, a part of the whole budget.")
    ledger = dataset.ledger
    whole = _whole(ledger, dataset.schema.unit, currency)
    if epsilon is not None:
        price = validate_noise_epsilon(epsilon)
        asked = _currency_limit(currency, price, ledger.budget.delta)
        part = asked / whole
    else:
        part = to_share(share if share is not None else 1, argument="share")
        part = to_fraction(part, argument="share", lower=Fraction(1, 10**9), upper=Fraction(1))
    # The total is what was offered before any charge: a resumed run has already spent a part of it.
    if part > 1 + _CLOSE:
        raise SynthesisTooExpensive(asked=part, left=ledger.left(analyst=analyst))
    return float(min(part, Fraction(1)) * whole)


def _whole(ledger: Ledger, unit: Unit, currency: Currency) -> Fraction:
    """Return the whole budget in the currency."""
    if currency.unit == "ε":
        return ledger.budget.epsilon
    if currency.unit == "μ²":
        return 1 / ledger.share(RoundedGaussianEvent(Fraction(1), unit.neighbours))  # an event with μ² = 1
    return 1 / ledger.share(UnevenGaussianEvent(Fraction(2), unit.neighbours))  # an event with ρ = 1


def _currency_limit(currency: Currency, epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return how much of the currency implies (ε, δ)."""
    match currency.unit:
        case "ε":
            return epsilon
        case "ρ":
            return Fraction(zcdp_limit(epsilon, delta))
        case "μ²":
            return Fraction(gaussian_limit(epsilon, delta))


def _share(run: SynthesisRun, price: float) -> Fraction:
    whole = _whole(run.dataset.ledger, run.unit, run.currency)
    return Fraction(price) / whole


def _most(run: SynthesisRun, share: Exact | None, max_price: Exact | None) -> Fraction:
    """Return the largest share that a run may take; a share already states it."""
    if max_price is None and share is not None:
        return WHOLE_BUDGET
    return effective_max_price(max_price, run.dataset.default)


def _share_that_fits(most: Fraction) -> AffordableRequest:
    share = format_decimal_rounded_down(most)
    return AffordableRequest(f"a share of {share}", f'share="{share}"', Fraction(share))


def _require_affordable(run: SynthesisRun, most: Fraction) -> None:
    """Refuse a run that exceeds its limit; a run that has begun continues, and each step is decided separately."""
    if any(run.charge(step) is not None for step in ("singles", "residuals", "database", "1 choose")):
        return
    left = run.dataset.ledger.left(analyst=run.desk.analyst)
    asked = _share(run, run.total)
    if asked * (1 - _ROUNDING) > left:
        raise SynthesisTooExpensive(asked=asked, left=left)
    run.desk.require_affordable(asked * (1 - _ROUNDING), most, _share_that_fits)
