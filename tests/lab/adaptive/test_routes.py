"""What each route promises, and how many adaptive queries that is."""

import math
from statistics import NormalDist

import pytest

from benchmarks.sources_adaptive import WITHIN
from dodona.errors import InvalidArgument
from dodona.lab.adaptive.answerable import SERVED, best_certificate, most_queries, rows_needed
from dodona.lab.adaptive.averaged import averaged_gaussian
from dodona.lab.adaptive.certificate import Route, Values
from dodona.lab.adaptive.routes import _laplace_price, certificate
from dodona.lab.adaptive.transfer import concentrated_transfer, gaussian_transfer
from dodona.lab.mechanisms import Gaussian, Laplace
from dodona.privacy.events import LaplaceEvent
from dodona.schema.schema import Neighbours

# Queries within a tenth at 95% that were known before, for 10^4, 10^5 and 10^6 rows.
KNOWN = {
    Route.SPLITTING: (28, 219, 1_788),
    Route.GAUSSIAN: (85, 5_694, 425_700),
    Route.CONCENTRATED: (68, 4_494, 333_200),
    Route.JUNG: (4, 320, 24_940),
    Route.STABILITY: (0, 20, 1_225),
    Route.ADDED_STABILITY: (0, 5, 42),
    Route.LAPLACE: (14, 114, 924),
    Route.COMPOSED_LAPLACE: (8, 331, 18_000),
}


@pytest.mark.parametrize("route", KNOWN)
@pytest.mark.parametrize("place", range(3))
def test_a_route_answers_as_many_queries_as_are_known(route, place):
    rows, queries = 10 ** (4 + place), KNOWN[route][place]
    if queries:
        assert certificate(route, rows=rows, queries=queries).within <= WITHIN


@pytest.mark.parametrize(("rows", "queries"), [(10**4, 85), (10**5, 5704), (10**6, 425_868)])
def test_the_best_route_answers_so_many_and_not_more(rows, queries):
    assert best_certificate(rows=rows, queries=queries).route is Route.GAUSSIAN
    assert best_certificate(rows=rows, queries=queries).within <= WITHIN
    assert best_certificate(rows=rows, queries=math.ceil(queries * 1.002) + 1).within > WITHIN


def test_the_number_of_queries_is_the_largest_that_is_met():
    for route in (Route.SPLITTING, Route.ROUNDING, Route.GAUSSIAN, Route.ADDED_STABILITY):
        most = most_queries(route, rows=10**4, within=0.1)
        assert most == 0 or certificate(route, rows=10**4, queries=most).within <= 0.1
        assert certificate(route, rows=10**4, queries=most + 1).within > 0.1
    assert most_queries(Route.SPLITTING, rows=10**4, within=0.1, values=Values.YES_NO) == 38


@pytest.mark.parametrize("rows", [50, 1000, 10**5])
@pytest.mark.parametrize("queries", [1, 5, 40])
def test_the_best_certificate_is_no_wider_than_that_of_any_route(rows, queries):
    best = best_certificate(rows=rows, queries=queries)
    for route in Route:
        assert best.within <= certificate(route, rows=rows, queries=queries).within + 1e-9


def test_a_gaussian_certificate_adds_up():
    """Some share of what may fail, at the scale that is drawn, gives the error: looked for plainly."""
    guarantee = certificate(Route.GAUSSIAN, rows=10**5, queries=1000)
    scale, noise = guarantee.scale, guarantee.noise
    assert isinstance(noise, Gaussian)
    assert float(noise.scale) == pytest.approx(scale * 10**5 * guarantee.resolution)
    apart = 1000 / (16 * float(noise.scale) ** 2)
    widths = []
    for share in (index / 200 for index in range(20, 190)):
        failing = 0.05 - apart
        transfer = gaussian_transfer(math.sqrt(1000) / (10**5 * scale), failing=failing * share)
        widths.append(transfer + averaged_gaussian(scale=scale, answers=1000, failing=failing * (1 - share)))
    assert guarantee.within == pytest.approx(min(widths) + 0.5 / guarantee.resolution, rel=1e-4)
    assert guarantee.within > min(widths)


def test_a_concentrated_certificate_rests_on_the_price_of_the_discrete_law():
    guarantee = certificate(Route.CONCENTRATED, rows=10**4, queries=68)
    assert isinstance(guarantee.noise, Gaussian)
    rho = 68 * guarantee.resolution**2 / (2 * float(guarantee.noise.scale) ** 2)
    widths = [
        concentrated_transfer(rho, failing=0.05 * share)
        + averaged_gaussian(scale=guarantee.scale, answers=68, failing=0.05 * (1 - share))
        for share in (index / 200 for index in range(20, 190))
    ]
    assert guarantee.within == pytest.approx(min(widths), rel=1e-3)
    assert guarantee.within > min(widths)


def test_a_laplace_answer_costs_no_less_than_its_event():
    for steps, scale in ((1, 2.0), (4, 3.0), (2**20, 1e9), (2**20, 5e6), (100, 10**6)):
        event = LaplaceEvent(steps, Laplace(scale=scale).scale, Neighbours.REPLACE)
        price = _laplace_price(steps, scale)
        assert float(event.rho()) <= price <= float(event.rho()) * (1.01 if steps > 100 else 2.1)


def test_a_certificate_is_of_public_numbers_and_says_itself():
    guarantee = certificate(Route.GAUSSIAN, rows=10**4, queries=85)
    assert str(guarantee) == "±0.09978 for 85 questions at 0.95, by gaussian"
    assert guarantee == certificate(Route.GAUSSIAN, rows=10**4, queries=85)
    assert guarantee.rows_each == 10**4
    assert certificate(Route.SPLITTING, rows=100, queries=7).rows_each == 14
    assert certificate(Route.SPLITTING, rows=100, queries=7).scale == 0
    assert {route.theorem for route in Route} == {
        "sample-splitting", "description-length", "posterior-transfer", "published-transfer",
    }  # fmt: skip


def test_where_nothing_can_be_said_the_error_is_one():
    assert best_certificate(rows=2, queries=1000).within == 1
    for route in Route:
        assert certificate(route, rows=3, queries=50).within <= 1


def test_the_rows_that_are_needed_are_enough():
    needed = rows_needed(queries=20, within=0.1)
    assert needed is not None
    assert best_certificate(rows=needed, queries=20).within <= 0.1
    assert best_certificate(rows=int(needed * 0.97), queries=20).within > 0.1
    assert rows_needed(queries=10**8, within=1e-5) is None


@pytest.mark.parametrize(("name", "wrong"), [("rows", 0), ("queries", 0), ("queries", 2.5), ("rows", True)])
def test_what_is_no_number_is_refused(name, wrong):
    with pytest.raises(InvalidArgument):
        certificate(Route.SPLITTING, **{"rows": 10, "queries": 2, name: wrong})


def test_the_noise_of_one_answer_is_below_the_sampling_error():
    """A sanity check by another road: k = 85 answers of the best noise, at 2.7 standard errors of the sample."""
    guarantee = certificate(Route.GAUSSIAN, rows=10**4, queries=85)
    assert 0.5 / math.sqrt(10**4) < guarantee.scale < 3 * 0.5 / math.sqrt(10**4)
    assert -NormalDist().inv_cdf(0.025 / 85) * math.sqrt(guarantee.scale**2 + 0.25 / 10**4) < guarantee.within
    assert set(SERVED) <= set(Route)
