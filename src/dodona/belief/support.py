"""The support of a belief: the codes of each attribute that may have weight, and the product that they make."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from dodona.domain.attribute import cells
from dodona.domain.domain import Domain
from dodona.errors import InvalidArgument
from dodona.query.bits import bits
from dodona.query.predicate import Axes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Support:
    """A product of codes, in the domain's order of attributes; the last attribute runs fastest.

    `Support.of(domain)` has every cell. `Support.values(domain)` leaves `<missing>` and `<outside>` out, so that `d`
    booleans make 2^d cells; a belief on it holds that no row is there.
    """

    domain: Domain
    masks: tuple[int, ...]
    """For each attribute, bit i says whether code i may have weight."""
    codes: Mapping[str, NDArray[np.int64]] = field(init=False, repr=False, compare=False, hash=False)
    """The codes of each attribute, rising."""
    axes: Axes = field(init=False, repr=False, compare=False, hash=False)
    """The codes in shapes that broadcast to the product."""
    shape: tuple[int, ...] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        """Refuse attributes without a code, and codes that an attribute does not have."""
        codes, axes = {}, {}
        if len(self.masks) != len(self.domain.attributes):
            raise InvalidArgument("masks", len(self.masks), f"write one for each of {len(self.domain.names)} columns")
        for place, (attribute, mask) in enumerate(zip(self.domain, self.masks, strict=True)):
            if not 0 < mask < 1 << cells(attribute):
                accepted = f"write bits of the {cells(attribute)} cells, one at least"
                raise InvalidArgument(f"masks[{place}]", attribute.name, accepted)
            own = codes[attribute.name] = np.flatnonzero(bits(mask, cells(attribute))).astype(np.int64, copy=False)
            axes[attribute.name] = own.reshape([-1 if other == place else 1 for other in range(len(self.masks))])
        object.__setattr__(self, "codes", codes)
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "shape", tuple(len(own) for own in codes.values()))

    @classmethod
    def of(cls, domain: Domain) -> Self:
        """Return the support with every cell of a domain."""
        return cls(domain, tuple((1 << cells(attribute)) - 1 for attribute in domain))

    @classmethod
    def values(cls, domain: Domain) -> Self:
        """Return the support with all values, without `<missing>` and `<outside>`."""
        return cls(domain, tuple((1 << attribute.size) - 1 for attribute in domain))

    @property
    def size(self) -> int:
        """How many cells it has."""
        return math.prod(self.shape)

    def project(self, names: Iterable[str]) -> Self:
        """Return the support of some attributes, in this one's order."""
        domain = self.domain.project(names)
        masks = dict(zip(self.domain.names, self.masks, strict=True))
        return type(self)(domain, tuple(masks[name] for name in domain.names))

    def places(self, names: Iterable[str]) -> tuple[int, ...]:
        """Return the numbers of attributes, rising."""
        wanted = set(names)
        return tuple(place for place, name in enumerate(self.domain.names) if name in wanted)
