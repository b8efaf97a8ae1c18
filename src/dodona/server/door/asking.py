"""From the questions of a statement to their answers: what a session wishes, one call of the core, and rows as JSON."""

from __future__ import annotations

import hashlib
import json
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import pairwise
from typing import Any

from dodona.errors import InvalidArgument, Unavailable
from dodona.numbers import format_percent, to_share
from dodona.server import logs, secrets
from dodona.server.door.plan import Plan
from dodona.server.door.splice import Piece
from dodona.server.identity import Identity, RoleMissing
from dodona.server.link import Caller, CoreLink, CoreUnreachable
from dodona.server.metrics import Metrics

SETTINGS = ("within", "epsilon", "confidence", "max_price", "fresh", "intervals")
_TOGETHER = "simultaneous"
_ARGUMENT = re.compile(r"""\b(within|epsilon|max_price)="?(\d[\d.e+-]*%?)(?<!\.)"?""")
SELECTED = (
    "If noisy values decide which rows are shown, ± holds for a row named beforehand alone: "
    "SET dodona.intervals = simultaneous covers them all."
)
"""Of a session: `SET dodona.within = '1%'`."""
_WHOLE = frozenset({"bigint", "integer", "smallint"})
_QUIET = frozenset({"warning", "error"})
_KEY_REUSED = "key-reused"
_MOST_CHARGES = 1000


class Problem(Exception):
    """What the core, or the door itself, has to say instead of an answer."""

    def __init__(self, sqlstate: str, message: str, *, code: str = "") -> None:
        """Take what PostgreSQL's error will say."""
        super().__init__(message)
        self.sqlstate, self.message, self.code = sqlstate, message, code


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the settings of a session say about its next question."""

    within: str = ""
    epsilon: str = ""
    confidence: str = ""
    max_price: str = ""
    fresh: str = ""
    intervals: str = ""
    level: str = "notice"
    """Which notices the client wants: `client_min_messages`."""

    def with_settings(self, settings: Mapping[str, str]) -> Wishes:
        """Return the wishes after further settings."""
        return replace(self, **{name: value for name, value in settings.items() if name in SETTINGS})

    @property
    def shows_intervals(self) -> bool:
        """Whether columns for the ends of intervals are wanted."""
        return self.together or _switch("intervals", self.intervals)

    @property
    def together(self) -> bool:
        """Whether intervals are wanted that hold for all rows simultaneously."""
        return self.intervals.lower() == _TOGETHER

    @property
    def notices(self) -> bool:
        """Whether notices are wanted."""
        return self.level not in _QUIET

    def arguments(self) -> dict[str, object]:
        """Return the wishes as arguments of the core's acts."""
        arguments: dict[str, object] = {}
        if self.within:
            arguments["within"] = self.within if self.within.endswith("%") else _number("within", self.within)
        if self.epsilon:
            arguments["epsilon"] = self.epsilon
        if self.confidence:
            arguments["confidence"] = _number("confidence", self.confidence)
        if self.max_price:
            arguments["max_price"] = self.max_price
        if _switch("fresh", self.fresh):
            arguments["fresh"] = True
        if self.together:
            arguments["view"] = _TOGETHER
        return arguments


def _switch(name: str, value: str) -> bool:
    if value.lower() in {"", "off", "false", "0", "no"}:
        return False
    if value.lower() in {"on", "true", "1", "yes"}:
        return True
    accepted = "write on, off or simultaneous" if name == "intervals" else "write on or off"
    raise InvalidArgument(f"dodona.{name}", value, accepted)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidArgument(f"dodona.{name}", text, "write a number, or for within a percentage such as 1%") from None


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks the core in the name of one caller, about one dataset."""

    link: CoreLink
    dataset: str
    counts: Metrics

    async def ask(self, identity: Identity, questions: Sequence[str], wishes: Wishes) -> list[dict[str, Any]]:
        """Return the answers to the questions of one statement, bought together.

        The key follows from who asks what and how: a statement that is sent again after a failure is charged once.
        """
        arguments = wishes.arguments()
        request = json.dumps(
            [identity.account, self.dataset, *questions, arguments | {"max_price": None}], sort_keys=True
        )
        drawn = secrets.random_bytes(secrets.SECRET_BYTES) if "fresh" in arguments else b""
        key = f"sql-{hashlib.sha256(request.encode() + drawn).hexdigest()}"
        try:
            return await self._ask(identity, questions, arguments | {"key": key})
        except Problem as problem:
            if problem.code != _KEY_REUSED:
                raise
        # The data or what the words mean have changed since: the question is another one now.
        version = await self._call(identity, "ledger", {})
        return await self._ask(identity, questions, arguments | {"key": f"{key}-{version['head'][:16]}"})

    async def _ask(
        self, identity: Identity, questions: Sequence[str], arguments: Mapping[str, object]
    ) -> list[dict[str, Any]]:
        if len(questions) == 1:
            return [await self._call(identity, "ask", {**arguments, "question": questions[0]})]
        reply = await self._call(identity, "batch", {**arguments, "questions": list(questions)})
        answers: list[dict[str, Any]] = reply["answers"]
        return answers

    async def quote(self, identity: Identity, questions: Sequence[str], wishes: Wishes) -> list[str]:
        """Return what the questions of a statement would cost, in lines; nothing is spent."""
        asked = {"question": questions[0]} if len(questions) == 1 else {"questions": list(questions)}
        offer = await self._call(identity, "quote", wishes.arguments() | asked)
        lines = [f"Dodona asks: {question}" for question in questions]
        share = to_share(offer["price"]["share"], argument="price")
        epsilon = offer["price"]["epsilon"]
        lines.append(
            f"Price: {format_percent(share)} of the budget (epsilon {epsilon:.4g} alone), {offer['source']}."
            if share
            else f"Price: free, {offer['source']}."
        )
        for column in offer["accuracy"]:
            within, low, high = (column.get(name) for name in ("within", "low", "high"))
            if within is not None:
                lines.append(f"{column['column']}: ±{within:.6g} at {offer['confidence']:.0%}")
            elif low is not None and high is not None:
                lines.append(f"{column['column']}: ±{low:.6g} to ±{high:.6g} at {offer['confidence']:.0%}")
        lines += [line for line in (offer.get("explanation"), offer.get("about")) if line]
        return [*lines, "Nothing was charged."]

    async def left(self, identity: Identity) -> str:
        """Return what the caller may still spend, in words."""
        budget = await self._call(identity, "budget", {})
        return format_percent(to_share(budget.get("yours", budget["left"]), argument="left"))

    async def preview(self, identity: Identity) -> list[dict[str, object]]:
        """Return made-up rows."""
        rows: list[dict[str, object]] = (await self._call(identity, "preview", {}))["rows"]
        return rows

    async def relation(self, identity: Identity, name: str) -> list[dict[str, object]]:
        """Return the rows of a relation of the door."""
        if name == "budget":
            budget = await self._call(identity, "budget", {})
            shares = {field: _share(budget.get(field)) for field in ("spent", "left", "yours")}
            same = {
                field: budget.get(field)
                for field in ("epsilon", "delta", "accountant", "epsilon_spent", "charges", "closed")
            }
            return [{"dataset": self.dataset, **same, **shares}]
        charges: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = await self._call(identity, "history", {"after": after, "limit": _MOST_CHARGES})
            charges += page["charges"]
            after = page["next"]
        return [
            {"number": charge["number"], "time": charge["time"], "share": _share(charge["share"]),
             "question": charge.get("text"), "receipt": charge.get("receipt"), "answered": charge.get("answered")}
            for charge in charges
        ]  # fmt: skip

    async def _call(self, identity: Identity, act: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        role = identity.role(self.dataset)
        if role is None:
            refused = RoleMissing("owner", "analyst", "auditor")
            raise Problem(refused.sqlstate, str(refused), code=refused.code)
        caller = Caller(identity.account, role, identity.max_price)
        began = time.perf_counter()
        try:
            reply = await self.link.call(act, dataset=self.dataset, caller=caller, arguments=arguments)
        except CoreUnreachable as fault:
            text = "The reply was lost on its way. Send the statement again: it is charged once at most."
            raise Problem(Unavailable.sqlstate, text if "key" in arguments else str(fault), code=fault.code) from None
        document: dict[str, Any] = json.loads(reply.body)
        seconds, code = time.perf_counter() - began, document.get("code")
        self.counts.count(act=act, status=reply.status, code=code, seconds=seconds)
        logs.write(
            "request", door="sql", act=act, account=identity.account, dataset=self.dataset, status=reply.status,
            code=code, ms=round(1000 * seconds, 1),
        )  # fmt: skip
        if reply.status >= HTTPStatus.BAD_REQUEST:
            detail, state = _as_settings(str(document["detail"])), str(document.get("sqlstate", "XX000"))
            if "charged" not in detail:
                detail += " The charge stands." if document.get("charged") else " Nothing was charged."
            raise Problem(state, detail, code=str(document.get("code", "")))
        return document


def _as_settings(detail: str) -> str:
    """Return a message in the words of this door: what a call is given elsewhere is a setting here.

    >>> _as_settings('within="5%" would cost 1%. To allow it, write max_price="6%".')
    "SET dodona.within = '5%' would cost 1%. To allow it, write SET dodona.max_price = '6%'."
    """
    return _ARGUMENT.sub(r"SET dodona.\1 = '\2'", detail)


def _share(text: object) -> float | None:
    return None if text is None else float(to_share(str(text), argument="share"))


# --- Answers as rows. ---


def rows_of(piece: Piece, types: Sequence[str], answer: Mapping[str, Any]) -> str:
    """Return the rows of an answer as JSON: typed keys, NULL for what is missing, whole numbers for counts."""
    keys = [group_key["values"] for group_key in answer["keys"]]
    places = [column.get("key") if column["kind"] == "label" else None for column in answer["columns"]]
    rows = []
    for number, cells in enumerate(answer["rows"]):
        row: dict[str, object] = {}
        for name, kind, key, cell in zip(piece.columns, types, places, cells, strict=True):
            if key is not None:
                row[name] = keys[key][number]
            elif isinstance(cell, dict):
                row[name] = _fit(cell["value"], kind, round)
                row[f"{name}_low"] = _fit(cell["low"], kind, math.floor)
                row[f"{name}_high"] = _fit(cell["high"], kind, math.ceil)
            else:
                row[name] = cell
        rows.append(row)
    return json.dumps(rows)


def _fit(value: object, kind: str, rounding: Any) -> object:  # noqa: ANN401  one of three functions
    return rounding(value) if kind in _WHOLE and isinstance(value, float) else value


def selects_rows(plan: Plan, answers: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether noisy values may decide which rows of the answers are shown: by HAVING, or a LIMIT that cuts."""
    most = max(len(answer["rows"]) for answer in answers)
    words = plan.tokens[plan.query[0] : plan.query[1]]
    for word, after in pairwise(words):
        if word.says("having"):
            return True
        if word.says("limit", "fetch") and after.kind == "number" and float(after.text.replace("_", "")) < most:
            return True
    return False


def notice_of(answer: Mapping[str, Any]) -> str:
    """Return the notice about an answer: how far off it may be, its price and its source."""
    widths = [
        f"{accuracy['column']} {_width(accuracy)}"
        for accuracy in answer["accuracy"]
        if accuracy.get("worst") is not None
    ]
    share = to_share(answer["price"]["share"], argument="price")
    price = f"{format_percent(share)} of the budget" if share else "free"
    sure = f"{', '.join(widths)} at {answer['confidence']:.0%}. " if widths else ""
    reused = "It reuses noise of earlier answers: SET dodona.fresh = on asks anew. " if answer.get("reused") else ""
    others = [warning for warning in answer["warnings"] if "fresh=True" not in warning]
    return " ".join([f"{sure}Price: {price} ({answer['source']}).", *others, reused]).rstrip()


def _width(column: Mapping[str, Any]) -> str:
    """Return how far off a column may be: of most rows and of the worst, where a row of few rows is much worse."""
    typical, worst = column.get("typical"), column["worst"]
    alike = typical is None or worst <= 2 * typical
    return f"±{worst:.6g}" if alike else f"±{typical:.6g}, in the worst row ±{worst:.6g},"


def price_of(answers: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether anything was charged."""
    return any(to_share(answer["price"]["share"], argument="price") for answer in answers)
