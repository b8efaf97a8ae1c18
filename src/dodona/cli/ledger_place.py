"""Which ledger a command is about: that of a dataset file, a path, an address, or a name in the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.errors import InvalidArgument

if TYPE_CHECKING:
    from dodona.ledger.contract import Ledger

DATASET_FILE = ".toml"
_SECRET = "env:"  # noqa: S105  what an address in the environment is written behind

Where = Annotated[
    str, typer.Argument(metavar="LEDGER", help="A dataset file (.toml), a path, postgresql://…#name, or env:NAME.")
]
Head = Annotated[Path | None, typer.Option(help="The head file; beside the ledger unless said otherwise.")]


def opened(ledger: str, head: Path | None) -> Ledger:
    """Return the ledger, open."""
    if ledger.endswith(DATASET_FILE):
        from dodona.opening import ledger_of

        return ledger_of(ledger)
    from dodona.ledger import place

    return place.open_ledger(placed(ledger), head=head)


def held(ledger: str, head: Path | None) -> tuple[str | Path, Path | None]:
    """Return where a ledger and its head are; a dataset file says both."""
    if ledger.endswith(DATASET_FILE):
        from dodona.opening import DatasetFile

        file = DatasetFile.read(ledger)
        return file.place, file.head_file if head is None else head
    return placed(ledger), head


def placed(text: str) -> str:
    """Return the place; an address with a password in it is better kept in the environment.

    A variable holds an address or a whole path: whatever else it is may be a secret, and is not shown.
    """
    if not text.startswith(_SECRET):
        return text
    name = text.removeprefix(_SECRET)
    if name not in os.environ:
        raise InvalidArgument("ledger", text, f"set {name} in the environment")
    from dodona.ledger.place import address_of

    found = os.environ[name]
    return found if Path(found).is_absolute() else address_of(found)
