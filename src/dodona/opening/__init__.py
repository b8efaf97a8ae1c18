"""Opening a dataset: from the owner's file, or from a frame, to a curator."""

from dodona.opening.file import DatasetFile
from dodona.opening.opening import create_ledger, ledger_of, open_dataset, rehearse

__all__ = ["DatasetFile", "create_ledger", "ledger_of", "open_dataset", "rehearse"]
