"""`dodona mcp`: the agents' door over standard input and output, to a dataset file here or to a server."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dodona.cli.opening import ServerOption, find_remote, is_local, open_curator
from dodona.cli.terminal import AnalystOption, report_errors
from dodona.errors import InvalidRequest
from dodona.server.identity import RoleMissing

if TYPE_CHECKING:
    from dodona.cli.opening import OpenCurator
    from dodona.server.agents.spending import Document

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class CuratorOracle:
    """Asks datasets here, or of a server by its client: both have the surface of a curator."""

    curators: Mapping[str, OpenCurator]

    async def datasets(self) -> list[Document]:
        """Return the datasets that were opened."""
        documents = list[Mapping[str, Any]]()
        for name, curator in self.curators.items():
            unit = curator.schema.unit
            protects = "row" if unit.id is None else "person"
            documents.append({"dataset": name, "table": curator.schema.table, "size": unit.size, "protects": protects})
        return documents

    async def describe(self, dataset: str) -> Document:
        """Return the public facts of a dataset."""
        document: Document = json.loads((await self._do(dataset, lambda curator: curator.describe())).to_json())
        return document

    async def left(self, dataset: str) -> Fraction:
        """Return the share of the budget that is left for the analyst."""
        return (await self._do(dataset, lambda curator: curator.describe())).left

    async def quote(self, dataset: str, request: Document) -> Document:
        """Return the price of a question; nothing is spent."""
        text, wishes = _split_request(request)
        document: Document = json.loads(
            (await self._do(dataset, lambda curator: curator.quote(text, **wishes))).to_json()
        )
        return document

    async def ask(self, dataset: str, request: Document, key: str) -> Document:
        """Return the answer to a question; a key is charged once."""
        text, wishes = _split_request(request)
        view = wishes.pop("view")

        def work(curator: OpenCurator) -> Document:
            answer = curator.ask(text, **wishes, key=key)
            shown = answer if view == "single" else getattr(answer, view)
            document: Document = json.loads((shown() if callable(shown) else shown).to_json())
            return document

        return await self._do(dataset, work)

    async def charges(self, dataset: str) -> AsyncIterator[Document]:
        """Yield the analyst's own charges, the newest first."""
        curator = self._curator(dataset)
        name = (await asyncio.to_thread(curator.describe)).analyst
        if name is None and not is_local(curator):  # an owner or an auditor, who would see those of everyone
            raise RoleMissing("analyst")
        for charge in reversed((await asyncio.to_thread(lambda: curator.history)).charges):
            if charge.analyst == name:
                yield {
                    "time": charge.time, "text": charge.text, "share": charge.share, "answered": charge.answered,
                }  # fmt: skip

    async def _do(self, dataset: str, work: Callable[[OpenCurator], ResultT]) -> ResultT:
        return await asyncio.to_thread(work, self._curator(dataset))

    def _curator(self, dataset: str) -> OpenCurator:
        curator = self.curators.get(dataset)
        if curator is None:
            raise InvalidRequest(f"There is no dataset {dataset[:60]!r} here. There are: {', '.join(self.curators)}.")
        return curator


def _split_request(request: Document) -> tuple[str, dict[str, Any]]:
    return request["question"], {name: value for name, value in request.items() if name != "question"}


def mcp(  # noqa: PLR0913  each is an option
    datasets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DATASET]...", help="Dataset files; of a server, names: all of its datasets if none."),
    ] = None,
    *,
    server: ServerOption = None,
    analyst: AnalystOption = None,
    question: Annotated[str, typer.Option(help="The most one question may take of a budget.")] = "1%",
    day: Annotated[str, typer.Option(help="The most the account may spend in a day, through all doors.")] = "5%",
    consent: Annotated[str, typer.Option(help="Above this price a person is asked.")] = "0.1%",
) -> None:
    """Let an AI agent ask, by the Model Context Protocol over standard input and output.

    Agents start it themselves: see docs/agents.md for what to write into their settings.
    """
    with report_errors(), ExitStack() as stack:
        from dodona.server.agents.spending import Purse, make_caps

        caps = make_caps(question=question, day=day, consent=consent)
        from dodona.server.agents.tools import ToolContext, make_server

        curators: dict[str, OpenCurator] = {}
        for name in datasets or _all_datasets(server):
            curator = open_curator(name, server=server, analyst=analyst, max_day=caps.day)
            stack.callback(curator.close)
            curators[curator.describe().dataset] = curator
        oracle = CuratorOracle(curators)
        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it would write questions to the error stream
        make_server(ToolContext(Purse(caps), lambda _: oracle, _write_fault)).run("stdio")


def _all_datasets(server: str | None) -> tuple[str, ...]:
    place = find_remote("*", server)
    if place is None:
        raise InvalidRequest("Write a dataset file, such as stays.toml, or --server URL.")
    from dodona.client.remote import find_datasets

    return find_datasets(place)


def _write_fault(fault: BaseException) -> None:
    """Note a bug where the agent's user finds it; the message stays out, as it may quote a question."""
    print(f"dodona mcp: {type(fault).__qualname__}", file=sys.stderr)
