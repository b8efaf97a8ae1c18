"""Exhaustive reconstruction: ask about every set of people, and rule out every table that does not fit.

Dinur and Nissim 2003. If no answer is off by more than E, every remaining table differs from the true one in at most 4E
places.
"""

from __future__ import annotations

import numpy as np

from dodona.errors import InvalidArgument
from dodona.lab.attacks.target import AttackTarget, Numbers, Secrets, Sets

MOST_PEOPLE = 20


def every_set(people: int) -> Sets:
    """Return all 2^n sets of n people: person i is in set s if bit i of s is 1."""
    numbers = np.arange(1 << _validate_people(people), dtype=np.int64)
    return (numbers[:, None] >> np.arange(people) & 1).astype(np.bool_)


def violations(answers: Numbers) -> Numbers:
    """Return for every table, in the order of the sets, its largest distance from an answer.

    Tables and sets have the same numbering, and |table ∩ set| is a sum over people. So the largest difference over all
    sets is computed person by person, in n·2^n steps instead of 4^n.

    Theorem: exhaustive-reconstruction
    """
    people = _people(answers)
    over, under = -answers.astype(np.float64), answers.astype(np.float64)
    for person in range(people):
        over = _merge_person(over, person, 1.0)
        under = _merge_person(under, person, -1.0)
    return np.maximum(over, under)


def consistent_tables(answers: Numbers, *, within: float) -> Sets:
    """Return the tables that remain if no answer is off by more than `within`."""
    tables = np.flatnonzero(violations(answers) <= within)
    return (tables[:, None] >> np.arange(_people(answers)) & 1).astype(np.bool_)


def reconstruct(answers: Numbers) -> Secrets:
    """Return the table with the smallest maximal error, which is ruled out last as `within` decreases."""
    best = int(np.argmin(violations(answers)))
    return best >> np.arange(_people(answers)) & 1


def most_wrong(within: float) -> int:
    """Return the largest number of wrong secrets if no answer is off by more than `within`: 4E.

    >>> most_wrong(1)
    4

    Theorem: exhaustive-reconstruction
    """
    if not 0 <= within < np.inf:
        raise InvalidArgument("within", within, "write how far off an answer may be, 0 or above")
    return 2 * int(2 * within)


def attack(target: AttackTarget) -> Secrets:
    """Return every person's secret, as far as the answers about all sets reveal them."""
    return reconstruct(target.counts(every_set(target.people)))


def _merge_person(values: Numbers, person: int, gain: float) -> Numbers:
    """Return the maximum over sets with and without a person, for tables without and with that person."""
    pairs = values.reshape(-1, 2, 1 << person)
    without, having = pairs[:, 0], pairs[:, 1]
    joined = np.stack((np.maximum(without, having), np.maximum(without, having + gain)), axis=1)
    return joined.reshape(-1)


def _people(answers: Numbers) -> int:
    people = max(answers.size.bit_length() - 1, 0)
    if answers.ndim != 1 or answers.size != 1 << people:
        raise InvalidArgument("answers", answers.shape, "write an answer for each of the 2^n sets of n people")
    return _validate_people(people)


def _validate_people(people: int) -> int:
    if not 1 <= people <= MOST_PEOPLE:
        accepted = (
            f"trying all 2^n tables works for 1 to {MOST_PEOPLE} people; for hundreds use the linear-programming attack"
        )
        raise InvalidArgument("people", people, accepted)
    return people
