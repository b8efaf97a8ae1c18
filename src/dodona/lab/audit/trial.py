"""Audits some cases in a fresh process, with patches applied if given, and prints the results.

    python -m dodona.lab.audit.trial '{"count": 100000, "cases": ["laplace count"], "patches": []}'

Each result is one line of JSON, printed at once. Exit code 70: a patched module was never imported, so nothing was
tested.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from dodona.lab.audit.patch import install, patch_from_json

NEVER_IMPORTED = 70


def main(order: str) -> int:
    """Return the exit code of the requested run."""
    ordered = json.loads(order)
    finder = install(patch_from_json(patch) for patch in ordered["patches"])
    from dodona.lab.audit.examine import (
        all_cases,
        examine,  # only now: these import what is patched
    )

    for case in all_cases():
        if case.name in ordered["cases"]:
            print(json.dumps(asdict(examine(case, ordered["count"]))), flush=True)  # noqa: T201  its output
    return 0 if finder.used else NEVER_IMPORTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
