"""The pages of commands and of errors say what the code says: all of it, and nothing else."""

import re

from dodona.cli.main import COMMANDS
from dodona.errors import DodonaError
from tests.house import reference

HOW = "write the pages anew: .venv/bin/python -m tests.house.reference"


def family(root: type[DodonaError]) -> list[type[DodonaError]]:
    """An error and all that are of its kind."""
    return [root, *(kind for child in root.__subclasses__() for kind in family(child))]


def test_every_command_and_option_is_on_the_page_and_nothing_else() -> None:
    assert reference.COMMANDS.read_text(encoding="utf-8") == reference.commands(), HOW


def test_every_error_is_on_the_page_and_nothing_else() -> None:
    assert reference.ERRORS.read_text(encoding="utf-8") == reference.errors(), HOW


def test_every_http_address_is_on_the_page_with_all_its_fields_and_nothing_else() -> None:
    assert reference.HTTP_API.read_text(encoding="utf-8") == reference.http_api(), HOW
    assert "|  |" not in reference.http_api()  # every field has a description


def test_the_page_of_commands_has_a_section_for_each_and_a_line_for_each_option() -> None:
    """Read from the page itself, so that a fault in its writer is noticed."""
    page = reference.COMMANDS.read_text(encoding="utf-8")
    sections = {part.partition("`\n")[0]: part for part in page.split("\n## `")[1:]}
    assert {f"dodona {name}" for name in COMMANDS} - {"dodona account", "dodona ledger"} <= set(sections)
    for name, command in reference.listed():
        shown = re.findall(r"^\| `(-[^`]+)` \|", sections[name], re.MULTILINE)
        expected = [
            ", ".join([*parameter.opts, *parameter.secondary_opts])
            for parameter in command.params
            if parameter.opts[0].startswith("-")
        ]
        assert shown == expected


def test_the_page_of_errors_has_every_code_once() -> None:
    reference.errors()  # brings in every module that could define one
    page = reference.ERRORS.read_text(encoding="utf-8")
    codes = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    defined = {kind.code for kind in family(DodonaError) if kind.__module__.startswith("dodona.")}
    assert set(codes) == defined - {DodonaError.code}
    assert len(codes) == len(set(codes))
