"""The mechanism of Blum, Ligett and Roth: the exponential mechanism over all databases of a few rows, run exactly."""

import math

import numpy as np

from dodona.knowledge.dense import DenseBelief
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.additive_noise import round_scale_up
from dodona.privacy.scores import MOST_BITS, MOST_DATABASES, DatabaseScores, count_databases, database_sensitivity
from dodona.privacy.selection import Exponential
from dodona.query.sensitivity import unit_sensitivity
from dodona.synth.methods import Blr, ErrorGuarantee
from dodona.synth.run import SynthesisRun
from dodona.synth.workload import TooManyDatabases


def run_blr(run: SynthesisRun, method: Blr) -> tuple[DenseBelief, ErrorGuarantee | None]:
    """Return the chosen database as a belief, and its error guarantee: None if the choice was lost."""
    rows, promise = plan_database_rows(run, method)
    selection = database_selection(run, rows)
    chosen = run.choose("database", selection)
    weights = np.zeros(selection.size_of_universe)
    # If the choice was lost after its charge, only the universe is known, so the belief is uniform.
    np.add.at(weights, list(selection.cells(chosen[0]) if chosen else range(weights.size)), 1.0)
    return DenseBelief(run.workload.support, weights), promise if chosen else None


def database_selection(run: SynthesisRun, rows: int) -> DatabaseScores:
    """Return all databases with this many rows, scored for a choice that costs the whole budget of the run."""
    workload = run.workload
    support = workload.support
    universe = tuple(zip(support.domain.names, support.shape, strict=True))
    moved = database_sensitivity(workload.query, rows, run.unit)
    epsilon = run.currency.choice_epsilon(run.total)
    scale = round_scale_up(2 * moved.linf / (epsilon * (1 - 1e-9)))
    return DatabaseScores(workload.query, universe, rows, run.size, Exponential(scale=scale))


def plan_database_rows(run: SynthesisRun, method: Blr) -> tuple[int, ErrorGuarantee]:
    """Return the number of rows of a database, and the error guarantee; refuse too many databases to enumerate."""
    questions, cells = run.workload.query.values, run.workload.support.size
    loss = run.currency.choice_epsilon(run.total)
    epsilon = loss / unit_sensitivity(run.workload.query, run.unit).linf  # the ε for one row of a person
    if method.rows is not None:
        rows = method.rows
    elif method.within is not None:
        rows = sufficient_rows(questions, method.within)
    else:
        widest = int(MOST_BITS / math.log2(max(2, cells)))
        most = next((m for m in range(1, widest) if count_databases(cells, m + 1) > MOST_DATABASES), max(1, widest))
        rows = min(
            range(1, most + 1),
            key=lambda m: database_error(
                run.size, universe=cells, questions=questions, rows=m, epsilon=epsilon, confidence=method.confidence
            ),
        )
    needed = count_databases(cells, rows)
    if needed > MOST_DATABASES or rows * math.log2(cells) > MOST_BITS:
        raise TooManyDatabases(cells=cells, rows=rows, needed=needed, limit=MOST_DATABASES)
    within = database_error(
        run.size, universe=cells, questions=questions, rows=rows, epsilon=epsilon, confidence=method.confidence
    )
    return rows, ErrorGuarantee(within, method.confidence, "blr-accuracy")


def sufficient_rows(questions: int, within: float) -> int:
    """Return the least number of rows such that some database is within a of every table: > ln(2k)/(2a²).

    >>> sufficient_rows(1, 0.5)
    2

    Theorem: blr-accuracy
    """
    return math.floor(math.log(2 * questions) / (2 * within**2)) + 1


def database_error(  # noqa: PLR0913  the parameters of the bound
    size: int, *, universe: int, questions: int, rows: int, epsilon: float, confidence: float = 0.95
) -> float:
    """Return √(ln(2k)/2m) + (2/(nε))·(m·ln|X| + ln(1/β)): a bound on the error of all answers of the chosen database.

    There are |X|^m ordered databases. (A uniform choice among multisets has a smaller bound: page synthetic-table.)

    Theorem: blr-accuracy
    """
    near = math.sqrt(math.log(2 * questions) / (2 * rows)) * (1 + 1e-12)
    return near + 2 / (size * epsilon) * (rows * math.log(universe) - math.log(to_failure_probability(confidence)))
