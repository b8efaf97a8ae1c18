"""All attacks together: they break what has no noise, and the copy of Dodona whose noise was taken out; not Dodona."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import dodona.trusted.gate
from dodona.errors import InvalidArgument
from dodona.lab.attacks import report
from dodona.lab.attacks.catalogue import Outcome, TargetKind, attacks
from dodona.lab.attacks.suite import (
    NOISE_OFF,
    AttackRequest,
    AttackResult,
    attack_generator,
    failures,
    make_request,
    run_attacks,
    without_noise,
)
from dodona.lab.attacks.trial import NEVER_IMPORTED
from dodona.lab.audit.patch import apply

NAMES = tuple(attack.name for attack in attacks())


def request(*names: str, people: int = 64) -> AttackRequest:
    return AttackRequest(3, "1", "0", people, names or NAMES)


def result(target: TargetKind, recovered: int, luck: float) -> AttackResult:
    return AttackResult(attack="a", target=target, outcome=Outcome(recovered, 100), bound=0.731, luck=luck)


def test_the_noise_can_still_be_taken_out():
    text = Path(dodona.trusted.gate.__file__).read_text(encoding="utf-8")
    assert apply(NOISE_OFF, text) != text


@pytest.mark.parametrize(
    ("target", "recovered", "luck", "passed"),
    [
        (TargetKind.EXACT, 99, 1e-9, True),
        (TargetKind.EXACT, 98, 1e-9, False),
        (TargetKind.MUTANT, 99, 1e-9, True),
        (TargetKind.MUTANT, 98, 1e-9, False),
        (TargetKind.UNDER_NOISED, 95, 1e-7, True),
        (TargetKind.UNDER_NOISED, 90, 1e-5, False),
        (TargetKind.DODONA, 73, 0.5, True),
        (TargetKind.DODONA, 90, 1.1e-6, True),
        (TargetKind.DODONA, 95, 0.9e-6, False),
    ],
)
def test_what_is_as_it_should_be(target: TargetKind, recovered: int, luck: float, *, passed: bool):
    outcome = result(target, recovered, luck)
    assert outcome.passed is passed
    assert failures([outcome]) == (() if passed else (outcome,))


def test_a_part_of_a_name_chooses_attacks():
    assert make_request(seed=1, epsilon="1", delta="0", people=128, only="Line").names == ("linear program",)
    assert make_request(seed=1, epsilon="1", delta="0", people=128, only=None).names == NAMES


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"only": "nonsense"}, "exponential adversary, linear program"),
        ({"people": 1001}, "1 to 1000 people"),
        ({"seed": -1}, "0 or above"),
        ({"epsilon": "0"}, "epsilon"),
        ({"epsilon": "much"}, "epsilon"),
        ({"delta": "2"}, "delta"),
        ({"delta": "little"}, "delta"),
        ({"epsilon": "1000"}, "epsilon"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_anything_is(changed: dict[str, object], said: str):
    wanted: dict[str, object] = {"seed": 1, "epsilon": "1", "delta": "0", "people": 128, "only": None}
    with pytest.raises(InvalidArgument, match=said):
        make_request(**(wanted | changed))  # type: ignore[arg-type]


def test_leaving_attacks_out_changes_no_table():
    chosen = {attack.name: attack for attack in attacks()}["linkage"]
    drawn = [attack_generator(asked, chosen, TargetKind.DODONA).random() for asked in (request(), request("linkage"))]
    assert drawn[0] == drawn[1]
    assert drawn[0] != attack_generator(request(), chosen, TargetKind.EXACT).random()


@pytest.mark.slow
@pytest.mark.share(3)
@pytest.mark.parametrize("names", [NAMES[:2], NAMES[2:4], NAMES[4:]], ids=" and ".join)
def test_every_attack_passes_and_the_mutant_is_broken(names: tuple[str, ...]):
    """At least 100 secrets an attack; a false alarm comes once in a million runs for each attack."""
    heard: list[str] = []
    wanted = request(*names)
    results = run_attacks(wanted, progress=lambda done, total, name: heard.append(f"{done}/{total} {name}"))
    assert [(attack_result.attack, attack_result.target) for attack_result in results] == [
        (name, kind) for name in names for kind in TargetKind
    ]
    assert min(attack_result.outcome.total for attack_result in results) >= 100
    assert failures(results) == ()
    for attack_result in results:
        if attack_result.target in {TargetKind.EXACT, TargetKind.MUTANT}:
            assert attack_result.outcome.share >= 0.99
    steps = 3 * len(names) + 1
    assert heard[-1] == f"{steps}/{steps} the mutant without noise"
    shown = report.rows(results)
    assert len(shown) == 4 * len(names)
    assert {row[5] for row in shown} == {"beyond", "within"}
    figures = report.summary(wanted, results)
    assert figures["passed"] is True
    assert json.loads(json.dumps(figures)) == figures


@pytest.mark.slow
def test_a_trial_without_the_patch_is_dodona():
    """128 secrets; 0.99 of them would be an alarm at far below one in a million."""
    assert without_noise(request("linear program"))["linear program"].share >= 0.99
    written = json.dumps(
        {"seed": 3, "epsilon": "1", "delta": "0", "people": 64, "names": ["linear program"], "patches": []}
    )
    command = [sys.executable, "-m", "dodona.lab.attacks.trial", written]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    line = json.loads(done.stdout)
    assert line["recovered"] < 0.99 * line["total"]


@pytest.mark.slow
def test_a_patch_that_is_never_used_is_noticed():
    patches = [{"module": "dodona.nowhere", "old": ["a"], "new": ["b"]}]
    written = json.dumps({"seed": 3, "epsilon": "1", "delta": "0", "people": 64, "names": [], "patches": patches})
    command = [sys.executable, "-m", "dodona.lab.attacks.trial", written]
    assert subprocess.run(command, capture_output=True, check=False).returncode == NEVER_IMPORTED
