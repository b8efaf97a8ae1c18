"""Questions as values: each has a SQL text, in many wordings, and a truth, read off the rows without the product.

Conditions are three-valued, as docs/sql.md says: where they are true, and where they are false.
"""

from __future__ import annotations

import datetime as dt
import math
import random as chances
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, assert_never

import numpy as np

from tests.sessions.dataset import MISSING, OUTSIDE, Column, Dataset, Table

Mask = np.ndarray[Any, np.dtype[np.bool_]]
Truth = tuple[Mask, Mask]
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DENIED = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True)
class Compare:
    """A column against one of its values."""

    column: str
    operator: str
    code: int


@dataclass(frozen=True, slots=True)
class Among:
    column: str
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Between:
    column: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Null:
    column: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Is:
    """A boolean column: `b`, or `b IS NOT TRUE` and its kin."""

    column: str
    word: Literal["", "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"]


@dataclass(frozen=True, slots=True)
class Like:
    column: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a date or a time."""

    column: str
    part: Literal["year", "month", "isodow", "hour"]
    number: int


@dataclass(frozen=True, slots=True)
class Pairs:
    columns: tuple[str, str]
    codes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Condition


Condition = Compare | Among | Between | Null | Is | Like | Part | Pairs | And | Or | Not


@dataclass(frozen=True, slots=True)
class Key:
    """What is grouped by: a column, by its declared bins or values, or by a width in codes."""

    column: str
    width: int | None = None


Measure = Literal[
    "count", "count_of", "sum", "avg", "share", "var_pop", "var_samp", "stddev_pop", "stddev_samp",
    "quantile", "people",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Aggregate:
    measure: Measure
    column: str | None = None
    where: Condition | None = None
    """What FILTER says; of a share, the condition itself."""
    level: str = "0.5"
    """Of a quantile."""
    factor: int = 1
    shift: int = 0
    """Of a sum: of factor · x + shift."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    operator: Literal["+", "-", "*", "/"]
    left: Aggregate
    right: Aggregate | int


Term = Aggregate | Arithmetic


@dataclass(frozen=True, slots=True)
class Question:
    """One SELECT."""

    terms: tuple[Term, ...]
    where: Condition | None = None
    keys: tuple[Key, ...] = ()
    having: int | None = None
    """Rows whose first term is above this number."""
    order: Literal["", "ASC", "DESC"] = ""
    """By the first term."""
    limit: int | None = None

    @property
    def selected(self) -> bool:
        """Whether noisy values decide what is shown."""
        return self.having is not None or self.limit is not None

    def text(self, dataset: Dataset, words: int = 0) -> str:
        """Return the SQL text; another number of words is another text of the same meaning."""
        return _Writer(dataset, words).question(self)


class _Writer:
    """Writes questions; words 0 are plain, others are drawn from a generator of that seed."""

    def __init__(self, dataset: Dataset, words: int) -> None:
        self.dataset, self.plain, self.random = dataset, words == 0, chances.Random(words)  # noqa: S311  wordings
        self.alias = self.some(0.3)

    def some(self, probability: float) -> bool:
        return not self.plain and self.random.random() < probability

    def question(self, asked: Question) -> str:
        keys = [self.key(key) for key in asked.keys]
        terms = [self.term(term) for term in asked.terms]
        names = [f"{text} AS x{number}" for number, text in enumerate(terms)] if self.some(0.5) else terms
        text = f"SELECT {', '.join([*keys, *names])} FROM t{' AS s' if self.alias else ''}"
        where = None if asked.where is None else self.condition(asked.where)
        if self.some(0.3):
            where = "1 = 1" if where is None else f"1 = 1 AND ({where})"
        text += f" WHERE {where}" if where is not None else ""
        if keys:
            text += " GROUP BY " + (
                ", ".join(map(str, range(1, len(keys) + 1)))
                if self.some(0.3)
                else "ALL"
                if self.some(0.2)
                else ", ".join(keys)
            )
        if asked.having is not None:
            text += f" HAVING {terms[0]} > {asked.having}"
        if asked.order:
            text += f" ORDER BY {terms[0]} {asked.order}"
        if asked.limit is not None:
            text += f" LIMIT {asked.limit}"
        return text + (" ;" if self.some(0.2) else "")

    def name(self, column: str) -> str:
        shown = column.upper() if self.some(0.2) else f'"{column}"' if self.some(0.1) else column
        return f"s.{shown}" if self.alias and self.some(0.5) else shown

    def key(self, own: Key) -> str:
        column = self.dataset.column(own.column)
        if own.width is None:
            return own.column
        width = own.width * column.step
        return f"bin({own.column}, {int(width) if width.denominator == 1 else float(width)})"

    def term(self, own: Term) -> str:
        if isinstance(own, Arithmetic):
            right = str(own.right) if isinstance(own.right, int) else self.term(own.right)
            return f"{self.term(own.left)} {own.operator} {right}"
        text = self.measure(own)
        if own.where is not None and own.measure != "share":
            text += f" FILTER (WHERE {self.condition(own.where)})"
        return text

    def measure(self, own: Aggregate) -> str:
        column = "" if own.column is None else self.name(own.column)
        match own.measure:
            case "count":
                return "count(1)" if self.some(0.3) else "count(*)"
            case "count_of":
                return f"count({column})"
            case "people":
                return "count(DISTINCT who)"
            case "sum":
                inner = column if own.factor == 1 else f"{own.factor} * {column}"
                return f"sum({inner}{f' + {own.shift}' if own.shift else ''})"
            case "avg":
                return f"{'mean' if self.some(0.3) else 'avg'}({column})"
            case "share":
                assert own.where is not None
                return f"avg({self.condition(own.where)})"
            case "quantile":
                if own.level == "0.5" and (self.plain or self.some(0.5)):
                    return f"median({column})"
                if self.some(0.3):
                    return f"percentile_cont({own.level}) WITHIN GROUP (ORDER BY {column})"
                return f"quantile({column}, {own.level})"
            case "stddev_samp":
                return f"{'stddev' if self.some(0.5) else 'stddev_samp'}({column})"
            case "var_samp":
                return f"{'variance' if self.some(0.5) else 'var_samp'}({column})"
            case _:
                return f"{own.measure}({column})"

    def condition(self, own: Condition) -> str:
        match own:
            case Compare(name, operator, code):
                return self.compare(name, operator, code)
            case Among(name, codes):
                column = self.dataset.column(name)
                listed = [column.literal(code) for code in codes]
                if self.some(0.3):
                    self.random.shuffle(listed)
                    return "(" + " OR ".join(f"{self.name(name)} = {literal}" for literal in listed) + ")"
                return f"{self.name(name)} IN ({', '.join(listed)})"
            case Between(name, low, high):
                first, last = (self.dataset.column(name).literal(code) for code in (low, high))
                if self.some(0.4):
                    return f"({self.compare(name, '>=', low)} AND {self.compare(name, '<=', high)})"
                return f"{self.name(name)} BETWEEN {first} AND {last}"
            case Null(name, negated):
                return f"{self.name(name)} IS {'NOT ' if negated else ''}NULL"
            case Is(name, word):
                if not word and self.some(0.5):
                    return self.random.choice((f"{self.name(name)} = TRUE", f"NOT ({self.name(name)} = FALSE)"))
                return f"{self.name(name)} {word}".strip()
            case Like(name, prefix):
                return f"{self.name(name)} LIKE '{prefix}%'"
            case Part(name, part, number):
                if self.some(0.4):
                    return f"extract({part} FROM {self.name(name)}) = {number}"
                return f"date_part('{part}', {self.name(name)}) = {number}"
            case Pairs(names, codes):
                first, second = map(self.dataset.column, names)
                listed = ", ".join(f"({first.literal(left)}, {second.literal(two)})" for left, two in codes)
                return f"({', '.join(map(self.name, names))}) IN ({listed})"
            case And(parts) | Or(parts):
                word = " AND " if isinstance(own, And) else " OR "
                texts = [self.condition(part) for part in parts]
                if self.some(0.4):
                    self.random.shuffle(texts)
                return "(" + word.join(texts) + ")"
            case Not(part):
                return f"NOT ({self.condition(part)})"
            case _:
                assert_never(own)

    def compare(self, name: str, operator: str, code: int) -> str:
        column, value = self.name(name), self.dataset.column(name).literal(code)
        if self.some(0.3):
            return f"{value} {_TURNED[operator]} {column}"
        if self.some(0.3):
            return f"NOT ({column} {_DENIED[operator]} {value})"
        return f"{column} {operator} {value}"


def holds(own: Condition, dataset: Dataset, rows: Table) -> Truth:
    """Return the rows for which a condition is true, and those for which it is false."""
    match own:
        case Compare(name, operator, code):
            return _compared(dataset.column(name), rows.codes[name], operator, code)
        case Among(name, codes):
            return holds(Or(tuple(Compare(name, "=", code) for code in codes)), dataset, rows)
        case Between(name, low, high):
            return holds(And((Compare(name, ">=", low), Compare(name, "<=", high))), dataset, rows)
        case Null(name, negated):
            null = rows.codes[name] == MISSING
            return (~null, null) if negated else (null, ~null)
        case Is(name, word):
            yes, no = rows.codes[name] == 1, rows.codes[name] == 0
            match word:
                case "":
                    return yes, no
                case "IS TRUE" | "IS NOT TRUE":
                    return (yes, ~yes) if word == "IS TRUE" else (~yes, yes)
                case _:
                    return (no, ~no) if word == "IS FALSE" else (~no, no)
        case Like(name, prefix):
            column = dataset.column(name)
            fits = np.array([text.startswith(prefix) for text in column.labels] + [False, False])
            value = rows.codes[name] >= 0
            return value & fits[rows.codes[name]], value & ~fits[rows.codes[name]]
        case Part(name, part, number):
            column = dataset.column(name)
            parts = np.array([_part(column.value(code), part) for code in range(column.size)] + [0, 0])  # type: ignore[arg-type]
            value = rows.codes[name] >= 0
            return value & (parts[rows.codes[name]] == number), value & (parts[rows.codes[name]] != number)
        case Pairs((first, second), codes):
            either = tuple(And((Compare(first, "=", left), Compare(second, "=", two))) for left, two in codes)
            return holds(Or(either), dataset, rows)
        case And(parts) | Or(parts):
            truths = [holds(part, dataset, rows) for part in parts]
            yes, no = np.array([yes for yes, _ in truths]), np.array([no for _, no in truths])
            return (yes.all(axis=0), no.any(axis=0)) if isinstance(own, And) else (yes.any(axis=0), no.all(axis=0))
        case Not(part):
            yes, no = holds(part, dataset, rows)
            return no, yes
        case _:
            assert_never(own)


def _part(day: dt.date, part: str) -> int:
    hour = day.hour if isinstance(day, dt.datetime) else 0
    return {"year": day.year, "month": day.month, "isodow": day.isoweekday(), "hour": hour}[part]


def _compared(column: Column, codes: np.ndarray[Any, Any], operator: str, code: int) -> Truth:
    value = codes >= 0
    match operator:
        case "=" | "<>":
            # What is outside a category is a text that differs from every label.
            known = value | (codes == OUTSIDE) if column.kind == "category" else value
            same = value & (codes == code)
            return (same, known & ~same) if operator == "=" else (known & ~same, same)
        case "<":
            yes = codes < code
        case "<=":
            yes = codes <= code
        case ">":
            yes = codes > code
        case _:
            yes = codes >= code
    return value & yes, value & ~yes


def groups(asked: Question, dataset: Dataset, rows: Table) -> Iterator[Mask]:
    """Yield the rows of each group, in the order in which groups are answered."""
    meant = np.ones(len(rows.people), dtype=np.bool_)
    if asked.where is not None:
        meant = holds(asked.where, dataset, rows)[0]
    number = np.zeros(len(rows.people), dtype=np.int64)
    total = 1
    for key in asked.keys:
        column = dataset.column(key.column)
        firsts = cuts_of(key, column)
        index = np.searchsorted(firsts, rows.codes[key.column], side="right") - 1
        index[rows.codes[key.column] == MISSING] = len(firsts)
        index[rows.codes[key.column] == OUTSIDE] = len(firsts) + 1
        count = len(firsts) + column.cells - column.size
        number, total = number * count + index, total * count
    for group in range(total):
        yield meant & (number == group)


def cuts_of(key: Key, column: Column) -> list[int]:
    """Return the first code of each group of a key."""
    if key.width is not None:
        first = -int(column.lower / column.step) % key.width if column.lower % (key.width * column.step) else 0
        return sorted({0, *range(first, column.size, key.width)})
    return list(column.cuts) if column.cuts is not None else list(range(column.size))


def labels(asked: Question, dataset: Dataset) -> int:
    """Return how many groups there are."""
    total = 1
    for key in asked.keys:
        column = dataset.column(key.column)
        total *= len(cuts_of(key, column)) + column.cells - column.size
    return total


def truth(own: Term, dataset: Dataset, rows: Table, meant: Mask) -> Fraction | float | None:
    """Return the exact answer about the rows that are meant; None where there is none."""
    if isinstance(own, Arithmetic):
        left = truth(own.left, dataset, rows, meant)
        right = own.right if isinstance(own.right, int) else truth(own.right, dataset, rows, meant)
        if left is None or right is None or (own.operator == "/" and right == 0):
            return None
        return {"+": left + right, "-": left - right, "*": left * right, "/": left / (right or 1)}[own.operator]
    if own.measure == "share":
        assert own.where is not None
        yes, no = (int((meant & part).sum()) for part in holds(own.where, dataset, rows))
        return Fraction(yes, yes + no) if yes + no else None
    if own.where is not None:
        meant = meant & holds(own.where, dataset, rows)[0]
    match own.measure:
        case "count":
            return Fraction(int(meant.sum()))
        case "people":
            return Fraction(len(np.unique(rows.people[meant])))
        case _:
            assert own.column is not None
            codes = rows.codes[own.column][meant]
            return _of_values(own, dataset.column(own.column), codes[codes >= 0])


def _of_values(own: Aggregate, column: Column, codes: np.ndarray[Any, Any]) -> Fraction | float | None:
    number = len(codes)
    if own.measure == "count_of":
        return Fraction(number)
    low, step = (Fraction(0), Fraction(1)) if column.kind == "boolean" else (column.lower, column.step)
    total = number * low + int(codes.sum()) * step
    if own.measure == "sum":
        return own.factor * total + own.shift * number
    if number == 0:
        return None
    match own.measure:
        case "avg":
            return total / number
        case "quantile":
            rank = max(math.ceil(Fraction(own.level) * number), 1)
            return low + int(np.sort(codes)[rank - 1]) * step
        case _:
            squares = sum(int(code) ** 2 for code in codes) * step**2
            around = squares - (int(codes.sum()) * step) ** 2 / number
            less = 1 if own.measure.endswith("samp") else 0
            if number <= less:
                return None
            variance = around / (number - less)
            return variance if own.measure.startswith("var") else math.sqrt(variance)
