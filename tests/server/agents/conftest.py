from collections.abc import Iterator
from pathlib import Path

import pytest

from dodona.server.accounts import Accounts
from tests.server.scene import make_dataset
from tests.server.serving import Running, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A whole server with two datasets: ada may ask the first of them, and has a second token with a cap."""
    folder: Path = tmp_path_factory.mktemp("agents")
    for name in ("stays", "visits"):
        make_dataset(folder, name, epsilon="5")
    with serving(folder, ("--agent-question", "2%", "--agent-day", "60%", "--agent-consent", "0.5%")) as running:
        with Accounts.open(running.accounts) as accounts:
            running.tokens["capped"] = accounts.create_token("ada", "capped", max_price="0.01%").text
        yield running
