"""What a front gets from the core, act by act, over the real socket."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dodona
from dodona.server.acts import ACTS
from dodona.server.link import Caller, CoreLink
from tests.server.scene import Line, RunningCore, connected, document, make_dataset, running_core, wait_until

COUNT = "SELECT count(*) FROM stays"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    make_dataset(path, analysts={"ada": "1/2", "bob": "1/2"})
    make_dataset(path, "closing", analysts={"ada": "1"})
    make_dataset(
        path, "drafted", extra='[review]\nfrom_data = ["columns.stay.upper"]\nconfirmed_by = ""\n', ledger=False
    )
    (path / "broken.toml").write_text('dataset = "broken"\nformat = 1\n')
    return path


@pytest.fixture(scope="module")
def core(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCore]:
    with running_core(folder, tmp_path_factory.mktemp("core")) as running:
        yield running


def test_an_answer_is_measured_once_then_free_and_the_key_gives_it_again(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            first = await ada.call("ask", question=COUNT, key="once")
            again = await ada.call("ask", question=COUNT, key="once")
            other = await ada.as_caller("bob").call("ask", question=COUNT, key="of bob")
            recalled = await ada.call("recall", key="once")
        answers = [document(reply) for reply in (first, again, other, recalled)]
        assert [reply.status for reply in (first, again, other, recalled)] == [200] * 4
        assert [answer["source"] for answer in answers] == ["measured", "replayed", "replayed", "replayed"]
        assert len({json.dumps(answer["rows"]) for answer in answers}) == 1
        assert Fraction(first.headers["Dodona-Price"]) > 0
        assert {reply.headers["Dodona-Price"] for reply in (again, other, recalled)} == {"0"}
        assert {reply.headers["Dodona-Receipt"] for reply in (first, again, other, recalled)} == {answers[0]["receipt"]}

    asyncio.run(run())


def test_answers_come_as_json_csv_or_arrow(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            question = "SELECT sex, count(*) AS n FROM stays GROUP BY sex"
            as_json = await ada.call("ask", question=question, key="formats")
            as_csv = await ada.call("ask", "text/csv", question=question, key="formats")
            as_arrow = await ada.call("ask", "application/vnd.apache.arrow.stream", question=question, key="formats")
        values = [row[1]["value"] for row in document(as_json)["rows"]]
        table = pa.ipc.open_stream(as_arrow.body).read_all()
        lines = as_csv.body.decode().splitlines()
        assert as_csv.media_type.startswith("text/csv")
        assert lines[0] == "sex,n,n_low,n_high"
        assert [int(line.split(",")[1]) for line in lines[1:]] == values == table.column("n").to_pylist()

    asyncio.run(run())


def test_views_are_wider_and_a_view_that_is_missing_after_a_charge_says_so(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            question = "SELECT urgent, count(*) AS n FROM stays GROUP BY urgent"
            views = {
                view: document(await ada.call("ask", question=question, key="views", view=view))
                for view in ("single", "simultaneous", "population", "any_choice")
            }
            wrong = await ada.call("ask", question=question, key="views", view="upside-down")
            charged = await ada.call(
                "ask",
                question="SELECT median(age) AS m FROM stays WHERE urgent",
                key="no view",
                view="any_choice",
                max_price="20%",
            )
        worst = {view: answer["accuracy"][0]["worst"] for view, answer in views.items()}
        assert worst["single"] < worst["simultaneous"]
        assert worst["single"] < min(worst["population"], worst["any_choice"])
        assert wrong.status == 400
        assert charged.status == 400
        assert document(charged)["charged"] is True

    asyncio.run(run())


def test_a_batch_whose_view_is_missing_says_that_it_was_charged_and_a_rehearsal_that_nothing_was(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            free = "SELECT median(age) FROM stays WHERE stay > 3"
            await ada.call("ask", question=free, key="bought before", max_price="20%")
            new = "SELECT sex, count(*) FROM stays WHERE age > 3 AND stay > 7 GROUP BY sex"
            for name, questions in (("first", [free, new]), ("second", [new.replace("7", "8"), free])):
                batch = await ada.call("batch", questions=questions, key=f"{name} has no view", view="any_choice")
                assert (batch.status, document(batch)["charged"]) == (400, True)
                assert (await ada.call("recall", key=f"{name} has no view")).status == 200
            nothing = await ada.call("batch", questions=[free], key="free", view="any_choice")
            assert (nothing.status, document(nothing)["charged"]) == (400, False)
            made_up = await ada.call("rehearse", question=free, view="any_choice", epsilon="1")
            assert (made_up.status, document(made_up)["charged"]) == (400, False)

    asyncio.run(run())


def test_a_quote_spends_nothing_and_a_rehearsal_needs_no_budget(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            before = document(await ada.call("budget"))
            offer = document(await ada.call("quote", question="SELECT count(*) FROM stays WHERE age < 33"))
            several = document(await ada.call("quote", questions=[COUNT, "SELECT avg(age) FROM stays"], within="10%"))
            rehearsed = document(await ada.call("rehearse", question=COUNT, within="5%"))
            after = document(await ada.call("budget"))
        assert Fraction(offer["price"]["share"]) > 0
        assert Fraction(several["price"]["share"]) > 0
        assert rehearsed["rows"][0][0]["value"] > 0
        assert before["spent"] == after["spent"]
        assert before["head"] == after["head"]

    asyncio.run(run())


def test_a_batch_is_charged_once_and_tells_its_progress(core: RunningCore):
    async def run() -> None:
        moves: list[tuple[int, int]] = []
        async with connected(core.analysts) as ada:
            questions = [f"SELECT count(*) FROM stays WHERE age < {n}" for n in range(20, 30)]  # noqa: S608  questions
            before = document(await ada.call("budget"))["charges"]
            arguments = {"questions": questions, "within": "10%", "key": "batch"}
            reply = await ada.link.call(
                "batch",
                dataset="stays",
                caller=ada.caller,
                arguments=arguments,
                progress=lambda done, of: moves.append((done, of)),
            )
            again = await ada.call("batch", **arguments)
            recalled = await ada.call("recall", key="batch")
            after = document(await ada.call("budget"))["charges"]
        answers = document(reply)["answers"]
        assert [answer["question"] for answer in answers] == questions
        assert moves[-1] == (10, 10)
        assert after - before == 1
        assert [answer["rows"] for answer in document(again)["answers"]] == [answer["rows"] for answer in answers]
        assert recalled.status == 200

    asyncio.run(run())


def test_a_workload_is_prepared_and_a_choice_is_made_once(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            questions = [f"SELECT count(*) FROM stays WHERE stay >= {n}" for n in (3, 7, 30)]  # noqa: S608  questions
            prepared = document(await ada.call("prepare", questions=questions, within="10%", key="prepared"))
            free = document(await ada.call("ask", question=questions[1], within="10%", key="prepared one"))
            wanted = {"question": "SELECT sex, count(*) FROM stays GROUP BY sex", "epsilon": "0.5", "key": "chosen"}
            chosen = document(await ada.call("choose", **wanted))
            again = document(await ada.call("choose", **wanted))
        assert prepared["questions"] == 3
        assert Fraction(prepared["price"]["share"]) > 0
        assert free["price"]["share"] == "0"
        assert chosen["names"] == again["names"]
        assert again["price"]["share"] == "0"

    asyncio.run(run())


def test_a_watch_is_named_by_its_key_and_told_to_nobody_else(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            opened = await ada.call("watch_open", threshold=900, epsilon="1", alerts=3, key="watch")
            again = await ada.call("watch_open", threshold=900, epsilon="1", alerts=3, key="watch")
            above = document(
                await ada.call("watch_ask", key="watch", question="SELECT count(*) FROM stays WHERE age > 5")
            )
            below = document(
                await ada.call("watch_ask", key="watch", question="SELECT count(*) FROM stays WHERE age > 98")
            )
            state = document(await ada.call("watch", key="watch"))
            of_bob = await ada.as_caller("bob").call("watch", key="watch")
            no_count = await ada.call("watch_ask", key="watch", question="SELECT avg(age) FROM stays")
        assert (opened.status, again.status) == (201, 201)
        assert above["above"] is True
        assert below["above"] is False
        assert state["left"] == 2
        assert of_bob.status == 404
        assert (no_count.status, document(no_count)["charged"]) == (400, False)

    asyncio.run(run())


def test_weights_are_charged_once_and_a_repetition_returns_the_recorded_answers(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            wanted = {
                "questions": [
                    "SELECT count(*) FROM stays WHERE urgent",
                    "SELECT count(*) FROM stays WHERE sex = 'male'",
                ],
                "epsilon": "5",
                "max_price": "50%",
                "key": "weights",
            }
            before = document(await ada.call("budget"))["charges"]
            first = document(await ada.call("weights", **wanted))
            again = document(await ada.call("weights", **wanted))
            after = document(await ada.call("budget"))["charges"]
            other = await ada.call("weights", **(wanted | {"questions": wanted["questions"][:1]}))
        assert after - before == 1
        assert first["answers"] == again["answers"]
        assert again["price"]["share"] == "0"
        assert [abs(answer["value"] - 1000) < first["within"] + 100 for answer in first["answers"]] == [True, True]
        assert (other.status, document(other)["code"]) == (400, "key-reused")

    asyncio.run(run())


def test_a_synthetic_release_is_a_job_whose_rows_are_fetched_in_three_forms(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            wanted = {"ways": 2, "columns": ["sex", "urgent"], "share": "0.05", "method": "mwem", "key": "release"}
            begun = await ada.call("synthesize", **wanted)
            early = await ada.call("release_rows", key="release")

            async def done(*keys: str) -> bool:
                return all([document(await ada.call("release", key=key))["state"] == "done" for key in keys])

            await wait_until(lambda: done("release"), 60)
            charges = document(await ada.call("budget"))["charges"]
            again = await ada.call("synthesize", **wanted)
            csv = await ada.call("release_rows", "text/csv", key="release")
            parquet = await ada.call("release_rows", "application/vnd.apache.parquet", key="release")
            arrow = await ada.call("release_rows", "application/vnd.apache.arrow.stream", key="release")
            other = await ada.call("synthesize", **(wanted | {"share": "0.06"}))
            dear = await ada.call("synthesize", **(wanted | {"share": None, "epsilon": "90", "key": "dear"}))
            unknown = await ada.call("release", key="never")
            after = document(await ada.call("budget"))["charges"]
            words = {"columns": ["sex", "urgent"], "share": "0.01"}
            about = [
                await ada.call("synthesize", **words, **options, key=f"words {place}")
                for place, options in enumerate(({"workload": "2-way"}, {"target": "sex"}, {"workload": "two"}, {}))
            ]
            await wait_until(lambda: done("words 0", "words 1"), 60)  # or they would charge while other tests look
        assert begun.status == 202
        assert early.status in {200, 409}  # it may be done by then
        assert (again.status, after) == (200, charges)
        tables = [pa.ipc.open_stream(arrow.body).read_all(), pq.read_table(io.BytesIO(parquet.body))]
        assert tables[0].equals(tables[1])
        assert len(csv.body.decode().splitlines()) == tables[0].num_rows + 1
        assert (other.status, dear.status, unknown.status) == (400, 403, 404)
        assert [reply.status for reply in about] == [202, 202, 400, 400]
        assert "2-way" in document(about[2])["detail"]

    asyncio.run(run())


def test_an_analyst_sees_of_others_charges_the_time_and_the_share_and_an_auditor_sees_all(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            await ada.call("ask", question="SELECT count(*) FROM stays WHERE age = 41", key="seen", fresh=True)
            await ada.as_caller("bob").call(
                "ask", question="SELECT count(*) FROM stays WHERE age = 42", key="unseen", fresh=True
            )
            history = document(await ada.call("history", limit=1000))
            full = document(await ada.as_caller("eva", "auditor").call("history", limit=1000))
            pages, after = [], 0
            while True:
                page = document(await ada.as_caller("eva", "auditor").call("history", after=after, limit=2))
                pages += page["charges"]
                if page["next"] is None:
                    break
                after = page["next"]
            mine = document(await ada.call("budget"))
            theirs = document(await ada.as_caller("eva", "auditor").call("budget"))
        assert pages == full["charges"]
        assert {charge["analyst"] for charge in full["charges"]} >= {"ada", "bob"}
        for seen, everything in zip(history["charges"], full["charges"], strict=True):
            assert everything["key"] is None  # a key is for whoever chose it
            if everything["analyst"] == "ada":
                assert seen == everything | {"key": seen["key"]}
                assert seen["key"]
            else:
                assert seen == {k: everything[k] for k in ("number", "time", "share")}
        assert [analyst["name"] for analyst in mine["analysts"]] == ["ada"]
        assert [analyst["name"] for analyst in theirs["analysts"]] == ["ada", "bob"]

    asyncio.run(run())


def test_the_ledger_is_verified_and_its_head_is_that_of_the_file(core: RunningCore, folder: Path):
    async def run() -> tuple[dict[str, object], dict[str, object]]:
        async with connected(core.analysts, "eva", "auditor") as eva:
            return document(await eva.call("ledger")), document(await eva.call("verify"))

    head, verified = asyncio.run(run())
    with dodona.open(folder / "stays.toml", analyst="ada") as curator:
        assert curator.budget.head == head["head"] == verified["head"]
    assert verified["verified"] is True


def test_owners_act_on_their_own_socket_alone(core: RunningCore, folder: Path):
    async def run() -> None:
        async with (
            connected(core.analysts, "olga", "owner") as outside,
            connected(core.owners, "olga", "owner") as olga,
        ):
            closing = Line(olga.link, olga.caller, "closing")
            owners = [act for act, about in ACTS.items() if about.owners_only]
            refused = [await Line(outside.link, outside.caller, "closing").call(act) for act in owners]
            assert {reply.status for reply in refused} == {403}
            assert {document(reply)["code"] for reply in refused} == {"owners-only"}
            by_analyst = await closing.as_caller("ada").call("raise", epsilon="300")
            assert document(by_analyst)["code"] == "role-refused"
            assert document(await closing.call("raise", epsilon="300"))["epsilon"] == "300"
            admitted = document(await closing.call("admit", analyst="carl", share="1/4"))
            assert {analyst["name"]: analyst["share"] for analyst in admitted["analysts"]}["carl"] == "1/4"
            assert document(await closing.call("stop", analyst="carl"))["analysts"][1]["stopped"] is True
            checked = document(await closing.call("check"))
            assert checked["rows"] == 2000
            assert document(await closing.call("close"))["closed"] is True
            after = await closing.as_caller("ada").call("ask", question=COUNT, key="late")
            assert (after.status, document(after)["code"]) == (403, "not-permitted")
            drafted = Line(olga.link, olga.caller, "drafted")
            confirmed = document(await drafted.call("confirm"))
            assert [item["name"] for item in confirmed["confirmed"]] == ["columns.stay.upper"]

    asyncio.run(run())
    assert 'confirmed_by = "olga"' in (folder / "drafted.toml").read_text()


@pytest.mark.parametrize(
    ("act", "arguments", "status", "code"),
    [
        ("ask", {"question": COUNT}, 400, "key-missing"),
        ("ask", {"question": COUNT, "key": ""}, 400, "key-missing"),
        ("ask", {"question": COUNT, "key": "k" * 201}, 400, "key-missing"),
        ("ask", {"question": COUNT, "key": "a\x00b"}, 400, "key-missing"),
        ("ask", {"question": COUNT, "key": 7}, 400, "key-missing"),
        ("batch", {"questions": [COUNT]}, 400, "key-missing"),
        ("watch_open", {"threshold": 1, "epsilon": 1}, 400, "key-missing"),
        ("weights", {"questions": [COUNT], "epsilon": 1}, 400, "key-missing"),
        ("synthesize", {"ways": 1}, 400, "key-missing"),
        ("ask", {"question": 7, "key": "x"}, 400, "invalid-argument"),
        ("ask", {"key": "x"}, 400, "invalid-argument"),
        ("ask", {"question": COUNT, "key": "x", "analyst": "bob"}, 400, "bad-call"),
        ("ask", {"question": COUNT, "key": "x", "fresh": "yes"}, 400, "invalid-argument"),
        ("ask", {"question": COUNT, "key": "x", "within": {"n": None}}, 400, "invalid-argument"),
        ("ask", {"question": COUNT, "key": "x", "epsilon": "nan"}, 400, "invalid-argument"),
        ("ask", {"question": COUNT, "key": "x", "max_price": []}, 400, "invalid-argument"),
        ("ask", {"question": COUNT, "key": "x", "confidence": "high"}, 400, "invalid-argument"),
        ("batch", {"questions": "SELECT 1", "key": "x"}, 400, "invalid-argument"),
        ("history", {"after": -1}, 400, "invalid-argument"),
        ("history", {"limit": 10**9}, 400, "invalid-argument"),
        ("recall", {"key": "never bought"}, 404, "nothing-bought"),
        ("fly", {}, 404, "act-unknown"),
    ],
)
def test_a_wrong_call_is_refused_with_its_code_and_nothing_is_charged(
    core: RunningCore, act: str, arguments: dict[str, object], status: int, code: str
):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            before = document(await ada.call("budget"))["head"]
            reply = await ada.call(act, **arguments)
            assert (reply.status, document(reply)["code"]) == (status, code)
            assert reply.media_type == "application/problem+json"
            assert document(reply)["charged"] is False
            assert document(await ada.call("budget"))["head"] == before

    asyncio.run(run())


def test_who_may_not_sees_nothing_and_learns_no_reason_that_is_not_theirs(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            stranger = ada.as_caller("zoe")
            for act in ("describe", "budget", "history", "ledger", "quote", "ask"):
                reply = await stranger.call(act, **({"question": COUNT, "key": "z"} if act in {"ask", "quote"} else {}))
                assert (act, reply.status) == (act, 403)
            auditor = await ada.as_caller("eva", "auditor").call("ask", question=COUNT, key="z")
            assert document(auditor)["code"] == "role-refused"
            nobody = await ada.as_caller("").call("describe")
            assert document(nobody)["code"] == "bad-call"
            elsewhere = await Line(ada.link, ada.caller, "nowhere").call("describe")
            assert (elsewhere.status, document(elsewhere)["code"]) == (404, "dataset-unknown")
            broken = await Line(ada.link, ada.caller, "broken").call("describe")
            assert (broken.status, document(broken)["code"]) == (503, "dataset-unavailable")
            assert b"toml" not in broken.body

    asyncio.run(run())


def test_a_token_spends_no_more_at_once_than_its_cap_and_says_so(core: RunningCore):
    async def run() -> None:
        async with connected(core.analysts) as ada:
            capped = ada.as_caller("ada", max_price="0.0001%")
            question = {"question": "SELECT count(*) FROM stays WHERE age = 77", "within": 5, "max_price": "50%"}
            refused = await capped.call("ask", **question, key="capped")
            assert (refused.status, document(refused)["code"]) == (403, "token-cap")
            allowed = await ada.call("ask", **question, key="capped")
            assert allowed.status == 200

    asyncio.run(run())


def test_datasets_are_listed_and_described_for_those_who_may(core: RunningCore):
    async def run() -> None:
        link = await CoreLink.connect(core.analysts)
        reply = await link.call(
            "datasets", dataset=None, caller=Caller("ada", "analyst"), arguments={"only": ["stays"]}
        )
        everything = await link.call("datasets", dataset=None, caller=Caller("ada", "analyst"), arguments={})
        described = await link.call("describe", dataset="stays", caller=Caller("ada", "analyst", "1%"), arguments={})
        await link.close()
        assert [entry["dataset"] for entry in document(reply)["datasets"]] == ["stays"]
        assert [entry["dataset"] for entry in document(everything)["datasets"]] == [
            "broken",
            "closing",
            "drafted",
            "stays",
        ]
        description = document(described)
        assert [column["name"] for column in description["columns"]] == ["age", "sex", "stay", "urgent"]
        assert (description["role"], description["limits"]["max_price"]) == ("analyst", "1%")

    asyncio.run(run())
