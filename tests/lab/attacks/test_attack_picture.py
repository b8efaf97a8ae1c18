"""The picture of attacks, and the points that it is drawn from."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from dodona.lab.attacks import picture
from dodona.lab.attacks.sweep import ALONE, EPSILONS, SCALES, TOGETHER, Sweep, sweep_noise
from dodona.lab.attacks.target import seeded_generator


@pytest.fixture(scope="module")
def points() -> tuple[Sweep, list[str]]:
    heard: list[str] = []
    sweep = sweep_noise(
        seeded_generator(1),
        progress=lambda done, total, name: heard.append(f"{done}/{total} {name}"),
        people=24,
        tables=2,
    )
    return sweep, heard


@pytest.mark.slow
def test_there_is_a_point_for_each_noise_and_epsilon(points: tuple[Sweep, list[str]]):
    sweep, heard = points
    assert [point.epsilon for point in sweep.noised] == [math.inf] * len(SCALES)
    assert tuple(point.epsilon for point in sweep.served) == EPSILONS
    assert tuple(point.epsilon for point in sweep.alone) == ALONE
    assert tuple(point.epsilon for point in sweep.together) == TOGETHER
    assert (sweep.people, sweep.questions, sweep.tables) == (24, 96, 2)
    assert heard[-1].startswith(f"{len(heard)}/{len(heard)} ")


@pytest.mark.slow
def test_less_is_recovered_the_more_noise_there_is(points: tuple[Sweep, list[str]]):
    """Noise without an account comes from a seed; that of Dodona is 100 times smaller at ε = 100."""
    sweep, _ = points
    assert sweep.noised[0].noise == 0
    assert sweep.noised[0].share == 1
    assert sweep.noised[-1].share < 0.75
    for point, scale in zip(sweep.noised[1:], SCALES[1:], strict=True):
        assert point.noise == pytest.approx(scale * math.sqrt(2), rel=0.3)
    assert sweep.served[0].noise > 20 * sweep.served[-1].noise


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_it_is_drawn_in_every_form(points: tuple[Sweep, list[str]], tmp_path: Path, ending: str, begins: bytes):
    path = tmp_path / f"attack.{ending}"
    picture.draw(points[0], path)
    assert path.read_bytes().startswith(begins)
    assert path.stat().st_size > 5_000


@pytest.mark.slow
def test_without_matplotlib_it_says_what_to_install(tmp_path: Path):
    code = (
        "import sys; sys.modules['matplotlib.figure'] = None\n"
        "from pathlib import Path\n"
        "from dodona.lab.attacks import picture\n"
        "from dodona.errors import InvalidRequest\n"
        "try:\n"
        "    picture.draw(None, Path('attack.png'))\n"
        "except InvalidRequest as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "A picture needs matplotlib: install dodona[plot]. Nothing was charged.\n"
