"""What every mechanism owes: a price under each relation, an error, noise for an error, and a page."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dodona.errors import InvalidArgument
from dodona.lab.mechanisms import (
    Exponential,
    Gaussian,
    Laplace,
    NoisyMax,
    PermuteAndFlip,
    RoundedGaussian,
    SparseVector,
)
from dodona.privacy.accuracy import Accuracy, Against
from dodona.privacy.events import Event
from dodona.query.sensitivity import Sensitivity
from dodona.schema.schema import Neighbours

PAGES = Path(__file__).parents[2] / "docs" / "theory"
MORE = Fraction(101, 100)


@dataclass(frozen=True)
class Contract:
    """How one mechanism is called; `error` holds the arguments that its accuracy needs."""

    kind: Any
    error: dict[str, int]
    for_privacy: Callable[[Sensitivity], Any]
    for_accuracy: Callable[[Accuracy], Any]
    louder: Callable[[Any], Any]
    discounted: bool
    """Whether monotone answers cost less."""
    within: float = 50


def scaled(kind: Any) -> Callable[[Any], Any]:  # noqa: ANN401  any mechanism with one scale
    return lambda mechanism: kind(scale=mechanism.scale * MORE)


def choice(kind: Any) -> Contract:  # noqa: ANN401  any choice
    return Contract(
        kind,
        {"candidates": 20},
        lambda sensitivity: kind.for_privacy("1/2", sensitivity),
        lambda target: kind.for_accuracy(target, candidates=20),
        scaled(kind),
        discounted=True,
    )


CONTRACTS = [
    Contract(
        Laplace,
        {"answers": 3},
        lambda sensitivity: Laplace.for_privacy("1/2", sensitivity),
        lambda target: Laplace.for_accuracy(target, answers=3),
        scaled(Laplace),
        discounted=False,
        within=1_000,
    ),
    Contract(
        Gaussian,
        {"answers": 3},
        lambda sensitivity: Gaussian.for_privacy("1/2", "1e-6", sensitivity),
        lambda target: Gaussian.for_accuracy(target, answers=3),
        scaled(Gaussian),
        discounted=False,
        within=1_000,
    ),
    Contract(
        RoundedGaussian,
        {"answers": 3},
        lambda sensitivity: RoundedGaussian.for_privacy("1/2", "1e-6", sensitivity),
        lambda target: RoundedGaussian.for_accuracy(target, answers=3),
        scaled(RoundedGaussian),
        discounted=False,
        within=1_000,
    ),
    choice(Exponential),
    choice(PermuteAndFlip),
    choice(NoisyMax),
    Contract(
        SparseVector,
        {"questions": 100},
        lambda sensitivity: SparseVector.for_privacy("1/2", sensitivity, questions=100, positives=3),
        lambda target: SparseVector.for_accuracy(
            target, Sensitivity.scores(1, Neighbours.REPLACE), questions=100, positives=3
        ),
        lambda mechanism: SparseVector(
            threshold_scale=mechanism.threshold_scale * MORE,
            question_scale=mechanism.question_scale * MORE,
            positives=mechanism.positives,
            restarts=mechanism.restarts,
        ),
        discounted=True,
        within=1_000,
    ),
]
EACH = pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.kind.__name__)


@EACH
@pytest.mark.parametrize("relation", Neighbours)
def test_a_mechanism_for_a_price_costs_at_most_that(contract: Contract, relation: Neighbours) -> None:
    for sensitivity in (Sensitivity.count(relation), Sensitivity.scores(3, relation), Sensitivity.histogram(relation)):
        if sensitivity.l1 > 10 and not contract.discounted:
            continue  # scores are chosen among, not released
        mechanism = contract.for_privacy(sensitivity)
        event: Event = mechanism.event(sensitivity)
        assert event.neighbours is relation
        if event.epsilon is None:
            assert mechanism.delta("1/2", sensitivity) <= 1e-6
        else:
            assert event.epsilon <= Fraction(1, 2)
        assert 0 < event.rho() < 1
        assert event.renyi(Fraction(2)) <= 2 * event.rho()


@EACH
def test_the_discount_for_monotone_answers_exists_only_under_add_remove(contract: Contract) -> None:
    mechanism = contract.for_accuracy(Accuracy(within=contract.within))
    monotone = mechanism.event(Sensitivity.count(Neighbours.ADD_REMOVE)).rho()
    general = mechanism.event(Sensitivity.count(Neighbours.REPLACE)).rho()
    unclaimed = Sensitivity(l1=1, l2_squared=1, linf=1, neighbours=Neighbours.ADD_REMOVE)
    assert mechanism.event(unclaimed).rho() == general
    assert (monotone < general) if contract.discounted else (monotone == general)


@EACH
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_noise_for_a_target_meets_it_and_a_hundredth_more_does_not(contract: Contract, confidence: float) -> None:
    target = Accuracy(within=contract.within, confidence=confidence)
    mechanism = contract.for_accuracy(target)
    assert mechanism.accuracy(confidence, **contract.error).within <= target.within
    assert contract.louder(mechanism).accuracy(confidence, **contract.error).within > target.within


@EACH
def test_an_error_grows_with_the_confidence(contract: Contract) -> None:
    mechanism = contract.for_accuracy(Accuracy(within=contract.within))
    errors = [mechanism.accuracy(confidence, **contract.error).within for confidence in (0.5, 0.9, 0.99, 0.999)]
    assert errors == sorted(errors)
    assert errors[0] < errors[-1]


@EACH
def test_a_target_against_the_population_is_refused(contract: Contract) -> None:
    with pytest.raises(InvalidArgument, match="against = "):
        contract.for_accuracy(Accuracy(within=50, against=Against.POPULATION))


@EACH
def test_a_mechanism_names_a_theorem_that_has_a_page(contract: Contract) -> None:
    assert (PAGES / f"{contract.kind.theorem}.md").is_file()


@EACH
def test_a_mechanism_is_a_value(contract: Contract) -> None:
    target = Accuracy(within=contract.within)
    assert contract.for_accuracy(target) == contract.for_accuracy(target)
    assert hash(contract.for_accuracy(target)) == hash(contract.for_accuracy(target))
    assert contract.louder(contract.for_accuracy(target)) != contract.for_accuracy(target)
