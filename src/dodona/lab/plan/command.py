"""`dodona plan`: what every mechanism would guarantee, before a row is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli.terminal import JsonOption, check_picture, make_console, report_errors
from dodona.errors import InvalidArgument

if TYPE_CHECKING:
    from rich.console import Console

    from dodona.lab.plan import Forecast, PlanParameter, Setting, Task

_WIDTH = 150  # of a table in a file, where no terminal says how wide it is
_START = 100_000  # rows, where their number is looked for
_NUMBERS = ("within", "rows", "needs")


class NeighbourRelation(StrEnum):
    """Which tables are neighbours."""

    REPLACE = "replace"
    ADD_REMOVE = "add-remove"


class PlanTask(StrEnum):
    """What is wanted from the questions."""

    ANSWERS = "answers"
    LARGEST = "largest"
    ABOVE = "above"


class PlanUnknown(StrEnum):
    """A parameter of a plan."""

    ROWS = "rows"
    EPSILON = "epsilon"
    QUESTIONS = "questions"


def plan(  # noqa: PLR0913  each is an option
    *,
    dataset: Annotated[
        Path | None, typer.Option(help="A dataset file: plan for the marginals of its columns, its size and budget.")
    ] = None,
    rows: Annotated[int | None, typer.Option(help="How many rows the table has.")] = None,
    questions: Annotated[int | None, typer.Option(help="How many counts are asked for.")] = None,
    cells: Annotated[
        int | None, typer.Option(help="How many different rows there can be: the product of the columns' values.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="Total epsilon: by default 1, or the dataset's budget.")] = None,
    delta: Annotated[str | None, typer.Option(help="0, or a small number such as 1e-6.")] = None,
    confidence: Annotated[float, typer.Option(help="Probability that all answers are within the error.")] = 0.95,
    neighbours: Annotated[
        NeighbourRelation | None,
        typer.Option(help="add-remove or replace. Default: the dataset's, or replace."),
    ] = None,
    task: Annotated[
        PlanTask, typer.Option(help="All answers, which is largest, or which are above.")
    ] = PlanTask.ANSWERS,
    positives: Annotated[int, typer.Option(help="How many may be above, with --task above.")] = 1,
    columns: Annotated[
        str | None, typer.Option(help="Values of each column, such as 2,2,5: plan for its marginals.")
    ] = None,
    ways: Annotated[int, typer.Option(help="How many columns a marginal has.")] = 2,
    conjunctions: Annotated[
        int | None, typer.Option(help="Plan for all monotone conjunctions of this many yes/no columns.")
    ] = None,
    within: Annotated[str | None, typer.Option(help="The target error, such as 1%, with --find.")] = None,
    find: Annotated[
        PlanUnknown | None, typer.Option(help="The parameter to solve for, given the target error.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Where to draw the errors.")] = None,
    over: Annotated[PlanUnknown, typer.Option(help="The parameter on the horizontal axis.")] = PlanUnknown.ROWS,
    as_json: JsonOption = False,
) -> None:
    """Show what every mechanism guarantees, and which one to use.

    Nothing is read and nothing is charged. Try: dodona plan --rows 100000 --questions 1000 --cells 1024 --delta 1e-6
    """
    with report_errors():
        from dodona.lab.plan import Marginals, Neighbours, PlanParameter, Setting, Task
        from dodona.lab.plan.conjunctions import conjunctions as conjunctions_of

        check_picture(plot, argument="plot")
        share = _parse_target_error(within, find)
        if dataset is not None:
            public = _public(dataset, columns)
            rows = public.rows if rows is None else rows
            columns = public.columns if questions is None else None
            epsilon = public.epsilon if epsilon is None else epsilon
            delta = public.delta if delta is None else delta
            neighbours = public.neighbours if neighbours is None else neighbours
        if conjunctions is not None:
            if columns is not None or questions is not None or cells is not None:
                raise InvalidArgument("conjunctions", conjunctions, "they say the questions and cells: leave those out")
            example = conjunctions_of(conjunctions, rows=1, epsilon=1)
            questions, cells = example.questions, example.cells
        workload = None if columns is None else Marginals(_sizes(columns), ways=ways)
        setting = Setting(
            rows=_given_rows(rows, find),
            questions=1 if questions is None and workload is None and find is PlanUnknown.QUESTIONS else questions,
            cells=cells,
            epsilon="1" if epsilon is None else epsilon,
            delta="0" if delta is None else delta,
            confidence=confidence,
            neighbours=Neighbours((neighbours or NeighbourRelation.REPLACE).value),
            positives=positives,
            workload=workload,
        )
        if share is not None and find is not None:
            _needs(setting, share, PlanParameter(find.value), Task(task.value), as_json=as_json)
        else:
            _forecast(setting, Task(task.value), as_json=as_json)
        if plot is not None:
            from dodona.lab.plan import picture

            picture.draw(plot, setting, over=PlanParameter(over.value), task=Task(task.value))


@dataclass(frozen=True, slots=True)
class _Public:
    """What a dataset file contributes to a plan."""

    rows: int
    columns: str
    epsilon: str
    delta: str
    neighbours: NeighbourRelation


def _public(dataset: Path, columns: str | None) -> _Public:
    """Return the public size, the number of values of the named columns or all, the budget and the neighbours."""
    from dodona.dataset import DatasetFile

    file = DatasetFile.read(dataset)
    domain, unit = file.schema.domain, file.schema.unit
    if unit.rows > 1:
        accepted = "plans are for one row a person; for this one `dodona prepare --dry-run` prices a list of questions"
        raise InvalidArgument("dataset", str(dataset), accepted)
    names = domain.names if columns is None else tuple(name.strip() for name in columns.split(","))
    if not set(names) <= set(domain.names):
        raise InvalidArgument("columns", columns, f"write names of columns, with commas: {', '.join(domain.names)}")
    sizes = ",".join(str(domain[name].cells) for name in names)
    relation = NeighbourRelation(unit.neighbours.value)
    return _Public(unit.size, sizes, str(file.budget.epsilon), str(file.budget.delta), relation)


def _parse_target_error(within: str | None, find: PlanUnknown | None) -> float | None:
    """Return the wanted error as a share of the rows; --within and --find go together."""
    if within is None and find is None:
        return None
    if within is None or find is None:
        raise InvalidArgument("within", within, "write --within and --find together, such as --within 1% --find rows")
    text = within.strip()
    try:
        return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise InvalidArgument("within", within, "write a share of the rows, such as 1% or 0.01") from None


def _given_rows(rows: int | None, find: PlanUnknown | None) -> int:
    """Return the number of rows; if it is searched for, any starting value."""
    if rows is None and find is PlanUnknown.ROWS:
        return _START
    if rows is None:
        raise InvalidArgument("rows", None, "write how many rows the table has, such as --rows 100000")
    return rows


def _sizes(columns: str) -> list[int]:
    try:
        return [int(part) for part in columns.replace("_", "").split(",")]
    except ValueError:
        accepted = "write how many values each column has, with commas, such as 2,2,5"
        raise InvalidArgument("columns", columns, accepted) from None


def _forecast(setting: Setting, task: Task, *, as_json: bool) -> None:
    from dodona.lab.plan import Exposure, forecast, report
    from dodona.lab.plan.advice import sentences

    plan_forecast = forecast(setting, task)
    if as_json:
        print(json.dumps(report.summary(plan_forecast), ensure_ascii=False))
        return
    screen = make_console(_WIDTH)
    screen.print(report.heading(setting), style="dim", markup=False, highlight=False)
    for when, sentence in sentences(plan_forecast).items():
        screen.print(f"{when}: {sentence}" if when else sentence, style="bold", markup=False, highlight=False)
    _table(screen, report.HEADINGS, report.rows(plan_forecast))
    for reason, names in _reasons(plan_forecast).items():
        screen.print(f"Left out: {names}: {reason}.", style="dim", markup=False, highlight=False)
    exposure = Exposure(setting.epsilon, delta=setting.delta)
    screen.print(exposure.describe(), markup=False, highlight=False)


def _needs(setting: Setting, within: float, unknown: PlanParameter, task: Task, *, as_json: bool) -> None:
    from dodona.lab.plan import report, requirements
    from dodona.lab.plan.promise import format_share

    needs = requirements(setting, within=within, unknown=unknown, task=task)
    if as_json:
        print(json.dumps(report.need_summary(setting, needs, within=within, unknown=unknown), ensure_ascii=False))
        return
    screen = make_console(_WIDTH)
    wanted = {"rows": "how many rows are needed", "epsilon": "what price is needed", "questions": "how many questions"}
    said = f"Within {format_share(within)} of the rows: {wanted[unknown.value]}"
    screen.print(said, style="bold", markup=False, highlight=False)
    _table(screen, report.NEED_HEADINGS, report.need_rows(needs))


def _reasons(forecast: Forecast) -> dict[str, str]:
    """Return the titles that are left out for each reason."""
    found_reasons: dict[str, list[str]] = {}
    for method, reason in forecast.left_out:
        found_reasons.setdefault(reason, []).append(method.title)
    return {reason: "; ".join(titles) for reason, titles in found_reasons.items()}


def _table(screen: Console, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in _NUMBERS else "left")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row), style="dim" if row[1] == "nothing" else None)
    screen.print(table)
