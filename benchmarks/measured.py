"""Writes docs/measured.md: the figures of every benchmark and of the full audit, as this machine gave them."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path("docs/measured.md")
COMMANDS = {
    "Noise": ("benchmarks", "noise"),
    "Accounting": ("benchmarks", "accounting"),
    "Ledger": ("benchmarks", "ledger"),
    "SQL": ("benchmarks", "sql"),
    "Beliefs": ("benchmarks", "weights"),
    "Server": ("benchmarks", "server"),
    "Sources": ("benchmarks", "sources"),
    "Audit": ("dodona.cli", "audit"),
    "Random sessions": ("tests.sessions", "figures"),
}


def main() -> None:
    """Run each command with --json and write what its last line says."""
    when = datetime.now(UTC).date().isoformat()
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    parts = [
        "# Measured",
        f"Written by `make soak` on {when}: {machine}. Figures are of one run on one machine; trust ratios.",
    ]
    for title, (module, name) in COMMANDS.items():
        print(f"{title} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", module, name, "--json"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603  named above
        figures = json.loads(done.stdout.splitlines()[-1])
        rows = "\n".join(f"| {label} | {value} |" for label, value in _flat(figures))
        parts.append(f"## {title}\n\n`python -m {module} {name} --json`\n\n| figure | value |\n|---|---:|\n{rows}")
    PAGE.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _flat(figures: dict[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every number with the words that lead to it; beside a known value only how far ours is from it."""
    for name, value in figures.items():
        label = f"{prefix}{name}"
        if isinstance(value, dict) and "relative_difference" in value:
            yield label, f"{value['ours']:.8g} ({value['relative_difference']:+.0e})"
        elif isinstance(value, dict):
            yield from _flat(value, f"{label}, ")
        elif value is None:
            yield label, "not measured"
        else:
            yield label, f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
