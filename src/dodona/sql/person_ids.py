"""How statements write people: DISTINCT of the id, one row for each person and group, the id as a value that is there.

Each is turned into the form that the rest reads: GROUP BY id, count(DISTINCT id), and what holds of every row that
counts, as rows without an id do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dodona.sql.joins import join_kind

_NO_MORE = ("with_", "having", "qualify", "windows", "limit", "offset", "order")
_INNER = ("", "CROSS")


def write_people_plainly(tree: exp.Expr, person: str) -> None:
    """Rewrite what a statement says about the column `person`, in place."""
    reader = _Reader(person.casefold(), {cte.alias.casefold(): cte for cte in tree.find_all(exp.CTE)}, tree)
    for select in list(tree.find_all(exp.Select)):
        reader.group_distinct(select)
    for select in list(tree.find_all(exp.Select)):
        reader.count_by_group(select)
        reader.drop_null(select)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Rewrites the SELECTs of one statement."""

    person: str
    named: Mapping[str, exp.CTE]
    tree: exp.Expr

    def group_distinct(self, select: exp.Select) -> None:
        """Turn SELECT DISTINCT id, ... into GROUP BY id, ..."""
        distinct, items = select.args.get("distinct"), [item.unalias() for item in select.expressions]
        grouped = distinct is None or distinct.args.get("on") is not None or select.args.get("group") is not None
        if grouped or not any(map(self._is_person, items)) or any(item.find(exp.AggFunc) for item in items):
            return
        select.set("distinct", None)
        select.set("group", exp.Group(expressions=[item.copy() for item in items]))

    def count_by_group(self, select: exp.Select) -> None:
        """Turn rows of a SELECT by person and some keys, counted by the same keys, into count(DISTINCT id) by them."""
        inner, counts = self._inner(select), [count for count in select.find_all(exp.Count) if _is_of_rows(count)]
        group = None if inner is None else inner.args.get("group")
        if inner is None or group is None or not counts or any(inner.args.get(part) for part in _NO_MORE):
            return
        names = {item.alias_or_name.casefold(): item.unalias() for item in inner.expressions}
        mine = next((name for name, item in names.items() if self._is_person(item)), None)
        keys = {names.get(key.name.casefold(), key) for key in _resolved(inner)}
        whole = keys == set(names.values()) and len(list(select.find_all(exp.AggFunc))) == len(counts)
        chosen = {key.name.casefold() for key in _resolved(select) if isinstance(key, exp.Column)}
        if mine is None or not whole or chosen != names.keys() - {mine} or len(_resolved(select)) != len(chosen):
            return
        inner.set("group", None)
        for count in counts:
            count.set("this", exp.Distinct(expressions=[exp.column(mine)]))

    def drop_null(self, select: exp.Select) -> None:
        """Write what `id IS NULL` and count(id) are, where no join leaves people without rows."""
        if any(join_kind(join) not in _INNER for join in select.args.get("joins") or ()):
            return
        for column in list(select.find_all(exp.Column)):
            around = column.parent
            if not self._is_person(column) or column.find_ancestor(exp.Select) is not select:
                continue
            if isinstance(around, exp.Is) and isinstance(around.expression, exp.Null):
                around.replace(exp.false())
            elif isinstance(around, exp.Count):
                around.set("this", exp.Star())

    def _is_person(self, node: exp.Expr) -> bool:
        return isinstance(node, exp.Column) and node.name.casefold() == self.person

    def _inner(self, select: exp.Select) -> exp.Select | None:
        """Return the one SELECT that another selects all rows from: a sub-select, or a CTE that is named once."""
        origin = select.args.get("from_")
        if origin is None or select.args.get("joins") or select.args.get("where") or select.args.get("distinct"):
            return None
        item = origin.this
        if isinstance(item, exp.Table) and item.name.casefold() in self.named:
            uses = [table for table in self.tree.find_all(exp.Table) if table.name.casefold() == item.name.casefold()]
            item = self.named[item.name.casefold()] if len(uses) == 1 else item
        inner = item.this if isinstance(item, exp.Subquery | exp.CTE) else None
        return inner if isinstance(inner, exp.Select) else None


def _is_of_rows(count: exp.Count) -> bool:
    """Whether an aggregate is count(*) or count(1)."""
    return isinstance(count.this, exp.Star | exp.Literal)


def _resolved(select: exp.Select) -> list[exp.Expr]:
    """Return the keys of GROUP BY; a number stands for an item of the select list, and so may a name."""
    group = select.args.get("group")
    items, named = select.expressions, {item.alias.casefold(): item.unalias() for item in select.expressions}
    keys: list[exp.Expr] = []
    for written in () if group is None else group.expressions:
        place = int(written.this) if isinstance(written, exp.Literal) and str(written.this).isdecimal() else 0
        key = items[place - 1].unalias() if 1 <= place <= len(items) else written
        keys.append(named.get(key.name.casefold(), key) if isinstance(key, exp.Column) else key)
    return keys
