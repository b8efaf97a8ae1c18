from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.scene import Server, make_dataset, serve


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("served")
    for name in ("stays", "contract", "other", "limited"):
        make_dataset(folder, name)
    with serve(folder) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_settings_of_mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests read neither the settings file of whoever runs them nor their environment."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("DODONA_SERVER", "DODONA_TOKEN", "DODONA_ANALYST"):
        monkeypatch.delenv(name, raising=False)
