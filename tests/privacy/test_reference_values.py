"""Every value that other hands have computed, held to its digits and to the side on which it is safe."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import pytest
from mpmath import mp, mpf

from benchmarks.values import ours
from tests.privacy.digits import all_digits
from tests.privacy.reference import REFERENCES, Reference

OURS = ours()
DIGITS = all_digits()
ROWS = [pytest.param(name, reference, id=name) for name, reference in REFERENCES.items()]


@cache
def digits(name: str) -> mpf:
    mp.dps = 50
    return DIGITS[name]()


@pytest.mark.parametrize(("name", "reference"), ROWS)
def test_ours_is_the_reference_on_the_safe_side(name: str, reference: Reference) -> None:
    mp.dps = 50
    value = OURS[name]()
    if reference.side == "count":
        assert value == int(reference.value)
        return
    exact = digits(name) if name in DIGITS else mpf(reference.value)
    assert abs(mpf(value) - exact) <= exact * mpf("1e-6")
    if reference.side == "epsilon":
        assert value >= exact
    if reference.side == "limit":
        assert value <= exact


@pytest.mark.parametrize("name", list(DIGITS))
def test_the_digits_of_the_table_are_those_of_fifty(name: str) -> None:
    exact = digits(name)
    assert abs(mpf(REFERENCES[name].value) - exact) <= exact * mpf("1e-12")


@pytest.mark.parametrize(("name", "reference"), ROWS)
def test_what_was_published_is_the_value_rounded_or_cut_off(name: str, reference: Reference) -> None:
    if reference.published is None:
        assert name in DIGITS
        return
    published, value = Decimal(reference.published), Decimal(reference.value)
    unit = Decimal(1).scaleb(int(published.as_tuple().exponent))
    cut_off = reference.side == "limit" and 0 <= value - published < 2 * unit  # two were cut with a margin
    assert cut_off or abs(value - published) <= unit / 2


def test_only_counts_and_the_plans_of_continuous_noise_have_no_digits_of_their_own() -> None:
    without = {name for name, reference in REFERENCES.items() if name not in DIGITS and reference.side != "count"}
    assert all(name.endswith("continuous Laplace, plan") for name in without)
    assert len(without) == 5
