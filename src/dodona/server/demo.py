"""A made-up hospital for `dodona serve --demo`: rows, a dataset file, a ledger, and accounts with tokens.

Nobody ever stayed there. The rows come from a fixed mixing function of their numbers, so that no randomness is needed
and every demonstration has the same ones.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dodona.server.accounts import Accounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Uniform = NDArray[np.float64]

DATASET = "hospital-stays"
STAYS = 100_000
_STAYS, _OF_PATIENTS = 7, 5
"""So many stays of so many patients: nobody stayed more than twice, so that the cap on rows leaves nothing out, and the
page's tour can show the truth beside an answer."""
_FIRST_DAY, _DAYS = dt.date(2024, 1, 1), 731
_TYPICAL = {  # share, age, spread of ages, share of women, share of emergencies, days, euros a day
    "appendicitis": (0.07, 28, 15, 0.47, 0.90, 2.6, 900),
    "asthma": (0.07, 24, 20, 0.52, 0.70, 2.2, 480),
    "cancer": (0.14, 64, 13, 0.50, 0.15, 6.5, 1150),
    "childbirth": (0.15, 31, 5, 1.00, 0.25, 2.8, 620),
    "depression": (0.06, 43, 16, 0.58, 0.30, 14.0, 310),
    "diabetes": (0.08, 58, 18, 0.46, 0.35, 4.2, 450),
    "fracture": (0.13, 66, 22, 0.57, 0.85, 5.6, 820),
    "heart failure": (0.14, 75, 11, 0.47, 0.60, 6.8, 640),
    "pneumonia": (0.10, 67, 22, 0.47, 0.75, 5.9, 560),
    "stroke": (0.06, 73, 12, 0.48, 0.95, 9.4, 980),
}
PEOPLE = {
    "ada": ("analyst", DATASET),
    "ben": ("analyst", DATASET),
    "iris": ("auditor", DATASET),
    "grace": ("owner", "*"),
}
"""Who has an account, with which role for what."""

_FILE = f"""\
# A made-up hospital: nobody ever stayed there. All that is written here is declared, and public.
format = 1
dataset = "{DATASET}"

[source]
kind = "parquet"
path = "stays.parquet"
table = "stays"
version = "1"

[unit]
protects = "person"
id = "patient"
rows = 2
neighbours = "add-remove"
size = {STAYS:_}

[budget]
epsilon = "2"
delta = "1e-6"
accountant = "renyi"

[ledger]
path = "stays.ledger"

[defaults]
within = "0.5%"
confidence = 0.95
max_price = "10%"

[[analysts]]
name = "ada"

[[analysts]]
name = "ben"
share = "1/4"

[columns.sex]
kind = "category"
labels = ["female", "male", "other"]

[columns.age]
kind = "integer"
means = "Age in years at admission"
lower = 0
upper = 110
bins = [0, 18, 40, 65, 80, 110]

[columns.diagnosis]
kind = "category"
means = "What the stay was for, as coded at discharge"
labels = {str(list(_TYPICAL)).replace("'", '"')}

[columns.admitted]
kind = "date"
lower = {_FIRST_DAY}
upper = {_FIRST_DAY + dt.timedelta(days=_DAYS - 1)}
bins = "month"

[columns.stay]
kind = "number"
means = "Days in hospital, to the quarter"
lower = "0"
upper = "60"
step = "0.25"
bins = [0, 1, 3, 7, 14, 60]

[columns.emergency]
kind = "boolean"
means = "Whether the patient came without an appointment"

[columns.cost]
kind = "number"
means = "What was billed, in euros"
lower = "0"
upper = "40000"
step = "10"
"""


@dataclass(frozen=True, slots=True)
class Demo:
    """What was made."""

    folder: Path
    tokens: dict[str, str]
    """A token for each account; shown once."""


def make_demo(folder: Path, accounts: Path) -> Demo:
    """Make the hospital in a folder, if it is not there, and an account with a new token for each person."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "stays.toml"
    if not file.exists():
        import dodona

        write_rows(folder / "stays.parquet")
        draft = folder / "stays.toml.new"
        draft.write_text(_FILE, encoding="utf-8")
        draft.rename(file)
        dodona.create_ledger(file)
    with Accounts.create(accounts) as store:
        present = {account.name for account in store.list()}
        for name, (role, dataset) in PEOPLE.items():
            if name not in present:
                store.add(name, grants={dataset: role})
        tokens = {name: store.create_token(name, "demonstration").text for name in PEOPLE}
    return Demo(folder, tokens)


def write_rows(path: Path) -> None:
    """Write the made-up rows, the same every time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    shares, *typical = (np.array(column, dtype=float) for column in zip(*_TYPICAL.values(), strict=True))
    which = np.searchsorted(np.cumsum(shares)[:-1], _uniform(0))
    age_mean, age_spread, female, urgent, days, daily = (column[which] for column in typical)
    age = np.clip(np.rint(age_mean + age_spread * _bell(1)), 0, 110)
    emergency = _uniform(2) < np.clip(urgent + 0.002 * (age - 50), 0, 1)
    stay = np.clip(np.rint(4 * days * np.exp(0.012 * (age - 50) + 0.25 * emergency + 0.6 * _bell(3) - 0.2)), 1, 240) / 4
    cost = np.minimum(np.rint((1200 + daily * stay) * np.exp(0.25 * _bell(4)) / 10) * 10, 40_000)
    season = _uniform(5)  # more in winter: days are drawn towards both ends of each year
    day = np.floor(_DAYS * np.clip(season + 0.02 * np.sin(4 * np.pi * season), 0, 1 - 1e-9)).astype(int)
    sex = np.where(_uniform(6) < female, "female", np.where(_uniform(7) < 0.02, "other", "male"))  # noqa: PLR2004
    patient = np.arange(STAYS, dtype=np.int64) * _OF_PATIENTS // _STAYS
    rows = {
        "patient": patient,
        "sex": pa.array(sex),
        "age": age.astype(np.int16),
        "diagnosis": pa.array(np.array(list(_TYPICAL))[which]),
        "admitted": pa.array((np.datetime64(_FIRST_DAY) + day).astype("datetime64[D]")),
        "stay": stay,
        "emergency": emergency,
        "cost": pa.array(cost, mask=_uniform(9) < 0.01),  # noqa: PLR2004  one in a hundred is missing
    }
    pq.write_table(pa.table(rows), path)


def _uniform(column: int) -> Uniform:
    """Return a number in [0, 1) for each row: the finalizer of SplitMix64 over the number of the row and the column."""
    import numpy as np

    mixed = np.arange(STAYS, dtype=np.uint64) + np.uint64((column + 1) << 40)
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)) / 2.0**53


def _bell(column: int) -> Uniform:
    """Return a number for each row that is nearly normal: a sum of twelve uniform ones."""
    import numpy as np

    total: Uniform = np.sum([_uniform(100 * (column + 1) + place) for place in range(12)], axis=0) - 6.0
    return total
