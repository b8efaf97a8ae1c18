"""The SQL door as a tool sees it: `python -m benchmarks doors [--json]`.

A server is started as `dodona serve --sql` does it. Statements that only read the catalogue are sent through the door
and straight to the sidecar, in turns. Charges are counted by the ledger, over HTTP.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from benchmarks.report import Row
from tests.door.scene import OpenDoor, find_sidecar, opened_door

ABOUT = "the SQL door: catalogues, replays, connections, dashboards"
NOTE = (
    "Wall time, all parts on the same cores. catalogue: the statements of psql's \\d, beside a connection straight to "
    "the sidecar. memory: of the door and of all processes of the sidecar, each page counted once."
)
_TURNS = 300
_CONNECTIONS = 100
_REFRESHES = 100
_CATALOGUE = (
    (
        "SELECT n.nspname, c.relname, c.relkind FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n "
        "ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v') AND n.nspname = 'public' ORDER BY 1, 2"
    ),
    (
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_catalog.pg_attribute "
        "a WHERE a.attrelid = 'public.stays'::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    ),
    (
        "SELECT r.conname, pg_catalog.pg_get_constraintdef(r.oid, true) FROM pg_catalog.pg_constraint r "
        "WHERE r.conrelid = 'public.stays'::regclass AND r.contype = 'c' ORDER BY 1"
    ),
)
_TILES = (
    "SELECT count(*) FROM stays",
    "SELECT sex, count(*) FROM stays GROUP BY sex",
    "SELECT ward, count(*) FROM stays GROUP BY ward ORDER BY 2 DESC",
    "SELECT age, count(*) FROM stays GROUP BY age ORDER BY age",
    "SELECT avg(stay) FROM stays",
    "SELECT ward, avg(stay) FROM stays GROUP BY ward",
    "SELECT date_trunc('month', admitted)::date AS month, count(*) FROM stays GROUP BY 1 ORDER BY 1",
    "SELECT urgent, count(*) FROM stays GROUP BY urgent",
    "SELECT sex, ward, count(*) FROM stays GROUP BY sex, ward",
    "SELECT count(*) FILTER (WHERE urgent) FROM stays WHERE age >= 65",
    "SELECT sum(stay) FROM stays WHERE ward = 'surgery'",
    "SELECT ward, round(100.0 * count(*) / sum(count(*)) OVER (), 1) FROM stays WHERE sex = 'female' GROUP BY ward",
)
Say = Callable[[str], None]


def measure(say: Say, *, refreshes: int = _REFRESHES) -> dict[str, object]:
    """Return the figures."""
    with tempfile.TemporaryDirectory() as folder, opened_door(Path(folder) / "door", tls=False) as door:
        say("catalogue statements")
        figures: dict[str, object] = dict(_catalogue(door))
        say("replayed questions")
        figures["replay_ms"] = _replay(door)
        say(f"{_CONNECTIONS} connections")
        figures["connections_mb"] = _memory(door)
        say(f"a dashboard, {refreshes} times")
        return figures | _dashboard(door, refreshes)


def rows(figures: dict[str, object]) -> list[Row]:
    """Return the figures as rows."""
    values: Any = figures
    return [
        Row("catalogue statement", "ms", values["catalogue_ms"], values["catalogue_direct_ms"], "less"),
        Row("replayed GROUP BY", "ms", values["replay_ms"], None, "less"),
        Row(f"{_CONNECTIONS} connections", "MB", values["connections_mb"], None, "less"),
        Row(f"charges of {len(_TILES)} tiles, {_REFRESHES} times", "", values["dashboard_charges"], None, "less"),
        Row("a refresh of all tiles", "ms", values["dashboard_refresh_ms"], None, "less"),
    ]


def _timed(connection: psycopg.Connection[Any], statement: str) -> float:
    began = time.perf_counter()
    connection.execute(statement).fetchall()
    return 1000 * (time.perf_counter() - began)


def _catalogue(door: OpenDoor) -> dict[str, float]:
    _, folder = find_sidecar(door.server)
    ours, direct = [], []
    with (
        door.connect() as through,
        psycopg.connect(f"host={folder} port=5432 user=dodona dbname=stays", autocommit=True) as straight,
    ):
        for turn in range(_TURNS):
            statement = _CATALOGUE[turn % len(_CATALOGUE)]
            ours.append(_timed(through, statement))
            direct.append(_timed(straight, statement))
    ratio = median(ours) / median(direct)
    return {"catalogue_ms": median(ours), "catalogue_direct_ms": median(direct), "catalogue_ratio": ratio}


def _replay(door: OpenDoor) -> float:
    with door.connect() as connection:
        _timed(connection, _TILES[2])
        return median(_timed(connection, _TILES[2]) for _ in range(_TURNS))


def _memory(door: OpenDoor) -> float:
    """Return the megabytes of the door and the sidecar while many connections are open."""
    postmaster, _ = find_sidecar(door.server)
    connections = [door.connect("ada" if place % 2 else "bob") for place in range(_CONNECTIONS)]
    try:
        for connection in connections:
            connection.execute(_CATALOGUE[1]).fetchall()
            connection.execute(_TILES[1]).fetchall()
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        processes = [postmaster, door.server.parts()["sql"], *map(int, children)]
        return sum(_own_pages(process) for process in processes) / 1024
    finally:
        for connection in connections:
            connection.close()


def _own_pages(process: int) -> int:
    """Return the kilobytes of a process, shared pages divided among those that share them."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _dashboard(door: OpenDoor, refreshes: int) -> dict[str, object]:
    before = door.charges()
    times, shown = [], set()
    with door.connect() as connection:
        for _ in range(refreshes):
            began = time.perf_counter()
            shown.add(repr([connection.execute(tile).fetchall() for tile in _TILES]))
            times.append(1000 * (time.perf_counter() - began))
    return {
        "dashboard_tiles": len(_TILES),
        "dashboard_charges": door.charges() - before,
        "dashboard_refresh_ms": median(times),
        "dashboard_versions": len(shown),
    }
