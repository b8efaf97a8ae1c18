"""Callers who ask the same thing at the same time share one measurement, whatever they ask for."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest

import dodona
from dodona import Boolean, Category, Schema
from dodona.curator.curator import Curator
from dodona.curator.ladder import derive, replay
from dodona.ledger import opening
from dodona.ledger.entries import Receipt
from dodona.ledger.ledger import Ledger
from dodona.ledger.opening import LedgerTerms
from dodona.privacy.budget import Budget
from dodona.query.query import Query
from dodona.sql.compile import compile_sql
from dodona.trusted.source import Sealed
from tests.curator.scene import DEFAULT, curator, ledger, schema
from tests.ledger.processes import Say, forked

OLD = "SELECT count(*) FROM stays WHERE age >= 65"
BY_SEX = "SELECT sex, count(*) FROM stays GROUP BY sex"
THREADS = 64
WAYS: dict[str, Callable[[Curator], object]] = {
    "one count": lambda asked: asked.ask(OLD, within=40).value.value,
    "groups": lambda asked: [row.cells[1] for row in asked.ask(BY_SEX, within=40).rows],
    "an average": lambda asked: asked.ask("SELECT avg(age) FROM stays", within=4).value.value,
    "several": lambda asked: [
        answer.value.value for answer in asked.ask_many([OLD, f"{OLD} AND emergency"], within=40)
    ],
    "a bundle": lambda asked: asked.prepare([OLD, f"{OLD} AND emergency"], within=40).questions,
    "a choice": lambda asked: asked.choose(BY_SEX, epsilon=1, count=2).names,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_sixty_four_threads_that_ask_one_new_thing_are_charged_once(way: Callable[[Curator], object]):
    kept = ledger()
    asked = curator(kept=kept)
    barrier = threading.Barrier(THREADS)

    def ask(_: int) -> str:
        barrier.wait(60)
        return repr(way(asked))

    with ThreadPoolExecutor(THREADS) as pool:
        answers = set(pool.map(ask, range(THREADS)))
    assert len(answers) == 1
    assert (kept.state().charges, kept.state().releases) == (1, 1)


def test_what_another_released_between_two_rungs_is_replayed_and_not_derived():
    kept = ledger()
    slow, quick = curator(kept=kept), curator(kept=kept)
    ladder = slow._ladder
    questions = tuple(map(compile_sql, (OLD, f"{OLD} AND emergency"), repeat(schema())))
    call = ladder.resolve(questions, replace(DEFAULT, within=40), None)
    replay(ladder, call)
    assert call.missing
    quick.ask_many([OLD, f"{OLD} AND emergency"], within=40)
    ladder.releases.follow()
    derive(ladder, call)
    assert [origin.source for origin in call.origins] == ["replayed", "replayed"]


def test_a_bundle_that_takes_most_of_what_is_left_is_one_charge_for_all_who_ask():
    """For those who plan after its charge it no longer fits: they wait for it, and do not buy the answer alone."""
    empty = pd.DataFrame({"place": pd.Series([], dtype=str), "old": pd.Series([], dtype=bool), "id": []})
    small = Schema.of("t", Category("place", ["here"]), Boolean("old", otherwise=False), size=1, id="id", rows=2)
    with pytest.warns(UserWarning, match="memory"):
        asked = dodona.open(empty, schema=small, budget=Budget("0.1", "1e-9", "renyi"))
    asked.ask("SELECT count(*) FROM t WHERE place = 'here'", within=413, confidence=0.9, max_price="100%")
    asked.ask("SELECT count(*) FROM t", epsilon="0.02", max_price="100%")
    before = len(asked.history)
    barrier = threading.Barrier(8)

    def ask(_: int) -> str:
        barrier.wait(60)
        text = "SELECT count(*) FROM t WHERE place = 'here' AND old"
        return asked.ask(text, within=413, confidence=0.9, max_price="100%").source

    with ThreadPoolExecutor(8) as pool:
        sources = sorted(pool.map(ask, range(8)))
    assert sources == 7 * ["derived"] + ["measured"]
    assert len(asked.history) == before + 1


def test_all_but_one_hear_it_for_nothing():
    kept = ledger()
    asked = curator(kept=kept)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: asked.ask(OLD, within=40), range(8)))
    assert sorted(answer.source for answer in answers) == ["measured"] + 7 * ["replayed"]
    assert sum(answer.price.share for answer in answers) == kept.state().spent


def test_curators_of_several_analysts_share_too():
    kept = ledger()
    several = [curator(kept=kept) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        values = {answer.value.value for answer in pool.map(lambda own: own.ask(OLD, within=40), several)}
    assert (len(values), kept.state().charges) == (1, 1)


def test_a_better_answer_is_measured_and_a_worse_one_is_not():
    kept = ledger()
    asked = curator(kept=kept)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda within: asked.ask(OLD, within=within), [40, 10] * 4))
    assert kept.state().charges <= 2
    for answer, within in zip(answers, [40, 10] * 4, strict=True):
        assert answer.value.high - answer.value.low <= 2 * within + 1


def test_what_a_failing_table_left_unused_is_used_by_the_next():
    kept = ledger()
    failing = curator(kept=kept, source=_Broken())
    with pytest.raises(Exception, match="The charge stands"):
        failing.ask(OLD, within=40)
    answer = curator(kept=kept).ask(OLD, within=40)
    assert (answer.source, answer.price.share) == ("measured", 0)
    assert kept.state().charges == 1


class _Broken:
    version = "1"

    def exact(self, query: Query) -> Sealed:
        raise OSError(query)

    def close(self) -> None:
        pass


class _Losing:
    """A ledger that loses a hold, as with its connection: before the receipt is used another caller has used it."""

    def __init__(self, behind: Ledger) -> None:
        self._behind, self._other = behind, curator(kept=behind)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever is behind it
        return getattr(self._behind, name)

    def redeem(self, receipt: Receipt) -> None:
        self._behind.let_go(receipt)
        assert self._other.ask(OLD, within=40).price.share == 0
        self._behind.redeem(receipt)


@pytest.mark.parametrize("key", [None, "mine"])
def test_a_receipt_that_another_has_taken_over_is_not_used_twice(key: str | None):
    kept = ledger()
    answer = curator(kept=cast("Ledger", _Losing(kept))).ask(OLD, within=40, key=key)
    assert answer.value.value == curator(kept=kept).ask(OLD, within=40).value.value
    assert (kept.state().charges, kept.state().releases) == (1, 1)


def test_locks_of_keys_are_forgotten():
    asked = curator()
    for number in range(50):
        asked.ask(OLD, within=40, key=f"{number}")
    assert len(asked._keys) == 0


def _ask(path: Path, gate: int, opener: int, say: Say) -> None:
    os.close(opener)
    asked = curator(kept=opening.open_ledger(path))
    say("ready")
    os.read(gate, 1)
    with ThreadPoolExecutor(4) as pool:
        for answer in pool.map(lambda _: asked.ask(OLD, within=40), range(4)):
            say(f"{answer.value.value} {answer.price.share}")


def test_processes_that_ask_one_new_thing_are_charged_once(tmp_path: Path):
    path, declared = tmp_path / "stays.ledger", schema()
    terms = LedgerTerms(
        datasets={"stays": declared.digest}, neighbours=declared.unit.neighbours, budget=Budget(100, "1e-6", "renyi")
    )
    opening.create_file_ledger(path, terms)
    gate, opener = os.pipe()
    children = [forked(partial(_ask, path, gate, opener)) for _ in range(3)]
    for child in children:
        child.first_word()
    os.close(gate)
    os.close(opener)
    answers = [word.split() for child in children for word in child.finish()]
    assert len(answers) == 12
    assert len({value for value, _ in answers}) == 1
    with opening.open_ledger(path) as kept:
        assert kept.verify().charges == 1
        assert sum(Fraction(share) for _, share in answers) == kept.state().spent
