"""Connecting to a real server: which dataset, with which token, and the same calls as coroutines."""

import asyncio
import io
import signal
import threading
import time

import pytest
import rich.console

import dodona
from dodona.client import Retries
from dodona.client.problems import NotConnected
from dodona.errors import DodonaError, InvalidRequest, Refused
from dodona.ledger.errors import KeyReused
from tests.client.scene import Server, make_dataset, serve

WRONG = "wrong"
QUESTION = "SELECT ward, count(*) FROM stays WHERE age < 71 GROUP BY ward"


def test_the_only_dataset_need_not_be_named(server):
    with dodona.connect(server.url, token=server.tokens["ada"]) as stays:
        assert stays.dataset == "stays"


def test_one_of_several_datasets_must_be_named(server):
    with pytest.raises(InvalidRequest, match=r"write dataset= as one of other, stays"):
        dodona.connect(server.url, token=server.tokens["ben"])


def test_a_dataset_that_is_not_there_is_refused(server):
    with pytest.raises(DodonaError) as wrong:
        dodona.connect(server.url, token=server.tokens["ben"], dataset="nowhere")
    assert wrong.value.http_status in {403, 404}


def test_a_dataset_of_others_is_refused(server):
    with pytest.raises(Refused):
        dodona.connect(server.url, token=server.tokens["ada"], dataset="other")


@pytest.mark.parametrize("token", ["wrong", "dodona_" + "A" * 48])
def test_a_wrong_token_is_refused(server, token):
    with pytest.raises(Refused) as wrong:
        dodona.connect(server.url, token=token, dataset="stays")
    assert wrong.value.http_status == 401


def test_a_token_and_a_server_may_be_in_the_environment(server, monkeypatch):
    monkeypatch.setenv("DODONA_TOKEN", server.tokens["ada"])
    with dodona.connect(server.url) as stays:
        assert stays.describe().analyst == "ada"


def test_a_role_that_may_not_ask_is_refused(server):
    with (
        dodona.connect(server.url, token=server.tokens["iris"], dataset="stays") as stays,
        pytest.raises(Refused) as refused,
    ):
        stays.ask("SELECT count(*) FROM stays")
    assert refused.value.http_status == 403
    assert not refused.value.charged


def test_an_address_without_a_server_is_said_to_have_none(server):
    with pytest.raises(NotConnected, match="no connection"):
        dodona.connect("http://127.0.0.1:9", token=WRONG, dataset="stays", retries=Retries(attempts=2, first=0.01))
    with pytest.raises(DodonaError):
        dodona.connect(f"{server.url}/elsewhere", token=server.tokens["ada"], dataset="stays")


def test_a_question_that_is_no_text_is_refused_before_it_is_sent(server):
    with dodona.connect(server.url, token=server.tokens["ada"]) as stays:
        with pytest.raises(InvalidRequest, match="in SQL"):
            stays.ask(5)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="key"):
            stays.ask(QUESTION, key="tökén")
        with pytest.raises(InvalidRequest, match="key"):
            stays.ask(QUESTION, key="x" * 201)


def test_keys_belong_to_one_analyst(server):
    with dodona.connect(server.url, token=server.tokens["ada"]) as ada:
        bought = ada.ask("SELECT count(*) FROM stays WHERE age < 72", within=40, key="mine", fresh=True)
    with dodona.connect(server.url, token=server.tokens["ben"], dataset="stays") as ben:
        assert ben.recall("mine") is None
        other = ben.ask("SELECT count(*) FROM stays WHERE age < 72", within=40, key="mine", fresh=True)
    assert other.receipt != bought.receipt


def test_an_analyst_sees_of_others_charges_the_time_and_the_share_alone(server):
    with dodona.connect(server.url, token=server.tokens["ben"], dataset="stays") as ben:
        ben.ask("SELECT count(*) FROM stays WHERE age < 73", within=60, fresh=True)
    with dodona.connect(server.url, token=server.tokens["ada"]) as ada:
        history = ada.history
    last = history[-1]
    assert last.text == "(of another analyst)"
    assert last.analyst is None
    assert last.share > 0
    assert "73" not in str(history)


def test_a_bar_shows_the_progress_where_it_is_asked_for(server, monkeypatch):
    screen = io.StringIO()
    real = rich.console.Console
    monkeypatch.setattr("rich.console.Console", lambda **_: real(file=screen, force_terminal=True, width=80))
    with dodona.connect(server.url, token=server.tokens["ada"]) as stays:
        questions = [f"SELECT count(*) FROM stays WHERE age > {age}" for age in range(8)]  # noqa: S608
        stays.ask_many(questions, within=60, progress=True)
        assert "8 questions" in screen.getvalue()
        screen.truncate(0)
        stays.ask_many(questions, within=60, progress=False)
        stays.ask_many(questions, within=60)  # no terminal
        assert screen.getvalue().strip("\x00") == ""


def test_coroutines_do_what_calls_do(server):
    async def session() -> None:
        async with dodona.connect_async(server.url, token=server.tokens["ada"]) as stays:
            assert (await stays.schema()).table == "stays"
            answer = await stays.ask(QUESTION, within=60, key="async")
            assert [row.keys for row in answer.rows][:2] == [("east",), ("west",)]
            together, any_choice = await answer.simultaneous(), await answer.any_choice()
            assert answer.accuracy[0].worst < together.accuracy[0].worst < any_choice.accuracy[0].worst
            assert (await answer.population()).coverage.against.value == "population"
            before = (await stays.budget()).spent
            same = await asyncio.gather(*(stays.ask(QUESTION, within=60, key="async") for _ in range(5)))
            assert {str(one.rows) for one in same} == {str(answer.rows)}
            assert (await stays.budget()).spent == before
            moved = list[tuple[int, int]]()
            questions = ["SELECT count(*) FROM stays WHERE age < 74", "SELECT count(*) FROM stays WHERE age < 75"]
            first, second = await stays.ask_many(questions, within=60, progress=lambda *step: moved.append(step))
            assert moved[-1] == (2, 2)
            assert (await second.simultaneous()).value.value == second.value.value
            assert first.question.text == questions[0]
            assert (await stays.quote(QUESTION, within=60)).price.share == 0
            assert (await stays.history())[-1].analyst == "ada"
            assert (await stays.describe()).analyst == "ada"
            assert await stays.recall("never") is None
            with pytest.raises(KeyReused):
                await stays.ask("SELECT count(*) FROM stays WHERE age < 76", within=60, key="async")
            with pytest.raises(InvalidRequest):
                await stays.ask("SELECT nothing FROM stays")
        assert "closed" in repr(stays)
        with pytest.raises(InvalidRequest, match="closed"):
            await stays.budget()

    asyncio.run(session())


def test_a_wrong_token_is_refused_where_an_asynchronous_connection_begins(server):
    async def session() -> None:
        async with dodona.connect_async(server.url, token=WRONG):
            raise AssertionError

    with pytest.raises(Refused):
        asyncio.run(session())


def test_a_question_outlives_a_restart_of_the_front_and_is_charged_once(tmp_path):
    """The client asks while the server starts: it is asked again until there is an answer, under one key."""
    make_dataset(tmp_path)
    with serve(tmp_path) as running:
        with dodona.connect(running.url, token=running.tokens["ada"], retries=Retries(attempts=30)) as stays:
            before = stays.budget.charges
            killed = threading.Thread(target=_kill_parts, args=(running,))
            killed.start()
            answers = [stays.ask(QUESTION, within=60 + number, fresh=True) for number in range(10)]
            killed.join()
            assert stays.budget.charges == before + 10
        assert len({answer.receipt for answer in answers}) == 10


def _kill_parts(running: Server) -> None:
    """End the front and the core of a server without warning, one after the other, as a crash would."""
    import psutil

    time.sleep(0.2)
    for part in ("dodona.server.front", "dodona.server.core"):
        for child in psutil.Process(running.process.pid).children(recursive=False):
            if part in " ".join(child.cmdline()):
                child.send_signal(signal.SIGKILL)
                break
        time.sleep(0.5)
