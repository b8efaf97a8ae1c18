"""Faults in what the ladder buys."""

from __future__ import annotations

from dodona.lab.audit.patch import Mutant, replace_lines

MUTANTS = (
    Mutant(
        "long Helmert rows with the noise of short ones",
        "the variance of a row is not multiplied by its squared length, and the price is as before",
        (
            replace_lines(
                "dodona.privacy.measurement",
                "                square = variance * length",
                "                square = variance",
                symbol="ResidualMeasurement.__post_init__",
            ),
        ),
        ("lattice of the ladder",),
    ),
    Mutant(
        "waves priced by one of them",
        "a row of the table is in all waves of a column, and the price is that of an average one",
        (
            replace_lines(
                "dodona.query.bases",
                "    return Fraction(int((rows * rows).sum(axis=0).max()), base_squares(base, number)[0])",
                "    return Fraction(int((rows * rows).sum()), rows.size * base_squares(base, number)[0])",
                symbol="largest_weight",
            ),
            replace_lines(
                "dodona.query.bases",
                "    return Fraction(int((table.T @ table).min()), square)",
                "    return Fraction(0)",
                symbol="least_overlap",
            ),
        ),
        ("lattice of ranges",),
    ),
    Mutant(
        "sums with the noise of ordinary numbers",
        "the noise of a sum suits numbers half as far from the middle as the largest, and the price is as before",
        (
            replace_lines(
                "dodona.query.bases",
                "        return (row_reach(base, number) ** 2, 1)[: base_length(base, number)]",
                "        return (row_reach(base, number) ** 2 // 4, 1)[: base_length(base, number)]",
                symbol="base_squares",
            ),
        ),
        ("lattice of values",),
    ),
    Mutant(
        "table at half its noise",
        "a table of several counts is drawn at half the scale that was charged for",
        (
            replace_lines(
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
        "number of rows released under add-remove",
        "the exact number of rows sharpens what follows from a table, under either relation",
        (
            replace_lines(
                "dodona.trusted.gate",
                "    if not unit.fixed:",
                "    if unit.id is not None:",
                symbol="read_public_rows",
            ),
        ),
        ("stream of the ladder",),
    ),
)
