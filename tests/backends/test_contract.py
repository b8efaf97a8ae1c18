"""What holds of every source: two readings of a query agree, whatever the table and however it is stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dodona.query.query import Query
from tests.backends.scene import BACKENDS, block, by_hand, made_up, values

BACKEND = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())


@BACKEND
@pytest.mark.parametrize("seed", range(25))
def test_weights_over_the_histogram_and_the_source_say_the_same(backend, seed: int, tmp_path: Path) -> None:
    source, held = backend(made_up(seed), tmp_path)
    generator = np.random.default_rng([seed, 1])
    domain = held.schema.domain
    for turn in range(12):
        query = Query(domain, tuple(block(domain, generator) for _ in range(1 + turn % 4)))
        assert values(source, query) == by_hand(held, query), query
    source.close()
