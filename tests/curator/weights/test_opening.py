"""Weights on a dataset: charged once, in full, before the first count is read."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import dodona
from dodona.answer.results import WeightsAnswer
from dodona.curator.curator import Curator
from dodona.curator.request import Dataset, Request
from dodona.curator.weights import Weights, plan_weights
from dodona.curator.weights_design import NoUsefulGuarantee, UniverseTooLarge
from dodona.engines.memory import MemorySource
from dodona.errors import Halted, InvalidArgument, InvalidRequest
from dodona.lab.audit.bound import certified_epsilon
from dodona.lab.mechanisms import Laplace, SparseVector
from dodona.lab.weights import cube_root
from dodona.ledger import memory
from dodona.ledger.errors import BudgetExhausted, ReceiptReused
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.privacy.events import ComposedEvent, GaussianEvent, LaplaceEvent, PureEvent
from dodona.privacy.sparse_vector import EstimateChecker
from dodona.query.query import Query
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Domain, LinkedTable, Schema
from dodona.trusted.gate import CHECKING, open_estimate_check
from dodona.trusted.source import Sealed, Unpaid

ROWS = 40_000


class Counting:
    """A source that counts how often it was read."""

    def __init__(self, source: MemorySource) -> None:
        self.version, self._source, self.reads = source.version, source, 0

    def exact(self, query: Query) -> Sealed:
        self.reads += 1
        return self._source.exact(query)

    def close(self) -> None:
        self._source.close()


def stays(rows: int = ROWS, neighbours: str = "add-remove") -> Schema:
    ward = Category("ward", ("a", "b", "c"))
    return Schema.of("stays", ward, Boolean("urgent"), Integer("age", 0, 999_999), size=rows, neighbours=neighbours)


def columns(rows: int = ROWS) -> dict[str, Sequence[object]]:
    return {
        "ward": ["a" if row % 10 else "b" for row in range(rows)],
        "urgent": [row % 4 == 0 for row in range(rows)],
        "age": [row % 90 for row in range(rows)],
    }


def dataset(
    *, neighbours: str = "add-remove", budget: Budget | None = None, size: int = ROWS, rows: int = ROWS
) -> tuple[Dataset, Ledger, Counting]:
    schema = stays(size, neighbours)
    terms = LedgerTerms(
        datasets={"stays": schema.digest},
        neighbours=schema.unit.neighbours,
        budget=budget or Budget(1, "1e-6", "zcdp"),
        analysts=(),
    )
    kept, source = memory.create_memory_ledger(terms), Counting(MemorySource(schema, columns(rows), version="1"))
    default = Request(within="1%", epsilon=None, confidence=0.95)
    return Dataset(name="stays", schema=schema, source=source, ledger=kept, default=default), kept, source


def opened(data: Dataset, *, epsilon: object = "9/10", questions: int = 100) -> Weights:
    return Curator(data).weights(questions=questions, epsilon=epsilon, columns=("ward", "urgent"), confidence=0.9999999)


QUESTIONS = [
    "SELECT count(*) FROM stays WHERE ward = 'a'",
    "SELECT count(*) FROM stays WHERE ward = 'a' AND urgent",
    "SELECT count(*) FROM stays WHERE NOT urgent",
    "SELECT count(*) FROM stays",
    "SELECT count(*) FROM stays WHERE ward = 'b' OR urgent",
]


@pytest.mark.parametrize(("neighbours", "spare"), [("add-remove", 1), ("replace", 0)])
def test_answers_are_within_the_promise(neighbours, spare):
    """A false alarm has probability 1e-7 at most."""
    data, _, _ = dataset(neighbours=neighbours)
    weights = opened(data)
    assert weights.design.universe == 5 * 4 + spare
    table = columns()
    ward, urgent = np.array(table["ward"]), np.array(table["urgent"])
    truths = [ward == "a", (ward == "a") & urgent, ~urgent, np.ones(ROWS), (ward == "b") | urgent]
    assert weights.design.within < 0.5
    for question, truth in list(zip(QUESTIONS, truths, strict=True)) * 4:
        answer = weights.ask(question)
        assert abs(answer.count - truth.sum()) <= answer.within * ROWS
    assert 0 < weights.mechanism.updates == weights.design.updates - weights.left


def test_rows_that_are_missing_to_the_declared_size_do_no_harm():
    data, _, _ = dataset(rows=ROWS // 2)
    weights = opened(data)
    for _ in range(6):
        answer = weights.ask("SELECT count(*) FROM stays")
    assert abs(answer.count - ROWS / 2) <= answer.within * ROWS


def test_the_whole_run_is_charged_once_before_the_first_question():
    data, kept, source = dataset()
    weights = opened(data)
    assert source.reads == 0
    spent = kept.state().spent
    event = weights.design.event(data.schema.unit)
    assert spent == kept.share(event) == weights.price.share
    assert 0.7 < spent < 1
    assert isinstance(event, ComposedEvent)
    assert [type(part) for part, _ in event.parts] == [PureEvent, GaussianEvent]
    for question in QUESTIONS * 3:
        weights.ask(question)
    assert kept.state().spent == spent
    assert source.reads == 3 * len(QUESTIONS)


def test_a_plan_costs_nothing_and_says_what_is_better():
    data, kept, source = dataset()
    few = plan_weights(data, questions=100, epsilon="9/10", columns=("ward", "urgent"))
    assert few.independent < few.design.within
    assert few.table < few.independent
    assert "One table of all cells promises about" in few.advice
    assert "ask_many" in replace(few, table=math.inf).advice
    assert replace(few, table=math.inf, independent=math.inf).advice.endswith("Nothing else promises more.")
    many = plan_weights(data, questions=10**9, epsilon="9/10", columns=("ward", "urgent"))
    assert many.design.within < 1 < many.independent
    assert "Weights promise" in many.advice
    assert (kept.state().spent, source.reads) == (0, 0)
    assert many.price.share <= 1
    assert many.price.epsilon <= 0.9 + 1e-6


def test_an_answer_shows_how_far_off_it_may_be():
    assert str(WeightsAnswer(0.25, "confirmed", 0.0101, 0.95, 1000)) == "250 ± 11"


def test_the_history_says_what_was_opened():
    data, _, _ = dataset()
    opened(data)
    (charge,) = Curator(data).history
    assert (charge.text, charge.answered) == ("multiplicative weights", True)


def test_a_pure_budget_is_charged_pure_losses():
    data, kept, _ = dataset(budget=Budget(4, 0, "pure"))
    weights = opened(data, epsilon=4, questions=20)
    event = weights.design.event(data.schema.unit)
    assert isinstance(event, ComposedEvent)
    assert [type(part) for part, _ in event.parts] == [PureEvent, LaplaceEvent]
    assert 0.99 < kept.state().spent <= 1


def test_what_the_budget_does_not_hold_is_refused_and_nothing_is_read():
    data, kept, source = dataset()
    opened(data)
    spent = kept.state().spent
    with pytest.raises(BudgetExhausted):
        opened(data)
    assert (kept.state().spent, source.reads) == (spent, 0)


def test_an_empty_promise_is_said_to_be_one():
    design = cube_root(1_000, universe=64, questions=1_000, epsilon=1)
    assert design.empty
    assert "promises nothing" in str(design)
    useful = cube_root(10**8, universe=64, questions=1_000, epsilon=1)
    assert not useful.empty
    assert "nothing" not in str(useful)


def test_weights_say_what_would_have_promised_more_at_their_price():
    data, _, _ = dataset()
    weights = opened(data)
    assert f"within {weights.design.within:.3g} of the rows" in weights.advice
    assert "GROUP BY" in weights.advice  # the cells are few: their counts tell every sum of them better


def test_what_promises_nothing_is_refused_before_it_is_charged():
    data, kept, _ = dataset()
    with pytest.raises(NoUsefulGuarantee, match=r"no promise\. Raise epsilon"):
        opened(data, epsilon="1/1000")
    with pytest.raises(
        NoUsefulGuarantee, match=r"no promise\. At the same price within .* is promised if you ask for one table"
    ):
        opened(data, epsilon="1/100")
    with pytest.raises(UniverseTooLarge, match="20000040 cells"):
        Curator(data).weights(questions=10, epsilon=1)
    with pytest.raises(InvalidRequest, match="height"):
        Curator(data).weights(questions=10, epsilon=1, columns=("height",))
    for names in ((), ("ward", "ward")):
        with pytest.raises(InvalidArgument, match="each once"):
            Curator(data).weights(questions=10, epsilon=1, columns=names)
    assert kept.state().spent == 0


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("SELECT sum(age) FROM stays", "not age"),
        ("SELECT count(*) FROM stays WHERE age > 4", "not age"),
        ("SELECT ward, count(*) FROM stays GROUP BY ward", "one count"),
        ("SELECT avg(age) FROM stays", "one count"),
    ],
)
def test_questions_that_are_no_counts_over_the_columns_are_refused_unread(question, said):
    data, _, source = dataset()
    weights = opened(data)
    with pytest.raises(InvalidRequest, match=said):
        weights.ask(question)
    assert source.reads == 0
    assert weights.left == weights.design.updates


def checker(threshold: int = 3, scale: int = 1) -> EstimateChecker:
    test = SparseVector(threshold_scale=2 * scale, question_scale=4 * scale, positives=2)
    return EstimateChecker(test, Laplace(scale=2), threshold)


def test_a_question_that_a_row_moves_by_more_than_one_is_refused_before_it_is_read():
    data, kept, source = dataset(budget=Budget(100, "1e-6", "zcdp"))
    event = checker().event(data.schema.unit)
    receipt = kept.reserve(event, analyst=None, key=None, purpose=CHECKING, version="1")
    check = open_estimate_check(checker(), receipt, ledger=kept, source=source, unit=data.schema.unit)
    for query in (
        Query.sum(data.schema.domain, "age"),
        Query.histogram(data.schema.domain, "ward"),
        Query.weighted(data.schema.domain, {"ward": {"a": 2}}),
    ):
        with pytest.raises(InvalidArgument, match="one count"):
            check(query, 0)
    assert source.reads == 0
    with pytest.raises(ReceiptReused):
        open_estimate_check(checker(), receipt, ledger=kept, source=source, unit=data.schema.unit)


def test_what_is_refused_after_the_last_update_carries_no_exact_count():
    data, kept, source = dataset(budget=Budget(100, "1e-6", "zcdp"))
    event = checker().event(data.schema.unit)
    receipt = kept.reserve(event, analyst=None, key=None, purpose=CHECKING, version="1")
    check = open_estimate_check(checker(), receipt, ledger=kept, source=source, unit=data.schema.unit)
    every = Query.count(data.schema.domain)
    assert check(every, 0) is not None  # 40,000 rows are far from none
    for _ in range(2):  # the last positive, and one more question
        with pytest.raises(Halted) as raised:
            check(every, 0)
        assert raised.value.__cause__ is raised.value.__context__ is None
        assert not held(raised.value, ROWS)


def held(fault: BaseException, number: int) -> list[str]:
    """The frames of the product that travel with an error and hold a number."""
    names, step = [], fault.__traceback__
    while step is not None:
        frame = step.tb_frame
        if "dodona" in frame.f_globals["__name__"] and number in [
            value for value in frame.f_locals.values() if isinstance(value, int)
        ]:
            names.append(frame.f_code.co_name)
        step = step.tb_next
    return names


def test_a_receipt_for_less_opens_nothing():
    data, kept, source = dataset(budget=Budget(100, "1e-6", "zcdp"))
    event = checker(scale=10).event(data.schema.unit)
    receipt = kept.reserve(event, analyst=None, key=None, purpose=CHECKING, version="1")
    with pytest.raises(Unpaid):
        open_estimate_check(checker(), receipt, ledger=kept, source=source, unit=data.schema.unit)
    assert source.reads == 0


def test_samples_through_the_ledger_prove_no_more_than_one_test_costs():
    """400 openings a table of 10 rows; a false alarm has probability 1e-6. Without noise they prove more than 1."""
    samples = []
    for rows in (10, 9):  # the count is 3 and 2 above the estimate of 7
        data, kept, source = dataset(budget=Budget(10**4, "1e-6", "zcdp"), size=10, rows=rows)
        outcomes = []
        for _ in range(400):
            event = checker().event(data.schema.unit)
            receipt = kept.reserve(event, analyst=None, key=None, purpose=CHECKING, version="1")
            check = open_estimate_check(checker(), receipt, ledger=kept, source=source, unit=data.schema.unit)
            outcomes.append(check(Query.count(data.schema.domain), 7) is not None)
        samples.append(np.array(outcomes) * 1)
    assert 0.2 < samples[0].mean() < 0.9
    assert certified_epsilon(*samples) <= 1


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
def test_weights_over_columns_of_one_of_several_tables_count_its_rows():
    rows = 4_000
    schema = Schema.of(
        "visits",
        Category("ward", ["a", "b"]),
        size=rows,
        id="who",
        linked=[LinkedTable("patients", Domain((Boolean("smokes"),)), "who")],
    )
    people = [f"p{number}" for number in range(rows)]
    frames = {
        "visits": pa.table({"ward": ["a", "a", "a", "b"] * (rows // 4), "who": people}),
        "patients": pa.table({"smokes": [True, False] * (rows // 2), "who": people}),
    }
    budget = Budget(100, "1e-6")
    with dodona.open(frames, schema=schema, budget=budget, max_price=1) as visits:
        weights = visits.weights(questions=20, epsilon=40, columns=["ward"])
        answer = weights.ask("SELECT count(*) FROM visits WHERE ward = 'a'")
        assert "row_of" not in f"{weights} {weights.advice}"
        assert max(abs(answer.value - 3 / 4), answer.within) < 1 / 4  # a share of the rows
        with pytest.raises(InvalidRequest, match="are over ward, not smokes"):
            weights.ask("SELECT count(*) FROM patients WHERE smokes")
