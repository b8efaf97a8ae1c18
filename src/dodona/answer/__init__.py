"""What is answered: values, honest intervals, prices; and what would be, before anything is spent."""

from dodona.answer.answer import Answer, ColumnAccuracy, Rung, answer_of
from dodona.answer.blend import Bell, Blend, Law
from dodona.answer.claim import Checked, Guessed
from dodona.answer.derived import Derived
from dodona.answer.estimate import Estimate
from dodona.answer.measured import Measured
from dodona.answer.offer import Expected, Offer
from dodona.answer.prediction import predicted, shape_of
from dodona.answer.price import FREE, Price
from dodona.answer.tolerance import Tolerance, tolerance, whole_of

__all__ = [
    "FREE",
    "Answer",
    "Bell",
    "Blend",
    "Checked",
    "ColumnAccuracy",
    "Derived",
    "Estimate",
    "Expected",
    "Guessed",
    "Law",
    "Measured",
    "Offer",
    "Price",
    "Rung",
    "Tolerance",
    "answer_of",
    "predicted",
    "shape_of",
    "tolerance",
    "whole_of",
]
