"""Connecting to a real server: which dataset, with which token, and the same calls as coroutines."""

import asyncio
import io
import os
import signal
import threading
import time

import psutil
import pyarrow.parquet as pq
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
    with pytest.raises(InvalidRequest, match=r"write dataset= as one of contract, limited, other, stays"):
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
            assert {str(repeated.rows) for repeated in same} == {str(answer.rows)}
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


def test_made_up_rows_are_free(server):
    with dodona.connect(server.url, token=server.tokens["ada"]) as stays:
        before = stays.budget
        answer = stays.rehearse(QUESTION, within=60)
        assert answer.columns == ("ward", "count")
        assert stays.budget == before


def test_a_synthetic_release_is_started_followed_and_fetched(server, tmp_path):
    with dodona.connect(server.url, token=server.tokens["ada"]) as stays:
        declared = {"ways": 1, "columns": ["ward", "urgent"], "share": "1%", "count": 50, "key": "made up"}
        release = stays.synthesize(**declared)
        state = release.wait(every=0.05)
        assert state.state == "done"
        assert state.progress == 1
        assert state.release["columns"] == ["ward", "urgent"]
        assert str(state).startswith("Release made up: done, 100%")
        table = pq.read_table(release.write(tmp_path / "rows.parquet"))
        assert table.num_rows == 50
        assert set(table.column_names) == {"ward", "urgent"}
        assert (release.write(tmp_path / "rows.csv")).read_text().count("\n") == 51
        with pytest.raises(InvalidRequest, match="ends in"):
            release.write(tmp_path / "rows.xlsx")
        with pytest.raises(FileExistsError):
            release.write(tmp_path / "rows.csv")
        before = stays.budget.spent
        assert stays.synthesize(**declared).wait(every=0.05) == state
        assert stays.release("made up").state == state
        assert stays.budget.spent == before
        with pytest.raises(KeyReused):
            stays.synthesize(**declared | {"share": "2%"})
        with pytest.raises(InvalidRequest, match="ways="):
            stays.synthesize(share="1%")


def test_a_release_that_does_not_fit_is_refused_where_it_is_started(server):
    with dodona.connect(server.url, token=server.tokens["ben"], dataset="stays") as stays, pytest.raises(Refused):
        stays.synthesize(ways=1, columns=["ward"], share="90%")


def test_coroutines_watch_choose_weigh_prepare_and_release(server, tmp_path):
    async def session() -> None:
        async with dodona.connect_async(server.url, token=server.tokens["ada"]) as stays:
            watch = await stays.above(400, epsilon=20, alerts=2, questions=10)
            assert (await watch.ask("SELECT count(*) FROM stays")).above
            assert watch.left == 1
            assert str(watch).startswith("Which counts are above 400")
            groups = "SELECT urgent, count(*) FROM stays GROUP BY urgent"
            assert (await stays.choose(groups, epsilon=5)).name == "False"
            counts = [f"SELECT count(*) FROM stays WHERE beds = {beds}" for beds in (1, 2)]  # noqa: S608
            assert len((await stays.ask_by_weights(counts, epsilon=30)).answers) == 2
            assert (await stays.prepare(counts, within=60)).questions == 2
            assert (await stays.rehearse(groups)).columns == ("urgent", "count")
            release = await stays.synthesize(ways=1, columns=["ward"], share="1%", key="async rows")
            assert (await release.wait(every=0.05)).state == "done"
            assert (await release.write(tmp_path / "rows.csv")).exists()
            assert (await (await stays.release("async rows")).state()).state == "done"
            assert await stays.read(groups) == groups

    asyncio.run(session())


def test_a_wrong_token_is_refused_where_an_asynchronous_connection_begins(server):
    async def session() -> None:
        async with dodona.connect_async(server.url, token=WRONG):
            raise AssertionError

    with pytest.raises(Refused):
        asyncio.run(session())


def test_questions_outlive_the_front_and_are_charged_once(tmp_path):
    """A front that is killed is started again; what was under way is asked again under its key."""
    make_dataset(tmp_path)
    with (
        serve(tmp_path) as running,
        dodona.connect(running.url, token=running.tokens["ada"], retries=Retries(attempts=12)) as stays,
    ):
        before, fronts = stays.budget.charges, _fronts(running)
        killing = threading.Thread(target=_kill, args=(fronts,))
        killing.start()
        receipts = list[str | None]()
        while killing.is_alive() or len(receipts) < 5:
            receipts.append(stays.ask(QUESTION, within=60, fresh=True).receipt)
        killing.join()
        assert _fronts(running) != fronts
        assert len(set(receipts)) == len(receipts)
        assert stays.budget.charges == before + len(receipts)


def _fronts(running: Server) -> list[int]:
    children = psutil.Process(running.process.pid).children()
    return sorted(child.pid for child in children if "dodona.server.front" in child.cmdline())


def _kill(fronts: list[int]) -> None:
    for pid in fronts:
        time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
