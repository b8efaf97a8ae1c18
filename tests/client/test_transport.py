"""Retries, keys and server-sent events, with servers that fail as servers do."""

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from dodona.client import Retries
from dodona.client.calls import EVENTS, RemoteCall, read_json
from dodona.client.problems import NotConnected, StrangeReply
from dodona.client.transport import AsyncLink, EventReader, LineReader, Link
from dodona.errors import DodonaError, InvalidRequest, InvariantBroken, Refused, Unavailable
from dodona.ledger.errors import AnswerInterrupted, BudgetExhausted

Step = httpx.Response | type[Exception]
SPENDING = RemoteCall(method="POST", path="answers", read=read_json, body={"question": "?"}, key="k-1")
FREE = RemoteCall(method="POST", path="quotes", read=read_json, body={"question": "?"})
ONCE = RemoteCall(method="POST", path="watches/w/questions", read=read_json, body={"question": "?"}, repeatable=False)


def problem(code: str, status: int, *, charged: bool | None = False, **headers: str) -> httpx.Response:
    document = {"type": f"/errors/{code}", "title": code, "status": status, "detail": "It failed.", "charged": charged}
    return httpx.Response(
        status, json=document, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


class Script:
    """Answers requests with one step after the other, and keeps what it was sent and how long was waited."""

    def __init__(self, *steps: Step) -> None:
        self.steps, self.requests, self.waits = list(steps), list[httpx.Request](), list[float]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        step = self.steps.pop(0)
        if isinstance(step, httpx.Response):
            return step
        raise step("failed", request=request)

    def send(self, call: RemoteCall[object], retries: Retries | None = None) -> object:
        http = httpx.Client(transport=httpx.MockTransport(self), base_url="http://server/api/v1/")
        return Link(http, retries or Retries(), sleep=self.waits.append).send(call)


DONE = httpx.Response(200, json={"done": True})


@pytest.mark.parametrize(
    "failure",
    [
        httpx.ConnectError,
        httpx.ConnectTimeout,
        httpx.ReadError,
        httpx.WriteError,
        httpx.RemoteProtocolError,
        problem("unavailable", 503, retry_after="1"),
        problem("unavailable", 503),
        httpx.Response(502, text="<html>bad gateway</html>"),
        httpx.Response(504),
        problem("too-many-requests", 429, retry_after="2"),
        problem("answer-interrupted", 503, charged=True),
    ],
)
def test_what_may_pass_is_sent_again_under_the_same_key(failure):
    script = Script(failure, failure, DONE)
    assert script.send(SPENDING) == {"done": True}
    assert [request.headers["idempotency-key"] for request in script.requests] == ["k-1"] * 3
    assert len({request.content for request in script.requests}) == 1
    assert len(script.waits) == 2
    assert all(0 < wait <= 3 for wait in script.waits)


def test_waits_grow_are_spread_and_are_bounded():
    retries = Retries(attempts=9, first=1.0, longest=8.0)
    script = Script(*[httpx.ConnectError] * 8, DONE)
    script.send(SPENDING, retries)
    bounds = [1, 2, 4, 8, 8, 8, 8, 8]
    assert all(bound / 2 <= wait <= bound for wait, bound in zip(script.waits, bounds, strict=True))
    assert len({retries.wait(4) for _ in range(50)}) > 10  # of 1024 values; all alike has a chance below 1e-20


def test_a_server_says_how_long_to_wait():
    script = Script(problem("too-many-requests", 429, retry_after="7"), DONE)
    script.send(SPENDING)
    assert script.waits == [7.0]


def test_a_server_that_asks_for_a_long_wait_is_not_asked_again():
    script = Script(problem("too-many-attempts", 429, retry_after="3600"))
    with pytest.raises(Refused, match="It failed"):
        script.send(SPENDING)
    assert script.waits == []


def test_a_date_says_how_long_to_wait_too():
    script = Script(problem("too-many-requests", 429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), DONE)
    script.send(SPENDING, Retries(first=0.5))
    assert 0.25 <= script.waits[0] <= 0.5


def test_attempts_end_with_the_last_problem():
    script = Script(*[problem("ledger-busy", 503) for _ in range(3)])
    with pytest.raises(Unavailable, match="It failed") as ended:
        script.send(SPENDING, Retries(attempts=3))
    assert ended.value.code == "ledger-busy"
    assert ended.value.charged is False
    assert len(script.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 500, 501])
def test_what_will_not_pass_is_not_sent_again(status):
    script = Script(problem("any", status))
    with pytest.raises(DodonaError):
        script.send(SPENDING)
    assert len(script.requests) == 1


def test_a_question_that_took_too_long_is_not_sent_again():
    script = Script(problem("took-too-long", 503, retry_after="1"))
    with pytest.raises(Unavailable):
        script.send(SPENDING)
    assert len(script.requests) == 1


def test_a_lost_reply_leaves_open_whether_it_was_charged_and_names_the_key():
    with pytest.raises(NotConnected) as lost:
        Script(httpx.ReadError, httpx.ConnectError).send(SPENDING, Retries(attempts=2))
    assert lost.value.charged is None
    assert lost.value.key == "k-1"
    assert "key='k-1'" in str(lost.value)
    assert "not known" in str(lost.value)


def test_a_problem_after_a_lost_reply_says_itself_whether_it_was_charged():
    with pytest.raises(BudgetExhausted) as refused:
        Script(httpx.ReadError, problem("budget-exhausted", 403)).send(SPENDING)
    assert refused.value.charged is False


def test_a_server_that_was_never_reached_charged_nothing():
    with pytest.raises(NotConnected) as lost:
        Script(*[httpx.ConnectError] * 2).send(SPENDING, Retries(attempts=2))
    assert lost.value.charged is False
    assert str(lost.value).endswith("Nothing was charged.")


def test_a_call_that_spends_nothing_charged_nothing():
    with pytest.raises(NotConnected) as lost:
        Script(*[httpx.ReadError] * 2).send(FREE, Retries(attempts=2))
    assert lost.value.charged is False


def test_a_reply_that_takes_too_long_is_not_waited_for_again():
    script = Script(httpx.ReadTimeout)
    with pytest.raises(NotConnected, match="too long"):
        script.send(SPENDING)
    assert len(script.requests) == 1


def test_what_may_not_be_repeated_is_sent_again_only_if_it_never_arrived():
    assert Script(httpx.ConnectError, DONE).send(ONCE) == {"done": True}
    script = Script(httpx.ReadError, DONE)
    with pytest.raises(NotConnected):
        script.send(ONCE)
    assert len(script.requests) == 1


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (httpx.Response(200, text="<html>a portal</html>"), 200),
        (httpx.Response(200, text="\x00\xff"), 200),
        (httpx.Response(404, text="nothing here"), 404),
        (httpx.Response(400, json=["no", "problem"]), 400),
        (httpx.Response(403, json={"type": "/errors/x"}), 403),
        (httpx.Response(302, headers={"location": "https://elsewhere.example"}), 302),
    ],
)
def test_what_is_no_reply_of_a_server_is_said_to_be_none(reply, status):
    with pytest.raises(StrangeReply, match=f"status {status}"):
        Script(reply).send(FREE)


def test_an_address_that_redirects_does_not_get_the_token():
    script = Script(httpx.Response(307, headers={"location": "https://elsewhere.example/"}))
    with pytest.raises(StrangeReply):
        script.send(SPENDING)
    assert [request.url.host for request in script.requests] == ["server"]


# --- Errors by their codes. ---


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("budget-exhausted", 403, BudgetExhausted),
        ("answer-interrupted", 503, AnswerInterrupted),
        ("invalid-request", 400, InvalidRequest),
        ("refused", 403, Refused),
        ("of-the-future", 400, InvalidRequest),
        ("of-the-future", 404, InvalidRequest),
        ("of-the-future", 401, Refused),
        ("of-the-future", 403, Refused),
        ("of-the-future", 429, Refused),
        ("of-the-future", 500, InvariantBroken),
        ("of-the-future", 503, Unavailable),
    ],
)
def test_a_problem_is_the_error_of_its_code_or_of_its_family(code, status, kind):
    with pytest.raises(kind) as caught:
        Script(problem(code, status, charged=status == 503)).send(FREE, Retries(attempts=1))
    assert caught.value.code == code
    assert caught.value.charged is (status == 503)
    assert caught.value.message == "It failed."
    assert caught.value.exit_code == kind.exit_code


def test_a_problem_that_does_not_know_says_so():
    with pytest.raises(Unavailable) as caught:
        Script(problem("reply-lost", 503, charged=None)).send(SPENDING, Retries(attempts=1))
    assert caught.value.charged is None


def test_a_message_from_a_server_cannot_move_the_cursor():
    document = {"type": "/errors/refused", "status": 403, "detail": "\x1b[2Jgone", "charged": False}
    with pytest.raises(Refused) as caught:
        Script(httpx.Response(403, json=document)).send(FREE)
    assert "\x1b" not in str(caught.value)


# --- Server-sent events. ---


def stream(*events: str, close: bool = True) -> httpx.Response:
    del close
    return httpx.Response(200, headers={"content-type": f"{EVENTS}; charset=utf-8"}, text="".join(events))


PROGRESS = 'event: progress\ndata: {"done": 1, "of": 2}\n\n'
ANSWERS = 'event: answers\ndata: {"answers":\ndata:  [1, 2]}\n\n'


def follow(script: Script, retries: Retries | None = None) -> tuple[object, list[tuple[int, int]]]:
    moved = list[tuple[int, int]]()
    http = httpx.Client(transport=httpx.MockTransport(script), base_url="http://server/")
    link = Link(http, retries or Retries(), sleep=script.waits.append)
    return link.send(SPENDING, lambda done, of: moved.append((done, of))), moved


def test_a_stream_tells_its_progress_and_ends_with_the_answers():
    assert follow(Script(stream(": hello\n\n", PROGRESS, ANSWERS))) == ({"answers": [1, 2]}, [(1, 2)])


def test_a_stream_that_breaks_off_is_asked_for_again():
    script = Script(stream(PROGRESS), stream(PROGRESS, ANSWERS))
    assert follow(script) == ({"answers": [1, 2]}, [(1, 2), (1, 2)])
    assert [request.headers["idempotency-key"] for request in script.requests] == ["k-1", "k-1"]


def test_a_problem_at_the_end_of_a_stream_is_an_error():
    document = {"type": "/errors/budget-exhausted", "status": 403, "detail": "Too much.", "charged": False}
    with pytest.raises(BudgetExhausted, match="Too much"):
        follow(Script(stream(PROGRESS, f"event: problem\ndata: {json.dumps(document)}\n\n")))


def test_lines_end_at_line_feeds_alone():
    reader = LineReader()
    text = 'event: answers\r\ndata: "a\u2028b\x85c"\n\n'
    lines = [line for character in text for line in reader.take(character)]
    assert lines == ["event: answers", 'data: "a\u2028b\x85c"', ""]
    events = EventReader(None)
    for line in lines:
        events.line(line)
    assert events.last == ("answers", '"a\u2028b\x85c"'.encode())


# --- The asynchronous link decides the same. ---


def test_an_asynchronous_call_is_sent_again_under_the_same_key():
    script = Script(httpx.ReadError, problem("unavailable", 503), stream(PROGRESS, ANSWERS))
    moved = list[tuple[int, int]]()

    async def send() -> object:
        async with httpx.AsyncClient(transport=httpx.MockTransport(script), base_url="http://server/") as http:
            link = AsyncLink(http, Retries(first=0.001))
            return await link.send(SPENDING, lambda done, of: moved.append((done, of)))

    assert asyncio.run(send()) == {"answers": [1, 2]}
    assert moved == [(1, 2)]
    assert [request.headers["idempotency-key"] for request in script.requests] == ["k-1"] * 3


# --- A real connection that breaks. ---


@contextmanager
def breaking_server(reply: bytes, *, breaks: int) -> Iterator[tuple[str, list[bytes]]]:
    """Yield an address whose first connections are reset in the middle of the reply, and what was sent there."""
    received = list[bytes]()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)

        def serve() -> None:
            for number in range(breaks + 1):
                connection, _ = listening.accept()
                with connection:
                    received.append(_read_request(connection))
                    connection.sendall(reply if number == breaks else reply[: len(reply) // 2])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/", received
        thread.join(timeout=20)


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    header = re.search(rb"content-length: (\d+)", head.lower())
    while header is not None and len(body) < int(header.group(1)):
        body += connection.recv(65536)
    return head.lower() + b"\r\n\r\n" + body


def test_a_reply_that_breaks_off_is_fetched_again_under_the_same_key():
    body = json.dumps({"done": True}).encode()
    reply = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
    reply += b"content-length: %d\r\n\r\n" % len(body) + body
    sleep: Callable[[float], None] = lambda _: None  # noqa: E731  no waiting in a test
    with breaking_server(reply, breaks=2) as (url, received), httpx.Client(base_url=url, trust_env=False) as http:
        assert Link(http, Retries(), sleep=sleep).send(SPENDING) == {"done": True}
    assert len(received) == 3
    assert all(b"idempotency-key: k-1" in request for request in received)
    assert len({request.partition(b"\r\n\r\n")[2] for request in received}) == 1
