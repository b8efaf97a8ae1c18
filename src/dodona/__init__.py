"""Dodona: a private oracle for data.

A sensitive table stands behind a privacy budget; analysts ask as many questions as they like; every answer is a little
noisy, carries an honest error bar, and tells about the crowd and never about a person.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dodona.adaptive.holdout import ReusableHoldout
    from dodona.adaptive.oracle import StatisticalQueryOracle
    from dodona.domain.attribute import Boolean, Category, Date, Integer, Number
    from dodona.domain.domain import Domain
    from dodona.domain.schema import Schema
    from dodona.domain.unit import Unit
    from dodona.offline.release import release
    from dodona.offline.workload import Workload
    from dodona.opening import create_ledger, open_dataset, rehearse
    from dodona.policy import Analyst, Budget
    from dodona.query.query import Query

    open = open_dataset  # noqa: A001  the surface: dodona.open

__all__ = [
    "Analyst", "Boolean", "Budget", "Category", "Date", "Domain", "Integer", "Number", "Query", "ReusableHoldout",
    "Schema", "StatisticalQueryOracle", "Unit", "Workload", "create_ledger", "rehearse", "release",
]  # fmt: skip
# `dodona.open` is not among them: `from dodona import *` would put it in the place of Python's own `open`.

__version__ = "0.1.0"

_LAZY = {
    "open": ("dodona.opening", "open_dataset"),
    "rehearse": ("dodona.opening", "rehearse"),
    "create_ledger": ("dodona.opening", "create_ledger"),
    "release": ("dodona.offline.release", "release"),
    "Workload": ("dodona.offline.workload", "Workload"),
    "Budget": ("dodona.policy", "Budget"),
    "Analyst": ("dodona.policy", "Analyst"),
    "Query": ("dodona.query.query", "Query"),
    "Schema": ("dodona.domain.schema", "Schema"),
    "Unit": ("dodona.domain.unit", "Unit"),
    "Domain": ("dodona.domain.domain", "Domain"),
    "Boolean": ("dodona.domain.attribute", "Boolean"),
    "Category": ("dodona.domain.attribute", "Category"),
    "Date": ("dodona.domain.attribute", "Date"),
    "Integer": ("dodona.domain.attribute", "Integer"),
    "Number": ("dodona.domain.attribute", "Number"),
    "ReusableHoldout": ("dodona.adaptive.holdout", "ReusableHoldout"),
    "StatisticalQueryOracle": ("dodona.adaptive.oracle", "StatisticalQueryOracle"),
}


def __getattr__(name: str) -> object:
    """Return a part of the surface; it is imported when it is first used, so that `import dodona` is light."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dodona' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
