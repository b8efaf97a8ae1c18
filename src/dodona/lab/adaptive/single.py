"""What there is once: questions are counted in one place, in one process."""

from __future__ import annotations

import os
from typing import NoReturn

from dodona.lab.adaptive.faults import AnotherProcess


class Single:
    """Is not copied, and answers nothing in a forked process: a second one would count its own questions.

    All that is proved is proved of the answers of both together.
    """

    def __init__(self) -> None:
        """Belong to this process."""
        self._process = os.getpid()

    def _alone(self) -> None:
        if self._process != os.getpid():
            raise AnotherProcess

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is not copied: the copy would count its own questions")
