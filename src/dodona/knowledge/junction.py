"""Junction trees: cliques of columns that hold all given sets, and message passing over them.

A log-linear law over a product of columns is a sum of tables over sets of columns. Its normalisation and its marginals
on those sets take time and memory in proportion to the cells of the cliques, not of the whole product. All messages are
sums of exponentials with their maximum taken out, so that nothing overflows or vanishes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dodona.knowledge.cells import RandomSource

Table = NDArray[np.float64]
Columns = tuple[int, ...]
"""Numbers of columns, rising: the axes of a table."""


_FEW = 8  # codes of an axis: so few slices are added one by one
MOST_AXES = 32
"""Of an array of any NumPy: a clique of more columns is not held, though most of them be constant."""
_TOO_MANY = 1 << 200


# --- Choosing cliques: the columns are eliminated one after the other, the cheapest first. ---


def eliminate(shape: Sequence[int], sets: Iterable[Iterable[int]]) -> list[Columns]:
    """Return maximal cliques of a triangulated graph in which the columns of each set are all neighbours.

    Each column is eliminated when the table over it and its neighbours is smallest. Every column is in some clique.
    """
    around: list[set[int]] = [{place} for place in range(len(shape))]
    for columns in sets:
        members = set(columns)
        for place in members:
            around[place] |= members
    sizes = [_cells(shape, neighbours) for neighbours in around]
    waiting = [(size, place) for place, size in enumerate(sizes)]
    heapq.heapify(waiting)
    gone = [False] * len(shape)
    cliques: list[set[int]] = []
    while waiting:
        size, place = heapq.heappop(waiting)
        if gone[place] or size != sizes[place]:
            continue
        gone[place] = True
        clique = around[place]
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        others = clique - {place}
        for other in others:
            around[other] |= others
            around[other].discard(place)
            sizes[other] = _cells(shape, around[other])
            heapq.heappush(waiting, (sizes[other], other))
    return [tuple(sorted(clique)) for clique in cliques]


def count_cells(shape: Sequence[int], cliques: Iterable[Collection[int]]) -> int:
    """Return the number of cells of all cliques; one with more columns than an array can have axes has too many."""
    return sum(_cells(shape, clique) if len(clique) <= MOST_AXES else _TOO_MANY for clique in cliques)


def _cells(shape: Sequence[int], places: Iterable[int]) -> int:
    return math.prod([shape[place] for place in places])


# --- One clique: tables over its subsets are added up to the whole, and its marginals are summed down to them. ---


@dataclass(frozen=True, slots=True)
class _Merge:
    """A table that is the sum of two smaller ones."""

    columns: Columns
    parts: tuple[Columns, ...]


@dataclass(frozen=True, slots=True)
class Clique:
    """A set of columns, the sets inside it, and the order in which their tables are added up and summed down."""

    columns: Columns
    parent: int | None
    """The number of the clique that it hangs on; None for the root."""
    separator: Columns
    """The columns that it shares with its parent."""
    merges: tuple[_Merge, ...] = ()
    """Smaller ones first; the last one is the clique."""


@dataclass(frozen=True)
class JunctionTree:
    """Cliques in an order in which each comes after its parent."""

    shape: tuple[int, ...]
    cliques: tuple[Clique, ...]
    home: Mapping[Columns, int] = field(repr=False)
    """For each given set the clique that holds its table."""

    @classmethod
    def over(cls, shape: Sequence[int], sets: Iterable[Columns], *, cliques: Sequence[Columns] | None = None) -> Self:
        """Return the tree that holds the given sets, with the given cliques; without these, by elimination."""
        wanted = list(dict.fromkeys(sets))
        chosen = eliminate(shape, wanted) if cliques is None else list(cliques)
        links = _spanning_tree(shape, chosen)
        home: dict[Columns, int] = {}
        inside: list[list[Columns]] = [[] for _ in links]
        for subset in wanted:
            members = set(subset)
            fitting = [number for number, (columns, _, _) in enumerate(links) if members <= set(columns)]
            best = min(fitting, key=lambda number: _cells(shape, links[number][0]))
            home[subset] = best
            inside[best].append(subset)
        for _, parent, separator in links:
            if parent is not None and separator:
                inside[parent].append(separator)
        made = [
            Clique(columns, parent, separator, _plan_merges(shape, columns, inside[number]))
            for number, (columns, parent, separator) in enumerate(links)
        ]
        return cls(tuple(shape), tuple(made), home)

    @cached_property
    def cells(self) -> int:
        """The number of cells of all cliques."""
        return count_cells(self.shape, (clique.columns for clique in self.cliques))

    def find(self, columns: Iterable[int]) -> int | None:
        """Return the smallest clique that holds some columns; None if there is none."""
        members = set(columns)
        fitting = [number for number, clique in enumerate(self.cliques) if members <= set(clique.columns)]
        return min(fitting, key=lambda number: _cells(self.shape, self.cliques[number].columns), default=None)

    def widened(self, columns: Columns) -> int:
        """Return the cells of a tree that also holds some columns: those on the way between them get all of them.

        No more than this many are needed; another tree may need fewer.
        """
        path = [set(self.cliques[number].columns) for number in self.between(columns)]
        grown = count_cells(self.shape, [members.union(columns) for members in path])
        return self.cells + grown - count_cells(self.shape, path)

    def widen(self, columns: Columns) -> list[Columns]:
        """Return the cliques of the tree that `widened` counts the cells of, without those inside others."""
        between = self.between(columns)
        grown = [
            {*clique.columns, *columns} if number in between else set(clique.columns)
            for number, clique in enumerate(self.cliques)
        ]
        cliques: list[set[int]] = []
        for members in sorted(grown, key=len, reverse=True):
            if not any(members <= other for other in cliques):
                cliques.append(members)
        return [tuple(sorted(members)) for members in cliques]

    def crossing(self, columns: Columns) -> int:
        """Return the cells that `CalibratedTree.across` multiplies for some columns: too many, if it cannot."""
        wanted, between = set(columns), self.between(columns)
        below: dict[int | None, set[int]] = {}
        unions = []
        for number in sorted(between, reverse=True):
            clique = self.cliques[number]
            carried = below.pop(number, set()) | wanted.intersection(clique.columns)
            unions.append(carried.union(clique.columns))
            below.setdefault(clique.parent, set()).update(carried)
        return count_cells(self.shape, unions)

    def between(self, columns: Columns) -> set[int]:
        """Return the cliques on the way between some columns; none if a clique has all of them."""
        if self.find(columns) is not None:
            return set()
        wanted, ways = set(columns), [self._way_up(self._first[place]) for place in columns]
        shared = set(ways[0]).intersection(*ways[1:])
        top = max(shared)  # numbers rise away from the root
        touched = {top, *(number for way in ways for number in way if number not in shared)}
        while True:  # the top is not needed if all that it has of them is below, on the only way down
            below = [number for number in touched if self.cliques[number].parent == top]
            if len(below) != 1 or not wanted & set(self.cliques[top].columns) <= set(self.cliques[below[0]].columns):
                break
            touched.discard(top)
            top = below[0]
        return touched

    @cached_property
    def _first(self) -> dict[int, int]:
        """For each column the first clique that has it, which is the nearest one to the root."""
        first: dict[int, int] = {}
        for number, clique in enumerate(self.cliques):
            for place in clique.columns:
                first.setdefault(place, number)
        return first

    def _way_up(self, number: int) -> list[int]:
        """Return a clique and all above it."""
        path, above = [number], self.cliques[number].parent
        while above is not None:
            path.append(above)
            above = self.cliques[above].parent
        return path

    def calibrate(self, tables: Mapping[Columns, Table]) -> CalibratedTree:
        """Return the law whose logarithm is the sum of the tables, up to its normalisation."""
        potentials: list[dict[Columns, Table]] = [{} for _ in self.cliques]
        for columns, table in tables.items():
            add_table(potentials[self.home[columns]], columns, table)
        conditionals: list[Table] = [np.empty(0)] * len(self.cliques)
        log_total = 0.0
        for number in reversed(range(len(self.cliques))):
            clique = self.cliques[number]
            logs = self.add_up(clique, potentials[number])
            inner = tuple(axis for axis, place in enumerate(clique.columns) if place not in clique.separator)
            most = logs.max(axis=inner, keepdims=True)
            logs -= most
            weights = np.exp(logs, out=logs)
            totals = self.sum_down(weights, clique.columns, clique.separator).reshape(most.shape)
            weights /= totals
            conditionals[number] = weights
            message = (np.log(totals) + most).reshape([self.shape[place] for place in clique.separator])
            if clique.parent is None or not clique.separator:
                log_total += float(message)
            else:
                add_table(potentials[clique.parent], clique.separator, message)
        return CalibratedTree(self, tables, tuple(conditionals), log_total)

    def add_up(self, clique: Clique, tables: dict[Columns, Table]) -> Table:
        """Return the sum of tables over subsets of a clique as a table over all of it."""
        done: dict[Columns, Table] = dict(tables)
        for merge in clique.merges:
            total = done.pop(merge.columns, None)
            for part in merge.parts:
                table = done.pop(part, None)
                if table is None:
                    continue
                wide = table.reshape([self.shape[place] if place in part else 1 for place in merge.columns])
                total = wide if total is None else total + wide
            if total is not None:  # parts without a table may leave axes of length 1
                done[merge.columns] = np.broadcast_to(total, [self.shape[place] for place in merge.columns])
        shape = [self.shape[place] for place in clique.columns]
        table = done.get(clique.columns)
        return np.zeros(shape) if table is None else np.array(np.broadcast_to(table, shape))

    def thin(self, clique: Clique) -> list[int]:
        """Return the shape of a table over what a clique shares with its parent, with all axes of the clique."""
        return [self.shape[place] if place in clique.separator else 1 for place in clique.columns]

    def sum_down(self, table: Table, columns: Columns, wanted: Columns) -> Table:
        """Return the sums of a table over all axes but the wanted ones, the longest axis first."""
        if columns == wanted:
            return table
        left = list(columns)
        for place in sorted(set(columns) - set(wanted), key=lambda column: -self.shape[column]):
            axis = left.index(place)
            length = self.shape[place]
            rest = math.prod([self.shape[column] for column in left[axis + 1 :]])
            table = _sum_middle(table.reshape(-1, length, rest), length, rest)
            left.pop(axis)
        return table.reshape([self.shape[column] for column in left])


def add_table(tables: dict[Columns, Table], columns: Columns, table: Table) -> None:
    """Add a table to the one over the same columns."""
    tables[columns] = tables[columns] + table if columns in tables else table


def _sum_middle(parts: Table, length: int, rest: int) -> Table:
    """Return the sum over the middle axis."""
    if rest == 1:
        row_sums: Table = np.einsum("ij->i", parts.reshape(-1, length))  # not by BLAS: see `maxent._dot`
        return row_sums
    if length > _FEW:
        summed: Table = parts.sum(axis=1)
        return summed
    total: Table = parts[:, 0] + parts[:, 1] if length > 1 else parts[:, 0]
    for place in range(2, length):
        total += parts[:, place]
    return total


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedTree:
    """A law on a junction tree: each clique's distribution given the columns that it shares with its parent."""

    tree: JunctionTree
    tables: Mapping[Columns, Table]
    """Whose sum is the logarithm of the law, up to its normalisation."""
    conditionals: tuple[Table, ...]
    log_total: float
    """The logarithm of the sum over all cells of the exponential of the tables."""

    def marginals(self, wanted: Iterable[Columns]) -> dict[Columns, Table]:
        """Return the marginals of the given sets of columns, each inside a clique."""

        def law(number: int, above: Table | None) -> Table:
            return self.conditionals[number] if above is None else self.conditionals[number] * above

        return self._pass_down(wanted, law)

    def derivative(self, tables: Mapping[Columns, Table], wanted: Iterable[Columns]) -> dict[Columns, Table]:
        """Return the derivative of marginals as multiples of tables are added to the logarithm of the law.

        It is the covariance of each cell of a marginal with the sum of the tables. Each clique sums its tables up and
        sends their means, given what it shares with its parent; going down, deviations from these are spread.
        """
        tree = self.tree
        parts: list[dict[Columns, Table]] = [{} for _ in tree.cliques]
        for columns, table in tables.items():
            add_table(parts[tree.home[columns]], columns, table)
        deviations: list[Table] = [np.empty(0)] * len(tree.cliques)
        for number in reversed(range(len(tree.cliques))):
            clique, law = tree.cliques[number], self.conditionals[number]
            summed = tree.add_up(clique, parts[number])
            means = tree.sum_down(law * summed, clique.columns, clique.separator)
            summed -= means.reshape(tree.thin(clique))
            summed *= law
            deviations[number] = summed
            if clique.parent is not None and clique.separator:
                add_table(parts[clique.parent], clique.separator, means)
        shared = self.marginals({clique.separator for clique in tree.cliques if clique.separator})

        def change(number: int, above: Table | None) -> Table:
            if above is None:
                return deviations[number]
            clique = tree.cliques[number]
            spread = deviations[number] * shared[clique.separator].reshape(tree.thin(clique))
            spread += self.conditionals[number] * above
            return spread

        return self._pass_down(wanted, change)

    def _pass_down(
        self, wanted: Iterable[Columns], table_of: Callable[[int, Table | None], Table]
    ) -> dict[Columns, Table]:
        """Return sums of the cliques' tables over given sets of columns.

        The table of a clique is made from that of what it shares with its parent, which is summed before; of None, if
        it shares nothing.
        """
        tree, sums, shared = self.tree, dict[Columns, Table](), dict[int, dict[Columns, Table]]()
        inside: dict[int, set[Columns]] = {}
        for columns in wanted:
            home = tree.home.get(columns)
            number = tree.find(columns) if home is None else home
            if number is None:
                raise KeyError(columns)
            inside.setdefault(number, set()).add(columns)
        for number, clique in enumerate(tree.cliques):
            above: Table | None = None
            if clique.parent is not None and clique.separator:
                above = shared[clique.parent][clique.separator].reshape(tree.thin(clique))
            done: dict[Columns, Table] = {clique.columns: table_of(number, above)}
            for merge in reversed(clique.merges):
                for part in merge.parts:
                    done[part] = tree.sum_down(done[merge.columns], merge.columns, part)
            for columns in inside.get(number, ()):
                if columns not in done:
                    fitting = [superset for superset in done if set(columns) <= set(superset)]
                    least = min(fitting, key=lambda superset: _cells(tree.shape, superset))
                    done[columns] = tree.sum_down(done[least], least, columns)
                sums[columns] = done[columns]
            shared[number] = done
        return sums

    def across(self, wanted: Iterable[Columns]) -> dict[Columns, Table]:
        """Return the marginals of sets of columns that no clique holds, by variable elimination.

        The cliques between the columns are multiplied, the ones farthest from the root first, and all columns are
        summed out that neither the set nor the next clique has.
        """
        tree, marginals = self.tree, dict[Columns, Table]()
        ways = {columns: sorted(tree.between(columns), reverse=True) for columns in wanted}
        tops = self.marginals({tree.cliques[way[-1]].columns for way in ways.values()})
        for columns, way in ways.items():
            messages: dict[int | None, list[tuple[Columns, Table]]] = {}
            for number in way:
                clique = tree.cliques[number]
                law = tops[clique.columns] if number == way[-1] else self.conditionals[number]
                factors = [(clique.columns, law), *messages.pop(number, ())]
                places = sorted({place for part, _ in factors for place in part})
                left = set(columns) if number == way[-1] else {*columns, *clique.separator}
                kept = tuple(place for place in places if place in left)
                operands: list[Any] = []
                for part, table in factors:
                    operands += [table, [places.index(place) for place in part]]
                product = np.einsum(*operands, [places.index(place) for place in kept])
                messages.setdefault(clique.parent if number != way[-1] else None, []).append((kept, product))
            marginals[columns] = messages[None][0][1]
        return marginals


# --- Rows of a law: clique by clique, each given what it shares with its parent. ---


def draw_rows(law: CalibratedTree, count: int, rng: RandomSource, *, independent: bool = False) -> NDArray[np.int64]:
    """Return rows, one column of codes for each column.

    Rows that agree on what a clique shares with its parent are spread over the rest of the clique: evenly, from a
    random start and in a random order, so that each cell has its share of them up to one row; or each on its own.
    """
    shape = law.tree.shape
    rows = np.zeros((len(shape), count), dtype=np.int64).T  # columns are looked at one by one
    for clique, conditional in zip(law.tree.cliques, law.conditionals, strict=True):
        inner = [place for place in clique.columns if place not in clique.separator]
        axes = [clique.columns.index(place) for place in (*clique.separator, *inner)]
        lengths = [shape[place] for place in inner]
        table = conditional.transpose(axes).reshape(-1, math.prod(lengths))
        shared = np.zeros(count, dtype=np.int64)
        for place in clique.separator:
            shared = shared * shape[place] + rows[:, place]
        order = np.argsort(shared + rng.random(count))
        sorted_shared = shared[order]
        first = np.flatnonzero(np.diff(sorted_shared, prepend=-1))
        groups, times = sorted_shared[first], np.diff(first, append=count)
        row_groups = np.repeat(np.arange(groups.size), times)
        if independent:
            levels = rng.random(count)
        else:
            levels = (np.arange(count) - first[row_groups] + rng.random(groups.size)[row_groups]) / times[row_groups]
        sums = np.cumsum(table[groups], axis=1)
        edges = sums / sums[:, -1:] + np.arange(groups.size)[:, None]
        cells = np.searchsorted(edges.reshape(-1), levels + row_groups, side="right") - row_groups * table.shape[1]
        last = np.argmax(sums >= sums[:, -1:], axis=1)[row_groups]  # cells after it have no weight
        for place, codes in zip(inner, np.unravel_index(np.minimum(cells, last), lengths), strict=True):
            rows[order, place] = codes
    return rows


def _spanning_tree(shape: Sequence[int], cliques: list[Columns]) -> list[tuple[Columns, int | None, Columns]]:
    """Return each clique with its parent and what they share, parents first: a tree of the largest separators."""
    order = sorted(cliques, key=lambda clique: (-_cells(shape, clique), clique))
    links: list[tuple[Columns, int | None, Columns]] = [(order[0], None, ())]
    best = {clique: (len(set(clique) & set(order[0])), 0) for clique in order[1:]}
    while best:
        chosen = max(best, key=lambda clique: (best[clique][0], -best[clique][1]))
        _, parent = best.pop(chosen)
        links.append((chosen, parent, tuple(sorted(set(chosen) & set(links[parent][0])))))
        members = set(chosen)
        for clique, (common, _) in best.items():
            if len(members & set(clique)) > common:
                best[clique] = (len(members & set(clique)), len(links) - 1)
    return links


def _plan_merges(shape: Sequence[int], columns: Columns, sets: Iterable[Columns]) -> tuple[_Merge, ...]:
    """Return the order of adding tables up to a clique in which partial sums are small."""
    left = sorted(
        dict.fromkeys(subset for subset in sets if subset != columns),
        key=lambda subset: (-_cells(shape, subset), subset),
    )
    merges: list[_Merge] = []
    parts: dict[Columns, list[Columns]] = {}
    top: list[Columns] = []
    for subset in left:  # a set inside another one is added to it
        for other in reversed(top):
            if set(subset) <= set(other):
                parts[other].append(subset)
                break
        else:
            top.append(subset)
            parts[subset] = []
    merges += [_Merge(subset, tuple(parts[subset])) for subset in reversed(top) if parts[subset]]
    waiting = {subset: (_cells(shape, subset), set(subset)) for subset in top}
    while len(waiting) > 1:  # the smallest one is added to the one with which it makes the smallest table
        first = min(waiting, key=lambda subset: (waiting[subset][0], subset))
        members = waiting.pop(first)[1]
        second = min(waiting, key=lambda subset: (_cells(shape, members | waiting[subset][1]), subset))
        union = tuple(sorted(members | waiting.pop(second)[1]))
        merges.append(_Merge(union, tuple(part for part in (first, second) if part != union)))
        waiting[union] = (_cells(shape, union), set(union))
    last = next(iter(waiting), None)
    if last != columns:
        merges.append(_Merge(columns, () if last is None else (last,)))
    return tuple(merges)
