"""A respondent's diary: permanent responses, so that repeated questions do not average the noise away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Self

import numpy as np

from dodona.errors import InvalidRequest
from dodona.lab.local.channel import Words
from dodona.lab.local.odds import odds_below
from dodona.lab.local.question import SurveyQuestion
from dodona.lab.local.report import FORMAT, Report

PermanentReports = Mapping[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Cost:
    """The privacy loss of a respondent's reports to one question so far, against two kinds of histories."""

    values: int
    """The number of distinct answers reported."""
    reports: int
    """The number of reports."""
    same_moments: Fraction
    """Against histories that changed at the same moments: a permanent response for each distinct answer."""
    any_history: Fraction | None
    """Against any history; None if unbounded, because a changed report reveals a changed answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Diary:
    """The state of one respondent's device. It is private and must never leave the device.

    Theorem: local-memory
    """

    question: SurveyQuestion
    seed: tuple[int, ...]
    """The same for all answers: a new seed would reveal that the answer has changed."""
    kept: PermanentReports = field(default_factory=lambda: MappingProxyType({}), repr=False)
    reports: int = 0

    @classmethod
    def empty(cls, question: SurveyQuestion) -> Self:
        """Return a new respondent's diary."""
        return cls(question, tuple(question.permanent.seeds(1)[0].tolist()))

    def respond(self, value: object) -> tuple[Report, Self]:
        """Return a report and the diary to keep from now on. Store the diary before the report is sent.

        A repeated answer reuses its permanent response; a new answer draws one.

        Theorem: local-memory
        """
        keys = self.question.keys([value])
        key = tuple(np.ravel(keys).tolist())
        channel = self.question.permanent
        kept = self.kept
        if key not in kept:
            fresh = channel.randomize(keys, _row(self.seed))
            kept = MappingProxyType({**kept, key: tuple(fresh[0].tolist())})
        words = _row(kept[key])
        if self.question.each is not None:
            words = channel.randomize_again(words, channel.second_response(odds_below(self.question.each)))
        report = Report(self.question.name, self.question.digest, tuple(words[0].tolist()))
        return report, replace(self, kept=kept, reports=self.reports + 1)

    def cost(self) -> Cost:
        """Return the privacy loss of the reports so far.

        Theorem: local-memory
        """
        permanent, second = self.question.permanent, self.question.each
        values = len(self.kept)
        anything = None if second is None else second * permanent.places * self.reports
        return Cost(values, self.reports, values * permanent.epsilon, anything)

    def to_json(self) -> str:
        """Return the diary as text, to be kept only on the device."""
        kept = [[_hex(key), _hex(words)] for key, words in sorted(self.kept.items())]
        fields = {
            "format": FORMAT, "kept": kept, "question": self.question.digest, "reports": self.reports,
            "seed": _hex(self.seed),
        }  # fmt: skip
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, *, question: SurveyQuestion) -> Self:
        """Return the diary that a text encodes, for the question that it was kept for."""
        wrong = InvalidRequest(
            "The text is not a diary of this question: write what `to_json` returned, and ask with the same settings. "
            "Do not start an empty diary instead: new permanent answers would cost once more."
        )
        try:
            fields = json.loads(text)
            kept = {_words(key): _words(words) for key, words in fields["kept"]}
            diary = cls(question, _words(fields["seed"]), MappingProxyType(kept), fields["reports"])
        except (ValueError, TypeError, LookupError, RecursionError):
            raise wrong from None
        if fields["question"] != question.digest or diary.to_json() != text:
            raise wrong
        return diary


def _row(words: tuple[int, ...]) -> Words:
    return np.array([words], dtype=np.uint64).reshape(1, len(words))


def _hex(words: tuple[int, ...]) -> list[str]:
    return [f"{word:x}" for word in words]


def _words(spelled: list[str]) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in spelled)
