"""Faulty sparse vectors: the four of Lyu, Su and Li (2017) that are not private, and more."""

from __future__ import annotations

from dodona.lab.audit.patch import Mutant, replace_lines

_THRESHOLD = "dodona.trusted.gate"
_MECHANISM = "dodona.privacy.sparse_vector"
_GAP = "            gap = value + self._noise(self._mechanism.question_scale) - threshold - self._shift"
_CUTOFF = (
    "            left, self._left = self._left - 1, 0  # should chance fail now, the old noise must not serve again"
)
_NO_CUTOFF = "            left = self._left"
_TOLD = "            return Verdict(above=True, gap=gap, answer=None if scale is None else value + self._noise(scale))"

MUTANTS = (
    Mutant(
        "sparse vector, algorithm 3",
        "a positive releases the same noisy value that was compared (Roth 2011)",
        (
            replace_lines(
                _THRESHOLD,
                _CUTOFF,
                f"{_CUTOFF}\n            noisy = gap + threshold + self._shift",
                symbol="OpenSparseVector.ask",
            ),
            replace_lines(
                _THRESHOLD,
                _TOLD,
                "            return Verdict(above=True, gap=gap, answer=None if scale is None else noisy)",
                symbol="OpenSparseVector.ask",
            ),
        ),
        ("sparse vector: numeric",),
    ),
    Mutant(
        "sparse vector, algorithm 4",
        "the noise of questions does not grow with the number of positives (Lee and Clifton 2014)",
        (
            replace_lines(
                _MECHANISM,
                "            question_scale=sides * count * sensitivity.linf / (loss * (1 - share)),",
                "            question_scale=sides * sensitivity.linf / (loss * (1 - share)),",
                symbol="SparseVector.for_privacy",
            ),
            replace_lines(
                _MECHANISM,
                "        sides = _sides(sensitivity) * (1 if self.restarts else self.positives)",
                "        sides = _sides(sensitivity)",
                symbol="SparseVector.event",
            ),
        ),
        ("sparse vector: 6 positives, halves moved apart",),
    ),
    Mutant(
        "sparse vector, algorithm 5",
        "no noise on questions and no halt (Stoddard, Chen and Machanavajjhala 2014)",
        (
            replace_lines(
                _THRESHOLD, _GAP, "            gap = value - threshold - self._shift", symbol="OpenSparseVector.ask"
            ),
            replace_lines(_THRESHOLD, _CUTOFF, _NO_CUTOFF, symbol="OpenSparseVector.ask"),
        ),
        ("sparse vector: 10 questions, halves swapped",),
    ),
    Mutant(
        "sparse vector, algorithm 6",
        "it never halts (Chen and others 2015)",
        (replace_lines(_THRESHOLD, _CUTOFF, _NO_CUTOFF, symbol="OpenSparseVector.ask"),),
        ("sparse vector: 20 questions, halves swapped",),
    ),
    Mutant(
        "threshold without noise",
        "only questions are noisy",
        (
            replace_lines(
                _THRESHOLD,
                "        self._shift = noise(mechanism.threshold_scale)",
                "        self._shift = 0",
                symbol="OpenSparseVector.__init__",
            ),
        ),
        ("sparse vector: one threshold",),
    ),
    Mutant(
        "threshold drawn again for nothing",
        "each positive redraws the threshold, but one instance is charged",
        (
            replace_lines(
                _MECHANISM,
                "        parts: list[tuple[Event, int]] = [(instance, self.positives if self.restarts else 1)]",
                "        parts: list[tuple[Event, int]] = [(instance, 1)]",
                symbol="SparseVector.event",
            ),
        ),
        ("sparse vector: 8 positives, restarting",),
    ),
    Mutant(
        "sparse vector answers exactly",
        "the number that a positive releases has no noise",
        (
            replace_lines(
                _THRESHOLD,
                _TOLD,
                "            return Verdict(above=True, gap=gap, answer=None if scale is None else value)",
                symbol="OpenSparseVector.ask",
            ),
        ),
        ("sparse vector: numeric",),
    ),
)
