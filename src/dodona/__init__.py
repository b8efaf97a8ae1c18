"""Dodona: a private oracle for data.

A sensitive table stands behind a privacy budget; analysts ask as many questions as they like; every answer is a little
noisy, carries an honest error bar, and tells about the crowd and never about a person.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dodona.client import connect as connect
    from dodona.client import connect_async as connect_async
    from dodona.curator.curator import Curator
    from dodona.dataset import create_ledger, open_dataset, rehearse
    from dodona.lab import local, mechanisms, textbook
    from dodona.lab.adaptive.holdout import ReusableHoldout
    from dodona.lab.adaptive.oracle import StatisticalQueryOracle
    from dodona.privacy.budget import Analyst, Budget
    from dodona.query.query import Query
    from dodona.schema.attributes import Boolean, Category, Date, Integer, Number, Timestamp
    from dodona.schema.schema import ComputedColumn, Constraint, Domain, LinkedTable, PublicTable, Schema, Unit
    from dodona.synth.synthesize import quote_synthesis, synthesize
    from dodona.synth.workload import Workload

    open = open_dataset  # noqa: A001  the surface: dodona.open

__all__ = [
    "Analyst", "Boolean", "Budget", "Category", "ComputedColumn", "Constraint", "Curator", "Date", "Domain", "Integer",
    "LinkedTable", "Number", "PublicTable", "Query", "ReusableHoldout", "Schema", "StatisticalQueryOracle", "Timestamp",
    "Unit", "Workload", "create_ledger", "local", "mechanisms", "quote_synthesis", "rehearse", "synthesize", "textbook",
]  # fmt: skip
# `dodona.open` is not among them: `from dodona import *` would put it in the place of Python's own `open`. Neither are
# `dodona.connect` and `dodona.connect_async`: they need httpx, which a local installation may not have.

__version__ = "0.1.0"

_LAZY = {
    "open": ("dodona.dataset", "open_dataset"),
    "connect": ("dodona.client", "connect"),
    "connect_async": ("dodona.client", "connect_async"),
    "rehearse": ("dodona.dataset", "rehearse"),
    "create_ledger": ("dodona.dataset", "create_ledger"),
    "synthesize": ("dodona.synth.synthesize", "synthesize"),
    "quote_synthesis": ("dodona.synth.synthesize", "quote_synthesis"),
    "Workload": ("dodona.synth.workload", "Workload"),
    "Curator": ("dodona.curator.curator", "Curator"),
    "Budget": ("dodona.privacy.budget", "Budget"),
    "Analyst": ("dodona.privacy.budget", "Analyst"),
    "Query": ("dodona.query.query", "Query"),
    "Schema": ("dodona.schema.schema", "Schema"),
    "Unit": ("dodona.schema.schema", "Unit"),
    "Domain": ("dodona.schema.schema", "Domain"),
    "LinkedTable": ("dodona.schema.schema", "LinkedTable"),
    "ComputedColumn": ("dodona.schema.schema", "ComputedColumn"),
    "PublicTable": ("dodona.schema.schema", "PublicTable"),
    "Boolean": ("dodona.schema.attributes", "Boolean"),
    "Category": ("dodona.schema.attributes", "Category"),
    "Constraint": ("dodona.schema.schema", "Constraint"),
    "Date": ("dodona.schema.attributes", "Date"),
    "Timestamp": ("dodona.schema.attributes", "Timestamp"),
    "Integer": ("dodona.schema.attributes", "Integer"),
    "Number": ("dodona.schema.attributes", "Number"),
    "local": ("dodona.lab.local", ""),
    "mechanisms": ("dodona.lab.mechanisms", ""),
    "textbook": ("dodona.lab.textbook", ""),
    "ReusableHoldout": ("dodona.lab.adaptive.holdout", "ReusableHoldout"),
    "StatisticalQueryOracle": ("dodona.lab.adaptive.oracle", "StatisticalQueryOracle"),
}


def __getattr__(name: str) -> object:
    """Return a part of the surface; it is imported when it is first used, so that `import dodona` is light."""
    if name not in _LAZY:
        raise AttributeError(f"module 'dodona' has no attribute {name!r}")
    place, attribute = _LAZY[name]
    try:
        module = import_module(place)
    except ModuleNotFoundError as missing:
        if missing.name is None or not missing.name.startswith("dodona."):
            raise
        why = f"dodona.{name} is no part of dodona-client, which only asks servers: install dodona instead."
        raise ModuleNotFoundError(why, name=missing.name) from missing
    return getattr(module, attribute) if attribute else module


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
