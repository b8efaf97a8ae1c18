"""Choices without counts, and alarms over a threshold, through a curator."""

import pytest

from dodona.errors import Halted, InvalidRequest
from dodona.query.column import columns as named
from dodona.query.query import Query
from tests.online.scene import curator, ledger


def test_choose_names_the_largest_groups_and_tells_them_again():
    kept = ledger()
    asked = curator(kept=kept)
    sql = "SELECT sex, count(*) FROM stays GROUP BY sex"
    choice = asked.choose(sql, epsilon=1, count=2)
    assert choice.names == ("female", "male")  # a failure of this is rarer than e^-80
    assert asked.choose(sql, epsilon=1, count=2).source == "replayed"
    assert kept.state().charges == 1


def test_choose_takes_named_queries():
    asked = curator()
    age = named(asked.schema.domain)["age"]
    candidates = {"young": Query.count(asked.schema.domain, age < 10), "old": Query.count(asked.schema.domain, age > 9)}
    assert asked.choose(candidates, epsilon=1).name == "old"
    with pytest.raises(InvalidRequest, match="one answer each"):
        asked.choose({"all": Query.histogram(asked.schema.domain, ["sex"])}, epsilon=1)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM stays",
        "SELECT sex, avg(stay) FROM stays GROUP BY sex",
        "SELECT sex, count(*) FROM stays GROUP BY sex HAVING sum(emergency) > 5",
        "SELECT sex, count(*) FROM stays GROUP BY sex HAVING count(*) > 5",
        "SELECT sex, count(*) FROM stays GROUP BY sex ORDER BY sum(age)",
    ],
)
def test_choose_needs_groups_with_one_count_or_sum(text):
    kept = ledger()
    with pytest.raises(InvalidRequest, match="GROUP BY"):
        curator(kept=kept).choose(text, epsilon=1)
    assert kept.state().charges == 0


def test_a_watch_is_charged_when_it_is_opened_and_halts_after_its_alerts():
    kept = ledger()
    asked = curator(kept=kept)
    watch = asked.above(500, epsilon=20, alerts=2)
    spent = kept.state().spent
    assert spent > 0
    for _ in range(20):
        assert not watch.ask("SELECT count(*) FROM stays WHERE age < 10").above
    assert watch.ask("SELECT count(*) FROM stays").above
    assert watch.ask(Query.count(asked.schema.domain)).above
    assert watch.left == 0
    with pytest.raises(Halted, match="Nothing was charged"):
        watch.ask("SELECT count(*) FROM stays")
    assert kept.state().spent == spent


@pytest.mark.parametrize("text", ["SELECT sex, count(*) FROM stays GROUP BY sex", "SELECT sum(stay) FROM stays"])
def test_a_watch_takes_single_counts_only(text):
    watch = curator().above(10, epsilon=1)
    with pytest.raises(InvalidRequest, match="count"):
        watch.ask(text)
