import tomllib
from collections.abc import Iterator

import pytest

from dodona.schema.toml import TomlPath, toml_lines
from tests.schema.mistakes import STAYS

TRICKY = r'''# a comment with [a.table] and key = "value"
"quoted key" = 1
'literal.key' = 2   # = not = here
dotted . "in parts".last = 3
"tab\tkey" = "#no comment"

[ table . "with dots.inside" ]
text = """
[not.a.table]
key = "no key" \""" ""
"""""
literal = """a""" # comment
raw = \'\'\'
[[nor]] this\'\'\'\'
many = [ # comment ] with bracket
  1, [2,
  3], # comma, here
  { inner = "x,]}", deep.er = [4,
    5] },
]
when = 2020-01-01 10:00:00
[[people]]
name = "ada"
[people.home]
city = "London"
[[people]]
name = "alan"
[[people.pets]]
kind = "cat"
[[people.pets]]
kind = "dog"
[ people . home ]
city = "Wilmslow"
[last]
'''.replace("\\'", "'")


def paths(value: object, path: TomlPath = ()) -> Iterator[TomlPath]:
    """Every path of a parsed document."""
    yield path
    match value:
        case dict():
            for key, inner in value.items():
                yield from paths(inner, (*path, key))
        case list():
            for place, inner in enumerate(value):
                yield from paths(inner, (*path, place))


@pytest.mark.parametrize("text", [TRICKY, STAYS, "", "a=1", "[a]", "a=[]", "a={}", 'a=""', "a = [[],{}]\r\nb=1\r\n"])
def test_everything_that_is_parsed_has_a_line_and_nothing_else_has(text: str) -> None:
    assert set(toml_lines(text)) == set(paths(tomllib.loads(text)))


@pytest.mark.parametrize(
    ("path", "start"),
    [
        (("quoted key",), '"quoted key"'),
        (("literal.key",), "'literal.key'"),
        (("dotted", "in parts", "last"), "dotted ."),
        (("tab\tkey",), '"tab'),
        (("table", "with dots.inside"), "[ table"),
        (("table", "with dots.inside", "literal"), 'literal = """'),
        (("table", "with dots.inside", "many"), "many"),
        (("table", "with dots.inside", "many", 0), "  1, [2,"),
        (("table", "with dots.inside", "many", 1, 1), "  3],"),
        (("table", "with dots.inside", "many", 2, "inner"), "  { inner"),
        (("table", "with dots.inside", "many", 2, "deep", "er", 1), "    5] }"),
        (("people",), "[[people]]"),
        (("people", 1, "name"), 'name = "alan"'),
        (("people", 1, "pets", 1, "kind"), 'kind = "dog"'),
        (("people", 1, "home", "city"), 'city = "Wil'),
        (("last",), "[last]"),
    ],
)
def test_a_line_is_the_one_on_which_it_is_written(path: TomlPath, start: str) -> None:
    line = toml_lines(TRICKY)[path]
    assert TRICKY.splitlines()[line - 1].startswith(start)


def test_every_key_of_the_dataset_file_is_on_the_line_that_begins_with_it() -> None:
    lines = STAYS.splitlines()
    for path, line in toml_lines(STAYS).items():
        if path and isinstance(path[-1], str) and len(path) > 2:
            assert lines[line - 1].startswith((f"{path[-1]} =", f"[columns.{path[-1]}]"))
