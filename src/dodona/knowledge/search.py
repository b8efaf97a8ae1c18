"""L-BFGS with a diagonal first guess that follows the law: how the multipliers of a log-linear law are found."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dodona.knowledge.interactions import dot
from dodona.knowledge.junction import CalibratedTree, Table

_MEMORY = 150  # pairs of steps and changes of the gradient
_LEAST_MEMORY = 5
_MOST_NUMBERS = 1 << 23  # in all pairs: with more multipliers there are fewer pairs
_ARMIJO = 1e-4
_SHORTER = 0.4
_TRIES = 12
_LEAST_CURVATURE = 1e-12


class Look(NamedTuple):
    """The function to minimise, at some multipliers."""

    value: float
    gradient: Table
    precondition: Callable[[Table], Table]
    """A guess of the inverse Hessian times a vector."""
    gap: float
    """How far answers are from where the minimum has them, in deviations of their noise: root mean square."""
    law: CalibratedTree


class Minimum(NamedTuple):
    """Where a search ended, and after how many steps."""

    theta: Table
    last: Look
    steps: int


def minimise(look: Callable[[Table], Look], theta: Table, *, steps: int, tolerance: float, tables: int) -> Minimum:
    """Return the multipliers that are reached once the gap is within the tolerance, or after so many steps.

    The first guess of the inverse Hessian is diagonal, and is taken anew at each step. The first step allows for all
    tables pulling the same way.
    """
    pairs = list[tuple[Table, Table, float]]()
    here, done = look(theta), 0
    while done < steps and here.gap > tolerance:
        direction = _direction(here, pairs, tables)
        slope = dot(here.gradient, direction)
        if slope <= 0:  # rounding has spoilt the pairs
            pairs.clear()
            direction = _direction(here, pairs, tables)
            slope = dot(here.gradient, direction)
        length = 1.0
        for _ in range(_TRIES):
            reached = theta - length * direction
            there = look(reached)
            if there.value <= here.value - _ARMIJO * length * slope:
                break
            length *= _SHORTER
        else:
            break  # no step is downhill: the rest is rounding
        moved, changed = reached - theta, there.gradient - here.gradient
        curvature = dot(moved, changed)
        if curvature > _LEAST_CURVATURE * dot(moved, moved):
            pairs.append((moved, changed, 1.0 / curvature))
            del pairs[: -max(_LEAST_MEMORY, min(_MEMORY, _MOST_NUMBERS // (2 * theta.size)))]
        theta, here, done = reached, there, done + 1
    return Minimum(theta, here, done)


def _direction(here: Look, pairs: Sequence[tuple[Table, Table, float]], tables: int) -> Table:
    """Return the inverse Hessian times the gradient, by the two loops of L-BFGS (Nocedal 1980)."""
    direction = here.gradient.copy()
    shares = []
    for moved, changed, inverse in reversed(pairs):
        share = inverse * dot(moved, direction)
        direction -= share * changed
        shares.append(share)
    if pairs:
        _, changed, inverse = pairs[-1]
        direction = here.precondition(direction) / (inverse * dot(changed, here.precondition(changed)))
    else:
        direction = here.precondition(direction) / tables
    for (moved, changed, inverse), share in zip(pairs, reversed(shares), strict=True):
        direction += moved * (share - inverse * dot(changed, direction))
    return direction
