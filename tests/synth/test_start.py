"""Releases that start from what is known: an earlier release, or public marginals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dodona.synth.methods import Guaranteed, Mwem
from dodona.synth.synthesize import quote_synthesis, synthesize
from dodona.synth.workload import InvalidWorkload, Workload, marginal_block
from tests.synth.scene import ROWS, columns, curator_of, schema

DOMAIN = schema().domain
TWO = Workload.ways(DOMAIN, 2)
PAIR = marginal_block(DOMAIN, ["sex", "ward"])


def test_measurements_of_an_earlier_release_of_the_same_rows_are_pooled_with_new_ones():
    curator = curator_of()
    first = synthesize(curator, TWO, share="1/4")
    second = synthesize(curator, TWO, share="1/4", name="more", start=first)
    alone = synthesize(curator, TWO, share="1/4", name="alone")
    noise = {
        name: observation.variance
        for name, model in (("pooled", second), ("alone", alone))
        for observation in model.seen[:1]
    }
    assert noise["pooled"] == pytest.approx(noise["alone"] / 2, rel=0.01)
    assert 0.74 < float(curator.budget.spent) <= 0.75  # what is known costs nothing
    again = synthesize(curator, TWO, share="1/4", name="more", start=first)
    assert {step.how for step in again.steps} == {"recalled"}
    assert np.array_equal(again.expect(TWO.query), second.expect(TWO.query))


def test_public_marginals_are_where_a_model_begins_and_measurements_take_their_place():
    """Of a release of single columns, what ties them is as in the public table, and each by itself as in the rows."""
    public = np.array([[1.0, 5.0, 3.0], [2.0, 1.0, 1.0]])
    start = {("ward", "sex"): public.T}  # in the order of the names
    single = Workload.marginals(DOMAIN, [["sex"], ["ward"]])
    fitted = synthesize(curator_of(), single, share=1, start=start).expect([PAIR]).reshape(2, 3)
    odds = [table[0, 0] * table[1, 1:] / table[0, 1:] / table[1, 0] for table in (fitted, public)]
    np.testing.assert_allclose(odds[0], odds[1], rtol=0.02)
    sexes, wards = (np.array(columns()[name]) for name in ("sex", "ward"))
    assert fitted[0].sum() == pytest.approx((sexes == "female").sum(), abs=0.02 * ROWS)
    much = synthesize(curator_of(), TWO, share=1, start=start).expect([PAIR]).reshape(2, 3)
    labels = (("female", "male"), ("surgery", "medicine", "children"))
    exact = np.array([[((sexes == sex) & (wards == ward)).sum() for ward in labels[1]] for sex in labels[0]])
    assert np.abs(much - exact).sum() / 2 < 0.02 * ROWS


def test_a_release_of_other_rows_is_a_start_and_no_measurement_of_these():
    first = synthesize(curator_of(), TWO, share="1/2")
    other = replace(first, version="of last year")
    alone, after = (synthesize(curator_of(), TWO, share="1/4", start=start) for start in (None, other))
    assert after.seen[0].variance == pytest.approx(alone.seen[0].variance)
    assert after.run != alone.run
    mwem = synthesize(curator_of(), TWO, share="1/4", start=other, method=Mwem(rounds=2))
    assert np.abs(mwem.expect([PAIR]) - first.expect([PAIR])).sum() / 2 < 0.1 * ROWS


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ({("sex", "ward"): np.ones((3, 2))}, r"write 2 × 3 counts"),
        ({("sex",): [1, -1]}, "counts from 0"),
        ({("sex",): [0, 0]}, "some above"),
        ({("sex",): [1, float("nan")]}, "counts from 0"),
        ({("nothing",): [1]}, "no such column"),
        ("yesterday", "is no start"),
    ],
)
def test_a_start_that_means_nothing_is_refused_before_any_charge(start, said: str):
    curator = curator_of()
    for call in (synthesize, quote_synthesis):
        with pytest.raises(InvalidWorkload, match=said):
            call(curator, TWO, share="1/2", start=start)
    with pytest.raises(InvalidWorkload, match="starts from nothing"):
        synthesize(curator, TWO, share="1/2", start={("sex",): [1, 2]}, method=Guaranteed())
    assert curator.budget.charges == 0
