"""Every mechanism of the texts that Dodona is based on, in one place, by the name that the texts give it.

The [map of the sources](../../docs/sources.md) says which theorem each comes from, and which test checks it. Mechanisms
state their price (`event`) and error (`accuracy`); `run`, `watch` and `interactive` draw from them without a ledger.

>>> from dodona.lab.textbook import Laplace, run
>>> type(run(Laplace(scale=2), 42))
<class 'int'>
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dodona.curator.weights import PrivateMultiplicativeWeights
    from dodona.lab.adaptive.holdout import ReusableHoldout
    from dodona.lab.adaptive.oracle import StatisticalQueryOracle
    from dodona.lab.composition import advanced, basic, product
    from dodona.lab.composition_game import play, worst_delta
    from dodona.lab.direct import interactive, run, watch
    from dodona.lab.local.question import SurveyQuestion as LocalQuestion
    from dodona.lab.mechanisms import (
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
    from dodona.lab.sparse_vector import above_threshold, claim_one, exact_verdict, numeric_sparse, sparse
    from dodona.lab.weights import (
        MultiplicativeWeights,
        cube_root,
        interactive_approximate,
        interactive_design,
        interactive_epsilon,
        square_root,
    )
    from dodona.privacy.scores import DatabaseScores
    from dodona.privacy.sparse_vector import EstimateChecker
    from dodona.synth.methods import Blr, Guaranteed, Mwem

__all__ = [  # in the order of the texts, subject by subject
    "Blr",
    "Coins",
    "DatabaseScores",
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
    "above_threshold",
    "advanced",
    "basic",
    "claim_one",
    "cube_root",
    "exact_verdict",
    "interactive",
    "interactive_approximate",
    "interactive_design",
    "interactive_epsilon",
    "numeric_sparse",
    "play",
    "product",
    "run",
    "sparse",
    "square_root",
    "watch",
    "worst_delta",
]  # fmt: skip

_HOMES = {
    "dodona.lab.mechanisms": (
        "RandomizedResponse", "Coins", "Laplace", "GridLaplace", "Gaussian", "Exponential", "NoisyMax",
        "PermuteAndFlip", "IteratedSelection", "SparseVector",
    ),
    "dodona.privacy.scores": ("DatabaseScores",),
    "dodona.privacy.sparse_vector": ("EstimateChecker",),
    "dodona.lab.sparse_vector": ("above_threshold", "sparse", "numeric_sparse", "exact_verdict", "claim_one"),
    "dodona.lab.weights": (
        "MultiplicativeWeights", "interactive_epsilon", "interactive_approximate", "cube_root", "square_root",
    ),
    "dodona.curator.weights": ("PrivateMultiplicativeWeights",),
    "dodona.synth.methods": ("Blr", "Mwem", "Guaranteed"),
    "dodona.lab.adaptive.oracle": ("StatisticalQueryOracle",),
    "dodona.lab.adaptive.holdout": ("ReusableHoldout",),
    "dodona.lab.composition": ("basic", "advanced", "product"),
    "dodona.lab.composition_game": ("play", "worst_delta"),
    "dodona.lab.direct": ("run", "watch", "interactive"),
}  # fmt: skip
_OTHER_NAMES = {
    "interactive_design": ("dodona.lab.weights", "interactive_design"),
    "LocalQuestion": ("dodona.lab.local.question", "SurveyQuestion"),
}
_LAZY = {name: (module, name) for module, names in _HOMES.items() for name in names} | _OTHER_NAMES


def __getattr__(name: str) -> object:
    """Return a mechanism, imported on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dodona.lab.textbook' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(_LAZY)
