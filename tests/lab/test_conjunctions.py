"""All conjunctions of yes-no columns at once, and what mechanisms promise for them."""

import itertools
import math

import numpy as np
import pytest

from dodona.curator.weights_design import (
    UniverseTooLarge,
    best_design,
    gaussian_guarantee,
    laplace_guarantee,
)
from dodona.errors import InvalidArgument
from dodona.lab import direct
from dodona.lab.conjunctions import answer_conjunctions, compare_mechanisms, evaluate_conjunctions
from dodona.lab.mechanisms import Exponential
from dodona.lab.theorems import blr_guarantee, blr_theorem, log_multisets
from tests.curator.weights.scene import draw


def draws(law, count):
    return direct.run(law, np.zeros(count, dtype=np.int64))


def survey(rows: int, bits: int, generator: np.random.Generator) -> np.ndarray:
    """Columns that say yes more often together than apart."""
    mood = generator.random(rows)[:, None]
    answers = generator.random((rows, bits)) < mood
    return np.bincount(answers @ (1 << np.arange(bits)), minlength=1 << bits)


@pytest.mark.parametrize("bits", [1, 2, 5, 8])
def test_every_conjunction_is_the_sum_over_the_cells_that_contain_it(bits):
    generator = np.random.default_rng(bits)
    values = generator.integers(0, 100, 1 << bits)
    answers = evaluate_conjunctions(values)
    cells = np.arange(1 << bits)
    for chosen in range(1 << bits):
        assert answers[chosen] == values[(cells & chosen) == chosen].sum()
    shares = values / values.sum()
    assert evaluate_conjunctions(shares) == pytest.approx(answers / values.sum())
    assert evaluate_conjunctions(shares)[0] == pytest.approx(1)


def test_a_million_conjunctions_are_answered_at_once():
    values = np.ones(1 << 20, dtype=np.int64)
    answers = evaluate_conjunctions(values)
    assert answers[0] == 1 << 20
    assert answers[-1] == 1
    assert answers[(1 << 10) - 1] == 1 << 10


def test_errors_are_within_what_is_promised():
    """One run each; a false alarm has probability 3e-7 at most."""
    generator = np.random.default_rng(8)
    rows, bits = 50_000, 7
    table = compare_mechanisms(
        survey(rows, bits, generator), epsilon=1, delta="1e-6", confidence=0.9999999, draw=draw, draws=draws
    )
    by_name = {row.mechanism: row for row in table}
    assert list(by_name) == ["Laplace", "Gaussian", "Blum, Ligett, Roth", "multiplicative weights"]
    for row in table:
        assert 0 < row.within < 1
        if row.mechanism == "Blum, Ligett, Roth":
            assert row.error is None
        else:
            assert row.error is not None
            assert row.error <= row.within


def test_weights_answer_all_conjunctions_with_few_updates():
    """A false alarm has probability 1e-7 at most."""
    generator = np.random.default_rng(9)
    rows, bits = 10**5, 9
    counts = survey(rows, bits, generator)
    design = best_design(rows, universe=1 << bits, questions=1 << bits, epsilon=1, delta="1e-6", confidence=0.9999999)
    answers, updates = answer_conjunctions(design, counts, draw=draw)
    assert np.abs(answers - evaluate_conjunctions(counts) / rows).max() <= design.within
    assert updates <= design.updates


def test_too_few_rows_are_promised_nothing_and_not_asked():
    (*_, last) = compare_mechanisms([1, 0], epsilon="1/1000", delta="1e-6", draw=draw, draws=draws)
    assert (last.within, last.error) == (math.inf, None)


# Known guarantees at ε = 1 (δ = 1e-6 for Gaussian noise), β = .05, universes of 2^10, 2^20 and 2^40 cells.
BLR = {
    (10**4, 10**3): (0.247, 0.381, 0.507),
    (10**5, 10**6): (0.0929, 0.206, 0.284),
    (10**6, 10**3): (0.0172, 0.0725, 0.104),
    (10**7, 10**6): (0.00279, 0.0377, 0.0583),
}


def test_other_mechanisms_promise_what_is_known_of_them():
    for (rows, questions), known in BLR.items():
        for bits, value in zip((10, 20, 40), known, strict=True):
            guarantee = blr_guarantee(rows, universe=2**bits, questions=questions, epsilon=1)
            assert guarantee == pytest.approx(value, rel=0.01)
            assert guarantee < blr_theorem(rows, universe=2**bits, questions=questions, epsilon=1)
    assert laplace_guarantee(10**4, questions=10**3, epsilon=1) == pytest.approx(0.9878, rel=1e-3)
    assert laplace_guarantee(10**4, questions=10**3, epsilon=1) <= 10**3 * math.log(10**3 / 0.05) / 10**4
    assert gaussian_guarantee(10**4, questions=10**3, epsilon=1, delta="1e-6") == pytest.approx(0.05802, rel=1e-3)
    assert gaussian_guarantee(10**7, questions=10**6, epsilon=1, delta="1e-6") == pytest.approx(0.002468, rel=1e-3)


def test_the_number_of_tables_is_never_counted_too_low():
    for cells, size in itertools.product((2, 5, 40), (1, 3, 9)):
        assert log_multisets(cells, size) == pytest.approx(math.log(math.comb(cells + size - 1, size)))
    for cells, size in ((10**7, 1), (2**40, 9), (2**200, 50)):
        assert log_multisets(cells, size) >= math.log(math.comb(cells + size - 1, size)) - 1e-9
        assert log_multisets(cells, size) == pytest.approx(math.log(math.comb(cells + size - 1, size)), rel=1e-3)


def test_a_synthetic_table_is_within_its_promise_on_a_small_universe():
    """All tables of m rows over 4 cells are scored; 40 runs at 95%, of which more than 10 misses have chance 1e-5."""
    counts = np.array([500, 300, 150, 50])
    rows, exact = 1000, evaluate_conjunctions(np.array([500, 300, 150, 50])) / 1000
    promised = blr_guarantee(rows, universe=4, questions=4, epsilon=1)
    assert promised < 0.5
    size = min(range(1, 60), key=lambda m: math.sqrt(math.log(8) / (2 * m)) + 2 * log_multisets(4, m) / rows)
    tables = [np.bincount(cells, minlength=4) for cells in itertools.combinations_with_replacement(range(4), size)]
    errors = np.array([np.abs(evaluate_conjunctions(table) / size - exact).max() for table in tables])
    scores = np.rint(-errors * rows).astype(np.int64)  # in rows; rounded scores move by one at most
    chosen = [direct.run(Exponential(scale=2), scores) for _ in range(40)]
    assert sum(errors[index] > promised for index in chosen) <= 10
    assert counts.sum() == rows


@pytest.mark.parametrize("counts", [[1], [1, 2, 3], [1, -1]], ids=str)
def test_what_is_no_table_of_yes_and_no_is_refused(counts):
    with pytest.raises(InvalidArgument, match="counts"):
        compare_mechanisms(counts, epsilon=1, delta="1e-6", draw=draw, draws=draws)


def test_more_columns_than_twenty_are_refused():
    with pytest.raises(UniverseTooLarge, match="2097152 cells"):
        evaluate_conjunctions(np.zeros(1 << 21, dtype=np.int64))
