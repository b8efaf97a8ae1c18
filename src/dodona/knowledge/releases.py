"""Released blocks by digest, read from the ledger, so that repeating an answer is free."""

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
    """All released blocks of one dataset and version. It follows the ledger."""

    def __init__(
        self, ledger: Ledger, domain: Domain, *, dataset: str, version: str, rows: Callable[[], int | None]
    ) -> None:
        """Read what there is when it is first needed; the number of rows, if it is public, with the first release."""
        self.knowledge = Knowledge(domain)
        self._rows: Callable[[], int | None] | None = rows
        self._ledger, self._domain = ledger, domain
        self._of = (dataset, version)
        self._blocks: defaultdict[str, list[ReleasedBlock]] = defaultdict(list)
        self._place: dict[str, int] = {}  # of a receipt, among the releases
        self._waiting: defaultdict[bool, list[tuple[Block, ReleasedBlock, str | None]]] = defaultdict(list)
        self._expected: dict[str, Measurement | ResidualMeasurement] = {}
        self.seen = 0
        """How many releases of the ledger were read."""
        self._draws = DrawCounts()
        self.lock = threading.RLock()
        """Whoever reads the knowledge holds it: another thread may be adding to it."""

    @property
    def draws(self) -> DrawCounts:
        """How many numbers were told so far, those among them that were released just now and not yet read."""
        with self.lock:
            found = self._draws
            for measured in self._expected.values():
                found = _count_draws(measured, found)
            return found

    @property
    def tells(self) -> bool:
        """Whether any block was released as it was asked for."""
        return bool(self._waiting or self._blocks)

    def recall(self, query: Query) -> list[list[ReleasedBlock] | None]:
        """Return for each block all its releases, the first one first; None where it was never released."""
        with self.lock:
            if not self.tells:
                return [None] * len(query.blocks)
            # A count may have been asked as a sum of cases. Sums of values take long to name: counts leave them alone.
            for kind in (True,) if all(map(_counts, query.blocks)) else (True, False):
                self._name(kind)
            return [self._blocks.get(digest) for digest in block_digests(query)]

    def _name(self, kind: bool) -> None:  # noqa: FBT001  a key
        """Put the blocks of a kind where their digests find them."""
        for block, told, known in self._waiting.pop(kind, ()):
            same = self._blocks[known or block_digest(block, self._domain)]
            same.append(told)
            if len(same) > 1:
                same.sort(key=lambda one: self._place[one.receipt])

    def expect(self, receipt: str, measured: Measurement | ResidualMeasurement) -> None:
        """Take what was just released, so that it need not be read back from its spelling."""
        with self.lock:
            self._expected[receipt] = measured

    def follow(self) -> Knowledge:
        """Return what is known, after all releases so far were read."""
        with self.lock:
            self._follow()
            return self.knowledge

    def _follow(self) -> None:
        for receipt, release in self._ledger.releases(after=self.seen):
            if (receipt.dataset, receipt.version) == self._of and release.question is not None:
                self.begin()  # before it counts as read: the table may fail here
            self.seen += 1
            measured = self._expected.pop(receipt.id, None)
            if (receipt.dataset, receipt.version) != self._of or release.question is None:
                continue
            try:
                measured = self._read_back(release) if measured is None else measured
            except InvalidRequest:
                continue  # a choice, or a question about columns that are no longer declared
            values = tuple(int(value) for value in release.values)
            self._draws = _count_draws(measured, self._draws)
            if isinstance(measured, ResidualMeasurement):
                self.knowledge.learn_residuals(receipt, measured, values)
                continue
            self._place[receipt.id] = self.seen
            start, blocks = 0, measured.query.blocks
            # What a receipt was for is the digest of its query, which is that of its block where there is just one.
            known = receipt.purpose if len(blocks) == 1 else None
            for block, noise in zip(blocks, measured.noises, strict=True):
                told = ReleasedBlock(values[start : start + block.values], noise, receipt.id)
                self._waiting[_counts(block)].append((block, told, known))
                start += block.values
            self.knowledge.learn(receipt, measured, values)

    @property
    def begun(self) -> bool:
        """Whether the number of rows was read, or found to be no public one."""
        return self._rows is None

    def begin(self) -> None:
        """Read the number of rows, once, where it is public: before the first release, and for those who ask for it."""
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
    """Return whether a block is a count, or may have the meaning of one: a sum of zeros and ones has it."""
    weight = block.weight
    return isinstance(weight, ConstantWeight | CaseWeight) or (
        isinstance(weight, ValueWeight) and weight_range(weight) == (0, 1)
    )


def _count_draws(measured: Measurement | ResidualMeasurement, before: DrawCounts) -> DrawCounts:
    """Return the draws of a release and those before."""
    if isinstance(measured, ResidualMeasurement):
        drawn = sum([residual.number for residual, _ in measured.parts])
        return DrawCounts(before.laplace, before.gaussian + drawn)
    return count_draws(measured.noises, measured.query.blocks, before=before)
