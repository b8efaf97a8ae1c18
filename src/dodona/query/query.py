"""Linear queries: sums over rows of an integer weight that depends only on the row's cell.

A `Query` is a list of `Block`s over one domain; a block has a condition, group keys and a weight. A query is validated
against its domain on construction, so every existing query can be answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Self, assert_never

import numpy as np

from dodona.errors import InvalidArgument
from dodona.numbers import Integers, to_integer
from dodona.query import predicate as predicates
from dodona.query.column import EQUAL, LiteralValue, comparison_mask, require_special_cell
from dodona.query.polynomial import Polynomial, evaluate_polynomial
from dodona.query.predicate import EVERYTHING, NOTHING, Among, And, Axes, Jointly, NonNegative, Or, Predicate
from dodona.query.ranges import polynomial_range
from dodona.schema.attributes import MISSING, OUTSIDE, Attribute, numeric_grid
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain

if TYPE_CHECKING:
    from dodona.query.person_table import PersonTable

# --- Weights: the contribution of a row, as an integer number of steps that depends only on its cell. ---


MOST_TABLE = 1 << 16
"""The largest number of combinations of cells with a number for each."""
MOST_POWER = 8
"""The largest power of a value: higher ones are not needed and overflow the integers."""


@dataclass(frozen=True, slots=True)
class ConstantWeight:
    """The same weight for every row; 1 gives a count."""

    number: int


@dataclass(frozen=True, slots=True)
class ValueWeight:
    """(offset + factor·code)^power of an attribute; 0 in `<missing>` and `<outside>`, if there are such cells."""

    attribute: str
    size: int
    """The number of values of the attribute."""
    offset: int
    factor: int
    power: int = 1

    def __post_init__(self) -> None:
        """Refuse powers that are not sums of integers."""
        if not 1 <= self.power <= MOST_POWER:
            raise InvalidArgument("power", self.power, f"write a whole number from 1 to {MOST_POWER}")


@dataclass(frozen=True, slots=True)
class TableWeight:
    """A number for each cell of an attribute, or for each combination of cells of several."""

    names: tuple[str, ...]
    """The attributes, sorted."""
    shape: tuple[int, ...]
    """The number of cells of each attribute."""
    numbers: tuple[int, ...]
    """The numbers of all combinations, in row-major order."""


@dataclass(frozen=True, slots=True)
class PolynomialWeight:
    """A polynomial in the codes of several attributes; 0 where one of them has no value."""

    polynomial: Polynomial


@dataclass(frozen=True, slots=True)
class CaseWeight:
    """The weight of the first branch that holds, otherwise the last one."""

    branches: tuple[tuple[Predicate, Weight], ...]
    otherwise: Weight


@dataclass(frozen=True, slots=True)
class PeopleWeight:
    """Counts each person once in each group that contains one of their rows.

    It is not a sum over rows, so it does not depend on the cell alone. Only sources that know whose row it is can
    answer it.
    """


Weight = ConstantWeight | ValueWeight | TableWeight | PolynomialWeight | CaseWeight | PeopleWeight
ONE = ConstantWeight(1)


def evaluate_weight(weight: Weight, axes: Axes) -> Integers:
    """Return the weight of rows, or of the cells of a product, in a shape that broadcasts with them."""
    match weight:
        case ConstantWeight(number):
            return np.asarray(number, dtype=np.int64)
        case ValueWeight(name, size, offset, factor, power):
            codes = axes[name]
            if codes.size < size:  # only a few cells of a large attribute
                present = (offset + factor * np.minimum(codes, size - 1)) ** power
                return np.where(codes < size, present, np.int64(0))
            table = np.zeros(size + 2, dtype=np.int64)
            table[:size] = (offset + factor * np.arange(size, dtype=np.int64)) ** power
            weights: Integers = table[codes]
            return weights
        case TableWeight(names, shape, numbers):
            place = np.asarray(0, dtype=np.int64)
            for name, number in zip(names, shape, strict=True):
                place = place * number + axes[name]
            known: Integers = np.array(numbers, dtype=np.int64)[place]
            return known
        case PolynomialWeight(polynomial):
            values, held = evaluate_polynomial(polynomial, axes)
            return np.where(held, values, np.int64(0))
        case CaseWeight(branches, otherwise):
            result = evaluate_weight(otherwise, axes)
            for predicate, branch in reversed(branches):
                result = np.where(predicates.evaluate_predicate(predicate, axes), evaluate_weight(branch, axes), result)
            return result
        case PeopleWeight():
            raise InvalidArgument("weight", "count(DISTINCT ...)", "ask it by itself: cells do not tell people apart")
        case _:
            assert_never(weight)


def weight_attributes(weight: Weight) -> frozenset[str]:
    """Return the names of the attributes that a weight depends on."""
    match weight:
        case ConstantWeight() | PeopleWeight():
            return frozenset()
        case ValueWeight(name):
            return frozenset((name,))
        case TableWeight(names):
            return frozenset(names)
        case PolynomialWeight(polynomial):
            return frozenset(polynomial.names)
        case CaseWeight(branches, otherwise):
            parts = (
                predicates.predicate_attributes(predicate) | weight_attributes(branch) for predicate, branch in branches
            )
            return weight_attributes(otherwise).union(*parts)
        case _:
            assert_never(weight)


_MOST_NARROWED = 8  # branches of a CASE whose conditions are looked at to narrow the range


def weight_range(weight: Weight, where: Predicate = EVERYTHING) -> tuple[int, int]:
    """Return a lower and an upper bound on the weight of a row that meets a condition."""
    match weight:
        case ConstantWeight(number):
            return number, number
        case PeopleWeight():
            return 0, 1
        case ValueWeight(_, size, offset, factor, power):
            ends = [(offset + factor * code) ** power for code in (0, size - 1)]
            return min(0, *ends), max(0, *ends)
        case TableWeight(numbers=numbers):
            return min(numbers), max(numbers)
        case PolynomialWeight(polynomial):
            low, high = polynomial.bounds() if where == EVERYTHING else polynomial_range(polynomial, where)
            return min(0, low), max(0, high)
        case CaseWeight():
            return _case_range(weight, where)
        case _:
            assert_never(weight)


@lru_cache(maxsize=1 << 10)
def _case_range(weight: CaseWeight, where: Predicate) -> tuple[int, int]:
    """Return the range over all branches, each over the rows in which it is the first that holds."""
    spans, rest = [], where
    for guard, branch in weight.branches:
        met = predicates.conjunction(rest, guard)
        spans += [] if met == NOTHING else [weight_range(branch, met)]
        if len(weight.branches) <= _MOST_NARROWED:
            rest = predicates.conjunction(rest, predicates.complement(guard))
    spans += [] if rest == NOTHING else [weight_range(weight.otherwise, rest)]
    return min((low for low, _ in spans), default=0), max((high for _, high in spans), default=0)


# --- Validation: whether the parts of a block fit the domain of the query. ---


class QueryValidator:
    """Validates blocks against a domain, caching the number of cells of each attribute."""

    __slots__ = ("_cells", "_domain", "place")

    def __init__(self, domain: Domain) -> None:
        """Validate against this domain."""
        self._domain = domain
        self._cells: dict[str, int] = {}
        self.place = 0
        """The number of the block being validated."""

    def predicate(self, predicate: Predicate) -> None:
        """Refuse sets of cells that do not fit the attribute."""
        match predicate:
            case Among():
                name, number, codes = predicate.attribute, predicate.cells, predicate.codes
                if number != (self._cells.get(name) or self._counted(name)):
                    raise self._other(name, f"{number} cells")
                if not 0 <= codes < 1 << number:
                    raise InvalidArgument(f"blocks[{self.place}]", f"{name}:{codes:x}", f"write bits below 2^{number}")
            case Jointly(names):
                combinations = self._jointly(predicate)
                if predicate.codes < 0 or predicate.codes.bit_length() > combinations:
                    accepted = f"write bits below 2^{combinations}"
                    raise InvalidArgument(f"blocks[{self.place}]", ", ".join(names), accepted)
            case NonNegative(polynomial):
                self._polynomial(polynomial)
            case And(parts) | Or(parts):
                for part in parts:
                    self.predicate(part)
            case _:
                assert_never(predicate)

    def _jointly(self, predicate: Jointly | TableWeight, most: int = predicates.MOST_COMBINATIONS) -> int:
        """Return the number of combinations; refuses those that do not fit the attributes, and too many."""
        names, shape = predicate.names, predicate.shape
        if not names or any(before >= after for before, after in pairwise(names)) or len(shape) != len(names):
            accepted = "write attributes in the order of their names, each once"
            raise InvalidArgument(f"blocks[{self.place}]", names, accepted)
        for name, number in zip(names, shape, strict=True):
            if number != (self._cells.get(name) or self._counted(name)):
                raise self._other(name, f"{number} cells")
        combinations = math.prod(shape)
        if combinations > most or len(names) > predicates.MOST_TOGETHER:
            accepted = f"look at no more than {most} combinations of cells together"
            raise InvalidArgument(f"blocks[{self.place}]", f"{combinations} combinations", accepted)
        return combinations

    def _polynomial(self, polynomial: Polynomial) -> None:
        """Refuse a polynomial made for different attributes of the same names."""
        for name, size, number in zip(polynomial.names, polynomial.sizes, polynomial.cells, strict=True):
            if (size, number) != (self._domain[name].size, self._domain[name].cells):
                raise self._other(name, f"{size} values and {number} cells")

    def partition(self, partition: Partition) -> None:
        """Refuse a partition made for a different attribute of the same name."""
        name, attribute = partition.attribute, self._domain.by_name[partition.attribute]
        if partition.size != attribute.size or partition.cells != attribute.cells:
            raise self._other(name, f"groups of {partition.size} values and {partition.further} further cells")

    def weight(self, weight: Weight) -> None:
        """Refuse a weight made for a different attribute of the same name."""
        match weight:
            case ConstantWeight(number):
                self._whole(number)
            case ValueWeight(name, size, offset, factor, power):
                if size != self._domain.by_name[name].size:
                    raise self._other(name, f"{size} values")
                self._whole(offset, factor, power)
            case TableWeight(numbers=numbers):
                if len(numbers) != self._jointly(weight, MOST_TABLE):
                    accepted = "write a number for each combination of cells"
                    raise InvalidArgument(f"blocks[{self.place}].weight", f"{len(numbers)} numbers", accepted)
                self._whole(*numbers)
            case PolynomialWeight(polynomial):
                self._polynomial(polynomial)
            case PeopleWeight():
                pass
            case CaseWeight(branches, otherwise):
                for predicate, branch in branches:
                    self.predicate(predicate)
                    self._branch(branch)
                self._branch(otherwise)
            case _:
                assert_never(weight)

    def _branch(self, weight: Weight) -> None:
        """Refuse a weight that counts people in some rows and rows in others."""
        if isinstance(weight, PeopleWeight):
            accepted = "count people under a condition of their own"
            raise InvalidArgument(f"blocks[{self.place}].weight", "People in cases", accepted)
        self.weight(weight)

    def _whole(self, *numbers: object) -> None:
        """Refuse numbers other than Python ints: numpy integers overflow when squared, and engines round fractions."""
        for number in numbers:
            if type(number) is not int:
                accepted = "write Python's own whole numbers in weights, such as int(number)"
                raise InvalidArgument(f"blocks[{self.place}].weight", number, accepted)

    def _counted(self, name: str) -> int:
        cells = self._cells[name] = self._domain.by_name[name].cells
        return cells

    def _other(self, name: str, value: str) -> InvalidArgument:
        values, number = self._domain[name].size, self._domain.by_name[name].cells
        accepted = f"{name} has {values} values and {number} cells here; write predicates with this domain's columns"
        return InvalidArgument(f"blocks[{self.place}]", f"{name}: {value}", accepted)


# --- Queries: linear queries over a public domain. An answer is a sum over rows of a weight set by the cell. ---


MOST_VALUES = 1 << 22
LARGEST_WEIGHT = 1 << 61
"""The limit on one row's total weight in all blocks: replacing a row moves twice as much, and 2^62 is priced."""


@dataclass(frozen=True, slots=True)
class CaseKey:
    """A computed key: the label of the first predicate that holds, otherwise the last one."""

    branches: tuple[tuple[str, Predicate], ...]
    otherwise: str
    groups: int = field(init=False, repr=False, compare=False)
    """The number of groups."""

    def __post_init__(self) -> None:
        """Count the groups."""
        object.__setattr__(self, "groups", len(self.branches) + 1)


Key = Partition | CaseKey


@dataclass(frozen=True, slots=True)
class Block:
    """The sum of the weights of the selected rows, for each group. A row is in at most one group."""

    where: Predicate = EVERYTHING
    keys: tuple[Key, ...] = ()
    weight: Weight = field(default=ONE, hash=False)
    """Not hashed, as few blocks of the same rows and keys differ in it."""
    unit: Fraction = field(default=Fraction(1), hash=False)
    """The value of one step in the answer's unit. The weight nearly always determines it, and its hash is slow."""
    table: PersonTable | None = field(default=None, hash=False)
    """The table of people that it is about, whose columns all other parts name; None for the rows themselves."""
    values: int = field(init=False, repr=False, compare=False)
    """The number of answers: one per group, in row-major order of the keys."""
    about_people: bool = field(init=False, repr=False, compare=False)
    """Whether it is about people, so that it is no sum over the cells of rows."""

    def __post_init__(self) -> None:
        """Count the answers."""
        object.__setattr__(self, "values", math.prod([key.groups for key in self.keys]) if self.keys else 1)
        object.__setattr__(self, "about_people", self.table is not None or type(self.weight) is PeopleWeight)

    @property
    def attributes(self) -> frozenset[str]:
        """The names of all attributes in use."""
        seen = predicates.predicate_attributes(self.where)
        if not self.keys and type(self.weight) is ConstantWeight:
            return seen
        return (seen | weight_attributes(self.weight)).union(*map(key_attributes, self.keys))


@dataclass(frozen=True, slots=True)
class Query:
    """Blocks asked together over one domain; the answers are concatenated in block order."""

    domain: Domain = field(hash=False)
    blocks: tuple[Block, ...]
    values: int = field(init=False, repr=False, compare=False)
    """The total number of answers."""

    def __post_init__(self) -> None:
        """Refuse blocks that do not fit the domain, too many answers, and weights that overflow the integers."""
        object.__setattr__(self, "blocks", tuple(self.blocks))
        rows = QueryValidator(self.domain)
        for place, block in enumerate(self.blocks):
            fitness = rows if block.table is None else _person_validator(block, self.domain)
            fitness.place = place
            fitness.predicate(block.where)
            for key in block.keys:
                if isinstance(key, Partition):
                    fitness.partition(key)
                else:
                    for _, predicate in key.branches:
                        fitness.predicate(predicate)
            fitness.weight(block.weight)
            if block.unit.numerator < 1:
                raise InvalidArgument(f"blocks[{fitness.place}].unit", block.unit, "write a fraction above 0")
        self._hold_together()

    def _hold_together(self) -> None:
        """Refuse too many answers and weights that overflow the integers."""
        values = largest = 0
        for block in self.blocks:
            values += block.values
            weight = block.weight
            largest += abs(weight.number) if type(weight) is ConstantWeight else max(map(abs, weight_range(weight)))
        if not 0 < values <= MOST_VALUES:
            raise InvalidArgument("query", f"{values} answers", f"ask for 1 to {MOST_VALUES} answers at once")
        if largest > LARGEST_WEIGHT:
            accepted = "one row may count for 2^61 steps in all: choose a larger step, or a centre near the values"
            raise InvalidArgument("weights", largest, accepted)
        object.__setattr__(self, "values", values)

    @classmethod
    def count(cls, domain: Domain, where: Predicate = EVERYTHING) -> Self:
        """Return the query for the number of selected rows."""
        return cls(domain, (Block(where),))

    @classmethod
    def histogram(cls, domain: Domain, by: str | Iterable[str], where: Predicate = EVERYTHING) -> Self:
        """Return the query for the number of rows per group; a column with declared bins is grouped by them."""
        names = (by,) if isinstance(by, str) else tuple(by)
        return cls(domain, (Block(where, tuple(Partition.of(domain[name]) for name in names)),))

    @classmethod
    def marginal(cls, domain: Domain, by: str | Iterable[str], where: Predicate = EVERYTHING) -> Self:
        """Return the query for the number of rows per combination of values, ignoring declared bins."""
        names = (by,) if isinstance(by, str) else tuple(by)
        return cls(domain, (Block(where, tuple(Partition.every(domain[name], 1) for name in names)),))

    @classmethod
    def sum(cls, domain: Domain, of: str, where: Predicate = EVERYTHING) -> Self:
        """Return the query for the sum of a column on its grid; rows without a value add nothing."""
        weight, unit = column_weight(domain[of])
        return cls(domain, (Block(where, (), weight, unit),))

    @classmethod
    def weighted(
        cls,
        domain: Domain,
        weight: Weight | Mapping[str, Mapping[LiteralValue, int]],
        where: Predicate = EVERYTHING,
    ) -> Self:
        """Return the query for the sum of a weight, or of an integer for each label of one column.

        Omitted labels have weight 0.

        >>> from dodona.schema.attributes import Category
        >>> severity = Domain((Category("severity", ["mild", "severe"]),))
        >>> Query.weighted(severity, {"severity": {"mild": 1, "severe": 5}}).values
        1
        """
        row_weight = weight if isinstance(weight, Weight) else _label_weights(domain, weight)
        return cls(domain, (Block(where, (), row_weight),))

    @classmethod
    def people(cls, domain: Domain, by: str | Iterable[str] = (), where: Predicate = EVERYTHING) -> Self:
        """Return the query for the number of people with a selected row, in total or per group."""
        names = (by,) if isinstance(by, str) else tuple(by)
        return cls(domain, (Block(where, tuple(Partition.of(domain[name]) for name in names), PeopleWeight()),))

    def stacked(self, *others: Self) -> Self:
        """Return the query that asks all of them together; they must share one domain."""
        for query in others:
            if query.domain is not self.domain and query.domain != self.domain:
                raise InvalidArgument("others", query.domain.names, "ask queries over the same domain together")
        return self._of_validated(tuple([block for query in (self, *others) for block in query.blocks]))

    def domain_of(self, place: int) -> Domain:
        """Return the domain that a block's parts name: of the rows, or of its table of people."""
        table = self.blocks[place].table
        return self.domain if table is None else table.domain

    def part(self, *places: int, of_all_rows: bool = False) -> Self:
        """Return the query for some of the blocks, by number; they are not validated again.

        With `of_all_rows` their conditions are dropped.
        """
        blocks = [self.blocks[place] for place in places]
        if of_all_rows:
            blocks = [Block(EVERYTHING, block.keys, block.weight, block.unit, block.table) for block in blocks]
        return self._of_validated(tuple(blocks))

    def _of_validated(self, blocks: tuple[Block, ...]) -> Self:
        """Return a query of blocks already validated one by one; only the joint limits are checked."""
        query = object.__new__(type(self))
        object.__setattr__(query, "domain", self.domain)
        object.__setattr__(query, "blocks", blocks)
        query._hold_together()
        return query


def _person_validator(block: Block, domain: Domain) -> QueryValidator:
    """Return the validator of a block about people, whose table must fit the rows."""
    if block.table is None or isinstance(block.weight, PeopleWeight):
        raise InvalidArgument("table", block.table, "count(*) counts people in a table of people")
    block.table.validate(domain)
    return QueryValidator(block.table.domain)


def column_weight(attribute: Attribute, *, centre: Fraction = Fraction(0), power: int = 1) -> tuple[Weight, Fraction]:
    """Return the weight (value - centre)^power of a column in integer steps, and the value of a step.

    >>> from dodona.schema.attributes import Number
    >>> column_weight(Number("stay", Fraction(0), Fraction(365), Fraction(1, 4)))
    (ValueWeight(attribute='stay', size=1461, offset=0, factor=1, power=1), Fraction(1, 4))
    """
    grid = numeric_grid(attribute)
    if grid is None:
        raise InvalidArgument("column", attribute.name, f"a {attribute.kind} has no sum; name a column of numbers")
    lower, step = grid[0] - centre, grid[1]
    common = math.gcd(lower.numerator * step.denominator, step.numerator * lower.denominator)
    unit = Fraction(common, lower.denominator * step.denominator)
    weight = ValueWeight(attribute.name, attribute.size, int(lower / unit), int(step / unit), power)
    return weight, unit**power


def group_numbers(keys: Iterable[Key], axes: Axes) -> Integers:
    """Return the group number of rows, or of the cells of a product."""
    numbers: Integers = np.asarray(0, dtype=np.int64)
    for key in keys:
        if isinstance(key, Partition):
            group = axes[key.attribute] if key.single else key.table()[axes[key.attribute]]
        else:
            group = np.asarray(len(key.branches), dtype=np.int64)
            for number, (_, predicate) in reversed(tuple(enumerate(key.branches))):
                group = np.where(predicates.evaluate_predicate(predicate, axes), np.int64(number), group)
        numbers = numbers * key.groups + group
    return numbers


def product_axes(domain: Domain, names: Iterable[str]) -> dict[str, Integers]:
    """Return the codes of all cells of a product of attributes, in shapes that broadcast to it."""
    ordered = sorted(names)
    shapes = {name: [-1 if other == name else 1 for other in ordered] for name in ordered}
    return {name: np.arange(domain[name].cells, dtype=np.int64).reshape(shape) for name, shape in shapes.items()}


def product_shape(domain: Domain, names: Iterable[str]) -> tuple[int, ...]:
    """Return the shape of a product of attributes in the order of their names."""
    return tuple(domain[name].cells for name in sorted(names))


def block_weights(block: Block, axes: Axes) -> Integers:
    """Return the weight of each row or cell: 0 if not selected."""
    if block.table is not None:
        raise InvalidArgument("block", "a table of people", "ask it by itself: cells do not tell people apart")
    if block.where == EVERYTHING and isinstance(block.weight, ConstantWeight):
        return evaluate_weight(block.weight, axes)
    return np.where(predicates.evaluate_predicate(block.where, axes), evaluate_weight(block.weight, axes), np.int64(0))


def _label_weights(domain: Domain, weight: Mapping[str, Mapping[LiteralValue, int]]) -> Weight:
    """Return the weight defined by integers for the labels of one column."""
    if len(weight) != 1:
        raise InvalidArgument("weight", list(weight), "name one column, such as {'severity': {'mild': 1, 'severe': 5}}")
    ((name, numbers),) = weight.items()
    attribute = domain[name]
    codes: dict[int, int] = {}
    for label, number in numbers.items():
        named = isinstance(label, str) and label in {MISSING, OUTSIDE}
        bit = require_special_cell(attribute, str(label)) if named else comparison_mask(attribute, EQUAL, label)
        counted = to_integer(number, argument=f"weight of {label}", lower=-LARGEST_WEIGHT, upper=LARGEST_WEIGHT)
        codes[counted] = codes.get(counted, 0) | bit
    listed = ((bits, counted) for counted, bits in sorted(codes.items()) if counted)
    branches = tuple((predicates.among_mask(attribute, bits), ConstantWeight(counted)) for bits, counted in listed)
    return CaseWeight(branches, ConstantWeight(0))


def key_attributes(key: Key) -> frozenset[str]:
    """Return the names of the attributes that a key depends on."""
    if isinstance(key, Partition):
        return frozenset((key.attribute,))
    return frozenset().union(*(predicates.predicate_attributes(predicate) for _, predicate in key.branches))
