"""A made-up hospital: stays that look like real ones and are nobody's. The same seed makes the same rows."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Rows = dict[str, "NDArray[Any]"]
"""The columns by their names; what is missing is masked."""

FIRST_DAY, LAST_DAY = dt.date(2024, 1, 1), dt.date(2025, 12, 31)
SEXES = ("female", "male", "other")
OLDEST, LONGEST, DEAREST = 110, 60, 40_000
COST_STEP = 10
_QUARTER = 4  # stays are kept in quarters of a day
_WAVE = (dt.date(2025, 1, 6), dt.date(2025, 2, 16))
_WAVE_SHARE = 0.15
"""Of all cases of pneumonia and asthma, how many fall into six weeks of one winter beside the usual ones."""
_UNTOLD = 0.01
_AGAIN = 0.28
"""How many of those who came so often come once more."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is typical of the patients with one diagnosis."""

    name: str
    share: float
    age: float
    spread: float
    female: float
    emergency: float
    days: float
    cost_a_day: int
    winter: bool = False


DIAGNOSES = (
    Diagnosis("appendicitis", 0.07, 28, 15, 0.47, 0.90, 2.6, 900),
    Diagnosis("asthma", 0.07, 24, 20, 0.52, 0.70, 2.2, 480, winter=True),
    Diagnosis("cancer", 0.14, 64, 13, 0.50, 0.15, 6.5, 1150),
    Diagnosis("childbirth", 0.15, 31, 5, 1.00, 0.25, 2.8, 620),
    Diagnosis("depression", 0.06, 43, 16, 0.58, 0.30, 14.0, 310),
    Diagnosis("diabetes", 0.08, 58, 18, 0.46, 0.35, 4.2, 450),
    Diagnosis("fracture", 0.13, 66, 22, 0.57, 0.85, 5.6, 820),
    Diagnosis("heart failure", 0.14, 75, 11, 0.47, 0.60, 6.8, 640),
    Diagnosis("pneumonia", 0.10, 67, 22, 0.47, 0.75, 5.9, 560, winter=True),
    Diagnosis("stroke", 0.06, 73, 12, 0.48, 0.95, 9.4, 980),
)


def stays(count: int, *, seed: int) -> Rows:
    """Return so many stays: longer for the old and for emergencies, dearer for the long, more in winter."""
    generator = np.random.default_rng(seed)
    which = generator.choice(len(DIAGNOSES), count, p=[diagnosis.share for diagnosis in DIAGNOSES])
    age = np.clip(np.rint(generator.normal(_of("age", which), _of("spread", which))), 0, OLDEST)
    emergency = generator.random(count) < np.clip(_of("emergency", which) + 0.002 * (age - 50), 0, 1)
    days = _of("days", which) * np.exp(0.012 * (age - 50) + 0.25 * emergency + generator.normal(-0.2, 0.6, count))
    stay = np.clip(np.rint(days * _QUARTER), 1, LONGEST * _QUARTER) / _QUARTER
    cost = (1200 + _of("cost_a_day", which) * stay) * np.exp(generator.normal(0, 0.25, count))
    rounded = np.minimum(np.rint(cost / COST_STEP) * COST_STEP, DEAREST)
    known = generator.random(count) >= _UNTOLD
    sexes = np.where(generator.random(count) < _of("female", which), "female", "male").astype(object)
    sexes[(generator.random(count) < 2 * _UNTOLD) & (_of("female", which) < 1)] = "other"
    return {
        "sex": sexes,
        "age": age.astype(np.int16),
        "diagnosis": np.array([diagnosis.name for diagnosis in DIAGNOSES], dtype=object)[which],
        "admitted": _days(generator, which).astype("datetime64[us]"),
        "stay": stay,
        "emergency": emergency,
        "cost": np.ma.masked_array(rounded, mask=~known),
        "patient": _patients(generator, sexes, age),
    }


def _patients(
    generator: np.random.Generator, sexes: NDArray[np.object_], age: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return who each stay is of: stays of one patient are of one sex and of nearly the same age."""
    alike = np.lexsort((age, sexes.astype(str)))
    times = generator.geometric(1 - _AGAIN, alike.size)
    patients = np.empty(alike.size, dtype=np.int64)
    patients[alike] = generator.permutation(alike.size)[np.repeat(np.arange(alike.size), times)[: alike.size]]
    return patients


def write(rows: Rows, path: Path) -> None:
    """Keep the rows as Parquet."""
    with duckdb.connect() as database:
        database.register("made_up", rows)
        database.execute(
            "COPY (SELECT * REPLACE (CAST(admitted AS DATE) AS admitted) FROM made_up) TO $path (FORMAT parquet)",
            {"path": str(path)},
        )


def _of(field: str, which: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.array([float(getattr(diagnosis, field)) for diagnosis in DIAGNOSES])[which]


def _days(generator: np.random.Generator, which: NDArray[np.int64]) -> NDArray[np.datetime64]:
    """Return days of admission: fewer at weekends, more in winter, and one wave of coughs."""
    days = np.arange(np.datetime64(FIRST_DAY), np.datetime64(LAST_DAY) + 1)
    season = np.cos(2 * np.pi * (days - np.datetime64(FIRST_DAY)).astype(float) / 365.25)
    weekend = np.where(np.is_busday(days), 1.0, 0.7)
    usual, cold = weekend * (1 + 0.05 * season), weekend * (1 + 0.4 * season)
    wave = np.where((days >= np.datetime64(_WAVE[0])) & (days <= np.datetime64(_WAVE[1])), 1.0, 0.0)
    coughs = (1 - _WAVE_SHARE) * cold / cold.sum() + _WAVE_SHARE * wave / wave.sum()
    calm = generator.choice(days, which.size, p=usual / usual.sum())
    return np.where(_of("winter", which) > 0, generator.choice(days, which.size, p=coughs), calm)
