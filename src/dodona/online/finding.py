"""Finding: the free rungs. What was told before is told again, and what follows from it is derived."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from dodona.answer.answer import Rung
from dodona.answer.blend import Law
from dodona.answer.derived import Derived, derivable, derived
from dodona.answer.law import half_width
from dodona.answer.measured import Measured
from dodona.answer.price import FREE, Price
from dodona.mechanisms.measurement import Noise
from dodona.online.demand import Demand, Resolved
from dodona.online.knowledge import Found, may_be_exact
from dodona.online.memory import Memory, Told
from dodona.online.planning import alone, error_of, shaped_columns
from dodona.online.request import Request
from dodona.query.question import Column, Question

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
        return Held(self.measured, "measured", receipt, price, reused)


@dataclass(frozen=True, slots=True)
class Finder:
    """Replay and derivation for one dataset."""

    memory: Memory
    rungs: frozenset[str]
    size: int
    """The declared number of rows."""

    def find(self, asked: Sequence[Resolved]) -> list[Held | None]:
        """Return for each question its values, if all its blocks are known accurately enough."""
        demanded = [one.demands or () for one in asked]
        with self.memory.lock:
            known = self._known(asked, demanded)
            if not self.memory.knowledge.combines and not any(known):
                return [None] * len(asked)
        blocks = iter(known)
        return [
            self._held(one.question, own, [*islice(blocks, len(own))]) for one, own in zip(asked, demanded, strict=True)
        ]

    def find_anyhow(self, asked: Resolved) -> Held | None:
        """Return a question's values if they are known at all, however accurately."""
        demanded = tuple(replace(demand, room=math.inf) for demand in asked.demands or ())
        with self.memory.lock:
            known = self._known([asked], [demanded])
        return self._held(asked.question, demanded, known)

    def _held(
        self, question: Question, demanded: Sequence[Demand], known: Sequence[Told | Found | None]
    ) -> Held | None:
        """Return the values of a question, of which the blocks that are not known yet may be combined."""
        if len(known) == 1 and isinstance(known[0], Found):  # of a batch nearly all
            return Held(Derived(question, (known[0].values,), (known[0].laws,)), "derived", None, reused=True)
        knowledge = self.memory.knowledge
        values: list[Sequence[float] | NDArray[np.float64]] = []
        laws: list[tuple[Law, ...]] = []
        for demand, own in zip(demanded, known, strict=True):
            if isinstance(own, Told):
                values.append(own.values)
                laws.append((own.noise,))
                continue
            # Single answers are combined without the lock, so that what others are told again need not wait for it.
            follows = knowledge.combine(demand.block, demand.met) if own is None and self._derives else own
            if follows is None:
                return None
            values.append(follows.values)
            laws.append(follows.laws)
        again = [one for one in known if isinstance(one, Told)]
        if again and len(again) == len(demanded) == len({id(one) for one in again}):
            noises = tuple(one.noise for one in again)
            flat = [value for one in again for value in one.values]
            return Held(Measured(question, flat, noises), "replayed", again[0].receipt, reused=True)
        return Held(Derived(question, tuple(values), tuple(laws)), "derived", None, reused=True)

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

    def _known(self, asked: Sequence[Resolved], demanded: Sequence[Sequence[Demand]]) -> list[Told | Found | None]:
        """Return for each block what was told of it, else what follows from what is known by classes.

        Blocks stand one question after the other. What was released meanwhile is read once for all of them.
        """
        blocks = [demand for own in demanded for demand in own]
        if not self.memory.begun and any(may_be_exact(demand.block) for demand in blocks):
            self.memory.begin()
        knowledge = self.memory.follow()
        found: list[Told | Found | None] = [None] * len(blocks)
        if "replay" in self.rungs and self.memory.tells:
            told = [known for one in asked for known in self.memory.recall(one.question.query)]
            for place, (demand, known) in enumerate(zip(blocks, told, strict=True)):
                found[place] = None if known is None else _accurate(known, demand)
        left = [place for place, known in enumerate(found) if known is None]
        if left and self._derives:
            facets = [facet for one in asked for facet in one.facets]
            follows = knowledge.tell_all([blocks[place] for place in left], [facets[place] for place in left])
            for place, own in zip(left, follows, strict=True):
                found[place] = own
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
