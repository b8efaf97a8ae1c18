"""What the ladder tells: where it comes from, what it costs, how far off it is, and what is refused unpaid."""

from itertools import permutations

import numpy as np
import pytest

from dodona.answer.estimate import to_float
from dodona.errors import DodonaError, InvalidRequest, Refused
from dodona.privacy.budget import Budget
from dodona.query.predicate import among, conjunction
from dodona.query.query import Query
from dodona.schema.attributes import Boolean
from dodona.schema.schema import Domain
from tests.curator.test_ladder import EITHER, PURE, charges, curator_of, ledger_of, questions, small

BUDGETS = pytest.mark.parametrize("budget", [EITHER, PURE], ids=["either", "pure"])
TOLERANCE = {"within": 60, "confidence": 0.95}


def opened(budget=EITHER, neighbours="replace"):
    schema, columns = small(neighbours)
    ledger = ledger_of(schema, budget)
    return curator_of(schema, columns, ledger), ledger, columns


def truth(columns, **codes: object):
    """How many rows have these labels."""
    keep = np.ones(len(columns["a"]), dtype=bool)
    for name, values in codes.items():
        keep &= np.isin(columns[name], [str(code) for code in values])
    return int(keep.sum())


@BUDGETS
def test_a_declared_workload_is_bought_once_and_is_free_then(budget):
    curator, ledger, _ = opened(budget)
    asked = questions(curator.schema)
    offer = curator.quote(asked, **TOLERANCE)
    assert ledger.state().spent == 0
    prepared = curator.prepare(asked, **TOLERANCE)
    assert prepared.price.share == offer.price.share == ledger.state().spent > 0
    answers = [curator.ask(query, **TOLERANCE) for query in asked]
    assert {answer.source for answer in answers} <= {"derived", "replayed"}
    assert all(answer.price.share == 0 for answer in answers)
    assert len(charges(ledger)) == 1
    assert curator.prepare(asked, **TOLERANCE).price.share == 0


@pytest.mark.parametrize(("budget", "neighbours"), [(EITHER, "replace"), (PURE, "add-remove")])
def test_intervals_of_derived_answers_hold_as_often_as_they_say(budget, neighbours):
    """30 bundles, 16 answers each, at 80%; answers of one bundle may all fail together, so bundles are counted.

    The share of misses in a bundle lies between 0 and 1, and its expectation is at most 1/5. By Hoeffding's bound the
    mean of 30 is above 0.65 with probability exp(-30·KL(0.65, 0.2)) < 10^-6 at most; noise three times too wide has
    more than that.
    """
    missed = []
    for _ in range(30):
        curator, _, columns = opened(budget, neighbours)
        first, second = curator.schema.domain["a"], curator.schema.domain["b"]
        sides = [(codes, others) for codes in ([0], [1], [0, 1], [0, 2]) for others in ([0], [1], [0, 1], [1, 2])]
        asked = [
            Query.count(curator.schema.domain, conjunction(among(first, codes), among(second, others)))
            for codes, others in sides
        ]
        curator.prepare(asked, within=60, confidence=0.8)
        answers = [curator.ask(query, within=60, confidence=0.8).value for query in asked]
        exact = [truth(columns, a=codes, b=others) for codes, others in sides]
        off = [
            not to_float(answer.low) <= real <= to_float(answer.high)
            for answer, real in zip(answers, exact, strict=True)
        ]
        assert all(answer.within <= 60 for answer in answers)
        assert all(abs(to_float(answer.value) - real) < 400 for answer, real in zip(answers, exact, strict=True))
        missed.append(np.mean(off))
    assert np.mean(missed) <= 0.65


@BUDGETS
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_tables_follow_in_every_order_of_their_keys(budget, neighbours):
    """Rooms of 60 rows at 95%; no cell of 24 is off by 400, some 12 standard deviations, but for 10^-9."""
    curator, ledger, columns = opened(budget, neighbours)
    domain = curator.schema.domain
    curator.prepare([Query.histogram(domain, ("b", "a"))], **TOLERANCE)
    spent = ledger.state().spent
    for keys in permutations(("a", "b")):  # a sum of cells is noisier, and not promised
        answer = curator.ask(Query.histogram(domain, keys), **TOLERANCE)
        assert answer.source in {"derived", "replayed"}
        for row in answer.rows:
            codes = {name: [key] for name, key in zip(keys, row.keys, strict=True)}
            real = truth(columns, **codes)
            assert abs(to_float(row.estimates[0].value) - real) < 400
            assert row.estimates[0].within <= 60
    assert ledger.state().spent == spent


def test_a_table_of_the_past_answers_its_counts_in_another_order_of_columns():
    curator, ledger, _ = opened()
    domain = curator.schema.domain
    table = curator.ask(Query.histogram(domain, ("b", "a")), within=30, confidence=0.95)
    before = ledger.state().spent
    cells = {row.keys: to_float(row.estimates[0].value) for row in table.rows}
    answer = curator.ask(Query.histogram(domain, ("a", "b")), within=60, confidence=0.95)
    assert ledger.state().spent == before
    shift = {cells[row.keys[::-1]] - to_float(row.estimates[0].value) for row in answer.rows}
    assert max(shift) - min(shift) < 1e-6  # all cells take the same share of the number of rows
    assert [row.keys for row in answer.rows] == sorted([keys[::-1] for keys in cells], key=_place(answer))


def _place(answer):
    places = {row.keys: place for place, row in enumerate(answer.rows)}
    return places.__getitem__


def test_questions_that_are_asked_together_are_planned_together():
    curator, ledger, _ = opened()
    asked = questions(curator.schema)
    answers = curator.ask_many(asked, **TOLERANCE)
    assert len(charges(ledger)) == 1
    assert len(answers) == len(asked)
    alone, other, _ = opened()
    for query in asked[:4]:
        alone.ask(query, **TOLERANCE)
    assert ledger.state().spent < 8 * other.state().spent


def test_a_quote_spends_nothing_and_says_what_would_be_bought():
    curator, ledger, _ = opened()
    for query in questions(curator.schema):
        offer = curator.quote(query, **TOLERANCE)
        spent, number = ledger.state().spent, len(charges(ledger))
        assert offer == curator.quote(query, **TOLERANCE)
        assert (ledger.state().spent, len(charges(ledger))) == (spent, number)
        answer = curator.ask(query, **TOLERANCE)
        assert answer.source == offer.source
        assert answer.price.share == offer.price.share
        assert ledger.state().spent - spent >= offer.price.share * (1 - 1e-9) or offer.price.share == 0


OTHER = Domain((Boolean("elsewhere"),))


@pytest.mark.parametrize(
    "act",
    [
        lambda curator: curator.prepare([], **TOLERANCE),
        lambda curator: curator.prepare("SELECT count(*) FROM visits", **TOLERANCE),
        lambda curator: curator.prepare([Query.count(OTHER)], **TOLERANCE),
        lambda curator: curator.prepare([Query.count(curator.schema.domain), 7], **TOLERANCE),
        lambda curator: curator.quote([], **TOLERANCE),
        lambda curator: curator.ask_many([Query.count(OTHER)], **TOLERANCE),
        lambda curator: curator.ask(Query.histogram(curator.schema.domain, "a"), within=60, epsilon=1),
        lambda curator: curator.ask("SELECT count(*) FROM visits WHERE d = 1", **TOLERANCE),
        lambda curator: curator.ask(questions(curator.schema)[0], within=-1),
        lambda curator: curator.ask(questions(curator.schema)[0], within=60, confidence=1.5),
    ],
)
def test_what_cannot_be_asked_is_refused_and_nothing_is_charged(act):
    curator, ledger, _ = opened()
    with pytest.raises(InvalidRequest, match="Nothing was charged"):
        act(curator)
    assert len(charges(ledger)) == 0


@BUDGETS
def test_a_contradiction_is_answered_without_harm(budget):
    curator, ledger, _ = opened(budget)
    first = curator.schema.domain["a"]
    nobody = Query.count(curator.schema.domain, conjunction(among(first, [0]), among(first, [1])))
    curator.prepare(questions(curator.schema), **TOLERANCE)
    spent = ledger.state().spent
    answer = curator.ask(nobody, **TOLERANCE)
    assert abs(to_float(answer.value.value)) <= 400
    assert ledger.state().spent >= spent


@pytest.mark.share(2)
@pytest.mark.parametrize("budget", [Budget(1, "1e-9", "either"), Budget(1, 0, "pure")], ids=["either", "pure"])
@pytest.mark.parametrize("within", [1e-9, 0.4, 2])
def test_an_accuracy_that_the_budget_cannot_buy_is_refused(budget, within):
    curator, ledger, _ = opened(budget)
    asked = questions(curator.schema)
    for act in (lambda: curator.ask(asked[0], within=within), lambda: curator.prepare(asked, within=within)):
        with pytest.raises(DodonaError, match="Nothing was charged"):
            act()
    assert len(charges(ledger)) == 0


@pytest.mark.parametrize("accountant", ["pure", "renyi", "either"])
def test_where_the_bundle_does_not_fit_singles_are_bought_until_nothing_fits(accountant):
    """The budget is little more than what two singles take: whatever is bought, nothing is charged beyond it."""
    delta, factor = (0, 2.5) if accountant == "pure" else ("1e-9", 1.5)
    generous, ledger, _ = opened(Budget(100, delta, accountant))
    asked = questions(generous.schema)
    generous.ask(asked[0], **TOLERANCE)
    alone = float(ledger.state().epsilon_spent)
    schema, columns = small()
    tight = ledger_of(schema, Budget(f"{factor * alone:.6f}", delta, accountant))
    curator = curator_of(schema, columns, tight)
    answered, refused = 0, []
    for query in asked:
        number = len(charges(tight))
        try:
            curator.ask(query, **TOLERANCE)
            answered += 1
        except Refused as fault:
            refused.append(str(fault))
            assert len(charges(tight)) == number
    assert answered >= 2
    assert refused
    assert all("Nothing was charged" in text for text in refused)
    assert tight.state().spent <= 1
