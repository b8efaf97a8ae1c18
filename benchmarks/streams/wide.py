"""Streams that nobody tuned for: over 23 to 40 columns and up to 10^40 cells, of many kinds of questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.streams.asking import Asked, CodeSet, WideStream
from benchmarks.streams.tables import CodedTable, Column, made_up, read_table
from dodona.errors import InvalidRequest

LENGTH = 500
_SEED = 11
_WORDINGS = 4
_POOL = 60
_FILTERS = (0, 1, 3, 4, 7, 8)
Generator = np.random.Generator
Questions = list[tuple[Asked, int]]
"""With a wording each."""


@dataclass(frozen=True, slots=True)
class Wide:
    """A stream that can be made at any length."""

    about: str
    make: Callable[[int, Path | None], tuple[CodedTable, Questions]]
    share: float = 0.01

    def stream(self, name: str, length: int, data: Path | None) -> WideStream:
        """Return the stream."""
        table, asked = self.make(length, data)
        return WideStream(name, table, asked, share=self.share)


def _chosen(generator: Generator, number: int, size: int) -> list[int]:
    return sorted(generator.choice(number, size, replace=False).tolist())


def _one(generator: Generator, table: CodedTable, place: int) -> CodeSet:
    return CodeSet(place, (int(generator.integers(table.columns[place].size)),))


def _range(generator: Generator, table: CodedTable, place: int) -> CodeSet:
    first, last = sorted(generator.integers(0, table.columns[place].size, 2).tolist())
    return CodeSet(place, tuple(range(first, last + 1)))


def _some(generator: Generator, table: CodedTable, place: int) -> CodeSet:
    size = table.columns[place].size
    number = int(generator.integers(1, max(2, size // 2 + 1)))
    return CodeSet(place, tuple(_chosen(generator, size, number)))


def _conjunctions(table: CodedTable, length: int, ways: tuple[int, int]) -> Questions:
    generator, questions = np.random.default_rng(_SEED), []
    for _ in range(length):
        places = _chosen(generator, len(table.columns), int(generator.integers(ways[0], ways[1] + 1)))
        sets = [(_one if generator.random() < 0.7 else _some)(generator, table, place) for place in places]  # noqa: PLR2004
        questions.append((Asked(tuple(sets)), 0))
    return questions


def _binary(number: int) -> CodedTable:
    return made_up([Column(f"b{place:02}", 2) for place in range(number)])


def _labels(sizes: list[int]) -> CodedTable:
    return made_up([Column(f"c{place:02}", size) for place, size in enumerate(sizes)])


def _mixed(number: int) -> CodedTable:
    """Return truth values, labels, and some ordered columns."""
    sizes = [(2, False), (7, False), (85, True), (4, False), (12, False), (40, False), (100, True), (3, False)]
    return made_up([Column(f"m{place:02}", *sizes[place % len(sizes)]) for place in range(number)])


def _drill(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    """From a table by one column to one of its values by the next column, and so on: four levels down."""
    table, generator = _labels([3, 5, 8, 4, 12, 6] * 4), np.random.default_rng(_SEED)
    questions: Questions = []
    while len(questions) < length:
        where: list[CodeSet] = []
        for place in generator.choice(len(table.columns), 4, replace=False).tolist():
            questions.append((Asked(tuple(sorted(where, key=lambda own: own.place)), (place,)), 0))
            where.append(_one(generator, table, place))
            questions.append((Asked(tuple(sorted(where, key=lambda own: own.place))), 0))
    return table, questions[:length]


def _dashboard(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    """Twelve charts that share one or two filters, which a reader changes again and again."""
    table, generator = _mixed(24), np.random.default_rng(_SEED)
    questions: Questions = []
    small = [place for place, column in enumerate(table.columns) if column.size <= 40]  # noqa: PLR2004
    charts = [tuple(sorted(generator.choice(small[4:], 1 + (n % 3 == 0), replace=False).tolist())) for n in range(12)]
    while len(questions) < length:
        where = tuple(_one(generator, table, place) for place in _chosen(generator, 4, int(generator.integers(1, 3))))
        questions += [(Asked(where, keys), 0) for keys in charts]
    return table, questions[:length]


def _averages(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    """Nine charts of counts, sums and averages of two columns by one more, under one or two changing filters."""
    table, generator = _mixed(24), np.random.default_rng(_SEED)
    found: Questions = []
    keys = [place for place in (1, 3, 4, 7, 9, 11, 12, 15, 17) if table.columns[place].size <= 12]  # noqa: PLR2004
    charts = [(key, (None, 2, 6)[place % 3], place % 2 == 0) for place, key in enumerate(keys)]
    while len(found) < length:
        places = sorted(generator.choice([0, 8, 16, 19], int(generator.integers(1, 3)), replace=False).tolist())
        where = tuple(_one(generator, table, place) for place in places)
        found += [(Asked(where, (key,), total, average=mean and total is not None), 0) for key, total, mean in charts]
    return table, found[:length]


def _own_conditions(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    """Sums and averages of a column under a range of itself, and one more condition."""
    table, generator, found = _mixed(24), np.random.default_rng(_SEED), []
    for turn in range(length):
        other = int(generator.choice([0, 1, 3, 4]))
        sets = (_range(generator, table, 2), _one(generator, table, other))
        found.append((Asked(tuple(sorted(sets, key=lambda own: own.place)), (), 2, average=turn % 2 == 0), 0))
    return table, found


def _ranges(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    table, generator = _mixed(24), np.random.default_rng(_SEED)
    return table, [(Asked((_range(generator, table, 2),)), 0) for _ in range(length)]


def _long_ranges(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    columns = [Column("n", 512, ordered=True), *(Column(f"c{place:02}", 6) for place in range(24))]
    table, generator = made_up(columns), np.random.default_rng(_SEED)
    return table, [(Asked((_range(generator, table, 0),)), 0) for _ in range(length)]


def _range_by_one(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    table, generator, questions = _mixed(24), np.random.default_rng(_SEED), []
    for _turn in range(length):
        other = int(generator.choice([0, 1, 3, 4]))
        sets = (_range(generator, table, 2), _one(generator, table, other))
        questions.append((Asked(tuple(sorted(sets, key=lambda own: own.place))), 0))
    return table, questions


def _sums(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    """Sums, averages and counts alike often, of two ordered columns by one or two of six others."""
    table, generator, questions = _mixed(23), np.random.default_rng(_SEED), []
    for _turn in range(length):
        kind, chosen = int(generator.integers(3)), _chosen(generator, len(_FILTERS), int(generator.integers(1, 3)))
        where = tuple(_one(generator, table, _FILTERS[place]) for place in chosen)
        value = int(generator.choice([2, 6]))
        questions.append((Asked(where, (), None if kind == 0 else value, average=kind == 2), 0))  # noqa: PLR2004
    return table, questions


def _wide_columns(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    """Columns of 200 to 1,000 values, one or two or three asked together, grouped by one now and then."""
    sizes = [200, 1000, 400, 365, 720, 250, 512, 300]
    columns = [Column(f"w{place:02}", sizes[place % 8], ordered=place % 2 == 0) for place in range(23)]
    table, generator, questions = made_up(columns), np.random.default_rng(_SEED), []
    for _turn in range(length):
        places = _chosen(generator, 6, int(generator.integers(1, 4)))
        where = [(_range if table.columns[place].ordered else _one)(generator, table, place) for place in places]
        keys: tuple[int, ...] = ()
        if generator.random() < 0.1:  # noqa: PLR2004
            keys, where = (where[-1].place,), where[:-1]
        questions.append((Asked(tuple(where), keys), 0))
    return table, questions


def _words(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    table, generator = _mixed(30), np.random.default_rng(_SEED)
    pool = []
    for _turn in range(_POOL):
        places = _chosen(generator, 8, int(generator.integers(1, 4)))
        sets = [(_range if table.columns[place].ordered else _some)(generator, table, place) for place in places]
        pool.append(Asked(tuple(sets)))
    drawn = generator.integers(0, len(pool), length).tolist()
    return table, [(pool[number], int(generator.integers(_WORDINGS))) for number in drawn]


def _mix(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
    """Counts, tables, sums and averages alike often; some columns much oftener than others, some questions again."""
    table, generator = _mixed(24), np.random.default_rng(_SEED)
    questions: Questions = []
    odds = 1 / np.arange(1, len(table.columns) + 1)
    while len(questions) < length:
        if questions and generator.random() < 0.15:  # noqa: PLR2004
            questions.append(questions[int(generator.integers(len(questions)))])
            continue
        number, kind = int(generator.integers(1, 4)), int(generator.integers(4))
        places = sorted(generator.choice(len(odds), number, replace=False, p=odds / odds.sum()).tolist())
        value = int(generator.choice([2, 6, 10])) if kind > 1 else None
        places = [place for place in places if place != value]
        keys = tuple(place for place in places if kind == 1 and table.columns[place].size <= 40)[:1]  # noqa: PLR2004
        where = [
            (_range if table.columns[place].ordered else _one)(generator, table, place)
            for place in places
            if place not in keys
        ]
        questions.append((Asked(tuple(where), keys, value, average=kind == 3), 0))  # noqa: PLR2004
    return table, questions


def _given(name: str) -> Callable[[int, Path | None], tuple[CodedTable, Questions]]:
    def make(length: int, data: Path | None) -> tuple[CodedTable, Questions]:
        if data is None or not data.is_dir():
            raise InvalidRequest(
                f"The stream {name} needs its table: give the folder of {name}.csv with --data FOLDER."
            )
        table, generator, questions = read_table(data, name), np.random.default_rng(_SEED), []
        for _turn in range(length):
            places = _chosen(generator, len(table.columns), int(generator.integers(1, 4)))
            sets = [(_range if table.columns[place].ordered else _one)(generator, table, place) for place in places]
            questions.append((Asked(tuple(sets)), 0))
        return table, questions

    return make


def _simple(
    table: Callable[[], CodedTable], ways: tuple[int, int]
) -> Callable[[int, Path | None], tuple[CodedTable, Questions]]:
    def make(length: int, _: Path | None) -> tuple[CodedTable, Questions]:
        coded = table()
        return coded, _conjunctions(coded, length, ways)

    return make


WIDE = {
    "conj-23": Wide("conjunctions of 1 to 3 of 23 truth values", _simple(lambda: _binary(23), (1, 3))),
    "conj-30": Wide(
        "conjunctions of 1 to 3 of 30 columns, 3·10^39 cells",
        _simple(lambda: _labels([12, 20, 30, 8, 40, 25] * 5), (1, 3)),
    ),
    "new-5": Wide("conjunctions of 3 to 5 of 40 columns", _simple(lambda: _labels([2, 3, 4, 6, 8] * 8), (3, 5))),
    "drill-down": Wide("from a table to its parts, over 24 columns", _drill),
    "dashboard": Wide("twelve charts under changing filters, over 24 columns", _dashboard),
    "averages": Wide("nine charts of counts, sums and averages under changing filters, over 24 columns", _averages),
    "own-range": Wide("sums and averages of 85 values under ranges of themselves", _own_conditions),
    "ranges": Wide("ranges of one column of 85 values", _ranges),
    "ranges-512": Wide("ranges of one column of 512 values", _long_ranges),
    "range-by-one": Wide("ranges of 85 values under one more condition", _range_by_one),
    "sums": Wide("sums, averages and counts of two columns by six others", _sums),
    "wide-columns": Wide("columns of 200 to 1,000 values, one to three together", _wide_columns),
    "mixed": Wide("counts, tables, sums and averages of 24 columns, some oftener than others", _mix),
    "words": Wide("sixty questions again and again, in other words", _words),
    "adult": Wide("conjunctions and ranges of 1 to 3 of 14 columns of the Adult table", _given("adult")),
    "nltcs": Wide("conjunctions of 1 to 3 of 16 columns of the NLTCS table", _given("nltcs")),
}
MADE_UP = tuple(name for name in WIDE if name not in {"adult", "nltcs"})
"""The streams that need no file."""
