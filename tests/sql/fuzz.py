"""Feed made-up statements to the reader and, some of them, to a curator: each is answered or refused for nothing.

python -m tests.sql.fuzz --statements 100000 --seed 1 --write progress.txt
"""
# ruff: noqa: S311  made-up statements from a stated seed
# ruff: noqa: PT017  what a refusal says is part of what is tested

from __future__ import annotations

import argparse
import heapq
import random
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dodona.answer.answer import Answer
from dodona.answer.computed import ComputedAnswer
from dodona.curator.curator import Curator
from dodona.errors import DodonaError, InvalidRequest, Refused
from dodona.query.statement import Statement
from dodona.schema.schema import Schema
from dodona.sql.compile import read_statement
from dodona.sql.statement import check_statement
from tests.sql import grammar, soup

MUTATED, ODD = 6, 3
"""How many mutations and how many odd texts are read for each statement of the grammar."""
_KEPT = 20
_TOKENS = re.compile(r"\s+|'[^']*'|\w+|.", re.DOTALL)
_UNICODE = "\u0000\u00a0\u00e9\u2212\u200b\u202e\u2028\ufeff\ufffd\U0001f600\u0661\u00b2\u0130\u00df\ud7ff\U0010ffff"
_NESTS = (("(", ")"), ("NOT (", ")"), ("- ", ""), ("abs(", ")"), ("least(greatest(", ", 0), 9)"), ("round(", ", 1)"))
_NESTS = (*_NESTS, ("coalesce(", ", 1)"), ("CASE WHEN returned THEN ", " ELSE 2 END"), ("CAST(", " AS DOUBLE)"))
_NESTS = (*_NESTS, ("(SELECT ", ")"), ("SELECT * FROM (", ") AS deeper"), ("upper(", ")"), ("date_trunc('day', ", ")"))
_HERE = {
    "stays": "orders",
    "sex": "region",
    "age": "quantity",
    "stay": "discount",
    "admitted": "ordered",
    "emergency": "returned",
    "patient_id": "customer",
}
_THERE = re.compile("|".join(rf"\b{name}\b" for name in _HERE))


def texts(seed: int) -> Iterator[tuple[str, str]]:
    """Yield texts without end, each with its kind: of the grammar, such a statement mutated, or odd."""
    writer, draw = grammar.Writer(seed), random.Random(seed)
    before = writer.statement()
    while True:
        text = writer.statement()
        yield "grammar", text
        for _ in range(MUTATED):
            yield "mutated", mutate(draw, text, before)
        for _ in range(ODD):
            odd = soup.text(draw) if draw.random() < 0.7 else soup.statement(draw)
            yield "odd", _THERE.sub(lambda found: _HERE[found[0]], odd)
        before = text


def mutate(draw: random.Random, text: str, other: str) -> str:
    """Return a statement with tokens left out, exchanged, repeated, nested, or taken from elsewhere."""
    tokens, others = _TOKENS.findall(text), _TOKENS.findall(other)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        place, second = draw.randrange(len(tokens)), draw.randrange(len(tokens))
        match draw.randrange(9):
            case 0:
                del tokens[place : place + draw.choice((1, 1, 2, 5))]
            case 1:
                tokens[place], tokens[second] = tokens[second], tokens[place]
            case 2:
                tokens[place:place] = tokens[min(place, second) : min(place, second) + draw.choice((1, 3, 9))]
            case 3:
                cut = draw.randrange(len(tokens[place]) + 1)
                tokens[place] = tokens[place][:cut] + draw.choice(_UNICODE) + tokens[place][cut:]
            case 4:
                start = draw.randrange(len(others))
                tokens[place:place] = [" ", *others[start : start + draw.choice((1, 2, 6))], " "]
            case 5:
                tokens[place] = others[draw.randrange(len(others))]
            case 6:
                before, after = draw.choice(_NESTS)
                depth = draw.choice((1, 1, 2, 5, 17, 60))
                end = min(len(tokens), place + draw.choice((1, 1, 3, 7)))
                tokens[place:end] = [before * depth, *tokens[place:end], after * depth]
            case 7:
                tokens[place] = draw.choice(
                    ("0", "-1", "1e999", "99999999999999999999", "'", '"', "NULL", "*", ";", "--")
                )
            case _:
                del tokens[place:]
        tokens = tokens or ["SELECT"]
    return "".join(tokens)


@dataclass(slots=True)
class Feeder:
    """Reads statements one after another, asks some, and keeps what happened."""

    schema: Schema = grammar.NARROW
    fates: Counter[str] = field(default_factory=Counter)
    slowest: list[tuple[float, str]] = field(default_factory=list)
    """The texts that took the most CPU-seconds to read."""
    faults: list[str] = field(default_factory=list)
    _curator: Curator | None = None

    def feed(self, seed: int, statements: int, *, ask: int) -> None:
        """Read statements of a seed, and ask one in `ask` of those that are accepted."""
        accepted = 0
        for number, (kind, text) in zip(range(statements), texts(seed), strict=False):
            begin = time.process_time()
            try:
                fate = self._read(text)
                self._note(time.process_time() - begin, text)
                accepted += fate == "accepted"
                self.fates[f"{kind}, {fate}"] += 1
                if fate == "accepted" and accepted % ask == 0:
                    self.fates[self._ask(text)] += 1
            except Exception:  # noqa: BLE001  whatever it is, it is a fault, and the next text is read
                self.faults.append(f"text {number} of seed {seed}: {text!r}\n{traceback.format_exc(limit=-4)}")

    def _note(self, seconds: float, text: str) -> None:
        """Keep the slowest texts."""
        heapq.heappush(self.slowest, (seconds, text))
        if len(self.slowest) > _KEPT:
            heapq.heappop(self.slowest)

    def close(self) -> None:
        """Close the shop."""
        if self._curator is not None:
            self._curator.close()
            self._curator = None

    def _read(self, text: str) -> str:
        """Read a statement and rehearse its outer half."""
        try:
            statement = read_statement(text, self.schema)
            if isinstance(statement, Statement) and statement.sql:
                check_statement(statement)
        except InvalidRequest as fault:
            assert fault.charged is False
            assert str(fault).endswith("Nothing was charged.")
            return "refused"
        return "accepted"

    def _ask(self, text: str) -> str:
        """Ask a statement; what is charged is answered, and shown in every form."""
        if self._curator is None:
            self._curator = grammar.shop(self.schema)
        before = self._curator.budget.spent
        try:
            answer = self._curator.ask(text, epsilon=1)
        except (InvalidRequest, Refused) as fault:
            assert fault.charged is False
            assert self._curator.budget.spent == before, "charged without an answer"
            return "not asked"
        except DodonaError as fault:
            raise AssertionError(f"{type(fault).__name__}: {fault}") from fault
        for row in answer.rows:
            assert len(row.cells) == len(answer.columns)
        answer.to_json()
        if isinstance(answer, Answer | ComputedAnswer):  # EXPLAIN is answered by a text
            str(answer.simultaneous())
            assert answer.to_arrow().num_rows == len(answer.rows)
        if self._curator.budget.left < 0.5:
            self.close()
        return "asked"

    def report(self) -> str:
        """Return the counts, the slowest texts and all faults."""
        read = sum(count for fate, count in self.fates.items() if ", " in fate)
        slow = "\n".join(f"  {seconds:.2f} s  {text[:400]!r}" for seconds, text in sorted(self.slowest, reverse=True))
        return "\n".join((f"{read:,} read: {dict(sorted(self.fates.items()))}", "slowest:", slow, *self.faults, ""))


def main() -> int:
    """Feed statements in chunks of their own seeds, and write after each what happened so far."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ask", type=int, default=20, help="ask one in so many of the accepted ones")
    parser.add_argument("--chunk", type=int, default=5_000)
    parser.add_argument("--wide", action="store_true", help="columns with many values: slower to read")
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    feeder = Feeder(schema=grammar.SCHEMA if chosen.wide else grammar.NARROW)
    for number, start in enumerate(range(0, chosen.statements, chosen.chunk)):
        feeder.feed(chosen.seed + number, min(chosen.chunk, chosen.statements - start), ask=chosen.ask)
        said = f"seed {chosen.seed + number}, {time.process_time():,.0f} CPU-seconds: {feeder.report()}"
        (chosen.write or Path("/dev/stdout")).write_text(said, "utf-8", errors="backslashreplace")
    feeder.close()
    return 1 if feeder.faults else 0


if __name__ == "__main__":
    sys.exit(main())
