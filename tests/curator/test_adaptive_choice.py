"""Questions that are asked because of what earlier answers said."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from dodona.answer.display import answer_notes
from dodona.answer.laws import NoiseSum, make_derived_values
from dodona.answer.recorded import RecordedAnswer
from dodona.curator.curator import Curator
from dodona.curator.request import Dataset, Request
from dodona.engines.memory import MemorySource
from dodona.errors import InvalidRequest
from dodona.ledger import memory
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.schema import Schema
from tests.curator import scene

GROUPS, EACH = 64, 100
PURE, RENYI = Budget(10**4, 0, "pure"), Budget(10**4, "1e-6", "renyi")
BOTH = pytest.mark.parametrize("budget", [PURE, RENYI], ids=["pure", "renyi"])
FAILING, FALSE_ALARM = 0.05, 1e-6


def curator(budget: Budget) -> Curator:
    """64 groups of 100 rows each, and eight columns of which any two hold together in 1600 rows."""
    coins = [f"b{number}" for number in range(8)]
    attributes = (Integer("g", 0, GROUPS - 1, otherwise=0), *(Boolean(name, otherwise=False) for name in coins))
    schema = Schema.of("t", *attributes, size=GROUPS * EACH)
    rows = np.arange(GROUPS * EACH)
    columns = {"g": (rows % GROUPS).tolist()}
    columns |= {name: ((rows >> place) % 2 == 1).tolist() for place, name in enumerate(coins)}
    ledger = memory.create_memory_ledger(
        LedgerTerms(datasets={"t": schema.digest}, neighbours=schema.unit.neighbours, budget=budget, analysts=())
    )
    default = Request(within="1%", epsilon=None, confidence=1 - FAILING)
    return Curator(
        Dataset(name="t", schema=schema, source=MemorySource(schema, columns), ledger=ledger, default=default)
    )


def largest_half(budget: Budget):
    """The sum of the 32 groups that look largest, as it follows from all 64: its truth is known."""
    asked = curator(budget)
    groups = asked.ask("SELECT g, count(*) FROM t GROUP BY g", within=30)
    top = sorted(groups.rows, key=lambda row: -float(row.cells[1]))[: GROUPS // 2]
    listed = ", ".join(str(row.keys[0]) for row in top)
    return asked, f"SELECT count(*) FROM t WHERE g IN ({listed})", GROUPS // 2 * EACH  # noqa: S608


def held(estimate, truth: float) -> bool:
    return float(estimate.low) <= truth <= float(estimate.high)


@pytest.mark.slow
@pytest.mark.share(2)
@BOTH
def test_the_largest_half_of_the_groups_is_held_for_any_choice_and_missed_by_the_plain_interval(budget):
    """20 tables. A promise of 95% holds 12 times at least, but with probability 10^-6; the plain one held 0 of 60."""
    trials = 20
    plain = chosen = fresh = 0
    for _ in range(trials):
        asked, question, truth = largest_half(budget)
        answer = asked.ask(question, within=2_000)
        assert answer.source == "derived"
        assert answer.reused
        assert any("any_choice()" in warning for warning in answer.warnings)
        plain += held(answer.value, truth)
        wide = answer.any_choice()
        chosen += held(wide.value, truth)
        assert wide.value.value == answer.value.value
        assert not any("any_choice()" in warning for warning in wide.warnings)
        anew = asked.ask(question, within=300, fresh=True)
        assert (anew.source, anew.reused) == ("measured", False)
        fresh += held(anew.value, truth)
    least = int(binom.isf(1 - FALSE_ALARM, trials, 1 - FAILING))
    assert min(chosen, fresh) >= least
    assert plain < least  # the fault that any_choice is for


@pytest.mark.slow
def test_the_largest_of_many_conjunctions_that_are_told_again_is_held_for_any_choice():
    """28 counts of 1600 rows each; the one that looks largest is asked for again. 15 tables, false alarm 10^-6."""
    trials, chosen = 15, 0
    for _ in range(trials):
        asked = curator(PURE)
        pairs = [(column, other) for column in range(8) for other in range(column)]
        texts = [f"SELECT count(*) FROM t WHERE b{column} AND b{other}" for column, other in pairs]  # noqa: S608
        answers = asked.ask_many(texts, within=100, fresh=True)
        best = max(range(len(texts)), key=lambda place: float(answers[place].value))
        again = asked.ask(texts[best], within=100)
        assert again.reused
        chosen += held(again.any_choice().value, 1600)
    least = int(binom.isf(1 - FALSE_ALARM, trials, 1 - FAILING))
    assert chosen >= least


LARGEST = "SELECT g, count(*) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 1"
SELECTIONS = (
    LARGEST,
    "SELECT g, count(*) AS n FROM t GROUP BY g HAVING count(*) > 120",
    "SELECT g, n FROM (SELECT g, count(*) AS n FROM t GROUP BY g) AS c ORDER BY n DESC LIMIT 1",
    "WITH c AS (SELECT g, count(*) AS n FROM t GROUP BY g) SELECT g, n FROM c WHERE n > 120",
    "SELECT g, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS place FROM t GROUP BY g ORDER BY place LIMIT 1",
)


@pytest.mark.slow
@pytest.mark.share(5)
@pytest.mark.parametrize("question", SELECTIONS)
def test_rows_that_noise_selected_are_held_simultaneously_and_missed_by_their_own_intervals(question):
    """28 tables of 64 equal groups. A promise of 95% holds 19 times at least, but with probability 10^-6.

    No noise is above its own 97.5% quantile with probability .975^64 < .2: 19 times with probability 6·10^-8.
    """
    trials, plain, wide = 28, 0, 0
    for _ in range(trials):
        answer = curator(PURE).ask(question, within=30)
        together = answer.simultaneous()
        plain += all(held(row.estimates[0], EACH) for row in answer.rows)
        wide += all(held(row.estimates[0], EACH) for row in together.rows)
        if answer.rows:  # no count at all is above 120 in one table of a hundred, and then there is nothing to say
            assert "or more if its row was named beforehand." in str(answer)
            assert any("take simultaneous()" in warning.lower() for warning in answer.warnings)
        assert "beforehand" not in str(together)
        assert not any("simultaneous()" in warning for warning in together.warnings)
    least = int(binom.isf(1 - FALSE_ALARM, trials, 1 - FAILING))
    assert wide >= least
    assert plain < least  # so it is not promised


@pytest.mark.parametrize(
    ("question", "selected"),
    [
        *((question, True) for question in SELECTIONS),
        ("SELECT g, count(*) FROM t GROUP BY g", False),
        ("SELECT g, count(*) AS n FROM t GROUP BY g ORDER BY n DESC", False),
        ("SELECT g, count(*) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 64", False),
        ("SELECT g, count(*) AS n FROM t GROUP BY g ORDER BY g LIMIT 3", False),
        ("SELECT g, count(*) AS n FROM t GROUP BY g HAVING g > 60", False),
        ("SELECT g, n FROM (SELECT g, count(*) AS n FROM t GROUP BY g) AS c ORDER BY g LIMIT 3", False),
        ("SELECT g, n FROM (SELECT g, count(*) AS n FROM t GROUP BY g) AS c ORDER BY 2 DESC LIMIT 3", True),
        ("SELECT g, n FROM (SELECT g, count(*) AS n FROM t GROUP BY g) AS c WHERE g < 3", False),
    ],
)
def test_an_answer_says_whether_noise_decided_which_rows_it_shows(question, selected):
    answer = curator(PURE).ask(question, within=30)
    assert answer.coverage.selected is selected
    # No count at all is above 120 in one table of a hundred, and then there is nothing to say.
    assert ("named beforehand" in str(answer)) is (selected and len(answer.rows) > 0)
    again = RecordedAnswer.from_json(answer.to_json())
    assert again.coverage == answer.coverage
    assert answer_notes(again) == answer_notes(answer)


def test_a_fresh_question_is_measured_and_charged_again_and_quoted_so():
    asked = scene.curator()
    old = "SELECT count(*) FROM stays WHERE age >= 65"
    first = asked.ask(old, within=50)
    assert asked.quote(old, within=50).price.share == 0
    offer = asked.quote(old, within=50, fresh=True)
    again = asked.ask(old, within=50, fresh=True)
    assert again.price == offer.price == first.price
    assert again.receipt != first.receipt
    assert asked.ask_many([old, old], within=50, fresh=True)[0].source == "measured"
    assert asked.budget.charges == 3


def test_an_answer_that_was_just_measured_reuses_nothing_and_has_a_wider_interval_for_any_choice():
    answer = scene.curator().ask("SELECT sex, count(*) FROM stays GROUP BY sex", within=50)
    assert not answer.reused
    assert answer.any_choice().accuracy[0].worst > answer.simultaneous().accuracy[0].worst
    assert "Whatever the question was chosen by" in str(answer.any_choice())


def test_arithmetic_of_counts_has_such_an_interval_and_an_average_is_refused():
    asked = scene.curator()
    answer = asked.ask("SELECT count(*) FILTER (WHERE emergency) / count(*) FROM stays", within="5%")
    single, chosen = answer.value, answer.any_choice().value
    assert chosen.low < single.low < single.high < chosen.high
    with pytest.raises(InvalidRequest, match="fresh=True"):
        asked.ask("SELECT avg(stay) FROM stays", within=5).any_choice()


@BOTH
def test_what_was_released_itself_is_held_as_tightly_as_that_allows(budget):
    """A count that was released with little noise, and follows from 64 noisier ones as well."""
    asked = curator(budget)
    for _ in range(3):
        asked.ask("SELECT g, count(*) FROM t GROUP BY g", within=40, fresh=True)
    half = "SELECT count(*) FROM t WHERE g < 32"
    alone = asked.ask(half, within=30, fresh=True)
    again = asked.ask(half, within=200)
    wide = NoiseSum.of([1.0] * 96, alone.measured.noises[0])
    derived = replace(again, measured=make_derived_values(again.question, [[3100.0]], [wide]), recall=again.recall)
    chosen, single = derived.any_choice().value, alone.any_choice().value
    assert chosen.high - chosen.low <= 1.01 * (single.high - single.low)  # some more were released since
    assert chosen.value == alone.value.value
    loose = replace(derived, recall=None).any_choice().value
    assert loose.high - loose.low > 5 * (chosen.high - chosen.low)
    assert loose.value == 3100


@pytest.mark.slow
@pytest.mark.share(2)
@BOTH
def test_the_count_that_one_bundle_misses_most_is_held_for_any_choice_and_closely(budget):
    """10 tables of 112 counts of 1600 rows each. A promise of 95% holds 4 times at least, but with probability 10^-6.

    Of 36 independent numbers all are within their 95% intervals with probability below .2: 10 times below 10^-6.
    """
    trials, plain, chosen, truth = 10, 0, 0, GROUPS * EACH // 4
    texts = [
        f"SELECT count(*) FROM t WHERE {first}b{column} AND {second}b{other}"  # noqa: S608
        for column in range(8)
        for other in range(column)
        for first in ("", "NOT ")
        for second in ("", "NOT ")
    ]
    for _ in range(trials):
        asked = curator(budget)
        asked.prepare(texts, within=400)
        answers = asked.ask_many(texts, within=10_000)
        assert {answer.source for answer in answers} == {"derived"}
        missed = [abs(float(answer.value) - truth) / answer.value.within for answer in answers]
        worst = int(np.argmax(missed))
        plain += missed[worst] <= 1
        wide = answers[worst].any_choice().value
        chosen += held(wide, truth)
        assert wide.within <= 5 * answers[worst].value.within
    least = int(binom.isf(1 - FALSE_ALARM, trials, 1 - FAILING))
    assert chosen >= least
    assert plain < trials
