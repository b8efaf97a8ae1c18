"""The labels of answers, and the keys by which a channel reads them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.lab.local.channel import Keys, Numbers
from dodona.lab.local.hashing import fingerprint

Parsed = TypeVar("Parsed")

_LONGEST = 1_000
_HALVES = re.compile("[\ud800-\udfff]")
"""Surrogate halves of characters, which UTF-8 text cannot contain."""


class CollidingLabels(InvalidRequest):
    """Two labels of one alphabet cannot be distinguished."""

    code = "colliding-labels"

    def __init__(self, first: str, second: str, *, why: str) -> None:
        """Name both and say what to do."""
        self.labels = (first, second)
        super().__init__(f"The labels {first!r} and {second!r} cannot be distinguished: {why}. Nothing was drawn.")


class UnknownValue(InvalidRequest):
    """An answer that the question does not offer."""

    code = "unknown-value"

    def __init__(self, question: str, accepted: str) -> None:
        """Say which answers are valid; the answer itself is private and not repeated."""
        super().__init__(f"The question {question!r} has no such answer: {accepted}. Nothing was drawn.")


@dataclass(frozen=True, slots=True, eq=False)
class ClosedAlphabet:
    """A fixed list of labels; every answer is one of them."""

    labels: tuple[str, ...]
    numbers: Mapping[str, int]
    keyed: Keys
    """The key that the channel reads for each label."""

    @classmethod
    def by_number(cls, labels: Iterable[str]) -> Self:
        """Return the alphabet of these labels for a channel that reads their numbers."""
        listed = _at_least_two(labels)
        return cls(listed, _numbers(listed), np.arange(len(listed), dtype=np.uint64))

    @classmethod
    def by_fingerprint(cls, labels: Iterable[str]) -> Self:
        """Return the alphabet of these labels for a channel that reads their fingerprints."""
        listed = _at_least_two(labels)
        return cls(listed, _numbers(listed), np.array([fingerprint(label) for label in listed], dtype=np.uint64))

    def keys(self, question: str, values: object) -> Keys:
        """Return the key of each answer; an array of integers is taken as label numbers."""
        accepted = f"write one of {preview_labels(self.labels)}"
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.ndim == 1:
            numbers: Numbers = np.asarray(values)  # what a mask covers is an answer too
            if numbers.size and (int(numbers.min()) < 0 or int(numbers.max()) >= len(self.labels)):
                raise UnknownValue(question, f"write numbers of labels, from 0 to {len(self.labels) - 1}")
            return self.keyed[numbers]
        read = _parse_answers(values, lambda value: self.numbers[normalize_text(value)])
        if read is None:
            raise UnknownValue(question, accepted)
        return self.keyed[np.array(read, dtype=np.int64)]


@dataclass(frozen=True, slots=True)
class OpenAlphabet:
    """Any text is an answer; candidates to count are named when reports are collected."""

    labels: None = None

    def keys(self, question: str, values: object) -> Keys:
        """Return the fingerprint of each answer."""
        read = _parse_answers(values, lambda value: fingerprint(normalize_text(value)))
        if read is None:
            raise UnknownValue(question, f"write a text of 1 to {_LONGEST} characters")
        return np.array(read, dtype=np.uint64).reshape(-1, 2)


def distinct_labels(labels: Iterable[str], *, argument: str) -> tuple[str, ...]:
    """Return the labels if they are all distinct, also after normalization and by their fingerprints."""
    accepted = f"write a list of texts of 1 to {_LONGEST} characters"
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise InvalidArgument(argument, labels, accepted)
    seen: dict[str, str] = {}
    prints: dict[tuple[int, int], str] = {}
    for label in labels:
        try:
            read = normalize_text(label)
        except TypeError:
            raise InvalidArgument(argument, label, accepted) from None
        if read in seen:
            why = "they are equal" if label == seen[read] else "they are one text in two spellings of Unicode"
            raise CollidingLabels(seen[read], label, why=f"{why}; leave one out")
        other = prints.setdefault(fingerprint(read), read)
        if other != read:
            raise CollidingLabels(other, read, why="their fingerprints are equal; change one of the texts")
        seen[read] = label
    if not seen:
        raise InvalidArgument(argument, labels, accepted)
    return tuple(seen)


def normalize_text(value: object) -> str:
    """Return a text in Unicode's composed form (NFC), in which equal texts have equal characters."""
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST or _HALVES.search(value):
        raise TypeError
    return unicodedata.normalize("NFC", value)


def preview_labels(labels: Sequence[str], most: int = 6) -> str:
    """Return the first labels and how many more there are."""
    text = ", ".join(repr(label) for label in labels[:most])
    return text if len(labels) <= most else f"{text} or one of {len(labels) - most:,} more"


def _at_least_two(labels: Iterable[str]) -> tuple[str, ...]:
    listed = distinct_labels(labels, argument="labels")
    if len(listed) == 1:
        raise InvalidArgument("labels", listed, "write at least two labels: with one there is nothing to hide")
    return listed


def _numbers(labels: tuple[str, ...]) -> dict[str, int]:
    return {label: number for number, label in enumerate(labels)}


def _parse_answers(values: object, read: Callable[[object], Parsed]) -> list[Parsed] | None:
    """Return what each answer means; None if one is invalid, because an error from here would quote it."""
    try:
        return [read(value) for value in _several(values)]
    except (KeyError, TypeError):
        return None


def _several(values: object) -> Iterable[object]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise TypeError
    array: Iterable[object] = values.tolist() if isinstance(values, np.ndarray) else values
    return array
