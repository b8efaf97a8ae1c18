"""The reusable holdout: training answers while they hold, corrections where they do not, and an end."""

import copy
import math
import pickle

import numpy as np
import pytest

import dodona
from dodona.errors import InvalidArgument
from dodona.lab.adaptive.faults import (
    AnotherProcess,
    OracleClosed,
    OverfitsUsed,
    QueriesUsed,
    QueryFault,
    TooFewRows,
    UnreachableAccuracy,
)
from dodona.lab.adaptive.grid import rounding_error
from dodona.lab.adaptive.holdout import ReusableHoldout, correct
from dodona.lab.adaptive.holdout_design import HoldoutMethod, HoldoutParameters, noise_design, rounding_design
from dodona.lab.adaptive.noiseless import log_sparse_transcripts, union_bound_within
from dodona.lab.adaptive.transfer import concentrated_transfer, pure_transfer
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours
from tests.trusted.blocks import in_children

CHANCE = np.random.default_rng(12)
TRAIN, HOLDOUT = CHANCE.random(2000), CHANCE.random(2000)


def learned_by_heart(rows: np.ndarray) -> np.ndarray:
    """1 on every training row, and on nothing else."""
    return np.isin(rows, TRAIN)


def half(rows: np.ndarray) -> np.ndarray:
    return rows < 0.5


def test_it_is_part_of_the_surface():
    assert dodona.ReusableHoldout is ReusableHoldout


@pytest.mark.parametrize("method", HoldoutMethod)
def test_an_honest_question_is_told_from_the_training_rows_and_an_overfit_one_from_the_holdout(method):
    """With noise the verdict on the honest one errs with probability below 5%, that on the other below 10^-9."""
    rows = np.random.default_rng(3).random((2, 20_000))
    holdout = ReusableHoldout(rows[0], rows[1], queries=20, overfits=2, methods=[method])
    answer = holdout.ask(half)
    assert (answer.source, answer.value) == ("train", (rows[0] < 0.5).mean())
    corrected = holdout.ask(lambda each: np.isin(each, rows[0]))
    assert corrected.source == "holdout"
    assert corrected.low <= 0 <= corrected.high
    assert corrected.value < 0.3
    assert (holdout.left, holdout.overfits_left) == (18, 1)


@pytest.mark.parametrize("method", HoldoutMethod)
def test_with_the_last_correction_it_ends(method):
    rows = np.random.default_rng(3).random((2, 20_000))
    holdout = ReusableHoldout(rows[0], rows[1], queries=20, overfits=1, methods=[method])
    holdout.ask(lambda each: np.isin(each, rows[0]))
    assert holdout.left == 0
    with pytest.raises(OverfitsUsed, match="correct 1 questions"):
        holdout.ask(half)


def test_more_questions_than_were_declared_are_refused():
    holdout = ReusableHoldout(TRAIN, HOLDOUT, queries=2, methods=[HoldoutMethod.ROUNDING])
    holdout.ask(half)
    with pytest.raises(QueriesUsed, match="1 are left"):
        holdout.ask_many(lambda rows: np.column_stack([rows, rows]), answers=2)
    holdout.ask(half)
    with pytest.raises(QueriesUsed, match="all have been asked"):
        holdout.ask(half)


def test_columns_are_questions_one_after_another_until_it_ends():
    holdout = ReusableHoldout(TRAIN, HOLDOUT, queries=10, overfits=1, methods=[HoldoutMethod.ROUNDING])
    answers = holdout.ask_many(
        lambda rows: np.column_stack([rows < 0.5, learned_by_heart(rows), rows < 0.2]), answers=3
    )
    assert [answer.source for answer in answers] == ["train", "holdout"]
    assert holdout.left == 0


def test_a_correction_without_noise_is_the_middle_of_its_level():
    holdout = ReusableHoldout(TRAIN, HOLDOUT, queries=10, overfits=3, methods=[HoldoutMethod.ROUNDING])
    levels = holdout.design.levels
    assert levels is not None
    assert holdout.ask(learned_by_heart).value == 0.5 / levels
    assert holdout.ask(lambda rows: ~learned_by_heart(rows)).value == 1 - 0.5 / levels


def test_a_gap_below_what_is_tolerated_is_never_corrected_and_one_at_the_threshold_is():
    """Training answers 0, holdout answers g: exact, without noise."""
    zeros = np.zeros(2000)
    for method_gap, source in ((-1, "train"), (0, "holdout")):
        holdout = ReusableHoldout(zeros, np.ones(2000), queries=10, methods=[HoldoutMethod.ROUNDING])
        design = holdout.design
        rows_off = design.threshold / design.resolution  # in rows of value one
        value = (math.ceil(rows_off) + method_gap) / 2000
        answer = holdout.ask(lambda rows, value=value: rows * value)
        assert answer.source == source
    assert design.tolerates < design.threshold / (2000 * design.resolution)


def test_verdicts_have_the_noise_of_the_sparse_vector_and_corrections_noise_of_their_own():
    drawn: list[object] = []

    def draw(noise: object) -> int:
        drawn.append(noise)
        return 0

    holdout = ReusableHoldout(TRAIN, HOLDOUT, queries=3, overfits=3, methods=[HoldoutMethod.NOISE], draw=draw)
    test, answer = holdout.design.test, holdout.design.answer
    assert test is not None
    assert drawn == [Laplace(scale=test.threshold_scale)]
    holdout.ask(half)
    assert drawn[1:] == [Laplace(scale=test.question_scale)]
    reply = holdout.ask(learned_by_heart)
    # The threshold's noise is drawn again, and a fresh one is put on the sum.
    assert drawn[2:] == [Laplace(scale=test.question_scale), Laplace(scale=test.threshold_scale), answer]
    assert reply.value == 0


def test_a_design_without_noise_adds_up():
    case = HoldoutParameters(rows=1000, queries=500, overfits=2, failing=0.05)
    design = rounding_design(case, 0.25)
    assert design is not None
    levels = design.levels
    assert levels is not None
    ways = log_sparse_transcripts(500, positives=2, levels=levels)
    sampled = union_bound_within(1000, ways=ways, failing=0.05)
    threshold = design.threshold / case.whole
    assert threshold + sampled + 2 * rounding_error(case.steps) <= 0.25
    assert threshold + sampled > 0.2499
    assert 0.5 / levels + sampled + rounding_error(case.steps) == design.corrected <= 0.25
    assert rounding_design(case, 0.05) is None
    # The only correction is the last thing that is told, so it may be told finely.
    single = rounding_design(HoldoutParameters(rows=1000, queries=500, overfits=1, failing=0.05), 0.25)
    assert single is not None
    assert single.levels == 10**4
    assert single.corrected < 0.08


@pytest.mark.parametrize(("overfits", "law"), [(1, Laplace), (40, Gaussian)])
def test_a_design_with_noise_keeps_its_error_at_the_price_of_the_noise_that_is_drawn(overfits, law):
    case = HoldoutParameters(rows=10**5, queries=500, overfits=overfits, failing=0.05)
    design = noise_design(case, 0.25)
    assert design is not None
    assert design.test is not None
    assert design.test.positives == overfits
    assert design.test.restarts
    assert isinstance(design.answer, law)
    moves = Sensitivity.scores(case.steps, Neighbours.REPLACE)
    tests = design.test.event(moves)
    if law is Laplace:
        each = case.steps / design.test.threshold_scale + 2 * case.steps / design.test.question_scale
        gap = pure_transfer(float(overfits * (each + case.steps / design.answer.scale)))
    else:
        rho = float(tests.rho()) + overfits * case.steps**2 / (2 * float(design.answer.scale) ** 2)
        gap = concentrated_transfer(rho, failing=0.05 * 0.6)
    assert gap < 0.25
    # Corrections: the mean of their noise given all that was told, at the part that they have.
    from dodona.lab.adaptive.averaged import averaged_gaussian, averaged_laplace, averaged_verdicts

    bound, part = (averaged_laplace, 0.5) if law is Laplace else (averaged_gaussian, 0.2)
    noise = bound(scale=float(design.answer.scale), answers=overfits, failing=0.05 * part)
    assert gap + (noise + 1) / case.whole + rounding_error(case.steps) <= 0.25 * (1 + 1e-6)
    verdicts = averaged_verdicts(
        threshold=float(design.test.threshold_scale),
        question=float(design.test.question_scale),
        thresholds=overfits,
        questions=500,
        failing=0.05 * part,
    )
    assert gap + (design.threshold + verdicts + 2) / case.whole + 2 * rounding_error(case.steps) <= 0.25 * (1 + 1e-6)
    assert gap + (design.threshold + verdicts) / case.whole > 0.249


def test_the_better_method_is_chosen_and_more_overfits_are_for_noise():
    few = ReusableHoldout(TRAIN, HOLDOUT, queries=100, overfits=1).design
    assert few.method is HoldoutMethod.ROUNDING
    case = HoldoutParameters(rows=10**7, queries=10**6, overfits=10**5, failing=0.05)
    rounded, noisy = rounding_design(case, 0.15), noise_design(case, 0.15)
    assert rounded is None
    assert noisy is not None
    assert noisy.tolerates > 0


def test_without_a_wish_it_is_as_near_as_honest_questions_allow():
    nearest = ReusableHoldout(TRAIN, HOLDOUT, queries=100).design
    honest = math.sqrt(math.log(2 * 100 / 0.05) / 2 * (2 / 2000))
    assert nearest.tolerates == pytest.approx(honest, rel=0.02)
    wider = ReusableHoldout(TRAIN, HOLDOUT, queries=100, within=0.3).design
    assert (wider.within, wider.tolerates > nearest.tolerates) == (0.3, True)
    assert str(wider) == "±0.3 for 100 questions of which 1 overfit at 0.95, by rounding"


def test_what_the_holdout_cannot_promise_is_refused_with_what_it_can():
    with pytest.raises(UnreachableAccuracy, match=r"correct 1 within 0\.03: 0\.1\d+ can be promised"):
        ReusableHoldout(TRAIN, HOLDOUT, queries=100, within=0.03)
    with pytest.raises(UnreachableAccuracy, match="no design promises anything"):
        ReusableHoldout(TRAIN, HOLDOUT[:5], queries=100)


@pytest.mark.parametrize(("train", "holdout"), [(TRAIN, []), (TRAIN, [0.5]), ([], HOLDOUT)])
def test_an_empty_or_tiny_sample_is_refused(train, holdout):
    with pytest.raises(TooFewRows, match="at least"):
        ReusableHoldout(train, holdout, queries=5)


def test_a_fault_on_training_rows_is_free_and_one_on_the_holdout_closes_it():
    holdout = ReusableHoldout(TRAIN, np.append(HOLDOUT[:-1], 7.0), queries=5, methods=[HoldoutMethod.ROUNDING])
    with pytest.raises(QueryFault, match="train rows: it returned a value outside 0 to 1"):
        holdout.ask(lambda rows: rows + 1)
    assert holdout.left == 5
    with pytest.raises(OracleClosed, match="holdout rows: it returned a value outside 0 to 1") as refused:
        holdout.ask(lambda rows: rows)
    assert refused.value.__cause__ is refused.value.__context__ is None  # a message of the query may quote a row
    with pytest.raises(OracleClosed):
        holdout.ask(half)


def test_a_holdout_is_not_copied_and_answers_nothing_in_a_forked_process():
    holdout = ReusableHoldout(TRAIN, HOLDOUT, queries=5)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="ReusableHoldout is not copied"):
            copied(holdout)

    def asked() -> np.ndarray:
        try:
            holdout.ask(half)
        except AnotherProcess:
            return np.array([1])
        return np.array([0])

    assert [child.tolist() for child in in_children(2, asked)] == [[1], [1]]
    assert asked().tolist() == [0]
    assert holdout.left == 4


def test_arguments_that_mean_nothing_are_refused():
    for wrong in (
        {"queries": 0},
        {"queries": 5, "overfits": 0},
        {"queries": 5, "within": 2},
        {"queries": 5, "confidence": 1},
    ):
        with pytest.raises(InvalidArgument):
            ReusableHoldout(TRAIN, HOLDOUT, **wrong)
    with pytest.raises(InvalidArgument, match="SHARES"):
        ReusableHoldout(TRAIN, HOLDOUT, queries=5, values=1)  # type: ignore[arg-type]


class Constant:
    """A model that always says one thing."""

    def __init__(self, label: int) -> None:
        self.label = label

    def predict(self, features: np.ndarray) -> np.ndarray:
        return np.full(len(features), self.label)


def test_models_are_scored_by_accuracy_or_by_whatever_a_row_is_given():
    labels = (TRAIN < 0.3).astype(int), (HOLDOUT < 0.3).astype(int)
    holdout = ReusableHoldout((TRAIN, labels[0]), (HOLDOUT, labels[1]), queries=10)
    assert holdout.score(Constant(1)).value == labels[0].mean()
    assert correct(Constant(0), TRAIN, labels[0]).mean() == 1 - labels[0].mean()
    halved = holdout.score(Constant(1), per_row=lambda model, X, y: correct(model, X, y) / 2)  # noqa: N803
    assert halved.value == labels[0].mean() / 2
    assert holdout.scorer()(Constant(1), None, None) == labels[0].mean()


def test_a_grid_search_of_scikit_learn_can_score_by_the_holdout():
    tree = pytest.importorskip("sklearn.tree")
    selection = pytest.importorskip("sklearn.model_selection")
    chance = np.random.default_rng(8)
    features = chance.normal(size=(4000, 5))
    labels = (features[:, 0] + chance.normal(size=4000) > 0).astype(int)
    train, held = slice(0, 2000), slice(2000, 4000)
    holdout = ReusableHoldout((features[train], labels[train]), (features[held], labels[held]), queries=4, overfits=4)
    search = selection.GridSearchCV(
        tree.DecisionTreeClassifier(random_state=0),
        {"max_depth": [1, 3, 8, None]},
        scoring=holdout.scorer(),
        cv=[(np.arange(2000), np.arange(2000))],
        refit=False,
    )
    search.fit(features[train], labels[train])
    scores = search.cv_results_["mean_test_score"]
    # A full tree is right on all that it was trained on, and on about two thirds of the population.
    assert search.best_params_["max_depth"] in {1, 3}
    assert scores[3] < 0.85
    assert holdout.overfits_left < 4
