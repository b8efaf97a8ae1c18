"""Small pictures as SVG: bars with intervals, and points against a diagonal. They need no library and no network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# Okabe and Ito's colours, which people with any colour vision tell apart.
INK, WARM, PALE, LINE = "#0072B2", "#D55E00", "#9bb7d4", "#c9c9c9"
_BAR, _LEFT, _WIDTH, _LONGEST = 16, 150, 330, 24
_SIDE, _PAD = 360, 48
_FLOOR = 1e-7


@dataclass(frozen=True, slots=True)
class Bar:
    """A share, and what was measured of it with its interval, where it was."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """A point with a name that is shown when it is pointed at."""

    name: str
    across: float
    up: float


def bars(listed: Sequence[Bar], *, title: str) -> str:
    """Return horizontal bars; a line shows the interval of what was measured."""
    most = max([one.high or 0.0 for one in listed] + [one.value for one in listed] + [_FLOOR])
    scale = _WIDTH / most
    height = _BAR * len(listed) + 26
    parts = [f'<text x="4" y="14" font-weight="bold">{escape(title)}</text>']
    for number, one in enumerate(listed):
        top = 24 + _BAR * number
        middle = top + _BAR / 2 - 1
        parts.append(f'<text x="{_LEFT - 6}" y="{top + 11}" text-anchor="end">{escape(_short(one.name))}</text>')
        parts.append(
            f'<rect x="{_LEFT}" y="{top}" width="{max(0.0, one.value) * scale:.2f}" height="{_BAR - 3}" fill="{PALE}">'
            f"<title>{escape(one.name)}: {one.value:.5f}</title></rect>"
        )
        if one.low is not None and one.high is not None:
            first, last = (_LEFT + max(0.0, end) * scale for end in (one.low, one.high))
            parts.append(
                f'<line x1="{first:.2f}" x2="{last:.2f}" y1="{middle}" y2="{middle}" stroke="{INK}" stroke-width="2"/>'
            )
    return _svg(_LEFT + _WIDTH + 10, height, parts, title)


def points(series: Sequence[tuple[str, str, Sequence[Point]]], *, across: str, up: str, title: str) -> str:
    """Return points on two logarithmic axes with the diagonal; a series has a name and a colour."""
    numbers = [max(end, _FLOOR) for _, _, listed in series for one in listed for end in (one.across, one.up)]
    low, high = math.log10(min(numbers, default=_FLOOR)) - 0.1, math.log10(max(numbers, default=1.0)) + 0.1

    def place(number: float) -> float:
        return (math.log10(max(number, _FLOOR)) - low) / (high - low) * _SIDE

    parts = [f'<text x="{_PAD}" y="14" font-weight="bold">{escape(title)}</text>']
    parts.append(f'<rect x="{_PAD}" y="24" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="{LINE}"/>')
    parts.append(f'<line x1="{_PAD}" y1="{24 + _SIDE}" x2="{_PAD + _SIDE}" y2="24" stroke="{LINE}"/>')
    for power in range(math.ceil(low), math.floor(high) + 1):
        spot = place(10.0**power)
        parts.append(f'<text x="{_PAD + spot:.1f}" y="{40 + _SIDE}" text-anchor="middle">10{_raised(power)}</text>')
        parts.append(f'<text x="{_PAD - 4}" y="{28 + _SIDE - spot:.1f}" text-anchor="end">10{_raised(power)}</text>')
    parts.append(f'<text x="{_PAD + _SIDE / 2}" y="{56 + _SIDE}" text-anchor="middle">{escape(across)}</text>')
    turned = f"rotate(-90 10 {24 + _SIDE / 2})"
    parts.append(f'<text x="10" y="{24 + _SIDE / 2}" text-anchor="middle" transform="{turned}">{escape(up)}</text>')
    for number, (name, colour, listed) in enumerate(series):
        parts.append(f'<circle cx="{_PAD + 14}" cy="{40 + 16 * number}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{_PAD + 24}" y="{44 + 16 * number}">{escape(name)}</text>')
        parts += [
            f'<circle cx="{_PAD + place(one.across):.1f}" cy="{24 + _SIDE - place(one.up):.1f}" r="4" fill="{colour}" '
            f'fill-opacity="0.7"><title>{escape(one.name)}: {one.across:.3g}, {one.up:.3g}</title></circle>'
            for one in listed
        ]
    return _svg(_PAD + _SIDE + 16, _SIDE + 64, parts, title)


def _svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    inner = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title, quote=True)}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="11">{inner}</svg>'
    )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _raised(power: int) -> str:
    return f'<tspan dy="-4" font-size="8">{power}</tspan>'
