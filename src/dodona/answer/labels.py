"""The labels of a question's groups, which depend on the schema and the WHERE clause and never on a row."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

import numpy as np

from dodona.answer.estimate import KeyValue
from dodona.numbers import Booleans, Integers
from dodona.query import predicate as predicates
from dodona.query.query import MOST_TABLE, Key, group_numbers, key_attributes
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

_MOST_WORK = 1 << 24
"""The most cells times conditions that are looked at to learn which groups can have rows."""

# --- Labels of the groups of a question. ---


def group_labels(question: Question, shown: KeyLabel) -> Sequence[Label]:
    """Return the label of each group under one key, in row-major order of the keys."""
    labels = shown.labels or key_labels(question.keys[shown.key], question.domain)
    after = math.prod([key.groups for key in question.keys[shown.key + 1 :]])
    before = question.groups // (after * len(labels))
    return [label for _ in range(before) for label in labels for _ in range(after)]


def possible_groups(question: Question) -> list[int] | None:
    """Return the groups that can have rows under WHERE; None if all can. This is public, as it depends on no row."""
    names = [key.attribute for key in question.keys if isinstance(key, Partition)]
    if question.where == predicates.EVERYTHING and len(set(names)) == len(question.keys):
        return None
    return groups_under(question.where, question.keys, question.domain)


def groups_under(where: predicates.Predicate, keys: Sequence[Key], domain: Domain) -> list[int]:
    """Return the groups of some keys that can have rows that meet a condition.

    Keys of one column are checked together: there is no January of a year that begins in November. So are keys that a
    condition on several columns relates, unless too many of their cells differ; then a group that only this excludes is
    included.
    """
    groups: list[int] = np.flatnonzero(_groups_under(where, tuple(keys), domain)).tolist() if keys else [0]
    return groups


@lru_cache(maxsize=256)
def _groups_under(where: predicates.Predicate, keys: tuple[Key, ...], domain: Domain) -> Booleans:
    """Return whether each group, by the groups of all keys, can have rows that meet a condition."""
    columns = [key_attributes(key) for key in keys]
    alike: dict[object, list[int]] = {}
    for place, names in enumerate(columns):
        alike.setdefault(next(iter(names)) if len(names) == 1 else place, []).append(place)
    allowed = np.full([key.groups for key in keys], where != predicates.NOTHING)

    def restrict(places: Sequence[int], possible: Booleans) -> None:
        nonlocal allowed
        allowed &= possible.reshape([key.groups if place in places else 1 for place, key in enumerate(keys)])

    for name, places in alike.items():
        if isinstance(name, str):
            codes = np.flatnonzero(
                predicates.unpack_bits(predicates.allowed_codes(where, domain[name]), domain[name].cells)
            )
            indices = [np.broadcast_to(group_numbers([keys[place]], {name: codes}), codes.shape) for place in places]
        else:
            indices = [np.asarray(_possible_key_groups(keys[places[0]], where, domain), dtype=np.int64)]
        possible = np.zeros([keys[place].groups for place in places], dtype=np.bool_)
        possible[tuple(indices)] = True
        restrict(places, possible)
    related = [names for part in _conjuncts(where) if len(names := predicates.predicate_attributes(part)) > 1]
    waiting = list(dict.fromkeys((frozenset[str]().union(*related), *related)))  # all together, or else one by one
    for number, names in enumerate(waiting):
        places = [place for place, read in enumerate(columns) if read & names]
        read = names.union(*(columns[place] for place in places))
        together = _possible_together([keys[place] for place in places], read, where, domain) if places else None
        if together is not None:
            restrict(places, together)
            if number == 0:
                break
    return allowed.reshape(-1)


def _conjuncts(where: predicates.Predicate) -> tuple[predicates.Predicate, ...]:
    return where.parts if isinstance(where, predicates.And) else (where,)


def _possible_key_groups(key: Key, where: predicates.Predicate, domain: Domain) -> list[int]:
    """Return the groups of a key of several columns, or of none, that a condition allows.

    What a condition says of other columns together with the key's is left out. Where few cells differ, each is looked
    at, as a difference of two columns has thousands of branches; a key of more cells has few.
    """
    if isinstance(key, Partition):
        raise TypeError
    together = _possible_together([key], key_attributes(key), where, domain)
    if together is not None:
        return [int(group) for group in np.flatnonzero(together)]
    groups, rest = [], where
    for group, (_, branch) in enumerate(key.branches):
        if predicates.conjunction(rest, branch) != predicates.NOTHING:
            groups.append(group)
        rest = predicates.conjunction(rest, predicates.complement(branch))
    return groups if rest == predicates.NOTHING else [*groups, len(key.branches)]


def _possible_together(
    keys: Sequence[Key], names: frozenset[str], where: predicates.Predicate, domain: Domain
) -> Booleans | None:
    """Return which groups of keys a cell of some columns belongs to that a condition allows; None if cells are many."""
    known = [part for part in _conjuncts(where) if predicates.predicate_attributes(part) <= names]
    allowed = {name: predicates.allowed_codes(where, domain[name]) for name in names}
    axes = _cells_apart(keys, allowed, known, domain)
    if axes is None:
        return None
    met = predicates.evaluate_predicate(predicates.conjunction(*known), axes)
    numbers, met = np.broadcast_arrays(group_numbers(keys, axes), met)
    possible = np.zeros(math.prod([key.groups for key in keys]), dtype=np.bool_)
    possible[numbers[met]] = True
    return possible


def _cells_apart(
    keys: Sequence[Key], allowed: Mapping[str, int], conditions: Sequence[predicates.Predicate], domain: Domain
) -> dict[str, Integers] | None:
    """Return codes of columns that stand for all that are allowed: one of each run of codes that nothing tells apart.

    None if they are many for all that is to be looked at.
    """
    starts = {name: codes ^ codes << 1 for name, codes in allowed.items()}  # a bit where a code differs from the last
    waiting = list(conditions)
    for key in keys:
        if isinstance(key, Partition):
            first = np.zeros(key.cells, dtype=np.bool_)
            first[list(key.cuts)] = first[key.size :] = True
            starts[key.attribute] |= predicates.pack_bits(first)
        else:
            waiting.extend([branch for _, branch in key.branches])
    for part in waiting:
        match part:
            case predicates.And(parts) | predicates.Or(parts):
                waiting.extend(parts)
            case predicates.Among(name, _, codes):
                starts[name] |= codes ^ codes << 1
            case predicates.Jointly() | predicates.NonNegative():
                starts |= dict.fromkeys(predicates.predicate_attributes(part), -1)
            case _:
                assert_never(part)
    firsts = {name: (bits | 1) & allowed[name] for name, bits in sorted(starts.items())}
    cells = math.prod([bits.bit_count() for bits in firsts.values()])
    if cells > MOST_TABLE and cells * len(waiting) > _MOST_WORK:
        return None
    shapes = {name: [-1 if other == name else 1 for other in firsts] for name in firsts}
    return {
        name: np.flatnonzero(predicates.unpack_bits(bits, domain[name].cells)).reshape(shapes[name])
        for name, bits in firsts.items()
    }


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
    values = tuple(_parse_label(label, read_as) for label in key_labels(key, domain))
    if any(isinstance(value, float) for value in values):  # one type for all
        return tuple(float(value) if isinstance(value, int) else value for value in values)
    return values


@lru_cache(maxsize=256)
def _partition_values(key: Partition, domain: Domain, read_as: ReadAs) -> tuple[KeyValue, ...]:
    attribute = domain[key.attribute]
    values = [_read_value(code_label(attribute, first), read_as) for first in key.cuts]
    if not key.further:
        return tuple(values)
    return (*values, None, OUTSIDE if isinstance(attribute, Category) else None)


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
