"""The owner's acts on a ledger: raise, close, admit, stop and declare. Each is an entry that is never taken back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli.ask import Dataset
from dodona.cli.ledger_place import Head, Where, opened
from dodona.cli.told import told
from dodona.errors import InvalidArgument
from dodona.exact import percent

if TYPE_CHECKING:
    from dodona.ledger.state import BudgetState

Name = Annotated[str, typer.Argument(metavar="ANALYST", help="The analyst's name.")]


def raised(
    ledger: Where,
    *,
    epsilon: Annotated[str | None, typer.Option(help="The new total; it stays as it is if left out.")] = None,
    delta: Annotated[str | None, typer.Option(help="The new delta; it stays as it is if left out.")] = None,
    head: Head = None,
) -> None:
    """Allow a larger total. The guarantee from then on is that of the larger budget."""
    with told():
        if epsilon is None and delta is None:
            raise InvalidArgument("epsilon", None, "write --epsilon, --delta or both")
        with opened(ledger, head) as found:
            before = found.state().total
            found.raise_budget(
                before.epsilon if epsilon is None else epsilon,
                before.delta if delta is None else delta,
            )
            _say(f"raised: from ε = {before.epsilon}, δ = {float(before.delta):g}", found.state())


def closed(
    ledger: Where,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    head: Head = None,
) -> None:
    """End the account for ever: nothing can be charged any more. Earlier answers are still told again."""
    with told(), opened(ledger, head) as found:
        if not yes:
            typer.confirm("Nothing can be charged to this ledger ever again. Go on?", abort=True)
        found.end()
        _say("closed, for ever", found.state())


def admitted(
    ledger: Where,
    analyst: Name,
    *,
    share: Annotated[str, typer.Option(help="The part of the budget that they may spend, such as 1/2.")] = "1",
    head: Head = None,
) -> None:
    """Let an analyst in, or back in, or change their share. What they spent stays spent."""
    with told(), opened(ledger, head) as found:
        from dodona.policy import Analyst

        first = not found.state().analysts
        found.admit(Analyst(analyst, share))
        _say(f"admitted: {_one(found.state(), analyst)}", found.state())
        if first:
            typer.echo("From now on only analysts who were let in may spend: name one with --analyst.")


def stopped(ledger: Where, analyst: Name, *, head: Head = None) -> None:
    """Let an analyst spend no more. They still hear what was told before."""
    with told(), opened(ledger, head) as found:
        found.stop(analyst)
        _say(f"stopped: {_one(found.state(), analyst)}", found.state())


def declared(
    dataset: Dataset,
    *,
    same_people: Annotated[
        bool, typer.Option("--same-people", help="Add a further table of the same people to the ledger it names.")
    ] = False,
) -> None:
    """Bind the ledger to the schema in the file, after columns were added at its end."""
    with told():
        from dodona.opening.declare import declare

        typer.echo(f"declared: {declare(Path(dataset), same_people=same_people)}")


def _say(what: str, state: BudgetState) -> None:
    typer.echo(what)
    typer.echo(str(state))


def _one(state: BudgetState, name: str) -> str:
    found = next(one for one in state.analysts if one.name == name)
    return f"{name}, {found.share} of the budget, {percent(found.spent)} of it spent"
