"""The process of a door: HTTP on one socket, operations on another, and a link to the core.

It is started as `python -m dodona.server.front SETTINGS`, where the settings are JSON without secrets. A line on
standard output says that it listens. It loads no engine, no ledger and no noise.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from dodona.errors import DodonaError
from dodona.server import logs
from dodona.server.agents.spending import make_caps
from dodona.server.app import make_door
from dodona.server.connections import limited
from dodona.server.guard import ClientLimits
from dodona.server.link import CoreLink
from dodona.server.metrics import Metrics
from dodona.server.operations import PLAIN, Operations, Server
from dodona.server.places import open_accounts, read_provider
from dodona.server.settings import BACKLOG, FrontSettings, set_process_limits

KEEP_ALIVE_SECONDS = 30
_OTHER_FILES = 200  # of the accounts, the core and the operators, whom no flood of connections may keep out


async def serve(settings: FrontSettings) -> None:
    """Serve a door until the process is asked to stop; then finish what is under way."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    connections = min(ClientLimits().connections, max(_OTHER_FILES, set_process_limits() - _OTHER_FILES))
    limits = ClientLimits(client_seconds=settings.client_seconds, connections=connections)
    metrics = Metrics(settings.door)
    link = CoreLink(Path(settings.core))
    link.lose(None)  # opens it in the background: the core may start after the front
    accounts = open_accounts(settings.accounts)
    app = make_door(
        settings.door,
        link=link,
        accounts=accounts,
        limits=limits,
        metrics=metrics,
        provider=None if settings.login is None else read_provider(Path(settings.login)),
        log_texts=settings.log_texts,
        demo=settings.demo,
        agents=None if settings.agents is None else make_caps(**settings.agents),
    )
    operations = Operations(link, metrics)
    servers = [_server(app, settings, limits, metrics)]
    sockets = [socket.socket(fileno=settings.fd)]
    if settings.operations_fd is not None:
        servers.append(operations.server())
        sockets.append(socket.socket(fileno=settings.operations_fd))
    running = [
        asyncio.create_task(server.serve([listening])) for server, listening in zip(servers, sockets, strict=True)
    ]
    logs.write("listening", door=settings.door, pid=os.getpid())  # the sockets do, since before this process began
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((stopped, *running), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    operations.draining = True
    logs.write("stopping", door=settings.door)
    servers[0].should_exit = True
    await running[0]
    for server in servers[1:]:
        server.should_exit = True
    await asyncio.gather(*running)
    await link.close()
    accounts.close()
    logs.write("stopped", door=settings.door)


def _server(app: Any, settings: FrontSettings, limits: ClientLimits, metrics: Metrics) -> Server:  # noqa: ANN401  an ASGI app
    proxied = {"proxy_headers": True, "forwarded_allow_ips": settings.proxy_address} if settings.proxy_address else {}
    config = uvicorn.Config(
        app,
        **(PLAIN | proxied),
        http=limited(limits, metrics),
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=round(settings.drain_seconds),
        backlog=BACKLOG,
    )
    return Server(config)


def main() -> None:
    """Read the settings and serve."""
    run_front(FrontSettings(**json.loads(sys.argv[1])))


def run_front(settings: FrontSettings) -> None:
    """Serve a door in this process, until it is asked to stop."""
    logs.set_up()
    try:
        with asyncio.Runner(loop_factory=_loop) as runner:
            runner.run(serve(settings))
    except DodonaError as fault:
        logs.write("failed", door=settings.door, code=fault.code, detail=fault.message)
        sys.exit(fault.exit_code)


def _loop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


if __name__ == "__main__":
    main()
