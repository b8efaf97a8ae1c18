"""Requests that are made up from the OpenAPI document, valid and not, through the real server.

No request may be answered with a bug, every error is a documented problem, and whatever was measured has a charge in
the ledger.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from tests.server.serving import Running, serving

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


class Fuzz:
    """Sends cases, judges replies, and remembers receipts."""

    def __init__(self, server: Running, door: str, person: str, seed: int) -> None:
        self.server, self.door, self.person = server, door, person
        self.chosen = random.Random(seed)  # noqa: S311  which cases are made answerable
        self.session = requests.Session()
        self.receipts: set[str] = set()
        self.statuses: dict[int, int] = {}

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
        if isinstance(case.body, dict):
            if "question" in case.body and self.chosen.random() < 0.6:
                case.body["question"] = self.chosen.choice(QUESTIONS)
            if isinstance(case.body.get("questions"), list) and self.chosen.random() < 0.6:
                case.body["questions"] = list(self.chosen.sample(QUESTIONS, 2))
            if self.chosen.random() < 0.4:
                for name in ("epsilon", "max_price"):
                    case.body.pop(name, None)
                if "within" in case.body:
                    case.body["within"] = 100

    def judge(self, case: Case, reply: requests.Response) -> None:
        self.statuses[reply.status_code] = self.statuses.get(reply.status_code, 0) + 1
        told = f"{case.method} {case.path}: {reply.status_code} {reply.text[:500]}"
        assert reply.status_code not in {500, 501, 502, 504}, told
        assert reply.headers["x-content-type-options"] == "nosniff", told
        if reply.status_code >= 400:
            assert reply.headers["content-type"] == PROBLEM, told
            found = reply.json()
            assert {"type", "title", "status", "detail", "charged"} <= found.keys(), told
            assert found["status"] == reply.status_code, told
            assert "Traceback" not in reply.text, told
            return
        documented = set(case.operation.definition.raw["responses"])
        assert str(reply.status_code) in documented, told
        rehearsed = case.path.endswith("/rehearsals")  # on made-up rows, which have a ledger of their own
        if reply.headers.get("dodona-source") == "measured" and not rehearsed:
            self.receipts.add(reply.headers["dodona-receipt"])


def cases(door: str) -> list[Any]:
    schema = schemathesis.openapi.from_dict(describe(make_application(door)))  # type: ignore[arg-type]
    return [found.ok() for found in schema.get_all_operations()]


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


def check_ledger(fuzz: Fuzz) -> None:
    """Hold the ledger to what was answered: every measured answer has its charge, and the chain verifies."""
    with fuzz.server.client("grace") as owner:
        for name in ("stays", "visits"):
            assert owner.post(f"/datasets/{name}/ledger/verification").json()["verified"] is True
        charged: set[str] = set()
        for name in ("stays", "visits"):
            after: int | None = 0
            while after is not None:
                page = owner.get(f"/datasets/{name}/history?after={after}&limit=1000").json()
                charged |= {charge["receipt"] for charge in page["charges"]}
                after = page["next"]
    assert fuzz.receipts <= charged
    assert httpx.get(fuzz.server.operations + "/ready").status_code == 200


COUNTS = [pytest.param(3, id="few"), pytest.param(800, id="many", marks=pytest.mark.soak)]


@pytest.mark.slow
@pytest.mark.parametrize("examples", COUNTS)
@pytest.mark.parametrize("third", range(3))
def test_no_request_to_the_analysts_port_is_a_bug_or_an_uncharged_release(server, third, examples):
    fuzz = Fuzz(server, "analysts", "bob", seed=third)
    run(fuzz, cases("analysts")[third::3], examples, seed=third)
    assert sum(fuzz.statuses.values()) >= 20
    assert set(fuzz.statuses) & {200, 201, 204}
    check_ledger(fuzz)


@pytest.mark.slow
@pytest.mark.parametrize("examples", COUNTS)
def test_no_request_to_the_owners_port_is_a_bug(server, examples):
    known = {operation.label for operation in cases("analysts")}
    fuzz = Fuzz(server, "owners", "grace", seed=7)
    run(fuzz, [one for one in cases("owners") if one.label not in known], examples, seed=7)
    assert sum(fuzz.statuses.values()) >= 20
    check_ledger(fuzz)


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
