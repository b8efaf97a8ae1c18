"""Requests that are made up from the OpenAPI document, valid and not, through the real server.

No request may be answered with a bug, and every error is a documented problem. After each operation the ledger is held
to the replies: whatever was released has a charge, and no charge was kept silent.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode

from dodona.server import app
from dodona.server.acts import ACTS
from dodona.server.app import make_application
from dodona.server.describing import describe
from tests.server.scene import make_dataset
from tests.server.serving import Running, serving, wait_until

PROBLEM = "application/problem+json"
QUESTIONS = (
    "SELECT count(*) FROM stays",
    "SELECT sex, count(*) FROM stays GROUP BY sex",
    "SELECT avg(age) FROM stays WHERE stay > 3",
    "SELECT age, sum(stay) FROM stays GROUP BY age",
    "SELECT median(age) FROM stays",
    "SELECT count(*) FROM stays WHERE urgent AND sex = 'male'",
    "SELECT max(age) FROM stays",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("fuzz")
    make_dataset(folder, "stays", epsilon="1000")
    make_dataset(folder, "visits", epsilon="1000")
    with serving(folder) as running:
        yield running


KEY = "Idempotency-Key"
PRICED = ("/choices", "/watches", "/weights")
"""What is asked for a price, and not within a tolerance."""
SPENDING = ("/answers", "/batches", "/workloads", "/releases", *PRICED)
RELEASE = {"columns": ["sex"], "ways": 1, "share": "0.1%", "count": 20}
DATASETS = ("stays", "visits")
REPORTED = {"measured", "replayed"}
"""The sources of answers that come from one release, whose receipt they name."""


class Fuzz:
    """Sends cases, judges replies, and remembers what they say about charges."""

    def __init__(self, server: Running, door: str, person: str, seed: int) -> None:
        self.server, self.door, self.person = server, door, person
        self.chosen = random.Random(seed)  # noqa: S311  which cases are made answerable
        self.session = requests.Session()
        self.receipts: set[str] = set()
        """Of everything that was released to the sender."""
        self.paid: set[tuple[str, str]] = set()
        """Datasets and keys of requests whose replies do not say that nothing was charged."""
        self.started: set[tuple[str, str]] = set()
        """Datasets and keys of synthetic releases, whose steps are charged later, under keys of their own."""
        self.steps: set[tuple[str, str]] = set()
        """Datasets and digests of the releases that steps were charged for."""
        self.statuses: dict[int, int] = {}
        self.read = dict.fromkeys(DATASETS, 0)
        """Of each ledger, how many charges were read."""
        self.charges: dict[str, int] = {}
        """How many charges each operation led to."""
        self.charged: set[str] = set()
        """The receipts of all charges that were read."""
        self._read_charges()

    def send(self, case: Case) -> None:
        self._make_answerable(case)
        secret = self.server.tokens[self.person]
        headers = {"Authorization": f"Bearer {secret}"}
        try:
            sent = case.as_transport_kwargs(base_url=getattr(self.server, self.door), headers=headers)
            reply = self.session.request(**sent, timeout=120, allow_redirects=False)
        except (requests.exceptions.InvalidHeader, UnicodeError, ValueError):
            return  # what no client can send
        self.judge(case, reply)

    def _make_answerable(self, case: Case) -> None:
        """Let most cases name a dataset and a question that exist: others are refused at the first check."""
        if "dataset" in (case.path_parameters or {}) and self.chosen.random() < 0.8:
            case.path_parameters["dataset"] = self.chosen.choice(("stays", "visits"))
        if case.path.endswith("/releases"):
            self._make_small(case)
        elif isinstance(case.body, dict):
            if "question" in case.body and self.chosen.random() < 0.6:
                case.body["question"] = self._question()
            if isinstance(case.body.get("questions"), list) and self.chosen.random() < 0.6:
                only = case.path.endswith("/weights")  # which answer counts alone
                case.body["questions"] = [self._question(count=only), self._question(count=only)]
            if self.chosen.random() < 0.4:
                for name in ("epsilon", "max_price", "columns", "count"):
                    case.body.pop(name, None)
                if case.path.endswith(PRICED):
                    case.body["epsilon"] = "0.2"
                if "within" in case.body:
                    case.body["within"] = 100

    def _make_small(self, case: Case) -> None:
        """Let some releases be possible, and none of them be of all columns, which takes minutes."""
        if self.chosen.random() < 0.05:
            case.body = RELEASE | {"count": self.chosen.randrange(1, 1000)}
        elif isinstance(case.body, dict) and case.body.get("columns") is None:
            case.body["columns"] = ["sex"]

    def _question(self, *, count: bool = False) -> str:
        """Return a question that may have been asked before, or one of many that hardly was."""
        where = f"FROM stays WHERE age > {self.chosen.randrange(100)}"
        if count:
            return f"SELECT count(*) {where}"
        new = f"SELECT sex, count(*) {where} GROUP BY sex"
        return self.chosen.choice((self.chosen.choice(QUESTIONS), new))

    def judge(self, case: Case, reply: requests.Response) -> None:
        self.statuses[reply.status_code] = self.statuses.get(reply.status_code, 0) + 1
        summary = f"{case.method} {case.path}: {reply.status_code} {reply.text[:500]}"
        assert reply.status_code not in {500, 501, 502, 504}, summary
        assert reply.headers["x-content-type-options"] == "nosniff", summary
        if reply.status_code >= 400:
            assert reply.headers["content-type"] == PROBLEM, summary
            problem = reply.json()
            assert {"type", "title", "status", "detail", "charged"} <= problem.keys(), summary
            assert problem["status"] == reply.status_code, summary
            assert "Traceback" not in reply.text, summary
            self._remember_key(case, reply)
            return
        self._remember_key(case, reply)
        documented = set(case.operation.definition.raw["responses"])
        assert str(reply.status_code) in documented, summary
        if not case.path.endswith("/rehearsals"):  # on made-up rows, which have a ledger of their own
            self._remember(reply, summary)

    def _remember(self, reply: requests.Response, told: str) -> None:
        """Remember the receipts of a reply: of the header, and of every answer in its body."""
        if reply.headers.get("dodona-source") in REPORTED:
            self.receipts.add(reply.headers["dodona-receipt"])
        if reply.headers.get("content-type") == "application/json":
            for part in objects(reply.json()):
                if "receipt" in part and part.get("source") in REPORTED:
                    assert part["receipt"], told
                if part.get("receipt"):
                    self.receipts.add(part["receipt"])

    def _remember_key(self, case: Case, reply: requests.Response) -> None:
        dataset, key = (case.path_parameters or {}).get("dataset"), reply.request.headers.get(KEY)
        refused = reply.status_code >= 400 and not reply.json()["charged"]
        if key is not None and not refused:
            text = key.decode("latin-1") if isinstance(key, bytes) else key
            request = str(dataset), text.strip(" \t")  # blanks around a header are not part of it
            (self.started if case.path.endswith("/releases") else self.paid).add(request)

    def check_ledger(self) -> None:
        """Hold the ledgers to what was answered since the last check, and verify their chains."""
        with self.server.client(self.person) as sender, self.server.client("grace") as owner:
            for name in DATASETS:
                assert owner.post(f"/datasets/{name}/ledger/verification").json()["verified"] is True
                recorded = [
                    charge for charge in charges(sender, name, self.read[name]) if charge.get("analyst") == self.person
                ]
                silent = [charge for charge in recorded if (name, charge["key"]) not in self.paid]
                steps = [charge for charge in silent if charge["text"].startswith("release ")]
                self.steps |= {(name, charge["key"].split()[1]) for charge in steps}
                silent = [charge for charge in silent if charge not in steps]
                assert not silent, f"charged, though no reply said so: {silent[:5]}"
        assert len(self.steps) <= len(self.started), "a synthetic release was charged that nobody began"
        self._read_charges()
        missing = self.receipts - self.charged
        assert not missing, f"released without a charge: {missing}"
        assert httpx.get(self.server.operations + "/ready").status_code == 200

    def wait_for_releases(self) -> None:
        """Wait until the synthetic releases that were begun are made."""
        with self.server.client(self.person) as sender:
            for dataset, key in self.started:
                path = f"/datasets/{dataset}/releases/{quote(key, safe='')}"
                wait_until(lambda path=path: sender.get(path).json().get("state") not in {"waiting", "running"})

    def _read_charges(self) -> None:
        with self.server.client("grace") as owner:
            for name in DATASETS:
                for charge in charges(owner, name, self.read[name]):
                    self.charged.add(charge["receipt"])
                    self.read[name] = charge["number"]


def charges(client: httpx.Client, dataset: str, after: int | None) -> Iterator[dict[str, Any]]:
    """Yield the charges of a dataset after the first so many, as a person sees them."""
    while after is not None:
        page = client.get(f"/datasets/{dataset}/history?after={after}&limit=1000").json()
        yield from page["charges"]
        after = page["next"]


def objects(value: object) -> Iterator[dict[str, Any]]:
    """Yield all objects in a JSON value."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(part)


def cases(door: str) -> list[Any]:
    schema = schemathesis.openapi.from_dict(describe(make_application(door)))  # type: ignore[arg-type]
    return [operation.ok() for operation in schema.get_all_operations()]


def run(fuzz: Fuzz, operations: list[Any], examples: int, seed: int) -> None:
    for operation in operations:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try:
                strategy = operation.as_strategy(generation_mode=mode)

                @hypothesis_seed(seed)
                @settings(
                    max_examples=examples,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                )
                @given(strategy)
                def send(case: Case) -> None:
                    fuzz.send(case)

                send()
            except (schemathesis.errors.SchemathesisError, Unsatisfiable):
                continue  # an operation without parameters has no invalid cases
        before = sum(fuzz.read.values())
        fuzz.wait_for_releases()
        fuzz.check_ledger()
        fuzz.charges[operation.label] = sum(fuzz.read.values()) - before


ENOUGH = 100
"""So many examples of an operation that spends hold at least one that is answered."""
COUNTS = [pytest.param(2, id="few"), pytest.param(1000, id="many", marks=pytest.mark.soak)]


@pytest.mark.slow
@pytest.mark.parametrize("examples", COUNTS)
@pytest.mark.parametrize("third", range(3))
def test_no_request_to_the_analysts_port_is_a_bug_or_an_uncharged_release(server, third, examples):
    fuzz = Fuzz(server, "analysts", "bob", seed=third)
    run(fuzz, cases("analysts")[third::3], examples, seed=third)
    assert sum(fuzz.statuses.values()) >= 20
    assert set(fuzz.statuses) & {200, 201, 204}
    if examples >= ENOUGH:
        assert [name for name, count in fuzz.charges.items() if name.endswith(SPENDING) and not count] == []


@pytest.mark.slow
@pytest.mark.parametrize("examples", COUNTS)
def test_no_request_to_the_owners_port_is_a_bug(server, examples):
    known = {operation.label for operation in cases("analysts")}
    fuzz = Fuzz(server, "owners", "grace", seed=7)
    run(fuzz, [operation for operation in cases("owners") if operation.label not in known], examples, seed=7)
    assert sum(fuzz.statuses.values()) >= 20


@pytest.mark.slow
def test_a_release_without_a_charge_and_a_charge_that_no_reply_told_are_noticed(tmp_path):
    make_dataset(tmp_path, "stays", epsilon="1000")
    make_dataset(tmp_path, "visits", epsilon="1000")
    with serving(tmp_path) as server:  # of its own: owners' requests may have closed the other one's datasets
        _check_is_not_idle(Fuzz(server, "analysts", "bob", seed=0))


def _check_is_not_idle(fuzz: Fuzz) -> None:
    fuzz.check_ledger()
    fuzz.receipts.add("0" * 64)
    with pytest.raises(AssertionError, match="released without a charge"):
        fuzz.check_ledger()
    fuzz.receipts.clear()
    with fuzz.server.client("bob") as bob:
        asked = {"question": QUESTIONS[0], "epsilon": "0.01", "fresh": True}
        assert bob.post("/datasets/visits/answers", json=asked, headers={KEY: "kept silent"}).status_code == 200
    with pytest.raises(AssertionError, match="no reply said so"):
        fuzz.check_ledger()


@pytest.mark.parametrize("door", ["analysts", "owners"])
def test_every_address_has_examples_and_every_act_an_address(door):
    document = describe(make_application(door))
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if "requestBody" in operation:
                name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
                assert schemas[name]["examples"], (method, path)
            done = [reply for status, reply in operation["responses"].items() if status.startswith("2")]
            contents = [content for reply in done for content in reply.get("content", {}).items()]
            for kind, content in contents:
                binary = content["schema"].get("format") == "binary"
                assert binary or "example" in content or kind == "text/html", (method, path, kind)
    routes = "".join(file.read_text() for file in Path(app.__file__).parent.glob("*_routes.py"))
    assert [act for act in ACTS if f'"{act}"' not in routes] == []


def test_the_examples_in_the_description_are_accepted_or_refused_by_policy_alone(server):
    """An example that is copied from the reference must not be told that it is malformed."""
    with server.client("bob") as bob:
        for operation in cases("analysts"):
            raw = operation.definition.raw
            body = raw.get("requestBody")
            # Logins and tokens need a session, and an approval a limit: other tests have them.
            if body is None or operation.path.endswith(("/session", "/me/tokens", "/requests")):
                continue
            name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            example = operation.schema.raw_schema["components"]["schemas"][name]["examples"][0]
            text = json.dumps(example).replace("diagnosis", "urgent").replace("admitted >= '2025-01-01'", "age > 3")
            path = operation.path.removeprefix("/api/v1").format(
                dataset="stays", key="none", identifier="1", kind="dashboards", name="mine"
            )
            reply = bob.request(operation.method, path, content=text, headers={
                "Content-Type": "application/json", "Idempotency-Key": f"example {operation.label}"})  # fmt: skip
            assert reply.status_code in {200, 201, 202, 403, 404}, (operation.label, reply.text)
