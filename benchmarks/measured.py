"""Writes docs/measured.md: the figures of every benchmark and of the full audit, as this machine gave them.

`python -m benchmarks.measured` writes all of it; with titles, such as `SQL Engines`, only those sections. A title may
be followed by options of its command, `"Engines --rows 1000000"`, which the page then names. The page is written after
each section, so that a run that is cut short leaves what it measured.
"""

from __future__ import annotations

import json
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path("docs/measured.md")
COMMANDS = {
    "Noise": ("benchmarks", "noise"),
    "Accounting": ("benchmarks", "accounting"),
    "Ledger": ("benchmarks", "ledger"),
    "SQL": ("benchmarks", "sql"),
    "Engines": ("benchmarks", "engines"),
    "Beliefs": ("benchmarks", "weights"),
    "Server": ("benchmarks", "server"),
    "Doors": ("benchmarks", "doors"),
    "Sources": ("benchmarks", "sources"),
    "Audit": ("dodona.cli", "audit"),
    "Random sessions": ("tests.sessions", "figures"),
}
_HEAD = (
    "# Measured\n\n"
    "Written by `make soak`, which runs the command of each section. "
    "Figures are of one run on one machine; trust ratios."
)


def main(titles: Sequence[str]) -> None:
    """Run each command with --json and write what its last line says."""
    chosen = {
        title.partition(" --")[0]: shlex.split(title)[len(title.partition(" --")[0].split()) :] for title in titles
    }
    chosen = chosen or {title: [] for title in COMMANDS}
    unknown = [title for title in chosen if title not in COMMANDS]
    if unknown:
        sys.exit(f"There is no section {', '.join(unknown)}. Write some of: {', '.join(COMMANDS)}.")
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    for title, options in chosen.items():
        print(f"{title} ...", file=sys.stderr, flush=True)
        module, name = COMMANDS[title]
        command = [sys.executable, "-m", module, name, "--json", *options]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603  named above
        rows = "\n".join(f"| {label} | {value} |" for label, value in _flat(json.loads(done.stdout.splitlines()[-1])))
        invocation = " ".join(("python -m", module, name, "--json", *options))
        when = f"`{invocation}` on {datetime.now(UTC).date().isoformat()}: {machine}."
        table = f"{when}\n\n| figure | value |\n|---|---:|\n{rows}"
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), {title: table}), encoding="utf-8")


def page(text: str, written: Mapping[str, str]) -> str:
    """Return the page with some sections written anew, in the order of the commands; the others stay."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    known = {title: body.strip() for title, body in zip(parts[1::2], parts[2::2], strict=True)} | dict(written)
    return "\n\n".join([_HEAD, *(f"## {title}\n\n{known[title]}" for title in COMMANDS if title in known)]) + "\n"


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
    main(sys.argv[1:])
