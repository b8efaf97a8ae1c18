"""Opening a dataset: from the owner's file, or from a frame, to a curator."""

from dodona.dataset.file import DatasetFile
from dodona.dataset.opening import create_ledger, open_dataset, open_dataset_ledger, rehearse

__all__ = ["DatasetFile", "create_ledger", "open_dataset", "open_dataset_ledger", "rehearse"]
