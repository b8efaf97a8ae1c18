"""Labels: what the groups of a question are called."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

from dodona.answer.measured import groups_of
from dodona.domain.attribute import MISSING, OUTSIDE, Attribute, Category, Label, cells, label
from dodona.domain.domain import Domain
from dodona.domain.partition import Partition, group_label
from dodona.query.bits import bits, marginal
from dodona.query.predicate import EVERYTHING, NOTHING, Among, And, Jointly, Predicate, both, complement
from dodona.query.query import Key
from dodona.query.question import Question, ReadAs

KeyValue = str | int | float | bool | date | None
"""What a group stands for, to a program."""


def labels_of(question: Question) -> list[tuple[Label, ...]]:
    """Return the labels of all groups, in row-major order of the keys."""
    return list(product(*(labels_of_key(key, question.query.domain) for key in question.keys)))


def possible(question: Question) -> list[int]:
    """Return the groups that rows may be in which WHERE leaves: it is public, as it depends on no row.

    Each key is looked at by itself, so a group that only the keys together exclude is among them.
    """
    if question.where == EVERYTHING:
        return list(range(groups_of(question)))
    kept = [_possible(key, question.where, question.query.domain) for key in question.keys]
    numbers = np.arange(groups_of(question)).reshape([key.groups for key in question.keys])
    found: list[int] = numbers[np.ix_(*kept)].reshape(-1).tolist() if kept else [0]
    return found


@lru_cache(maxsize=256)
def _possible(key: Key, where: Predicate, domain: Domain) -> list[int]:
    """Return the groups of a key that a condition leaves."""
    if isinstance(key, Partition):
        codes = _codes(where, domain[key.attribute])
        left = key.table()[bits(codes, cells(domain[key.attribute]))]
        return [int(group) for group in np.unique(left)]
    found, rest = [], where
    for group, (_, branch) in enumerate(key.branches):
        if both(rest, branch) != NOTHING:
            found.append(group)
        rest = both(rest, complement(branch))
    return found if rest == NOTHING else [*found, len(key.branches)]


def _codes(where: Predicate, attribute: Attribute) -> int:
    """Return the cells of an attribute that a condition leaves, as far as its plain parts say it."""
    codes = (1 << cells(attribute)) - 1
    for part in where.parts if isinstance(where, And) else (where,):
        if isinstance(part, Among) and part.attribute == attribute.name:
            codes &= part.codes
        elif isinstance(part, Jointly) and attribute.name in part.names:
            codes &= marginal(part.shape, part.codes, part.names.index(attribute.name))
        elif part == NOTHING:
            codes = 0
    return codes


def name_of(key: Key) -> str:
    """Return what a key is called where no column names it."""
    return key.attribute if isinstance(key, Partition) else "case"


def values_of(key: Key, domain: Domain, read_as: ReadAs) -> tuple[KeyValue, ...]:
    """Return what the groups of a key stand for, with the types that programs reckon with, and None for `<missing>`.

    Where values are no texts, `<outside>` is None too: no number and no day stands for it.

    >>> from dodona.domain.attribute import Integer
    >>> age = Domain((Integer("age", 0, 110),))
    >>> values_of(Partition.every(age["age"], 50), age, "value")
    (0, 50, 100, None, None)
    """
    if isinstance(key, Partition):
        return _partition_values(key, domain, read_as)
    found = tuple(_parsed(label, read_as) for label in labels_of_key(key, domain))
    if any(isinstance(value, float) for value in found):  # one type for all
        return tuple(float(value) if isinstance(value, int) else value for value in found)
    return found


@lru_cache(maxsize=256)
def _partition_values(key: Partition, domain: Domain, read_as: ReadAs) -> tuple[KeyValue, ...]:
    attribute = domain[key.attribute]
    found = [_read(label(attribute, first), read_as) for first in key.cuts]
    if not key.further:
        return tuple(found)
    return (*found, None, OUTSIDE if isinstance(attribute, Category) else None)


def _read(value: Label, read_as: ReadAs) -> KeyValue:
    """Return the first value of a group as a program is told it."""
    if isinstance(value, date):
        return value.year if read_as == "number" else _cut(value, read_as)  # of parts, only years are spans of days
    return float(value) if isinstance(value, Fraction) else value


def _cut(day: date, unit: ReadAs) -> date:
    """Return the first day of the unit that a day is in."""
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


def _parsed(text: Label, read_as: ReadAs) -> KeyValue:
    """Return the value that a label of a CASE was written for."""
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


def labels_of_key(key: Key, domain: Domain) -> tuple[Label, ...]:
    """Return the labels of the groups of one key."""
    if isinstance(key, Partition):
        return _of_partition(key, domain)
    return (*(label for label, _ in key.branches), key.otherwise)


@lru_cache(maxsize=256)
def _of_partition(partition: Partition, domain: Domain) -> tuple[Label, ...]:
    attribute = domain[partition.attribute]
    return tuple(group_label(partition, attribute, group) for group in range(partition.groups))
