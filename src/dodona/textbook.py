"""Every mechanism of the texts that Dodona is built from, in one place, by the name that the texts give it.

The [map of the sources](../../docs/sources.md) says which theorem each comes from, and which test holds it. Mechanisms
state their price (`event`) and error (`accuracy`); `run`, `watch` and `interactive` draw from them without a ledger.

>>> from dodona.textbook import Laplace, run
>>> type(run(Laplace(scale=2), 42))
<class 'int'>
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dodona.accounting.composition import advanced, basic, product
    from dodona.accounting.game import play, worst_delta
    from dodona.adaptive.holdout import ReusableHoldout
    from dodona.adaptive.oracle import StatisticalQueryOracle
    from dodona.direct import interactive, run, watch
    from dodona.local.question import Question as LocalQuestion
    from dodona.mechanisms import (
        Coins,
        Exponential,
        Gaussian,
        GridLaplace,
        IteratedSelection,
        Laplace,
        NoisyMax,
        PermuteAndFlip,
        RandomizedResponse,
        SparseVector,
    )
    from dodona.mechanisms.databases import Databases
    from dodona.mechanisms.estimate_checker import EstimateChecker, claim_one, exact_verdict
    from dodona.offline.method import Blr, Guaranteed, Mwem
    from dodona.online.weights.multiplicative import MultiplicativeWeights
    from dodona.online.weights.private import PrivateMultiplicativeWeights
    from dodona.online.weights.textbook import cube_root, interactive_approximate, interactive_epsilon, square_root
    from dodona.online.weights.textbook import interactive as interactive_design

__all__ = [  # in the order of the texts, subject by subject
    "Blr",
    "Coins",
    "Databases",
    "EstimateChecker",
    "Exponential",
    "Gaussian",
    "GridLaplace",
    "Guaranteed",
    "IteratedSelection",
    "Laplace",
    "LocalQuestion",
    "MultiplicativeWeights",
    "Mwem",
    "NoisyMax",
    "PermuteAndFlip",
    "PrivateMultiplicativeWeights",
    "RandomizedResponse",
    "ReusableHoldout",
    "SparseVector",
    "StatisticalQueryOracle",
    "advanced",
    "basic",
    "claim_one",
    "cube_root",
    "exact_verdict",
    "interactive",
    "interactive_approximate",
    "interactive_design",
    "interactive_epsilon",
    "play",
    "product",
    "run",
    "square_root",
    "watch",
    "worst_delta",
]  # fmt: skip

_HOMES = {
    "dodona.mechanisms": (
        "RandomizedResponse", "Coins", "Laplace", "GridLaplace", "Gaussian", "Exponential", "NoisyMax",
        "PermuteAndFlip", "IteratedSelection", "SparseVector",
    ),
    "dodona.mechanisms.databases": ("Databases",),
    "dodona.mechanisms.estimate_checker": ("EstimateChecker", "exact_verdict", "claim_one"),
    "dodona.online.weights.textbook": (
        "interactive_epsilon", "interactive_approximate", "cube_root", "square_root",
    ),
    "dodona.online.weights.multiplicative": ("MultiplicativeWeights",),
    "dodona.online.weights.private": ("PrivateMultiplicativeWeights",),
    "dodona.offline.method": ("Blr", "Mwem", "Guaranteed"),
    "dodona.adaptive.oracle": ("StatisticalQueryOracle",),
    "dodona.adaptive.holdout": ("ReusableHoldout",),
    "dodona.accounting.composition": ("basic", "advanced", "product"),
    "dodona.accounting.game": ("play", "worst_delta"),
    "dodona.direct": ("run", "watch", "interactive"),
}  # fmt: skip
_OTHER_NAMES = {
    "interactive_design": ("dodona.online.weights.textbook", "interactive"),
    "LocalQuestion": ("dodona.local.question", "Question"),
}
_LAZY = {name: (module, name) for module, names in _HOMES.items() for name in names} | _OTHER_NAMES


def __getattr__(name: str) -> object:
    """Return a mechanism; it is imported when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dodona.textbook' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(_LAZY)
