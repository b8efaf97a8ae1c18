"""Synthetic rows of a model: rounded, sampled or weighted."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.random import Generator, default_rng  # noqa: TID251  rows of a public law; the seed is public too
from numpy.typing import NDArray

from dodona.errors import InvalidRequest
from dodona.knowledge.binned import BinnedLaw
from dodona.knowledge.cells import Places, Support, TooManyCells
from dodona.knowledge.factored import FactoredBelief
from dodona.knowledge.mixture import CellDistribution, Mixture
from dodona.numbers import to_integer
from dodona.query.predicate import NOTHING, Predicate, evaluate_predicate
from dodona.synth.matching import match_rows
from dodona.synth.table import SyntheticRows

Codes = dict[str, NDArray[np.int64]]

MOST_ROWS = 10**9
MOST_WEIGHTED = 1 << 24
_MOST_TRIES = 1 << 22
_RAREST = 10**6


def round_rows(law: CellDistribution, count: int, *, seed: str, wanted: Sequence[Places] = ()) -> SyntheticRows:
    """Return `count` rows in proportion to the law.

    Of a dense law: the cells in order, one each time the running sum of weights passes a half. Of a factored one: rows
    drawn clique by clique, and then changed where that brings them nearer to its marginals, those that were observed
    and the wanted ones that a clique holds.
    """
    number = to_integer(count, argument="count", lower=1, upper=MOST_ROWS)
    if isinstance(law, Mixture):
        if len(law.parts) > 1:
            raise InvalidRequest("A mean of several factored models is not rounded. Ask for sampled rows.")
        return round_rows(law.parts[0], count, seed=seed, wanted=wanted)
    if isinstance(law, BinnedLaw):
        rows = _matched_rows(law.coarse, number, seed, wanted)
        return replace(rows, codes=law.spread(rows.codes, make_generator(seed[8:])))
    if isinstance(law, FactoredBelief):
        return _matched_rows(law, number, seed, wanted)
    sums = np.cumsum(law.probabilities().reshape(-1))
    edges = np.floor(sums / sums[-1] * number + 0.5).astype(np.int64)
    times = np.diff(edges, prepend=0)
    cells = np.repeat(np.arange(times.size), times)[:number]
    return SyntheticRows(law.support.domain, _codes(law.support, cells))


def _matched_rows(law: FactoredBelief, count: int, seed: str, wanted: Sequence[Places]) -> SyntheticRows:
    chance = make_generator(seed)
    rows = law.rows(count, chance)
    loose = {place for observation in law.loose for place in law.support.places(observation.block.attributes)}
    matched = law.held(() if loose else wanted)  # where rows are far off, what was measured goes first
    match_rows(rows, law.support.shape, law.laws(matched), chance, first=loose)
    codes = {name: column[rows[:, place]] for place, (name, column) in enumerate(law.support.codes.items())}
    return SyntheticRows(law.support.domain, codes)


def sample_rows(law: CellDistribution, count: int, *, seed: str) -> SyntheticRows:
    """Return `count` rows, drawn independently."""
    number = to_integer(count, argument="count", lower=1, upper=MOST_ROWS)
    return SyntheticRows(law.support.domain, law.sample(number, make_generator(seed)))


def weight_cells(law: CellDistribution, size: int, *, least: float) -> SyntheticRows:
    """Return the cells that weigh at least `least` rows, with their weights, which add up to `size`."""
    if isinstance(law, Mixture) and len(law.parts) == 1:
        return weight_cells(law.parts[0], size, least=least)
    limit = law.limit if isinstance(law, FactoredBelief) else MOST_WEIGHTED
    fits = law.support.size <= limit if not isinstance(law, FactoredBelief | BinnedLaw) else law.whole
    fits = fits and law.support.size <= MOST_WEIGHTED
    if not fits or isinstance(law, Mixture):
        instead = "Ask for rounded or sampled rows."
        what = "A table with a row for each cell"
        raise TooManyCells(what, cells=law.support.size, limit=limit, instead=instead)
    weights = law.probabilities().reshape(-1) * size
    kept = np.flatnonzero(weights >= min(least, float(weights.max())))
    kept_weights = weights[kept]
    return SyntheticRows(law.support.domain, _codes(law.support, kept), kept_weights * (size / kept_weights.sum()))


def redraw_rows(rows: SyntheticRows, law: CellDistribution, refused: Predicate, *, seed: str) -> SyntheticRows:
    """Return the rows with those that a predicate refuses replaced by draws of the law that it does not refuse.

    Weighted rows are left out instead, and the others weigh more.
    """
    if refused == NOTHING:
        return rows
    bad = np.broadcast_to(evaluate_predicate(refused, rows.codes), (len(rows),))
    number = int(bad.sum())
    if not number:
        return rows
    if rows.weights is not None:
        return _leave_out(rows, bad)
    chance, batches, tried = make_generator(seed), list[Codes](), 0
    accepted = 0
    while accepted < number:
        if tried >= _MOST_TRIES and accepted * _RAREST < tried:
            raise InvalidRequest(
                "The model gives almost no weight to rows as they are wanted: fewer than one of a million draws. Ask "
                "for fewer conditions, or look at the constraints of the dataset file."
            )
        size = int(np.clip(2 * (number - accepted) * max(1.0, tried / max(1, accepted)), 1 << 12, 1 << 18))
        drawn = law.sample(size, chance)
        good = ~np.broadcast_to(evaluate_predicate(refused, drawn), (size,))
        batches.append({name: column[good] for name, column in drawn.items()})
        tried, accepted = tried + size, accepted + int(good.sum())
    codes = {}
    for name, column in rows.codes.items():
        codes[name] = column.copy()
        codes[name][bad] = np.concatenate([batch[name] for batch in batches])[:number]
    return replace(rows, codes=codes, redrawn=number)


def _leave_out(rows: SyntheticRows, bad: NDArray[np.bool_]) -> SyntheticRows:
    weights = np.zeros(0) if rows.weights is None else rows.weights[~bad]
    if not weights.size:
        raise InvalidRequest("The model gives weight only to rows that constraints forbid. Look at the dataset file.")
    total = 0.0 if rows.weights is None else float(rows.weights.sum())
    codes = {name: column[~bad] for name, column in rows.codes.items()}
    return replace(rows, codes=codes, weights=weights * (total / weights.sum()), redrawn=int(bad.sum()))


def _codes(support: Support, numbers: NDArray[np.int64]) -> Codes:
    places = np.unravel_index(numbers, support.shape)
    return {name: codes[indices] for (name, codes), indices in zip(support.codes.items(), places, strict=True)}


def make_generator(seed: str) -> Generator:
    """Return the generator of a public seed, a text of hexadecimal digits."""
    return default_rng(int(seed[:16] or "0", 16))
