"""Tables behind Dodona that are not about sets of people: marks for tracing, and a ward for linkage."""

from __future__ import annotations

import numpy as np

from dodona import Boolean, Budget, Category, Integer, Query, Schema
from dodona.lab.attacks.door import ask_values, buy_answers, open_table, to_number
from dodona.lab.attacks.k_anonymity import Traits
from dodona.lab.attacks.linkage import AREAS, SEXES, VALUES, YEARS, CountRows, Counts, Ward
from dodona.lab.attacks.target import Numbers
from dodona.lab.attacks.tracing import CountMarks, Marks
from dodona.query.column import columns


def marks(budget: Budget) -> CountMarks:
    """Return a function that counts each mark through Dodona, for the whole of a budget."""

    def count_marks(table: Marks) -> Numbers:
        import pyarrow as pa

        names = [f"mark_{number}" for number in range(table.shape[1])]
        schema = Schema.of("people", *map(Boolean, names), size=len(table), neighbours="replace")
        frame = pa.table({name: table[:, number] for number, name in enumerate(names)})
        with open_table(frame, schema, budget) as curator:
            of = columns(schema.domain)
            return ask_values(curator, [Query.count(schema.domain, of[name].isin([True])) for name in names])

    return count_marks


def ward(table: Ward, budget: Budget) -> CountRows:
    """Return a function that counts rows for each person and diagnosis through Dodona, for the whole of a budget."""

    def count_rows(roll: Traits) -> Counts:
        import pyarrow as pa

        labels = [f"diagnosis {number}" for number in range(VALUES)]
        schema = Schema.of(
            "ward",
            Integer("birth", 0, YEARS - 1),
            Integer("area", 0, AREAS - 1),
            Integer("sex", 0, SEXES - 1),
            Category("diagnosis", labels),
            size=len(table.secrets),
            neighbours="replace",
        )
        columns_of = {name: table.traits[:, place] for place, name in enumerate(("birth", "area", "sex"))}
        frame = pa.table({**columns_of, "diagnosis": [labels[secret] for secret in table.secrets]})
        with open_table(frame, schema, budget) as curator:
            of = columns(schema.domain)
            questions = [
                Query.histogram(
                    schema.domain,
                    "diagnosis",
                    where=(of["birth"] == birth) & (of["area"] == area) & (of["sex"] == sex),
                )
                for birth, area, sex in roll.tolist()
            ]
            answers = buy_answers(curator, questions)
        return np.array([[to_number(row.estimates[0].value) for row in answer.rows[:VALUES]] for answer in answers])

    return count_rows
