"""One surface, two curators: what holds for a local curator holds for a remote one."""

import datetime as dt
import inspect
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import dodona
from dodona.answer.recorded import RecordedAnswer
from dodona.client.remote import RemoteCurator
from dodona.client.remote_async import AsyncRemoteCurator
from dodona.curator.curator import Curator
from dodona.curator.desk import PriceAboveMaximum
from dodona.dataset import open_dataset_ledger
from dodona.errors import InvalidRequest, Refused
from dodona.ledger.errors import BudgetExhausted, KeyReused
from tests.client.scene import Server, make_dataset

SURFACE = [
    name
    for name in vars(Curator)
    if not name.startswith("_") and name not in {"ask_if_free", "for_analyst", "weights"}  # what only a process can do
]


@pytest.mark.parametrize("name", SURFACE)
@pytest.mark.parametrize("remote", [RemoteCurator, AsyncRemoteCurator])
def test_a_remote_curator_has_every_call_with_the_same_arguments(name, remote):
    local, other = getattr(Curator, name), getattr(remote, name)
    if isinstance(local, property):
        assert isinstance(other, property) or inspect.iscoroutinefunction(other)
        return
    assert inspect.iscoroutinefunction(other) is (remote is AsyncRemoteCurator)
    here, there = (
        [
            (parameter.name, parameter.kind, parameter.default)
            for parameter in inspect.signature(function).parameters.values()
        ]
        for function in (local, other)
    )
    assert there == here


def open_curator(request: pytest.FixtureRequest, dataset: str, analyst: str) -> Curator | RemoteCurator:
    if request.param == "local":
        folder: Path = request.getfixturevalue("tmp_path_factory").mktemp("local")
        return dodona.open(make_dataset(folder, dataset), analyst=analyst)
    server: Server = request.getfixturevalue("server")
    return dodona.connect(server.url, token=server.tokens[analyst], dataset=dataset)


@pytest.fixture(scope="module", params=["local", "remote"])
def stays(request: pytest.FixtureRequest) -> Iterator[Curator | RemoteCurator]:
    """A dataset that all tests ask, in the name of eva."""
    with open_curator(request, "contract", "eva") as curator:
        yield curator


@pytest.fixture(scope="module", params=["local", "remote"])
def quiet(request: pytest.FixtureRequest) -> Iterator[Curator | RemoteCurator]:
    """A dataset of which little is known, in the name of ben, who may spend a thousandth of its budget."""
    with open_curator(request, "other", "ben") as curator:
        yield curator


def test_an_answer_has_values_intervals_and_where_it_came_from(stays):
    answer = stays.ask("SELECT ward, count(*) AS n, avg(age) FROM stays GROUP BY ward", within={"n": 60, "avg": 6})
    assert answer.columns == ("ward", "n", "avg")
    assert answer.estimated == (False, True, True)
    assert [row.keys for row in answer.rows] == [("east",), ("west",), ("<missing>",), ("<outside>",)]
    assert all(isinstance(row.cells[1].value, int) for row in answer.rows)
    assert all(row.cells[1].low < row.cells[1].value < row.cells[1].high for row in answer.rows)
    counts, averages = answer.accuracy
    assert (counts.column, averages.column) == ("n", "avg")
    assert 0 < counts.worst <= 60
    assert answer.confidence == 0.95
    assert answer.source == "measured"
    assert 0 < answer.price.share < Fraction(1, 100)
    assert isinstance(answer.price.share, Fraction)
    assert "noise" in answer.mechanism
    assert "gaussian-accuracy" in answer.theorem or "laplace-accuracy" in answer.theorem
    assert len(answer.receipt) == 64
    assert len(answer.head) == 64
    assert (answer.version, answer.stale, answer.about, answer.reused) == ("1", False, "", False)
    assert answer.question.text.startswith("SELECT ward")
    with pytest.raises(InvalidRequest, match="`value` is for one"):
        _ = answer.value


def test_a_statement_of_two_halves_is_answered_once_and_keeps_its_intervals(stays):
    text = (
        "WITH wards AS (SELECT ward, count(*) AS n FROM stays GROUP BY ward) "
        "SELECT ward, n, 100 * n / sum(n) OVER () AS share, lag(n) OVER (ORDER BY ward) AS before "
        "FROM wards ORDER BY ward"
    )
    quoted = stays.quote(text, within=80)
    answer = stays.ask(text, within=80, key="two halves", fresh=True)  # others may have asked what it follows from
    again = stays.ask(text, within=80, key="two halves", fresh=True)
    assert answer.columns == ("ward", "n", "share", "before")
    assert answer.estimated == (False, True, True, True)
    assert answer.approximate == (False, False, True, False)
    assert [row.cells[0] for row in answer.rows] == ["<outside>", "east", "west", None]
    assert answer.rows[0].cells[3] is None
    assert all(row.cells[2].low < row.cells[2].value < row.cells[2].high for row in answer.rows)
    assert quoted.price.share in {0, answer.price.share}
    assert again.rows == answer.rows
    assert answer.to_pandas()["share"].tolist() == [row.cells[2].value for row in answer.rows]
    assert RecordedAnswer.from_json(answer.to_json()).rows == answer.rows
    assert all(
        together.within > single.within
        for row, both in zip(answer.rows, answer.simultaneous().rows, strict=True)
        for single, together in zip(row.estimates, both.estimates, strict=True)
    )
    said = stays.ask(f"EXPLAIN {text}", within=80)
    assert said.price.share == 0
    assert said.columns == ("explain",)
    (recalled,) = stays.recall("two halves")
    assert recalled.rows == answer.rows


def test_an_answer_of_one_number_is_that_number(stays):
    answer = stays.ask("SELECT count(*) FROM stays WHERE age >= 65", within=50, fresh=True)
    assert answer.value.within <= 50
    assert abs(float(answer.value) - 350) < 200
    assert str(answer.value).endswith(" ± 50")


def test_an_answer_prints_and_draws_itself(stays):
    answer = stays.ask("SELECT ward, count(*) FROM stays GROUP BY ward", within=60)
    text = str(answer)
    assert text.splitlines()[0].split() == ["ward", "count"]
    assert "Each interval holds the exact value with probability 0.95 or more." in text
    assert repr(answer) == text
    page = answer._repr_html_()
    assert "<table" in page
    assert "<svg" in page
    assert [label.get_text() for label in answer.plot().get_yticklabels()][:2] == ["east", "west"]


def test_an_answer_becomes_a_frame_of_any_library(stays):
    answer = stays.ask("SELECT date_trunc('year', day) AS year, count(*) AS n FROM stays GROUP BY 1", within=60)
    pandas, polars, arrow = answer.to_pandas(), answer.to_polars(), answer.to_arrow()
    assert list(pandas.columns) == polars.columns == arrow.column_names == ["year", "n", "n_low", "n_high"]
    assert arrow["year"].to_pylist() == [dt.date(2024, 1, 1), dt.date(2025, 1, 1), None, None]
    assert str(arrow.schema.field("n").type) == "int64"
    assert pandas["n"].tolist() == polars["n"].to_list() == arrow["n"].to_pylist()
    assert answer.to_arrow(typed=False)["year"].to_pylist()[2:] == ["<missing>", "<outside>"]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("ward", ("east", "west", None, "<outside>")),
        ("urgent", (False, True, None, None)),
        ("age", (0, 18, 65, None, None)),
        ("stay", (0.0, 1.0, None, None)),
        ("CASE WHEN age < 18 THEN 1 WHEN urgent THEN 2.5 END", (1.0, 2.5, None)),
        ("CASE WHEN age < 18 THEN DATE '2024-01-01' ELSE DATE '2024-02-01' END", None),
    ],
)
def test_keys_have_the_types_of_programs(stays, key, values):
    answer = stays.ask(f"SELECT {key} AS k, count(*) FROM stays GROUP BY 1", within=60)  # noqa: S608
    keys = tuple(row.values[0] for row in answer.rows)
    if values is None:
        assert keys == (dt.date(2024, 1, 1), dt.date(2024, 2, 1))
    else:
        assert keys == values
        assert [type(value) for value in keys] == [type(value) for value in values]


def test_keys_that_are_not_shown_come_last(stays):
    answer = stays.ask("SELECT ward, count(*) FROM stays GROUP BY day, ward", within="50%")
    assert answer.rows[0].keys[0] == "east"
    assert answer.rows[0].values[1] == dt.date(2024, 1, 10) or answer.rows[0].values[1] == dt.date(2024, 1, 1)
    assert {len(row.keys) for row in answer.rows} == {2}


def test_a_quantile_of_days_is_a_day(stays):
    value = stays.ask("SELECT median(day) FROM stays", within=60).value
    assert isinstance(value.value, dt.date)
    assert value.low <= value.value <= value.high
    assert value.within >= 0


def test_a_sum_over_tenths_is_close_to_its_exact_interval(stays):
    value = stays.ask("SELECT sum(stay) FROM stays", within=300, fresh=True).value  # a sharper one may be known
    assert abs(float(value) - 2500) < 1_000
    assert math.isclose(value.within, 300, rel_tol=0.1)
    assert float(value.low) < float(value) < float(value.high)


def test_an_unknown_value_and_an_open_interval_come_through(stays):
    # Nobody is that old, and the interval of their number misses 0 in one of 10^9 runs: so often is the share bounded.
    answer = stays.ask(
        "SELECT 1.0 * count(*) / sum(CASE WHEN age > 109 THEN 1 ELSE 0 END) AS share FROM stays",
        within=50,
        confidence=1 - 1e-9,
    )
    [cell] = answer.rows[0].cells
    assert math.isinf(cell.within)
    assert json.loads(answer.to_json())["rows"][0][0]["high"] is None


def test_an_answer_is_read_back_from_its_json(stays):
    answer = stays.ask("SELECT ward, urgent, avg(stay) AS s, count(*) FROM stays GROUP BY ward, urgent", within="20%")
    again = RecordedAnswer.from_json(answer.to_json())
    assert str(again) == str(answer)
    assert again.to_json() == answer.to_json()
    assert again._repr_html_() == answer._repr_html_()
    assert again.to_arrow().equals(answer.to_arrow())


def test_rounded_answers_have_fewer_digits_and_no_negative_counts(stays):
    answer = stays.ask(
        "SELECT age, count(*), avg(stay) FROM stays WHERE age > 105 GROUP BY age", within="30%"
    ).rounded()
    counts = [row.cells[1] for row in answer.rows]
    assert all(cell.value >= 0 and cell.low >= 0 for cell in counts)


def test_a_question_that_was_answered_is_free(quiet):
    question = "SELECT urgent, count(*) FROM stays GROUP BY urgent"
    first = quiet.ask(question, within=40)
    before = quiet.budget.spent
    again = quiet.ask(question, within=40)
    assert (first.source, again.source) == ("measured", "replayed")
    assert again.price.share == 0
    assert again.price.epsilon == 0
    assert [row.cells for row in again.rows] == [row.cells for row in first.rows]
    assert quiet.budget.spent == before
    assert again.reused
    assert any("any_choice()" in warning for warning in again.warnings)


def test_an_analyst_without_enough_of_the_budget_is_refused_with_the_best_offer(quiet):
    with pytest.raises(BudgetExhausted) as refused:
        quiet.ask("SELECT count(*) FROM stays WHERE age = 78", epsilon=200, fresh=True)
    assert refused.value.charged is False
    assert refused.value.asked > refused.value.left > 0
    assert refused.value.best is not None
    assert refused.value.best in str(refused.value)
    ((argument, _),) = (item for one in refused.value.alternatives for item in one.items() if item[0] != "price")
    assert argument == "epsilon"
    offer = quiet.quote("SELECT count(*) FROM stays WHERE age = 78", epsilon=200)
    assert [one.keys() for one in offer.alternatives] == [{"epsilon", "price"}]


def test_a_key_is_charged_once(stays):
    question = "SELECT count(*) FROM stays WHERE beds = 2"
    first = stays.ask(question, within=30, fresh=True, key="beds")
    before = stays.budget.spent
    again = stays.ask(question, within=30, fresh=True, key="beds")
    assert again.value == first.value
    assert again.receipt == first.receipt
    assert stays.budget.spent == before
    with pytest.raises(KeyReused) as refused:
        stays.ask("SELECT count(*) FROM stays WHERE beds = 3", within=30, key="beds")
    assert not refused.value.charged


def test_fresh_noise_is_charged_again(stays):
    question = "SELECT count(*) FROM stays WHERE beds = 1"
    first = stays.ask(question, within=30)
    second = stays.ask(question, within=30, fresh=True)
    assert first.receipt != second.receipt
    assert second.price.share > 0


def test_other_intervals_hold_the_same_values(stays):
    answer = stays.ask("SELECT beds, count(*) FROM stays GROUP BY beds", within=40)
    before = stays.budget.spent
    together, any_choice, population = answer.simultaneous(), answer.any_choice(), answer.population
    assert [row.cells[1].value for row in together.rows] == [row.cells[1].value for row in answer.rows]
    for row, other in zip(answer.rows, any_choice.rows, strict=True):  # its value may be that of one release alone
        assert other.cells[1].low <= row.cells[1].value <= other.cells[1].high
    assert together.accuracy[0].worst > answer.accuracy[0].worst
    assert any_choice.accuracy[0].worst > together.accuracy[0].worst
    assert population.accuracy[0].worst > answer.accuracy[0].worst
    assert together.coverage.together
    assert any_choice.coverage.any_choice
    assert population.coverage.against.value == "population"
    assert "All intervals together hold" in str(together)
    assert "Whatever the question was chosen by" in str(any_choice)
    assert "the population's value" in str(population)
    assert stays.budget.spent == before


def test_other_intervals_keep_the_confidence(stays):
    answer = stays.ask("SELECT ward, count(*) FROM stays WHERE beds = 3 GROUP BY ward", within=60, confidence=0.99)
    assert answer.simultaneous().confidence == 0.99


def test_intervals_that_do_not_exist_are_refused(stays):
    answer = stays.ask("SELECT avg(age) FROM stays", within=5)
    with pytest.raises(InvalidRequest, match="any choice"):
        answer.any_choice()


def test_a_quote_is_the_price_and_spends_nothing(stays):
    question, before = "SELECT sum(age) FROM stays WHERE urgent", stays.budget.spent
    offer = stays.quote(question, within="5%")
    assert stays.budget.spent == before
    assert offer.affordable
    assert offer.question.text == question
    assert str(offer).splitlines()[0] == f"Offer: {question}"
    assert "<p" in offer._repr_html_()
    answer = stays.ask(question, within="5%", max_price=offer.price.share)
    assert answer.price == offer.price
    assert offer.accuracy[0].within >= answer.accuracy[0].worst * 0.99


def test_a_quote_of_an_average_says_that_it_is_foreseen(stays):
    offer = stays.quote("SELECT ward, avg(age) FROM stays GROUP BY ward", within=10)
    assert offer.foreseen
    assert "is a forecast" in str(offer)


def test_several_questions_are_quoted_together(stays):
    questions = ["SELECT count(*) FROM stays WHERE age < 20", "SELECT count(*) FROM stays WHERE age < 30"]
    assert stays.quote(questions, within=40).price.share > 0


def test_a_batch_is_charged_once_and_tells_its_progress(stays):
    questions = [f"SELECT count(*) FROM stays WHERE age < {age}" for age in (31, 41, 51, 61)]  # noqa: S608
    moved, before = list[tuple[int, int]](), stays.budget
    answers = stays.ask_many([*questions, questions[0]], within=5, progress=lambda done, of: moved.append((done, of)))
    after = stays.budget
    assert after.charges == before.charges + 1
    assert [answer.question.text for answer in answers] == [*questions, questions[0]]
    assert answers[0].value == answers[4].value
    assert moved[-1] == (4, 4)
    assert moved == sorted(moved)
    assert stays.ask_many([]) == ()


def test_answers_of_a_batch_have_other_intervals(stays):
    questions = [
        "SELECT ward, count(*) FROM stays WHERE age < 33 GROUP BY ward",
        "SELECT count(*) FROM stays WHERE age < 44",
    ]
    first, second = stays.ask_many(questions, within=60)
    together = first.simultaneous()
    assert together.question.text == questions[0]
    assert together.accuracy[0].worst > first.accuracy[0].worst
    assert [row.cells[1].value for row in together.rows] == [row.cells[1].value for row in first.rows]
    assert second.any_choice().value.value == second.value.value


def test_a_batch_under_a_key_is_charged_once(stays):
    questions = ["SELECT count(*) FROM stays WHERE age < 34", "SELECT count(*) FROM stays WHERE age < 35"]
    first = stays.ask_many(questions, within=60, fresh=True, key="two")
    before = stays.budget.spent
    assert [answer.value for answer in stays.ask_many(questions, within=60, fresh=True, key="two")] == [
        answer.value for answer in first
    ]
    assert stays.budget.spent == before


def test_what_was_bought_under_a_key_is_recalled(stays):
    answer = stays.ask("SELECT count(*) FROM stays WHERE age < 36", within=60, fresh=True, key="recalled")
    [again] = stays.recall("recalled")
    assert again.value == answer.value
    [surer] = stays.recall("recalled", confidence=0.999)
    assert surer.confidence == 0.999
    assert surer.value.within > answer.value.within
    assert stays.recall("never used") is None


def test_a_prepared_workload_is_free(stays):
    questions = [f"SELECT count(*) FROM stays WHERE beds = {beds} AND ward = 'west'" for beds in (1, 2, 3)]  # noqa: S608
    prepared = stays.prepare(questions, within=5)  # sharper than what follows from the other tests
    assert prepared.questions == 3
    assert prepared.price.share > 0
    assert str(prepared).startswith("Prepared 3 questions.")
    assert all(stays.ask(question, within=5).price.share == 0 for question in questions)


def test_a_choice_names_groups(stays):
    question = "SELECT urgent, count(*) FROM stays GROUP BY urgent"
    choice = stays.choose(question, epsilon=5, key="largest")
    assert choice.names == ("False",)
    assert choice.name == "False"
    assert choice.price.share > 0
    before = stays.budget.spent
    assert (
        stays.choose("SELECT urgent, count(*) FROM stays GROUP BY urgent", epsilon=5, key="largest").names
        == choice.names
    )
    assert stays.budget.spent == before


def test_a_watch_reports_what_is_above(stays):
    watch = stays.above(400, epsilon=20, alerts=2, questions=10, key="watch")
    assert watch.left == 2
    assert watch.threshold == 400
    assert watch.price.share > 0
    assert not watch.ask("SELECT count(*) FROM stays WHERE age < 3").above
    assert watch.ask("SELECT count(*) FROM stays WHERE age < 95").above
    assert watch.left == 1
    assert str(watch).startswith("Which counts are above 400")
    with pytest.raises(InvalidRequest):
        watch.ask("SELECT avg(age) FROM stays")
    assert watch.ask("SELECT count(*) FROM stays").above
    assert watch.left == 0
    with pytest.raises(Refused) as ended:
        watch.ask("SELECT count(*) FROM stays")
    assert ended.value.code == "halted"


def test_a_watch_takes_another_threshold_for_a_count_and_is_found_again_by_its_key(stays):
    numbers = {"epsilon": 20, "alerts": 20, "questions": 10, "key": "another watch"}
    watch = stays.above(400, **numbers)
    assert watch.ask("SELECT count(*) FROM stays", threshold=100).above
    assert not watch.ask("SELECT count(*) FROM stays", threshold=2_000).above
    before = stays.budget.spent
    again = stays.above(400, **numbers)
    assert 0 < again.left <= 19
    assert stays.budget.spent == before


def test_counts_by_weights_are_charged_once(stays):
    questions = [f"SELECT count(*) FROM stays WHERE beds = {beds} AND urgent" for beds in (1, 2, 3)]  # noqa: S608
    batch = stays.ask_by_weights(questions, epsilon=30, key="weighed")
    assert batch.columns == ("beds", "urgent")
    assert batch.price.share > 0
    assert 0 < batch.within < 1_000
    assert batch.confidence == 0.95
    assert all(abs(answer.count - 100) < batch.within + 50 for answer in batch.answers)
    assert str(batch.answers[0]).endswith(f"± {math.ceil(batch.within)}")
    before = stays.budget.spent
    again = stays.ask_by_weights(questions, epsilon=30, key="weighed")
    assert [answer.count for answer in again.answers] == pytest.approx([answer.count for answer in batch.answers])
    assert again.receipt == batch.receipt
    assert stays.budget.spent == before
    with pytest.raises(InvalidRequest):
        stays.ask_by_weights(["SELECT avg(age) FROM stays"], epsilon=1)


def test_a_dataset_describes_itself(stays):
    description = stays.describe()
    assert description.dataset == "contract"
    assert [column.name for column in description.columns] == ["ward", "urgent", "age", "beds", "stay", "day"]
    assert description.analyst == "eva"
    assert description.default.within == "5%"
    assert description.default.max_price == Fraction(1, 2)
    assert stays.schema.table == "stays"
    assert stays.schema.domain["age"].bins == (0, 18, 65, 110)
    assert stays.schema.domain["stay"].step == Fraction(1, 10)
    assert stays.schema.domain["beds"].otherwise == 1
    assert stays.schema.unit.size == 1_000
    assert description.meanings == {"stay": "Days in the ward"}
    assert "\nstay: Days in the ward\n" in str(description)
    assert stays.schema == description.schema
    assert str(description).startswith("Dataset contract, table stays, about 1,000 rows")
    assert "eva may spend" in str(description)
    assert "<table" in stays._repr_html_()
    assert "of contract" in repr(stays)
    assert "for eva" in repr(stays)


def test_the_budget_and_the_history_go_on(stays):
    before, charges = stays.budget, len(stays.history)
    stays.ask("SELECT count(*) FROM stays WHERE urgent AND age < 50", within=77)
    after = stays.budget
    assert after.spent > before.spent
    assert after.spent + after.left == 1
    assert after.total.epsilon == 1000
    last = stays.history[-1]
    assert len(stays.history) == charges + 1
    assert last.text == "SELECT count(*) FROM stays WHERE urgent AND age < 50"
    assert last.analyst == "eva"
    assert last.answered
    assert last.share > 0
    assert "urgent AND age < 50" in str(stays.history)


@pytest.mark.parametrize("question", ["SELECT nothing FROM stays", "SELECT", "DROP TABLE stays", ""])
def test_a_wrong_question_is_the_same_error(stays, question):
    before = stays.budget.spent
    with pytest.raises(InvalidRequest) as wrong:
        stays.ask(question)
    assert not wrong.value.charged
    assert str(wrong.value).endswith("Nothing was charged.")
    assert stays.budget.spent == before


@pytest.mark.parametrize(
    ("arguments", "family"),
    [
        ({"within": "much"}, InvalidRequest),
        ({"within": -3}, InvalidRequest),
        ({"within": {}}, InvalidRequest),
        ({"within": 5, "epsilon": 1}, InvalidRequest),
        ({"confidence": 1.5}, InvalidRequest),
        ({"epsilon": 0}, InvalidRequest),
        ({"max_price": "200%"}, InvalidRequest),
        ({"within": object()}, InvalidRequest),
        ({"within": 20, "fresh": True, "max_price": "0.0000001%"}, PriceAboveMaximum),
    ],
)
def test_wrong_arguments_are_the_same_family_of_errors(stays, arguments, family):
    before = stays.budget.spent
    with pytest.raises(family) as wrong:
        stays.ask("SELECT count(*) FROM stays WHERE age = 77", **arguments)
    assert wrong.value.charged is False
    assert stays.budget.spent == before


@pytest.fixture(scope="module", params=["local", "remote"])
def limited(request: pytest.FixtureRequest) -> Iterator[tuple[Curator | RemoteCurator, Path]]:
    """A dataset with a limit on questions, in the name of lea, and its file."""
    if request.param == "local":
        file = make_dataset(request.getfixturevalue("tmp_path_factory").mktemp("local"), "limited")
        with dodona.open(file, analyst="lea") as curator:
            yield curator, file
    else:
        server: Server = request.getfixturevalue("server")
        with dodona.connect(server.url, token=server.tokens["lea"]) as remote:
            yield remote, server.folder / "limited.toml"


def test_a_question_above_a_limit_is_approved_once(limited):
    curator, file = limited
    question, wishes = "SELECT count(*) FROM stays WHERE age = 79", {"epsilon": 200, "key": "above the limit"}
    with pytest.raises(Refused) as refused:
        curator.ask(question, **wishes)
    assert refused.value.charged is False
    wanted = curator.request_approval(question, **wishes)
    assert (wanted.state, wanted.analyst, wanted.text) == ("waiting", "lea", question)
    assert wanted.share > Fraction(1, 100)
    assert curator.request_approval(question, **wishes).id == wanted.id
    with pytest.raises(Refused):
        curator.ask(question, **wishes)
    with open_dataset_ledger(file) as ledger:
        ledger.decide(wanted.id, granted=True, by="grace")
    answer = curator.ask(question, **wishes)
    assert answer.price.share == wanted.share
    with pytest.raises(InvalidRequest, match="needs no approval"):
        curator.request_approval("SELECT count(*) FROM stays", epsilon=1, key="below the limit")


def test_several_questions_are_a_list(stays):
    with pytest.raises(InvalidRequest, match="a list"):
        stays.ask_many("SELECT count(*) FROM stays")
    with pytest.raises(InvalidRequest):
        stays.prepare([])
    with pytest.raises(InvalidRequest):
        stays.quote([])


def test_tolerances_may_be_in_the_order_of_the_columns(stays):
    answer = stays.ask("SELECT count(*), sum(age) FROM stays WHERE urgent", within=[50, 9_000])
    assert [column.worst <= limit for column, limit in zip(answer.accuracy, (50, 9_000), strict=True)] == [True, True]


def test_a_curator_that_was_closed_says_so(stays, server, tmp_path):
    if isinstance(stays, Curator):
        closed: Curator | RemoteCurator = dodona.open(make_dataset(tmp_path), analyst="eva")
    else:
        closed = dodona.connect(server.url, token=server.tokens["eva"], dataset="contract")
    with closed:
        pass
    assert "closed" in repr(closed)
    assert "closed" in closed._repr_html_()
    with pytest.raises(InvalidRequest, match="closed"):
        closed.ask("SELECT count(*) FROM stays")
