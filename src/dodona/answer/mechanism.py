"""The mechanism of an answer in words, and the theory pages behind it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import assert_never

from dodona.answer.blend import Bell, Blend, Law
from dodona.answer.claim import Checked, Guessed
from dodona.answer.derived import Derived, Evidence
from dodona.answer.form import form_of
from dodona.answer.law import spelled, spelled_kinds
from dodona.answer.measured import Noise
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.query.expression import (
    Arithmetic,
    Certain,
    Comparison,
    Expression,
    KeyOf,
    Literal,
    Logic,
    Mean,
    Quantile,
    Total,
    Variation,
)
from dodona.query.query import Query

_MOST_LAWS = 3  # more of them are told together


def spelled_out(measured: Evidence) -> str:
    """Return the noises of a measurement in words, with how many values each is on."""
    if isinstance(measured, Derived):
        return _combined(measured)
    found: dict[Noise, int] = {}
    for noise, block in zip(measured.noises, measured.question.query.blocks, strict=True):
        found[noise] = found.get(noise, 0) + block.values
    parts = [f"{spelled(noise)} on {_times(values)}" for noise, values in found.items()]
    return "; ".join(parts)


def _combined(derived: Derived) -> str:
    """Return what values follow from in words, with how many values each law is of."""
    found: dict[Law, int] = {}
    for laws, part in zip(derived.laws, derived.parts, strict=True):
        for law in laws:
            found[law] = found.get(law, 0) + len(part) // len(laws)
    values = sum(found.values())
    if values == 1:
        return _told(next(iter(found)))
    if len(found) <= _MOST_LAWS:
        return "; ".join(f"{_told(law)}, for {_times(number)}" for law, number in found.items())
    kinds = [kind for law in found for kind in _kinds(law)]
    return f"combinations of numbers that were told before, with {spelled_kinds(kinds)}, for {_times(values)}"


def _told(law: Law) -> str:
    match law:
        case Blend() if law.draws == 0:
            return "none: it is the same whatever the rows are"
        case Blend():
            number = "one number that was" if law.draws == 1 else f"{law.draws:,} numbers that were"
            return f"a combination of {number} told before, with {spelled_kinds(_kinds(law))}"
        case Bell():
            noise = f"discrete Gaussian noise, of deviation {law.variance**0.5:.6g} in all"
            return f"a combination of numbers that were told before, with {noise}"
        case Laplace() | Gaussian():
            return f"a number that was told before, with {spelled(law)}"
        case Checked():
            noises = f"{law.threshold_scale:.6g} and {law.question_scale:.6g}"
            return f"a model's prediction, compared with the table under discrete Laplace noise of scales {noises}"
        case Guessed():
            return "a model's prediction, compared with nothing"
        case _:
            assert_never(law)


def _kinds(law: Law) -> list[tuple[str, float | None]]:
    """Return the names of a law's noises, and their scales where they are kept."""
    match law:
        case Blend():
            return [(term.law, term.scale) for term in law.terms]
        case Bell():
            return [("Gaussian", None)]
        case Laplace() | Gaussian():
            return [(type(law).__name__, float(law.scale))]
        case Checked():
            return [("Laplace", law.threshold_scale), ("Laplace", law.question_scale)]
        case Guessed():
            return []
        case _:
            assert_never(law)


def theorems(measured: Evidence) -> str:
    """Return the ids of theory pages: of the privacy of the noise, then of the intervals that are shown."""
    if isinstance(measured, Derived):
        return ", ".join(dict.fromkeys(page for laws in measured.laws for law in laws for page in _behind(law)))
    found = [noise.theorem for noise in measured.noises]
    for column in measured.question.columns:
        found += _pages(column.expression, measured.question.query, measured.noises)
    return ", ".join(dict.fromkeys(found))


def _pages(expression: Expression, query: Query, noises: tuple[Noise, ...]) -> Iterator[str]:
    match expression:
        case Total(block):
            yield _accuracy(noises[block])
        case Mean():
            yield "honest-ratio"
        case Variation():
            yield "honest-spread"
        case Quantile():
            yield "quantile-interval"
        case Arithmetic(_, left, right):
            if form_of(expression, query) is not None:
                yield "sum-of-noises"
            else:
                yield "honest-ratio"
                yield from _pages(left, query, noises)
                yield from _pages(right, query, noises)
        case KeyOf() | Literal() | Certain() | Comparison() | Logic():
            return
        case _:
            assert_never(expression)


def _behind(law: Law) -> tuple[str, ...]:
    """Return the pages behind a value that was not measured for its question."""
    match law:
        case Checked():
            return "sparse-vector-privacy", "confirmed-answer"
        case Guessed():
            return ("post-processing", "public-bounds") if math.isfinite(law.possible) else ("post-processing",)
        case Blend() | Bell():
            return "derivation", "smoothed-sum"
        case Laplace() | Gaussian():
            return "derivation", _accuracy(law)
        case _:
            assert_never(law)


def _accuracy(noise: Noise) -> str:
    match noise:
        case Laplace():
            return "laplace-accuracy"
        case Gaussian():
            return "gaussian-accuracy"
        case _:
            assert_never(noise)


def _times(values: int) -> str:
    return "one value" if values == 1 else f"each of {values:,} values"
