"""What an agent may spend: every question is quoted, held to caps, and above a price agreed to by a person.

The ledger protects the data from anyone. The caps here protect the budget from an agent that asks too much, because it
was told to or by mistake. They come on top of the owner's limits and of the token's cap, and can only forbid more.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Protocol

from dodona.errors import DodonaError, InvalidArgument, Refused, printable
from dodona.numbers import Exact, format_percent, to_share

Document = Mapping[str, Any]
_VERSIONS = 50
_LONGEST_SHOWN = 1500
_KEY_REUSED = "key-reused"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCaps:
    """The shares of a budget that agents may take, whatever else is allowed."""

    question: Fraction = Fraction(1, 100)
    """By one question."""
    day: Fraction = Fraction(1, 20)
    """By one account, or one analyst, in a day (UTC). What was spent through other doors counts as well."""
    consent: Fraction = Fraction(1, 1000)
    """By one question without asking a person."""

    def to_json(self) -> dict[str, str]:
        """Return them as exact texts, which `make_caps` reads."""
        return {"question": str(self.question), "day": str(self.day), "consent": str(self.consent)}


def make_caps(*, question: Exact | None = None, day: Exact | None = None, consent: Exact | None = None) -> AgentCaps:
    """Return caps from shares as people write them; what is left out has its default.

    >>> make_caps(day="10%").to_json()
    {'question': '1/100', 'day': '1/10', 'consent': '1/1000'}
    """
    given = {"question": question, "day": day, "consent": consent}
    return AgentCaps(**{name: to_share(value, argument=name) for name, value in given.items() if value is not None})


class Oracle(Protocol):
    """Whom the tools ask, in the name of one caller: a server's core, a server by its client, or a dataset here.

    It lets the caller spend no more on a day than the caps of the door say.

    Replies are the JSON documents of the HTTP API. Whatever is refused raises a `DodonaError`.
    """

    async def datasets(self) -> list[Document]:
        """Return the datasets that the caller may see."""

    async def describe(self, dataset: str) -> Document:
        """Return the public facts of a dataset."""

    async def left(self, dataset: str) -> Fraction:
        """Return the share of the budget that is left for the caller."""

    async def quote(self, dataset: str, request: Document) -> Document:
        """Return the price of a question; nothing is spent."""

    async def ask(self, dataset: str, request: Document, key: str) -> Document:
        """Return the answer to a question, in a view; a key is charged once."""

    def charges(self, dataset: str) -> AsyncIterator[Document]:
        """Yield the caller's own charges, the newest first; refuse callers who are no analysts."""


# --- Refusals. Nothing was charged. ---


class AgentCap(Refused):
    """A question would take more of the budget than an agent may take."""

    code = "agent-cap"

    def __init__(self, *, price: Fraction, most: Fraction, because: str) -> None:
        """State the price, what is allowed, and which cap says so."""
        self.price, self.most = price, most
        super().__init__(
            f"This would take {format_percent(price)} of the budget, and {format_percent(most)} is allowed: {because}. "
            "Ask for less accuracy (a larger `within`), for fewer groups, or for what earlier answers already tell."
        )


class ConsentMissing(Refused):
    """A person has to agree to a price, and did not."""

    code = "consent-missing"

    def __init__(self, *, price: Fraction, most: Fraction, because: str) -> None:
        """State the price, up to which price nobody is asked, and why there is no consent."""
        self.price, self.most = price, most
        super().__init__(
            f"This would take {format_percent(price)} of the budget. Above {format_percent(most)} a person has to "
            f"agree, and {because}. Do not ask the same again unless the person wants it."
        )


# --- A question, its price, and its purchase. ---


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentQuestion:
    """A question as an agent asks it."""

    dataset: str
    text: str
    within: int | float | str | None = None
    confidence: float | None = None

    @property
    def request(self) -> dict[str, object]:
        """The arguments of a quote or an answer, without the highest price."""
        wishes = {"within": self.within, "confidence": self.confidence}
        return {"question": self.text} | {name: value for name, value in wishes.items() if value is not None}

    def key(self, number: int) -> str:
        """Return the key of the question: the same call has the same key, in this conversation and in any other.

        A raised version of the data needs another key for the same question, so there is a number in it.

        Theorem: agent-spending
        """
        digest = hashlib.sha256(json.dumps([self.dataset, self.request], sort_keys=True).encode()).hexdigest()
        return f"mcp-{digest[:40]}" if number == 0 else f"mcp-{digest[:40]}-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deal:
    """A question with the price that it was quoted at, which is all that it may take."""

    question: AgentQuestion
    offer: Document
    price: Fraction


@dataclass(frozen=True, slots=True)
class Purse:
    """Spends for agents, within caps.

    Theorem: agent-spending
    """

    caps: AgentCaps

    async def deal(self, oracle: Oracle, question: AgentQuestion, max_price: Exact) -> Deal:
        """Quote a question, and refuse a price above what the agent said, or above a cap."""
        said = to_share(max_price, argument="max_price")
        offer = await oracle.quote(question.dataset, question.request | {"max_price": str(said)})
        price = Fraction(offer["price"]["share"])
        if price > said:
            raise AgentCap(price=price, most=said, because="max_price of this call")
        if price > self.caps.question:
            raise AgentCap(price=price, most=self.caps.question, because="the cap on one question of an agent")
        if not offer["affordable"]:
            allowed = Fraction(offer["allowed"])
            raise AgentCap(price=price, most=allowed, because="what is left, the owner's limits or the token's cap")
        await self._hold_to_day(oracle, question.dataset, price)
        return Deal(question=question, offer=offer, price=price)

    def needs_consent(self, price: Fraction) -> bool:
        """Whether a person has to agree to a price."""
        return price > self.caps.consent

    async def buy(self, oracle: Oracle, deal: Deal, *, view: str = "single") -> Document:
        """Ask a question at the price of its deal, or for less; the view says which intervals are shown.

        Whether the day's cap still holds is decided by the ledger, when it writes the charge.
        """
        question = deal.question
        request = question.request | {"max_price": str(deal.price), "view": view}
        for number in range(_VERSIONS):
            try:
                return await oracle.ask(question.dataset, request, question.key(number))
            except DodonaError as fault:
                if fault.code != _KEY_REUSED:  # it was asked of an earlier version of the data
                    raise
        raise InvalidArgument("question", question.text, "it was asked of too many versions of the data; rephrase it")

    async def left_today(self, oracle: Oracle, dataset: str) -> Fraction:
        """Return what the day's cap leaves."""
        return max(Fraction(0), self.caps.day - await spent_today(oracle, dataset))

    async def _hold_to_day(self, oracle: Oracle, dataset: str, price: Fraction) -> None:
        if price == 0:
            return
        left = await self.left_today(oracle, dataset)
        if price > left:
            raise AgentCap(price=price, most=left, because="the rest of the cap on a day of an agent (UTC)")


async def spent_today(oracle: Oracle, dataset: str) -> Fraction:
    """Return the share of the budget that the caller spent today, through any door."""
    today, spent = datetime.now(UTC).date().isoformat(), Fraction(0)
    async for charge in oracle.charges(dataset):
        if charge["time"] < today:  # a clock that was set back may hide some: the ledger holds the cap
            break
        spent += Fraction(charge["share"])
    return spent


def consent_text(deal: Deal) -> str:
    """Return what a person is asked: the price first, as the question was written by a program."""
    text = printable(deal.question.text)
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}… ({len(text):,} characters)"
    return (
        f"Pay {format_percent(deal.price)} of the privacy budget of {printable(deal.question.dataset)}? "
        f"It cannot be had back. An agent wants to ask:\n\n{shown}"
    )
