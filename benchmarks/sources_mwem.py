"""Releasing the three-way marginals of a census table: how far the model is off, by ε.

The recipe is fixed: eight columns of codes, all 56 three-way marginals, and a thousand random conjunctions of two to
five columns; one row is added or removed, at δ = 1e-9.
"""

from __future__ import annotations

import csv
import time
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.streams.adult import COLUMNS
from dodona.curator.curator import Curator
from dodona.curator.request import Dataset, Request
from dodona.engines.memory import MemorySource
from dodona.ledger import memory
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.schema.attributes import Category
from dodona.schema.schema import Schema
from dodona.synth.synthesize import synthesize
from dodona.synth.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dodona.synth.model import SyntheticModel

EPSILONS = ("0.1", "1", "10")
_DELTA = "1e-9"
_CONJUNCTIONS = 1000
_SEED = 20261115

Conjunction = list[tuple[int, "NDArray[np.bool_]"]]


def mwem(path: str | Path) -> dict[str, dict[str, float]]:
    """Return by ε the mean total variation of the marginals, the largest error of a conjunction, and CPU seconds."""
    codes = _read(Path(path))
    conjunctions = list(_conjunctions())
    return {epsilon: _measured(codes, conjunctions, epsilon) for epsilon in EPSILONS}


def _measured(codes: NDArray[np.int64], conjunctions: list[Conjunction], epsilon: str) -> dict[str, float]:
    began = time.process_time()
    model = _released(codes, epsilon)
    spent = time.process_time() - began
    shape = tuple(COLUMNS.values())
    errors = []
    for places in combinations(range(len(shape)), 3):
        truth = _table(codes, shape, places) / len(codes)
        errors.append(0.5 * np.abs(truth - _believed(model, places)).sum())
    off = [abs(_share(codes, conjunction) - _expected(model, conjunction)) for conjunction in conjunctions]
    return {
        "mean_tv": round(float(np.mean(errors)), 5),
        "max_error": round(float(np.max(off)), 5),
        "cpu_s": round(spent, 2),
    }


def _released(codes: NDArray[np.int64], epsilon: str) -> SyntheticModel:
    """Return the model of all three-way marginals for the whole of a budget."""
    names = [_name(place) for place in range(len(COLUMNS))]
    labels = [[f"{code}" for code in range(size)] for size in COLUMNS.values()]
    attributes = [Category(name, values, otherwise=values[0]) for name, values in zip(names, labels, strict=True)]
    schema = Schema.of("census", *attributes, size=len(codes))
    columns = {
        name: [values[code] for code in codes[:, place].tolist()]
        for place, (name, values) in enumerate(zip(names, labels, strict=True))
    }
    terms = LedgerTerms(
        datasets={"census": schema.digest},
        neighbours=schema.unit.neighbours,
        budget=Budget(Fraction(epsilon), _DELTA, "renyi"),
        analysts=(),
    )
    request = Request(within="1%", epsilon=None, confidence=0.95)
    source = MemorySource(schema, columns)
    dataset = Dataset(
        name="census", schema=schema, source=source, ledger=memory.create_memory_ledger(terms), default=request
    )
    return synthesize(Curator(dataset), Workload.ways(schema.domain, 3), epsilon=epsilon)


def _read(path: Path) -> NDArray[np.int64]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = [[int(row[name]) for name in COLUMNS] for row in csv.DictReader(file)]
    return np.array(rows, dtype=np.int64)


def _name(place: int) -> str:
    return f"column_{place + 1}"


def _conjunctions() -> Iterator[Conjunction]:
    """Yield random conjunctions: two to five columns, and of each a set of values that is neither empty nor whole."""
    chance, shape = np.random.default_rng(_SEED), tuple(COLUMNS.values())
    for _ in range(_CONJUNCTIONS):
        number = int(chance.integers(2, 6))
        places = sorted(chance.choice(len(shape), size=number, replace=False).tolist())
        yield [(place, _values(chance, shape[place])) for place in places]


def _values(chance: np.random.Generator, size: int) -> NDArray[np.bool_]:
    while True:
        kept: NDArray[np.bool_] = chance.random(size) < 0.5  # noqa: PLR2004  each value with an even chance
        if kept.any() and not kept.all():
            return kept


def _table(codes: NDArray[np.int64], shape: tuple[int, ...], places: tuple[int, ...]) -> NDArray[np.float64]:
    sizes = tuple(shape[place] for place in places)
    numbers = np.ravel_multi_index([codes[:, place] for place in places], sizes)
    return np.bincount(numbers, minlength=int(np.prod(sizes))).reshape(sizes).astype(np.float64)


def _believed(model: SyntheticModel, places: tuple[int, ...]) -> NDArray[np.float64]:
    from dodona.knowledge.factored import FactoredBelief

    assert isinstance(model.law, FactoredBelief)  # noqa: S101  what an annealed release makes
    scope = model.law.support.places([_name(place) for place in places])
    return model.law.laws([scope])[scope]


def _share(codes: NDArray[np.int64], conjunction: Conjunction) -> float:
    kept = np.ones(len(codes), dtype=np.bool_)
    for place, values in conjunction:
        kept &= values[codes[:, place]]
    return float(kept.mean())


def _expected(model: SyntheticModel, conjunction: Conjunction) -> float:
    table = _believed(model, tuple(place for place, _ in conjunction))
    for _, values in conjunction:
        table = np.tensordot(values.astype(np.float64), table, axes=(0, 0))
    return float(table)
