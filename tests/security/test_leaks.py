"""What an attacker finds who looks everywhere but in the table: errors, words, objects, logs and the ledger."""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dodona.curator.curator import Curator
from dodona.errors import DodonaError
from dodona.trusted.source import Sealed, SourceFailed
from tests.security import scene
from tests.trusted.scene import Fixed

CANARY = "Zaphod Beeblebrox"
EXACT = 987_654_321_987
TEXTS = (
    "SELECT count(*) FROM stays",
    "SELECT sex, count(*), sum(stay) FROM stays GROUP BY sex",
    "SELECT avg(stay), median(age) FROM stays",
    "SELECT sum(1 / age) FROM stays",
    "SELECT sex FROM stays",
)
ROWS = [*scene.CROWD, (CANARY, CANARY, CANARY, CANARY, CANARY)]
ENGINES = pytest.mark.parametrize("engine", ["memory", "duckdb"])


@ENGINES
def test_no_word_of_a_row_is_in_answers_errors_reprs_the_history_or_the_ledger(
    engine: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    caplog.set_level(logging.DEBUG)
    asked = scene.of(ROWS, engine=engine)
    seen: list[object] = [asked, asked._dataset, asked._dataset.source, asked._dataset.ledger, asked.schema]
    for text in TEXTS:
        try:
            answer = asked.ask(text, epsilon=1)
            seen += [answer, answer.rows, answer.measured, answer.to_json(), str(answer), answer._repr_html_()]
        except DodonaError as error:
            seen += [error, error.args, error.__cause__, error.__context__]
    watch = asked.above(2, epsilon=1)
    choice = asked.choose("SELECT sex, count(*) FROM stays GROUP BY sex", epsilon=1, count=2)
    seen += [watch, watch.ask("SELECT count(*) FROM stays"), watch.alerts, choice, str(choice)]
    seen += [asked.history, str(asked.history), asked.budget, *asked._dataset.ledger.lines()]
    words = " ".join(map(repr, seen)) + caplog.text + "".join(capfd.readouterr())
    assert "Zaphod" not in words
    assert caplog.records == []


def reachable(thing: object, known: set[int]) -> Iterator[object]:
    """Everything that can be reached from an object by attributes, keys and items."""
    if id(thing) in known or isinstance(thing, type | str | bytes):
        return
    known.add(id(thing))
    yield thing
    inner: list[object] = []
    if isinstance(thing, dict):
        inner += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        inner += list(thing)
    names = {name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())} | {
        *getattr(thing, "__dict__", {})
    }
    inner += [getattr(thing, name, None) for name in names]
    for child in inner:
        yield from reachable(child, known)


def test_no_exact_value_is_reachable_from_an_answer_a_release_or_the_ledgers_lines():
    """Noise of scale 10^9 hits 0 once in 2·10^9 draws, which would be a false alarm."""
    asked = scene.curator(Fixed([EXACT]), scene.ledger(delta="0"))
    answer = asked.ask("SELECT count(*) FROM stays", epsilon="1e-9")
    _ = answer.rows, answer.population, answer.simultaneous(), answer.rounded()
    things = [answer, *asked._dataset.ledger.releases(), asked.history, asked.budget]
    objects = [item for thing in things for item in reachable(thing, set())]
    assert len(objects) > 50
    assert answer.value.value in objects
    assert EXACT not in objects
    assert not any(str(EXACT) in line.text for line in asked._dataset.ledger.lines())


def test_a_sealed_value_is_not_shown_copied_compared_counted_or_packed():
    sealed = Sealed([EXACT])
    assert f"{sealed!r} {sealed} {[sealed]}" == "<sealed> <sealed> [<sealed>]"
    for act in (
        lambda: pickle.dumps(sealed),
        lambda: copy.copy(sealed),
        lambda: copy.deepcopy(sealed),
        lambda: sealed == Sealed([EXACT]),
        lambda: hash(sealed),
        lambda: len(sealed),  # type: ignore[arg-type]
        lambda: list(sealed),  # type: ignore[call-overload]
        lambda: int(sealed),  # type: ignore[call-overload]
        lambda: vars(sealed),
    ):
        with pytest.raises(TypeError) as raised:
            act()
        assert str(EXACT) not in str(raised.value)


@ENGINES
def test_a_curator_is_not_packed_with_its_table(engine: str):
    with pytest.raises(TypeError):
        pickle.dumps(scene.of(ROWS, engine=engine))


@ENGINES
def test_a_table_that_is_gone_fails_in_constant_words_that_carry_nothing(engine: str):
    asked = scene.of(ROWS, engine=engine)
    asked._dataset.source.close()
    with pytest.raises(SourceFailed) as raised:
        asked.ask(TEXTS[1], epsilon=1)
    assert raised.value.__cause__ is raised.value.__context__ is None
    assert str(raised.value) == str(SourceFailed())


def test_a_watch_does_not_show_its_noise():
    watch = scene.of(ROWS).above(2, epsilon=1)
    shown = repr(watch) + repr(watch.alerts) + str(watch)
    assert "_shift" not in shown
    assert "noise" not in shown


def test_one_key_that_eight_threads_ask_with_is_one_charge_and_one_answer():
    asked = scene.of(ROWS)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: tuple(asked.ask(TEXTS[0], epsilon=1, key="k").measured.values), range(40)))
    assert len(set(answers)) == len(asked.history) == 1


def test_threads_never_share_a_release():
    """Two releases of scale 10^9 are equal once in 10^9 pairs."""
    asked = scene.of(ROWS, delta="0")
    measuring = Curator(asked._dataset, rungs=frozenset())
    with ThreadPoolExecutor(8) as pool:
        receipts = list(pool.map(lambda key: measuring.ask(TEXTS[0], epsilon="1e-9", key=str(key)).receipt, range(40)))
    kept = [release for _, release in asked._dataset.ledger.releases()]
    assert len(set(receipts)) == len({release.values for release in kept}) == 40
