"""Finding: the free rungs. What was told before is told again, and what follows from it is derived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dodona.answer.answer import Rung
from dodona.answer.blend import Law
from dodona.answer.derived import derivable, derived
from dodona.answer.law import half_width
from dodona.answer.measured import Measured
from dodona.answer.price import FREE, Price
from dodona.mechanisms.measurement import Noise
from dodona.online.demand import Demand
from dodona.online.knowledge import Found, may_be_exact
from dodona.online.memory import Memory, Told
from dodona.online.planning import alone, error_of, shaped_columns
from dodona.online.request import Request
from dodona.query.question import Column, Question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dodona.answer.derived import Derived


@dataclass(frozen=True, slots=True)
class Held:
    """The values of a question, and where they came from."""

    measured: Measured | Derived
    source: Rung
    receipt: str | None
    price: Price = FREE
    reused: bool = False
    """Whether numbers that were told before are in it."""

    def bought(self, receipt: str, price: Price, *, reused: bool) -> Held:
        """Return the same, paid for just now; numbers that were told before may be in it too."""
        return replace(self, source="measured", receipt=receipt, price=price, reused=reused)


@dataclass(frozen=True, slots=True)
class Finder:
    """Replay and derivation for one dataset."""

    memory: Memory
    rungs: frozenset[str]
    size: int
    """The declared number of rows."""

    def find(self, question: Question, demanded: tuple[Demand, ...]) -> Held | None:
        """Return a question's values, if all its blocks are known accurately enough."""
        knowledge = self.memory.knowledge
        with self.memory.lock:
            known = self._known(question, demanded)
        values: list[Sequence[float] | NDArray[np.float64]] = []
        laws: list[Law | Sequence[Law]] = []
        for demand, own in zip(demanded, known, strict=True):
            if isinstance(own, Told):
                values.append(own.values)
                laws.append(own.noise)
                continue
            # Single answers are combined without the lock, so that what others are told again need not wait for it.
            follows = knowledge.combine(demand.block, _enough(demand)) if own is None and self._derives else own
            if follows is None:
                return None
            values.append(follows.values)
            laws.append(follows.laws if len(follows.laws) > 1 else follows.laws[0])
        again = [one for one in known if isinstance(one, Told)]
        if len(again) == len(demanded) == len({id(one) for one in again}):
            noises = tuple(one.noise for one in again)
            flat = [value for one in again for value in one.values]
            return Held(Measured(question, flat, noises), "replayed", again[0].receipt, reused=True)
        return Held(derived(question, values, laws), "derived", None, reused=True)

    def exact(self, question: Question) -> Held | None:
        """Return a question's values, if no row can change any of them: asked by accuracy or by price, it is free.

        Theorem: public-rows
        """
        blocks = question.query.blocks
        if not self._derives or not all(map(may_be_exact, blocks)) or not derivable(question):
            return None
        with self.memory.lock:
            self.memory.begin()
            found = [known for known in map(self.memory.follow().exact, blocks) if known is not None]
        if len(found) < len(blocks):
            return None
        return Held(derived(question, [one.values for one in found], [one.laws for one in found]), "derived", None)

    def _known(self, question: Question, demanded: tuple[Demand, ...]) -> list[Told | Found | None]:
        """Return for each block what was told of it, else what follows from what is known by classes."""
        if any(may_be_exact(demand.block) for demand in demanded):
            self.memory.begin()
        knowledge = self.memory.follow()
        told = self.memory.recall(question.query) if "replay" in self.rungs else [None] * len(demanded)
        found: list[Told | Found | None] = []
        for demand, known in zip(demanded, told, strict=True):
            best: Told | Found | None = None if known is None else _accurate(known, demand)
            if best is None and self._derives:
                best = knowledge.tell(demand.block, knowledge.facet(demand.block), _enough(demand))
            found.append(best)
        return found

    @property
    def _derives(self) -> bool:
        return "derive" in self.rungs

    def replay(self, question: Question, planned: tuple[Noise, ...], request: Request) -> Held | None:
        """Return what was told of a question of any kind, if it is as accurate as what would be measured."""
        if "replay" not in self.rungs:
            return None
        self.memory.follow()
        told = self.memory.recall(question.query)
        best = _apart(told, planned)
        if best is None:
            return None
        old = tuple(one.noise for one in best)
        if old != planned and not self._as_good(question, old, planned, request):
            return None
        values = [value for one in best for value in one.values]
        return Held(Measured(question, values, old), "replayed", best[0].receipt, reused=True)

    def _as_good(self, question: Question, old: tuple[Noise, ...], new: tuple[Noise, ...], request: Request) -> bool:
        def error(column: Column, blocks: tuple[int, ...], noises: tuple[Noise, ...]) -> float:
            used = tuple(noises[block] for block in blocks)
            own = alone(question, column, blocks)
            return error_of(own, used, confidence=request.confidence, rows=self.size)

        shaped = [(column, tuple(shape)) for column, shape in shaped_columns(question)]
        return all(error(*one, old) <= error(*one, new) for one in shaped)


def _apart(told: Sequence[Sequence[Told] | None], planned: Sequence[Noise]) -> list[Told] | None:
    """Return the best that was told of each block, each of it once; None where there is not enough.

    A question may have one block in several places, each measured with noise of its own. Intervals count on noises that
    know nothing of each other, so what was told in one place does not serve in two.
    """
    found: list[Told] = []
    for known, noise in zip(told, planned, strict=True):
        left = [one for one in known or () if not any(one is other for other in found)]
        if not left:
            return None
        several = sum(own is known for own in told) > 1
        found.append(min(left, key=lambda one: (several and one.noise != noise, one.noise.scale)))
    return found


def _accurate(known: Sequence[Told], demand: Demand) -> Told | None:
    """Return the first release that is accurate enough: asked again, it is told again."""
    return next((one for one in known if half_width(one.noise, demand.failing) <= demand.room), None)


def _enough(demand: Demand) -> Callable[[Found], bool]:
    def enough(found: Found) -> bool:
        return found.within(demand.failing) <= demand.room

    return enough
