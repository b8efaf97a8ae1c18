"""Estimates as of an older version of the rows."""

from __future__ import annotations

import pandas as pd
import pytest

import dodona
from dodona.errors import InvalidArgument, InvalidRequest, Refused

FILE = """format = 1
dataset = "stays"
[source]
kind = "parquet"
table = "stays"
path = "{path}"
version = "{version}"
[unit]
protects = "row"
neighbours = "add-remove"
size = 1000
[budget]
epsilon = 10
delta = "1e-6"
[ledger]
path = "stays.ledger"
[[analysts]]
name = "ada"
share = "1"
[columns.sex]
kind = "category"
labels = ["f", "m"]
[columns.age]
kind = "integer"
lower = 0
upper = 110
"""
BY_SEX = "SELECT sex, count(*) AS n FROM stays GROUP BY sex"


@pytest.fixture
def changed(tmp_path):
    """A dataset of which two versions were asked about; the second has twice the rows. And the first answer."""
    path = tmp_path / "stays.toml"
    for number in (1, 2):
        rows = 1000 * number
        frame = pd.DataFrame({"sex": ["f", "m"] * (rows // 2), "age": [row % 90 for row in range(rows)]})
        frame.to_parquet(tmp_path / f"{number}.parquet")
    path.write_text(FILE.format(path="1.parquet", version="2026-09"), encoding="utf-8")
    dodona.create_ledger(path)
    with dodona.open(path, analyst="ada") as stays:
        first = stays.ask(BY_SEX, within=40)
        stays.ask("SELECT avg(age) AS a FROM stays", within=20)
    path.write_text(FILE.format(path="2.parquet", version="2026-10"), encoding="utf-8")
    return path, first


def test_what_was_released_of_an_older_version_is_free_and_marked(changed):
    path, first = changed
    with dodona.open(path, analyst="ada") as stays:
        spent = stays.budget.spent
        again = stays.ask(BY_SEX, as_of="2026-09")
        assert [row.estimates[0].value for row in again.rows] == [row.estimates[0].value for row in first.rows]
        part = stays.ask("SELECT count(*) FROM stays WHERE sex = 'f'", as_of="2026-09", within=40)
        assert part.value.value == first.rows[0].estimates[0].value
        average = stays.ask("SELECT avg(age) AS a FROM stays", as_of="2026-09", within=20)
        for answer in (again, part, average):
            assert (answer.stale, answer.version, answer.price.share) == (True, "2026-09", 0)
            assert "This is as of version 2026-09: the data have changed since." in answer.warnings
        share = stays.ask(
            "SELECT sex, count(*) * 100.0 / sum(count(*)) OVER () AS p FROM stays GROUP BY sex", as_of="2026-09"
        )
        assert share.stale
        assert stays.budget.spent == spent


def test_an_older_version_never_answers_for_the_current_one(changed):
    path, _ = changed
    with dodona.open(path, analyst="ada") as stays:
        answer = stays.ask(BY_SEX, within=40)
        assert (answer.source, answer.version, answer.stale) == ("measured", "2026-10", False)
        assert answer.rows[0].estimates[0].low > 900  # of 1,000; the older version has 500
        now = stays.ask(BY_SEX, as_of="2026-10")
        assert (now.source, now.stale, now.price.share) == ("derived", False, 0)


def test_what_does_not_follow_is_refused_and_nothing_is_charged(changed):
    path, _ = changed
    with dodona.open(path, analyst="ada") as stays:
        spent = stays.budget.spent
        with pytest.raises(InvalidRequest, match="about version 2026-09 of the data answers this") as refused:
            stays.ask("SELECT count(*) FROM stays WHERE age > 40", as_of="2026-09")
        assert not refused.value.charged
        with pytest.raises(InvalidRequest, match="as accurately as this"):
            stays.ask(BY_SEX, as_of="2026-09", within=1)
        for version in ("2025-01", 7, ""):
            with pytest.raises(InvalidArgument, match="about which something was released: 2026-09"):
                stays.ask(BY_SEX, as_of=version)
        assert stays.budget.spent == spent
        with pytest.raises(InvalidRequest, match="never measured anew"):
            stays.ask(BY_SEX, as_of="2026-09", fresh=True)
        with pytest.raises(Refused):
            stays.for_analyst("eve").ask(BY_SEX, as_of="2026-09")
