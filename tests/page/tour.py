"""The truth of the tour's questions: exact counts of the hospital of `dodona serve --demo`, for web/tour.json."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from dodona.server import demo

TOUR = Path(__file__).parents[2] / "web" / "tour.json"


def with_truth(tour: dict[str, Any]) -> dict[str, Any]:
    """Return the tour with exact answers; nobody ever stayed at this hospital."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stays.parquet"
        demo.write_rows(path)
        steps = []
        for step in tour["steps"]:
            if "question" not in step:
                steps.append(step)
                continue
            asked = step["question"].replace("FROM stays", f"FROM '{path}'")
            rows = duckdb.sql(asked).fetchall()
            truth = sorted([_label(label), count] for label, count in rows)
            steps.append(step | {"truth": [*truth, ["<missing>", 0], ["<outside>", 0]]})
    return tour | {"steps": steps}


def _label(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    tour = with_truth(json.loads(TOUR.read_text(encoding="utf-8")))
    TOUR.write_text(json.dumps(tour, indent=2) + "\n", encoding="utf-8")
