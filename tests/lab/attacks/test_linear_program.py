"""Reconstruction by linear programming. Tables, sets and noise come from seeds, so nothing here is left to luck."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dodona.errors import InvalidArgument, Unavailable
from dodona.lab.attacks.linear_program import SolverFailed, attack, random_sets, reconstruct
from dodona.lab.attacks.target import Exact, UnderNoised, laplace_noise, random_secrets, seeded_generator


def share(people: int, scale: float, seed: int) -> float:
    generator = seeded_generator(seed)
    secrets = random_secrets(people, generator)
    target = Exact(secrets) if scale == 0 else UnderNoised(Exact(secrets), laplace_noise(scale, generator))
    return float(np.mean(attack(target, generator=generator) == secrets))


@pytest.mark.parametrize("people", [1, 30, 200])
def test_exact_answers_give_everything_away(people: int):
    assert share(people, 0, seed=1) == 1


def test_noise_well_below_the_root_of_n_does_not_help():
    assert share(200, 1.0, seed=2) >= 0.99


def test_noise_well_above_the_root_of_n_does():
    """With noise of 200 people in counts of about 50 the attack is near a coin; 0.7 would be 5.6 deviations off."""
    assert 0.3 < share(200, 200.0, seed=3) < 0.7


def test_as_many_questions_as_people_are_enough_without_noise():
    generator = seeded_generator(4)
    secrets = random_secrets(60, generator)
    sets = random_sets(60, questions=60, generator=generator)
    assert np.linalg.matrix_rank(sets.astype(float)) == 60
    assert (reconstruct(sets, Exact(secrets).counts(sets)) == secrets).all()


@pytest.mark.parametrize(
    ("people", "questions", "said"),
    [(0, 10, "1 to 1000 people"), (1001, 4004, "1 to 1000 people"), (10, 9, "ask from 10"), (10, 8001, "to 8000")],
)
def test_sizes_that_the_solver_cannot_take_are_refused(people: int, questions: int, said: str):
    with pytest.raises(InvalidArgument, match=said):
        random_sets(people, questions=questions, generator=seeded_generator(1))


@pytest.mark.parametrize("answers", [np.zeros(3), np.full(4, np.nan), np.full(4, np.inf)])
def test_answers_that_do_not_fit_the_sets_are_refused(answers: np.ndarray):
    with pytest.raises(InvalidArgument, match="a number for each of the 4 sets"):
        reconstruct(np.ones((4, 2), dtype=np.bool_), answers)


def test_without_scipy_the_attack_says_what_to_install():
    code = (
        "import sys; sys.modules['scipy.optimize'] = None\n"
        "import numpy as np\n"
        "from dodona.lab.attacks.linear_program import SolverMissing, reconstruct\n"
        "try:\n"
        "    reconstruct(np.ones((2, 2), dtype=bool), np.ones(2))\n"
        "except SolverMissing as error:\n"
        "    print(error.code, error, error.exit_code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = "The linear-programming attack needs SciPy's HiGHS solver: install scipy. Nothing was charged."
    assert done.stdout == f"solver-missing {said} 2\n"


def test_a_solver_that_gives_up_is_our_fault():
    assert isinstance(SolverFailed(1), Unavailable)
    assert "status 1" in str(SolverFailed(1))
