"""Faults in responses and choices."""

from __future__ import annotations

from dodona.lab.audit.patch import Mutant, replace_lines

_DIRECT = "dodona.lab.direct"
_SAMPLERS = "dodona.lab.sampling"
_CONTESTS = "            return contest.contests(_scores(scores), count, "

MUTANTS = (
    Mutant(
        "responses too honest",
        "the truth is reported as often as 2ε would allow; half of ε would only be wasteful, not a fault",
        (
            replace_lines(
                _DIRECT,
                "            honest = sampling.truths(epsilon, words, SYSTEM.word)",
                "            honest = sampling.truths(2 * epsilon, words, SYSTEM.word)",
                symbol="_respond",
            ),
        ),
        ("randomized response", "randomized response singly"),
    ),
    Mutant(
        "first coin biased",
        "the first coin asks for the truth three times in four",
        (
            replace_lines(
                _DIRECT,
                "            heads, second = (words & np.uint64(1)) > 0, (words & np.uint64(2)) > 0",
                "            heads, second = (words & np.uint64(5)) == np.uint64(5), (words & np.uint64(2)) > 0",
                symbol="_respond",
            ),
        ),
        ("coins",),
    ),
    Mutant(
        "noisy max releases the maximum",
        "the gap's place holds the largest noisy score",
        (
            replace_lines(
                _SAMPLERS,
                "    return np.stack((won, top - noisy.max(axis=1)), axis=1)",
                "    return np.stack((won, top), axis=1)",
                symbol="noisy_maxima",
            ),
        ),
        ("noisy max of five that all rise",),
    ),
    Mutant(
        "ties to the higher score",
        "between equal noisy scores the higher true score wins",
        (
            replace_lines(
                _SAMPLERS,
                "    order = stream.words(noisy.size).reshape(noisy.shape)",
                "    rank = np.argsort(np.argsort(-values, kind='stable')).astype(np.uint64)\n"
                "    order = np.tile(rank, (noisy.shape[0], 1))",
                symbol="noisy_maxima",
            ),
        ),
        ("noisy max of two, monotone",),
    ),
    Mutant(
        "Gaussian noisy max",
        "Gaussian noise of the same scale, priced as if it were Laplace noise",
        (
            replace_lines(
                _SAMPLERS,
                "    noise = draw_values(laws.laplace_law(width), count * values.size, stream, kernel=kernel)",
                "    noise = draw_values(laws.gaussian_law(width**2), count * values.size, stream, kernel=kernel)",
                symbol="noisy_maxima",
            ),
        ),
        ("noisy max of many", "noisy max of two"),
    ),
    Mutant(
        "exponential too sharp",
        "scores count twice",
        (
            replace_lines(
                _DIRECT,
                f"{_CONTESTS}unit=1 / mechanism.scale, draw=contest.ContestLaw.GUMBEL)",
                f"{_CONTESTS}unit=2 / mechanism.scale, draw=contest.ContestLaw.GUMBEL)",
                symbol="repeat",
            ),
        ),
        ("exponential of two", "exponential of twenty"),
    ),
)
