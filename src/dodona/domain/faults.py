"""What is said about a file that cannot be taken: every mistake in it, each with its line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dodona.errors import InvalidRequest


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One thing to put right: where, what is wrong, and what to write instead."""

    line: int
    """Counted from 1; 0 where the file as a whole is meant."""
    key: str
    """The dotted key, as in `columns.age.upper`; empty where there is none."""
    message: str


class InvalidFile(InvalidRequest):
    """A file has mistakes; all of them are told at once, in the order of their lines."""

    code = "invalid-file"

    def __init__(self, file: str, mistakes: Iterable[Mistake]) -> None:
        """Keep the mistakes, and of the first one the line and the key."""
        self.file = file
        self.mistakes = tuple(sorted(set(mistakes)))
        self.line = self.mistakes[0].line
        self.key = self.mistakes[0].key
        told = [f"{file}{f':{mistake.line}' if mistake.line else ''}: {mistake.message}" for mistake in self.mistakes]
        heading = [] if len(told) == 1 else [f"{file} has {len(told)} mistakes."]
        super().__init__("\n".join([*heading, *told]))
