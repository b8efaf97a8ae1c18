"""The mechanism of Blum, Ligett and Roth, run exactly: the exponential mechanism over all databases of a few rows."""

from __future__ import annotations

import math

import numpy as np

from dodona.accuracy import failure
from dodona.belief.dense import Dense
from dodona.mechanisms.databases import MOST_BITS, MOST_DATABASES, Databases, database_scores, databases
from dodona.mechanisms.exponential import Exponential
from dodona.mechanisms.scale import rounded_scale_up
from dodona.offline.faults import UniverseTooLarge
from dodona.offline.method import Blr
from dodona.offline.mwem import Promise
from dodona.offline.run import Run
from dodona.query.people import effect_of


def blr(run: Run, method: Blr) -> tuple[Dense, Promise | None]:
    """Return the chosen database as a belief, and what is promised of it: nothing where it was lost."""
    rows, promise = planned(run, method)
    selection = chosen_among(run, rows)
    found = run.choose("database", selection)
    weights = np.zeros(selection.size_of_universe)
    # Of a database that was lost after its charge only the universe is known.
    np.add.at(weights, list(range(weights.size) if found is None else selection.cells(found)), 1.0)
    return Dense(run.workload.support, weights), None if found is None else promise


def chosen_among(run: Run, rows: int) -> Databases:
    """Return all databases of so many rows, with the choice that costs the whole of the run."""
    workload = run.workload
    support = workload.support
    universe = tuple(zip(support.domain.names, support.shape, strict=True))
    moved = database_scores(workload.query, rows, run.unit)
    epsilon = math.sqrt(8 * run.total) if run.currency.unit == "ρ" else run.total
    scale = rounded_scale_up(2 * moved.linf / (epsilon * (1 - 1e-9)))
    return Databases(workload.query, universe, rows, run.size, Exponential(scale=scale))


def planned(run: Run, method: Blr) -> tuple[int, Promise]:
    """Return how many rows a database has, and the promise; refuse more databases than can be walked through."""
    questions, cells = run.workload.query.values, run.workload.support.size
    loss = math.sqrt(8 * run.total) if run.currency.unit == "ρ" else run.total
    epsilon = loss / effect_of(run.workload.query, run.unit).linf  # what is left of it for one row of a person
    if method.rows is not None:
        rows = method.rows
    elif method.within is not None:
        rows = lemma_rows(questions, method.within)
    else:
        widest = int(MOST_BITS / math.log2(max(2, cells)))
        most = next((m for m in range(1, widest) if databases(cells, m + 1) > MOST_DATABASES), max(1, widest))
        rows = min(
            range(1, most + 1),
            key=lambda m: database_within(
                run.size, universe=cells, questions=questions, rows=m, epsilon=epsilon, confidence=method.confidence
            ),
        )
    needed = databases(cells, rows)
    if needed > MOST_DATABASES or rows * math.log2(cells) > MOST_BITS:
        raise UniverseTooLarge(cells=cells, rows=rows, needed=needed, limit=MOST_DATABASES)
    within = database_within(
        run.size, universe=cells, questions=questions, rows=rows, epsilon=epsilon, confidence=method.confidence
    )
    return rows, Promise(within, method.confidence, "blr-accuracy")


def lemma_rows(questions: int, within: float) -> int:
    """Return the least number of rows with which some database is within so much of every table: > ln(2k)/(2a²).

    >>> lemma_rows(1, 0.5)
    2

    Theorem: blr-accuracy
    """
    return math.floor(math.log(2 * questions) / (2 * within**2)) + 1


def database_within(  # noqa: PLR0913  the sides of the promise
    size: int, *, universe: int, questions: int, rows: int, epsilon: float, confidence: float = 0.95
) -> float:
    """Return √(ln(2k)/2m) + (2/(nε))·(m·ln|X| + ln(1/β)): all answers of the chosen database are within it.

    The ordered databases are |X|^m. (Choosing among multisets alike has a smaller promise: page synthetic-table.)

    Theorem: blr-accuracy
    """
    near = math.sqrt(math.log(2 * questions) / (2 * rows)) * (1 + 1e-12)
    return near + 2 / (size * epsilon) * (rows * math.log(universe) - math.log(failure(confidence)))
