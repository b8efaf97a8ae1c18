import datetime as dt
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dodona.errors import InvalidArgument
from dodona.schema.attributes import (
    CALENDAR_BINS,
    MISSING,
    OUTSIDE,
    Boolean,
    Category,
    Date,
    Integer,
    Number,
)
from dodona.schema.partition import Partition, group_label

AGE = Integer("age", 0, 110)
STAY = Number("stay", 0, 3, "0.25")
YEARS = Date("admitted", dt.date(2023, 12, 30), dt.date(2025, 1, 2))


@st.composite
def partitions(draw) -> Partition:
    size = draw(st.integers(1, 40))
    inner = draw(st.sets(st.integers(1, 39).filter(lambda code: code < size))) if size > 1 else set()
    return Partition("a", size, (0, *sorted(inner)))


@given(partitions())
def test_every_cell_is_in_exactly_the_group_whose_span_holds_it(partition: Partition) -> None:
    table = partition.table()
    assert len(table) == partition.size + 2
    for code, group in enumerate(table.tolist()):
        spans = [number for number in range(partition.groups) if code in range(*partition.span(number))]
        assert spans == [group]
    assert table.tolist() == sorted(table.tolist())
    assert set(table.tolist()) == set(range(partition.groups))


@given(partitions())
def test_a_partition_is_single_where_groups_are_codes(partition: Partition) -> None:
    assert partition.single == (partition.table().tolist() == list(range(partition.size + 2)))


@given(partitions(), st.integers(-50, 50))
def test_groups_of_an_attribute_have_different_names(partition: Partition, lower: int) -> None:
    for attribute in (
        Number("a", Fraction(lower, 4), Fraction(lower + partition.size, 4), "0.25"),
        Integer("a", lower, lower + partition.size),
        Date("a", dt.date(2024, 2, 1), dt.date(2024, 2, 1) + dt.timedelta(days=partition.size)),
    ):
        cut = Partition("a", attribute.size, partition.cuts)
        labels = [group_label(cut, attribute, group) for group in range(cut.groups)]
        assert len({str(name) for name in labels}) == cut.groups
        assert labels[-2:] == [MISSING, OUTSIDE]


@pytest.mark.parametrize("width", [1, 2, 20, 110, 111, 500])
def test_groups_of_one_width_cover_all(width: int) -> None:
    partition = Partition.every(AGE, width)
    assert partition.table()[:-2].tolist() == [code // width for code in range(111)]


@pytest.mark.parametrize("cuts", [(), (1,), (0, 0), (0, 2, 1), (0, 5), (-1, 0)])
def test_groups_that_leave_a_value_out_are_refused(cuts: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgument, match="cuts"):
        Partition("a", 5, cuts)


def test_a_width_and_a_group_must_be_there() -> None:
    with pytest.raises(InvalidArgument, match="width"):
        Partition.every(AGE, 0)
    for group in (-1, 8):
        with pytest.raises(InvalidArgument, match="group"):
            Partition.every(AGE, 20).span(group)


def test_without_bins_each_value_is_a_group() -> None:
    for attribute in (Category("sex", ["f", "m"]), Boolean("b"), AGE, STAY, YEARS):
        partition = Partition.of(attribute)
        assert partition.single
        assert partition.groups == attribute.cells


def binned(attribute, bins):
    """The same column with bins."""
    step = (attribute.step,) if isinstance(attribute, Number) else ()
    return type(attribute)(attribute.name, attribute.lower, attribute.upper, *step, bins)


def names(attribute) -> list[object]:
    partition = Partition.of(attribute)
    return [group_label(partition, attribute, group) for group in range(partition.groups - 2)]


def test_groups_are_named_as_people_write_them() -> None:
    assert names(binned(AGE, [0, 1, 18, 110])) == [0, "1 to 17", "18 to 110"]
    assert names(binned(STAY, ["0", "0.25", 1, "2.5", 3])) == [0, "[0.25, 1)", "[1, 2.5)", "[2.5, 3]"]
    assert names(binned(YEARS, "year")) == ["2023-12-30 to 2023-12-31", "2024", "2025-01-01 to 2025-01-02"]
    assert names(binned(YEARS, "quarter"))[1:5] == ["2024-Q1", "2024-Q2", "2024-Q3", "2024-Q4"]
    assert names(binned(YEARS, "month"))[1:4] == ["2024-01", "2024-02", "2024-03"]
    assert names(binned(YEARS, "week"))[:2] == ["2023-12-30 to 2023-12-31", "2024-01-01 to 2024-01-07"]
    assert names(binned(YEARS, [YEARS.lower, dt.date(2024, 3, 5), YEARS.upper])) == [
        "2023-12-30 to 2024-03-04",
        "2024-03-05 to 2025-01-02",
    ]
    assert names(Date("a", dt.date(9999, 12, 1), dt.date.max, [dt.date(9999, 12, 1), dt.date.max])) == ["9999-12"]


@pytest.mark.parametrize("word", CALENDAR_BINS)
def test_the_calendar_cuts_where_its_part_of_a_date_changes(word: str) -> None:
    part = {
        "day": lambda day: day,
        "week": lambda day: day.isocalendar()[:2],
        "month": lambda day: (day.year, day.month),
        "quarter": lambda day: (day.year, (day.month - 1) // 3),
        "year": lambda day: day.year,
    }[word]
    days = [YEARS.lower + dt.timedelta(days=code) for code in range(YEARS.size)]
    expected = [code for code in range(YEARS.size) if code == 0 or part(days[code]) != part(days[code - 1])]
    assert list(Partition.of(binned(YEARS, word)).cuts) == expected


@pytest.mark.parametrize(
    ("attribute", "bins", "argument"),
    [
        (AGE, [], "bins"),
        (AGE, [0, 5.5, 110], "bins[1]"),
        (AGE, [0, 111], "bins[1]"),
        (AGE, [0, 50], "bins[1]"),
        (AGE, [5, 110], "bins[0]"),
        (AGE, [0, 5, 5, 110], "bins[2]"),
        (AGE, "month", "bins"),
        (STAY, [0, "0.3", 3], "bins[1]"),
        (STAY, [0, "x", 3], "bins[1]"),
        (YEARS, "decade", "bins"),
        (YEARS, [YEARS.lower, 3, YEARS.upper], "bins[1]"),
    ],
)
def test_bins_are_edges_on_the_grid_from_lower_to_upper(attribute, bins, argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        binned(attribute, bins)
    assert caught.value.argument == argument
