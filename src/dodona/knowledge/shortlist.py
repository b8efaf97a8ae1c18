"""Shortlists: which of a ledger's releases all that was learned depends on, so that a new process reads these alone.

Of many thousand answers most only repeat what was paid before. A shortlist holds places in the ledger and counts, no
values: every number still comes from a line of the chain, held to its hash. It is bound to the line of the last release
that it covers, and can be lost at any time: then everything is read, and it is written again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from dodona.knowledge.knowledge import Knowledge

FORMAT = 3
"""To be raised with every change in what is learned from a release."""
EVERY = 2000
"""After how many further releases it is written again."""
_LONGEST = 1 << 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortlist:
    """What the first releases of a ledger come to, for one version of a dataset."""

    seen: int
    """How many releases it covers."""
    line: int
    """The number of the line of the last of them, and its hash."""
    hash: str
    draws: tuple[int, int]
    """How many values were released, by noise law."""
    needed: list[int]
    """The places of the releases that changed what is known, apart from how often a rent was paid."""
    rents: Sequence[int]
    """How often each rent was paid."""
    several: Mapping[str, list[int]]
    """By the kind and the hint of a block, the places of the releases of several blocks that have it."""

    def __post_init__(self) -> None:
        """Refuse places that are not among the releases it covers, and anything else than numbers."""
        listed = [self.needed, *self.several.values()]
        if any(
            places != sorted(set(places)) or (places and not 0 < places[0] <= places[-1] <= self.seen)
            for places in listed
        ):
            raise ValueError
        if any(type(number) is not int for numbers in (*listed, self.rents, self.draws) for number in numbers):
            raise ValueError

    def restore_rents(self, knowledge: Knowledge) -> bool:
        """Set how often each rent was paid; return whether these are the rents of the releases that were learned."""
        rents = knowledge.asked.rents
        if len(rents) != len(self.rents) or any(
            rent.times > times for rent, times in zip(rents, self.rents, strict=True)
        ):
            return False
        for rent, times in zip(rents, self.rents, strict=True):
            rent.times = times
        return True


def place_beside(ledger: Path, *identity: str) -> Path:
    """Return where the shortlist of a version of a dataset is kept; what else it depends on is part of its name."""
    from dodona import __version__

    digest = sha256("\n".join((__version__, str(FORMAT), *identity)).encode()).hexdigest()
    return ledger.with_name(f"{ledger.name}.{digest[:16]}.shortlist")


def read_shortlist(path: Path) -> Shortlist | None:
    """Return the shortlist at a path; None if there is none, or it is damaged."""
    with suppress(OSError, ValueError, TypeError, RecursionError):
        if path.stat().st_size <= _LONGEST:
            digest, _, text = path.read_text(encoding="ascii").partition("\n")
            if digest == sha256(text.encode()).hexdigest():
                return Shortlist(**json.loads(text))
    return None


def write_shortlist(path: Path, shortlist: Shortlist, *, like: Path) -> None:
    """Write a shortlist in place of an earlier one, with the permissions of another file.

    If that fails, the next process reads more.
    """
    text = json.dumps({name: getattr(shortlist, name) for name in Shortlist.__slots__}, separators=(",", ":"))
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):
        try:
            with os.fdopen(os.open(new, flags, like.stat().st_mode & 0o666), "w", encoding="ascii") as file:
                file.write(f"{sha256(text.encode()).hexdigest()}\n{text}")
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
