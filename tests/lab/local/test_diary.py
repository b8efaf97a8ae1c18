"""Diaries: an answer that was given before is told from its permanent report, and the cost is said honestly."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from dodona.errors import InvalidRequest
from dodona.lab.local import Diary, Encoder, SurveyQuestion
from dodona.lab.local.channel import MarkProbabilities
from dodona.lab.local.odds import is_within, odds_below

TREES = ("oak", "beech", "ash")
PLAIN = SurveyQuestion.choice("tree", TREES, epsilon=1)
LOOKED = SurveyQuestion.choice("tree", TREES, epsilon=1, each="1/2")
TEXT = SurveyQuestion.text("page", epsilon=1, each="1/2")
BITS = SurveyQuestion.text("page", epsilon=1, encoder=Encoder.BLOOM, each="1/2", shape=(16, 2))


def kept_through(diary: Diary, values: list[str]) -> tuple[list[tuple[int, ...]], Diary]:
    """The reports of these answers, one after the other."""
    words = []
    for value in values:
        report, diary = diary.respond(value)
        words.append(report.words)
    return words, diary


def test_without_a_second_look_an_answer_is_told_the_same_for_ever():
    words, diary = kept_through(Diary.empty(PLAIN), ["oak"] * 50)
    assert len(set(words)) == 1
    assert (diary.cost().values, diary.cost().reports) == (1, 50)


def test_an_old_answer_comes_back_as_it_was_told_before():
    words, diary = kept_through(Diary.empty(PLAIN), ["oak", "ash", "oak", "ash", "beech", "oak"])
    assert words[0] == words[2] == words[5]
    assert words[1] == words[3]
    assert diary.cost().same_moments == 3 * PLAIN.permanent.epsilon


def test_averaging_an_unchanged_answer_finds_no_more_than_its_permanent_report():
    """2,000 reports of one answer: what is told most often is the permanent report, true or not."""
    words, diary = kept_through(Diary.empty(LOOKED), ["oak"] * 2_000)
    (permanent,) = diary.kept.values()
    counts = np.bincount([row[0] for row in words], minlength=3)
    second_response = LOOKED.permanent.second_response(odds_below(Fraction(1, 2)))
    # Six standard deviations: false alarm 2·10^-9.
    assert abs(counts[permanent[0]] - 2_000 * float(second_response.keep)) <= 6 * np.sqrt(500)
    assert counts.argmax() == permanent[0]


@pytest.mark.distribution
def test_the_permanent_reports_of_many_diaries_follow_the_channel():
    """3,000 diaries: chi-square at 10^-9; a permanent report that is always the truth is refused."""
    kept = [next(iter(Diary.empty(PLAIN).respond("ash")[1].kept.values()))[0] for _ in range(3_000)]
    seen = np.bincount(kept, minlength=3)

    def surprise(probabilities: MarkProbabilities) -> float:
        wanted = 3_000 * np.array([float(probabilities.lend), float(probabilities.lend), float(probabilities.keep)])
        return float(chi2.sf(np.sum((seen - wanted) ** 2 / wanted), 2))

    assert surprise(PLAIN.permanent.probabilities) > 1e-9
    assert surprise(MarkProbabilities(Fraction(98, 100), Fraction(1, 100))) < 1e-9


@pytest.mark.parametrize("question", [TEXT, BITS], ids=["hashed", "bloom"])
def test_one_seed_serves_all_answers_so_that_a_change_does_not_show(question: SurveyQuestion):
    size = question.permanent.seeds(1).shape[1]
    words, _ = kept_through(Diary.empty(question), ["oak", "ash", "oak", "beech"])
    assert len({row[:size] for row in words}) == 1
    others, _ = kept_through(Diary.empty(question), ["oak"])
    assert others[0][:size] != words[0][:size]


def laws(question: SurveyQuestion, history: tuple[int, ...]) -> dict[tuple[int, ...], Fraction]:
    """The exact law of all reports of a history of a list: over the permanent reports, then over the second looks."""
    channel = question.permanent
    second = None if question.each is None else channel.second_response(odds_below(question.each))
    labels = range(len(TREES))
    values = sorted(set(history))
    law: dict[tuple[int, ...], Fraction] = {}
    for permanent in itertools.product(labels, repeat=len(values)):
        drawn = dict(zip(values, permanent, strict=True))
        probability = Fraction(1)
        for value in values:
            probability *= channel.probability((drawn[value],), (value,))
        for words in itertools.product(labels, repeat=len(history)):
            given = probability
            for value, said in zip(history, words, strict=True):
                same = said == drawn[value]
                given *= Fraction(same) if second is None else (second.keep if same else second.lend)
            law[words] = law.get(words, Fraction(0)) + given
    return law


def ratio(one: dict[tuple[int, ...], Fraction], two: dict[tuple[int, ...], Fraction]) -> Fraction | None:
    """The largest ratio of chances; None where something can be told in one history alone."""
    pairs = [pair for pair in ((one[words], two[words]) for words in one) if any(pair)]
    if any(not all(pair) for pair in pairs):
        return None
    return max(max(a / b, b / a) for a, b in pairs)


@pytest.mark.parametrize("question", [PLAIN, LOOKED], ids=["plain", "second-look"])
def test_histories_that_change_at_the_same_moments_differ_by_at_most_the_stated_cost(question: SurveyQuestion):
    """All pairs of histories of three answers with the same moments of change, by the exact law of all reports."""
    histories = list(itertools.product(range(3), repeat=3))

    def moments(history: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(history.index(value) for value in history)

    by_history = {history: laws(question, history) for history in histories}
    worst = Fraction(1)
    for first, two in itertools.combinations(histories, 2):
        if moments(first) == moments(two):
            cost = len(set(first)) * question.permanent.epsilon
            words = ratio(by_history[first], by_history[two])
            assert words is not None
            assert is_within(words, cost)
            worst = max(worst, words)
    if question is PLAIN:
        assert not is_within(worst, Fraction(199, 100))  # two answers that change together really cost twice


def test_without_a_second_look_a_change_can_show_for_sure_and_with_one_it_costs_at_most_the_stated():
    constant, changed = (0, 0, 0), (0, 1, 0)
    assert ratio(laws(PLAIN, constant), laws(PLAIN, changed)) is None
    _, diary = kept_through(Diary.empty(PLAIN), ["oak", "beech", "oak"])
    assert diary.cost().any_history is None
    words = ratio(laws(LOOKED, constant), laws(LOOKED, changed))
    _, diary = kept_through(Diary.empty(LOOKED), ["oak", "beech", "oak"])
    stated = diary.cost().any_history
    assert stated == Fraction(3, 2)
    assert words is not None
    assert is_within(words, stated)
    every = [laws(LOOKED, history) for history in itertools.product(range(3), repeat=3)]
    for first, two in itertools.combinations(every, 2):
        words = ratio(first, two)
        assert words is not None
        assert is_within(words, stated)


def test_every_bit_counts_where_bits_are_looked_at_again():
    _, diary = kept_through(Diary.empty(BITS), ["oak", "ash"])
    assert diary.cost().any_history == Fraction(1, 2) * 16 * 2
    assert diary.cost().same_moments == 2


@pytest.mark.parametrize("question", [PLAIN, LOOKED, TEXT, BITS], ids=["plain", "second-look", "hashed", "bloom"])
def test_a_diary_is_kept_as_json_on_the_device(question: SurveyQuestion):
    _, diary = kept_through(Diary.empty(question), ["oak", "ash", "oak"])
    again = Diary.from_json(diary.to_json(), question=question)
    assert again.kept == diary.kept
    assert again.seed == diary.seed
    assert again.cost() == diary.cost()
    assert again.respond("oak")[1].kept == diary.kept


def test_reports_from_diaries_are_collected_like_any_others():
    reports = [Diary.empty(BITS).respond("oak")[0] for _ in range(50)]
    assert BITS.collect(reports, candidates=["oak", "ash"]).respondents == 50


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"kept":[],"seed":[],"reports":0,"question":"x","format":1}']
)
def test_a_lost_diary_is_not_replaced_in_silence(text: str):
    with pytest.raises(InvalidRequest, match="Do not start an empty diary"):
        Diary.from_json(text, question=PLAIN)
    _, diary = kept_through(Diary.empty(LOOKED), ["oak"])
    with pytest.raises(InvalidRequest, match="not a diary of this question"):
        Diary.from_json(diary.to_json(), question=PLAIN)


def test_a_diary_that_is_printed_shows_no_answer():
    _, diary = kept_through(Diary.empty(PLAIN), ["ash"])
    assert len(diary.kept) == 1
    assert "kept" not in repr(diary)
    assert repr(diary) == repr(kept_through(Diary.empty(PLAIN), ["oak"])[1])
