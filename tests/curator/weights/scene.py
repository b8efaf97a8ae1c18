"""Histograms, questions and runs of private multiplicative weights for tests."""

from __future__ import annotations

import numpy as np

from dodona.curator.weights_design import WeightsDesign
from dodona.lab import direct
from dodona.lab.weights import study_weights
from dodona.privacy.additive_noise import Noise

Counts = np.ndarray


def draw(law: Noise) -> int:
    return direct.run(law, 0)


def peaked(rows: int, cells: int, generator: np.random.Generator, spread: float = 0.02) -> Counts:
    """Rows that are mostly in few cells, far from the uniform start."""
    return generator.multinomial(rows, generator.dirichlet(np.full(cells, spread)))


def largest_error(design: WeightsDesign, counts: Counts, queries: np.ndarray) -> tuple[float, int]:
    """The largest error of all answers to the rows of a matrix, and how many updates there were."""
    truths = queries @ (counts / counts.sum())
    weights = study_weights(design, counts, draw=draw)
    answers = np.array([weights.ask(query).value for query in queries])
    return float(np.abs(answers - truths).max()), weights.updates
