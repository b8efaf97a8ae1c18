"""Constraints of a schema as sets of rows that cannot be: compiled, compared with each other, and read off cells.

A row breaks `when … then …` where the first is true and the second is false, as with CHECK in SQL: a condition on a
missing value is neither.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from dodona.errors import InvalidRequest
from dodona.knowledge.cells import Support
from dodona.query.predicate import (
    EVERYTHING,
    NOTHING,
    Among,
    And,
    Axes,
    Jointly,
    NonNegative,
    Or,
    Predicate,
    among,
    among_mask,
    axis_classes,
    complement,
    conjunction,
    disjunction,
    evaluate_predicate,
    predicate_attributes,
    unpack_bits,
)
from dodona.schema.encoding import fallback_codes
from dodona.schema.schema import ROW_OF, Constraint, Domain, Schema, row_labels
from dodona.sql.compile import compile_sql

_MOST_CASES = 1 << 22


class InvalidConstraint(InvalidRequest):
    """A constraint cannot be read, forbids everything it is about, or contradicts another."""

    code = "invalid-constraint"

    def __init__(self, message: str, place: int) -> None:
        """Take the number of the constraint at fault."""
        self.place = place
        super().__init__(message)


@dataclass(frozen=True)
class RowConstraint:
    """A constraint as predicates."""

    written: Constraint
    about: Predicate
    """The rows that it says something about."""
    forbidden: Predicate
    """The rows that it says cannot be."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The columns that it compares."""
        return predicate_attributes(self.forbidden)


def compile_where(text: str, schema: Schema) -> Predicate:
    """Return the rows for which a condition in SQL is true."""
    table = ".".join(f'"{part}"' for part in schema.table.split("."))
    question = compile_sql(f"SELECT count(*) FROM {table} WHERE {text}", schema)  # noqa: S608  no engine runs it
    if question.keys or question.having is not None or question.limit is not None or len(question.columns) != 1:
        raise InvalidRequest(
            f"{text[:60]!r} is more than a condition. Write what stands after WHERE, such as age >= 65."
        )
    return question.where


def compile_constraints(schema: Schema) -> tuple[RowConstraint, ...]:
    """Return the constraints of a schema; refuses those that cannot be read, and those that contradict each other."""
    constraints = tuple(_compile(constraint, schema, place) for place, constraint in enumerate(schema.constraints))
    _require_possible(constraints, schema.domain)
    return (*constraints, *_table_constraints(schema))


def _table_constraints(schema: Schema) -> Iterator[RowConstraint]:
    """Yield, for several tables, that a row has no value in the columns of a table that it is not joined to.

    Theorem: linked-tables
    """
    if not schema.linked:
        return
    labels = [label.split("+") for label in row_labels(schema.table, schema.linked)]
    for name, domain in ((schema.table, schema.own.domain), *((table.name, table.domain) for table in schema.linked)):
        apart = among(schema.domain[ROW_OF], (code for code, label in enumerate(labels) if name not in label))
        for attribute in domain:
            missing = fallback_codes(attribute)[0]
            other = among(attribute, (code for code in range(attribute.cells) if code != missing))
            written = Constraint(never=f"{attribute.name} has a value in a row without {name}")
            yield RowConstraint(written, apart, conjunction(apart, other))


def _compile(written: Constraint, schema: Schema, place: int) -> RowConstraint:
    try:
        if written.never is not None:
            never = compile_where(written.never, schema)
            return RowConstraint(written, never, never)
        when = compile_where(written.when or "", schema)
        return RowConstraint(written, when, conjunction(when, compile_where(f"NOT ({written.then})", schema)))
    except InvalidRequest as fault:
        reason = fault.message.rpartition("\n")[2]  # without the place in a statement that nobody wrote
        raise InvalidConstraint(f"The constraint `{written}` cannot be read: {reason}", place) from fault


def _require_possible(constraints: Sequence[RowConstraint], domain: Domain) -> None:
    """Refuse a constraint that forbids every row it applies to, and constraints that do so together."""
    for place, rule in enumerate(constraints):
        if rule.written.never is None and not _leaves_some(domain, place, [rule.about], [rule]):
            raise InvalidConstraint(
                f"The constraint `{rule.written}` lets no row meet `{rule.written.when}`. Write another `then`, or "
                f'never = "{rule.written.when}".',
                place,
            )
    for (_, rule), (place, other) in combinations(enumerate(constraints), 2):
        both = [constraint.about for constraint in (rule, other) if constraint.written.never is None]
        if rule.names & other.names and both and not _leaves_some(domain, place, both, [rule, other]):
            raise InvalidConstraint(
                f"The constraints `{rule.written}` and `{other.written}` contradict each other: no row that they are "
                "about can meet both. Change or remove one of them.",
                place,
            )
    if constraints and not _possible(domain, len(constraints) - 1, _allowed(constraints)):
        listed = ", ".join(f"`{constraint.written}`" for constraint in constraints)
        raise InvalidConstraint(f"No row can meet all constraints together: {listed}.", len(constraints) - 1)


def _leaves_some(domain: Domain, place: int, about: Sequence[Predicate], constraints: Sequence[RowConstraint]) -> bool:
    """Return whether constraints leave some of the rows that they are about, if there can be any.

    Rows that have a value in every column are looked at by themselves: that a row without one breaks nothing is no
    reason to believe a constraint.
    """
    names = frozenset[str]().union(*(constraint.names for constraint in constraints), *map(predicate_attributes, about))
    for held in ([_values(domain, name) for name in sorted(names)], []):
        if _possible(domain, place, conjunction(*about, *held)):
            return _possible(domain, place, conjunction(*about, *held, _allowed(constraints)))
    return True


def _values(domain: Domain, name: str) -> Predicate:
    return among_mask(domain[name], (1 << domain[name].size) - 1)


def _allowed(constraints: Iterable[RowConstraint]) -> Predicate:
    return conjunction(*(complement(constraint.forbidden) for constraint in constraints))


def _possible(domain: Domain, place: int, wanted: Predicate) -> bool:
    """Return whether a row can meet a condition, by trying one row of each class that it distinguishes."""
    if wanted in {EVERYTHING, NOTHING}:
        return wanted == EVERYTHING
    names = [name for name in domain.names if name in predicate_attributes(wanted)]
    cases = _cases(wanted, names)
    number = math.prod(len(codes) for codes in cases.values())
    if number > _MOST_CASES:
        raise InvalidConstraint(
            f"Constraints on {', '.join(names)} tell {number:,} cases apart, and {_MOST_CASES:,} are compared. Write "
            "coarser conditions, or fewer columns together.",
            place,
        )
    return bool(evaluate_predicate(wanted, _axes(cases, names)).any())


def impossible_cells(constraints: Iterable[RowConstraint], support: Support) -> NDArray[np.bool_] | None:
    """Return which cells of a support no row can be in, in its shape; None if the constraints allow all of them.

    A constraint that also compares other columns counts where it forbids a cell whatever these are.
    """
    impossible: NDArray[np.bool_] | None = None
    for constraint in constraints:
        here = [name for name in support.domain.names if name in constraint.names]
        if not here:
            continue
        others = sorted(constraint.names - set(here))
        axes = {name: support.axes[name].reshape(support.axes[name].shape + (1,) * len(others)) for name in here}
        cases = _cases(constraint.forbidden, others)
        for place, name in enumerate(others):
            shape = [1] * (len(support.shape) + len(others))
            shape[len(support.shape) + place] = -1
            axes[name] = cases[name].reshape(shape)
        held = evaluate_predicate(constraint.forbidden, axes)
        if others:
            held = np.asarray(held.all(axis=tuple(range(len(support.shape), len(support.shape) + len(others)))))
        if held.any():
            impossible = held if impossible is None else impossible | held
    return None if impossible is None else np.broadcast_to(impossible, support.shape)


def forbidden_rows(constraints: Iterable[RowConstraint], names: Iterable[str]) -> Predicate:
    """Return the rows that cannot be, by those constraints that compare only these columns."""
    known = set(names)
    return disjunction(*(constraint.forbidden for constraint in constraints if constraint.names <= known))


def _cases(predicate: Predicate, names: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Return for each column one code of each class of codes that a predicate treats alike."""
    marks: dict[str, list[NDArray[np.int64]]] = {name: [] for name in names}
    for name, mark in _marks(predicate):
        if name in marks:
            marks[name].append(mark)
    return {
        name: np.unique(np.stack(column_marks), axis=1, return_index=True)[1] for name, column_marks in marks.items()
    }


def _marks(predicate: Predicate) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield for a column a mark of each code; codes whose marks are all equal are in one class."""
    match predicate:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _marks(part)
        case Among(name, number, codes):
            yield name, unpack_bits(codes, number).astype(np.int64)
        case Jointly(together, shape, codes):
            for name, classes in zip(together, axis_classes(shape, codes), strict=True):
                yield name, np.array(classes, dtype=np.int64)
        case NonNegative(polynomial):
            for name, number in zip(polynomial.names, polynomial.cells, strict=True):
                yield name, np.arange(number)
        case _:
            assert_never(predicate)


def _axes(cases: Mapping[str, NDArray[np.int64]], names: Sequence[str]) -> Axes:
    return {
        name: cases[name].reshape([-1 if place == axis else 1 for axis in range(len(names))])
        for place, name in enumerate(names)
    }
