"""Answers for other eyes: text, JSON, frames, pages and pictures."""

import json
import math
import re
from datetime import date
from fractions import Fraction
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from dodona.answer.estimate import Estimate, decimal_places, format_number, round_outward
from dodona.answer.offer import ExpectedAccuracy, Offer
from dodona.errors import InvalidRequest
from dodona.lab.mechanisms import Laplace
from dodona.privacy.budget import Price
from dodona.privacy.events import LaplaceEvent
from dodona.privacy.measurement import MeasuredValues
from dodona.query.predicate import EVERYTHING
from dodona.query.query import Block, Query, column_weight
from dodona.query.question import AnswerColumn, Arithmetic, KeyLabel, LiteralExpression, Mean, Quantile, Question, Total
from dodona.schema.attributes import Category, Date, Integer
from dodona.schema.partition import Partition
from dodona.schema.schema import Domain, Neighbours
from tests.answer.scene import answer_from

AGE = Integer("age", 0, 3)
WARD = Category("ward", ["<b>east</b>", "west & south"])
DAY = Date("day", date(2024, 1, 1), date(2024, 1, 31))
DOMAIN = Domain((WARD, AGE, DAY))
PRICE = Price(Fraction(1, 80), (LaplaceEvent(1, Fraction(4), Neighbours.REPLACE),))


def wards():
    keys = (Partition.of(WARD),)
    blocks = (Block(EVERYTHING, keys), Block(EVERYTHING, keys, *column_weight(AGE)))
    columns = (
        AnswerColumn("ward", KeyLabel(0)),
        AnswerColumn("n", Total(0)),
        AnswerColumn("mean", Mean(1, 0, Fraction(0), Fraction(0), Fraction(3))),
        AnswerColumn("each", Arithmetic("/", Total(0), Total(1))),
        AnswerColumn("unit", LiteralExpression("person")),
    )
    question = Question(text="SELECT <i>", query=Query(DOMAIN, blocks), keys=keys, columns=columns)
    values = (800, 500, 0, -3, 1200, 900, 0, 1)
    noises = (Laplace(scale=5), Laplace(scale=15))
    return answer_from(
        MeasuredValues(question, values, noises), price=PRICE, receipt="abc", head="def", version="2026-10", size=1300
    )


def test_text_is_a_table_with_what_the_numbers_mean() -> None:
    lines = str(wards()).splitlines()
    assert lines[0].split() == ["ward", "n", "mean", "each", "unit"]
    assert lines[2].startswith("<b>east</b>   800 ± 15  1.500 ")
    assert lines[4].endswith("?  (from -∞ to ∞)  person".replace("?  ", "? "))
    assert "Each interval holds the exact value with probability 0.95 or more." in lines
    assert any("Price: 1.25% of the budget" in line for line in lines)
    assert repr(wards()) == str(wards())


def test_json_has_a_form_that_stays() -> None:
    document = json.loads(wards().to_json())
    assert list(document) == [
        "format",
        "question",
        "columns",
        "rows",
        "confidence",
        "against",
        "simultaneous",
        "accuracy",
        "source",
        "price",
        "mechanism",
        "theorem",
        "receipt",
        "head",
        "version",
        "stale",
        "about",
        "warnings",
        "any_choice",
        "selected",
        "reused",
        "keys",
    ]
    assert document["columns"][:2] == [
        {"name": "ward", "kind": "label", "key": 0},
        {"name": "n", "kind": "estimate", "lower": 0.0},
    ]
    assert document["keys"][0]["values"][:2] == ["<b>east</b>", "west & south"]
    assert document["rows"][0][:2] == ["<b>east</b>", {"value": 800, "low": 785, "high": 815}]
    assert document["rows"][2][3] == {"value": None, "low": None, "high": None}
    assert document["price"] == {"share": "1/80", "epsilon": pytest.approx(0.25)}
    assert (document["receipt"], document["head"], document["version"], document["against"]) == (
        "abc",
        "def",
        "2026-10",
        "table",
    )
    assert document["accuracy"][0] == {"column": "n", "worst": 15.0, "typical": 15.0}
    assert document["accuracy"][2]["worst"] is None


def test_frames_hold_values_and_both_ends() -> None:
    answer = wards()
    frame, arrow, polars = answer.to_pandas(), answer.to_arrow(), answer.to_polars()
    names = ["ward", "n", "n_low", "n_high", "mean", "mean_low", "mean_high", "each", "each_low", "each_high", "unit"]
    assert list(frame.columns) == arrow.column_names == polars.columns == names
    assert frame["n"].tolist() == arrow["n"].to_pylist() == polars["n"].to_list() == [800, 500, 0, -3]
    assert frame["n_high"][0] == 815
    assert math.isnan(frame["each"][2])
    assert arrow["each"].to_pylist()[2] is None
    assert arrow["each_high"].to_pylist()[2] == math.inf
    assert str(arrow.schema.field("n").type) == "int64"


def test_columns_of_one_name_are_told_apart_in_frames() -> None:
    question = Question(
        text="",
        query=Query.count(DOMAIN),
        columns=(AnswerColumn("n", Total(0)), AnswerColumn("n", Total(0)), AnswerColumn("n_low", Total(0))),
    )
    answer = answer_from(MeasuredValues(question, (5,), (Laplace(scale=1),)), price=PRICE)
    columns = list(answer.to_pandas().columns)
    assert len(columns) == len(set(columns)) == 9


def test_keys_have_their_types_in_frames_unless_labels_are_asked_for() -> None:
    keys = (Partition.of(AGE),)
    question = Question(
        text="", query=Query(DOMAIN, (Block(EVERYTHING, keys),)), keys=keys, columns=(AnswerColumn("n", Total(0)),)
    )
    answer = answer_from(MeasuredValues(question, (1, 2, 3, 4, 5, 6), (Laplace(scale=1),)), price=PRICE)
    frame = answer.to_pandas()
    assert (str(frame["age"].dtype), frame["age"].isna().tolist()) == ("Int64", [False] * 4 + [True] * 2)
    assert answer.to_polars()["age"].to_list() == answer.to_arrow()["age"].to_pylist() == [0, 1, 2, 3, None, None]
    assert answer.to_pandas(typed=False)["age"].tolist() == [0, 1, 2, 3, "<missing>", "<outside>"]
    assert answer.to_polars(typed=False)["age"].to_list() == ["0", "1", "2", "3", "<missing>", "<outside>"]


def test_a_quantile_of_days_is_a_day() -> None:
    partition = Partition.of(DAY)
    quantile = Quantile((0,), "day", Fraction(1, 2))
    question = Question(
        text="", query=Query(DOMAIN, (Block(EVERYTHING, (partition,)),)), columns=(AnswerColumn("median", quantile),)
    )
    values = (*([0] * 14), 400, 400, *([0] * 15), 0, 0)
    answer = answer_from(MeasuredValues(question, values, (Laplace(scale=1),)), price=PRICE)
    assert answer.value.low == date(2024, 1, 15)
    assert answer.value.high in {date(2024, 1, 15), date(2024, 1, 16)}
    assert json.loads(answer.to_json())["rows"][0][0]["low"] == "2024-01-15"
    assert answer.to_arrow()["median_low"].to_pylist() == [date(2024, 1, 15)]
    assert "2024-01-15" in str(answer)


class Reader(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_escapes_every_text_and_holds_no_script() -> None:
    reader = Reader()
    reader.feed(wards()._repr_html_())
    assert "b" not in reader.tags
    assert "script" not in reader.tags
    assert "<b>east</b>" in reader.words
    assert "785 to 815" in reader.words
    assert reader.tags.count("tr") == 5


def test_the_small_plot_puts_each_value_within_its_interval_and_all_within_the_frame() -> None:
    drawing = re.search(r"<svg.*</svg>", wards()._repr_html_(), re.DOTALL)
    assert drawing is not None
    root = ET.fromstring(drawing.group())  # noqa: S314  our own text
    space = "{http://www.w3.org/2000/svg}"
    dots = root.findall(f"{space}circle")
    bars = [line for line in root.findall(f"{space}line") if line.get("stroke-width") == "5"]
    assert (len(dots), len(bars)) == (2, 4)  # the values of <missing> and <outside>, 0 and -3, are beyond the scale
    for dot, bar in zip(dots, bars, strict=False):
        assert float(bar.get("x1")) < float(dot.get("cx")) < float(bar.get("x2"))
        assert 0 < float(dot.get("cx")) < float(root.get("width"))
        assert float(dot.get("cy")) < float(root.get("height"))
    ordered = [float(dot.get("cx")) for dot in dots]
    assert ordered[0] > ordered[1]  # 800, 500
    heights = [float(bar.get("y1")) for bar in bars]
    assert heights[2] - heights[1] > heights[1] - heights[0] == heights[3] - heights[2]  # they stand apart


def test_a_plot_draws_every_value_with_its_interval() -> None:
    axes = wards().plot()
    least, most = axes.get_xlim()
    assert 450 < least < 485  # the scale is that of the declared groups, whose intervals end at 485 and 815
    drawn = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    assert drawn == [800, 500, least, least]  # arrows at the edge stand for 0 and -3
    assert 815 < most < 850
    assert [label.get_text() for label in axes.get_yticklabels()][:2] == ["<b>east</b>", "west & south"]
    assert wards().plot(axes) is axes
    empty = Question(text="", query=Query.count(DOMAIN), columns=(AnswerColumn("one", LiteralExpression("x")),))
    with pytest.raises(InvalidRequest, match="no estimate to draw"):
        answer_from(MeasuredValues(empty, (5,), (Laplace(scale=1),)), price=PRICE).plot()


def test_bars_are_named_in_the_order_of_the_columns() -> None:
    keys = (Partition.of(AGE), Partition.of(WARD))
    columns = (AnswerColumn("ward", KeyLabel(1)), AnswerColumn("n", Total(0)), AnswerColumn("age", KeyLabel(0)))
    question = Question(text="", query=Query(DOMAIN, (Block(EVERYTHING, keys),)), keys=keys, columns=columns)
    answer = answer_from(MeasuredValues(question, tuple(range(24)), (Laplace(scale=1),)), price=PRICE)
    labels = [label.get_text() for label in answer.plot().get_yticklabels()]
    assert labels[:5] == [*(f"<b>east</b>, {age}" for age in range(4)), "west & south, 0"]
    assert labels[8] == "<b>east</b>, <missing>"


def test_days_are_drawn_along_the_time_and_what_has_none_is_written_below() -> None:
    keys = (Partition.of(DAY),)
    columns = (AnswerColumn("day", KeyLabel(0)), AnswerColumn("n", Total(0)))
    question = Question(text="", query=Query(DOMAIN, (Block(EVERYTHING, keys),)), keys=keys, columns=columns)
    axes = answer_from(MeasuredValues(question, (*range(100, 131), 7, -9000), (Laplace(scale=1),)), price=PRICE).plot()
    days = [line.get_xdata()[0] for line in axes.lines]
    assert [later - earlier for earlier, later in pairwise(days)] == [1.0] * 30
    assert axes.get_ylim()[0] > 0
    assert axes.get_xlabel() == "<missing>: 7, 4 to 10     <outside>: -9000, -9003 to -8997"


def test_one_value_needs_no_plot() -> None:
    question = Question(text="", query=Query.count(DOMAIN), columns=(AnswerColumn("n", Total(0)),))
    assert "<svg" not in answer_from(MeasuredValues(question, (5,), (Laplace(scale=1),)), price=PRICE)._repr_html_()


def test_an_offer_is_readable_and_escaped() -> None:
    offer = Offer(
        question=wards().question,
        price=PRICE,
        source="measured",
        mechanism="discrete Laplace noise of scale 5 on each of 4 values",
        accuracy=(
            ExpectedAccuracy("n", 15.0),
            ExpectedAccuracy("mean", 4.0, 2.0, 9.0),
            ExpectedAccuracy("each", math.inf),
        ),
        confidence=0.95,
        foreseen=True,
        explanation="A replay would be free.",
    )
    assert str(offer).splitlines() == [
        "Offer: SELECT <i>",
        "Price: 1.25% of the budget (asked alone: epsilon 0.25; add shares, not epsilons); nothing is spent yet.",
        (
            "Expected: n within ±15, mean within ±2.0 to ±9.0, depending on how many rows the group has, "
            "each: nothing could be said, each with probability 0.95 or more."
        ),
        (
            "The accuracy of averages and the like is a forecast, from what is public or was released about the "
            "sizes of groups; where nothing is known, groups are assumed alike. A group of few rows gets a wider "
            "interval. The intervals of the answer always hold."
        ),
        "Source: measured. Mechanism: discrete Laplace noise of scale 5 on each of 4 values.",
        "A replay would be free.",
    ]
    assert "SELECT &lt;i&gt;" in offer._repr_html_()
    assert repr(offer) == str(offer)


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(1203, 1150, 1256), "1203 ± 53"),
        (Estimate(12.3456, 11.0, 13.7), "12.3 ± 1.4"),
        (Estimate(0.031234, 0.0301, 0.0324), "0.0312 ± 0.0012"),
        (Estimate(5.0, 4.0, 9.0), "5.0 (from 4.0 to 9.0)"),
        (Estimate(2.5, 2.5, 2.5), "2.5 ± 0"),
        (Estimate(75, 74, 76), "75 ± 1"),
        (Estimate(-0.001, -3.0, 3.0), "0.0 ± 3.0"),
    ],
)
def test_numbers_have_no_more_digits_than_their_error_leaves(estimate, text) -> None:
    assert str(estimate) == text


def test_rounding_outward_never_narrows() -> None:
    assert round_outward(-1.26, 3.21, 2.2) == (-1.3, 3.3)
    assert round_outward(-math.inf, 3.21, math.inf) == (-math.inf, 3.21)
    assert (decimal_places(0.0), decimal_places(1e-30), format_number(0.1, 3)) == (-1, 12, "0.100")
