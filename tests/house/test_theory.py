"""Every claim in code has a page; every page names code and tests that exist."""

import importlib
from functools import cache
from pathlib import Path

import pytest

from tests.house.pages import (
    HEADINGS,
    claims,
    is_defined,
    node_ids,
    pages,
    patches,
    sections,
    symbols,
)
from tests.house.tree import THEORY, docstrings, python_files

PAGES = [pytest.param(page, id=page.stem) for page in pages()]


@cache
def claims_of_symbols() -> dict[str, list[str]]:
    return {symbol: ids for path in python_files() for symbol, text in docstrings(path) if (ids := claims(text))}


def resolve(symbol: str) -> str:
    """The dotted name under which a symbol is defined; raises if it does not exist."""
    parts = symbol.split(".")
    for cut in range(len(parts), 0, -1):
        name = ".".join(parts[:cut])
        try:
            target: object = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            continue
        owner = target
        for part in parts[cut:]:
            owner, target = target, getattr(target, part)
        if cut == len(parts):
            return symbol
        inner = getattr(target, "__qualname__", None)
        module = getattr(target, "__module__", None)
        if inner is None or module is None:  # a property, a constant: named through its owner
            if isinstance(owner, type):
                return f"{owner.__module__}.{owner.__qualname__}.{parts[-1]}"
            return symbol
        return f"{module}.{inner}"
    raise ModuleNotFoundError(symbol)


def test_every_claim_in_code_has_a_page() -> None:
    known = {page.stem for page in pages()}
    missing = {f"{symbol}: {name}" for symbol, ids in claims_of_symbols().items() for name in ids if name not in known}
    assert not missing, f"no page in {THEORY.name}/ for {sorted(missing)}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_every_heading_with_something_under_it(page: Path) -> None:
    by_heading = sections(page)
    assert [heading for heading in HEADINGS if not by_heading.get(heading, "").strip()] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_claimed_by_a_symbol_that_it_names(page: Path) -> None:
    named = {resolve(symbol) for symbol in symbols(page)}
    assert named, "the Code section names no symbol"
    claimed = {symbol for symbol, ids in claims_of_symbols().items() if page.stem in ids}
    assert named & claimed, f"claimed by {sorted(claimed)}, but the page names {sorted(named)}"


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_tests_that_exist(page: Path) -> None:
    assert node_ids(page), "the Tests section names no test"
    assert [node_id for node_id in node_ids(page) if not is_defined(node_id)] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_a_patch(page: Path) -> None:
    assert patches(page), "the Patch section holds no block tagged `patch`"


def test_a_claim_that_is_no_id_is_refused() -> None:
    assert claims("Noise.\n\nTheorem: laplace-pure, laplace-tail") == [
        "laplace-pure",
        "laplace-tail",
    ]
    with pytest.raises(ValueError, match="is not the id"):
        claims("Theorem: see the book")


def test_a_test_that_does_not_exist_is_noticed() -> None:
    here = "tests/house/test_theory.py"
    assert is_defined(f"{here}::test_a_test_that_does_not_exist_is_noticed")
    assert not is_defined(f"{here}::test_nothing")
    assert not is_defined(f"{here}::resolve")
    assert not is_defined("tests/house/test_nowhere.py::test_nothing")
