"""Tables behind Dodona that are not about sets of people: marks for tracing, and a ward for linkage."""

from __future__ import annotations

import numpy as np

from dodona import Boolean, Budget, Category, Integer, Query, Schema
from dodona.lab.attacks.door import asked, bought, known, opened
from dodona.lab.attacks.k_anonymity import Traits
from dodona.lab.attacks.linkage import AREAS, SEXES, VALUES, YEARS, Counts, Looked, Ward
from dodona.lab.attacks.target import Numbers
from dodona.lab.attacks.tracing import Marks, Published
from dodona.query.column import columns


def marks(budget: Budget) -> Published:
    """Return a function that counts each mark through Dodona, for the whole of a budget."""

    def published(table: Marks) -> Numbers:
        import pyarrow as pa

        names = [f"mark_{number}" for number in range(table.shape[1])]
        schema = Schema.of("people", *map(Boolean, names), size=len(table), neighbours="replace")
        frame = pa.table({name: table[:, number] for number, name in enumerate(names)})
        with opened(frame, schema, budget) as curator:
            of = columns(schema.domain)
            return asked(curator, [Query.count(schema.domain, of[name].isin([True])) for name in names])

    return published


def ward(table: Ward, budget: Budget) -> Looked:
    """Return a function that counts rows for each person and diagnosis through Dodona, for the whole of a budget."""

    def looked(roll: Traits) -> Counts:
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
        with opened(frame, schema, budget) as curator:
            of = columns(schema.domain)
            questions = [
                Query.histogram(
                    schema.domain,
                    "diagnosis",
                    where=(of["birth"] == birth) & (of["area"] == area) & (of["sex"] == sex),
                )
                for birth, area, sex in roll.tolist()
            ]
            answers = bought(curator, questions)
        return np.array([[known(row.estimates[0].value) for row in answer.rows[:VALUES]] for answer in answers])

    return looked
