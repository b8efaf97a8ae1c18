"""Acts that ask: quotes, answers, batches, and what was bought before."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dodona.answer.display import plain_columns
from dodona.answer.recorded import RecordedAnswer
from dodona.curator.curator import Curator
from dodona.curator.desk import PriceAboveMaximum
from dodona.errors import DodonaError, InvalidArgument, InvalidRequest, Refused
from dodona.numbers import format_percent, to_share
from dodona.server.acts import BadCall
from dodona.server.calls import ActCall
from dodona.server.link import JSON, Reply
from dodona.server.reading import json_reply, permitted, price_to_json

if TYPE_CHECKING:
    from dodona.curator.curator import AnyAnswer

CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
MOST_QUESTIONS = 10_000
"""In one batch."""
_WISHES = frozenset(("within", "confidence", "epsilon", "max_price", "fresh"))


class TokenCap(Refused):
    """A call would take more of the budget than the caller's token may spend at once."""

    code = "token-cap"

    def __init__(self, *, price: Fraction, most: Fraction) -> None:
        """State the price, and what the token allows."""
        self.price, self.most = price, most
        super().__init__(
            f"This would take {format_percent(price)} of the budget, and the token may spend {format_percent(most)} "
            "in one call. Ask for less, or with another token."
        )


class NothingBought(InvalidRequest):
    """Nothing was bought under a key, by this caller."""

    code = "nothing-bought"
    http_status = 404

    def __init__(self) -> None:
        """Set a constant message."""
        super().__init__("You bought nothing under this key here, or its answer is not recorded yet.")


# --- What a call wishes. ---


def expect(call: ActCall, *names: str) -> Mapping[str, Any]:
    """Return the arguments of a call, none of which may be unknown; the library validates their values."""
    unknown = sorted(set(call.arguments) - set(names) - {"key"})
    if unknown:
        raise BadCall(f"There is no argument {unknown[0][:60]!r} here. There are: {', '.join(sorted(names))}.")
    return call.arguments


def texts(value: object, *, argument: str) -> list[str]:
    """Return a list of questions."""
    if not isinstance(value, list) or not all(isinstance(question, str) for question in value):
        raise InvalidArgument(argument, type(value).__name__, "write a list of questions, each a text")
    if len(value) > MOST_QUESTIONS:
        raise InvalidArgument(argument, len(value), f"write at most {MOST_QUESTIONS} questions")
    return value


def text(value: object, *, argument: str = "question") -> str:
    """Return a question."""
    if not isinstance(value, str):
        raise InvalidArgument(argument, type(value).__name__, "write SQL text")
    return value


def wishes(call: ActCall, *names: str) -> dict[str, Any]:
    """Return the accuracy, the price and the like that a call asks for, as arguments of the curator's methods."""
    fresh = call.arguments.get("fresh")
    if fresh is not None and type(fresh) is not bool:
        raise InvalidArgument("fresh", fresh, "write true or false")
    arguments = {name: call.arguments.get(name) for name in names if call.arguments.get(name) is not None}
    if "max_price" in names:
        arguments["max_price"] = allowed_price(call)
    return arguments


def allowed_price(call: ActCall, arguments: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401  as it was written
    """Return the largest share that a call may take: what it says or the dataset, but no more than the token allows."""
    wanted, cap = (call.arguments if arguments is None else arguments).get("max_price"), call.caller.max_price
    if cap is None:
        return wanted
    default = call.opened.dataset.default.max_price
    return min(default if wanted is None else to_share(wanted, argument="max_price"), _cap(cap))  # type: ignore[arg-type]


@contextmanager
def capped(call: ActCall) -> Iterator[None]:
    """Say so where the token's cap is what refuses a price: to allow more in the call would not help."""
    refusal: Refused | None = None
    try:
        yield
    except PriceAboveMaximum as refused:
        cap = call.caller.max_price
        if cap is None or refused.price <= _cap(cap):
            raise
        refusal = TokenCap(price=refused.price, most=_cap(cap))
    if refusal is not None:
        raise refusal


def _cap(cap: str) -> Fraction:
    return to_share(cap, argument="max_price")


def curator_of(call: ActCall) -> Curator:
    """Return the caller's curator; the name is the account's, never the request's."""
    curator = call.opened.curator(call.caller.name)
    most = call.caller.max_day
    return curator if most is None else curator.for_analyst(call.caller.name, max_day=most)


# --- The acts. ---


def quote(call: ActCall) -> Reply:
    """Return the price of a question, or of several together; nothing is spent."""
    arguments = expect(call, "question", "questions", *_WISHES)
    if ("question" in arguments) == ("questions" in arguments):
        raise BadCall("Write either a question, or questions.")
    asked = (
        text(arguments["question"]) if "question" in arguments else texts(arguments["questions"], argument="questions")
    )
    offer = curator_of(call).quote(asked, **wishes(call, *_WISHES))
    return Reply(200, JSON, offer.to_json().encode())


def ask(call: ActCall) -> Reply | None:
    """Return the answer to a question; None if it must not spend and the question is not free."""
    arguments = expect(call, "question", "view", "as_of", *_WISHES)
    question, view = text(arguments.get("question")), _view(arguments.get("view"))
    curator = curator_of(call)
    if call.only_free and "as_of" not in arguments:  # which is always free, and reads no rows
        free = curator.ask_if_free(question, **wishes(call, *_WISHES), key=call.key)
        return None if free is None else _reply(call, (free,), view)
    with capped(call):
        answer = curator.ask(question, **wishes(call, *_WISHES, "as_of"), key=call.key)
    return _reply(call, (answer,), view)


def batch(call: ActCall) -> Reply:
    """Return the answers to questions that are planned together and charged once."""
    arguments = expect(call, "questions", "view", *_WISHES)
    questions, view = texts(arguments.get("questions"), argument="questions"), _view(arguments.get("view"))
    with capped(call):
        answers = curator_of(call).ask_many(questions, **wishes(call, *_WISHES), key=call.key, progress=call.progress)
    return _reply(call, answers, view, together=True)


def prepare(call: ActCall) -> Reply:
    """Buy the cheapest measurement that answers all questions of a workload; they are then free."""
    arguments = expect(call, "questions", "within", "confidence", "max_price")
    questions = texts(arguments.get("questions"), argument="questions")
    with capped(call):
        prepared = curator_of(call).prepare(
            questions, **wishes(call, "within", "confidence", "max_price"), key=call.key
        )
    return json_reply(
        {"questions": prepared.questions, "price": price_to_json(prepared.price), "bought": prepared.bought}
    )


def choose(call: ActCall) -> Reply:
    """Return the names of the groups with the largest answers, without the answers."""
    arguments = expect(call, "question", "epsilon", "count", "max_price")
    if "epsilon" not in arguments:
        raise InvalidArgument("epsilon", None, "say what the choice may cost alone, such as 0.1")
    with capped(call):
        choice = curator_of(call).choose(
            text(arguments.get("question")), **wishes(call, "epsilon", "count", "max_price"), key=call.key
        )
    return json_reply(
        {
            "names": list(choice.names),
            "within": choice.within,
            "confidence": choice.confidence,
            "price": price_to_json(choice.price),
            "source": choice.source,
            "mechanism": choice.mechanism,
            "receipt": choice.receipt,
            "head": choice.head,
            "about": choice.about,
        }
    )


def rehearse(call: ActCall) -> Reply:
    """Answer a question on made-up rows of the schema: nothing is spent, and nothing is revealed about anyone."""
    arguments = expect(call, "question", "view", *_WISHES)
    question, view = text(arguments.get("question")), _view(arguments.get("view"))
    permitted(call)
    wished = wishes(call, "within", "confidence", "epsilon", "fresh")
    return answer_reply(seen(call.datasets.rehearsal(call.dataset).ask(question, **wished), view), call.accept)


def recall(call: ActCall) -> Reply:
    """Return what the caller bought under a key, for nothing."""
    arguments = expect(call, "view", "confidence")
    view = _view(arguments.get("view"))
    answers = curator_of(call).recall(call.key, **wishes(call, "confidence"))
    if answers is None:
        raise NothingBought
    return _reply(call, answers, view, together=len(answers) > 1)


# --- Answers as replies. ---


_VIEWS = ("single", "simultaneous", "population", "any_choice")


def _view(value: object) -> str:
    if value is None:
        return "single"
    if value not in _VIEWS:
        raise InvalidArgument("view", value, f"write one of {', '.join(_VIEWS)}")
    return str(value)


def _reply(call: ActCall, answers: Sequence[AnyAnswer], view: str, *, together: bool = False) -> Reply:
    """Return answers in the view that was asked for; what has none says what the ledger says of the charge by then."""
    try:
        shown = [seen(answer, view) for answer in answers]
        return answers_reply(shown) if together else answer_reply(shown[0], call.accept)
    except DodonaError as fault:
        receipt = call.opened.dataset.ledger.receipt(call.key, analyst=call.caller.name)
        refusal = fault.with_charge(charged=receipt is not None)
    raise refusal


def seen(answer: AnyAnswer, view: str) -> AnyAnswer:
    """Return an answer in the view that was asked for."""
    if isinstance(answer, RecordedAnswer):  # of EXPLAIN, which has no intervals
        return answer
    match view:
        case "simultaneous":
            return answer.simultaneous()
        case "population":
            return answer.population
        case "any_choice":
            return answer.any_choice()
        case _:
            return answer


def answer_reply(answer: AnyAnswer, accept: str) -> Reply:
    """Return an answer as JSON, CSV or an Arrow stream."""
    headers = {"Dodona-Source": answer.source, "Dodona-Price": str(answer.price.share)}
    if answer.receipt is not None:
        headers["Dodona-Receipt"] = answer.receipt
    if CSV in accept:
        return Reply(200, f"{CSV}; charset=utf-8", _csv(answer), headers)
    if ARROW in accept:
        return Reply(200, ARROW, arrow_bytes(answer.to_arrow()), headers)
    return Reply(200, JSON, answer.to_json().encode(), headers)


def answers_reply(answers: Sequence[AnyAnswer]) -> Reply:
    """Return several answers as one JSON object; each stays as its own text says."""
    price = sum({answer.receipt: answer.price.share for answer in answers}.values(), Fraction(0))
    body = f'{{"answers": [{", ".join(answer.to_json() for answer in answers)}]}}'
    return Reply(200, JSON, body.encode(), {"Dodona-Price": str(price)})


def _csv(answer: AnyAnswer) -> bytes:
    columns = plain_columns(answer)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue().encode()


def arrow_bytes(table: Any) -> bytes:  # noqa: ANN401  pyarrow ships no types
    """Return a table as an Arrow stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
