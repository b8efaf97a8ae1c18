"""What `python -m benchmarks check` measures in each area: short runs of the benchmarks, as ratios or standard time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks import (
    accounting,
    asking,
    clock,
    doors,
    grouping,
    noise,
    page,
    peer,
    releases,
    server,
    sqlcorpus,
    synthetic,
    table,
    weights,
)
from benchmarks.streams.baselines import Baselines
from benchmarks.streams.catalogue import STREAMS
from benchmarks.streams.ladder import Way, climbed, source_of
from benchmarks.streams.run import summary
from dodona.lab import direct, sampling
from dodona.lab.convolution import DeclaredPlan
from dodona.lab.mechanisms import Laplace
from dodona.privacy.budget import Budget
from dodona.trusted.samplers import compiled
from tests.ledger import drill
from tests.ledger.scene import ask

_DRAWS = 1_000_000
_CHARGES = 200
_COUNTS = 60
_BATCHES = 3
_GROUPINGS = 5
_RELEASES = 3
_STREAM = "conj-10"

Figures = dict[str, float]


def _noise(_: Path) -> Figures:
    """Exact noise beside OpenDP's."""
    zeros, release = peer.zeros(noise.PEER_DRAWS), peer.vector("laplace", 10)
    ours = clock.best(partial(sampling.laplace, 10, _DRAWS, kernel=compiled.values), repeats=5) / _DRAWS
    theirs = clock.best(lambda: release(zeros), repeats=5) / noise.PEER_DRAWS
    single, other = Laplace(scale=10), peer.scalar("laplace", 10)
    seconds = clock.mean(lambda: direct.run(single, 42), calls=20_000)
    return {
        "laplace_draw_ratio": ours / theirs,
        "one_release_ratio": seconds / clock.mean(lambda: other(42), calls=2_000),
        "first_draw_ms": clock.standard_ms(noise.first_draw("gaussian") / 1e3),
    }


def _accounting(_: Path) -> Figures:
    """Decisions of the filter, which must not grow with what was decided, and an exact plan."""
    few, many = accounting.decision_us(10**3), accounting.decision_us(10**6)
    plan = DeclaredPlan(((accounting.response("1/100"), 10_000),))
    return {
        "decision_growth": many / few,
        "decision_ms": clock.standard_ms(many / 1e6),
        "plan_10k_ms": clock.standard_ms(clock.once(lambda: plan.epsilon(accounting.DELTA))),
    }


def _ledger(folder: Path) -> Figures:
    """The CPU time of a durable charge in SQLite, and of opening the ledger again."""
    spot = drill.Spot(folder, None)
    spot.fresh(Budget(10**4, "1e-6", "renyi"))
    with spot.open() as ledger:
        ask(ledger)

        def charges() -> None:
            for number in range(_CHARGES):
                ask(ledger, f"{number}")

        seconds = clock.once(charges)

    def reopened() -> None:
        with spot.open():
            pass

    return {
        "charge_ms": clock.standard_ms(seconds / _CHARGES),
        "reopen_ms": clock.standard_ms(clock.best(reopened)),
    }


def _sql(folder: Path) -> Figures:
    """SQL through `ask` beside plain DuckDB."""
    counted = asking.count_overhead(table.counted(folder), counts=_COUNTS)
    source, _ = table.narrow()
    batch, _ = asking.batch(source, batches=_BATCHES)
    path = table.grouped(folder)
    ratios, peaks = [], []
    for column in grouping.COLUMNS:
        seconds = grouping.beside_duckdb(path, column, repeats=_GROUPINGS)
        ratios.append(seconds["dodona"] / seconds["duckdb"])
        peaks.append(grouping.peak(path, column, "dodona") / grouping.peak(path, column, "duckdb"))
    return {
        "count_overhead_ms": clock.standard_ms(float(str(counted["count_overhead_ms"])) / 1e3),
        "batch_10k_ms": clock.standard_ms(float(str(batch["batch_10k_cpu_s"]))),
        "groupby_ratio": max(ratios),
        "groupby_peak_ratio": max(peaks),
        "parse_ms": clock.standard_ms(float(str(asking.parsing()["parse_ms"])) / 1e3),
        "statement_ms": clock.standard_ms(sqlcorpus.reading_ms() / 1e3),
    }


def _weights(_: Path) -> Figures:
    """Looks at a belief over many cells, and all its marginals."""
    return {
        "look_ms": clock.standard_ms(weights.look() / 1e6),
        "marginals_ms": clock.standard_ms(weights.all_marginals()),
    }


def _streams(_: Path) -> Figures:
    """A stream of 5,000 conjunctions: what the ladder takes of the budget beside single answers, and its time."""
    stream = STREAMS[_STREAM].stream(None)
    way = Way(budget="approximate", epsilon=stream.epsilon["approximate"])
    ladder = summary(stream, [climbed(stream, source_of(stream), way, lambda _: None)])
    singles = dict(Baselines(stream, "approximate").named())["gaussian+cache"]
    spent, beside = (figures["certified_epsilon"] for figures in (ladder, summary(stream, [singles()])))
    if not isinstance(spent, list) or not isinstance(beside, list):
        raise TypeError("a summary lists the ε of each run")
    return {
        "stream_price_ratio": spent[0] / beside[0],
        "free_answer_ms": clock.standard_ms(float(str(ladder["us_per_free_answer"])) / 1e6),
    }


def _releases(folder: Path) -> Figures:
    """A count on a ledger of 1,000 releases: in process, the first one after it was opened, and by command line.

    And the first one on a ledger of 12,000.
    """
    long = folder / "long"
    long.mkdir()
    times = releases.measure(folder) | {"first_count_on_12000_ms": releases.measure_long(long)}
    return {name: clock.standard_ms(seconds) for name, seconds in times.items()}


def _quotes(folder: Path) -> Figures:
    """What a free quote of a large question takes, in a fresh process."""
    del folder
    code = "from benchmarks.releases import large_quote; print(large_quote())"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    seconds, megabytes = map(float, done.stdout.split())
    return {"large_quote_ms": clock.standard_ms(seconds), "large_quote_mb": megabytes}


def _server(_: Path) -> Figures:
    """What answers over HTTP take of the processor, in all processes of a server; and what races lose of a budget."""
    load = server.Load(free=1_500, charged=400, rounds=1, starts=1)
    figures = server.measure(load, ("free", "charged", "races", "start"))
    return {
        "server_free_ms": clock.standard_ms(figures["free_cpu_ms"] / 1e3),
        "server_charged_ms": clock.standard_ms(figures["charged_cpu_ms"] / 1e3),
        "server_start_ms": clock.standard_ms(figures["start_processor_s"]),
        "server_faults": figures["overspend"] + figures["lost"] + figures["double_charges"] + figures["race_faults"],
    }


def _synthetic(_: Path) -> Figures:
    """How far rows of a release are from a made-up table, measured in rounds or whole, and what rounds take.

    The mean total variation of all marginals of three columns, over a few releases.
    """
    tables = synthetic.made_up()
    rounds, whole = ([synthetic.measure(tables[name], "1") for _ in range(_RELEASES)] for name in ("trips", "binary"))
    return {
        "rounds_distance": mean(run["mean_tv"] for run in rounds),
        "whole_distance": mean(run["mean_tv"] for run in whole),
        "rounds_release_ms": clock.standard_ms(min(run["cpu_s"] for run in rounds)),
    }


def _doors(_: Path) -> Figures:
    """What the SQL door adds to a statement that reads the catalogue, and whether a dashboard pays for a tile twice."""
    figures: dict[str, Any] = doors.measure(lambda _: None, refreshes=5)
    return {
        "door_catalogue_ratio": figures["catalogue_ratio"],
        "door_connections_mb": figures["connections_mb"],
        "door_dashboard_faults": max(0, figures["dashboard_charges"] - figures["dashboard_tiles"])
        + figures["dashboard_versions"]
        - 1,
    }


def _page(_: Path) -> Figures:
    """What a browser loads; the times of a browser are too uneven for a bound."""
    return page.sizes()


AREAS: dict[str, Callable[[Path], Figures]] = {
    "noise": _noise,
    "accounting": _accounting,
    "ledger": _ledger,
    "weights": _weights,
    "streams": _streams,
    "releases": _releases,
    "quotes": _quotes,
    "server": _server,
    "doors": _doors,
    "synthetic": _synthetic,
    "sql": _sql,
    "page": _page,
}
