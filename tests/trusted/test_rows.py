"""The number of rows is told where all neighbours have as many, and else not even read."""

import pytest

from dodona.schema.attributes import Boolean
from dodona.schema.schema import Domain, Unit
from dodona.trusted.gate import read_public_rows
from dodona.trusted.source import Sealed, SourceFailed

DOMAIN = Domain((Boolean("urgent"),))


class Counting:
    """A source that notes how often it is asked."""

    version = "1"

    def __init__(self, rows: int) -> None:
        self.rows, self.asked = rows, 0

    def exact(self, query):
        self.asked += 1
        if self.rows < 0:
            raise ValueError(self.rows)
        return Sealed([self.rows] * query.values)

    def close(self):
        """Nothing is held."""


def units(neighbours):
    yield Unit(neighbours=neighbours, size=10)
    yield Unit(neighbours=neighbours, size=10, id="person", rows=3)


@pytest.mark.parametrize("rows", [0, 7, 12])
def test_the_number_of_rows_is_read_only_where_all_neighbours_have_as_many(rows):
    alone, _ = units("replace")
    assert read_public_rows(Counting(rows), DOMAIN, alone) == rows


@pytest.mark.parametrize("unit", [*units("add-remove"), list(units("replace"))[1]], ids=["rows", "people", "replaced"])
def test_where_it_is_not_public_the_table_is_not_asked(unit):
    source = Counting(7)
    assert read_public_rows(source, DOMAIN, unit) is None
    assert source.asked == 0


def test_a_table_that_fails_says_nothing_else():
    with pytest.raises(SourceFailed):
        read_public_rows(Counting(-1), DOMAIN, next(units("replace")))
