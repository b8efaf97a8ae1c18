"""Acts of watches and multiplicative weights: many counts for one charge."""

from dataclasses import replace

from dodona.curator.watch import Watch, integer_threshold
from dodona.errors import InvalidArgument
from dodona.server.asking import NothingBought, allowed_price, capped, curator_of, expect, text, texts
from dodona.server.calls import ActCall, kept_path, read_kept, write_kept
from dodona.server.link import JSON, Reply
from dodona.server.reading import json_reply, price_to_json

_WATCHES = "watches"
_NUMBERS = ("threshold", "epsilon", "alerts", "questions")


def watch_open(call: ActCall) -> Reply:
    """Open a watch, charged in full; its key names it. With the same key it is the same watch, and free."""
    arguments = expect(call, *_NUMBERS, "max_price")
    if "threshold" not in arguments or "epsilon" not in arguments:
        raise InvalidArgument("threshold, epsilon", None, "a watch needs both")
    numbers = {"alerts": 1, "questions": 1000} | {
        name: arguments[name] for name in _NUMBERS if arguments.get(name) is not None
    }
    watch = _open_watch(call, numbers)
    if watch is None:
        with capped(call):
            watch = _open(call, numbers)
        write_kept(kept_path(call, _WATCHES), numbers)
    return json_reply(_describe(call, watch, numbers), status=201)


def watch(call: ActCall) -> Reply:
    """Return the numbers of a watch and how many alerts are left."""
    expect(call)
    watch, numbers = _find(call)
    return json_reply(_describe(call, watch, numbers))


def watch_ask(call: ActCall) -> Reply:
    """Return whether a count is above the watch's threshold; it was paid for when the watch was opened."""
    arguments = expect(call, "question", "threshold")
    watch, _ = _find(call)
    verdict = watch.ask(text(arguments.get("question")), threshold=arguments.get("threshold"))
    return json_reply({"above": verdict.above, "gap": verdict.gap, "answer": verdict.answer, "left": watch.left})


def weights(call: ActCall) -> Reply:
    """Answer all counts by multiplicative weights for one charge; recorded, so that a repetition gives the same."""
    arguments = expect(call, "questions", "epsilon", "columns", "confidence", "max_price")
    if "epsilon" not in arguments:
        raise InvalidArgument("epsilon", None, "say what the weights may cost alone, such as 0.5")
    columns = arguments.get("columns")
    with capped(call):
        answered = curator_of(call).ask_by_weights(
            texts(arguments.get("questions"), argument="questions"),
            epsilon=arguments["epsilon"],
            columns=None if columns is None else texts(columns, argument="columns"),
            confidence=0.95 if arguments.get("confidence") is None else arguments["confidence"],
            max_price=allowed_price(call),
            key=call.key,
        )
    return Reply(200, JSON, answered.to_json().encode())


def _open_watch(call: ActCall, numbers: dict[str, object]) -> Watch | None:
    """Return the watch that this process has open under the key, if it has these numbers, with this threshold."""
    opened, place = call.opened, (call.caller.name, call.key)
    kept, known = opened.watches.get(place), read_kept(kept_path(call, _WATCHES))
    if kept is None or known is None or any(known[name] != numbers[name] for name in _NUMBERS[1:]):
        return None
    opened.dataset.ledger.permit(call.caller.name)
    moved = replace(kept, threshold=integer_threshold(numbers["threshold"]))  # type: ignore[arg-type]
    opened.keep_watch(*place, moved)
    return moved


def _open(call: ActCall, numbers: dict[str, object]) -> Watch:
    options = {name: numbers[name] for name in _NUMBERS[1:]}
    watch = curator_of(call).above(
        numbers["threshold"],  # type: ignore[arg-type]
        **options,  # type: ignore[arg-type]
        max_price=allowed_price(call),
        key=call.key,
    )
    call.opened.keep_watch(call.caller.name, call.key, watch)
    return watch


def _find(call: ActCall) -> tuple[Watch, dict[str, object]]:
    """Return an open watch; one whose process ended is opened again, with new noise, for some of its alerts."""
    numbers = read_kept(kept_path(call, _WATCHES))
    if numbers is None:
        raise NothingBought
    curator_of(call)  # refuses a caller whom the owner did not let in
    watch = call.opened.watches.get((call.caller.name, call.key))
    return (_open(call, numbers) if watch is None else watch), numbers


def _describe(call: ActCall, watch: Watch, numbers: dict[str, object]) -> dict[str, object]:
    return {
        "key": call.key,
        "threshold": watch.threshold,
        "alerts": numbers["alerts"],
        "left": watch.left,
        "questions": watch.questions,
        "within": watch.within,
        "confidence": watch.confidence,
        "price": price_to_json(watch.price),
        "about": watch.about,
    }
