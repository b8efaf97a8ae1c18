"""Released blocks by digest, read from the ledger, so that replaying an answer is free."""

from __future__ import annotations

import threading
from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from dodona.answer.derived import SingleRelease
from dodona.errors import InvalidRequest
from dodona.knowledge.knowledge import Knowledge
from dodona.knowledge.patterns import KnownValues
from dodona.ledger.entries import Receipt, Release
from dodona.ledger.ledger import Ledger, LedgerView
from dodona.privacy.additive_noise import Noise, normal_noise
from dodona.privacy.measurement import (
    DrawCounts,
    Measurement,
    ResidualMeasurement,
    noises_from_text,
    residuals_from_text,
)
from dodona.query.canonical import block_digest, block_digests, digest_hint
from dodona.query.query import (
    Block,
    CaseWeight,
    ConstantWeight,
    PolynomialWeight,
    Query,
    TableWeight,
    ValueWeight,
    weight_range,
)
from dodona.query.spelling import from_json
from dodona.schema.schema import Domain
from dodona.trusted.source import SourceFailed

_MOST_BUNDLES = 64
"""Of how many earlier bundles it is remembered what they answer from."""

_Kind = tuple[bool, str | None]
"""Whether a block is a count, or may be equivalent to one, and the hint of its digest."""
_MOST_ALONE = 16
"""From how many releases, each alone, values are computed for intervals that hold for any choice."""


@dataclass(frozen=True, slots=True)
class ReleasedBlock:
    """The noisy integers of one block, their noise, the receipt that bought them, and its place in that release."""

    values: tuple[int, ...]
    noise: Noise
    receipt: str
    place: int


class ReleasedBlocks:
    """All released blocks of one version of a dataset, kept up to date with the ledger.

    Replaying needs the blocks alone; the knowledge learns them when it is asked for.
    """

    def __init__(
        self,
        ledger: Ledger,
        domain: Domain,
        *,
        dataset: str,
        version: str,
        rows: Callable[[], int | None] | None,
    ) -> None:
        """Read lazily; the number of rows, if it is public, is read with the first release."""
        self._knowledge = Knowledge(domain, normal=normal_noise(ledger.budget))
        self._rows = rows
        self._ledger, self._domain = ledger, domain
        self._of = (dataset, version)
        self._blocks: defaultdict[str, list[ReleasedBlock]] = defaultdict(list)
        self._place: dict[str, int] = {}  # how many releases there were with that of a receipt
        self._residuals: set[str] = set()  # receipts that bought residuals
        self._waiting: defaultdict[_Kind, list[tuple[Block, ReleasedBlock]]] = defaultdict(list)
        self._expected: dict[str, Measurement | ResidualMeasurement] = {}
        self._unlearned: deque[tuple[Receipt, Release, Measurement | ResidualMeasurement | None]] = deque()
        self._bundles: dict[str, Knowledge | None] = {}
        self.seen = 0
        """How many releases of the ledger were read."""
        self.draws = DrawCounts()
        """The number of values released so far, including new releases that are not yet read back."""
        self.lock = threading.RLock()
        """Whoever reads the knowledge holds it: another thread may be adding to it."""

    @property
    def knowledge(self) -> Knowledge:
        """What follows from all releases that were read."""
        with self.lock:
            while self._unlearned:
                receipt, release, measured = self._unlearned.popleft()
                with suppress(InvalidRequest):  # a question about columns that are no longer declared
                    self._learn(receipt, release, self._read_back(release) if measured is None else measured)
        return self._knowledge

    def _learn(self, receipt: Receipt, release: Release, measured: Measurement | ResidualMeasurement) -> None:
        self._knowledge.add(receipt, measured, _integers(release))

    @property
    def tells(self) -> bool:
        """Whether any block was released in the form it was asked for."""
        return bool(self._waiting or self._blocks)

    def recall(self, query: Query) -> list[list[ReleasedBlock] | None]:
        """Return all releases of each block, oldest first; None for a block that was never released."""
        with self.lock:
            if not self.tells:
                return [None] * len(query.blocks)
            for block in query.blocks if self._waiting else ():
                self._name(block)
            return [self._blocks.get(digest) for digest in block_digests(query)]

    def _name(self, asked: Block) -> None:
        """Index those blocks by digest that may be a block: digests are slow, and few of many thousands can be it."""
        hint = digest_hint(asked, self._domain)
        # A count may have been asked as a sum of cases; other sums are no counts.
        kinds = (True,) if _counts(asked) else (True, False)
        if hint is None:
            likely = [kind for kind in self._waiting if kind[0] in kinds]
        else:
            likely = [(kind, own) for kind in kinds for own in (hint, None)]
        for kind in likely:
            for block, told in self._waiting.pop(kind, ()):
                self._index(block_digest(block, self._domain), told)

    def _index(self, digest: str, told: ReleasedBlock) -> None:
        # A release may have a block twice; most come in their order, and one question may be measured very often.
        insort(self._blocks[digest], told, key=lambda one: (self._place[one.receipt], one.place))

    def expect(self, receipt: str, measured: Measurement | ResidualMeasurement) -> None:
        """Take a new release, so that it need not be parsed from the ledger."""
        with self.lock:
            if receipt not in self._place:
                self._expected[receipt] = measured
                self.draws = self.draws.plus(measured.draws)

    def look(self, analyst: str | None) -> LedgerView:
        """Read all releases so far for a question of an analyst, and return what they were read from."""
        with self.lock:
            view = self._ledger.look(analyst=analyst, after=self.seen)
            for receipt, release in view.released:
                self._read(receipt, release)
            return view

    def follow(self) -> Knowledge:
        """Return the knowledge after reading all releases so far."""
        with self.lock:
            for receipt, release in self._ledger.releases(after=self.seen):
                self._read(receipt, release)
            return self.knowledge

    def follow_alone(self, blocks: Sequence[Block]) -> tuple[tuple[SingleRelease, ...], ...]:
        """Return the values of each block as they follow from single releases: of the newest with several values."""
        found: list[list[SingleRelease]] = [[] for _ in blocks]
        with self.lock:
            several = [one for one in self._ledger.releases()[: self.seen] if len(one[1].values) > 1]
            for receipt, release in several[-_MOST_ALONE:]:
                if receipt.id not in self._place or release.question is None:
                    continue
                alone = Knowledge(self._domain, normal=self._knowledge.normal)
                alone.begin(self._knowledge.public_rows)
                alone.add(receipt, self._read_back(release), _integers(release))
                for own, block in zip(found, blocks, strict=True):
                    known = alone.lookup(block, alone.pattern(block), _any) or alone.combine(block, _any)
                    if known is not None:
                        own.append(SingleRelease(self._place[receipt.id], known.values, known.laws))
        return tuple(map(tuple, found))

    def before(self, receipt: str) -> ReleasedBlocks | None:
        """Return the blocks that were released before a receipt's; None if that one is not known here."""
        return self._first(self._place[receipt] - 1) if receipt in self._place else None

    def of_bundle(self, receipt: str) -> ReleasedBlocks | None:
        """Return what a bundle answers from: itself and what was released before it; None if it is no bundle.

        What was released later is left out, so that whoever bought the bundle always gets the same answers.
        """
        with self.lock:
            if receipt not in self._place:
                return None
            knowledge = self._bundle_knowledge(receipt)
            if knowledge is None:
                return None
            found = self._first(0)
            found.begin()
            found._knowledge, found.lock = knowledge, self.lock  # noqa: SLF001  of its own class
            return found

    def _bundle_knowledge(self, receipt: str) -> Knowledge | None:
        """Return what a bundle answers from; that of a bundle which is not the newest is learned once."""
        residuals = receipt in self._residuals
        if self._place[receipt] == self.seen:
            return self.knowledge.of_bundle(receipt, residuals=residuals)
        if receipt not in self._bundles:
            earlier = self._first(self._place[receipt]).knowledge
            self._bundles[receipt] = earlier.of_bundle(receipt, residuals=residuals)
            if len(self._bundles) > _MOST_BUNDLES:
                del self._bundles[next(iter(self._bundles))]
        return self._bundles[receipt]

    def _first(self, number: int) -> ReleasedBlocks:
        """Return the blocks of the first releases."""
        with self.lock:
            dataset, version = self._of
            rows = self._rows or (lambda: self.knowledge.public_rows)
            found = ReleasedBlocks(self._ledger, self._domain, dataset=dataset, version=version, rows=rows)
            for receipt, release in self._ledger.releases()[:number] if number else ():
                found._read(receipt, release)
            return found

    def _read(self, receipt: Receipt, release: Release) -> None:
        if (receipt.dataset, receipt.version) == self._of and release.question is not None:
            self.begin()  # before the release counts as read: reading the table may fail
        self.seen += 1
        expected = self._expected.pop(receipt.id, None)
        if (receipt.dataset, receipt.version) != self._of or release.question is None:
            return
        alone = _single_noise(receipt, release) if expected is None else None
        if alone is not None:  # it is parsed when something is derived from it
            self.draws = self.draws.plus(DrawCounts.of(alone, len(release.values)))
            self._unlearned.append((receipt, release, None))
            self._place[receipt.id] = self.seen
            # The purpose of a receipt is the digest of its query, which equals that of its block if there is just one.
            self._index(receipt.purpose, ReleasedBlock(_integers(release), alone, receipt.id, 0))
            return
        try:
            measured = self._read_back(release) if expected is None else expected
        except InvalidRequest:
            return  # a selection, or a question about columns that are no longer declared
        if expected is None:
            self.draws = self.draws.plus(measured.draws)
        self._unlearned.append((receipt, release, measured))
        self._place[receipt.id] = self.seen
        if isinstance(measured, ResidualMeasurement):
            self._residuals.add(receipt.id)
        elif " " not in receipt.purpose:  # what a bundle answers is derived from it, each time
            self._keep_blocks(receipt, measured, _integers(release))

    def _keep_blocks(self, receipt: Receipt, measured: Measurement, values: tuple[int, ...]) -> None:
        start, blocks = 0, measured.query.blocks
        for place, (block, noise) in enumerate(zip(blocks, measured.noises, strict=True)):
            told = ReleasedBlock(values[start : start + block.values], noise, receipt.id, place)
            if len(blocks) == 1:
                self._index(receipt.purpose, told)
            else:
                self._waiting[_counts(block), digest_hint(block, self._domain)].append((block, told))
            start += block.values

    @property
    def begun(self) -> bool:
        """Whether the number of rows was read, or is known not to be public."""
        return self._rows is None

    @property
    def knows(self) -> bool:
        """Whether anything was released from which other values may follow."""
        with self.lock:
            return self.knowledge.combines or self.knowledge.counts_classes

    def begin(self) -> None:
        """Read the number of rows once, if it is public: before the first release, or when it is asked for."""
        if self._rows is not None:
            try:
                rows = self._rows()
            except SourceFailed:
                raise SourceFailed(charged=False) from None
            self._rows = None
            if rows is not None:
                self._knowledge.begin(rows)

    def _read_back(self, release: Release) -> Measurement | ResidualMeasurement:
        query = from_json(release.question or "", self._domain)
        residuals = residuals_from_text(release.mechanism, query)
        return Measurement(query, noises_from_text(release.mechanism)) if residuals is None else residuals


def _any(_known: KnownValues) -> bool:
    return True


def _integers(release: Release) -> tuple[int, ...]:
    return tuple([int(value) for value in release.values])


def _single_noise(receipt: Receipt, release: Release) -> Noise | None:
    """Return the noise of a release of one block that was asked for as it is; None for anything else."""
    if " " in receipt.purpose or not release.mechanism.endswith(" x 1") or "," in release.mechanism:
        return None
    try:
        return noises_from_text(release.mechanism)[0]
    except InvalidRequest:
        return None  # a selection


def _counts(block: Block) -> bool:
    """Return whether a block is a count or may be equivalent to one, as a sum of zeros and ones is."""
    weight = block.weight
    if isinstance(weight, ValueWeight | TableWeight | PolynomialWeight):
        return weight_range(weight) == (0, 1)
    return isinstance(weight, ConstantWeight | CaseWeight)
