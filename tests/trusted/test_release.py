"""A release: paid for first, priced again, and nothing but noisy integers leaves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from dodona.lab.audit.cases.scene import schema_of
from dodona.ledger.errors import ReceiptMismatch, ReceiptReused
from dodona.privacy.additive_noise import SMALLEST_SCALE, Gaussian, Laplace, Noise
from dodona.privacy.events import LaplaceEvent
from dodona.privacy.measurement import Measurement
from dodona.query.canonical import query_digest
from dodona.query.query import Query
from dodona.schema.schema import Neighbours, Unit
from dodona.trusted.gate import _Gate, add_noise, read_exact, release_measurement
from dodona.trusted.samplers.draw import draw_runs
from dodona.trusted.source import SourceFailed, Unpaid
from tests.trusted.scene import Fixed, paid, scene, wide

SCHEMA = schema_of(Neighbours.ADD_REMOVE)
COUNT = Query.count(SCHEMA.domain)
SEXES = Query.histogram(SCHEMA.domain, "sex")
HARDLY = Laplace(scale=SMALLEST_SCALE)
"""Noise that is 0 but once in e^1000 draws."""
SECRET = 190_733


def measured(query: Query, *noises: Noise) -> Measurement:
    return Measurement(query, noises)


def test_what_leaves_is_the_exact_answer_with_noise_of_the_charged_law():
    """Noise of the smallest scale is 0 but once in e^1000 draws."""
    ledger, source, _ = scene()
    both = measured(COUNT.stacked(SEXES), HARDLY, HARDLY)
    receipt = paid(ledger, both.event(Unit.each_row(Neighbours.ADD_REMOVE)), query_digest(both.query))
    assert release_measurement(both, receipt, ledger=ledger, source=source, unit=SCHEMA.unit).values == (
        6,
        2,
        2,
        0,
        1,
        1,
    )


def test_every_value_has_noise_of_its_own_and_of_its_blocks_law():
    """3·2,000 draws; each bound is at least 8 standard errors away, false alarm below 10^-14."""
    times = 2000
    laws = (Laplace(scale=1), Gaussian(scale=50), Laplace(scale=1))
    query = COUNT.stacked(*[COUNT] * (3 * times - 1))
    drawn = np.array(add_noise([0] * (3 * times), measured(query, *(law for law in laws for _ in range(times)))))
    narrow, broad, again = drawn.reshape(3, times)
    for noise, other in ((narrow, again), (again, narrow)):
        assert 0.35 < (noise == 0).mean() < 0.57  # 0.462
        assert (noise != other).mean() > 0.5  # 0.70
    assert 42 < broad.std() < 58


def test_nothing_is_read_before_the_receipt_is_used_and_nothing_is_told_before_it_is_recorded():
    ledger, source, calls = scene()
    measurement = measured(COUNT, Laplace(scale=1))
    receipt = paid(ledger, measurement.event(Unit.each_row(Neighbours.ADD_REMOVE)), query_digest(COUNT))
    released = release_measurement(measurement, receipt, ledger=ledger, source=source, unit=SCHEMA.unit)
    assert calls == ["reserve", "redeem", "exact", "record"]
    assert ledger.releases() == ((receipt, released),)


@pytest.mark.parametrize("step", ["redeem", "record"])
def test_a_ledger_that_fails_ends_the_release(step: str):
    ledger, source, calls = scene(fails=step)
    measurement = measured(COUNT, Laplace(scale=1))
    receipt = paid(ledger, measurement.event(Unit.each_row(Neighbours.ADD_REMOVE)), query_digest(COUNT))
    with pytest.raises(OSError, match=step):
        release_measurement(measurement, receipt, ledger=ledger, source=source, unit=SCHEMA.unit)
    assert ("exact" in calls) == (step == "record")


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_receipt_for_less_than_the_query_costs_buys_nothing(neighbours: Neighbours):
    """Whatever planned it: the distance is computed again, under the unit's own relation."""
    ledger, source, calls = scene(neighbours)
    measurement = measured(SEXES, Laplace(scale=1))
    right = measurement.event(Unit.each_row(neighbours))
    assert right == LaplaceEvent(1 if neighbours is Neighbours.ADD_REMOVE else 2, 1, neighbours)
    wrong = LaplaceEvent(3 - right.distance, 1, neighbours)
    for event, purpose, version in (
        (wrong, query_digest(SEXES), "1"),
        (LaplaceEvent(right.distance, 2, neighbours), query_digest(SEXES), "1"),
        (right, query_digest(COUNT), "1"),
        (right, query_digest(SEXES), "2"),
    ):
        receipt = paid(ledger, event, purpose, version=version)
        with pytest.raises(Unpaid, match="The charge stands"):
            release_measurement(measurement, receipt, ledger=ledger, source=source, unit=schema_of(neighbours).unit)
    assert set(calls) == {"reserve"}


def test_a_receipt_buys_one_release():
    ledger, source, calls = scene()
    measurement = measured(COUNT, Laplace(scale=1))
    receipt = paid(ledger, measurement.event(Unit.each_row(Neighbours.ADD_REMOVE)), query_digest(COUNT))
    release_measurement(measurement, receipt, ledger=ledger, source=source, unit=SCHEMA.unit)
    with pytest.raises(ReceiptReused):
        release_measurement(measurement, receipt, ledger=ledger, source=source, unit=SCHEMA.unit)
    assert calls.count("exact") == 1


class Failing:
    """A source that cannot be read the first few times."""

    version = "1"

    def __init__(self, source, times: int) -> None:
        self.source, self.times = source, times

    def exact(self, query):
        self.times -= 1
        if self.times >= 0:
            raise ValueError(SECRET)
        return self.source.exact(query)

    def close(self):
        """Nothing is held."""


@pytest.mark.parametrize("times", [1, 3, 4])
def test_a_receipt_under_which_nothing_was_read_may_be_used_again_and_buys_one_release(times: int):
    ledger, source, _ = scene()
    measurement, failing = measured(COUNT, Laplace(scale=1)), Failing(source, times)
    receipt = paid(ledger, measurement.event(Unit.each_row(Neighbours.ADD_REMOVE)), query_digest(COUNT))
    for _ in range(times):
        with pytest.raises(SourceFailed, match="The charge stands"):
            release_measurement(measurement, receipt, ledger=ledger, source=failing, unit=SCHEMA.unit)
    if times <= 3:
        release_measurement(measurement, receipt, ledger=ledger, source=failing, unit=SCHEMA.unit)
    with pytest.raises(ReceiptReused):
        release_measurement(measurement, receipt, ledger=ledger, source=failing, unit=SCHEMA.unit)
    assert ledger.state().charges == 1
    assert ledger.state().releases == (1 if times <= 3 else 0)


def test_a_receipt_of_another_ledger_buys_nothing():
    other, *_ = scene()
    ledger, source, calls = scene()
    measurement = measured(COUNT, Laplace(scale=1))
    paid(other, measurement.event(Unit.each_row(Neighbours.ADD_REMOVE)), "something that was asked before")
    receipt = paid(other, measurement.event(Unit.each_row(Neighbours.ADD_REMOVE)), query_digest(COUNT))
    with pytest.raises(ReceiptMismatch):
        release_measurement(measurement, receipt, ledger=ledger, source=source, unit=SCHEMA.unit)
    assert "exact" not in calls


def failing() -> Iterator[tuple[str, object]]:
    def raising(kind: type[BaseException]) -> object:
        def fail() -> object:
            raise kind(f"cannot read {SECRET}")

        return fail

    yield from ((kind.__name__, raising(kind)) for kind in (ValueError, MemoryError, OverflowError, RecursionError))
    yield "too many", np.array([SECRET, SECRET])
    yield "too few", []
    yield "a float", np.array([SECRET + 0.5])
    yield "a number that is none", [float("nan")]
    yield "no numbers", ["190733"]
    yield "nothing", None


@pytest.mark.parametrize("values", [pytest.param(values, id=name) for name, values in failing()])
def test_a_source_that_fails_says_the_same_words_whatever_it_stumbled_over(values: object):
    with pytest.raises(SourceFailed) as raised:
        read_exact(Fixed(values), COUNT)
    fault = raised.value
    assert str(fault) == (
        "The table could not be read. The owner can find out why; ask again later. The charge stands."
    )
    assert fault.args == (str(fault),)
    assert fault.__cause__ is fault.__context__ is None
    step = fault.__traceback__
    while step is not None:  # the frames that travel with it hold no value either
        if step.tb_frame.f_code.co_filename.endswith("/gate.py"):
            kept = {name: value for name, value in step.tb_frame.f_locals.items() if name not in {"source", "query"}}
            assert str(SECRET) not in repr(kept), kept
        step = step.tb_next


class _Interrupting:
    """A number at which somebody presses a key."""

    def __index__(self) -> int:
        raise KeyboardInterrupt


def test_an_interrupt_between_the_look_and_the_noise_carries_no_exact_value():
    ledger, source, _ = scene(source=Fixed([SECRET, _Interrupting()]))
    counts = measured(COUNT.stacked(COUNT), HARDLY, HARDLY)
    receipt = paid(ledger, counts.event(SCHEMA.unit), query_digest(counts.query))
    with pytest.raises(KeyboardInterrupt) as raised:
        release_measurement(counts, receipt, ledger=ledger, source=source, unit=SCHEMA.unit)
    assert [entry.name for entry in raised.traceback][-2:] == ["release", "read"]
    assert raised.value.__context__ is None


@pytest.mark.parametrize("number", [-(2**63), 1 - 2**63, -(2**62), 0, 2**62, 2**63 - 1])
def test_noise_on_integers_at_the_edge_of_64_bits_does_not_wrap(number: int):
    """100 draws of scale 10^6: both signs occur but once in 2^99 runs."""
    wider = measured(COUNT, Laplace(scale=10**6))
    values = read_exact(Fixed(wide(number)), COUNT)
    drawn = [add_noise(values, wider)[0] - number for _ in range(100)]
    assert max(map(abs, drawn)) < 10**9
    assert min(drawn) < 0 < max(drawn)


def test_integers_of_any_length_are_added_to_exactly():
    assert add_noise(read_exact(Fixed([1 << 80]), COUNT), measured(COUNT, HARDLY)) == (1 << 80,)
    assert read_exact(Fixed(np.array([7], dtype=np.int32)), COUNT) == [7]


def test_noise_stands_in_the_order_of_its_runs_and_no_draw_is_used_twice():
    """Seven draws of scale 10^9: that two of them are alike, or one is 0, happens once in 10^8 tests."""
    far = Gaussian(scale=10**9)
    drawn = draw_runs([(HARDLY, 1), (far, 2), (HARDLY, 3), (far, 1), (far, 4), (HARDLY, 2)])
    assert [int(value == 0) for value in drawn] == [1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1]
    assert len(set(drawn.tolist())) == 1 + 7


def test_nothing_is_read_under_a_receipt_that_is_not_used():
    ledger, source, calls = scene()
    measurement = measured(COUNT, Laplace(scale=1))
    event = measurement.event(Unit.each_row(Neighbours.ADD_REMOVE))
    receipt = paid(ledger, event, query_digest(COUNT))
    unused = _Gate(receipt, event, query_digest(COUNT), ledger=ledger, source=source)
    with pytest.raises(Unpaid):
        unused.read(COUNT, tuple)
    assert calls == ["reserve"]
