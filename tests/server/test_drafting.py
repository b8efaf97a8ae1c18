"""Drafts of new datasets, entries of the ledger and saved texts over HTTP: who may, and what is refused."""

import hashlib
import itertools
import json

import httpx
import polars as pl
import pytest

from dodona.server.accounts import Accounts
from tests.server.scene import make_dataset
from tests.server.serving import serving

CODES = "/datasets/stays/ledger/entries"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("d")
    make_dataset(folder, "stays")
    make_dataset(folder, "visits")
    (folder / "sub").mkdir()
    pl.DataFrame({"age": [1, 70, 40] * 50, "ward": ["a", "b", "c"] * 50}).write_csv(folder / "sub" / "wards.csv")
    outside = tmp_path_factory.mktemp("outside") / "secret.csv"
    outside.write_text("a\n1\n")
    (folder / "link.csv").symlink_to(outside)
    (folder / ".hidden.csv").write_text("a\n1\n")
    with serving(folder) as running:
        with Accounts.open(running.accounts) as accounts:
            accounts.grant("bob", "visits", "owner")
        yield running


def code(reply: httpx.Response) -> str:
    return reply.json()["code"]


def test_a_draft_is_made_corrected_confirmed_and_served(server):
    with server.client("grace", door="owners") as grace:
        listed = grace.get("/drafts").json()
        assert {file["name"] for file in listed["files"]} - {"counts.csv"} == {
            "stays.parquet",
            "visits.parquet",
            "sub/wards.csv",
        }
        made = grace.post("/drafts/wards", json={"source": "sub/wards.csv", "protects": "row", "epsilon": "2"})
        assert made.status_code == 201, made.text
        review = {item["name"]: item["value"] for item in made.json()["review"]}
        assert review["columns.ward.labels"] == '["a", "b", "c"]'
        assert made.json()["private"].startswith("PRIVATE")
        assert "wards" in grace.get("/drafts").json()["drafts"]
        values = {"columns.ward.labels": '["a", "b", "c", "d"]', "columns.age.upper": "110"}
        changed = grace.put("/drafts/wards/values", json={"values": values})
        assert changed.status_code == 200, changed.text
        assert {item["name"]: item["value"] for item in changed.json()["review"]}.items() >= values.items()
        early = grace.post("/drafts/wards/ledger")
        assert early.status_code == 400  # nothing is served before it is confirmed
        assert grace.post("/datasets/wards/confirmation").status_code == 200
        assert grace.post("/drafts/wards/ledger").status_code == 201
        again = grace.post("/drafts/wards/ledger")
        assert again.status_code >= 400  # a ledger that exists is never touched
        assert code(grace.post("/drafts/wards", json={"source": "sub/wards.csv"})) == "dataset-exists"
        assert (
            code(grace.put("/drafts/wards/values", json={"values": {"columns.age.upper": "50"}})) == "invalid-argument"
        )


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a", "link.csv"),
        ("a", ".hidden.csv"),
        ("a", "../secret.csv"),
        ("a", "/etc/passwd"),
        ("a", "env:NOT SET"),
        ("a", "sub"),
        ("../a", "sub/wards.csv"),
        ("A b", "sub/wards.csv"),
        ("stays", "sub/wards.csv"),
    ],
)
def test_no_other_table_and_no_other_place_is_drafted(server, name, source):
    with server.client("grace", door="owners") as grace:
        reply = grace.post(
            f"/drafts/{httpx.URL(path='/' + name).raw_path.decode()[1:].replace('/', '%2F')}", json={"source": source}
        )
    assert reply.status_code in {400, 404, 409}
    assert {path.name for path in server.folder.glob("*.toml")} <= {
        "stays.toml",
        "visits.toml",
        "wards.toml",
        "counts.toml",
    }


def test_only_reviewed_values_are_corrected_and_only_to_what_is_valid(server):
    pl.DataFrame({"n": list(range(100))}).write_csv(server.folder / "counts.csv")
    with server.client("grace", door="owners") as grace:
        assert grace.post("/drafts/counts", json={"source": "counts.csv", "protects": "row"}).status_code == 201
        before = (server.folder / "counts.toml").read_text()
        for name, value in (
            ("budget.epsilon", '"9"'),
            ("source.path", '"/etc/passwd"'),
            ("columns.n.upper", "1\n[source]\nkind = 2"),
            ("columns.n.upper", '"many"'),
            ("columns.n.upper", "{a = 1}"),
            ("columns.n.upper", "-1"),
        ):
            reply = grace.put("/drafts/counts/values", json={"values": {name: value}})
            assert reply.status_code == 400, reply.text
        assert (server.folder / "counts.toml").read_text() == before


def test_drafts_are_for_owners_of_all_datasets_on_their_port(server):
    with server.client("bob", door="owners") as bob:  # owns one dataset
        assert code(bob.get("/drafts")) == "role-missing"
        assert code(bob.post("/drafts/new", json={"source": "sub/wards.csv"})) == "role-missing"
    with server.client("grace") as grace:
        assert grace.get("/drafts").status_code == 404


def test_an_auditor_reads_the_entries_without_the_key_of_the_cap(server):
    with server.client("ada") as ada:
        asked = {"question": "SELECT count(*) FROM stays", "within": 40}
        assert ada.post("/datasets/stays/answers", json=asked, headers={"Idempotency-Key": "chain"}).status_code == 200
        assert code(ada.get(CODES)) == "role-refused"
        mine = ada.get("/datasets/stays/history").json()["charges"][0]
        assert mine["key"] == "chain"
    with server.client("eve") as eve:
        entries, after = [], 0
        while after is not None:
            page = eve.get(CODES, params={"after": after, "limit": 2}).json()
            entries += page["entries"]
            after = page["next"]
        assert page["total"] == len(entries)
        head = eve.get("/datasets/stays/ledger").json()["head"]
        assert eve.get("/datasets/stays/history").json()["charges"][0]["key"] is None
    assert entries[0]["text"] is None
    for before, line in itertools.pairwise(entries):
        assert hashlib.sha256(f"{before['hash']}\n{line['text']}".encode()).hexdigest() == line["hash"]
    assert entries[-1]["hash"] == head
    assert "cap_key" not in json.dumps(entries)


def test_saved_texts_need_a_role_and_stay_with_their_writer(server):
    path = "/datasets/stays/saved/notes/r1"
    with server.client("ada") as ada, server.client("bob") as bob:
        assert ada.put(path, json={"content": {"text": "mine"}}).status_code == 200
        assert ada.get(path).json()["content"] == {"text": "mine"}
        assert code(bob.get(path)) == "nothing-saved"
        assert code(ada.get("/datasets/visits/saved/notes")) == "role-missing"
        assert ada.get("/datasets/stays/saved/other").status_code == 400
        assert ada.delete(path).status_code == 204
        assert ada.get("/datasets/stays/saved/notes").json() == {"saved": []}
    assert httpx.get(f"{server.analysts}/api/v1{path}").status_code == 401
