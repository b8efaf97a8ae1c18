"""Names of the outer half: what a SELECT over released rows may name, and which columns noise reaches."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sqlglot import exp

from dodona.sql.outer import RANKING, check_outer
from dodona.sql.relations import CORRELATED, Environment, Names, ReleasedColumn

if TYPE_CHECKING:
    from dodona.sql.split import Splitter


@dataclass(frozen=True, slots=True)
class Taint:
    """Whether noise reaches an expression, and whether the order of noisy values decides it."""

    noisy: bool
    ranked: bool


@dataclass(slots=True)
class OuterScope:
    """The names of a SELECT over released rows, and of the SELECTs around it."""

    split: Splitter
    names: Names
    environment: Environment
    outer: tuple[Names, ...]
    aliases: dict[str, ReleasedColumn]

    def read(self, node: exp.Expr) -> Taint:
        """Check an expression, and return whether noise reaches it."""
        noisy = ranked = False
        waiting = [node]
        while waiting:
            current = waiting.pop()
            if isinstance(current, exp.Query):
                relation = self.split.query(current, self.environment, (self.names, *self.outer))
                noisy |= relation.chosen or any(column.noisy for column in relation.columns)
                ranked |= any(column.ranked for column in relation.columns)
                continue
            check_outer(self.split.source.text, current)
            if isinstance(current, exp.Column):
                if isinstance(current.this, exp.Star):
                    continue
                column = self._find(current)
                noisy, ranked = noisy | column.noisy, ranked | column.ranked
                continue
            waiting += current.iter_expressions()
        orders = node.find_all(*RANKING)
        return Taint(noisy, ranked or (noisy and next(orders, None) is not None))

    def _find(self, node: exp.Column) -> ReleasedColumn:
        name, qualifier = node.name, node.args.get("table")
        for names in (self.names, *self.outer):
            if qualifier is not None:
                if qualifier.name.casefold() in names:
                    column = names[qualifier.name.casefold()].find(name)
                    if column is not None:
                        return column
                    self._refuse(node, [column.name for column in names[qualifier.name.casefold()].columns])
                continue
            matches = [column for relation in names.values() if (column := relation.find(name)) is not None]
            alias = self.aliases.get(name.casefold())
            if len(matches) > 1 and alias is None and not self._merged(node):
                what = f"`{name[:60]}` could be a column of several relations."
                raise self.split.source.fault(
                    node, what, f"Write {' or '.join(f'{relation_name}.{name}' for relation_name in names)}."
                )
            if matches or alias is not None:
                both = [*matches, *([alias] if alias is not None else [])]
                return ReleasedColumn(name, any(column.noisy for column in both), any(column.ranked for column in both))
        if qualifier is not None:
            instead = f"Write {' or '.join(self.names) or 'no table'}."
            raise self.split.source.fault(node, f"No relation here is called `{qualifier.name[:60]}`.", instead)
        self._refuse(node, [column.name for relation in self.names.values() for column in relation.columns])
        raise AssertionError

    def _merged(self, node: exp.Column) -> bool:
        """Whether USING has merged the columns of this name."""
        select = node.find_ancestor(exp.Select)
        joins = () if select is None else select.args.get("joins") or ()
        used = [column.name.casefold() for join in joins for column in join.args.get("using") or ()]
        return node.name.casefold() in used

    def _refuse(self, node: exp.Column, known: Sequence[str]) -> None:
        shown = [name for name in known if not re.fullmatch(r"[kgv]\d+|row_", name)]
        near = get_close_matches(node.name, shown, n=1)
        instead = f"Did you mean `{near[0]}`?" if near else f"The columns here are {', '.join(shown[:20])}."
        raise self.split.source.fault(
            node, f"There is no column `{node.name[:60]}` here.", instead if shown else CORRELATED
        )
