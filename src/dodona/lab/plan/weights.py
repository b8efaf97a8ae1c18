"""Mechanisms that learn the table: a synthetic table (BLR), MWEM, and private multiplicative weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from itertools import count

from dodona.curator.weights import MOST_CELLS as MOST_WEIGHTS
from dodona.curator.weights_design import NoUsefulGuarantee, WeightsDesign, best_design
from dodona.errors import InvalidArgument
from dodona.lab.plan import shares
from dodona.lab.plan.payments import Payment, payments
from dodona.lab.plan.promise import Adaptivity, FormulaResult, PlannedMechanism, Task, Unsuitable, format_count
from dodona.lab.plan.setting import Setting
from dodona.lab.theorems import blr_guarantee, blr_theorem
from dodona.lab.weights import cube_root, square_root
from dodona.numbers import Exact
from dodona.privacy.accuracy import to_failure_probability, validate_count
from dodona.privacy.scores import MOST_BITS, MOST_DATABASES, count_databases
from dodona.synth.methods import MAX_THEOREM_ROUNDS, mwem_error, mwem_error_parts

MOST_MODELLED = 1 << 27
"""The largest number of cells of a dense hypothesis."""
_Promise = Callable[..., float]


def blr(setting: Setting) -> FormulaResult:
    """Return the guarantee of the exponential mechanism over all small tables, for the best size.

    Theorem: synthetic-table
    """
    return _synthetic(setting, blr_guarantee)


def blr_textbook(setting: Setting) -> FormulaResult:
    """Return the guarantee of the lecture's theorem 5, where it applies.

    Theorem: synthetic-table
    """
    # It is stated for two questions or more; one is no harder.
    guarantee = _synthetic(setting if setting.questions > 1 else setting.with_questions(2), blr_theorem)
    # Its proof needs an error of at most 1, where it says something.
    return guarantee if guarantee.within <= 1 else FormulaResult(math.inf, guarantee.law, runs=False)


def blr_run(setting: Setting) -> FormulaResult:
    """Return the guarantee of the mechanism as run: over ordered tables with few enough rows to compare them all.

    Theorem: blr-accuracy
    """
    from dodona.synth.blr import database_error

    universe = _universe(setting)
    if universe > MOST_DATABASES:
        raise Unsuitable(f"a synthetic table is chosen among {MOST_DATABASES:,} at most, and there are more cells")
    most = next(size for size in count(1) if _beyond(universe, size + 1))
    # One selection costs ε in pure loss, or at most ε²/8 under zCDP.
    losses = [payment.choice(1.0) for payment in payments(setting)]
    within, rows = min(
        (
            database_error(
                setting.rows,
                universe=universe,
                questions=setting.questions,
                rows=size,
                epsilon=max(losses),
                confidence=setting.confidence,
            ),
            size,
        )
        for size in range(1, most + 1)
    )
    return FormulaResult(within, f"one of {count_databases(universe, rows):,} tables of {rows:,} rows")


def _beyond(universe: int, size: int) -> bool:
    """Return whether there are too many tables of this size to enumerate."""
    return count_databases(universe, size) > MOST_DATABASES or size * math.log2(universe) > MOST_BITS


def mwem(setting: Setting) -> FormulaResult:
    """Return the guarantee of MWEM with all its selections within their bounds, at the best number of rounds.

    Theorem: mwem-accuracy
    """
    return _rounds(setting, mwem_error)


def mwem_mean(setting: Setting) -> FormulaResult:
    """Return the guarantee of MWEM from the mean loss of its selections, at the best number of rounds.

    Theorem: mwem-accuracy
    """
    return _rounds(setting, mwem_mean_error)


def pmw(setting: Setting) -> FormulaResult:
    """Return the guarantee of private multiplicative weights with the best explicit constants.

    Theorem: weights-accuracy
    """
    return _design(setting, best_design)


def pmw_textbook(setting: Setting) -> FormulaResult:
    """Return the guarantee of the lecture's algorithm 2: theorem 9 with a δ, theorem 8 without.

    Theorem: interactive-mechanism
    """
    return _design(setting, cube_root if setting.delta == 0 else square_root)


def _synthetic(setting: Setting, promise: _Promise) -> FormulaResult:
    universe = _universe(setting)
    within = promise(
        setting.rows,
        universe=universe,
        questions=setting.questions,
        epsilon=setting.epsilon,
        confidence=setting.confidence,
    )
    return FormulaResult(within, "one of all small tables; no delta is used", runs=False)


def _rounds(setting: Setting, promise: _Promise) -> FormulaResult:
    within, rounds = min(_best_rounds(setting, promise, payment) for payment in payments(setting))
    return FormulaResult(within, f"{rounds:,} rounds", runs=_universe(setting) <= MOST_MODELLED)


@lru_cache(maxsize=1024)
def _best_rounds(setting: Setting, promise: _Promise, payment: Payment) -> tuple[float, int]:
    """Return the least error over the number of rounds, and that number: the error falls and then rises."""

    def error(rounds: int) -> float:
        return promise(
            setting.rows,
            universe=_universe(setting),
            questions=setting.questions,
            rounds=rounds,
            epsilon=payment.choice(1 / rounds),
            confidence=setting.confidence,
        )

    low, high = 0.0, math.log(MAX_THEOREM_ROUNDS)
    while high - low > 1e-4:  # noqa: PLR2004  a ten-thousandth of the rounds; the valley is flat
        third = (high - low) / 3
        left, right = (round(math.exp(place)) for place in (low + third, high - third))
        low, high = (low, high - third) if error(left) <= error(right) else (low + third, high)
    middle = round(math.exp(low))
    return min((error(rounds), rounds) for rounds in range(max(1, middle - 2), min(MAX_THEOREM_ROUNDS, middle + 3)))


def _design(setting: Setting, design: Callable[..., WeightsDesign]) -> FormulaResult:
    universe = _universe(setting)
    delta: Exact = setting.delta
    if delta != 0:
        shares.rho_of(setting)
    try:
        chosen_design = design(
            setting.rows,
            universe=universe,
            questions=setting.questions,
            epsilon=setting.epsilon,
            delta=delta,
            confidence=setting.confidence,
        )
    except (
        NoUsefulGuarantee,
        InvalidArgument,
    ):  # past what is drawn: noise of more rows, or more updates, than there may be
        return FormulaResult(math.inf, "more noise or updates than can be run", runs=False)
    return FormulaResult(
        chosen_design.within, f"at most {format_count(chosen_design.updates)} updates", runs=universe <= MOST_WEIGHTS
    )


def _universe(setting: Setting) -> int:
    if setting.universe is None:
        raise Unsuitable("it learns the table cell by cell: write how many cells there are")
    return setting.universe


_answers = partial(PlannedMechanism, task=Task.ANSWERS)

METHODS = (
    _answers(name="blr", title="synthetic table (BLR), best constants", short="BLR",
             adaptivity=Adaptivity.TOGETHER, theorem="synthetic-table", formula=blr),
    _answers(name="blr-textbook", title="synthetic table (BLR), lecture", short="BLR",
             adaptivity=Adaptivity.TOGETHER, theorem="synthetic-table", formula=blr_textbook),
    _answers(name="blr-run", title="synthetic table (BLR), as run here", short="BLR",
             adaptivity=Adaptivity.TOGETHER, theorem="blr-accuracy", formula=blr_run),
    _answers(name="mwem", title="MWEM, every choice bounded", short="MWEM",
             adaptivity=Adaptivity.TOGETHER, theorem="mwem-accuracy", formula=mwem),
    _answers(name="mwem-mean", title="MWEM, best constants", short="MWEM",
             adaptivity=Adaptivity.TOGETHER, theorem="mwem-accuracy", formula=mwem_mean),
    _answers(name="pmw", title="multiplicative weights (PMW), best constants", short="PMW",
             adaptivity=Adaptivity.IN_TURN, theorem="weights-accuracy", formula=pmw),
    _answers(name="pmw-textbook", title="multiplicative weights (PMW), lecture", short="PMW",
             adaptivity=Adaptivity.IN_TURN, theorem="interactive-mechanism", formula=pmw_textbook),
)  # fmt: skip


def mwem_mean_error(  # noqa: PLR0913  the parameters of the bound
    rows: int, *, universe: int, questions: int, rounds: int, epsilon: float, confidence: float = 0.95
) -> float:
    """Return √(ln|X|/2c) + (2/(nε))·(ln 2k + G/c), where G is the 1 - β quantile of the sum of c exponential variables.

    The mechanism is the same, but only the mean loss of the selections counts, and a mean is more concentrated.

    Theorem: mwem-accuracy
    """
    from scipy.special import gammainccinv

    learned, choice = mwem_error_parts(rows, universe, rounds, epsilon)
    asked = validate_count(questions, argument="questions")
    missed = float(gammainccinv(rounds, to_failure_probability(confidence))) / rounds
    return learned + choice * (math.log(2 * asked) + missed * (1 + 1e-9))
