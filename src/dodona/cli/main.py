"""The `dodona` command: a table of its commands, each imported when it is called."""

from importlib import import_module
from typing import Annotated, cast

import typer
from typer.core import TyperCommand, TyperGroup

from dodona import __version__

# Named as text, so that a command loads only what it needs, and serving code never imports the lab.
COMMANDS = {
    # for the owner of the data
    "init": "dodona.cli.owner:init",
    "check": "dodona.cli.owner:check",
    "confirm": "dodona.cli.owner:confirm",
    "keep": "dodona.cli.owner:keep",
    "serve": "dodona.cli.serve:serve",
    "account": "dodona.cli.accounts:app",
    "backup": "dodona.cli.owner:backup",
    "restore": "dodona.cli.owner:restore",
    # for analysts
    "login": "dodona.cli.login:login",
    "logout": "dodona.cli.login:logout",
    "describe": "dodona.cli.ask:describe",
    "quote": "dodona.cli.ask:quote",
    "ask": "dodona.cli.ask:ask",
    "prepare": "dodona.cli.session:prepare",
    "choose": "dodona.cli.session:choose",
    "above": "dodona.cli.session:above",
    "weights": "dodona.cli.session:weights",
    "budget": "dodona.cli.ask:budget",
    "history": "dodona.cli.ask:history",
    "synthesize": "dodona.cli.synthesize:synthesize",
    "mcp": "dodona.cli.agents:mcp",
    # for anyone
    "plan": "dodona.lab.plan.command:plan",
    "audit": "dodona.lab.audit.command:audit",
    "attack": "dodona.lab.attacks.command:attack",
    "ledger": "dodona.cli.ledger:app",
}


class LazyGroup(TyperGroup):
    """Imports the commands of the table on demand."""

    def list_commands(self, ctx: object) -> list[str]:
        """Return the names of all commands, in table order."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: object, cmd_name: str) -> TyperCommand | TyperGroup | None:
        """Return a command by name, or None."""
        del ctx
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:  # a typo needs them all: typer suggests one
            if name not in self.commands:
                self.commands[name] = load_command(name)
        return cast("TyperCommand | TyperGroup | None", self.commands.get(cmd_name))


def load_command(name: str) -> TyperCommand | TyperGroup:
    """Import a command, or a group of commands."""
    module, _, attribute = COMMANDS[name].partition(":")
    loaded = getattr(import_module(module), attribute)
    if not isinstance(loaded, typer.Typer):
        function, loaded = loaded, typer.Typer(add_completion=False)
        loaded.command()(function)
    command = cast("TyperCommand | TyperGroup", typer.main.get_command(loaded))
    command.name = name
    return command


app = typer.Typer(
    help="A private oracle for data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # they may hold secrets
    cls=LazyGroup,
)


def _version(wanted: bool) -> None:  # noqa: FBT001  typer passes a flag's value by position
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
    del version  # its callback has already printed it
