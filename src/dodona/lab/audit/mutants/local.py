"""Faults in the channels of the local model."""

from __future__ import annotations

from dodona.lab.audit.patch import Mutant, replace_lines

MUTANTS = (
    Mutant(
        "one bit's odds for two",
        "a unary encoding randomizes each bit with the odds for the whole report, though another answer changes two",
        (
            replace_lines(
                "dodona.lab.local.unary",
                "        return cls(_labels(size), loss, bit_probabilities(odds_below(loss / 2)))",
                "        return cls(_labels(size), loss, bit_probabilities(odds_below(loss)))",
                symbol="Unary.symmetric",
            ),
        ),
        ("report by symmetric unary",),
    ),
    Mutant(
        "rows of a filter for the price of one",
        "every row of a Bloom filter spends the whole loss",
        (
            replace_lines(
                "dodona.lab.local.bloom",
                "        return cls(total // number, number, loss, bit_probabilities(odds_below(loss / (2 * number))))",
                "        return cls(total // number, number, loss, bit_probabilities(odds_below(loss / 2)))",
                symbol="Bloom.of",
            ),
        ),
        ("report by Bloom filter",),
    ),
    Mutant(
        "the other label may be the true one",
        "a lie is drawn from all labels but the last, so the truth is reported too often",
        (
            replace_lines(
                "dodona.lab.local.kary",
                "    other += other >= keys  # the labels without the true one, in their order",
                "    other %= size",
                symbol="respond",
            ),
        ),
        ("report by k-ary response",),
    ),
    Mutant(
        "true bit set by two coins",
        "noise on the true bit is added to its coin instead of being replaced by it",
        (
            replace_lines(
                "dodona.lab.local.bits",
                "    rows[index] = (rows[index] & ~(_ONE << shift)) | (kept << shift)",
                "    rows[index] |= kept << shift",
                symbol="noisy_one_hot",
            ),
        ),
        ("report by optimized unary", "report by symmetric unary"),
    ),
)
