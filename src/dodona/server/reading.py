"""Acts that only read: which datasets there are, what they hold, what was spent, and by whom."""

import datetime as dt
import json
from itertools import islice

from dodona.answer.description import HistoryEntry
from dodona.curator.description import describe as describe_dataset
from dodona.dataset.file import DatasetFile
from dodona.dataset.opening import MOST_MADE_UP_ROWS, make_up_rows
from dodona.errors import DodonaError, InvalidArgument, Refused, printable_json
from dodona.privacy.budget import Price
from dodona.server.acts import ANALYST, NoPreviews
from dodona.server.calls import ActCall
from dodona.server.datasets import Opened
from dodona.server.link import JSON, Reply


class LedgerShared(Refused):
    """The ledger has entries of several datasets, and the caller's role is for one of them."""

    code = "ledger-shared"

    def __init__(self) -> None:
        """Say what to do."""
        super().__init__(
            "This ledger has entries of several datasets, which a role for one does not open. Its owner can verify it "
            "with `dodona ledger verify`."
        )


_MOST_CHARGES = 1000
_PREVIEWED = 100
_CHARGES = 100


def json_reply(document: object, *, status: int = 200) -> Reply:
    """Return a document as a reply."""
    return Reply(status, JSON, printable_json(json.dumps(document, ensure_ascii=False, allow_nan=False)).encode())


def price_to_json(price: Price) -> dict[str, object]:
    """Return a price as a JSON object."""
    return {"share": str(price.share), "epsilon": price.epsilon}


def permitted(call: ActCall) -> Opened:
    """Return the open dataset if the caller may read it: an analyst only if the owner let them in."""
    opened = call.opened
    if call.caller.role == ANALYST:
        opened.dataset.ledger.permit(call.caller.name)
    return opened


def datasets(call: ActCall) -> Reply:
    """Return the datasets that are served; `only` lists the names that the caller may see, null for all."""
    only = call.arguments.get("only")
    listed: list[dict[str, object]] = []
    for name, path in call.datasets.names().items():
        if isinstance(only, list) and name not in only:
            continue
        try:
            file = DatasetFile.draft(path)
        except DodonaError:
            listed.append({"dataset": name, "table": None, "size": None, "protects": None, "served": False})
            continue
        unit = file.schema.unit
        protects = "row" if unit.id is None else "person"
        listed.append(
            {"dataset": name, "table": file.schema.table, "size": unit.size, "protects": protects}
            | {"served": not file.waiting}
        )
    return json_reply({"datasets": listed})


def describe(call: ActCall) -> Reply:
    """Return the public facts of a dataset, the caller's role, and how much one call may spend."""
    opened = permitted(call)
    analyst = call.caller.name if call.caller.role == ANALYST else None
    facts = json.loads(describe_dataset(opened.dataset, analyst).to_json())
    facts["role"] = call.caller.role
    facts["previews"] = opened.file.previews
    facts["rehearsal_rows"] = min(opened.dataset.schema.unit.size, MOST_MADE_UP_ROWS)
    facts["limits"] = opened.dataset.ledger.limits.to_json() | {"max_price": call.caller.max_price}
    return json_reply(facts)


def preview(call: ActCall) -> Reply:
    """Return made-up rows, where the owner allows them: they follow from what is declared and from nothing else."""
    opened = permitted(call)
    if not opened.file.previews:
        raise NoPreviews
    rows = make_up_rows(opened.dataset.schema, _PREVIEWED)
    return json_reply({"made_up": True, "rows": [{name: _plain(value) for name, value in row.items()} for row in rows]})


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, dt.date) else value


def budget(call: ActCall) -> Reply:
    """Return what was spent and what is left; an analyst sees no other analyst's share."""
    opened = permitted(call)
    state = opened.dataset.ledger.state()
    budget = state.to_json()
    name = call.caller.name
    if call.caller.role == ANALYST:
        budget["analysts"] = [analyst for analyst in _analysts(budget) if analyst["name"] == name]
        budget["yours"] = str(opened.dataset.ledger.left(analyst=name))
    return json_reply(budget)


def history(call: ActCall) -> Reply:
    """Return a page of the charges; of others' charges an analyst sees the time and the share alone."""
    opened = permitted(call)
    after = _whole(call, "after", 0, 1 << 40)
    limit = _whole(call, "limit", _CHARGES, _MOST_CHARGES)
    total = len(opened.history)
    page = opened.history.read(after, limit)
    analyst = call.caller.name if call.caller.role == ANALYST else None
    listed = [_charge(after + place + 1, entry, analyst, call.caller.name) for place, entry in enumerate(page)]
    further = after + len(page) < total
    return json_reply({"charges": listed, "total": total, "next": after + len(page) if further else None})


def ledger(call: ActCall) -> Reply:
    """Return the head of the ledger, which auditors compare with a copy of theirs, and the number of its lines."""
    ledger = permitted(call).dataset.ledger
    head, number = ledger.mark
    return json_reply({"head": head, "entries": number + 1})


def verify(call: ActCall) -> Reply:
    """Compute every hash and total of the ledger again."""
    ledger = permitted(call).dataset.ledger
    state = ledger.verify()
    head, number = ledger.mark
    return json_reply(
        {"verified": True, "head": head, "entries": number + 1, "charges": state.charges, "releases": state.releases}
    )


def entries(call: ActCall) -> Reply:
    """Return a page of the ledger's entries, from which auditors compute the chain of hashes themselves.

    The first entry is sent as its hash alone: it holds the key that chooses which rows of a person count.
    """
    ledger = permitted(call).dataset.ledger
    if len(ledger.datasets()) > 1:
        raise LedgerShared
    after, limit = _whole(call, "after", 0, 1 << 40), _whole(call, "limit", _CHARGES, _MOST_CHARGES)
    _, last = ledger.mark
    page = [line for line in islice(ledger.lines(after), limit) if line.number <= last]
    listed = [
        {"number": line.number, "hash": line.hash, "text": line.text if line.number > 0 else None} for line in page
    ]
    further = after + len(page) <= last and bool(page)
    return json_reply({"entries": listed, "total": last + 1, "next": after + len(page) if further else None})


def _analysts(budget: dict[str, object]) -> list[dict[str, object]]:
    listed = budget["analysts"]
    return listed if isinstance(listed, list) else []


def _charge(number: int, entry: HistoryEntry, analyst: str | None, caller: str) -> dict[str, object]:
    """Return a charge; `analyst` is the one whose texts may be seen, and a key is for its analyst alone."""
    shown: dict[str, object] = {"number": number, "time": entry.time, "share": str(entry.share)}
    if analyst is not None and entry.analyst != analyst:
        return shown
    return shown | {
        "analyst": entry.analyst,
        "text": entry.text,
        "version": entry.version,
        "receipt": entry.receipt,
        "answered": entry.answered,
        "key": entry.key if entry.analyst == caller else None,
    }


def _whole(call: ActCall, name: str, default: int, most: int) -> int:
    value = call.arguments.get(name)
    if value is None:
        return default
    if type(value) is not int or not 0 <= value <= most:
        raise InvalidArgument(name, value, f"write a whole number from 0 to {most}")
    return value
