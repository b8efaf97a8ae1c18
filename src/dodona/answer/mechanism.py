"""The mechanism of an answer in words, and the theory pages behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from dodona.answer.form import form_of
from dodona.answer.law import spelled
from dodona.answer.measured import Measured, Noise
from dodona.mechanisms.gaussian import Gaussian
from dodona.mechanisms.laplace import Laplace
from dodona.query.expression import (
    Arithmetic,
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


def spelled_out(measured: Measured) -> str:
    """Return the noises of a measurement in words, with how many values each is on."""
    found: dict[Noise, int] = {}
    for noise, block in zip(measured.noises, measured.question.query.blocks, strict=True):
        found[noise] = found.get(noise, 0) + block.values
    parts = [f"{spelled(noise)} on {_times(values)}" for noise, values in found.items()]
    return "; ".join(parts)


def theorems(measured: Measured) -> str:
    """Return the ids of theory pages: of the privacy of the noise, then of the intervals that are shown."""
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
        case KeyOf() | Literal() | Comparison() | Logic():
            return
        case _:
            assert_never(expression)


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
