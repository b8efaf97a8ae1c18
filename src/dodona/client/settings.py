"""Which server is asked, and with which token: arguments, then the environment, then the settings file.

The file holds tokens, so it is refused if others may read it.
"""

import json
import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from dodona.errors import InvalidRequest
from dodona.numbers import Exact, to_share

API = "/api/v1/"
DEFAULT_TIMEOUT = 600.0
_CONNECT_SECONDS = 10.0
SERVER_VARIABLE = "DODONA_SERVER"
TOKEN_VARIABLE = "DODONA_TOKEN"  # noqa: S105  the name of a variable
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, slots=True)
class Settings:
    """What the settings file says: the server to ask where none is named, and a token for each."""

    server: str | None = None
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)


def settings_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the settings file is."""
    folder = environment.get("XDG_CONFIG_HOME")
    home = Path(folder) if folder else Path(environment.get("HOME") or Path.home()) / ".config"
    return home / "dodona" / "config.toml"


def read_settings(path: Path) -> Settings:
    """Return the settings; those of a file that is missing are empty."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & _OTHERS:
                raise InvalidRequest(
                    f"{path} holds tokens, and others than you may read or write it. Run: chmod 600 {path}"
                )
            document = tomllib.load(file)
    except FileNotFoundError:
        return Settings()
    except OSError as fault:
        raise InvalidRequest(f"{path} cannot be read: {fault.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise InvalidRequest(
            f"{path} is no valid TOML. Mend it, or run `dodona login URL` after removing it."
        ) from None
    servers: Any = document.get("servers", {})
    server = document.get("server")
    tables = servers.items() if isinstance(servers, dict) else ()
    tokens = {name: table.get("token") for name, table in tables if isinstance(table, dict)}
    if not isinstance(servers, dict) or not isinstance(server, str | None):
        raise InvalidRequest(f'{path} is to hold server = "URL", and token = "…" under [servers."URL"].')
    return Settings(server, {name: token for name, token in tokens.items() if isinstance(token, str)})


def write_settings(path: Path, settings: Settings) -> None:
    """Write the settings for their owner alone, in place of what was there."""
    lines = [] if settings.server is None else [f"server = {json.dumps(settings.server)}", ""]
    for name, token in settings.tokens.items():
        lines += [f"[servers.{json.dumps(name)}]", f"token = {json.dumps(token)}", ""]
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # never readable by others, not for a moment
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def server_address(url: str, *, insecure: bool = False) -> str:
    """Return a server's address without a slash at its end; a token goes over plain HTTP to this machine alone.

    >>> server_address("https://data.example.org/oracle/")
    'https://data.example.org/oracle'
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidRequest(f"The server {url[:200]!r} is no address: write one such as https://data.example.org.")
    if parts.query or parts.fragment or parts.username is not None or parts.password is not None:
        raise InvalidRequest(
            "The server's address has no name, password, question mark or # in it; the token= is apart."
        )
    if parts.scheme == "http" and not insecure and parts.hostname not in _LOOPBACK:
        raise InvalidRequest(
            "Over http:// everyone on the way could read the token. Write https://, or insecure=True on a network that "
            "is yours alone."
        )
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    """Whether a server is on this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def find_server(environment: Mapping[str, str], settings: Settings) -> str | None:
    """Return the server to ask where none is named."""
    return environment.get(SERVER_VARIABLE) or settings.server


def find_token(url: str, environment: Mapping[str, str], settings: Settings) -> str:
    """Return the token for a server; one in the environment is for the server that the environment names, if any."""
    named = environment.get(SERVER_VARIABLE)
    token = environment.get(TOKEN_VARIABLE)
    if token and (not named or named.rstrip("/") == url):
        return token
    if url in settings.tokens:
        return settings.tokens[url]
    raise InvalidRequest(f"There is no token for {url}. Write token=, set {TOKEN_VARIABLE}, or run: dodona login {url}")


def check_token(token: str) -> str:
    """Return a token that can be sent in a header; a wrong one is not shown."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidRequest("The token is no token: it is printable ASCII text without spaces.")
    return token


def http_options(
    url: str, token: str | None, timeout: float, *, insecure: bool, max_day: Exact | None = None
) -> dict[str, Any]:
    """Return the options of an HTTP client for a server: address, token, what a day may take, how long to wait."""
    place = server_address(url, insecure=insecure)
    if token is None:
        token = find_token(place, os.environ, read_settings(settings_path()))
    headers = {"authorization": f"Bearer {check_token(token)}", "user-agent": "dodona-client"}
    if max_day is not None:
        headers["dodona-max-day"] = str(to_share(max_day, argument="max_day"))
    return {
        "base_url": place + API,
        "headers": headers,
        "timeout": httpx.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
        "trust_env": not is_loopback(place),  # a proxy would not reach this machine
        "follow_redirects": False,  # the token is for this address alone
    }
