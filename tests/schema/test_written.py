import datetime as dt
from fractions import Fraction

import pytest

from dodona.errors import InvalidArgument, InvariantBroken
from dodona.schema.toml import InvalidFile, TomlTable

TEXT = """\
name = "ada"
count = 3
share = 0.1
ratio = "1/3"
day = 2024-02-29
yes = true
[place]
path = "here"
[[analysts]]
name = "ada"
[[analysts]]
name = "alan"
extra = 1
"""


def written(text: str = TEXT) -> TomlTable:
    return TomlTable.parse(text, file="x.toml")


def mistakes(root: TomlTable) -> list[tuple[int, str, str]]:
    with pytest.raises(InvalidFile) as caught:
        root.finish(1)
    return [(mistake.line, mistake.key, mistake.message) for mistake in caught.value.mistakes]


def test_values_are_what_was_written_and_numbers_are_exact() -> None:
    root = written()
    zero, one = Fraction(0), Fraction(1)
    assert root.text("name", example="name") == "ada"
    assert root.whole("count", example="count", lower=1, upper=3) == 3
    assert root.exact("share", example="share", lower=zero, upper=one) == Fraction(1, 10)
    assert root.exact("ratio", example="ratio", lower=zero, upper=one) == Fraction(1, 3)
    assert root.date("day", example="day") == dt.date(2024, 2, 29)
    assert root.boolean("yes", example="yes") is True
    place = root.table("place", example="[place]")
    assert place is not None
    assert place.text("path", example="path") == "here"
    assert root.finish("done") == "done"


def test_what_is_left_out_has_its_default_and_is_no_mistake() -> None:
    root = written("")
    assert root.text("a", example="a", default="x") == "x"
    assert root.choice("b", ("x", "y"), default="y") == "y"
    assert root.whole("c", example="c", lower=0, upper=1, default=0) == 0
    assert root.boolean("d", example="d", default=False) is False
    assert root.exact("e", example="e", lower=Fraction(0), upper=Fraction(1), default=Fraction(0)) == 0
    assert not root.has("f")
    assert root.finish(1) == 1


def test_lists_of_tables_are_read_one_by_one_with_their_own_lines() -> None:
    root = written()
    analysts = root.tables("analysts", example="[[analysts]]")
    assert analysts is not None
    assert [analyst.text("name", example="name") for analyst in analysts] == ["ada", "alan"]
    for analyst in analysts:
        analyst.close()
    assert [mistake[:2] for mistake in mistakes(root)] == [(13, "analysts[1].extra")]


def test_a_list_of_tables_that_is_none_is_a_mistake() -> None:
    root = written("a = 1\nb = [\n{},\n3]")
    assert root.tables("a", example="[[a]]") is None
    assert root.tables("b", example="[[b]]") is None
    assert [mistake[:2] for mistake in mistakes(root)] == [(1, "a"), (4, "b[1]")]


def test_keys_that_nobody_asked_for_are_mistakes_once_a_table_is_closed() -> None:
    root = written("nmae = 1\nsomething = 2\nname = 'x'")
    assert root.text("name", example="name") == "x"
    assert root.finish(1) == 1
    root.close()
    assert mistakes(root) == [
        (1, "nmae", "nmae is not known (did you mean name?); the keys here are name."),
        (2, "something", "something is not known; the keys here are name."),
    ]


def test_two_readers_may_share_a_table() -> None:
    root = written("[a]\nx = 1\ny = 2")
    for key in ("x", "y"):
        table = root.table("a", example="[a]")
        assert table is not None
        table.has(key)
        table.note(key, "was seen")
    table.close()
    assert [message for *_, message in mistakes(root)] == ["a.x was seen.", "a.y was seen."]


def test_the_same_mistake_is_told_once() -> None:
    root = written("")
    root.text("a", example="a = 1")
    root.text("a", example="a = 1")
    assert len(mistakes(root)) == 1


def test_what_a_constructor_refuses_is_a_mistake_of_the_key_with_its_name() -> None:
    def refuse(argument: str) -> int:
        raise InvalidArgument(argument, 1, "write less")

    root = written("\na = 1")
    assert root.make(lambda: 5) == 5
    assert root.make(lambda: refuse("a")) is None
    assert root.make(lambda: refuse("b")) is None
    assert mistakes(root) == [
        (1, "", "this file is not accepted: write less."),
        (2, "a", "a is not accepted: write less."),
    ]


def test_a_text_that_may_be_a_secret_is_never_shown() -> None:
    root = written('a = "hunter2"\nb = ["hunter2"]')
    root.whole("a", example="a = 1", lower=0, upper=1)
    root.exact("a", example="a = 1", lower=Fraction(0), upper=Fraction(1))
    root.date("a", example="a = 2020-01-01")
    root.table("b", example="[b]")
    root.tables("b", example="[[b]]")
    with pytest.raises(InvalidFile) as caught:
        root.finish(1)
    assert len(caught.value.mistakes) == 5
    assert "hunter2" not in str(caught.value)


def test_a_reader_that_returns_nothing_without_a_mistake_is_a_bug() -> None:
    with pytest.raises(InvariantBroken, match=r"x\.toml was read"):
        written().finish(None)


def test_a_file_that_cannot_be_read_is_told_by_its_name(tmp_path) -> None:
    with pytest.raises(InvalidFile, match=r"gone\.toml: the file cannot be read: No such file") as caught:
        TomlTable.read(tmp_path / "gone.toml")
    assert caught.value.line == 0


def test_bytes_that_are_no_text_are_told_with_their_line(tmp_path) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b'a = 1\nb = "\xe9"\n')
    with pytest.raises(InvalidFile, match="save the file as UTF-8") as caught:
        TomlTable.read(path)
    assert caught.value.line == 2


@pytest.mark.parametrize("text", ["a = " + "9" * 5000, "a = " + "[" * 100_000])
def test_a_text_that_the_reader_chokes_on_is_refused_all_the_same(text: str) -> None:
    with pytest.raises(InvalidFile, match="this is not TOML that can be read"):
        written(text)


def test_a_long_number_does_not_fill_the_screen() -> None:
    root = written("a = " + "9" * 4000)
    root.whole("a", example="a = 1", lower=0, upper=1)
    assert len(mistakes(root)[0][2]) < 150
