"""Sets of combinations: which cells of a few attributes are meant together, from a table or a list."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING

import numpy as np

from dodona.domain.attribute import Attribute, cells
from dodona.errors import InvalidArgument
from dodona.query.bits import packed
from dodona.query.predicate import MOST_COMBINATIONS, MOST_TOGETHER, Jointly, Predicate, simplest

if TYPE_CHECKING:
    from numpy.typing import NDArray


def jointly(attributes: Sequence[Attribute], members: NDArray[np.bool_] | Iterable[Sequence[int]]) -> Predicate:
    """Return the rows whose combination of codes is one of these.

    Members are a table of truth values, with an axis an attribute in the order given, or a list with a code of each
    attribute. The predicate is the simplest one: attributes that make no difference are left out, and a product of sets
    is a conjunction.

    >>> from dodona.domain.attribute import Boolean
    >>> planned, urgent = Boolean("planned", otherwise=False), Boolean("urgent", otherwise=False)
    >>> jointly([urgent, planned], [(0, 1), (1, 0)])
    Jointly(names=('planned', 'urgent'), shape=(2, 2), codes=0x6)
    """
    shape = bounded(attributes)
    names = [attribute.name for attribute in attributes]
    table = _table(shape, members)
    order = sorted(range(len(names)), key=names.__getitem__)
    codes = packed(table.transpose(order))
    return simplest(Jointly(tuple(names[place] for place in order), tuple(shape[place] for place in order), codes))


def bounded(attributes: Sequence[Attribute]) -> tuple[int, ...]:
    """Return how many cells attributes have; refuses one that comes twice, and too many combinations."""
    names, shape = [attribute.name for attribute in attributes], tuple(map(cells, attributes))
    if len(set(names)) < len(names):
        raise InvalidArgument("attributes", names, "write each attribute once")
    if math.prod(shape) > MOST_COMBINATIONS or len(names) > MOST_TOGETHER:
        accepted = f"look at no more than {MOST_COMBINATIONS} combinations of cells together, or join sets with & and |"
        raise InvalidArgument("attributes", f"{math.prod(shape)} combinations", accepted)
    return shape


def _table(shape: tuple[int, ...], members: NDArray[np.bool_] | Iterable[Sequence[int]]) -> NDArray[np.bool_]:
    """Return members as a table of truth values."""
    if isinstance(members, np.ndarray) and members.dtype == np.bool_:
        if members.shape not in {shape, (math.prod(shape),)}:
            raise InvalidArgument("members", f"a table of shape {members.shape}", f"write one of shape {shape}")
        return members.reshape(shape)
    found = np.zeros(shape, dtype=np.bool_)
    for member in members:
        codes = tuple(map(index, member))
        if len(codes) != len(shape) or not all(0 <= code < number for code, number in zip(codes, shape, strict=True)):
            accepted = f"write a code of each attribute, below {', '.join(map(str, shape))}"
            raise InvalidArgument("members", codes, accepted)
        found[codes] = True
    return found
