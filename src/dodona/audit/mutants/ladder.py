"""Faults in what the ladder buys."""

from __future__ import annotations

from dodona.audit.mutants.mutant import Mutant
from dodona.audit.patch import replacing

MUTANTS = (
    Mutant(
        "long Helmert rows with the noise of short ones",
        "the variance of a row is not multiplied by its squared length, and the price is as before",
        (
            replacing(
                "dodona.mechanisms.residual",
                "                square = variance * length",
                "                square = variance",
                symbol="Residuals.__post_init__",
            ),
        ),
        ("lattice of the ladder",),
    ),
    Mutant(
        "table at half its noise",
        "a table of several counts is drawn at half the scale that was charged for",
        (
            replacing(
                "dodona.trusted.release",
                "    noise = in_runs(_runs(measurement))",
                "    halved = ((type(law)(scale=law.scale / 2), count) for law, count in _runs(measurement))\n"
                "    runs = list(halved) if len(values) > 1 else _runs(measurement)\n"
                "    noise = in_runs(runs)",
                symbol="noisy",
            ),
        ),
        ("table of the ladder",),
    ),
    Mutant(
        "number of rows told where rows are added",
        "the exact number of rows sharpens what follows from a table, under either relation",
        (
            replacing(
                "dodona.trusted.rows", "    if not unit.fixed:", "    if unit.id is not None:", symbol="public_rows"
            ),
        ),
        ("stream of the ladder",),
    ),
)
