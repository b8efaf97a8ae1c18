"""The speed of exact noise: bulk draws, single releases, choosing among many, and what comes before the first draw."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import count
from typing import cast

import numpy as np

from benchmarks import clock, peer
from benchmarks.report import Row
from dodona.lab import direct, sampling
from dodona.lab.mechanisms import Laplace
from dodona.trusted.samplers import compiled, draw

SCALES = (1, 10, 1000)
DRAWS = 4_000_000
PEER_DRAWS = 20_000
CANDIDATES = np.arange(100_000, dtype=np.int64) % 1000
"""Scores from 0 to 999, a hundred candidates each."""
WIDTH = 10
"""The scale of the noise in every contest."""
FRESH = 50
"""Scales in a round of first draws."""

Say = Callable[[str], None]
_SAMPLERS = {"laplace": sampling.laplace, "gaussian": sampling.gaussian}
_KERNELS: dict[str, draw.SamplingKernel] = {"numba": compiled.values, "numpy": draw.numpy_values}
_LAWS: tuple[peer.Noise, ...] = ("laplace", "gaussian")
_SELECTIONS: tuple[peer.Selection, ...] = ("permute_and_flip", "exponential")
_MODULES = {
    "import_cpu_s": "dodona",
    "import_direct_cpu_s": "dodona.lab.direct",
    "import_numpy_cpu_s": "numpy",
    "opendp_import_cpu_s": "opendp.prelude",
}


NOTE = (
    "All figures are CPU time. Noisy max adds Laplace noise; OpenDP's, beside it, is permute-and-flip. A first draw is "
    "the first of a scale near 1000: ours builds a table then, and OpenDP's a measurement."
)
"""What a reader of the rows has to know."""


def measure(say: Say) -> dict[str, object]:
    """Return every figure: million samples per CPU-second, and CPU times in the unit that a name ends with."""
    figures: dict[str, object] = {"peer": peer.NAME}
    for law in _LAWS:
        figures[law] = _bulk(law, say)
    say("single releases")
    figures |= _single()
    say(f"choosing among {CANDIDATES.size:,} candidates")
    figures |= _contests()
    say("first draws from fresh scales")
    figures |= _first_draws()
    say("imports")
    seconds = clock.imports(tuple(_MODULES.values()))
    return figures | {figure: round(seconds[module], 4) for figure, module in _MODULES.items()}


def _bulk(law: peer.Noise, say: Say) -> dict[str, dict[str, float]]:
    """Return million samples per CPU-second by kernel and scale; compiling falls in the warm-up."""
    sample = _SAMPLERS[law]
    rates: dict[str, dict[str, float]] = {}
    for name, kernel in _KERNELS.items():
        say(f"{law} with {name}")
        rates[name] = {str(scale): _rate(DRAWS, partial(sample, scale, DRAWS, kernel=kernel)) for scale in SCALES}
    say(f"{law} with {peer.NAME}")
    zeros = peer.zeros(PEER_DRAWS)
    releases = {scale: peer.vector(law, scale) for scale in SCALES}
    rates["opendp"] = {str(scale): _rate(PEER_DRAWS, partial(release, zeros)) for scale, release in releases.items()}
    return rates


def _rate(draws: int, work: Callable[[], object]) -> float:
    return round(draws / clock.best(work, repeats=7) / 1e6, 4)


def _single() -> dict[str, float]:
    mechanism, release = Laplace(scale=WIDTH), peer.scalar("laplace", WIDTH)
    return {
        "scalar_release_us": round(clock.mean(lambda: direct.run(mechanism, 42), calls=100_000) * 1e6, 3),
        "opendp_scalar_us": round(clock.mean(lambda: release(42), calls=5_000) * 1e6, 3),
    }


def _contests() -> dict[str, float]:
    unit = Fraction(1, WIDTH)
    works: dict[str, Callable[[], object]] = {
        "noisy_max_ms": lambda: sampling.noisy_max(CANDIDATES, WIDTH),
        "exponential_ms": lambda: sampling.choose(CANDIDATES, unit=unit),
        "permute_and_flip_ms": lambda: sampling.permute_and_flip(CANDIDATES, unit=unit),
    }
    for selection in _SELECTIONS:
        works[f"opendp_{selection}_ms"] = partial(peer.noisy_max(selection, WIDTH), CANDIDATES)
    figures = {figure: round(clock.mean(work, calls=20) * 1e3, 3) for figure, work in works.items()}
    # OpenDP's default noisy max is its permute-and-flip; it has none with Laplace noise.
    return figures | {"opendp_noisy_max_ms": figures["opendp_permute_and_flip_ms"]}


def _first_draws() -> dict[str, float]:
    """Return the milliseconds to one draw from a scale near 1000 that was never drawn from before."""
    figures = {}
    for law in _LAWS:
        figures[f"first_draw_{law}_ms"] = first_draw(law)
        figures[f"opendp_first_draw_{law}_ms"] = _first(partial(_peer_first, law))
    mean = sum(figures[f"first_draw_{law}_ms"] for law in _LAWS) / len(_LAWS)
    return figures | {"first_draw_ms": round(mean, 3)}


def first_draw(law: peer.Noise) -> float:
    """Return the milliseconds of the first draw from a scale of ours."""
    return _first(partial(_SAMPLERS[law], count=1))


def _first(draw: Callable[[Fraction], object]) -> float:
    scales = (1000 + Fraction(step, 997) for step in count(1))
    return round(clock.mean(lambda: draw(next(scales)), calls=FRESH) * 1e3, 3)


def _peer_first(law: peer.Noise, scale: Fraction) -> object:
    return peer.scalar(law, float(scale))(0)


def rows(figures: dict[str, object]) -> list[Row]:
    """Return the figures as rows of a table."""
    rows = []
    for law in _LAWS:
        rates = cast("dict[str, dict[str, float]]", figures[law])
        for name in _KERNELS:
            for scale, rate in rates[name].items():
                figure = f"{law}, scale {scale}, {name}"
                rows.append(Row(figure, "million samples/s", rate, rates["opendp"][scale], "more"))
    for figure, ours, theirs, unit in (
        ("one release", "scalar_release_us", "opendp_scalar_us", "µs"),
        ("noisy max, 100,000 candidates", "noisy_max_ms", "opendp_noisy_max_ms", "ms"),
        ("exponential, the same", "exponential_ms", "opendp_exponential_ms", "ms"),
        ("permute-and-flip, the same", "permute_and_flip_ms", "opendp_permute_and_flip_ms", "ms"),
        ("first draw, laplace", "first_draw_laplace_ms", "opendp_first_draw_laplace_ms", "ms"),
        ("first draw, gaussian", "first_draw_gaussian_ms", "opendp_first_draw_gaussian_ms", "ms"),
        ("import dodona.lab.direct", "import_direct_cpu_s", "opendp_import_cpu_s", "s"),
    ):
        rows.append(Row(figure, unit, cast("float", figures[ours]), cast("float", figures[theirs]), "less"))
    # On its own `import dodona` loads nothing yet that OpenDP's import could be compared with.
    rows.append(Row("import dodona", "s", cast("float", figures["import_cpu_s"]), None, "less"))
    return rows
