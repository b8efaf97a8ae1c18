"""Questions and surveys: one respondent at a time, many in blocks, over JSON, and every mistake told."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dodona.errors import DodonaError, InvalidArgument, InvalidRequest
from dodona.lab.local import (
    Batch,
    Encoder,
    Report,
    Survey,
    SurveyQuestion,
    check_by_formula,
    response_from_json,
    response_to_json,
)
from dodona.lab.local.alphabet import CollidingLabels, UnknownValue
from dodona.lab.local.report import BadReport, NoReports
from dodona.privacy.accuracy import Accuracy, Against
from dodona.privacy.events import ComposedEvent, PureMechanism
from dodona.schema.schema import Neighbours
from tests.house.shares import examples

TREES = ["oak", "beech", "ash", "lime"]
QUESTIONS = {
    "yes-no": SurveyQuestion.yes_no("ill", epsilon=1),
    "coins": SurveyQuestion.coins("ill"),
    "kary": SurveyQuestion.choice("tree", TREES, epsilon=2),
    "symmetric": SurveyQuestion.choice("tree", TREES, epsilon=2, encoder=Encoder.SYMMETRIC),
    "optimized": SurveyQuestion.choice("tree", TREES, epsilon=2, encoder=Encoder.OPTIMIZED),
    "hashed-list": SurveyQuestion.choice("tree", TREES, epsilon=2, encoder=Encoder.HASHED),
    "hashed": SurveyQuestion.text("page", epsilon=2),
    "bloom": SurveyQuestion.text("page", epsilon=6, encoder=Encoder.BLOOM, shape=(64, 2)),
    "second-look": SurveyQuestion.choice("tree", TREES, epsilon=2, each=1),
    "second-bits": SurveyQuestion.text("page", epsilon=6, encoder=Encoder.BLOOM, each=2),
}
EVERY = pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)


def answer_to(question: SurveyQuestion) -> str:
    return "yes" if question.name == "ill" else "beech"


def candidates_of(question: SurveyQuestion) -> list[str] | None:
    return TREES if question.alphabet.labels is None else None


@EVERY
def test_a_report_travels_as_json_and_is_counted(question: SurveyQuestion):
    report = question.respond(answer_to(question))
    again = Report.from_json(report.to_json())
    assert again == report
    assert json.loads(report.to_json())["format"] == 1
    estimated = question.collect([again, report], candidates=candidates_of(question))
    assert estimated.respondents == 2


@EVERY
def test_a_question_travels_as_json_and_its_reports_are_known(question: SurveyQuestion):
    device = SurveyQuestion.from_json(question.to_json())
    assert device.digest == question.digest
    assert device.channel == question.channel
    assert question.collect([device.respond(answer_to(question))], candidates=candidates_of(question)).respondents == 1


@EVERY
def test_every_question_is_private_and_says_what_a_report_costs(question: SurveyQuestion):
    event = question.event()
    assert (event.kind, event.neighbours) == (PureMechanism.RANDOMIZED_RESPONSE, Neighbours.REPLACE)
    assert event.epsilon == question.epsilon == question.channel.epsilon
    assert check_by_formula(question.channel).private
    assert check_by_formula(question.permanent).private


@pytest.mark.distribution
@EVERY
def test_many_answers_are_estimated_within_the_stated_error(question: SurveyQuestion):
    """20,000 respondents, one label meant by 60%: at 1 - 10^-9 for each of at most four labels."""
    other = "no" if question.name == "ill" else "ash"
    values = [answer_to(question)] * 12_000 + [other] * 8_000
    estimated = question.collect(question.batches(values), candidates=candidates_of(question), confidence=1 - 1e-9)
    within = question.accuracy(1 - 1e-9, respondents=20_000).within
    for label, share in ((answer_to(question), 0.6), (other, 0.4)):
        assert abs(float(estimated[label]) - share) <= within
        assert estimated[label].low <= share <= estimated[label].high
    assert within < 0.6, "the error that is stated must mean something here"


def test_singles_and_blocks_are_counted_alike():
    question = QUESTIONS["optimized"]
    block = next(question.batches(["oak"] * 100))
    singles = list(block)
    assert len(block) == len(singles) == 100
    assert question.collect(block).marks == question.collect(singles).marks
    mixed = question.collect([singles[0], block, *singles[1:], block])
    assert mixed.respondents == 300
    assert mixed.marks == tuple(3 * marks for marks in question.collect([block]).marks)


def test_numbers_of_labels_are_answers_too_and_truth_values_are_yes_and_no():
    question = QUESTIONS["kary"]
    assert question.keys(np.array([0, 3, 1])).tolist() == question.keys(["oak", "lime", "beech"]).tolist() == [0, 3, 1]
    assert QUESTIONS["yes-no"].keys([True, False, "yes", np.bool_(0)]).tolist() == [1, 0, 1, 0]
    composed, apart = "caf\u00e9", "cafe\u0301"
    accents = SurveyQuestion.choice("drink", [composed, "tea"], epsilon=1)
    assert accents.keys([apart, composed]).tolist() == [0, 0]


def test_long_lists_are_told_in_blocks():
    question = SurveyQuestion.choice("number", [str(number) for number in range(1_000)], epsilon=1)
    assert question.encoder is Encoder.OPTIMIZED
    blocks = list(question.batches(np.arange(20_000) % 1_000))
    assert [len(block) for block in blocks] == [8_192, 8_192, 3_616]
    assert all(block.words.shape[1] == 16 for block in blocks)


def test_the_encoder_of_least_variance_is_taken():
    for epsilon, most in (("1/10", 5), ("1", 10), ("3", 62)):
        for size in (most, most + 1):
            question = SurveyQuestion.choice("q", [str(number) for number in range(size)], epsilon=epsilon)
            others = [
                SurveyQuestion.choice("q", [str(number) for number in range(size)], epsilon=epsilon, encoder=encoder)
                for encoder in (Encoder.KARY, Encoder.OPTIMIZED, Encoder.SYMMETRIC)
            ]
            least = min(other.channel.support.variance(0.0, 1) for other in others)
            assert question.channel.support.variance(0.0, 1) == least


@pytest.mark.parametrize("value", ["palm", "", None, 3, 1.5, ["oak"], b"oak", True])
def test_a_value_outside_the_list_is_refused_without_being_repeated(value: object):
    with pytest.raises(UnknownValue, match=r"write one of 'oak', 'beech', 'ash', 'lime'\. Nothing was drawn") as caught:
        QUESTIONS["kary"].respond(value)
    assert "palm" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize("name", ["kary", "hashed"])
def test_a_text_with_half_a_character_is_refused_without_being_repeated(name: str):
    with pytest.raises(UnknownValue, match="Nothing was drawn") as caught:
        QUESTIONS[name].respond("private\ud800")
    assert "private" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None
    with pytest.raises(InvalidArgument, match="list of texts"):
        SurveyQuestion.choice("q", ["oak", "a\ud800"], epsilon=1)


def test_what_a_mask_covers_is_read_as_an_answer():
    covered = np.ma.array([1, 99], mask=[False, True])
    with pytest.raises(UnknownValue, match="from 0 to 3"):
        QUESTIONS["kary"].keys(covered)


@pytest.mark.parametrize("value", ["", None, 3, "x" * 1_001])
def test_a_text_that_is_none_is_refused(value: object):
    with pytest.raises(UnknownValue, match="1 to 1000 characters"):
        QUESTIONS["hashed"].respond(value)


@pytest.mark.parametrize("numbers", [[4], [-1], [0, 99]])
def test_a_number_without_a_label_is_refused(numbers: list[int]):
    with pytest.raises(UnknownValue, match="from 0 to 3"):
        QUESTIONS["kary"].keys(np.array(numbers))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["oak", "ash", "oak"], "they are equal"),
        (["caf\u00e9", "cafe\u0301"], "two spellings of Unicode"),
    ],
)
def test_labels_that_collide_are_named(labels: list[str], words: str):
    for make in (
        lambda: SurveyQuestion.choice("q", labels, epsilon=1),
        lambda: QUESTIONS["hashed"].collect([QUESTIONS["hashed"].respond("oak")], candidates=labels),
    ):
        with pytest.raises(CollidingLabels, match=words) as caught:
            make()
        assert caught.value.labels == (labels[0], labels[-1])


@pytest.mark.parametrize("labels", [[], ["only"], "oak", None, [1, 2], ["a", ""], ["x" * 1_001, "y"]])
def test_what_is_no_alphabet_is_refused(labels):
    with pytest.raises(InvalidArgument, match="labels"):
        SurveyQuestion.choice("q", labels, epsilon=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SurveyQuestion.yes_no("q", epsilon=0), lambda: SurveyQuestion.yes_no("q", epsilon=-2),
        lambda: SurveyQuestion.yes_no("q", epsilon=100), lambda: SurveyQuestion.yes_no("", epsilon=1),
        lambda: SurveyQuestion.yes_no("q", epsilon=1, each=0),
        lambda: SurveyQuestion.text("q", epsilon=1, encoder=Encoder.KARY),
        lambda: SurveyQuestion.text("q", epsilon=1, encoder=Encoder.BLOOM, shape=(3, 2)),
        lambda: SurveyQuestion.yes_no("q", epsilon=1).accuracy(respondents=0),
    ],
)  # fmt: skip
def test_what_is_no_question_is_refused(make):
    with pytest.raises(InvalidArgument, match="Nothing was drawn"):
        make()


def test_the_faintest_second_look_still_has_a_price():
    faint = SurveyQuestion.yes_no("ill", epsilon="1e-6", each="1e-6")
    assert faint.event().epsilon == faint.epsilon < Fraction(1, 10**11)
    assert check_by_formula(faint.channel).private


def test_nobody_has_no_estimate():
    for question in QUESTIONS.values():
        with pytest.raises(NoReports, match="at least one report"):
            question.collect([], candidates=candidates_of(question))
        assert list(question.batches([])) == []


def test_open_texts_need_candidates():
    with pytest.raises(InvalidArgument, match="write those to be counted"):
        QUESTIONS["hashed"].collect([QUESTIONS["hashed"].respond("oak")])


def test_a_report_of_other_settings_is_refused_with_its_number():
    question, other = SurveyQuestion.yes_no("ill", epsilon=1), SurveyQuestion.yes_no("ill", epsilon="1/2")
    good = question.respond("yes")
    with pytest.raises(BadReport, match=r"Report 2 .*other settings\. No report was counted") as caught:
        question.collect([good, good, other.respond("yes")])
    assert caught.value.number == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((2,), "never sends it"),
        ((1, 0), "not as long"),
        ((-1,), "no word of 64 bits"),
        ((2**64,), "no word of 64 bits"),
        ((), "not as long"),
    ],
)  # fmt: skip
def test_a_report_that_the_channel_cannot_send_is_refused(words: tuple[int, ...], message: str):
    question = QUESTIONS["yes-no"]
    good = question.respond("no")
    bad = Report(good.question, good.channel, words)
    with pytest.raises(BadReport, match=rf"Report 1 .*{message}"):
        question.collect([good, bad])
    with pytest.raises(BadReport, match=r"Report 0 .*no report"):
        question.collect([good.to_json()])
    block = Batch(good.question, good.channel, np.zeros((3, 2), dtype=np.uint64))
    with pytest.raises(BadReport, match=r"Report 0 .*not as long"):
        question.collect(block)


@pytest.mark.parametrize(
    "text",
    [
        "", "no", "[]", "{}", "null", "1" * 5_000,
        '{"channel":"a","format":2,"question":"q","words":"0000000000000000"}',
        '{"channel":"a","format":true,"question":"q","words":"0000000000000000"}',
        '{"channel":"a","format":1,"question":"q","words":"000000000000000"}',
        '{"channel":"a","format":1,"question":"q","words":"000000000000000G"}',
        '{"channel":"a","format":1,"question":"q","words":["0"]}',
        '{"channel":1,"format":1,"question":"q","words":"0"}',
        '{"channel":"a","extra":1,"format":1,"question":"q","words":"0000000000000000"}',
    ],
)  # fmt: skip
def test_a_text_that_spells_no_report_is_refused(text: str):
    with pytest.raises(BadReport, match="The report cannot be used"):
        Report.from_json(text)


@pytest.mark.parametrize(
    "change", [("format", 2), ("epsilon", "0.50"), ("epsilon", "0"), ("labels", ["no"]), ("name", 3)]
)
def test_a_text_that_spells_no_question_is_refused(change: tuple[str, object]):
    fields = json.loads(QUESTIONS["yes-no"].to_json())
    fields[change[0]] = change[1]
    with pytest.raises(DodonaError):
        SurveyQuestion.from_json(json.dumps(fields, sort_keys=True, separators=(",", ":")))
    with pytest.raises(InvalidRequest, match="does not encode a question"):
        SurveyQuestion.from_json("{}")


def survey() -> Survey:
    return Survey((QUESTIONS["yes-no"], QUESTIONS["kary"], QUESTIONS["hashed"]))


def test_a_survey_adds_up_what_its_questions_cost():
    event = survey().event()
    assert isinstance(event, ComposedEvent)
    assert event.epsilon == survey().epsilon == Fraction(5)
    assert Survey((QUESTIONS["yes-no"],)).event() == QUESTIONS["yes-no"].event()


def test_a_survey_is_answered_whole_and_collected_by_question():
    responses = [survey().respond({"ill": True, "tree": "oak", "page": "beech"}) for _ in range(30)]
    by_question = survey().collect(responses, candidates={"page": TREES}, confidence=0.9)
    assert list(by_question) == ["ill", "tree", "page"]
    assert {estimates.respondents for estimates in by_question.values()} == {30}
    assert by_question["page"].labels == tuple(TREES)
    assert {estimates.confidence for estimates in by_question.values()} == {0.9}


@pytest.mark.parametrize(
    "answers", [{}, {"ill": "yes"}, {"ill": "yes", "tree": "oak", "page": "x", "more": "y"}, ["yes", "oak", "more"]]
)
def test_a_survey_with_questions_left_out_is_refused_without_repeating_an_answer(answers):
    with pytest.raises(InvalidRequest, match="one answer for each of ill, tree, page") as caught:
        survey().respond(answers)
    assert not any(text in str(caught.value) for text in ("yes", "oak", "more"))


def test_a_survey_that_cannot_be_asked_or_collected_is_refused():
    with pytest.raises(UnknownValue):
        survey().respond({"ill": "yes", "tree": "palm", "page": "x"})
    with pytest.raises(CollidingLabels, match="two questions"):
        Survey((QUESTIONS["yes-no"], QUESTIONS["coins"]))
    with pytest.raises(InvalidArgument, match="at least one Question"):
        Survey(())
    with pytest.raises(NoReports):
        survey().collect([])
    with pytest.raises(BadReport, match="one report for each question"):
        survey().collect([(QUESTIONS["yes-no"].respond("yes"),)])


def test_a_survey_and_its_responses_travel_as_json():
    device = Survey.from_json(survey().to_json())
    assert [question.digest for question in device.questions] == [question.digest for question in survey().questions]
    response = device.respond({"ill": "no", "tree": "lime", "page": "x"})
    assert response_from_json(response_to_json(response)) == response
    assert survey().collect([response_from_json(response_to_json(response))], candidates={"page": TREES})


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format":1,"questions":[]}', '{"questions":3}'])
def test_a_text_that_spells_no_survey_is_refused(text: str):
    with pytest.raises(InvalidRequest, match="does not encode a survey"):
        Survey.from_json(text)
    with pytest.raises(InvalidRequest):
        Survey.from_json(survey().to_json().replace('"format":1,"questions"', '"format":2,"questions"'))


FIELDS = st.sampled_from(["format", "question", "channel", "words", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner),
)


@pytest.mark.slow
@settings(max_examples=examples(80), deadline=None)
@given(JSON)
def test_whatever_arrives_is_a_report_or_refused(arrived):
    for read in (Report.from_json, response_from_json):
        try:
            read(json.dumps(arrived))
        except BadReport:
            continue
        assert read is response_from_json
        assert arrived == []


@pytest.mark.parametrize("question", [QUESTIONS["yes-no"], QUESTIONS["bloom"]], ids=["yes-no", "bloom"])
@pytest.mark.parametrize("against", Against)
@pytest.mark.parametrize("within", [0.3, 0.01, 1e-7])
def test_so_many_respondents_meet_the_target_and_one_fewer_does_not(
    question: SurveyQuestion, against: Against, within: float
):
    for answers in (1, 1_000):
        target = Accuracy(within=within, confidence=0.99, against=against)
        asked = question.respondents_for(target, answers=answers)

        def promised(respondents: int, answers: int = answers) -> float:
            return question.accuracy(0.99, respondents=respondents, answers=answers, against=against).within

        assert promised(asked) <= within
        assert asked == 1 or promised(max(asked * (1 - 1e-12), asked - 1) // 1) > within * (1 - 1e-11)


def test_an_error_of_nought_is_refused():
    with pytest.raises(InvalidArgument, match="noise never vanishes"):
        QUESTIONS["yes-no"].respondents_for(Accuracy(within=0))
