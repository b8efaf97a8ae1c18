"""Sign aggregation: many noise features, each asked about once, and one classifier built from the answers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Asked = Callable[[Callable[..., np.ndarray], int], np.ndarray]


@dataclass(frozen=True)
class Noise:
    """Features and labels that have nothing to do with each other: whatever classifies is right half of the time."""

    features: np.ndarray
    labels: np.ndarray

    @classmethod
    def drawn(cls, chance: np.random.Generator, rows: int, features: int) -> "Noise":
        return cls(chance.integers(0, 2, (rows, features), dtype=np.int8), chance.integers(0, 2, rows, dtype=np.int8))

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        return self.features, self.labels


def agrees(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Where each feature is the label."""
    return features == labels[:, None]


def voted(answers: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The accuracy of a vote of all features, each for or against as its answer says."""
    weights = (answers - 0.5).astype(np.float32)

    def query(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
        votes = (2 * features[:, : len(weights)].astype(np.float32) - 1) @ weights
        return (votes > 0) == labels

    return query
