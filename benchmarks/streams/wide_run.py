"""The product on streams over many columns: what it cost beside plans in hindsight, and how long each answer took."""

from __future__ import annotations

import multiprocessing
import resource
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, cast

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.streams import plans
from benchmarks.streams.asking import Asked, WideStream
from benchmarks.streams.certified import DELTA, cost_of
from benchmarks.streams.ladder import FREE, REFUSED, Spending
from benchmarks.streams.run import rounded
from benchmarks.streams.wide import WIDE
from dodona.answer.estimate import to_float
from dodona.curator.curator import Curator
from dodona.curator.ladder import OPTIONAL_RUNGS
from dodona.curator.planner import Planner
from dodona.curator.request import Dataset, Request
from dodona.engines.memory import MemorySource
from dodona.errors import Refused
from dodona.ledger import memory
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.sql.compile import read_questions

if TYPE_CHECKING:
    from dodona.answer.answer import Answer
    from dodona.ledger.ledger import Ledger
    from dodona.privacy.events import Event

PREFIXES = (50, 100, 500)
EPSILON = {"approximate": "50", "pure": "5000"}
"""Ample: the price is to be seen, not where it ends."""
_FAULTS = 3
BOUNDS = {"free_ms": 2.0, "measured_ms": 40.0, "worst_ms": 1500.0, "peak_mb": 600.0}
"""What each stream is to keep: CPU time of a free answer on average, a measured one at the median, of any; memory."""


def measured(  # noqa: PLR0913  all that a stream is run with
    name: str, length: int, data: Path | None, budget: str, rungs: Sequence[str], *, prepared: bool = False
) -> dict[str, object]:
    """Return the figures of one stream; it runs in a process of its own, so that its memory is its own."""
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1)
    with pool:
        return pool.submit(run_stream, name, length, data, budget, tuple(rungs), prepared=prepared).result()


def run_stream(  # noqa: PLR0913  likewise
    name: str, length: int, data: Path | None, budget: str, rungs: Sequence[str], *, prepared: bool = False
) -> dict[str, object]:
    """Return the figures of one stream, asked in this process."""
    stream = WIDE[name].stream(name, length, data)
    ledger = _ledger(stream, budget)
    curator = _curator(stream, ledger, frozenset(rungs))
    spending, seen = Spending(ledger), _Seen(stream)
    base = _peak()
    if prepared:
        _prepare(stream, curator)
        spending.follow(0)
    for turn, (asked, wording) in enumerate(stream.asked, 1):
        seen.ask(curator, asked, wording)
        spending.follow(turn)
    figures = seen.figures() | {"peak_mb": round(_peak(), 1), "peak_before_mb": round(base, 1)}
    turns = sorted({*(turn for turn in PREFIXES if turn < length), length})
    return figures | {"prefixes": {str(turn): _prefix(stream, spending, turn, budget) for turn in turns}}


def _prepare(stream: WideStream, curator: Curator) -> None:
    """Declare all questions before the first one, each with its tolerance."""
    names: dict[float, str] = {}
    texts = []
    for asked in dict.fromkeys(asked for asked, _ in stream.asked):
        name = names.setdefault(asked.within(stream.table, stream.share), f"answer_{len(names)}")
        texts.append(asked.text(stream.table, name=name))
    tolerances = {name: within for within, name in names.items()}
    curator.prepare(texts, within=tolerances, confidence=stream.confidence, max_price=1)


def _prefix(stream: WideStream, spending: Spending, turn: int, budget: str) -> dict[str, object]:
    spent = spending.cost(budget, until=turn).certified
    events = _singles(stream, turn, budget)
    best = {"singles": cost_of(Counter(events), budget=budget).certified}
    if budget != "pure":
        best |= plans.hindsight(stream, turn, [2 * float(event.rho()) for event in events])
    return {
        "ladder": rounded(spent),
        **{way: rounded(epsilon) for way, epsilon in best.items()},
        "ratio": rounded(spent / min(best.values())),
    }


def _singles(stream: WideStream, turn: int, budget: str) -> list[Event]:
    """Return the events of measuring each different question once."""
    planner = Planner(stream.table.schema.unit, _terms(budget), _ledger(stream, budget).share_each)
    return [
        planner.plan(read_questions(asked.text(stream.table), stream.table.schema), _request(stream, asked)).event
        for asked in dict.fromkeys(asked for asked, _ in stream.asked[:turn])
    ]


class _Seen:
    """What came of the questions so far."""

    def __init__(self, stream: WideStream) -> None:
        self._stream = stream
        self._held = self._cells = 0
        self._rungs: Counter[str] = Counter()
        self._times: dict[str, list[float]] = {}
        self._faults: list[str] = []
        self._worst = (0.0, "")

    def ask(self, curator: Curator, asked: Asked, wording: int) -> None:
        """Ask a question and compare its answer with the truth."""
        text = asked.text(self._stream.table, wording)
        within = asked.within(self._stream.table, self._stream.share)
        started = time.process_time()
        try:
            answer = cast("Answer", curator.ask(text, within=within, confidence=self._stream.confidence))
        except Refused:
            self._take(REFUSED, time.process_time() - started, text)
        except Exception:  # noqa: BLE001  every error is a finding
            self._take("error", time.process_time() - started, text)
            self._faults.append(f"{text}: {traceback.format_exc().splitlines()[-1]}")
        else:
            self._take(answer.source, time.process_time() - started, text)
            truth = asked.truth(self._stream.table)
            for row, value in zip(answer.rows, truth.tolist(), strict=True):
                estimate = row.estimates[0]
                if np.isfinite(value):
                    self._cells += 1
                    self._held += to_float(estimate.low) <= value <= to_float(estimate.high)

    def _take(self, source: str, seconds: float, text: str) -> None:
        self._rungs[source] += 1
        self._times.setdefault(source, []).append(1e3 * seconds)
        self._worst = max(self._worst, (1e3 * seconds, text))

    def figures(self) -> dict[str, object]:
        """Return it all, times in milliseconds."""
        free = [milliseconds for source, times in self._times.items() if source in FREE for milliseconds in times]
        bought = self._times.get("measured", [])
        return {
            "rungs": dict(self._rungs),
            "free_ms": rounded(fmean(free)) if free else None,
            "measured_ms": rounded(median(bought)) if bought else None,
            "worst_ms": rounded(self._worst[0]),
            "worst": self._worst[1],
            "coverage": rounded(self._held / self._cells) if self._cells else None,
            "errors": self._faults[:_FAULTS],
        }


def _request(stream: WideStream, asked: Asked) -> Request:
    return Request(within=asked.within(stream.table, stream.share), epsilon=None, confidence=stream.confidence)


def _curator(stream: WideStream, ledger: Ledger, rungs: frozenset[str]) -> Curator:
    schema = stream.table.schema
    source = MemorySource(schema, stream.table.frame())
    default = Request(within="1%", epsilon=None, confidence=stream.confidence)
    dataset = Dataset(name=schema.table, schema=schema, source=source, ledger=ledger, default=default)
    return Curator(dataset, rungs=rungs)


def _ledger(stream: WideStream, budget: str) -> Ledger:
    schema = stream.table.schema
    return memory.create_memory_ledger(
        LedgerTerms(datasets={schema.table: schema.digest}, neighbours=schema.unit.neighbours, budget=_terms(budget))
    )


def _terms(budget: str) -> Budget:
    accountant, delta = ("pure", 0) if budget == "pure" else ("either", DELTA)
    return Budget(EPSILON[budget], delta, accountant)


def _peak() -> float:
    """Return the most memory this process has held, in MB; what `getrusage` says goes back to before it was started."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(name: str, figures: dict[str, object]) -> None:
    """Print one stream as a table."""
    table = Table(title=f"{name}: {WIDE[name].about}", title_justify="left")
    prefixes = cast("dict[str, dict[str, object]]", figures["prefixes"])
    names = list(dict.fromkeys(way for prefix in prefixes.values() for way in prefix))
    for column in ("questions", *names):
        table.add_column(column, justify="right", no_wrap=True)
    for turn, prefix in prefixes.items():
        table.add_row(turn, *("-" if prefix.get(way) is None else f"{prefix[way]:.4g}" for way in names))
    Console().print(table)
    times = ", ".join(f"{kind} {figures[kind]} (at most {most:g})" for kind, most in BOUNDS.items())
    Console().print(f"{times}; {figures['rungs']}; held {figures['coverage']}; errors {figures['errors']}")
    Console().print(f"slowest: {cast('str', figures['worst'])[:200]}")


RUNGS = tuple(sorted(OPTIONAL_RUNGS))
