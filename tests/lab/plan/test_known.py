"""The planner's table beside the known guarantees at (1, 10^-6), β = .05."""

import pytest

from benchmarks.sources_plan import (
    BITS,
    INDEPENDENT,
    LEARNED,
    NOISE,
    plan_max_relative_difference,
    setting_of,
)
from dodona.lab.plan import Setting, Unsuitable, forecast, promise_for

CELLS = [pytest.param(rows, questions, id=f"{rows:.0e}-{questions:.0e}") for rows, questions in NOISE]


@pytest.mark.parametrize(("rows", "questions"), CELLS)
def test_independent_noise_promises_the_known_errors(rows, questions):
    for name, known in zip(INDEPENDENT, NOISE[rows, questions], strict=True):
        within = promise_for(setting_of(rows, questions, 10), name).within
        if known is None:
            assert within > 1, name
        else:
            assert within == pytest.approx(known, rel=0.01), name


@pytest.mark.parametrize(("rows", "questions"), CELLS)
def test_offline_cells_are_the_known_ones(rows, questions):
    for name in ("blr", "mwem"):
        for bits, known in zip(BITS, LEARNED[rows, questions][name], strict=True):
            assert promise_for(setting_of(rows, questions, bits), name).within == pytest.approx(known, rel=0.01), name


@pytest.mark.parametrize(("rows", "questions"), CELLS)
def test_weights_promise_no_more_than_the_known_errors(rows, questions):
    for bits, known in zip(BITS, LEARNED[rows, questions]["pmw"], strict=True):
        setting = setting_of(rows, questions, bits)
        assert promise_for(setting, "pmw").within <= 1.01 * known
        assert promise_for(setting, "pmw").within < promise_for(setting, "pmw-textbook").within


def test_the_benchmark_sees_the_whole_table():
    assert plan_max_relative_difference() <= 0.01


def test_sharper_constants_of_mwem_are_never_worse():
    for rows, questions in NOISE:
        for bits in BITS:
            setting = setting_of(rows, questions, bits)
            assert promise_for(setting, "mwem-mean").within < promise_for(setting, "mwem").within


def test_where_gaussian_noise_promises_nothing_weights_do():
    """K far above n²: of the whole table only here do weights online promise more than noise on each answer."""
    few = forecast(setting_of(10**4, 10**6, 40))
    names = [promise.method.name for promise in few.promises if promise.holds]
    assert "pmw" in names
    assert not any(name.startswith("gaussian") for name in names)


def test_a_synthetic_table_is_promised_as_it_is_run_on_toy_universes():
    """The best of all sizes that can be walked through; more rows than that would promise more, and cannot be run."""
    setting = Setting(rows=10**5, questions=6, cells=4, epsilon=1)
    promised = promise_for(setting, "blr-run")
    assert promised.runs
    assert promised.law.startswith("one of ")
    assert promise_for(setting, "blr").within < promised.within < promise_for(setting, "blr-textbook").within
    assert promise_for(Setting(rows=10**5, questions=6, cells=1024, epsilon=1), "blr-run").within > 1
    with pytest.raises(Unsuitable, match="more cells"):
        promise_for(setting_of(10**5, 10**3, 20), "blr-run")
