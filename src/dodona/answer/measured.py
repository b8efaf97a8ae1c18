"""What was measured: a question, the noisy integers of its blocks, and the noise that is in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dodona.errors import InvalidArgument
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.query.question import Question

if TYPE_CHECKING:
    from numpy.typing import NDArray

Noise = Laplace | Gaussian


@dataclass(frozen=True, slots=True)
class Measured:
    """Noisy integers in steps, one block after the other, and one noise a block, in the block's own steps."""

    question: Question
    values: Sequence[int] | NDArray[np.int64]
    noises: tuple[Noise, ...]

    def __post_init__(self) -> None:
        """Refuse values or noises that are not those of the question."""
        query = self.question.query
        if len(self.noises) != len(query.blocks):
            raise InvalidArgument("noises", len(self.noises), f"write one for each of {len(query.blocks)} blocks")
        if len(self.values) != query.values:
            raise InvalidArgument("values", len(self.values), f"the question has {query.values}")

    @property
    def groups(self) -> int:
        """How many groups the question has."""
        return groups_of(self.question)

    def steps(self, block: int) -> list[int]:
        """Return the noisy integers of a block, in steps."""
        start = sum(other.values for other in self.question.query.blocks[:block])
        found = self.values[start : start + self.question.query.blocks[block].values]
        return [int(value) for value in found]

    def numbers(self, block: int) -> NDArray[np.float64]:
        """Return the noisy integers of a block as floats: a row for each group of the question."""
        start = sum(other.values for other in self.question.query.blocks[:block])
        found = self.values[start : start + self.question.query.blocks[block].values]
        return np.asarray(found, dtype=np.float64).reshape(self.groups, -1)


def groups_of(question: Question) -> int:
    """Return how many groups a question has."""
    return math.prod(key.groups for key in question.keys)
