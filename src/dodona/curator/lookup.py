"""Lookup: free answers, which were released before or follow from releases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from dodona.answer.estimate import AnswerSource
from dodona.answer.laws import DerivedValues, ErrorLaw, Evidence, half_width, make_derived_values
from dodona.curator.combined import follow_blocks
from dodona.curator.demands import Demand, Resolved
from dodona.curator.planner import predict_error
from dodona.curator.request import Request
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.knowledge.knowledge import may_be_exact
from dodona.knowledge.patterns import KnownValues, noise_variance
from dodona.knowledge.releases import ReleasedBlock, ReleasedBlocks
from dodona.ledger.entries import Receipt, Release
from dodona.privacy.additive_noise import Noise
from dodona.privacy.budget import FREE, Price
from dodona.privacy.measurement import MeasuredValues, noises_from_text
from dodona.query.canonical import query_digest
from dodona.query.query import Query
from dodona.query.question import AnswerColumn, Question
from dodona.schema.schema import Schema
from dodona.sql.compile import read_questions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dodona.answer.answer import Answer
    from dodona.curator.ladder import Ladder


# --- The free rungs: replay and derivation. ---


_Each = TypeVar("_Each")
_NOTHING = (None,)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where values come from; those that are found together share it."""

    source: AnswerSource
    receipt: str | None
    price: Price = FREE
    reused: bool = False
    """Whether numbers that were released before are in it."""


_DERIVED = Origin("derived", None, reused=True)


@dataclass(frozen=True, slots=True)
class Found:
    """The values of a question and their origin."""

    measured: Evidence
    origin: Origin

    @classmethod
    def derived(cls, values: DerivedValues | None) -> Found | None:
        """Return values that follow from earlier releases, if there are any: they cost nothing."""
        return None if values is None else cls(values, _DERIVED)


@dataclass(frozen=True, slots=True)
class Replay:
    """A question, and for each of its blocks a release that is accurate enough, or None."""

    question: Resolved
    released: tuple[ReleasedBlock | None, ...]

    def unreleased(self, each: Sequence[_Each]) -> list[_Each]:
        """Return those of something that is given for each block whose block has no such release."""
        return [item for item, released in zip(each, self.released, strict=True) if released is None]

    def found(self) -> Found | None:
        """Return the question's values, if each block was released with independent noise."""
        released = [block for block in self.released if block is not None]
        if not released or len(self.released) != len({id(block) for block in released}):
            return None
        noises = tuple(block.noise for block in released)
        values = [value for block in released for value in block.values]
        origin = Origin("replayed", released[0].receipt, reused=True)
        return Found(MeasuredValues(self.question.question, values, noises), origin)


@dataclass(frozen=True, slots=True)
class Lookup:
    """Finds free answers of one dataset: earlier releases, and what follows from them.

    The caller reads the ledger first, once for all questions of a call.
    """

    releases: ReleasedBlocks
    size: int
    """The declared number of rows."""

    def replay(self, asked: Sequence[Resolved]) -> list[Replay | None]:
        """Return, for each question of counts and sums, the releases of its blocks that are accurate enough, if any."""
        with self.releases.lock:
            if len(asked) > 1 and not self.releases.tells:
                return [None] * len(asked)
            recalled = [self._recall(resolved) for resolved in asked]
        return [
            Replay(resolved, released) if any(released) else None
            for resolved, released in zip(asked, recalled, strict=True)
        ]

    def _recall(self, resolved: Resolved) -> tuple[ReleasedBlock | None, ...]:
        """Return the first release of each block that is accurate enough.

        If the last of these has all blocks, it answered the whole question, which is not mixed with others. A question
        may have a block twice, in other words: then each has its own values in such a release.
        """
        released, demands = self.releases.recall(resolved.question.query), resolved.demands or ()
        paired = zip(demands, released, strict=True)
        first = tuple([None if known is None else _first_accurate(known, demand) for demand, known in paired])
        receipts = {block.receipt for block in first if block is not None}
        if None in first or (len(receipts) == 1 and len(first) == len(set(map(id, first)))):
            return first
        for whole in _whole_releases(released):
            known = all(_first_accurate([block], demand) for block, demand in zip(whole, demands, strict=True))
            if known and whole[0].receipt in receipts:
                return tuple(whole)
        return first

    def recall(self, question: Question) -> list[Sequence[ReleasedBlock]] | None:
        """Return the releases of each block of any question; None if a block was never released."""
        released = self.releases.recall(question.query)
        releases: list[Sequence[ReleasedBlock]] = [block_releases for block_releases in released if block_releases]
        return releases if len(releases) == len(released) else None

    def replay_planned(
        self,
        question: Question,
        released: Sequence[Sequence[ReleasedBlock]],
        planned: tuple[Noise, ...],
        request: Request,
    ) -> Found | None:
        """Return the release of any question, if it is as accurate as the planned measurement."""
        for best in (*_whole_releases(released), _best_per_block(released, planned)):
            old = None if best is None else tuple([block.noise for block in best])
            if best is None or old is None or (old != planned and not self._as_good(question, old, planned, request)):
                continue
            values = [value for block in best for value in block.values]
            return Found(MeasuredValues(question, values, old), Origin("replayed", best[0].receipt, reused=True))
        return None

    def derive(
        self, asked: Sequence[Resolved], replays: Mapping[int, Replay] = MappingProxyType({})
    ) -> list[DerivedValues | None]:
        """Return the values of each question whose unreleased blocks follow accurately enough; else None.

        `replays` are the releases of some of the blocks, by the place of the question.
        """

        def unreleased(each: Iterable[Sequence[_Each]]) -> Iterator[_Each]:
            for place, items in enumerate(each):
                yield from replays[place].unreleased(items) if place in replays else items

        with self.releases.lock:
            blocks = [*unreleased(resolved.question.query.blocks for resolved in asked)]
            if not self.releases.begun and any(map(may_be_exact, blocks)):
                self.releases.begin()
            knowledge = self.releases.knowledge
            if knowledge.counts_classes:
                demands = unreleased(resolved.demands or () for resolved in asked)
                following = knowledge.lookup_all(demands, [*unreleased(resolved.patterns for resolved in asked)])
            else:
                following = iter([*map(knowledge.exact, blocks)])
            laws: dict[int, tuple[tuple[ErrorLaw, ...]]] = {}
            known = [self._known(resolved, replays.get(place), following, laws) for place, resolved in enumerate(asked)]
        # Single answers are combined without the lock, so that other replays need not wait.
        return [
            values if isinstance(values, DerivedValues) else self._combined(resolved, values)
            for resolved, values in zip(asked, known, strict=True)
        ]

    def derive_anyhow(self, asked: Sequence[Resolved]) -> list[DerivedValues | None]:
        """Return the values of each question if they follow at all: where they can, as accurately as is requested."""
        combined = [
            self.derive_combined(resolved, anyhow=True) if resolved.block_patterns else None for resolved in asked
        ]
        others = [resolved for resolved in asked if not resolved.block_patterns]
        if len(others) < len(asked):
            rest = iter(self.derive_anyhow(others) if others else ())
            return [
                values if resolved.block_patterns else next(rest)
                for resolved, values in zip(asked, combined, strict=True)
            ]
        derived: list[DerivedValues | None] = [None] * len(asked)
        if all(resolved.demanding for resolved in asked):
            derived = self.derive(asked)
        if None not in derived:
            return derived
        relaxed = [resolved.relaxed() for resolved in asked]
        if any(resolved.demands is None for resolved in relaxed):
            return derived
        anyhow = self.derive(relaxed)
        return [other if values is None else values for values, other in zip(derived, anyhow, strict=True)]

    def derive_combined(self, resolved: Resolved, *, anyhow: bool = False) -> DerivedValues | None:
        """Return the values of a question computed from several blocks if they follow as accurately as planned.

        Theorem: honest-ratio, joint-law
        """
        with self.releases.lock:
            knowledge = self.releases.knowledge
            if not knowledge.counts_classes:
                return None
            followed = follow_blocks(resolved.question, resolved.block_patterns, knowledge)
        if followed is None:
            return None
        known, law = followed
        if not anyhow and (resolved.combined is None or not resolved.combined.met(known, law)):
            return None
        values, laws = tuple([part.values for part in known]), tuple([part.laws for part in known])
        return DerivedValues(resolved.question, values, laws, joint=law)

    def _known(
        self,
        resolved: Resolved,
        replay: Replay | None,
        following: Iterator[KnownValues | None],
        laws: dict[int, tuple[tuple[ErrorLaw, ...]]],
    ) -> DerivedValues | Sequence[KnownValues | ReleasedBlock | None]:
        """Return the values of a question with one block, if they follow; else what is known of each block.

        Laws are kept once, as many questions share them.
        """
        if replay is not None:
            return [next(following) if released is None else released for released in replay.released]
        if len(resolved.question.query.blocks) > 1:
            return [next(following) for _ in resolved.question.query.blocks]
        known = next(following)
        if known is None:
            return _NOTHING
        return DerivedValues(resolved.question, (known.values,), laws.setdefault(id(known.laws), (known.laws,)))

    def _combined(
        self, resolved: Resolved, known: Sequence[KnownValues | ReleasedBlock | None]
    ) -> DerivedValues | None:
        """Return the values of a question; blocks that are still unknown may be combined from single answers."""
        values: list[Sequence[float] | NDArray[np.float64]] = []
        laws: list[tuple[ErrorLaw, ...]] = []
        for demand, block in zip(resolved.demands or (), known, strict=True):
            if isinstance(block, ReleasedBlock):
                values.append(block.values)
                laws.append((block.noise,))
                continue
            follows = self.releases.knowledge.combine(demand.block, demand.met) if block is None else block
            if follows is None:
                return None
            values.append(follows.values)
            laws.append(follows.laws)
        return DerivedValues(resolved.question, tuple(values), tuple(laws))

    def public(self, question: Question) -> Found | None:
        """Return a question's values if no row can change any of them: then it is free, however it is asked.

        Theorem: public-rows
        """
        blocks = question.query.blocks
        if not all(map(may_be_exact, blocks)) or not question.derivable:
            return None
        with self.releases.lock:
            self.releases.begin()
            known = [values for values in map(self.releases.knowledge.exact, blocks) if values is not None]
        if len(known) < len(blocks):
            return None
        values = make_derived_values(question, [part.values for part in known], [part.laws for part in known])
        return Found(values, Origin("derived", None))

    def _as_good(self, question: Question, old: tuple[Noise, ...], new: tuple[Noise, ...], request: Request) -> bool:
        def error(column: AnswerColumn, blocks: tuple[int, ...], noises: tuple[Noise, ...]) -> float:
            used = tuple(noises[block] for block in blocks)
            alone = question.column_alone(column, blocks)
            return predict_error(alone, used, confidence=request.confidence, rows=self.size)

        shaped = [(column, tuple(shape)) for column, shape in question.noisy_columns]
        return all(error(*noisy_column, old) <= error(*noisy_column, new) for noisy_column in shaped)


def _whole_releases(released: Sequence[Sequence[ReleasedBlock] | None]) -> list[list[ReleasedBlock]]:
    """Return the blocks of each release that has all of them, the most accurate release first.

    Another release may have one block more accurately; mixing them would change an answer without a reason. So would
    mixing blocks of several questions of one release: those that are side by side are taken first, as a question's are.
    All releases are tried, as of two noise laws each may be the better one at some confidence.
    """
    releases: list[list[ReleasedBlock]] = []
    for receipt in dict.fromkeys([block.receipt for block in released[0] or ()]):
        of_receipt = [[block for block in known or () if block.receipt == receipt] for known in released]
        blocks = _side_by_side(of_receipt)
        if not blocks:
            for same in of_receipt:
                blocks += [block for block in same if not any(block is other for other in blocks)][:1]
        if len(blocks) == len(released):
            releases.append(blocks)
    return sorted(releases, key=lambda blocks: sum(noise_variance(block.noise) for block in blocks))


def _side_by_side(of_receipt: Sequence[Sequence[ReleasedBlock]]) -> list[ReleasedBlock]:
    """Return the first blocks of a release that follow each other in the order of a question; none if none do."""
    by_place = [{block.place: block for block in same} for same in of_receipt]
    for first in sorted(by_place[0]):
        if all(first + number in known for number, known in enumerate(by_place)):
            return [known[first + number] for number, known in enumerate(by_place)]
    return []


def _best_per_block(
    released: Sequence[Sequence[ReleasedBlock] | None], planned: Sequence[Noise]
) -> list[ReleasedBlock] | None:
    """Return the best release of each block, using each release once; None if there are not enough.

    A question may contain a block several times, each measured with independent noise. Intervals rely on that, so a
    release is never used twice.
    """
    chosen: list[ReleasedBlock] = []
    for known, noise in zip(released, planned, strict=True):
        left = [block for block in known or () if not any(block is other for other in chosen)]
        if not left:
            return None
        several = sum(blocks is known for blocks in released) > 1
        chosen.append(min(left, key=lambda block: (several and block.noise != noise, block.noise.scale)))
    return chosen


def _first_accurate(known: Sequence[ReleasedBlock], demand: Demand) -> ReleasedBlock | None:
    """Return the first release that is accurate enough, so that a repeated question gets the same answer."""
    return next((block for block in known if half_width(block.noise, demand.failing) <= demand.tolerance), None)


def read_release(
    released: Release, asked: Sequence[Question], price: Price, noises: Sequence[Noise] | None = None
) -> Iterator[Found]:
    """Yield a release's integers by question; noisy answers are never fractions. Parses the noises if not given."""
    values = tuple([int(value) for value in released.values])
    noises = noises_from_text(released.mechanism) if noises is None else tuple(noises)
    blocks = _spans(len(question.query.blocks) for question in asked)
    numbers = _spans(question.query.values for question in asked)
    origin = Origin("measured", released.receipt, price)
    for question, (start, after), (first, last) in zip(asked, blocks, numbers, strict=True):
        yield Found(MeasuredValues(question, values[first:last], noises[start:after]), origin)


def read_again(release: Release, asked: Sequence[Question]) -> list[Found]:
    """Return a release that was bought before, by question."""
    origin = Origin("replayed", release.receipt, reused=True)
    return [Found(result.measured, origin) for result in read_release(release, asked, FREE)]


def spread_answers(results: Iterable[Found], asked: Sequence[Question], places: Sequence[int]) -> Iterable[Found]:
    """Return the result of each question, from the results of the distinct ones."""
    if len({*places}) == len(asked):
        return results
    known = [*results]
    spread = [(known[place], question) for place, question in zip(places, asked, strict=True)]
    return [replace(result, measured=replace(result.measured, question=question)) for result, question in spread]


def _spans(sizes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Return the start and end of consecutive parts.

    >>> list(_spans([2, 3]))
    [(0, 2), (2, 5)]
    """
    return pairwise(accumulate(sizes, initial=0))


# --- What was bought is recorded with the text of its questions. ---


_LONGEST_TEXT = 10_000


def stack_queries(asked: Sequence[Question]) -> Query:
    """Return all that questions measure as one query."""
    return asked[0].query.stacked(*(question.query for question in asked[1:])) if len(asked) > 1 else asked[0].query


def written_questions(
    release: Release, receipt: Receipt, read: Callable[[str], tuple[Question, ...]]
) -> tuple[Question, ...] | None:
    """Return the questions of a release from their text, if they are exactly what was measured; else None."""
    readings = text_readings(release.text or "", read)
    return next((asked for asked in readings if query_digest(stack_queries(asked)) == receipt.purpose), None)


def text_readings(text: str, read: Callable[[str], tuple[Question, ...]]) -> Iterator[tuple[Question, ...]]:
    """Yield the questions that the text of a release may mean: those of one text, and those of several."""
    for texts in ((text,), text.split("; ")):
        with suppress(InvalidRequest):
            yield tuple([question for part in texts for question in read(part)])


def joined_text(asked: Sequence[Question]) -> str | None:
    """Return the text of questions as a release records it; None if none of them was written as text.

    The questions of one statement share its text.
    """
    return "; ".join(dict.fromkeys([question.text for question in asked if question.text]))[:_LONGEST_TEXT] or None


def is_written_as(release: Release, asked: Sequence[Question], missing: Sequence[Question], schema: Schema) -> bool:
    """Return whether a bundle was bought for those questions that are missing, as far as its text says so."""
    if release.text is None or release.text == joined_text(missing):
        return True
    for reading in text_readings(release.text, lambda text: read_questions(text, schema)):
        written, meant, given = (
            {query_digest(question.query) for question in questions} for questions in (reading, missing, asked)
        )
        return meant <= written <= given
    return False


# --- Answers about an older version of the rows: free, marked as stale, and never taken for current ones. ---


def answer_as_of(
    ladder: Ladder, asked: tuple[Question, ...], request: Request, version: object, *, anyhow: bool
) -> tuple[Answer, ...]:
    """Return what was released about a version of the rows, or follows from that; with `anyhow` at any accuracy.

    No row is read and nothing is charged.
    """
    dataset = ladder.desk.dataset
    dataset.ledger.permit(ladder.desk.analyst)
    if request.fresh:
        raise InvalidRequest("An older version is never measured anew. Write one of as_of= and fresh=True.")
    released = ladder.shared.of_version(version) if isinstance(version, str) else None
    if released is None or not isinstance(version, str):
        listed = dict.fromkeys(
            receipt.version for receipt, _ in dataset.ledger.releases() if receipt.dataset == dataset.name
        )
        known = ", ".join([*listed][-10:])
        accepted = f"write a version about which something was released: {known}" if known else "nothing was released"
        raise InvalidArgument("as_of", version, accepted)
    answers = ladder.reading(released).free_answers(asked, request, None, anyhow=anyhow)
    if answers is None:
        wanted = "" if anyhow else " as accurately as this"
        raise InvalidRequest(f"Nothing that was released about version {version} of the data answers this{wanted}.")
    return tuple(replace(answer, version=version, stale=version != dataset.source.version) for answer in answers)
