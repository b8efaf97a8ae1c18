"""What is known before a release: public marginals, or an earlier release. It costs nothing, and moves no price."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.cells import BlockOnSupport
from dodona.knowledge.factored import Prior
from dodona.knowledge.fit import ObservedBlock
from dodona.schema.schema import Domain
from dodona.synth.model import SyntheticModel
from dodona.synth.run import Start, rescaled
from dodona.synth.workload import InvalidWorkload, Workload, marginal_block

PublicMarginals = Mapping[tuple[str, ...], Any]
"""Counts or shares by columns: arrays with an axis for each column, in the order in which they are named."""
_STEPS = 200
_DEVIATION = 1e-4
"""Of a share of public marginals: so far marginals that do not fit together may be apart."""


def know_start(
    workload: Workload, start: SyntheticModel | PublicMarginals | None, *, version: str, cells: int
) -> Start:
    """Return what a release begins with.

    Measurements of an earlier release of the same rows count as such, each with its noise. Public marginals, and
    releases of other rows, are where the model begins: what is measured takes their place.
    """
    if start is None:
        return Start()
    if isinstance(start, SyntheticModel):
        if start.schema.domain != workload.query.domain:
            raise InvalidWorkload(
                "The release to start from is of another table. Its columns must be declared the same."
            )
        part = start.size / max(1, start.schema.size)  # measurements are shares of the rows that count
        seen = [
            replace(rescaled(observation, part), multipliers=np.zeros(observation.values.size))
            for observation in start.seen
        ]
        known = tuple(observation for observation in seen if observation.block.attributes <= set(workload.names))
        if start.version == version:
            return Start(known=known, digest=_digest(known))
        return Start(base=_fit_marginals(workload, known, cells), digest=_digest(known))
    if not isinstance(start, Mapping):
        raise InvalidWorkload(
            f"{start!r:.60} is no start. Write an earlier model, or counts: {{('sex', 'age'): array}}."
        )
    marginals = [_public(workload.query.domain, names, counts) for names, counts in start.items()]
    inside = tuple(marginal for marginal in marginals if marginal.block.attributes <= set(workload.names))
    return Start(base=_fit_marginals(workload, inside, cells), digest=_digest(inside))


def _public(domain: Domain, names: str | Sequence[str], counts: object) -> ObservedBlock:
    """Return a public marginal; where it has values only, no row is missing or outside."""
    listed = (names,) if isinstance(names, str) else tuple(names)
    block = marginal_block(domain, listed)
    shape, values = ([getattr(domain[name], kind) for name in listed] for kind in ("cells", "size"))
    table = np.asarray(counts, dtype=np.float64)
    if table.shape not in {tuple(shape), tuple(values)}:
        wanted = " × ".join(map(str, values))
        raise InvalidWorkload(
            f"The public marginal of {', '.join(listed)} has shape {table.shape}; write {wanted} counts."
        )
    if not np.isfinite(table).all() or table.min() < 0 or table.sum() <= 0:
        raise InvalidWorkload(f"The public marginal of {', '.join(listed)} must have counts from 0, and some above.")
    padded = np.pad(table, [(0, cells - length) for cells, length in zip(shape, table.shape, strict=True)])
    ordered = padded.transpose([listed.index(name) for name in domain.names if name in listed])
    return ObservedBlock.of_shares(block, ordered.reshape(-1) / ordered.sum(), _DEVIATION**2)


def _fit_marginals(workload: Workload, known: Sequence[ObservedBlock], cells: int) -> Prior:
    """Return the logarithms of weights whose law has these marginals, those that a model of so many cells can hold."""
    belief, kept = workload.uniform(cells=cells), list[ObservedBlock]()
    for observation in known:
        if belief.holds([other.block for other in (*kept, observation)]):
            kept.append(observation)
    prior: dict[tuple[str, ...], NDArray[np.float64]] = {}
    for observation in belief.joined(kept).fitted(_STEPS).seen:
        shown = BlockOnSupport(observation.block, workload.support)
        names = tuple(workload.support.domain.names[place] for place in shown.places)
        groups = (
            shown.groups()
            if observation.block.keys
            else np.zeros([workload.support.shape[at] for at in shown.places], int)
        )
        table = np.where(shown.weights() != 0, observation.multipliers[groups], 0.0)
        prior[names] = prior[names] + table if names in prior else table
    return prior


def _digest(known: Sequence[ObservedBlock]) -> str:
    digest = hashlib.sha256()
    for observation in known:
        digest.update(f"{observation.block!r} {observation.variance.hex()}".encode())
        digest.update(np.ascontiguousarray(observation.values).tobytes())
    return digest.hexdigest()
