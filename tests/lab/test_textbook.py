"""One place to import every mechanism of the texts from."""

import re

import pytest

import dodona.lab.textbook
from tests.house.tree import ROOT

RUNNABLE = re.compile(r"`(dodona\.(?:mechanisms|online\.weights|offline\.method|adaptive|direct)[\w.]*)`")


@pytest.mark.parametrize("name", dodona.lab.textbook.__all__)
def test_every_name_is_there(name: str):
    assert callable(getattr(dodona.lab.textbook, name))


def test_every_mechanism_that_the_map_of_the_sources_names_is_there():
    """Classes that state a price, by what the map points at: a new one must be listed."""
    from importlib import import_module

    listed = {getattr(dodona.lab.textbook, name) for name in dodona.lab.textbook.__all__}
    missing = set()
    for address in RUNNABLE.findall((ROOT / "docs" / "sources.md").read_text(encoding="utf-8")):
        parts = address.split(".")
        for cut in range(len(parts) - 1, 1, -1):
            try:
                module = import_module(".".join(parts[:cut]))
            except ModuleNotFoundError:
                continue
            target = getattr(module, parts[cut], None)
            if (
                isinstance(target, type)
                and hasattr(target, "event")
                and hasattr(target, "theorem")
                and target not in listed
            ):
                missing.add(address)
            break
    assert missing == set()


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match="no attribute 'Lapalce'"):
        _ = dodona.lab.textbook.Lapalce
    assert set(dodona.lab.textbook.__all__) == set(dir(dodona.lab.textbook))
