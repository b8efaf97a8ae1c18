"""A reduced audit: nothing right is refuted, every mutant is caught, and a trial that breaks counts as neither."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dodona.errors import InvalidArgument, InvariantBroken
from dodona.lab.audit import report
from dodona.lab.audit.audit import REDUCED, Audit, Capture, Run, Trial, correct_trials, run_audit, run_trial
from dodona.lab.audit.cases.case import AuditCase
from dodona.lab.audit.examine import AuditResult, all_cases
from dodona.lab.audit.mutants import MUTANTS
from dodona.lab.audit.patch import Mutant, replace_lines
from dodona.schema.schema import Neighbours

SHARES = {case.name: case.share for case in all_cases()}
FEWEST = 100  # samples a table: the bound takes no fewer
RIGHT = [
    replace(trial, count=max(REDUCED // 4, FEWEST * share)) if (share := SHARES[trial.cases[0]]) > 1 else trial
    for trial in correct_trials(REDUCED)
]
"""Slow cases take a quarter of the samples, which clear mutants are caught by, but no fewer than the bound takes."""
SLOW = [trial for trial in RIGHT if trial.count < REDUCED]
CLEAR = frozenset(
    {
        "clamped at a bound from the data",
        "empty group served without noise",
        "error on an empty group",
        "four redraws under one charge",
        "key shown only if present",
        "largest groups found before noise",
        "noise of one block used for the next",
        "price of the planner trusted",
        "sparse vector answers exactly",
        "sparse vector, algorithm 5",
        "sum wraps at 32 bits",
        "threshold without noise",
    }
)
"""Slow mutants that a quarter of the samples gives away even if each bound may fail once in 10^18 only."""
LONG = frozenset({"number of rows released under add-remove", "sparse vector, algorithm 3"})
"""Mutants that take most of a minute to be caught; others of their kind are caught in `make test`."""
QUICK = 2_000
_FEW = 30
FINDING = AuditResult(
    case="laplace count",
    mechanism="laplace",
    neighbours="replace",
    measure="epsilon",
    claim=1.0,
    certified=0.9,
    feature="value",
    count=1,
)


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.distribution
@pytest.mark.parametrize("trial", RIGHT, ids=lambda trial: trial.name)
def test_a_right_mechanism_stays_below_its_claim(trial: Trial, forked: Run):
    """2·10^5 samples a table, a share of 5·10^4 in slow cases; false alarm 1e-6 a case, 10^-4 in the soak."""
    for result in run_trial(trial, run=forked):
        assert not result.violated, result


@pytest.mark.soak
@pytest.mark.distribution
@pytest.mark.parametrize("trial", SLOW, ids=lambda trial: trial.name)
def test_a_right_mechanism_that_is_slow_stays_below_its_claim(trial: Trial, forked: Run):
    """A share of 2·10^5 samples a table; false alarm 1e-6 a case."""
    for result in run_trial(replace(trial, count=REDUCED), run=forked):
        assert not result.violated, result


@pytest.mark.slow
@pytest.mark.share(6)
@pytest.mark.distribution
@pytest.mark.parametrize(
    "mutant",
    [pytest.param(mutant, id=mutant.name, marks=pytest.mark.soak if mutant.name in LONG else ()) for mutant in MUTANTS],
)
def test_a_mutant_is_caught(mutant: Mutant, forked: Run):
    """2·10^5 samples a table, 5·10^4 of clear ones, or a share of that."""
    assert_caught(mutant, REDUCED // 4 if mutant.name in CLEAR else REDUCED, run=forked)


@pytest.mark.soak
@pytest.mark.distribution
@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if mutant.name in CLEAR], ids=lambda mutant: mutant.name
)
def test_a_mutant_that_is_clear_is_caught(mutant: Mutant, forked: Run):
    """A share of 2·10^5 samples a table."""
    assert_caught(mutant, REDUCED, run=forked)


def assert_caught(mutant: Mutant, count: int, *, run: Run) -> None:
    """A mutant is missed less than once in 10^4 audits, so by two of them less than once in 10^8 times."""
    trial = Trial(mutant.name, count, mutant.cases, mutant.patches)
    for _ in range(2):
        results = run_trial(trial, run=run)
        if Capture(mutant, results).caught:
            return
    raise AssertionError(results)


def test_clear_and_long_mutants_are_mutants():
    assert {mutant.name for mutant in MUTANTS} >= CLEAR | LONG


def test_every_mechanism_is_audited_under_every_relation_that_it_has():
    audited_under = {(case.mechanism, case.neighbours) for case in all_cases()}
    responses = {(name, Neighbours.REPLACE) for name in ("randomized_response", "coins", "local_report")}
    others = (
        "laplace", "gaussian", "rounded-gaussian", "exponential", "permute_and_flip", "noisy_max", "sparse_vector",
        "served",
    )  # fmt: skip
    assert audited_under == responses | {(name, neighbours) for name in others for neighbours in Neighbours}


def test_a_case_has_a_name_of_its_own_under_each_relation():
    names = [(case.name, case.neighbours) for case in all_cases()]
    assert len(set(names)) == len(names)


@pytest.mark.share(3)
@pytest.mark.slow
@pytest.mark.parametrize("case", list(all_cases()), ids=lambda case: f"{case.name}-{case.neighbours.value}")
def test_both_tables_tell_as_many_outputs_as_asked_for(case: AuditCase):
    first, second = case.draw(_FEW)
    for feature in case.features:
        assert feature.of(first).shape == feature.of(second).shape == (_FEW,)


def test_a_patch_that_does_not_apply_is_an_error_and_no_capture():
    with pytest.raises(InvariantBroken, match="occur 0 times"):
        run_trial(Trial("x", QUICK, ("coins",), (replace_lines("dodona.lab.direct", "no such line", "x"),)))


def test_a_patch_of_a_module_that_is_never_imported_is_an_error_and_no_capture():
    with pytest.raises(InvariantBroken, match="exit code 70"):
        run_trial(Trial("x", QUICK, ("coins",), (replace_lines("dodona.cli.main", "a", "b"),)))


def test_a_case_that_does_not_exist_is_an_error_and_no_capture():
    with pytest.raises(InvariantBroken, match="did not finish"):
        run_trial(Trial("x", QUICK, ("coin",)))


@pytest.mark.slow
def test_a_part_of_the_audit_can_be_run_and_tells_how_far_it_is():
    heard: list[tuple[int, int, str]] = []
    done = run_audit(QUICK, only="coin", progress=lambda *words: heard.append(words))
    assert {result.mechanism for result in done.results} == {"coins"}
    assert [capture.mutant.name for capture in done.captures] == ["first coin biased", "true bit set by two coins"]
    assert [(finished, total) for finished, total, _ in heard] == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_name_that_nothing_has_is_refused():
    with pytest.raises(InvalidArgument, match="part of"):
        run_audit(QUICK, only="nonsense", progress=lambda *_: None)


def test_an_audit_passes_only_if_all_is_below_and_all_is_caught():
    above = replace(FINDING, certified=1.1)
    caught, missed = Capture(MUTANTS[0], (FINDING, above)), Capture(MUTANTS[0], (FINDING,))
    assert Audit((FINDING,), (caught,)).passed
    assert not Audit((FINDING,), (missed,)).passed
    assert not Audit((above,), (caught,)).passed
    assert caught.clearest is above


def test_the_summary_counts_and_keeps_the_best_tightness():
    tighter = replace(FINDING, certified=0.97)
    assert report.summary(Audit((FINDING, tighter), (Capture(MUTANTS[0], (FINDING,)),))) == {
        "mechanisms": 2,
        "violations": 0,
        "mutants": 1,
        "caught": 0,
        "tightness": {"laplace": 0.97},
    }


def test_rows_say_what_a_reader_must_not_miss():
    above = replace(FINDING, certified=1.1)
    rows = report.case_rows(Audit((FINDING, above), ()))
    assert [row[-1] for row in rows] == ["holds", "VIOLATED"]
    captures = (Capture(MUTANTS[0], (FINDING,)), Capture(MUTANTS[0], (above,)))
    assert [row[-1] for row in report.mutant_rows(Audit((), captures))] == ["MISSED", "caught"]
