"""Released blocks by digest, read from the ledger, so that replaying an answer is free."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from dodona.answer.view import DrawCounts, count_draws
from dodona.errors import InvalidRequest
from dodona.knowledge.knowledge import Knowledge
from dodona.ledger.entries import Release
from dodona.ledger.ledger import Ledger
from dodona.privacy.measurement import Measurement, Noise, ResidualMeasurement, noises_from_text, residuals_from_text
from dodona.query.canonical import block_digest, block_digests, from_json
from dodona.query.query import Block, CaseWeight, ConstantWeight, Query, ValueWeight, weight_range
from dodona.schema.schema import Domain
from dodona.trusted.source import SourceFailed


@dataclass(frozen=True, slots=True)
class ReleasedBlock:
    """The noisy integers of one block, their noise, and the receipt that bought them."""

    values: tuple[int, ...]
    noise: Noise
    receipt: str


class ReleasedBlocks:
    """All released blocks of one version of a dataset, kept up to date with the ledger."""

    def __init__(
        self, ledger: Ledger, domain: Domain, *, dataset: str, version: str, rows: Callable[[], int | None]
    ) -> None:
        """Read lazily; the number of rows, if it is public, is read with the first release."""
        self.knowledge = Knowledge(domain)
        self._rows: Callable[[], int | None] | None = rows
        self._ledger, self._domain = ledger, domain
        self._of = (dataset, version)
        self._blocks: defaultdict[str, list[ReleasedBlock]] = defaultdict(list)
        self._place: dict[str, int] = {}  # index of the release of each receipt
        self._waiting: defaultdict[bool, list[tuple[Block, ReleasedBlock, str | None]]] = defaultdict(list)
        self._expected: dict[str, Measurement | ResidualMeasurement] = {}
        self._read: set[str] = set()
        self.seen = 0
        """How many releases of the ledger were read."""
        self._draws = DrawCounts()
        self.lock = threading.RLock()
        """Whoever reads the knowledge holds it: another thread may be adding to it."""

    @property
    def draws(self) -> DrawCounts:
        """The number of values released so far, including new releases that are not yet read back."""
        with self.lock:
            found = self._draws
            for measured in self._expected.values():
                found = _count_draws(measured, found)
            return found

    @property
    def tells(self) -> bool:
        """Whether any block was released in the form it was asked for."""
        return bool(self._waiting or self._blocks)

    def recall(self, query: Query) -> list[list[ReleasedBlock] | None]:
        """Return all releases of each block, oldest first; None for a block that was never released."""
        with self.lock:
            if not self.tells:
                return [None] * len(query.blocks)
            # A count may have been asked as a sum of cases. Digests of sums are slow, so counts leave them out.
            for kind in (True,) if all(map(_counts, query.blocks)) else (True, False):
                self._name(kind)
            return [self._blocks.get(digest) for digest in block_digests(query)]

    def _name(self, kind: bool) -> None:  # noqa: FBT001  a key
        """Index the blocks of one kind by digest."""
        for block, told, known in self._waiting.pop(kind, ()):
            same = self._blocks[known or block_digest(block, self._domain)]
            same.append(told)
            if len(same) > 1:
                same.sort(key=lambda one: self._place[one.receipt])

    def expect(self, receipt: str, measured: Measurement | ResidualMeasurement) -> None:
        """Take a new release, so that it need not be parsed from the ledger."""
        with self.lock:
            if receipt not in self._read:  # another thread may have read it back meanwhile
                self._expected[receipt] = measured

    def follow(self) -> Knowledge:
        """Return the knowledge after reading all releases so far."""
        with self.lock:
            self._follow()
            return self.knowledge

    def _follow(self) -> None:
        for receipt, release in self._ledger.releases(after=self.seen):
            if (receipt.dataset, receipt.version) == self._of and release.question is not None:
                self.begin()  # before the release counts as read: reading the table may fail
            self.seen += 1
            self._read.add(receipt.id)
            measured = self._expected.pop(receipt.id, None)
            if (receipt.dataset, receipt.version) != self._of or release.question is None:
                continue
            try:
                measured = self._read_back(release) if measured is None else measured
            except InvalidRequest:
                continue  # a selection, or a question about columns that are no longer declared
            values = tuple(int(value) for value in release.values)
            self._draws = _count_draws(measured, self._draws)
            if isinstance(measured, ResidualMeasurement):
                self.knowledge.learn_residuals(receipt, measured, values)
                continue
            self._place[receipt.id] = self.seen
            start, blocks = 0, measured.query.blocks
            # The purpose of a receipt is the digest of its query, which equals that of its block if there is just one.
            known = receipt.purpose if len(blocks) == 1 else None
            for block, noise in zip(blocks, measured.noises, strict=True):
                told = ReleasedBlock(values[start : start + block.values], noise, receipt.id)
                self._waiting[_counts(block)].append((block, told, known))
                start += block.values
            self.knowledge.learn(receipt, measured, values)

    @property
    def begun(self) -> bool:
        """Whether the number of rows was read, or is known not to be public."""
        return self._rows is None

    def begin(self) -> None:
        """Read the number of rows once, if it is public: before the first release, or when it is asked for."""
        if self._rows is not None:
            try:
                self.knowledge.begin(self._rows())
            except SourceFailed:
                raise SourceFailed(charged=False) from None
            self._rows = None

    def _read_back(self, release: Release) -> Measurement | ResidualMeasurement:
        query = from_json(release.question or "", self._domain)
        residuals = residuals_from_text(release.mechanism, query)
        return Measurement(query, noises_from_text(release.mechanism)) if residuals is None else residuals


def _counts(block: Block) -> bool:
    """Return whether a block is a count or may be equivalent to one, as a sum of zeros and ones is."""
    weight = block.weight
    return isinstance(weight, ConstantWeight | CaseWeight) or (
        isinstance(weight, ValueWeight) and weight_range(weight) == (0, 1)
    )


def _count_draws(measured: Measurement | ResidualMeasurement, before: DrawCounts) -> DrawCounts:
    """Return the number of draws including those of a release."""
    if isinstance(measured, ResidualMeasurement):
        drawn = sum([residual.number for residual, _ in measured.parts])
        return DrawCounts(before.laplace, before.gaussian + drawn)
    return count_draws(measured.noises, measured.query.blocks, before=before)
