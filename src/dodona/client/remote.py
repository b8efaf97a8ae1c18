"""The remote curator with blocking calls: each runs a coroutine of `remote_async` over a link that blocks.

Over such a link a coroutine never waits for a loop, so it runs to its end at once, in any thread and beside any loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import fields
from functools import wraps
from html import escape
from inspect import Signature, signature
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx

from dodona.answer.description import History
from dodona.answer.recorded import RecordedAnswer
from dodona.client.remote_async import AsyncRemoteCurator, AsyncRemoteRelease, AsyncRemoteWatch
from dodona.client.results import AsyncRemoteAnswer, ReleaseState, RemoteAnswer
from dodona.client.settings import DEFAULT_TIMEOUT, http_options, server_address
from dodona.client.surface import describe_remote, list_datasets
from dodona.client.transport import BlockingLink, Link, Retries
from dodona.ledger.limits import ApprovalRequest
from dodona.numbers import Exact
from dodona.privacy.budget import BudgetState, Price
from dodona.schema.schema import Schema

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Awaited = TypeVar("Awaited")


def connect(  # noqa: PLR0913  all that a connection may have
    url: str,
    *,
    token: str | None = None,
    dataset: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    retries: Retries | None = None,
    insecure: bool = False,
    max_day: Exact | None = None,
    transport: httpx.BaseTransport | None = None,
) -> RemoteCurator:
    """Connect to a dataset of a server. The token may be in the environment or in the settings file, too.

    Where no dataset is named, the token must open exactly one. With `insecure`, the token is sent over plain HTTP to
    another machine. `timeout` is the number of seconds that one reply may take. With
    `max_day` nothing is bought that would leave more than this share of the budget spent by you on a day (UTC), in
    whatever way. A `transport` replaces that of httpx.
    """
    options = http_options(url, token, timeout, insecure=insecure, max_day=max_day)
    if transport is not None:
        options["transport"] = transport
    link = BlockingLink(Link(httpx.Client(**options), retries or Retries()))
    return RemoteCurator(AsyncRemoteCurator(link, dataset, url=server_address(url, insecure=insecure)))


def find_datasets(url: str, *, token: str | None = None, insecure: bool = False) -> tuple[str, ...]:
    """Return the names of the datasets of a server that a token has a role for."""
    link = Link(httpx.Client(**http_options(url, token, DEFAULT_TIMEOUT, insecure=insecure)), Retries())
    try:
        return link.send(list_datasets())
    finally:
        link.close()


def _run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    coroutine.close()
    raise AssertionError("a coroutine over a blocking link waited for a loop")


def _blocking(
    method: Callable[Concatenate[Any, Arguments], Coroutine[Any, Any, Awaited]],
    convert: Callable[[Awaited], Result],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Return a method that runs a coroutine of the object that it is around, and converts what that returns."""

    @wraps(method)
    def call(self: Any, /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:  # noqa: ANN401
        return convert(_run(method(self._around, *args, **named)))

    if convert is not _same:  # the coroutine returns another type, which would be wrong here
        call.__signature__ = signature(method).replace(return_annotation=Signature.empty)  # type: ignore[attr-defined]
    return call


def _same(result: Result) -> Result:
    return result


def _answer(answer: AsyncRemoteAnswer) -> RemoteAnswer:
    facts = {field.name: getattr(answer, field.name) for field in fields(RecordedAnswer)}
    return RemoteAnswer(**facts, fetch=lambda view: _answer(_run(answer.fetch(view))))


def _answers(answers: tuple[AsyncRemoteAnswer, ...]) -> tuple[RemoteAnswer, ...]:
    return tuple(map(_answer, answers))


class RemoteWatch:
    """A watch that a server keeps: any number of counts may be asked, until the last alert."""

    def __init__(self, around: AsyncRemoteWatch) -> None:
        """Take a watch."""
        self._around = around

    @property
    def key(self) -> str:
        """The key that finds it again."""
        return self._around.terms.key

    @property
    def threshold(self) -> int:
        """What counts are compared with."""
        return self._around.terms.threshold

    @property
    def price(self) -> Price:
        """What it cost."""
        return self._around.terms.price

    @property
    def within(self) -> float:
        """Counts further from the threshold than this are all classified correctly, at the confidence."""
        return self._around.terms.within

    @property
    def confidence(self) -> float:
        """The least probability of that."""
        return self._around.terms.confidence

    @property
    def questions(self) -> int:
        """For how many questions that holds."""
        return self._around.terms.questions

    @property
    def about(self) -> str:
        """What it is about, where people are protected: how many rows of each count. Else nothing."""
        return self._around.terms.about

    @property
    def left(self) -> int:
        """The number of remaining alerts, as of the last reply."""
        return self._around.left

    ask = _blocking(AsyncRemoteWatch.ask, _same)

    def __str__(self) -> str:
        return str(self._around)

    __repr__ = __str__


class RemoteRelease:
    """A synthetic release of a server."""

    def __init__(self, around: AsyncRemoteRelease) -> None:
        """Take a release."""
        self._around = around
        self.key = around.key
        """The key that finds it again."""

    @property
    def state(self) -> ReleaseState:
        """How far it is."""
        return _run(self._around.state())

    wait = _blocking(AsyncRemoteRelease.wait, _same)
    write = _blocking(AsyncRemoteRelease.write, _same)


class RemoteCurator:
    """Answers questions about one dataset of a server. It is a context manager.

    Every call that may spend has a key: the one that is given, or a new one. It is sent again under the same key if a
    reply is lost, so that it is charged once.
    """

    def __init__(self, around: AsyncRemoteCurator) -> None:
        """Ask for the public facts of the dataset; nothing is charged."""
        self._around, self._closed = around, False
        try:
            self._schema = _run(around.schema())
            self.dataset = _run(around.dataset())
            """The name of the dataset."""
        except BaseException:
            self.close()
            raise

    @property
    def schema(self) -> Schema:
        """The schema of the dataset; all of it is public."""
        return self._schema

    @property
    def budget(self) -> BudgetState:
        """The spent and the remaining budget; of analysts' shares an analyst sees one alone."""
        return _run(self._around.budget())

    @property
    def history(self) -> History:
        """All charges so far, oldest first; of other analysts' charges only the time and the share."""
        return _run(self._around.history())

    @property
    def requests(self) -> tuple[ApprovalRequest, ...]:
        """The requests for approval of this analyst, oldest first."""
        return _run(self._around.requests())

    describe = _blocking(AsyncRemoteCurator.describe, _same)
    ask = _blocking(AsyncRemoteCurator.ask, _answer)
    ask_many = _blocking(AsyncRemoteCurator.ask_many, _answers)
    recall = _blocking(AsyncRemoteCurator.recall, _same)
    prepare = _blocking(AsyncRemoteCurator.prepare, _same)
    quote = _blocking(AsyncRemoteCurator.quote, _same)
    rehearse = _blocking(AsyncRemoteCurator.rehearse, _same)
    request_approval = _blocking(AsyncRemoteCurator.request_approval, _same)
    choose = _blocking(AsyncRemoteCurator.choose, _same)
    above = _blocking(AsyncRemoteCurator.above, RemoteWatch)
    ask_by_weights = _blocking(AsyncRemoteCurator.ask_by_weights, _same)
    synthesize = _blocking(AsyncRemoteCurator.synthesize, RemoteRelease)
    release = _blocking(AsyncRemoteCurator.release, RemoteRelease)
    read = _blocking(AsyncRemoteCurator.read, _same)

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        _run(self._around.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._closed:
            return f"<Remote curator of {self.dataset} at {self._around.url}, closed>"
        return describe_remote(self.describe(), self._around.url)

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>" if self._closed else self.describe()._repr_html_()
