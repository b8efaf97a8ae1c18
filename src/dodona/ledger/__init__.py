"""What has been spent: receipts, releases, and the durable hash chain that records them.

The names below are for other packages. They are imported lazily, as stores load slowly.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dodona.ledger.entries import Receipt, Release
    from dodona.ledger.errors import BudgetExhausted, NotPermitted
    from dodona.ledger.ledger import Ledger
    from dodona.ledger.memory import create_memory_ledger
    from dodona.ledger.opening import LedgerTerms, create_ledger_at, open_ledger, recover_ledger
    from dodona.ledger.store import Reservation

__all__ = [
    "BudgetExhausted", "Ledger", "LedgerTerms", "NotPermitted", "Receipt", "Release", "Reservation",
    "create_ledger_at", "create_memory_ledger", "open_ledger", "recover_ledger",
]  # fmt: skip

_MODULES = {
    "entries": ("Receipt", "Release"),
    "errors": ("BudgetExhausted", "NotPermitted"),
    "ledger": ("Ledger",),
    "memory": ("create_memory_ledger",),
    "opening": ("LedgerTerms", "create_ledger_at", "open_ledger", "recover_ledger"),
    "store": ("Reservation",),
}
_LAZY = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import and return a public name of this package."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
