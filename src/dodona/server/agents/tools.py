"""The tools of the agents' door, its resource and its prompt: one surface for stdio and for HTTP.

Each tool is a function of its arguments and of the `ToolContext` that the server was made with. Whatever goes wrong is
a tool error with the product's own words, its code, and whether anything was charged.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from inspect import signature
from typing import Annotated, Any, Literal, ParamSpec, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ResourceError
from mcp.server.mcpserver.resolve import AcceptedElicitation, ElicitationResult
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from dodona import __version__
from dodona.errors import DodonaError, InvalidRequest, printable
from dodona.numbers import format_percent, format_percent_rounded_up
from dodona.server.agents.guidance import EXPLANATIONS, INSTRUCTIONS, NOTICE, PROMPT
from dodona.server.agents.spending import (
    AgentCap,
    AgentQuestion,
    ConsentMissing,
    Deal,
    Document,
    Oracle,
    Purse,
    consent_text,
)
from dodona.server.problems import InternalFault, problem

_MOST_ROWS = 200
_MOST_CHARGES = 50
_LONGEST_QUESTION = 64 * 1024


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What the tools work with."""

    purse: Purse
    oracle_of: Callable[[ServerRequestContext[Any, Any]], Oracle]
    """Returns whom to ask in the name of the caller of a request."""
    write_fault: Callable[[BaseException], None]
    """Notes a bug for the operator; the agent gets a constant text."""


# --- What tools return. ---


class ToolReply(BaseModel):
    """What comes back; texts of other people stand under `data` alone."""

    notice: str = NOTICE


class DatasetList(ToolReply):
    """The datasets that may be asked."""

    data: list[dict[str, Any]] = Field(description="Name, table, public number of rows, and who is protected.")


class Caps(BaseModel):
    """What may be spent here, as shares of the budget."""

    question: str = Field(description="By one question of an agent.")
    day: str = Field(description="In a day (UTC), all questions of this account together.")
    consent: str = Field(description="By one question without asking a person.")


class Facts(ToolReply):
    """The public facts of a dataset."""

    caps: Caps
    left: str = Field(description="What is left of the budget for you.")
    data: dict[str, Any] = Field(description="Table, columns with labels and bounds, who is protected, and defaults.")


class ToolPrice(BaseModel, title="Price"):
    """What a question takes of the budget."""

    share: str = Field(description="The exact fraction of the whole budget.")
    percent: str = Field(description="The same for people, rounded up: usable as `max_price`.")
    epsilon: float = Field(description="What it would cost alone; a label.")


class QuoteReply(BaseModel, title="Quote"):
    """What a question would cost, and how accurate the answer would be."""

    price: ToolPrice
    source: str
    confidence: float
    accuracy: list[dict[str, Any]] = Field(description="For each column, how far off it is expected to be.")
    allowed: bool = Field(description="Whether an agent may ask it now.")
    because: str = Field(description="Why it is not allowed; empty if it is.")
    needs_consent: bool = Field(description="Whether a person will be asked first.")
    left: str
    explanation: str


class AnswerReply(ToolReply, title="Answer"):
    """An answer with intervals, and what it cost."""

    price: ToolPrice
    source: str
    confidence: float
    accuracy: list[dict[str, Any]]
    left: str | None = Field(description="What is left of the budget for you; null if that cannot be told now.")
    left_today: str | None = Field(description="What is left of today's cap on agents; null if that cannot be told.")
    warnings: list[str]
    rows_in_all: int
    first_row: int
    version: str = Field(description="Of the data.")
    receipt: str | None
    data: dict[str, Any] = Field(description="`columns`, and `rows`: labels, and estimates with value, low and high.")


class BudgetReply(BaseModel, title="Budget"):
    """What is left."""

    left: str = Field(description="Of the budget, for you.")
    spent_today: str
    left_today: str = Field(description="Of today's cap on agents.")
    caps: Caps


class Charges(ToolReply):
    """The caller's own questions."""

    data: list[dict[str, Any]] = Field(description="Time, question and price, the newest first.")


class Explanation(BaseModel):
    """How to read an answer."""

    explanation: dict[str, str]


# --- Around every tool. ---

P = ParamSpec("P")
_FREE = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_PAID = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)

DatasetName = Annotated[str, Field(min_length=1, max_length=200, description="A name from `datasets`.")]
Sql = Annotated[str, Field(min_length=1, max_length=_LONGEST_QUESTION, description="One SELECT of aggregates, in SQL.")]
Within = Annotated[
    str | float | None,
    Field(description='How far off it may be: 50, or "1%" of the public size or of the column\'s range. '
    "The dataset has a default."),
]  # fmt: skip
Confidence = Annotated[float | None, Field(gt=0, lt=1, description="How sure an interval is; 0.95 by default.")]
MaxPrice = Annotated[
    str | float, Field(description='The most that it may take of the budget, such as "0.5%": what `quote` said.')
]
Intervals = Annotated[
    Literal["single", "simultaneous", "population", "any_choice"],
    Field(description="Which intervals: for each value on its own, for all at once, for the population that the table "
    "was sampled from, or for what you choose because of the values. All come from one answer; others are free."),
]  # fmt: skip
FirstRow = Annotated[int, Field(ge=0, le=10**9, description="Show rows from this one on; asking again is free.")]


def _door(context: Context[Any, Any]) -> tuple[ToolContext, Oracle]:
    door: ToolContext = context.request_context.lifespan_context
    return door, door.oracle_of(context.request_context)


def _problem(fault: DodonaError) -> CallToolResult:
    """Return an error as a tool error: its words, its code, and whether a charge stands; null if that is not known."""
    fields = json.loads(problem(fault))
    document = {"code": fields["code"], "detail": fields["detail"], "charged": fields["charged"], "notice": NOTICE}
    text = TextContent(type="text", text=json.dumps(document, ensure_ascii=False))
    return CallToolResult(content=[text], structured_content=document, is_error=True)


def _guarded(tool: Callable[P, Awaitable[BaseModel]]) -> Callable[P, Awaitable[Any]]:
    """Return a tool whose errors are tool errors."""

    @wraps(tool)
    async def guarded(*arguments: P.args, **named: P.kwargs) -> BaseModel | CallToolResult:
        try:
            return await tool(*arguments, **named)
        except DodonaError as fault:
            return _problem(fault)
        except Exception as fault:  # noqa: BLE001  whatever it is, the agent gets a constant text
            context = next(argument for argument in named.values() if isinstance(argument, Context))
            _door(context)[0].write_fault(fault)
            return _problem(InternalFault())

    return guarded


_MISTAKE = re.compile(r"^(\S+)\n  (.+?) \[type=", re.MULTILINE)  # pydantic's errors, without what was sent


async def _hold_arguments(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Refuse arguments that a tool does not have: a misspelt limit must not be overlooked.

    What the SDK itself refuses gets the form of all errors.
    """
    if ctx.method != "tools/call":
        return await call_next(ctx)
    called = ctx.params or {}
    expected, given = _ARGUMENTS.get(str(called.get("name"))), called.get("arguments") or {}
    unknown = sorted(set(given) - expected) if expected is not None and isinstance(given, dict) else []
    if unknown:
        names = ", ".join(sorted(expected or ()))
        return _problem(InvalidRequest(f"There is no argument {unknown[0][:60]!r} here. There are: {names or 'none'}."))
    result = await call_next(ctx)
    reply = CallToolResult.model_validate(result) if isinstance(result, dict) and result.get("isError") else result
    if isinstance(reply, CallToolResult) and reply.is_error and reply.structured_content is None:
        text = " ".join(block.text for block in reply.content if isinstance(block, TextContent))
        mistakes = [f"{name}: {mistake}." for name, mistake in _MISTAKE.findall(text)]
        return _problem(InvalidRequest(" ".join(mistakes[:5]) or text[:500]))
    return result


def _readable(value: Any) -> Any:  # noqa: ANN401  a JSON value
    """Return a JSON value in which nothing is invisible: control characters and direction marks are spelled out."""
    match value:
        case str():
            return printable(value)
        case Mapping():
            return {printable(str(name)): _readable(item) for name, item in value.items()}
        case list() | tuple():
            return [_readable(item) for item in value]
        case _:
            return value


def _caps(purse: Purse) -> Caps:
    return Caps(**{name: format_percent(Fraction(share)) for name, share in purse.caps.to_json().items()})


def _price(document: Document) -> ToolPrice:
    share = Fraction(document["price"]["share"])
    percent = format_percent_rounded_up(share)
    return ToolPrice(share=str(share), percent=percent, epsilon=document["price"]["epsilon"])


# --- The tools. ---


@_guarded
async def datasets(ctx: Context[Any, Any]) -> DatasetList:
    """List the datasets that you may ask. Free."""
    _, oracle = _door(ctx)
    return DatasetList(data=_readable(await oracle.datasets()))


@_guarded
async def describe(dataset: DatasetName, ctx: Context[Any, Any]) -> Facts:
    """Describe a dataset: table, columns with labels and bounds, who is protected, and what may be spent. Free."""
    door, oracle = _door(ctx)
    facts = _schema(await oracle.describe(dataset))
    return Facts(caps=_caps(door.purse), left=format_percent(await oracle.left(dataset)), data=facts)


@_guarded
async def quote(
    dataset: DatasetName, question: Sql, ctx: Context[Any, Any], within: Within = None, confidence: Confidence = None
) -> QuoteReply:
    """Say what a question would cost and how accurate the answer would be. Free: call it before every `ask`."""
    door, oracle = _door(ctx)
    asked = AgentQuestion(dataset=dataset, text=question, within=within, confidence=confidence)
    because = ""
    try:
        offer = (await door.purse.deal(oracle, asked, max_price=1)).offer
    except AgentCap as refused:
        because, offer = refused.message, await oracle.quote(dataset, asked.request)
    price = _price(offer)
    return QuoteReply(
        price=price,
        source=offer["source"],
        confidence=offer["confidence"],
        accuracy=_readable(offer["accuracy"]),
        allowed=not because,
        because=because,
        needs_consent=door.purse.needs_consent(Fraction(price.share)),
        left=format_percent(await oracle.left(dataset)),
        explanation=printable(offer["explanation"]),
    )


class Consent(BaseModel):
    """A person's answer to a price."""

    pay: bool = Field(description="Whether to pay this share of the privacy budget.")


async def deal_of(  # noqa: PLR0913, PLR0917  the SDK passes the tool's arguments by name
    ctx: Context[Any, Any],
    dataset: str,
    question: str,
    max_price: str | float,
    within: str | float | None,
    confidence: float | None,
) -> Deal | DodonaError:
    """Return the question at its price, or why it is refused; the SDK would hide an error that is raised here."""
    door, oracle = _door(ctx)
    asked = AgentQuestion(dataset=dataset, text=question, within=within, confidence=confidence)
    try:
        return await door.purse.deal(oracle, asked, max_price)
    except DodonaError as fault:
        return fault
    except Exception as fault:  # noqa: BLE001  whatever it is, the agent gets a constant text
        door.write_fault(fault)
        return InternalFault()


async def consent_to(
    ctx: Context[Any, Any], deal: Annotated[Deal | DodonaError, Resolve(deal_of)]
) -> Consent | Elicit[Consent] | ConsentMissing:
    """Return whether the price is agreed to; ask a person if it is above what an agent may decide alone.

    What is asked states the price: if that has changed when the answer comes, the SDK asks again.

    Theorem: agent-spending
    """
    purse = _door(ctx)[0].purse
    if isinstance(deal, DodonaError) or not purse.needs_consent(deal.price):
        return Consent(pay=True)
    if not _can_be_asked(ctx):
        because = "your client cannot ask one (it has no elicitation)"
        return ConsentMissing(price=deal.price, most=purse.caps.consent, because=because)
    return Elicit(consent_text(deal), Consent)


def _can_be_asked(ctx: Context[Any, Any]) -> bool:
    """Whether a form can be shown to a person: the client says so, and the transport can carry it."""
    capabilities = ctx.client_capabilities
    form = None if capabilities is None else capabilities.elicitation
    if form is None or (form.form is None and form.url is not None):
        return False
    return (ctx.protocol_version or "") >= _ASKS_IN_REPLIES or ctx.session.can_send_request


_ASKS_IN_REPLIES = "2026-07-28"  # the first protocol that asks people in the reply to a call


@_guarded
async def ask(  # noqa: PLR0913, PLR0917  the tool's arguments
    dataset: DatasetName,
    question: Sql,
    max_price: MaxPrice,
    ctx: Context[Any, Any],
    deal: Annotated[Deal | DodonaError, Resolve(deal_of)],
    consent: Annotated[ElicitationResult[Consent], Resolve(consent_to)],
    within: Within = None,
    confidence: Confidence = None,
    intervals: Intervals = "single",
    first_row: FirstRow = 0,
) -> AnswerReply:
    """Ask a question, and pay for it with a share of the privacy budget; what earlier answers tell is free.

    It is refused without a charge above `max_price`, above a cap, or if a person does not agree.
    """
    del question, max_price, within, confidence  # the deal has them
    if isinstance(deal, DodonaError):
        raise deal
    door, oracle = _door(ctx)
    _require_consent(door.purse, deal, consent)
    answer = await door.purse.buy(oracle, deal, view=intervals)
    rows = answer["rows"]
    left, left_today = await _left_after(door.purse, oracle, dataset)
    return AnswerReply(
        price=_price(answer),
        source=answer["source"],
        confidence=answer["confidence"],
        accuracy=_readable(answer["accuracy"]),
        left=left,
        left_today=left_today,
        warnings=_readable([*answer["warnings"], *([answer["about"]] if answer["about"] else [])]),
        rows_in_all=len(rows),
        first_row=first_row,
        version=answer["version"],
        receipt=answer["receipt"],
        data=_readable({"columns": answer["columns"], "rows": rows[first_row : first_row + _MOST_ROWS]}),
    )


def _require_consent(purse: Purse, deal: Deal, consent: object) -> None:
    """Refuse what nobody agreed to."""
    agreed = consent.data if isinstance(consent, AcceptedElicitation) else None
    if isinstance(agreed, ConsentMissing):
        raise agreed
    if not isinstance(agreed, Consent) or not agreed.pay:
        raise ConsentMissing(price=deal.price, most=purse.caps.consent, because="nobody did")


async def _left_after(purse: Purse, oracle: Oracle, dataset: str) -> tuple[str | None, str | None]:
    """Return what is left of the budget and of the day; an answer that was paid for is not lost if that fails."""
    try:
        return format_percent(await oracle.left(dataset)), format_percent(await purse.left_today(oracle, dataset))
    except DodonaError:
        return None, None


@_guarded
async def budget(dataset: DatasetName, ctx: Context[Any, Any]) -> BudgetReply:
    """Show what is left of the budget, of today's cap, and what one question may take. Free."""
    door, oracle = _door(ctx)
    left_today = await door.purse.left_today(oracle, dataset)
    spent = door.purse.caps.day - left_today
    return BudgetReply(
        left=format_percent(await oracle.left(dataset)),
        spent_today=format_percent(spent),
        left_today=format_percent(left_today),
        caps=_caps(door.purse),
    )


@_guarded
async def history(
    dataset: DatasetName,
    ctx: Context[Any, Any],
    limit: Annotated[int, Field(ge=1, le=_MOST_CHARGES, description="How many, the newest first.")] = 20,
) -> Charges:
    """List your own paid questions and what each cost; asking one of them again is free. Free."""
    _, oracle = _door(ctx)
    charges = list[dict[str, Any]]()
    async for charge in oracle.charges(dataset):
        price = format_percent(Fraction(charge["share"]))
        charges.append(
            {"time": charge["time"], "question": charge["text"], "price": price, "answered": charge["answered"]}
        )
        if len(charges) == limit:
            break
    return Charges(data=_readable(charges))


Subject = Literal["values", "confidence", "source", "price", "choosing", "groups", "errors", "cheaper"]


@_guarded
async def explain(
    ctx: Context[Any, Any],
    about: Annotated[Subject | None, Field(description="One subject alone; all of them if left out.")] = None,
) -> Explanation:
    """Explain how to read an answer: intervals, sources, prices, errors, and how to ask for less. Free."""
    del ctx
    return Explanation(explanation=EXPLANATIONS if about is None else {about: EXPLANATIONS[about]})


# --- The resource and the prompt. ---


def _schema(document: Document) -> dict[str, Any]:
    """Return what an agent needs of the public facts."""
    names = ("dataset", "table", "columns", "unit", "defaults")
    return cast("dict[str, Any]", _readable({name: document[name] for name in names}))


async def schema(dataset: str, ctx: Context[Any, Any]) -> str:
    """The columns of a dataset with labels and bounds. Free."""
    door, oracle = _door(ctx)
    try:
        facts = _schema(await oracle.describe(dataset))
    except DodonaError as fault:
        raise ResourceError(printable(str(fault))) from None
    except Exception as fault:  # noqa: BLE001  whatever it is, the agent gets a constant text
        door.write_fault(fault)
        raise ResourceError(InternalFault().message) from None
    return json.dumps({"notice": NOTICE, "data": facts}, ensure_ascii=False)


def explore(goal: str, dataset: str) -> str:
    """Find something out with few questions: quote first, ask once, report intervals."""
    return PROMPT.format(goal=printable(goal), dataset=printable(dataset))


# --- The server. ---


_TOOLS = {tool.__name__: tool for tool in (datasets, describe, quote, ask, budget, history, explain)}
_OF_THE_SDK = {"ctx", "deal", "consent"}
_ARGUMENTS = {name: frozenset(signature(tool).parameters) - _OF_THE_SDK for name, tool in _TOOLS.items()}


def make_server(door: ToolContext) -> MCPServer[ToolContext]:
    """Return a server with the tools, the resource and the prompt; it is run over stdio, or mounted in a front."""

    @asynccontextmanager
    async def lifespan(_: MCPServer[ToolContext]) -> AsyncIterator[ToolContext]:
        yield door

    server: MCPServer[ToolContext] = MCPServer(
        "dodona",
        title="Dodona",
        instructions=INSTRUCTIONS,
        version=__version__,
        log_level="ERROR",
        lifespan=lifespan,
        subscriptions=False,
        middleware=[_hold_arguments],
    )
    # Its spans name tools and callers' errors; this house reports by its own log alone.
    server.middleware[:] = [
        middleware for middleware in server.middleware if type(middleware).__name__ != "OpenTelemetryMiddleware"
    ]
    for name, tool in _TOOLS.items():
        server.add_tool(tool, name=name, annotations=_PAID if tool is ask else _FREE)
    server.resource("dodona://datasets/{dataset}/schema", mime_type="application/json")(schema)
    server.prompt()(explore)
    return server
