"""The pages of statements: accepted.sql and refused.sql."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def blocks(name: str) -> list[tuple[str, list[str]]]:
    """Return the statements of a page, each with the lines of comment that follow it."""
    statements = []
    for block in (_HERE / name).read_text("utf-8").split("\n\n"):
        lines = block.strip("\n").split("\n")
        notes = [line[3:] for line in lines if line.startswith("-- ")]
        text = "\n".join(line for line in lines if not line.startswith("-- "))
        if text:
            statements.append((text, notes))
    return statements
