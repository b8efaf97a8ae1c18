"""The remote curator: the surface of `Curator`, asked of a server, as coroutines; `remote` blocks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx

from dodona.answer.description import Description, History, HistoryEntry
from dodona.answer.offer import Offer
from dodona.answer.recorded import RecordedAnswer
from dodona.answer.results import Choice, PreparedWorkload, WeightsAnswers
from dodona.client import surface
from dodona.client.calls import RemoteCall, Tolerances, ViewName, arguments, check_key, priced, question_texts
from dodona.client.results import AsyncRemoteAnswer, ReleaseState, RemoteVerdict, WatchTerms
from dodona.client.settings import DEFAULT_TIMEOUT, http_options, server_address
from dodona.client.transport import AsyncLink, BlockingLink, Progress, ReadT, Retries
from dodona.errors import DodonaError, InvalidRequest
from dodona.ledger.limits import ApprovalRequest
from dodona.numbers import Exact
from dodona.privacy.budget import BudgetState
from dodona.schema.schema import Schema

ShowProgress = Progress | bool | None
"""What is called with the progress; True for a bar, False for none, None for a bar on a terminal."""


def connect_async(  # noqa: PLR0913  all that a connection may have
    url: str,
    *,
    token: str | None = None,
    dataset: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    retries: Retries | None = None,
    insecure: bool = False,
    max_day: Exact | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncRemoteCurator:
    """Connect to a dataset of a server; the arguments are those of `connect`.

    Nothing is sent before the first call, or before `async with` begins.
    """
    options = http_options(url, token, timeout, insecure=insecure, max_day=max_day)
    if transport is not None:
        options["transport"] = transport
    link = AsyncLink(httpx.AsyncClient(**options), retries or Retries())
    return AsyncRemoteCurator(link, dataset, url=server_address(url, insecure=insecure))


class AsyncRemoteCurator:
    """Answers questions about one dataset of a server. It is an asynchronous context manager.

    Its coroutines have the names and arguments of `RemoteCurator`; what is a property there is a coroutine here.
    """

    def __init__(self, link: AsyncLink | BlockingLink, dataset: str | None, *, url: str) -> None:
        """Take a link; where no dataset is named, the first call finds out which there is."""
        self._link, self.url = link, url
        self._calls = None if dataset is None else surface.DatasetCalls(dataset)
        self._schema: Schema | None = None
        self._closed = False

    async def dataset(self) -> str:
        """Return the name of the dataset."""
        return (await self._of()).dataset

    async def schema(self) -> Schema:
        """Return the schema of the dataset; all of it is public."""
        if self._schema is None:
            self._schema = (await self.describe()).schema
        return self._schema

    async def budget(self) -> BudgetState:
        """Return the spent and the remaining budget; of analysts' shares an analyst sees one alone."""
        return await self._send((await self._of()).budget())

    async def history(self) -> History:
        """Return all charges so far, oldest first; of other analysts' charges only the time and the share."""
        charges, after = list[HistoryEntry](), 0
        while True:
            page = await self._send((await self._of()).history(after))
            charges += page.charges
            if page.following is None:
                return History(tuple(charges))
            after = page.following

    async def describe(self) -> Description:
        """Return the columns, the protected unit, the remaining budget and the defaults; all of it is public."""
        return await self._send((await self._of()).describe())

    def __repr__(self) -> str:
        name = "the only dataset" if self._calls is None else self._calls.dataset
        return f"<Remote curator of {name} at {self.url}, asynchronous{', closed' if self._closed else ''}>"

    async def ask(  # noqa: PLR0913  the surface of a question
        self,
        question: str,
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
        max_price: Exact | None = None,
        fresh: bool = False,
        key: str | None = None,
        as_of: str | None = None,
    ) -> AsyncRemoteAnswer:
        """Return the answer to a question: replayed or derived if possible, otherwise measured and charged.

        The arguments are those of `Curator.ask`.
        """
        wishes = priced(within=within, confidence=confidence, epsilon=epsilon, max_price=max_price, fresh=fresh)
        wishes |= {} if as_of is None else {"as_of": as_of}
        under, calls = check_key(key), await self._of()

        async def fetch(view: ViewName) -> AsyncRemoteAnswer:
            return await self._send(calls.ask(question, surface.view_wishes(wishes, view), under, read))

        def read(document: Mapping[str, Any]) -> AsyncRemoteAnswer:
            return AsyncRemoteAnswer.from_document(document, fetch=fetch)

        return await self._send(calls.ask(question, wishes, under, read))

    async def ask_many(  # noqa: PLR0913  the surface of a question
        self,
        questions: Iterable[str],
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
        max_price: Exact | None = None,
        fresh: bool = False,
        key: str | None = None,
        progress: ShowProgress = None,
    ) -> tuple[AsyncRemoteAnswer, ...]:
        """Return the answers to questions that are planned together and charged once: all or none.

        `progress` is called with how many are done, and of how many; by default a terminal shows a bar.
        """
        wishes = priced(within=within, confidence=confidence, epsilon=epsilon, max_price=max_price, fresh=fresh)
        listed, under, calls = question_texts(questions), check_key(key), await self._of()

        def fetch(number: int) -> Callable[[ViewName], Coroutine[Any, Any, AsyncRemoteAnswer]]:
            async def fetched(view: ViewName) -> AsyncRemoteAnswer:
                return (await self._send(calls.ask_many(listed, surface.view_wishes(wishes, view), under, read)))[
                    number
                ]

            return fetched

        def read(number: int, document: Mapping[str, Any]) -> AsyncRemoteAnswer:
            return AsyncRemoteAnswer.from_document(document, fetch=fetch(number))

        if not listed:
            return ()
        with follow_progress(progress, f"{len(listed):,} questions") as shown:
            accept = surface.batch_accept(shown=shown is not None)
            return await self._send(calls.ask_many(listed, wishes, under, read, accept=accept), shown)

    async def recall(self, key: str, *, confidence: float | None = None) -> tuple[RecordedAnswer, ...] | None:
        """Return the answers that were bought under a key, for nothing; None if there are none."""
        try:
            return await self._send((await self._of()).recall(check_key(key), confidence, RecordedAnswer.from_document))
        except DodonaError as fault:
            if fault.code != surface.NOTHING_BOUGHT:
                raise
            return None

    async def prepare(
        self,
        workload: Iterable[str],
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> PreparedWorkload:
        """Declare a workload and buy the cheapest measurement that answers all of it; its questions are then free."""
        wishes = arguments(within=within, confidence=confidence, max_price=max_price)
        return await self._send((await self._of()).prepare(workload, wishes, check_key(key)))

    async def quote(  # noqa: PLR0913  the surface of a question
        self,
        question: str | Iterable[str],
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
        max_price: Exact | None = None,
        fresh: bool = False,
    ) -> Offer:
        """Return the price of a question, or of several together, and the expected accuracy; nothing is spent."""
        wishes = priced(within=within, confidence=confidence, epsilon=epsilon, max_price=max_price, fresh=fresh)
        return await self._send((await self._of()).quote(question, wishes))

    async def rehearse(  # noqa: PLR0913  the surface of a question
        self,
        question: str,
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
        max_price: Exact | None = None,
        fresh: bool = False,
    ) -> RecordedAnswer:
        """Return an answer on made-up rows, to see its form; nothing is spent, and nothing said about the data."""
        wishes = priced(within=within, confidence=confidence, epsilon=epsilon, max_price=max_price, fresh=fresh)
        return await self._send((await self._of()).rehearse(question, wishes))

    async def request_approval(
        self,
        question: str | Iterable[str],
        *,
        key: str,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
    ) -> ApprovalRequest:
        """Ask the owner to approve a question, or several together, above the owner's limits; nothing is charged.

        Once it is granted, asking under the same key may take the price stated here, and no more. A decision is final.
        """
        wishes = arguments(within=within, confidence=confidence, epsilon=epsilon)
        return await self._send((await self._of()).request_approval(question, wishes, check_key(key)))

    async def requests(self) -> tuple[ApprovalRequest, ...]:
        """Return the requests for approval of this analyst, oldest first."""
        return await self._send((await self._of()).requests())

    async def choose(
        self,
        candidates: str,
        *,
        epsilon: Exact,
        count: int = 1,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> Choice:
        """Return the names of the groups of a SQL question with the largest answers, without the answers."""
        calls, under = await self._of(), check_key(key)
        return await self._send(calls.choose(candidates, epsilon=epsilon, count=count, max_price=max_price, key=under))

    async def above(  # noqa: PLR0913  a watch has this many sides
        self,
        threshold: int,
        *,
        epsilon: Exact,
        alerts: int = 1,
        questions: int = 1000,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> AsyncRemoteWatch:
        """Return a watch that reports which counts exceed a threshold, up to a number of alerts; charged in full here.

        The server keeps it: `above` with the same key and numbers finds it again, free of charge.
        """
        calls, under = await self._of(), check_key(key)
        call = calls.above(
            threshold, epsilon=epsilon, alerts=alerts, questions=questions, max_price=max_price, key=under
        )
        return AsyncRemoteWatch(await self._send(call), calls, self)

    async def ask_by_weights(  # noqa: PLR0913  weights have this many sides
        self,
        questions: Iterable[str],
        *,
        epsilon: Exact,
        columns: Iterable[str] | None = None,
        confidence: float = 0.95,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> WeightsAnswers:
        """Return the answers to counts by multiplicative weights over some columns, charged once and recorded.

        A server keeps no open weights between questions, so there is no `weights`: it takes them all at once.
        """
        calls, under = await self._of(), check_key(key)
        return await self._send(
            calls.ask_by_weights(
                questions, epsilon=epsilon, columns=columns, confidence=confidence, max_price=max_price, key=under
            )
        )

    async def synthesize(  # noqa: PLR0913  all that a release may have
        self,
        workload: str | None = None,
        *,
        target: str | None = None,
        columns: Iterable[str] | None = None,
        ways: int | None = None,
        marginals: Iterable[Iterable[str]] | None = None,
        epsilon: Exact | None = None,
        share: Exact | None = None,
        method: surface.SynthesisMethod | None = None,
        count: int | None = None,
        rows: surface.RowKind | None = None,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> AsyncRemoteRelease:
        """Start a synthetic release, which the server goes on with; the same key finds it again.

        It is to answer a workload well: `"2-way"` or `"3-way"`, all combinations of so many `columns`, which are all
        if none are named; or what predicts a `target` column; or the `marginals` that are listed. `ways` is a number
        instead of a word. Its price is an `epsilon` or a `share` of the budget. `count` and `rows` say how many rows
        are made up, and how: `rounded`, `sampled` or `weighted`.
        """
        declaration = surface.release_declaration(
            columns=columns,
            marginals=marginals,
            given=arguments(
                workload=workload,
                target=target,
                ways=ways,
                epsilon=epsilon,
                share=share,
                method=method,
                count=count,
                rows=rows,
                max_price=max_price,
            ),
        )
        calls, under = await self._of(), check_key(key)
        await self._send(calls.synthesize(declaration, under))
        return AsyncRemoteRelease(under, calls, self)

    async def release(self, key: str) -> AsyncRemoteRelease:
        """Return the synthetic release that was started under a key."""
        return AsyncRemoteRelease(check_key(key), await self._of(), self)

    async def read(self, question: str) -> str:
        """Return a question if the server could answer it, and raise its mistake otherwise; nothing is charged."""
        await self.quote(question)
        return question

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        await self._link.close()

    async def __aenter__(self) -> Self:
        try:
            await self.schema()  # a wrong address or token is an error here
        except BaseException:
            await self.close()  # as the block does not begin, nothing else would
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _of(self) -> surface.DatasetCalls:
        """Return the calls of the dataset; the first call finds out which there is."""
        if self._calls is None:
            self._calls = surface.DatasetCalls(surface.only_dataset(await self._send(surface.list_datasets())))
        return self._calls

    async def _send(self, call: RemoteCall[ReadT], progress: Progress | None = None) -> ReadT:
        if self._closed:
            raise InvalidRequest("This connection was closed. Connect again.")
        return await self._link.send(call, progress)


class AsyncRemoteWatch:
    """A watch that a server keeps: any number of counts may be asked, until the last alert."""

    def __init__(self, terms: WatchTerms, calls: surface.DatasetCalls, curator: AsyncRemoteCurator) -> None:
        """Take what the watch was opened for."""
        self.terms = terms
        """What it was opened for, and how many alerts are left as of the last reply."""
        self._calls, self._curator = calls, curator

    @property
    def left(self) -> int:
        """The number of remaining alerts, as of the last reply."""
        return self.terms.left

    async def ask(self, question: str, *, threshold: int | None = None) -> RemoteVerdict:
        """Return whether the count of a question is above the threshold, both with noise; no further charge.

        If the reply is lost it is not asked again by itself, as that might take a second alert.
        """
        call = self._calls.watch_ask(self.terms.key, question, threshold)
        verdict, left = await self._curator._send(call)  # noqa: SLF001  the same module
        self.terms = replace(self.terms, left=left)
        return verdict

    def __str__(self) -> str:
        return str(self.terms)

    __repr__ = __str__


class AsyncRemoteRelease:
    """A synthetic release of a server."""

    def __init__(self, key: str, calls: surface.DatasetCalls, curator: AsyncRemoteCurator) -> None:
        """Take the key under which it was started."""
        self.key = key
        """The key that finds it again."""
        self._calls, self._curator = calls, curator

    async def state(self) -> ReleaseState:
        """Return how far it is."""
        return await self._curator._send(self._calls.release(self.key))  # noqa: SLF001  the same module

    async def wait(self, *, every: float = 1.0, progress: ShowProgress = None) -> ReleaseState:
        """Return its state once it is done; raise the reason if it failed."""
        with follow_progress(progress, "synthetic release") as shown:
            while True:
                state = await self.state()
                if shown is not None:
                    shown(round(100 * state.progress), 100)
                if state.problem is not None:
                    raise state.problem
                if state.ended:
                    return state
                await self._curator._link.sleep(every)  # noqa: SLF001  the same module

    async def write(self, path: str | Path) -> Path:
        """Write its rows to a new file that ends in .csv or .parquet, and return that."""
        place = Path(path)
        call = self._calls.release_rows(self.key, place.suffix)
        rows = await self._curator._send(call)  # noqa: SLF001  the same module
        with place.open("xb") as file:  # noqa: ASYNC230  a local file of rows that are there already
            file.write(rows)
        return place


@contextmanager
def follow_progress(wanted: ShowProgress, title: str) -> Iterator[Progress | None]:
    """Yield what is called with the progress of a batch; None if nobody looks."""
    if wanted is None:
        wanted = sys.stderr.isatty()
    if not isinstance(wanted, bool):
        yield wanted
        return
    if not wanted:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        yield show
