"""One call of an act, as the functions that carry it out see it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dodona.errors import DodonaError
from dodona.server.acts import DatasetUnavailable
from dodona.server.link import Caller, Progress, Reply

if TYPE_CHECKING:
    from dodona.server.datasets import Datasets, Opened

_LOG = logging.getLogger("dodona.server.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActCall:
    """One call, as a worker sees it."""

    act: str
    dataset: str
    """Empty for acts that concern no dataset."""
    caller: Caller
    arguments: Mapping[str, object]
    accept: str
    owners: bool
    """Whether it came through the owners' socket."""
    datasets: Datasets
    progress: Progress
    only_free: bool = False
    """Whether it must return None rather than spend."""

    @property
    def opened(self) -> Opened:
        """The dataset, opened for all callers; analysts do not learn why it could not be."""
        try:
            return self.datasets.open(self.dataset)
        except DodonaError as fault:
            if self.owners or fault.http_status == 404:  # noqa: PLR2004  there is none of that name
                raise
            _LOG.error("opening a dataset failed: %s", type(fault).__name__)
            raise DatasetUnavailable from None

    @property
    def key(self) -> str:
        """The key of a call that spends."""
        return str(self.arguments["key"])


class RunLater(Exception):
    """Raised by an act that was replied to, and has a long part that the dispatcher shall have run."""

    def __init__(self, reply: Reply) -> None:
        """Take the reply."""
        super().__init__()
        self.reply = reply
