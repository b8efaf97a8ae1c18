"""Runs attacks on Dodona in a fresh process, with patches applied if given, and prints what they recover.

    python -m dodona.lab.attacks.trial '{"seed": 1, "epsilon": "1", "delta": "0", "people": 128,
        "names": ["linear program"], "patches": []}'

Each outcome is one line of JSON. Exit code 70: a patched module was never imported, so nothing was tested.
"""

from __future__ import annotations

import json
import sys

from dodona.lab.audit.patch import install, patch_from_json

NEVER_IMPORTED = 70


def main(written: str) -> int:
    """Return the exit code of the requested run."""
    request = json.loads(written)
    finder = install(patch_from_json(patch) for patch in request.pop("patches"))
    from dodona.lab.attacks.catalogue import (
        TargetKind,
        run_attack,  # only now: these import what is patched
    )
    from dodona.lab.attacks.suite import AttackRequest, attack_generator

    asked = AttackRequest(**(request | {"names": tuple(request["names"])}))
    for attack in asked.attacks:
        outcome = run_attack(
            attack, TargetKind.MUTANT, generator=attack_generator(asked, attack, TargetKind.MUTANT), budget=asked.budget
        )
        line = {"attack": attack.name, "recovered": outcome.recovered, "total": outcome.total}
        print(json.dumps(line), flush=True)  # noqa: T201  its output
    return 0 if finder.used else NEVER_IMPORTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
