"""The SDK's own client over each transport: the same tools, the same words, the same charges."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

import dodona
from dodona.errors import Refused
from dodona.server.agents.guidance import NOTICE
from tests.server.agents.scene import COUNT, Agent, Person, over_http, over_stdio, price_of, scripted
from tests.server.scene import make_dataset
from tests.server.serving import Running, serving

Connect = Callable[..., AbstractAsyncContextManager[Agent]]
TOOLS = ["datasets", "describe", "quote", "ask", "budget", "history", "explain"]
WITHIN = 120
GROUPS = "SELECT sex, count(*) AS n FROM stays WHERE age >= {age} GROUP BY sex"


@pytest.fixture(params=["stdio here", "stdio to a server", "http", "http, older protocol"])
def door(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Connect]:
    """A way to a dataset, and its name for questions that no other way asked before."""
    way = request.param
    if way == "stdio here":
        file = str(make_dataset(tmp_path, epsilon="5"))
        options = (file, "--analyst", "ada", "--question", "2%", "--day", "60%", "--consent", "0.5%")
        return way, lambda person: over_stdio(*options, person=person)
    server: Running = request.getfixturevalue("server")
    if way == "stdio to a server":
        settings = {"DODONA_SERVER": server.analysts, "DODONA_TOKEN": server.tokens["ada"]}
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        options = ("--question", "2%", "--day", "60%", "--consent", "0.5%")
        return way, lambda person: over_stdio(*options, person=person, environment=settings | kept)
    protocol = "legacy" if "older" in way else "auto"
    return way, lambda person: over_http(server.analysts, server.tokens["ada"], person, protocol=protocol)


@scripted
async def test_an_agent_finds_its_way_from_the_datasets_to_an_answer(door: tuple[str, Connect]) -> None:
    way, connect = door
    person = Person()
    # A question of its own, as all ways but one lead to one dataset.
    asked = {"dataset": "stays", "question": GROUPS.format(age=10 + len(way))}
    async with connect(person) as agent:
        listed = (await agent.client.list_tools()).tools
        assert [tool.name for tool in listed] == TOOLS
        assert all(tool.output_schema and tool.description for tool in listed)
        assert [tool.name for tool in listed if not tool.annotations.read_only_hint] == ["ask"]

        (dataset,) = (await agent.call("datasets"))["data"]
        assert (dataset["dataset"], dataset["protects"]) == ("stays", "row")
        facts = await agent.call("describe", dataset="stays")
        assert [column["name"] for column in facts["data"]["columns"]] == ["age", "sex", "stay", "urgent"]
        assert facts["caps"] == {"question": "2%", "day": "60%", "consent": "0.5%"}

        quote = await agent.call("quote", **asked, within=WITHIN)
        assert quote["allowed"]
        assert quote["source"] == "measured"
        assert not quote["needs_consent"]
        answer = await agent.call("ask", **asked, within=WITHIN, max_price=quote["price"]["percent"])
        assert answer["price"]["share"] == quote["price"]["share"]
        assert answer["notice"] == NOTICE
        label, estimate = answer["data"]["rows"][0]
        assert label == "female"
        assert estimate["low"] <= estimate["value"] <= estimate["high"]
        assert estimate["high"] - estimate["value"] <= WITHIN
        again = await agent.call("ask", **asked, within=WITHIN, max_price=0, intervals="simultaneous", first_row=1)
        assert (again["source"], again["price"]["share"], again["first_row"]) == ("replayed", "0", 1)
        assert again["data"]["rows"][0][0] == "male"
        wide = again["data"]["rows"][0][1]
        assert wide["high"] - wide["low"] > estimate["high"] - estimate["low"]

        charges = (await agent.call("history", dataset="stays"))["data"]
        assert [charge["question"] for charge in charges].count(asked["question"]) == 1
        assert (await agent.call("budget", dataset="stays"))["left"] == again["left"]

        dear = await agent.call("quote", **asked, within=25)
        assert dear["needs_consent"]
        assert person.asked == []
        await agent.call("ask", **asked, within=25, max_price=dear["price"]["percent"])
        assert len(person.asked) == 1

        (schema,) = (await agent.client.read_resource("dodona://datasets/stays/schema")).contents
        assert json.loads(schema.text) == {"notice": NOTICE, "data": facts["data"]}
        prompt = await agent.client.get_prompt("explore", {"goal": "find it out", "dataset": "stays"})
        assert "quote" in prompt.messages[0].content.text
        assert set((await agent.call("explain", about="source"))["explanation"]) == {"source"}


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("ask", {"question": "SELECT count(*) FROM stays; SELECT count(*) FROM stays"}, "invalid-sql", "second statement"),
    ("ask", {"question": "SELECT * FROM stays"}, "invalid-sql", "rows are never shown"),
    ("ask", {"question": "DROP TABLE stays"}, "invalid-sql", "Only SELECT"),
    ("ask", {"question": "SELECT count(*) FROM stays", "max_price": "lots"}, "invalid-argument", "max_price"),
    ("ask", {"question": "SELECT count(*) FROM stays", "within": "-3"}, "invalid-argument", "within"),
    ("ask", {"question": "SELECT count(*) FROM stays", "max_prize": "1%"}, "invalid-request", "max_prize"),
    ("ask", {"question": "SELECT count(*) FROM stays", "max_price": None}, "invalid-request", "max_price"),
    ("quote", {"question": "SELECT count(*) FROM stays", "confidence": 2}, "invalid-request", "confidence"),
    ("history", {"limit": 0}, "invalid-request", "limit"),
    ("explain", {"about": "everything"}, "invalid-request", "about"),
]


@scripted
async def test_what_is_wrong_is_a_tool_error_that_says_so_and_charges_nothing(server: Running) -> None:
    async with over_http(server.analysts, server.tokens["ada"], Person()) as agent:
        before = await agent.call("budget", dataset="stays")
        for tool, arguments, code, words in BAD:
            given = {"dataset": "stays", "max_price": "1%"} if tool == "ask" else {"dataset": "stays"}
            if tool == "explain":
                given = {}
            refusal = await agent.refused(tool, **(given | arguments))
            assert (refusal["code"], words in refusal["detail"]) == (code, True), refusal
            assert "pydantic" not in refusal["detail"]
        unknown = await agent.refused("describe", dataset="nowhere")
        assert unknown["code"] == "role-missing"
        assert await agent.call("budget", dataset="stays") == before


@scripted
async def test_the_cap_of_a_token_holds_for_agents(server: Running) -> None:
    question = {"dataset": "stays", "question": "SELECT count(*) FROM stays WHERE age >= 77", "within": WITHIN}
    async with over_http(server.analysts, server.tokens["capped"], Person()) as agent:
        refusal = await agent.refused("ask", **question, max_price="2%")
    assert (refusal["code"], "0.01%" in refusal["detail"]) == ("agent-cap", True)


@scripted
async def test_the_day_of_an_account_is_one_over_all_doors(tmp_path: Path) -> None:
    price = price_of(make_dataset(tmp_path, epsilon="5"), COUNT.format(age=1), within=WITHIN)
    day = price * 7 / 2
    asked = {"dataset": "stays", "within": WITHIN, "max_price": "100%"}
    with serving(tmp_path, ("--agent-question", "1", "--agent-day", str(day), "--agent-consent", "1")) as server:
        token = server.tokens["ada"]
        settings = {"DODONA_SERVER": server.analysts, "DODONA_TOKEN": token}
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        caps = ("--question", "1", "--day", str(day), "--consent", "1")
        async with (
            over_http(server.analysts, token) as first,
            over_http(server.analysts, token) as other,
            over_stdio(*caps, environment=settings | kept) as third,
        ):
            calls = [agent.attempt("ask", **asked, question=COUNT.format(age=3 * age + place))
                     for age in range(1, 4) for place, agent in enumerate((first, other, third))]  # fmt: skip
            replies = await asyncio.gather(*calls)
        assert sum(answered for answered, _ in replies) == 3
        assert {reply["code"] for answered, reply in replies if not answered} <= {"agent-cap", "day-spent"}
        with dodona.connect(server.analysts, token=token, dataset="stays", max_day=day) as held:
            assert sum(charge.share for charge in held.history) == 3 * price
            with pytest.raises(Refused, match="today") as refused:
                held.ask(COUNT.format(age=50), within=WITHIN)
            assert (refused.value.code, refused.value.charged) == ("day-spent", False)
        with dodona.connect(server.analysts, token=token, dataset="stays") as free:
            assert free.ask(COUNT.format(age=50), within=WITHIN).price.share == price


def test_the_address_is_for_tokens_and_for_nothing_else(server: Running) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    with httpx.Client(base_url=server.analysts, headers=accept) as http:
        assert http.post("/mcp", json=message).status_code == 401
        assert http.post("/mcp", json=message, headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert http.post("/mcp/", json=message).status_code == 401
        allowed = {"Authorization": f"Bearer {server.tokens['ada']}"}
        assert http.get("/mcp", headers=allowed).status_code == 405
        assert http.post("/mcp", content=b"no json", headers=allowed).status_code == 415
        broken = http.post("/mcp", content=b"{", headers=allowed | {"Content-Type": "application/json"})
        assert broken.status_code == 400
    with httpx.Client(base_url=server.owners, headers=accept | allowed) as http:
        assert http.post("/mcp", json=message).status_code == 404


def test_the_log_names_the_tool_and_the_account_and_no_question(server: Running) -> None:
    lines = server.lines("request")
    assert ("mcp-ask", "ada") in {(line["act"], line.get("account")) for line in lines}
    assert "SELECT" not in server.log.read_text()


def test_a_server_without_the_sdk_says_what_to_install() -> None:
    script = (
        "import asyncio, sys; sys.modules['mcp'] = None\n"
        "from dodona.server.agents.http import AgentsDoor, AgentsMissing\n"
        "from dodona.server.agents.spending import AgentCaps\n"
        "try: asyncio.run(AgentsDoor(None, AgentCaps())._start())\n"
        "except AgentsMissing as missing: print(missing)\n"
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert "dodona[mcp]" in completed.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [((), "Write a dataset file"), (("stays.toml", "--day", "much"), "day"), (("nowhere.toml",), "nowhere.toml")],
)
def test_a_door_that_cannot_be_opened_says_why(options, words, tmp_path, monkeypatch) -> None:
    from typer.testing import CliRunner

    from dodona.cli.main import app

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("DODONA_SERVER", raising=False)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["mcp", *options])
    assert result.exit_code == 2
    assert words in result.stderr
