"""The picture of losses is written, and bad numbers are refused before anything is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from dodona.errors import InvalidArgument
from dodona.lab.composition_picture import draw_losses


@pytest.mark.slow
def test_the_picture_is_written(tmp_path: Path) -> None:
    path = tmp_path / "losses.png"
    draw_losses(path, epsilon="0.1", times=(1, 100), slack="1e-6")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_bad_numbers_are_refused(tmp_path: Path) -> None:
    for wrong in ({"epsilon": 0}, {"times": ()}, {"times": (0,)}, {"slack": 1}):
        with pytest.raises(InvalidArgument):
            draw_losses(tmp_path / "losses.png", **({"epsilon": 1, "times": (1,), "slack": "0.1"} | wrong))
    assert not list(tmp_path.iterdir())
