"""Random sessions through the public door hold all invariants, and the driver that says so can catch faults.

The sessions of each case are those of stated seeds; the noise is drawn anew each time. Whether intervals hold as often
as they promise is tested for all of them together at a false-alarm rate of 1e-9.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from dodona.lab.audit.patch import apply
from tests.house.tree import ROOT
from tests.sessions.faults import FAULTS
from tests.sessions.figures import FIGURES, batch, explained, tail
from tests.sessions.question import Aggregate, Question
from tests.sessions.run import Broken, Sample, run
from tests.sessions.session import Ask, Reopen, Request, Session, Wrong, session
from tests.sessions.shrink import script, shrunk
from tests.sessions.squares import Evidence

SESSIONS = 10
BATCHES = 3


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=[pytest.mark.slow] if number > 1 else []) for number in range(BATCHES)]
)
def test_random_sessions_hold_every_invariant(number: int):
    first = number * SESSIONS
    outcome = batch(range(first, first + SESSIONS))
    assert not outcome.broken, "\n\n".join([*map(str, outcome.broken), *explained(outcome, most=1)])
    assert not outcome.figures.failing(), "\n".join(outcome.figures.lines())
    assert outcome.figures.counts["sessions"] == SESSIONS


@pytest.mark.soak
def test_ten_thousand_random_sessions_hold_every_invariant():
    done = subprocess.run(
        [sys.executable, "-m", "tests.sessions", "run", "--sessions", "10000", "--jobs", "2", "--json"],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:]
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text(done.stdout.splitlines()[-1], encoding="utf-8")
    assert json.loads(FIGURES.read_text(encoding="utf-8"))["broken"] == 0


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.soak] if {"narrow", "older"} & {*name.split()} else []) for name in FAULTS],
)  # that intervals fail too often takes some 2,000 of them to see at this false-alarm rate; rows seldom change
def test_sessions_notice_a_planted_fault(forked, name: str):
    done = forked("tests.sessions.faults", name)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "noticed after" in done.stdout, done.stderr  # an error of the driver has the same exit code


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_fits_the_code_as_it_is(name: str):
    for patch in FAULTS[name].patches:
        path = ROOT.joinpath("src", *patch.module.split(".")).with_suffix(".py")
        text = path.read_text(encoding="utf-8")
        assert apply(patch, text) != text


def test_a_seed_is_one_session_and_another_seed_another():
    assert session(5) == session(5)
    assert session(5) != replace(session(6), seed=5)


def test_a_failing_session_shrinks_to_its_one_guilty_step_and_prints_python_that_runs():
    guilty = Ask(Question((Aggregate("count"), Aggregate("avg", "guilty"))), Request(epsilon="1"), words=3, key="k")

    def fails(found: Session) -> Broken | None:
        asked = [term for step in found.steps if isinstance(step, Ask) for term in step.question.terms]
        return Broken("it", "fails") if Aggregate("avg", "guilty") in asked else None

    whole = session(12)
    column = replace(next(candidate for candidate in session(3).dataset.columns), name="guilty")
    whole = replace(whole, dataset=replace(whole.dataset, columns=(*whole.dataset.columns, column)))
    whole = replace(whole, steps=(*whole.steps, guilty, *session(13).steps[:2]))
    small, failure = shrunk(whole, Broken("it", "fails"), fails=fails)
    assert small.steps == (Ask(Question((Aggregate("avg", "guilty"),)), Request(epsilon="1")),)
    assert [column.name for column in small.dataset.columns] == ["guilty"]
    assert small.dataset.rows == 0
    text = script(small, failure)
    assert text.splitlines()[-1] == "print(t0.ask('SELECT avg(guilty) FROM t', epsilon='1', max_price='100%'))"
    compile(text, "script", "exec")


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(5_000_149, id="one question of a batch for the price of all"),
        pytest.param(83_000_002, id="a key of rows that changed since"),
        pytest.param(83_000_282, id="a key under which nothing was paid for"),
        pytest.param(83_000_171, id="counts that were measured beside people"),
        pytest.param(83_000_362, id="a share that is NULL in every row"),
        pytest.param(85_000_262, id="more accuracy under a key that the command paid with"),
        pytest.param(84_000_051, id="an average that is NULL in every row"),
    ],
)
def test_what_is_promised_by_nobody_is_not_expected(seed: int):
    run(session(seed))


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(302_000_927, id="a part of a statement was told better before"),
        pytest.param(603_000_033, id="a part of a batch follows from nothing"),
    ],
)
def test_sessions_that_broke_an_invariant_hold_it_now(seed: int):
    run(session(seed))


def test_a_session_that_fails_when_it_is_opened_again_prints_what_was_asked_again_and_nothing_after():
    asked = Ask(Question((Aggregate("count"),)), Request(epsilon="1"))
    whole = replace(session(12), steps=(asked, Reopen(), Wrong("")))

    def fails(found: Session) -> Broken | None:
        if asked not in found.steps or Reopen() not in found.steps:
            return None
        broken = Broken("it", "fails", found.steps.index(Reopen()))
        broken.further = (f"print({len(found.steps)})",)
        return broken

    first = fails(whole)
    assert first is not None
    small, failure = shrunk(whole, first, fails=fails)
    assert small.steps == (asked, Reopen())
    lines = script(small, failure).splitlines()
    assert [lines[-4], lines[-3], lines[-1]] == ["print(2)", "t0.close()", "print(2)"]


def test_another_error_is_another_failure():
    failure, other = Broken("no error but refusals", "x"), Broken("no error but refusals", "x")
    failure.__cause__, other.__cause__ = ValueError(), KeyError()
    assert failure.kind != other.kind
    whole = session(12)
    assert shrunk(whole, failure, fails=lambda _: other)[0] == whole


def test_the_best_estimate_weighs_what_was_told_by_its_variance():
    evidence = Evidence(np.array([[1.0, 0], [1, 0], [1, 1]]), np.array([4.0, 10, 20]), np.array([1.0, 2, 3]), None)
    assert evidence.best(np.array([1.0, 0])) == pytest.approx((6, 2 / 3))
    assert evidence.best(np.array([0, 1.0])) == pytest.approx((14, 3 + 2 / 3))
    assert replace(
        evidence, rows=20, vectors=evidence.vectors[:2], numbers=evidence.numbers[:2], variances=evidence.variances[:2]
    ).best(np.array([0, 1.0])) == pytest.approx((14, 2 / 3))
    assert (
        Evidence(evidence.vectors[2:], evidence.numbers[2:], evidence.variances[2:], None).best(np.array([1.0, 0]))
        is None
    )


def test_a_tail_is_that_of_the_binomial_law():
    held, failed = (Sample("count", "measured", 0.5, held=outcome) for outcome in (True, False))
    assert tail(Counter({held: 1, failed: 1})) == pytest.approx(0.75)
    assert tail(Counter({failed: 10})) == pytest.approx(2**-10)
    other = Sample("count", "measured", 0.1, held=True)
    assert tail(Counter({failed: 1, other: 1})) == pytest.approx(1 - 0.5 * 0.9)
