"""What was told before: released blocks by digest, from the ledger alone, so that telling them again is free."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass

from dodona.domain.domain import Domain
from dodona.errors import InvalidRequest
from dodona.ledger.contract import Ledger
from dodona.mechanisms.measurement import Noise, noises_from
from dodona.query.canonical import block_digests
from dodona.query.query import Query
from dodona.query.spelling import from_json


@dataclass(frozen=True, slots=True)
class Told:
    """The noisy integers of one block, their noise, and the receipt that bought them."""

    values: tuple[int, ...]
    noise: Noise
    receipt: str


class Memory:
    """All released blocks of one dataset and version. It follows the ledger."""

    def __init__(self, ledger: Ledger, domain: Domain, *, dataset: str, version: str) -> None:
        """Read what there is when it is first needed."""
        self._ledger, self._domain = ledger, domain
        self._of = (dataset, version)
        self._blocks: defaultdict[str, list[Told]] = defaultdict(list)
        self._expected: dict[str, Query] = {}
        self._read = 0
        self._lock = threading.Lock()

    def recall(self, query: Query) -> list[list[Told]] | None:
        """Return for each block all that was told of it, the least noisy first; None where one was never told."""
        with self._lock:
            self._follow()
            if not self._blocks:
                return None
            found = []
            for known in block_digests(query):
                told = self._blocks.get(known)
                if told is None:
                    return None
                found.append(sorted(told, key=lambda one: one.noise.scale))
            return found

    def expect(self, receipt: str, query: Query) -> None:
        """Take a query that was just released, so that it need not be read back from its spelling."""
        with self._lock:
            self._expected[receipt] = query

    def _follow(self) -> None:
        for receipt, release in self._ledger.releases(after=self._read):
            self._read += 1
            query = self._expected.pop(receipt.id, None)
            if (receipt.dataset, receipt.version) != self._of or release.question is None:
                continue
            try:
                noises = noises_from(release.mechanism)
                query = from_json(release.question, self._domain) if query is None else query
            except InvalidRequest:
                continue  # a choice, or a question about columns that are no longer declared
            values, start = release.values, 0
            for known, block, noise in zip(block_digests(query), query.blocks, noises, strict=True):
                own = tuple(int(value) for value in values[start : start + block.values])
                start += block.values
                self._blocks[known].append(Told(own, noise, receipt.id))
