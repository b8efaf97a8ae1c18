"""Shortlists: who reads only the releases that matter knows, answers and pays the same as who reads all of them."""

import json
import random
from hashlib import sha256
from pathlib import Path

import pytest

from dodona.curator.curator import Curator
from dodona.curator.request import Dataset
from dodona.curator.shared import SharedKnowledge
from dodona.engines.memory import MemorySource
from dodona.errors import DodonaError
from dodona.knowledge.knowledge import _MOST_SINGLE, Knowledge
from dodona.knowledge.releases import ReleasedBlocks
from dodona.knowledge.shortlist import Shortlist, read_shortlist
from dodona.ledger.entries import Receipt
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms, create_ledger_at, open_ledger
from dodona.privacy.additive_noise import Laplace
from dodona.privacy.budget import Budget
from dodona.privacy.events import LaplaceEvent
from dodona.privacy.measurement import Measurement
from dodona.schema.attributes import Boolean, Category, Integer
from dodona.schema.schema import Schema
from dodona.sql.compile import read_questions
from tests.curator.scene import DEFAULT

ROWS, EVERY, NEVER = 2_000, 5, 10**9
SCHEMA = Schema.of(
    "t",
    Category("a", ["x", "y"], otherwise="x"),
    Integer("b", 0, 39, otherwise=0),
    Boolean("c", otherwise=False),
    size=ROWS,
    neighbours="replace",
)
BUDGETS = {"renyi": Budget(60, "1e-9", "renyi"), "pure": Budget(900, 0, "pure")}
TEXTS = (
    "SELECT count(*) FROM t WHERE b >= {0} AND a = 'x'",
    "SELECT count(*) FROM t WHERE b < {0}",
    "SELECT count(*) FROM t WHERE b = {0} AND c",
    "SELECT sum(b) FROM t WHERE b > {0}",
    "SELECT sum(b) FROM t WHERE a = 'y'",
    "SELECT avg(b) FROM t WHERE b <= {0} AND NOT c",
    "SELECT sum(CASE WHEN c THEN b ELSE 0 END) FROM t WHERE b < {0}",
    "SELECT sum(CASE WHEN c THEN 1 ELSE 0 END), count(*) FROM t WHERE b < {0}",
    "SELECT a, count(*) FROM t GROUP BY a",
    "SELECT a, count(*) FROM t WHERE b < {0} GROUP BY a",
    "SELECT a, avg(b) FROM t GROUP BY a",
    "SELECT count(*) FROM t",
    "SELECT count(*), sum(b) FROM t WHERE c AND b > {0}",
)


def draw(seed: int, number: int) -> list[tuple[str, str]]:
    """Draw questions, each with a tolerance."""
    chance = random.Random(seed)  # noqa: S311  of made-up questions
    return [(chance.choice(TEXTS).format(chance.randrange(1, 39)), chance.choice(("4%", "9%"))) for _ in range(number)]


@pytest.fixture(params=list(BUDGETS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "t.ledger"
    datasets = {"t": SCHEMA.digest}
    create_ledger_at(
        path, LedgerTerms(datasets=datasets, neighbours=SCHEMA.unit.neighbours, budget=BUDGETS[request.param])
    )
    return path


def open_curator(place: Path, *, every: int) -> Curator:
    values = {
        "a": ["xy"[row % 2] for row in range(ROWS)],
        "b": [row % 40 for row in range(ROWS)],
        "c": [row % 3 == 0 for row in range(ROWS)],
    }
    ledger = open_ledger(place, dataset="t", schema=SCHEMA.digest, checkpoint_every=30)
    dataset = Dataset(name="t", schema=SCHEMA, source=MemorySource(SCHEMA, values), ledger=ledger, default=DEFAULT)
    return Curator(dataset, shared=SharedKnowledge(dataset, shortlist_every=every))


def ask(curator: Curator, asked: list[tuple[str, str]]) -> list[object]:
    """Ask everything and return what was told, or refused."""
    outcomes: list[object] = []
    for text, within in asked:
        try:
            answer = curator.ask(text, within=within)
            outcomes.append((answer.source, [[cell.value for cell in row.estimates] for row in answer.rows]))
        except DodonaError as refused:
            outcomes.append(refused.code)
    return outcomes


def shortlist_of(place: Path) -> Path:
    (path,) = place.parent.glob("*.shortlist")
    return path


def knowledge_of(releases: ReleasedBlocks) -> object:
    """What was read and learned."""
    return releases.seen, releases.draws, learned_by(releases.follow())


def learned_by(known: Knowledge) -> object:
    """Everything that was learned, apart from the counts that a model is fitted to."""
    asked = known.asked
    return (
        known.rows,
        known.residuals.version,
        len(known.residuals),
        [(table.classes, table.values.tolist(), table.noise, table.receipt) for table in known.tables],
        [(rent.pattern, rent.noise, rent.event, rent.blocks, rent.size, rent.times, rent.used) for rent in asked.rents],
        (asked.finest, asked.worst, asked.counted, asked.summed, asked.added),
        [*asked._open],
    )


def readers(ledger: Ledger, path: Path | None) -> ReleasedBlocks:
    how = {"dataset": "t", "version": "1", "rows": lambda: ROWS}
    return ReleasedBlocks(ledger, SCHEMA.domain, shortlist=path, every=EVERY, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(2))
def test_who_reads_a_shortlist_knows_and_finds_the_same(place: Path, seed: int) -> None:
    asked = draw(seed, 60)
    for part in (asked[:25], asked[25:40], asked[40:]):  # each begins with the shortlist of the one before
        with open_curator(place, every=EVERY) as curator:
            ask(curator, part)
    with open_curator(place, every=NEVER) as curator:
        ledger = curator.desk.dataset.ledger
        short, whole = readers(ledger, shortlist_of(place)), readers(ledger, None)
        assert knowledge_of(short) == knowledge_of(whole)
        assert short._short is not None
        assert 0 < len(short._needed) <= whole.seen
        for number, (text, _) in enumerate((*asked, *draw(seed + 100, 10))):
            query = read_questions(text, SCHEMA)[0].query
            assert short.recall(query) == whole.recall(query), text
            if number % 20 == 0:
                assert repr(short.follow_alone(query.blocks)) == repr(whole.follow_alone(query.blocks))
            combined, other = (reader.knowledge.combine(query.blocks[0], lambda _: True) for reader in (short, whole))
            assert (combined is None) == (other is None)
            assert combined is None or other is None or [*combined.values] == [*other.values]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_out_changes_nothing_but_how_often_a_rent_was_paid(seed: int) -> None:
    """The first thousands are all needed, as they are combined; then few are."""
    chance = random.Random(seed)  # noqa: S311  of made-up questions
    whole, short, needed = Knowledge(SCHEMA.domain), Knowledge(SCHEMA.domain), 0
    queries = {text: read_questions(text, SCHEMA)[0].query for text, _ in draw(seed, 400)}
    first = queries.setdefault("first", read_questions("SELECT count(*) FROM t WHERE b < 3", SCHEMA)[0].query)
    for number in range(_MOST_SINGLE + 1500):
        query = first if number < _MOST_SINGLE else chance.choice([*queries.values()])
        noise = Laplace(scale=chance.choice((20, 30)))
        measured = Measurement(query, (noise,) * len(query.blocks))
        event = LaplaceEvent(1, noise.scale, SCHEMA.unit.neighbours)
        receipt = Receipt(str(number), "t", None, None, str(number), "1", event)
        before = whole.changes
        whole.add(receipt, measured, (5,) * query.values)
        if whole.changes != before:
            short.add(receipt, measured, (5,) * query.values)
            needed += 1
    assert needed < _MOST_SINGLE + 700
    times = [rent.times for rent in whole.asked.rents]
    shortlist = Shortlist(seen=9, line=9, hash="", draws=(0, 0), needed=[1], rents=times, several={})
    assert shortlist.restore_rents(short)
    assert learned_by(short) == learned_by(whole)


def test_who_reads_a_shortlist_is_told_and_offered_the_same(place: Path) -> None:
    asked, others = draw(5, 30), draw(105, 8)
    with open_curator(place, every=EVERY) as curator:
        ask(curator, asked)
        curator.ask("SELECT count(*) FROM t WHERE b < 7", within=60, key="k")

    def seen(*, every: int) -> object:
        with open_curator(place, every=every) as curator:
            before, shared = curator.budget.spent, curator._ladder.shared
            again = [outcome for outcome in ask(curator, asked) if isinstance(outcome, tuple)]
            assert curator.budget.spent == before
            offers = [curator.quote(text, within=within) for text, within in others]
            answer = curator.ask("SELECT count(*) FROM t WHERE b < 7", within=60, key="k")
            shared.releases.expect(
                str(answer.receipt), curator._ladder.planner.plan((answer.question,), DEFAULT).measurement
            )
            assert (shared.releases._short is None) == (every == NEVER)
            return (
                again,
                [(offer.price, offer.source, offer.mechanism) for offer in offers],
                answer.value,
                shared.releases.draws,
            )

    short = seen(every=EVERY)
    shortlist_of(place).unlink()
    assert seen(every=NEVER) == short


def test_all_counts_are_there_for_the_model(place: Path) -> None:
    with open_curator(place, every=EVERY) as curator:
        ask(curator, draw(1, 30))
    with open_curator(place, every=NEVER) as curator:
        ledger = curator.desk.dataset.ledger
        short, whole = readers(ledger, shortlist_of(place)), readers(ledger, None)
        short.follow()
        short.read_all()
        assert short.follow().learned == whole.follow().learned
        assert knowledge_of(short) == knowledge_of(whole)


def altered(path: Path, **changed: object) -> None:
    """Write a shortlist that says something else, with the right digest."""
    text = json.dumps(json.loads(path.read_text().partition("\n")[2]) | changed)
    path.write_text(f"{sha256(text.encode()).hexdigest()}\n{text}")


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_text(path.read_text()[:-9]),
        lambda path: path.write_bytes(b"\xff"),
        lambda path: altered(path, hash="0" * 64),
        lambda path: altered(path, seen=10**6),
        lambda path: altered(path, needed=[]),
        lambda path: altered(path, needed=[10**9]),
        lambda path: altered(path, needed=[1, 2, 3]),
        lambda path: altered(path, rents=[]),
        lambda path: altered(path, several={"1": [-1]}),
        lambda path: altered(path, draws="ab"),
        lambda path: altered(path, more=1),
    ],
)
def test_a_shortlist_that_says_anything_else_is_not_used(place: Path, change) -> None:
    with open_curator(place, every=EVERY) as curator:
        ask(curator, draw(2, 25))
    path = shortlist_of(place)
    change(path)
    with open_curator(place, every=NEVER) as curator:
        ledger = curator.desk.dataset.ledger
        short, whole = readers(ledger, path), readers(ledger, None)
        assert knowledge_of(short) == knowledge_of(whole)
        assert short._short is None
        assert ledger.verify() == ledger.state()
    assert read_shortlist(path) is not None  # it was written again


def test_a_folder_that_cannot_be_written_to_only_costs_time(place: Path, tmp_path: Path) -> None:
    with open_curator(place, every=NEVER) as curator:
        ask(curator, draw(3, 12))
        reader = readers(curator.desk.dataset.ledger, tmp_path / "none" / "such.shortlist")
        assert reader.follow().combines
    assert [*place.parent.glob("*.shortlist")] == []


def test_a_shortlist_has_the_permissions_of_its_ledger(place: Path) -> None:
    with open_curator(place, every=EVERY) as curator:
        ask(curator, draw(4, 12))
    assert shortlist_of(place).stat().st_mode == place.stat().st_mode
