"""One client's session: what it sends goes on to the sidecar, and answers are put into the statements that ask.

Describing never charges: a statement is described over no rows, and asked when its portal is first executed. Executed
again, the portal goes on with the answer that it has.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn, TypeVar

from dodona.errors import DodonaError
from dodona.server.door import wire
from dodona.server.door.asking import (
    SELECTED,
    SETTINGS,
    Asker,
    Problem,
    Wishes,
    notice_of,
    price_of,
    rows_of,
    selects_rows,
)
from dodona.server.door.backend import Backend, StepFailed
from dodona.server.door.constants import identifier, literal, quote
from dodona.server.door.lexer import Unreadable, tokens_of
from dodona.server.door.mirror import RELATIONS
from dodona.server.door.plan import Described, Plan, read_plans
from dodona.server.door.shape import Catalog
from dodona.server.door.wire import NO_VALUES, Bind, Stream, message
from dodona.server.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Awaitable

_T = TypeVar("_T")
_JSON, _TEXTS = 114, 1009
_LATE = b"dodona_late"
_MUCH = 1 << 16
_MADE_UP = "These rows are made up from what is declared. They tell nothing about the data, and cost nothing."
_SETTINGS = (
    "SELECT "
    + "".join(f"coalesce(current_setting('dodona.{name}', true), ''), " for name in SETTINGS)
    + "current_setting('client_min_messages')"
)
_PASSED_ON = frozenset((b"N", b"S"))
_MOST_KNOWN = 1000
_STATEMENT_SECONDS = 600.0
"""How long a statement may go on, whatever the client sets `statement_timeout` to."""


class Ended(Exception):
    """The session is over, and the client has been sent the reason."""


@dataclass(frozen=True, slots=True)
class Known:
    """A statement that was read and described: nothing of it depends on a session."""

    plan: Plan
    described: tuple[Described, ...]
    types: tuple[int, ...]
    """Of the client's own parameters."""


@dataclass(slots=True)
class StatementCache:
    """What the sessions of one dataset have learned about statements; tools send the same ones again and again."""

    catalog: Catalog
    statements: dict[tuple[str, tuple[int, ...]], Known] = field(default_factory=dict)
    types: dict[tuple[int, int], str] = field(default_factory=dict)

    def note(self, key: tuple[str, tuple[int, ...]], known: Known) -> None:
        """Remember a statement."""
        if len(self.statements) >= _MOST_KNOWN:
            self.statements.clear()
        self.statements[key] = known


@dataclass(slots=True)
class _Portal:
    known: Known
    bind: Bind
    intervals: bool
    filled: bool = False


@dataclass(slots=True)
class Session:
    """A client that has logged in, and its connection to the sidecar.

    Theorem: sql-door
    """

    client: Stream
    backend: Backend
    identity: Identity
    asker: Asker
    knowledge: StatementCache
    running: set[asyncio.Task[object]]
    """Calls of the core whose client may have gone: what was charged is answered to the end."""
    idle_seconds: float
    statements: dict[bytes, tuple[Known, bool]] = field(default_factory=dict)
    portals: dict[bytes, _Portal] = field(default_factory=dict)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    asking: bool = False
    _skipping: bool = False
    """After an error, until the client synchronises."""

    async def run(self) -> None:
        """Serve the client until it leaves."""
        while True:
            await self.client.flush()
            async with asyncio.timeout(self.idle_seconds):
                kind, body = await self.client.next()
            self.cancelled.clear()
            if not await self._take(kind, body):
                return

    async def _take(self, kind: bytes, body: bytes) -> bool:
        """Do what a message says; return whether the session goes on."""
        if kind == b"X":
            return False
        if self._skipping and kind != b"S":
            pass
        elif kind == b"Q":
            await self._simple(body)
        elif kind == b"S":
            self._skipping = False
            self.backend.stream.put(wire.SYNC)
            await self._relay(b"Z")
            if self.backend.status == b"I":
                self.portals.clear()
        elif kind == b"F":
            self.backend.stream.put(message(kind, body))
            await self._relay(b"Z")
        elif kind in {b"d", b"c", b"f", b"H"}:
            pass  # the client's own copying has ended by then, or never began
        else:
            step = {b"P": self._parse, b"B": self._bind, b"D": self._describe, b"E": self._execute, b"C": self._close}
            if kind not in step:
                await self.end("08P01", "The message has no known type.")
            await self._take_step(step[kind](body))
        return True

    async def _take_step(self, step: Awaitable[None]) -> None:
        """Take a step of the extended protocol; an error is reported, and all up to the next Sync is skipped."""
        try:
            await step
        except StepFailed as failed:
            self.client.put(message(b"E", wire.plain_error(failed.body)))
            self._skipping = True
        except (Problem, DodonaError) as problem:
            self._skipping = True
            bind = Bind(b"", b"", (), (), b"\0\0")
            try:
                await self.backend.fetch(_failure(problem), (), bind, self.client)
            except StepFailed as failed:
                self.client.put(message(b"E", wire.plain_error(failed.body)))

    async def end(self, sqlstate: str, text: str) -> NoReturn:
        """Tell the client why the session ends, and end it."""
        self.client.put(wire.notice("FATAL", sqlstate, text, self.backend.codec, kind=b"E"))
        await self.client.flush()
        raise Ended

    # --- Passing on. ---

    async def _relay(self, *ends: bytes) -> bytes:
        """Pass on what the sidecar says up to one of these messages, or an error; return which it was."""
        await self.backend.stream.flush()
        async with asyncio.timeout(_STATEMENT_SECONDS):
            return await self._relay_until(ends)

    async def _relay_until(self, ends: tuple[bytes, ...]) -> bytes:
        while True:
            kind, body = await self.backend.next()
            self.client.put(message(kind, wire.plain_error(body) if kind == b"E" else body))
            if kind in {b"D", b"d"}:
                await self.client.flush(beyond=_MUCH)
            elif kind in _PASSED_ON:
                continue
            elif kind == b"G":
                await self._copy_in()
            elif kind in ends:
                return kind
            elif kind == b"E" and b"Z" not in ends:
                self._skipping = True
                return kind

    async def _copy_in(self) -> None:
        await self.client.flush()
        while True:
            kind, body = await self.client.next()
            if kind in {b"d", b"c", b"f"}:
                self.backend.stream.put(message(kind, body))
                await self.backend.stream.flush()
            if kind in {b"c", b"f"}:
                return

    async def _pass(self, data: bytes, *ends: bytes) -> bytes:
        self.backend.stream.put(data + wire.FLUSH)
        return await self._relay(*ends)

    # --- Reading a statement. ---

    def _plans(self, given: bytes) -> tuple[list[Plan], bytes]:
        """Return the statements of a text, none if nothing in it is asked, and the text as it goes on then."""
        if self.backend.status == b"E":
            return [], given
        with suppress(Unreadable, UnicodeDecodeError):  # PostgreSQL says what is wrong with it
            text = given.decode(self.backend.codec)
            rewritten = self._own_role(text)
            return read_plans(rewritten, self.knowledge.catalog), given if rewritten is text else rewritten.encode(
                self.backend.codec
            )
        return [], given

    def _own_role(self, text: str) -> str:
        """Return ALTER ROLE of the caller's account as one of the caller's role, whose name says nothing."""
        if text.lstrip()[:5].lower() != "alter":
            return text
        match tokens_of(text):
            case [alter, role, name, *_] if alter.says("alter") and role.says("role", "user"):
                if name.names and name.word == self.identity.account:
                    return f"{text[: name.start]}CURRENT_USER{text[name.end :]}"
        return text

    async def _learn(self, plan: Plan, types: Sequence[int]) -> Known:
        """Return a statement with what PostgreSQL says about it over the mirror; nothing is executed."""
        key = (plan.written, tuple(types))
        known = self.knowledge.statements.get(key)
        if known is not None:
            return known
        inferred, _ = await self.backend.describe(plan.mirror, types, self.client)
        described = []
        for piece in plan.pieces:
            _, columns = await self.backend.describe(piece.described, inferred, self.client)
            names = tuple(identifier(name) for name, _, _ in columns[: piece.items])
            kinds = [await self._type_name(kind, modifier) for _, kind, modifier in columns[piece.items :]]
            described.append(Described(names, tuple(kinds)))
        known = Known(plan, tuple(described), tuple(inferred))
        if plan.pieces:  # what cannot be read over the answers either must fail before anything is charged
            first = len(inferred) + 1
            sources = [f"${first + place}::json" for place in range(plan.sources)]
            over = replace(plan, kind="explain").outer(described, sources, *self._filled, intervals=False)
            await self.backend.describe(over, inferred, self.client)
        self.knowledge.note(key, known)
        return known

    async def _type_name(self, kind: int, modifier: int) -> str:
        type_name = self.knowledge.types.get((kind, modifier))
        if type_name is None:
            ((name,),) = await self.backend.fetch(f"SELECT format_type({kind}, {modifier})", (), NO_VALUES, self.client)
            type_name = self.knowledge.types[kind, modifier] = str(name)
        return type_name

    async def _wishes(self) -> Wishes:
        (row,) = await self.backend.fetch(_SETTINGS, (), NO_VALUES, self.client)
        return Wishes(*(cell or "" for cell in row))

    # --- Asking. ---

    async def _sources(self, known: Known, bind: Bind, wishes: Wishes) -> list[str]:
        """Return the answers that go into a statement, as JSON; a probe gets none and costs nothing."""
        plan = known.plan
        if plan.probe:
            return ["[]"] * plan.sources
        sources: list[str] = []
        if plan.pieces:
            questions = await self._questions(known, bind)
            answers = await self._wait(self.asker.ask(self.identity, questions, wishes))
            for piece, described, answer in zip(plan.pieces, known.described, answers, strict=True):
                sources.append(rows_of(piece, described.types, answer))
            if wishes.notices:
                await self._tell(plan, answers, wishes)
        for _, name in plan.relations:
            sources.append(json.dumps(await self._wait(self.asker.relation(self.identity, name))))
        if plan.previews:
            rows = json.dumps(await self._wait(self.asker.preview(self.identity)))
            sources += [rows] * len(plan.previews)
            if wishes.notices:
                self.client.put(wire.notice("WARNING", "01000", _MADE_UP, self.backend.codec))
        return sources

    @property
    def _filled(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """What the door puts rows into: its relations, and the tables whose rows may be made up."""
        return RELATIONS, self.knowledge.catalog.previews

    async def _questions(self, known: Known, bind: Bind) -> list[str]:
        """Return the questions, after PostgreSQL has computed the constants in them."""
        constants = [constant for piece in known.plan.pieces for constant in piece.constants]
        values: list[str] = []
        if constants:
            listed = ", ".join(f"to_json({constant})" for constant in constants)
            rows = await self.backend.fetch(f"SELECT {listed}", known.types, bind, self.client)
            if len(rows) != 1:
                raise Problem("0A000", "A function of a question returns rows: only constants are possible there.")
            (row,) = rows
            values = [literal(None if cell is None else json.loads(cell)) for cell in row]
        questions = []
        for piece in known.plan.pieces:
            literals, values = values[: len(piece.constants)], values[len(piece.constants) :]
            questions.append(piece.text(literals))
        return questions

    async def _tell(self, plan: Plan, answers: Sequence[dict[str, object]], wishes: Wishes) -> None:
        texts = [notice_of(answer) for answer in answers]
        if not wishes.together and selects_rows(plan, answers):
            texts[-1] += f" {SELECTED}"
        if price_of(answers):
            texts[-1] += f" Left: {await self._wait(self.asker.left(self.identity))}."
        for text in texts:
            self.client.put(wire.notice("NOTICE", "00000", text, self.backend.codec))

    async def _wait(self, call: Awaitable[_T]) -> _T:
        """Return what a call of the core returns; a client that cancels does not wait for it."""
        task = asyncio.ensure_future(call)
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        cancelled = asyncio.ensure_future(self.cancelled.wait())
        self.asking = True
        try:
            await asyncio.wait((task, cancelled), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.asking = False
            cancelled.cancel()
        if not task.done():
            text = "The statement was cancelled while it was asked. If it was charged, sending it again is free."
            raise Problem("57014", text)
        return task.result()

    # --- The simple protocol: one text, perhaps of several statements. ---

    async def _simple(self, body: bytes) -> None:
        stepped = False
        try:
            plans, text = self._plans(body[:-1])
            text += b"\0"
            if any(plan.kind != "pass" for plan in plans):
                stepped = True
                text = wire.text_of(await self._answered_text(plans), self.backend.codec)
        except StepFailed as failed:
            self.client.put(message(b"E", wire.plain_error(failed.body)))
            self.backend.stream.put(wire.SYNC)
            await self._relay(b"Z")
            return
        except (Problem, DodonaError) as problem:
            text = wire.text_of(_failure(problem), self.backend.codec)
        if stepped:
            await self.backend.sync()
        self.backend.stream.put(message(b"Q", text))
        await self._relay(b"Z")
        if self.backend.status == b"I":
            self.portals.clear()

    async def _answered_text(self, plans: Sequence[Plan]) -> str:
        """Return the statements of a text, those that ask over their answers."""
        wishes = await self._wishes()
        parts = []
        for plan in plans:
            if plan.kind == "pass":
                wishes = wishes.with_settings(_settings_in(plan))
                parts.append(plan.written)
                continue
            known = await self._learn(plan, ())
            if plan.kind == "explain":
                lines = await self._quote_lines(known, NO_VALUES, wishes)
                parts.append(f'SELECT unnest(ARRAY[{", ".join(map(quote, lines))}]) AS "QUERY PLAN"')
                continue
            sources = [f"{quote(source)}::json" for source in await self._sources(known, NO_VALUES, wishes)]
            parts.append(plan.outer(known.described, sources, *self._filled, intervals=wishes.shows_intervals))
        return ";\n".join(parts)

    async def _quote_lines(self, known: Known, bind: Bind, wishes: Wishes) -> list[str]:
        if not known.plan.pieces:
            return ["Dodona fills this relation for nothing."]
        questions = await self._questions(known, bind)
        return await self._wait(self.asker.quote(self.identity, questions, wishes))

    # --- The extended protocol. ---

    async def _parse(self, body: bytes) -> None:
        name, given, rest = wire.parts_of(body, 3)
        plans, text = self._plans(given)
        if len(plans) != 1 or plans[0].kind == "pass":
            if await self._pass(message(b"P", name + b"\0" + text + b"\0" + rest), b"1") == b"1":
                self.statements.pop(name, None)
            return
        plan, types = plans[0], wire.types_of(rest)
        known = await self._learn(plan, types)
        wishes = await self._wishes()
        intervals = wishes.shows_intervals
        first = len(known.types) + 1
        if plan.kind == "copy":  # COPY takes no parameters: it is written with its answers when it is executed
            statement, more = plan.written, []
        elif plan.kind == "explain":
            statement, more = f'SELECT unnest(${first}::text[]) AS "QUERY PLAN"', [_TEXTS]
        else:
            sources = [f"${first + place}::json" for place in range(plan.sources)]
            statement = plan.outer(known.described, sources, *self._filled, intervals=intervals)
            more = [_JSON] * plan.sources
        if (
            await self._pass(wire.parse_message(name, statement, [*known.types, *more], self.backend.codec), b"1")
            == b"1"
        ):
            self.statements[name] = (known, intervals)

    async def _bind(self, body: bytes) -> None:
        bind = Bind.read(body)
        statement = self.statements.get(bind.statement)
        if statement is None:
            if await self._pass(message(b"B", body), b"2") == b"2":
                self.portals.pop(bind.portal, None)
            return
        known, intervals = statement
        empty = {"copy": [], "explain": [b"{}"]}.get(known.plan.kind, [b"[]"] * known.plan.sources)
        if await self._pass(bind.message(empty), b"2") == b"2":
            self.portals[bind.portal] = _Portal(known, bind, intervals)

    async def _describe(self, body: bytes) -> None:
        statement = self.statements.get(body[1:-1]) if body[:1] == b"S" else None
        if statement is None:
            await self._pass(message(b"D", body), b"T", b"n")
            return
        for kind, reply in await self.backend.exchange(message(b"D", body), self.client, b"T"):
            if kind == b"t":  # the answers are none of the client's parameters
                count = len(statement[0].types)
                reply = count.to_bytes(2) + reply[2 : 2 + 4 * count]  # noqa: PLW2901
            self.client.put(message(kind, reply))

    async def _execute(self, body: bytes) -> None:
        portal = self.portals.get(wire.parts_of(body, 2)[0])
        if portal is not None and not portal.filled:
            await self._fill(portal)
        await self._pass(message(b"E", body), b"C", b"s", b"I")

    async def _fill(self, portal: _Portal) -> None:
        """Ask, and bind the portal again, with the answers."""
        known, bind = portal.known, portal.bind
        wishes = await self._wishes()
        step = wire.close_portal(bind.portal)
        if known.plan.kind == "explain":
            lines = await self._quote_lines(known, bind, wishes)
            listed = ",".join('"' + line.replace("\\", "\\\\").replace('"', '\\"') + '"' for line in lines)
            step += bind.message([f"{{{listed}}}".encode(self.backend.codec, "replace")])
        elif known.plan.kind == "copy":
            sources = [f"{quote(source)}::json" for source in await self._sources(known, bind, wishes)]
            statement = known.plan.outer(known.described, sources, *self._filled, intervals=portal.intervals)
            step = wire.close_statement(_LATE) + wire.parse_message(_LATE, statement, codec=self.backend.codec) + step
            step += bind.message(statement=_LATE)
            await self.backend.exchange(step, self.client, b"3132")
            portal.filled = True
            return
        else:
            step += bind.message([source.encode() for source in await self._sources(known, bind, wishes)])
        await self.backend.exchange(step, self.client, b"32")
        portal.filled = True

    async def _close(self, body: bytes) -> None:
        if await self._pass(message(b"C", body), b"3") == b"3":
            (self.statements if body[:1] == b"S" else self.portals).pop(body[1:-1], None)


def _failure(problem: Problem | DodonaError) -> str:
    """Return the statement that makes PostgreSQL raise an error, so that the transaction's state is right."""
    text, code = (problem.message, problem.code) if isinstance(problem, Problem) else (str(problem), problem.code)
    parts = (problem.sqlstate, text, f"Code: {code}" if code else "")
    return f"SELECT dodona.fail({', '.join(map(quote, parts))})"


def _settings_in(plan: Plan) -> dict[str, str]:
    """Return what a SET before a question in the same text says: it has not been executed when the question is read."""
    tokens = [token for token in plan.tokens[slice(*plan.whole)] if not token.says("session", "local")]
    match tokens:
        case [verb, space, dot, name, sign, value] if (
            verb.says("set") and space.word == "dodona" and dot.says(".") and sign.says("=", "to")
        ):
            text = value.text
            return {name.word: text[1:-1].replace("''", "'") if value.kind == "text" else text}
    return {}
