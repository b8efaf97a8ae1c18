"""The cap on rows that a draft proposes: a private choice among public caps."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dodona
from dodona.cli.main import app
from dodona.dataset import DatasetFile, open_dataset_ledger
from dodona.dataset.guess import CAP_EPSILON, CAP_SCALE, CAPS, cap_event, cap_scores
from dodona.errors import InvalidArgument
from dodona.ledger import memory
from dodona.ledger.chart import compute_burndown
from dodona.ledger.entries import Created, entry_from_json
from dodona.ledger.errors import BudgetExhausted
from dodona.ledger.opening import LedgerTerms
from dodona.numbers import format_percent
from dodona.privacy.accountants import Spending
from dodona.privacy.budget import Analyst, Budget
from dodona.privacy.events import ExponentialEvent, LaplaceEvent
from dodona.schema.schema import Neighbours
from dodona.schema.toml import InvalidFile
from dodona.trusted.gate import draw_candidate


def scores(people: tuple[int, ...]) -> list[int]:
    """Scores of people by how many rows each has."""
    return cap_scores(sorted(Counter(people).items()))


def test_one_person_moves_no_score_by_more_than_is_paid_for() -> None:
    room = CAP_SCALE * CAP_EPSILON / 2
    assert room == 20
    for number in range(4):
        for people in itertools.combinations_with_replacement((1, 3, 9, 40, 500), number):
            before = scores(people)
            for rows in (1, 2, 9, 50, 10**6):
                for other in (before, scores((*people, 2)), scores((*people, 10**6))):
                    after = scores((*people, rows))
                    assert all(abs(a - b) <= room for a, b in zip(after, other, strict=True))


def test_the_cap_is_chosen_by_the_exponential_mechanism() -> None:
    """False alarm: below 1e-6, by a bound of 6 standard errors on each of 13 chances. Sample: 4,000 choices."""
    times, utilities = 4_000, scores((1,) * 800 + (4,) * 150 + (30,) * 50)
    chances = [math.exp(score / CAP_SCALE) / size for score, size in zip(utilities, CAPS, strict=True)]
    drawn = Counter(draw_candidate(utilities, CAPS, scale=CAP_SCALE) for _ in range(times))
    for place, chance in enumerate(chances):
        expected = chance / sum(chances)
        assert abs(drawn[place] / times - expected) < 6 * math.sqrt(expected * (1 - expected) / times) + 1 / times


def test_of_many_people_nearly_all_have_all_of_their_rows_counted() -> None:
    """False alarm: below 1e-8 for each of 50 choices, as the next best cap is 20,000 / 400 = 50 nats away."""
    utilities = scores((1,) * 60_000 + (5,) * 36_000 + (70,) * 4_000)
    assert {CAPS[draw_candidate(utilities, CAPS, scale=CAP_SCALE)] for _ in range(50)} <= {5, 6, 8, 10, 15, 20, 30, 50}


def test_the_law_that_is_drawn_loses_no_more_than_the_event_that_is_recorded_and_nearly_as_much() -> None:
    """The chances are those of the test above; losses of one person, added or replaced, span the event's ε at most."""

    def chances(people: tuple[int, ...]) -> list[float]:
        weights = [math.exp(score / CAP_SCALE) / size for score, size in zip(scores(people), CAPS, strict=True)]
        return [chance / sum(weights) for chance in weights]

    spans = list[float]()
    for crowd in ((), (1,) * 40, (1,) * 30 + (9,) * 2, (1,) * 10 + (200,) * 5):
        for gone, come in itertools.product(((), (1,), (7,), (10**6,)), repeat=2):
            before, after = chances((*crowd, *gone)), chances((*crowd, *come))
            losses = [math.log(a / b) for a, b in zip(after, before, strict=True)]
            spans.append(max(losses) - min(losses))
    (event,) = {cap_event(neighbours).epsilon for neighbours in Neighbours}
    assert event == CAP_EPSILON
    assert 0.9 * float(event) < max(spans) <= float(event) + 1e-12


def people(folder: Path, *further: str, output: str = "stays.toml") -> Path:
    """Return the draft of a table in which people have several rows, confirmed."""
    rows = "\n".join(f"{row // 3},{row % 90}" for row in range(3_000))
    (folder / "stays.csv").write_text(f"patient_id,age\n{rows}\n", encoding="utf-8")
    drawn = run("init", folder / "stays.csv", "--output", folder / output, *further)
    assert drawn.exit_code == 0, drawn.output
    assert run("confirm", folder / output, "--by", "Ada", "--yes").exit_code == 0
    return folder / output


def run(*arguments: str | Path):
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "250", "TERM": "dumb"})


def test_the_ledger_of_a_draft_begins_with_what_the_cap_cost(tmp_path: Path) -> None:
    path = people(tmp_path)
    assert DatasetFile.read(path).drafted == (CAP_EPSILON,)
    assert run("ledger", "create", path).exit_code == 0
    with open_dataset_ledger(path) as ledger:
        state, first = ledger.state(), entry_from_json(ledger.lines()[0].text, number=0)
        shared = ledger.share(cap_event(Neighbours.ADD_REMOVE))
        assert compute_burndown(ledger.lines()).whole == (float(1 - state.spent),)
        assert ledger.verify() == state
        assert ledger.left(analyst=None) == 1 - state.spent
    assert isinstance(first, Created)
    assert [event for _, event in first.earlier] == [ExponentialEvent(CAP_EPSILON, Neighbours.ADD_REMOVE)]
    assert state.spent == shared > 0
    assert state.charges == 0  # the schema may still change
    assert 0 < state.epsilon_spent <= 0.1 + 1e-9
    budget, shown = run("budget", path).output, run("ledger", "show", path).output
    assert f"spent             │ {format_percent(state.spent)};" in budget
    assert "spent before: the cap on rows, chosen for the draft" in shown


def test_a_cap_that_the_owner_names_costs_nothing(tmp_path: Path) -> None:
    path = people(tmp_path, "--id", "patient_id", "--rows", "3")
    assert DatasetFile.read(path).drafted == ()
    dodona.create_ledger(path)
    with open_dataset_ledger(path) as ledger:
        assert ledger.state().spent == 0


@pytest.mark.parametrize(("neighbours", "size"), [("add-remove", 320), ("replace", 6_300)])
def test_the_size_of_a_draft_is_that_of_the_rows_that_count(neighbours: str, size: int, tmp_path: Path) -> None:
    owners = [*range(300), *[0] * 6_000]  # 299 people with a row, and one with very many
    rows = [f"p{owner},{row % 7}" for row, owner in enumerate(owners)]
    (tmp_path / "visits.csv").write_text("\n".join(["patient,x", *rows]), encoding="utf-8")
    wishes = ("--id", "patient", "--rows", "20", "--neighbours", neighbours, "--output", tmp_path / "visits.toml")
    assert run("init", tmp_path / "visits.csv", *wishes).exit_code == 0
    assert f"size = {size:_} " in (tmp_path / "visits.toml").read_text(encoding="utf-8")


def test_a_further_draft_of_the_same_rows_in_the_folder_adds_up(tmp_path: Path) -> None:
    people(tmp_path)
    again = people(tmp_path, output="again.toml")
    assert DatasetFile.read(again).drafted == (CAP_EPSILON, CAP_EPSILON)
    named = people(tmp_path, "--id", "patient_id", "--rows", "3", output="named.toml")
    assert DatasetFile.read(named).drafted == (CAP_EPSILON, CAP_EPSILON)  # no further one was chosen
    dodona.create_ledger(again)
    with open_dataset_ledger(again) as ledger:
        once = ledger.share(cap_event(Neighbours.ADD_REMOVE))
        assert abs(ledger.state().spent - 2 * once) < Fraction(1, 10**6)
    (tmp_path / "other.csv").write_text((tmp_path / "stays.csv").read_text(), encoding="utf-8")
    assert run("init", tmp_path / "other.csv", "--output", tmp_path / "other.toml").exit_code == 0
    assert DatasetFile.draft(tmp_path / "other.toml").drafted == (CAP_EPSILON,)  # other rows, for all that is known


def test_analysts_share_what_the_draft_left(tmp_path: Path) -> None:
    path = people(tmp_path)
    path.write_text(path.read_text() + '[[analysts]]\nname = "ada"\nshare = "1/2"\n')
    dodona.create_ledger(path)
    with open_dataset_ledger(path) as ledger:
        (ada,) = ledger.state().analysts
        assert ada.spent == 0
        assert ledger.state().spent > 0
        assert ledger.left(analyst="ada") == Fraction(1, 2)


def test_a_draft_that_the_budget_cannot_pay_for_is_refused_before_anything_is_chosen(tmp_path: Path) -> None:
    people(tmp_path)
    done = run("init", tmp_path / "stays.csv", "--output", tmp_path / "small.toml", "--epsilon", "0.01")
    assert done.exit_code != 0
    assert "--rows" in done.output
    assert not (tmp_path / "small.toml").exists()


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("0.1", "budget.drafted is a number; write a list"),
        ('"0.1"', "budget.drafted is a text; write a list"),
        ('["0.1", "much"]', "budget.drafted[1] is no epsilon of a draft"),
        ('["-0.1"]', "budget.drafted[0] is no epsilon of a draft"),
        ('["0"]', "budget.drafted[0] is no epsilon of a draft"),
        ("[true]", "budget.drafted[0] is no epsilon of a draft"),
        ("[[0.1]]", "budget.drafted[0] is no epsilon of a draft"),
        ('["9000"]', "budget.drafted takes more than the whole budget"),
    ],
)
def test_what_is_no_list_of_numbers_is_told_with_its_line(tmp_path: Path, written: str, words: str) -> None:
    path = people(tmp_path)
    text = path.read_text()
    assert text.count('drafted = ["0.1"]') == 1
    path.write_text(text.replace('drafted = ["0.1"]', f"drafted = {written}"))
    line = next(
        number for number, content in enumerate(path.read_text().splitlines(), 1) if content.startswith("drafted")
    )
    with pytest.raises(InvalidFile) as caught:
        DatasetFile.read(path)
    (mistake,) = caught.value.mistakes
    assert words in mistake.message
    assert mistake.line == line


def terms(*events: ExponentialEvent | LaplaceEvent, epsilon: str = "1") -> LedgerTerms:
    return LedgerTerms(
        datasets={"stays": "its schema"},
        neighbours=Neighbours.ADD_REMOVE,
        budget=Budget(epsilon),
        analysts=(Analyst("ada"),),
        earlier=tuple(("before", event) for event in events),
    )


def test_what_was_spent_before_a_ledger_is_counted_like_any_event() -> None:
    half = LaplaceEvent(1, Fraction(2), Neighbours.ADD_REMOVE)
    ledger = memory.create_memory_ledger(terms(half))
    assert ledger.state().spent == Fraction(1, 2)
    assert ledger.state().total.filter().after(Spending(), half) is not None
    ledger.reserve(half, analyst="ada", key=None, purpose="question", version="1")
    with pytest.raises(BudgetExhausted):
        ledger.reserve(half, analyst="ada", key=None, purpose="question", version="1")
    assert ledger.verify().spent == 1


def test_more_than_the_budget_and_the_other_relation_make_no_ledger() -> None:
    half = LaplaceEvent(1, Fraction(2), Neighbours.ADD_REMOVE)
    with pytest.raises(BudgetExhausted):
        memory.create_memory_ledger(terms(half, half, half))
    with pytest.raises(InvalidArgument):
        memory.create_memory_ledger(terms(ExponentialEvent(Fraction(1, 10), Neighbours.REPLACE)))
