"""A session over a real sidecar, in this process, with a core that only counts what it is asked for."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from dodona.server.door import wire
from dodona.server.door.asking import Asker
from dodona.server.door.mirrors import Mirrors, prepare_when_ready
from dodona.server.door.session import Session
from dodona.server.door.sidecar import Sidecar, environment, make_sidecar
from dodona.server.door.wire import Stream, cells_of, columns_of, message, parse_message
from dodona.server.identity import Identity
from dodona.server.link import JSON, Caller, Reply
from dodona.server.metrics import Metrics

T = TypeVar("T")
ADA = Identity("ada", {"stays": "analyst"}, "token")
DESCRIPTION = {
    "dataset": "stays",
    "table": "stays",
    "columns": [
        {"name": "sex", "kind": "category", "labels": ["female", "it's \\ other"]},
        {"name": "age", "kind": "integer", "lower": 0, "upper": 110, "bins": [0, 50, 110]},
    ],
    "unit": {"id": None, "size": 3000},
}
ANSWER = {
    "columns": [{"name": "count", "kind": "estimate"}],
    "rows": [[{"value": 2999.6, "low": 2900.2, "high": 3100.7}]],
    "keys": [],
    "confidence": 0.95,
    "accuracy": [{"column": "count", "worst": 100.0}],
    "price": {"share": "0", "epsilon": 0.0},
    "source": "measured",
    "warnings": [],
}


@dataclass
class CountingCore:
    """Answers every question alike, and remembers what it was asked for."""

    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    async def call(self, act: str, *, dataset: str | None, caller: Caller, arguments: Mapping[str, Any]) -> Reply:
        del dataset, caller
        document: dict[str, Any] = {}
        match act:
            case "datasets":
                document = {"datasets": [{"dataset": "stays", "served": True}]}
            case "describe":
                document = DESCRIPTION
            case "ask":
                self.asked.append((act, arguments))
                document = ANSWER
            case "batch":
                self.asked.append((act, arguments))
                document = {"answers": [ANSWER for _ in arguments["questions"]]}
        return Reply(200, JSON, json.dumps(document).encode())

    @property
    def keys(self) -> list[str]:
        return [arguments["key"] for _, arguments in self.asked]


@pytest.fixture(scope="module")
def sidecar() -> Iterator[Sidecar]:
    sidecar = make_sidecar()
    rights = {} if sidecar.user is None else {"user": sidecar.user.pw_uid, "group": sidecar.user.pw_gid}
    process = subprocess.Popen(sidecar.command, env=environment(), stderr=subprocess.DEVNULL, **rights)
    yield sidecar
    process.terminate()
    process.wait(30)
    sidecar.remove()


@dataclass
class Client:
    """The other end of a session."""

    stream: Stream

    async def send(self, *messages: bytes) -> list[tuple[bytes, bytes]]:
        """Send messages, and return the replies up to the last ReadyForQuery that they lead to."""
        self.stream.put(b"".join(messages))
        await self.stream.flush()
        waiting = sum(request[:1] in {b"S", b"Q"} for request in messages)
        replies = []
        while waiting:
            replies.append(await self.stream.next())
            waiting -= replies[-1][0] == b"Z"
        return replies


def with_session(sidecar: Sidecar, core: CountingCore, work: Callable[[Client], Awaitable[T]]) -> T:
    """Do something as a client of a session."""

    async def run() -> T:
        mirrors = Mirrors(sidecar.socket, core, key=b"always the same")  # type: ignore[arg-type]
        await prepare_when_ready(mirrors)
        dataset, knowledge = await mirrors.open("stays", ADA)
        backend, _ = await mirrors.connect(ADA, dataset, {})
        ends = socket.socketpair()
        (reader, writer), theirs = [await asyncio.open_connection(sock=end) for end in ends]
        asker = Asker(core, dataset, Metrics("sql"))  # type: ignore[arg-type]
        session = Session(Stream(reader, writer), backend, ADA, asker, knowledge, set(), 60.0)
        task = asyncio.create_task(session.run())
        client = Client(Stream(*theirs))
        try:
            async with asyncio.timeout(60):
                return await work(client)
        finally:
            client.stream.put(wire.TERMINATE)
            await client.stream.flush()
            await task
            backend.close()
            writer.close()
            theirs[1].close()

    return asyncio.run(run())


def query(text: str) -> bytes:
    return message(b"Q", wire.text_of(text))


def bind(portal: bytes = b"", statement: bytes = b"") -> bytes:
    return message(b"B", portal + b"\0" + statement + b"\0\0\0\0\0\0\0")


def execute(portal: bytes = b"", rows: int = 0) -> bytes:
    return wire.execute_message(portal, rows)


COUNT = "SELECT count(*) AS n FROM stays WHERE age > 3"


def test_describing_a_statement_asks_nothing(sidecar: Sidecar) -> None:
    core = CountingCore()
    steps = (
        parse_message(b"a", COUNT),
        wire.describe_statement(b"a"),
        bind(b"p", b"a"),
        message(b"D", b"Pp\0"),
        wire.SYNC,
    )
    replies = with_session(sidecar, core, lambda client: client.send(*steps))
    assert [kind for kind, _ in replies] == [b"1", b"t", b"T", b"2", b"T", b"Z"]
    assert columns_of(replies[2][1]) == [("n", 20, -1)]
    assert core.asked == []


def test_a_portal_that_is_executed_twice_asks_once(sidecar: Sidecar) -> None:
    core = CountingCore()
    text = f"SELECT n, g FROM ({COUNT}) AS t CROSS JOIN generate_series(1, 3) AS g"  # noqa: S608
    steps = (parse_message(b"", text), bind(), execute(rows=1), execute(rows=1), execute(), wire.SYNC)
    replies = with_session(sidecar, core, lambda client: client.send(*steps))
    assert [cells_of(body) for kind, body in replies if kind == b"D"] == [["3000", "1"], ["3000", "2"], ["3000", "3"]]
    assert len(core.asked) == 1


def test_a_statement_that_is_sent_again_has_the_same_key_and_another_has_not(sidecar: Sidecar) -> None:
    core = CountingCore()
    texts = (
        COUNT,
        COUNT,
        f"{COUNT} ORDER BY 1",
        "SET dodona.within = '2%'",
        COUNT,
        "SET dodona.fresh = on",
        COUNT,
        COUNT,
    )
    with_session(sidecar, core, lambda client: client.send(*map(query, texts)))
    with_session(sidecar, core, lambda client: client.send(query(COUNT)))
    first, again, sorted_too, closer, fresh, fresher, elsewhere = core.keys
    assert first == again == sorted_too == elsewhere
    assert len({first, closer, fresh, fresher}) == 4


@pytest.mark.parametrize(
    "text",
    [
        "TABLE stays", "SELECT * FROM stays", "SELECT EXISTS (SELECT FROM stays)", "SELECT count(*) OVER () FROM stays",
        "COPY stays TO STDOUT", "SELECT age FROM stays LIMIT 1", "EXPLAIN ANALYZE SELECT * FROM stays",
        "SELECT ARRAY(SELECT age FROM stays)", "TABLE dodona.budget", "WITH w AS (TABLE stays) SELECT * FROM w",
    ],
)  # fmt: skip
def test_nothing_is_executed_over_the_mirror(sidecar: Sidecar, text) -> None:
    core = CountingCore()
    replies = with_session(sidecar, core, lambda client: client.send(query(text)))
    assert b"E" in [kind for kind, _ in replies]
    assert b"D" not in [kind for kind, _ in replies]
    assert core.asked == []


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * FROM ({COUNT}) AS t WHERE 1 = 0",  # noqa: S608
        f"{COUNT} LIMIT 0",
        "WITH c AS (SELECT count(*) AS n FROM stays) INSERT INTO stays (age) SELECT n FROM c",
        "SELECT count(*) INTO x FROM stays", "PREPARE p AS SELECT count(*) FROM stays",
        "SELECT count(nothing) FROM stays",
        "CREATE TABLE x AS SELECT count(*) FROM stays", "BEGIN; SELECT 1/0; COMMIT", "SELECT count(*) FROM stay",
    ],
)  # fmt: skip
def test_what_cannot_be_answered_or_has_no_rows_asks_nothing(sidecar: Sidecar, text) -> None:
    core = CountingCore()
    with_session(sidecar, core, lambda client: client.send(query(text)))
    assert core.asked == []


def test_several_questions_of_a_statement_are_one_call(sidecar: Sidecar) -> None:
    core = CountingCore()
    text = f"SELECT (SELECT count(*) FROM stays) - n FROM ({COUNT}) AS t"  # noqa: S608
    with_session(sidecar, core, lambda client: client.send(query(text)))
    ((act, arguments),) = core.asked
    assert act == "batch"
    assert arguments["questions"] == ["SELECT count(*) FROM stays", "SELECT count(*) FROM stays WHERE age > 3"]


def test_the_ends_of_an_interval_of_whole_numbers_are_rounded_outward(sidecar: Sidecar) -> None:
    core = CountingCore()
    text = "SELECT count(*) AS n, DP_INTERVAL_LOW(n), DP_INTERVAL_HIGH(n) FROM stays"
    replies = with_session(sidecar, core, lambda client: client.send(query(text)))
    assert [cells_of(body) for kind, body in replies if kind == b"D"] == [["3000", "2900", "3101"]]
