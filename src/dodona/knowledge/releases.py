"""Released blocks by digest, read from the ledger, so that replaying an answer is free."""

from __future__ import annotations

import threading
from bisect import insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from dodona.answer.laws import SingleRelease
from dodona.errors import InvalidRequest
from dodona.knowledge.knowledge import Knowledge
from dodona.knowledge.patterns import KnownValues
from dodona.knowledge.shortlist import EVERY, Shortlist, read_shortlist, write_shortlist
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

_HINT = 24  # hexadecimal digits of a hint: blocks that share them are only looked at in vain
_AT_ONCE = 256  # releases that are read when a few of the newest are looked for
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

    def __init__(  # noqa: PLR0913  what they are read from
        self,
        ledger: Ledger,
        domain: Domain,
        *,
        dataset: str,
        version: str,
        rows: Callable[[], int | None] | None,
        shortlist: Path | None = None,
        every: int = EVERY,
    ) -> None:
        """Read lazily; the number of rows, if it is public, is read with the first release.

        With a path for a shortlist, only those of very many releases are read that what follows depends on; it is
        written after `every` further ones.
        """
        self._every = every
        self._knowledge = Knowledge(domain, normal=normal_noise(ledger.budget))
        self._path = shortlist
        self._short: Shortlist | None = None
        self._recalled: set[str | int] = set()  # digests and places that were looked up beyond a shortlist
        self._needed: list[int] = []
        self._several: defaultdict[str, list[int]] = defaultdict(list)
        self._kept = 0  # how many releases the last shortlist covered
        self._whole = shortlist is None
        self._rows = rows
        self._ledger, self._domain = ledger, domain
        self._of = (dataset, version)
        self._blocks: defaultdict[str, list[ReleasedBlock]] = defaultdict(list)
        self._place: dict[str, int] = {}  # how many releases there were with that of a receipt
        self._residuals: set[str] = set()  # receipts that bought residuals
        self._waiting: defaultdict[str, list[tuple[Block, ReleasedBlock]]] = defaultdict(list)
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
            if self._short is not None and not self._needed and not self._learn_shortlist(self._short):
                self.read_all()
            while self._unlearned:
                receipt, release, measured = self._unlearned.popleft()
                with suppress(InvalidRequest):  # a question about columns that are no longer declared
                    self._learn(receipt, release, self._read_back(release) if measured is None else measured)
            if self._path is not None and self.seen >= self._kept + self._every:
                self._keep_shortlist(self._path)
        return self._knowledge

    def _learn(self, receipt: Receipt, release: Release, measured: Measurement | ResidualMeasurement) -> None:
        before = self._knowledge.changes
        self._knowledge.add(receipt, measured, _integers(release))
        if before != self._knowledge.changes:
            self._needed.append(self._place[receipt.id])

    # --- Shortlists: of very many releases only those are read on which what follows depends. ---

    def _start(self) -> None:
        """Begin after the releases of a shortlist, if there is one that the ledger agrees with."""
        if self._path is None or self._whole or self.seen or not self._path.exists():
            return
        shortlist = read_shortlist(self._path)
        if (
            shortlist is None
            or not shortlist.needed
            or self._ledger.release_line(shortlist.seen - 1) != (shortlist.line, shortlist.hash)
        ):
            return
        self.begin()
        self._short, self.seen, self._kept = shortlist, shortlist.seen, shortlist.seen
        self._several.update({key: [*places] for key, places in shortlist.several.items()})
        self.draws = self.draws.plus(DrawCounts(*shortlist.draws))

    def _learn_shortlist(self, short: Shortlist) -> bool:
        """Learn the releases of a shortlist; return whether they are those on which what is known depends."""
        releases = self._ledger.releases_at([place - 1 for place in short.needed])
        for place, (receipt, release) in zip(short.needed, releases, strict=True):
            try:
                measured = self._read_back(release)
            except InvalidRequest:
                return False
            self._place[receipt.id] = place
            if isinstance(measured, ResidualMeasurement):
                self._residuals.add(receipt.id)
            self._learn(receipt, release, measured)
        return self._needed == short.needed and short.restore_rents(self._knowledge)

    def _keep_shortlist(self, path: Path) -> None:
        """Write a shortlist of all that was read."""
        self._kept = self.seen
        mark, pending = self._ledger.release_line(self.seen - 1), self._pending
        if mark is None or not self._needed or self._ledger.beside is None:
            return
        draws = self.draws.laplace - pending.laplace, self.draws.gaussian - pending.gaussian
        rents = [rent.times for rent in self._knowledge.asked.rents]
        short = Shortlist(
            seen=self.seen,
            line=mark[0],
            hash=mark[1],
            draws=draws,
            needed=self._needed,
            rents=rents,
            several=self._several,
        )
        write_shortlist(path, short, like=self._ledger.beside)

    @property
    def _pending(self) -> DrawCounts:
        """The values of new releases that are not yet read back."""
        draws = DrawCounts()
        for measured in self._expected.values():
            draws = draws.plus(measured.draws)
        return draws

    def read_all(self) -> None:
        """Read all releases, with those that a shortlist leaves out."""
        with self.lock:
            self._whole = True
            if self._short is None:
                return
            seen, rows = self.seen, self._knowledge.public_rows
            self._short, self.seen, self.draws = None, 0, self._pending
            self._knowledge = Knowledge(self._domain, normal=self._knowledge.normal)
            self._knowledge.begin(rows)
            for container in (
                self._blocks,
                self._place,
                self._residuals,
                self._waiting,
                self._unlearned,
                self._recalled,
            ):
                container.clear()
            self._needed.clear()
            self._several.clear()
            for receipt, release in self._ledger.releases_at(range(seen)):
                self._read(receipt, release)

    def _recall_shortlisted(self, short: Shortlist, block: Block, digest: str) -> None:
        """Index the releases of a block among those that a shortlist covers, once."""
        if digest in self._recalled:
            return
        self._recalled.add(digest)
        for release in self._ledger.released(digest, self._of[1]):
            place = (self._ledger.release_place(release.receipt) or 0) + 1
            noise = _single_noise(digest, release)
            if place <= short.seen and noise is not None and release.question is not None:
                self._place[release.receipt] = place
                self._index(digest, ReleasedBlock(_integers(release), noise, release.receipt, 0))
        places = {place for key in self._likely(block, short.several) for place in short.several.get(key, ())}
        new = sorted(places - self._recalled)
        self._recalled.update(new)
        for place, (receipt, release) in zip(
            new, self._ledger.releases_at([position - 1 for position in new]), strict=True
        ):
            with suppress(InvalidRequest):
                measured = self._read_back(release)
                if isinstance(measured, Measurement):
                    self._place[receipt.id] = place
                    self._keep_blocks(receipt, measured, _integers(release))

    def _placed(self, receipt: str) -> int | None:
        """Return how many releases there were with that of a receipt; None if it is not known here."""
        count = self._place.get(receipt)
        if count is None and self._short is not None:
            place = self._ledger.release_place(receipt)
            if place is not None and place < self._short.seen:
                ((ledger_receipt, release),) = self._ledger.releases_at([place])
                with suppress(InvalidRequest):
                    if (ledger_receipt.dataset, ledger_receipt.version) == self._of and release.question is not None:
                        self._read_back(release)
                        count = self._place[receipt] = place + 1
        return count

    @property
    def tells(self) -> bool:
        """Whether any block was released in the form it was asked for."""
        return bool(self._waiting or self._blocks or self._short)

    def recall(self, query: Query) -> list[list[ReleasedBlock] | None]:
        """Return all releases of each block, oldest first; None for a block that was never released."""
        with self.lock:
            if not self.tells:
                return [None] * len(query.blocks)
            digests = [*block_digests(query)]
            for block, digest in zip(query.blocks, digests, strict=True):
                if self._short is not None:
                    self._recall_shortlisted(self._short, block, digest)
                if self._waiting:
                    self._name(block)
            return [*map(self._blocks.get, digests)]

    def _name(self, asked: Block) -> None:
        """Index those blocks by digest that may be a block: digests are slow, and few of many thousands can be it."""
        for key in self._likely(asked, self._waiting):
            for block, released in self._waiting.pop(key, ()):
                self._index(block_digest(block, self._domain), released)

    def _likely(self, asked: Block, keys: Iterable[str]) -> list[str]:
        """Return the keys of blocks that may be a block; of those given, all where it has no hint."""
        hint = digest_hint(asked, self._domain)
        # A count may have been asked as a sum of cases; other sums are no counts.
        kinds = (True,) if _counts(asked) else (True, False)
        if hint is None:
            return [key for key in keys if key[0] in {_block_key(kind, None) for kind in kinds}]
        return [_block_key(kind, key_hint) for kind in kinds for key_hint in (hint, None)]

    def _index(self, digest: str, released: ReleasedBlock) -> None:
        # A release may have a block twice; most come in their order, and one question may be measured very often.
        insort(self._blocks[digest], released, key=lambda block: (self._place[block.receipt], block.place))

    def expect(self, receipt: str, measured: Measurement | ResidualMeasurement) -> None:
        """Take a new release, so that it need not be parsed from the ledger."""
        with self.lock:
            if self._placed(receipt) is None:
                self._expected[receipt] = measured
                self.draws = self.draws.plus(measured.draws)

    def look(self, analyst: str | None) -> LedgerView:
        """Read all releases so far for a question of an analyst, and return what they were read from."""
        with self.lock:
            self._start()
            view = self._ledger.look(analyst=analyst, after=self.seen)
            for receipt, release in view.released:
                self._read(receipt, release)
            return view

    def follow(self) -> Knowledge:
        """Return the knowledge after reading all releases so far."""
        with self.lock:
            self._start()
            for receipt, release in self._ledger.releases(after=self.seen):
                self._read(receipt, release)
            return self.knowledge

    def follow_alone(self, blocks: Sequence[Block]) -> tuple[tuple[SingleRelease, ...], ...]:
        """Return the values of each block as they follow from single releases: of the newest with several values."""
        by_block: list[list[SingleRelease]] = [[] for _ in blocks]
        with self.lock:
            for receipt, release in self._newest_tables():
                if self._placed(receipt.id) is None or release.question is None:
                    continue
                alone = Knowledge(self._domain, normal=self._knowledge.normal)
                alone.begin(self._knowledge.public_rows)
                alone.add(receipt, self._read_back(release), _integers(release))
                for singles, block in zip(by_block, blocks, strict=True):
                    known = alone.lookup(block, alone.pattern(block), _any) or alone.combine(block, _any)
                    if known is not None:
                        singles.append(SingleRelease(self._place[receipt.id], known.values, known.laws))
        return tuple(map(tuple, by_block))

    def _newest_tables(self) -> list[tuple[Receipt, Release]]:
        """Return the newest releases with several values, oldest first, reading backwards until there are enough."""
        tables: list[tuple[Receipt, Release]] = []
        after = self.seen
        while after > 0 and len(tables) < _MOST_ALONE:
            first = max(0, after - _AT_ONCE)
            tables = [
                entry for entry in self._ledger.releases_at(range(first, after)) if len(entry[1].values) > 1
            ] + tables
            after = first
        return tables[-_MOST_ALONE:]

    def before(self, receipt: str) -> ReleasedBlocks | None:
        """Return the blocks that were released before a receipt's; None if that one is not known here."""
        with self.lock:
            place = self._placed(receipt)
        return None if place is None else self._first(place - 1)

    def of_bundle(self, receipt: str) -> ReleasedBlocks | None:
        """Return what a bundle answers from: itself and what was released before it; None if it is no bundle.

        What was released later is left out, so that whoever bought the bundle always gets the same answers.
        """
        with self.lock:
            if self._placed(receipt) is None:
                return None
            knowledge = self._bundle_knowledge(receipt)
            if knowledge is None:
                return None
            blocks = self._first(0)
            blocks.begin()
            blocks._knowledge, blocks.lock = knowledge, self.lock  # noqa: SLF001  of its own class
            return blocks

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
            blocks = ReleasedBlocks(self._ledger, self._domain, dataset=dataset, version=version, rows=rows)
            for receipt, release in self._ledger.releases()[:number] if number else ():
                blocks._read(receipt, release)
            return blocks

    def _read(self, receipt: Receipt, release: Release) -> None:
        if (receipt.dataset, receipt.version) == self._of and release.question is not None:
            self.begin()  # before the release counts as read: reading the table may fail
        self.seen += 1
        expected = self._expected.pop(receipt.id, None)
        if (receipt.dataset, receipt.version) != self._of or release.question is None:
            return
        alone = _single_noise(receipt.purpose, release) if expected is None else None
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
            for key in self._keep_blocks(receipt, measured, _integers(release)):
                self._several[key].append(self.seen)

    def _keep_blocks(self, receipt: Receipt, measured: Measurement, values: tuple[int, ...]) -> set[str]:
        """Take the blocks of a release; return the keys of those that are not indexed yet, as there are several."""
        start, blocks, keys = 0, measured.query.blocks, set()
        for place, (block, noise) in enumerate(zip(blocks, measured.noises, strict=True)):
            released = ReleasedBlock(values[start : start + block.values], noise, receipt.id, place)
            if len(blocks) == 1:
                self._index(receipt.purpose, released)
            else:
                keys.add(key := _block_key(_counts(block), digest_hint(block, self._domain)))
                self._waiting[key].append((block, released))
            start += block.values
        return keys

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


def _single_noise(purpose: str, release: Release) -> Noise | None:
    """Return the noise of a release of one block that was asked for as it is; None for anything else."""
    if " " in purpose or not release.mechanism.endswith(" x 1") or "," in release.mechanism:
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


def _block_key(counts: bool, hint: str | None) -> str:  # noqa: FBT001  a key
    """Return the key of a block: whether it counts, and its hint, shortened."""
    return f"{counts:d}{'' if hint is None else sha256(hint.encode()).hexdigest()[:_HINT]}"
