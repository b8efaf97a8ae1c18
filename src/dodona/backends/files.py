"""Files of a table: which they are."""

from __future__ import annotations

import glob
from pathlib import Path

from dodona.backends.faults import SourceUnfit


def found_files(path: str | Path) -> list[str]:
    """Return the files of a path or a pattern, as absolute paths in a fixed order."""
    text = str(path)
    exact = Path(text)
    files = [text] if exact.is_file() else glob.glob(text, recursive=True)  # noqa: PTH207  patterns may be absolute
    chosen = sorted(str(Path(name).resolve()) for name in files if Path(name).is_file())
    if not chosen:
        raise SourceUnfit(f"No file is at {text!r}. Write the path of the table's files; * stands for any name.")
    return chosen
