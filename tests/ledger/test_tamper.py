"""A ledger on disk that was altered is refused, or is the same ledger."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ledger.drill import quick_folder
from tests.ledger.tamper import NAME, campaign, cuts, flips, live, small

FILES = [(small, NAME), (small, f"{NAME}.head"), (live, NAME), (live, f"{NAME}-wal"), (live, f"{NAME}.head")]
Copies = Callable[[bytes, int], Iterator[bytes]]


def altered(make: Callable[[Path], None], name: str, copies: Copies, stride: int) -> dict[str, int]:
    with tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        original = Path(folder) / "original"
        original.mkdir()
        make(original)
        content = (original / name).read_bytes()
        return campaign(original, Path(folder) / "scratch", name, copies(content, stride))


@pytest.mark.parametrize("copies", [flips, cuts])
@pytest.mark.parametrize(("make", "name"), FILES)
def test_some_bytes_and_some_truncations_are_noticed_or_harmless(
    make: Callable[[Path], None], name: str, copies: Copies
):
    """Every 101st; the soak tries all of them."""
    tally = altered(make, name, copies, 101)
    assert tally["missed"] == tally["untyped"] == 0
    assert tally["detected"] > 0 or (copies is flips and name.endswith("head"))  # most of a head file is blank


@pytest.mark.soak
@pytest.mark.parametrize("copies", [flips, cuts])
@pytest.mark.parametrize(("make", "name"), FILES)
def test_every_byte_of_every_file_is_noticed_or_harmless(make: Callable[[Path], None], name: str, copies: Copies):
    tally = altered(make, name, copies, 1)
    assert tally["missed"] == tally["untyped"] == 0
