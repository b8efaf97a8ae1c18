"""A key gives back what it bought: the same numbers for nothing, whatever was released since or is requested now."""

from itertools import product

import polars as pl
import pytest

import dodona
from dodona.curator.curator import Curator
from dodona.curator.request import Dataset
from dodona.engines.memory import MemorySource
from dodona.ledger import memory
from dodona.ledger.errors import KeyReused
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.schema.attributes import Attribute, Category, Integer, Number
from dodona.schema.schema import Schema
from tests.curator.scene import DEFAULT

ROWS = 2_000
GROUPS = "SELECT a, count(*) FROM t GROUP BY a"
RENYI, PURE = Budget(20, "1e-9", "renyi"), Budget(100, 0, "pure")
REQUESTS = (
    {"within": 60},
    {"within": 15},
    {"within": 900},
    {"within": "1%", "confidence": 0.5},
    {"epsilon": "0.001"},
    {"epsilon": 1},
)


COLUMNS = (
    Category("a", ["x", "y"], otherwise="x"),
    Integer("b", 0, 799, otherwise=0),
    Number("c", 0, 30, "0.5", otherwise=0),
)


class CountingLedger:
    """A ledger that notes when its releases are read from one on."""

    def __init__(self, ledger: Ledger, reads: list[int]) -> None:
        self.ledger, self.reads = ledger, reads

    def __getattr__(self, name: str) -> object:
        return getattr(self.ledger, name)

    def releases(self, *, after: int = 0):
        self.reads.append(after)
        return self.ledger.releases(after=after)


def curator_of(
    budget: Budget,
    neighbours: str = "replace",
    columns: tuple[Attribute, ...] = COLUMNS,
    *,
    reads: list[int] | None = None,
) -> Curator:
    schema = Schema.of("t", *columns, size=ROWS, neighbours=neighbours)
    values = {
        "a": ["xy"[row % 2] for row in range(ROWS)],
        "b": [row % 800 for row in range(ROWS)],
        "c": [row % 60 / 2 for row in range(ROWS)],
        "d": ["pqrs"[row % 4] for row in range(ROWS)],
    }
    ledger = memory.create_memory_ledger(
        LedgerTerms(datasets={"t": schema.digest}, neighbours=schema.unit.neighbours, budget=budget)
    )
    if reads is not None:
        ledger = CountingLedger(ledger, reads)
    source = MemorySource(schema, {attribute.name: values[attribute.name] for attribute in columns})
    return Curator(Dataset(name="t", schema=schema, source=source, ledger=ledger, default=DEFAULT))


def values(answer):
    return [[cell.value for cell in row.estimates] for row in answer.rows]


def learn_more(curator: Curator) -> None:
    """Buy much of what follows from a bundle again, more accurately."""
    curator.ask("SELECT count(*) FROM t", within=3)
    curator.ask(GROUPS, within=3)
    curator.ask("SELECT count(*) FROM t WHERE a = 'x'", within=3)


@pytest.mark.parametrize(("budget", "kind"), [(RENYI, "LATTICE"), (PURE, "SCOPE_TABLE")], ids=["residuals", "a table"])
def test_a_bundle_answers_the_same_under_its_key_whatever_was_released_since_or_is_requested(budget, kind):
    curator = curator_of(budget)
    curator.ask("SELECT count(*) FROM t WHERE b = 7", within=60)
    first = curator.ask(GROUPS, within=60, key="k")
    recalled = curator.desk.recall("k")
    assert recalled is not None
    assert recalled[0].purpose.endswith(f" {kind}")
    for more in (lambda _: None, learn_more):
        more(curator)
        charges = curator.budget.charges
        for request in REQUESTS:
            again = curator.ask(GROUPS, key="k", **request)
            assert values(again) == values(first), request
            assert again.price.share == 0
        assert curator.budget.charges == charges


def test_what_an_earlier_bundle_answers_from_is_learned_once():
    reads: list[int] = []
    curator = curator_of(RENYI, reads=reads)
    curator.ask("SELECT count(*) FROM t WHERE b = 7", within=60)
    first = curator.ask(GROUPS, within=60, key="k")
    learn_more(curator)
    assert values(curator.ask(GROUPS, key="k", within=60)) == values(first)
    assert 0 in reads
    reads.clear()
    for _ in range(3):
        assert values(curator.ask(GROUPS, key="k", within=60)) == values(first)
    assert 0 not in reads


def test_a_number_that_a_bundle_holds_as_such_is_not_told_instead_of_its_answer():
    """The number of rows is one of the numbers of a table; the sum of its counts makes it more accurate."""
    curator = curator_of(PURE, "add-remove", (Category("d", list("pqrstuvwxyz")),))
    curator.ask("SELECT count(*) FROM t WHERE d <> 'p'", epsilon=1)
    curator.ask("SELECT count(*) FROM t WHERE d IN ('p', 'q', 'r', 't', 'v', 'z')", epsilon=1)
    total = "SELECT count(*) FROM t"
    first = curator.ask(total, within=2, confidence=0.5, key="k")
    recalled = curator.desk.recall("k")
    assert recalled is not None
    assert recalled[0].purpose.endswith(" TABLE")
    for request in ({}, {"key": "k"}):
        assert values(curator.ask(total, within=2, confidence=0.5, **request)) == values(first)


def test_a_batch_answers_the_same_under_its_key_where_a_part_of_it_was_free_and_better_is_known_since():
    curator = curator_of(RENYI, "add-remove")
    average, total = "SELECT avg(c) FROM t", "SELECT count(*) FROM t"
    curator.ask(average, epsilon="0.1")
    curator.ask(total, within=50)
    batch = [average, "SELECT sum(c) FROM t WHERE a = 'x'", total, "SELECT avg(b) FROM t"]
    first = curator.ask_many(batch, within={"avg": "5%", "sum": "5%", "count": "5%"}, key="k")
    assert [answer.source for answer in first] == ["replayed", "measured", "replayed", "measured"]
    for text in batch:
        curator.ask(text, epsilon=1)
    again = curator.ask_many(batch, within={"avg": "5%", "sum": "5%", "count": "5%"}, key="k")
    assert [*map(values, again)] == [*map(values, first)]


def bundled_batch(budget: Budget) -> tuple[Curator, list[str], list]:
    """Return a curator who sold a bundle for a batch under the key "k", the batch, and its answers."""
    curator = curator_of(budget, columns=(Category("a", ["x", "y"], otherwise="x"), Category("d", list("pqrs"))))
    sets = ("= 'p'", "= 'q'", "= 'r'", "<> 'q'", "IN ('p', 'q')", "IN ('p', 'r')")
    batch = [f"SELECT count(*) FROM t WHERE d {condition}" for condition in sets]  # noqa: S608  written above
    first = curator.ask_many(batch, within=60, key="k")
    recalled = curator.desk.recall("k")
    assert recalled is not None
    assert recalled[0].purpose.endswith((" LATTICE", " TABLE"))
    return curator, batch, [*map(values, first)]


@pytest.mark.parametrize("budget", [RENYI, PURE], ids=["residuals", "a table"])
def test_a_batch_from_a_bundle_answers_the_same_under_its_key(budget):
    curator, batch, first = bundled_batch(budget)
    learn_more(curator)
    curator.ask(batch[1], within=3)
    assert [*map(values, curator.ask_many(batch, within=60, key="k"))] == first


@pytest.mark.parametrize("budget", [RENYI, PURE], ids=["residuals", "a table"])
def test_a_key_is_refused_for_a_question_that_does_not_follow_from_what_it_bought(budget):
    curator = curator_of(budget)
    others = [
        "SELECT avg(c) FROM t",
        "SELECT count(*) FROM t WHERE b < 400 AND a = 'x'",
        "SELECT b, count(*) FROM t GROUP BY b",
    ]
    for text in others:
        curator.ask(text, epsilon=1)  # free from now on, but not under a key that bought something else
    curator.ask(GROUPS, within=60, key="bundle")
    curator.ask("SELECT a, count(*) FROM t WHERE b < 300 GROUP BY a", epsilon="0.5", key="table")
    for key, text in product(("bundle", "table"), others):
        with pytest.raises(KeyReused):
            curator.ask(text, epsilon="0.1", key=key)
    with pytest.raises(KeyReused):
        curator.ask("SELECT count(*) FROM t WHERE b < 300 AND a = 'x'", within=900, key="table")


@pytest.mark.parametrize("budget", [RENYI, PURE], ids=["residuals", "a table"])
def test_the_key_of_a_bundle_is_refused_for_another_question_that_follows_from_it(budget):
    curator = curator_of(budget)
    curator.ask("SELECT count(*) FROM t WHERE b = 7", within=60)
    first = curator.ask(GROUPS, within=60, key="k")
    follows = "SELECT count(*) FROM t WHERE a = 'x'"
    assert curator.ask(follows, within=60).source == "derived"
    charges = curator.budget.charges
    with pytest.raises(KeyReused):
        curator.ask(follows, within=60, key="k")
    without_text = curator.read(GROUPS).query
    for same in (GROUPS, f"{GROUPS} ORDER BY a", "SELECT a AS own, count(*) AS n FROM t GROUP BY own", without_text):
        assert values(curator.ask(same, within=60, key="k")) == values(first), same
    assert curator.budget.charges == charges


@pytest.mark.parametrize("budget", [RENYI, PURE], ids=["residuals", "a table"])
def test_the_key_of_a_batch_is_refused_for_other_questions_that_follow_from_its_bundle(budget):
    curator, batch, first = bundled_batch(budget)
    charges = curator.budget.charges
    for other in (batch[:2], [*batch, "SELECT count(*) FROM t WHERE d = 's'"], [batch[0]]):
        assert {answer.source for answer in curator.ask_many(other, within=60)} <= {"derived", "replayed"}
        with pytest.raises(KeyReused):
            curator.ask_many(other, within=60, key="k")
    same = ["SELECT count(*) AS n FROM t WHERE d IN ('p')", *batch[1:]]
    assert [*map(values, curator.ask_many(same, within=60, key="k"))] == first
    assert curator.budget.charges == charges


def test_a_question_of_two_columns_is_not_mixed_with_what_was_asked_before():
    """One of its counts was released more accurately before: asked again, it gets the answer that it got."""
    schema = Schema.of("t", Category("c", ["a", "b", "d"]), size=5)
    with pytest.warns(UserWarning, match="in memory"):
        table = dodona.open(pl.DataFrame({"c": ["a"] * 5}), schema=schema, budget=PURE)
    table.ask("SELECT count(*) FILTER (WHERE c = 'a') / count(*) FROM t", epsilon=1, max_price=1)
    first, again = (
        table.ask("SELECT count(*) FILTER (WHERE c <> 'd'), count(*) FROM t", within=477, max_price=1) for _ in range(2)
    )
    assert again.source == "replayed"
    assert again.rows == first.rows


def test_two_columns_that_mean_the_same_keep_their_own_values():
    """Where only 1 is left of a column, its sum is its count: each was measured with its own noise."""
    schema = Schema.of("t", Integer("c", 0, 1), size=1_000, neighbours="add-remove")
    with pytest.warns(UserWarning, match="in memory"):
        table = dodona.open(pl.DataFrame({"c": [1] * 1_000}), schema=schema, budget=PURE)
    first, again = (
        table.ask("SELECT c, count(*), sum(c) FROM t WHERE c > 0 GROUP BY c", within="9%", max_price=1)
        for _ in range(2)
    )
    assert again.source == "replayed"
    assert again.rows == first.rows
