"""The client of a server: the calls of a curator over HTTP, blocking or asynchronous.

- `remote`: `connect` and `RemoteCurator`; `remote_async`: `connect_async`, and the same calls as coroutines
- `results`: what they return where a local curator returns something that holds data or noise
- `transport`: retries under the same key, and server-sent events; `problems`: from problem+json to errors
- `calls`, `surface`: requests as values; `settings`: addresses, tokens and the file that keeps them

It needs httpx, and rich for progress bars. Nothing here imports an engine, a ledger or numpy.
"""

try:
    import httpx as _httpx  # noqa: F401  all that follows needs it
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError("The client of a server needs httpx: install dodona[client].", name="httpx") from missing

from dodona.client.remote import RemoteCurator, RemoteRelease, RemoteWatch, connect
from dodona.client.remote_async import AsyncRemoteCurator, AsyncRemoteRelease, AsyncRemoteWatch, connect_async
from dodona.client.results import AsyncRemoteAnswer, RemoteAnswer
from dodona.client.transport import Retries

__all__ = [
    "AsyncRemoteAnswer",
    "AsyncRemoteCurator",
    "AsyncRemoteRelease",
    "AsyncRemoteWatch",
    "RemoteAnswer",
    "RemoteCurator",
    "RemoteRelease",
    "RemoteWatch",
    "Retries",
    "connect",
    "connect_async",
]
