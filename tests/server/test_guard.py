"""The layer around the application, and what goes through it: bodies, errors, media types, the relay."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import redirect_stderr, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dodona.errors import DodonaError, InvalidRequest
from dodona.ledger.errors import LedgerBusy, LedgerUnavailable, LedgerUnreadable
from dodona.server import logs
from dodona.server.account_store import AccountsUnavailable
from dodona.server.acts import TookTooLong, TooManyRequests, WorkerLost
from dodona.server.guard import ClientLimits, Guard, Message, Note, Receive, Scope, Send, checked
from dodona.server.link import Caller, CoreUnreachable, Reply, problem_reply
from dodona.server.metrics import Metrics
from dodona.server.problems import InternalFault, ReplyLost, headers, problem
from dodona.server.relay import JSON, NotAuthenticated, Relay, _RelayedCall, negotiate
from dodona.server.sessions import Throttled

Sent = list[Message]


def play(app: Callable[..., Awaitable[None]], body: bytes = b"", **headers: str) -> Sent:
    """Send one request through the guard, and return the messages of its reply."""
    sent: Sent = []
    scope: Scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "scheme": "http",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }

    async def anyone(_: Scope, note: Note) -> None:
        note.account = "ada"

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(Guard(app, anyone, ClientLimits(), Metrics("test"), "test")(scope, receive, send))
    return sent


async def fails(*_: object) -> None:
    raise ValueError("SELECT secret FROM stays")


async def fails_halfway(_: Scope, __: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"half of", "more_body": True})
    raise ValueError


def test_a_bug_is_a_problem_with_a_constant_text_and_its_message_is_not_logged(capsys):
    start, body = play(fails)
    assert start["status"] == 500
    assert json.loads(body["body"])["type"] == "/errors/internal-fault"
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["fault", "request"]
    assert lines[0]["fault"] == "ValueError"
    assert "secret" not in json.dumps(lines)


def test_a_reply_that_breaks_off_is_cut_and_not_completed():
    with pytest.raises(ConnectionAbortedError):
        play(fails_halfway)


def test_whether_it_was_charged_is_null_where_the_front_cannot_know_it():
    assert json.loads(problem(ReplyLost()))["charged"] is None
    assert json.loads(problem(InternalFault()))["charged"] is None
    assert json.loads(problem(NotAuthenticated()))["charged"] is False


class Unreachable:
    """A link to a core that is not there."""

    async def call(self, _: str, **__: object) -> Reply:
        raise CoreUnreachable


@pytest.mark.parametrize(("act", "fault"), [("ask", ReplyLost), ("batch", ReplyLost), ("budget", CoreUnreachable)])
def test_a_core_that_is_not_there_leaves_open_what_a_spending_act_charged(act, fault):
    relay = Relay(Unreachable())  # type: ignore[arg-type]
    with pytest.raises(fault):
        asyncio.run(relay._reply(_RelayedCall(act, "stays", Caller("ada", "analyst"), {}), JSON))


@pytest.mark.parametrize("depth", [1, 2, 31, 32])
def test_bodies_may_be_nested_to_the_limit_and_no_deeper(depth):
    assert checked(b"[" * depth + b"]" * depth, depth=depth)
    with pytest.raises(InvalidRequest, match="deep"):
        checked(b"[" * (depth + 1) + b"]" * (depth + 1), depth=depth)


MEBIBYTE = (
    b"[" * 2**19 + b"]" * 2**19,
    b"[" * 2**20,
    b'{"":' * 2**18,
    b"[" + b"[]," * 349_000 + b"1]",
    b"[" + b'["",""],' * 131_000 + b"1]",
    (b"[" * 32 + b"]" * 32 + b",") * 16_000,
    b'"' * 2**20,
    b'\\"[' * 349_000,
)


@pytest.mark.parametrize("body", MEBIBYTE, ids=range(len(MEBIBYTE)))
def test_no_mebibyte_holds_up_all_others(body):
    """The check runs where everybody waits: in tens of milliseconds, where reading the JSON takes hundreds."""
    began = time.thread_time()
    with suppress(InvalidRequest):
        checked(body, depth=32)
    assert time.thread_time() - began < 0.5  # usual is a tenth, and a half for the slowest


VALUES = st.recursive(
    st.text(max_size=20) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy
@given(VALUES)
def test_depth_is_that_of_the_value_whatever_its_texts_hold(value):
    def depth(one: object) -> int:
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        return int(isinstance(one, dict | list)) + max(map(depth, inner), default=0)

    body = json.dumps(value).encode()
    assert checked(body, depth=depth(value)) == body
    if depth(value) > 0:
        with pytest.raises(InvalidRequest):
            checked(body, depth=depth(value) - 1)


@settings(deadline=None)
@given(st.binary(max_size=200).map(lambda noise: b'"[{\\' + noise), st.integers(1, 5))
def test_no_body_confuses_the_check(body, depth):
    try:
        checked(body, depth=depth)
    except InvalidRequest:
        return
    body.decode()


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/csv", "text/csv"),
        ("text/*", "text/csv"),
        ("text/csv;q=0.2, application/json;q=0.1", "text/csv"),
        ("application/json;q=0, */*", "text/csv"),
        ("text/html, */*;q=0.5", "application/json"),
        ("TEXT/CSV ; Q=1", "text/csv"),
    ],
)
def test_the_media_type_is_the_one_that_the_client_likes_best(accept, kind):
    assert negotiate(accept, ("application/json", "text/csv")) == kind


class Full:
    """A stream on a disk that is full."""

    def write(self, _: str) -> None:
        raise OSError(28, "No space left on device")


def test_a_log_that_cannot_be_written_keeps_nobody_from_an_answer():
    with redirect_stderr(Full()):  # type: ignore[type-var]
        start, _ = play(fails)
    assert start["status"] == 500


def test_a_connection_whose_body_was_not_read_is_closed():
    async def turns_away(*_: object) -> None:
        raise AssertionError

    start, _ = play(turns_away, b"x" * 2_000_000, content_length="2000000")
    assert start["status"] == 413
    assert (b"connection", b"close") in start["headers"]
    start, _ = play(fails, b"{}", content_length="2", content_type="application/json")
    assert (b"connection", b"close") not in start["headers"]


def test_libraries_log_without_their_arguments(capsys):
    import logging

    logs.set_up()
    logging.getLogger("uvicorn.error").warning("it said %s", "a secret")
    logging.getLogger("asyncio").info("not shown")
    (line,) = [json.loads(text) for text in capsys.readouterr().err.splitlines()]
    assert line["text"] == "it said %s"
    logging.getLogger().handlers = []


@pytest.mark.parametrize(
    ("fault", "seconds"),
    [
        (LedgerUnavailable(charged=True), "5"),
        (LedgerBusy(), "1"),
        (WorkerLost(charged=None), "1"),
        (LedgerUnavailable().with_charge(charged=None), "5"),
        (TooManyRequests(retry_after=5), "5"),
        (Throttled(7), "7"),
        (AccountsUnavailable(), "5"),
        (TookTooLong(), None),
        (LedgerUnreadable("it was altered"), None),
        (InternalFault(), None),
    ],
)
def test_an_error_says_when_to_try_again_just_if_that_may_help(fault: DodonaError, seconds: str | None) -> None:
    assert problem_reply(fault).headers.get("Retry-After") == seconds
    assert headers(fault).get("retry-after") == seconds
