"""Which questions are above a threshold, if few are: the sparse vector, and repeated selection of the largest.

An error of α means: reported positives are above T - α, the others are below T + α, and released values are within α.
It is guaranteed if fewer than `positives` questions are above T - α.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from dodona.lab.plan import noise, shares
from dodona.lab.plan.payments import Payment, payments
from dodona.lab.plan.promise import Adaptivity, FormulaResult, PlannedMechanism, Task
from dodona.lab.plan.setting import Setting
from dodona.lab.theorems import numeric_sparse_error, sparse_error
from dodona.privacy.selection import exponential_error
from dodona.schema.schema import Neighbours

_HALVINGS = 40
_DIVISIONS = tuple(part / 100 for part in range(1, 100))


def sparse_textbook(setting: Setting) -> FormulaResult:
    """Return the guarantee of Sparse with the text's constants; verdicts only.

    Theorem: sparse-vector-accuracy
    """
    return _textbook(setting, sparse_error)


def numeric_textbook(setting: Setting) -> FormulaResult:
    """Return the guarantee of NumericSparse with the text's constants, as they hold.

    Theorem: sparse-vector-accuracy
    """
    return _textbook(setting, numeric_sparse_error)


def sparse(setting: Setting) -> FormulaResult:
    """Return the guarantee of the sparse vector with the best split: one threshold, or one for each positive.

    Theorem: sparse-vector-accuracy
    """
    error, law = min(_verdicts(setting, 1.0, setting.failing, payment) for payment in payments(setting))
    return FormulaResult(error / setting.rows, law)


def numeric(setting: Setting) -> FormulaResult:
    """Return the guarantee of the sparse vector with fresh answers to its positives, at the best split of the price.

    Theorem: sparse-vector-accuracy
    """

    def best_split(payment: Payment) -> tuple[float, str]:
        half = setting.failing / 2
        error, share = _balance(
            lambda share: _verdicts(setting, share, half, payment)[0],
            lambda share: _count_error(setting, share, half, payment),
        )
        return error, f"{_verdicts(setting, share, half, payment)[1]}; {share:.0%} of the price for verdicts"

    error, law = min(best_split(payment) for payment in payments(setting))
    return FormulaResult(error / setting.rows, law)


def iterated_selection(setting: Setting) -> FormulaResult:
    """Return the guarantee of c selections by the exponential mechanism, each followed by a noisy count.

    Theorem: iterated-selection
    """

    def best_split(payment: Payment) -> tuple[float, float]:
        half = setting.failing / 2
        return _balance(
            lambda share: _selection_error(setting, share, half, payment) / 2,
            lambda share: _count_error(setting, share, half, payment),
        )

    error, share = min(best_split(payment) for payment in payments(setting))
    return FormulaResult(error / setting.rows, f"{setting.positives:,} choices; {share:.0%} of the price for them")


def _textbook(setting: Setting, theorem: Callable[..., float]) -> FormulaResult:
    error = theorem(
        epsilon=setting.epsilon,
        delta=setting.delta,
        questions=setting.questions,
        positives=setting.positives,
        confidence=setting.confidence,
    )
    return FormulaResult(error / setting.rows, f"for {setting.positives:,} positives")


def _verdicts(setting: Setting, share: float, failing: float, payment: Payment) -> tuple[float, str]:
    """Return the error of the verdicts for a share of the price, in rows, and how thresholds are drawn.

    (√A + √B)²/ε, with A = 2·ln(k/β₁) and B = ln(c/β₂) for restarts at ε each, and A = 2c·ln(k/β₁), B = ln(1/β₂) for one
    threshold. Under add-remove counts are monotone, which halves A. Discreteness adds one step for each of two draws.
    """
    sides, positives = _sides(setting), setting.positives

    def error(loss: float, spread: int, thresholds: int) -> float:
        return min(
            (
                math.sqrt(sides * spread * math.log(setting.questions / (failing * part)))
                + math.sqrt(math.log(thresholds / (failing * (1 - part))))
            )
            ** 2
            / loss
            for part in _DIVISIONS
        )

    standing = error(payment.test(share), positives, 1), "one threshold"
    restarting = error(payment.test(share / positives), 1, positives), "a threshold for each positive"
    rows, law = min(standing, restarting)
    return rows + 2, law


def _selection_error(setting: Setting, share: float, failing: float, payment: Payment) -> float:
    """Return how far each of c selections may be below the best remaining one, in rows."""
    positives = setting.positives
    scale = _sides(setting) / payment.choice(share / positives)
    return exponential_error(scale, confidence=1 - failing / positives, candidates=setting.questions)


def _count_error(setting: Setting, share: float, failing: float, payment: Payment) -> float:
    """Return the error of c noisy counts for the rest of the price, in rows."""
    counts = setting.with_questions(setting.positives).with_confidence(1 - failing)
    return payment.counts(counts, 1 - share).within * setting.rows


def _sides(setting: Setting) -> int:
    return 1 if setting.neighbours is Neighbours.ADD_REMOVE else 2


def _balance(falling: Callable[[float], float], rising: Callable[[float], float]) -> tuple[float, float]:
    """Return the least maximum of two errors over the share of the price for the first, and that share."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high or middle in (0.0, 1.0):
            break
        low, high = (middle, high) if falling(middle) > rising(middle) else (low, middle)
    return min((max(falling(share), rising(share)), share) for share in (low, high) if 0 < share < 1)


_above = partial(PlannedMechanism, task=Task.ABOVE)

METHODS = (
    _above(name="sparse-textbook", title="Sparse, verdicts only, text's constants", short="Sparse",
           adaptivity=Adaptivity.IN_TURN, theorem="sparse-vector-accuracy", formula=sparse_textbook),
    _above(name="numeric-textbook", title="NumericSparse, text's constants", short="NumericSparse",
           adaptivity=Adaptivity.IN_TURN, theorem="sparse-vector-accuracy", formula=numeric_textbook),
    _above(name="sparse", title="Sparse, verdicts only, best constants", short="Sparse",
           adaptivity=Adaptivity.IN_TURN, theorem="sparse-vector-accuracy", formula=sparse),
    _above(name="numeric-sparse", title="NumericSparse, best constants", short="NumericSparse",
           adaptivity=Adaptivity.IN_TURN, theorem="sparse-vector-accuracy", formula=numeric),
    _above(name="iterated-selection", title="iterated selection, then noise", short="iterated selection",
           adaptivity=Adaptivity.TOGETHER, theorem="iterated-selection", formula=iterated_selection),
    _above(name="above-gaussian", title="Gaussian noise on every question", short="Gaussian noise",
           adaptivity=Adaptivity.IN_TURN, theorem="gaussian-accuracy", formula=noise.gaussian_zcdp),
    _above(name="above-laplace", title="Laplace noise on every question", short="Laplace noise",
           adaptivity=Adaptivity.IN_TURN, theorem="laplace-accuracy",
           formula=lambda setting: noise.laplace(setting, shares.basic(setting))),
)  # fmt: skip
