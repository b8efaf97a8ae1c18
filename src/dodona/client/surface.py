"""The calls of a dataset, as both remote curators make them: the arguments of `Curator`, and the readers of replies."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeVar

from dodona.answer.description import Description, HistoryEntry
from dodona.answer.offer import Offer
from dodona.answer.recorded import RecordedAnswer
from dodona.answer.results import Choice, PreparedWorkload, WeightsAnswers
from dodona.client.calls import (
    CSV,
    EVENTS,
    JSON,
    PARQUET,
    RemoteCall,
    ViewName,
    address,
    arguments,
    question_text,
    question_texts,
    read_json,
)
from dodona.client.results import ReleaseState, RemoteVerdict, WatchTerms
from dodona.errors import InvalidArgument, InvalidRequest
from dodona.ledger.limits import ApprovalRequest
from dodona.numbers import Exact, format_percent
from dodona.privacy.budget import BudgetState
from dodona.schema.schema import Schema

ReadT = TypeVar("ReadT")
SynthesisMethod = Literal["annealed", "mwem", "guaranteed", "blr"]
RowKind = Literal["rounded", "sampled", "weighted"]
_PAGE = 1000
NOTHING_BOUGHT = "nothing-bought"
"""The code of the problem that nothing was bought under a key."""
_FORMATS = {".csv": CSV, ".parquet": PARQUET}


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Some charges, and after which one the next page begins; None after the last."""

    charges: tuple[HistoryEntry, ...]
    following: int | None


def list_datasets() -> RemoteCall[tuple[str, ...]]:
    """Return the call for the names of the datasets that the caller has a role for."""

    def read(body: bytes) -> tuple[str, ...]:
        return tuple(entry["dataset"] for entry in read_json(body)["datasets"])

    return RemoteCall(method="GET", path="datasets", read=read)


def only_dataset(names: tuple[str, ...]) -> str:
    """Return the only dataset there is; if there are several, one must be named."""
    if len(names) == 1:
        return names[0]
    if not names:
        raise InvalidRequest("No dataset of this server is open to this token. Ask an owner for a role.")
    raise InvalidRequest(f"This server has several datasets: write dataset= as one of {', '.join(names)[:500]}.")


@dataclass(frozen=True, slots=True)
class DatasetCalls:
    """The calls of one dataset."""

    dataset: str

    def describe(self) -> RemoteCall[Description]:
        """Return the call for the public facts of the dataset."""
        return RemoteCall(method="GET", path=address(self.dataset), read=Description.from_json)

    def budget(self) -> RemoteCall[BudgetState]:
        """Return the call for what was spent and what is left."""

        def read(body: bytes) -> BudgetState:
            return BudgetState.from_json(read_json(body))

        return RemoteCall(method="GET", path=address(self.dataset, "budget"), read=read)

    def history(self, after: int) -> RemoteCall[HistoryPage]:
        """Return the call for a page of the charges."""

        def read(body: bytes) -> HistoryPage:
            document = read_json(body)
            return HistoryPage(tuple(map(_read_charge, document["charges"])), document.get("next"))

        page: dict[str, str | int | float] = {"after": after, "limit": _PAGE}
        return RemoteCall(method="GET", path=address(self.dataset, "history"), read=read, parameters=page)

    def quote(self, question: object, wishes: Mapping[str, object]) -> RemoteCall[Offer]:
        """Return the call for the price of a question, or of several together."""
        asked: dict[str, object] = (
            {"question": question} if isinstance(question, str) else {"questions": question_texts(question)}
        )
        return self._post("quotes", asked | dict(wishes), Offer.from_json)

    def rehearse(self, question: object, wishes: Mapping[str, object]) -> RemoteCall[RecordedAnswer]:
        """Return the call for an answer on made-up rows."""
        return self._post("rehearsals", {"question": question_text(question)} | dict(wishes), RecordedAnswer.from_json)

    def ask(
        self, question: object, wishes: Mapping[str, object], key: str, read: Callable[[Mapping[str, Any]], ReadT]
    ) -> RemoteCall[ReadT]:
        """Return the call for the answer to a question."""
        body = {"question": question_text(question)} | dict(wishes)
        return self._post("answers", body, lambda reply: read(read_json(reply)), key=key)

    def ask_many(
        self,
        questions: list[str],
        wishes: Mapping[str, object],
        key: str,
        read: Callable[[int, Mapping[str, Any]], ReadT],
        *,
        accept: str = JSON,
    ) -> RemoteCall[tuple[ReadT, ...]]:
        """Return the call for the answers to questions that are planned together."""

        def read_all(body: bytes) -> tuple[ReadT, ...]:
            return tuple(read(number, answer) for number, answer in enumerate(read_json(body)["answers"]))

        return self._post("batches", {"questions": questions} | dict(wishes), read_all, key=key, accept=accept)

    def recall(
        self, key: str, confidence: float | None, read: Callable[[Mapping[str, Any]], ReadT]
    ) -> RemoteCall[tuple[ReadT, ...]]:
        """Return the call for what was bought under a key."""

        def read_all(body: bytes) -> tuple[ReadT, ...]:
            document = read_json(body)
            return tuple(map(read, document.get("answers", [document])))

        parameters: dict[str, str | int | float] = {} if confidence is None else {"confidence": confidence}
        path = address(self.dataset, "answers", key)
        return RemoteCall(method="GET", path=path, read=read_all, parameters=parameters)

    def prepare(self, workload: object, wishes: Mapping[str, object], key: str) -> RemoteCall[PreparedWorkload]:
        """Return the call that buys what a workload follows from."""
        listed = question_texts(workload)
        if not listed:
            raise InvalidRequest("There is nothing to prepare. Write a list of the questions that are coming.")
        return self._post("workloads", {"questions": listed} | dict(wishes), PreparedWorkload.from_json, key=key)

    def request_approval(self, question: object, wishes: Mapping[str, object], key: str) -> RemoteCall[ApprovalRequest]:
        """Return the call that asks the owner to approve a question above the limits; it spends nothing."""
        asked: dict[str, object] = (
            {"question": question} if isinstance(question, str) else {"questions": question_texts(question)}
        )
        body = asked | dict(wishes)
        return self._post("requests", body, lambda reply: ApprovalRequest.from_json(read_json(reply)), key=key)

    def requests(self) -> RemoteCall[tuple[ApprovalRequest, ...]]:
        """Return the call for the requests for approval."""

        def read(body: bytes) -> tuple[ApprovalRequest, ...]:
            return tuple(map(ApprovalRequest.from_json, read_json(body)["requests"]))

        return RemoteCall(method="GET", path=address(self.dataset, "requests"), read=read)

    def choose(
        self, candidates: object, *, epsilon: Exact, count: int, max_price: Exact | None, key: str
    ) -> RemoteCall[Choice]:
        """Return the call for the names of the largest groups."""
        body = arguments(question=question_text(candidates), epsilon=epsilon, count=count, max_price=max_price)
        return self._post("choices", body, Choice.from_json, key=key)

    def above(  # noqa: PLR0913  a watch has this many sides
        self, threshold: int, *, epsilon: Exact, alerts: int, questions: int, max_price: Exact | None, key: str
    ) -> RemoteCall[WatchTerms]:
        """Return the call that opens a watch, or resumes it."""
        body = arguments(threshold=threshold, epsilon=epsilon, alerts=alerts, questions=questions, max_price=max_price)
        return self._post("watches", body, lambda reply: WatchTerms.from_document(read_json(reply), key=key), key=key)

    def watch(self, key: str) -> RemoteCall[WatchTerms]:
        """Return the call for what is left of a watch."""

        def read(body: bytes) -> WatchTerms:
            return WatchTerms.from_document(read_json(body), key=key)

        return RemoteCall(method="GET", path=address(self.dataset, "watches", key), read=read)

    def watch_ask(self, key: str, question: object, threshold: int | None) -> RemoteCall[tuple[RemoteVerdict, int]]:
        """Return the call for whether a count is above the threshold; and how many alerts are left."""

        def read(body: bytes) -> tuple[RemoteVerdict, int]:
            document = read_json(body)
            return RemoteVerdict(document["above"], document.get("gap")), document["left"]

        body = arguments(question=question_text(question), threshold=threshold)
        # Sent twice, it might take two alerts.
        path = address(self.dataset, "watches", key, "questions")
        return RemoteCall(method="POST", path=path, read=read, body=body, repeatable=False)

    def ask_by_weights(  # noqa: PLR0913  weights have this many sides
        self,
        questions: object,
        *,
        epsilon: Exact,
        columns: Iterable[str] | None,
        confidence: float,
        max_price: Exact | None,
        key: str,
    ) -> RemoteCall[WeightsAnswers]:
        """Return the call that answers very many counts for one charge."""
        named = None if columns is None else list(columns)
        body = arguments(epsilon=epsilon, columns=named, confidence=confidence, max_price=max_price)
        return self._post("weights", {"questions": question_texts(questions)} | body, WeightsAnswers.from_json, key=key)

    def synthesize(self, declaration: Mapping[str, object], key: str) -> RemoteCall[ReleaseState]:
        """Return the call that starts a synthetic release, or finds it."""
        return self._post("releases", declaration, lambda reply: ReleaseState.from_json(reply, key=key), key=key)

    def release(self, key: str) -> RemoteCall[ReleaseState]:
        """Return the call for how far a release is."""

        def read(body: bytes) -> ReleaseState:
            return ReleaseState.from_json(body, key=key)

        return RemoteCall(method="GET", path=address(self.dataset, "releases", key), read=read)

    def release_rows(self, key: str, suffix: str) -> RemoteCall[bytes]:
        """Return the call for the rows of a release, as the bytes of a file."""
        if suffix not in _FORMATS:
            raise InvalidArgument("path", suffix, f"write a name that ends in {' or '.join(_FORMATS)}")
        path = address(self.dataset, "releases", key, "rows")
        return RemoteCall(method="GET", path=path, read=lambda body: body, accept=_FORMATS[suffix])

    def _post(
        self,
        place: str,
        body: Mapping[str, object],
        read: Callable[[bytes], ReadT],
        *,
        key: str | None = None,
        accept: str = JSON,
    ) -> RemoteCall[ReadT]:
        return RemoteCall(
            method="POST", path=address(self.dataset, place), read=read, body=body, key=key, accept=accept
        )


def view_wishes(wishes: Mapping[str, object], view: ViewName) -> dict[str, object]:
    """Return the wishes of a question that was answered, for other intervals: nothing may be spent on them."""
    return dict(wishes) | {"view": view, "max_price": "0"}


def batch_accept(*, shown: bool) -> str:
    """Return the media type of a batch: with events for its progress if that is shown."""
    return f"{EVENTS}, {JSON};q=0.5" if shown else JSON


def describe_remote(description: Description, place: str) -> str:
    """Return what a remote curator is, in a line."""
    schema: Schema = description.schema
    name = "" if description.analyst is None else f" for {description.analyst}"
    return (
        f"<Remote curator of {description.dataset} at {place}{name}: table {schema.table}, "
        f"{len(schema.domain.attributes)} columns, about {schema.unit.size:,} rows, "
        f"{format_percent(description.left)} of the budget left; describe() tells more>"
    )


def release_declaration(
    *, columns: Iterable[str] | None, marginals: Iterable[Iterable[str]] | None, given: Mapping[str, object]
) -> dict[str, object]:
    """Return what a synthetic release is asked for."""
    if (marginals is not None) + sum(name in given for name in ("workload", "target", "ways")) != 1:
        instead = "a word such as '2-way', target= a column, ways=, such as 2, or marginals=, lists of columns"
        raise InvalidRequest(f"Say what the release should answer, in one way: {instead}.")
    named = arguments(
        columns=None if columns is None else list(columns),
        marginals=None if marginals is None else [list(marginal) for marginal in marginals],
    )
    return named | dict(given)


def _read_charge(document: Mapping[str, Any]) -> HistoryEntry:
    """Return a charge; of other analysts' charges only the time and the share are shown."""
    return HistoryEntry(
        time=document["time"],
        analyst=document.get("analyst"),
        text=document.get("text") or "(of another analyst)",
        share=Fraction(document["share"]),
        version=document.get("version", ""),
        receipt=document.get("receipt", ""),
        answered=document.get("answered", True),
        key=document.get("key"),
    )
