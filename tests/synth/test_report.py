"""Reports: one file, loading nothing; the public one knows releases alone, and the owner's one says what it is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from dodona.errors import InvalidRequest
from dodona.schema.attributes import Boolean, Integer
from dodona.schema.schema import Schema
from dodona.synth.methods import Blr, Guaranteed, Mwem
from dodona.synth.report import _runs_of_values, owner_report, public_report, row_counts
from dodona.synth.synthesize import synthesize
from dodona.synth.workload import Workload
from tests.synth.scene import ROWS, columns, curator_of, ledger_of, schema, tiny, tiny_columns

SCHEMA = schema()
TWO = Workload.ways(SCHEMA.domain, 2)


def well_formed(page: str) -> ET.Element:
    body = page[page.index("<body>") : page.index("</body>") + len("</body>")]
    return ET.fromstring(body)  # noqa: S314  our own page


def test_a_report_is_one_page_that_loads_nothing_and_shows_its_parts():
    model = synthesize(curator_of(), TWO, share="1/2")
    page = public_report(model, model.rounded())
    assert re.findall(r"(?:src|href)\s*=|url\(|@import|<script", page) == []
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}
    titles = [heading.text for heading in well_formed(page).iter("h2")]
    assert titles == [
        "What was released",
        "Columns one by one",
        "How far each marginal may be off",
        "Error against noise floor",
        "Worst answers",
        "Rows against model",
        "Charges",
    ]
    assert page.count("<svg") == len(SCHEMA.domain.names) + 2
    assert "children" in page


def test_the_public_report_is_made_of_releases_alone():
    """The same ledger over another table gives the same page: what the table holds does not show."""
    kept = ledger_of(SCHEMA)
    first = synthesize(curator_of(SCHEMA, ledger=kept), TWO, share="1/2", method=Mwem(rounds=2))
    other = synthesize(curator_of(SCHEMA, columns(seed=9), ledger=kept), TWO, share="1/2", method=Mwem(rounds=2))
    pages = [public_report(model).replace("paid", "recalled") for model in (first, other)]
    assert pages[0] == pages[1]


def test_the_owners_report_says_that_it_is_not_private_and_how_far_the_model_is_off():
    model = synthesize(curator_of(), TWO, epsilon=2)
    page = owner_report(model, columns(), model.rounded())
    assert "OWNER ONLY" in page
    assert "OWNER ONLY" not in public_report(model)
    well_formed(page)
    mean = float(re.findall(r"Mean total variation: ([0-9.e-]+)\.</p>", page)[0])
    assert 0 < mean < 0.05
    assert public_report(model) != page


def test_the_owners_columns_must_be_the_tables():
    model = synthesize(curator_of(), TWO, epsilon=2)
    with pytest.raises(InvalidRequest, match="no column sex"):
        owner_report(model, {"ward": ["surgery"]})
    with pytest.raises(InvalidRequest, match="length"):
        owner_report(model, {**columns(), "sex": ["male"]})


@pytest.mark.parametrize("method", [Guaranteed(rounds=2), Blr(rows=2)], ids=str)
def test_methods_that_measure_nothing_have_a_report_too(method):
    declared = tiny()
    workload = Workload.ways(declared.domain, 2)
    model = synthesize(curator_of(declared, tiny_columns([0, 1, 2, 3] * 5)), workload, share=1, method=method)
    page = public_report(model, model.weighted())
    assert "Promise" in page
    well_formed(page)


def test_labels_are_shown_as_text_and_never_as_markup():
    from dodona.schema.attributes import Category
    from dodona.schema.schema import Schema

    declared = Schema.of("t", Category("c", ["<script>", "a&b"], otherwise="a&b"), size=100)
    model = synthesize(
        curator_of(declared, {"c": ["<script>"] * 50 + ["a&b"] * 50}), Workload.ways(declared.domain, 1), share=1
    )
    page = public_report(model, model.rounded())
    assert "<script>" not in page
    well_formed(page)


def test_counts_of_rows_are_those_of_their_table():
    model = synthesize(curator_of(), TWO, share="1/2", method=Mwem(rounds=1))
    rows = model.rounded(1000)
    block = TWO.query.blocks[0]
    table = rows.to_pandas().groupby(["sex", "ward"]).size()
    assert row_counts(rows, block).sum() == 1000
    np.testing.assert_array_equal(np.sort(row_counts(rows, block)[row_counts(rows, block) > 0]), np.sort(table))


def test_columns_of_many_ordered_values_are_shown_in_runs_with_intervals():
    """Values one by one, the most frequent first, would show neither where rows are nor how sure that is."""
    held = {"age": [20] * 3_000 + [70] * 1_000, "night": [False, True] * 2_000}
    declared = Schema.of("stays", Integer("age", 0, 99, otherwise=0), Boolean("night", otherwise=False), size=ROWS)
    model = synthesize(curator_of(declared, held, ledger=ledger_of(declared)), "2-way", epsilon="1")
    page = public_report(model)
    assert page.index("age, in runs of values") < page.index("20 to 24") < page.index("70 to 74")
    bars = {bar.name: bar for bar in _runs_of_values(model, declared.domain["age"])}
    assert len(bars) == 20
    for label, share in (("20 to 24", 0.75), ("70 to 74", 0.25), ("0 to 4", 0.0)):
        bar = bars[label]
        assert bar.low is not None
        assert bar.high is not None
        assert bar.low - 0.05 < share < bar.high + 0.05
        assert abs(bar.value - share) < 0.1
