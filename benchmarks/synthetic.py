"""Releases of all three-way marginals: how far rows are off, by table and ε, as the mean of several releases.

`python -m benchmarks synthetic --json --data FOLDER` reads `adult.csv`, `nltcs.csv` and their `-domain.json` from a
folder: codes, and the number of codes of each column. Without a folder it uses made-up tables. One row is added
or removed, at δ = 1e-9. With scikit-learn, a classifier is trained on made-up rows and tried on real ones, which are
another quarter of the table with every seed: `auc` of a release of all three-way marginals, `auc_target` of one about
the column that is predicted, and `auc_real` of a classifier that was trained on the real rows of the same part. With
`--aim PYTHON`, an interpreter that has the package dpmm, AIM is run beside it in a process of its own (`aim_peer.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
    from numpy.typing import NDArray

ABOUT = "synthetic rows: distance of three-way marginals, largest error of a cell, CPU seconds"
EPSILONS = ("0.1", "1", "10")
SEEDS = 5
_DELTA = "1e-9"
_ADULT8 = (
    "workclass", "education-num", "marital-status", "occupation", "relationship", "race", "sex", "income>50K",
)  # fmt: skip
_CUT = 10
_NETWORKS = {
    "survey": (2.0, (2, 2, 2, 3, 2, 4, 2, 6, 2, 8, 2, 10, 2, 2)),
    "incidents": (1.5, (5, 40, 3, 24, 2, 16, 12, 10, 8, 6)),
    "panel": (1.0, (2, 3, 2, 4, 5, 2, 2, 3, 4, 2, 2, 5, 3, 2, 4, 2, 2, 3)),
    "trips": (5.0, (24, 7, 12, 12, 5, 4, 3, 2, 2)),
}
"""Made-up tables: how many times as many rows as the others, and the codes of each column."""
_TESTED = 4  # one row in so many is kept for the test of a classifier


class CodedTable(NamedTuple):
    """Codes of rows, and the number of codes of each column."""

    codes: NDArray[np.int64]
    shape: tuple[int, ...]
    target: int | None = None
    """The column that a classifier predicts."""


def main(words: list[str], say: Callable[[str], None]) -> None:
    """Measure what the words ask for, and print a line for each table and ε, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks synthetic", description=ABOUT)
    parser.add_argument("--data", type=Path, help="a folder with adult.csv and nltcs.csv; made-up tables without it")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--epsilon", nargs="*", default=list(EPSILONS))
    parser.add_argument("--table", nargs="*", help="some of the tables")
    parser.add_argument("--accountant", default="gaussian")
    parser.add_argument("--aim", help="an interpreter with dpmm 0.1.9, to run AIM beside it once; left out without it")
    given = parser.parse_args(words)
    tables = made_up() if given.data is None else read_tables(given.data)
    chosen = [(name, epsilon) for name in tables if name in (given.table or tables) for epsilon in given.epsilon]
    figures = dict[tuple[str, str], dict[str, float]]()
    for name, epsilon in chosen:
        say(f"{name} at ε = {epsilon}")
        figures[name, epsilon] = _means([measure(tables[name], epsilon, given.accountant) for _ in range(given.seeds)])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # classifiers take more memory than releases
    for name, epsilon in chosen:
        table = tables[name]
        if table.target is not None:
            say(f"classifiers of {name} at ε = {epsilon}")
            areas = [classifier_areas(table, epsilon, given.accountant, seed) for seed in range(given.seeds)]
            figures[name, epsilon] |= _means(areas)
        if given.aim is not None:
            say(f"AIM on {name} at ε = {epsilon}")
            figures[name, epsilon] |= measure_aim(table, epsilon, given.aim)
    if given.aim is None:
        say("AIM was not run: --aim names an interpreter that has dpmm")
    if given.json:
        listed = {f"{name} {epsilon}": means for (name, epsilon), means in figures.items()}
        print(json.dumps({**listed, "accountant": given.accountant, "peak_mb": peak}))
        return
    for (name, epsilon), means in figures.items():
        print(f"{name:>10} {epsilon:>4}  " + "  ".join(f"{key} {value:.5f}" for key, value in means.items()))
    print(f"at most {peak:.0f} MB, and tables among them")


def _means(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([run[key] for run in runs])) for key in runs[0]} if runs else {}


def measure(table: CodedTable, epsilon: str, accountant: str = "gaussian") -> dict[str, float]:
    """Return the figures of one release: rows compared with the table on all three-way marginals."""
    began = time.process_time()
    rows, gap = release(table, epsilon, accountant)
    spent = time.process_time() - began
    distance, cell = compare(table, rows)
    return {"mean_tv": distance, "max_cell": cell, "cpu_s": spent, "gap": gap}


def compare(table: CodedTable, rows: NDArray[np.int64]) -> tuple[float, float]:
    """Return the mean total variation of all three-way marginals of rows, and the largest error of a cell."""
    distances, cells = [], []
    for places in combinations(range(len(table.shape)), min(3, len(table.shape))):
        off = np.abs(_shares(table.codes, table.shape, places) - _shares(rows, table.shape, places))
        distances.append(0.5 * float(off.sum()))
        cells.append(float(off.max()))
    return float(np.mean(distances)), max(cells)


def measure_aim(table: CodedTable, epsilon: str, python: str) -> dict[str, float]:
    """Return the same figures of one run of AIM, by another interpreter and with one thread."""
    script = Path(__file__).with_name("aim_peer.py")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "codes.npy", table.codes)
        np.save(folder / "shape.npy", np.array(table.shape))
        alone = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"OPENBLAS_NUM_THREADS": "1"}
        words = [python, str(script), name, epsilon, _DELTA]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=alone)  # noqa: S603
        distance, cell = compare(table, np.load(folder / "rows.npy"))
    return {"aim_mean_tv": distance, "aim_max_cell": cell, "aim_cpu_s": float(done.stdout.split()[-1])}


def release(
    table: CodedTable, epsilon: str, accountant: str = "gaussian", target: int | None = None
) -> tuple[NDArray[np.int64], float]:
    """Return the rows of a release for a whole budget, and the gap of its fit.

    It is of all three-way marginals, or about what predicts the target.
    """
    names = [f"column_{place + 1}" for place in range(len(table.shape))]
    labels = [[f"{code}" for code in range(size)] for size in table.shape]
    attributes = [Category(name, values, otherwise=values[0]) for name, values in zip(names, labels, strict=True)]
    schema = Schema.of("rows", *attributes, size=len(table.codes))
    columns = {
        name: np.array(values)[table.codes[:, place]].tolist()
        for place, (name, values) in enumerate(zip(names, labels, strict=True))
    }
    terms = LedgerTerms(
        datasets={"rows": schema.digest},
        neighbours=schema.unit.neighbours,
        budget=Budget(Fraction(epsilon), _DELTA, accountant),
        analysts=(),
    )
    request = Request(within="1%", epsilon=None, confidence=0.95)
    source = MemorySource(schema, columns)
    ledger = memory.create_memory_ledger(terms)
    curator = Curator(Dataset(name="rows", schema=schema, source=source, ledger=ledger, default=request))
    asked = (
        {"workload": Workload.ways(schema.domain, min(3, len(names)))} if target is None else {"target": names[target]}
    )
    model = synthesize(curator, **asked, epsilon=epsilon)
    rows = model.rounded()
    return np.stack([rows.codes[name] for name in names], axis=1), model.gap or 0.0


def classifier_areas(table: CodedTable, epsilon: str, accountant: str, seed: int) -> dict[str, float]:
    """Return the areas under the curves of classifiers trained on made-up rows, and of one trained on real ones.

    The seed chooses the rows that they are tried on; noise is drawn anew each time.
    """
    try:
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
        from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]
        from sklearn.preprocessing import OneHotEncoder  # type: ignore[import-untyped]
    except ImportError:
        return {}
    place = table.target or 0
    order = np.random.default_rng(seed).permutation(len(table.codes))
    tested, trained = np.array_split(table.codes[order], [len(order) // _TESTED])
    given = CodedTable(trained, table.shape)
    others = [other for other in range(len(table.shape)) if other != place]
    coder = OneHotEncoder(categories=[np.arange(table.shape[other]) for other in others])
    areas = {}
    for name, rows in (
        ("auc", release(given, epsilon, accountant)[0]),
        ("auc_target", release(given, epsilon, accountant, target=place)[0]),
        ("auc_real", trained),
    ):
        model = LogisticRegression(max_iter=1000).fit(coder.fit_transform(rows[:, others]), rows[:, place])
        chances = model.predict_proba(coder.transform(tested[:, others]))[:, 1]
        areas[name] = float(roc_auc_score(tested[:, place], chances))
    return areas


def read_tables(folder: Path) -> dict[str, CodedTable]:
    """Return the tables of a folder: eight columns of Adult, all of them cut to ten codes, and NLTCS."""
    adult, sizes = _read(folder, "adult")
    eight = [list(sizes).index(name) for name in _ADULT8]
    cut = adult.copy()
    shape = []
    for place, (name, size) in enumerate(sizes.items()):
        wide = name not in _ADULT8 and size > _CUT and name != "native-country"
        if wide:
            cut[:, place] = cut[:, place] * _CUT // size
        shape.append(_CUT if wide else size)
    nltcs, binary = _read(folder, "nltcs")
    return {
        "adult8": CodedTable(adult[:, eight], tuple(sizes[name] for name in _ADULT8)),
        "adult14": CodedTable(cut, tuple(shape), list(sizes).index("income>50K")),
        "nltcs": CodedTable(nltcs, tuple(binary.values())),
    }


def _read(folder: Path, name: str) -> tuple[NDArray[np.int64], dict[str, int]]:
    import csv

    sizes: dict[str, int] = json.loads((folder / f"{name}-domain.json").read_text(encoding="utf-8"))
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = [[int(row[column]) for column in sizes] for row in csv.DictReader(file)]
    return np.array(rows, dtype=np.int64), sizes


def made_up(rows: int = 20_000) -> dict[str, CodedTable]:
    """Return tables whose columns hang together, made from a fixed seed: two of one hidden class, and others."""
    chance = np.random.default_rng(20261117)
    tables = {}
    for name, shape in (("narrow", (2, 2, 5, 6, 7, 9)), ("binary", (2,) * 12)):
        hidden = chance.integers(0, 4, rows)
        columns = []
        for size in shape:
            laws = chance.dirichlet(np.full(size, 0.5), 4).cumsum(axis=1)
            columns.append((chance.random(rows)[:, None] > laws[hidden]).sum(axis=1).clip(0, size - 1))
        tables[name] = CodedTable(np.stack(columns, axis=1).astype(np.int64), shape)
    for number, (name, (times, lengths)) in enumerate(_NETWORKS.items()):
        tables[name] = _draw_network(round(times * rows), lengths, np.random.default_rng(number))
    return tables


def _draw_network(rows: int, shape: tuple[int, ...], chance: np.random.Generator) -> CodedTable:
    """Return rows of a random network: each column hangs on up to three others, two of them jointly."""
    columns: list[NDArray[np.int64]] = []
    for size in shape:
        parents = chance.choice(len(columns), min(3, len(columns)), replace=False).tolist()
        logits = np.tile(chance.normal(0, 1.2, size), (rows, 1))
        for parent in parents:
            logits += chance.normal(0, 1.0, (shape[parent], size))[columns[parent]]
        if len(parents) > 1:
            first, second = parents[:2]
            logits += chance.normal(0, 0.7, (shape[first], shape[second], size))[columns[first], columns[second]]
        columns.append((logits + chance.gumbel(size=logits.shape)).argmax(axis=1))
    return CodedTable(np.stack(columns, axis=1).astype(np.int64), shape)


def _shares(codes: NDArray[np.int64], shape: tuple[int, ...], places: tuple[int, ...]) -> NDArray[np.float64]:
    sizes = tuple(shape[place] for place in places)
    numbers = np.ravel_multi_index([codes[:, place] for place in places], sizes)
    return np.bincount(numbers, minlength=int(np.prod(sizes))) / len(codes)
