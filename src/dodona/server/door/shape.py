"""The shape of a query: its SELECTs, which of them aggregate over a dataset, and which only pass its rows on.

It is read from tokens. PostgreSQL has parsed the statement before, against the mirror, so that this need not judge it:
what is not recognised here is left as it is, and fails at the mirror's guard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dodona.server.door.lexer import Token, closings

_CLAUSES = ("into", "from", "where", "group", "having", "window", "order", "limit", "offset", "fetch", "for")
_SET_OPERATORS = ("union", "intersect", "except")
_BEFORE_A_TABLE = ("from", "join", ",", "only", "lateral", "(", "table")
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Catalog:
    """What the door must know of a mirror to find the datasets in a statement."""

    tables: Mapping[str, frozenset[str]]
    """The columns of each table."""
    person: str | None
    """The column that names a person: grouped by it, each person is one row."""
    aggregates: frozenset[str]
    """The names of the aggregate functions that PostgreSQL has in the mirror."""
    relations: Mapping[str, str]
    """Relations of the schema `dodona` that the door fills, with the definition of their columns."""
    wholes: Mapping[str, bool] = field(default_factory=dict)
    """Whether a column that is a number holds whole ones."""
    previews: Mapping[str, str] = field(default_factory=dict)
    """Tables whose rows may be made up, with the definition of their columns."""

    def touched_by(self, tokens: Sequence[Token]) -> bool:
        """Return whether a statement names a dataset or a relation of the door at all."""
        return any(token.names and (token.word in self.tables or token.word == "dodona") for token in tokens)


@dataclass(frozen=True, slots=True)
class Cte:
    """A common table expression: whether it passes rows on, and where its body and its list of columns are."""

    rows: bool
    body: Range
    columns: str


Scope = Mapping[str, Cte]


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT: the ranges of its tokens, by clause; `items` is its list, and the rest have the name of the clause."""

    whole: Range
    clauses: Mapping[str, Range]
    distinct: bool
    """Whether it lists values of columns: SELECT DISTINCT sex, ward."""
    scope: Scope

    def clause(self, name: str) -> Range:
        """Return the range of a clause, with its keyword; empty if there is none."""
        return self.clauses.get(name, (self.whole[1], self.whole[1]))


@dataclass(slots=True)
class Shape:
    """What was found in the query of a statement."""

    tokens: Sequence[Token]
    catalog: Catalog
    closing: dict[int, int] = field(init=False)
    pieces: list[Select] = field(default_factory=list)
    """The SELECTs that aggregate over a dataset, none inside another."""
    relations: list[tuple[Range, str]] = field(default_factory=list)
    """Where relations of the door are read, and which."""
    rows: list[tuple[Range, str]] = field(default_factory=list)
    """Where a SELECT reads the rows of a dataset, and of which."""
    outermost: Select | None = None

    def __post_init__(self) -> None:
        """Find matching brackets."""
        self.closing = closings(self.tokens)

    def read(self, whole: Range) -> None:
        """Read the query of a statement."""
        self._query(whole, {})

    # --- Queries. ---

    def _query(self, whole: Range, scope: Scope, *, depth: int = 0) -> bool:
        """Read a query; return whether it passes rows of a dataset on."""
        start, end = whole
        inside = dict(scope)
        if start < end and self.tokens[start].says("with"):
            start = self._with((start + 1, end), inside)
        parts = self._split(start, end, _SET_OPERATORS)
        if len(parts) > 1:
            first, last = parts[-1]
            for place in self._top_level(first, last):
                if self.tokens[place].says("order", "limit", "offset", "fetch") and place > first:
                    parts[-1] = (first, place)
                    break
        single = depth == 0 and len(parts) == 1
        verdicts = [self._part(part, inside, depth=depth, outermost=single) for part in parts]
        return any(verdicts)

    def _part(self, part: Range, scope: Scope, *, depth: int, outermost: bool) -> bool:
        """Read one of the queries that UNION and the like combine; return whether it passes rows on."""
        first, last = part
        while first < last and self.tokens[first].says("all", "distinct"):
            first += 1  # the keyword belongs to the operator before it
        if first >= last:
            return False
        if self.tokens[first].says("("):
            return self._query((first + 1, self.closing[first]), scope, depth=depth if outermost else 1)
        if self.tokens[first].says("select"):
            return self._select((first, last), scope, outermost=outermost)
        for inner in self.subqueries((first, last)):
            self._query(inner, scope, depth=1)
        return self.tokens[first].says("table") and any(True for _ in self._datasets((first, last), scope))

    def _with(self, whole: Range, scope: dict[str, Cte]) -> int:
        """Read the common table expressions; return where the query itself begins."""
        place, end = whole
        if self.tokens[place].says("recursive"):
            place += 1
        while place < end and self.tokens[place].names:
            name, columns = self.tokens[place].word, ""
            place += 1
            if self.tokens[place].says("("):
                columns = " ".join(token.text for token in self.tokens[place : self.closing[place] + 1])
                place = self.closing[place] + 1
            while place < end and not self.tokens[place].says("("):
                place += 1
            if place >= end:
                return end
            body = (place + 1, self.closing[place])
            scope[name] = Cte(rows=False, body=body, columns=columns)  # of itself it sees no rows
            scope[name] = Cte(rows=self._query(body, scope, depth=1), body=body, columns=columns)
            place = self.closing[place] + 1
            if place >= end or not self.tokens[place].says(","):
                return place
            place += 1
        return place

    # --- SELECTs. ---

    def _select(self, whole: Range, scope: Scope, *, outermost: bool) -> bool:
        select = self._cut(whole, scope)
        if outermost and self.outermost is None:
            self.outermost = select
        known, related = len(self.pieces), len(self.relations)
        rows = self._sources(select)
        piece = rows and (self.aggregates_in(select) or select.distinct) and not self._by_person(select)
        if piece:  # what its FROM and its WHERE hold is a part of the question
            del self.pieces[known:], self.relations[related:]
            self.pieces.append(select)
        for name, part in select.clauses.items():
            if name == "from" or (piece and name in {"where", "group"}):
                continue
            for inner in self.subqueries(part):
                self._query(inner, scope, depth=1)
        return rows and not piece

    def _cut(self, whole: Range, scope: Scope) -> Select:
        start, end = whole
        marks: list[tuple[str, int]] = [("items", start + 1)]
        for place in self._top_level(start + 1, end):
            token = self.tokens[place]
            if token.kind != "name" or token.text.lower() not in _CLAUSES or not self._begins_clause(place, end):
                continue
            marks.append((token.text.lower(), place))
        limits = [*(place for _, place in marks[1:]), end]
        clauses = {name: (place, limit) for (name, place), limit in zip(marks, limits, strict=True)}
        return Select(whole, clauses, self._lists_values(clauses["items"]), scope)

    def _lists_values(self, items: Range) -> bool:
        """Return whether the columns are DISTINCT, and named one by one."""
        start, end = items
        if start >= end or not self.tokens[start].says("distinct") or self.tokens[start + 1].says("on"):
            return False
        return not any(self.tokens[place].says("*") for place in self._top_level(start, end))

    def _begins_clause(self, place: int, end: int) -> bool:
        """Return whether a keyword begins a clause: not GROUP in WITHIN GROUP, not FROM in IS DISTINCT FROM."""
        before, token = self.tokens[place - 1], self.tokens[place]
        if token.says("group", "order"):
            return place + 1 < end and self.tokens[place + 1].says("by") and not before.says("within")
        if token.says("from"):
            return not (before.says("distinct") and self.tokens[place - 2].says("is", "not"))
        return not before.says(".", "as")

    def _sources(self, select: Select) -> bool:
        """Return whether FROM has rows of a dataset, directly or through a query that passes them on."""
        part = select.clause("from")
        rows = False
        for inner in self.subqueries(part):
            rows |= self._query(inner, select.scope, depth=1)
        datasets = [((first, last + 1), self.tokens[last].word) for first, last in self._datasets(part, select.scope)]
        self.rows += datasets
        rows |= bool(datasets)
        for place in self.ctes(part, select.scope):
            rows |= select.scope[self.tokens[place].word].rows
        self.relations += self._door_relations(part)
        return rows

    def _by_person(self, select: Select) -> bool:
        person = self.catalog.person
        return person is not None and any(
            self.tokens[place].names and self.tokens[place].word == person for place in range(*select.clause("group"))
        )

    # --- Tables. ---

    def names_in(self, part: Range) -> Iterator[tuple[int, int]]:
        """Yield the chains of names that stand where a table may: the first and the last token of each."""
        skip = part[0]
        for place in range(*part):
            if place < skip:
                continue
            token = self.tokens[place]
            if token.says("(") and self._opens_query(place):
                skip = self.closing[place] + 1
                continue
            if not token.names or place == 0 or not self.tokens[place - 1].says(*_BEFORE_A_TABLE):
                continue
            last = place
            while last + 2 < part[1] and self.tokens[last + 1].says(".") and self.tokens[last + 2].names:
                last += 2
            if last + 1 < len(self.tokens) and self.tokens[last + 1].says("("):
                continue  # a function
            skip = last + 1
            yield place, last

    def _datasets(self, part: Range, scope: Scope) -> Iterator[tuple[int, int]]:
        for first, last in self.names_in(part):
            name = self.tokens[last].word
            schema = self.tokens[last - 2].word if last > first else None
            if name in self.catalog.tables and schema in {None, "public"} and not (schema is None and name in scope):
                yield first, last

    def ctes(self, part: Range, scope: Scope) -> Iterator[int]:
        """Yield where common table expressions are read."""
        for first, last in self.names_in(part):
            if first == last and self.tokens[first].word in scope:
                yield first

    def _door_relations(self, part: Range) -> list[tuple[Range, str]]:
        return [
            ((first, last + 1), self.tokens[last].word)
            for first, last in self.names_in(part)
            if last > first
            and self.tokens[last - 2].word == "dodona"
            and self.tokens[last].word in self.catalog.relations
        ]

    def shows_rows(self, whole: Range) -> bool:
        """Return whether a query only shows rows: nothing in it aggregates or asks whether there are any.

        Then made-up rows are seen for what they are, and no number or yes that is computed from them.
        """
        start, end = whole
        for place in range(start, end):
            token = self.tokens[place]
            if token.says("with", "over", "distinct", "group", "having", "table", *_SET_OPERATORS):
                return False
            if token.says("select") and place > start and not self._opens_source(place - 1):
                return False
            called = place + 1 < end and self.tokens[place + 1].says("(")
            if called and token.names and token.word in self.catalog.aggregates:
                return False
        return True

    def _opens_source(self, place: int) -> bool:
        """Return whether a token opens a query that FROM reads."""
        return self.tokens[place].says("(") and self.tokens[place - 1].says("from")

    # --- Walking. ---

    def _top_level(self, start: int, end: int) -> Iterator[int]:
        """Yield the numbers of the tokens that stand in no bracket; an opening bracket stands for what it holds."""
        place = start
        while place < end:
            yield place
            place = self.closing.get(place, place) + 1

    def _split(self, start: int, end: int, words: Sequence[str]) -> list[Range]:
        parts, first = [], start
        for place in self._top_level(start, end):
            if self.tokens[place].says(*words):
                parts.append((first, place))
                first = place + 1
        parts.append((first, end))
        return parts

    def split_list(self, part: Range) -> list[Range]:
        """Return the ranges of a list that commas divide."""
        return [item for item in self._split(*part, (",",)) if item[0] < item[1]]

    def _opens_query(self, place: int) -> bool:
        return place + 1 < len(self.tokens) and self.tokens[place + 1].says("select", "with")

    def subqueries(self, part: Range) -> Iterator[Range]:
        """Yield the ranges of the queries in brackets that a range holds, the outer ones alone."""
        place = part[0]
        while place < part[1]:
            if self.tokens[place].says("(") and self._opens_query(place):
                yield place + 1, self.closing[place]
                place = self.closing[place]
            place += 1

    def outside_queries(self, part: Range) -> Iterator[int]:
        """Yield the numbers of the tokens of a range that are in no query of their own."""
        place = part[0]
        while place < part[1]:
            if self.tokens[place].says("(") and self._opens_query(place):
                place = self.closing[place]
            else:
                yield place
            place += 1

    def aggregates(self, part: Range) -> Iterator[Range]:
        """Yield the calls of aggregates in a range, each with its WITHIN GROUP and its FILTER; not window functions."""
        skip = part[0]
        for place in self.outside_queries(part):
            if place < skip or not self.tokens[place].names or place + 1 >= part[1]:
                continue
            if self.tokens[place].word not in self.catalog.aggregates or not self.tokens[place + 1].says("("):
                continue
            end = self.closing[place + 1] + 1
            while end + 1 < part[1] and self.tokens[end].says("within", "filter"):
                opening = end + (2 if self.tokens[end].says("within") else 1)
                if opening not in self.closing:
                    break
                end = self.closing[opening] + 1
            if end < part[1] and self.tokens[end].says("over"):
                continue  # a window function; what it is computed from may hold aggregates
            skip = end
            yield place, end

    def aggregates_in(self, select: Select) -> bool:
        """Return whether a SELECT aggregates."""
        if "group" in select.clauses or "having" in select.clauses:
            return True
        return any(True for name in ("items", "order") for _ in self.aggregates(select.clause(name)))
