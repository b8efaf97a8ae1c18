"""Averaging and differencing: simple attacks that succeed where noise is fresh and queries are not limited."""

from __future__ import annotations

import numpy as np

from dodona.errors import InvalidArgument, Refused
from dodona.lab.attacks.target import AttackTarget, Numbers, RandomGenerator, Secrets, Sets, guess_bits


def averaging_attack(target: AttackTarget, *, times: int) -> Secrets:
    """Return every person's secret by averaging repeated answers to the same question.

    If an answer is refused, the earlier ones are averaged.
    """
    if type(times) is not int or times < 1:
        raise InvalidArgument("times", times, "write how often to ask, 1 or more")
    answers = [target.individual_counts()]
    for _ in range(times - 1):
        try:
            answers.append(target.individual_counts())
        except Refused:
            continue  # another wording may still be answered
    return guess_bits(np.mean(answers, axis=0))


MOST_QUESTIONS = 1 << 16


def crowds(people: int, *, number: int, generator: RandomGenerator) -> Sets:
    """Return random groups, each followed by the same group with one person added or removed, for every person."""
    if type(number) is not int or number < 1:
        raise InvalidArgument("number", number, "write how many crowds to ask about, 1 or more")
    if number * (people + 1) > MOST_QUESTIONS:
        accepted = f"{people} people allow {MOST_QUESTIONS // (people + 1)} crowds, for {MOST_QUESTIONS} questions"
        raise InvalidArgument("number", number, accepted)
    first = generator.integers(0, 2, (number, 1, people)).astype(np.bool_)
    changed = np.concatenate((np.zeros((1, people), dtype=np.bool_), np.eye(people, dtype=np.bool_)))
    return (first ^ changed[None]).reshape(-1, people)


def reconstruct_from_differences(sets: Sets, answers: Numbers) -> Secrets:
    """Return the secrets by the mean difference between a group with a person and the same group without."""
    people = sets.shape[1]
    asked, counts = sets.reshape(-1, people + 1, people), answers.reshape(-1, people + 1)
    taken_out = asked[:, 0]
    difference = (counts[:, 1:] - counts[:, :1]) * np.where(taken_out, -1.0, 1.0)
    return guess_bits(difference.mean(axis=0))


def differencing_attack(target: AttackTarget, *, number: int, generator: RandomGenerator) -> Secrets:
    """Return every person's secret by differences of groups.

    Two harmless counts of groups that differ in one person reveal that person's secret. A rule that refuses small
    counts does not notice, and no query repeats: the groups differ every time.
    """
    sets = crowds(target.people, number=number, generator=generator)
    return reconstruct_from_differences(sets, target.counts(sets))
