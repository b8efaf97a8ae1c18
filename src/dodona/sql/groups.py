"""The aggregate SELECTs of a statement: each becomes a question, or several for ROLLUP, CUBE and GROUPING SETS.

Keys and aggregates become columns of released groups; what is around them stays as it was written.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from dodona.query.question import Question
from dodona.query.statement import RELATION, ROW
from dodona.sql.aggregate import aggregate_name
from dodona.sql.compile import compile_tree
from dodona.sql.joins import PUBLIC
from dodona.sql.outer import is_outer_aggregate
from dodona.sql.parse import bare, check_tree, conjuncts, function_name
from dodona.sql.people import about_people
from dodona.sql.refusals import REFUSED_AGGREGATES
from dodona.sql.relations import (
    ReleasedColumn,
    ReleasedRelation,
    RowExpressions,
    RowRelation,
    SourceText,
    is_star,
    qualifying_names,
    unaliased,
)
from dodona.sql.scope import InvalidSql, change_part, change_parts, select_item

GROUPS = "groups_"
"""The name of the released groups in a SELECT that read rows."""
_MOST_SETS = 64
_FIRST_ROWS = (
    "DISTINCT ON chooses single rows, and rows are never shown.",
    "Write max(column) or count(*) with GROUP BY; over groups, DISTINCT ON is computed from their answers.",
)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Paren)
_ROW_WINDOW = (
    "A window function over rows shows them one by one, and rows are never shown.",
    "Aggregate with GROUP BY first: windows over its groups are free.",
)
DEPENDENT = (
    "Which rows this covers depends on an answer.",
    "Ask for the answer first and write its number here, or group by the column and filter the groups.",
)

# --- Expressions over groups: keys and aggregates become columns of released rows. ---


@dataclass(slots=True)
class GroupColumns:
    """The columns of the released groups: the keys, and every aggregate that is used."""

    source: SourceText
    keys: Sequence[exp.Expr]
    atoms: dict[exp.Expr, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def named(self) -> Iterator[tuple[exp.Expr, str]]:
        """Yield each measured expression with the name of its column."""
        for atom, place in self.atoms.items():
            yield atom, self.names.get(place) or atom.sql(comments=False, unsupported_level=ErrorLevel.IGNORE).lower()

    def item(self, item: exp.Expr) -> exp.Expr:
        """Return an item of the select list over released groups."""
        inner = bare(item.this)
        if _is_plain_value(inner) and inner not in self.keys:
            expression = self._atom(inner)
            self.names.setdefault(self.atoms[inner], item.alias)
        else:
            expression = self(inner)
        return select_item(expression, item.alias)

    def clause(self, clause: exp.Expr, late: RowExpressions) -> None:
        """Turn HAVING, QUALIFY, ORDER BY or a named window into one over released groups, in place."""
        for name, value in list(clause.args.items()):
            if name in {"over", "alias"} or (isinstance(clause, exp.Window) and name == "this"):
                continue
            if isinstance(value, list):
                clause.set(name, [self._late(item, late) for item in value])
            elif isinstance(value, exp.Expr):
                clause.set(name, self._late(value, late))

    def _late(self, node: exp.Expr, late: RowExpressions) -> exp.Expr:
        if isinstance(node, exp.Ordered):
            if not isinstance(node.this, exp.Literal):  # a number stands for a column of the result
                node.set("this", self(late(node.this)))
            return node
        if isinstance(node, exp.Order):
            for ordered in node.expressions:
                self._late(ordered, late)
            return node
        return node if isinstance(node, exp.WindowSpec) else self(late(node))

    def condition(self, node: exp.Expr) -> exp.Expr:
        """Return a condition of WHERE that holds for whole groups, as it reads only keys."""
        try:
            return self(node)
        except InvalidSql:
            raise self.source.fault(node, *DEPENDENT) from None

    def __call__(self, node: exp.Expr) -> exp.Expr:
        """Return an expression over released groups; sub-selects are left to be read by themselves."""
        if isinstance(node, exp.Query):
            return node
        key = bare(node)
        if key in self.keys:
            return exp.column(f"k{self.keys.index(key)}", GROUPS)
        if isinstance(node, exp.Case) and PUBLIC in node.meta:  # of keys: computed on the groups
            node = node.meta[PUBLIC]
        if isinstance(node, exp.Grouping):
            return self._grouping(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if _aggregate(node):
            return self._atom(node)
        name = function_name(node)
        if name in REFUSED_AGGREGATES:
            raise self.source.fault(node, *REFUSED_AGGREGATES[name])
        if isinstance(node, exp.Column):
            instead = "Name it in GROUP BY just as in SELECT, or write an aggregate of it."
            raise self.source.fault(node, "This is not what the statement groups by.", instead)
        return change_parts(node, self)

    def _atom(self, node: exp.Expr) -> exp.Expr:
        place = self.atoms.setdefault(node, len(self.atoms))
        return exp.column(f"v{place}", GROUPS)

    def _window(self, node: exp.Window) -> exp.Expr:
        """Return a window over groups: its function is no aggregate of rows, but the function's arguments may be."""
        function = node.this
        wrapped = []
        while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            wrapped.append(function)
            function = function.this
        inner = change_parts(function, self)
        for wrapper in reversed(wrapped):
            changed = type(wrapper)(
                **{name: change_part(value, self) for name, value in wrapper.args.items() if name != "this"}
            )
            changed.set("this", inner)
            inner = changed
        kept = {"this", "spec", "alias"}
        parts = {name: change_part(value, self) for name, value in node.args.items() if name not in kept}
        return exp.Window(this=inner, spec=node.args.get("spec"), alias=node.args.get("alias"), **parts)

    def _grouping(self, node: exp.Grouping) -> exp.Expr:
        """Return GROUPING(...): a bit for each key, 1 where the row is over all of its groups."""
        total: exp.Expr = exp.Literal.number(0)
        for argument in node.expressions:
            if bare(argument) not in self.keys:
                raise self.source.fault(argument, "GROUPING is of a key.", "Name a column of GROUP BY.")
            bit = exp.column(f"g{self.keys.index(bare(argument))}", GROUPS)
            total = exp.Add(this=exp.Mul(this=exp.Literal.number(2), expression=exp.Paren(this=total)), expression=bit)
        return exp.Paren(this=total)


def _aggregate(node: exp.Expr) -> bool:
    return aggregate_name(node) is not None or is_outer_aggregate(node)


def aggregates_rows(node: exp.Expr) -> bool:
    """Whether an expression has an aggregate of rows, outside of sub-selects."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, exp.Query):
            continue
        if isinstance(current, exp.Window):
            waiting += current.this.iter_expressions()
            waiting += [part for part in current.iter_expressions() if part is not current.this]
            continue
        if _aggregate(current):
            return True
        waiting += current.iter_expressions()
    return False


def _is_plain_value(node: exp.Expr) -> bool:
    """Whether an item is arithmetic of aggregates and numbers, which has an exact interval of its own."""
    waiting, aggregated = [node], False
    while waiting:
        current = waiting.pop()
        if _aggregate(current) and aggregate_name(current) is not None:
            aggregated = True
        elif isinstance(current, _ARITHMETIC):
            waiting += current.iter_expressions()
        elif not (isinstance(current, exp.Literal) and not current.is_string):
            return False
    return aggregated


def _node_sets(node: exp.Expr) -> list[tuple[exp.Expr, ...]]:
    """Return the groupings that one item of GROUP BY stands for."""
    match node:
        case exp.Rollup():
            parts = [_members(item) for item in node.expressions]
            return [tuple(key for part in parts[:length] for key in part) for length in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_members(item) for item in node.expressions]
            chosen = product((True, False), repeat=len(parts))
            return [
                tuple(key for part, kept in zip(parts, flags, strict=True) if kept for key in part) for flags in chosen
            ]
        case exp.GroupingSets():
            return [grouping for part in node.expressions for grouping in _node_sets(part)]
        case _:
            return [_members(node)]


def _members(node: exp.Expr) -> tuple[exp.Expr, ...]:
    return tuple(node.expressions) if isinstance(node, exp.Tuple) else (bare(node),)


def default_name(node: exp.Expr) -> str:
    """Return the name of a column without an alias: that of the column or function, as in a plain SELECT."""
    node = bare(node)
    while isinstance(node, exp.Window | exp.Filter | exp.IgnoreNulls | exp.WithinGroup | exp.Cast | exp.Round):
        node = bare(node.this)
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.Case):
        return "case"
    return node.sql_name().lower() if isinstance(node, exp.Func) and not isinstance(node, exp.Connector) else "value"


# --- An aggregate SELECT: its questions, and the same SELECT over released groups. ---


@dataclass(slots=True)
class Parts:
    """The questions of a statement, each asked once."""

    source: SourceText
    questions: list[Question] = field(default_factory=list)
    numbers: dict[Hashable, int] = field(default_factory=dict)
    """The number of each question by the text of its SELECT and the rows that it is about."""

    def number(
        self, rows: RowRelation, keys: Sequence[exp.Expr], columns: GroupColumns, where: Sequence[exp.Expr]
    ) -> int:
        """Return the number of the question about some keys, adding it if it is new."""
        items: list[exp.Expr] = [key.copy() for key in keys]
        items += [select_item(atom.copy(), name) for atom, name in columns.named()]
        inner = exp.Select(expressions=items, from_=exp.From(this=self.source.table()))
        if where:
            inner.set("where", exp.Where(this=exp.and_(*(condition.copy() for condition in where), copy=False)))
        if keys:
            numbers = [exp.Literal.number(place + 1) for place in range(len(keys))]
            inner.set("group", exp.Group(expressions=numbers))
        if not items:  # the empty set of GROUPING SETS without an aggregate
            inner.set("expressions", [exp.Count(this=exp.Star())])
        within = None if rows.view is None else rows.view.within
        plain = inner.sql(comments=False, unsupported_level=ErrorLevel.IGNORE)
        written = plain, within, None if rows.people is None else rows.people.table
        if written not in self.numbers:
            self.numbers[written] = len(self.questions)
            self.questions.append(compile_rows(self.source, inner, rows))
        return self.numbers[written]


def compile_rows(source: SourceText, tree: exp.Select, rows: RowRelation) -> Question:
    """Return the question of a SELECT over rows, or over a table of people."""
    check_tree(source.text, tree)
    if rows.people is None:
        return compile_tree(source.text, source.schema, tree, rows.view)
    return about_people(compile_tree(source.text, rows.people.schema, tree), rows.people, source.schema)


def measure_select(parts: Parts, select: exp.Select, rows: RowRelation) -> None:
    """Turn a SELECT over rows into one over released groups, adding its questions."""
    source, grouped = parts.source, select.args.get("group") is not None
    expand = RowExpressions(source, rows, qualifying_names(select.args["from_"].this, source.schema))
    items = [_expand_item(source, item, expand) for item in select.expressions]
    if not items:
        raise source.fault(select, "Nothing is selected.", "Write SELECT count(*) FROM ... to begin with.")
    loose = next((item for item in items if item.find(exp.Window)), None)
    if loose is not None and not grouped and not any(map(aggregates_rows, items)):
        raise source.fault(loose, *_ROW_WINDOW)
    aliases = {item.alias.casefold(): item.this for item in items}
    late = RowExpressions(source, rows, expand.qualifiers, aliases, prefer_aliases=True)
    sets = _grouping_sets(source, select, items, replace(late, prefer_aliases=False))
    columns = GroupColumns(source, list(dict.fromkeys(key for grouping in sets for key in grouping)))
    shown = [columns.item(item) for item in items]
    if sets == [()] and not columns.atoms and not grouped:
        what = "Rows are never shown, so this column has no single value."
        raise source.fault(items[0], what, "Write an aggregate, such as count(*) or avg(...), or name it in GROUP BY.")
    for clause in (*map(select.args.get, ("having", "qualify", "order")), *(select.args.get("windows") or ())):
        if clause is not None:
            columns.clause(clause, late)
    where, dependent = [*rows.where], list[exp.Expr]()
    if select.args.get("where") is not None:
        for condition in conjuncts(select.args["where"].this):
            met = expand(condition)
            (dependent if met.find(exp.Query) else where).append(met)
    conditions = [columns.condition(condition) for condition in dependent]
    numbered = [
        (grouping, parts.number(rows, [key for key in columns.keys if key in grouping], columns, where))
        for grouping in sets
    ]
    having = select.args.get("having")
    conditions += [] if having is None else [having.this]
    select.set("expressions", shown)
    select.set("from_", exp.From(this=_released_groups(columns, numbered)))
    select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)
    for part in ("group", "having", "joins"):
        select.set(part, None)


def _expand_item(source: SourceText, item: exp.Expr, expand: RowExpressions) -> exp.Expr:
    """Return an item of the select list over the table's columns, with the name that it will have."""
    inner = unaliased(item)
    if is_star(inner):
        what = "`*` would show rows, and rows are never shown."
        raise source.fault(item, what, "Write count(*), or name columns in GROUP BY.")
    name = item.alias if isinstance(item, exp.Alias) else default_name(inner)
    alias = select_item(expand(inner), name)
    expand.aliases[name.casefold()] = alias.this
    return alias


def _grouping_sets(
    source: SourceText, select: exp.Select, items: Sequence[exp.Expr], late: RowExpressions
) -> list[tuple[exp.Expr, ...]]:
    """Return the keys of each grouping: one for GROUP BY, several for ROLLUP, CUBE and GROUPING SETS."""
    group = select.args.get("group")
    plain = tuple(
        dict.fromkeys(bare(item.this) for item in items if not aggregates_rows(item) and item.find(exp.Column))
    )
    distinct = select.args.get("distinct")
    if group is None and distinct is not None and not any(map(aggregates_rows, items)):
        if distinct.args.get("on") is not None:
            raise source.fault(distinct, *_FIRST_ROWS)
        select.set("distinct", None)
        return [plain]
    if group is None:
        return [()]
    if group.args.get("all"):
        return [plain]
    choices: list[list[tuple[exp.Expr, ...]]] = []
    count = 1
    for node in group.expressions:
        read = ([_group_key(source, key, items, late) for key in grouping] for grouping in _node_sets(node))
        choices.append([tuple(key for key in keys if not _is_constant(key)) for keys in read])
        count *= len(choices[-1])
        if count > _MOST_SETS:
            what = f"These are more than {_MOST_SETS} groupings."
            raise source.fault(node, what, "Write fewer with GROUPING SETS.")
    return [tuple(dict.fromkeys(key for part in combination for key in part)) for combination in product(*choices)]


def _is_constant(key: exp.Expr) -> bool:
    """Whether a key is the same in every row, as tools write for a total, so that it makes no groups."""
    return key.find(exp.Column) is None and not isinstance(key, exp.Func)


def _group_key(source: SourceText, node: exp.Expr, items: Sequence[exp.Expr], late: RowExpressions) -> exp.Expr:
    """Return the expression that is grouped by; a number stands for an item of the select list."""
    if isinstance(node, exp.Literal) and not node.is_string:
        number = int(node.this) if str(node.this).isdecimal() and len(str(node.this)) < 9 else 0  # noqa: PLR2004
        if "." in str(node.this):  # a constant, and no place in the list
            return node
        if not 1 <= number <= len(items):
            what = f"There is no column number {str(node.this)[:20]}."
            raise source.fault(node, what, f"Write 1 to {len(items)}, or a name.")
        key = items[number - 1].this
    else:
        key = late(node)
    if aggregates_rows(key):
        instead = "Group by columns; write conditions on answers into HAVING."
        raise source.fault(node, "An aggregate is no key.", instead)
    return bare(key)


def _released_groups(columns: GroupColumns, numbered: Sequence[tuple[tuple[exp.Expr, ...], int]]) -> exp.Subquery:
    """Return the released groups of all groupings as one relation, with NULL for a key that is not grouped by."""
    sides: list[exp.Query] = []
    for chosen, number in numbered:
        relation = f"{RELATION}{number}"
        used = [key for key in columns.keys if key in chosen]
        shown: list[exp.Expr] = []
        for place, key in enumerate(columns.keys):
            value = exp.column(f"k{used.index(key)}", relation) if key in used else exp.null()
            shown += [exp.alias_(value, f"k{place}"), exp.alias_(exp.Literal.number(int(key not in used)), f"g{place}")]
        names = [*(f"v{place}" for place in range(len(columns.atoms))), ROW]
        shown += [exp.alias_(exp.column(name, relation), name) for name in names]
        sides.append(exp.Select(expressions=shown, from_=exp.From(this=exp.to_table(relation))))
    union = sides[0]
    for side in sides[1:]:
        union = exp.Union(this=union, expression=side, distinct=False)
    keys = [ReleasedColumn(f"{kind}{place}") for place in range(len(columns.keys)) for kind in "kg"]
    values = [ReleasedColumn(f"v{place}", noisy=True) for place in range(len(columns.atoms))]
    union.meta["released"] = ReleasedRelation((*keys, *values, ReleasedColumn(ROW)))
    return exp.Subquery(this=union, alias=exp.TableAlias(this=exp.to_identifier(GROUPS)))
