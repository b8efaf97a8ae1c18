"""Progress bars of batches: on a terminal, or where asked for."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dodona.client.transport import Progress

ShowProgress = Progress | bool | None
"""What is called with the progress; True for a bar, False for none, None for a bar on a terminal."""


@contextmanager
def follow_progress(wanted: ShowProgress, title: str) -> Iterator[Progress | None]:
    """Yield what is called with the progress of a batch; None if nobody looks."""
    if wanted is None:
        wanted = sys.stderr.isatty()
    if not isinstance(wanted, bool):
        yield wanted
        return
    if not wanted:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def show(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        yield show
