"""The dataset of the demonstration: rows, dataset file and ledger in a folder, made anew by every run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import dodona
from demo import table

SIZE = 200_000
"""How many stays there are about: declared and public, so prices follow from it and not from the rows."""
CAP = 2
"""How many stays of a patient count."""
ANALYST = "ada"
AGES = (0, 18, 40, 65, 80, table.OLDEST)
_OWN = ("stays.*", ".hospital-stays.*", "answers.png", "budget.png", "noise.png")

_TEXT = f"""\
# A made-up hospital: nobody ever stayed there. All that is written here is declared, and public.
format = 1
dataset = "hospital-stays"              # permanent: the ledger is bound to it

[source]
kind = "parquet"
path = "stays.parquet"
table = "stays"                         # the name that analysts use
version = "1"                           # to be raised when rows change

[unit]
protects = "person"                     # a patient may have several stays
id = "patient"                          # never answered, but by count(DISTINCT patient)
rows = {CAP}                                # of each patient so many count
neighbours = "add-remove"
size = {SIZE:_}                          # about how many; the 100% of within = "1%"

[budget]
epsilon = "1"
delta = "1e-6"
accountant = "renyi"

[ledger]
path = "stays.ledger"

[defaults]
within = "1%"
confidence = 0.95
max_price = "25%"                       # what one call may take of the budget; 2% unless said

[[analysts]]
name = "{ANALYST}"

[columns.sex]
kind = "category"
labels = {list(table.SEXES)}

[columns.age]
kind = "integer"
lower = 0
upper = {table.OLDEST}
bins = {list(AGES)}

[columns.diagnosis]
kind = "category"
labels = {[diagnosis.name for diagnosis in table.DIAGNOSES]}

[columns.admitted]
kind = "date"
lower = {table.FIRST_DAY}
upper = {table.LAST_DAY}
bins = "month"

[columns.stay]                          # days
kind = "number"
lower = "0"
upper = "{table.LONGEST}"
step = "0.25"
bins = [0, 1, 3, 7, 14, {table.LONGEST}]

[columns.emergency]
kind = "boolean"

[columns.cost]                          # euros
kind = "number"
lower = "0"
upper = "{table.DEAREST}"
step = "{table.COST_STEP}"
"""


@dataclass(frozen=True, slots=True)
class Made:
    """Where everything is."""

    folder: Path

    @property
    def file(self) -> Path:
        """The dataset file."""
        return self.folder / "stays.toml"

    @property
    def rows(self) -> Path:
        """The rows."""
        return self.folder / "stays.parquet"

    @property
    def ledger(self) -> Path:
        """The account of what is spent."""
        return self.folder / "stays.ledger"


def make(rows: table.Rows, folder: Path) -> Made:
    """Clear away what an earlier run left, and write rows, dataset file and a new ledger."""
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in _OWN:
        for old in folder.glob(pattern):
            old.unlink()
    made = Made(folder)
    table.write(rows, made.rows)
    made.file.write_text(_TEXT.replace("'", '"'), encoding="utf-8")
    dodona.create_ledger(made.file)
    return made
