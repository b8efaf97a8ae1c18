"""Estimates and intervals against the exact law of marks, for every table that there is."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from dodona.answer.estimate import to_float
from dodona.errors import InvalidArgument
from dodona.lab.local.bloom import Bloom
from dodona.lab.local.channel import SupportProbabilities
from dodona.lab.local.estimates import Estimates, expected_width
from dodona.lab.local.hashed import LocalHashing
from dodona.lab.local.interval import _at_most, population_interval, table_interval
from dodona.lab.local.kary import KaryResponse
from dodona.lab.local.odds import odds_below
from dodona.lab.local.unary import Unary
from dodona.lab.mechanisms import RandomizedResponse
from dodona.privacy.accuracy import Against
from tests.lab.local.scene import NAMES, TEXTS, keys_of, small, twice

SUPPORTS = {
    "coins": KaryResponse.coins().support,
    "kary": KaryResponse.of(7, epsilon=2).support,
    "optimized": Unary.optimized(100, epsilon=1).support,
    "hashed": LocalHashing.of(epsilon=1).support,
    "bloom": Bloom.of(epsilon=4, bits=64, hashes=2).support,
    "faint": KaryResponse.of(2, epsilon="1/10").support,
}
EVERY = pytest.mark.parametrize("support", SUPPORTS.values(), ids=SUPPORTS)


def law(meaning: int, respondents: int, support: SupportProbabilities):
    """The law of the number of marks, if so many of the respondents mean the label."""
    meant, others = meaning * support.trials, (respondents - meaning) * support.trials
    kept = binom.pmf(np.arange(meant + 1), meant, float(support.keep))
    lent = binom.pmf(np.arange(others + 1), others, float(support.lend))
    return np.convolve(kept, lent)


@EVERY
@pytest.mark.parametrize("respondents", [1, 2, 9, 30])
@pytest.mark.parametrize("confidence", [0.6, 0.95])
def test_the_interval_for_the_table_covers_every_table(
    support: SupportProbabilities, respondents: int, confidence: float
):
    failing = 1 - confidence
    ends = [table_interval(marks, respondents, support, failing) for marks in range(respondents * support.trials + 1)]
    for meaning in range(respondents + 1):
        covering = [low <= meaning <= high for low, high in ends]
        assert np.sum(law(meaning, respondents, support)[covering]) >= confidence


def test_intervals_for_tables_are_not_much_wider_than_they_must_be():
    """At 60% an interval that forgot a side, or halved the failure once more, would cover all tables at 75%."""
    support = SUPPORTS["coins"]
    ends = [table_interval(marks, 60, support, 0.4) for marks in range(61)]
    covered = [
        np.sum(law(meaning, 60, support)[[low <= meaning <= high for low, high in ends]]) for meaning in range(61)
    ]
    assert min(covered) < 0.7


@EVERY
@pytest.mark.parametrize("respondents", [1, 9, 30])
def test_the_interval_for_the_population_covers_every_share(support: SupportProbabilities, respondents: int):
    ends = [population_interval(marks, respondents, support, 0.1) for marks in range(respondents * support.trials + 1)]
    laws = np.array([law(meaning, respondents, support) for meaning in range(respondents + 1)])
    for share in np.linspace(0, 1, 41):
        probabilities = binom.pmf(np.arange(respondents + 1), respondents, share) @ laws
        assert np.sum(probabilities[[low <= share <= high for low, high in ends]]) >= 0.9 - 1e-12


@EVERY
def test_the_estimate_is_unbiased_for_every_table(support: SupportProbabilities):
    for meaning in range(13):
        mean = math.fsum(
            probability * float(support.share(marks, 12)) for marks, probability in enumerate(law(meaning, 12, support))
        )
        assert mean == pytest.approx(meaning / 12, abs=1e-10)


@EVERY
def test_the_variance_is_that_of_the_law(support: SupportProbabilities):
    for meaning in (0, 5, 12):
        probabilities = law(meaning, 12, support)
        shares = np.array([float(support.share(marks, 12)) for marks in range(probabilities.size)])
        spread = np.sum(probabilities * (shares - meaning / 12) ** 2)
        assert spread == pytest.approx(support.variance(meaning / 12, 12), rel=1e-9)


@EVERY
@pytest.mark.parametrize("against", Against)
def test_the_width_that_is_stated_beforehand_covers_every_table(support: SupportProbabilities, against: Against):
    within = expected_width(support, 40, 0.2, against=against)
    shares = np.array([float(support.share(marks, 40)) for marks in range(40 * support.trials + 1)])
    for meaning in range(0, 41, 4):
        assert np.sum(law(meaning, 40, support)[np.abs(shares - meaning / 40) <= within]) >= 0.8


@pytest.mark.parametrize("epsilon", ["1/10", "1", "5"])
@pytest.mark.parametrize("yes", [0, 130, 200, 399, 400])
def test_for_yes_and_no_the_intervals_are_those_of_randomized_response(epsilon: str, yes: int):
    old, new = RandomizedResponse(epsilon=epsilon), KaryResponse.of(2, epsilon=epsilon).support
    low, high = table_interval(yes, 400, new, 1 - 0.95)
    assert (low / 400, high / 400) == old.interval(yes, 400, against=Against.TABLE)
    assert population_interval(yes, 400, new, 1 - 0.95) == pytest.approx(old.interval(yes, 400), abs=1e-9)
    assert float(new.share(yes, 400)) == pytest.approx(old.share(yes, 400), rel=1e-9)


@pytest.mark.parametrize(
    ("meaning", "others", "probabilities"),
    [(0, 5, (0.3, 0.4)), (5, 0, (0.3, 0.4)), (400, 3_000, (0.5, 0.27)), (3_000, 400, (0.5, 0.01)), (7, 9, (0.9, 1e-9))],
)
def test_tails_of_two_binomials_are_those_of_their_convolution(
    meaning: int, others: int, probabilities: tuple[float, float]
):
    kept = binom.pmf(np.arange(meaning + 1), meaning, probabilities[0])
    lent = binom.pmf(np.arange(others + 1), others, probabilities[1])
    exact = np.cumsum(np.convolve(kept, lent))
    for marks in {0, 1, (meaning + others) // 3, (meaning + others) // 2, meaning + others}:
        assert _at_most(marks, meaning, others, probabilities) == pytest.approx(exact[marks], rel=1e-9, abs=1e-13)
    assert _at_most(-1, meaning, others, probabilities) == 0


@pytest.mark.parametrize("marks", [53_300, 54_020, 54_600])
def test_tails_of_many_trials_agree_with_thirty_digits(marks: int):
    """40 + 200,000 trials: both laws by their recurrences in multiple precision, tails from 10^-4 up."""
    few, many, keep, lend = 40, 200_000, 0.5, 0.27
    with mpmath.workdps(30):
        below = [mpmath.mpf(0)] * (few + 1)
        probability = total = mpmath.mpf(1 - lend) ** many
        odds = mpmath.mpf(lend) / (1 - mpmath.mpf(lend))
        for number in range(marks):
            probability *= odds * (many - number) / (number + 1)
            total += probability
            if number + 1 >= marks - few:
                below[marks - number - 1] = total
        wanted = mpmath.fsum(
            mpmath.binomial(few, kept) * mpmath.mpf(keep) ** few * below[kept] for kept in range(few + 1)
        )
        assert min(wanted, 1 - wanted) > 1e-7
        assert abs(_at_most(marks, few, many, (keep, lend)) / wanted - 1) < 1e-10


def test_a_million_respondents_have_exact_intervals_too():
    """The ends are where the tails of the normal law are, to a few hundredths of a standard deviation."""
    support = Unary.optimized(1000, epsilon=1).support
    marks, respondents = 270_000, 1_000_000
    low, high = table_interval(marks, respondents, support, 0.05)
    middle = float(support.share(marks, respondents)) * respondents
    deviation = respondents * math.sqrt(support.variance(middle / respondents, respondents))
    assert (high - middle) / deviation == pytest.approx(1.96, abs=0.02)
    assert (middle - low) / deviation == pytest.approx(1.96, abs=0.02)
    assert expected_width(support, respondents, 0.05, against=Against.TABLE) * respondents > high - middle


@pytest.mark.distribution
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("looks", [1, 2])
def test_marks_of_real_reports_have_the_mean_and_the_spread_of_the_law(name: str, looks: int):
    """400 tables of 1,000 respondents: mean within five standard errors, variance within five of its own (10^-6)."""
    channel = small("2")[name]
    keys, tables, respondents = keys_of(channel), 400, 1_000
    answers = np.repeat(np.arange(len(keys)), np.diff(np.linspace(0, respondents, len(keys) + 1).astype(int)))
    words = channel.randomize(np.tile(keys[answers].T, tables).T, channel.seeds(tables * respondents))
    read = channel
    if looks == 2:
        words, read = channel.randomize_again(words, channel.second_response(odds_below(Fraction(1)))), twice(channel)
    marks = np.array([read.marks(block, keys) for block in np.split(words, tables)])
    support = read.support
    for label in range(len(keys)):
        meaning = int(np.sum(answers == label))
        probabilities = law(meaning, respondents, support)
        mean = probabilities @ np.arange(probabilities.size)
        variance = probabilities @ (np.arange(probabilities.size) - mean) ** 2
        assert abs(marks[:, label].mean() - mean) <= 5 * math.sqrt(variance / tables)
        assert abs(marks[:, label].var() / variance - 1) <= 5 * math.sqrt(2 / tables)


def estimates(marks: tuple[int, ...] = (300, 150, 80, 52), respondents: int = 1_000) -> Estimates:
    support = Unary.optimized(4, epsilon=3).support
    return Estimates("tree", TEXTS[:4], marks, respondents, support)


def test_intervals_that_hold_at_once_are_wider_and_those_of_the_population_too():
    estimated = estimates()
    single, all_at_once, population = (
        estimated["beech"],
        estimated.simultaneous()["beech"],
        estimated.population["beech"],
    )
    assert to_float(all_at_once.high) > to_float(single.high) > to_float(single.low) > to_float(all_at_once.low)
    assert to_float(population.high) > to_float(single.high)
    assert estimated.simultaneous().simultaneous() == estimated.simultaneous()
    assert estimated.shares() == {label: estimated[label] for label in estimated.labels}


def test_counts_are_shares_of_the_respondents():
    estimated = estimates()
    assert estimated.count("beech").low == to_float(estimated["beech"].low) * 1_000
    assert float(estimated.count("beech")) == pytest.approx(float(estimated["beech"]) * 1_000)
    with pytest.raises(InvalidArgument, match="shares"):
        estimated.population.count("beech")


def test_consistent_shares_are_none_below_nought_and_one_in_all():
    for marks in ((900, 500, 260, 255), (0, 0, 0, 0), (500, 500, 500, 500), (480, 40, 50, 45)):
        shares = estimates(marks).consistent()
        assert min(shares.values()) >= 0
        assert sum(shares.values()) == pytest.approx(1)
        order = sorted(shares, key=lambda label: -shares[label])
        assert shares[order[0]] == shares[estimates(marks).labels[int(np.argmax(marks))]]


def test_heavy_hitters_are_sure_only_above_their_share():
    estimated = estimates((300, 150, 80, 52))
    heavy = estimated.heavy("1/4")
    assert heavy.sure == ("oak",)
    assert heavy.possible == ("oak", "beech")
    assert estimated.heavy(0).sure == tuple(label for label, _ in estimated)
    assert estimated.heavy(1).sure == ()


def test_estimates_are_told_as_text_and_as_json():
    estimated = estimates()
    words = json.loads(estimated.to_json())
    assert words["respondents"] == 1_000
    assert [row["label"] for row in words["shares"]] == list(estimated.labels)
    assert str(estimated).splitlines()[0] == "tree, 1,000 respondents"
    assert len(str(estimated).splitlines()) == 5


def test_a_label_that_was_not_counted_and_a_confidence_of_one_are_refused():
    with pytest.raises(InvalidArgument, match="write one of 'oak'"):
        estimates()["palm"]
    with pytest.raises(InvalidArgument, match="confidence"):
        Estimates("q", ("a", "b"), (1, 1), 2, KaryResponse.coins().support, 1.0)
