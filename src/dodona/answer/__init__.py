"""Answers: values, valid intervals and prices; and offers, before anything is spent.

- `answer`: `Answer`, evaluated lazily, and `make_answer`; `offer`: `Offer`, before it is bought
- `measured`, `derived`: the values behind an answer, newly measured or derived from earlier releases
- `laws`, `sums`: the laws of their errors, and `half_width`
- `evaluation`, `bands`, `ratios`, `quantiles`, `view`: intervals of expressions over those values
- `tolerance`, `prediction`: how accurate an answer must be, and how accurate it would be
- `rows`, `mechanism`: rows of an answer, and its noise in words
- `estimate`, `display`, `picture`, `recorded`, `results`, `description`: values with their intervals, their text and
  drawings, and whatever else a caller gets; standard library only, as clients of a server use them without the rest
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dodona.answer.answer import Answer, make_answer
    from dodona.answer.derived import DerivedValues
    from dodona.answer.estimate import AnswerSource, ColumnAccuracy, Estimate
    from dodona.answer.laws import ConfirmedLaw, ErrorLaw, GaussianSumBound, ModelLaw, NoiseSum
    from dodona.answer.measured import MeasuredValues
    from dodona.answer.offer import ExpectedAccuracy, Offer
    from dodona.answer.prediction import predict_half_width
    from dodona.answer.tolerance import Tolerance, full_scale, resolve_tolerance
    from dodona.privacy.budget import FREE, Price

__all__ = [
    "FREE",
    "Answer",
    "AnswerSource",
    "ColumnAccuracy",
    "ConfirmedLaw",
    "DerivedValues",
    "ErrorLaw",
    "Estimate",
    "ExpectedAccuracy",
    "GaussianSumBound",
    "MeasuredValues",
    "ModelLaw",
    "NoiseSum",
    "Offer",
    "Price",
    "Tolerance",
    "full_scale",
    "make_answer",
    "predict_half_width",
    "resolve_tolerance",
]

_MODULES = {
    "answer.answer": ("Answer", "make_answer"),
    "answer.derived": ("DerivedValues",),
    "answer.estimate": ("AnswerSource", "ColumnAccuracy", "Estimate"),
    "answer.laws": ("ConfirmedLaw", "ErrorLaw", "GaussianSumBound", "ModelLaw", "NoiseSum"),
    "answer.measured": ("MeasuredValues",),
    "answer.offer": ("ExpectedAccuracy", "Offer"),
    "answer.prediction": ("predict_half_width",),
    "answer.tolerance": ("Tolerance", "full_scale", "resolve_tolerance"),
    "privacy.budget": ("FREE", "Price"),
}
_LAZY = {name: f"dodona.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import and return a public name of this package; a client has no part that computes intervals."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
