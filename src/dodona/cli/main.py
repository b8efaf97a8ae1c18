"""The `dodona` command."""

from __future__ import annotations

from typing import Annotated

import typer

from dodona import __version__
from dodona.cli import ledger
from dodona.cli.account import budget, describe, history
from dodona.cli.ask import ask, quote
from dodona.cli.init import init
from dodona.cli.owner import check, confirm, keep
from dodona.cli.release import release
from dodona.cli.session import above, choose, prepare, weights
from dodona.lab.attacks.command import attack
from dodona.lab.audit.command import audit
from dodona.lab.plan.command import plan

app = typer.Typer(help="A private oracle for data.", no_args_is_help=True, add_completion=False)


def _version(wanted: bool) -> None:  # noqa: FBT001  typer gives a flag's value by place
    if wanted:
        print(f"dodona {__version__}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A private oracle for data."""
    del version  # its callback has shown it


_OWNER = (init, check, confirm, keep)
_ANALYST = (describe, quote, ask, prepare, choose, above, weights, budget, history, release)
_ANYBODY = (plan, audit, attack)
for _command in (*_OWNER, *_ANALYST, *_ANYBODY):
    app.command()(_command)
app.add_typer(ledger.app, name="ledger")
