"""What a command asks: a dataset file here, or a dataset of a server. Commands do not tell the two apart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeGuard, cast

import typer

if TYPE_CHECKING:
    from dodona.answer.description import History
    from dodona.client.remote import RemoteCurator
    from dodona.curator.curator import Curator
    from dodona.privacy.budget import BudgetState

    OpenCurator = Curator | RemoteCurator

AskedDataset = Annotated[
    str,
    typer.Argument(metavar="DATASET", help="The dataset file, such as stays.toml; of a server, the dataset's name."),
]
ServerOption = Annotated[
    str | None,
    typer.Option(
        help="Ask a server, such as https://data.example.org. Default: $DODONA_SERVER, or the server of `dodona login`."
    ),
]


def find_remote(dataset: str, server: str | None) -> str | None:
    """Return the server to ask about a dataset; None for a file, which is asked here unless a server is named."""
    if server is not None:
        return server
    if dataset.endswith(".toml") or Path(dataset).exists():
        return None
    from dodona.client.settings import find_server, read_settings, settings_path

    return find_server(os.environ, read_settings(settings_path()))


def open_curator(
    dataset: str, *, server: str | None, analyst: str | None, max_day: Fraction | None = None
) -> OpenCurator:
    """Open a dataset here, or of a server, where the token says who asks; `max_day` is what a day may take."""
    import dodona

    place = find_remote(dataset, server)
    if place is not None:
        return dodona.connect(place, dataset=dataset, max_day=max_day)
    curator = dodona.open(dataset, analyst=analyst)
    return curator if max_day is None else curator.for_analyst(curator.desk.analyst, max_day=max_day)


def is_local(curator: OpenCurator) -> TypeGuard[Curator]:
    """Whether the data are asked here."""
    return hasattr(curator, "desk")


def check_questions(curator: OpenCurator, questions: Sequence[str]) -> None:
    """Raise the first mistake in some questions; nothing is charged."""
    if is_local(curator):
        for question in questions:
            curator.read(question)
    else:
        curator.quote(questions)  # all in one request


def is_paid(curator: OpenCurator, key: str) -> bool:
    """Whether something was bought under a key."""
    if is_local(curator):
        return curator.desk.dataset.ledger.receipt(key, analyst=curator.desk.analyst) is not None
    return cast("RemoteCurator", curator).recall(key) is not None


def read_budget(dataset: str, *, server: str | None, analyst: str | None) -> tuple[BudgetState, Fraction, str | None]:
    """Return what was spent and what is left; then what is left for the analyst, and who that is."""
    place = find_remote(dataset, server)
    if place is not None:
        with open_curator(dataset, server=place, analyst=None) as curator:
            description = curator.describe()
            return curator.budget, description.left, description.analyst
    from dodona.dataset import open_dataset_ledger

    with open_dataset_ledger(Path(dataset)) as ledger:
        return ledger.state(), ledger.left(analyst=analyst), analyst


def read_charges(dataset: str, *, server: str | None, analyst: str | None) -> History:
    """Return all charges, oldest first."""
    place = find_remote(dataset, server)
    if place is not None:
        with open_curator(dataset, server=place, analyst=None) as curator:
            return curator.history
    from dodona.curator.description import read_history
    from dodona.dataset import DatasetFile, open_dataset_ledger

    with open_dataset_ledger(Path(dataset)) as ledger:
        ledger.permit(analyst)
        return read_history(ledger, dataset=DatasetFile.read(Path(dataset)).dataset)
