"""What is said of a model's guess: which of its intervals bound it, and which bound nothing."""

from __future__ import annotations

import math

from dodona.answer.claim import Guessed
from dodona.answer.derived import Derived, Evidence

_BOUNDED = "This is the model's guess; its interval is all that earlier answers leave possible."
_ESTIMATED = "This is the model's guess; its error is not bounded."
_UNTOLD = "It has no interval where none is honest that is narrower than the whole table."


def warnings(evidence: Evidence, failing: float) -> tuple[str, ...]:
    """Return what a reader should know of guesses whose intervals fail with a probability."""
    laws = (
        [law for own in evidence.laws for law in own if isinstance(law, Guessed)]
        if isinstance(evidence, Derived)
        else []
    )
    found = [_BOUNDED if laws and all(law.bounded(failing) for law in laws) else _ESTIMATED]
    if any(math.isinf(law.quantile(failing)) for law in laws):
        found.append(_UNTOLD)
    return tuple(found)
