"""Every error says what it is to the command line, to HTTP and to SQL, and whether anything was charged."""

from __future__ import annotations

import importlib
import pkgutil
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dodona
from dodona import errors
from dodona.errors import DodonaError, EntropyFailed, InvalidArgument

CHARGED, NOT_CHARGED = "The charge stands.", "Nothing was charged."


def family(root: type[DodonaError]) -> list[type[DodonaError]]:
    return [root, *(kind for child in root.__subclasses__() for kind in family(child))]


@pytest.fixture(scope="module")
def kinds() -> list[type[DodonaError]]:
    """All errors of the product, whatever was imported before; those that tests define are not among them."""
    for module in pkgutil.walk_packages(dodona.__path__, "dodona."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return [kind for kind in family(DodonaError) if kind.__module__.startswith("dodona.")]


def test_an_error_has_a_code_an_exit_code_a_status_and_a_state(kinds: list[type[DodonaError]]):
    assert len(kinds) > 100
    for kind in kinds:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.code), kind
        assert "code" in vars(kind), f"{kind} has no code of its own"
        assert 1 <= kind.exit_code <= 125, kind
        assert 400 <= kind.http_status <= 599, kind
        assert re.fullmatch(r"[0-9A-Z]{5}", kind.sqlstate), kind
        assert kind.__doc__, kind


def test_codes_are_unique_and_the_four_families_are_told_apart(kinds: list[type[DodonaError]]):
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    families = (errors.InvalidRequest, errors.Refused, errors.Unavailable, errors.InvariantBroken)
    assert len({kind.exit_code for kind in families}) == 4
    assert {kind for kind in DodonaError.__subclasses__() if kind in kinds} == set(families)


def test_the_message_ends_with_what_was_charged():
    for kind in (DodonaError, errors.InvalidRequest, errors.Refused, errors.Unavailable, errors.InvariantBroken):
        assert str(kind("So it is.")) == f"So it is. {NOT_CHARGED}"
        assert str(kind("So it is.", charged=True)) == f"So it is. {CHARGED}"
    assert str(InvalidArgument("scale", 0, "write more")).endswith(f"Nothing was drawn. {NOT_CHARGED}")
    assert str(EntropyFailed()).endswith(NOT_CHARGED)
    assert str(EntropyFailed()) == str(EntropyFailed())


class Mute:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("mute")


@pytest.mark.parametrize(
    "value",
    [10**5000, -(10**5000), [10**5000], Mute(), {"a": 10**4999}],
    ids=["huge", "huge-negative", "huge-inside", "mute", "huge-in-dict"],
)
def test_a_value_that_cannot_be_shown_can_still_be_refused(value: object):
    assert str(InvalidArgument("scale", value, "write a number")).startswith("scale = ")


@pytest.mark.parametrize("value", ["x" * 10**6, np.zeros(10**6), [7] * 10**5], ids=["text", "array", "list"])
def test_a_long_value_is_named_in_a_short_message(value: object):
    message = str(InvalidArgument("scale", value, "write a number"))
    assert message.startswith("scale = ")
    assert len(message) < 250


@given(st.text(max_size=300) | st.binary(max_size=300) | st.integers() | st.floats() | st.none())
def test_a_message_is_short_whatever_came(value: object):
    message = str(InvalidArgument("scale", value, "write a number"))
    assert message.startswith("scale = ")
    assert len(message) < 200
