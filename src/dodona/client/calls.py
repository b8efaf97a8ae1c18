"""Calls of the HTTP API as values: what is sent, and how the reply is read. Nothing here speaks to a network."""

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote as quote_path

from dodona.errors import InvalidArgument, InvalidRequest
from dodona.numbers import Exact, python_number

ReadT = TypeVar("ReadT")
Tolerance = int | float | str
"""50 is absolute, in the answer's unit; "1%" is of the public size for counts, of the column's width otherwise."""
Tolerances = Tolerance | Mapping[str, Tolerance] | Sequence[Tolerance]
"""One for all columns, or one for each of them: by name, or in their order."""
ViewName = Literal["single", "simultaneous", "population", "any_choice"]

JSON = "application/json"
CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
EVENTS = "text/event-stream"
_LONGEST_KEY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteCall(Generic[ReadT]):
    """One request, and how its reply is read."""

    method: str
    path: str
    read: Callable[[bytes], ReadT]
    body: Mapping[str, object] | None = None
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)
    key: str | None = None
    """Of a call that may spend. Sent again under the same key, it is charged once."""
    repeatable: bool = True
    """Whether it may be sent again when its reply was lost."""
    accept: str = JSON

    @property
    def headers(self) -> dict[str, str]:
        """The headers that belong to it."""
        return {"accept": self.accept} | ({} if self.key is None else {"idempotency-key": self.key})


def new_key() -> str:
    """Return a key that no other call has."""
    return uuid.uuid4().hex


def check_key(key: str | None) -> str:
    """Return a valid key; a new one if there is none."""
    if key is None:
        return new_key()
    if type(key) is not str or not 0 < len(key) <= _LONGEST_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidArgument("key", key, f"write 1 to {_LONGEST_KEY} printable ASCII characters")
    return key


def address(dataset: str, *parts: str) -> str:
    """Return the path of something of a dataset."""
    return "/".join(["datasets", *(quote_path(part, safe="") for part in (dataset, *parts))])


def question_text(question: object) -> str:
    """Return a question that can be sent."""
    if not isinstance(question, str):
        raise InvalidRequest("A server is asked in SQL: write the question as text.")
    return question


def question_texts(questions: object) -> list[str]:
    """Return questions that can be sent; a single text is not treated as a list of characters."""
    if isinstance(questions, str) or not isinstance(questions, Iterable):
        raise InvalidRequest("Several questions are a list: write [question], or use `ask` for one.")
    return [question_text(question) for question in questions]


def arguments(**given: object) -> dict[str, object]:
    """Return the arguments of a call that were given, as JSON represents them."""
    return {name: _plain(name, value) for name, value in given.items() if value is not None and value is not False}


def _plain(name: str, value: object) -> object:
    match value:
        case str() | bool():
            return value
        case Fraction() | Decimal():
            return str(value)
        case Mapping():
            return {str(key): _plain(name, item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(name, item) for item in value]
        case _:
            number = python_number(value)
            if number is None:
                raise InvalidArgument(name, value, "write a number or a text")
            return number


def priced(
    *,
    within: Tolerances | None,
    confidence: float | None,
    epsilon: Exact | None,
    max_price: Exact | None,
    fresh: bool,
) -> dict[str, object]:
    """Return the arguments that all questions have."""
    return arguments(within=within, confidence=confidence, epsilon=epsilon, max_price=max_price, fresh=fresh)


def read_json(body: bytes) -> Any:  # noqa: ANN401  whatever the address sends
    """Return a reply as JSON."""
    return json.loads(body)
