"""What a door does with a statement: pass it on, quote it, or put the answers to its questions into it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dodona.errors import InvalidRequest
from dodona.server.door.constants import identifier
from dodona.server.door.lexer import Token, split_statements, tokens_of
from dodona.server.door.shape import Catalog, Range, Select, Shape
from dodona.server.door.splice import (
    ANSWER,
    Piece,
    apply_edits,
    edit_names,
    mirror_edits,
    read_pieces,
)

Kind = Literal["pass", "query", "explain", "copy", "declare"]
LONGEST, MOST_TOKENS = 65_536, 4_000
_QUERIES = ("select", "with", "values", "table", "(")
_WRITES = ("insert", "update", "delete", "merge", "into")
_MESSAGING = re.compile(r"\b(?:notify|listen)\b", re.IGNORECASE)


class PreparedInSql(InvalidRequest):
    """A question was prepared by the statement PREPARE, whose execution the door would not see."""

    code = "prepared-in-sql"
    sqlstate = "0A000"

    def __init__(self) -> None:
        """Say what to do instead."""
        super().__init__(
            "PREPARE is not possible over a dataset. Send the statement itself; drivers prepare it by the protocol."
        )


class NoMessages(InvalidRequest):
    """A session wants to send or to hear messages of other sessions, which PostgreSQL can forbid to nobody."""

    code = "no-messages"
    sqlstate = "42501"

    def __init__(self) -> None:
        """State what is refused."""
        super().__init__("NOTIFY and LISTEN are not possible here: sessions do not hear of each other.")


@dataclass(frozen=True, slots=True)
class Described:
    """What PostgreSQL says about a question over the mirror."""

    names: tuple[str, ...]
    """Of the columns of the SELECT, quoted."""
    types: tuple[str, ...]
    """Of the keys, then of the aggregates."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One statement of a text, and what is to be done with it."""

    text: str
    tokens: Sequence[Token]
    whole: Range
    kind: Kind = "pass"
    query: Range = (0, 0)
    pieces: tuple[Piece, ...] = ()
    relations: tuple[tuple[Range, str], ...] = ()
    previews: tuple[tuple[Range, str], ...] = ()
    """Where rows are read that may only be made up, and of which table."""
    outermost: int | None = None
    """Which piece is the outermost SELECT."""
    probe: bool = False
    """Whether it only asks which columns there would be: LIMIT 0, or WHERE FALSE."""
    mirror: str = ""
    """The query over the mirror, for the types of its parameters and for PostgreSQL's own errors."""

    @property
    def written(self) -> str:
        """The statement as it was written."""
        return self.text[self.tokens[self.whole[0]].start : self.tokens[self.whole[1] - 1].end]

    @property
    def sources(self) -> int:
        """How many answers go into it."""
        return len(self.pieces) + len(self.relations) + len(self.previews)

    def outer(
        self,
        described: Sequence[Described],
        sources: Sequence[str],
        relations: Mapping[str, str],
        previews: Mapping[str, str],
        *,
        intervals: bool,
    ) -> str:
        """Return the statement over the answers, which `sources` has as SQL: of the pieces, then of the relations."""
        edits: list[tuple[Range, str]] = []
        for number, (piece, facts, source) in enumerate(zip(self.pieces, described, sources, strict=False)):
            edits += _piece_edits(piece, facts, source, intervals=intervals and number == self.outermost)
        read = [(place, name, relations[name]) for place, name in self.relations]
        read += [(place, identifier(name), previews[name]) for place, name in self.previews]
        for (place, name, columns), source in zip(read, sources[len(self.pieces) :], strict=True):
            edits.append(self._relation_edit(place, name, source, columns))
        edits += [(place, "") for place in self._schemas()]
        part = self.query if self.kind == "explain" else self.whole
        return apply_edits(self.text, self.tokens, part, edits)

    def _schemas(self) -> Iterator[Range]:
        """Yield where a column of a preview is named with the schema of its table, which made-up rows have not."""
        names = {name for _, name in self.previews}
        for place in range(self.query[0], self.query[1] - 3):
            schema, dot, table, end = self.tokens[place : place + 4]
            if schema.word == "public" and dot.says(".") and table.names and table.word in names and end.says("."):
                database = place > self.query[0] and self.tokens[place - 1].says(".")
                yield place - 2 if database else place, place + 2

    def _relation_edit(self, place: Range, name: str, source: str, columns: str) -> tuple[Range, str]:
        first, last = place
        alias = name
        after = self.tokens[last] if last < self.whole[1] else None
        if after is not None and after.says("as"):
            alias, last = self.tokens[last + 1].text, last + 2
        elif after is not None and after.names and not after.says(*_AFTER_A_TABLE):
            alias, last = after.text, last + 1
        return (first, last), f"json_to_recordset({source}) AS {alias}({columns})"


_AFTER_A_TABLE = (
    "where", "group", "having", "window", "order", "limit", "offset", "fetch", "for", "on", "using", "join", "inner",
    "left", "right", "full", "cross", "natural", "union", "intersect", "except", "tablesample",
)  # fmt: skip


def _piece_edits(piece: Piece, facts: Described, source: str, *, intervals: bool) -> Iterator[tuple[Range, str]]:
    columns = []
    for name, kind in zip(piece.columns, facts.types, strict=True):
        columns.append(f"{name} {kind}")
        if name.startswith("a"):
            columns += [f"{name}_low {kind}", f"{name}_high {kind}"]
    definition = ", ".join(columns) or "k0 text"
    yield piece.source, f"FROM json_to_recordset({source}) AS {ANSWER}({definition}) "
    names = dict(enumerate(facts.names))
    inserted: dict[int, str] = {}
    for place, edit in piece.edits:
        if place[0] == place[1]:
            inserted[place[0]] = edit_names(edit, names)
        else:
            yield place, edit
    if intervals:
        for end, item, number in piece.shown:
            for which in ("low", "high"):
                name = f'"{names[item][1:-1]}_{which}"'
                inserted[end] = f"{inserted.get(end, '')}, {ANSWER}.a{number}_{which} AS {name}"
    for end, text in inserted.items():
        yield (end, end), text


# --- Reading a text. ---


class StatementTooLong(InvalidRequest):
    """A statement over a dataset is longer, or nested deeper, than the door reads."""

    code = "statement-too-long"
    sqlstate = "54001"

    def __init__(self) -> None:
        """State the limits."""
        super().__init__(
            f"A statement over a dataset has at most {LONGEST:,} characters and {MOST_TOKENS:,} words and signs, and "
            "is not nested very deep."
        )


def read_plans(text: str, catalog: Catalog) -> list[Plan]:
    """Return the statements of a text, none if it names no dataset; raises Unreadable where it has no tokens."""
    if _MESSAGING.search(text) is not None:
        _hold_messages(text)
    folded = text.lower()
    if not any(name.lower() in folded for name in (*catalog.tables, "dodona")):
        return []
    if len(text) > LONGEST:
        raise StatementTooLong
    tokens = tokens_of(text)
    if len(tokens) > MOST_TOKENS:
        raise StatementTooLong
    try:
        return [_read(text, tokens, whole, catalog) for whole in split_statements(tokens)]
    except RecursionError:
        raise StatementTooLong from None


def _hold_messages(text: str) -> None:
    """Refuse NOTIFY and LISTEN; where a text is not certain to be cut as PostgreSQL cuts it, also their words."""
    if len(text) > LONGEST or "\\" in text:  # a setting decides whether a backslash hides what follows
        raise NoMessages
    tokens = tokens_of(text)
    if any(tokens[start].says("notify", "listen") for start, _ in split_statements(tokens)):
        raise NoMessages


def _read(text: str, tokens: Sequence[Token], whole: Range, catalog: Catalog) -> Plan:
    passed = Plan(text, tokens, whole)
    if not catalog.touched_by(tokens[slice(*whole)]):
        return passed
    if tokens[whole[0]].says("prepare"):
        raise PreparedInSql
    kind, query = _query_of(tokens, whole)
    if kind == "pass" or _writes(tokens, query):
        return passed
    shape = Shape(tokens[: whole[1]], catalog)
    shape.read(query)
    previews: tuple[tuple[Range, str], ...] = ()
    if not shape.pieces and kind in {"query", "declare"} and shape.shows_rows(query):
        previews = tuple((place, name) for place, name in shape.rows if name in catalog.previews)
    if not shape.pieces and not shape.relations and not previews:
        return passed
    shape.pieces.sort(key=lambda select: select.whole)
    edits = mirror_edits(shape)
    return Plan(
        text,
        tokens,
        whole,
        kind,
        query,
        tuple(read_pieces(shape)),
        tuple(shape.relations),
        previews,
        next((number for number, select in enumerate(shape.pieces) if select is shape.outermost), None),
        _is_probe(shape),
        apply_edits(text, tokens, query, edits),
    )


def _query_of(tokens: Sequence[Token], whole: Range) -> tuple[Kind, Range]:
    """Return what kind of statement it is, and where the query in it is."""
    start, end = whole
    first = tokens[start]
    if first.says(*_QUERIES):
        return "query", whole
    if first.says("explain"):
        start += 1
        if tokens[start].says("(") and not tokens[start + 1].says("select", "with", "("):
            while start < end and not tokens[start].says(")"):
                start += 1
            start += 1
        while start < end and tokens[start].says("analyze", "analyse", "verbose"):
            start += 1
        return ("explain", (start, end)) if start < end and tokens[start].says(*_QUERIES) else ("pass", whole)
    if first.says("declare"):
        query_start = next((place for place in range(start, end) if tokens[place].says("for")), end) + 1
        return ("declare", (query_start, end)) if query_start < end else ("pass", whole)
    if first.says("copy") and start + 1 < end and tokens[start + 1].says("("):
        depth, place = 1, start + 2
        while place < end and depth:
            depth += tokens[place].says("(") - tokens[place].says(")")
            place += 1
        return "copy", (start + 2, place - 1)
    return "pass", whole


def _writes(tokens: Sequence[Token], query: Range) -> bool:
    """Return whether a query also writes: PostgreSQL refuses that itself, and nothing may be charged for it."""
    return any(
        tokens[place].says(*_WRITES) and (place == query[0] or not tokens[place - 1].says(".", "as"))
        for place in range(*query)
    )


def _is_probe(shape: Shape) -> bool:
    select = shape.outermost
    if select is None:
        return False
    limit = [shape.tokens[place].text for place in range(*select.clause("limit"))]
    return limit[1:] == ["0"] or _is_false(shape, select)


def _is_false(shape: Shape, select: Select) -> bool:
    words = [shape.tokens[place] for place in range(*select.clause("where"))][1:]
    while len(words) > 2 and words[0].says("(") and words[-1].says(")"):  # noqa: PLR2004  brackets around something
        words = words[1:-1]
    match words:
        case [word]:
            return word.says("false")
        case [left, sign, right] if left.kind == right.kind == "number":
            return (left.text == right.text) == sign.says("<>", "!=") and sign.says("=", "<>", "!=")
    return False
