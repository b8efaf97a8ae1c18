"""A patch is found by its tokens, in the symbol that it names."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from dodona.lab.audit.patch import Patch, apply, patch_from_json, replace_lines

TEXT = "def half(x):\n    y = x / 2\n    return y\n"
HOUSE = """\
RATE = 2


def half(x):
    y = x / RATE  # of all
    return y


class Half:
    rate: int = 2

    @property
    def of(self):
        return self.rate

    @of.setter
    def of(self, rate):
        self.rate = rate

    def told(self, x):
        y = x / RATE
        return call(
            first=x,
            second="a  b",
        )
"""


def test_old_lines_are_whole_lines_and_occur_once() -> None:
    whole = Patch("m", ("    y = x / 2",), ("    y = x / 3",))
    assert apply(whole, TEXT) == "def half(x):\n    y = x / 3\n    return y\n"
    for old, count in (("y = x /", 0), ("x / 2", 0), ("    y = x / 2", 2)):
        with pytest.raises(ValueError, match=f"occur {count} times in m,"):
            apply(Patch("m", (old,), ()), TEXT + TEXT)


def test_lines_can_be_deleted_at_either_end() -> None:
    text = "a = 1\nb = 2\nc = 3\n"
    assert apply(Patch("m", ("a = 1",), ()), text) == "b = 2\nc = 3\n"
    assert apply(Patch("m", ("c = 3",), ()), text) == "a = 1\nb = 2\n"
    assert apply(Patch("m", ("c = 3",), ()), text.rstrip()) == "a = 1\nb = 2\n"


def test_adjacent_copies_count_as_two() -> None:
    with pytest.raises(ValueError, match="occur 2 times"):
        apply(Patch("m", ("a = 1",), ()), "a = 1\na = 1\n")


def test_a_symbol_tells_equal_lines_apart() -> None:
    patch = replace_lines("m", "    y = x / RATE", "    y = x")
    with pytest.raises(ValueError, match="occur 2 times in m,"):
        apply(patch, HOUSE)
    assert apply(replace_lines("m", "    y = x / RATE", "    y = x", symbol="half"), HOUSE) == HOUSE.replace(
        "y = x / RATE  # of all", "y = x"
    )
    patched = apply(replace_lines("m", "y = x / RATE", "y = x\nz = y", symbol="Half.told"), HOUSE)
    assert patched == HOUSE.replace("        y = x / RATE\n", "        y = x\n        z = y\n")
    assert apply(replace_lines("m", "RATE = 2", "RATE = 3", symbol="RATE"), HOUSE) == HOUSE.replace(
        "RATE = 2", "RATE = 3"
    )
    for symbol in ("Half", "Half.of"):
        patch = replace_lines("m", "self.rate = rate", "pass", symbol=symbol)
        assert apply(patch, HOUSE) == HOUSE.replace("self.rate = rate", "pass")


@pytest.mark.parametrize("symbol", ["nothing", "Half.nothing", "told"])
def test_a_symbol_that_is_not_there_is_an_error(symbol: str) -> None:
    with pytest.raises(ValueError, match=rf"occur 0 times in m\.{symbol},"):
        apply(replace_lines("m", "        y = x / RATE", "", symbol=symbol), HOUSE)


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    if x:\n        return call(first=1, second=[2])\n",
        "def f():\n    if x:\n        return call(\n            first=1,  # why\n            second=[2])\n",
        "def f():\n    return call(\n        first=1,\n\n        # why\n        second=[2])   \n",
    ],
)
def test_how_lines_are_wrapped_indented_and_commented_does_not_matter(text: str) -> None:
    whole = apply(replace_lines("m", "    return call(\n        first=1, second=[2])", "    y = 1\n    return y"), text)
    part = apply(replace_lines("m", "            first=1,", "            first=3,"), text)
    left: dict[str, object] = {"x": True, "call": lambda **words: words}
    exec(compile(whole + "value = f()", "m", "exec"), left)  # noqa: S102  the patched text is run
    assert left["value"] == 1
    exec(compile(part + "value = f()", "m", "exec"), left)  # noqa: S102  the patched text is run
    assert left["value"] == {"first": 3, "second": [2]}


def test_what_a_string_holds_matters() -> None:
    assert "c" in apply(replace_lines("m", '            second="a  b",', '            second="c",'), HOUSE)
    with pytest.raises(ValueError, match="occur 0 times"):
        apply(replace_lines("m", '            second="a b",', '            second="c",'), HOUSE)


def test_a_comment_alone_is_nothing_to_replace() -> None:
    with pytest.raises(ValueError, match="occur 0 times"):
        apply(replace_lines("m", "# of all", ""), HOUSE)


def test_a_patch_survives_being_written() -> None:
    patch = replace_lines("m", "a\nb", "c", symbol="f")
    assert patch_from_json(json.loads(json.dumps(asdict(patch)))) == patch
