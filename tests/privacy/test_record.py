"""Events are written once and for all."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.privacy.events import (
    ComposedEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    PureMechanism,
    UnevenGaussianEvent,
    UnknownEvent,
    event_from_json,
    event_to_json,
)
from dodona.schema.schema import Neighbours

GOLDEN = Path(__file__).with_name("events.golden.jsonl").read_text(encoding="utf-8").splitlines()

numbers = st.fractions(min_value=Fraction(1, 10**6), max_value=10**6)
counts = st.integers(min_value=1, max_value=10**9)
relations = st.sampled_from(Neighbours)


def single(relation):
    return st.one_of(
        st.builds(PureEvent, st.sampled_from(PureMechanism), numbers, st.just(relation)),
        st.builds(LaplaceEvent, counts, numbers, st.just(relation)),
        st.builds(GaussianEvent, counts, numbers, st.just(relation)),
        st.builds(ExponentialEvent, numbers, st.just(relation)),
        st.builds(UnevenGaussianEvent, numbers, st.just(relation)),
    )


def together(relation):
    parts = st.lists(st.tuples(single(relation), counts), min_size=1, max_size=4)
    return st.one_of(single(relation), parts.map(lambda found: ComposedEvent(tuple(found))))


@given(relations.flatmap(together))
def test_an_event_comes_back_from_its_text(event):
    assert event_from_json(event_to_json(event)) == event


@pytest.mark.parametrize("line", GOLDEN)
def test_what_was_ever_written_is_still_read_and_written_alike(line):
    """Lines are only ever appended to the golden file."""
    assert event_to_json(event_from_json(line)) == line


def test_every_tag_has_a_golden_line_under_each_relation():
    written = {(fields["event"], fields["neighbours"]) for fields in map(json.loads, GOLDEN) if "neighbours" in fields}
    kinds = {"laplace", "gaussian", "exponential", "uneven-gaussian", "rounded-gaussian"}
    tags = {kind.value for kind in PureMechanism} | kinds
    assert written == {(tag, relation.value) for tag in tags for relation in Neighbours}
    assert any(json.loads(line)["event"] == "together" for line in GOLDEN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"event":"subsampled-gaussian","neighbours":"replace"}',
        '{"epsilon":"1","event":"exponential"}',
        '{"epsilon":"1","event":"exponential","neighbours":"both"}',
        '{"epsilon":"0","event":"exponential","neighbours":"replace"}',
        '{"epsilon":"-1","event":"exponential","neighbours":"replace"}',
        '{"epsilon":"1/0","event":"exponential","neighbours":"replace"}',
        '{"epsilon":"2/2","event":"exponential","neighbours":"replace"}',
        '{"epsilon":1,"event":"exponential","neighbours":"replace"}',
        '{"epsilon":"1","event":"exponential","neighbours":"replace","more":1}',
        '{"event":"exponential","epsilon":"1","neighbours":"replace"}',
        '{"distance":true,"event":"laplace","neighbours":"replace","scale":"10"}',
        '{"distance":0,"event":"laplace","neighbours":"replace","scale":"10"}',
        '{"event":"together","parts":[]}',
        '{"event":"together","parts":[[{"epsilon":"1","event":"exponential","neighbours":"replace"},0]]}',
        "[" * 100_000,
    ],
)
def test_what_is_not_an_event_of_this_version_is_refused(text):
    with pytest.raises(UnknownEvent):
        event_from_json(text)


def test_a_mechanism_the_writer_does_not_know_is_refused():
    with pytest.raises(UnknownEvent):
        event_to_json(object())
