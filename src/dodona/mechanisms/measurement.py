"""A measurement: a query, and the noise that each of its blocks gets. It says itself what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from dodona.accounting.event import Event, Together
from dodona.domain.unit import Unit
from dodona.errors import InvalidArgument
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.query.canonical import digest
from dodona.query.people import effect_of
from dodona.query.query import Query
from dodona.query.recent import Recent

Noise = Laplace | Gaussian
_LAWS: dict[str, type[Laplace | Gaussian]] = {"laplace": Laplace, "gaussian": Gaussian}
_RECENT = Recent[tuple[Query, ...]]()


@dataclass(frozen=True, slots=True)
class Measurement:
    """Independent integer noise on every answer, of one law and scale a block, in the block's own steps."""

    query: Query
    noises: tuple[Noise, ...]

    def __post_init__(self) -> None:
        """Refuse blocks without noise."""
        if len(self.noises) != len(self.query.blocks):
            raise InvalidArgument("noises", len(self.noises), f"write one for each of {len(self.query.blocks)} blocks")

    @property
    def purpose(self) -> str:
        """What a receipt for it says."""
        return digest(self.query)

    @property
    def mechanism(self) -> str:
        """The noises as a text that `noises_from` reads."""
        return spelled(self.noises)

    def event(self, unit: Unit) -> Event:
        """Return what it costs: blocks with the same noise together, as one vector.

        Theorem: sensitivity, people
        """
        parts: dict[Noise, list[int]] = {}
        same: dict[int, list[int]] = {}  # blocks mostly share one object, which is found faster than one that is equal
        for number, noise in enumerate(self.noises):
            numbers = same.get(id(noise))
            if numbers is None:
                numbers = same[id(noise)] = parts.setdefault(noise, [])
            numbers.append(number)
        queries = _parted(self.query, tuple(map(tuple, parts.values())))
        events = [noise.event(effect_of(query, unit)) for noise, query in zip(parts, queries, strict=True)]
        return events[0] if len(events) == 1 else Together(tuple((event, 1) for event in events))


def _parted(query: Query, parts: tuple[tuple[int, ...], ...]) -> tuple[Query, ...]:
    """Return a query for each part of the blocks."""
    if len(parts) == 1:
        return (query,)
    return _RECENT.of(
        query, parts, lambda: tuple(Query(query.domain, tuple(query.blocks[n] for n in part)) for part in parts)
    )


def spelled(noises: tuple[Noise, ...]) -> str:
    """Return the noises as a text that `noises_from` reads.

    >>> spelled((Laplace(scale=2), Laplace(scale=2), Gaussian(scale="7/2")))
    'laplace 2 x 2, gaussian 7/2 x 1'
    """
    runs = ((noise, sum(1 for _ in run)) for noise, run in groupby(noises))
    return ", ".join(f"{type(noise).__name__.lower()} {noise.scale} x {times}" for noise, times in runs)


def noises_from(text: str) -> tuple[Noise, ...]:
    """Return the noises that a text means.

    >>> noises_from("gaussian 7/2 x 2")[1].scale
    Fraction(7, 2)
    """
    found: list[Noise] = []
    for run in text.split(", "):
        try:
            law, scale, _, times = run.split(" ")
            found += [_LAWS[law](scale=scale)] * int(times)
        except (KeyError, ValueError) as fault:
            raise InvalidArgument("mechanism", text, "write runs such as 'laplace 2 x 3'") from fault
    return tuple(found)
