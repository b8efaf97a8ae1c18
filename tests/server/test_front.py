"""The HTTP door, through a real server: who may do what, what a reply carries, and what bad requests get."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx
import pyarrow as pa
import pytest

from dodona.server.accounts import Accounts
from dodona.server.doorkeeper import REMEMBERED_SECONDS
from tests.server.scene import make_dataset
from tests.server.serving import API, Running, serving, wait_until

QUESTION = "SELECT sex, count(*) FROM stays GROUP BY sex"
ANSWERS = "/datasets/stays/answers"
PROBLEM = "application/problem+json"
CLIENT_SECONDS = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("server")
    make_dataset(folder, "stays")
    make_dataset(folder, "visits")
    with serving(folder, ["--client-seconds", str(CLIENT_SECONDS)]) as running:
        yield running


def key(name: str) -> dict[str, str]:
    return {"Idempotency-Key": name}


def problem(reply: httpx.Response, status: int, code: str) -> dict[str, object]:
    """Assert that a reply is a problem of this kind that charged nothing."""
    assert (reply.status_code, reply.headers["content-type"]) == (status, PROBLEM), reply.text
    body: dict[str, object] = reply.json()
    assert (body["type"], body["status"], body["charged"]) == (f"/errors/{code}", status, False)
    return body


# --- Asking. ---


def test_an_answer_is_charged_once_however_often_it_is_asked_under_its_key(server):
    with server.client() as ada:
        first = ada.post(ANSWERS, json={"question": QUESTION, "within": 40}, headers=key("once"))
        again = ada.post(ANSWERS, json={"question": QUESTION, "within": 40}, headers=key("once"))
        recalled = ada.get(f"{ANSWERS}/once")
    assert first.status_code == 200
    assert first.headers["dodona-source"] == "measured"
    assert first.json()["rows"] == again.json()["rows"] == recalled.json()["rows"]
    charges = [line for line in history(server) if line["text"] == QUESTION]
    assert len(charges) == 1


def history(server: Running) -> list[dict[str, object]]:
    with server.client("grace") as owner:
        charges: list[dict[str, object]] = owner.get("/datasets/stays/history?limit=1000").json()["charges"]
    return charges


def test_an_answer_comes_as_json_csv_or_arrow(server):
    with server.client() as ada:
        body = {"question": QUESTION, "within": 40}
        replies = {
            kind: ada.post(ANSWERS, json=body, headers=key("kinds") | {"Accept": kind})
            for kind in ("application/json", "text/csv", "application/vnd.apache.arrow.stream")
        }
    values = [row[1]["value"] for row in replies["application/json"].json()["rows"]]
    assert replies["text/csv"].text.splitlines()[0] == "sex,count,count_low,count_high"
    assert [int(line.split(",")[1]) for line in replies["text/csv"].text.splitlines()[1:]] == values
    table = pa.ipc.open_stream(replies["application/vnd.apache.arrow.stream"].content).read_all()
    assert table.column("count").to_pylist() == values


def test_what_cannot_be_sent_is_not_acceptable(server):
    with server.client() as ada:
        problem(ada.get("/datasets", headers={"Accept": "image/png"}), 406, "not-acceptable")


def test_a_batch_tells_its_progress_and_then_its_answers(server):
    questions = [f"SELECT count(*) FROM stays WHERE age >= {age}" for age in (10, 20, 30)]  # noqa: S608
    body = {"questions": questions, "within": 60}
    with server.client() as ada:
        reply = ada.post("/datasets/stays/batches", json=body, headers=key("batch") | {"Accept": "text/event-stream"})
        plain = ada.post("/datasets/stays/batches", json=body, headers=key("batch"))
    assert reply.headers["content-type"].startswith("text/event-stream")
    events = [event.splitlines() for event in reply.text.split("\n\n") if event]
    names = [lines[0].removeprefix("event: ") for lines in events]
    assert names[-2:] == ["progress", "answers"]  # the core sends ten a second at most, and the last one
    assert set(names[:-1]) == {"progress"}
    assert json.loads(events[-2][1].removeprefix("data: ")) == {"done": 3, "of": 3}
    answers = json.loads(events[-1][1].removeprefix("data: "))["answers"]
    assert [answer["rows"] for answer in answers] == [answer["rows"] for answer in plain.json()["answers"]]


def test_a_batch_that_is_refused_at_once_is_a_problem_and_not_a_stream(server):
    with server.client() as ada:
        body = {"questions": ["SELECT nonsense"]}
        reply = ada.post(
            "/datasets/stays/batches", json=body, headers=key("bad batch") | {"Accept": "text/event-stream"}
        )
    problem(reply, 400, "invalid-sql")


def test_reading_is_free(server):
    before = len(history(server))
    with server.client() as ada:
        assert [entry["dataset"] for entry in ada.get("/datasets").json()["datasets"]] == ["stays"]
        columns = ada.get("/datasets/stays").json()["columns"]
        assert [column["name"] for column in columns] == ["age", "sex", "stay", "urgent"]
        assert "left" in ada.get("/datasets/stays/budget").json()
        assert ada.post("/datasets/stays/ledger/verification").json()["verified"] is True
        assert ada.get("/datasets/stays/ledger").json()["entries"] > 0
        quote = ada.post("/datasets/stays/quotes", json={"question": "SELECT avg(age) FROM stays", "within": 5}).json()
        assert quote["source"] == "measured"
    assert len(history(server)) == before


# --- Who may. ---


@pytest.mark.parametrize("token", ["x", "nonsense", "dodona_" + "0" * 49, "\xff", "a" * 10_000])
def test_a_wrong_token_is_not_authenticated(server, token):
    headers = {"Authorization": f"Bearer {token}".encode("latin-1")}
    with server.client(None) as nobody:
        reply = nobody.get("/datasets", headers=headers)
    assert reply.status_code in {401, 429}
    assert reply.headers["content-type"] == PROBLEM
    assert len(token) == 1 or token not in reply.text


def test_no_token_is_not_authenticated_and_the_body_is_not_read(server):
    with server.client(None) as nobody:
        reply = nobody.post(ANSWERS, content=b"\xff" * 1000, headers={"Content-Type": "application/json"})
    problem(reply, 401, "not-authenticated")
    assert reply.headers["www-authenticate"].startswith("Bearer")


def test_a_revoked_an_expired_and_a_stopped_token_are_refused_within_seconds(server):
    with Accounts.open(server.accounts) as accounts:
        accounts.add("carl")
        accounts.grant("carl", "stays", "analyst")
        revoked, short = (accounts.create_token("carl", name, lifetime=life) for name, life in
                          (("revoked", timedelta(days=1)), ("short", timedelta(seconds=5))))  # fmt: skip
        with server.client(None) as client:

            def status(token: str) -> int:
                return client.get("/me", headers={"Authorization": f"Bearer {token}"}).status_code

            assert status(revoked.text) == status(short.text) == 200
            accounts.revoke("carl", revoked.info.id)
            time.sleep(REMEMBERED_SECONDS + 0.2)
            assert status(revoked.text) in {401, 429}
            time.sleep(5)
            assert status(short.text) in {401, 429}
            last = accounts.create_token("carl", "last")
            assert status(last.text) == 200
            accounts.stop("carl")
            time.sleep(REMEMBERED_SECONDS + 0.2)
            assert status(last.text) in {401, 429}


def test_a_token_is_for_its_datasets_and_its_price_alone(server):
    with Accounts.open(server.accounts) as accounts:
        narrow = accounts.create_token("bob", "narrow", datasets=["visits"], max_price="0.0001%").text
    with server.client(
        None,
    ) as client:
        client.headers["Authorization"] = f"Bearer {narrow}"
        assert [entry["dataset"] for entry in client.get("/datasets").json()["datasets"]] == ["visits"]
        problem(client.get("/datasets/stays"), 403, "role-missing")
        body = {"question": "SELECT count(*) FROM stays WHERE age = 3", "within": 1}
        problem(client.post("/datasets/visits/answers", json=body, headers=key("dear")), 403, "token-cap")


def test_another_persons_dataset_reads_like_one_that_is_not_there(server):
    with server.client("ada") as ada:
        refusal = problem(ada.get("/datasets/visits"), 403, "role-missing")
        assert refusal == problem(ada.get("/datasets/nowhere"), 403, "role-missing")
        assert "yours are listed at /api/v1/datasets" in str(refusal["detail"])
    with server.client("grace") as owner:
        problem(owner.get("/datasets/nowhere"), 404, "dataset-unknown")


def test_another_persons_key_shows_nothing_and_is_a_key_of_ones_own(server):
    asked = {"question": "SELECT count(*) FROM stays WHERE age = 41", "within": 40}
    other = {"question": "SELECT count(*) FROM stays WHERE stay = 42", "within": 30}
    with server.client("ada") as ada, server.client("bob") as bob:
        hers = ada.post(ANSWERS, json=asked, headers=key("mine")).json()
        problem(bob.get(f"{ANSWERS}/mine"), 404, "nothing-bought")
        before = len(history(server))
        his = bob.post(ANSWERS, json=other, headers=key("mine"))
        assert (his.status_code, his.json()["question"]) == (200, other["question"])
        assert ada.get(f"{ANSWERS}/mine").json()["rows"] == hers["rows"]
    assert len(history(server)) == before + (his.headers["dodona-source"] == "measured")


def test_an_auditor_reads_and_does_not_ask(server):
    with server.client("eve") as auditor:
        assert auditor.get("/datasets/stays/history").status_code == 200
        problem(auditor.post(ANSWERS, json={"question": QUESTION}, headers=key("audit")), 403, "role-refused")


OWNERS_ACTS = [
    ("POST", "/datasets/stays/budget", {"epsilon": "200"}),
    ("POST", "/datasets/stays/close", None),
    ("PUT", "/datasets/stays/analysts/mallory", {"share": "1/2"}),
    ("DELETE", "/datasets/stays/analysts/ada", None),
    ("POST", "/datasets/stays/confirmation", None),
    ("POST", "/datasets/stays/checks", None),
    ("PUT", "/datasets/stays/limits", {"question": "1%"}),
    ("POST", "/datasets/stays/requests/1/decision", {"grant": True}),
    ("GET", "/accounts", None),
    ("POST", "/accounts", {"name": "mallory"}),
    ("DELETE", "/accounts/ada", None),
    ("PUT", "/accounts/ada/grants/stays", {"role": "owner"}),
    ("POST", "/accounts/grace/tokens", {"name": "stolen"}),
]


@pytest.mark.parametrize(("method", "path", "body"), OWNERS_ACTS)
def test_owners_acts_are_not_at_the_analysts_port_even_for_an_owner(server, method, path, body):
    with server.client("grace") as owner:
        reply = owner.request(method, path, json=body)
    assert reply.status_code in {403, 404, 405}
    assert reply.headers["content-type"] == PROBLEM


@pytest.mark.parametrize(("method", "path", "body"), OWNERS_ACTS)
def test_an_analyst_may_do_no_owners_act_at_the_owners_port(server, method, path, body):
    with server.client("ada", door="owners") as ada:
        reply = ada.request(method, path, json=body)
    assert reply.status_code in {403, 404}
    assert reply.headers["content-type"] == PROBLEM


def test_an_owner_manages_accounts_at_the_owners_port(server):
    with server.client("grace", door="owners") as owner:
        made = owner.post("/accounts", json={"name": "dora", "grants": {"stays": "analyst"}})
        assert (made.status_code, made.json()["grants"]) == (201, {"stays": "analyst"})
        token = owner.post("/accounts/dora/tokens", json={"name": "laptop", "days": 1, "max_price": "1%"}).json()
        with server.client(None) as dora:
            dora.headers["Authorization"] = f"Bearer {token['token']}"
            assert dora.get("/me").json() == {
                "account": "dora", "grants": {"stays": "analyst"}, "token": token["id"], "datasets": None,
                "max_price": "1%",
            }  # fmt: skip
            problem(dora.post("/me/tokens", json={"name": "further"}), 403, "token-forbidden")
            assert dora.delete(f"/me/tokens/{token['id']}").status_code == 204
        assert owner.put("/accounts/dora/grants/visits", json={"role": "auditor"}).status_code == 200
        assert owner.delete("/accounts/dora/grants/stays").status_code == 204
        assert owner.delete("/accounts/dora").status_code == 204
        shown = {account["name"]: account for account in owner.get("/accounts").json()["accounts"]}
    assert shown["dora"]["stopped"] is not None
    assert shown["dora"]["grants"] == {"visits": "auditor"}


def test_an_account_whose_password_is_refused_is_not_added(server):
    with server.client("grace", door="owners") as owner:
        asked = {"name": "zoe.ann.smith", "grants": {"stays": "analyst"}, "password": "Zoe.Ann.Smith"}
        problem(owner.post("/accounts", json=asked), 400, "password-refused")
        problem(owner.get("/accounts/zoe.ann.smith/tokens"), 404, "account-missing")
        assert owner.post("/accounts", json=asked | {"password": "several words are easy"}).status_code == 201


# --- Sessions of the page. ---


def test_a_session_opens_for_the_page_alone_and_not_for_other_sites(server):
    with Accounts.open(server.accounts) as accounts:
        accounts.set_password("bob", "correct horse battery")
    login = {"name": "bob", "password": "correct horse battery"}
    here = {"Sec-Fetch-Site": "same-origin"}
    with server.client(None) as browser:
        problem(browser.post("/session", json=login), 403, "cross-site")
        problem(browser.post("/session", json=login, headers={"Sec-Fetch-Site": "cross-site"}), 403, "cross-site")
        problem(browser.post("/session", json=login | {"password": "wrong"}, headers=here), 401, "not-authenticated")
        begun = browser.post("/session", json=login, headers=here)
        assert begun.status_code == 201
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(begun.headers["set-cookie"].split("; "))
        assert browser.get("/me").json()["account"] == "bob"
        asked = {"question": QUESTION, "within": 40}
        problem(browser.post(ANSWERS, json=asked, headers=key("forged")), 403, "cross-site")
        origin = {"Origin": server.analysts}
        assert browser.post(ANSWERS, json=asked, headers=key("from the page") | origin).status_code == 200
        assert browser.post("/me/tokens", json={"name": "laptop"}, headers=here).status_code == 201
        assert browser.delete("/session", headers=here).status_code == 204
        assert browser.get("/me").status_code == 401


# --- What every reply carries. ---


@pytest.mark.parametrize("path", ["/", "/page.js", "/nowhere", f"{API}/datasets", f"{API}/openapi.json"])
def test_every_reply_has_the_security_headers(server, path):
    reply = httpx.get(server.analysts + path)
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["referrer-policy"] == "no-referrer"
    policy = reply.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "strict-transport-security" not in reply.headers  # that is for TLS
    assert "server" not in reply.headers


def test_headers_of_a_proxy_are_not_believed_where_there_is_none(server):
    reply = httpx.get(server.analysts + "/", headers={"X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.1"})
    assert "strict-transport-security" not in reply.headers


@pytest.mark.parametrize("door", ["analysts", "owners"])
def test_both_ports_serve_the_page_packed_or_not_and_say_which_they_are(server, door):
    address = getattr(server, door)
    packed = httpx.get(address + "/page.js")
    plain = httpx.get(address + "/page.js", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.content == plain.content
    assert httpx.get(address + "/page.json").json()["door"] == door
    assert "## Statement" in httpx.get(address + "/theory/release.md").text
    assert httpx.get(address + "/theory/..%2F..%2Findex.md").status_code == 404
    assert httpx.get(address + "/theory/nothing.md").status_code == 404


def test_the_page_has_no_inline_script_or_style(server):
    page = httpx.get(server.analysts + "/").text
    assert '<script src="/page.js" defer></script>' in page
    assert page.count("<script") == 1
    assert not any(mark in page for mark in ("style=", "<style", "onclick", "onload", "javascript:", "http:", "https:"))


# --- Bad requests. ---


def send(server: Running, content: bytes, **headers: str) -> httpx.Response:
    with server.client() as ada:
        sent = key("bad") | {"Content-Type": "application/json"} | headers
        return ada.post(ANSWERS, content=content, headers=sent)


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 400, "invalid-request"),
        (b"{", 400, "invalid-request"),
        (b'{"question": "\xff"}', 400, "invalid-request"),
        (b'{"question": "\\ud800"}', 400, "invalid-request"),
        (b'{"question": 1}', 400, "invalid-request"),
        (b'{"question": "x", "witin": 1}', 400, "invalid-request"),
        (b'{"question": "x", "within": NaN}', 400, "invalid-request"),
        (b'{"question": "x", "within": 1e999}', 400, "invalid-request"),
        (b'{"question": "x", "within": ' + b"9" * 5000 + b"}", 400, "invalid-request"),
        (b'{"question": "x", "confidence": 1}', 400, "invalid-request"),
        (b'{"question": "SELECT count(*) FROM stays", "within": true}', 400, "invalid-request"),
        (b'{"question": "SELECT count(*) FROM stays", "fresh": "no"}', 400, "invalid-request"),
        (b'{"question": "x", "view": "exact"}', 400, "invalid-request"),
        (b"[" * 500_000, 400, "invalid-request"),
        (b'{"a":' * 100_000, 400, "invalid-request"),
        (b'{"question": "' + b"[" * 1000 + b'"}', 400, "invalid-sql"),
        (b'{"question": "' + b'\\"' * 500_000, 400, "invalid-request"),
        (json.dumps({"question": "SELECT " + "1," * 500_000}).encode(), 400, "invalid-request"),
        (json.dumps({"question": "x" * 10**6}).encode(), 400, "invalid-request"),
        (b" " * (2**20 + 1), 413, "body-too-large"),
        (b"x" * 100_000_000, 413, "body-too-large"),
    ],
    ids=lambda value: f"{value[:20]!r} of {len(value)}" if isinstance(value, bytes) else str(value),
)  # fmt: skip
def test_a_bad_body_is_a_problem(server, content, status, code):
    problem(send(server, content), status, code)


def test_a_mistake_in_a_field_is_told_once_and_in_words_of_the_interface(server):
    refusal = problem(send(server, b'{"question": "x", "within": [[1]], "epsilon": {}}'), 400, "invalid-request")
    assert refusal["detail"] == (
        'body.within: The tolerance: 50, "1%", or one for each column. '
        "body.epsilon: The price of the question alone, instead of `within`."
    )
    refusal = problem(send(server, b'{"questoin": "x"}'), 400, "invalid-request")
    assert refusal["detail"] == "body.question: Field required. body.questoin: Extra inputs are not permitted."
    assert problem(send(server, b'{"question": "x"}'), 400, "invalid-sql")["title"] == "Invalid SQL"


def test_a_body_without_a_length_is_cut_off_where_it_is_too_large(server):
    def endless() -> Iterator[bytes]:
        for _ in range(200):
            yield b"x" * 10_000

    with server.client() as ada:
        reply = ada.post(ANSWERS, content=endless(), headers=key("endless") | {"Content-Type": "application/json"})
    problem(reply, 413, "body-too-large")


def test_a_body_of_another_type_is_refused(server):
    problem(
        send(server, b"question=1", **{"Content-Type": "application/x-www-form-urlencoded"}), 415, "wrong-media-type"
    )
    problem(send(server, b"{}", **{"Content-Type": "multipart/form-data; boundary=x"}), 415, "wrong-media-type")


@pytest.mark.parametrize("name", ["", "x" * 201, "tab\there", "caf\xe9"])
def test_a_key_is_needed_and_is_short_and_printable(server, name):
    with server.client() as ada:
        headers = {"Idempotency-Key": name.encode("latin-1")}
        problem(ada.post(ANSWERS, json={"question": QUESTION}, headers=headers), 400, "key-missing")
        refusal = problem(ada.post(ANSWERS, json={"question": QUESTION}), 400, "key-missing")
    assert "the header Idempotency-Key" in str(refusal["detail"])


def test_blanks_around_a_key_are_not_part_of_it(server):
    asked = json.dumps({"question": QUESTION, "epsilon": "0.01", "fresh": True}).encode()
    head = f"POST {API}{ANSWERS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    who = f"Authorization: Bearer {server.tokens['ada']}\r\nIdempotency-Key:  blanks \t \r\n"
    reply, _ = speak(server, f"{head}{who}Content-Length: {len(asked)}\r\n\r\n".encode() + asked)
    assert reply.startswith(b"HTTP/1.1 200 ")
    with server.client() as ada:
        assert ada.get(f"{ANSWERS}/blanks").status_code == 200


def test_unknown_addresses_and_methods_are_problems(server):
    with server.client() as ada:
        problem(ada.get("/nowhere"), 404, "unknown-address")
        problem(ada.get("/datasets/%ff%00"), 403, "role-missing")
        refused = ada.put("/datasets")
        problem(refused, 405, "method-not-allowed")
        assert refused.headers["allow"] == "GET"


def speak(server: Running, *parts: bytes, pause: float = 0.0) -> tuple[bytes, float]:
    """Send bytes with pauses, and return the reply, and after how many seconds it was complete."""
    address = httpx.URL(server.analysts)
    with socket.create_connection((address.host, address.port), timeout=60) as connection:
        began = time.monotonic()
        reply = b""
        for part in parts:
            connection.sendall(part)
            time.sleep(pause)
        while received := connection.recv(65536):
            reply += received
        return reply, time.monotonic() - began


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nSlow: "])
def test_a_client_that_does_not_finish_its_headers_is_turned_away(server, head):
    reply, seconds = speak(server, head)
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert CLIENT_SECONDS - 0.5 < seconds < CLIENT_SECONDS + 30


def test_a_client_that_drips_its_body_is_turned_away(server):
    head = f"POST {API}{ANSWERS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['ada']}\r\n"
    start = f"{head}Idempotency-Key: slow\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    reply, seconds = speak(server, start.encode(), b"{", b'"', pause=0.5)
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b'"request-too-slow"' in reply
    assert CLIENT_SECONDS - 0.5 < seconds < CLIENT_SECONDS + 30


def connections(server: Running) -> float:
    text = httpx.get(server.operations + "/metrics").text
    [line] = [line for line in text.splitlines() if line.startswith("dodona_connections ")]
    return float(line.split()[1])


def test_a_client_that_does_not_read_its_replies_is_cut_off(server):
    address = httpx.URL(server.analysts)
    with socket.create_connection((address.host, address.port)) as unread:
        unread.setblocking(False)  # noqa: FBT003  the argument has no name
        with suppress(BlockingIOError):  # the server takes no more: nobody reads what it has to say
            while True:
                unread.send(b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 100)
        assert connections(server) >= 1
        wait_until(lambda: connections(server) == 0)


def test_headers_that_are_too_large_and_what_is_no_http_are_turned_away(server):
    reply, _ = speak(server, b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"a" * 40_000)
    assert reply.startswith(b"HTTP/1.1 431 ")
    reply, _ = speak(server, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nLong: " + b"a" * 40_000 + b"\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 431 ")
    reply, _ = speak(server, b"\x16\x03\x01 this is no HTTP\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert PROBLEM.encode() in reply


# --- Logs and operations. ---


def test_the_log_holds_no_question_no_value_and_no_secret(server):
    telling = "SELECT count(*) FROM stays WHERE age = 77 AND sex = 'female'"
    with server.client() as ada:
        assert (
            ada.post(ANSWERS, json={"question": telling, "within": 40}, headers=key("very private")).status_code == 200
        )
        bad = "SELECT secret_column FROM stays"
        problem(ada.post(ANSWERS, json={"question": bad}, headers=key("k2")), 400, "invalid-sql")

    def asked() -> list[dict[str, Any]]:
        fields = {"act": "ask", "account": "ada", "dataset": "stays"}
        return [line for line in server.lines("request") if fields.items() <= line.items()]

    wait_until(lambda: {line["status"] for line in asked()} >= {200, 400})
    assert any(line.get("code") == "invalid-sql" for line in asked())
    text = server.log.read_text()
    for secret in (telling, "age = 77", "secret_column", "very private", *server.tokens.values()):
        assert secret not in text


def test_health_readiness_and_metrics_have_a_port_of_their_own(server):
    assert httpx.get(server.operations + "/health").json() == {"health": "alive"}
    assert httpx.get(server.operations + "/ready").json() == {"ready": True}
    text = httpx.get(server.operations + "/metrics").text
    assert 'dodona_requests_total{act="ask",door="analysts",status="200"}' in text
    assert 'dodona_core_workers{pool="paid",number="0"} 1' in text
    assert "ada" not in text
    assert "SELECT" not in text
    assert httpx.get(server.analysts + "/metrics").status_code == 404
    assert httpx.get(server.operations + "/api/v1/datasets").status_code == 404
