"""Acts beyond plain questions, through the real server: watches, releases, approvals, and logging in elsewhere."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import dodona
from tests.server.accounts.provider import CLIENT, REDIRECT, SECRET
from tests.server.scene import make_dataset
from tests.server.serving import Running, serving, wait_until

STAYS = "/datasets/stays"
OLGA = {"email": "olga@example.org", "email_verified": True}


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    command = [sys.executable, "-m", "tests.server.accounts.provider"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory, issuer) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("acts")
    make_dataset(folder, "stays")
    make_people(folder)
    login = folder / "login.txt"
    login.write_text(
        f'issuer = "{issuer}"\nclient_id = "{CLIENT}"\nclient_secret = "env:TEST_SECRET"\nredirect_uri = "{REDIRECT}"\n'
        '[roles.research]\nstays = "auditor"\n'
    )
    os.environ["TEST_SECRET"] = SECRET
    try:
        with serving(folder, ["--login", str(login)]) as running:
            yield running
    finally:
        del os.environ["TEST_SECRET"]


def make_people(folder: Path) -> None:
    """Make a dataset about people with some thirty rows each, of whom five rows count."""
    file = make_dataset(folder, "visits", ledger=False)
    text = file.read_text().replace('protects = "row"', 'protects = "person"\nid = "stay"\nrows = 5')
    file.write_text(text.replace('[columns.stay]\nkind = "integer"\nlower = 0\nupper = 60\n', ""))
    dodona.create_ledger(file)


def key(name: str) -> dict[str, str]:
    return {"Idempotency-Key": name}


def test_a_watch_is_opened_once_and_asked_many_times(server):
    body = {"threshold": 500, "epsilon": "1", "alerts": 2, "questions": 50}
    with server.client() as ada, server.client("bob") as bob:
        opened = ada.post(f"{STAYS}/watches", json=body, headers=key("my watch/1"))
        assert opened.status_code == 201
        name = "my%20watch%2F1"
        verdict = ada.post(f"{STAYS}/watches/{name}/questions", json={"question": "SELECT count(*) FROM stays"})
        assert verdict.json()["above"] is True
        assert ada.get(f"{STAYS}/watches/{name}").json()["left"] == 1
        assert bob.get(f"{STAYS}/watches/{name}").status_code == 404


def test_choices_workloads_and_weights_are_bought_under_their_keys(server):
    by_sex = "SELECT sex, count(*) FROM stays GROUP BY sex"
    with server.client() as ada:
        choice = ada.post(f"{STAYS}/choices", json={"question": by_sex, "epsilon": "0.5"}, headers=key("choice")).json()
        assert choice["names"][0] in {"female", "male"}
        prepared = ada.post(f"{STAYS}/workloads", json={"questions": [by_sex], "within": 60}, headers=key("prepared"))
        assert prepared.status_code == 200
        free = ada.post(f"{STAYS}/answers", json={"question": by_sex, "within": 60}, headers=key("then free"))
        assert free.headers["dodona-source"] in {"replayed", "derived"}
        counts = {"questions": ["SELECT count(*) FROM stays WHERE sex = 'female'"], "epsilon": "1"}
        weights = ada.post(f"{STAYS}/weights", json=counts, headers=key("weights"))
        assert weights.status_code in {200, 403}
        rehearsed = ada.post(f"{STAYS}/rehearsals", json={"question": by_sex, "within": 60})
        assert len(rehearsed.json()["rows"]) == 4


def test_a_release_is_a_job_with_an_address_and_rows_to_fetch(server):
    body = {"ways": 1, "columns": ["sex", "urgent"], "share": "1%", "count": 200, "max_price": "5%"}
    with server.client() as ada:
        begun = ada.post(f"{STAYS}/releases", json=body, headers=key("release one"))
        assert begun.status_code == 202, begun.text
        address = begun.headers["location"]
        assert address == f"/api/v1{STAYS}/releases/release%20one"
        until = time.monotonic() + 60
        while (state := httpx.get(server.analysts + address, headers=ada.headers).json())["state"] != "done":
            assert state["state"] in {"waiting", "running"}, state
            assert time.monotonic() < until
            time.sleep(0.1)
        rows = ada.get(f"{STAYS}/releases/release%20one/rows", headers={"Accept": "text/csv"}).text.splitlines()
    assert len(rows) == 201


def test_a_question_over_a_cap_is_asked_for_and_granted_once(server):
    dear = {"question": "SELECT count(*) FROM stays WHERE stay = 17 AND age = 3", "epsilon": "2"}
    with server.client() as ada, server.client("grace", door="owners") as owner:
        assert owner.put(f"{STAYS}/limits", json={"question": "0.1%", "approvals": True}).status_code == 200
        try:
            refused = ada.post(f"{STAYS}/answers", json=dear | {"max_price": "100%"}, headers=key("dear"))
            assert refused.status_code == 403
            assert refused.json()["charged"] is False
            wanted = ada.post(f"{STAYS}/requests", json=dear, headers=key("dear"))
            assert wanted.status_code == 201, wanted.text
            (listed,) = owner.get(f"{STAYS}/requests").json()["requests"]
            number = listed["id"]
            granted = owner.post(f"{STAYS}/requests/{number}/decision", json={"grant": True})
            assert granted.status_code == 200, granted.text
            assert owner.post(f"{STAYS}/requests/{number}/decision", json={"grant": False}).status_code in {
                400,
                403,
                409,
            }
            answered = ada.post(f"{STAYS}/answers", json=dear | {"max_price": "100%"}, headers=key("dear"))
            assert answered.status_code == 200, answered.text
        finally:
            owner.put(f"{STAYS}/limits", json={})


def test_owners_acts_go_through_the_owners_port(server):
    with server.client("grace", door="owners") as owner:
        assert owner.post(f"{STAYS}/budget", json={"epsilon": "101"}).json()["epsilon"] == "101"
        assert owner.put(f"{STAYS}/analysts/zoe", json={"share": "1/10"}).status_code == 200
        assert owner.delete(f"{STAYS}/analysts/zoe").status_code == 200
        checked = owner.post(f"{STAYS}/checks")
        assert checked.json()["rows"] == 2000
        assert owner.post(f"{STAYS}/budget", json={"epsilon": "1"}).status_code in {400, 403}


def test_an_owner_publishes_what_the_cap_leaves_out_and_answers_mention_it(server):
    visits = "/datasets/visits"
    count = {"question": "SELECT count(*) FROM stays", "within": "50%"}
    with server.client("grace", door="owners") as owner, server.client("bob") as bob:
        before = bob.post(f"{visits}/answers", json=count, headers=key("before"))
        assert before.status_code == 200, before.text
        refused = owner.post(f"{visits}/publications", json={"epsilon": "1"}, headers=key("p"))
        assert (refused.status_code, refused.json()["charged"]) == (403, False)  # the owner has no share to spend
        assert owner.put(f"{visits}/analysts/grace", json={"share": "1/10"}).status_code == 200
        assert owner.post(f"{visits}/publications", json={"epsilon": "1"}).status_code == 400  # without a key
        body = {"epsilon": "1", "max_price": "10%"}
        first = owner.post(f"{visits}/publications", json=body, headers=key("p"))
        assert first.status_code == 200, first.text
        assert first.json()["price"]["share"] != "0"
        again = owner.post(f"{visits}/publications", json=body, headers=key("p"))
        assert again.json() == first.json() | {"price": {"share": "0"}}
        # Workers look at their folder once a second.
        wait_until(lambda: first.json()["left_out"] in bob.get(visits).json()["unit"]["left_out"])
        charged = [
            charge for charge in owner.get(f"{visits}/history").json()["charges"] if charge["analyst"] == "grace"
        ]
        assert len(charged) == 1
    with server.client("grace") as analysts_door:
        assert analysts_door.post(f"{visits}/publications", json=body, headers=key("q")).status_code == 404


def test_a_login_at_the_provider_opens_the_page_for_an_account_that_an_owner_made(server, issuer):
    httpx.post(f"{issuer}/test", json={"user": "olga", "claims": OLGA | {"groups": ["research"]}})
    with server.client("grace", door="owners") as owner:
        assert owner.post("/accounts", json={"name": "olga", "email": OLGA["email"]}).status_code == 201
    with server.client(None) as browser:
        reply = browser.get("/login/callback", params=agree(browser))
        assert reply.status_code == 200, reply.text
        assert 'content="0; url=/"' in reply.text
        assert browser.get("/me").json() == {
            "account": "olga", "grants": {"stays": "auditor"}, "token": None, "datasets": None, "max_price": None,
        }  # fmt: skip
    with server.client(None) as other, server.client(None) as begun_there:
        stolen = other.get("/login/callback", params=agree(begun_there))
    assert (stolen.status_code, stolen.json()["type"]) == (401, "/errors/login-failed")


def agree(browser: httpx.Client) -> dict[str, str]:
    """Begin a login, go to the provider, and return the query that it sends the browser back with."""
    begun = browser.get("/login")
    assert begun.status_code == 303
    assert "SameSite=Lax" in begun.headers["set-cookie"]
    back = httpx.get(begun.headers["location"])
    return dict(httpx.QueryParams(urlsplit(back.headers["location"]).query))
