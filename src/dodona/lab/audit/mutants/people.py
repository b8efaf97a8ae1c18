"""Faults where the privacy unit is a person: too many of their rows count, or too few are paid for."""

from __future__ import annotations

from dodona.lab.audit.patch import Mutant, replace_lines

MUTANTS = (
    Mutant(
        "person priced as a row",
        "all rows of a person count, up to the cap, and one is paid for",
        (
            replace_lines(
                "dodona.query.sensitivity",
                "    return _scale_sensitivity(sensitivity, unit.rows if rows is None else rows)",
                "    return _scale_sensitivity(sensitivity, 1)",
                symbol="_person_rows_sensitivity",
            ),
        ),
        ("served count of a person's rows", "served groups of a person's rows"),
    ),
    Mutant(
        "cap not kept",
        "all rows of a person count, however many there are",
        (
            replace_lines(
                "dodona.engines.cap",
                "    kept[order] = place < schema.unit.rows",
                "    kept[order] = place < 2**40",
                symbol="rows_within_cap",
            ),
        ),
        ("served count of a person's rows",),
    ),
    Mutant(
        "cap lowered by others",
        "as soon as one person has far more rows than count, fewer rows of everybody do",
        (
            replace_lines(
                "dodona.engines.cap",
                "    kept[order] = place < schema.unit.rows",
                "    kept[order] = place < schema.unit.rows - (rows.max() > 2 * schema.unit.rows)",
            ),
        ),
        ("served rows of others",),
    ),
    Mutant(
        "hash counts the equal rows of others",
        "rows are numbered from person to person, so that one person moves the hashes of everybody",
        (
            replace_lines(
                "dodona.engines.cap",
                "        equal = equal + 1 if row == before else 1",
                "        equal += 1",
            ),
        ),
        ("served rows of others",),
    ),
    Mutant(
        "person in several groups priced as in one",
        "a person is counted in each group, and one group is paid for",
        (
            replace_lines(
                "dodona.query.sensitivity",
                "    return min(moved, block.values)",
                "    return 1",
                symbol="_groups_per_person",
            ),
        ),
        ("served people in groups",),
    ),
)
