"""Rows of several SELECTs that UNION ALL puts together and that are then counted or added up.

Each SELECT is aggregated by itself, as a question of its own, and the answers are put together and added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from dodona.sql.groups import default_name
from dodona.sql.parse import bare
from dodona.sql.scope import change_parts, select_item

_MORE = ("joins", "distinct", "qualify", "windows")
_BESIDE_ROWS = ("group", "having", "distinct", "qualify", "windows", "with_", "order", "limit", "offset")
_UNITED = "united"
_Rewrite = Callable[[exp.Expr], exp.Expr]


def aggregate_unions(tree: exp.Expr, names_rows: Callable[[exp.Expr], bool]) -> None:
    """Aggregate each side of a UNION ALL of rows that a SELECT counts or adds up, in place.

    `names_rows` says whether an item of FROM is a table with rows.
    """
    named = {cte.alias.casefold(): cte for cte in tree.find_all(exp.CTE)}
    uses = Counter(table.name.casefold() for table in tree.find_all(exp.Table))
    for select in list(tree.find_all(exp.Select)):
        origin = select.args.get("from_")
        item = origin.this if origin is not None else None
        cte = (
            named.get(item.name.casefold()) if isinstance(item, exp.Table) and uses[item.name.casefold()] == 1 else None
        )
        united = item if cte is None or cte.args["alias"].args.get("columns") else cte
        if isinstance(united, exp.Subquery | exp.CTE) and not any(select.args.get(part) for part in _MORE):
            sides = _sides(united.this, names_rows)
            if len(sides) > 1 and item is not None:
                _Aggregated(select, item.alias_or_name).rewrite(sides)


def _sides(node: exp.Expr, names_rows: Callable[[exp.Expr], bool]) -> list[exp.Select]:
    """Return the SELECTs of a UNION ALL of rows; nothing if it is anything else."""
    if isinstance(node, exp.Union):
        if node.args.get("distinct") or any(node.args.get(part) for part in ("order", "limit", "offset", "with_")):
            return []
        pair = [_sides(side, names_rows) for side in (node.this, node.expression)]
        return [*pair[0], *pair[1]] if all(pair) else []
    origin = node.args.get("from_") if isinstance(node, exp.Select) else None
    if origin is None or not isinstance(node, exp.Select) or any(node.args.get(part) for part in _BESIDE_ROWS):
        return []
    starred = any(
        isinstance(item.unalias(), exp.Star) or item.find(exp.AggFunc, exp.Window) for item in node.expressions
    )
    return [] if starred or not names_rows(origin.this) else [node]


@dataclass(slots=True)
class _Aggregated:
    """A SELECT over rows put together, as one over the aggregates of each side."""

    select: exp.Select
    alias: str
    parts: dict[exp.Expr, int] = field(default_factory=dict)
    """What each side aggregates, with its place."""

    def rewrite(self, sides: Sequence[exp.Select]) -> None:
        """Aggregate each side; leave the SELECT as it is if one of its aggregates does not add up."""
        select, width = self.select, len(sides[0].expressions)
        if any(len(side.expressions) != width for side in sides) or select.find(exp.Query) is None:
            return
        items = [
            (item.alias or default_name(item.unalias()), self._plain(item.unalias())) for item in select.expressions
        ]
        keys = self._keys(items)
        clauses = {name: select.args.get(name) for name in ("having", "order")}
        try:
            shown = [select_item(self._outer(node, keys), name) for name, node in items]
            changed = {name: self._clause(clause, keys, dict(items)) for name, clause in clauses.items() if clause}
        except _NotAdded:
            return
        if not self.parts:
            return
        names = [item.alias_or_name for item in sides[0].expressions]
        united: exp.Expr | None = None
        for side in sides:
            each = self._side(side, names, keys)
            united = each if united is None else exp.Union(this=united, expression=each, distinct=False)
        alias = exp.TableAlias(this=exp.to_identifier(_UNITED))
        select.set("expressions", shown)
        select.set("from_", exp.From(this=exp.Subquery(this=united, alias=alias)))
        select.set("where", None)
        select.set("group", exp.Group(expressions=[_key(place) for place in range(len(keys))]) if keys else None)
        for name, clause in changed.items():
            select.set(name, clause)

    def _side(self, side: exp.Select, names: Sequence[str], keys: Sequence[exp.Expr]) -> exp.Select:
        """Return one side with its own aggregates; its columns are named as those of the first side."""
        pairs = zip(side.expressions, names, strict=True)
        side.set("expressions", [select_item(item.unalias(), name) for item, name in pairs])
        listed = [exp.alias_(key.copy(), f"key{place}") for place, key in enumerate(keys)]
        listed += [exp.alias_(part.copy(), f"part{place}") for part, place in self.parts.items()]
        where = self.select.args.get("where")
        inner = exp.Subquery(this=side, alias=exp.TableAlias(this=exp.to_identifier(_UNITED)))
        whole = exp.Select(expressions=listed, from_=exp.From(this=inner))
        if where is not None:
            whole.set("where", exp.Where(this=self._plain(where.this)))
        if keys:
            whole.set("group", exp.Group(expressions=[exp.Literal.number(place + 1) for place in range(len(keys))]))
        return whole

    def _plain(self, node: exp.Expr) -> exp.Expr:
        """Return a copy without the name of the rows before their columns."""
        copied = node.copy()
        for column in copied.find_all(exp.Column):
            if column.text("table").casefold() == self.alias.casefold():
                column.set("table", None)
        return copied

    def _keys(self, items: Sequence[tuple[str, exp.Expr]]) -> list[exp.Expr]:
        group = self.select.args.get("group")
        named = {name.casefold(): node for name, node in items}
        keys: list[exp.Expr] = []
        for written in () if group is None else group.expressions:
            place = int(written.this) if isinstance(written, exp.Literal) and str(written.this).isdecimal() else 0
            key = items[place - 1][1] if 1 <= place <= len(items) else self._plain(written)
            key = named.get(key.name.casefold(), key) if isinstance(key, exp.Column) else key
            keys.append(bare(key))
        if group is not None and group.args.get("all"):
            keys = [node for _, node in items if node.find(exp.AggFunc) is None]
        return list(dict.fromkeys(keys))

    def _clause(self, clause: exp.Expr, keys: Sequence[exp.Expr], named: dict[str, exp.Expr]) -> exp.Expr:
        """Return HAVING or ORDER BY over the added aggregates; names of the select list stay as they are."""
        folded = {name.casefold() for name in named}

        def read(node: exp.Expr) -> exp.Expr:
            shown = isinstance(node, exp.Column) and node.name.casefold() in folded
            structure = isinstance(node, exp.Having | exp.Order | exp.Ordered)
            return change_parts(node, read) if structure else node if shown else self._outer(self._plain(node), keys)

        return read(clause)

    def _outer(self, node: exp.Expr, keys: Sequence[exp.Expr]) -> exp.Expr:
        """Return an expression over the answers of all sides."""
        if bare(node) in keys:
            return _key(list(keys).index(bare(node)))
        inner, wrap = (node.this, self._filtered(node)) if isinstance(node, exp.Filter) else (node, _same)
        if isinstance(inner, exp.Avg):
            total, count = (self._sum(wrap(kind(this=inner.this.copy()))) for kind in (exp.Sum, exp.Count))
            return exp.Paren(this=exp.Div(this=total, expression=count))
        added = isinstance(inner, exp.Sum | exp.CountIf | exp.Count) and inner.find(exp.Distinct) is None
        if added:
            return self._sum(wrap(inner))
        if isinstance(inner, exp.AggFunc | exp.Column | exp.Window | exp.Query):
            raise _NotAdded
        return change_parts(node, lambda part: self._outer(part, keys))

    def _filtered(self, node: exp.Filter) -> _Rewrite:
        return lambda aggregate: exp.Filter(this=aggregate, expression=node.expression.copy())

    def _sum(self, part: exp.Expr) -> exp.Expr:
        place = self.parts.setdefault(part, len(self.parts))
        return exp.Sum(this=exp.column(f"part{place}", _UNITED))


class _NotAdded(Exception):
    """Something that cannot be added up from the sides."""


def _same(node: exp.Expr) -> exp.Expr:
    return node.copy()


def _key(place: int) -> exp.Expr:
    return exp.column(f"key{place}", _UNITED)
