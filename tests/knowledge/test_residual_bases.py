"""Products come back from residuals in any bases: exact in the mean, and with the variance that least squares has."""

from functools import reduce
from itertools import combinations

import numpy as np
import pytest

from dodona.answer.laws import GaussianSumBound
from dodona.knowledge.patterns import CountPattern
from dodona.knowledge.residuals import Factor, ResidualStore
from dodona.knowledge.sides import set_spread, worst_range
from dodona.query.bases import Base, base_rows
from dodona.query.residual import Classes, Residual

WAYS = (
    Classes("age", 9, tuple(1 << code for code in range(9))),
    Classes("sex", 3, (1, 2, 4)),
    Classes("stay", 12, tuple(1 << code for code in range(12))),
)
SIZES = tuple(classing.number for classing in WAYS)
BASES = {
    "points": (Base.POINTS,) * 3,
    "ranges of one": (Base.RANGES, Base.POINTS, Base.POINTS),
    "ranges of two": (Base.RANGES, Base.POINTS, Base.RANGES),
}


def residuals(bases):
    based = [classing.based(base) for classing, base in zip(WAYS, bases, strict=True)]
    return [Residual(chosen) for size in range(4) for chosen in combinations(based, size)]


def lines(residual):
    """Each row of a residual over all cells, and what its variance is times σ²."""
    known = {classing.attribute: classing for classing in residual.classes}
    for row in residual.rows():
        steps = dict(zip(residual.attributes, row.steps, strict=True))
        each = [
            base_rows(known[classing.attribute].base, classing.number)[steps[classing.attribute] - 1]
            if classing.attribute in steps
            else np.ones(classing.number, dtype=np.int64)
            for classing in WAYS
        ]
        yield reduce(np.multiply.outer, each).reshape(-1), row.square


def drawn_pattern(generator):
    sets = tuple(int(generator.integers(1, (1 << size) - 1)) for size in SIZES)
    return CountPattern(WAYS, sets)


def dense(pattern):
    masks = [[members >> place & 1 for place in range(size)] for members, size in zip(pattern.sets, SIZES, strict=True)]
    return reduce(np.multiply.outer, map(np.array, masks)).reshape(-1)


def store_of(parts, table):
    store = ResidualStore(total=None)
    for residual, variance in parts:
        store.add(residual, residual.turned(marginal(residual, table)).tolist(), variance)
    return store


def marginal(residual, table):
    others = tuple(place for place, classing in enumerate(WAYS) if classing.attribute not in residual.attributes)
    return table.sum(axis=others).reshape(-1).tolist()


@pytest.mark.parametrize("bases", BASES.values(), ids=BASES)
def test_products_come_back_from_any_bases_with_the_variance_of_least_squares(bases):
    generator = np.random.default_rng(8)
    table = generator.integers(0, 50, SIZES)
    parts = [(residual, float(generator.integers(20, 400))) for residual in residuals(bases)]
    store = store_of(parts, table)
    rows, widths = [], []
    for residual, variance in parts:
        for line, square in lines(residual):
            rows.append(line / np.sqrt(square * variance))
            widths.append(square * variance)
    covariance = np.linalg.inv(np.array(rows).T @ np.array(rows))
    patterns = [drawn_pattern(generator) for _ in range(8)]
    for pattern, together in zip(patterns, store.lookup_all(patterns), strict=True):
        question, alone = dense(pattern), store.lookup(pattern)
        assert alone.values[0] == pytest.approx(question @ table.reshape(-1), abs=1e-6)
        assert together.values[0] == pytest.approx(alone.values[0], abs=1e-6)
        assert alone.laws[0].variance == pytest.approx(question @ covariance @ question, rel=1e-6)
        assert together.laws[0].variance == pytest.approx(alone.laws[0].variance, rel=1e-9)
    cells = store.cells(CountPattern(WAYS, None, grouped=True))
    assert np.asarray(cells.values) == pytest.approx(table.reshape(-1), abs=1e-6)
    assert cells.laws[0].variance == pytest.approx(covariance.diagonal().max(), rel=0.02)
    assert cells.laws[0].variance >= covariance.diagonal().max() * (1 - 1e-9)


def test_two_bases_of_one_residual_are_averaged_by_precision():
    """The noise of both is independent; the average of two unbiased estimates is one, and more precise than either."""
    generator = np.random.default_rng(3)
    table = generator.integers(0, 50, SIZES)
    both = [residual for name in ("points", "ranges of one") for residual in residuals(BASES[name])]
    single = [
        store_of([(residual, 100.0) for residual in residuals(BASES[name])], table)
        for name in ("points", "ranges of one")
    ]
    store = store_of([(residual, 100.0) for residual in dict.fromkeys(both)], table)
    pattern = CountPattern((WAYS[0],), (0b111110,))
    averaged, points, ranges = (stored.lookup(pattern) for stored in (store, *single))
    assert averaged.values[0] == pytest.approx(points.values[0], abs=1e-6)
    rows = (5 / 9) ** 2 * 100.0
    first, second = (known.laws[0].variance - rows for known in (points, ranges))
    assert averaged.laws[0].variance - rows == pytest.approx(first * second / (first + second), rel=1e-6)
    assert store.variance(Residual((WAYS[0].based(Base.RANGES),))) == 100.0
    again = [*store.lookup_all([pattern] * 5)]
    assert {known.laws for known in again} == {(GaussianSumBound(again[0].laws[0].variance, again[0].laws[0].reach),)}
    assert again[0].laws[0].variance == pytest.approx(averaged.laws[0].variance, rel=1e-9)
    noisy, apart = ResidualStore(total=0), []
    for base, variance in ((Base.POINTS, 100.0), (Base.RANGES, 300.0)):
        residual, alone = Residual((WAYS[0].based(base),)), ResidualStore(total=0)
        values = generator.integers(-1000, 1000, residual.number)
        for residual_store in (noisy, alone):
            residual_store.add(residual, values, variance)
        apart.append(alone.lookup(pattern))
    precise, other = apart
    combined = noisy.lookup(pattern)
    weights = [1 / precise.laws[0].variance, 1 / other.laws[0].variance]
    assert combined.values[0] == pytest.approx(
        np.average([precise.values[0], other.values[0]], weights=weights), rel=1e-9
    )
    assert combined.laws[0].variance == pytest.approx(1 / sum(weights), rel=1e-6)


@pytest.mark.parametrize("number", [8, 9, 85])
def test_of_all_ranges_of_a_length_the_worst_is_found(number):
    waves = Classes("age", number, tuple(1 << code for code in range(number))).based(Base.RANGES)
    for size in {1, 2, number // 3, number // 2, number - 2}:
        full = (1 << number) - 1
        ranges = [((1 << size) - 1) << start for start in range(number)]
        spreads = [set_spread(waves, (bits | bits >> number) & full) for bits in ranges]
        worst = worst_range(number, size)
        assert worst.bit_count() == size
        assert set_spread(waves, worst) == pytest.approx(max(spreads), rel=1e-9)
        assert max(spreads) <= min(spreads) * 1.02
        factor = Factor(waves, tuple(worst >> place & 1 for place in range(number)))
        assert float(factor.spread) == pytest.approx(max(spreads), rel=1e-8)
