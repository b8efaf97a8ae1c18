"""Measured values: a question, the noisy integers of its blocks, and their noise.

Also the labels of the question's groups, which depend on the schema and the WHERE clause and never on a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dodona.answer.estimate import KeyValue
from dodona.errors import InvalidArgument
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Among,
    And,
    Jointly,
    Predicate,
    complement,
    conjunction,
    project_bits,
    unpack_bits,
)
from dodona.query.query import Key
from dodona.query.question import Question, ReadAs
from dodona.schema.attributes import MISSING, OUTSIDE, Attribute, Category, Label, code_label
from dodona.schema.partition import Partition, group_label
from dodona.schema.schema import Domain

if TYPE_CHECKING:
    from numpy.typing import NDArray


# --- Measured values: a question, the noisy integers of its blocks, and their noise. ---


Noise = Laplace | Gaussian


@dataclass(frozen=True, slots=True)
class MeasuredValues:
    """Noisy integers, block by block, and one noise per block, both in the block's steps."""

    question: Question
    values: Sequence[int] | NDArray[np.int64]
    noises: tuple[Noise, ...]

    def __post_init__(self) -> None:
        """Raise if values or noises do not match the question."""
        query = self.question.query
        if len(self.noises) != len(query.blocks):
            raise InvalidArgument("noises", len(self.noises), f"write one for each of {len(query.blocks)} blocks")
        if len(self.values) != query.values:
            raise InvalidArgument("values", len(self.values), f"the question has {query.values}")

    @property
    def groups(self) -> int:
        """The number of groups of the question."""
        return count_groups(self.question)

    def steps(self, block: int) -> list[int]:
        """Return the noisy integers of a block, in steps."""
        start = sum(other.values for other in self.question.query.blocks[:block])
        found = self.values[start : start + self.question.query.blocks[block].values]
        return [int(value) for value in found]

    def numbers(self, block: int) -> NDArray[np.float64]:
        """Return the noisy integers of a block as floats: one row per group of the question."""
        start = sum(other.values for other in self.question.query.blocks[:block])
        found = self.values[start : start + self.question.query.blocks[block].values]
        return np.asarray(found, dtype=np.float64).reshape(self.groups, -1)


def count_groups(question: Question) -> int:
    """Return the number of groups of a question."""
    return math.prod(key.groups for key in question.keys)


# --- Labels of the groups of a question. ---


def group_labels(question: Question) -> list[tuple[Label, ...]]:
    """Return the labels of all groups, in row-major order of the keys."""
    return list(product(*(key_labels(key, question.query.domain) for key in question.keys)))


def possible_groups(question: Question) -> list[int]:
    """Return the groups that can have rows under WHERE; this is public, as it depends on no row.

    Each key is checked separately, so a group that only several keys together exclude is included.
    """
    if question.where == EVERYTHING:
        return list(range(count_groups(question)))
    kept = [_possible_key_groups(key, question.where, question.query.domain) for key in question.keys]
    numbers = np.arange(count_groups(question)).reshape([key.groups for key in question.keys])
    found: list[int] = numbers[np.ix_(*kept)].reshape(-1).tolist() if kept else [0]
    return found


@lru_cache(maxsize=256)
def _possible_key_groups(key: Key, where: Predicate, domain: Domain) -> list[int]:
    """Return the groups of a key that a condition allows."""
    if isinstance(key, Partition):
        codes = _allowed_codes(where, domain[key.attribute])
        left = key.table()[unpack_bits(codes, domain[key.attribute].cells)]
        return [int(group) for group in np.unique(left)]
    found, rest = [], where
    for group, (_, branch) in enumerate(key.branches):
        if conjunction(rest, branch) != NOTHING:
            found.append(group)
        rest = conjunction(rest, complement(branch))
    return found if rest == NOTHING else [*found, len(key.branches)]


def _allowed_codes(where: Predicate, attribute: Attribute) -> int:
    """Return the cells of an attribute that a condition allows, judging by its simple parts."""
    codes = (1 << attribute.cells) - 1
    for part in where.parts if isinstance(where, And) else (where,):
        if isinstance(part, Among) and part.attribute == attribute.name:
            codes &= part.codes
        elif isinstance(part, Jointly) and attribute.name in part.names:
            codes &= project_bits(part.shape, part.codes, part.names.index(attribute.name))
        elif part == NOTHING:
            codes = 0
    return codes


def key_name(key: Key) -> str:
    """Return the default name of a key."""
    return key.attribute if isinstance(key, Partition) else "case"


def key_values(key: Key, domain: Domain, read_as: ReadAs) -> tuple[KeyValue, ...]:
    """Return the typed values of a key's groups, with None for `<missing>`.

    Unless values are texts, `<outside>` is None too: no number or date represents it.

    >>> from dodona.schema.attributes import Integer
    >>> age = Domain((Integer("age", 0, 110),))
    >>> key_values(Partition.every(age["age"], 50), age, "value")
    (0, 50, 100, None, None)
    """
    if isinstance(key, Partition):
        return _partition_values(key, domain, read_as)
    found = tuple(_parse_label(label, read_as) for label in key_labels(key, domain))
    if any(isinstance(value, float) for value in found):  # one type for all
        return tuple(float(value) if isinstance(value, int) else value for value in found)
    return found


@lru_cache(maxsize=256)
def _partition_values(key: Partition, domain: Domain, read_as: ReadAs) -> tuple[KeyValue, ...]:
    attribute = domain[key.attribute]
    found = [_read_value(code_label(attribute, first), read_as) for first in key.cuts]
    if not key.further:
        return tuple(found)
    return (*found, None, OUTSIDE if isinstance(attribute, Category) else None)


def _read_value(value: Label, read_as: ReadAs) -> KeyValue:
    """Return the first value of a group in its output type."""
    if isinstance(value, date):
        return (
            value.year if read_as == "number" else _truncate_date(value, read_as)
        )  # of date parts, only years are spans of days
    return float(value) if isinstance(value, Fraction) else value


def _truncate_date(day: date, unit: ReadAs) -> date:
    """Return the first day of the unit that contains a day."""
    match unit:
        case "week":
            return date.fromordinal(max(1, day.toordinal() - day.weekday()))
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=day.month - (day.month - 1) % 3, day=1)
        case "year":
            return day.replace(month=1, day=1)
        case _:
            return day


def _parse_label(text: Label, read_as: ReadAs) -> KeyValue:
    """Return the value that a CASE label stands for."""
    if text == MISSING or not isinstance(text, str):
        return None
    match read_as:
        case "number":
            if text == OUTSIDE:
                return None
            number = Fraction(text)
            return number.numerator if number.denominator == 1 else float(number)
        case "boolean":
            return None if text == OUTSIDE else text == "true"
        case "date":
            return None if text == OUTSIDE else date.fromisoformat(text)
        case _:
            return text


def key_labels(key: Key, domain: Domain) -> tuple[Label, ...]:
    """Return the labels of the groups of one key."""
    if isinstance(key, Partition):
        return _partition_labels(key, domain)
    return (*(label for label, _ in key.branches), key.otherwise)


@lru_cache(maxsize=256)
def _partition_labels(partition: Partition, domain: Domain) -> tuple[Label, ...]:
    attribute = domain[partition.attribute]
    return tuple(group_label(partition, attribute, group) for group in range(partition.groups))
