"""Acts of synthetic releases: jobs that are charged step by step, and rows that are kept until they are fetched."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dodona.errors import DodonaError, InvalidArgument, InvalidRequest
from dodona.ledger.errors import KeyReused
from dodona.server.acts import BadCall, Failed
from dodona.server.asking import ARROW, CSV, NothingBought, allowed_price, arrow_bytes, capped, curator_of, expect
from dodona.server.calls import ActCall, RunLater, kept_path, read_kept, write_bytes, write_kept
from dodona.server.link import Reply, problem_reply
from dodona.server.reading import json_reply

if TYPE_CHECKING:
    from dodona.schema.schema import Domain
    from dodona.synth.methods import SynthesisMethod
    from dodona.synth.workload import Workload

PARQUET = "application/vnd.apache.parquet"
_RELEASES = "releases"
_WISHES = (
    "workload",
    "target",
    "columns",
    "ways",
    "marginals",
    "epsilon",
    "share",
    "method",
    "count",
    "rows",
    "max_price",
)
_PAUSE = 0.5  # seconds between notes of progress


class NotReleased(InvalidRequest):
    """The rows of a synthetic release are not there yet, or it failed."""

    code = "not-released"
    http_status = 409

    def __init__(self) -> None:
        """Say where to look."""
        super().__init__("This release has no rows yet. Its state says how far it is, or why it failed.")


def synthesize(call: ActCall) -> Reply:
    """Begin a release under a key, or go on with it; it is refused here if it does not fit the budget."""
    from dodona.synth.synthesize import require_affordable_synthesis

    expect(call, *_WISHES)
    arguments = {name: value for name, value in call.arguments.items() if name != "key" and value is not None}
    path = kept_path(call, _RELEASES)
    known = read_kept(path)
    if known is not None and known["arguments"] != arguments:
        raise KeyReused(call.key)
    if known is None or known["state"] == "failed":
        with capped(call):
            require_affordable_synthesis(curator_of(call), **_order(call, arguments), max_price=allowed_price(call))
        known = {"state": "waiting", "done": 0.0, "about": "", "arguments": arguments}
        write_kept(path, known)
    reply = json_reply(_shown(call, known), status=200 if known["state"] == "done" else 202)
    if known["state"] == "done":
        return reply
    raise RunLater(reply)


def synthesize_run(call: ActCall) -> None:
    """Carry out a release, step by step; each is charged under a key of its own, so that it can be interrupted."""
    from dodona.synth.synthesize import synthesize as run

    path = kept_path(call, _RELEASES)
    known = read_kept(path)
    if known is None or known["state"] in {"done", "failed"}:
        return
    noted = [0.0]

    def progress(part: float, about: str) -> None:
        if time.monotonic() - noted[0] >= _PAUSE:
            noted[0] = time.monotonic()
            write_kept(path, known | {"state": "running", "done": part, "about": about})

    arguments = known["arguments"]
    try:
        order = _order(call, arguments)
        model = run(curator_of(call), **order, max_price=allowed_price(call, arguments), progress=progress)
        rows = _rows(model, arguments)
        _write_rows(path.with_suffix(".parquet"), rows)
    except DodonaError as fault:
        write_kept(path, known | {"state": "failed", "problem": problem_reply(fault).body.decode()})
        return
    except Exception:
        write_kept(path, known | {"state": "failed", "problem": problem_reply(Failed(charged=True)).body.decode()})
        raise
    promise = model.promise
    facts = {
        "method": model.method,
        "columns": list(model.workload.names),
        "share": str(model.share),
        "charges": len(model.steps),
        "lost": sum(step.how == "lost" for step in model.steps),
        "within": None if promise is None else promise.within,
        "confidence": None if promise is None else promise.confidence,
        "rows": len(rows),
        "version": model.version,
        "head": model.head,
    }
    write_kept(path, known | {"state": "done", "done": 1.0, "about": "", "release": facts})


def release(call: ActCall) -> Reply:
    """Return how far a release is; one that was interrupted goes on."""
    expect(call)
    known = read_kept(kept_path(call, _RELEASES))
    if known is None:
        raise NothingBought
    reply = json_reply(_shown(call, known))
    if known["state"] in {"waiting", "running"}:
        raise RunLater(reply)
    return reply


release_run = synthesize_run


def release_rows(call: ActCall) -> Reply:
    """Return the rows of a release as Parquet, CSV or an Arrow stream."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    expect(call)
    path = kept_path(call, _RELEASES)
    known = read_kept(path)
    if known is None:
        raise NothingBought
    if known["state"] != "done":
        raise NotReleased
    content = path.with_suffix(".parquet").read_bytes()
    if PARQUET in call.accept:
        return Reply(200, PARQUET, content)
    table = pq.read_table(io.BytesIO(content))
    if ARROW in call.accept:
        return Reply(200, ARROW, arrow_bytes(table))
    out = io.BytesIO()
    pc.write_csv(table, out)
    return Reply(200, f"{CSV}; charset=utf-8", out.getvalue())


def _shown(call: ActCall, known: dict[str, Any]) -> dict[str, object]:
    problem = known.get("problem")
    return {
        "key": call.key,
        "state": known["state"],
        "done": known["done"],
        "about": known["about"],
        "release": known.get("release"),
        "problem": None if problem is None else json.loads(problem),
    }


def _order(call: ActCall, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what to release, as arguments of `synthesize`; the key names it."""
    domain = call.opened.dataset.schema.domain
    return {
        "workload": _workload(domain, arguments),
        "epsilon": arguments.get("epsilon"),
        "share": arguments.get("share"),
        "method": _method(arguments.get("method", "annealed")),
        "name": call.key,
    }


def _workload(domain: Domain, arguments: dict[str, Any]) -> Workload:
    from dodona.synth.naming import name_workload
    from dodona.synth.workload import Workload

    given = [name for name in ("workload", "target", "ways", "marginals") if name in arguments]
    if len(given) != 1:
        raise BadCall("Say what the release should answer, in one way: workload, such as 2-way, target or marginals.")
    marginals, ways = arguments.get("marginals"), arguments.get("ways")
    if marginals is not None:
        if not isinstance(marginals, list) or not all(_are_names(marginal) for marginal in marginals):
            raise InvalidArgument("marginals", marginals, "write a list of lists of columns")
        return Workload.marginals(domain, marginals)
    columns = arguments.get("columns")
    if columns is not None and not _are_names(columns):
        raise InvalidArgument("columns", columns, "write a list of columns")
    if ways is None:
        return name_workload(domain, arguments.get("workload"), target=arguments.get("target"), columns=columns)
    if type(ways) is not int:
        raise InvalidArgument("ways", ways, "write a whole number, such as 2")
    return Workload.ways(domain, ways, columns=columns)


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _method(name: object) -> SynthesisMethod:
    from dodona.synth.methods import Annealed, Blr, Guaranteed, Mwem

    known: dict[object, type[SynthesisMethod]] = {
        "annealed": Annealed,
        "mwem": Mwem,
        "guaranteed": Guaranteed,
        "blr": Blr,
    }
    if name not in known:
        raise InvalidArgument("method", name, f"write one of {', '.join(map(str, known))}")
    return known[name]()


def _rows(model: Any, arguments: dict[str, Any]) -> Any:  # noqa: ANN401  the model is loaded lazily
    match arguments.get("rows", "rounded"):
        case "sampled":
            return model.sampled(arguments.get("count"))
        case "weighted":
            return model.weighted()
        case "rounded":
            return model.rounded(arguments.get("count"))
        case other:
            raise InvalidArgument("rows", other, "write rounded, sampled or weighted")


def _write_rows(path: Path, rows: Any) -> None:  # noqa: ANN401  likewise
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(rows.to_arrow(), out)
    write_bytes(path, out.getvalue())
