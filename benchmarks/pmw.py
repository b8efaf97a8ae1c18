"""Private multiplicative weights: promised errors beside known ones, and how often runs keep the promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dodona.curator.weights_design import best_design, guarantee
from dodona.lab import direct
from dodona.lab.weights import study_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dodona.curator.weights_design import WeightsDesign
    from dodona.privacy.additive_noise import Noise

KNOWN = {  # guaranteed α at (1, 1e-6), β = .05, for universes of 2^10, 2^20 and 2^40 cells, by rows and questions
    (10**4, 10**3): (0.610, 0.727, 0.873),
    (10**4, 10**6): (0.711, 0.854, 1.0),
    (10**5, 10**3): (0.202, 0.242, 0.289),
    (10**5, 10**6): (0.235, 0.281, 0.336),
    (10**6, 10**3): (0.0666, 0.0797, 0.0953),
    (10**6, 10**6): (0.0770, 0.0921, 0.110),
    (10**7, 10**3): (0.0219, 0.0261, 0.0312),
    (10**7, 10**6): (0.0252, 0.0301, 0.0359),
}
_BITS = (10, 20, 40)


def pmw_alpha() -> dict[str, dict[str, float]]:
    """Return α at (1, 1e-6), β = .05 by rows, questions and bits of the universe, ours and the reference's (zCDP)."""
    alphas = {}
    for (rows, questions), row in KNOWN.items():
        for bits, reference in zip(_BITS, row, strict=True):
            ours = guarantee(rows, universe=2**bits, questions=questions, epsilon=1, delta="1e-6")
            alphas[f"n={rows:.0e},k={questions:.0e},X=2^{bits}"] = {"ours": ours, "reference": reference}
    return alphas


def within_guarantee(
    *, runs: int = 200, rows: int = 10**5, bits: int = 10, questions: int = 10**4, seed: int = 6
) -> dict[str, float]:
    """Return the share of runs all answers of which were within α, the largest error, and the mean number of updates.

    Each run has a new table, nearly all of it in few cells, and all runs the same random sets of cells as questions.
    """
    generator = np.random.default_rng(seed)
    cells = 1 << bits
    design = best_design(rows, universe=cells, questions=questions, epsilon=1, delta="1e-6")
    queries = generator.integers(0, 2, (questions, cells)).astype(np.bool_)
    errors, updates = [], []
    for _ in range(runs):
        counts = generator.multinomial(rows, generator.dirichlet(np.full(cells, 0.002)))
        error, made = _run(design, counts, queries)
        errors.append(error)
        updates.append(made)
    return {
        "runs": runs,
        "alpha": design.within,
        "share": sum(error <= design.within for error in errors) / runs,
        "promised": design.confidence,
        "largest_error": max(errors),
        "updates": sum(updates) / runs,
        "most_updates": design.updates,
    }


def _run(design: WeightsDesign, counts: NDArray[np.int64], queries: NDArray[np.bool_]) -> tuple[float, int]:
    """Return the largest error of all answers, and how many updates there were."""
    weights = study_weights(design, counts, draw=_draw)
    shares = counts / counts.sum()
    truths = np.array([shares[query].sum() for query in queries])
    answers = np.array([weights.ask(query).value for query in queries])
    return float(np.abs(answers - truths).max()), weights.updates


def _draw(law: Noise) -> int:
    return direct.run(law, 0)
