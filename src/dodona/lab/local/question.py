"""A question of a survey: how respondents randomize their answers, and what their reports say together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import Self

import numpy as np

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.lab.local.alphabet import ClosedAlphabet, OpenAlphabet, distinct_labels, normalize_text
from dodona.lab.local.channel import Channel, Keys, local_event
from dodona.lab.local.encoder import Encoder, best_encoder, make_channel
from dodona.lab.local.estimates import Estimates, expected_width, respondents_needed
from dodona.lab.local.odds import local_epsilon, odds_below
from dodona.lab.local.report import FORMAT, BadReport, Batch, NoReports, Report, blocks
from dodona.numbers import Exact
from dodona.privacy.accuracy import Accuracy, Against, to_failure_probability, validate_count
from dodona.privacy.events import PureEvent

NO, YES = "no", "yes"
_ROWS = 1 << 13


@dataclass(frozen=True, slots=True, eq=False)
class SurveyQuestion:
    """One question. Respondents call `respond`, the collector calls `collect`.

    >>> question = SurveyQuestion.yes_no("ever-smoked", epsilon=1)
    >>> report = question.respond("yes")
    >>> Report.from_json(report.to_json()) == report
    True
    >>> question.collect([report]).respondents
    1
    """

    name: str
    encoder: Encoder
    alphabet: ClosedAlphabet | OpenAlphabet
    permanent: Channel
    """The channel that is drawn once for each answer."""
    each: Fraction | None
    """The ε of the second response to the permanent one in every report; None without a second response."""
    channel: Channel
    """The whole channel, from answer to collector."""
    shape: tuple[int, int] | None = None
    """Bits and hashes of a Bloom filter."""
    digest: str = field(init=False)
    """Identifies the question in its reports: it changes with everything that changes their distribution."""

    def __post_init__(self) -> None:
        """Compute the digest once; every report carries it."""
        object.__setattr__(self, "digest", sha256(self.to_json().encode()).hexdigest()[:16])

    @classmethod
    def yes_no(cls, name: str, *, epsilon: Exact, each: Exact | None = None) -> Self:
        """Return a question that is answered yes or no."""
        return cls._make(name, Encoder.KARY, (NO, YES), epsilon, each=each)

    @classmethod
    def coins(cls, name: str) -> Self:
        """Return a question that is answered yes or no with two coins; it costs ln 3."""
        return cls._make(name, Encoder.COINS, (NO, YES), None)

    @classmethod
    def choice(
        cls,
        name: str,
        labels: Iterable[str],
        *,
        epsilon: Exact,
        encoder: Encoder | None = None,
        each: Exact | None = None,
    ) -> Self:
        """Return a question with listed answers; without `encoder`, the one of least variance is used.

        >>> [SurveyQuestion.choice("q", map(str, range(size)), epsilon=1).encoder.value for size in (10, 11)]
        ['kary', 'optimized-unary']
        """
        listed = distinct_labels(labels, argument="labels")
        chosen = best_encoder(len(listed), epsilon) if encoder is None else encoder
        return cls._make(name, chosen, listed, epsilon, each=each)

    @classmethod
    def text(
        cls, name: str, *, epsilon: Exact, encoder: Encoder = Encoder.HASHED, each: Exact | None = None,
        shape: tuple[int, int] = (128, 2)
    ) -> Self:  # fmt: skip
        """Return a question whose answers are any texts; candidates are declared when reports are collected."""
        return cls._make(name, encoder, None, epsilon, each=each, shape=shape if encoder is Encoder.BLOOM else None)

    @classmethod
    def _make(  # noqa: PLR0913, PLR0917  what a question is spelled with
        cls, name: str, encoder: Encoder, labels: Iterable[str] | None, epsilon: Exact | None,
        each: Exact | None = None, shape: tuple[int, int] | None = None
    ) -> Self:  # fmt: skip
        try:
            called = normalize_text(name)
        except TypeError:
            raise InvalidArgument("name", name, "write a text") from None
        alphabet = OpenAlphabet() if labels is None else _alphabet(encoder, labels)
        size = None if alphabet.labels is None else len(alphabet.labels)
        permanent = make_channel(encoder, size, epsilon, shape)
        second = None if each is None else local_epsilon(each, argument="each")
        channel = permanent if second is None else permanent.after(permanent.second_response(odds_below(second)))
        return cls(called, encoder, alphabet, permanent, second, channel, shape)

    @property
    def epsilon(self) -> Fraction:
        """The privacy loss of one report."""
        return self.channel.epsilon

    def event(self) -> PureEvent:
        """Return the event of one report, for an accountant.

        Theorem: local-channels
        """
        return local_event(self.epsilon)

    def accuracy(
        self, confidence: float = 0.95, *, respondents: int, answers: int = 1, against: Against = Against.TABLE
    ) -> Accuracy:
        """Return the error of a share, or of several shares simultaneously, before anyone has answered.

        >>> round(SurveyQuestion.yes_no("ill", epsilon=1).accuracy(respondents=1_000_000).within, 6)
        0.002939

        Theorem: local-estimates
        """
        failing = to_failure_probability(confidence) / validate_count(answers, argument="answers")
        asked = validate_count(respondents, argument="respondents")
        within = expected_width(self.channel.support, asked, failing, against=against)
        return Accuracy(within=within, confidence=confidence, against=against)

    def respondents_for(self, target: Accuracy, *, answers: int = 1) -> int:
        """Return how many people to ask for a share, or for several simultaneously, within the target.

        >>> SurveyQuestion.yes_no("ill", epsilon=1).respondents_for(Accuracy(within=0.01))
        86370
        """
        if target.within == 0:
            raise InvalidArgument("within", target.within, "write a number above 0: noise never vanishes")
        failing = to_failure_probability(target.confidence) / validate_count(answers, argument="answers")
        return respondents_needed(self.channel.support, target, failing)

    def keys(self, values: object) -> Keys:
        """Return answers as the channel reads them; True and False are yes and no."""
        if self.alphabet.labels == (NO, YES) and isinstance(values, list | tuple):
            values = [(YES if value else NO) if isinstance(value, bool | np.bool_) else value for value in values]
        return self.alphabet.keys(self.name, values)

    def respond(self, value: object) -> Report:
        """Return a report of one answer, with fresh randomness. Asking again costs again: use a diary for that.

        Theorem: local-channels
        """
        return next(iter(next(self.batches([value]))))

    def batches(self, values: object) -> Iterator[Batch]:
        """Yield reports of many answers, one for each respondent, in blocks that fit into memory.

        Answers to listed questions may also be an array of label numbers.
        """
        keys = self.keys(values)
        rows = max(1, (_ROWS * 16) // self.channel.width)
        for start in range(0, keys.shape[0], rows):
            block = keys[start : start + rows]
            words = self.permanent.randomize(block, self.permanent.seeds(block.shape[0]))
            if self.each is not None:
                words = self.permanent.randomize_again(words, self.permanent.second_response(odds_below(self.each)))
            yield Batch(self.name, self.digest, words)

    def collect(
        self, reports: Iterable[Report | Batch], *, candidates: Iterable[str] | None = None, confidence: float = 0.95
    ) -> Estimates:
        """Return the estimated shares of all labels, or of the declared candidates for open texts.

        A report that this question cannot have sent is refused with its number, and nothing is estimated.
        """
        to_failure_probability(confidence)
        labels = self._labels_to_count(candidates)
        keys = self.alphabet.keys(self.name, list(labels))
        marks, respondents = np.zeros(len(labels), dtype=np.int64), 0
        width = self.channel.width
        for batch in blocks(reports, question=self.name, channel=self.digest, width=width):
            unfit = np.flatnonzero(~self.channel.fits(batch.words))
            if unfit.size:
                raise BadReport("this question's channel never sends it", number=respondents + int(unfit[0]))
            marks += self.channel.marks(batch.words, keys)
            respondents += len(batch)
        if respondents == 0:
            raise NoReports(self.name)
        return Estimates(self.name, labels, tuple(marks.tolist()), respondents, self.channel.support, confidence)

    def to_json(self) -> str:
        """Return the question as text, for the respondents' devices."""
        spelled = self.alphabet.labels
        fields = {
            "each": None if self.each is None else str(self.each), "encoder": self.encoder.value,
            "epsilon": None if self.encoder is Encoder.COINS else str(self.permanent.epsilon), "format": FORMAT,
            "labels": None if spelled is None else list(spelled), "name": self.name,
            "shape": None if self.shape is None else list(self.shape),
        }  # fmt: skip
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the question that a text encodes."""
        wrong = InvalidRequest("The text does not encode a question of this version: write what `to_json` returned.")
        try:
            fields = json.loads(text)
            shape = None if fields["shape"] is None else (fields["shape"][0], fields["shape"][1])
            made = cls._make(
                fields["name"], Encoder(fields["encoder"]), fields["labels"], fields["epsilon"], fields["each"], shape
            )
        except (ValueError, TypeError, LookupError, RecursionError):
            raise wrong from None
        if made.to_json() != text:
            raise wrong
        return made

    def _labels_to_count(self, candidates: Iterable[str] | None) -> tuple[str, ...]:
        known = self.alphabet.labels
        if known is not None and candidates is None:
            return known
        if candidates is None:
            raise InvalidArgument("candidates", candidates, "the answers are open texts: write those to be counted")
        return distinct_labels(candidates, argument="candidates")


def _alphabet(encoder: Encoder, labels: Iterable[str]) -> ClosedAlphabet:
    return ClosedAlphabet.by_fingerprint(labels) if encoder.hashes else ClosedAlphabet.by_number(labels)
