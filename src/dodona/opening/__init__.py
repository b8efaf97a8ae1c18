"""Opening a dataset: from the owner's file, or from a frame, to a curator."""

from dodona.opening.opening import create_ledger, open_dataset, rehearse

__all__ = ["create_ledger", "open_dataset", "rehearse"]
