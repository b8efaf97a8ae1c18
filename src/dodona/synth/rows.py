"""Synthetic rows of a model: rounded, sampled or weighted; and the files they are written to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
from numpy.random import Generator, default_rng  # noqa: TID251  rows of a public law; the seed is public too
from numpy.typing import NDArray

from dodona.errors import InvalidRequest
from dodona.knowledge.cells import Support, TooManyCells
from dodona.knowledge.components import CellDistribution, ComponentBelief, Mixture
from dodona.knowledge.dense import DenseBelief
from dodona.numbers import to_integer
from dodona.schema import attributes
from dodona.schema.attributes import Attribute
from dodona.schema.schema import Domain

Codes = dict[str, NDArray[np.int64]]

MOST_ROWS = 10**9
MOST_WEIGHTED = 1 << 24
SUFFIXES = (".parquet", ".csv", ".arrow")


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticRows:
    """Codes of synthetic rows, one column per attribute, and a weight for each row if they are weighted."""

    domain: Domain
    codes: Mapping[str, NDArray[np.int64]] = field(repr=False)
    weights: NDArray[np.float64] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(next(iter(self.codes.values())))

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table with labels; missing values are null.

        Values outside the domain are null too, except in categories, where they are the text `<outside>`.
        """
        columns: dict[str, pa.Array] = {}
        for attribute in self.domain:
            values = pa.array([_value(attribute, code) for code in range(attribute.cells)], type=_kind(attribute))
            columns[attribute.name] = values.take(pa.array(self.codes[attribute.name]))
        if self.weights is not None:
            columns[weight_column_name(self.domain)] = pa.array(self.weights)
        return pa.table(columns)

    def to_pandas(self) -> Any:  # noqa: ANN401  from an optional library
        """Return the rows as a pandas frame."""
        return self.to_arrow().to_pandas()

    def write(self, path: str | Path) -> Path:
        """Write the rows to a Parquet, CSV or Arrow file, chosen by the suffix, and return its path."""
        place = check_output_path(path)
        table = self.to_arrow()
        try:
            match place.suffix:
                case ".parquet":
                    import pyarrow.parquet as pq

                    pq.write_table(table, place)
                case ".csv":
                    import pyarrow.csv as pc

                    pc.write_csv(table, place)
                case _:
                    import pyarrow.feather as pf

                    pf.write_feather(table, place, compression="uncompressed")
        except OSError as fault:
            raise InvalidRequest(f"{place.name} could not be written: {fault.strerror}.") from fault
        return place


def check_output_path(path: str | Path) -> Path:
    """Return a path that rows can be written to; refuse others before anything is charged."""
    place = Path(path)
    if place.suffix not in SUFFIXES or not place.parent.is_dir():
        instead = f"write a file in a folder that exists, that ends in {', '.join(SUFFIXES)}"
        raise InvalidRequest(f"{place} is no place for rows: {instead}.")
    return place


def weight_column_name(domain: Domain) -> str:
    """Return the name of the weight column: one that no attribute has."""
    name = "weight"
    while name in {other.casefold() for other in domain.names}:
        name += "_"
    return name


def round_rows(law: CellDistribution, count: int, *, seed: str) -> SyntheticRows:
    """Return `count` rows: the cells in order, one each time the running sum of weights passes a half."""
    number = to_integer(count, argument="count", lower=1, upper=MOST_ROWS)
    chance = _uniform_draws(seed)
    if isinstance(law, Mixture):
        if len(law.parts) > 1:
            raise InvalidRequest("A mean of beliefs in components is not rounded. Ask for sampled rows.")
        return round_rows(law.parts[0], count, seed=seed)
    parts = law.parts if isinstance(law, ComponentBelief) else (law,)
    codes: Codes = {}
    for place, part in enumerate(parts):
        sums = np.cumsum(part.probabilities().reshape(-1))
        edges = np.floor(sums / sums[-1] * number + 0.5).astype(np.int64)
        times = np.diff(edges, prepend=0)
        own = np.repeat(np.arange(times.size), times)[:number]
        if place:  # components are independent: their rows are matched at random
            own = own[np.argsort(chance(own.size), kind="stable")]
        codes |= _codes(part.support, own)
    return SyntheticRows(law.support.domain, {name: codes[name] for name in law.support.domain.names})


def sample_rows(law: CellDistribution, count: int, *, seed: str) -> SyntheticRows:
    """Return `count` rows, drawn independently."""
    number = to_integer(count, argument="count", lower=1, upper=MOST_ROWS)
    return SyntheticRows(law.support.domain, law.sample(number, _generator(seed)))


def weight_cells(law: CellDistribution, size: int, *, least: float) -> SyntheticRows:
    """Return the cells that weigh at least `least` rows, with their weights, which add up to `size`."""
    if isinstance(law, Mixture) and len(law.parts) == 1:
        return weight_cells(law.parts[0], size, least=least)
    if isinstance(law, ComponentBelief) and len(law.parts) == 1:
        return weight_cells(law.parts[0], size, least=least)
    if not isinstance(law, DenseBelief):
        if law.support.size > MOST_WEIGHTED or isinstance(law, Mixture):
            instead = "Ask for rounded or sampled rows."
            what = "A table with a row for each cell"
            raise TooManyCells(what, cells=law.support.size, limit=MOST_WEIGHTED, instead=instead)
        law = law.copied().tied(law.support.domain.names).parts[0]
    weights = law.probabilities().reshape(-1) * size
    kept = np.flatnonzero(weights >= min(least, float(weights.max())))
    own = weights[kept]
    return SyntheticRows(law.support.domain, _codes(law.support, kept), own * (size / own.sum()))


def _codes(support: Support, numbers: NDArray[np.int64]) -> Codes:
    places = np.unravel_index(numbers, support.shape)
    return {name: codes[own] for (name, codes), own in zip(support.codes.items(), places, strict=True)}


def _generator(seed: str) -> Generator:
    return default_rng(int(seed[:16] or "0", 16))


def _uniform_draws(seed: str) -> Callable[[int], NDArray[np.float64]]:
    return _generator(seed).random


def _value(attribute: Attribute, code: int) -> object:
    if code < attribute.size:
        value = attributes.code_label(attribute, code)
        return float(value) if isinstance(value, Fraction) else value
    return attributes.OUTSIDE if isinstance(attribute, attributes.Category) and code > attribute.size else None


def _kind(attribute: Attribute) -> pa.DataType:
    match attribute:
        case attributes.Category():
            return pa.string()
        case attributes.Integer():
            return pa.int64()
        case attributes.Number():
            return pa.float64()
        case attributes.Date():
            return pa.date32()
        case attributes.Boolean():
            return pa.bool_()
        case _:
            assert_never(attribute)
