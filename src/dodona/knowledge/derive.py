"""Answers that follow from earlier releases by exact linear algebra. No data is touched, and it is free.

Membership in the span is proved in integers; the combination is the unbiased one with the least variance.
"""

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dodona.answer.laws import NoiseTerm as Draws
from dodona.answer.laws import upper_quantile
from dodona.errors import InvalidArgument
from dodona.knowledge.patterns import (
    BlockMeasurement,
    StepProduct,
    StepVector,
    block_vectors,
    dependence,
    noise_variance,
)
from dodona.numbers import to_integer
from dodona.privacy.accuracy import to_failure_probability
from dodona.privacy.additive_noise import Noise
from dodona.query.query import Block, Query
from dodona.schema.schema import Domain

# --- The exact span of integer vectors: whether a vector is a combination of others, and which one. ---


PRIME = 2**31 - 1
_MOST_DIGITS = 256

IntegerVector = Mapping[int, int]
"""Entries that are not 0, by the number of their column."""


class Span:
    """Independent integer vectors, added one at a time, with their reduced combinations modulo a prime."""

    def __init__(self) -> None:
        """Start with no vectors."""
        self.basis: list[IntegerVector] = []
        """The independent vectors."""
        self._reduced = np.zeros((8, 8), dtype=np.int64)  # each with 1 at its pivot and 0 at earlier pivots
        self._combined = np.zeros((8, 8), dtype=np.int64)  # coefficients of each reduced row in the vectors
        self._pivots = np.zeros(8, dtype=np.int64)
        self.work = 0
        """How many numbers were multiplied to take the vectors in."""

    @property
    def rank(self) -> int:
        """The number of independent vectors."""
        return len(self.basis)

    @property
    def pivots(self) -> NDArray[np.int64]:
        """Columns that distinguish all vectors of the span."""
        return self._pivots[: self.rank]

    def add(self, vector: IntegerVector) -> bool:
        """Add a vector; return whether it is independent of the earlier ones, modulo the prime."""
        self._grow(max(vector, default=0) + 1)
        left, combination = self._reduce(vector)
        self.work += int(np.count_nonzero(combination)) * (len(left) + len(combination))
        places = np.flatnonzero(left)
        if len(places) == 0:
            return False
        pivot = int(places[-1])  # later columns are newer, so fewer vectors have them
        inverse = pow(int(left[pivot]), -1, PRIME)
        rank = self.rank
        combination[rank] = 1
        self._reduced[rank] = left * inverse % PRIME
        self._combined[rank] = combination * inverse % PRIME
        self._pivots[rank] = pivot
        self.basis.append(vector)
        return True

    def combination(self, target: IntegerVector) -> dict[int, Fraction] | None:
        """Return the coefficients with Σ coefficient·vector = target exactly, without zeros; None if there are none.

        Theorem: derivation
        """
        if max(target, default=0) >= self._reduced.shape[1]:
            return None
        rest, power = dict(target), 1
        residues: defaultdict[int, int] = defaultdict(int)
        for digit in range(_MOST_DIGITS):
            solved = self._solve(rest)
            if solved is None:
                return None
            for place, number in solved.items():
                residues[place] += number * power
            power *= PRIME
            rest = {column: value // PRIME for column, value in self._less(rest, solved).items()}
            if digit & (digit - 1) == 0 or not rest:  # after 1, 2, 3, 5, 9, … digits
                numbers = _fractions(residues, power)
                if numbers is not None and self._holds(numbers, target):
                    return numbers
        return None

    def _solve(self, target: IntegerVector) -> dict[int, int] | None:
        """Return the combination modulo the prime, with representatives nearest to 0."""
        left, combination = self._reduce(target)
        if left.any():
            return None
        numbers = -combination[: self.rank] % PRIME
        numbers = np.where(numbers > PRIME // 2, numbers - PRIME, numbers)
        places = np.flatnonzero(numbers)
        return dict(zip(places.tolist(), numbers[places].tolist(), strict=True))

    def _less(self, target: IntegerVector, numbers: Mapping[int, int]) -> dict[int, int]:
        """Return target - Σ number·vector."""
        difference = dict(target)
        for place, number in numbers.items():
            for column, value in self.basis[place].items():
                difference[column] = difference.get(column, 0) - number * value
        return {column: value for column, value in difference.items() if value}

    def _holds(self, numbers: Mapping[int, Fraction], target: IntegerVector) -> bool:
        common = math.lcm(*(number.denominator for number in numbers.values()))
        whole = {place: int(number * common) for place, number in numbers.items()}
        return not self._less({column: common * value for column, value in target.items()}, whole)

    def _reduce(self, vector: IntegerVector) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the remainder of a vector after reduction by the span, and its negated combination."""
        left = np.zeros(self._reduced.shape[1], dtype=np.int64)
        for column, value in vector.items():
            left[column] = value % PRIME
        combination = np.zeros(self._combined.shape[1], dtype=np.int64)
        place = 0
        while True:
            ahead = np.flatnonzero(left[self._pivots[place : self.rank]])
            if len(ahead) == 0:
                return left, combination
            place += int(ahead[0])
            factor = left[self._pivots[place]]
            left = (left - factor * self._reduced[place]) % PRIME
            combination = (combination - factor * self._combined[place]) % PRIME
            place += 1

    def _grow(self, columns: int) -> None:
        rank, (rows, width) = self.rank, self._reduced.shape
        if rank == rows:
            self._combined = np.pad(self._combined, ((0, rows), (0, rows)))
            self._pivots = np.pad(self._pivots, (0, rows))
            self._reduced = np.pad(self._reduced, ((0, rows), (0, 0)))
        if columns > width:
            self._reduced = np.pad(self._reduced, ((0, 0), (0, max(columns, 2 * width) - width)))


def _fractions(residues: Mapping[int, int], power: int) -> dict[int, Fraction] | None:
    """Return fractions with small terms and one common denominator that equal these numbers modulo the power."""
    bound = math.isqrt(power // 2)
    common = 1
    for number in residues.values():
        common *= _denominator(number * common % power, power, bound)
        if common > bound:
            return None
    numbers = {}
    for place, number in residues.items():
        top = number * common % power
        top = top - power if top > power // 2 else top
        if abs(top) > bound * common:
            return None
        if top:
            numbers[place] = Fraction(top, common)
    return numbers


def _denominator(number: int, power: int, bound: int) -> int:
    """Return the least denominator of a fraction congruent to this number modulo the power, by Euclid's algorithm."""
    before, after, first, second = power, number, 0, 1
    while after > bound:
        quotient = before // after
        before, after = after, before - quotient * after
        first, second = second, first - quotient * second
    return abs(second) or 1


# --- A system of noisy linear measurements: the best unbiased combination for a given query. ---


_GRID = 1 << 40
"""Coefficients of what depends on the rest are rounded to this grid; all others follow from them exactly."""
MOST_ENTRIES = 1 << 22
"""Of a table of all vectors over all their columns."""
MOST_WORK = 1 << 27
"""Numbers that are multiplied to take vectors in: beyond that, no more are taken."""
_REFINED = 2  # rounds of iterative refinement of a solution in doubles
_MOST_UPDATES = 64  # of an inverse, before it is computed anew: rounding adds up


class MeasurementSystem:
    """Measurements of vectors, each with a variance, added one at a time."""

    def __init__(self) -> None:
        """Start with no measurements."""
        self._columns: dict[StepProduct, int] = {}
        self._rows: list[IntegerVector] = []
        self._variances: list[float] = []
        self._span = Span()
        self._independent: list[int] = []
        self._dependent: list[int] = []
        self._solver = _Solver()

    def __len__(self) -> int:
        return len(self._rows)

    def fits(self, vectors: Sequence[StepVector]) -> bool:
        """Return whether these vectors still fit: storage and total work are bounded."""
        new = {column for vector in vectors for column in vector if column not in self._columns}
        entries = (len(self._columns) + len(new)) * (len(self._rows) + len(vectors))
        return entries <= MOST_ENTRIES and self._span.work <= MOST_WORK

    def add(self, vector: StepVector, variance: float) -> None:
        """Add a measurement of a vector."""
        row = {self._columns.setdefault(column, len(self._columns)): value for column, value in vector.items()}
        (self._independent if self._span.add(row) else self._dependent).append(len(self._rows))
        self._rows.append(row)
        self._variances.append(variance)

    def combination(self, vector: StepVector) -> dict[int, Fraction] | None:
        """Return the coefficients of the best combination, by index of measurement; None if there is none.

        Theorem: derivation
        """
        if not self._columns.keys() >= vector.keys():
            return None
        target = {self._columns[column]: value for column, value in vector.items()}
        numbers = self._span.combination(target)
        if numbers is None:
            return None
        coefficients = {self._independent[place]: number for place, number in numbers.items()}
        best = self._best(target) if self._dependent else None
        if best is not None and self._variance(best) < self._variance(coefficients):
            coefficients = best
        return {place: number for place, number in sorted(coefficients.items()) if number}

    def _variance(self, numbers: Mapping[int, Fraction]) -> float:
        return sum(float(number) ** 2 * self._variances[place] for place, number in numbers.items() if number)

    def _best(self, target: IntegerVector) -> dict[int, Fraction] | None:
        """Return the combination with the least variance: generalised least squares over the dependent measurements.

        The coefficients of dependent measurements are free, so they are rounded; the others then follow exactly.
        The variance is flat around its minimum, so rounding changes it by less than double precision.
        """
        self._solver.follow(self._rows, self._span.pivots, self._variances)
        about = self._solver.coefficients(target)
        if not np.isfinite(about).all():
            return None  # too ill-conditioned for doubles: an exact combination exists, though not the best one
        chosen = {place: round(float(about[place]) * _GRID) for place in self._dependent}
        rest = {column: _GRID * value for column, value in target.items()}
        for place, number in chosen.items():
            for column, value in self._rows[place].items() if number else ():
                rest[column] = rest.get(column, 0) - number * value
        numbers = self._span.combination({column: value for column, value in rest.items() if value})
        if numbers is None:
            return None
        return {place: Fraction(number, _GRID) for place, number in chosen.items()} | {
            self._independent[place]: number / _GRID for place, number in numbers.items()
        }


class _Solver:
    """Generalised least squares in doubles, over columns that distinguish all vectors of the span.

    It follows new vectors by updates of low rank, which take the square of the rank; a new inverse takes its cube.
    """

    def __init__(self) -> None:
        """Start with no vectors."""
        self._pivots: dict[int, int] = {}
        self._table = np.zeros((8, 8))  # the vectors over their deviations, an axis by pivots
        self._deviations = np.zeros(0)
        self._inverse = np.zeros((0, 0))  # of the products of the table's columns
        self._updates = 0
        self._elsewhere: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        """Entries of columns that are no pivots so far, by row."""

    def follow(self, rows: Sequence[IntegerVector], pivots: NDArray[np.int64], variances: Sequence[float]) -> None:
        """Take the vectors and pivots that were added since."""
        before, rank = len(self._deviations), len(self._pivots)
        if len(rows) == before:
            return
        self._deviations = np.sqrt(np.array(variances))
        self._grow(len(rows), len(pivots))
        for place, column in enumerate(pivots[rank:].tolist(), rank):
            self._pivots[column] = place
            for row, value in self._elsewhere.pop(column, ()):
                self._table[row, place] = value / self._deviations[row]
        for row in range(before, len(rows)):
            for column, value in rows[row].items():
                pivot = self._pivots.get(column)
                if pivot is None:
                    self._elsewhere[column].append((row, value))
                else:
                    self._table[row, pivot] = value / self._deviations[row]
        self._updates += 1
        if before == 0 or self._updates > _MOST_UPDATES or len(rows) > 2 * before:
            self._updates, table = 0, self._filled
            self._inverse = _invert(table.T @ table)
        else:
            updated = self._update_inverse(before, rank)
            exact = updated is not None and np.isfinite(updated).all()
            self._inverse = updated if updated is not None and exact else _invert(self._filled.T @ self._filled)

    @property
    def _filled(self) -> NDArray[np.float64]:
        return self._table[: len(self._deviations), : len(self._pivots)]

    def _update_inverse(self, before: int, rank: int) -> NDArray[np.float64] | None:
        """Return the inverse after new rows (Woodbury's identity) and new columns (a border, by Schur's complement).

        None where rounding has left no inverse of the rows.
        """
        table, old = self._filled, self._inverse
        new = table[before:, :rank]
        moved = old @ new.T
        with np.errstate(all="ignore"):
            try:
                old = old - moved @ np.linalg.inv(np.eye(len(new)) + new @ moved) @ moved.T
            except np.linalg.LinAlgError:
                return None
            border = table[:, rank:]
            if border.shape[1] == 0:
                return old
            mixed = old @ (table[:, :rank].T @ border)
            corner = _invert(border.T @ border - (border.T @ table[:, :rank]) @ mixed)
            side = mixed @ corner
            return np.block([[old + side @ mixed.T, -side], [-side.T, corner]])

    def coefficients(self, target: IntegerVector) -> NDArray[np.float64]:
        """Return the coefficients with the least variance: measured in standard deviations, the shortest solution."""
        wanted = np.array([target.get(column, 0) for column in self._pivots], dtype=np.float64)
        table, multipliers = self._filled, self._inverse @ wanted
        for _ in range(_REFINED):
            multipliers += self._inverse @ (wanted - table.T @ (table @ multipliers))
        coefficients: NDArray[np.float64] = table @ multipliers / self._deviations
        return coefficients

    def _grow(self, rows: int, columns: int) -> None:
        held = self._table.shape
        more = [
            max(0, max(wanted, 2 * size) - size) if wanted > size else 0
            for wanted, size in zip((rows, columns), held, strict=True)
        ]
        if any(more):
            self._table = np.pad(self._table, ((0, more[0]), (0, more[1])))


def _invert(products: NDArray[np.float64]) -> NDArray[np.float64]:
    try:
        inverse: NDArray[np.float64] = np.asarray(np.linalg.inv(products), dtype=np.float64)
    except np.linalg.LinAlgError:
        inverse = np.asarray(np.linalg.pinv(products, hermitian=True), dtype=np.float64)
    return inverse


# --- Derivation: queries whose answers follow from earlier releases. No data is touched, and it is free. ---


MOST_VALUES = 1024
"""What is told beyond so many numbers is not combined: what follows from the others still does."""
MOST_BLOCKS = 256
"""And what is told beyond so many blocks; of further ones each number is still found as it was told."""
_MOST_ROWS = 1 << 62


@dataclass(frozen=True, slots=True)
class ReleasedTerm:
    """A released value and its coefficient."""

    coefficient: Fraction
    release: int
    """Which of the releases it is of, in the order in which they were taken."""
    group: int
    value: int
    noise: Noise


@dataclass(frozen=True, slots=True)
class BestCombination:
    """The best unbiased combination of released values, in steps of the block."""

    terms: tuple[ReleasedTerm, ...]
    constant: Fraction
    """What is added for the public number of rows."""
    variance: float

    @property
    def value(self) -> Fraction:
        """The estimate, an exact combination of released integers."""
        return self.constant + sum((term.coefficient * term.value for term in self.terms), Fraction(0))

    def within(self, confidence: float) -> float:
        """Return the half-width of the estimate's interval at this confidence, in steps.

        Theorem: sum-of-noises
        """
        number = Counter((abs(term.coefficient), term.noise) for term in self.terms)
        draws = tuple(Draws.of(float(coefficient), noise, times) for (coefficient, noise), times in number.items())
        return upper_quantile(draws, to_failure_probability(confidence) / 2)


class Derivation:
    """All releases of one table, ready to be combined. It grows with each release and is thread-safe.

    What was added never changes; a release is processed only when a query needs it. Beyond the first `MOST_BLOCKS` it
    waits for a query about its columns.
    """

    def __init__(self, domain: Domain, *, total: int | None = None) -> None:
        """Take the number of rows if it is exact and public, as it is when rows are replaced."""
        self._domain = domain
        self._total = None if total is None else to_integer(total, argument="total", lower=0, upper=_MOST_ROWS)
        self._released: list[BlockMeasurement] = []
        self._again: set[int] = set()  # repeated releases: their noise is not a new draw
        self._known: set[int | BlockMeasurement] = set()
        self._system = MeasurementSystem()
        self._places: list[tuple[int, int, int]] = []  # release, group, and coefficient of the number of rows
        self._told: dict[frozenset[tuple[StepProduct, int]], list[tuple[int, int, int]]] = {}  # by vector: the same
        self._taken = 0
        self._waiting: defaultdict[frozenset[str] | None, list[int]] = defaultdict(list)  # releases by their columns
        self._last: tuple[Block, list[StepVector] | None] | None = None
        self._lock = threading.Lock()

    def add(self, released: BlockMeasurement) -> None:
        """Add a release of a block over this domain; the same one again, by receipt or object, adds no information."""
        known = id(released) if released.origin is None else released
        if known in self._known:
            self._again.add(len(self._released))
        self._known.add(known)
        self._released.append(released)

    def derive(self, query: Query) -> tuple[BestCombination, ...] | None:
        """Return the best unbiased combination for each answer of a query; None if one does not follow.

        Theorem: derivation
        """
        if query.domain is not self._domain and query.domain != self._domain:
            raise InvalidArgument("query", query.domain.names, f"ask about {', '.join(self._domain.names)}")
        return self.derive_blocks(query.blocks)

    def derive_blocks(self, blocks: tuple[Block, ...]) -> tuple[BestCombination, ...] | None:
        """Return the same for blocks of a query over this domain."""
        return self._each(blocks, self._derive)

    def recall_blocks(self, blocks: tuple[Block, ...]) -> tuple[BestCombination, ...] | None:
        """Return the released values that are those of blocks, the most accurate ones; None if one was not released.

        A cell of a released table is one of them. It takes no algebra, and is the number that was told before.
        """
        return self._each(blocks, self._look_up)

    def _each(
        self, blocks: tuple[Block, ...], way: Callable[[StepVector], BestCombination | None]
    ) -> tuple[BestCombination, ...] | None:
        combinations = []
        with self._lock:
            while self._taken < len(self._released):
                release, self._taken = self._taken, self._taken + 1
                if release < MOST_BLOCKS:
                    self._take(release)
                else:
                    self._waiting[dependence(self._released[release].block)].append(release)
            for block in blocks:
                for vector in self._vectors(block) or (None,):
                    combination = None if vector is None else way(vector)
                    if combination is None:
                        return None
                    combinations.append(combination)
        return tuple(combinations)

    def _look_up(self, vector: StepVector) -> BestCombination | None:
        varying = self._varying(vector)
        for columns in (frozenset([name for column in varying for name, _, _ in column]), None):
            for release in self._waiting.pop(columns, ()):
                self._take(release)
        places = self._told.get(frozenset(varying.items())) if varying else None
        if places is None:
            return None
        best = min(places, key=lambda place: (noise_variance(self._released[place[0]].noise), place))
        return self._combined(vector, [(best, Fraction(1))])

    def _derive(self, vector: StepVector) -> BestCombination | None:
        coefficients = self._system.combination(self._varying(vector))
        if coefficients is None:
            return None
        return self._combined(
            vector, [(self._places[place], coefficient) for place, coefficient in coefficients.items()]
        )

    def _combined(
        self, vector: StepVector, coefficients: Iterable[tuple[tuple[int, int, int], Fraction]]
    ) -> BestCombination:
        constant, variance, terms = Fraction(vector.get((), 0)), 0.0, []
        for (release, group, rows), coefficient in coefficients:
            source = self._released[release]
            constant -= coefficient * rows
            variance += float(coefficient) ** 2 * noise_variance(source.noise)
            terms.append(ReleasedTerm(coefficient, release, group, source.values[group], source.noise))
        return BestCombination(tuple(terms), constant * (self._total or 0), variance)

    def _varying(self, vector: StepVector) -> StepVector:
        """Return the part of a query that is not public."""
        return vector if self._total is None else {column: value for column, value in vector.items() if column}

    def _vectors(self, block: Block) -> list[StepVector] | None:
        """Return the vectors of a block; the last ones are kept: a block is looked up, combined, and then released."""
        if self._last is None or self._last[0] is not block:
            self._last = block, block_vectors(block, self._domain)
        return self._last[1]

    def _take(self, release: int) -> None:
        """Process a release, unless it is too large to expand or the total work would exceed its limit."""
        known = None if release in self._again else self._vectors(self._released[release].block)
        if known is None:
            return
        varying = [self._varying(vector) for vector in known]
        for group, vector in enumerate(varying):
            places = self._told.setdefault(frozenset(vector.items()), [])
            places.append((release, group, known[group].get((), 0)))
        if release >= MOST_BLOCKS or len(self._system) + len(known) > MOST_VALUES or not self._system.fits(varying):
            return
        variance = noise_variance(self._released[release].noise)
        for group in sorted(range(len(known)), key=lambda index: len(known[index])):  # short vectors shorten others
            self._system.add(varying[group], variance)
            self._places.append((release, group, known[group].get((), 0)))


def derive(
    query: Query, releases: Iterable[BlockMeasurement], *, total: int | None = None
) -> tuple[BestCombination, ...] | None:
    """Return the best unbiased combination of releases for each answer of a query; None if one does not follow.

    >>> from dodona.schema.attributes import Boolean
    >>> from dodona.privacy.additive_noise import Laplace
    >>> from dodona.query.predicate import among
    >>> domain = Domain((Boolean("urgent"),))
    >>> urgent, calm = (Query.count(domain, among(domain["urgent"], [code])) for code in (1, 0))
    >>> both = Query.count(domain, among(domain["urgent"], [0, 1]))
    >>> counts = ((both, 30), (urgent, 12))
    >>> measured = [BlockMeasurement(one.blocks[0], (value,), Laplace(scale=2)) for one, value in counts]
    >>> derive(calm, measured)[0].value
    Fraction(18, 1)

    Theorem: derivation
    """
    learned = Derivation(query.domain, total=total)
    for released in releases:
        Query(query.domain, (released.block,))  # raises if the block belongs to another domain
        learned.add(released)
    return learned.derive(query)
