"""How commands end: an error is printed as its message, with the exit code of its family."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from dodona.errors import DodonaError, InvalidRequest


@contextmanager
def report_errors() -> Iterator[None]:
    """Turn an error into its message and its exit code."""
    try:
        yield
    except DodonaError as fault:
        typer.echo(f"{fault.code}: {fault}", err=True)
        raise typer.Exit(fault.exit_code) from None
    except ModuleNotFoundError as missing:  # an environment that was made for less, such as that of `make demo`
        library = (missing.name or "dodona").partition(".")[0]
        if library == "dodona":
            raise
        typer.echo(f"This needs {library}, which is not installed. Run: pip install {library}", err=True)
        raise typer.Exit(InvalidRequest.exit_code) from None
