"""Columns of times in the dataset file and in the schema."""
# ruff: noqa: DTZ001  times are declared without a zone, and mean UTC

import datetime as dt

import pytest

from dodona.errors import InvalidArgument
from dodona.schema.attributes import Timestamp, code_label, numeric_grid
from dodona.schema.moments import moment_starts, seconds_since_epoch, step_seconds, truncate_moment
from dodona.schema.partition import Partition, group_label
from dodona.schema.schema import Schema

HOURS = Timestamp("seen", dt.datetime(2024, 1, 30), dt.datetime(2024, 3, 1, 23), "1 hour", bins="day")


def test_a_step_may_be_written_in_words_or_in_seconds() -> None:
    assert [step_seconds(step) for step in ("1 hour", "hour", "30 Minutes", "1 day", 60)] == [
        3600,
        3600,
        1800,
        86_400,
        60,
    ]


def test_groups_of_times_are_labelled_as_people_write_them() -> None:
    days = Partition.of(HOURS)
    assert group_label(days, HOURS, 0) == "2024-01-30"
    months = Partition.cut(HOURS, moment_starts(HOURS, "month") or ())
    assert [group_label(months, HOURS, place) for place in range(2)] == ["2024-01-30 to 2024-01-31", "2024-02"]
    pairs = Partition.every(HOURS, 2)
    assert group_label(pairs, HOURS, 1) == "2024-01-30 02:00:00 to 2024-01-30 04:00:00"
    assert group_label(Partition.every(HOURS, 1), HOURS, 3) == dt.datetime(2024, 1, 30, 3)
    assert code_label(HOURS, HOURS.size) == "<missing>"
    assert numeric_grid(HOURS) is None


def test_another_step_is_another_schema() -> None:
    halves = Timestamp("seen", HOURS.lower, HOURS.upper, "30 minutes")
    hourly, two = (Schema.of("t", attribute, size=9) for attribute in (HOURS, halves))
    assert hourly.digest != two.digest
    assert not two.extends(hourly)


@pytest.mark.parametrize("unit", ["minute", "hour", "day", "week", "month", "quarter", "year"])
def test_a_period_begins_at_or_before_each_of_its_times(unit: str) -> None:
    moment = dt.datetime(2024, 5, 17, 13, 45, 59)
    first = truncate_moment(moment, unit)
    assert first <= moment
    assert truncate_moment(first, unit) == first
    assert seconds_since_epoch(first) % 60 == 0


def test_a_fallback_is_a_time_on_the_grid() -> None:
    complete = Timestamp("seen", HOURS.lower, HOURS.upper, "1 hour", otherwise=dt.datetime(2024, 1, 31, 5))
    assert complete.landing == 29
    assert complete.cells == complete.size
    for wrong in (dt.datetime(2024, 1, 31, 5, 30), dt.datetime(2025, 1, 1), "noon"):
        with pytest.raises(InvalidArgument):
            Timestamp("seen", HOURS.lower, HOURS.upper, "1 hour", otherwise=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="bins"):
        Timestamp("seen", HOURS.lower, HOURS.upper, "1 hour", bins="moon")
