"""What is answered: values, honest intervals, prices; and what would be, before anything is spent."""

from dodona.answer.answer import Answer, AnswerSource, ColumnAccuracy, make_answer
from dodona.answer.derived import DerivedValues
from dodona.answer.laws import ConfirmedLaw, ErrorLaw, GaussianSumBound, ModelLaw, NoiseSum
from dodona.answer.measured import MeasuredValues
from dodona.answer.offer import ExpectedAccuracy, Offer
from dodona.answer.prediction import predict_half_width, relative_scales
from dodona.answer.rows import Estimate
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
    "relative_scales",
    "resolve_tolerance",
]
