"""The remote curator: the surface of `Curator`, asked of a server. Blocking calls."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Self

import httpx

from dodona.answer.description import Description, History, HistoryEntry
from dodona.answer.offer import Offer
from dodona.answer.recorded import RecordedAnswer
from dodona.answer.results import Choice, PreparedWorkload, WeightsAnswers
from dodona.client.calls import Tolerances, ViewName, arguments, check_key, priced, question_texts
from dodona.client.progress import ShowProgress, follow_progress
from dodona.client.results import ReleaseState, RemoteAnswer, RemoteVerdict, WatchTerms
from dodona.client.settings import check_token, find_token, is_loopback, read_settings, server_address, settings_path
from dodona.client.surface import (
    NOTHING_BOUGHT,
    DatasetCalls,
    RowKind,
    SynthesisMethod,
    batch_accept,
    describe_remote,
    list_datasets,
    only_dataset,
    release_declaration,
    view_wishes,
)
from dodona.client.transport import Link, Retries
from dodona.errors import DodonaError, InvalidRequest
from dodona.ledger.limits import ApprovalRequest
from dodona.numbers import Exact
from dodona.privacy.budget import BudgetState, Price
from dodona.schema.schema import Schema

API = "/api/v1/"
DEFAULT_TIMEOUT = 600.0
_CONNECT_SECONDS = 10.0


def http_options(url: str, token: str | None, timeout: float, *, insecure: bool) -> dict[str, Any]:
    """Return the options of an HTTP client for a server: its address, the token, and how long to wait."""
    place = server_address(url, insecure=insecure)
    if token is None:
        token = find_token(place, os.environ, read_settings(settings_path()))
    return {
        "base_url": place + API,
        "headers": {"authorization": f"Bearer {check_token(token)}", "user-agent": "dodona-client"},
        "timeout": httpx.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS)),
        "trust_env": not is_loopback(place),  # a proxy would not reach this machine
        "follow_redirects": False,  # the token is for this address alone
    }


def connect(  # noqa: PLR0913  all that a connection may have
    url: str,
    *,
    token: str | None = None,
    dataset: str | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    retries: Retries | None = None,
    insecure: bool = False,
    transport: httpx.BaseTransport | None = None,
) -> RemoteCurator:
    """Connect to a dataset of a server. The token may be in the environment or in the settings file, too.

    Where no dataset is named, the token must open exactly one. With `insecure`, the token is sent over plain HTTP to
    another machine. `timeout` is the number of seconds that one reply may take. A `transport` replaces that of httpx.
    """
    options = http_options(url, token, timeout, insecure=insecure)
    if transport is not None:
        options["transport"] = transport
    link = Link(httpx.Client(**options), retries or Retries())
    try:
        name = only_dataset(link.send(list_datasets())) if dataset is None else dataset
        return RemoteCurator(link, name, url=server_address(url, insecure=insecure))
    except BaseException:
        link.close()
        raise


def find_datasets(url: str, *, token: str | None = None, insecure: bool = False) -> tuple[str, ...]:
    """Return the names of the datasets of a server that a token has a role for."""
    link = Link(httpx.Client(**http_options(url, token, DEFAULT_TIMEOUT, insecure=insecure)), Retries())
    try:
        return link.send(list_datasets())
    finally:
        link.close()


class RemoteCurator:
    """Answers questions about one dataset of a server. It is a context manager.

    Every call that may spend has a key: the one that is given, or a new one. It is sent again under the same key if a
    reply is lost, so that it is charged once.
    """

    def __init__(self, link: Link, dataset: str, *, url: str) -> None:
        """Ask for the public facts of the dataset; nothing is charged."""
        self._link, self._calls, self._url = link, DatasetCalls(dataset), url
        self._closed = False
        self._schema = self.describe().schema

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        return self._calls.dataset

    @property
    def schema(self) -> Schema:
        """The schema of the dataset; all of it is public."""
        return self._schema

    @property
    def budget(self) -> BudgetState:
        """The spent and the remaining budget; of analysts' shares an analyst sees one alone."""
        return self._open().send(self._calls.budget())

    @property
    def history(self) -> History:
        """All charges so far, oldest first; of other analysts' charges only the time and the share."""
        charges, after = list[HistoryEntry](), 0
        while True:
            page = self._open().send(self._calls.history(after))
            charges += page.charges
            if page.following is None:
                return History(tuple(charges))
            after = page.following

    def describe(self) -> Description:
        """Return the columns, the protected unit, the remaining budget and the defaults; all of it is public."""
        return self._open().send(self._calls.describe())

    def __repr__(self) -> str:
        if self._closed:
            return f"<Remote curator of {self.dataset} at {self._url}, closed>"
        return describe_remote(self.describe(), self._url)

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>" if self._closed else self.describe()._repr_html_()

    def ask(  # noqa: PLR0913  the surface of a question
        self,
        question: str,
        *,
        within: Tolerances | None = None,
        confidence: float | None = None,
        epsilon: Exact | None = None,
        max_price: Exact | None = None,
        fresh: bool = False,
        key: str | None = None,
    ) -> RemoteAnswer:
        """Return the answer to a question: replayed or derived if possible, otherwise measured and charged.

        The arguments are those of `Curator.ask`.
        """
        wishes = priced(within=within, confidence=confidence, epsilon=epsilon, max_price=max_price, fresh=fresh)
        under = check_key(key)

        def fetch(view: ViewName) -> RemoteAnswer:
            return self._open().send(self._calls.ask(question, view_wishes(wishes, view), under, read))

        def read(document: Mapping[str, Any]) -> RemoteAnswer:
            return RemoteAnswer.from_document(document, fetch=fetch)

        return self._open().send(self._calls.ask(question, wishes, under, read))

    def ask_many(  # noqa: PLR0913  the surface of a question
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
    ) -> tuple[RemoteAnswer, ...]:
        """Return the answers to questions that are planned together and charged once: all or none.

        `progress` is called with how many are done, and of how many; by default a terminal shows a bar.
        """
        wishes = priced(within=within, confidence=confidence, epsilon=epsilon, max_price=max_price, fresh=fresh)
        listed, under = question_texts(questions), check_key(key)

        def fetch(number: int) -> Callable[[ViewName], RemoteAnswer]:
            def fetched(view: ViewName) -> RemoteAnswer:
                return self._open().send(self._calls.ask_many(listed, view_wishes(wishes, view), under, read))[number]

            return fetched

        def read(number: int, document: Mapping[str, Any]) -> RemoteAnswer:
            return RemoteAnswer.from_document(document, fetch=fetch(number))

        if not listed:
            return ()
        with follow_progress(progress, f"{len(listed):,} questions") as shown:
            accept = batch_accept(shown=shown is not None)
            return self._open().send(self._calls.ask_many(listed, wishes, under, read, accept=accept), shown)

    def recall(self, key: str, *, confidence: float | None = None) -> tuple[RecordedAnswer, ...] | None:
        """Return the answers that were bought under a key, for nothing; None if there are none."""
        try:
            return self._open().send(self._calls.recall(check_key(key), confidence, RecordedAnswer.from_document))
        except DodonaError as fault:
            if fault.code != NOTHING_BOUGHT:
                raise
            return None

    def prepare(
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
        return self._open().send(self._calls.prepare(workload, wishes, check_key(key)))

    def quote(  # noqa: PLR0913  the surface of a question
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
        return self._open().send(self._calls.quote(question, wishes))

    def rehearse(  # noqa: PLR0913  the surface of a question
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
        return self._open().send(self._calls.rehearse(question, wishes))

    def request_approval(
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
        return self._open().send(self._calls.request_approval(question, wishes, check_key(key)))

    @property
    def requests(self) -> tuple[ApprovalRequest, ...]:
        """The requests for approval of this analyst, oldest first."""
        return self._open().send(self._calls.requests())

    def choose(
        self,
        candidates: str,
        *,
        epsilon: Exact,
        count: int = 1,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> Choice:
        """Return the names of the groups of a SQL question with the largest answers, without the answers."""
        call = self._calls.choose(candidates, epsilon=epsilon, count=count, max_price=max_price, key=check_key(key))
        return self._open().send(call)

    def above(  # noqa: PLR0913  a watch has this many sides
        self,
        threshold: int,
        *,
        epsilon: Exact,
        alerts: int = 1,
        questions: int = 1000,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> RemoteWatch:
        """Return a watch that reports which counts exceed a threshold, up to a number of alerts; charged in full here.

        The server keeps it: `above` with the same key and numbers finds it again, free of charge.
        """
        call = self._calls.above(
            threshold, epsilon=epsilon, alerts=alerts, questions=questions, max_price=max_price, key=check_key(key)
        )
        return RemoteWatch(self._open().send(call), self._calls, self._open)

    def ask_by_weights(  # noqa: PLR0913  weights have this many sides
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
        call = self._calls.ask_by_weights(
            questions, epsilon=epsilon, columns=columns, confidence=confidence, max_price=max_price, key=check_key(key)
        )
        return self._open().send(call)

    def synthesize(  # noqa: PLR0913  all that a release may have
        self,
        *,
        columns: Iterable[str] | None = None,
        ways: int | None = None,
        marginals: Iterable[Iterable[str]] | None = None,
        epsilon: Exact | None = None,
        share: Exact | None = None,
        method: SynthesisMethod | None = None,
        count: int | None = None,
        rows: RowKind | None = None,
        max_price: Exact | None = None,
        key: str | None = None,
    ) -> RemoteRelease:
        """Start a synthetic release, which the server goes on with; the same key finds it again.

        It is to answer all combinations of `ways` columns well, or the `marginals` that are listed. Its price is an
        `epsilon` or a `share` of the budget. `count` and `rows` say how many rows are made up, and how: `rounded`,
        `sampled` or `weighted`.
        """
        declaration = release_declaration(
            columns=columns,
            marginals=marginals,
            given=arguments(
                ways=ways, epsilon=epsilon, share=share, method=method, count=count, rows=rows, max_price=max_price
            ),
        )
        under = check_key(key)
        self._open().send(self._calls.synthesize(declaration, under))
        return self.release(under)

    def release(self, key: str) -> RemoteRelease:
        """Return the synthetic release that was started under a key."""
        return RemoteRelease(check_key(key), self._calls, self._open)

    def read(self, question: str) -> str:
        """Return a question if the server could answer it, and raise its mistake otherwise; nothing is charged."""
        self.quote(question)
        return question

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> Link:
        if self._closed:
            raise InvalidRequest("This connection was closed. Connect again.")
        return self._link


class RemoteWatch:
    """A watch that a server keeps: any number of counts may be asked, until the last alert."""

    def __init__(self, terms: WatchTerms, calls: DatasetCalls, link: Callable[[], Link]) -> None:
        """Take what the watch was opened for."""
        self._terms, self._calls, self._link = terms, calls, link

    @property
    def key(self) -> str:
        """The key that finds it again."""
        return self._terms.key

    @property
    def threshold(self) -> int:
        """What counts are compared with."""
        return self._terms.threshold

    @property
    def price(self) -> Price:
        """What it cost."""
        return self._terms.price

    @property
    def within(self) -> float:
        """Counts further from the threshold than this are all classified correctly, at the confidence."""
        return self._terms.within

    @property
    def confidence(self) -> float:
        """The least probability of that."""
        return self._terms.confidence

    @property
    def questions(self) -> int:
        """For how many questions that holds."""
        return self._terms.questions

    @property
    def about(self) -> str:
        """What it is about, where people are protected: how many rows of each count. Else nothing."""
        return self._terms.about

    @property
    def left(self) -> int:
        """The number of remaining alerts, as of the last reply."""
        return self._terms.left

    def ask(self, question: str, *, threshold: int | None = None) -> RemoteVerdict:
        """Return whether the count of a question is above the threshold, both with noise; no further charge.

        If the reply is lost it is not asked again by itself, as that might take a second alert.
        """
        verdict, left = self._link().send(self._calls.watch_ask(self.key, question, threshold))
        self._terms = replace(self._terms, left=left)
        return verdict

    def __str__(self) -> str:
        return str(self._terms)

    __repr__ = __str__


class RemoteRelease:
    """A synthetic release of a server."""

    def __init__(self, key: str, calls: DatasetCalls, link: Callable[[], Link]) -> None:
        """Take the key under which it was started."""
        self.key = key
        """The key that finds it again."""
        self._calls, self._link = calls, link

    @property
    def state(self) -> ReleaseState:
        """How far it is."""
        return self._link().send(self._calls.release(self.key))

    def wait(self, *, every: float = 1.0, progress: ShowProgress = None) -> ReleaseState:
        """Return its state once it is done; raise the reason if it failed."""
        with follow_progress(progress, "synthetic release") as shown:
            while True:
                state = self.state
                if shown is not None:
                    shown(round(100 * state.progress), 100)
                if state.problem is not None:
                    raise state.problem
                if state.ended:
                    return state
                time.sleep(every)

    def write(self, path: str | Path) -> Path:
        """Write its rows to a new file that ends in .csv or .parquet, and return that."""
        place = Path(path)
        rows = self._link().send(self._calls.release_rows(self.key, place.suffix))
        with place.open("xb") as file:
            file.write(rows)
        return place
