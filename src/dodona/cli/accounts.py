"""`dodona account`: who may ask a server, in which role, and the tokens and passwords that prove it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli.terminal import JsonOption, make_console, report_errors
from dodona.errors import InvalidArgument, InvalidRequest, printable

if TYPE_CHECKING:
    from dodona.privacy.budget import Analyst
    from dodona.server.accounts import Account, Accounts, TokenInfo

app = typer.Typer(help="The accounts of a server.", no_args_is_help=True, add_completion=False)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The account's name; the analyst's in the ledger.")]
PlaceOption = Annotated[
    str,
    typer.Option(
        "--accounts",
        envvar="DODONA_ACCOUNTS",
        help="The folder that is served, a file, or env:NAME with the address of a database; $DODONA_ACCOUNTS too.",
    ),
]
ShareOption = Annotated[
    str | None, typer.Option(help="Admit the analyst in the dataset's ledger, with this part of its budget.")
]

_SUFFIX = ".toml"
_ENV_PREFIX = "env:"
_IN_A_FOLDER = Path(".dodona", "accounts", "accounts.sqlite")
_NO_ROLE = "none"


# --- Commands. ---


@app.command()
def add(  # noqa: PLR0913  each is an option
    name: NameArgument,
    *,
    dataset: Annotated[
        list[str] | None, typer.Option(help="A dataset's name or file; * for every dataset. May be repeated.")
    ] = None,
    role: Annotated[str, typer.Option(help="owner, analyst or auditor, for these datasets.")] = "analyst",
    share: ShareOption = None,
    email: Annotated[str | None, typer.Option(help="Lets its person log in at the OpenID Connect provider.")] = None,
    accounts: PlaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Add an account, with a role for datasets. It can do nothing before it has a token, a password or a login."""
    with report_errors():
        targets = [_find_dataset(text, accounts) for text in dataset or []]
        admissions = _prepare_admissions(name, targets, role, share)
        with _open_or_create(accounts) as store:
            store.add(name, email=email, grants={target.name: role for target in targets})
            said = [f"added: {name}"] + [f"{name} is {role} of {target.words}" for target in targets]
            said += [_admit(target, analyst) for target, analyst in admissions]
            said += _still_to_admit(name, targets, role)
            _say(said, {"account": account_to_json(store.account(name))}, as_json=as_json)


@app.command("list")
def list_accounts(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show the tokens of this account.")] = None,
    *,
    accounts: PlaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """List the accounts, or the tokens of one. Secrets are not shown: they are not kept."""
    with report_errors(), _open_accounts(accounts) as store:
        if name is not None:
            tokens = store.tokens(name)
            if as_json:
                print(json.dumps({"tokens": [token_to_json(token) for token in tokens]}))
            else:
                _show_tokens(tokens)
            return
        account_tokens = [(account, store.tokens(account.name)) for account in store.list()]
        if as_json:
            listed = [
                account_to_json(account) | {"tokens": [token_to_json(token) for token in tokens]}
                for account, tokens in account_tokens
            ]
            print(json.dumps({"accounts": listed}))
        else:
            _show_accounts(account_tokens)


@app.command()
def grant(  # noqa: PLR0913  each is an option
    name: NameArgument,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset's name or file; * for every one.")],
    role: Annotated[str, typer.Argument(metavar="ROLE", help="owner, analyst, auditor; none takes it away.")],
    *,
    share: ShareOption = None,
    accounts: PlaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Give an account a role for a dataset, instead of the one it has."""
    with report_errors(), _open_accounts(accounts) as store:
        target = _find_dataset(dataset, accounts)
        written = store.account(name).name
        admissions = _prepare_admissions(written, [target], role, share)
        if role == _NO_ROLE:
            store.withdraw(name, target.name)
            said = [f"{written} has no role for {target.words}"]
        else:
            store.grant(name, target.name, role)
            said = [f"{written} is {role} of {target.words}"]
        said += [_admit(target, analyst) for target, analyst in admissions]
        said += _still_to_admit(written, [target], role)
        _say(said, {"account": account_to_json(store.account(name))}, as_json=as_json)


@app.command()
def stop(
    name: NameArgument,
    *,
    token: Annotated[str | None, typer.Option(help="Revoke only this token; see `dodona account list NAME`.")] = None,
    accounts: PlaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Stop an account, or revoke one of its tokens. A server notices within a second."""
    with report_errors(), _open_accounts(accounts) as store:
        if token is not None:
            store.revoke(name, token)
            _say([f"revoked: token {token} of {name}"], {"revoked": token}, as_json=as_json)
            return
        store.stop(name)
        written = store.account(name)
        said = [f"stopped: {written.name}; its tokens, sessions and password have ended"]
        _say(said, {"account": account_to_json(written)}, as_json=as_json)


@app.command()
def resume(name: NameArgument, *, accounts: PlaceOption = ".", as_json: JsonOption = False) -> None:
    """Let a stopped account in again, with its roles. It needs a new token or password."""
    with report_errors(), _open_accounts(accounts) as store:
        store.resume(name)
        written = store.account(name)
        _say([f"resumed: {written.name}"], {"account": account_to_json(written)}, as_json=as_json)


@app.command()
def token(  # noqa: PLR0913  each is an option
    name: NameArgument,
    *,
    label: Annotated[str, typer.Option("--name", help="What the token is for, such as laptop.")] = "command line",
    days: Annotated[int, typer.Option(help="Days until it expires; 0 for never.")] = 90,
    dataset: Annotated[
        list[str] | None, typer.Option(help="Limit it to this dataset; a name or a file. May be repeated.")
    ] = None,
    max_price: Annotated[str | None, typer.Option(help="The most one call may take of a budget, such as 1%.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write it to a new file that only you can read.")] = None,
    accounts: PlaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Make a token for programs, and show it once: on standard output, and nothing else there."""
    with report_errors(), _open_accounts(accounts) as store:
        lifetime = None if days == 0 else timedelta(days=days)
        scope = None if dataset is None else [_find_dataset(text, accounts).name for text in dataset]
        with _new_file(output) as write:  # before the token is made: it could not be shown again
            issued = store.create_token(name, label, lifetime=lifetime, datasets=scope, max_price=max_price)
            write(issued.text)
        shown = {} if output is not None else {"token": issued.text}
        if as_json:
            print(json.dumps(token_to_json(issued.info) | shown))
            return
        until = "until it is revoked" if issued.info.expires is None else f"until {_day(issued.info.expires)}"
        where = "It is shown once" if output is None else f"It is in {output}"
        typer.echo(f"token {issued.info.id} of {issued.info.account}, {until}. {where}, and not kept here.", err=True)
        if output is None:
            typer.echo(issued.text)


@app.command()
def password(name: NameArgument, *, accounts: PlaceOption = ".", as_json: JsonOption = False) -> None:
    """Set the password of the page's login: typed twice, or one line from standard input. Ends the sessions."""
    with report_errors(), _open_accounts(accounts) as store:
        written = store.account(name).name
        if sys.stdin.isatty():
            typed = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        else:
            typed = sys.stdin.readline().rstrip("\r\n")
        store.set_password(written, typed)
        _say([f"set: the password of {written}"], {"account": account_to_json(store.account(name))}, as_json=as_json)


@app.command()
def login(
    name: NameArgument,
    *,
    issuer: Annotated[str, typer.Option(help="The OpenID Connect provider, such as https://login.example.org.")],
    subject: Annotated[str, typer.Option(help="The provider's id of the person: the claim sub.")],
    accounts: PlaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Link an account to a person at an OpenID Connect provider that does not verify e-mail addresses."""
    with report_errors(), _open_accounts(accounts) as store:
        from dodona.server.oidc import tie_login

        tie_login(store, name, issuer=issuer, subject=subject)
        written = store.account(name)
        _say([f"tied: {written.name} logs in at {issuer}"], {"account": account_to_json(written)}, as_json=as_json)


# --- Where the accounts are, and which dataset is meant. ---


@contextmanager
def _open_accounts(place: str) -> Iterator[Accounts]:
    from dodona.server.accounts import Accounts

    with Accounts.open(resolve_place(place)) as store:
        yield store


@contextmanager
def _open_or_create(place: str) -> Iterator[Accounts]:
    """Open the accounts; the first account makes the file."""
    from dodona.server.accounts import Accounts

    where = resolve_place(place)
    if isinstance(where, Path) and where.name == _IN_A_FOLDER.name:
        where.parent.parent.mkdir(mode=0o711, exist_ok=True)
        where.parent.mkdir(mode=0o700, exist_ok=True)
    with Accounts.create(where) as store:
        yield store


def resolve_place(text: str) -> str | Path:
    """Return the address of a database, or the path of the file; a folder that is served has it inside."""
    if text.startswith(_ENV_PREFIX):
        name = text.removeprefix(_ENV_PREFIX)
        if not os.environ.get(name):
            raise InvalidArgument("accounts", text, f"set {name} in the environment")
        return os.environ[name]
    if "://" in text:
        raise InvalidRequest("Write the database's address into a variable, and --accounts env:NAME: others see this.")
    path = Path(text)
    return path / _IN_A_FOLDER if path.is_dir() else path


@dataclass(frozen=True, slots=True)
class _Target:
    """A dataset that a command names, and its file, where one is known."""

    name: str
    file: Path | None = None

    @property
    def words(self) -> str:
        from dodona.server.identity import EVERY_DATASET

        return "every dataset" if self.name == EVERY_DATASET else self.name


def _find_dataset(text: str, place: str) -> _Target:
    """Return the dataset of a name, whose file may be in the folder that is served, or of a file."""
    from dodona.server.accounts import validate_dataset

    if text.endswith(_SUFFIX):
        from dodona.dataset import DatasetFile

        return _Target(DatasetFile.draft(text).dataset, Path(text))
    folder = Path(place)
    for path in sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else []:
        if _dataset_name(path) == text:
            return _Target(text, path)
    return _Target(validate_dataset(text))


def _dataset_name(path: Path) -> object:
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig")).get("dataset")
    except (OSError, ValueError):
        return None


# --- Admission in the ledger, which the share of an analyst is in. ---


def _prepare_admissions(
    name: str, targets: list[_Target], role: str, share: str | None
) -> list[tuple[_Target, Analyst]]:
    """Return whom to admit where; refuse, before anything is written, what cannot be done."""
    if share is None:
        return []
    from dodona.privacy.budget import Analyst

    if role != "analyst" or not targets:
        raise InvalidArgument("share", share, "leave it out: it is for analysts of a dataset")
    for target in targets:
        if target.file is None:
            accepted = f"name the dataset's file, as the share is kept in the ledger of {target.words}"
            raise InvalidArgument("share", share, accepted)
    return [(target, Analyst(name, share)) for target in targets]


def _admit(target: _Target, analyst: Analyst) -> str:
    from dodona.dataset import open_dataset_ledger

    assert target.file is not None  # noqa: S101  narrows the type; only datasets with a file are prepared
    with open_dataset_ledger(target.file) as ledger:
        first = not ledger.state().analysts
        ledger.admit(analyst)
    said = f"admitted in the ledger of {target.name}: {analyst.name}, {analyst.share} of the budget"
    return f"{said}; from now on only analysts who were admitted may spend" if first else said


def _still_to_admit(name: str, targets: list[_Target], role: str) -> list[str]:
    """Return where an analyst has a role but may not spend yet: the ledger, which is there, does not know them."""
    from dodona.dataset import open_dataset_ledger
    from dodona.errors import DodonaError

    said = []
    for target in targets if role == "analyst" else []:
        if target.file is None:
            continue
        try:
            with open_dataset_ledger(target.file) as ledger:
                admitted = any(analyst.name == name for analyst in ledger.state().analysts)
        except DodonaError:
            continue  # there is no ledger yet, or none that opens: the commands about it say so
        if not admitted:
            admit = f"dodona ledger admit {target.file} {name} --share 1/2"
            said.append(f"{name} may not spend from {target.name} yet: write --share, or run `{admit}`")
    return said


# --- Output. ---


def account_to_json(account: Account) -> dict[str, object]:
    """Return an account as one JSON object."""
    return {
        "name": account.name,
        "grants": dict(account.grants),
        "email": account.email,
        "password": account.has_password,
        "login": account.has_login,
        "created": account.created.isoformat(),
        "stopped": _iso(account.stopped),
    }


def token_to_json(token: TokenInfo) -> dict[str, object]:
    """Return a token, without its secret, as one JSON object."""
    return {
        "id": token.id,
        "account": token.account,
        "name": token.name,
        "datasets": None if token.datasets is None else sorted(token.datasets),
        "max_price": token.max_price,
        "created": token.created.isoformat(),
        "expires": _iso(token.expires),
        "last_use": _iso(token.last_use),
        "ended": _iso(token.ended),
    }


def _say(lines: list[str], fields: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(fields | {"done": lines}))
        return
    for line in lines:
        typer.echo(printable(line))


def _show_accounts(account_tokens: list[tuple[Account, tuple[TokenInfo, ...]]]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table("account", "roles", "e-mail", "page", "tokens", "last use", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for account, tokens in account_tokens:
        roles = ", ".join(f"{dataset}: {role}" for dataset, role in sorted(account.grants.items()))
        ways = [word for word, has in (("password", account.has_password), ("login", account.has_login)) if has]
        uses = [token.last_use for token in tokens if token.last_use is not None]
        table.add_row(
            escape(account.name),
            escape(printable(roles)),
            escape(printable(account.email or "")),
            " ".join(ways),
            str(sum(token.ended is None for token in tokens)),
            _time(max(uses, default=None)),
            "" if account.stopped is None else f"stopped {_day(account.stopped)}",
        )
    make_console().print(table if account_tokens else "There are no accounts yet.")


def _show_tokens(tokens: tuple[TokenInfo, ...]) -> None:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table("token", "name", "datasets", "cap", "until", "last use", "", box=box.SIMPLE_HEAD, pad_edge=False)
    for token in tokens:
        table.add_row(
            token.id,
            escape(printable(token.name)),
            "all" if token.datasets is None else escape(printable(", ".join(sorted(token.datasets)))),
            escape(token.max_price or ""),
            "it is revoked" if token.expires is None else _day(token.expires),
            _time(token.last_use),
            "" if token.ended is None else f"ended {_day(token.ended)}",
        )
    make_console().print(table if tokens else "The account has no tokens.")


@contextmanager
def _new_file(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield what writes a line to a new file that only its owner may read; without a path it writes nothing."""
    if path is None:
        yield lambda _: None
        return
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        raise InvalidArgument("output", str(path), "name a file that does not exist, in a folder that does") from None
    try:
        with os.fdopen(file, "w", encoding="utf-8") as opened:
            yield lambda line: print(line, file=opened)
    except BaseException:
        path.unlink()
        raise


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _day(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d")


def _time(moment: datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M")
