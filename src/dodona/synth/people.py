"""Made-up people: fresh ids for synthetic rows where a person is protected, from public facts alone."""

import math

import numpy as np
from numpy.random import Generator  # noqa: TID251  people of made-up rows; the seed is public
from numpy.typing import NDArray

from dodona.numbers import to_integer
from dodona.schema.schema import Unit

_HALVINGS = 200


def draw_people(rows: int, unit: Unit, chance: Generator, *, people: int | None = None) -> NDArray[np.int64]:
    """Return the number of the made-up person of each row, from 0, in no order.

    Nobody has more rows than the cap. With a number of people, which is public or was asked for, rows are spread over
    about so many; without one, every number of rows up to the cap is as likely.
    """
    cap = unit.caps[0][1] if unit.caps else unit.rows
    fewest = math.ceil(rows / cap)
    if people is not None:
        people = to_integer(people, argument="people", lower=fewest, upper=rows)
    mean = (1 + cap) / 2 if people is None else rows / people
    law = rows_law(cap, mean)
    batches = list[NDArray[np.int64]]()
    while sum(int(batch.sum()) for batch in batches) < rows:
        batches.append(chance.choice(np.arange(1, cap + 1), size=max(16, math.ceil(rows / mean)), p=law))
    counts = np.concatenate(batches) if batches else np.zeros(0, dtype=np.int64)
    owners = np.repeat(np.arange(counts.size), counts)[:rows]
    chance.shuffle(owners)
    return owners


def rows_law(cap: int, mean: float) -> NDArray[np.float64]:
    """Return the law of a person's number of rows, from 1 to the cap, with a given mean, and otherwise the most even.

    >>> rows_law(4, 2.5).round(3).tolist(), rows_law(3, 1).tolist()
    ([0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0])
    """
    numbers = np.arange(1, cap + 1)
    if mean <= 1 or mean >= cap:
        return np.where(numbers == (1 if mean <= 1 else cap), 1.0, 0.0)
    low, high = -60.0, 60.0
    for _ in range(_HALVINGS):  # the mean rises in the slope of the logarithm
        slope = (low + high) / 2
        law = _tilted(numbers, slope)
        low, high = (slope, high) if float(law @ numbers) < mean else (low, slope)
    return _tilted(numbers, (low + high) / 2)


def _tilted(numbers: NDArray[np.int64], slope: float) -> NDArray[np.float64]:
    weights = slope * numbers
    law = np.exp(weights - weights.max())
    probabilities: NDArray[np.float64] = law / law.sum()
    return probabilities
