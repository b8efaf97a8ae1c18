"""What there is once: questions are counted in one place, in one process."""

from __future__ import annotations

import os
from typing import NoReturn

from dodona.lab.adaptive.faults import AnotherProcess


class Single:
    """Cannot be copied, and refuses to answer in a forked process, where it would start a second count of queries.

    The guarantee covers the answers of both processes together, so there must be one count.
    """

    def __init__(self) -> None:
        """Remember the current process."""
        self._process = os.getpid()

    def _alone(self) -> None:
        if self._process != os.getpid():
            raise AnotherProcess

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is not copied: the copy would count its own questions")
