"""Faults in what the ladder buys."""

from __future__ import annotations

from dodona.lab.audit.mutants.mutant import Mutant
from dodona.lab.audit.patch import replacing

MUTANTS = (
    Mutant(
        "long Helmert rows with the noise of short ones",
        "the variance of a row is not multiplied by its squared length, and the price is as before",
        (
            replacing(
                "dodona.privacy.measurement",
                "                square = variance * length",
                "                square = variance",
                symbol="ResidualMeasurement.__post_init__",
            ),
        ),
        ("lattice of the ladder",),
    ),
    Mutant(
        "table at half its noise",
        "a table of several counts is drawn at half the scale that was charged for",
        (
            replacing(
                "dodona.trusted.gate",
                "    noise = draw_runs(_noise_runs(measurement))",
                "    halved = ((type(law)(scale=law.scale / 2), count) for law, count in _noise_runs(measurement))\n"
                "    runs = list(halved) if len(values) > 1 else _noise_runs(measurement)\n"
                "    noise = draw_runs(runs)",
                symbol="add_noise",
            ),
        ),
        ("table of the ladder",),
    ),
    Mutant(
        "number of rows told where rows are added",
        "the exact number of rows sharpens what follows from a table, under either relation",
        (
            replacing(
                "dodona.trusted.gate",
                "    if not unit.fixed:",
                "    if unit.id is not None:",
                symbol="read_public_rows",
            ),
        ),
        ("stream of the ladder",),
    ),
)
