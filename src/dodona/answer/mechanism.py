"""The mechanism of an answer in words, and the theory pages behind it."""

import math
from collections.abc import Iterator, Sequence
from typing import assert_never

from dodona.answer import laws as error_laws
from dodona.answer.bands import linear_form
from dodona.answer.laws import DerivedValues, Evidence
from dodona.privacy.additive_noise import Gaussian, Laplace, Noise, RoundedGaussian
from dodona.query import question as asked
from dodona.query.query import Query

_MOST_LAWS = 3  # more laws than this are summarised


def describe_mechanism(measured: Evidence) -> str:
    """Return the noises of a measurement in words, with the number of values each applies to."""
    if isinstance(measured, DerivedValues):
        return _describe_derived(measured)
    return describe_measurement(measured.question.query, measured.noises)


def describe_measurement(query: Query, noises: Sequence[Noise]) -> str:
    """Return the noises of the blocks of a query in words, with the number of values each applies to."""
    counts: dict[Noise, int] = {}
    for noise, block in zip(noises, query.blocks, strict=True):
        counts[noise] = counts.get(noise, 0) + block.values
    return "; ".join([f"{error_laws.describe_noise(noise)} on {_times(values)}" for noise, values in counts.items()])


def _describe_derived(derived: DerivedValues) -> str:
    """Return the sources of derived values in words, with the number of values of each law."""
    counts: dict[error_laws.ErrorLaw, int] = {}
    for laws, part in zip(derived.laws, derived.parts, strict=True):
        for law in laws:
            counts[law] = counts.get(law, 0) + len(part) // len(laws)
    values = sum(counts.values())
    if values == 1:
        return _describe_law(next(iter(counts)))
    if len(counts) <= _MOST_LAWS:
        return "; ".join(f"{_describe_law(law)}, for {_times(number)}" for law, number in counts.items())
    guess = next((law for law in counts if isinstance(law, error_laws.ModelLaw)), None)
    if guess is not None:
        return f"{_describe_law(guess)}, for {_times(values)}"
    kinds = [kind for law in counts for kind in _law_noises(law)]
    return f"combinations of released numbers, with {error_laws.describe_noises(kinds)}, for {_times(values)}"


def _describe_law(law: error_laws.ErrorLaw) -> str:
    match law:
        case error_laws.NoiseSum() if law.draws == 0:
            return "none: it is the same whatever the rows are"
        case error_laws.NoiseSum():
            number = "one released number" if law.draws == 1 else f"{law.draws:,} released numbers"
            return f"a combination of {number}, with {error_laws.describe_noises(_law_noises(law))}"
        case error_laws.GaussianSumBound():
            noise = f"discrete Gaussian noise, of deviation {law.variance**0.5:.6g} in all"
            return f"a combination of released numbers, with {noise}"
        case Laplace() | Gaussian() | RoundedGaussian():
            return f"a released number, with {error_laws.describe_noise(law)}"
        case error_laws.ModelLaw():
            return "a model's prediction, compared with nothing"
        case _:
            assert_never(law)


def _law_noises(law: error_laws.ErrorLaw) -> list[tuple[str, float | None]]:
    """Return the names of a law's noises, and their scales if they are stored."""
    match law:
        case error_laws.NoiseSum():
            return [(term.law, term.scale) for term in law.terms]
        case error_laws.GaussianSumBound():
            return [("Gaussian", None)]
        case Laplace() | Gaussian() | RoundedGaussian():
            return [(type(law).__name__, float(law.scale))]
        case error_laws.ModelLaw():
            return []
        case _:
            assert_never(law)


def theorem_ids(measured: Evidence) -> str:
    """Return the ids of theory pages: on the privacy of the noise, then on the displayed intervals."""
    if isinstance(measured, DerivedValues):
        pages = [page for laws in measured.laws for law in laws for page in _law_theorems(law)]
        return ", ".join(dict.fromkeys([*pages, *_joint_theorems(measured)]))
    theorems = [noise.theorem for noise in measured.noises]
    for column in measured.question.columns:
        theorems += _expression_theorems(column.expression, measured.question.query, measured.noises)
    return ", ".join(dict.fromkeys(theorems))


def _joint_theorems(derived: DerivedValues) -> Iterator[str]:
    """Yield the pages on the intervals of what is computed from several blocks."""
    if derived.joint is None:
        return
    yield "joint-law"
    for column in derived.question.columns:
        match column.expression:
            case asked.Variation():
                yield "honest-spread"
            case asked.Mean() | asked.Arithmetic():
                yield "honest-ratio"
            case _:
                pass


def _expression_theorems(expression: asked.Expression, query: Query, noises: tuple[Noise, ...]) -> Iterator[str]:
    match expression:
        case asked.Total(block):
            yield _accuracy_theorem(noises[block])
        case asked.Mean():
            yield "honest-ratio"
        case asked.Variation():
            yield "honest-spread"
        case asked.Association():
            yield "honest-association"
        case asked.Quantile():
            yield "quantile-interval"
        case asked.Arithmetic(_, left, right):
            if linear_form(expression, query) is not None:
                yield "sum-of-noises"
            else:
                yield "honest-ratio"
                yield from _expression_theorems(left, query, noises)
                yield from _expression_theorems(right, query, noises)
        case asked.KeyLabel() | asked.LiteralExpression() | asked.PublicValue() | asked.Comparison() | asked.Logic():
            return
        case _:
            assert_never(expression)


def _law_theorems(law: error_laws.ErrorLaw) -> tuple[str, ...]:
    """Return the theory pages behind a value that was not measured for its question."""
    match law:
        case error_laws.ModelLaw():
            return ("post-processing", "public-bounds") if math.isfinite(law.possible) else ("post-processing",)
        case error_laws.NoiseSum() | error_laws.GaussianSumBound():
            return "derivation", "smoothed-sum"
        case Laplace() | Gaussian() | RoundedGaussian():
            return "derivation", _accuracy_theorem(law)
        case _:
            assert_never(law)


def _accuracy_theorem(noise: Noise) -> str:
    match noise:
        case Laplace():
            return "laplace-accuracy"
        case Gaussian():
            return "gaussian-accuracy"
        case RoundedGaussian():
            return "rounded-gaussian"
        case _:
            assert_never(noise)


def _times(values: int) -> str:
    return "one value" if values == 1 else f"each of {values:,} values"
