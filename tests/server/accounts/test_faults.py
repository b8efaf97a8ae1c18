"""The tests of accounts notice faults, and secrets are compared in constant time."""

import ast
import re

import pytest

from dodona.lab.audit.patch import apply
from tests.house.forks import Run
from tests.house.pages import is_defined
from tests.house.tree import SOURCE, module_path
from tests.server.accounts.faults import FAULTS, FOLDER, Fault

IDS = [fault.name.replace(" ", "-") for fault in FAULTS]
MODULES = ("secrets", "accounts", "account_store", "sessions", "identity", "oidc")
HARMLESS = ("len(proof) != len(self.stored_key)", "info.id == token.id")
"""Of lengths, and of an id that is public."""
SECRET = re.compile(r"digest|nonce|state|proof|stored|cookie|password|secret|token|signature|verifier")


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_a_fault_still_applies_and_names_a_test(fault: Fault):
    text = module_path(fault.patch.module).read_text(encoding="utf-8")
    compile(apply(fault.patch, text), fault.patch.module, "exec")
    assert is_defined(f"{FOLDER}/{fault.test}")


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("number", range(len(FAULTS)), ids=IDS)
def test_a_fault_is_noticed(number: int, forked: Run):
    done = forked("tests.server.accounts.faults", str(number))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout, done.stdout + done.stderr


def plain_compares(text: str) -> list[str]:
    """Return the comparisons by == or != of what may be a secret."""
    comparisons = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare) and any(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops):
            names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            names |= {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
            if any(SECRET.search(name) for name in names):
                comparisons.append(ast.unparse(node))
    return comparisons


@pytest.mark.parametrize("module", MODULES)
def test_secrets_are_compared_in_constant_time_alone(module: str):
    text = (SOURCE / "dodona" / "server" / f"{module}.py").read_text(encoding="utf-8")
    assert [comparison for comparison in plain_compares(text) if comparison not in HARMLESS] == []


@pytest.mark.parametrize(
    "text", ["digest == known.digest", "x = 1 if query['state'] == derived_state else 2", "claims['nonce'] != nonce"]
)
def test_a_plain_compare_is_noticed(text: str):
    assert plain_compares(text) != []
