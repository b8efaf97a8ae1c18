"""Small SVG charts: bars with intervals, ranges, and points against a diagonal. They need no library and no network."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

# The colours of Okabe and Ito, distinguishable with any colour vision.
INK, WARM, PALE, LINE = "#0072B2", "#D55E00", "#9bb7d4", "#c9c9c9"
_BAR, _LEFT, _WIDTH, _LONGEST = 16, 150, 330, 24
_WIDE_LEFT = 250
_SIDE, _PAD = 360, 48
_FLOOR = 1e-7


@dataclass(frozen=True, slots=True)
class ShareBar:
    """A share, and its measurement with an interval, if there is one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A point with a tooltip."""

    name: str
    across: float
    up: float


def draw_bars(listed: Sequence[ShareBar], *, title: str) -> str:
    """Return horizontal bars; a line shows the interval of the measurement."""
    most = max([bar.high or 0.0 for bar in listed] + [bar.value for bar in listed] + [_FLOOR])
    scale = _WIDTH / most
    height = _BAR * len(listed) + 26
    parts = [f'<text x="4" y="14" font-weight="bold">{escape(title)}</text>']
    for number, bar in enumerate(listed):
        top = 24 + _BAR * number
        middle = top + _BAR / 2 - 1
        parts.append(f'<text x="{_LEFT - 6}" y="{top + 11}" text-anchor="end">{escape(_short(bar.name))}</text>')
        parts.append(
            f'<rect x="{_LEFT}" y="{top}" width="{max(0.0, bar.value) * scale:.2f}" height="{_BAR - 3}" fill="{PALE}">'
            f"<title>{escape(bar.name)}: {bar.value:.5f}</title></rect>"
        )
        if bar.low is not None and bar.high is not None:
            first, last = (_LEFT + max(0.0, end) * scale for end in (bar.low, bar.high))
            across = f'x1="{first:.2f}" x2="{last:.2f}" y1="{middle}" y2="{middle}"'
            parts.append(f'<line {across} stroke="{INK}" stroke-width="2"/>')
    return _svg(_LEFT + _WIDTH + 10, height, parts, title)


def draw_ranges(listed: Sequence[ShareBar], *, title: str, across: str) -> str:
    """Return horizontal ranges on one axis from 0, with a tick at each value; a range without ends is left empty."""
    most = max([bar.high or 0.0 for bar in listed] + [bar.value for bar in listed] + [_FLOOR])
    left, scale, bottom = _WIDE_LEFT, _WIDTH / most, 24 + _BAR * len(listed)
    parts = [f'<text x="4" y="14" font-weight="bold">{escape(title)}</text>']
    for quarter in range(5):
        spot = left + _WIDTH * quarter / 4
        parts.append(f'<line x1="{spot:.1f}" x2="{spot:.1f}" y1="20" y2="{bottom}" stroke="{LINE}"/>')
        label = f"{most * quarter / 4:.3g}"
        parts.append(f'<text x="{spot:.1f}" y="{bottom + 13}" text-anchor="middle">{label}</text>')
    for number, bar in enumerate(listed):
        middle = 24 + _BAR * number + _BAR / 2
        parts.append(f'<text x="{left - 6}" y="{middle + 4}" text-anchor="end">{escape(_short(bar.name, 40))}</text>')
        if bar.low is not None and bar.high is not None:
            first, last = left + bar.low * scale, left + bar.high * scale
            parts.append(
                f'<line x1="{first:.2f}" x2="{last:.2f}" y1="{middle}" y2="{middle}" stroke="{PALE}" stroke-width="8">'
                f"<title>{escape(bar.name)}: {bar.low:.4g} to {bar.high:.4g}</title></line>"
            )
            spot = left + bar.value * scale
            parts.append(
                f'<line x1="{spot:.2f}" x2="{spot:.2f}" y1="{middle - 6}" y2="{middle + 6}" stroke="{INK}" '
                'stroke-width="2"/>'
            )
    parts.append(f'<text x="{left + _WIDTH / 2}" y="{bottom + 28}" text-anchor="middle">{escape(across)}</text>')
    return _svg(left + _WIDTH + 24, bottom + 36, parts, title)


def draw_points(series: Sequence[tuple[str, str, Sequence[PlotPoint]]], *, across: str, up: str, title: str) -> str:
    """Return points on two logarithmic axes with the diagonal; a series has a name and a colour."""
    numbers = [max(end, _FLOOR) for _, _, listed in series for point in listed for end in (point.across, point.up)]
    low, high = math.log10(min(numbers, default=_FLOOR)) - 0.1, math.log10(max(numbers, default=1.0)) + 0.1

    def place(number: float) -> float:
        return (math.log10(max(number, _FLOOR)) - low) / (high - low) * _SIDE

    parts = [f'<text x="{_PAD}" y="14" font-weight="bold">{escape(title)}</text>']
    parts.append(f'<rect x="{_PAD}" y="24" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="{LINE}"/>')
    parts.append(f'<line x1="{_PAD}" y1="{24 + _SIDE}" x2="{_PAD + _SIDE}" y2="24" stroke="{LINE}"/>')
    for power in range(math.ceil(low), math.floor(high) + 1):
        spot = place(10.0**power)
        label = f'10<tspan dy="-4" font-size="8">{power}</tspan>'
        parts.append(f'<text x="{_PAD + spot:.1f}" y="{40 + _SIDE}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="{_PAD - 4}" y="{28 + _SIDE - spot:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<text x="{_PAD + _SIDE / 2}" y="{56 + _SIDE}" text-anchor="middle">{escape(across)}</text>')
    turned = f"rotate(-90 10 {24 + _SIDE / 2})"
    parts.append(f'<text x="10" y="{24 + _SIDE / 2}" text-anchor="middle" transform="{turned}">{escape(up)}</text>')
    for number, (name, colour, listed) in enumerate(series):
        parts.append(f'<circle cx="{_PAD + 14}" cy="{40 + 16 * number}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{_PAD + 24}" y="{44 + 16 * number}">{escape(name)}</text>')
        parts += [
            f'<circle cx="{_PAD + place(point.across):.1f}" cy="{24 + _SIDE - place(point.up):.1f}" r="4" '
            f'fill="{colour}" fill-opacity="0.7">'
            f"<title>{escape(point.name)}: {point.across:.3g}, {point.up:.3g}</title></circle>"
            for point in listed
        ]
    return _svg(_PAD + _SIDE + 16, _SIDE + 64, parts, title)


def _svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    inner = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title, quote=True)}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="11">{inner}</svg>'
    )


def _short(name: str, longest: int = _LONGEST) -> str:
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
