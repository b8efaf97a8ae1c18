from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pandas as pd
import pytest

import dodona
from dodona.errors import InvalidRequest
from dodona.ledger.errors import AnswerInterrupted, BudgetExhausted, KeyReused, NotPermitted
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.events import ComposedEvent, LaplaceEvent
from dodona.query.column import columns as named
from dodona.query.query import Query
from dodona.schema.attributes import Integer
from dodona.schema.schema import Neighbours, Schema
from dodona.trusted.source import Sealed, Source, SourceFailed
from tests.curator.scene import columns, curator, ledger, schema

OLD = "SELECT count(*) FROM stays WHERE age >= 65"


def events(kept) -> list[object]:
    return [receipt.event for receipt, _ in kept.releases()]


def test_an_answer_is_within_what_was_asked_and_says_what_it_cost():
    answer = curator().ask(OLD, within=40)
    exact = sum(age >= 65 for age in columns()["age"])
    assert answer.value.within == 40
    assert abs(answer.value.value - exact) < 400  # a failure of this is rarer than e^-29
    assert answer.source == "measured"
    assert 0 < answer.price.share < 1
    assert answer.receipt is not None
    assert answer.head is not None


@pytest.mark.parametrize(
    "again",
    [
        OLD,
        "select  count( * )  as n from stays as s where s.age >= 65",
        "SELECT count(*) FROM stays WHERE 1 = 1 AND age >= 65",
        "SELECT count(*) FROM stays WHERE NOT age < 65",
        "SELECT count(*) FROM stays WHERE age BETWEEN 65 AND 99",
        "SELECT count(*) FROM stays WHERE age > 64",
    ],
)
def test_the_same_question_in_other_words_is_told_again_for_free(again):
    kept = ledger()
    asked = curator(kept=kept)
    first = asked.ask(OLD, within=40)
    second = asked.ask(again, within=40)
    assert second.source == "replayed"
    assert second.price.share == 0
    assert second.value.value == first.value.value
    assert len(events(kept)) == 1


def test_a_less_accurate_question_is_told_again_and_a_more_accurate_one_is_measured():
    asked = curator()
    first = asked.ask(OLD, within=40)
    assert asked.ask(OLD, within=60).value.value == first.value.value
    assert asked.ask(OLD, within=20).source == "measured"


def test_a_question_that_was_measured_very_often_is_read_back_in_time_that_grows_with_the_times():
    kept, times, looked_up = ledger(), 200, []
    asked = curator(kept=kept)
    first = asked.ask(OLD, epsilon="0.0001", fresh=True)
    for _ in range(times - 1):
        asked.ask(OLD, epsilon="0.0001", fresh=True)

    class Places(dict[str, int]):
        def __getitem__(self, receipt: str) -> int:
            looked_up.append(receipt)
            return super().__getitem__(receipt)

    again = curator(kept=kept)
    again._ladder.releases._place = Places()
    assert again.ask(OLD, epsilon="0.0001").value.value == first.value.value
    assert len(looked_up) <= 10 * times


def test_a_price_is_the_pure_loss_of_the_question_alone():
    kept = ledger(Budget(1, 0, "pure"))
    curator(kept=kept).ask(OLD, epsilon="0.1")
    assert events(kept) == [LaplaceEvent(1, Fraction(10), Neighbours.ADD_REMOVE)]
    assert kept.state().spent == Fraction(1, 10)


def test_an_average_costs_no_more_than_the_price_that_was_asked():
    kept = ledger(Budget(1, 0, "pure"))
    curator(kept=kept).ask("SELECT avg(stay), count(*) FROM stays", epsilon="0.5")
    assert Fraction(499, 1000) < kept.state().spent <= Fraction(1, 2)


def test_a_quote_spends_nothing_and_tells_the_price_that_is_then_paid():
    kept = ledger()
    asked = curator(kept=kept)
    offer = asked.quote("SELECT sex, avg(stay) FROM stays GROUP BY sex", within=5)
    assert kept.state().spent == 0
    answer = asked.ask("SELECT sex, avg(stay) FROM stays GROUP BY sex", within=5)
    assert answer.price == offer.price
    assert kept.state().spent == offer.price.share


def test_all_public_groups_are_answered_for_one_charge():
    kept = ledger()
    answer = curator(kept=kept).ask("SELECT sex, count(*) FROM stays GROUP BY sex", within=40)
    assert [row.cells[0] for row in answer.rows] == ["female", "male", "<missing>", "<outside>"]
    assert len(events(kept)) == 1


def test_within_and_epsilon_together_are_refused():
    kept = ledger()
    with pytest.raises(InvalidRequest, match=r"not both.* Nothing was charged"):
        curator(kept=kept).ask(OLD, within=10, epsilon=1)
    assert kept.state().charges == 0


def test_what_does_not_fit_the_budget_is_refused_and_nothing_is_charged():
    kept = ledger(Budget("0.01", 0, "pure"))
    asked = curator(kept=kept)
    with pytest.raises(BudgetExhausted, match="Nothing was charged"):
        asked.ask(OLD, epsilon="0.02")
    assert kept.state().spent == 0
    assert asked.ask(OLD, epsilon="0.01").source == "measured"
    assert kept.state().left == 0


def test_many_questions_are_one_charge_and_are_told_again_one_by_one():
    kept = ledger()
    asked = curator(kept=kept)
    age = named(asked.schema.domain)["age"]
    queries = [Query.count(asked.schema.domain, age >= bound) for bound in (20, 40, 60)]
    steps: list[tuple[int, int]] = []
    answers = asked.ask_many(queries, within=50, progress=lambda done, of: steps.append((done, of)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert kept.state().charges == 1
    for query, answer in zip(queries, answers, strict=True):
        again = asked.ask(query, within=50)
        assert (again.source, again.value.value) == ("replayed", answer.value.value)
    assert kept.state().charges == 1


def test_a_batch_with_a_price_is_told_again_and_one_of_its_questions_for_a_price_that_buys_no_more():
    kept = ledger()
    asked = curator(kept=kept)
    texts = ["SELECT avg(stay), count(*) FROM stays", "SELECT sex, sum(age), count(*) FROM stays GROUP BY sex"]
    first = asked.ask_many(texts, epsilon="0.1", max_price=1)
    again = asked.ask_many(texts, epsilon="0.1", max_price=1)
    alone = asked.ask(texts[0], epsilon="0.02", max_price=1)
    assert [answer.source for answer in (*again, alone)] == ["replayed"] * 3
    assert [answer.rows for answer in again] == [answer.rows for answer in first]
    assert alone.rows[0].estimates[1].value == first[0].rows[0].estimates[1].value
    sharper = asked.ask(texts[0], epsilon="0.1", max_price=1)  # all of the price is for this one
    assert sharper.source == "measured"
    assert sharper.rows[0].estimates[1].within < first[0].rows[0].estimates[1].within


@pytest.mark.parametrize("accountant", ["renyi", "pure"])
@pytest.mark.parametrize("aggregates", [("count(stay)", "avg(stay)"), ("avg(stay)", "stddev(stay)")])
def test_questions_of_a_batch_that_share_a_sum_are_told_again_as_they_were(accountant, aggregates):
    asked = curator(kept=ledger(Budget(1, 0 if accountant == "pure" else "1e-9", accountant)))
    texts = [f"SELECT {aggregate} FROM stays" for aggregate in aggregates]  # noqa: S608  named above
    first, again = (asked.ask_many(texts, epsilon="0.1", max_price=1) for _ in range(2))
    assert [answer.source for answer in again] == ["replayed", "replayed"]
    assert [answer.rows for answer in again] == [answer.rows for answer in first]


def test_a_part_of_a_batch_that_was_told_better_before_is_not_measured_and_stays_what_it_was():
    asked = curator(kept=ledger(Budget(1, 0, "pure")))
    everybody = "SELECT count(*) FROM stays"
    before = asked.ask(everybody, epsilon="0.012", max_price=1)  # two for 0.02 get 0.01 each, and one alone gets 0.02
    first, again = (asked.ask_many([OLD, everybody], epsilon="0.02", max_price=1) for _ in range(2))
    assert [answer.source for answer in (*first, *again)] == ["measured", "replayed", "replayed", "replayed"]
    assert first[1].rows == again[1].rows == before.rows
    assert first[0].rows == again[0].rows
    statement = f"SELECT count(*) FILTER (WHERE age > 40) - ({everybody}) AS y FROM stays"  # noqa: S608  named above
    first, again = (asked.ask(statement, epsilon="0.02", max_price=1) for _ in range(2))
    assert first.rows == again.rows


def test_an_average_that_was_measured_twice_is_told_again_at_its_best():
    asked = curator()
    text = "SELECT avg(stay) FROM stays"
    asked.ask(text, epsilon="0.001", max_price=1)
    asked.ask(text, epsilon="0.002", max_price=1)
    best = asked.ask(text, epsilon="0.1", max_price=1)
    again = asked.ask(text, epsilon="0.1", max_price=1)
    assert (best.source, again.source, again.value) == ("measured", "replayed", best.value)


def test_what_was_measured_is_told_again_as_it_was_though_a_part_of_it_was_told_better_before():
    asked = curator()
    asked.ask("SELECT sum(age) FROM stays", within="1%", max_price=1)
    text = "SELECT sum(age) * 3, avg(stay), count(*) FROM stays"
    first = asked.ask(text, epsilon="0.01", max_price=1)
    again = asked.ask(text, epsilon="0.01", max_price=1)
    assert (first.source, again.source) == ("measured", "replayed")
    assert again.rows == first.rows


def test_of_releases_by_two_laws_each_is_replayed_where_it_was_asked_for():
    asked = curator(kept=ledger(Budget(1, "1e-9", "zcdp")))
    text = "SELECT sex, count(*) FROM stays GROUP BY sex"
    wishes = ({"epsilon": "0.2"}, {"epsilon": "0.05", "confidence": 0.5})
    first = [asked.ask(text, **wish, max_price=1) for wish in wishes]
    again = [asked.ask(text, **wish, max_price=1) for wish in wishes]
    assert [answer.source for answer in first] == ["measured", "measured"]
    assert [(answer.source, answer.price.share) for answer in again] == [("replayed", 0), ("replayed", 0)]


def test_questions_of_one_batch_that_mean_the_same_are_measured_once():
    kept = ledger()
    asked = curator(kept=kept)
    texts = [
        OLD,
        "SELECT count(1) AS n FROM stays WHERE NOT age < 65",
        "SELECT sum(CASE WHEN age > 64 THEN 1 ELSE 0 END) FROM stays",
    ]
    price = asked.quote(OLD, within=40).price.share
    assert asked.quote(texts, within=40).price.share == price
    answers = asked.ask_many(texts, within=40, key="several")
    assert len({answer.value.value for answer in answers}) == 1
    assert [answer.columns for answer in answers] == [("count",), ("n",), ("sum",)]
    assert kept.state().spent == price
    assert asked.ask_many(texts, within=40, key="several")[2].value == answers[2].value
    fresh = asked.ask_many(texts, within=40, fresh=True, max_price=1)
    assert fresh[0].price.share > 2 * price
    assert len({answer.receipt for answer in fresh}) == 1


def test_questions_of_one_batch_that_differ_in_their_unit_or_their_tolerance_are_two():
    asked = curator()
    texts = ["SELECT sum(stay) AS a FROM stays", "SELECT sum(2 * stay) AS b FROM stays"]
    first, two = (answer.value for answer in asked.ask_many(texts, within=4000, max_price=1))
    assert max(first.within, two.within) <= 4000
    counts = [OLD.replace("count(*)", f"count(*) AS {name}") for name in "ab"]
    first, two = (answer.value for answer in asked.ask_many(counts, within={"a": 30, "b": 60}, max_price=1))
    assert first.within <= 30


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_a_count_is_told_again_from_a_sum_of_zeros_and_ones():
    frame = pd.DataFrame({"ill": [0, 1, 1, 0] * 50})
    opened = dodona.open(frame, schema=Schema.of("t", Integer("ill", 0, 1), size=200), budget=Budget(100))
    first = opened.ask("SELECT sum(ill) FROM t", within=10)
    again = opened.ask("SELECT count(*) FROM t WHERE ill = 1", within=10)
    assert (again.source, again.value.value) == ("replayed", first.value.value)


def test_a_batch_of_different_aggregates_has_one_receipt():
    kept = ledger()
    asked = curator(kept=kept)
    texts = [OLD, "SELECT avg(stay) FROM stays", "SELECT sex, sum(age) FROM stays GROUP BY sex"]
    answers = asked.ask_many(texts, within="5%")
    assert len({answer.receipt for answer in answers}) == 1
    assert isinstance(events(kept)[0], ComposedEvent)
    assert [len(answer.rows) for answer in answers] == [1, 1, 4]


def test_no_questions_have_no_answers():
    assert curator().ask_many([]) == ()


def test_a_key_is_charged_once_and_belongs_to_one_question():
    kept = ledger()
    asked = curator(kept=kept)
    first = asked.ask(OLD, within=40, key="monday")
    assert asked.ask(OLD, within=40, key="monday").value.value == first.value.value
    assert kept.state().charges == 1
    with pytest.raises(KeyReused):
        asked.ask("SELECT count(*) FROM stays", within=40, key="monday")


def test_threads_with_one_key_get_one_answer():
    kept = ledger()
    asked = curator(kept=kept)
    with ThreadPoolExecutor(8) as pool:
        values = list(pool.map(lambda _: asked.ask(OLD, within=40, key="k").value.value, range(32)))
    assert len(set(values)) == 1
    assert kept.state().charges == 1


class Broken:
    """A source that fails with a row in its message."""

    version = "1"

    def __init__(self, source: Source) -> None:
        self.source, self.broken = source, True

    def exact(self, query: Query) -> Sealed:
        if self.broken:
            raise ValueError("row 17: Ada Lovelace, 36")
        return self.source.exact(query)

    def close(self) -> None:
        self.source.close()


def test_a_source_that_fails_keeps_the_charge_and_tells_nothing():
    from dodona.engines.memory import MemorySource

    kept = ledger()
    source = Broken(MemorySource(schema(), columns()))
    asked = curator(source=source, kept=kept)
    with pytest.raises(SourceFailed) as caught:
        asked.ask(OLD, within=40, key="k")
    assert "Ada" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.charged
    assert kept.state().charges == 1
    source.broken = False
    answer = asked.ask(OLD, within=40, key="k")  # nothing was drawn, so what was paid for is measured now
    assert answer.source == "measured"
    assert kept.state().charges == 1
    assert asked.ask(OLD, within=40, key="k").value == answer.value


def test_a_source_that_fails_again_and_again_is_tried_four_times_for_one_charge():
    from dodona.engines.memory import MemorySource

    kept = ledger()
    source = Broken(MemorySource(schema(), columns()))
    asked = curator(source=source, kept=kept)
    for _ in range(4):
        with pytest.raises(SourceFailed):
            asked.ask(OLD, within=40, key="k")
    source.broken = False
    with pytest.raises(AnswerInterrupted):
        asked.ask(OLD, within=40, key="k")
    assert asked.ask(OLD, within=40, key="k2").source == "measured"
    assert kept.state().charges == 2
    assert kept.verify().charges == 2


def test_only_analysts_who_were_let_in_may_ask_and_only_their_share():
    kept = ledger(Budget(1, 0, "pure"), (Analyst("ada", "1/2"), Analyst("bob", "1/2")))
    ada, bob = curator(kept=kept, analyst="ada"), curator(kept=kept, analyst="bob")
    first = ada.ask(OLD, epsilon="1/2")
    with pytest.raises(BudgetExhausted):
        ada.ask("SELECT count(*) FROM stays", epsilon="0.1")
    assert bob.ask(OLD, epsilon="1/2").value.value == first.value.value
    assert bob.quote("SELECT count(*) FROM stays", epsilon="1/2").price.share == Fraction(1, 2)


def test_somebody_unknown_cannot_open_a_dataset_that_has_analysts():
    with pytest.raises(NotPermitted, match="let in"):
        curator(kept=ledger(analysts=(Analyst("ada"),)), analyst="eve")


@pytest.mark.parametrize(
    "question", ["SELECT count(*) FROM stays", "SELECT avg(age) FROM stays", "SELECT median(age) FROM stays"]
)
@pytest.mark.parametrize("price", ["1%", "100%"])
def test_who_was_never_let_in_is_told_so_whatever_the_price(question, price):
    kept = ledger()
    with pytest.raises(NotPermitted, match=r"may spend from this ledger[.] The owner lets one in"):
        curator(kept=kept, analyst="eve").ask(question, within="1%", max_price=price)
    assert kept.state().charges == 0


def test_nobody_hears_nothing_where_analysts_are_declared():
    kept = ledger(Budget(1, 0, "pure"))
    nobody = curator(kept=kept)
    nobody.ask(OLD, epsilon="1/2", key="mine")
    nobody.choose("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon="1/10")
    kept.admit(Analyst("ada"))
    for act in (
        lambda: nobody.ask(OLD, epsilon="1/2"),
        lambda: nobody.ask(OLD, epsilon="1/2", key="mine"),
        lambda: nobody.ask("SELECT count(*) FROM stays", epsilon="1/2", key="mine"),
        lambda: nobody.ask_many([OLD], epsilon="1/2"),
        lambda: nobody.quote(OLD, epsilon="1/2"),
        lambda: nobody.prepare([OLD], within=40),
        lambda: nobody.choose("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon="1/10"),
        lambda: nobody.above(3, epsilon="1/10"),
        lambda: nobody.weights(questions=10, epsilon="1/10"),
        lambda: nobody.history,
        lambda: curator(kept=kept),
    ):
        with pytest.raises(NotPermitted, match="Give your name"):
            act()
    assert curator(kept=kept, analyst="ada").ask(OLD, epsilon="1/2").source == "replayed"
    kept.stop("ada")
    assert curator(kept=kept, analyst="ada").ask(OLD, epsilon="1/2").source == "replayed"


def test_a_closed_dataset_says_so():
    with curator() as asked:
        pass
    with pytest.raises(InvalidRequest, match="was closed"):
        asked.ask(OLD)


def test_another_version_of_the_data_is_measured_anew():
    kept = ledger()
    assert curator(kept=kept).ask(OLD, within=40).source == "measured"
    assert curator(kept=kept, version="2").ask(OLD, within=40).source == "measured"
    assert curator(kept=kept).ask(OLD, within=40).source == "replayed"


def test_a_key_of_another_version_of_the_data_is_refused_instead_of_telling_its_old_answer():
    kept, groups = ledger(), "SELECT sex, count(*) FROM stays GROUP BY sex"
    curator(kept=kept).ask(OLD, within=40, key="k")
    curator(kept=kept).choose(groups, epsilon=1, key="c")
    newer = curator(kept=kept, version="2")
    with pytest.raises(KeyReused):
        newer.ask(OLD, within=40, key="k")
    with pytest.raises(KeyReused):
        newer.choose(groups, epsilon=1, key="c")
    assert kept.state().charges == 2


def test_threads_with_one_key_get_one_choice():
    kept = ledger()
    asked, groups = curator(kept=kept), "SELECT sex, count(*) FROM stays GROUP BY sex"
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: asked.choose(groups, epsilon="0.01", key="k").name, range(32)))
    assert len(set(names)) == 1
    assert kept.state().charges == 1


def test_one_noise_is_not_taken_for_two():
    asked = curator()
    asked.ask("SELECT count(*) FROM stays WHERE emergency", within=40)
    twice = (
        "SELECT count(*) FILTER (WHERE emergency)"
        " + count(*) FILTER (WHERE (emergency AND age < 50) OR (emergency AND age >= 50)) FROM stays"
    )
    assert asked.ask(twice, within=400).source == "measured"


def test_an_average_of_no_rows_is_free_however_it_is_spelled():
    """No row can change it; its sum and its number of rows would be the same block twice, with different noises."""
    asked = curator()
    answer = asked.ask("SELECT regr_avgy(age, age) FROM stays WHERE emergency AND emergency IS NULL", epsilon="0.0001")
    assert (answer.source, answer.price.share, len(asked.history)) == ("derived", 0, 0)
    assert answer.rows[0].cells == (None,)


def test_the_history_has_every_charge_with_its_question():
    asked = curator()
    asked.ask(OLD, within=40)
    asked.choose("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon=1)
    asked.above(10, epsilon=1)
    texts = [charge.text for charge in asked.history]
    assert texts[0] == OLD
    assert len(texts) == 3
    assert texts[1] == "choose 1: SELECT sex, count(*) FROM stays GROUP BY sex"
    assert texts[2] == "a watch on counts"
    assert all(charge.answered for charge in asked.history)


def test_a_query_over_another_domain_is_refused():
    other = schema("replace").domain.project(["age"])
    with pytest.raises(InvalidRequest, match="another domain"):
        curator().ask(Query.count(other))


def test_a_question_that_is_no_question_is_refused():
    with pytest.raises(InvalidRequest, match="SQL text or a Query"):
        curator().ask(3)
