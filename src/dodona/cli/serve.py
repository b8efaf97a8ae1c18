"""`dodona serve`: the datasets of a folder behind a server, for people who may not hold the data."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dodona.cli.terminal import make_console, report_errors
from dodona.errors import InvalidRequest

if TYPE_CHECKING:
    from dodona.server.demo import Demo
    from dodona.server.serve import Supervisor

_QUESTION = "SELECT diagnosis, count(*) FROM stays GROUP BY diagnosis"


class Part(Enum):
    """A part of the server, to be run alone."""

    CORE = "core"
    FRONT = "front"
    OWNERS = "owners"
    SQL = "sql"
    SIDECAR = "sidecar"


HostOption = Annotated[str, typer.Option(help="Where analysts connect.")]
UserOption = Annotated[str | None, typer.Option(help="The system's user for this part; only root can set it.")]


def serve(  # noqa: PLR0913  each is an option
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="A folder with dataset files, such as stays.toml.")
    ] = None,
    *,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a made-up hospital, and print tokens for it.")] = False,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The analysts' port; 0 for any that is free.")] = 8700,
    owners_host: Annotated[str, typer.Option(help="Where owners connect.")] = "127.0.0.1",
    owners_port: Annotated[int, typer.Option(help="The owners' port.")] = 8701,
    operations_host: Annotated[str, typer.Option(help="Where operators connect.")] = "127.0.0.1",
    operations_port: Annotated[int, typer.Option(help="The port of /health, /ready and /metrics.")] = 8702,
    sql: Annotated[
        int | None, typer.Option(metavar="PORT", help="Let PostgreSQL's clients connect to this port; 0 for any.")
    ] = None,
    sql_host: Annotated[str, typer.Option(help="Where PostgreSQL's clients connect.")] = "127.0.0.1",
    sql_operations_port: Annotated[
        int, typer.Option(help="The port of /health, /ready and /metrics of the SQL door, at --operations-host.")
    ] = 8703,
    sql_user: UserOption = None,
    state: Annotated[  # which parts of other users pass through, and cannot list
        Path | None, typer.Option(readable=False, help="The folder of sockets and accounts. Default: FOLDER/.dodona.")
    ] = None,
    accounts: Annotated[
        str | None, typer.Option(help="Where the accounts are: a file, or env:NAME with a database's address.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate, and its chain, as PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key, as PEM.")] = None,
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="TLS ends at a proxy in front.")] = False,
    proxy_address: Annotated[str, typer.Option(help="The proxy's address; its headers are trusted.")] = ("127.0.0.1"),
    login: Annotated[Path | None, typer.Option(help="A TOML file that describes the OpenID Connect provider.")] = None,
    limits: Annotated[Path | None, typer.Option(help="A TOML file with the core's limits.")] = None,
    only: Annotated[Part | None, typer.Option(help="Run one part alone, as a service manager does.")] = None,
    share_group: Annotated[
        bool, typer.Option("--share-group", help="With --only core or sidecar: fronts of its group may connect.")
    ] = False,
    core_user: UserOption = None,
    front_user: UserOption = None,
    owners_user: UserOption = None,
    log_texts: Annotated[
        bool, typer.Option("--log-texts", help="Log the text of questions, which may be sensitive.")
    ] = (False),
    agent_question: Annotated[
        str, typer.Option(help="The most one question of an AI agent may take of a budget.")
    ] = "1%",
    agent_day: Annotated[
        str, typer.Option(help="The most an account may spend in a day when agents ask for it.")
    ] = "5%",
    agent_consent: Annotated[str, typer.Option(help="Above this price an agent needs a person's consent.")] = "0.1%",
    client_seconds: Annotated[float, typer.Option(help="How long a client may take to send or to read.")] = 20.0,
    drain_seconds: Annotated[float, typer.Option(help="How long a stop waits for requests under way.")] = 30.0,
) -> None:
    """Serve the datasets of a folder over HTTP.

    Try: dodona serve --demo
    """
    with report_errors(), ExitStack() as stack:
        from dodona.server import serve as server
        from dodona.server.agents.spending import make_caps
        from dodona.server.places import Users

        if folder is None:
            if not demo:
                raise InvalidRequest("Write the folder of the dataset files, or try: dodona serve --demo.")
            folder = Path(tempfile.mkdtemp(prefix="dodona-demo-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        made: Demo | None = None
        state = (folder / ".dodona" if state is None else state).absolute()
        if demo:
            from dodona.server.demo import make_demo
            from dodona.server.places import StateFolder

            places = StateFolder(state)
            folder.mkdir(parents=True, exist_ok=True)
            places.create(Users())
            made = make_demo(folder, places.accounts)
        settings = server.ServeSettings(
            folder=folder,
            state=state,
            analysts=server.Address(host, port),
            owners=server.Address(owners_host, owners_port),
            operations=server.Address(operations_host, operations_port),
            sql=None if sql is None else server.Address(sql_host, sql),
            sql_operations=server.Address(operations_host, sql_operations_port),
            sql_user=sql_user,
            accounts=accounts,
            tls_cert=tls_cert,
            tls_key=tls_key,
            behind_proxy=behind_proxy,
            proxy_address=proxy_address,
            login=login,
            users=Users(core_user, front_user, owners_user),
            limits=limits,
            share_group=share_group,
            log_texts=log_texts,
            client_seconds=client_seconds,
            drain_seconds=drain_seconds,
            demo=demo,
            agents=make_caps(question=agent_question, day=agent_day, consent=agent_consent),
        )
        if only is not None:
            server.serve_one(settings, only.value)
            return
        log = None
        if made is not None:  # a terminal should show the tokens, not a line for each request
            log = stack.enter_context((state / "log.jsonl").open("ab"))
        server.serve_all(settings, lambda running, anybody: _greet(running, made, anybody=anybody), log=log)


def _greet(running: Supervisor, made: Demo | None, *, anybody: bool) -> None:
    """Say where the server is, and for a demonstration how to try it."""
    screen = make_console()

    def say(text: str, style: str = "") -> None:
        screen.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    say(f"Dodona serves {running.settings.folder} at {running.url('analysts')}", style="bold")
    say(f"Owners: {running.url('owners')}. Operators: {running.url('operations')}/health, /ready and /metrics.")
    if running.settings.sql is not None:
        say(f"PostgreSQL's clients: {running.url('sql')}/DATASET, with the name of an account and a token as password.")
        say(f"Operators of the SQL door: {running.url('sql-operations')}/health, /ready and /metrics.")
    if not anybody:
        place = shlex.quote(running.settings.accounts or str(running.settings.places.accounts))
        say("Nobody has an account yet, so nobody can ask. Add an owner of all datasets from another terminal:")
        say(f"  dodona account add NAME --role owner --dataset '*' --accounts {place}")
        say(f"  dodona account token NAME --accounts {place}")
    if made is not None:
        say(
            "\nThe hospital is made up. Open the address above and log in with a token, or ask from another terminal:\n"
        )
        for name, token in made.tokens.items():
            say(f"  {name:6} {token}")
        body = f'{{"question": "{_QUESTION}"}}'
        say(
            f"\n  curl {running.url('analysts')}/api/v1/datasets/hospital-stays/answers \\\n"
            f"    -H 'Authorization: Bearer {made.tokens['ada']}' -H 'Idempotency-Key: first' \\\n"
            f"    -H 'Content-Type: application/json' -H 'Accept: text/csv' -d '{body}'\n"
        )
        if running.settings.sql is not None:
            address = f"{running.url('sql')}/hospital-stays?user=ada"
            say(f'  PGPASSWORD={made.tokens["ada"]} psql "{address}" -c "{_QUESTION}"\n')
        say(f"The log is in {running.settings.state / 'log.jsonl'}.")
    say(f"Press Ctrl+C to stop. Process {os.getpid()}.")
