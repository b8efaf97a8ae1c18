"""The page of measured figures is written section by section."""

from benchmarks.measured import COMMANDS, PAGE, page
from tests.house.tree import ROOT


def test_a_section_is_written_anew_or_added_in_its_place_and_the_others_stay():
    first, second, third, *_ = COMMANDS
    text = page(page("", {third: "3"}), {first: "1"})
    assert text.endswith(f"## {first}\n\n1\n\n## {third}\n\n3\n")
    assert page(text, {second: "2"}).endswith(f"## {first}\n\n1\n\n## {second}\n\n2\n\n## {third}\n\n3\n")
    assert page(text, {third: "4"}) == text.replace("3\n", "4\n")


def test_the_page_is_as_the_command_writes_it():
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert page(text, {}) == text
