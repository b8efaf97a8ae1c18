"""Answers of a release from its measured tables, with intervals, and how far the model may be from the table.

Everything is computed from released values and public facts. A measurement y of a table t has noise of a known law, so
y ± its quantile is an interval for t. The distance of any law m from the table is within that of the noise from
its distance to y, by the triangle inequality; m may depend on y, as a fitted model does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dodona.knowledge.cells import Support
from dodona.knowledge.fit import ObservedBlock
from dodona.numbers import format_decimal
from dodona.privacy.accuracy import to_failure_probability
from dodona.query.predicate import Axes
from dodona.query.query import Block, block_weights, group_numbers
from dodona.schema.attributes import Attribute, code_label
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain
from dodona.synth.workload import marginal_block, marginal_columns

Numbers = NDArray[np.float64]
_ROUNDING = 0.5
"""In rows: noise is whole numbers, and its quantiles are those of the continuous law, rounded up."""


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedCounts:
    """Counts of a block in rows, each with a half-width where a measured table has it."""

    block: Block
    domain: Domain
    values: Numbers = field(repr=False)
    within: Numbers | None = field(repr=False)
    """The half-width of each interval, in rows; None if the model alone says the counts."""
    confidence: float

    @property
    def source(self) -> Literal["measured", "model"]:
        """Where the counts come from: measured tables, or the model, without a guarantee."""
        return "model" if self.within is None else "measured"

    @property
    def low(self) -> Numbers | None:
        """The lower ends, not below 0."""
        return None if self.within is None else np.maximum(0.0, self.values - self.within)

    @property
    def high(self) -> Numbers | None:
        """The upper ends."""
        return None if self.within is None else np.maximum(0.0, self.values + self.within)

    def to_arrow(self) -> pa.Table:
        """Return one row per group: its labels, the estimate, and the ends of its interval, null without one."""
        columns: dict[str, Any] = {}
        names = marginal_columns(self.block) or ()
        sizes = [self.domain[name].cells for name in names]
        for place, name in enumerate(names):
            codes = np.tile(np.repeat(np.arange(sizes[place]), math.prod(sizes[place + 1 :])), math.prod(sizes[:place]))
            labels = pa.array([label_text(self.domain[name], code) for code in range(sizes[place])])
            columns[name] = labels.take(pa.array(codes))
        nothing = pa.nulls(len(self.values), pa.float64())
        columns["estimate"] = pa.array(self.values)
        columns["low"] = nothing if self.low is None else pa.array(self.low)
        columns["high"] = nothing if self.high is None else pa.array(self.high)
        return pa.table(columns)

    def to_pandas(self) -> Any:  # noqa: ANN401  from an optional library
        """Return the counts as a pandas frame."""
        return self.to_arrow().to_pandas()


def label_text(attribute: Attribute, code: int) -> str:
    """Return a value as text; numbers as decimals, where they are finite.

    >>> from dodona.schema.attributes import Number
    >>> label_text(Number("price", 0, 10, "0.25"), 17)
    '4.25'
    """
    label = code_label(attribute, code)
    return format_decimal(label) if isinstance(label, Fraction) else str(label)


@dataclass(frozen=True, slots=True)
class MarginalError:
    """How far a law is from the table on some columns, in total variation, with an interval."""

    columns: tuple[str, ...]
    distance: float | None
    """From the measured table; None if these columns were not measured together."""
    low: float
    high: float
    bins: tuple[Partition, ...] = ()
    """Of columns that are compared bin by bin, as they were measured together with others."""


def released_counts(
    domain: Domain, seen: Sequence[ObservedBlock], block: Block, *, size: int, confidence: float
) -> ReleasedCounts | None:
    """Return the counts of a block from the measured tables that it follows from; None if there is none.

    Tables with noise of their own are pooled; of tables that share noise the most accurate is taken.
    """
    estimates = [estimate for observation in seen if (estimate := _from_table(domain, observation, block)) is not None]
    if not estimates:
        return None
    if any(observation.peak is not None for observation in seen):
        estimates = [min(estimates, key=lambda estimate: float(estimate.variances.sum()))]
    precision, weighted = np.zeros(block.values), np.zeros(block.values)
    for estimate in estimates:
        certain = 1 / np.maximum(estimate.variances, 1e-300)
        precision, weighted = precision + certain, weighted + estimate.values * certain
    half = interval_factor(confidence) / np.sqrt(precision)
    return ReleasedCounts(block, domain, weighted / precision * size, half * size + _ROUNDING, confidence)


def marginal_error(  # noqa: PLR0913  what is compared, and how
    domain: Domain,
    seen: Sequence[ObservedBlock],
    names: Sequence[str],
    shares: Numbers,
    *,
    confidence: float = 0.95,
    bins: Mapping[str, Partition] | None = None,
) -> MarginalError:
    """Return the distance of some shares from the table's, with the narrowest interval that a measured table gives.

    If no measured table holds these columns, the interval is from 0 to 1. Some columns may be compared in bins.

    Theorem: released-distance
    """
    block, cut = marginal_block(domain, names, bins), tuple((bins or {}).values())
    best = MarginalError(tuple(names), None, 0.0, 1.0, cut)
    for observation in seen:
        estimate = _from_table(domain, observation, block)
        if estimate is None:
            continue
        distance = 0.5 * float(np.abs(estimate.values - shares).sum())
        noise = 0.5 * noise_distance(block.values, float(estimate.variances.max()), confidence, peak=estimate.peak)
        error = MarginalError(tuple(names), distance, max(0.0, distance - noise), min(1.0, distance + noise), cut)
        if best.distance is None or error.high - error.low < best.high - best.low:
            best = error
    return best


def interval_factor(confidence: float) -> float:
    """Return the half-width of an interval in deviations: the larger of those of normal and of Laplace noise.

    >>> round(interval_factor(0.95), 3), round(interval_factor(0.5), 3)
    (2.118, 0.674)
    """
    failing = to_failure_probability(confidence)
    return max(NormalDist().inv_cdf(1 - failing / 2), math.log(1 / failing) / math.sqrt(2))


def noise_distance(cells: int, variance: float, confidence: float, *, peak: float | None = None) -> float:
    """Return a bound on the sum of absolute noises that holds with this confidence for normal and for Laplace noise.

    For normal noise, by concentration of a function that moves no more than √cells; for Laplace noise, by the Chernoff
    bound of a sum of exponentials. The peak is the largest eigenvalue of the covariance, if the noises depend on each
    other.

    Theorem: released-distance
    """
    slack = math.log(1 / to_failure_probability(confidence))
    steep = variance if peak is None else peak
    normal = cells * math.sqrt(2 / math.pi * variance) + math.sqrt(2 * cells * steep * slack)
    scale = math.sqrt(variance / 2)
    laplace = scale * (cells + math.sqrt(2 * cells * slack) + slack)
    return max(normal, laplace)


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """Answers from one measured table, the variances of their noise, and the largest eigenvalue of its covariance."""

    values: Numbers
    variances: Numbers
    peak: float


def _from_table(domain: Domain, observation: ObservedBlock, block: Block) -> _Answers | None:
    """Return the answers of a block from one measured marginal; None if it does not follow from that.

    A sum with weights w has a variance of at most |w|² times the peak, and exactly that where cells are independent.
    """
    peak = observation.variance if observation.peak is None else observation.peak
    if observation.block == block:
        return _Answers(observation.values, np.full(block.values, observation.variance), peak)
    names = marginal_columns(observation.block)
    if names is None or not block.attributes <= set(names):
        return None
    support = Support.of(domain.project(names))
    flat: Axes = {name: np.broadcast_to(axis, support.shape).reshape(-1) for name, axis in support.axes.items()}
    weights = np.broadcast_to(block_weights(block, flat), (support.size,)).astype(np.float64)
    groups = np.broadcast_to(group_numbers(block.keys, flat), (support.size,))
    values = np.bincount(groups, weights * observation.values, block.values).astype(np.float64)
    lengths = np.bincount(groups, weights * weights, block.values).astype(np.float64)
    return _Answers(values, lengths * peak, float(lengths.max()) * peak)
