"""The most that any attacker can recover from differentially private answers, whatever they know and compute.

Tables that differ in one person's secret must be neighbours, as they are where neighbours replace a row.
"""

from __future__ import annotations

import math

from dodona.errors import InvalidArgument

_LARGEST_EPSILON = 700.0  # e^700 is still a number


def largest_share(epsilon: float, *, delta: float = 0.0, values: int = 2) -> float:
    """Return the largest expected share of secrets recovered, if each is uniform on `values` values.

    It is (e^ε + (c-1)δ)/(e^ε + c-1) for c values.

    >>> round(largest_share(1), 4)
    0.7311

    Theorem: recovered-secrets
    """
    epsilon, delta = _validate_privacy(epsilon, delta)
    others = _others(values)
    return (math.exp(epsilon) + others * delta) / (math.exp(epsilon) + others)


def luck(recovered: int, total: int, *, epsilon: float, delta: float = 0.0, values: int = 2) -> float:
    """Return the largest probability of recovering at least `recovered` of the secrets.

    Secrets from several runs may be added up. A run refutes the claim if this is below the allowed false-alarm rate.

    Theorem: recovered-secrets
    """
    epsilon, delta = _validate_privacy(epsilon, delta)
    if not 0 <= recovered <= total:
        raise InvalidArgument("recovered", recovered, f"write a number of secrets from 0 to the {total} there are")
    from scipy.special import bdtrc  # loaded late: it takes longer than everything else here

    probability = largest_share(epsilon, values=values)
    tail = 1.0 if recovered == 0 else float(bdtrc(recovered - 1, total, probability))
    return min(1.0, tail + total * _others(values) * delta / (math.exp(epsilon) + _others(values)))


def _validate_privacy(epsilon: float, delta: float) -> tuple[float, float]:
    if not 0 <= epsilon <= _LARGEST_EPSILON:
        raise InvalidArgument("epsilon", epsilon, f"write a number from 0 to {_LARGEST_EPSILON:g}")
    if not 0 <= delta <= 1:
        raise InvalidArgument("delta", delta, "write a number from 0 to 1")
    return float(epsilon), float(delta)


def _others(values: int) -> int:
    if type(values) is not int or values < 2:  # noqa: PLR2004
        raise InvalidArgument("values", values, "write how many values a secret may have, 2 or more")
    return values - 1
