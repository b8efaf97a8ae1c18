"""Rows of the errata on multiplicative weights: the printed statement fails, the right one holds."""

import math

import numpy as np
import pytest

from dodona.curator.weights import Distribution
from dodona.curator.weights_design import UpdatesUsed, WeightsDesign
from dodona.lab.mechanisms import Laplace, SparseVector
from dodona.lab.weights import MultiplicativeWeights, least_drop, square_root, study_weights
from dodona.privacy.sparse_vector import EstimateChecker
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours, Unit
from tests.privacy import laws


def test_row_6_below_the_threshold_means_below_its_negative():
    """Inside the update branch both readings act alike; as a test of its own the printed one would always raise."""
    threshold = 0.2
    gaps = np.linspace(-1, 1, 2001)
    updating = np.abs(gaps) > threshold
    assert ((gaps[updating] < threshold) == (gaps[updating] < -threshold)).all()
    assert ((gaps < threshold) != (gaps < -threshold)).any()
    # The prose has "guess much smaller" for both directions: a guess that is too large is lowered.
    for counts, rises in (([90, 10], True), ([10, 90], False)):
        weights = MultiplicativeWeights(counts, step=0.1)
        assert weights.ask([1, 0]).updated
        assert (weights.hypothesis.expect(np.array([1.0, 0.0])) > 0.5) == rises


@pytest.mark.parametrize("scale", [10.0, 100.0, 1000.0])
def test_row_7_near_the_threshold_an_update_is_likely_and_the_borderline_is_not(scale):
    """Case 3 is within 2 rows of τ, case 2 beyond it. Noise Lap(σn) on the reals, the count anywhere below τ."""
    for distance in (0.0, 2.0, scale, 10 * scale):
        beyond = 0.5 * math.exp(-(distance + 2) / scale)
        near = 0.5 * math.exp(-max(distance - 2, 0) / scale) - beyond
        assert beyond / (beyond + near) >= math.exp(-4 / scale) - 1e-12  # case 2 has a constant probability
        assert near / (beyond + near) <= 4 / scale  # case 3 vanishes as noise grows


def compared_value_told(mechanism: SparseVector, values: list[int], threshold: int, told: int) -> float:
    """P(all but the last are below, and the last is above and its compared noisy value is `told`)."""
    first, second = float(mechanism.threshold_scale), float(mechanism.question_scale)
    noise = np.arange(-200, 201, dtype=float)
    weight = laws.laplace(noise, first)
    for value in values[:-1]:
        weight = weight * laws.laplace_below(threshold + noise - value - 1, second)
    weight = weight * (told >= threshold + noise)
    return float(weight.sum()) * float(laws.laplace(np.float64(told - values[-1]), second))


def test_row_9_telling_the_value_that_was_compared_breaks_privacy():
    """Questions that rise by one before the value is told: the loss grows past the price with their number."""
    mechanism = SparseVector(threshold_scale=4, question_scale=8)
    general = Sensitivity.scores(1, Neighbours.REPLACE)
    price = float(mechanism.event(general).epsilon or 0)
    assert price == 0.5
    losses = []
    for many in (1, 10, 100):
        first, other = [0] * many + [0], [1] * many + [0]
        chances = [compared_value_told(mechanism, values, 0, 0) for values in (first, other)]
        losses.append(abs(math.log(chances[0] / chances[1])))
    assert losses == sorted(losses)
    assert losses[1] > price + 1 / 8  # also past the price of a further answer with the question's noise
    assert losses[2] > 15 * price
    # A verdict with a fresh answer stays within its price, however many come before.
    fresh = EstimateChecker(
        SparseVector(threshold_scale=4, question_scale=8, positives=2), Laplace(scale=8), threshold=5
    )
    for many in (10, 100):
        tables = [laws.sparse_law(mechanism, [move] * many + [0], [0] * (many + 1), gaps=0) for move in (0, 1)]
        outcome = tuple(["below"] * many + [0])
        assert abs(math.log(tables[0][outcome] / tables[1][outcome])) <= price
    assert float(fresh.event(Unit.each_row(Neighbours.REPLACE)).epsilon or 0) == 2 * price + 1 / 8


def test_row_36_a_checker_with_a_noiseless_threshold_loses_more_with_every_question():
    """Fresh .1-private noise, each count at the threshold: .0909 a question, 90.9 after 1,000."""
    below = [0.5, 1 - 0.5 * math.exp(-0.1)]  # P(not above) at the threshold, and one row further from it
    each = math.log(below[1] / below[0])
    assert each == pytest.approx(0.0909, abs=5e-5)
    assert 1000 * each == pytest.approx(90.9, abs=0.05)
    # The same in integers, with a noisy threshold of the same price: never above the price of one instance.
    mechanism = SparseVector(threshold_scale=10, question_scale=20)
    price = float(mechanism.event(Sensitivity.scores(1, Neighbours.REPLACE)).epsilon or 0)
    noise = np.arange(-1200, 1201, dtype=float)
    for many in (1, 100, 1000):
        chances = [
            float((laws.laplace(noise, 10) * laws.laplace_below(noise - value - 1, 20) ** many).sum())
            for value in (0, 1)
        ]
        assert abs(math.log(chances[0] / chances[1])) <= price / 2 * (1 + 1e-9)  # the threshold's part alone


def test_row_38_the_signs_of_the_notes_are_turned_round():
    # Content at a ≤ q + 2α, and too high only at a > q + N/n + 3α: N/n is below -α, not above α.
    alpha, truth = 0.1, 0.3
    for estimate in np.linspace(0, truth + 2 * alpha, 50):
        for noise in np.linspace(-1, 1, 201):
            if estimate > truth + noise + 3 * alpha:
                assert noise <= -alpha + 1e-12
    # q(x) = 0, q(x') = 1: y = 1 gives -ε, and y ≤ 0 gives +ε.
    epsilon = 0.5
    for value in range(-3, 5):
        ratio = (abs(value - 1) - abs(value)) * epsilon
        loss = math.log(
            float(laws.laplace(np.float64(value), 1 / epsilon))
            / float(laws.laplace(np.float64(value - 1), 1 / epsilon))
        )
        assert loss == pytest.approx(ratio)
        assert loss == pytest.approx(epsilon if value <= 0 else -epsilon)
    # At kε² = 0 nothing can be promised: 1 - e^{-kε²}/2 would be a half, 1 - e^{-kε²/2} is nothing.
    assert 1 - math.exp(-0.0) / 2 == 0.5
    assert 1 - math.exp(-0.0 / 2) == 0


def test_row_43_a_scale_that_is_read_as_a_standard_deviation_loses_more():
    scale = 10.0
    as_deviation = scale / math.sqrt(2)
    noise = np.arange(-4000, 4001, dtype=float)
    law = laws.laplace(noise, scale)
    assert math.sqrt(float((law * noise**2).sum())) == pytest.approx(math.sqrt(2) * scale, rel=0.01)
    losses = [
        math.log(float(laws.laplace(np.float64(0), b)) / float(laws.laplace(np.float64(1), b)))
        for b in (scale, as_deviation)
    ]
    assert losses[1] / losses[0] == pytest.approx(math.sqrt(2))
    design = square_root(10**6, universe=1024, questions=1000, epsilon=1, delta="1e-6")
    assert design.checker.answer.scale == design.checker.test.question_scale  # both are scales


def test_row_44_without_a_cap_updates_go_on_and_a_threshold_below_four_steps_can_undo_them():
    # Noise far above the threshold: estimates that are right are "mended" again and again. The cap ends it.
    test = SparseVector(threshold_scale=50, question_scale=100, positives=4)
    design = WeightsDesign(
        rows=100,
        universe=2,
        questions=100,
        step=0.1,
        checker=EstimateChecker(test, Laplace(scale=100), threshold=5),
        within=1,
        confidence=0.5,
    )
    generator = np.random.default_rng(44)
    weights = study_weights(design, [50, 50], draw=lambda law: round(generator.laplace(scale=float(law.scale))))

    def ask_on() -> None:
        for _ in range(1000):  # each is "far" with probability near a half: 4 of 1000 are sure
            weights.ask([1, 0])

    with pytest.raises(UpdatesUsed):
        ask_on()
    assert weights.updates == design.updates == 3
    # Gaps are above τ/2. For τ ≥ 4η the potential falls by η²; for τ = 2η it may rise.
    step = 0.1
    assert least_drop(step=step, gap=4 * step / 2) == pytest.approx(step**2)
    assert least_drop(step=step, gap=2 * step / 2) == pytest.approx(0)
    data, hypothesis, query = Distribution(np.array([0.52, 0.48])), Distribution.uniform(2), np.array([1.0, 0.0])
    far = hypothesis.tilted(query, 1.0)  # a step of 1 at a gap of .02
    assert data.divergence(far) > data.divergence(hypothesis)
    for rows in (10**3, 10**5, 10**7):
        planned = square_root(rows, universe=2, questions=2, epsilon=100, delta="1e-6")
        scale = float(planned.checker.test.question_scale) / rows
        assert planned.checker.threshold / rows >= max(4 * planned.step, 2 * scale * math.log(2 / 0.05))
