"""Choices without counts, and alarms over a threshold, through a curator."""

from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from dodona.errors import Halted, InvalidRequest
from dodona.ledger import opening
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.query.column import columns as named
from dodona.query.query import Query
from tests.curator.scene import curator, ledger, schema
from tests.ledger.processes import Say, forked


def test_choose_names_the_largest_groups_and_tells_them_again():
    kept = ledger()
    asked = curator(kept=kept)
    sql = "SELECT sex, count(*) FROM stays GROUP BY sex"
    choice = asked.choose(sql, epsilon=1, count=2)
    assert choice.names == ("female", "male")  # a failure of this is rarer than e^-80
    assert asked.choose(sql, epsilon=1, count=2).source == "replayed"
    assert kept.state().charges == 1


@pytest.mark.parametrize("tail", ["LIMIT 2", "ORDER BY count(*) LIMIT 1", "ORDER BY count(*) DESC", "LIMIT 2 OFFSET 1"])
def test_choose_refuses_an_order_or_a_limit_that_it_would_not_follow(tail):
    asked = curator()
    with pytest.raises(InvalidRequest, match="as many as `count` says"):
        asked.choose(f"SELECT sex, count(*) FROM stays GROUP BY sex {tail}", epsilon=1)  # noqa: S608
    assert asked.budget.charges == 0


def test_choose_says_where_every_group_has_the_same_value_whatever_the_rows_are():
    asked = curator()
    with pytest.raises(InvalidRequest, match="sum is 0 in every group"):
        asked.choose("SELECT sex, sum(emergency) FROM stays WHERE NOT emergency GROUP BY sex", epsilon=1)
    assert asked.budget.charges == 0


def test_choices_and_watches_say_where_their_promise_is_empty():
    sql = "SELECT sex, count(*) FROM stays GROUP BY sex"
    asked = curator()
    size = asked.schema.unit.size
    vain, useful = asked.choose(sql, epsilon="1e-6"), asked.choose(sql, epsilon=1)
    assert vain.within >= size > useful.within
    assert f"promises nothing, as there are about {size:,} rows" in str(vain)
    assert vain.about
    assert not useful.about
    few, many = asked.above(size // 2, epsilon="1e-5"), asked.above(size // 2, epsilon=1)
    assert few.within >= size - size // 2 > many.within
    assert "promises nothing" in str(few)
    assert not many.about


def test_choose_says_nothing_of_an_empty_promise_where_sums_are_large():
    asked = curator()
    size = asked.schema.unit.size
    sums = asked.choose("SELECT sex, sum(age) FROM stays GROUP BY sex", epsilon="0.05")
    assert sums.within < 110 * size
    assert not sums.about
    assert asked.choose("SELECT sex, sum(age) FROM stays GROUP BY sex", epsilon="1e-6").about


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


def test_each_question_may_have_its_own_threshold():
    watch = curator().above(500, epsilon=20, alerts=2)
    assert not watch.ask("SELECT count(*) FROM stays", threshold=10**6).above  # a failure is rarer than e^-1000
    assert watch.ask("SELECT count(*) FROM stays WHERE age < 10", threshold=-(10**6)).above
    assert watch.ask("SELECT count(*) FROM stays").above
    with pytest.raises(InvalidRequest, match="threshold"):
        watch.ask("SELECT count(*) FROM stays", threshold=1 << 70)


def test_a_watch_with_a_key_is_opened_again_for_nothing():
    kept = ledger()
    watch = curator(kept=kept).above(500, epsilon=20, alerts=10, key="alarm")
    spent = kept.state().spent
    assert watch.price.share > 0
    assert watch.left == 10
    assert watch.ask("SELECT count(*) FROM stays").above
    again = curator(kept=kept).above(500, epsilon=20, alerts=10, key="alarm")
    assert (again.price.share, kept.state().spent, kept.state().charges) == (0, spent, 1)
    assert 0 < again.left < 9
    assert again.ask("SELECT count(*) FROM stays").above
    with pytest.raises(InvalidRequest, match="key"):
        curator(kept=kept).above(500, epsilon=20, alerts=11, key="alarm")
    assert "watch" in str(curator(kept=kept).history)


def test_a_watch_whose_alerts_went_into_opening_it_again_does_not_claim_that_it_reported_them():
    kept = ledger()
    curator(kept=kept).above(500, epsilon=20, alerts=2, key="alarm").ask("SELECT count(*) FROM stays")
    again = curator(kept=kept).above(500, epsilon=20, alerts=2, key="alarm")
    assert again.left == 0
    with pytest.raises(Halted, match="none is left: each report takes one, and each reopening some"):
        again.ask("SELECT count(*) FROM stays")


def test_a_watch_that_was_not_asked_loses_nothing_when_it_is_opened_again():
    kept = ledger()
    for _ in range(5):
        assert curator(kept=kept).above(500, epsilon=20, alerts=3, key="alarm").left == 3


def _watching(path: Path, say: Say) -> None:
    watch = curator(kept=opening.open_ledger(path)).above(500, epsilon=20, alerts=40, key="alarm")
    for number in count():
        verdict = watch.ask("SELECT count(*) FROM stays", threshold=-(10**6) if number % 3 else 10**6)
        say(f"told {verdict.above}")


def test_a_watch_survives_processes_that_are_killed_and_never_tells_more_than_was_paid_for(tmp_path: Path):
    path, declared = tmp_path / "stays.ledger", schema()
    terms = LedgerTerms(datasets={"stays": declared.digest}, neighbours=declared.unit.neighbours, budget=Budget(100, 0))
    opening.create_file_ledger(path, terms)
    alerts = 0
    for _ in range(4):
        child = forked(partial(_watching, path))
        child.first_word()
        child.kill()
        alerts += child.finish().count("told True")
    with opening.open_ledger(path) as kept:
        asked = curator(kept=kept)
        watch = asked.above(500, epsilon=20, alerts=40, key="alarm")
        with suppress(Halted):
            for _ in range(41):
                alerts += watch.ask("SELECT count(*) FROM stays", threshold=-(10**6)).above
        assert 0 < alerts < 40
        assert watch.left == 0
        assert kept.verify().charges == 1
