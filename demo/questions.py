"""What is asked in the demonstration, and how accurate it is to be."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from demo.dataset import AGES
from demo.table import DIAGNOSES

_BANDS = tuple(itertools.pairwise(AGES))
_AGE = "CASE " + " ".join(f"WHEN age < {upper} THEN '{lower} to {upper - 1}'" for lower, upper in _BANDS[:-1])
_AGE += f" ELSE '{_BANDS[-1][0]} to {_BANDS[-1][1]}' END"


@dataclass(frozen=True, slots=True)
class Ask:
    """A question in words and in SQL, and the error that is allowed."""

    title: str
    sql: str
    within: float
    plain: str | None = None
    """The SQL for the truth, where a bare column means its declared bins here and its single values there."""
    remark: str = ""

    @property
    def truth(self) -> str:
        """The SQL that DuckDB is asked for the truth."""
        return self.sql if self.plain is None else self.plain


EMERGENCIES = Ask(
    "How many stays began as an emergency?",
    "SELECT count(*) FROM stays WHERE emergency",
    within=80,
    remark="You say how far off the answer may be. The price follows, and is told first.",
)
FREE = (
    Ask(
        "The first question again, in other words",
        "SELECT count(1) AS emergencies FROM stays AS s WHERE NOT (s.emergency = FALSE)",
        within=80,
        remark="It means the same, so the same noisy value is told again, from the ledger.",
    ),
    Ask(
        "A question that was never asked",
        "SELECT count(*) FROM stays WHERE diagnosis IN ('cancer', 'heart failure', 'stroke')",
        within=160,
        remark="It follows from the counts by diagnosis, so it is derived from them. The error bar is right, as the "
        "three were named beforehand; for the three that look largest, take any_choice().",
    ),
)

PATIENTS = Ask(
    "And how many patients are they?",
    "SELECT count(DISTINCT patient) FROM stays",
    within=80,
    remark="A patient counts once, whatever the number of stays, so it takes a quarter of what a count of stays takes.",
)
ASKS = (
    EMERGENCIES,
    PATIENTS,
    Ask(
        "What are they treated for?",
        "SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis",
        within=80,
        remark="A patient is in few of the groups, so twelve counts cost hardly more than one.",
    ),
    Ask(
        "How many come in each month?",
        "SELECT admitted, count(*) FROM stays GROUP BY admitted",
        within=100,
        plain="SELECT strftime(admitted, '%Y-%m') AS month, count(*) FROM stays GROUP BY month",
        remark="The dataset file declares months as the bins of this column.",
    ),
    Ask("How long do they stay, in days?", "SELECT avg(stay) FROM stays", within=0.03),
    Ask(
        "How does the stay depend on age?",
        "SELECT age, avg(stay) FROM stays GROUP BY age",
        within=0.16,
        plain=f"SELECT {_AGE} AS band, avg(stay) FROM stays GROUP BY band",  # noqa: S608  of constants, as below
        remark="Groups with fewer people get wider intervals: the error bars are those of the group, not of the plan.",
    ),
    Ask(
        "How long does half of them stay, and nine in ten?",
        "SELECT median(stay), quantile(stay, 0.9) FROM stays",
        within=1,
        remark="Priced as though stays were spread evenly; where many are alike, the intervals come out narrower.",
    ),
    Ask(
        "Which part are emergencies, in percent?",
        "SELECT sex, 100.0 * count(*) FILTER (WHERE emergency) / count(*) AS percent FROM stays GROUP BY sex",
        within=0.4,
        remark="An error bar for a ratio of two noisy numbers.",
    ),
    Ask(
        "What does a stay cost, in euros?",
        "SELECT diagnosis, avg(cost) FROM stays GROUP BY diagnosis",
        within=160,
    ),
    Ask(
        "And all stays for cancer?",
        "SELECT sum(cost) FROM stays WHERE diagnosis = 'cancer'",
        within=3_000_000,
        remark="The averages before had measured this sum, so it is free.",
    ),
    Ask(
        "What brings the oldest here most often?",
        "SELECT diagnosis, count(*) AS n FROM stays WHERE age >= 80 GROUP BY diagnosis "
        "HAVING count(*) > 1000 ORDER BY n DESC LIMIT 3",
        within=100,
        remark="HAVING, ORDER BY and LIMIT read the noisy values: they are free.",
    ),
)

TOP = "SELECT diagnosis, count(*) FROM stays WHERE emergency AND stay >= 14 GROUP BY diagnosis"
TOP_EPSILON, TOP_COUNT = "0.1", 3

ALERT_THRESHOLD, ALERT_EPSILON, ALERTS = 9_000, "0.1", 2
MONTHS = tuple((year, month) for year in (2024, 2025) for month in range(1, 13))

BATCH_WITHIN = 120
BATCH = tuple(
    f"SELECT count(*) FROM stays WHERE diagnosis = '{kind.name}' AND age >= {lower} AND age < {upper} AND stay >= 7"  # noqa: S608
    for kind in DIAGNOSES
    for lower, upper in _BANDS
)

MISSPELLED = "SELECT avg(stay) FROM stays WHERE aeg >= 65"
TOO_MUCH = "SELECT count(*) FROM stays WHERE age >= 100"
TOO_MUCH_WITHIN = 5


def month_count(year: int, month: int) -> str:
    """Return the question how many came in one month."""
    after = f"{year + month // 12}-{month % 12 + 1:02d}-01"
    return f"SELECT count(*) FROM stays WHERE admitted >= '{year}-{month:02d}-01' AND admitted < '{after}'"  # noqa: S608
