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

import numpy as np

from dodona.answer.estimate import KeyValue
from dodona.errors import InvalidArgument
from dodona.numbers import Doubles, Integers
from dodona.privacy.additive_noise import Gaussian, Laplace
from dodona.query import predicate as predicates
from dodona.query.query import Key
from dodona.query.question import KeyLabel, Question, ReadAs
from dodona.schema.attributes import (
    CALENDAR_BINS,
    MISSING,
    OUTSIDE,
    Category,
    Label,
    code_label,
    period_starts,
)
from dodona.schema.partition import Partition, group_label
from dodona.schema.schema import Domain

# --- Measured values: a question, the noisy integers of its blocks, and their noise. ---


Noise = Laplace | Gaussian


@dataclass(frozen=True, slots=True)
class MeasuredValues:
    """Noisy integers, block by block, and one noise per block, both in the block's steps."""

    question: Question
    values: Sequence[int] | Integers
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
        return self.question.groups

    def steps(self, block: int) -> list[int]:
        """Return the noisy integers of a block, in steps."""
        return [int(value) for value in self._part(block)]

    def numbers(self, block: int) -> Doubles:
        """Return the noisy integers of a block as floats: one row per group of the question."""
        return np.asarray(self._part(block), dtype=np.float64).reshape(self.groups, -1)

    def _part(self, block: int) -> Sequence[int] | Integers:
        start = sum(other.values for other in self.question.query.blocks[:block])
        return self.values[start : start + self.question.query.blocks[block].values]


# --- Labels of the groups of a question. ---


def group_labels(question: Question, shown: KeyLabel) -> Sequence[Label]:
    """Return the label of each group under one key, in row-major order of the keys."""
    labels = shown.labels or key_labels(question.keys[shown.key], question.domain)
    after = math.prod([key.groups for key in question.keys[shown.key + 1 :]])
    before = question.groups // (after * len(labels))
    return [label for _ in range(before) for label in labels for _ in range(after)]


def possible_groups(question: Question) -> list[int]:
    """Return the groups that can have rows under WHERE; this is public, as it depends on no row.

    Each key is checked separately, so a group that only several keys together exclude is included.
    """
    if question.where == predicates.EVERYTHING:
        return list(range(question.groups))
    kept = [_possible_key_groups(key, question.where, question.domain) for key in question.keys]
    numbers = np.arange(question.groups).reshape([key.groups for key in question.keys])
    found: list[int] = numbers[np.ix_(*kept)].reshape(-1).tolist() if kept else [0]
    return found


@lru_cache(maxsize=256)
def _possible_key_groups(key: Key, where: predicates.Predicate, domain: Domain) -> list[int]:
    """Return the groups of a key that a condition allows."""
    if isinstance(key, Partition):
        codes = predicates.allowed_codes(where, domain[key.attribute])
        left = key.table()[predicates.unpack_bits(codes, domain[key.attribute].cells)]
        return [int(group) for group in np.unique(left)]
    found, rest = [], where
    for group, (_, branch) in enumerate(key.branches):
        if predicates.conjunction(rest, branch) != predicates.NOTHING:
            found.append(group)
        rest = predicates.conjunction(rest, predicates.complement(branch))
    return found if rest == predicates.NOTHING else [*found, len(key.branches)]


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
        if read_as in CALENDAR_BINS:
            first = period_starts(np.array([value.toordinal()]), read_as)
            return date.fromordinal(max(1, int(first[0])))
        return value.year if read_as == "number" else value  # of date parts, only years are spans of days
    return float(value) if isinstance(value, Fraction) else value


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
