"""What many sessions showed together: counts, and whether intervals held as often as they promise.

Each sample fails with probability `failing` at most, whatever came before it, so the number of failures is at most that
of independent coins in distribution (a supermartingale argument), and its tail is computed exactly.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from tests.house.tree import ROOT
from tests.sessions.run import Broken, Found, Sample, run
from tests.sessions.session import session
from tests.sessions.shrink import broken, script, shrunk

FIGURES = ROOT / "build" / "sessions.json"
"""Where the soak leaves what it counted, for docs/measured.md."""
FALSE_ALARM = 1e-9
"""Of all tests of one run together."""
_BATCH = 20
"""Sessions that a process takes at a time."""
TESTS = 40
"""How many tests a run has at most: each kind, each kind by rung."""


@dataclass(slots=True)
class Figures:
    """A running total."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: Counter[Sample] = field(default_factory=Counter)

    def add(self, found: Found) -> None:
        self.counts.update(found.counts)
        self.samples.update(found.samples)

    def join(self, other: Figures) -> None:
        self.counts.update(other.counts)
        self.samples.update(other.samples)

    def groups(self) -> dict[str, Counter[Sample]]:
        """Return the samples of each test: a kind, and a kind on a rung."""
        by_test: dict[str, Counter[Sample]] = {}
        for sample, number in self.samples.items():
            names = (
                [f"{sample.kind}, {sample.rung}"]
                if sample.tested
                else [f"{sample.kind}, {sample.rung}, chosen by answers"]
            )
            names += [sample.kind] if sample.tested and sample.rung != "watch" else []
            for name in names:
                by_test.setdefault(name, Counter())[sample] += number
        return dict(sorted(by_test.items()))

    def failing(self) -> list[str]:
        """Return the groups whose intervals fail more often than they promise.

        Questions that were chosen by the answers they reuse are shown, and not tested.
        """
        return [
            name
            for name, samples in self.groups().items()
            if not name.endswith(", chosen by answers") and tail(samples) < FALSE_ALARM / TESTS
        ]

    def lines(self) -> list[str]:
        """Return a summary."""
        lines = [f"{name:<44} {number:>9,}" for name, number in sorted(self.counts.items())]
        lines.append(f"{'intervals':<44} {'looked at':>9} {'failed':>7} {'promised':>9} {'tail':>9}")
        for name, samples in self.groups().items():
            number, failed = samples.total(), sum(count for sample, count in samples.items() if not sample.held)
            promised = sum(sample.failing * count for sample, count in samples.items())
            lines.append(f"{name:<44} {number:>9,} {failed:>7,} {promised:>9.1f} {tail(samples):>9.2g}")
        return lines

    def written(self) -> dict[str, object]:
        """Return the figures as plain values."""
        covered = {
            name: {
                "looked at": samples.total(),
                "failed": sum(count for sample, count in samples.items() if not sample.held),
                "promised at most": round(sum(sample.failing * count for sample, count in samples.items()), 1),
            }
            for name, samples in self.groups().items()
        }
        return {**dict(sorted(self.counts.items())), "intervals": covered}


def tail(samples: Counter[Sample]) -> float:
    """Return the probability of as many failures or more, if each sample fails as often as it may."""
    from scipy.stats import binom

    failed = sum(number for sample, number in samples.items() if not sample.held)
    numbers: Counter[float] = Counter()
    for sample, number in samples.items():
        numbers[round(sample.failing, 9)] += number
    law = np.ones(1)
    for probability, number in numbers.items():
        law = np.convolve(law, binom.pmf(np.arange(number + 1), number, probability))
    return float(min(1.0, law[failed:].sum()))


@dataclass(slots=True)
class Batch:
    """What some sessions showed."""

    figures: Figures = field(default_factory=Figures)
    broken: list[tuple[int, str, str]] = field(default_factory=list)
    """Seeds, invariants and details."""
    seconds: float = 0.0


def batch(seeds: range) -> Batch:
    """Run the sessions of some seeds."""
    outcome, began = Batch(), time.process_time()
    for seed in seeds:
        try:
            outcome.figures.add(run(session(seed)))
        except Broken as broken:
            outcome.broken.append((seed, broken.invariant, broken.detail))
        except Exception as fault:  # noqa: BLE001  a pool cannot carry every error
            outcome.broken.append((seed, "the driver", traceback.format_exc(limit=-3) + repr(fault)))
    outcome.seconds = time.process_time() - began
    return outcome


def sessions(seeds: range, *, jobs: int = 1, shown: bool = False) -> Batch:
    """Run sessions in some processes."""
    total, began = Batch(), time.monotonic()
    parts = [seeds[start : start + _BATCH] for start in range(0, len(seeds), _BATCH)]
    with multiprocessing.get_context("spawn").Pool(jobs) if jobs > 1 else _Here() as pool:
        for number, outcome in enumerate(pool.imap_unordered(batch, parts), start=1):
            total.figures.join(outcome.figures)
            total.broken += outcome.broken
            total.seconds += outcome.seconds
            if shown:
                for seed, invariant, detail in outcome.broken:  # at once, so that a run that is cut short is not lost
                    print(f"\n{seed}: {invariant}: {detail[:160]!r}", file=sys.stderr)  # noqa: T201
                done = min(number * _BATCH, len(seeds))
                bar = "#" * (40 * done // len(seeds))
                said = (
                    f"\r[{bar:<40}] {done}/{len(seeds)}, {len(total.broken)} broken, {time.monotonic() - began:.0f} s"
                )
                print(said, end="", file=sys.stderr, flush=True)  # noqa: T201  progress
    if shown:
        print(file=sys.stderr)  # noqa: T201
    return total


class _Here:
    """A pool of this process alone."""

    imap_unordered = staticmethod(map)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def explained(found: Batch, *, most: int = 5, small: bool = True) -> list[str]:
    """Return the first session of each kind of failure as Python, shrunk; as it was where it does not fail again."""
    seen: dict[tuple[str, str], int] = {}
    for seed, invariant, detail in sorted(found.broken):
        seen.setdefault((invariant, detail[:40]), seed)
    texts = []
    for (invariant, detail), seed in [*seen.items()][:most]:
        whole = session(seed)
        again = broken(whole) if small else None
        if again is not None and again.invariant == invariant:
            texts.append(script(*shrunk(whole, again)))
        else:
            texts.append(script(whole, Broken(invariant, detail)))
    return texts
