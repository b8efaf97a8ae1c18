"""Reconstruction by linear programming: count a few random sets for each person, and find the table that fits best.

Dinur and Nissim 2003; minimizing the sum of deviations follows Dwork, McSherry and Talwar 2007. It succeeds where the
noise of each answer is well below √n.
"""

from __future__ import annotations

import numpy as np

from dodona.errors import InvalidArgument, InvalidRequest, Unavailable
from dodona.lab.attacks.target import AttackTarget, Numbers, RandomGenerator, Secrets, Sets, guess_bits

MOST_PEOPLE = 1000
MOST_QUESTIONS = 8000
PER_PERSON = 4


class SolverMissing(InvalidRequest):
    """SciPy is missing, whose solver this attack needs."""

    code = "solver-missing"

    def __init__(self) -> None:
        """Say what to install."""
        super().__init__("The linear-programming attack needs SciPy's HiGHS solver: install scipy.")


class SolverFailed(Unavailable):
    """The solver failed, so nothing was recovered."""

    code = "solver-failed"

    def __init__(self, status: int) -> None:
        """Give SciPy's status."""
        super().__init__(f"The linear program was not solved (status {status}). Ask fewer questions.")


def random_sets(people: int, *, questions: int, generator: RandomGenerator) -> Sets:
    """Return random sets; each contains a person with probability 1/2."""
    validate_people(people)
    if not people <= questions <= MOST_QUESTIONS:
        accepted = f"ask from {people}, one for each person, to {MOST_QUESTIONS} questions"
        raise InvalidArgument("questions", questions, accepted)
    return generator.integers(0, 2, (questions, people)).astype(np.bool_)


def validate_people(people: int) -> int:
    """Return the number of people, if the solver can handle it."""
    if type(people) is not int or not 1 <= people <= MOST_PEOPLE:
        raise InvalidArgument("people", people, f"this attack is for 1 to {MOST_PEOPLE} people: attack a part of them")
    return people


def reconstruct(sets: Sets, answers: Numbers) -> Secrets:
    """Return the rounded table in [0, 1]^n whose counts have the least total deviation from the answers."""
    questions, people = sets.shape
    if answers.shape != (questions,) or not np.isfinite(answers).all():
        raise InvalidArgument("answers", answers.shape, f"write a number for each of the {questions} sets")
    try:
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, eye_array, hstack
    except ImportError as error:
        raise SolverMissing from error
    # set · secrets + below - above = answer; minimize below + above
    each = eye_array(questions)
    equal = hstack([csr_array(sets.astype(np.float64)), each, -each], format="csc")
    cost = np.repeat((0.0, 1.0), (people, 2 * questions))
    bounds = [(0.0, 1.0)] * people + [(0.0, None)] * (2 * questions)
    solved = linprog(cost, A_eq=equal, b_eq=answers, bounds=bounds, method="highs")
    if solved.x is None:
        raise SolverFailed(int(solved.status))
    return guess_bits(solved.x[:people])


def attack(target: AttackTarget, *, generator: RandomGenerator, per_person: int = PER_PERSON) -> Secrets:
    """Return every person's secret, as far as answers about random sets reveal them."""
    sets = random_sets(target.people, questions=per_person * target.people, generator=generator)
    return reconstruct(sets, target.counts(sets))
