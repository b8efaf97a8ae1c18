"""From a statement to the questions in it, and to the same statement over their answers. The rest of it stays as it is.

Of a SELECT that aggregates over a dataset, FROM, WHERE and GROUP BY become one question, which has the keys of the
groups and the aggregates as its columns. In the statement the answer stands in their place: a key or an aggregate
becomes a column of it, HAVING becomes WHERE, and all else, windows and sorting and limits, is computed by PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dodona.errors import InvalidRequest
from dodona.server.door.constants import find_constants, is_name
from dodona.server.door.division import is_whole_division
from dodona.server.door.lexer import Token
from dodona.server.door.shape import Range, Select, Shape

ANSWER = "dodona_answer"
_INTERVALS = {"dp_interval_low": "low", "dp_interval_high": "high"}
_AFTER_KEYS = ("having", "window", "order", "limit", "offset", "fetch", "for")
_ENDS_OPERAND = (")", "]")


class IntervalOfNothing(InvalidRequest):
    """DP_INTERVAL_LOW or DP_INTERVAL_HIGH of something that is not an aggregate of the same SELECT."""

    code = "interval-of-nothing"
    sqlstate = "42703"

    def __init__(self) -> None:
        """Say what to write."""
        super().__init__(
            "DP_INTERVAL_LOW and DP_INTERVAL_HIGH take an aggregate of the same SELECT, or the name that AS gives it: "
            "SELECT count(*) AS n, DP_INTERVAL_LOW(n)."
        )


@dataclass(frozen=True, slots=True)
class Piece:
    """A question of a statement, and where its answer goes."""

    question: tuple[str | int, ...]
    """The text; a number stands for a constant that PostgreSQL computes first."""
    constants: tuple[str, ...]
    described: str
    """A query over the mirror with the columns of the SELECT, then the keys, then the aggregates: it tells names and
    types."""
    items: int
    keys: int
    estimates: int
    edits: tuple[tuple[Range, str], ...]
    """What to write instead of some tokens: {n} stands for the name of the nth column of the SELECT."""
    source: Range
    """The tokens that the answer replaces: FROM, WHERE and GROUP BY."""
    shown: tuple[tuple[int, int, int], ...]
    """Columns that are nothing but an aggregate: after which token they end, which column, and which aggregate."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the answer."""
        return [*(f"k{place}" for place in range(self.keys)), *(f"a{place}" for place in range(self.estimates))]

    def text(self, values: Sequence[str]) -> str:
        """Return the question with the constants."""
        return "".join(part if isinstance(part, str) else values[part] for part in self.question)


def mirror_edits(shape: Shape) -> list[tuple[Range, str]]:
    """Return what the mirror has to read instead of DP_INTERVAL_LOW and _HIGH, which refer to columns of the result."""
    edits = []
    for select in shape.pieces:
        reader = _PieceReader(shape, select)
        edits += [(place, reader.text(estimate)) for place, estimate, _ in reader.calls]
    return edits


def read_pieces(shape: Shape) -> list[Piece]:
    """Return the questions of a statement."""
    return [_PieceReader(shape, select).piece() for select in shape.pieces]


def apply_edits(text: str, tokens: Sequence[Token], whole: Range, edits: Sequence[tuple[Range, str]]) -> str:
    """Return the text of a range of tokens, some of them replaced; an empty range inserts after the token before it."""
    out, place = [], tokens[whole[0]].start
    for (first, last), replacement in sorted(edits):
        start = tokens[first].start if first < last else tokens[first - 1].end
        out += [text[place:start], replacement]
        place = tokens[last - 1].end if last > first else start
    out.append(text[place : tokens[whole[1] - 1].end])
    return "".join(out)


def joined(tokens: Sequence[Token], start: int, end: int) -> str:
    """Return tokens as text, with one space where there was any; comments are left out."""
    out = []
    for place in range(start, end):
        if place > start and tokens[place].start > tokens[place - 1].end:
            out.append(" ")
        out.append(tokens[place].text)
    return "".join(out)


@dataclass(slots=True)
class _PieceReader:
    """Reads one SELECT that aggregates over a dataset."""

    shape: Shape
    select: Select
    estimates: list[Range] = field(default_factory=list)
    keys: list[Range] = field(default_factory=list)
    calls: list[tuple[Range, Range, str]] = field(default_factory=list)
    """Calls of DP_INTERVAL_LOW and _HIGH: where, of which aggregate, and which end."""
    items: list[Range] = field(default_factory=list)
    aliases: list[str | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Find the columns, the aggregates and the keys."""
        start, end = self.select.clause("items")
        if self.select.distinct:
            start += 1
        self.items = self.shape.split_list((start, end))
        self.aliases = [self._alias(item) for item in self.items]
        for part in self._outer_parts():
            self._find_estimates(part)
        for part in self._outer_parts():
            self._find_calls(part)
        self._find_keys()

    def _outer_parts(self) -> Iterator[Range]:
        """Yield what stays in the statement: all but FROM, WHERE and GROUP BY."""
        for name in ("items", *_AFTER_KEYS):
            if name in self.select.clauses:
                yield self.select.clauses[name]

    # --- What there is. ---

    def _alias(self, item: Range) -> str | None:
        start, end = item
        last = self.shape.tokens[end - 1]
        if not last.names or end - start < 2:  # noqa: PLR2004  a value and its name
            return None
        before = self.shape.tokens[end - 2]
        if before.says("as"):
            return last.word
        if before.says("double", "character", "time", "is", "not"):  # types of two words, IS NULL
            return None
        operand = before.says(*_ENDS_OPERAND) or before.names or before.kind in {"text", "number", "parameter"}
        return last.word if operand and is_name(last) else None

    def _find_estimates(self, part: Range) -> None:
        known = {self._meaning(estimate) for estimate in self.estimates}
        for aggregate in self.shape.aggregates(part):
            if self._meaning(aggregate) not in known:
                known.add(self._meaning(aggregate))
                self.estimates.append(aggregate)

    def _find_calls(self, part: Range) -> None:
        tokens = self.shape.tokens
        for place in self.shape.outside_queries(part):
            which = _INTERVALS.get(tokens[place].word) if tokens[place].names else None
            if which is None or place + 1 not in self.shape.closing:
                continue
            end = self.shape.closing[place + 1]
            self.calls.append(((place, end + 1), self._named((place + 2, end)), which))

    def _named(self, argument: Range) -> Range:
        """Return the aggregate that an argument of DP_INTERVAL_LOW means."""
        for estimate in self.estimates:
            if self._meaning(estimate) == self._meaning(argument):
                return estimate
        word = self.shape.tokens[argument[0]].word if argument[1] - argument[0] == 1 else None
        for item, alias in zip(self.items, self.aliases, strict=True):
            aggregate = self._whole_estimate(item)
            if word is not None and aggregate is not None and word in {alias, self.shape.tokens[aggregate[0]].word}:
                return aggregate
        raise IntervalOfNothing

    def _whole_estimate(self, item: Range) -> Range | None:
        """Return the aggregate that is all of a column; None if the column is something else."""
        start, end = self._expression(item)
        return next((aggregate for aggregate in self.shape.aggregates(item) if aggregate == (start, end)), None)

    def _expression(self, item: Range) -> Range:
        """Return a column without its name."""
        start, end = item
        if self._alias(item) is None:
            return item
        return start, end - (2 if self.shape.tokens[end - 2].says("as") else 1)

    def _find_keys(self) -> None:
        tokens = self.shape.tokens
        group = self.select.clause("group")
        if group[0] < group[1]:
            listed = self._flat(self.shape.split_list((group[0] + 2, group[1])))
        elif self.select.distinct and not self.estimates:
            listed = [self._expression(item) for item in self.items]
        else:
            listed = []
        known = set[tuple[str, ...]]()
        for part in listed:
            key = part
            if part[1] - part[0] == 1:
                token = tokens[part[0]]
                if token.kind == "number" and token.text.isdigit() and 0 < int(token.text) <= len(self.items):
                    key = self._expression(self.items[int(token.text) - 1])
                elif token.names and not self._is_column(token.word) and token.word in self.aliases:
                    key = self._expression(self.items[self.aliases.index(token.word)])
            if self._meaning(key) not in known:
                known.add(self._meaning(key))
                self.keys.append(key)

    def _flat(self, parts: Sequence[Range]) -> list[Range]:
        """Return the keys of ROLLUP, CUBE, GROUPING SETS and lists in brackets."""
        tokens, keys = self.shape.tokens, []
        for start, end in parts:
            opening = start
            while opening < end and tokens[opening].says("rollup", "cube", "grouping", "sets"):
                opening += 1
            if opening in self.shape.closing and self.shape.closing[opening] == end - 1:
                keys += self._flat(self.shape.split_list((opening + 1, end - 1)))
            else:
                keys.append((start, end))
        return keys

    def _is_column(self, word: str) -> bool:
        return any(word in columns for columns in self.shape.catalog.tables.values())

    # --- Meanings: names without what qualifies them. ---

    def _meaning(self, part: Range) -> tuple[str, ...]:
        return tuple(word for word, _ in self._words(part))

    def _words(self, part: Range) -> Iterator[tuple[str, Range]]:
        """Yield the tokens as words; a name with its table and schema is one word, that of the column."""
        tokens, place = self.shape.tokens, part[0]
        while place < part[1]:
            last = place
            while tokens[last].names and last + 2 < part[1] and tokens[last + 1].says(".") and tokens[last + 2].names:
                last += 2
            token = tokens[last]
            kind = "keyword " if token.reserved else "text " if token.kind == "text" else ""
            yield f"{kind}{token.word if token.names else token.text}", (place, last + 1)
            place = last + 1

    def _occurrences(self, part: Range, opaque: Sequence[Range]) -> Iterator[tuple[Range, int]]:
        """Yield where keys stand in a part of the statement, and which, the longest first."""
        hidden = {place for start, end in opaque for place in range(start, end)}
        words = [word for word in self._words(part) if word[1][0] not in hidden]
        beginning: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for number, key in enumerate(self.keys):
            meaning = self._meaning(key)
            beginning.setdefault(meaning[0], []).append((meaning, number))
        place = 0
        while place < len(words):
            step = 1
            for meaning, number in sorted(beginning.get(words[place][0], ()), key=lambda pair: -len(pair[0])):
                run = words[place : place + len(meaning)]
                covered = range(run[0][1][0], run[-1][1][1])
                if tuple(word for word, _ in run) == meaning and not self._names_result(covered, part):
                    yield (covered.start, covered.stop), number
                    step = len(meaning)
                    break
            place += step

    def _names_result(self, covered: range, part: Range) -> bool:
        """Return whether tokens are the name that a column is given, or name a column of the result in ORDER BY."""
        tokens = self.shape.tokens
        before = tokens[covered.start - 1]
        if before.says("as"):
            return True
        after = tokens[covered.stop] if covered.stop < part[1] else None
        if after is not None and after.says("("):
            return True  # a function of the same name
        if part == self.select.clause("order"):
            alone = before.says("by", ",") and (after is None or after.says(",", "asc", "desc", "nulls"))
            return alone and len(covered) == 1 and tokens[covered.start].word in self.aliases
        if part == self.select.clause("items") and covered.start > part[0]:
            operand = before.says(*_ENDS_OPERAND) or before.kind in {"text", "number", "parameter"}
            return operand or (before.names and is_name(before))
        return False

    # --- The question. ---

    def text(self, part: Range) -> str:
        """Return a part of the statement as it is written."""
        return joined(self.shape.tokens, *part)

    def _render(self, part: Range, constants: list[str]) -> Iterator[str | int]:
        """Yield a part as it is asked: with its constants marked, common table expressions in place, no schema."""
        tokens, shape = self.shape.tokens, self.shape
        marked = dict(find_constants(shape, part))
        inlined = {place: shape.tokens[place].word for place in shape.ctes(part, self.select.scope)}
        place = part[0]
        while place < part[1]:
            token = tokens[place]
            if place > part[0] and token.start > tokens[place - 1].end:
                yield " "
            if place in marked:
                constants.append(joined(tokens, place, marked[place]))
                yield len(constants) - 1
                place = marked[place]
                continue
            if token.says("=") and tokens[place + 1].says("any", "some") and self._is_list(place + 2):
                yield "IN"
                place += 1
            elif token.says("<>", "!=") and tokens[place + 1].says("all") and self._is_list(place + 2):
                yield "NOT IN"
                place += 1
            elif token.says("/"):
                yield "//" if is_whole_division(shape, place) else "/"
            elif self._qualifies(place, part[1]):
                place += 1
            elif place in inlined:
                yield from self._inline(place, inlined[place], constants)
            else:
                yield token.text
            place += 1

    def _qualifies(self, place: int, end: int) -> bool:
        """Return whether a name is that of the schema, or of the database before it, with a dot after it."""
        tokens = self.shape.tokens
        if place + 1 >= end or not tokens[place].names or not tokens[place + 1].says("."):
            return False
        if tokens[place].word == "public":
            return True
        return place + 3 < end and tokens[place + 2].word == "public" and tokens[place + 3].says(".")

    def _is_list(self, place: int) -> bool:
        return place in self.shape.closing and not self.shape.tokens[place + 1].says("select", "with")

    def _inline(self, place: int, name: str, constants: list[str]) -> Iterator[str | int]:
        cte = self.select.scope[name]
        yield "("
        yield from self._render(cte.body, constants)
        yield ")"
        after = self.shape.tokens[place + 1] if place + 1 < len(self.shape.tokens) else None
        if after is None or not (after.says("as") or (after.names and is_name(after) and not _begins_clause(after))):
            yield f" AS {self.shape.tokens[place].text}{cte.columns}"

    def piece(self) -> Piece:
        """Return the question, and what the statement says in its place."""
        constants: list[str] = []
        question: list[str | int] = ["SELECT "]
        if not self.keys and not self.estimates:
            question.append("1")
        for number, part in enumerate([*map(self._uncast, self.keys), *self.estimates]):
            question += [", "] if number else []
            question += self._render(part, constants)
        for name in ("from", "where"):
            if name in self.select.clauses:
                question += [" ", *self._render(self.select.clauses[name], constants)]
        question += self._grouping(constants)
        return Piece(
            question=tuple(question),
            constants=tuple(constants),
            described=self._describe(),
            items=len(self.items),
            keys=len(self.keys),
            estimates=len(self.estimates),
            edits=tuple(self._edits()),
            source=self._source(),
            shown=tuple(self._shown()),
        )

    def _grouping(self, constants: list[str]) -> Iterator[str | int]:
        group = self.select.clause("group")
        if any(self.shape.tokens[place].says("rollup", "cube", "sets") for place in range(*group)):
            yield " "
            yield from self._render(group, constants)
        elif self.keys:
            for number, key in enumerate(self.keys):
                yield ", " if number else " GROUP BY "
                yield from self._render(self._uncast(key), constants)

    def _uncast(self, key: Range) -> Range:
        """Return the key that is asked for date_trunc(...)::date: the cast changes no group."""
        (start, end), tokens, closing = key, self.shape.tokens, self.shape.closing
        if tokens[start].says("cast") and closing.get(start + 1) == end - 1:
            start, end = start + 2, closing.get(start + 3, start) + 3
            end = end if end <= key[1] and tokens[end - 2].says("as") else 0
        elif tokens[start].says("date_trunc"):
            end = closing.get(start + 1, end) + 3
            end = end if end == key[1] and tokens[end - 2].says("::") else 0
        whole = tokens[start].says("date_trunc") and end and tokens[end - 1].says("date", "timestamp", "timestamptz")
        return (start, closing[start + 1] + 1) if whole else key

    def _describe(self) -> str:
        replaced = {place: estimate for place, estimate, _ in self.calls}
        columns = []
        for item in self.items:
            edits = [(at, self.text(of)) for at, of in replaced.items() if item[0] <= at[0] < item[1]]
            named = f" AS {self.shape.tokens[item[0]].word}" if item in replaced else ""  # as any function names it
            columns.append(_edit(self.shape.tokens, item, edits) + named)
        columns += [self.text(part) for part in (*self.keys, *self.estimates)]
        source = [self._mirror(self.select.clauses[name]) for name in ("from", "where") if name in self.select.clauses]
        group = self.select.clause("group")
        if group[0] < group[1]:
            listed = ", ".join(self.text(key) for key in self.keys)
            rolled = any(self.shape.tokens[place].says("rollup", "cube", "sets") for place in range(*group))
            source.append(self.text(group) if rolled else f"GROUP BY {listed}" if self.keys else "")
        return f"SELECT {', '.join(columns)} {' '.join(source)}"

    def _mirror(self, part: Range) -> str:
        """Return FROM or WHERE with its common table expressions in place, as it is read over the mirror."""
        edits: list[tuple[Range, str]] = []
        for place in self.shape.ctes(part, self.select.scope):
            cte = self.select.scope[self.shape.tokens[place].word]
            after = self.shape.tokens[place + 1] if place + 1 < len(self.shape.tokens) else None
            named = after is not None and (after.says("as") or (is_name(after) and not _begins_clause(after)))
            name = "" if named else f" AS {self.shape.tokens[place].text}{cte.columns}"
            edits.append(((place, place + 1), f"({self._mirror(cte.body)}){name}"))
        return _edit(self.shape.tokens, part, edits)

    # --- The statement over the answer. ---

    def _source(self) -> Range:
        start = self.select.clause("from")[0]
        later = [self.select.clauses[name][0] for name in _AFTER_KEYS if name in self.select.clauses]
        return start, min([*later, self.select.whole[1]])

    def _edits(self) -> Iterator[tuple[Range, str]]:
        numbers = {self._meaning(estimate): number for number, estimate in enumerate(self.estimates)}
        calls = [place for place, _, _ in self.calls]
        called = {place for start, end in calls for place in range(start, end)}
        changed: list[Range] = []
        for place, estimate, which in self.calls:
            changed.append(place)
            yield place, f"{ANSWER}.a{numbers[self._meaning(estimate)]}_{which}"
        for part in self._outer_parts():
            opaque = list(calls)
            for span in self.shape.aggregates(part):
                if span[0] in called:
                    continue
                opaque.append(span)
                changed.append(span)
                yield span, f"{ANSWER}.a{numbers[self._meaning(span)]}"
            opaque += [(start - 1, end + 1) for start, end in self.shape.subqueries(part)]
            for span, number in self._occurrences(part, opaque):
                changed.append(span)
                yield span, f"{ANSWER}.k{number}"
        if "having" in self.select.clauses:
            having = self.select.clauses["having"][0]
            yield (having, having + 1), "WHERE"
        beginnings = {start for start, _ in changed}
        for number, (start, end) in enumerate(self.items):
            if self.aliases[number] is None and any(place in beginnings for place in range(start, end)):
                yield (end, end), f"{{{number}}}"

    def _shown(self) -> Iterator[tuple[int, int, int]]:
        numbers = {self._meaning(estimate): number for number, estimate in enumerate(self.estimates)}
        for number, item in enumerate(self.items):
            estimate = self._whole_estimate(item)
            if estimate is not None:
                yield item[1], number, numbers[self._meaning(estimate)]


def _edit(tokens: Sequence[Token], part: Range, edits: Sequence[tuple[Range, str]]) -> str:
    """Return tokens as text, some of them replaced."""
    out, place = [], part[0]
    for (first, last), replacement in sorted(edits):
        out += [joined(tokens, place, first), " ", replacement, " "]
        place = last
    return "".join([*out, joined(tokens, place, part[1])])


def _begins_clause(token: Token) -> bool:
    return token.says("where", "group", "having", "window", "order", "limit", "offset", "fetch", "for", "on", "using")


def edit_names(edit: str, names: Mapping[int, str]) -> str:
    """Return an edit with the name of the column that it stands for."""
    return f" AS {names[int(edit[1:-1])]}" if edit.startswith("{") else edit
