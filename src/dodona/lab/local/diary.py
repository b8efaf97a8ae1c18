"""A respondent's diary: permanent answers, so that being asked again and again does not wear the noise away."""

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
from dodona.lab.local.question import Question
from dodona.lab.local.report import FORMAT, Report

Kept = Mapping[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a respondent's reports of one question have cost so far, said for two kinds of histories."""

    values: int
    """How many different answers were reported."""
    reports: int
    """How often."""
    same_moments: Fraction
    """Against a history with other answers that changed at the same moments: a permanent report for each answer.
    Where the answer never changed, that is one, however often it was reported."""
    any_history: Fraction | None
    """Against any history at all. None means that there is no bound: whoever sees a report change knows that the answer
    did. Only a second look at each report hides that, and then every report costs."""


@dataclass(frozen=True, slots=True, eq=False)
class Diary:
    """What one respondent's device keeps. It is private: it must never leave the device.

    Theorem: local-memory
    """

    question: Question
    seed: tuple[int, ...]
    """One for all answers: a new seed would tell that the answer has changed."""
    kept: Kept = field(default_factory=lambda: MappingProxyType({}), repr=False)
    reports: int = 0

    @classmethod
    def empty(cls, question: Question) -> Self:
        """Return a new respondent's diary."""
        return cls(question, tuple(question.permanent.seeds(1)[0].tolist()))

    def respond(self, value: object) -> tuple[Report, Self]:
        """Return a report and the diary to keep from now on. Store the diary before the report is sent.

        An answer that was given before is told from its permanent report; a new one draws its own.

        Theorem: local-memory
        """
        keys = self.question.keys([value])
        key = tuple(np.ravel(keys).tolist())
        channel = self.question.permanent
        kept = self.kept
        if key not in kept:
            fresh = channel.tell(keys, _row(self.seed))
            kept = MappingProxyType({**kept, key: tuple(fresh[0].tolist())})
        told = _row(kept[key])
        if self.question.each is not None:
            told = channel.retell(told, channel.look(odds_below(self.question.each)))
        report = Report(self.question.name, self.question.digest, tuple(told[0].tolist()))
        return report, replace(self, kept=kept, reports=self.reports + 1)

    def cost(self) -> Cost:
        """Return what the reports so far have cost.

        Theorem: local-memory
        """
        permanent, second = self.question.permanent, self.question.each
        values = len(self.kept)
        anything = None if second is None else second * permanent.places * self.reports
        return Cost(values, self.reports, values * permanent.epsilon, anything)

    def to_json(self) -> str:
        """Return the diary as text, to be kept on the device alone."""
        kept = [[_hex(key), _hex(told)] for key, told in sorted(self.kept.items())]
        fields = {
            "format": FORMAT, "kept": kept, "question": self.question.digest, "reports": self.reports,
            "seed": _hex(self.seed),
        }  # fmt: skip
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, *, question: Question) -> Self:
        """Return the diary that a text spells, for the question that it was kept for."""
        wrong = InvalidRequest(
            "The text is no diary of this question: write what `to_json` returned, and ask with the same settings. "
            "Do not start an empty diary instead: new permanent answers would cost once more."
        )
        try:
            fields = json.loads(text)
            kept = {_words(key): _words(told) for key, told in fields["kept"]}
            found = cls(question, _words(fields["seed"]), MappingProxyType(kept), fields["reports"])
        except (ValueError, TypeError, LookupError, RecursionError):
            raise wrong from None
        if fields["question"] != question.digest or found.to_json() != text:
            raise wrong
        return found


def _row(words: tuple[int, ...]) -> Words:
    return np.array([words], dtype=np.uint64).reshape(1, len(words))


def _hex(words: tuple[int, ...]) -> list[str]:
    return [f"{word:x}" for word in words]


def _words(spelled: list[str]) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in spelled)
