"""What a remote curator returns where a local one returns something that holds data or noise."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from dodona.answer.recorded import RecordedAnswer
from dodona.client.calls import ViewName
from dodona.client.problems import read_problem
from dodona.errors import DodonaError
from dodona.privacy.budget import Price

# --- Answers whose other intervals are fetched when they are wanted. ---


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RemoteAnswer(RecordedAnswer):
    """An answer of a server. Other intervals for the same values are fetched from there, for nothing."""

    fetch: Callable[[ViewName], RemoteAnswer] = field(repr=False)

    @property
    def population(self) -> RemoteAnswer:
        """The answer for the population that the rows were sampled from: intervals include the sampling error."""
        return self.fetch("population")

    def simultaneous(self) -> RemoteAnswer:
        """Return the answer with intervals that hold simultaneously for all groups and columns."""
        return self.fetch("simultaneous")

    def any_choice(self) -> RemoteAnswer:
        """Return the answer with intervals that hold simultaneously for every question about the released values."""
        return self.fetch("any_choice")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AsyncRemoteAnswer(RecordedAnswer):
    """An answer of a server. Other intervals for the same values are awaited from there, for nothing."""

    fetch: Callable[[ViewName], Coroutine[Any, Any, AsyncRemoteAnswer]] = field(repr=False)

    async def population(self) -> AsyncRemoteAnswer:
        """Return the answer for the population that the rows were sampled from."""
        return await self.fetch("population")

    async def simultaneous(self) -> AsyncRemoteAnswer:
        """Return the answer with intervals that hold simultaneously for all groups and columns."""
        return await self.fetch("simultaneous")

    async def any_choice(self) -> AsyncRemoteAnswer:
        """Return the answer with intervals that hold simultaneously for every question about the released values."""
        return await self.fetch("any_choice")


# --- Watches and releases. ---


@dataclass(frozen=True, slots=True)
class RemoteVerdict:
    """Whether a count is above the threshold of a watch, both with noise."""

    above: bool
    gap: int | None = None
    """By how much the noisy value exceeds the noisy threshold; only for what is above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTerms:
    """What a watch was opened for, and what is left of it."""

    key: str
    threshold: int
    price: Price
    within: float
    """Counts further from the threshold than this are all classified correctly, at the confidence."""
    confidence: float
    questions: int
    """For how many questions that holds."""
    left: int
    """The number of remaining alerts."""
    about: str = ""

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, key: str) -> Self:
        """Return the terms that a server sent."""
        return cls(
            key=key,
            threshold=document["threshold"],
            price=Price.from_document(document["price"]),
            within=document["within"],
            confidence=document["confidence"],
            questions=document["questions"],
            left=document["left"],
            about=document.get("about", ""),
        )

    def __str__(self) -> str:
        right = f"of {self.questions:,} counts, all that are {self.within:.4g} away are classified correctly"
        about = f" {self.about}" if self.about else ""
        return f"Which counts are above {self.threshold:,} ({right}, at {self.confidence:.15g}; {self.price}).{about}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseState:
    """How far a synthetic release is."""

    key: str
    state: Literal["waiting", "running", "done", "failed"]
    progress: float
    """From 0 to 1."""
    about: str
    """What it is at, in words."""
    release: Mapping[str, Any] | None
    """The facts of a release that is done: its method, columns, share, charges, promise and number of rows."""
    problem: DodonaError | None
    """Why it failed."""

    @classmethod
    def from_json(cls, text: bytes, *, key: str) -> Self:
        """Return the state that a server sent."""
        document = json.loads(text)
        problem = document["problem"]
        return cls(
            key=key,
            state=document["state"],
            progress=float(document["done"]),
            about=document["about"],
            release=document["release"],
            problem=None
            if problem is None
            else read_problem(problem["status"], json.dumps(problem).encode(), charged=None),
        )

    @property
    def ended(self) -> bool:
        """Whether it is done, or failed."""
        return self.state in {"done", "failed"}

    def __str__(self) -> str:
        about = f" ({self.about})" if self.about else ""
        return f"Release {self.key}: {self.state}, {self.progress:.0%}{about}."
