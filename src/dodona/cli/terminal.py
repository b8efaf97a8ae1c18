"""Shared by commands: options, the console, pictures, progress, and error handling."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from dodona.errors import DodonaError, InvalidArgument, InvalidRequest, Refused, printable

if TYPE_CHECKING:
    from dodona.curator.request import Tolerance

_WIDTH = 110  # of a table in a file, without a terminal to set the width
_PICTURES = (".png", ".svg", ".pdf")
_INTERVALS = re.compile(r"\b(simultaneous|any_choice)\(\)")
_ARGUMENT = re.compile(r"""\b(within|epsilon|max_price)="?(\d[\d.e+-]*%?)(?<!\.)"?""")

DatasetArgument = Annotated[Path, typer.Argument(metavar="DATASET", help="The dataset file, such as stays.toml.")]
SqlArgument = Annotated[str, typer.Argument(metavar="SQL", help="The question; - reads it from standard input.")]
_ANALYST = typer.Option(envvar="DODONA_ANALYST", help="The analyst's name. Default: $DODONA_ANALYST.")
AnalystOption = Annotated[str | None, _ANALYST]
WithinOption = Annotated[str | None, typer.Option(help="The tolerance: 50, 1%, or n=50,average=2.")]
EpsilonOption = Annotated[str | None, typer.Option(help="The price of the question alone, instead of --within.")]
ConfidenceOption = Annotated[float | None, typer.Option(help="The confidence of each interval, such as 0.95.")]
_MAX_PRICE = typer.Option(help="The most it may take of the budget, such as 2%. Default: the dataset's.")
MaxPriceOption = Annotated[str | None, _MAX_PRICE]
_FRESH = typer.Option("--fresh", help="Use fresh noise only, for a question that earlier answers led to.")
FreshOption = Annotated[bool, _FRESH]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Pay without a prompt.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error into its message and its exit code."""
    try:
        yield
    except DodonaError as fault:
        text = as_options(str(fault)) if isinstance(fault, Refused) else str(fault)
        typer.echo(f"{fault.code}: {text}", err=True)
        raise typer.Exit(fault.exit_code) from None
    except ModuleNotFoundError as missing:  # an environment with fewer packages, such as that of `make demo`
        library = (missing.name or "dodona").partition(".")[0]
        if library == "dodona":
            raise
        typer.echo(f"This needs {library}, which is not installed. Run: pip install {library}", err=True)
        raise typer.Exit(InvalidRequest.exit_code) from None


def as_options(text: str) -> str:
    """Return what a refusal or a note advises as options of the command, where it names arguments and calls of Python.

    >>> as_options('within="5%" would cost 1%. To allow it, write max_price="6%".')
    '--within 5% would cost 1%. To allow it, write --max-price 6%.'
    >>> as_options("Take any_choice(), or ask with fresh=True.")
    'Take --intervals any_choice, or ask with --fresh.'
    """
    text = _INTERVALS.sub(r"--intervals \1", text).replace("fresh=True", "--fresh")
    return _ARGUMENT.sub(lambda matched: f"--{matched[1].replace('_', '-')} {matched[2]}", text)


def make_console(width: int = _WIDTH) -> Console:
    """Return the console: as wide as the terminal, or `width` if the output goes to a file."""
    return Console(width=None if sys.stdout.isatty() else width)


def make_table(*headings: str) -> Table:
    """Return an empty table with a line under its headings."""
    return Table(*headings, box=box.SIMPLE_HEAD, pad_edge=False)


def say(*shown: str | Table, style: str = "", soft_wrap: bool = False) -> None:
    """Print tables and texts; nothing in them is markup."""
    for renderable in shown:
        text = printable(renderable) if isinstance(renderable, str) else renderable
        make_console().print(text, style=style, markup=False, highlight=False, soft_wrap=soft_wrap)


def check_picture(path: Path | None, *, argument: str) -> None:
    """Refuse a path that cannot hold a picture, before any work is done for it."""
    if path is not None and (path.suffix not in _PICTURES or not path.parent.is_dir()):
        accepted = f"write a file in a folder that exists, whose name ends in {', '.join(_PICTURES)}"
        raise InvalidArgument(argument, str(path), accepted)


@contextmanager
def show_progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show the number of completed steps on the error console: a bar on a terminal, lines in a log."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:48.48}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)

        def progress(finished: int, total: int, name: str) -> None:
            bar.update(task, completed=finished, total=total, description=name)
            if not console.is_terminal:
                console.print(f"{finished}/{total} {name}", markup=False, highlight=False)

        yield progress


def read_sql(question: str) -> str:
    """Return the question given as an argument, or read from standard input."""
    return sys.stdin.read() if question == "-" else question


def parse_tolerance(within: str | None) -> Tolerance | dict[str, Tolerance] | None:
    """Parse a tolerance, or one per column if columns are named."""
    if within is None:
        return None
    if "=" not in within:
        return _parse_one_tolerance(within, within)
    pairs = [part.rpartition("=") for part in within.split(",")]
    return {name.strip(): _parse_one_tolerance(tolerance, within) for name, _, tolerance in pairs}


def _parse_one_tolerance(written: str, within: str) -> Tolerance:
    """Return a number if one was written, otherwise the text, which is a percentage."""
    if written.strip().endswith("%"):
        return written
    try:
        return float(written)
    except ValueError:
        accepted = "write 50, or 1%, or one for each column: n=50,average=2"
        raise InvalidRequest(f"--within {within[:40]!r} is no tolerance: {accepted}.") from None
