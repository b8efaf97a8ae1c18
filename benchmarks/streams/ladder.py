"""The product itself on a stream: one question after the other, through the public surface."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, cast

import numpy as np

from benchmarks.streams.baselines import turns
from benchmarks.streams.certified import DELTA, Cost, cost_of
from benchmarks.streams.run import Run, Trail
from benchmarks.streams.stream import Stream
from dodona.answer.estimate import to_float
from dodona.curator.curator import Curator
from dodona.curator.ladder import OPTIONAL_RUNGS
from dodona.curator.request import Dataset, Request
from dodona.engines.memory import MemorySource
from dodona.errors import Refused
from dodona.ledger import memory
from dodona.ledger.entries import Charged, entry_from_json
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget

if TYPE_CHECKING:
    from dodona.answer.answer import Answer
    from dodona.privacy.events import Event
    from dodona.trusted.source import Source

FREE = frozenset({"replayed", "derived"})
REFUSED = "refused"
Progress = Callable[[int], None]
"""Is told how many questions more were asked."""
_AT_A_TIME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How the product is to answer."""

    budget: str
    """approximate or pure."""
    epsilon: str
    """The whole budget."""
    rungs: frozenset[str] = OPTIONAL_RUNGS
    prepared: bool = False
    """Whether all questions are declared before the first one."""


def source_of(stream: Stream) -> Source:
    """Return the stream's table in memory."""
    return MemorySource(stream.schema, stream.columns)


def climbed(stream: Stream, source: Source, way: Way, progress: Progress) -> Run:
    """Return one run of a stream over a fresh ledger."""
    ledger = _ledger(stream, way)
    default = Request(within=stream.within, epsilon=None, confidence=stream.confidence)
    dataset = Dataset(name=stream.schema.table, schema=stream.schema, source=source, ledger=ledger, default=default)
    curator = Curator(dataset, rungs=way.rungs)
    spending = Spending(ledger)
    if way.prepared:
        queries = [stream.query(number) for number in range(len(stream.questions))]
        curator.prepare(queries, within=stream.within, confidence=stream.confidence)
        spending.follow(0)
    seen = _Seen(stream)
    for turn, number in enumerate(stream.asked.tolist(), 1):
        query = stream.query(number)
        started = time.process_time_ns()
        try:
            answer = curator.ask(query, within=stream.within, confidence=stream.confidence)
        except Refused:
            seen.rungs[REFUSED] += 1
        else:
            seen.take(number, cast("Answer", answer), time.process_time_ns() - started)
        spending.follow(turn)
        if turn % _AT_A_TIME == 0:
            progress(_AT_A_TIME)
    progress(len(stream.asked) % _AT_A_TIME)
    return seen.run(spending.cost(way.budget), spending.trail(way.budget, len(stream.asked)))


class _Seen:
    """What came of the questions so far."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._truths = stream, stream.truths()
        self._errors = np.full(len(stream.questions), np.nan)
        self._held = 0
        self._free: list[int] = []
        self.rungs: Counter[str] = Counter()

    def take(self, number: int, answer: Answer, nanoseconds: int) -> None:
        """Take an answer; of a question that is asked again, its first error counts."""
        value, truth = answer.value, self._truths[number]
        error = float(value) - truth
        if np.isnan(self._errors[number]):
            self._errors[number] = error
        self._held += to_float(value.low) <= truth <= to_float(value.high)
        self.rungs[answer.source] += 1
        if answer.source in FREE:
            self._free.append(nanoseconds)

    def run(self, cost: Cost, trail: Trail) -> Run:
        """Return it all."""
        errors = np.abs(self._errors[~np.isnan(self._errors)])
        answers = self.rungs.total() - self.rungs[REFUSED]
        rungs = {name: count for name, count in self.rungs.items() if count}
        return Run(
            cost=cost,
            max_error=float(errors.max()) / self._stream.rows if errors.size else None,
            beyond=float((errors > self._stream.within).mean()) if errors.size else None,
            coverage=self._held / answers if answers else None,
            rungs=rungs,
            microseconds=median(self._free) / 1e3 if self._free else None,
            trail=trail,
        )


class Spending:
    """What a ledger was charged with, and until which turn."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._head, self._read = ledger.head, len(ledger.lines())
        self._charges: list[tuple[int, Event]] = []

    def follow(self, turn: int) -> None:
        """Read what was written since."""
        if self._ledger.head == self._head:
            return
        self._head = self._ledger.head
        for line in self._ledger.lines()[self._read :]:
            self._read += 1
            match entry_from_json(line.text, number=line.number):
                case Charged(event=event):
                    self._charges.append((turn, event))
                case _:
                    pass

    def cost(self, budget: str, *, until: int | None = None) -> Cost:
        """Return what all events cost together."""
        return cost_of(Counter(event for turn, event in self._charges if until is None or turn <= until), budget=budget)

    def trail(self, budget: str, last: int) -> Trail:
        """Return the ε until some turns; turns between which nothing was charged share one."""
        trail: list[tuple[int, float]] = []
        before, known = -1, 0.0
        for turn in turns(last):
            charged = sum(1 for charged_at, _ in self._charges if charged_at <= turn)
            if charged != before:
                before, known = charged, self.cost(budget, until=turn).certified
            trail.append((turn, known))
        return trail


def _ledger(stream: Stream, way: Way) -> Ledger:
    accountant, delta = ("pure", 0) if way.budget == "pure" else ("either", DELTA)
    return memory.create_memory_ledger(
        LedgerTerms(
            datasets={stream.schema.table: stream.schema.digest},
            neighbours=stream.schema.unit.neighbours,
            budget=Budget(way.epsilon, delta, accountant),
        )
    )


def epsilon_until(runs: Sequence[Run], turn: int) -> list[float]:
    """Return for each run what it had spent until a turn."""
    return [max((epsilon for at, epsilon in run.trail if at <= turn), default=0.0) for run in runs]
