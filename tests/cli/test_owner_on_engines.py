"""The owner's tools on engines that hold the table themselves: the same draft and the same check as of a file."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import dodona
from dodona.cli.main import app
from tests.engines.server import held
from tests.engines.spark import MARKS, engine
from tests.ledger.scene import shared_server

TYPES = {
    "patient_id": (pa.int64(), "bigint"),
    "sex": (pa.string(), "text"),
    "age": (pa.int32(), "integer"),
    "stay": (pa.float64(), "double precision"),
    "cost": (pa.decimal128(9, 2), "numeric(9, 2)"),
    "admitted": (pa.date32(), "date"),
    "seen": (pa.timestamp("us"), "timestamp"),
    "emergency": (pa.bool_(), "boolean"),
    "note's": (pa.string(), "text"),
}
ROWS = 400


def columns() -> dict[str, list[object]]:
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=row % 300) for row in range(ROWS)]
    return {
        "patient_id": [None if row % 50 == 0 else row // 3 for row in range(ROWS)],
        "sex": [None if row == 7 else ["female", "male", "ü'x"][row % 3] for row in range(ROWS)],
        "age": [row % 97 for row in range(ROWS)],
        "stay": [float("nan") if row == 9 else row % 17 / 4 for row in range(ROWS)],
        "cost": [Decimal(row * 125) / 100 for row in range(ROWS)],
        "admitted": days,
        "seen": [dt.datetime.combine(day, dt.time(23, 59)) for day in days],
        "emergency": [row % 5 == 0 for row in range(ROWS)],
        "note's": [f"a note of patient {row}" for row in range(ROWS)],
    }


def parquet(folder: Path) -> list[str]:
    made = pa.table({name: pa.array(values, TYPES[name][0]) for name, values in columns().items()})
    pq.write_table(made, folder / "stays.parquet")
    return [str(folder / "stays.parquet")]


def postgres(_: Path) -> list[str]:
    return [
        "env:STAYS_DATABASE",
        "--table",
        held("stays", columns(), {name: kind for name, (_, kind) in TYPES.items()}),
    ]


def spark(folder: Path) -> list[str]:
    engine()  # what is running is used, and goes on
    return [*parquet(folder), "--engine", "spark"]


ENGINES: dict[str, Callable[[Path], list[str]]] = {"parquet": parquet, "postgres": postgres, "spark": spark}


def run(*arguments: str | Path):
    environment = {"COLUMNS": "250", "TERM": "dumb", "STAYS_DATABASE": shared_server().address}
    return CliRunner().invoke(app, list(map(str, arguments)), env=environment)


def drafted(place: Callable[[Path], list[str]], folder: Path) -> Path:
    output = folder / "stays.toml"
    done = run("init", *place(folder), "--output", output, "--id", "patient_id", "--rows", "2")
    assert done.exit_code == 0, done.output
    assert "env:STAYS" not in done.output or "postgresql://" not in done.output
    return output


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(builder, id=name, marks=MARKS if name == "spark" else ()) for name, builder in ENGINES.items()
    ],
)
def draft(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The draft of the rows on an engine; it is only read."""
    return drafted(request.param, tmp_path_factory.mktemp("draft"))


def declared(path: Path) -> str:
    """The part of a draft that says nothing about where the rows are."""
    text = path.read_text(encoding="utf-8")
    return text[text.index("[unit]") :].replace(path.stem, "stays")


def test_drafts_of_the_same_rows_are_the_same_on_every_engine(draft: Path, tmp_path: Path):
    assert declared(draft) == declared(drafted(parquet, tmp_path))
    assert 'labels = ["female", "male", "ü\'x"]' in declared(draft)


def test_checks_count_the_same_on_every_engine(draft: Path):
    path = draft.with_name("other.toml")
    text = draft.read_text(encoding="utf-8")
    path.write_text(
        text.replace('labels = ["female", "male", "ü\'x"]', 'labels = ["female", "male"]'), encoding="utf-8"
    )
    done = run("check", path, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["rows"], report["nobody"], report["people"]) == (ROWS, 8, 134)
    assert report["counting"] + report["cut"] + 8 == ROWS
    assert report["cut"] == sum(max(0, sum(r // 3 == p and r % 50 != 0 for r in range(ROWS)) - 2) for p in range(134))
    sexes = next(column for column in report["columns"] if column["name"] == "sex")
    assert (sexes["missing"], sexes["outside"]) == (1, sum(row % 3 == 2 and row != 7 for row in range(ROWS)))
    stays = next(column for column in report["columns"] if column["name"] == "stay")
    assert (stays["missing"], stays["below"], stays["above"]) == (1, 0, 0)


def test_a_confirmed_draft_is_served(draft: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STAYS_DATABASE", shared_server().address)
    path = Path(shutil.copy(draft, draft.with_name("served.toml")))
    assert run("confirm", path, "--by", "the owner", "--yes").exit_code == 0
    dodona.create_ledger(path)
    with dodona.open(path) as stays:
        assert (
            abs(stays.ask("SELECT count(DISTINCT patient_id) FROM stays", within=40, max_price=1).value.value - 134)
            <= 120
        )


def test_a_table_of_a_database_has_to_be_named():
    done = run("init", "env:STAYS_DATABASE")
    assert done.exit_code == 2
    assert "--table public.stays" in done.output


def test_a_variable_that_is_not_set_is_named_and_nothing_is_written(tmp_path: Path):
    done = run("init", "env:NOBODY_SET_THIS", "--table", "public.stays", "--output", tmp_path / "stays.toml")
    assert done.exit_code == 2
    assert "NOBODY_SET_THIS is not set" in done.output
    assert not (tmp_path / "stays.toml").exists()
