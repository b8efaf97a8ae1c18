"""Dodona as an attacker sees it: a table with a budget, used only through queries and answers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, Self, cast

import numpy as np

import dodona
from dodona import Boolean, Budget, Integer, Query, Schema
from dodona.answer.estimate import EstimateValue, to_float
from dodona.errors import InvalidArgument, InvariantBroken
from dodona.lab.attacks.target import Numbers, Secrets, Sets
from dodona.privacy.accountants import Accountant
from dodona.query.column import EQUAL, columns, comparison_mask
from dodona.query.predicate import among_mask

if TYPE_CHECKING:
    from dodona.answer.answer import Answer
    from dodona.curator.curator import Curator

SqlOrQuery = str | Query
_HALVINGS = 7  # how finely a price is found that what is left can pay
_WORDINGS = (
    "SELECT id, count(*) FROM people WHERE secret GROUP BY id",
    "select id, count(*) as c from people where secret = true group by id",
    "SELECT id, count(*) FROM people WHERE NOT NOT secret AND id >= 0 GROUP BY id",
    "SELECT id, sum(CASE WHEN secret THEN 1 ELSE 0 END) FROM people GROUP BY id",
)


def open_table(frame: object, schema: Schema, budget: Budget) -> Curator:
    """Return `dodona.open` of a frame with an in-memory ledger, which is enough for made-up people."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The ledger is in memory")
        return dodona.open(frame, schema=schema, budget=budget, max_price=1)


def affordable(curator: Curator, questions: Sequence[SqlOrQuery]) -> Fraction:
    """Return the largest ε at which an untouched budget pays for the queries, asked together.

    Under pure accounting that is the whole budget; otherwise it is found by free quotes.
    """
    total = curator.budget.total
    if total.accountant is Accountant.PURE:
        return total.epsilon
    low, high = Fraction(0), total.epsilon
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if curator.quote(questions, epsilon=middle).price.share <= 1:
            low = middle
        else:
            high = middle
    return low


def buy_answers(curator: Curator, questions: Sequence[SqlOrQuery]) -> tuple[Answer, ...]:
    """Return answers to queries asked together, for the whole of an untouched budget."""
    return cast("tuple[Answer, ...]", curator.ask_many(questions, epsilon=affordable(curator, questions)))


def ask_values(curator: Curator, questions: Sequence[SqlOrQuery]) -> Numbers:
    """Return the values of queries with one answer each, for the whole of an untouched budget."""
    return np.array([to_number(answer.value.value) for answer in buy_answers(curator, questions)])


def to_number(value: EstimateValue | None) -> float:
    """Return a value as a number; a count always has one."""
    if value is None:
        raise InvariantBroken("A count has no value.")
    return to_float(value)


@dataclass(slots=True)
class DodonaTarget:
    """Dodona with people and their secrets behind it; a context manager."""

    secrets: Secrets
    budget: Budget
    _curator: Curator = field(init=False)
    _epsilon: Fraction | None = field(init=False, default=None)
    _wordings: Iterator[int] = field(init=False, default_factory=count)

    def __post_init__(self) -> None:
        """Open the table. Neighbours replace one person, so changing one secret is one step."""
        import pyarrow as pa

        frame = pa.table({"id": np.arange(self.people), "secret": self.secrets.astype(np.bool_)})
        self._curator = open_table(frame, _schema(self.people), self.budget)

    @property
    def people(self) -> int:
        """The number of people in the table, which is public."""
        return self.secrets.size

    def counts(self, sets: Sets, /) -> Numbers:
        """Return an answer for each set, for the whole budget together."""
        if sets.ndim != 2 or sets.shape[1] != self.people:  # noqa: PLR2004
            raise InvalidArgument("sets", sets.shape, f"write a row for each set, with {self.people} columns")
        domain = self._curator.schema.domain
        having, identity = columns(domain)["secret"].isin([True]), domain["id"]
        each = np.array([comparison_mask(identity, EQUAL, person) for person in range(self.people)], dtype=object)
        meant = (among_mask(identity, int(each[row].sum())) for row in sets)
        return ask_values(self._curator, [Query.count(domain, having & people) for people in meant])

    def individual_counts(self) -> Numbers:
        """Return an answer for each person: the first call spends the whole budget, later ones rephrase the query."""
        wording = _WORDINGS[next(self._wordings) % len(_WORDINGS)]
        if self._epsilon is None:
            self._epsilon = affordable(self._curator, [wording])
        answer = self._curator.ask(wording, epsilon=self._epsilon)
        counts = {row.keys[0]: to_number(row.estimates[0].value) for row in answer.rows}
        return np.array([counts[person] for person in range(self.people)])

    @property
    def left(self) -> Fraction:
        """The share of the budget that is left."""
        return self._curator.budget.left

    def close(self) -> None:
        """Close the table."""
        self._curator.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _schema(people: int) -> Schema:
    return Schema.of("people", Integer("id", 0, people - 1), Boolean("secret"), size=people, neighbours="replace")
