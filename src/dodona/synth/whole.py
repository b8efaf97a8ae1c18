"""A workload measured whole, by residuals: where the price buys noise that is small everywhere.

Whether it does is decided before the first charge, from public facts: the workload, the domain, the declared number of
rows and the price.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np

from dodona.answer.sums import WIDE_SCALE
from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.fit import ObservedBlock
from dodona.knowledge.junction import Table
from dodona.privacy.measurement import ResidualMeasurement, ResidualVariance, residual_event, rounding_variance
from dodona.query.bases import Base, base_rows
from dodona.query.residual import Classes, Residual
from dodona.synth.run import SynthesisRun
from dodona.synth.workload import WIDE, marginal_columns

SMALL_ERROR = 0.02
"""A workload is measured whole if the noise of doing so moves a marginal by no more than this, in total variation."""
_MOST_MARGINALS = 10_000
_TURNS = 20
_BITS = 30
_LOOSENED = 8
"""Of a model that holds a part of a workload that was measured whole: how many times fewer cells it has than it may."""
_LEAST_VARIANCE = Fraction(WIDE_SCALE) ** 2
"""Of a residual: what is derived from residuals takes them as sums of Gaussians that are at least so wide."""


_MOST_UNSPENT = 0.5
"""Of the price: residuals that the least variance leaves cheaper than this are not for wide columns."""


@dataclass(frozen=True, slots=True)
class WholePlan:
    """The residuals of all marginals with their variances, and the mean error that their noise causes."""

    parts: tuple[ResidualVariance, ...]
    error: float
    """The mean total variation of a marginal that noise alone causes."""


def plan_whole(run: SynthesisRun, *, most: float = SMALL_ERROR) -> WholePlan | None:
    """Return how to measure the whole workload; None if its noise moves marginals by more than that on average.

    Only public facts are looked at: the workload, the domain, the declared number of rows, the unit and the price.

    Theorem: synthesis
    """
    blocks = run.workload.query.blocks
    sets = [names for block in blocks if (names := marginal_columns(block)) is not None]
    if len(sets) < len(blocks) or len(sets) > _MOST_MARGINALS or run.currency.unit == "ε" or run.currency.laplace:
        return None
    domain = run.workload.query.domain
    classes = {name: Classes.of(domain[name]) for name in run.workload.names if domain[name].cells > 1}
    numbers = {name: classing.number for name, classing in classes.items()}
    rho = run.total / (2 if run.currency.unit == "μ²" else 1)  # of normal noise ρ = μ²/2
    wanted = _allot(_variance_shares(sets, numbers, total=not run.unit.fixed), numbers, rho * (1 - 1e-6))
    if not any(wanted.variances):
        return None
    error = float(np.mean(wanted.distances)) / run.size
    if error > most:
        return None
    residuals = {names: Residual(tuple(classes[name] for name in names)) for names in wanted.variances}
    parts = [(residuals[names], _rounded(variance)) for names, variance in wanted.variances.items()]
    # Prices depend on the unit: variances are scaled so that all residuals together cost what may be spent.
    price = run.currency.cost(residual_event(parts, run.unit, run.currency.normal))
    factor = _rounded(price / (run.total * (1 - 1e-6)), up=True)
    error *= math.sqrt(float(factor))
    if error > most:
        return None
    if most < math.inf and any(domain[name].size > WIDE for name in run.workload.names):
        held = [(residual, max(variance * factor, _LEAST_VARIANCE)) for residual, variance in parts]
        if run.currency.cost(residual_event(held, run.unit, run.currency.normal)) < _MOST_UNSPENT * run.total:
            return None  # many cells would have more noise than they are paid for, and rounds put them into bins
    return WholePlan(tuple((residual, max(variance * factor, _LEAST_VARIANCE)) for residual, variance in parts), error)


@dataclass(frozen=True, slots=True)
class _Allotment:
    variances: dict[tuple[str, ...], float]
    distances: list[float]


def _variance_shares(
    sets: list[tuple[str, ...]], numbers: dict[str, int], *, total: bool
) -> list[tuple[int, dict[tuple[str, ...], float]]]:
    """Return for each marginal its cells, and what the variance of each residual adds to that of a cell.

    The number of rows is a residual too, if it is not public.
    """
    marginals = []
    for names in sets:
        columns = [name for name in names if name in numbers]
        shares = {}
        for ways in range(0 if total else 1, len(columns) + 1):
            for some in combinations(columns, ways):
                spread = math.prod([1 - 1 / numbers[name] for name in some])
                shares[tuple(sorted(some))] = spread * math.prod(
                    [numbers[name] ** -2.0 for name in columns if name not in some]
                )
        marginals.append((math.prod([numbers[name] for name in columns]), shares))
    return marginals


def _allot(shares: list[tuple[int, dict[tuple[str, ...], float]]], numbers: dict[str, int], rho: float) -> _Allotment:
    """Return the variances of residuals that make the sum of expected distances small, at a price of ρ.

    Where the sum of variances is to be least, the variance of a residual is √(price/use). Distances are roots of
    variances, so each marginal is weighted by one over its deviation, which is repeated until it settles.
    """
    residuals = list(dict.fromkeys(names for _, by_residual in shares for names in by_residual))
    if not residuals:
        return _Allotment({}, [])
    places = {names: place for place, names in enumerate(residuals)}
    marginals = [
        (
            cells,
            np.array([places[names] for names in by_residual], dtype=np.int64),
            np.array(list(by_residual.values())),
        )
        for cells, by_residual in shares
    ]
    price = np.array([math.prod([1 - 1 / numbers[name] for name in names]) for names in residuals])
    weights = np.ones(len(marginals))
    for _ in range(_TURNS):
        use = np.zeros(len(residuals))
        for weight, (cells, at, added) in zip(weights, marginals, strict=True):
            use[at] += weight * cells * added
        variances = np.sqrt(price / use)
        variances *= float((price / variances).sum()) / (2 * rho)
        deviations = np.array([math.sqrt(float(added @ variances[at])) for _, at, added in marginals])
        weights = 1 / deviations
    distances = [
        0.5 * math.sqrt(2 / math.pi) * cells * deviation
        for deviation, (cells, _, _) in zip(deviations.tolist(), marginals, strict=True)
    ]
    return _Allotment(dict(zip(residuals, variances.tolist(), strict=True)), distances)


def _rounded(value: float, *, up: bool = False) -> Fraction:
    """Return a fraction with few bits near a number, not below it with `up`."""
    unit = Fraction(2) ** (math.frexp(value)[1] - _BITS)
    number = Fraction(value) / unit
    return (math.ceil(number) if up else max(1, round(number))) * unit


def measure_whole(run: SynthesisRun, plan: WholePlan) -> tuple[ObservedBlock, ...]:
    """Return the tables of the workload, put together from measured residuals; nothing if the answer was lost."""
    measurement = ResidualMeasurement(run.workload.query.domain, plan.parts, law=run.currency.normal)
    measured = run.measure_residuals("residuals", measurement)
    if measured is None:
        return ()
    recorded, released = measured
    domain, start = run.workload.query.domain, 0
    tables: dict[tuple[str, ...], Table] = {}
    variances: dict[tuple[str, ...], float] = {}
    for residual, variance in recorded.parts:
        tables[residual.attributes] = lift(residual, released[start : start + residual.number])
        variances[residual.attributes] = float(variance + rounding_variance(residual, run.currency.normal))
        start += residual.number
    if () in tables:
        run.count_rows(float(tables[()]) / run.size, variances[()] / run.size**2)
    observations, numbers = [], {name: domain[name].cells for name in run.workload.names if domain[name].cells > 1}
    repeated = _repetition(run, numbers)
    for block in run.workload.query.blocks:
        names = [name for name in marginal_columns(block) or () if name in numbers]
        if not names:
            continue  # a marginal of constant columns: nothing about it was to be measured
        shape = [numbers[name] for name in names]
        table = np.zeros(shape) if () in tables else np.full(shape, run.size / math.prod(shape))
        for some, residual_table in tables.items():
            if set(some) <= set(names):
                ordered = [name for name in names if name in some]
                turned = residual_table.transpose([some.index(name) for name in ordered])
                wide = turned.reshape([numbers[name] if name in some else 1 for name in names])
                table += wide * math.prod([1 / numbers[name] for name in names if name not in some])
        ((_, shares),) = _variance_shares([tuple(names)], numbers, total=() in tables)
        spread = sum([share * variances[some] for some, share in shares.items()])
        observation = ObservedBlock.of_shares(block, table.reshape(-1) / run.size, spread / run.size**2)
        # A residual's noise is the same in all directions of its own; one of fewer columns is spread evenly.
        widths = [variances[some] / math.prod([numbers[name] for name in names if name not in some]) for some in shares]
        observations.append(replace(observation, peak=max(widths) / run.size**2, repeated=repeated))
    return tuple(observations)


def join_whole(belief: FactoredBelief, seen: Sequence[ObservedBlock]) -> FactoredBelief:
    """Return the belief with all tables of the workload, or with those that the most strongly tied columns are in.

    How strongly columns are tied is read off the measured tables: the distance of a pair from independence.
    """
    if belief.holds([observation.block for observation in seen]):
        return belief.joined(seen)
    ties: dict[tuple[str, ...], float] = {}
    for observation in seen:
        names = marginal_columns(observation.block) or ()
        table = observation.values.reshape([key.groups for key in observation.block.keys])
        for pair in combinations(range(len(names)), 2):
            if (names[pair[0]], names[pair[1]]) not in ties:
                joint = table.sum(axis=tuple(axis for axis in range(len(names)) if axis not in pair))
                away = np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0)) / max(1e-9, joint.sum())).sum()
                ties[names[pair[0]], names[pair[1]]] = float(away)
    pairs = sorted(ties, key=lambda pair: -ties[pair])
    tied = belief.tied(pairs, limit=belief.limit // _LOOSENED)
    held = [observation for observation in seen if tied.covers(observation.block.attributes)]
    return tied.joined(held).loosened(observation for observation in seen if observation not in held)


def _repetition(run: SynthesisRun, numbers: dict[str, int]) -> float:
    """Return how many tables of the workload repeat a number that was measured, on average."""
    sets = [frozenset(block.attributes) & set(numbers) for block in run.workload.query.blocks]
    inside = {
        frozenset(some) for names in sets for ways in range(1, len(names) + 1) for some in combinations(names, ways)
    }
    measured = sum(math.prod([numbers[name] - 1 for name in some]) for some in inside)
    return sum(math.prod([numbers[name] for name in names]) - 1 for names in sets) / max(1, measured)


def lift(residual: Residual, values: Sequence[int]) -> Table:
    """Return the table with these Helmert rows of a residual; its mean along each attribute is 0.

    Theorem: residual-reconstruction
    """
    rows = np.empty(residual.number)
    rows[residual.order()] = np.asarray(values, dtype=np.float64)
    table = rows.reshape(residual.shape)
    for axis, classing in enumerate(residual.classes):
        steps = np.arange(1, classing.number)
        lifted = base_rows(Base.POINTS, classing.number) / (steps * (steps + 1))[:, None]
        table = np.moveaxis(np.tensordot(lifted, table, (0, axis)), 0, axis)
    return table
