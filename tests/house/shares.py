"""A test of many cases runs a share of them in `make test`, and the others in `make soak`.

    @pytest.mark.share(4)
    @pytest.mark.parametrize("engine", ENGINES)
    @pytest.mark.parametrize("seed", range(40))
    def test_an_engine_agrees_with_the_oracle(engine, seed): ...

One case in four is kept. Cases are kept along diagonals of the table of all cases, so that every engine and every seed
of this example is among them: each value of each parameter, as long as another parameter has at least four.
"""

import pytest
from hypothesis import settings


def examples(full: int) -> int:
    """How many examples a property test has: a third in `make test`, where they never change, all in `make soak`."""
    return -(-full // 3) if settings.get_current_profile_name() == "same" else full


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", "share(n): one case in n runs in `make test`, the others in `make soak`")


@pytest.hookimpl(tryfirst=True)  # before the expression of -m is applied
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is not kept as soak."""
    places: dict[tuple[str, str], dict[int, int]] = {}
    for item in items:
        mark = item.get_closest_marker("share")
        if mark is None:
            continue
        assert isinstance(item, pytest.Function)
        total = 0
        for parameters in item.iter_markers("parametrize"):
            names = parameters.args[0]
            name = (names.split(",") if isinstance(names, str) else names)[0].strip()
            known = places.setdefault((item.nodeid.partition("[")[0], name), {})
            total += known.setdefault(id(item.callspec.params[name]), len(known))
        if total % mark.args[0] != 0:
            item.add_marker("soak")
