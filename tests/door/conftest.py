"""One door for all tests of the door that a process runs."""

from collections.abc import Iterator

import pytest

from tests.door.scene import OpenDoor, opened_door

collect_ignore_glob = ["clients/*"]  # they run in environments of their own


@pytest.fixture(scope="session")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDoor]:
    with opened_door(tmp_path_factory.mktemp("door")) as opened:
        yield opened
