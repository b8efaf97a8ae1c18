"""Agents as scripts: the SDK's own client, over each transport, in front of made-up datasets."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from fractions import Fraction
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult, TextContent

import dodona
from dodona.cli.agents import CuratorOracle
from dodona.server.agents.spending import AgentCaps, Purse
from dodona.server.agents.tools import ToolContext, make_server

P = ParamSpec("P")
COUNT = "SELECT count(*) FROM stays WHERE age >= {age}"
PROTOCOLS = ("auto", "legacy")
"""The newest, which asks people in the reply to a call, and the one before it, which asks them on the way."""


class Person:
    """Somebody who is asked to agree to prices, and always answers the same."""

    def __init__(self, action: str = "accept", *, pay: bool = True) -> None:
        self.action, self.pay = action, pay
        self.asked: list[str] = []

    async def __call__(self, _: object, request: Any) -> ElicitResult:  # noqa: ANN401  the SDK's
        self.asked.append(request.message)
        content = {"pay": self.pay} if self.action == "accept" else None
        return ElicitResult(action=self.action, content=content)  # type: ignore[arg-type]


class Agent:
    """Calls tools, and keeps what came back."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Return the structured reply, or fail."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.structured_content
        assert result.structured_content == json.loads(_text(result))
        return dict(result.structured_content)

    async def refused(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Return the error of a call that is refused, or fail."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result.structured_content
        assert result.structured_content is not None
        assert result.structured_content["charged"] is False
        return dict(result.structured_content)

    async def attempt(self, tool: str, **arguments: object) -> tuple[bool, dict[str, Any]]:
        """Return whether a call was answered, and what came back."""
        result = await self.client.call_tool(tool, arguments)
        return not result.is_error, dict(result.structured_content or {})


def _text(result: Any) -> str:  # noqa: ANN401  the SDK's
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@asynccontextmanager
async def beside(
    curator: Any,  # noqa: ANN401  of any kind
    caps: AgentCaps,
    person: Person | None = None,
    *,
    protocol: str = "auto",
    kind: type[CuratorOracle] = CuratorOracle,
) -> AsyncIterator[Agent]:
    """Connect an agent to a curator in this process."""
    held = curator.for_analyst(curator.desk.analyst, max_day=caps.day)  # as the command opens it
    oracle = kind({curator.describe().dataset: held})
    server = make_server(ToolContext(Purse(caps), lambda _: oracle, _ignore))
    async with Client(server, mode=protocol, elicitation_callback=person) as client:
        yield Agent(client)


def _ignore(_: BaseException) -> None:
    """Write no log."""


@asynccontextmanager
async def over_http(url: str, token: str, person: Person | None = None, *, protocol: str = "auto"):
    """Connect an agent to a server's address."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=protocol, elicitation_callback=person) as client:
            yield Agent(client)


@asynccontextmanager
async def over_stdio(
    *options: str, person: Person | None = None, protocol: str = "auto", environment: Mapping[str, str] | None = None
) -> AsyncIterator[Agent]:
    """Connect an agent to `dodona mcp` in a process of its own."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "dodona.cli", "mcp", *options], env=dict(environment or {})
    )
    async with Client(command, mode=protocol, elicitation_callback=person) as client:
        yield Agent(client)


def price_of(path: Path, question: str, **wishes: object) -> Fraction:
    """Return what a question costs at first."""
    with dodona.open(path, analyst="ada") as curator:
        return curator.quote(question, **wishes, max_price="100%").price.share  # type: ignore[arg-type]


def spent(curator: Any) -> Fraction:  # noqa: ANN401  of any kind
    """Return what the analyst of a curator spent."""
    return sum((charge.share for charge in curator.history if charge.analyst == "ada"), Fraction(0))


def scripted(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Return a test that runs a coroutine to its end."""

    @wraps(test)
    def run(*arguments: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*arguments, **named))

    return run
