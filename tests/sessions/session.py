"""Sessions as values: a dataset and steps, drawn from a seed. Any step can be left out: each says what it needs."""

from __future__ import annotations

import datetime as dt
import random as chances
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from tests.sessions.dataset import Column, Dataset, Door, Request
from tests.sessions.question import (
    Aggregate,
    Among,
    And,
    Arithmetic,
    Between,
    Compare,
    Condition,
    Is,
    Key,
    Like,
    Measure,
    Not,
    Null,
    Or,
    Pairs,
    Part,
    Question,
    Term,
    labels,
)
from tests.sessions.shapes import Shape, draw

_TOTALS = frozenset(("count", "count_of", "people", "sum"))
MOST_GROUPS = 120
"""Of one question: more make a session slow and find nothing else."""
_SIZES = ((0, 4), (1, 4), (2, 4), (50, 40), (300, 26), (2_000, 18), (20_000, 3), (100_000, 1))
_TEXTS = ("SELECT * FROM t", "SELECT count(*) FROM other", "SELECT nothing, count(*) FROM t", "DELETE FROM t", "")


@dataclass(frozen=True, slots=True)
class Ask:
    question: Question
    request: Request
    words: int = 0
    key: str | None = None
    quoted: bool = False
    """Whether its price is asked for just before."""
    analyst: int = 0
    door: Literal["python", "command"] = "python"


@dataclass(frozen=True, slots=True)
class Anew:
    """A question that is measured with new noise alone, whatever was answered before."""

    question: Question
    request: Request
    quoted: bool = False
    analyst: int = 0


@dataclass(frozen=True, slots=True)
class AskMany:
    questions: tuple[Question, ...]
    request: Request
    key: str | None = None
    quoted: bool = False
    analyst: int = 0


@dataclass(frozen=True, slots=True)
class Prepare:
    questions: tuple[Question, ...]
    request: Request
    """After it, each of the questions is asked, and must be free."""
    analyst: int = 0


@dataclass(frozen=True, slots=True)
class Choose:
    question: Question
    epsilon: str
    count: int
    key: str | None = None
    analyst: int = 0


@dataclass(frozen=True, slots=True)
class Above:
    questions: tuple[Question, ...]
    threshold: int
    epsilon: str
    alerts: int
    analyst: int = 0


@dataclass(frozen=True, slots=True)
class Weigh:
    questions: tuple[Question, ...]
    columns: tuple[str, ...]
    epsilon: str
    analyst: int = 0


@dataclass(frozen=True, slots=True)
class Drill:
    """Counts by one column, then a question about the groups with the largest answers."""

    question: Question
    request: Request
    into: Literal["largest", "half"]
    analyst: int = 0


@dataclass(frozen=True, slots=True)
class Compute:
    """A statement that computes on the counts of the groups of one question."""

    question: Question
    request: Request
    outer: int
    """Which of `OUTER` it is."""
    quoted: bool = False
    key: str | None = None
    analyst: int = 0

    def text(self, dataset: Dataset) -> str:
        return f"WITH x(k, n) AS ({self.question.text(dataset)}) {OUTER[self.outer]}"


OUTER = (
    "SELECT sum(n) AS y FROM x",
    "SELECT k, n, 100 * n / sum(n) OVER () AS y FROM x",
    "SELECT k, n - lag(n) OVER (ORDER BY k) AS y FROM x",
    "SELECT max(n) - min(n) AS y, count(*) AS z FROM x",
    "SELECT k, n FROM x ORDER BY n DESC, k LIMIT 2",
    "SELECT a.k, a.n / (SELECT sum(b.n) FROM x AS b) AS y FROM x AS a WHERE a.n > 0",
    "SELECT CASE WHEN n > 10 THEN 'many' ELSE 'few' END AS size, count(*) AS y, round(sum(n)) AS z FROM x GROUP BY 1",
    "SELECT n FROM x UNION ALL SELECT sum(n) FROM x",
)
"""Statements over a relation x of keys k and counts n; the first one has a truth that is the count of all groups."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Several threads ask at once: the same question, or different ones."""

    questions: tuple[Question, ...]
    request: Request
    analyst: int = 0


@dataclass(frozen=True, slots=True)
class Reopen:
    """The dataset is closed and opened again; what was answered is asked again, and must be the same, for nothing."""


@dataclass(frozen=True, slots=True)
class Renew:
    """The rows change and the version is raised: what was answered about the older rows is not told again."""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A text that is no question."""

    text: str
    analyst: int = 0


@dataclass(frozen=True, slots=True)
class Raise:
    """The owner doubles the budget by command; what was answered stays answered, and free."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The owner stops an analyst, who may then see what was answered and spend nothing, and admits them again."""

    question: Question
    analyst: int


@dataclass(frozen=True, slots=True)
class Synthesize:
    """A release of all marginals of two columns, from which a model is made; the same again is free."""

    columns: tuple[str, ...]
    share: str
    analyst: int = 0


Step = (
    Ask | Anew | AskMany | Prepare | Choose | Above | Weigh | Drill | Compute | Threads | Reopen | Renew | Wrong
    | Shape | Raise | Stop | Synthesize
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Session:
    seed: int
    dataset: Dataset
    steps: tuple[Step, ...]


def session(seed: int) -> Session:
    """Return the session of a seed."""
    random = chances.Random(seed)  # noqa: S311  made-up sessions
    dataset = _dataset(random, seed)
    further = chances.Random(-seed)  # noqa: S311  of its own, so that a seed stays the session that it was before
    dataset = replace(dataset, columns=tuple(_timed(further, column) for column in dataset.columns))
    steps = _Asker(random, dataset).steps()
    later = chances.Random(f"{seed} later")  # noqa: S311  likewise
    dataset = _among_others(later, dataset)
    steps = tuple(step for first in steps for step in (first, *_anew(further, first), *_later(later, dataset)))
    return Session(seed, dataset, steps)


def _among_others(random: chances.Random, dataset: Dataset) -> Dataset:
    """Return a dataset that may have further tables, and may be on a server."""
    labelled = [column.name for column in dataset.columns if column.kind == "category"]
    if random.random() < 0.3 and labelled:
        dataset = replace(dataset, public=random.choice(labelled))
    if random.random() < 0.5 and dataset.cap is not None:
        dataset = replace(dataset, linked=True)
    if random.random() < 0.15 and dataset.door in {"csv", "parquet"} and dataset.rows <= 2_000 and not dataset.linked:
        dataset = replace(dataset, door="postgres")
    return dataset


def _later(random: chances.Random, dataset: Dataset) -> tuple[Step, ...]:
    """Return a step that may follow any other."""
    chance, who = random.random(), random.randrange(max(1, len(dataset.analysts)))
    if chance < 0.16:
        shape = draw(random, dataset)
        return () if shape is None else (shape,)
    if 0.16 <= chance < 0.175 and dataset.door != "memory":
        return (Raise(),)
    if 0.175 <= chance < 0.2 and dataset.analysts:
        return (Stop(Question((Aggregate("count"),)), who),)
    small = tuple(column.name for column in dataset.columns if column.cells < 20)
    if 0.2 <= chance < 0.205 and len(small) > 1:
        return (Synthesize(small[:2], random.choice(("1/100", "1/10")), who),)
    return ()


def _timed(random: chances.Random, column: Column) -> Column:
    """Return a column of days, sometimes as one of times."""
    if column.kind != "date" or random.random() < 0.6:
        return column
    day = int(column.lower) - dt.date(1970, 1, 1).toordinal()
    step = Fraction(random.choice((60, 900, 3_600, 21_600, 86_400)))
    return replace(column, kind="timestamp", lower=day * Fraction(86_400), step=step, cuts=None)


def _anew(random: chances.Random, step: Step) -> tuple[Step, ...]:
    if not isinstance(step, Ask) or random.random() > 0.06:
        return ()
    return (Anew(step.question, step.request, random.random() < 0.5, step.analyst),)


def _dataset(random: chances.Random, seed: int) -> Dataset:
    (rows,) = random.choices([size for size, _ in _SIZES], [weight for _, weight in _SIZES])
    kinds = random.choices(
        ("category", "integer", "number", "date", "boolean"), (4, 3, 2, 2, 3), k=random.randint(1, 5)
    )
    columns = tuple(_column(random, kind, f"{kind[0]}{number}") for number, kind in enumerate(kinds))
    accountant = random.choice(("pure", "zcdp", "renyi", "gaussian", "either"))
    door: Door = random.choices(("memory", "ledger", "csv", "parquet"), (5, 4, 1, 1))[0]
    neighbours = random.choice(("add-remove", "replace"))
    people = random.random() < 0.3
    known = neighbours == "replace" or random.random() < 0.5
    several = door != "memory" and random.random() < 0.4
    return Dataset(
        columns=columns,
        rows=rows,
        seed=seed,
        size=max(1, rows if known else round(rows * random.uniform(0.5, 2))),
        neighbours=neighbours,
        cap=random.choice((1, 2, 5)) if people else None,
        crowded=people and random.random() < 0.2,
        epsilon=random.choice(("0.1", "1", "10", "10", "10", "100")),
        delta="0" if accountant == "pure" else random.choice(("1e-6", "1e-9")),
        accountant=accountant,
        after="model" if random.random() < 0.1 else "refuse",
        door=door,
        analysts=(("ada", random.choice(("1", "1/2"))), ("grace", "1/3")) if several else (),
    )


def _column(random: chances.Random, kind: str, name: str) -> Column:
    complete = random.random() < 0.4
    match kind:
        case "category":
            size = random.choice((1, 2, 3, 5, 12))
            named = tuple(f"{'ab'[place % 2]}{place}" for place in range(size))
            otherwise = random.randrange(size) if complete and size > 1 else None
            return Column(kind="category", name=name, size=size, labels=named, otherwise=otherwise)
        case "boolean":
            return Column(kind="boolean", name=name, otherwise=random.randrange(2) if complete else None)
        case "date":
            first, size = dt.date(2020, random.randint(1, 12), 1).toordinal(), random.choice((7, 60, 800))
            lower, step = Fraction(first), Fraction(1)
        case "integer":
            lower, size, step = Fraction(random.choice((0, -5, 18))), random.choice((2, 7, 40, 111)), Fraction(1)
        case _:
            step = random.choice((Fraction(1), Fraction(1, 2), Fraction(1, 4), Fraction(5)))
            lower, size = Fraction(random.choice((0, -10))), random.choice((3, 21, 121))
    cuts = None
    if size > 3 and random.random() < 0.4:
        cuts = (0, *sorted(random.sample(range(1, size - 1), min(size - 2, random.randint(1, 4)))))
    otherwise = random.randrange(size) if complete else None
    return Column(
        kind=kind,  # type: ignore[arg-type]
        name=name,
        size=size,
        lower=lower,
        step=step,
        cuts=cuts,
        otherwise=otherwise,
    )


class _Asker:
    """Draws the steps of a session."""

    def __init__(self, random: chances.Random, dataset: Dataset) -> None:
        self.random, self.dataset = random, dataset
        self.asked: list[Ask] = []
        self.counting = random.random() < 0.35
        """Whether all questions are counts, mostly of one accuracy: then much is derived, and bundles are bought."""
        self.usual: Request | None = None

    def steps(self) -> tuple[Step, ...]:
        number = self.random.choice((1, 2, 3, 4, 4, 5, 6, 8, 12))
        return tuple([self.step() for _ in range(number)])

    def step(self) -> Step:
        kinds = (
            "ask",
            "again",
            "many",
            "prepare",
            "choose",
            "above",
            "weigh",
            "drill",
            "compute",
            "threads",
            "reopen",
            "renew",
            "wrong",
        )
        (kind,) = self.random.choices(kinds, (46, 20, 5, 5, 4, 3, 0.3, 7, 3, 2.5, 6, 1.5, 3))
        random = self.random
        match kind:
            case "again" if self.asked:
                return self.again(random.choice(self.asked))
            case "many":
                questions = tuple(self.question() for _ in range(random.randint(1, 4)))
                return AskMany(questions, self.request(questions), self.key(), random.random() < 0.3, self.who())
            case "prepare":
                questions = tuple(Question((Aggregate("count"),), self.where()) for _ in range(random.randint(1, 4)))
                return Prepare(questions, self.tolerance(questions), self.who())
            case "choose":
                asked = Question((self.total(),), self.maybe(0.3), (self.key_of(),))
                count = min(random.randint(1, 3), labels(asked, self.dataset))
                return Choose(asked, self.price(), count, self.key(), self.who())
            case "above":
                questions = tuple(Question((Aggregate("count"),), self.where()) for _ in range(random.randint(1, 5)))
                threshold = random.randint(0, self.dataset.size)
                return Above(questions, threshold, self.price(), random.randint(1, 2), self.who())
            case "weigh":
                small = [column.name for column in self.dataset.columns if column.cells < 50][:2]
                questions = (
                    tuple(Question((Aggregate("count"),), self.condition(small)) for _ in range(3)) if small else ()
                )
                return Weigh(questions, tuple(small), self.price(), self.who()) if small else Reopen()
            case "drill":
                asked = Question(
                    (Aggregate("count"),), self.maybe(0.2), (Key(self.random.choice(self.dataset.columns).name),)
                )
                if 1 < labels(asked, self.dataset) <= MOST_GROUPS:
                    into: Literal["largest", "half"] = random.choice(("largest", "half"))
                    return Drill(asked, self.tolerance((asked,)), into, self.who())
                return Reopen()
            case "compute":
                asked = Question((Aggregate("count"),), self.maybe(0.3), (self.key_of(),))
                if not 1 < labels(asked, self.dataset) <= MOST_GROUPS:
                    return Reopen()
                number, quoted = random.randrange(len(OUTER)), random.random() < 0.5
                return Compute(asked, self.tolerance((asked,)), number, quoted, self.key(), self.who())
            case "threads":
                same = self.question()
                questions = (same,) * 3 if random.random() < 0.5 else tuple(self.question() for _ in range(3))
                return Threads(questions, self.request(questions), self.who())
            case "reopen":
                return Reopen()
            case "renew":
                return Renew() if self.dataset.door != "memory" else Reopen()
            case "wrong":
                return Wrong(random.choice(_TEXTS), self.who())
            case _:
                asked = self.question()
                door: Literal["python", "command"] = "python"
                if self.dataset.door in {"csv", "parquet"} and random.random() < 0.3:
                    door = "command"
                quoted = random.random() < 0.3
                made = Ask(asked, self.request((asked,)), self.words(), self.key(), quoted, self.who(), door)
                self.asked.append(made)
                return made

    def again(self, first: Ask) -> Ask:
        """Return a question that was asked before: as it was, in other words, or with another tolerance."""
        request, key = first.request, first.key if self.random.random() < 0.7 else None
        if self.random.random() < 0.3:
            request = self.request((first.question,))
            if key is not None and isinstance(first.request.within, int | float):  # sharper than what was paid for
                request = replace(first.request, within=first.request.within / 4)
        return Ask(first.question, request, self.random.randrange(1, 1000), key, analyst=first.analyst)

    def who(self) -> int:
        return self.random.randrange(max(1, len(self.dataset.analysts)))

    def words(self) -> int:
        return 0 if self.random.random() < 0.5 else self.random.randrange(1, 1000)

    def key(self) -> str | None:
        """Return a key that no other step has."""
        return f"k{self.random.randrange(10**9)}" if self.random.random() < 0.15 else None

    def price(self) -> str:
        return f"{self.random.choice((0.01, 0.05, 0.2)) * float(self.dataset.epsilon):.4f}".rstrip("0")

    def request(self, questions: tuple[Question, ...]) -> Request:
        """Return a tolerance or a price; one tolerance in absolute numbers only where all answers have one unit."""
        if self.random.random() < 0.05:
            return Request()
        if self.counting and self.random.random() < 0.8:
            self.usual = self.usual or self.tolerance(questions)
            return self.usual
        counts = all(
            isinstance(term, Aggregate) and term.measure in _TOTALS for asked in questions for term in asked.terms
        )
        if self.random.random() < (0.15 if counts else 0.85):  # tolerances of averages take long to plan
            part = self.random.choice((0.005, 0.05, 0.2)) * float(self.dataset.epsilon)
            return Request(epsilon=f"{part:.4f}".rstrip("0"), confidence=self.confidence())
        return self.tolerance(questions)

    def tolerance(self, questions: tuple[Question, ...]) -> Request:
        """Return a tolerance whose price is a part of the budget, from a thousandth to a half, for a count."""
        measures = {
            term.measure if isinstance(term, Aggregate) else "arithmetic" for asked in questions for term in asked.terms
        }
        if self.random.random() < 0.2 or not measures <= {"count", "count_of", "people"}:
            return Request(within=self.random.choice(("1%", "5%", "20%")), confidence=self.confidence())
        part = 10 ** self.random.uniform(-3, -0.3)
        room = 3 * (self.dataset.cap or 1) / (float(self.dataset.epsilon) * part)
        within = max(1, round(room)) if room > 2 or self.random.random() < 0.8 else round(room, 3)
        return Request(within=within, confidence=self.confidence())

    def confidence(self) -> float | None:
        return self.random.choice((None, None, 0.5, 0.8, 0.9, 0.99))

    def question(self) -> Question:
        random = self.random
        keys: tuple[Key, ...] = ()
        if self.counting:
            keys = (self.key_of(),) if random.random() < 0.15 else ()
            asked = Question((Aggregate("count"),), self.maybe(0.8), keys)
            return asked if labels(asked, self.dataset) <= MOST_GROUPS else replace(asked, keys=())
        if random.random() < 0.35:
            keys = tuple(self.key_of() for _ in range(random.choice((1, 1, 2))))
            keys = tuple({key.column: key for key in keys}.values())
        terms = tuple(self.term() for _ in range(random.choice((1, 1, 1, 1, 2, 3))))
        asked = Question(terms, self.maybe(0.6), keys)
        while labels(asked, self.dataset) > MOST_GROUPS:
            asked = Question(terms, asked.where, asked.keys[1:])
        if any(term.measure == "quantile" for term in terms if isinstance(term, Aggregate)):
            return Question(terms, asked.where, asked.keys[:1] if labels(asked, self.dataset) < 8 else ())
        if asked.keys and random.random() < 0.25:
            having = random.randint(0, self.dataset.size) if random.random() < 0.4 else None
            limit = random.randint(1, 4) if random.random() < 0.4 else None
            return Question(terms, asked.where, asked.keys, having, random.choice(("", "ASC", "DESC")), limit)
        return asked

    def key_of(self) -> Key:
        column = self.random.choice(self.dataset.columns)
        if column.numeric and column.size > 10 and self.random.random() < 0.5:
            return Key(column.name, self.random.choice((5, 10, column.size // 2)))
        return Key(column.name)

    def total(self) -> Aggregate:
        """Return a count or a sum."""
        numbers = [column.name for column in self.dataset.columns if column.numeric]
        if numbers and self.random.random() < 0.3:
            return Aggregate("sum", self.random.choice(numbers))
        return Aggregate("count")

    def term(self) -> Term:
        random = self.random
        if random.random() < 0.08:
            if random.random() < 0.5:
                return Arithmetic("/", Aggregate("count", where=self.where()), Aggregate("count"))
            return Arithmetic(random.choice("+-*"), self.total(), random.randint(1, 3))  # type: ignore[arg-type]
        names = ("count", "count_of", "sum", "avg", "share", "spread", "quantile", "people")
        (kind,) = random.choices(names, (50, 5, 14, 12, 4, 4, 6, 5))
        numbers = [column.name for column in self.dataset.columns if column.numeric]
        match kind:
            case "count_of":
                return Aggregate("count_of", random.choice(self.dataset.columns).name, self.maybe(0.1))
            case "people" if self.dataset.cap is not None:
                return Aggregate("people", None, self.maybe(0.1))
            case "share":
                return Aggregate("share", None, self.where())
            case "sum" if numbers:
                shift = random.randint(1, 3) if random.random() < 0.2 else 0
                factor = random.choice((2, 3)) if random.random() < 0.2 else 1
                return Aggregate("sum", random.choice(numbers), self.maybe(0.2), factor=factor, shift=shift)
            case "avg" if numbers:
                return Aggregate("avg", random.choice(numbers), self.maybe(0.2))
            case "spread" if numbers:
                measure: Measure = random.choice(("var_pop", "var_samp", "stddev_pop", "stddev_samp"))
                return Aggregate(measure, random.choice(numbers))
            case "quantile":
                dates = [column.name for column in self.dataset.columns if column.kind == "date"]
                if numbers + dates:
                    return Aggregate(
                        "quantile", random.choice(numbers + dates), level=random.choice(("0.5", "0.25", "0.9"))
                    )
                return Aggregate("count")
            case _:
                return Aggregate("count", None, self.maybe(0.1))

    def maybe(self, probability: float) -> Condition | None:
        return self.where() if self.random.random() < probability else None

    def where(self) -> Condition:
        random = self.random
        number = random.choice((1, 1, 1, 2, 2, 3))
        parts = tuple(self.condition([column.name for column in self.dataset.columns]) for _ in range(number))
        if number == 1:
            return Not(parts[0]) if random.random() < 0.1 else parts[0]
        return Or(parts) if random.random() < 0.15 else And(parts)

    def condition(self, names: list[str]) -> Condition:
        random = self.random
        column = self.dataset.column(random.choice(names))
        if random.random() < 0.06:
            return Null(column.name, random.random() < 0.5)
        if random.random() < 0.05 and len(names) > 1:
            first, second = random.sample(names, 2)
            left, two = self.dataset.column(first), self.dataset.column(second)
            listed = {(random.randrange(left.size), random.randrange(two.size)) for _ in range(random.randint(1, 3))}
            return Pairs((first, second), tuple(sorted(listed)))
        match column.kind:
            case "category":
                if random.random() < 0.1:
                    return Like(column.name, random.choice(("a", "b")))
                if random.random() < 0.4:
                    return Among(
                        column.name, tuple(sorted(random.sample(range(column.size), random.randint(1, column.size))))
                    )
                return Compare(column.name, random.choice(("=", "=", "<>")), random.randrange(column.size))
            case "boolean":
                return Is(
                    column.name, random.choice(("", "", "", "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"))
                )
            case "date" | "timestamp" if random.random() < 0.25:
                part: Literal["year", "month", "isodow", "hour"] = random.choice(("year", "month", "isodow"))
                if column.kind == "timestamp" and part == "month":
                    part = "hour"
                return Part(column.name, part, 2020 if part == "year" else random.randint(1, 7))
            case _:
                if random.random() < 0.3:
                    low, high = sorted(random.choices(range(column.size), k=2))
                    return Between(column.name, low, high)
                operator = random.choice(("=", "<>", "<", "<=", ">", ">="))
                return Compare(column.name, operator, random.randrange(column.size))
