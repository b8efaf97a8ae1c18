"""Differencing: two harmless counts of groups that differ in one person. Their difference is that person's secret.

A rule that refuses small counts does not notice, and no query repeats: the groups differ every time.
"""

from __future__ import annotations

import numpy as np

from dodona.errors import InvalidArgument
from dodona.lab.attacks.chance import Chance
from dodona.lab.attacks.target import Numbers, Secrets, Sets, Target, guessed

MOST_QUESTIONS = 1 << 16


def crowds(people: int, *, number: int, chance: Chance) -> Sets:
    """Return random groups, each followed by the same group with one person added or removed, for every person."""
    if type(number) is not int or number < 1:
        raise InvalidArgument("number", number, "write how many crowds to ask about, 1 or more")
    if number * (people + 1) > MOST_QUESTIONS:
        accepted = f"{people} people allow {MOST_QUESTIONS // (people + 1)} crowds, for {MOST_QUESTIONS} questions"
        raise InvalidArgument("number", number, accepted)
    first = chance.integers(0, 2, (number, 1, people)).astype(np.bool_)
    changed = np.concatenate((np.zeros((1, people), dtype=np.bool_), np.eye(people, dtype=np.bool_)))
    return (first ^ changed[None]).reshape(-1, people)


def reconstructed(sets: Sets, answers: Numbers) -> Secrets:
    """Return the secrets by the mean difference between a group with a person and the same group without."""
    people = sets.shape[1]
    asked, told = sets.reshape(-1, people + 1, people), answers.reshape(-1, people + 1)
    taken_out = asked[:, 0]
    difference = (told[:, 1:] - told[:, :1]) * np.where(taken_out, -1.0, 1.0)
    return guessed(difference.mean(axis=0))


def attack(target: Target, *, number: int, chance: Chance) -> Secrets:
    """Return every person's secret by differences of groups."""
    sets = crowds(target.people, number=number, chance=chance)
    return reconstructed(sets, target.counts(sets))
