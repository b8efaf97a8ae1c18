"""The Python in the documents runs; the words in the tree are about the product alone."""

import contextlib
import io
import re
import subprocess
from pathlib import Path

import pytest

from tests.house.tree import ROOT, blocks

# Written backwards or in parts, so that this file keeps its own rule.
NAMES = "|".join(name[::-1] for name in ("edualc", "tnatsissa"))
REGISTRIES = "|".join(rf"{name}\.{top}" for name, top in (("pypi", "org"), ("pythonhosted", "org")))
WORDS = re.compile(rf"(?i)\b(issue #?\d+|session \d+|{NAMES}|{REGISTRIES})\b")
HOST_PATH = re.compile(r"(?<![\w.:/-])/(?:home|opt|root|work|Users)/\w")


WALKED = frozenset({"accounts.md", "tutorial.md", "owner.md"})
"""Pages whose Python stands between commands: test_walkthroughs.py runs both."""


def documents() -> list[Path]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if page.name not in WALKED and python_blocks(page)]


def python_blocks(page: Path) -> list[tuple[int, str]]:
    """The (line, code) of each Python block on a page."""
    return [
        (block.line, "\n".join(block.lines))
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.tag == "python"
    ]


@pytest.mark.filterwarnings("ignore:The ledger is in memory")
@pytest.mark.parametrize("page", documents(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_on_a_page_runs_from_top_to_bottom_and_prints_what_is_shown(page: Path, tmp_path: Path) -> None:
    space: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    with contextlib.chdir(tmp_path):
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.tag == "python":
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    # Empty lines in front make a traceback point at the line of the page.
                    exec(compile("\n" * (block.line - 1) + "\n".join(block.lines), str(page), "exec"), space)  # noqa: S102
                printed = output.getvalue()
            elif block.tag == "text" and printed:
                assert but_for_noise("\n".join(block.lines)) == but_for_noise(printed), printed


FIXED = ("Offer:", "Price:", "Expected:")
"""Lines that begin so hold no noise: they are compared to the digit."""


def but_for_noise(text: str) -> list[str]:
    """The lines of an output without the numbers that differ from run to run, and the spaces that align them."""
    lines = [line.strip() for line in text.splitlines()]
    masked = (line if line.startswith(FIXED) else re.sub(r"-?\d[\d,.]*", "0", line) for line in lines)
    return [re.sub(r"[ -]{2,}", " ", line) for line in masked if line]


def test_a_shown_output_is_compared_but_for_its_noise() -> None:
    assert but_for_noise("count  12 ± 3\n\nPrice: 0.8%") == but_for_noise("count   -7.5 ± 3\nPrice: 0.8%")
    assert but_for_noise("Price: 0.8%") != but_for_noise("Price: 0.7%")
    assert but_for_noise("count 12 ± 3") != but_for_noise("count 12")


PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The names by which links can point at the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles)
    return {re.sub(r"[-\s]+", "-", word) for word in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for name, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")):
        if "://" in name or (not name and not anchor):
            continue
        target = page.parent / name if name else page
        assert target.exists(), name
        assert not anchor or anchor in anchors(target), f"{name}#{anchor}"


def text_files() -> list[Path]:
    """The files that are, or are about to be, in the repository, and hold text."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    paths = (ROOT / name for name in sorted(set(listed.split("\0"))) if name)
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def test_the_tree_speaks_of_the_product_alone() -> None:
    violations = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in text_files()
        for rule in (WORDS, HOST_PATH)
        for match in rule.finditer(path.read_text(encoding="utf-8"))
    ]
    assert violations == []


@pytest.mark.parametrize(
    "text",
    ["see issue #" + "12", "session " + "3", "an " + "tnatsissa"[::-1], "at /" + "home/ada/data"],
)
def test_words_about_anything_else_are_noticed(text: str) -> None:
    assert WORDS.search(text) or HOST_PATH.search(text)
