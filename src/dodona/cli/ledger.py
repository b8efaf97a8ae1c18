"""`dodona ledger`: the account of what is spent: to create, show, verify, export, draw, recover, and act on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from dodona.cli import ledger_acts
from dodona.cli.ledger_place import DATASET_FILE, Head, Where, held, opened, placed
from dodona.cli.told import told
from dodona.errors import InvalidArgument

app = typer.Typer(help="The durable account of what is spent.", no_args_is_help=True)

_PICTURES = (".png", ".svg", ".pdf")
_WIDTH = 110


@app.command()
def create(  # noqa: PLR0913  each is an option
    ledger: Where,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="NAME=DIGEST of a table and its schema; all of the same people.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="The total, such as 1 or 1/2.")] = None,
    delta: Annotated[str, typer.Option(help="Such as 1e-6; 0 with --accountant pure.")] = "0",
    accountant: Annotated[str, typer.Option(help="pure, zcdp, renyi or either.")] = "renyi",
    neighbours: Annotated[str, typer.Option(help="add-remove or replace.")] = "add-remove",
    analyst: Annotated[list[str] | None, typer.Option(help="NAME=SHARE, such as ada=1/2.")] = None,
    plans: Annotated[str, typer.Option(help="EPSILON,DELTA kept for declared plans.")] = "0,0",
    head: Head = None,
) -> None:
    """Create a ledger where there is none. It is never overwritten. A dataset file needs no options."""
    with told():
        if ledger.endswith(DATASET_FILE):
            from dodona.opening import create_ledger

            create_ledger(ledger)
            typer.echo(f"created: the ledger of {ledger}")
            return
        if dataset is None or epsilon is None:
            raise InvalidArgument("dataset", dataset, "give --dataset and --epsilon, or name a dataset file (.toml)")
        from dodona.domain.neighbours import Neighbours
        from dodona.ledger import place
        from dodona.ledger.opening import Terms
        from dodona.policy import Analyst, Budget
        from dodona.trusted.source import fresh_key

        if neighbours not in {relation.value for relation in Neighbours}:
            raise InvalidArgument("neighbours", neighbours, "write add-remove or replace")
        kept = _pair("plans", plans, ",")
        terms = Terms(
            datasets=dict(_pair("dataset", text, "=") for text in dataset),
            neighbours=Neighbours(neighbours),
            budget=Budget(epsilon, delta, accountant, kept),
            analysts=tuple(Analyst(*_pair("analyst", text, "=")) for text in analyst or ()),
            cap_key=fresh_key(),
        )
        place.create(placed(ledger), terms, head=head)
        typer.echo(f"created: {place.named(ledger)}")


@app.command()
def show(
    ledger: Where,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    head: Head = None,
) -> None:
    """Show what was spent, what is left, by whom, and the last entries."""
    with told(), opened(ledger, head) as found:
        from dodona.cli.ledger_view import figures, tables

        state = found.state()
        if as_json:
            print(json.dumps(figures(state)))
            return
        from rich.console import Console

        console = Console(width=None if sys.stdout.isatty() else _WIDTH)
        for table in tables(state, [line.text for line in found.lines()]):
            console.print(table)


@app.command()
def verify(ledger: Where, *, head: Head = None) -> None:
    """Compute every hash and every total anew; the exit code is 0 only if all is as it was written."""
    with told(), opened(ledger, head) as found:
        state = found.verify()
        typer.echo(f"verified: {len(found.lines())} lines, {state.charges} charges, head {state.head}")


@app.command()
def export(ledger: Where, *, head: Head = None) -> None:
    """Print every line as JSON: the entry, its hash and the one before. The key of the cap on rows is left out."""
    with told(), opened(ledger, head) as found:
        for line in found.lines():
            entry = json.loads(line.text)
            entry.pop("cap_key", None)  # so that an export can be given away
            print(json.dumps({"hash": line.hash, "previous": line.previous} | entry))


@app.command()
def burn(
    ledger: Where,
    *,
    output: Annotated[Path, typer.Option(help="Where to draw it.")] = Path("burn-down.png"),
    head: Head = None,
) -> None:
    """Draw what was left after each charge, in all and for each analyst."""
    with told(), opened(ledger, head) as found:
        if output.suffix not in _PICTURES or not output.parent.is_dir():
            accepted = f"write a file in a folder that exists, whose name ends in {', '.join(_PICTURES)}"
            raise InvalidArgument("output", str(output), accepted)
        from dodona.ledger import burndown

        burndown.draw(burndown.burndown(found.lines()), output)
        typer.echo(f"drawn: {output}")


@app.command()
def recover(
    ledger: Where,
    *,
    epsilon: Annotated[str | None, typer.Option(help="The largest total that was ever granted.")] = None,
    delta: Annotated[str | None, typer.Option(help="The largest delta that was ever granted.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    head: Head = None,
) -> None:
    """Put a restored backup into use. Everything that is unspent in it counts as spent, for ever."""
    with told():
        from dodona.ledger import place

        if not yes:
            typer.confirm("Everything unspent in this ledger will count as spent. Go on?", abort=True)
        where, kept_head = held(ledger, head)
        place.recover(where, head=kept_head, epsilon=epsilon, delta=delta)
        typer.echo(f"recovered: {place.named(ledger)}; nothing is left until the budget is raised")


app.command("raise")(ledger_acts.raised)
app.command("close")(ledger_acts.closed)
app.command("admit")(ledger_acts.admitted)
app.command("stop")(ledger_acts.stopped)
app.command("declare")(ledger_acts.declared)


def _pair(argument: str, text: str, sign: str) -> tuple[str, str]:
    first, found, second = text.partition(sign)
    if not found or not first or not second:
        raise InvalidArgument(argument, text, f"write two parts with {sign!r} between them")
    return first, second
