"""What the dispatcher lets in: calls that have all parts, by callers who may, and how much of everything."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from dodona.server.acts import ACTS, Act, ActUnknown, BadCall, OwnersOnly, RoleRefused
from dodona.server.link import LONGEST_KEY, BadFrame, KeyMissing
from dodona.server.timing import QUANTUM

_CALLER = {"name", "role", "max_price", "max_day"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """How many workers there are, and what one caller and one call may use."""

    free_workers: int = 1
    paid_workers: int = 1
    free_threads: int = 2
    paid_threads: int = 16
    job_threads: int = 4
    running: int = 16
    """Calls of one caller that workers have at once."""
    waiting: int = 256
    """Calls of one caller that are under way at once, running or not; more are refused."""
    waiting_in_all: int = 8192
    free_seconds: float = 15.0
    """How long a call may run, by the clock, in the pool of free answers."""
    paid_seconds: float = 60.0
    job_seconds: float = 3600.0
    queue_seconds: float = 60.0
    """How long a call may wait for a worker."""
    processor_seconds: float = 30.0
    """Of one call's thread, in the pools of free and of measured answers."""
    memory: int = 8 << 30
    """Bytes of address space of a worker; 0 for no limit."""
    datasets: int = 48
    """Datasets that a worker has open; each takes some 75 MB of addresses. The one not asked for longest is closed."""
    quantum: float = QUANTUM
    """The first point of the time grid, in seconds."""
    quanta: Mapping[str, float] = field(default_factory=dict)
    """The same by dataset, where it differs."""
    socket_mode: int = 0o600
    peers: tuple[int, ...] | None = None
    """The users who may connect; None for anyone whom the mode of the sockets lets in."""


def decode_call(header: bytes) -> dict[str, object]:
    """Return a call's header; raise BadFrame where there is nothing that a reply could be sent to."""
    try:
        call = json.loads(header)
    except (ValueError, RecursionError):
        raise BadFrame("is no JSON") from None
    if not isinstance(call, dict) or not isinstance(call.get("id"), int | str):
        raise BadFrame("has no id")
    return call


def validate_call(call: Mapping[str, object]) -> None:
    """Refuse a call that lacks a part; the core accepts no nameless caller."""
    if not {"act", "dataset", "caller", "arguments", "accept"} <= call.keys():
        raise BadCall("A call has an id, an act, a dataset, a caller, arguments and what it accepts.")
    caller = call["caller"]
    if not isinstance(caller, dict) or not {"name", "role"} <= caller.keys() <= _CALLER:
        raise BadCall("A caller has a name and a role.")
    name, most = caller["name"], (caller.get("max_price"), caller.get("max_day"))
    if not isinstance(name, str) or not name or not isinstance(caller["role"], str):
        raise BadCall("The core accepts no nameless caller.")
    if not all(isinstance(limit, str | None) for limit in most):
        raise BadCall("What a token may spend is a share of the budget, in a text.")
    if not isinstance(call["arguments"], dict) or not isinstance(call["dataset"], str | None):
        raise BadCall("Arguments are an object, and a dataset is named by a text.")


def _is_key(key: object) -> bool:
    return isinstance(key, str) and 1 <= len(key) <= LONGEST_KEY and key.isprintable()


def permitted_act(call: Mapping[str, object], *, owners: bool) -> Act:
    """Return the act of a valid call, or refuse it: to whom it may not be done, or without a key that it needs.

    `owners` is whether it came through the owners' socket.
    """
    caller = cast("dict[str, object]", call["caller"])
    act = ACTS.get(str(call["act"]))
    if act is None:
        raise ActUnknown
    if act.owners_only and not owners:
        raise OwnersOnly
    if caller["role"] not in act.roles:
        raise RoleRefused(act.roles)
    if act.needs_key and not _is_key(cast("dict[str, object]", call["arguments"]).get("key")):
        raise KeyMissing
    if act.needs_dataset and not isinstance(call["dataset"], str):
        raise BadCall("This act is about a dataset: name it.")
    return act
