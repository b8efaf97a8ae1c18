"""Laws of sums of noises: how far off a sum, difference or multiple of noisy values may be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, overload

from dodona.answer.convolution import summed
from dodona.answer.measured import Noise
from dodona.answer.smoothing import bell_quantile, series_quantile
from dodona.answer.term import WIDE, Term, chernoff
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace

if TYPE_CHECKING:
    from dodona.answer.blend import Bell, Blend
    from dodona.answer.claim import Checked, Guessed

__all__ = ["Term", "chernoff", "half_width", "spelled", "spelled_kinds", "upper_quantile"]

_RAREST = 1e-9  # below this failure the rounding of transforms is no longer small beside it
_CLOSE = 1500.0  # the bound by series is about 3 reaches too large
_FEW = 64  # sums of so many draws are convolved in any case
_MOST_TERMS = 16  # each different term is transformed on its own, which takes its time


@overload
def half_width(noise: Noise, failing: float, answers: int = 1) -> int: ...
@overload
def half_width(noise: Blend | Bell | Checked | Guessed, failing: float, answers: int = 1) -> float: ...
def half_width(noise: Noise | Blend | Bell | Checked | Guessed, failing: float, answers: int = 1) -> float:
    """Return an m with P(|noise| > m) at most what is allowed, for all of some answers at once.

    For one noise it is the least such whole number. For a sum of draws it need not be whole.

    Theorem: laplace-accuracy, gaussian-accuracy, smoothed-sum
    """
    return _half_width(noise, failing, answers)


@lru_cache(maxsize=65536)
def _half_width(noise: Noise | Blend | Bell | Checked | Guessed, failing: float, answers: int) -> float:
    if isinstance(noise, Laplace | Gaussian):
        return int(noise.accuracy(1 - failing, answers=answers).within)
    return noise.quantile(failing / answers)


def upper_quantile(terms: tuple[Term, ...], failing: float) -> float:
    """Return a number that the sum of the terms is above with probability at most `failing`.

    Theorem: sum-of-noises, smoothed-sum
    """
    kept = tuple(sorted(term for term in terms if term.factor > 0 and term.times > 0))
    return _quantile(kept, failing) if kept else 0.0


@lru_cache(maxsize=16384)
def _quantile(terms: tuple[Term, ...], failing: float) -> float:
    """Return the least of all bounds that hold; where a quick one is known to be close, no other is looked at."""
    reach = max([term.factor for term in terms])
    series = series_quantile(terms, failing)
    if _CLOSE * reach <= series < math.inf and sum([term.times for term in terms]) > _FEW:
        return series
    found = [series, chernoff(terms, failing)]
    if all(term.law == "Gaussian" and term.scale >= WIDE for term in terms):
        found.append(bell_quantile(sum(term.variance for term in terms), reach, failing))
    if failing >= _RAREST and len(terms) <= _MOST_TERMS:
        found.append(summed(terms, failing))
    return min(found)


def spelled(noise: Noise) -> str:
    """Return a noise in words.

    >>> spelled(Laplace(scale=20)), spelled(Gaussian(scale="41.5"))
    ('discrete Laplace noise of scale 20', 'discrete Gaussian noise of scale 41.5')
    """
    return spelled_kinds([(type(noise).__name__, float(noise.scale))])


def spelled_kinds(kinds: Iterable[tuple[str, float | None]]) -> str:
    """Return noises in words, given by the names of their laws and their scales where these are known.

    >>> spelled_kinds([("Laplace", 20.0), ("Gaussian", 3.0), ("Gaussian", 7.5), ("Laplace", 20.0)])
    'discrete Laplace noise of scale 20 and discrete Gaussian noise of scales from 3 to 7.5'
    """
    found: dict[str, set[float]] = {}
    for name, scale in kinds:
        found.setdefault(name, set()).update([] if scale is None else [scale])
    return " and ".join(f"discrete {name} noise{_scales(scales)}" for name, scales in found.items())


def _scales(scales: set[float]) -> str:
    match len(scales):
        case 0:
            return ""
        case 1:
            return f" of scale {min(scales):.6g}"
        case _:
            return f" of scales from {min(scales):.6g} to {max(scales):.6g}"
