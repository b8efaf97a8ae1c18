"""An adversary that chooses words: at, just below and just above everything that a sampler compares them with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dodona.trusted.samplers import law as laws
from tests.trusted.samplers.oracle import DEPTH, Meaning, Noise

ALL = (1 << 64) - 1
NAMES = ("laplace", "gaussian", "geometric")
SCALES = (
    Fraction(1, 1000), Fraction(1, 4), Fraction(1), Fraction(7, 3), Fraction(10), Fraction(32), Fraction(33),
    Fraction(1000), Fraction(65536, 3), Fraction(10**6), Fraction(10**12),
)  # fmt: skip
BAND = 2.0**-45


def product_law(noise: Noise) -> laws.DiscreteLaw:
    match noise.name:
        case "laplace":
            return laws.laplace_law(noise.scale)
        case "gaussian":
            return laws.gaussian_law(noise.scale**2)
        case _:
            return laws.geometric_law(noise.scale)


def random_scale(rng: np.random.Generator) -> Fraction:
    """A rational between 1/1000 and 10^12, its size uniform on a logarithmic axis."""
    denominator = int(rng.integers(1, 10**6))
    size = 10 ** float(rng.uniform(-2.9, 11.9))
    return Fraction(max(1 + denominator // 1000, round(size * denominator)), denominator)


@dataclass(frozen=True)
class Case:
    """The words of one attempt, and the words that follow if the sampler asks for more."""

    words: tuple[int, ...]
    plan: tuple[int, ...] = ()


class Tape:
    """Gives each case's planned words, then made-up ones, and keeps what was given."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.given: list[int] = []
        self._rng = rng
        self._plan: Iterator[int] = iter(())

    def load(self, plan: Iterable[int]) -> None:
        self._plan = iter(plan)

    def more(self) -> int:
        word = next(self._plan, None)
        if word is None:
            word = int(self._rng.integers(0, 1 << 64, dtype=np.uint64))
        self.given.append(word)
        return word


class Replay:
    """Gives kept words again; asking for more than was kept is an error."""

    def __init__(self, given: Iterable[int]) -> None:
        self.left = list(given)[::-1]

    def more(self) -> int:
        return self.left.pop()


def endings(number: int, start: int) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Continuations of a DEPTH-bit number from bit `start` on, and whether the uniform number ends up at or above it.

    Next to it, at both ends, and equal to it for one and two words more.
    """
    rest = [number >> DEPTH - start - 64 * depth & ALL for depth in (1, 2, 3)]
    for depth in range(3):
        equal = tuple(rest[:depth])
        here = rest[depth]
        for word in {0, here - 1, here + 1, ALL} - {-1, here, ALL + 1}:
            yield (*equal, word), word > here


@dataclass(frozen=True)
class Adversary:
    """Words against one law."""

    meaning: Meaning
    rng: np.random.Generator

    def _pick(self, items: list[int], count: int) -> list[int]:
        if len(items) <= count:
            return items
        chosen = self.rng.choice(len(items), size=count, replace=False)
        return sorted({items[0], items[1], items[-1], *(items[i] for i in chosen)})

    def firsts(self, thresholds: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """First words with their continuations: thresholds ±0, 1, 2, guide cell edges, both ends; both sign bits."""
        yield from self._thresholds(thresholds)
        for cell in self._pick(list(range(1, 1 << 12)), thresholds // 2 + 2):
            for word in range((cell << 51) - 1, (cell << 51) + 2):
                yield word, ()
        for word in (0, 1, 2, (ALL >> 1) - 1):
            yield word, ()
        # The last word is a tie with what lies beyond the table: the next bits choose how far out.
        deep = [k for k, bound in enumerate(self.meaning.level(63)) if bound == ALL >> 1]
        for k in self._pick(deep, thresholds // 8 + 2):
            for plan, _ in endings(self.meaning.cumulative[k], 63):
                yield ALL >> 1, plan
        for plan in ((0,), (1,), (ALL - 1,), (ALL, 0), (ALL, ALL, 5)):
            yield ALL >> 1, plan

    def _thresholds(self, thresholds: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        level = self.meaning.level(63)
        inside = [k for k, bound in enumerate(level) if bound < ALL >> 1]
        for k in self._pick(inside, thresholds):
            for word in range(level[k] - 2, level[k] + 3):
                if word == level[k]:
                    for plan, _ in endings(self.meaning.cumulative[k], 63):
                        yield word, plan
                elif 0 <= word <= ALL >> 1:
                    yield word, ()

    def seconds(self, top: int, offsets: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Second words with their continuations: fractions around e^-excess, the edges of the band, both ends."""
        shift = self.meaning.noise.shift
        bits = 64 - shift
        largest = (1 << shift) - 1
        drawn = self.rng.integers(0, largest, size=offsets, endpoint=True).tolist()
        band = round((BAND + 2.0**-bits) * 2**bits)
        for offset in sorted({0, 1, largest, largest // 2, *drawn}):
            _, power = self.meaning.power(top, offset)
            threshold = power >> DEPTH - bits
            edges = {threshold + sign * band + near for sign in (-1, 1) for near in (-1, 0, 1)}
            inner = {threshold + near for near in (-band // 2, -9, -2, -1, 0, 1, 2, 9, band // 2)}
            wide = {threshold + sign * (band + band // 16) for sign in (-1, 1)}
            for fraction in sorted(edges | inner | wide | {0, (1 << bits) - 1}):
                if not 0 <= fraction < 1 << bits:
                    continue
                plans = [plan for plan, _ in endings(power, bits)] if fraction == threshold else [()]
                for plan in plans:
                    yield offset << bits | fraction, plan

    def cases(self, thresholds: int, wide: int, offsets: int = 2) -> Iterator[Case]:
        """Attempts whose first word, second word, or both are chosen badly; `wide` first words if there are second."""
        noise = self.meaning.noise
        firsts = list(self.firsts(thresholds))
        if noise.shift == 0:
            yield from (Case((word << 1 | sign,), plan) for word, plan in firsts for sign in (0, 1))
            return
        for index in self.rng.choice(len(firsts), size=min(wide, len(firsts)), replace=False).tolist():
            word, plan = firsts[index]
            tape = Tape(self.rng)
            tape.load(plan)
            top = self.meaning.top(word, tape.more)
            for second, more in self.seconds(top, offsets):
                yield Case((word << 1 | int(self.rng.integers(2)), second), (*tape.given, *more))
        for fraction in (0, 1, (1 << 64 - noise.shift) - 1):  # zero with either sign
            yield Case((0, fraction))
            yield Case((1, fraction))
