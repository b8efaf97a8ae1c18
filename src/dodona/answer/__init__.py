"""Answers: values, valid intervals and prices; and offers, before anything is spent.

- `answer`: `Answer`, evaluated lazily; `offer`: `Offer`, before it is bought
- `measured`, `derived`: the values behind an answer, newly measured or derived from earlier releases
- `laws`, `sums`: the laws of their errors, and `half_width`
- `evaluation`, `bands`, `ratios`, `quantiles`, `view`: intervals of expressions over those values
- `prediction`: how accurate an answer would be
- `rows`, `display`, `picture`: rows, text and drawings of an answer
"""

from dodona.answer.answer import Answer, AnswerSource, ColumnAccuracy, table_view
from dodona.answer.derived import DerivedValues
from dodona.answer.laws import ConfirmedLaw, ErrorLaw, GaussianSumBound, ModelLaw, NoiseSum
from dodona.answer.measured import MeasuredValues
from dodona.answer.offer import ExpectedAccuracy, Offer
from dodona.answer.prediction import predict_half_width
from dodona.answer.rows import Estimate
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
    "predict_half_width",
    "table_view",
]
