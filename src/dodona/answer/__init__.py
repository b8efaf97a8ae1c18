"""What is answered: values, honest intervals, prices; and what would be, before anything is spent."""

from dodona.answer.answer import Answer, ColumnAccuracy, answer_of
from dodona.answer.estimate import Estimate
from dodona.answer.measured import Measured
from dodona.answer.price import FREE, Price

__all__ = ["FREE", "Answer", "ColumnAccuracy", "Estimate", "Measured", "Price", "answer_of"]
