"""`dodona login`: keep a server's address and a token, so that commands and programs need not name them."""

import sys
from typing import Annotated

import typer

from dodona.cli.terminal import report_errors
from dodona.errors import InvalidRequest

_LONGEST = 10_000


def login(
    server: Annotated[str, typer.Argument(metavar="URL", help="The server, such as https://data.example.org.")],
) -> None:
    """Keep a token for a server in the settings file, for its owner alone.

    The token is asked for, or read from standard input: an argument would stay in the shell's history.
    """
    with report_errors():
        from dodona.client import settings
        from dodona.client.surface import list_datasets
        from dodona.client.transport import Link, Retries

        place = settings.server_address(server)
        typed = typer.prompt("Token", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read(_LONGEST)
        token = settings.check_token(str(typed).strip())
        import httpx

        link = Link(httpx.Client(**settings.http_options(place, token, 60.0, insecure=False)), Retries())
        try:
            names = link.send(list_datasets())  # a wrong token is an error here
        finally:
            link.close()
        path = settings.settings_path()
        kept = {**settings.read_settings(path).tokens, place: token}
        settings.write_settings(path, settings.Settings(place, kept))
        listed = ", ".join(names) if names else "none yet"
        typer.echo(f"The token is in {path}, for you alone. Datasets of {place}: {listed}.")


def logout(
    server: Annotated[str, typer.Argument(metavar="URL", help="The server, such as https://data.example.org.")],
) -> None:
    """Forget the token for a server. It stays valid until it ends or is revoked."""
    with report_errors():
        from dodona.client.settings import Settings, read_settings, settings_path, write_settings

        path, place = settings_path(), server.rstrip("/")
        settings = read_settings(path)
        if place not in settings.tokens:
            raise InvalidRequest(f"There is no token for {place} in {path}.")
        kept = {name: token for name, token in settings.tokens.items() if name != place}
        write_settings(path, Settings(settings.server if settings.server in kept else None, kept))
        typer.echo(f"The token for {place} was removed from {path}. An owner can revoke it on the server.")
