"""The speed of beliefs: steps on many cells beside the machine's own bandwidth, looks, and marginals."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import combinations
from typing import cast

import numpy as np

from benchmarks import clock, pmw
from benchmarks.report import Row
from dodona.knowledge.cells import Support
from dodona.knowledge.dense import DenseBelief
from dodona.query.predicate import Predicate, among, among_mask, conjunction
from dodona.query.query import Query
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.schema import Domain

Say = Callable[[str], None]
BITS = 24
"""A step is measured on 2^24 cells: 128 MiB of weights, far more than the fast memories hold."""
LOOK_BITS = 16
MARGINAL_BITS = 20
ROUNDS = 5
_LINE = 64
_WORD = 8
_SLICES = tuple((place,) for place in range(BITS))
"""The bits that sub-cubes fix: each of them once, so that cells inside lie far apart, near, and within one line."""

NOTE = (
    "A step's bytes are those of the lines of memory that hold a cell inside, read and written, and of the mask. The "
    "ratio is to multiplying the whole vector in place by NumPy, measured in turns with the steps. A step follows a "
    "look at the same question, as it does in multiplicative weights; `with look` counts both passes. A slice fixes "
    "one bit, and `slice` is over all bits together. The peer of `expect` is Turbo's class of weights (its artifact of "
    "2023): 58 µs, measured once and not in this run."
)
"""What a reader of the rows has to know."""


def measure(say: Say) -> dict[str, object]:
    """Return ratios of bandwidths, and CPU times in the unit that a name ends with."""
    figures: dict[str, object] = {}
    say(f"steps on 2^{BITS} cells")
    figures |= _steps()
    say(f"looks at 2^{LOOK_BITS} cells")
    figures["expect_us"] = look()
    say(f"three-way marginals of {MARGINAL_BITS} bits")
    figures["marginals_cpu_s"] = all_marginals()
    say("promises of private multiplicative weights")
    figures["pmw_alpha"] = pmw.pmw_alpha()
    say("200 runs of private multiplicative weights")
    figures["within_guarantee"] = pmw.within_guarantee()
    return figures


def rows(figures: dict[str, object]) -> list[Row]:
    """Return the figures as rows of a table."""
    rows = []
    for name in ("step_bandwidth_ratio", "with_look_bandwidth_ratio"):
        for kind, ratio in cast("dict[str, float]", figures[name]).items():
            rows.append(Row(f"{name.replace('_', ' ')}, {kind}", "of in-place", ratio, None, "more"))
    rows.append(Row("expect, 65,536 cells", "µs", cast("float", figures["expect_us"]), 58.0, "less"))
    rows.append(Row("all three-way marginals, 20 bits", "s", cast("float", figures["marginals_cpu_s"]), None, "less"))
    promised = cast("dict[str, dict[str, float]]", figures["pmw_alpha"])
    worst = max(entry["ours"] / entry["reference"] for entry in promised.values())
    rows.append(Row(f"promised error, worst of {len(promised)}", "of the known one", worst, 1.0, "less"))
    kept = cast("dict[str, float]", figures["within_guarantee"])
    rows.append(Row(f"runs within their promise, of {kept['runs']:.0f}", "share", kept["share"], None, "more"))
    return rows


def _bits(number: int) -> Domain:
    return Domain(tuple(Boolean(f"b{place:02}") for place in range(number)))


def _steps() -> dict[str, object]:
    """Return the bandwidth of steps over that of multiplying in place: best times of rounds taken in turns."""
    domain = _bits(BITS)
    cubes = [conjunction(*(among(domain.attributes[place], [1]) for place in places)) for places in _SLICES]
    lines = [2.0 ** (BITS - sum(place < BITS - 3 for place in places)) * _WORD for places in _SLICES]
    step, look, plain = _timed(DenseBelief.uniform(Support.values(domain)), domain, cubes)
    whole = Domain((Integer("cell", 0, (1 << BITS) - 1),))
    chosen = np.packbits(np.random.default_rng(0).random(1 << BITS) < 0.5, bitorder="little").tobytes()  # noqa: PLR2004
    mask = among_mask(whole["cell"], int.from_bytes(chosen, "little"))
    mask_step, mask_look, mask_plain = _timed(DenseBelief.uniform(Support.values(whole)), whole, [mask])
    size = float(1 << BITS)
    return {
        "in_place_gb_s": round(2 * _WORD * size / plain / 1e9, 2),
        "slice_by_bit": [_ratio(2 * line, took, plain) for line, took in zip(lines, step, strict=True)],
        "step_bandwidth_ratio": {
            "slice": _ratio(2 * sum(lines), sum(step), plain),
            "mask": _ratio((2 * _WORD + 1) * size, sum(mask_step), mask_plain),
        },
        "with_look_bandwidth_ratio": {
            "slice": _ratio(3 * sum(lines), sum(step) + sum(look), plain),
            "mask": _ratio((3 * _WORD + 2) * size, sum(mask_step) + sum(mask_look), mask_plain),
        },
    }


def _ratio(size: float, seconds: float, plain: float) -> float:
    return round(size / seconds / (2 * _WORD * (1 << BITS) / plain), 3)


def _timed(belief: DenseBelief, domain: Domain, predicates: list[Predicate]) -> tuple[list[float], list[float], float]:
    """Return the best CPU seconds of a step and of a look for each predicate, and of multiplying in place."""
    vector = np.ones(1 << BITS)
    queries = [Query.count(domain, predicate) for predicate in predicates]
    everything = Query.count(domain)
    steps, looks, plain = [np.inf] * len(queries), [np.inf] * len(queries), np.inf
    for turn in range(ROUNDS + 1):  # the first one compiles
        for place, query in enumerate(queries):
            started = time.process_time()
            np.multiply(vector, 1.0000001, out=vector)
            took = time.process_time() - started
            belief.expect(everything)  # so that the next look is a real one
            started = time.process_time()
            belief.expect(query)
            looked = time.process_time()
            belief = belief.tilted(query, exponents=-0.1 if turn % 2 else 0.05)
            ended = time.process_time()
            if turn > 0:
                plain = min(plain, took)
                looks[place] = min(looks[place], looked - started)
                steps[place] = min(steps[place], ended - looked)
    return steps, looks, plain


def look() -> float:
    """Return the mean microseconds of a look at 2^16 cells, over boxes of one to three attributes."""
    domain, rng = _bits(LOOK_BITS), np.random.default_rng(1)
    belief = DenseBelief.uniform(Support.values(domain))
    queries = []
    for number in range(300):
        places = rng.choice(LOOK_BITS, size=1 + number % 3, replace=False).tolist()
        where = conjunction(*(among(domain.attributes[place], [int(rng.integers(2))]) for place in places))
        queries.append(Query.count(domain, where))

    def looks() -> None:
        for query in queries:
            belief.expect(query)

    return round(clock.best(looks, repeats=5) / len(queries) * 1e6, 2)


def all_marginals() -> float:
    """Return the CPU seconds of all three-way marginals of 2^20 cells."""
    belief = DenseBelief.uniform(Support.values(_bits(MARGINAL_BITS)))
    return round(clock.best(lambda: belief.laws(combinations(range(len(belief.support.shape)), 3)), repeats=3), 4)
