"""Workloads in words: what each means, and what is refused with what to write instead."""

from __future__ import annotations

from itertools import combinations

import pytest

import dodona
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.schema import Domain
from dodona.synth.naming import MOST_TARGET_CELLS, name_workload
from dodona.synth.workload import InvalidWorkload, Workload, marginal_columns
from tests.synth.scene import curator_of, schema

DOMAIN = schema().domain


def columns_of(workload: Workload) -> set[tuple[str, ...] | None]:
    return {marginal_columns(block) for block in workload.query.blocks}


@pytest.mark.parametrize(("word", "ways"), [("1-way", 1), ("2-way", 2), (" 3-Way ", 3), ("2 ways", 2), ("2way", 2)])
def test_a_word_means_all_marginals_of_so_many_columns(word: str, ways: int):
    assert columns_of(name_workload(DOMAIN, word)) == set(combinations(DOMAIN.names, ways))


def test_a_word_may_be_about_some_columns():
    workload = name_workload(DOMAIN, "2-way", columns=["ward", "sex", "days"])
    assert columns_of(workload) == {("sex", "ward"), ("sex", "days"), ("ward", "days")}


def test_a_target_is_asked_with_every_other_column_and_with_two_where_these_are_small():
    wide = Domain((Boolean("sick"), Integer("age", 0, 99), Integer("year", 0, 299), Boolean("night")))
    columns = columns_of(name_workload(wide, target="sick"))
    pairs = {("sick", "age"), ("sick", "year"), ("sick", "night")}
    assert MOST_TARGET_CELLS < 4 * 102 * 302
    assert columns == pairs | {("sick", "age", "night"), ("sick", "year", "night")}


def test_a_workload_stays_as_it_is():
    workload = Workload.ways(DOMAIN, 1)
    assert name_workload(DOMAIN, workload) is workload


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workload": "two"}, "is no workload. Write one of '1-way', '2-way', '3-way'"),
        ({"workload": "0-way"}, "is no workload"),
        ({"workload": "9-way"}, "takes 9 columns together, and there are 4. Write '4-way'"),
        ({"workload": "2-way", "columns": ["sex"]}, "there is one column. Write '1-way'"),
        ({"workload": "2-way", "target": "sex"}, "in one way"),
        ({}, "in one way"),
        ({"target": "height"}, "is no column. Write one of sex, ward, days, emergency"),
        ({"target": "sex", "columns": ["sex"]}, "only column"),
        ({"workload": "2-way", "columns": "sex"}, r"such as \['sex'\]"),
        ({"workload": "2-way", "columns": ["sex", "height"]}, "write some of sex"),
        ({"workload": "1-way", "columns": []}, "write some of sex"),
        ({"workload": Workload.ways(DOMAIN, 1), "columns": ["sex"]}, "names its columns"),
        ({"workload": 2}, "is no workload"),
    ],
)
@pytest.mark.parametrize("call", [dodona.synthesize, dodona.quote_synthesis])
def test_what_is_not_understood_is_refused_and_nothing_is_charged(given, said: str, call):
    curator = curator_of()
    with pytest.raises(InvalidWorkload, match=said):
        call(curator, **given, epsilon=1)
    assert curator.budget.charges == 0


def test_marginals_that_are_too_many_together_are_refused_with_the_widest_column():
    wide = Domain((Integer("age", 0, 1500), *(Integer(f"c{place}", 0, 59) for place in range(60))))
    with pytest.raises(InvalidWorkload, match="perhaps without age, which has 1,503 values"):
        name_workload(wide, "2-way")


def test_a_release_in_words_is_the_release_of_the_workload_that_they_mean():
    curator = curator_of()
    model = dodona.synthesize(curator, "2-way", share="1/4")
    again = dodona.synthesize(curator, Workload.ways(DOMAIN, 2), share="1/4")
    assert again.run == model.run
    assert {step.how for step in again.steps} == {"recalled"}
    assert dodona.synthesize(curator, target="sex", share="1/4").workload.names == DOMAIN.names
